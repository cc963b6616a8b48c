"""Where rows come from: files larger than memory, databases, arrays, buffers of sensors.

A source says how many rows it has and what its columns are called, and reads the rows that it is
asked for. Training asks each time for a random sample, since a log is in time order: its first
rows tell nothing of the rest.

>>> from edgeforest.sources import Table
>>> table = Table([[20.5, "shut"], [24.0, "open"], [None, "open"]], names=["temp", "window"])
>>> len(table), table.names, table.read([0, 2])
(3, ['temp', 'window'], [[20.5, None], ['shut', 'open']])
"""

from __future__ import annotations

import gzip
import marshal
import os
import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import glob
from inspect import signature
from typing import TYPE_CHECKING, Any, Self

from edgeforest.engines import is_frame, read_frame
from edgeforest.host.names import problem as wrong_with
from edgeforest.host.names import quoted, visible
from edgeforest.storage import draw as draw

if TYPE_CHECKING:
    from edgeforest.core_pure import Forest, Rng


LOOKED = 4096  # rows that are read at once for a checksum
SUMMED = 1_000_000  # values that a checksum of a file is made of
MAX_COLUMNS = 1 << 16  # of a source; a forest has at most 16,383 features


class SourceError(ValueError):
    """What is wrong with a source, in one sentence for its owner."""

    forest: Forest | None = None  # the trees that were done when a training met it


class Source:
    """Rows that are read when they are asked for. A new kind needs `names`, `__len__` and `read`.

    `texts` says that values are text as it stands in a file, which is looked at to tell numbers
    from categories; otherwise numbers are numbers already and text is a category. None (of numbers
    also NaN) is a missing value everywhere.
    """

    name = "the source"  # for sentences about it, such as a path
    names: list[str]  # of the columns
    texts = False
    decimal_comma = False  # 1,5 is a number (`texts` only)
    notes: Sequence[str] = ()  # what may not be meant as it was said
    room = 0  # bytes that it takes while it is read, beside the rows that are asked for
    unnamed: Collection[str] = ()  # columns that the header does not name, such as R's row names
    categorical: Collection[str] = ()  # columns that are categories though they look like numbers

    def __len__(self) -> int:
        """How many rows there are."""
        raise NotImplementedError

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column. Rows are numbered from 0, and given in ascending order, each
        at most once.

        Rows that cannot be read are left out, and noted by `skip`.
        """
        raise NotImplementedError

    def __iter__(self) -> Iterator[list[Any]]:
        """All rows in order, some at a time."""
        for at in range(0, len(self), 4096):
            block = self.read(range(at, min(len(self), at + 4096)))
            yield from map(list, zip(*block, strict=True))

    def sample(self, count: int, rng: Rng) -> list[Sequence[Any]]:
        """The values of that many rows by column, drawn at random, each at most once, in order."""
        return self.read(draw(rng, count, len(self)))

    def read_kept(self, rows: Sequence[int]) -> tuple[Sequence[int], list[Sequence[Any]]]:
        """The rows among these that can be read, and their values by column."""
        block = self.read(rows)
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
    bad: int = 0  # how many were; a row that is asked for again counts again

    def skip(self, row: int, line: int | None, why: str) -> None:
        """Note a row that cannot be used; an error if there are too many."""
        place = _place(row, line)
        if len(self.complaints) < 20 and (place, why) not in self.complaints:
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

    # ---- Rows that were there before

    path: str | None = None  # of the file, if there is one

    def extent(self) -> dict[str, Any]:
        """What a checkpoint remembers of these rows: whence they are, how many, and a checksum."""
        return {**self.origin(), "rows": len(self), "crc32": self.checksum(len(self))}

    def first(self, extent: Mapping[str, Any]) -> Source | None:
        """The source of the rows that a checkpoint remembers, if it still begins with them.

        None if it does not; the source itself if there are no others.
        """
        n = extent["rows"]
        if not 0 < n <= len(self) or self.checksum(n) != extent["crc32"]:
            return None
        if n == len(self):
            return self
        from edgeforest.sources.views import First

        return First(self, n)

    def origin(self) -> dict[str, str]:
        """A name to call it by, and checksums of its place and folder: a model may be given away."""
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
        """The checksum of the first n rows; of a large file that of a sample of them."""
        step = 1 if self.path is None else max(1, n * len(self.names) // SUMMED)
        crc = zlib.crc32(repr(self.names).encode())
        for at in range(0, n, LOOKED * step):
            for column in self.read(range(at, min(n, at + LOOKED * step), step)):
                crc = zlib.crc32(_bytes(column), crc)
        return f"{crc:08x}"

    def check(self) -> None:
        """Raise a SourceError if it is not what it was when it was opened."""

    def close(self) -> None:
        """Let go of files; reading opens them again."""

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
        return marshal.dumps(values, 2)  # later versions look at who else holds a value
    except ValueError:  # such as a date
        return repr(values).encode("utf-8", "surrogatepass")


def _kept(values: Any, places: list[int]) -> Any:
    """The values at these places, in an array or a list as before."""
    found = [values[i] for i in places]
    return array(values.typecode, found) if isinstance(values, array) else found


class Table(Source):
    """Rows in memory: an array, or lists. Or columns: a dict of them by name, or a frame."""

    def __init__(self, data: Any, names: Sequence[str] | None = None) -> None:
        super().__init__()
        self._columns: list[Any] | None = None
        self._rows: Any = None
        if is_frame(data):
            data, self.categorical = _frame_columns(data)
        if isinstance(data, dict):
            self._columns = list(data.values())
            names = list(data) if names is None else names
            self._n = len(self._columns[0]) if self._columns else 0
            if any(len(column) != self._n for column in self._columns):
                raise SourceError("all columns of a table must have as many values")
            width = len(self._columns)
        else:
            self._rows = data
            self._n = len(data)
            width = len(data[0]) if self._n else 0
        if self._n == 0 or width == 0:
            raise SourceError("the table is empty; give at least one row with one value")
        self.names = [f"x{f}" for f in range(width)] if names is None else [str(v) for v in names]
        if len(self.names) != width:
            raise SourceError(f"the table has {width} columns, but {len(self.names)} names")

    def __len__(self) -> int:
        return self._n

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        if self._columns is not None:
            return [
                column.take(list(rows)).tolist()  # an array of NumPy
                if hasattr(column, "take")
                else [column[i] for i in rows]
                for column in self._columns
            ]
        picked = [self._rows[i] for i in rows]
        width = len(self.names)
        for i, row in zip(rows, picked, strict=True):
            if len(row) != width:
                raise SourceError(f"row {i} has {len(row)} values, the table has {width} columns")
        return [[row[f] for row in picked] for f in range(width)]


def _frame_columns(data: Any) -> tuple[dict[str, Any], list[str]]:
    """The columns of a frame, and which of them are categories that are not text."""
    columns: dict[str, Any] = {}
    categorical = []
    for name, column in read_frame(data).items():
        if not column.category:
            columns[name] = column.numbers()
            continue
        values = columns[name] = column.plain()
        if not any(isinstance(v, str) for v in values):
            categorical.append(name)
    return columns, categorical


def open_source(
    given: Any, *, dates: Iterable[str] | Mapping[str, str | None] = (), **options: Any
) -> Source:
    """A source from what there is: a path or several, rows in memory, a frame, an iterable of rows.

    What a file is, is told by its first bytes, and for text by its name: `.jsonl`, `.ndjson` and
    `.json` are JSON lines, `.lp` and `.influx` InfluxDB's line protocol, all other text is CSV. A
    path may have wildcards. Options are those of the source: see `edgeforest.sources`; of an SQLite
    file `table_or_query`, of an iterable the `capacity` of the sample that is kept of it.

    `dates` names columns of dates that become numbers, in a dict with their formats: see
    `edgeforest.sources.views.Dated`.

    >>> with open("log.csv", "w") as file:
    ...     _ = file.write("temp,window\\n20.5,shut\\n24,open\\n")
    >>> log = open_source("log.csv")
    >>> len(log), log.names
    (2, ['temp', 'window'])
    """
    if dates:
        from edgeforest.sources.views import Dated

        return Dated(open_source(given, **options), dates)
    if isinstance(given, Source):
        return given
    if isinstance(given, (str, os.PathLike)):
        path = os.fspath(given)
        several = sorted(glob(path)) if not os.path.exists(path) else []
        if several:
            return _joined([open_source(one, **options) for one in _once(several)])
        return _open_path(path, options)
    if isinstance(given, (list, tuple)) and given and isinstance(given[0], (str, os.PathLike)):
        return _joined([open_source(one, **options) for one in _once(given)])
    if isinstance(given, (list, tuple, dict)) or is_frame(given) or hasattr(given, "shape"):
        return Table(given, **options)
    if not hasattr(given, "__iter__"):
        raise TypeError(f"a source is a path, a table or an iterable of rows, got {given!r}")
    from edgeforest.sources.binary import Stream

    return Stream(given, **{"capacity": 100_000, **options})


def _joined(sources: list[Source]) -> Source:
    from edgeforest.sources.binary import Joined

    return sources[0] if len(sources) == 1 else Joined(sources)


def _once(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Paths without wildcards; an error if two of them are the same file."""
    found: list[str] = []
    for path in [os.fspath(path) for path in paths]:
        found += (sorted(glob(path)) if not os.path.exists(path) else []) or [path]
    seen: dict[tuple[int, int], str] = {}
    for path in found:
        try:
            status = os.stat(path)
        except (OSError, ValueError):  # said when it is read
            continue
        file = status.st_dev, status.st_ino
        if file in seen and status.st_ino:
            again = "" if seen[file] == path else f", also as {visible(seen[file])}"
            raise SourceError(
                f"{visible(path)} is given twice{again}: its rows would count double; give it once"
            )
        seen[file] = path
    return found


def check_columns(source: Source) -> None:
    """A SourceError if columns are too many, or a name is not accepted."""
    if len(source.names) > MAX_COLUMNS:
        raise SourceError(
            f"{source.name} has {len(source.names):,} columns, at most {MAX_COLUMNS:,} can be read; "
            "choose fewer"
        )
    for name in source.names:
        if wrong := wrong_with(name):
            raise SourceError(f"the column {quoted(name)} of {source.name} {wrong}; rename it")


def _open_path(path: str, options: dict[str, Any]) -> Source:
    from edgeforest.sources import binary, text

    start = _start(path)
    kind: Callable[..., Source]
    name = path.lower().removesuffix(".gz")
    if start.startswith(b"\x93NUMPY"):
        packed = os.path.exists(path + ".json")  # with the text of its codes
        kind = binary.Packed if packed else binary.Npy
    elif start.startswith(b"SQLite format 3\0"):
        kind = binary.SQLite
    elif start.startswith(b"PAR1"):
        kind = binary.Parquet
    elif name.endswith((".lp", ".influx")):
        kind = text.LineProtocol
    elif name.endswith((".jsonl", ".ndjson", ".json")) or start.startswith(b'{"'):
        kind = text.JSONLines
    else:
        kind = text.CSV
    known = signature(kind).parameters
    asked = {option: value for option, value in options.items() if option in known}
    for option in options:
        if option not in (*known, "progress", "max_bad"):
            raise SourceError(
                f"{option} does not apply to {visible(path)}, which is read as {kind.__name__}; "
                "leave it out"
            )
    source = kind(path, **asked)
    source.max_bad = options.get("max_bad", source.max_bad)
    try:
        check_columns(source)
    except SourceError:
        source.close()
        raise
    return source


def _start(path: str) -> bytes:
    """The first bytes of a file, or of what is gzipped in it."""
    try:
        with open(path, "rb") as stream:
            start = stream.read(16)
            if start.startswith(b"\x1f\x8b"):
                stream.seek(0)
                with suppress(gzip.BadGzipFile, EOFError, zlib.error):  # said when it is read
                    start = gzip.GzipFile(fileobj=stream).read(16)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise SourceError(f"cannot read {visible(path)}: {said.lower()}") from None
    return start.lstrip()
