"""Bring a forest into the few arrays that the C header and the MicroPython module consist of.

A tree with n splits has n + 1 leaves. Splits lie in preorder and say only how many splits are on
their left: that is enough to find the children and to number the leaves from left to right, so no
child and no leaf has to be pointed at. Trees that are nearly complete are filled up instead: then
the children of split i are 2 i and 2 i + 1, and nothing but the tests is stored.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from edgeforest.forest import EQUAL, FEATURE, LEAF, MISSING_LEFT, Forest

from .scaling import RANGES, Rows, whole_cut

Votes: TypeAlias = tuple[int, ...]

MOST_LEVELS = 14  # of filled-up trees
MOST_SUM = 1 << 24  # above, a float32 does not hold every whole number
FILL = 1.1  # times as many bytes may filling up cost: it saves half of the instructions


@dataclass(frozen=True)
class Question:
    """What a split asks: is the feature at most `cut` (equal to it), and where missing ones go."""

    feature: int
    equal: bool
    missing_left: bool
    cut: float


@dataclass(frozen=True)
class Node:
    """A split, with both children, or a leaf, with its votes."""

    test: Question | None
    left: int = 0
    right: int = 0
    votes: Votes = ()


@dataclass
class Trees:
    """All trees of a forest: splits in preorder, leaves from left to right."""

    tests: list[Question]  # of every split
    skips: list[int]  # how many splits are on its left
    sizes: list[int]  # splits of every tree
    leaves: list[Votes]  # of every tree one more than splits
    levels: int  # splits on the longest way

    def filled(self) -> Trees | None:
        """The same trees, filled up until all are complete; None if they are leaves or too deep."""
        if not 0 < self.levels <= MOST_LEVELS:
            return None
        half = 1 << self.levels
        tests: list[Question] = []
        leaves: list[Votes] = []
        start = 0
        for t, size in enumerate(self.sizes):
            heap = self.tests[:1] * half  # place 0 stays unused
            ends: list[Votes] = [()] * half
            stack = [(1, start, size, start + t)]
            while stack:
                place, split, n, leaf = stack.pop()
                if n:
                    heap[place], s = self.tests[split], self.skips[split]
                    stack.append((2 * place, split + 1, s, leaf))
                    stack.append((2 * place + 1, split + s + 1, n - s - 1, leaf + s + 1))
                else:  # all places below lead to this leaf
                    below = half // (1 << (place.bit_length() - 1))
                    first = place * below - half
                    ends[first : first + below] = [self.leaves[leaf]] * below
            tests += heap
            leaves += ends
            start += size
        return Trees(tests, [], [half] * len(self.sizes), leaves, self.levels)


def as_forest(model: Any) -> Forest:
    """The forest of a model: itself, or that of a fitted estimator."""
    forest = getattr(model, "forest_", model)
    if not isinstance(forest, Forest):
        raise TypeError(f"give a forest or a fitted estimator of edgeforest, got {model!r}")
    return forest


def read_trees(forest: Forest, rows: Rows, scales: Sequence[float] = ()) -> Trees:
    """The trees of a forest, without what cannot matter for rows of this type.

    Rows of whole numbers hold each value times the scale of its feature, 1 by default.
    A category that none equals, and whole numbers, which are never missing and have an end, decide
    some splits beforehand; a split whose sides vote alike is none.
    """
    trees = Trees([], [], [], [], 0)
    width = forest.n_votes
    known: dict[Question | Votes, Any] = {}
    for root in forest.roots:
        nodes: list[Node] = []
        stack = [(root, -1, False)]
        while stack:
            at, parent, on_right = stack.pop()
            test = None
            while forest.feature[at] != LEAF:
                test = _test(forest, at, rows, scales)
                side = _decided(test, rows)
                if side is None:
                    break
                test = None
                at = at + 1 if side == "left" else forest.right[at]
            if parent >= 0:
                up = nodes[parent]
                left, right = (up.left, len(nodes)) if on_right else (len(nodes), up.right)
                nodes[parent] = Node(up.test, left, right)
            if test is None:
                place = forest.right[at] * width
                votes = tuple(forest.votes[place : place + width])
                nodes.append(Node(None, votes=known.setdefault(votes, votes)))
            else:
                stack.append((forest.right[at], len(nodes), True))
                stack.append((at + 1, len(nodes), False))
                nodes.append(Node(known.setdefault(test, test)))
            if len(nodes) > len(forest.feature):
                raise ValueError("the trees of this forest share nodes; train or load it again")
        _append(trees, nodes)
    return trees


def _test(forest: Forest, at: int, rows: Rows, scales: Sequence[float]) -> Question:
    """The test of a split, for rows of this type."""
    word, cut = forest.feature[at], forest.threshold[at]
    equal, missing_left = bool(word & EQUAL), bool(word & MISSING_LEFT)
    if math.isnan(cut):
        raise ValueError(f"the threshold of node {at} is not a number; train the forest again")
    if rows != "float32":
        cut = whole_cut(cut, scales[word & FEATURE] if scales else 1)
        low, high = RANGES[rows]
        if equal and not low <= cut <= high:
            cut = 0  # which is how missing is written, and so equals none
        missing_left = missing_left and equal
    return Question(word & FEATURE, equal, missing_left, cut + 0)  # + 0: no minus zero


def _decided(test: Question, rows: Rows) -> str | None:
    """The side that every row of this type goes to, if there is one."""
    if test.equal:  # no category has the code 0, which is a missing one
        return None if test.cut or test.missing_left else "right"
    if rows == "float32":
        return None
    low, high = RANGES[rows]
    return "right" if test.cut < low else "left" if test.cut >= high else None


def _append(trees: Trees, nodes: list[Node]) -> None:
    """Add a tree, given as nodes in preorder."""
    splits = [0] * len(nodes)  # below and at each node
    votes: list[Votes | None] = [None] * len(nodes)  # of a leaf, or what has become one
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        if node.test is None:
            votes[i] = node.votes
        elif votes[node.left] is not None and votes[node.left] == votes[node.right]:
            votes[i] = votes[node.left]
        else:
            splits[i] = 1 + splits[node.left] + splits[node.right]
    stack = [(0, 0)]
    while stack:
        i, level = stack.pop()
        node, end = nodes[i], votes[i]
        if end is not None:
            trees.leaves.append(end)
            trees.levels = max(trees.levels, level)
        elif node.test is not None:
            trees.tests.append(node.test)
            trees.skips.append(splits[node.left])
            stack.append((node.right, level + 1))
            stack.append((node.left, level + 1))
    trees.sizes.append(splits[0])


@dataclass
class Leaves:
    """How leaves are written, of all ways the smallest.

    `class`: every leaf votes for one class with the same `weight`; `places` holds the class.
    `dense`: `columns` votes a leaf. `pairs`: votes and class in one number, the class in the lower
    `bits`; a leaf ends where its votes come to `weight`. `places` says where in `votes` a leaf
    begins, or is None if the leaves lie there one after the other.
    """

    kind: Literal["class", "dense", "pairs"]
    weight: int  # the votes of every leaf together, 0 if they differ
    votes: list[int]
    places: list[int] | None
    columns: int = 0
    bits: int = 0

    @property
    def bytes(self) -> int:
        """What they take."""
        parts = [self.votes] if self.places is None else [self.votes, self.places]
        return sum(item_size(part) * len(part) for part in parts)


def read_leaves(leaves: Sequence[Votes], point: bool) -> Leaves:
    """The smallest way to write these leaves; with `point` the places cost nothing."""
    width = len(leaves[0])
    sums = {sum(votes) for votes in leaves}
    weight = sums.pop() if len(sums) == 1 else 0
    alike = list(dict.fromkeys(leaves))
    if width > 1 and weight and all(max(votes) == weight for votes in alike):
        return Leaves("class", weight, [], [votes.index(weight) for votes in leaves])
    columns = width - 1 if width > 1 and weight else width  # the last one is what is left
    ways = [_dense(leaves, alike, weight, columns)]
    if not point:
        flat = [v for votes in leaves for v in votes[:columns]]
        ways.insert(0, Leaves("dense", weight, flat, None, columns))
    if width > 1 and weight:
        ways.append(_pairs(leaves, alike, weight, width))

    def cost(way: Leaves) -> int:
        return item_size(way.votes) * len(way.votes) if point else way.bytes

    return min(ways, key=cost)


def _dense(leaves: Sequence[Votes], alike: list[Votes], weight: int, columns: int) -> Leaves:
    places = {votes: i * columns for i, votes in enumerate(alike)}
    flat = [v for votes in alike for v in votes[:columns]]
    return Leaves("dense", weight, flat, [places[votes] for votes in leaves], columns)


def _pairs(leaves: Sequence[Votes], alike: list[Votes], weight: int, width: int) -> Leaves:
    bits = (width - 1).bit_length()
    places: dict[Votes, int] = {}
    flat: list[int] = []
    for votes in alike:
        places[votes] = len(flat)
        flat += [v << bits | k for k, v in enumerate(votes) if v]
    return Leaves("pairs", weight, flat, [places[votes] for votes in leaves], 0, bits)


def item_size(values: Iterable[float]) -> int:
    """Bytes of the smallest type that holds these whole numbers; 4 for other numbers."""
    return array(item_code(values)).itemsize


def item_code(values: Iterable[float]) -> str:
    """The type code of `array` for these numbers: B, H, I, h, or f."""
    values = list(values)
    low, high = min(values, default=0), max(values, default=0)
    if not all(isinstance(v, int) for v in values):
        return "f"
    if low < 0:
        return "h"
    return "B" if high < 256 else "H" if high < 65536 else "I"


@dataclass
class Splits:
    """How splits are written: a word (feature and flags) and a cut each.

    If many splits ask the same, `asks` holds the number of the test of each split, and words and
    cuts are those of the tests.
    """

    words: list[int]
    cuts: list[float]
    asks: list[int] | None
    equal: int  # the flag of a categorical split, 0 if there is none
    missing_left: int

    @property
    def feature(self) -> int:
        """The bits of a word that are the feature."""
        return ~(self.equal | self.missing_left) & 0xFFFF if self.equal | self.missing_left else 0

    @property
    def bytes(self) -> int:
        """What they take."""
        parts: list[Sequence[float]] = [self.words, self.cuts, self.asks or []]
        return sum(item_size(part) * len(part) for part in parts)


def read_splits(tests: list[Question]) -> Splits:
    """The smaller way to write these tests."""
    alike = list(dict.fromkeys(tests))
    flags = [any(t.equal for t in alike), any(t.missing_left for t in alike)]
    top = 128 if max((t.feature for t in alike), default=0) < 256 >> sum(flags) else 32768
    equal = top if flags[0] else 0
    missing_left = (top >> 1 if equal else top) if flags[1] else 0

    def write(asked: list[Question], asks: list[int] | None) -> Splits:
        words = [
            t.feature | (equal if t.equal else 0) | (missing_left if t.missing_left else 0)
            for t in asked
        ]
        return Splits(words, [t.cut for t in asked], asks, equal, missing_left)

    numbers = {test: i for i, test in enumerate(alike)}
    ways = write(tests, None), write(alike, [numbers[test] for test in tests])
    return min(ways, key=lambda way: way.bytes)


@dataclass
class Packed:
    """A forest as arrays: filled up (`skips` is empty then) or in preorder, the smaller way."""

    trees: Trees
    splits: Splits
    leaves: Leaves
    filled: bool

    @property
    def bytes(self) -> int:
        """What the arrays take."""
        size = self.splits.bytes + self.leaves.bytes
        if self.filled:
            return size
        counts = (self.trees.skips, self.trees.sizes)
        return size + sum(item_size(part) * len(part) for part in counts)


def pack(forest: Forest, rows: Rows, scales: Sequence[float] = ()) -> Packed:
    """The arrays of a forest."""
    return pack_trees(read_trees(forest, rows, scales))


def pack_trees(trees: Trees) -> Packed:
    """The arrays of trees."""
    full = trees.filled()
    plain = Packed(trees, read_splits(trees.tests), read_leaves(trees.leaves, False), False)
    if full is None:
        return plain
    filled = Packed(full, read_splits(full.tests), read_leaves(full.leaves, False), True)
    return filled if filled.bytes <= FILL * plain.bytes else plain


def describe_row(forest: Forest, rows: Rows, scales: Sequence[float] = ()) -> list[str]:
    """What to write about each place of a row, and about missing values.

    Features without a name, scale or kinds of their own are left out.
    """
    lines = []
    absent = "0" if rows in RANGES else "0 or NaN"
    for f, (name, kinds) in enumerate(zip(forest.names, forest.categories, strict=True)):
        text = _one_line(name)
        if kinds is not None:
            codes = [f"{code} {_one_line(kind)}" for code, kind in enumerate(kinds, 1)]
            text += f": {', '.join(codes)} ({absent}: missing or unknown)"
        elif scales and scales[f] != 1:
            text += f", times {scales[f]:g}"
        if text != f"x{f}":
            lines.append(f"row[{f}]: {text}")
    if rows in RANGES and None in forest.categories:
        lines.append(f"Numbers cannot be missing: {rows} has no NaN.")
    return lines


def _one_line(value: object) -> str:
    text = " ".join(str(value).split()).rstrip("\\")
    return "".join(c if c.isprintable() else "?" for c in text)


def most_votes(forest: Forest) -> int:
    """The largest sum that the votes for one class can come to; refused if it is not exact."""
    width, total = forest.n_votes, 0
    ends = [*list(forest.roots)[1:], len(forest.feature)]
    for root, end in zip(forest.roots, ends, strict=True):
        places = {forest.right[i] * width for i in range(root, end) if forest.feature[i] == LEAF}
        total += max(max(forest.votes[place : place + width]) for place in places)
    if forest.regression and total > MOST_SUM:
        raise ValueError(
            "the votes of this regression come to more than 16777216, which float32 cannot "
            "sum exactly; train fewer trees"
        )
    return total
