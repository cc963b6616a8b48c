"""SHAP values: by how much each feature moves the answer for a row away from the mean answer.

These are the Shapley values of the game in which a tree that is not told a feature follows both
branches, each with the share of the background rows that took it (Lundberg, Erion and Lee, 2018:
path-dependent TreeSHAP). They are exact. Along the path to a leaf with d features, write z for the
share of the background that each feature lets through, and o for whether the row itself passes, 1
or 0. The weighted sum over all sets of other features is then one integral of a polynomial in t,

    (o_f - z_f) * integral from 0 to 1 of the product over the others of (z (1 - t) + o t)

which Gauss-Legendre quadrature with d / 2 points gives without error. So a tree needs no recursion:
all paths and rows go through NumPy at once.

>>> from edgeforest import train
>>> rows = [[i % 10, i % 3] for i in range(300)]
>>> forest = train(rows, [a + 10 * b for a, b in rows], criterion="mse", n_trees=5, max_features=2)
>>> found = shap_values(forest, [[9, 0]], rows)
>>> found.values.round(1).tolist(), round(found.base, 1)
([[4.5, -10.0]], 14.5)
>>> float(round(found.base + found.values.sum(), 3)), round(forest.predict([9, 0]), 3)
(9.0, 9.0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from edgeforest.forests import oob, walking
from edgeforest.forests.walking import Model, NodeArrays, forest_of
from edgeforest.host.arrays import encoded_as

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgeforest.forest import Forest
    from edgeforest.host.values import Array

CELLS = 1 << 18  # of an array of (steps of all paths, rows): so many rows go through at once


class ShapValues(NamedTuple):
    """What each feature adds to the answers for some rows, and the answer that it is added to.

    >>> from edgeforest import shap_values, train
    >>> rows = [[i % 4, i % 3] for i in range(120)]
    >>> forest = train(rows, [a > 1 for a, b in rows], n_trees=3, max_features=2)
    >>> found = shap_values(forest, rows, rows)
    >>> found.values.shape, found.base.round(1).tolist()
    ((120, 2, 2), [0.5, 0.5])
    """

    values: NDArray[np.float64]  # (rows, features), of a classification (rows, features, classes)
    base: Any  # the mean answer: a number, or one for each class


def shap_values(model: Model, X: Any, background: Any) -> ShapValues:
    """By how much each feature moves the answer for each row of X away from the mean answer.

    `background` are rows that say how often each branch of a tree is taken: those of the training,
    or some thousands of them. A branch that none of them reaches counts as one half. `base` plus the
    sum of a row's values is its prediction (of a classification: its class shares), but for
    rounding; where merged forests know different classes, the shares before they are scaled to one.

    >>> from edgeforest import train
    >>> rows = [[i % 4, i % 3] for i in range(120)]
    >>> forest = train(rows, [a > 1 for a, b in rows], n_trees=3, max_features=2)
    >>> found = shap_values(forest, [[3, 0]], background=rows)
    >>> found.values[0, :, 1].round(2).tolist()        # towards True
    [0.5, 0.0]
    """
    forest = forest_of(model)
    rows = encoded_as(forest, X)
    reached = covers(forest, encoded_as(forest, background))
    nodes = walking.arrays(forest)
    answers = leaf_answers(forest)
    found = np.zeros((forest.n_features, forest.n_votes, len(rows)))
    base = np.zeros(forest.n_votes)
    for tree in range(len(forest)):
        paths = _Paths(nodes, *walking.extent(forest, tree), reached)
        says = answers[paths.leaf]
        base += paths.share @ says
        block = max(1, CELLS // max(1, len(paths.split)))
        for at in range(0, len(rows) if len(paths.split) else 0, block):
            part = slice(at, at + block)
            paths.add(rows[part], says, found[:, :, part])
    values, base = found.transpose(2, 0, 1) / len(forest), base / len(forest)
    if forest.regression:
        return ShapValues(values[:, :, 0], float(base[0]))
    return ShapValues(values, base)


def leaf_answers(forest: Forest) -> NDArray[np.float64]:
    """What each node that is a leaf says by itself, (nodes, classes); those of splits mean nothing."""
    shares = oob.votes(forest) / forest.scale
    return forest.low + forest.span * shares if forest.regression else shares


def covers(forest: Forest, X: Array) -> NDArray[np.int64]:
    """How many of these rows, as `encoded_as` gives them, reach each node."""
    nodes = walking.arrays(forest)
    leaves = oob.leaves(forest, X) if len(X) else np.zeros((0, 0), np.intp)
    found = np.bincount(leaves.ravel(), minlength=len(nodes.feature))
    for level in reversed(walking.levels(forest, nodes)):
        found[level] = found[nodes.left[level]] + found[nodes.right[level]]
    return found


class _Paths:
    """All paths of a tree from its root to a leaf, step by step.

    Steps are sorted by leaf, then by feature. The steps of one leaf that ask about the same feature
    make a *slot*: a row passes it if it goes the right way at each of them.
    """

    def __init__(self, nodes: NodeArrays, start: int, end: int, reached: Array) -> None:
        self.nodes = nodes
        parent = np.zeros(end, np.int64)
        splits = np.flatnonzero(~nodes.is_leaf[start:end]) + start
        for child in (nodes.left, nodes.right):
            parent[child[splits]] = splits
        self.leaf = np.flatnonzero(nodes.is_leaf[start:end]) + start
        steps = []  # the number of the path, the split, where the path goes from there
        path, here = np.arange(len(self.leaf)), self.leaf
        while True:
            inside = here != start
            path, here = path[inside], here[inside]
            if not len(here):
                break
            steps.append((path, parent[here], here))
            here = parent[here]
        if not steps:  # the root is a leaf
            self.split, self.share = np.zeros(0, np.int64), np.ones(1)
            return
        path, split, towards = (np.concatenate(part) for part in zip(*steps, strict=True))
        feature = nodes.feature[split]
        order = np.lexsort((feature, path))
        path, feature = path[order], feature[order]
        self.split, towards = split[order], towards[order]
        self.splits, self.step = np.unique(self.split, return_inverse=True)
        self.to_left = towards == nodes.left[self.split]
        new = np.append(True, (np.diff(path) != 0) | (np.diff(feature) != 0))
        self.slot = np.flatnonzero(new)  # its first step
        self.path, slot_feature = path[self.slot], feature[self.slot]
        self.first = np.flatnonzero(np.append(True, np.diff(self.path) != 0))  # slot of a path
        self.of_feature = {
            f: np.flatnonzero(slot_feature == f) for f in np.unique(slot_feature).tolist()
        }
        taken, of = reached[towards], reached[self.split]
        share = np.where(of > 0, taken / np.maximum(of, 1), 0.5)
        self.passed = np.multiply.reduceat(share, self.slot)[:, None]  # of the background: z
        self.share = np.multiply.reduceat(self.passed[:, 0], self.first)
        most = int(np.diff(np.append(self.first, len(self.slot))).max())
        at, weights = np.polynomial.legendre.leggauss((most + 1) // 2)
        self.points = list(zip((at + 1) / 2, weights / 2, strict=True))

    def add(self, rows: Array, says: Array, out: Array) -> None:
        """Add what each feature contributes for these rows to out, (features, classes, rows)."""
        passes = np.logical_and.reduceat(self._ways(rows), self.slot).astype(np.float64)  # o
        total = np.zeros_like(passes)
        for t, weight in self.points:
            factor = passes * t
            factor += self.passed * (1 - t)
            product = np.multiply.reduceat(factor, self.first)
            product *= weight
            factor[factor == 0] = 1.0  # o = z = 0: it contributes nothing
            total += np.divide(product[self.path], factor, out=factor)
        passes -= self.passed
        total *= passes
        for f, slots in self.of_feature.items():
            out[f] += says[self.path[slots]].T @ total[slots]

    def _ways(self, rows: Array) -> NDArray[np.bool_]:
        """Whether each row goes the way of each step, (steps, rows)."""
        nodes, splits = self.nodes, self.splits
        values = rows.T[nodes.feature[splits]]
        cut, kind = nodes.threshold[splits][:, None], nodes.categorical[splits][:, None]
        left = np.where(kind, values == cut, values <= cut)
        absent = np.isnan(values) | (kind & (values == 0))
        left = np.where(absent, nodes.missing_left[splits][:, None], left)
        same: NDArray[np.bool_] = left[self.step] == self.to_left[:, None]
        return same
