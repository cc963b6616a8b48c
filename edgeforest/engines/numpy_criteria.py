"""What histograms say about many arms at once: the criteria of `criteria.py` on arrays.

The cells lie along the first axis, the arms along the others; `total` has the cells of the node.
Counts are whole numbers, so their sums are exact in any order, also as float64 below 2^53 (which
only 94 million rows can reach). All else is computed in the order of the plain Python: from class
to class with `cumsum`, because `sum` adds pairwise. Logarithms come from `math.log`, because
NumPy's may differ in the last bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from edgeforest.entropy import LOG2E

LOGS = 65536  # counts whose logarithms are kept


def _in_order(terms: Any) -> Any:
    """Sums of floats along the first axis, from the first to the last."""
    return terms.cumsum(axis=0)[-1]


class Gini:
    def size(self, cells: Any) -> Any:
        return cells.sum(axis=0)

    def score(self, left: Any, total: Any, n_left: Any, n_right: Any) -> Any:
        a = (left * left).sum(axis=0)
        both = total.dot(left.reshape(len(total), -1)).reshape(a.shape)
        b = total.dot(total) - 2.0 * both + a  # whole numbers, so exact in any order
        return a / n_left + b / n_right

    def describe(self, left: Any, total: Any) -> Any:
        n = total.sum()
        n_left = left.sum(axis=0)
        n_right = n - n_left
        right = total[:, None] - left
        s = total.dot(total) / (n * n)
        s_left = (left * left).sum(axis=0) / (n_left * n_left)
        s_right = (right * right).sum(axis=0) / (n_right * n_right)
        gain = (n_left * s_left + n_right * s_right) / n - s
        shares = (total / n)[:, None]
        on_left = 2.0 * (left / n_left - shares) - (s_left - s)
        on_right = 2.0 * (right / n_right - shares) - (s_right - s)
        return gain, 1.0 - s_left - s_right + s, on_left, on_right

    def scatter(self, cells: Any, total: Any, one: Any, two: Any = None) -> Any:
        difference = one if two is None else one - two
        return _in_order(cells * difference * difference)


class Entropy(Gini):
    def __init__(self, size: Any) -> None:
        self.logs = np.array([0.0] + [math.log(c) for c in range(1, min(LOGS, size + 1))])

    def log(self, counts: Any) -> Any:
        counts = counts.astype(np.intp)
        if counts.max() < len(self.logs):
            return self.logs.take(counts)
        logs = [math.log(c) if c else 0.0 for c in counts.ravel().tolist()]
        return np.array(logs).reshape(counts.shape)

    def score(self, left: Any, total: Any, n_left: Any, n_right: Any) -> Any:
        right = total[:, None, None] - left
        on_left = _in_order(left * self.log(left))
        on_right = _in_order(right * self.log(right))
        return on_left - n_left * self.log(n_left) + on_right - n_right * self.log(n_right)

    def describe(self, left: Any, total: Any) -> Any:
        total = total[:, None]
        n = total.sum()
        right = total - left
        on = []
        for side in (left, right):
            x = self.log(side) - self.log(side.sum(axis=0)) - self.log(total) + self.log(n)
            on.append(np.where(side > 0, x * LOG2E, 0.0))
        gain = _in_order(np.concatenate((left * on[0], right * on[1]))) / n
        others = int((total > 0).sum()) - 1
        return gain, np.full_like(gain, others * 0.5 * LOG2E), on[0], on[1]


class MSE:
    def size(self, cells: Any) -> Any:
        return cells[0]

    def impurity(self, cells: Any) -> Any:
        n = np.maximum(cells[0], 1)
        mean = cells[1] / n
        return np.maximum(0.0, cells[2] / n - mean * mean)

    def score(self, left: Any, total: Any, n_left: Any, n_right: Any) -> Any:
        d = (left[1] * float(total[0]) - float(total[1]) * n_left) / total[0]
        return d * d / (n_left * (n_right + 0.0))

    def describe(self, left: Any, total: Any) -> Any:
        n = float(total[0])
        n_left = left[0]
        n_right = n - n_left
        d = (left[1] * n - float(total[1]) * n_left) / n
        m_left = d / n_left
        m_right = -d / n_right
        gain = (n_left * m_left * m_left + n_right * m_right * m_right) / n
        bias = self.impurity(left) + self.impurity(total[:, None] - left) - self.impurity(total)
        return gain, bias, m_left, m_right

    def scatter(self, cells: Any, total: Any, one: Any, two: Any = 0.0) -> Any:
        n = cells[0]
        difference = one - two
        aside = 2.0 * (cells[1] / np.maximum(n, 1) - total[1] / total[0]) - (one + two)
        return n * difference * difference * (4.0 * self.impurity(cells) + aside * aside)
