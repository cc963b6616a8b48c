"""The command `train`: a forest from a log."""

import argparse
import os
import time
from contextlib import ExitStack
from typing import Any

from edgeforest import engines
import edgeforest.cli.arguments as arguments
import edgeforest.cli.logs as logs
import edgeforest.cli.pages as pages
from edgeforest.cli.fitting import Request, calibrated, fit
from edgeforest.cli.outcome import Outcome
from edgeforest.cli.models import check_engine
from edgeforest.cli.parser import Problem, add_command
from edgeforest.cli.report import facts, print_outcome
from edgeforest.cli.saving import kept_elsewhere, kept_file, refuse_output, save
from edgeforest.cli.screen import StatusLine, say
from edgeforest.budget import Budget
from edgeforest.host.cluster import connected
from edgeforest.sources import Source
from edgeforest.splits import HOLDOUTS
from edgeforest.sources.schema import obvious_target, refuse_unknown, refuse_wide

OF_A_CELL = 100  # bytes that a cell takes in memory while it is made ready
SECONDS_OF_A_CELL = 4e-6  # that this takes, on a small computer
IN_MEMORY = 100_000_000  # bytes of a log that is read whole, where no limit is given
SMALL = 4_000_000  # the same, however low the limit is
TASKS = {"mse": "regression", "gini": "classification", "entropy": "classification"}
OPTIONS = ("kind", "criterion", "splitter", "n_trees", "max_depth", "min_samples_leaf",
           "max_features", "n_bins", "class_weight", "engine", "n_jobs")  # fmt: skip


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "train",
        run,
        "train a forest from a log",
        "A log of any size: rows are drawn at random from all of it. Columns of numbers are used "
        "as they are, columns of text as categories; dates are left out unless --dates names them. "
        "Ctrl-C ends the training early and keeps the forest so far.",
        "edgeforest train log.csv --target activity --seconds 30s --out model.json",
    )
    parser.add_argument("log", nargs="+", help=logs.HELP)
    parser.add_argument(
        "--target",
        metavar="NAME",
        help="the column to predict (default: one called target, label, class, y or outcome)",
    )
    parser.add_argument(
        "--out", metavar="FILE", help="where to write the model, as JSON; - for the standard output"
    )
    pages.add_report(parser)
    add_score(parser)
    add_budget(parser)
    add_power_loss(parser)
    add_engine(parser)
    logs.add_reading(parser)
    add_columns(parser)
    add_forest(parser)


def add_score(parser: argparse.ArgumentParser) -> None:
    """Add the options of the score."""
    score = parser.add_argument_group(
        "score", "the forest is trained on all rows; others, each without some of them, are scored"
    )
    score.add_argument(
        "--holdout",
        choices=HOLDOUTS,
        default="auto",
        help="auto: leave out days in turn, or stretches of a log that is shorter; random: rows at "
        "random, which is far too good if neighbours are alike; none: no score (default auto)",
    )
    score.add_argument(
        "--group",
        metavar="NAME",
        help="leave out the values of this column in turn, such as stations; it is no feature then",
    )
    score.add_argument(
        "--calibrate",
        action="store_true",
        help="learn from the rows left out how sure the forest is, for predict --coverage and "
        "export --coverage",
    )


def add_budget(parser: argparse.ArgumentParser) -> None:
    """Add the options of the budget."""
    budget = parser.add_argument_group(
        "budget",
        "hard limits of the forest and its score together; numbers may end in k, M or G (thousands, "
        "millions, ...); after `edgeforest calibrate`, train says what they mean on this device",
    )
    budget.add_argument(
        "--budget",
        type=arguments.amount,
        metavar="N",
        help="at most N histogram insertions, such as 2M",
    )
    budget.add_argument(
        "--seconds",
        type=arguments.seconds,
        metavar="S",
        help="at most S seconds, or such as 30s, 10min or 2h, to open the log and train; if half of "
        "them are not enough to read all rows, a random sample is used (a text file without an "
        "index still gets a whole one)",
    )
    budget.add_argument(
        "--deadline",
        type=arguments.deadline,
        metavar="T",
        help="be done at this time, such as 07:00 (the next one), 2024-05-01T07:00 or 30min (from now)",
    )
    budget.add_argument(
        "--bytes",
        type=arguments.bytes_of,
        metavar="B",
        help="train within B bytes of memory, such as 64MB (M and MB are a million, MiB is 1024 * "
        "1024); if not all rows fit, samples of them are read (default 100M for rows)",
    )


def add_power_loss(parser: argparse.ArgumentParser) -> None:
    """Add the options of checkpoints."""
    power = parser.add_argument_group("power loss")
    power.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="write the model to FILE after each tree, so that a power cut loses one tree at most",
    )
    power.add_argument(
        "--resume",
        action="store_true",
        help="go on from the checkpoint, if there is one, to the forest of an undisturbed "
        "training, with all other options as before; if the log has grown since, finish with the "
        "old rows first, then train anew on all of them",
    )
    power.add_argument(
        "--refresh",
        action="store_true",
        help="with --resume, when there are more rows: keep the trees of the checkpoint and add "
        "the same number again, grown on all rows, instead of training anew",
    )


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add the options of the engine."""
    engine = parser.add_argument_group("engine", "these change the speed, never the forest")
    engine.add_argument(
        "--engine",
        choices=engines.NAMES,
        help="what trains (default: the fastest that is present; `edgeforest engines` lists them)",
    )
    engine.add_argument(
        "--jobs",
        dest="n_jobs",
        type=arguments.jobs,
        default=1,
        metavar="N",
        help="threads, -1 for every core (default 1); only native uses more than one",
    )
    engine.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="grow the trees on the workers of this Dask scheduler, such as tcp://10.0.0.5:8786; "
        "they must find the log at the same path; the forest is that of --checkpoint",
    )


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Add the options of columns."""
    columns = parser.add_argument_group("columns")
    columns.add_argument(
        "--task",
        choices=("auto", "classification", "regression"),
        default="auto",
        help="auto: classification if the target is text, or at most 20 distinct whole numbers",
    )
    for option, text in (
        ("--categorical", "columns of numbers that are categories, such as ids of rooms"),
        ("--drop", "columns to leave out"),
    ):
        columns.add_argument(
            option,
            type=arguments.column_names,
            action="extend",
            default=[],
            metavar="A,B",
            help=text,
        )


def add_forest(parser: argparse.ArgumentParser) -> None:
    """Add the options of the forest; each has the name of its argument of `train` as `dest`."""
    forest = parser.add_argument_group("forest")
    forest.add_argument(
        "--kind",
        choices=("random-forest", "extra-trees", "random-patches"),
        default="random-forest",
        help="how trees are made to differ (default random-forest)",
    )
    forest.add_argument(
        "--criterion",
        choices=("gini", "entropy", "mse"),
        help="what a split improves (default gini for classes, mse for numbers)",
    )
    forest.add_argument(
        "--splitter",
        choices=("mab", "mab-paper", "exact"),
        default="mab",
        help="mab: the bandit (default); mab-paper: as in the paper; exact: count every row",
    )
    forest.add_argument(
        "--class-weight",
        choices=("balanced",),
        help="balanced: draw rare classes as often as common ones",
    )
    for option, dest, low, high, default, text in (
        ("--trees", "n_trees", 1, 4096, 20, "trees (default 20)"),
        ("--max-depth", "max_depth", 0, 1 << 20, None, "splits above a leaf (default: no limit)"),
        ("--min-samples-leaf", "min_samples_leaf", 1, 1 << 29, 1, "rows in a leaf (default 1)"),
        (
            "--bins",
            "n_bins",
            2,
            255,
            None,
            "thresholds of a feature that a node looks at (default 16)",
        ),
        ("--seed", "seed", 0, (1 << 30) - 1, 0, "same seed, same data: same forest (default 0)"),
    ):
        forest.add_argument(
            option,
            dest=dest,
            type=arguments.whole_number(low, high),
            default=default,
            metavar="N",
            help=text,
        )
    forest.add_argument(
        "--max-features",
        type=arguments.part,
        metavar="N",
        help="features that a node looks at, or their share such as 0.5 (default: square root of all)",
    )


def run(args: argparse.Namespace) -> int:
    """Train a forest from a log."""
    refuse_contradictions(args)
    if args.dask is None:
        return train(args)
    args.n_jobs = None  # those of the cluster
    with ExitStack() as block:
        try:
            block.enter_context(connected(args.dask))
        except (ImportError, ValueError) as error:
            raise Problem(str(error)) from None
        return train(args)


def train(args: argparse.Namespace) -> int:
    """Train a forest from a log, on this machine or on the cluster in use."""
    task = TASKS.get(args.criterion, args.task)
    if args.task not in ("auto", task):
        raise Problem(
            f"--criterion {args.criterion} is for {task}, got --task {args.task}; leave one out"
        )
    status = StatusLine(args.quiet)
    budget = Budget(args.budget, time_limit(args), args.bytes)  # its clock begins here
    with logs.opened(args, status) as source:
        if args.target is None:
            args.target = obvious_target(source)
        refuse_wide(source, args.drop)
        outcome = fit(request_of(source, args, task, budget), status)
        print_outcome(outcome)
        while outcome.ready.later and not (outcome.stopped or outcome.problem):
            # The old rows are done: until all rows are, too, this is the model.
            if args.out is not None:
                save(outcome.forest, args.out, args.stream)
            print()
            outcome = fit(request_of(source, args, task, budget.copy()), status)
            print_outcome(outcome)
        if args.calibrate and not outcome.problem:
            calibrated(outcome)
        args.facts.update(facts(outcome), out=args.out)
        code = saved(outcome, args)
        pages.report_training(outcome, args)
    return code


def time_limit(args: argparse.Namespace) -> float | None:
    """Seconds until the earlier of the two limits in time."""
    seconds: float | None = args.seconds
    if args.deadline is None:
        return seconds
    left: float = args.deadline - time.time()
    if left < 0.001:
        raise Problem("--deadline is over; give a later one")
    return left if seconds is None else min(left, seconds)


def refuse_contradictions(args: argparse.Namespace) -> None:
    """Refuse, before any work, options that cannot work."""
    refuse_output(args.out, *args.log)
    refuse_output(args.checkpoint, *args.log, option="--checkpoint")
    pages.refuse_report(args, *args.log)
    check_engine(args.engine)
    if args.dask is not None and (args.seconds or args.deadline or "-" in args.log):
        raise Problem("--dask needs files, and no limit in seconds; give --budget instead")
    if args.resume and args.checkpoint is None:
        raise Problem("--resume goes on from a checkpoint; give its path with --checkpoint")
    if args.refresh and not args.resume:
        raise Problem("--refresh adds trees to a finished checkpoint; give --resume, too")
    if args.calibrate and (args.holdout == "none" or args.out is None):
        raise Problem(
            "--calibrate needs rows that are left out and a model to write; give --out, and not "
            "--holdout none"
        )
    if args.group is not None and args.holdout != "auto":
        raise Problem(f"--group leaves out groups, got --holdout {args.holdout}; leave one out")
    if args.group is not None and args.group == args.target:
        raise Problem(f"--group {args.group} is the target; name another column")
    if args.out == "-" and args.json:
        raise Problem("--out - writes the model where --json prints; give another --out")
    if args.checkpoint and not args.resume and os.path.exists(args.checkpoint):
        raise Problem(
            f"{args.checkpoint} exists already; add --resume to go on from it, or remove it"
        )


def request_of(source: Source, args: argparse.Namespace, task: str, budget: Budget) -> Request:
    """What a training needs to know; a small log is read whole."""
    from edgeforest.sources.views import is_part

    cells = len(source) * len(source.names)
    group = [] if args.group is None else [args.group]
    refuse_unknown(source, group)
    slow = budget.seconds is not None and cells * SECONDS_OF_A_CELL > budget.seconds / 8
    large = OF_A_CELL * cells > max(SMALL, args.bytes or IN_MEMORY)
    return Request(
        source,
        args.target,
        whole=not (args.checkpoint or args.dask or slow or large),
        budget=budget,
        seed=args.seed,
        holdout=args.holdout,
        time=next((name for name in args.dates if not is_part(name)), None),
        group=args.group,
        calibrate=args.calibrate,
        columns={"categorical": args.categorical, "drop": [*args.drop, *group], "task": task},
        options={name: getattr(args, name) for name in OPTIONS},
        checkpoint=args.checkpoint,
        resume=args.resume,
        refresh=args.refresh,
    )


def saved(outcome: Outcome, args: argparse.Namespace) -> int:
    """Write the model where it was asked for; the exit code."""
    if args.out is not None:
        save(outcome.forest, args.out, args.stream)
    elif args.checkpoint is None:
        say("saved", "nothing; give --out model.json to keep the forest")
    if args.checkpoint is not None and os.path.exists(args.checkpoint):
        early = outcome.stopped or outcome.problem
        unfinished = early and len(outcome.forest) < outcome.ready.asked_trees
        more = "; --resume goes on" if unfinished else ""
        say("saved", kept_file(args.checkpoint, more), wrap=False)
    if outcome.problem:
        where = ""
        if outcome.unwritten and args.out is None:
            where = f"; {kept_elsewhere(outcome.forest, args.checkpoint)}"
        raise Problem(outcome.problem + where)
    return 128 + outcome.stopped if outcome.stopped else 0
