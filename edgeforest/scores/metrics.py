"""How well predictions match the truth: one function a measure, the same as scikit-learn's.

Truths and predictions are sequences of the same length. Nothing here needs NumPy.

>>> accuracy(["on", "off", "on"], ["on", "on", "on"])
0.6666666666666666
>>> confusion(["on", "off", "on"], ["on", "on", "on"], ["off", "on"])
[[0, 1], [0, 2]]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

TINY = 2.0**-52  # a share of 0 counts as this much in a logarithm
BINS = 10  # of how sure a forest is


def accuracy(truths: Sequence[Any], answers: Sequence[Any]) -> float:
    """The share of rows that are right.

    >>> accuracy([1, 0, 1, 1], [1, 0, 0, 1])
    0.75
    """
    return sum(map(_same, truths, answers)) / _length(truths, answers)


def confusion(
    truths: Sequence[Any], answers: Sequence[Any], labels: Sequence[Any]
) -> list[list[int]]:
    """How often each label (a row) was taken for each (a column).

    >>> confusion([0, 0, 1], [0, 1, 1], [0, 1])
    [[1, 1], [0, 1]]
    """
    _length(truths, answers)
    place = {label: k for k, label in enumerate(labels)}
    table = [[0] * len(labels) for _ in labels]
    for truth, answer in zip(truths, answers, strict=True):
        table[place[truth]][place[answer]] += 1
    return table


def recalls(table: Sequence[Sequence[int]]) -> list[float]:
    """The share of each class's rows that were found, from `confusion`; NaN if it has no rows.

    >>> recalls([[1, 1], [0, 1]])
    [0.5, 1.0]
    """
    return [_part(row[k], sum(row)) for k, row in enumerate(table)]


def precisions(table: Sequence[Sequence[int]]) -> list[float]:
    """The share of answers that are right, for each class; NaN if it never was the answer.

    >>> precisions([[1, 1], [0, 1]])
    [1.0, 0.5]
    """
    return [_part(table[k][k], sum(row[k] for row in table)) for k in range(len(table))]


def f1_by_class(table: Sequence[Sequence[int]]) -> list[float]:
    """F1 of each class from `confusion`: the harmonic mean of precision and recall.

    >>> f1_by_class([[1, 1], [0, 1]])
    [0.6666666666666666, 0.6666666666666666]
    """
    found = []
    for k, row in enumerate(table):
        both = sum(row) + sum(other[k] for other in table)
        found.append(2 * row[k] / both if both else 0.0)
    return found


def balanced_accuracy(table: Sequence[Sequence[int]]) -> float:
    """The mean of `recalls` over the classes that have rows: rare classes count as common ones.

    >>> balanced_accuracy([[90, 0], [5, 5]])
    0.75
    """
    return mean([part for part in recalls(table) if part == part])


def log_loss(
    truths: Sequence[Any], shares: Sequence[Sequence[float]], classes: Sequence[Any]
) -> float:
    """How surprised the shares of the classes are by the truth, in nats; 0 is perfect.

    A share of 0 counts as 2^-52, and so does a class that is not among `classes`.

    >>> round(log_loss(["a", "b"], [[0.8, 0.2], [0.5, 0.5]], ["a", "b"]), 3)
    0.458
    """
    _length(truths, shares)
    place = {label: k for k, label in enumerate(classes)}
    total = 0.0
    for truth, parts in zip(truths, shares, strict=True):
        k = place.get(truth)
        total -= math.log(min(1 - TINY, max(TINY, 0.0 if k is None else parts[k])))
    return total / len(truths)


def calibration_error(right: Sequence[Any], sure: Sequence[float]) -> float:
    """How far the share of right answers is from how sure they were, on average over ten bins.

    `right` says of each row whether its answer is right, `sure` is the share of that answer.

    >>> round(calibration_error([True, True, False, True], [0.75, 0.76, 0.77, 0.72]), 3)
    0.0
    """
    bins = [[0, 0, 0.0] for _ in range(BINS)]
    for good, share in zip(right, sure, strict=True):
        one = bins[max(0, min(BINS - 1, math.ceil(share * BINS) - 1))]
        one[0] += 1
        one[1] += bool(good)
        one[2] += share
    return sum(abs(good - share) for _, good, share in bins) / _length(right, sure)


def mean_squared_error(truths: Sequence[float], answers: Sequence[float]) -> float:
    """The mean of the squares of the errors.

    >>> mean_squared_error([1, 2, 3], [1, 2, 6])
    3.0
    """
    return math.fsum((a - b) ** 2 for a, b in zip(truths, answers, strict=True)) / _length(
        truths, answers
    )


def mean_absolute_error(truths: Sequence[float], answers: Sequence[float]) -> float:
    """The mean of the errors without their sign.

    >>> mean_absolute_error([1, 2, 3], [1, 2, 6])
    1.0
    """
    return math.fsum(abs(a - b) for a, b in zip(truths, answers, strict=True)) / _length(
        truths, answers
    )


def r2(truths: Sequence[float], answers: Sequence[float]) -> float:
    """The share of the variance that is explained: 1 is perfect, 0 as good as the mean.

    NaN if all truths are the same.

    >>> r2([1, 2, 3], [1, 2, 3]), r2([1, 2, 3], [2, 2, 2])
    (1.0, 0.0)
    """
    middle = mean(truths)
    spread = math.fsum((v - middle) ** 2 for v in truths)
    if not spread:
        return math.nan
    return 1 - mean_squared_error(truths, answers) * len(truths) / spread


def quantiles(values: Sequence[float], shares: Sequence[float]) -> list[float]:
    """The values below which these shares of all lie, between two values in proportion.

    >>> quantiles([4.0, 1.0, 3.0, 2.0, 5.0], [0, 0.5, 0.9])
    [1.0, 3.0, 4.6]
    """
    ordered = sorted(values)
    found = []
    for part in shares:
        at = part * (len(ordered) - 1)
        low = math.floor(at)
        high = min(low + 1, len(ordered) - 1)
        found.append(ordered[low] + (at - low) * (ordered[high] - ordered[low]))
    return found


def mean(values: Sequence[float]) -> float:
    """The mean.

    >>> mean([1, 2, 6])
    3.0
    """
    if not len(values):
        raise ValueError("rows must be at least 1 for a score, got 0; give some")
    return math.fsum(values) / len(values)


def _same(one: Any, other: Any) -> bool:
    return bool(one == other)


def _part(some: int, of: int) -> float:
    return some / of if of else math.nan


def _length(truths: Sequence[Any], answers: Sequence[Any]) -> int:
    if len(truths) != len(answers) or not len(truths):
        raise ValueError(
            f"truths and predictions must be as many, and at least one, got {len(truths)} and "
            f"{len(answers)}"
        )
    return len(truths)
