"""What a report says about a forest, as numbers: how good it is, as it grew, and where it is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeforest.forests import oob, walking
from edgeforest.forests.calibration import places_of
from edgeforest.forests.oob import BLOCK
from edgeforest.forests.shap import covers
from edgeforest.host.arrays import encoded_as
from edgeforest.host.frames import labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgeforest.forest import Forest
    from edgeforest.host.values import Array

BINS = 10  # of a calibration
MOST_CELLS = 20_000_000  # votes of all nodes, up to which importances are computed for each tree


@dataclass
class Scored:
    """Rows with their true answers, and what the forest says of them."""

    X: Array  # as the trees compare them
    truth: Array  # places of classes, or numbers
    answer: Array  # class shares (rows, classes), or numbers (rows,)
    by_trees: list[float]  # the score of the first tree, of the first two, and so on
    places: Array  # of the rows among those that were given
    out_of_bag: bool = False  # each row was asked of the trees that did not draw it


def scored(
    forest: Forest, X: Any, y: Any, outside: Sequence[NDArray[np.bool_]] | None = None
) -> Scored:
    """Ask a forest about rows whose answers are known.

    `outside` says for each tree which rows it may be asked about: those that it did not draw. By
    default, all. Rows that every tree drew are left out. A score is the accuracy, or the root of
    the mean squared error.
    """
    rows, given = encoded_as(forest, X), labels(y)
    truth = np.array(given if forest.regression else places_of(forest, given))
    if len(truth) != len(rows):
        raise ValueError(f"y must have a value for each of {len(rows)} rows, got {len(truth)}")
    truth = truth.astype(np.float64 if forest.regression else np.int64)
    votes = walking.votes_by_leaf(forest)
    errors, known = np.zeros(len(forest)), np.zeros(len(forest))
    trees = np.zeros(len(rows), np.int64)
    answer = np.zeros((len(rows), forest.n_votes))
    for at in range(0, len(rows), BLOCK):
        part = slice(at, at + BLOCK)
        sums = np.zeros((len(rows[part]), forest.n_votes), np.int64)
        for t, leaves in enumerate(oob.leaves(forest, rows[part])):
            free = np.ones(len(leaves), np.bool_) if outside is None else outside[t][part]
            sums += votes(leaves) * free[:, None]
            trees[part] += free
            answer[part] = _answers(forest, sums, trees[part])
            wrong = _errors(forest, answer[part], truth[part])
            errors[t] += np.nansum(wrong)
            known[t] += np.count_nonzero(~np.isnan(wrong))
    with np.errstate(invalid="ignore"):
        means = errors / known
    by_trees = (np.sqrt(means) if forest.regression else 1.0 - means).tolist()
    some = np.flatnonzero(trees)
    answer = answer[some, 0] if forest.regression else answer[some]
    return Scored(rows[some], truth[some], answer, by_trees, some, outside is not None)


def _answers(forest: Forest, sums: Array, trees: Array) -> Array:
    if forest.regression:
        return oob.values(forest, sums, trees[:, None])
    with np.errstate(invalid="ignore"):
        shares: Array = sums / sums.sum(axis=1, keepdims=True)
    return shares


def _errors(forest: Forest, answer: Array, truth: Array) -> Array:
    """1 or 0 for a wrong or right class, squared error of a number; NaN if there is no answer."""
    wrong: Array = (answer.argmax(axis=1) != truth).astype(np.float64)
    if forest.regression:
        wrong = (answer[:, 0] - truth) ** 2
    wrong[np.isnan(answer[:, 0])] = np.nan
    return wrong


def confusion(rows: Scored, classes: int) -> NDArray[np.int64]:
    """How many rows of each class (first axis) are taken for each class."""
    cells = rows.truth * classes + rows.answer.argmax(axis=1)
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


@dataclass
class Bin:
    """Rows that the forest says about the same of."""

    said: float  # the mean share of the votes, or the mean prediction
    true: float  # how often that was right, or the mean of the true values
    rows: int


def calibration(rows: Scored, regression: bool) -> list[Bin]:
    """Whether the forest is right as often as it says: rows in bins by what it says.

    For classes, what it says is the share of the votes for the class that it predicts.
    """
    said = rows.answer if regression else rows.answer.max(axis=1)
    true = rows.truth if regression else rows.answer.argmax(axis=1) == rows.truth
    order = np.argsort(said, kind="stable")
    found = []
    if regression:
        parts = np.array_split(order, min(BINS, len(order)))
    else:  # most votes are for one class: bins of equal width
        at = np.minimum((said * BINS).astype(np.int64), BINS - 1)
        parts = [np.flatnonzero(at == k) for k in range(BINS)]
    for part in parts:
        if len(part):
            found.append(Bin(float(said[part].mean()), float(true[part].mean()), len(part)))
    return found


def worst(rows: Scored, regression: bool, most: int) -> list[int]:
    """The places of the rows that the forest is most wrong about."""
    if regression:
        off = np.abs(rows.answer - rows.truth)
    else:
        mine = rows.answer[np.arange(len(rows.truth)), rows.truth]
        off = np.where(
            rows.answer.argmax(axis=1) == rows.truth, 0.0, rows.answer.max(axis=1) - mine
        )
        off += (rows.answer.argmax(axis=1) != rows.truth) * 1e-9  # ties are wrong, too
    order = np.argsort(-off, kind="stable")[:most]
    return [int(i) for i in order if off[i] > 0]


def tree_importances(forest: Forest, X: Array) -> NDArray[np.float64] | None:
    """The importances by each tree alone, (trees, features), as shares; None if it is too large.

    They are the mean decrease in impurity over these rows, if the leaves are right about them.
    """
    nodes = walking.arrays(forest)
    if len(nodes.feature) * forest.n_votes > MOST_CELLS:
        return None
    reached = covers(forest, X).astype(np.float64)
    sums = oob.votes(forest) / forest.scale * reached[:, None]  # of leaves
    levels = walking.levels(forest, nodes)
    for level in reversed(levels):
        sums[level] = sums[nodes.left[level]] + sums[nodes.right[level]]
    # Purity times rows: what a split adds to it is its decrease in impurity.
    pure = (sums * sums).sum(axis=1) / np.maximum(reached, 1)
    found = np.zeros((len(forest), forest.n_features))
    starts = np.asarray(forest.roots)
    for level in levels:
        gain = pure[nodes.left[level]] + pure[nodes.right[level]] - pure[level]
        tree = np.searchsorted(starts, level, side="right") - 1
        np.add.at(found, (tree, nodes.feature[level]), np.maximum(gain, 0.0))
    whole = found.sum(axis=1, keepdims=True)
    return found / np.where(whole > 0, whole, 1.0)
