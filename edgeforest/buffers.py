"""Keep readings of sensors in memory that is set aside once: the latest, or a fair sample of all.

    RingBuffer  the latest rows; the oldest falls out
    Reservoir   a uniform sample of every row that ever came

This file runs unchanged on CPython and MicroPython; on a board it lies beside `core_pure`. `push`
allocates nothing, so that an interrupt may call it: give it a list, a tuple or an array of whole
numbers. (Reading a float out of an array makes a new float on most boards; a list of floats that
are there already is fine.)

Who may do what at the same time:

- On CPython any number of threads may push and read. One lock is held while a row is written and
  while rows are copied out.
- On a board a lock would be wrong: an interrupt that waits for the program it interrupted waits
  for ever. There is none; instead one interrupt, or one other core, may push while the program
  takes a `snapshot`: a count goes up before a row is written, another after it, and a copy during
  which a row was written is made again.

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

try:
    from threading import Lock
except ImportError:  # a board: see above

    class Lock:
        def __enter__(self):
            pass

        def __exit__(self, kind, error, trace):
            pass


MOST = 0x3FFFFFFF  # 2^30 - 1, the largest int that costs a 32-bit board no memory
NAN = float("nan")
# Bytes, smallest and largest value by typecode. Not "l" and "L": they differ between machines.
CODES = {
    "b": (1, -128, 127),
    "B": (1, 0, 255),
    "h": (2, -32768, 32767),
    "H": (2, 0, 65535),
    "i": (4, -2147483648, 2147483647),
    "I": (4, 0, 4294967295),
    "f": (4, None, None),
    "d": (8, None, None),
}


def buffer_bytes(capacity, n_features, typecode="f", labels="h"):
    """The bytes that a buffer of this size keeps its rows in. A list of labels counts 8 a row.

    >>> buffer_bytes(1000, 6, "h")
    14000
    """
    label = _code(labels)[0] if isinstance(labels, str) else 8
    return capacity * (n_features * _code(typecode)[0] + label)


def _code(typecode):
    if typecode not in CODES:
        raise ValueError(f"typecode must be one of b B h H i I f d, got {typecode!r}")
    return CODES[typecode]


def _whole(name, value):
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
        raise ValueError(f"{name} must be a whole number from 1 to {MOST}, got {value!r}")
    return value


def _store(typecode, n):
    # Bytes are codes already: training uses a bytearray where it is.
    return bytearray(n) if typecode == "B" else array(typecode, bytes(_code(typecode)[0] * n))


class _Buffer:
    """What both kinds share: columns of equal length, and how many rows are in them."""

    def __init__(self, capacity, n_features, typecode="f", labels="h"):
        self.capacity = _whole("capacity", capacity)
        self.n_features = _whole("n_features", n_features)
        self.typecode = typecode
        self._low, self._high = _code(typecode)[1:]
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
        self._begun = self._done = 0  # rows of which the writing was begun, and done
        self._reset()

    def _reset(self):
        self._size = self._next = 0

    def __len__(self):
        return self._size

    @property
    def full(self):
        """Whether another row would push one out."""
        return self._size == self.capacity

    def _write(self, at, row, label):
        """Write one row. If a value does not fit, what stands at this place is no row any more."""
        low, high, columns = self._low, self._high, self._columns
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

    def push(self, row, label):
        """Take a row and its label."""
        if len(row) != self.n_features:
            raise ValueError(f"a row must have {self.n_features} values, got {len(row)}")
        with self._lock:
            self._begun = (self._begun + 1) & MOST
            try:
                self._push(row, label)
            finally:
                self._done = self._begun

    def _place(self, i):
        """Where row i is stored."""
        size = self._size
        if not -size <= i < size:
            raise IndexError(f"there is no row {i}, the buffer holds {size}")
        return (self._first() + (i if i >= 0 else i + size)) % self.capacity

    def _first(self):
        return 0

    def row(self, i):
        """The values of row i, in a new list."""
        with self._lock:
            at = self._place(i)
            return [column[at] for column in self._columns]

    def label(self, i):
        """The label of row i."""
        with self._lock:
            return self._labels[self._place(i)]

    def columns(self):
        """The features for `train(buffer.columns(), buffer.labels(), by_column=True)`.

        Of a full buffer these are the arrays that it keeps, in the order in which they are
        stored: no second copy is needed to train on a board, but nothing may be pushed until the
        training has read them. Where something is pushed meanwhile, use `snapshot`.
        """
        return [self._filled(column) for column in self._columns]

    def labels(self):
        """The labels, in the order of `columns`."""
        return self._filled(self._labels)

    def _filled(self, values):
        if self._size == self.capacity:
            return values
        return self._in_order(values, self._first(), self._size)

    def snapshot(self):
        """A copy of all rows: a list of columns, and the labels. Others may go on pushing."""
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

    def _in_order(self, values, first, size):
        beyond = first + size - self.capacity
        if beyond <= 0:
            return values[first : first + size]
        return values[first:] + values[:beyond]

    def clear(self):
        """Forget all rows and start the counts again."""
        with self._lock:
            self._begun = (self._begun + 1) & MOST
            self._reset()
            self._done = self._begun


class RingBuffer(_Buffer):
    """The latest `capacity` rows of `n_features` numbers each, with their labels.

    `typecode` says how numbers are kept: "f" floats (None is kept as NaN, missing), "h" whole
    numbers of 16 bits, "B" of 8 bits, which train on a board where they are. `labels` is another
    typecode, or a list of `capacity` places for labels that are text.

    Row 0 is the oldest. `dropped` counts the rows that fell out, up to 2^30 - 1.

    >>> window = RingBuffer(2, 1, "B", labels=[None, None])
    >>> window.push([7], "shut")
    >>> window.push([9], "open")
    >>> window.full, window.columns(), window.labels()
    (True, [bytearray(b'\\x07\\t')], ['shut', 'open'])
    >>> window.push([300], "open")
    Traceback (most recent call last):
    ValueError: value 0 of the row does not fit typecode 'B', got 300
    """

    def _reset(self):
        self._size = self._next = self.dropped = 0

    def _first(self):
        return (self._next - self._size) % self.capacity

    def _push(self, row, label):
        at = self._next
        if self._size == self.capacity:  # the oldest is out before its place is written
            self._size -= 1
            if self.dropped < MOST:
                self.dropped += 1
        self._write(at, row, label)
        self._next = at + 1 if at + 1 < self.capacity else 0
        self._size += 1


class Reservoir(_Buffer):
    """A sample of `capacity` rows, in which each row that came is as likely as any other.

    `seen` counts the rows that came. It stays at 2^30 - 1, a year of thirty rows a second; from
    then on later rows are as likely as if it were still that. The same seed keeps the same rows
    on every machine.

    >>> sample = Reservoir(3, 1, "h", seed=1)
    >>> for i in range(1000):
    ...     sample.push([i], i % 2)
    >>> len(sample), sample.seen, all(sample.row(i)[0] % 2 == sample.label(i) for i in range(3))
    (3, 1000, True)
    """

    def __init__(self, capacity, n_features, typecode="f", seed=0, labels="h"):
        self._seed = seed
        _Buffer.__init__(self, capacity, n_features, typecode, labels)

    def _reset(self):
        self._size = self.seen = 0
        self._rng = Rng(self._seed)

    def _push(self, row, label):
        seen = self.seen + 1 if self.seen < MOST else MOST
        if self._size < self.capacity:
            self._write(self._size, row, label)
            self._size += 1
        else:
            at = self._rng.below(seen)
            if at < self.capacity:
                self._replace(at, row, label)
        self.seen = seen

    def _replace(self, at, row, label):
        """Write a row over another. If a value does not fit, the last row takes that place."""
        last = self._size - 1
        try:
            self._write(at, row, label)
        except ValueError:
            for f in range(self.n_features):
                self._columns[f][at] = self._columns[f][last]
            self._labels[at] = self._labels[last]
            self._size = last
            raise
