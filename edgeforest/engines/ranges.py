"""The range of each feature in the rows that a forest was trained on, which its model file keeps.

A row far outside of it looks like nothing that the forest has seen: `edgeforest.scores` counts such
values. A forest that was trained from a source has ranges; `note_ranges` gives them to any other.
Boards do without, and ignore them in a file.

>>> from edgeforest import train
>>> forest = train([[1.0, 5], [3.0, 5], [None, 7]], ["a", "b", "b"], n_trees=2)
>>> forest.ranges is None
True
>>> note_ranges(forest, [[1.0, 5], [3.0, 5], [None, 7]])
>>> list(forest.ranges)
[1.0, 3.0, 5.0, 7.0]
"""

from __future__ import annotations

import math
import re
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from edgeforest.loading import check_whole, from_base64

if TYPE_CHECKING:
    from edgeforest.forest import Forest

NONE = (math.nan, math.nan)  # of a category, or of a feature without values
# No text can hold this: quotes in a name or a label are written as \".
_KEY = re.compile(rb'[,{]\s*"ranges"\s*:\s*"([^"\\]*)"')


def of_columns(columns: Iterable[Any], categorical: Iterable[int] = ()) -> array[float]:
    """The least and the largest value of each column of numbers; NaN twice for categories.

    >>> list(of_columns([array("f", [2.0, 1.0]), ["a", "b"]], categorical=[1]))
    [1.0, 2.0, nan, nan]
    """
    apart = set(categorical)
    found: array[float] = array("f")
    for f, column in enumerate(columns):
        found.extend(NONE if f in apart else _ends(column))
    return found


def note_ranges(forest: Forest, rows: Any) -> None:
    """Let a forest keep the range of each feature in these rows, those that it was trained on.

    >>> from edgeforest import train
    >>> forest = train([[1], [4]], ["a", "b"], n_trees=2)
    >>> note_ranges(forest, [[1], [4]])
    >>> list(forest.ranges)
    [1.0, 4.0]
    """
    coded = [forest.encode(row) for row in (forest.adapt(rows) if forest.adapt else rows)]
    kinds = [f for f, kinds in enumerate(forest.categories) if kinds is not None]
    columns = [array("f", column) for column in zip(*coded, strict=True)]
    forest.ranges = of_columns(columns, kinds)


def union(ranges: Sequence[array[float] | None]) -> array[float] | None:
    """The ranges of all rows of several trainings; None if those of one are not known.

    >>> list(union([array("f", [1, 2]), array("f", [0, 1])])), union([None])
    ([0.0, 2.0], None)
    """
    found: array[float] = array("f")
    for ends in zip(*[one or () for one in ranges], strict=False):
        known = [v for v in ends if v == v]
        found.append((max if len(found) % 2 else min)(known, default=math.nan))
    return found if found and all(ranges) else None


def take(forest: Forest, text: bytes) -> Forest:
    """Give a forest the ranges that the text of its model holds, if any; a ValueError if damaged."""
    match = _KEY.search(text)
    if match is None:
        return forest
    try:
        found = from_base64(match[1].decode(), "f")
    except ValueError:
        found = array("f")
    pairs = list(zip(found[::2], found[1::2], strict=False))
    sound = all(low <= high and high - high == 0 == low - low for low, high in pairs if low == low)
    if len(found) != 2 * forest.n_features or not sound:
        check_whole(None)
    forest.ranges = found
    return forest


def _ends(column: Any) -> tuple[float, float]:
    """The least and the largest of some float32 numbers; NaN twice if all are missing."""
    np: Any = sys.modules.get("numpy")
    if np is not None and isinstance(column, array):
        values = np.frombuffer(column, dtype=column.typecode) if len(column) else np.empty(0)
        values = values[~np.isnan(values)]
        return (float(values.min()), float(values.max())) if len(values) else NONE
    known = [v for v in column if v == v]
    return (min(known), max(known)) if known else NONE
