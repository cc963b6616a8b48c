"""Keep sensor readings in memory that is reserved once: the latest, or a uniform sample of all.

    RingBuffer  the latest rows; the oldest is dropped
    Reservoir   a uniform sample of every row that ever came

This file runs unchanged on CPython and MicroPython. `push` allocates nothing, so that an interrupt
may call it: give it a list, a tuple or an array of whole numbers. (Reading a float from an array
makes a new float on most boards; a list of existing floats is fine.)

What may happen at the same time:

- On CPython any number of threads may push and read. One lock is held while a row is written and
  while rows are copied.
- On a board there is no lock (see `lock`). Instead, one interrupt or one other core may push while
  the program takes a `snapshot`: one count goes up before a row is written, another after it. If a
  row was written during a copy, the copy is made again.

>>> recent = RingBuffer(3, 2)
>>> for i in range(5):
...     recent.push([i, i * 0.5], i % 2)
>>> recent.row(0), recent.label(0), recent.dropped, recent.bytes
([2.0, 1.0], 0, 2, 30)
>>> columns, labels = recent.snapshot()
>>> list(columns[0]), list(labels)
([2.0, 3.0, 4.0], [0, 1, 0])
"""

from array import array

from edgeforest.budget import Rng
from edgeforest.lock import Lock

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *

MOST = 0x3FFFFFFF  # 2^30 - 1, the largest int that costs a 32-bit board no memory
NAN = float("nan")
# Bytes, smallest and largest value by typecode. Not "l" and "L": their sizes differ by machine.
CODES: "dict[str, tuple[int, int | None, int | None]]" = {
    "b": (1, -128, 127),
    "B": (1, 0, 255),
    "h": (2, -32768, 32767),
    "H": (2, 0, 65535),
    "i": (4, -2147483648, 2147483647),
    "I": (4, 0, 4294967295),
    "f": (4, None, None),
    "d": (8, None, None),
}


def buffer_bytes(
    capacity: "int",
    n_features: "int",
    typecode: "Typecode" = "f",
    labels: "Typecode | list[Any]" = "h",
) -> "int":
    """The bytes that the rows of a buffer of this size take. A list of labels counts 8 a row.

    >>> buffer_bytes(1000, 6, "h")
    14000
    """
    label = _code(labels)[0] if isinstance(labels, str) else 8
    return capacity * (n_features * _code(typecode)[0] + label)


def _code(typecode: "str") -> "tuple[int, int | None, int | None]":
    """Bytes, smallest and largest value of a typecode."""
    if typecode not in CODES:
        raise ValueError(f"typecode must be one of b B h H i I f d, got {typecode!r}")
    return CODES[typecode]


def _whole(name: "str", value: "Any") -> "int":
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
        raise ValueError(f"{name} must be a whole number from 1 to {MOST}, got {value!r}")
    return value


def _store(typecode: "str", n: "int") -> "Any":
    # Bytes are codes already: training uses a bytearray without copying it.
    return bytearray(n) if typecode == "B" else array(typecode, bytes(_code(typecode)[0] * n))


class _Buffer:
    """What both kinds share: columns of equal length, and how many rows are in them."""

    _push: "Callable[[Values, Label], None]"  # how each kind stores a row

    def __init__(
        self,
        capacity: "int",
        n_features: "int",
        typecode: "Typecode" = "f",
        labels: "Typecode | list[Any]" = "h",
    ) -> "None":
        self.capacity = _whole("capacity", capacity)
        self.n_features = _whole("n_features", n_features)
        self.typecode = typecode
        self._low, self._high = _code(typecode)[1:]
        self._labels: "Any"
        self._label_low = self._label_high = None
        if isinstance(labels, str):
            self._label_low, self._label_high = _code(labels)[1:]
            self._labels = _store(labels, capacity)
        elif isinstance(labels, list) and len(labels) == capacity:
            self._labels = labels
        else:
            raise ValueError(
                f"labels must be a typecode such as 'h', or a list of {capacity} places to keep "
                f"them in; got {type(labels).__name__}"
            )
        self.bytes = buffer_bytes(capacity, n_features, typecode, labels)
        self._columns = [_store(typecode, capacity) for f in range(n_features)]
        self._lock = Lock()
        self._begun = self._done = 0  # rows whose writing has begun, and is done
        self._reset()

    def _reset(self) -> "None":
        self._size = self._next = 0

    def __len__(self) -> "int":
        return self._size

    @property
    def full(self) -> "bool":
        """Whether another row would replace one."""
        return self._size == self.capacity

    def _write(self, at: "int", row: "Any", label: "Any") -> "None":
        """Write one row. If a value does not fit, this place no longer holds a valid row."""
        low: "Any" = self._low
        high, columns = self._high, self._columns
        n = self.n_features
        f = 0
        try:
            while f < n:
                v = row[f]
                if low is None:
                    columns[f][at] = NAN if v is None else v
                elif low <= v <= high:  # a board would store 300 as 44
                    columns[f][at] = v
                else:
                    raise ValueError
                f += 1
            if self._label_low is None or self._label_low <= label <= self._label_high:
                self._labels[at] = label
            else:
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            if f == n:
                raise ValueError(f"the label does not fit the labels, got {label!r}") from None
            raise ValueError(
                f"value {f} of the row does not fit typecode {self.typecode!r}, got {row[f]!r}"
            ) from None

    def push(self, row: "Values", label: "Label") -> "None":
        """Store a row and its label."""
        if len(row) != self.n_features:
            raise ValueError(f"a row must have {self.n_features} values, got {len(row)}")
        with self._lock:
            self._begun = (self._begun + 1) & MOST
            try:
                self._push(row, label)
            finally:
                self._done = self._begun

    def _place(self, i: "int") -> "int":
        """Where row i is stored."""
        size = self._size
        if not -size <= i < size:
            raise IndexError(f"there is no row {i}, the buffer holds {size}")
        return (self._first() + (i if i >= 0 else i + size)) % self.capacity

    def _first(self) -> "int":
        return 0

    def row(self, i: "int") -> "list[Any]":
        """The values of row i, in a new list."""
        with self._lock:
            at = self._place(i)
            return [column[at] for column in self._columns]

    def label(self, i: "int") -> "Any":
        """The label of row i."""
        with self._lock:
            return self._labels[self._place(i)]

    def columns(self) -> "list[array[Any] | bytearray]":
        """The features for `train(buffer.columns(), buffer.labels(), by_column=True)`.

        A full buffer gives its own arrays, in the order in which they are stored: training on a
        board needs no second copy, but nothing may be pushed until the training has read them. If
        rows are pushed meanwhile, use `snapshot`.
        """
        return [self._filled(column) for column in self._columns]

    def labels(self) -> "MutableSequence[Any]":
        """The labels, in the order of `columns`."""
        found: "MutableSequence[Any]" = self._filled(self._labels)
        return found

    def _filled(self, values: "Any") -> "Any":
        if self._size == self.capacity:
            return values
        return self._in_order(values, self._first(), self._size)

    def snapshot(self) -> "tuple[list[array[Any] | bytearray], MutableSequence[Any]]":
        """A copy of all rows: a list of columns, and the labels. Rows may be pushed meanwhile."""
        columns = [values[:] for values in self._columns]
        labels = self._labels[:]
        while True:
            with self._lock:
                done = self._done
                first, size = self._first(), self._size
                for f in range(self.n_features):
                    columns[f][:] = self._columns[f]
                labels[:] = self._labels
                if self._begun == done:
                    break
        if size < self.capacity or first:
            for f in range(self.n_features):
                columns[f] = self._in_order(columns[f], first, size)
            labels = self._in_order(labels, first, size)
        return columns, labels

    def _in_order(self, values: "Any", first: "int", size: "int") -> "Any":
        beyond = first + size - self.capacity
        if beyond <= 0:
            return values[first : first + size]
        return values[first:] + values[:beyond]

    def clear(self) -> "None":
        """Forget all rows and set the counts to zero."""
        with self._lock:
            self._begun = (self._begun + 1) & MOST
            self._reset()
            self._done = self._begun


class RingBuffer(_Buffer):
    """The latest `capacity` rows of `n_features` numbers each, with their labels.

    `typecode` says how numbers are kept: "f" as floats (None becomes NaN, missing), "h" as whole
    numbers of 16 bits, "B" of 8 bits, which a board trains on without a copy. `labels` is another
    typecode, or a list of `capacity` places for labels that are text.

    Row 0 is the oldest. `dropped` counts the rows that were replaced, up to 2^30 - 1.

    >>> window = RingBuffer(2, 1, "B", labels=[None, None])
    >>> window.push([7], "shut")
    >>> window.push([9], "open")
    >>> window.full, window.columns(), window.labels()
    (True, [bytearray(b'\\x07\\t')], ['shut', 'open'])
    >>> window.push([300], "open")
    Traceback (most recent call last):
    ValueError: value 0 of the row does not fit typecode 'B', got 300
    """

    def _reset(self) -> "None":
        self._size = self._next = self.dropped = 0

    def _first(self) -> "int":
        return (self._next - self._size) % self.capacity

    def _push(self, row: "Values", label: "Label") -> "None":
        at = self._next
        if self._size == self.capacity:  # the oldest is out before its place is written
            self._size -= 1
            if self.dropped < MOST:
                self.dropped += 1
        self._write(at, row, label)
        self._next = at + 1 if at + 1 < self.capacity else 0
        self._size += 1


class Reservoir(_Buffer):
    """A sample of `capacity` rows; every row that came is equally likely to be in it.

    `seen` counts the rows that came. It stops at 2^30 - 1, a year of thirty rows a second; from
    then on each new row is as likely to be kept as at that count. The same seed keeps the same rows
    on every machine.

    >>> sample = Reservoir(3, 1, "h", seed=1)
    >>> for i in range(1000):
    ...     sample.push([i], i % 2)
    >>> len(sample), sample.seen, all(sample.row(i)[0] % 2 == sample.label(i) for i in range(3))
    (3, 1000, True)
    """

    def __init__(
        self,
        capacity: "int",
        n_features: "int",
        typecode: "Typecode" = "f",
        seed: "int" = 0,
        labels: "Typecode | list[Any]" = "h",
    ) -> "None":
        self._seed = seed
        _Buffer.__init__(self, capacity, n_features, typecode, labels)

    def _reset(self) -> "None":
        self._size = self.seen = 0
        self._rng = Rng(self._seed)

    def _push(self, row: "Values", label: "Label") -> "None":
        seen = self.seen + 1 if self.seen < MOST else MOST
        if self._size < self.capacity:
            self._write(self._size, row, label)
            self._size += 1
        else:
            at = self._rng.below(seen)
            if at < self.capacity:
                self._replace(at, row, label)
        self.seen = seen

    def _replace(self, at: "int", row: "Values", label: "Label") -> "None":
        """Write a row over another. If a value does not fit, the last row moves to that place."""
        last = self._size - 1
        try:
            self._write(at, row, label)
        except ValueError:
            for f in range(self.n_features):
                self._columns[f][at] = self._columns[f][last]
            self._labels[at] = self._labels[last]
            self._size = last
            raise
