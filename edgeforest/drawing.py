"""Draw which rows to read: a random sample of all of them.

This file runs unchanged on CPython and MicroPython.
"""

from array import array

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.budget import Rng
    from edgeforest.host.types import *


def draw(rng: "Rng", count: "int", n: "int") -> "Sequence[int]":
    """Numbers of `count` of n rows, drawn at random, none twice, in ascending order.

    The rows are divided into `count` parts of the same length and one is drawn from each: no time
    of a log is left out.

    >>> from edgeforest.budget import Rng
    >>> list(draw(Rng(1), 3, 1000))
    [211, 431, 804]
    """
    if count >= n:
        return range(n)
    numbers = array("I", bytes(4 * count))
    low = 0
    for i in range(count):
        high = (i + 1) * n // count
        numbers[i] = low + rng.below(high - low)
        low = high
    return numbers
