"""Rows to predict that are not plain numbers: categories, None, generators, mistakes.

A board loads this file when it is given one. It imports nothing of ours, because `forest` imports it,
and runs unchanged on CPython and MicroPython.
"""

from array import array

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *

NAN = float("nan")


def as_rows(rows: "Any") -> "Any":
    """Rows that are no sequence, as a list."""
    if isinstance(rows, (str, dict, set)) or not hasattr(rows, "__iter__"):
        raise TypeError(f"give a row, or a list of rows; got {rows!r}")
    return list(rows)


def encode_row(forest: "Any", row: "Any", is_list: "bool") -> "array[float]":
    """A row of any kind as the float32 numbers that trees compare: see `Forest.encode`."""
    if not is_list or len(row) != forest.n_features:
        given = len(row) if is_list else repr(row)
        raise ValueError(f"a row must have {forest.n_features} values, got {given}")
    values = array("f")
    for f, v in enumerate(row):
        try:
            place = forest.places[f]
            if place is None:
                v = as_float(v, 0, "")
            else:  # an unknown category goes as missing goes
                v = place.get(v.item() if hasattr(v, "item") else v, NAN)
            values.append(v)
        except TypeError:
            raise TypeError(f"feature {forest.names[f]!r} must be a number, got {v!r}") from None
    return values


def as_float(v: "Any", i: "int", what: "str") -> "float":
    """A value as a float, NaN for None; a TypeError if it is not a number."""
    try:
        if not isinstance(v, (str, bytes, bytearray)):
            return NAN if v is None else float(v)
    except (TypeError, ValueError):
        pass
    except OverflowError:
        return float("inf" if v > 0 else "-inf")
    raise TypeError(f"row {i} of {what} must be a number, got {v!r}")
