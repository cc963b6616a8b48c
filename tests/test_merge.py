"""Forests that are joined, and parts of forests: they predict as those that they come from."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runtimes import install, needs_micropython, output, run_micropython

from edgeforest import engine, load, train
from edgeforest.forest import EQUAL, LEAF, LEVELS, MISSING_LEFT, SUM, Forest, Spent
from edgeforest.forests.merging import keep, merge

on_every_engine = pytest.mark.usefixtures("engine")
FUZZ = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
NAN = float("nan")
ARRAYS = ("roots", "feature", "threshold", "right", "votes")

# A tree: the votes of a leaf, or (feature with its flags, threshold, left, right).
Grown = Any


def built(
    trees: list[Grown],
    classes: list[Any] | None,
    categories: list[Any] | None = None,
    scale: int = LEVELS,
    low: float = 0.0,
    span: float = 0.0,
) -> Forest:
    """A forest of hand-made trees with two numbers and a category."""
    forest: Forest = engine.with_predictor(Forest())
    forest.kind, forest.criterion, forest.splitter = "random-forest", "gini", "mab"
    forest.seed, forest.scale, forest.limit, forest.spent = 1, scale, None, Spent()
    forest.names, forest.categories = ["a", "b", "c"], [None, None, categories or ["u", "v"]]
    forest.classes, forest.importances = classes, [500_000, 300_000, 200_000]
    forest.low, forest.span = low, span
    if classes is None:
        forest.criterion = "mse"
    width = len(classes) if classes else 1
    right = array("I")

    def add(tree: Grown) -> None:
        here = len(forest.feature)
        right.append(0)
        if isinstance(tree, list):
            forest.feature.append(LEAF)
            forest.threshold.append(0.0)
            right[here] = len(forest.votes) // width
            forest.votes.extend(array("H", tree))
        else:
            forest.feature.append(tree[0])
            forest.threshold.append(tree[1])
            add(tree[2])
            right[here] = len(forest.feature)
            add(tree[3])

    for tree in trees:
        forest.roots.append(len(forest.feature))
        add(tree)
    forest.right = right if len(forest.feature) > 65535 else array("H", right)
    forest.prepare()
    return forest


def same_arrays(one: Forest, other: Forest) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in ARRAYS)


def shares(forest: Forest, row: list[Any]) -> dict[Any, float]:
    """The share of each class that the forest knows."""
    return dict(zip(forest.classes or (), forest.predict_proba(row), strict=True))


def check(forest: Forest) -> Forest:
    """The same forest from its file, which is refused if its parts do not fit; sums stay exact."""
    again = load(forest.to_json())
    assert again.to_json() == forest.to_json()
    most = 0
    for t in range(len(forest)):
        most += max(keep(forest, [t]).votes)
    assert most <= SUM
    assert (len(forest.feature) > 65535) == (forest.right.typecode == "I")
    return again


# ---- Generated forests

LABELS = ["ant", "bee", "cat", "dog", "eel"]
KINDS = ["t", "u", "v", "w", "x"]
ROWS = [[a, b, c] for a in (-1.0, 3.0, NAN) for b in (0.0, 2.0) for c in [*KINDS, None]]


@st.composite
def leaves(draw: st.DrawFn, width: int | None, scale: int) -> list[int]:
    if width is None:
        return [draw(st.integers(0, scale))]
    cuts = sorted(draw(st.lists(st.integers(0, scale), min_size=width - 1, max_size=width - 1)))
    return [b - a for a, b in zip([0, *cuts], [*cuts, scale], strict=True)]


def tree_of(width: int | None, scale: int, categories: int) -> st.SearchStrategy[Grown]:
    flag = st.sampled_from([0, MISSING_LEFT])
    numbers = st.tuples(st.integers(0, 1), flag).map(sum)
    equal = flag.map(lambda missing: 2 | EQUAL | missing)
    leaf = leaves(width, scale)
    return st.recursive(
        leaf,
        lambda below: st.one_of(
            st.tuples(numbers, st.sampled_from([-1.5, 0.0, 0.5, 2.0]), below, below),
            st.tuples(equal, st.integers(1, categories).map(float), below, below),
        ),
        max_leaves=6,
    )


@st.composite
def forests(draw: st.DrawFn, classes: list[Any] | None, kinds: list[Any] | None = None) -> Forest:
    scale = draw(st.sampled_from([LEVELS, LEVELS, 50_000]))
    categories = kinds or sorted(draw(st.sets(st.sampled_from(KINDS), min_size=1)))
    width = len(classes) if classes else None
    trees = draw(st.lists(tree_of(width, scale, len(categories)), min_size=1, max_size=4))
    low, span = draw(st.sampled_from([(0.0, 1.0), (-2.0, 8.0), (5.0, 0.0), (0.25, 1.0)]))
    ends = (low, span) if classes is None else (0.0, 0.0)
    return built(trees, classes, categories, scale, *ends)


def weights_of(n: int) -> st.SearchStrategy[list[float] | None]:
    weight = st.sampled_from([0.0, 0.1, 1.0, 1.0, 2.5, 100.0])
    return st.none() | st.lists(weight, min_size=n, max_size=n).filter(any)


def says(given: list[Forest], weights: list[float] | None) -> list[float]:
    """The weights of the forests: they add up to 1."""
    found = [float(len(f)) for f in given] if weights is None else list(weights)
    return [say / sum(found) for say in found]


@FUZZ
@given(st.data())
def test_joined_shares_are_the_weighted_mean(data: st.DataObject) -> None:
    given = data.draw(st.lists(forests(LABELS[:3], KINDS), min_size=1, max_size=4))
    weights = data.draw(weights_of(len(given)))
    before = [forest.to_json() for forest in given]
    joined = merge(given, weights)
    assert [forest.to_json() for forest in given] == before
    check(joined)
    for row in ROWS:
        found = shares(joined, row)
        for label, share in found.items():
            parts = zip(says(given, weights), given, strict=True)
            assert share == pytest.approx(
                sum(say * shares(forest, row)[label] for say, forest in parts), abs=1e-3
            )


@FUZZ
@given(st.data())
def test_joined_numbers_are_the_weighted_mean(data: st.DataObject) -> None:
    given = data.draw(st.lists(forests(None, KINDS), min_size=1, max_size=4))
    weights = data.draw(weights_of(len(given)))
    joined = merge(given, weights)
    check(joined)
    for row in ROWS:
        expected = sum(
            say * f.predict(row) for say, f in zip(says(given, weights), given, strict=True)
        )
        assert joined.predict(row) == pytest.approx(expected, abs=1e-3 * joined.span + 1e-5)


@FUZZ
@given(st.data())
def test_the_forests_that_know_a_class_decide_about_it(data: st.DataObject) -> None:
    some = st.sets(st.sampled_from(LABELS), min_size=1).map(sorted)
    classes = data.draw(st.lists(some, min_size=1, max_size=4))
    given = [data.draw(forests(labels, KINDS)) for labels in classes]
    weights = data.draw(weights_of(len(given)))
    joined = merge(given, weights)
    check(joined)
    assert joined.classes == sorted(set().union(*classes))
    voices = [(f, say) for f, say in zip(given, says(given, weights), strict=True) if say]
    known: dict[Any, list[float]] = {label: [] for label in joined.classes}
    for forest, say in voices:
        for label in forest.classes or ():
            known[label].append(say)
    most = max(len(f.classes or ()) for f, _ in voices)
    for row in ROWS:
        votes = dict.fromkeys(joined.classes, 0.0)
        for forest, say in voices:
            for label, share in shares(forest, row).items():
                knows = len(known[label])
                lift = knows / (knows + 1 / 4) * (len(voices) + 1 / 4) / len(voices)
                unsure = (len(forest.classes or ()) / most) ** 0.25
                votes[label] += say / sum(known[label]) * share * lift * unsure
        for label, share in shares(joined, row).items():
            assert share == pytest.approx(votes[label] / sum(votes.values()), abs=2e-3)


@FUZZ
@given(st.data())
def test_categories_that_differ_are_aligned(data: st.DataObject) -> None:
    given = data.draw(st.lists(forests(["no", "yes"]), min_size=2, max_size=3))
    joined = merge(given)
    check(joined)
    all_kinds = [set(forest.categories[2] or ()) for forest in given]
    assert joined.categories[2] == sorted(set().union(*all_kinds))
    for row in ROWS:
        if row[2] is None or all(row[2] in kinds for kinds in all_kinds):
            total = sum(len(f) * shares(f, row)["yes"] for f in given)
            assert shares(joined, row)["yes"] == pytest.approx(total / len(joined), abs=1e-3)


@FUZZ
@given(st.data())
def test_kept_trees_are_the_forest_again(data: st.DataObject) -> None:
    forest = data.draw(forests(data.draw(st.sampled_from([None, LABELS[:1], LABELS]))))
    before = forest.to_json()
    order = data.draw(st.permutations(range(len(forest))))
    kept = keep(forest, order)
    assert kept.importances == forest.importances
    assert (kept.names, kept.classes, kept.scale) == (forest.names, forest.classes, forest.scale)
    assert type(kept.predictor) is type(engine.with_predictor(Forest()).predictor)
    check(kept)
    singles = [keep(forest, [t]) for t in range(len(forest))]
    for row in ROWS:
        out, total = [0] * forest.n_votes, [0] * forest.n_votes
        for single in singles:
            single.predict_into(single.encode(row), out)
            total = [a + b for a, b in zip(total, out, strict=True)]
        for whole in (forest, kept):
            whole.predict_into(whole.encode(row), out)
            assert out == total
    assert forest.to_json() == before
    assert same_arrays(merge(singles), forest)
    assert same_arrays(keep(kept, [order.index(t) for t in range(len(forest))]), forest)


def test_votes_that_no_tree_uses_are_left_out() -> None:
    leaf = [LEVELS, 0]
    forest = built([(0, 1.0, leaf, leaf), leaf, (1, 1.0, leaf, leaf)], ["n", "y"])
    assert len(keep(forest, [1]).votes) == 2
    assert len(keep(forest, [2, 0]).votes) == 8
    forest.right[1] = forest.right[2]  # two leaves may share their votes
    assert len(keep(forest, [0]).votes) == 2


# ---- Trained forests


def sample(n: int, seed: int = 1) -> tuple[list[list[Any]], list[str], list[float]]:
    """Rows with a category and gaps, three labels, numbers."""
    rng = random.Random(seed)
    rows: list[list[Any]] = [
        [rng.gauss(0, 1), rng.choice([NAN, rng.random()]), rng.choice("uvw")] for _ in range(n)
    ]
    labels = [f"{row[2]}{int(row[0] > 0)}" if row[2] == "u" else str(row[2]) for row in rows]
    return rows, labels, [row[0] * 3 + (row[2] == "v") for row in rows]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"kind": "extra-trees", "max_depth": 3},
    {"kind": "random-patches"},
    {"criterion": "mse"},
]


@on_every_engine
@pytest.mark.parametrize("options", OPTIONS)
def test_continuing_gives_what_training_at_once_gives(options: dict[str, Any]) -> None:
    rows, labels, numbers = sample(300)
    target = numbers if options.get("criterion") == "mse" else labels
    common: dict[str, Any] = {"seed": 5, "categorical": [2], **options}
    whole = train(rows, target, n_trees=6, **common)
    old = train(rows, target, n_trees=3, **common)
    more = train(rows, target, n_trees=3, first=3, **common)
    for joined in (
        merge([old, more]),
        merge([keep(whole, [0, 1, 2]), keep(whole, [3, 4, 5])]),
        merge([merge([old]), keep(more, [0]), keep(more, [1, 2])]),
        merge([old, more], weights=[1, 1]),
    ):
        assert same_arrays(joined, whole)
        assert joined.scale == whole.scale
        assert (joined.low, joined.span) == (whole.low, whole.span)
        check(joined)
    assert same_arrays(keep(whole, [3, 4, 5]), more)


@on_every_engine
def test_more_trees_than_the_scale_was_made_for() -> None:
    rows, labels, numbers = sample(60)
    for target, criterion in ((labels, "gini"), (numbers, "mse")):
        common: dict[str, Any] = {"categorical": [2], "max_depth": 1, "criterion": criterion}
        old = train(rows, target, n_trees=200, **common)
        more = train(rows, target, n_trees=100, first=200, **common)
        whole = train(rows, target, n_trees=300, **common)
        joined = merge([old, more])
        assert joined.scale == whole.scale == SUM // 300
        assert joined.right == whole.right
        # Rounded twice instead of once, each time to whole sums of votes from the first class on.
        assert max(abs(a - b) for a, b in zip(joined.votes, whole.votes, strict=True)) <= 2
        if criterion == "gini":
            width = joined.n_votes
            for place in range(0, len(joined.votes), width):
                assert sum(joined.votes[place : place + width]) == joined.scale


@on_every_engine
def test_header_of_the_joined_forest() -> None:
    rows, labels, _ = sample(200)
    one = train(rows, labels, n_trees=2, categorical=[2], budget=5000, seed=3)
    two = train(rows, labels, n_trees=6, categorical=[2], budget=7000, criterion="entropy")
    joined = merge([one, two])
    assert (joined.kind, joined.criterion, joined.seed) == (one.kind, "gini", 3)
    assert joined.limit == 12_000
    assert merge([one, train(rows, labels, categorical=[2])]).limit is None
    for name in ("insertions", "rows_read", "rounds", "seconds"):
        total = getattr(one.spent, name) + getattr(two.spent, name)
        assert getattr(joined.spent, name) == pytest.approx(total)
    assert sum(joined.importances) == pytest.approx(1_000_000, abs=10)
    for a, b, c in zip(one.importances, two.importances, joined.importances, strict=True):
        assert c == pytest.approx((2 * a + 6 * b) / 8, abs=1)
    assert merge([one]).importances == one.importances
    assert merge([one]).to_json() == one.to_json()


def test_a_forest_without_splits_does_not_count_for_importances() -> None:
    bare = built([[LEVELS]], ["a"])
    bare.importances = [0, 0, 0]
    split = built([[LEVELS]], ["a"])
    assert merge([bare, split]).importances == split.importances
    assert merge([bare, bare]).importances == [0, 0, 0]


@dataclass
class Estimator:
    forest_: Forest


@on_every_engine
def test_estimators_and_generators_are_taken() -> None:
    rows, labels, _ = sample(50)
    parts = [train(rows, labels, categorical=[2], n_trees=2, seed=s) for s in (1, 2)]
    expected = merge(parts).to_json()
    assert merge(Estimator(forest) for forest in parts).to_json() == expected
    assert merge(tuple(parts), weights=(w for w in (3, 3))).to_json() == expected
    joined = merge(parts)
    assert type(joined.predictor) is type(engine.with_predictor(Forest()).predictor)
    assert keep(Estimator(joined), iter([0])).predict(rows[0]) in labels  # type: ignore[arg-type]


@on_every_engine
def test_forests_of_other_engines_are_joined(tmp_path: Path) -> None:
    rows, labels, _ = sample(80)
    given = [
        train(rows, labels, categorical=[2], n_trees=2, seed=n, engine=name)
        for n, name in enumerate(engine.present())
    ]
    path = tmp_path / "joined.json"
    merge(given).save(path)
    assert load(path).predict(rows) == merge(given).predict(rows)


# ---- Quarters with different classes


def quarters(
    y: list[int], times: list[int], rng: random.Random
) -> tuple[list[list[int]], list[set[int]]]:
    """The rows of four parts; each class is in as many of them as `times` says, in random order."""
    while True:
        homes = [rng.sample(range(4), n) for n in rng.sample(times, len(times))]
        sets = [{k for k, home in enumerate(homes) if q in home} for q in range(4)]
        if all(len(s) > 1 for s in sets) and len({frozenset(s) for s in sets}) == 4:
            break
    parts: list[list[int]] = [[], [], [], []]
    turn = [0] * len(times)
    for i, k in enumerate(y):
        parts[homes[k][turn[k] % len(homes[k])]].append(i)
        turn[k] += 1
    return parts, sets


@pytest.mark.parametrize("options", [{}, {"kind": "extra-trees"}, {"bootstrap": False}])
def test_quarters_with_different_classes_reach_a_forest_of_all_rows(
    options: dict[str, Any], figure: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    monkeypatch.setenv("EDGEFOREST_ENGINE", engine.present()[0])  # each grows the same forests
    X, y = load_digits(return_X_y=True)
    rows, labels = X.astype("float32"), y.tolist()
    apart, plain, alone, together = [], [], [], []
    for split in range(4):
        rng = random.Random(split)
        order = rng.sample(range(len(labels)), len(labels))
        test, known = order[:450], order[450:]
        truth = [labels[i] for i in test]

        def score(answers: list[int], truth: list[int] = truth) -> float:
            return 100 * sum(a == b for a, b in zip(answers, truth, strict=True)) / len(truth)

        parts, sets = quarters([labels[i] for i in known], [3] * 6 + [2] * 4, rng)
        given = []
        for q, part in enumerate(parts):
            places = [known[i] for i in part]
            target = [labels[i] for i in places]
            given.append(train(rows[places], target, n_trees=40, seed=q, **options))
            assert set(given[q].classes or ()) == sets[q] != set(labels)
        whole = train(rows[known], [labels[i] for i in known], n_trees=160, seed=9, **options)
        joined = merge(given)
        assert joined.classes == list(range(10))
        apart.append(score(joined.predict(rows[test])))
        together.append(score(whole.predict(rows[test])))
        alone.append(max(score(forest.predict(rows[test])) for forest in given))
        sums = [[0.0] * 10 for _ in test]
        for forest in given:
            for total, answer in zip(sums, forest.predict_proba(rows[test]), strict=True):
                for k, share in zip(forest.classes or (), answer, strict=True):
                    total[int(k)] += share
        plain.append(score([total.index(max(total)) for total in sums]))
    means = [sum(v) / len(v) for v in (apart, together, plain, alone)]
    figure(
        f"merged {means[0]:.1f} %, trained on all rows {means[1]:.1f} %, plain mean "
        f"{means[2]:.1f} %, best quarter alone {means[3]:.1f} %"
    )
    assert means[0] > means[1] - 2
    assert means[0] > means[3] + 10


def test_a_class_that_one_of_many_knows_is_not_drowned() -> None:
    rows = [[i / 100, i % 7] for i in range(300)]
    labels = ["abc"[i // 100] for i in range(300)]
    many = [train(rows[:200], labels[:200], n_trees=5, seed=seed) for seed in range(4)]
    one = train(rows, labels, n_trees=5, seed=4)
    for joined in (
        merge([*many, one]),
        merge([one, merge(many)]),
        merge([merge([*many, one]), one]),
    ):
        right = sum(a == b for a, b in zip(joined.predict(rows), labels, strict=True))
        assert right > 280
    mean = sum(shares(forest, rows[-1])["b"] for forest in many) / 5
    assert mean > shares(one, rows[-1])["c"] / 5, "a plain mean would drown it"


# ---- Limits


def test_trees_are_taken_in_turn() -> None:
    given = [built([[v + t] for t in range(n)], None) for v, n in ((10, 3), (20, 1), (30, 2))]
    for n, expected in enumerate(
        [[10], [10, 20], [10, 20, 30], [10, 11, 20, 30], [10, 11, 20, 30, 31]], 1
    ):
        assert merge(given, max_trees=n).votes.tolist() == expected
    assert merge(given, max_trees=99).votes.tolist() == [10, 11, 12, 20, 30, 31]
    taken = merge(given, weights=[0, 1, 1], max_trees=2)
    assert taken.votes.tolist() == [20, 30]


@on_every_engine
@pytest.mark.parametrize("weights", [None, [1, 3]])
def test_as_many_trees_as_fit_into_the_bytes(weights: list[float] | None) -> None:
    rows, labels, _ = sample(120)
    names = ["a", "grün", "c"]
    parts = [
        train(rows, labels, categorical=[2], names=names, n_trees=5, seed=1, max_depth=4),
        train(rows[:40], labels[:40], categorical=[2], names=names, n_trees=9, seed=2),
    ]

    def size(forest: Forest) -> int:
        return len(forest.to_json().encode())

    sizes = [size(merge(parts, weights, max_trees=n + 1)) for n in range(14)]
    for n, limit in enumerate(sizes):
        fitting = merge(parts, weights, max_bytes=limit)
        assert size(fitting) == limit
        assert len(fitting) == n + 1
        if n:
            assert len(merge(parts, weights, max_bytes=limit - 1)) == n
    assert len(merge(parts, weights, max_trees=3, max_bytes=sizes[9])) == 3
    assert len(merge(parts, weights, max_trees=9, max_bytes=sizes[2])) == 3
    with pytest.raises(
        ValueError, match=f"^max_bytes must be at least {sizes[0]} for one tree, got 9"
    ):
        merge(parts, weights, max_bytes=9)
    with pytest.raises(ValueError, match=f"at least {sizes[0]} for one tree, got {sizes[0] - 1}"):
        merge(parts, weights, max_bytes=sizes[0] - 1)


# ---- Extremes


def deep(n: int) -> Grown:
    """A tree with n leaves, balanced."""
    return [0, LEVELS] if n == 1 else (n % 2, float(n), deep(n // 2), deep(n - n // 2))


def test_more_than_65535_nodes_and_back() -> None:
    small = built([deep(20_000)], ["n", "y"])
    wide = merge([small, small])
    assert len(wide.feature) == 79_998
    assert wide.right.typecode == "I"
    check(wide)
    wider = merge([wide, small])
    check(wider)
    assert same_arrays(keep(wider, [2]), small)
    row = [0.5, 0.5, "u"]
    assert wider.predict(row) == small.predict(row) == "y"
    limit = len(wide.to_json().encode())
    assert len(merge([small, small, small], max_bytes=limit)) == 2


def test_single_leaves() -> None:
    given = [built([[LEVELS - v, v]], ["n", "y"]) for v in (0, 100, LEVELS)]
    joined = merge(given)
    check(joined)
    assert joined.votes.tolist() == [LEVELS, 0, LEVELS - 100, 100, 0, LEVELS]
    joined = merge(given, weights=[1, 0, 3])
    assert shares(joined, [0, 0, "u"])["y"] == pytest.approx(0.75, abs=1e-4)
    assert len(joined) == 2, "a tree without a say is not worth its bytes"


def test_a_class_that_hardly_any_forest_votes_for() -> None:
    many = built([[LEVELS, 0]] * 30, ["a", "b"])
    one = built([[LEVELS, 0]], ["c", "d"])
    for weight in (1e-3, 1e-9, 1e-30):
        joined = merge([many, one], weights=[1, weight])
        check(joined)
        found = shares(joined, [0, 0, "u"])
        assert found == pytest.approx({"a": 0.5, "b": 0, "c": 0.5, "d": 0}, abs=1e-3)
    assert merge([many, one], weights=[3e38, 5e-324]).predict([0, 0, "u"]) == "a"


def test_4096_classes() -> None:
    """As many as a model may have."""
    many = built([(0, 0.0, [LEVELS] + [0] * 4094, [0] * 4094 + [LEVELS])], list(range(4095)))
    few = built([[60_000, LEVELS - 60_000]], [4094, 5000])
    joined = merge([many, few])
    check(joined)
    assert joined.classes == [*range(4095), 5000]
    assert joined.predict([[-1.0, 0, "u"], [1.0, 0, "u"]]) == [0, 4094]
    assert shares(joined, [1.0, 0, "u"])[5000] > 0
    with pytest.raises(ValueError, match="classes of the forests are 4097 together, a model holds"):
        merge([joined, built([[LEVELS]], [9000])])


def test_254_categories() -> None:
    given = [built([[LEVELS]], None, [f"{side}{i}" for i in range(127)]) for side in "ab"]
    joined = merge(given)
    assert len(load(joined.to_json()).categories[2] or ()) == 254
    with pytest.raises(ValueError, match="categories of feature 'c' are 255 together, a model"):
        merge([joined, built([[LEVELS]], None, ["c"])])


def test_one_class() -> None:
    joined = merge([built([[LEVELS]], ["a"]), built([[LEVELS]], ["b"]), built([[LEVELS]], ["a"])])
    check(joined)
    assert joined.classes == ["a", "b"]
    assert merge([built([[LEVELS]], ["a"])] * 3).votes.tolist() == [LEVELS] * 3


@pytest.mark.parametrize(
    "weights", [[1, 1e-300], [3e38, 1e-300], [1, 1e-6], [5e-324, 0], [0.1, 0.2], [1e38, 1e38]]
)
def test_weights_of_any_size(weights: list[float]) -> None:
    given = [built([[LEVELS]] * 3, None, span=1.0), built([[0]] * 7, None, span=1.0)]
    joined = merge(given, weights)
    check(joined)
    expected = weights[0] / (weights[0] + weights[1])
    assert joined.predict([0, 0, "u"]) == pytest.approx(expected, abs=1e-6)


def test_thousands_of_trees() -> None:
    forest = built([[100, 900]] * 4096, ["n", "y"], scale=1000)
    joined = merge([forest] * 3)
    check(joined)
    assert joined.scale == 1000 < SUM // len(joined), "copied as it is"
    full = built([[0, SUM // 4096]] * 4096, ["n", "y"], scale=SUM // 4096)
    joined = merge([full] * 3)
    assert joined.scale == SUM // len(joined)
    assert set(joined.votes) == {0, joined.scale}
    lone = built([[LEVELS, 0]], ["n", "y"])
    joined = merge([full, lone], weights=[1, 1])
    check(joined)
    assert shares(joined, [0, 0, "u"])["n"] == pytest.approx(0.5, abs=0.01)


def test_weights_that_16_bits_cannot_express_are_refused() -> None:
    many = built([[LEVELS]] * 70_000, None, span=1.0)
    lone = built([[0]], None, span=1.0)
    with pytest.raises(ValueError, match=r"70001 trees differ too much .* give max_trees, or"):
        merge([many, lone], weights=[1, 99])
    assert len(merge([many, lone], weights=[1, 99], max_trees=100)) == 100


def test_ranges_of_targets() -> None:
    top = 3.4028234663852886e38
    halves = [built([[LEVELS]], None, low=low, span=top / 2) for low in (-top / 2, 0.0)]
    assert merge(halves).predict([0, 0, "u"]) == pytest.approx(top / 4, rel=1e-4)
    with pytest.raises(ValueError, match=r"span less than 3.4e38; scale them down"):
        merge([halves[0], built([[1]], None, low=top / 4, span=top / 2)])
    constant = [built([[0]], None, low=v) for v in (2.5, 2.5)]
    assert merge(constant).predict([0, 0, "u"]) == 2.5
    apart = [built([[0]], None, low=v) for v in (-1.5, 2.5)]
    assert merge(apart).predict([0, 0, "u"]) == pytest.approx(0.5, abs=1e-4)
    assert merge(apart, weights=[1, 3]).predict([0, 0, "u"]) == pytest.approx(1.5, abs=1e-4)


def test_joined_forests_are_joined_again() -> None:
    """The mean of means: nothing is lost where votes are larger than the scale."""
    row = [0, 0, "u"]
    one = merge([built([[LEVELS]] * 2, None, span=1.0), built([[0]], None, span=1.0)], [9, 1])
    assert max(one.votes) > one.scale
    two = merge([one, built([[LEVELS // 2]], None, span=1.0)], [1, 1])
    check(two)
    assert two.predict(row) == pytest.approx((0.9 + 0.5) / 2, abs=1e-3)
    shifted = merge([one, built([[LEVELS]], None, low=-3.0, span=1.0)], [1, 1])
    check(shifted)
    assert shifted.predict(row) == pytest.approx((0.9 - 2.0) / 2, abs=1e-3)
    assert same_arrays(merge([one]), one)


def test_labels_that_are_equal_are_one_class() -> None:
    joined = merge([built([[0, LEVELS]], [0, 1]), built([[LEVELS, 0]], [False, True])])
    assert joined.classes == [0, 1]
    assert shares(joined, [0, 0, "u"]) == {0: 0.5, 1: 0.5}


# ---- On a board

SCRIPT = """
from edgeforest.loading import load
f = load("model.json")
rows = eval(open("rows.txt").read(), {"nan": float("nan")})
print(len(f), f.predict(rows))
"""


@needs_micropython
@on_every_engine
@pytest.mark.parametrize("regression", [False, True])
def test_micropython_loads_and_predicts_the_same(regression: bool, tmp_path: Path) -> None:
    rows, labels, numbers = sample(300)
    target: list[Any] = numbers if regression else labels
    parts = []
    for q in range(3):  # each lacks a category, a label, and some of the range
        places = [i for i, row in enumerate(rows) if row[2] != "uvw"[q]]
        parts.append(
            train(
                [rows[i] for i in places],
                [target[i] for i in places],
                categorical=[2],
                n_trees=4,
                max_depth=5,
                seed=q,
                criterion="mse" if regression else "gini",
            )
        )
    joined = merge(parts, weights=[1, 2, 1.5])
    joined.save(tmp_path / "model.json")
    (tmp_path / "rows.txt").write_text(repr(rows[:100]))
    install(tmp_path, compiled=False)
    said = output(run_micropython(SCRIPT, tmp_path, "512k"))
    trees, answers = said.split(" ", 1)
    assert int(trees) == 12
    found, expected = eval(answers), joined.predict(rows[:100])
    if regression:
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)
    else:
        assert found == expected
        assert len(set(expected)) == 4


# ---- Refusals


@pytest.fixture(scope="module")
def plain() -> Forest:
    return built([[LEVELS, 0]], ["n", "y"])


def renamed(forest: Forest, names: list[str]) -> Forest:
    other = load(forest.to_json())
    other.names = names
    other.categories = (other.categories * 2)[: len(names)]
    other.importances = [0] * len(names)
    other.prepare()
    return other


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: [], "there are no forests to merge; give at least one"),
        (
            lambda f: [f, renamed(f, ["a", "x", "c"])],
            "feature 1 is 'x' in forest 1, 'b' in forest 0",
        ),
        (
            lambda f: [f, renamed(f, ["b", "a", "c"])],
            "feature 0 is 'b' in forest 1, 'a' in forest 0",
        ),
        (lambda f: [f, f, renamed(f, ["a", "b"])], "forest 2 has 2 features, forest 0 has 3"),
        (
            lambda f: [built([[1]], None), f],
            "forest 1 is for classification, forest 0 for regression",
        ),
        (
            lambda f: [f, built([[LEVELS, 0]], [1, 2])],
            "classes of the forests must be all text or all numbers, got a mixture",
        ),
        (
            lambda f: [f, built([[LEVELS, 0]], ["n", "y"], [1, 2])],
            "categories of feature 'c' must be all text or all numbers, got a mixture",
        ),
    ],
)
def test_forests_that_do_not_fit_together(
    change: Callable[[Forest], list[Forest]], said: str, plain: Forest
) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        merge(change(plain))
    assert str(error.value) == said


def test_a_number_here_and_a_category_there(plain: Forest) -> None:
    other = load(plain.to_json())
    other.categories = [None, ["u"], None]
    other.prepare()
    with pytest.raises(
        ValueError, match=r"^feature 'b' is a category in forest 1, a number in for"
    ):
        merge([plain, other])


def nothing() -> Iterator[Forest]:
    yield from ()


def test_what_is_not_a_forest_is_refused(plain: Forest) -> None:
    wrong: Any
    for wrong in (plain, 5, None, "model.json"):
        with pytest.raises(TypeError, match=f"^give a list of forests, got {type(wrong).__name__}"):
            merge(wrong)
    for wrong in ([plain, "model.json"], [plain, None], [plain, Estimator(None)]):  # type: ignore[arg-type]
        with pytest.raises(
            TypeError, match=r"^forest 1 must be a Forest or a fitted estimator, got"
        ):
            merge(wrong)
    with pytest.raises(ValueError, match="no forests to merge"):
        merge(nothing())
    with pytest.raises(ValueError, match=r"^forest 0 has no trees; train it first"):
        merge([Forest()])


@pytest.mark.parametrize(
    ("weights", "kind", "said"),
    [
        ([1], ValueError, "weights must have one for each of 2 forests, got 1"),
        ([1, 2, 3], ValueError, "weights must have one for each of 2 forests, got 3"),
        ([0, 0], ValueError, "weights must not all be 0; leave them out"),
        ([1, -1], ValueError, "a weight must be from 0.0 to .*, got -1"),
        ([1, NAN], ValueError, "a weight must be from 0.0 to .*, got nan"),
        ([1, math.inf], ValueError, "a weight must be from 0.0 to .*, got inf"),
        ([1, "2"], TypeError, "a weight must be a number, got '2'"),
        ([1, None], TypeError, "a weight must be a number, got None"),
        ([1, True], TypeError, "a weight must be a number, got True"),
        (2, TypeError, "give a list of weights, got int"),
        ("12", TypeError, "give a list of weights, got str"),
    ],
)
def test_wrong_weights_are_refused(
    weights: Any, kind: type[Exception], said: str, plain: Forest
) -> None:
    with pytest.raises(kind, match=f"^{said}"):
        merge([plain, plain], weights)


@pytest.mark.parametrize("name", ["max_trees", "max_bytes"])
def test_wrong_limits_are_refused(name: str, plain: Forest) -> None:
    wrong: Any
    for wrong, kind in ((0, ValueError), (-3, ValueError), (1.5, TypeError), ("9", TypeError)):
        with pytest.raises(kind, match=f"^{name} must be .*, got"):
            merge([plain], **{name: wrong})


@pytest.mark.parametrize(
    ("trees", "kind", "said"),
    [
        ([], ValueError, "trees must name at least one place, and none twice, got"),
        ([0, 1, 0], ValueError, "trees must name at least one place, and none twice, got"),
        ([2], ValueError, "a tree's place must be from 0 to 1, got 2"),
        ([-1], ValueError, "a tree's place must be from 0 to 1, got -1"),
        ([0.0], TypeError, "a tree's place must be a whole number, got 0.0"),
        (0, TypeError, "give a list of places, got int"),
    ],
)
def test_wrong_places_of_trees_are_refused(
    trees: Any, kind: type[Exception], said: str, plain: Forest
) -> None:
    with pytest.raises(kind, match=f"^{said}"):
        keep(merge([plain, plain]), trees)
