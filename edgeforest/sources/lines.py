"""Text files, one record a line: what CSV, JSON lines and the line protocol share.

A file may be far larger than memory. An index of where records begin is made in one pass and kept
beside the file (see `line_index`); after that any row is read without the rows before it.

>>> with open("words.txt", "w") as stream:
...     _ = stream.write("one\\n\\n# a comment\\ntwo\\nthree\\n")
>>> with Lines("words.txt", comment="#") as words:
...     len(words), words.read([0, 2]), words.line(2)
(3, [['one', 'three']], 5)
"""

from __future__ import annotations

import os
import random
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgeforest.sources.base import MAX_COLUMNS, Source, SourceError
from edgeforest.sources.columns import checked_rows
from edgeforest.sources.file import OnProgress, PathType
from edgeforest.sources.line_index import LineIndex
from edgeforest.sources.records import Records
from edgeforest.sources.text_file import TextFile

CHUNK = 1 << 18  # bytes that are read in one go where many rows follow each other
BATCH = 2048  # records that are parsed in one go ...
BATCH_BYTES = 1 << 20  # ... or fewer, if they are long
SAMPLE = 1000  # rows that are read to find the names of columns


class Lines(Source):
    """A file of records, one a line; by itself a column of text, and the base of other formats.

    The rows are those that were there when it was opened; lines that are appended later are not
    seen. If the last line has no line end and cannot be read, it is taken as half-written: it is
    left out and noted in `complaints`. Blank lines are not records, nor are lines that start with
    `comment`. `progress` is called with the bytes done and the bytes of all while the file is
    unpacked, and again while it is indexed.
    Use it in a `with` statement, or call `close` when you no longer need it.

    Another format overrides `find_records`, `begin`, `is_half` and `parse`.
    """

    # Files smaller than this are indexed anew each time; no index is kept beside them.
    keep_from = 1 << 20

    path: str
    file: TextFile
    index: LineIndex

    def __init__(
        self,
        path: PathType,
        *,
        comment: str | None = None,
        encoding: str = "utf-8",
        max_bad: int = 0,
        progress: OnProgress | None = None,
    ) -> None:
        asked = dict(self.__dict__)  # what another format has set
        super().__init__()
        self.path = os.fspath(path)
        self._asked = asked, comment, encoding
        self.max_bad = max_bad
        self._open(TextFile(self.path, encoding, progress=progress), None)

    def _open(self, file: TextFile, known: LineIndex | None) -> None:
        """Open and index the text. `known` is the index of the same text when it was longer."""
        comment = self._asked[1]
        self.file = file
        self.name = file.name
        self.names = ["line"]
        self.shift = 0  # records above the first row
        if comment is not None and not comment.strip():
            raise SourceError("comment must be the text that starts a comment, such as '#'")
        try:
            file.open()
            note = (comment or "").strip().encode(file.bytewise, "replace")
            self.records = self.find_records(note)
            keep = file.size >= self.keep_from and file.upto == sys.maxsize
            self.index = LineIndex(file, self.records, keep=keep, known=known)
            self.count = self.index.count  # of records, the header among them
            self.unclosed = self.index.unclosed  # the last record has an open quote
            if self.count <= self.shift:
                raise SourceError(f"{self.name} is empty; it must have at least one row")
            self.begin()
        except BaseException:
            self.close()
            raise

    # ---- What makes a format

    def find_records(self, comment: bytes) -> Records:
        """How the text is split into records; the index depends on it."""
        return Records(comment=comment)

    def begin(self) -> None:
        """Find out what the columns are; call `leave_half` when rows can be read."""
        self.leave_half()

    def is_half(self, record: bytes) -> bool:
        """Whether the last record cannot be read, but might be the beginning of one that can."""
        return b"\0" in record  # as a power cut leaves them

    def parse(self, rows: list[int], records: list[bytes], columns: list[list[Any]]) -> None:
        """Add the values of these rows to the columns."""
        columns[0] += [text.strip() for _, text in self.decoded(rows, records)]

    # ---- What formats use

    def leave_half(self) -> None:
        """Leave the last row out if it was half-written when the file was opened.

        A quote that is not closed may have swallowed many lines; such a record is not half a line.
        """
        if len(self) < 2 or self.file.read(self.file.size - 1, 1) in b"\r\n":
            return
        row = len(self) - 1
        record = next(self.batches([row]))[1][0]
        if b"\n" in record or b"\r" in record or not self.is_half(record):
            return
        place = f"line {self.line(row)}"
        self.complaints.append((place, "is left out: it has no line end and is half-written"))
        self.count -= 1
        self.unclosed = False

    def refuse_wide(self, columns: int, remedy: str = "give rows with fewer keys") -> None:
        """Raise a SourceError if there are more columns than can be read."""
        if columns > MAX_COLUMNS:
            raise SourceError(
                f"{self.name} has more than {MAX_COLUMNS:,} columns, which is the most that can be "
                f"read; {remedy}"
            )

    def some_rows(self) -> list[int]:
        """A random sample of rows, in order, to find the columns from; the same each time."""
        n = len(self)
        return sorted(random.Random(0).sample(range(n), min(n, SAMPLE)))

    def batches(self, rows: Sequence[int]) -> Iterator[tuple[list[int], list[bytes]]]:
        """The numbers and records of these rows, which ascend, some at a time."""
        numbers: list[int] = []
        records: list[bytes] = []
        size = 0
        offsets, firsts, shift = self.index.offsets, self.index.firsts, self.shift
        at, end = 0, len(rows)
        while at < end:
            span = bisect_right(firsts, rows[at] + shift) - 1
            last = span + 1
            upto = bisect_left(rows, firsts[last] - shift, at)
            start = offsets[span]
            while upto < end and offsets[last] - start < CHUNK:  # the next row is in the next span
                if rows[upto] + shift >= firsts[last + 1]:
                    break
                last += 1
                upto = bisect_left(rows, firsts[last] - shift, upto)
            found = self.index.read(span, last)
            wanted = rows[at:upto]
            first = firsts[span] - shift
            if isinstance(wanted, range) and wanted.step == 1:
                picked = found[wanted[0] - first : wanted[-1] - first + 1]
            else:
                picked = [found[row - first] for row in wanted]
            numbers += wanted
            records += picked
            size += sum(map(len, picked))
            at = upto
            if len(records) >= BATCH or size >= BATCH_BYTES:
                yield numbers, records
                numbers, records, size = [], [], 0
        if records:
            yield numbers, records

    def decoded(self, rows: list[int], records: list[bytes]) -> list[tuple[int, str]]:
        """(row, text) of the records; those that are not text are bad rows."""
        encoding = self.file.bytewise
        nul = b"\0" in b"".join(records)
        if not nul:
            try:
                return list(zip(rows, [str(r, encoding) for r in records], strict=True))
            except UnicodeError:
                pass
        texts = []
        for row, record in zip(rows, records, strict=True):
            if b"\0" in record:
                self.skip(row, self.line(row), "has a NUL byte")
                continue
            try:
                texts.append((row, str(record, encoding)))
            except UnicodeError:
                why = f"is not {encoding} text (use encoding=NAME if it has another)"
                self.skip(row, self.line(row), why)
        return texts

    # ---- A source

    def __len__(self) -> int:
        return self.count - self.shift

    def __del__(self) -> None:
        self.close()

    @property
    def encoding(self) -> str:
        """The encoding of the file."""
        return self.file.encoding

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column.

        Rows are numbered from 0 and given in ascending order. Rows that cannot be read are left out,
        and noted by `skip`.
        """
        self.check()
        columns: list[list[Any]] = [[] for _ in self.names]
        rows = checked_rows(rows, len(self), self.name, again=True)
        for numbers, records in self.batches(rows):
            self.parse(numbers, records, columns)
        return list(columns)

    def line(self, row: int) -> int:
        """The line at which a row begins, numbered from 1."""
        return self.index.line(row + self.shift)

    def check(self) -> None:
        """Raise a SourceError if what was in the file when it was opened is no longer there."""
        self.file.check()

    def close(self) -> None:
        """Close the file, and remove what it was unpacked to; reading opens it again."""
        if "file" in self.__dict__:  # else it was never opened
            self.file.close()

    # ---- What a checkpoint remembers

    def extent(self) -> dict[str, Any]:
        """What a checkpoint remembers of these rows: how many, of how many bytes, and a checksum."""
        return {**super().extent(), "bytes": self.file.size}

    def first(self, extent: Mapping[str, Any]) -> Source | None:
        """The file as it was when a checkpoint was begun, if it still begins with that; else None."""
        size = extent.get("bytes", 0)
        whole = self.file.size
        if not 0 < size <= whole or f"{self.index.checksum(size):08x}" != extent["crc32"]:
            return None
        if size == whole:
            return self
        # As if it was opened then: what the columns are may depend on any row.
        attributes, _, encoding = self._asked
        before = object.__new__(type(self))
        Source.__init__(before)
        before.__dict__.update(attributes)
        before.path, before.max_bad, before._asked = self.path, self.max_bad, self._asked
        before._open(TextFile(self.path, encoding, upto=size), self.index)
        before.name = self.name
        return before

    def checksum(self, n: int) -> str:
        """The checksum of all bytes, whatever rows are asked for."""
        return f"{self.index.checksum(self.file.size):08x}"
