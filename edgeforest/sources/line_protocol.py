"""The line protocol of InfluxDB as a source.

>>> with open("log.lp", "w") as stream:
...     _ = stream.write("air,room=hall temp=20.5,people=3i 1700000000\\n")
>>> log = LineProtocol("log.lp")
>>> log.names, log.read([0])
(['room', 'temp', 'people', 'time'], [['hall'], [20.5], [3], [1700000000]])
>>> log.close()
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from edgeforest.sources.base import SourceError
from edgeforest.sources.columns import distinct_names
from edgeforest.sources.file import OnProgress, PathType
from edgeforest.sources.lines import Lines
from edgeforest.sources.records import Records

_Point: TypeAlias = "dict[tuple[int, str], Any]"  # values by kind of column and name

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


class LineProtocol(Lines):
    """The line protocol of InfluxDB: `air,room=hall temp=20.5,people=3i 1700000000`.

    Columns are `measurement` if there is more than one, the tags (text), the fields (numbers, true
    and false as 1 and 0, or text) and `time`, if a random sample of rows has them. If two columns
    have the same name, the second gets a number: `time.2`.
    """

    def __init__(
        self,
        path: PathType,
        *,
        encoding: str = "utf-8",
        max_bad: int = 0,
        progress: OnProgress | None = None,
    ) -> None:
        super().__init__(path, comment="#", encoding=encoding, max_bad=max_bad, progress=progress)

    def find_records(self, comment: bytes) -> Records:
        """Quoted fields may hold line ends."""
        return Records(quote=b'"', opens=b"=", escape=b"\\", comment=comment)

    def is_half(self, record: bytes) -> bool:
        try:
            _point(str(record, self.file.bytewise).strip(" \t"))
        except ValueError:
            return True
        return super().is_half(record)

    def begin(self) -> None:
        self.leave_half()
        seen: dict[tuple[int, str], None] = {}
        kinds: set[str] = set()
        for numbers, records in self.batches(self.some_rows()):
            for point in self._points(numbers, records):
                kinds.add(point[_MEASUREMENT])
                seen.update(dict.fromkeys(point))
                self.refuse_wide(len(seen))
        if not seen:
            raise SourceError(f"{self.name} has no points that can be read")
        if len(kinds) < 2:
            seen.pop(_MEASUREMENT, None)
        self._keys = sorted(seen, key=lambda key: key[0])  # in order of appearance otherwise
        self.names = distinct_names([name for _, name in self._keys])

    def _points(self, rows: list[int], records: list[bytes]) -> Iterator[_Point]:
        for row, text in self.decoded(rows, records):
            point = None
            try:
                point = _point(text.strip(" \t"))
            except ValueError as error:
                why = f"is not line protocol ({error})"
            if point is None:
                self.skip(row, self.line(row), why)
            else:
                yield point

    def parse(self, rows: list[int], records: list[bytes], columns: list[list[Any]]) -> None:
        keys = self._keys
        for point in self._points(rows, records):
            get = point.get
            for column, key in zip(columns, keys, strict=True):
                column.append(get(key))


def _point(text: str) -> _Point:
    """The values of one line of line protocol; a ValueError says what is wrong with it."""
    if "\\" not in text and '"' not in text and (simple := _simple_point(text)):
        return simple
    point: _Point = {}
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


def _simple_point(text: str) -> _Point | None:
    """The same, faster, for a line without escapes and quotes; None if it is not so simple."""
    name, _, rest = text.partition(" ")
    fields, _, when = rest.partition(" ")
    name, *tags = name.split(",")
    if not name:
        return None
    point: _Point = {_MEASUREMENT: name}
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
    raise ValueError(f"{text[:40]!r} is not a value")
