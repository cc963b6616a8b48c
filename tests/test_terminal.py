"""What others have written never reaches a terminal raw: a terminal obeys some characters."""

import csv
import json
import os
import random
import sqlite3
import subprocess
import sys

import pytest

import edgeforest
from edgeforest import cli

# Clear the screen, ring, go back, delete, a C1 control, and marks that turn the direction.
MARKS = "\x07\x08\x7f\x85\x9b\u061c\u200e\u200f\u202a\u202e\u2028\u2029\u2066\u2069"
NASTY = f"n\x1b[2J\x1b]0;own\x07{MARKS}m"
CELL = f"c\x1b[31m{MARKS}d"
LABEL = f"l\x1b[2K{MARKS}k"


def plain(text):
    """The text, if a terminal shows all of it."""
    raw = [c for c in text if not c.isprintable() and c != "\n"]
    assert not raw, ascii(raw)
    return text


@pytest.fixture
def place(tmp_path):
    """A folder with the worst name that a folder can have."""
    folder = tmp_path / f"f\x1b[2J{MARKS}\nedgeforest: saved"
    folder.mkdir()
    return folder


@pytest.fixture
def log(place):
    """A log with nasty names, categories and labels."""
    path = place / "log.csv"
    rng = random.Random(3)
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([f"{NASTY}1", f"{NASTY}\n2", f"time{NASTY}", f"id{NASTY}", f"y{NASTY}"])
        for i in range(400):
            label = LABEL if i % 3 else "b"
            date = f"2024-05-{1 + i % 28:02}"
            writer.writerow(
                [rng.random(), [CELL, "e", ""][i % 3 if i % 5 else 0], date, f"{CELL}{i}", label]
            )
    return path


def run(capsys, *arguments, code=0):
    assert cli.main([str(argument) for argument in arguments]) == code
    out, err = capsys.readouterr()
    return plain(out), plain(err)


def test_every_command_shows_names_as_they_are(place, log, capsys):
    target = f"y{NASTY}"
    model, other = place / "model.json", place / "other.json"
    out, _ = run(capsys, "train", log, "--target", target, "--trees", 3, "--out", model)
    assert "n\\x1b[2J" in out
    words = " ".join(out.split())
    assert "left out: id" in words
    assert "--dates time" in words
    common = ["--target", target, "--trees", 2]
    run(capsys, "train", log, *common, "--checkpoint", other)
    run(capsys, "train", log, *common, "--checkpoint", other, "--resume")
    dated = f"time{NASTY},time{NASTY}.hour"
    run(capsys, "train", log, *common, "--out", other, "--dates", dated)
    out, _ = run(capsys, "inspect", model)
    assert "c\\x1b[31m" in out
    run(capsys, "merge", model, model, "--out", other)
    out, err = run(capsys, "predict", model, log, "--target", target, "--out", place / "p.csv")
    assert LABEL in (place / "p.csv").read_text(encoding="utf-8"), "data stays exact"
    new = place / "new.csv"
    new.write_text(log.read_text(encoding="utf-8").replace(CELL, f"{CELL}new"), encoding="utf-8")
    _, err = run(capsys, "predict", model, new, "--proba", "--out", place / "p.csv")
    assert "has values that the model has not met" in err
    for ending in (".json", ".h", ".py", ".onnx"):
        if ending == ".onnx":
            pytest.importorskip("onnx")
        run(capsys, "export", model, place / f"again{ending}")
    key = place / "key"
    key.write_bytes(b"k" * 32)
    run(capsys, "export", model, other, "--sign", key)
    run(capsys, "verify", other, "--key", key)
    run(capsys, "demo", "--out", place / "demo", "--rows", 200)


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "LOG", "--target", NASTY],
        ["train", "LOG", "--target", f"y{NASTY}", "--drop", NASTY],
        ["train", "LOG", "--target", f"y{NASTY}", "--criterion", "mse"],
        ["train", "LOG", "--target", f"y{NASTY}", "--task", "regression"],
        ["train", "LOG", "--target", f"id{NASTY}"],
        ["train", "LOG", "--target", f"y{NASTY}", "--dates", f"{NASTY}1"],
        ["train", "LOG", "--target", f"y{NASTY}", "--dates", NASTY],
        ["train", "LOG", "LOG", "--target", f"y{NASTY}"],
        ["train", "LOG", "--target", f"y{NASTY}", "--categorical", f"id{NASTY}"],
        ["train", NASTY, "--target", "y"],
        ["train", "LOG", "--target", "y", "--separator", NASTY],
        ["train", "LOG", "--target", "y", "--encoding", NASTY],
        ["train", "LOG", "--target", "y", "--table", NASTY],
        ["train", "LOG", "--target", "y", "--bytes", NASTY],
        ["train", "LOG", "--target", "y", f"--{NASTY}"],
        ["predict", "LOG", "LOG"],
        ["inspect", NASTY],
        ["merge", "LOG", NASTY, "--out", NASTY],
        ["export", "LOG", NASTY],
        ["verify", "LOG", "--key", NASTY],
        [NASTY],
    ],
)
def test_every_sentence_shows_names_as_they_are(log, capsys, arguments):
    given = [str(log) if argument == "LOG" else argument for argument in arguments]
    _, err = run(capsys, *given, code=2)
    assert len(err.splitlines()) == 1
    assert err.startswith("edgeforest: ")


def test_other_sources_show_names_as_they_are(place, capsys):
    rows = [{NASTY: i % 7, "y": LABEL if i % 2 else "b"} for i in range(60)]
    jsonl = place / "log.jsonl"
    jsonl.write_text("\n".join(map(json.dumps, rows)))
    run(capsys, "train", jsonl, "--target", "y", "--trees", 1)
    protocol = place / "log.lp"
    tag = LABEL.translate({0x2028: None, 0x2029: None, 0x85: None})
    protocol.write_text(
        "\n".join(f"air,y={tag if i % 2 else 'b'} x\x1b={i}" for i in range(60)), encoding="utf-8"
    )
    run(capsys, "train", protocol, "--target", "y", "--trees", 1)
    with sqlite3.connect(place / "log.db") as database:
        database.execute(f'CREATE TABLE "{NASTY}" ("{NASTY}", y)')
        database.executemany(
            f'INSERT INTO "{NASTY}" VALUES (?, ?)', [(i, i % 2) for i in range(60)]
        )
        database.execute("CREATE TABLE t (a)")
    database.close()
    run(capsys, "train", place / "log.db", "--table", NASTY, "--target", "y", "--trees", 1)
    for wanted in (NASTY + "x", "", f"SELECT '{NASTY}", f'SELECT "{NASTY}" FROM t'):
        run(capsys, "train", place / "log.db", "--table", wanted, "--target", "y", code=2)
    for name in ("bad.npy", "bad.parquet", "bad.db"):
        start = {"bad.npy": b"\x93NUMPY", "bad.parquet": b"PAR1", "bad.db": b"SQLite format 3\0"}
        (place / name).write_bytes(start[name] + b"\x1b[2J")
        run(capsys, "train", place / name, "--target", "y", code=2)


def hostile():
    """A forest whose names, categories and labels are nasty."""
    rows = [[i % 7, [CELL, "e"][i % 2]] for i in range(60)]
    labels = [LABEL if a > 3 or c == CELL else "b" for a, c in rows]
    options = {"categorical": [1], "n_trees": 3, "max_features": 2}
    return edgeforest.train(rows, labels, names=[NASTY, f"2{NASTY}"], **options)


def test_texts_of_the_library_show_names_as_they_are():
    forest = hostile()
    text = plain(edgeforest.export_text(forest, show_votes=True))
    assert "n\\x1b[2J" in text
    assert "l\\x1b[2K" in text
    for row in ([1, "e"], [5, CELL], [None, None], [1, "new\x1b"]):
        why = edgeforest.explain(forest, row)
        plain(str(why))
        plain(why.text(top=None))
        plain(why.path(0))
        for condition in why.conditions:
            plain(str(condition))


def test_sentences_of_the_library_show_names_as_they_are(place):
    forest = hostile()
    path = place / "log.csv"
    path.write_text(f"a,{NASTY}\n1,2\n3,4\n", encoding="utf-8")
    for action in (
        lambda: forest.predict([["x", "e"]]),
        lambda: edgeforest.explain(forest, {"a": 1}),
        lambda: edgeforest.train_source(path, NASTY + "x"),
        lambda: edgeforest.open_source(path, dates=[NASTY + "x"]),
        lambda: edgeforest.open_source(place / f"{NASTY}.csv"),
        lambda: edgeforest.open_source([path, path]),
        lambda: edgeforest.open_source(path, table_or_query="t"),
        lambda: edgeforest.open_source(path).read([9]),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            action()
        assert plain(str(caught.value))


def test_pictures_show_names_as_they_are():
    pytest.importorskip("matplotlib").use("Agg")
    forest = hostile()
    texts = [text.get_text() for text in edgeforest.plot_tree(forest).texts]
    texts += [label.get_text() for label in edgeforest.plot_importances(forest).get_yticklabels()]
    assert any("\\x1b" in text for text in texts)
    for text in texts:
        plain(text)


def test_names_of_estimators_are_shown_as_they_are():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({NASTY: range(40), "b": range(40)})
    model = edgeforest.RandomForestClassifier(2).fit(frame, [i % 2 for i in range(40)])
    with pytest.raises(ValueError, match="unseen at fit") as caught:
        model.predict(frame.rename(columns={NASTY: NASTY + "x"}))
    plain(str(caught.value))


# ---- A real terminal, and a strict one


def test_a_terminal_sees_predictions_and_progress_as_they_are(log, place):
    pty = pytest.importorskip("pty")
    model = place / "model.json"
    target = f"y{NASTY}"
    assert (
        cli.main(["train", str(log), "--target", target, "--trees", "2", "--out", str(model)]) == 0
    )

    def seen(*arguments):
        leader, follower = pty.openpty()
        command = [sys.executable, "-m", "edgeforest", *map(str, arguments)]
        process = subprocess.Popen(command, stdout=follower, stderr=follower)
        os.close(follower)
        data = b""
        while True:
            try:
                block = os.read(leader, 65536)
            except OSError:  # on Linux: the writer has closed its end
                break
            if not block:
                break
            data += block
        os.close(leader)
        assert process.wait() == 0
        text = data.decode().replace("\r\n", "\n")
        return plain(text.replace("\r\x1b[K", ""))  # our own: the status line

    out = seen("predict", model, log, "--proba")
    assert "prediction,p_b,p_l\\x1b[2K" in out
    assert "n\\x1b[2J" in seen("train", log, "--target", target, "--trees", 2)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_strict_encoding_does_not_end_a_run(tmp_path, encoding):
    log = tmp_path / "log.csv"
    rows = "".join(f"{i % 9},{'温' if i % 9 > 4 else 'ß'}\n" for i in range(200))
    log.write_text(f"°C,窓\n{rows}", encoding="utf-8")
    # Arguments are UTF-8 in any locale; what is printed is in an encoding that may lack a letter.
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    environment["LC_ALL"] = "C.UTF-8"

    def run(*arguments, code=0):
        command = [sys.executable, "-m", "edgeforest", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, env=environment)
        assert done.returncode == code, done.stderr
        assert b"Traceback" not in done.stderr
        return done.stdout

    model = tmp_path / "model.json"
    run("train", log, "--target", "窓", "--trees", 2, "--out", model)
    run("inspect", model)
    run("train", log, "--target", "窗", code=2)
    found = run("predict", model, log).decode("utf-8").split()
    assert found[0] == "prediction"
    assert set(found[1:]) <= {"温", "ß"}, "data is exact, whatever the terminal can show"
    run("predict", model, log, "--out", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text(encoding="utf-8").split() == found


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux")
def test_a_file_name_that_is_not_text(tmp_path, capsys):
    folder = os.fsencode(tmp_path) + b"/log\xff"
    os.mkdir(folder)
    path = os.fsdecode(folder + b"/a\xfe.csv")
    with open(path, "w") as stream:
        stream.write("a,b\n" + "".join(f"{i % 9},{i % 2}\n" for i in range(60)))
    model = os.fsdecode(folder + b"/m\xfd.json")
    out, _ = run(capsys, "train", path, "--target", "b", "--trees", 1, "--out", model)
    assert "a\\udcfe.csv" in out
    run(capsys, "inspect", model)
    run(capsys, "predict", model, path, "--out", os.fsdecode(folder + b"/p\xfc.csv"))
    for ending in (b".h", b".py", b".json"):
        run(capsys, "export", model, os.fsdecode(folder + b"/e\xfb" + ending))
    _, err = run(capsys, "train", path, "--target", "c\udcfd", code=2)
    assert "has no column 'c\\udcfd'" in err
