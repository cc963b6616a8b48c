"""MABSplit: random forests whose every split is found by a multi-armed bandit over histograms.

This file is the algorithm in plain Python, the specification that every faster engine reproduces
bit for bit, so it is written to be read. The idea, for one node of one tree:

    draw some features; every threshold of every one of them is an *arm*
    repeat                                                                      (a *round*)
        count one more batch of the node's rows into a histogram of each feature
            (a value counted is an *insertion*; the budget grants it before it is made)
        from its histogram, estimate the *gain* of each feature's best arm, and how sure that is
        drop every feature whose best arm cannot beat the leader's by more than a tolerance
    until only the leader is left, and no other threshold of it can do much better
    the leader's best arm is the *split*; in a large node, the best code near it

So a node of a million rows is split after a few thousand of them, if these are enough to be sure.

    race        this loop: the bandit at one node, from its first round to its decision
    Grower      one tree, level by level, made of races
    Training    a forest under a budget: each tree gets an equal share

Read next: `criteria` (what a histogram says about an arm), `nodes` (the operations on a node),
`codes` (numbers become codes), `budget`, `forest`. All of them run unchanged on CPython and
MicroPython. What is rarely asked for is in files that are loaded then: `race_paper` (Algorithm 1
to the letter), `entropy`, `weights`.
"""

import gc
import math
from array import array

from edgeforest.budget import Budget, Rng, between, millionths
from edgeforest.codes import Data, Reader, vote_scale, vote_shares
from edgeforest.criteria import Split, decide, node_word
from edgeforest.forest import (  # type: ignore[attr-defined]
    BOARD,
    CRITERIA,
    HUGE,
    KINDS,
    LEAF,
    LEVELS,
    MASK,
    SPLITTERS,
    Forest,
    collect,
    kernel,
    split_of,
)
from edgeforest.nodes import EXACT_BELOW, GROUP_ROWS, LARGE, Nodes

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *

# Measured choices, explained in docs/algorithm.md.
Z = 2.25  # half-widths of an interval, in standard errors
TOLERANCE = 0.1  # stop when nothing can beat the leader by more than this share of its gain ...
TOLERANCE_IMPURITY = 0.001  # ... or by this share of the node's impurity
BATCH = 256  # rows of the first round; each later round brings half as many again as were seen
RACE_ROWS = 512  # rows that a race is expected to need, for sharing out a short budget
ROOM = 0.65  # of the memory that is free: what a board reserves for a forest, at most
LEAST_ROWS = 64  # fewer rows than this do not make a race worth running
LEAST_OTHERS = (
    16  # rows of other classes than the largest that must be seen before a feature is out
)


def find_split(
    task: "Training", nodes: "NodeOperations", start: "int", end: "int", rng: "Rng", wanted: "int"
) -> "Generator[Training, None, Split | None]":
    """Find a node's split; a generator that yields between rounds and returns a Split or None.

    `wanted` rows are still to be raced in the whole tree: if the budget is short, every race gets
    its part.
    """
    n = end - start
    splitter = task.splitter
    left = task.budget.left()
    if n <= GROUP_ROWS and splitter != "mab-paper":
        if left is None or wanted * task.max_features <= left:  # not short
            return (yield from nodes.race_small(start, end, rng))  # type: ignore[no-any-return]
    racing, stride = nodes.contenders(start, end, rng)
    if not racing:
        return None
    if splitter == "mab-paper":
        from edgeforest.race_paper import race_paper

        return (yield from race_paper(task, nodes, racing, stride, start, n))
    batch = most = n
    if splitter == "mab":
        wanted *= len(racing)
        if left is not None and wanted > left:
            most = min(n, max(LEAST_ROWS, RACE_ROWS * left // wanted))
        batch = most if n <= EXACT_BELOW else min(task.batch, most)
    elif left is not None and left < n * len(racing):
        return None  # exact or nothing
    return (yield from race(task, nodes, racing, stride, start, n, batch, most))


def race(
    task: "Training",
    nodes: "NodeOperations",
    racing: "list[Any]",
    stride: "int",
    start: "int",
    n: "int",
    batch: "int",
    most: "int",
) -> "Generator[Training, None, Split | None]":
    """The bandit at a node of n rows, of which it may count `most`, in batches that grow.

    All drawn features start. A round counts one more batch of the node's rows into their
    histograms. Then every feature whose best arm cannot beat the leader's any more is out, and
    costs nothing from there on. The race is decided when only the leader is left and no other
    threshold of it can do much better.
    """
    budget, criterion = task.budget, task.criterion
    seen = squares = 0
    while True:
        granted = budget.take(min(batch, most - seen), len(racing))
        if granted:
            at, more = nodes.count(racing, stride, start + seen, start + seen + granted)
            squares += more
            seen = at - start
            yield task
        elif not seen:
            return None
        total = nodes.total(racing[0], stride)
        size = criterion.size(total)
        # Sampling is without replacement: the estimate is exact once all n rows are counted.
        rest = 0.0
        if seen < n:
            rest = (n - seen) / (n - 1) * squares / (size * size)
        if granted:
            nodes.rank(criterion, racing, stride, total, task.least_rows(seen, n))
        racing = [c for c in racing if c.best]
        if not racing:
            return None
        if seen == most or not granted:
            lead = max(racing, key=lambda c: c.best[0])  # of equals the first
            break
        from edgeforest.intervals import may_beat  # which nodes that are counted whole do without

        nodes.measure(criterion, racing, stride, total, rest)
        lead = max(racing, key=lambda c: c.gain)
        impurity = criterion.impurity(total)
        slack = max(task.tolerance * lead.gain, TOLERANCE_IMPURITY * impurity)
        # What sets a rare class apart shows only in rows of it.
        if impurity > 0 and (task.data.regression or size - max(total) >= LEAST_OTHERS):
            sure = lead.interval
            racing = [c for c in racing if c is lead or may_beat(c.interval, sure, slack, task.z)]
            if len(racing) == 1 and not nodes.better_threshold(
                criterion, lead, stride, total, rest, slack, task.z
            ):
                break
        batch = max(task.batch, seen >> 1)
    if n > LARGE and task.kind != "extra-trees":
        rows = start, start + seen, start + n
        return nodes.second_look(lead, stride, total, rest, rows)  # type: ignore[no-any-return]
    return decide(task, lead, stride, total, rest)


# ---- One tree ---------------------------------------------------------------------------------


class GrowingTree:
    """One tree while it grows: nodes in the order they were made.

    Of n rows, with room for some nodes; if all features are bytes, codes are thresholds too.
    """

    def __init__(self, n: "int" = MASK, of_bytes: "bool" = False, nodes: "int" = 0) -> "None":
        code = "H" if n < 32768 else "I"  # for the numbers of n rows, and of the nodes they make
        self.feature = room("H", nodes)  # of a split, with its flags: see `node_word`
        self.votes = room("H", nodes)
        codes = code + code + "H" + code + code + ("fB" if of_bytes else "fBf")
        self.parts: "list[Any]" = [room(c, nodes) for c in codes]
        (
            self.start,  # its rows: from here ...
            self.end,  # ... to here
            self.depth,
            self.left,  # 0: not split
            self.right,  # of a leaf: one more than the place of its votes
            self.gain,
            self.code,
        ) = self.parts[:7]
        self.threshold = self.parts[-1]

    def add(self, start: "int", end: "int", depth: "int") -> "int":
        """A new node, undecided; returns its place."""
        for values, value in zip(self.parts, (start, end, depth, 0, 0, 0, 0, 0)):
            values.append(value)
        self.feature.append(LEAF)  # the last: Ctrl-C may come in between
        return len(self.feature) - 1

    def waits(self, node: "int") -> "bool":
        """Whether it is decided how to split this node, and not done yet."""
        return self.feature[node] != LEAF and not self.left[node]

    def move_to(self, forest: "Forest") -> "None":
        """Append the nodes to a forest in preorder: a left child is the node after its parent."""
        n = len(self.feature)
        before = len(forest.votes) // len(forest.classes or (0,))
        here = len(forest.feature)
        right: "Any" = self.feature  # to be overwritten
        if here + n > 65535:
            right = array("I", right)
            forest.right = array("I", forest.right)
        collect()
        # The largest first: a small heap has few large gaps.
        forest.votes.extend(self.votes)
        forest.feature.extend(self.feature)
        forest.right.extend(right)
        forest.roots.append(here)
        last = here + n
        stack = [(0, -1)]
        while stack:
            node, parent = stack.pop()
            if parent >= 0:
                forest.right[parent] = here
            forest.feature[here] = self.feature[node]
            forest.threshold.append(self.threshold[node])
            if self.feature[node] == LEAF:
                forest.right[here] = before + self.right[node] - 1
            else:
                stack.append((self.right[node], here))
                stack.append((self.left[node], -1))
            here += 1
        while here < last:  # children that Ctrl-C left without a parent
            forest.feature[here] = LEAF
            forest.threshold.append(0)
            forest.right[here] = 0
            here += 1

    def clear(self) -> "None":
        """Forget all nodes; MicroPython keeps their memory, for the next tree."""
        for values in self.parts + [self.feature, self.votes]:
            values[:] = values[:0]


def room(code: "str", n: "int") -> "Any":
    """An empty array; on a board, with memory for n items, since what grows is scattered."""
    values: "Any" = array(code, range(n if BOARD else 0))
    values[:] = values[:0]  # MicroPython keeps the memory
    return values


def sizes(forest: "Forest") -> "tuple[int, int, int]":
    """How many trees, nodes and votes a forest has."""
    return len(forest.roots), len(forest.feature), len(forest.votes)


class Grower:
    """Grows one tree after the other out of races; how an engine counts is up to its `nodes`.

    The native engine has a class with the same public methods, which grows whole trees in C
    (`TreeGrower` in host/types.py lists them).
    """

    nodes: "NodeOperations" = None  # type: ignore[assignment]  # once all rows are read
    tree: "GrowingTree | None" = None  # the one that grows
    spare: "GrowingTree | None" = None  # the memory of the one before it
    wanted: "int" = 0  # rows that the races of this tree still want
    whole: "tuple[int, int, int] | None" = None  # `sizes` of the forest's complete trees

    def __init__(
        self,
        task: "Training",
        make_nodes: "Callable[[Training], NodeOperations]" = Nodes,
        more_bytes: "Callable[[Training], int] | None" = None,
    ) -> "None":
        self.task = task
        self.make_nodes = make_nodes
        self.more_bytes = more_bytes  # what these operations take beyond those in plain Python

    def run(self) -> "Iterator[Training]":
        """Grow all trees, each with its share of the budget; yields between rounds."""
        return one_by_one(self.task)

    def draw(self, rng: "Rng") -> "int":
        """Draw the rows of a tree; returns how many."""
        if self.nodes is None:
            self._begin()
        return self.nodes.draw(rng)

    def grow(self, place: "int") -> "Generator[Training, None, None]":
        """Grow the tree of that place, level by level, or best gain first with max_leaf_nodes."""
        task = self.task
        tree = self.tree = self.spare or self._tree()
        self.spare = None
        self.whole = sizes(task.grown)
        rng = task.stream(place)
        size = self.draw(rng)
        nodes = self.nodes
        key = rng.next()
        tree.add(0, size, 0)
        self.wanted = task.demand(size, 0)
        raced = waiting = 0
        leaves = 1
        while True:
            while raced < len(tree.feature):
                start, end, depth = tree.start[raced], tree.end[raced], tree.depth[raced]
                if self._may_split(start, end, depth):
                    # Each node has its own random stream: the order of growth changes nothing.
                    rng = Rng(key ^ start, end)
                    split = yield from find_split(task, nodes, start, end, rng, self.wanted)
                    if split and split.gain * (end - start) / size >= task.min_impurity_decrease:
                        self._note(tree, raced, split)
                if tree.waits(raced):  # paid for itself; what lies below it is still to come
                    self.wanted -= min(end - start, RACE_ROWS)
                else:
                    self.wanted -= task.demand(end - start, depth)
                raced += 1
            # Next: the first that waits to be split, or the one that gains most.
            while waiting < raced and not tree.waits(waiting):
                waiting += 1
            node = waiting
            if task.max_leaf_nodes < MASK:
                from edgeforest.kinds import most_promising

                node = most_promising(tree, waiting)
            if node == raced or leaves == task.max_leaf_nodes or not task.has_room(raced + 2):
                return
            leaves += self._part(tree, node)

    def _tree(self) -> "GrowingTree":
        """A tree to begin with."""
        task = self.task
        nodes = min(2 << min(task.max_depth, 10), task.data.n >> 4)
        return GrowingTree(task.data.n, task.data.of_bytes, nodes)

    def _begin(self) -> "None":
        """Make the operations on nodes, and on a board room for the whole forest."""
        task, forest = self.task, self.task.grown
        if BOARD and task.sample_size > LARGE:
            # Large nodes need them: before what comes and goes.
            import edgeforest.intervals
            import edgeforest.second_look  # noqa: F401
        collect()
        self.nodes = self.make_nodes(task)
        if BOARD and task.budget.bytes is None and not forest.roots:
            width = len(forest.classes or (0,))
            code, size = ("B", 1) if task.data.of_bytes and not kernel else ("f", 4)
            most = min(2 << min(task.max_depth, 10), task.data.n >> 3) * task.planned
            most = min(most, int(ROOM * gc.mem_free()) // (4 + size + width))  # type: ignore
            forest.votes = room("H", most * width // 2)
            forest.feature = room("H", most)
            forest.right = room("H", most)
            forest.threshold = room(code, most)

    def _may_split(self, start: "int", end: "int", depth: "int") -> "bool":
        """Whether a node is worth a race, and there is budget for one."""
        task = self.task
        if depth >= task.max_depth or end - start < 2:
            return False
        least = max(task.min_samples_split, 2 * task.min_samples_leaf)
        if self.nodes.draws(start, end) < least:
            return False
        left = task.budget.left()
        if (left is not None and left < 1) or task.budget.late():
            return False
        return self.nodes.is_mixed(start, end)  # one label only needs no race

    def _note(self, tree: "GrowingTree", node: "int", split: "Split") -> "None":
        """Note how a node is to be split."""
        tree.feature[node] = node_word(split.feature, split.equal, split.missing_left)
        tree.code[node] = split.code
        tree.gain[node] = split.gain
        if tree.threshold is not tree.code:
            bounds = self.task.data.bounds[split.feature]
            inside = split.code < len(bounds) - 1 or split.equal
            tree.threshold[node] = bounds[split.code] if inside else HUGE

    def _part(self, tree: "GrowingTree", node: "int") -> "int":
        """Split a node that waits for it; returns how many leaves there are more: 1 or none."""
        task, nodes = self.task, self.nodes
        start, end, depth = tree.start[node], tree.end[node], tree.depth[node]
        self.wanted -= task.demand(end - start, depth) - min(end - start, RACE_ROWS)
        middle = nodes.partition(start, end, tree.feature[node], tree.code[node])
        if task.min_samples_leaf > min(nodes.draws(start, middle), nodes.draws(middle, end)):
            tree.feature[node] = LEAF  # the sample promised more than the rows hold
            return 0
        if end - start > self._counted_whole():
            # The race has seen some rows; the gain is computed from all of them.
            cells = nodes.cells(start, middle)
            tree.gain[node] = task.criterion.describe(cells, nodes.cells(start, end), True)[0]
        left = tree.add(start, middle, depth + 1)
        tree.right[node] = tree.add(middle, end, depth + 1)
        tree.left[node] = left  # the last, since Ctrl-C may come in between
        self.wanted += task.demand(middle - start, depth + 1)
        self.wanted += task.demand(end - middle, depth + 1)
        return 1

    def _counted_whole(self) -> "int":
        """Nodes of that many rows, or fewer, were surely counted whole by their race."""
        task = self.task
        if task.splitter == "exact":
            return MASK
        limited = task.budget.seconds is not None or task.budget.left() is not None
        return GROUP_ROWS if limited or task.splitter != "mab" else EXACT_BELOW

    def close(self) -> "None":
        """Finish the tree in hand and add it to the forest: what is not split becomes a leaf.

        If no tree was begun yet, the forest gets one of a single leaf.
        """
        tree, task = self.tree, self.task
        if tree is None:
            if self.whole and self.whole != sizes(task.grown):
                from edgeforest.undoing import cut_back

                cut_back(task.grown, self.whole)
            if task.grown.roots:
                return
            tree = self._tree()
        if not tree.feature:  # stopped before it began
            tree.add(0, self.draw(task.stream(len(task.grown))), 0)
        size = tree.end[0]
        stack = [0]
        while stack:  # in preorder
            node = stack.pop()
            if tree.left[node]:
                part = (tree.end[node] - tree.start[node]) / size
                feature = split_of(tree.feature[node])[0]  # type: ignore[index]
                task.importance[feature] += tree.gain[node] * part
                stack.append(tree.right[node])
                stack.append(tree.left[node])
            else:
                self._make_leaf(tree, node)
        self.tree = None
        tree.move_to(task.grown)
        self.whole = sizes(task.grown)
        tree.clear()
        self.spare = tree

    def _make_leaf(self, tree: "GrowingTree", node: "int") -> "None":
        """Turn the rows of a node into votes."""
        votes = self.nodes.cells(tree.start[node], tree.end[node])
        scale = self.task.grown.scale
        if self.task.data.regression:
            n, total, _ = votes
            votes = [(2 * total * scale + n * LEVELS) // (2 * n * LEVELS)]
        else:
            votes = vote_shares(votes, sum(votes), scale)
        tree.feature[node] = LEAF
        tree.votes.extend(array("H", votes))
        tree.right[node] = len(tree.votes) // len(votes)

    def free(self) -> "None":
        """Let go of what is needed to grow, the tree in hand included."""
        self.nodes = self.tree = self.spare = None  # type: ignore[assignment]
        if BOARD:
            collect()
            forest = self.task.grown
            try:
                for name in ("votes", "feature", "right", "threshold"):
                    setattr(forest, name, getattr(forest, name)[:])  # without room for more
            except MemoryError:
                pass

    def working_bytes(self, nodes: "int", growing: "int") -> "int":
        """The memory that training takes above the data: see `Training.working_bytes`."""
        from edgeforest.memory import working_bytes  # a board loads it if bytes are limited

        more = self.more_bytes(self.task) if self.more_bytes else 0
        return working_bytes(self.task, nodes, growing) + more


def one_by_one(task: "Training") -> "Iterator[Training]":
    """Grow the trees of a forest one after the other; yields between rounds."""
    budget, trees = task.budget, task.trees
    now = budget.tick()
    if task.read is None:
        task.read = now  # from here on trees grow
    while task.following < task.planned:
        index = task.following
        budget.begin_tree(index, task.planned, task.read)
        task.following += 1
        if index and (budget.left() == 0 or budget.late() or not task.has_room(3)):
            continue  # its share is gone: used up by the trees before it
        yield from trees.grow(len(task.grown))
        trees.close()
        budget.tick()
        yield task


# ---- A forest ---------------------------------------------------------------------------------


def criterion_of(name: "str") -> "Any":
    """The criterion of that name."""
    if name == "mse":
        from edgeforest.mse import MSE

        return MSE()
    if name == "entropy":
        from edgeforest.entropy import Entropy

        return Entropy()
    from edgeforest.gini import Gini

    return Gini()


class Engine:
    """What trains: its name, how values become codes, how trees grow, what predicts.

    The last two are None where plain Python does it: `Forest.predictor` and `grove.Grove`.
    """

    def __init__(
        self,
        name: "str",
        reader: "Callable[[], Any]",
        grower: "Callable[[Training], TreeGrower]",
        predictor: "Callable[[Forest], Predictor] | None" = None,
        grove: "Any" = None,
    ) -> "None":
        self.name = name
        self.reader = reader
        self.grower = grower
        self.predictor = predictor
        self.grove = grove


ENGINE = Engine("pure", Reader, Grower)


class Training:
    """Training in steps: iterate to advance by one round; `forest()` is valid at any time.

    >>> rows = [[i % 7, i % 3] for i in range(60)]
    >>> training = Training(rows, [row[0] > 2 for row in rows], n_trees=3, budget=2000)
    >>> for step in training:          # between rounds: feed the watchdog, read the sensor
    ...     if step.budget.spent.seconds > 60:
    ...         break
    >>> training.forest().predict([5, 0])
    True
    """

    n_trees: "int"
    max_depth: "int"
    min_samples_leaf: "int"
    min_samples_split: "int"
    max_leaf_nodes: "int"
    n_bins: "int"
    seed: "int"
    first: "int"
    min_impurity_decrease: "float"
    alpha_n: "float"
    alpha_f: "float"
    z: "float"
    tolerance: "float"
    batch: "int"
    confidence: "float | None"

    def __init__(
        self,
        X: "Values",
        y: "Values",
        *,
        kind: "Kind" = "random-forest",
        criterion: "Criterion" = "gini",
        splitter: "Splitter" = "mab",
        n_trees: "int" = 20,
        max_depth: "int | None" = None,
        max_features: "int | float | None" = None,
        min_samples_leaf: "int" = 1,
        min_samples_split: "int" = 2,
        min_impurity_decrease: "float" = 0.0,
        max_leaf_nodes: "int | None" = None,
        n_bins: "int | None" = None,
        bootstrap: "bool | None" = None,
        max_samples: "int | float | None" = None,
        alpha_n: "float" = 0.7,
        alpha_f: "float" = 0.85,
        class_weight: "ClassWeight | None" = None,
        sample_weight: "Values | None" = None,
        names: "Values | None" = None,
        categorical: "Iterable[str | int]" = (),
        n_features: "int | None" = None,
        by_column: "bool" = False,
        budget: "int | Budget | None" = None,
        confidence: "float | None" = None,
        z: "float" = Z,
        tolerance: "float" = TOLERANCE,
        batch: "int" = BATCH,
        seed: "int" = 0,
        first: "int" = 0,
        engine: "Engine" = ENGINE,
        n_jobs: "int" = 1,
    ) -> "None":
        if kind not in KINDS or criterion not in CRITERIA or splitter not in SPLITTERS:
            from edgeforest.checks import refuse_unknown

            refuse_unknown(kind, criterion, splitter)
        self.kind, self.splitter, self.engine, self.n_jobs = kind, splitter, engine, n_jobs
        extra = kind == "extra-trees"
        if n_bins is None:
            n_bins = 2 if extra else 16  # ExtraTrees: one random threshold a feature
        for name, value, low, high in (
            ("n_trees", n_trees, 1, 4096),
            ("max_depth", MASK if max_depth is None else max_depth, 0, MASK),
            ("min_samples_leaf", min_samples_leaf, 1, MASK),
            ("min_samples_split", min_samples_split, 2, MASK),
            ("max_leaf_nodes", MASK if max_leaf_nodes is None else max_leaf_nodes, 2, MASK),
            ("n_bins", n_bins, 2, 255),
            ("seed", seed, 0, MASK),
            ("first", first, 0, MASK),
            ("min_impurity_decrease", min_impurity_decrease, 0.0, HUGE),
            ("alpha_n", alpha_n, 1e-9, 1.0),
            ("alpha_f", alpha_f, 1e-9, 1.0),
            ("z", z, 0.0, 100.0),
            ("tolerance", tolerance, 0.0, 1.0),
            ("batch", batch, 1, MASK),
        ):
            setattr(self, name, between(name, value, low, high))
        self.confidence = None
        if confidence is not None:
            self.confidence = between("confidence", confidence, 0.5, 0.999999)
        self.budget = budget.copy() if isinstance(budget, Budget) else Budget(budget)
        self.criterion = criterion_of(criterion)
        self.bootstrap = not extra if bootstrap is None else bootstrap
        reader = engine.reader()
        data = self.data = Data(X, y, reader, criterion == "mse", n_features, by_column)
        data.name_features(names, categorical)
        if data.regression:
            from edgeforest.mse import count_levels

            count_levels(self)
        rng = Rng(self.seed)
        self.features = array("H", range(data.m))
        if kind == "random-patches":
            from edgeforest.kinds import draw_patch

            draw_patch(self, rng)
        if sample_weight is not None or class_weight is not None:
            from edgeforest.weights import read_weights

            data.weights = read_weights(data, sample_weight, class_weight)
        self._size(max_features, max_samples)
        self.trees: "TreeGrower" = (kernel or engine).grower(self)
        if self.budget.bytes is not None:
            from edgeforest.memory import check_room

            check_room(self)
        reader.columns(self, rng)
        self.following = 0  # which of the planned trees is next
        self.read: "float | None" = None  # seconds until all rows were read
        self.importance: "Any" = array("d", bytes(8 * data.m))
        self.grown = self._begin(criterion)
        self._steps: "Any" = self.trees.run()

    def __iter__(self) -> "Iterator[Training]":
        return self._steps or iter(())

    def _size(
        self, max_features: "int | float | None", max_samples: "int | float | None"
    ) -> "None":
        """Find out how many features a race has, how many rows a tree draws, how many trees grow."""
        data = self.data
        self.max_features = usable = len(self.features)
        self.sample_size = drawable = data.drawable()
        if max_features is not None:
            from edgeforest.checks import part_of

            self.max_features = part_of("max_features", max_features, usable)
        elif self.kind != "extra-trees" or not data.regression:
            self.max_features = int(math.sqrt(usable))
        if max_samples is not None:
            from edgeforest.checks import part_of

            self.sample_size = part_of("max_samples", max_samples, drawable)
        else:
            useful = useful_rows(self.max_depth, data.regression)
            self.sample_size = min(useful or drawable, drawable)
        # Places that a tree needs to draw its rows into.
        self.row_places = self.sample_size if self.bootstrap or data.weights else drawable
        self.in_all = self.n_trees
        if self.budget.insertions is not None:
            from edgeforest.shares import affordable

            self.in_all = affordable(self, LEAST_ROWS)
        self.planned = self.in_all  # a caller may ask for fewer of them

    def _begin(self, criterion: "str") -> "Forest":
        """The forest without trees."""
        forest, data = Forest(), self.data
        forest.kind, forest.criterion, forest.splitter = self.kind, criterion, self.splitter
        forest.names, forest.categories, forest.classes = data.names, data.categories, data.classes
        forest.seed = self.seed
        forest.importances = []
        forest.engine = self.engine.name
        forest.scale = vote_scale(self.n_trees)
        forest.spent = self.budget.spent
        forest.limit = self.budget.insertions
        forest.low, forest.span = data.low, data.span
        if self.engine.predictor:
            forest.predictor = self.engine.predictor(forest)
        return forest

    def demand(self, n: "int", depth: "int", rows: "int" = RACE_ROWS) -> "int":
        """Rows that the races of a subtree want: n rows at `depth`, if a race wants `rows`."""
        total = 0
        level = self.max_depth - depth
        while level > 0 and n > 0:
            total += min(rows, n)
            rows *= 2
            level -= 1
            if rows > 2 * n * self.min_samples_split:
                break  # nodes as small as that are leaves
        return total

    def least_rows(self, seen: "int", n: "int") -> "int":
        """Rows that each side of an arm must have, of a node's n rows when `seen` are counted."""
        return max(1, (self.min_samples_leaf * seen + n - 1) // n)

    def stream(self, place: "int") -> "Rng":
        """The random stream of the tree of that place in the forest.

        Its number goes on from `first`: trees that are trained later, with the same seed, are
        those that more trees at once would have had.
        """
        return Rng(self.seed, self.first + place + 1)

    def working_bytes(self, nodes: "int" = 0, growing: "int" = 0) -> "int":
        """The memory that training takes above the data, at most.

        With that many nodes in finished trees, and in the tree that grows.
        """
        return self.trees.working_bytes(nodes, growing)

    def has_room(self, more: "int") -> "bool":
        """Whether the budget in bytes has room for the tree in hand with that many nodes."""
        room = self.budget.bytes
        return room is None or self.working_bytes(len(self.grown.feature), more) <= room

    def forest(self) -> "Forest":
        """The forest so far. The tree in hand is closed where it stands, and training is over."""
        if self._steps is not None:
            self._steps.close()
            self.trees.close()
            self.stop()
            self.budget.tick()
        forest = self.grown
        forest.importances = millionths(self.importance)
        forest.prepare()
        return forest

    def stop(self) -> "None":
        """Let go of the rows; the trees that are complete stay in `grown`."""
        self._steps = None
        self.trees.free()
        self.data.forget()


def useful_rows(max_depth: "int", regression: "bool") -> "int":
    """The rows that the leaves of a tree of this depth can put to use; 0 for any number."""
    return 0 if max_depth > 10 else max(16384, (256 if regression else 128) << max_depth)


def train(X: "Values", y: "Values", **options: "Any") -> "Forest":
    """Train a forest to the end, or to the end of its budget; options as for `Training`.

    >>> rows = [[float(i), float(i * 7 % 11)] for i in range(200)]
    >>> forest = train(rows, ["late" if r[0] > 120 else "early" for r in rows], budget=5000)
    >>> forest.predict([150.0, 3.0]), forest.spent.insertions <= 5000
    ('late', True)
    """
    training = Training(X, y, **options)
    for _ in training:
        pass
    return training.forest()
