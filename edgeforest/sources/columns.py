"""Columns and row numbers: the small steps that several sources share.

>>> from array import array
>>> extended(array("d", [1.0]), array("d", [2.0]))
array('d', [1.0, 2.0])
>>> extended(array("d", [1.0]), ["open"])
[1.0, 'open']
>>> list(by_part([0, 2, 3], starts=[0, 2, 5]))
[(0, [0]), (1, [0, 1])]
"""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from edgeforest.sources.base import SourceError
from edgeforest.host.words import count


def checked_rows(rows: Sequence[int], n: int, name: str, again: bool = False) -> Sequence[int]:
    """The same rows, if a source of n rows has them and they ascend.

    With `again`, a row may be there more than once.
    """
    if hasattr(rows, "tolist"):  # an array: its numbers are slow one by one
        rows = rows.tolist()
    elif not isinstance(rows, range | list | tuple):
        rows = [int(row) for row in rows]
    if not rows:
        return rows
    wrong = operator.gt if again else operator.ge
    if rows.step < 0 if isinstance(rows, range) else any(map(wrong, rows, islice(rows, 1, None))):
        once = "" if again else ", each at most once"
        raise SourceError(f"rows of {name} must be in ascending order{once}; sort them")
    for row in (rows[0], rows[-1]):
        if not 0 <= row < n:
            raise SourceError(
                f"{name} has no row {row}; it has {count(n, 'row')}, and the first is row 0"
            )
    return rows


def picked(values: Any, places: list[int]) -> Any:
    """The values at these places, in an array or a list as before."""
    found = [values[i] for i in places]
    return array(values.typecode, found) if isinstance(values, array) else found


def without(values: Any, places: list[int]) -> Any:
    """The values but those at these places, which ascend; in an array or a list as before.

    >>> without([10, 11, 12, 13], [0, 2])
    [11, 13]
    """
    found = values[:0]
    at = 0
    for place in places:
        found += values[at:place]
        at = place + 1
    found += values[at:]
    return found


def extended(column: Any, piece: Any) -> Any:
    """A column with more values at its end; a list where an array cannot hold them."""
    if isinstance(column, array):
        if not column:
            return piece[:]  # it may belong to the source
        if not (isinstance(piece, array) and piece.typecode == column.typecode):
            column = column.tolist()
    column.extend(piece)
    return column


def array_or_list(values: Any) -> Any:
    """A column as `array.array` or list, whatever it was."""
    if isinstance(values, (array, list)):
        return values
    return values.tolist() if hasattr(values, "tolist") else list(values)


def by_part(rows: Sequence[int], starts: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    """(part, rows within it) for rows that run over parts which start at these rows."""
    i = 0
    while i < len(rows):
        part = bisect_right(starts, rows[i]) - 1
        start = starts[part]
        j = bisect_left(rows, starts[part + 1], i)
        some = rows[i:j]
        if isinstance(some, range):
            yield part, range(some.start - start, some.stop - start, some.step)
        else:
            yield part, [row - start for row in some]
        i = j


def distinct_names(names: Sequence[str]) -> list[str]:
    """Names for columns, none of them empty and no two the same: a, a.2, column 3.

    >>> distinct_names(["a", "a", "", "a.2"])
    ['a', 'a.3', 'column 3', 'a.2']
    """
    taken = set(names)
    used: set[str] = set()
    numbers: dict[str, int] = {}  # the last number given, by name
    found = []
    for place, name in enumerate(names, 1):
        base = name or f"column {place}"
        name = base
        while name in used or (name != names[place - 1] and name in taken):
            numbers[base] = numbers.get(base, 1) + 1
            name = f"{base}.{numbers[base]}"
        used.add(name)
        found.append(name)
    return found
