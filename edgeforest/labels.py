"""Labels and categories of all kinds: text, numbers, and what is missing among them.

A board whose labels are a bytearray of 0, 1, 2 and so on does not load this file.

This file runs unchanged on CPython and MicroPython.
"""

from array import array

from edgeforest.checks import check_steady
from edgeforest.forest import INF, is_sequence

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def read_labels(y: "Any", n: "int") -> "tuple[list[Any], Any]":
    """The classes in their order, and the place of each row's class among them."""
    try:
        kinds: "Any" = {plain(v, 0, "") for v in set(y)}
    except TypeError:
        kinds = [None]
    if None in kinds:  # something is wrong: find the first row where
        for i, v in enumerate(y):
            if plain(v, i, "the labels") is None:
                raise ValueError(f"the label of row {i} is missing; drop rows without a label")
    classes = sorted_set(kinds, "labels")
    if len(classes) > 4096:
        raise ValueError(
            f"at most 4096 classes, got {len(classes)}; for numbers use criterion='mse'"
        )
    place = {v: k for k, v in enumerate(classes)}
    codes: "Any" = bytearray(n) if len(place) < 257 else array("H", bytes(2 * n))
    i = -1
    for i, v in enumerate(y):
        codes[i] = place[v]
    check_steady(i + 1 == n, "y", n)
    return classes, codes


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
