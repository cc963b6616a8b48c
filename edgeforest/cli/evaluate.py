"""The command `evaluate`: how well a model predicts a log that it has not seen."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import edgeforest.cli.logs as logs
from edgeforest.cli.models import load_model
from edgeforest.cli.parser import Problem, add_command
from edgeforest.cli.screen import StatusLine, joined_parts, say, tell
from edgeforest.host.names import quoted, short
from edgeforest.host.words import count, rounded
from edgeforest.sources import open_source

if TYPE_CHECKING:
    from edgeforest.scores import Evaluation

SHOWN = 12  # classes of a table, and groups, at most
STRANGE = 0.01  # of the values: more are worth a word


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "evaluate",
        run,
        "score a model on a log that it has not seen",
        "Columns are found by their names; rows without a truth are left out.",
        "edgeforest evaluate model.json next_week.csv --by time --baseline",
    )
    parser.add_argument("model", help="a model that train wrote; - for the standard input")
    parser.add_argument("log", nargs="+", help=logs.HELP)
    parser.add_argument(
        "--target",
        metavar="NAME",
        help="the column with the truth (default: the only one that can be)",
    )
    parser.add_argument(
        "--by", metavar="NAME", help="score each value of this column by itself; each day of dates"
    )
    parser.add_argument(
        "--baseline",
        action="store_true",
        help="also score simple answers: always the commonest class, or the mean, of this log; the "
        "truth of the row before",
    )
    parser.add_argument(
        "--trained-on",
        metavar="LOG",
        help="with --baseline: also score scikit-learn's forest of as many trees, trained on this "
        "log (if scikit-learn is installed)",
    )
    logs.add_reading(parser)


def run(args: argparse.Namespace) -> int:
    """Score a model on a log."""
    from edgeforest.scores.evaluation import evaluate, truth_column

    if args.trained_on is not None and not args.baseline:
        raise Problem("--trained-on is the log of a baseline; give --baseline, too")
    if args.model == "-" and "-" in args.log:
        raise Problem("- is the standard input, which holds a model or a log; give one as a file")
    forest = load_model(args.model)
    status = StatusLine(args.quiet)
    with logs.opened(args, status) as source:
        target = args.target or truth_column(forest, source)
        watch = status.watch_rows("scoring", source.name)
        found = evaluate(forest, source, target, by=args.by, progress=watch)
        status.clear()
        name = source.name
        args.facts.update(model=args.model, log=name, target=target, **found.facts())
        print_scores(found, f"{name}: {count(found.rows, 'row')}", target)
        if args.baseline:
            args.facts["baselines"] = print_baselines(found, forest, source, target, args)
        print_groups(found, args.by)
        print_odd(found)
    return 0


def print_scores(found: "Evaluation", rows: str, target: str) -> None:
    """Print every measure."""
    facts = found.facts()
    say("read", rows, wrap=False)
    if found.unlabelled:
        say("", f"left out: {count(found.unlabelled, 'row')} without a value of {quoted(target)}")
    if found.regression:
        say("score", f"mean squared error {rounded(facts['mse'])}, mean absolute error "
                     f"{rounded(facts['mae'])}, R2 {number(facts['r2'])}")  # fmt: skip
        half, most, nearly = facts["errors"].values()
        say("errors", f"half are below {rounded(half)}, 90 % below {rounded(most)}, 99 % below "
                      f"{rounded(nearly)}")  # fmt: skip
        return
    say("score", f"accuracy {facts['accuracy']:.3f}, balanced {facts['balanced_accuracy']:.3f}")
    say("", f"log loss {number(facts['log_loss'])}, calibration error "
            f"{number(facts['calibration_error'])}")  # fmt: skip
    parts = zip(facts["labels"], facts["f1"], facts["found"], strict=True)
    say("classes", joined_parts([
        f"{short(label)}: F1 {f1:.3f}" + ("" if part is None else f", {part:.0%} found")
        for label, f1, part in parts
    ]))  # fmt: skip
    print_table(facts["labels"], facts["confusion"])


def print_table(labels: Sequence[Any], table: Sequence[Sequence[int]]) -> None:
    """Print the confusion matrix, if it is not too wide."""
    if len(labels) > SHOWN:
        say("", f"the table of {len(labels)} classes is in --json")
        return
    names = [short(label, 12) for label in labels]
    cells = [names, *[[f"{n:,}" for n in row] for row in table]]
    widths = [2 + max(len(row[k]) for row in cells) for k in range(len(names))]
    wide = max(map(len, names))
    heading = "answers"
    for truth, row in zip(["truth", *names], cells, strict=True):
        line = "".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=True))
        tell(f"{heading:<11}{truth:<{max(5, wide)}}{line}")
        heading = ""


def print_baselines(
    found: "Evaluation", forest: Any, source: Any, target: str, args: argparse.Namespace
) -> dict[str, Any]:
    """Print what simple answers score, and scikit-learn's forest; the same as plain values."""
    scores: dict[str, Any] = found.baselines()
    show = rounded if found.regression else "{:.3f}".format
    always = "the mean" if found.regression else quoted(found.guess())
    say("beside", f"{show(scores['always'])} by always answering {always}")
    say("", f"{show(scores['last row'])} by the truth of the row before")
    if args.trained_on is not None:
        from edgeforest.scores.evaluation import sklearn_score

        try:
            with open_source(args.trained_on, dates=args.dates) as log:
                scores["scikit-learn"] = score = sklearn_score(forest, log, source, target)
            say("", f"{show(score)} by scikit-learn's forest of {count(len(forest), 'tree')}")
        except ImportError:
            say("", "scikit-learn is not installed")
    return scores


def print_groups(found: "Evaluation", by: str | None) -> None:
    """Print the score of each group, the worst first."""
    if by is None:
        return
    order = sorted(
        found.groups, key=lambda name: found.groups[name].score * (-1) ** found.regression
    )
    heading = "groups"
    for name in order[:SHOWN]:
        group = found.groups[name]
        score = rounded(group.score) if found.regression else f"{group.score:.3f}"
        say(heading, f"{score} on {short(name)} ({count(group.rows, 'row')})", wrap=False)
        heading = ""
    if len(order) > SHOWN:
        say("", f"and {count(len(order) - SHOWN, 'better one')}")


def print_odd(found: "Evaluation") -> None:
    """Say how much of the log looks like nothing that the model was trained on."""
    odd = found.odd
    if odd is None:
        return
    if not odd.known:
        say("unlike", "not known: the model has no ranges; train it again to have them")
    elif odd.share < STRANGE and not any(one.low is None for one in odd.odd()):
        say("unlike", f"{odd.share:.1%} of the values are outside of what the model was trained on")
        return
    else:
        say("unlike", f"{odd.share:.1%} of the values are like none that the model was trained on:")
    for one in odd.odd()[:5]:
        where = f"such as {quoted(one.example)}, which is new"
        if one.low is not None and one.high is not None:
            where = f"such as {rounded(one.example)}, not from {rounded(one.low)} to {rounded(one.high)}"
        say("", f"{short(one.name)}: {count(one.count, 'value')} ({one.share:.1%}), {where}")


def number(value: float | None) -> str:
    """A number, or a dash if it is not defined."""
    return "-" if value is None else rounded(value)
