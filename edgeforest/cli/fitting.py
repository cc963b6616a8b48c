"""The pipeline of a training, for logs small and large: train on all rows, then estimate the score.

A log that fits in memory is read whole: its columns are judged by all rows, and the forest is the
one that `edgeforest.train` gives. From a larger one, or with a checkpoint, `Streaming` draws samples.
"""

import sys
from dataclasses import dataclass, field
from typing import Any

from edgeforest import engines
import edgeforest.cli.report as report
from edgeforest.cli.outcome import Ready, Outcome
from edgeforest.cli.models import engine_asked
from edgeforest.cli.parser import Problem, Stopped
from edgeforest.cli.screen import StatusLine, say
from edgeforest.cli.signals import Patience
from edgeforest.budget import Budget
from edgeforest.engines.sampling import rest_of
from edgeforest.forest import Forest
from edgeforest.forests.calibration import calibrate_by_parts
from edgeforest.host.cores import usable_cores
from edgeforest.host.words import count, reason
from edgeforest.sources import Source, SourceError


@dataclass
class Request:
    """What to train from, and how."""

    source: Source
    target: str
    whole: bool  # read all rows into memory
    budget: Budget  # its clock runs already: opening the log takes time, too
    seed: int = 0
    holdout: str = "auto"  # what the score comes from
    time: str | None = None  # the column of dates, if one was named
    group: str | None = None  # the column of groups
    calibrate: bool = False
    columns: dict[str, Any] = field(default_factory=dict)  # `categorical`, `drop` and `task`
    options: dict[str, Any] = field(default_factory=dict)  # other options of `train`
    checkpoint: str | None = None
    resume: bool = False
    refresh: bool = False


def fit(request: Request, status: StatusLine) -> Outcome:
    """Train as requested, and estimate how good the forest is; prints what the log holds."""
    ready = begin(request, status)
    training = ready.training
    outcome = Outcome(None, ready, "")
    outcome.grown = None if training.grown else []
    try:
        outcome.stopped = advance(training, status, outcome.grown)
        if outcome.stopped and not request.whole and not training.grown:
            raise Stopped(outcome.stopped)
        if not outcome.stopped and not ready.later and request.holdout != "none":
            estimate(outcome, request, status)
    except (SourceError, OSError) as error:
        outcome.problem, outcome.unwritten = str(error), isinstance(error, OSError)
        if isinstance(error, OSError):
            outcome.problem = f"cannot write {request.checkpoint}: {reason(error)}"
        if not training.grown:
            raise Problem(outcome.problem) from None
    status.clear()
    outcome.forest = training.forest()
    outcome.engine = engine_used(str(training.grown.engine), request.options)
    return outcome


def estimate(outcome: Outcome, request: Request, status: StatusLine) -> None:
    """Leave blocks of rows out in turn, with what the forest has left of the budget."""
    from edgeforest.scores.from_source import estimating

    status.show("leaving rows out in turn, for the score ...")
    budget = rest_of(request.budget)
    if budget.insertions is not None:
        left = budget.insertions - outcome.ready.training.budget.spent.insertions
        budget = Budget(max(1, left), budget.seconds, budget.bytes)
    ready = outcome.ready
    try:
        work = estimating(
            ready.source,
            ready.schema,
            holdout=request.holdout,
            time=request.time,
            group=request.group,
            budget=budget,
            seed=request.seed,
            **request.options,
        )
    except SourceError:
        raise
    except ValueError as error:  # the forest must not be lost for it
        outcome.unscored = str(error)
        return
    if request.calibrate:
        work.parts = outcome.parts
    outcome.estimate = work.found
    try:
        outcome.stopped = advance(work, status)
    except ValueError as error:  # such as too few bytes for a block
        outcome.unscored = str(error)


def calibrated(outcome: Outcome) -> None:
    """Calibrate the forest by the blocks that were left out; says so, or why it cannot be."""
    forest: Forest = outcome.forest
    try:
        rows = calibrate_by_parts(forest, outcome.parts)
        say("calibrated", f"by {count(rows, 'left-out row')}; predict --coverage uses it")
    except ValueError as error:  # the forest must not be lost for it
        say("calibrated", f"not: {error}")


def begin(request: Request, status: StatusLine) -> Ready:
    """Make a training ready, and print what the log holds.

    This is where logs that are read whole differ from all others: in the rows that the schema comes
    from, and in `train_steps` or `Streaming`, which rounds the share of each tree in the budget and
    its importances so that a checkpoint can go on anywhere.
    """
    from edgeforest.scores.from_source import forest_part
    from edgeforest.sources.checkpoints import Begun, begun
    from edgeforest.sources.schema import look
    from edgeforest.sources.training import Streaming
    from edgeforest.sources.whole import Whole, train_steps

    status.show(f"reading {request.source.name} ...")
    before, schema, training = Begun(request.source), None, None
    options = {**request.options, "seed": request.seed}
    try:
        if request.resume and request.checkpoint is not None:
            before = begun(request.source, request.checkpoint, request.refresh)
        source = before.source
        if request.whole:
            source = Whole(source, request.target, status.watch_rows("reading", source.name))
            schema = look(source, request.target, None, **request.columns)
        options["budget"] = forest_part(request.budget, request.holdout)
        if schema is not None:
            status.show("turning values into codes ...")
            training = train_steps(source, schema, **options)
            asked = training.n_trees
        else:
            kept = before.kept is not None
            training = Streaming(
                source,
                request.target,
                checkpoint=request.checkpoint,
                resume=kept or before.forest is not None,
                refresh=kept,
                **request.columns,
                **options,
            )
            schema, asked = training.schema, training.base + training.n_trees
    except OSError as error:
        what = request.checkpoint or request.source.name
        raise Problem(f"cannot read {what}: {reason(error)}") from None
    except (ValueError, TypeError, engines.Absent) as error:
        raise Problem(str(error)) from None
    status.clear()
    report.print_schema(source, schema, request.whole, request.options.get("class_weight"))
    report.print_begun(before, training, request.checkpoint)
    report.print_plan(request.budget, options["budget"])
    sys.stdout.flush()
    return Ready(training, source, schema, asked, before.later)


def advance(training: Any, status: StatusLine, grown: list[int] | None = None) -> int:
    """Go on to the end, or to the first signal; the number of that signal, or 0.

    `grown` gets the insertions that were spent when each tree was done.
    """
    with Patience() as patience:
        for step in training:
            status.step(step, training)
            if grown is not None:
                grown += [step.budget.spent.insertions] * (len(step.grown) - len(grown))
            if patience.signal:
                break
    return patience.signal


def engine_used(name: str, options: dict[str, Any]) -> str:
    """An engine and its threads in words."""
    if "n_jobs" in options and options["n_jobs"] is None:  # only --dask leaves it open
        return f"{name}, on the workers of Dask"
    threads = (options.get("n_jobs") or 1) if name == "native" else 1
    if threads == -1:
        threads = usable_cores()
    words = f"{name}, {count(threads, 'thread')}"
    if name != engines.NAMES[0] and not engine_asked(options.get("engine")):
        words += "; edgeforest engines says how to get a faster one"
    return words
