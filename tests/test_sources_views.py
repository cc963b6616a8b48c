"""Dates as numbers, and all rows but some."""

import json
import sqlite3
from array import array
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edgeforest
from edgeforest.sources import Dated, Rest, SourceError, Table, open_source, pack
from edgeforest.sources.schema import look


def put(folder, text, name="log.csv"):
    path = folder / name
    path.write_text(text)
    return str(path)


MOMENTS = st.datetimes(
    datetime(1, 1, 2),
    datetime(9999, 12, 30),
    timezones=st.none() | st.integers(-840, 840).map(lambda m: timezone(timedelta(minutes=m))),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(MOMENTS, min_size=1, max_size=5), st.sampled_from("T "))
def test_dates_are_seconds_as_the_datetime_module_has_them(moments, sign):
    table = Table({"t": [moment.isoformat(sign) for moment in moments]})
    seconds, hours, days = Dated(table, ["t", "t.hour", "t.weekday"]).read(range(len(moments)))
    aware = [m if m.tzinfo else m.replace(tzinfo=UTC) for m in moments]
    assert seconds == array("d", [m.timestamp() for m in aware])
    assert list(days) == [m.weekday() for m in moments]
    for moment, hour in zip(moments, hours, strict=True):
        clock = timedelta(hours=moment.hour, minutes=moment.minute, seconds=moment.second)
        assert hour == pytest.approx(clock / timedelta(hours=1))
        assert 0 <= hour < 24


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("2024-05-01", None, 1714521600),
        ("20240501", None, 1714521600),
        ("2024-05-01 18:30:00", None, 1714588200),
        ("2024-05-01T18:30Z", None, 1714588200),
        ("2024-05-01T20:30:00.5+02:00", None, 1714588200.5),
        ("01.05.2024 18:30", "%d.%m.%Y %H:%M", 1714588200),
        ("05/01/24", "%m/%d/%y", 1714521600),
        ("2024-05-01 20:30 +0200", "%Y-%m-%d %H:%M %z", 1714588200),
        ("1714588200", None, 1714588200),
        (1714588200.25, None, 1714588200.25),
    ],
)
def test_ways_to_write_a_date(text, form, expected):
    source = open_source({"when": [text, None]}, dates={"when": form})
    seconds = source.read([0, 1])[0]
    assert seconds[0] == expected
    assert seconds[1] != seconds[1], "missing"


def test_dates_of_every_kind_of_file(tmp_path):
    times = ["2024-05-01 18:30:00", "2024-05-02 06:15:00"]
    database = sqlite3.connect(tmp_path / "log.db")
    database.execute("CREATE TABLE log (time TEXT, y REAL)")
    database.executemany("INSERT INTO log VALUES (?, ?)", [(t, 1.5) for t in times])
    database.commit()
    database.close()
    lines = "".join(json.dumps({"time": t, "y": 1.5}) + "\n" for t in times)
    rows = "".join(f"{t};1,5\n" for t in times)
    paths = [
        put(tmp_path, "time;y\n" + rows),
        put(tmp_path, lines, "log.jsonl"),
        str(tmp_path / "log.db"),
    ]
    for path in paths:
        with open_source(path, dates=["time", "time.hour"]) as source:
            assert source.names == ["time", "y", "time.hour"]
            seconds, _, hours = source.read([0, 1])
            assert (list(seconds), list(hours)) == ([1714588200, 1714630500], [18.5, 6.25])
            packed = pack(source, tmp_path / "log.npy")
            assert [list(column) for column in packed.read([0, 1])][1:] == [
                [1.5, 1.5],
                [18.5, 6.25],
            ]
            packed.close()
    with open_source([paths[0], put(tmp_path, "time;y\n" + rows, "b.csv")], dates="time") as both:
        assert list(both.read([1, 2])[0]) == [1714630500, 1714588200]


def test_a_date_that_cannot_be_read_is_a_bad_row(tmp_path):
    text = "# note\ntime,y\n2024-05-01,1\nyesterday,2\n\n,3\n2024-13-01,4\n5\n2024-05-03,6\n"
    path = put(tmp_path, text)
    with open_source(path, comment="#", dates=["time"]) as source:
        assert source.read([0, 2])[1] == ["1", "3"], "a missing date is no bad one"
        with pytest.raises(SourceError, match=r"^line 4 of .*log.csv has 'yesterday' in column"):
            source.read([1])
    with open_source(path, comment="#", dates=["time"], max_bad=3) as source:
        rows, block = source.read_kept(range(6))
        assert rows == [0, 2, 5]
        assert block[1] == ["1", "3", "6"]
        assert source.bad == 3
        assert {place for place, _ in source.complaints} == {"line 4", "line 7", "line 8"}
    other = put(tmp_path, "time,y\n2024-05-01,1\nnever,2\n", "other.csv")
    with pytest.raises(SourceError, match=r"^line 3 of .*other.csv has 'never' in column 'time'"):
        open_source([path, other], comment="#", dates="time").read([7])
    with open_source([path, other], comment="#", dates="time", max_bad=3) as both:
        assert both.read_kept(range(8))[0] == [0, 2, 5, 6]


@pytest.mark.parametrize(
    ("dates", "words"),
    [
        (["when"], "dates names column 'when', which is not in "),
        (["time.minute"], "dates names column 'time.minute', which is not in "),
        (
            {"time": "dd.mm.yyyy"},
            "dates must have a format such as '%d.%m.%Y %H:%M', got 'dd.mm.yyyy'",
        ),
        ({"time": "%Q"}, "dates must have a format such as '%d.%m.%Y %H:%M', got '%Q'"),
        ({"time": ""}, "dates must have a format such as '%d.%m.%Y %H:%M', got ''"),
    ],
)
def test_dates_that_are_refused(tmp_path, dates, words):
    with pytest.raises(SourceError) as error:
        open_source(put(tmp_path, "time,y\n2024-05-01,1\n"), dates=dates)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_forest_learns_from_the_hour_of_the_day(tmp_path):
    begin = datetime(2024, 5, 1)
    times = [begin + timedelta(minutes=17 * i) for i in range(900)]
    lines = [f"{t:%d.%m.%Y %H:%M},{'day' if 8 <= t.hour < 20 else 'night'}" for t in times]
    path = put(tmp_path, "\n".join(["time,y", *lines]))
    source = open_source(path, dates={"time.hour": "%d.%m.%Y %H:%M"}, max_bad=0)
    schema = look(source, "y", edgeforest.Rng(0))
    assert schema.names == ["time.hour"]
    assert schema.left_out == [("time", "text, 900 distinct values")]
    forest = edgeforest.train(source, "y", n_trees=5)
    assert forest.predict([[12.5], [3.0], [23.0], [19.0]]) == ["day", "night", "night", "day"]


# ---- All rows but some


@settings(max_examples=50, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=40), st.data())
def test_the_rest_is_every_row_that_is_not_left_out(kept, data):
    table = Table({"n": list(range(len(kept)))})
    rest = Rest(table, [i for i, keep in enumerate(kept) if not keep])
    expected = [i for i, keep in enumerate(kept) if keep]
    assert len(rest) == len(expected)
    some = sorted(data.draw(st.sets(st.integers(0, len(expected) - 1)))) if expected else []
    assert rest.read(some)[0] == [expected[i] for i in some]
    assert [rest.where(i) for i in some] == [f"row {expected[i]} of the source" for i in some]


def test_the_rest_of_a_file_with_bad_rows(tmp_path):
    path = put(tmp_path, "a,b\n0,0\n1\n2,2\n3\n4,4\n5,5\n")
    with Rest(open_source(path, max_bad=2), [0, 4]) as rest:
        assert len(rest) == 4
        rows, block = rest.read_kept(range(4))
        assert (list(rows), block[0]) == ([1, 3], ["2", "5"])
        assert rest.bad == 2
        assert rest.where(1) == f"line 4 of {path}"
    with Rest(open_source(path), [0]) as rest:
        with pytest.raises(SourceError, match="line 3 of"):
            rest.read(range(3))
        path2 = put(tmp_path, "a,b\n")
        assert path2 == path
        with pytest.raises(SourceError, match="shrank"):
            rest.check()
