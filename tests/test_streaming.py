"""Training from a source: the same forests as in memory, in any order of rows, after any kill."""

import json
import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest

import edgeforest
from edgeforest import (
    Budget,
    RandomForestClassifier,
    RandomForestRegressor,
    storage,
    train,
)
from edgeforest.sources import SourceError, Table, open_source
from edgeforest.sources import pools as drawn
from edgeforest.sources.training import Streaming, train_source

on_every_engine = pytest.mark.usefixtures("engine")
SMALL = 1_000_000  # bytes: a pool of some 4,000 rows


@pytest.fixture
def pools(monkeypatch):
    """Memory for few rows, so that pools are read again and again."""
    monkeypatch.setattr(drawn, "BYTES", SMALL)


def made(n, seed=0, features=6):
    """Rows whose class and value depend on the first features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features)).astype(np.float32)
    value = X[:, 0] + X[:, 1] * X[:, 2]
    return X, np.where(value > 0, "yes", "no"), value.astype(float)


def table(X, y):
    return Table({**{f"f{f}": X[:, f].tolist() for f in range(X.shape[1])}, "y": y.tolist()})


@on_every_engine
@pytest.mark.parametrize("depth", [6, None])
@pytest.mark.parametrize("regression", [False, True])
def test_a_source_that_fits_gives_the_forest_of_memory(regression, depth, monkeypatch):
    X, classes, values = made(700)
    y = values if regression else classes
    options = {"n_trees": 4, "max_depth": depth, "seed": 3}
    monkeypatch.setattr(drawn, "ROWS", 200)  # a limit only where rows do not fit
    streamed = train(table(X, y), "y", **options)
    names = [f"f{f}" for f in range(6)]
    criterion = "mse" if regression else "gini"
    plain = train(X, y.tolist(), names=names, criterion=criterion, **options)
    for name in ("roots", "feature", "threshold", "right", "votes", "classes", "low", "span"):
        assert getattr(streamed, name) == getattr(plain, name), name
    assert streamed.spent.insertions == plain.spent.insertions


@pytest.mark.usefixtures("pools")
@pytest.mark.parametrize("regression", [False, True])
def test_pools_train_as_well_as_all_rows(regression, figure):
    differences = []
    for seed in range(12):
        X, classes, values = made(15_000, seed)
        X_test, classes_test, values_test = made(3_000, 100 + seed)
        y, y_test = (values, values_test) if regression else (classes, classes_test)
        options = {"n_trees": 10, "max_depth": 6, "seed": seed, "max_samples": 2500}
        streamed = train(table(X, y), "y", **options)
        criterion = "mse" if regression else "gini"
        plain = train(X, y.tolist(), criterion=criterion, **options)
        said = [np.array(forest.predict(X_test)) for forest in (streamed, plain)]
        if regression:
            differences.append(np.subtract(*[-((s - y_test) ** 2).mean() for s in said]))
        else:
            differences.append(np.subtract(*[(s == y_test).mean() for s in said]))
    mean, error = np.mean(differences), np.std(differences, ddof=1) / np.sqrt(12)
    figure(f"ahead of training in memory by {mean:+.5f} +- {error:.5f}")
    assert mean >= -2 * error


def test_the_order_of_rows_does_not_matter(tmp_path, figure):
    """The same CSV sorted by label, in time order (a drift), and shuffled."""
    scores = {"sorted": [], "in time": [], "shuffled": []}
    for seed in range(6):
        X, y, value = made(16_000, seed, features=4)
        X_test, y_test, _ = made(4_000, 200 + seed, features=4)
        orders = {
            "sorted": np.argsort(y, kind="stable"),
            "in time": np.argsort(value),
            "shuffled": np.random.default_rng(seed).permutation(len(y)),
        }
        lines = [f"{a:.4f},{b:.4f},{c:.4f},{d:.4f}" for a, b, c, d in X.tolist()]
        for name, order in orders.items():
            path = tmp_path / "log.csv"
            path.write_text("\n".join(["a,b,c,d,y", *(f"{lines[i]},{y[i]}" for i in order)]))
            with open_source(path) as source:
                training = Streaming(
                    source,
                    "y",
                    n_trees=8,
                    max_depth=6,
                    max_samples=2000,
                    seed=seed,
                    budget=Budget(bytes=1_800_000),
                )
                assert training.pool < 8000, "not all rows are read at once"
                for _ in training:
                    pass
            said = np.array(training.forest().predict(X_test))
            scores[name].append(np.mean(said == y_test))
    for name in ("sorted", "in time"):
        difference = np.subtract(scores[name], scores["shuffled"])
        mean, error = difference.mean(), difference.std(ddof=1) / np.sqrt(len(difference))
        figure(
            f"{name}: {np.mean(scores[name]):.4f}, ahead of shuffled by {mean:+.4f} +- {error:.4f}"
        )
        assert abs(mean) <= 2 * error
        assert np.mean(scores[name]) > 0.8


@on_every_engine
def test_budgets_hold():
    X, y, _ = made(6000)
    source = table(X, y)
    for insertions in (500, 20_000):
        for rows in (None, 1000):
            forest = train(source, "y", max_depth=5, budget=insertions, max_samples=rows)
            assert 0 < forest.spent.insertions <= insertions
    forest = train(source, "y", n_trees=4000, max_samples=1000, budget=Budget(seconds=0.3))
    assert 1 <= len(forest) < 4000
    with pytest.raises(ValueError, match="to hold enough rows of"):
        train(source, "y", budget=Budget(bytes=10_000))


@pytest.mark.usefixtures("pools")
def test_classes_and_categories_that_come_late_are_added():
    n = 40_000
    rare = dict.fromkeys(range(0, n, 4000), "rare")
    source = Table(
        {
            "a": [i % 100 + (500 if i in rare else 0) for i in range(n)],
            "c": [f"c{i % 7}" if i % 997 else "seldom" for i in range(n)],
            "y": [rare.get(i, "even" if i % 100 > 50 else "odd") for i in range(n)],
        }
    )
    forest = train(source, "y", n_trees=30, max_depth=4, max_samples=1500, seed=1)
    assert forest.classes == ["even", "odd", "rare"]
    assert "seldom" in forest.categories[1]
    assert forest.predict([[90, "c1"], [10, "c2"]]) == ["even", "odd"]
    assert edgeforest.load(forest.to_json()).predict_proba([90, "seldom"]) == forest.predict_proba(
        [90, "seldom"]
    )
    assert abs(sum(forest.predict_proba([90, "c1"])) - 1) < 1e-9


# ---- Power loss

WAYS = {
    "whole": {"n_trees": 6, "budget": 60_001},
    "pools": {"n_trees": 6, "max_samples": 900, "max_depth": 6, "budget": 60_000},
    "regression": {"n_trees": 6, "max_samples": 900, "max_depth": 5, "criterion": "mse"},
}


@on_every_engine
@pytest.mark.parametrize("way", WAYS)
def test_resuming_from_any_tree_gives_the_same_forest(way, tmp_path, monkeypatch):
    X, classes, values = made(3000)
    source = table(X, values if way == "regression" else classes)
    path = tmp_path / "model.json"
    if way != "whole":
        monkeypatch.setattr(drawn, "BYTES", SMALL)
    whole = train_source(source, "y", seed=5, **WAYS[way])
    training = Streaming(source, "y", seed=5, **WAYS[way])
    assert (training.pools.size < len(source)) == (way != "whole")
    assert training.pools.of_a_pool() == (len(whole) if way == "whole" else 3)
    planned = len(whole)
    for stop in (planned // 2, planned - 1):  # between two pools, and within one
        path.unlink(missing_ok=True)
        training = Streaming(source, "y", seed=5, checkpoint=path, **WAYS[way])
        for _ in training:
            if len(training.grown) == stop:
                break
        assert len(edgeforest.load(path)) == stop  # a model at any time
        again = train_source(source, "y", seed=5, checkpoint=path, resume=True, **WAYS[way])
        assert again.to_json() == whole.to_json()
        assert edgeforest.load(path).to_json() == whole.to_json()
    done = train_source(source, "y", seed=5, checkpoint=path, resume=True, **WAYS[way])
    assert done.to_json() == whole.to_json()


# Trains in a child on demand: a fork is there at once, unlike another Python.
PROGRAM = """
import os, signal, sys, time
from edgeforest import Budget
from edgeforest.sources import open_source
from edgeforest.sources.training import train_source
log = sys.argv[1]
train_source(open_source(log), "y", n_trees=1)  # what is loaded on the way is there then
for line in sys.stdin:
    seconds, path = line.split(maxsplit=1)
    child = os.fork()
    if not child:
        train_source(open_source(log), "y", n_trees=20, max_samples=500, max_depth=5, seed=2,
                     budget=Budget(bytes=1_300_000), checkpoint=path.strip(), resume=True)
        os._exit(0)
    time.sleep(float(seconds))
    os.kill(child, signal.SIGKILL)  # nothing, if it is done already
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_training_goes_on_to_the_same_forest(tmp_path, figure):
    """kill -9 at 20 random moments: every restart goes on, no file is ever damaged."""
    log = tmp_path / "log.csv"
    rows = [[(i * 7919 * (k + 3) + k) % 1009 for k in range(3)] for i in range(4000)]
    lines = [",".join(map(str, [*row, int(row[0] > 300)])) for row in rows]
    log.write_text("\n".join(["a,b,c,y", *lines]))
    server = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(log)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def killed_after(seconds, path):
        server.stdin.write(f"{seconds} {path}\n")
        server.stdin.flush()
        return int(server.stdout.readline())

    with server:
        expected = tmp_path / "expected.json"
        usual = 0.02
        while killed_after(usual, expected):
            usual *= 1.3
            expected.unlink(missing_ok=True)
        path = tmp_path / "model.json"
        chance = random.Random(7)
        kills = ended = resumed = 0
        seen = set()
        while kills < 20 or not ended or resumed <= 10:
            status = killed_after(chance.uniform(0, usual * 0.7), path)
            assert status in (0, signal.SIGKILL)
            kills += status != 0
            usual *= 1.02  # the machine may have become busier
            if path.exists():
                trees = len(edgeforest.load(path))  # refuses what is damaged
                resumed += trees < 20
                seen.add(trees)
            if status == 0:
                ended += 1
                assert path.read_bytes() == expected.read_bytes()
                path.unlink()
            assert kills < 1000
        server.stdin.close()
    figure(
        f"{kills} kills, after {resumed} of which some trees were done ({len(seen)} different "
        f"numbers of them); {ended} times to the end, each time to the same bytes"
    )
    left = {each.name for each in tmp_path.iterdir()} - {"model.json", "expected.json", "log.csv"}
    assert len(left) < 2, "each write removes what the kill before it has left"
    assert all(name.startswith(".model.json.") for name in left)


def test_a_training_with_other_options_does_not_resume(tmp_path):
    X, y, _ = made(500)
    source, path = table(X, y), tmp_path / "model.json"
    training = Streaming(source, "y", n_trees=5, checkpoint=path)
    for _ in training:
        if len(training.grown) == 2:
            break
    for changed in ({"seed": 1}, {"n_trees": 6}, {"max_depth": 3}, {"n_bins": 8}):
        with pytest.raises(ValueError, match="was begun with other"):
            Streaming(source, "y", checkpoint=path, resume=True, **{"n_trees": 5, **changed})
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="cut short"):
        Streaming(source, "y", n_trees=5, checkpoint=path, resume=True)
    with pytest.raises(ValueError, match="give its path"):
        Streaming(source, "y", resume=True)


@pytest.mark.usefixtures("pools")
def test_a_source_that_fails_keeps_the_trees_that_are_done():
    X, y, _ = made(9000)

    class Failing(Table):
        reads = 0

        def check(self):
            Failing.reads += 1
            if Failing.reads > 2:
                raise SourceError("the file is gone")

    source = Failing({**{f"f{f}": X[:, f].tolist() for f in range(6)}, "y": y.tolist()})
    with pytest.raises(SourceError, match="gone") as caught:
        train(source, "y", n_trees=10, max_depth=4, max_samples=2000)
    assert len(caught.value.forest) == 6  # three of each pool
    assert caught.value.forest.predict(X[0].tolist()) in ("yes", "no")


# ---- Estimators


def test_estimators_train_from_sources(tmp_path):
    X, y, value = made(4000)
    forest = RandomForestClassifier(10, max_depth=6, max_samples=1000, random_state=0)
    forest.fit_source(table(X, y), "y")
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"f{f}" for f in range(6)])
    assert forest.score(frame, y) > 0.8
    assert forest.classes_.tolist() == ["no", "yes"]
    regressor = RandomForestRegressor(10, max_depth=6, random_state=0, budget=300_000)
    path = str(tmp_path / "model.json")
    regressor.fit_source(table(X, value), "y", checkpoint=path)
    assert regressor.score(frame, value) > 0.5
    assert edgeforest.load(path).to_json() == regressor.forest_.to_json()
    with pytest.raises(ValueError, match="use fit"):
        RandomForestClassifier(oob_score=True).fit_source(table(X, y), "y")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "z"}, "no column 'z'"),
        ({"drop": ["a", "b"]}, "no column to learn"),
        ({"categorical": ["y"]}, "not a feature"),
        ({"task": "clustering"}, "task must be"),
        ({"sample_weight": [1, 2]}, "rows in memory"),
        ({"max_samples": 0}, "max_samples"),
    ],
)
def test_impossible_trainings_are_refused_in_one_sentence(options, said):
    source = Table({"a": [1, 2, 3] * 9, "b": ["u", "v", None] * 9, "y": [0, 1, 1] * 9})
    with pytest.raises(ValueError, match=said) as caught:
        train_source(source, options.pop("target", "y"), **options)
    assert "\n" not in str(caught.value)


def test_wide_tables_are_read_a_few_rows_at_a_time():
    X, y, _ = made(300, features=1000)
    source = table(X, y)
    training = Streaming(source, "y", n_trees=2, max_depth=3, max_features=100)
    assert training.pools.read == 249
    for _ in training:
        pass
    assert len(training.forest()) == 2
    with pytest.raises(
        ValueError,
        match=r"^bytes must be at least \d+ to hold enough rows of 1000 features, got 100",
    ):
        Streaming(source, "y", budget=Budget(bytes=100))


def test_rows_without_a_target_are_left_out_and_counted():
    source = Table(
        {"a": list(range(300)), "y": [None if i % 3 == 0 else i > 150 for i in range(300)]}
    )
    training = Streaming(source, "y", n_trees=3)
    for _ in training:
        pass
    assert training.schema.unlabelled == 100
    assert training.forest().predict([[10], [290]]) == [0, 1]


def test_tables_of_every_kind_are_sources():
    rows = [[1.5, "u"], [2.5, "v"]]
    for given in (rows, tuple(map(tuple, rows)), {"x0": [1.5, 2.5], "x1": ["u", "v"]}):
        source = open_source(given)
        assert [list(c) for c in source.read([0, 1])] == [[1.5, 2.5], ["u", "v"]]
        assert list(source) == rows
    assert open_source(source) is source
    assert [list(c) for c in open_source(np.ones((3, 2))).read([2])] == [[1.0], [1.0]]
    for wrong, said in (([], "empty"), ({"a": [1], "b": []}, "the same number of values")):
        with pytest.raises(SourceError, match=said):
            open_source(wrong)
    with pytest.raises(TypeError, match="path"):
        open_source(7)
    assert json.loads(train(open_source({"a": [1, 2], "y": [0, 1]}), "y").to_json())["features"]


# ---- Memory

WITHIN = """
import resource, sys
import edgeforest
from edgeforest import Budget, engine
from edgeforest.sources import open_source
from edgeforest.sources.training import train_source

path, room = sys.argv[1], int(sys.argv[2])
names = [*[f"f{k}" for k in range(20)], "y"]
small = {"f": list(range(300)), "y": [i % 2 for i in range(300)]}
train_source(small, "y", n_trees=2)      # what is loaded once does not count
source = open_source(path, names=names)
with open("/proc/self/status") as status:
    size = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (size + room, size + room))
forest = train_source(source, "y", n_trees=6, max_depth=8, budget=Budget(bytes=room))
print(len(forest), forest.spent.rows_read)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
def test_training_from_a_large_file_stays_within_its_bytes(tmp_path, figure):
    """A file of 84 MB, a budget of 12 MB, and a process that may not grow by more than that."""
    n, room = 1_000_000, 12_000_000
    path = tmp_path / "large.npy"
    with open(path, "wb") as stream:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n, 21)}
        np.lib.format.write_array_header_1_0(stream, header)
        for seed in range(10):
            part = np.random.default_rng(seed).standard_normal((n // 10, 21), dtype=np.float32)
            part[:, 20] = part[:, 0] + part[:, 1] > 0
            stream.write(part.tobytes())
    done = subprocess.run(
        [sys.executable, "-c", WITHIN, str(path), str(room)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    trees, rows = map(int, done.stdout.split())
    figure(
        f"{path.stat().st_size / 1e6:.0f} MB, {trees} trees, {rows:,} rows drawn in {room / 1e6:.0f} MB"
    )
    assert trees == 6


def test_trees_are_not_lost_if_the_checkpoint_cannot_be_written(tmp_path, monkeypatch):
    X, y, _ = made(500)
    really, writes = storage.write, []

    def full(forest, path, state):
        writes.append(len(forest))
        if len(writes) == 3:
            raise OSError(28, "No space left on device")
        really(forest, path, state)

    monkeypatch.setattr(storage, "write", full)
    path = tmp_path / "model.json"
    with pytest.raises(OSError, match="No space left") as caught:
        train_source(table(X, y), "y", n_trees=5, checkpoint=path)
    assert writes == [1, 2, 3]
    assert len(caught.value.forest) == 3
    assert len(edgeforest.load(path)) == 2


def test_targets_of_a_source_that_span_too_much_are_refused() -> None:
    """The range is stretched for the rows of later pools, and has to stay finite."""
    table = Table({"a": range(4000), "b": [(i % 9 - 4) * 2e37 for i in range(4000)]})
    with pytest.raises(SourceError, match=r"span less than 1e38; scale them down$"):
        train_source(table, "b", n_trees=2, criterion="mse", budget=Budget(bytes=260_000))
