"""What a histogram says about a split: the gain of every arm, and how sure that is.

    arms              every way to split by one histogram
    Contender         one feature in a race
    best_arm          its best arm so far
    measure           the gain of that arm and its variance
    better_threshold  whether another arm of the same feature may still beat it
    Split, decide     the outcome

The criteria themselves (Gini impurity, entropy, squared error) have a file each: `gini`, `entropy`,
`mse`.

This file runs unchanged on CPython and MicroPython.
"""

import math

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


def arms(
    h: "list[int]", bins: "int", stride: "int", equal: "bool"
) -> "Iterator[tuple[int, bool, list[int]]]":
    """Every way to split by this histogram: (bin, whether missing goes left, cells of the left).

    A number goes left if its bin is at most the arm's; a category if it is the arm's. Missing
    values are tried on both sides. The last bin is an arm too when it parts present from missing.
    """
    missing = h[::stride]
    some_missing = any(missing)
    left: "list[int]" = []
    for t in range(1, bins + 1):
        cells = h[t::stride]
        if not any(cells):
            continue  # nobody in this bin: the same arm as the one before it
        left = cells if equal or not left else [a + b for a, b in zip(left, cells)]
        if equal or t < bins or some_missing:
            yield t, False, left
            if some_missing and (equal or t < bins):
                yield t, True, [a + b for a, b in zip(left, missing)]


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
    n = criterion.size(total)
    h = c.h
    if criterion.name == "gini" and not c.equal and not any(h[::stride]):
        found: "tuple[float, int, bool] | None" = criterion.best_threshold(
            h, c.bins, stride, total, least
        )
        return found
    best = None
    top = -1e300
    for t, missing_left, left in arms(h, c.bins, stride, c.equal):
        n_left = criterion.size(left)
        if n_left < least or n - n_left < least:
            continue
        score = criterion.score(left, total, n_left, n - n_left)
        if best is None or score > top:
            top = score
            best = (score, t, missing_left)
    return best


def measure(
    criterion: "Any",
    racing: "list[Contender]",
    stride: "int",
    total: "Sequence[int]",
    rest: "float",
) -> "None":
    """How good is each feature's best arm, and how sure is that?"""
    size = criterion.size(total)
    for c in racing:
        left = c.left_cells(c.best[1], c.best[2], stride)  # type: ignore[index]
        gain, bias, on_left, on_right = criterion.describe(left, total)
        scatter = criterion.scatter(left, total, on_left, None)
        scatter += criterion.scatter(minus(total, left), total, on_right, None)
        c.gain = gain - bias * rest
        c.variance = max(0.0, scatter / size - gain * gain) * rest


def better_threshold(
    criterion: "Any",
    c: "Contender",
    stride: "int",
    total: "Sequence[int]",
    rest: "float",
    slack: "float",
    z: "float",
) -> "bool":
    """Whether another arm of the leading feature may still beat its best by more than slack.

    Two thresholds share all rows but those between them, so it is their difference that is
    estimated: its variance comes from the rows that they treat differently.
    """
    assert c.best is not None
    size = criterion.size(total)
    # An arm of smaller gain varies less, so no difference has more than twice the deviation
    # of the best: what is behind by more than that needs no closer look.
    far = 2.0 * z * math.sqrt(c.variance)
    top, best, best_missing = c.best
    best_left = c.left_cells(best, best_missing, stride)
    gain, _, lead_left, lead_right = criterion.describe(best_left, total)
    for t, missing_left, left in arms(c.h, c.bins, stride, c.equal):
        n_left = criterion.size(left)
        if n_left == 0 or n_left == size or (t, missing_left) == (best, best_missing):
            continue
        gap = criterion.score(left, total, n_left, size - n_left) - top
        if gap * criterion.per_score(size) + far <= slack:
            continue
        other, _, on_left, on_right = criterion.describe(left, total)
        # The four groups of rows by the side that each arm sends them to; two categories share none.
        at = 0 if c.equal and t != best else min(t, best)
        both = c.left_cells(at, missing_left and best_missing, stride)
        only = [a - b for a, b in zip(left, both)]
        only_best = [a - b for a, b in zip(best_left, both)]
        neither = [p - a - b for p, a, b in zip(total, left, only_best)]
        scatter = criterion.scatter(both, total, on_left, lead_left)
        scatter += criterion.scatter(only, total, on_left, lead_right)
        scatter += criterion.scatter(only_best, total, on_right, lead_left)
        scatter += criterion.scatter(neither, total, on_right, lead_right)
        gap = other - gain
        variance = max(0.0, scatter / size - gap * gap) * rest
        if gap + z * math.sqrt(variance) > slack:
            return True
    return False


def decide(
    task: "Any", lead: "Any", stride: "int", total: "Sequence[int]", rest: "float"
) -> "Split":
    """The split by the best arm of the leading feature."""
    _, t, missing_left = lead.best
    criterion = task.criterion
    left = lead.left_cells(t, missing_left, stride)
    gain, bias, _, _ = criterion.describe(left, total)
    gain = max(0.0, gain - bias * rest)
    if not any(lead.h[::stride]):  # none seen missing: such a row joins the larger side
        missing_left = task.data.raw or 2 * criterion.size(left) > criterion.size(total)
    if task.data.regression and task.data.width == 5:
        gain *= 1024.0  # back to squared levels
    return Split(lead.feature, lead.cuts[t], lead.equal, missing_left, gain)


def node_word(feature: "int", equal: "bool", missing_left: "bool") -> "int":
    """The item of `Forest.feature` for a split: `split_of` the other way round."""
    return feature | (EQUAL if equal else 0) | (MISSING_LEFT if missing_left else 0)
