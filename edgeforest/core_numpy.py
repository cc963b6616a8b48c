"""Run the inner operations on whole arrays: NumPy on a computer, ulab on a board.

The race, the growth of trees and the budget stay in core_pure, whose forests these are, bit for
bit. Counts are whole numbers, so their sums are exact in any order, also as float64 below 2^53
(which only 94 million rows can reach). All else is computed in the order of core_pure: for every
arm at once, but from class to class with `cumsum`, because `sum` adds pairwise. Logarithms come
from `math.log`, because NumPy's may differ in the last bit.
"""

import math
from array import array

try:
    from ulab import numpy as np
except ImportError:
    import numpy as np
try:
    from edgeforest import core_pure
except ImportError:  # on a board, side by side
    import core_pure

MASK = core_pure.MASK
LEAF = core_pure.LEAF

BLOCK = 8192  # rows that are encoded or predicted at once: they stay in the cache
CELLS = 4096  # of the grid that finds codes
CROWD = 4  # bounds in one cell of it from which on a binary search is quicker
CHUNK = 4096  # random numbers made at once
FEW = 6  # rows of a node, below which lists are quicker than arrays
FEW_ROWS = 64  # of a table, below which they are quicker to read
PART = 262144  # cells of a round that are counted at once
PIECE = 1024  # rows at once on a board, whose memory is short
LOGS = 65536  # counts whose logarithms are kept


# ---- Random numbers ---------------------------------------------------------------------------


def _powers(a):
    # A multiply-with-carry step, z' = a (z mod 2^15) + z / 2^15, is z' = a z mod (a 2^15 - 1): the
    # state after k steps is a^k z.
    modulus = (a << 15) - 1
    powers = [a]
    while len(powers) < CHUNK:
        powers.append(powers[-1] * a % modulus)
    return np.array(powers, dtype=np.int64), modulus


def _ahead(rng, count=CHUNK):
    """The next states of a generator, and the integers that it would give."""
    z = Z_POWERS[0][:count] * rng.z % Z_POWERS[1]
    w = W_POWERS[0][:count] * rng.w % W_POWERS[1]
    return z, w, ((z & 32767) << 15) ^ w


def fill(rng, values, n):
    """`Rng.fill`, for an array."""
    at = 0
    while at < len(values):
        z, w, drawn = _ahead(rng)
        fine = np.flatnonzero(drawn < MASK - MASK % n)[: len(values) - at]
        values[at : at + len(fine)] = drawn[fine] % n
        at += len(fine)
        last = fine[-1] if at == len(values) else -1
        rng.z, rng.w = int(z[last]), int(w[last])


def shuffle(rng, values, start, stop):
    """Bring a random choice of what is left to places start..stop, as `Rng.shuffle` does."""
    i = start
    while i < stop:
        z, w, drawn = _ahead(rng, stop - i)
        below = np.arange(len(values) - i, len(values) - i - len(drawn), -1)
        refused = drawn >= MASK - MASK % below
        used = int(refused.argmax()) if refused.any() else len(drawn)
        for step in (drawn[:used] % below[:used]).tolist():
            j = i + step
            values[i], values[j] = values[j], values[i]
            i += 1
        last = min(used, len(drawn) - 1)  # what is refused is used up, too
        rng.z, rng.w = int(z[last]), int(w[last])


# ---- Numbers become codes ---------------------------------------------------------------------


def _float32(values):
    """Numbers as float32, by way of float64 as Python does."""
    if values.dtype.itemsize > 4:
        values = values.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):  # too large becomes infinite
        return values.astype(np.float32, copy=False)


def _is_numeric(values):
    """Whether it is an array of plain numbers. A masked array is not: it may hold no number."""
    return type(values) in (np.ndarray, np.memmap) and values.dtype.kind in "fiub"


def make_bounds(values):
    """`core_pure.make_bounds`, for an array of float32."""
    ordered = np.sort(values[values == values]).astype(np.float64)
    if not len(ordered):
        return np.zeros(2, np.float32)
    low, high = ordered[0], ordered[-1]
    values, spaced = np.unique(ordered), []
    parts = len(values)
    if parts > 255:
        parts, values = 128, ordered
        spaced = low + (high - low) * np.arange(1, parts) / parts
    at = np.arange(1, parts) * len(values) // parts
    a, b = values[at - 1], values[at]
    cuts = (a * 0.5 + b * 0.5).astype(np.float32)
    cuts = np.concatenate((spaced, np.where(cuts < b, cuts, a))).astype(np.float32)
    cuts = np.unique(cuts[(low <= cuts) & (cuts < high)]) + 0.0  # not -0.0
    return np.concatenate(([low], cuts, [high])).astype(np.float32)


class Encoder:
    """Codes of float32 values for one feature's bounds; NaN has code 0.

    A grid of cells shortens the search, as in core_pure: subtracting, scaling and truncating keep
    the order of two numbers, so every bound of an earlier cell is below a value.
    """

    def __init__(self, bounds, count):
        self.inner = bounds[1:-1]
        self.low = bounds[0]
        span = float(bounds[-1]) - float(self.low)
        self.start = None
        if count > CELLS and len(self.inner) and CELLS / core_pure.HUGE < span < core_pure.HUGE:
            self.per = np.float32(CELLS / span)
            cells = self._cell(self.inner)
            start = np.searchsorted(cells, np.arange(CELLS + 2))
            self.turns = int(np.diff(start).max())
            if self.turns < CROWD:
                self.start = start.astype(np.uint8)
                self.padded = np.append(self.inner, np.float32(np.inf))

    def _cell(self, values):
        cell = values - self.low
        cell *= self.per
        np.maximum(cell, 0.0, out=cell)
        np.minimum(cell, CELLS + 1.0, out=cell)
        return cell.astype(np.intp)

    def __call__(self, values):
        missing = np.isnan(values)
        some = missing.any()
        if self.start is None:
            codes = np.searchsorted(self.inner, values).astype(np.uint8)
        else:
            if some:
                values = np.where(missing, self.low, values)
            with np.errstate(over="ignore"):
                codes = self.start.take(self._cell(values))
            for _ in range(self.turns):
                codes += self.padded.take(codes) < values
        codes += 1
        if some:
            codes[missing] = 0
        return codes


def _placing(codes):
    """The sorted codes that place a feature's bins: of the first rows, or two if these are alike."""
    head = sorted(codes[: core_pure.GROUP_ROWS].tolist())
    if head[0] == head[-1]:
        head = sorted([head[0], int(codes[(codes != head[0]).argmax()])])
    return head


# ---- What histograms say ----------------------------------------------------------------------
# As in core_pure, of many arms at once: the cells lie along the first axis, the arms along the
# others. `total` has the cells of the node.


def _in_order(terms):
    """Sums of floats along the first axis, from the first to the last."""
    return terms.cumsum(axis=0)[-1]


class Gini:
    def size(self, cells):
        return cells.sum(axis=0)

    def score(self, left, total, n_left, n_right):
        a = (left * left).sum(axis=0)
        both = total.dot(left.reshape(len(total), -1)).reshape(a.shape)
        b = total.dot(total) - 2.0 * both + a  # whole numbers, so exact in any order
        return a / n_left + b / n_right

    def describe(self, left, total):
        n = total.sum()
        n_left = left.sum(axis=0)
        n_right = n - n_left
        right = total[:, None] - left
        s = total.dot(total) / (n * n)
        s_left = (left * left).sum(axis=0) / (n_left * n_left)
        s_right = (right * right).sum(axis=0) / (n_right * n_right)
        gain = (n_left * s_left + n_right * s_right) / n - s
        shares = (total / n)[:, None]
        on_left = 2.0 * (left / n_left - shares) - (s_left - s)
        on_right = 2.0 * (right / n_right - shares) - (s_right - s)
        return gain, 1.0 - s_left - s_right + s, on_left, on_right

    def scatter(self, cells, total, one, two=None):
        difference = one if two is None else one - two
        return _in_order(cells * difference * difference)


class Entropy(Gini):
    def __init__(self, size):
        self.logs = np.array([0.0] + [math.log(c) for c in range(1, min(LOGS, size + 1))])

    def log(self, counts):
        counts = counts.astype(np.intp)
        if counts.max() < len(self.logs):
            return self.logs.take(counts)
        logs = [math.log(c) if c else 0.0 for c in counts.ravel().tolist()]
        return np.array(logs).reshape(counts.shape)

    def score(self, left, total, n_left, n_right):
        right = total[:, None, None] - left
        on_left = _in_order(left * self.log(left))
        on_right = _in_order(right * self.log(right))
        return on_left - n_left * self.log(n_left) + on_right - n_right * self.log(n_right)

    def describe(self, left, total):
        total = total[:, None]
        n = total.sum()
        right = total - left
        on = []
        for side in (left, right):
            x = self.log(side) - self.log(side.sum(axis=0)) - self.log(total) + self.log(n)
            on.append(np.where(side > 0, x * core_pure.LOG2E, 0.0))
        gain = _in_order(np.concatenate((left * on[0], right * on[1]))) / n
        cells = (left > 0).sum(axis=0) + (right > 0).sum(axis=0) - 1 - (total > 0).sum()
        return gain, cells * 0.5 * core_pure.LOG2E, on[0], on[1]


class MSE:
    def size(self, cells):
        return cells[0]

    def impurity(self, cells):
        n = np.maximum(cells[0], 1)
        mean = cells[1] / n
        return np.maximum(0.0, cells[2] / n - mean * mean)

    def score(self, left, total, n_left, n_right):
        d = (left[1] * float(total[0]) - float(total[1]) * n_left) / total[0]
        return d * d / (n_left * (n_right + 0.0))

    def describe(self, left, total):
        n = float(total[0])
        n_left = left[0]
        n_right = n - n_left
        d = (left[1] * n - float(total[1]) * n_left) / n
        m_left = d / n_left
        m_right = -d / n_right
        gain = (n_left * m_left * m_left + n_right * m_right * m_right) / n
        bias = self.impurity(left) + self.impurity(total[:, None] - left) - self.impurity(total)
        return gain, bias, m_left, m_right

    def scatter(self, cells, total, one, two=0.0):
        n = cells[0]
        difference = one - two
        aside = 2.0 * (cells[1] / np.maximum(n, 1) - total[1] / total[0]) - (one + two)
        return n * difference * difference * (4.0 * self.impurity(cells) + aside * aside)


# ---- Training ---------------------------------------------------------------------------------


class Race:
    """The arrays of one race: features, tables from code to bin, histograms, scores of all arms."""

    def __init__(self, features, codes, tables, bins, equal, width, dtype):
        self.features = np.array(features)
        self.codes = codes  # of its first rows, until they are counted
        self.tables = tables
        self.equal = np.array(equal) if any(equal) else None
        self.stride = 1 + max(bins)
        self.h = np.zeros((width, len(features), self.stride), dtype)
        self.flat = self.h.ravel()
        self.places = np.arange(len(features))
        self.cells = (tables + self.places[:, None] * self.stride).ravel()  # code -> cell

    def of(self, racing):
        """Places of those who still race."""
        if len(racing) == len(self.places):
            return self.places
        return np.array([c.place for c in racing])


class Contender(core_pure.Contender):
    """One feature in a race: its place in the arrays of the race."""

    def __init__(self, race, place, feature, bins, equal, turn):
        self.race = race
        self.place = place
        self.feature = feature
        self.bins = bins
        self.equal = equal
        self.turn = turn  # when it was drawn
        self.best = self.alive = None
        self.gain = self.variance = 0.0

    @property
    def h(self):
        return self.race.h[:, self.place].astype(np.int64).ravel().tolist()

    @property
    def cuts(self):
        if self.equal:
            return range(self.bins + 1)
        table = self.race.tables[self.place].tobytes()
        return [table.rfind(bin) for bin in range(self.bins + 1)]


def draw(task, rng, rows):
    """Fill the front of `rows` with a tree's rows, in random order, some of them more than once."""
    pool = len(task.patch) if task.patch else task.n
    size, weights = task.sample_size, task.weights
    if weights is None and task.bootstrap:
        fill(rng, rows, pool)
    elif weights is None:
        rows[:] = np.arange(pool)
    else:
        total = weights[pool]
        fill(rng, rows, total if task.bootstrap else max(1, total // size))
        if not task.bootstrap:
            rows += np.arange(size) * total // size
        rows[:] = np.searchsorted(np.frombuffer(weights, np.uint32)[1:], rows, side="right")
    if not task.bootstrap:
        order = rows.tolist()
        shuffle(rng, order, 0, min(size, len(order) - 1))
        rows[:] = order
    if task.patch:
        rows[:size] = np.frombuffer(task.patch, np.uint32)[rows[:size]]


class NumpyTraining(core_pure.Training):
    """`core_pure.Training` with arrays for loops."""

    engine = "numpy"

    # ---- Reading

    def read_labels(self, X, y, regression, n_features, by_column):
        core_pure.Training.read_labels(self, X, y, regression, n_features, by_column)
        self.table = None  # X as an array of rows, where it can be one without a copy
        if n_features is not None:
            if isinstance(X, (bytes, bytearray)):
                X = np.frombuffer(X, np.uint8)
            elif isinstance(X, array) and X.typecode not in "uw":  # these hold text
                X = np.frombuffer(X, X.typecode)
            if _is_numeric(X) and X.shape == (self.n * self.m,):
                self.table = X.reshape(self.n, self.m)
        elif _is_numeric(X) and X.ndim == 2:
            self.table = X.T if by_column else X

    def _read_classes(self, y):
        if _is_numeric(y) and y.dtype.kind != "f" and y.ndim == 1:
            kinds, places = np.unique(y, return_inverse=True)
            if len(kinds) <= 4096:
                self.classes = kinds.tolist()
                self.width = len(kinds)
                self.y = places.astype(np.uint8 if len(kinds) < 257 else np.uint16)
                return
        core_pure.Training._read_classes(self, y)
        self.y = np.frombuffer(self.y, np.uint8 if self.width < 257 else np.uint16)

    def _read_targets(self, y):
        values = _float32(y).astype(np.float64) if _is_numeric(y) and y.ndim == 1 else None
        if values is None or not values.max() - values.min() <= core_pure.HUGE:
            core_pure.Training._read_targets(self, y)  # or it says what is wrong
            self.y = np.frombuffer(self.y, np.uint16)
            return
        low = self.low = float(values.min())
        span = float(values.max()) - low
        self.span = float(np.float32(span))
        values -= low
        values *= core_pure.LEVELS / span if span > 0 else 0.0
        values += 0.5
        self.y = np.minimum(values, core_pure.LEVELS).astype(np.uint16)

    def read_weights(self, sample_weight, class_weight):
        if _is_numeric(sample_weight) and sample_weight.ndim == 1:
            sample_weight = sample_weight.tolist()
        return core_pure.Training.read_weights(self, sample_weight, class_weight)

    def read_rows(self, rng):
        size = len(self.rows)
        # Views for core_pure, where an item is an int and no scalar of NumPy's; arrays for us.
        self.labels = np.asarray(self.y)
        self.y = memoryview(self.labels)
        table, self.table = self.table, None
        codes = None
        plain = table is not None and self.categories == [None] * self.m
        if plain and (self.raw or self.n >= FEW_ROWS):
            codes = table if self.raw else self._encode_rows(table, rng)
        if codes is None:
            core_pure.Training.read_rows(self, rng)
            codes = np.empty((self.n, self.m), np.uint8)
            for f in range(self.m):
                codes[:, f] = np.frombuffer(self.columns[f], np.uint8)
                self.columns[f] = None
        else:
            self.budget.spent.rows_read += min(self.n, core_pure.EDGE_ROWS)
            self.bins = self.n_bins
            if self.raw:
                self.bounds = [range(256)] * self.m
        if min(codes.strides) < 1:
            codes = codes.copy()
        self.rows = np.arange(size, dtype=np.intp)
        self._set_times(np.ones(self.n, np.uint8))
        self.codes = codes
        self.per_row, self.per_feature = codes.strides
        size = 1 + (self.n - 1) * self.per_row + (self.m - 1) * self.per_feature
        self.flat = np.lib.stride_tricks.as_strided(codes, (size,), (1,), writeable=False)
        self.columns = [memoryview(codes[:, f]) for f in range(self.m)]
        self.rules = MSE() if self.regression else Gini()
        if self.criterion.name == "entropy":
            self.rules = Entropy(self.sample_size)
        # Float64 is quicker to count in. Sums of squared targets outgrow its whole numbers beyond
        # 2^21 rows, those of fourth powers much sooner (and int64 beyond 2^23).
        vast = self.regression and (self.width == 5 or self.sample_size >> 21)
        self.dtype = np.int64 if vast else np.float64
        self.steps = np.arange(1, self.n_bins)

    def _encode_rows(self, table, rng):
        """Codes of all numbers, block by block; None if one is infinite: core_pure says which."""
        n, m = table.shape
        head = table
        if n > core_pure.EDGE_ROWS:
            sample = np.empty(core_pure.EDGE_ROWS, np.intp)
            fill(rng, sample, n)
            head = table[sample]
        head = _float32(head.T)
        if np.isinf(head).any():
            return None
        bounds = [make_bounds(values) for values in head]
        encoders = [Encoder(b, n) for b in bounds]
        codes = np.empty((n, m), np.uint8)
        part = np.empty((m, min(n, BLOCK)), np.uint8)
        for at in range(0, n, BLOCK):
            self.in_time()
            values = np.ascontiguousarray(_float32(table[at : at + BLOCK]).T)
            if np.isinf(values).any():
                return None
            for f in range(m):
                part[f, : values.shape[1]] = encoders[f](values[f])
            codes[at : at + BLOCK] = part[:, : values.shape[1]].T
        self.bounds = [array("f", b.tobytes()) for b in bounds]
        return codes

    def _set_times(self, times):
        self.drawn = times
        self.times = memoryview(times)

    def encode(self, values, bounds):
        if len(values) < FEW_ROWS:
            return core_pure.Training.encode(self, values, bounds)
        encoder = Encoder(np.frombuffer(bounds, np.float32), len(values))
        return encoder(np.frombuffer(values, np.float32))

    # ---- The race

    def _gather(self, features, rows):
        """Codes of features in rows, (features, rows)."""
        places = np.multiply(features, self.per_feature, dtype=np.intp)[:, None]
        return self.flat.take(places + rows * self.per_row)

    def _contenders(self, rows, start, end, rng, features, few=0):
        rows = rows[start : min(end, start + core_pure.LOOK_ROWS)]
        # Thresholds that are random are drawn as soon as their feature is. Else some features more
        # than are wanted are read at once: a node's random stream is its own, and ends with it.
        one_by_one = self.kind == "extra-trees" or self.splitter == "mab-paper"
        whole = self.codes[rows].T.copy() if one_by_one else None
        chosen = {}  # feature -> its codes in these rows
        made = {}
        i = 0
        most = self.max_features
        while len(chosen) < most and i < len(features) and not (few and chosen and i >= most):
            if one_by_one:
                upto = i + 1
                j = i + rng.below(len(features) - i)
                features[i], features[j] = features[j], features[i]
                codes = whole[features[i]][None]
            else:
                left = most - len(chosen)
                upto = min(len(features), i + left + (0 if few else (left >> 1) + 4))
                shuffle(rng, features, i, upto)
                codes = self._gather(features[i:upto], rows)
            varies = (codes != codes[:, :1]).any(axis=1).tolist()
            for k in range(upto - i):
                if few and chosen and i + k >= most:
                    break
                if varies[k] and len(chosen) < most:
                    f = features[i + k]
                    chosen[f] = codes[k]
                    if one_by_one:
                        made[f] = self._contender(f, _placing(codes[k]), [], rng)
            i = upto
        if not chosen:
            return [], 1
        names = sorted(chosen)
        codes = np.array([chosen[f] for f in names])
        if one_by_one:
            tables = np.empty((len(names), 256), np.uint8)
            for k, f in enumerate(names):
                if not made[f].equal:
                    tables[k] = np.frombuffer(made[f].table, np.uint8)
        else:
            tables = self._tables(codes, few)
        bins = tables[:, 255].tolist()
        equal = [self.categories[f] is not None for f in names]
        for k, f in enumerate(names):
            if equal[k]:
                tables[k] = np.arange(256)
                bins[k] = len(self.categories[f])
        race = Race(names, codes, tables, bins, equal, self.width, self.dtype)
        turn = {f: k for k, f in enumerate(chosen)}
        racing = [Contender(race, k, f, bins[k], equal[k], turn[f]) for k, f in enumerate(names)]
        return racing, race.stride

    def _race_small(self, rows, start, end, rng, features):
        n = end - start
        if n < FEW:
            return (
                yield from core_pure.Training._race_small(self, rows, start, end, rng, features)
            )
        # All features at once, though the first ones may turn out to be enough.
        racing, stride = self._contenders(
            rows, start, end, rng, features, max(1, self.n_bins // 2 - 1)
        )
        best = total = None
        if racing:
            self._insert(racing, stride, rows, start, end)
            total = self._total(racing[0], stride)
            self.score(racing, stride, total, self.min_samples_leaf)
            racing.sort(key=lambda c: c.turn)
        for c in racing:
            if not self.budget.take(n, 1):
                break
            yield self
            if c.best and (best is None or c.best[0] > best.best[0]):
                best = c
                if n == 2 or c.best[0] >= self.criterion.limit * self.criterion.size(total):
                    break
        if best is None:
            return None
        split = self._split(best, stride, total, 0.0)
        if not best.equal and self.kind != "extra-trees":
            codes = np.asarray(self.columns[split.feature])[rows[start:end]]
            codes = codes[codes > split.code]
            if len(codes):
                split.code = (split.code + int(codes.min())) >> 1
        return split

    def _tables(self, codes, few):
        """Tables from code to bin for features with these codes in the node's first rows.

        Bins are of equal mass, or else bounded by the codes of the first `few` rows.
        """
        before = -1 if self.raw else 0
        heads = codes[:, : core_pure.GROUP_ROWS].astype(np.int16)
        count, size = heads.shape
        bins = min(few, size) + 1 if few else self.n_bins
        edges = np.empty((count, bins + 1), np.int16)  # the highest codes of the bins
        edges[:, 0] = before
        edges[:, bins] = 255
        wanted = edges[:, 1:bins]
        if few:
            wanted[:] = heads[:, : bins - 1]
            wanted.sort(axis=1)
            last = heads.max(axis=1)[:, None]
        else:
            heads.sort(axis=1)
            last = heads[:, -1:]
            zeros = 0 if self.raw else (heads == 0).sum(axis=1)[:, None]
            spots = self.steps * (size - zeros) // bins
            at = spots + (zeros + np.arange(0, count * size, size)[:, None])
            np.add(heads.take(at, mode="clip"), heads.take(at - 1, mode="clip"), out=wanted)
            wanted >>= 1
            if spots.min() == 0:
                wanted[np.broadcast_to(spots == 0, wanted.shape)] = before
        np.putmask(wanted, wanted >= last, 255)
        lengths = edges[:, 1:] - edges[:, :-1]
        ids = (lengths > 0).cumsum(axis=1, dtype=np.uint8)
        # One bin only: what varied further on only, or where few are below the largest, but some.
        for k in np.flatnonzero(ids[:, -1] == 1).tolist():
            placing = _placing(codes[k])
            low = placing[-1 - placing.count(placing[-1])]
            if low > before:
                cut = low if few else (low + placing[-1]) >> 1
                lengths[k] = 0
                lengths[k, 0], lengths[k, -1] = cut - before, 255 - cut
                ids[k, 0], ids[k, -1] = 1, 2
        tables = np.zeros((count, 256), np.uint8)
        tables[:, before + 1 :] = ids.repeat(lengths.ravel()).reshape(count, -1)
        return tables

    def _insert(self, racing, stride, rows, start, end):
        # In parts: their arrays stay in the cache, and the clock is asked in between.
        race = racing[0].race
        some = max(core_pure.LOOK_ROWS, self._part(race.h.size) // len(racing))
        squares = 0
        for at in range(start, end, some):
            if at > start and self.budget.late():
                self.budget.spent.insertions -= (end - at) * len(racing)
                end = at
                break
            squares += self._insert_some(racing, rows[at : min(end, at + some)])
        return end, squares

    def _part(self, cells):
        """Values that are counted at once into so many cells: few, if memory is short."""
        return max(PART, 4 * cells) if self.budget.bytes is None else max(PART >> 5, cells)

    def working_bytes(self, nodes=0, growing=0):
        bins = self.n_bins + 1 if self.categories == [None] * self.m else 256
        cells = self.max_features * bins * self.width
        part = min(self._part(cells), self.sample_size * self.max_features)
        own = 30 * max(part, core_pure.LOOK_ROWS * self.max_features) + 80 * cells
        return own + core_pure.Training.working_bytes(self, nodes, growing)

    def _insert_some(self, racing, rows):
        race = racing[0].race
        places = race.of(racing)
        if race.codes is None:
            codes = self._gather(race.features[places], rows)
        else:
            codes, race.codes = race.codes[:, : len(rows)], None
            if codes.shape[1] < len(rows):
                more = self._gather(race.features, rows[codes.shape[1] :])
                codes = np.concatenate((codes, more), axis=1)
        shift = (places * 256)[:, None]
        cells = race.cells.take(codes + (shift.astype(np.uint16) if len(places) < 256 else shift))
        drawn = self.drawn.take(rows).astype(self.dtype)
        squares = int(drawn.dot(drawn))
        labels = self.labels.take(rows)
        if not self.regression:
            cells += np.multiply(labels, race.h[0].size, dtype=np.intp)
            drawn = drawn[None].repeat(len(racing), axis=0).ravel()
            race.flat += np.bincount(cells.ravel(), drawn, race.h.size)
            return squares
        labels = labels.astype(self.dtype)
        if self.width == 5:
            labels = labels // 32 - 1024
        cells = cells.ravel()
        for h in race.h:
            moments = drawn[None].repeat(len(racing), axis=0).ravel()
            if self.dtype is np.float64:
                h += np.bincount(cells, moments, h.size).reshape(h.shape)
            else:
                np.add.at(h.reshape(-1), cells, moments)
            drawn = drawn * labels
        return squares

    def _total(self, contender, stride):
        if not hasattr(contender, "race"):
            return core_pure.Training._total(self, contender, stride)
        total = contender.race.total = contender.race.h[:, contender.place].sum(axis=1)
        return total.astype(np.int64).tolist()

    def score(self, racing, stride, total, least):
        race, rules = racing[0].race, self.rules
        h = race.h
        if len(racing) < len(race.places):
            h = h[:, race.of(racing)]
        if stride > len(TRIANGLE) or self.dtype is not np.float64:
            left = h[:, :, 1:].cumsum(axis=2)
        else:  # quicker than cumsum for rows that are short
            left = h[:, :, 1:] @ TRIANGLE[: stride - 1, : stride - 1]
        if race.equal is not None:
            equal = race.equal[race.of(racing)]
            left[:, equal] = h[:, equal, 1:]
        missing = h[:, :, :1]
        race.sides = 1
        if missing.any():  # even arms send missing values right, odd ones left
            race.sides = 2
            left = np.stack((left, left + missing), axis=3).reshape(len(h), len(racing), -1)
        n_left = rules.size(left)
        n_right = rules.size(race.total) - n_left
        race.smaller = np.minimum(n_left, n_right)
        if race.sides == 2:  # an empty bin is the same arm as the one before it, or missing only
            race.smaller[(rules.size(h)[:, 1:] == 0).repeat(2, axis=1)] = 0
        score = rules.score(left, race.total, np.maximum(n_left, 1), np.maximum(n_right, 1))
        race.left, race.score = left, score
        score = np.where(race.smaller >= least, score, -np.inf)
        arms = score.argmax(axis=1)
        tops = score[np.arange(len(arms)), arms].tolist()
        arms = arms.tolist()
        for k, c in enumerate(racing):
            c.row, c.arm, c.best = k, arms[k], None
            if tops[k] > -np.inf:
                c.best = (tops[k], c.arm // race.sides + 1, race.sides == 2 and c.arm % 2 == 1)

    def describe(self, racing, stride, total, rest):
        race, rules = racing[0].race, self.rules
        total = race.total
        left = race.left[:, [c.row for c in racing], [c.arm for c in racing]]
        gain, bias, on_left, on_right = rules.describe(left, total)
        scatter = rules.scatter(left, total, on_left)
        scatter = scatter + rules.scatter(total[:, None] - left, total, on_right)
        variance = (np.maximum(0.0, scatter / rules.size(total) - gain * gain) * rest).tolist()
        gain = (gain - bias * rest).tolist()
        for k, c in enumerate(racing):
            c.gain, c.variance = gain[k], variance[k]

    def _better_threshold(self, c, stride, total, rest, slack):
        if c.equal:
            return core_pure.Training._better_threshold(self, c, stride, total, rest, slack)
        race, rules = c.race, self.rules
        total = race.total
        size = float(rules.size(total))
        far = 2.0 * self.z * math.sqrt(c.variance)
        gap = (race.score[c.row] - c.best[0]) * self.criterion.per_score(size)
        near = (race.smaller[c.row] > 0) & (gap + far > slack)
        near[c.arm] = False
        near = np.flatnonzero(near)
        if not len(near):
            return False
        both = np.minimum(near, c.arm)
        if race.sides == 2:
            both = np.minimum(near >> 1, c.arm >> 1) * 2 + (near & c.arm & 1)
        cells = race.left[:, c.row]
        both, best, left = cells[:, both], cells[:, c.arm : c.arm + 1], cells[:, near]
        gain, _, lead_left, lead_right = rules.describe(best, total)
        other, _, on_left, on_right = rules.describe(left, total)
        only, only_best = left - both, best - both
        neither = total[:, None] - left - only_best
        scatter = rules.scatter(both, total, on_left, lead_left)
        scatter = scatter + rules.scatter(only, total, on_left, lead_right)
        scatter = scatter + rules.scatter(only_best, total, on_right, lead_left)
        scatter = scatter + rules.scatter(neither, total, on_right, lead_right)
        gap = other - gain
        variance = np.maximum(0.0, scatter / size - gap * gap) * rest
        return bool((gap + self.z * np.sqrt(variance) > slack).any())

    # ---- Growing

    def _draw_rows(self, rng):
        size, rows, weights = self.sample_size, self.rows, self.weights
        draw(self, rng, rows)
        self.budget.spent.rows_read += size
        if weights is None and not self.bootstrap:
            return size
        times = np.bincount(rows, minlength=self.n)
        if weights is None:
            self._set_times(np.minimum(times, 255).astype(np.uint8))
        else:
            self._set_times(np.minimum(times, 65535).astype(np.uint16))
        first = np.empty(self.n, np.intp)
        first[rows[::-1]] = np.arange(size)[::-1]  # what is set last stays
        front = rows[first[rows] == np.arange(size)]
        rows[: len(front)] = front
        return len(front)

    def partition(self, rows, start, end, column, goes_left):
        rows = rows[start:end]
        left = np.frombuffer(goes_left, np.bool_).take(np.asarray(column)[rows])
        middle = int(np.count_nonzero(left))
        low = np.flatnonzero(~left[:middle])
        high = np.flatnonzero(left[middle:])[::-1] + middle
        rows[low], rows[high] = rows[high], rows[low]
        return start + middle

    def _may_split(self, rows, start, end, depth):
        labels = self.labels.take(rows[start:end])
        if (labels == labels[0]).all():
            return False
        return core_pure.Training._may_split(self, rows, start, end, depth)

    def tally(self, rows, start, end, labels, times, counts):
        rows = rows[start:end]
        found = np.bincount(self.labels[rows], self.drawn[rows], len(counts))
        counts[:] = found.astype(np.int64).tolist()

    def add_up(self, rows, start, end, targets, times):
        rows = rows[start:end]
        drawn = self.drawn[rows].astype(np.int64)
        return int(drawn.dot(self.labels[rows].astype(np.int64))), int(drawn.sum())

    def forest(self):
        forest = core_pure.Training.forest(self)
        self.codes = self.flat = self.labels = self.drawn = None
        return forest


def leaves(forest, rows):
    """The leaf of each tree that each row reaches, (trees, rows): all go down one level at a time.

    `rows` are numbers as float32, categories as their codes.
    """
    count = len(rows)
    feature = np.asarray(forest.feature, np.uint16)
    threshold = np.asarray(forest.threshold, np.float32)
    right = np.asarray(forest.right, np.intp)
    kinds = np.bitwise_or.reduce(feature[feature != LEAF], initial=0) & core_pure.EQUAL
    rows = np.ascontiguousarray(rows)
    flat = rows.ravel()
    missing = np.isnan(flat).any() or kinds
    node = np.repeat(np.array(forest.roots, np.intp), count)
    first = np.tile(np.arange(count) * rows.shape[1], len(forest.roots))
    live = np.flatnonzero(feature[node] != LEAF)
    while len(live):
        here = node[live]
        f = feature[here]
        x = flat.take(first[live] + (f & core_pure.FEATURE))
        left = x <= threshold[here]
        if missing:
            absent = np.isnan(x)
            if kinds:
                equal = (f & core_pure.EQUAL) > 0
                left = np.where(equal, x == threshold[here], left)
                absent |= equal & (x == 0)
            left = np.where(absent, (f & core_pure.MISSING_LEFT) > 0, left)
        here = np.where(left, here + 1, right[here])
        node[live] = here
        live = live[feature[here] != LEAF]
    return node.reshape(-1, count)


def vote(forest, rows):
    """Summed votes, (rows, classes)."""
    right = np.asarray(forest.right, np.intp)
    votes = np.asarray(forest.votes, np.uint16).reshape(-1, forest.n_votes)
    out = np.zeros((len(rows), forest.n_votes), np.int64)
    for leaf in leaves(forest, rows):
        out += votes[right[leaf]]
    return out


class NumpyForest(core_pure.Forest):
    """`core_pure.Forest` that predicts many rows at once."""

    def prepare(self):
        threshold, self.threshold = self.threshold, array("f")
        core_pure.Forest.prepare(self)
        self.threshold = threshold
        cut = np.array(threshold, np.float64)
        cut = np.maximum(-MASK, np.where(cut < MASK, cut, MASK))
        self.cut = array("i", np.floor(cut).astype(np.int32).tobytes())

    def __reduce__(self):
        from edgeforest.engines import pack

        return pack(self)

    def _votes(self, rows):
        if _is_numeric(rows) and rows.ndim == 2 and rows.shape[1] == self.n_features:
            if not self.all_numbers:
                rows = rows.tolist()
        elif not isinstance(rows, list):
            return core_pure.Forest._votes(self, rows)
        if isinstance(rows, list):
            if len(rows) < 9 or not core_pure._is_sequence(rows[0]):
                return core_pure.Forest._votes(self, rows)
            values = array("f")
            for row in rows:
                values.extend(self.encode(row))
            rows = np.frombuffer(values, np.float32).reshape(-1, self.n_features)
        answers = []
        block = min(BLOCK, 1 + 16 * BLOCK // max(len(self.roots), self.n_votes))
        for at in range(0, len(rows), block):
            votes = vote(self, _float32(rows[at : at + block]))
            answers += zip(votes.argmax(axis=1).tolist(), votes.tolist(), strict=True)
        return False, answers


# ---- On a board -------------------------------------------------------------------------------


def _view(values):
    """A buffer of 8-bit or 16-bit whole numbers as an array that shares its memory."""
    return np.frombuffer(values, dtype=np.uint16 if isinstance(values, array) else np.uint8)


class UlabTraining(core_pure.Training):
    """`core_pure.Training` with what ulab does quicker: counting and moving rows.

    Its integers end at 65535. So does every count where there are no more rows than that; with
    more rows, and for sums of targets, the loops of core_pure stay in charge.
    """

    engine = "numpy"

    def _insert(self, racing, stride, rows, start, end):
        if self.regression or max(self.n, stride * self.width) > 65535:
            return core_pure.Training._insert(self, racing, stride, rows, start, end)
        squares = 0
        for at in range(start, end, PIECE):
            if at > start and self.budget.late():
                self.budget.spent.insertions -= (end - at) * len(racing)
                end = at
                break
            piece = _view(rows)[at : min(end, at + PIECE)]
            labels = np.array(np.take(_view(self.y), piece), dtype=np.uint16) * stride
            drawn = np.take(_view(self.times), piece)
            squares += int(np.dot(drawn, drawn))
            for c in racing:
                cells = np.take(_view(c.column), piece)
                if not c.equal:  # else a code is its bin
                    cells = np.take(_view(c.table), cells)
                h = np.bincount(cells + labels, weights=drawn, minlength=len(c.h))
                c.h = (np.array(c.h, dtype=np.uint16) + np.array(h, dtype=np.uint16)).tolist()
        return end, squares

    def partition(self, rows, start, end, column, goes_left):
        if self.n > 65535:
            return core_pure.Training.partition(self, rows, start, end, column, goes_left)
        rows = _view(rows)[start:end]
        left = np.take(_view(goes_left), np.take(_view(column), rows)) > 0
        middle = int(np.sum(left))
        front, back = rows[:middle], rows[middle:]
        wrong, right = left[:middle] == 0, left[middle:]
        moved = front[wrong]
        front[wrong] = back[right][::-1]
        back[right] = moved[::-1]
        return start + middle

    def tally(self, rows, start, end, labels, times, counts):
        if self.n > 65535:
            core_pure.Training.tally(self, rows, start, end, labels, times, counts)
            return
        rows = _view(rows)[start:end]
        drawn = np.take(_view(times), rows)
        found = np.bincount(np.take(_view(labels), rows), weights=drawn, minlength=len(counts))
        counts[:] = [int(n) for n in found]


if hasattr(np, "searchsorted"):
    Training, Forest = NumpyTraining, NumpyForest
    Training.Forest = Forest
    Z_POWERS, W_POWERS = _powers(25338), _powers(26100)
    TRIANGLE = np.triu(np.ones((64, 64)))
else:
    Training, Forest = UlabTraining, core_pure.Forest
