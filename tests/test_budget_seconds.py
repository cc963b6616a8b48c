"""A budget in seconds covers reading: what there is no time for is left out, and never an error's row.

Time is made here: a clock that goes on when a value is read, or when it is looked at.
"""

import random
from array import array
from types import SimpleNamespace

import numpy as np
import pytest
from counting import counting_training

from edgeforest import (
    Budget,
    RandomForestClassifier,
    Training,
    budget,
    train,
    train_source,
    train_steps,
)
from edgeforest.engines import pick, sampling
from edgeforest.sources import Table
from edgeforest.sources import pools as drawn
from edgeforest.sources import training as streaming
from edgeforest.storage import Resumable

on_every_engine = pytest.mark.usefixtures("engine")


class Clock:
    """Seconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.per_look = 0.0

    def now(self) -> float:
        self.time += self.per_look
        return self.time


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(budget, "_ticks", lambda: int(made.now() * 1000))
    monkeypatch.setattr(sampling, "now", made.now)
    return made


class SlowRow(list):
    """A row each of whose values takes a millisecond to read."""

    def __init__(self, values, clock, read):
        super().__init__(values)
        self.clock, self.read = clock, read

    def __getitem__(self, f):
        self.clock.time += 0.001
        self.read.add(super().__getitem__(0))  # by its number
        return super().__getitem__(f)


def slow_rows(n, clock):
    """Rows of a number and two more values, their labels, and the set of those that were read."""
    read = set()
    rng = random.Random(1)
    rows = [SlowRow([i, rng.random(), rng.choice("abc")], clock, read) for i in range(n)]
    return rows, [i % 3 == 0 for i in range(n)], read


@on_every_engine
@pytest.mark.parametrize("seconds", [3.0, 10.0, 30.0])
def test_reading_takes_half_of_the_time_at_most(clock, seconds):
    rows, labels, read = slow_rows(20_000, clock)  # a minute
    began = clock.time
    options = {"categorical": [2], "n_trees": 3, "max_depth": 4}  # labels are noise
    training = train_steps(rows, labels, budget=Budget(seconds=seconds), **options)
    took = clock.time - began
    assert 0.25 * seconds < took <= 0.5 * seconds
    assert training.budget.spent.seconds == pytest.approx(took, abs=0.01)
    assert training.budget.seconds == seconds
    for _ in training:
        pass
    assert len(training.forest()) == 3
    # As many as there is time for, and from the whole log.
    assert 0.1 * seconds * 1000 / 3 < training.data.n < len(read) <= 0.5 * seconds * 1000 / 3
    for tenth in range(10):
        part = [i for i in read if i * 10 // 20_000 == tenth]
        assert len(part) > len(read) / 20


@on_every_engine
@pytest.mark.parametrize("seconds", [0.001, 0.02])
def test_the_shortest_time_gives_a_forest(clock, seconds):
    rows, labels, _ = slow_rows(20_000, clock)
    began = clock.time
    forest = train(rows, labels, categorical=[2], budget=Budget(seconds=seconds))
    assert clock.time - began < 0.2
    assert len(forest) >= 1
    assert forest.predict([[5, 0.5, "a"]])[0] in (False, True)


@on_every_engine
def test_reading_that_becomes_slower_is_given_up(clock, monkeypatch):
    rows, labels, _ = slow_rows(20_000, clock)
    slow = []

    def take(X, chosen, *shape):
        if len(chosen) > 500 and not slow:  # the disk has fallen asleep
            slow.append(len(chosen))
            clock.time += 6
        return [rows[i] for i in chosen]

    monkeypatch.setattr(sampling, "take_rows", take)
    began = clock.time
    training = train_steps(rows, labels, categorical=[2], budget=Budget(seconds=10))
    assert slow
    assert training.data.n < slow[0]
    assert clock.time - began < 10


@on_every_engine
@pytest.mark.parametrize("criterion", ["gini", "entropy", "mse"])
def test_time_for_all_rows_means_the_forest_without_a_limit(criterion):
    rng = random.Random(1)
    rows = [[rng.random(), rng.random(), rng.choice("ab")] for _ in range(1500)]
    y = [row[0] + (row[2] == "b") for row in rows]
    if criterion != "mse":
        y = [v > 0.8 for v in y]
    options = {"categorical": [2], "n_trees": 3, "criterion": criterion, "max_depth": 6}
    free = train(rows, y, **options)
    assert train(rows, y, budget=Budget(seconds=3600), **options).to_json() == free.to_json()


@on_every_engine
def test_an_error_names_the_row_that_the_user_has(clock):
    rows, labels, _ = slow_rows(3000, clock)
    rows[2500] = [2500, "no number", "a"]
    with pytest.raises(TypeError, match="row 2500 of feature 'x1'"):
        # Whatever is drawn, the row that is wrong is among the rows sooner or later.
        train(rows, labels, categorical=[2], budget=Budget(seconds=1000))


@on_every_engine
def test_a_weight_of_a_class_that_was_not_read_is_left_out(clock):
    rows, labels, _ = slow_rows(5000, clock)
    labels = ["rare" if i == 4321 else "often" if i % 2 else "seldom" for i in range(5000)]
    weights = {"rare": 9.0, "often": 1.0, "seldom": 2.0}
    budget = Budget(seconds=0.5)
    training = train_steps(rows, labels, categorical=[2], budget=budget, class_weight=weights)
    assert training.data.n < 1000
    forest = RandomForestClassifier(3, budget=budget, class_weight=weights, max_depth=4)
    forest.fit([row[:2] for row in rows], labels)
    assert set(forest.classes_) >= {"often", "seldom"}


@pytest.mark.parametrize("splitter", ["exact", "mab", "mab-paper"])
def test_the_clock_is_asked_in_the_middle_of_a_round(clock, splitter):
    rng = random.Random(1)
    rows = [[rng.random(), rng.random()] for _ in range(40_000)]
    labels = [rng.random() < 0.5 for _ in rows]
    budget = Budget(seconds=50)
    training, made = counting_training(
        rows, labels, budget=budget, n_trees=1, max_features=2, splitter=splitter, batch=20_000
    )
    clock.per_look = 3.0
    for _ in training:
        pass
    forest = training.forest()
    assert 0 < made[0].insertions < 80_000  # the root was not counted to its end
    assert forest.spent.insertions == made[0].insertions
    assert len(forest.feature) >= (1 if splitter == "mab-paper" else 3)


@pytest.mark.parametrize("splitter", ["exact", "mab"])
def test_numpy_asks_the_clock_in_the_middle_of_a_round(clock, splitter):
    from edgeforest.engines import numpy_nodes

    rng = np.random.default_rng(1)
    X = rng.random((600_000, 2), dtype=np.float32)
    training = Training(
        X,
        rng.integers(2, size=len(X)),
        engine=numpy_nodes.ENGINE,
        budget=Budget(seconds=50),
        n_trees=1,
        max_features=2,
        max_samples=500_000,
        splitter=splitter,
        batch=400_000,
    )
    clock.per_look = 12.0
    for _ in training:
        pass
    spent = training.forest().spent.insertions
    assert 0 < spent < 2 * 300_000
    assert spent % numpy_nodes.PART == 0


@on_every_engine
def test_a_training_that_cannot_sample_refuses_in_a_sentence(clock, engine):
    rows, labels, _ = slow_rows(500, clock)
    with pytest.raises(ValueError, match="the time was up while rows were read; give more seconds"):
        Training(rows, labels, engine=pick(engine), categorical=[2], budget=Budget(seconds=0.2))


def test_the_trees_share_the_time_that_reading_leaves(clock):
    rows, labels, _ = slow_rows(1000, clock)
    training = Training(rows, labels, categorical=[2], n_trees=4, budget=Budget(seconds=5))
    read = training.budget.tick()
    assert 2.9 < read < 3.1
    limits = []
    for _ in training:
        if not limits or training.budget.until != limits[-1]:
            limits.append(training.budget.until)
    rest = 5 - read
    assert limits == pytest.approx([read + rest * i / 4 for i in (1, 2, 3, 4)], abs=0.01)


# ---- Rows of what users hold


def tables():
    pandas = pytest.importorskip("pandas")
    numbers = np.arange(40).reshape(10, 4)
    yield numbers, {}
    yield numbers.tolist(), {}
    yield numbers.T, {"by_column": True}
    yield [array("d", column.tolist()) for column in numbers.T], {"by_column": True}
    yield [bytes(column.tolist()) for column in numbers.T], {"by_column": True}
    yield array("d", numbers.ravel().tolist()), {"n_features": 4}
    yield bytes(numbers.ravel().tolist()), {"n_features": 4}
    yield numbers.ravel(), {"n_features": 4}
    yield pandas.DataFrame(numbers), {}


def plain(X, options):
    if "n_features" in options:
        return np.asarray(list(X)).reshape(-1, 4).tolist()
    table = np.asarray([list(column) for column in X]) if isinstance(X, list) else np.asarray(X)
    return (table.T if "by_column" in options else table).tolist()


@pytest.mark.parametrize("place", range(9))
def test_rows_are_taken_from_whatever_holds_them(place):
    X, options = list(tables())[place]
    assert sampling.rows_in(X, options.get("n_features"), options.get("by_column", False)) == 10
    rows = np.array([1, 4, 9])
    some = sampling.take_rows(X, rows, options.get("n_features"), options.get("by_column", False))
    whole = plain(X, options)
    assert plain(some, options) == [whole[i] for i in rows]
    if isinstance(X, (bytes, array)):
        assert type(some) in (bytearray, array)  # still numbers that lie side by side


def test_an_estimator_reads_half_of_the_time_at_most(clock):
    rows, labels, _ = slow_rows(20_000, clock)

    class Slow(list):
        def __getitem__(self, i):
            clock.time += 0.003
            return list(super().__getitem__(i))[:2]

    began = clock.time
    forest = RandomForestClassifier(3, budget=Budget(seconds=10), random_state=0)
    forest.fit(Slow(rows), labels)
    assert clock.time - began <= 5
    assert forest.spent_.seconds <= 5
    assert forest.predict([[1, 0.5]])[0] in (False, True)


# ---- Sources


class SlowSource(Table):
    """A table each of whose rows takes some time to read."""

    def __init__(self, n, clock, per_row):
        rng = random.Random(1)
        values = [rng.random() for _ in range(n)]
        super().__init__({"a": list(range(n)), "b": values, "y": [v > 0.4 for v in values]})
        self.clock, self.per_row = clock, per_row
        self.asked = set()

    def read(self, rows):
        self.clock.time += self.per_row * len(rows)
        self.asked.update(rows)
        return super().read(rows)


@pytest.fixture
def slow_source(clock, monkeypatch):
    for module in (drawn, streaming):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock.now))
    return SlowSource(30_000, clock, 0.001)


@on_every_engine
@pytest.mark.parametrize("seconds", [4.0, 12.0])
def test_a_source_is_read_for_half_of_the_time_at_most(clock, slow_source, seconds):
    began = clock.time
    forest = train_source(slow_source, "y", budget=Budget(seconds=seconds), n_trees=3)
    assert 0.1 * seconds < clock.time - began <= 0.5 * seconds
    assert len(forest) == 3
    read = slow_source.asked
    for tenth in range(10):
        part = [i for i in read if i * 10 // 30_000 == tenth]
        assert len(part) > len(read) / 20


@on_every_engine
def test_codes_of_a_source_have_their_part_of_the_time(clock, slow_source, monkeypatch, engine):
    slow_source.per_row = 1e-5  # but turning its values into codes takes long
    maker = Training
    init = maker.__init__

    def slow(self, X, y, **options):
        clock.time += 0.001 * len(y)
        init(self, X, y, **options)

    monkeypatch.setattr(maker, "__init__", slow)
    began = clock.time
    forest = train_source(slow_source, "y", budget=Budget(seconds=10), n_trees=3)
    assert clock.time - began <= 6
    assert len(forest) == 3
    assert forest.predict([[5, 0.1], [5, 0.9]]) == [0, 1]


def test_opening_a_source_takes_its_part_of_the_time(clock, slow_source, monkeypatch):
    def opened(source):
        if not isinstance(source, SlowSource):
            clock.time += 3
        return slow_source

    monkeypatch.setattr(streaming, "open_source", opened)
    began = clock.time
    train_source("log.csv", "y", budget=Budget(seconds=4), n_trees=3)
    assert clock.time - began <= 3.6  # half of the second that was left


def test_a_checkpoint_is_not_trained_on_a_sample(clock, tmp_path):
    # Going on has to find the rows that were there: so all are read, or none.
    rows, labels, _ = slow_rows(3000, clock)
    with pytest.raises(ValueError, match="the time was up while rows were read"):
        Resumable(rows, labels, tmp_path / "m.json", categorical=[2], budget=Budget(seconds=1))
