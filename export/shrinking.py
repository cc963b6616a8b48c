"""Make a forest smaller without a change of any vote; or smaller still, with fewer levels of votes.

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
from typing import Any, TypeAlias

from edgeforest.checks import between
from edgeforest.forest import EQUAL, FEATURE, HUGE, INF, LEAF, LEVELS, MISSING_LEFT, Forest
from edgeforest.forests.merging import _forest, like
from edgeforest.host.frames import rows_of

_Paths: TypeAlias = "dict[int, _Numbers | _Categories]"
BOTH = 0  # sides that rows of a node can go to
ONLY_LEFT = 1
ONLY_RIGHT = 2


@dataclass(frozen=True)
class Shrinkage:
    """What `shrink` did: sizes before and after, and predictions that changed.

    Bytes are those of the model as JSON, votes the stored ones: one for each class, or one level of
    a regression, of each leaf or each distinct leaf, whichever takes less. `changed` of `rows`
    predictions differ; without rows both are 0.
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
        told = f"; {self.changed} of {self.rows} predictions change" if self.rows else ""
        return (
            f"{self.bytes_before} to {self.bytes_after} bytes, "
            f"{self.nodes_before} to {self.nodes_after} nodes, "
            f"{self.votes_before} to {self.votes_after} votes{told}"
        )


def shrink(forest: Any, rows: Any = None, *, levels: int | None = None) -> tuple[Forest, Shrinkage]:
    """A smaller forest, of a Forest or a fitted estimator, and what became of its size.

    Leaves that vote alike share their votes, where that takes less. Tests are left out that cannot
    go both ways, or lead to the same votes either way, or add nothing to another of the same
    number; so are nodes and votes that nothing leads to. All that changes no vote of any row. With
    `levels`, from 1 to 65535, a leaf shares that many votes out, so that more of them are alike:
    the forest then answers a little differently. Give `rows` to count how many predictions change.

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
    forest = _forest(forest, "forest")
    small = like(forest)
    if levels is not None:
        small.scale = min(forest.scale, between("levels", levels, 1, LEVELS))
    subtrees = _Subtrees(forest, small.scale)
    if len(forest.feature) > 65535:
        small.right = array("I")
    for root in forest.roots:
        subtrees.write(subtrees.read(root), small)
    if len(small.feature) <= 65535:
        small.right = array("H", small.right)
    small.votes = subtrees.votes
    _part(small, forest.n_votes)
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


class _Subtrees:
    """Every subtree once: equal ones, of any tree, have the same number."""

    def __init__(self, forest: Forest, scale: int) -> None:
        self.forest = forest
        self.scale = scale
        self.votes = array("H")
        self.known: dict[tuple[Any, ...], int] = {}  # from what it is to its number
        self.parts: list[tuple[Any, ...]] = []  # and back
        self.places: dict[tuple[int, ...], int] = {}  # of votes that are written

    def number(self, *part: Any) -> int:
        """Of a leaf: its votes. Else feature, threshold, and the numbers of both sides."""
        if part not in self.known:
            self.known[part] = len(self.parts)
            self.parts.append(part)
        return self.known[part]

    def read(self, root: int) -> int:
        """The number of a tree, with what it does not need left out."""
        forest = self.forest
        order, sides = _walk(forest, root)
        found: dict[int, int] = {}
        for node in reversed(order):  # children come before their parents
            feature, right = forest.feature[node], forest.right[node]
            if feature == LEAF:
                found[node] = self.number(self.vote(right))
                continue
            side = sides[node]
            if side != BOTH:
                found[node] = found[node + 1 if side == ONLY_LEFT else right]
            else:
                test = feature, forest.threshold[node]
                found[node] = self.split(*test, found[node + 1], found[right])
        return found[root]

    def split(self, feature: int, threshold: float, left: int, right: int) -> int:
        """The number of a subtree that begins with this test, or of a smaller one that votes alike.

        "Is x at most 1, and if so, at most 0?" is one test if both answers no lead to the same.
        """
        while left != right:
            to_left = feature & MISSING_LEFT
            one, two = self.parts[left], self.parts[right]
            if self.continues(feature, one) and one[1] < threshold and one[3] == right:
                feature = one[0] if to_left else feature
                threshold, left = one[1], one[2]
            elif self.continues(feature, two) and two[1] > threshold and two[2] == left:
                feature = feature if to_left else two[0]
                threshold, right = two[1], two[3]
            else:
                return self.number(feature, threshold, left, right)
        return right

    def continues(self, feature: int, part: tuple[Any, ...]) -> bool:
        """Whether a subtree begins with a test of the same number; missing values do not matter."""
        return len(part) > 1 and not feature & EQUAL and not (feature ^ part[0]) & ~MISSING_LEFT

    def vote(self, place: int) -> tuple[int, ...]:
        """The votes of a leaf, at the new scale."""
        width, old = self.forest.n_votes, self.forest.scale
        votes = self.forest.votes[place * width : (place + 1) * width]
        if self.scale == old:
            return tuple(votes)
        changed = []
        upto = before = 0
        for vote in votes:  # rounded so that they add up
            upto += vote
            after = (2 * upto * self.scale + old) // (2 * old)
            changed.append(after - before)
            before = after
        return tuple(changed)

    def write(self, number: int, small: Forest) -> None:
        """Append a tree in preorder; leaves that vote alike share their votes."""
        small.roots.append(len(small.feature))
        stack = [(number, -1)]
        while stack:
            number, parent = stack.pop()
            here = len(small.feature)
            if parent >= 0:
                small.right[parent] = here
            part = self.parts[number]
            if len(part) == 1:
                small.feature.append(LEAF)
                small.threshold.append(0.0)
                small.right.append(self.place(part[0]))
                continue
            feature, threshold, left, right = part
            small.feature.append(feature)
            small.threshold.append(threshold)
            small.right.append(0)
            stack.append((right, here))
            stack.append((left, -1))

    def place(self, votes: tuple[int, ...]) -> int:
        """Where these votes are stored: only those that are written are."""
        if votes not in self.places:
            self.places[votes] = len(self.places)
            self.votes.extend(votes)
        return self.places[votes]


def _part(small: Forest, width: int) -> None:
    """Give each leaf votes of its own if a file takes less so: it then tells no places of votes."""
    leaves = [i for i, f in enumerate(small.feature) if f == LEAF]
    size = 1 if max(small.votes) < 256 else 2
    shared = len(leaves) * small.right.itemsize + len(small.votes) * size
    if len(leaves) * width * size > shared:
        return
    votes = array("H")
    for place, leaf in enumerate(leaves):
        start = small.right[leaf] * width
        votes.extend(small.votes[start : start + width])
        small.right[leaf] = place
    small.votes = votes


# ---- Which way rows can go --------------------------------------------------------------------


class _Numbers:
    """What is known of a number at a node: low < x <= high, or it is missing."""

    def __init__(self, low: float = -INF, high: float = INF, missing: bool = True) -> None:
        self.low, self.high, self.missing = low, high, missing

    def split(self, threshold: float, to_left: bool) -> tuple[_Numbers | None, _Numbers | None]:
        """What is known on the left and on the right; None where no row can go."""
        left = _Numbers(self.low, min(self.high, threshold), self.missing and to_left)
        right = _Numbers(max(self.low, threshold), self.high, self.missing and not to_left)
        return left.some(), right.some()

    def some(self) -> _Numbers | None:
        return self if self.missing or self.low < self.high else None


class _Categories:
    """What is known of a category at a node: it is one, or none of some, or it is missing."""

    def __init__(
        self, one: float = 0.0, none: frozenset[float] = frozenset(), missing: bool = True
    ) -> None:
        self.one, self.none, self.missing = one, none, missing

    def split(self, code: float, to_left: bool) -> tuple[_Categories | None, _Categories | None]:
        missing_left, missing_right = self.missing and to_left, self.missing and not to_left
        left = right = None
        if missing_left or (code not in self.none and self.one in (0.0, code) and code):
            left = _Categories(code, frozenset(), missing_left)
        if missing_right or self.one != code or not code:
            right = _Categories(self.one, self.none | {code}, missing_right)
        return left, right


def _walk(forest: Forest, root: int) -> tuple[list[int], dict[int, int]]:
    """The nodes that rows can reach, parents first, and where rows can go from each."""
    order: list[int] = []
    sides: dict[int, int] = {}
    paths: _Paths = {}
    stack = [(root, paths)]
    while stack:
        node, paths = stack.pop()
        order.append(node)
        if len(order) > len(forest.feature):
            raise ValueError("trees of this forest share nodes; train it again, or load it anew")
        feature, threshold = forest.feature[node], forest.threshold[node]
        if feature == LEAF:
            continue
        f, equal = feature & FEATURE, bool(feature & EQUAL)
        left_paths = right_paths = paths
        sides[node] = BOTH
        # Tests that no training makes stay as they are.
        if equal == (forest.categories[f] is not None) and -HUGE <= threshold <= HUGE:
            known: Any = paths.get(f) or (_Categories() if equal else _Numbers())
            left, right = known.split(threshold, bool(feature & MISSING_LEFT))
            if left is None or right is None:
                sides[node] = ONLY_LEFT if right is None else ONLY_RIGHT
            left_paths, right_paths = {**paths, f: left}, {**paths, f: right}
        if sides[node] != ONLY_LEFT:
            stack.append((forest.right[node], right_paths))
        if sides[node] != ONLY_RIGHT:
            stack.append((node + 1, left_paths))
    return order, sides
