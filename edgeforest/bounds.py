"""Numbers become codes: where the codes of a feature begin and end, and the code of a number.

This file runs unchanged on CPython and MicroPython; a board whose features are bytes does not load it.
"""

from array import array

from edgeforest.forest import HUGE

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def make_bounds(values: "Iterable[float]") -> "array[float]":
    """The bounds of a feature's codes from a sample: code c holds bounds[c-1] < x <= bounds[c].

    Every bound is a float32. Few distinct values get a code each, with the bound midway between
    neighbours. For many, a quarter of the bounds are spread evenly over the distinct values and the
    others equally spaced: the first resolve the crowd, the others all else. (Not evenly over the
    rows: a sensor repeats the values of its idle hours, and most codes would go there.) The first
    and last bound are the sample's smallest and largest value; what lies beyond takes the first or
    last code.

    >>> list(make_bounds([1.0, 3.0, 3.0, float("nan"), 5.0]))
    [1.0, 2.0, 4.0, 5.0]
    """
    ordered: "list[float]" = []  # each value once
    for v in sorted([v for v in values if v == v]):
        if not ordered or v > ordered[-1]:
            ordered.append(v)
    if not ordered:
        return array("f", [0.0, 0.0])
    low, high = ordered[0], ordered[-1]
    n = parts = len(ordered)
    cuts = []
    if n > 255:
        parts = 64
        cuts = [low + (high - low) * i / 192 for i in range(1, 192)]
    for i in range(1, parts):
        a, b = ordered[i * n // parts - 1], ordered[i * n // parts]
        cut = array("f", [a * 0.5 + b * 0.5])[0]
        cuts.append(cut if cut < b else a)  # a, where no float32 lies between the two
    bounds = array("f", [low])
    for cut in sorted(array("f", cuts)):
        if low <= cut < high and (cut > bounds[-1] or len(bounds) == 1):
            bounds.append(cut + 0.0)  # not -0.0
    bounds.append(high)
    return bounds


def code_of(x: "float", bounds: "Sequence[float]") -> "int":
    """The code of one present number."""
    low, high = 1, len(bounds) - 1
    while low < high:
        middle = (low + high) >> 1
        if bounds[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


def encode(values: "Sequence[float]", bounds: "Sequence[float]") -> "bytearray":
    """Codes of float32 values; NaN has code 0. A grid of cells shortens each search."""
    codes = bytearray(len(values))
    last = len(bounds) - 1
    low = bounds[0]
    span = bounds[last] - low
    cells = min(1024, len(values)) if 0 < span <= HUGE else 0
    per = cells / span if cells else 0.0
    if not per or per > HUGE:
        cells, per = 0, 0.0
    # start[j]: bounds that lie in a cell before j. Subtracting, scaling and truncating keep
    # the order of two numbers, so all of them are below every value of cell j.
    start = bytearray(cells + 2)
    j = 0
    for c in range(1, last):
        cell = int((bounds[c] - low) * per)
        while j <= cell:
            start[j] = c - 1
            j += 1
    while j < cells + 2:
        start[j] = last - 1
        j += 1
    top = bounds[last]
    for i, x in enumerate(values):
        if low < x < top:
            j = int((x - low) * per)
            a = start[j]
            b = start[j + 1]
            while a < b:
                middle = (a + b) >> 1
                if bounds[middle + 1] < x:
                    a = middle + 1
                else:
                    b = middle
            codes[i] = a + 1
        elif x <= low:
            codes[i] = 1
        elif x >= top:
            codes[i] = last
    return codes
