"""Text files as sources: CSV, JSON lines and the line protocol, read a few rows at a time.

A file may be far larger than memory. One pass notes where records begin, after which any row is
read without the rows before it. What was noted is kept beside the file as `<path>.efidx`, and used
again as long as the file stays as it is. Gzipped files, and text in UTF-16, are unpacked once into
a temporary file.

>>> import os, tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> path = os.path.join(folder.name, "log.csv")
>>> with open(path, "w") as stream:
...     _ = stream.write("time;temp;window\\n1;20,5;shut\\n2;?;open\\n3;24,0;open\\n")
>>> log = CSV(path)
>>> len(log), log.names, log.separator, log.decimal_comma
(3, ['time', 'temp', 'window'], ';', True)
>>> log.read([0, 1])
[['1', '2'], ['20,5', None], ['shut', 'open']]
>>> log.close()
>>> folder.cleanup()
"""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import math
import os
import random
import re
import stat
import struct
import sys
import tempfile
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, compress, islice
from operator import le, sub
from typing import IO, Any, Self

from edgeforest import files
from edgeforest.host.names import MAX_TEXT, visible
from edgeforest.host.words import count, reason
from edgeforest.sources import MAX_COLUMNS, Source, SourceError
from edgeforest.sources.cells import MISSING
from edgeforest.sources.snapshot import Snapshot

Progress = Callable[[int, int], object]

MAX_RECORD = 1 << 24  # bytes; a longer line is not a table, or a quote is not closed
_BLOCK = 1 << 20  # bytes that the index looks at in one go
_CHUNK = 1 << 18  # bytes that are read in one go where many rows follow each other
_SPAN = 4096  # bytes from mark to mark of the index, more in large files
_MARKS = 1 << 19  # of the index at most
_BATCH = 2048  # records that are parsed in one go
_HEAD = 1 << 16  # bytes that are looked at for separators
_LOOK = 200  # rows that are looked at for headers and decimal commas
_SAMPLE = 1000  # rows that are looked at for the names of columns

_MAGIC = b"EFIDX\0"
_VERSION = 2
# version, unclosed, with lines; size and mtime of the file; size, ends and options; counts; checksum
_HEADER = struct.Struct("<6sHBB4xQqQIIQQQ")


class Lines(Source):
    """A file of records, one a line; the base of the other kinds, and by itself a column of text.

    The rows are those that were there when it was opened: lines that are appended later are not
    seen. A last line that has no line end and cannot be read is taken as half-written: it is
    noted in `complaints` and left out. Blank lines are no records, nor are lines that start with
    `comment`. `progress` is called with the bytes done and the bytes of all while the file is
    unpacked, and again while it is indexed.
    Use it in a `with` statement, or call `close` when it is no longer needed.
    """

    # Files smaller than this are indexed anew rather than keeping an index beside them.
    keep_from = 1 << 20

    _blank = b" \t"  # what a blank line may hold
    _quote = b""  # "" if there are no quotes
    _opens = b""  # after which bytes a quote opens a text
    _escape = b""  # what makes a quote part of a text; if nothing does, two quotes are one
    _spaced = False  # spaces may stand before a quote that opens
    _shift = 0  # records above the first row
    _numbered: tuple[int, list[int]] = (-1, [])  # a span, and the lines of its records
    _doubted = bytearray()  # 1 for each mark of an index that was read and not used so far
    _upto = sys.maxsize  # bytes of the text that count
    _known: Any = None  # marks of the same text when it was longer
    _noted: tuple[int, int] | None = None  # where the index goes on, and at which line
    path: str

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        comment: str | None = None,
        encoding: str = "utf-8",
        max_bad: int = 0,
        progress: Progress | None = None,
    ) -> None:
        asked = dict(self.__dict__)
        self._file: IO[bytes] | None = None
        super().__init__()
        given: dict[str, Any] = {"comment": comment, "encoding": encoding}
        self._asked = asked, given
        self.path = os.fspath(path)
        self.name = visible(self.path)
        self.encoding = encoding
        self.names = ["line"]
        self.max_bad = max_bad
        self._progress = progress
        self._narrow = _is_narrow(encoding)
        if self._narrow and codecs.lookup(encoding).name == "utf-8-sig":
            self.encoding = "utf-8"
        if comment is not None and not comment.strip():
            raise SourceError("comment must be the text that starts a comment, such as '#'")
        self._snapshot: Snapshot | None = None
        try:
            self._open()
            self._comment = (comment or "").strip().encode(self._bytewise, "replace")
            self._look()
            self._make_patterns()
            self._index()
            if self._records <= self._shift:
                raise SourceError(f"{self.name} is empty; it must have at least one row")
            self._begin()
        except BaseException:
            self.close()
            raise

    def _look(self) -> None:
        """Find out what the index depends on."""

    def _begin(self) -> None:
        """Find out what the columns are."""
        self._leave_half()

    def _leave_half(self) -> None:
        """Leave the last row out if it was half-written when the file was opened.

        A quote that is not closed may have taken in many lines: that is another matter.
        """
        if len(self) < 2 or self._bytes(self._size - 1, 1) in b"\r\n":
            return
        row = len(self) - 1
        record = next(self._batches([row]))[1][0]
        if b"\n" in record or b"\r" in record or not self._is_half(record):
            return
        place = f"line {self.line(row)}"
        self.complaints.append((place, "is left out: it has no line end and is half-written"))
        self._records -= 1
        self._unclosed = False

    def _is_half(self, record: bytes) -> bool:
        """Whether the last record cannot be read, but might be the beginning of one that can."""
        return b"\0" in record  # as a power cut leaves them

    def _parse(self, rows: list[int], records: list[bytes], columns: list[list[Any]]) -> None:
        """Add the values of these rows to the columns."""
        columns[0] += [text.strip() for _, text in self._texts(rows, records)]

    def __len__(self) -> int:
        return self._records - self._shift

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None, "_progress": None}

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column. Rows are numbered from 0 and given in ascending order.

        Rows that cannot be read are left out, and noted by `skip`.
        """
        self.check()
        columns: list[list[Any]] = [[] for _ in self.names]
        for numbers, records in self._batches(self._in_order(rows)):
            self._parse(numbers, records, columns)
        return list(columns)

    def check(self) -> None:
        """Raise a SourceError if what was in the file when it was opened is not there any more."""
        assert self._snapshot is not None
        self._snapshot.check()

    def close(self) -> None:
        """Let go of the file, and of what it was unpacked to; reading opens it again."""
        file, self._file = getattr(self, "_file", None), None
        if file is not None:
            file.close()

    # ---- Rows that were there before

    def extent(self) -> dict[str, Any]:
        """What a checkpoint remembers of these rows: how many, of how many bytes, and a checksum."""
        return {**super().extent(), "bytes": self._size}

    def first(self, extent: Mapping[str, Any]) -> Source | None:
        """The file as it was when a checkpoint was begun, if it still begins with that; else None."""
        size = extent.get("bytes", 0)
        if not 0 < size <= self._size or f"{self._checksum_of(size):08x}" != extent["crc32"]:
            return None
        if size == self._size:
            return self
        known = self._offsets, self._firsts, self._lines
        # As if it was opened then: what the columns are may hang on any row.
        before = object.__new__(type(self))
        attributes, options = self._asked
        before.__dict__.update(attributes, _upto=size, _known=known)
        Lines.__init__(before, self.path, **options, max_bad=self.max_bad)
        before.name = self.name
        return before

    def checksum(self, n: int) -> str:
        """The checksum of all bytes, whatever rows are asked for."""
        return f"{self._checksum_of(self._size):08x}"

    def _checksum_of(self, size: int) -> int:
        if size == self._summed[0]:
            return self._summed[1]
        crc = 0
        for at in range(0, size, _BLOCK):
            crc = zlib.crc32(self._bytes(at, min(_BLOCK, size - at)), crc)
        return crc

    # ---- Bytes

    def _open(self) -> IO[bytes]:
        """The file, or what it was unpacked to."""
        if self._file is not None:
            return self._file
        raw: IO[bytes] | None = None
        try:
            # A pipe would wait for a writer, perhaps for ever.
            if not stat.S_ISREG(os.stat(self.path).st_mode):
                kind = "a folder" if os.path.isdir(self.path) else "no ordinary file"
                raise SourceError(f"{self.name} is {kind}; give the path of a text file")
            raw = open(self.path, "rb", buffering=0)  # noqa: SIM115
            fresh = self._snapshot is None
            self._snapshot = self._snapshot or Snapshot(self.path, raw, self.name)
            self._snapshot.check()
            self._file = self._unpacked(raw)
            if self._file is not raw:
                raw.close()
            if fresh:
                end = self._snapshot.end
                if self._file is not raw:
                    end = os.fstat(self._file.fileno()).st_size
                self._size = min(self._upto, end)
            self._start = 3 if self._bytes(0, 3) == codecs.BOM_UTF8 else 0
        except OSError as error:
            if raw is not None:
                raw.close()
            raise SourceError(f"cannot read {self.name}: {reason(error)}") from None
        except ValueError as error:
            if raw is not None:
                raw.close()
            if isinstance(error, SourceError):
                raise
            # A path with a NUL in it.
            raise SourceError(f"cannot read {self.name}: {error}") from None
        return self._file

    def _unpacked(self, raw: IO[bytes]) -> IO[bytes]:
        """The file itself if it is plain, else a temporary file of the text that is in it."""
        assert self._snapshot is not None
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream: Any = _Start(raw, self._snapshot.end)
        if zipped:
            stream = gzip.GzipFile(fileobj=stream)
        try:
            first = stream.read(4)
            encoding = "" if self._narrow else self.encoding
            for mark, wide in _WIDE:
                if first.startswith(mark):
                    encoding = wide
                    break
            if not zipped and not encoding:
                raw.seek(0)
                return raw
            stream.seek(0)
            return self._unpack(raw, stream, encoding)
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise SourceError(f"{self.name} is cut short or damaged; copy it again") from None
        except UnicodeError:
            raise SourceError(
                f"{self.name} is not {encoding} text; use encoding=NAME, or save it as UTF-8"
            ) from None
        finally:
            if zipped:
                stream.close()

    def _unpack(self, raw: IO[bytes], stream: Any, encoding: str) -> IO[bytes]:
        decoder = codecs.getincrementaldecoder(encoding)() if encoding else None
        folder = os.path.dirname(os.path.abspath(self.path))
        target: IO[bytes]
        try:
            target = tempfile.TemporaryFile(dir=folder, prefix=".edgeforest-")  # noqa: SIM115
        except OSError:
            folder = tempfile.gettempdir()
            target = tempfile.TemporaryFile(prefix="edgeforest-")  # noqa: SIM115
        assert self._snapshot is not None
        whole = self._snapshot.end
        try:
            while block := stream.read(_BLOCK):
                text = decoder.decode(block).encode("utf-8", "replace") if decoder else block
                self._write(target, text, folder)
                if self._progress is not None:
                    self._progress(min(raw.tell(), whole), whole)
            if decoder:
                decoder.decode(b"", True)
            self._write(target, b"", folder)
        except BaseException:
            target.close()
            raise
        if encoding:
            self._narrow, self.encoding = False, encoding
        return target

    def _write(self, target: IO[bytes], text: bytes, folder: str) -> None:
        try:
            target.write(text)
            if not text:
                target.flush()
        except OSError as error:
            raise SourceError(
                f"cannot unpack {self.name} into {folder}: {reason(error)}; make room there"
            ) from None

    def _bytes(self, at: int, size: int) -> bytes:
        """Bytes of the file; fewer where it ended when it was opened."""
        file = self._file or self._open()
        size = max(0, min(size, self._size - at))
        try:
            block = _read_at(file, size, at)
            while 0 < len(block) < size:
                more = _read_at(file, size - len(block), at + len(block))
                if not more:
                    break
                block += more
        except OSError as error:
            raise SourceError(f"cannot read {self.name}: {reason(error)}") from None
        return block

    @property
    def _bytewise(self) -> str:
        """The encoding of the bytes that are read."""
        return self.encoding if self._narrow else "utf-8"

    # ---- Records

    def _make_patterns(self) -> None:
        """Make the patterns that find quoted texts of more than one line, and blank lines."""
        comment = re.escape(self._comment)
        blank = re.escape(self._blank)
        self._suspect = re.compile(rb"\n(?:[\n\r%s]%s)" % (blank, comment and b"|" + comment))
        self._first_sign = re.compile(
            rb"\n[%s]*+(?!%s)[^%s\n\r]" % (blank, comment or b"\n", blank)
        )
        if not self._quote:
            return
        parts = {
            b"Q": re.escape(self._quote),
            b"SEP": re.escape(self._opens),
            b"OPEN": rb"[%s\n\r]" % re.escape(self._opens),
            b"BODY": re.escape(self._quote + self._escape),  # [^BODY] is a part of any text
            b"INNER": re.escape(self._quote) * 2,  # so is this
            b"WIDE": re.escape(self._quote) * 2,  # or this, with line ends
            b"NOTE": rb"[%s]*+%s[^\n\r]*+" % (blank, comment) if comment else rb"(?!)",
            b"MANY": b"*+" if _RESTORES else b"*",  # the same here, where nothing after it can fail
            b"MAYBE": b"?+" if _RESTORES else b"?",
        }
        if self._escape:
            parts[b"OPEN"] = rb"[^%s]%s" % (re.escape(self._escape), re.escape(self._opens))
            parts[b"INNER"] = re.escape(self._escape) + rb"[^\n\r]"
            parts[b"WIDE"] = re.escape(self._escape) + rb"(?:.|\Z)"

        def pattern(text: bytes) -> re.Pattern[bytes]:
            whole = re.sub(rb"[A-Z]{2,}|_?Q", lambda name: parts[name.group().lstrip(b"_")], text)
            return re.compile(whole, re.DOTALL)

        # What has no quoted line end, and then a text that has some, or none where all is done.
        line = rb"[^BODY\n\r]*+(?:INNER[^BODY\n\r]*+)*+Q"
        wide = rb"(Q[^BODY]*+(?:WIDE[^BODY]*+)*+(?:(Q)|\Z))"
        self._fast = pattern(
            rb"[^Q]*+(?:Q(?:(?<=OPEN_Q)%s|(?<!OPEN_Q))[^Q]*+)MANY(?:%s)MAYBE" % (line, wide)
        )
        # The same where comments may hold quotes, or spaces may stand before one.
        if self._spaced:
            self._full = pattern(
                rb"[^SEP\n\r]*+(?:[\n\r]NOTE|OPEN *+(?:Q%s|(?!Q))[^SEP\n\r]*+)MANY(?:OPEN *+%s)MAYBE"
                % (line, wide)
            )
        else:
            self._full = pattern(
                rb"(?:[^Q\n\r]++|[\n\r](?:NOTE)MAYBE|Q(?:(?<=OPEN_Q)%s|(?<!OPEN_Q)))MANY(?:%s)MAYBE"
                % (line, wide)
            )

    def _mask(self, block: bytes) -> tuple[bytes, bool]:
        """The block with line ends in quotes hidden, and whether a quote is open at its end.

        It is as long as it was. The block begins with a record.
        """
        if not self._quote or self._quote not in block:
            return block, False
        full = (self._spaced and b" " + self._quote in block) or (
            self._comment and self._comment in block
        )
        text = b"\n" + block
        masked: bytearray | None = None
        closed = True
        for found in (self._full if full else self._fast).finditer(text):
            start, end = found.span(1)
            if end < 0:
                break
            if masked is None:
                masked = bytearray(text)
            masked[start:end] = b"x" * (end - start)
            closed = found.group(2) is not None
        return (block, False) if masked is None else (bytes(masked[1:]), not closed)

    def _told(self, lines: list[bytes]) -> list[bytes]:
        """For each line what there is to tell it as a record, nothing if it is none."""
        blank, comment = self._blank, self._comment
        told = [line.strip(blank) for line in lines]
        if comment:
            return [b"" if line.startswith(comment) else line for line in told]
        return told

    def _split(self, chunk: bytes) -> list[bytes]:
        """The records of a chunk that begins with one."""
        masked, _ = self._mask(chunk)
        lines = masked.splitlines()
        told = self._told(lines)
        if masked is chunk:
            return list(compress(lines, told))
        starts = accumulate(map(len, masked.splitlines(keepends=True)), initial=0)
        found = zip(starts, lines, told, strict=False)
        return [chunk[start : start + len(line)] for start, line, tells in found if tells]

    def _batches(self, rows: Sequence[int]) -> Iterator[tuple[list[int], list[bytes]]]:
        """The records of these rows, some at a time."""
        numbers: list[int] = []
        records: list[bytes] = []
        size = 0
        offsets, firsts, shift = self._offsets, self._firsts, self._shift
        at, end = 0, len(rows)
        while at < end:
            span = bisect_right(firsts, rows[at] + shift) - 1
            last = span + 1
            upto = bisect_left(rows, firsts[last] - shift, at)
            start = offsets[span]
            while upto < end and offsets[last] - start < _CHUNK:  # the next row is in the next span
                if rows[upto] + shift >= firsts[last + 1]:
                    break
                last += 1
                upto = bisect_left(rows, firsts[last] - shift, upto)
            found = self._span(span, last)
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
            if len(records) >= _BATCH or size >= _BLOCK:
                yield numbers, records
                numbers, records, size = [], [], 0
        if records:
            yield numbers, records

    def _span(self, span: int, last: int) -> list[bytes]:
        """The records of the spans of the index from one to before another."""
        start, stop = self._offsets[span], self._offsets[last]
        chunk = self._bytes(start, stop - start)
        expected = self._firsts[last] - self._firsts[span]
        each = self._mark_line(last) - self._mark_line(span) == expected  # each line is a record
        doubt = any(self._doubted[span:last])
        if doubt and each:
            quoted = self._quote and self._quote in chunk
            each = not quoted and not self._suspect.search(b"\n" + chunk)
        records = chunk.splitlines() if each else self._split(chunk)
        if len(records) != expected or (doubt and not self._has_ends(start, stop)):
            self.check()
            raise SourceError(
                f"{self.name} is not as its index says; delete {self._index_path()} and open it "
                "again"
            )
        if doubt:
            self._doubted[span:last] = bytes(last - span)
        return records

    def _has_ends(self, *offsets: int) -> bool:
        """Whether a line ends right before each of these places."""
        known = (self._start, self._size)
        return all(at in known or self._bytes(at - 1, 1) in (b"\n", b"\r") for at in offsets)

    def _mark_line(self, mark: int) -> int:
        return self._lines[mark] if self._lines else self._firsts[mark] + 1

    def line(self, row: int) -> int:
        """The line at which a row begins, numbered from 1."""
        record = row + self._shift
        span = bisect_right(self._firsts, record) - 1
        if self._numbered[0] != span:  # bad rows come one after the other
            self._span(span, span + 1)  # is as the index says
            start, stop = self._offsets[span : span + 2]
            chunk = self._bytes(start, stop - start)
            masked, _ = self._mask(chunk)
            whole = masked.splitlines(keepends=True)
            told = self._told(masked.splitlines())
            starts = accumulate(map(len, whole), initial=0)
            ends = [
                _line_ends(chunk[at : at + len(line)])
                for at, line in zip(starts, whole, strict=False)
            ]
            lines = accumulate(ends, initial=self._mark_line(span))
            self._numbered = span, list(compress(lines, told))
        return self._numbered[1][record - self._firsts[span]]

    def _texts(self, rows: list[int], records: list[bytes]) -> list[tuple[int, str]]:
        """The records as text, without those that are none."""
        encoding = self._bytewise
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

    def _refuse_wide(self, columns: int, remedy: str = "give rows with fewer keys") -> None:
        if columns > MAX_COLUMNS:
            raise SourceError(
                f"{self.name} has more than {MAX_COLUMNS:,} columns, which is the most that can be "
                f"read; {remedy}"
            )

    def _in_order(self, rows: Sequence[int]) -> Sequence[int]:
        if not isinstance(rows, range | list | tuple):
            rows = [int(row) for row in rows]
        if not rows:
            return rows
        if not all(map(le, rows, islice(rows, 1, None))):
            raise SourceError("rows are read in ascending order; sort them")
        for row in (rows[0], rows[-1]):
            if not 0 <= row < len(self):
                raise SourceError(
                    f"{self.name} has no row {row}; it has {count(len(self), 'row')}, the first is 0"
                )
        return rows

    # ---- The index

    def _options(self) -> bytes:
        """What else tells records apart."""
        parts = (self._blank, self._quote, self._opens, self._escape, self._comment)
        return repr((*parts, self._spaced, "" if self._narrow else self.encoding)).encode()

    def _index(self) -> None:
        self._offsets, self._firsts = array("Q"), array("Q")
        self._lines = array("Q")  # of marks; empty if each line is a record
        self._records = 0
        self._unclosed = False  # a quote in the last record
        self._summed = 0, 0  # bytes, and their checksum
        keep = self._size >= self.keep_from and self._upto == sys.maxsize
        if self._known is not None:
            self._go_on(self._upto, *self._known)
            self._known = None
        elif keep and self._load():
            return
        self._make_index()
        self.check()
        if keep:
            self._save()

    def _make_index(self) -> None:
        """Note where records begin, every so many bytes, in one pass."""
        spacing = _spacing(self._size)
        at, line = self._noted or (self._start, 1)  # all before is noted
        rest = b""
        read = at
        while True:
            block = self._bytes(read, max(_BLOCK, len(rest)))
            self._sum(read, block)
            read += len(block)
            last = not block or read >= self._size
            block = rest + block if rest else block
            masked, unclosed = self._mask(block)
            cut = masked.rfind(b"\n") + 1
            if not cut:  # the end might be half of \r\n
                cut = masked.rfind(b"\r", 0, max(0, len(masked) - 1)) + 1
            if len(block) - cut > MAX_RECORD:
                self._refuse_long(line + _line_ends(block[:cut]), unclosed)
            if last:
                cut = len(block)
                self._unclosed = unclosed
            line = self._note(at, block, masked, cut, line, spacing)
            at += cut
            rest = block[cut:]
            if self._progress is not None:
                self._progress(min(read, self._size), self._size)
            if last:
                break
        self._mark(at, line)

    def _sum(self, at: int, block: bytes) -> None:
        """Add bytes to the checksum, as far as they are not in it."""
        known, crc = self._summed
        if known < at:  # what marks the encoding
            known, crc = at, zlib.crc32(self._bytes(known, at - known), crc)
        end = at + len(block)
        if end > known:
            self._summed = end, zlib.crc32(memoryview(block)[known - at :], crc)

    def _refuse_long(self, line: int, unclosed: bool) -> None:
        size = f"{MAX_RECORD >> 20} MB"
        if unclosed:
            raise SourceError(
                f"the row at line {line} of {self.name} has a quote that is not closed within "
                f"{size}; close it, or take quotes as part of a cell (quote=None)"
            )
        raise SourceError(
            f"line {line} of {self.name} is longer than {size}; give a file with a row a line"
        )

    def _mark(self, offset: int, line: int) -> None:
        if not self._lines and line != self._records + 1:
            self._lines = array("Q", (first + 1 for first in self._firsts))
            self._lines.append(line)
        elif self._lines:
            self._lines.append(line)
        self._offsets.append(offset)
        self._firsts.append(self._records)

    def _note(
        self, base: int, block: bytes, masked: bytes, cut: int, line: int, spacing: int
    ) -> int:
        """Note the marks of a block up to a cut; the line after it."""
        if not cut:
            return line
        end = b"\n" if b"\n" in masked else b"\r"
        alone = b"\r" in masked and _ALONE.search(masked)
        plain = not alone and not self._suspect.search(b"\n" + masked)
        at = 0
        while at < cut:
            self._mark(base + at, line)
            to = masked.find(end, at + spacing - 1, cut) + 1 or cut
            half = masked[to - 1] not in b"\r\n"  # the end of the file
            if alone:
                found = masked[at:to].splitlines()
                ends = len(found)
                n = ends - self._told(found).count(b"")
            else:
                n = ends = masked.count(b"\n", at, to) + half
                if not plain:
                    n = len(self._first_sign.findall(b"\n" + masked[at:to]))
            self._records += n
            line += ends if masked is block else _line_ends(block[at:to]) + half
            at = to
        return line

    def _index_path(self) -> str:
        return self.path + ".efidx"

    def _facts(self) -> tuple[int, ...]:
        """What must be the same for an index to be used again."""
        ends = self._bytes(0, _SPAN) + self._bytes(max(0, self._size - _SPAN), _SPAN)
        assert self._snapshot is not None
        status = self._snapshot.status
        facts = (status.st_size, status.st_mtime_ns, self._size)
        return (*facts, zlib.crc32(ends), zlib.crc32(self._options()))

    def _load(self) -> bool:
        """Use the index beside the file; whether it is of this file as it is now.

        If the file has only grown since, it is used as far as it goes.
        """
        found = self._read_index()
        if found is None:
            return False
        facts, summed, unclosed, arrays = found
        size = facts[2]
        if not self._leads_through(size, *arrays):
            return False
        now = self._facts()
        if facts != now:
            grown = (
                size < self._size and facts[4] == now[4] and _spacing(size) == _spacing(self._size)
            )
            if grown and self._checksum_of(size) == summed:
                self._summed = size, summed
                self._go_on(size, *arrays)
            return False
        start, stop = arrays[0][-2:]
        if self._mask(self._bytes(start, stop - start))[1] != unclosed:
            return False
        self._offsets, self._firsts, self._lines = arrays
        self._records = self._firsts[-1]
        self._unclosed = unclosed
        self._summed = size, summed
        self._doubted = bytearray(b"\1") * len(self._offsets)
        return True

    def _read_index(self) -> tuple[tuple[int, ...], int, bool, list[array[int]]] | None:
        """What the index beside the file says: facts, a checksum, a flag, and marks."""
        try:
            with _plain_file(self._index_path()) as stream:
                header = stream.read(_HEADER.size)
                magic, version, unclosed, with_lines, *facts = _HEADER.unpack(header)
                *facts, records, marks, summed = facts
                if (magic, version) != (_MAGIC, _VERSION) or not 0 < facts[2] <= self._size:
                    return None
                arrays = [array("Q") for _ in range(3 if with_lines else 2)]
                size = _HEADER.size + 8 * marks * len(arrays) + 4
                most = facts[2] // _SPAN + facts[2] // _BLOCK + 16
                if not 2 <= marks <= most or os.fstat(stream.fileno()).st_size != size:
                    return None
                crc = zlib.crc32(header)
                for values in arrays:
                    values.fromfile(stream, marks)
                    crc = zlib.crc32(values, crc)
                    if sys.byteorder == "big":
                        values.byteswap()
                if stream.read() != struct.pack("<I", crc) or arrays[1][-1] != records:
                    return None
        except (OSError, EOFError, struct.error):
            return None
        if not with_lines:
            arrays.append(array("Q"))
        return tuple(facts), summed, bool(unclosed), arrays

    def _go_on(self, end: int, offsets: array[int], firsts: array[int], lines: array[int]) -> None:
        """Take over marks of the same text up to the span that holds an end: that is read anew."""
        k = bisect_left(offsets, end) - 1
        self._noted = offsets[k], lines[k] if lines else firsts[k] + 1
        self._records = firsts[k]
        self._offsets, self._firsts, self._lines = offsets[:k], firsts[:k], lines[:k]
        self._doubted = bytearray(b"\1") * k

    def _leads_through(
        self, end: int, offsets: array[int], firsts: array[int], lines: Sequence[int]
    ) -> bool:
        """Whether marks can be those of this file: anybody can write a checksum that fits."""
        if (offsets[0], offsets[-1], firsts[0]) != (self._start, end, 0):
            return False
        sizes = list(map(sub, offsets[1:], offsets))
        records = list(map(sub, firsts[1:], firsts))
        longest = 4 * MAX_RECORD + self._size // _MARKS
        if not all(0 < size <= longest for size in sizes) or min(records) < 0:
            return False
        ends = list(map(sub, lines[1:], lines)) if lines else records
        if not all(map(le, records, ends)) or not all(map(le, ends, sizes)):
            return False
        hidden = (  # a span without records is never read, so it is looked at now
            self._split(self._bytes(at, size))
            for at, size, n in zip(offsets, sizes, records, strict=False)
            if not n
        )
        return (not lines or lines[0] == 1) and not any(hidden)

    def _save(self) -> None:
        """Keep the index beside the file; where that cannot be, it is made again next time."""
        path = self._index_path()
        with suppress(OSError):
            if os.path.lexists(path):
                with _plain_file(path) as stream:
                    if stream.read(len(_MAGIC)) != _MAGIC or os.path.islink(path):
                        return  # somebody else's file
            mode = None  # who may read the file may read its index
            if self._snapshot is not None:
                mode = stat.S_IMODE(self._snapshot.status.st_mode) & 0o666
            with files.replacing(path, mode) as stream:
                self._write_index(stream)

    def _write_index(self, stream: IO[bytes]) -> None:
        numbers = (*self._facts(), self._records, len(self._offsets), self._summed[1])
        flags = (self._unclosed, bool(self._lines))
        header = _HEADER.pack(_MAGIC, _VERSION, *flags, *numbers)
        stream.write(header)
        crc = zlib.crc32(header)
        for values in (self._offsets, self._firsts, self._lines):
            if sys.byteorder == "big":
                values = array("Q", values)
                values.byteswap()
            crc = zlib.crc32(values, crc)
            stream.write(values)
        stream.write(struct.pack("<I", crc))


class CSV(Lines):
    """A table of values with separators between them, one row a line.

    What is not given is looked for: the `separator` (comma, semicolon, tab, | or runs of spaces),
    whether the first row is a `header`, and whether numbers have a decimal comma. Cells are text
    without the space around it, and None where they are missing. Quoted cells may hold separators,
    doubled quotes and line ends. Rows that have too few or too many cells are bad; more than
    `max_bad` of them are an error.
    """

    texts = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        separator: str | None = None,
        header: bool | None = None,
        names: Sequence[str] | None = None,
        comment: str | None = None,
        quote: str | None = '"',
        decimal_comma: bool | None = None,
        encoding: str = "utf-8",
        max_bad: int = 0,
        progress: Progress | None = None,
    ) -> None:
        if separator is not None and not (_is_sign(separator) or separator == " "):
            raise SourceError(f"separator must be one sign, such as ';', got {separator!r}")
        if quote and (not _is_sign(quote) or quote == separator):
            raise SourceError(f"quote must be a sign of its own, such as '\"', got {quote!r}")
        self.separator = separator or ""
        self.quote = quote or ""
        self._quote = self.quote.encode()
        self._header = header
        self._names = None if names is None else [str(name) for name in names]
        self._comma = decimal_comma
        super().__init__(
            path, comment=comment, encoding=encoding, max_bad=max_bad, progress=progress
        )

    def _use(self, separator: str) -> None:
        """Split by this separator from now on."""
        self.separator = separator
        self._opens = separator.encode()
        self._blank = b" " if separator == "\t" else b" \t"
        self._spaced = separator != " "
        self._make_patterns()

    def _look(self) -> None:
        given = self.separator
        self._use(given or ",")
        head = self._head()
        best = 0.0
        found = given or ","
        for separator in (given,) if given else _SEPARATORS:
            self._use(separator)
            records = self._split(head)
            if len(head) < self._size - self._start and len(records) > 1:
                records.pop()  # it may be half of one
            score = _score(self._cells(_few(records)), separator)
            if score > best:
                best, found = score, separator
        self._use(found)

    def _head(self) -> bytes:
        """The first bytes, with more than one line if there is one."""
        size = _HEAD
        while True:
            head = self._bytes(self._start, size)
            if len(head) < size or size > MAX_RECORD:
                return head[:MAX_RECORD]
            if _line_ends(head) > 2 and (size >= _BLOCK or len(self._split(head)) > 2):
                return head
            size *= 2

    def _cells(self, records: list[bytes]) -> list[list[str]]:
        """The cells of records, without complaint."""
        encoding = self._bytewise
        texts = [str(record, encoding, "replace") for record in records]
        return [row for text in texts if (row := self._row(text))]

    def _row(self, text: str) -> list[str] | None:
        """The cells of one row, None if there is a cell that is far too long."""
        try:
            return next(self._reader([text]), None)
        except csv.Error:
            return None

    def _reader(self, texts: Iterable[str]) -> Iterator[list[str]]:
        if self.separator == " ":
            texts = [text.strip(" \t") for text in texts]
        if not self.quote:
            return csv.reader(
                texts, delimiter=self.separator, quoting=csv.QUOTE_NONE, skipinitialspace=True
            )
        return csv.reader(
            texts, delimiter=self.separator, quotechar=self.quote, skipinitialspace=True
        )

    def _begin(self) -> None:
        rows = self._peek(range(min(self._records, _LOOK)))
        if not rows:
            raise SourceError(f"line {self.line(0)} of {self.name} is too long for a table")
        if self._records > len(rows):
            rows += self._peek(sorted(random.Random(0).choices(range(1, self._records), k=_LOOK)))
        if self._comma is None:
            self._comma = self.separator != "," and _has_decimal_comma(rows)
        self.decimal_comma = self._comma
        below = rows[1:]
        header = self._header
        if header is None:
            header = self._is_header(rows[0], below)
        self._shift = int(header)
        self._refuse_wide(len(rows[0]), "use separator=C if it was guessed wrong")
        if not len(self):
            raise SourceError(f"{self.name} names columns but has no rows; add some")
        if header:
            names = self._name_row()
            wider = [row for row in below if len(row) == len(names) + 1]
            if 2 * len(wider) > len(below):
                # As R writes it; or a separator at the end of each row.
                after = not any(row[-1] for row in wider)
                names.insert(len(names) if after else 0, "")
        else:
            names = [""] * Counter(map(len, rows)).most_common(1)[0][0]
        if self._names is not None:
            if len(self._names) != len(names):
                raise SourceError(
                    f"{self.name} has {count(len(names), 'column')}, but names for "
                    f"{len(self._names)} were given; name each"
                )
            names = self._names
        self.names = _distinct(names)
        if header:
            self.unnamed = [new for new, old in zip(self.names, names, strict=True) if not old]
        self._leave_half()
        if self._unclosed:
            self._skip_unclosed()

    def _is_half(self, record: bytes) -> bool:
        try:
            cells = self._row(str(record, self._bytewise)) or []
        except UnicodeError:  # cut within a letter
            return True
        return len(cells) < len(self.names) or self._unclosed or super()._is_half(record)

    def _peek(self, rows: Sequence[int]) -> list[list[str]]:
        """The cells of these rows, without complaint."""
        found = []
        size = 0
        for _, records in self._batches(rows):
            found += [[cell.strip() for cell in row] for row in self._cells(_few(records))]
            size += sum(map(len, records))
            if size > _BLOCK:
                break
        return found

    def _skip_unclosed(self) -> None:
        row = len(self) - 1
        self.skip(row, self.line(row), "opens a quote that is never closed")

    def _is_header(self, first: list[str], below: list[list[str]]) -> bool:
        comma = bool(self._comma)
        if any(_is_number(cell, comma) for cell in first):
            return False
        if any(_is_number(cell, comma) for row in below for cell in row):
            return True
        # All is text: a header is what does not come again.
        if len(set(first)) < len(first) or not all(first):
            return False
        again = any(row[f : f + 1] == [cell] for row in below for f, cell in enumerate(first))
        return not again

    def _name_row(self) -> list[str]:
        """The cells of the header."""
        _, records = next(self._batches([-1]))
        encoding = self._bytewise
        try:
            text = str(records[0], encoding)
        except UnicodeError:
            raise SourceError(
                f"line {self.line(-1)} of {self.name}, its header, is not {encoding} text; give "
                "its encoding"
            ) from None
        if "\0" in text:
            raise SourceError(f"{self.name} has NUL bytes in its header; is it a text file?")
        row = self._row(text)
        if not row:
            raise SourceError(f"line {self.line(-1)} of {self.name} is too long for a header")
        return [name.strip() for name in row]

    def _parse(self, rows: list[int], records: list[bytes], columns: list[list[Any]]) -> None:
        if self._unclosed and rows[-1] == len(self) - 1:
            at = bisect_left(rows, rows[-1])
            self._skip_unclosed()
            rows, records = rows[:at], records[:at]
        texts = self._texts(rows, records)
        width = len(columns)
        cells: list[list[str]] = []
        with suppress(csv.Error):
            cells = list(self._reader([text for _, text in texts]))
        if len(cells) != len(texts) or any(len(row) != width for row in cells):
            cells = [row for at, text in texts if (row := self._good(at, text, width))]
        missing = MISSING
        for column, found in zip(columns, zip(*cells, strict=True), strict=False):
            column += [None if (t := raw.strip()) in missing else t for raw in found]

    def _good(self, row: int, text: str, width: int) -> list[str] | None:
        """The cells of a row, or None if they are not as many as there are columns."""
        cells = self._row(text)
        if cells is None:
            limit = csv.field_size_limit()
            self.skip(row, self.line(row), f"has a cell of more than {limit:,} characters")
        elif len(cells) != width:
            there = f"there {'is' if width == 1 else 'are'} {count(width, 'column')}"
            has = f"has {count(len(cells), 'value')} where {there}"
            self.skip(row, self.line(row), has)
            cells = None
        return cells


class JSONLines(Lines):
    """One JSON object a line: its keys are columns, `wifi.rssi` that of an object in an object.

    Columns are the keys that a random sample of rows has, unless `names` says which. Numbers and
    text stay what they are, true and false are 1 and 0, null and keys that a row has not are None,
    and lists are left out.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        names: Sequence[str] | None = None,
        comment: str | None = None,
        encoding: str = "utf-8",
        max_bad: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self._names = None if names is None else [str(name) for name in names]
        super().__init__(
            path, comment=comment, encoding=encoding, max_bad=max_bad, progress=progress
        )

    def _is_half(self, record: bytes) -> bool:
        try:
            json.loads(str(record, self._bytewise))
        except (ValueError, RecursionError):
            return True
        return False

    def _begin(self) -> None:
        self._leave_half()
        first = next(self._batches([0]))[1][0].strip()
        if first in (b"{", b"[") or first.startswith((b"[{", b"[ {")):
            raise SourceError(
                f"{self.name} has not one JSON object a line; save it as JSON lines, such as with "
                "jq -c"
            )
        if self._names is not None:
            self.names = self._names
            return
        n = len(self)
        rows = sorted(random.Random(0).sample(range(n), min(n, _SAMPLE)))
        keys: dict[str, None] = {}
        for numbers, records in self._batches(rows):
            for row in self._objects(numbers, records):
                keys.update(dict.fromkeys(row))
                self._refuse_wide(len(keys))
        if not keys:
            raise SourceError(f"{self.name} has no values; its objects must have keys")
        self.names = list(keys)

    def _objects(self, rows: list[int], records: list[bytes]) -> Iterator[dict[str, Any]]:
        for row, text in self._texts(rows, records):
            found = None
            why = "is no JSON object"
            try:
                value = json.loads(text)
                if isinstance(value, dict):
                    found = _flat(value, {}, "")
                    if "\\u" in text:  # the only way to write half of a surrogate pair
                        "".join([*found, *(v for v in found.values() if type(v) is str)]).encode()
            except json.JSONDecodeError as error:
                why += f" ({error.msg} at character {error.colno})"
            except UnicodeEncodeError:
                found, why = None, "has half of a surrogate pair, which is not a character"
            except _LongName as error:
                why = str(error)
            except (ValueError, RecursionError):
                why += " that can be read"
            if found is None:
                self.skip(row, self.line(row), why)
            else:
                yield found

    def _parse(self, rows: list[int], records: list[bytes], columns: list[list[Any]]) -> None:
        names = self.names
        for row in self._objects(rows, records):
            get = row.get
            for column, name in zip(columns, names, strict=True):
                column.append(get(name))


class LineProtocol(Lines):
    """The line protocol of InfluxDB: `air,room=hall temp=20.5,people=3i 1700000000`.

    Columns are `measurement` if there is more than one, the tags (text), the fields (numbers, true
    and false as 1 and 0, or text) and `time`, as far as a random sample of rows has them. A name
    that is taken already gets a number: `time.2`.
    """

    _quote = b'"'
    _opens = b"="
    _escape = b"\\"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        encoding: str = "utf-8",
        max_bad: int = 0,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(path, comment="#", encoding=encoding, max_bad=max_bad, progress=progress)

    def _is_half(self, record: bytes) -> bool:
        try:
            _point(str(record, self._bytewise).strip(" \t"))
        except ValueError:
            return True
        return super()._is_half(record)

    def _begin(self) -> None:
        self._leave_half()
        n = len(self)
        rows = sorted(random.Random(0).sample(range(n), min(n, _SAMPLE)))
        seen: dict[tuple[int, str], None] = {}
        kinds: set[str] = set()
        for numbers, records in self._batches(rows):
            for point in self._points(numbers, records):
                kinds.add(point[_MEASUREMENT])
                seen.update(dict.fromkeys(point))
                self._refuse_wide(len(seen))
        if not seen:
            raise SourceError(f"{self.name} has no points that can be read")
        if len(kinds) < 2:
            seen.pop(_MEASUREMENT, None)
        self._keys = sorted(seen, key=lambda key: key[0])  # in order of appearance otherwise
        self.names = _distinct([name for _, name in self._keys])

    def _points(
        self, rows: list[int], records: list[bytes]
    ) -> Iterator[dict[tuple[int, str], Any]]:
        for row, text in self._texts(rows, records):
            point = None
            try:
                point = _point(text.strip(" \t"))
            except ValueError as error:
                why = f"is no line protocol ({error})"
            if point is None:
                self.skip(row, self.line(row), why)
            else:
                yield point

    def _parse(self, rows: list[int], records: list[bytes], columns: list[list[Any]]) -> None:
        keys = self._keys
        for point in self._points(rows, records):
            get = point.get
            for column, key in zip(columns, keys, strict=True):
                column.append(get(key))


# ---- Cells

_SEPARATORS = ("\t", ";", ",", "|", " ")  # where all else is equal, the first is taken
_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.]\d*)?|[.]\d+)(?:[eE][+-]?\d+)?|[+-]?inf", re.ASCII)
_NUMBER_COMMA = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?|[+-]?inf", re.ASCII)
_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?", re.ASCII)
_POINT = re.compile(r"[+-]?\d*[.]\d+(?:[eE][+-]?\d+)?", re.ASCII)


def _few(records: list[bytes]) -> list[bytes]:
    """As many of the records as are looked at; fewer if they are long."""
    size = 0
    for n, record in enumerate(records[:_LOOK]):
        size += len(record)
        if size > _BLOCK:
            return records[: max(2, n)]
    return records[:_LOOK]


def _is_number(cell: str, comma: bool) -> bool:
    return bool((_NUMBER_COMMA if comma else _NUMBER).fullmatch(cell))


def _has_decimal_comma(rows: list[list[str]]) -> bool:
    commas = points = 0
    for row in rows:
        for cell in row:
            commas += _COMMA.fullmatch(cell) is not None
            points += _POINT.fullmatch(cell) is not None
    return commas > points


def _score(rows: list[list[str]], separator: str) -> float:
    """How well a separator fits: rows are as wide as each other, and cells are numbers."""
    if not rows or len(rows[0]) < 2 or not any(map(str.strip, rows[0])):
        return 0.0
    width, times = Counter(map(len, rows)).most_common(1)[0]
    if width < 2:
        return 0.0
    cells = [cell.strip() for row in rows[1:] for cell in row] or [""]
    good = sum(_is_number(cell, separator != ",") or cell in MISSING for cell in cells)
    return times / len(rows) + good / len(cells) / 2


def _distinct(names: Sequence[str]) -> list[str]:
    """Names that are all there and differ: a, a.2, column 3.

    >>> _distinct(["a", "a", "", "a.2"])
    ['a', 'a.3', 'column 3', 'a.2']
    """
    taken = set(names)
    used: set[str] = set()
    numbers: dict[str, int] = {}  # that come next, by name
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


# ---- Values

_BIG = 1 << 1023


class _LongName(ValueError):
    """A name that is far too long."""


def _flat(value: dict[str, Any], flat: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The values of an object and of the objects in it, by dotted names."""
    for key, item in value.items():
        kind = type(item)
        if kind is dict:
            if len(prefix) + len(key) > MAX_TEXT:  # each key inside would be as long
                raise _LongName(f"has a name of more than {MAX_TEXT:,} characters")
            _flat(item, flat, f"{prefix}{key}.")
        elif kind is bool:
            flat[prefix + key] = int(item)
        elif kind is int:
            flat[prefix + key] = (
                item if -_BIG < item < _BIG else math.inf if item > 0 else -math.inf
            )
        elif kind is not list:
            flat[prefix + key] = item
    return flat


_MEASUREMENT = (0, "measurement")
_TIME = (3, "time")  # tags are 1, fields 2
_KEY = re.compile(r"((?:\\.|[^,= \\])+)=", re.DOTALL)
_HEAD_NAME = re.compile(r"((?:\\.|[^, \\])+)", re.DOTALL)
_TAG_VALUE = re.compile(r"((?:\\.|[^,= \\])*)", re.DOTALL)
_FIELD_VALUE = re.compile(r'("(?:\\.|[^"\\])*+"|[^, "]+)', re.DOTALL)
_ESCAPE = re.compile(r"\\([,= ])")
_TEXT_ESCAPE = re.compile(r'\\(["\\])')
_FIELD_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.]\d*)?|[.]\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_FIELD_WHOLE = re.compile(r"([+-]?\d{1,40})[iu]", re.ASCII)
_TIMESTAMP = re.compile(r" +(-?\d{1,40})", re.ASCII)
_TRUE = frozenset(("t", "T", "true", "True", "TRUE"))
_FALSE = frozenset(("f", "F", "false", "False", "FALSE"))


def _point(text: str) -> dict[tuple[int, str], Any]:
    """The values of one line of line protocol; a ValueError says what is wrong with it."""
    if "\\" not in text and '"' not in text and (simple := _simple_point(text)):
        return simple
    point: dict[tuple[int, str], Any] = {}
    at = 0

    def take(pattern: re.Pattern[str], what: str) -> str:
        nonlocal at
        found = pattern.match(text, at)
        if found is None:
            raise ValueError(f"no {what} at character {at + 1}")
        at = found.end()
        return found.group(1)

    point[_MEASUREMENT] = _bare(take(_HEAD_NAME, "measurement"))
    while text.startswith(",", at):
        at += 1
        key = _bare(take(_KEY, "name of a tag"))
        point[1, key] = _bare(take(_TAG_VALUE, "value of a tag")) or None
    if not text.startswith(" ", at):
        raise ValueError("no fields")
    while text.startswith(" ", at):
        at += 1
    while True:
        key = _bare(take(_KEY, "name of a field"))
        point[2, key] = _value(take(_FIELD_VALUE, "value of a field"))
        if not text.startswith(",", at):
            break
        at += 1
    if at < len(text):
        point[_TIME] = int(take(_TIMESTAMP, "time"))
        if at < len(text):
            raise ValueError(f"more after the time at character {at + 1}")
    return point


def _simple_point(text: str) -> dict[tuple[int, str], Any] | None:
    """The same, faster, for a line without escapes and quotes; None if it is not that simple."""
    name, _, rest = text.partition(" ")
    fields, _, when = rest.partition(" ")
    name, *tags = name.split(",")
    if not name:
        return None
    point: dict[tuple[int, str], Any] = {_MEASUREMENT: name}
    for tag in tags:
        key, sign, value = tag.partition("=")
        if not key or not sign or "=" in value:
            return None
        point[1, key] = value or None
    for field in fields.split(","):
        key, _, value = field.partition("=")
        if not key or not value:
            return None
        point[2, key] = float(value) if _FIELD_NUMBER.fullmatch(value) else _value(value)
    if when:
        if not _TIMESTAMP.fullmatch(" " + when):
            return None
        point[_TIME] = int(when)
    return point


def _bare(text: str) -> str:
    return _ESCAPE.sub(r"\1", text) if "\\" in text else text


def _value(text: str) -> float | int | str:
    if _FIELD_NUMBER.fullmatch(text):
        return float(text)
    if text.startswith('"'):
        return _TEXT_ESCAPE.sub(r"\1", text[1:-1])
    if found := _FIELD_WHOLE.fullmatch(text):
        return int(found.group(1))
    if text in _TRUE:
        return 1
    if text in _FALSE:
        return 0
    raise ValueError(f"{text[:40]!r} is no value")


# ---- Files

_WIDE = (  # what begins text of more than one byte a character
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ALONE = re.compile(rb"\r(?!\n)")
# Python before 3.11.5 (Debian 12 has 3.11.2) goes on in a wrong place when a possessive group fails
# half way.
_RESTORES = re.fullmatch(rb"(?:ax*b)*+aa", b"aa") is not None
_pread: Any = getattr(os, "pread", None)
_NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)


class _Start:
    """The first bytes of a file, for those who read it to its end."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._size = file, size
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._file.tell())
        return self._file.read(left if size < 0 else min(size, left))


def _read_at(file: IO[bytes], size: int, at: int) -> bytes:
    if _pread is not None:  # processes that share a file do not share a place in it
        block: bytes = _pread(file.fileno(), size, at)
        return block
    file.seek(at)
    return file.read(size)


def _is_narrow(encoding: str) -> bool:
    """Whether commas, quotes and line ends are one byte each, and that byte is nothing else."""
    try:
        name = codecs.lookup(encoding).name
        every = bytes(range(256)).decode(encoding, "replace")
    except (LookupError, TypeError, UnicodeError, ValueError):
        raise SourceError(f"there is no encoding {encoding!r}; 'utf-8' is the usual one") from None
    if name in ("utf-8", "utf-8-sig"):
        return True
    return len(every) == 256 and every[:128] == bytes(range(128)).decode("ascii")


def _is_sign(text: str) -> bool:
    return len(text) == 1 and text.isascii() and text not in "\r\n\0 " and not text.isalnum()


def _spacing(size: int) -> int:
    """Bytes from mark to mark of the index of so much text."""
    return max(_SPAN, -(-size // _MARKS))


def _line_ends(text: bytes) -> int:
    ends = text.count(b"\n")
    if b"\r" in text:
        ends += text.count(b"\r") - text.count(b"\r\n")
    return ends


def _plain_file(path: str) -> IO[bytes]:
    """A file to read; an OSError if it is a pipe, which might wait for a writer for ever."""
    file = open(path, "rb", opener=lambda p, flags: os.open(p, flags | _NO_WAIT))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is not a plain file")
    return file
