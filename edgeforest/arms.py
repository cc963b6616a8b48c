"""The arms of a race, one by one: where values may be missing, categorical or of a regression.

See `criteria`. This file runs unchanged on CPython and MicroPython.
"""

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


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


def best_of_all(
    criterion: "Any", c: "Any", stride: "int", total: "Sequence[int]", least: "int"
) -> "tuple[float, int, bool] | None":
    """The arm of highest score with at least `least` rows a side: see `criteria.best_arm`."""
    n = criterion.size(total)
    best = None
    top: "float" = 0
    for t, missing_left, left in arms(c.h, c.bins, stride, c.equal):
        n_left = criterion.size(left)
        if n_left < least or n - n_left < least:
            continue
        score = criterion.score(left, total, n_left, n - n_left)
        if best is None or score > top:
            top = score
            best = (score, t, missing_left)
    return best
