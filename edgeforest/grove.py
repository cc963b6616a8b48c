"""Trees that learn row by row: what an `OnlineForest` is made of, in plain Python.

    Grove     all trees, the races of their leaves, and the window of the latest rows
    LeafRace  the race at one leaf

`sapling` has one tree while it grows, and the plan of all; `transplant` moves trees between a grove
and a forest. The native engine has the same grove in C. This file runs unchanged on CPython and
MicroPython.
"""

import math
from array import array

from edgeforest.bounds import code_of
from edgeforest.budget import Rng
from edgeforest.codes import vote_shares
from edgeforest.core_pure import criterion_of
from edgeforest.intervals import measure
from edgeforest.criteria import Contender, best_arm, minus, node_word, total_of
from edgeforest.forest import HUGE, LEAF
from edgeforest.sapling import LONG, NONE, START, Plan, Sapling

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *

# Measured choices: benchmarks/online.py.
STEP = 8  # a race is first judged after this many rows, then after a quarter more each time
PATIENCE = 20  # how often rows must count before a race is judged
SURE = 1.0  # a split must gain more than this many standard errors
PRIOR = 1  # rows that the parent's votes count as in a new leaf
EVERY = 100  # rows between two contests of the tree that does not vote with the worst that does
AGAIN = 4  # contests after which a tree that has not won is grown anew
CLEARLY = 4  # squared standard errors by which a tree must be better to replace another
MANY = 4096  # rows after which an undecided race starts again, with other features
FIRST = 64  # rows that a race starts with, at most
TRIES = 8  # races that are considered when one has to sleep

UNIT = 512  # what one row adds to the votes of a leaf
MOST = 1 << 28  # the largest count of misses
LATELY = 9  # the logarithm of the rows over which the memories of the leaves are compared
SCALE = 4096  # of the votes of a classification, in the model


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
        rows = plan.window + plan.spare  # the latest rows, then those of rare classes
        self.values = array("f", bytes(4 * plan.m * rows))
        self.labels = array("H", bytes(2 * rows))
        self.seen = 0
        self.counts = [0] * plan.width  # rows in the window, by class
        self.numbers = array("H", bytes(2 * plan.spare))  # of the rows of rare classes
        self.stored = 0  # of them, so far
        self.losses = [0] * len(plan.fades)  # of each memory, lately
        self.memory = len(plan.fades) // 2  # the one that votes
        self.half = 0  # whether the next challenger learns half of the window
        self.slots: "list[Any]" = [None] * plan.races
        self.free: "array[int]" = array("H", range(plan.races - 1, -1, -1))
        self.n_free: "int" = plan.races
        self.hand = 0
        self.trees = [Sapling(plan) for _ in range(plan.n_trees + 1)]
        for tree in self.trees:
            self._reset(tree, 0)
        self.linear: "Any" = None
        if plan.inputs:
            from edgeforest.linear import Linear  # a board does without

            self.linear = Linear(plan)

    # ---- Rows

    def learn(
        self, values: "Sequence[float]", labels: "Sequence[int]", n: "int", guesses: "array[int]"
    ) -> "None":
        """Predict n rows of numbers, one after the other, and learn each of them.

        `values` holds one row after the other. A guess is four times the place of a class, and 0 to
        2 for how sure the trees are; or a sum of levels.
        """
        for i in range(n):
            guesses[i] = self._learn(values, i * self.plan.m, labels[i])

    def _learn(self, values: "Sequence[float]", at: "int", label: "int") -> "int":
        plan = self.plan
        outs = [[0] * (plan.width or 1) for _ in plan.fades]
        leaves = []
        misses = []
        for t, tree in enumerate(self.trees):
            leaf = tree.find(values, at)
            leaves.append(leaf)
            miss = 0
            for k, out in enumerate(outs):
                wrong = self._ask(tree, k, leaf, label, out if t < plan.n_trees else None)
                if k == self.memory:
                    miss = wrong
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
        votes = self._judge(outs, label)
        if self.linear:
            votes = self.linear.judge(votes, self.linear.learn(values, at, label), label)
        return word_of(votes) if plan.width else votes[0]

    def _judge(self, outs: "list[list[int]]", label: "int") -> "list[int]":
        """The votes of the memory that votes; the one that was best lately votes next."""
        losses, before = self.losses, self.memory
        answers = [largest(out) if self.plan.width else out[0] for out in outs]
        for k, answer in enumerate(answers):
            if self.plan.width:
                wrong = 0 if answer == label else 1
            else:
                wrong = abs(answer - label * self.plan.n_trees)
            losses[k] += (wrong << 2 * LATELY) - (losses[k] >> LATELY)
            if losses[k] < losses[self.memory]:
                self.memory = k
        return outs[before]

    def vote(self, row: "Sequence[float]", out: "MutableSequence[int]") -> "int":
        """Sum the votes of the trees for a row: the `predict_into` of a forest of these trees."""
        for k in range(len(out)):
            out[k] = 0
        for t in range(self.plan.n_trees):
            tree = self.trees[t]
            self._ask(tree, self.memory, tree.find(row, 0), 0, out)
        if self.linear:
            self.linear.vote(row, out)
        return largest(out)

    def choice(self) -> "int":
        """Who answers: see `Linear`; 0 for the trees."""
        return self.linear.choice if self.linear else 0

    def _ask(self, tree: "Sapling", memory: "int", leaf: "int", label: "int", out: "Any") -> "int":
        """Add the votes of a leaf to `out`; returns how wrong they are about this label."""
        width, scale = self.plan.width, self.plan.scale
        votes = tree.votes[memory]
        if not width:
            n, total = votes[2 * leaf], votes[2 * leaf + 1]
            level = level_of(n, total, scale)
            if out is not None:
                out[0] += level
            return abs(level - label)
        votes = votes[leaf * width : leaf * width + width]
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
            self._forget(place)
        here = place * plan.m
        for f in range(plan.m):
            self.values[here + f] = values[at + f]
        self.labels[place] = label
        if plan.width:
            self.counts[label] += 1
        return place

    def _forget(self, place: "int") -> "None":
        """Take the oldest row out of the window; one of a rare class is kept beside it."""
        plan, label, m = self.plan, self.labels[place], self.plan.m
        if plan.width:
            self.counts[label] -= 1
            if self._is_rare(label) and plan.spare:
                row = self.values[place * m : place * m + m]
                self._store(row, 0, label, (self.seen - plan.window) % LONG)
        for tree in self.trees:
            tree.drop(place)

    def _is_rare(self, label: "int") -> "bool":
        return self.plan.width > 0 and self.counts[label] < self.plan.quota

    def _store(self, values: "Sequence[float]", at: "int", label: "int", number: "int") -> "None":
        """Keep a row of a rare class in place of the oldest of them."""
        plan = self.plan
        spare = self.stored % plan.spare
        place = plan.window + spare
        self.stored += 1
        self.numbers[spare] = number
        self.labels[place] = label
        for f in range(plan.m):
            self.values[place * plan.m + f] = values[at + f]
        for tree in self.trees:
            tree.leaf[place] = tree.find(values, at)

    def _count(
        self, tree: "Sapling", leaf: "int", place: "int", label: "int", times: "int", miss: "int"
    ) -> "None":
        """Count a row in its leaf: its votes and its race; without a race, maybe start one."""
        sure = times and self._is_sure(tree, leaf, label)
        if times and not sure:
            self._vote(tree, leaf, label, times)
        slot = tree.slot[leaf]
        if slot != NONE:
            race = self.slots[slot]
            if sure:
                self._release(tree, leaf)  # there is nothing to gain now
            elif times:
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
        width = self.plan.width
        at = leaf * (width or 2)
        for k, fade in enumerate(self.plan.fades):
            votes = tree.votes[k]
            if not width:
                if votes[at] >= fade * UNIT:
                    votes[at] >>= 1
                    votes[at + 1] >>= 1
                votes[at] += UNIT * times
                votes[at + 1] += UNIT * times * label
                continue
            if sum(votes[at : at + width]) >= fade * UNIT:
                for i in range(at, at + width):
                    votes[i] >>= 1
            votes[at + label] += UNIT * times

    def _is_sure(self, tree: "Sapling", leaf: "int", label: "int") -> "bool":
        """Whether all votes of a leaf are for a class, and its slowest memory is full.

        Then one more row of this class is not added: it would change nothing.
        """
        width = self.plan.width
        at = leaf * width
        if not width or tree.votes[-1][at + label] < self.plan.fades[-1] * UNIT:
            return False
        for votes in tree.votes:
            if sum(votes[at : at + width]) > votes[at + label]:
                return False
        return True

    # ---- Races

    def _grow(self, tree: "Sapling", leaves: "list[int]") -> "None":
        """Start the races of leaves, the last first, and of their children if they split."""
        while leaves:
            node = leaves.pop()
            if self._begin(tree, node):
                leaves.extend(self._look(tree, node))

    def _begin(self, tree: "Sapling", node: "int") -> "bool":
        """Start the race of a leaf with its kept rows; whether it has one now."""
        plan = self.plan
        if tree.depth[node] >= plan.max_depth or self._is_full(tree):
            tree.wait[node] = NONE
            return False
        labels = self.labels
        places = [place for place in tree.spares(node) if self._is_rare(labels[place])]
        spares = len(places)
        places += tree.queue(node)
        n = len(places)
        if 2 * n < START:
            tree.wait[node] = START - n
            return False
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
        self._count_kept(race, places, spares)
        race.due = race.seen + (race.seen >> 2) + STEP
        return True

    def _count_kept(self, race: "LeafRace", places: "list[int]", spares: "int") -> "None":
        """Count kept rows into a new race: some of the window, and all of rare classes."""
        plan, n = self.plan, len(places) - spares
        zero = self.seen - 1 - (self.seen - 1) % plan.window  # number of the row at place 0
        count = min(n, FIRST)  # from all of them, oldest first
        taken = 0
        for i, place in enumerate(places):
            if i < spares:
                number = self.numbers[place - plan.window]
            else:
                if taken < count and i - spares == taken * n // count:
                    taken += 1
                elif not self._is_rare(self.labels[place]):
                    continue
                number = zero + place if zero + place < self.seen else zero + place - plan.window
            times = self.times[(number % LONG + race.tree.shift) % LONG]
            if times:
                self._insert(race, place, times)
                race.seen += 1

    def _draw(self, race: "LeafRace", places: "list[int]") -> "None":
        """Draw the features of a race: those that vary in the leaf's rows at these places."""
        plan, features, n = self.plan, race.tree.features, len(places)
        drawn: "list[int]" = []  # the rows whose numbers become bounds, one of each part
        if not plan.extra:
            take = max(1, min(plan.n_bins - 1, n // 2))
            drawn = [places[k * n // take + self.rng.below(n // take)] for k in range(take)]
        i = 0
        while len(race.racing) < plan.max_features and i < plan.patch:
            j = i + self.rng.below(plan.patch - i)
            features[i], features[j] = features[j], features[i]
            cuts = self._cuts(places, drawn, features[i])
            if cuts is not None:
                c = Contender(features[i], None, None, cuts, plan.kinds[features[i]] > 0)
                c.h = [0] * (plan.stride * (plan.width or 3))
                race.racing.append(c)
            i += 1

    def _cuts(self, places: "list[int]", drawn: "list[int]", f: "int") -> "Any":
        """The bounds of a feature's bins, from rows that were drawn; None if it does not vary."""
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
            found = []
            for place in drawn:
                x = values[place * plan.m + f]
                if x < high and x not in found:
                    found.append(x + 0.0)  # no -0.0: it would depend on which came first
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
        total = total_of(race.racing[0], stride)
        size = self.criterion.size(total)
        if size < PATIENCE or self.criterion.impurity(total) <= 0:
            return None
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
        return lead if lead.gain > SURE * math.sqrt(lead.variance) else None

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
        if not width:
            cells = [size, cells[1]]
        before = node * (width or 2)
        at = child * (width or 2)
        for votes, fade in zip(tree.votes, self.plan.fades):
            room = min(size, fade) * UNIT
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
        for votes in tree.votes:
            for k in range(width):
                votes[k] = 0
        tree.shift = self.rng.below(LONG)
        if plan.patch < plan.m:
            self.rng.shuffle(tree.features, plan.patch)
        for f in range(plan.m):
            tree.importance[f] = 0.0
        first = self.seen - rows
        for number in range(max(0, self.seen - plan.window), first):
            tree.leaf[number % plan.window] = NONE
        for spare in range(min(self.stored, plan.spare)):
            tree.leaf[plan.window + spare] = 0
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
        elif self.seen % (AGAIN * EVERY):
            return  # it has more rows to show what it can do
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
            tree.votes[self.memory][: n * width],
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
        """Replace a tree by these nodes; two children lie together, after their parent."""
        tree = self.trees[t]
        n = len(feature)
        tree.n_nodes = 0
        for _ in range(n):
            tree.add(0)
        tree.feature[:n] = feature
        tree.threshold[:n] = threshold
        tree.left[:n] = left
        tree.right[:n] = right
        for memory in tree.votes:
            memory[: len(votes)] = votes
        tree.importance[:] = gains
        for node in range(n):
            if feature[node] != LEAF:
                tree.depth[left[node]] = tree.depth[right[node]] = min(255, tree.depth[node] + 1)

    def recall(self, values: "Sequence[float]", labels: "Sequence[int]", n: "int") -> "None":
        """Put rows into the empty window without learning them again.

        Rows that do not fit are kept beside it if their classes are rare among those that do.
        """
        plan = self.plan
        first = max(0, n - plan.window)
        for i in range(first, n):
            place = self._keep(values, i * plan.m, labels[i])
            self.seen += 1
            for tree in self.trees:
                tree.put(tree.find(values, i * plan.m), place)
            if self.linear:
                self.linear.learn(values, i * plan.m, labels[i])
        for i in range(first):
            if plan.spare and self._is_rare(labels[i]):
                self._store(values, i * plan.m, labels[i], i % LONG)

    def latest(self) -> "tuple[array[float], array[int]]":
        """The kept rows, oldest first, those of rare classes before the window: values, labels."""
        return in_order(self.plan, self.seen, self.stored, self.values, self.labels)


# ---- Small things -----------------------------------------------------------------------------


def level_of(n: "int", total: "int", scale: "int") -> "int":
    """The mean level of votes that add up to `total`; halved totals may lie a little above."""
    return min(scale, (2 * total + n) // (2 * n)) if n else 0


def in_order(
    plan: "Plan", seen: "int", stored: "int", values: "array[float]", labels: "array[int]"
) -> "tuple[array[float], array[int]]":
    """The rows in a window, oldest first, after those beside it whose classes are rare now."""
    window, spare, m = plan.window, plan.spare, plan.m
    n = min(seen, window)
    first = seen % window if seen > window else 0
    found, kinds = array("f"), array("H")
    counts = [0] * plan.width
    for k in labels[: n if plan.width else 0]:
        counts[k] += 1
    for i in range(max(0, stored - spare), stored):
        place = window + i % spare
        if counts[labels[place]] < plan.quota:
            found.extend(values[place * m : place * m + m])
            kinds.append(labels[place])
    for low, high in ((first, n), (0, first)):
        found.extend(values[low * m : high * m])
        kinds.extend(labels[low:high])
    return found, kinds


def largest(values: "Sequence[int]") -> "int":
    """The place of the largest, the first of equals."""
    best = 0
    for k in range(1, len(values)):
        if values[k] > values[best]:
            best = k
    return best


def word_of(sums: "Sequence[int]") -> "int":
    """Four times the place of the largest; 1 more if it has two thirds of all, 2 if four fifths."""
    best = largest(sums)
    top, total = sums[best], sum(sums)
    return 4 * best + (3 * top >= 2 * total) + (5 * top >= 4 * total)


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
