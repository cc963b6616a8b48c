"""A fair choice of rows: which of many to read, drawn at random from all of them."""

from array import array

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def draw(rng, count, n):
    """Numbers of `count` of n rows, drawn at random, none twice, in ascending order.

    One of each of `count` stretches of the same length: no time of a log is missed.

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
