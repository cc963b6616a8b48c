"""SHAP values: those of every set of features, counted one by one, and sums that are predictions."""

import itertools
import math
import random

import numpy as np
import pytest
from forests import hard_row, make_forest

import edgeforest
from edgeforest import shap_values, train
from edgeforest.forests import walking
from edgeforest.forests.shap import covers
from edgeforest.forests.walking import node_at, tree_nodes, votes_of
from edgeforest.host.arrays import encoded_as

DAYS = ["mon", "sat", "sun"]


def made_rows(n, seed=0, gaps=0.15):
    """Numbers, a few whole ones, and a category; some of them missing."""
    r = random.Random(seed)
    rows = []
    for _ in range(n):
        row = [r.gauss(0, 1), r.randrange(4), r.choice(DAYS), r.random()]
        rows.append([None if r.random() < gaps else v for v in row])
    return rows


def made_forest(rows, regression, **options):
    y = [(a or 0) + (b or 0) * (day == "sun") for a, b, day, _ in rows]
    y = y if regression else ["low" if v < 0 else "mid" if v < 1 else "high" for v in y]
    criterion = "mse" if regression else "gini"
    return train(rows, y, criterion=criterion, categorical=[2], max_features=3, **options)


def says(forest, leaf):
    """What a leaf says by itself, as floats that are not rounded to float32."""
    votes = np.array(votes_of(forest, leaf)) / forest.scale
    return forest.low + forest.span * votes if forest.regression else votes


def told(forest, place, x, known, counts):
    """What a tree says of a row if it is told some features only, by its definition."""
    node = node_at(forest, place)
    if node.is_leaf:
        return says(forest, node)
    if node.feature in known:
        way = node.left if node.goes_left(x) else node.right
        return told(forest, way, x, known, counts)
    of = counts[place]
    share = counts[node.left] / of if of else 0.5
    left, right = (told(forest, way, x, known, counts) for way in (node.left, node.right))
    return share * left + (1 - share) * right


def counted(forest, background):
    """How many rows of the background pass each node, by following them one by one."""
    counts = dict.fromkeys(range(len(forest.feature)), 0)
    for row in background:
        x = forest.encode(row)
        for root in forest.roots:
            node = node_at(forest, root)
            while True:
                counts[node.place] += 1
                if node.is_leaf:
                    break
                node = node_at(forest, node.left if node.goes_left(x) else node.right)
    return counts


def by_definition(forest, row, background):
    """Shapley values by all sets of features: (features, classes), and the mean answer."""
    counts, x, m = counted(forest, background), forest.encode(row), forest.n_features
    value = {
        known: sum(told(forest, root, x, known, counts) for root in forest.roots) / len(forest)
        for size in range(m + 1)
        for known in map(frozenset, itertools.combinations(range(m), size))
    }
    found = np.zeros((m, forest.n_votes))
    for f in range(m):
        for known, without in value.items():
            if f not in known:
                k = len(known)
                weight = math.factorial(k) * math.factorial(m - k - 1) / math.factorial(m)
                found[f] += weight * (value[known | {f}] - without)
    return found, value[frozenset()]


@pytest.mark.parametrize("regression", [False, True])
def test_values_are_those_of_the_definition(regression):
    """With missing values, categories and rows of branches that the background never reaches."""
    rows = made_rows(200)
    forest = made_forest(rows, regression, n_trees=3, max_depth=6)
    asked = [*rows[:6], [None, None, None, None], [9.0, 3, "sun", 0.5], [0.1, 1, "tue", None]]
    for background in (rows, rows[:5]):
        values, base = shap_values(forest, asked, background)
        values = values[:, :, None] if regression else values
        for row, found in zip(asked, values, strict=True):
            expected, mean = by_definition(forest, row, background)
            assert found == pytest.approx(expected, abs=1e-12)
            assert base == pytest.approx(mean if not regression else mean[0], abs=1e-12)


def test_a_feature_that_is_asked_many_times_along_a_path():
    rows = [[i / 7, (i * 37) % 11] for i in range(120)]
    y = [int(a) % 3 for a, _ in rows]
    forest = train(rows, y, n_trees=2, max_features=2)
    assert max(len(list(tree_nodes(forest, t))) for t in range(2)) > 15
    values, _ = shap_values(forest, rows[::17], rows)
    for row, found in zip(rows[::17], values, strict=True):
        assert found == pytest.approx(by_definition(forest, row, rows)[0], abs=1e-12)


@pytest.mark.parametrize("n", [*range(0, 200, 9), *range(201, 240, 13)])
def test_values_and_base_add_up_to_the_prediction(n):
    """Forests of every kind and depth, merged ones too, with rows that are hard for them."""
    r = random.Random(n)
    forest, columns = make_forest(n, r)
    rows = [hard_row(forest, columns, r) for _ in range(8)]
    rows = [[None if v in (math.inf, -math.inf) else v for v in row] for row in rows]
    values, base = shap_values(forest, rows, rows[:5])
    total = values.sum(axis=1) + base
    if forest.regression:
        scale = abs(forest.low) + forest.span
        assert total == pytest.approx(np.array(forest.predict(rows)), abs=1e-6 * scale)
    else:
        votes = np.array([forest.vote(row)[1][0][1] for row in rows])
        assert total == pytest.approx(votes / (forest.scale * len(forest)), abs=1e-9)


def test_trees_of_one_leaf_add_nothing():
    values, base = shap_values(train([[1], [2]], [5.0, 5.0], criterion="mse"), [[1]], [[1]])
    assert (values.tolist(), base) == ([[0.0]], 5.0)


def test_rows_come_as_frames_and_arrays_and_in_blocks(monkeypatch):
    pandas = pytest.importorskip("pandas")
    rows = made_rows(90, gaps=0)
    names = ["a", "b", "day", "d"]
    model = edgeforest.RandomForestRegressor(4, random_state=0, categorical_features=["day"])
    frame = pandas.DataFrame(rows, columns=names)
    model.fit(frame, [row[0] for row in rows])
    expected = shap_values(model.forest_, rows, rows)
    for block in (1 << 20, 1):  # rows one by one
        monkeypatch.setattr("edgeforest.forests.shap.CELLS", block)
        found = shap_values(model, frame[["d", "day", "b", "a"]], frame)
        assert found.values == pytest.approx(expected.values, abs=1e-12)
    with pytest.raises(ValueError, match="X must have 4 features, got 2"):
        shap_values(model, [[1, 2]], rows)


def test_covers_count_every_row_at_every_node():
    rows = made_rows(150)
    forest = made_forest(rows, False, n_trees=3)
    found = covers(forest, encoded_as(forest, rows))
    assert dict(enumerate(found.tolist())) == counted(forest, rows)
    assert [found[root] for root in forest.roots] == [150] * 3
    assert walking.depth(forest) > 3
