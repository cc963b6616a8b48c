"""Parquet files as sources, by way of pyarrow.

>>> from pyarrow import parquet, table
>>> parquet.write_table(table({"temp": [20.5, 24.0], "window": ["shut", "open"]}), "log.parquet")
>>> Parquet("log.parquet").read([0, 1])
[array('d', [20.5, 24.0]), ['shut', 'open']]
"""

from __future__ import annotations

import contextlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import accumulate
from typing import Any

from edgeforest.host.arrow import arrow_usable, arrow_values
from edgeforest.host.names import short
from edgeforest.sources.base import SourceError
from edgeforest.sources.columns import by_part, checked_rows, extended
from edgeforest.sources.file import FileSource, PathType
from edgeforest.sources.snapshot import Snapshot

BATCH_BYTES = 1_000_000  # of a row group that are in memory at a time
PAGE_BYTES = 2_400_000  # of a column that pyarrow holds: its dictionary and a page


class Parquet(FileSource):
    """The rows of a Parquet file, by way of pyarrow.

    Only the row groups that hold the wanted rows are read. A small group stays in memory until
    another is wanted. A large one is read in batches, from its first row to the last that is
    wanted. Pack a file first (`pack`) if you read it many times.

    Truth values become 0 and 1, points in time and durations seconds, decimals floats, categories
    their text, nulls None. Columns of lists, structures or bytes are left out; `left_out` names
    them.
    """

    def __init__(self, path: PathType) -> None:
        super().__init__(path)
        try:
            self._arrow: Any = import_module("pyarrow")
            self._parquet: Any = import_module("pyarrow.parquet")
        except ImportError:
            raise SourceError(
                "Parquet files need pyarrow; install it: pip install 'edgeforest[parquet]'"
            ) from None
        self._file: Any = None
        self._group: _Group | None = None
        self.names = []
        self.left_out: list[str] = []
        with self._sentences():
            with open(self.path, "rb") as plain:
                self.snapshot = Snapshot(self.path, plain, grows=False)
            file = self._open()
            meta = file.metadata
            sizes: list[int] = [meta.row_group(g).num_rows for g in range(meta.num_row_groups)]
            fields = list(file.schema_arrow)
        self._starts: list[int] = [0, *accumulate(sizes)]
        self.room = max(_room(meta.row_group(g)) for g in range(len(sizes))) if sizes else 0
        for field in fields:
            usable = arrow_usable(self._arrow, field.type)
            (self.names if usable else self.left_out).append(field.name)
        times = Counter(field.name for field in fields)
        twice = [name for name in self.names if times[name] > 1]
        if twice:
            raise SourceError(f"{self.name} has more than one column {twice[0]!r}")
        if not len(self) or not self.names:
            raise SourceError(f"{self.name} has no rows, or no column of numbers or text")

    def __len__(self) -> int:
        return self._starts[-1]

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):
            self.close()

    def close(self) -> None:
        """Close the file and free the last group; reading opens it again."""
        self._group = None
        if self._file is not None:
            self._file.close()
            self._file = None

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except SourceError:
            raise
        except (OSError, ValueError, KeyError, TypeError, NotImplementedError) as error:
            # pyarrow's own errors are among these
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise SourceError(f"cannot read {self.name}: {short(line, 200)}") from None

    def _open(self) -> Any:
        if self._file is None:
            # Read a piece of each column at a time: not all of it, and not ahead of what is asked.
            self._file = self._parquet.ParquetFile(
                self.path, memory_map=False, buffer_size=32768, pre_buffer=False
            )
        return self._file

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        rows = checked_rows(rows, len(self), self.name)
        self.check()
        columns: list[Any] = [array("d") for _ in self.names]
        with self._sentences():
            for g, some in by_part(rows, self._starts):
                if self._group is None or self._group.number != g or self._group.start > some[0]:
                    self._group = None  # not two at a time
                    self._arrow.default_memory_pool().release_unused()
                    self._group = _Group(self._arrow, self._open(), g, self.names)
                for table in self._group.take(some):
                    pieces = [arrow_values(self._arrow, table.column(name)) for name in self.names]
                    columns = list(map(extended, columns, pieces))
        self.check()
        return columns


def _room(group: Any) -> int:
    """About how many bytes pyarrow takes to read a row group: some pages of each column."""
    sizes = [int(group.column(f).total_uncompressed_size) for f in range(group.num_columns)]
    return 2 * BATCH_BYTES + sum(min(size, PAGE_BYTES) * 3 // 2 for size in sizes)


class _Group:
    """A row group of a Parquet file, read from its first row to its last in batches."""

    def __init__(self, arrow: Any, file: Any, number: int, names: list[str]) -> None:
        self.number = number
        self.start = 0  # of the rows that are in memory
        self._arrow = arrow
        self._table: Any = None
        meta = file.metadata.row_group(number)
        rows = meta.num_rows
        if meta.total_byte_size > BATCH_BYTES:
            rows = max(64, rows * BATCH_BYTES // meta.total_byte_size)
        self._batches = file.iter_batches(
            rows, row_groups=[number], columns=names, use_threads=False
        )

    def take(self, rows: Sequence[int]) -> Iterator[Any]:
        """Tables of these rows, which ascend and do not lie before `start`."""
        at = 0
        while at < len(rows):
            end = self.start + (0 if self._table is None else len(self._table))
            if rows[at] >= end:
                self._table = None  # before the next one is read
                self._table = self._arrow.Table.from_batches([next(self._batches)])
                self.start = end
                continue
            upto = bisect_left(rows, end, at)
            some = [row - self.start for row in rows[at:upto]]
            at = upto
            if some[-1] - some[0] + 1 == len(some):
                yield self._table.slice(some[0], len(some))
            else:
                yield self._table.take(self._arrow.array(some, self._arrow.int64()))
