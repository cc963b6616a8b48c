"""The linear model beside the trees of an online forest."""

import pytest
from compared import ENGINES

from edgeforest import Budget, OnlineForest, Rng

ENGINES = [name for name in ENGINES if name != "numpy"]


def sums(n, seed=1, missing=0.0):
    """Whether eight numbers and a category add up to much."""
    rng = Rng(seed, 5)
    rows, labels = [], []
    for _ in range(n):
        row = [rng.unit() * 10 - 3 for _ in range(8)] + ["abc"[rng.below(3)]]
        total = sum(row[:8]) + {"a": 0, "b": 6, "c": 12}[row[8]]
        labels.append("low" if total < 18 else "high" if total > 26 else "middle")
        rows.append([None if rng.unit() < missing else v for v in row])
    return rows, labels


def learned(rows, labels, **options):
    learner = OnlineForest(9, categorical=[8], **{"n_trees": 4, **options})
    return learner, learner.update_batch(rows, labels)


def test_a_sum_of_features_is_learned_and_the_trees_stay_the_same():
    rows, labels = sums(3000)
    both, _ = learned(rows, labels)
    alone, _ = learned(rows, labels, linear=False)
    assert both.answered_by == "linear"
    assert alone.answered_by == "trees"
    assert both.recent_error < 0.5 * alone.recent_error
    assert both.forest().to_json() == alone.forest().to_json()


def test_where_trees_are_better_they_answer():
    rng = Rng(3)
    rows = [[rng.unit(), rng.unit()] for _ in range(3000)]
    labels = [(row[0] > 0.5) ^ (row[1] > 0.5) for row in rows]
    errors = {}
    for linear in (None, False):
        learner = OnlineForest(2, linear=linear)
        learner.update_batch(rows, labels)
        errors[linear] = learner.recent_error
    assert errors[None] <= errors[False] + 0.01


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_engines_agree_on_every_answer(missing):
    rows, labels = sums(1500, 2, missing)
    answers = []
    for engine in ENGINES:
        learner, said = learned(rows[:1200], labels[:1200], engine=engine)
        shares = learner.predict_proba(rows[1200:])
        answers.append((said, shares, learner.predict(rows[1200:]), learner.answered_by))
    assert answers[0] == answers[-1]
    assert answers[0][3] != "trees"


def test_numbers_of_any_size_and_infinite_ones_do_no_harm():
    rng = Rng(4)
    rows = [[rng.unit() * 6e38 - 3e38, rng.unit() * 1e-38, 7.0] for _ in range(600)]
    labels = [row[0] > 0 for row in rows]
    said = []
    for engine in ENGINES:
        learner = OnlineForest(3, engine=engine, n_trees=3, linear=True)
        said.append(learner.update_batch(rows, labels))
        said[-1] += learner.predict([[float("inf"), float("-inf"), None], rows[0]])
    assert said[0] == said[-1]
    assert learner.recent_error < 0.1


@pytest.mark.parametrize("engine", ENGINES)
def test_many_rows_get_the_answers_of_single_rows(engine):
    rows, labels = sums(1600)
    learner, _ = learned(rows, labels, engine=engine)
    assert learner.answered_by != "trees"
    assert learner.predict(rows) == [learner.predict(row) for row in rows]
    forest = learner.forest()
    assert learner.predict(rows) != forest.predict(rows)  # the forest has the trees alone
    shares = learner.predict_proba(rows[0])
    assert learner.classes[shares.index(max(shares))] == learner.predict(rows[0])


def test_it_learns_again_from_the_window_after_a_break(tmp_path):
    rows, labels = sums(4000)
    learner, _ = learned(rows[:3000], labels[:3000])
    learner.save(tmp_path / "model.json")
    again = OnlineForest.load(tmp_path / "model.json")
    assert again.answered_by == "trees"  # until the linear model was better
    again.update_batch(rows[3000:], labels[3000:])
    assert again.answered_by == "linear"
    assert again.options == learner.options


def test_small_budgets_regressions_and_whoever_says_so_do_without():
    rows, labels = sums(300)
    small = {"n_trees": 2, "window": 50, "max_leaf_nodes": 16}
    for options, inputs in (
        ({}, 1 + 8 + 32),
        ({"linear": False}, 0),
        ({"budget": Budget(bytes=90_000)}, 0),
        ({"budget": Budget(bytes=90_000), "linear": True}, 1 + 8 + 32),
    ):
        learner, _ = learned(rows, labels, **{**small, **options})
        assert learner._grove.plan.inputs == inputs
        assert learner.bytes <= options.get("budget", Budget(bytes=16_000_000)).bytes
    learner, _ = learned(rows, [float(row[0]) for row in rows], criterion="mse", **small)
    assert learner._grove.plan.inputs == 0
    assert learner.answered_by == "trees"
