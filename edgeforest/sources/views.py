"""Views of a source: dates as numbers, or all rows but some.

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
from edgeforest.sources.base import Source, SourceError, View
from edgeforest.sources.columns import picked
from edgeforest.sources.cells import parse_number

LOOK = 100  # rows that are looked at to see whether a column of dates holds numbers
YEAR = 365 * 86400
MAX_SECONDS = 253402300799  # the end of the year 9999

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PARTS: dict[str, Callable[[datetime], float]] = {
    "hour": lambda d: d.hour + d.minute / 60 + d.second / 3600,
    "weekday": lambda d: float(d.weekday()),
}


class Rest(View):
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

    def same_view(self, source: Source) -> Source | None:
        return None  # it is not known which of its rows to leave out

    def row_in_source(self, row: int) -> int:
        return row + bisect_right(self._before, row)


class Only(View):
    """Some rows of a source.

    >>> from edgeforest.sources import Table
    >>> Only(Table({"a": [10, 11, 12, 13, 14]}), [1, 4]).read([0, 1])
    [[11, 14]]
    """

    def __init__(self, source: Source, rows: Sequence[int]) -> None:
        super().__init__(source)
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def same_view(self, source: Source) -> Source | None:
        return Only(source, self._rows)

    def row_in_source(self, row: int) -> int:
        return self._rows[row]


class Dated(View):
    """A source with dates as numbers: seconds since 1970 in UTC.

    `dates` names the columns. A dict also has their formats: a format of `strptime`, or None for
    ISO 8601 (`2024-05-01`, `2024-05-01 18:30:00`, `2024-05-01T18:30:00.5+02:00`). Without a time
    zone, a date is in UTC. `time.hour` adds a column with the hour of the day of column `time`,
    from 0 to 23.99, as it is written there. `time.weekday` adds one with 0 for Monday to 6 for
    Sunday. Numbers are taken as seconds since 1970. A row with a date that cannot be read is bad.

    Forests compare numbers as float32: present-day points in time then differ only if they are
    about two minutes apart.
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
        """Refuse columns whose first numbers cannot be dates; note the other columns of numbers."""
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

    def read_as(self, rows: Sequence[int], kinds: str | None) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        if kinds is not None:  # dates are read from their text
            texts = {place for place, _, _ in self._places}
            wanted = zip(range(len(self.source.names)), kinds, strict=False)
            kinds = "".join("t" if f in texts else kind for f, kind in wanted)
        rows, columns = self.read_from_source(rows, kinds)
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
            columns = [picked(column, good) for column in columns]
        return columns

    def same_view(self, source: Source) -> Source | None:
        return Dated(source, self._asked)

    def _dates(
        self, place: int, form: str | None, values: Sequence[Any], bad: dict[int, str]
    ) -> list[datetime | None]:
        """The dates of a column; `bad` gets the places of values that are not dates, and why."""
        found: list[datetime | None] = []
        for i, value in enumerate(values):
            date = None
            if value is not None and value == value:
                try:
                    date = _date(value, form)
                except (ValueError, OverflowError):
                    like = f" like {form}" if form else " as ISO 8601 writes it"
                    what = f"has {str(value)[:40]!r} in column {self.source.names[place]!r}"
                    bad[i] = f"{what}, which is not a date{like}"
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
    """The number of a column of dates, None if the value is written as a date."""
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
