"""Walk through a forest: its trees, nodes, leaves and votes, whatever bits they are stored in.

Everything that reads or writes the trees of a forest goes through here: exports, explanations,
merging. Only `forest.py` and the predictors know the bits of a node.

>>> from edgeforest import train
>>> forest = train([[i % 4] for i in range(80)], [i % 4 > 1 for i in range(80)], n_trees=2)
>>> for node in tree_nodes(forest, 0):
...     if node.is_leaf:
...         print(node.place, "votes", votes_of(forest, node).tolist())
...     else:
...         print(node.place, "feature", node.feature, "<=", node.threshold, node.left, node.right)
0 feature 0 <= 1.5 1 2
1 votes [65535, 0]
2 votes [0, 65535]
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from edgeforest.criteria import node_word
from edgeforest.forest import FEATURE, LEAF, Forest, split_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgeforest.host.values import Array

MOST_FEATURES = FEATURE  # that a node can name
NARROW = 65535  # nodes up to which 16 bits hold the place of each

_split_of = cache(split_of)  # few words differ


class HasForest(Protocol):
    """A fitted estimator: it holds a forest."""

    @property
    def forest_(self) -> Any: ...


Model: TypeAlias = Forest | HasForest


def forest_of(model: Any, name: str = "model") -> Forest:
    """The forest itself, or that of a fitted estimator; `name` is the argument's, for the error.

    >>> forest_of([1, 2])
    Traceback (most recent call last):
    TypeError: model must be a Forest or a fitted estimator, got list
    """
    forest = getattr(model, "forest_", model)
    if not isinstance(forest, Forest):
        got = type(model).__name__
        raise TypeError(f"{name} must be a Forest or a fitted estimator, got {got}")
    if not len(forest):
        raise ValueError(f"{name} has no trees; train it first")
    return forest


# ---- Nodes ------------------------------------------------------------------------------------


class Node(NamedTuple):
    """A split or a leaf; places are those in the forest's arrays.

    A row goes left if its value is at most the threshold, or equal to it if the feature is
    categorical. A leaf has -1, 0.0 or False for whatever only splits have.
    """

    place: int
    is_leaf: bool
    feature: int
    threshold: float
    categorical: bool
    missing_left: bool  # a missing value goes left
    left: int  # the places of its children
    right: int
    votes: int  # of a leaf, its place among the votes: see `votes_of`

    def goes_left(self, row: Sequence[float]) -> bool:
        """Whether a row goes left: `row` is what `Forest.encode` returns."""
        value = row[self.feature]
        if value != value or (self.categorical and value == 0):
            return self.missing_left
        return value == self.threshold if self.categorical else value <= self.threshold


def node_at(forest: Forest, place: int) -> Node:
    """The node at a place."""
    split, right = _split_of(forest.feature[place]), forest.right[place]
    if split is None:
        return Node(place, True, -1, 0.0, False, False, -1, -1, right)
    feature, categorical, missing_left = split
    cut = forest.threshold[place]
    return Node(place, False, feature, cut, categorical, missing_left, place + 1, right, -1)


def nodes(forest: Forest, start: int = 0, end: int | None = None) -> Iterator[Node]:
    """All nodes in the order in which they are stored, or those from `start` to before `end`."""
    for place in range(start, len(forest.feature) if end is None else end):
        yield node_at(forest, place)


def tree_nodes(forest: Forest, tree: int) -> Iterator[Node]:
    """The nodes of one tree, parents before their children, left before right."""
    return nodes(forest, *extent(forest, tree))


def is_leaf(forest: Forest, place: int) -> bool:
    """Whether the node at this place is a leaf."""
    return forest.feature[place] == LEAF


def leaves(forest: Forest, start: int = 0, end: int | None = None) -> list[int]:
    """The places of all leaves, or of those from `start` to before `end`."""
    return [i for i, word in enumerate(forest.feature[start:end], start) if word == LEAF]


def extent(forest: Forest, tree: int) -> tuple[int, int]:
    """The places of a tree's root and of the node after its last, the farthest right child."""
    feature, right = forest.feature, forest.right
    node = last = forest.roots[tree]
    while node <= last:
        if feature[node] != LEAF and right[node] > last:
            last = right[node]
        node += 1
    return forest.roots[tree], node


def stretches(forest: Forest) -> list[tuple[int, int]]:
    """From where to where each tree has its nodes; some at the end may be out of use.

    Training that was stopped half way leaves such nodes behind; `extent` is without them.
    """
    return list(zip(forest.roots, [*forest.roots[1:], len(forest.feature)], strict=True))


def end_of(forest: Forest, root: int, stop: int) -> int | None:
    """The node after the last of a tree; None if the tree is not in preorder, or ends after `stop`."""
    ahead = []  # right children that are yet to come
    for node in range(root, stop):
        if forest.feature[node] != LEAF:
            ahead.append(forest.right[node])
        elif not ahead:
            return node + 1
        elif ahead.pop() != node + 1:
            return None
    return None


def depth(forest: Forest) -> int:
    """The number of splits on the longest way from a root to a leaf."""
    depths = [0] * len(forest.feature)
    for node, word in enumerate(forest.feature):  # parents come before their children
        if word != LEAF:
            depths[node + 1] = depths[forest.right[node]] = depths[node] + 1
    return max(depths)


def branch_size(forest: Forest, place: int) -> tuple[int, int]:
    """The levels of the branch that begins at a node, and how many leaves it has."""
    levels = n_leaves = 0
    level = [place]
    while level:
        levels += 1
        inner = [node for node in level if forest.feature[node] != LEAF]
        n_leaves += len(level) - len(inner)
        level = [child for node in inner for child in (node + 1, forest.right[node])]
    return levels, n_leaves


# ---- Leaves -----------------------------------------------------------------------------------


def votes_at(forest: Forest, place: int) -> array[int]:
    """The votes at a place among the votes: one for each class, or one level of a regression."""
    return forest.votes[place * forest.n_votes : (place + 1) * forest.n_votes]


def votes_of(forest: Forest, leaf: Node) -> array[int]:
    """The votes of a leaf."""
    return votes_at(forest, leaf.votes)


def tree_value(forest: Forest, votes: int) -> float:
    """What one tree of a regression says by itself: `Forest.value` of one tree."""
    step = array("f", [forest.span / forest.scale])[0]
    part = array("f", [votes * step])[0]
    return array("f", [part + forest.low])[0]


# ---- Writing ----------------------------------------------------------------------------------


def add_leaf(forest: Forest, votes: int) -> None:
    """Append a leaf whose votes are at this place."""
    forest.feature.append(LEAF)
    forest.threshold.append(0.0)
    forest.right.append(votes)


def add_split(
    forest: Forest, feature: int, threshold: float, categorical: bool, missing_left: bool
) -> None:
    """Append a split; its right child is not known yet."""
    forest.feature.append(node_word(feature, categorical, missing_left))
    forest.threshold.append(threshold)
    forest.right.append(0)


def fill(forest: Forest, splits: int, votes: Sequence[int]) -> None:
    """Make it nodes that only count, to learn how large a file they make: leaves, then splits."""
    n_leaves = len(votes)
    forest.feature = array("H", [LEAF]) * n_leaves
    forest.feature.extend(array("H", [node_word(0, False, False)]) * splits)
    forest.threshold = array("f", [0.0]) * (n_leaves + splits)
    forest.right = array("I", votes)
    forest.right.extend([0] * splits)


# ---- All nodes at once, with NumPy ------------------------------------------------------------


@dataclass(frozen=True)
class NodeArrays:
    """Every node of a forest, as `Node` has it: an array a field. Zero where a node has none."""

    is_leaf: NDArray[np.bool_]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float32]
    categorical: NDArray[np.bool_]
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    votes: NDArray[np.int64]  # of leaves, their places among the votes


def arrays(forest: Forest) -> NodeArrays:
    """All nodes as NumPy arrays."""
    import numpy as np

    words = np.asarray(forest.feature)
    some = np.unique(words)
    splits = [_split_of(word) for word in some.tolist()]
    table = np.zeros((4, 1 << 16), np.int64)  # what each word says
    table[:, some] = np.array([(split is None, *(split or (0, 0, 0))) for split in splits]).T
    leaf, categorical, missing_left = (table[i][words] > 0 for i in (0, 2, 3))
    right = np.asarray(forest.right, np.int64)
    left = np.where(leaf, 0, np.arange(1, len(words) + 1))
    return NodeArrays(
        leaf,
        table[1][words],
        np.asarray(forest.threshold, np.float32),
        categorical,
        missing_left,
        left,
        np.where(leaf, 0, right),
        np.where(leaf, right, 0),
    )


def levels(forest: Forest, nodes: NodeArrays) -> list[NDArray[np.int64]]:
    """The places of all splits, depth by depth: sums over branches go through them backwards."""
    import numpy as np

    found = []
    here = np.asarray(forest.roots, np.int64)
    while len(here := here[~nodes.is_leaf[here]]):
        found.append(here)
        here = np.concatenate([nodes.left[here], nodes.right[here]])
    return found


def votes_by_leaf(forest: Forest) -> Callable[[Array], NDArray[np.int64]]:
    """A function from places of leaves among all nodes to their votes, (..., classes)."""
    import numpy as np

    table, places = vote_table(forest), np.asarray(forest.right)
    return lambda leaves: table[places[leaves]]


def words(leaf: Array, feature: Array, categorical: Array | bool, missing_left: Array) -> Array:
    """The items of `Forest.feature` for nodes; other arrays have any value where `leaf` is true."""
    import numpy as np

    kind = np.where(categorical, node_word(0, True, False), 0)
    found: Array = feature | kind | np.where(missing_left, node_word(0, False, True), 0)
    return np.where(leaf, LEAF, found)


def vote_table(forest: Forest) -> NDArray[np.int64]:
    """All votes, (places, classes)."""
    import numpy as np

    return np.asarray(forest.votes, np.int64).reshape(-1, forest.n_votes)
