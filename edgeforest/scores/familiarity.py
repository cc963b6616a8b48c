"""Count values that look like nothing that a forest was trained on.

>>> from edgeforest import train
>>> from edgeforest.engines.ranges import note_ranges
>>> rows = [[20 + i % 7, "open" if i % 3 else "shut"] for i in range(60)]
>>> forest = train(rows, [i % 7 > 2 for i in range(60)], categorical=[1], names=["temp", "window"])
>>> note_ranges(forest, rows)
>>> seen = Familiarity(forest)
>>> seen.add([[21, "open"], [35, "ajar"]])
>>> [(odd.name, odd.count, odd.example) for odd in seen.odd()], seen.share
([('temp', 1, 35), ('window', 1, 'ajar')], 0.5)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgeforest.forest import Forest


@dataclass
class Odd:
    """What is odd about a feature: how many values, and the first of them.

    >>> Odd("temp", count=3, share=0.1, example=35.0, low=19.0, high=23.0).example
    35.0
    """

    name: str
    count: int
    share: float  # of the rows
    example: Any
    low: float | None = None  # the range of the training; None for a category
    high: float | None = None


class Familiarity:
    """Counts values beyond the range of the training, and categories that it has not met.

    A forest without ranges (`known` is False) still knows its categories.

    >>> from edgeforest import train
    >>> seen = Familiarity(train([["a"], ["b"]], [0, 1], categorical=[0], n_trees=1))
    >>> seen.add([["a"], ["c"]])
    >>> seen.known, seen.share
    (False, 0.5)
    """

    def __init__(self, forest: Forest) -> None:
        self.known = forest.ranges is not None
        self.rows = 0
        self._names = forest.names
        self._kinds = [None if kinds is None else set(kinds) for kinds in forest.categories]
        self._ends = (
            list(zip(forest.ranges[::2], forest.ranges[1::2], strict=True))
            if forest.ranges is not None
            else []
        )
        self._counts = [0] * len(forest.names)
        self._examples: list[Any] = [None] * len(forest.names)

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        """Count some rows: numbers, and categories as they are written."""
        self.rows += len(rows)
        for f, column in enumerate(zip(*rows, strict=True)):
            kinds = self._kinds[f]
            if kinds is not None:
                odd = [v for v in column if v is not None and v == v and v not in kinds]
            elif self._ends and self._ends[f][0] == self._ends[f][0]:
                low, high = self._ends[f]
                far = 1e-6 * max(abs(low), abs(high))  # the ends are float32
                odd = [
                    v
                    for v in column
                    if v is not None and not low - far <= v <= high + far and v == v
                ]
            else:
                continue
            if odd:
                if not self._counts[f]:
                    self._examples[f] = odd[0]
                self._counts[f] += len(odd)

    @property
    def share(self) -> float:
        """The share of all values that are odd."""
        return sum(self._counts) / max(1, self.rows * len(self._names))

    def odd(self) -> list[Odd]:
        """The features with odd values, the oddest first."""
        found = []
        for f, times in enumerate(self._counts):
            if times:
                ends = self._ends[f] if self._ends and self._kinds[f] is None else (None, None)
                found.append(
                    Odd(self._names[f], times, times / self.rows, self._examples[f], *ends)
                )
        return sorted(found, key=lambda odd: -odd.count)

    def facts(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return {"share": self.share, "features": [vars(odd) for odd in self.odd()]}
