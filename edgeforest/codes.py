"""Numbers become codes, labels whole numbers: what there is to learn from, ready for the race.

    Data         features as codes 1..255 (0 is missing), labels or targets as whole numbers
    Reader       how values become codes; an engine may have a faster one
    make_bounds  where the codes of a feature begin and end

This file runs unchanged on CPython and MicroPython.
"""

from array import array

from edgeforest.budget import LATE
from edgeforest.checks import between
from edgeforest.forest import (
    FEATURE,
    HUGE,
    INF,
    LEVELS,
    MASK,
    SUM,
    amount,
    as_float,
    check_steady,
    is_sequence,
)

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.budget import Budget, Rng
    from edgeforest.host.types import *

EDGE_ROWS = 4096  # rows of the data that place the codes


def make_bounds(values: "Iterable[float]") -> "array[float]":
    """The bounds of a feature's codes from a sample: code c holds bounds[c-1] < x <= bounds[c].

    Every bound is a float32. Few distinct values get a code each, with the bound midway between
    neighbours. For many, half of the bounds are of equal mass and half equally spaced: the first
    resolve the crowd, the others the rare extremes. The first and last bound are the sample's
    smallest and largest value; what lies beyond takes the first or last code.

    >>> list(make_bounds([1.0, 3.0, 3.0, float("nan"), 5.0]))
    [1.0, 2.0, 4.0, 5.0]
    """
    ordered = sorted([v for v in values if v == v])
    if not ordered:
        return array("f", [0.0, 0.0])
    low, high = ordered[0], ordered[-1]
    few = [low]
    for v in ordered:
        if v > few[-1]:
            few.append(v)
            if len(few) > 255:
                break
    parts = len(few)
    cuts = []
    if parts > 255:
        parts = 128
        cuts = [low + (high - low) * i / parts for i in range(1, parts)]
    else:
        ordered = few
    n = len(ordered)
    for i in range(1, parts):
        a, b = ordered[i * n // parts - 1], ordered[i * n // parts]
        cut = array("f", [a * 0.5 + b * 0.5])[0]
        cuts.append(cut if cut < b else a)  # a, where no float32 lies between the two
    bounds = array("f", [low])
    for cut in sorted(array("f", cuts)):
        if low <= cut < high and (cut > bounds[-1] or len(bounds) == 1):
            bounds.append(cut + 0.0)  # not -0.0
    bounds.append(high)
    return bounds


def code_of(x: "float", bounds: "Sequence[float]") -> "int":
    """The code of one present number."""
    low, high = 1, len(bounds) - 1
    while low < high:
        middle = (low + high) >> 1
        if bounds[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


def encode(values: "Sequence[float]", bounds: "Sequence[float]") -> "bytearray":
    """Codes of float32 values; NaN has code 0. A grid of cells shortens each search."""
    codes = bytearray(len(values))
    last = len(bounds) - 1
    low = bounds[0]
    span = bounds[last] - low
    cells = min(1024, len(values)) if 0 < span <= HUGE else 0
    per = cells / span if cells else 0.0
    if not per or per > HUGE:
        cells, per = 0, 0.0
    # start[j]: bounds that lie in a cell before j. Subtracting, scaling and truncating keep
    # the order of two numbers, so all of them are below every value of cell j.
    start = bytearray(cells + 2)
    j = 0
    for c in range(1, last):
        cell = int((bounds[c] - low) * per)
        while j <= cell:
            start[j] = c - 1
            j += 1
    while j < cells + 2:
        start[j] = last - 1
        j += 1
    top = bounds[last]
    for i, x in enumerate(values):
        if low < x < top:
            j = int((x - low) * per)
            a = start[j]
            b = start[j + 1]
            while a < b:
                middle = (a + b) >> 1
                if bounds[middle + 1] < x:
                    a = middle + 1
                else:
                    b = middle
            codes[i] = a + 1
        elif x <= low:
            codes[i] = 1
        elif x >= top:
            codes[i] = last
    return codes


class Reader:
    """How labels and values become whole numbers and codes, in plain Python."""

    def classes(self, y: "Any", n: "int") -> "tuple[list[Any], Any]":
        """The classes in their order, and the place of each row's class among them."""
        try:
            kinds: "Any" = {plain(v, 0, "") for v in set(y)}
        except TypeError:
            kinds = [None]
        if None in kinds:  # something is wrong: find the first row where
            for i, v in enumerate(y):
                if plain(v, i, "the labels") is None:
                    raise ValueError(f"the label of row {i} is missing; drop rows without a label")
        classes = sorted_set(kinds, "labels")
        if len(classes) > 4096:
            raise ValueError(
                f"at most 4096 classes, got {len(classes)}; for numbers use criterion='mse'"
            )
        place = {v: k for k, v in enumerate(classes)}
        codes: "Any" = bytearray(n) if len(place) < 257 else array("H", bytes(2 * n))
        i = -1
        for i, v in enumerate(y):
            codes[i] = place[v]
        check_steady(i + 1 == n, "y", n)
        return classes, codes

    def targets(self, y: "Any", n: "int") -> "tuple[float, float, Any]":
        """The smallest target, the span of all, and each as a level from 0 to 65535 in it."""
        values = floats(y, "target")
        check_steady(len(values) == n, "y", n)
        for i, v in enumerate(values):
            if v != v:
                raise ValueError(f"the target of row {i} is no number; drop rows without a target")
        low = min(values)
        span = max(values) - low
        if span > HUGE:
            raise ValueError("targets must span less than 3.4e38; scale them down")
        per = LEVELS / span if span > 0 else 0.0
        levels = array("H", [min(LEVELS, int((v - low) * per + 0.5)) for v in values])
        return low, array("f", [span])[0], levels

    def columns(self, task: "Any", rng: "Rng") -> "None":
        """Give the data of a training their columns of codes."""
        read_columns(task.data, rng, task.budget, encode)


def read_columns(
    data: "Data", rng: "Rng", budget: "Budget", encode: "Callable[[Any, Any], Any]"
) -> "None":
    """Quantise once: bounds from a random sample of rows, then every value becomes a code."""
    n = data.n
    data.columns = []
    data.bounds = []
    sample = None
    if n > EDGE_ROWS and not data.raw:
        sample = array("I", bytes(4 * EDGE_ROWS))
        rng.fill(sample, n)
    budget.spent.rows_read += min(n, EDGE_ROWS)
    for f in range(data.m):
        check_in_time(budget)
        codes: "Any" = ()
        bounds: "Any" = ()
        try:
            values = data.column(f)
            if data.categories[f] is not None:
                codes = read_categories(data, f, values)
                bounds = array("f", range(len(data.categories[f] or ()) + 1))
            elif data.raw:
                bounds = range(256)  # the threshold of code c is c
                codes = values if data.in_place else bytearray(values)
            else:
                values = floats(values, f"feature {data.names[f]!r} (not in categorical)")
                bounds = make_bounds([values[i] for i in sample] if sample else values)
                codes = encode(values, bounds)
        except LookupError:
            pass
        check_steady(len(codes) == n, f"feature {data.names[f]!r}", n)
        data.columns.append(codes)
        data.bounds.append(bounds)


def read_categories(data: "Data", f: "int", values: "Any") -> "bytearray":
    """The codes of a categorical feature; its categories become known to the data."""
    name = data.names[f]
    what = f"categories of {name!r}"
    values = [plain(v, i, what) for i, v in enumerate(values)]
    kinds = data.categories[f] = sorted_set([v for v in values if v is not None], what)
    if len(kinds) > 254:
        raise ValueError(
            f"feature {name!r} has {len(kinds)} categories, at most 254 can be told apart; "
            "group the rare ones"
        )
    place = {v: c + 1 for c, v in enumerate(kinds)}
    place[None] = 0
    return bytearray([place[v] for v in values])


def check_in_time(budget: "Budget") -> "None":
    """Refuse to read on when the time is up."""
    if budget.late():
        raise ValueError(LATE)


class Data:
    """What there is to learn from: features as codes, labels as whole numbers."""

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
        self.n, self.m, self.column = _shape(X, n_features, by_column)
        # Bytes are codes already: whole numbers from 0 to 255, none missing.
        parts = X if by_column else [X]
        self.raw = all(
            [
                isinstance(x, (bytes, bytearray))
                or repr(getattr(x, "dtype", 0)) == "dtype('uint8')"
                for x in parts
            ]
        )
        self.in_place = self.raw and by_column and not hasattr(parts[0], "dtype")
        if not is_sequence(y) or len(y) != self.n:
            raise ValueError(
                f"y must be a list of {self.n} labels or numbers, one a row; got {amount(y)}"
            )
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
            check_steady(False, "y", self.n)

    def name_features(self, names: "Any", categorical: "Any") -> "None":
        """Names and kinds of the features."""
        if names is None:
            names = [f"x{f}" for f in range(self.m)]
        self.names = [str(name) for name in names] if is_sequence(names) else []
        if len(self.names) != self.m:
            raise ValueError(f"names must be a list of {self.m} names, got {amount(names)}")
        # A list of values where the feature is categorical.
        self.categories: "list[list[Any] | None]" = [None] * self.m
        if not is_sequence(categorical):
            raise TypeError(f"categorical must be a list of features, got {categorical!r}")
        for item in categorical:
            named = not isinstance(item, int) and item in self.names
            f = self.names.index(item) if named else item
            self.categories[between("categorical (or name a feature)", f, 0, self.m - 1)] = []

    def drawable(self) -> "int":
        """How many rows trees may draw from."""
        return len(self.patch) if self.patch else self.n

    def forget(self) -> "None":
        """Let go of rows and codes: training is over."""
        self.given = self.column = self.y = self.columns = None  # type: ignore[assignment]


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


# ---- Reading what the user gave ---------------------------------------------------------------


def plain(v: "Any", i: "int", what: "str") -> "Any":
    """A label or category as plain Python that JSON can hold; None where it is missing."""
    if hasattr(v, "item") and not is_sequence(v):
        v = v.item()
    if v is None:
        return None
    if not isinstance(v, (str, int, float, bool)) or v in (INF, -INF):
        raise TypeError(f"row {i} of {what} must be text or a number, got {v!r}")
    return v if v == v else None


def sorted_set(values: "Iterable[Any]", what: "str") -> "list[Any]":
    """The distinct values in their order."""
    try:
        return sorted(set(values))
    except TypeError:
        raise ValueError(f"{what} must be all text or all numbers, got a mixture") from None


def floats(given: "Any", what: "str") -> "array[float]":
    """A column of values as float32, none of them infinite."""
    try:
        values = array("f", list(given))  # a list: an array made of bytes would take their bits
        total = sum(values)
        if total - total == 0 or all([v - v == 0 or v != v for v in values]):
            return values
    except (TypeError, ValueError, OverflowError):
        pass
    values = array("f")
    for i, v in enumerate(given):  # again, slowly, to accept None or to say what is wrong
        x = as_float(v, i, what)
        if x == x and not -HUGE <= x <= HUGE:
            raise ValueError(
                f"row {i} of {what} is infinite or beyond float32, got {v!r}; NaN means missing"
            )
        values.append(x)
    return values


def _shape(
    X: "Any", n_features: "int | None", by_column: "bool"
) -> "tuple[int, int, Callable[[int], Any]]":
    """Rows, features, and a function from a feature to its column of values."""
    if not is_sequence(X):
        raise TypeError(f"X must be a list of rows, got {X!r}")
    n = len(X)
    if n == 0:
        raise ValueError("no rows to train on; give at least one")
    if n_features is not None:
        m = between("n_features", n_features, 1, FEATURE)
        if n % m:
            raise ValueError(f"a flat buffer of {n} values does not hold rows of {m}")
        return n // m, m, lambda f: [X[i] for i in range(f, n, m)]
    table = hasattr(X, "dtype") and is_sequence(X[0])  # an array of NumPy or ulab
    what = "column" if by_column else "row"
    if not table:
        i = -1
        for i, line in enumerate(X):
            if not is_sequence(line):
                raise TypeError(
                    f"{what} {i} of X must be a list of values, got {line!r}; "
                    "for one flat buffer of rows give n_features"
                )
            if len(line) != len(X[0]):
                raise ValueError(f"{what} {i} has {len(line)} values, {what} 0 has {len(X[0])}")
        check_steady(i + 1 == n, "X", n)
    m = len(X[0])
    if by_column:
        n, m = m, n
    if not 1 <= m <= FEATURE or not 1 <= n <= MASK:
        raise ValueError(f"X must have 1 to {MASK} rows of 1 to {FEATURE} values, got {n} of {m}")
    if by_column:
        return n, m, lambda f: X[f]
    if table:
        return n, m, lambda f: X[:, f]
    return n, m, lambda f: [row[f] for row in X]


def part_of(name: "str", value: "Any", whole: "int") -> "int":
    """How many that is: a whole number, or a share of `whole` if it is a float."""
    if isinstance(value, float):
        return max(1, int(between(name, value, 1e-9, 1.0) * whole))
    return min(whole, int(between(name, value, 1, MASK)))
