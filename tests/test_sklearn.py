"""Our forests against scikit-learn's, on its own small real data sets."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import train_test_split

from edgeforest import train

on_every_engine = pytest.mark.usefixtures("engine")

PEERS = {
    ("random-forest", False): RandomForestClassifier,
    ("random-forest", True): RandomForestRegressor,
    ("extra-trees", False): ExtraTreesClassifier,
    ("extra-trees", True): ExtraTreesRegressor,
}


@pytest.mark.parametrize("kind", ["random-forest", "extra-trees"])
@pytest.mark.parametrize(
    ("load", "seeds"),
    [(load_digits, 20), (load_wine, 30), (load_breast_cancer, 20), (load_diabetes, 12)],
    ids=["digits", "wine", "breast-cancer", "diabetes"],
)
def test_no_worse_than_scikit_learn(load, seeds, kind, figure):
    """On the fastest engine only: the others grow the same forests, but slowly."""
    X, y = load(return_X_y=True)
    regression = load is load_diabetes
    options = {"criterion": "mse", "max_features": 1.0} if regression else {}
    differences = []
    ours = []
    for seed in range(seeds):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=seed)
        forest = train(X_train, y_train, kind=kind, n_trees=30, seed=seed, **options)
        peer = PEERS[kind, regression](30, random_state=seed).fit(X_train, y_train)
        scores = []
        for found in (np.array(forest.predict(X_test)), peer.predict(X_test)):
            scores.append(
                -np.mean((found - y_test) ** 2) if regression else np.mean(found == y_test)
            )
        ours.append(scores[0])
        differences.append(scores[0] - scores[1])
    mean = np.mean(differences)
    error = np.std(differences, ddof=1) / np.sqrt(seeds)
    figure(f"ours {np.mean(ours):.4f}, ahead of scikit-learn by {mean:+.4f} +- {error:.4f}")
    assert mean >= -2 * error


@pytest.mark.parametrize("splitter", ["mab", "mab-paper", "exact"])
@pytest.mark.parametrize("criterion", ["gini", "entropy", "mse"])
@pytest.mark.parametrize("kind", ["random-forest", "extra-trees", "random-patches"])
def test_every_combination_learns(kind, splitter, criterion):
    """Every combination of options comes close on a problem with a known answer."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2500, 6))
    X[rng.uniform(size=X.shape) < 0.03] = np.nan
    filled = np.nan_to_num(X, nan=0.5)
    signal = 3 * filled[:, 0] + 2 * (filled[:, 1] > 0.4) + filled[:, 2]
    y = signal if criterion == "mse" else np.digitize(signal, [2.2, 3.8])
    forest = train(
        X[:2000].tolist(),
        y[:2000].tolist(),
        kind=kind,
        splitter=splitter,
        criterion=criterion,
        n_trees=12,
        max_depth=8,
        max_features=4,
        alpha_f=1.0,
    )
    found = np.array(forest.predict(X[2000:].tolist()))
    if criterion == "mse":
        assert np.mean((found - y[2000:]) ** 2) < 0.15 * np.var(y[2000:])
    else:
        assert np.mean(found == y[2000:]) > 0.87
    assert sum(forest.feature_importances[:3]) > 0.75
    assert sum(forest.feature_importances) == pytest.approx(1.0, abs=1e-5)


@on_every_engine
@pytest.mark.parametrize("bootstrap", [True, False])
def test_weights_are_the_ratio_of_votes(bootstrap):
    """Rows of weight three and of weight one, otherwise equal: the votes are 3 to 1."""
    rows = [[0.0]] * 4000
    labels = [i % 2 for i in range(4000)]
    forest = train(
        rows,
        labels,
        sample_weight=[3.0 if label else 1.0 for label in labels],
        bootstrap=bootstrap,
        n_trees=20,
    )
    assert forest.predict_proba([0.0])[1] == pytest.approx(0.75, abs=0.02 if bootstrap else 0.006)


@on_every_engine
def test_class_weight_balanced_makes_classes_equal():
    rows = [[0.0]] * 1000
    labels = ["rare" if i % 10 == 0 else "common" for i in range(1000)]
    forest = train(rows, labels, class_weight="balanced", n_trees=30)
    assert forest.predict_proba([0.0])[1] == pytest.approx(0.5, abs=0.03)
    named = train(rows, labels, class_weight={"rare": 9.0}, n_trees=30)
    assert named.predict_proba([0.0])[1] == pytest.approx(0.5, abs=0.03)


@on_every_engine
def test_rows_of_weight_zero_are_never_drawn():
    rows = [[float(i % 2)] for i in range(400)]
    labels = [i % 2 for i in range(400)]
    forest = train(rows, labels, sample_weight=[float(1 - label) for label in labels])
    assert forest.predict_proba([1.0]) == [1.0, 0.0]


@on_every_engine
def test_limits_on_the_trees_hold():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 5))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    rows, labels = X.tolist(), y.tolist()
    forest = train(rows, labels, max_leaf_nodes=7, n_trees=4)
    assert all(leaves(forest, t) == 7 for t in range(4))
    forest = train(rows, labels, min_samples_leaf=40, n_trees=4, bootstrap=False)
    for t in range(4):
        assert min(rows_in_leaves(forest, t, forest_rows=rows)) >= 40
    assert len(train(rows, labels, max_depth=0, n_trees=2).feature) == 2
    shallow = train(rows, labels, max_depth=3, n_trees=4)
    assert all(leaves(shallow, t) <= 8 for t in range(4))
    assert len(train(rows, labels, min_impurity_decrease=0.4, n_trees=2).feature) == 2
    few = train(rows, labels, max_features=1, max_leaf_nodes=20, n_trees=2)
    assert all(leaves(few, t) == 20 for t in range(2))


def ends(forest, t):
    return (*forest.roots, len(forest.feature))[t : t + 2]


def leaves(forest, t):
    first, last = ends(forest, t)
    return sum(f == 0xFFFF for f in forest.feature[first:last])


def rows_in_leaves(forest, t, forest_rows):
    """The number of rows in each leaf of one tree, counted without the package's code."""
    counts = {}
    for row in forest_rows:
        node = forest.roots[t]
        while forest.feature[node] != 0xFFFF:
            f = forest.feature[node] & 0x3FFF
            left = np.float32(row[f]) <= np.float32(forest.threshold[node])
            node = node + 1 if left else forest.right[node]
        counts[node] = counts.get(node, 0) + 1
    assert len(counts) == leaves(forest, t)
    return counts.values()


@on_every_engine
def test_trees_vote_with_the_shares_of_their_leaves():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(600, 3))
    y = rng.integers(0, 3, 600)
    forest = train(X.tolist(), y.tolist(), n_trees=1, max_depth=2, bootstrap=False)
    leaf_of = []
    for row in X.astype(np.float32):
        node = 0
        while forest.feature[node] != 0xFFFF:
            left = row[forest.feature[node] & 0x3FFF] <= np.float32(forest.threshold[node])
            node = node + 1 if left else forest.right[node]
        leaf_of.append(node)
    leaf_of = np.array(leaf_of)
    for i in (0, 5, 99):
        mates = y[leaf_of == leaf_of[i]]
        expected = np.bincount(mates, minlength=3) / len(mates)
        assert forest.predict_proba(X[i].tolist()) == pytest.approx(expected, abs=1e-4)


@on_every_engine
def test_a_patch_is_fixed_for_the_whole_forest():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 10))
    y = (X.sum(axis=1) > 0).astype(int)
    forest = train(X.tolist(), y.tolist(), kind="random-patches", alpha_f=0.5, n_trees=20)
    used = {f & 0x3FFF for f in forest.feature if f != 0xFFFF}
    assert len(used) == 5
