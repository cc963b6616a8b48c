"""NumPy reads: random numbers, labels and values of arrays become codes, many at once.

What comes out is what `budget.Rng` and `codes.Reader` give, to the last bit.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from edgeforest.bounds import encode
from edgeforest.budget import EDGE_ROWS, Budget, Rng
from edgeforest.checks import check_in_time
from edgeforest.codes import Data, Reader
from edgeforest.forest import HUGE, LEVELS, MASK
from edgeforest.reading import read_columns

BLOCK = 8192  # rows that are encoded or predicted at once: they stay in the cache
CELLS = 4096  # of the grid that finds codes
CROWD = 4  # bounds in one cell of it from which on a binary search is quicker
CHUNK = 4096  # random numbers made at once
FEW_ROWS = 64  # of a table, below which lists are quicker to read


# ---- Random numbers ---------------------------------------------------------------------------


def _powers(a: int) -> tuple[Any, int]:
    # A multiply-with-carry step, z' = a (z mod 2^15) + z / 2^15, is z' = a z mod (a 2^15 - 1): the
    # state after k steps is a^k z.
    modulus = (a << 15) - 1
    powers = [a]
    while len(powers) < CHUNK:
        powers.append(powers[-1] * a % modulus)
    return np.array(powers, dtype=np.int64), modulus


def _ahead(rng: Rng, count: int = CHUNK) -> tuple[Any, Any, Any]:
    """The next states of a generator, and the integers that it would give."""
    z = Z_POWERS[0][:count] * rng.z % Z_POWERS[1]
    w = W_POWERS[0][:count] * rng.w % W_POWERS[1]
    return z, w, ((z & 32767) << 15) ^ w


def fill(rng: Rng, values: Any, n: int) -> None:
    """`Rng.fill`, for an array."""
    at = 0
    while at < len(values):
        z, w, drawn = _ahead(rng)
        fine = np.flatnonzero(drawn < MASK - MASK % n)[: len(values) - at]
        values[at : at + len(fine)] = drawn[fine] % n
        at += len(fine)
        last = fine[-1] if at == len(values) else -1
        rng.z, rng.w = int(z[last]), int(w[last])


def shuffle(rng: Rng, values: Any, start: int, stop: int) -> None:
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


def draw_rows(rng: Rng, rows: Any, size: int, pool: int, bootstrap: bool, chances: Any) -> None:
    """Fill the front of `rows` with a tree's rows, in random order, some of them more than once.

    `chances` has the weights of the rows, and the patch that they are drawn from, if any.
    """
    weights, patch = chances.weights, chances.patch
    if weights is None and bootstrap:
        fill(rng, rows, pool)
    elif weights is None:
        rows[:] = np.arange(pool)
    else:
        total = weights[pool]
        fill(rng, rows, total if bootstrap else max(1, total // size))
        if not bootstrap:
            rows += np.arange(size) * total // size
        rows[:] = np.searchsorted(np.frombuffer(weights, np.uint32)[1:], rows, side="right")
    if not bootstrap:
        order = rows.tolist()
        shuffle(rng, order, 0, min(size, len(order) - 1))
        rows[:] = order
    if patch:
        rows[:size] = np.frombuffer(patch, np.uint32)[rows[:size]]


# ---- Numbers become codes ---------------------------------------------------------------------


def as_float32(values: Any) -> Any:
    """Numbers as float32, by way of float64 as Python does."""
    if values.dtype.itemsize > 4:
        values = values.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):  # too large becomes infinite
        return values.astype(np.float32, copy=False)


def is_numeric(values: Any) -> bool:
    """Whether it is an array of plain numbers. A masked array is not: it may hold no number."""
    return type(values) in (np.ndarray, np.memmap) and values.dtype.kind in "fiub"


def make_bounds(values: Any) -> Any:
    """`bounds.make_bounds`, for an array of float32."""
    values = np.unique(values[values == values]).astype(np.float64)
    if not len(values):
        return np.zeros(2, np.float32)
    low, high = values[0], values[-1]
    parts, spaced = len(values), []
    if parts > 255:
        parts = 64
        spaced = low + (high - low) * np.arange(1, 192) / 192
    at = np.arange(1, parts) * len(values) // parts
    a, b = values[at - 1], values[at]
    cuts = (a * 0.5 + b * 0.5).astype(np.float32)
    cuts = np.concatenate((spaced, np.where(cuts < b, cuts, a))).astype(np.float32)
    cuts = np.unique(cuts[(low <= cuts) & (cuts < high)]) + 0.0  # not -0.0
    return np.concatenate(([low], cuts, [high])).astype(np.float32)


class Encoder:
    """Codes of float32 values for one feature's bounds; NaN has code 0.

    A grid of cells shortens the search, as in bounds.py: subtracting, scaling and truncating keep
    the order of two numbers, so every bound of an earlier cell is below a value.
    """

    def __init__(self, bounds: Any, count: Any) -> None:
        self.inner = bounds[1:-1]
        self.low = bounds[0]
        span = float(bounds[-1]) - float(self.low)
        self.start = None
        if count > CELLS and len(self.inner) and CELLS / HUGE < span < HUGE:
            self.per = np.float32(CELLS / span)
            cells = self._cell(self.inner)
            start = np.searchsorted(cells, np.arange(CELLS + 2))
            self.turns = int(np.diff(start).max())
            if self.turns < CROWD:
                self.start = start.astype(np.uint8)
                self.padded = np.append(self.inner, np.float32(np.inf))

    def _cell(self, values: Any) -> Any:
        cell = values - self.low
        cell *= self.per
        np.maximum(cell, 0.0, out=cell)
        np.minimum(cell, CELLS + 1.0, out=cell)
        return cell.astype(np.intp)

    def __call__(self, values: Any) -> Any:
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


Z_POWERS, W_POWERS = _powers(25338), _powers(26100)


class NumpyReader:
    """`codes.Reader` for arrays; whatever else there is, that one reads."""

    def __init__(self) -> None:
        self.plain = Reader()

    def classes(self, y: Any, n: int) -> tuple[list[Any], Any]:
        """The classes in their order, and the place of each row's class among them."""
        if is_numeric(y) and y.dtype.kind != "f" and y.ndim == 1:
            kinds, places = np.unique(y, return_inverse=True)
            if len(kinds) <= 4096:
                codes = places.astype(np.uint8 if len(kinds) < 257 else np.uint16)
                return kinds.tolist(), memoryview(codes)  # type: ignore[arg-type]
        return self.plain.classes(y, n)

    def targets(self, y: Any, n: int) -> tuple[float, float, Any]:
        """The smallest target, the span of all, and each as a level from 0 to 65535 in it."""
        values = as_float32(y).astype(np.float64) if is_numeric(y) and y.ndim == 1 else None
        if values is None or not values.max() - values.min() <= HUGE:
            return self.plain.targets(y, n)  # or it says what is wrong
        low = float(values.min())
        span = float(values.max()) - low
        values -= low
        values *= LEVELS / span if span > 0 else 0.0
        values += 0.5
        levels = np.minimum(values, LEVELS).astype(np.uint16)
        return low, float(np.float32(span)), memoryview(levels)

    def columns(self, task: Any, rng: Rng) -> None:
        """Give the data of a training their columns of codes, which lie in one table: `given`."""
        data, budget = task.data, task.budget
        table = _table(data)
        codes: Any = None
        plain = table is not None and data.categories == [None] * data.m
        if plain and (data.raw or data.n >= FEW_ROWS):
            codes = table if data.raw else _encode_rows(data, table, rng, budget)
        if codes is None:
            read_columns(data, rng, budget, encode_column)
            codes = np.empty((data.n, data.m), np.uint8)
            for f in range(data.m):
                codes[:, f] = np.frombuffer(data.columns[f], np.uint8)
                data.columns[f] = None
        else:
            budget.spent.rows_read += min(data.n, EDGE_ROWS)
            if data.raw:
                data.bounds = [range(256)] * data.m
        if min(codes.strides) < 1:
            codes = codes.copy()
        # Views for the race, where an item is an int and no scalar of NumPy's.
        data.columns = [memoryview(codes[:, f]) for f in range(data.m)]
        data.given = codes


def _table(data: Data) -> Any:
    """X as an array of rows, where it can be one without a copy; else None."""
    X, shape = data.given, (data.n * data.m,)
    if data.flat:
        if isinstance(X, (bytes, bytearray)):
            X = np.frombuffer(X, np.uint8)
        elif isinstance(X, array) and X.typecode not in "uw":  # these hold text
            X = np.frombuffer(X, X.typecode)
        return X.reshape(data.n, data.m) if is_numeric(X) and X.shape == shape else None
    if is_numeric(X) and X.ndim == 2:
        return X.T if data.by_column else X
    return None


def _encode_rows(data: Data, table: Any, rng: Rng, budget: Budget) -> Any:
    """Codes of all numbers, block by block; None if one is infinite: the plain reader says which."""
    n, m = table.shape
    head = table
    if n > EDGE_ROWS:
        sample = np.empty(EDGE_ROWS, np.intp)
        fill(rng, sample, n)
        head = table[sample]
    head = as_float32(head.T)
    if np.isinf(head).any():
        return None
    bounds = [make_bounds(values) for values in head]
    encoders = [Encoder(b, n) for b in bounds]
    codes = np.empty((n, m), np.uint8)
    part = np.empty((m, min(n, BLOCK)), np.uint8)
    for at in range(0, n, BLOCK):
        check_in_time(budget)
        values = np.ascontiguousarray(as_float32(table[at : at + BLOCK]).T)
        if np.isinf(values).any():
            return None
        for f in range(m):
            part[f, : values.shape[1]] = encoders[f](values[f])
        codes[at : at + BLOCK] = part[:, : values.shape[1]].T
    data.bounds = [array("f", b.tobytes()) for b in bounds]
    return codes


def encode_column(values: Any, bounds: Any) -> Any:
    """Codes of one column of float32 values."""
    if len(values) < FEW_ROWS:
        return encode(values, bounds)
    encoder = Encoder(np.frombuffer(bounds, np.float32), len(values))
    return encoder(np.frombuffer(values, np.float32))
