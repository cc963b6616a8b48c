"""CSV files as sources: values with separators between them, one row a line.

>>> with open("log.csv", "w") as stream:
...     _ = stream.write("time;temp;window\\n1;20,5;shut\\n2;?;open\\n3;24,0;open\\n")
>>> log = CSV("log.csv")
>>> len(log), log.names, log.separator, log.decimal_comma
(3, ['time', 'temp', 'window'], ';', True)
>>> log.read([0, 1])
[['1', '2'], ['20,5', None], ['shut', 'open']]
>>> log.close()
"""

from __future__ import annotations

import codecs
import csv
import random
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import edgeforest.sources.in_c as in_c
from edgeforest.sources.base import SourceError
from edgeforest.sources.columns import checked_rows, distinct_names, extended
from edgeforest.sources.file import OnProgress, PathType
from edgeforest.sources.line_index import MAX_RECORD
from edgeforest.sources.lines import Lines
from edgeforest.sources.records import Records, line_ends
from edgeforest.host.words import count
from edgeforest.sources.cells import MISSING

HEAD = 1 << 16  # bytes that are looked at for separators
LOOK = 200  # rows that are looked at for headers and decimal commas ...
LOOK_BYTES = 1 << 20  # ... or fewer, if they are long

_SEPARATORS = ("\t", ";", ",", "|", " ")  # if several fit equally well, the first is taken
_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.]\d*)?|[.]\d+)(?:[eE][+-]?\d+)?|[+-]?inf", re.ASCII)
_NUMBER_COMMA = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?|[+-]?inf", re.ASCII)
_PLAIN = ("utf-8", "ascii", "iso8859-1", "cp1252")  # encodings of text that C may read
_MISSING = "".join(f"{word}\0" for word in sorted(MISSING)).encode()
_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?", re.ASCII)
_POINT = re.compile(r"[+-]?\d*[.]\d+(?:[eE][+-]?\d+)?", re.ASCII)


class CSV(Lines):
    """A table of values with separators between them, one row a line.

    Options that are not given are found by looking at the text: the `separator` (comma, semicolon,
    tab, | or runs of spaces), whether the first row is a `header`, and whether numbers have a
    decimal comma. Cells are text without the space around it, and None where they are missing. Quoted cells may hold separators,
    doubled quotes and line ends. Rows that have too few or too many cells are bad; more than
    `max_bad` of them are an error.
    """

    texts = True

    def __init__(
        self,
        path: PathType,
        *,
        separator: str | None = None,
        header: bool | None = None,
        names: Sequence[str] | None = None,
        comment: str | None = None,
        quote: str | None = '"',
        decimal_comma: bool | None = None,
        encoding: str = "utf-8",
        max_bad: int = 0,
        progress: OnProgress | None = None,
    ) -> None:
        if separator is not None and not (_is_sign(separator) or separator == " "):
            raise SourceError(
                f"separator must be one punctuation character, such as ';', got {separator!r}"
            )
        if quote and (not _is_sign(quote) or quote == separator):
            raise SourceError(
                f"quote must be one punctuation character, other than the separator, such as '\"', got {quote!r}"
            )
        self.separator = separator or ""
        self.quote = quote or ""
        self._header = header
        self._names = None if names is None else [str(name) for name in names]
        self._comma = decimal_comma
        super().__init__(
            path, comment=comment, encoding=encoding, max_bad=max_bad, progress=progress
        )

    def _records_by(self, separator: str, comment: bytes) -> Records:
        """How the text is split into rows if it has this separator."""
        return Records(
            blank=b" " if separator == "\t" else b" \t",
            quote=self.quote.encode(),
            opens=separator.encode(),
            comment=comment,
            spaced=separator != " ",
        )

    def find_records(self, comment: bytes) -> Records:
        """Find the separator that fits best, unless it is given."""
        given = self.separator
        head = self._head(self._records_by(given or ",", comment))
        part = len(head) < self.file.size - self.file.start
        best = 0.0, given or ","
        for separator in (given,) if given else _SEPARATORS:
            self.separator = separator
            records = self._records_by(separator, comment).split(head)
            if part and len(records) > 1:
                records.pop()  # it may be half a record
            fit = _fit(self._cells(_few(records)), separator)
            if fit > best[0]:
                best = fit, separator
        self.separator = best[1]
        return self._records_by(self.separator, comment)

    def _head(self, records: Records) -> bytes:
        """The first bytes, with more than one record if there is one."""
        size = HEAD
        while True:
            head = self.file.read(self.file.start, size)
            if len(head) < size or size > MAX_RECORD:
                return head[:MAX_RECORD]
            if line_ends(head) > 2 and (size >= LOOK_BYTES or len(records.split(head)) > 2):
                return head
            size *= 2

    def _cells(self, records: list[bytes]) -> list[list[str]]:
        """The cells of records; those that cannot be read are left out."""
        encoding = self.file.bytewise
        texts = [str(record, encoding, "replace") for record in records]
        return [row for text in texts if (row := self._row(text))]

    def _row(self, text: str) -> list[str] | None:
        """The cells of one row, None if a cell is far too long."""
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

    def begin(self) -> None:
        rows = self._peek(range(min(self.count, LOOK)))
        if not rows:
            raise SourceError(f"line {self.line(0)} of {self.name} is too long for a table")
        if self.count > len(rows):
            rows += self._peek(sorted(random.Random(0).choices(range(1, self.count), k=LOOK)))
        if self._comma is None:
            self._comma = self.separator != "," and _has_decimal_comma(rows)
        self.decimal_comma = self._comma
        below = rows[1:]
        header = self._header
        if header is None:
            header = self._is_header(rows[0], below)
        self.shift = int(header)
        self.refuse_wide(len(rows[0]), "use separator=C if it was guessed wrong")
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
        self.names = distinct_names(names)
        if header:
            self.unnamed = [new for new, old in zip(self.names, names, strict=True) if not old]
        self.leave_half()
        if self.unclosed:
            self._skip_unclosed()

    def is_half(self, record: bytes) -> bool:
        try:
            cells = self._row(str(record, self.file.bytewise)) or []
        except UnicodeError:  # cut within a letter
            return True
        return len(cells) < len(self.names) or self.unclosed or super().is_half(record)

    def _peek(self, rows: Sequence[int]) -> list[list[str]]:
        """The cells of these rows; those that cannot be read are left out."""
        found = []
        size = 0
        for _, records in self.batches(rows):
            found += [[cell.strip() for cell in row] for row in self._cells(_few(records))]
            size += sum(map(len, records))
            if size > LOOK_BYTES:
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
        # All is text: then a header is a row whose cells do not come again below it.
        if len(set(first)) < len(first) or not all(first):
            return False
        again = any(row[f : f + 1] == [cell] for row in below for f, cell in enumerate(first))
        return not again

    def _name_row(self) -> list[str]:
        """The cells of the header."""
        _, records = next(self.batches([-1]))
        encoding = self.file.bytewise
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

    def parse(self, rows: list[int], records: list[bytes], columns: list[list[Any]]) -> None:
        if self.unclosed and rows[-1] == len(self) - 1:
            at = bisect_left(rows, rows[-1])
            self._skip_unclosed()
            rows, records = rows[:at], records[:at]
        n_columns = len(columns)
        found = self._in_c(records, "t" * n_columns)
        if found is not None:
            for column, texts in zip(columns, found, strict=True):
                column += texts
            return
        decoded = self.decoded(rows, records)
        cells: list[list[str]] = []
        with suppress(csv.Error):
            cells = list(self._reader([text for _, text in decoded]))
        if len(cells) != len(decoded) or any(len(row) != n_columns for row in cells):
            cells = [row for at, text in decoded if (row := self._good(at, text, n_columns))]
        missing = MISSING
        for column, raws in zip(columns, zip(*cells, strict=True), strict=False):
            column += [None if (t := raw.strip()) in missing else t for raw in raws]

    def read_as(self, rows: Sequence[int], kinds: str | None) -> list[Sequence[Any]]:
        """The values of these rows, by column; in arrays where they are plain numbers."""
        if kinds is None or in_c.text is None:
            return self.read(rows)
        self.check()
        rows = checked_rows(rows, len(self), self.name, again=True)
        columns: list[Any] = []
        for numbers, records in self.batches(rows):
            whole = not (self.unclosed and numbers[-1] == len(self) - 1)
            found = self._in_c(records, kinds) if whole else None
            columns = columns or found or []
            if found is None or list(map(type, found)) != list(map(type, columns)):
                return self.read(rows)  # alike for all rows: who asked sees only one kind of value
            if found is not columns:
                columns = list(map(extended, columns, found))
        return columns or [[] for _ in self.names]

    def _in_c(self, records: list[bytes], kinds: str) -> list[Any] | None:
        """The columns of records by their kinds; None if Python has to read them."""
        encoding = codecs.lookup(self.file.bytewise).name
        if in_c.text is None or self.separator == " " or encoding not in _PLAIN or not records:
            return None
        text = b"\n".join(records)
        if b"\0" in text:
            return None
        if not text.isascii():
            try:
                text = str(text, encoding).encode()
            except UnicodeError:
                return None
        quote = ord(self.quote) if self.quote else 0
        longest = min(csv.field_size_limit(), MAX_RECORD)
        signs = ord(self.separator), quote, self.decimal_comma, longest
        found = in_c.text.cells(text, len(records), signs, kinds.encode(), _MISSING)
        if found is None:
            return None
        return [
            array(kind, values) if isinstance(values, bytes) else values or [None] * len(records)
            for kind, values in zip(kinds, found, strict=True)
        ]

    def _good(self, row: int, text: str, n_columns: int) -> list[str] | None:
        """The cells of a row, or None if there are more or fewer of them than columns."""
        cells = self._row(text)
        if cells is None:
            most = csv.field_size_limit()
            self.skip(row, self.line(row), f"has a cell of more than {most:,} characters")
        elif len(cells) != n_columns:
            there = f"there {'is' if n_columns == 1 else 'are'} {count(n_columns, 'column')}"
            has = f"has {count(len(cells), 'value')} where {there}"
            self.skip(row, self.line(row), has)
            cells = None
        return cells


def _few(records: list[bytes]) -> list[bytes]:
    """The records that are looked at; fewer if they are long."""
    size = 0
    for n, record in enumerate(records[:LOOK]):
        size += len(record)
        if size > LOOK_BYTES:
            return records[: max(2, n)]
    return records[:LOOK]


def _is_number(cell: str, comma: bool) -> bool:
    return bool((_NUMBER_COMMA if comma else _NUMBER).fullmatch(cell))


def _has_decimal_comma(rows: list[list[str]]) -> bool:
    commas = points = 0
    for row in rows:
        for cell in row:
            commas += _COMMA.fullmatch(cell) is not None
            points += _POINT.fullmatch(cell) is not None
    return commas > points


def _fit(rows: list[list[str]], separator: str) -> float:
    """How well a separator fits: rows have the same number of cells, and cells are numbers."""
    if not rows or len(rows[0]) < 2 or not any(map(str.strip, rows[0])):
        return 0.0
    usual, times = Counter(map(len, rows)).most_common(1)[0]
    if usual < 2:
        return 0.0
    cells = [cell.strip() for row in rows[1:] for cell in row] or [""]
    good = sum(_is_number(cell, separator != ",") or cell in MISSING for cell in cells)
    return times / len(rows) + good / len(cells) / 2


def _is_sign(text: str) -> bool:
    return len(text) == 1 and text.isascii() and text not in "\r\n\0 " and not text.isalnum()
