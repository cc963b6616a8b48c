"""The drift alarm: it is raised soon after a change, rarely without one, and alike by all engines."""

import io
import json
import pickle
from contextlib import redirect_stdout

import compared
import pytest
from mutants import sealed
from runtimes import install, needs_micropython, needs_mpy_cross, output, run_micropython

from edgeforest import OnlineForest, Rng
from edgeforest.drift import CHUNK, WARM, Drift, Watch

ENGINES = [name for name in compared.ENGINES if name != "numpy"]


def sea(n, seed, limits, noise=0.1):
    """Three numbers; whether the first two add up to little. The limit changes at equal times."""
    rng = Rng(seed, 5)
    rows, labels = [], []
    for i in range(n):
        row = [rng.unit() * 10 for _ in range(3)]
        label = row[0] + row[1] <= limits[i * len(limits) // n]
        rows.append(row)
        labels.append("low" if label != (rng.unit() < noise) else "high")
    return rows, labels


def watched(rows, labels, **options):
    """A learner, and its alarms."""
    alarms = []
    learner = OnlineForest(["a", "b", "c"], on_drift=alarms.append, **options)
    learner.update_batch(rows, labels)
    return learner, alarms


@pytest.mark.parametrize("seed", range(4))
def test_an_abrupt_change_raises_one_alarm_soon(seed):
    rows, labels = sea(9000, seed, (7, 9.5, 7))
    learner, alarms = watched(rows, labels, seed=seed)
    assert len(alarms) == 2
    for alarm, change, guess in zip(alarms, (3000, 6000), ("high", "low"), strict=True):
        assert change < alarm.row <= change + 500
        assert abs(alarm.since - change) < 150
        assert alarm.features
        assert alarm.features[0] in ("a", "b")  # nothing depends on the third
        assert alarm.guess in (guess, None)
        assert alarm.after > alarm.before + 0.05
        assert alarm.sure > 2
    assert learner.drift is alarms[-1]


@pytest.mark.parametrize("labelled", [True, False])
def test_a_world_that_stays_raises_at_most_one_alarm_in_100000_rows(labelled):
    alarms = []
    for seed in range(5):
        rows, labels = sea(20_000, seed, (8,))
        if not labelled:  # there is nothing to learn
            rng = Rng(seed)
            labels = [rng.below(3) for _ in rows]
        learner, found = watched(rows, labels, seed=seed)
        assert learner.drift is (found[-1] if found else None)
        alarms += found
    assert len(alarms) <= 1


def numbers(n, seed):
    """A number that depends on one of three values, and from the middle on on another one."""
    rng = Rng(seed, 6)
    rows = [[rng.unit(), rng.unit(), rng.unit()] for _ in range(n)]
    return rows, [10 * row[0 if i < n // 2 else 2] + rng.unit() for i, row in enumerate(rows)]


def test_a_regression_has_its_alarm():
    rows, targets = numbers(6000, 1)
    _, alarms = watched(rows, targets, criterion="mse")
    assert len(alarms) == 1
    assert 3000 < alarms[0].row <= 3300
    assert abs(alarms[0].since - 3000) < 50
    assert set(alarms[0].features) <= {"a", "c"}
    assert alarms[0].guess in (None, "too high", "too low")


@pytest.mark.parametrize("criterion", ["gini", "mse"])
def test_engines_and_batches_raise_the_same_alarms(criterion):
    rows, labels = numbers(3000, 2) if criterion == "mse" else sea(3000, 2, (3, 9.5))
    options = {"criterion": criterion, "n_trees": 4, "window": 300}
    # All at once they would show more classes, and a wider range, than one by one.
    known = None if criterion == "mse" else ["high", "low"]
    found = []
    for engine, size in [(engine, 3000) for engine in ENGINES] + [(None, 77), (None, 1)]:
        alarms = []
        learner = OnlineForest(3, on_drift=alarms.append, engine=engine, classes=known, **options)
        learner.update_batch(rows[:2], [0.0, 12.0] if criterion == "mse" else labels[:2])
        for at in range(2, 3000, size):
            learner.update_batch(rows[at : at + size], labels[at : at + size])
        found.append([alarm.parts() for alarm in alarms])
    assert len(found[0]) == 1
    assert all(parts == found[0] for parts in found)


def test_the_callback_may_use_the_learner(tmp_path):
    rows, labels = sea(4000, 3, (3, 9.5))
    said = []

    def ask(drift):
        learner.save(tmp_path / "model.json")
        said.append((drift.row, learner.rows, learner.predict(rows[0]), learner.drift is drift))

    learner = OnlineForest(3, on_drift=ask)
    for row, label in zip(rows, labels, strict=True):
        learner.update(row, label)
    assert len(said) == 1
    assert said[0][0] == said[0][1]  # it is told at once
    assert said[0][3]


def test_the_last_alarm_is_saved(tmp_path):
    rows, labels = sea(4000, 3, (3, 9.5))
    learner, alarms = watched(rows, labels)
    path = tmp_path / "model.json"
    learner.save(path)
    more = []
    again = OnlineForest.load(path, on_drift=more.append)
    assert again.drift.parts() == alarms[0].parts()
    assert pickle.loads(pickle.dumps(learner)).drift.parts() == alarms[0].parts()
    # It counts anew what is usual, and notices the next change.
    rows, labels = sea(4000, 4, (9.5, 3))
    again.update_batch(rows, labels)
    assert len(more) == 1
    assert 6000 < more[0].row <= 6500
    model = json.loads(path.read_text())
    good = model["training"]["drift"]
    for place, value in [
        *[(0, v) for v in (0, 4001, 1.5, True, None)],
        *[(1, v) for v in (0, good[0] + 1, "1")],
        *[(2, v) for v in (["d"], 5, [["a"]])],
        (3, "middle"),
        *[(k, v) for k in (4, 5, 6) for v in (-1, float("inf"), float("nan"), "1", None)],
    ]:
        model["training"]["drift"] = [*good[:place], value, *good[place + 1 :]]
        path.write_bytes(sealed(model))
        with pytest.raises(ValueError, match="the model is damaged inside"):
            OnlineForest.load(path)
    model["training"]["drift"] = good[:-1]
    path.write_bytes(sealed(model))
    with pytest.raises(ValueError, match="the model is damaged inside"):
        OnlineForest.load(path)


def test_errors_that_come_as_often_as_before_raise_no_alarm_and_more_do():
    """The test by itself, with errors drawn at random, at two ways to be sure."""
    rng = Rng(9)
    watch = Watch(1, 0, 500, False)
    found = []
    for i in range(40_000):
        word = 4 * rng.below(2) + rng.below(3)
        often = 0.25 if i >= 30_000 and word >> 2 else 0.1
        found += watch.see([0.0], [2 * word + (rng.unit() < often)])
    assert len(found) == 1
    row, since, features, place, before, after, sure = found[0]
    assert 30_000 < row < 30_500
    assert row % CHUNK == 0
    assert features == []
    assert place in (-1, 1)
    assert abs(since - 30_000) < 100
    assert 0.08 < before < 0.12 < 0.18 < after
    assert sure > 4


def test_it_says_what_it_is():
    drift = Drift(5420, 4991, ["light"], "shut", 0.111, 0.2, 4.93)
    text = "Drift(row=5420, since=4991, features=['light'], guess='shut', "
    assert repr(drift) == text + "before=0.11, after=0.20, sure=4.9)"


@needs_mpy_cross
@needs_micropython
def test_micropython_raises_the_same_alarm(tmp_path):
    install(tmp_path)
    script = """
from edgeforest.budget import Rng
from edgeforest.online import OnlineForest
rng = Rng(7)
alarms = []
learner = OnlineForest(["a", "b"], on_drift=alarms.append, n_trees=3, window=100, max_leaf_nodes=16)
for i in range(1600):
    row = [rng.below(100), rng.below(100)]
    learner.update(row, int(row[i >= 1300] > 50))
for drift in alarms:
    print(drift.row, drift.since, drift.features, drift.guess)
"""
    said = output(run_micropython(script, tmp_path, "1m"))
    with redirect_stdout(io.StringIO()) as here:
        exec(script, {})
    assert said == here.getvalue()
    assert WARM < int(said.split()[0]) <= 1600
