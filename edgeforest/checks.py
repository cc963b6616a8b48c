"""What the user gave, where it needs a second look: numbers of other kinds, shares, mistakes.

An error about an argument begins with its name. A board loads this file when something is wrong,
or when an option is not a plain number.

This file runs unchanged on CPython and MicroPython.
"""

from edgeforest.forest import CRITERIA, INF, KINDS, MASK, SPLITTERS, is_sequence

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *

LATE = "the time was up while rows were read; give more seconds"


def one_of(name: "str", value: "Any", allowed: "tuple[str, ...]") -> "None":
    """Refuse a value that is none of those allowed."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def refuse_unknown(kind: "str", criterion: "str", splitter: "str") -> "None":
    """Refuse a kind, criterion or splitter that does not exist."""
    one_of("kind", kind, KINDS)
    one_of("criterion", criterion, CRITERIA)
    one_of("splitter", splitter, SPLITTERS)


def as_number(name: "str", value: "Any", low: "float", high: "float", advice: "str" = "") -> "Any":
    """The value as a plain number of the kind of `low`; refused if it is not from low to high."""
    whole = isinstance(low, int)
    fits = hasattr(value, "__index__" if whole else "__float__")  # NumPy's numbers too
    if isinstance(value, bool) or not (fits or isinstance(value, int if whole else (int, float))):
        raise TypeError(
            f"{name} must be a {'whole ' if whole else ''}number, got {value!r}{advice}"
        )
    if not low <= value <= high or value == INF:
        upto = f"from {low} to {high}" if high < INF else f"at least {low}"
        raise ValueError(f"{name} must be {upto}, got {value}{advice}")
    return int(value) if whole else float(value)


def part_of(name: "str", value: "Any", whole: "int") -> "int":
    """How many that is: a whole number, or a share of `whole` if it is a float."""
    if isinstance(value, float):
        return max(1, int(as_number(name, value, 1e-9, 1.0) * whole))
    return min(whole, int(as_number(name, value, 1, MASK)))


def amount(value: "Any") -> "int | str":
    """What was given instead of a list of the right length."""
    return len(value) if is_sequence(value) else repr(value)


def refuse_length(name: "str", n: "int", what: "str", given: "Any") -> "None":
    """Refuse a list that is none, or not of the right length."""
    raise ValueError(f"{name} must be a list of {n} {what}, got {amount(given)}")


def check_steady(holds: "bool", what: "str", n: "int") -> "None":
    """Refuse data that are not what `len` said, or were something else when they were read again."""
    if not holds:
        raise ValueError(f"{what} must yield {n} values, as its length says, and not change")


def check_in_time(budget: "Any") -> "None":
    """Refuse to read on when the time is up."""
    if budget.late():
        raise ValueError(LATE)
