"""edgeforest calibrate: what is measured and kept, and how trainings are planned by it."""

import json
import os
import random

import pytest
from command_line import refused

from edgeforest import Budget, budget, cli, engine
from edgeforest.engines import speed
from edgeforest.sources import Table
from edgeforest.sources.training import Streaming

HERE = speed.Speed(2e5, 1e5, 4e5, 3e5)


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "state" / "speed.json"
    monkeypatch.setenv(speed.VARIABLE, str(path))
    return path


@pytest.fixture
def insertions_take_time(monkeypatch):
    """A clock that goes on by insertions alone: a microsecond each."""
    made = []
    begin = budget.Budget.__init__

    def remember(self, *limits, **more):
        made.append(self)
        begin(self, *limits, **more)

    monkeypatch.setattr(budget.Budget, "__init__", remember)
    total = lambda: sum(one.spent.insertions for one in made if hasattr(one, "spent"))  # noqa: E731
    monkeypatch.setattr(budget, "_ticks", lambda: total() // 1000)
    return total


def rows_of(n):
    rng = random.Random(1)
    rows = [[rng.random() for _ in range(9)] for _ in range(n)]
    return rows, [(r[0] > 0.5) ^ (r[1] > 0.5) ^ (rng.random() < 0.05) for r in rows]


def test_all_engines_are_measured_and_kept(file, capsys, monkeypatch):
    monkeypatch.setattr(speed, "SECONDS", 0.0)
    monkeypatch.setattr(speed.measure, "__defaults__", (0.0, iter(range(10**6)).__next__))
    assert cli.main(["calibrate"]) == 0
    said = capsys.readouterr().out
    speeds, problem = speed.kept()
    assert (list(speeds), problem) == (engine.present(), "")
    for name, one in speeds.items():
        assert f"{name:<11}" in said
        assert 0 < one.low <= one.typical <= one.high
        assert one.low <= one.first <= one.high
    assert str(file) in said
    assert os.listdir(file.parent) == ["speed.json"]
    assert cli.main(["calibrate", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert set(facts["speeds"]) == set(engine.present())


def test_a_speed_that_cannot_be_kept_is_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(engine, "present", list)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(speed.VARIABLE, str(tmp_path / "file" / "speed.json"))
    assert "name another file in EDGEFOREST_SPEED" in refused(capsys, "calibrate")


@pytest.mark.parametrize("content", [
    b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 5000, b" " * 70_000,
    b'{"format": "edgeforest speed 2"}', b'{"format": "edgeforest speed 1"}',
    b'{"format": "edgeforest speed 1", "engines": {"pure": {"typical": 1}}}',
    b'{"format": "edgeforest speed 1", "engines": {"pure": {"typical": "9", "low": 1, "high": 9, "first": 2}}}',
    b'{"format": "edgeforest speed 1", "engines": {"pure": {"typical": NaN, "low": 1, "high": 9, "first": 2}}}',
    b'{"format": "edgeforest speed 1", "engines": {"pure": {"typical": 1, "low": 0, "high": 9, "first": 2}}}',
    b'{"format": "edgeforest speed 1", "engines": []}', "folder", "device",
])  # fmt: skip
def test_a_file_of_no_use_is_ignored_with_a_word(content, file, log, capsys):
    file.parent.mkdir()
    if content == "folder":
        file.mkdir()
    elif content == "device":
        speed.keep({"pure": HERE})
        file.write_text(file.read_text().replace(speed.device(), "another one"))
    else:
        file.write_bytes(content)
    speeds, problem = speed.kept()
    if content == b'{"format": "edgeforest speed 1", "engines": []}':
        assert "another device" in problem
    assert speeds == {}
    assert str(file) in problem
    assert "`edgeforest calibrate` writes it anew" in problem
    if content in ("folder", b"{", "device"):
        command = ["train", str(log), "--target", "activity", "--budget", "9k", "--engine", "pure"]
        assert cli.main([*command, "--holdout", "none", "--trees", "2"]) == 0
        said = capsys.readouterr().out
        assert f"note       {problem}" in said
        assert "on this device (" not in said


def test_train_says_what_a_budget_means_here(file, log, capsys):
    command = ["train", str(log), "--target", "activity", "--engine", "pure", "--trees", "3"]
    command += ["--holdout", "none", "--max-depth", "2", "--budget"]
    assert cli.main([*command, "10k"]) == 0
    without = capsys.readouterr().out
    assert "on this device" not in without
    speed.keep({"pure": HERE})
    assert cli.main([*command, "10k"]) == 0
    said = capsys.readouterr().out
    line = "plan       10,000 insertions: about 50 ms on this device (25 ms to 100 ms by the data)"
    assert line in said
    assert cli.main([*command[:-1], "--seconds", "60"]) == 0
    assert "60.0 s: about 12M insertions on this device, less the time to read" in (
        capsys.readouterr().out
    )


def test_without_a_limit_nothing_is_said(file, log, capsys):
    speed.keep({"pure": HERE})
    command = ["train", str(log), "--target", "activity", "--engine", "pure", "--trees", "1"]
    assert cli.main([*command, "--holdout", "none", "--max-depth", "2"]) == 0
    assert "plan" not in capsys.readouterr().out


def grown(seconds, first, insertions_take_time):
    """Accuracy, trees, and insertions of a training whose clock counts insertions."""
    rows, labels = rows_of(4000)
    steps = engine.read(rows, labels, engine="pure", n_trees=20, budget=Budget(seconds=seconds))
    if first is not None:
        speed.plan(steps, first)
    for _ in steps:
        pass
    forest = steps.forest()
    test, truth = rows_of(4600)
    right = [a == b for a, b in zip(forest.predict(test[4000:]), truth[4000:], strict=True)]
    return sum(right) / len(right), len(forest), forest.spent.insertions


def test_a_plan_makes_a_short_time_worth_more(insertions_take_time):
    alone, many, _ = grown(0.12, None, insertions_take_time)
    planned, few, spent = grown(0.12, 1e6, insertions_take_time)
    assert many == 20
    assert 1 < few < 10  # of this table, 40,000 insertions are the first levels of a tree
    assert planned > alone + 0.02
    assert spent <= 125_000  # the clock still has the last word
    # A speed that is wrong by a factor of three does no harm either.
    for wrong in (3e5, 3e6):
        assert grown(0.12, wrong, insertions_take_time)[0] > alone - 0.02


def test_a_plan_changes_nothing_if_the_time_is_enough():
    rows, labels = rows_of(300)
    forests = []
    for first in (None, 1e9):
        steps = engine.read(rows, labels, engine="pure", n_trees=4, budget=Budget(seconds=3600))
        if first is not None:
            speed.plan(steps, first)
        for _ in steps:
            pass
        forests.append(steps.forest().to_json())
    assert forests[0] == forests[1]


def test_a_streamed_training_is_planned_and_keeps_its_trees(tmp_path):
    rows, labels = rows_of(600)
    table = Table({**{f"x{f}": [r[f] for r in rows] for f in range(9)}, "y": labels})
    path = tmp_path / "model.json"
    options = {"n_trees": 8, "engine": "pure", "checkpoint": path}
    training = Streaming(table, "y", budget=Budget(seconds=3600), **options)
    steps = engine.read(rows, labels, engine="pure")
    whole = speed.whole_trees(steps, 1e6)
    training.plan(1e6 * 5.5 / whole / 3600)
    assert training.planned == 5
    for step in training:
        if len(step.grown) == 3:
            break
    again = Streaming(table, "y", budget=Budget(seconds=3600), resume=True, **options)
    assert len(again.grown) == 3
    again.plan(1e-9)  # no time for more than one: those that are done stay
    for _ in again:
        pass
    assert len(again.forest()) == 4


def test_threads_are_counted_for_the_native_engine_alone(monkeypatch):
    monkeypatch.setattr(speed, "usable_cores", lambda: 4)
    speeds = {"native": HERE, "pure": HERE}
    assert [speed.pace(speeds, "native", jobs).typical / 2e5 for jobs in (None, 1, 2, 8, -1)] == [
        1, 1, 2, 4, 4
    ]  # fmt: skip
    assert speed.pace(speeds, "pure", -1) == HERE
    assert speed.pace(speeds, "numpy", 1) is None
