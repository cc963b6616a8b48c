"""The pipeline of a training, for logs small and large: hold rows out, train, score.

A log that fits in memory is read whole: its columns are judged by all rows, and the forest is the
one that `edgeforest.train` gives. From a larger one, or with a checkpoint, `Streaming` draws samples.
"""

import signal
import sys
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from edgeforest import engines
import edgeforest.cli.report as report
from edgeforest.cli.outcome import Ready, Outcome
from edgeforest.cli.models import engine_asked
from edgeforest.cli.parser import Problem
from edgeforest.cli.scoring import Tally, commonest
from edgeforest.cli.screen import StatusLine, say
from edgeforest.budget import Budget, Rng
from edgeforest.engines.sampling import rest_of
from edgeforest.forest import Forest
from edgeforest.forests.calibration import calibrate
from edgeforest.host.cores import usable_cores
from edgeforest.host.words import count, reason
from edgeforest.sources import Source, SourceError, draw
from edgeforest.sources.schema import Schema, look

BLOCK = 256  # rows predicted at once, between two looks at Ctrl-C
HOLD_OUT = 1 << 21  # the random stream that draws held-out rows; trees have streams from 1 on
HELD_OUT = 20_000  # rows held out at most from a log that is not read whole


@dataclass
class Request:
    """What to train from, and how."""

    source: Source
    target: str
    whole: bool  # read all rows into memory
    budget: Budget  # its clock runs already: opening the log takes time, too
    seed: int = 0
    test_share: float = 0.2
    columns: dict[str, Any] = field(default_factory=dict)  # `categorical`, `drop` and `task`
    options: dict[str, Any] = field(default_factory=dict)  # other options of `train`
    checkpoint: str | None = None
    resume: bool = False
    refresh: bool = False


def fit(request: Request, status: StatusLine) -> Outcome:
    """Train as requested, and score the forest on held-out rows; prints what the log holds."""
    ready = begin(request, status)
    training, tally = ready.training, Tally(ready.schema.regression)
    stopped = cut = unwritten = False
    problem = ""
    grown: list[int] | None = None if training.grown else []
    try:
        stopped = advance(training, status, grown)
        if stopped and not request.whole and not training.grown:
            raise KeyboardInterrupt
        status.show("scoring held-out rows ...")
        cut = tally.add_blocks(
            training.forest(), labelled(ready.source, ready.schema, ready.held_out)
        )
    except (SourceError, OSError) as error:
        problem, unwritten = str(error), isinstance(error, OSError)
        if isinstance(error, OSError):
            problem = f"cannot write {request.checkpoint}: {reason(error)}"
        if not training.grown:
            raise Problem(problem) from None
    status.clear()
    forest = training.forest()
    engine = engine_used(str(training.grown.engine), request.options)
    return Outcome(forest, ready, tally, engine, stopped or cut, problem, unwritten, grown)


def held_out(ready: Ready) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """Features and targets of all rows that were held out."""
    rows: list[tuple[Any, ...]] = []
    truths: list[Any] = []
    for some, labels in labelled(ready.source, ready.schema, ready.held_out):
        rows += some
        truths += labels
    return rows, truths


def calibrate_by(ready: Ready, forest: Forest) -> None:
    """Calibrate a forest by the rows that were held out; says so, or why it cannot be."""
    try:
        rows, truths = held_out(ready)
        calibrate(forest, rows, truths)
        say("calibrated", f"by {count(len(rows), 'held-out row')}; predict --coverage uses it")
    except (ValueError, SourceError) as error:  # the forest must not be lost for it
        say("calibrated", f"not: {error}")


def begin(request: Request, status: StatusLine) -> Ready:
    """Make a training ready, and print what the log holds.

    This is where logs that are read whole differ from all others: in how rows are held out, in the
    rows that the schema comes from, and in `train_steps` or `Streaming`, which rounds the share of
    each tree in the budget and its importances so that a checkpoint can go on anywhere.
    """
    from edgeforest.sources.checkpoints import Begun, begun
    from edgeforest.sources.training import Streaming
    from edgeforest.sources.views import Rest
    from edgeforest.sources.whole import Whole, train_steps

    status.show(f"reading {request.source.name} ...")
    before, schema, training = Begun(request.source), None, None
    options = {**request.options, "seed": request.seed}
    try:
        if request.resume and request.checkpoint is not None:
            before = begun(request.source, request.checkpoint, request.refresh)
        source = before.source
        if request.whole:
            source = Whole(source, request.target)
            schema = look(source, request.target, None, **request.columns)
        held_out = held_out_rows(len(source), request)
        rest = Rest(source, held_out)
        options["budget"] = rest_of(request.budget)
        if schema is not None:
            status.show("turning values into codes ...")
            training = train_steps(rest, schema, **options)
            asked, guess = training.n_trees, best_guess(schema, held_out)
        else:
            kept = before.kept is not None
            training = Streaming(
                rest,
                request.target,
                checkpoint=request.checkpoint,
                resume=kept or before.forest is not None,
                refresh=kept,
                **request.columns,
                **options,
            )
            schema, asked, guess = training.schema, training.base + training.n_trees, None
    except OSError as error:
        what = request.checkpoint or request.source.name
        raise Problem(f"cannot read {what}: {reason(error)}") from None
    except (ValueError, TypeError, engines.Absent) as error:
        raise Problem(str(error)) from None
    status.clear()
    report.print_schema(source, schema, request.whole)
    report.print_begun(before, training, request.checkpoint)
    sys.stdout.flush()
    return Ready(training, source, schema, held_out, asked, guess, before.later)


def held_out_rows(n: int, request: Request) -> Sequence[int]:
    """The rows that are held out for the score, in ascending order: some, but not all."""
    size = min(n - 1, max(1, int(request.test_share * n + 0.5))) if request.test_share else 0
    rng = Rng(request.seed, HOLD_OUT)
    if not request.whole:
        size = min(HELD_OUT, size)
        return draw(rng, size, n) if size else []
    order = array("I", range(n))
    rng.shuffle(order, size)
    return sorted(order[:size])


def best_guess(schema: Schema, held_out: Sequence[int]) -> Any:
    """What to guess without features: the mean, or the commonest class, of the training rows."""
    apart = set(held_out)
    values = [v for i, v in enumerate(schema.found.target.values) if i not in apart]
    if schema.regression:
        return sum(map(float, values)) / len(values)  # type: ignore[arg-type]
    return commonest(Counter(values))


def labelled(
    source: Source, schema: Schema, rows: Sequence[int]
) -> Iterator[tuple[list[tuple[Any, ...]], Any]]:
    """Features and targets of some rows of a source, a block at a time."""
    kinds = schema.kinds(len(source.names))
    for at in range(0, len(rows), BLOCK):
        columns, labels = schema.columns(source.read_as(rows[at : at + BLOCK], kinds))
        yield list(zip(*columns, strict=True)), labels


def advance(training: Any, status: StatusLine, grown: list[int] | None = None) -> bool:
    """Train to the end, or to the first Ctrl-C; whether it was that.

    `grown` gets the insertions that were spent when each tree was done.
    """
    with Patience() as patience:
        for step in training:
            status.step(step)
            if grown is not None:
                grown += [step.budget.spent.insertions] * (len(step.grown) - len(grown))
            if patience.stopped:
                break
    return patience.stopped


def engine_used(name: str, options: dict[str, Any]) -> str:
    """An engine and its threads in words."""
    threads = (options.get("n_jobs") or 1) if name == "native" else 1
    if threads == -1:
        threads = usable_cores()
    words = f"{name}, {count(threads, 'thread')}"
    if name != engines.NAMES[0] and not engine_asked(options.get("engine")):
        words += "; edgeforest engines says how to get a faster one"
    return words


class Patience:
    """Notes Ctrl-C for a look between rounds; a second one is not waited for.

    An exception in the middle of a round could leave a node half made.
    """

    def __init__(self) -> None:
        self.stopped = False
        self._before: Any = signal.SIG_IGN

    def __enter__(self) -> "Patience":
        try:
            self._before = signal.getsignal(signal.SIGINT)
            if self._before is not signal.SIG_IGN:  # a job in the background stays undisturbed
                signal.signal(signal.SIGINT, self._stop)
        except ValueError:  # not the main thread, which alone gets Ctrl-C
            self._before = signal.SIG_IGN
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._before)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopped = True
        signal.signal(signal.SIGINT, self._before)
