"""Intervals and sets of classes: that they hold the truth, and are the same everywhere."""

import json
import math
import pickle
import random
import zlib
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from edgeforest import (
    Budget,
    ExtraTreesRegressor,
    Forest,
    RandomForestClassifier,
    RandomForestRegressor,
    calibrate,
    engine,
    load,
    merge,
    prune,
    sure,
    train,
)
from edgeforest.export import shrink
from edgeforest.forests import walking
from edgeforest.forests.merging import append, keep
from edgeforest.reader import read_model

ENGINES = engine.present()


def numbers(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Rows, and targets whose noise grows with them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (n, 4))
    mean = X[:, 0] ** 2 + 5 * X[:, 1]
    return X, mean * (1 + rng.normal(0, 0.15, n))


def classes(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Rows of three classes that overlap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(0, 1, (n, 4))
    level = X[:, 0] + X[:, 1] + rng.normal(0, 0.7, n)
    return X, np.array(["dry", "moist", "wet"])[np.digitize(level, [-0.5, 0.5])]


@cache
def made(what: str, name: Any = None) -> str:
    """A calibrated forest as JSON."""
    X, y = numbers(700) if what == "mse" else classes(700)
    forest = train(X[:400], y[:400].tolist(), criterion=what, n_trees=12, engine=name)
    return calibrate(forest, X[400:], y[400:]).to_json()


def regression(name: Any = None) -> Forest:
    """A calibrated forest that this engine has made, and predicts with."""
    forest = load(made("mse", name))
    return engine.with_predictor(forest, engine.pick(name))


def classification() -> Forest:
    """A calibrated forest."""
    return load(made("gini"))


def tree_votes(forest: Forest, row: Any) -> list[list[int]]:
    """The votes of each tree for a row, by walking down each."""
    encoded = forest.encode(row)
    found = []
    for tree in forest.roots:
        node = walking.node_at(forest, tree)
        while not node.is_leaf:
            node = walking.node_at(forest, node.left if node.goes_left(encoded) else node.right)
        found.append(walking.votes_of(forest, node).tolist())
    return found


def place_of(n: int, percent: int) -> int:
    """How many of n rows an interval of that coverage must hold."""
    return math.ceil((n + 1) * percent / 100 - 1e-9)


# ---- The formula


def test_roots_are_rounded_down() -> None:
    rng = random.Random(0)
    for n in [*range(50), *(rng.randrange(1 << 48) for _ in range(300)), (1 << 48) - 1]:
        assert sure.root(n) == math.isqrt(n)
        assert sure.root(n * n) == n


@pytest.mark.parametrize("name", ENGINES)
def test_an_interval_is_what_the_model_format_says(name: Any) -> None:
    forest = regression(name=name)
    X, _ = numbers(40, seed=9)
    floor, *of_coverage = forest.calibration
    for percent in (50, 77, 90, 99):
        found = forest.predict_interval(X, coverage=percent / 100)
        for row, (lower, upper) in zip(X, found, strict=True):
            votes = [one for (one,) in tree_votes(forest, row)]
            spread = math.isqrt(len(votes) * sum(v * v for v in votes) - sum(votes) ** 2)
            reach = (spread + floor) * of_coverage[percent - 50] // 1024
            ends = sum(votes) - reach, sum(votes) + reach
            assert lower == forest.value(max(0, ends[0]))
            assert upper == forest.value(min(forest.scale * len(votes), ends[1]))


def test_a_set_is_what_the_model_format_says() -> None:
    forest = classification()
    X, _ = classes(60, seed=9)
    sizes = set()
    for percent in (50, 80, 90, 99):
        number = forest.calibration[1 + percent - 50]
        for row, found in zip(X, forest.predict_set(X, percent / 100), strict=True):
            votes = np.sum(tree_votes(forest, row), axis=0)
            shares = votes / votes.sum()
            within = [c for c, s in zip(forest.classes, shares, strict=True) if s >= number / 65536]
            assert set(found) == {forest.predict(row), *within}
            assert found[0] == forest.predict(row)
            places = [forest.classes.index(label) for label in found]
            assert sorted(places, key=lambda k: -votes[k]) == places
            sizes.add(len(found))
    assert sizes == {1, 2, 3}


@pytest.mark.parametrize("name", ENGINES)
def test_estimators_answer_as_forests_do_with_every_engine(name: Any) -> None:
    X, y = numbers(500)
    fitted = RandomForestRegressor(9, random_state=1, engine=name).fit(X, y).calibrate(X, y)
    alone = RandomForestRegressor(9, random_state=1, engine="pure").fit(X, y).calibrate(X, y)
    assert fitted.forest_.to_json() == alone.forest_.to_json()
    new, _ = numbers(30, seed=5)
    for coverage in (0.5, 0.9):
        found = fitted.predict_interval(new, coverage)
        assert found.tolist() == [list(v) for v in fitted.forest_.predict_interval(new, coverage)]
    one = fitted.forest_.predict_interval(new[0].tolist())
    assert one == tuple(fitted.predict_interval(new[:1])[0])
    X, y = classes(500)
    chooser = RandomForestClassifier(9, random_state=1, engine=name).fit(X, y).calibrate(X, y)
    new, _ = classes(30, seed=5)
    for row, found in zip(
        chooser.predict_set(new, 0.95), chooser.forest_.predict_set(new, 0.95), strict=True
    ):
        assert set(chooser.classes_[row]) == set(found)


# ---- What they promise


@pytest.mark.parametrize("percent", [50, 80, 90, 95, 99])
def test_as_many_of_the_calibrating_rows_are_inside_as_asked(percent: int) -> None:
    X, y = numbers(700)
    forest = regression()
    inside = [
        lower <= v <= upper or math.isclose(v, lower, rel_tol=1e-6) or math.isclose(v, upper)
        for v, (lower, upper) in zip(
            y[400:], forest.predict_interval(X[400:], percent / 100), strict=True
        )
    ]
    wanted = place_of(300, percent)
    assert wanted <= sum(inside) <= wanted + 3  # a few with the same number
    X, y = classes(700)
    hits = [
        v in found
        for v, found in zip(
            y[400:], classification().predict_set(X[400:], percent / 100), strict=True
        )
    ]
    assert sum(hits) >= wanted


def test_rows_of_the_training_count_only_the_trees_that_did_not_draw_them() -> None:
    X, y = numbers(300)
    fitted = RandomForestRegressor(15, random_state=2).fit(X, y)
    forest = fitted.forest_
    drawn = [set() for _ in forest.roots]
    rows = type("Rows", (), {"values": X, "n": len(y)})()
    for tree, free in enumerate(fitted.draws_.left_out(rows, y)):
        drawn[tree] = set(np.flatnonzero(~free).tolist())
    found = []  # how far each row misses, and the spread of its trees, both times all trees
    for i, row in enumerate(X):
        votes = [v for t, (v,) in enumerate(tree_votes(forest, row)) if i not in drawn[t]]
        if len(votes) > 1:
            level = (y[i] - forest.low) / forest.span * forest.scale
            spread = math.sqrt(np.var(votes, ddof=1) * 15 * 14)
            found.append((abs(level - np.mean(votes)) * 15, spread, len(votes)))
    misses, spreads, trees = np.array(found).T
    floor = spreads.mean() * 3 / trees.mean()
    expected = np.sort(misses / (spreads + floor) * 1024)
    first, *rest = fitted.calibrate(X, y).forest_.calibration
    assert first == pytest.approx(floor, rel=0.001)
    for percent, number in enumerate(rest, 50):
        assert number == pytest.approx(
            expected[place_of(len(found), percent) - 1], rel=0.002, abs=2
        )


def test_new_rows_lie_inside_as_often_as_asked_also_where_values_are_large() -> None:
    X, y = numbers(3000)
    fitted = RandomForestRegressor(100, random_state=0).fit(X, y).calibrate(X, y)
    X, y = numbers(3000, seed=1)
    lower, upper = fitted.predict_interval(X, 0.9).T
    inside = (lower <= y) & (y <= upper)
    value = fitted.predict(X)
    assert 0.88 <= inside.mean() <= 0.93
    assert inside[value >= np.quantile(value, 2 / 3)].mean() >= 0.86
    assert (lower <= value).all()
    assert (value <= upper).all()
    narrow = fitted.predict_interval(X, 0.5)
    assert (lower <= narrow[:, 0]).all()
    assert (narrow[:, 1] <= upper).all()


def test_new_rows_have_a_class_of_their_set_as_often_as_asked() -> None:
    X, y = classes(3000)
    fitted = RandomForestClassifier(100, random_state=0).fit(X, y).calibrate(X, y)
    X, y = classes(9000, seed=1)  # so many that chance moves the share by half a point at most
    place = np.searchsorted(fitted.classes_, y)
    sizes = []
    for coverage in (0.8, 0.9, 0.95):
        found = fitted.predict_set(X, coverage)
        hit = found[np.arange(len(y)), place].mean()
        assert coverage - 0.02 <= hit <= max(coverage, fitted.score(X, y)) + 0.02
        sizes.append(found.sum(axis=1).mean())
    assert 1 <= sizes[0] < sizes[1] < sizes[2] < 3


def test_intervals_stay_within_the_targets_of_the_training() -> None:
    X, y = numbers(700)
    lower, upper = np.array(regression().predict_interval(X, 0.99)).T
    assert lower.min() == pytest.approx(y[:400].min(), rel=1e-5)
    assert upper.max() == pytest.approx(y[:400].max(), rel=1e-5)


def test_one_tree_and_one_value_have_intervals_too() -> None:
    X, y = numbers(700)
    one = calibrate(train(X[:400], y[:400], criterion="mse", n_trees=1), X[400:], y[400:])
    inside = [
        low <= v <= high
        for v, (low, high) in zip(y[400:], one.predict_interval(X[400:]), strict=True)
    ]
    assert sum(inside) >= place_of(300, 90) - 1
    flat = train([[1], [2]] * 20, [7.0] * 40, criterion="mse", n_trees=3)
    assert calibrate(flat, [[1]] * 40, [7.0] * 40).predict_interval([1]) == (7.0, 7.0)


# ---- The model keeps it


@pytest.mark.parametrize("make", [regression, classification])
def test_a_calibration_is_kept_in_the_file(make: Any) -> None:
    forest = make()
    text = forest.to_json()
    assert json.loads(text)["calibration"] == forest.calibration
    rows = numbers(20, seed=3)[0].tolist()
    ask = Forest.predict_interval if forest.regression else Forest.predict_set
    for again in (
        load(text),
        read_model(BytesIO(text.encode())),
        pickle.loads(pickle.dumps(forest)),
    ):
        assert again.to_json() == text
        assert ask(again, rows, 0.8) == ask(forest, rows, 0.8)


def test_a_forest_that_is_not_calibrated_has_no_such_key() -> None:
    assert "calibration" not in json.loads(keep(regression(), range(12)).to_json())


@pytest.mark.parametrize(
    "value", ["[3,-1]", "[3,1.5]", "[3,true]", "[3,1073741824]", "null", "7", '"three"', '["3",4]']
)
def test_a_damaged_calibration_is_refused(value: str) -> None:
    text = regression().to_json()
    start = text.index('"calibration":') + len('"calibration":')
    text = text[:start] + value + text[text.index("]", start) + 1 : text.rindex(',"crc32"')]
    text += f',"crc32":"{zlib.crc32(text.encode()):08x}"}}'
    for read in (load, lambda text: read_model(BytesIO(text.encode()))):
        with pytest.raises(ValueError, match="damaged inside"):
            read(text)


def test_what_changes_the_trees_drops_the_calibration() -> None:
    forest = regression()
    X, y = numbers(700)
    changed = [
        keep(forest, range(6)),
        merge([forest, forest]),
        prune(forest, X[400:], y[400:], max_trees=6),
        shrink(forest, levels=200)[0],
    ]
    grown = load(forest.to_json())
    append(grown, keep(forest, [0]))
    for other in [*changed, grown]:
        with pytest.raises(ValueError, match="not calibrated"):
            other.predict_interval(X[:2])
    fitted = RandomForestRegressor(9, random_state=0).fit(X, y).calibrate(X, y)
    fitted.predict_interval(X)
    with pytest.raises(ValueError, match="not calibrated"):
        fitted.prune(X, y, max_trees=4).predict_interval(X)
    fitted.calibrate(X, y).predict_interval(X)
    with pytest.raises(ValueError, match="not calibrated"):
        fitted.fit(X, y).predict_interval(X)


def test_trees_that_were_added_count_after_another_calibration() -> None:
    X, y = numbers(700)
    grown = regression()
    grown.predict_interval(X[:1])
    append(grown, train(X[:400], y[:400], criterion="mse", n_trees=8, seed=5))
    fresh = load(grown.to_json())
    for forest in (grown, fresh):
        calibrate(forest, X[400:], y[400:])
    assert grown.predict_interval(X[:50]) == fresh.predict_interval(X[:50])


def test_a_forest_that_votes_the_same_keeps_its_calibration() -> None:
    X = [[i % 7, i % 3] for i in range(300)]
    y = [a + i % 4 > 4 for i, (a, _) in enumerate(X)]
    forest = calibrate(train(X[:150], y[:150], n_trees=5, max_features=2), X[150:], y[150:])
    small, report = shrink(forest)
    assert report.bytes_after < report.bytes_before
    assert small.predict_set(X, 0.95) == forest.predict_set(X, 0.95)


def test_a_warm_start_is_calibrated_by_all_of_its_trees() -> None:
    X, y = numbers(400)
    half = RandomForestRegressor(8, random_state=0, warm_start=True).fit(X, y)
    whole = half.set_params(n_estimators=16).fit(X, y).calibrate(X, y)
    once = RandomForestRegressor(16, random_state=0).fit(X, y).calibrate(X, y)
    assert whole.forest_.calibration == once.forest_.calibration


# ---- What is refused


def sentence(call: Any, *given: Any, **options: Any) -> str:
    with pytest.raises((ValueError, TypeError)) as caught:
        call(*given, **options)
    return str(caught.value)


def test_errors_say_what_to_do() -> None:
    forest, X = regression(), numbers(3)[0]
    assert "use predict_set" in sentence(classification().predict_interval, X)
    assert "use predict_interval" in sentence(forest.predict_set, X)
    for coverage in (0.49, 1.0, 0.905, 90, "0.9", None, float("nan")):
        said = sentence(forest.predict_interval, X, coverage)
        assert said == f"coverage must be from 0.5 to 0.99 in steps of 0.01, got {coverage!r}"
    y = numbers(3)[1]
    assert sentence(calibrate, forest, X, y[:2]) == "y must have a value for each of 3 rows, got 2"
    assert "none may be missing" in sentence(calibrate, forest, X, [1.0, None, 2.0])
    assert "'hot', which is not a class" in sentence(calibrate, classification(), X, ["hot"] * 3)
    assert "needs more rows" in sentence(calibrate, forest, [], [])
    assert "must be a Forest" in sentence(calibrate, 7, X, y)


def test_a_coverage_that_few_rows_cannot_give_is_refused() -> None:
    X, y = numbers(420)
    forest = calibrate(train(X[:400], y[:400], criterion="mse", n_trees=5), X[400:], y[400:])
    assert len(forest.predict_interval(X[:2], 0.95)) == 2
    said = sentence(forest.predict_interval, X[:2], 0.97)
    assert said.startswith(
        "coverage must be at most 0.95 for this forest, got 0.97; train and calibrate"
    )


def test_rows_that_all_trees_drew_cannot_calibrate() -> None:
    X, y = numbers(600)
    forest = ExtraTreesRegressor(5, random_state=0).fit(X[:300], y[:300])
    assert "needs more rows that trees have not seen, got 0" in sentence(
        forest.calibrate, X[:300], y[:300]
    )
    assert forest.calibrate(X[300:], y[300:]).predict_interval(X).shape == (600, 2)


def test_rows_of_which_a_budget_has_read_a_part_cannot_calibrate() -> None:
    X, y = numbers(400)
    part = RandomForestRegressor(5, random_state=0, budget=Budget(seconds=60)).fit(X[:300], y[:300])
    for draws, _ in part.draws_.trees:
        draws.given = 400  # as if its clock had allowed 300 of them
    assert "give rows that it was not given" in sentence(part.calibrate, X, y)
    assert part.calibrate(X[300:], y[300:]).predict_interval(X).shape == (400, 2)
