"""The command line: train a forest from a CSV file, predict with it, look into it.

Exit codes: 0 done, 2 something is wrong with what was given (one sentence on stderr says what),
130 stopped by Ctrl-C (a forest in training is kept all the same), 141 nobody read the output on.
"""

import argparse
import csv
import os
import re
import signal
import sys
import textwrap
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import FrameType
from typing import Any, NoReturn, TextIO

import edgeforest
from edgeforest import engine as engines
from edgeforest.tables import (
    MAX_NUMBER,
    Dataset,
    Reader,
    TableError,
    Value,
    cell,
    count,
    prepare,
    read_table,
    reason,
)

LEAF = 0xFFFF  # in a forest's `feature`: no split here
BLOCK = 256  # rows predicted at once, between two looks at Ctrl-C
HOLD_OUT = 1 << 21  # the random stream that draws held-out rows; trees have streams from 1 on
WIDTH = 92  # of printed lines
BAR = 24  # characters of the longest bar
SUFFIXES = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3}


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
            sys.stderr.write(f"\r\x1b[K{text}")
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
            f"{self.labels[guess] / self.rows:.3f} by always guessing {guess!r}",
        )

    def by_class(self) -> str:
        """The share of each class's rows that were found, in words."""
        return shares([(label, self.found[label] / n) for label, n in self.labels.most_common()])


@dataclass
class Fitted:
    """A forest and what a report of its training says."""

    forest: Any
    data: Dataset
    held_out: list[int]
    score: Score
    guess: Any  # of one who looks at the training rows and not at the features
    asked_trees: int
    engine: str  # and its threads, in words
    interrupted: bool


def fit(
    data: Dataset, *, test_share: float, seed: int, progress: Progress, **options: Any
) -> Fitted:
    """Hold rows out, train on the others with `options` of `train_steps`, score on the held-out."""
    n = len(data.rows)
    order = array("I", range(n))
    size = min(n - 1, max(1, int(test_share * n + 0.5))) if test_share else 0
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
    with Patience() as patience:
        for step in training:
            progress.step(step)
            if patience.stopped:
                break
    forest = training.forest()
    progress.show("scoring held-out rows ...")
    stopped = patience.stopped
    answers: list[Any] = []
    try:
        for at in range(0, size, BLOCK):
            answers += forest.predict([data.rows[i] for i in held_out[at : at + BLOCK]])
    except KeyboardInterrupt:  # enough of the score; the forest must not be lost for it
        stopped = True
    score = Score(data.regression)
    for i, answer in zip(held_out, answers, strict=False):
        score.add(data.y[i], answer)
    progress.clear()
    guess = sum(map(float, y)) / len(y) if data.regression else commonest(Counter(y))
    engine = f"{training.engine}, {count(getattr(training, 'n_jobs', 1), 'thread')}"
    if training.engine != engines.NAMES[0] and not engine_asked(options.get("engine")):
        engine += "; edgeforest engines says how to get a faster one"
    return Fitted(forest, data, held_out, score, guess, training.n_trees, engine, stopped)


def commonest(labels: Counter[Any]) -> Any:
    """The label that is most frequent, the smallest of several."""
    most = max(labels.values())
    return min(label for label, times in labels.items() if times == most)


# ---- What is printed --------------------------------------------------------------------------


def say(label: str, text: str, wrap: bool = True) -> None:
    """Print a line under a heading of its own; long ones are wrapped, but for those with paths."""
    lines = [text]
    if wrap:
        lines = textwrap.wrap(text, WIDTH - 11, break_on_hyphens=False, break_long_words=False)
    for line in lines:
        print(f"{label:<11}{line}".replace("\xa0", " "))
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


def listed(items: Iterable[Any], most: int) -> str:
    """Items with commas between them, cut where it gets long."""
    texts = [str(item) for item in items]
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more:,} more" if more > 0 else "")


def shares(parts: Iterable[tuple[Any, float]]) -> str:
    """Labels and their shares; a line does not break between the two."""
    return listed((f"{label}\xa0({part:.0%})" for label, part in parts), 10)


def bars(names: Sequence[str], importances: Sequence[float], most: int) -> list[tuple[int, str]]:
    """The most important features, each with its place and a line of text with a bar."""
    order = sorted(range(len(names)), key=lambda f: (-importances[f], f))[:most]
    wide = max([len(names[f]) for f in order], default=0)
    top = max([importances[f] for f in order], default=0.0) or 1.0
    return [
        (f, f"{names[f]:<{wide}}  {importances[f]:.3f}  {'#' * round(BAR * importances[f] / top)}")
        for f in order
    ]


def print_data(data: Dataset) -> None:
    """Say what was read and how it was understood."""
    values = len(data.rows) * len(data.names)
    say(
        "read",
        f"{data.source}: {count(len(data.rows), 'row')}, {count(len(data.names), 'feature')}",
        wrap=False,
    )
    numbers = [name for name in data.names if name not in data.categories]
    if numbers:
        say("", f"{count(len(numbers), 'number')}: {listed(numbers, 30)}")
    if data.categories:
        kinds = [f"{name} ({count(n, 'value')})" for name, n in data.categories.items()]
        say("", f"{len(kinds)} categorical: {listed(kinds, 20)}")
    missing = sum(data.missing.values())
    if missing:
        worst = max(data.missing, key=data.missing.__getitem__)
        say(
            "",
            f"missing: {missing:,} values ({missing / values:.1%}), most in {worst} "
            f"({data.missing[worst]:,})",
        )
    else:
        say("", "missing: none")
    for name, why in data.left_out:
        say("", f"left out: {name} ({why})")
    if data.unlabelled:
        say("", f"left out: {count(data.unlabelled, 'row')} without a target")
    if data.regression:
        y = [float(v) for v in data.y]
        say(
            "target",
            f"{data.target}: numbers from {number(min(y))} to {number(max(y))}, "
            f"mean {number(sum(y) / len(y))}",
        )
    else:
        labels = Counter[Any](data.y)
        parts = shares([(label, n / len(data.y)) for label, n in labels.most_common()])
        say("target", f"{data.target}: {len(labels)} classes, {parts}")


def print_fitted(fitted: Fitted) -> None:
    """Say what a training has cost, what it gave, and how good that is."""
    forest = fitted.forest
    print()
    if fitted.interrupted:
        say("stopped", "by Ctrl-C; the forest so far is complete and is kept")
    say("engine", fitted.engine)
    say("spent", f"{spent(forest)}, {duration(forest.spent.seconds)}")
    trees = shape(forest)
    if len(forest) < fitted.asked_trees and not fitted.interrupted:
        trees += f" ({fitted.asked_trees} trees asked for, the budget did not reach further)"
    say("forest", trees)
    if not fitted.score.rows:
        say("score", "none, since no held-out rows were predicted")
    else:
        rows = count(fitted.score.rows, "held-out row")
        ours, naive = fitted.score.words(rows, fitted.guess)
        say("score", ours)
        say("", naive)
        if not fitted.data.regression:
            say("", f"found of each class: {fitted.score.by_class()}")
    label = "important"
    if not any(forest.importances):
        say(label, "no feature: nothing was split")
        return
    for _, line in bars(forest.names, forest.feature_importances, 5):
        print(f"{label:<11}{line}".rstrip())
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
    """Write a model and say so."""
    try:
        forest.save(path)
        say("saved", f"{path}, {size(os.path.getsize(path))}", wrap=False)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Problem(f"cannot write {path}: {reason(error)}") from None


# ---- The commands -----------------------------------------------------------------------------


def train_command(args: argparse.Namespace) -> int:
    """Train a forest from a CSV file."""
    refuse_output(args.out, args.log)
    check_engine(args.engine)
    task = {"mse": "regression", "gini": "classification", "entropy": "classification"}.get(
        args.criterion, args.task
    )
    if args.task not in ("auto", task):
        raise Problem(
            f"--criterion {args.criterion} is for {task}, got --task {args.task}; leave one out"
        )
    progress = Progress()
    progress.show(f"reading {args.log} ...")
    data = prepare(
        read_table(args.log), args.target, categorical=args.categorical, drop=args.drop, task=task
    )
    if data.regression and args.class_weight:
        raise Problem(
            f"--class-weight is for classes, but {args.target!r} is a number; leave it out or use "
            "--task classification"
        )
    progress.clear()
    print_data(data)
    sys.stdout.flush()
    fitted = fit(
        data,
        test_share=args.test_share,
        seed=args.seed,
        progress=progress,
        kind=args.kind,
        criterion=args.criterion or ("mse" if data.regression else "gini"),
        splitter=args.splitter,
        n_trees=args.trees,
        max_depth=args.max_depth,
        min_samples_leaf=args.min_samples_leaf,
        class_weight=args.class_weight,
        budget=edgeforest.Budget(args.budget, args.seconds, args.bytes),
        engine=args.engine,
        n_jobs=args.jobs,
    )
    print_fitted(fitted)
    if args.out is None:
        say("saved", "nothing; give --out model.json to keep the forest")
    else:
        save(fitted.forest, args.out)
    return 130 if fitted.interrupted else 0


def predict_command(args: argparse.Namespace) -> int:
    """Predict each row of a CSV file."""
    refuse_output(args.out, args.model, args.log)
    forest = load_model(args.model)
    if args.proba and forest.regression:
        raise Problem(
            f"{args.model} predicts numbers, which have no class shares; leave out --proba"
        )
    with Reader(args.log) as reader:
        absent = [name for name in forest.names if name not in reader.names]
        if absent:
            raise Problem(
                f"{reader.source} has no column {absent[0]!r}, which the model was trained on; it "
                f"has {listed((name for name in reader.names if name), 12)}"
            )
        if args.out is None:
            predict(forest, reader, sys.stdout, args.proba, args.target)
            return 0
        part = args.out + ".part"
        try:
            with open(part, "w", encoding="utf-8", newline="") as stream:
                rows = predict(forest, reader, stream, args.proba, args.target)
            os.replace(part, args.out)
        except OSError as error:
            raise Problem(f"cannot write {args.out}: {reason(error)}") from None
        finally:
            if os.path.exists(part):
                os.remove(part)
        say("saved", f"{args.out}, {count(rows, 'prediction')}", wrap=False)
    return 0


def predict(forest: Any, reader: Reader, stream: TextIO, proba: bool, target: str | None) -> int:
    """Write a prediction for each row that the reader gives; returns how many."""
    places = [reader.names.index(name) for name in forest.names]
    unknown: dict[str, str] = {}  # by feature, a category that the forest has not met
    take = [
        number_of(reader, name) if kinds is None else category_of(reader, name, kinds, unknown)
        for name, kinds in zip(forest.names, forest.categories, strict=True)
    ]
    score = Score(forest.regression)
    truth: Callable[[str | None], Value] | None = None
    if target is not None:
        truth_place = reader.place(target)
        if forest.regression:
            truth = number_of(reader, target)
        else:
            truth = category_of(reader, target, forest.classes, {})
    writer = csv.writer(stream, lineterminator="\n")
    classes = forest.classes or ()
    writer.writerow(["prediction", *(f"p_{label}" for label in classes if proba)])
    rows = 0
    for raw in reader:
        row = [convert(cell(raw[place])) for convert, place in zip(take, places, strict=True)]
        if proba:
            parts = forest.predict_proba(row)
            answer = classes[parts.index(max(parts))]
            writer.writerow([answer, *(f"{part:.6g}" for part in parts)])
        else:
            answer = forest.predict(row)
            writer.writerow([float32(answer) if forest.regression else answer])
        rows += 1
        if truth is not None:
            label = cell(raw[truth_place])
            if label is not None:
                score.add(truth(label), answer)
    stream.flush()
    for name, text in unknown.items():
        note = f"note: {name} has values that the model has not met, such as {text!r}"
        print(f"{note}; they count as missing", file=sys.stderr)
    if score.rows:
        print("; ".join(score.words(count(score.rows, "row"))), file=sys.stderr)
    elif target is not None:
        print(f"no score: column {target!r} holds no values", file=sys.stderr)
    return rows


def number_of(reader: Reader, name: str) -> Callable[[str | None], Value]:
    """What turns a cell of a column of numbers into its value."""

    def convert(text: str | None) -> Value:
        if text is None:
            return float("nan")
        value = reader.number(text)
        if value is None or not -MAX_NUMBER <= value <= MAX_NUMBER:
            raise Problem(
                f"line {reader.line} of {reader.source} has {text!r} in column {name!r}, which "
                "must be a number within 3.4e38; mend it, or leave it empty if it is missing"
            )
        return value

    return convert


def category_of(
    reader: Reader, name: str, kinds: Sequence[Value], unknown: dict[str, str]
) -> Callable[[str | None], Value]:
    """What turns a cell of a categorical column into its value; new ones are noted in `unknown`."""
    known: dict[str | None, Value] = {str(kind): kind for kind in kinds}
    known[None] = None
    numbers = {kind: kind for kind in kinds if isinstance(kind, (int, float))}

    def convert(text: str | None) -> Value:
        if text is None or text in known:
            return known[text]
        value = reader.number(text)
        if value in numbers:  # 1.0 where the model has 1
            return numbers[value]
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
    say("model", f"{args.model}, {size(os.path.getsize(args.model))}", wrap=False)
    say("kind", f"{forest.kind} for {task}")
    say("trained", f"criterion {forest.criterion}, splitter {forest.splitter}, seed {forest.seed}")
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
        print(f"  {line:<{wide}}  {kind}")
    if len(forest.names) > most:
        print(f"  and {len(forest.names) - most:,} more")
    return 0


def merge_command(args: argparse.Namespace) -> int:
    """Join models into one."""
    from edgeforest.combine import merge  # the other commands start without it

    refuse_output(args.out, *args.models)
    forests = [load_model(path) for path in args.models]
    for path, forest in zip(args.models, forests, strict=True):
        say("read", f"{path}: {shape(forest)}", wrap=False)
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


def demo_command(args: argparse.Namespace) -> int:
    """Run the demo."""
    from edgeforest import demo  # which uses this module

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


def refuse_output(out: str | None, *inputs: str) -> None:
    """Refuse, before any work, an output that cannot be written or that would destroy an input."""
    if out is None:
        return
    folder = os.path.dirname(out) or "."
    if not os.path.isdir(folder):
        raise Problem(f"cannot write {out}: there is no folder {folder}; make it first")
    if os.path.isdir(out):
        raise Problem(f"cannot write {out}: it is a folder; name a file")
    for path in inputs:
        if os.path.exists(out) and os.path.exists(path) and os.path.samefile(out, path):
            raise Problem(f"--out {out} would overwrite what is read; give another name")


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


def seconds(text: str) -> float:
    """A number above zero with an optional suffix."""
    value = quantity(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be above 0, got {text!r}")
    return float(value)


def quantity(text: str) -> Decimal:
    """A number that may end in k, M or G."""
    match = re.fullmatch(r"(\d+\.?\d*(?:e\d{1,2})?|\.\d+)([kMG]?)", text, re.ASCII)
    if not match:
        raise argparse.ArgumentTypeError(f"must be a number such as 500k, 2M or 1.5M, got {text!r}")
    return Decimal(match[1]) * SUFFIXES[match[2]]


def whole(low: int, high: int) -> Callable[[str], int]:
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


def jobs(text: str) -> int:
    """A number of threads."""
    if text == "-1":
        return -1
    try:
        return whole(1, 1024)(text)
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
  edgeforest predict model.json new.csv --out predictions.csv
  edgeforest inspect model.json
  edgeforest merge kitchen.json cellar.json --out house.json
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


LOG = "CSV file with a header line, may be gzipped; - for the standard input"


def add_train(commands: Any) -> None:
    """The command `train`."""
    parser = add_command(
        commands,
        "train",
        train_command,
        "train a forest from a CSV file",
        "Columns of numbers are used as they are, columns of text as categories; timestamps are "
        "left out. Ctrl-C ends the training early and keeps the forest so far.",
    )
    parser.add_argument("log", help=LOG)
    parser.add_argument("--target", required=True, metavar="NAME", help="the column to predict")
    parser.add_argument("--out", metavar="FILE", help="where to write the model, as JSON")

    budget = parser.add_argument_group(
        "budget", "hard limits; numbers may end in k, M or G (thousands, millions, ...)"
    )
    budget.add_argument(
        "--budget", type=amount, metavar="N", help="at most N histogram insertions, such as 2M"
    )
    budget.add_argument(
        "--seconds", type=seconds, metavar="S", help="at most S seconds of training"
    )
    budget.add_argument(
        "--bytes", type=amount, metavar="B", help="refuse to need more than B bytes to train"
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
        "--trees", type=whole(1, 4096), default=20, metavar="N", help="trees (default 20)"
    )
    forest.add_argument(
        "--max-depth", type=whole(0, 1 << 20), metavar="N", help="splits above a leaf (no limit)"
    )
    forest.add_argument(
        "--min-samples-leaf",
        type=whole(1, 1 << 29),
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
        type=whole(0, (1 << 30) - 1),
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
        "predict each row of a CSV file",
        "Columns are found by their names, others are ignored.",
    )
    parser.add_argument("model", help="a model that train wrote")
    parser.add_argument("log", help=LOG)
    parser.add_argument("--out", metavar="FILE", help="CSV file to write (the standard output)")
    parser.add_argument(
        "--proba", action="store_true", help="also write the share of each class, as p_<class>"
    )
    parser.add_argument(
        "--target", metavar="NAME", help="the column with the truth: print the score to stderr"
    )


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
        "--max-bytes", type=amount, metavar="N", help="a file of at most N bytes, such as 64k"
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
        "--rows", type=whole(100, 1_000_000), default=6000, metavar="N", help="rows (default 6000)"
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
    except (Problem, TableError) as problem:
        Progress().clear()
        print(f"edgeforest: {problem}", file=sys.stderr)
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
