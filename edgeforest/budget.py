"""The hard budget of a training, the share of each tree in it, and the random stream.

    Budget    limits in insertions, seconds and bytes; `take` grants work before it is done
    share     what one of several trees gets of it
    Rng       the same random integers on every machine
    between   and other checks of what the user gave

The checks are here because every file of its own costs a board half a kilobyte.

This file runs unchanged on CPython and MicroPython.
"""

import time
from array import array

from edgeforest.forest import (
    CRITERIA,
    INF,
    KINDS,
    MASK,
    SPLITTERS,
    Spent,
    is_sequence,
)

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *

LATE = "the time was up while rows were read; give more seconds"


class Rng:
    """A stream of random integers below 2^30 that is the same on every machine.

    Two multiply-with-carry generators of 15-bit digits, joined by xor. Their states and products
    stay below 2^30, so that a 32-bit MicroPython never allocates a big integer for them.

    >>> Rng(7).below(100), Rng(7).below(100), Rng(7, stream=1).below(100)
    (20, 20, 96)
    """

    def __init__(self, seed: "int" = 0, stream: "int" = 0) -> "None":
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

    def next(self) -> "int":
        """The next integer from 0 to 2^30 - 1."""
        z = self.z = 25338 * (self.z & 32767) + (self.z >> 15)
        w = self.w = 26100 * (self.w & 32767) + (self.w >> 15)
        return ((z & 32767) << 15) ^ w

    def below(self, n: "int") -> "int":
        """An integer from 0 to n - 1, all equally likely."""
        limit = MASK - MASK % n
        value = self.next()
        while value >= limit:
            value = self.next()
        return value % n

    def unit(self) -> "float":
        """A float in [0, 1)."""
        return self.next() / 1073741824.0

    def fill(self, values: "MutableSequence[int]", n: "int") -> "None":
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

    def shuffle(self, values: "MutableSequence[Any]", count: "int") -> "None":
        """Bring a random choice of `count` items to the front of `values`, in random order."""
        n = len(values)
        for i in range(min(count, n - 1)):
            j = i + self.below(n - i)
            values[i], values[j] = values[j], values[i]


def _ticks() -> "int":
    return int(time.monotonic() * 1000)


def _ticks_diff(now: "int", then: "int") -> "int":
    return now - then


if hasattr(time, "ticks_ms"):  # MicroPython's clock wraps around; ticks_diff knows
    _ticks = time.ticks_ms
    _ticks_diff = time.ticks_diff  # type: ignore[attr-defined]


class Budget:
    """Hard limits of one training: insertions, seconds, bytes of working memory.

    Leave a limit out for none. `train` counts in a copy of its own, so one Budget can serve many.

    >>> Budget(insertions=10).take(4, 3)    # asked for 4 rows of 3 insertions each
    3
    """

    insertions: "int | None"
    seconds: "float | None"
    ceiling: "int | None"
    until: "float | None"
    spent: "Spent"

    def __init__(
        self,
        insertions: "int | None" = None,
        seconds: "float | None" = None,
        bytes: "int | None" = None,
    ) -> "None":
        for name, value, low in (
            ("insertions", insertions, 1),
            ("seconds", seconds, 0.001),
            ("bytes", bytes, 1),
        ):
            if value is not None:
                advice = "; leave it out for no limit"
                value = between("budget in " + name, value, low, INF, advice)
            setattr(self, name, value)
        self.ceiling = self.insertions  # what the tree that is growing may bring the total to ...
        self.until = self.seconds  # ... and the time at which it has to stop
        self.spent = Spent()
        self._last = _ticks()

    bytes: "int | None"

    def __repr__(self) -> "str":
        return f"Budget(insertions={self.insertions}, seconds={self.seconds}, bytes={self.bytes})"

    def copy(self) -> "Budget":
        """The same limits with nothing spent."""
        return Budget(self.insertions, self.seconds, self.bytes)

    def left(self) -> "int | None":
        """Insertions that the tree in hand may still make, None for no limit."""
        return None if self.ceiling is None else self.ceiling - self.spent.insertions

    def late(self) -> "bool":
        """Whether the time is up."""
        return self.until is not None and self.tick() >= self.until

    def tick(self) -> "float":
        """Seconds spent so far."""
        now = _ticks()
        self.spent.seconds += _ticks_diff(now, self._last) / 1000
        self._last = now
        return self.spent.seconds

    def take(self, rows: "int", width: "int") -> "int":
        """Ask for `rows` rows of `width` insertions each; pays for and returns as many as fit."""
        if self.late():
            return 0
        left = self.left()
        if left is not None:
            rows = min(rows, left // width)
        if rows > 0:
            self.spent.insertions += rows * width
            self.spent.rounds += 1
        return rows

    def give_back(self, rows: "int", width: "int") -> "None":
        """Return insertions that were granted, and not made because the time was up."""
        self.spent.insertions -= rows * width

    def begin_tree(self, index: "int", planned: "int", read: "float") -> "None":
        """Limit what follows to the share of one of the planned trees.

        `read` is when all rows were read. Each tree has an equal share of the insertions, and of
        the time as much as brings it to its part of what reading has left.
        """
        if self.insertions is not None:
            self.ceiling = self.spent.insertions + share(self.insertions, index, planned)
        if self.seconds is not None:
            self.until = deadline(self.seconds, read, index, planned)


def share(insertions: "int", index: "int", planned: "int") -> "int":
    """The insertions of one tree; all shares add up.

    >>> [share(10, i, 4) for i in range(4)]
    [2, 3, 2, 3]
    """
    return insertions * (index + 1) // planned - insertions * index // planned


def deadline(seconds: "float", read: "float", index: "int", planned: "int") -> "float":
    """When one tree has to stop, if reading took until `read`.

    >>> [deadline(10.0, 2.0, i, 4) for i in range(4)]
    [4.0, 6.0, 8.0, 10.0]
    """
    return read + (seconds - read) * (index + 1) / planned


def millionths(gains: "Sequence[float]") -> "list[int]":
    """The share of each feature in what all have gained, for `Forest.importances`."""
    total = 0.0  # not sum(): newer Pythons add floats with a correction
    for v in gains:
        total += v
    return [int(v / (total or 1) * 1000000 + 0.5) for v in gains]


# ---- Checks: an error about an argument begins with its name -----------------------------------


def one_of(name: "str", value: "Any", allowed: "tuple[str, ...]") -> "None":
    """Refuse a value that is none of those allowed."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def refuse_unknown(kind: "str", criterion: "str", splitter: "str") -> "None":
    """Refuse a kind, criterion or splitter that does not exist."""
    one_of("kind", kind, KINDS)
    one_of("criterion", criterion, CRITERIA)
    one_of("splitter", splitter, SPLITTERS)


def between(name: "str", value: "Any", low: "float", high: "float", advice: "str" = "") -> "Any":
    """The value as a plain number of the kind of `low`; refused if it is not from low to high."""
    whole = isinstance(low, int)
    fits = hasattr(value, "__index__" if whole else "__float__")  # NumPy's numbers too
    if isinstance(value, bool) or not (fits or isinstance(value, int if whole else (int, float))):
        raise TypeError(
            f"{name} must be a {'whole ' if whole else ''}number, got {value!r}{advice}"
        )
    if not low <= value <= high or value == INF:
        upto = f"from {low} to {high}" if high < INF else f"at least {low}"
        raise ValueError(f"{name} must be {upto}, got {value}{advice}")
    return int(value) if whole else float(value)


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
    from edgeforest.careful import careful_floats

    return careful_floats(given, what)
