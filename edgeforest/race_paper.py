"""Algorithm 1 of the MABSplit paper to the letter: `splitter="mab-paper"` loads this file.

An interval around the impurity mu of each arm, by the delta method; stop when one arm is left, and
otherwise count every row. `core_pure.race` needs far fewer rows; this is what it is compared with.
"""

import math

from edgeforest.arms import arms
from edgeforest.criteria import decide, minus

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.criteria import Split
    from edgeforest.host.types import *

PAPER_BATCH = 1000  # B of Algorithm 1


def normal_quantile(p: "float") -> "float":
    """z with an upper tail of p (Abramowitz and Stegun 26.2.23, error below 0.00045)."""
    t = math.sqrt(-2.0 * math.log(p))
    over = 2.515517 + t * (0.802853 + t * 0.010328)
    return t - over / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)))


def estimate(
    criterion: "str", left: "Sequence[int]", total: "Sequence[int]", n_left: "int", n_right: "int"
) -> "tuple[float, float]":
    """The paper's mu of an arm and the variance of one row's part in it (delta method)."""
    n = n_left + n_right
    mean = square = 0.0
    if criterion == "mse":
        # Needs third and fourth powers: a coarser target is counted for it, see `Nodes.read`.
        for cells in (left, minus(total, left)):
            m = cells[1] / cells[0]
            mean += cells[2] - cells[1] * m
            square += cells[4] - m * (
                4.0 * cells[3] - m * (6.0 * cells[2] - m * (4.0 * cells[1] - m * cells[0]))
            )
        mean /= n
        return mean, square / n - mean * mean
    if criterion == "entropy":
        from edgeforest.entropy import LOG2E
    for side, n_side in ((left, n_left), (minus(total, left), n_right)):
        s = sum([i * i for i in side]) / (n_side * n_side)
        for i in side:
            if criterion == "gini":
                slope = s - 2.0 * i / n_side
            elif i:
                slope = (math.log(n_side) - math.log(i)) * LOG2E
            else:
                continue
            mean += i * slope
            square += i * slope * slope
    mean /= n
    return (1.0 if criterion == "gini" else 0.0) + mean, square / n - mean * mean


def race_paper(
    task: "Any", nodes: "NodeOperations", racing: "list[Any]", stride: "int", start: "int", n: "int"
) -> "Generator[Any, None, Split | None]":
    """Race by Algorithm 1; yields between rounds and returns a Split or None."""
    if task.confidence is None:
        z = normal_quantile(
            0.5 / (float(n) * n * len(racing) * task.n_bins)
        )  # delta = 1 / (n^2 m T)
    else:
        z = normal_quantile(0.5 * (1.0 - task.confidence))
    alive: "dict[int, list[int]]" = {}  # by feature, arms not yet eliminated
    seen = squares = 0
    rest = 0.0
    winner: "Any" = None
    total: "Any" = None
    while seen < n:
        granted = task.budget.take(min(PAPER_BATCH, n - seen), len(racing))
        if not granted:
            break
        at, more = nodes.count(racing, stride, start + seen, start + seen + granted)
        squares += more
        seen = at - start
        yield task
        total = nodes.total(racing[0], stride)
        size = task.criterion.size(total)
        rest = (n - seen) / max(1, n - 1) * squares / (size * size)
        least = task.least_rows(seen, n)
        winner, bounds, lowest = _look(
            task, racing, stride, total, least, z * math.sqrt(rest), alive
        )
        if winner is None:
            if seen == n:
                return None
            continue
        alive = {c.feature: [] for c in racing}
        for f, key, low in bounds:
            if low <= lowest:
                alive[f].append(key)
        racing = [c for c in racing if alive[c.feature]]
        if len(racing) == 1 and len(alive[racing[0].feature]) == 1:
            break
    if winner is None:
        return None
    # With all n rows counted the estimates of the survivors are exact.
    mu, lead, t, missing_left = winner
    lead.best = (mu, t, missing_left)
    return decide(task, lead, stride, total, rest)


def _look(
    task: "Any",
    racing: "list[Any]",
    stride: "int",
    total: "list[int]",
    least: "int",
    factor: "float",
    alive: "dict[int, list[int]]",
) -> "tuple[Any, list[tuple[int, int, float]], float]":
    """The arm of least mu, the lower bounds of all that are alive, and the least upper bound."""
    criterion = task.criterion
    size = criterion.size(total)
    bounds = []
    lowest = 0.0
    winner = None
    for c in racing:
        for t, missing_left, left in arms(c.h, c.bins, stride, c.equal):
            n_left = criterion.size(left)
            key = 2 * t + missing_left
            if n_left < least or size - n_left < least:
                continue
            if c.feature in alive and key not in alive[c.feature]:
                continue
            mu, variance = estimate(criterion.name, left, total, n_left, size - n_left)
            half = factor * math.sqrt(max(0.0, variance))
            bounds.append((c.feature, key, mu - half))
            if winner is None or mu + half < lowest:
                lowest = mu + half
            if winner is None or mu < winner[0]:
                winner = (mu, c, t, missing_left)
    return winner, bounds, lowest
