"""Binary sources, against NumPy, sqlite3 and pyarrow; joined, streamed and packed sources."""

from __future__ import annotations

import io
import json
import math
import os
import random
import sqlite3
import subprocess
import sys
import tracemalloc
import warnings
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgeforest.core_pure import Rng
from edgeforest.sources import (
    Joined,
    NpyFile,
    Packed,
    Parquet,
    Source,
    SourceError,
    SQLite,
    Stream,
    Table,
    npy,
    pack,
    packing,
    parquet,
    stream,
)

HERE = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def same(found: Sequence[Any], expected: Any) -> None:
    """The same values in the same columns; NaN is NaN."""
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        theirs = theirs.tolist() if hasattr(theirs, "tolist") else list(theirs)
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            assert type(a) in (int, float, str, type(None))
            assert a == b or (a != a and b != b), (a, b)


def some_rows(n: int, draw: Callable[[Any], Any]) -> list[int]:
    return sorted(draw(st.sets(st.integers(0, n - 1), max_size=60)))


def sentence(error: pytest.ExceptionInfo[SourceError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert "Traceback" not in text
    assert error.value.__cause__ is None
    return text


# ---- NpyFile, against np.load

KINDS = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"]
dtypes = st.builds(lambda order, kind: np.dtype(order + kind), st.sampled_from("<>"), st.sampled_from(KINDS))  # fmt: skip


@HERE
@given(st.data())
def test_tables_of_every_kind(tmp_path: Path, data: st.DataObject) -> None:
    dtype = data.draw(dtypes)
    shape = data.draw(st.tuples(st.integers(1, 30), st.integers(1, 6)))
    values = data.draw(hnp.arrays(dtype, shape))
    if data.draw(st.booleans()):
        values = np.asfortranarray(values)
    version = data.draw(st.sampled_from([(1, 0), (2, 0), (3, 0)]))
    path = tmp_path / "a.npy"
    with open(path, "wb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.lib.format.write_array(file, values, version=version)
    expected = np.load(path)
    source = NpyFile(path)
    assert (len(source), source.names) == (shape[0], [f"x{f}" for f in range(shape[1])])
    same(source.read(range(shape[0])), expected.T)
    rows = some_rows(shape[0], data.draw)
    same(source.read(rows), expected[rows].T)
    for column in source.read(rows):
        assert isinstance(column, array)
        if dtype.itemsize != 2 or dtype.kind != "f":
            assert column.itemsize == dtype.itemsize


@HERE
@given(st.data())
def test_records_of_every_kind(tmp_path: Path, data: st.DataObject) -> None:
    kinds = st.one_of(dtypes, st.sampled_from([np.dtype("<U3"), np.dtype(">U2"), np.dtype("S4")]))
    names = data.draw(
        st.lists(st.text("abcäλ \"'[", min_size=1), min_size=1, max_size=5, unique=True)
    )
    record = np.dtype([(name, data.draw(kinds)) for name in names], align=data.draw(st.booleans()))
    n = data.draw(st.integers(1, 20))
    values = np.zeros(n, record)
    for name in names:
        field = record[name]
        if field.kind == "U":
            text = st.text("aβ😀 ", max_size=field.itemsize // 4)
            values[name] = data.draw(st.lists(text, min_size=n, max_size=n))
        elif field.kind == "S":
            raw = st.text("aβ ", max_size=2).map(str.encode)
            values[name] = data.draw(st.lists(raw, min_size=n, max_size=n))
        else:
            values[name] = data.draw(hnp.arrays(field, n))
    path = tmp_path / "a.npy"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.save(path, values)
    expected = np.load(path)
    source = NpyFile(path)
    assert source.names == names
    for rows in (list(range(n)), some_rows(n, data.draw)):
        columns = [expected[name][rows] for name in names]
        texts = [
            [v.decode() for v in column.tolist()] if column.dtype.kind == "S" else column
            for column in columns
        ]
        same(source.read(rows), texts)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("block", [100, 5000, 1 << 20])
def test_neighbours_gaps_and_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: Any, block: int
) -> None:
    monkeypatch.setattr(npy, "BLOCK", block)
    values = np.random.default_rng(1).normal(size=(20_000, 3)).astype("f4", order=order)
    np.save(tmp_path / "a.npy", values)
    source = NpyFile(tmp_path / "a.npy")
    draw = random.Random(5)
    for count in (1, 2, 30, 3000, 19_999):
        rows = sorted(draw.sample(range(20_000), count))
        found = source.read(rows)
        assert np.array_equal(np.array(found), values[rows].T)
        assert np.array_equal(np.array(source.read(np.array(rows))), values[rows].T)  # type: ignore[arg-type]
    for some in (range(0), range(7, 9000), range(0, 20_000, 7)):
        assert np.array_equal(np.array(source.read(some)), values[list(some)].T)
    source.close()
    assert source.read([5])[1][0] == values[5, 1]
    assert np.array_equal(np.array(list(source)), values)
    assert len(source.sample(50, Rng(1))[0]) == 50


def test_few_reads_for_rows_that_are_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", np.zeros((50_000, 4)))
    source = NpyFile(tmp_path / "a.npy")
    reads: list[int] = []
    real = npy.read_at

    def counted(file: Any, at: int, count: int) -> bytes:
        reads.append(count)
        return real(file, at, count)

    monkeypatch.setattr(npy, "read_at", counted)
    for rows, count in (
        (range(1000), 1),
        ([0, 1, 2, 3, 40_000, 40_001], 2),
        (list(range(0, 3000, 50)), 1),  # gaps of 1,600 bytes
        (list(range(0, 50_000, 1000)), 50),
    ):
        reads.clear()
        source.read(rows)
        assert len(reads) == count, rows


def test_names_and_rows_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((5, 2)))
    assert NpyFile(path, names=["a", "b"]).names == ["a", "b"]
    with pytest.raises(SourceError, match=r"a.npy has 2 columns, but 3 names are given"):
        NpyFile(path, names=["a", "b", "c"])
    for rows, words in (
        ([5], "has no row 5; it has 5 rows"),
        ([-1, 2], "has no row -1; it has 5 rows"),
        ([2, 1], "ascending"),
        ([1, 1], "ascending"),
        (range(3, 0, -1), "ascending"),
    ):
        with pytest.raises(SourceError, match=words) as error:
            NpyFile(path).read(rows)
        sentence(error)


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"

    def fresh() -> NpyFile:
        np.save(path, np.arange(2000.0).reshape(1000, 2))
        source = NpyFile(path)
        source.read([3])
        source.check()
        return source

    def rewrite() -> None:
        np.save(path, np.zeros((1000, 2)))

    def replace() -> None:
        np.save(tmp_path / "b.npy", np.zeros((1000, 2)))
        os.replace(tmp_path / "b.npy", path)

    for change, said in (
        (rewrite, "was rewritten since it was opened; open it again"),
        (replace, "was replaced by another file since it was opened; open it again"),
        (lambda: os.truncate(path, 500), "shrank from 16,128 to 500 bytes since it was opened"),
        (lambda: os.remove(path), "is gone since it was opened; put it back"),
    ):
        source = fresh()
        change()
        for use in (source.check, lambda source=source: source.read([1])):
            with pytest.raises(SourceError, match=said):
                use()
    source = fresh()
    os.utime(path, ns=(1, 1))
    source.check()


def test_a_file_that_shrinks_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((1000, 2)))
    source = NpyFile(path)
    monkeypatch.setattr(NpyFile, "check", lambda self: None)  # it happens just after
    os.truncate(path, 5000)
    with pytest.raises(SourceError, match=r"a\.npy is cut short; copy it again"):
        source.read(range(1000))


def saved(values: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def made(header: str, data: bytes = bytes(4000), version: int = 1) -> bytes:
    body = header.encode()
    size = 2 if version == 1 else 4
    return b"\x93NUMPY" + bytes([version, 0]) + len(body).to_bytes(size, "little") + body + data


def about(descr: str, shape: str = "(3, 2)", order: str = "False") -> bytes:
    return made(f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}\n")


REFUSED = {
    "nothing": (b"", "too short"),
    "other magic": (b"\x89PNG" + bytes(99), "does not begin as one"),
    "other version": (b"\x93NUMPY\x09\x00" + bytes(99), "its version is 9"),
    "objects": (saved(np.array([[1, "a"]], object)), "holds Python objects"),
    "objects in records": (saved(np.zeros(3, [("a", "O")])), "field 'a' holds Python objects"),
    "complex": (saved(np.zeros((3, 2), "c8")), "holds values of kind '<c8'"),
    "dates": (saved(np.zeros((3, 2), "M8[s]")), r"holds values of kind '<M8\[s\]'"),
    "long doubles": (saved(np.zeros((3, 2), "g")), "holds values of kind"),
    "one dimension": (saved(np.zeros(3)), "it has 1 dimension, expected 2"),
    "three dimensions": (saved(np.zeros((3, 2, 1))), "it has 3 dimensions"),
    "records in two": (saved(np.zeros((3, 2), [("a", "f4")])), "must be in one dimension"),
    "arrays in records": (saved(np.zeros(3, [("a", "f4", (2,))])), "more than one value"),
    "records in records": (saved(np.zeros(3, [("a", [("b", "f4")])])), "more than one value"),
    "no rows": (saved(np.zeros((0, 2))), "is empty"),
    "no columns": (saved(np.zeros((2, 0))), "is empty"),
    "cut short": (saved(np.zeros((30, 2)))[:-1], "cut short"),
    "cut in the header": (saved(np.zeros((30, 2)))[:50], "cut short"),
    "cut before the header": (b"\x93NUMPY\x02\x00\x01\x00", "cut short"),
    "huge shape": (about("'<f8'", "(10**9, 2)"), "damaged"),
    "large shape": (about("'<f8'", "(99999999999999999999999, 2)"), "cut short"),
    "many columns": (about("'<f8'", "(1, 99999999999)"), "columns, at most 1048576 are allowed"),
    "negative shape": (about("'<f8'", "(-3, 2)"), "no valid shape"),
    "truth as shape": (about("'<f8'", "(True, 2)"), "no valid shape"),
    "list as shape": (about("'<f8'", "[3, 2]"), "no valid shape"),
    "no order": (about("'<f8'", order="2"), "in which order"),
    "code": (about("__import__('os').system('touch executed')"), "damaged"),
    "a number": (made("7"), "damaged"),
    "not closed": (made("{'descr': '<f8'"), "damaged"),
    "nothing in it": (made("{}"), "damaged"),
    "no text": (b"\x93NUMPY\x03\x00\x04\x00\x00\x00\xff\xff\xff\xff" + bytes(9), "damaged"),
    "deep": (made("[" * 5000), "damaged"),
    "deep minus": (made("-" * 60_000 + "1"), "damaged"),
    "deep plus": (made("1" + "+1" * 30_000), "damaged"),
    "long header": (made("7" * (1 << 21), version=2), "its header has 2097152 bytes"),
    "fields": (about("[('a', '<f4'), 7]", "(3,)"), "no valid list of fields"),
    "no name": (about("[(7, '<f4')]", "(3,)"), "has no name"),
    "a name twice": (about("[('a', '<f4'), ('a', '<f4')]", "(3,)"), "more than one field 'a'"),
    "no fields": (about("[]", "(3,)"), "is empty"),
    "no kind": (about("7"), "unknown kind"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "words"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_is_refused_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=words) as error:
        NpyFile(path)
    assert str(path) in sentence(error)
    assert os.listdir(tmp_path) == ["a.npy"]


def test_a_path_that_is_not_a_plain_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for ever
    for path, words in (
        (tmp_path, "it is a folder"),
        (tmp_path / "pipe", "it is not an ordinary file"),
        (tmp_path / "none", "no such file"),
        ("a\0b", "null"),
    ):
        with pytest.raises(SourceError, match=f"cannot read .*{words}") as error:
            NpyFile(path)
        sentence(error)


def test_thousands_of_damaged_files(tmp_path: Path) -> None:
    draw = random.Random(3)
    originals = [
        saved(np.arange(12, dtype="f4").reshape(4, 3)),
        saved(np.asfortranarray(np.arange(12).reshape(4, 3))),
        saved(np.zeros(5, [("temp", "<f4"), ("name", "<U3"), ("n", ">i8")])),
    ]
    letters = b"(){}[]'\",:<>|=+-0123456789abfiuUSVO \n\\\x00\x93"
    path = tmp_path / "a.npy"
    sentences: list[str] = []
    for turn in range(4000):
        content = bytearray(originals[turn % 3])
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(6, min(len(content), 128)) if len(content) > 7 else 0
            action = draw.randrange(4)
            if action == 0:
                content[at : at + 1] = bytes([draw.choice(letters)])
            elif action == 1:
                content[at : at + 1] = bytes([draw.randrange(256)])
            elif action == 2:
                content[at:at] = bytes(draw.choices(letters, k=draw.randint(1, 4)))
            else:
                del content[at : at + draw.randint(1, 9)]
        path.write_bytes(content)
        try:
            source = NpyFile(path)
            source.max_bad = 99
            columns = source.read(range(len(source)))
            assert {len(column) for column in columns} == {len(source) - source.bad}
        except SourceError as error:
            sentences.append(str(error))
    assert len(sentences) > 2000
    assert not any("\n" in text for text in sentences)


def test_bytes_that_are_not_text_are_a_bad_row(tmp_path: Path) -> None:
    values = np.zeros(5, [("n", "<i4"), ("text", "S2")])
    values["n"] = range(5)
    values["text"] = [b"a", b"\xff", b"b", b"\xfe", b""]
    np.save(tmp_path / "a.npy", values)
    source = NpyFile(tmp_path / "a.npy")
    with pytest.raises(SourceError, match=r"row 1 of .* holds bytes that are not text; fix it"):
        source.read(range(5))
    source = NpyFile(tmp_path / "a.npy")
    source.max_bad = 2
    assert source.read(range(5)) == [array("i", [0, 2, 4]), ["a", "b", ""]]
    assert (source.bad, source.complaints[0]) == (2, ("row 1", "holds bytes that are not text"))


LOW = """
import resource, sys
from array import array
from edgeforest.core_pure import Rng
from edgeforest.sources import NpyFile
source = NpyFile(sys.argv[1])
rng = Rng(1)
source.read([0])
def size():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = size() + (24 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
columns = source.sample(20_000, rng)
print(len(columns), {len(c) for c in columns}, {c.typecode for c in columns}, sum(columns[0]))
print(source.read([12_345, len(source) - 1])[2].tolist())
try:
    bytearray(32 << 20)
except MemoryError:
    print("the limit is on")
assert "numpy" not in sys.modules
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux's /proc")
@pytest.mark.parametrize("order", [False, True])
def test_scattered_rows_of_a_large_file_need_little_memory(tmp_path: Path, order: bool) -> None:
    n, m = 10_000_000, 10
    path = tmp_path / "large.npy"
    header = f"{{'descr': '<f4', 'fortran_order': {order}, 'shape': ({n}, {m}), }}"
    start = made(header.ljust(117) + "\n", b"")
    at = (2 * n + 12_345 if order else 12_345 * m + 2) * 4
    with open(path, "wb") as file:  # 400 MB, of which next to nothing is on the disk
        file.write(start)
        file.truncate(len(start) + 4 * n * m)
        file.seek(len(start) + at)
        file.write(array("f", [1.5]).tobytes())
    done = subprocess.run(
        [sys.executable, "-c", LOW, str(path)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    expected = "10 {20000} {'f'} 0.0\n[1.5, 0.0]\nthe limit is on\n"
    assert done.stdout == expected


# ---- SQLite, against sqlite3


def database(path: Path, *statements: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    return connection


MANY = (
    "CREATE TABLE log (temp REAL, window TEXT, n INTEGER)",
    "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 3000) INSERT INTO log "
    "SELECT CASE WHEN i % 7 THEN i * 0.5 END, 'w' || i % 3, i * 1000000007 FROM c",
)


@pytest.mark.parametrize("gaps", ["none", "few", "every other", "first", "negative"])
def test_a_table_by_rowid(tmp_path: Path, gaps: str) -> None:
    connection = database(tmp_path / "a.db", *MANY)
    connection.execute(
        {
            "none": "DELETE FROM log WHERE 0",
            "few": "DELETE FROM log WHERE rowid BETWEEN 100 AND 199 OR rowid IN (5, 900, 902, 2999)",
            "every other": "DELETE FROM log WHERE rowid % 2",
            "first": "DELETE FROM log WHERE rowid < 700",
            "negative": "UPDATE log SET rowid = -rowid * 3 WHERE rowid < 700",
        }[gaps]
    )
    connection.commit()
    expected = connection.execute("SELECT * FROM log ORDER BY rowid").fetchall()
    source = SQLite(tmp_path / "a.db", "LOG")
    assert (len(source), source.names) == (len(expected), ["temp", "window", "n"])
    assert (len(source._starts) == 1) == (gaps in ("none", "first"))
    draw = random.Random(1)
    chosen = [sorted(draw.sample(range(len(expected)), k)) for k in (1, 5, 499, 500, 501, 1200)]
    for rows in ([], [0], [len(expected) - 1], range(len(expected)), range(3, 900, 2), *chosen):
        found = source.read(rows)
        assert [tuple(row) for row in zip(*found, strict=True)] == [expected[i] for i in rows]
        assert len(found) == 3
    source.close()
    assert source.read([1])[2] == [expected[1][2]]
    assert list(map(tuple, source)) == expected


@pytest.mark.parametrize(
    "what",
    [
        "SELECT n % 10 AS digit, temp FROM log WHERE temp > 30 ORDER BY temp DESC;",
        "with x as (select * from log) select temp, window, temp from x",
        "VALUES (1, 'a'), (2, NULL)",
        "view of it",
        "keyed",
        "all taken",
    ],
)
def test_tables_without_rowids_are_copied_once(tmp_path: Path, what: str) -> None:
    connection = database(
        tmp_path / "a.db",
        *MANY,
        'CREATE VIEW "view of it" AS SELECT window, temp FROM log WHERE n % 2',
        "CREATE TABLE keyed (name TEXT PRIMARY KEY, x INTEGER) WITHOUT ROWID",
        "INSERT INTO keyed VALUES ('b', 2), ('a', 1), ('c', NULL)",
        "CREATE TABLE 'all taken' (rowid TEXT, _rowid_ TEXT, oid TEXT)",
        "INSERT INTO 'all taken' VALUES ('a', 'b', 'c'), ('d', 'e', 'f')",
    )
    query = (
        what if " " in what and not what.startswith(("view", "all")) else f'SELECT * FROM "{what}"'
    )
    expected = connection.execute(query).fetchall()
    source = SQLite(tmp_path / "a.db", what)
    assert len(source) == len(expected)
    assert list(map(tuple, source)) == expected
    connection.execute("DELETE FROM log")
    connection.commit()
    source.check()  # the copy stays what it was
    assert list(map(tuple, source)) == expected
    if "log" in what:
        source.close()
        with pytest.raises(SourceError, match="was changed while it was used"):
            source.read([0])


def test_odd_names(tmp_path: Path) -> None:
    database(
        tmp_path / "a b?#%.db",
        'CREATE TABLE "a ""b" ("x y" REAL, "rowid" TEXT, "select" INTEGER)',
        "INSERT INTO \"a \"\"b\" VALUES (1.5, 'r', 3), (2.5, 's', 4)",
    )
    source = SQLite(tmp_path / "a b?#%.db", 'a "b')
    assert source.names == ["x y", "rowid", "select"]
    assert source.read([1]) == [[2.5], ["s"], [4]]


def test_added_rows_are_not_seen_and_deleted_rows_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    for change in (
        "DELETE FROM log WHERE rowid = 40",
        "DELETE FROM log WHERE rowid > 2990",
        "DELETE FROM log",
        "DROP TABLE log",
        "ALTER TABLE log DROP COLUMN temp",
        "UPDATE log SET rowid = 5000 WHERE rowid = 7",
    ):
        path.unlink(missing_ok=True)
        connection = database(path, *MANY)
        source = SQLite(path, "log")
        connection.execute("INSERT INTO log VALUES (1, 'new', 2)")
        connection.execute("UPDATE log SET temp = 99 WHERE rowid = 3")
        connection.execute("CREATE TABLE other (x)")
        connection.commit()
        assert len(source) == 3000
        assert source.read([2, 2999])[0] == [99.0, 1500.0]
        source.check()
        connection.execute(change)
        connection.commit()
        for use in (source.check, lambda source=source: source.read([0, 39, 2999])):
            with pytest.raises(SourceError, match=r"was changed while|cannot read log") as error:
                use()
            sentence(error)
        source.close()
        with pytest.raises(SourceError) as error:
            source.read([39])
        sentence(error)
        connection.close()


def test_others_may_write_while_it_is_open(tmp_path: Path) -> None:
    connection = database(tmp_path / "a.db", *MANY)
    source = SQLite(tmp_path / "a.db", "log")
    source.read([1])
    connection.execute("PRAGMA busy_timeout = 0")
    connection.execute("INSERT INTO log VALUES (1, 'a', 2)")
    connection.commit()
    before = (tmp_path / "a.db").read_bytes()
    source.read(range(3000))
    source.close()
    assert (tmp_path / "a.db").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["a.db"]


def test_bytes_and_broken_text_are_bad_rows(tmp_path: Path) -> None:
    database(
        tmp_path / "a.db",
        "CREATE TABLE log (x, y)",
        "INSERT INTO log VALUES (1, 'a'), (2, x'00ff'), (3, 'c'), (4, CAST(x'ff41' AS TEXT)), (5, 6)",
    )
    with pytest.raises(SourceError, match=r"row 1 of log of .* has bytes in column 'y'; fix it"):
        SQLite(tmp_path / "a.db", "log").read(range(5))
    source = SQLite(tmp_path / "a.db", "log")
    source.max_bad = 2
    assert source.read(range(5)) == [[1, 3, 5], ["a", "c", 6]]
    assert source.read([1, 3]) == [[], []]
    assert source.bad == 2


def test_a_database_that_cannot_be_read_is_refused_in_one_sentence(tmp_path: Path) -> None:
    database(tmp_path / "a.db", *MANY, "CREATE TABLE empty (x)")
    (tmp_path / "b.db").write_bytes(b"nothing of the kind" * 100)
    (tmp_path / "c.db").write_bytes((tmp_path / "a.db").read_bytes()[:9000])
    for name, what, words in (
        ("a.db", "lag", "has no table 'lag'; it has empty, log"),
        ("a.db", "", r"^table_or_query must name the table of .*a\.db to read; it has empty, log"),
        ("a.db", "DELETE FROM log", "has no table 'DELETE FROM log'"),
        ("a.db", "SELECT 1; DROP TABLE log", "one statement"),
        ("a.db", "SELECT humidity FROM log", "no such column: humidity"),
        ("a.db", "SELECT ? FROM log", "cannot read"),
        ("a.db", "empty", "is empty; it needs at least one row"),
        ("b.db", "log", "not a database"),
        ("c.db", "log", "malformed"),
        ("none.db", "log", "there is no such file"),
        (".", "log", "there is no such file"),
    ):
        with pytest.raises(SourceError, match=words) as error:
            SQLite(tmp_path / name, what).read(range(3))
        sentence(error)
    assert len(SQLite(tmp_path / "a.db", "log")) == 3000
    assert not (tmp_path / "none.db").exists()


# ---- Parquet, against pyarrow


@pytest.fixture
def pa() -> Any:
    return pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install pyarrow")


def table_of(pa: Any, n: int) -> Any:
    from datetime import UTC, date, datetime, timedelta
    from decimal import Decimal

    draw = random.Random(2)
    start = datetime(2024, 5, 1, tzinfo=UTC)

    def some(values: list[Any]) -> list[Any]:
        return [None if draw.random() < 0.1 else v for v in values]

    return pa.table(
        {
            "f4": pa.array([i * 0.5 for i in range(n)], pa.float32()),
            "f8": pa.array(some([i * 0.1 for i in range(n)]), pa.float64()),
            "f2": pa.array(np.arange(n).astype("f2")),
            "i8": pa.array([i * 10**12 for i in range(n)], pa.int64()),
            "u1": pa.array([i % 256 for i in range(n)], pa.uint8()),
            "i2": pa.array(some([i % 9 - 4 for i in range(n)]), pa.int16()),
            "text": some([f"t{i % 5}" for i in range(n)]),
            "large": pa.array([f"ä{i}" for i in range(n)], pa.large_string()),
            "cat": pa.array(some(["on" if i % 3 else "off" for i in range(n)])).dictionary_encode(),
            "truth": pa.array(some([i % 2 == 0 for i in range(n)])),
            "when": pa.array([start + timedelta(seconds=1.5 * i) for i in range(n)]),
            "ns": pa.array([i * 10**9 for i in range(n)], pa.timestamp("ns")),
            "day": pa.array(some([date(2024, 1, 1) + timedelta(days=i) for i in range(n)])),
            "took": pa.array([timedelta(milliseconds=i) for i in range(n)]),
            "money": pa.array([Decimal(i) / 4 for i in range(n)], pa.decimal128(12, 2)),
            "none": pa.nulls(n),
            "list": pa.array([[i] for i in range(n)]),
            "struct": pa.array([{"a": i} for i in range(n)]),
            "bytes": pa.array([b"x"] * n),
        }
    )


def plain(name: str, v: Any) -> Any:
    """A value of pyarrow as a number or text."""
    if v is None or isinstance(v, (str, float)):
        return v
    if name in ("when",):
        return v.timestamp()
    if name == "ns":
        return v.value / 1e9 if hasattr(v, "value") else (v - type(v)(1970, 1, 1)).total_seconds()
    if name == "day":
        return (v - type(v)(1970, 1, 1)).days * 86400.0
    if name == "took":
        return v.total_seconds()
    return float(v) if name in ("money", "f2") else int(v)


@pytest.mark.parametrize("group", [7, 100, 5000])
def test_parquet_by_row_group(pa: Any, tmp_path: Path, group: int) -> None:
    n = 1000
    table = table_of(pa, n)
    path = tmp_path / "a.parquet"
    pa.parquet = pytest.importorskip("pyarrow.parquet")
    pa.parquet.write_table(table, path, row_group_size=group)
    source = Parquet(path)
    names = [name for name in table.column_names if name not in ("list", "struct", "bytes")]
    assert (len(source), source.names) == (n, names)
    assert source.left_out == ["list", "struct", "bytes"]
    values = {name: [plain(name, v) for v in table[name].to_pylist()] for name in names}
    draw = random.Random(1)
    for rows in ([], [0], [999], range(n), range(90, 210), sorted(draw.sample(range(n), 60))):
        found = source.read(rows)
        same(found, [[values[name][i] for i in rows] for name in names])
    assert found[0].typecode == "f"  # type: ignore[attr-defined]
    source.close()
    assert source.read([500])[0][0] == 250.0


def test_only_the_groups_that_are_needed_are_read(pa: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(
        pa.table({"x": list(range(1000))}), path, row_group_size=100
    )
    source = Parquet(path)
    read: list[int] = []
    file = source._open()

    class Watched:
        metadata = file.metadata

        def iter_batches(self, rows: int, row_groups: list[int], **options: Any) -> Any:
            read.extend(row_groups)
            return file.iter_batches(rows, row_groups=row_groups, **options)

        def close(self) -> None:
            file.close()

    source._file = Watched()
    assert source.read([5, 7, 350, 399, 999])[0].tolist() == [5, 7, 350, 399, 999]  # type: ignore[attr-defined]
    assert source.read([900, 950])[0].tolist() == [900, 950]  # type: ignore[attr-defined]
    assert read == [0, 3, 9]  # the last one was kept


def test_a_large_group_of_parquet_is_read_in_batches(
    pa: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    n = 20_000
    numbers = [i * 0.5 for i in range(n)]
    texts = [None if i % 7 == 0 else f"t{i % 50}" for i in range(n)]
    table = pa.table({"x": numbers, "t": texts})
    pytest.importorskip("pyarrow.parquet").write_table(table, path)  # one group
    monkeypatch.setattr(parquet, "BATCH_BYTES", 10_000)
    source = Parquet(path)
    assert source.room > 20_000
    draw = random.Random(1)
    for rows in ([19_999], [0], range(n), sorted(draw.sample(range(n), 500)), [3, 4, 19_000]):
        found = source.read(rows)
        same(found, [[numbers[i] for i in rows], [texts[i] for i in rows]])
    group = source._group
    assert group is not None
    assert 64 <= len(group._table) < 2000  # rows in memory
    source.read([19_500])  # goes on
    assert source._group is group


def test_parquet_that_cannot_be_read(pa: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet = pytest.importorskip("pyarrow.parquet")
    for content in (b"", b"PAR1" + bytes(50) + b"PAR1", b"nothing" * 30):
        path.write_bytes(content)
        with pytest.raises(SourceError, match=r"cannot read .*a\.parquet") as error:
            Parquet(path)
        sentence(error)
    parquet.write_table(pa.table({"a": pa.array([], pa.int8())}), path)
    with pytest.raises(SourceError, match="has no rows"):
        Parquet(path)
    parquet.write_table(pa.table({"a": [1, 2]}), path)
    source = Parquet(path)
    source.read([1])
    with open(path, "ab") as stream:
        stream.write(b"PAR1")
    with pytest.raises(SourceError, match="was rewritten since it was opened"):
        source.read([1])


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SourceError, match=r"pip install 'edgeforest\[parquet\]'") as error:
        Parquet(tmp_path / "a.parquet")
    sentence(error)


# ---- Joined


@HERE
@given(st.data())
def test_joined_sources_follow_each_other(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    sources: list[Source] = []
    expected: list[list[Any]] = []
    for k, size in enumerate(sizes):
        names = data.draw(st.permutations(["a", "b", "c"]))
        values = {"a": array("d", range(size)), "b": [k] * size, "c": [f"{k}"] * size}
        sources.append(Table({name: values[name] for name in names}))
        expected += [[i, k, f"{k}"] for i in range(size)]
    joined = Joined(sources)
    assert len(joined) == len(expected)
    order = [["a", "b", "c"].index(name) for name in joined.names]
    n = len(expected)
    for rows in (range(n), range(n // 2, n), range(0, n, 2), some_rows(n, data.draw)):
        found = [list(row) for row in zip(*joined.read(rows), strict=True)]
        assert found == [[expected[i][f] for f in order] for i in rows]


def test_joined_keeps_arrays_where_it_can(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((5, 1), "f4"))
    np.save(tmp_path / "b.npy", np.zeros((5, 1), "f4"))
    np.save(tmp_path / "c.npy", np.zeros((5, 1), "i2"))
    a, b, c = (NpyFile(tmp_path / f"{name}.npy") for name in "abc")
    first = a.read([0])
    joined = Joined([a, b, c])
    assert joined.read([4, 5]) == [array("f", [1, 0])]
    assert joined.read([4, 5, 10]) == [[1, 0, 0]]
    assert first == [array("f", [1])]
    np.save(tmp_path / "b.npy", np.ones((5, 1), "f4"))
    with pytest.raises(SourceError, match=r"b\.npy was rewritten"):
        joined.check()
    joined.close()


class Live(Source):
    """A source that gives its own arrays of Python or NumPy, not copies."""

    name = "live"

    def __init__(self, columns: dict[str, Any]) -> None:
        super().__init__()
        self.names = list(columns)
        self.columns = list(columns.values())

    def __len__(self) -> int:
        return len(self.columns[0])

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        assert len(rows) == len(self)
        return self.columns


def test_what_a_source_gives_is_left_alone(tmp_path: Path) -> None:
    def make() -> Live:
        return Live({"a": array("d", [1, 2]), "b": [3, "x"], "c": np.array([5.5, 6.5], "f4")})

    a, b = make(), make()
    for _ in range(2):
        same(Joined([a, b]).read(range(4)), [[1, 2, 1, 2], [3, "x", 3, "x"], [5.5, 6.5] * 2])
    same(a.columns[:2], [[1, 2], [3, "x"]])
    words = Live({"w": np.array(["on", "off"]), "t": np.array([True, False]), "i": np.arange(2)})
    same(pack(words, tmp_path / "a.npy").read([0, 1]), [["on", "off"], [1, 0], [0, 1]])


def test_joined_says_how_sources_differ() -> None:
    a = Table([[1, 2]], names=["a", "b"])
    texts = Table([[1, 2]], names=["a", "b"])
    texts.texts = True
    for source, words in (
        (Table([[1]], names=["a"]), "has no column 'b'"),
        (Table([[1, 2, 3]], names=["a", "b", "c"]), "has a column 'c'"),
        (Table([[1, 2, 3]], names=["a", "b", "a"]), "more than one column 'a'"),
        (texts, "write numbers differently"),
    ):
        with pytest.raises(SourceError, match=words) as error:
            Joined([a, source])
        sentence(error)
    with pytest.raises(SourceError, match="nothing to join"):
        Joined([])


def test_bad_rows_of_joined_sources_are_counted_together(tmp_path: Path) -> None:
    for name in "ab":
        database(tmp_path / name, "CREATE TABLE t (x)", "INSERT INTO t VALUES (1), (x'00'), (2)")
    joined = Joined([SQLite(tmp_path / name, "t") for name in "ab"])
    joined.max_bad = 2
    assert joined.read(range(6)) == [[1, 2, 1, 2]]
    assert (joined.bad, len(joined.complaints)) == (2, 2)
    joined = Joined([SQLite(tmp_path / name, "t") for name in "ab"])
    joined.max_bad = 1
    with pytest.raises(SourceError, match=r"row 1 of t of .*b has bytes"):
        joined.read(range(6))


# ---- Streams


def test_every_row_of_a_stream_is_equally_likely() -> None:
    kept: Counter[int] = Counter()
    for seed in range(1500):
        stream = Stream(([i] for i in range(50)), 5, seed=seed)
        rows = stream.read(range(5))[0]
        assert (len(stream), stream.seen, len(set(rows))) == (5, 50, 5)
        kept.update(rows)
    # 49 degrees of freedom: above 85 in one of a thousand tries.
    assert sum((kept[i] - 150) ** 2 / 150 for i in range(50)) < 85


def test_a_stream_of_lists_or_dicts() -> None:
    assert Stream([[1, "a"], [2, "b"]], 5).read([0, 1]) == [[1, 2], ["a", "b"]]
    stream = Stream([{"x": 1, "y": "a"}, {"y": "b", "x": 2}], 5)
    assert (stream.names, stream.read([1])) == (["x", "y"], [[2], ["b"]])
    assert Stream(iter([[1]]), 1, names=["n"]).names == ["n"]
    for rows, words in (
        ([], "the stream is empty"),
        ([[1, 2], [3]], "row 1 of the stream has 1 value, expected 2"),
        ([[1], 7], "row 1 of the stream must be a list or a dict, got 7"),
        (["text"], "row 0 of the stream must be a list or a dict, got 'text'"),
        ([{"x": 1}, {"y": 1}], "row 1 of the stream has no column 'x'"),
    ):
        with pytest.raises(SourceError, match=words) as error:
            Stream(rows, 5)  # type: ignore[arg-type]
        sentence(error)
    with pytest.raises(SourceError, match="capacity must be a whole number of at least 1, got 0"):
        Stream([[1]], 0)


def test_more_rows_than_the_generator_counts() -> None:
    rng = Rng(1)
    n = 3 << 40
    values = [stream.below(rng, n) for _ in range(4000)]
    thirds = Counter(v // (1 << 40) for v in values)
    assert set(thirds) == {0, 1, 2}
    assert sum((thirds[k] - 4000 / 3) ** 2 / (4000 / 3) for k in range(3)) < 14


# ---- Packing

numbers = st.one_of(
    st.none(),
    st.integers(-(2**24), 2**24),
    st.floats(width=32, allow_nan=False),
    st.sampled_from([16777217, -16777219, 1700000001.0, 2**53 - 1, 1e300, math.inf]),
)
texts = st.one_of(st.none(), st.text(max_size=4).filter(lambda t: t.isprintable()))
mixed = st.one_of(numbers, texts)


@HERE
@given(st.data())
def test_a_packed_source_gives_the_same_values(tmp_path: Path, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 15))
    kinds = data.draw(st.lists(st.sampled_from([numbers, texts, mixed]), min_size=1, max_size=4))
    names = data.draw(st.lists(st.text(max_size=3), min_size=len(kinds), max_size=len(kinds)))
    columns = [data.draw(st.lists(kind, min_size=n, max_size=n)) for kind in kinds]
    rows = [list(row) for row in zip(*columns, strict=True)]
    packed = pack(Table(rows, names), tmp_path / "a.npy")
    assert (len(packed), packed.names) == (n, names)
    for again in (packed, Packed(tmp_path / "a.npy")):
        for found, column in zip(again.read(range(n)), columns, strict=True):
            for a, b in zip(found, column, strict=True):
                assert a == b or (b is None and (a is None or a != a)), (a, b)
    loaded = np.load(tmp_path / "a.npy")  # it is NumPy's format
    assert len(loaded) == n
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "a.npy.json"]


def test_numbers_are_float32_unless_that_would_change_them(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    pack(Table([[0.1, 16777216], [5, -3]], ["a", "b"]), path)
    assert np.load(path).dtype == np.float32
    pack(Table([[0.1, 16777217], [5, -3]], ["a", "b"]), path)
    assert np.load(path).dtype == [("a", "<f4"), ("b", "<f8")]
    assert Packed(path).read([0])[1].tolist() == [16777217.0]  # type: ignore[attr-defined]
    pack(Table([[1e9 + 0.5]], ["a"]), path)
    assert np.load(path).dtype == np.float64


def test_packing_finds_the_numbers_in_text(tmp_path: Path) -> None:
    class Texts(Table):
        texts = True
        decimal_comma = True

    rows = [["1,5", "NA", "a"], ["?", "3", "7"], [None, "4", None]]
    packed = pack(Texts(rows), tmp_path / "a.npy")
    same(packed.read(range(3)), [[1.5, math.nan, math.nan], [math.nan, 3, 4], ["a", "7", None]])
    assert not packed.texts


def test_packing_needs_little_memory_and_reports_progress(tmp_path: Path) -> None:
    class Long(Source):
        name = "long"
        names = ("a", "b", "c")  # type: ignore[assignment]

        def __len__(self) -> int:
            return 40_000

        def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
            return [array("f", rows), [r * 1000 for r in rows], [f"t{r % 7}" for r in rows]]

    told: list[tuple[int, int]] = []
    tracemalloc.start()
    packed = pack(Long(), tmp_path / "a.npy", progress=lambda done, of: told.append((done, of)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6e6
    assert told[-1] == (80_000, 80_000)
    assert told == sorted(told)
    assert packed.read([7, 39_999]) == [
        array("f", [7, 39_999]),
        array("d", [7000, 39_999_000]),
        ["t0", "t1"],
    ]


def test_packing_that_fails_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npy"

    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(Table([[1]]), path, progress=stop)
    monkeypatch.setattr(packing, "MAX_TEXTS", 3)
    with pytest.raises(SourceError, match=r"'x0' of .* more than 3 different texts; leave it out"):
        pack(Table([[v] for v in "abcd"]), path)
    odd: list[Any] = [b"x", [1], {}, 1j, 10**400]
    for value in odd:
        with pytest.raises(SourceError, match=r"'x0' of .* neither a number nor text") as error:
            pack(Table([[value]]), path)
        sentence(error)
    assert os.listdir(tmp_path) == []
    with pytest.raises(SourceError, match=r"cannot write .*: no such file or directory"):
        pack(Table([[1]]), tmp_path / "none" / "a.npy")
    pack(Table([[1]]), path)
    with pytest.raises(SourceError):
        pack(Table([[b"x"]]), path)
    assert Packed(path).read([0]) == [array("f", [1])]  # what was there stays


def test_bad_rows_are_not_packed(tmp_path: Path) -> None:
    database(tmp_path / "a", "CREATE TABLE t (x)", "INSERT INTO t VALUES (1), (x'00'), (2)")
    source = SQLite(tmp_path / "a", "t")
    source.max_bad = 1
    assert pack(source, tmp_path / "a.npy").read(range(2)) == [array("f", [1, 2])]


def test_a_packed_file_and_its_companion_belong_together(tmp_path: Path) -> None:
    path, side = tmp_path / "a.npy", tmp_path / "a.npy.json"
    pack(Table([[1, "a"], [2, "b"]]), path)
    good = json.loads(side.read_text())
    wrong: list[Any] = [
        {**good, "size": 5},
        {**good, "names": ["a"]},
        {**good, "names": [1, 2]},
        {**good, "categories": [None, 7]},
        {**good, "version": 2},
        {**good, "format": "other"},
        {},
        [],
        7,
    ]
    for bad in wrong:
        side.write_text(json.dumps(bad))
        with pytest.raises(SourceError, match=r"does not belong to .*; pack the source again") as e:
            Packed(path)
        sentence(e)
    side.write_text(json.dumps({**good, "categories": [None, ["a"]]}))
    with pytest.raises(SourceError, match=r"'x1' of .* is damaged"):
        Packed(path).read([1])
    side.unlink()
    with pytest.raises(SourceError, match=r"cannot read .*json: no such file"):
        Packed(path)
