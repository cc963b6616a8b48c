"""The operations on a node of a tree, in plain Python: the pure engine.

A race needs a node's rows counted, its arms ranked and measured, and its rows parted. `NumpyNodes`
in engines/numpy_nodes.py does the same on whole arrays, `UlabNodes` in core_ulab.py on those of a
board; the native engine does all of it in C, a whole tree at a time. This file runs unchanged on CPython and MicroPython.
"""

from array import array

from edgeforest.criteria import Contender, best_arm, decide, total_of
from edgeforest.forest import split_of

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.budget import Rng
    from edgeforest.criteria import Split
    from edgeforest.host.types import *

GROUP_ROWS = 64  # rows of a node that place its bins
SOME_ROWS = 64  # rows that are drawn at once
EXACT_BELOW = 640  # rows: smaller nodes are counted whole, since the bandit saves little there
LARGE = 1000  # rows: larger nodes have more cuts and a second look at the threshold
LOOK_ROWS = 256  # rows of a node in which a feature must vary to take part
ROWS_PER_BIN = 32  # a node of so many rows has one bin more ...
MORE_BINS = 4  # ... up to so many times n_bins
NO_BINS = bytes(32)  # a part of a table that has every code in the bin of missing values


def bins_for(task: "Any", n: "int") -> "int":
    """The bins of a feature in a race of n rows."""
    least: "int" = task.n_bins
    return min(255, max(least, min(MORE_BINS * least, n // ROWS_PER_BIN)))


def spaced_of(bins: "int", n: "int") -> "int":
    """How many of the cuts are equally spaced: the first rows of a large node may lack its extremes."""
    return bins >> 2 if n > LARGE else 0


def most_bins(task: "Any") -> "int":
    """The most bins that a feature of numbers can have."""
    least: "int" = task.n_bins
    if task.kind == "extra-trees" or task.splitter == "mab-paper":
        return least
    return min(255, MORE_BINS * least)


class Nodes:
    """The operations on the rows of a tree's nodes, in plain Python.

    A node's rows are `rows[start:end]`. Another engine has a class with the same public methods
    (`NodeOperations` in host/types.py lists them), and what they return is the same.
    """

    def __init__(self, task: "Any", rows: "Any" = None) -> "None":
        self.task = task
        self.data = task.data
        self.total = total_of
        n = self.data.n
        self.rows = rows
        # What is used again and again is made at once, so that a small heap stays in one piece.
        self.times: "Any" = None  # how often the tree in hand drew each row
        self.tables: "list[bytearray]" = []  # from code to bin, for each feature of a race
        if rows is None:
            places = task.row_places
            if task.bootstrap and not self.data.weights:  # 63 % of the rows are drawn, some again
                places = min(places, self.data.drawable() * 2 // 3 + 32)
            self.rows = array("H" if n < 65536 else "I", range(places))
            self.times = array("H", range(n)) if self.data.weights else bytearray(n)
            self.tables = [bytearray(256) for _ in range(task.max_features)]

    def draw(self, rng: "Rng") -> "int":
        """Fill the front of `rows` with a tree's rows, in random order; returns how many."""
        task, data, rows = self.task, self.data, self.rows
        size, patch = task.sample_size, data.patch
        task.budget.spent.rows_read += size
        if data.weights is not None:
            from edgeforest.weights import draw

            draw(data.weights, rng, rows, size, task.bootstrap)
        elif not task.bootstrap:
            from edgeforest.kinds import draw_once

            return draw_once(self, rng)
        times = self.times
        most = 255 if data.weights is None else 65535
        for i in range(data.n):
            times[i] = 0
        front = 0
        for at in range(0, size, SOME_ROWS):
            if data.weights is None:
                some = array("I", range(min(size - at, SOME_ROWS)))
                rng.fill(some, data.drawable())
            else:
                some = rows[at : min(size, at + SOME_ROWS)]
            for row in some:
                if patch:
                    row = patch[row]
                # A row that was drawn more than once is stored once, with its count.
                if not times[row]:
                    if front == len(rows):
                        rows.append(row)
                    rows[front] = row
                    front += 1
                if times[row] < most:
                    times[row] += 1
        return front

    def drawn(self, start: "int", end: "int", rng: "Rng", small: "bool") -> "Iterator[Contender]":
        """Draw features that vary among the node's first rows, one by one, each with its bins.

        In a small node a feature that does not vary takes up a place, as long as there is another.
        """
        rows = self.rows
        features = self.task.features[:]
        most = self.task.max_features
        head = rows[start : min(end, start + GROUP_ROWS)]
        chosen = i = 0
        while chosen < most and i < len(features):
            j = i + rng.below(len(features) - i)
            features[i], features[j] = features[j], features[i]
            column = self.data.columns[features[i]]
            codes = distinct([column[row] for row in head])
            if len(codes) == 1:  # the same so far: a rare value may show up further on
                for at in range(start + GROUP_ROWS, min(end, start + LOOK_ROWS)):
                    if column[rows[at]] != codes[0]:
                        codes = distinct([codes[0], column[rows[at]]])
                        break
            i += 1
            if len(codes) > 1:
                chosen += 1
                # In a small node one table serves all: each is counted before the next is made.
                place = 0 if small else chosen - 1
                yield self.contender(features[i - 1], codes, end - start, rng, place)
            if small and chosen and i >= most:
                break

    def contenders(self, start: "int", end: "int", rng: "Rng") -> "tuple[list[Contender], int]":
        """All features of a race, in their order, and how many cells apart their classes lie."""
        chosen = list(self.drawn(start, end, rng, False))
        chosen.sort(key=lambda c: c.feature)
        stride = 1 + max([c.bins for c in chosen], default=0)
        for c in chosen:
            c.h = [0] * (stride * self.data.width)
        return chosen, stride

    def contender(
        self, f: "int", codes: "list[int]", n: "int", rng: "Rng", place: "int"
    ) -> "Contender":
        """A feature with its bins in a node of n rows, in whose first ones it has these codes."""
        data, task = self.data, self.task
        kinds = data.categories[f]
        if kinds is not None:
            every = range(len(kinds) + 1)
            return Contender(f, data.columns[f], every, every, True)
        raw = data.raw
        present = codes if raw or codes[0] else codes[1:]
        before = -1 if raw else 0
        if task.kind == "extra-trees" or task.splitter == "mab-paper":
            from edgeforest.kinds import placed

            wanted = placed(task, f, present, before, rng)
        else:
            bins = bins_for(task, n)
            spaced = spaced_of(bins, n)
            wanted = between(present, bins - spaced)
            if spaced:
                from edgeforest.second_look import and_spaced

                wanted = and_spaced(wanted, spaced, before + 1, len(data.bounds[f]) - 1)
        while len(self.tables) <= place:
            self.tables.append(bytearray(256))
        table = self.tables[place]
        cuts = bytearray([0] + wanted + [255])  # cuts[b]: the highest code of bin b
        if n > GROUP_ROWS:
            for b in range(1, len(cuts)):
                table[before + 1 : cuts[b] + 1] = bytes([b]) * (cuts[b] - before)
                before = cuts[b]
        else:
            for b in range(0, 256, 32):
                table[b : b + 32] = (
                    NO_BINS  # no other codes are there, unless data change meanwhile
                )
            b = 1
            for code in present:
                while code > cuts[b]:
                    b += 1
                table[code] = b
        if not raw:
            table[0] = 0
        return Contender(f, data.columns[f], table, cuts, False)

    def count(
        self, racing: "list[Contender]", stride: "int", start: "int", end: "int"
    ) -> "tuple[int, int]":
        """Count rows start..end into every racing feature's histogram, or as many as time allows.

        Returns up to where, and the sum of the squared times drawn: a mean over rows that count w
        times each is as unsure as sum(w)^2 / sum(w^2) single ones.
        """
        squares = 0
        budget, times = self.task.budget, self.times
        some = max(32, min(1024, self.data.n >> 7))  # rows at once: lists are fast and large
        for at in range(start, end, some):
            if at > start and budget.late():
                budget.give_back(end - at, len(racing))
                end = at
                break
            piece: "Any" = self.read(at, min(end, at + some))
            for c in racing:
                self.add(c, piece, stride)
            for row in piece[0]:
                drawn = times[row]
                squares += drawn * drawn
            piece = None  # before the next one is read
        return end, squares

    def read(self, start: "int", end: "int") -> "tuple[list[int], Any]":
        """Of some rows: themselves, and for a regression the moments of their targets."""
        rows = list(self.rows[start:end])
        if not self.data.regression:
            return rows, None
        from edgeforest.mse import moments

        return rows, moments(rows, self.data, self.times)

    def add(self, c: "Contender", values: "tuple[list[int], Any]", stride: "int") -> "None":
        """Count what was read into one histogram; one insertion counts all times of a row."""
        rows, moments = values
        h, table, column = c.h, c.table, c.column
        if moments:
            from edgeforest.mse import count

            return count(c, rows, moments, stride)
        y, times = self.data.y, self.times
        for row in rows:  # lists read beforehand, and zip, would be garbage for a board to collect
            h[table[column[row]] + y[row] * stride] += times[row]

    def rank(
        self,
        criterion: "Any",
        racing: "list[Contender]",
        stride: "int",
        total: "list[int]",
        least: "int",
    ) -> "None":
        """Note the best arm of every racing feature."""
        for c in racing:
            c.best = best_arm(criterion, c, stride, total, least)

    def measure(self, *given: "Any") -> "None":
        """How good is each feature's best arm, and how sure is that? See `intervals.measure`."""
        from edgeforest.intervals import measure  # which a node that is counted whole does without

        measure(*given)

    def better_threshold(self, *given: "Any") -> "bool":
        """Whether another arm of the leading feature may beat its best; see `intervals`."""
        from edgeforest.intervals import better_threshold

        return better_threshold(*given)

    def second_look(self, *given: "Any") -> "Split":
        """Look for a better threshold near the winner's: see `second_look`."""
        from edgeforest.second_look import count_within, second_look

        return second_look(self.task, lambda *which: count_within(self, *which), *given)

    def race_small(
        self, start: "int", end: "int", rng: "Rng"
    ) -> "Generator[Any, None, Split | None]":
        """Find the split of a small node: count all of it, one feature after the other.

        The first feature that parts the classes for good ends the race: nothing can beat it.
        """
        task = self.task
        n = end - start
        criterion = task.criterion
        piece = self.read(start, end)
        best = None
        total: "Any" = None
        top = 0.0  # its score
        for c in self.drawn(start, end, rng, True):
            if not task.budget.take(n, 1):
                break
            stride = c.bins + 1
            c.h = [0] * (stride * self.data.width)
            self.add(c, piece, stride)
            yield task
            total = total or total_of(c, stride)
            c.best = best_arm(criterion, c, stride, total, task.min_samples_leaf)
            if c.best and (best is None or c.best[0] > top):
                best, top = c, c.best[0]
                if n == 2 or c.best[0] >= criterion.perfect * criterion.size(total):
                    break
        if best is None:
            return None
        return decide(task, best, best.bins + 1, total, 0.0)

    def partition(self, start: "int", end: "int", word: "int", code: "int") -> "int":
        """Bring the rows that go left to the front, in place; returns where the others begin.

        The first row that stands wrong changes places with the last one, and so on inwards. Rows
        were drawn in random order, and which way a row goes does not depend on its place: so the
        first rows of either side are a random sample of it again.
        """
        feature, goes_left = sides(word, code)
        rows, column = self.rows, self.data.columns[feature]
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

    def is_mixed(self, start: "int", end: "int") -> "bool":
        """Whether the rows have more than one label."""
        y, rows = self.data.y, self.rows
        first = y[rows[start]]
        for i in range(start + 1, end):
            if y[rows[i]] != first:
                return True
        return False

    def cells(self, start: "int", end: "int") -> "Any":
        """The classes of rows start..end; of a regression, how many rows and the sum of targets."""
        rows, y, times = self.rows, self.data.y, self.times
        if self.data.regression:
            from edgeforest.mse import sums

            return sums(rows, start, end, y, times)
        counts = [0] * self.data.width
        for i in range(start, end):
            row = rows[i]
            counts[y[row]] += times[row]
        return counts

    def draws(self, start: "int", end: "int") -> "int":
        """How many draws rows start..end stand for, as far as `min_samples_leaf` has to know."""
        if end - start >= self.task.min_samples_leaf:
            return end - start
        return sum([self.times[row] for row in self.rows[start:end]])


def distinct(codes: "list[int]") -> "list[int]":
    """These codes in order, each once. (A set would take a board three times as long.)"""
    codes.sort()
    last = 0
    for code in codes:
        if code != codes[last]:
            last += 1
            codes[last] = code
    return codes[: last + 1]


def between(codes: "list[int]", bins: "int") -> "list[int]":
    """Midway between every two of these codes; evenly over them if they need more bins."""
    many = len(codes)
    bins = min(bins, many)
    cuts = [0] * (bins - 1)
    for i in range(1, bins):
        at = i * many // bins
        cuts[i - 1] = (codes[at - 1] + codes[at]) >> 1
    return cuts


def sides(word: "int", code: "int") -> "tuple[int, bytearray]":
    """The feature of a split, and a table from code to whether it goes left."""
    feature, equal, missing_left = split_of(word) or (0, False, False)
    table = bytearray(256)
    if equal:
        table[code] = 1
    else:
        table[: code + 1] = b"\1" * (code + 1)
    table[0] = 1 if missing_left else 0
    return feature, table
