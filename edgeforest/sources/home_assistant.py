"""The database of Home Assistant's recorder as a source: what the house knew, minute by minute.

>>> database = sqlite3.connect("home-assistant_v2.db")
>>> _ = database.executescript('''
...     CREATE TABLE states_meta (metadata_id INTEGER PRIMARY KEY, entity_id TEXT);
...     CREATE TABLE state_attributes (attributes_id INTEGER PRIMARY KEY, shared_attrs TEXT);
...     CREATE TABLE states (state_id INTEGER PRIMARY KEY, metadata_id INTEGER, state TEXT,
...                          attributes_id INTEGER, last_updated_ts FLOAT);
...     INSERT INTO states_meta VALUES (1, 'sensor.bath_humidity'), (2, 'binary_sensor.bath');
...     INSERT INTO states VALUES (1, 2, 'off', NULL, 1714564800), (2, 1, '48.5', NULL, 1714564830),
...                               (3, 1, 'unavailable', NULL, 1714564890), (4, 2, 'on', NULL, 1714564920);
... ''')
>>> house = HomeAssistant("home-assistant_v2.db", target="binary_sensor.bath")
>>> house.names
['time', 'time.hour', 'time.weekday', 'binary_sensor.bath', 'sensor.bath_humidity']
>>> house.read([0, 1, 2])[3:]
[['off', 'off', 'on'], [None, 48.5, None]]
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from edgeforest.host.names import listed, quoted, visible
from edgeforest.host.words import reason
from edgeforest.sources.base import Source, SourceError
from edgeforest.sources.file import PathType
from edgeforest.sources.payloads import hour_and_weekday, state, word
from edgeforest.sources.sqlite import MAX_VALUE, SQLite

EVERY = 60.0  # seconds between two rows
SILENCE = 86400.0  # seconds without a recorded state after which no rows are made until the next
LATEST = 4102444800.0  # the year 2100: a later time is not one
MAX_WIDTH = 1990  # columns of a table of SQLite, less ours
MAX_ATTRIBUTES = 64  # of one entity
BLOCK = 500  # rows that are written at once
PARSED = 4096  # texts of attributes that are kept parsed
TIME = ("time", "time.hour", "time.weekday")
# They describe an entity, and do not measure.
DESCRIPTIONS = frozenset(
    "friendly_name unit_of_measurement device_class state_class icon entity_picture attribution "
    "supported_features supported_color_modes editable id restored options".split()
)


class HomeAssistant(Source):
    """The recorder's database (`home-assistant_v2.db`), which is only read, also while it is used.

    A row is made `every` so many seconds. It holds what was known at that moment: the last recorded
    state of each entity, as `sensor.bath_humidity`, and its attributes that ever change, as
    `climate.bath.current_temperature`. So no row knows anything of later. `unknown` and
    `unavailable` are missing values, numbers are numbers, all other states are categories. `time`
    is the moment, `time.hour` and `time.weekday` are taken where this computer is (variable TZ).

    `columns` are patterns of entities (`sensor.*`) or of single columns; by default all are read.
    `target` is the column to predict: rows begin with its first state, and all else that its own
    entity says is left out, because it would give the answer away. `notes` names entities that
    may do so, too: those whose name begins like that of the target.

    The rows are made once, in a temporary file that lives as long as the source. States that are
    recorded later are not seen.
    """

    def __init__(
        self,
        path: PathType,
        target: str = "",
        columns: Iterable[str] = (),
        every: float = EVERY,
    ) -> None:
        super().__init__()
        self.path = self._path = os.fspath(path)
        self.name = visible(self._path)
        self._target, self._patterns = target, [columns] if isinstance(columns, str) else [*columns]
        if not 1 <= every <= SILENCE:
            raise SourceError(f"every must be from 1 to {SILENCE:.0f} seconds, got {every:g}")
        self._every = every
        folder = tempfile.mkdtemp(prefix="edgeforest-")
        self._remove = weakref.finalize(self, shutil.rmtree, folder, True)
        try:
            made = os.path.join(folder, "rows.db")
            with self._sentences():
                self._make(made)
            self._rows = SQLite(made, "rows")
        except BaseException:
            self._remove()
            raise

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        return self._rows.read(rows)

    def close(self) -> None:
        """Close the file of rows; reading opens it again."""
        self._rows.close()

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise SourceError(f"cannot read {self.name}: {visible(str(error))}") from None
        except OSError as error:
            raise SourceError(
                f"cannot keep the rows of {self.name} in {tempfile.gettempdir()}: {reason(error)}; "
                "name another folder in TMPDIR"
            ) from None

    def _make(self, made: str) -> None:
        """Read the database as it is at this moment, and write the rows to another one."""
        with contextlib.closing(_opened(self._path)) as recorder:
            recorder.execute("BEGIN")  # all of it at one moment
            query = _Query(recorder)
            entities = self._chosen(query)
            columns = self._columns(query, entities)
            self.names = [*TIME, *columns]
            if len(self.names) > MAX_WIDTH:
                raise SourceError(
                    f"{self.name} has {len(self.names):,} columns, at most {MAX_WIDTH:,} can be "
                    "read; choose some with columns, such as sensor.*"
                )
            with contextlib.closing(sqlite3.connect(made, isolation_level=None)) as file:
                file.execute("PRAGMA journal_mode = OFF")  # if it fails, all of it is removed
                file.execute("PRAGMA synchronous = OFF")
                quotes = ", ".join('"' + name.replace('"', '""') + '"' for name in self.names)
                file.execute(f"CREATE TABLE rows ({quotes})")
                file.execute("BEGIN")
                signs = ", ".join("?" * len(self.names))
                block: list[list[Any]] = []
                for row in self._joined(query, entities, columns):
                    block.append(row)
                    if len(block) == BLOCK:
                        file.executemany(f"INSERT INTO rows VALUES ({signs})", block)
                        block.clear()
                file.executemany(f"INSERT INTO rows VALUES ({signs})", block)
                made_any = file.execute("SELECT count(*) FROM rows").fetchone()[0]
                file.execute("COMMIT")
        if not made_any:
            raise SourceError(f"{self.name} has no state to make a row of; let it record first")

    def _chosen(self, query: _Query) -> dict[int | str, str]:
        """The entities to read by their number, in order of their names."""
        known = query.entities()
        target = _entity(self._target)
        if self._target and target not in known.values():
            raise SourceError(
                f"{self.name} has no entity {quoted(target)}; it has {listed(sorted(known.values()))}"
            )
        for pattern in self._patterns:
            if not any(_matches(pattern, name) for name in known.values()):
                raise SourceError(
                    f"columns has {quoted(pattern)}, but {self.name} has no such entity; it has "
                    f"{listed(sorted(known.values()))}"
                )
        wanted = self._patterns or ["*"]
        chosen = {
            key: name
            for key, name in sorted(known.items(), key=lambda item: item[1])
            if name == target or any(_matches(pattern, name) for pattern in wanted)
        }
        # Such as sensor.kitchen_motion_battery beside binary_sensor.kitchen_motion.
        begin = target.partition(".")[2]
        near = [n for n in chosen.values() if begin and n != target and _object(n, begin)]
        if near:
            self.notes = [
                f"{listed(near)} may be computed from the target; if so, leave out with drop"
            ]
        return chosen

    def _columns(self, query: _Query, entities: dict[int | str, str]) -> dict[str, int]:
        """The columns of the entities, by name, with their places among the values of a row."""
        first: dict[tuple[int | str, str], Any] = {}  # of attributes that never changed yet
        changing: set[tuple[int | str, str]] = set()
        many: dict[int | str, int] = {}
        for key, text in query.attributes():
            if key not in entities:
                continue
            for name, value in _attributes(text).items():
                at = key, name
                if at in changing or value is None:
                    continue
                if at not in first:
                    many[key] = many.get(key, 0) + 1
                    if many[key] <= MAX_ATTRIBUTES:
                        first[at] = value
                elif first[at] != value:
                    changing.add(at)
        own = _entity(self._target)
        names = []
        for key, entity in entities.items():
            found = [entity, *sorted(f"{entity}.{name}" for k, name in changing if k == key)]
            if entity == own:
                found = [self._target]
                if self._target != own and (key, self._target[len(own) + 1 :]) not in changing:
                    raise SourceError(
                        f"{self.name} has no attribute {quoted(self._target)} that ever changes"
                    )
            elif self._patterns:
                found = [n for n in found if any(fnmatchcase(n, p) for p in self._patterns)
                         or any(fnmatchcase(entity, p) for p in self._patterns)]  # fmt: skip
            names += found
        return {name: place for place, name in enumerate(names)}

    def _joined(
        self, query: _Query, entities: dict[int | str, str], columns: dict[str, int]
    ) -> Iterator[list[Any]]:
        """The rows: what was known at each moment."""
        places: dict[int | str, dict[str, int]] = {key: {} for key in entities}  # "" is the state
        by_name = {entity: key for key, entity in entities.items()}
        for name, place in columns.items():
            entity = _entity(name)
            places[by_name[entity]][name[len(entity) + 1 :]] = place
        own = by_name.get(_entity(self._target))
        known: list[Any] = [None] * len(columns)
        parsed: dict[Any, dict[str, Any]] = {}
        every, begun = self._every, own is None
        due = latest = math.nan
        for key, seconds, value, attributes_id, text in query.states():
            if key not in places:
                continue
            if seconds - latest > SILENCE:
                while due <= latest + SILENCE:
                    yield _row(due, known)
                    due += every
                due = _next(seconds, every)
            while due < seconds:  # a state counts from its moment on
                yield _row(due, known)
                due += every
            latest = seconds
            wanted = places[key]
            if "" in wanted:
                known[wanted[""]] = state(value)
            if len(wanted) > ("" in wanted):
                said = parsed.get(attributes_id) if attributes_id is not None else None
                if said is None:
                    said = _attributes(text)
                    if len(parsed) >= PARSED:
                        parsed.clear()
                    parsed[attributes_id] = said
                for name, place in wanted.items():
                    if name:
                        known[place] = said.get(name)
            if not begun and key == own:
                begun, due = True, _next(seconds, every)
            elif begun and due != due:
                due = _next(seconds, every)
        if due == due and due - latest <= every:
            yield _row(due, known)  # the first moment that knows the last state

    @staticmethod
    def is_recorder(path: PathType) -> bool:
        """Whether a file is a database of the recorder, by the names of its tables and columns."""
        with contextlib.suppress(sqlite3.Error, sqlite3.Warning, SourceError, OSError):
            with contextlib.closing(_opened(os.fspath(path))) as recorder:
                _Query(recorder)
                return True
        return False


class _Query:
    """What is asked of the database; the recorder changed its tables over the years."""

    def __init__(self, recorder: sqlite3.Connection) -> None:
        self._recorder = recorder
        self.tables = {
            name
            for name, sql in recorder.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
            )
            # A view or a virtual table could run whatever its maker wants.
            if isinstance(sql, str) and sql[:12].upper() == "CREATE TABLE"
        }
        of_states = self._names("states")
        if not {"state_id", "state"} <= of_states:
            raise SourceError("it has no table of states")
        self._meta = "states_meta" in self.tables and "metadata_id" in of_states
        if not self._meta and "entity_id" not in of_states:
            raise SourceError("its states name no entities")
        self._key = "s.metadata_id" if self._meta else "s.entity_id"
        if "last_updated_ts" in of_states:
            self._time = "s.last_updated_ts"
        elif "last_updated" in of_states:  # before 2023: text in UTC
            self._time = "(julianday(s.last_updated) - 2440587.5) * 86400.0"
        else:
            raise SourceError("its states have no time")
        self._id, self._text, self._join = "NULL", "NULL", ""
        if "state_attributes" in self.tables and "attributes_id" in of_states:
            self._id, self._text = "s.attributes_id", "a.shared_attrs"
            self._join = " LEFT JOIN state_attributes AS a ON a.attributes_id = s.attributes_id"
        elif "attributes" in of_states:  # before 2022
            self._text = "s.attributes"

    def _names(self, table: str) -> set[str]:
        if table not in self.tables:
            return set()
        return {row[1] for row in self._recorder.execute(f"PRAGMA table_info({table})")}

    def entities(self) -> dict[int | str, str]:
        """All entities, with what their states refer to them by."""
        if self._meta:
            query = "SELECT metadata_id, entity_id FROM states_meta"
        else:
            query = "SELECT DISTINCT entity_id, entity_id FROM states"
        return {
            key: name
            for key, name in self._recorder.execute(query)
            if isinstance(name, str) and "." in name and word(name) is not None
        }

    def attributes(self) -> Iterator[tuple[int | str, Any]]:
        """All attributes of each entity, each once."""
        which = f"SELECT DISTINCT {self._key} AS key, {self._id} AS id FROM states AS s"
        if not self._join:
            which = f"SELECT DISTINCT {self._key}, {self._text} FROM states AS s"
            return iter(self._recorder.execute(which))
        return iter(
            self._recorder.execute(
                f"SELECT s.key, a.shared_attrs FROM ({which}) AS s "
                "JOIN state_attributes AS a ON a.attributes_id = s.id"
            )
        )

    def states(self) -> Iterator[tuple[int | str, float, Any, Any, Any]]:
        """All states in order of time: entity, seconds, state, number and text of its attributes."""
        query = (
            f"SELECT {self._key}, {self._time} AS at, s.state, {self._id}, {self._text} "
            f"FROM states AS s{self._join} ORDER BY at, s.state_id"
        )
        for row in self._recorder.execute(query):
            if isinstance(row[1], int | float) and 0 < row[1] < LATEST:
                yield row


def _opened(path: str) -> sqlite3.Connection:
    """The database, which is only read: it may be in use."""
    how = "mode=ro"
    with contextlib.suppress(OSError), open(path, "rb") as file:
        # Nobody uses a database with a write-ahead log that has none now. SQLite would begin one to
        # read it, and leave it there, perhaps with an owner whom Home Assistant does not expect.
        if file.read(20)[18:] == b"\2\2" and not os.path.exists(f"{path}-wal"):
            how += "&immutable=1"
    recorder = sqlite3.connect(
        f"{Path(path).absolute().as_uri()}?{how}", uri=True, isolation_level=None
    )
    try:
        recorder.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
        recorder.execute("PRAGMA query_only = ON")
        recorder.execute("PRAGMA trusted_schema = OFF")
        recorder.execute("PRAGMA temp_store = FILE")
        recorder.text_factory = lambda raw: raw.decode("utf-8", "replace")
    except BaseException:
        recorder.close()
        raise
    return recorder


def _entity(column: str) -> str:
    """The entity of a column: the first two parts of its name."""
    return ".".join(column.split(".", 2)[:2])


def _object(entity: str, begin: str) -> bool:
    return entity.partition(".")[2].startswith(begin)


def _matches(pattern: str, entity: str) -> bool:
    """Whether a pattern is about an entity, or about one of its attributes."""
    return fnmatchcase(entity, pattern) or fnmatchcase(entity, _entity(pattern))


def _attributes(text: Any) -> dict[str, Any]:
    """Those attributes that are numbers or words, by name."""
    try:
        said = json.loads(text, parse_constant=lambda _: None) if text else {}
    except (ValueError, TypeError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    return {
        name: state(value)
        for name, value in said.items()
        if name not in DESCRIPTIONS
        and isinstance(value, str | int | float)
        and word(name) is not None
    }


def _next(seconds: float, every: float) -> float:
    """The first moment of a row that is not before this one."""
    return math.ceil(seconds / every) * every


def _row(seconds: float, known: list[Any]) -> list[Any]:
    hour, weekday = hour_and_weekday(seconds)
    when = datetime.fromtimestamp(seconds).astimezone().isoformat()
    return [when, hour, weekday, *known]
