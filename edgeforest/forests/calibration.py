"""Calibrate a forest: the numbers that make intervals and sets of it hold the truth as often as asked.

This is conformal prediction. Rows that a tree has not seen show how far the forest misses; a new row
misses by no more than a share of them did. For a regression, a miss is measured by the spread of the
trees' votes, so that intervals are wide where the trees disagree. For classes it is the share of the
votes that the true class got.

Rows that were held out are new to all trees. Of the rows of the training itself, each asks only the
trees that did not draw it; an estimator knows which they are. `edgeforest/sure.py` has the answers.

>>> from edgeforest import RandomForestRegressor
>>> X, y = [[i % 50] for i in range(600)], [2.0 * (i % 50) + i % 7 for i in range(600)]
>>> forest = RandomForestRegressor(20, random_state=0).fit(X, y)
>>> ((lower, upper),) = forest.calibrate(X, y).predict_interval([[25]], coverage=0.8).tolist()
>>> 48 < lower < 52 < 54 < upper < 58
True
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from edgeforest import sure
from edgeforest.forest import INF, MASK, Forest
from edgeforest.forests.walking import forest_of
from edgeforest.host.frames import labels
from edgeforest.rows import as_float

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Model = TypeVar("Model")
# The spread of few trees is a rough one: that part of the mean spread, divided by the trees, is added.
# Chosen by trial: less makes intervals wider than they need be, more makes them all equally wide.
ROUGH = 3.0


def calibrate(model: Model, X: Any, y: Any) -> Model:
    """Make `predict_interval` or `predict_set` possible; returns the same forest or estimator.

    X and y are rows that the forest has not seen, some hundreds at least. An estimator also takes
    the rows of its `fit`: each row then counts only the trees that did not draw it. Predictions stay
    as they are. The model file keeps the calibration; `merge`, `prune` and other trees drop it.

    >>> from edgeforest import train
    >>> X, y = [[i % 50] for i in range(600)], [i % 50 + i % 7 > 30 for i in range(600)]
    >>> forest = train(X[:400], y[:400], n_trees=20)
    >>> forest.predict_set([27])
    Traceback (most recent call last):
    ValueError: this forest is not calibrated; call calibrate with rows that it has not seen
    >>> sorted(calibrate(forest, X[400:], y[400:]).predict_set([27], coverage=0.99))
    [False, True]
    """
    forest = forest_of(model)
    if model is not forest:
        if not hasattr(model, "calibrate"):
            raise TypeError(f"model must be a Forest or an estimator, got {type(model).__name__}")
        model.calibrate(X, y)
        return model
    truths = labels(y)
    asked = sure.twin_of(forest) if forest.regression else forest
    _, answers = (asked.predictor or asked).vote(X)
    if len(truths) != len(answers):
        raise ValueError(f"y must have a value for each of {len(answers)} rows, got {len(truths)}")
    if forest.regression:
        truths = [as_float(v, i, "y") for i, v in enumerate(truths)]
        if any(v - v != 0 for v in truths):
            raise ValueError("y must hold finite numbers for a regression, and none may be missing")
    else:
        truths = places_of(forest, truths)
    trees = [len(forest)] * len(answers)
    forest.calibration = numbers_of(forest, [votes for _, votes in answers], trees, truths)
    return model


def places_of(forest: Forest, truths: Iterable[Any]) -> list[int]:
    """The place of each label among the classes of a forest."""
    places = {label: k for k, label in enumerate(forest.classes or ())}
    found = []
    for label in truths:
        if label not in places:
            raise ValueError(f"y has {label!r}, which is not a class of the forest")
        found.append(places[label])
    return found


def numbers_of(
    forest: Forest, sums: Iterable[Sequence[int]], trees: Iterable[int], truths: Iterable[Any]
) -> list[int]:
    """The calibration from the summed votes of rows, of how many trees, and their true answers.

    The votes of a regression are those of the twin; the true answer of a class is its place.
    """
    rows = list(zip(sums, trees, truths, strict=True))
    return _numbers(forest, *(_reaching if forest.regression else _including)(forest, rows))


def calibrate_by_parts(forest: Forest, parts: Iterable[tuple[Forest, Any, Any]]) -> int:
    """Calibrate a forest of all rows by forests of some of them, each with rows that it has not seen.

    How far a forest misses is measured by the spread of its own trees, so that those of forests with
    fewer trees, or another range of the target, count as they are. Returns how many rows there were.

    >>> from edgeforest import train
    >>> X, y = [[i % 50] for i in range(600)], [i % 50 + i % 7 > 30 for i in range(600)]
    >>> halves = [(train(X[:300], y[:300]), X[300:], y[300:]), (train(X[300:], y[300:]), X[:300], y[:300])]
    >>> forest = train(X, y)
    >>> calibrate_by_parts(forest, halves), sorted(forest.predict_set([27], coverage=0.99))
    (600, [False, True])
    """
    needed: list[float] = []
    floors = 0.0  # as shares of a forest's range, summed over the rows
    for part, X, y in parts:
        asked = sure.twin_of(part) if part.regression else part
        _, answers = (asked.predictor or asked).vote(X)
        if part.classes is not None:  # a class that the part has not met is in its sets last
            known = {label: k for k, label in enumerate(part.classes)}
            met = [i for i, truth in enumerate(y) if truth in known]
            needed += [0.0] * (len(y) - len(met))
            rows = [(answers[i][1], len(part), known[y[i]]) for i in met]
            needed += _including(part, rows)[1]
            continue
        floor, some = _reaching(
            part, [(votes, len(part), truth) for (_, votes), truth in zip(answers, y, strict=True)]
        )
        needed += some
        floors += len(some) * floor * (part.span or 1.0) / (part.scale * len(part))
    floor = 0
    if forest.regression:
        per_value = forest.scale * len(forest) / (forest.span or 1.0)
        floor = max(1, round(floors / max(1, len(needed)) * per_value))
    forest.calibration = _numbers(forest, floor, needed)
    return len(needed)


def _numbers(forest: Forest, floor: int, needed: list[float]) -> list[int]:
    """The calibration: the floor, and the number that is enough for each share of the rows."""
    needed.sort(reverse=not forest.regression)
    n = len(needed)
    numbers = [floor]
    for percent in range(sure.LEAST, sure.MOST + 1):
        place = -(-(n + 1) * percent // 100)  # that many rows, the new one counted, are inside
        if place > n or needed[place - 1] > MASK:
            break
        numbers.append(int(needed[place - 1]))
    if len(numbers) < 2:
        raise ValueError(
            f"calibrate needs more rows that trees have not seen, got {n}; give other rows, or fit "
            "with bootstrap=True and more trees"
        )
    return numbers


def _reaching(forest: Forest, rows: list[Any]) -> tuple[int, list[float]]:
    """The floor, and the number with which the interval of each row just reaches its target."""
    base, planned = sure.twin_of(forest).scale, len(forest)
    per_value = forest.scale / forest.span if forest.span else 0.0
    found = []  # miss and spread, both in summed votes of all trees; trees
    for (total, high, low), trees, truth in rows:
        if trees < min(2, planned):
            continue  # one tree has no spread
        squares = trees * (high * base + low) - total * total
        if trees < planned:  # what is to be expected of all trees
            squares = squares * planned * (planned - 1) // (trees * (trees - 1))
        level = (truth - forest.low) * per_value
        inside = -1 <= level <= forest.scale + 1  # ends are rounded to float32
        if not forest.span:
            inside = truth == forest.low
        miss = abs(level - total / trees) * planned if inside else INF  # intervals end there
        found.append((miss, math.isqrt(squares), trees))
    if not found:
        return 0, []
    mean_trees = sum(trees for _, _, trees in found) / len(found)
    floor = max(1, round(sum(spread for _, spread, _ in found) / len(found) * ROUGH / mean_trees))
    return floor, [
        -(-sure.WIDTH * math.ceil(miss) // (spread + floor)) if miss < INF else INF
        for miss, spread, _ in found
    ]


def _including(forest: Forest, rows: list[Any]) -> tuple[int, list[float]]:
    """No floor, and the number with which the set of each row just includes its class."""
    found: list[float] = []
    for votes, trees, truth in rows:
        if trees and votes.index(max(votes)) == truth:
            found.append(sure.SHARE + 1)  # it is in any set
        elif trees:
            found.append(votes[truth] * sure.SHARE // (sum(votes) or 1))
    return 0, found
