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


def _ahead(rng):
    """The next states of a generator, and the integers that it would give."""
    z = Z_POWERS[0] * rng.z % Z_POWERS[1]
    w = W_POWERS[0] * rng.w % W_POWERS[1]
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


def shuffle(rng, values, count):
    """`Rng.shuffle`, for a list."""
    count = min(count, len(values) - 1)
    i = 0
    while i < count:
        z, w, drawn = _ahead(rng)
        below = len(values) - np.arange(i, min(count, i + CHUNK))
        bad = np.flatnonzero(drawn[: len(below)] >= MASK - MASK % below)
        used = bad[0] if len(bad) else len(below)
        for step in (drawn[:used] % below[:used]).tolist():
            j = i + step
            values[i], values[j] = values[j], values[i]
            i += 1
        last = used if len(bad) else used - 1  # what is refused is used up, too
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
    distinct = ordered[np.append(True, ordered[1:] > ordered[:-1])]
    parts = len(distinct)
    if parts > 255:
        parts, distinct = 255, ordered
    at = np.arange(1, parts) * len(distinct) // parts
    low, high = distinct[at - 1], distinct[at]
    low, high = low[low < high], high[low < high]
    middle = (low * 0.5 + high * 0.5).astype(np.float32)
    middle = np.where((low <= middle) & (middle < high), middle, low)
    return np.concatenate((ordered[:1], middle, ordered[-1:])).astype(np.float32)


class Encoder:
    """Codes of float32 values for one feature's bounds; NaN has code 0.

    A grid of cells shortens the search, as in core_pure: subtracting, scaling and truncating keep
    the order of two numbers, so every bound of an earlier cell is below a value.
    """

    def __init__(self, bounds):
        self.inner = bounds[1:-1]
        self.low = bounds[0]
        span = float(bounds[-1]) - float(self.low)
        self.start = None
        if len(self.inner) and 0 < CELLS / span < core_pure.HUGE and span < core_pure.HUGE:
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


# ---- What histograms say ----------------------------------------------------------------------
# As in core_pure, with one more axis in front: `left` holds the cells of many arms, (arms, cells),
# and for `score` (features, cells, arms). `total` has the cells of the node.


def _in_order(terms):
    """Sums along the last axis, from the first to the last."""
    return terms.cumsum(axis=-1)[..., -1]


class Gini:
    def __init__(self, size):
        pass

    def size(self, cells, axis):
        return cells.sum(axis=axis)

    def score(self, left, total, n_left, n_right):
        right = total[:, None] - left
        a = np.einsum("fka,fka->fa", left, left)
        b = np.einsum("fka,fka->fa", right, right)
        return a / n_left + b / n_right

    def describe(self, left, total):
        n = total.sum()
        n_left = left.sum(axis=1)[:, None]
        n_right = n - n_left
        right = total - left
        s = (total * total).sum() / (n * n)
        s_left = (left * left).sum(axis=1)[:, None] / (n_left * n_left)
        s_right = (right * right).sum(axis=1)[:, None] / (n_right * n_right)
        gain = (n_left * s_left + n_right * s_right) / n - s
        shares = total / n
        on_left = 2.0 * (left / n_left - shares) - (s_left - s)
        on_right = 2.0 * (right / n_right - shares) - (s_right - s)
        return gain[:, 0], (1.0 - s_left - s_right + s)[:, 0], on_left, on_right

    def scatter(self, cells, total, one, two):
        difference = one if two is None else one - two
        return _in_order(cells * difference * difference)


class Entropy(Gini):
    def __init__(self, size):
        self.logs = np.array([0.0] + [math.log(c) for c in range(1, min(LOGS, size + 1))])

    def log(self, counts):
        counts = counts.astype(np.intp)
        if counts.max() < len(self.logs):
            return self.logs.take(counts)
        flat = [math.log(c) if c else 0.0 for c in counts.ravel().tolist()]
        return np.array(flat).reshape(counts.shape)

    def score(self, left, total, n_left, n_right):
        right = total[:, None] - left
        on_left = (left * self.log(left)).cumsum(axis=1)[:, -1]
        on_right = (right * self.log(right)).cumsum(axis=1)[:, -1]
        return on_left - n_left * self.log(n_left) + on_right - n_right * self.log(n_right)

    def describe(self, left, total):
        n = total.sum()
        sides = []
        for side in (left, total - left):
            n_side = self.log(side.sum(axis=1))[:, None]
            x = self.log(side) - n_side - self.log(total) + self.log(n)
            sides.append(np.where(side > 0, x * core_pure.LOG2E, 0.0))
        terms = np.concatenate((left * sides[0], (total - left) * sides[1]), axis=1)
        cells = -1 + (left > 0).sum(axis=1) + (total > left).sum(axis=1) - (total > 0).sum()
        return _in_order(terms) / n, cells * 0.5 * core_pure.LOG2E, sides[0], sides[1]


class MSE:
    def __init__(self, size):
        pass

    def size(self, cells, axis):
        return cells.take(0, axis=axis)

    def impurity(self, cells):
        mean = cells[..., 1] / cells[..., 0]
        return np.maximum(0.0, cells[..., 2] / cells[..., 0] - mean * mean)

    def score(self, left, total, n_left, n_right):
        d = (left[:, 1] * float(total[0]) - float(total[1]) * n_left) / total[0]
        return d * d / (n_left * (n_right + 0.0))

    def describe(self, left, total):
        n = float(total[0])
        n_left = left[:, 0]
        n_right = n - n_left
        d = (left[:, 1] * n - float(total[1]) * n_left) / n
        m_left = d / n_left
        m_right = -d / n_right
        gain = (n_left * m_left * m_left + n_right * m_right * m_right) / n
        bias = self.impurity(left) + self.impurity(total - left) - self.impurity(total)
        return gain, bias, m_left, m_right

    def scatter(self, cells, total, one, two):
        n = np.maximum(cells[:, 0], 1)
        if two is None:
            two = 0.0
        difference = one - two
        aside = 2.0 * (cells[:, 1] / n - total[1] / total[0]) - (one + two)
        mean = cells[:, 1] / n
        impurity = np.maximum(0.0, cells[:, 2] / n - mean * mean)
        scatter = n * difference * difference * (4.0 * impurity + aside * aside)
        return np.where(cells[:, 0] > 0, scatter, 0.0)


# ---- Training ---------------------------------------------------------------------------------


class Contender(core_pure.Contender):
    """One feature in a race: its place in the arrays that the race keeps for all of them."""

    def __init__(self, race, place, feature, bins, equal):
        self.race = race
        self.place = place
        self.feature = feature
        self.bins = bins
        self.equal = equal
        self.best = self.alive = self.arm = None
        self.gain = self.variance = 0.0

    @property
    def h(self):
        return self.race.h[self.place].astype(np.int64).ravel().tolist()

    @property
    def cuts(self):
        if self.equal:
            return range(self.bins + 1)
        table = self.race.tables[self.place]  # its bins never decrease
        return (np.searchsorted(table, np.arange(self.bins + 1), side="right") - 1).tolist()


class Race:
    """The arrays of one race: features, tables from code to bin, histograms, scores of all arms."""

    def __init__(self, features, tables, bins, equal, width, dtype):
        self.features = features
        self.tables = tables
        self.stride = 1 + int(bins.max())
        self.h = np.zeros((len(features), width, self.stride), dtype)
        firsts = np.arange(len(features))[:, None] * (width * self.stride)
        self.cells = (tables + firsts).ravel()  # where a code of a feature is counted
        self.equal = equal if equal.any() else None


class NumpyTraining(core_pure.Training):
    """`core_pure.Training` with arrays for loops."""

    engine = "numpy"

    def new_forest(self):
        return NumpyForest()

    # ---- Reading

    def read_labels(self, X, y, regression, n_features, by_column):
        core_pure.Training.read_labels(self, X, y, regression, n_features, by_column)
        self.table = None  # X as an array of rows, where it can be one without a copy
        if n_features is not None:
            if isinstance(X, (bytes, bytearray, array)):
                X = np.frombuffer(X, np.uint8 if isinstance(X, (bytes, bytearray)) else X.typecode)
            if _is_numeric(X) and X.ndim == 1:
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
        if values is None or not np.isfinite(values).all():
            core_pure.Training._read_targets(self, y)
            self.y = np.frombuffer(self.y, np.uint16)
            return
        low = self.low = float(values.min())
        span = float(values.max()) - low
        if span > core_pure.HUGE:
            core_pure.Training._read_targets(self, y)  # says what is wrong
        self.span = float(np.float32(span))
        values -= low
        values *= core_pure.LEVELS / span if span > 0 else 0.0
        values += 0.5
        self.y = np.minimum(values, core_pure.LEVELS).astype(np.uint16)

    def read_rows(self, rng):
        self.rows = np.array(self.rows, np.intp)
        self.times = np.ones(self.n, np.uint8)
        table, self.table = self.table, None
        codes = None
        if table is not None and not any([kinds is not None for kinds in self.categories]):
            codes = table if self.raw else self._encode_rows(table, rng)
        if codes is None:
            core_pure.Training.read_rows(self, rng)
            codes = np.empty((self.n, self.m), np.uint8)
            for f in range(self.m):
                codes[:, f] = np.frombuffer(self.columns[f], np.uint8)
                self.columns[f] = None
        elif self.raw:
            self.budget.spent.rows_read += min(self.n, core_pure.EDGE_ROWS)
            self.bounds = [range(256)] * self.m
        if min(codes.strides) < 1:
            codes = codes.copy()
        self.codes = codes
        self.per_row, self.per_feature = codes.strides
        size = 1 + (self.n - 1) * self.per_row + (self.m - 1) * self.per_feature
        self.flat = np.lib.stride_tricks.as_strided(codes, (size,), (1,), writeable=False)
        self.columns = range(self.m)  # a column is known by its number
        self.rules = {"gini": Gini, "entropy": Entropy, "mse": MSE}[self.criterion.name](
            self.sample_size
        )
        # Sums of squared targets outgrow float64's whole numbers beyond 2^21 rows.
        whole = self.regression and (self.width == 5 or self.sample_size >> 21)
        self.dtype = np.int64 if whole else np.float64

    def _encode_rows(self, table, rng):
        """Codes of all numbers, block by block; None if one is infinite."""
        n, m = table.shape
        state = rng.z, rng.w
        head = table
        if n > core_pure.EDGE_ROWS:
            sample = np.empty(core_pure.EDGE_ROWS, np.intp)
            fill(rng, sample, n)
            head = table[sample]
        self.bounds = [make_bounds(values) for values in _float32(head.T)]
        encoders = [Encoder(bounds) for bounds in self.bounds]
        codes = np.empty((n, m), np.uint8)
        part = np.empty((m, min(n, BLOCK)), np.uint8)
        for at in range(0, n, BLOCK):
            values = np.ascontiguousarray(_float32(table[at : at + BLOCK]).T)
            if np.isinf(values).any():
                rng.z, rng.w = state
                return None  # core_pure says which
            for f in range(m):
                part[f, : values.shape[1]] = encoders[f](values[f])
            codes[at : at + BLOCK] = part[:, : values.shape[1]].T
        self.bounds = [array("f", bounds.tobytes()) for bounds in self.bounds]
        self.budget.spent.rows_read += min(n, core_pure.EDGE_ROWS)
        return codes

    def encode(self, values, bounds):
        return Encoder(np.frombuffer(bounds, np.float32))(np.frombuffer(values, np.float32))

    # ---- The race

    def _gather(self, features, rows):
        """Codes of features (a list or array) in rows, (features, rows)."""
        places = np.multiply(features, self.per_feature)[:, None] + rows * self.per_row
        return self.flat.take(places)

    def _contenders(self, rows, start, end, rng, features):
        head = self.codes[rows[start : min(end, start + core_pure.GROUP_ROWS)]]
        more = rows[start + core_pure.GROUP_ROWS : min(end, start + core_pure.LOOK_ROWS)]
        first = head[0]
        varies = (head != first).any(axis=0).tobytes()
        # Where every contender draws its thresholds, they are drawn one by one; else all at once.
        spread = self.kind == "extra-trees" or self.splitter == "mab-paper"
        count = len(features)
        chosen = {}  # feature -> None, the two codes that it was found to have, or its contender
        i = 0
        while len(chosen) < self.max_features and i < count:
            unsure = []
            open_ = self.max_features - len(chosen)
            while open_ and i < count:
                j = i + rng.below(count - i)
                f = features[j]
                features[j] = features[i]
                features[i] = f
                i += 1
                open_ -= 1
                if not varies[f]:
                    unsure.append(f)
                    if spread:
                        break
                elif spread:
                    chosen[f] = self._contender(f, np.sort(head[:, f]).tolist(), rng)
                else:
                    chosen[f] = None
            if unsure and len(more):  # the same so far: a rare value may show up further on
                codes = self._gather(unsure, more)
                differs = codes != first[unsure][:, None]
                at = differs.argmax(axis=1)
                for k, f in enumerate(unsure):
                    if differs[k, at[k]]:
                        pair = sorted([int(first[f]), int(codes[k, at[k]])])
                        chosen[f] = self._contender(f, pair, rng) if spread else pair
        if not chosen:
            return [], 1
        names = sorted(chosen)
        equal = np.array([self.categories[f] is not None for f in names])
        if spread:
            tables = np.empty((len(names), 256), np.uint8)
            for k, f in enumerate(names):
                tables[k] = range(256) if equal[k] else np.frombuffer(chosen[f].table, np.uint8)
        else:
            tables = self._tables(np.sort(head.T[names], axis=1), [chosen[f] for f in names])
            tables[equal] = np.arange(256)
        bins = tables[:, 255].astype(np.intp)
        for k in np.flatnonzero(equal):
            bins[k] = len(self.categories[names[k]])
        race = Race(np.array(names), tables, bins, equal, self.width, self.dtype)
        made = [
            Contender(race, k, f, b, e)
            for k, (f, b, e) in enumerate(zip(names, bins.tolist(), equal.tolist()))
        ]
        return made, race.stride

    def _tables(self, codes, pairs):
        """Tables from code to bin, of equal mass, from the sorted codes of each feature."""
        count, size = codes.shape
        bins = self.n_bins
        before = -1 if self.raw else 0
        zeros = np.zeros(count, np.intp) if self.raw else (codes == 0).sum(axis=1)
        spots = np.arange(1, bins) * (size - zeros)[:, None] // bins
        at = spots + (np.arange(count) * size + zeros)[:, None]
        codes = codes.astype(np.intp)
        flat = codes.ravel()
        last = codes[:, -1:]
        wanted = (flat.take(at - 1) + flat.take(np.minimum(at, flat.size - 1))) >> 1
        wanted[spots == 0] = -1
        for k, pair in enumerate(pairs):
            if pair:
                last[k] = pair[1]
                wanted[k] = sum(pair) >> 1 if self.raw or pair[0] else -1
        fine = (wanted > before) & (wanted < last)
        for k in np.flatnonzero(~fine.any(axis=1)).tolist():
            below = codes[k, codes[k] < last[k]]  # few are below the largest, but some
            if not pairs[k] and len(below) and below[-1] > before:
                wanted[k, 0] = (below[-1] + last[k, 0]) >> 1
                fine[k, 0] = True
        begins = np.zeros((count, 256), np.uint8)
        begins[:, before + 1] = 1
        wanted = np.where(fine, wanted, before) + (np.arange(count) * 256 + 1)[:, None]
        begins.ravel()[wanted] = 1
        return begins.cumsum(axis=1, dtype=np.uint8)

    def _insert(self, racing, stride, rows, start, end):
        race = racing[0].race
        places = np.array([c.place for c in racing])
        rows = rows[start:end]
        codes = self._gather(race.features[places], rows)
        cells = race.cells.take(codes + (places * 256)[:, None])
        drawn = self.drawn = self.times.take(rows).astype(np.float64)
        labels = self.y.take(rows)
        if self.regression:
            self._insert_all(race, cells, drawn, labels.astype(np.float64), stride)
            return
        cells += np.multiply(labels, stride, dtype=np.intp)
        drawn = np.broadcast_to(drawn, cells.shape).ravel()
        race.h.ravel()[:] += np.bincount(cells.ravel(), drawn, race.h.size)

    def _insert_all(self, race, cells, drawn, labels, stride):
        """Count moments, of so few rows at once that their sums are exact."""
        if drawn.sum() >= 1 << (13 if self.width == 5 else 21):
            half = len(drawn) >> 1
            self._insert_all(race, cells[:, :half], drawn[:half], labels[:half], stride)
            self._insert_all(race, cells[:, half:], drawn[half:], labels[half:], stride)
            return
        if self.width == 5:
            labels = labels // 32 - 1024
        shape, cells = cells.shape, cells.ravel()
        for k in range(self.width):
            weights = np.broadcast_to(drawn, shape).ravel()
            counted = np.bincount(cells, weights, race.h.size).astype(self.dtype)
            race.h.ravel()[k * stride :] += counted[: race.h.size - k * stride]
            drawn = drawn * labels

    def _squares(self, rows, start, end):
        # Always asked of the batch that was just inserted, or of none.
        return int(self.drawn.dot(self.drawn)) if start < end else 0

    def _total(self, contender, stride):
        total = contender.race.total = contender.race.h[contender.place].sum(axis=1)
        return total.astype(np.int64).tolist()

    def _best_arms(self, racing, stride, total, least):
        race, rules = racing[0].race, self.rules
        h = race.h[[c.place for c in racing]]
        left = h[:, :, 1:].cumsum(axis=2)
        if race.equal is not None:
            equal = race.equal[[c.place for c in racing]]
            left[equal] = h[equal, :, 1:]
        filled = rules.size(h, 1)[:, 1:] > 0  # else the same arm as the one before it
        missing = h[:, :, :1]
        sides = 1
        if missing.any():  # arm 2 t sends missing values right, arm 2 t + 1 left
            sides = 2
            left = np.stack((left, left + missing), axis=3).reshape(h.shape[0], h.shape[1], -1)
            filled = filled.repeat(2, axis=1)
        n = rules.size(race.total, 0)
        n_left = rules.size(left, 1)
        n_right = n - n_left
        score = rules.score(left, race.total, np.maximum(n_left, 1), np.maximum(n_right, 1))
        race.left, race.sides, race.score = left, sides, score
        race.parts = filled & (n_left > 0) & (n_right > 0)
        score = np.where(filled & (n_left >= least) & (n_right >= least), score, -np.inf)
        best = score.argmax(axis=1).tolist()
        for k, c in enumerate(racing):
            c.row, c.arm = k, best[k]
            top = float(score[k, c.arm])
            c.best = (top, c.arm // sides + 1, sides == 2 and c.arm % 2 == 1)
            if top == -np.inf:
                c.best = None

    def _judge(self, racing, stride, total, rest):
        race, rules = racing[0].race, self.rules
        total = race.total
        left = race.left[[c.row for c in racing], :, [c.arm for c in racing]]
        gain, bias, on_left, on_right = rules.describe(left, total)
        scatter = rules.scatter(left, total, on_left, None)
        scatter = scatter + rules.scatter(total - left, total, on_right, None)
        variance = np.maximum(0.0, scatter / rules.size(total, 0) - gain * gain) * rest
        for c, c.gain, c.variance in zip(racing, (gain - bias * rest).tolist(), variance.tolist()):
            pass

    def _better_threshold(self, c, stride, total, rest, slack):
        if c.equal:
            return core_pure.Training._better_threshold(self, c, stride, total, rest, slack)
        race, rules = c.race, self.rules
        total = race.total
        size = rules.size(total, 0)
        far = 2.0 * self.z * math.sqrt(c.variance)
        gap = (race.score[c.row] - c.best[0]) * self.criterion.per_score(float(size))
        near = race.parts[c.row] & (gap + far > slack)
        near[c.arm] = False
        near = np.flatnonzero(near)
        if not len(near):
            return False
        left = race.left[c.row].T
        # The four groups of rows by the side that each arm sends them to.
        both = np.minimum(near, c.arm)
        if race.sides == 2:
            both = np.minimum(near >> 1, c.arm >> 1) * 2 + (near & c.arm & 1)
        both = left[both]
        best = left[c.arm]
        left = left[near]
        gain, _, lead_left, lead_right = rules.describe(best[None], total)
        other, _, on_left, on_right = rules.describe(left, total)
        scatter = rules.scatter(both, total, on_left, lead_left)
        scatter = scatter + rules.scatter(left - both, total, on_left, lead_right)
        scatter = scatter + rules.scatter(best - both, total, on_right, lead_left)
        neither = total - left - (best - both)
        scatter = scatter + rules.scatter(neither, total, on_right, lead_right)
        gap = other - gain
        variance = np.maximum(0.0, scatter / size - gap * gap) * rest
        return bool((gap + self.z * np.sqrt(variance) > slack).any())

    # ---- Growing

    def _draw_rows(self, rng):
        pool = len(self.patch) if self.patch else self.n
        size, rows, weights = self.sample_size, self.rows, self.weights
        if weights is None and self.bootstrap:
            fill(rng, rows, pool)
        elif weights is None:
            order = list(range(pool))
            shuffle(rng, order, size)
            rows[:] = order
        else:
            total = weights[pool]
            fill(rng, rows, total if self.bootstrap else max(1, total // size))
            if not self.bootstrap:
                rows += np.arange(size) * total // size
            sums = np.frombuffer(weights, np.uint32)[1:]
            rows[:] = np.searchsorted(sums, rows, side="right")
            if not self.bootstrap:
                order = rows.tolist()
                shuffle(rng, order, size)
                rows[:] = order
        if self.patch:
            rows[:size] = np.frombuffer(self.patch, np.uint32)[rows[:size]]
        self.budget.spent.rows_read += size
        if weights is None and not self.bootstrap:
            return size
        times = np.bincount(rows[:size], minlength=self.n)
        self.times = np.minimum(times, 65535).astype(np.uint16)
        if not weights:
            self.times = np.minimum(times, 255).astype(np.uint8)
        first = np.empty(self.n, np.intp)
        first[rows[size - 1 :: -1]] = np.arange(size - 1, -1, -1)  # the last to be set stays
        front = rows[:size][first[rows[:size]] == np.arange(size)]
        rows[: len(front)] = front
        return len(front)

    def partition(self, rows, start, end, column, goes_left):
        rows = rows[start:end]
        codes = self.flat.take(rows * self.per_row + column * self.per_feature)
        left = np.frombuffer(goes_left, np.bool_).take(codes)
        middle = int(np.count_nonzero(left))
        low = np.flatnonzero(~left[:middle])
        high = np.flatnonzero(left[middle:])[::-1] + middle
        rows[low], rows[high] = rows[high], rows[low]
        return start + middle

    def _draws(self, start, end):
        if end - start >= self.min_samples_leaf:
            return end - start
        return int(self.times[self.rows[start:end]].sum(dtype=np.int64))

    def _may_split(self, rows, start, end, depth):
        if depth >= self.max_depth or end - start < 2:
            return False
        if self._draws(start, end) < max(self.min_samples_split, 2 * self.min_samples_leaf):
            return False
        left = self.budget.left()
        if (left is not None and left < 1) or self.budget.late():
            return False
        for upto in (min(end, start + 32), end):
            labels = self.y.take(rows[start:upto])
            if (labels != labels[0]).any():
                return True
        return False

    def tally(self, rows, start, end, labels, times, counts):
        rows = rows[start:end]
        found = np.bincount(labels[rows], times[rows], len(counts))
        counts[:] = found.astype(np.int64).tolist()

    def add_up(self, rows, start, end, targets, times):
        rows = rows[start:end]
        drawn = times[rows].astype(np.int64)
        return int(drawn.dot(targets[rows].astype(np.int64))), int(drawn.sum())

    def forest(self):
        forest = core_pure.Training.forest(self)
        self.codes = self.flat = None
        return forest


class NumpyForest(core_pure.Forest):
    """`core_pure.Forest` that predicts many rows at once."""

    def prepare(self):
        threshold, self.threshold = self.threshold, array("f")
        core_pure.Forest.prepare(self)
        self.threshold = threshold
        cut = np.array(threshold, np.float64)
        cut = np.maximum(-MASK, np.where(cut < MASK, cut, MASK))
        self.cut = array("i", np.floor(cut).astype(np.int32).tobytes())

    def _votes(self, rows):
        if _is_numeric(rows) and rows.ndim == 2 and rows.shape[1] == self.n_features:
            if not self.all_numbers:
                rows = rows.tolist()
        elif not isinstance(rows, (list, tuple)) or len(rows) < 9:
            return core_pure.Forest._votes(self, rows)
        if isinstance(rows, (list, tuple)):
            if not core_pure._is_sequence(rows[0]):
                return core_pure.Forest._votes(self, rows)
            values = array("f")
            for row in rows:
                values.extend(self.encode(row))
            rows = np.frombuffer(values, np.float32).reshape(-1, self.n_features)
        answers = []
        for at in range(0, len(rows), BLOCK):
            votes = self._vote(_float32(rows[at : at + BLOCK]))
            answers += zip(votes.argmax(axis=1).tolist(), votes.tolist())
        return False, answers

    def _vote(self, rows):
        """Summed votes, (rows, classes): all rows and trees go down one level at a time."""
        count = len(rows)
        feature = np.frombuffer(self.feature, np.uint16)
        threshold = np.frombuffer(self.threshold, np.float32)
        right = np.frombuffer(self.right, np.uint16 if self.right.typecode == "H" else np.uint32)
        right = right.astype(np.intp)
        kinds = np.bitwise_or.reduce(feature[feature != LEAF], initial=0) & core_pure.EQUAL
        rows = np.ascontiguousarray(rows)
        flat = rows.ravel()
        missing = np.isnan(flat).any() or kinds
        node = np.repeat(np.array(self.roots, np.intp), count)
        first = np.tile(np.arange(count) * rows.shape[1], len(self.roots))
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
        votes = np.frombuffer(self.votes, np.uint16).reshape(-1, self.n_votes)
        out = np.zeros((count, self.n_votes), np.int64)
        for place in right[node].reshape(-1, count):
            out += votes[place]
        return out


if hasattr(np, "searchsorted"):
    Training, Forest = NumpyTraining, NumpyForest
    Z_POWERS, W_POWERS = _powers(25338), _powers(26100)
else:
    Training, Forest = core_pure.Training, core_pure.Forest
