"""Prune a forest: drop the trees that contribute least."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from edgeforest.forests import oob
from edgeforest.forests.calibration import places_of
from edgeforest.forests.merging import keep
from edgeforest.forests.walking import forest_of
from edgeforest.host import arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgeforest.host.values import Array

Model = TypeVar("Model")
ROWS = 2048  # rows that measure what a tree contributes


def prune(
    model: Model, X: Any, y: Any, *, max_bytes: int | None = None, max_trees: int | None = None
) -> Model:
    """A smaller forest or estimator: drop the trees that contribute least until it fits.

    `max_bytes` is the size of the model as JSON. Trees are dropped one by one: each time the tree
    without which the forest predicts the rows X best (by the squared error of class shares, or of
    values). With an estimator and the rows that it was trained on, each row counts only the trees
    that did not draw it. A forest has forgotten its draws: give rows that it has not seen.

    >>> import edgeforest
    >>> X, y = [[i % 9, i % 7] for i in range(200)], [i % 9 > 4 for i in range(200)]
    >>> forest = edgeforest.train(X[:150], y[:150], n_trees=20)
    >>> small = edgeforest.prune(forest, X[150:], y[150:], max_bytes=1500)
    >>> len(small) < 20, len(small.to_json()) <= 1500
    (True, True)
    """
    small: Any
    forest = forest_of(model)
    if model is forest:
        small = keep(forest, choose(forest, X, y, max_bytes, max_trees))
    elif not hasattr(model, "prune"):
        raise TypeError(f"model must be a Forest or an estimator, got {type(model).__name__}")
    else:
        small = copy(model)
        small.prune(X, y, max_bytes=max_bytes, max_trees=max_trees)
    found: Model = small
    return found


def choose(model: Any, X: Any, y: Any, max_bytes: int | None, max_trees: int | None) -> list[int]:
    """The places of the trees to keep."""
    if max_bytes is None and max_trees is None:
        raise ValueError("give max_bytes or max_trees: how small the forest has to be")
    for name, value in (("max_bytes", max_bytes), ("max_trees", max_trees)):
        if value is not None and (isinstance(value, bool) or not value >= 1):
            raise ValueError(f"{name} must be at least 1, got {value!r}")
    answers, outside, y = _answers(model, X, y)
    forest = forest_of(model)
    trees = list(range(len(forest)))
    totals = np.einsum("tnk,tn->nk", answers, outside)
    counts = outside.sum(axis=0)
    while True:
        size = 0 if max_bytes is None else len(keep(forest, trees).to_json().encode())
        if size <= (max_bytes or 0) and len(trees) <= (max_trees or len(trees)):
            return trees
        if len(trees) == 1:
            raise ValueError(f"max_bytes must be at least {size} for one tree, got {max_bytes}")
        costs = [
            _error(totals - answers[t] * outside[t][:, None], counts - outside[t], y) for t in trees
        ]
        worst = int(np.argmin(costs))
        gone = trees.pop(worst)
        totals -= answers[gone] * outside[gone][:, None]
        counts -= outside[gone]


def _answers(model: Any, X: Any, y: Any) -> tuple[Array, Array, Array]:
    """Each tree's answer for each row, whether it counts (trees, rows), and the true answers."""
    forest = forest_of(model)
    rows = arrays.read_as(forest, X)
    if rows.m != forest.n_features:
        raise ValueError(f"X has {rows.m} features, the forest {forest.n_features}")
    some = oob.some(rows.n, ROWS, forest.seed)
    outside: NDArray[np.float64] = np.ones((len(forest), len(some)))
    known = None
    if model is not forest:
        target, _ = arrays.read_target(y, rows.n, forest.regression)
        known = model.draws_.left_out(rows, target)
    if known is not None:
        outside = np.array([free[some] for free in known], np.float64)
    said: Array = oob.votes(forest)[oob.leaves(forest, rows.encoded(forest)[some])]
    if forest.regression:
        truth = arrays.read_values(y, rows.n)[some][:, None]
        said = oob.values(forest, said, 1)
    else:
        labels, codes = arrays.read_classes(y, rows.n)
        places = np.array(places_of(forest, labels.tolist()))
        truth = np.eye(forest.n_votes)[places[codes[some]]]
        said = said / np.maximum(said.sum(axis=2, keepdims=True), 1)
    return said, outside, truth


def _error(totals: Array, counts: Array, truth: Array) -> float:
    """The mean squared error of the mean answer, over the rows that have one."""
    known = counts > 0
    if not known.any():
        return float("inf")
    mean = totals[known] / counts[known][:, None]
    return float(((mean - truth[known]) ** 2).sum(axis=1).mean())
