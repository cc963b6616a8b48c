"""The walker: what it says of every node, and that nobody else decodes one."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from forests import cases

from edgeforest import Forest, train
from edgeforest.forest import EQUAL, FEATURE, LEAF, MISSING_LEFT
from edgeforest.forests import walking

ROOT = Path(__file__).parents[1]
BITS = {"LEAF", "EQUAL", "FEATURE", "MISSING_LEFT"}
ROOMS = ("edgeforest/forests", "edgeforest/estimators", "edgeforest/cli", "export")
WALKER = (
    "edgeforest/forests/walking.py"  # knows which word is a leaf and how many features there are
)
FILES = [path for room in ROOMS for path in sorted((ROOT / room).glob("**/*.py"))]


def names_in(path: Path) -> set[str]:
    """All names that a file imports, or reads as an attribute of a module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
    return found


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_only_the_walker_knows_the_words_of_nodes(path: Path) -> None:
    allowed = {"LEAF", "FEATURE"} if path == ROOT / WALKER else set()
    assert names_in(path) & BITS <= allowed


def test_every_node_is_decoded_as_it_is_stored() -> None:
    for case in cases():
        forest: Forest = case.forest
        found = list(walking.nodes(forest))
        for i, (word, node) in enumerate(zip(forest.feature, found, strict=True)):
            assert node == walking.node_at(forest, i)
            assert (node.place, node.is_leaf) == (i, word == LEAF)
            assert walking.is_leaf(forest, i) == node.is_leaf
            if node.is_leaf:
                assert (node.votes, node.left, node.right) == (forest.right[i], -1, -1)
                votes = forest.votes[node.votes * forest.n_votes :][: forest.n_votes]
                assert walking.votes_of(forest, node) == votes
            else:
                assert node.feature == word & FEATURE
                assert node.threshold == forest.threshold[i]
                assert (node.categorical, node.missing_left) == (
                    bool(word & EQUAL),
                    bool(word & MISSING_LEFT),
                )
                assert (node.left, node.right) == (i + 1, forest.right[i])


def test_arrays_hold_what_the_nodes_hold() -> None:
    for case in cases():
        nodes = list(walking.nodes(case.forest))
        arrays = walking.arrays(case.forest)
        assert arrays.is_leaf.tolist() == [node.is_leaf for node in nodes]
        splits = ~arrays.is_leaf
        for name in ("feature", "threshold", "categorical", "missing_left", "left", "right"):
            expected = [getattr(node, name) for node in nodes if not node.is_leaf]
            assert getattr(arrays, name)[splits].tolist() == expected, name
        assert arrays.votes[arrays.is_leaf].tolist() == [n.votes for n in nodes if n.is_leaf]
        words = walking.words(
            arrays.is_leaf, arrays.feature, arrays.categorical, arrays.missing_left
        )
        assert words.tolist() == list(case.forest.feature)


def test_a_row_that_walks_by_the_nodes_gets_the_votes_of_the_forest() -> None:
    for case in cases()[::5]:
        forest = case.forest
        for row in case.rows[:8]:
            x = forest.encode(row)
            votes = [0] * forest.n_votes
            for root in forest.roots:
                node = walking.node_at(forest, root)
                while not node.is_leaf:
                    node = walking.node_at(forest, node.left if node.goes_left(x) else node.right)
                votes = np.add(votes, walking.votes_of(forest, node)).tolist()
            expected = [0] * forest.n_votes
            forest.predict_into(x, expected)
            assert votes == expected


def test_trees_end_where_the_next_one_begins_and_nodes_out_of_use_are_left_out() -> None:
    rows = [[i % 7, i % 5] for i in range(70)]
    forest = train(rows, [a > b for a, b in rows], n_trees=3)
    ends = [*forest.roots[1:], len(forest.feature)]
    assert [walking.extent(forest, t) for t in range(3)] == walking.stretches(forest)
    assert [walking.end_of(forest, *part) for part in walking.stretches(forest)] == ends
    walking.add_leaf(forest, 0)  # behind the last tree, where nothing leads
    assert walking.extent(forest, 2) == (forest.roots[2], ends[2])
    assert walking.stretches(forest)[2] == (forest.roots[2], ends[2] + 1)
    assert walking.end_of(forest, *walking.stretches(forest)[2]) == ends[2]
    splits = sum(not node.is_leaf for node in walking.tree_nodes(forest, 2))
    assert len(walking.leaves(forest, *walking.extent(forest, 2))) == splits + 1
    assert walking.branch_size(forest, forest.roots[2])[1] == splits + 1


def test_one_tree_of_a_regression_says_what_a_forest_of_that_tree_says() -> None:
    rows = [[i % 7, i % 5] for i in range(70)]
    forest = train(rows, [a - b / 3 for a, b in rows], criterion="mse", n_trees=1)
    for leaf in walking.leaves(forest):
        (votes,) = walking.votes_of(forest, walking.node_at(forest, leaf))
        assert walking.tree_value(forest, votes) == forest.value(votes)


@pytest.mark.parametrize("wrong", [5, None, "model.json", [1]])
def test_what_is_not_a_forest_is_refused_in_the_same_words_everywhere(wrong: object) -> None:
    from edgeforest import explain, export_text, merge, prune
    from edgeforest.export import rounded_rows, shrink, to_c, to_micropython, to_onnx

    sentence = f"must be a Forest or a fitted estimator, got {type(wrong).__name__}$"
    calls = [
        lambda: explain(wrong, [1]),
        lambda: export_text(wrong),
        lambda: merge([wrong]),
        lambda: prune(wrong, [[1]], [1], max_trees=1),
        lambda: shrink(wrong),
        lambda: to_c(wrong),
        lambda: to_micropython(wrong),
        lambda: to_onnx(wrong),
        lambda: rounded_rows(wrong, [[1]]),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=sentence):
            call()
