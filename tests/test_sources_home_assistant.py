"""The recorder's database as a source: what was known at each moment, and nothing of later."""

from __future__ import annotations

import hashlib
import math
import os
import random
import re
import sqlite3
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from recorder import MONDAY, TARGET, Recorder, week

from edgeforest.sources import HomeAssistant, SourceError, SQLite, open_source
from edgeforest.sources.payloads import LastKnown, found, moment, number, parsed, state, word

HOUR = 3600.0


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("house") / "home-assistant_v2.db"
    week(path, days=2, rooms=2, pause=200)
    return path


def columns(source: HomeAssistant) -> dict[str, Any]:
    return dict(zip(source.names, source.read(range(len(source))), strict=True))


def test_each_row_has_the_last_state_of_each_entity_at_its_moment(house: Path) -> None:
    source = HomeAssistant(house, target=TARGET, every=300)
    got = columns(source)
    database = sqlite3.connect(house)
    times = [datetime.fromisoformat(text).timestamp() for text in got["time"]]
    assert times == [MONDAY + 300 * (k + 1) for k in range(len(times))]
    assert len(times) == 2 * 288  # to the first moment that knows the last state
    rng = random.Random(1)
    entities = [n for n in source.names if n.count(".") == 1 and not n.startswith("time.")]
    assert len(entities) == 2 * 7 + 3
    for entity in entities:
        for k in rng.sample(range(len(times)), 40):
            row = database.execute(
                "SELECT state FROM states JOIN states_meta USING (metadata_id) WHERE "
                "states_meta.entity_id = ? AND last_updated_ts <= ? ORDER BY last_updated_ts DESC",
                (entity, times[k]),
            ).fetchone()
            wanted = None if row is None or row[0] in ("unknown", "unavailable") else row[0]
            assert (wanted is None) == (got[entity][k] is None)
            assert (
                wanted is None or str(got[entity][k]) == wanted or got[entity][k] == float(wanted)
            )
    database.close()


def test_attributes_that_change_are_columns_but_not_those_of_the_target(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.db")
    for k in range(10):
        at = MONDAY + 60 * k
        recorder.say(TARGET, "on" if k % 2 else "off", at, occupancy=bool(k % 2), battery=90 - k)
        recorder.say("climate.bath", "heat", at, current_temperature=20 + k, hvac_action="idle",
                     friendly_name=f"Bath {k}", preset=["a", k], fan=bool(k > 5))  # fmt: skip
    recorder.say("climate.bath", "unavailable", MONDAY + 600)
    recorder.say("sensor.kitchen_motion_battery", 90, MONDAY + 600)
    recorder.close()
    source = HomeAssistant(tmp_path / "a.db", target=TARGET)
    assert source.names == [
        *("time", "time.hour", "time.weekday", TARGET),
        *("climate.bath", "climate.bath.current_temperature", "climate.bath.fan"),
        "sensor.kitchen_motion_battery",
    ]
    assert "sensor.kitchen_motion_battery may be computed from the target" in source.notes[0]
    got = columns(source)
    assert list(got["climate.bath.current_temperature"]) == [*range(20, 30), None]
    assert list(got["climate.bath.fan"]) == [0.0] * 6 + [1.0] * 4 + [None]
    assert list(got["climate.bath"]) == ["heat"] * 10 + [None]
    source = HomeAssistant(tmp_path / "a.db", target="climate.bath.current_temperature")
    assert [n for n in source.names if n.startswith("climate")] == [
        "climate.bath.current_temperature"
    ]
    for chosen, names in (
        (["climate.*"], ["climate.bath", "climate.bath.current_temperature", "climate.bath.fan"]),
        (["climate.bath.f*"], ["climate.bath.fan"]),
    ):
        source = HomeAssistant(tmp_path / "a.db", target=TARGET, columns=chosen)
        assert source.names[3:] == [TARGET, *names]


def test_what_comes_later_changes_no_row(house: Path, tmp_path: Path) -> None:
    """A copy that ends in the middle has the same rows, as far as it goes."""
    path = tmp_path / "half.db"
    path.write_bytes(house.read_bytes())
    database = sqlite3.connect(path)
    database.execute("DELETE FROM states WHERE last_updated_ts > ?", (MONDAY + 30 * HOUR,))
    database.commit()
    database.close()
    half, whole = HomeAssistant(path, target=TARGET), HomeAssistant(house, target=TARGET)
    assert len(half) in range(30 * 60 - 5, 30 * 60 + 2)
    names = set(half.names) & set(whole.names)
    a, b = columns(half), columns(whole)
    assert len(names) > 15
    for name in names:
        assert list(a[name]) == list(b[name])[: len(half)]


def test_a_database_in_use_is_not_disturbed(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    recorder = Recorder(path)
    for k in range(5):
        recorder.say(TARGET, "on", MONDAY + 60 * k)
    recorder.database.commit()
    recorder.say(TARGET, "off", MONDAY + 300)  # in a transaction that is still open
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    source = HomeAssistant(path, target=TARGET)
    assert len(source) == 5
    recorder.database.commit()  # nobody is in the way
    recorder.say(TARGET, "off", MONDAY + 360)
    assert list(columns(source)[TARGET]) == ["on"] * 5
    source.close()
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    recorder.close()
    there = sorted(os.listdir(tmp_path))
    assert len(HomeAssistant(path, target=TARGET)) == 7
    assert sorted(os.listdir(tmp_path)) == there == ["live.db"]  # nothing is left beside it


def test_tables_of_earlier_years_are_read(tmp_path: Path) -> None:
    for name, tables, values in (
        ("2021", "attributes TEXT", "'{\"elevation\": 10}'"),
        ("2022", "attributes_id INTEGER", "1"),
    ):
        path = tmp_path / name
        database = sqlite3.connect(path)
        database.executescript(f"""
            CREATE TABLE states (state_id INTEGER PRIMARY KEY, entity_id TEXT, state TEXT,
                                 last_updated DATETIME, {tables});
            CREATE TABLE state_attributes (attributes_id INTEGER PRIMARY KEY, shared_attrs TEXT);
            INSERT INTO state_attributes VALUES (1, '{{"elevation": 10}}'), (2, '{{"elevation": 11}}');
            INSERT INTO states VALUES
                (1, 'sensor.bath', '20.5', '2024-04-29 00:00:00.000000', NULL),
                (2, 'sun.sun', 'above_horizon', '2024-04-29 00:00:30.500000', {values}),
                (3, 'sun.sun', 'above_horizon', '2024-04-29 00:02:00.000000',
                 {values.replace("10", "11").replace("1", "2") if values == "1" else values.replace("10", "11")});
        """)
        database.close()
        if name == "2021":
            database = sqlite3.connect(path)
            database.execute("DROP TABLE state_attributes")
            database.close()
        source = open_source(path)
        assert isinstance(source, HomeAssistant)
        got = columns(source)
        assert list(got["sensor.bath"]) == [20.5] * 3
        assert list(got["sun.sun"]) == [None, "above_horizon", "above_horizon"]
        assert list(got["sun.sun.elevation"]) == [None, 10.0, 11.0]


def test_strange_databases_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "odd.db"
    recorder = Recorder(path)
    recorder.say(TARGET, "on", MONDAY)
    for k, at in enumerate((None, "soon", b"x", -5.0, 1e300, math.inf, 1e12)):
        recorder.say("sensor.odd", k, at)
    recorder.say("sensor.far", 1, MONDAY + 365 * 86400)  # a Pi that did not know the time
    recorder.say("no entity", 1, MONDAY)
    recorder.say("sensor.bad\x1bname", 1, MONDAY)
    for text in ('{"a":', '["a"]', "[" * 5000, '{"a": 1e999, "b": NaN, "\\u001b[2J": 1}', None):
        recorder.database.execute("INSERT INTO state_attributes VALUES (NULL, 0, ?)", (text,))
        recorder.database.execute(
            "INSERT INTO states (state, last_updated_ts, attributes_id, metadata_id) "
            "SELECT '5', ?, max(attributes_id), 1 FROM state_attributes",
            (MONDAY + 60,),
        )
    recorder.close()
    source = HomeAssistant(path)
    assert len(source) == 2 + 1440 + 1  # a day of silence, not a year of it
    assert source.names[3:] == [TARGET, "sensor.far", "sensor.odd"]
    endless = tmp_path / "endless.db"
    database = sqlite3.connect(endless)
    database.executescript(
        "CREATE TABLE states_meta (metadata_id INTEGER PRIMARY KEY, entity_id TEXT);"
        "CREATE VIEW states AS WITH RECURSIVE t(state_id) AS (SELECT 1 UNION ALL SELECT 1 FROM t) "
        "SELECT state_id, 'a' AS state, 1 AS metadata_id, 1.0 AS last_updated_ts FROM t"
    )
    database.close()
    assert not HomeAssistant.is_recorder(endless)
    (tmp_path / "cut.db").write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(SourceError, match=r"cannot read .*cut\.db: "):
        HomeAssistant(tmp_path / "cut.db")


def test_what_is_wrong_is_said_in_a_sentence(house: Path, tmp_path: Path) -> None:
    for options, said in (
        (
            {"target": "sensor.nose"},
            "has no entity 'sensor.nose'; it has binary_sensor.bath_motion",
        ),
        ({"target": f"{TARGET}.nose"}, "has no attribute .* that ever changes"),
        ({"columns": ["nose.*"]}, "columns has 'nose.*', but .* has no such entity; it has"),
        ({"every": 0.5}, "every must be from 1 to 86400 seconds, got 0.5"),
    ):
        with pytest.raises(SourceError, match=said):
            HomeAssistant(house, **options)  # type: ignore[arg-type]
    Recorder(tmp_path / "empty.db").close()
    with pytest.raises(SourceError, match="has no state to make a row of"):
        HomeAssistant(tmp_path / "empty.db")
    before = set(os.listdir(os.environ.get("TMPDIR", "/tmp")))
    with pytest.raises(SourceError, match=r"cannot read .*gone"):
        HomeAssistant(tmp_path / "gone.db")
    left = set(os.listdir(os.environ.get("TMPDIR", "/tmp"))) - before
    assert not [name for name in left if name.startswith("edgeforest-")]


def test_train_reads_it_in_the_zone_of_the_house(house: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "edgeforest", "train", str(house), "--target", TARGET]
    zone = {**os.environ, "TZ": "XYZ-2"}  # two hours ahead of UTC

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, "--trees", "5", *more],
            cwd=tmp_path,
            env=zone,
            capture_output=True,
            text=True,
        )

    done = run("--columns", "sensor.kitchen_*,light.*", "--every", "2min", "--out", "model.json")
    assert done.returncode == 0, done.stderr
    assert "1,439 rows, 11 features" in done.stdout
    assert "time.hour, time.weekday" in done.stdout
    assert re.search(r"score .* over .*2024-0[45]", done.stdout)  # of time: not rows at random
    done = run("--table", "states")
    assert f"no column '{TARGET}'" in done.stderr
    code = "from edgeforest.sources import open_source; print(open_source('h.db').read([0])[:3])"
    (tmp_path / "h.db").write_bytes(house.read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=zone, capture_output=True, text=True
    )
    assert done.stdout.startswith("[['2024-04-29T02:01:00+02:00'], [2.01"), done.stderr
    assert isinstance(open_source(house, table_or_query="states"), SQLite)


def test_payloads_are_read_as_devices_send_them() -> None:
    zigbee = parsed(
        b'{"occupancy":true,"temperature":21.3,"last_seen":"2024-04-29T00:00:00+00:00"}'
    )
    assert (number(found(zigbee, "occupancy")), found(zigbee, "temperature")) == (1.0, 21.3)
    assert moment(zigbee) == MONDAY
    tasmota = parsed(
        b'{"Time":"2024-04-29T00:00:00Z","DS18B20-1":{"Temperature":21.3},"a.b":{"c":1}}'
    )
    assert found(tasmota, "DS18B20-1.Temperature") == 21.3
    assert found(tasmota, "a.b.c") == 1
    assert parsed(b" ON \n") == "ON"
    assert parsed(b"21.5") == 21.5
    assert parsed(b'"heat"') == "heat"
    assert number(parsed(b"9" * 5000)) is None
    for payload in (b"\xff\xfe", b"{", b"[" * 60000, b"x" * 70000):
        with pytest.raises(ValueError, match="it"):
            parsed(payload)
    assert [state(v) for v in ("1_000", "inf", "Infinity-War", " 7 ", None, {"a": 1})] == [
        *("1_000", None, "Infinity-War", 7.0, None, None)
    ]
    assert [word(v) for v in (True, 1, 1.5, "x" * 300, "\x1b[2J", [], "None")] == [
        *("on", "1", "1.5", None, None, None, None)
    ]


def test_last_known_values_agree_with_a_search_through_all_of_them() -> None:
    rng = random.Random(3)
    known, said = LastKnown(3, keep=1000), []
    for k in range(900):
        sensor, at = rng.randrange(3), rng.randrange(500)
        said.append((at, k, sensor, k))
        latest = max((a for a, _, s, _ in said[:-1] if s == sensor), default=-1)
        assert known.put(sensor, k, at) == (at >= latest)
    for at in range(-1, 501, 7):
        row = [
            max(
                ((a, k, v) for a, k, s, v in said if s == sensor and a <= at), default=(0, 0, None)
            )[2]
            for sensor in range(3)
        ]
        assert known.row(at) == row
    small = LastKnown(1, keep=10)
    for k in range(1000):
        small.put(0, k, k)
    assert small.begin > 900
    assert small.row(999) == [999]
