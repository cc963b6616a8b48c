"""Rows from binary files and databases, joined sources, streams, and a packed copy of any source.

None of them holds its rows in memory: what is asked for is read from its place. Only `Parquet`
needs another package.

>>> from edgeforest.sources import Table
>>> log = Table([[20.5, "shut"], [24.0, "open"], [None, "open"]], names=["temp", "window"])
>>> packed = pack(log, "log.npy")
>>> len(packed), packed.names, packed.read([0, 1])
(3, ['temp', 'window'], [array('f', [20.5, 24.0]), ['shut', 'open']])
"""

from __future__ import annotations

import ast
import contextlib
import json
import math
import operator
import os
import re
import sqlite3
import stat
import struct
import sys
import warnings
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate, islice
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias

from edgeforest import files
from edgeforest.core_pure import Rng
from edgeforest.host.names import listed, quoted, short, visible
from edgeforest.sources import Source, SourceError, _kept
from edgeforest.sources.snapshot import Snapshot

PathType: TypeAlias = "str | os.PathLike[str]"

BLOCK = 1 << 20  # bytes that are read, or turned into columns, at a time
GAP = 4096  # bytes between two rows that are rather read than jumped over
MAX_HEADER = 1 << 20  # bytes of the header of a .npy file
MAX_TEXTS = 100_000  # different texts in a column of a packed file: they are kept in memory
FLOAT32_WHOLE = 1 << 24  # whole numbers up to here are float32 without loss
MAX_VALUE = 1 << 20  # bytes of a value in a database or of a text in a .npy file
_BATCH = 1_000_000  # bytes of a row group of Parquet that are in memory at a time
_PAGES = 2_400_000  # bytes of a column that pyarrow has in hand: its dictionary and a page
SQL_ROWS = 500  # rows of one query; some builds allow 999 parameters


def _checked(rows: Sequence[int], n: int, name: str) -> Sequence[int]:
    """The same rows, if they are there and in ascending order."""
    if not len(rows):
        return rows
    if hasattr(rows, "tolist"):  # of an array: its numbers are slow one by one
        rows = rows.tolist()
    if (
        rows.step < 0
        if isinstance(rows, range)
        else any(map(operator.ge, rows, islice(rows, 1, None)))
    ):
        raise SourceError(f"rows of {name} must be asked for in ascending order, each once")
    for row in (rows[0], rows[-1]):
        if not 0 <= row < n:
            raise SourceError(f"{name} has rows 0 to {n - 1}, got row {row}")
    return rows


def _joined(column: Any, piece: Any) -> Any:
    """A column with more values at its end; a list where an array cannot hold them."""
    if isinstance(column, array):
        if not column:
            return piece[:]  # it may be the source's own
        if not (isinstance(piece, array) and piece.typecode == column.typecode):
            column = column.tolist()
    column.extend(piece)
    return column


def _plain(values: Any) -> Any:
    """A column as an array of Python's or a list."""
    if isinstance(values, (array, list)):
        return values
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


class _File(Source):
    """A file of which what was there when it was opened must stay."""

    path: str
    _snapshot: Snapshot | None = None

    def __init__(self, path: PathType) -> None:
        super().__init__()
        self.path = os.fspath(path)
        self.name = visible(self.path)
        try:
            found = os.stat(self.path)
        except (OSError, ValueError) as error:
            reason = _reason(error) if isinstance(error, OSError) else str(error)
            raise SourceError(f"cannot read {self.name}: {reason}") from None
        if not stat.S_ISREG(found.st_mode):
            raise SourceError(f"cannot read {self.name}: it is no plain file")
        self._size = found.st_size

    def check(self) -> None:
        """Raise a SourceError if what was in the file when it was opened is not there any more."""
        if self._snapshot is not None:
            self._snapshot.check()


# ---- NumPy's files ------------------------------------------------------------------------------

# Typecodes of the array module by kind and bytes; a float of two bytes has none.
_CODES = {
    **{("b", 1): "B", ("f", 2): "", ("f", 4): "f", ("f", 8): "d"},
    **{("i", 1): "b", ("i", 2): "h", ("i", 4): "i", ("i", 8): "q"},
    **{("u", 1): "B", ("u", 2): "H", ("u", 4): "I", ("u", 8): "Q"},
}
_TRUTHS = bytes([0]) + bytes([1]) * 255


@dataclass(frozen=True)
class _Field:
    """One value of a row: what it is, and where."""

    kind: str  # as NumPy writes it: b f i u U S
    size: int  # in bytes
    at: int  # from the start of the row
    big: bool  # the most significant byte comes first

    @property
    def text(self) -> bool:
        return self.kind in "US"

    def empty(self) -> Any:
        return [] if self.text else array(_CODES[self.kind, self.size] or "f")

    def decode(self, raw: bytes | bytearray, count: int, bad: dict[int, str]) -> Any:
        """Values from their bytes; `bad` is told which cannot be read."""
        if self.text:
            return self._texts(raw, count, bad)
        if self.kind == "b":
            raw = raw.translate(_TRUTHS)
        code = _CODES[self.kind, self.size]
        if not code:
            return array("f", struct.unpack(f"{'>' if self.big else '<'}{count}e", raw))
        values = array(code)
        values.frombytes(raw)
        if self.size > 1 and self.big != (sys.byteorder == "big"):
            values.byteswap()
        return values

    def _texts(self, raw: bytes | bytearray, count: int, bad: dict[int, str]) -> list[str]:
        coding = "utf-8"
        if self.kind == "U":
            coding = "utf-32-be" if self.big else "utf-32-le"
        texts = []
        for i in range(count):
            value = raw[i * self.size : (i + 1) * self.size]
            if self.kind == "S":
                value = value.rstrip(b"\0")
            try:
                texts.append(value.decode(coding).rstrip("\0"))
            except UnicodeDecodeError:
                texts.append("")
                bad[i] = "holds bytes that are no text"
        return texts


class Npy(_File):
    """The rows of a `.npy` file: a table of numbers, or records with named fields.

    Rows are read from their places in the file, neighbours in one go. NumPy is not needed, the
    file is not mapped into memory, and nothing in it is ever executed: files of Python objects
    are refused. Numbers come as `array.array` (float16 as float32, truths as 0 and 1), text of
    records as str.

    >>> from edgeforest.sources import Table
    >>> pack(Table([[1, 2.5], [3, 4.5]]), "small.npy").close()
    >>> numbers = Npy("small.npy", names=["a", "b"])
    >>> len(numbers), numbers.names, numbers.read([1])
    (2, ['a', 'b'], [array('f', [3.0]), array('f', [4.5])])
    """

    def __init__(self, path: PathType, names: Sequence[str] | None = None) -> None:
        super().__init__(path)
        self._file: IO[bytes] | None = None
        self._by_column = False
        self._fields: list[_Field] = []
        self._n = self._stride = self._start = 0
        own = self._read_header()
        end = (
            self._start + self._n * self._stride
        )  # rows may be appended, and the header then says so
        assert self._file is not None
        self._snapshot = Snapshot(self.path, self._file, start=self._start, end=end)
        self.names = own if names is None else [str(name) for name in names]
        if len(self.names) != len(own):
            raise SourceError(
                f"{self.name} has {_count(len(own), 'column')}, but {len(self.names)} names are given"
            )

    def __len__(self) -> int:
        return self._n

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # it was never opened
            self.close()

    def close(self) -> None:
        """Close the file; reading opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        rows = _checked(rows, self._n, self.name)
        self.check()
        columns = [field.empty() for field in self._fields]
        step = max(1, BLOCK // self._stride)
        for k in range(0, len(rows), step):
            some = rows[k : k + step]
            bad: dict[int, str] = {}
            pieces = self._pieces(some, bad)
            if bad:
                kept = [i for i in range(len(some)) if i not in bad]
                for i, why in bad.items():
                    self.skip(some[i], None, why)
                pieces = [_kept(values, kept) for values in pieces]
            columns = list(map(_joined, columns, pieces))
        self.check()  # else what was read may be of two files
        return columns

    def _pieces(self, rows: Sequence[int], bad: dict[int, str]) -> list[Any]:
        """The columns of some rows, by way of their bytes."""
        count, fields = len(rows), self._fields
        if self._by_column:
            size = fields[0].size
            places = [self._start + f * self._n * size for f in range(len(fields))]
            return [
                field.decode(self._gather(at, size, rows), count, bad)
                for field, at in zip(fields, places, strict=True)
            ]
        block = self._gather(self._start, self._stride, rows)
        first = fields[0]
        alike = {(field.kind, field.size, field.big) for field in fields}
        if len(alike) == 1 and not first.text and first.size * len(fields) == self._stride:
            whole = first.decode(block, count * len(fields), bad)
            return [whole[f :: len(fields)] for f in range(len(fields))]
        return [field.decode(self._cut(block, field, count), count, bad) for field in fields]

    def _cut(self, block: bytes, field: _Field, count: int) -> bytearray:
        """The bytes of one field of all rows, one after the other."""
        raw = bytearray(field.size * count)
        for j in range(field.size):
            raw[j :: field.size] = block[field.at + j :: self._stride]
        return raw

    def _gather(self, start: int, stride: int, rows: Sequence[int]) -> bytes:
        """The bytes of some rows, one after the other."""
        first, count = rows[0], len(rows)
        if rows[-1] - first + 1 == count:
            return self._bytes(start + first * stride, count * stride)
        reach = 1 + GAP // stride
        parts = []
        i = 0
        while i < count:
            first = last = rows[i]
            most = first + BLOCK // stride
            j = i + 1
            while j < count and rows[j] - last <= reach and rows[j] <= most:
                last = rows[j]
                j += 1
            span = self._bytes(start + first * stride, (last - first + 1) * stride)
            if last - first + 1 == j - i:
                parts.append(span)
            else:
                for row in rows[i:j]:
                    at = (row - first) * stride
                    parts.append(span[at : at + stride])
            i = j
        return b"".join(parts)

    def _bytes(self, at: int, count: int) -> bytes:
        """So many bytes from there."""
        try:
            if self._file is None:
                self._file = open(self.path, "rb", buffering=0)  # noqa: SIM115
            found = _pread(self._file, at, count)
            while len(found) < count:  # the system may give less at a time
                more = _pread(self._file, at + len(found), count - len(found))
                if not more:
                    raise self._short()
                found += more
        except OSError as error:
            raise SourceError(f"cannot read {self.name}: {_reason(error)}") from None
        return found

    # ---- Its header

    def _short(self) -> SourceError:
        return SourceError(f"{self.name} is cut short; copy it again")

    def _not_npy(self, why: str) -> SourceError:
        return SourceError(f"{self.name} is no .npy file that can be read: {why}")

    def _read_header(self) -> list[str]:
        """Find out where what is; the names of the columns."""
        if self._size < 10:
            raise self._not_npy("it is too short")
        start = self._bytes(0, 10)
        if start[:6] != b"\x93NUMPY":
            raise self._not_npy("it does not begin as one")
        if start[6] not in (1, 2, 3):
            raise self._not_npy(f"its version is {start[6]}, known are 1, 2 and 3")
        wide = start[6] > 1
        if wide and self._size < 12:
            raise self._short()
        length = int.from_bytes(self._bytes(8, 4) if wide else start[8:10], "little")
        if length > MAX_HEADER:
            raise self._not_npy(f"its header has {length} bytes, allowed are {MAX_HEADER}")
        self._start = (12 if wide else 10) + length
        if self._start > self._size:
            raise self._short()
        header = self._bytes(self._start - length, length)
        try:
            text = header.decode("utf-8" if start[6] == 3 else "latin-1")
            with warnings.catch_warnings():  # about backslashes
                warnings.simplefilter("ignore")
                found = ast.literal_eval(text.strip())
            descr, by_column, shape = found["descr"], found["fortran_order"], found["shape"]
        except Exception:  # whatever Python's parser has to say about it
            raise self._not_npy("its header is damaged") from None
        return self._understand(descr, by_column, shape)

    def _understand(self, descr: Any, by_column: Any, shape: Any) -> list[str]:
        if not isinstance(shape, tuple) or not all(type(v) is int and v >= 0 for v in shape):
            raise self._not_npy("its header has no sound shape")
        if type(by_column) is not bool:
            raise self._not_npy("its header does not say in which order the values are")
        if isinstance(descr, list):
            if len(shape) != 1:
                raise self._not_npy(f"records must be in one dimension, it has {len(shape)}")
            names = self._read_records(descr)
        else:
            if len(shape) != 2:
                dimensions = _count(len(shape), "dimension")
                raise self._not_npy(f"it has {dimensions}, needed are 2: rows and columns")
            if shape[1] > MAX_HEADER:
                raise self._not_npy(f"it has {shape[1]} columns, allowed are {MAX_HEADER}")
            kind, size, big = self._kind(descr, "")
            self._fields = [_Field(kind, size, f * size, big) for f in range(shape[1])]
            self._stride = size * shape[1]
            self._by_column = by_column
            names = [f"x{f}" for f in range(shape[1])]
        self._n = shape[0]
        if self._n == 0 or self._stride == 0 or not names:
            raise SourceError(f"{self.name} is empty; it needs at least one row with one value")
        if self._size < self._start + self._n * self._stride:
            raise self._short()
        return names

    def _read_records(self, descr: list[Any]) -> list[str]:
        names: list[str] = []
        for item in descr:
            if not isinstance(item, tuple) or len(item) not in (2, 3):
                raise self._not_npy("its header has no sound list of fields")
            name, what = item[:2]
            if isinstance(name, tuple) and len(name) == 2:  # a title and a name
                name = name[1]
            if not isinstance(name, str):
                raise self._not_npy("a field of its header has no name")
            padding = re.fullmatch(r"\|V([0-9]{1,9})", what) if isinstance(what, str) else None
            if padding and not name and len(item) == 2:
                self._stride += int(padding[1])
                continue
            if len(item) == 3 or isinstance(what, list):
                raise self._not_npy(f"field {name!r} holds more than one value; make it several")
            if name in names:
                raise self._not_npy(f"it has more than one field {name!r}")
            kind, size, big = self._kind(what, f"field {name!r} ")
            self._fields.append(_Field(kind, size, self._stride, big))
            self._stride += size
            names.append(name)
        return names

    def _kind(self, what: Any, where: str) -> tuple[str, int, bool]:
        """Kind, bytes and order of a value."""
        match = re.fullmatch(r"([<>|=]?)([A-Za-z])([0-9]{0,9})(?:\[.*\])?", str(what))
        if not isinstance(what, str) or not match:
            raise self._not_npy(f"{where or 'it '}holds values of an unknown kind")
        order, kind, digits = match.groups()
        if kind == "O":
            raise self._not_npy(f"{where or 'it '}holds Python objects; save numbers or text")
        count = int(digits or "0")
        if (kind, count) not in _CODES and (kind not in "US" or not digits):
            raise self._not_npy(
                f"{where or 'it '}holds values of kind {what[:20]!r}; save numbers or text"
            )
        big = order == ">" or (order in "=|" and sys.byteorder == "big")
        size = count * (4 if kind == "U" else 1)
        if size > MAX_VALUE:
            raise self._not_npy(f"{where or 'it '}holds texts of more than {MAX_VALUE >> 20} MB")
        return kind, size, big


def _pread(file: IO[bytes], at: int, count: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(file.fileno(), count, at)
    file.seek(at)
    return file.read(count)


# ---- SQLite -------------------------------------------------------------------------------------


class SQLite(Source):
    """The rows of a table, a view or a query of an SQLite database, which is only read.

    Where there is one table only, it need not be named.

    The rows of a table are found by their rowid, in that order. Where rows were deleted, the
    places of the gaps are kept in memory, 16 bytes each. A table `WITHOUT ROWID`, a view or a query
    has no rowids: its rows are copied once into a temporary file of SQLite's, which goes away with
    `close`.

    Numbers stay numbers, NULL is None, and a row with a BLOB is a bad row. Rows that are added to a
    table later are not seen, so that row numbers stay; rows that go away are an error.

    >>> database = sqlite3.connect("house.db")
    >>> _ = database.execute("CREATE TABLE log (temp REAL, window TEXT)")
    >>> _ = database.execute("INSERT INTO log VALUES (20.5, 'shut'), (24, 'open'), (NULL, 'open')")
    >>> database.commit()
    >>> log = SQLite("house.db", "log")
    >>> len(log), log.names, log.read([0, 2])
    (3, ['temp', 'window'], [[20.5, None], ['shut', 'open']])
    >>> SQLite("house.db", "SELECT temp * 1.8 + 32 AS fahrenheit FROM log").read([1])
    [[75.2]]
    """

    def __init__(self, path: PathType, table_or_query: str = "") -> None:
        super().__init__()
        self.path = self._path = os.fspath(path)
        self._inode = 0, 0
        self._wanted = table_or_query.strip().rstrip(";").strip()
        self._name(table_or_query)
        self._connection: sqlite3.Connection | None = None
        self._version = 0
        self._starts = array("q")  # row numbers at which the rowids jump ...
        self._ids = array("q")  # ... and the rowids there
        self._n = 0
        self._last = 0  # the largest rowid
        self._columns = self._from = self._rowid = ""
        with self._sentences():
            self._open()
            self._number_rows()
        if self._n == 0:
            raise SourceError(f"{self.name} is empty; it needs at least one row")

    def _name(self, wanted: str) -> None:
        what = "the query" if len(wanted) > 40 else wanted
        self.name = visible(f"{what} of {self._path}" if what else self._path)

    def __len__(self) -> int:
        return self._n

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, sqlite3.Error):
            self.close()

    def close(self) -> None:
        """Close the database; reading opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning) as error:
            why = visible(str(error))
            if "too big" in why:
                why = f"a value or row has more than {MAX_VALUE >> 20} MB; read other columns"
            raise SourceError(f"cannot read {self.name}: {why}") from None

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        try:
            found = os.stat(self._path)
        except (OSError, ValueError):
            found = None
        if found is None or not stat.S_ISREG(found.st_mode):
            raise SourceError(f"cannot read {self.name}: there is no such file")
        self._inode = found.st_dev, found.st_ino
        connection = sqlite3.connect(
            f"{Path(self._path).absolute().as_uri()}?mode=ro",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
            connection.execute("PRAGMA temp_store = FILE")
            self._find(connection)
            self._version = self._data_version(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _find(self, connection: sqlite3.Connection) -> None:
        """Where the rows are: in the table, or in a copy."""
        tables = dict(
            connection.execute(
                "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
            ).fetchall()
        )
        if not self._wanted:
            if len(tables) != 1:
                there = f"it has {listed(tables)}" if tables else "it has none"
                raise SourceError(
                    f"table_or_query must name the table of {visible(self._path)} to read; {there}"
                )
            self._wanted = next(iter(tables))
            self._name(self._wanted)
        found = next((name for name in tables if name.lower() == self._wanted.lower()), None)
        if found is None and not re.match(r"(?i)(select|with|values)\b", self._wanted):
            there = listed(tables) or "no tables"
            raise SourceError(
                f"{visible(self._path)} has no table {quoted(self._wanted)}; it has {there}"
            )
        self._rowid = ""
        if found is not None:
            self._from = f"main.{_quoted(found)} AS t"
            self.names = self._names(connection)
            if tables[found] == "table":
                self._rowid = self._find_rowid(connection)
        if self._rowid:
            self._columns = ", ".join(f"t.{_quoted(name)}" for name in self.names)
        else:
            query = self._wanted if found is None else f"SELECT * FROM {self._from}"
            self._copy(connection, query)

    def _copy(self, connection: sqlite3.Connection, query: str) -> None:
        """Copy the rows of a query to where they have rowids: a table in a temporary file."""
        connection.execute(f"CREATE TEMP VIEW edgeforest_query AS {query}")
        self._from = "temp.edgeforest_query AS t"
        self.names = self._names(connection)
        columns = ", ".join(f"c{f}" for f in range(len(self.names)))
        connection.execute(f"CREATE TEMP TABLE edgeforest_rows ({columns})")
        connection.execute("INSERT INTO temp.edgeforest_rows SELECT * FROM temp.edgeforest_query")
        self._from, self._rowid = "temp.edgeforest_rows AS t", "rowid"
        self._columns = ", ".join(f"t.c{f}" for f in range(len(self.names)))

    def _names(self, connection: sqlite3.Connection) -> list[str]:
        cursor = connection.execute(f"SELECT * FROM {self._from} LIMIT 0")
        return [column[0] for column in cursor.description]

    def _find_rowid(self, connection: sqlite3.Connection) -> str:
        """What the rowid is called: a column may have taken the usual name. "" if there is none."""
        taken = {name.lower() for name in self.names}
        for name in ("rowid", "_rowid_", "oid"):
            if name not in taken:
                try:
                    connection.execute(f"SELECT t.{name} FROM {self._from} LIMIT 0")
                except sqlite3.OperationalError:
                    return ""
                return name
        return ""

    def _data_version(self, connection: sqlite3.Connection) -> int:
        version: int = connection.execute("PRAGMA main.data_version").fetchone()[0]
        return version

    def _number_rows(self) -> None:
        connection = self._open()
        with _transaction(connection):
            self._version = self._data_version(connection)
            what = f"count(*), min(t.{self._rowid}), max(t.{self._rowid})"
            query = f"SELECT {what} FROM {self._from}"
            self._n, first, last = connection.execute(query).fetchone()
            if self._n == 0:
                return
            self._last = last
            if last - first + 1 == self._n:
                self._starts.append(0)
                self._ids.append(first)
                return
            query = f"SELECT t.{self._rowid} FROM {self._from} ORDER BY t.{self._rowid}"
            before = None
            for row, (rowid,) in enumerate(connection.execute(query)):
                if before is None or rowid != before + 1:
                    self._starts.append(row)
                    self._ids.append(rowid)
                before = rowid

    def check(self) -> None:
        """Raise a SourceError if rows went away since it was opened."""
        with self._sentences(), self._checked():
            pass

    @contextlib.contextmanager
    def _checked(self) -> Iterator[sqlite3.Connection]:
        """The database as it is at one moment, if the rows are still there."""
        fresh, names = self._connection is None, self.names
        connection = self._open()
        if names != self.names:
            raise self._changed()
        with _transaction(connection):
            self._check(connection, fresh)
            yield connection

    def _changed(self) -> SourceError:
        return SourceError(f"{self.name} was changed while it was used; open it again")

    def _check(self, connection: sqlite3.Connection, fresh: bool) -> None:
        try:
            found = os.stat(self._path)
        except OSError:
            raise SourceError(f"{self._path} is gone since it was opened; put it back") from None
        if (found.st_dev, found.st_ino) != self._inode:
            raise SourceError(
                f"{self._path} was replaced by another file since it was opened; open it again"
            )
        version = self._data_version(connection)
        copied = self._from.startswith("temp.")
        if not fresh and (copied or version == self._version):
            return
        if not copied and not set(self.names) <= set(self._names(connection)):
            raise self._changed()
        rowid = f"t.{self._rowid}"
        query = f"SELECT count(*), min({rowid}), max({rowid}) FROM {self._from} WHERE {rowid} <= ?"
        if connection.execute(query, (self._last,)).fetchone() != (
            self._n,
            self._ids[0],
            self._last,
        ):
            raise self._changed()
        self._version = version

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        rows = _checked(rows, self._n, self.name)
        columns: list[list[Any]] = [[] for _ in self.names]
        with self._sentences(), self._checked() as connection:
            for k in range(0, len(rows), SQL_ROWS):
                self._read_some(connection, rows[k : k + SQL_ROWS], columns)
        return list(columns)

    def _read_some(
        self, connection: sqlite3.Connection, rows: Sequence[int], columns: list[list[Any]]
    ) -> None:
        ids = self._rowids(rows)
        rowid = f"t.{self._rowid}"
        query = f"SELECT {self._columns} FROM {self._from} WHERE {rowid} "
        if ids[-1] - ids[0] + 1 == len(ids):
            query += f"BETWEEN ? AND ? ORDER BY {rowid}"
            given = [ids[0], ids[-1]]
        else:
            query += f"IN ({', '.join('?' * SQL_ROWS)}) ORDER BY {rowid}"
            given = ids + ids[-1:] * (SQL_ROWS - len(ids))
        try:
            found = connection.execute(query, given).fetchall()
        except sqlite3.OperationalError as error:
            if "decode" not in str(error):
                raise
            connection.text_factory = _text_or_bytes  # as a BLOB: no text either
            found = connection.execute(query, given).fetchall()
            connection.text_factory = str
        if len(found) != len(rows):
            raise self._changed()
        pieces = list(zip(*found, strict=True))
        if any(bytes in set(map(type, piece)) for piece in pieces):
            kept = []
            for row, values in zip(rows, found, strict=True):
                blobs = [f for f, v in enumerate(values) if isinstance(v, bytes)]
                if blobs:
                    self.skip(row, None, f"has bytes in column {self.names[blobs[0]]!r}")
                else:
                    kept.append(values)
            pieces = list(zip(*kept, strict=True))
        for column, piece in zip(columns, pieces, strict=False):  # pieces: none if all were bad
            column.extend(piece)

    def _rowids(self, rows: Sequence[int]) -> list[int]:
        starts, ids = self._starts, self._ids
        if len(starts) == 1:
            return [ids[0] + row for row in rows]
        found = []
        k = 0
        for row in rows:
            k = bisect_right(starts, row, k) - 1
            found.append(ids[k] + row - starts[k])
        return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text_or_bytes(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


# ---- Parquet ------------------------------------------------------------------------------------

_SECONDS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


class Parquet(_File):
    """The rows of a Parquet file, by way of pyarrow.

    Only the row groups in which rows are asked for are read. A small one is kept until another is
    wanted; of a large one some rows are in memory at a time, from its first to the last that is asked
    for. A file that is read many times is better packed first (`pack`).

    Truths become 0 and 1, points in time and durations seconds, decimals floats, categories their
    text, nulls None. Columns that are lists, structures or bytes are left out; `left_out` names them.

    >>> from pyarrow import parquet, table
    >>> parquet.write_table(table({"temp": [20.5, 24.0], "window": ["shut", "open"]}), "log.parquet")
    >>> Parquet("log.parquet").read([0, 1])
    [array('d', [20.5, 24.0]), ['shut', 'open']]
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
                self._snapshot = Snapshot(self.path, plain, grows=False)
            file = self._open()
            meta = file.metadata
            sizes: list[int] = [meta.row_group(g).num_rows for g in range(meta.num_row_groups)]
            fields = list(file.schema_arrow)
        self._starts: list[int] = [0, *accumulate(sizes)]
        self.room = max(_room(meta.row_group(g)) for g in range(len(sizes))) if sizes else 0
        for field in fields:
            (self.names if arrow_usable(self._arrow, field.type) else self.left_out).append(
                field.name
            )
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
        """Close the file and let go of the last group; reading opens it again."""
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
            # A piece of each column at a time: not all of it, nor ahead of what is asked for.
            self._file = self._parquet.ParquetFile(
                self.path, memory_map=False, buffer_size=32768, pre_buffer=False
            )
        return self._file

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        rows = _checked(rows, len(self), self.name)
        self.check()
        columns: list[Any] = [array("d") for _ in self.names]
        with self._sentences():
            for g, some in _by_part(rows, self._starts):
                if self._group is None or self._group.number != g or self._group.start > some[0]:
                    self._group = None  # not two at a time
                    self._arrow.default_memory_pool().release_unused()
                    self._group = _Group(self._arrow, self._open(), g, self.names)
                for table in self._group.take(some):
                    pieces = [arrow_values(self._arrow, table.column(name)) for name in self.names]
                    columns = list(map(_joined, columns, pieces))
        self.check()
        return columns


def _room(group: Any) -> int:
    """About how many bytes pyarrow takes to go through a row group: some pages of each column."""
    sizes = [int(group.column(f).total_uncompressed_size) for f in range(group.num_columns)]
    return 2 * _BATCH + sum(min(size, _PAGES) * 3 // 2 for size in sizes)


class _Group:
    """A row group of a Parquet file, read from its first row to its last, some rows at a time."""

    def __init__(self, arrow: Any, file: Any, number: int, names: list[str]) -> None:
        self.number = number
        self.start = 0  # of the rows in hand
        self._arrow = arrow
        self._table: Any = None
        meta = file.metadata.row_group(number)
        rows = meta.num_rows
        if meta.total_byte_size > _BATCH:
            rows = max(64, rows * _BATCH // meta.total_byte_size)
        self._batches = file.iter_batches(
            rows, row_groups=[number], columns=names, use_threads=False
        )

    def take(self, rows: Sequence[int]) -> Iterator[Any]:
        """Tables of these rows, which ascend; none of them lies before `start`."""
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


def arrow_usable(arrow: Any, kind: Any) -> bool:
    """Whether a type of pyarrow's holds numbers, text, truths or times."""
    types = arrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return not (
        types.is_nested(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_interval(kind)
        or str(kind) in ("binary_view",)
        or isinstance(kind, arrow.BaseExtensionType)
    )


def arrow_values(arrow: Any, column: Any) -> Any:
    """A column of pyarrow's as an array, or as a list if it has text or nulls."""
    types = arrow.types
    kind = column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    divisor = 0
    if types.is_boolean(kind):
        column = column.cast(arrow.uint8())
    elif types.is_date(kind):
        divisor = 1000
        column = column.cast(arrow.timestamp("ms")).cast(arrow.int64())
    elif types.is_time32(kind):
        divisor = _SECONDS[kind.unit]
        column = column.cast(arrow.int32())
    elif types.is_timestamp(kind) or types.is_duration(kind) or types.is_time64(kind):
        divisor = _SECONDS[kind.unit]
        column = column.cast(arrow.int64())
    elif types.is_decimal(kind):
        column = column.cast(arrow.float64())
    elif types.is_float16(kind):
        column = column.cast(arrow.float32())
    values = _arrow_numbers(arrow, column)
    if divisor:
        if isinstance(values, array):
            return array("d", [v / divisor for v in values])
        return [None if v is None else v / divisor for v in values]
    return values


def _arrow_numbers(arrow: Any, column: Any) -> Any:
    kind, types = column.type, arrow.types
    number = types.is_integer(kind) or types.is_floating(kind)
    if not number or column.null_count:
        return column.to_pylist()
    letter = "f" if types.is_floating(kind) else "i" if types.is_signed_integer(kind) else "u"
    size = kind.bit_width // 8
    values = array(_CODES[letter, size])
    for chunk in column.chunks:
        if len(chunk):
            data = memoryview(chunk.buffers()[1])
            values.frombytes(data[chunk.offset * size : (chunk.offset + len(chunk)) * size])
    return values


def _by_part(rows: Sequence[int], starts: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    """(part, rows within it) of rows that run over parts which start at these rows."""
    i = 0
    while i < len(rows):
        part = bisect_right(starts, rows[i]) - 1
        start = starts[part]
        j = bisect_left(rows, starts[part + 1], i)
        some = rows[i:j]
        if isinstance(some, range):
            yield part, range(some.start - start, some.stop - start, some.step)
        else:
            yield part, [row - start for row in some]
        i = j


# ---- Sources made of others ---------------------------------------------------------------------


class Joined(Source):
    """Several sources one after the other, as one. Their columns must be the same, in any order.

    >>> from edgeforest.sources import Table
    >>> day1 = Table([[20.5, "shut"]], names=["temp", "window"])
    >>> day2 = Table([["open", 24.0], ["open", 25.5]], names=["window", "temp"])
    >>> Joined([day1, day2]).read([0, 2])
    [[20.5, 25.5], ['shut', 'open']]
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        super().__init__()
        self._sources = list(sources)
        if not self._sources:
            raise SourceError("there is nothing to join; give at least one source")
        first = self._sources[0]
        self.name = first.name
        if len(self._sources) > 1:
            self.name = f"{first.name} and {len(self._sources) - 1} more"
        self.names = list(first.names)
        self.texts, self.decimal_comma = first.texts, first.decimal_comma
        self.room = sum(source.room for source in self._sources)
        self.unnamed, self.categorical = first.unnamed, first.categorical
        for source in self._sources:
            self._compare(source)
        self._orders = [[s.names.index(name) for name in self.names] for s in self._sources]
        self._starts = [0, *accumulate(len(source) for source in self._sources)]
        self._note_bad()

    def _compare(self, source: Source) -> None:
        first = self._sources[0].name
        for name in source.names:
            if source.names.count(name) > 1:
                raise SourceError(f"{source.name} has more than one column {name!r}")
        for name in self.names:
            if name not in source.names:
                raise SourceError(f"{source.name} has no column {name!r}, {first} has one")
        for name in source.names:
            if name not in self.names:
                raise SourceError(f"{source.name} has a column {name!r}, {first} has none")
        if (source.texts, source.decimal_comma) != (self.texts, self.decimal_comma):
            raise SourceError(
                f"{source.name} and {first} write numbers differently; pack() them before they are "
                "joined"
            )

    def __len__(self) -> int:
        return self._starts[-1]

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        rows = _checked(rows, len(self), self.name)
        columns: list[Any] = [array("d") for _ in self.names]
        for k, some in _by_part(rows, self._starts):
            source = self._sources[k]
            source.max_bad = max(source.max_bad, self.max_bad - self.bad + source.bad)
            block = source.read(some)
            for f, place in enumerate(self._orders[k]):
                piece = block[place]
                columns[f] = _joined(columns[f], _plain(piece))
            self._note_bad()
        return columns

    def _note_bad(self) -> None:
        self.bad = sum(source.bad for source in self._sources)
        if len(self.complaints) < 20:
            found = [
                (f"{place} of {source.name}", why)
                for source in self._sources
                for place, why in source.complaints
            ]
            self.complaints[:] = found[:20]

    def _part(self, row: int) -> tuple[Source, int]:
        """The source that has a row, and which row it is there."""
        k = bisect_right(self._starts, row) - 1
        return self._sources[k], row - self._starts[k]

    def line(self, row: int) -> int | None:
        source, row = self._part(row)
        return source.line(row)

    def where(self, row: int) -> str:
        source, row = self._part(row)
        return source.where(row)

    def is_bad(self, row: int) -> bool:
        source, row = self._part(row)
        return source.is_bad(row)

    def skip(self, row: int, line: int | None, why: str) -> None:
        source, row = self._part(row)
        source.skip(row, line, why)
        self._note_bad()

    def check(self) -> None:
        """Raise a SourceError if one of them was changed."""
        for source in self._sources:
            source.check()

    def origin(self) -> dict[str, str]:
        """A name to call them by, and a checksum of the folder: files may come and go there."""
        parts = [source.origin() for source in self._sources]
        name = self.name.replace(self._sources[0].name, parts[0]["name"])
        folders = {part["folder"] for part in parts}
        return {"name": name, "place": "", "folder": folders.pop() if len(folders) == 1 else ""}

    def extent(self) -> dict[str, Any]:
        """What a checkpoint remembers of these rows: that of each source."""
        parts = [source.extent() for source in self._sources]
        crc = zlib.crc32("".join(part["crc32"] for part in parts).encode())
        return {**self.origin(), "rows": len(self), "crc32": f"{crc:08x}", "parts": parts}

    def first(self, extent: Mapping[str, Any]) -> Source | None:
        """The sources as far as a checkpoint knew them, if they still begin so; else None."""
        left = list(self._sources)
        found = []
        for part in (parts := extent.get("parts", [extent])):
            while left:  # others may have come between them
                source = left.pop(0).first(part)
                if source is not None:
                    found.append(source)
                    break
        if len(found) != len(parts):
            return None
        if len(found) == len(self._sources) and all(map(operator.is_, found, self._sources)):
            return self
        joined = Joined(found)
        joined.max_bad = self.max_bad
        return joined


class Stream(Source):
    """A uniform sample of rows that come by once: of a socket, a generator, a reader of logs.

    It is read to its end at once; each row is as likely to be among the `capacity` that are kept.
    Rows are lists, or dicts by name (then `names` need not be given). `seen` says how many came.

    >>> stream = Stream(([i, i % 2] for i in range(10_000)), capacity=100, names=["i", "odd"])
    >>> len(stream), stream.seen, stream.names
    (100, 10000, ['i', 'odd'])
    """

    name = "the stream"

    def __init__(
        self,
        rows: Iterable[Sequence[Any] | Mapping[str, Any]],
        capacity: int,
        names: Sequence[str] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(capacity, int) or capacity < 1:
            raise SourceError(f"capacity must be a whole number of at least 1, got {capacity!r}")
        self.names = [] if names is None else [str(name) for name in names]
        self.seen = 0
        self._kept: list[tuple[Any, ...]] = []
        rng = Rng(seed)
        for row in rows:
            if not hasattr(row, "__len__") or isinstance(row, (str, bytes)):
                raise SourceError(
                    f"row {self.seen} of the stream must be a list or a dict, got {row!r:.40}"
                )
            if self.seen == 0 and names is None:
                named = isinstance(row, Mapping)
                self.names = [str(v) for v in row] if named else [f"x{f}" for f in range(len(row))]
            if len(row) != len(self.names):
                raise SourceError(
                    f"row {self.seen} of the stream has {_count(len(row), 'value')}, needed are "
                    f"{len(self.names)}"
                )
            self.seen += 1
            if len(self._kept) < capacity:
                self._kept.append(self._values(row))
            else:
                at = _below(rng, self.seen)
                if at < capacity:
                    self._kept[at] = self._values(row)
        if not self._kept or not self.names:
            raise SourceError("the stream is empty; it needs at least one row with one value")

    def _values(self, row: Sequence[Any] | Mapping[str, Any]) -> tuple[Any, ...]:
        if not isinstance(row, Mapping):
            return tuple(row)
        try:
            return tuple(row[name] for name in self.names)
        except KeyError as error:
            raise SourceError(
                f"row {self.seen - 1} of the stream has no column {error.args[0]!r}"
            ) from None

    def __len__(self) -> int:
        return len(self._kept)

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        rows = _checked(rows, len(self), self.name)
        return [[self._kept[i][f] for i in rows] for f in range(len(self.names))]


def _below(rng: Rng, n: int) -> int:
    """An integer from 0 to n - 1, also where there are more than the generator gives at once."""
    if n < 1 << 30:
        return rng.below(n)
    limit = (1 << 60) - (1 << 60) % n
    while True:
        value = rng.next() << 30 | rng.next()
        if value < limit:
            return value % n


# ---- A packed copy ------------------------------------------------------------------------------


class Packed(Npy):
    """A file that `pack` wrote, with the names and the text of its columns."""

    def __init__(self, path: PathType) -> None:
        super().__init__(path)
        side = f"{self.path}.json"
        try:
            with open(side, encoding="utf-8") as file:
                found = json.load(file)
            if found["format"] != "edgeforest-rows" or found["version"] != 1:
                raise ValueError
            names, categories, size = found["names"], found["categories"], found["size"]
            sound = (
                isinstance(names, list)
                and isinstance(categories, list)
                and all(isinstance(name, str) for name in names)
                and all(texts is None or _are_texts(texts) for texts in categories)
                and len(names) == len(categories) == len(self._fields)
            )
        except OSError as error:
            raise SourceError(f"cannot read {visible(side)}: {_reason(error)}") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            sound, size = False, None
        if not sound or size != self._size or any(field.text for field in self._fields):
            raise SourceError(
                f"{visible(side)} does not belong to {self.name}; pack the source again"
            )
        self.names = names
        self._categories: list[list[Any] | None] = categories

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        columns = super().read(rows)
        for f, texts in enumerate(self._categories):
            if texts is not None:
                try:
                    columns[f] = [None if v != v else texts[int(v)] for v in columns[f]]
                except (IndexError, OverflowError):
                    raise SourceError(
                        f"column {self.names[f]!r} of {self.name} is damaged; pack the source again"
                    ) from None
        return columns


def _are_texts(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(text, str | int | float) for text in given)


def pack(
    source: Source,
    path: PathType,
    progress: Callable[[int, int], object] | None = None,
) -> Packed:
    """Write the rows of a source as a `.npy` file, from which they are read much faster.

    Beside it `<path>.json` keeps the names and the texts of columns that hold text, of which the
    file itself holds numbers. Numbers are written as float32; a column with numbers beyond 2^24
    that float32 would change is written as float64, and the file then holds records. Missing
    numbers come back as NaN, missing text as None. Bad rows that may be skipped are not written.

    The source is read twice, a block at a time; `progress(done, of)` is called after each. The
    file is complete when it appears.

    >>> from edgeforest.sources import Table
    >>> days = pack(Table({"day": ["mon", "tue", "mon"], "unix": [1700000001, 1700086401, None]}),
    ...             "days.npy")
    >>> days.read([0, 1, 2])
    [['mon', 'tue', 'mon'], array('d', [1700000001.0, 1700086401.0, nan])]
    """
    return _Packer(source, os.fspath(path), progress).run()


class _Packer:
    """What `pack` does: look at all rows, then write them."""

    def __init__(
        self, source: Source, path: str, progress: Callable[[int, int], object] | None
    ) -> None:
        self.source = source
        self.path = path
        self.progress = progress
        width = len(source.names)
        self.text = [False] * width
        self.wide = [False] * width
        self.codes: list[dict[Any, int]] = [{} for _ in range(width)]
        self.number: Callable[[Any], Any] | None = None
        if source.texts:
            from edgeforest.sources import cells

            def number(text: Any) -> Any:
                if not isinstance(text, str):  # a date is a number already
                    return text
                cell = cells.cell(text)
                found = cell and cells.parse_number(cell, source.decimal_comma)
                return text if cell is not None and found is None else found

            self.number = number

    def run(self) -> Packed:
        n = sum(len(block[0]) for block in self.blocks(0))
        if n == 0:
            raise SourceError(f"no row of {self.source.name} can be used; look at its first lines")
        try:
            with files.replacing(self.path) as file:
                size = self.write(file, n)
                files.write(f"{self.path}.json", (json.dumps(self.about(size)),))
        except OSError as error:
            raise SourceError(f"cannot write {self.path}: {_reason(error)}") from None
        return Packed(self.path)

    def blocks(self, turn: int) -> Iterator[list[Any]]:
        """All rows by column, some at a time; the first turn looks at them."""
        n, width = len(self.source), len(self.source.names)
        step = max(1, min(1 << 16, BLOCK // (64 * width)))
        for at in range(0, n, step):
            upto = min(n, at + step)
            block = list(map(_plain, self.source.read(range(at, upto))))
            for f in range(width):
                if self.number is not None and not self.text[f]:
                    block[f] = list(map(self.number, block[f]))
                if turn == 0:
                    self.look(f, block[f])
            yield block
            if self.progress is not None:
                self.progress(turn * n + upto, 2 * n)

    def look(self, f: int, column: Any) -> None:
        """Note whether there is text, or a number that float32 would change."""
        if self.text[f] or (isinstance(column, array) and column.typecode in "bBhHf"):
            return
        if any(issubclass(kind, str) for kind in set(map(type, column))):
            self.text[f] = True
        elif not self.wide[f]:
            try:
                large = [v for v in column if v is not None and abs(v) > FLOAT32_WHOLE]
                self.wide[f] = any(map(float.__ne__, array("f", large), map(float, large)))
            except (TypeError, ValueError, OverflowError):
                raise self.odd(f) from None

    def odd(self, f: int) -> SourceError:
        return SourceError(
            f"column {self.source.names[f]!r} of {self.source.name} holds a value that is neither "
            "number nor text"
        )

    def write(self, file: BinaryIO, n: int) -> int:
        width = len(self.text)
        names = list(self.source.names)
        if len(set(names)) < width or "" in names:
            names = [f"x{f}" for f in range(width)]
        sizes = [
            8 if wide and not text else 4 for wide, text in zip(self.wide, self.text, strict=True)
        ]
        plain = len(set(sizes)) == 1
        descr: Any = f"<f{sizes[0]}"
        shape: tuple[int, ...] = (n, width)
        if not plain:
            descr = [(name, f"<f{size}") for name, size in zip(names, sizes, strict=True)]
            shape = (n,)
        written = 0
        file.write(_header(descr, shape))
        for block in self.blocks(1):
            columns = [self.encode(f, block[f], "fd"[sizes[f] == 8]) for f in range(width)]
            file.write(_interleaved(columns, sizes))
            written += len(columns[0])
        if written != n:
            raise SourceError(f"{self.source.name} was changed while it was packed; try again")
        return file.tell()

    def encode(self, f: int, column: Any, code: str) -> array[float]:
        if self.text[f]:
            column = self.encode_text(f, column)
        elif isinstance(column, array) and column.typecode == code:
            return column
        try:
            return array(code, [math.nan if v is None else v for v in column])
        except (TypeError, ValueError, OverflowError):
            raise self.odd(f) from None

    def encode_text(self, f: int, column: Any) -> list[int | None]:
        codes = self.codes[f]
        found: list[int | None] = []
        for v in column:
            if v is None or v != v:
                found.append(None)
                continue
            code = codes.get(v)
            if code is None:
                if len(codes) == MAX_TEXTS:
                    raise SourceError(
                        f"column {self.source.names[f]!r} of {self.source.name} has more than "
                        f"{MAX_TEXTS} different texts; leave it out"
                    )
                code = len(codes)
                codes[v] = code
            found.append(code)
        return found

    def about(self, size: int) -> dict[str, Any]:
        return {
            "format": "edgeforest-rows",
            "version": 1,
            "names": list(self.source.names),
            "categories": [
                list(codes) if text else None
                for text, codes in zip(self.text, self.codes, strict=True)
            ],
            "size": size,
        }


def _header(descr: Any, shape: tuple[int, ...]) -> bytes:
    """The start of a .npy file, as NumPy writes it."""
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    version = 1
    try:
        body = text.encode("latin-1")
    except UnicodeEncodeError:
        version = 3
        body = text.encode("utf-8")
    if version == 1 and len(body) > 65000:
        version = 2
    start = 10 if version == 1 else 12
    body += b" " * (-(start + len(body) + 1) % 64) + b"\n"
    length = len(body).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + body


def _interleaved(columns: list[array[float]], sizes: list[int]) -> bytes | bytearray:
    """Columns as the bytes of rows, the least significant byte first."""
    if sys.byteorder == "big":
        columns = [column[:] for column in columns]
        for column in columns:
            column.byteswap()
    width, n = len(columns), len(columns[0])
    if len(set(sizes)) == 1:
        rows: array[float] = array("fd"[sizes[0] == 8], bytes(n * sizes[0] * width))
        for f, column in enumerate(columns):
            rows[f::width] = column
        return rows.tobytes()
    stride = sum(sizes)
    block = bytearray(n * stride)
    at = 0
    for column, size in zip(columns, sizes, strict=True):
        raw = column.tobytes()
        for j in range(size):
            block[at + j :: stride] = raw[j::size]
        at += size
    return block
