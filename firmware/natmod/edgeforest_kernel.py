"""The part of the module `edgeforest_kernel` that is in Python: trees grow in C.

On a board that has this module, `forest` and `core_pure` use it by themselves. The forests are those
of the loops in Python, and so is everything else: the options and their checks, the budget, and what
happens when a training is stopped. Control comes back after some thousand insertions.

A native module has the functions of module.c in here; a firmware has them in a module of their own.
Nothing of `edgeforest` is imported before it is needed, because `edgeforest.forest` imports this.
"""

from array import array

try:
    from _edgeforest_kernel import PARTS, REAL, begin, close, grow, predictor, spent, trees, write
except ImportError:
    pass

MASK = 0x3FFFFFFF
STEP = 1000  # insertions between two steps: some milliseconds


def grower(task):
    """What grows the trees of a training: the kernel, if it can and no other engine is asked for."""
    engine = task.engine
    plain = engine.grower(task)
    known = task.criterion.name in PARTS and task.splitter in PARTS
    if engine.name != "pure" or not known or task.data.n > 65535:
        return plain
    task.engine = type(engine)("natmod", engine.reader, engine.grower)
    return KernelGrower(task, plain)


class KernelGrower:
    """Grows whole trees in C: see `core_pure.Grower`, which does the rest."""

    def __init__(self, task, plain):
        self.task = task
        self.plain = plain
        self.run = plain.run
        self.trees = None  # the kernel's task, and what it works in
        self.begun = False  # whether there is a tree in hand

    def working_bytes(self, nodes, growing):
        """The memory that training takes above the data: see `Training.working_bytes`."""
        task = self.task
        more = 4 * task.data.n + task.row_places + 100 * task.data.m + 100 * growing + 8192
        return self.plain.working_bytes(nodes, growing) + more

    def _most_nodes(self):
        """Nodes that the budget in bytes leaves to the next tree, -1 for any number."""
        room, grown = self.task.budget.bytes, len(self.task.grown.feature)
        if room is None:
            return -1
        least = self.working_bytes(grown, 1)
        some = self.working_bytes(grown, 1001) - least
        return max(1, min(MASK, 1 + 1000 * (room - least) // some))

    def grow(self, place):
        """Grow the tree of that place; yields between steps."""
        task, budget, cost = self.task, self.task.budget, self.task.budget.spent
        self.plain.whole = _sizes(task.grown)
        if self.trees is None:
            self.trees = _make_trees(task)
        left = budget.left()
        limit = -1 if left is None else min(left, MASK)
        begin(self.trees, task.first + place, limit, self._most_nodes())
        self.begun = more = True
        before = cost.insertions, cost.rows_read, cost.rounds
        while more:
            late = -1 if budget.until is None else int(budget.late())
            more = grow(self.trees, STEP, late)
            cost.insertions, cost.rows_read, cost.rounds = [
                a + b for a, b in zip(before, spent(self.trees))
            ]
            yield task

    def close(self):
        """Finish the tree in hand and add it to the forest: what is not split becomes a leaf.

        If no tree was begun yet, the forest gets one of a single leaf.
        """
        if not self.begun:
            self.plain.close()
            return
        self.begun = False
        task, forest = self.task, self.task.grown
        nodes, leaves = close(self.trees)
        here, width = len(forest.feature), len(forest.classes or (0,))
        before = len(forest.votes) // width
        size = 2
        if here + nodes > 65535:
            size = 4
            forest.right = array("I", forest.right)
        # MicroPython's arrays take bytes as they are. The largest first, as in `move_to`.
        for values, more in (
            (forest.threshold, 4 * nodes),
            (forest.votes, 2 * leaves * width),
            (forest.feature, 2 * nodes),
            (forest.right, size * nodes),
        ):
            values.extend(bytes(more))
        gains = array(REAL, task.importance)
        parts = forest.feature, forest.threshold, forest.right, forest.votes
        write(self.trees, *parts, gains, here, before)
        forest.roots.append(here)
        task.importance = list(gains)
        self.plain.whole = _sizes(forest)

    def free(self):
        """Let go of what is needed to grow, the tree in hand included."""
        self.trees = None
        self.begun = False
        self.plain.free()


def _sizes(forest):
    return len(forest.roots), len(forest.feature), len(forest.votes)


def _make_trees(task):
    """The kernel's task: `trees` in firmware/natmod/trees.c names the numbers in this order."""
    from edgeforest.forest import CRITERIA, SPLITTERS

    data = task.data
    return trees(
        data.columns,
        None if data.raw else data.bounds,
        bytes([0 if kinds is None else len(kinds) for kinds in data.categories]),
        data.y,
        task.features,
        data.weights,
        data.patch,
        array(
            "i",
            (
                data.n,
                data.drawable(),
                task.sample_size,
                task.batch,
                task.max_depth,
                task.min_samples_leaf,
                task.min_samples_split,
                task.max_leaf_nodes,
                task.max_features,
                task.n_bins,
                data.width,
                task.seed,
                task.grown.scale,
                CRITERIA.index(task.criterion.name),
                SPLITTERS.index(task.splitter),
                task.kind == "extra-trees",
                bool(task.bootstrap),
                data.raw,
            ),
        ),
        array(REAL, (task.min_impurity_decrease, task.z, task.tolerance, -1.0)),
    )
