"""What a histogram says about a split: the gain of every arm, and how sure that is.

    Contender         one feature in a race
    best_arm          its best arm so far
    Split, decide     the outcome

The criteria themselves (Gini impurity, entropy, squared error) have a file each: `gini`, `entropy`,
`mse`. How sure a gain is has a file too, `intervals`: a node that is
counted whole does without.

This file runs unchanged on CPython and MicroPython.
"""

from edgeforest.forest import EQUAL, MISSING_LEFT

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *

# A histogram is a flat list of integers: bin b has the cells h[b], h[b + stride], h[b + 2 * stride]
# and so on, one for each class or moment of the target; bin 0 is for missing values. Integers, so
# that sums are exact in any order and every engine gets the same.
# A criterion turns the cells of the left side and of the whole into
#   score      a number to rank the arms of one race by,
#   describe   the gain of one arm, its bias, and the influence of a row on it: the derivative of
#              the gain with respect to the share of rows like this one. A gain's variance is the
#              mean square of the influences, read straight from the histogram,
#   scatter    sum of squared differences of two arms' influences over rows that share both sides.


def minus(total: "Sequence[int]", left: "Sequence[int]") -> "list[int]":
    """The cells of the other side."""
    return [p - i for i, p in zip(left, total)]


class Contender:
    """One feature in a race: its bins, its histogram, its best arm so far."""

    def __init__(
        self, feature: "int", column: "Any", table: "Any", cuts: "Any", equal: "bool"
    ) -> "None":
        self.feature = feature
        self.column = column
        self.table = table  # code -> bin
        self.cuts = cuts  # bin -> highest code in it (the code itself for categories)
        self.bins = len(cuts) - 1
        self.equal = equal
        self.h: "list[int]" = []
        self.best: "tuple[float, int, bool] | None" = None  # (score, bin, missing left)
        self.gain = 0.0
        self.variance = 0.0
        self.interval: "Any" = None  # of its best arm: see `intervals`

    def left_cells(self, t: "int", missing_left: "bool", stride: "int") -> "list[int]":
        """Cells of an arm's left side."""
        h = self.h
        first = t if self.equal and t else 1
        return [
            sum(h[i + first : i + t + 1]) + (h[i] if missing_left else 0)
            for i in range(0, len(h), stride)
        ]


class Split:
    """The winner of a race."""

    def __init__(
        self, feature: "int", code: "int", equal: "bool", missing_left: "bool", gain: "float"
    ) -> "None":
        self.feature = feature
        self.code = code
        self.equal = equal
        self.missing_left = missing_left
        self.gain = gain


# ---- What histograms say of the arms of a race ------------------------------------------------


def total_of(c: "Contender", stride: "int") -> "list[int]":
    """The cells of all rows that a race has counted."""
    h = c.h
    return [sum(h[i : i + stride]) for i in range(0, len(h), stride)]


def best_arm(
    criterion: "Any", c: "Contender", stride: "int", total: "Sequence[int]", least: "int"
) -> "tuple[float, int, bool] | None":
    """The arm of highest score with at least `least` rows a side: (score, bin, missing left).

    Equal scores go to the lower bin, then to missing right. None if no arm parts the rows.
    """
    h = c.h
    if criterion.name == "gini" and not c.equal and not any(h[::stride]):
        found: "tuple[float, int, bool] | None" = criterion.best_threshold(
            h, c.bins, stride, total, least
        )
        return found
    from edgeforest.arms import best_of_all

    return best_of_all(criterion, c, stride, total, least)


def decide(
    task: "Any", lead: "Any", stride: "int", total: "Sequence[int]", rest: "float"
) -> "Split":
    """The split by the best arm of the leading feature."""
    _, t, missing_left = lead.best
    criterion = task.criterion
    left = lead.left_cells(t, missing_left, stride)
    gain, bias, _, _ = criterion.describe(left, total, True)
    gain = max(0.0, gain - bias * rest)
    if not any(lead.h[::stride]):  # none seen missing: such a row joins the larger side
        missing_left = task.data.raw or 2 * criterion.size(left) > criterion.size(total)
    if task.data.regression and task.data.width == 5:
        gain *= 1024.0  # back to squared levels
    return Split(lead.feature, lead.cuts[t], lead.equal, missing_left, gain)


def node_word(feature: "int", equal: "bool", missing_left: "bool") -> "int":
    """The item of `Forest.feature` for a split: `split_of` the other way round."""
    return feature | (EQUAL if equal else 0) | (MISSING_LEFT if missing_left else 0)
