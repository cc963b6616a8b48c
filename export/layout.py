"""Lay a forest out in the few arrays that the C header and the MicroPython module consist of.

A tree with n splits has n + 1 leaves. Splits are stored in preorder, each with the number of splits
on its left: that is enough to find the children and to number the leaves from left to right, so no
child and no leaf needs a pointer. Trees that are nearly complete are filled up instead: then the
children of split i are 2 i and 2 i + 1, and only the tests are stored.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from edgeforest.forest import Forest
from edgeforest.forests import walking
from edgeforest.windows import Windows

from .scaling import RANGES, RowType, whole_cut

Votes: TypeAlias = tuple[int, ...]

MOST_LEVELS = 14  # of filled-up trees
MOST_SUM = 1 << 24  # above it, a float32 does not hold every whole number
FILL = 1.1  # filling up may take so many times the bytes: it saves half of the instructions


class Question(NamedTuple):
    """What a split asks: is the feature at most `cut` (or equal to it); where missing values go."""

    feature: int
    equal: bool
    missing_left: bool
    cut: float


class _Item(NamedTuple):
    """A split of one tree, with the places of both children, or a leaf, with its votes."""

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


def read_trees(forest: Forest, rows: RowType, scales: Sequence[float] = ()) -> Trees:
    """The trees of a forest, without what makes no difference for rows of this type.

    Rows of whole numbers hold each value times the scale of its feature, 1 by default. Some splits
    are decided beforehand: nothing equals the code 0, and whole numbers are never missing and lie
    in a range. A split whose sides vote the same is left out.
    """
    trees = Trees([], [], [], [], 0)
    tests: dict[Question, Question] = {}  # equal ones are kept once
    ends: dict[Votes, Votes] = {}
    for root in forest.roots:
        items: list[_Item] = []
        stack = [(root, -1, False)]
        while stack:
            place, parent, on_right = stack.pop()
            node, test = _undecided(forest, place, rows, scales)
            if parent >= 0:
                up = items[parent]
                left, right = (up.left, len(items)) if on_right else (len(items), up.right)
                items[parent] = _Item(up.test, left, right)
            if test is None:
                votes = tuple(walking.votes_of(forest, node))
                items.append(_Item(None, votes=ends.setdefault(votes, votes)))
            else:
                stack.append((node.right, len(items), True))
                stack.append((node.left, len(items), False))
                items.append(_Item(tests.setdefault(test, test)))
            if len(items) > len(forest.feature):
                raise ValueError("the trees of this forest share nodes; train or load it again")
        _append(trees, items)
    return trees


def _undecided(
    forest: Forest, place: int, rows: RowType, scales: Sequence[float]
) -> tuple[walking.Node, Question | None]:
    """The first node from here on that rows leave on both sides, and its test; or a leaf."""
    node = walking.node_at(forest, place)
    while not node.is_leaf:
        test = _test(node, rows, scales)
        side = _decided(test, rows)
        if side is None:
            return node, test
        node = walking.node_at(forest, node.left if side == "left" else node.right)
    return node, None


def _test(node: walking.Node, rows: RowType, scales: Sequence[float]) -> Question:
    """The test of a split, for rows of this type."""
    cut, equal, missing_left = node.threshold, node.categorical, node.missing_left
    if math.isnan(cut):
        raise ValueError(
            f"the threshold of node {node.place} is not a number; train the forest again"
        )
    if rows != "float32":
        cut = whole_cut(cut, scales[node.feature] if scales else 1)
        low, high = RANGES[rows]
        if equal and not low <= cut <= high:
            cut = 0  # the code of a missing value, which equals nothing
        missing_left = missing_left and equal
    return Question(node.feature, equal, missing_left, cut + 0)  # + 0: no minus zero


def _decided(test: Question, rows: RowType) -> str | None:
    """The side that every row of this type goes to, if there is one."""
    if test.equal:  # no category has the code 0, which stands for a missing value
        return None if test.cut or test.missing_left else "right"
    if rows == "float32":
        return None
    low, high = RANGES[rows]
    return "right" if test.cut < low else "left" if test.cut >= high else None


def _append(trees: Trees, items: list[_Item]) -> None:
    """Add a tree, given in preorder."""
    splits = [0] * len(items)  # from each of them down
    votes: list[Votes | None] = [None] * len(items)  # of a leaf, or of what has become one
    for i in range(len(items) - 1, -1, -1):
        node = items[i]
        if node.test is None:
            votes[i] = node.votes
        elif votes[node.left] is not None and votes[node.left] == votes[node.right]:
            votes[i] = votes[node.left]
        else:
            splits[i] = 1 + splits[node.left] + splits[node.right]
    stack = [(0, 0)]
    while stack:
        i, level = stack.pop()
        node, end = items[i], votes[i]
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
    """How leaves are written: the smallest of three ways.

    `class`: every leaf votes for one class with the same `weight`; `places` holds the class.
    `dense`: `columns` votes for each leaf. `pairs`: votes and class in one number, the class in the
    lower `bits`; a leaf ends where its votes add up to `weight`. `places` says where in `votes` a
    leaf begins; it is None if the leaves follow each other.
    """

    kind: Literal["class", "dense", "pairs"]
    weight: int  # the sum of the votes of a leaf, 0 if sums differ
    votes: list[int]
    places: list[int] | None
    columns: int = 0
    bits: int = 0

    @property
    def bytes(self) -> int:
        """How many bytes they take."""
        parts = [self.votes] if self.places is None else [self.votes, self.places]
        return sum(item_size(part) * len(part) for part in parts)


def read_leaves(leaves: Sequence[Votes], point: bool) -> Leaves:
    """The smallest way to write these leaves; with `point`, their places cost nothing."""
    n_votes = len(leaves[0])
    sums = {sum(votes) for votes in leaves}
    weight = sums.pop() if len(sums) == 1 else 0
    alike = list(dict.fromkeys(leaves))
    if n_votes > 1 and weight and all(max(votes) == weight for votes in alike):
        return Leaves("class", weight, [], [votes.index(weight) for votes in leaves])
    columns = n_votes - 1 if n_votes > 1 and weight else n_votes  # the last is the remainder
    ways = [_dense(leaves, alike, weight, columns)]
    if not point:
        flat = [v for votes in leaves for v in votes[:columns]]
        ways.insert(0, Leaves("dense", weight, flat, None, columns))
    if n_votes > 1 and weight:
        ways.append(_pairs(leaves, alike, weight, n_votes))

    def cost(way: Leaves) -> int:
        return item_size(way.votes) * len(way.votes) if point else way.bytes

    return min(ways, key=cost)


def _dense(leaves: Sequence[Votes], alike: list[Votes], weight: int, columns: int) -> Leaves:
    places = {votes: i * columns for i, votes in enumerate(alike)}
    flat = [v for votes in alike for v in votes[:columns]]
    return Leaves("dense", weight, flat, [places[votes] for votes in leaves], columns)


def _pairs(leaves: Sequence[Votes], alike: list[Votes], weight: int, n_votes: int) -> Leaves:
    bits = (n_votes - 1).bit_length()
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
    """How splits are written: each as a word (feature and flags) and a cut.

    If many splits ask the same, `asks` holds the place of each split's test, and words and cuts are
    those of the tests. These words are the export's own: their flags are where there is room.
    """

    words: list[int]
    cuts: list[float]
    asks: list[int] | None
    equal: int  # the flag of a categorical split, 0 if no split is
    missing_left: int

    @property
    def feature(self) -> int:
        """The bits of a word that are the feature."""
        return ~(self.equal | self.missing_left) & 0xFFFF if self.equal | self.missing_left else 0

    @property
    def bytes(self) -> int:
        """How many bytes they take."""
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

    places = {test: i for i, test in enumerate(alike)}
    ways = write(tests, None), write(alike, [places[test] for test in tests])
    return min(ways, key=lambda way: way.bytes)


@dataclass
class Layout:
    """A forest as arrays: filled up (then `skips` is empty) or in preorder, whichever is smaller."""

    trees: Trees
    splits: Splits
    leaves: Leaves
    filled: bool

    @property
    def bytes(self) -> int:
        """How many bytes the arrays take."""
        size = self.splits.bytes + self.leaves.bytes
        if self.filled:
            return size
        counts = (self.trees.skips, self.trees.sizes)
        return size + sum(item_size(part) * len(part) for part in counts)


def lay_out(forest: Forest, rows: RowType, scales: Sequence[float] = ()) -> Layout:
    """The arrays of a forest."""
    return lay_out_trees(read_trees(forest, rows, scales))


def lay_out_trees(trees: Trees) -> Layout:
    """The arrays of trees."""
    full = trees.filled()
    plain = Layout(trees, read_splits(trees.tests), read_leaves(trees.leaves, False), False)
    if full is None:
        return plain
    filled = Layout(full, read_splits(full.tests), read_leaves(full.leaves, False), True)
    return filled if filled.bytes <= FILL * plain.bytes else plain


def describe_row(forest: Forest, rows: RowType, scales: Sequence[float] = ()) -> list[str]:
    """What to write about each place of a row, and about missing values.

    Features without a name, a scale or categories are left out.
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


def windows_of(forest: Forest, rows: RowType, scaled: bool) -> Windows | None:
    """The windows that the features are of, and whose rows this type holds; None if there are none."""
    try:
        windows = None if scaled else Windows.of(forest)
    except ValueError:
        return None
    return None if windows and windows.bits == 16 and rows == "uint8" else windows


def _one_line(value: object) -> str:
    text = " ".join(str(value).split()).rstrip("\\")
    return "".join(c if c.isprintable() else "?" for c in text)


def most_votes(forest: Forest) -> int:
    """The largest possible sum of votes for one class; an error if float32 cannot hold it."""
    total = 0
    for start, end in walking.stretches(forest):
        places = {forest.right[leaf] for leaf in walking.leaves(forest, start, end)}
        total += max(max(walking.votes_at(forest, place)) for place in places)
    if forest.regression and total > MOST_SUM:
        raise ValueError(
            "the votes of this regression add up to more than 16777216, which float32 cannot "
            "sum exactly; train fewer trees"
        )
    return total
