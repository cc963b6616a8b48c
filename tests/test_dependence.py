"""Partial dependence is what predicting every row with every value says."""

import random

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.inspection import partial_dependence as of_sklearn

from edgeforest import partial_dependence, train
from edgeforest.export import from_sklearn

DAYS = ["mon", "sat", "sun"]


def made(regression):
    r = random.Random(3)
    rows = [
        [r.gauss(0, 1), r.choice([*DAYS, None]), r.choice([1.5, 2.5, None])] for _ in range(150)
    ]
    y = [a + (day == "sun") for a, day, _ in rows]
    if not regression:
        y = ["low" if v < 0 else "high" for v in y]
    criterion = "mse" if regression else "gini"
    return rows, train(rows, y, criterion=criterion, categorical=[1], n_trees=5, max_features=2)


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("feature", [0, 1, 2])
def test_it_is_the_mean_of_all_predictions(regression, feature):
    rows, forest = made(regression)
    found = partial_dependence(forest, rows, feature, n_points=7)
    for value, mean, low, high in zip(found.values, found.mean, found.low, found.high, strict=True):
        asked = [[*row[:feature], value, *row[feature + 1 :]] for row in rows]
        said = np.array(forest.predict(asked) if regression else forest.predict_proba(asked))
        assert mean == pytest.approx(said.mean(axis=0), abs=1e-6)
        assert low == pytest.approx(np.quantile(said, 0.1, axis=0), abs=1e-6)
        assert high == pytest.approx(np.quantile(said, 0.9, axis=0), abs=1e-6)


def test_the_values_are_few_and_known():
    rows, forest = made(True)
    numbers = partial_dependence(forest, rows, "x0", n_points=7).values
    assert len(numbers) == 7
    assert numbers == sorted({*numbers} & {float(np.float32(row[0])) for row in rows})
    assert partial_dependence(forest, rows, "x1").values == DAYS
    assert partial_dependence(forest, rows, 2).values == [1.5, 2.5]


def test_it_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)).round(0).astype(np.float32)  # few values: both ask about each
    model = RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, X[:, 0] * X[:, 1])
    theirs = of_sklearn(model, X, [0], method="brute")
    forest = from_sklearn(model)
    ours = partial_dependence(forest, X, 0)
    assert ours.values == theirs["grid_values"][0].tolist()
    assert ours.mean == pytest.approx(theirs["average"][0], abs=forest.span / forest.scale)


def test_a_sample_of_the_rows_is_the_same_every_time():
    rows, forest = made(True)
    one, two = (partial_dependence(forest, rows, 0, max_rows=20) for _ in range(2))
    assert (one.mean == two.mean).all()
    whole = partial_dependence(forest, rows, 0)
    assert (one.mean != whole.mean).any()


@pytest.mark.parametrize(
    ("feature", "said"),
    [
        ("dusk", "feature must be one of the forest's, got 'dusk'; it has x0, x1, x2"),
        (3, "feature must be from 0 to 2, got 3"),
    ],
)
def test_features_that_are_not_there(feature, said):
    rows, forest = made(True)
    with pytest.raises(ValueError, match=said):
        partial_dependence(forest, rows, feature)


def test_a_column_without_values():
    rows, forest = made(True)
    with pytest.raises(ValueError, match="X has no value of 'x0': all are missing"):
        partial_dependence(forest, [[None, *row[1:]] for row in rows], 0)
