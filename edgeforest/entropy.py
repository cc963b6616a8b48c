"""Entropy as the criterion of a split; a board loads this file when it is asked for.

Its gain is the mutual information of the side and the class.
"""

import math

from edgeforest.criteria import minus
from edgeforest.gini import Gini

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *

LOG2E = 1.4426950408889634


def _xlogx(counts: "Iterable[int]") -> "float":
    """Sum of c log c, in order."""
    total = 0.0
    for c in counts:
        if c > 1:
            total += c * math.log(c)
    return total


class Entropy:
    """Entropy in bits."""

    name = "entropy"
    perfect = 0.0

    def __init__(self) -> "None":
        gini = Gini()
        self.size = gini.size
        self.scatter = gini.scatter

    def impurity(self, total: "Sequence[int]") -> "float":
        """Impurity of a node with these cells."""
        n = sum(total)
        if n in total:
            return 0.0  # exactly, whatever is rounded below
        return (math.log(n) - _xlogx(total) / n) * LOG2E

    def score(
        self, left: "Sequence[int]", total: "Sequence[int]", n_left: "int", n_right: "int"
    ) -> "float":
        """Grows with the gain; comparable among arms that counted the same rows."""
        right = minus(total, left)
        return (
            _xlogx(left) - n_left * math.log(n_left) + _xlogx(right) - n_right * math.log(n_right)
        )

    def per_score(self, n: "int") -> "float":
        """Gain per score among arms that counted n rows."""
        return LOG2E / n

    def describe(
        self, left: "Sequence[int]", total: "Sequence[int]", brief: "bool" = False
    ) -> "tuple[float, float, Any, Any]":
        """Gain, bias x rows, influence of a row on the left, and on the right, by class.

        The influence of a row is the log of its class's share here over its share in the node.
        Only cells that hold rows are ever used, so no logarithm of zero appears.
        """
        n = sum(total)
        gain = 0.0
        sides = []
        for side in (left, minus(total, left)):
            n_side = sum(side)
            influence = []
            for i, p in zip(side, total):
                x = 0.0
                if i:
                    x = (math.log(i) - math.log(n_side) - math.log(p) + math.log(n)) * LOG2E
                    gain += i * x
                influence.append(x)
            sides.append(influence)
        # Miller and Madow's bias, as if no cell of a class that was seen were empty: a class of a
        # few rows lies on one side by chance as often as for a reason.
        others = len([p for p in total if p]) - 1
        return gain / n, others * 0.5 * LOG2E, sides[0], sides[1]
