"""What is said about a forest is what the forest does: boxes, paths and rules, to the last float32."""

import ast
import copy
import math
import os
import random
import re
from array import array
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_digits
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.tree import export_text as sklearn_text

from edgeforest import Forest, load, train
from edgeforest.forest import EQUAL, FEATURE, HUGE, LEAF, MISSING_LEFT
from edgeforest.forests.explanation import explain, export_text, float_text, percent

INF, NAN = math.inf, math.nan
FUZZ = settings(
    max_examples=int(100 * float(os.environ.get("EDGEFOREST_FUZZ", "1"))),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
NAMES = ["colour", "t", "wet or missing", "kind", "x > 3"]


def make_rows(n, seed, gaps):
    """Two categories, of text and of numbers, and three numbers; a share of them missing."""
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        row = [
            rng.choice(["blue", "grün", "r\"e'd", "is not"]),
            rng.gauss(0, 1),
            round(rng.random(), 1),
            rng.choice([3, 5, 8]),
            rng.randrange(-2, 3),
        ]
        rows.append([None if rng.random() < gaps else v for v in row])
    return rows


def fit(criterion="gini", gaps=0.15, seed=1, **options):
    rows = make_rows(200, seed, gaps)
    y = [
        (c == "blue") + 2 * ((t or 0.0) > 0.3) + (k == 5) + (w is None) + ((x or 0) > 1)
        for c, t, w, k, x in rows
    ]
    if criterion != "mse":
        y = [["calm", "windy", "storm"][min(2, v)] for v in y]
    options = {"n_trees": 6, "names": NAMES, "categorical": [0, 3], "seed": seed, **options}
    return train(rows, y, criterion=criterion, **options)


FORESTS = [
    fit(),
    fit(gaps=0.0, max_depth=4),
    fit("entropy", gaps=0.4, kind="extra-trees"),
    fit("mse", kind="random-patches", alpha_f=0.7),
    fit("mse", gaps=0.4, n_trees=1, max_features=5),
    fit(max_depth=0, n_trees=2),
    fit(n_trees=25, max_features=5, min_samples_leaf=10),
]
forests = pytest.mark.parametrize("forest", FORESTS, ids=range(len(FORESTS)))


def leaves(forest, row):
    """The place of the votes that each tree gives to a row: `predict_into`, tree by tree."""
    one = copy.copy(forest)
    one.n_votes = 1
    one.votes = range(len(forest.votes))
    encoded = forest.encode(row)
    found = []
    for root in forest.roots:
        one.roots = [root]
        out = [0]
        one.predict_into(encoded, out)
        found.append(out[0])
    return found


def sums(forest, row):
    out = [0] * forest.n_votes
    forest.predict_into(forest.encode(row), out)
    return out


def beside(value):
    """A float32 and its two neighbours."""
    with np.errstate(over="ignore"):
        one = np.float32(value)
        ends = np.nextafter(one, np.float32([-INF, INF]))
    return [float(one), *map(float, ends)]


def candidates(forest, f):
    """Values of a feature on both sides of every threshold."""
    if forest.categories[f] is not None:
        return [*forest.categories[f], "violet", None, NAN]
    found = {0.0, HUGE, INF, -INF}
    for flags, cut in zip(forest.feature, forest.threshold, strict=True):
        if flags != LEAF and flags & FEATURE == f:
            found.update(beside(cut))
    return [*sorted(found), None, NAN]


CANDIDATES = [[candidates(forest, f) for f in range(len(NAMES))] for forest in FORESTS]


def inside(condition, value, forest):
    """Whether a value is one that the condition allows."""
    kinds = forest.categories[condition.feature]
    if value is None or value != value or (kinds is not None and value not in kinds):
        return condition.missing
    if kinds is None:
        value = float(np.float32(value))
        return (condition.low == -INF or condition.low < value) and value <= condition.high
    assert (value in condition.categories) != (value in condition.excluded)
    return value in condition.categories


@st.composite
def cases(draw):
    """A forest and a row, its values often at a threshold or right beside one."""
    place = draw(st.integers(0, len(FORESTS) - 1))
    row = []
    for f, values in enumerate(CANDIDATES[place]):
        some = st.sampled_from(values)
        if FORESTS[place].categories[f] is None:
            some |= st.floats(width=32)
        row.append(draw(some))
    return place, row


@settings(FUZZ, max_examples=FUZZ.max_examples // 20)  # each tries all values of all features
@given(cases())
def test_one_feature_may_move_within_its_condition_and_not_beyond(case):
    """Exactly the values that a condition allows keep the path through every tree."""
    place, row = case
    forest = FORESTS[place]
    because = explain(forest, row)
    before = leaves(forest, row)
    conditions = {c.feature: c for c in because.conditions}
    for f, values in enumerate(CANDIDATES[place]):
        for value in values:
            moved = [*row[:f], value, *row[f + 1 :]]
            stays = leaves(forest, moved) == before
            assert stays == (f not in conditions or inside(conditions[f], value, forest)), value


@FUZZ
@given(cases(), st.data())
def test_all_features_may_move_at_once_within_the_box(case, data):
    place, row = case
    forest = FORESTS[place]
    because = explain(forest, row)
    conditions = {c.feature: c for c in because.conditions}
    moved = list(row)
    for f, values in enumerate(CANDIDATES[place]):
        if f in conditions:
            c = conditions[f]
            values = [v for v in [*values, row[f]] if inside(c, v, forest)]
            if c.categories is None and c.low < c.high:
                values += [v for v in [*beside(c.low), *beside(c.high)] if inside(c, v, forest)]
        moved[f] = data.draw(st.sampled_from(values))
    assert sums(forest, moved) == sums(forest, row)
    assert leaves(forest, moved) == leaves(forest, row)
    again = explain(forest, moved).conditions
    for one, other in zip(because.conditions, again, strict=True):
        assert (one.low, one.high, one.categories) == (other.low, other.high, other.categories)
        assert (one.missing, one.trees, one.nodes) == (other.missing, other.trees, other.nodes)


@FUZZ
@given(cases())
def test_paths_end_where_the_forest_goes_and_their_votes_add_up(case):
    place, row = case
    forest = FORESTS[place]
    because = explain(forest, row)
    assert because.prediction == forest.predict([row])[0]
    votes = [sum(column) for column in zip(*[path.votes for path in because.paths], strict=True)]
    assert votes == sums(forest, row)
    assert [forest.right[path.leaf] for path in because.paths] == leaves(forest, row)
    for path in because.paths:
        assert forest.feature[path.leaf] == LEAF
        if forest.regression:
            assert path.shares is None
            exact = forest.low + forest.span * path.votes[0] / forest.scale
            assert path.says == pytest.approx(exact, rel=1e-6, abs=1e-6)
        else:
            assert path.shares == pytest.approx(
                {k: v / forest.scale for k, v in zip(forest.classes, path.votes, strict=True)}
            )
            assert path.shares[path.says] == max(path.shares.values())
    if forest.regression:
        assert because.shares is None
    else:
        (proba,) = forest.predict_proba([row])
        assert list(because.shares.items()) == list(zip(forest.classes, proba, strict=True))


@FUZZ
@given(cases())
def test_the_conditions_of_the_forest_are_those_of_its_paths_joined(case):
    place, row = case
    because = explain(FORESTS[place], row)
    for c in because.conditions:
        parts = [p for path in because.paths for p in path.conditions if p.feature == c.feature]
        assert (c.trees, c.nodes) == (len(parts), sum(p.nodes for p in parts))
        assert (c.low, c.high) == (max(p.low for p in parts), min(p.high for p in parts))
        assert c.missing == all(p.missing for p in parts)
        if c.categories is not None:
            assert set(c.categories) == set.intersection(*[set(p.categories) for p in parts])
    order = [c.nodes for c in because.conditions]
    assert order == sorted(order, reverse=True)
    asked = {p.feature for path in because.paths for p in path.conditions}
    assert {c.feature for c in because.conditions} == asked
    assert [NAMES.index(name) for name in because.unasked] == sorted(set(range(5)) - asked)


# ---- Words ------------------------------------------------------------------------------------


def holds(words, value):
    """Whether words about a feature, without its name, are true for a value."""
    missing = value is None or value != value
    if words in ("is anything", "is infinite"):
        return words == "is anything"
    if words in ("is missing", "is present"):
        return missing == (words == "is missing")
    neither = re.fullmatch("is neither (.*)", words)
    if neither or words.startswith("is not "):
        parts = neither[1].replace(" nor ", ", ") if neither else words.removeprefix("is not ")
        return not within(parts, value, missing)
    if words.startswith("is "):
        return within(words.removeprefix("is ").replace(" or ", ", "), value, missing)
    test, also = re.fullmatch(r"(.*?)( or missing)?", words).groups()
    if missing:
        return also is not None
    low, high = -INF, INF
    for sign, text in re.findall(r"(<=|>) (\S+)", test):
        bound = float(np.float32(text))
        low, high = (low, min(high, bound)) if sign == "<=" else (max(low, bound), high)
    return low < float(np.float32(value)) <= high


def within(parts, value, missing):
    """Whether a list of categories, which may end in the word missing, has the value."""
    parts = f", {parts}"
    also = parts.endswith(", missing")
    kinds = parts.removesuffix(", missing").removeprefix(", ")
    return also if missing else value in ast.literal_eval(f"[{kinds}]")


@FUZZ
@given(cases())
def test_the_words_of_a_condition_are_true_for_the_row_and_claim_no_more_than_it(case):
    """Words need not mention missing values if the value of the row is not missing."""
    place, row = case
    forest = FORESTS[place]
    because = explain(forest, row)
    everything = [*because.conditions, *[c for path in because.paths for c in path.conditions]]
    for c in {(c.text, c.missing): c for c in everything}.values():
        text = re.sub(rf"^(\S+) < {re.escape(c.name)} (.*)", r"> \1 \2", c.text)
        words = text.removeprefix(c.name + " ")
        for value in [*CANDIDATES[place][c.feature], row[c.feature]]:
            missing = value is None or value != value or value == "violet"
            if isinstance(value, float) and math.isinf(value):
                continue  # "is present" is about numbers that can be measured
            said = holds(words, None if missing else value)
            if missing and c.value not in (None, "violet"):
                assert not said or c.missing
            else:
                assert said == inside(c, value, forest), (c.text, value)


@FUZZ
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_number_is_the_shortest_text_of_its_float32(value):
    text = float_text(value)
    assert np.float32(text) == np.float32(value)
    shortest = np.format_float_scientific(np.float32(value), unique=True, trim="-")
    assert len(digits(text)) <= len(digits(shortest))


def digits(text):
    return re.sub(r"[-.]", "", text.partition("e")[0]).strip("0")


def test_shares_do_not_look_like_all_or_nothing():
    assert [percent(v) for v in (0.0, 1 / 65535, 0.0005, 0.5, 65534 / 65535, 1.0)] == [
        "0%",
        "<0.1%",
        "0.1%",
        "50%",
        ">99.9%",
        "100%",
    ]


def build(trees, names, classes, categories=None, scale=100):
    """A forest from nested tuples: (feature, threshold, yes, no), a leaf is a list of votes."""
    forest = Forest()
    forest.kind, forest.criterion, forest.splitter = "random-forest", "gini", "exact"
    forest.seed, forest.names, forest.classes, forest.scale = 0, names, classes, scale
    forest.categories = categories or [None] * len(names)
    forest.importances = [0] * len(names)
    if classes is None:
        forest.criterion, forest.low, forest.span = "mse", 0.0, float(scale)

    def add(node):
        here = len(forest.feature)
        leaf = isinstance(node, list)
        forest.feature.append(LEAF if leaf else node[0])
        forest.threshold.append(0.0 if leaf else node[1])
        forest.right.append(len(forest.votes) // len(classes or "1") if leaf else 0)
        if leaf:
            forest.votes.extend(node)
        else:
            add(node[2])
            forest.right[here] = len(forest.feature)
            add(node[3])

    for tree in trees:
        forest.roots.append(len(forest.feature))
        add(tree)
    forest.prepare()
    return load(forest.to_json())


def small():
    """Three trees over a number, a category with three values, and a number that may be missing."""
    late, early = [0, 100], [100, 0]
    return build(
        [
            (0, 21.5, early, (1 | EQUAL, 2, (0, 25.25, late, early), [25, 75])),
            (0 | MISSING_LEFT, 20.15, early, (2, HUGE, (2 | MISSING_LEFT, 0.1, late, early), late)),
            (1 | EQUAL | MISSING_LEFT, 3, early, late),
        ],
        ["t", "day", "wet"],
        ["early", "late"],
        [None, ["fri", "sat", "sun"], None],
    )


def test_the_page_of_a_small_forest():
    assert str(explain(small(), [22, "sat", None])).splitlines() == [
        "prediction late",
        "votes      late 100%",
        "trees      3 of 3 say late",
        "",
        "The answer stays exactly the same as long as",
        "  21.5 < t <= 25.25  (is 22; asked 3 times in 2 of 3 trees)",
        "  day is 'sat'       (asked 2 times in 2 of 3 trees)",
        "  wet is missing     (asked once in 1 of 3 trees)",
    ]


def test_the_page_of_a_row_with_an_unknown_category():
    because = explain(small(), {"wet": 3, "day": "mon", "t": 100, "unused": 1})
    assert str(because).splitlines() == [
        "prediction early",
        "votes      early 75%, late 25%",
        "trees      2 of 3 say early",
        "",
        "The answer stays exactly the same as long as",
        "  t > 21.5                 (is 100; asked 2 times in 2 of 3 trees)",
        "  day is 'sun' or missing  (is 'mon', which counts as missing; asked 2 times in 2 of 3 trees)",
        "  wet > 0.1                (is 3; asked 2 times in 1 of 3 trees)",
    ]


def test_the_path_of_a_small_forest():
    because = explain(small(), [22, "fri", None])
    assert (
        because.path(0)
        == "tree 0 says late 75%, early 25%, because\n  t > 21.5\n  day is not 'sat'"
    )
    assert because.path(1) == "tree 1 says late 100%, because\n  t > 20.15\n  wet is missing"
    assert because.path(2) == "tree 2 says late 100%, because\n  day is 'fri' or 'sat'"


def test_the_page_of_a_regression_and_of_a_forest_that_asks_nothing():
    forest = build([(1, 0.5, [10], [20]), [60]], ["a", "b\nc", "d"], None)
    assert str(explain(forest, [1, 2, 3])).splitlines() == [
        "prediction 40",
        "trees      2, from 20 to 60",
        "",
        "The answer stays exactly the same as long as",
        "  b c > 0.5  (is 2; asked once in 1 of 2 trees)",
        "",
        "No tree asks about a, d",
    ]
    because = explain(build([[60]], ["a"], None), [1])
    assert str(because).endswith("No tree asks anything: every row gets this answer.")
    assert because.path(0) == "tree 0 says 60, whatever the row is"


def test_a_long_list_of_categories_is_cut():
    kinds = [f"k{i:02}" for i in range(30)]
    tree = [0, 1]
    for code in range(1, 12):
        tree = (0 | EQUAL, code, [1, 0], tree)
    forest = build([tree], ["kind"], ["a", "b"], [kinds], scale=1)
    (condition,) = explain(forest, ["k29"]).conditions
    assert condition.excluded == tuple(kinds[:11])
    listed = ", ".join(map(repr, kinds[:8]))
    assert str(condition) == f"kind is neither {listed} nor 3 more"


def test_a_long_page_is_cut_and_says_so():
    digits = load_digits()
    because = explain(train(digits.data, digits.target, n_trees=20), digits.data[3])
    n = len(because.conditions)
    assert n > 30
    page = str(because).splitlines()
    most = because.conditions[20].nodes
    assert f"  and {n - 20} more, each asked {most} times at most" in page
    whole = because.text(top=None)
    assert all(str(c) in whole for c in because.conditions)
    assert len(because.text(top=3)) < len(str(because)) < len(whole)


# ---- Trees as text ----------------------------------------------------------------------------


def parse(text):
    """The rules of one tree: [(words, branch), (words, branch)], or the words of a leaf."""
    lines = [re.fullmatch(r"((?:\|   )*)\|--- (.*)", line).groups() for line in text.splitlines()]
    lines = [(len(indent) // 4, words) for indent, words in lines]

    def branch(at, depth):
        assert lines[at][0] == depth
        if re.match("(class|value): |truncated branch", lines[at][1]):
            return lines[at][1], at + 1
        found = []
        for _ in "yn":
            level, words = lines[at]
            assert level == depth
            below, at = branch(at + 1, depth + 1)
            found.append((words, below))
        return found, at

    rules, end = branch(0, 0)
    assert end == len(lines)
    return rules


def follow(rules, row):
    """The leaf that rules lead a row to: at every question one side is true, the other is not."""
    while not isinstance(rules, str):
        found = []
        for words, below in rules:
            (f,) = [f for f, name in enumerate(NAMES) if words.startswith(name + " ")]
            value = None if row[f] == "violet" else row[f]
            if holds(words.removeprefix(NAMES[f] + " "), value):
                found.append(below)
        assert len(found) == 1, (rules, row)
        rules = found[0]
    return rules


@forests
def test_the_rules_of_the_text_predict_as_the_trees_do(forest):
    rng = random.Random(5)
    place = FORESTS.index(forest)
    rows = make_rows(60, 9, 0.2) + make_rows(30, 10, 0.9)
    for _ in range(70):
        values = [[v for v in c if v not in (INF, -INF)] for c in CANDIDATES[place]]
        rows.append([rng.choice(v) for v in values])
    rules = [parse(export_text(forest, tree, max_depth=None)) for tree in range(len(forest))]
    for row in rows:
        for tree, leaf in zip(rules, leaves(forest, row), strict=True):
            votes = list(forest.votes[leaf * forest.n_votes : (leaf + 1) * forest.n_votes])
            kind, says = follow(tree, row).split(": ")
            if forest.regression:
                exact = forest.low + forest.span * votes[0] / forest.scale
                assert (kind, float(says)) == ("value", pytest.approx(exact, rel=1e-6, abs=1e-6))
            else:
                assert (kind, says) == ("class", forest.classes[votes.index(max(votes))])


@forests
def test_all_trees_have_a_heading_each(forest):
    text = export_text(forest, decimals=3)
    parts = [f"tree {i}\n{export_text(forest, i, decimals=3)}" for i in range(len(forest))]
    assert text == "\n\n".join(parts)


def test_missing_values_are_not_mentioned_if_not_wanted():
    text = export_text(FORESTS[0], max_depth=None, show_missing=False)
    words = export_text(FORESTS[0], max_depth=None)
    assert " or missing\n" in words
    assert " or missing\n" not in text
    assert "nor missing" not in text
    assert len(text.splitlines()) == len(words.splitlines())


def test_the_text_of_a_small_forest():
    assert export_text(small(), show_votes=True) == (
        """\
tree 0
|--- t <= 21.5
|   |--- class: early (early 100%)
|--- t > 21.5 or missing
|   |--- day is 'sat'
|   |   |--- t <= 25.25
|   |   |   |--- class: late (late 100%)
|   |   |--- t > 25.25 or missing
|   |   |   |--- class: early (early 100%)
|   |--- day is not 'sat'
|   |   |--- class: late (late 75%, early 25%)

tree 1
|--- t <= 20.15 or missing
|   |--- class: early (early 100%)
|--- t > 20.15
|   |--- wet is present
|   |   |--- wet <= 0.1
|   |   |   |--- class: late (late 100%)
|   |   |--- wet > 0.1
|   |   |   |--- class: early (early 100%)
|   |--- wet is missing
|   |   |--- class: late (late 100%)

tree 2
|--- day is 'sun' or missing
|   |--- class: early (early 100%)
|--- day is neither 'sun' nor missing
|   |--- class: late (late 100%)"""
    )


def of_sklearn(model, names):
    """The same tree as one of ours."""
    tree = model.tree_

    def node(i):
        if tree.children_left[i] < 0:
            return [round(float(v) * 1000) for v in tree.value[i].ravel()]
        below = node(tree.children_left[i]), node(tree.children_right[i])
        return (int(tree.feature[i]), float(tree.threshold[i]), *below)

    classes = [int(k) for k in getattr(model, "classes_", ())] or None
    forest = build([node(0)], names, classes, scale=1000 if classes else 60000)
    if not classes:
        forest.span = 60.0
    return forest


@pytest.mark.parametrize("max_depth", [0, 1, 2, 5, 30])
def test_the_text_is_that_of_scikit_learn(max_depth):
    digits = load_digits()
    names = [f"pixel {i}" for i in range(64)]
    model = DecisionTreeClassifier(max_leaf_nodes=40, random_state=0)
    model.fit(digits.data, digits.target)
    theirs = sklearn_text(model, feature_names=names, max_depth=max_depth, decimals=2)
    ours = export_text(of_sklearn(model, names), 0, max_depth, 2, show_missing=False)
    assert ours == theirs.replace(">  ", "> ").rstrip("\n")


def test_the_text_of_a_regression_is_that_of_scikit_learn():
    X, y = load_diabetes(return_X_y=True)
    y = np.minimum(y, 59).round()  # leaves' means have few digits
    model = DecisionTreeRegressor(max_depth=4, min_samples_leaf=20).fit(X, y)
    names = [f"x{i}" for i in range(10)]
    theirs = sklearn_text(model, feature_names=names, decimals=2, max_depth=3)
    ours = export_text(of_sklearn(model, names), 0, 3, 2, show_missing=False)
    theirs = re.sub(r"value: \[(.*)\]", r"value: \1", theirs.replace(">  ", "> "))
    assert ours == theirs.rstrip("\n")


def test_a_tree_deeper_than_recursion_goes():
    deep = 5000
    forest = build([[1, 0]], ["x"], ["a", "b"], scale=1)
    forest.feature = array("H", [0] * deep + [LEAF] * (deep + 1))
    forest.threshold = array("f", [*range(deep, 0, -1)] + [0.0] * (deep + 1))
    forest.right = array("H", [2 * deep - i for i in range(deep)] + [0] * (deep + 1))
    assert "truncated branch of depth 4999" in export_text(forest, max_depth=1)
    (condition,) = explain(forest, [7.5]).conditions
    assert (condition.low, condition.high, condition.nodes) == (7, 8, deep - 6)


# ---- What is given ----------------------------------------------------------------------------


class Series:
    """Values by name, as pandas gives a row."""

    def __init__(self, values):
        self.values = values

    def to_dict(self):
        return self.values


def test_rows_of_every_form():
    forest = fit(gaps=0.0)
    row = ["blue", 0.25, 0.5, 5, 1]
    page = str(explain(forest, row))
    by_name = dict(zip(NAMES, row, strict=True))
    backwards = dict(reversed(by_name.items()))
    for form in (tuple(row), np.array(row, object), by_name, backwards, Series(backwards)):
        assert str(explain(forest, form)) == page
    numbers = train([[i % 5, i % 3] for i in range(40)], [i % 5 > 1 for i in range(40)])
    page = str(explain(numbers, [2, 1]))
    for form in (array("f", [2, 1]), array("i", [2, 1]), b"\2\1", np.array([2.0, 1.0])):
        assert str(explain(numbers, form)) == page
    assert explain(forest, [np.str_("blue"), np.float32(0.25), 0.5, np.int64(5), 1]) == explain(
        forest, row
    )


def test_an_estimator_is_explained_by_its_forest():
    forest = small()
    model = SimpleNamespace(forest_=forest)
    assert explain(model, [1, "sat", 2]) == explain(forest, [1, "sat", 2])
    assert export_text(model) == export_text(forest)


@pytest.mark.usefixtures("engine")
def test_forests_of_every_engine():
    forest = fit()
    row = make_rows(1, 3, 0.0)[0]
    assert explain(forest, row) == explain(FORESTS[0], row)
    assert export_text(load(forest.to_json())) == export_text(FORESTS[0])


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (
            lambda: explain("forest", [1]),
            TypeError,
            "model must be a Forest or a fitted estimator, got str",
        ),
        (
            lambda: export_text(SimpleNamespace(forest_=None)),
            TypeError,
            "model must be a Forest or a fitted estimator, got SimpleNamespace",
        ),
        (lambda: explain(small(), [1, "sat"]), ValueError, "a row must have 3 values, got 2"),
        (
            lambda: explain(small(), {"t": 1, "day": "sat"}),
            ValueError,
            "row must have a value for each feature, got none for 'wet'; give None where it is "
            "missing",
        ),
        (
            lambda: explain(small(), ["warm", "sat", 1]),
            TypeError,
            "feature 't' must be a number, got 'warm'",
        ),
        (lambda: export_text(small(), 3), ValueError, "tree must be from 0 to 2, got 3"),
        (lambda: export_text(small(), tree=-1), ValueError, "tree must be from 0 to 2, got -1"),
        (
            lambda: explain(small(), [1, "sat", 1]).path(9),
            ValueError,
            "tree must be from 0 to 2, got 9",
        ),
        (
            lambda: export_text(small(), max_depth=-1),
            ValueError,
            "max_depth must be from 0 to 1073741823, got -1",
        ),
        (
            lambda: export_text(small(), decimals=1.5),
            TypeError,
            "decimals must be a whole number, got 1.5",
        ),
    ],
)
def test_errors_are_one_sentence(call, error, sentence):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence
