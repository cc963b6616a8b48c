"""The loops over rows in viper, MicroPython's compiled subset: faster, for 2 kB of heap.

    from edgeforest.core_pure import Training
    from edgeforest_viper import ENGINE

    training = Training(columns, labels, by_column=True, engine=ENGINE)

For boards whose heap is too small for the native module. Viper computes with 32-bit integers and with
addresses, and checks neither: so everything that it is given is measured first, and what might not
fit is left to the loops of `edgeforest.nodes`. Forests are the same, bit for bit.

This file is compiled for one kind of processor (`firmware/build.py`); CPython cannot run it.
"""

from array import array

import micropython
from edgeforest.codes import Reader
from edgeforest.core_pure import Engine, Grower
from edgeforest.checks import check_steady
from edgeforest.nodes import Nodes, sides

PIECE = 1024  # rows between two looks at the clock
MOST = 30000  # rows drawn whose squares still add up in 32 bits
OPERATIONS = (
    "draw contenders race_small total rank measure better_threshold second_look is_mixed draws cells "
    "count partition"
)


@micropython.viper
def _insert(rows, times, y, column, table, cells, numbers) -> int:
    """Count rows into a histogram; returns the sum of their squared times."""
    r = ptr16(rows)
    t = ptr8(times)
    labels = ptr8(y)
    codes = ptr8(column)
    bins = ptr8(table)
    h = ptr32(cells)
    given = ptr32(numbers)
    i = given[0]
    end = given[1]
    stride = given[2]
    width = given[3]
    squares = 0
    while i < end:
        row = r[i]
        n = t[row]
        k = labels[row]
        if k < width:
            h[bins[codes[row]] + k * stride] += n
        squares += n * n
        i += 1
    return squares


@micropython.viper
def _part(rows, column, goes_left, numbers) -> int:
    """`Nodes.partition`."""
    r = ptr16(rows)
    codes = ptr8(column)
    left = ptr8(goes_left)
    given = ptr32(numbers)
    low = given[0]
    high = given[1] - 1
    while True:
        while low <= high and left[codes[r[low]]]:
            low += 1
        while low <= high and not left[codes[r[high]]]:
            high -= 1
        if low > high:
            return low
        row = r[low]
        r[low] = r[high]
        r[high] = row
        low += 1
        high -= 1


@micropython.viper
def _sweep(cells, sums, numbers):
    """Of every threshold: the sums of squares on both sides, and the rows on the left."""
    h = ptr32(cells)
    out = ptr32(sums)
    given = ptr32(numbers)
    bins = given[0]
    stride = given[1]
    width = given[2]
    left = 3 * bins  # here `sums` has the cells of the left side, then those of all
    total = left + width
    b = 0
    k = 0
    while k < width:
        out[left + k] = 0
        b += out[total + k] * out[total + k]
        k += 1
    a = 0
    n = 0
    t = 1
    while t < bins:
        k = 0
        while k < width:
            c = h[t + k * stride]
            had = out[left + k]
            a += c * (c + had + had)
            b += c * (c - 2 * (out[total + k] - had))
            out[left + k] = had + c
            n += c
            k += 1
        out[3 * t] = a
        out[3 * t + 1] = b
        out[3 * t + 2] = n
        t += 1


class ViperNodes:
    """The operations on the rows of a tree's nodes: `Nodes`, the slow ones of them in viper."""

    def __init__(self, task):
        self.task = task
        self.data = data = task.data
        nodes = self.nodes = Nodes(task)
        self.numbers = array("i", [0, 0, 0, 0])
        for name in OPERATIONS.split():
            setattr(self, name, getattr(nodes, name))
        self.fits = data.n < 65536 and _are_bytes(data.columns, data.n)
        if self.fits:
            self.partition = self.part
            if not data.regression and not data.weights and _are_bytes([data.y], data.n):
                self.count = self.count_rows
                self.cells = self.count_classes
                nodes.read = self.read
                nodes.add = self.add
                if task.criterion.name == "gini" and task.sample_size < MOST:
                    task.criterion.best_threshold = best_threshold

    def part(self, start, end, word, code):
        """Bring the rows that go left to the front, in place; returns where the others begin."""
        feature, goes_left = sides(word, code)
        column, n = self.data.columns[feature], self.data.n
        check_steady(len(column) >= n, "a column", n)
        self.numbers[0] = start
        self.numbers[1] = end
        return _part(self.nodes.rows, column, goes_left, self.numbers)

    def count_rows(self, racing, stride, start, end):
        """Count rows start..end into every racing feature's histogram, or as many as time allows."""
        budget = self.task.budget
        squares = 0
        for at in range(start, end, PIECE):
            if at > start and budget.late():
                budget.give_back(end - at, len(racing))
                end = at
                break
            for c in racing:
                more = self.add(c, (None, at, min(end, at + PIECE)), stride)
            squares += more
        return end, squares

    def count_classes(self, start, end):
        """The classes of rows start..end: a histogram of one bin."""
        counts = array("i", bytes(4 * self.data.width))
        self.insert(self.data.columns[0], bytes(256), counts, start, end, 1)
        return list(counts)

    def read(self, start, end):
        """The rows of a small node, and where they are."""
        return self.nodes.rows[start:end], start, end

    def add(self, c, values, stride):
        """Count what was read into one histogram; returns the sum of the squared times."""
        table = c.table
        if not hasattr(c, "cells"):  # the histogram once more, where viper can write to it
            c.cells = array("i", bytes(4 * len(c.h)))
        if c.equal:
            table = bytes(table) + bytes(256 - len(table))
        squares = self.insert(c.column, table, c.cells, values[1], values[2], stride)
        c.h = list(c.cells)
        return squares

    def insert(self, column, table, cells, start, end, stride):
        """Count rows start..end; codes and labels may change meanwhile, none leads elsewhere."""
        numbers, nodes, data = self.numbers, self.nodes, self.data
        check_steady(len(column) >= data.n <= len(data.y), "a column", data.n)
        numbers[0] = start
        numbers[1] = end
        numbers[2] = stride
        numbers[3] = data.width
        return _insert(nodes.rows, nodes.times, data.y, column, table, cells, numbers)


def best_threshold(h, bins, stride, total, least):
    """`Gini.best_threshold`: the sums in viper, the scores in the order of `gini`."""
    width = len(total)
    sums = array("i", bytes(4 * (3 * bins + width)))
    sums.extend(array("i", total))
    _sweep(array("i", h), sums, array("i", [bins, stride, width]))
    n = sum(total)
    best = None
    top = before = 0
    for t in range(1, bins):
        n_left = sums[3 * t + 2]
        if n_left > before and n_left >= least and n - n_left >= least:
            score = sums[3 * t] / n_left + sums[3 * t + 1] / (n - n_left)
            if score > top:
                top = score
                best = (score, t, False)
        before = n_left
    return best


def _are_bytes(columns, n):
    return all([isinstance(x, (bytes, bytearray)) and len(x) >= n for x in columns])


def grower(task):
    """Grows trees with `ViperNodes`."""
    return Grower(task, ViperNodes)


ENGINE = Engine("viper", Reader, grower)
