"""The budget is hard: nothing is inserted that was not granted, and what is reported is what was done."""

import itertools
import random
import tracemalloc
from functools import cache

import pytest
from counting import counting_training
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeforest import Budget, RandomForestClassifier, budget, train, train_steps

on_every_engine = pytest.mark.usefixtures("engine")

KINDS = ("random-forest", "extra-trees", "random-patches")
SPLITTERS = ("mab", "mab-paper", "exact")
CRITERIA = ("gini", "entropy", "mse")


def make_rows(n, seed, missing=True):
    """Four numbers and a category, some missing, with a target that depends on three of them."""
    rng = random.Random(seed)
    rows = []
    values = []
    for _ in range(n):
        row = [rng.random(), rng.gauss(0, 1), float(rng.randrange(5)), rng.random()]
        kind = rng.choice(["a", "b", "c"])
        values.append(row[0] * 2 + row[1] + (kind == "b") + rng.gauss(0, 0.3))
        if missing and rng.random() < 0.2:
            row[rng.randrange(4)] = float("nan")
        rows.append([*row, kind])
    return rows, values


ROWS, VALUES = make_rows(1300, 1)  # more than a node that is counted whole: races happen


@settings(max_examples=70, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    splitter=st.sampled_from(SPLITTERS),
    criterion=st.sampled_from(CRITERIA),
    limit=st.one_of(st.integers(1, 200), st.integers(200, 20_000), st.integers(20_000, 200_000)),
    n=st.integers(2, 1300),
    n_trees=st.integers(1, 6),
    max_depth=st.one_of(st.none(), st.integers(0, 6)),
    max_leaf_nodes=st.one_of(st.none(), st.integers(2, 9)),
    weighted=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_never_one_insertion_over_and_the_count_is_true(
    kind, splitter, criterion, limit, n, n_trees, max_depth, max_leaf_nodes, weighted, seed
):
    rows = ROWS[:n]
    y = VALUES[:n] if criterion == "mse" else [int(v > 1) + int(v > 2) for v in VALUES[:n]]
    training, made = counting_training(
        rows,
        y,
        kind=kind,
        splitter=splitter,
        criterion=criterion,
        budget=limit,
        n_trees=n_trees,
        max_depth=max_depth,
        max_leaf_nodes=max_leaf_nodes,
        sample_weight=[1.0 + i % 3 for i in range(n)] if weighted else None,
        categorical=[4],
        seed=seed,
    )
    for _ in training:
        pass
    forest = training.forest()
    assert sum(nodes.insertions for nodes in made) == forest.spent.insertions
    assert forest.spent.insertions <= limit
    assert 1 <= len(forest) <= n_trees
    predictions = forest.predict(rows[:20])
    if criterion == "mse":
        assert all(min(y) - 1e-4 <= p <= max(y) + 1e-4 for p in predictions)
    else:
        assert set(predictions) <= set(y)
        for shares in forest.predict_proba(rows[:20]):
            assert sum(shares) == pytest.approx(1.0, abs=1e-12)


@cache
def trained_without_a_limit(**options):
    """A forest of three trees: the same from every engine, so that the first one asked will do."""
    y = VALUES if options["criterion"] == "mse" else [int(v > 1) for v in VALUES]
    return y, train(ROWS, y, **THREE_TREES, **options)


THREE_TREES = {"n_trees": 3, "max_depth": 5, "categorical": [4]}


@on_every_engine
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_budget_that_is_not_reached_changes_nothing(kind, splitter, criterion):
    options = {"kind": kind, "splitter": splitter, "criterion": criterion}
    y, free = trained_without_a_limit(**options)
    rich = train(ROWS, y, budget=100 * free.spent.insertions, **THREE_TREES, **options)
    assert rich.spent.insertions == free.spent.insertions
    assert rich.feature.tolist() == free.feature.tolist()
    assert rich.threshold.tolist() == free.threshold.tolist()
    assert rich.votes.tolist() == free.votes.tolist()


@cache
def insertions_without_a_limit(splitter):
    """What ten trees cost: the same on every engine, so that the first one asked will do."""
    y = [int(v > 1) for v in VALUES]
    return train(ROWS, y, splitter=splitter, categorical=[4], n_trees=10).spent.insertions


@on_every_engine
@pytest.mark.parametrize("splitter", SPLITTERS)
def test_most_of_a_short_budget_is_put_to_use(splitter):
    y = [int(v > 1) for v in VALUES]
    need = insertions_without_a_limit(splitter)
    forest = train(
        ROWS, y, splitter=splitter, categorical=[4], n_trees=10, budget=need // 3, max_depth=6
    )
    assert 0.5 * (need // 3) < forest.spent.insertions <= need // 3
    majority = max(y.count(0), y.count(1)) / len(y)
    hits = sum(p == label for p, label in zip(forest.predict(ROWS), y, strict=True)) / len(y)
    assert hits > majority + 0.05


@on_every_engine
def test_one_budget_object_serves_many_trainings():
    budget = Budget(insertions=3000)
    y = [int(v > 1) for v in VALUES]
    first = train(ROWS, y, budget=budget, categorical=[4])
    second = train(ROWS, y, budget=budget, categorical=[4])
    assert budget.spent.insertions == 0
    assert 0 < first.spent.insertions == second.spent.insertions <= 3000


@on_every_engine
@pytest.mark.parametrize("seconds", [0.05, 0.4])
def test_time_is_up_means_stop(seconds):
    y = [int(v > 1) for v in VALUES]
    forest = train(
        ROWS, y, budget=Budget(seconds=seconds), n_trees=4096, categorical=[4], splitter="exact"
    )
    assert 1 <= len(forest) < 4096
    assert forest.predict(ROWS[0]) in (0, 1)


@pytest.mark.parametrize("engine", ["pure", "numpy"])  # native asks the clock of the machine
def test_time_is_shared_out_among_the_trees(engine, monkeypatch):
    clock = itertools.count()  # a millisecond passes between two looks
    monkeypatch.setattr(budget, "_ticks", lambda: next(clock))
    y = [int(v > 1) for v in VALUES]

    def grown(seconds):
        limit = Budget(seconds=seconds)
        return train(ROWS, y, budget=limit, n_trees=5, categorical=[4], engine=engine)

    whole = grown(3600)
    short = grown(whole.spent.seconds / 2)
    assert len(whole) == len(short) == 5
    assert 5 <= len(short.feature) < len(whole.feature)


@on_every_engine
@pytest.mark.parametrize(
    ("criterion", "options"),
    [
        ("gini", {}),
        # The deeper the trees, the more room is left between the peak and what is announced.
        ("gini", {"max_depth": 4, "kind": "extra-trees"}),
        ("entropy", {"max_depth": 4, "kind": "random-patches", "class_weight": "balanced"}),
        ("mse", {"max_depth": 4}),
        ("mse", {"max_depth": 2, "splitter": "mab-paper"}),
    ],
)
def test_working_memory_stays_below_what_was_announced(criterion, options):
    rows, values = make_rows(1200, 2)
    y = values if criterion == "mse" else [int(v > 1) + int(v > 2) for v in values]
    options = {"criterion": criterion, "categorical": [4], "n_trees": 2, **options}
    train(rows[:50], y[:50], **options)  # imports what it needs
    largest = 0
    tracemalloc.start()
    try:
        for step in train_steps(rows, y, **options):
            tree = getattr(step.trees, "tree", None)  # in C if it is native
            growing = len(tree.feature) if tree else 0
            largest = max(largest, step.working_bytes(len(step.grown.feature), growing))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= largest


@on_every_engine
@pytest.mark.parametrize("spare", [0, 200, 1000, 5000, 50_000])
def test_the_budget_in_bytes_limits_the_nodes(spare):
    y = [int(v > 1) for v in VALUES]
    options = {"categorical": [4], "n_trees": 10}
    least = train_steps(ROWS, y, **options).working_bytes(0, 3)
    forest = train(ROWS, y, budget=Budget(bytes=least + spare), **options)
    training = train_steps(ROWS, y, **options)
    assert training.working_bytes(len(forest.feature), 0) <= least + spare
    assert forest.predict(ROWS[0]) in (0, 1)


@on_every_engine
def test_too_few_bytes_are_refused_before_anything_is_read():
    y = [int(v > 1) for v in VALUES]
    with pytest.raises(ValueError, match=r"^bytes must be at least \d+, .* got 1000"):
        train_steps(ROWS, y, budget=Budget(bytes=1000), categorical=[4])


@on_every_engine
@pytest.mark.parametrize("limit", [1 << 62, 1 << 70, 10**40])
def test_limits_beyond_all_reason_are_no_limits(limit):
    y = [int(v > 1) for v in VALUES]
    options = {"categorical": [4], "n_trees": 2, "max_depth": 3}
    free = train(ROWS, y, **options)
    rich = train(ROWS, y, budget=Budget(limit, 1e200, limit), **options)
    assert rich.feature == free.feature
    assert rich.spent.insertions == free.spent.insertions


@pytest.mark.parametrize("unit", ["insertions", "seconds", "bytes"])
@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), float("-inf"), 1e-9])
def test_a_limit_that_is_none_is_refused_in_a_sentence(unit, wrong):
    with pytest.raises(
        (TypeError, ValueError), match=rf"^budget in {unit} must be .*; leave it out"
    ):
        Budget(**{unit: wrong})


@pytest.mark.parametrize("budget", [1000, Budget(1000), Budget(seconds=5), Budget(1, 1, 10**7)])
def test_partial_fit_refuses_a_budget_that_it_cannot_keep(budget):
    model = RandomForestClassifier(5, budget=budget)
    with pytest.raises(
        ValueError,
        match=r"^budget must have bytes only for partial_fit, which never ends, got .*(1000|seconds)",
    ):
        model.partial_fit([[1], [2]], [0, 1])


def test_partial_fit_takes_a_budget_in_bytes_and_counts_its_rows():
    model = RandomForestClassifier(5, budget=Budget(bytes=400_000))
    for _ in range(3):
        model.partial_fit([row[:4] for row in ROWS], [int(v > 1) for v in VALUES])
    assert model.spent_.rows_read == 3 * len(ROWS)
