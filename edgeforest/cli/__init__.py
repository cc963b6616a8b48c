"""The command line: train a forest from a log, predict with it, look into it, export it.

Exit codes: 0 done, 2 something is wrong with what was given (one sentence on stderr says what),
130 stopped by Ctrl-C (a forest in training is kept all the same), 141 nobody read the output on.
"""

import argparse
import csv
import io
import os
import re
import shutil
import signal
import sys
import tempfile
import textwrap
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

import edgeforest
from edgeforest import engines, files
from edgeforest.engines.sampling import rest_of
from edgeforest.host.names import joined, listed, quoted, short, visible
from edgeforest.sources import Source, SourceError, draw, open_source, tables
from edgeforest.sources.schema import Schema, plain, refuse_wide, whole
from edgeforest.sources.tables import (
    MAX_AUTO_CLASSES,
    MAX_NUMBER,
    Dataset,
    TableError,
    Value,
    count,
    prepare,
    reason,
)
from edgeforest.sources.views import Rest, is_part

LEAF = 0xFFFF  # in a forest's `feature`: no split here
BLOCK = 256  # rows predicted at once, between two looks at Ctrl-C
HOLD_OUT = 1 << 21  # the random stream that draws held-out rows; trees have streams from 1 on
HELD_OUT = 20_000  # rows at most of a source that is too large for memory
OF_A_CELL = 100  # bytes that a cell takes in memory while it is made ready
SECONDS_OF_A_CELL = 4e-6  # that this takes, on a small computer
IN_MEMORY = 100_000_000  # bytes of a table that is read whole, where no limit is given
SMALL = 4_000_000  # the same, however low the limit is
WIDTH = 92  # of printed lines
BAR = 24  # characters of the longest bar
SUFFIXES = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3}
NO_BREAK = "\xa0"  # a space at which no line is broken
MANY_CLASSES = 100  # more are rather an id


class Problem(Exception):
    """What is wrong with what the user gave, in one sentence."""


# ---- Training, shared with the demo -----------------------------------------------------------


class Progress:
    """One line on stderr that is written over and over; none at all unless that is a terminal."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self._last = 0.0

    def show(self, text: str) -> None:
        """Replace the line."""
        if self.live:
            sys.stderr.write(f"\r\x1b[K{visible(text)}")
            sys.stderr.flush()

    def step(self, training: Any) -> None:
        """Say how far a training is, ten times a second at most."""
        if self.live and time.monotonic() - self._last > 0.1:
            self._last = time.monotonic()
            spent = f"{training.budget.spent.insertions:,}"
            limit = training.budget.insertions
            of = "" if limit is None else f" of {limit:,}"
            trees = f"{len(training.grown)} of {training.planned}"
            self.show(f"training: {spent}{of} insertions, {trees} trees done (Ctrl-C keeps them)")

    def bytes_of(self, name: str) -> Callable[[int, int], None]:
        """What says how far a file has been looked through."""

        def show(done: int, of: int) -> None:
            if self.live and time.monotonic() - self._last > 0.1:
                self._last = time.monotonic()
                self.show(f"looking through {name}: {done / max(1, of):.0%}")

        return show

    def clear(self) -> None:
        """Take the line away."""
        self.show("")


class Patience:
    """Turn Ctrl-C into a question that is asked between rounds; a second one does not wait.

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
        except ValueError:  # not the main thread: Ctrl-C does not come here
            self._before = signal.SIG_IGN
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._before)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopped = True
        signal.signal(signal.SIGINT, self._before)


class Score:
    """How well predictions fit the truth, beside always guessing the same."""

    def __init__(self, regression: bool) -> None:
        self.regression = regression
        self.rows = 0
        self.labels: Counter[Any] = Counter()
        self.found: Counter[Any] = Counter()
        self.mean = 0.0
        self._squares = 0.0
        self._errors = 0.0

    def add(self, truth: Any, prediction: Any) -> None:
        """Count one row."""
        self.rows += 1
        if not self.regression:
            self.labels[truth] += 1
            self.found[truth] += truth == prediction
            return
        step = truth - self.mean
        self.mean += step / self.rows
        self._squares += step * (truth - self.mean)
        self._errors += (truth - prediction) ** 2

    def words(self, rows: str, guess: Any = None) -> tuple[str, str]:
        """The score on what is named `rows`, and that of the guess: the commonest or the mean."""
        if self.regression:
            guess = self.mean if guess is None else guess
            naive = self._squares / self.rows + (self.mean - guess) ** 2
            return (
                f"mean squared error {number(self._errors / self.rows)} on {rows}",
                f"{number(naive)} by always guessing the mean, {number(guess)}",
            )
        guess = commonest(self.labels) if guess is None else guess
        return (
            f"accuracy {self.found.total() / self.rows:.3f} on {rows}",
            f"{self.labels[guess] / self.rows:.3f} by always guessing {quoted(guess)}",
        )

    def by_class(self) -> str:
        """The share of each class's rows that were found, in words."""
        return shares([(label, self.found[label] / n) for label, n in self.labels.most_common()])


@dataclass
class Fitted:
    """A forest and what a report of its training says."""

    forest: Any
    held_out: Sequence[int]
    score: Score
    guess: Any  # of one who looks at the training rows and not at the features
    asked_trees: int
    engine: str  # and its threads, in words
    interrupted: bool
    problem: str = ""  # that ended the training early
    unwritten: bool = False  # the problem: the checkpoint could not be written
    notes: list[str] = field(default_factory=list)  # of what was met among the rows
    source: Source | None = None  # that it was trained from, if that was not all of the log
    later: int = 0  # rows of the log that it was not trained from


def fit(
    data: Dataset, *, test_share: float, seed: int, progress: Progress, **options: Any
) -> Fitted:
    """Hold rows out, train on the others with `options` of `train_steps`, score on the held-out."""
    n = len(data.rows)
    order = array("I", range(n))
    size = rows_held_out(n, test_share)
    edgeforest.Rng(seed, HOLD_OUT).shuffle(order, size)
    held_out, kept = sorted(order[:size]), sorted(order[size:])
    y = [data.y[i] for i in kept]
    progress.show("turning values into codes ...")
    try:
        training = engines.train_steps(
            [data.rows[i] for i in kept],
            y,
            names=data.names,
            categorical=list(data.categories),
            seed=seed,
            **options,
        )
    except (ValueError, TypeError, engines.Absent) as error:
        raise Problem(str(error)) from None
    stopped = advance(training, progress)
    forest = training.forest()
    progress.show("scoring held-out rows ...")
    blocks = (held_out[at : at + BLOCK] for at in range(0, size, BLOCK))
    truths = (([data.rows[i] for i in some], [data.y[i] for i in some]) for some in blocks)
    score = Score(data.regression)
    cut = add_scores(score, forest, truths)
    progress.clear()
    guess = sum(map(float, y)) / len(y) if data.regression else commonest(Counter(y))
    engine = engine_used(training.engine.name, options)
    return Fitted(forest, held_out, score, guess, training.n_trees, engine, stopped or cut)


def fit_source(
    source: Source,
    target: str,
    *,
    test_share: float,
    seed: int,
    progress: Progress,
    resume: bool = False,
    refresh: bool = False,
    **options: Any,
) -> Fitted:
    """The same from a source of any size, with `options` of `Streaming`; says what it found."""
    from edgeforest.sources import checkpoints  # the other commands start without it
    from edgeforest.sources.training import Streaming

    progress.show(f"reading rows of {source.name} ...")
    before = checkpoints.Begun(source)
    try:
        if resume:
            before = checkpoints.begun(source, options["checkpoint"], refresh)
        source = before.source
        size = min(HELD_OUT, rows_held_out(len(source), test_share))
        held_out = draw(edgeforest.Rng(seed, HOLD_OUT), size, len(source)) if size else []
        kept = before.kept is not None
        options.update(resume=kept or before.forest is not None, refresh=kept)
        training = Streaming(Rest(source, held_out), target, seed=seed, **options)
    except OSError as error:
        raise Problem(f"cannot read {options['checkpoint']}: {reason(error)}") from None
    except (ValueError, TypeError, engines.Absent) as error:
        raise Problem(str(error)) from None
    schema = training.schema
    progress.clear()
    print_schema(source, schema)
    print_notes(source)
    print_begun(before, training, options["checkpoint"])
    sys.stdout.flush()
    stopped = cut = False
    score, problem, unwritten = Score(schema.regression), "", False
    try:
        stopped = advance(training, progress)
        if stopped and not training.grown:
            raise KeyboardInterrupt
        progress.show("scoring held-out rows ...")
        cut = add_scores(score, training.forest(), labelled(source, schema, held_out))
    except (SourceError, OSError) as error:
        problem = str(error)
        unwritten = isinstance(error, OSError)
        if isinstance(error, OSError):
            problem = f"cannot write {options['checkpoint']}: {reason(error)}"
        if not training.grown:
            raise Problem(problem) from None
    progress.clear()
    forest = training.forest()
    engine = engine_used(str(training.grown.engine), options)
    asked, ended = training.base + training.n_trees, stopped or cut
    fitted = Fitted(forest, held_out, score, None, asked, engine, ended, problem, unwritten)
    fitted.source, fitted.later = source, before.later
    fitted.notes = met(schema)
    return fitted


def print_begun(before: Any, training: Any, checkpoint: str | None) -> None:
    """Say what there was to go on from, and with which rows."""
    if before.note:
        say("rows", before.note, wrap=False)
    if before.forest is not None:
        done = f"{len(training.grown)} of {count(training.planned, 'tree')} were done"
        more = "" if len(training.grown) < training.planned else "; remove it to train anew"
        say("resumed", f"{checkpoint}: {done}{more}", wrap=False)


def met(schema: Schema) -> list[str]:
    """What was met among the rows that could not be used as it stands, in words."""
    notes = []
    if schema.unlabelled:
        notes.append(f"{count(schema.unlabelled, 'row')} without a target left out")
    for name, n in schema.odd.items():
        notes.append(f"{count(n, 'value')} of {name} taken as missing: not a number")
    return notes


def rows_held_out(n: int, share: float) -> int:
    """How many of n rows are held out: at least one, but not all."""
    return min(n - 1, max(1, int(share * n + 0.5))) if share else 0


def advance(training: Any, progress: Progress) -> bool:
    """Train to the end, or to the first Ctrl-C; whether it was that."""
    with Patience() as patience:
        for step in training:
            progress.step(step)
            if patience.stopped:
                break
    return patience.stopped


def labelled(
    source: Source, schema: Schema, rows: Sequence[int]
) -> Iterator[tuple[list[tuple[Any, ...]], Any]]:
    """Features and targets of some rows of a source, a block at a time."""
    for at in range(0, len(rows), BLOCK):
        columns, labels = schema.columns(source.read(rows[at : at + BLOCK]))
        yield list(zip(*columns, strict=True)), labels


def add_scores(score: Score, forest: Any, blocks: Iterable[tuple[Any, Sequence[Any]]]) -> bool:
    """Score a forest on blocks of rows and targets; whether Ctrl-C came before the last."""
    try:
        for rows, truths in blocks:
            answers = forest.predict(rows) if len(rows) else []
            for truth, answer in zip(truths, answers, strict=True):
                score.add(truth, answer)
    except KeyboardInterrupt:  # enough of the score; the forest must not be lost for it
        return True
    return False


def engine_used(name: str, options: dict[str, Any]) -> str:
    """An engine and its threads in words."""
    threads = engines._jobs(options.get("n_jobs") or 1) if name == "native" else 1
    words = f"{name}, {count(threads, 'thread')}"
    if name != engines.NAMES[0] and not engine_asked(options.get("engine")):
        words += "; edgeforest engines says how to get a faster one"
    return words


def commonest(labels: Counter[Any]) -> Any:
    """The label that is most frequent, the smallest of several."""
    most = max(labels.values())
    return min(label for label, times in labels.items() if times == most)


# ---- What is printed --------------------------------------------------------------------------


def tell(line: str, stream: TextIO | None = None) -> None:
    """Print a line. All that is not data goes through here: names are the work of others."""
    print(visible(line), file=stream)


def say(label: str, text: str, wrap: bool = True) -> None:
    """Print a line under a heading of its own; long ones are wrapped, but for those with paths."""
    text = visible(text, keep=NO_BREAK)
    lines = [text]
    if wrap:
        lines = textwrap.wrap(text, WIDTH - 11, break_on_hyphens=False, break_long_words=False)
    for line in lines:
        tell(f"{label:<11}{line}".replace(NO_BREAK, " "))
        label = ""


def number(value: float) -> str:
    """A number with four digits or all before the point, and thousands set apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def size(n: int) -> str:
    """A number of bytes for a reader."""
    if n < 1000:
        return f"{n} bytes"
    return f"{n / 1000:,.1f} kB" if n < 1_000_000 else f"{n / 1_000_000:,.1f} MB"


def duration(seconds: float) -> str:
    """A time for a reader."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def shares(parts: Iterable[tuple[Any, float]]) -> str:
    """Labels and their shares; a line does not break between the two."""
    return joined([f"{short(label)}{NO_BREAK}({part:.0%})" for label, part in parts], 10)


def bars(names: Sequence[str], importances: Sequence[float], most: int) -> list[tuple[int, str]]:
    """The most important features, each with its place and a line of text with a bar."""
    order = sorted(range(len(names)), key=lambda f: (-importances[f], f))[:most]
    shown = [short(names[f]) for f in order]
    wide = max(map(len, shown), default=0)
    top = max([importances[f] for f in order], default=0.0) or 1.0
    return [
        (f, f"{name:<{wide}}  {importances[f]:.3f}  {'#' * round(BAR * importances[f] / top)}")
        for f, name in zip(order, shown, strict=True)
    ]


def print_columns(source: str, rows: int, names: list[str], kinds: dict[str, str]) -> None:
    """Say how many rows there are, and which columns are numbers and which categories."""
    say("read", f"{source}: {count(rows, 'row')}, {count(len(names), 'feature')}", wrap=False)
    numbers = [name for name in names if name not in kinds]
    if numbers:
        say("", f"{count(len(numbers), 'number')}: {listed(numbers, 30)}")
    if kinds:
        texts = [f"{short(name)}{text}" for name, text in kinds.items()]
        say("", f"{len(kinds)} categorical: {joined(texts, 20)}")


def print_left_out(columns: Iterable[tuple[str, str]], unlabelled: int) -> None:
    """Say which columns are not used and why, and how many rows have no target."""
    for name, why in columns:
        hint = f"; --dates {short(name)} makes numbers of them" if "distinct date" in why else ""
        say("", f"left out: {short(name)} ({why}{hint})")
    if unlabelled:
        say("", f"left out: {count(unlabelled, 'row')} without a target")


def print_schema(source: Source, schema: Schema) -> None:
    """Say what a source was found to have by looking at some of its rows."""
    kinds = {schema.names[f]: "" for f in schema.categorical}
    print_columns(source.name, len(source), schema.names, kinds)
    say("", f"found from {count(schema.looked, 'row')} drawn at random")
    print_left_out(schema.left_out, 0)
    say("target", f"{short(schema.target)}: {'numbers' if schema.regression else 'classes'}")
    if not schema.regression:
        print_doubt(schema.target, schema.classes, schema.looked)


def print_notes(source: Source) -> None:
    """Say what may not be meant as it was said."""
    for note in source.notes:
        say("note", note)


def print_bad_rows(source: Source) -> None:
    """Say which rows could not be read, or were half-written."""
    label = "skipped"
    if source.bad:
        say(label, f"{count(source.bad, 'row')} that cannot be read:", wrap=False)
        label = ""
    for place, why in source.complaints[:5]:
        say(label, f"{place} {why}", wrap=False)
        label = ""


def print_data(data: Dataset) -> None:
    """Say what was read and how it was understood."""
    values = len(data.rows) * len(data.names)
    kinds = {name: f" ({count(n, 'value')})" for name, n in data.categories.items()}
    print_columns(data.source, len(data.rows), data.names, kinds)
    missing = sum(data.missing.values())
    if missing:
        worst = max(data.missing, key=data.missing.__getitem__)
        say(
            "",
            f"missing: {missing:,} values ({missing / values:.1%}), most in {short(worst)} "
            f"({data.missing[worst]:,})",
        )
    else:
        say("", "missing: none")
    print_left_out(data.left_out, data.unlabelled)
    if data.regression:
        y = [float(v) for v in data.y]
        say(
            "target",
            f"{short(data.target)}: numbers from {number(min(y))} to {number(max(y))}, "
            f"mean {number(sum(y) / len(y))}",
        )
        if len(y) > MAX_AUTO_CLASSES and len(set(y)) == len(y) == max(y) - min(y) + 1:
            say("", f"it numbers the rows: is {quoted(data.target)} the column you meant?")
    else:
        labels = Counter[Any](data.y)
        parts = shares([(label, n / len(data.y)) for label, n in labels.most_common()])
        say("target", f"{short(data.target)}: {len(labels)} classes, {parts}")
        print_doubt(data.target, len(labels), len(data.y))


def print_doubt(target: str, classes: int, rows: int) -> None:
    """Say that a target may be none: many classes, or few rows for each."""
    if classes > MANY_CLASSES or MAX_AUTO_CLASSES < classes > rows // 5:
        say(
            "",
            f"{classes:,} classes, about {number(rows / classes)} rows for each: is {quoted(target)} "
            "the column you meant?",
        )


def print_fitted(fitted: Fitted) -> None:
    """Say what a training has cost, what it gave, and how good that is."""
    forest = fitted.forest
    print()
    if fitted.interrupted:
        say("stopped", "by Ctrl-C; the forest so far is complete and is kept")
    if fitted.problem:
        say("stopped", "by what is said below; the trees that are done are kept")
    say("engine", fitted.engine)
    say("spent", f"{spent(forest)}, {duration(forest.spent.seconds)}")
    for note in fitted.notes:
        say("met", note)
    trees = shape(forest)
    if len(forest) < fitted.asked_trees and not fitted.interrupted and not fitted.problem:
        trees += f" ({fitted.asked_trees} trees asked for, the budget did not reach further)"
    say("forest", trees)
    if not fitted.score.rows:
        say("score", "none, since no held-out rows were predicted")
    else:
        rows = count(fitted.score.rows, "held-out row")
        ours, naive = fitted.score.words(rows, fitted.guess)
        say("score", ours)
        say("", naive)
        if not forest.regression:
            say("", f"found of each class: {fitted.score.by_class()}")
    label = "important"
    if not any(forest.importances):
        say(label, "no feature: nothing was split")
        return
    for _, line in bars(forest.names, forest.feature_importances, 5):
        tell(f"{label:<11}{line}".rstrip())
        label = ""


def spent(forest: Any) -> str:
    """What a forest's training has cost, of which budget."""
    insertions = f"{forest.spent.insertions:,}"
    if forest.limit is None:
        insertions += " insertions (no limit)"
    else:
        insertions += f" of {forest.limit:,} insertions"
    return (
        f"{insertions}, {count(forest.spent.rows_read, 'row')} drawn, "
        f"{count(forest.spent.rounds, 'round')}"
    )


def shape(forest: Any) -> str:
    """How large a forest is."""
    nodes = len(forest.feature)
    return f"{count(len(forest), 'tree')}, {count(nodes, 'node')}, at most {depth(forest)} deep"


def predicts(forest: Any) -> str:
    """What a forest's predictions are."""
    if forest.regression:
        return f"numbers from {number(forest.low)} to {number(forest.low + forest.span)}"
    return f"{count(len(forest.classes), 'class', 'classes')}: {listed(forest.classes, 20)}"


def depth(forest: Any) -> int:
    """Splits on the longest way from a root to a leaf."""
    depths = [0] * len(forest.feature)
    for node, feature in enumerate(forest.feature):  # parents come before their children
        if feature != LEAF:
            depths[node + 1] = depths[forest.right[node]] = depths[node] + 1
    return max(depths)


def save(forest: Any, path: str) -> None:
    """Write a model and say so; one that cannot be written there is kept elsewhere."""
    try:
        forest.save(path)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = kept_elsewhere(forest, path)
        raise Problem(f"cannot write {path}: {reason(error)}; {where}") from None
    say("saved", kept_file(path), wrap=False)


def kept_elsewhere(forest: Any, path: str) -> str:
    """Keep a model that cannot be written to its path, which may have taken hours; says where."""
    start, ending = os.path.splitext(os.path.basename(path))
    # A random name: it overwrites nothing, and nobody can have put a link there.
    name = f"{start[:40]}-{os.urandom(4).hex()}{ending[:20] or '.json'}"
    for folder in shelters(path):
        with suppress(OSError):
            other = os.path.abspath(os.path.join(folder, name))
            forest.save(other)
            return f"the model is in {other} instead"
    return "nor can the model be kept in this folder, at home or among temporary files"


def shelters(path: str) -> Iterator[str]:
    """Folders for a model that cannot be written to its path, the best place first."""
    if os.path.isfile(path) or not os.path.exists(path):  # beside a device is no place
        yield os.path.dirname(path) or os.curdir
    yield os.curdir
    yield os.path.expanduser("~")
    with suppress(OSError):  # there is none
        yield tempfile.gettempdir()


def kept_file(path: str, more: str = "") -> str:
    """A file that was written, and its size."""
    return f"{path}, {size(os.path.getsize(path))}{more}"


# ---- The commands -----------------------------------------------------------------------------


def train_command(args: argparse.Namespace) -> int:
    """Train a forest from a log."""
    refuse_output(args.out, *args.log)
    refuse_output(args.checkpoint, *args.log, option="--checkpoint")
    check_engine(args.engine)
    if args.resume and args.checkpoint is None:
        raise Problem("--resume goes on from a checkpoint; give its path with --checkpoint")
    if args.refresh and not args.resume:
        raise Problem("--refresh adds trees to a checkpoint that is done; give --resume, too")
    if args.checkpoint and not args.resume and os.path.exists(args.checkpoint):
        raise Problem(
            f"{args.checkpoint} is there already; add --resume to go on from it, or remove it"
        )
    task = {"mse": "regression", "gini": "classification", "entropy": "classification"}.get(
        args.criterion, args.task
    )
    if args.task not in ("auto", task):
        raise Problem(
            f"--criterion {args.criterion} is for {task}, got --task {args.task}; leave one out"
        )
    progress = Progress()
    budget = edgeforest.Budget(args.budget, args.seconds, args.bytes)  # its clock begins here
    with opened(args, progress) as source:
        fitted = reported(source, args, task, progress, budget)
        while fitted.later and not (fitted.interrupted or fitted.problem):
            # What was begun before is done; now all rows. Until then, that is the model.
            if args.out is not None:
                save(fitted.forest, args.out)
            print()
            fitted = reported(source, args, task, progress, budget.copy())
    if args.out is not None:
        save(fitted.forest, args.out)
    elif args.checkpoint is None:
        say("saved", "nothing; give --out model.json to keep the forest")
    if args.checkpoint is not None and os.path.exists(args.checkpoint):
        early = fitted.interrupted or fitted.problem
        unfinished = early and len(fitted.forest) < fitted.asked_trees
        more = "; --resume goes on" if unfinished else ""
        say("saved", kept_file(args.checkpoint, more), wrap=False)
    if fitted.problem:
        if fitted.unwritten and args.out is None:
            fitted.problem += f"; {kept_elsewhere(fitted.forest, args.checkpoint)}"
        raise Problem(fitted.problem)
    return 130 if fitted.interrupted else 0


def reported(
    source: Source,
    args: argparse.Namespace,
    task: str,
    progress: Progress,
    budget: edgeforest.Budget,
) -> Fitted:
    """Train from a source, and say how it went."""
    fitted = fitted_from(source, args, task, progress, budget)
    print_fitted(fitted)
    print_bad_rows(fitted.source or source)
    return fitted


def fitted_from(
    source: Source,
    args: argparse.Namespace,
    task: str,
    progress: Progress,
    budget: edgeforest.Budget,
) -> Fitted:
    """Train from a source: in memory if it is small, else from where it is."""
    common = {
        "test_share": args.test_share,
        "seed": args.seed,
        "progress": progress,
        "kind": args.kind,
        "splitter": args.splitter,
        "n_trees": args.trees,
        "max_depth": args.max_depth,
        "min_samples_leaf": args.min_samples_leaf,
        "class_weight": args.class_weight,
        "budget": rest_of(budget),  # opening took time, too
        "engine": args.engine,
        "n_jobs": args.jobs,
    }
    columns = {"categorical": args.categorical, "drop": args.drop, "task": task}
    refuse_wide(source, args.drop)
    cells = len(source) * len(source.names)
    slow = args.seconds is not None and cells * SECONDS_OF_A_CELL > args.seconds / 8
    if args.checkpoint or slow or OF_A_CELL * cells > max(SMALL, args.bytes or IN_MEMORY):
        return fit_source(
            source,
            args.target,
            checkpoint=args.checkpoint,
            resume=args.resume,
            refresh=args.refresh,
            criterion=args.criterion,
            **columns,
            **common,
        )
    progress.show(f"reading {source.name} ...")
    data = prepare(
        whole(source, [args.target, *args.categorical, *args.drop]), args.target, **columns
    )
    if data.regression and args.class_weight:
        raise Problem(
            f"--class-weight is for classes, but {args.target!r} is a number; leave it out or use "
            "--task classification"
        )
    progress.clear()
    print_data(data)
    print_notes(source)
    sys.stdout.flush()
    common["budget"] = rest_of(budget)
    return fit(data, criterion=args.criterion or ("mse" if data.regression else "gini"), **common)


@contextmanager
def opened(args: argparse.Namespace, progress: Progress) -> Iterator[Source]:
    """The source that is named, with its options; the standard input is copied to a file first."""
    paths = args.log
    options: dict[str, Any] = {
        "separator": args.separator,
        "header": args.header,
        "decimal_comma": True if args.decimal_comma else None,
        "comment": args.comment,
        "encoding": args.encoding,
        "table_or_query": args.table,
        "max_bad": args.max_bad,
    }
    options = {name: value for name, value in options.items() if value is not None}
    if args.no_quotes:
        options["quote"] = None
    if "-" in paths:
        if len(paths) > 1:
            raise Problem("- is the standard input, which cannot be joined with files; give one")
        with spooled(progress) as path:
            try:
                source = open_source(path, **options)
            except SourceError as error:
                raise Problem(for_shell(str(error)).replace(path, STDIN)) from None
            source.name = STDIN
            with open_source(source, dates=args.dates) as dated:
                yield dated
        return
    options["progress"] = progress.bytes_of(paths[0])
    with open_source(paths if len(paths) > 1 else paths[0], dates=args.dates, **options) as source:
        progress.clear()
        yield source


STDIN = "the standard input"


@contextmanager
def spooled(progress: Progress) -> Iterator[str]:
    """A file that has what comes from the standard input."""
    if sys.stdin is None:
        raise Problem("the standard input is closed; pipe a file into it")
    progress.show(f"reading {STDIN} ...")
    with tempfile.TemporaryDirectory(prefix="edgeforest-") as folder:
        path = os.path.join(folder, "input")
        try:
            with open(path, "wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        except OSError as error:
            why = f"{reason(error)}; save it as a file first"
            raise Problem(f"cannot copy {STDIN} to {folder}: {why}") from None
        yield path


def for_shell(sentence: str) -> str:
    """A sentence of the library's, for those who give options and not arguments."""
    for pattern, words in (
        (r"\b(categorical|drop|task)=", r"--\1 "),
        (r"\bnot the criterion\b", "not --criterion"),
        (r"\bof dates=", "of --dates"),
        (r"\bmax_bad\b", "--max-bad"),
        (r"\btable_or_query\b", "--table"),
        (r"\bgive its (encoding|separator)\b", r"give its --\1"),
        (r"\(quote=None\)", "(--no-quotes)"),
        (
            r"(; it has column 1(?:, column 2\b.*)?)$",
            r"\1; give --header if its first line names them",
        ),
        (
            r"^class_weight (is for class)ification.*",
            r"--class-weight \1es, but the target is a number",
        ),
        (r"give a budget of at least (\d+) bytes", r"give --bytes \1"),
        (r"\b(?:sign|write) it with edgeforest\.export\.sign\b", "export it with --sign"),
    ):
        sentence = re.sub(pattern, words, sentence)
    return sentence


def one_line(sentence: str) -> str:
    """A sentence without the line ends of names in it, and not as long as the longest of these."""
    text = visible(sentence)
    return re.sub(r"(\S{40})\S{200,}", r"\1...", text) if len(text) > 600 else text


def predict_command(args: argparse.Namespace) -> int:
    """Predict each row of a log."""
    refuse_output(args.out, args.model, *args.log)
    forest = load_model(args.model)
    if args.proba and forest.regression:
        raise Problem(
            f"{args.model} predicts numbers, which have no class shares; leave out --proba"
        )
    with opened(args, Progress()) as source:
        refuse_absent(forest, source)
        if args.target is not None and args.target not in source.names:
            raise Problem(
                f"{source.name} has no column {args.target!r}; it has {listed(source.names, 12)}"
            )
        if args.out is None:
            predict(forest, source, screen_or_pipe(), args.proba, args.target)
            return 0
        with replaced(args.out) as stream:
            rows = predict(forest, source, stream, args.proba, args.target)
        say("saved", f"{args.out}, {count(rows, 'prediction')}", wrap=False)
    return 0


class Screen:
    """The standard output as a stream on which every character is seen and none is obeyed."""

    def write(self, text: str) -> int:
        return sys.stdout.write(visible(text, keep="\n"))

    def flush(self) -> None:
        sys.stdout.flush()


def screen_or_pipe() -> Any:
    """The standard output for data: exact, and UTF-8, unless somebody looks at it."""
    if sys.stdout.isatty():
        return Screen()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")
    return sys.stdout


def refuse_absent(forest: Any, source: Source) -> None:
    """Refuse a source that lacks a column of the model's."""
    there = set(source.names)
    absent = [name for name in forest.names if name not in there]
    if absent:
        raise Problem(
            f"{source.name} has no column {absent[0]!r}, which the model was trained on; it "
            f"has {listed(source.names, 12)}"
            + ("; give --dates as for the training" if is_part(absent[0]) else "")
        )


@contextmanager
def replaced(path: str) -> Iterator[TextIO]:
    """What is written becomes the file only when it is complete."""
    try:
        with files.replacing(path) as raw:
            stream = io.TextIOWrapper(raw, encoding="utf-8", newline="")
            yield stream
            stream.detach()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Problem(f"cannot write {path}: {reason(error)}") from None


def predict(forest: Any, source: Source, stream: TextIO, proba: bool, target: str | None) -> int:
    """Write a prediction for each row of the source; returns how many. A bad row has none."""
    unknown: dict[str, str] = {}  # by feature, a category that the forest has not met
    score = Score(forest.regression)
    writer = csv.writer(stream, lineterminator="\n")
    classes = forest.classes or ()
    writer.writerow(["prediction", *(f"p_{label}" for label in classes if proba)])
    blank = [""] * (1 + len(classes) * proba)
    for asked, rows, block, features in read_features(forest, source, unknown):
        written = dict.fromkeys(asked, blank)
        answers = []
        if features and proba:
            shares = forest.predict_proba(features)
            answers = [classes[parts.index(max(parts))] for parts in shares]
            for row, answer, parts in zip(rows, answers, shares, strict=True):
                written[row] = [answer, *(f"{part:.6g}" for part in parts)]
        elif features:
            answers = forest.predict(features)
            for row, answer in zip(rows, answers, strict=True):
                written[row] = [float32(answer) if forest.regression else answer]
        writer.writerows(written.values())
        if target is not None:
            add_truths(score, source, target, forest, rows, block, answers)
    stream.flush()
    for name, text in unknown.items():
        note = f"note: {short(name)} has values that the model has not met, such as {quoted(text)}"
        tell(f"{note}; they count as missing", sys.stderr)
    for place, why in source.complaints:
        tell(f"no prediction: {place} {why}", sys.stderr)
    if score.rows:
        tell("; ".join(score.words(count(score.rows, "row"))), sys.stderr)
    elif target is not None:
        tell(f"no score: column {quoted(target)} holds no values", sys.stderr)
    return len(source)


def read_features(
    forest: Any, source: Source, unknown: dict[str, str]
) -> Iterator[tuple[range, Sequence[int], Sequence[Sequence[Any]], list[Any]]]:
    """Blocks of a source: the rows asked for, those that can be read, their values, their features."""
    take = [
        number_of(source, name) if kinds is None else category_of(source, kinds, unknown, name)
        for name, kinds in zip(forest.names, forest.categories, strict=True)
    ]
    columns_of = {name: f for f, name in reversed(list(enumerate(source.names)))}
    places = [columns_of[name] for name in forest.names]
    for at in range(0, len(source), BLOCK):
        asked = range(at, min(len(source), at + BLOCK))
        rows, block = source.read_kept(asked)
        columns = [
            [convert(value, row) for value, row in zip(block[place], rows, strict=True)]
            for convert, place in zip(take, places, strict=True)
        ]
        yield asked, rows, block, list(zip(*columns, strict=True))


def add_truths(
    score: Score,
    source: Source,
    target: str,
    forest: Any,
    rows: Sequence[int],
    block: Sequence[Sequence[Any]],
    answers: Sequence[Any],
) -> None:
    """Count the predictions of rows that have a target."""
    if forest.regression:
        convert = number_of(source, target)
    else:
        convert = category_of(source, forest.classes, {}, target)
    values = block[source.names.index(target)]
    for row, value, answer in zip(rows, values, answers, strict=True):
        if value is not None and value == value:
            score.add(convert(value, row), answer)


Converter = Callable[[Any, int], Value]  # from a value and its row


def number_of(source: Source, name: str) -> Converter:
    """What turns a value of a column of numbers into a number."""

    def convert(value: Any, row: int) -> Value:
        if value is None or value != value:
            return float("nan")
        found = tables.number(value, source.decimal_comma) if isinstance(value, str) else value
        if found is None or not -MAX_NUMBER <= found <= MAX_NUMBER:
            date = isinstance(value, str) and tables.is_date(value)
            raise Problem(
                f"{source.where(row)} has {quoted(value)} in column {name!r}, which must be a number "
                "within 3.4e38; "
                + (
                    f"give --dates {short(name)}, as for the training"
                    if date
                    else "mend it, or leave it empty if it is missing"
                )
            )
        return float(found)

    return convert


def category_of(
    source: Source, kinds: Sequence[Value], unknown: dict[str, str], name: str
) -> Converter:
    """What turns a value of a categorical column into a category; new ones go to `unknown`."""
    known: dict[str, Value] = {str(kind): kind for kind in kinds}
    numbers = {kind: kind for kind in kinds if isinstance(kind, (int, float))}

    def convert(value: Any, row: int) -> Value:
        if value is None or value != value:
            return None
        text = value if isinstance(value, str) else plain(value)
        if text in known:
            return known[text]
        found = tables.number(text, source.decimal_comma)
        if found in numbers:  # 1.0 where the model has 1
            return numbers[found]
        unknown.setdefault(name, text)
        return text

    return convert


def float32(value: float) -> str:
    """The shortest text that names this float32."""
    for digits in range(6, 9):
        text = f"{value:.{digits}g}"
        if array("f", [float(text)])[0] == value:
            return text
    return f"{value:.9g}"


def inspect_command(args: argparse.Namespace) -> int:
    """Say what a model is."""
    forest = load_model(args.model)
    task = "regression" if forest.regression else "classification"
    say("model", kept_file(args.model), wrap=False)
    say("kind", f"{forest.kind} for {task}")
    say("trained", f"criterion {forest.criterion}, splitter {forest.splitter}, seed {forest.seed}")
    print_rows(args.model)
    say("spent", spent(forest))
    say("forest", shape(forest))
    say("predicts", predicts(forest))
    most = 40
    lines = bars(forest.names, forest.feature_importances, most)
    wide = max(len(line) for _, line in lines)
    print(f"\n{count(len(forest.names), 'feature')}, most important first:")
    for f, line in lines:
        kinds = forest.categories[f]
        kind = "number" if kinds is None else f"categorical: {listed(kinds, 6)}"
        tell(f"  {line:<{wide}}  {kind}")
    if len(forest.names) > most:
        print(f"  and {len(forest.names) - most:,} more")
    return 0


def print_rows(path: str) -> None:
    """Say which rows a checkpoint was trained on; nothing of other models."""
    from edgeforest.sources.checkpoints import noted  # most models are none

    log, done = noted(path)
    if log is not None:
        more = "" if done else "; not done yet: train --resume goes on"
        say("rows", f"{count(log['rows'], 'row')} of {log['name']}{more}", wrap=False)


def merge_command(args: argparse.Namespace) -> int:
    """Join models into one."""
    from edgeforest.forests.merging import merge  # the other commands start without it

    refuse_output(args.out, *args.models)
    forests = [load_model(path) for path in args.models]
    for path, forest in zip(args.models, forests, strict=True):
        say("read", f"{path}: {shape(forest)}", wrap=False)
    for k, path in enumerate(args.models):
        if any(os.path.samefile(path, other) for other in args.models[:k]):
            say("note", f"{path} is given twice, so its trees count double; meant?", wrap=False)
    limits = {"max_trees": args.max_trees}
    try:
        if args.max_bytes is not None:
            limits["max_bytes"] = args.max_bytes - 1  # a file ends with a newline
            need = len(merge(forests, args.weights, max_trees=1).to_json().encode()) + 1
            if need > args.max_bytes:
                raise Problem(f"one tree needs --max-bytes {need}, got {args.max_bytes}; give more")
        joined = merge(forests, args.weights, **limits)
    except ValueError as error:
        text = re.sub(r"\bforest (\d+)", lambda at: args.models[int(at[1])], str(error))
        raise Problem(text) from None
    given = sum(len(forest) for forest in forests)
    left_out = given - len(joined)
    say("forest", shape(joined) + (f" ({count(left_out, 'tree')} left out)" if left_out else ""))
    say("predicts", predicts(joined))
    save(joined, args.out)
    return 0


WRITTEN_FOR = {  # the options of export that some formats have, and which
    "operator": (".onnx",),
    "inputs": (".onnx",),
    "rows": (".h", ".py"),
    "scale": (".h", ".py"),
    "prefer": (".h",),
    "sign": (".json",),
}


def export_command(args: argparse.Namespace) -> int:
    """Write a model in another format, or smaller, or signed."""
    kept = [args.model] if args.sign is None else [args.model, args.sign]
    refuse_output(args.out, *kept, option="the file")
    ending = os.path.splitext(args.out)[1].lower()
    if ending not in WRITERS:
        raise Problem(
            f"the ending of {args.out} must name a format; give a name that ends in .json, .onnx, "
            ".h (C) or .py (MicroPython)"
        )
    for option, endings in WRITTEN_FOR.items():
        if getattr(args, option) is not None and ending not in endings:
            raise Problem(
                f"--{option} is for {' and '.join(endings)}, got {args.out}; leave it out"
            )
    if args.levels is not None and not args.shrink:
        raise Problem("--levels is how far --shrink goes; give both")
    key = read_key(args.sign)
    forest = before = load_model(args.model)
    say("read", f"{kept_file(args.model)}: {shape(forest)}", wrap=False)
    try:
        if args.shrink:
            forest, report = exporter("shrinking").shrink(forest, levels=args.levels)
            say("shrunk", str(report))
        content = WRITERS[ending](forest, args, key)
    except (ValueError, TypeError) as error:
        raise Problem(f"{args.model}: {error}") from None
    if args.check is not None:
        say("checked", changes(before, forest, args), wrap=False)
    with replaced(args.out) as stream:
        stream.buffer.write(content)
    more = {".h": f" of C text; call {c_name(args.out)}_predict(row)", ".py": " of Python text"}
    say("saved", kept_file(args.out, more.get(ending, "")), wrap=False)
    return 0


def exporter(module: str) -> Any:
    """A module of `edgeforest.export`: the other commands start without it."""
    return import_module(f"edgeforest.export.{module}")


def changes(before: Any, after: Any, args: argparse.Namespace) -> str:
    """How many rows of a log get another answer from what is written than from the model."""
    scaling = exporter("scaling")
    kind = args.rows or "float32"
    scales = scaling.scales_of(after, kind, args.scale)
    changed = rows = 0
    with open_source(args.check) as source:
        refuse_absent(before, source)
        for *_, features in read_features(before, source, {}):
            if not features:
                continue
            seen = scaling.round_rows(after, features, kind, scales)
            answers = zip(before.predict(features), after.predict(seen), strict=True)
            changed += sum(one != two for one, two in answers)
            rows += len(features)
    return f"{changed:,} of {count(rows, 'prediction')} for {args.check} change"


def json_of(forest: Any, args: argparse.Namespace, key: bytes | None) -> bytes:
    """The text of a model file, signed if there is a key."""
    text: str = forest.to_json()
    if key is not None:
        text = exporter("signing").sign(text, key)
        say("signed", f"with the key in {args.sign}", wrap=False)
    return text.encode() + b"\n"


def onnx_of(forest: Any, args: argparse.Namespace, key: bytes | None) -> bytes:
    """The bytes of an ONNX file."""
    try:
        to_onnx = exporter("onnx_model").to_onnx
    except ImportError as error:
        raise Problem(
            f"ONNX needs the package {error.name}, which is not installed; "
            "pip install 'edgeforest[onnx]'"
        ) from None
    model = to_onnx(forest, operator=args.operator or "classic", inputs=args.inputs or "tensor")
    return bytes(model.SerializeToString())


def c_of(forest: Any, args: argparse.Namespace, key: bytes | None) -> bytes:
    """The text of a C header."""
    options = {"rows": args.rows or "float32", "scale": args.scale, "prefer": args.prefer or "size"}
    text: str = exporter("c_header").to_c(forest, c_name(args.out), **options)
    return text.encode()


def micropython_of(forest: Any, args: argparse.Namespace, key: bytes | None) -> bytes:
    """The text of a MicroPython module."""
    options = {"rows": args.rows or "float32", "scale": args.scale}
    text: str = exporter("micropython_module").to_micropython(forest, **options)
    return text.encode()


WRITERS = {".json": json_of, ".onnx": onnx_of, ".h": c_of, ".py": micropython_of}


def c_name(path: str) -> str:
    """What the functions in a header begin with: the name of the file, as C takes it."""
    stem = os.path.splitext(os.path.basename(path))[0]
    name = re.sub(r"\W", "_", stem, flags=re.ASCII)
    return name if name[0].isalpha() else f"model_{name}"


def read_key(path: str | None) -> bytes | None:
    """All bytes of a file with a key."""
    if path is None:
        return None
    try:
        with open(path, "rb") as stream:
            key = stream.read()
    except OSError as error:
        raise Problem(f"cannot read {path}: {reason(error)}") from None
    if len(key) < 16:
        raise Problem(f"a key has at least 16 bytes, {path} has {len(key)}; make a longer one")
    return key


def verify_command(args: argparse.Namespace) -> int:
    """Say whether a model is what was signed."""
    key = read_key(args.key)
    forest = load_model(args.model)  # says what is wrong with a file that is no model
    try:
        exporter("signing").verify(Path(args.model), key)
    except OSError as error:
        raise Problem(f"cannot read {args.model}: {reason(error)}") from None
    except ValueError as error:
        raise Problem(f"{args.model}: {error}") from None
    say("model", f"{kept_file(args.model)}: {shape(forest)}", wrap=False)
    if key is None:
        say("verified", "its SHA-256 fits; who wrote it is not known, give --key to check that")
    else:
        say("verified", f"it was signed with the key in {args.key}", wrap=False)
    return 0


def demo_command(args: argparse.Namespace) -> int:
    """Run the demo."""
    from edgeforest.cli import demo  # which uses this module

    check_engine(None)
    return demo.run(args.out, args.rows, args.budget)


WHAT = {
    "native": "trees grow in C; --jobs grows several at once",
    "numpy": "whole arrays at once",
    "pure": "plain Python",
}


def engines_command(args: argparse.Namespace) -> int:
    """Say which engines are present, which one is used, and how to get the others."""
    absent = engines.absent()
    for name in engines.NAMES:
        problem = absent.get(name)
        if problem is None:
            say(name, f"present: {WHAT[name]}")
        else:
            say(name, f"absent: {problem.reason}; to get it, {problem.remedy}")
    print(flush=True)  # before a problem is said
    check_engine(None)
    wish = engine_asked(None)
    if wish:
        say("used", f"{wish}, because EDGEFOREST_ENGINE={wish}; train --engine overrides it")
    else:
        say(
            "used",
            f"{engines.name}, the fastest that is present; train --engine or the environment "
            "variable EDGEFOREST_ENGINE asks for another, and the forest is the same with any",
        )
    return 0


def engine_asked(name: str | None) -> str | None:
    """The engine that is asked for by name, here or in the environment."""
    return name or os.environ.get("EDGEFOREST_ENGINE")


def check_engine(name: Any) -> None:
    """Refuse, before any work, an engine that is not there; None is the one that is picked."""
    try:
        engines.pick(name)
    except (ValueError, engines.Absent) as error:
        raise Problem(str(error)) from None


def load_model(path: str) -> Any:
    """Read a model, or say what is wrong with it."""
    check_engine(None)
    try:
        with open(path, "rb") as stream:
            return edgeforest.load(stream)
    except OSError as error:
        raise Problem(f"cannot read {path}: {reason(error)}") from None
    except ValueError as error:
        raise Problem(f"{path}: {error}") from None


def refuse_output(out: str | None, *inputs: str, option: str = "--out") -> None:
    """Refuse, before any work, an output that cannot be written or that would destroy an input."""
    if out is None:
        return
    folder = os.path.dirname(out) or "."
    if not os.path.isdir(folder):
        raise Problem(f"cannot write {out}: there is no folder {folder}; make it first")
    if os.path.isdir(out):
        raise Problem(f"cannot write {out}: it is a folder; name a file")
    folder = os.path.dirname(os.path.realpath(out))
    if (os.path.isfile(out) or not os.path.exists(out)) and not os.access(folder, os.W_OK):
        raise Problem(f"cannot write {out}: {folder} may not be written to; choose another folder")
    for path in inputs:
        if os.path.exists(out) and os.path.exists(path) and os.path.samefile(out, path):
            raise Problem(f"{option} {out} would overwrite what is read; give another name")


# ---- Reading the command line -----------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """An argument parser that reports problems as everything else here does."""

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument (\S+): must", r"\1 must", message)
        message = re.sub(r"^argument ", "", message)
        raise Problem(f"{message}; see {self.prog} --help")


def amount(text: str) -> int:
    """A whole number of at least 1 with an optional suffix."""
    value = quantity(text)
    if value != int(value) or value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(value)


def amount_or_none(text: str) -> int:
    """The same, or 0."""
    return 0 if text == "0" else amount(text)


def bytes_of(text: str) -> int:
    """A number of bytes: 64M and 64MB are 64,000,000, 64MiB is 64 * 1024 * 1024."""
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+) ?([kmg]?)(i?b)?", text, re.ASCII | re.IGNORECASE)
    if not match or (match[3] in ("ib", "iB", "Ib", "IB") and not match[2]):
        try:
            return amount(text)
        except argparse.ArgumentTypeError:
            raise argparse.ArgumentTypeError(
                f"must be a size such as 64MB, 1.5GB or 512kB, got {text!r}"
            ) from None
    letter, unit = match[2].lower(), (match[3] or "").lower()
    each = Decimal(1024 if unit == "ib" else 1000) ** ("kmg".index(letter) + 1 if letter else 0)
    value = Decimal(match[1]) * each
    if value != int(value) or value < 1:
        raise argparse.ArgumentTypeError(f"must be whole bytes, at least 1, got {text!r}")
    return int(value)


def seconds(text: str) -> float:
    """A number of at least 0.001 with an optional suffix."""
    value = float(quantity(text))
    if value < 0.001:
        raise argparse.ArgumentTypeError(f"must be at least 0.001, got {text!r}")
    return value


def quantity(text: str) -> Decimal:
    """A number that may end in k, M or G."""
    match = re.fullmatch(r"(\d+\.?\d*(?:e\d{1,2})?|\.\d+)([kMG]?)", text, re.ASCII)
    if not match:
        raise argparse.ArgumentTypeError(f"must be a number such as 500k, 2M or 1.5M, got {text!r}")
    return Decimal(match[1]) * SUFFIXES[match[2]]


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """A type of whole numbers from low to high."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from {low:,} to {high:,}, got {text!r}"
            )
        return value

    return convert


def scale(text: str) -> float | str:
    """A scale of rows of whole numbers."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a number such as 10, or auto, got {text!r}"
        ) from None


def jobs(text: str) -> int:
    """A number of threads."""
    if text == "-1":
        return -1
    try:
        return whole_number(1, 1024)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error} (-1 stands for every core)") from None


def share(text: str) -> float:
    """A number from 0 to below 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to below 1, got {text!r}")
    return value


def names(text: str) -> list[str]:
    """Column names with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def dates(text: str) -> dict[str, str | None]:
    """Column names with commas between them, and how their dates are written."""
    columns, sign, form = text.partition("=")
    found: dict[str, str | None] = dict.fromkeys(names(columns), form if sign else None)
    if not found or (sign and not form):
        raise argparse.ArgumentTypeError(
            f"must be columns such as time,seen or time=%d.%m.%Y, got {text!r}"
        )
    return found


class Update(argparse.Action):
    """Add what is given to what was given before."""

    def __call__(self, parser: Any, args: Any, values: Any, option: Any = None) -> None:
        setattr(args, self.dest, {**getattr(args, self.dest), **values})


def weights(text: str) -> list[float]:
    """Numbers of at least 0 with commas between them."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = [-1.0]
    if not all(0 <= value < float("inf") for value in values):
        raise argparse.ArgumentTypeError(f"must be numbers such as 1,2.5 or 0,1, got {text!r}")
    return values


EXAMPLES = """\
examples:
  edgeforest demo
  edgeforest train log.csv --target activity --budget 2M --out model.json
  edgeforest train 'logs/*.csv.gz' --target activity --checkpoint model.json --resume
  edgeforest predict model.json new.csv --out predictions.csv
  edgeforest inspect model.json
  edgeforest merge kitchen.json cellar.json --out house.json
  edgeforest export model.json model.onnx
  edgeforest engines
"""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line: commands, options, and their help."""
    parser = Parser(
        prog="edgeforest",
        description="Random forests that train on the device, under a hard budget.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"edgeforest {edgeforest.__version__}",
        help="print the version and exit",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    add_train(commands)
    add_predict(commands)
    add_inspect(commands)
    add_merge(commands)
    add_export(commands)
    add_verify(commands)
    add_demo(commands)
    add_command(
        commands,
        "engines",
        engines_command,
        "say which engines are present, which one is used, and how to get the others",
        "All of them grow the same forest; they differ in speed.",
    )
    return parser


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str, more: str = ""
) -> argparse.ArgumentParser:
    """Add a command with its help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}. {more}", allow_abbrev=False
    )
    parser.set_defaults(run=run)
    return parser


LOG = (
    "CSV, TSV, JSON lines, line protocol (.lp), .npy, Parquet or SQLite; text may be gzipped; "
    "several files are joined; - for the standard input"
)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """The options that say how a log is read."""
    reading = parser.add_argument_group(
        "reading", "what is not given is found by looking at the file"
    )
    reading.add_argument(
        "--dates",
        type=dates,
        action=Update,
        default={},
        metavar="A,B[=FORMAT]",
        help="columns of dates that become numbers, seconds since 1970 (UTC); A.hour and "
        "A.weekday are further columns with the hour of the day, and 0 for Monday to 6; dates are "
        "written as 2024-05-01 18:30, or as FORMAT says, such as %%d.%%m.%%Y",
    )
    reading.add_argument("--table", metavar="NAME", help="table or query of an SQLite file")
    reading.add_argument("--separator", metavar="C", help="what stands between cells, such as ';'")
    reading.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="the first line names the columns, or is a row: then they are 'column 1', 'column 2'",
    )
    reading.add_argument("--no-quotes", action="store_true", help="quotes are part of a cell")
    reading.add_argument(
        "--decimal-comma", action="store_true", help="1,5 is a number between 1 and 2"
    )
    reading.add_argument("--comment", metavar="C", help="lines that start with C are left out")
    reading.add_argument("--encoding", metavar="NAME", help="of text (default utf-8)")
    reading.add_argument(
        "--max-bad",
        type=amount_or_none,
        default=0,
        metavar="N",
        help="skip up to N rows that cannot be read (default 0: the first one is an error)",
    )


def add_train(commands: Any) -> None:
    """The command `train`."""
    parser = add_command(
        commands,
        "train",
        train_command,
        "train a forest from a log",
        "A log of any size: rows are drawn at random from all of it. Columns of numbers are used "
        "as they are, columns of text as categories; dates are left out, unless --dates asks for "
        "them. Ctrl-C ends the training early and keeps the forest so far.",
    )
    parser.add_argument("log", nargs="+", help=LOG)
    parser.add_argument("--target", required=True, metavar="NAME", help="the column to predict")
    parser.add_argument("--out", metavar="FILE", help="where to write the model, as JSON")

    budget = parser.add_argument_group(
        "budget", "hard limits; numbers may end in k, M or G (thousands, millions, ...)"
    )
    budget.add_argument(
        "--budget", type=amount, metavar="N", help="at most N histogram insertions, such as 2M"
    )
    budget.add_argument(
        "--seconds",
        type=seconds,
        metavar="S",
        help="at most S seconds for opening the log and training; rows that cannot be read in half of "
        "them are left out at random (an index of a text file is made whole, if it has none)",
    )
    budget.add_argument(
        "--bytes",
        type=bytes_of,
        metavar="B",
        help="train within B bytes of memory, such as 64MB (M and MB are a million, MiB is 1024 * "
        "1024); where not all rows fit, samples of them are read "
        "(default 100M for rows)",
    )

    power = parser.add_argument_group("power loss")
    power.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="write the model to FILE after each tree, so that nothing else is lost with the power",
    )
    power.add_argument(
        "--resume",
        action="store_true",
        help="go on from the checkpoint, if it is there, to the forest that an undisturbed "
        "training gives, with all other options as before; if the log has grown since, finish with "
        "the rows of then, and after that train anew on all of them",
    )
    power.add_argument(
        "--refresh",
        action="store_true",
        help="with --resume, when there are more rows: keep the trees of the checkpoint and add as "
        "many again, grown on all rows, instead of training anew",
    )

    engine = parser.add_argument_group("engine", "none of these changes the forest, only the speed")
    engine.add_argument(
        "--engine",
        choices=engines.NAMES,
        help="what trains (the fastest that is present; `edgeforest engines` lists them)",
    )
    engine.add_argument(
        "--jobs",
        type=jobs,
        default=1,
        metavar="N",
        help="threads, -1 for every core (default 1); native has them, the others have one",
    )

    add_reading(parser)

    columns = parser.add_argument_group("columns")
    columns.add_argument(
        "--task",
        choices=("auto", "classification", "regression"),
        default="auto",
        help="auto: classification if the target is text, or at most 20 distinct whole numbers",
    )
    for option, text in (
        ("--categorical", "columns of numbers that name things, to be used as categories"),
        ("--drop", "columns not to be used"),
    ):
        columns.add_argument(
            option, type=names, action="extend", default=[], metavar="A,B", help=text
        )

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
        "--trees", type=whole_number(1, 4096), default=20, metavar="N", help="trees (default 20)"
    )
    forest.add_argument(
        "--max-depth",
        type=whole_number(0, 1 << 20),
        metavar="N",
        help="splits above a leaf (no limit)",
    )
    forest.add_argument(
        "--min-samples-leaf",
        type=whole_number(1, 1 << 29),
        default=1,
        metavar="N",
        help="rows that a leaf must have (default 1)",
    )
    forest.add_argument(
        "--class-weight",
        choices=("balanced",),
        help="balanced: draw rare classes as often as common ones",
    )
    forest.add_argument(
        "--seed",
        type=whole_number(0, (1 << 30) - 1),
        default=0,
        metavar="N",
        help="same seed, same data: same forest (default 0)",
    )
    forest.add_argument(
        "--test-share",
        type=share,
        default=0.2,
        metavar="P",
        help="share of the rows held out at random for the score, 0 for none (default 0.2); "
        "neighbours in a log are alike, so a later log is the stricter test: predict --target",
    )


def add_predict(commands: Any) -> None:
    """The command `predict`."""
    parser = add_command(
        commands,
        "predict",
        predict_command,
        "predict each row of a log",
        "Columns are found by their names, others are ignored. A row that cannot be read has an "
        "empty prediction, if --max-bad allows it.",
    )
    parser.add_argument("model", help="a model that train wrote")
    parser.add_argument("log", nargs="+", help=LOG)
    parser.add_argument("--out", metavar="FILE", help="CSV file to write (the standard output)")
    parser.add_argument(
        "--proba", action="store_true", help="also write the share of each class, as p_<class>"
    )
    parser.add_argument(
        "--target", metavar="NAME", help="the column with the truth: print the score to stderr"
    )
    add_reading(parser)


def add_inspect(commands: Any) -> None:
    """The command `inspect`."""
    parser = add_command(
        commands, "inspect", inspect_command, "say what a model is and what it was trained with"
    )
    parser.add_argument("model", help="a model that train wrote")


def add_merge(commands: Any) -> None:
    """The command `merge`."""
    parser = add_command(
        commands,
        "merge",
        merge_command,
        "join models that were trained apart into one",
        "It predicts as all of them together. Their features must be the same; classes and "
        "categories may differ.",
    )
    parser.add_argument("models", nargs="+", metavar="model", help="a model that train wrote")
    parser.add_argument(
        "--out", required=True, metavar="FILE", help="where to write the model, as JSON"
    )
    parser.add_argument(
        "--weights",
        type=weights,
        metavar="A,B",
        help="the say of each model, such as 1,2 (every tree counts alike)",
    )
    limits = parser.add_argument_group(
        "limits", "trees are taken from the models in turn, as many as fit"
    )
    limits.add_argument("--max-trees", type=amount, metavar="N", help="at most N trees")
    limits.add_argument(
        "--max-bytes", type=bytes_of, metavar="N", help="a file of at most N bytes, such as 64kB"
    )


def add_export(commands: Any) -> None:
    """The command `export`."""
    parser = add_command(
        commands,
        "export",
        export_command,
        "write a model for ONNX, C or MicroPython, or a smaller or signed one",
        "The ending names the format: .onnx, .h (a C header), .py (a MicroPython module) or .json "
        "(a model as train writes it). All of them predict the same.",
    )
    parser.add_argument("model", help="a model that train wrote")
    parser.add_argument("out", help="the file to write: .onnx, .h, .py or .json")
    parser.add_argument(
        "--shrink",
        action="store_true",
        help="leave out what is not needed; no prediction changes",
    )
    parser.add_argument(
        "--levels",
        type=whole_number(1, 65535),
        metavar="N",
        help="with --shrink: N votes a leaf at most, such as 255; smaller, and the model may then "
        "predict a little differently: predict --target tells",
    )
    parser.add_argument(
        "--check",
        metavar="LOG",
        help="say for how many rows of this log the model and what is written differ",
    )
    onnx = parser.add_argument_group("ONNX")
    onnx.add_argument(
        "--operator",
        choices=("classic", "v5"),
        help="classic runs everywhere (default); v5 is smaller, for onnxruntime 1.21 and up",
    )
    onnx.add_argument(
        "--inputs",
        choices=("tensor", "columns"),
        help="one table of numbers (default), or an input for each feature, under its name",
    )
    code = parser.add_argument_group("C and MicroPython")
    code.add_argument(
        "--rows",
        choices=("float32", "int16", "uint8"),
        help="the type of a row's values (default float32); whole numbers need no floats",
    )
    code.add_argument(
        "--scale",
        type=scale,
        metavar="S",
        help="rows of int16 or uint8 hold every number times S, such as 10, for features that are "
        "not whole; auto finds a power of ten for each feature",
    )
    code.add_argument(
        "--prefer",
        choices=("size", "speed"),
        help="C: tables in little flash (default), or branches that take fewer instructions",
    )
    signing = parser.add_argument_group("JSON")
    signing.add_argument(
        "--sign",
        metavar="KEYFILE",
        help="sign the model with the bytes of this file, at least 16 and best random ones; "
        "verify checks it",
    )


def add_verify(commands: Any) -> None:
    """The command `verify`."""
    parser = add_command(
        commands,
        "verify",
        verify_command,
        "say whether a model is the one that was signed",
        "It ends with code 0 only then.",
    )
    parser.add_argument("model", help="a model that export --sign wrote")
    parser.add_argument(
        "--key",
        metavar="FILE",
        help="the key that it must be signed with; without one, only accidents are found",
    )


def add_demo(commands: Any) -> None:
    """The command `demo`."""
    parser = add_command(
        commands,
        "demo",
        demo_command,
        "make up a sensor log, train on it, predict",
        "It takes a few seconds and writes sample_log.csv and model.json.",
    )
    parser.add_argument(
        "--out",
        default="edgeforest-demo",
        metavar="DIR",
        help="folder for its files, made if need be (default edgeforest-demo)",
    )
    parser.add_argument(
        "--rows",
        type=whole_number(100, 1_000_000),
        default=6000,
        metavar="N",
        help="rows (default 6000)",
    )
    parser.add_argument(
        "--budget",
        type=amount,
        default=200_000,
        metavar="N",
        help="at most N histogram insertions (default 200k)",
    )


def run(argv: list[str] | None) -> int:
    """Run one command; what is wrong becomes a sentence and an exit code."""
    parser = build_parser()
    try:
        args = parser.parse_args(argv)
        if args.command is None:
            parser.print_help(sys.stderr)
            return 2
        code: int = args.run(args)
        return code
    except SystemExit as done:  # --help and --version
        return int(done.code or 0)
    except (Problem, TableError, SourceError) as problem:
        Progress().clear()
        print(f"edgeforest: {one_line(for_shell(str(problem)))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        Progress().clear()
        print("edgeforest: stopped by Ctrl-C", file=sys.stderr)
        return 130


def main(argv: list[str] | None = None) -> int:
    """The entry point: run a command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a column named °C must not end a run
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(argv)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # | head has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor complain at exit
        return 141
