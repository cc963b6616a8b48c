"""The hard budget of a training, the share of each tree in it, and the random stream.

    Budget    limits in insertions, seconds and bytes; `take` grants work before it is done
    Rng       the same random integers on every machine
    between   checks a number that the user gave

This file runs unchanged on CPython and MicroPython.
"""

from edgeforest.forest import INF, MASK, Spent

try:
    from time import ticks_diff as _ticks_diff  # type: ignore[attr-defined]
    from time import ticks_ms as _ticks  # type: ignore[attr-defined]
except ImportError:
    from edgeforest.clock import ticks_diff as _ticks_diff
    from edgeforest.clock import ticks_ms as _ticks

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *

EDGE_ROWS = 4096  # rows of the data that are read to place the codes


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
            from edgeforest.shares import share

            self.ceiling = self.spent.insertions + share(self.insertions, index, planned)
        if self.seconds is not None:
            from edgeforest.shares import deadline

            self.until = deadline(self.seconds, read, index, planned)


def millionths(gains: "Sequence[float]") -> "list[int]":
    """The share of each feature in what all have gained, for `Forest.importances`."""
    total = 0.0  # not sum(): newer Pythons add floats with a correction
    for v in gains:
        total += v
    return [int(v / (total or 1) * 1000000 + 0.5) for v in gains]


def between(name: "str", value: "Any", low: "float", high: "float", advice: "str" = "") -> "Any":
    """The value as a plain number of the kind of `low`; refused if it is not from low to high."""
    if type(value) is type(low) and low <= value <= high and value < INF:
        return value
    from edgeforest.checks import as_number  # which knows other numbers, and says what is wrong

    return as_number(name, value, low, high, advice)
