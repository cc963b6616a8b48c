"""Smaller forests: not one vote changes unless asked; leaves that share votes are no trouble."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from edgeforest import (
    Forest,
    RandomForestClassifier,
    engine,
    explain,
    export_text,
    load,
    merge,
    prune,
    train,
)
from edgeforest.export import shrinking
from edgeforest.export.shrinking import Shrinkage, shrink
from edgeforest.forest import EQUAL, FEATURE, HUGE, LEAF, MISSING_LEFT
from edgeforest.forests.merging import append, keep

on_every_engine = pytest.mark.usefixtures("engine")
NAN = float("nan")
KINDS = ["red", "green", "blue", "grey"]


def make_rows(n: int, seed: int) -> list[list[Any]]:
    """Two numbers, a category, a whole number; some are missing."""
    rng = random.Random(seed)
    rows: list[list[Any]] = []
    for _ in range(n):
        row = [rng.gauss(0, 1), rng.random(), rng.choice(KINDS), rng.randrange(5)]
        if rng.random() < 0.3:
            row[rng.randrange(4)] = None
        rows.append(row)
    return rows


def answer(row: list[Any]) -> int:
    return ((row[0] or 0) > 0.2) + 2 * (row[2] == "red") + ((row[3] or 0) > 2)


ROWS = make_rows(300, 1)
CLASSES = [f"class {answer(row)}" for row in ROWS]
VALUES = [answer(row) + 0.1 * (row[1] or 0) for row in ROWS]
FRESH = [*make_rows(200, 2), [None] * 4, [1e38, -1e38, "violet", 0]]


def fit(regression: bool = False, **options: Any) -> Forest:
    """A forest that predicts by the engine of the test; who trains it makes no difference."""
    return load(trained(regression, **options))


@cache
def trained(regression: bool, **options: Any) -> str:
    options = {"n_trees": 6, "categorical": [2], "seed": 1, **options}
    if regression:
        return train(ROWS, VALUES, criterion="mse", **options).to_json()
    return train(ROWS, CLASSES, **options).to_json()


def beside(forest: Forest) -> list[list[Any]]:
    """Rows on thresholds and one float32 beside, whatever the other values are."""
    rng = random.Random(3)
    rows = []
    for f, t in zip(forest.feature, forest.threshold, strict=True):
        if f == LEAF or f & EQUAL or abs(t) >= HUGE:
            continue
        for side in (-np.inf, None, np.inf):
            row = list(rng.choice(FRESH))
            row[f & FEATURE] = t if side is None else float(np.nextafter(np.float32(t), side))
            rows.append(row)
    return rows


def votes(forest: Forest, rows: list[list[Any]]) -> list[list[int]]:
    """The summed votes of each row, by the pure engine."""
    found = []
    for row in rows:
        out = [0] * forest.n_votes
        Forest.predict_into(forest, forest.encode(row), out)
        found.append(out)
    return found


def grow(nodes: list[tuple[Any, ...]], classes: Any = ("a", "b"), categories: Any = None) -> Forest:
    """A forest of one tree: (feature, threshold, right), or (votes,) for a leaf."""
    forest: Forest = engine.with_predictor(Forest())
    forest.kind, forest.splitter, forest.seed = "random-forest", "exact", 0
    forest.classes = list(classes) if classes else None
    forest.criterion = "gini" if classes else "mse"
    forest.names = ["x", "y"]
    forest.categories = categories or [None, None]
    forest.importances = [500000, 500000]
    forest.scale, forest.low, forest.span = 100, 0.0, 0.0 if classes else 1.0
    forest.roots.append(0)
    for node in nodes:
        leaf = len(node) == 1
        forest.feature.append(LEAF if leaf else node[0])
        forest.threshold.append(0.0 if leaf else node[1])
        width = len(node[0]) if leaf else 1
        forest.right.append(len(forest.votes) // width if leaf else node[2])
        forest.votes.extend(node[0] if leaf else ())
    forest.prepare()
    return forest


# ---- No vote changes


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kind": "extra-trees"},
        {"max_depth": 3},
        {"n_trees": 1},
        {"min_samples_leaf": 20},
        {"max_depth": 0},
    ],
)
def test_no_vote_changes(regression: bool, options: dict[str, Any]) -> None:
    forest = fit(regression, **options)
    text = forest.to_json()
    small, report = shrink(forest, FRESH)
    rows = FRESH + beside(forest)
    assert votes(small, rows) == votes(forest, rows)
    assert small.predict(rows) == forest.predict(rows)
    assert report.changed == 0
    assert report.rows == len(FRESH)
    assert report.bytes_after == len(small.to_json()) <= report.bytes_before
    assert (report.nodes_after, report.votes_after) == (len(small.feature), len(small.votes))
    assert forest.to_json() == text  # the given one is as it was
    again = load(small.to_json())
    assert again.to_json() == small.to_json()
    assert again.predict(rows) == forest.predict(rows)
    once_more, report = shrink(small)
    assert once_more.to_json() == small.to_json()  # nothing is left to do
    assert report.rows == report.changed == 0


def test_distinct_leaves_store_their_votes_once(figure: Callable[[str], None]) -> None:
    forest = fit(n_trees=20)
    small, report = shrink(forest, ROWS)
    stored = [tuple(small.votes[i : i + 5]) for i in range(0, len(small.votes), 5)]
    assert small.n_votes == 5
    assert len(stored) == len(set(stored))
    assert sorted({small.right[i] for i, f in enumerate(small.feature) if f == LEAF}) == list(
        range(len(stored))
    )
    assert report.votes_after < report.votes_before / 4
    assert report.bytes_after < 0.8 * report.bytes_before
    figure(str(report))


@on_every_engine
def test_random_trees_of_tests_that_repeat_each_other() -> None:
    """Trees with few thresholds and deep nesting: most of their tests cannot go both ways."""
    rng = random.Random(5)
    values = [-1.0, 0.0, 1.0, 2.0]
    grid = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, NAN, float("inf"), -float("inf")]
    kinds: list[Any] = ["p", "q", "r"]
    rows = [[x, k] for x in grid for k in [*kinds, "s", None]]
    shorter = 0
    for _ in range(60):
        nodes: list[tuple[Any, ...]] = []

        def build(depth: int, nodes: list[tuple[Any, ...]] = nodes) -> None:
            here = len(nodes)
            if depth == 0 or rng.random() < 0.1:
                share = rng.choice([0, 50, 100])
                nodes.append(((share, 100 - share),))
                return
            nodes.append(())
            build(depth - 1)
            right = len(nodes)
            build(depth - 1)
            flag = rng.choice([0, MISSING_LEFT])
            if rng.random() < 0.5:
                nodes[here] = (0 | flag, rng.choice([*values, HUGE]), right)
            else:
                nodes[here] = (1 | flag | EQUAL, float(rng.randrange(4)), right)

        build(7)
        forest = grow(nodes, categories=[None, kinds])
        small, report = shrink(forest, rows)
        assert votes(small, rows) == votes(forest, rows)
        assert small.predict(rows) == forest.predict(rows)
        assert shrink(small)[0].to_json() == small.to_json()
        shorter += report.nodes_after < report.nodes_before
    assert shorter > 40


@pytest.mark.parametrize(
    ("nodes", "left"),
    [
        # Leaves that vote alike are one, and so on upwards.
        ([(0, 1.0, 4), (0, 0.0, 3), ((1, 9),), ((1, 9),), ((1, 9),)], 1),
        # x <= 1 within x <= 0: missing values come left too.
        (
            [
                (MISSING_LEFT, 0.0, 4),
                (MISSING_LEFT, 1.0, 3),
                ((1, 9),),
                ((9, 1),),
                ((5, 5),),
            ],
            3,
        ),
        # The same, but here missing values still part ways.
        ([(MISSING_LEFT, 0.0, 4), (0, 1.0, 3), ((1, 9),), ((9, 1),), ((5, 5),)], 5),
        # x <= 0 where x > 1 and nothing is missing.
        ([(MISSING_LEFT, 1.0, 2), ((5, 5),), (0, 0.0, 4), ((1, 9),), ((9, 1),)], 3),
        # x <= 0 where x > 1, and missing values go left.
        ([(0, 1.0, 2), ((5, 5),), (MISSING_LEFT, 0.0, 4), ((1, 9),), ((9, 1),)], 5),
        # Both sides are the same subtree.
        (
            [
                (0, 1.0, 4),
                (1, 0.0, 3),
                ((1, 9),),
                ((9, 1),),
                (1, 0.0, 6),
                ((1, 9),),
                ((9, 1),),
            ],
            3,
        ),
    ],
)
def test_splits_that_decide_nothing_are_left_out(nodes: list[tuple[Any, ...]], left: int) -> None:
    forest = grow(nodes)
    small, _ = shrink(forest)
    assert len(small.feature) == left
    rows = [[x, y] for x in (-1.0, 0.0, 0.5, 1.0, 2.0, NAN) for y in (-1.0, 0.0, 1.0, NAN)]
    assert votes(small, rows) == votes(forest, rows)


@pytest.mark.parametrize("outer", [0, MISSING_LEFT])
@pytest.mark.parametrize("inner", [0, MISSING_LEFT])
@pytest.mark.parametrize(
    ("low", "high", "left"),
    [
        ((1, 9), (9, 1), 3),  # one threshold tells them apart
        ((9, 1), (1, 9), 5),  # a band in the middle: it takes two
    ],
)
@pytest.mark.parametrize("downwards", [True, False])
def test_two_tests_of_a_number_become_one(
    outer: int, inner: int, low: Any, high: Any, left: int, downwards: bool
) -> None:
    """x <= 1 with x <= 0 on its left, or x <= 0 with x <= 1 on its right."""
    ends: tuple[Any, Any] = ((1, 9),), ((9, 1),)
    if downwards:
        nodes = [(outer, 1.0, 4), (inner, 0.0, 3), (low,), (high,), ends[1]]
    else:
        nodes = [(outer, 0.0, 2), ends[0], (inner, 1.0, 4), (low,), (high,)]
    forest = grow(nodes)
    small, _ = shrink(forest)
    assert len(small.feature) == left
    rows = [[x, 0.0] for x in (-1.0, 0.0, 0.5, 1.0, 2.0, NAN)]
    assert votes(small, rows) == votes(forest, rows)


def test_steps_of_a_number_become_one_test() -> None:
    nodes: list[tuple[Any, ...]] = [(0, float(9 - i), 20 - i) for i in range(10)]
    forest = grow([*nodes, ((1, 9),), *[((9, 1),)] * 10])
    small, _ = shrink(forest)
    assert (small.feature.tolist(), small.threshold[0]) == ([0, LEAF, LEAF], 0.0)
    rows = [[float(x), 0.0] for x in range(-1, 12)]
    assert votes(small, rows) == votes(forest, rows)


def test_categories_that_were_asked_for_already() -> None:
    red_or_missing = MISSING_LEFT | EQUAL
    nodes: list[tuple[Any, ...]] = [
        (red_or_missing, 1.0, 2),
        ((5, 5),),
        (EQUAL, 1.0, 4),  # it is not red, and not missing
        ((1, 9),),
        (EQUAL, 2.0, 6),
        ((2, 8),),
        ((3, 7),),
    ]
    forest = grow(nodes, categories=[["red", "green"], None])
    small, _ = shrink(forest)
    assert len(small.feature) == 5
    rows = [[kind, 0.0] for kind in ("red", "green", "blue", None)]
    assert small.predict_proba(rows) == forest.predict_proba(rows)


def test_unused_nodes_and_votes_go() -> None:
    forest = grow([((1, 9),), ((9, 1),), (0, 1.0, 4), ((2, 8),), ((3, 7),)])
    small, report = shrink(forest)
    assert (report.nodes_before, report.nodes_after) == (5, 1)
    assert small.votes == array("H", [1, 9])


def test_deep_trees_need_no_recursion() -> None:
    depth = 5000
    nodes: list[tuple[Any, ...]] = []
    for i in range(depth):  # a comb to the right: x <= i
        nodes += [(0, float(i), 2 * i + 2), ((i % 101, 100 - i % 101, 0),)]
    nodes.append(((100, 0, 0),))
    forest = grow(nodes, classes=("a", "b", "c"))
    small, _ = shrink(forest)
    assert small.to_json() != forest.to_json()
    assert len(small.feature) == len(forest.feature)
    assert small.predict([4321.0, 0.0]) == forest.predict([4321.0, 0.0])


def test_trees_that_share_nodes_are_refused_not_written_out() -> None:
    """Each node leads to the next two: as a tree it would have more nodes than memory."""
    nodes: list[tuple[Any, ...]] = [(i % 2, float(i), i + 2) for i in range(60)]
    forest = grow([*nodes, ((1, 9),), ((9, 1),)])
    with pytest.raises(ValueError, match="share nodes"):
        shrink(forest)


# ---- Fewer levels


@on_every_engine
@pytest.mark.parametrize("levels", [1, 16, 255, 4096])
def test_fewer_levels(levels: int, figure: Callable[[str], None]) -> None:
    forest = fit(n_trees=12, min_samples_leaf=4)
    small, report = shrink(forest, FRESH, levels=levels)
    assert small.scale == levels
    sums = np.array(small.votes).reshape(-1, small.n_votes).sum(axis=1)
    assert set(sums.tolist()) == {levels}
    off = np.abs(np.array(small.predict_proba(FRESH)) - forest.predict_proba(FRESH)).max()
    assert off <= 1 / levels + 1e-9
    changed = [a != b for a, b in zip(small.predict(FRESH), forest.predict(FRESH), strict=True)]
    assert report.changed == sum(changed)
    assert report.votes_after <= shrink(forest)[1].votes_after
    figure(str(report))


@on_every_engine
@pytest.mark.parametrize("levels", [16, 255, 4096])
def test_fewer_levels_of_a_regression(levels: int) -> None:
    forest = fit(True, n_trees=12)
    small, report = shrink(forest, FRESH, levels=levels)
    off = np.abs(np.array(small.predict(FRESH)) - forest.predict(FRESH)).max()
    assert 0 < off <= forest.span * (0.5 / levels + 1e-6)
    assert report.changed > 0
    assert len(set(small.votes)) <= levels + 1
    assert report.bytes_after < report.bytes_before or levels > 255
    assert load(small.to_json()).predict(FRESH) == small.predict(FRESH)


def test_levels_that_are_there_already_change_nothing() -> None:
    forest = fit()
    assert shrink(forest, levels=65535)[0].to_json() == shrink(forest)[0].to_json()


# ---- Leaves that share votes


@pytest.mark.parametrize("levels", [None, 255, 3])
@pytest.mark.parametrize("regression", [False, True])
def test_votes_are_shared_if_the_file_is_smaller_so(
    regression: bool, levels: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    forest = fit(regression, n_trees=8)
    small, report = shrink(forest, levels=levels)
    monkeypatch.setattr(shrinking, "unshare", lambda *_: None)
    shared = shrink(forest, levels=levels)[0]
    assert votes(small, FRESH) == votes(shared, FRESH)
    assert report.bytes_after <= len(shared.to_json())
    assert (small.to_json() == shared.to_json()) == (not regression)


@on_every_engine
@pytest.mark.parametrize("regression", [False, True])
def test_everything_else_accepts_votes_that_leaves_share(
    regression: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shrinking, "unshare", lambda *_: None)  # even where it takes more
    forest = fit(regression, n_trees=8)
    small, report = shrink(forest)
    assert report.votes_after < report.votes_before
    assert keep(small, [3, 1]).predict(FRESH) == keep(forest, [3, 1]).predict(FRESH)
    other = fit(regression, n_trees=3, seed=9)
    assert merge([small, other]).predict(FRESH) == merge([forest, other]).predict(FRESH)
    limit = len(small.to_json()) * 2 // 3
    assert len(merge([small], max_bytes=limit).to_json()) <= limit
    y = VALUES if regression else CLASSES
    pruned = [prune(one, ROWS, y, max_trees=3).predict(FRESH) for one in (small, forest)]
    assert pruned[0] == pruned[1]
    for row in FRESH[:20]:
        one, two = explain(small, row), explain(forest, row)
        assert (one.prediction, one.shares) == (two.prediction, two.shares)
    assert export_text(small).count("\n") <= export_text(forest).count("\n")
    append(small, other)
    append(forest, other)
    assert votes(small, FRESH) == votes(forest, FRESH)
    assert load(small.to_json()).predict(FRESH) == forest.predict(FRESH)


def test_merged_forests_shrink_again() -> None:
    whole = merge([fit(seed=1), fit(seed=2)], weights=[1, 2])
    report = shrink(whole, FRESH)[1]
    assert report.changed == 0
    assert report.bytes_after < report.bytes_before


# ---- What was given


def test_an_estimator_can_be_given_and_one_row() -> None:
    table = np.random.default_rng(0).random((80, 2))
    model = RandomForestClassifier(n_estimators=4).fit(table, table[:, 0] > 0.5)
    assert shrink(model, table)[1].rows == 80
    assert shrink(model, table[0])[1].rows == 1
    assert shrink(model, iter(table.tolist()))[1].rows == 80


def test_more_than_65535_nodes_become_fewer() -> None:
    rng = np.random.default_rng(1)
    rows = rng.random((4500, 2)).astype(np.float32)
    forest = train(rows, rng.random(4500), criterion="mse", n_trees=12)
    assert len(forest.feature) > 65535
    small, report = shrink(forest, rows, levels=2)
    assert small.right.typecode == "H"
    assert report.nodes_after < 65536
    same, report = shrink(forest, rows[:500])
    assert same.right.typecode == "I"
    assert report.changed == 0


@pytest.mark.parametrize(
    ("given", "levels", "error", "sentence"),
    [
        ("model.json", None, TypeError, "forest must be a Forest or a fitted estimator, got str"),
        (None, 0, ValueError, "levels must be from 1 to 65535, got 0"),
        (None, 1.5, TypeError, "levels must be a whole number, got 1.5"),
    ],
)
def test_what_makes_no_sense_is_refused(
    given: Any, levels: Any, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        shrink(given or fit(), levels=levels)


def test_the_report_is_one_line() -> None:
    assert "\n" not in str(Shrinkage(1, 1, 1, 1, 1, 1, 0, 0))
    assert "predictions" not in str(Shrinkage(1, 1, 1, 1, 1, 1, 0, 0))
