"""Turn the samples of a sensor into rows that a forest can learn: features of a sliding window.

    Windows    is given one sample at a time, and has a row whenever a window is full

Everything is computed in whole numbers below 2^30, which cost a 32-bit board no memory. So nothing
is allocated, and a row is the same to the bit in MicroPython, CPython, NumPy (whole recordings at
once, `Windows.rows`) and in the C that `to_c` writes. This file runs unchanged on CPython and
MicroPython and needs no other.

>>> windows = Windows(1, 4, 2, features=("mean", "range"))
>>> for x in (1, 3, 5, 7, 90, 70):
...     if windows.push([x]):
...         print(list(windows.row))
[4, 6]
[43, 85]
>>> windows.names
['x mean 4/2', 'x range 4/2']
"""

from array import array

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *

FEATURES = ("mean", "min", "max", "deviation", "range", "rms", "crossings", "change", "bands")
SIGNED = 3  # the first ones can be negative
MOST = 32767  # of a sample or a feature, in absolute value: its square is below 2^30
MASK = 0x3FFFFFFF  # 2^30 - 1, the largest int that costs a 32-bit board no memory
LARGEST = 4096  # samples of a window: sums of their differences stay below 2^30
SPECTRUM = 256  # samples at most whose spectrum is computed: the last ones of a window
# 16384 / (2 cos a) for a = 45, 22.5, ... degrees: the sine of a middle from those beside it.
CHORDS = (11585, 8867, 8352, 8232, 8202, 8194)


class Windows:
    """Features of the last `size` samples of `n_channels` numbers each, every `step` samples.

    A sample is a list, tuple or array of whole numbers from -32767 to 32767. What is beyond counts as
    the end of that range. None in the place of a number, or of a whole sample, is a missing reading: the
    one before it is repeated. `channels` are their names, `x`, `y`, `z` for up to three. Of several
    channels there is also the magnitude, unless it is turned off: for each sample, the root of the mean
    of their squares.

    `features` are some of "mean", "min", "max", "deviation" (the standard deviation), "range", "rms" (the
    root of the mean square: the energy), "crossings" (of the mean), "change" (the mean absolute
    difference of two samples in a row) and "bands" (the spectrum in octaves). All of them are whole
    numbers from -32767 to 32767. With `bits=8` a row is bytes instead, which a board trains on where
    they are: mean, min and max in steps of 256, the others exact below 32 and in 16 steps an octave.

    `push` computes a row as soon as its window is full. For an interrupt that must be short there is
    `add`, which only stores a sample; the program outside of it calls `compute`. Up to `spare` samples
    may be added before or while it computes.

    `names` has a name for each feature of a row. It says how the feature is computed, so a model that
    was trained with these names knows which windows it needs: see `of`.

    >>> windows = Windows(3, 64, 32)
    >>> windows.n_features, windows.names[0], windows.names[-1]
    (52, 'x mean 64/32', '|x y z| band16-32 64/32')
    >>> Windows(1, 50, 10, ["rms"], channels=["mic"], bits=8).names
    ['mic rms 50/10/8']
    >>> Windows(3, 64, 32, features=["median"])
    Traceback (most recent call last):
    ValueError: features must be some of mean, min, max, deviation, range, rms, crossings, change, bands; got 'median'
    """

    def __init__(
        self,
        n_channels: "int",
        size: "int",
        step: "int | None" = None,
        features: "Iterable[str]" = FEATURES,
        channels: "Iterable[str] | None" = None,
        magnitude: "bool" = True,
        bits: "int" = 16,
        spare: "int" = 0,
    ) -> "None":
        self.n_channels = n = _whole("n_channels", n_channels, 1, 64)
        self.size = _whole("size", size, 4, LARGEST)
        self.step = _whole("step", size if step is None else step, 1, LARGEST)
        size += _whole("spare", spare, 0, LARGEST)
        if channels is None:
            channels = "xyz"[:n] if n < 4 else [f"c{i}" for i in range(n)]
        self.channels = tuple(channels)
        bad = len(self.channels) != n
        for name in self.channels:
            bad = bad or name == "" or not isinstance(name, str) or " " in name or "|" in name
        if bad or len(set(self.channels)) < n:
            raise ValueError(
                f"channels must be {n} different names without spaces and bars, "
                f"got {self.channels!r}"
            )
        self.magnitude = bool(magnitude) and n > 1
        self.signals = n + self.magnitude  # what has features: the channels, and the magnitude
        asked = [features] if isinstance(features, str) else list(features)
        self._kinds = bytearray()
        self.features: "tuple[str, ...]" = ()
        for kind, name in enumerate(FEATURES):
            if name in asked:
                self.features += (name,)
                if name != "bands":
                    self._kinds.append(kind)
        for name in asked or [""]:
            if name not in FEATURES:
                raise ValueError(f"features must be some of {', '.join(FEATURES)}; got {name!r}")
        self._values = array("h", bytes(2 * len(FEATURES)))
        self.spectrum = bands = 0  # how many samples the spectrum is of: a power of two
        if "bands" in self.features:
            self.spectrum = 4
            bands = 1
            while self.spectrum < SPECTRUM and 2 * self.spectrum <= self.size:
                self.spectrum *= 2
                bands += 1
            self.sine = sines(self.spectrum)
            self._real = array("h", bytes(self.spectrum))
            self._imaginary = array("h", bytes(self.spectrum))
        self._ring = array("h", bytes(2 * self.signals * size))
        self.picks: "array[int] | None" = None  # the places of the features that are wanted
        self.per_signal = len(self._kinds) + bands  # features
        self.n_features = self.signals * self.per_signal
        self._all = array("h", bytes(2 * self.n_features))
        self.bits = bits
        self.row: "Any" = self._all
        if bits == 8:
            self.row = bytearray(self.n_features)
        elif bits != 16:
            raise ValueError(f"bits must be 8 or 16, got {bits!r}")
        self.clear()

    @classmethod
    def of(cls, model: "Any", step: "int | None" = None) -> "Windows":
        """The windows that a model was trained on: a forest, an estimator, or a list of names.

        If the model was trained on some of the features only, a row has these alone. Only a channel
        of which no feature is left is unknown. `step` is how often there is a row, by default as often
        as in training.

        >>> Windows.of(["a mean 50/25", "|a b| bands2-3"])
        Traceback (most recent call last):
        ValueError: '|a b| bands2-3' is not a feature of windows; train with names=windows.names
        """
        names = getattr(getattr(model, "forest_", model), "names", model)
        channels: "list[str]" = []
        features: "list[str]" = []
        magnitude = False
        name = ""
        try:
            for name in names:
                channel, feature, span = name.rsplit(" ", 2)
                if channel[0] == "|":
                    channels = channel[1:-1].split(" ")
                    magnitude = True
                elif not magnitude and channel not in channels:
                    channels.append(channel)
                features.append("bands" if feature[:4] == "band" else feature)
            span = [int(part) for part in span.split("/")]
            options = (features, channels, magnitude, 8 if len(span) > 2 else 16)
            windows = cls(len(channels), span[0], span[1], *options)
            found = windows.names
            picks = []
            for name in names:
                picks.append(found.index(name))
        except (AttributeError, IndexError, NameError, TypeError, ValueError):
            raise ValueError(
                f"{name!r} is not a feature of windows; train with names=windows.names"
            ) from None
        if picks != list(range(len(found))):
            windows.picks = array("H", picks)
            windows.n_features = len(picks)
            windows.row = bytearray(len(picks)) if windows.bits == 8 else array("h", picks)
        if step is not None:
            windows.step = _whole("step", step, 1, LARGEST)
        return windows

    @property
    def names(self) -> "list[str]":
        """The name of each feature of a row, such as `x mean 64/32`: channel, feature, size/step."""
        kinds = list(self.features)
        if self.spectrum:
            kinds.pop()
        low = 1
        while low + low < self.spectrum:
            high = low + low - (4 * low < self.spectrum)  # the last one has the highest frequency
            kinds.append(f"band{low}" if low == high else f"band{low}-{high}")
            low += low
        signals = list(self.channels)
        if self.magnitude:
            signals.append("|" + " ".join(signals) + "|")
        span = f"{self.size}/{self.step}" + ("" if self.bits > 8 else "/8")
        found = []
        for signal in signals:
            for kind in kinds:
                found.append(f"{signal} {kind} {span}")
        return found if self.picks is None else [found[i] for i in self.picks]

    def clear(self) -> "None":
        """Forget all samples: the next window begins anew."""
        self._next = 0  # where the next sample goes
        self._wait = self.size  # samples until the next row
        self._first = -1  # the place of a window that is to be computed
        for i in range(len(self._ring)):
            self._ring[i] = 0

    def push(self, sample: "Any", row: "Any" = None) -> "bool":
        """Take a sample; returns whether a window is full, and its features are in `row`.

        `row` is a list or array of yours with `n_features` places, or else `windows.row`, which the
        next row overwrites. Nothing is allocated.
        """
        return self.add(sample) and self.compute(row)

    def add(self, sample: "Any") -> "bool":
        """Store a sample, and do no more; returns whether a window is full: then call `compute`.

        Nothing is allocated, and it takes the same time whether a window is full or not.
        """
        ring = self._ring
        size = len(ring) // self.signals  # with the spare ones
        n = self.n_channels
        at = self._next
        if sample is not None and len(sample) != n:
            raise ValueError(f"a sample must have {n} values, got {len(sample)}")
        square = c = 0
        place = at
        try:
            while c < n:
                x = None if sample is None else sample[c]
                if x is None:
                    x = ring[place - 1 if at else place + size - 1]
                elif x > MOST:
                    x = MOST
                elif x < -MOST:
                    x = -MOST
                ring[place] = x
                x = ring[place]  # an int, whatever it was
                square += x * x // n
                place += size
                c += 1
        except (TypeError, ValueError):
            raise TypeError(f"a sample must be whole numbers, got {sample[c]!r}") from None
        if self.magnitude:
            ring[place] = square_root(square)
        at += 1
        self._next = at if at < size else 0
        self._wait -= 1
        if self._wait:
            return False
        self._wait = self.step
        self._first = (at + size - self.size) % size
        return True

    def compute(self, row: "Any" = None) -> "bool":
        """Put the features of the last full window into `row`; returns whether there are any.

        There are none if its row was computed before, or if more than `spare` samples were added
        since: they have taken the places of its first ones. `row` as for `push`; nothing is allocated.

        >>> windows = Windows(1, 4, 2, ["max"], spare=1)
        >>> [windows.add([x]) for x in (1, 3, 5, 7, 9)], windows.compute(), list(windows.row)
        ([False, False, False, True, False], True, [7])
        """
        first = self._first
        if first < 0:
            return False
        self._first = -1
        if row is None:
            row = self.row
        if len(row) != self.n_features:
            raise ValueError(f"row must have {self.n_features} places, got {len(row)}")
        picks = self.picks
        kinds = self._kinds
        every = row if picks is None and self.bits > 8 else self._all
        place = 0
        room = len(self._ring) // self.signals
        for c in range(self.signals):
            place = self._measure(c * room, first, every, place)
        if every is not row:
            for c in range(self.n_features):
                place = picks[c] if picks else c
                x = every[place]
                if self.bits == 8:
                    place %= self.per_signal
                    is_signed = place < len(kinds) and kinds[place] < SIGNED
                    x = x + 32768 >> 8 if is_signed else byte_of(x)
                row[c] = x
        # Perhaps an interrupt has added samples meanwhile, or even filled the next window.
        spare = room - self.size
        late = (self._next - first + spare) % room
        return self._first < 0 and self.step - self._wait == late <= spare

    def ends(self, n_samples: "int") -> "range":
        """The place of the last sample of each window in a recording, to find its label.

        >>> list(Windows(1, 50, 25).ends(120))
        [49, 74, 99]
        """
        return range(self.size - 1, n_samples, self.step)

    def rows(self, recording: "Any") -> "Any":
        """The rows of a whole recording, a sequence of samples: an array with NumPy, else a list.

        What was pushed before is forgotten.

        >>> [int(row[0]) for row in Windows(1, 4, 1, ["max"]).rows([[1], [9], [5], [7], [8]])]
        [9, 9]
        """
        self.clear()
        try:
            from edgeforest.host.recordings import rows
        except ImportError:  # a board, or a computer without NumPy
            found = []
            for sample in recording:
                if self.push(sample):
                    found.append(self.row[:])
            return found
        return rows(self, recording)

    def _measure(self, base: "int", first: "int", row: "Any", place: "int") -> "int":
        """Put the features of one signal into a row from a place on; returns where they end."""
        ring = self._ring
        values = self._values
        size = self.size
        end = base + len(ring) // self.signals
        at = start = base + first
        last = low = high = ring[at]
        total = change = 0
        for _ in range(size):
            x = ring[at]
            total += x
            if x < low:
                low = x
            elif x > high:
                high = x
            change += x - last if x > last else last - x
            last = x
            at += 1
            if at == end:
                at = base
        mean = (total + (size >> 1)) // size
        # Differences to the mean become numbers of 14 bits, so that their squares have 28.
        peak = max(high - mean, mean - low)
        up, down = 1, 0
        if peak:
            while peak < 8192:
                peak += peak
                up += up
            while peak > 16383:
                peak >>= 1
                down += 1
        at = start
        side = ring[at] < mean
        square = crossings = 0
        for _ in range(size):
            x = ring[at] - mean
            if (x < 0) is not side:
                side = not side
                crossings += 1
            x = x * up >> down
            square += x * x // size
            at += 1
            if at == end:
                at = base
        values[0] = mean
        values[1] = low
        values[2] = high
        values[3] = deviation = rescaled(square, up, down)
        values[4] = min(high - low, MOST)
        square = deviation * deviation
        values[5] = square_root(square + min(mean * mean, MASK - square))
        values[6] = crossings
        values[7] = min(change // (size - 1), MOST)
        for kind in self._kinds:
            row[place] = values[kind]
            place += 1
        if self.spectrum:
            self._transform(start, base, end, mean, up, down)
            return self._bands(row, place, up, down)
        return place

    def _transform(
        self, at: "int", base: "int", end: "int", mean: "int", up: "int", down: "int"
    ) -> "None":
        """A fast Fourier transform of the last samples, halved in each of its stages.

        Two samples in a row are one complex number, which halves the work; `_bands` takes them apart.
        """
        ring = self._ring
        real = self._real
        imaginary = self._imaginary
        sine = self.sine
        n = self.spectrum >> 1
        at += self.size - n - n
        if at >= end:
            at -= end - base
        j = 0  # the places with their bits in reverse order
        for _ in range(n):
            real[j] = (ring[at] - mean) * up >> down
            at += 1
            if at == end:
                at = base
            imaginary[j] = (ring[at] - mean) * up >> down
            at += 1
            if at == end:
                at = base
            bit = n >> 1
            while j & bit:
                j ^= bit
                bit >>= 1
            j |= bit
        half = 1
        turn = n  # what two angles of a stage are apart
        while half < n:
            for j in range(half):
                c = sine[j * turn + (n >> 1)]
                s = sine[j * turn]
                while j < n:
                    at = j + half
                    x = real[at]
                    y = imaginary[at]
                    r = c * x + s * y >> 14
                    i = c * y - s * x >> 14
                    x = real[j]
                    y = imaginary[j]
                    real[j] = x + r >> 1
                    imaginary[j] = y + i >> 1
                    real[at] = x - r >> 1
                    imaginary[at] = y - i >> 1
                    j = at + half
            half += half
            turn >>= 1

    def _bands(self, row: "Any", place: "int", up: "int", down: "int") -> "int":
        """Put the root mean square of each octave into a row; returns where they end."""
        real = self._real
        imaginary = self._imaginary
        sine = self.sine
        n = self.spectrum >> 1
        real[0] = real[0] - imaginary[0] >> 1  # the highest frequency
        imaginary[0] = 0
        for k in range(1, (n >> 1) + 1):
            j = n - k
            c = sine[k + (n >> 1)]
            s = sine[k]
            x = real[k] + real[j]
            y = imaginary[k] - imaginary[j]
            r = imaginary[k] + imaginary[j]
            i = real[j] - real[k]
            at = c * r + s * i >> 14
            i = c * i - s * r >> 14
            real[k] = x + at >> 2
            imaginary[k] = y + i >> 2
            real[j] = x - at >> 2
            imaginary[j] = y - i >> 2
        square = 0
        low = 2  # where the next octave begins
        for k in range(1, n + 1):
            if k == low and k < n:
                row[place] = rescaled(square + square, up, down)
                place += 1
                square = 0
                low += low
            j = k & (n - 1)
            square += real[j] * real[j] + imaginary[j] * imaginary[j]
        row[place] = rescaled(square + square, up, down)
        return place + 1


def rescaled(square: "int", up: "int", down: "int") -> "int":
    """The root of a mean square, in the units of the samples."""
    return min((square_root(square) + (up >> 1)) // up << down, MOST)


def byte_of(v: "int") -> "int":
    """A feature that is not negative as a byte: its leading five bits, and how many follow.

    >>> [byte_of(v) for v in (31, 32, 33, 34, 63, 64, 32767)]
    [31, 32, 32, 33, 47, 48, 191]
    """
    code = 0
    while v > 31:
        v >>= 1
        code += 16
    return code + v


def square_root(v: "int") -> "int":
    """The square root of a number below 2^30, rounded down."""
    if v < 2:
        return v
    r = 1
    while r < 32768 and r * r <= v:
        r += r
    while True:  # Newton's method, from above
        x = (r + v // r) >> 1
        if x >= r:
            return r
        r = x


def sines(n: "int") -> "array[int]":
    """The sines of three quarters of a circle of n steps, times 16384, by whole numbers alone.

    >>> list(sines(8))
    [0, 11585, 16384, 11585, 0, -11585]
    """
    quarter = n >> 2
    sine = array("h", bytes(6 * quarter))
    sine[quarter] = 16384
    h = quarter
    for chord in CHORDS:
        if h > 1:
            for i in range(h >> 1, quarter, h):
                sine[i] = ((sine[i - (h >> 1)] + sine[i + (h >> 1)]) * chord + 8192) >> 14
            h >>= 1
    for i in range(1, quarter):
        sine[quarter + i] = sine[quarter - i]
        sine[2 * quarter + i] = -sine[i]
    return sine


def _whole(name: "str", value: "Any", low: "int", high: "int") -> "int":
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name} must be a whole number from {low} to {high}, got {value!r}")
    return value
