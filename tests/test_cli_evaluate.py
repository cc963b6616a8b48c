"""edgeforest evaluate, pack and completion; JSON, silence, standard input and output, deadlines."""

import io
import json
import re
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from command_line import commands, refused, table
from sklearn.ensemble import RandomForestClassifier

import edgeforest
from edgeforest import cli
from edgeforest.cli import arguments, demo, screen
from edgeforest.cli import train as training
from edgeforest.scores import evaluate
from edgeforest.sources import open_source


@pytest.fixture(scope="module")
def later(log):
    """A log of the hours after the one that the model was trained on."""
    path = log.parent / "later.csv"
    rows = demo.sample_log(2100, seed=3)[1500:]
    path.write_text("\n".join(",".join(row) for row in [demo.COLUMNS, *rows]) + "\n")
    return path


def facts(capsys, *arguments):
    capsys.readouterr()
    assert cli.main([*map(str, arguments), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    return json.loads(out)


def test_evaluate_says_what_the_library_computes(model, later, capsys):
    found = facts(capsys, "evaluate", model, later, "--by", "time", "--baseline")
    forest = edgeforest.load(model)
    with open_source(later) as source:
        expected = evaluate(forest, source, "activity", by="time")
    assert {k: found[k] for k in expected.facts()} == json.loads(json.dumps(expected.facts()))
    assert found["target"] == "activity", "the only column that can be"
    assert found["baselines"] == expected.baselines()
    assert list(found["groups"]) == sorted({t[:10] for t in column(later, "time")})
    assert cli.main(["evaluate", str(model), str(later), "--by", "time", "--baseline"]) == 0
    text = capsys.readouterr().out
    assert f"accuracy {expected.accuracy:.3f}, balanced " in text
    assert re.search(r"log loss \d", text)
    for label, row in zip(expected.labels, expected.table(), strict=True):
        assert re.search(rf"{label} +" + " +".join(map(str, row)) + "$", text, re.M)
    assert f"{expected.baselines()['last row']:.3f} by the truth of the row before" in text
    worst = min(expected.groups.values(), key=lambda group: group.score)
    assert re.search(rf"groups +{worst.score:.3f} on 2025-03-0\d", text), "the worst one first"
    assert "unlike" in text


def column(path, name):
    with open_source(path) as source:
        return source.read(range(len(source)))[source.names.index(name)]


def test_evaluate_beside_scikit_learn(tmp_path, capsys):
    rows = [(i % 17, (i * 7) % 5) for i in range(200)]
    labels = ["warm" if a + b > 11 else "cool" for a, b in rows]
    lines = [f"{a},{b},{y}" for (a, b), y in zip(rows, labels, strict=True)]
    first = table(tmp_path, "\n".join(["a,b,y", *lines[:150]]), "first.csv")
    second = table(tmp_path, "\n".join(["a,b,y", *lines[150:]]), "second.csv")
    model = tmp_path / "model.json"
    assert cli.main(["train", first, "--trees", "3", "--holdout", "none", "--out", str(model)]) == 0
    found = facts(capsys, "evaluate", model, second, "--baseline", "--trained-on", first)
    theirs = RandomForestClassifier(3, random_state=0).fit(rows[:150], labels[:150])
    assert found["baselines"]["scikit-learn"] == theirs.score(rows[150:], labels[150:])


def test_evaluate_of_numbers(log, later, tmp_path, capsys):
    model = tmp_path / "co2.json"
    common = ["--target", "co2", "--trees", "3", "--holdout", "none", "--drop", "activity"]
    assert cli.main(["train", str(log), *common, "--out", str(model)]) == 0
    found = facts(capsys, "evaluate", model, later, "--target", "co2")
    answers = [float(v) for v in predictions(capsys, model, later)]
    truths = column(later, "co2")
    errors = [abs(float(t) - a) for t, a in zip(truths, answers, strict=True) if t is not None]
    assert found["mae"] == pytest.approx(sum(errors) / len(errors), rel=1e-5)
    assert found["rows"] + found["unlabelled"] == 600
    assert cli.main(["evaluate", str(model), str(later), "--target", "co2"]) == 0
    assert re.search(r"errors +half are below [\d.]+, 90 % below", capsys.readouterr().out)


def predictions(capsys, model, log):
    capsys.readouterr()
    assert cli.main(["predict", str(model), str(log), "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out.split()[1:]


def test_rows_unlike_those_of_the_training_are_said(tmp_path, capsys):
    text = "t,room,y\n" + "".join(f"{i % 20},r{i % 3},{int(i % 20 > 9)}\n" for i in range(100))
    log = table(tmp_path, text)
    model = str(tmp_path / "model.json")
    assert cli.main(["train", log, "--trees", "2", "--out", model]) == 0
    other = table(tmp_path, "t,room,y\n5,r1,0\n90,r9,1\n", "other.csv")
    capsys.readouterr()
    assert cli.main(["evaluate", model, other]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "50.0% of the values are like none that the model was trained on:" in out
    assert "t: 1 value (50.0%), such as 90, not from 0 to 19" in out
    assert "room: 1 value (50.0%), such as 'r9', which is new" in out
    assert cli.main(["predict", model, other]) == 0
    err = capsys.readouterr().err
    assert "note: 50% of the values of t are outside of 0 to 19, where the model was trained" in err
    assert cli.main(["inspect", model]) == 0
    assert "number, 0 to 19" in capsys.readouterr().out


def test_groups_are_left_out_and_are_no_feature(tmp_path, capsys):
    text = "t,station,y\n" + "".join(f"{i % 20},s{i % 4},{int(i % 20 > 9)}\n" for i in range(200))
    log = table(tmp_path, text)
    found = facts(capsys, "train", log, "--group", "station", "--trees", "2")
    assert [block["name"] for block in found["score"]["blocks"]] == ["s0", "s1", "s2", "s3"]
    assert list(found["importances"]) == ["t"]


def test_useless_columns_are_left_out_and_rare_classes_are_noted(tmp_path, capsys):
    lines = [f"{i},{i % 9},7,{i * 3},{'rare' if i % 40 == 0 else 'usual'}" for i in range(200)]
    log = table(tmp_path, "\n".join(["row_id,t,version,userId,label", *lines]))
    assert cli.main(["train", log, "--trees", "2"]) == 0
    text = capsys.readouterr().out
    assert "200 rows, 1 feature" in text
    for name in ("row_id", "userId"):
        assert f"left out: {name} (a different number in each row, as an id has)" in text
    assert "left out: version (7 in every row)" in text
    assert "imbalanced: 'rare' is 2.5% of the rows; --class-weight balanced" in text
    weighted = ["train", log, "--trees", "2", "--class-weight", "balanced"]
    assert cli.main(weighted) == 0
    assert "imbalanced" not in capsys.readouterr().out


def test_a_log_sorted_by_class_says_so(tmp_path, capsys):
    lines = [f"{i % 10},{i // 20}" for i in range(100)]
    assert cli.main(["train", table(tmp_path, "\n".join(["t,y", *lines])), "--trees", "2"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "over 5 parts at random" in words
    assert "the log is sorted by class, so rows were left out at random; if neighbours" in words


# ---- Standard input and output, JSON and silence


def test_a_model_goes_through_pipes(log, later, model, monkeypatch, capsys):
    command = ["train", str(log), "--target", "activity", "--budget", "60k", "--trees", "5"]
    capsys.readouterr()
    assert cli.main([*command, "--out", "-"]) == 0
    out, err = capsys.readouterr()
    assert out == model.read_text(), "the model and nothing else"
    assert "accuracy" in err
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(out.encode())))
    assert cli.main(["evaluate", "-", str(later), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "command",
    [
        "inspect MODEL",
        "engines",
        "merge MODEL MODEL --out OUT",
        "export MODEL OUT",
        "pack LOG --out NPY",
    ],
)
def test_every_command_speaks_json_or_nothing(command, log, model, tmp_path, capsys):
    places = {"MODEL": model, "LOG": log, "OUT": tmp_path / "o.json", "NPY": tmp_path / "o.npy"}
    arguments = [str(places.get(word, word)) for word in command.split()]
    assert isinstance(facts(capsys, *arguments), dict)
    assert cli.main([*arguments, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert "error" not in refused(capsys, *arguments, "--wrong", "--quiet")


def test_train_as_json(log, model, tmp_path, capsys):
    out = tmp_path / "model.json"
    common = ["--target", "activity", "--budget", "60k", "--trees", "5", "--out", out]
    found = facts(capsys, "train", log, *common)
    assert out.read_bytes() == model.read_bytes()
    forest = edgeforest.load(out)
    assert found["spent"]["insertions"] == forest.spent.insertions
    assert found["score"]["insertions"] + forest.spent.insertions <= 60_000
    assert found["score"]["mean"] == pytest.approx(found["score"]["pooled"]["accuracy"])
    assert len(found["score"]["blocks"]) == found["score"]["planned"] == 5


# ---- pack


def test_a_packed_log_trains_the_same_forest(log, model, tmp_path, capsys):
    packed = tmp_path / "log.npy"
    assert cli.main(["pack", str(log), "--out", str(packed)]) == 0
    assert "1,500 rows, 8 columns" in capsys.readouterr().out
    out = tmp_path / "model.json"
    common = ["--target", "activity", "--budget", "60k", "--trees", "5", "--out", str(out)]
    assert cli.main(["train", str(packed), *common]) == 0
    assert edgeforest.load(out).to_json() == edgeforest.load(model).to_json()


# ---- Time


def test_times_have_units():
    assert arguments.seconds("250ms") == 0.25
    assert arguments.seconds("90") == arguments.seconds("1.5min") == arguments.seconds("90s") == 90
    assert arguments.seconds("2h") == 7200
    assert arguments.seconds("1d") == arguments.seconds("86.4k") == 86400
    assert arguments.part("3") == 3
    assert arguments.part("0.5") == 0.5


def test_a_deadline_is_the_next_time_that_the_clock_shows_it():
    now = time.time()
    for text in ("00:00", "7:30", "23:59:59"):
        when = arguments.deadline(text)
        assert now < when <= now + 25 * 3600  # a day, and an hour if clocks are set back
        shown = time.strftime("%H:%M:%S", time.localtime(when))
        assert shown.startswith(text.zfill(5))
    assert arguments.deadline("2030-01-01T00:00+00:00") == 1893456000


def test_the_earlier_limit_holds():
    given = SimpleNamespace(seconds=5.0, deadline=time.time() + 3600)
    assert training.time_limit(given) == 5
    given.seconds = 1e9
    assert 3500 < training.time_limit(given) <= 3600


def test_a_file_gets_a_line_of_progress_now_and_then(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    clock = iter(range(0, 10**6, 3))
    monkeypatch.setattr(screen.time, "monotonic", lambda: next(clock))
    show = screen.StatusLine().watch_rows("reading", "log.csv")
    for done in range(10):
        show(done, 10)
    lines = stream.getvalue().splitlines()
    assert 1 <= len(lines) <= 4
    assert all(re.fullmatch(r"\[#*\.*\] reading log\.csv: \d0%", line) for line in lines)
    screen.StatusLine(quiet=True).watch_rows("reading", "log.csv")(5, 10)
    assert len(stream.getvalue().splitlines()) == len(lines)


# ---- Completion


def completed(path, *words):
    """What bash proposes for the last of these words."""
    given = " ".join(f"'{word}'" for word in words)
    code = f"source {path}; COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _edgeforest; "
    done = subprocess.run(
        ["bash", "-c", code + 'echo "${COMPREPLY[@]}"'], capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_what_the_parser_has(tmp_path, capsys):
    assert cli.main(["completion", "bash"]) == 0
    path = tmp_path / "completion.sh"
    path.write_text(capsys.readouterr().out)
    assert completed(path, "edgeforest", "ev") == ["evaluate"]
    assert completed(path, "edgeforest", "train", "--max-d") == ["--max-depth"]
    assert completed(path, "edgeforest", "train", "--holdout", "") == ["auto", "random", "none"]
    assert completed(path, "edgeforest", "predict", "--bud") == [], "an option of another one"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_have_every_command_and_option(shell, capsys):
    assert cli.main(["completion", shell]) == 0
    text = capsys.readouterr().out
    for name, command in commands()[1].choices.items():
        assert re.search(rf"\b{name}\b", text)
        for action in command._actions:
            for spelling in action.option_strings:
                assert spelling.lstrip("-") in text
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_every_command_has_an_example_that_names_it():
    for name, command in commands()[1].choices.items():
        example = command.epilog.partition("\n")[2]
        assert f"edgeforest {name}" in example
        assert example.strip() in command.format_help()
