"""Several sources one after the other, as one: the files of many days.

>>> from edgeforest.sources import Table
>>> day1 = Table([[20.5, "shut"]], names=["temp", "window"])
>>> day2 = Table([["open", 24.0], ["open", 25.5]], names=["window", "temp"])
>>> Joined([day1, day2]).read([0, 2])
[[20.5, 25.5], ['shut', 'open']]
"""

from __future__ import annotations

import operator
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from edgeforest.sources.base import MAX_COMPLAINTS, Source, SourceError
from edgeforest.sources.columns import array_or_list, by_part, checked_rows, extended


class Joined(Source):
    """Several sources one after the other, as one. Their columns must be the same, in any order."""

    def __init__(self, sources: Iterable[Source]) -> None:
        super().__init__()
        self._sources = list(sources)
        if not self._sources:
            raise SourceError("there is nothing to join; give at least one source")
        first = self._sources[0]
        self.name = first.name
        if len(self._sources) > 1:
            self.name = f"{first.name} and {len(self._sources) - 1} more"
        self.names = list(first.names)
        self.texts, self.decimal_comma = first.texts, first.decimal_comma
        self.room = sum(source.room for source in self._sources)
        self.unnamed, self.categorical = first.unnamed, first.categorical
        for source in self._sources:
            self._compare(source)
        self._orders = [[s.names.index(name) for name in self.names] for s in self._sources]
        self._starts = [0, *accumulate(len(source) for source in self._sources)]
        self._note_bad()

    def _compare(self, source: Source) -> None:
        first = self._sources[0].name
        for name in source.names:
            if source.names.count(name) > 1:
                raise SourceError(f"{source.name} has more than one column {name!r}")
        for name in self.names:
            if name not in source.names:
                raise SourceError(f"{source.name} has no column {name!r}, but {first} has one")
        for name in source.names:
            if name not in self.names:
                raise SourceError(f"{source.name} has a column {name!r}, but {first} has none")
        if (source.texts, source.decimal_comma) != (self.texts, self.decimal_comma):
            raise SourceError(
                f"{source.name} and {first} write numbers differently; pack() each before you join "
                "them"
            )

    def __len__(self) -> int:
        return self._starts[-1]

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        return self.read_as(rows, None)

    def read_as(self, rows: Sequence[int], kinds: str | None) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        rows = checked_rows(rows, len(self), self.name)
        columns: list[Any] = [array("d") for _ in self.names]
        for k, some in by_part(rows, self._starts):
            source = self._sources[k]
            source.max_bad = max(source.max_bad, self.max_bad - self.bad + source.bad)
            theirs = kinds and "".join(kind for _, kind in sorted(zip(self._orders[k], kinds)))
            block = source.read_as(some, theirs)
            for f, place in enumerate(self._orders[k]):
                piece = block[place]
                columns[f] = extended(columns[f], array_or_list(piece))
            self._note_bad()
        return columns

    def _note_bad(self) -> None:
        self.bad = sum(source.bad for source in self._sources)
        if len(self.complaints) < MAX_COMPLAINTS:
            found = [
                (f"{place} of {source.name}", why)
                for source in self._sources
                for place, why in source.complaints
            ]
            self.complaints[:] = found[:MAX_COMPLAINTS]

    def _part(self, row: int) -> tuple[Source, int]:
        """The source that has a row, and which row it is there."""
        k = bisect_right(self._starts, row) - 1
        return self._sources[k], row - self._starts[k]

    def line(self, row: int) -> int | None:
        source, row = self._part(row)
        return source.line(row)

    def where(self, row: int) -> str:
        source, row = self._part(row)
        return source.where(row)

    def is_bad(self, row: int) -> bool:
        source, row = self._part(row)
        return source.is_bad(row)

    def skip(self, row: int, line: int | None, why: str) -> None:
        source, row = self._part(row)
        source.skip(row, line, why)
        self._note_bad()

    def check(self) -> None:
        """Raise a SourceError if one of them has changed."""
        for source in self._sources:
            source.check()

    def origin(self) -> dict[str, str]:
        """A name for them, and a checksum of their folder: files may come and go there."""
        parts = [source.origin() for source in self._sources]
        name = self.name.replace(self._sources[0].name, parts[0]["name"])
        folders = {part["folder"] for part in parts}
        return {"name": name, "place": "", "folder": folders.pop() if len(folders) == 1 else ""}

    def extent(self) -> dict[str, Any]:
        """What a checkpoint remembers of these rows: the extent of each source."""
        parts = [source.extent() for source in self._sources]
        crc = zlib.crc32("".join(part["crc32"] for part in parts).encode())
        return {**self.origin(), "rows": len(self), "crc32": f"{crc:08x}", "parts": parts}

    def first(self, extent: Mapping[str, Any]) -> Source | None:
        """The sources as far as a checkpoint remembers them, if they still begin so; else None."""
        rest = list(self._sources)
        found = []
        for part in (parts := extent.get("parts", [extent])):
            while rest:  # others may have come between them
                source = rest.pop(0).first(part)
                if source is not None:
                    found.append(source)
                    break
        if len(found) != len(parts):
            return None
        if len(found) == len(self._sources) and all(map(operator.is_, found, self._sources)):
            return self
        joined = Joined(found)
        joined.max_bad = self.max_bad
        return joined
