"""Text files as sources: any rows of any file, or one sentence that says why not."""

import csv
import gzip
import io
import json
import math
import os
import pickle
import random
import stat
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib
from array import array
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from edgeforest.host import disk
from edgeforest.sources import (
    CSV,
    JSONLines,
    LineProtocol,
    Lines,
    SourceError,
    delimited,
    line_index,
    lines,
    records,
    text_file,
)
from edgeforest.sources.cells import cell
from edgeforest.sources.line_index import HEADER, LineIndex

CALM = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def small(monkeypatch):
    """Blocks, spans and batches so small that a short file has many."""
    for module, name, size in (
        (text_file, "BLOCK", 64),
        (line_index, "BLOCK", 64),
        (line_index, "SPAN", 16),
        (lines, "CHUNK", 48),
        (lines, "BATCH", 3),
        (lines, "BATCH_BYTES", 64),
        (delimited, "LOOK_BYTES", 64),
    ):
        monkeypatch.setattr(module, name, size)


def put(folder, data, name="log.csv"):
    path = Path(folder) / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def rows_of(source, rows=None):
    """Rows as lists; all rows in order by default."""
    columns = source.read(range(len(source)) if rows is None else rows)
    assert len(columns) == len(source.names)
    return [list(row) for row in zip(*columns, strict=True)]


def refused(make):
    """The sentence with which a file is refused, or None if it is accepted."""
    try:
        made = make()
    except SourceError as error:
        sentence = str(error)
        assert "\n" not in sentence
        assert len(sentence) < 500
        return sentence
    made.close()
    return None


# ---- CSV beside Python's own reader

NASTY = st.text(
    st.sampled_from('ab1,;|\t "\n\r.#\\é€\u2028x=')
    | st.characters(codec="utf-8", exclude_characters="\0"),
    max_size=8,
)


@st.composite
def tables(draw):
    width = draw(st.integers(2, 4))
    return draw(st.lists(st.lists(NASTY, min_size=width, max_size=width), min_size=1, max_size=12))


def some(rng, n):
    return sorted(rng.sample(range(n), rng.randint(0, n)))


@pytest.mark.usefixtures("small")
@CALM
@given(
    table=tables(),
    separator=st.sampled_from(",;\t|"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\r\n", "\n", "\r"]),
    cut=st.booleans(),
    bom=st.booleans(),
    seed=st.integers(0, 99),
)
@example([["a", 'x"'], ['"', '\n"\n']], ",", csv.QUOTE_MINIMAL, "\n", True, False, 1)
def test_any_rows_are_those_of_the_csv_module(
    tmp_path, table, separator, quoting, end, cut, bom, seed
):
    if end != "\r\n" and quoting != csv.QUOTE_ALL:
        # Older Pythons write a line end that is not theirs without quotes.
        table = [[c.replace("\r", "").replace("\n", "") for c in row] for row in table]
    stream = io.StringIO()
    csv.writer(stream, delimiter=separator, quoting=quoting, lineterminator=end).writerows(table)
    written = stream.getvalue()
    if cut:
        written = written.removesuffix(end)
    path = put(tmp_path, written.encode("utf-8-sig" if bom else "utf-8"))
    with open(path, newline="", encoding="utf-8-sig") as again:
        expected = [[cell(c) for c in row] for row in csv.reader(again, delimiter=separator)]
    # A row of nothing but spaces is blank where spaces and tabs are not separators.
    with CSV(path, separator=separator, header=False) as source:
        assert rows_of(source) == expected
        picked = some(random.Random(seed), len(expected))
        assert rows_of(source, picked) == [expected[i] for i in picked]
        assert list(source) == expected


@pytest.mark.usefixtures("small")
@CALM
@given(table=tables(), seed=st.integers(0, 99))
def test_runs_of_spaces_separate_cells(tmp_path, table, seed):
    rng = random.Random(seed)
    table = [[c.replace('"', "") for c in row] for row in table]
    lines = [(" " * rng.randint(1, 3)).join(f'"{c}"' for c in row) for row in table]
    path = put(tmp_path, "".join(" " * rng.randint(0, 2) + line + "\n" for line in lines))
    with CSV(path, separator=" ", header=False) as source:
        assert rows_of(source) == [[cell(c) for c in row] for row in table]


@pytest.mark.usefixtures("small")
@CALM
@given(st.text(st.sampled_from('a1,; "\n\r#'), max_size=60), st.sampled_from(",; "), st.booleans())
def test_records_of_any_text_are_those_of_the_csv_module(tmp_path, written, separator, comments):
    """Even for text that was never meant as CSV: odd quotes, comments, blank lines."""
    path = put(tmp_path, written)
    expected, lines = [], []
    stream = io.StringIO(written, newline="")
    buffered = []
    start = number = 0
    for line in stream:
        number += 1
        bare = line.strip(" \r\n")
        if not buffered:
            if not bare or (comments and bare.startswith("#")):
                continue
            start = number
        buffered.append(line)
        whole = "".join(buffered)
        if separator == " ":
            whole = whole.lstrip(" ")
        reader = csv.reader(
            [whole, "END"], delimiter=separator, skipinitialspace=True, strict=False
        )
        if len(list(reader)) == 2:  # no quote is open
            expected.append("".join(buffered).rstrip("\r\n"))
            lines.append(start)
            buffered = []
    unclosed = bool(buffered)
    if unclosed:
        expected.append("".join(buffered))
        lines.append(start)

    class Raw(CSV):
        def begin(self):
            self.names = ["record"]

        def parse(self, rows, records, columns):
            columns[0] += [r.decode() for r in records]

    options = {"separator": separator, "comment": "#" if comments else None}
    if not expected:
        assert "is empty" in refused(lambda: Raw(path, **options))
        return
    with Raw(path, **options) as source:
        found = source.read(range(len(source)))[0]
        assert found == expected
        assert [source.line(i) for i in range(len(source))] == lines
        assert source.unclosed == unclosed
        assert source.read([len(source) - 1])[0] == expected[-1:]


# ---- What is looked for


@pytest.mark.parametrize(
    ("written", "separator", "names", "comma", "rows"),
    [
        ("a,b\n1,x\n2,y\n", ",", ["a", "b"], False, [["1", "x"], ["2", "y"]]),
        ("a;b\n1,5;2\n", ";", ["a", "b"], True, [["1,5", "2"]]),
        ("1,5;2,5;3,5\n4,5;5,5;6,5\n", ";", ["column 1", "column 2", "column 3"], True, None),
        ("a\tb\n1.5\tx y\n", "\t", ["a", "b"], False, [["1.5", "x y"]]),
        ("a|b\n1|NA\n", "|", ["a", "b"], False, [["1", None]]),
        ("  a   b\n 1.5   2\n10.5  30\n", " ", ["a", "b"], False, [["1.5", "2"], ["10.5", "30"]]),
        ("time,t\n2024-01-01 12:00,1\n2024-01-01 12:01,2\n", ",", ["time", "t"], False, None),
        ("time\n2024-01-01 12:00\n2024-01-01 12:01\n", ",", ["time"], False, None),
        ("a\n1\n2\n", ",", ["a"], False, [["1"], ["2"]]),
        ("1,2\n3,4\n", ",", ["column 1", "column 2"], False, [["1", "2"], ["3", "4"]]),
        ("a,a,,a\n1,2,3,4\n", ",", ["a", "a.2", "column 3", "a.3"], False, [["1", "2", "3", "4"]]),
        ("a,a,a.2\n1,2,3\n", ",", ["a", "a.3", "a.2"], False, [["1", "2", "3"]]),
        ("p,q\nx,y\nz,w\n", ",", ["p", "q"], False, [["x", "y"], ["z", "w"]]),
        ("x,y\nz,y\nx,w\n", ",", ["column 1", "column 2"], False, None),
        ("\ufeffa,b\r\n1,2\r\n\r\n  \r\n3,4", ",", ["a", "b"], False, [["1", "2"], ["3", "4"]]),
        ("a,b\r1,2\r3,4\r", ",", ["a", "b"], False, [["1", "2"], ["3", "4"]]),
        ("a,b\r1,2\n3,4\r\n5,6", ",", ["a", "b"], False, [["1", "2"], ["3", "4"], ["5", "6"]]),
        ('a, "b, c"\n1, "x, y"\n', ",", ["a", "b, c"], False, [["1", "x, y"]]),
        (
            "a,b\nr1,1,2\nr2,3,4\n",
            ",",
            ["column 1", "a", "b"],
            False,
            [["r1", "1", "2"], ["r2", "3", "4"]],
        ),
        (
            "a,b\n1,2,\n3,4,\n",
            ",",
            ["a", "b", "column 3"],
            False,
            [["1", "2", None], ["3", "4", None]],
        ),
    ],
)
def test_options_that_are_not_given_are_found_by_looking(
    tmp_path, written, separator, names, comma, rows
):
    with CSV(put(tmp_path, written)) as source:
        assert (source.separator, source.names, source.decimal_comma) == (separator, names, comma)
        found = rows_of(source)
        assert found == rows if rows else len(found) == len(source)
        assert source.texts


def test_options_that_are_given_are_used(tmp_path):
    path = put(tmp_path, "# a;b\n'1;5';2,5\n#\n3;'#4'\n")
    with CSV(path, separator=";", header=False, names=["p", "q"], comment="#", quote="'") as source:
        assert source.names == ["p", "q"]
        assert source.decimal_comma
        assert rows_of(source) == [["1;5", "2,5"], ["3", "#4"]]
    with CSV(path, separator=";", header=True, quote=None, decimal_comma=False) as source:
        assert source.names == ["# a", "b"]
        assert not source.decimal_comma
    sentence = refused(lambda: CSV(path, separator=";", names=["p"], comment="#", quote="'"))
    assert sentence == f"{path} has 2 columns, but names for 1 were given; name each"


@pytest.mark.parametrize(
    ("encoding", "options"),
    [
        ("latin-1", {"encoding": "latin-1"}),
        ("cp1252", {"encoding": "cp1252"}),
        ("utf-16", {}),
        ("utf-32", {}),
        ("utf-16-le", {"encoding": "utf-16-le"}),
        ("gb18030", {"encoding": "gb18030", "comment": "§"}),
        ("utf-8-sig", {"encoding": "utf-8-sig"}),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_encodings(tmp_path, encoding, options, zipped):
    data = "größe,ort\n1.5,Zürich\n2,Genève\n".encode(encoding)
    with CSV(put(tmp_path, gzip.compress(data) if zipped else data), **options) as source:
        assert source.names == ["größe", "ort"]
        assert rows_of(source) == [["1.5", "Zürich"], ["2", "Genève"]]
        source.close()
        assert rows_of(source, [1]) == [["2", "Genève"]]


@pytest.mark.parametrize("encoding", ["nothing", "base64", "rot13", "", "utf-8\0"])
def test_an_encoding_that_does_not_exist(tmp_path, encoding):
    path = put(tmp_path, "a,b\n1,2\n")
    assert "there is no encoding" in refused(lambda: CSV(path, encoding=encoding))


@pytest.mark.parametrize(
    "options", [{"separator": ""}, {"separator": "::"}, {"quote": "ab"}, {"comment": " "},
                {"separator": ";", "quote": ";"}, {"separator": "\n"}],
)  # fmt: skip
def test_options_that_are_refused(tmp_path, options):
    sentence = refused(lambda: CSV(put(tmp_path, "a,b\n1,2\n"), **options))
    assert "must be" in sentence


# ---- Bad rows


def test_bad_rows_are_left_out_and_noted_by_their_line(tmp_path):
    data = b'# x\n\na,b\n1,2\n3\n"4\n\n",5\n\n6,\xff\n7,8,9\n10,\0\n11,12\n'
    path = put(tmp_path, data)
    with CSV(path, comment="#", max_bad=4) as source:
        assert rows_of(source) == [["1", "2"], ["4", "5"], ["11", "12"]]
        assert len(source) == 7
        assert source.bad == 4
        assert sorted(source.complaints) == [
            ("line 10", "is not utf-8 text (use encoding=NAME if it has another)"),
            ("line 11", "has 3 values where there are 2 columns"),
            ("line 12", "has a NUL byte"),
            ("line 5", "has 1 value where there are 2 columns"),
        ]
    with CSV(path, comment="#") as source:
        assert rows_of(source, [0, 2, 6]) == [["1", "2"], ["4", "5"], ["11", "12"]]
        with pytest.raises(
            SourceError, match=r"^line 5 of .* has 1 value where there are 2 columns"
        ):
            source.read([1])
        with pytest.raises(SourceError, match=r"^line 10 of .* is not utf-8 text"):
            CSV(path, comment="#").read([3])


@pytest.mark.usefixtures("small")
def test_lines_are_counted_right_in_a_long_file(tmp_path):
    rng = random.Random(4)
    out, lines, expected = [], [], []
    line = 1
    for i in range(3000):
        kind = rng.random()
        if kind < 0.2:
            out.append(rng.choice(["\n", '# note "\n', "  \r\n"]))
            line += 1
        lines.append(line)
        word = rng.choice(["x", '"y\ny"', '"z\r\n\r\nz"', '5" wide', '"""q"""'])
        expected.append(next(csv.reader([f"{i},{word}"])))
        out.append(f"{i},{word}\n")
        line += 1 + word.count("\n")
    path = put(tmp_path, "".join(out))
    with CSV(path, header=False, comment="#") as source:
        assert len(source) == 3000
        assert [source.line(i) for i in range(3000)] == lines
        picked = sorted(rng.sample(range(3000), 200))
        assert rows_of(source, picked) == [expected[i] for i in picked]
        assert len(source.index.lines) > 500


def test_a_quote_that_is_never_closed(tmp_path):
    path = put(tmp_path, 'a,b\n1,2\n3,"4\n5,6\n')
    assert refused(lambda: CSV(path)) == (
        f"line 3 of {path} opens a quote that is never closed; fix it, or skip such rows with "
        "max_bad=N"
    )
    with CSV(path, max_bad=1) as source:
        assert rows_of(source) == [["1", "2"]]
    with CSV(path, quote=None) as source:
        assert rows_of(source) == [["1", "2"], ["3", '"4'], ["5", "6"]]


def test_rows_that_do_not_exist(tmp_path):
    with CSV(put(tmp_path, "a,b\n1,2\n3,4\n")) as source:
        assert source.read([]) == [[], []]
        assert source.read([1, 1]) == [["3", "3"], ["4", "4"]]
        for rows in ([2], [-1], [0, 5]):
            with pytest.raises(SourceError, match="has no row"):
                source.read(rows)
        with pytest.raises(SourceError, match="ascending"):
            source.read([1, 0])


# ---- The index


def big(folder, rows=100_000, name="log.csv"):
    return put(
        folder, "id,x,word\n" + "".join(f"{i},{i * i % 97}.5,w{i % 7}\n" for i in range(rows)), name
    )


def looks(monkeypatch):
    """How often an index is made."""
    made = []
    make = LineIndex._make
    monkeypatch.setattr(LineIndex, "_make", lambda self: (made.append(1), make(self))[1])
    return made


def test_the_index_is_kept_and_used_again(tmp_path, monkeypatch):
    made = looks(monkeypatch)
    path = big(tmp_path)
    kept = tmp_path / "log.csv.efidx"
    seen = []
    with CSV(path, progress=lambda done, whole: seen.append((done, whole))) as source:
        rows = rows_of(source)
    size = path.stat().st_size
    assert seen[-1] == (size, size)
    assert seen == sorted(seen)
    assert kept.exists()
    assert stat.S_IMODE(kept.stat().st_mode) == stat.S_IMODE(path.stat().st_mode) & 0o666
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.csv", "log.csv.efidx"]
    with CSV(path) as source:
        assert len(made) == 1
        assert rows_of(source) == rows
    with CSV(path, quote=None) as source:
        assert len(made) == 2, "another way of telling rows apart"
        assert rows_of(source) == rows


@pytest.mark.parametrize("what", ["rewritten", "touched", "same size", "damaged", "cut", "long"])
def test_an_index_that_does_not_fit_is_made_again(tmp_path, monkeypatch, what):
    path = big(tmp_path)
    CSV(path).close()
    kept = tmp_path / "log.csv.efidx"
    before = os.stat(path)
    data = bytearray(kept.read_bytes())
    if what == "rewritten":
        path.write_text(path.read_text().replace("7", "8", 1) + "1,2,3\n")
    elif what == "touched":
        os.utime(path, ns=(1, 2))
    elif what == "same size":
        with open(path, "r+b") as stream:
            stream.seek(30)
            stream.write(b"\n\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif what == "damaged":
        data[len(data) // 2] ^= 1
        kept.write_bytes(data)
    elif what == "cut":
        kept.write_bytes(data[:-9])
    else:
        kept.write_bytes(data + b"x")
    made = looks(monkeypatch)
    with CSV(path, max_bad=3) as source:
        assert len(made) == 1
        last = source.read([len(source) - 1])
    with CSV(path, max_bad=3) as source:
        assert len(made) == 1, "it is kept again"
        assert source.read([len(source) - 1]) == last


def test_an_index_with_a_wrong_bit_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(Lines, "keep_from", 0)
    path = big(tmp_path, 3000)
    kept = tmp_path / "log.csv.efidx"
    with CSV(path) as source:
        last = source.read([2999])
    made = looks(monkeypatch)
    data = kept.read_bytes()
    for n, at in enumerate(range(0, len(data), 3), 1):
        wrong = bytearray(data)
        wrong[at] ^= 1 << at % 8
        kept.write_bytes(wrong)
        with CSV(path) as source:
            assert len(made) == n
            assert len(source) == 3000
            assert source.read([2999]) == last
        kept.unlink()


def signed(header, numbers):
    """The bytes of an index whose checksum fits."""
    data = header + array("Q", numbers).tobytes()
    return data + struct.pack("<I", zlib.crc32(data))


def mutated(data, rng):
    """An index with something wrong in it, and a checksum that still fits."""
    size = HEADER.size
    header = list(HEADER.unpack(data[:size]))
    numbers = array("Q", data[size:-4]).tolist()
    odd = (0, 1, 2, rng.randrange(1 << 10), 1 << 31, 1 << 40, (1 << 64) - 1)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(numbers))
        what = rng.randrange(6)
        if what == 0:
            numbers[at] = rng.choice(odd)
        elif what == 1:
            numbers[at] = abs(numbers[at] + rng.choice((-9, -8, -2, -1, 1, 2, 7, 8))) % (1 << 64)
        elif what == 2:
            other = rng.randrange(len(numbers))
            numbers[at], numbers[other] = numbers[other], numbers[at]
        elif what == 3:
            header[rng.choice((2, 3))] = rng.randrange(256)
        elif what == 4:
            header[rng.choice((9, 10))] = rng.choice(odd)
        else:
            step = rng.choice((-1, 1))  # a record more or fewer, in all marks from here
            n = len(numbers) // (2 + bool(header[3]))
            for i in range(n + at % n, 2 * n):
                numbers[i] = abs(numbers[i] + step) % (1 << 64)
            header[9] = max(0, header[9] + step) % (1 << 64)
    return signed(HEADER.pack(*header), numbers)


@pytest.mark.parametrize(
    "content",
    [
        "id,x\n" + "".join(f"{i},{i * i % 97}\n" for i in range(60)),
        "id,x\n" + "".join(f'{i},"a\nb{i}"\n\n' for i in range(30)),
        "id,x\n" + "".join(f"{i},2\r\n# no,row\r\n" for i in range(30)) + '7,"open',
    ],
)
def test_an_index_of_an_attacker_gives_the_same_rows_or_a_sentence(
    tmp_path, monkeypatch, small, content
):
    monkeypatch.setattr(Lines, "keep_from", 0)
    path = put(tmp_path, content)
    kept = tmp_path / "log.csv.efidx"
    options = {"comment": "#", "max_bad": 1, "header": True, "separator": ","}
    with CSV(path, **options) as source:
        rows = rows_of(source)
    data = kept.read_bytes()
    made = looks(monkeypatch)
    rng = random.Random(20)
    refusals = []
    for _ in range(300):
        kept.write_bytes(mutated(data, rng))
        try:
            with CSV(path, **options) as source:
                assert rows_of(source) == rows
        except SourceError as error:
            refusals.append(str(error))
    assert len(made) > 100, "most are made anew without an error"
    assert refusals
    assert all("is not as its index says; delete" in sentence for sentence in refusals)


def test_an_index_of_an_attacker_takes_no_memory_and_no_time(tmp_path, monkeypatch):
    path = big(tmp_path)
    CSV(path).close()
    kept = tmp_path / "log.csv.efidx"
    size = HEADER.size
    header = list(HEADER.unpack(kept.read_bytes()[:size]))
    header[10] = 1 << 34  # marks
    made = looks(monkeypatch)
    kept.write_bytes(HEADER.pack(*header))
    os.truncate(kept, size + 8 * 2 * header[10] + 4)  # a hole: it takes no room on the disk
    with CSV(path) as source:
        assert len(source) == 100_000
    assert len(made) == 1
    header[10] = 2  # the whole file between two marks would be read at once
    monkeypatch.setattr(line_index, "MAX_RECORD", 1 << 16)
    kept.write_bytes(signed(HEADER.pack(*header), [0, path.stat().st_size, 0, header[9]]))
    with CSV(path) as source:
        assert len(source) == 100_000
    assert len(made) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_in_the_place_of_the_index_does_not_hang(tmp_path):
    path = big(tmp_path)
    os.mkfifo(tmp_path / "log.csv.efidx")
    with CSV(path) as source:
        assert len(source) == 100_000
    assert stat.S_ISFIFO(os.stat(tmp_path / "log.csv.efidx").st_mode)


def test_a_file_of_that_name_that_is_not_an_index_is_left_alone(tmp_path):
    path = big(tmp_path)
    other = put(tmp_path, "my own", "log.csv.efidx")
    with CSV(path) as source:
        assert len(source) == 100_000
    assert other.read_text() == "my own"


def test_an_index_that_cannot_be_written_is_not_an_error(tmp_path, monkeypatch):
    path = big(tmp_path)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    for name in ("_create", "_sync"):
        with monkeypatch.context() as patch:
            patch.setattr(disk, name, refuse)
            with CSV(path) as source:
                assert len(source) == 100_000
    assert [p.name for p in tmp_path.iterdir()] == ["log.csv"]


def test_small_files_have_no_index_beside_them(tmp_path):
    CSV(put(tmp_path, "a,b\n1,2\n")).close()
    assert [p.name for p in tmp_path.iterdir()] == ["log.csv"]


def test_the_index_is_small_and_made_in_little_memory(tmp_path):
    path = tmp_path / "log.csv"
    with open(path, "wb") as stream:
        stream.write(b"x\n")
        for _ in range(20):
            stream.write(b"1\n2\n" * 250_000)
    tracemalloc.start()
    try:
        with CSV(path) as source:
            assert len(source) == 10_000_000
            assert source.read([0, 5_000_001, 9_999_999]) == [["1", "2", "2"]]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8e6, "two blocks, and marks"
    marks = line_index.MARKS * 3 * 8  # of a file of any size: where, which row, which line
    assert marks < 13e6
    assert os.path.getsize(f"{path}.efidx") < 1e6


# ---- A file that changes


def test_a_file_that_changes_while_it_is_used(tmp_path):
    path = put(tmp_path, "a,b\n1,2\n3,4\n")
    for change, words in (
        (lambda: path.write_text("a,b\n1,2\n3,5\n5,6\n"), "was rewritten"),
        (lambda: path.write_text("a,b\n1,2\n3,5\n"), "was rewritten"),
        (lambda: path.write_text("a,b\n"), "shrank from 12 to 4 bytes"),
        (
            lambda: os.replace(put(tmp_path, "c,d\n1,2\n3,4\n", "new"), path),
            "was replaced by another",
        ),
        (path.unlink, "is gone"),
    ):
        path.write_text("a,b\n1,2\n3,4\n")
        with CSV(path) as source:
            source.check()
            change()
            for use in (source.check, lambda s=source: s.read([0]), lambda s=source: list(s)):
                sentence = refused(use)
                assert words in sentence
                assert str(path) in sentence
            source.close()
            assert words in refused(lambda s=source: s.read([0]))


def test_stopping_while_it_is_indexed_leaves_nothing(tmp_path):
    def stop(done, whole):
        raise KeyboardInterrupt

    for path in (big(tmp_path), put(tmp_path, gzip.compress(b"a,b\n1,2\n" * 9), "z")):
        with pytest.raises(KeyboardInterrupt):
            CSV(path, progress=stop)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.csv", "z"]


def test_a_closed_source_opens_again_and_can_be_pickled(tmp_path):
    path = big(tmp_path)
    packed = put(tmp_path, gzip.compress(path.read_bytes(), 1), "log.bin")
    for each in (path, packed):
        with CSV(each) as source:
            rows = source.read([7, 50_000])
            source.close()
            source.close()
            assert source.read([7, 50_000]) == rows
            with pickle.loads(pickle.dumps(source)) as other:
                assert other.read([7, 50_000]) == rows
                assert other.names == source.names


# ---- Gzip


def test_gzip_equals_plain(tmp_path):
    path = big(tmp_path)
    packed = put(tmp_path, gzip.compress(path.read_bytes()), "anything.txt")
    seen = []
    with CSV(path) as plain, CSV(packed, progress=lambda *a: seen.append(a)) as source:
        assert source.names == plain.names
        assert rows_of(source) == rows_of(plain)
        names = {p.name for p in tmp_path.iterdir()}
    assert (packed.stat().st_size,) * 2 in seen
    assert (path.stat().st_size,) * 2 in seen
    assert names == {"log.csv", "log.csv.efidx", "anything.txt", "anything.txt.efidx"}


def test_gzip_where_there_is_no_room(tmp_path, monkeypatch):
    packed = put(tmp_path, gzip.compress(b"a,b\n1,2\n"), "log.gz")

    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(text_file.tempfile, "TemporaryFile", lambda **_: Full())
    sentence = refused(lambda: CSV(packed))
    assert sentence == (
        f"cannot unpack {packed} into {tmp_path}: no space left on device; make room there"
    )


def test_gzip_in_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    packed = put(tmp_path, gzip.compress(b"a,b\n1,2\n"), "log.gz")
    make = text_file.tempfile.TemporaryFile

    def elsewhere(dir=None, **options):
        if dir is not None:
            raise PermissionError(13, "Permission denied")
        return make(**options)

    monkeypatch.setattr(text_file.tempfile, "TemporaryFile", elsewhere)
    with CSV(packed) as source:
        assert rows_of(source) == [["1", "2"]]


# ---- Malformed files


def malformed():
    """A hundred files, by name; a number is how many rows each kind must find at least."""
    rng = random.Random(7)
    good = b"a,b\n" + b"".join(b"%d,%d.5\n" % (i, i) for i in range(200))
    yield "empty", b""
    yield "one row", b"1,2"
    yield "header only", b"a,b\n"
    yield "one word", b"hello"
    yield "only blank lines", b"\n\r\n  \n\t\n" * 50
    yield "BOM only", b"\xef\xbb\xbf"
    yield "UTF-16 BOM only", b"\xff\xfe"
    yield "BOM and blank", b"\xef\xbb\xbf\n\n"
    yield "NUL bytes only", b"\0" * 5000
    yield "NUL bytes", good + b"\0\0,\0\n" + good
    yield "NUL in the header", b"a,\0b\n1,2\n"
    yield "wrong encoding", "größe,ort\n1,Zürich\n".encode("latin-1") * 9
    yield "half UTF-16", "a,b\n1,2\n".encode("utf-16")[:-1]
    yield "ragged", b"a,b\n1\n1,2\n1,2,3\n\n,\n"
    yield "all ragged", b"".join(b",".join([b"1"] * (i % 9 + 1)) + b"\n" for i in range(300))
    yield "duplicate header", b"a,a,a\n1,2,3\n"
    yield "quoted newlines", b'a,b\n"1\n\n2",3\n' * 40
    yield "unclosed quote", good + b'1,"2\n' + good
    yield "unclosed quote at the start", b'"' + good
    yield "only quotes", b'"' * 4001
    yield "quotes and newlines", b'"\n' * 4001
    yield "mixed line ends", b"a,b\r1,2\n3,4\r\n\r\r\n5,6\n\r7,8"
    yield "huge line", lambda: b"1" * 18_000_000
    yield "huge line below", lambda: good + b"1," * 9_000_000
    yield "huge quote", lambda: good + b'1,"' + b"x\n" * 10_000_000
    yield "huge cell", lambda: good + b"1," + b"x" * 3_000_000 + b"\n"
    yield "many separators", lambda: b"," * 600_000 + b"\n"
    yield "many quotes", lambda: b'"",' * 200_000 + b"\n"
    yield "truncated gzip", gzip.compress(rng.randbytes(5000))[:-2000]
    yield "gzip without its end", gzip.compress(good)[:-4]
    yield "gzip with a wrong sum", gzip.compress(good)[:-8] + b"12345678"
    yield "gzip with more after it", gzip.compress(good) + b"more"
    yield "gzip of nothing", gzip.compress(b"")
    yield "gzip head only", b"\x1f\x8b"
    yield "gzip of a huge line", lambda: gzip.compress(b"1" * 18_000_000, 1)
    yield "deep JSON", b'{"a":' * 100_000 + b"\n"
    yield "deep lists", b"[" * 100_000
    yield "deep and closed", b'{"a":' * 900 + b"1" + b"}" * 900
    yield "long number", b'{"a": ' + b"9" * 5000 + b"}\n"
    yield "large number", b'{"a": ' + b"9" * 400 + b', "b": 1e999}\n'
    yield "JSON array", b'[{"a": 1}, {"a": 2}]\n'
    yield "pretty JSON", b'{\n  "a": 1\n}\n'
    yield "no keys", b"{}\n{}\n"
    yield "only lists", b'{"a": [1]}\n'
    yield "scalars", b'1\n"a"\nnull\ntrue\n'
    yield "escapes", b"a\\,b\\ c,t=\\ 1 f=1\\\n" * 9
    yield "only commas of tags", b"m,,, f=1\nm f=,\nm =1\nm f\nm  f=1 \nm f=1 1 1\n"
    yield "backslash at the end", b'm f="a\\'
    yield "strings open", b'm f="a\nm f="b\n' * 30 + b'm f="'
    for i in range(20):
        yield f"binary {i}", rng.randbytes(rng.choice([1, 10, 1000, 100_000]))
    for i in range(17):
        signs = b'a1,;|\t "\n\r\\#={}[]:.\0\xff\xe2\x82'
        yield f"signs {i}", bytes(rng.choices(signs, k=rng.choice([3, 50, 3000])))
    for i in range(14):
        data = bytearray(good)
        for _ in range(9):
            data[rng.randrange(len(data))] = rng.randrange(256)
        yield f"flipped {i}", bytes(data)


MALFORMED = dict(malformed())


def content_of(name):
    """The bytes of a malformed file; the large ones are made when they are asked for."""
    content = MALFORMED[name]
    return content() if callable(content) else content


def test_there_are_a_hundred_malformed_files():
    assert len(MALFORMED) >= 100


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_gives_rows_or_one_sentence(tmp_path, name):
    content = content_of(name)
    path = put(tmp_path, content)
    large = len(content) > 500_000 or "huge" in name
    if large:
        kinds = [(CSV, {}), (JSONLines, {}), (LineProtocol, {})]
    else:
        every = (CSV, JSONLines, LineProtocol, Lines)
        kinds = [(kind, {"max_bad": most}) for kind in every for most in (0, 10**6)]
        kinds += [(CSV, {"header": h, "separator": s}) for h in (True, False) for s in ", \t"]
        kinds += [(CSV, {"quote": None, "comment": "#", "max_bad": 10**6, "encoding": "latin-1"})]
    for kind, options in kinds:
        if large:
            tracemalloc.start()
        start = time.process_time()  # which other programs do not change
        try:
            with kind(path, **options) as source:
                assert len(source) > 0
                columns = source.read(range(min(len(source), 20_000)))
                assert len({len(column) for column in columns}) == 1
                assert len(set(source.names)) == len(source.names)
        except SourceError as error:
            sentence = str(error)
            assert "\n" not in sentence
            assert "\0" not in sentence
            assert len(sentence) < 600
        assert time.process_time() - start < 10
        if large:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 200e6
    assert {p.name for p in tmp_path.iterdir()} <= {"log.csv", "log.csv.efidx"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("empty", "is empty"),
        ("only blank lines", "is empty"),
        ("BOM only", "is empty"),
        ("header only", "names columns but has no rows"),
        ("huge line", "line 1 of {} is longer than 16 MB"),
        ("huge line below", "line 202 of {} is longer than 16 MB"),
        ("huge quote", "the row at line 202 of {} has a quote that is not closed within 16 MB"),
        ("truncated gzip", "is cut short or damaged; copy it again"),
        ("gzip without its end", "is cut short or damaged; copy it again"),
        ("gzip with a wrong sum", "is cut short or damaged; copy it again"),
        ("gzip of nothing", "is empty"),
        ("half UTF-16", "is not utf-16 text"),
        ("unclosed quote", "line 202 of {} opens a quote that is never closed"),
    ],
)
def test_sentences_about_malformed_files(tmp_path, name, words):
    path = put(tmp_path, content_of(name))
    assert words.format(path) in refused(lambda: CSV(path))


def test_paths_that_are_not_files(tmp_path):
    gone = tmp_path / "gone.csv"
    for kind in (CSV, JSONLines, LineProtocol, Lines):
        assert refused(lambda k=kind: k(gone)) == f"cannot read {gone}: no such file or directory"
        assert "is a folder" in refused(lambda k=kind: k(tmp_path))
        assert "cannot read" in refused(lambda k=kind: k("a\0b"))
        assert "cannot read" in refused(lambda k=kind: k("a\nb"))
        assert "is not an ordinary file" in refused(lambda k=kind: k("/dev/zero"))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "is not an ordinary file" in refused(lambda: CSV(pipe))


def test_a_file_that_may_not_be_read(tmp_path):
    path = put(tmp_path, "a,b\n1,2\n")
    path.chmod(0)
    if os.geteuid():
        said = refused(lambda: CSV(path))
    else:  # root may read everything; nobody may not
        code = f"import os; os.setuid(65534)\ntry: CSV({str(path)!r})\nexcept ValueError as e: print(e)"
        done = subprocess.run(
            [sys.executable, "-c", f"from edgeforest.sources import CSV; {code}"],
            capture_output=True,
            text=True,
        )
        said = done.stdout.strip() or done.stderr
    assert said == f"cannot read {path}: permission denied"


# ---- JSON lines

KEYS = st.text(st.sampled_from('abé \n"'), min_size=1, max_size=3)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)


def plain(value):
    """An object by its dotted names, in the simplest way."""
    if isinstance(value, dict):
        return {
            f"{key}.{rest}" if rest else key: leaf
            for key, inner in value.items()
            for rest, leaf in plain(inner).items()
        }
    return {} if isinstance(value, list) else {"": int(value) if isinstance(value, bool) else value}


@pytest.mark.usefixtures("small")
@CALM
@given(
    st.lists(
        st.dictionaries(
            KEYS,
            SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(KEYS, SCALARS, max_size=2),
            max_size=3,
        ),
        min_size=1,
        max_size=20,
    ),
    st.booleans(),
)
def test_json_lines_are_objects_by_dotted_names(tmp_path, objects, ascii_only):
    lines = [json.dumps(each, ensure_ascii=ascii_only) for each in objects]
    path = put(tmp_path, "\n\n".join(lines))
    flat = [plain(each) for each in objects]
    names = list(dict.fromkeys(key for row in flat for key in row))
    if not names:
        assert "has no values" in refused(lambda: JSONLines(path))
        return
    with JSONLines(path) as source:
        assert source.names == names
        assert not source.texts
        expected = [[row.get(name) for name in names] for row in flat]
        assert repr(rows_of(source)) == repr(expected)
        assert repr(rows_of(source, [len(flat) - 1])) == repr(expected[-1:])


def test_json_keys_are_looked_for_in_all_of_the_file(tmp_path):
    rows = [{"t": i, "late": 1} if i > 15_000 else {"t": i} for i in range(20_000)]
    path = put(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))
    with JSONLines(path) as source:
        assert source.names == ["t", "late"]
        assert source.read([3, 19_000]) == [[3, 19_000], [None, 1]]
    with JSONLines(path, names=["late", "never"]) as source:
        assert source.read([3, 19_000]) == [[None, 1], [None, None]]


def test_json_rows_that_are_not_objects(tmp_path):
    path = put(tmp_path, '{"a": 1}\n\n[1]\n{"a": 2\n{"a": 3}\n')
    assert refused(lambda: JSONLines(path)).startswith(f"line 3 of {path} is not a JSON object;")
    with JSONLines(path, max_bad=2) as source:
        assert source.read(range(4)) == [[1, 3]]
        assert source.complaints[1][0] == "line 4"
        assert (
            "is not a JSON object (Expecting ',' delimiter at character 8)" in source.complaints[1]
        )
    for name in ("JSON array", "pretty JSON"):
        assert "one JSON object a line" in refused(
            lambda n=name: JSONLines(put(tmp_path, content_of(n)))
        )
    with JSONLines(put(tmp_path, content_of("large number"))) as source:
        assert source.read([0]) == [[math.inf], [math.inf]]


# ---- Line protocol


def escaped(text, signs):
    return "".join("\\" + c if c in signs else c for c in text)


WORDS = st.text(st.sampled_from('ab1é,= "#'), min_size=1, max_size=4)
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(10**18), 10**18),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.sampled_from('ab\\", =\n\r#'), max_size=6),
)


def written_value(value):
    if isinstance(value, bool):
        return random.Random(0).choice(["t", "true", "TRUE"]) if value else "F"
    if isinstance(value, int):
        return f"{value}i"
    return repr(value) if isinstance(value, float) else '"' + escaped(value, '\\"') + '"'


@pytest.mark.usefixtures("small")
@CALM
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["air", "soil, wet"]),
            st.dictionaries(
                WORDS, st.text(st.sampled_from("ab1é, ="), min_size=1, max_size=4), max_size=2
            ),
            st.dictionaries(WORDS, VALUES, min_size=1, max_size=3),
            st.none() | st.integers(-5, 10**19),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_line_protocol_is_read_as_it_was_written(tmp_path, points):
    out = []
    for kind, tags, fields, when in points:
        head = "".join(f",{escaped(k, ',= ')}={escaped(v, ',= ')}" for k, v in tags.items())
        body = ",".join(f"{escaped(k, ',= ')}={written_value(v)}" for k, v in fields.items())
        out.append(f"{escaped(kind, ', ')}{head} {body}{'' if when is None else f' {when}'}\n")
    path = put(tmp_path, '# a="note\n\n'.join(out))
    with LineProtocol(path) as source:
        assert len(source) == len(points)
        expected = []
        for kind, tags, fields, when in points:
            row = {(0, "measurement"): kind, **{(1, k): v for k, v in tags.items()}}
            row |= {(2, k): v for k, v in fields.items()} | {(3, "time"): when}
            expected.append([row.get(key) for key in source._keys])
        assert rows_of(source) == expected
        assert ((0, "measurement") in source._keys) == (len({p[0] for p in points}) > 1)
        assert ((3, "time") in source._keys) == any(p[3] is not None for p in points)
        known = {(1, k) for p in points for k in p[1]} | {(2, k) for p in points for k in p[2]}
        assert known <= set(source._keys)


def test_line_protocol_names_and_values(tmp_path):
    path = put(
        tmp_path,
        'air,room=hall,time=x temp=20.5,n=3i,u=4u,on=true,room="a b" 1700000000\n'
        "# a comment\n"
        "air,room=attic temp=-1e3,on=F 1700000001\n",
    )
    with LineProtocol(path) as source:
        assert source.names == ["room", "time", "temp", "n", "u", "on", "room.2", "time.2"]
        assert rows_of(source) == [
            ["hall", "x", 20.5, 3, 4, 1, "a b", 1700000000],
            ["attic", None, -1000.0, None, None, 0, None, 1700000001],
        ]
        assert not source.texts


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("air", "no fields"),
        ("air temp", "no name of a field at character 5"),
        ("air temp=", "no value of a field at character 10"),
        ("air temp=abc", "'abc' is not a value"),
        ("air temp=1_0", "'1_0' is not a value"),
        ("air temp=nan", "'nan' is not a value"),
        ("air,room temp=1", "no name of a tag at character 5"),
        ("air temp=1 noon", "no time at character 11"),
        ("air temp=1 5 6", "more after the time at character 13"),
        (",room=a temp=1", "no measurement at character 1"),
        ('air temp="a', "no value of a field at character 10"),
    ],
)
def test_lines_that_are_not_line_protocol(tmp_path, line, why):
    path = put(tmp_path, f"air temp=1 1\n\n{line}\n")
    sentence = refused(lambda: LineProtocol(path))
    assert sentence.startswith(f"line 3 of {path} is not line protocol ({why})")


# ---- Lines


def test_lines_by_themselves(tmp_path):
    with Lines(put(tmp_path, "one\n\n; two\n three \n"), comment=";") as source:
        assert source.names == ["line"]
        assert source.read([0, 1]) == [["one", "three"]]


@pytest.mark.skipif(
    not records.RESTORES, reason="this Python has the bug that is worked around here"
)
@pytest.mark.parametrize("options", [{}, {"comment": "#"}, {"separator": " ", "comment": "#"}])
def test_the_patterns_for_older_pythons_find_the_same_quotes(tmp_path, monkeypatch, options):
    path = put(tmp_path, b"a b,c d\n1 2,3 4\n")
    with CSV(path, **options) as now:
        monkeypatch.setattr(records, "RESTORES", False)
        with CSV(path, **options) as older:
            assert older.records.fast.pattern != now.records.fast.pattern
            rng = random.Random(5)
            for _ in range(3000):
                given = bytes(rng.choices(b'""",, a\n\n\r#', k=rng.randrange(30)))
                assert older.records.mask(given) == now.records.mask(given), given
