"""The sizes of a grove, and one of its trees while it grows: see `grove`.

    Plan      the sizes and options of a grove; shares out its memory
    Sapling   one tree while it grows

This file runs unchanged on CPython and MicroPython.
"""

import math
from array import array

from edgeforest.budget import Budget
from edgeforest.checks import part_of
from edgeforest.forest import EQUAL, FEATURE, LEAF, MISSING_LEFT, split_of

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.forest import Forest
    from edgeforest.host.types import *

# Measured choices: benchmarks/online.py.
START = 16  # rows that a leaf waits for before it races
FADES = (3, 12, 50)  # rows that the votes of a leaf stand for, in each of its memories
RATES = (0.01, 0.05)  # how far one row moves the weights of the linear model
BROAD = 10  # features that a race has at least, if there are as many and memory for them
SPARES = 256  # the most rows of rare classes that are kept beside the window
BYTES = 16_000_000  # of an online forest, by default
ROOMY = 1_000_000  # bytes of a budget from which on a linear model learns beside the trees

LONG = 1021  # rows after which their weights repeat; a prime, so that trees do not fall into step
NONE = 0xFFFF  # no node, no place, no race
CATEGORIES = 31  # of a feature whose categories become known row by row


def bytes_of(budget: "Any") -> "int":
    """The memory that a budget grants; an online forest has no other limit."""
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError("give the memory of an online forest as budget=Budget(bytes=...)")
    if budget is not None and (budget.insertions or budget.seconds):
        raise ValueError("an online forest runs for ever: its budget has bytes, nothing else")
    return BYTES if budget is None or budget.bytes is None else budget.bytes


class Plan:
    """The sizes and options of a grove.

    `options` are those of an OnlineForest; `head` is a forest without trees that has its features
    and classes. Rows and nodes get their memory first, and races the rest.
    """

    def __init__(self, options: "dict[str, Any]", head: "Forest", stream: "int") -> "None":
        kind, some = options["kind"], options["max_features"]
        self.m = self.patch = m = len(head.names)  # features, and those that trees may use
        self.width = 0 if head.classes is None else len(head.classes)  # classes; 0: regression
        self.criterion: "str" = options["criterion"]
        self.n_trees: "int" = options["n_trees"]
        self.n_bins: "int" = options["n_bins"]
        self.max_depth: "int" = options["max_depth"]
        self.least: "int" = options["min_samples_leaf"]
        self.extra = kind == "extra-trees"
        self.rows = 1.0 if self.extra else 0.0  # share of the rows; 0: drawn with repeats
        if kind == "random-patches":
            self.rows = options["alpha_n"]
            self.patch = max(1, int(options["alpha_f"] * m + 0.5))
        if some is None:
            self.few = min(self.patch, int(math.sqrt(self.patch) + 0.5) + 1)
            self.max_features = max(self.few, min(self.patch, BROAD))
        else:
            self.few = self.max_features = part_of("max_features", some, self.patch)
        self.scale = head.scale
        self.seed: "int" = options["seed"]
        self.stream = stream
        # Categories by feature; 0: number.
        self.kinds = array(
            "H", [0 if k is None else max(CATEGORIES, len(k)) for k in head.categories]
        )
        self.stride = 1 + max(self.n_bins, max(self.kinds))
        self.window: "int" = options["window"]
        self.fade: "int" = options["fade"] or 0  # 0: leaves have several memories
        self.fades = (self.fade,) if self.fade else FADES
        self.nodes: "int" = 2 * options["max_leaf_nodes"] - 1
        self.inputs = self._inputs(options.get("linear"), options["bytes"])
        self._share_out(options["bytes"])
        # A class with fewer rows in the window is rare: some that leave it are kept beside it.
        self.quota = max(1, self.window >> 4)
        self.spare = self._spare()

    def _inputs(self, wanted: "bool | None", room: "int") -> "int":
        """The inputs of the linear model: one for each number and category; 0 if there is none."""
        inputs = 1
        for k in self.kinds:
            inputs += k + 1 if k else 1
        if wanted is None:
            wanted = room >= ROOMY and self._weighs(inputs) <= room >> 6
        return inputs if wanted and self.width else 0

    def _share_out(self, room: "int") -> "None":
        """Fit the window, the nodes and the number of races into so many bytes."""
        # A cell is a word of a list in plain Python; the native engine needs less.
        one = 8 * self.stride * (self.width or 3) + 4 * self.n_bins + 64
        while True:
            fixed = self._fixed()
            race = 64 + self.max_features * one
            needed = fixed + race * self.n_trees
            if needed <= room:
                break
            if self.window <= START and self.nodes <= 15 and self.max_features <= self.few:
                raise ValueError(
                    f"an online forest of {self.n_trees} trees and {self.m} features needs at least "
                    f"{needed} bytes, the budget is {room}; use fewer trees or features"
                )
            self.max_features = max(self.few, self.max_features * 3 // 4)
            if self.window > START:
                self.window = max(START, self.window * 3 // 4)
            if self.nodes > 15:
                self.nodes = max(15, self.nodes * 3 // 4) | 1
        self.races: "int" = min(
            (room - fixed) // race, (self.n_trees + 1) * (self.nodes + 1) // 2, 65534
        )
        self.bytes = fixed + race * self.races

    def _fixed(self) -> "int":
        """The bytes of everything except the races."""
        node = 23 + 4 * (self.width or 2) * len(self.fades)
        spare = self._spare()
        tree = self.nodes * node + 4 * self.window + 2 * spare + 10 * self.m
        rows = (self.window + spare) * (4 * self.m + 2) + 2 * spare + 4 * self.width
        return (self.n_trees + 1) * tree + rows + LONG + self._weighs(self.inputs)

    def _weighs(self, inputs: "int") -> "int":
        """The bytes of a linear model of so many inputs."""
        return 8 * len(RATES) * inputs * self.width + 18 * self.m if inputs else 0

    def _spare(self) -> "int":
        """How many rows of rare classes are kept; a regression has none."""
        return min(self.window >> 3, SPARES, NONE - 1 - self.window) if self.width else 0


class Sapling:
    """One tree while it grows, and the latest rows by the leaf that they are in."""

    def __init__(self, plan: "Plan") -> "None":
        n = plan.nodes
        self.feature = array("H", bytes(2 * n))
        self.threshold = array("f", bytes(4 * n))
        self.left = array("H", bytes(2 * n))
        self.right = array("H", bytes(2 * n))
        self.depth = bytearray(n)
        self.slot = array("H", bytes(2 * n))  # of the leaf's race
        self.wait = array("H", bytes(2 * n))  # rows until a leaf without a race asks for one
        self.missed = array("I", bytes(4 * n))  # how wrong a leaf was
        # Of each memory, by leaf.
        self.votes = [array("I", bytes(4 * n * (plan.width or 2))) for _ in plan.fades]
        # A queue of places in the window for each leaf: the oldest row of all is a queue's first.
        self.head = array("H", bytes(2 * n))
        self.tail = array("H", bytes(2 * n))
        self.next = array("H", bytes(2 * plan.window))
        self.leaf = array("H", [NONE] * (plan.window + plan.spare))
        self.features = array("H", range(plan.m))
        self.importance = [0.0] * plan.m
        self.n_nodes = 0
        # Rows since the last contest about which the challenger was less, and more, wrong.
        self.better = self.worse = 0
        self.shift = 0

    def add(self, depth: "int") -> "int":
        """A new leaf; returns its place."""
        node = self.n_nodes
        self.feature[node] = LEAF
        self.depth[node] = depth
        self.slot[node] = self.head[node] = self.tail[node] = NONE
        self.wait[node] = self.missed[node] = 0
        self.n_nodes += 1
        return node

    def find(self, values: "Sequence[float]", at: "int") -> "int":
        """The leaf of the row that begins at `at`."""
        feature = self.feature  # its bits are decoded here, not by `split_of`: this loop is hot
        node = 0
        f = feature[0]
        while f != LEAF:
            x = values[at + (f & FEATURE)]
            if x != x or (f & EQUAL and x == 0):
                left = f & MISSING_LEFT
            elif f & EQUAL:
                left = x == self.threshold[node]
            else:
                left = x <= self.threshold[node]
            node = self.left[node] if left else self.right[node]
            f = feature[node]
        return node

    def part(self, node: "int", values: "Sequence[float]", m: "int") -> "None":
        """Move the kept rows of a node that was split to its children."""
        f, equal, missing_left = split_of(self.feature[node])  # type: ignore[misc]
        threshold = self.threshold[node]
        window = len(self.next)
        for place in self.spares(node) + self.queue(node):
            x = values[place * m + f]
            if x != x or (equal and x == 0):
                left = missing_left
            elif equal:
                left = x == threshold
            else:
                left = x <= threshold
            child = self.left[node] if left else self.right[node]
            if place < window:
                self.put(child, place)
            else:
                self.leaf[place] = child

    def put(self, node: "int", place: "int") -> "None":
        """Add a place of the window to the end of a leaf's queue."""
        self.leaf[place] = node
        self.next[place] = NONE
        last = self.tail[node]
        if last == NONE:
            self.head[node] = place
        else:
            self.next[last] = place
        self.tail[node] = place

    def drop(self, place: "int") -> "None":
        """Take the oldest row out of its leaf's queue."""
        node = self.leaf[place]
        if node != NONE:
            self.head[node] = self.next[place]
            if self.head[node] == NONE:
                self.tail[node] = NONE

    def queue(self, node: "int") -> "list[int]":
        """The places of the latest rows in a leaf, oldest first."""
        places = []
        place = self.head[node]
        while place != NONE:
            places.append(place)
            place = self.next[place]
        return places

    def spares(self, node: "int") -> "list[int]":
        """The places of the rows of rare classes in a leaf."""
        leaf = self.leaf
        return [place for place in range(len(self.next), len(leaf)) if leaf[place] == node]
