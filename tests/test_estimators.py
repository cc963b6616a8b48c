"""Estimators have scikit-learn's API: they pass its checks and work in its tools and scripts."""

import copy
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier as TheirClassifier
from sklearn.ensemble import RandomForestRegressor as TheirRegressor
from sklearn.inspection import permutation_importance as their_permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import edgeforest
from edgeforest import (
    Budget,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomPatchesClassifier,
    RandomPatchesRegressor,
    core_pure,
)
from edgeforest.forest import FEATURE, LEAF, MISSING_LEFT

CLASSIFIERS = [RandomForestClassifier, ExtraTreesClassifier, RandomPatchesClassifier]
REGRESSORS = [RandomForestRegressor, ExtraTreesRegressor, RandomPatchesRegressor]
ALL = CLASSIFIERS + REGRESSORS
on_every_engine = pytest.mark.usefixtures("engine")
few_trees = pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")


# ---- scikit-learn's own checks

WEIGHTS = (
    "a row's weight is its chance to be drawn: the random draws of a weighted row differ from those "
    "of a row that occurs more than once, as in scikit-learn's own RandomForest"
)


def expected_failures(estimator):
    return {"check_sample_weight_equivalence_on_dense_data": WEIGHTS}


with warnings.catch_warnings():  # on purpose, it does not inherit from BaseEstimator
    warnings.simplefilter("ignore", UserWarning)
    with_checks = parametrize_with_checks(
        [kind(n_estimators=20) for kind in ALL], expected_failed_checks=expected_failures
    )


@with_checks
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def test_what_is_expected_to_fail_fails_for_scikit_learn_too():
    """Otherwise it would be ours to fix."""
    from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data

    for kind in (TheirClassifier, TheirRegressor):
        with pytest.raises(AssertionError, match="sample_weight"):
            check_sample_weight_equivalence_on_dense_data(kind.__name__, kind(n_estimators=20))


def test_a_weight_of_three_is_as_good_as_occurring_three_times(figure):
    """The same that scikit-learn's check of weights asks for, but on average, not bit by bit."""
    X, y = load_iris(return_X_y=True)
    weight = np.where(y == 1, 3, 1)
    shares = []
    for seed in range(40):
        one = RandomForestClassifier(25, random_state=seed).fit(X, y, weight)
        other = RandomForestClassifier(25, random_state=1000 + seed, max_samples=len(X))
        other.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        shares.append([f.predict_proba(X)[:, 1].mean() for f in (one, other)])
    difference = np.subtract(*np.transpose(shares))
    mean, error = difference.mean(), difference.std(ddof=1) / np.sqrt(len(difference))
    figure(f"share of the class that weighs three times: differs by {mean:+.5f} +- {error:.5f}")
    assert abs(mean) < 3 * error
    assert error < 0.002


# ---- A drop-in

SCRIPT = """
import sys
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.model_selection import cross_val_score, ShuffleSplit

from {module} import RandomForestClassifier, RandomForestRegressor

splits = ShuffleSplit(n_splits=5, test_size=0.3, random_state=0)
for load, kind in (
    (load_digits, RandomForestClassifier),
    (load_breast_cancer, RandomForestClassifier),
    (load_diabetes, RandomForestRegressor),
):
    X, y = load(return_X_y=True)
    model = kind(n_estimators=20, random_state=0{extra})
    print(*cross_val_score(model, X, y, cv=splits))
"""


def scores(text):
    return [np.array(line.split(), float) for line in text.splitlines()]


def test_the_same_script_with_both_imports_scores_the_same(figure, capsys):
    script = SCRIPT.format(module="edgeforest", extra=", budget=20_000_000")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert not done.stderr
    ours = scores(done.stdout)
    # Theirs needs no process of its own, which would import scikit-learn once more.
    exec(SCRIPT.format(module="sklearn.ensemble", extra=""), {})
    theirs = scores(capsys.readouterr().out)
    for name, a, b in zip(("digits", "breast cancer", "diabetes"), ours, theirs, strict=True):
        mean, error = (a - b).mean(), (a - b).std(ddof=1) / np.sqrt(len(a))
        figure(f"{name}: ours {a.mean():.4f}, ahead by {mean:+.4f} +- {error:.4f}")
        assert mean >= -2 * error


def frame(n=1200, seed=0):
    """A log with missing values and categories."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "temperature": rng.normal(21, 3, n),
            "room": pd.Categorical(rng.choice(["lab", "hall", "attic", "cellar"], n)),
            "day": rng.choice(["mon", "tue", "sat", "sun"], n),
            "people": rng.integers(0, 9, n),
        }
    )
    value = X.temperature + 4 * (X.room == "attic") + 2.0 * X.people * (X.day != "sun")
    X.loc[rng.random(n) < 0.1, "temperature"] = np.nan
    X.loc[rng.random(n) < 0.05, "room"] = np.nan
    return X, value + rng.normal(0, 1, n)


def dummies(X):
    """The same frame as scikit-learn's forests need it."""
    return pd.get_dummies(X, columns=["room", "day"], dummy_na=True)


@pytest.mark.parametrize("regression", [False, True])
def test_a_frame_with_missing_values_and_categories_needs_no_preparation(regression, figure):
    differences = []
    for seed in range(12):
        X, value = frame(seed=seed)
        y = value if regression else np.where(value > value.median(), "warm", "cold")
        one, two = train_test_split(np.arange(len(X)), test_size=0.3, random_state=seed)
        ours = (RandomForestRegressor if regression else RandomForestClassifier)(
            40, random_state=seed, max_features=1.0
        )
        theirs = (TheirRegressor if regression else TheirClassifier)(
            40, random_state=seed, max_features=1.0
        )
        y = np.asarray(y)
        a = ours.fit(X.iloc[one], y[one]).score(X.iloc[two], y[two])
        other = dummies(X)
        b = theirs.fit(other.iloc[one], y[one]).score(other.iloc[two], y[two])
        differences.append(a - b)
    mean = np.mean(differences)
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    figure(f"ahead of scikit-learn with dummies by {mean:+.4f} +- {error:.4f}")
    assert mean >= -2 * error
    assert ours.feature_names_in_.tolist() == list(X.columns)
    assert ours.forest_.categories[1] == ["attic", "cellar", "hall", "lab"]
    assert ours.forest_.categories[2] == ["mon", "sat", "sun", "tue"]


# ---- scikit-learn's tools

IRIS = load_iris(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)


def test_pipeline_grid_search_and_cross_validation_take_estimators():
    X, y = IRIS
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(10, random_state=0))
    grid = {
        "randomforestclassifier__max_depth": [1, 5],
        "randomforestclassifier__budget": [500, Budget(insertions=100_000)],
    }
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.best_params_["randomforestclassifier__max_depth"] == 5
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.9
    assert cross_val_score(RandomForestRegressor(10), *DIABETES, cv=3).mean() > 0.25


def test_calibration_and_permutation_importance_take_estimators():
    X, y = IRIS
    calibrated = CalibratedClassifierCV(ExtraTreesClassifier(10, random_state=0), cv=3)
    assert calibrated.fit(X, y).score(X, y) > 0.9
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    found = their_permutation_importance(forest, X, y, n_repeats=3, random_state=0)
    assert found.importances_mean.argmax() in (2, 3)  # the petals


@pytest.mark.parametrize("kind", ALL)
def test_a_clone_has_the_parameters_and_nothing_else(kind):
    given = kind(7, budget=Budget(insertions=5000), max_depth=3, random_state=4)
    copied = clone(given.fit(*(DIABETES if kind.regression else IRIS)))
    assert repr(copied) == repr(given)
    assert copied.budget is not given.budget
    assert not hasattr(copied, "forest_")
    assert is_regressor(copied) == kind.regression
    assert is_classifier(copied) != kind.regression


@few_trees
@on_every_engine
@pytest.mark.parametrize("kind", ALL)
def test_pickles_predict_the_same_on_every_engine(kind, engine, monkeypatch):
    X, y = DIABETES if kind.regression else IRIS
    forest = kind(5, max_depth=5, random_state=1, oob_score=kind.kind != "extra-trees")
    forest.fit(X, y)
    said = forest.predict(X)
    text = pickle.dumps(forest)
    for other in edgeforest.engine.present():
        monkeypatch.setenv("EDGEFOREST_ENGINE", other)
        back = pickle.loads(text)
        assert (back.predict(X) == said).all()
        assert repr(back) == repr(forest)
        assert back.engine_ == engine
        assert back.spent_.seconds == forest.spent_.seconds
    assert (copy.deepcopy(forest).predict(X) == said).all()


# ---- What goes in

ROWS = [[float(i % 7), float(i % 5)] for i in range(140)]


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes"],
        [False, True],
        [3, 17],
        [-1.0, 1.0],
        np.array(["å", "ø"]),
        np.array([1, 2], np.uint8),
    ],
    ids=["text", "bool", "int", "float", "unicode", "uint8"],
)
@on_every_engine
def test_labels_of_any_kind_are_predicted_in_their_own_type(labels):
    y = [labels[int(row[0] > 3)] for row in ROWS]
    forest = RandomForestClassifier(5, random_state=0).fit(ROWS, y)
    assert forest.classes_.tolist() == list(labels)
    assert forest.classes_.dtype == np.asarray(y).dtype
    assert (forest.predict(ROWS) == np.asarray(y)).all()
    assert forest.predict(ROWS).dtype == np.asarray(y).dtype
    assert forest.forest_.predict(ROWS[0]) == y[0]


@on_every_engine
@pytest.mark.parametrize(
    "table",
    [
        lambda: np.array(ROWS),
        lambda: np.array(ROWS, np.float32),
        lambda: np.array(ROWS, np.float16),
        lambda: np.array(ROWS, np.int64),
        lambda: np.array(ROWS, np.uint8),
        lambda: np.array(ROWS, ">f8"),
        lambda: np.array(ROWS, ">i4"),
        lambda: np.array(ROWS, object),
        lambda: np.asfortranarray(np.array(ROWS)),
        lambda: np.array(ROWS).repeat(2, axis=1)[:, ::2],
        lambda: np.array(ROWS)[::-1][::-1],
        lambda: tuple(map(tuple, ROWS)),
        lambda: [__import__("array").array("f", row) for row in ROWS],
        lambda: pd.DataFrame(ROWS, columns=["a", "b"]),
        lambda: pd.DataFrame(ROWS, columns=["a", "b"]).astype("Int64"),
        lambda: pd.DataFrame(ROWS, columns=["a", "b"]).astype({"a": "float32"}),
        lambda: pd.DataFrame(ROWS),
    ],
    ids=range(17),
)
def test_tables_of_every_kind_train_the_same_trees(table):
    y = [row[0] > 3 for row in ROWS]
    plain = RandomForestClassifier(5, random_state=0).fit(ROWS, y)
    forest = RandomForestClassifier(5, random_state=0).fit(table(), y)
    assert (forest.predict_proba(table()) == plain.predict_proba(ROWS)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names
        assert (forest.predict_proba(ROWS) == plain.predict_proba(ROWS)).all()


@on_every_engine
def test_missing_values_of_every_kind_are_taken():
    y = [row[0] > 3 for row in ROWS]
    holes = [[None if i % 9 == 0 else a, b] for i, (a, b) in enumerate(ROWS)]
    nan = [[np.nan if a is None else a, b] for a, b in holes]
    first = RandomForestClassifier(5, random_state=0).fit(nan, y)
    for table in (
        holes,
        np.array(holes, object),
        pd.DataFrame(nan),
        pd.DataFrame(holes).astype("Float64"),
        pd.DataFrame(holes, dtype=object),
    ):
        other = RandomForestClassifier(5, random_state=0).fit(table, y)
        assert (other.predict_proba(table) == first.predict_proba(nan)).all()


@on_every_engine
def test_categories_by_name_number_boolean_or_type():
    X, _ = frame(300)
    y = (X.room == "attic") & (X.day != "sun")
    as_type = RandomForestClassifier(5, random_state=0, max_features=None).fit(X, y)
    values = X.astype(object).where(X.notna(), None).to_numpy()
    for given, table in (
        (["room", "day"], X),
        ([1, 2], X),
        ([False, True, True, False], X),
        ([1, 2], values),
        (np.array([1, 2]), values.tolist()),
    ):
        other = RandomForestClassifier(
            5, random_state=0, max_features=None, categorical_features=given
        ).fit(table, y)
        assert (other.predict_proba(table) == as_type.predict_proba(X)).all()
    strange = X.assign(room="garage", day=None)
    assert as_type.predict_proba(strange).shape == (300, 2)  # unknown categories are missing
    assert as_type.score(X, y) > 0.95


def test_refusals_are_one_sentence():
    from scipy.sparse import csr_matrix

    X, y = np.array(ROWS), [row[0] > 3 for row in ROWS]
    fit = RandomForestClassifier(3).fit
    for call, error, said in (
        (lambda: fit(csr_matrix(X), y), TypeError, "Sparse"),
        (lambda: fit(X * 1j, y), ValueError, "Complex"),
        (lambda: fit(X / [np.inf, 1], y), None, None),
        (lambda: fit(np.where(X == 0, np.inf, X), y), ValueError, "infinity"),
        (lambda: fit(X * 1e39, y), ValueError, "too large"),
        (lambda: fit([["a", 1]] * 4, [0, 1, 0, 1]), ValueError, "categorical_features"),
        (lambda: fit([[1, 2], [3]], [0, 1]), ValueError, "same number of values"),
        (lambda: fit(X, y[:-1]), ValueError, "140.*139"),
        (lambda: fit(X, None), ValueError, "target y is None"),
        (lambda: fit(X, np.arange(140) + 0.5), ValueError, "continuous"),
        (lambda: fit(X, [None, *y[1:]]), ValueError, "missing"),
        (lambda: fit(X, ["a", *y[1:]]), ValueError, "text"),
        (lambda: fit(X, y, -np.ones(140)), ValueError, "Negative"),
        (lambda: fit(X, y, np.full(140, np.nan)), ValueError, "NaN"),
        (lambda: fit(X.astype("datetime64[s]"), y), TypeError, "numbers"),
        (lambda: RandomForestClassifier(criterion="mse").fit(X, y), ValueError, "gini, entropy"),
        (lambda: RandomForestClassifier(max_features="all").fit(X, y), ValueError, "sqrt"),
        (lambda: RandomForestClassifier(max_samples=141).fit(X, y), ValueError, "max_samples"),
        (lambda: RandomForestClassifier(min_samples_leaf=1.5).fit(X, y), ValueError, "1.5"),
        (lambda: RandomForestClassifier(n_estimators=0).fit(X, y), ValueError, "n_estimators"),
        (lambda: RandomForestClassifier(n_estimators=None).fit(X, y), TypeError, "n_estimators"),
        (lambda: fit(X, [__import__("datetime").date(2026, 1, 1)] * 140), ValueError, "text"),
        (lambda: RandomForestClassifier(class_weight={"z": 2}).fit(X, y), ValueError, "'z'"),
        (lambda: RandomForestClassifier(random_state=-1).fit(X, y), ValueError, "random_state"),
        (lambda: RandomForestClassifier(categorical_features="a").fit(X, y), TypeError, "list"),
        (lambda: RandomForestClassifier(categorical_features=[7]).fit(X, y), ValueError, "7"),
        (lambda: ExtraTreesClassifier(oob_score=True).fit(X, y), ValueError, "bootstrap"),
        (lambda: RandomForestRegressor().fit(X, ["a"] * 140), ValueError, "numbers"),
        (lambda: RandomForestClassifier(tol=-1).fit(X, y), ValueError, "tol"),
        (lambda: RandomForestClassifier().set_params(trees=3), ValueError, "'trees'"),
        (lambda: RandomForestClassifier().predict(X), ValueError, "not fitted"),
    ):
        if error is None:
            call()
            continue
        with pytest.raises(error, match=said) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_failed_fit_leaves_the_forest_as_it_was():
    X, y = IRIS
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    before = forest.forest_.to_json()
    with pytest.raises(ValueError, match="infinity"):
        forest.fit(np.full((4, 4), np.inf), [0, 1, 0, 1])
    assert forest.forest_.to_json() == before


# ---- What comes out


def leaf_by_hand(forest, row, tree):
    """The nodes from the root to the leaf that a row reaches, by the definition of the format."""
    node = forest.roots[tree]
    path = [node]
    while forest.feature[node] != LEAF:
        f = forest.feature[node]
        x = np.float32(row[f & FEATURE])
        left = f & MISSING_LEFT if x != x else x <= forest.threshold[node]
        node = node + 1 if left else forest.right[node]
        path.append(node)
    return path


@on_every_engine
@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesRegressor])
def test_leaves_and_paths_are_those_of_the_rows(kind):
    X, y = DIABETES if kind.regression else IRIS
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    forest = kind(4, max_depth=4, random_state=0).fit(X, y)
    inner, leaves = forest.forest_, forest.apply(X)
    paths, begin = forest.decision_path(X)
    assert leaves.shape == (len(X), 4)
    assert paths.shape == (len(X), len(inner.feature))
    assert begin.tolist() == [*inner.roots, len(inner.feature)]
    for i in range(0, len(X), 7):
        nodes = [leaf_by_hand(inner, X[i], tree) for tree in range(4)]
        assert [path[-1] - inner.roots[t] for t, path in enumerate(nodes)] == leaves[i].tolist()
        assert sorted(paths[i].indices) == sorted(node for path in nodes for node in path)


@on_every_engine
@pytest.mark.parametrize("kind", ALL)
def test_the_forest_is_the_mean_of_its_trees(kind):
    X, y = DIABETES if kind.regression else IRIS
    forest = kind(6, random_state=0, max_depth=5).fit(X, y)
    trees = forest.estimators_
    assert len(trees) == 6
    if kind.regression:
        mean = np.mean([tree.predict(X) for tree in trees], axis=0)
        assert np.allclose(mean, forest.predict(X), rtol=1e-4)
    else:
        mean = np.mean([tree.predict_proba(X) for tree in trees], axis=0)
        assert np.allclose(mean, forest.predict_proba(X))
        assert (forest.classes_[mean.argmax(axis=1)] == forest.predict(X)).mean() > 0.99
        assert np.allclose(np.exp(forest.predict_log_proba(X)), forest.predict_proba(X))
    assert (np.transpose([tree.apply(X) for tree in trees]) == forest.apply(X)).all()
    assert all(tree.get_depth() <= 5 for tree in trees)
    assert sum(tree.node_count for tree in trees) == len(forest.forest_.feature)
    assert [t.get_n_leaves() for t in trees[1:3]] == [(t.node_count + 1) // 2 for t in trees[1:3]]
    assert forest.feature_importances_.sum() == pytest.approx(1)


@on_every_engine
def test_predictions_are_those_of_the_exported_model():
    X, y = DIABETES
    forest = RandomForestRegressor(6, random_state=0).fit(X, y)
    assert forest.predict(X).tolist() == edgeforest.load(forest.forest_.to_json()).predict(X)
    again = RandomForestRegressor.from_forest(edgeforest.load(forest.forest_.to_json()))
    assert (again.predict(X) == forest.predict(X)).all()
    with pytest.raises(ValueError, match="regression"):
        RandomForestClassifier.from_forest(forest.forest_)


# ---- Out of bag


@few_trees
@on_every_engine
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (RandomForestClassifier, {}),
        (RandomForestClassifier, {"max_samples": 0.5}),
        (RandomForestClassifier, {"class_weight": "balanced"}),
        (RandomForestClassifier, {"bootstrap": False, "max_samples": 0.6}),
        (RandomPatchesClassifier, {"alpha_n": 0.5}),
        (RandomForestRegressor, {}),
        (RandomPatchesRegressor, {"bootstrap": False}),
    ],
    ids=range(7),
)
def test_out_of_bag_is_the_answer_of_the_trees_that_did_not_draw_a_row(kind, options):
    """The oracle: the rows that the training itself draws, recorded while it runs."""
    X, y = DIABETES if kind.regression else IRIS
    drawn = []

    class Spy(core_pure.Grower):
        def close(self):
            if self.tree is not None:
                drawn.append({self.nodes.rows[i] for i in range(self.tree.end[0])})
            super().close()

    forest = kind(9, max_depth=4, random_state=3, oob_score=True, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core_pure.ENGINE, "grower", Spy)
        patch.setenv("EDGEFOREST_ENGINE", "pure")
        forest.fit(X, y)
    pure = forest.oob_score_
    forest.fit(X, y)
    assert forest.oob_score_ == pure
    assert len(drawn) == 9
    answers = []
    said = [t.predict(X) if kind.regression else t.predict_proba(X) for t in forest.estimators_]
    unknown = np.full_like(said[0][0], np.nan)
    for i in range(len(X)):
        of_trees = [tree[i] for tree, rows in zip(said, drawn, strict=True) if i not in rows]
        answers.append(np.mean(of_trees, axis=0) if of_trees else unknown)
    found = forest.oob_prediction_ if kind.regression else forest.oob_decision_function_
    assert np.allclose(found, answers, rtol=1e-4, equal_nan=True)


def test_the_out_of_bag_score_is_that_of_scikit_learn(figure):
    X, y = load_breast_cancer(return_X_y=True)
    differences = [
        RandomForestClassifier(60, oob_score=True, random_state=seed).fit(X, y).oob_score_
        - TheirClassifier(60, oob_score=True, random_state=seed).fit(X, y).oob_score_
        for seed in range(10)
    ]
    mean, error = np.mean(differences), np.std(differences, ddof=1) / np.sqrt(10)
    figure(f"ahead by {mean:+.4f} +- {error:.4f}")
    assert mean >= -2 * error


def test_the_out_of_bag_score_may_be_a_function_of_the_user():
    X, y = IRIS
    seen = {}

    def score(truth, guess):
        seen["truth"], seen["guess"] = truth, guess
        return 0.25

    forest = RandomForestClassifier(20, oob_score=score, random_state=0)
    assert forest.fit(X, np.array(["a", "b", "c"])[y]).oob_score_ == 0.25
    assert (seen["truth"] == np.array(["a", "b", "c"])[y]).all()
    assert (seen["truth"] == seen["guess"]).mean() > 0.9


# ---- Budget, progress, Ctrl-C


@on_every_engine
@pytest.mark.parametrize("kind", ALL)
def test_no_estimator_spends_more_than_its_budget(kind):
    X, y = DIABETES if kind.regression else IRIS
    for budget in (200, 3_000, Budget(insertions=777), Budget(insertions=5_000, seconds=60)):
        forest = kind(50, budget=budget, random_state=0).fit(X, y)
        limit = budget if isinstance(budget, int) else budget.insertions
        assert 0 < forest.spent_.insertions <= limit
        assert 1 <= len(forest.estimators_) <= 50
        assert forest.engine_ in edgeforest.engine.present()


@on_every_engine
def test_the_callback_sees_the_progress_and_may_end_the_training():
    X, y = IRIS
    seen = []

    def look(progress):
        seen.append((progress.trees, progress.spent.insertions, progress.seconds_left))
        assert progress.n_trees == 30
        assert progress.budget.insertions == 10_000_000
        return progress.trees == 4

    forest = RandomForestClassifier(30, callback=look, budget=10_000_000).fit(X, y)
    assert len(forest.estimators_) == 4
    assert [a for a, _, _ in seen] == sorted(a for a, _, _ in seen)
    assert seen[-1][1] == forest.spent_.insertions
    assert seen[-1][2] >= 0


@few_trees
@on_every_engine
def test_ctrl_c_keeps_the_complete_trees():
    X, y = IRIS

    def interrupt(progress):
        if progress.trees == 3:
            raise KeyboardInterrupt

    forest = RandomForestClassifier(30, callback=interrupt, random_state=0, oob_score=True)
    with pytest.warns(UserWarning, match="3 of 30 trees"):
        forest.fit(X, y)
    whole = RandomForestClassifier(30, random_state=0).fit(X, y)
    assert forest.forest_.feature == whole.forest_.feature[: whole.forest_.roots[3]]
    assert (forest.apply(X) == whole.apply(X)[:, :3]).all()

    def at_once(progress):
        raise KeyboardInterrupt

    if forest.engine_ == "pure":  # the first step of the others completes the first tree
        with pytest.raises(KeyboardInterrupt):
            RandomForestClassifier(30, callback=at_once).fit(X, y)


def test_verbose_shows_a_bar_of_tqdm_or_lines(capsys, monkeypatch):
    X, y = IRIS
    RandomForestClassifier(20, verbose=1, budget=1_000_000).fit(X, y)
    assert "\r" not in capsys.readouterr().err, "a file would keep every state of a bar"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    RandomForestClassifier(20, verbose=1, budget=1_000_000).fit(X, y)
    shown = capsys.readouterr().err
    assert "20/20" in shown
    assert "of 1M insertions" in shown
    monkeypatch.setitem(sys.modules, "tqdm", None)
    RandomForestClassifier(20, verbose=1, budget=1_000_000).fit(X, y)
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 10
    assert shown.splitlines()[-1].startswith("20 of 20 trees")
    assert "insertions" in shown
    RandomForestClassifier(20).fit(X, y)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("kind", [RandomForestClassifier, RandomForestRegressor])
def test_training_stops_when_the_score_has_stopped_growing(kind, figure):
    X, y = DIABETES if kind.regression else load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    scores = []
    options = {"max_depth": 6, "random_state": 0}
    forest = kind(
        120,
        tol=0.0,
        n_iter_no_change=8,
        callback=lambda p: scores.append((p.trees, p.score)),
        **options,
    ).fit(X, y)
    trees = len(forest.estimators_)
    assert 9 <= trees < 120
    by_trees = {count: score for count, score in scores if score is not None}
    same = kind(trees, oob_score=True, **options).fit(X, y)  # the score that decided
    assert same.forest_.feature == forest.forest_.feature
    before = [by_trees[t] for t in by_trees if t <= trees - 8]
    assert max(before) >= max(score for t, score in by_trees.items() if t > trees - 8)
    more = kind(120, oob_score=True, **options).fit(X, y)
    figure(
        f"{trees} of 120 trees, out of bag {same.oob_score_:.4f} instead of {more.oob_score_:.4f}"
    )
    assert same.oob_score_ > more.oob_score_ - 0.05


# ---- Going on


@few_trees
@on_every_engine
@pytest.mark.parametrize("kind", ALL)
def test_warm_start_grows_the_forest_that_all_trees_at_once_give(kind):
    X, y = DIABETES if kind.regression else IRIS
    y = y if kind.regression else np.array(["a", "b", "c"])[y]
    options = {"random_state": 5, "max_depth": 4, "bootstrap": True, "oob_score": True}
    steps = kind(3, warm_start=True, **options).fit(X, y)
    first = steps.forest_
    steps.set_params(n_estimators=9).fit(X, y)
    whole = kind(9, **options).fit(X, y)
    for name in ("roots", "feature", "threshold", "right", "votes", "classes", "scale"):
        assert getattr(steps.forest_, name) == getattr(whole.forest_, name), name
    assert len(first) == 3
    assert steps.oob_score_ == whole.oob_score_
    # The importances of each part are scaled to sum to one, then averaged.
    assert np.allclose(steps.feature_importances_, whole.feature_importances_, atol=0.01)
    with pytest.warns(UserWarning, match="without increasing"):
        steps.fit(X, y)
    with pytest.raises(ValueError, match="n_estimators=2"):
        steps.set_params(n_estimators=2).fit(X, y)


@on_every_engine
def test_a_budget_counts_all_trees_of_warm_starts():
    X, y = load_digits(return_X_y=True)
    forest = RandomForestClassifier(
        10, budget=100_000, max_depth=4, warm_start=True, random_state=0
    ).fit(X, y)
    once = forest.spent_.insertions
    assert once <= 100_000
    assert len(forest.estimators_) == 10
    forest.set_params(n_estimators=30, budget=300_000).fit(X, y)
    assert once < forest.spent_.insertions <= 300_000
    assert len(forest.estimators_) == 30
    forest.set_params(n_estimators=99, budget=forest.spent_.insertions)
    with pytest.raises(ValueError, match="raise it"):
        forest.fit(X, y)


def test_a_warm_start_with_new_labels_knows_all_of_them():
    X, y = IRIS
    forest = RandomForestClassifier(10, warm_start=True, random_state=0).fit(X[y < 2], y[y < 2])
    forest.set_params(n_estimators=20).fit(X[y > 0], y[y > 0])
    assert forest.classes_.tolist() == [0, 1, 2]
    assert forest.score(X, y) > 0.9


# ---- What is loaded


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_no_estimator_needs_scikit_learn_or_scipy():
    code = """
import sys
for name in ("sklearn", "scipy", "pandas", "joblib", "tqdm", "matplotlib"):
    sys.modules[name] = None
from edgeforest import ExtraTreesClassifier, RandomForestRegressor, permutation_importance
X, y = [[i % 7, i % 3] for i in range(60)], [i % 7 > 3 for i in range(60)]
forest = ExtraTreesClassifier(5, bootstrap=True, oob_score=True, verbose=1).fit(X, y)
print(forest.score(X, y), permutation_importance(forest, X, y).importances.shape)
print(RandomForestRegressor(5).fit(X, [row[0] for row in X]).prune(X, [r[0] for r in X], max_trees=2))
try:
    RandomForestRegressor().predict(X)
except ValueError as error:
    print(error)
try:
    forest.decision_path(X)
except ImportError as error:
    print(error)
"""
    done = run(code)
    assert not done.returncode, done.stderr
    assert done.stdout.splitlines() == [
        "1.0 (2, 5)",
        "RandomForestRegressor(n_estimators=5)",
        "This RandomForestRegressor instance is not fitted yet; call fit first",
        "decision_path needs SciPy: install it (pip install scipy)",
    ]


def test_without_numpy_estimators_raise_a_clear_error_and_the_rest_works():
    code = """
import sys
sys.modules["numpy"] = None
import edgeforest
print(len(edgeforest.merge([edgeforest.train([[0], [1]], [0, 1], n_trees=2)] * 2)))
try:
    from edgeforest import RandomForestClassifier
except ImportError as error:
    print(error)
"""
    done = run(code)
    assert not done.returncode, done.stderr
    assert done.stdout.splitlines() == [
        "4",
        "RandomForestClassifier needs NumPy: install it (pip install 'edgeforest[numpy]'), or use "
        "edgeforest.train, which needs nothing",
    ]


def test_importing_the_package_loads_no_numpy():
    done = run("import sys, edgeforest; print('numpy' in sys.modules, dir(edgeforest))")
    assert done.stdout.startswith("False")
    assert "RandomForestClassifier" in done.stdout


# ---- Learning row by row


@pytest.mark.parametrize("kind", ALL)
def test_partial_fit_learns_what_fit_learns(kind, figure):
    X, y = (load_diabetes if kind.regression else load_breast_cancer)(return_X_y=True)
    train_X, test_X, train_y, test_y = train_test_split(X, y, random_state=0)
    whole = kind(n_estimators=12, random_state=0).fit(train_X, train_y).score(test_X, test_y)
    bits = kind(n_estimators=12, random_state=0)
    for _ in range(4):
        for part in np.array_split(np.arange(len(train_y)), 5):
            assert bits.partial_fit(train_X[part], train_y[part]) is bits
    assert len(bits.forest_) == 12
    figure(f"{bits.score(test_X, test_y):.3f}, fit {whole:.3f}")
    assert bits.score(test_X, test_y) > whole - (0.2 if kind.regression else 0.06)


def test_partial_fit_continues_from_fit_and_fit_starts_again():
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(10, random_state=1).fit(X, y)
    before = forest.predict(X)
    forest.partial_fit(X[:3], y[:3])
    assert (forest.predict(X) == before).mean() > 0.98
    for _ in range(40):  # the labels change
        forest.partial_fit(X, (y + 1) % 3)
    assert forest.score(X, (y + 1) % 3) > 0.9
    again = pickle.loads(pickle.dumps(forest))
    assert (again.predict(X) == forest.predict(X)).all()
    assert again.partial_fit(X, y).forest_ is not None
    fresh = RandomForestClassifier(10, random_state=1).fit(X, y)
    assert forest.fit(X, y).forest_.to_json() == fresh.forest_.to_json()
    one, two = forest.partial_fit(X, y), fresh.partial_fit(X, y)
    assert one.forest_.to_json() == two.forest_.to_json()


def test_partial_fit_takes_frames_and_new_classes():
    X, y = frame(900)
    labels = np.where(y > np.median(y), "high", "low")
    forest = RandomForestClassifier(10, random_state=0)
    forest.partial_fit(X[:300], labels[:300], classes=["high", "low", "never"])
    assert forest.classes_.tolist() == ["high", "low", "never"]
    assert forest.feature_names_in_.tolist() == list(X.columns)
    for part in range(300, 900, 100):
        forest.partial_fit(X[part : part + 100], labels[part : part + 100])
    assert forest.score(X, labels) > 0.8
    forest.partial_fit(X[:50], ["other"] * 50)
    assert forest.classes_.tolist() == ["high", "low", "never", "other"]
    assert forest.predict_proba(X).shape == (900, 4)
    with pytest.raises(ValueError, match="feature names"):
        forest.partial_fit(X[X.columns[::-1]], labels)
    with pytest.raises(ValueError, match="features, but RandomForestClassifier is expecting"):
        RandomForestClassifier(3).partial_fit([[1, 2]], [0]).partial_fit([[1]], [0])


@pytest.mark.parametrize(
    "options",
    [{"splitter": "exact"}, {"oob_score": True}, {"tol": 0.1}, {"class_weight": "balanced"}],
    ids=str,
)
def test_what_needs_all_rows_is_refused_by_partial_fit(options):
    with pytest.raises(ValueError, match="needs all rows at once: use fit"):
        RandomForestClassifier(3, **options).partial_fit([[1], [2]], [0, 1])
