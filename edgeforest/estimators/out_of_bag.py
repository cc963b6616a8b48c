"""The out-of-bag score of an estimator, and the decision to stop when it no longer grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from edgeforest import sure
from edgeforest.forests import oob
from edgeforest.forests.calibration import numbers_of, places_of
from edgeforest.forests.merging import keep
from edgeforest.host import arrays

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from edgeforest.forest import Forest
    from edgeforest.estimators.parameters import Score
    from edgeforest.host.arrays import Rows
    from edgeforest.host.values import Array

SAMPLE = 4096  # rows whose out-of-bag score decides when to stop
MOST = 10_000  # rows that calibrate: the coverage that they promise is right within 0.003


class Drawn:
    """Which rows each tree of an estimator drew; empty if that is not known."""

    def __init__(self, trees: Iterable[tuple[oob.Draws, int]] = ()) -> None:
        self.trees = list(trees)  # the draws of its training, and the tree's number in that

    def __add__(self, other: Drawn) -> Drawn:
        return Drawn(self.trees + other.trees)

    def keep(self, places: Iterable[int]) -> Drawn:
        """The same of the trees at these places."""
        return Drawn(self.trees[i] for i in places) if self.trees else self

    def next_number(self, n_trees: int) -> int:
        """The number of the next tree: the trees before it keep their random streams."""
        return max([number for _, number in self.trees], default=n_trees - 1) + 1

    def has_part_of(self, n: int) -> bool:
        """Whether a training was given that many rows and has read a part of them."""
        return any(draws.given == n != draws.n for draws, _ in self.trees)

    def left_out(self, rows: Rows, target: Array) -> list[NDArray[np.bool_]] | None:
        """For each tree, which of these rows it did not draw; None if no tree drew from them."""
        data = oob.fingerprint(rows.values, target)
        if not any(draws.data == data for draws, _ in self.trees):
            return None
        everything = np.ones(rows.n, np.bool_)  # for trees that were trained on other rows
        return [
            draws.outside(number) if draws.data == data else everything
            for draws, number in self.trees
        ]


def bag_of(
    forest: Forest, drawn: Drawn, rows: Rows, target: Array, places: Array | None
) -> oob.OutOfBag:
    """The votes that rows get from the trees that did not draw them.

    `places` are those of the target's classes among the forest's, which may have more.
    """
    outside = drawn.left_out(rows, target)
    assert outside is not None
    if places is not None:
        target = places[target]
    bag = oob.OutOfBag(rows.encoded(forest), target, forest.n_votes)
    bag.add(forest, outside)
    return bag


def scored(
    bag: oob.OutOfBag, forest: Forest, oob_score: Score, classes: Array | None
) -> tuple[float, NDArray[np.float64]]:
    """The out-of-bag score, and the answers it was computed from."""
    answers = bag.answer(forest)
    if not callable(oob_score):
        return bag.score(forest), answers
    known = bag.trees > 0
    truth, guess = bag.y[known], answers[known]
    if classes is not None:
        truth, guess = classes.take(truth), classes.take(guess.argmax(axis=1))
    return float(oob_score(truth, guess)), answers


def calibrate(forest: Forest, drawn: Drawn, rows: Rows, y: Any) -> None:
    """Calibrate a forest by rows; those that trees drew count only the others."""
    target, classes = arrays.read_target(y, rows.n, forest.regression)
    outside = drawn.left_out(rows, target)
    if outside is None and drawn.has_part_of(rows.n):
        raise ValueError(
            "X must not be the rows of fit here: to keep its budget in seconds, fit has read a part "
            "of them; give rows that it was not given"
        )
    some = oob.some(rows.n, MOST, forest.seed)
    asked = sure.twin_of(forest) if forest.regression else forest
    bag = oob.OutOfBag(rows.encoded(forest)[some], target[some], asked.n_votes)
    if outside is None:
        outside = [np.ones(rows.n, np.bool_)] * len(forest)
    bag.add(asked, [free[some] for free in outside])
    truths = bag.y.tolist()
    if classes is not None:
        truths = places_of(forest, classes[bag.y].tolist())
    numbers = numbers_of(forest, bag.totals.tolist(), bag.trees.tolist(), truths)
    forest.calibration = numbers


class EarlyStopping:
    """Decides when the out-of-bag score of a sample of rows has stopped growing."""

    def __init__(
        self,
        tol: float,
        patience: int,
        training: Any,
        rows: Rows,
        target: Array,
        draws: oob.Draws,
    ) -> None:
        if type(patience) is bool or patience < 1 or not float(tol) >= 0:
            raise ValueError(
                "tol must be at least 0 and n_iter_no_change a whole number from 1, got "
                f"{tol!r} and {patience!r}"
            )
        self.tol = float(tol)
        self.patience = patience
        self.training = training
        self.draws = draws
        self.rows = oob.some(rows.n, SAMPLE, training.seed)
        training.grown.prepare()
        encoded = rows.encoded(training.grown)[self.rows]
        self.bag = oob.OutOfBag(encoded, target[self.rows], training.grown.n_votes)
        self.scores: list[float] = []  # after each tree

    @property
    def score(self) -> float | None:
        """The score of the trees so far; None before the first."""
        return self.scores[-1] if self.scores else None

    def has_seen_enough(self) -> bool:
        """Score the trees that are new; returns whether more trees would not help."""
        grown = self.training.grown
        for place in range(len(self.scores), len(grown.roots)):
            tree = keep(grown, [place])
            self.bag.add(tree, [self.draws.outside(self.training.first + place)[self.rows]])
            self.scores.append(self.bag.score(tree))
        before, late = self.scores[: -self.patience], self.scores[-self.patience :]
        return bool(before) and max(late) <= max(before) + self.tol
