"""`tune`: parameters that the out-of-bag rows of small forests ask for, within a hard budget."""

import numpy as np
import pytest

import edgeforest
from edgeforest import (
    Budget,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomPatchesClassifier,
    tune,
)


def noisy(n: int = 1200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes told by one of six features, every fourth label wrong."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 6)).astype(np.float32)
    y = (X[:, 0] > 0.5) ^ (rng.random(n) < 0.25)
    return X, np.where(y, "yes", "no")


def test_wrong_labels_ask_for_larger_leaves_and_more_features() -> None:
    X, y = noisy()
    fresh, truth = noisy(4000, 1)
    plain = RandomForestClassifier(60, random_state=0)
    found = tune(plain, X, y)
    assert found.parameters["min_samples_leaf"] > 1
    assert found.model.min_samples_leaf == found.parameters["min_samples_leaf"]
    assert not hasattr(found.model, "forest_")
    gained = found.model.fit(X, y).score(fresh, truth) - plain.fit(X, y).score(fresh, truth)
    assert gained > 0.005
    best = max(found.trials, key=lambda trial: trial.score)
    assert best.score > found.trials[0].score
    assert found.trials[0].parameters == {}


def test_what_makes_no_difference_stays_as_it_is() -> None:
    X = np.repeat(noisy()[0][:, :1], 6, axis=1)  # whichever feature a node draws
    y = X[:, 0] > 0.5
    model = RandomForestClassifier(30, random_state=0, max_depth=16)
    found = tune(model, X, y, n_trees=20)
    assert found.parameters == {}
    assert found.model is not model
    assert found.model.get_params() == model.get_params()
    assert {"max_depth": 16} not in [trial.parameters for trial in found.trials]


@pytest.mark.parametrize("budget", [200, 20_000, 300_000])
def test_all_trials_together_keep_the_budget(budget: int) -> None:
    X, y = noisy()
    found = tune(RandomForestClassifier(random_state=0), X, y, budget=budget)
    assert 0 < found.insertions <= budget
    assert all(trial.insertions <= budget // len(found.trials) for trial in found.trials)


def test_without_a_budget_trees_have_the_share_that_fit_gives_them() -> None:
    X, y = noisy()
    model = RandomForestClassifier(100, budget=Budget(insertions=100_000), random_state=0)
    found = tune(model, X, y, n_trees=20)
    assert all(trial.insertions <= 20_000 for trial in found.trials)
    assert found.model.budget is model.budget


def test_regressions_without_a_bootstrap_and_patches() -> None:
    X, _ = noisy(400)
    y = X[:, 0] + np.random.default_rng(2).normal(0, 0.5, len(X))
    found = tune(ExtraTreesRegressor(30, random_state=0), X, y, n_trees=20)
    assert found.parameters["min_samples_leaf"] > 1
    assert found.model.bootstrap is None
    X, labels = noisy(300)
    patches = tune(RandomPatchesClassifier(10, random_state=0), X, labels, n_trees=10)
    assert len(patches.trials) == 10


def test_the_same_seed_finds_the_same() -> None:
    X, y = noisy(400)
    weights = np.ones(len(X))
    one, two = (
        tune(RandomForestClassifier(10, random_state=np.random.RandomState(4)), X, y, n_trees=10,
             sample_weight=weights)
        for _ in range(2)
    )  # fmt: skip
    assert one.trials == two.trials
    assert one.parameters == two.parameters


def test_what_is_wrong_is_one_sentence() -> None:
    X, y = noisy(100)
    with pytest.raises(ValueError, match=r"^n_trees must be from 2 to 4096, got 1$"):
        tune(RandomForestRegressor(), X, y, n_trees=1)
    with pytest.raises(ValueError, match=r"budget|insertions"):
        tune(RandomForestClassifier(), X, y, budget=0)
    with pytest.raises(ValueError, match=r"^budget must be at least one insertion for each of 10 "):
        tune(RandomForestClassifier(), X, y, budget=9)
    assert edgeforest.tune is tune
