"""Trees that learn row by row: what an `OnlineForest` is made of, in plain Python.

    Plan      the sizes and options of a grove; shares out its memory
    Grove     all trees, the races of their leaves, and the window of the latest rows
    Sapling   one tree while it grows
    LeafRace  the race at one leaf

`transplant` moves trees between a grove and a forest. The native engine has the same grove in C. This file runs unchanged on CPython and MicroPython.
"""

import math
from array import array

from edgeforest.bounds import code_of
from edgeforest.budget import Rng
from edgeforest.checks import part_of
from edgeforest.codes import vote_shares
from edgeforest.core_pure import TOLERANCE, TOLERANCE_IMPURITY, Z, criterion_of
from edgeforest.intervals import measure
from edgeforest.criteria import Contender, best_arm, minus, node_word, total_of
from edgeforest.forest import EQUAL, FEATURE, HUGE, LEAF, MISSING_LEFT, split_of

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.forest import Forest
    from edgeforest.host.types import *

# Measured choices: benchmarks/online.py.
START = 16  # rows that a leaf waits for before it races
STEP = 8  # a race is first judged after this many rows, then after a quarter more each time
PATIENCE = 20  # rows after which a split that gains is better than waiting for the best one
SURE = 1.0  # a split must gain more than this many standard errors
PRIOR = 1  # rows that the parent's votes count as in a new leaf
EVERY = 200  # rows between two contests of the tree that does not vote with the worst that does
CLEARLY = 4  # squared standard errors by which a tree must be better to replace another
MANY = 4096  # rows after which an undecided race starts again, with other features
FIRST = 64  # rows that a race starts with, at most
TRIES = 8  # races that are considered when one has to sleep

UNIT = 512  # what one row adds to the votes of a leaf
LONG = 1021  # rows after which their weights repeat; a prime, so that trees do not fall into step
MOST = 1 << 28  # the largest count of misses
NONE = 0xFFFF  # no node, no place, no race
SCALE = 4096  # of the votes of a classification, in the model
CATEGORIES = 31  # of a feature whose categories become known row by row


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
            self.max_features = min(self.patch, int(math.sqrt(self.patch) + 0.5) + 1)
        else:
            self.max_features = part_of("max_features", some, self.patch)
        self.scale = head.scale
        self.seed: "int" = options["seed"]
        self.stream = stream
        # Categories by feature; 0: number.
        self.kinds = array(
            "H", [0 if k is None else max(CATEGORIES, len(k)) for k in head.categories]
        )
        self.stride = 1 + max(self.n_bins, max(self.kinds))
        self.window: "int" = options["window"]
        self.fade: "int" = options["fade"]
        self.nodes: "int" = 2 * options["max_leaf_nodes"] - 1
        self._share_out(options["bytes"])

    def _share_out(self, room: "int") -> "None":
        """Fit the window, the nodes and the number of races into so many bytes."""
        # A cell is a word of a list in plain Python; the native engine needs less.
        race = 8 * self.stride * (self.width or 3) + 4 * self.n_bins + 64
        race = 64 + self.max_features * race
        while True:
            fixed = self._fixed()
            needed = fixed + race * self.n_trees
            if needed <= room:
                break
            if self.window <= START and self.nodes <= 15:
                raise ValueError(
                    f"an online forest of {self.n_trees} trees and {self.m} features needs at least "
                    f"{needed} bytes, the budget is {room}; use fewer trees or features"
                )
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
        node = 23 + 4 * (self.width or 2)
        tree = self.nodes * node + 4 * self.window + 10 * self.m
        return (self.n_trees + 1) * tree + self.window * (4 * self.m + 2) + LONG


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
        self.votes = array("I", bytes(4 * n * (plan.width or 2)))
        # A queue of places in the window for each leaf: the oldest row of all is a queue's first.
        self.head = array("H", bytes(2 * n))
        self.tail = array("H", bytes(2 * n))
        self.next = array("H", bytes(2 * plan.window))
        self.leaf = array("H", [NONE] * plan.window)
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
        """Move the latest rows of a node that was split to its children."""
        f, equal, missing_left = split_of(self.feature[node])  # type: ignore[misc]
        threshold = self.threshold[node]
        for place in self.queue(node):
            x = values[place * m + f]
            if x != x or (equal and x == 0):
                left = missing_left
            elif equal:
                left = x == threshold
            else:
                left = x <= threshold
            self.put(self.left[node] if left else self.right[node], place)

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


class LeafRace:
    """The features that a leaf may be split by, while their histograms fill."""

    def __init__(self, tree: "Sapling", node: "int") -> "None":
        self.tree = tree
        self.node = node
        self.racing: "list[Contender]" = []
        self.seen = 0  # rows
        self.squares = 0  # of the times that they count
        self.due = 0  # rows after which it is judged again


class Grove:
    """Trees that learn row by row. The last of them, the challenger, does not vote."""

    def __init__(self, plan: "Plan") -> "None":
        self.plan = plan
        self.criterion = criterion_of(plan.criterion)
        self.rng = Rng(plan.seed, plan.stream)
        self.times = _times(self.rng, plan.rows)
        self.values = array("f", bytes(4 * plan.m * plan.window))
        self.labels = array("H", bytes(2 * plan.window))
        self.seen = 0
        self.half = 0  # whether the next challenger learns half of the window
        self.slots: "list[Any]" = [None] * plan.races
        self.free: "array[int]" = array("H", range(plan.races - 1, -1, -1))
        self.n_free: "int" = plan.races
        self.hand = 0
        self.trees = [Sapling(plan) for _ in range(plan.n_trees + 1)]
        for tree in self.trees:
            self._reset(tree, 0)

    # ---- Rows

    def learn(
        self, values: "Sequence[float]", labels: "Sequence[int]", n: "int", guesses: "array[int]"
    ) -> "None":
        """Predict n rows of numbers, one after the other, and learn each of them.

        `values` holds one row after the other; a guess is the place of a class, or a sum of levels.
        """
        for i in range(n):
            guesses[i] = self._learn(values, i * self.plan.m, labels[i])

    def _learn(self, values: "Sequence[float]", at: "int", label: "int") -> "int":
        plan = self.plan
        out = [0] * (plan.width or 1)
        leaves = []
        misses = []
        for t, tree in enumerate(self.trees):
            leaf = tree.find(values, at)
            leaves.append(leaf)
            miss = self._ask(tree, leaf, label, out if t < plan.n_trees else None)
            misses.append(miss)
            if tree.missed[leaf] < MOST:
                tree.missed[leaf] += miss if plan.width else miss >> 8
        for t in range(plan.n_trees):
            if misses[-1] < misses[t]:
                self.trees[t].better += 1
            elif misses[-1] > misses[t]:
                self.trees[t].worse += 1
        place = self._keep(values, at, label)
        number = self.seen % LONG
        self.seen += 1
        for t, tree in enumerate(self.trees):
            leaf = leaves[t]
            tree.put(leaf, place)
            self._count(
                tree, leaf, place, label, self.times[(number + tree.shift) % LONG], misses[t]
            )
        if self.seen % EVERY == 0:
            self._contest()
        return out[0] if not plan.width else largest(out)

    def vote(self, row: "Sequence[float]", out: "MutableSequence[int]") -> "int":
        """Sum the votes of the trees for a row: the `predict_into` of a forest of these trees."""
        for k in range(len(out)):
            out[k] = 0
        for t in range(self.plan.n_trees):
            tree = self.trees[t]
            self._ask(tree, tree.find(row, 0), 0, out)
        return largest(out)

    def _ask(self, tree: "Sapling", leaf: "int", label: "int", out: "Any") -> "int":
        """Add the votes of a leaf to `out`; returns how wrong they are about this label."""
        width, scale = self.plan.width, self.plan.scale
        if not width:
            n, total = tree.votes[2 * leaf], tree.votes[2 * leaf + 1]
            level = level_of(n, total, scale)
            if out is not None:
                out[0] += level
            return abs(level - label)
        votes = tree.votes[leaf * width : leaf * width + width]
        total = sum(votes)
        if out is not None and total:
            for k, v in enumerate(vote_shares(votes, total, scale)):
                out[k] += v
        return 0 if largest(votes) == label else 1

    def _keep(self, values: "Sequence[float]", at: "int", label: "int") -> "int":
        """Replace the oldest row of the window by this one; returns its place."""
        plan = self.plan
        place = self.seen % plan.window
        if self.seen >= plan.window:
            for tree in self.trees:
                tree.drop(place)
        here = place * plan.m
        for f in range(plan.m):
            self.values[here + f] = values[at + f]
        self.labels[place] = label
        return place

    def _count(
        self, tree: "Sapling", leaf: "int", place: "int", label: "int", times: "int", miss: "int"
    ) -> "None":
        """Count a row in its leaf: its votes and its race; without a race, maybe start one."""
        if times:
            self._vote(tree, leaf, label, times)
        slot = tree.slot[leaf]
        if slot != NONE:
            race = self.slots[slot]
            if times:
                self._insert(race, place, times)
                race.seen += 1
                if race.seen >= race.due:
                    race.due = race.seen + (race.seen >> 2) + STEP
                    self._grow(tree, self._look(tree, leaf))
        elif tree.wait[leaf]:
            tree.wait[leaf] -= 1
        elif miss:
            self._grow(tree, [leaf])

    def _vote(self, tree: "Sapling", leaf: "int", label: "int", times: "int") -> "None":
        """Add a row to the votes of its leaf; older votes fade."""
        votes, width = tree.votes, self.plan.width
        at = leaf * (width or 2)
        if not width:
            if votes[at] >= self.plan.fade * UNIT:
                votes[at] >>= 1
                votes[at + 1] >>= 1
            votes[at] += UNIT * times
            votes[at + 1] += UNIT * times * label
            return
        if sum(votes[at : at + width]) >= self.plan.fade * UNIT:
            for k in range(at, at + width):
                votes[k] >>= 1
        votes[at + label] += UNIT * times

    # ---- Races

    def _grow(self, tree: "Sapling", leaves: "list[int]") -> "None":
        """Start the races of leaves, the last first, and of their children if they split."""
        while leaves:
            node = leaves.pop()
            if self._begin(tree, node):
                leaves.extend(self._look(tree, node))

    def _begin(self, tree: "Sapling", node: "int") -> "bool":
        """Start the race of a leaf with its rows in the window; whether it has one now."""
        plan = self.plan
        if tree.depth[node] >= plan.max_depth or self._is_full(tree):
            tree.wait[node] = NONE
            return False
        places = tree.queue(node)
        n = len(places)
        if 2 * n < START:
            tree.wait[node] = START - n
            return False
        labels = self.labels
        label = labels[places[0]]
        for place in places:
            if labels[place] != label:
                break
        else:
            return False  # all have the same label
        race = LeafRace(tree, node)
        self._draw(race, places)
        slot = self._slot(tree, node) if race.racing else NONE
        if slot == NONE:
            tree.wait[node] = START
            return False
        self.slots[slot] = race
        tree.slot[node] = slot
        first = self.seen - 1 - (self.seen - 1) % plan.window  # number of the row at place 0
        count = min(n, FIRST)  # from all of them, oldest first
        for i in range(count):
            place = places[i * n // count]
            number = first + place if first + place < self.seen else first + place - plan.window
            times = self.times[(number % LONG + tree.shift) % LONG]
            if times:
                self._insert(race, place, times)
                race.seen += 1
        race.due = race.seen + (race.seen >> 2) + STEP
        return True

    def _draw(self, race: "LeafRace", places: "list[int]") -> "None":
        """Draw the features of a race: those that vary in the leaf's rows at these places."""
        plan, features = self.plan, race.tree.features
        i = 0
        while len(race.racing) < plan.max_features and i < plan.patch:
            j = i + self.rng.below(plan.patch - i)
            features[i], features[j] = features[j], features[i]
            cuts = self._cuts(places, features[i])
            if cuts is not None:
                c = Contender(features[i], None, None, cuts, plan.kinds[features[i]] > 0)
                c.h = [0] * (plan.stride * (plan.width or 3))
                race.racing.append(c)
            i += 1

    def _cuts(self, places: "list[int]", f: "int") -> "Any":
        """The bounds of a feature's bins, from rows of the leaf; None if it does not vary."""
        plan, values, n = self.plan, self.values, len(places)
        look = min(n, 64)
        low, high, missing = HUGE, -HUGE, 0
        for k in range(look):
            x = values[places[k * n // look] * plan.m + f]
            if x != x:
                missing += 1
            else:
                low = min(low, x)
                high = max(high, x)
        if not low < high and not 0 < missing < look:
            return None
        if plan.kinds[f]:
            return range(plan.kinds[f] + 1)
        cuts = array("f", [0.0])
        if plan.extra and low < high:
            x = array("f", [low + (high - low) * self.rng.unit()])[0]
            cuts.append(x if x < high else low)
        elif low < high:
            take = max(1, min(plan.n_bins - 1, n // 2))
            part = n // take
            found = []
            for k in range(take):
                x = values[places[k * n // take + self.rng.below(part)] * plan.m + f]
                if x < high and x not in found:
                    found.append(x)
            cuts.extend(array("f", sorted(found) or [low]))
        cuts.append(HUGE)
        return cuts

    def _slot(self, tree: "Sapling", node: "int") -> "int":
        """A place for a race: a free one, or that of a leaf that was wrong less often."""
        if self.n_free:
            self.n_free -= 1
            return self.free[self.n_free]
        for _ in range(TRIES):
            slot = self.hand
            self.hand = (slot + 1) % self.plan.races
            race = self.slots[slot]
            asleep = race.tree
            if asleep.missed[race.node] < tree.missed[node]:
                asleep.slot[race.node] = NONE
                asleep.wait[race.node] = START
                return slot
            asleep.missed[race.node] >>= 1
        return NONE

    def _release(self, tree: "Sapling", node: "int") -> "None":
        """End the race of a leaf."""
        self.free[self.n_free] = tree.slot[node]
        self.n_free += 1
        self.slots[tree.slot[node]] = None
        tree.slot[node] = NONE

    def _insert(self, race: "LeafRace", place: "int", times: "int") -> "None":
        """Count a row of the window into the histograms of a race."""
        plan, values, stride = self.plan, self.values, self.plan.stride
        label = self.labels[place]
        here = place * plan.m
        for c in race.racing:
            x = values[here + c.feature]
            if x != x:
                b = 0
            elif c.equal:
                b = int(x) if x <= c.bins else 0
            else:
                b = code_of(x, c.cuts)
            if plan.width:
                c.h[label * stride + b] += times
            else:
                c.h[b] += times
                c.h[stride + b] += times * label
                c.h[2 * stride + b] += times * label * label
        race.squares += times * times

    def _look(self, tree: "Sapling", node: "int") -> "list[int]":
        """Split a leaf if its race is decided; returns its children, the right one first."""
        race = self.slots[tree.slot[node]]
        full = self._is_full(tree)  # by now, after splits of other leaves
        lead = None if full else self._winner(race)
        if lead is not None:
            return self._split(tree, node, lead)
        if full or race.seen >= MANY:
            self._release(tree, node)
        return []

    def _is_full(self, tree: "Sapling") -> "bool":
        return tree.n_nodes + 2 > self.plan.nodes

    def _winner(self, race: "LeafRace") -> "Contender | None":
        """The feature that wins a race, or None while it is undecided."""
        stride = self.plan.stride
        if not race.seen:
            return None
        total = total_of(race.racing[0], stride)
        impurity = self.criterion.impurity(total)
        if impurity <= 0:
            return None
        size = self.criterion.size(total)
        rest = race.squares / (size * size)
        for c in race.racing:
            c.best = best_arm(self.criterion, c, stride, total, self.plan.least)
        racing = [c for c in race.racing if c.best]
        if not racing:
            return None
        measure(self.criterion, racing, stride, total, rest)
        lead = racing[0]
        for c in racing:
            if c.gain > lead.gain:
                lead = c
        if lead.gain <= SURE * math.sqrt(lead.variance):
            return None
        if size < PATIENCE:
            slack = max(TOLERANCE * lead.gain, TOLERANCE_IMPURITY * impurity)
            for c in racing:
                spread = Z * math.sqrt(c.variance + lead.variance)
                if c is not lead and c.gain - lead.gain + spread > slack:
                    return None
        return lead

    def _split(self, tree: "Sapling", node: "int", lead: "Contender") -> "list[int]":
        """Split a leaf; returns its children, which have their votes and their rows."""
        stride = self.plan.stride
        _, t, missing_left = lead.best  # type: ignore[misc]
        total = total_of(lead, stride)
        left = lead.left_cells(t, missing_left, stride)
        size = self.criterion.size(total)
        if not any(lead.h[::stride]):  # none seen missing: such a row joins the larger side
            missing_left = 2 * self.criterion.size(left) > size
        tree.importance[lead.feature] += lead.gain * size
        self._release(tree, node)
        depth = tree.depth[node] + 1
        one = tree.left[node] = tree.add(depth)
        two = tree.right[node] = tree.add(depth)
        tree.threshold[node] = lead.cuts[t]
        self._endow(tree, node, one, left)
        self._endow(tree, node, two, minus(total, left))
        tree.feature[node] = node_word(lead.feature, lead.equal, missing_left)
        tree.part(node, self.values, self.plan.m)
        return [two, one]

    def _endow(self, tree: "Sapling", node: "int", child: "int", cells: "list[int]") -> "None":
        """Give a new leaf its first votes: its counted rows, and a few votes of its parent."""
        width = self.plan.width
        size = self.criterion.size(cells)
        room = min(size, self.plan.fade) * UNIT
        if not width:
            cells = [size, cells[1]]
        before = node * (width or 2)
        at = child * (width or 2)
        votes = tree.votes
        all_votes = votes[before] if not width else sum(votes[before : before + width])
        for k in range(width or 2):
            votes[at + k] = cells[k] * room // size
            if all_votes:
                votes[at + k] += PRIOR * UNIT * votes[before + k] // all_votes

    # ---- Trees

    def _reset(self, tree: "Sapling", rows: "int") -> "None":
        """Grow a tree again from so many of the latest rows."""
        plan = self.plan
        for node in range(tree.n_nodes):
            if tree.feature[node] == LEAF and tree.slot[node] != NONE:
                self._release(tree, node)
        tree.n_nodes = tree.better = tree.worse = 0
        tree.add(0)
        width = plan.width or 2
        for k in range(width):
            tree.votes[k] = 0
        tree.shift = self.rng.below(LONG)
        if plan.patch < plan.m:
            self.rng.shuffle(tree.features, plan.patch)
        for f in range(plan.m):
            tree.importance[f] = 0.0
        first = self.seen - rows
        for number in range(max(0, self.seen - plan.window), first):
            tree.leaf[number % plan.window] = NONE
        for number in range(first, self.seen):
            place = number % plan.window
            tree.put(0, place)
            times = self.times[(number % LONG + tree.shift) % LONG]
            if times:
                self._vote(tree, 0, self.labels[place], times)
        if rows:
            self._grow(tree, [0])

    def _contest(self) -> "None":
        """Let the tree that does not vote replace the worst that does, if it is clearly better.

        Only those rows count for which one of the two was more wrong than the other.
        """
        trees = self.trees
        last = len(trees) - 1
        worst = lead = rows = 0
        for t in range(last):
            tree = trees[t]
            if t == 0 or tree.better - tree.worse > lead:
                worst = t
                lead = tree.better - tree.worse
                rows = tree.better + tree.worse
        if lead > 0 and lead * lead > CLEARLY * rows:
            trees[worst], trees[last] = trees[last], trees[worst]
        for tree in trees:
            tree.better = tree.worse = 0
        rows = min(self.seen, self.plan.window)
        self.half ^= 1
        self._reset(trees[last], rows >> self.half)

    def renew(self, t: "int") -> "None":
        """Grow a tree again from the latest rows."""
        self._reset(self.trees[t], min(self.seen, self.plan.window))

    # ---- In and out

    def tree(self, t: "int") -> "list[Any]":
        """The nodes of a tree: feature, threshold, left, right, votes; and the gains of features."""
        tree = self.trees[t]
        n = tree.n_nodes
        width = self.plan.width or 2
        return [
            tree.feature[:n],
            tree.threshold[:n],
            tree.left[:n],
            tree.right[:n],
            tree.votes[: n * width],
            tree.importance[:],
        ]

    def plant(
        self,
        t: "int",
        feature: "array[int]",
        threshold: "array[float]",
        left: "array[int]",
        right: "array[int]",
        votes: "array[int]",
        gains: "Sequence[float]",
    ) -> "None":
        """Replace a tree by these nodes; children come after their parent."""
        tree = self.trees[t]
        n = len(feature)
        tree.n_nodes = 0
        for _ in range(n):
            tree.add(0)
        tree.feature[:n] = feature
        tree.threshold[:n] = threshold
        tree.left[:n] = left
        tree.right[:n] = right
        tree.votes[: len(votes)] = votes
        tree.importance[:] = gains
        for node in range(n):
            if feature[node] != LEAF:
                tree.depth[left[node]] = tree.depth[right[node]] = min(255, tree.depth[node] + 1)

    def recall(self, values: "Sequence[float]", labels: "Sequence[int]", n: "int") -> "None":
        """Put rows into the empty window without learning them again."""
        for i in range(n):
            place = self._keep(values, i * self.plan.m, labels[i])
            self.seen += 1
            for tree in self.trees:
                tree.put(tree.find(values, i * self.plan.m), place)

    def latest(self) -> "tuple[array[float], array[int]]":
        """The latest rows, oldest first: their values, and their labels."""
        return in_order(self.plan, self.seen, self.values, self.labels)


# ---- Small things -----------------------------------------------------------------------------


def level_of(n: "int", total: "int", scale: "int") -> "int":
    """The mean level of votes that add up to `total`; halved totals may lie a little above."""
    return min(scale, (2 * total + n) // (2 * n)) if n else 0


def in_order(
    plan: "Plan", seen: "int", values: "array[float]", labels: "array[int]"
) -> "tuple[array[float], array[int]]":
    """The values and labels in a window after `seen` rows, oldest first."""
    n = min(seen, plan.window)
    first = seen % plan.window if seen > plan.window else 0
    at = first * plan.m
    return values[at : n * plan.m] + values[:at], labels[first:n] + labels[:first]


def largest(values: "Sequence[int]") -> "int":
    """The place of the largest, the first of equals."""
    best = 0
    for k in range(1, len(values)):
        if values[k] > values[best]:
            best = k
    return best


def _times(rng: "Rng", share: "float") -> "bytearray":
    """How often rows count in a tree: Poisson of mean 1, or once for a share of them."""
    times = bytearray(LONG)
    for i in range(LONG):
        u = rng.unit()
        if share:
            times[i] = 1 if u < share else 0
            continue
        part = upto = math.exp(-1.0)
        k = 0
        while u >= upto and k < 7:
            k += 1
            part /= k
            upto += part
        times[i] = k
    return times
