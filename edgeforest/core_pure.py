"""Train and use random forests under a hard budget of histogram insertions: MABSplit.

This file is the whole algorithm in plain Python with `array`. It imports nothing of ours, runs
unchanged on CPython and MicroPython, and can be copied alone to a board. It is the specification
that every faster engine reproduces bit for bit, so it is written to be read from top to bottom:

    Rng       the same random stream on every machine
    Budget    hard limits, asked before the work
    Data      numbers become codes 1..255, 0 is missing; labels become whole numbers
    Gini ...  what one histogram says about a split, and how sure it is
    Loops     the inner loops: encode, insert, score, partition, tally
    Training  the race for one node, growing a tree, growing a forest
    Forest    flat arrays that predict, and their JSON

Words: an *arm* is one candidate split; an *insertion* counts one feature value of one row into
one histogram and is the unit of cost; a *round* is one batch of rows and the eliminations after
it; a *race* is the bandit at one node, from its first round to its decision.
"""

import gc
import json
import math
import struct
import time
from array import array
from binascii import a2b_base64, b2a_base64

VERSION = 2  # of the model format

# The race: measured choices, explained in docs/algorithm.md.
Z = 2.25  # half-widths of an interval, in standard errors
TOLERANCE = 0.1  # stop when nothing can beat the leader by more than this share of its gain ...
TOLERANCE_IMPURITY = 0.001  # ... or by this share of the node's impurity
BATCH = 256  # rows of the first round; each later round brings half as many again as were seen
EXACT_BELOW = 1000  # smaller nodes are counted whole: the bandit cannot win there
GROUP_ROWS = 64  # rows of a node that place its bins
LOOK_ROWS = 256  # rows of a node in which a feature must vary to take part
EDGE_ROWS = 4096  # rows of the data that place the codes
PAPER_BATCH = 1000  # B of the paper's Algorithm 1
RACE_ROWS = 512  # rows that a race is expected to need, for sharing out a short budget
LEAST_ROWS = 64  # fewer rows than this do not make a race worth running

LATE = "the time was up while rows were read; give more seconds"
LEAF = 0xFFFF  # in `feature`: no split here
MISSING_LEFT = 0x8000  # in `feature`: a missing value goes left
EQUAL = 0x4000  # in `feature`: categorical, a row goes left if it equals the threshold
FEATURE = 0x3FFF
LEVELS = 65535  # fixed-point levels of a regression target, and the most votes of one leaf
NAN = float("nan")
INF = float("inf")
HUGE = 3.4028234663852886e38  # the largest float32: every present value is below it
MASK = 0x3FFFFFFF  # 2^30 - 1, the largest int that costs a 32-bit board no memory
LOG2E = 1.4426950408889634


class Rng:
    """A stream of random integers below 2^30 that is the same on every machine.

    Two multiply-with-carry generators of 15-bit digits, joined by xor. Their states and products
    stay below 2^30, so that a 32-bit MicroPython never allocates a big integer for them.

    >>> Rng(7).below(100), Rng(7).below(100), Rng(7, stream=1).below(100)
    (20, 20, 96)
    """

    def __init__(self, seed=0, stream=0):
        z, w = 12345, 67890
        for word in (seed & 32767, (seed >> 15) & 32767, stream & 32767, (stream >> 15) & 32767):
            z ^= word
            for _ in range(8):
                z = 25338 * (z & 32767) + (z >> 15)
                w = 26100 * (w & 32767) + (w >> 15)
                z ^= w & 32767
                w ^= z >> 15
        self.z = z % 830275000 + 1  # neither 0 nor the other fixed point
        self.w = w % 855244000 + 1

    def next(self):
        """The next integer from 0 to 2^30 - 1."""
        z = self.z = 25338 * (self.z & 32767) + (self.z >> 15)
        w = self.w = 26100 * (self.w & 32767) + (self.w >> 15)
        return ((z & 32767) << 15) ^ w

    def below(self, n):
        """An integer from 0 to n - 1, each as likely."""
        limit = MASK - MASK % n
        value = self.next()
        while value >= limit:
            value = self.next()
        return value % n

    def unit(self):
        """A float in [0, 1)."""
        return self.next() / 1073741824.0

    def fill(self, values, n):
        """Set every item of `values` to an integer below n: `below` in a loop, without the calls."""
        limit = MASK - MASK % n
        z = self.z
        w = self.w
        for i in range(len(values)):
            z = 25338 * (z & 32767) + (z >> 15)
            w = 26100 * (w & 32767) + (w >> 15)
            value = ((z & 32767) << 15) ^ w
            while value >= limit:
                z = 25338 * (z & 32767) + (z >> 15)
                w = 26100 * (w & 32767) + (w >> 15)
                value = ((z & 32767) << 15) ^ w
            values[i] = value % n
        self.z = z
        self.w = w

    def shuffle(self, values, count):
        """Bring a random choice of `count` items to the front of `values`, in random order."""
        n = len(values)
        for i in range(min(count, n - 1)):
            j = i + self.below(n - i)
            values[i], values[j] = values[j], values[i]


def _ticks():
    return int(time.monotonic() * 1000)


def _ticks_diff(now, then):
    return now - then


if hasattr(time, "ticks_ms"):  # MicroPython's clock wraps around; ticks_diff knows
    _ticks = time.ticks_ms
    _ticks_diff = time.ticks_diff


def _tidy():
    """On a small heap: collect garbage often, so that what lives on stays close together."""


PIECE = 12288  # values of a model that are written at once: 3 bytes' multiples, base64 joins them
if hasattr(gc, "mem_free"):
    _tidy = gc.collect
    PIECE = 12


class Budget:
    """Hard limits of one training: insertions, seconds, bytes of working memory.

    Leave a limit out for none. `train` counts in a copy of its own, so one Budget can serve many.

    >>> Budget(insertions=10).take(4, 3)    # asked for 4 rows of 3 insertions each
    3
    """

    def __init__(self, insertions=None, seconds=None, bytes=None):
        for name, value, low in (
            ("insertions", insertions, 1),
            ("seconds", seconds, 0.001),
            ("bytes", bytes, 1),
        ):
            if value is not None:
                advice = "; leave it out for no limit"
                value = _between("budget in " + name, value, low, 1e300, advice)
            setattr(self, name, value)
        self.ceiling = self.insertions  # what the tree that is growing may bring the total to ...
        self.until = self.seconds  # ... and the time at which it has to stop
        self.spent = Spent()
        self._last = _ticks()

    def __repr__(self):
        return f"Budget(insertions={self.insertions}, seconds={self.seconds}, bytes={self.bytes})"

    def copy(self):
        """The same limits with nothing spent."""
        return Budget(self.insertions, self.seconds, self.bytes)

    def left(self):
        """Insertions that the tree in hand may still make, None for no limit."""
        return None if self.ceiling is None else self.ceiling - self.spent.insertions

    def late(self):
        """Whether the time is up."""
        return self.until is not None and self.tick() >= self.until

    def tick(self):
        """Seconds spent so far."""
        now = _ticks()
        self.spent.seconds += _ticks_diff(now, self._last) / 1000
        self._last = now
        return self.spent.seconds

    def take(self, rows, width):
        """Ask for `rows` rows of `width` insertions each; pays for and returns as many as fit."""
        if self.late():
            return 0
        if self.ceiling is not None:
            rows = min(rows, self.left() // width)
        if rows > 0:
            self.spent.insertions += rows * width
            self.spent.rounds += 1
        return rows


class Spent:
    """What a training has cost so far: insertions, rows read, rounds, seconds.

    >>> forest = train([[i % 7] for i in range(60)], [i % 7 > 2 for i in range(60)], budget=500)
    >>> forest.spent.insertions <= 500
    True
    """

    def __init__(self, insertions=0, rows_read=0, rounds=0, seconds=0.0):
        self.insertions = insertions
        self.rows_read = rows_read
        self.rounds = rounds
        self.seconds = seconds

    def __repr__(self):
        return (
            f"Spent(insertions={self.insertions}, rows_read={self.rows_read}, "
            f"rounds={self.rounds}, seconds={self.seconds:.3f})"
        )


# ---- Numbers become codes ---------------------------------------------------------------------


def make_bounds(values):
    """The bounds of a feature's codes from a sample: code c holds bounds[c-1] < x <= bounds[c].

    Every bound is a float32. Few distinct values get a code each, with the bound midway between
    neighbours. For many, half of the bounds are of equal mass and half equally spaced: the ones
    tell the crowd apart, the others the rare extremes. The first and last bound are the sample's
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


def code_of(x, bounds):
    """The code of one present number."""
    low, high = 1, len(bounds) - 1
    while low < high:
        middle = (low + high) >> 1
        if bounds[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


class Data:
    """What there is to learn from: features as codes, labels as whole numbers, chances to be drawn."""

    def read_labels(self, X, y, regression, n_features, by_column):
        """Look at the shape of X, and read y."""
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
        if not _is_sequence(y) or len(y) != self.n:
            raise ValueError(
                f"y must be a list of {self.n} labels or numbers, one a row; got {_amount(y)}"
            )
        self.regression = regression
        self.low = self.span = 0.0
        self.classes = None
        try:
            if regression:
                self._read_targets(y)
            else:
                self._read_classes(y)
        except LookupError:
            _steady(False, "y", self.n)

    def _read_classes(self, y):
        try:
            kinds = {_plain(v, 0, "") for v in set(y)}
        except TypeError:
            kinds = [None]
        if None in kinds:  # something is wrong: find the first row where
            for i, v in enumerate(y):
                if _plain(v, i, "the labels") is None:
                    raise ValueError(f"the label of row {i} is missing; drop rows without a label")
        self.classes = _sorted_set(kinds, "labels")
        if len(self.classes) > 4096:
            raise ValueError(
                f"at most 4096 classes, got {len(self.classes)}; for numbers use criterion='mse'"
            )
        place = {v: k for k, v in enumerate(self.classes)}
        self.width = len(place)
        self.y = bytearray(self.n) if self.width < 257 else array("H", bytes(2 * self.n))
        i = -1
        for i, v in enumerate(y):
            self.y[i] = place[v]
        _steady(i + 1 == self.n, "y", self.n)

    def _read_targets(self, y):
        # Targets become whole levels from 0 to 65535 between the smallest and the largest.
        values = _floats(y, "target")
        _steady(len(values) == self.n, "y", self.n)
        for i, v in enumerate(values):
            if v != v:
                raise ValueError(f"the target of row {i} is no number; drop rows without a target")
        low = self.low = min(values)
        span = max(values) - low
        if span > HUGE:
            raise ValueError("targets must span less than 3.4e38; scale them down")
        self.span = array("f", [span])[0]
        per = LEVELS / span if span > 0 else 0.0
        self.y = array("H", [min(LEVELS, int((v - low) * per + 0.5)) for v in values])

    def name_features(self, names, categorical):
        """Names and kinds of the features."""
        if names is None:
            names = [f"x{f}" for f in range(self.m)]
        self.names = [str(name) for name in names] if _is_sequence(names) else ()
        if len(self.names) != self.m:
            raise ValueError(f"names must be a list of {self.m} names, got {_amount(names)}")
        self.categories = [None] * self.m  # a list of values where the feature is categorical
        if not _is_sequence(categorical):
            raise TypeError(f"categorical must be a list of features, got {categorical!r}")
        for item in categorical:
            named = not isinstance(item, int) and item in self.names
            f = self.names.index(item) if named else item
            self.categories[_between("categorical (or name a feature)", f, 0, self.m - 1)] = []

    def read_weights(self, sample_weight, class_weight):
        """Running sums of the weights: a row's weight is its chance to be drawn for a tree.

        Histograms then stay plain counts.
        """
        if sample_weight is None and class_weight is None:
            return None
        if sample_weight is None:
            sample_weight = [1.0] * self.n
        if not _is_sequence(sample_weight) or len(sample_weight) != self.n:
            raise ValueError(
                f"sample_weight must be a list of {self.n} weights, got {_amount(sample_weight)}"
            )
        weights = [_number(w, i, "sample_weight") for i, w in enumerate(sample_weight)]
        _steady(len(weights) == self.n, "sample_weight", self.n)
        if class_weight is not None:
            factor = self._class_weights(class_weight)
            weights = [w * factor[k] for w, k in zip(weights, self.y)]
        if self.patch:
            weights = [weights[i] for i in self.patch]
        top = max(weights)
        if not (all([w >= 0 for w in weights]) and 0 < top <= HUGE):
            raise ValueError(
                "weights must be finite, none negative and some above zero (within the patch, too)"
            )
        steps = MASK // len(weights)
        sums = array("I", [0])
        for w in weights:
            sums.append(sums[-1] + (max(1, int(w / top * steps)) if w > 0 else 0))
        return sums

    def _class_weights(self, given):
        if self.regression:
            raise ValueError("class_weight is for classification; use sample_weight")
        if given == "balanced":
            counts = [0] * self.width
            for k in self.y:
                counts[k] += 1
            return [self.n / (self.width * c) for c in counts]
        if not isinstance(given, dict):
            raise TypeError(f"class_weight must be 'balanced' or a dict, got {given!r}")
        for label in given:
            if label not in self.classes:
                raise ValueError(f"class_weight names {label!r}, which is not among the labels")
        return [_between("class_weight", given.get(v, 1.0), 0.0, HUGE) for v in self.classes]

    def in_time(self):
        """Refuse to read on when the time is up."""
        if self.budget.late():
            raise ValueError(LATE)

    def read_rows(self, rng):
        """Quantise once: bounds from a random sample of rows, then every value becomes a code."""
        n = self.n
        self.rows = array("H" if n < 65536 else "I", self.rows)
        self.times = bytearray(b"\1" * n)  # how often the tree in hand drew each row
        self.columns = []
        self.bounds = []
        sample = None
        if n > EDGE_ROWS and not self.raw:
            sample = array("I", bytes(4 * EDGE_ROWS))
            rng.fill(sample, n)
        self.budget.spent.rows_read += min(n, EDGE_ROWS)
        for f in range(self.m):
            self.in_time()
            codes = ()
            try:
                values = self.column(f)
                if self.categories[f] is not None:
                    codes, bounds = self._read_categories(f, values)
                elif self.raw:
                    bounds = range(256)  # the threshold of code c is c
                    codes = values if self.in_place else bytearray(values)
                else:
                    values = _floats(values, f"feature {self.names[f]!r} (not in categorical)")
                    bounds = make_bounds([values[i] for i in sample] if sample else values)
                    codes = self.encode(values, bounds)
            except LookupError:
                pass
            _steady(len(codes) == n, f"feature {self.names[f]!r}", n)
            self.columns.append(codes)
            self.bounds.append(bounds)
        self.bins = self.n_bins
        for kinds in self.categories:
            if kinds is not None:
                self.bins = max(self.bins, len(kinds))

    def _read_categories(self, f, values):
        name = self.names[f]
        what = f"categories of {name!r}"
        values = [_plain(v, i, what) for i, v in enumerate(values)]
        kinds = self.categories[f] = _sorted_set([v for v in values if v is not None], what)
        if len(kinds) > 254:
            raise ValueError(
                f"feature {name!r} has {len(kinds)} categories, at most 254 can be told apart; "
                "group the rare ones"
            )
        place = {v: c + 1 for c, v in enumerate(kinds)}
        place[None] = 0
        return bytearray([place[v] for v in values]), array("f", range(len(kinds) + 1))


# ---- What a histogram says --------------------------------------------------------------------
# A histogram is a flat list of integers: bin b has the cells h[b], h[b + stride], h[b + 2 * stride]
# and so on, one a class or a moment of the target; bin 0 is for missing values. Integers, so that
# sums are exact in any order and every engine gets the same.
# A criterion turns the cells of the left side and of the whole into
#   score      a number to rank the arms of one race by,
#   describe   the gain of one arm, its bias, and the influence of a row on it: the derivative of
#              the gain with respect to the share of rows like this one. A gain's variance is the
#              mean square of the influences, read straight from the histogram,
#   scatter    sum of squared differences of two arms' influences over rows that share both sides.


def _minus(total, left):
    """The cells of the other side."""
    return [p - i for i, p in zip(left, total)]


class Gini:
    """Gini impurity: one minus the sum of squared class shares."""

    name = "gini"
    limit = 1.0  # the most that an arm can score for each row: one class on each side

    def size(self, cells):
        """How many rows these cells count."""
        return sum(cells)

    def impurity(self, total):
        """Impurity of a node with these cells."""
        n = sum(total)
        return 1.0 - sum([p * p for p in total]) / (n * n)

    def score(self, left, total, n_left, n_right):
        """Grows with the gain; comparable among arms that counted the same rows."""
        a = b = 0
        for i, p in zip(left, total):
            a += i * i
            b += (p - i) * (p - i)
        return a / n_left + b / n_right

    def per_score(self, n):
        """Gain per score among arms that counted n rows."""
        return 1.0 / n

    def describe(self, left, total):
        """Gain, bias x rows, influence of a row on the left, and on the right, by class."""
        n = sum(total)
        n_left = sum(left)
        n_right = n - n_left
        right = _minus(total, left)
        s = sum([p * p for p in total]) / (n * n)
        s_left = sum([i * i for i in left]) / (n_left * n_left)
        s_right = sum([i * i for i in right]) / (n_right * n_right)
        gain = (n_left * s_left + n_right * s_right) / n - s
        shares = [p / n for p in total]
        on_left = [2.0 * (i / n_left - p) - (s_left - s) for i, p in zip(left, shares)]
        on_right = [2.0 * (i / n_right - p) - (s_right - s) for i, p in zip(right, shares)]
        return gain, 1.0 - s_left - s_right + s, on_left, on_right

    def scatter(self, cells, node, one, two):
        """Sum over the rows in `cells` of the squared difference of two influences."""
        total = 0.0  # not sum(): newer Pythons add floats with a correction
        if two is None:
            for c, a in zip(cells, one):
                total += c * a * a
        else:
            for c, a, b in zip(cells, one, two):
                total += c * (a - b) * (a - b)
        return total

    def paper(self, left, total, n_left, n_right):
        """The paper's mu of an arm and the variance of one row's part in it (delta method)."""
        n = n_left + n_right
        mean = square = 0.0
        for side, n_side in ((left, n_left), (_minus(total, left), n_right)):
            s = sum([i * i for i in side]) / (n_side * n_side)
            for i in side:
                slope = s - 2.0 * i / n_side
                mean += i * slope
                square += i * slope * slope
        mean /= n
        return 1.0 + mean, square / n - mean * mean


def _xlogx(counts):
    """Sum of c log c, in order."""
    total = 0.0
    for c in counts:
        if c > 1:
            total += c * math.log(c)
    return total


class Entropy(Gini):
    """Entropy in bits; its gain is the mutual information of the side and the class."""

    name = "entropy"
    limit = 0.0

    def impurity(self, total):
        n = sum(total)
        return (math.log(n) - _xlogx(total) / n) * LOG2E

    def score(self, left, total, n_left, n_right):
        right = _minus(total, left)
        return (
            _xlogx(left) - n_left * math.log(n_left) + _xlogx(right) - n_right * math.log(n_right)
        )

    def per_score(self, n):
        return LOG2E / n

    def describe(self, left, total):
        # The influence of a row is the log of its class's share here over its share in the node.
        # Only cells that hold rows are ever used, so no logarithm of zero appears.
        n = sum(total)
        gain = 0.0
        cells = -1
        sides = []
        for side in (left, _minus(total, left)):
            n_side = sum(side)
            influence = []
            for i, p in zip(side, total):
                x = 0.0
                if i:
                    x = (math.log(i) - math.log(n_side) - math.log(p) + math.log(n)) * LOG2E
                    gain += i * x
                    cells += 1
                influence.append(x)
            sides.append(influence)
        cells -= sum([1 for p in total if p])
        return gain / n, cells * 0.5 * LOG2E, sides[0], sides[1]  # Miller and Madow's bias

    def paper(self, left, total, n_left, n_right):
        n = n_left + n_right
        mean = square = 0.0
        for side, n_side in ((left, n_left), (_minus(total, left), n_right)):
            for i in side:
                if i:
                    slope = (math.log(n_side) - math.log(i)) * LOG2E
                    mean += i * slope
                    square += i * slope * slope
        mean /= n
        return mean, square / n - mean * mean


class MSE:
    """Mean squared error, in squared levels; cells are (rows, sum, sum of squares)."""

    name = "mse"
    limit = INF  # an arm that leaves nothing to gain is not told by its score alone

    def size(self, cells):
        return cells[0]

    def impurity(self, total):
        mean = total[1] / total[0]
        return max(0.0, float(total[2]) / total[0] - mean * mean)

    def score(self, left, total, n_left, n_right):
        d = (float(left[1]) * total[0] - float(total[1]) * n_left) / total[0]
        return d * d / (float(n_left) * n_right)

    def per_score(self, n):
        return 1.0

    def describe(self, left, total):
        # With m the mean of a side less the mean of the node, a row has influence 2 m (y - mean)
        # - m^2: the whole of it is told by m.
        n = total[0]
        n_left = left[0]
        n_right = n - n_left
        d = (float(left[1]) * n - float(total[1]) * n_left) / n
        m_left = d / n_left
        m_right = -d / n_right
        gain = (n_left * m_left * m_left + n_right * m_right * m_right) / n
        right = _minus(total, left)
        bias = self.impurity(left) + self.impurity(right) - self.impurity(total)
        return gain, bias, m_left, m_right

    def scatter(self, cells, node, one, two):
        n = cells[0]
        if not n:
            return 0.0
        if two is None:
            two = 0.0
        difference = one - two
        aside = 2.0 * (cells[1] / n - node[1] / node[0]) - (one + two)
        return n * difference * difference * (4.0 * self.impurity(cells) + aside * aside)

    def paper(self, left, total, n_left, n_right):
        # Needs third and fourth powers: Training counts a coarser target for it, see `_insert`.
        n = n_left + n_right
        mu = square = 0.0
        for cells in (left, _minus(total, left)):
            mean = cells[1] / cells[0]
            mu += cells[2] - cells[1] * mean
            square += cells[4] - mean * (
                4.0 * cells[3] - mean * (6.0 * cells[2] - mean * (4.0 * cells[1] - mean * cells[0]))
            )
        mu /= n
        return mu, square / n - mu * mu


CRITERIA = {"gini": Gini, "entropy": Entropy, "mse": MSE}


def arms(h, bins, stride, equal):
    """Every way to split by this histogram: (bin, whether missing goes left, cells of the left).

    A number goes left if its bin is at most the arm's; a category if it is the arm's. Missing
    values are tried on both sides. The last bin is an arm too when it parts present from missing.
    """
    missing = h[::stride]
    some_missing = any(missing)
    left = None
    for t in range(1, bins + 1):
        cells = h[t::stride]
        if not any(cells):
            continue  # nobody in this bin: the same arm as the one before it
        left = cells if equal or not left else [a + b for a, b in zip(left, cells)]
        if equal or t < bins or some_missing:
            yield t, False, left
            if some_missing and (equal or t < bins):
                yield t, True, [a + b for a, b in zip(left, missing)]


# ---- The inner loops --------------------------------------------------------------------------


class Loops:
    """The inner operations in plain Python, as methods of `Training`.

    A faster engine is a `Training` that replaces some of them; what they return stays the same.
    """

    engine = "pure"

    def encode(self, values, bounds):
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

    def insert(self, h, table, column, rows, labels, times):
        """Count rows by bin and class; `table` takes a code to its bin, a label is its cell.

        `times` is how often the tree drew each row: one insertion counts them all.
        """
        for row, label, n in zip(rows, labels, times):
            h[table[column[row]] + label] += n

    def insert_moments(self, h, table, column, rows, moments, stride):
        """Count rows by bin: `moments` are the times drawn, times the powers of the target."""
        if len(moments) == 3:
            for row, n, y, yy in zip(rows, moments[0], moments[1], moments[2]):
                i = table[column[row]]
                h[i] += n
                h[i + stride] += y
                h[i + stride + stride] += yy
        else:
            for k, moment in enumerate(moments):
                for row, y in zip(rows, moment):
                    h[table[column[row]] + k * stride] += y

    def best_arm(self, criterion, h, bins, stride, equal, total, least):
        """The arm of highest score with at least `least` rows a side: (score, bin, missing left).

        Equal scores go to the lower bin, then to missing right. None if no arm parts the rows.
        """
        n = criterion.size(total)
        if criterion.name == "gini" and not equal and not any(h[::stride]):
            return self._best_threshold(h, bins, stride, total, n, least)
        best = None
        top = -1e300
        for t, missing_left, left in arms(h, bins, stride, equal):
            n_left = criterion.size(left)
            if n_left < least or n - n_left < least:
                continue
            score = criterion.score(left, total, n_left, n - n_left)
            if best is None or score > top:
                top = score
                best = (score, t, missing_left)
        return best

    def _best_threshold(self, h, bins, stride, total, n, least):
        """`best_arm` for the most common case, Gini and no missing value, with running sums."""
        best = None
        top = n_left = a = 0
        b = sum([p * p for p in total])
        left = [0] * len(total)
        for t in range(1, bins):
            before = n_left
            k = 0
            for c in h[t::stride]:
                if c:
                    had = left[k]
                    a += c * (c + had + had)
                    b += c * (c - 2 * (total[k] - had))
                    left[k] = had + c
                    n_left += c
                k += 1
            n_right = n - n_left
            if n_left > before and n_left >= least and n_right >= least:
                score = a / n_left + b / n_right
                if score > top:
                    top = score
                    best = (score, t, False)
        return best

    def partition(self, rows, start, end, column, goes_left):
        """Bring the rows that go left to the front, in place; returns where the others begin.

        The first row that stands wrong changes places with the last one, and so on inwards. Rows
        were drawn in random order, and which way a row goes does not depend on its place: so the
        first rows of either side are a random sample of it again.
        """
        low = start
        high = end - 1
        while True:
            while low <= high and goes_left[column[rows[low]]]:
                low += 1
            while low <= high and not goes_left[column[rows[high]]]:
                high -= 1
            if low > high:
                return low
            rows[low], rows[high] = rows[high], rows[low]
            low += 1
            high -= 1

    def tally(self, rows, start, end, labels, times, counts):
        """Add the classes of rows start..end to `counts`."""
        for i in range(start, end):
            row = rows[i]
            counts[labels[row]] += times[row]

    def add_up(self, rows, start, end, targets, times):
        """The sum of the targets of rows start..end, and how many there are."""
        total = n = 0
        for i in range(start, end):
            row = rows[i]
            total += targets[row] * times[row]
            n += times[row]
        return total, n


class Contender:
    """One feature in a race: its bins, its histogram, its best arm so far."""

    def __init__(self, feature, column, table, cuts, equal):
        self.feature = feature
        self.column = column
        self.table = table  # code -> bin
        self.cuts = cuts  # bin -> highest code in it (the code itself for categories)
        self.bins = len(cuts) - 1
        self.equal = equal
        self.h = None
        self.best = None  # (score, bin, missing left)
        self.gain = 0.0
        self.variance = 0.0
        self.alive = None  # arms not yet eliminated, for the paper's race

    def left(self, t, missing_left, stride):
        """Cells of an arm's left side."""
        h = self.h
        first = t if self.equal and t else 1
        return [
            sum(h[i + first : i + t + 1]) + (h[i] if missing_left else 0)
            for i in range(0, len(h), stride)
        ]


class Split:
    """The winner of a race."""

    def __init__(self, feature, code, equal, missing_left, gain):
        self.feature = feature
        self.code = code
        self.equal = equal
        self.missing_left = missing_left
        self.gain = gain


def goes_left(feature, code):
    """A table from code to whether it goes left, for a feature with its flags."""
    if feature & EQUAL:
        table = bytearray(256)
        table[code] = 1
    else:
        table = bytearray(b"\1" * (code + 1) + bytes(255 - code))
    table[0] = 1 if feature & MISSING_LEFT else 0
    return table


def _normal_quantile(p):
    """z with an upper tail of p (Abramowitz and Stegun 26.2.23, error below 0.00045)."""
    t = math.sqrt(-2.0 * math.log(p))
    over = 2.515517 + t * (0.802853 + t * 0.010328)
    return t - over / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)))


class Training(Data, Loops):
    """Training in steps: iterate to advance by one round; `forest()` is valid at any time.

    >>> rows = [[i % 7, i % 3] for i in range(60)]
    >>> training = Training(rows, [row[0] > 2 for row in rows], n_trees=3, budget=2000)
    >>> for step in training:          # between rounds: feed the watchdog, read the sensor
    ...     if step.budget.spent.seconds > 60:
    ...         break
    >>> training.forest().predict([5, 0])
    True
    """

    Forest = None  # the class to predict with, where an engine has its own

    def __init__(
        self,
        X,
        y,
        *,
        kind="random-forest",
        criterion="gini",
        splitter="mab",
        n_trees=20,
        max_depth=None,
        max_features=None,
        min_samples_leaf=1,
        min_samples_split=2,
        min_impurity_decrease=0.0,
        max_leaf_nodes=None,
        n_bins=None,
        bootstrap=None,
        max_samples=None,
        alpha_n=0.7,
        alpha_f=0.85,
        class_weight=None,
        sample_weight=None,
        names=None,
        categorical=(),
        n_features=None,
        by_column=False,
        budget=None,
        confidence=None,
        z=Z,
        tolerance=TOLERANCE,
        batch=BATCH,
        seed=0,
        first=0,
    ):
        _refuse_unknown(kind, criterion, splitter)
        extra = kind == "extra-trees"
        if n_bins is None:
            n_bins = 2 if extra else 16  # ExtraTrees: one random threshold a feature
        for name, value, low, high in (
            ("n_trees", n_trees, 1, 4096),
            ("max_depth", MASK if max_depth is None else max_depth, 0, MASK),
            ("min_samples_leaf", min_samples_leaf, 1, MASK),
            ("min_samples_split", min_samples_split, 2, MASK),
            ("max_leaf_nodes", MASK if max_leaf_nodes is None else max_leaf_nodes, 2, MASK),
            ("n_bins", n_bins, 2, 255),
            ("seed", seed, 0, MASK),
            ("first", first, 0, MASK),
            ("min_impurity_decrease", min_impurity_decrease, 0.0, HUGE),
            ("alpha_n", alpha_n, 1e-9, 1.0),
            ("alpha_f", alpha_f, 1e-9, 1.0),
            ("z", z, 0.0, 100.0),
            ("tolerance", tolerance, 0.0, 1.0),
            ("batch", batch, 1, MASK),
            ("confidence", 0.5 if confidence is None else confidence, 0.5, 0.999999),
        ):
            setattr(self, name, _between(name, value, low, high))
        if confidence is None:
            self.confidence = None
        self.budget = budget.copy() if isinstance(budget, Budget) else Budget(budget)
        self.kind = kind
        self.criterion = CRITERIA[criterion]()
        self.splitter = splitter
        self.bootstrap = not extra if bootstrap is None else bootstrap
        self.read_labels(X, y, criterion == "mse", n_features, by_column)
        self.name_features(names, categorical)
        if self.regression:
            self.width = 5 if splitter == "mab-paper" else 3
            if self.span:  # from squared targets to squared levels
                per = LEVELS / self.span
                self.min_impurity_decrease = self.min_impurity_decrease * per * per
        rng = Rng(self.seed)
        self.patch = None  # rows of the patch, when there is one
        self.features = array("H", range(self.m))
        if kind == "random-patches":
            patch = array("I", range(self.n))
            rng.shuffle(patch, self.n)
            self.patch = patch[: max(1, int(alpha_n * self.n + 0.5))]
            rng.shuffle(self.features, self.m)
            self.features = array("H", sorted(self.features[: max(1, int(alpha_f * self.m + 0.5))]))
        usable = len(self.features)
        if max_features is None:
            max_features = usable if extra and self.regression else int(math.sqrt(usable))
        self.max_features = _part("max_features", max_features, usable)
        drawable = len(self.patch) if self.patch else self.n
        self.weights = self.read_weights(sample_weight, class_weight)
        if max_samples is None:  # all, but no more than the leaves of the tree can put to use
            per_leaf = 256 if self.regression else 128
            deep = self.max_depth > 10
            max_samples = drawable if deep else max(16384, per_leaf << self.max_depth)
        self.sample_size = _part("max_samples", max_samples, drawable)
        self.rows = range(self.sample_size if self.bootstrap or self.weights else drawable)
        room = self.budget.bytes
        if room is not None and self.working_bytes(0, 3) > room:
            raise ValueError(
                f"training needs at least {self.working_bytes(0, 3)} bytes of working memory, "
                f"the budget is {room}; use fewer rows or features"
            )
        self.read_rows(rng)
        self._plan_trees()
        self.tree = None  # the one that grows
        self.importance = [0.0] * self.m
        forest = self.grown = (self.Forest or Forest)()
        for _, name in HEADER:
            setattr(forest, name, getattr(self, name, None))
        forest.criterion = criterion
        forest.engine = self.engine
        forest.scale = min(LEVELS, 16777215 // self.n_trees)  # exact sums, even in float32
        forest.spent = self.budget.spent
        forest.limit = self.budget.insertions
        forest.low, forest.span = self.low, self.span
        self._steps = self._run()

    def __iter__(self):
        return self._steps or iter(())

    # ---- Memory

    def working_bytes(self, nodes=0, growing=0):
        """The memory that training takes above the data, at most.

        With that many nodes in finished trees, and in the tree that grows.
        """
        item = word = struct.calcsize("P")  # an item of a list ...
        if not hasattr(gc, "mem_free"):
            item *= 4  # ... and the object that it points to
        n, width = self.n, self.width
        columns = n * self.m + 1100 * self.m
        reading = n * (item + 4) + 2 * min(n, EDGE_ROWS) * item  # one column, while it is encoded
        if self.raw:
            columns = 0 if self.in_place else n * self.m
            reading = 0
        labels = n * (item + word)  # while they are read
        held = 4 * n + len(self.rows) * 4 + 8 * self.m * item
        if self.weights or self.patch:
            held += 8 * n
            labels += n * item
        bins = self.n_bins + 2
        for kinds in self.categories:
            if kinds is not None:
                bins = 256
        racing = self.max_features * (bins * width * item + 600 + 20 * item)
        racing += 200 * item + 40 * width * item + 4000
        node = 20 + (1 if self.regression else width)
        return columns + held + max(labels, reading, racing) + nodes * node + growing * (node + 36)

    def _has_room(self, more):
        """Whether the budget in bytes has room for the tree in hand with that many nodes."""
        room = self.budget.bytes
        return room is None or self.working_bytes(len(self.grown.feature), more) <= room

    # ---- Sharing out the budget

    def _demand(self, n, depth, rows=RACE_ROWS):
        """Rows that the races of a subtree want: n rows at `depth`, if a race wants `rows`."""
        total = 0
        level = self.max_depth - depth
        while level > 0 and n > 0:
            total += min(rows, n)
            rows *= 2
            level -= 1
            if rows > 2 * n * self.min_samples_split:
                break  # nodes as small as that are leaves
        return total

    def _plan_trees(self):
        # Each tree gets an equal share up front, so that trees may grow in any order or at once.
        # Shares too small to grow a tree with would be wasted: then there are fewer trees.
        self.planned = self.n_trees
        if self.budget.insertions is None:
            return
        least = {"mab": LEAST_ROWS, "mab-paper": PAPER_BATCH}.get(self.splitter, self.sample_size)
        depth = 0 if self.splitter == "exact" else max(0, self.max_depth - 5)
        cost = self._demand(self.sample_size, depth, least) * self.max_features
        if cost:
            self.planned = min(self.n_trees, max(1, self.budget.insertions // cost))

    # ---- The race

    def _drawn(self, rows, start, end, rng, features, count=0):
        """Draw features that vary among the node's first rows, one by one, each with its bins.

        Bins are of equal mass. In a small node they are bounded by the codes of the first `count`
        rows, and a feature that does not vary takes up a place, as long as there is another.
        """
        head = rows[start : min(end, start + GROUP_ROWS)]
        chosen = i = 0
        while chosen < self.max_features and i < len(features):
            j = i + rng.below(len(features) - i)
            features[i], features[j] = features[j], features[i]
            column = self.columns[features[i]]
            _tidy()
            codes = [column[row] for row in head]
            few = codes[:count]
            codes.sort()
            if codes[0] == codes[-1]:  # the same so far: a rare value may show up further on
                for at in range(start + GROUP_ROWS, min(end, start + LOOK_ROWS)):
                    if column[rows[at]] != codes[0]:
                        codes = sorted([codes[0], column[rows[at]]])
                        break
            i += 1
            if codes[0] != codes[-1]:
                chosen += 1
                yield self._contender(features[i - 1], codes, few, rng)
            if count and chosen and i >= self.max_features:
                break

    def _contenders(self, rows, start, end, rng, features):
        """All features of a race, in their order, and how many cells apart their classes lie."""
        chosen = list(self._drawn(rows, start, end, rng, features))
        chosen.sort(key=lambda c: c.feature)
        stride = 1 + max([c.bins for c in chosen], default=0)
        for c in chosen:
            c.h = [0] * (stride * self.width)
        return chosen, stride

    def _contender(self, f, codes, values, rng):
        """A feature with its bins, from the sorted codes of the node's first rows, or a few codes."""
        if self.categories[f] is not None:
            cuts = range(len(self.categories[f]) + 1)
            return Contender(f, self.columns[f], cuts, cuts, True)
        raw = self.raw
        present = codes if raw or codes[0] else [c for c in codes if c]
        first, last = present[0], present[-1]
        bins = self.n_bins
        if self.kind == "extra-trees" or self.splitter == "mab-paper":
            bounds = self.bounds[f]
            low = bounds[max(0, first - 1)]
            span = bounds[last] - low
            if self.kind == "extra-trees":  # uniform between the smallest and the largest
                spots = sorted([low + span * rng.unit() for _ in range(1, bins)])
            else:  # equally spaced
                spots = [low + span * i / bins for i in range(1, bins)]
            # One that falls among the largest values is put below them, where it parts the node.
            wanted = [
                int(x) if raw else min(last - 1, max(first, code_of(x, bounds))) for x in spots
            ]
        elif values:
            wanted = [c for c in sorted(values) if first <= c < last]
            if not wanted:
                wanted = present[-1 - present.count(last) :][:1]
        else:  # of equal mass, midway between two neighbours
            n = len(present)
            spots = [i * n // bins for i in range(1, bins)]
            wanted = [(present[j - 1] + present[j]) >> 1 for j in spots if j]
            if first < last and wanted[0] >= last:  # few are below the largest, but some
                wanted = [(present[-1 - present.count(last)] + last) >> 1]
        _tidy()
        cuts = bytearray(1)  # cuts[b]: the highest code of bin b
        table = bytearray(0 if raw else 1)
        before = len(table) - 1
        for cut in wanted:
            if before < cut < last:
                table += bytes([len(cuts)]) * (cut - before)
                cuts.append(cut)
                before = cut
        table += bytes([len(cuts)]) * (255 - before)
        cuts.append(255)
        return Contender(f, self.columns[f], table, cuts, False)

    def _insert(self, racing, stride, rows, start, end):
        """Count rows start..end into every racing feature's histogram, or as many as time allows.

        Returns up to where, and the sum of the squared times drawn: a mean over rows that count w
        times each is as unsure as sum(w)^2 / sum(w^2) single ones.
        """
        squares = 0
        some = max(32, min(1024, self.n >> 5))  # rows at once: lists are fast and large
        for at in range(start, end, some):
            if at > start and self.budget.late():
                self.budget.spent.insertions -= (end - at) * len(racing)
                end = at
                break
            piece = self.read(rows[at : min(end, at + some)], stride)
            for c in racing:
                self.add(c, piece, stride)
            for times in piece[1]:
                squares += times * times
            piece = None  # before the next one is read
        return end, squares

    def read(self, rows, stride):
        """Of some rows: themselves, the times drawn, and their labels or moments of the target."""
        y, times = self.y, self.times
        rows = list(rows)
        drawn = [times[row] for row in rows]
        if not self.regression:
            return rows, drawn, [y[row] * stride for row in rows]
        labels = [y[row] for row in rows]
        if self.width == 5:  # 11 bits and a sign: their fourth powers still add up exactly
            labels = [(v >> 5) - 1024 for v in labels]
        moments = [drawn]
        while len(moments) < self.width:
            moments.append([a * b for a, b in zip(moments[-1], labels)])
        return rows, drawn, moments

    def add(self, c, values, stride):
        """Count what was read into one histogram."""
        rows, drawn, labels = values
        if self.regression:
            self.insert_moments(c.h, c.table, c.column, rows, labels, stride)
        else:
            self.insert(c.h, c.table, c.column, rows, labels, drawn)

    def _total(self, c, stride):
        h = c.h
        return [sum(h[i : i + stride]) for i in range(0, len(h), stride)]

    def _race(self, rows, start, end, rng, features):
        """Find a node's split; a generator that yields between rounds and returns a Split or None.

        All drawn features start. A round counts one more batch of the node's rows into their
        histograms. Then every feature whose best arm cannot beat the leader's any more is out, and
        costs nothing from there on. The race is decided when only the leader is left and no other
        threshold of it can do much better.
        """
        n = end - start
        left = self.budget.left()
        if n <= GROUP_ROWS and self.splitter != "mab-paper":
            if left is None or self._wanted * self.max_features <= left:  # not short
                return (yield from self._race_small(rows, start, end, rng, features))
        racing, stride = self._contenders(rows, start, end, rng, features)
        if not racing:
            return None
        if self.splitter == "mab-paper":
            return (yield from self._race_paper(racing, stride, rows, start, n))
        criterion = self.criterion
        batch = n
        most = n
        if self.splitter == "mab":
            wanted = self._wanted * len(racing)
            if left is not None and wanted > left:  # short: every race gets its part
                most = min(n, max(LEAST_ROWS, RACE_ROWS * left // wanted))
            batch = most if n <= EXACT_BELOW else min(self.batch, most)
        elif left is not None and left < n * len(racing):
            return None  # exact or nothing
        seen = squares = 0
        rest = 0.0
        while True:
            granted = self.budget.take(min(batch, most - seen), len(racing))
            _tidy()
            if granted:
                at, more = self._insert(racing, stride, rows, start + seen, start + seen + granted)
                squares += more
                seen = at - start
                yield self
            elif not seen:
                return None
            total = self._total(racing[0], stride)
            size = criterion.size(total)
            # Sampling is without replacement: the doubt is gone when all n rows are counted.
            rest = 0.0
            if seen < n:
                rest = (n - seen) / (n - 1) * squares / (size * size)
            if granted:
                least = max(1, (self.min_samples_leaf * seen + n - 1) // n)
                self.score(racing, stride, total, least)
            racing = [c for c in racing if c.best]
            if not racing:
                return None
            if seen == most or not granted:
                lead = racing[0]
                for c in racing:
                    if c.best[0] > lead.best[0]:
                        lead = c
                break
            self.describe(racing, stride, total, rest)
            lead = racing[0]
            for c in racing:
                if c.gain > lead.gain:
                    lead = c
            impurity = criterion.impurity(total)
            slack = max(self.tolerance * lead.gain, TOLERANCE_IMPURITY * impurity)
            if impurity > 0:  # else one class only was seen, of a node that is known to be mixed
                racing = [
                    c
                    for c in racing
                    if c is lead
                    or c.gain - lead.gain + self.z * math.sqrt(c.variance + lead.variance) > slack
                ]
                if len(racing) == 1 and not self._better_threshold(
                    lead, stride, total, rest, slack
                ):
                    break
            batch = max(self.batch, seen >> 1)
        return self._split(lead, stride, total, rest)

    def _race_small(self, rows, start, end, rng, features):
        """Find the split of a small node: count all of it, one feature after the other.

        The first feature that parts the classes for good ends the race: nothing can beat it.
        """
        n = end - start
        criterion = self.criterion
        stride = self.bins + 1
        piece = self.read(rows[start:end], stride)
        best = None
        few = max(1, self.n_bins // 2 - 1)  # rows whose codes bound the bins
        for c in self._drawn(rows, start, end, rng, features, few):
            if not self.budget.take(n, 1):
                break
            c.h = [0] * (stride * self.width)
            self.add(c, piece, stride)
            yield self
            total = self._total(c, stride)
            c.best = self.best_arm(
                criterion, c.h, c.bins, stride, c.equal, total, self.min_samples_leaf
            )
            if c.best and (best is None or c.best[0] > best.best[0]):
                best = c
                if n == 2 or c.best[0] >= criterion.limit * criterion.size(total):
                    break
        if best is None:
            return None
        split = self._split(best, stride, total, 0.0)
        if not best.equal and self.kind != "extra-trees":  # midway to the next code in the node
            above = 256
            for row in piece[0]:
                if split.code < best.column[row] < above:
                    above = best.column[row]
            if above < 256:
                split.code = (split.code + above) >> 1
        return split

    def score(self, racing, stride, total, least):
        """Note the best arm of every racing feature."""
        for c in racing:
            c.best = self.best_arm(self.criterion, c.h, c.bins, stride, c.equal, total, least)

    def describe(self, racing, stride, total, rest):
        """How good is each feature's best arm, and how sure is that?"""
        criterion = self.criterion
        size = criterion.size(total)
        for c in racing:
            left = c.left(c.best[1], c.best[2], stride)
            gain, bias, on_left, on_right = criterion.describe(left, total)
            scatter = criterion.scatter(left, total, on_left, None)
            scatter += criterion.scatter(_minus(total, left), total, on_right, None)
            c.gain = gain - bias * rest
            c.variance = max(0.0, scatter / size - gain * gain) * rest

    def _better_threshold(self, c, stride, total, rest, slack):
        """Whether another arm of the leading feature may still beat its best by more than slack.

        Two thresholds share all rows but those between them, so it is their difference that is
        estimated: its variance comes from the rows that they treat differently.
        """
        criterion = self.criterion
        size = criterion.size(total)
        # An arm of smaller gain varies less, so no difference has more than twice the deviation
        # of the best: what is behind by more than that needs no closer look.
        far = 2.0 * self.z * math.sqrt(c.variance)
        best_left = c.left(c.best[1], c.best[2], stride)
        gain, _, lead_left, lead_right = criterion.describe(best_left, total)
        for t, missing_left, left in arms(c.h, c.bins, stride, c.equal):
            n_left = criterion.size(left)
            if n_left == 0 or n_left == size or (t, missing_left) == c.best[1:]:
                continue
            gap = criterion.score(left, total, n_left, size - n_left) - c.best[0]
            if gap * criterion.per_score(size) + far <= slack:
                continue
            other, _, on_left, on_right = criterion.describe(left, total)
            # The four groups of rows by the side that each arm sends them to.
            both = self._both_left(c, stride, t, missing_left)
            only = [a - b for a, b in zip(left, both)]
            only_best = [a - b for a, b in zip(best_left, both)]
            neither = [p - a - b for p, a, b in zip(total, left, only_best)]
            scatter = criterion.scatter(both, total, on_left, lead_left)
            scatter += criterion.scatter(only, total, on_left, lead_right)
            scatter += criterion.scatter(only_best, total, on_right, lead_left)
            scatter += criterion.scatter(neither, total, on_right, lead_right)
            gap = other - gain
            variance = max(0.0, scatter / size - gap * gap) * rest
            if gap + self.z * math.sqrt(variance) > slack:
                return True
        return False

    def _both_left(self, c, stride, t, missing_left):
        """Cells that arm (t, missing_left) and the feature's best arm both send left."""
        _, best, best_missing = c.best
        if c.equal and t != best:
            t = 0  # two categories share no row
        return c.left(min(t, best), missing_left and best_missing, stride)

    def _race_paper(self, racing, stride, rows, start, n):
        """Algorithm 1 of the paper: intervals on mu by the delta method, one survivor or all rows."""
        criterion = self.criterion
        count = len(racing)
        if self.confidence is None:
            z = _normal_quantile(
                0.5 / (float(n) * n * count * self.n_bins)
            )  # delta = 1 / (n^2 m T)
        else:
            z = _normal_quantile(0.5 * (1.0 - self.confidence))
        seen = squares = 0
        rest = 0.0
        winner = total = None
        while seen < n:
            granted = self.budget.take(min(PAPER_BATCH, n - seen), len(racing))
            if not granted:
                break
            at, more = self._insert(racing, stride, rows, start + seen, start + seen + granted)
            squares += more
            seen = at - start
            yield self
            total = self._total(racing[0], stride)
            least = max(1, (self.min_samples_leaf * seen + n - 1) // n)
            size = criterion.size(total)
            rest = (n - seen) / max(1, n - 1) * squares / (size * size)
            factor = z * math.sqrt(rest)
            bounds = []
            lowest = winner = None
            for c in racing:
                for t, missing_left, left in arms(c.h, c.bins, stride, c.equal):
                    n_left = criterion.size(left)
                    key = 2 * t + missing_left
                    if n_left < least or size - n_left < least:
                        continue
                    if c.alive is not None and key not in c.alive:
                        continue
                    mu, variance = criterion.paper(left, total, n_left, size - n_left)
                    half = factor * math.sqrt(max(0.0, variance))
                    bounds.append((c, key, mu - half))
                    if lowest is None or mu + half < lowest:
                        lowest = mu + half
                    if winner is None or mu < winner[0]:
                        winner = (mu, c, t, missing_left)
            if winner is None:
                if seen == n:
                    return None
                continue
            for c in racing:
                c.alive = []
            for c, key, low in bounds:
                if low <= lowest:
                    c.alive.append(key)
            racing = [c for c in racing if c.alive]
            if len(racing) == 1 and len(racing[0].alive) == 1:
                break
        if winner is None:
            return None
        # With all n rows counted the estimates of the survivors are exact.
        lead = winner[1]
        lead.best = (winner[0], winner[2], winner[3])
        return self._split(lead, stride, total, rest)

    def _split(self, lead, stride, total, rest):
        _, t, missing_left = lead.best
        left = lead.left(t, missing_left, stride)
        gain, bias, _, _ = self.criterion.describe(left, total)
        gain = max(0.0, gain - bias * rest)
        if not any(lead.h[::stride]):  # none seen missing: such a row joins the larger side
            missing_left = self.raw or 2 * self.criterion.size(left) > self.criterion.size(total)
        if self.regression and self.width == 5:
            gain *= 1024.0  # back to squared levels
        return Split(lead.feature, lead.cuts[t], lead.equal, missing_left, gain)

    # ---- Growing

    def _draw_rows(self, rng):
        """Fill the front of `self.rows` with a tree's rows, in random order; returns how many."""
        pool = len(self.patch) if self.patch else self.n
        size, rows, weights = self.sample_size, self.rows, self.weights
        if weights is None and self.bootstrap:
            rng.fill(rows, pool)
        elif weights is None:
            for i in range(pool):
                rows[i] = i
            rng.shuffle(rows, size)
        else:
            total = weights[pool]
            for i in range(size):
                # Without bootstrap: one mark in each of `size` equal stretches, so that each row
                # comes about as often as its weight says.
                mark = rng.below(total if self.bootstrap else max(1, total // size))
                if not self.bootstrap:
                    mark += i * total // size
                low, high = 0, pool - 1
                while low < high:
                    middle = (low + high) >> 1
                    if weights[middle + 1] <= mark:
                        low = middle + 1
                    else:
                        high = middle
                rows[i] = low
            if not self.bootstrap:
                rng.shuffle(rows, size)
        if self.patch:
            for i in range(size):
                rows[i] = self.patch[rows[i]]
        self.budget.spent.rows_read += size
        if weights is None and not self.bootstrap:
            return size
        # A row that was drawn more than once stands there once: its times are counted instead.
        self.times = None
        _tidy()
        times = self.times = array("H", bytes(2 * self.n)) if weights else bytearray(self.n)
        most = 65535 if weights else 255
        front = 0
        for i in range(size):
            row = rows[i]
            if not times[row]:
                rows[front] = row
                front += 1
            if times[row] < most:
                times[row] += 1
        return front

    def _run(self):
        budget, planned = self.budget, self.planned
        began = budget.tick()  # rows were read
        for index in range(planned):
            if budget.insertions is not None:
                share = budget.insertions * (index + 1) // planned
                share -= budget.insertions * index // planned
                budget.ceiling = budget.spent.insertions + share
            if budget.seconds is not None:
                budget.until = began + (budget.seconds - began) * (index + 1) / planned
            if index and (budget.left() == 0 or budget.late() or not self._has_room(3)):
                continue  # its share is gone: used up by the trees before it
            self.tree = Tree()
            yield from self._grow(self.tree, len(self.grown))
            self._close()
            budget.tick()
            yield self

    def _grow(self, tree, index):
        """Grow one tree, level by level, or best gain first if max_leaf_nodes is given.

        Its random stream is told by its number, which goes on from `first`: trees that are trained
        later, with the same seed, are those that more trees at once would have had.
        """
        rng = Rng(self.seed, self.first + index + 1)
        size = self._draw_rows(rng)
        rows = self.rows
        key = rng.next()
        tree.add(0, size, 0)
        self._wanted = self._demand(size, 0)  # rows, by all races that are still to come
        raced = waiting = 0
        leaves = 1
        while True:
            while raced < len(tree.feature):
                start, end, depth = tree.start[raced], tree.end[raced], tree.depth[raced]
                if self._may_split(rows, start, end, depth):
                    # Each node has its own random stream: the order of growth changes nothing.
                    rng = Rng(key ^ start, end)
                    split = yield from self._race(rows, start, end, rng, self.features[:])
                    if split and split.gain * (end - start) / size >= self.min_impurity_decrease:
                        flags = EQUAL if split.equal else 0
                        if split.missing_left:
                            flags |= MISSING_LEFT
                        tree.feature[raced] = split.feature | flags
                        tree.code[raced] = split.code
                        tree.gain[raced] = split.gain
                        bounds = self.bounds[split.feature]
                        if split.code < len(bounds) - 1 or split.equal:
                            tree.threshold[raced] = bounds[split.code]
                        else:
                            tree.threshold[raced] = HUGE
                if tree.waits(raced):  # paid for itself; what lies below it is still to come
                    self._wanted -= min(end - start, RACE_ROWS)
                else:
                    self._wanted -= self._demand(end - start, depth)
                raced += 1
            # Next: the first that waits to be split, or the one that gains most.
            while waiting < raced and not tree.waits(waiting):
                waiting += 1
            node = waiting
            if self.max_leaf_nodes < MASK:
                most = -1.0
                for i in range(waiting, raced):
                    worth = tree.gain[i] * (tree.end[i] - tree.start[i])
                    if tree.waits(i) and worth > most:
                        node, most = i, worth
            if node == raced or leaves == self.max_leaf_nodes:
                return
            if not self._has_room(raced + 2):
                return
            start, end, depth = tree.start[node], tree.end[node], tree.depth[node]
            f = tree.feature[node] & FEATURE
            middle = self.partition(
                rows, start, end, self.columns[f], goes_left(tree.feature[node], tree.code[node])
            )
            if self.min_samples_leaf > min(self._draws(start, middle), self._draws(middle, end)):
                tree.feature[node] = LEAF  # the sample promised more than the rows hold
                self._wanted -= self._demand(end - start, depth) - min(end - start, RACE_ROWS)
                continue
            leaves += 1
            if self.splitter != "exact" and end - start > GROUP_ROWS:
                # The race has seen some rows; all of them tell what the split has gained.
                tree.gain[node] = self.criterion.describe(
                    self.cells(start, middle), self.cells(start, end)
                )[0]
            left = tree.add(start, middle, depth + 1)
            tree.right[node] = tree.add(middle, end, depth + 1)
            tree.left[node] = left  # the last, since Ctrl-C may come in between
            self._wanted += self._demand(middle - start, depth + 1)
            self._wanted += self._demand(end - middle, depth + 1)
            self._wanted -= self._demand(end - start, depth) - min(end - start, RACE_ROWS)

    def _draws(self, start, end):
        """How many draws rows start..end stand for, as far as `min_samples_leaf` has to know."""
        if end - start >= self.min_samples_leaf:
            return end - start
        times = self.times
        return sum([times[row] for row in self.rows[start:end]])

    def _may_split(self, rows, start, end, depth):
        if depth >= self.max_depth or end - start < 2:
            return False
        if self._draws(start, end) < max(self.min_samples_split, 2 * self.min_samples_leaf):
            return False
        left = self.budget.left()
        if (left is not None and left < 1) or self.budget.late():
            return False
        y = self.y
        first = y[rows[start]]
        for i in range(start + 1, end):  # a node of one label only needs no race
            if y[rows[i]] != first:
                return True
        return False

    def cells(self, start, end):
        """The classes of rows start..end; of a regression, how many rows and the sum of targets."""
        if self.regression:
            total, n = self.add_up(self.rows, start, end, self.y, self.times)
            return n, total, 0
        counts = [0] * self.width
        self.tally(self.rows, start, end, self.y, self.times, counts)
        return counts

    def _leaf(self, tree, node):
        """Turn the rows of a node into votes: shares of `scale`, rounded so that they add up."""
        votes = self.cells(tree.start[node], tree.end[node])
        scale = self.grown.scale
        if self.regression:
            n, total, _ = votes
            votes = [(2 * total * scale + n * LEVELS) // (2 * n * LEVELS)]
        else:
            n = sum(votes)
            total = before = 0
            for k, count in enumerate(votes):
                total += count
                upto = (2 * total * scale + n) // (2 * n)
                votes[k] = upto - before
                before = upto
        tree.feature[node] = LEAF
        tree.votes.extend(array("H", votes))
        tree.right[node] = len(tree.votes) // len(votes)

    def _close(self):
        """Finish the tree in hand: what is neither split nor leaf becomes a leaf."""
        tree = self.tree
        if tree is None:
            return
        if not tree.feature:  # stopped before it began
            tree.add(0, self._draw_rows(Rng(self.seed, self.first + len(self.grown) + 1)), 0)
        size = tree.end[0]
        stack = [0]
        while stack:  # in preorder
            node = stack.pop()
            if tree.left[node]:
                part = (tree.end[node] - tree.start[node]) / size
                self.importance[tree.feature[node] & FEATURE] += tree.gain[node] * part
                stack.append(tree.right[node])
                stack.append(tree.left[node])
            else:
                self._leaf(tree, node)
        self.tree = tree.start = tree.end = tree.depth = tree.code = tree.gain = None
        self.grown.add_tree(tree)

    def forest(self):
        """The forest so far. The tree in hand is closed where it stands, and training is over."""
        if self._steps is not None:
            self._steps.close()
            self._steps = None
            if not self.grown:
                self.tree = self.tree or Tree()
            self._close()
            self.budget.tick()
            self.column = self.columns = self.rows = self.times = self.y = None
        forest = self.grown
        total = 0.0
        for v in self.importance:
            total += v
        forest.importances = [int(v / (total or 1) * 1000000 + 0.5) for v in self.importance]
        forest.prepare()
        return forest


def train(X, y, **options):
    """Train a forest to the end, or to the end of its budget; options as for `Training`.

    >>> rows = [[float(i), float(i * 7 % 11)] for i in range(200)]
    >>> forest = train(rows, ["late" if r[0] > 120 else "early" for r in rows], budget=5000)
    >>> forest.predict([150.0, 3.0]), forest.spent.insertions <= 5000
    ('late', True)
    """
    training = Training(X, y, **options)
    for _ in training:
        pass
    return training.forest()


def train_steps(X, y, **options):
    """Training that gives control back between rounds: see `Training`."""
    return Training(X, y, **options)


class Tree:
    """One tree while it grows: nodes in the order they were made."""

    def __init__(self):
        self.start = array("I")  # its rows: from here ...
        self.end = array("I")  # ... to here
        self.depth = array("H")
        self.feature = array("H")
        self.code = array("B")
        self.threshold = array("f")
        self.gain = array("f")
        self.left = array("I")  # 0: not split
        self.right = array("I")  # of a leaf: one more than the place of its votes
        self.votes = array("H")

    def add(self, start, end, depth):
        """A new node, undecided; returns its place."""
        self.start.append(start)
        self.end.append(end)
        self.depth.append(depth)
        self.feature.append(LEAF)
        self.code.append(0)
        self.threshold.append(0.0)
        self.gain.append(0.0)
        self.left.append(0)
        self.right.append(0)
        return len(self.feature) - 1

    def waits(self, node):
        """Whether it is decided how to split this node, and not done yet."""
        return self.feature[node] != LEAF and not self.left[node]


# ---- Prediction and the model file ------------------------------------------------------------


HEADER = (  # key in the model file, attribute of the forest
    ("kind", "kind"),
    ("criterion", "criterion"),
    ("splitter", "splitter"),
    ("seed", "seed"),
    ("features", "names"),
    ("categories", "categories"),
    ("classes", "classes"),
    ("importances", "importances"),
    ("budget", "limit"),
    ("scale", "scale"),
)


class Forest:
    """A trained forest: flat arrays, nodes in preorder, integer votes.

    Node i of `feature` is LEAF, or a feature with its flags; its left child is i + 1, its right
    child right[i]; of a leaf, right[i] is the place of its votes. Numbers go left if they are at
    most the threshold, both as float32.

    >>> forest = train([[i % 7] for i in range(60)], [i % 7 > 2 for i in range(60)], n_trees=4)
    >>> len(forest), forest.classes, forest.predict([[1], [5]]), forest.feature_importances
    (4, [False, True], [False, True], [1.0])
    """

    def __init__(self):
        self.roots = array("I")
        self.feature = array("H")
        self.threshold = array("f")
        self.right = array("H")
        self.votes = array("H")
        self.low = self.span = 0.0
        self.engine = None
        self.spent = Spent()
        self.limit = None

    def prepare(self):
        """Derive what prediction needs from what is stored."""
        self.regression = self.classes is None
        self.n_votes = 1 if self.regression else len(self.classes)
        self.n_features = len(self.names)
        self.places = [
            None if kinds is None else {v: c + 1 for c, v in enumerate(kinds)}
            for kinds in self.categories
        ]
        self.all_numbers = all([p is None for p in self.places])
        # Thresholds rounded down: the same for a row of whole numbers, and no float to allocate.
        code = "h"
        for t in self.threshold:
            if not -32768 <= t < 32768:
                code = "i"
        self.cut = array(code, bytes(struct.calcsize(code) * len(self.threshold)))
        for i, t in enumerate(self.threshold):
            self.cut[i] = math.floor(max(-MASK, min(MASK, t)))

    def __len__(self):
        return len(self.roots)

    def add_tree(self, tree):
        """Append a grown tree in preorder: a left child is the node after its parent."""
        width = 1 if self.classes is None else len(self.classes)
        before = len(self.votes) // width
        here = len(self.feature)
        if here + len(tree.feature) > 65535:
            self.right = array("I", self.right)
        self.roots.append(here)
        _tidy()
        self.threshold.extend(tree.threshold)  # the largest first: a small heap has few large gaps
        self.votes.extend(tree.votes)
        self.feature.extend(tree.feature)
        for _ in tree.feature:
            self.right.append(0)
        stack = [(0, -1)]
        while stack:
            node, parent = stack.pop()
            if parent >= 0:
                self.right[parent] = here
            self.feature[here] = tree.feature[node]
            self.threshold[here] = tree.threshold[node]
            if tree.feature[node] == LEAF:
                self.right[here] = before + tree.right[node] - 1
            else:
                stack.append((tree.right[node], here))
                stack.append((tree.left[node], -1))
            here += 1
        while here < len(self.feature):  # children that Ctrl-C left without a parent
            self.feature[here] = LEAF
            here += 1

    def encode(self, row):
        """A row as the float32 numbers that trees compare: categories become their codes."""
        if not _is_sequence(row) or len(row) != self.n_features:
            raise ValueError(f"a row must have {self.n_features} values, got {_amount(row)}")
        row = list(row)  # of bytes an array would take the bits
        _steady(len(row) == self.n_features, "a row", self.n_features)
        if self.all_numbers:
            try:
                return array("f", row)
            except (TypeError, ValueError, OverflowError):
                pass
        values = array("f")
        for f, v in enumerate(row):
            try:
                if self.places[f] is None:
                    v = _number(v, 0, "")
                else:  # an unknown category goes as missing goes
                    v = self.places[f].get(v.item() if hasattr(v, "item") else v, NAN)
                values.append(v)
            except TypeError:
                raise TypeError(f"feature {self.names[f]!r} must be a number, got {v!r}") from None
        return values

    def predict_into(self, row, out):
        """Sum the trees' votes for `row` into `out`, without allocation; returns the winner's place.

        `row` holds what `encode` gives, or whole numbers (bytes, array of int); `out` has a place
        for each class, or one for a regression (`value` turns its sum into the prediction).
        """
        feature = self.feature  # one by one: a tuple would be an allocation
        right = self.right
        votes = self.votes
        width = self.n_votes
        whole = isinstance(row[0], int)
        threshold = self.cut if whole else self.threshold
        for k in range(width):
            out[k] = 0
        for node in self.roots:
            f = feature[node]
            while f != LEAF:
                x = row[f & FEATURE]
                if f & EQUAL:
                    if x != x or x == 0:
                        left = f & MISSING_LEFT
                    else:
                        left = x == threshold[node]
                elif x != x:
                    left = f & MISSING_LEFT
                else:
                    left = x <= threshold[node]
                node = node + 1 if left else right[node]
                f = feature[node]
            place = right[node] * width
            for k in range(width):
                out[k] += votes[place + k]
        best = 0
        for k in range(1, width):
            if out[k] > out[best]:
                best = k
        return best

    def value(self, total):
        """The prediction of a regression from its summed votes, computed as float32 machines do."""
        step = array("f", [self.span / (self.scale * len(self.roots))])[0]
        part = array("f", [total * step])[0]
        return array("f", [part + self.low])[0]

    def _votes(self, rows):
        """Predict one row or many: whether it is one, and the (winner, votes) of each."""
        rows = _rows(rows)
        one = len(rows) > 0 and not _is_sequence(rows[0])
        answers = []
        for row in [rows] if one else rows:
            out = [0] * self.n_votes
            answers.append((self.predict_into(self.encode(row), out), out))
        return one, answers

    def predict(self, rows):
        """The class or value of one row, or a list of them for a sequence of rows."""
        one, answers = self._votes(rows)
        if self.regression:
            answers = [self.value(out[0]) for _, out in answers]
        else:
            answers = [self.classes[best] for best, _ in answers]
        return answers[0] if one else answers

    def predict_proba(self, rows):
        """The share of each class, in the order of `classes`, of one row or a sequence of rows."""
        if self.regression:
            raise ValueError("a regression has no class shares; use predict")
        one, answers = self._votes(rows)
        # Votes add up to scale * trees, unless forests were joined that know different classes.
        answers = [[v / (sum(out) or 1) for v in out] for _, out in answers]
        return answers[0] if one else answers

    @property
    def feature_importances(self):
        """Mean decrease in impurity by feature, summing to one."""
        return [v / 1000000 for v in self.importances]

    def _pieces(self):
        yield f'{{"format":"edgeforest","version":{VERSION}'
        for key, name in HEADER:
            yield f',"{key}":{_text(getattr(self, name))}'
        spent, feature = self.spent, self.feature
        wide = len(feature) > 65535
        small = max(self.votes or (0,)) < 256
        for key, value in (
            ("spent", [spent.insertions, spent.rows_read, spent.rounds]),
            ("wide", wide),
            ("bytes", small),
        ):
            yield f',"{key}":{_text(value)}'
        places = ()  # written only if they are not 0, 1, 2, ...
        leaves = 0
        for i in range(len(feature)):
            if feature[i] == LEAF:
                if self.right[i] != leaves:
                    places = self.right
                leaves += 1
        for name, values, code, of_leaves in (
            ("range", (self.low, self.span), "f", None),
            ("roots", self.roots, "I", None),
            ("feature", feature, "H", None),
            ("threshold", self.threshold, "f", False),
            ("leaf", places, "I" if wide else "H", True),
            ("votes", self.votes, "B" if small else "H", None),
        ):
            yield f',"{name}":"'
            part = []
            for i in range(len(values)):
                if of_leaves is None or (feature[i] == LEAF) is of_leaves:
                    part.append(values[i])
                    if len(part) == PIECE:
                        yield _pack(part, code)
                        part = []
            yield _pack(part, code) + '"'

    def text(self):
        """The model as compact JSON, piece by piece; the last one holds the checksum."""
        crc = 0
        for piece in self._pieces():
            _tidy()
            crc = _crc32(piece.encode(), crc)
            yield piece
        yield f',"crc32":"{crc >> 16:04x}{crc & 65535:04x}"}}'

    def to_json(self):
        """The model as compact JSON."""
        return "".join(self.text())

    def write(self, stream):
        """Write the model to an open text stream."""
        for piece in self.text():
            stream.write(piece)

    def save(self, path):
        """Write the model to a file; the old file stays whole until the new one is complete."""
        try:
            from edgeforest import files
        except ImportError:  # a board
            try:
                import files
            except ImportError:
                files = None  # without that file, a power cut costs the old model too
        with files.replacing(path) if files else open(path, "wb") as stream:
            for piece in self.text():
                stream.write(piece.encode())
            stream.write(b"\n")


def load(source, kind=Forest):
    """Read a model from a path, an open stream, or its JSON text (str or bytes starting with `{`).

    A file that is not ours, of a newer version, cut short or altered is refused with a ValueError.
    `kind` is the class of the forest: an engine's own.
    """
    if hasattr(source, "read"):
        text = source.read()
    elif isinstance(source, (str, bytes, bytearray)) and source[:1] in ("{", b"{"):
        text = source
    elif isinstance(source, (str, bytes)) or hasattr(source, "__fspath__"):
        with open(source, "rb") as stream:
            text = stream.read()
    else:
        raise TypeError(f"give a path, an open file or the text of a model; got {source!r}")
    if isinstance(text, str):
        text = text.encode()
    text = bytes(text).strip()
    at = text.rfind(b',"crc32":"')
    if text[:22] != b'{"format":"edgeforest"' or text[22:23] != b",":
        raise ValueError("this is not an EdgeForest model; give a file that Forest.save wrote")
    version = text[33 : text.find(b",", 33)]
    if version != b"%d" % VERSION:
        raise ValueError(
            f"model format {str(version[:9])[2:-1]} is not known to this release, which reads "
            f"{VERSION}; install a newer edgeforest"
        )
    if at < 0 or text[at + 18 :] != b'"}':
        raise ValueError("the model is cut short; copy the file again")
    crc = _crc32(text[:at], 0)
    if text[at + 10 : at + 18] != b"%04x%04x" % (crc >> 16, crc & 65535):
        raise ValueError("the model was altered: its checksum does not fit; copy the file again")
    try:
        model = json.loads(text)
        for key in ("range", "roots", "feature", "threshold", "leaf", "votes"):
            if model[key].encode() not in text:  # a letter is written as an escape
                raise ValueError
        forest = _from_json(model, kind)
    except MemoryError:
        raise
    except Exception:
        forest = None
    if forest is None:
        raise ValueError("the model is damaged inside; train or copy it again")
    return forest


def _from_json(model, kind):
    """A forest from its parsed JSON; None if its parts do not fit together."""
    forest = _with_header(kind(), model)
    forest.low, forest.span = _unpack(model["range"], "f")
    forest.roots = _unpack(model["roots"], "I")
    forest.feature = _unpack(model["feature"], "H")
    forest.votes = array("H", _unpack(model["votes"], "B" if model["bytes"] else "H"))
    n = len(forest.feature)
    wide = n > 65535
    code = "I" if wide else "H"
    cuts = _unpack(model["threshold"], "f")
    places = _unpack(model["leaf"], code) or range(n - len(cuts))
    forest.threshold = array("f", range(n))
    forest.right = array(code, range(n))
    if model["wide"] is wide and len(cuts) + len(places) == n:
        if _grow(forest, iter(cuts), iter(places)):
            forest.prepare()
            return forest


def _with_header(forest, model):
    """Give a forest its header; raises anything if that is not what a training can have written."""
    for key, name in HEADER:
        setattr(forest, name, model[key])
    insertions, rows, rounds = model["spent"]
    forest.spent = Spent(insertions, rows, rounds)
    limit = forest.limit
    for value, low, high in (
        (forest.seed, 0, MASK),
        (forest.scale, 1, LEVELS),
        (1 if limit is None else limit, 1, INF),
        (insertions, 0, INF),
        (rows, 0, INF),
        (rounds, 0, INF),
    ):
        _between("", value, low, high)
    names, m = forest.names, len(forest.names)
    for part in (names, forest.importances, forest.categories):
        if not isinstance(part, list) or not 0 < len(part) == m <= FEATURE:
            raise ValueError
    for value in forest.importances:
        _between("", value, 0, 1000000)
    for kinds in forest.categories:
        if kinds is not None:
            _refuse_odd(kinds, 254)
    "".join(names).encode()
    regression = forest.criterion == "mse"
    if regression is not (forest.classes is None) or type(model["bytes"]) is not bool:
        raise ValueError
    if not regression:
        forest.classes[0]  # one at least
        _refuse_odd(forest.classes, 4096)
    _refuse_unknown(forest.kind, forest.criterion, forest.splitter)
    forest.prepare()
    return forest


def _refuse_odd(labels, most):
    """Labels and categories are all text or all finite numbers, and differ."""
    if not isinstance(labels, list) or not len(set(labels)) == len(labels) <= most:
        raise ValueError
    if labels and isinstance(labels[0], str):
        "".join(labels).encode()  # not a surrogate alone
    elif sum([v - v for v in labels]) != 0:
        raise ValueError


def _grow(forest, values, places):
    """Give splits their thresholds and right children, and leaves the places of their votes.

    Tells whether all parts of the forest fit together, so that none leads prediction astray.
    """
    feature, right, roots = forest.feature, forest.right, forest.roots
    votes, width = forest.votes, forest.n_votes
    low, span = forest.low, forest.span
    n = len(feature)
    if len(votes) % width or not (0 <= span <= HUGE and -HUGE <= low <= low + span <= 1.001 * HUGE):
        return
    if not forest.regression and (low or span):
        return
    # Sums of votes are exact in float32; only merged forests take a second look.
    loud = max(votes or (0,)) * len(roots) >= 16777216
    total = most = trees = 0
    last = n  # of the splits that wait for their right child; in `right` is the one before
    for i in range(n):
        f = feature[i]
        if not i or feature[i - 1] == LEAF:  # it is no left child
            if last < n:
                above = right[last]
                right[last] = i
                last = above
            elif trees < len(roots) and roots[trees] == i:
                trees += 1
                total += most
                most = 0
            elif f != LEAF:  # only leaves that Ctrl-C left without a parent belong to no tree
                return
        if f == LEAF:
            right[i] = place = next(places)
            forest.threshold[i] = 0.0
            place *= width
            if place >= len(votes):
                return
            if loud:
                most = max(most, max(votes[place : place + width]))
        else:
            forest.threshold[i] = cut = next(values)
            kinds = forest.categories[f & FEATURE]
            if kinds is None:
                if f & EQUAL or cut - cut != 0:
                    return
            elif not (f & EQUAL and 0 <= cut <= len(kinds) and cut == int(cut)):
                return
            right[i] = last
            last = i
    return last == n and 0 < trees == len(roots) and total + most < 16777216


def _pack(values, code):
    """Little-endian base64 of an array."""
    return b2a_base64(struct.pack(f"<{len(values)}{code}", *values)).decode().strip()


def _unpack(text, code):
    data = a2b_base64(text.encode())
    size = struct.calcsize("<" + code)
    over = text.count("=")
    if over > 2 or 4 * (len(data) + over) != 3 * len(text) or len(data) % size:
        raise ValueError  # letters that are none, or half a number
    values = array(code)
    for i in range(0, len(data), size * PIECE):
        count = min(PIECE, (len(data) - i) // size)
        values.extend(array(code, struct.unpack_from(f"<{count}{code}", data, i)))
    return values


def _crc32(data, crc):
    """The usual CRC-32, in two 16-bit halves: no integer outgrows a small one on a board."""
    high, low = (crc >> 16) ^ 0xFFFF, (crc & 0xFFFF) ^ 0xFFFF
    for byte in data:
        low ^= byte
        for _ in range(8):
            odd = low & 1
            low = (low >> 1) | ((high & 1) << 15)
            high >>= 1
            if odd:
                high ^= 0xEDB8
                low ^= 0x8320
    return ((high ^ 0xFFFF) << 16) | (low ^ 0xFFFF)


try:
    from binascii import crc32 as _crc32  # noqa: F811
except ImportError:
    pass


def _text(value):
    """A value of the header as JSON, the same on every platform."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ",".join([_text(v) for v in value]) + "]"
    if not isinstance(value, str):
        return repr(value)
    value = value.replace("\\", "\\\\").replace('"', '\\"')
    if min(value.encode() or b" ") < 32:  # MicroPython keeps each c for good: only if need be
        value = "".join([c if ord(c) > 31 else "\\u%04x" % ord(c) for c in value])
    return '"' + value + '"'


# ---- Reading what the user gave ---------------------------------------------------------------


def _is_sequence(value):
    try:
        return not isinstance(value, (str, dict, set)) and len(value) >= 0
    except TypeError:
        return False


def _rows(rows):
    # A row or rows as something to index: of a table in one memoryview CPython indexes no row.
    if not _is_sequence(rows):
        if isinstance(rows, (str, dict, set)) or not hasattr(rows, "__iter__"):
            raise TypeError(f"give a row, or a list of rows; got {rows!r}")
        rows = list(rows)
    if getattr(rows, "ndim", 1) > 1 and hasattr(rows, "suboffsets"):
        rows = rows.tolist()
    return rows


def _amount(value):
    """What was got instead of a list of the right length."""
    return len(value) if _is_sequence(value) else repr(value)


def _plain(v, i, what):
    """A label or category as plain Python that JSON can hold; None where it is missing."""
    if hasattr(v, "item") and not _is_sequence(v):
        v = v.item()
    if v is None:
        return None
    if not isinstance(v, (str, int, float, bool)) or v in (INF, -INF):
        raise TypeError(f"row {i} of {what} must be text or a number, got {v!r}")
    return v if v == v else None


def _sorted_set(values, what):
    try:
        return sorted(set(values))
    except TypeError:
        raise ValueError(f"{what} must be all text or all numbers, got a mixture") from None


def _number(v, i, what):
    """A value as a float, NaN for None; says what is wrong if it is no number."""
    try:
        if not isinstance(v, (str, bytes, bytearray)):
            return NAN if v is None else float(v)
    except (TypeError, ValueError):
        pass
    except OverflowError:
        return INF if v > 0 else -INF
    raise TypeError(f"row {i} of {what} must be a number, got {v!r}")


def _floats(given, what):
    """A column of values as float32, none of them infinite."""
    try:
        values = array("f", list(given))  # a list: of bytes it would take the bits
        total = sum(values)
        if total - total == 0 or all([v - v == 0 or v != v for v in values]):
            return values
    except (TypeError, ValueError, OverflowError):
        pass
    values = array("f")
    for i, v in enumerate(given):  # again, slowly, to accept None or to say what is wrong
        x = _number(v, i, what)
        if x == x and not -HUGE <= x <= HUGE:
            raise ValueError(
                f"row {i} of {what} is infinite or beyond float32, got {v!r}; NaN means missing"
            )
        values.append(x)
    return values


def _steady(holds, what, n):
    # What was read is not what `len` said, or was something else when it was read again.
    if not holds:
        raise ValueError(
            f"{what} must yield as many values as its length says ({n}), and not change meanwhile"
        )


def _shape(X, n_features, by_column):
    """Rows, features, and a function from a feature to its column of values."""
    if not _is_sequence(X):
        raise TypeError(f"X must be a list of rows, got {X!r}")
    n = len(X)
    if n == 0:
        raise ValueError("no rows to train on; give at least one")
    if n_features is not None:
        m = _between("n_features", n_features, 1, FEATURE)
        if n % m:
            raise ValueError(f"a flat buffer of {n} values does not hold rows of {m}")
        return n // m, m, lambda f: [X[i] for i in range(f, n, m)]
    table = hasattr(X, "dtype") and _is_sequence(X[0])  # an array of NumPy or ulab
    what = "column" if by_column else "row"
    if not table:
        i = -1
        for i, line in enumerate(X):
            if not _is_sequence(line):
                raise TypeError(
                    f"{what} {i} of X must be a list of values, got {line!r}; "
                    "for one flat buffer of rows give n_features"
                )
            if len(line) != len(X[0]):
                raise ValueError(f"{what} {i} has {len(line)} values, {what} 0 has {len(X[0])}")
        _steady(i + 1 == n, "X", n)
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


def _part(name, value, whole):
    """How many that is: a whole number, or a share of `whole` if it is a float."""
    if isinstance(value, float):
        return max(1, int(_between(name, value, 1e-9, 1.0) * whole))
    return min(whole, _between(name, value, 1, MASK))


def _one_of(name, value, allowed):
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def _refuse_unknown(kind, criterion, splitter):
    _one_of("kind", kind, ("random-forest", "extra-trees", "random-patches"))
    _one_of("criterion", criterion, ("gini", "entropy", "mse"))
    _one_of("splitter", splitter, ("mab", "mab-paper", "exact"))


def _between(name, value, low, high, advice=""):
    """The value as a plain number of the kind of `low`; refused if it is not from low to high."""
    whole = isinstance(low, int)
    fits = hasattr(value, "__index__" if whole else "__float__")  # NumPy's numbers too
    if isinstance(value, bool) or not (fits or isinstance(value, int if whole else (int, float))):
        raise TypeError(
            f"{name} must be a {'whole ' if whole else ''}number, got {value!r}{advice}"
        )
    if not low <= value <= high:
        upto = f"from {low} to {high}" if high < 1e300 else f"at least {low}"
        raise ValueError(f"{name} must be {upto}, got {value}{advice}")
    return int(value) if whole else float(value)
