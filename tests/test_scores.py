"""Measures beside scikit-learn's, evaluations, estimates, and rows that look like no others."""

import json
import math
import random
from array import array

import numpy as np
import pytest
import sklearn.metrics as oracle
from sklearn.calibration import calibration_curve

import edgeforest
from edgeforest import Budget, engine
from edgeforest.engines.ranges import note_ranges, of_columns, union
from edgeforest.scores import Evaluation, Familiarity, estimate, evaluate, from_source, metrics
from edgeforest.scores.evaluation import truth_column
from edgeforest.scores.from_source import estimating, forest_part
from edgeforest.sources import SourceError, Table
from edgeforest.sources.schema import look
from edgeforest.splits import TimeBlocks


def classified(n=500, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(classes) / 2, n)
    shares[:20] = np.eye(classes)[rng.integers(0, classes, 20)]  # some are quite sure
    truths = [int(rng.choice(classes, p=row)) for row in shares]
    truths[0] = (int(shares[0].argmax()) + 1) % classes  # sure, and wrong
    return truths, shares.argmax(1).tolist(), shares.tolist()


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_measures_of_classes_are_those_of_scikit_learn(classes):
    truths, answers, shares = classified(classes=classes)
    labels = list(range(classes))
    found = Evaluation(labels)
    for at in range(0, 500, 77):
        found.add(truths[at : at + 77], answers[at : at + 77], shares[at : at + 77])
    facts = found.facts()
    table = oracle.confusion_matrix(truths, answers, labels=labels)
    assert facts["confusion"] == table.tolist()
    assert facts["accuracy"] == pytest.approx(oracle.accuracy_score(truths, answers))
    balanced = oracle.balanced_accuracy_score(truths, answers)
    assert facts["balanced_accuracy"] == pytest.approx(balanced)
    f1 = oracle.f1_score(truths, answers, labels=labels, average=None)
    assert facts["f1"] == pytest.approx(f1.tolist())
    recall = oracle.recall_score(truths, answers, labels=labels, average=None)
    assert facts["found"] == pytest.approx(recall.tolist())
    precision = oracle.precision_score(truths, answers, labels=labels, average=None)
    assert metrics.precisions(facts["confusion"]) == pytest.approx(precision.tolist())
    loss = oracle.log_loss(truths, shares, labels=labels)
    assert facts["log_loss"] == pytest.approx(loss)
    assert loss == pytest.approx(metrics.log_loss(truths, shares, labels))


def test_the_calibration_error_is_the_gap_of_scikit_learns_curve():
    truths, answers, shares = classified()
    sure = np.max(shares, axis=1)
    right = np.array(truths) == np.array(answers)
    part, mean = calibration_curve(right, sure, n_bins=10)
    # Its bins hold their upper ends, as ours do.
    places = np.searchsorted(np.linspace(0, 1, 11)[1:-1], sure)
    sizes = np.bincount(places, minlength=10)
    expected = (np.abs(part - mean) * sizes[sizes > 0]).sum() / len(sure)
    assert metrics.calibration_error(right, sure) == pytest.approx(expected)
    assert metrics.calibration_error([True] * 5, [1.0] * 5) == 0


def test_measures_of_numbers_are_those_of_scikit_learn():
    rng = np.random.default_rng(2)
    truths = rng.normal(1000, 5, 400)
    answers = truths + rng.normal(0, 2, 400)
    found = Evaluation(None)
    found.add(truths[:100].tolist(), answers[:100].tolist())
    found.add(truths[100:].tolist(), answers[100:].tolist())
    facts = found.facts()
    assert facts["mse"] == pytest.approx(oracle.mean_squared_error(truths, answers))
    assert facts["mae"] == pytest.approx(oracle.mean_absolute_error(truths, answers))
    assert facts["r2"] == pytest.approx(oracle.r2_score(truths, answers))
    sizes = np.quantile(np.abs(truths - answers), [0.5, 0.9, 0.99])
    assert list(facts["errors"].values()) == pytest.approx(sizes.tolist())
    always = oracle.mean_squared_error(truths, np.full(400, truths.mean()))
    last = oracle.mean_squared_error(truths, np.r_[truths[0], truths[:-1]])
    assert found.baselines() == pytest.approx({"always": always, "last row": last})


def test_measures_at_their_edges():
    assert math.isnan(metrics.r2([2, 2], [1, 2]))
    assert metrics.recalls([[0, 0], [1, 1]])[1] == 0.5
    assert math.isnan(metrics.recalls([[0, 0], [1, 1]])[0])
    assert metrics.balanced_accuracy([[0, 0], [1, 1]]) == 0.5
    assert metrics.f1_by_class([[0, 0], [0, 3]]) == [0.0, 1.0]
    assert metrics.log_loss(["new"], [[1.0]], ["a"]) == pytest.approx(52 * math.log(2))
    for measure in (metrics.accuracy, metrics.mean_squared_error):
        with pytest.raises(ValueError, match="at least one, got 0 and 0"):
            measure([], [])
    facts = Evaluation(None)
    facts.add([2.0, 2.0], [1.0, 2.0])
    assert facts.facts()["r2"] is None, "JSON has no NaN"


def rooms(n, seed=0, shift=0.0):
    rng = random.Random(seed)
    rows = [[rng.gauss(20 + shift, 3), rng.choice(["open", "shut"]), i % 4] for i in range(n)]
    return {
        "temp": [row[0] for row in rows],
        "window": [row[1] for row in rows],
        "room": [f"room {row[2]}" for row in rows],
        "day": [f"2024-05-0{1 + i * 5 // n} 12:00" for i in range(n)],
        "warm": ["yes" if row[0] > 21 and row[1] == "shut" else "no" for row in rows],
    }


def warm_forest(**options):
    log = rooms(400)
    rows = list(zip(log["temp"], log["window"], strict=True))
    forest = edgeforest.train(
        rows, log["warm"], names=["temp", "window"], categorical=[1], n_trees=5, **options
    )
    note_ranges(forest, rows)
    return forest


def test_a_log_is_evaluated_as_a_whole_and_by_group():
    forest, log = warm_forest(), rooms(300, seed=1)
    log["warm"][7] = None
    found = evaluate(forest, Table(log), "warm", by="room")
    rows = list(zip(log["temp"], log["window"], strict=True))
    answers = forest.predict(rows)
    known = [i for i in range(300) if i != 7]
    assert found.unlabelled == 1
    assert found.truths == [log["warm"][i] for i in known]
    assert found.answers == [answers[i] for i in known]
    assert list(found.groups) == ["room 0", "room 1", "room 2", "room 3"]
    assert sum(group.rows for group in found.groups.values()) == 299
    second = [i for i in known if i % 4 == 1]
    hits = sum(answers[i] == log["warm"][i] for i in second)
    assert found.groups["room 1"].accuracy == pytest.approx(hits / len(second))
    facts = json.loads(json.dumps(found.facts()))
    shares = forest.predict_proba([rows[i] for i in known])
    expected = oracle.log_loss(found.truths, shares, labels=forest.classes)
    assert facts["log_loss"] == pytest.approx(expected)
    assert facts["groups"]["room 1"]["rows"] == len(second)
    days = evaluate(forest, Table(log), "warm", by="day")
    assert list(days.groups) == [f"2024-05-0{d}" for d in range(1, 6)]


def test_a_class_that_the_forest_does_not_know_is_wrong():
    log = {"temp": [20.0, 30.0], "window": ["shut", "shut"], "warm": ["hot", "yes"]}
    found = evaluate(warm_forest(), Table(log), "warm")
    assert found.labels == ["no", "yes", "hot"]
    assert found.accuracy == 0.5
    assert sum(found.table()[2]) == 1


def test_the_column_with_the_truth_is_found_or_asked_for():
    forest = warm_forest()
    assert truth_column(forest, Table(rooms(50))) == "warm"
    log = rooms(50)
    log["again"] = log["warm"]
    with pytest.raises(SourceError, match=r"which column holds the truth; .* has warm, again"):
        truth_column(forest, Table(log))
    with pytest.raises(SourceError, match=r"column 'warm' of .* holds no values"):
        evaluate(forest, Table({**rooms(5), "warm": [None] * 5}), "warm")


def test_rows_unlike_those_of_the_training_are_counted():
    forest = warm_forest()
    rows = list(zip(rooms(400)["temp"], rooms(400)["window"], strict=True))
    seen = Familiarity(forest)
    seen.add(rows)
    assert seen.share == 0, "those of the training itself"
    seen = Familiarity(forest)
    seen.add([(20.0, "open"), (99.0, "shut"), (float("nan"), None), (-5.0, "ajar")])
    first, second = seen.odd()
    assert (first.name, first.count, first.share, first.example) == ("temp", 2, 0.5, 99.0)
    assert (first.low, first.high) == tuple(forest.ranges[:2])
    assert (second.name, second.count, second.example, second.low) == ("window", 1, "ajar", None)
    assert seen.share == 3 / 8
    forest.ranges = None
    seen = Familiarity(forest)
    seen.add([(99.0, "ajar")])
    assert not seen.known
    assert [one.name for one in seen.odd()] == ["window"]


# ---- Ranges in model files


@pytest.mark.parametrize("name", engine.present())
def test_a_model_of_a_log_keeps_the_ranges(name, tmp_path):
    log = rooms(400)
    table = Table(log)
    forest = edgeforest.train_source(
        table, "warm", drop=["day", "room"], n_trees=2, engine=name,
        checkpoint=tmp_path / "model.json",
    )  # fmt: skip
    low, high = np.float32(min(log["temp"])), np.float32(max(log["temp"]))
    for model in (forest, edgeforest.load(tmp_path / "model.json")):
        assert list(model.ranges[:2]) == [low, high]
        assert all(map(math.isnan, model.ranges[2:])), "of a category"
        assert edgeforest.load(model.to_json()).to_json() == model.to_json()


def test_merged_models_have_the_union_of_ranges():
    parts = []
    for values in ([1.0, 5.0, None], [3.0, 9.0, 4.0]):
        rows = [[v] for v in values]
        parts.append(edgeforest.train(rows, ["a", "b", "b"], n_trees=2))
        note_ranges(parts[-1], rows)
    assert list(edgeforest.merge(parts).ranges) == [1.0, 9.0]
    assert list(edgeforest.prune(parts[0], [[1.0], [5.0]], ["a", "b"], max_trees=1).ranges) == [
        1,
        5,
    ]
    parts[1].ranges = None
    assert edgeforest.merge(parts).ranges is None, "nobody knows"
    assert union([array("f", [math.nan, math.nan]), array("f", [1, 2])]).tolist() == [1, 2]


def test_boards_and_older_readers_ignore_ranges():
    from edgeforest import loading, reader

    forest = warm_forest()
    text = forest.to_json()
    assert '"ranges":"' in text
    plain = loading.load(text)  # what a board runs
    assert plain.predict([[25.0, "shut"]]) == forest.predict([[25.0, "shut"]])
    assert '"ranges"' not in plain.to_json()
    import io

    assert reader.read_model(io.BytesIO(text.encode())).to_json() == plain.to_json()


@pytest.mark.parametrize(
    "pairs", [[1, 2], [2, 1, 0, 0], [1, math.inf, 0, 0], [1, math.nan, 0, 0], []]
)
def test_damaged_ranges_are_refused(pairs):
    from edgeforest.crc import crc32 as crc
    from edgeforest.writer import hex_crc, to_base64

    forest = warm_forest()
    text = forest.to_json()
    old = to_base64(forest.ranges, "f")
    body = text[:-20].replace(old, to_base64(pairs, "f"))
    text = f'{body},"crc32":"{hex_crc(crc(body.encode(), 0))}"}}'
    with pytest.raises(ValueError, match="damaged inside"):
        edgeforest.load(text)


def test_ranges_are_the_same_with_and_without_numpy(monkeypatch):
    import sys

    columns = [array("f", [2.5, math.nan, -1.0]), array("f", [math.nan]), ["a"], array("f")]
    ours = of_columns(columns, [2])
    monkeypatch.setitem(sys.modules, "numpy", None)
    again = of_columns(columns, [2])
    assert list(map(repr, ours)) == list(map(repr, again))
    assert ours.tolist()[:2] == [-1.0, 2.5]


# ---- Estimates


def twins(days=8, minutes=60, seed=0):
    """A log whose rows of one day are alike: what is learned of a day does not help on another."""
    rng = random.Random(seed)
    rows, labels, times = [], [], []
    for day in range(days):
        level, answer = rng.random(), rng.choice(["on", "off"])
        for minute in range(minutes):
            rows.append([level + rng.random() / 100, rng.random()])
            labels.append(answer)
            times.append(f"2024-05-{day + 1:02} {minute // 60:02}:{minute % 60:02}")
    return rows, labels, times


def test_days_tell_the_truth_where_rows_at_random_do_not():
    rows, labels, times = twins(24)
    honest = estimate(rows, labels, times=times, n_trees=5)
    flattering = estimate(rows, labels, holdout="random", n_trees=5)
    assert flattering.mean > 0.9
    fresh = [twins(1, seed=seed) for seed in range(100, 140)]
    forest = edgeforest.train(rows, labels, n_trees=5)
    right = [a == b for r, y, _ in fresh for a, b in zip(forest.predict(r), y, strict=True)]
    truth = sum(right) / len(right)
    assert abs(honest.mean - truth) < 0.2 < 0.3 < flattering.mean - truth
    assert honest.kind == "blocks of days"
    assert honest.worst.score == min(block.score for block in honest.blocks)


def test_an_estimate_is_what_training_on_the_rest_gives():
    rows, labels, times = twins(4)
    found = estimate(rows, labels, times=times, n_trees=3, seed=5)
    splitter = TimeBlocks(times)
    for block, (train, test) in zip(found.blocks, splitter.split(rows), strict=True):
        forest = edgeforest.train(
            [rows[i] for i in train], [labels[i] for i in train], n_trees=3, seed=5
        )
        hits = sum(
            a == labels[i]
            for a, i in zip(forest.predict([rows[i] for i in test]), test, strict=True)
        )
        assert block.score == hits / len(test)
    assert found.pooled.rows == len(rows)
    assert found.mean == pytest.approx(found.pooled.accuracy)
    json.dumps(found.facts(), allow_nan=False)


def test_an_estimate_keeps_its_budget():
    rows, labels, times = twins(5, 200)
    for budget in (400, 4000, 40_000):
        found = estimate(rows, labels, times=times, n_trees=10, budget=budget)
        assert 0 < found.insertions <= budget
    assert estimate(rows, labels, times=times, budget=3).blocks == [], "not one insertion a block"
    forest, score = Budget(1001, 10.0), forest_part(Budget(1001), "auto")
    assert score.insertions == 501
    assert forest_part(forest, "none").insertions == 1001


def test_no_time_left_means_fewer_blocks(monkeypatch):
    rows, labels, times = twins(5)
    clock = Budget(seconds=1.0)
    ticks = iter([0.0, 0.0, 2.0])
    monkeypatch.setattr(Budget, "copy", lambda self: self)
    monkeypatch.setattr(clock, "tick", lambda: next(ticks, 2.0), raising=False)
    found = estimate(rows, labels, times=times, n_trees=2, budget=clock)
    assert len(found.blocks) == 1
    assert found.planned == 5


def test_a_regression_is_estimated_by_its_squared_error():
    rng = random.Random(0)
    rows = [[rng.random()] for _ in range(300)]
    y = [10 * row[0] + rng.gauss(0, 1) for row in rows]
    found = estimate(rows, y, criterion="mse", n_trees=5)
    assert found.regression
    assert found.mean < found.naive / 2
    assert found.worst.score == max(block.score for block in found.blocks)


def test_a_source_is_estimated_by_its_dates_groups_or_order():
    log = rooms(300)
    table = Table(log)
    schema = look(table, "warm", None, drop=["room"])
    kinds = {}
    for what, options in (
        ("days", {}),
        ("rooms", {"group": "room"}),
        ("random", {"holdout": "random"}),
    ):
        work = estimating(table, schema, n_trees=2, **options)
        for _ in work:
            pass
        kinds[what] = work.found.kind
        assert sum(block.rows for block in work.found.blocks) == 300
    assert kinds == {"days": "days", "rooms": "groups", "random": "parts at random"}
    del log["day"]
    work = estimating(Table(log), look(Table(log), "warm", None, drop=["room"]), n_trees=2)
    assert work.found.kind == "stretches of the log"
    assert work.found.sampled == 0
    with pytest.raises(ValueError, match="holdout must be one of auto, random, got 'some'"):
        estimating(table, schema, holdout="some")


@pytest.mark.parametrize(
    "budget", [Budget(), Budget(bytes=40 * 2 * 300), Budget(seconds=0.00002 * 2 * 300)]
)
def test_a_large_log_is_estimated_from_a_sample(budget, monkeypatch):
    monkeypatch.setattr(from_source, "ROWS", 300)
    monkeypatch.setattr(Budget, "tick", lambda self: 0.0)  # the clock stands still
    log = rooms(1000)
    table = Table(log)
    schema = look(table, "warm", None, drop=["room"])
    work = estimating(table, schema, n_trees=2, budget=budget, seed=3)
    assert work.found.sampled == len(work.labels) == 300
    again = estimating(table, schema, n_trees=2, seed=4)
    assert again.columns != work.columns, "at random"
    days = {block.name for block in work.blocks}
    assert len(days) == 5, "from the whole log"
