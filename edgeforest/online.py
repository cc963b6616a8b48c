"""Learn from rows as they come: a forest that grows with every one of them, in bounded memory.

    OnlineForest  what a program uses: update, predict, save
    Grove         the trees while they grow, in plain Python; the native engine has the same in C

A row is predicted first, which tells how good the forest is, and then learned. It goes down every
tree to a leaf. Most leaves hold a race: a few features, each with a histogram of the rows that came
there. When one of them is sure to gain, and no other can do much better, the leaf is split, and the
latest rows, which are kept, start the races of its children.

The world changes. One tree more than vote is grown all the time, anew every two hundred rows, from the
latest rows or from the latter half of them. If it was clearly less often wrong on the next two
hundred rows than the worst of those that vote, it takes its place.

This file runs unchanged on CPython and MicroPython; on a board it lies beside `core_pure`.

>>> learner = OnlineForest(["temperature", "light"])
>>> for i in range(1000):
...     guess = learner.update([15 + i % 10, i * 7 % 100], "shut" if i * 7 % 100 < 40 else "open")
>>> learner.predict([20, 10]), learner.accuracy > 0.95, len(learner.forest())
('shut', True, 16)
"""

import math
from array import array

try:
    from edgeforest import core_pure
except ImportError:  # a board, where the core is a file of its own
    import core_pure

try:
    from edgeforest.host.names import refuse
except ImportError:  # a board, whose text is UTF-8 whatever it is

    def refuse(what, texts):
        pass


try:
    from threading import Lock
except ImportError:  # a board

    class Lock:
        def __enter__(self):
            pass

        def __exit__(self, kind, error, trace):
            pass


LEAF = core_pure.LEAF
EQUAL = core_pure.EQUAL
FEATURE = core_pure.FEATURE
MISSING_LEFT = core_pure.MISSING_LEFT
LEVELS = core_pure.LEVELS
HUGE = core_pure.HUGE
NAN = core_pure.NAN
Contender = core_pure.Contender
Rng = core_pure.Rng
Training = core_pure.Training

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


class Race:
    """The features that a leaf may be split by, while their histograms fill."""

    def __init__(self, tree, node):
        self.tree = tree
        self.node = node
        self.racing = []
        self.seen = 0  # rows
        self.squares = 0  # of the times that they count
        self.due = 0  # rows at which to look at it again


class Grove(core_pure.Loops):
    """Trees that learn row by row; one more than vote."""

    def __init__(self, plan):
        self.plan = plan
        self.criterion = core_pure.CRITERIA[plan.criterion]()
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
        return out[0] if not plan.width else _largest(out)

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
            for k, v in enumerate(_shares(votes, total, scale)):
                out[k] += v
        return 0 if _largest(votes) == label else 1

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
        race = Race(tree, node)
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
                b = core_pure.code_of(x, c.cuts)
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
        total = Training._total(self, race.racing[0], stride)
        impurity = self.criterion.impurity(total)
        if impurity <= 0:
            return None
        size = self.criterion.size(total)
        rest = race.squares / (size * size)
        Training.score(self, race.racing, stride, total, self.plan.least)
        racing = [c for c in race.racing if c.best]
        if not racing:
            return None
        Training.describe(self, racing, stride, total, rest)
        lead = racing[0]
        for c in racing:
            if c.gain > lead.gain:
                lead = c
        if lead.gain <= SURE * math.sqrt(lead.variance):
            return None
        if size < PATIENCE:
            slack = max(core_pure.TOLERANCE * lead.gain, core_pure.TOLERANCE_IMPURITY * impurity)
            for c in racing:
                spread = core_pure.Z * math.sqrt(c.variance + lead.variance)
                if c is not lead and c.gain - lead.gain + spread > slack:
                    return None
        return lead

    def _split(self, tree, node, lead):
        """Split a leaf; returns its children, which have their votes and their rows."""
        plan, stride = self.plan, self.plan.stride
        _, t, missing_left = lead.best
        total = Training._total(self, lead, stride)
        left = lead.left(t, missing_left, stride)
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
        for child, cells in zip(children, (left, core_pure._minus(total, left))):
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


def _largest(values):
    """The place of the largest, the first of equals."""
    best = 0
    for k in range(1, len(values)):
        if values[k] > values[best]:
            best = k
    return best


def _shares(votes, total, scale):
    """Votes as shares of `scale`, rounded so that they add up."""
    shares = []
    upto = before = 0
    for v in votes:
        upto += v
        now = (2 * upto * scale + total) // (2 * total)
        shares.append(now - before)
        before = now
    return shares


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


# ---- What a program uses ----------------------------------------------------------------------


class OnlineForest:
    """A forest that learns row by row, forever, in memory that does not grow.

    `features` are the names of a row's values, or how many there are; the first row tells, if
    nothing is said. `categorical` names those that are not numbers. Classes are found on the way,
    unless `classes` says what to expect. `criterion="mse"` learns numbers. `window` is how many of
    the latest rows are kept, `max_leaf_nodes` how many leaves a tree may have. `fade` is how many
    rows the votes of a leaf stand for: with few it follows a change at once; with many, such as
    100, the forest is the better one if it is left alone, and labels come no more. With
    `budget=Budget(bytes=...)` all of it fits into that: the races of the leaves that are wrong the
    least often sleep if there is no room for them. The other options are those of `train`.

    `accuracy` and `recent_accuracy` (of the last thousand rows) are prequential: of every row as it
    was predicted before it was learned. `error` and `recent_error` are the share that was wrong, or
    of numbers the mean absolute error.

    >>> learner = OnlineForest(1, criterion="mse", n_trees=5)
    >>> guesses = learner.update_batch([[i % 50] for i in range(600)], [i % 50 * 2.0 for i in range(600)])
    >>> abs(learner.predict([10]) - 20) < 4, learner.rows
    (True, 600)
    """

    def __init__(
        self,
        features=None,
        *,
        classes=None,
        categorical=(),
        kind="random-forest",
        criterion="gini",
        n_trees=16,
        max_depth=None,
        max_features=None,
        min_samples_leaf=1,
        max_leaf_nodes=256,
        n_bins=None,
        alpha_n=0.7,
        alpha_f=0.85,
        window=500,
        fade=10,
        budget=None,
        seed=0,
        engine=None,
    ):
        core_pure._refuse_unknown(kind, criterion, "mab")
        extra = kind == "extra-trees"
        options = {"kind": kind, "criterion": criterion}
        for name, value, low, high in (
            ("n_trees", n_trees, 1, 4096),
            ("max_depth", 40 if max_depth is None else max_depth, 1, 255),
            ("min_samples_leaf", min_samples_leaf, 1, core_pure.MASK),
            ("max_leaf_nodes", max_leaf_nodes, 2, 32767),
            ("n_bins", (2 if extra else 16) if n_bins is None else n_bins, 2, 255),
            ("alpha_n", alpha_n, 1e-9, 1.0),
            ("alpha_f", alpha_f, 1e-9, 1.0),
            ("window", window, START, 65534),
            ("fade", fade, 1, 100),
            ("seed", seed, 0, core_pure.MASK),
        ):
            options[name] = core_pure._between(name, value, low, high)
        options["max_features"] = max_features
        if budget is not None and not isinstance(budget, core_pure.Budget):
            raise TypeError("give the memory of an online forest as budget=Budget(bytes=...)")
        if budget is not None and (budget.insertions or budget.seconds):
            raise ValueError("an online forest runs for ever: its budget has bytes, nothing else")
        options["bytes"] = BYTES if budget is None or budget.bytes is None else budget.bytes
        self.options = options
        self.engine = engine
        self._before = 0  # rows that were learned before those that the grove counts
        self._blind = True  # nothing was learned yet
        self._judged = 0  # rows of which it is known whether the guess was right
        self._sum = 0  # of what was wrong
        self._told = 0  # rows that were judged before this was loaded
        self._lock = Lock()
        self._saving = Lock()  # one save at a time: a later one must not be overtaken
        self._recent = array("f", bytes(4 * RECENT)) if criterion == "mse" else bytearray(RECENT)
        self._grove = self._model = None
        self._built = 0
        self._categorical = list(categorical)
        head = self.head = core_pure.Forest()  # what all forests of this learner share
        for _, name in core_pure.HEADER:
            setattr(head, name, None)
        head.kind = kind
        head.criterion = criterion
        head.splitter = "mab"
        head.seed = options["seed"]
        head.scale = min(LEVELS, 16777215 // n_trees)
        if criterion != "mse":
            head.scale = min(head.scale, SCALE)
            head.classes = []
            self._places = {}
            for v in classes or ():
                v = core_pure._plain(v, 0, "a class")
                if v is not None and v not in self._places:
                    self._places[v] = len(head.classes)
                    head.classes.append(v)
            core_pure._sorted_set(head.classes, "classes")
            refuse("the label", head.classes)
        elif classes is not None:
            raise ValueError("a regression has no classes; leave them out")
        head.names = None
        if features is not None:
            self._name(features)

    def _name(self, features):
        """Settle what the features are."""
        head = self.head
        if isinstance(features, int):
            features = [
                f"x{i}" for i in range(core_pure._between("features", features, 1, FEATURE))
            ]
        features = [str(v) for v in features]
        refuse("the name", features)
        head.names = features
        if len(set(head.names)) < len(head.names) or not head.names:
            raise ValueError("features must be names that differ, at least one")
        head.importances = [0] * len(head.names)
        head.categories = [None] * len(head.names)
        for v in self._categorical:
            if isinstance(v, int) and 0 <= v < len(head.names):
                head.categories[v] = []
            elif v in head.names:
                head.categories[head.names.index(v)] = []
            else:
                raise ValueError(f"categorical names {v!r}, which is not among the features")
        head.n_features = len(head.names)
        head.places = [None if kinds is None else {} for kinds in head.categories]
        head.all_numbers = all([p is None for p in head.places])

    # ---- Memory

    def _plan(self):
        """Share out the memory: rows and nodes first, and the rest for races."""
        o, head = self.options, self.head
        plan = Plan()
        plan.m = m = len(head.names)
        plan.width = 0 if head.classes is None else len(head.classes)
        plan.criterion = o["criterion"]
        plan.n_trees = o["n_trees"]
        plan.n_bins = o["n_bins"]
        plan.max_depth = o["max_depth"]
        plan.least = o["min_samples_leaf"]
        plan.extra = o["kind"] == "extra-trees"
        plan.rows = 0.0
        plan.patch = m
        if plan.extra:
            plan.rows = 1.0
        elif o["kind"] == "random-patches":
            plan.rows = o["alpha_n"]
            plan.patch = max(1, int(o["alpha_f"] * m + 0.5))
        some = min(plan.patch, int(math.sqrt(plan.patch) + 0.5) + 1)
        if o["max_features"] is not None:
            some = core_pure._part("max_features", o["max_features"], plan.patch)
        plan.max_features = some
        plan.scale = head.scale
        plan.seed = o["seed"]
        plan.stream = self._built
        plan.kinds = array(
            "H", [0 if k is None else max(CATEGORIES, len(k)) for k in head.categories]
        )
        plan.stride = 1 + max(plan.n_bins, max(plan.kinds))
        plan.window = o["window"]
        plan.fade = o["fade"]
        plan.nodes = 2 * o["max_leaf_nodes"] - 1
        cells = plan.width or 3
        # A cell is a word of a list in plain Python; the native engine needs less.
        race = 64 + some * (8 * plan.stride * cells + 4 * plan.n_bins + 64)
        while True:
            fixed = self._fixed(plan)
            if fixed + race * plan.n_trees <= o["bytes"]:
                break
            if plan.window <= START and plan.nodes <= 15:
                raise ValueError(
                    f"an online forest of {plan.n_trees} trees and {m} features needs at least "
                    f"{fixed + race * plan.n_trees} bytes, the budget is {o['bytes']}; use fewer "
                    "trees or features"
                )
            if plan.window > START:
                plan.window = max(START, plan.window * 3 // 4)
            if plan.nodes > 15:
                plan.nodes = max(15, plan.nodes * 3 // 4) | 1
        plan.races = min(
            (o["bytes"] - fixed) // race, (plan.n_trees + 1) * (plan.nodes + 1) // 2, 65534
        )
        self.bytes = fixed + race * plan.races
        return plan

    def _fixed(self, plan):
        """The bytes of all but the races."""
        node = 23 + 4 * (plan.width or 2)
        tree = plan.nodes * node + 4 * plan.window + 10 * plan.m
        return (plan.n_trees + 1) * tree + plan.window * (4 * plan.m + 2) + LONG

    def _build(self, trees=None, latest=None):
        """Make the grove; with trees and rows to take over, if there was one before."""
        head = self.head
        head.roots = array("I", bytes(4 * self.options["n_trees"]))
        head.prepare()
        plan = self._plan()
        rows = self.rows
        self._grove = getattr(_engine(self.engine), "Grove", Grove)(plan)
        self._built += 1
        for t, tree in enumerate(trees or ()):
            if len(tree[0]) <= plan.nodes:
                self._grove.plant(t, *tree)
        if latest:
            values, labels = latest
            n = min(len(labels), plan.window)
            skipped = len(labels) - n
            self._grove.recall(values[skipped * plan.m :], labels[skipped:], n)
            rows -= n
            for t, tree in enumerate(trees or ()):
                if len(tree[0]) > plan.nodes:  # more classes leave less room for nodes
                    self._grove.renew(t)
        self._before = rows

    def _trees(self):
        """All trees of the grove, as it takes them over."""
        return [self._grove.tree(t) for t in range(self.options["n_trees"] + 1)]

    # ---- Learning

    def update(self, row, label):
        """Learn one row; returns what was predicted for it before (None for the first)."""
        with self._lock:
            return self._update((row,), (label,))[0]

    def update_batch(self, rows, labels):
        """Learn rows in their order; returns what was predicted for each before it was learned."""
        if hasattr(type(rows), "columns") or hasattr(type(rows), "read_all"):
            rows = self._framed(rows)
        rows, labels = _seq(rows), _seq(labels)
        n = len(labels)
        if len(rows) != n:
            raise ValueError(
                f"there are {len(rows)} rows and {n} labels; give one label to each row"
            )
        answers = []
        for at in range(0, n, PART):
            with self._lock:
                answers.extend(self._update(rows[at : at + PART], labels[at : at + PART]))
        return answers

    def _framed(self, frame):
        """The rows of a frame, by name; the first one names the features. On CPython."""
        from edgeforest.host.columns import Frame

        frame = Frame(frame)
        if self.head.names is None:
            self._categorical += frame.categorical()
            self._name(frame.names or len(frame.columns))
        return frame.rows_for(self.head)

    def _update(self, rows, labels):
        if self.head.names is None:
            self._name(len(rows[0]))
        values = self._encode(rows)  # before anything is changed: a row may be wrong
        labels = self._targets(labels) if self.head.classes is None else self._classes(labels)
        n = len(labels)
        core_pure._steady(len(values) == n * self.head.n_features, "what is learned", n)
        guesses = array("I", bytes(4 * n))
        self._model = None
        self._grove.learn(values, labels, n, guesses)
        return self._judge(guesses, labels)

    @property
    def rows(self):
        """How many rows were learned."""
        return self._before + (self._grove.seen if self._grove else 0)

    def _classes(self, labels):
        """Labels as places of classes; a class that is new gets the next place."""
        places = self._places
        if hasattr(labels, "tolist"):
            labels = labels.tolist()
        if self._grove is not None:
            try:
                return array("H", [places[v] for v in labels])
            except (KeyError, TypeError):
                pass  # look at each
        known = len(self.head.classes)
        new = {}
        codes = array("H")
        for i, v in enumerate(labels):
            v = core_pure._plain(v, i, "the labels")
            if v is None:
                raise ValueError(f"the label of row {i} is missing; drop rows without a label")
            place = places.get(v)
            if place is None:
                place = new.get(v)
            if place is None:
                place = new[v] = known + len(new)
                if place >= 4096:
                    raise ValueError("at most 4096 classes; for numbers use criterion='mse'")
            codes.append(place)
        if new or self._grove is None:
            self._widen(new)
        return codes

    def _widen(self, new):
        """Make room for more classes."""
        classes = self.head.classes
        known = len(classes)
        core_pure._sorted_set(classes[:1] + list(new), "labels")
        refuse("the label", new)
        classes.extend(sorted(new, key=lambda v: new[v]))
        try:
            if self._grove is None:
                self._build()
            else:
                trees = self._trees()
                for tree in trees:
                    tree[4] = _widened(tree[4], known, len(classes))
                self._build(trees, self._grove.latest())
        except ValueError:  # they do not fit
            while len(classes) > known:
                classes.pop()
            raise
        self._places.update(new)

    def _targets(self, targets):
        """Targets as levels; the range is stretched if one of them lies beyond it."""
        head = self.head
        numbers = [core_pure._number(v, i, "the targets") for i, v in enumerate(targets)]
        for i, v in enumerate(numbers):
            if not -HUGE / 8 < v < HUGE / 8:
                raise ValueError(f"the target of row {i} must be a finite number, got {v!r}")
        low, high = min(numbers), max(numbers)
        if not head.span or low < head.low or high > head.low + head.span:
            self._stretch(low, high)
        return self._levels([v - head.low for v in numbers], head.scale / head.span, 0.0)

    def _stretch(self, low, high):
        """Widen the range of the targets, three times as wide as what was seen."""
        head = self.head
        before = head.low, head.span
        if self._grove is not None:
            low, high = min(low, before[0]), max(high, before[0] + before[1])
        span = (high - low) or max(1.0, abs(low) / 8)
        if not (-HUGE <= low - span and 3 * span <= HUGE):
            raise ValueError("targets must span less than 1e38; scale them down")
        head.low = array("f", [low - span])[0]
        head.span = array("f", [3 * span])[0]
        if self._grove is None:
            self._build()
            return
        at = (before[0] - head.low) / head.span * head.scale
        per = before[1] / head.span
        trees = self._trees()
        for tree in trees:
            votes = tree[4]
            for i in range(0, len(votes), 2):
                total = int(votes[i + 1] * per + votes[i] * at + 0.5)
                votes[i + 1] = max(0, min(LEVELS * votes[i], total))
        values, labels = self._grove.latest()
        self._build(trees, (values, self._levels(labels, per, at)))

    def _levels(self, numbers, per, at):
        """Numbers as levels; those at the ends may lie beyond them by a rounding of float32."""
        scale = self.head.scale
        return array("H", [max(0, min(scale, int(v * per + at + 0.5))) for v in numbers])

    def _encode(self, rows):
        """Rows as float32 numbers, one after the other."""
        head = self.head
        if head.all_numbers:
            values = _flat(rows, head.n_features)
            if values is None:
                values = _listed(rows, head.n_features)
            if values is not None:
                return values
        values = array("f")
        for row in rows:
            if not head.all_numbers:
                self._meet(row)
            values.extend(head.encode(row))
        for i, v in enumerate(values):
            if v - v != 0 and v == v:
                name = head.names[i % head.n_features]
                raise ValueError(f"feature {name!r} of row {i // head.n_features} is infinite")
        return values

    def _meet(self, row):
        """Note categories that are new."""
        head = self.head
        if len(row) == len(head.names):
            for f, kinds in enumerate(head.categories):
                if kinds is not None and len(kinds) < max(CATEGORIES, len(kinds)):
                    what = f"categories of {head.names[f]!r}"
                    v = core_pure._plain(row[f], 0, what)
                    if v is not None and v not in head.places[f]:
                        core_pure._sorted_set(kinds[:1] + [v], what)
                        refuse("the category", [v])
                        kinds.append(v)
                        head.places[f][v] = len(kinds)

    def _judge(self, guesses, labels):
        """Count what was wrong; returns the guesses as labels."""
        head = self.head
        if head.classes is None:
            answers = [head.value(total) for total in guesses]
            step = head.span / head.scale
            wrong = [abs(a - head.low - v * step) for a, v in zip(answers, labels)]
        else:
            classes = head.classes
            answers = [classes[place] for place in guesses]
            wrong = [0 if a == b else 1 for a, b in zip(guesses, labels)]
        if self._blind:
            answers[0] = None
            wrong = wrong[1:]
            self._blind = False
        self._sum += sum(wrong)
        if len(wrong) > RECENT:
            self._judged += len(wrong) - RECENT
            wrong = wrong[-RECENT:]
        recent = self._recent
        at = self._judged % RECENT
        for v in wrong:
            recent[at] = v
            at = at + 1 if at + 1 < RECENT else 0
        self._judged += len(wrong)
        return answers

    # ---- Predicting

    @property
    def error(self):
        """The share of rows that was predicted wrong, or the mean absolute error of numbers."""
        return self._sum / self._judged if self._judged else NAN

    @property
    def recent_error(self):
        """The same of the last thousand rows."""
        n = min(self._judged - self._told, RECENT)
        return sum(self._recent) / n if n else NAN

    @property
    def accuracy(self):
        """The share of rows that was predicted right before they were learned."""
        self._must_classify()
        return 1.0 - self.error

    @property
    def recent_accuracy(self):
        """The same of the last thousand rows."""
        self._must_classify()
        return 1.0 - self.recent_error

    def _must_classify(self):
        if self.head.classes is None:
            raise AttributeError("a regression has no accuracy; see its error")

    def forest(self):
        """The forest as it is now: it predicts, explains, and is saved and exported like any other."""
        with self._lock:
            return self._now()

    def _now(self):
        if self._model is None:
            if self._blind:
                raise ValueError("nothing was learned yet; call update first")
            self._model = self._snapshot()
        return self._model

    def _snapshot(self):
        head, grove = self.head, self._grove
        forest = _engine(self.engine).Forest()
        for _, name in core_pure.HEADER:
            setattr(forest, name, getattr(head, name))
        forest.names = list(head.names)
        forest.categories = [None if k is None else list(k) for k in head.categories]
        forest.classes = None if head.classes is None else list(head.classes)
        forest.low, forest.span = head.low, head.span
        forest.spent = core_pure.Spent(rows_read=self.rows)
        parts = [0.0] * len(head.names)
        for t in range(self.options["n_trees"]):
            nodes = grove.tree(t)
            gains = nodes.pop()
            forest.add_tree(_closed(nodes, len(head.classes or ()), head.scale))
            whole = 0.0
            for v in gains:
                whole += v
            for f, v in enumerate(gains):
                parts[f] += v / (whole or 1)
        whole = 0.0
        for v in parts:
            whole += v
        forest.importances = [int(v / (whole or 1) * 1000000 + 0.5) for v in parts]
        forest.prepare()
        return forest

    def predict(self, rows):
        """The class or value of one row, or a list of them for a sequence of rows."""
        return self.forest().predict(rows)

    def predict_proba(self, rows):
        """The share of each class, in the order of `classes`, of one row or a sequence of rows."""
        return self.forest().predict_proba(rows)

    @property
    def classes(self):
        """The classes that were seen or announced, in the order of `predict_proba`."""
        return self.head.classes

    # ---- Going on later

    @classmethod
    def from_forest(cls, forest, latest=None, **options):
        """Go on learning with a forest that was trained before.

        Its trees vote on, and are replaced when they are wrong too often. `latest` are rows to
        begin with, as `Grove.latest` has them. Options as for a new one; features, classes and the
        number of trees are those of the forest.
        """
        leaves = 2
        bounds = list(forest.roots) + [len(forest.feature)]
        for t in range(len(forest)):
            leaves = max(leaves, (bounds[t + 1] - bounds[t]) // 2 + 1)
        given = {
            "classes": forest.classes,
            "kind": forest.kind,
            "criterion": forest.criterion,
            "max_leaf_nodes": max(256, min(2 * leaves, 32767)),
            "seed": forest.seed,
        }
        given.update(options)
        given["n_trees"] = len(forest)
        learner = cls(forest.names, **given)
        head = learner.head
        head.categories = [None if k is None else list(k) for k in forest.categories]
        head.low, head.span = forest.low, forest.span
        if latest is not None:
            latest = _checked(head, latest)
        room = learner._plan().nodes
        if 2 * leaves - 1 > room:
            raise ValueError(
                f"a tree of {2 * leaves - 1} nodes does not fit into {room}: use a max_leaf_nodes "
                f"of at least {leaves}, and a budget that has the bytes for it"
            )
        trees = []
        for t in range(len(forest)):
            trees.append(_opened(forest, bounds[t], bounds[t + 1], head.scale))
        learner._build(trees, latest)
        learner._blind = False  # a guess can be made for the first row
        return learner

    def save(self, path):
        """Write the forest with the latest rows, so that learning can go on: see `load`.

        The file is a model like any other. Whenever the power fails, there is the old one or the
        new one.
        """
        with self._saving:  # apart from `_lock`: rows are learned while a slow card is written
            forest, state = self._whole()
            core_pure._tidy()
            _storage().write(forest, path, state)

    def _whole(self):
        """The forest, and what is to be remembered beside it."""
        with self._lock:
            forest = self._now()
            values, labels = self._grove.latest()
            return forest, {
                "online": self.options,
                "rows": self.rows,
                "judged": self._judged,
                "wrong": self._sum,
                "window": core_pure._pack(values, "f"),
                "labels": core_pure._pack(labels, "H"),
            }

    @classmethod
    def load(cls, path, engine=None):
        """Go on from a file that `save` wrote, or from any other model.

        >>> learner = OnlineForest(2)
        >>> guesses = learner.update_batch([[i % 5, i] for i in range(200)], [i % 5 > 2 for i in range(200)])
        >>> learner.save("model.json")
        >>> again = OnlineForest.load("model.json")
        >>> again.rows, again.predict([4, 1]), again.error == learner.error
        (200, True, True)
        """
        forest, state = _storage().read(path)
        if forest is None:
            raise OSError(f"there is no model in {path} yet")
        if state is None or "online" not in state:
            return cls.from_forest(forest, engine=engine)
        return _revive(cls, forest, state, engine)

    def __reduce__(self):
        if self._blind:
            raise ValueError("an online forest that has learned nothing cannot be pickled yet")
        return (_revive, (self.__class__,) + self._whole() + (self.engine,))


PART = 4096  # rows at once: Ctrl-C is looked at in between
BYTES = 16_000_000  # of an online forest, where the budget does not say
RECENT = 1000  # rows of the recent error
ROWS = 1 << 53  # more than any learner has learned


def _engine(name):
    """The module of an engine; on a board there is the core alone."""
    try:
        from edgeforest import engines as engine
    except ImportError:
        return core_pure
    return engine.pick(name)


def _storage():
    try:
        from edgeforest import storage
    except ImportError:  # a board
        import storage
    return storage


def _revive(kind, forest, state, engine):
    """A learner as it was when it was saved; its races begin anew."""
    _engine(engine)  # which may not be there
    try:
        learner = _recalled(kind, forest, state, engine)
    except (TypeError, ValueError, KeyError, AttributeError):
        learner = None
    if learner is None:
        raise ValueError("the model is damaged inside; train or copy it again")
    return learner


def _recalled(kind, forest, state, engine):
    """A learner from what was noted of it; raises anything if no learner can have noted that."""
    options = dict(state["online"])
    for name in ("kind", "criterion", "seed"):
        if options[name] != getattr(forest, name):
            raise ValueError
    rows, judged, wrong = state["rows"], state["judged"], state["wrong"]
    if type(rows) is not int or type(judged) is not int or type(wrong) not in (int, float):
        raise ValueError
    most = judged if forest.classes is not None else 1e300
    known = set(kind(1).options)
    if not 0 <= judged <= rows < ROWS or not 0 <= wrong <= most or set(options) - known:
        raise ValueError
    options["budget"] = core_pure.Budget(bytes=options.pop("bytes"))
    if options.pop("n_trees") != len(forest):
        raise ValueError
    latest = core_pure._unpack(state["window"], "f"), core_pure._unpack(state["labels"], "H")
    learner = kind.from_forest(forest, latest, engine=engine, **options)
    learner._before = rows - learner._grove.seen
    learner._judged = learner._told = judged
    learner._sum = wrong
    return learner


def _checked(head, latest):
    """The latest rows as a grove takes them; refused if no learner of such rows can hold them."""
    values, labels = array("f", latest[0]), array("H", latest[1])
    m, categories = len(head.names), head.categories
    most = head.scale if head.classes is None else len(head.classes) - 1
    if len(values) != m * len(labels) or max(labels or (0,)) > most:
        raise ValueError("the latest rows do not fit the forest: give those of Grove.latest")
    for i, x in enumerate(values):
        kinds = categories[i % m]
        if kinds is None:
            fits = x - x == 0
        else:
            fits = 0 < x <= len(kinds) and x == int(x)
        if not fits and x == x:
            raise ValueError(f"the latest rows hold {x} as {head.names[i % m]!r}; drop that row")
    return values, labels


def _seq(values):
    """Something that has a length and can be sliced."""
    if hasattr(values, "to_numpy"):  # a DataFrame or a Series
        return values.to_numpy()
    return core_pure._rows(values)


def _flat(rows, m):
    """The numbers of rows in a NumPy array, if they are there, without a look at each."""
    if hasattr(rows, "dtype") and getattr(rows, "ndim", 0) == 2 and rows.dtype.kind in "fiub":
        if rows.shape[1] != m:
            raise ValueError(f"a row must have {m} values, got {rows.shape[1]}")
        values = rows.astype("float32")
        if (abs(values) > HUGE).any():
            return None  # one of them is infinite: look at each
        return array("f", values.tobytes())
    return None


def _listed(rows, m):
    """The numbers of rows in lists, if all are finite, without a look at each."""
    try:
        for row in rows:
            if len(row) != m:
                return None
        values = array("f", [v for row in rows for v in row])
    except (TypeError, ValueError, OverflowError):
        return None
    total = sum(values)
    return values if total - total == 0 and len(values) == m * len(rows) else None


def _widened(votes, before, now):
    """Votes with room for more classes."""
    wide = array("I", bytes(4 * now * (len(votes) // before)))
    for at in range(0, len(votes), before):
        here = at // before * now
        wide[here : here + before] = votes[at : at + before]
    return wide


def _closed(nodes, width, scale):
    """A tree as `Forest.add_tree` takes it."""
    feature, threshold, left, right, votes = nodes
    tree = core_pure.Tree()
    tree.feature = feature
    tree.threshold = threshold
    tree.left = array("I", left)
    tree.right = array("I", right)
    leaves = 0
    stack = [0]
    while stack:  # in preorder
        node = stack.pop()
        if feature[node] != LEAF:
            stack.append(right[node])
            stack.append(left[node])
            continue
        leaves += 1
        tree.right[node] = leaves
        threshold[node] = 0.0  # what was asked here before means nothing
        if width:
            some = votes[node * width : node * width + width]
            tree.votes.extend(array("H", _shares(some, sum(some) or 1, scale)))
        else:
            n, total = votes[2 * node], votes[2 * node + 1]
            # Halved totals may lie a little above what their rows said.
            tree.votes.append(min(scale, (2 * total + n) // (2 * n)) if n else 0)
    return tree


def _opened(forest, start, end, scale):
    """The nodes from start to end of a forest as a grove takes them."""
    n = end - start
    width = forest.n_votes
    feature = forest.feature[start:end]
    left = array("H", bytes(2 * n))
    right = array("H", bytes(2 * n))
    votes = array("I", bytes(4 * n * (2 if forest.regression else width)))
    for i in range(n):
        here = forest.right[start + i]
        if feature[i] != LEAF:
            left[i] = i + 1
            right[i] = here - start
        elif forest.regression:
            votes[2 * i] = 8 * UNIT
            total = 8 * UNIT * forest.votes[here] * scale // forest.scale
            votes[2 * i + 1] = min(8 * UNIT * LEVELS, total)  # merging may lift it above that
        else:
            some = forest.votes[here * width : here * width + width]
            some = _shares(some, sum(some) or 1, scale)
            votes[i * width : i * width + width] = array("I", some)
    gains = [v / 10000 for v in forest.importances]
    return [feature, forest.threshold[start:end], left, right, votes, gains]
