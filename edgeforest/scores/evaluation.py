"""Evaluate a forest on rows that it has not seen: all measures at once, by group, beside guesses.

>>> from edgeforest import train
>>> from edgeforest.sources import Table
>>> forest = train([[i % 9] for i in range(90)], [i % 9 > 4 for i in range(90)], names=["t"])
>>> found = evaluate(forest, Table({"t": [1, 8, 5, 6], "hot": [0, 1, 0, 1]}), "hot")
>>> found.accuracy, found.table()
(0.75, [[1, 1], [0, 2]])
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from edgeforest.forest import Forest
from edgeforest.forests.walking import forest_of
from edgeforest.host.names import listed, quoted
import edgeforest.scores.metrics as metrics
from edgeforest.scores.familiarity import Familiarity
from edgeforest.sources.base import Source, SourceError
from edgeforest.sources.cells import parse_number
from edgeforest.sources.features import Block, Features, category_of, number_of
from edgeforest.sources.file import OnProgress
from edgeforest.sources.opening import open_source
from edgeforest.sources.schema import refuse_unknown
from edgeforest.splits import moment

LOOK = 256  # rows that are looked at to find the column with the truth
QUANTILES = (0.5, 0.9, 0.99)  # of the errors' sizes


class Evaluation:
    """Predictions and truths, and every measure of how well they match.

    `classes` are those of the forest, None for a regression; `labels` has further ones that were
    met among the truths. `groups` has an evaluation of each group, `odd` what looks like nothing that
    the forest was trained on; `evaluate` fills both.

    >>> found = Evaluation(["off", "on"])
    >>> found.add(["on", "off"], ["on", "on"], [[0.1, 0.9], [0.4, 0.6]])
    >>> found.accuracy, found.table(), round(found.log_loss, 3)
    (0.5, [[0, 1], [0, 1]], 0.511)
    """

    def __init__(self, classes: Sequence[Any] | None) -> None:
        self.regression = classes is None
        self.labels: list[Any] = list(classes or ())
        self._known = len(self.labels)
        self.truths: Any = array("d") if self.regression else []
        self.answers: Any = array("d") if self.regression else []
        self._sure: array[float] = array("d")  # the share of each answer
        self._right: array[float] = array("d")  # the share of each truth
        self.groups: dict[str, Evaluation] = {}
        self.odd: Familiarity | None = None
        self.unlabelled = 0  # rows without a truth

    @property
    def rows(self) -> int:
        """How many rows were counted."""
        return len(self.truths)

    def add(self, truths: Iterable[Any], answers: Iterable[Any], shares: Any = None) -> None:
        """Count rows; `shares` has those of all classes of the forest, for each row."""
        truths = list(truths)
        self.truths.extend(truths)
        self.answers.extend(answers)
        if self.regression:
            return
        place = {label: k for k, label in enumerate(self.labels[: self._known])}
        known = set(self.labels)
        for label in dict.fromkeys(truths):
            if label not in known:
                self.labels.append(label)
        for truth, parts in zip(truths, shares if shares is not None else (), strict=False):
            self._sure.append(max(parts))
            k = place.get(truth)
            self._right.append(0.0 if k is None else parts[k])

    @property
    def score(self) -> float:
        """The accuracy of classes, the mean squared error of numbers."""
        return self.mse if self.regression else self.accuracy

    # ---- Classes

    @property
    def accuracy(self) -> float:
        """The share of rows that are right."""
        return metrics.accuracy(self.truths, self.answers)

    def table(self) -> list[list[int]]:
        """How often each label (a row) was taken for each (a column)."""
        return metrics.confusion(self.truths, self.answers, self.labels)

    @property
    def log_loss(self) -> float:
        """How surprised the shares are by the truths; NaN without shares."""
        shares = [[part] for part in self._right]
        return metrics.log_loss([0] * len(shares), shares, [0]) if shares else math.nan

    @property
    def calibration_error(self) -> float:
        """How far shares are from the truth on average; NaN without shares."""
        if not self._sure:
            return math.nan
        right = [a == b for a, b in zip(self.truths, self.answers, strict=True)]
        return metrics.calibration_error(right, self._sure)

    # ---- Numbers

    @property
    def mse(self) -> float:
        """The mean squared error."""
        return metrics.mean_squared_error(self.truths, self.answers)

    def errors(self) -> list[float]:
        """The sizes of the errors of which half, 90 % and 99 % of the rows stay below."""
        sizes = [abs(a - b) for a, b in zip(self.truths, self.answers, strict=True)]
        return metrics.quantiles(sizes, QUANTILES)

    # ---- Both

    def facts(self) -> dict[str, Any]:
        """Every measure by its name, as plain values for JSON; None where one is not defined."""
        if self.regression:
            found: dict[str, Any] = {
                "mse": self.mse,
                "mae": metrics.mean_absolute_error(self.truths, self.answers),
                "r2": metrics.r2(self.truths, self.answers),
                "errors": dict(zip(map(str, QUANTILES), self.errors(), strict=True)),
            }
        else:
            table = self.table()
            found = {
                "accuracy": self.accuracy,
                "balanced_accuracy": metrics.balanced_accuracy(table),
                "log_loss": self.log_loss,
                "calibration_error": self.calibration_error,
                "labels": self.labels,
                "confusion": table,
                "f1": metrics.f1_by_class(table),
                "found": metrics.recalls(table),
            }
        if self.odd is not None:
            found.update(unlabelled=self.unlabelled, odd=self.odd.facts())
        if self.groups:
            found["groups"] = {name: group.facts() for name, group in self.groups.items()}
        return {"rows": self.rows, **_plain(found)}

    def guess(self) -> Any:
        """What to answer to every row without looking at it: the commonest class, or the mean."""
        return metrics.mean(self.truths) if self.regression else commonest(self.truths)

    def baselines(self) -> dict[str, float]:
        """The score of simple answers: the same to every row; that of the row before."""
        return {
            "always": self.score_of([self.guess()] * self.rows),
            "last row": self.score_of([self.truths[0], *self.truths[:-1]]),
        }

    def score_of(self, answers: Sequence[Any]) -> float:
        """The score that other answers to the same rows would have."""
        measure: Any = metrics.mean_squared_error if self.regression else metrics.accuracy
        return float(measure(self.truths, answers))


def evaluate(
    model: Any, source: Any, target: str, by: str | None = None, progress: OnProgress | None = None
) -> Evaluation:
    """How well a forest or an estimator predicts a log that it has not seen.

    `source` is a path, or whatever else `open_source` takes; `target` names the column with the
    truth. With `by`, every value of that column is scored by itself as well, or every day if it
    holds dates.

    >>> from edgeforest import train
    >>> from edgeforest.sources import Table
    >>> forest = train([[i] for i in range(60)], [i * 0.5 for i in range(60)], names=["t"],
    ...                criterion="mse")
    >>> log = Table({"t": [10, 20, 30], "y": [5, 10, 15], "room": ["hall", "attic", "hall"]})
    >>> found = evaluate(forest, log, "y", by="room")
    >>> found.mse < 1, sorted(found.groups), found.facts()["rows"]
    (True, ['attic', 'hall'], 3)
    """
    forest = forest_of(model)
    log = open_source(source)
    refuse_unknown(log, [target] if by is None else [target, by])
    found = Evaluation(forest.classes)
    found.odd = Familiarity(forest)
    for block, truths in _labelled(forest, log, target):
        names = None if by is None else group_names(block.values[log.names.index(by)])
        _add(found, forest, block, truths, names)
        if progress is not None:
            progress(block.asked.stop, len(log))
    if not found.rows:
        raise SourceError(f"column {quoted(target)} of {log.name} holds no values; give some")
    found.groups = dict(sorted(found.groups.items()))
    return found


def _labelled(forest: Forest, log: Source, target: str) -> Iterator[tuple[Block, list[Any]]]:
    """Blocks of a log, with the truth of each row; None where there is none."""
    truths_of = truth_reader(forest, log, target)
    for block in Features(forest, log):
        yield block, truths_of(block)


def truth_reader(forest: Forest, log: Source, target: str) -> Callable[[Block], list[Any]]:
    """A function from a block of a log to the truth of each of its rows; None where there is none."""
    if forest.classes is None:
        convert = number_of(log, target)
    else:
        convert = category_of(log, target, forest.classes, {})
    place = log.names.index(target)

    def read(block: Block) -> list[Any]:
        pairs = zip(block.rows, block.values[place], strict=True)
        return [None if v is None or v != v else convert(v, row) for row, v in pairs]

    return read


def _add(
    report: Evaluation, forest: Forest, block: Block, truths: list[Any], names: list[str] | None
) -> None:
    """Count the rows of a block that have a truth."""
    kept = [i for i, truth in enumerate(truths) if truth is not None]
    report.unlabelled += len(truths) - len(kept)
    rows = [block.features[i] for i in kept]
    if not rows:
        return
    if report.odd is not None:
        report.odd.add(rows)
    answers, shares = answered(forest, rows)
    truths = [truths[i] for i in kept]
    report.add(truths, answers, shares)
    if names is None:
        return
    places: dict[str, list[int]] = {}
    for place, i in enumerate(kept):
        places.setdefault(names[i], []).append(place)
    for name, some in places.items():
        group = report.groups.setdefault(name, Evaluation(forest.classes))
        parts = None if shares is None else [shares[i] for i in some]
        group.add([truths[i] for i in some], [answers[i] for i in some], parts)


def truth_column(forest: Forest, source: Source) -> str:
    """The only column of a log that can hold the truth; a SourceError if there are others, or none.

    It is none of the features, and holds classes of the forest, or numbers.

    >>> from edgeforest import train
    >>> from edgeforest.sources import Table
    >>> forest = train([[i] for i in range(60)], ["ab"[i > 30] for i in range(60)], names=["t"])
    >>> truth_column(forest, Table({"day": ["mon", "tue"], "t": [1, 2], "kind": ["a", "b"]}))
    'kind'
    """
    Features(forest, source)  # which says what is wrong if these are not there
    values = source.read(range(min(len(source), LOOK)))
    found = []
    for name, column in zip(source.names, values, strict=True):
        known = [v for v in column if v is not None and v == v]
        if name in forest.names or not known:
            continue
        if forest.classes is None:
            fits = all(
                not isinstance(v, str) or parse_number(v, source.decimal_comma) is not None
                for v in known
            )
        else:
            unknown: dict[str, str] = {}
            convert = category_of(source, name, forest.classes, unknown)
            for v in known:
                convert(v, 0)
            fits = not unknown
        if fits:
            found.append(name)
    if len(found) == 1:
        return found[0]
    may = [name for name in source.names if name not in forest.names]
    raise SourceError(
        f"target must say which column holds the truth; {source.name} has {listed(found or may)} beside the features"
    )


def sklearn_score(forest: Forest, trained_on: Source, source: Source, target: str) -> float:
    """The score on a log of scikit-learn's forest of as many trees, trained on another log."""
    from sklearn import ensemble  # type: ignore[import-untyped]

    tables = []
    for log in (trained_on, source):
        refuse_unknown(log, [target])
        pairs = [
            (list(forest.encode(row)), truth)
            for block, truths in _labelled(forest, log, target)
            for row, truth in zip(block.features, truths, strict=True)
            if truth is not None
        ]
        tables.append(tuple(zip(*pairs, strict=True)))
    (X, y), (others, truths) = tables
    kind = ensemble.RandomForestRegressor if forest.regression else ensemble.RandomForestClassifier
    found = Evaluation(forest.classes)
    answers = kind(len(forest), random_state=forest.seed).fit(X, y).predict(others).tolist()
    found.add(truths, answers)
    return found.score


def answered(forest: Forest, rows: Sequence[Any]) -> tuple[list[Any], Any]:
    """The answers of a forest to some rows, and the shares of the classes; None for numbers."""
    if forest.classes is None:
        return list(forest.predict(rows)), None
    shares = forest.predict_proba(rows)
    return [forest.classes[parts.index(max(parts))] for parts in shares], shares


def group_names(values: Sequence[Any]) -> list[str]:
    """What each value of a column is called as a group: the day of a date, else its text.

    >>> group_names(["2024-05-01 18:30", "hall", None])
    ['2024-05-01', 'hall', '(missing)']
    """
    names: dict[Any, str] = {}
    for value in set(values):
        names[value] = "(missing)" if value is None or value != value else str(value)
        if isinstance(value, str) and len(value) >= 10 and not value.isdigit():
            try:
                names[value] = str(moment(value).date())  # type: ignore[union-attr]
            except ValueError:
                pass
    return [names[value] for value in values]


def commonest(labels: Sequence[Any]) -> Any:
    """The most frequent label; the smallest one of several.

    >>> commonest(["b", "a", "a", "b"])
    'a'
    """
    counts = Counter(labels)
    most = max(counts.values())
    return min(label for label, times in counts.items() if times == most)


def _plain(value: Any) -> Any:
    """Plain values for JSON: what is not finite becomes None."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
