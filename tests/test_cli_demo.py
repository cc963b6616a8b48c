"""edgeforest demo: the whole way on made-up data."""

import os
import re
import shlex
from collections import Counter
from itertools import pairwise

import pytest

import edgeforest
from edgeforest import cli, engine
from edgeforest.cli import demo


def test_demo_goes_the_whole_way(tmp_path, capsys):
    assert cli.main(["demo", "--out", str(tmp_path / "new" / "demo")]) == 0
    text = capsys.readouterr().out
    accuracy = float(re.search(r"accuracy (\d\.\d+) over 5 days; worst", text)[1])
    assert 0.8 < accuracy < 0.95, "neither hopeless nor trivial"
    later = float(re.search(r"which it has not seen: accuracy (\d\.\d+)", text)[1])
    assert abs(accuracy - later) < 0.05, "what the score promised"
    assert float(re.search(r"(\d\.\d+) by always", text)[1]) < 0.75
    assert int(re.search(r"([\d,]+) of 100,000 ins", text)[1].replace(",", "")) <= 100_000
    shown = re.findall(
        r"(empty|working|meeting) +(empty|working|meeting)(  <- wrong)?$", text, re.M
    )
    assert len(shown) >= 8
    assert all((predicted == truth) == (mark == "") for predicted, truth, mark in shown)
    assert sorted(os.listdir(tmp_path / "new" / "demo")) == [
        "model.json",
        "next_day.csv",
        "sample_log.csv",
    ]
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
    rows = [[20.0, 40.0, 0.0, 500.0, 0.0, "closed"]] * 2
    kinds = ["window"]
    liar = edgeforest.train(rows, ["empty", "empty"], names=demo.COLUMNS[1:-1], categorical=kinds)
    monkeypatch.setattr(demo, "load_model", lambda path: liar)
    with pytest.raises(RuntimeError, match=r"model\.json does not predict"):
        cli.main(["demo", "--out", str(tmp_path), "--rows", "500", "--budget", "10k"])


@pytest.mark.parametrize("name", engine.present())
def test_demo_says_which_engine_it_uses(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("EDGEFOREST_ENGINE", name)
    assert cli.main(["demo", "--out", str(tmp_path), "--rows", "300", "--budget", "2k"]) == 0
    assert f"\nengine     {name}, 1 thread\n" in capsys.readouterr().out


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
