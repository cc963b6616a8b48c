"""Make a forest smaller without changing any vote; or smaller still, with fewer levels of votes.

>>> from edgeforest import train
>>> rows = [[i % 7, i % 3] for i in range(60)]
>>> forest = train(rows, [a > 2 for a, _ in rows], n_trees=5, max_features=2)
>>> small, report = shrink(forest, rows)
>>> small.predict_proba(rows) == forest.predict_proba(rows), report.changed
(True, 0)
>>> report.bytes_after < report.bytes_before
True
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from edgeforest.budget import between
from edgeforest.codes import vote_shares
from edgeforest.forest import HUGE, INF, LEVELS, Forest
from edgeforest.forests.merging import like
from edgeforest.forests.walking import (
    NARROW,
    Node,
    add_leaf,
    add_split,
    forest_of,
    leaves,
    node_at,
    votes_of,
)
from edgeforest.host.frames import rows_of

_Paths: TypeAlias = "dict[int, _Numbers | _Categories]"
BOTH = 0  # where the rows of a node can go
ONLY_LEFT = 1
ONLY_RIGHT = 2


@dataclass(frozen=True)
class Shrinkage:
    """What `shrink` did: sizes before and after, and predictions that changed.

    Bytes are those of the model as JSON. Votes are the stored ones, one for each class (or one
    level of a regression) of each leaf, or of each distinct leaf if that takes less. `changed` of
    `rows` predictions differ; without rows both are 0.
    """

    bytes_before: int
    bytes_after: int
    nodes_before: int
    nodes_after: int
    votes_before: int
    votes_after: int
    rows: int
    changed: int

    def __str__(self) -> str:
        """Three sizes and the changes, in one line.

        >>> print(Shrinkage(2000, 900, 60, 40, 60, 8, 100, 0))
        2000 to 900 bytes, 60 to 40 nodes, 60 to 8 votes; 0 of 100 predictions change
        """
        changes = f"; {self.changed} of {self.rows} predictions change" if self.rows else ""
        return (
            f"{self.bytes_before} to {self.bytes_after} bytes, "
            f"{self.nodes_before} to {self.nodes_after} nodes, "
            f"{self.votes_before} to {self.votes_after} votes{changes}"
        )


def shrink(forest: Any, rows: Any = None, *, levels: int | None = None) -> tuple[Forest, Shrinkage]:
    """A smaller copy of a Forest or of a fitted estimator's forest, and a report of the sizes.

    Leaves with the same votes share them, where that takes less. Splits are left out if rows can go
    only one way, if both ways lead to the same votes, or if another split on the same number makes
    them needless; so are nodes and votes that nothing leads to. None of this changes a vote of any
    row. With `levels`, from 1 to 65535, a leaf distributes that many votes, so that more leaves are
    the same: the forest then answers a little differently. Give `rows` to count how many
    predictions change.

    >>> from edgeforest import train
    >>> rows = [[i % 7, i % 5] for i in range(70)]
    >>> forest = train(rows, [a + b for a, b in rows], criterion="mse", n_trees=8)
    >>> small, report = shrink(forest, rows, levels=255)
    >>> small.scale, report.rows, report.bytes_after < report.bytes_before
    (255, 70, True)
    >>> shrink(forest, levels=0)
    Traceback (most recent call last):
    ValueError: levels must be from 1 to 65535, got 0
    """
    forest = forest_of(forest, "forest")
    small = like(forest)
    if levels is not None:
        small.scale = min(forest.scale, between("levels", levels, 1, LEVELS))
    subtrees = _Subtrees(forest, small.scale)
    if len(forest.feature) > NARROW:
        small.right = array("I")
    for root in forest.roots:
        subtrees.write(subtrees.read(root), small)
    if len(small.feature) <= NARROW:
        small.right = array("H", small.right)
    small.votes = subtrees.votes
    unshare(small, forest.n_votes)
    if small.scale == forest.scale:  # every tree votes as it did
        small.calibration = forest.calibration
    small.prepare()
    rows = rows_of(forest, rows)
    if rows is not None and not hasattr(rows, "__len__"):
        rows = list(rows)  # they are predicted twice
    before, after = ([] if rows is None else one.predict(rows) for one in (forest, small))
    if not isinstance(before, list):
        before, after = [before], [after]
    return small, Shrinkage(
        len(forest.to_json().encode()),
        len(small.to_json().encode()),
        len(forest.feature),
        len(small.feature),
        len(forest.votes),
        len(small.votes),
        len(before),
        sum(one != two for one, two in zip(before, after, strict=True)),
    )


class _Leaf(NamedTuple):
    """A subtree that is a leaf."""

    votes: tuple[int, ...]


class _Split(NamedTuple):
    """A subtree that begins with a split; `left` and `right` are subtrees too."""

    feature: int
    threshold: float
    categorical: bool
    missing_left: bool
    left: int
    right: int


def _continues(other: _Leaf | _Split, split: _Split) -> TypeGuard[_Split]:
    """Whether the other one begins with a split on the same feature, a number."""
    return isinstance(other, _Split) and other.feature == split.feature and not other.categorical


class _Subtrees:
    """Every subtree once: equal ones, of any tree, have the same place."""

    def __init__(self, forest: Forest, scale: int) -> None:
        self.forest = forest
        self.scale = scale
        self.votes = array("H")
        self.places: dict[_Leaf | _Split, int] = {}
        self.subtrees: list[_Leaf | _Split] = []  # by their places
        self.written: dict[tuple[int, ...], int] = {}  # where votes are in `votes`

    def place(self, subtree: _Leaf | _Split) -> int:
        """The place of a subtree; a new one if it is not known."""
        new = len(self.subtrees)
        place = self.places.setdefault(subtree, new)
        if place == new:
            self.subtrees.append(subtree)
        return place

    def read(self, root: int) -> int:
        """The place of a tree, without what it does not need."""
        order, sides = _walk(self.forest, root)
        found: dict[int, int] = {}
        for node in reversed(order):  # children come before their parents
            if node.is_leaf:
                found[node.place] = self.place(_Leaf(self.scaled(node)))
            elif sides[node.place] != BOTH:
                to_left = sides[node.place] == ONLY_LEFT
                found[node.place] = found[node.left if to_left else node.right]
            else:
                test = node.feature, node.threshold, node.categorical, node.missing_left
                found[node.place] = self.split(_Split(*test, found[node.left], found[node.right]))
        return found[root]

    def split(self, new: _Split) -> int:
        """The place of this subtree, or of a smaller one that always votes the same.

        "Is x at most 1, and if so, at most 0?" is one question if both answers no lead to the same.
        """
        while new.left != new.right:
            one, two = self.subtrees[new.left], self.subtrees[new.right]
            if new.categorical:
                return self.place(new)
            if _continues(one, new) and one.right == new.right and one.threshold < new.threshold:
                new = one._replace(missing_left=new.missing_left and one.missing_left)
            elif _continues(two, new) and two.left == new.left and two.threshold > new.threshold:
                new = two._replace(missing_left=new.missing_left or two.missing_left)
            else:
                return self.place(new)
        return new.right

    def scaled(self, leaf: Node) -> tuple[int, ...]:
        """The votes of a leaf, at the new scale."""
        votes = votes_of(self.forest, leaf)
        if self.scale == self.forest.scale:
            return tuple(votes)
        return tuple(vote_shares(votes, self.forest.scale, self.scale))

    def write(self, place: int, small: Forest) -> None:
        """Append a tree in preorder; leaves with the same votes share them."""
        small.roots.append(len(small.feature))
        stack = [(place, -1)]
        while stack:
            place, parent = stack.pop()
            here = len(small.feature)
            if parent >= 0:
                small.right[parent] = here
            subtree = self.subtrees[place]
            if isinstance(subtree, _Leaf):
                add_leaf(small, self.write_votes(subtree.votes))
            else:
                feature, threshold, categorical, missing_left, left, right = subtree
                add_split(small, feature, threshold, categorical, missing_left)
                stack.append((right, here))
                stack.append((left, -1))

    def write_votes(self, votes: tuple[int, ...]) -> int:
        """Where these votes are stored: they are written once."""
        if votes not in self.written:
            self.written[votes] = len(self.written)
            self.votes.extend(votes)
        return self.written[votes]


def unshare(small: Forest, n_votes: int) -> None:
    """Give each leaf its own votes if the file is smaller: it then needs no places of votes."""
    places = leaves(small)
    size = 1 if max(small.votes) < 256 else 2
    shared = len(places) * small.right.itemsize + len(small.votes) * size
    if len(places) * n_votes * size > shared:
        return
    votes = array("H")
    for i, leaf in enumerate(places):
        start = small.right[leaf] * n_votes
        votes.extend(small.votes[start : start + n_votes])
        small.right[leaf] = i
    small.votes = votes


# ---- Which way rows can go --------------------------------------------------------------------


class _Numbers:
    """What is known about a number at a node: low < x <= high, or it is missing."""

    def __init__(self, low: float = -INF, high: float = INF, missing: bool = True) -> None:
        self.low, self.high, self.missing = low, high, missing

    def split(
        self, threshold: float, missing_left: bool
    ) -> tuple[_Numbers | None, _Numbers | None]:
        """What is known on the left and on the right; None where no row can go."""
        left = _Numbers(self.low, min(self.high, threshold), self.missing and missing_left)
        right = _Numbers(max(self.low, threshold), self.high, self.missing and not missing_left)
        return left.some(), right.some()

    def some(self) -> _Numbers | None:
        return self if self.missing or self.low < self.high else None


class _Categories:
    """What is known about a category at a node: `one`, or not one of `none`, or missing."""

    def __init__(
        self, one: float = 0.0, none: frozenset[float] = frozenset(), missing: bool = True
    ) -> None:
        self.one, self.none, self.missing = one, none, missing

    def split(
        self, code: float, missing_left: bool
    ) -> tuple[_Categories | None, _Categories | None]:
        """What is known on the left and on the right; None where no row can go."""
        to_left, to_right = self.missing and missing_left, self.missing and not missing_left
        left = right = None
        if to_left or (code not in self.none and self.one in (0.0, code) and code):
            left = _Categories(code, frozenset(), to_left)
        if to_right or self.one != code or not code:
            right = _Categories(self.one, self.none | {code}, to_right)
        return left, right


def _walk(forest: Forest, root: int) -> tuple[list[Node], dict[int, int]]:
    """The nodes that rows can reach, parents first, and where rows can go from each."""
    order: list[Node] = []
    sides: dict[int, int] = {}
    paths: _Paths = {}
    stack = [(root, paths)]
    while stack:
        place, paths = stack.pop()
        node = node_at(forest, place)
        order.append(node)
        if len(order) > len(forest.feature):
            raise ValueError("the trees of this forest share nodes; train or load it again")
        if node.is_leaf:
            continue
        f, kind = node.feature, node.categorical
        left_paths = right_paths = paths
        side = BOTH
        # Splits that no training makes stay as they are.
        if kind == (forest.categories[f] is not None) and -HUGE <= node.threshold <= HUGE:
            known: Any = paths.get(f) or (_Categories() if kind else _Numbers())
            left, right = known.split(node.threshold, node.missing_left)
            if left is None or right is None:
                side = ONLY_LEFT if right is None else ONLY_RIGHT
            left_paths, right_paths = {**paths, f: left}, {**paths, f: right}
        sides[place] = side
        if side != ONLY_LEFT:
            stack.append((node.right, right_paths))
        if side != ONLY_RIGHT:
            stack.append((node.left, left_paths))
    return order, sides
