"""Many rows or targets at once, for an `OnlineForest`: as numbers, without a look at each.

This file runs unchanged on CPython and MicroPython.
"""

from array import array

from edgeforest.forest import HUGE, is_sequence
from edgeforest.rows import as_rows

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def sliceable(values: "Any") -> "Any":
    """Values or rows as something that has a length and can be sliced."""
    if hasattr(values, "to_numpy"):  # a DataFrame or a Series
        return values.to_numpy()
    if hasattr(values, "suboffsets") and values.ndim > 1:  # Python cannot slice this memoryview
        return values.tolist()
    return values if is_sequence(values) else as_rows(values)


def encoded(head: "Any", rows: "Any", listed: "Any") -> "array[float] | None":
    """The float32 numbers of rows, one row after the other; None if each has to be looked at.

    `listed` is an engine's own way to read rows that are lists, or None.
    """
    m = head.n_features
    if not head.all_numbers:
        rows = _coded(head.places, rows)
        if rows is None:
            return None
    found = _flat(rows, m)
    if found is None and listed:
        found = listed(rows, m)
    return _listed(rows, m) if found is None else found


def levels(
    numbers: "Iterable[float]", low: "float", per: "float", at: "float", scale: "int"
) -> "array[int]":
    """Numbers as levels; float32 may round those at the ends to just outside the range."""
    found = [int((v - low) * per + at + 0.5) for v in numbers]
    if found and (min(found) < 0 or max(found) > scale):
        found = [max(0, min(scale, v)) for v in found]
    return array("H", found)


def _coded(places: "list[Any]", rows: "Any") -> "list[Any] | None":
    """Rows with the codes of their categories; None if one is new or missing, or a row is not a list."""
    if hasattr(rows, "tolist"):
        rows = rows.tolist()
    if not all([isinstance(row, (list, tuple)) for row in rows]):
        return None
    rows = [list(row) for row in rows]
    try:
        for f, codes in enumerate(places):
            if codes is not None:
                for row in rows:
                    row[f] = codes[row[f]]
    except (KeyError, TypeError, IndexError):
        return None
    return rows  # type: ignore[no-any-return]


def _flat(rows: "Any", m: "int") -> "array[float] | None":
    """The numbers of a NumPy array of rows, all at once; None if each has to be looked at."""
    if hasattr(rows, "dtype") and getattr(rows, "ndim", 0) == 2 and rows.dtype.kind in "fiub":
        if rows.shape[1] != m:
            raise ValueError(f"a row must have {m} values, got {rows.shape[1]}")
        values = rows.astype("float32")
        if (abs(values) > HUGE).any():
            return None  # one of them is infinite
        return array("f", values.tobytes())
    return None


def _listed(rows: "Any", m: "int") -> "array[float] | None":
    """The numbers of rows in lists, all at once; None if each has to be looked at."""
    try:
        for row in rows:
            if len(row) != m:
                return None
        values = array("f", [v for row in rows for v in row])
    except (TypeError, ValueError, OverflowError):
        return None
    total = sum(values)
    return values if total - total == 0 and len(values) == m * len(rows) else None
