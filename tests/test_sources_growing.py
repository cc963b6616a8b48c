"""Logs that grow while they are read: a source has the rows that were there when it was opened."""

import gzip
import json
import os
import random
import sqlite3
import sys

import numpy as np
import pytest

from edgeforest.sources import CSV, Lines, Rest, SourceError, Stream, Table, open_source, pack
from edgeforest.sources.base import First
from edgeforest.sources.line_index import LineIndex

ROWS = 900


def row(i):
    return {"temp": round(18 + i * 7 % 13 / 2, 1), "room": "hall" if i % 3 else "cellar", "n": i}


def csv(rows, first=False):
    head = "temp,room,n\n" if first else ""
    return head + "".join("{temp},{room},{n}\n".format(**row(i)) for i in rows)


def jsonl(rows, first=False):
    return "".join(json.dumps(row(i)) + "\n" for i in rows)


def influx(rows, first=False):
    return "".join("air,room={room} temp={temp},n={n}i\n".format(**row(i)) for i in rows)


def append_text(write):
    def append(path, rows):
        with open(path, "ab") as stream:
            stream.write(write(rows, first=not stream.tell()).encode())

    return append


def append_gzip(path, rows):
    with open(path, "ab") as stream:
        stream.write(gzip.compress(csv(rows, first=not stream.tell()).encode()))


def append_sqlite(path, rows):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE IF NOT EXISTS log (temp REAL, room TEXT, n INTEGER)")
        database.executemany("INSERT INTO log VALUES (:temp, :room, :n)", map(row, rows))
    database.close()


def append_npy(path, rows):
    """Append as libraries do: more rows, and a header of the same length."""
    data = np.array([[row(i)["temp"], row(i)["n"]] for i in rows], "f4")
    before = np.load(path) if os.path.exists(path) and os.path.getsize(path) else data[:0]
    with open(path, "r+b" if len(before) else "wb") as stream:
        header = {"descr": "<f4", "fortran_order": False}
        header["shape"] = (len(before) + len(data), 2)
        np.lib.format.write_array_header_1_0(stream, header)
        stream.seek(0, 2)
        stream.write(data.tobytes())


KINDS = {
    "log.csv": append_text(csv),
    "log.jsonl": append_text(jsonl),
    "log.lp": append_text(influx),
    "log.csv.gz": append_gzip,
    "log.db": append_sqlite,
    "log.npy": append_npy,
}


def rows_of(source):
    return [list(map(str, values)) for values in source]


@pytest.fixture(params=KINDS)
def log(request, tmp_path):
    """The path of a log, and a function that appends rows to it."""
    path = tmp_path / request.param
    append = KINDS[request.param]
    append(path, range(ROWS))
    return path, lambda rows: append(path, rows)


# ---- While it is open


def test_rows_that_are_appended_are_not_seen(log):
    path, append = log
    with open_source(path) as source, open_source(path) as closed:
        before = rows_of(source)
        closed.close()
        append(range(ROWS, ROWS + 50))
        for each in (source, closed):
            each.check()
            assert len(each) == ROWS
            assert rows_of(each) == before
            with pytest.raises(SourceError):
                each.read([ROWS])
    with open_source(path) as again:
        assert len(again) == ROWS + 50
        assert rows_of(again)[:ROWS] == before


def test_a_log_that_grows_with_every_read(log):
    path, append = log
    with open_source(path) as source:
        expected = rows_of(source)
        for i in range(30):
            append([ROWS + i])
            rows = random.Random(i).sample(range(ROWS), 40)
            rows.sort()
            found = [list(map(str, values)) for values in zip(*source.read(rows), strict=True)]
            assert found == [expected[k] for k in rows]


def test_a_log_that_is_replaced_or_cut_short(log, tmp_path):
    path, append = log
    fresh = path.parent / "other"
    fresh.mkdir()
    whole = path.read_bytes()
    with open_source(path) as source:
        path.rename(path.with_suffix(".1"))  # logrotate: between these two it is gone
        with pytest.raises(SourceError, match="is gone since it was opened; put it back"):
            source.check()
        append(range(5000, 5000 + 2 * ROWS))
        with pytest.raises(SourceError, match="was replaced by another file since it was opened"):
            source.read([1])
    path.write_bytes(whole)
    if path.suffix == ".db":
        return  # what cuts a database short breaks it
    with open_source(path) as source:
        os.truncate(path, 0)  # logrotate's copytruncate
        with pytest.raises(SourceError, match=r"shrank from .* bytes since it was opened"):
            source.read([1])
        append(range(5000, 5000 + 4 * ROWS))  # it is longer than before
        with pytest.raises(SourceError, match="was rewritten since it was opened; open it again"):
            source.read([1])


def test_a_log_that_grows_while_it_is_indexed(tmp_path, monkeypatch):
    monkeypatch.setattr(Lines, "keep_from", 0)
    monkeypatch.setattr("edgeforest.sources.line_index.BLOCK", 4096)
    path = tmp_path / "log.csv"
    KINDS["log.csv"](path, range(2000))
    late = iter(range(2000, 9000))
    with CSV(path, progress=lambda *_: KINDS["log.csv"](path, [next(late)])) as source:
        assert len(source) == 2000
        assert source.read([1999])[2] == ["1999"]
    more = next(late)
    with CSV(path) as source:
        assert len(source) == more
        assert source.read(range(more))[2] == [str(i) for i in range(more)]


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.lp"])
def test_a_last_line_that_is_half_written_is_left_out(name, tmp_path):
    path = tmp_path / name
    KINDS[name](path, range(20))
    whole = path.read_bytes()
    KINDS[name](path, [20])
    longer = path.read_bytes()
    left_out = taken = 0
    for end in range(len(whole) + 1, len(longer) + 1):
        path.write_bytes(longer[:end])
        with open_source(path) as source:
            rows = rows_of(source)
            left_out += len(rows) == 20
            taken += len(rows) == 21
            assert len(source) == len(rows)
            assert len(source.complaints) == (len(rows) == 20)
        if len(rows) == 20:
            [(place, why)] = source.complaints
            assert place == f"line {21 + (name == 'log.csv')}"
            assert why == "is left out: it has no line end and is half-written"
            assert source.bad == 0
    assert left_out >= 9
    assert taken >= 2, "the complete line needs no line end"
    path.write_bytes(whole + b"\0\0\0\0")  # as a power cut leaves it
    with open_source(path) as source:
        assert len(source) == 20


def test_an_open_quote_over_many_lines_is_not_half_a_line(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("a,b\n1,2\n3,4\n" + '"5,6\n' + "7,8\n" * 50 + "9,9")
    with pytest.raises(SourceError, match=r"line 4 of .* opens a quote that is never closed"):
        CSV(path)
    path.write_text("a,b\n1,2\n3,4\n" + '5,"6')
    with CSV(path) as source:
        assert len(source) == 2


# ---- The index


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.csv.gz"])
def test_the_index_of_a_log_that_grew_is_continued(name, tmp_path, monkeypatch):
    monkeypatch.setattr(Lines, "keep_from", 0)
    path = tmp_path / name
    note = LineIndex._note
    read = []

    def counted(self, base, block, masked, cut, *rest):
        read.append(cut)
        return note(self, base, block, masked, cut, *rest)

    monkeypatch.setattr(LineIndex, "_note", counted)
    for begin in range(0, 40_000, 4000):
        KINDS[name](path, range(begin, begin + 4000))
        read.clear()
        with open_source(path) as source:
            assert len(source) == begin + 4000
            assert source.read([0, begin, begin + 3999])[2] == type(source.read([0])[2])(
                [v if name == "log.jsonl" else str(v) for v in (0, begin, begin + 3999)]
            )
            assert sum(read) < 8192 + source.file.size / (1 + begin // 4000) * 1.6
            extent = source.extent()
        monkeypatch.setattr(Lines, "keep_from", 1 << 40)
        with open_source(path) as fresh:
            assert fresh.extent() == extent
            assert fresh.line(begin + 3000) == source.line(begin + 3000)
        monkeypatch.setattr(Lines, "keep_from", 0)


def test_the_index_of_a_log_that_ended_in_half_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(Lines, "keep_from", 0)
    rng = random.Random(1)
    lines = ["a,b"]
    for i in range(2000):
        cell = f"{i}" if rng.random() < 0.8 else f'"{i}\n{rng.choice(["x", "#", ""])}"'
        lines += [""] * (rng.random() < 0.1) + [f"{i},{cell}"]
    data = ("\n".join(lines) + "\n").encode()
    path = tmp_path / "log.csv"
    end = 5000
    while end < len(data):
        path.write_bytes(data[:end])
        with CSV(path, max_bad=1) as source:
            rows = source.read(range(len(source)))
        (tmp_path / "plain.csv").write_bytes(data[:end])
        with CSV(tmp_path / "plain.csv", max_bad=1) as plain:
            assert plain.read(range(len(plain))) == rows
        (tmp_path / "plain.csv.efidx").unlink()
        end += rng.randrange(1, 3000)


# ---- Rows that were there before


def test_the_first_rows_are_the_source_as_it_was(log):
    path, append = log
    with open_source(path) as source:
        before, extent = rows_of(source), json.loads(json.dumps(source.extent()))
        names = source.names
        assert source.first(extent) is source
    assert extent["rows"] == ROWS
    assert str(path.parent) not in json.dumps(extent), "a model may be given away"
    append(range(ROWS, 2 * ROWS))
    with open_source(path) as source:
        then = source.first(extent)
        assert len(source) == 2 * ROWS
        assert len(then) == ROWS
        assert (then.names, rows_of(then)) == (names, before)
        assert then.extent() == extent
        assert then.first(extent) is then
        assert then.first(source.extent()) is None


def test_other_rows_are_not_the_first_ones(log):
    path, append = log
    with open_source(path) as source:
        extent = source.extent()
    path.unlink()
    append(range(5, ROWS * 2))
    with open_source(path) as source:
        assert source.first(extent) is None
    path.unlink()
    append(range(ROWS // 2))
    with open_source(path) as source:
        assert source.first(extent) is None, "some are gone"


@pytest.mark.parametrize("name", ["log.csv", "log.db", "log.npy"])
def test_one_value_that_was_changed_is_found(name, tmp_path):
    path = tmp_path / name
    KINDS[name](path, range(ROWS))
    with open_source(path) as source:
        extent = source.extent()
    KINDS[name](path, range(ROWS, ROWS + 9))
    if name == "log.db":
        with sqlite3.connect(path) as database:
            database.execute("UPDATE log SET temp = 99 WHERE n = 400")
        database.close()
    else:
        data = bytearray(path.read_bytes())
        at = data.index(b"hall,400\n") + 6 if name == "log.csv" else len(data) // 2
        data[at] ^= 1
        path.write_bytes(data)
    with open_source(path) as source:
        assert source.first(extent) is None


def test_columns_that_came_later_are_not_there_yet(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n' * 50)
    with open_source(path) as source:
        extent = source.extent()
    with open(path, "a") as stream:
        stream.write('{"a": 1, "b": 2}\n' * 50)
    with open_source(path) as source:
        assert source.names == ["a", "b"]
        assert source.first(extent).names == ["a"]


def test_several_logs_that_grow_and_become_more(tmp_path):
    for name in ("hall.csv", "loft.csv"):
        KINDS["log.csv"](tmp_path / name, range(100))
    pattern = str(tmp_path / "*.csv")
    with open_source(pattern) as source:
        before, extent = rows_of(source), json.loads(json.dumps(source.extent()))
        assert source.first(extent) is source
        for name in ("hall.csv", "attic.csv", "kitchen.csv", "loft.csv"):
            KINDS["log.csv"](tmp_path / name, range(200, 230))
        assert rows_of(source) == before
    with open_source(pattern) as source:
        assert len(source) == 320
        then = source.first(extent)
        assert rows_of(then) == before
        assert then.extent() == extent
    (tmp_path / "hall.csv").unlink()
    with open_source(pattern) as source:
        assert source.first(extent) is None


def test_views_of_logs_that_grow(tmp_path):
    path = tmp_path / "log.csv"
    dates = ["time", "time.hour"]
    path.write_text("time,n\n" + "".join(f"2024-05-01 {i % 24:02}:30,{i}\n" for i in range(100)))
    with open_source(path, dates=dates) as dated:
        before, extent = rows_of(dated), dated.extent()
    with open(path, "a") as stream:
        stream.writelines(f"2024-05-02 {i % 24:02}:30,{i}\n" for i in range(50))
    with open_source(path, dates=dates) as dated:
        assert rows_of(dated.first(extent)) == before
        assert Rest(dated, [1, 2]).first(extent) is None, "who knows which rows to leave out"
        rest = Rest(dated, [1, 2])
        assert rest.first(rest.extent()) is rest


def test_rows_in_memory():
    columns = {"a": list(range(500)), "b": ["u" if i % 2 else None for i in range(500)]}
    extent = Table(columns).extent()
    assert extent["place"] == ""
    longer = {name: values * 2 for name, values in columns.items()}
    source = Table(longer)
    assert isinstance(source.first(extent), First)
    assert rows_of(source.first(extent)) == rows_of(Table(columns))
    longer["a"][250] += 1
    assert source.first(extent) is None
    rows = [[1.5, "x"], [2.5, "y"]]
    assert Table(rows).first(Table([*rows, [3.5, "z"]]).extent()) is None
    assert Table([*rows, [3.5, "z"]]).first(Table(rows).extent()) is not None
    array = np.arange(12.0).reshape(6, 2)
    assert len(Table(array).first(Table(array[:4]).extent())) == 4
    stream = Stream(iter(rows), 10)
    assert stream.first(Stream(iter(rows), 10).extent()) is stream


def test_words_that_are_shared_have_the_same_checksum():
    word = "".join(["in", "side"])
    one, two = (
        Table({"a": [word, word]}),
        Table({"a": [sys.intern(str(word)), "".join(["insi", "de"])]}),
    )
    assert one.extent() == two.extent()


def test_a_packed_log(tmp_path):
    pack(Table({"a": [1, 2, 3], "b": ["u", "v", "u"]}), tmp_path / "log.npy").close()
    with open_source(tmp_path / "log.npy") as source:
        extent = source.extent()
        assert source.first(extent) is source


def test_parquet_files_are_joined_as_they_come(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    for day in range(2):
        table = arrow.table({"a": list(range(day, day + 50)), "b": ["u"] * 50})
        parquet.write_table(table, tmp_path / f"{day}.parquet")
        with open_source(str(tmp_path / "*.parquet")) as source:
            if day == 0:
                before, extent = rows_of(source), source.extent()
            else:
                assert rows_of(source.first(extent)) == before
