"""What a source is, and views of a source: the same rows seen in another way.

>>> from edgeforest.sources import Table
>>> First(Table({"a": [10, 11, 12, 13, 14]}), 2).read([0, 1])
[[10, 11]]
"""

from __future__ import annotations

import marshal
import os
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from edgeforest.host.names import problem, quoted
from edgeforest.drawing import draw

if TYPE_CHECKING:
    from edgeforest.budget import Rng
    from edgeforest.forest import Forest


MAX_COLUMNS = 1 << 16  # of a source; a forest has at most 16,383 features
BLOCK_ROWS = 4096  # read at once when all rows are wanted, or a checksum of them
CHECKSUM_VALUES = 1_000_000  # a checksum of a file is made from at most about this many values
MAX_COMPLAINTS = 20  # bad rows that are described; all are counted


class SourceError(ValueError):
    """What is wrong with a source, in one sentence for its owner."""

    forest: Forest | None = None  # the trees that were done when a training met it


class Source:
    """Rows that are read when they are asked for.

    A new kind needs `names`, `__len__` and `read`. `texts` says that values are text as it stands in a file. Training then looks at the text to
    tell numbers from categories. Otherwise numbers are numbers already and text is a category.
    None (and NaN among numbers) is a missing value everywhere.
    """

    name = "the source"  # for sentences about it, such as a path
    names: list[str]  # of the columns
    texts = False
    decimal_comma = False  # 1,5 is a number (`texts` only)
    notes: Sequence[str] = ()  # sentences about values that were perhaps misunderstood
    room = 0  # bytes that reading takes, beside the rows that are asked for
    unnamed: Collection[str] = ()  # columns that the header does not name, such as R's row names
    categorical: Collection[str] = ()  # columns that are categories though they look like numbers

    def __len__(self) -> int:
        """How many rows there are."""
        raise NotImplementedError

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column.

        Rows are numbered from 0 and given in ascending order, each at most once. Rows that cannot
        be read are left out, and noted by `skip`.
        """
        raise NotImplementedError

    def read_as(self, rows: Sequence[int], kinds: str | None) -> list[Sequence[Any]]:
        """The values of these rows, by column, for somebody who knows what the columns are.

        `kinds` has a letter for each column: f or d if the values are wanted as an array of that
        type, - if they are not wanted, t otherwise; None is all t. A source that would have to parse
        text may return what is asked for; a column that holds other things is as `read` has it.
        """
        return self.read(rows)

    def __iter__(self) -> Iterator[list[Any]]:
        """All rows in order, read a block at a time."""
        for at in range(0, len(self), BLOCK_ROWS):
            block = self.read(range(at, min(len(self), at + BLOCK_ROWS)))
            yield from map(list, zip(*block, strict=True))

    def sample(self, count: int, rng: Rng) -> list[Sequence[Any]]:
        """The values of `count` random rows by column, each row at most once, in order."""
        return self.read(draw(rng, count, len(self)))

    def read_kept(
        self, rows: Sequence[int], kinds: str | None = None
    ) -> tuple[Sequence[int], list[Sequence[Any]]]:
        """Those of the rows that can be read, and their values by column: see `read_as`."""
        block = self.read_as(rows, kinds)
        if len(block[0]) < len(rows):
            rows = [row for row in rows if not self.is_bad(row)]
        return rows, block

    def line(self, row: int) -> int | None:
        """The line of a text file at which a row begins, None if there are no lines."""
        return None

    def where(self, row: int) -> str:
        """Where a row is, for a sentence about it."""
        return f"{_place(row, self.line(row))} of {self.name}"

    # ---- Bad rows

    max_bad = 0  # how many rows may be left out; more are an error
    bad: int = 0  # how many were left out

    def skip(self, row: int, line: int | None, why: str) -> None:
        """Note a row that cannot be used; a SourceError if there are too many."""
        place = _place(row, line)
        if len(self.complaints) < MAX_COMPLAINTS and (place, why) not in self.complaints:
            self.complaints.append((place, why))
        seen: set[int] = self._bad_rows
        seen.add(row)
        self.bad = len(seen)
        if self.bad > self.max_bad:
            more = f" (and {self.bad - 1} before it)" if self.bad > 1 else ""
            raise SourceError(
                f"{place} of {self.name} {why}{more}; fix it, or skip such rows with max_bad=N"
            )

    def is_bad(self, row: int) -> bool:
        """Whether a row was left out when it was asked for."""
        return row in self._bad_rows

    def __init__(self) -> None:
        self.complaints: list[tuple[str, str]] = []  # (place, what is wrong) of the first bad rows
        self._bad_rows: set[int] = set()

    # ---- What a checkpoint remembers

    path: str | None = None  # of the file, if there is one
    recipe: Any = (
        None  # the paths and options that open it elsewhere, if `open_source` opened files
    )

    def extent(self) -> dict[str, Any]:
        """What a checkpoint remembers of these rows: their origin, number, and a checksum."""
        return {**self.origin(), "rows": len(self), "crc32": self.checksum(len(self))}

    def first(self, extent: Mapping[str, Any]) -> Source | None:
        """A source of the rows that a checkpoint remembers, if this one still begins with them.

        None if it does not; the source itself if there are no other rows.
        """
        n = extent["rows"]
        if not 0 < n <= len(self) or self.checksum(n) != extent["crc32"]:
            return None
        return self if n == len(self) else First(self, n)

    def origin(self) -> dict[str, str]:
        """Its name, and checksums of its path and folder: a model may be given away."""
        if self.path is None:
            return {"name": self.name, "place": "", "folder": ""}
        real = os.path.realpath(self.path)
        folder, file = os.path.split(real)
        return {
            "name": self.name.replace(self.path, file),
            "place": f"{zlib.crc32(os.fsencode(self.name.replace(self.path, real))):08x}",
            "folder": f"{zlib.crc32(os.fsencode(folder)):08x}",
        }

    def checksum(self, n: int) -> str:
        """The checksum of the first n rows; for a large file, of a sample of them."""
        step = 1 if self.path is None else max(1, n * len(self.names) // CHECKSUM_VALUES)
        crc = zlib.crc32(repr(self.names).encode())
        for at in range(0, n, BLOCK_ROWS * step):
            for column in self.read(range(at, min(n, at + BLOCK_ROWS * step), step)):
                crc = zlib.crc32(_bytes(column), crc)
        return f"{crc:08x}"

    def check(self) -> None:
        """Raise a SourceError if it is not what it was when it was opened."""

    def close(self) -> None:
        """Close its files; reading opens them again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _place(row: int, line: int | None) -> str:
    return f"row {row}" if line is None else f"line {line}"


def _bytes(column: Any) -> bytes:
    """The values of a column as bytes, the same for the same values."""
    if hasattr(column, "tobytes") and getattr(getattr(column, "dtype", None), "kind", "") != "O":
        return bytes(column.tobytes())
    values = [v.item() if hasattr(v, "item") else v for v in column]
    try:
        return marshal.dumps(values, 2)  # in later versions the bytes depend on reference counts
    except ValueError:  # such as a date
        return repr(values).encode("utf-8", "surrogatepass")


def check_columns(source: Source) -> None:
    """Raise a SourceError if there are too many columns, or a name is not accepted."""
    if len(source.names) > MAX_COLUMNS:
        raise SourceError(
            f"{source.name} has {len(source.names):,} columns, at most {MAX_COLUMNS:,} can be read; "
            "choose fewer"
        )
    for name in source.names:
        if wrong := problem(name):
            raise SourceError(f"the column {quoted(name)} of {source.name} {wrong}; rename it")


class View(Source):
    """Another source seen in another way; by itself it shows the same rows."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source
        self.name, self.names = source.name, source.names
        self.texts, self.decimal_comma = source.texts, source.decimal_comma
        self.room = source.room
        self.unnamed, self.categorical = source.unnamed, source.categorical
        self.max_bad, self.bad, self.complaints = source.max_bad, source.bad, source.complaints

    def __len__(self) -> int:
        return len(self.source)

    def row_in_source(self, row: int) -> int:
        """The number that a row of the view has in the source."""
        return row

    def same_view(self, source: Source) -> Source | None:
        """The same view of a source of fewer rows; None if there is none."""
        raise NotImplementedError

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        return self.read_as(rows, None)

    def read_as(self, rows: Sequence[int], kinds: str | None) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        return self.read_from_source([self.row_in_source(row) for row in rows], kinds)[1]

    def read_from_source(
        self, rows: Sequence[int], kinds: str | None
    ) -> tuple[Sequence[int], list[Sequence[Any]]]:
        """Those rows of the source that can be read, and their values by column."""
        self.source.max_bad = self.max_bad
        try:
            return self.source.read_kept(rows, kinds)
        finally:
            self.bad = self.source.bad

    def line(self, row: int) -> int | None:
        return self.source.line(self.row_in_source(row))

    def where(self, row: int) -> str:
        return self.source.where(self.row_in_source(row))

    def is_bad(self, row: int) -> bool:
        return self.source.is_bad(self.row_in_source(row))

    def skip(self, row: int, line: int | None, why: str) -> None:
        self.source.max_bad = self.max_bad
        try:
            self.source.skip(self.row_in_source(row), line, why)
        finally:
            self.bad = self.source.bad

    def origin(self) -> dict[str, str]:
        """Where the rows of the source come from."""
        return self.source.origin()

    def extent(self) -> dict[str, Any]:
        """What a checkpoint remembers of the rows of the source."""
        return self.source.extent()

    def first(self, extent: Mapping[str, Any]) -> Source | None:
        """The same view of the source's first rows, if a checkpoint remembers them; else None."""
        source = self.source.first(extent)
        if source is None or source is self.source:
            return None if source is None else self
        return self.same_view(source)

    def check(self) -> None:
        """Raise a SourceError if the source is not what it was."""
        self.source.check()

    def close(self) -> None:
        """Close the source's files."""
        self.source.close()


class First(View):
    """The first n rows of a source."""

    def __init__(self, source: Source, n: int) -> None:
        super().__init__(source)
        self._n = n

    def __len__(self) -> int:
        return self._n

    def read_as(self, rows: Sequence[int], kinds: str | None) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        return self.read_from_source(rows, kinds)[1]

    def extent(self) -> dict[str, Any]:
        """What a checkpoint remembers of these rows."""
        return {**self.source.origin(), "rows": self._n, "crc32": self.source.checksum(self._n)}

    def first(self, extent: Mapping[str, Any]) -> Source | None:
        """These rows or fewer of them, if a checkpoint remembers them; else None."""
        if extent["rows"] > self._n:
            return None
        found = self.source.first(extent)
        return self if found is not None and extent["rows"] == self._n else found
