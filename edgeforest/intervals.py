"""How sure a gain is, as long as a node's rows are not all counted.

    measure           the gain of each feature's best arm, and its interval
    may_beat          whether an arm may still beat the leader's
    better_threshold  whether another arm of the leading feature may

The interval is on the scale of roots. The gain of a sample is a squared length: that of the arrow
from the class shares of one side to those of the other. What sampling adds to this arrow hardly
depends on how long it is, so the root of the gain is as sure for a weak gain as for a strong one.
docs/algorithm.md has the formulas; `benchmarks/coverage.py` shows how often they hold.

See `criteria`. A board loads this file where nodes are too large to be counted whole, or the budget
is short. This file runs unchanged on CPython and MicroPython.
"""

import math

from edgeforest.arms import arms
from edgeforest.criteria import minus
from edgeforest.forest import HUGE

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.criteria import Contender
    from edgeforest.host.types import *

WEAK = 16  # a gain below so many times its bias varies at least as one without any signal


def axis(criterion: "Any", total: "Sequence[int]") -> "float":
    """How much of the noise in a gain lies along one axis: 1 with two classes, less with more.

    It is 1 / (classes - 1) if all have the same size. Gini squares shares, so what counts there
    is mostly the large classes.
    """
    if criterion.name == "mse":
        return 1.0
    present = len([c for c in total if c])
    if present < 3:
        return 1.0
    if criterion.name == "entropy":
        return 1.0 / (present - 1)
    n = sum(total)
    squares = sum([c * c for c in total])
    top = 0.0
    for c in total:
        top += float(c * c) * float((n - c) * (n - c) + squares - c * c)
    whole = float(n * n - squares)
    return top / (whole * whole)


class Interval:
    """What a sample says about the gain of one arm."""

    def __init__(
        self,
        criterion: "Any",
        left: "Sequence[int]",
        total: "Sequence[int]",
        rest: "float",
        along: "float",
    ) -> "None":
        gain, bias, self.on_left, self.on_right = criterion.describe(left, total)
        scatter = criterion.scatter(left, total, self.on_left, None)
        scatter += criterion.scatter(minus(total, left), total, self.on_right, None)
        bias = bias * rest
        self.plain = gain  # as counted
        self.gain = gain - bias
        self.variance = max(0.0, scatter / criterion.size(total) - gain * gain) * rest
        # The root estimates that of the true gain plus shift; error is its variance.
        self.shift = 0.5 * (bias - bias * along)
        self.root = math.sqrt(max(0.0, gain - self.shift))
        most = max(gain, bias)
        self.error = self.variance / (4.0 * most) if most > 0 else 0.0
        if gain < WEAK * bias:
            self.error = max(self.error, bias * along)


def measure(
    criterion: "Any",
    racing: "list[Contender]",
    stride: "int",
    total: "Sequence[int]",
    rest: "float",
) -> "None":
    """How good is each feature's best arm, and how sure is that?"""
    along = axis(criterion, total)
    for c in racing:
        left = c.left_cells(c.best[1], c.best[2], stride)  # type: ignore[index]
        c.interval = Interval(criterion, left, total, rest, along)
        c.gain = c.interval.gain
        c.variance = c.interval.variance


def to_beat(lead: "Any", slack: "float", shift: "float") -> "float":
    """The root that an arm needs, with its own shift, to beat the leader's gain by slack."""
    return math.sqrt(max(0.0, lead.root * lead.root - lead.shift + shift) + slack)


def may_beat(one: "Any", lead: "Any", slack: "float", z: "float", shared: "float" = 0.0) -> "bool":
    """Whether an arm may beat the leader's by more than slack, by their intervals.

    `shared` is the part of their errors that is the same. An arm has to beat 0 by slack as well,
    since no true gain is less than that.
    """
    error = max(0.0, one.error + lead.error - shared)
    if one.root + z * math.sqrt(error) <= to_beat(lead, slack, one.shift):
        return False
    return one.root + z * math.sqrt(one.error) > math.sqrt(max(0.0, one.shift) + slack)  # type: ignore[no-any-return]


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

    Two thresholds share all rows but those between them, so most of their noise is the same: how
    much of it comes from the rows that they treat differently.
    """
    assert c.best is not None
    size = criterion.size(total)
    along = axis(criterion, total)
    lead = c.interval
    # Arms vary about as much as the best one does: what is behind by more than twice that needs
    # no closer look.
    near = to_beat(lead, slack, lead.shift) - 2.0 * z * math.sqrt(lead.error)
    near = near * near + lead.shift - lead.plain if near > 0 else -HUGE
    top, best, best_missing = c.best
    best_left = c.left_cells(best, best_missing, stride)
    lead_left, lead_right = criterion.describe(best_left, total)[2:]
    for t, missing_left, left in arms(c.h, c.bins, stride, c.equal):
        n_left = criterion.size(left)
        if n_left == 0 or n_left == size or (t, missing_left) == (best, best_missing):
            continue
        gap = criterion.score(left, total, n_left, size - n_left) - top
        if gap * criterion.per_score(size) <= near:
            continue
        one = Interval(criterion, left, total, rest, along)
        # The four groups of rows by the side that each arm sends them to; two categories share none.
        at = 0 if c.equal and t != best else min(t, best)
        both = c.left_cells(at, missing_left and best_missing, stride)
        only = [a - b for a, b in zip(left, both)]
        only_best = [a - b for a, b in zip(best_left, both)]
        neither = [p - a - b for p, a, b in zip(total, left, only_best)]
        scatter = criterion.scatter(both, total, one.on_left, lead_left)
        scatter += criterion.scatter(only, total, one.on_left, lead_right)
        scatter += criterion.scatter(only_best, total, one.on_right, lead_left)
        scatter += criterion.scatter(neither, total, one.on_right, lead_right)
        gap = one.plain - lead.plain
        apart = max(0.0, scatter / size - gap * gap) * rest
        scale = math.sqrt(one.variance * lead.variance)
        shared = 0.0
        if scale > 0:
            shared = (one.variance + lead.variance - apart) / scale
            shared *= math.sqrt(one.error * lead.error)
        if may_beat(one, lead, slack, z, shared):
            return True
    return False
