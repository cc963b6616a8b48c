"""Databases as Home Assistant's recorder makes them: its tables, and a house that lives in them.

Tests read small ones, `benchmarks/home_assistant.py` a week of a whole house.
"""

from __future__ import annotations

import json
import math
import random
import sqlite3
from pathlib import Path
from typing import Any

# The tables of schema 53, with those columns that are no longer used.
TABLES = """
CREATE TABLE schema_changes (change_id INTEGER PRIMARY KEY, schema_version INTEGER, changed DATETIME);
CREATE TABLE recorder_runs (run_id INTEGER PRIMARY KEY, start DATETIME, "end" DATETIME,
    closed_incorrect BOOLEAN, created DATETIME);
CREATE TABLE states_meta (metadata_id INTEGER PRIMARY KEY, entity_id VARCHAR(255));
CREATE UNIQUE INDEX ix_states_meta_entity_id ON states_meta (entity_id);
CREATE TABLE state_attributes (attributes_id INTEGER PRIMARY KEY, hash BIGINT, shared_attrs TEXT);
CREATE INDEX ix_state_attributes_hash ON state_attributes (hash);
CREATE TABLE states (state_id INTEGER PRIMARY KEY, entity_id CHAR(0), state VARCHAR(255),
    attributes CHAR(0), event_id SMALLINT, last_changed CHAR(0), last_changed_ts FLOAT,
    last_reported_ts FLOAT, last_updated CHAR(0), last_updated_ts FLOAT,
    old_state_id INTEGER REFERENCES states (state_id),
    attributes_id INTEGER REFERENCES state_attributes (attributes_id), context_id CHAR(0),
    context_user_id CHAR(0), context_parent_id CHAR(0), origin_idx SMALLINT, context_id_bin BLOB,
    context_user_id_bin BLOB, context_parent_id_bin BLOB,
    metadata_id INTEGER REFERENCES states_meta (metadata_id));
CREATE INDEX ix_states_last_updated_ts ON states (last_updated_ts);
CREATE INDEX ix_states_old_state_id ON states (old_state_id);
CREATE INDEX ix_states_attributes_id ON states (attributes_id);
CREATE INDEX ix_states_context_id_bin ON states (context_id_bin);
CREATE INDEX ix_states_metadata_id_last_updated_ts ON states (metadata_id, last_updated_ts);
INSERT INTO schema_changes VALUES (1, 53, '2024-04-29 00:00:00');
"""
MONDAY = 1714348800.0  # 2024-04-29 00:00 UTC
TARGET = "binary_sensor.kitchen_motion"


class Recorder:
    """A database that states are written to, as the recorder does."""

    def __init__(self, path: Path | str) -> None:
        self.database = sqlite3.connect(path)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.executescript(TABLES)
        self._entities: dict[str, int] = {}
        self._attributes: dict[str, int] = {}
        self._last: dict[str, tuple[int, Any, float]] = {}
        self.written = 0

    def say(self, entity: str, state: Any, at: float, **attributes: Any) -> None:
        """Write what an entity says at a moment, in seconds since 1970."""
        write = self.database.execute
        if entity not in self._entities:
            self._entities[entity] = len(self._entities) + 1
            write("INSERT INTO states_meta VALUES (?, ?)", (self._entities[entity], entity))
        text = json.dumps(attributes, separators=(",", ":"))
        if text not in self._attributes:
            self._attributes[text] = len(self._attributes) + 1
            write("INSERT INTO state_attributes VALUES (?, 0, ?)", (self._attributes[text], text))
        self.written += 1
        old, before, changed = self._last.get(entity, (None, None, at))
        same = before == state
        write(
            "INSERT INTO states (state_id, state, last_changed_ts, last_updated_ts, old_state_id, "
            "attributes_id, origin_idx, context_id_bin, metadata_id) VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?)",
            (
                self.written,
                str(state),
                changed if same else None,
                at,
                old,
                self._attributes[text],
                self.written.to_bytes(16, "big"),
                self._entities[entity],
            ),
        )
        self._last[entity] = self.written, state, changed if same else at

    def close(self) -> None:
        self.database.commit()
        self.database.close()


def week(path: Path | str, days: int = 7, rooms: int = 6, pause: float = 45, seed: int = 1) -> int:
    """A house of some rooms: how many states it wrote. A sensor speaks every `pause` seconds or so."""
    recorder, rng = Recorder(path), random.Random(seed)
    events: list[tuple[float, str, Any, dict[str, Any]]] = []
    for room in ("kitchen", "bath", "hall", "bedroom", "office", "cellar")[:rooms]:
        events += _room(room, days, pause, rng)
    for minute in range(0, days * 1440, 4):
        at = MONDAY + minute * 60 + 0.25
        height = 50 * math.sin((minute % 1440 / 1440 - 0.25) * math.tau)
        events.append((at, "sun.sun", "above_horizon" if height > 0 else "below_horizon",
                       {"elevation": round(height, 2), "friendly_name": "Sun"}))  # fmt: skip
    events.append((MONDAY + 1, "sensor.attic_temperature", "unknown", {}))  # its battery is empty
    events.append((MONDAY + 2, "sensor.last_boot", "2024-04-28T22:00:00+00:00", {}))
    for at, entity, state, attributes in sorted(events, key=lambda event: event[:2]):
        recorder.say(entity, state, at, **attributes)
    recorder.close()
    return recorder.written


def _room(
    room: str, days: int, pause: float, rng: random.Random
) -> list[tuple[float, str, Any, dict[str, Any]]]:
    """What the sensors of a room say: warm, damp, bright and full of CO2 while somebody is there."""
    events: list[tuple[float, str, Any, dict[str, Any]]] = []
    visits = []
    for day in range(days):
        for hour in (7, 12.5, 18.5) if day % 7 < 5 else (9, 13, 16, 19):
            begin = MONDAY + 86400 * day + 3600 * rng.gauss(hour, 0.4)
            visits.append((begin, begin + 60 * rng.uniform(15, 60)))
    for begin, end in visits:
        events.append((begin, f"binary_sensor.{room}_motion", "on", {"device_class": "motion"}))
        events.append((end, f"binary_sensor.{room}_motion", "off", {"device_class": "motion"}))
        events.append((begin + 2, f"light.{room}", "on", {"brightness": rng.randrange(80, 255)}))
        events.append((end + rng.uniform(5, 600), f"light.{room}", "off", {}))
    events.append((MONDAY + 0.5, f"binary_sensor.{room}_motion", "off", {"device_class": "motion"}))
    co2, at, visit = 420.0, MONDAY + 5, 0
    while at < MONDAY + 86400 * days:
        while visit < len(visits) and visits[visit][1] < at:
            visit += 1
        here = visit < len(visits) and visits[visit][0] <= at
        step = rng.uniform(0.7, 1.3) * pause
        co2 += (420 + 600 * here - co2) * min(1.0, step / 900)
        values = {
            "temperature": round(20 + here + rng.gauss(0, 0.2), 2),
            "humidity": round(45 + 5 * here + rng.gauss(0, 1), 1),
            "co2": round(co2 + rng.gauss(0, 10)),
            "pressure": round(1013 + 5 * math.sin(at / 90000) + rng.gauss(0, 0.1), 1),
            "power": round(max(0.0, 40 + 400 * here + rng.gauss(0, 60)), 1),
        }
        for offset, (name, value) in enumerate(values.items()):
            gone = rng.random() < 0.0005
            unit = {"state_class": "measurement", "friendly_name": f"{room} {name}"}
            events.append(
                (at + offset / 10, f"sensor.{room}_{name}", "unavailable" if gone else value, unit)
            )
        at += step
    return events
