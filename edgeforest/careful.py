"""Numbers read one by one: None is accepted, and a value that is wrong is named.

A board loads this file when a column holds such values.
"""

from array import array

from edgeforest.forest import HUGE, as_float

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def careful_floats(given: "Any", what: "str") -> "array[float]":
    """A column of values as float32, NaN for None, none of them infinite."""
    values = array("f")
    for i, v in enumerate(given):
        x = as_float(v, i, what)
        if x == x and not -HUGE <= x <= HUGE:
            raise ValueError(
                f"row {i} of {what} is infinite or beyond float32, got {v!r}; NaN means missing"
            )
        values.append(x)
    return values
