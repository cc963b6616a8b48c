"""The race against its oracle: the same arms, counted exactly over all rows of the node."""

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification, make_friedman1, make_regression

from edgeforest import Rng, core_pure, train
from edgeforest.arms import arms
from edgeforest.bounds import code_of, encode, make_bounds
from edgeforest.core_pure import criterion_of, find_split
from edgeforest.criteria import Contender, best_arm
from edgeforest.intervals import Interval, axis
from edgeforest.race_paper import estimate

on_every_engine = pytest.mark.usefixtures("engine")


LEAST = 1000  # rows of the nodes that are looked at


def probe(X, y, monkeypatch, **options):
    """(rows, insertions, insertions of exact, gain over best gain) of each raced node.

    Gains that differ by less than the tolerance of the node's impurity are the same.

    After the race every code of the drawn features is counted exactly as a threshold, to see how
    good the choice was.
    """
    notes = []

    def probed(task, nodes, start, end, rng, wanted):
        n = end - start
        if n < LEAST:
            return None  # a leaf: nobody looks at the nodes below it
        twin = Rng()
        twin.z, twin.w = rng.z, rng.w  # to draw the same features and bins again
        before = task.budget.spent.insertions
        split = yield from find_split(task, nodes, start, end, rng, wanted)
        if split is None:
            return split
        cost = task.budget.spent.insertions - before
        every, stride = range(256), 256
        contenders = [
            Contender(c.feature, c.column, every, every, c.equal)
            for c in nodes.contenders(start, end, twin)[0]
        ]
        for c in contenders:
            c.h = [0] * (stride * task.data.width)
        nodes.count(contenders, stride, start, end)
        total = nodes.total(contenders[0], stride)
        gains = {}
        for c in contenders:
            for t, _, left in arms(c.h, c.bins, stride, c.equal):
                if 0 < task.criterion.size(left) < task.criterion.size(total):
                    key = c.feature, t
                    gain = task.criterion.describe(left, total)[0]
                    gains[key] = max(gain, gains.get(key, 0.0))
        best = max(gains.values())
        # A threshold lies midway between two codes: the arm is that of the lower one that occurs.
        chosen = gains[max(key for key in gains if key <= (split.feature, split.code))]
        same = best - chosen <= core_pure.TOLERANCE_IMPURITY * task.criterion.impurity(total)
        notes.append((n, cost, n * len(contenders), 1.0 if same else chosen / best))
        return split

    monkeypatch.setattr(core_pure, "find_split", probed)
    core_pure.train(
        np.ascontiguousarray(X, dtype=np.float32).ravel().data,
        y.tolist(),
        n_features=X.shape[1],
        max_samples=1.0,
        **options,
    )
    return np.array(notes)


CLASSES = make_classification(24_000, 20, n_informative=8, n_classes=3, random_state=0)
TWO = make_classification(24_000, 20, n_informative=4, random_state=1)
LINEAR = make_regression(24_000, 20, n_informative=8, noise=10.0, random_state=0)
FRIEDMAN = make_friedman1(24_000, 20, noise=1.0, random_state=0)


@pytest.mark.parametrize(
    ("data", "criterion"),
    [
        (CLASSES, "gini"),
        (TWO, "gini"),
        (TWO, "entropy"),
        (LINEAR, "mse"),
        (FRIEDMAN, "mse"),
    ],
    ids=["3-classes", "2-classes", "2-classes-entropy", "linear", "friedman"],
)
def test_the_chosen_split_is_nearly_the_best(data, criterion, monkeypatch, figure):
    notes = probe(*data, monkeypatch, criterion=criterion, n_trees=4, max_depth=8)
    good = np.mean(notes[:, 3] >= 0.9)
    saving = notes[:, 2].sum() / notes[:, 1].sum()
    figure(
        f"{len(notes)} nodes of 1,000 rows or more, {good:.1%} within 10 % of the best gain, "
        f"{saving:.1f}x fewer insertions than exact"
    )
    assert len(notes) >= 80
    assert good >= 0.9
    assert saving > 2


@pytest.mark.parametrize("criterion", ["gini", "mse"])
def test_large_nodes_cost_far_less_than_exact_and_hardly_grow(criterion, figure):
    """Trees of one split: what they cost is what the race at the root costs."""
    cost = {}
    for n in (10_000, 50_000, 1_000_000):
        rng = np.random.default_rng(5)
        X = rng.normal(size=(n, 9)).astype(np.float32)
        signal = X[:, 0] + 0.7 * X[:, 1] * (X[:, 2] > 0) + 0.5 * X[:, 3] + rng.normal(size=n)
        y = signal if criterion == "mse" else np.digitize(signal, [-0.8, 0.8])
        options = {"criterion": criterion, "max_depth": 1, "bootstrap": False}
        forest = train(X, y, n_trees=20, max_samples=1.0, max_features=3, **options)
        mean = forest.spent.insertions / 20
        cost[n] = mean, 3 * n / mean
    for n, (mean, fewer) in cost.items():
        figure(f"root of {n:,} rows: {mean:,.0f} insertions, {fewer:.0f}x fewer than exact")
    assert cost[50_000][1] >= 5
    assert cost[1_000_000][0] <= 3 * cost[10_000][0]


def all_arms(codes, labels, width, bins, equal):
    """Every arm's left side, counted row by row: the slow truth that `arms` has to agree with."""
    stride = bins + 1
    h = [0] * (stride * width)
    for code, label in zip(codes, labels, strict=True):
        h[code + stride * label] += 1
    return h, stride


@settings(max_examples=100, deadline=None)
@given(data=st.data(), equal=st.booleans(), bins=st.integers(1, 6), width=st.integers(1, 4))
def test_arms_are_exactly_the_ways_to_part_the_rows(data, equal, bins, width):
    rows = data.draw(
        st.lists(
            st.tuples(st.integers(0, bins), st.integers(0, width - 1)), min_size=1, max_size=40
        )
    )
    h, stride = all_arms([c for c, _ in rows], [k for _, k in rows], width, bins, equal)
    seen = set()
    for t, missing_left, left in arms(h, bins, stride, equal):
        goes = {c: (c == t if equal else c <= t) for c in range(1, bins + 1)} | {0: missing_left}
        assert left == [sum(goes[c] and k == label for c, k in rows) for label in range(width)]
        seen.add(frozenset(i for i, (c, _) in enumerate(rows) if goes[c]))
    for t, missing_left in itertools.product(range(1, bins + 1), (False, True)):
        goes = {c: (c == t if equal else c <= t) for c in range(1, bins + 1)} | {0: missing_left}
        side = frozenset(i for i, (c, _) in enumerate(rows) if goes[c])
        other = frozenset(range(len(rows))) - side
        proper = side and other and any(rows[i][0] for i in side)
        if proper:  # whatever parts the rows is there, as itself or as its mirror image
            assert side in seen or other in seen


@settings(max_examples=80, deadline=None)
@given(
    cells=st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=3, max_size=9),
    least=st.integers(1, 4),
)
def test_the_shortcut_for_gini_finds_what_the_general_search_finds(cells, least):
    bins = len(cells)
    stride = bins + 1
    h = [0] * (3 * stride)
    for b, cell in enumerate(cells, start=1):
        for k, count in enumerate(cell):
            h[b + k * stride] = count
    total = [sum(cell[k] for cell in cells) for k in range(3)]
    n = sum(total)
    if n == 0:
        return
    gini = criterion_of("gini")
    best = None
    for t, missing_left, left in arms(h, bins, stride, False):
        size = sum(left)
        if min(size, n - size) >= least:
            score = gini.score(left, total, size, n - size)
            if best is None or score > best[0]:
                best = (score, t, missing_left)
    contender = Contender(0, None, None, range(bins + 1), False)
    contender.h = h
    assert best_arm(gini, contender, stride, total, least) == best


def impurity(criterion, y):
    """The textbook's definition, from the rows themselves."""
    if criterion == "mse":
        return float(np.var(y))
    shares = np.bincount(y) / len(y)
    shares = shares[shares > 0]
    return float(
        1 - (shares**2).sum() if criterion == "gini" else -(shares * np.log2(shares)).sum()
    )


def cells_of(criterion, y, width):
    if criterion == "mse":
        return [len(y), int(y.sum()), int((y * y).sum())]
    return np.bincount(y, minlength=width).tolist()


@pytest.mark.parametrize("criterion", ["gini", "entropy", "mse"])
def test_gains_are_those_of_the_textbook(criterion):
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(2, 60))
        y = rng.integers(0, 50 if criterion == "mse" else 4, n)
        cut = int(rng.integers(1, n))
        left, right = y[:cut], y[cut:]
        expected = impurity(criterion, y) - (
            cut * impurity(criterion, left) + (n - cut) * impurity(criterion, right)
        ) / len(y)
        c = criterion_of(criterion)
        total = cells_of(criterion, y, 4)
        gain = c.describe(cells_of(criterion, left, 4), total)[0]
        assert gain == pytest.approx(expected, abs=1e-9)
        assert c.impurity(total) == pytest.approx(impurity(criterion, y), abs=1e-9)


@pytest.mark.parametrize("criterion", ["gini", "entropy", "mse"])
def test_intervals_are_as_wide_as_gains_scatter(criterion):
    """Draw many samples from one population: the spread of the gain is what one sample foretells.

    The same for the difference of two thresholds, and the corrected gain is right on average.
    """
    rng = np.random.default_rng(1)
    n, seen = 20_000, 500
    x = rng.normal(size=n)
    noise = rng.normal(size=n)
    y = (
        (60 * x + 100 * noise + 400).astype(int)
        if criterion == "mse"
        else np.digitize(x + noise, [-0.5, 0.9])
    )
    c = criterion_of(criterion)
    whole = c.describe(cells_of(criterion, y[x <= 0.2], 3), cells_of(criterion, y, 3))[0]
    gains, foretold, gaps, gap_foretold = [], [], [], []
    rest = (n - seen) / ((n - 1) * seen)
    for _ in range(400):
        rows = rng.choice(n, seen, replace=False)
        xs, ys = x[rows], y[rows]
        total = cells_of(criterion, ys, 3)
        sides = {}
        for cut in (0.2, 1.0):
            left = cells_of(criterion, ys[xs <= cut], 3)
            sides[cut] = (left, *c.describe(left, total))
        left, gain, bias, on_left, on_right = sides[0.2]
        right = [p - i for p, i in zip(total, left, strict=True)]
        scatter = c.scatter(left, total, on_left, None) + c.scatter(right, total, on_right, None)
        gains.append(gain - bias * rest)
        foretold.append((scatter / seen - gain * gain) * rest)
        _, other, _, other_left, other_right = sides[1.0]
        between = cells_of(criterion, ys[(xs > 0.2) & (xs <= 1.0)], 3)
        outside = cells_of(criterion, ys[xs > 1.0], 3)
        scatter = c.scatter(left, total, on_left, other_left)
        scatter += c.scatter(between, total, on_right, other_left)
        scatter += c.scatter(outside, total, on_right, other_right)
        gaps.append(gain - other)
        gap_foretold.append((scatter / seen - (gain - other) ** 2) * rest)
    assert np.std(gains) == pytest.approx(math.sqrt(np.mean(foretold)), rel=0.12)
    assert np.std(gaps) == pytest.approx(math.sqrt(np.mean(gap_foretold)), rel=0.12)
    assert np.mean(gains) == pytest.approx(whole, abs=4 * np.std(gains) / math.sqrt(len(gains)))


CLASSES_OF_20 = np.random.default_rng(7).dirichlet(np.ones(20))
OTHERS_OF_20 = CLASSES_OF_20 * np.exp(0.15 * np.random.default_rng(8).normal(size=20))
SIDES = {  # the class shares of the left side and of the right one
    "strong": ([0.75, 0.25], [0.3, 0.7]),
    "weak": ([0.54, 0.46], [0.46, 0.54]),
    "none": ([0.5, 0.5], [0.5, 0.5]),
    "one-percent": ([0.997, 0.003], [0.9853, 0.0147]),
    "twenty-weak": (CLASSES_OF_20, OTHERS_OF_20 / OTHERS_OF_20.sum()),
    "twenty-none": (np.full(20, 0.05), np.full(20, 0.05)),
}


def holds(c, samples, truth, rest):
    """The share of samples whose interval of 1.96 standard errors holds the true gain."""
    found = 0
    for left, total in samples:
        i = Interval(c, left, total, rest, axis(c, total))
        half = 1.96 * math.sqrt(i.error)
        low, high = max(0.0, i.root - half) ** 2 - i.shift, (i.root + half) ** 2 - i.shift
        found += max(0.0, low) <= truth <= max(0.0, high)
    return found / len(samples)


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("sides", SIDES.values(), ids=SIDES)
def test_intervals_hold_where_gains_are_weak_and_classes_rare(criterion, sides, figure):
    """An interval around the gain itself holds in 0.8 of the samples without gain, not in 0.95."""
    n, seen = 50_000, 1000
    cells = np.rint(n * np.array([[0.4], [0.6]]) * np.array(sides)).astype(int)
    c = criterion_of(criterion)
    truth = c.describe(cells[0].tolist(), cells.sum(axis=0).tolist())[0]
    rng = np.random.default_rng(3)
    drawn = rng.multivariate_hypergeometric(cells.ravel(), seen, 1000).reshape(-1, *cells.shape)
    samples = [(one[0].tolist(), one.sum(axis=0).tolist()) for one in drawn]
    share = holds(c, samples, 0.0 if truth < 1e-12 else truth, (n - seen) / ((n - 1) * seen))
    figure(f"intervals of 1.96 standard errors hold in {share:.1%} of 1,000 samples")
    assert share >= 0.93


@pytest.mark.parametrize("gap", [0.8, 0.1, 0.0], ids=["strong", "weak", "none"])
def test_intervals_hold_for_weak_gains_in_squared_error(gap, figure):
    n, seen = 50_000, 1000
    rng = np.random.default_rng(4)
    left = np.arange(n) < 20_000
    y = rng.normal(size=n)
    y[left] += y[~left].mean() - y[left].mean() + gap
    y = np.rint(4000 * y + 32768).astype(int)
    c = criterion_of("mse")
    truth = c.describe(cells_of("mse", y[left], 3), cells_of("mse", y, 3))[0] if gap else 0.0
    samples = []
    for _ in range(1000):
        rows = rng.choice(n, seen, replace=False)
        samples.append((cells_of("mse", y[rows[left[rows]]], 3), cells_of("mse", y[rows], 3)))
    share = holds(c, samples, truth, (n - seen) / ((n - 1) * seen))
    figure(f"intervals of 1.96 standard errors hold in {share:.1%} of 1,000 samples")
    assert share >= 0.93


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_noise_has_as_many_axes_as_there_are_classes_less_one(criterion):
    c = criterion_of(criterion)
    assert axis(c, [700, 300]) == axis(c, [700, 0, 300]) == 1
    for k in (3, 5, 20):
        assert axis(c, [50] * k) == pytest.approx(1 / (k - 1))
    # The noise of class shares has this covariance, and Gini weighs all axes alike.
    p = np.array([0.7, 0.2, 0.06, 0.04])
    covariance = np.diag(p) - np.outer(p, p)
    expected = np.trace(covariance @ covariance) / np.trace(covariance) ** 2
    assert axis(criterion_of("gini"), [700, 200, 60, 40]) == pytest.approx(expected)
    assert axis(criterion_of("mse"), [9, 9, 9]) == 1


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_one_class_has_no_impurity_whatever_is_rounded(criterion):
    c = criterion_of(criterion)
    for n in range(1, 3000):
        assert c.impurity([0, n, 0]) == 0


@on_every_engine
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_a_race_waits_for_a_class_that_it_has_not_seen(criterion):
    """One row in a thousand is of the other class: few of the first batches have one."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(20_000, 4)).astype(np.float32)
    y = (X[:, 2] > np.sort(X[:, 2])[-21]).astype(int)
    assert y.sum() == 20
    options = {"max_depth": 1, "max_features": 4, "max_samples": 1.0, "criterion": criterion}
    forest = train(X, y, n_trees=30, **options)
    first = [forest.feature[root] & 0x3FFF for root in forest.roots]
    assert first.count(2) >= 28  # the rows of some trees have too few of that class


@pytest.mark.parametrize("criterion", ["gini", "entropy", "mse"])
def test_the_paper_s_intervals_are_as_wide_as_mu_scatters(criterion):
    rng = np.random.default_rng(2)
    n, seen = 20_000, 500
    x = rng.normal(size=n)
    noise = rng.normal(size=n)
    y = (
        (60 * x + 100 * noise).astype(int)
        if criterion == "mse"
        else np.digitize(x + noise, [-0.5, 0.9])
    )

    def cells(values):
        if criterion == "mse":
            return [int((values**p).sum()) for p in range(5)]
        return np.bincount(values, minlength=3).tolist()

    found, foretold = [], []
    for _ in range(400):
        rows = rng.choice(n, seen, replace=False)
        xs, ys = x[rows], y[rows]
        left = int((xs <= 0.2).sum())
        sides = cells(ys[xs <= 0.2]), cells(ys), left, seen - left
        mu, variance = estimate(criterion, *sides)
        found.append(mu)
        foretold.append(variance / seen * (n - seen) / (n - 1))
        expected = (
            left * impurity(criterion, ys[xs <= 0.2])
            + (seen - left) * impurity(criterion, ys[xs > 0.2])
        ) / seen
        assert mu == pytest.approx(expected, rel=1e-9)
    assert np.std(found) == pytest.approx(math.sqrt(np.mean(foretold)), rel=0.12)


@settings(max_examples=150, deadline=None)
@given(
    values=st.lists(
        st.one_of(
            st.floats(-1e6, 1e6, width=32),
            st.integers(-3, 3).map(float),
            st.just(float("nan")),
            st.floats(width=32, allow_nan=False, allow_infinity=False),
            st.floats(0, 2.0**-130, width=32),
        ),
        min_size=1,
        max_size=400,
    )
)
def test_codes_keep_the_order_and_thresholds_part_what_codes_part(values):
    bounds = make_bounds(values)
    codes = encode(values, bounds)
    assert len(bounds) <= 256
    assert all(a < b for a, b in itertools.pairwise(bounds[1:-1]))
    for x, code in zip(values, codes, strict=True):
        if x != x:
            assert code == 0
            continue
        assert code == code_of(x, bounds)
        for c in range(1, len(bounds) - 1):
            assert (code <= c) == (x <= bounds[c])
    distinct = {v for v in values if v == v}
    if len(distinct) <= 255:
        assert len({c for c in codes if c}) == len(distinct)


def test_many_values_get_codes_by_their_number_and_by_distance():
    rng = np.random.default_rng(3)
    values = np.exp(2 * rng.normal(size=20_000)).astype(np.float32)
    values[::2] = np.round(values[::2])  # a sensor repeats itself
    codes = encode(values.tolist(), make_bounds(values[:4096].tolist()))
    codes = np.frombuffer(codes, dtype=np.uint8)
    fresh = np.bincount(codes[1::2], minlength=256)[1:]
    assert fresh.max() < 6 * 10_000 / 64  # no code has much of the distinct values ...
    extremes = set(codes[values > np.quantile(values, 0.99)].tolist())
    assert len(extremes) > 20  # ... and the rare ones far out have codes of their own


@on_every_engine
@pytest.mark.parametrize("criterion", ["gini", "entropy", "mse"])
@pytest.mark.parametrize("size", [16, 3000])
@pytest.mark.parametrize("raw", [False, True])
def test_every_code_can_be_the_threshold(size, raw, criterion):
    """If a small node has few, every code is one; in a large node the second look finds it."""
    rng = random.Random(size)
    values = [i % 200 for i in range(size)]
    rng.shuffle(values)
    ordered = sorted(set(values))
    cut = ordered[len(ordered) * 3 // 5]
    rows = [[v, rng.randrange(200)] for v in values]
    X = [bytes(row) for row in rows] if raw else [[float(v) for v in row] for row in rows]
    y = [int(v > cut) for v in values]
    options = {"criterion": criterion, "max_depth": 1, "max_features": 2, "bootstrap": False}
    forest = train(X, y, n_trees=1, splitter="exact", **options)
    feature, _, _ = forest.split(0)
    assert feature == 0
    assert cut <= forest.threshold[0] < ordered[ordered.index(cut) + 1]


@on_every_engine
def test_a_second_look_is_paid_for_like_all_else():
    """A forest with the insertions of its race, and no more, keeps the threshold of the race."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 2)).astype(np.float32)
    y = (X[:, 0] + 0.3 * rng.normal(size=3000) > 0.4).astype(int)
    options = {"n_trees": 1, "max_depth": 1, "max_features": 2, "bootstrap": False}
    whole = train(X, y, splitter="exact", **options)
    looked = whole.spent.insertions - 2 * 3000
    assert 0 < looked < 3000 / 4
    short = train(X, y, splitter="exact", budget=2 * 3000 + looked - 1, **options)
    assert short.spent.insertions == 2 * 3000
    assert len(short.feature) == 3
    assert short.threshold[0] != whole.threshold[0]


@on_every_engine
def test_a_rare_value_takes_part_in_the_race():
    """One row in two hundred is alike, and of another class: a sample of 64 rows seldom shows it."""
    rows = [[float(i % 200 == 0), float(i % 7), float(i % 11)] for i in range(20_000)]
    labels = [int(row[0]) for row in rows]
    forest = train(rows, labels, n_trees=5, max_depth=3, max_features=3)
    assert forest.predict([[1.0, 3.0, 3.0], [0.0, 3.0, 3.0]]) == [1, 0]
    assert forest.feature_importances[0] > 0.9


@on_every_engine
def test_missing_goes_where_it_learned_to_go():
    rows = [[float(i % 10), float("nan") if i % 4 == 0 else 1.0] for i in range(2000)]
    labels = [int(i % 4 == 0) for i in range(2000)]
    forest = train(rows, labels, n_trees=3, max_depth=2, max_features=2)
    assert forest.predict([[5.0, float("nan")], [5.0, 1.0], [5.0, -7.0], [5.0, None]]) == [
        1,
        0,
        0,
        1,
    ]


@on_every_engine
def test_a_category_is_told_from_all_others():
    kinds = ["ant", "bee", "cat", "dog"]
    rows = [[kinds[i % 4], float(i % 3)] for i in range(1600)]
    labels = [int(row[0] == "bee") for row in rows]
    forest = train(rows, labels, categorical=["x0"], n_trees=3, max_depth=1, max_features=2)
    assert forest.predict([[k, 0.0] for k in kinds]) == [0, 1, 0, 0]
    assert forest.predict([["yak", 0.0]]) == forest.predict([[None, 0.0]])
