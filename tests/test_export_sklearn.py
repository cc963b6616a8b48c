"""Forests of scikit-learn in our format: the same answers, on rows chosen to tell a difference."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from edgeforest import Forest, explain, load, merge
from edgeforest.export.sklearn_import import from_sklearn, round_down
from edgeforest.forest import HUGE, LEAF, MISSING_LEFT
from edgeforest.forests.merging import SUM

on_every_engine = pytest.mark.usefixtures("engine")

Rows = NDArray[np.float32]
FORESTS = (RandomForestClassifier, ExtraTreesClassifier)
TREES = (DecisionTreeClassifier, ExtraTreeClassifier)
REGRESSORS = (
    RandomForestRegressor,
    ExtraTreesRegressor,
    DecisionTreeRegressor,
    ExtraTreeRegressor,
)
LABELS: list[Callable[[NDArray[np.int64]], Any]] = [
    lambda k: k,
    lambda k: k * 10 - 7,
    lambda k: np.array(["ärger", "b", "c", "d", "e", "f", "g"])[k],
    lambda k: np.array(["b", "", 'q"', "d", "e", "f", "g"], object)[k],
    lambda k: k > 1,
    lambda k: k * 2.0,
]


def make_rows(n: int, seed: int, missing: bool) -> Rows:
    """Numbers of many sizes, whole ones, few different ones, one that never changes."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack(
        [
            rng.normal(size=n),
            rng.normal(size=n) * 1e-30,
            rng.normal(1e7, 3, n),
            rng.integers(-3, 4, n),
            rng.random(n) < 0.5,
            np.full(n, 2.5),
        ]
    ).astype(np.float32)
    if missing:
        rows[rng.random(rows.shape) < 0.15] = np.nan
    return rows


def target(rows: Rows, seed: int) -> NDArray[np.float64]:
    x = np.nan_to_num(rows.astype(np.float64), nan=0.3)
    noise = np.random.default_rng(seed).normal(size=len(x)) * 0.6
    return np.sin(2 * x[:, 0]) + x[:, 1] * 1e30 * 0.5 + (x[:, 2] - 1e7) / 3 + x[:, 3] * 0.7 + noise


def beside(rows: Rows, forest: Forest, missing: bool) -> Rows:
    """Rows on thresholds, and one float32 beside them on either side."""
    rng = np.random.default_rng(0)
    inner = [i for i, f in enumerate(forest.feature) if f != LEAF and forest.threshold[i] < HUGE]
    found = []
    for i in rng.choice(inner, 80) if inner else []:
        f, t = forest.feature[i] & 0x3FFF, np.float32(forest.threshold[i])
        above = np.nextafter(t, np.float32(np.inf))
        for value in (t, above, np.nextafter(t, np.float32(-np.inf))):
            row = rows[rng.integers(len(rows))].copy()
            row[f] = value
            if missing and rng.random() < 0.2:
                row[rng.integers(len(row))] = np.nan
            found.append(row)
    extremes = np.full((4, rows.shape[1]), [[1e36], [-1e36], [0.0], [-0.0]], np.float32)
    return np.concatenate([rows, extremes, *([np.array(found)] if found else [])])


def cases() -> list[tuple[Any, int, int, int, bool, int]]:
    """25 classifiers and 25 regressors: class, number, classes, depth, missing, seed."""
    found = []
    depths = itertools.cycle([None, 3, None, 8, 1])
    for seed in range(25):
        kind = (FORESTS + TREES)[seed % 4]
        found.append((kind, 1 + seed % 23, 2 + seed % 6, next(depths), seed % 2 == 1, seed))
        kind = REGRESSORS[seed % 4]
        found.append((kind, 1 + seed % 17, 0, next(depths), seed % 3 == 1, seed))
    return found


def fit(kind: Any, rows: Rows, y: Any, trees: int, seed: int, **options: Any) -> Any:
    if kind in FORESTS + REGRESSORS[:2]:
        options["n_estimators"] = trees
    return kind(random_state=seed, **options).fit(rows, y)


@cache
def fitted() -> list[tuple[Any, Rows]]:
    """The models of all cases, each with rows of its kind that it has not seen."""
    found = []
    for kind, trees, classes, depth, missing, seed in cases():
        rows = make_rows(300, seed, missing)
        y: Any = target(rows, seed)
        options: dict[str, Any] = {"max_depth": depth}
        if seed % 5 == 4:  # nodes in the order of their gain
            options = {"max_leaf_nodes": 20}
        if classes:
            cuts = np.quantile(y, np.linspace(0, 1, classes + 1)[1:-1])
            y = LABELS[seed % len(LABELS)](np.searchsorted(cuts, y))
            options["class_weight"] = "balanced" if seed % 7 == 3 else None
            options["criterion"] = ("gini", "entropy", "log_loss")[seed % 3]
        model = fit(kind, rows, y, trees, seed, **options)
        found.append((model, make_rows(400, seed + 100, missing)))
    return found


@on_every_engine
def test_50_imported_forests_predict_as_scikit_learn_does(figure: Callable[[str], None]) -> None:
    """Labels are equal unless two classes are within rounding; values are within resolution."""
    rows_seen = ties = other = exact = 0
    worst = 0.0
    for (model, fresh), (_, _, classes, _, missing, _) in zip(fitted(), cases(), strict=True):
        forest = from_sklearn(model)
        assert max(forest.votes) <= forest.scale <= SUM // len(forest)
        tests = beside(fresh, forest, missing)
        rows_seen += len(tests)
        if classes:
            shares = model.predict_proba(tests)
            ours = np.array(forest.predict_proba(tests))
            assert np.abs(ours - shares).max() <= 1 / forest.scale + 1e-12
            exact += np.abs(ours - shares).max() < 1e-12
            first = np.sort(shares, axis=1)[:, ::-1]
            near = first[:, 0] - first[:, 1] <= 2 / forest.scale
            differ = np.array(forest.predict(tests)) != model.predict(tests)
            assert not (differ & ~near).any()
            ties += int(near.sum())
            other += int(differ.sum())
        else:
            step = forest.span / forest.scale / 2
            room = 2**-22 * (abs(forest.low) + forest.span)  # three roundings to float32
            error = np.abs(np.array(forest.predict(tests)) - model.predict(tests)).max()
            assert error <= step + room
            worst = max(worst, error / forest.span)
    figure(
        f"{rows_seen} rows of 50 forests: {ties} ties, {other} of them decided otherwise; "
        f"{exact} of 25 classifiers exact; values off by at most {worst:.1e} of the span"
    )
    assert ties < rows_seen / 20


def test_fully_grown_trees_are_exact() -> None:
    """Leaves of one class each: votes are exact, so only true ties may differ."""
    rows = make_rows(300, 1, False)
    y = target(rows, 1) > 0
    model = RandomForestClassifier(n_estimators=15, random_state=0).fit(rows, y)
    forest = from_sklearn(model)
    tests = beside(make_rows(500, 2, False), forest, False)
    assert np.abs(np.array(forest.predict_proba(tests)) - model.predict_proba(tests)).max() < 1e-12
    assert forest.predict(tests) == model.predict(tests).tolist()  # an odd number has no ties


@pytest.mark.parametrize("labels", LABELS[:5])
def test_labels_come_as_plain_python(labels: Callable[[Any], Any]) -> None:
    rows = make_rows(200, 3, False)
    y = labels(np.clip(rows[:, 3] + 3, 0, 2).astype(np.int64))
    model = RandomForestClassifier(n_estimators=3, random_state=0).fit(rows, y)
    forest = load(from_sklearn(model).to_json())
    assert forest.classes == model.classes_.tolist()
    assert {type(v) for v in forest.classes} <= {str, int, bool}
    assert forest.predict(rows) == model.predict(rows).tolist()


@on_every_engine
def test_missing_values_go_where_scikit_learn_sends_them() -> None:
    rows = make_rows(400, 4, True)
    y = (np.isnan(rows[:, 0]) | (rows[:, 0] > 0.5)) & (rows[:, 3] != 1)
    for kind in FORESTS + TREES:
        model = fit(kind, rows, y, 9, 0)
        forest = from_sklearn(model)
        sides = {f & MISSING_LEFT for f in forest.feature if f != LEAF}
        assert sides == {0, MISSING_LEFT}
        tests = make_rows(400, 5, True)
        tests[:6] = np.nan
        assert forest.predict(tests) == model.predict(tests).tolist()


def test_header_importances_and_names() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"light": [1, 2, 3, 4] * 9, "heat °C": [0, 1] * 18})
    y = ["on" if v > 2 else "off" for v in table["light"]]
    model = ExtraTreesClassifier(n_estimators=4, random_state=11, criterion="entropy").fit(table, y)
    forest = from_sklearn(model)
    assert forest.names == ["light", "heat °C"]
    assert (forest.kind, forest.criterion, forest.seed) == ("extra-trees", "entropy", 11)
    assert np.abs(np.array(forest.feature_importances) - model.feature_importances_).max() < 1e-6
    assert forest.limit is None
    assert forest.spent.insertions == 0


@on_every_engine
def test_imported_forests_can_do_what_other_forests_can() -> None:
    rows = make_rows(200, 6, False)
    y = target(rows, 6) > 0
    model = RandomForestClassifier(n_estimators=5, random_state=0).fit(rows, y)
    forest = from_sklearn(model)
    assert load(forest.to_json()).to_json() == forest.to_json()
    assert len(merge([forest, forest])) == 10
    assert explain(forest, rows[0]).prediction == model.predict(rows[:1])[0]


def test_one_leaf_is_a_forest() -> None:
    model = DecisionTreeRegressor().fit([[1.0], [2.0]], [0.1, 0.1])
    assert from_sklearn(model).predict([5.0]) == np.float32(0.1)
    single = RandomForestClassifier(n_estimators=2).fit([[1.0], [2.0]], ["a", "a"])
    assert from_sklearn(single).predict([[5.0], [0.0]]) == ["a", "a"]


def test_weights_that_are_not_whole_numbers() -> None:
    rows = make_rows(300, 7, False)
    y = np.digitize(target(rows, 7), [-1, 1])
    weights = np.random.default_rng(0).random(300) * 3
    model = RandomForestClassifier(n_estimators=7, max_depth=4, random_state=0)
    model.fit(rows, y, sample_weight=weights)
    forest = from_sklearn(model)
    ours, theirs = np.array(forest.predict_proba(rows)), model.predict_proba(rows)
    assert np.abs(ours - theirs).max() <= 1 / forest.scale
    sums = np.array(forest.votes).reshape(-1, 3).sum(axis=1)
    assert set(sums) == {forest.scale}


def test_rounding_down_keeps_every_comparison() -> None:
    rng = np.random.default_rng(1)
    x = (rng.normal(size=5000) * 10.0 ** rng.integers(-40, 38, 5000)).astype(np.float32)
    near = np.nextafter(x, np.float32(np.inf))
    for t in (
        x.astype(np.float64),
        (x.astype(np.float64) + near) / 2,
        np.nextafter(x.astype(np.float64), -np.inf),
    ):
        down = round_down(t)
        for value in (x, near, np.nextafter(x, np.float32(-np.inf))):
            assert ((value.astype(np.float64) <= t) == (value <= down)).all()
    assert round_down([np.inf]).tolist() == [HUGE]


@pytest.mark.parametrize(
    ("model", "error", "sentence"),
    [
        (RandomForestClassifier(), ValueError, "is not fitted; call fit first"),
        (DecisionTreeRegressor(), ValueError, "is not fitted; call fit first"),
        ("forest", TypeError, "RandomForest, ExtraTrees, DecisionTree or ExtraTree .* got str"),
        (GradientBoostingClassifier(), TypeError, "got GradientBoostingClassifier"),
        (IsolationForest(), TypeError, "got IsolationForest"),
        (
            DecisionTreeRegressor().fit([[0], [1]], [[0, 1], [2, 3]]),
            ValueError,
            "has 2 outputs, a forest has one; fit a model for each",
        ),
        (
            RandomForestClassifier(n_estimators=2).fit([[0], [1]], [[0, 1], [1, 0]]),
            ValueError,
            "has 2 outputs",
        ),
        (
            DecisionTreeRegressor().fit([[0], [1]], [0.0, 1e39]),
            ValueError,
            "must lie and span within 3.4e38; scale the target down",
        ),
        (DecisionTreeRegressor().fit(np.zeros((2, 16384)), [0, 1]), ValueError, "at most 16383"),
    ],
    ids=str,
)
def test_what_is_not_a_forest_is_refused(model: Any, error: type, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        from_sklearn(model)


def test_more_than_65535_nodes() -> None:
    rng = np.random.default_rng(2)
    rows = rng.random((3000, 2)).astype(np.float32)
    model = ExtraTreesRegressor(n_estimators=12, random_state=0).fit(rows, rng.random(3000))
    forest = load(from_sklearn(model).to_json())
    assert len(forest.feature) > 65535
    error = np.abs(np.array(forest.predict(rows)) - model.predict(rows)).max()
    assert error <= forest.span / forest.scale
