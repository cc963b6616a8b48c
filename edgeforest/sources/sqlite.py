"""A table, view or query of an SQLite database as a source.

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

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import stat
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgeforest.host.names import listed, quoted, visible
from edgeforest.sources.base import Source, SourceError
from edgeforest.sources.columns import checked_rows
from edgeforest.sources.file import PathType

MAX_VALUE = 1 << 20  # bytes of a value or a row
QUERY_ROWS = 500  # rows of one query; some builds of SQLite allow 999 parameters


class SQLite(Source):
    """The rows of a table, a view or a query of an SQLite database, which is only read.

    If the database has only one table, you need not name it.

    The rows of a table are found by their rowid, in that order. Where rows were deleted, the
    places of the gaps are kept in memory, 16 bytes each. A table `WITHOUT ROWID`, a view or a query
    has no rowids: its rows are copied once into a temporary file of SQLite, which `close` removes.

    Numbers stay numbers, NULL is None, and a row with a BLOB is a bad row. Rows that are added to a
    table later are not seen, so that row numbers stay the same. Rows that are deleted are an error.
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
        """Find the rows: in the table, or in a copy that is made now."""
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
        """Copy the rows of a query to a table in a temporary file, where they have rowids."""
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
        """The name of the rowid: a column may have the usual name. "" if there is no rowid."""
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
        """Raise a SourceError if rows were deleted since it was opened."""
        with self._sentences(), self._checked():
            pass

    @contextlib.contextmanager
    def _checked(self) -> Iterator[sqlite3.Connection]:
        """The database as it is at this moment, if the rows are still there."""
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
            raise SourceError(
                f"{visible(self._path)} is gone since it was opened; put it back"
            ) from None
        if (found.st_dev, found.st_ino) != self._inode:
            raise SourceError(
                f"{visible(self._path)} was replaced by another file since it was opened; open it "
                "again"
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
        rows = checked_rows(rows, self._n, self.name)
        columns: list[list[Any]] = [[] for _ in self.names]
        with self._sentences(), self._checked() as connection:
            for k in range(0, len(rows), QUERY_ROWS):
                self._read_some(connection, rows[k : k + QUERY_ROWS], columns)
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
            query += f"IN ({', '.join('?' * QUERY_ROWS)}) ORDER BY {rowid}"
            given = ids + ids[-1:] * (QUERY_ROWS - len(ids))
        try:
            found = connection.execute(query, given).fetchall()
        except sqlite3.OperationalError as error:
            if "decode" not in str(error):
                raise
            connection.text_factory = _text_or_bytes  # treated as a BLOB: it is not text either
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
        for column, piece in zip(columns, pieces, strict=False):  # none, if all rows were bad
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
