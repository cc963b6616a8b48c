"""The native engine: whole trees grow in C, by the kernel in firmware/kernel.

It grows the same trees as core_pure, which keeps the options and their checks, the names, and the
sharing of the budget.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from itertools import islice, pairwise
from time import monotonic
from typing import Any

from edgeforest.core_pure import Engine, Training, one_by_one, sizes
from edgeforest.engines import _kernel
from edgeforest.engines.native_grove import NativeGrove
from edgeforest.engines.native_predictor import NativePredictor
from edgeforest.engines.native_reader import NativeReader, buffer_of, refuse
from edgeforest.forest import CRITERIA, MASK, SPLITTERS, Spent
from edgeforest.nodes import most_bins
from edgeforest.shares import deadline, share
from edgeforest.undoing import cut_back

STEP = 4_000_000  # insertions between two steps: some milliseconds


class NativeGrower:
    """Grows whole trees in C, `n_jobs` of them at once: see `core_pure.Grower`."""

    def __init__(self, task: Training) -> None:
        self.task = task
        self.workspace = 0  # bytes that the kernel works in
        self._kernel_task: Any = None
        self._free: list[_kernel.Room] = []  # rooms to grow trees in
        self._room: _kernel.Room | None = None  # of the tree in hand
        self._begun = False  # whether there is a tree in hand
        self._stop = bytearray(1)
        self._whole: tuple[int, int, int] | None = None  # `sizes` of the complete trees

    # ---- Memory

    def working_bytes(self, nodes: int, growing: int) -> int:
        """The memory that training takes above the data: see `Training.working_bytes`."""
        task, data = self.task, self.task.data
        n, width, racing = data.n, data.width, max(2, task.max_features)
        rows = task.sample_size if task.bootstrap or data.weights else n
        bins = most_bins(task) + 1 if data.categories == [None] * data.m else 256
        cell = 8 if data.regression else 4
        work = 4096 + 16384 * (task.criterion.name == "entropy")  # as ef_workspace_bytes has it
        work += (
            racing * 1024 + max(256, racing * bins) * max(width, 3 if data.regression else 4) * cell
        )
        work += 96 * width
        work += 8 * rows + 2 * data.m + (2 * n if data.weights else n)
        held = 4 * n + 300 * data.m  # labels, where columns lie
        if data.weights or data.patch:
            held += 8 * n
        X = data.given
        in_place = buffer_of(X) is not None or (
            data.by_column and all(buffer_of(x) is not None for x in X)
        )
        if not (data.raw and in_place):
            held += n * data.m + 3200 * data.m  # codes, bounds
        reading = 0 if in_place else 40 * n  # a column of Python's numbers
        node = 12 + (1 if data.regression else width)
        growing = max(growing, self._largest_tree())  # whose room is kept
        total: int = held + max(work, reading) + nodes * node * 17 // 16 + growing * (node + 72)
        return total

    def _largest_tree(self) -> int:
        """Nodes of the largest tree so far, of those too that an earlier run has grown."""
        grown = getattr(self.task, "grown", None)
        if grown is None:  # nothing is read yet
            return 0
        ends = [*grown.roots, len(grown.feature)]
        return max((end - start for start, end in pairwise(ends)), default=0)

    def _most_nodes(self) -> int:
        """Nodes that the budget in bytes leaves to the next tree, -1 for any number."""
        room, grown = self.task.budget.bytes, self.task.grown
        if room is None:
            return -1
        nodes, some = len(grown.feature), self._largest_tree() + 1000
        before = self.working_bytes(nodes, some)
        one = self.working_bytes(nodes, some + 1000) - before
        done = self.working_bytes(nodes + 1000, some) - before
        # The room of a tree is kept for those after it: so all of them may be equally large.
        each = one + done * max(0, self.task.in_all - len(grown) - 1)
        return max(1, min(MASK, (1000 * (room - before) + some * one) // each))

    # ---- Growing

    def _begin(self, place: int, insertions: int | None) -> _kernel.Room:
        """A room with the tree of that place in the forest begun in it."""
        if self._kernel_task is None:
            self._make_task()
        try:
            room = self._free.pop()
        except IndexError:
            room = _kernel.tree(self._kernel_task)
        limit = -1 if insertions is None else min(insertions, 1 << 62)
        _kernel.begin(room, self.task.first + place, limit, self._most_nodes())
        return room

    def _make_task(self) -> None:
        task, data = self.task, self.task.data
        columns: Any = data.columns
        confidence = -1.0 if task.confidence is None else task.confidence
        self._kernel_task, self.workspace = _kernel.task(
            columns.parts(),
            task.features,
            data.y,
            data.weights,
            data.patch,
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
                MASK,
                CRITERIA.index(task.criterion.name),
                SPLITTERS.index(task.splitter),
                task.kind == "extra-trees",
                bool(task.bootstrap),
                data.raw,
                isinstance(data.y, array),
            ),
            (task.min_impurity_decrease, task.z, task.tolerance, confidence),
        )

    def _advance(self, room: _kernel.Room, seconds: float) -> bool:
        try:
            return _kernel.grow(room, STEP, seconds, self._stop)
        except OverflowError:  # an infinite number, found when its row was drawn
            refuse(self.task)
            raise

    def trial(self) -> None:
        """Draw the rows of a tree, and throw it away: to see how long that takes."""
        room = self._begin(0, 0)
        _kernel.grow(room, 1, 0.0, self._stop)
        self._free.append(room)

    def run(self) -> Iterator[Training]:
        """Grow all trees, each with its share of the budget; yields between steps."""
        task = self.task
        jobs = min(task.n_jobs, task.planned)
        if jobs > 1 and task.budget.bytes is None:
            yield from self._run_threads(jobs)
        else:
            yield from one_by_one(task)

    def grow(self, place: int) -> Iterator[Training]:
        """Grow the tree of that place; yields between steps."""
        budget = self.task.budget
        self._whole = sizes(self.task.grown)
        self._begun = True
        room = self._room = self._begin(place, budget.left())
        before = budget.spent.insertions, budget.spent.rows_read, budget.spent.rounds
        more = True
        while more:
            seconds = -1.0 if budget.until is None else max(0.0, budget.until - budget.tick())
            more = self._advance(room, seconds)
            _add_up(budget.spent, room, before)
            yield self.task

    def _run_threads(self, jobs: int) -> Iterator[Training]:
        """Grow trees at once: each with its share of the budget, added to the forest in order."""
        task, budget, planned = self.task, self.task.budget, self.task.planned
        read = budget.tick()  # until the rows were read
        begun = monotonic() - read
        shares: list[int | None] = [None] * planned
        if budget.insertions is not None:
            shares = [share(budget.insertions, i, planned) for i in range(planned)]

        def grow(place: int, index: int) -> _kernel.Room:
            room = self._begin(place, shares[index])
            until = None
            if budget.seconds is not None:
                last = min(planned, index + jobs) - 1
                until = begun + deadline(budget.seconds, read, last, planned)
            more = not self._stop[0]
            while more:
                more = self._advance(room, -1.0 if until is None else max(0.0, until - monotonic()))
            return room

        self._free.append(self._begin(0, None))  # makes the task, before the threads ask for it
        pool = ThreadPoolExecutor(jobs)
        try:
            coming = enumerate([i for i in range(planned) if i == 0 or shares[i] != 0])
            ahead = deque(pool.submit(grow, *i) for i in islice(coming, 2 * jobs))
            while ahead:  # a tree that is done keeps its room until those before it are done, too
                tree = ahead.popleft()
                while True:
                    try:
                        room = tree.result(timeout=0.05)
                        break
                    except NotYet:
                        budget.tick()
                        yield task
                if len(task.grown) and budget.late():
                    break
                ahead.extend(pool.submit(grow, *i) for i in islice(coming, 1))
                spent = budget.spent
                _add_up(spent, room, (spent.insertions, spent.rows_read, spent.rounds))
                self._begun, self._room = True, room
                self.close()
                budget.tick()
                yield task
        finally:
            self._stop[0] = 1
            pool.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """Finish the tree in hand and add it to the forest: what is not split becomes a leaf.

        If no tree was begun yet, the forest gets one of a single leaf.
        """
        task, forest = self.task, self.task.grown
        if not self._begun and cut_back(forest, self._whole):
            return
        spent = task.budget.spent
        before = spent.insertions, spent.rows_read, spent.rounds
        room = self._room or self._begin(len(forest), None)  # which may have stopped before that
        counted = room is self._room
        self._begun, self._room = False, None
        importance = array("d", task.importance)
        here = len(forest.feature)
        width = 1 if task.data.regression else task.data.width
        feature, threshold, right, votes = _kernel.close(
            room, importance, here, len(forest.votes) // width
        )
        forest.roots.append(here)
        forest.feature.frombytes(feature)
        forest.threshold.frombytes(threshold)
        forest.votes.frombytes(votes)
        if len(forest.feature) > 65535 and forest.right.typecode == "H":
            forest.right = array("I", forest.right)
        forest.right.extend(array(forest.right.typecode, array("I", right)))
        if not counted:
            _add_up(spent, room, before)
        self._free.append(room)
        task.importance = importance.tolist()
        self._whole = sizes(forest)

    def free(self) -> None:
        """Let go of what is needed to grow, the tree in hand included."""
        self._kernel_task = self._room = None
        self._begun = False
        self._free = []


def _add_up(spent: Spent, room: _kernel.Room, before: tuple[int, int, int]) -> None:
    """Add what the tree in a room has cost to what was spent before it."""
    cost = _kernel.spent(room)
    spent.insertions, spent.rows_read, spent.rounds = map(sum, zip(before, cost, strict=True))


ENGINE = Engine("native", NativeReader, NativeGrower, NativePredictor, NativeGrove)
