"""Another look at a source: dates as numbers, or all rows but some.

>>> from edgeforest.sources import Table
>>> log = Table({"time": ["2024-05-01 18:30:00", "2024-05-02T06:00Z"], "temp": [20.5, 17.0]})
>>> dated = Dated(log, ["time", "time.hour", "time.weekday"])
>>> dated.names
['time', 'temp', 'time.hour', 'time.weekday']
>>> dated.read([0])
[array('d', [1714588200.0]), [20.5], array('d', [18.5]), array('d', [2.0])]
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from edgeforest.host.names import listed, quoted, short
from edgeforest.sources import Source, SourceError, _kept
from edgeforest.sources.cells import parse_number

LOOK = 100  # rows that tell whether a column of dates holds numbers
YEAR = 365 * 86400
MAX_SECONDS = 253402300799  # the end of the year 9999

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PARTS: dict[str, Callable[[datetime], float]] = {
    "hour": lambda d: d.hour + d.minute / 60 + d.second / 3600,
    "weekday": lambda d: float(d.weekday()),
}


class _View(Source):
    """What a source has, unless it is said otherwise."""

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

    def _row(self, row: int) -> int:
        """Which row of the source a row is."""
        return row

    def _read(self, rows: Sequence[int]) -> tuple[Sequence[int], list[Sequence[Any]]]:
        self.source.max_bad = self.max_bad
        try:
            return self.source.read_kept(rows)
        finally:
            self.bad = self.source.bad

    def line(self, row: int) -> int | None:
        return self.source.line(self._row(row))

    def where(self, row: int) -> str:
        return self.source.where(self._row(row))

    def is_bad(self, row: int) -> bool:
        return self.source.is_bad(self._row(row))

    def skip(self, row: int, line: int | None, why: str) -> None:
        self.source.max_bad = self.max_bad
        try:
            self.source.skip(self._row(row), line, why)
        finally:
            self.bad = self.source.bad

    def origin(self) -> dict[str, str]:
        """Whence the rows of the source are."""
        return self.source.origin()

    def extent(self) -> dict[str, Any]:
        """What a checkpoint remembers of the rows of the source."""
        return self.source.extent()

    def first(self, extent: Mapping[str, Any]) -> Source | None:
        """The same look at the first rows of the source, if they are those; else None."""
        source = self.source.first(extent)
        return self if source is self.source else None if source is None else self._of(source)

    def _of(self, source: Source) -> Source | None:
        """The same look at a source of fewer rows."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise a SourceError if the source is not what it was."""
        self.source.check()

    def close(self) -> None:
        """Let go of the source's files."""
        self.source.close()


class First(_View):
    """The first rows of a source.

    >>> from edgeforest.sources import Table
    >>> First(Table({"a": [10, 11, 12, 13, 14]}), 2).read([0, 1])
    [[10, 11]]
    """

    def __init__(self, source: Source, n: int) -> None:
        super().__init__(source)
        self._n = n

    def __len__(self) -> int:
        return self._n

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        return self._read(rows)[1]

    def extent(self) -> dict[str, Any]:
        """What a checkpoint remembers of these rows."""
        return {**self.source.origin(), "rows": self._n, "crc32": self.source.checksum(self._n)}

    def first(self, extent: Mapping[str, Any]) -> Source | None:
        """These rows or fewer of them, if they are those that a checkpoint remembers; else None."""
        if extent["rows"] > self._n:
            return None
        found = self.source.first(extent)
        return self if found is not None and extent["rows"] == self._n else found


class Rest(_View):
    """All rows of a source but some, which are given in ascending order.

    >>> from edgeforest.sources import Table
    >>> Rest(Table({"a": [10, 11, 12, 13, 14]}), without=[1, 3]).read([0, 1, 2])
    [[10, 12, 14]]
    """

    def __init__(self, source: Source, without: Sequence[int]) -> None:
        super().__init__(source)
        self._before = array("q", (row - i for i, row in enumerate(without)))  # rows that stay

    def __len__(self) -> int:
        return len(self.source) - len(self._before)

    def _of(self, source: Source) -> Source | None:
        return None  # nobody knows which of its rows to leave out

    def _row(self, row: int) -> int:
        return row + bisect_right(self._before, row)

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        return self._read([self._row(row) for row in rows])[1]


class Dated(_View):
    """A source with dates as numbers: seconds since 1970 in UTC.

    `dates` names the columns, as a dict also how they are written: a format of `strptime`, or None
    for ISO 8601 (`2024-05-01`, `2024-05-01 18:30:00`, `2024-05-01T18:30:00.5+02:00`). Without a
    time zone, a date is in UTC. `time.hour` adds a column with the hour of the day of column
    `time`, from 0 to 23.99, as it is written there, and `time.weekday` one with 0 for Monday to 6
    for Sunday. Numbers stand for seconds already. A row with a date that cannot be read is bad.

    Forests compare numbers as float32, which tells points in time of today apart by two minutes.
    """

    def __init__(self, source: Source, dates: Iterable[str] | Mapping[str, str | None]) -> None:
        super().__init__(source)
        asked = dates if isinstance(dates, Mapping) else dict.fromkeys(_names(dates))
        self._asked = asked
        self._places: list[tuple[int, str, str | None]] = []  # column, part of the date, format
        self.names = list(source.names)
        for name, form in asked.items():
            if form is not None:
                _check_format(form)
            column, _, part = name.rpartition(".")
            if name in source.names:
                self._places.append((source.names.index(name), "", form))
            elif is_part(name) and column in source.names:
                self._places.append((source.names.index(column), part, form))
                self.names.append(name)
            else:
                raise SourceError(
                    f"dates names column {quoted(name)}, which is not in {source.name}; it has "
                    f"{listed(source.names)}"
                )
        self._looked = False

    def _look(self, columns: Sequence[Sequence[Any]]) -> None:
        """Refuse columns whose first rows are numbers that no date has; note the other numbers."""
        self._looked = True
        notes = []
        for place in sorted({place for place, _, form in self._places if form is None}):
            found = [_as_number(v) for v in columns[place][:LOOK] if v is not None and v == v]
            numbers = [x for x in found if x is not None]
            if not numbers or len(numbers) < len(found):
                continue
            name = quoted(self.source.names[place])
            if max(map(abs, numbers)) < YEAR or min(map(abs, numbers)) > MAX_SECONDS:
                raise SourceError(
                    f"dates names column {name}, but {short(numbers[0])} is not a date: seconds "
                    "since 1970 must be from 1971 to 9999; leave it out"
                )
            notes.append(f"the numbers of column {name} are taken as seconds since 1970 (UTC)")
        self.notes = notes

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        rows, columns = self._read(rows)
        if not self._looked and len(rows) >= min(LOOK, len(self)):
            self._look(columns)
        bad: dict[int, str] = {}
        found = {
            (place, form): self._dates(place, form, columns[place], bad)
            for place, form in {(place, form) for place, _, form in self._places}
        }
        for i, why in sorted(bad.items()):
            self.skip(rows[i], self.source.line(rows[i]), why)
        for place, part, form in self._places:
            take = _PARTS[part] if part else _seconds
            dates = found[place, form]
            values = array("d", [math.nan if date is None else take(date) for date in dates])
            if part:
                columns.append(values)
            else:
                columns[place] = values
        if bad:
            good = [i for i in range(len(rows)) if i not in bad]
            columns = [_kept(column, good) for column in columns]
        return columns

    def _of(self, source: Source) -> Source | None:
        return Dated(source, self._asked)

    def _dates(
        self, place: int, form: str | None, values: Sequence[Any], bad: dict[int, str]
    ) -> list[datetime | None]:
        """The dates of a column; `bad` is told of those that are none."""
        found: list[datetime | None] = []
        for i, value in enumerate(values):
            date = None
            if value is not None and value == value:
                try:
                    date = _date(value, form)
                except (ValueError, OverflowError):
                    like = f" like {form}" if form else " as ISO 8601 writes it"
                    what = f"has {str(value)[:40]!r} in column {self.source.names[place]!r}"
                    bad[i] = f"{what}, which is no date{like}"
            found.append(date)
        return found


def is_part(name: str) -> bool:
    """Whether a column is part of a date by its name, such as `time.hour`."""
    return name.rpartition(".")[2] in _PARTS


def _names(dates: Iterable[str]) -> Iterable[str]:
    return [dates] if isinstance(dates, str) else dates


def _check_format(form: str) -> None:
    try:
        if "%" not in form:
            raise ValueError
        datetime.strptime(_EPOCH.strftime(form), form)
    except ValueError:
        raise SourceError(
            f"dates must have a format such as '%d.%m.%Y %H:%M', got {form!r}"
        ) from None


def _date(value: Any, form: str | None) -> datetime:
    """A point in time from text, or from seconds; a ValueError if it is neither."""
    if isinstance(value, str):
        if form is not None:
            return _zoned(datetime.strptime(value, form))
        try:
            return _zoned(datetime.fromisoformat(value))
        except ValueError:
            seconds = parse_number(value)
            if seconds is None:
                raise
            value = seconds
    return _EPOCH + timedelta(seconds=float(value))


def _as_number(value: Any) -> float | None:
    """The number that stands for a date, None if it is written as one."""
    if not isinstance(value, str):
        return float(value)
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return parse_number(value)
    return None


def _zoned(date: datetime) -> datetime:
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date


def _seconds(date: datetime) -> float:
    return (date - _EPOCH).total_seconds()
