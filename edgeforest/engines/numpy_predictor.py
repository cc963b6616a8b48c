"""NumPy predicts: all rows go down all trees at once, one level at a time."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from edgeforest.engines.numpy_reader import BLOCK, as_float32, is_numeric
from edgeforest.forest import EQUAL, FEATURE, LEAF, MISSING_LEFT, Forest, is_sequence


def leaves(forest: Forest, rows: Any) -> Any:
    """The leaf of each tree that each row reaches, (trees, rows): all go down one level at a time.

    `rows` are numbers as float32, categories as their codes.
    """
    count = len(rows)
    feature = np.asarray(forest.feature, np.uint16)
    threshold = np.asarray(forest.threshold, np.float32)
    right = np.asarray(forest.right, np.intp)
    kinds = np.bitwise_or.reduce(feature[feature != LEAF], initial=0) & EQUAL
    rows = np.ascontiguousarray(rows)
    flat = rows.ravel()
    missing = np.isnan(flat).any() or kinds
    node = np.repeat(np.array(forest.roots, np.intp), count)
    first = np.tile(np.arange(count) * rows.shape[1], len(forest.roots))
    live = np.flatnonzero(feature[node] != LEAF)
    while len(live):
        here = node[live]
        f = feature[here]
        x = flat.take(first[live] + (f & FEATURE))
        left = x <= threshold[here]
        if missing:
            absent = np.isnan(x)
            if kinds:
                equal = (f & EQUAL) > 0
                left = np.where(equal, x == threshold[here], left)
                absent |= equal & (x == 0)
            left = np.where(absent, (f & MISSING_LEFT) > 0, left)
        here = np.where(left, here + 1, right[here])
        node[live] = here
        live = live[feature[here] != LEAF]
    return node.reshape(-1, count)


def summed_votes(forest: Forest, rows: Any) -> Any:
    """Summed votes, (rows, classes)."""
    right = np.asarray(forest.right, np.intp)
    votes = np.asarray(forest.votes, np.uint16).reshape(-1, forest.n_votes)
    out = np.zeros((len(rows), forest.n_votes), np.int64)
    for leaf in leaves(forest, rows):
        out += votes[right[leaf]]
    return out


class NumpyPredictor:
    """Predicts many rows at once: see `Forest.predictor`."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest

    def predict(self, rows: Any) -> Any:
        """The class or value of one row, or a list of them for a sequence of rows."""
        return self.forest.name(self.vote(rows))

    def vote(self, rows: Any) -> tuple[bool, list[tuple[int, list[int]]]]:
        """Predict one row or many: whether it is one, and the (winner, votes) of each."""
        forest = self.forest
        if forest.adapt:
            rows = forest.adapt(rows)
        if is_numeric(rows) and rows.ndim == 2 and rows.shape[1] == forest.n_features:
            if not forest.all_numbers:
                rows = rows.tolist()
        elif not isinstance(rows, list):
            return forest.vote(rows)
        if isinstance(rows, list):
            if len(rows) < 9 or not is_sequence(rows[0]):
                return forest.vote(rows)
            values = array("f")
            for row in rows:
                values.extend(forest.encode(row))
            rows = np.frombuffer(values, np.float32).reshape(-1, forest.n_features)
        answers: list[tuple[int, list[int]]] = []
        block = min(BLOCK, 1 + 16 * BLOCK // max(len(forest.roots), forest.n_votes))
        for at in range(0, len(rows), block):
            votes = summed_votes(forest, as_float32(rows[at : at + block]))
            answers += zip(votes.argmax(axis=1).tolist(), votes.tolist(), strict=True)
        return False, answers
