"""Gini impurity as the criterion of a split, the default for classes: see `criteria`."""

from edgeforest.criteria import minus

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


class Gini:
    """Gini impurity: one minus the sum of squared class shares."""

    name = "gini"
    perfect = 1.0  # the most that an arm can score for each row: one class on each side

    def size(self, cells: "Sequence[int]") -> "int":
        """How many rows these cells count."""
        return sum(cells)

    def impurity(self, total: "Sequence[int]") -> "float":
        """Impurity of a node with these cells."""
        n = sum(total)
        return 1.0 - sum([p * p for p in total]) / (n * n)

    def score(
        self, left: "Sequence[int]", total: "Sequence[int]", n_left: "int", n_right: "int"
    ) -> "float":
        """Grows with the gain; comparable among arms that counted the same rows."""
        a = b = 0
        for i, p in zip(left, total):
            a += i * i
            b += (p - i) * (p - i)
        return a / n_left + b / n_right

    def per_score(self, n: "int") -> "float":
        """Gain per score among arms that counted n rows."""
        return 1.0 / n

    def describe(
        self, left: "Sequence[int]", total: "Sequence[int]", brief: "bool" = False
    ) -> "tuple[float, float, Any, Any]":
        """Gain, bias x rows, and if not `brief` the influence of a row on either side, by class."""
        n = sum(total)
        n_left = sum(left)
        n_right = n - n_left
        right = minus(total, left)
        s = sum([p * p for p in total]) / (n * n)
        s_left = sum([i * i for i in left]) / (n_left * n_left)
        s_right = sum([i * i for i in right]) / (n_right * n_right)
        gain = (n_left * s_left + n_right * s_right) / n - s
        bias = 1.0 - s_left - s_right + s
        if brief:
            return gain, bias, None, None
        shares = [p / n for p in total]
        on_left = [2.0 * (i / n_left - p) - (s_left - s) for i, p in zip(left, shares)]
        on_right = [2.0 * (i / n_right - p) - (s_right - s) for i, p in zip(right, shares)]
        return gain, bias, on_left, on_right

    def scatter(
        self, cells: "Sequence[int]", node: "Sequence[int]", one: "Any", two: "Any"
    ) -> "float":
        """Sum over the rows in `cells` of the squared difference of two influences."""
        total = 0.0  # not sum(): newer Pythons add floats with a correction
        if two is None:
            for c, a in zip(cells, one):
                total += c * a * a
        else:
            for c, a, b in zip(cells, one, two):
                total += c * (a - b) * (a - b)
        return total

    def best_threshold(
        self, h: "list[int]", bins: "int", stride: "int", total: "Sequence[int]", least: "int"
    ) -> "tuple[float, int, bool] | None":
        """`best_arm` for the most common case, numbers and none missing, with running sums."""
        n = sum(total)
        best = None
        top: "float" = 0
        n_left = a = both = 0  # rows, sum of left^2, sum of left x total
        squares = sum([p * p for p in total])
        left = [0] * len(total)
        classes = range(len(total))
        for t in range(1, bins):
            before = n_left
            at = t
            for k in classes:  # no slice of h: that would be garbage for a board to collect
                c = h[at]
                if c:
                    had = left[k]
                    a += c * (c + had + had)
                    both += c * total[k]
                    left[k] = had + c
                    n_left += c
                at += stride
            n_right = n - n_left
            if n_left > before and n_left >= least and n_right >= least:
                score = a / n_left + (squares - both - both + a) / n_right
                if score > top:
                    top = score
                    best = (score, t, False)
        return best
