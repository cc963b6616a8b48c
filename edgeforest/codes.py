"""Numbers become codes, labels whole numbers: what there is to learn from, ready for the race.

    Data      features as codes 1..255 (0 is missing), labels or targets as whole numbers
    Reader    how values become codes; an engine may have a faster one

Bytes are codes already. Other numbers are coded by `bounds`, other labels by `labels`, which a
board loads when it is given some.

This file runs unchanged on CPython and MicroPython.
"""

from edgeforest.budget import EDGE_ROWS
from edgeforest.forest import BOARD, FEATURE, LEVELS, MASK, SUM, is_sequence

if 0:  # for type checkers: a board compiles nothing of it
    from array import array

    from edgeforest.budget import Rng
    from edgeforest.host.types import *


class Reader:
    """How labels and values become whole numbers and codes, in plain Python."""

    def classes(self, y: "Any", n: "int") -> "tuple[list[Any], Any]":
        """The classes in their order, and the place of each row's class among them."""
        if BOARD and isinstance(y, bytearray):
            classes = sorted(set(y))
            if classes == list(range(len(classes))):
                return classes, y  # as it is: a small heap has no room for a copy
        from edgeforest.labels import read_labels

        return read_labels(y, n)

    def targets(self, y: "Any", n: "int") -> "tuple[float, float, Any]":
        """The smallest target, the span of all, and each as a level from 0 to 65535 in it."""
        from edgeforest.mse import read_targets

        return read_targets(y, n)

    def columns(self, task: "Any", rng: "Rng") -> "None":
        """Give the data of a training their columns of codes."""
        data, budget = task.data, task.budget
        if not data.in_place or data.categories != [None] * data.m or budget.late():
            from edgeforest.reading import read_columns

            return read_columns(data, rng, budget)
        budget.spent.rows_read += min(data.n, EDGE_ROWS)
        data.columns = [data.column(f) for f in range(data.m)]
        data.bounds = [range(256)] * data.m  # the threshold of code c is c


class Data:
    """What there is to learn from: features as codes, labels as whole numbers."""

    column: "Callable[[int], Any]"  # the values of a feature, as they were given
    columns: "Any"  # codes by feature, as the engine reads them
    bounds: "list[Any]"  # of the codes, by feature: the threshold of code c is bounds[c]

    def __init__(
        self,
        X: "Any",
        y: "Any",
        reader: "Any",
        regression: "bool",
        n_features: "int | None",
        by_column: "bool",
    ) -> "None":
        self.given = X
        self.by_column = by_column
        self.flat = n_features is not None  # one buffer, row after row
        # Bytes are codes already: whole numbers from 0 to 255, none missing.
        self.raw = self.in_place = False
        if by_column and _are_buffers(X):
            self.n, self.m, self.column = len(X[0]), len(X), lambda f: X[f]
            self.raw = self.in_place = True
        else:
            from edgeforest.shapes import is_raw, shape

            self.n, self.m, self.column = shape(X, n_features, by_column)
            self.raw = is_raw(X, by_column)
            self.in_place = self.raw and by_column and not hasattr(X[0], "dtype")
        if not is_sequence(y) or len(y) != self.n:
            from edgeforest.checks import refuse_length

            refuse_length("y", self.n, "labels or numbers, one a row", y)
        self.regression = regression
        self.low = self.span = 0.0
        self.classes: "list[Any] | None" = None
        self.width = 3  # cells of a histogram's bin: rows, sum and sum of squares, or classes
        self.patch: "array[int] | None" = None  # rows that trees may draw from, where not all
        self.weights: "array[int] | None" = None  # running sums: a row's weight is its chance
        try:
            if regression:
                self.low, self.span, self.y = reader.targets(y, self.n)
            else:
                self.classes, self.y = reader.classes(y, self.n)
                self.width = len(self.classes or ())
        except LookupError:
            from edgeforest.checks import check_steady

            check_steady(False, "y", self.n)

    def name_features(self, names: "Any", categorical: "Any") -> "None":
        """Names and kinds of the features."""
        if names is None:
            names = [f"x{f}" for f in range(self.m)]
        self.names = [str(name) for name in names] if is_sequence(names) else []
        if len(self.names) != self.m:
            from edgeforest.checks import refuse_length

            refuse_length("names", self.m, "names", names)
        # A list of values where the feature is categorical.
        self.categories: "list[list[Any] | None]" = [None] * self.m
        if categorical != ():
            from edgeforest.categories import mark_categorical

            mark_categorical(self, categorical)

    @property
    def of_bytes(self) -> "bool":
        """Whether all features are bytes: a code is its own threshold."""
        return self.raw and self.categories == [None] * self.m

    def drawable(self) -> "int":
        """How many rows trees may draw from."""
        return len(self.patch) if self.patch else self.n

    def forget(self) -> "None":
        """Let go of rows and codes: training is over."""
        self.given = self.column = self.y = self.columns = None  # type: ignore[assignment]


def _are_buffers(columns: "Any") -> "bool":
    """Whether these are columns of bytes that a training uses where they are."""
    if not isinstance(columns, (list, tuple)) or not 0 < len(columns) <= FEATURE:
        return False
    n = len(columns[0]) if isinstance(columns[0], (bytes, bytearray)) else 0
    return 0 < n <= MASK and all(
        [isinstance(x, (bytes, bytearray)) and len(x) == n for x in columns]
    )


def vote_scale(n_trees: "int") -> "int":
    """The votes of one leaf in a forest of so many trees: their sums are exact, even in float32."""
    return min(LEVELS, SUM // n_trees)


def vote_shares(counts: "Sequence[int]", total: "int", scale: "int") -> "list[int]":
    """Counts of classes as shares of `scale`, rounded so that they add up."""
    shares = []
    upto = before = 0
    for count in counts:
        upto += count
        now = (2 * upto * scale + total) // (2 * total)
        shares.append(now - before)
        before = now
    return shares
