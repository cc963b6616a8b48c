"""A column of numbers, read with care: None is accepted, and a value that is wrong is named.

A board loads this file for targets, and for features that are not bytes.

This file runs unchanged on CPython and MicroPython.
"""

from array import array

from edgeforest.forest import HUGE

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def floats(given: "Any", what: "str") -> "array[float]":
    """A column of values as float32, NaN for None, none of them infinite."""
    try:
        values = array("f", list(given))  # a list: an array made of bytes would take their bits
        total = sum(values)
        if total - total == 0 or all([v - v == 0 or v != v for v in values]):
            return values
    except (TypeError, ValueError, OverflowError):
        pass
    from edgeforest.rows import as_float

    values = array("f")
    for i, v in enumerate(given):
        x = as_float(v, i, what)
        if x == x and not -HUGE <= x <= HUGE:
            raise ValueError(
                f"row {i} of {what} is infinite or beyond float32, got {v!r}; NaN means missing"
            )
        values.append(x)
    return values
