"""An index of a text file: where records begin, so that any row can be read at once.

One pass over the file sets a mark every few kilobytes: the place, the number of the record that
begins there, and the line. The marks are kept beside the file as `<path>.efidx`, and used again as
long as the file stays as it is. If it has only grown, they are continued.

Anybody may write an index. So it is used only if it can be that of the file, and each part of it
is checked when it is first read through.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import sys
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from operator import le, sub
from typing import IO

from edgeforest import files
from edgeforest.sources.base import SourceError
from edgeforest.sources.file import plain_file
import edgeforest.sources.in_c as in_c
from edgeforest.sources.records import Records, line_ends
from edgeforest.sources.text_file import TextFile

MAX_RECORD = 1 << 24  # bytes; a longer line is not a table, or a quote is not closed
BLOCK = 1 << 20  # bytes that are indexed at a time
SPAN = 4096  # bytes from mark to mark, more in large files
MARKS = 1 << 19  # at most

_MAGIC = b"EFIDX\0"
_VERSION = 2
# version, unclosed, with lines; size and mtime of the file; size, ends and options; counts; checksum
HEADER = struct.Struct("<6sHBB4xQqQIIQQQ")
_ALONE = re.compile(rb"\r(?!\n)")


class LineIndex:
    """Marks of a text that `records` splits. They are read from beside the file, or made.

    With `keep` they are written beside the file. `known` is the index of the same text when it was
    longer.
    """

    def __init__(
        self, text: TextFile, records: Records, *, keep: bool, known: LineIndex | None = None
    ) -> None:
        self._text, self._records = text, records
        self.path = text.path + ".efidx"
        self.offsets, self.firsts = array("Q"), array("Q")  # of marks: byte, and record
        self.lines = array("Q")  # of marks; empty if each line is a record
        self.count = 0  # of records
        self.unclosed = False  # a quote in the last record
        self._summed = 0, 0  # how many bytes, and their checksum
        self._doubted = bytearray()  # 1 for each mark that was read from a file and not used so far
        self._noted: tuple[int, int] | None = None  # where the index goes on, and at which line
        self._numbered: tuple[int, list[int]] = (-1, [])  # a span, and the lines of its records
        if known is not None:
            self._go_on(text.size, known.offsets, known.firsts, known.lines)
        elif keep and self._load():
            return
        self._make()
        text.check()
        if keep:
            self._save()

    def checksum(self, size: int) -> int:
        """The CRC-32 of the first bytes of the text."""
        return self._summed[1] if size == self._summed[0] else self._text.checksum(size)

    # ---- Reading by the marks

    def read(self, span: int, last: int) -> list[bytes]:
        """The records from one mark to before another."""
        start, stop = self.offsets[span], self.offsets[last]
        chunk = self._text.read(start, stop - start)
        expected = self.firsts[last] - self.firsts[span]
        each = self._line_of_mark(last) - self._line_of_mark(span) == expected  # line is a record
        doubt = any(self._doubted[span:last])
        if doubt and each:
            masked, _ = self._records.mask(chunk)
            each = masked is chunk and not self._records.suspect.search(b"\n" + chunk)
        records = chunk.splitlines() if each else self._records.split(chunk)
        if len(records) != expected or (doubt and not self._has_ends(start, stop)):
            self._text.check()
            raise SourceError(
                f"{self._text.name} is not as its index says; delete {self.path} and open it again"
            )
        if doubt:
            self._doubted[span:last] = bytes(last - span)
        return records

    def _has_ends(self, *offsets: int) -> bool:
        """Whether a line ends right before each of these places."""
        text = self._text
        known = (text.start, text.size)
        return all(at in known or text.read(at - 1, 1) in (b"\n", b"\r") for at in offsets)

    def _line_of_mark(self, mark: int) -> int:
        return self.lines[mark] if self.lines else self.firsts[mark] + 1

    def line(self, record: int) -> int:
        """The line at which a record begins, numbered from 1."""
        span = bisect_right(self.firsts, record) - 1
        if self._numbered[0] != span:  # bad rows come one after the other
            self.read(span, span + 1)  # checks the index
            start, stop = self.offsets[span : span + 2]
            chunk = self._text.read(start, stop - start)
            self._numbered = span, self._records.line_numbers(chunk, self._line_of_mark(span))
        return self._numbered[1][record - self.firsts[span]]

    # ---- Making it

    def _make(self) -> None:
        """Set the marks, in one pass."""
        text = self._text
        spacing = _spacing(text.size)
        at, line = self._noted or (text.start, 1)  # all before is noted
        rest = b""
        done = at
        while True:
            block = text.read(done, max(BLOCK, len(rest)))
            self._sum(done, block)
            done += len(block)
            last = not block or done >= text.size
            block = rest + block if rest else block
            masked, unclosed = self._records.mask(block)
            cut = masked.rfind(b"\n") + 1
            if not cut:  # the end might be half of \r\n
                cut = masked.rfind(b"\r", 0, max(0, len(masked) - 1)) + 1
            if len(block) - cut > MAX_RECORD:
                self._refuse_long(line + line_ends(block[:cut]), unclosed)
            if last:
                cut = len(block)
                self.unclosed = unclosed
            line = self._note(at, block, masked, cut, line, spacing)
            at += cut
            rest = block[cut:]
            if text.progress is not None:
                text.progress(min(done, text.size), text.size)
            if last:
                break
        self._mark(at, line)

    def _sum(self, at: int, block: bytes) -> None:
        """Add bytes to the checksum, unless they are in it already."""
        known, crc = self._summed
        if known < at:  # a byte order mark, or all that another index has noted
            known, crc = at, self._text.checksum(at)
        end = at + len(block)
        if end > known:
            self._summed = end, zlib.crc32(memoryview(block)[known - at :], crc)

    def _refuse_long(self, line: int, unclosed: bool) -> None:
        size = f"{MAX_RECORD >> 20} MB"
        if unclosed:
            raise SourceError(
                f"the row at line {line} of {self._text.name} has a quote that is not closed "
                f"within {size}; close it, or turn quotes off (quote=None)"
            )
        raise SourceError(
            f"line {line} of {self._text.name} is longer than {size}; give a file with one row a "
            "line"
        )

    def _mark(self, offset: int, line: int) -> None:
        if not self.lines and line != self.count + 1:
            self.lines = array("Q", (first + 1 for first in self.firsts))
            self.lines.append(line)
        elif self.lines:
            self.lines.append(line)
        self.offsets.append(offset)
        self.firsts.append(self.count)

    def _note(
        self, base: int, block: bytes, masked: bytes, cut: int, line: int, spacing: int
    ) -> int:
        """Set the marks of a block up to a cut; the line after it."""
        if not cut:
            return line
        if masked is block and in_c.text is not None:
            signs = self._records.blank + self._records.comment[:1]
            marks = in_c.text.marks(memoryview(block)[:cut], spacing, signs)
            if marks is not None:
                return self._note_plain(base, array("Q", marks), line)
        end = b"\n" if b"\n" in masked else b"\r"
        alone = b"\r" in masked and _ALONE.search(masked)
        plain = not alone and not self._records.suspect.search(b"\n" + masked)
        at = 0
        while at < cut:
            self._mark(base + at, line)
            to = masked.find(end, at + spacing - 1, cut) + 1 or cut
            half = masked[to - 1] not in b"\r\n"  # the end of the file
            if alone:
                found = masked[at:to].splitlines()
                ends = len(found)
                n = ends - self._records.content(found).count(b"")
            else:
                n = ends = masked.count(b"\n", at, to) + half
                if not plain:
                    n = len(self._records.first_sign.findall(b"\n" + masked[at:to]))
            self.count += n
            line += ends if masked is block else line_ends(block[at:to]) + half
            at = to
        return line

    def _note_plain(self, base: int, marks: array[int], line: int) -> int:
        """Set the marks of a block in which each line is a record; the line after it."""
        at = 0
        for to, n in zip(marks[::2], marks[1::2], strict=True):
            self._mark(base + at, line)
            self.count += n
            line += n
            at = to
        return line

    # ---- The file beside the text

    def _facts(self) -> tuple[int, ...]:
        """What must be the same for an index to be used again."""
        text = self._text
        ends = text.read(0, SPAN) + text.read(max(0, text.size - SPAN), SPAN)
        options = (*self._records.options(), "" if text.narrow else text.encoding)
        facts = (text.status.st_size, text.status.st_mtime_ns, text.size)
        return (*facts, zlib.crc32(ends), zlib.crc32(repr(options).encode()))

    def _load(self) -> bool:
        """Use the index beside the file; whether it is of this file as it is now.

        If the file has only grown since, it is used as far as it goes.
        """
        found = self._read_file()
        if found is None:
            return False
        facts, summed, unclosed, arrays = found
        size = facts[2]
        if not self._leads_through(size, *arrays):
            return False
        now = self._facts()
        if facts != now:
            grown = size < now[2] and facts[4] == now[4] and _spacing(size) == _spacing(now[2])
            if grown and self._text.checksum(size) == summed:
                self._summed = size, summed
                self._go_on(size, *arrays)
            return False
        start, stop = arrays[0][-2:]
        if self._records.mask(self._text.read(start, stop - start))[1] != unclosed:
            return False
        self.offsets, self.firsts, self.lines = arrays
        self.count = self.firsts[-1]
        self.unclosed = unclosed
        self._summed = size, summed
        self._doubted = bytearray(b"\1") * len(self.offsets)
        return True

    def _read_file(self) -> tuple[tuple[int, ...], int, bool, list[array[int]]] | None:
        """What the index beside the file says: facts, a checksum, a flag, and marks."""
        try:
            with plain_file(self.path) as stream:
                header = stream.read(HEADER.size)
                magic, version, unclosed, with_lines, *facts = HEADER.unpack(header)
                *facts, records, marks, summed = facts
                if (magic, version) != (_MAGIC, _VERSION) or not 0 < facts[2] <= self._text.size:
                    return None
                arrays = [array("Q") for _ in range(3 if with_lines else 2)]
                size = HEADER.size + 8 * marks * len(arrays) + 4
                most = facts[2] // SPAN + facts[2] // BLOCK + 16
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
        """Take over marks of the same text up to the span that holds an end; that is read anew."""
        k = bisect_left(offsets, end) - 1
        self._noted = offsets[k], lines[k] if lines else firsts[k] + 1
        self.count = firsts[k]
        self.offsets, self.firsts, self.lines = offsets[:k], firsts[:k], lines[:k]
        self._doubted = bytearray(b"\1") * k

    def _leads_through(
        self, end: int, offsets: array[int], firsts: array[int], lines: Sequence[int]
    ) -> bool:
        """Whether marks can be those of this file: anybody can write a checksum that fits."""
        if (offsets[0], offsets[-1], firsts[0]) != (self._text.start, end, 0):
            return False
        sizes = list(map(sub, offsets[1:], offsets))
        records = list(map(sub, firsts[1:], firsts))
        longest = 4 * MAX_RECORD + self._text.size // MARKS
        if not all(0 < size <= longest for size in sizes) or min(records) < 0:
            return False
        ends = list(map(sub, lines[1:], lines)) if lines else records
        if not all(map(le, records, ends)) or not all(map(le, ends, sizes)):
            return False
        hidden = (  # a span without records is never read, so it is looked at now
            self._records.split(self._text.read(at, size))
            for at, size, n in zip(offsets, sizes, records, strict=False)
            if not n
        )
        return (not lines or lines[0] == 1) and not any(hidden)

    def _save(self) -> None:
        """Keep the index beside the file; if that is not possible, it is made again next time."""
        with suppress(OSError):
            if os.path.lexists(self.path):
                with plain_file(self.path) as stream:
                    if stream.read(len(_MAGIC)) != _MAGIC or os.path.islink(self.path):
                        return  # somebody else's file
            # Whoever may read the file may read its index.
            mode = stat.S_IMODE(self._text.status.st_mode) & 0o666
            with files.replacing(self.path, mode) as stream:
                self._write_file(stream)

    def _write_file(self, stream: IO[bytes]) -> None:
        numbers = (*self._facts(), self.count, len(self.offsets), self._summed[1])
        flags = (self.unclosed, bool(self.lines))
        header = HEADER.pack(_MAGIC, _VERSION, *flags, *numbers)
        stream.write(header)
        crc = zlib.crc32(header)
        for values in (self.offsets, self.firsts, self.lines):
            if sys.byteorder == "big":
                values = array("Q", values)
                values.byteswap()
            crc = zlib.crc32(values, crc)
            stream.write(values)
        stream.write(struct.pack("<I", crc))


def _spacing(size: int) -> int:
    """Bytes from mark to mark in the index of a text of that size."""
    return max(SPAN, -(-size // MARKS))
