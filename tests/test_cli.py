"""The command line: what it reads, prints and writes, and how it refuses."""

import argparse
import csv
import gzip
import importlib.util
import io
import json
import os
import random
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from test_sources_text import MALFORMED

import edgeforest
from edgeforest import cli, engine, storage
from edgeforest.cli import demo
from edgeforest.forests.merging import merge
from edgeforest.host import disk
from edgeforest.sources import SourceError, open_source, pack
from edgeforest.sources.schema import whole
from edgeforest.sources.tables import TableError, prepare

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ["train", "predict", "inspect", "merge", "export", "verify", "demo", "engines"]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A sensor log of 1,500 rows."""
    path = tmp_path_factory.mktemp("log") / "log.csv"
    write(path, [demo.COLUMNS, *demo.sample_log(1500, seed=3)])
    return path


@pytest.fixture(scope="module")
def model(log):
    """A forest that tells the activity, trained through the command line."""
    path = log.parent / "model.json"
    code = cli.main(
        [
            "train",
            str(log),
            "--target",
            "activity",
            "--budget",
            "30k",
            "--trees",
            "5",
            "--out",
            str(path),
        ]
    )
    assert code == 0
    return path


@pytest.fixture
def given(monkeypatch):
    """What is given to every training: rows, targets and options."""
    calls, inside = [], []  # train_steps reads, sources read by themselves

    def watch(name):
        function = getattr(engine, name)

        def spy(X, y, **options):
            if not inside:
                calls.append((X, y, options))
            inside.append(name)
            try:
                return function(X, y, **options)
            finally:
                inside.pop()

        monkeypatch.setattr(engine, name, spy)

    watch("train_steps")
    watch("read")
    return calls


def write(path, rows, separator=","):
    with open(path, "w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter=separator, lineterminator="\n").writerows(rows)


def table(tmp_path, text, name="log.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def prepared(path, target, **options):
    """A small file, ready for training."""
    with open_source(path) as source:
        return prepare(whole(source), target, **options)


def numbers(n, bad=None, column="x"):
    """A small table whose target is learnt from x; `bad` maps a row to what x holds there."""
    lines = [f"{column},y"]
    for i in range(n):
        lines.append(f"{(bad or {}).get(i, i)},{'high' if i >= n // 2 else 'low'}")
    return "\n".join(lines) + "\n"


def refused(capsys, *arguments):
    """The sentence with which a command is refused."""
    capsys.readouterr()
    assert cli.main([str(a) for a in arguments]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("edgeforest: ")
    assert err.count("\n") == 1, "an error is one line"
    assert "Traceback" not in out + err
    return err.removeprefix("edgeforest: ").rstrip()


# ---- train


def test_train_reports_what_was_read_spent_and_reached(log, tmp_path, capsys):
    out = tmp_path / "model.json"
    arguments = ["train", str(log), "--target", "activity", "--budget", "30k", "--trees", "5"]
    assert cli.main([*arguments, "--out", str(out)]) == 0
    text, err = capsys.readouterr()
    assert err == "", "no progress where nobody watches"
    assert "1,500 rows, 6 features" in text
    assert "5 numbers: temperature, humidity, light, co2, vibration" in text
    assert "1 categorical: window (3 values)" in text
    assert "left out: time (text, 1,500 distinct dates; --dates time makes numbers" in text
    assert re.search(r"missing: \d+ values \(\d\.\d%\), most in \w+ \(\d+\)", text)
    assert re.search(r"target +activity: 3 classes, empty \(\d\d%\)", text)
    forest = edgeforest.load(str(out))
    assert 0 < forest.spent.insertions <= 30_000
    assert f"{forest.spent.insertions:,} of 30,000 insertions" in text
    assert f"{len(forest)} trees, {len(forest.feature):,} nodes" in text
    assert "on 300 held-out rows" in text
    assert f"{out}, {out.stat().st_size / 1000:.1f} kB" in text
    accuracy = float(re.search(r"accuracy (\d\.\d+)", text)[1])
    naive = float(re.search(r"(\d\.\d+) by always guessing 'empty'", text)[1])
    assert naive < accuracy <= 1
    bars = re.findall(r"^\s*(?:important)?\s+(\w+) +(0\.\d+) +(#*)$", text, re.MULTILINE)
    assert len(bars) == 5
    assert [len(bar) for _, _, bar in bars] == sorted((len(b) for _, _, b in bars), reverse=True)
    best = max(zip(forest.feature_importances, forest.names, strict=True))[1]
    assert bars[0][0] == best


def test_same_seed_same_model_other_seed_other_model(log, tmp_path):
    def trained(seed):
        out = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        common = ["--budget", "10k", "--trees", "3", "--out", str(out), "--seed", str(seed)]
        assert cli.main(["train", str(log), "--target", "activity", *common]) == 0
        return out.read_bytes()

    assert trained(1) == trained(1) != trained(2)


def test_held_out_rows_are_not_trained_on(log, given):
    data = prepared(log, "activity")
    fitted = cli.fit(data, test_share=0.25, seed=5, progress=cli.Progress(), budget=5000, n_trees=2)
    assert len(fitted.held_out) == 375
    ((X, y, _),) = given
    assert len(X) == 1125
    rows = Counter(map(repr, zip(data.rows, data.y, strict=True)))
    held_out = Counter(repr((data.rows[i], data.y[i])) for i in fitted.held_out)
    assert rows - held_out == Counter(map(repr, zip(X, y, strict=True)))
    spread = [i // 375 for i in fitted.held_out]
    assert min(Counter(spread).values()) > 50, "from all over the log, not from one end"
    right = sum(fitted.forest.predict(data.rows[i]) == data.y[i] for i in fitted.held_out)
    assert fitted.score.words("")[0].startswith(f"accuracy {right / 375:.3f}")


def test_no_rows_held_out_on_request(log, capsys):
    arguments = ["train", str(log), "--target", "activity", "--test-share", "0", "--budget", "5k"]
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert "none, since no held-out rows" in text
    assert "accuracy" not in text
    assert "give --out model.json to keep" in text


def test_a_budget_too_small_for_the_trees_is_said(log, capsys):
    assert cli.main(["train", str(log), "--target", "activity", "--budget", "2k"]) == 0
    text = capsys.readouterr().out
    assert "20 trees asked for, the budget did not reach further" in text.replace(
        "\n" + " " * 11, " "
    )


def test_regression_beside_the_mean(tmp_path, capsys):
    path = table(tmp_path, "a,b,y\n" + "".join(f"{i},{i % 7},{i * 0.5}\n" for i in range(400)))
    out = tmp_path / "model.json"
    assert cli.main(["train", path, "--target", "y", "--trees", "5", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "y: numbers from 0 to 199.5, mean 99.75" in text
    error = float(re.search(r"mean squared error ([\d.]+) on 80 held-out rows", text)[1])
    naive = float(re.search(r"([\d,.]+) by always guessing the mean", text)[1].replace(",", ""))
    assert error < naive / 20
    assert naive == pytest.approx(200**2 / 12, rel=0.3)
    assert edgeforest.load(str(out)).criterion == "mse"


@pytest.mark.parametrize("option", ["--kind", "--splitter", "--criterion", "--class-weight"])
def test_every_choice_trains(option, log, tmp_path):
    choices = next(a.choices for a in options_of("train") if option in a.option_strings)
    for choice in choices:
        target = "co2" if choice == "mse" else "activity"
        out = str(tmp_path / "model.json")
        common = ["--target", target, "--budget", "5k", "--trees", "2", "--max-depth", "3"]
        assert cli.main(["train", str(log), *common, option, choice, "--out", out]) == 0
        forest = edgeforest.load(out)
        assert choice in (forest.kind, forest.splitter, forest.criterion, "balanced")
        assert cli.depth(forest) <= 3


def test_options_reach_the_training(log, given):
    common = "--min-samples-leaf 7 --trees 3 --max-depth 4 --class-weight balanced --seed 9"
    limits = "--budget 1.5k --seconds 2k --bytes 1G"
    arguments = ["train", str(log), "--target", "activity", *common.split(), *limits.split()]
    assert cli.main([*arguments, "--drop", "co2,light", "--drop", "humidity"]) == 0
    ((_, _, seen),) = given
    assert seen["names"] == ["temperature", "vibration", "window"]
    assert (seen["min_samples_leaf"], seen["n_trees"], seen["max_depth"]) == (7, 3, 4)
    assert (seen["class_weight"], seen["seed"]) == ("balanced", 9)
    budget = seen["budget"]
    assert (budget.insertions, budget.bytes) == (1500, 10**9)
    assert 0 < budget.seconds <= 2000, "what reading has not used"
    assert (seen["engine"], seen["n_jobs"]) == (None, 1), "the fastest, in one thread"


@pytest.mark.parametrize("name", engine.present())
def test_every_engine_writes_the_same_model(name, log, model, tmp_path, capsys, given):
    common = ["train", str(log), "--target", "activity", "--budget", "30k", "--trees", "5"]
    for jobs in ("2", "-1"):
        out = tmp_path / f"{jobs}.json"
        assert cli.main([*common, "--engine", name, "--jobs", jobs, "--out", str(out)]) == 0
        threads = engine._jobs(int(jobs)) if name == "native" else 1
        said = f"engine     {name}, {threads} thread{'s' * (threads > 1)}\n"
        assert said in capsys.readouterr().out, "and no advice: it was asked for"
        assert out.read_bytes() == model.read_bytes()
    assert [(o["engine"], o["n_jobs"]) for _, _, o in given] == [(name, 2), (name, -1)]


def test_the_environment_asks_for_an_engine_and_the_option_overrides_it(log, monkeypatch, capsys):
    common = ["train", str(log), "--target", "activity", "--budget", "5k"]
    monkeypatch.setenv("EDGEFOREST_ENGINE", "pure")
    assert cli.main(common) == 0
    assert "engine     pure, 1 thread\n" in capsys.readouterr().out
    best = engine.present()[0]
    assert cli.main([*common, "--engine", best]) == 0
    assert f"engine     {best}, 1 thread\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", engine.present())
@pytest.mark.parametrize("command", ["train", "demo"])
def test_ctrl_c_keeps_the_forest_so_far(command, name, log, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("EDGEFOREST_ENGINE", name)
    last = 3 if name == "native" else 20  # whose steps are as long as a tree
    steps = []

    def step(self, training):
        steps.append(training)
        if len(steps) == last:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(cli.Progress, "step", step)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    before = signal.getsignal(signal.SIGINT)
    out = tmp_path / "model.json"
    if command == "train":
        code = cli.main(["train", str(log), "--target", "activity", "--out", str(out)])
    else:
        code = cli.main(["demo", "--out", str(tmp_path), "--rows", "500", "--budget", "1M"])
    assert code == 130
    assert len(steps) == last
    assert (
        "stopped    by Ctrl-C; the forest so far is complete and is kept" in capsys.readouterr().out
    )
    forest = edgeforest.load(str(out))
    assert forest.spent.insertions > 0
    assert len(forest) < 20
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_while_scoring_keeps_the_forest(log, tmp_path, capsys, monkeypatch):
    blocks = []
    predict = engine.pick().Forest.predict

    def impatient(self, rows):
        blocks.append(len(rows))
        if len(blocks) > 3:
            raise KeyboardInterrupt
        return predict(self, rows)

    monkeypatch.setattr(cli, "BLOCK", 8)
    monkeypatch.setattr(engine.pick().Forest, "predict", impatient)
    out = tmp_path / "model.json"
    arguments = ["train", str(log), "--target", "activity", "--budget", "5k", "--out", str(out)]
    assert cli.main(arguments) == 130
    assert blocks == [8] * 4
    assert "on 24 held-out rows" in capsys.readouterr().out
    assert len(edgeforest.load(str(out))) > 0


def test_ctrl_c_while_reading_is_one_line(monkeypatch, capsys):
    def interrupted(path, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "open_source", interrupted)
    assert cli.main(["train", "log.csv", "--target", "y"]) == 130
    assert capsys.readouterr().err == "edgeforest: stopped by Ctrl-C\n"


@pytest.mark.parametrize("name", engine.present())
def test_progress_on_a_terminal_counts_insertions_and_trees(name, log, monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    clock = iter(range(10**9))
    monkeypatch.setattr(cli.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("EDGEFOREST_ENGINE", name)
    arguments = ["train", str(log), "--target", "activity", "--budget", "20k", "--trees", "3"]
    assert cli.main(arguments) == 0
    lines = sys.stderr.getvalue().split("\r\x1b[K")
    found = [
        re.match(r"training: ([\d,]+) of 20,000 insertions, (\d) of 3 trees", s) for s in lines
    ]
    spent = [int(match[1].replace(",", "")) for match in found if match]
    assert spent == sorted(spent)
    assert 0 < spent[0] < spent[-1] <= 20_000
    assert {match[2] for match in found if match} >= {"0", "1", "2"}
    assert lines[-1] == "", "the line is taken away at the end"
    assert "training" not in capsys.readouterr().out


def test_a_score_beside_a_guess_that_is_not_the_mean():
    score = cli.Score(regression=True)
    for truth, answer in ((1.0, 2.0), (3.0, 3.0), (5.0, 3.0)):
        score.add(truth, answer)
    ours, naive = score.words("3 rows", 4.0)
    assert ours == f"mean squared error {5 / 3:.4g} on 3 rows"
    assert naive == f"{11 / 3:.4g} by always guessing the mean, 4"
    assert score.words("3 rows")[1] == f"{8 / 3:.4g} by always guessing the mean, 3"


def test_ctrl_c_means_the_same_after_training_as_before(log):
    before = signal.getsignal(signal.SIGINT)
    assert cli.main(["train", str(log), "--target", "activity", "--budget", "2k"]) == 0
    assert signal.getsignal(signal.SIGINT) is before


# ---- predict


def test_predict_gives_what_the_forest_gives(log, model, capsys):
    capsys.readouterr()
    assert cli.main(["predict", str(model), str(log)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    data = prepared(log, "activity")
    expected = edgeforest.load(str(model)).predict(data.rows)
    assert out.splitlines() == ["prediction", *expected]


def test_columns_are_found_by_name(log, model, tmp_path, capsys):
    with open(log, newline="") as stream:
        rows = list(csv.DictReader(stream))[:50]
    order = ["window", "extra", "vibration", "co2", "light", "humidity", "temperature"]
    shuffled = tmp_path / "shuffled.csv"
    write(shuffled, [order, *([row.get(name, "any") for name in order] for row in rows)], ";")
    capsys.readouterr()
    assert cli.main(["predict", str(model), str(shuffled)]) == 0
    ours = capsys.readouterr().out.splitlines()
    assert cli.main(["predict", str(model), str(log)]) == 0
    assert ours == capsys.readouterr().out.splitlines()[:51]


def test_class_shares_add_up_and_agree_with_the_prediction(log, model, tmp_path, capsys):
    out = tmp_path / "shares.csv"
    assert cli.main(["predict", str(model), str(log), "--proba", "--out", str(out)]) == 0
    assert "1,500 predictions" in capsys.readouterr().out
    with open(out, newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["prediction", "p_empty", "p_meeting", "p_working"]
    for row in rows:
        shares = {name[2:]: float(value) for name, value in row.items() if name[:2] == "p_"}
        assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
        assert shares[row["prediction"]] == max(shares.values())
    assert os.listdir(tmp_path) == ["shares.csv"]


def test_score_of_predictions_goes_to_stderr(log, model, capsys):
    capsys.readouterr()
    assert cli.main(["predict", str(model), str(log), "--target", "activity"]) == 0
    out, err = capsys.readouterr()
    truth = [row[-1] for row in demo.sample_log(1500, seed=3)]
    right = sum(a == b for a, b in zip(out.split()[1:], truth, strict=True)) / 1500
    empty = truth.count("empty") / 1500
    assert err == f"accuracy {right:.3f} on 1,500 rows; {empty:.3f} by always guessing 'empty'\n"


def test_regression_predicts_float32_in_short(tmp_path, capsys):
    rows = [[i / 8, (i * 37 % 101) / 10] for i in range(300)]
    path = table(tmp_path, "x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    model = str(tmp_path / "model.json")
    assert cli.main(["train", path, "--target", "y", "--out", model, "--trees", "3"]) == 0
    capsys.readouterr()
    assert cli.main(["predict", model, path, "--target", "y"]) == 0
    out, err = capsys.readouterr()
    expected = edgeforest.load(model).predict([[x] for x, _ in rows])
    printed = out.split()[1:]
    assert [cli.array("f", [float(text)])[0] for text in printed] == expected
    assert cli.float32(cli.array("f", [23.45])[0]) == "23.45"
    error = sum((a - y) ** 2 for a, (_, y) in zip(expected, rows, strict=True)) / 300
    assert float(re.match(r"mean squared error ([\d.]+) on 300 rows;", err)[1]) == pytest.approx(
        error, rel=1e-3
    )


def test_numbers_as_categories_and_classes(tmp_path, capsys):
    lines = "".join(f"{i % 3},{i % 2},{int(i % 3 == 1)}\n" for i in range(120))
    path = table(tmp_path, "room,x,y\n" + lines)
    model = str(tmp_path / "model.json")
    assert cli.main(["train", path, "--target", "y", "--categorical", "room", "--out", model]) == 0
    assert "room (3 values)" in capsys.readouterr().out
    forest = edgeforest.load(model)
    assert forest.categories[0] == [0, 1, 2]
    assert forest.classes == [0, 1]
    other = table(tmp_path, "x,room,y\n0,1.0,1.0\n0,2,0\n0,9,1\n0,,\n0,1,surely\n", "other.csv")
    assert cli.main(["predict", model, other, "--target", "y"]) == 0
    out, err = capsys.readouterr()
    assert out.split()[1:3] == ["1", "0"]
    assert len(out.split()) == 6
    assert "note: room has values that the model has not met, such as '9'; they count as" in err
    right = 2 + (out.split()[3] == "1")  # "surely" is no class, so it is right for nobody
    assert f"accuracy {right / 4:.3f} on 4 rows" in err


def test_a_broken_pipe_ends_quietly(log, model, tmp_path):
    big = tmp_path / "big.csv"
    write(big, [demo.COLUMNS, *demo.sample_log(1500) * 8])
    process = subprocess.Popen(
        [sys.executable, "-m", "edgeforest", "predict", str(model), str(big)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline().strip() == b"prediction"
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141
    process.stderr.close()


# ---- merge


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two models of the same log; each saw another of three labels."""
    folder = tmp_path_factory.mktemp("two")
    paths = []
    for n, label in enumerate(("cold", "hot")):
        rows = [[i, "ab"[i % 2], label if i > 40 else "fine"] for i in range(60)]
        write(folder / "log.csv", [["x", "kind", "y"], *rows])
        paths.append(str(folder / f"{n}.json"))
        common = ["--target", "y", "--trees", str(3 + n), "--budget", "9k", "--out", paths[n]]
        assert cli.main(["train", str(folder / "log.csv"), *common]) == 0
    return paths


def test_merge_says_what_was_joined(two, tmp_path, capsys):
    out = tmp_path / "joined.json"
    capsys.readouterr()
    assert cli.main(["merge", *two, "--out", str(out)]) == 0
    text, err = capsys.readouterr()
    assert err == ""
    forest = edgeforest.load(str(out))
    assert len(forest) == 7
    assert forest.classes == ["cold", "fine", "hot"]
    nodes = f"{len(forest.feature)} nodes, at most {cli.depth(forest)} deep"
    for expected in (f"{two[0]}: 3 trees, ", f"{two[1]}: 4 trees, ", f"7 trees, {nodes}"):
        assert expected in text
    assert "3 classes: cold, fine, hot" in text
    assert f"{out}, {cli.size(out.stat().st_size)}" in text
    assert cli.main(["inspect", str(out)]) == 0
    assert "18,000 insertions" in capsys.readouterr().out


def test_merge_joins_as_the_library_does(two, tmp_path):
    out = tmp_path / "joined.json"
    limits = ["--weights", "1,2.5", "--max-trees", "5"]
    assert cli.main(["merge", *two, "--out", str(out), *limits]) == 0
    expected = merge([edgeforest.load(path) for path in two], [1, 2.5], max_trees=5)
    assert out.read_text() == expected.to_json() + "\n"


def test_merge_keeps_to_a_size_and_says_what_is_left_out(two, tmp_path, capsys):
    out = tmp_path / "joined.json"
    assert cli.main(["merge", *two, "--out", str(out), "--max-trees", "4"]) == 0
    assert "(3 trees left out)" in capsys.readouterr().out
    size = out.stat().st_size
    for limit, trees in ((size, 4), (size - 1, 3)):
        assert cli.main(["merge", *two, "--out", str(out), "--max-bytes", str(limit)]) == 0
        assert len(edgeforest.load(str(out))) == trees
        assert out.stat().st_size <= limit
    said = refused(capsys, "merge", *two, "--out", out, "--max-bytes", "100")
    least = re.fullmatch(r"one tree needs --max-bytes (\d+), got 100; give more", said)[1]
    assert cli.main(["merge", *two, "--out", str(out), "--max-bytes", least]) == 0
    assert out.stat().st_size == int(least)
    assert "got" in refused(capsys, "merge", *two, "--out", out, "--max-bytes", str(int(least) - 1))


def test_merge_refuses_what_does_not_fit_together(two, model, log, tmp_path, capsys):
    out = tmp_path / "joined.json"
    said = refused(capsys, "merge", two[0], model, "--out", out)
    assert said == f"{model} has 6 features, {two[0]} has 2"
    said = refused(capsys, "merge", *two, "--weights", "1", "--out", out)
    assert said == "give a weight for each of 2 forests, got 1"
    assert "not all be 0" in refused(capsys, "merge", *two, "--weights", "0,0", "--out", out)
    assert "not an EdgeForest model" in refused(capsys, "merge", two[0], log, "--out", out)
    assert "no such file" in refused(capsys, "merge", two[0], "gone.json", "--out", out)
    assert "would overwrite" in refused(capsys, "merge", *two, "--out", two[1])
    assert not out.exists()


# ---- inspect, demo, engines, version, help


def test_inspect_says_what_a_model_is(log, model, capsys):
    capsys.readouterr()
    assert cli.main(["inspect", str(model)]) == 0
    text = capsys.readouterr().out
    forest = edgeforest.load(str(model))
    for expected in (
        "random-forest for classification",
        "criterion gini, splitter mab, seed 0",
        f"{forest.spent.insertions:,} of 30,000 insertions",
        f"{len(forest)} trees, {len(forest.feature):,} nodes, at most {cli.depth(forest)} deep",
        "3 classes: empty, meeting, working",
        "categorical: closed, open, tilted",
        f"{model.stat().st_size / 1000:.1f} kB",
    ):
        assert expected in text
    for name in forest.names:
        assert re.search(rf"^  {name} +0\.\d+ +#* +(number|categorical)", text, re.MULTILINE)


def test_depth_is_the_longest_way_down(model):
    forest = edgeforest.load(str(model))

    def down(node):
        if forest.feature[node] == cli.LEAF:
            return 0
        return 1 + max(down(node + 1), down(forest.right[node]))

    assert cli.depth(forest) == max(down(root) for root in forest.roots)


def test_demo_goes_the_whole_way(tmp_path, capsys):
    assert cli.main(["demo", "--out", str(tmp_path / "new" / "demo")]) == 0
    text = capsys.readouterr().out
    accuracy = float(re.search(r"accuracy (\d\.\d+) on 1,200 held-out rows", text)[1])
    assert 0.85 < accuracy < 0.95, "neither hopeless nor trivial"
    assert float(re.search(r"(\d\.\d+) by always", text)[1]) < 0.75
    assert int(re.search(r"([\d,]+) of 200,000 ins", text)[1].replace(",", "")) <= 200_000
    assert "loaded again, predicts the same" in text
    shown = re.findall(
        r"(empty|working|meeting) +(empty|working|meeting)(  <- wrong)?$", text, re.M
    )
    assert len(shown) >= 8
    assert all((predicted == truth) == (mark == "") for predicted, truth, mark in shown)
    assert sorted(os.listdir(tmp_path / "new" / "demo")) == ["model.json", "sample_log.csv"]
    for command in re.findall(r"^  edgeforest (.*)$", text, re.MULTILINE):
        assert cli.main(shlex.split(command)) == 0, f"the demo advises {command}"


def test_demo_marks_what_it_gets_wrong(tmp_path, capsys):
    assert cli.main(["demo", "--out", str(tmp_path), "--rows", "1000", "--budget", "10"]) == 0
    text = capsys.readouterr().out
    shown = re.findall(
        r"(empty|working|meeting) +(empty|working|meeting)(  <- wrong)?$", text, re.M
    )
    assert all((predicted == truth) == (mark == "") for predicted, truth, mark in shown)
    assert sum(mark != "" for _, _, mark in shown) > 0


def test_demo_refuses_a_model_that_predicts_otherwise(tmp_path, monkeypatch):
    class Liar:
        def predict(self, rows):
            return ["empty"] * len(rows)

    monkeypatch.setattr(demo, "load_model", lambda path: Liar())
    with pytest.raises(RuntimeError, match=r"model\.json does not predict"):
        demo.run(str(tmp_path), 500, 10_000)


@pytest.mark.parametrize("name", engine.present())
def test_demo_says_which_engine_it_uses(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("EDGEFOREST_ENGINE", name)
    assert cli.main(["demo", "--out", str(tmp_path), "--rows", "300", "--budget", "2k"]) == 0
    assert f"\nengine     {name}, 1 thread\n" in capsys.readouterr().out


def test_engines_says_which_are_there_and_which_is_used(capsys, monkeypatch):
    monkeypatch.delenv("EDGEFOREST_ENGINE", raising=False)
    assert cli.main(["engines"]) == 0
    text = capsys.readouterr().out
    found = re.findall(r"^(\w+) +(present|absent): ", text, re.MULTILINE)
    present = [name for name, how in found if how == "present"]
    assert present == engine.present()
    assert sorted(name for name, _ in found) == sorted(engine.NAMES)
    assert re.search(rf"^used +{present[0]}, the fastest that is present; ", text, re.MULTILINE)
    monkeypatch.setenv("EDGEFOREST_ENGINE", "pure")
    assert cli.main(["engines"]) == 0
    assert "used       pure, because EDGEFOREST_ENGINE=pure" in capsys.readouterr().out


def test_an_engine_that_is_not_there_is_refused_before_any_work(log, model, capsys, monkeypatch):
    absent = engine.Absent("native", ImportError("of another machine"))

    def import_module(name):
        if name == "edgeforest.engines.native":
            raise ImportError("of another machine")
        return engine.core_pure

    monkeypatch.setattr(engine, "import_module", import_module)
    command = ("train", "gone.csv", "--target", "activity", "--engine", "native")
    assert refused(capsys, *command) == f"{absent}, or leave engine out"
    for wish, expected in (
        ("native", f"{absent}, or unset EDGEFOREST_ENGINE"),
        ("fast", "EDGEFOREST_ENGINE must be one of native, numpy, pure, got 'fast'"),
    ):
        monkeypatch.setenv("EDGEFOREST_ENGINE", wish)
        for command in (
            ("train", "gone.csv", "--target", "activity"),
            ("predict", model, log),
            ("inspect", model),
            ("demo", "--out", log / "demo"),
            ("engines",),
        ):
            assert refused(capsys, *command) == expected


def test_sample_log_is_a_plausible_room():
    log = demo.sample_log(6000)
    assert log[:100] == demo.sample_log(100), "the same again, and a longer one goes on"
    assert log[:100] != demo.sample_log(100, seed=1)
    assert [log[i][0] for i in (0, 1, 1440)] == [
        "2025-03-03T06:00",
        "2025-03-03T06:01",
        "2025-03-04T06:00",
    ]
    missing = sum(value == "" for row in log for value in row) / (6 * len(log))
    assert 0.02 < missing < 0.04
    changes = sum(a[-1] != b[-1] for a, b in pairwise(log))
    assert 20 < changes < 300, "activities last"
    night = Counter(row[-1] for row in log if row[0][11:13] in ("01", "02", "03"))
    assert night["empty"] > 0.9 * night.total()

    def mean(column, activity):
        values = [float(r[column]) for r in log if r[column] and r[-1] == activity]
        return sum(values) / len(values)

    for column in (3, 4, 5):  # light, co2, vibration
        assert mean(column, "empty") < mean(column, "working")
    assert mean(4, "working") < mean(4, "meeting")


def test_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "edgeforest", "--version"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"edgeforest {edgeforest.__version__}\n"


def test_errors_of_the_module_are_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "edgeforest", "inspect", "nowhere.json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "edgeforest: cannot read nowhere.json: no such file or directory\n"


def commands():
    parser = cli.build_parser()
    sub = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return parser, sub


def options_of(command):
    return commands()[1].choices[command]._actions


def test_every_command_and_option_has_help():
    parser, sub = commands()
    assert set(sub.choices) == set(COMMANDS)
    assert {a.dest for a in sub._choices_actions if a.help} == set(sub.choices)
    for name, command in (("", parser), *sub.choices.items()):
        assert command.description, f"{name} has no description"
        for action in command._actions:
            if action is not sub:
                assert action.help, f"{name} {action.dest} has no help"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_prints(command, capsys):
    assert cli.main([*command.split(), "--help"]) == 0
    assert f"usage: edgeforest {command}".strip() in capsys.readouterr().out


def test_every_command_is_in_the_readme():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in commands()[1].choices:
        assert re.search(rf"^edgeforest {name}\b", text, re.MULTILINE), f"say what {name} does"


def test_no_command_prints_help(capsys):
    assert cli.main([]) == 2
    assert "edgeforest train log.csv" in capsys.readouterr().err


# ---- export and verify


def exported(capsys, *arguments):
    """What the export of a model says."""
    capsys.readouterr()
    assert cli.main(["export", *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.fixture
def key(tmp_path):
    path = tmp_path / "key.bin"
    path.write_bytes(bytes(range(32)))
    return path


def codes_of(forest):
    """Rows of the log as the exported models take them: codes of categories, NaN where missing."""
    rows = [dict(zip(demo.COLUMNS, row, strict=True)) for row in demo.sample_log(50, seed=4)]
    given = [
        [
            (row[name] or None) if kinds else float(row[name] or "nan")
            for name, kinds in zip(forest.names, forest.categories, strict=True)
        ]
        for row in rows
    ]
    return [forest.encode(row) for row in given], forest.predict(given)


def test_export_names_sizes_before_and_after(model, tmp_path, capsys):
    out = tmp_path / "small.json"
    text = exported(capsys, model, out, "--shrink")
    assert re.match(rf"read +{re.escape(str(model))}, \d+\.\d kB: 5 trees, [\d,]+ nodes", text)
    forest, small = edgeforest.load(model), edgeforest.load(out)
    sizes = f"{len(forest.to_json())} to {len(small.to_json())} bytes"
    assert re.search(rf"^shrunk +{sizes}, \d+ to \d+ nodes", text, re.MULTILINE)
    size = f"{out.stat().st_size / 1000:.1f} kB"
    assert text.endswith(f"saved      {out}, {size}\n")
    rows = [row[1:7] for row in demo.sample_log(40, seed=8) if "" not in row]
    rows = [[*map(float, row[:5]), row[5]] for row in rows]
    assert small.predict_proba(rows) == forest.predict_proba(rows)
    assert out.read_text().endswith("}\n")
    exported(capsys, model, tmp_path / "same.json")
    assert (tmp_path / "same.json").read_bytes() == model.read_bytes()


def test_export_with_fewer_levels_is_smaller(model, tmp_path, capsys):
    sizes = []
    for levels in ([], ["--levels", "15"], ["--levels", "1"]):
        out = tmp_path / "small.json"
        exported(capsys, model, out, "--shrink", *levels)
        sizes.append(out.stat().st_size)
    assert edgeforest.load(out).scale == 1
    assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize("options", [[], ["--operator", "v5"], ["--shrink"]])
def test_export_to_onnx(options, model, tmp_path, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    out = tmp_path / "model.onnx"
    assert f"saved      {out}, " in exported(capsys, model, out, *options)
    session = onnxruntime.InferenceSession(out.read_bytes())
    rows, answers = codes_of(edgeforest.load(model))
    table = [[value or float("nan") for value in row[-1:]] for row in rows]
    table = [[*row[:-1], *last] for row, last in zip(rows, table, strict=True)]
    numpy = pytest.importorskip("numpy")
    assert session.run(["label"], {"X": numpy.array(table, "f4")})[0].tolist() == answers
    used = {node.op_type for node in pytest.importorskip("onnx").load(out).graph.node}
    assert ("TreeEnsemble" in used) == ("v5" in options)


def test_export_to_onnx_with_an_input_for_each_feature(model, tmp_path, capsys):
    onnx = pytest.importorskip("onnx")
    exported(capsys, model, tmp_path / "m.ONNX", "--inputs", "columns")
    inputs = onnx.load(tmp_path / "m.ONNX").graph.input
    assert [one.name for one in inputs] == edgeforest.load(model).names


def test_export_to_c(model, tmp_path, capsys):
    texts = {}
    for prefer in ("size", "speed"):
        out = tmp_path / "my-lamp 2.h"
        said = exported(capsys, model, out, "--prefer", prefer)
        assert said.endswith(" of C text; call my_lamp_2_predict(row)\n")
        texts[prefer] = out.read_text()
        assert "int my_lamp_2_predict(const float *row)" in texts[prefer]
    assert texts["size"] != texts["speed"]
    exported(capsys, model, tmp_path / "1.h", "--rows", "int16", "--scale", "auto")
    assert "int model_1_predict(const int16_t *row)" in (tmp_path / "1.h").read_text()


def test_export_to_micropython(model, tmp_path, capsys):
    exported(capsys, model, tmp_path / "room.py", "--shrink")
    module = {}
    exec((tmp_path / "room.py").read_text(), module)
    rows, answers = codes_of(edgeforest.load(model))
    assert [module["predict"](row) for row in rows] == answers


def test_export_without_onnx_says_how_to_get_it(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "edgeforest.export.onnx_model", raising=False)
    out = tmp_path / "model.onnx"
    said = refused(capsys, "export", model, out)
    assert said == (
        "ONNX needs the package onnx, which is not installed; pip install 'edgeforest[onnx]'"
    )
    assert not out.exists()


def test_export_refuses_what_does_not_go_together(model, tmp_path, capsys, key):
    for name in ("model", "model.xyz", "model.json.gz"):
        said = refused(capsys, "export", model, tmp_path / name)
        assert "must name a format; give a name that ends in .json, .onnx, .h" in said
    for name, option, value, endings in (
        ("m.h", "--operator", "v5", ".onnx"),
        ("m.json", "--inputs", "columns", ".onnx"),
        ("m.onnx", "--rows", "uint8", ".h and .py"),
        ("m.py", "--prefer", "speed", ".h"),
        ("m.h", "--sign", key, ".json"),
    ):
        out = tmp_path / name
        said = refused(capsys, "export", model, out, option, value)
        assert said == f"{option} is for {endings}, got {out}; leave it out"
    said = refused(capsys, "export", model, tmp_path / "m.json", "--levels", "9")
    assert said == "--levels is how far --shrink goes; give both"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key.bin"]


def test_export_refuses_files_that_cannot_be_read_or_written(log, model, tmp_path, capsys, key):
    out = tmp_path / "m.json"
    before = model.read_bytes()
    said = refused(capsys, "export", model, model, "--shrink")
    assert said == f"the file {model} would overwrite what is read; give another name"
    secret = tmp_path / "key.json"
    secret.write_bytes(key.read_bytes())
    assert "would overwrite" in refused(capsys, "export", model, secret, "--sign", secret)
    assert (model.read_bytes(), secret.read_bytes()) == (before, key.read_bytes())
    assert "there is no folder" in refused(capsys, "export", model, tmp_path / "none" / "m.h")
    assert "no such file" in refused(capsys, "export", tmp_path / "gone.json", out)
    assert "not an EdgeForest model" in refused(capsys, "export", log, out)
    assert "no such file" in refused(capsys, "export", model, out, "--sign", tmp_path / "gone")
    short = table(tmp_path, "secret", "short")
    said = refused(capsys, "export", model, out, "--sign", short)
    assert said == f"a key has at least 16 bytes, {short} has 6; make a longer one"
    assert not out.exists()


def test_verify_knows_what_was_signed(model, tmp_path, capsys, key):
    out = tmp_path / "signed.json"
    text = exported(capsys, model, out, "--sign", key)
    assert f"signed     with the key in {key}\n" in text
    assert edgeforest.load(out).to_json() == edgeforest.load(model).to_json()
    assert cli.main(["verify", str(out), "--key", str(key)]) == 0
    text = capsys.readouterr().out
    assert text.endswith(f"verified   it was signed with the key in {key}\n")
    assert cli.main(["verify", str(out)]) == 0
    assert "its SHA-256 fits; who wrote it is not known" in capsys.readouterr().out


def test_verify_refuses_all_else(log, model, tmp_path, capsys, key):
    out = tmp_path / "signed.json"
    exported(capsys, model, out, "--sign", key)
    other = table(tmp_path, b"another key, of someone else", "other")
    said = refused(capsys, "verify", out, "--key", other)
    assert said == f"{out}: the signature of the model does not fit the key; do not use it"
    said = refused(capsys, "verify", model, "--key", key)
    assert said == f"{model}: the model has no signature; export it with --sign, or do not use it"
    said = refused(capsys, "verify", model)
    assert said == f"{model}: the model has no SHA-256; export it with --sign"
    text = out.read_text()
    altered = table(tmp_path, text.replace('"seed":0', '"seed":1'), "altered.json")
    assert "altered" in refused(capsys, "verify", altered, "--key", key)
    assert "not an EdgeForest model" in refused(capsys, "verify", log, "--key", key)
    assert "no such file" in refused(capsys, "verify", tmp_path / "gone", "--key", key)
    assert "no such file" in refused(capsys, "verify", out, "--key", tmp_path / "gone")


# ---- Reading tables


@pytest.mark.parametrize(
    ("separator", "name"), [(",", "a;b;c;d"), (";", "a,b,c,d"), ("\t", "a;b;c,d,e")]
)
def test_separator_comes_from_the_header(separator, name, tmp_path):
    path = tmp_path / "log.csv"
    rows = [f'"{name}"', "d", "y"], ["1", "2", "u"], ["3", "4", "v"]
    path.write_text("\n".join(separator.join(row) for row in rows))
    data = prepared(path, "y")
    assert (data.names, data.rows) == ([name, "d"], [(1.0, 2.0), (3.0, 4.0)])


def test_decimal_commas_where_commas_do_not_separate(tmp_path):
    path = table(tmp_path, "a;y\n1,5;u\n-2,25;v\n")
    assert prepared(path, "y").rows == [(1.5,), (-2.25,)]


def test_byte_order_mark_gzip_blank_lines_and_quotes(tmp_path):
    text = '\ufeff"a","y"\r\n\r\n"1", "u, w"\r\n2,"v\n2"\r\n\r\n'.encode()
    for content in (text, gzip.compress(text)):
        data = prepared(table(tmp_path, content), "y")
        assert (data.names, data.rows, data.y) == (["a"], [(1.0,), (2.0,)], ["u, w", "v\n2"])


def test_standard_input_and_it_stays_open(monkeypatch, capsys, model, log):
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(log.read_bytes())))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert cli.main(["train", "-", "--target", "activity", "--budget", "2k", "--trees", "2"]) == 0
    assert "the standard input: 1,500 rows" in capsys.readouterr().out
    assert not stdin.closed
    assert not stdin.buffer.closed


def test_missing_values_in_all_their_spellings(tmp_path):
    spellings = ["", " ", "NA", "N/A", "nan", "NaN", "null", "None", "?"]
    lines = "".join(f"{s},{s},{i % 2}\n" for i, s in enumerate(["1", "2", *spellings]))
    data = prepared(table(tmp_path, "a,b,y\n" + lines), "y", categorical=["b"])
    assert data.missing == {"a": 9, "b": 9}
    assert all(a != a and b is None for a, b in data.rows[2:])
    assert data.rows[:2] == [(1.0, 1), (2.0, 2)]


def test_rows_without_a_target_are_left_out_and_counted(tmp_path, capsys):
    path = table(tmp_path, "a,y\n1,u\n2,\n3,v\n4,NA\n")
    data = prepared(path, "y")
    assert (data.rows, data.y, data.unlabelled) == ([(1.0,), (3.0,)], ["u", "v"], 2)
    assert cli.main(["train", path, "--target", "y"]) == 0
    assert "left out: 2 rows without a target" in capsys.readouterr().out


@pytest.mark.parametrize("header", ["a,y", '"",a,y'])
def test_an_index_without_a_name_is_left_out(header, tmp_path):
    path = table(tmp_path, header + '\n"1",5,u\n"2",6,v\n')
    data = prepared(path, "y")
    assert (data.names, data.rows, data.y) == (["a"], [(5.0,), (6.0,)], ["u", "v"])
    assert data.left_out == [("column 1", "the header does not name it")]


def test_timestamps_are_left_out_unless_asked_for(tmp_path):
    dates = [f"2024-05-{1 + i % 28:02d} 12:30:00" for i in range(40)]
    path = table(tmp_path, "t,a,y\n" + "".join(f"{d},{i},{i % 2}\n" for i, d in enumerate(dates)))
    assert prepared(path, "y").left_out == [("t", "text, 28 distinct dates")]
    assert prepared(path, "y", categorical=["t"]).categories == {"t": 28}


def test_text_that_is_all_different_is_left_out(tmp_path):
    path = table(tmp_path, "id,a,y\n" + "".join(f"id{i},{i},{i % 2}\n" for i in range(300)))
    assert prepared(path, "y").left_out == [("id", "text, 300 distinct values")]


def test_a_column_without_values_is_left_out(tmp_path):
    path = table(tmp_path, "a,b,y\n1,,u\n2,NA,v\n")
    assert prepared(path, "y").left_out == [("b", "no values")]


@pytest.mark.parametrize(
    ("values", "regression"),
    [
        (["on", "off"], False),
        (["1", "2", "on"] * 2 + ["off"] * 9, False),
        ([str(i % 20) for i in range(60)], False),
        ([str(i % 21) for i in range(60)], True),
        (["0.5", "1"], True),
        (["1.0", "2.0"], False),
    ],
)
def test_task_follows_the_target(values, regression, tmp_path):
    path = table(tmp_path, "a,y\n" + "".join(f"{i},{v}\n" for i, v in enumerate(values)))
    data = prepared(path, "y")
    assert data.regression is regression
    assert prepared(path, "y", task="classification").regression is False
    if values == ["1.0", "2.0"]:
        assert repr(data.y) == "[1, 2]"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("500k", 500_000),
        ("2M", 2_000_000),
        ("1.5M", 1_500_000),
        (".5M", 500_000),
        ("3G", 3_000_000_000),
        ("2e6", 2_000_000),
        ("4.35k", 4350),  # as floats, 4.35 * 1000 is not whole
    ],
)
def test_amounts_take_suffixes(text, value):
    assert cli.amount(text) == value


@pytest.mark.parametrize("text", ["", "M", "2m", "-1", "0", "0.5", "1.0005k", "lots", "1,5M", "²"])
def test_bad_amounts_are_refused(text, capsys):
    said = refused(capsys, "train", "log.csv", "--target", "y", f"--budget={text}")
    assert said.startswith("--budget must be")
    assert f"got {text!r}" in said


# ---- Logs of every kind and size


@pytest.fixture(scope="module")
def logs(log):
    """The same log in other kinds of files, by name."""
    folder = log.parent
    with open(log, newline="") as stream:
        rows = [{k: v or None for k, v in row.items()} for row in csv.DictReader(stream)]
    (folder / "log.csv.gz").write_bytes(gzip.compress(log.read_bytes()))
    write(folder / "log.tsv", [rows[0], *(row.values() for row in rows)], "\t")
    head, *lines = log.read_text().splitlines(keepends=True)
    (folder / "part1.csv").write_text(head + "".join(lines[:700]))
    (folder / "part2.csv").write_text(head + "".join(lines[700:]))
    text = ("time", "window", "activity")
    objects = [
        {k: v if k in text or v is None else float(v) for k, v in row.items()} for row in rows
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in objects))
    database = sqlite3.connect(folder / "log.db")
    database.execute("CREATE TABLE room (time, temperature, humidity, light, co2, vibration, "
                     "window, activity)")  # fmt: skip
    database.executemany(f"INSERT INTO room VALUES ({','.join('?' * 8)})",
                         [list(row.values()) for row in objects])  # fmt: skip
    database.commit()
    database.close()
    return folder


COMMON = ["--target", "activity", "--budget", "30k", "--trees", "5"]


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


@pytest.fixture
def little_memory(monkeypatch):
    """Every log is too large to be read whole."""
    monkeypatch.setattr(cli, "IN_MEMORY", 0)
    monkeypatch.setattr(cli, "SMALL", 0)


@pytest.mark.usefixtures("little_memory")
def test_a_log_too_large_for_memory(logs, tmp_path, capsys, given):
    out = tmp_path / "model.json"
    command = ["train", str(logs / "log.csv.gz"), *COMMON, "--test-share", "0.25"]
    assert cli.main([*command, "--out", str(out)]) == 0
    text, err = capsys.readouterr()
    assert err == ""
    assert "1,500 rows, 6 features" in text
    assert "1 categorical: window\n" in text
    assert "found from 1,125 rows drawn at random" in text
    assert "target     activity: classes" in text
    accuracy = float(re.search(r"accuracy (\d\.\d+) on 375 held-out rows", text)[1])
    assert accuracy > float(re.search(r"(\d\.\d+) by always guessing 'empty'", text)[1]) + 0.1
    assert 0 < edgeforest.load(str(out)).spent.insertions <= 30_000
    assert {len(y) for _, y, _ in given} == {1125}, "held-out rows are not trained on"
    assert cli.main([*command[:-1], "0"]) == 0
    assert "no held-out rows" in capsys.readouterr().out


@pytest.mark.usefixtures("little_memory")
def test_what_a_sample_did_not_show_is_said(tmp_path, capsys):
    rows = [f"{i},{i % 7},{i * 0.5}" for i in range(9000)]
    hidden = table(tmp_path, "\n".join(["a,b,y", *rows]))
    looked = set()
    with open_source(hidden) as source:
        looked.update(map(int, source.sample(4096, edgeforest.Rng(0, 1 << 20))[0]))
    odd, empty = [i for i in range(9000) if i not in looked][:2]
    rows[odd] = f"oops,1,{odd}"
    rows[empty] = f"{empty},1,"
    path = table(tmp_path, "\n".join(["a,b,y", *rows]))
    assert cli.main(["train", path, "--target", "y", "--trees", "3", "--test-share", "0"]) == 0
    text = capsys.readouterr().out
    assert "1 value of a taken as missing: not a number" in text
    assert "1 row without a target left out" in text
    bad = table(tmp_path, "\n".join(["a,b,y", *rows[:odd], "1,2", "3", *rows[odd:]]))
    assert "raise --max-bad" in refused(capsys, "train", bad, "--target", "y")
    command = ["train", bad, "--target", "y", "--trees", "3", "--max-bad", "2"]
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    assert "skipped    2 rows that cannot be read:" in text
    assert f"line {odd + 2} has 2 values where there are 3 columns" in text


@pytest.mark.usefixtures("little_memory")
def test_refusals_of_a_large_log_are_one_sentence(logs, tmp_path, capsys):
    path = logs / "log.jsonl"
    assert "no column 'y'; it has time, temp" in refused(capsys, "train", path, "--target", "y")
    said = refused(capsys, "train", path, "--target", "activity", "--bytes", "9k")
    assert re.search(r"^9000 bytes hold too few rows of 6 features; give --bytes \d+$", said)
    said = refused(capsys, "train", path, "--target", "co2", "--class-weight", "balanced")
    assert said == "--class-weight is for classes, but the target is a number"
    odd = table(tmp_path, numbers(40, {7: "err"}))
    said = refused(capsys, "train", odd, "--target", "y")
    assert said == (
        f"column 'x' holds numbers, but line 9 of {odd} has 'err'; mend it, or use --categorical x "
        "or --drop x"
    )


@pytest.mark.parametrize("last", [1, 4])
def test_a_training_that_was_stopped_is_resumed(last, logs, tmp_path, capsys, monkeypatch):
    path = tmp_path / "model.json"
    command = ["train", str(logs / "log.csv.gz"), *COMMON, "--checkpoint", str(path)]
    assert cli.main(command) == 0
    undisturbed = path.read_bytes()
    said = refused(capsys, *command)
    assert said == f"{path} is there already; add --resume to go on from it, or remove it"
    assert cli.main([*command, "--resume"]) == 0
    text = capsys.readouterr().out
    assert f"resumed    {path}: 5 of 5 trees were done; remove it to train anew" in text
    path.unlink()

    def step(self, training):
        if len(training.grown) == last:
            signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    with monkeypatch.context() as patch:
        patch.setattr(cli.Progress, "step", step)
        assert cli.main([*command, "--resume"]) == 130, "there is nothing to resume, so it begins"
    text = capsys.readouterr().out
    assert "stopped    by Ctrl-C" in text
    assert f"saved      {path}, {cli.size(path.stat().st_size)}; --resume goes on" in text
    assert len(edgeforest.load(str(path))) == last
    said = refused(capsys, *command, "--resume", "--seed", "3")
    assert said == f"{path} was begun with other seed: 0, now 3; use another path"
    assert cli.main([*command, "--resume", "--out", str(tmp_path / "out.json")]) == 0
    assert f"resumed    {path}: {last} of 5 trees were done\n" in capsys.readouterr().out
    assert path.read_bytes() == undisturbed
    assert edgeforest.load(tmp_path / "out.json").to_json() == edgeforest.load(path).to_json()
    path.write_bytes(undisturbed[:-30])
    assert "cut short" in refused(capsys, *command, "--resume")
    assert "--checkpoint" in refused(capsys, *command[:-2], "--resume")


def test_ctrl_c_before_the_first_tree_is_one_line(logs, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("EDGEFOREST_ENGINE", "pure")
    monkeypatch.setattr(cli.Progress, "step", lambda *_: signal.raise_signal(signal.SIGINT))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    path = tmp_path / "model.json"
    command = ["train", str(logs / "log.csv"), *COMMON, "--checkpoint", str(path)]
    assert cli.main(command) == 130
    assert capsys.readouterr().err == "edgeforest: stopped by Ctrl-C\n"
    assert not path.exists()


def test_a_log_that_changes_while_it_is_trained_from_keeps_the_trees(log, tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_bytes(log.read_bytes())
    out = tmp_path / "out.json"

    class Meddler(cli.Progress):
        def step(self, training):
            with open(path, "w") as stream:
                stream.write("more\n")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "Progress", Meddler)
        command = ["train", str(path), *COMMON, "--checkpoint", str(tmp_path / "model.json")]
        assert cli.main([*command, "--out", str(out)]) == 2
    text, err = capsys.readouterr()
    assert re.fullmatch(
        r"edgeforest: .*log.csv shrank from .* bytes since it was opened; .*\n", err
    )
    assert "the trees that are done are kept" in text
    assert "none, since no held-out rows" in text
    assert len(edgeforest.load(str(out))) == 5


def test_a_disk_that_is_full_for_the_checkpoint(log, tmp_path, capsys, monkeypatch):
    def full(forest, path, state):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "write", full)
    path, out = tmp_path / "model.json", tmp_path / "out.json"
    command = ["train", str(log), *COMMON, "--checkpoint", str(path)]
    assert cli.main([*command, "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert err == f"edgeforest: cannot write {path}: no space left on device\n"
    assert len(edgeforest.load(str(out))) == 1, "what there was, was saved elsewhere"
    assert cli.main(command) == 2
    err = capsys.readouterr().err
    found = re.fullmatch(
        rf"edgeforest: cannot write {path}: no space left on device; the model is in (.*) instead\n",
        err,
    )
    assert len(edgeforest.load(found[1])) == 1


def test_a_disk_that_is_full_for_the_standard_input(monkeypatch, capsys):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cli.shutil, "copyfileobj", full)
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
    assert said.endswith("; give --dates as for the training")
    said = refused(capsys, "predict", out, path, "--dates", "time.hour,time.weekday")
    assert "has '2025-03-03T06:00' in column 'time', which must be a number" in said
    assert "give --dates time, as for the training" in said
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


def test_rows_that_cannot_be_read_have_no_prediction(tmp_path, capsys):
    model = str(tmp_path / "model.json")
    path = table(tmp_path, numbers(40))
    assert cli.main(["train", path, "--target", "y", "--out", model]) == 0
    bad = table(tmp_path, "x\n1\n2,3\n38\n", "bad.csv")
    assert "line 3 of" in refused(capsys, "predict", model, bad)
    assert cli.main(["predict", model, bad, "--max-bad", "1"]) == 0
    out, err = capsys.readouterr()
    assert out == 'prediction\nlow\n""\nhigh\n'
    assert err == "no prediction: line 3 has 2 values where there is 1 column\n"
    assert cli.main(["predict", model, bad, "--max-bad", "1", "--proba"]) == 0
    assert capsys.readouterr().out.splitlines()[2] == ",,"


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
    assert said.endswith("it has column 1, column 2; give --header if its first line names them")
    assert cli.main(["train", years, "--target", "2024", "--header"]) == 0
    assert "3 rows, 1 feature\n           1 number: 2023" in capsys.readouterr().out
    said = refused(capsys, "train", table(tmp_path, '{"a": 1}', "a.jsonl"), *command[2:])
    assert "header is not an option of JSONLines, which reads " in said
    assert said.endswith("a.jsonl; leave it out")


def test_tables_of_a_database(tmp_path, capsys):
    path = tmp_path / "house.db"
    database = sqlite3.connect(path)
    for name in ("attic", "hall"):
        database.execute(f"CREATE TABLE {name} (x, y)")
        database.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(i, i % 2) for i in range(50)])
    database.commit()
    database.close()
    said = refused(capsys, "train", path, "--target", "y")
    assert said == f"{path} is a database: give --table, the table to read (one of attic, hall)"
    for what, rows in (("hall", 50), ("SELECT x, y FROM hall WHERE x < 30", 30)):
        assert cli.main(["train", str(path), "--table", what, "--target", "y"]) == 0
        assert f"{path}: {rows} rows" in capsys.readouterr().out
    assert "no table 'cellar'" in refused(
        capsys, "train", path, "--target", "y", "--table", "cellar"
    )


# ---- Files that are nothing of the kind


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
    for name, content in damaged(logs, tmp_path):
        path = tmp_path / name
        path.write_bytes(content)
        for most in ("0", "1G"):
            codes[outcome(capsys, path, *COMMON, "--max-bad", most)] += 1
        path.unlink()
    figure(f"{codes[0]} models, {codes[2]} sentences")
    assert codes.total() >= 120
    assert codes[0] > 10


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="needs alarms")
def test_malformed_files_give_a_model_or_one_sentence(tmp_path, capsys, figure):
    codes = Counter()
    for what, content in MALFORMED.items():
        large = len(content) > 500_000
        if "huge" in what and what not in ("huge line", "huge cell"):
            continue  # more of these beside the sources themselves
        for name in ("log.csv",) if large else ("log.csv", "log.jsonl", "log.lp"):
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
            if name == "log.csv" and not large:
                checkpoint = tmp_path / "model.json"
                codes[outcome(capsys, path, *options, "--checkpoint", checkpoint)] += 1
                if checkpoint.exists():
                    assert len(edgeforest.load(checkpoint)) == 2
                    checkpoint.unlink()
    figure(f"{codes[0]} models, {codes[2]} sentences")
    assert codes[0] > 10


# ---- Errors


def test_missing_files_and_folders(tmp_path, capsys, model, log):
    gone = tmp_path / "gone.csv"
    assert refused(capsys, "train", gone, "--target", "y") == (
        f"cannot read {gone}: no such file or directory"
    )
    assert "no such file" in refused(capsys, "predict", model, gone)
    assert "no such file" in refused(capsys, "inspect", gone)
    assert "is a directory" in refused(capsys, "train", tmp_path, "--target", "y")
    nowhere = tmp_path / "none" / "model.json"
    for command in (("train", log, "--target", "activity"), ("predict", model, log)):
        assert "there is no folder" in refused(capsys, *command, "--out", nowhere)
        assert "it is a folder" in refused(capsys, *command, "--out", tmp_path)
    assert "cannot write to" in refused(capsys, "demo", "--out", log / "demo")


def test_inputs_are_not_overwritten(log, model, capsys):
    before = log.read_bytes(), model.read_bytes()
    command = ("train", log, "--target", "activity", "--out", log)
    assert "would overwrite what is read" in refused(capsys, *command)
    for out in (log, model):
        assert "would overwrite" in refused(capsys, "predict", model, log, "--out", out)
    assert (log.read_bytes(), model.read_bytes()) == before


def test_no_such_column(log, model, tmp_path, capsys):
    said = refused(capsys, "train", log, "--target", "acitvity")
    assert f"{log} has no column 'acitvity'; it has time, temperature, humidity" in said
    for option in ("--drop", "--categorical"):
        said = refused(capsys, "train", log, "--target", "activity", option, "co2,nosuch")
        assert "no column 'nosuch'" in said
    assert "no column 'truth'" in refused(capsys, "predict", model, log, "--target", "truth")
    poor = table(tmp_path, "temperature,humidity\n1,2\n", "poor.csv")
    said = refused(capsys, "predict", model, poor)
    assert "has no column 'light', which the model was trained on; it has temperature" in said


def test_columns_that_contradict_each_other(log, capsys):
    common = ("train", log, "--target", "activity")
    assert "cannot be dropped" in refused(capsys, *common, "--drop", "activity")
    assert "is no feature" in refused(capsys, *common, "--categorical", "activity")
    said = refused(capsys, *common, "--categorical", "co2", "--drop", "co2")
    assert "both categorical and dropped" in said


def test_empty_files(tmp_path, capsys):
    for text in ("", "\n\n", "\ufeff"):
        said = refused(capsys, "train", table(tmp_path, text), "--target", "y")
        assert "log.csv is empty" in said
    assert "has no rows" in refused(capsys, "train", table(tmp_path, "x,y\n"), "--target", "y")


def test_ragged_rows_are_named_by_their_line(tmp_path, capsys, model):
    text = '\nx,y\n1,a\n\n2,"b\nb"\n3\n'
    said = refused(capsys, "train", table(tmp_path, text), "--target", "y")
    assert "line 7 of" in said
    assert "has 1 value where there are 2 columns; fix it, or raise --max-bad" in said
    said = refused(capsys, "train", table(tmp_path, "x,y\n1,a\n2,b,\n"), "--target", "y")
    assert "line 3 of" in said
    trailing = table(tmp_path, "x,y\n1,a,\n2,b,\n")
    assert cli.main(["train", trailing, "--target", "y"]) == 0, "a separator too many in each row"
    assert "left out: column 3 (the header does not name it)" in capsys.readouterr().out


def test_text_among_numbers(tmp_path, capsys, log, model):
    said = refused(capsys, "train", table(tmp_path, numbers(40, {7: "err"})), "--target", "y")
    assert "column 'x' holds numbers, but line 9 of" in said
    assert "log.csv has 'err'; mend it" in said
    assert "--categorical x or --drop x" in said
    said = refused(
        capsys, "train", table(tmp_path, "x,y\n" + "1,5\n" * 9 + "1,z\n"), "--target", "y"
    )
    assert "the target 'y' holds numbers, but line 11" in said
    late = table(tmp_path, "x,y\n1,\n2,a\n3,b\nerr,a\n5,b\n")
    assert "line 5 of" in refused(capsys, "train", late, "--target", "y")
    rows = demo.sample_log(3)
    rows[1][2] = "wet"
    bad = tmp_path / "bad.csv"
    write(bad, [demo.COLUMNS, *rows])
    out = tmp_path / "out.csv"
    said = refused(capsys, "predict", model, bad, "--out", out)
    assert f"line 3 of {bad} has 'wet' in column 'humidity', which must be a number" in said
    assert not list(tmp_path.glob("out*")), "nothing half written stays behind"


def test_numbers_beyond_float32(tmp_path, capsys, model):
    for bad in ("inf", "-1e39"):
        path = table(tmp_path, numbers(20, {3: bad}))
        said = refused(capsys, "train", path, "--target", "y")
        assert f"line 5 of {path} has {bad} in column 'x'" in said
        rows = demo.sample_log(1)
        rows[0][1] = bad
        write(tmp_path / "bad.csv", [demo.COLUMNS, *rows])
        said = refused(capsys, "predict", model, tmp_path / "bad.csv")
        assert f"has {bad!r} in column 'temperature'" in said


def test_too_many_categories(tmp_path, capsys):
    lines = "".join(f"id{i % 255},{i},{i % 2}\n" for i in range(510))
    path = table(tmp_path, "id,a,y\n" + lines)
    said = refused(capsys, "train", path, "--target", "y")
    assert "'id'" in said
    assert "has 255 distinct values, at most 254" in said
    assert "--drop id" in said
    assert cli.main(["train", path, "--target", "y", "--drop", "id", "--trees", "2"]) == 0
    assert "254" in refused(capsys, "train", path, "--target", "y", "--categorical", "a")


def test_targets_that_teach_nothing(tmp_path, capsys):
    assert "is empty" in refused(
        capsys, "train", table(tmp_path, "x,y\n1,\n2,NA\n"), "--target", "y"
    )
    said = refused(capsys, "train", table(tmp_path, "x,y\n1,a\n2,a\n"), "--target", "y")
    assert "is 'a' in every row" in said
    said = refused(capsys, "train", table(tmp_path, "y\na\nb\n"), "--target", "y")
    assert "has no column to learn 'y' from" in said


def test_tasks_that_do_not_fit(log, tmp_path, capsys):
    common = ("train", log, "--target", "activity")
    assert "line 2 of" in refused(capsys, *common, "--task", "regression")
    assert "must be numbers" in refused(capsys, *common, "--criterion", "mse")
    said = refused(capsys, *common, "--criterion", "gini", "--task", "regression")
    assert said == "--criterion gini is for classification, got --task regression; leave one out"
    said = refused(capsys, "train", log, "--target", "co2", "--class-weight", "balanced")
    assert "--class-weight is for classes, but 'co2' is a number" in said
    model = str(tmp_path / "model.json")
    assert cli.main(["train", str(log), "--target", "co2", "--budget", "2k", "--out", model]) == 0
    assert "no class shares" in refused(capsys, "predict", model, log, "--proba")


def test_files_that_are_not_tables(tmp_path, capsys):
    def said(content):
        return refused(capsys, "train", table(tmp_path, content), "--target", "y")

    latin = "x,y\n1,grün\n2,rot\n".encode("latin-1")
    assert "line 2 of" in said(latin)
    assert "is not utf-8 text (give its --encoding if it has another)" in said(latin)
    assert "is not utf-16 text" in said("x,y\n1,2\n".encode("utf-16")[:-1])
    whole = gzip.compress(numbers(5000).encode())
    assert "is cut short or damaged" in said(whole[: len(whole) // 2])
    assert "line 3 of" in said('x,y\n1,a\n2,"b\n' + "3,c\n" * 40_000)


def test_files_that_are_not_models(log, model, tmp_path, capsys):
    for command in (("inspect",), ("predict",)):
        rest = (log,) if command == ("predict",) else ()
        said = refused(capsys, *command, log, *rest)
        assert said.startswith(f"{log}: this is not an EdgeForest model")
        text = model.read_text()
        cut = table(tmp_path, text[:-20], "cut.json")
        assert said != refused(capsys, *command, cut, *rest)
        altered = table(tmp_path, text.replace('"seed":0', '"seed":1'), "altered.json")
        assert "altered" in refused(capsys, *command, altered, *rest)


def test_memory_that_does_not_fit_is_refused(log, capsys):
    said = refused(capsys, "train", log, "--target", "activity", "--bytes", "10k")
    assert "bytes of working memory, the budget is 10000" in said


def test_a_forest_that_cannot_be_written_is_kept_elsewhere(log, tmp_path, capsys, monkeypatch):
    """The folder of the model, this one, the home and the temporary ones fill up one by one."""
    places = [tmp_path / name for name in ("models", "here", "home", "temporary")]
    for place in places:
        place.mkdir()
    monkeypatch.chdir(places[1])
    monkeypatch.setenv("HOME", str(places[2]))
    monkeypatch.setenv("USERPROFILE", str(places[2]))
    monkeypatch.setattr(cli.tempfile, "tempdir", str(places[3]))
    out = places[0] / "model.json"
    out.write_text("old")
    full = {str(out)}
    really = disk._create

    def create(part, mode, there):
        if os.path.dirname(part) in full or (str(out) in full and ".model.json." in part):
            raise OSError(28, "No space left on device", part)
        return really(part, mode, there)

    monkeypatch.setattr(disk, "_create", create)
    command = ["train", log, "--target", "activity", "--budget", "2k", "--out", out]
    for place in places:
        said = refused(capsys, *command)
        found = re.fullmatch(
            rf"cannot write {out}: no space left on device; the model is in (.*) instead", said
        )
        kept = Path(found[1])
        assert kept.parent == place
        assert re.fullmatch(r"model-[0-9a-f]{8}\.json", kept.name)
        assert len(edgeforest.load(str(kept))) >= 1
        assert [p.name for p in place.iterdir() if p != out] == [kept.name], "no stray"
        full.add(str(place))
    assert refused(capsys, *command) == (
        f"cannot write {out}: no space left on device; nor can the model be kept in this folder, "
        "at home or among temporary files"
    )
    assert out.read_text() == "old"


@pytest.mark.parametrize("command", ["train", "merge", "predict", "export"])
def test_ctrl_c_while_a_file_is_written_leaves_the_old_one_and_nothing_else(
    command, log, model, tmp_path, capsys, monkeypatch
):
    out = tmp_path / "out" / "old.json"
    out.parent.mkdir()
    out.write_text("old")
    given = {
        "train": [log, "--target", "activity", "--budget", "2k", "--out"],
        "merge": [model, "--out"],
        "predict": [model, log, "--out"],
        "export": [model],
    }[command]

    def interrupt(number):
        raise KeyboardInterrupt

    monkeypatch.setattr(disk, "_sync", interrupt)
    assert cli.main([command, *map(str, given), str(out)]) == 130
    assert capsys.readouterr().err == "edgeforest: stopped by Ctrl-C\n"
    assert out.read_text() == "old"
    assert os.listdir(out.parent) == ["old.json"]


def test_a_folder_that_cannot_be_written_to_is_refused_before_any_work(
    log, model, tmp_path, capsys, monkeypatch
):
    shut = tmp_path / "shut"
    shut.mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(shut / "model.json")
    monkeypatch.setattr(os, "access", lambda path, how: Path(path) != shut)  # root may everywhere
    monkeypatch.setattr(cli, "opened", None)
    for out in (shut / "model.json", link):
        expected = f"cannot write {out}: {shut} may not be written to; choose another folder"
        assert refused(capsys, "train", log, "--target", "activity", "--out", out) == expected
        assert refused(capsys, "merge", model, "--out", out) == expected
        assert refused(capsys, "predict", model, log, "--out", out) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("train log.csv", "--target"),
        ("train log.csv --target y --trees 0", "--trees must be a whole number from 1 to 4,096"),
        ("train log.csv --target y --trees ten", "got 'ten'"),
        ("train log.csv --target y --seed -1", "--seed must be a whole number from 0"),
        ("train log.csv --target y --test-share 1", "--test-share must be from 0 to below 1"),
        ("train log.csv --target y --seconds 5m", "--seconds must be a number"),
        ("train log.csv --target y --seconds 0", "--seconds must be at least 0.001"),
        ("train log.csv --target y --seconds 0.00001", "--seconds must be at least 0.001, got"),
        ("train log.csv --target y --seconds nan", "--seconds must be a number such as"),
        ("train log.csv --target y --seconds inf", "--seconds must be a number such as"),
        ("train log.csv --target y --seconds -1", "--seconds"),
        ("train log.csv --target y --bytes 0", "--bytes must be whole bytes, at least 1"),
        ("train log.csv --target y --bytes nan", "--bytes must be a size such as"),
        ("train log.csv --target y --budget 0", "--budget must be a whole number of at least 1"),
        ("train log.csv --target y --budget inf", "--budget must be a number such as"),
        ("train log.csv --target y --kind wood", "'wood'"),
        ("train log.csv --target y --tre 5", "--tre"),
        ("train log.csv --target y --engine fast", "'fast'"),
        ("train log.csv --target y --jobs 0", "--jobs must be a whole number from 1 to 1,024, got"),
        ("train log.csv --target y --jobs -2", "got '-2' (-1 stands for every core)"),
        ("train log.csv --target y --jobs two", "got 'two'"),
        ("merge --out c.json", "model"),
        ("merge a.json b.json", "--out"),
        ("merge a.json --out c.json --weights 1,-2", "--weights must be numbers such as 1,2.5"),
        ("merge a.json --out c.json --weights 1,nan", "got '1,nan'"),
        ("merge a.json --out c.json --weights 1;2", "got '1;2'"),
        ("merge a.json --out c.json --max-trees 0", "--max-trees must be a whole number of at"),
        ("merge a.json --out c.json --max-bytes ten", "--max-bytes must be a size such as 64MB"),
        ("export model.json", "out"),
        ("export model.json m.h --rows int8", "'int8'"),
        ("export model.json m.json --shrink --levels 0", "--levels must be a whole number from 1"),
        ("grow", "'grow'"),
    ],
)
def test_bad_options_are_one_sentence(arguments, expected, capsys):
    said = refused(capsys, *arguments.split())
    assert expected in said
    assert re.search(r"; see edgeforest( train| merge| export)? --help$", said)


def test_table_errors_are_value_errors(tmp_path):
    with pytest.raises(TableError):
        prepared(table(tmp_path, "a,y\n1,u\n"), "z")
    assert issubclass(TableError, ValueError)
    assert issubclass(SourceError, ValueError)


def test_output_survives_a_terminal_without_unicode(tmp_path, monkeypatch):
    path = table(tmp_path, numbers(40, column="°C"))
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert cli.main(["train", path, "--target", "y", "--trees", "2"]) == 0
    assert b"1 number: \\xb0C" in raw.getvalue()
