"""Pictures of forests: they say what the text says, nothing lies over anything, nothing is cut."""

import random
import re
import sys
from itertools import combinations, pairwise
from types import SimpleNamespace

import pytest

from edgeforest import train
from edgeforest.forest import LEAF
from edgeforest.forests.explanation import explain, export_text

matplotlib = pytest.importorskip(
    "matplotlib", reason="plots need matplotlib: pip install 'edgeforest[viz]'"
)
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402
from matplotlib.patches import FancyBboxPatch, Rectangle  # noqa: E402

from edgeforest.forests.plots import plot_importances, plot_tree  # noqa: E402

pytestmark = pytest.mark.filterwarnings("error")

NAMES = ["colour", "temperature", "a name that is far too long to be shown in a box", "$x$", "z_1"]


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def fit(regression=False, **options):
    rng = random.Random(4)
    rows = []
    for _ in range(300):
        row = [rng.choice("abc"), rng.gauss(0, 9), rng.random(), rng.random() * 1e6, rng.random()]
        rows.append([None if rng.random() < 0.1 else v for v in row])
    y = [
        3 * (a == "a") + ((b or 0) > 1) + 2 * ((c or 0) > 0.4) + ((d or 0) > 4e5)
        for a, b, c, d, _ in rows
    ]
    if not regression:
        y = [["calm", "windy", "storm"][v % 3] for v in y]
    options = {"n_trees": 2, "names": NAMES, "categorical": [0], **options}
    return train(rows, y, criterion="mse" if regression else "gini", **options)


FORESTS = {
    "classes": fit(),
    "pure leaves": fit(max_features=5),
    "sixteen leaves": fit(max_leaf_nodes=16),
    "numbers": fit(regression=True),
    "many classes": train([[i % 40] for i in range(400)], [i % 40 for i in range(400)]),
    "one leaf": fit(max_depth=0),
}
DEPTHS = {"classes": 3, "pure leaves": 4, "sixteen leaves": None, "numbers": 2}
forests = pytest.mark.parametrize("name", FORESTS)


def boxes(ax):
    """The boxes of a tree as they are on the picture, in pixels."""
    ax.figure.draw_without_rendering()
    return [p.get_window_extent() for p in ax.patches if isinstance(p, FancyBboxPatch)]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def contains(outer, inner, slack=1.0):
    return (
        outer.x0 - slack <= inner.x0
        and inner.x1 <= outer.x1 + slack
        and outer.y0 - slack <= inner.y0
        and inner.y1 <= outer.y1 + slack
    )


@forests
@pytest.mark.parametrize("size", [None, (14, 6), (9, 2)], ids=["own figure", "axes", "low axes"])
def test_boxes_do_not_overlap_and_texts_are_within_them(name, size):
    ax = None
    if size:
        _, (_, ax) = plt.subplots(1, 2, figsize=size, dpi=300)
    ax = plot_tree(FORESTS[name], 1, DEPTHS.get(name, 3), ax)
    found = boxes(ax)
    for one, other in combinations(found, 2):
        assert not one.overlaps(other)
    room = ax.get_window_extent()
    assert all(contains(room, box) for box in found)
    sizes = [text.get_window_extent() for text in ax.texts]
    for one, other in combinations(sizes, 2):
        assert not one.overlaps(other)
    for text, size in zip(ax.texts, sizes, strict=True):
        if text.get_text() in ("yes", "no"):
            assert not any(size.overlaps(box) for box in found)
        else:
            assert any(contains(box, size) for box in found), text.get_text()


@forests
def test_lines_cross_no_box(name):
    ax = plot_tree(FORESTS[name], 1, DEPTHS.get(name, 3))
    found = boxes(ax)
    for line in ax.lines:
        way = ax.transData.transform(line.get_xydata())
        for (x0, y0), (x1, y1) in pairwise(way):
            for box in found:
                across = min(x0, x1) < box.x1 - 1 and box.x0 + 1 < max(x0, x1)
                along = min(y0, y1) < box.y1 - 1 and box.y0 + 1 < max(y0, y1)
                if x0 == x1:
                    across = box.x0 + 1 < x0 < box.x1 - 1
                if y0 == y1:
                    along = box.y0 + 1 < y0 < box.y1 - 1
                assert not (across and along)


@forests
def test_a_tree_has_the_boxes_of_its_text(name):
    """In the order of the text: what is asked, what leaves say, what is left out."""
    forest, depth = FORESTS[name], DEPTHS.get(name, 3)
    lines = export_text(forest, 1, depth, show_votes=True).splitlines()
    ends = [line.split("|--- ")[1] for line in lines]
    ends = [end for end in ends if re.match("class|value|truncated", end)]
    found = texts(plot_tree(forest, 1, depth))
    questions = found.count("yes")
    assert questions == found.count("no") == len(ends) - 1
    assert found.count("…") == sum(end.startswith("truncated") for end in ends)
    said = [end.partition(": ")[2].partition(" (")[0] for end in ends if "truncated" not in end]
    if forest.regression:
        said = [f"{float(value):.4g}" for value in said]
    else:
        shares = [re.search(r" \((.*)\)", end)[1] for end in ends if "truncated" not in end]
        firsts = [text.partition(", ")[0].rpartition(" ")[2] for text in shares]
        assert [text for text in found if text.endswith("%")] == firsts
    kinds = {*map(str, forest.classes or ())} or set(said)
    assert [text for text in found if text in kinds] == said


def test_what_is_left_out_is_counted():
    forest = FORESTS["classes"]
    first, end = forest.roots[1], len(forest.feature)
    whole = sum(f == LEAF for f in forest.feature[first:end])
    for depth in (0, 2, 5):
        found = texts(plot_tree(forest, 1, depth))
        hidden = [int(text.split()[0]) for text in found if text.endswith(" leaves")]
        assert sum(text.endswith("%") for text in found) + sum(hidden) == whole
        assert len(hidden) == found.count("…")


def test_rows_that_answer_yes_go_left():
    forest = train([[i % 4] for i in range(80)], [i % 4 > 1 for i in range(80)], n_trees=1)
    ax = plot_tree(forest)
    places = {text.get_text(): text.get_position()[0] for text in ax.texts}
    assert explain(forest, [0]).prediction is False
    assert places["False"] < places["x0 ≤ 1.5"] < places["True"]
    assert places["yes"] < places["x0 ≤ 1.5"] < places["no"]


def test_names_are_shortened_and_not_taken_for_formulas():
    forest = FORESTS["pure leaves"]
    trees = [plot_tree(forest, t, None) for t in range(len(forest))]
    labels = plot_importances(forest).get_yticklabels()
    assert not any(text.get_parse_math() for ax in trees for text in [*ax.texts, *labels])
    found = [text for ax in trees for text in texts(ax)]
    assert "a name that…wn in a box" in found
    assert any(text.startswith("$x$") for text in found)
    assert not any(NAMES[2] in text for text in found)
    found = texts(plot_tree(FORESTS["classes"], 0, None))
    assert any(re.fullmatch("(colour )?is '[abc]'", text) for text in found)


def test_missing_values_are_mentioned_where_they_answer_yes():
    forest = FORESTS["pure leaves"]
    lines = export_text(forest, 0, None).splitlines()
    sides = [line for line in lines if re.search("(<= .*|is '.') or missing$", line)]
    assert texts(plot_tree(forest, 0, None)).count("or missing") == len(sides) > 0
    assert "or missing" not in texts(plot_tree(forest, 0, None, show_missing=False))


def test_leaves_have_the_colour_of_their_class_and_a_bar_of_shares():
    forest = fit(min_samples_leaf=20)
    ax = plot_tree(forest, 0, None)
    ax.figure.draw_without_rendering()
    bars = [p for p in ax.patches if isinstance(p, Rectangle)]
    whole = [p for p in ax.patches if isinstance(p, FancyBboxPatch)]
    colours = {}
    leaves = [text for text in ax.texts if text.get_text() in forest.classes]
    notes = [text.get_text() for text in ax.texts if text.get_text().endswith("%")]
    assert len(leaves) > 4
    for text, note in zip(leaves, notes, strict=True):
        (box,) = [b for b in whole if contains(b.get_window_extent(), text.get_window_extent())]
        parts = [b for b in bars if contains(box.get_window_extent(), b.get_window_extent())]
        widths = [b.get_width() for b in parts]
        most = parts[widths.index(max(widths))]
        share = float(note.rstrip("%")) / 100
        assert max(widths) / sum(widths) == pytest.approx(share, abs=0.0006)
        colours.setdefault(text.get_text(), set()).add(to_hex(most.get_facecolor()))
    assert all(len(found) == 1 for found in colours.values())
    assert len(set.union(*colours.values())) == len(colours)


def test_higher_values_are_stronger():
    forest = train([[i % 4] for i in range(80)], [i % 4 for i in range(80)], criterion="mse")
    ax = plot_tree(forest, 0)
    ax.figure.draw_without_rendering()
    shades = {}
    for box in ax.patches:
        for text in ax.texts:
            if contains(box.get_window_extent(), text.get_window_extent()):
                shades[text.get_text()] = sum(box.get_facecolor()[:3])
    assert shades["0"] > shades["1"] > shades["2"] > shades["3"]


def test_a_tree_is_drawn_where_it_was_asked_for():
    _, axes = plt.subplots(2, 2)
    model = SimpleNamespace(forest_=FORESTS["classes"])
    assert plot_tree(model, 1, ax=axes[1, 0]) is axes[1, 0]
    assert not axes[0, 0].texts
    assert len(plt.get_fignums()) == 1


# ---- Importances ------------------------------------------------------------------------------


def bars(ax):
    """Names and lengths of the bars from top to bottom."""
    ax.figure.draw_without_rendering()
    found = sorted(ax.patches, key=lambda p: -p.get_window_extent().y0)
    labels = sorted(ax.get_yticklabels(), key=lambda t: -t.get_window_extent().y0)
    names = [label.get_text() for label in labels]
    return list(zip(names, [p.get_width() for p in found], strict=True))


def test_importances_of_the_forest_are_sorted():
    forest = fit(n_trees=5)
    expected = sorted(zip(NAMES, forest.feature_importances, strict=True), key=lambda p: -p[1])
    ax = plot_importances(SimpleNamespace(forest_=forest))
    assert [length for _, length in bars(ax)] == pytest.approx([v for _, v in expected])
    assert [name.split("…")[0] for name, _ in bars(ax)] == [
        name if len(name) <= 48 else name[:24].rstrip() for name, _ in expected
    ]
    top = plot_importances(forest, top=2)
    assert bars(top) == bars(ax)[:2]
    assert top.get_xlabel().endswith("(2 of 5 features)")


def test_importances_that_are_given_with_their_deviations():
    given, std = [0.1, -0.05, 0.3, 0.0, 0.2], [0.01, 0.02, 0.03, 0.04, 0.05]
    ax = plot_importances(fit(), importances=given, std=std)
    assert [length for _, length in bars(ax)] == [0.3, 0.2, 0.1, 0.0, -0.05]
    (lines,) = ax.collections
    ends = [path.vertices[:, 0] for path in lines.get_paths()]
    expected = [(0.27, 0.33), (0.15, 0.25), (0.09, 0.11), (-0.04, 0.04), (-0.07, -0.03)]
    for found, (low, high) in zip(ends, expected, strict=True):
        assert sorted(found) == pytest.approx([low, high])


def test_labels_of_importances_are_not_cut():
    ax = plot_importances(fit())
    ax.figure.draw_without_rendering()
    room = ax.figure.bbox
    labels = [*ax.get_yticklabels(), *ax.get_xticklabels(), ax.xaxis.label]
    sizes = [label.get_window_extent() for label in labels]
    low, high = sorted(ax.get_xlim())
    places = [None] * len(NAMES) + [*ax.get_xticks(), None]
    shown = [s for s, at in zip(sizes, places, strict=True) if at is None or low <= at <= high]
    assert all(contains(room, size) for size in shown)


# ---- What is wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize("plot", [plot_tree, plot_importances])
def test_without_matplotlib_one_sentence_says_how_to_get_it(plot, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError) as caught:
        plot(FORESTS["classes"])
    assert str(caught.value) == (
        "plots need matplotlib, which is not installed; install it (pip install 'edgeforest[viz]')"
    )


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (
            lambda: plot_tree(3),
            TypeError,
            "model must be a Forest or a fitted estimator, got int",
        ),
        (lambda: plot_tree(FORESTS["classes"], 2), ValueError, "tree must be from 0 to 1, got 2"),
        (
            lambda: plot_importances(FORESTS["classes"], importances=[1.0]),
            ValueError,
            "importances must have a number for each of the 5 features, got 1",
        ),
        (
            lambda: plot_importances(FORESTS["classes"], std=[1.0]),
            ValueError,
            "std must have a number for each of the 5 features, got 1",
        ),
        (
            lambda: plot_importances(FORESTS["classes"], top=0),
            ValueError,
            "top must be at least 1, got 0",
        ),
    ],
)
def test_errors_are_one_sentence(call, error, sentence):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence
