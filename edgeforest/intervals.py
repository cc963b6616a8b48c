"""How sure a gain is, as long as a node's rows are not all counted.

    measure           the gain of a feature's best arm and its variance
    better_threshold  whether another arm of the same feature may still beat it

See `criteria`. A board loads this file where nodes are too large to be counted whole, or the budget
is short. This file runs unchanged on CPython and MicroPython.
"""

import math

from edgeforest.arms import arms
from edgeforest.criteria import minus

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.criteria import Contender
    from edgeforest.host.types import *


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
