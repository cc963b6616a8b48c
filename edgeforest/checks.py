"""Checks of options and values: an error is one sentence that begins with the argument's name.

This file runs unchanged on CPython and MicroPython.
"""

from array import array

from edgeforest.forest import CRITERIA, INF, KINDS, SPLITTERS, is_sequence

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def one_of(name: "str", value: "Any", allowed: "tuple[str, ...]") -> "None":
    """Refuse a value that is none of those allowed."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def refuse_unknown(kind: "str", criterion: "str", splitter: "str") -> "None":
    """Refuse a kind, criterion or splitter that does not exist."""
    one_of("kind", kind, KINDS)
    one_of("criterion", criterion, CRITERIA)
    one_of("splitter", splitter, SPLITTERS)


def between(name: "str", value: "Any", low: "float", high: "float", advice: "str" = "") -> "Any":
    """The value as a plain number of the kind of `low`; refused if it is not from low to high."""
    whole = isinstance(low, int)
    fits = hasattr(value, "__index__" if whole else "__float__")  # NumPy's numbers too
    if isinstance(value, bool) or not (fits or isinstance(value, int if whole else (int, float))):
        raise TypeError(
            f"{name} must be a {'whole ' if whole else ''}number, got {value!r}{advice}"
        )
    if not low <= value <= high:
        upto = f"from {low} to {high}" if high < 1e300 else f"at least {low}"
        raise ValueError(f"{name} must be {upto}, got {value}{advice}")
    return int(value) if whole else float(value)


def plain(v: "Any", i: "int", what: "str") -> "Any":
    """A label or category as plain Python that JSON can hold; None where it is missing."""
    if hasattr(v, "item") and not is_sequence(v):
        v = v.item()
    if v is None:
        return None
    if not isinstance(v, (str, int, float, bool)) or v in (INF, -INF):
        raise TypeError(f"row {i} of {what} must be text or a number, got {v!r}")
    return v if v == v else None


def sorted_set(values: "Iterable[Any]", what: "str") -> "list[Any]":
    """The distinct values in their order."""
    try:
        return sorted(set(values))
    except TypeError:
        raise ValueError(f"{what} must be all text or all numbers, got a mixture") from None


def floats(given: "Any", what: "str") -> "array[float]":
    """A column of values as float32, none of them infinite."""
    try:
        values = array("f", list(given))  # a list: an array made of bytes would take their bits
        total = sum(values)
        if total - total == 0 or all([v - v == 0 or v != v for v in values]):
            return values
    except (TypeError, ValueError, OverflowError):
        pass
    from edgeforest.careful import careful_floats

    return careful_floats(given, what)
