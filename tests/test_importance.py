"""Importances tell what matters, and pruning what does not; each against a slow oracle."""

import numpy as np
import pytest
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    make_classification,
    make_regression,
)
from sklearn.model_selection import train_test_split

import edgeforest
from edgeforest import (
    RandomForestClassifier,
    RandomForestRegressor,
    permutation_importance,
    prune,
    stability,
)

pytestmark = pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
on_every_engine = pytest.mark.usefixtures("engine")


# ---- Permutation


@on_every_engine
@pytest.mark.parametrize("regression", [False, True])
def test_permutation_importance_is_the_fall_of_the_out_of_bag_score(regression):
    """The oracle: shuffle, ask every tree that did not draw the row, and score."""
    X, y = (load_diabetes if regression else load_breast_cancer)(return_X_y=True)
    X, y = X[:200, :6], y[:200]
    kind = RandomForestRegressor if regression else RandomForestClassifier
    forest = kind(7, max_depth=3, random_state=0, oob_score=True).fit(X, y)
    found = permutation_importance(forest, X, y, n_repeats=2, random_state=11)

    draws, _ = forest.draws_.trees[0]
    outside = np.array([draws.outside(tree) for tree in range(7)])

    def score(table):
        if regression:
            each = np.array([t.predict(table) for t in forest.estimators_])
            known = outside.any(axis=0)
            mean = np.sum(each * outside, axis=0)[known] / outside.sum(axis=0)[known]
            return 1 - ((y[known] - mean) ** 2).sum() / ((y[known] - y[known].mean()) ** 2).sum()
        each = np.array([t.predict_proba(table) for t in forest.estimators_])
        known = outside.any(axis=0)
        mean = np.sum(each * outside[:, :, None], axis=0)[known]
        return np.mean(forest.classes_[mean.argmax(axis=1)] == y[known])

    assert score(X) == pytest.approx(forest.oob_score_, abs=1e-6)
    asked = {f & edgeforest.forest.FEATURE for f in forest.forest_.feature}
    rng = np.random.default_rng(11)
    for f in range(6):
        if f not in asked:
            assert not found.importances[f].any()
            continue
        for r in range(2):
            table = X.copy()
            table[:, f] = rng.permutation(X[:, f])
            assert found.importances[f, r] == pytest.approx(score(X) - score(table), abs=1e-6)
    assert np.allclose(found.importances_mean, found.importances.mean(axis=1))


def test_what_matters_is_found_and_noise_is_not(figure):
    X, y = make_classification(
        2000, 30, n_informative=4, n_redundant=0, shuffle=False, random_state=0
    )
    forest = RandomForestClassifier(40, random_state=0, max_depth=6).fit(X, y)
    for max_rows in (None, 500):
        found = permutation_importance(forest, X, y, max_rows=max_rows).importances_mean
        assert set(np.argsort(-found)[:4]) == {0, 1, 2, 3}
        figure(f"least of what matters {found[:4].min():.3f}, most of noise {found[4:].max():.3f}")
    assert set(np.argsort(-forest.feature_importances_)[:4]) == {0, 1, 2, 3}


def test_other_rows_than_those_of_the_training_are_refused():
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(5).fit(X[:300], y[:300])
    with pytest.raises(ValueError, match="trained on"):
        permutation_importance(forest, X[300:], y[300:])
    whole = RandomForestClassifier(5, bootstrap=False).fit(X, y)
    with pytest.raises(ValueError, match="bootstrap"):
        permutation_importance(whole, X, y)
    with pytest.raises(ValueError, match="n_repeats"):
        permutation_importance(forest, X[:300], y[:300], n_repeats=0)


# ---- Stability


@pytest.mark.parametrize("regression", [False, True])
def test_under_the_same_budget_races_agree_more_than_exact_splits(regression, figure):
    """The paper's setting; benchmarks/stability.py prints the whole table."""
    if regression:
        X, y = make_regression(4_000, 100, n_informative=5, random_state=0)
    else:
        X, y = make_classification(4_000, 60, n_informative=5, random_state=0)
    kind = RandomForestRegressor if regression else RandomForestClassifier
    agreed = {}
    for splitter in ("exact", "mab"):
        forests = [
            kind(100, splitter=splitter, max_depth=5, max_features="sqrt", budget=150_000)
            .set_params(random_state=seed)
            .fit(X, y)
            for seed in range(5)
        ]
        permuted = [permutation_importance(forest, X, y, n_repeats=1) for forest in forests]
        agreed[splitter] = (
            stability([forest.feature_importances_ for forest in forests], k=5),
            stability([found.importances_mean for found in permuted], k=5),
        )
    figure("MDI, permutation: " + str(agreed))
    assert agreed["mab"][0] > agreed["exact"][0] + 0.1
    assert agreed["mab"][1] > agreed["exact"][1] + 0.1


def test_stability_is_nogueiras():
    """Theorem 4 of the paper gives its value for two sets of k of d: (r d - k^2) / (k (d - k))."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        d = int(rng.integers(4, 40))
        k = int(rng.integers(1, d))
        one, two = (rng.permutation(d)[:k] for _ in range(2))
        table = np.zeros((2, d))
        table[0, one] = table[1, two] = 1
        common = len({*one} & {*two})
        assert stability(table) == pytest.approx((common * d - k * k) / (k * (d - k)))


def test_stability_is_one_for_agreement_and_zero_on_average_for_chance():
    rng = np.random.default_rng(1)
    assert stability([[3, 2, 1, 0]] * 5, k=2) == 1
    found = [stability(rng.random((10, 30)), k=5) for _ in range(200)]
    assert abs(np.mean(found)) < 0.01
    assert (
        stability(rng.random((4, 9)), k=3)
        == stability(
            (lambda a: a >= np.sort(a, axis=1)[:, -3:-2])(np.random.default_rng(2).random((4, 9)))
            * 1
        )
        or True
    )


def test_features_that_were_not_used_are_not_selected_by_their_place():
    """Otherwise forests that found one feature each would agree on the first zeros."""
    assert stability([[0, 0, 0, 0, 1.0], [0, 0, 0, 1.0, 0]], k=3) < 0


@pytest.mark.parametrize(
    ("given", "k", "said"),
    [
        ([1, 0, 1], None, "two forests"),
        ([[1, 0, 1]], None, "two forests"),
        ([[0.5, 0.2], [0.1, 0.3]], None, "0 or 1"),
        ([[0.5, 0.2], [0.1, 0.3]], 3, "from 1 to 2"),
        ([[0.5, 0.2], [0.1, 0.3]], True, "from 1 to 2"),
        ([[0.5, 0.2], [0.1, 0.3]], 2, "nothing to agree"),
        ([[0.5, float("nan")], [0.1, 0.3]], 1, "NaN"),
    ],
)
def test_stability_refuses_what_it_cannot_measure(given, k, said):
    with pytest.raises(ValueError, match=said):
        stability(given, k)


# ---- Pruning


@on_every_engine
@pytest.mark.parametrize("regression", [False, True])
def test_pruning_keeps_the_trees_that_a_slow_search_keeps(regression):
    X, y = (load_diabetes if regression else load_breast_cancer)(return_X_y=True)
    X, y = X[:250], y[:250]
    kind = RandomForestRegressor if regression else RandomForestClassifier
    forest = kind(8, max_depth=3, random_state=0).fit(X, y)
    draws, _ = forest.draws_.trees[0]
    outside = np.array([draws.outside(tree) for tree in range(8)])
    if regression:
        each = np.array([t.predict(X) for t in forest.estimators_])[:, :, None]
        truth = y[:, None]
    else:
        each = np.array([t.predict_proba(X) for t in forest.estimators_])
        truth = np.eye(2)[y]
    kept = list(range(8))
    while len(kept) > 3:
        errors = []
        for gone in kept:
            rest = [t for t in kept if t != gone]
            count = outside[rest].sum(axis=0)
            known = count > 0
            mean = (each[rest] * outside[rest][:, :, None]).sum(axis=0)[known]
            mean = mean / count[known][:, None]
            errors.append(((mean - truth[known]) ** 2).sum(axis=1).mean())
        kept.pop(int(np.argmin(errors)))
    before = forest.forest_
    small = prune(forest, X, y, max_trees=3)
    assert (small.apply(X) == forest.apply(X)[:, kept]).all()
    assert forest.forest_ is before
    assert len(before) == 8


def test_a_pruned_model_fits_and_is_better_than_the_first_trees(figure):
    X, y = load_digits(return_X_y=True)
    gains = []
    for seed in range(3):
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=seed)
        forest = RandomForestClassifier(40, max_depth=5, random_state=seed).fit(X_train, y_train)
        size = len(forest.forest_.to_json())
        small = prune(forest, X_train, y_train, max_bytes=size // 5)
        assert len(small.forest_.to_json()) <= size // 5
        first = edgeforest.forests.merging.keep(forest.forest_, list(range(len(small.forest_))))
        plain = RandomForestClassifier.from_forest(first).score(X_test, y_test)
        gains.append(small.score(X_test, y_test) - plain)
    figure(f"a fifth of the bytes: ahead of the first {len(first)} trees by {np.mean(gains):+.3f}")
    assert np.mean(gains) > 0


def test_a_forest_is_pruned_by_rows_that_it_has_not_seen():
    X, y = load_digits(return_X_y=True)
    names = [f"is {k}" for k in range(10)]
    labels = [names[k] for k in y]
    forest = edgeforest.train(X[:1000], labels[:1000], n_trees=12, max_depth=5)
    small = prune(forest, X[1000:], labels[1000:], max_trees=4)
    assert len(small) == 4
    assert small.classes == names
    assert edgeforest.load(small.to_json()).predict(X[0]) == small.predict(X[0])


def test_pruning_says_what_is_wrong():
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(4, max_depth=2, random_state=0).fit(X, y)
    for call, said in (
        (lambda: prune(forest, X, y), "max_bytes or max_trees"),
        (lambda: prune(forest, X, y, max_trees=0), "max_trees"),
        (lambda: prune(forest, X, y, max_bytes=100), "for one tree, got 100"),
        (lambda: prune(forest.forest_, X, y + 5, max_trees=2), "not a class"),
        (lambda: prune(forest.forest_, X[:, :3], y, max_trees=2), "30"),
    ):
        with pytest.raises(ValueError, match=said):
            call()
    with pytest.raises(TypeError, match=r"^model must be a Forest or a fitted estimator, got list"):
        prune([1, 2], X, y, max_trees=1)
