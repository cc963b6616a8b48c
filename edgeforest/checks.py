"""Checks of options: an error is one sentence that begins with the name of the argument.

This file runs unchanged on CPython and MicroPython.
"""

from edgeforest.forest import CRITERIA, KINDS, SPLITTERS

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
