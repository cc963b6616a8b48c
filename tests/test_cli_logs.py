"""Logs that commands read: of every kind, through options, and damaged."""

import gzip
import importlib.util
import io
import random
import re
import signal
import sqlite3
import sys
from collections import Counter

import pytest
from command_line import COMMON, numbers, refused, table
from test_sources_text import MALFORMED, content_of

import edgeforest
from edgeforest import cli
from edgeforest.cli import logs as reading
from edgeforest.sources import SourceError, open_source, pack


def test_standard_input_and_it_stays_open(monkeypatch, capsys, model, log):
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(log.read_bytes())))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert cli.main(["train", "-", "--target", "activity", "--budget", "2k", "--trees", "2"]) == 0
    assert "the standard input: 1,500 rows" in capsys.readouterr().out
    assert not stdin.closed
    assert not stdin.buffer.closed


@pytest.mark.parametrize(
    "names", ["log.csv.gz", "log.tsv", "log.jsonl", "log.db", "part1.csv part2.csv", "part?.csv"]
)
def test_logs_of_every_kind_give_the_same_model(names, logs, model, tmp_path, capsys):
    out = tmp_path / "model.json"
    paths = [str(logs / name) for name in names.split()]
    assert cli.main(["train", *paths, *COMMON, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "1,500 rows, 6 features" in text
    assert out.read_bytes() == model.read_bytes()
    assert cli.main(["predict", str(out), *paths]) == 0
    predicted = capsys.readouterr().out
    assert cli.main(["predict", str(out), str(logs / "log.csv")]) == 0
    assert predicted == capsys.readouterr().out


def test_parquet_and_npy(logs, model, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    import pandas as pd

    frame = pd.read_csv(logs / "log.csv")
    frame.to_parquet(tmp_path / "log.parquet")
    out = tmp_path / "model.json"
    command = ["train", str(tmp_path / "log.parquet"), *COMMON, "--out", str(out)]
    assert cli.main(command) == 0
    assert out.read_bytes() == model.read_bytes()
    np = pytest.importorskip("numpy")
    np.save(tmp_path / "log.npy", frame[["light", "co2"]].to_numpy())
    capsys.readouterr()
    assert cli.main(["train", str(tmp_path / "log.npy"), "--target", "x1", "--trees", "2"]) == 0
    assert "1 number: x0" in capsys.readouterr().out


def test_the_standard_input_may_be_any_of_them(logs, monkeypatch, capsys):
    for name in ("log.jsonl", "log.csv.gz", "log.db"):
        stdin = io.TextIOWrapper(io.BytesIO((logs / name).read_bytes()))
        monkeypatch.setattr(sys, "stdin", stdin)
        assert cli.main(["train", "-", *COMMON]) == 0
        assert "the standard input: 1,500 rows" in capsys.readouterr().out or name == "log.db"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x,y\n1,a\n2\n")))
    said = refused(capsys, "train", "-", "--target", "y")
    assert said.startswith("line 3 of the standard input has 1 value where there are 2 columns;")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert "the standard input is empty" in refused(capsys, "train", "-", "--target", "y")
    assert "cannot be joined" in refused(capsys, "train", "-", "log.csv", "--target", "y")


def test_a_disk_that_is_full_for_the_standard_input(monkeypatch, capsys):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reading.shutil, "copyfileobj", full)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x,y\n1,a\n")))
    said = refused(capsys, "train", "-", "--target", "y")
    assert said.startswith("cannot copy the standard input to ")
    assert said.endswith(": no space left on device; save it as a file first")


def test_dates_become_numbers_on_request(logs, tmp_path, capsys):
    out = str(tmp_path / "model.json")
    path = str(logs / "log.csv")
    command = ["train", path, "--target", "activity", "--trees", "5", "--out", out]
    assert cli.main([*command, "--dates", "time.hour,time.weekday", "--dates", "time"]) == 0
    assert "left out" not in capsys.readouterr().out
    forest = edgeforest.load(out)
    assert {"time", "time.hour", "time.weekday"} <= set(forest.names)
    said = refused(capsys, "predict", out, path)
    assert "has no column 'time.hour', which the model was trained on" in said
    assert said.endswith("; use --dates time.hour, as for the training")
    said = refused(capsys, "predict", out, path, "--dates", "time.hour,time.weekday")
    assert "has '2025-03-03T06:00' in column 'time', which must be a number" in said
    assert "use --dates time, as for the training" in said
    dates = ["--dates", "time,time.hour,time.weekday"]
    assert cli.main(["predict", out, path, "--target", "activity", *dates]) == 0
    out, err = capsys.readouterr()
    assert float(re.match(r"accuracy (\d\.\d+) on 1,500 rows", err)[1]) > 0.95


def test_dates_in_a_format_of_their_own(tmp_path, capsys):
    lines = [
        f"{1 + i % 28}.05.2024 {i % 24}:00;{'on' if i % 24 > 11 else 'off'}" for i in range(99)
    ]
    path = table(tmp_path, "\n".join(["time;y", *lines, "never;on", "1.5.;off"]))
    command = ["train", path, "--target", "y", "--dates", "time,time.hour=%d.%m.%Y %H:%M"]
    assert "line 101 of" in refused(capsys, *command)
    assert "has 'never' in column 'time', which is not a date like %d." in refused(capsys, *command)
    assert cli.main([*command, "--max-bad", "2"]) == 0
    text = capsys.readouterr().out
    assert "2 numbers: time, time.hour" in text
    assert "skipped    2 rows that cannot be read:" in text
    for wrong in ("=%d", "time=", ""):
        said = refused(capsys, "train", path, "--target", "y", "--dates", wrong)
        assert said.startswith("--dates must be columns such as time,seen or time=%d.%m.%Y, got")


def test_options_say_how_a_file_is_read(tmp_path, capsys):
    text = "' 1|5|grün\n# no\n' 2|6|rot\n"
    path = table(tmp_path, (text * 9).encode("latin-1"))
    command = ["train", path, "--target", "column 3", "--no-header", "--comment", "#"]
    reading = ["--separator", "|", "--encoding", "latin-1", "--no-quotes", "--trees", "2"]
    assert cli.main([*command, *reading]) == 0
    text = capsys.readouterr().out
    assert "18 rows, 2 features" in text
    assert "column 3: 2 classes, grün (50%), rot (50%)" in text
    comma = table(tmp_path, "a;y\n" + "1,5;u\n2.5;v\n3.5;u\n" * 5)
    assert cli.main(["train", comma, "--target", "y", "--decimal-comma"]) == 0
    assert "1 number: a" in capsys.readouterr().out
    years = table(tmp_path, "2023,2024\n1,2\n3,4\n5,6\n")
    said = refused(capsys, "train", years, "--target", "2024")
    assert said.endswith("it has column 1, column 2; use --header if its first line names them")
    assert cli.main(["train", years, "--target", "2024", "--header"]) == 0
    assert "3 rows, 1 feature\n           1 number: 2023" in capsys.readouterr().out
    said = refused(capsys, "train", table(tmp_path, '{"a": 1}', "a.jsonl"), *command[2:])
    assert re.search(
        r"^--header is not an option of JSONLines, which reads .*a\.jsonl; leave it out$", said
    )


def test_tables_of_a_database(tmp_path, capsys):
    path = tmp_path / "house.db"
    database = sqlite3.connect(path)
    for name in ("attic", "hall"):
        database.execute(f"CREATE TABLE {name} (x, y)")
        database.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(i, i % 2) for i in range(50)])
    database.commit()
    database.close()
    said = refused(capsys, "train", path, "--target", "y")
    assert said == f"--table must name the table of {path} to read; it has attic, hall"
    for what, rows in (("hall", 50), ("SELECT x, y FROM hall WHERE x < 30", 30)):
        assert cli.main(["train", str(path), "--table", what, "--target", "y"]) == 0
        assert f"{path}: {rows} rows" in capsys.readouterr().out
    assert "no table 'cellar'" in refused(
        capsys, "train", path, "--target", "y", "--table", "cellar"
    )


def damaged(logs, folder):
    """Files of each kind that were cut short or have wrong bytes in them."""
    rng = random.Random(5)
    pack(open_source(str(logs / "part1.csv")), folder / "p.npy").close()
    good = {name: (logs / name).read_bytes() for name in ("log.csv.gz", "log.jsonl", "log.db")}
    good["log.npy"] = (folder / "p.npy").read_bytes()
    if importlib.util.find_spec("pyarrow"):
        import pyarrow.parquet

        columns = pyarrow.table({"co2": list(range(500)), "activity": ["a", "b"] * 250})
        pyarrow.parquet.write_table(columns, folder / "p.parquet")
        good["log.parquet"] = (folder / "p.parquet").read_bytes()
    for name, content in good.items():
        yield name, content[:16]
        yield name, content * 2
        for _ in range(5):
            yield name, content[: rng.randrange(len(content))]
        for _ in range(8):
            wrong = bytearray(content)
            for _ in range(rng.choice([1, 20])):
                wrong[rng.randrange(min(len(wrong), rng.choice([200, 1 << 30])))] = rng.randrange(
                    256
                )
            yield name, bytes(wrong)


def outcome(capsys, *arguments):
    """Train; a model, or one sentence. Nothing may raise, and nothing may hang."""

    def hangs(number, frame):
        raise TimeoutError(f"{arguments} hangs")

    capsys.readouterr()
    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(60)
    try:
        code = cli.main(["train", *map(str, arguments)])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    err = capsys.readouterr().err
    assert (code, err) == (0, "") or code == 2, err
    if code:
        assert re.fullmatch(r"edgeforest: [^\n\0]{10,600}\n", err), err
    return code


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="needs alarms")
def test_damaged_files_give_a_model_or_one_sentence(logs, tmp_path, capsys, figure):
    codes = Counter()
    for number, (name, content) in enumerate(damaged(logs, tmp_path)):
        path = tmp_path / name
        path.write_bytes(content)
        codes[outcome(capsys, path, *COMMON, "--max-bad", ("0", "1G")[number % 2])] += 1
        path.unlink()
    figure(f"{codes[0]} models, {codes[2]} sentences")
    assert codes.total() >= 60
    assert codes[0] > 5


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="needs alarms")
def test_malformed_files_give_a_model_or_one_sentence(tmp_path, capsys, figure):
    """What each kind of file makes of each content is asked beside the sources."""
    codes = Counter()
    for number, what in enumerate(MALFORMED):
        if "huge" in what and what not in ("huge line", "huge cell"):
            continue  # more of these beside the sources themselves
        content = content_of(what)
        large = len(content) > 500_000
        for name in ("log.csv",) if large else ("log.csv", ("log.jsonl", "log.lp")[number % 2]):
            path = tmp_path / name
            path.write_bytes(content)
            target = "a"
            try:
                with open_source(path, max_bad=10**6) as source:
                    target = source.names[-1]
            except SourceError:
                pass
            options = ["--target", target, "--trees", "2", "--max-bad", "1M"]
            codes[outcome(capsys, path, *options)] += 1
            if name == "log.csv" and not large and number % 3 == 0:
                checkpoint = tmp_path / "model.json"
                codes[outcome(capsys, path, *options, "--checkpoint", checkpoint)] += 1
                if checkpoint.exists():
                    assert len(edgeforest.load(checkpoint)) == 2
                    checkpoint.unlink()
    figure(f"{codes[0]} models, {codes[2]} sentences")
    assert codes[0] > 5


def test_empty_files(tmp_path, capsys):
    for text in ("", "\n\n", "\ufeff"):
        said = refused(capsys, "train", table(tmp_path, text), "--target", "y")
        assert "log.csv is empty" in said
    assert "has no rows" in refused(capsys, "train", table(tmp_path, "x,y\n"), "--target", "y")


def test_ragged_rows_are_named_by_their_line(tmp_path, capsys, model):
    text = '\nx,y\n1,a\n\n2,"b\nb"\n3\n'
    said = refused(capsys, "train", table(tmp_path, text), "--target", "y")
    assert "line 7 of" in said
    assert (
        "has 1 value where there are 2 columns; fix it, or skip such rows with --max-bad N" in said
    )
    said = refused(capsys, "train", table(tmp_path, "x,y\n1,a\n2,b,\n"), "--target", "y")
    assert "line 3 of" in said
    trailing = table(tmp_path, "x,y\n1,a,\n2,b,\n")
    assert cli.main(["train", trailing, "--target", "y"]) == 0, "a separator too many in each row"
    assert "left out: column 3 (the header does not name it)" in capsys.readouterr().out


def test_files_that_are_not_tables(tmp_path, capsys):
    def said(content):
        return refused(capsys, "train", table(tmp_path, content), "--target", "y")

    latin = "x,y\n1,grün\n2,rot\n".encode("latin-1")
    assert "line 2 of" in said(latin)
    assert "is not utf-8 text (use --encoding NAME if it has another)" in said(latin)
    assert "is not utf-16 text" in said("x,y\n1,2\n".encode("utf-16")[:-1])
    whole = gzip.compress(numbers(5000).encode())
    assert "is cut short or damaged" in said(whole[: len(whole) // 2])
    assert "line 3 of" in said('x,y\n1,a\n2,"b\n' + "3,c\n" * 40_000)
