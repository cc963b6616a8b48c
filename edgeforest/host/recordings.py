"""The rows of a whole recording at once, with NumPy: those of `Windows.push`, bit for bit.

`Windows.rows` calls this where NumPy is installed.

>>> import numpy as np
>>> from edgeforest.windows import Windows
>>> recording = np.arange(12).reshape(6, 2)
>>> rows(Windows(2, 4, 2, features=["mean", "max"], magnitude=False), recording).tolist()
[[3, 6, 4, 7], [7, 10, 8, 11]]
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Whole: TypeAlias = NDArray[np.int32]  # nothing in here reaches 2^30

MOST = 32767  # of a sample or a feature, in absolute value
MASK = 0x3FFFFFFF
VALUES = 1 << 18  # samples of windows that are computed together: what fits a cache


def rows(windows: Any, recording: Any) -> NDArray[Any]:
    """A row for each full window of a recording, (samples, channels) of whole numbers."""
    signals = _signals(windows, recording)
    size = windows.size
    n, some = len(windows.ends(len(signals[0]))), max(1, VALUES // size)
    found = np.empty((n, windows.n_features), np.uint8 if windows.bits == 8 else np.int16)
    if not n:
        return found
    views = [sliding_window_view(signal, size)[:: windows.step] for signal in signals]
    for start in range(0, n, some):
        parts = [_features(windows, view[start : start + some].astype(np.int32)) for view in views]
        block = np.concatenate(parts, axis=1)
        found[start : start + some] = block if windows.picks is None else block[:, windows.picks]
    return found


def _signals(windows: Any, recording: Any) -> list[Whole]:
    """Each channel of a recording, and their magnitude."""
    samples, n = _samples(recording, windows.n_channels), windows.n_channels
    signals = [np.ascontiguousarray(samples[:, c]) for c in range(n)]
    if windows.magnitude:
        signals.append(_root(sum(signal * signal // n for signal in signals)))
    return signals


def _samples(recording: Any, n: int) -> Whole:
    """A recording as whole numbers in their range; what is missing is what was before it."""
    if isinstance(recording, list | tuple):
        recording = [[None] * n if sample is None else sample for sample in recording]
    try:
        table = np.asarray(recording)
        if table.dtype.kind != "f":  # exact: numbers beyond 2^53 are clipped
            table = table.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"a recording must be samples of {n} whole numbers each") from None
    if table.size == 0:
        return np.empty((0, n), np.int32)
    if table.ndim != 2 or table.shape[1] != n:
        got = " x ".join(map(str, table.shape))
        raise ValueError(f"a recording must be samples of {n} values each, got {got} values")
    missing = np.isnan(table)
    if missing.any():
        place = np.maximum.accumulate(np.where(missing, -1, np.arange(len(table))[:, None]), axis=0)
        before = np.take_along_axis(table, np.maximum(place, 0), axis=0)
        table = np.where(place < 0, 0, before)
    table = np.clip(table, -MOST, MOST)
    whole: Whole = np.rint(table).astype(np.int32)
    if (table != whole).any():
        got = table[table != whole][0]
        raise ValueError(
            f"a sample must be whole numbers, got {got}; multiply the recording and round it"
        )
    return whole


def _features(windows: Any, x: Whole) -> Whole:
    """The features of one signal, (windows, samples) of it."""
    size = windows.size
    low, high = x.min(1), x.max(1)
    mean = (x.sum(1, dtype=np.int32) + (size >> 1)) // size
    x -= mean[:, None]
    crossings = np.count_nonzero((x[:, 1:] < 0) != (x[:, :-1] < 0), axis=1)
    change = np.abs(np.diff(x, axis=1)).sum(1, dtype=np.int32) // (size - 1)
    up, down = _scale(np.maximum(high - mean, mean - low))
    x *= up[:, None]
    x >>= down[:, None]
    deviation = _rescaled((x * x // size).sum(1, dtype=np.int32), up, down)
    square = deviation * deviation
    values = {
        "mean": mean,
        "deviation": deviation,
        "min": low,
        "max": high,
        "range": np.minimum(high - low, MOST),
        "rms": _root(square + np.minimum(mean * mean, MASK - square)),
        "crossings": crossings,
        "change": np.minimum(change, MOST),
    }
    columns = [values[name] for name in windows.features if name != "bands"]
    if windows.spectrum:
        columns += _bands(x, np.asarray(windows.sine, np.int32), up, down)
    if windows.bits == 8:
        signed = sum(name in ("mean", "min", "max") for name in windows.features)
        columns = [
            column + 32768 >> 8 if k < signed else _bytes_of(column)
            for k, column in enumerate(columns)
        ]
    return np.stack(columns, axis=1)


def _bytes_of(values: Whole) -> Whole:
    """Features that are not negative as bytes: `byte_of` of `windows`."""
    more = np.maximum(0, np.frexp(values)[1].astype(np.int32) - 5)
    found: Whole = (values >> more) + 16 * more
    return found


def _scale(peak: Whole) -> tuple[Whole, Whole]:
    """What brings these peaks to 14 bits: a factor, and how far to shift down."""
    bits = np.frexp(peak)[1].astype(np.int32)  # exact: a peak is below 2^16
    up = np.where(peak > 0, 1 << np.maximum(0, 14 - bits), 1)
    return up.astype(np.int32), np.maximum(0, bits - 14).astype(np.int32)


def _bands(x: Whole, sine: Whole, up: Whole, down: Whole) -> list[Whole]:
    """The root mean square of each octave: `Windows` has the same steps, one number at a time."""
    n = len(sine) * 2 // 3
    x = x[:, x.shape[1] - 2 * n :]
    places = np.zeros(1, np.intp)  # with their bits in reverse order
    while len(places) < n:
        places = np.concatenate([2 * places, 2 * places + 1])
    real, imaginary = x[:, 0::2][:, places], x[:, 1::2][:, places]
    half = 1
    while half < n:
        turns = np.arange(half) * (n // half)
        c, s = sine[turns + n // 2], sine[turns]
        shape = (len(x), n // (2 * half), 2, half)
        real, imaginary = real.reshape(shape), imaginary.reshape(shape)
        a, b = real[:, :, 1], imaginary[:, :, 1]
        r, i = (c * a + s * b) >> 14, (c * b - s * a) >> 14
        a, b = real[:, :, 0], imaginary[:, :, 0]
        real = np.stack([a + r, a - r], axis=2) >> 1
        imaginary = np.stack([b + i, b - i], axis=2) >> 1
        half *= 2
    power = _power(real.reshape(-1, n), imaginary.reshape(-1, n), sine)
    low, found = 1, []
    while low < n:
        high = n if 2 * low == n else 2 * low - 1
        square = power[:, low : high + 1].sum(1, dtype=np.int32)
        found.append(_rescaled(2 * square, up, down))
        low *= 2
    return found


def _power(real: Whole, imaginary: Whole, sine: Whole) -> Whole:
    """The squared spectrum of samples whose even and odd ones were transformed as one."""
    n = real.shape[1]
    k = np.arange(1, n // 2 + 1)
    j = n - k
    c, s = sine[k + n // 2], sine[k]
    x, y = real[:, k] + real[:, j], imaginary[:, k] - imaginary[:, j]
    r, i = imaginary[:, k] + imaginary[:, j], real[:, j] - real[:, k]
    r, i = (c * r + s * i) >> 14, (c * i - s * r) >> 14
    power = np.empty((len(real), n + 1), np.int32)
    power[:, n] = ((real[:, 0] - imaginary[:, 0]) >> 1) ** 2
    power[:, k] = ((x + r) >> 2) ** 2 + ((y + i) >> 2) ** 2
    power[:, j] = ((x - r) >> 2) ** 2 + ((y - i) >> 2) ** 2
    return power


def _rescaled(square: Whole, up: Whole, down: Whole) -> Whole:
    """The root of a mean square, in the units of the samples."""
    found: Whole = np.minimum((_root(square) + (up >> 1)) // up << down, MOST)
    return found


def _root(square: Any) -> Whole:
    """Square roots, rounded down: exact below 2^30, since float64 rounds them correctly."""
    root: Whole = np.sqrt(square.astype(np.float64)).astype(np.int32)
    return root
