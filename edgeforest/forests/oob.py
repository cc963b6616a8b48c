"""Out of bag: which rows a tree did not draw, and the votes of the trees that never saw a row.

The seed and the tree's number alone determine what a tree draws. So nothing is stored while it
grows: the rows are drawn again when somebody asks.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeforest.budget import Rng
from edgeforest.engines import numpy_predictor
from edgeforest.engines.numpy_reader import draw_rows
from edgeforest.forests import walking

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgeforest.forest import Forest
    from edgeforest.host.values import Array

BLOCK = 4096  # rows at once


class Draws:
    """What the trees of one training drew."""

    def __init__(self, training: Any, data: int, given: int) -> None:
        self.data = data  # `fingerprint` of the rows
        self.n = training.data.n
        self.given = given  # rows, of which a budget in seconds may have read a part
        self.seed = training.seed
        self.patch = training.data.patch
        self.weights = training.data.weights
        self.bootstrap = bool(training.bootstrap)
        self.sample_size = training.sample_size
        self.pool = self.n if self.patch is None else len(self.patch)  # rows that may be drawn

    def leaves_out(self) -> bool:
        """Whether a tree leaves rows out."""
        return self.bootstrap or self.pool < self.n or self.sample_size < self.pool

    def outside(self, tree: int) -> NDArray[np.bool_]:
        """For each row, whether the tree with that number did not draw it."""
        short = self.bootstrap or self.weights is not None
        rows = np.empty(self.sample_size if short else self.pool, np.int64)
        stream = Rng(self.seed, tree + 1)
        draw_rows(stream, rows, self.sample_size, self.pool, self.bootstrap, self)
        outside = np.ones(self.n, np.bool_)
        outside[rows[: self.sample_size]] = False
        return outside


def fingerprint(X: Any, y: Array) -> int:
    """A number that shows whether rows and labels are those of the training."""
    crc = zlib.crc32(np.ascontiguousarray(y).tobytes())
    some = np.linspace(0, len(y) - 1, min(len(y), 64)).astype(np.intp)
    for column in X if isinstance(X, list) else [X]:
        if isinstance(column, list):
            part = repr([column[i] for i in some]).encode()
        else:
            part = np.ascontiguousarray(column[some], np.float32).tobytes()
        crc = zlib.crc32(part, crc)
    return crc


def some(n: int, most: int, seed: int) -> NDArray[np.intp]:
    """The places of at most `most` of n rows, drawn at random."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def leaves(forest: Forest, X: Array) -> NDArray[np.intp]:
    """The leaf that each row reaches in each tree, (trees, rows): places among all nodes."""
    native: Any = forest.predictor
    if hasattr(native, "leaves"):
        found = np.frombuffer(native.leaves(X, encoded=True), np.uint32)
        return found.reshape(len(forest), -1).astype(np.intp)
    parts = [
        numpy_predictor.leaves(forest, X[at : at + BLOCK].astype(np.float32))
        for at in range(0, len(X), BLOCK)
    ]
    whole: NDArray[np.intp] = np.concatenate(parts, axis=1)
    return whole


def sums(forest: Forest, X: Array) -> NDArray[np.int64]:
    """The summed votes of each row, (rows, classes)."""
    native: Any = forest.predictor
    if hasattr(native, "sums"):
        found = np.frombuffer(native.sums(X, encoded=True)[1], np.uint32)
        return found.reshape(-1, forest.n_votes).astype(np.int64)
    parts = [
        numpy_predictor.summed_votes(forest, X[at : at + BLOCK].astype(np.float32))
        for at in range(0, len(X), BLOCK)
    ]
    whole: NDArray[np.int64] = np.concatenate(parts)
    return whole


def votes(forest: Forest) -> NDArray[np.int64]:
    """The votes of each node that is a leaf, (nodes, classes); those of splits mean nothing."""
    return walking.vote_table(forest)[walking.arrays(forest).votes]


def values(forest: Forest, totals: Array, trees: Any) -> NDArray[np.float64]:
    """The values of a regression from votes summed over some of its trees, not rounded.

    `trees` says how many. `Forest.value` is for the sums over all trees, rounded to float32.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        found: NDArray[np.float64] = totals / (forest.scale * np.asarray(trees, np.float64))
    return forest.low + forest.span * found


class OutOfBag:
    """The votes that rows get from trees that did not draw them, added up tree by tree."""

    def __init__(self, X: Array, y: Array, n_votes: int) -> None:
        self.X = X
        self.y = y
        self.totals = np.zeros((len(y), n_votes), np.int64)
        self.trees = np.zeros(len(y), np.int64)

    def add(self, forest: Forest, outside: list[NDArray[np.bool_]]) -> None:
        """Add the votes of each tree of a forest for the rows that it did not draw."""
        table = votes(forest)
        for at in range(0, len(self.y), BLOCK):
            part = slice(at, at + BLOCK)
            for leaf, free in zip(leaves(forest, self.X[part]), outside, strict=True):
                self.totals[part] += table[leaf] * free[part, None]
                self.trees[part] += free[part]

    def answer(self, forest: Forest) -> NDArray[np.float64]:
        """Shares of the classes (rows, classes) or values (rows); NaN if every tree drew a row."""
        if forest.regression:
            return values(forest, self.totals[:, 0], self.trees)
        with np.errstate(invalid="ignore"):
            shares: NDArray[np.float64] = self.totals / self.totals.sum(axis=1, keepdims=True)
        return shares

    def score(self, forest: Forest) -> float:
        """Accuracy, or R squared, on the rows that some tree did not draw."""
        known = self.trees > 0
        answer, y = self.answer(forest)[known], self.y[known]
        if not forest.regression:
            return float(np.mean(answer.argmax(axis=1) == y)) if len(y) else float("nan")
        return r_squared(y, answer)


def r_squared(y: Array, answer: Array, weights: Array | None = None) -> float:
    """The share of the targets' variance that the answers explain, as scikit-learn counts it."""
    if len(y) < 2:
        return float("nan")
    w = np.ones(len(y)) if weights is None else np.asarray(weights, np.float64)
    unexplained = float((w * (y - answer) ** 2).sum())
    whole = float((w * (y - np.average(y, weights=w)) ** 2).sum())
    if whole == 0:
        return 1.0 if unexplained == 0 else 0.0
    return 1.0 - unexplained / whole
