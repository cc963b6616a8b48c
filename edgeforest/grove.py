"""Trees that learn row by row: what an `OnlineForest` is made of, in plain Python.

    Plan      the numbers that a grove is made of
    Grove     all trees, the races of their leaves, and the window of the latest rows
    Sapling   one tree while it grows

The native engine has the same in C. This file runs unchanged on CPython and MicroPython.
"""

import math
from array import array

from edgeforest.budget import Rng
from edgeforest.bounds import code_of
from edgeforest.codes import vote_shares
from edgeforest.core_pure import criterion_of, TOLERANCE, TOLERANCE_IMPURITY, Z
from edgeforest.criteria import Contender, best_arm, measure, minus, total_of
from edgeforest.forest import EQUAL, FEATURE, HUGE, LEAF, MISSING_LEFT

# Measured choices: benchmarks/online.py.
START = 16  # rows that a leaf waits for before it races
STEP = 8  # a race is looked at after so many rows, and after a quarter more each time
PATIENCE = 20  # rows after which a split that gains is better than waiting for the best one
SURE = 1.0  # a split must gain more than so many standard errors
PRIOR = 1  # rows that the parent's votes count as in a new leaf
EVERY = 200  # rows between two contests of the tree that does not vote with the worst that does
CLEARLY = 4  # squared standard errors by which a tree has to be better to take another's place
MANY = 4096  # rows after which a race that found nothing begins anew, with other features
FIRST = 64  # rows that a race begins with, at most
TRIES = 8  # races that are looked at for one to put to sleep

UNIT = 512  # what one row adds to the votes of a leaf
LONG = 1021  # rows after which their weights repeat; a prime, so that trees do not fall into step
MOST = 1 << 28  # misses that are counted
NONE = 0xFFFF  # no node, no place, no race
SCALE = 4096  # of the votes of a classification, in the model
CATEGORIES = 31  # of a feature whose categories are found on the way


class Plan:
    """The numbers that a grove is made of; see OnlineForest for what they mean."""

    # m, width (classes, 0: regression), criterion, n_trees, max_features, n_bins, max_depth, least,
    # nodes, races, window, fade, extra, rows (share of 1, 0: drawn with repeats), patch, scale, seed,
    # stream, stride, kinds (categories by feature, 0: number)


class Sapling:
    """One tree while it grows, and the latest rows by the leaf that they are in."""

    def __init__(self, plan):
        n = plan.nodes
        self.feature = array("H", bytes(2 * n))
        self.threshold = array("f", bytes(4 * n))
        self.left = array("H", bytes(2 * n))
        self.right = array("H", bytes(2 * n))
        self.depth = bytearray(n)
        self.slot = array("H", bytes(2 * n))  # of the leaf's race
        self.wait = array("H", bytes(2 * n))  # rows until a leaf without one asks for it
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

    def add(self, depth):
        """A new leaf; returns its place."""
        node = self.n_nodes
        self.feature[node] = LEAF
        self.depth[node] = depth
        self.slot[node] = self.head[node] = self.tail[node] = NONE
        self.wait[node] = self.missed[node] = 0
        self.n_nodes += 1
        return node

    def find(self, values, at):
        """The leaf of the row that begins at `at`."""
        feature = self.feature
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

    def put(self, node, place):
        """Add a place of the window to the end of a leaf's queue."""
        self.leaf[place] = node
        self.next[place] = NONE
        last = self.tail[node]
        if last == NONE:
            self.head[node] = place
        else:
            self.next[last] = place
        self.tail[node] = place

    def drop(self, place):
        """Take the oldest row out of its leaf's queue."""
        node = self.leaf[place]
        if node != NONE:
            self.head[node] = self.next[place]
            if self.head[node] == NONE:
                self.tail[node] = NONE

    def queue(self, node):
        """The places of the latest rows in a leaf, oldest first."""
        places = []
        place = self.head[node]
        while place != NONE:
            places.append(place)
            place = self.next[place]
        return places


class LeafRace:
    """The features that a leaf may be split by, while their histograms fill."""

    def __init__(self, tree, node):
        self.tree = tree
        self.node = node
        self.racing = []
        self.seen = 0  # rows
        self.squares = 0  # of the times that they count
        self.due = 0  # rows at which to look at it again


class Grove:
    """Trees that learn row by row; one more than vote."""

    def __init__(self, plan):
        self.plan = plan
        self.criterion = criterion_of(plan.criterion)
        self.rng = Rng(plan.seed, plan.stream)
        self.times = _times(self.rng, plan.rows)
        self.values = array("f", bytes(4 * plan.m * plan.window))
        self.labels = array("H", bytes(2 * plan.window))
        self.seen = 0
        self.half = 0  # whether the next challenger sees half of the window
        self.slots = [None] * plan.races
        self.free = array("H", range(plan.races - 1, -1, -1))
        self.n_free = plan.races
        self.hand = 0
        self.trees = [Sapling(plan) for _ in range(plan.n_trees + 1)]
        for tree in self.trees:
            self._reset(tree, 0)

    # ---- Rows

    def learn(self, values, labels, n, guesses):
        """Predict n rows of numbers, one after the other, and learn each of them.

        `values` holds them in a row; a guess is the place of a class, or the sum of levels.
        """
        for i in range(n):
            guesses[i] = self._learn(values, i * self.plan.m, labels[i])

    def _learn(self, values, at, label):
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

    def _ask(self, tree, leaf, label, out):
        """Add the votes of a leaf to `out`; returns how wrong they are about this label."""
        width, scale = self.plan.width, self.plan.scale
        if not width:
            n, total = tree.votes[2 * leaf], tree.votes[2 * leaf + 1]
            level = (2 * total + n) // (2 * n) if n else 0
            if out is not None:
                out[0] += level
            return abs(level - label)
        votes = tree.votes[leaf * width : leaf * width + width]
        total = sum(votes)
        if out is not None and total:
            for k, v in enumerate(vote_shares(votes, total, scale)):
                out[k] += v
        return 0 if largest(votes) == label else 1

    def _keep(self, values, at, label):
        """Write a row over the oldest of the window; returns its place."""
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

    def _count(self, tree, leaf, place, label, times, miss):
        """Let a row count in its leaf: its votes and its race, or its wish for one."""
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

    def _vote(self, tree, leaf, label, times):
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

    def _grow(self, tree, leaves):
        """Let leaves race over the rows of them that are kept, last first, and so their children."""
        while leaves:
            node = leaves.pop()
            if self._begin(tree, node):
                leaves.extend(self._look(tree, node))

    def _begin(self, tree, node):
        """Start the race of a leaf with the rows of it that are kept; whether there is one now."""
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
        first = labels[places[0]]
        for place in places:
            if labels[place] != first:
                break
        else:
            return False  # they agree
        race = LeafRace(tree, node)
        features = tree.features
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
        if not race.racing:
            tree.wait[node] = START
            return False
        slot = self._slot(tree, node)
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

    def _cuts(self, places, f):
        """What bounds the bins of a feature: values of rows of the leaf; None if it does not vary."""
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

    def _slot(self, tree, node):
        """A place for a race: a free one, or that of a leaf which was wrong less often."""
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

    def _release(self, tree, node):
        self.free[self.n_free] = tree.slot[node]
        self.n_free += 1
        self.slots[tree.slot[node]] = None
        tree.slot[node] = NONE

    def _insert(self, race, place, times):
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

    def _look(self, tree, node):
        """Split a leaf if its race is decided; returns its children, the right one first."""
        race = self.slots[tree.slot[node]]
        full = self._is_full(tree)  # meanwhile, by the splits of others
        lead = None if full else self._winner(race)
        if lead is not None:
            return self._split(tree, node, lead)
        if full or race.seen >= MANY:
            self._release(tree, node)
        return []

    def _is_full(self, tree):
        return tree.n_nodes + 2 > self.plan.nodes

    def _winner(self, race):
        """The feature that wins a race, or None as long as it is not decided."""
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

    def _split(self, tree, node, lead):
        """Split a leaf; returns its children, which have their votes and their rows."""
        plan, stride = self.plan, self.plan.stride
        _, t, missing_left = lead.best
        total = total_of(lead, stride)
        left = lead.left_cells(t, missing_left, stride)
        size = self.criterion.size(total)
        if not any(lead.h[::stride]):  # none seen missing: such a row joins the larger side
            missing_left = 2 * self.criterion.size(left) > size
        tree.importance[lead.feature] += lead.gain * size
        self._release(tree, node)
        threshold = lead.cuts[t]
        children = tree.add(tree.depth[node] + 1), tree.add(tree.depth[node] + 1)
        tree.left[node], tree.right[node] = children
        tree.threshold[node] = threshold
        f = lead.feature
        if lead.equal:
            f |= EQUAL
        if missing_left:
            f |= MISSING_LEFT
        for child, cells in zip(children, (left, minus(total, left))):
            self._endow(tree, node, child, cells)
        tree.feature[node] = f
        f = lead.feature
        for place in tree.queue(node):
            x = self.values[place * plan.m + f]
            if x != x or (lead.equal and x == 0):
                side = missing_left
            elif lead.equal:
                side = x == threshold
            else:
                side = x <= threshold
            tree.put(children[0 if side else 1], place)
        return [children[1], children[0]]

    def _endow(self, tree, node, child, cells):
        """The first votes of a new leaf: the rows that were counted for it, and a little of its parent."""
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

    def _reset(self, tree, rows):
        """Begin a tree anew from the latest rows."""
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

    def _contest(self):
        """Let the tree that does not vote take the place of the worst, if it is clearly better.

        Only rows count about which one of the two was more wrong than the other.
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

    def renew(self, t):
        """Grow a tree anew from the latest rows."""
        self._reset(self.trees[t], min(self.seen, self.plan.window))

    # ---- In and out

    def tree(self, t):
        """The nodes of a tree: feature, threshold, left, right, votes; and what features gained."""
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

    def plant(self, t, feature, threshold, left, right, votes, gains):
        """Take over a tree; children come after their parent."""
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

    def recall(self, values, labels, n):
        """Take over the latest rows, before any other comes; they are not learned again."""
        for i in range(n):
            place = self._keep(values, i * self.plan.m, labels[i])
            self.seen += 1
            for tree in self.trees:
                tree.put(tree.find(values, i * self.plan.m), place)

    def latest(self):
        """The latest rows, oldest first: their values, and their labels."""
        return in_order(self.plan, self.seen, self.values, self.labels)


def in_order(plan, seen, values, labels):
    """What is in a window after `seen` rows, oldest first."""
    n = min(seen, plan.window)
    first = seen % plan.window if seen > plan.window else 0
    at = first * plan.m
    return values[at : n * plan.m] + values[:at], labels[first:n] + labels[:first]


def largest(values):
    """The place of the largest, the first of equals."""
    best = 0
    for k in range(1, len(values)):
        if values[k] > values[best]:
            best = k
    return best


def _times(rng, share):
    """How often rows count in a tree: with repeats (Poisson of mean 1), or a share of them once."""
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
