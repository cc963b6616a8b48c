"""Regression: targets become levels, and the squared error is the criterion of a split.

See `criteria`. A board loads this file for `criterion="mse"`.
"""

from array import array

from edgeforest.careful import floats
from edgeforest.criteria import minus
from edgeforest.forest import HUGE, INF, LEVELS

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def read_targets(y: "Any", n: "int") -> "tuple[float, float, Any]":
    """The smallest target, the span of all, and each as a level from 0 to 65535 in it."""
    values = floats(y, "target")
    if len(values) != n:
        from edgeforest.checks import check_steady

        check_steady(False, "y", n)
    for i, v in enumerate(values):
        if v != v:
            raise ValueError(f"the target of row {i} is missing; drop such rows")
    low = min(values)
    span = max(values) - low
    if span > HUGE:
        raise ValueError("targets must span less than 3.4e38; scale them down")
    per = LEVELS / span if span > 0 else 0.0
    levels = array("H", [min(LEVELS, int((v - low) * per + 0.5)) for v in values])
    return low, array("f", [span])[0], levels


def count_levels(task: "Any") -> "None":
    """Let a training count levels of the target, not the target itself."""
    data = task.data
    if task.splitter == "mab-paper":
        data.width = 5  # cells of a bin: moments up to the fourth
    if data.span:  # from squared targets to squared levels
        per = LEVELS / data.span
        task.min_impurity_decrease = task.min_impurity_decrease * per * per


def moments(rows: "list[int]", data: "Any", times: "Any") -> "list[list[int]]":
    """Of each row the times drawn, and their products with powers of the target."""
    labels = [data.y[row] for row in rows]
    if data.width == 5:  # 11 bits and a sign: their fourth powers still add up exactly
        labels = [(v >> 5) - 1024 for v in labels]
    found = [[times[row] for row in rows]]
    while len(found) < data.width:
        found.append([a * b for a, b in zip(found[-1], labels)])
    return found


def count(c: "Any", rows: "list[int]", moments: "list[list[int]]", stride: "int") -> "None":
    """Count rows with these moments into the histogram of a feature."""
    h, table, column = c.h, c.table, c.column
    if len(moments) != 3:
        for k, moment in enumerate(moments):
            for row, v in zip(rows, moment):
                h[table[column[row]] + k * stride] += v
        return
    n, y, yy = moments
    i = 0  # not zip, which would allocate a tuple a row on a board
    for row in rows:
        at = table[column[row]]
        h[at] += n[i]
        h[at + stride] += y[i]
        h[at + stride + stride] += yy[i]
        i += 1


def sums(rows: "Any", start: "int", end: "int", y: "Any", times: "Any") -> "tuple[int, int, int]":
    """How many draws rows start..end stand for, and the sum of their targets."""
    total = n = 0
    for i in range(start, end):
        row = rows[i]
        total += y[row] * times[row]
        n += times[row]
    return n, total, 0


class MSE:
    """Mean squared error, in squared levels; cells are (rows, sum, sum of squares)."""

    name = "mse"
    perfect = INF  # the score alone does not show that an arm leaves nothing to gain

    def size(self, cells: "Sequence[int]") -> "int":
        return cells[0]

    def impurity(self, total: "Sequence[int]") -> "float":
        mean = total[1] / total[0]
        return max(0.0, float(total[2]) / total[0] - mean * mean)

    def score(
        self, left: "Sequence[int]", total: "Sequence[int]", n_left: "int", n_right: "int"
    ) -> "float":
        d = (float(left[1]) * total[0] - float(total[1]) * n_left) / total[0]
        return d * d / (float(n_left) * n_right)

    def per_score(self, n: "int") -> "float":
        return 1.0

    def describe(
        self, left: "Sequence[int]", total: "Sequence[int]", brief: "bool" = False
    ) -> "tuple[float, float, Any, Any]":
        # With m the mean of a side less the mean of the node, a row has influence 2 m (y - mean)
        # - m^2: m says it all.
        n = total[0]
        n_left = left[0]
        n_right = n - n_left
        d = (float(left[1]) * n - float(total[1]) * n_left) / n
        m_left = d / n_left
        m_right = -d / n_right
        gain = (n_left * m_left * m_left + n_right * m_right * m_right) / n
        right = minus(total, left)
        bias = self.impurity(left) + self.impurity(right) - self.impurity(total)
        return gain, bias, m_left, m_right

    def scatter(
        self, cells: "Sequence[int]", node: "Sequence[int]", one: "Any", two: "Any"
    ) -> "float":
        n = cells[0]
        if not n:
            return 0.0
        if two is None:
            two = 0.0
        difference = one - two
        aside = 2.0 * (cells[1] / n - node[1] / node[0]) - (one + two)
        return n * difference * difference * (4.0 * self.impurity(cells) + aside * aside)  # type: ignore[no-any-return]
