"""Random rows of a source, as many as fit in memory at a time, and the trees that grow from them.

    Pools          draws, reads and encodes pools of rows; grows stretches of trees from them
    begin_elsewhere, read_elsewhere, grow_elsewhere   the same in a worker of a cluster

A tree can use only so many rows, so several trees share a pool. Each tree has a random stream and a
share of the insertions of its own: it does not matter where it grows.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

from edgeforest import engines as engine
from edgeforest.budget import Budget, Rng
from edgeforest.checks import part_of
from edgeforest.codes import vote_scale
from edgeforest.core_pure import useful_rows
from edgeforest.drawing import draw
from edgeforest.engines import ranges, sampling, speed
from edgeforest.forest import HEADER, MASK, Forest, Spent, attribute
from edgeforest.forests import merging as combine
import edgeforest.sources.in_c as in_c
from edgeforest.sources.base import Source, SourceError
from edgeforest.sources.opening import open_elsewhere
from edgeforest.sources.schema import Schema

ROWS = 131072  # of a tree, if its depth does not limit how many it can use
BYTES = 100_000_000  # for the pool, if the budget does not limit them
READING = 0.4  # of the time at most is for reading the source; some more is for its codes
PER_SECOND = 200_000  # rows at most that can be read in a second
POOLS = 4  # at most: reading is slow
READ = 2048  # rows at once: text takes many times the room of its numbers
FIRST = 1024  # if time is short, every 1024th row is read first, so that each pass is a fair sample
STREAMS = 1 << 20  # random streams of the rows: beyond those of the trees
COUNTS = ("insertions", "rows_read", "rounds")
ARRAYS = ("roots", "feature", "threshold", "right", "votes")  # of a forest
ALSO = ("low", "span", "engine")  # of a forest, beside what its file calls its header


class GrownTree(NamedTuple):
    """A tree, and what it adds to the forest beside its nodes."""

    forest: Forest  # of this tree alone
    importance: list[float]
    cost: Spent


class SentTree(NamedTuple):
    """A grown tree as it travels: its arrays as they are, which is quicker than a model file."""

    header: dict[str, Any]
    arrays: dict[str, array[Any]]
    importance: list[float]
    cost: Spent

    @classmethod
    def of(cls, tree: GrownTree) -> SentTree:
        """A tree, to be sent."""
        arrays = {name: getattr(tree.forest, name) for name in ARRAYS}
        return cls(header_of(tree.forest), arrays, tree.importance, tree.cost)

    def tree(self) -> GrownTree:
        """The tree that was sent."""
        forest = forest_like(self.header)
        for name, values in self.arrays.items():
            setattr(forest, name, values)
        forest.prepare()
        return GrownTree(forest, self.importance, self.cost)


class Beginning(NamedTuple):
    """What all trees of a forest share: known when the first pool was read."""

    header: dict[str, Any]  # of the forest
    ranges: Any  # of the features
    planned: int  # trees


class Met(NamedTuple):
    """What was met among the rows of a pool."""

    unlabelled: int  # rows without a target
    odd: dict[str, int]  # values that are not numbers, by column
    bad: int  # rows that cannot be read
    complaints: list[tuple[str, str]]  # about the first of these


class Stretch(NamedTuple):
    """Some trees in a row that were grown from one pool."""

    trees: list[SentTree]
    met: Met | None  # if they are the first of their pool
    fits: bool = True  # False: all trees of the pool must share the room, so these are not theirs


class Pools:
    """The rows of a source, one pool of them in memory, and trees that grow from it.

    `size` rows are in a pool, and `rows` of them go to a tree. `planned` trees are grown, after
    `base` others.
    """

    def __init__(
        self,
        source: Source,
        schema: Schema,
        budget: Budget,
        *,
        n_trees: int,
        max_depth: int | None,
        max_samples: int | float | None,
        seed: int,
        criterion: str,
        options: dict[str, Any],
    ) -> None:
        self.began = time.monotonic()
        self.before = 0.0  # seconds that were spent before it was resumed
        self.source, self.schema, self.budget = source, schema, budget
        self.n_trees, self.max_depth, self.seed = n_trees, max_depth, seed
        self.criterion, self.options = criterion, options
        self._samples = max_samples
        self.base, self.planned = 0, n_trees
        self.cancelled = False  # nobody waits for the trees that grow
        self._pool: tuple[int, Any] = -1, None  # its number, columns and labels
        self._ready: Any = None  # a training of this pool
        self._coded = 0  # rows that were read to code them
        self._met: Met | None = None
        self._size(max_samples)

    # ---- Rows

    def _size(self, max_samples: int | float | None) -> None:
        """Find out how many rows to read at once, to hold in memory, and to give to a tree."""
        n = len(self.source)
        self.read = max(16, min(READ, 250_000 // len(self.source.names)))
        self.size = min(n, self._fitting())
        self.rows = min(self.size, self._rows_of_a_tree(max_samples))
        if self.size < n:
            self.size = min(self.size, self.rows * self.n_trees)
            if self.budget.seconds is not None:  # drawing more would take too long
                self.size = min(self.size, max(256, int(PER_SECOND * self.budget.seconds)))
                self.rows = min(self.rows, self.size)

    def _rows_of_a_tree(self, max_samples: int | float | None) -> int:
        if max_samples is not None:
            rows: int = part_of("max_samples", max_samples, len(self.source))
            return rows
        if self.max_depth is None or self.max_depth > 10:
            return max(ROWS, self.size if self.size == len(self.source) else 0)
        return useful_rows(self.max_depth, self.schema.regression)

    def _bytes(self, rows: int) -> int:
        """The memory that so many rows take, with the text of some while they are read."""
        columns = 4 * len(self.schema.names) + 8 * len(self.schema.categorical) + 16
        of_a_value = 100 if self.source.texts else 32
        text = min(rows, self.read) * of_a_value * len(self.source.names)
        return rows * columns + text + (0 if self.budget.bytes is None else self.source.room)

    def _fitting(self) -> int:
        """How many rows fit into memory: their values, and their codes in training."""
        given = BYTES if self.budget.bytes is None else self.budget.bytes
        m, some = len(self.schema.names), self.read
        of_a_row = self._bytes(some + 1) - self._bytes(some) + m + 60
        fixed = self._bytes(some) + 4096 * m
        rows = (given * 7 // 8 - fixed) // of_a_row  # the rest is for the trees
        if rows < 256:
            raise ValueError(
                f"bytes must be at least {(fixed + 256 * of_a_row) * 8 // 7 + 1} to hold enough rows "
                f"of {m} features, got {given}"
            )
        # If time turns out to be short, some of the rows are copied.
        return rows if self.budget.seconds is None else max(256, rows // 2)

    def of_a_pool(self) -> int:
        """How many trees draw from one pool: those that it has rows for, or more if pools are few."""
        if self.size == len(self.source):
            return self.planned
        return max(self.size // self.rows, -(-self.planned // POOLS))

    def pool_of(self, tree: int) -> tuple[int, int]:
        """The first tree of the pool that a tree draws from, and the first of the next pool."""
        of_a_pool = self.of_a_pool()
        start = tree - tree % of_a_pool
        return start, min(self.planned, start + of_a_pool)

    def have(self, pool: int) -> None:
        """Read a pool, unless it is the one that was read last."""
        if self._pool[0] != pool:
            self.forget()  # before the next pool is read
            self._pool = pool, None
            self._pool = pool, self._read(pool)

    def _read(self, pool: int) -> tuple[list[Any], Any]:
        """Features by column and labels of a pool, read some rows at a time."""
        source, schema = self.source, self.schema
        before = schema.unlabelled, dict(schema.odd), source.bad
        chosen = draw_rows(Rng(self.seed, STREAMS + 1 + pool), self.size, len(source))
        columns: list[Any] = []
        kinds = schema.kinds(len(source.names))
        done = 0
        for rows in [chosen] if self.budget.seconds is None else _passes(chosen):
            start = self.elapsed()
            for at in range(0, len(rows), self.read):
                block = source.read_as(rows[at : at + self.read], kinds)
                some, labels = schema.columns(block)
                some.append(labels)
                if not columns:  # as large as they will be: growing would take twice the room
                    columns = [_room(column, len(chosen)) for column in some]
                for column, part in zip(columns, some, strict=True):
                    column[done : done + len(labels)] = part
                done += len(labels)
                if self.cancelled:
                    raise SourceError("reading was cancelled; train again")
            # The next pass has as many rows as all before it, and may take twice as long as this one.
            if self.hurried(2 * (self.elapsed() - start)):
                break  # train with what was read
        for column in columns:
            del column[done:]
        labels = columns.pop()
        if not len(labels):
            raise SourceError(f"no row of {source.name} has a target {schema.target!r}; give some")
        odd = {name: n - before[1].get(name, 0) for name, n in schema.odd.items()}
        self._met = Met(
            schema.unlabelled - before[0], odd, source.bad - before[2], list(source.complaints)
        )
        return columns, labels

    def forget(self) -> None:
        """Free the training of the rows in memory, if there is one."""
        if self._ready is not None:
            training, self._ready = self._ready, None
            training.stop()
            training.trees.free()
            training.data.forget()

    # ---- Trees

    def begin(self) -> Beginning:
        """Read the first pool; says what all trees share."""
        self.have(0)
        found = ranges.of_columns(self._pool[1][0], self.schema.categorical)
        training = self._first_training()
        self._keep_ready(training)
        self.planned = training.planned
        return Beginning(header_of(training.grown), found, training.planned)

    def plan(self, done: int, first: float) -> None:
        """Plan as many trees beside those that are done as there is time for: see `speed.plan`."""
        training, seconds = self._ready, self.budget.seconds
        if training is not None and seconds is not None:
            trees = speed.whole_trees(training, first * max(0.0, seconds - self.elapsed()))
            self.planned = min(self.planned, max(done + trees, training.n_jobs))

    def _first_training(self) -> Any:
        """A training of the first pool.

        If there is no time for the codes of all its rows, the pool keeps fewer of them.
        """
        seconds = self.budget.seconds
        if seconds is None:
            return self._training(0, self.n_trees, self.budget)
        columns, labels = self._pool[1]

        def make(rows: Any, budget: Budget) -> tuple[Any]:
            pool = columns, labels
            if rows is not None:
                pool = (
                    [sampling.take(column, rows) for column in columns],
                    sampling.take(labels, rows),
                )
            self._pool = 0, pool
            return (self._training(0, self.n_trees, sampling.rest_of(budget)),)

        rest = Budget(
            self.budget.insertions, max(0.001, seconds - self.elapsed()), self.budget.bytes
        )
        (training,) = sampling.within(len(labels), rest, self.seed, make)
        self.rows = min(self.rows, training.data.n)
        return training

    def _keep_ready(self, training: Any) -> None:
        """Keep a training for all trees of its pool: the rows are coded once."""
        self._ready, self._coded = training, training.budget.spent.rows_read

    def _next_training(self, first: int, last: int) -> Any:
        """The training of the rows in memory, ready to grow these trees."""
        share = self.share(first, last)
        made = self._ready is None
        if made:  # for all trees of its pool, wherever they grow: so it is known whether codes pay
            start, end = self.pool_of(first)
            whole = self.share(start, end) if share.seconds is None else share
            self._keep_ready(self._training(self.base + first, end - start, whole))
        training = self._ready
        budget = training.budget
        training.first = self.base + first
        training.planned = training.in_all = last - first
        if share.seconds is None:  # perhaps it has grown other trees from these rows
            training.budget = Budget(share.insertions, None, budget.bytes)
            training.following = 0
            training.grown = combine.like(training.grown)
            training.grown.spent = training.budget.spent
            training.grown.prepare()
            training.importance = [0.0] * len(training.grown.names)
        elif not made:
            budget.insertions = budget.ceiling = share.insertions
            budget.seconds = budget.until = budget.tick() + share.seconds
        # What was read to begin with is not counted twice.
        training.budget.spent.rows_read = 0 if first % self.of_a_pool() else self._coded
        return training

    def _training(self, first: int, n_trees: int, budget: Budget) -> Any:
        columns, labels = self._pool[1]
        options = dict(self.options)
        options["max_samples"] = min(self.rows, len(labels))
        if budget.bytes is not None:  # what the rows themselves take is gone already
            budget = Budget(
                budget.insertions, budget.seconds, max(1, budget.bytes - self._bytes(len(labels)))
            )
        training = engine.read(
            columns,
            labels,
            by_column=True,
            names=self.schema.names,
            categorical=self.schema.categorical,
            criterion=self.criterion,  # type: ignore[arg-type]
            max_depth=self.max_depth,
            n_trees=n_trees,
            budget=budget,
            seed=self.seed,
            first=first,
            **options,
        )
        training.grown.scale = vote_scale(self.n_trees)
        training.grown.prepare()  # its trees are looked at one by one
        return training

    def grow(self, first: int, last: int) -> Iterator[GrownTree | None]:
        """Grow some trees from the pool that was read; None between steps."""
        training = self._next_training(first, last)
        spent = training.budget.spent
        cost = Spent()
        done = 0
        for _ in training.trees.run():
            if done < len(training.grown.roots):
                total = Spent(spent.insertions, spent.rows_read, spent.rounds)
                tree = combine.keep(training.grown, [done])
                yield GrownTree(tree, list(training.importance), _minus(total, cost))
                training.importance = [0.0] * len(tree.names)  # of each tree alone
                cost = total
                done += 1
            yield None

    def share(self, first: int, last: int) -> Budget:
        """The budget of some trees: equal shares, so that it does not matter where training resumes."""
        insertions, seconds = self.budget.insertions, self.budget.seconds
        if insertions is not None:
            insertions = max(1, insertions // self.planned) * (last - first)
        if seconds is not None:
            rest = (last - first) / (self.planned - first)
            seconds = max(0.001, (seconds - self.elapsed()) * rest)
        return Budget(insertions, seconds, self.budget.bytes)

    # ---- Time

    def elapsed(self) -> float:
        """Seconds that were spent so far."""
        return self.before + time.monotonic() - self.began

    def hurried(self, more: float = 0.0) -> bool:
        """Whether reading for some more seconds takes time that trees need."""
        seconds = self.budget.seconds
        return seconds is not None and self.elapsed() + more > READING * seconds

    def late(self) -> bool:
        """Whether the time is up."""
        return self.budget.seconds is not None and self.elapsed() >= self.budget.seconds

    # ---- For a cluster

    def stretches(self, parts: int, first: int) -> list[tuple[int, int]]:
        """The trees from that one on, in about so many stretches of one pool each."""
        found: list[tuple[int, int]] = []
        while first < self.planned:
            n = self.pool_of(first)[1] - first
            pieces = min(n, max(1, round(parts * n / self.planned)))
            found += pairwise([first + n * i // pieces for i in range(pieces + 1)])
            first += n
        return found

    def stretch(self, first: int, last: int, alone: bool) -> Stretch:
        """Some trees of the forest, for another process.

        `alone` says that no other trees of the pool grow elsewhere. Otherwise a budget in bytes must
        have room for as many trees of this size as grow from a pool: then room limits none of them,
        and they are those of one process, in which trees leave less room to those after them.
        """
        of_a_pool = self.of_a_pool()
        self.source.check()
        self.have(first // of_a_pool)
        trees: list[SentTree] = []
        for tree in self.grow(first, last):
            if self.cancelled:
                break
            if tree is None:
                continue
            nodes, training = len(tree.forest.feature) + 2, self._ready
            room = training.budget.bytes
            if not alone and room is not None:
                if training.working_bytes(nodes * of_a_pool, nodes) > room:
                    return Stretch([], None, False)
            trees.append(SentTree.of(tree))
        return Stretch(trees, None if first % of_a_pool else self._met)

    def job(self) -> bytes:
        """What a worker needs to know; bytes, so that no worker that dies is the only one to have it."""
        source, budget = self.source, self.budget
        given: dict[str, Any] = {
            "n_trees": self.n_trees,
            "max_depth": self.max_depth,
            "seed": self.seed,
        }
        given |= {"max_samples": self._samples, "criterion": self.criterion}
        given |= {"options": {**self.options, "n_jobs": 1}}
        limits = budget.insertions, None, budget.bytes
        checksum = source.checksum(len(source))
        name = os.urandom(8)  # a training that is done again is another one
        return pickle.dumps((name, source.recipe, checksum, self.schema, limits, given))


def header_of(forest: Forest) -> dict[str, Any]:
    """What a forest has beside its trees."""
    return {name: getattr(forest, name) for name in (*map(attribute, HEADER), *ALSO)}


def forest_like(header: dict[str, Any]) -> Forest:
    """A forest without trees, that has this header."""
    empty: Any = SimpleNamespace(**header, spent=Spent(), ranges=None)
    return combine.like(empty)


# ---- In a worker of a cluster

_ONE = threading.Lock()  # one training at a time in a process: each may fill the budget in bytes
_HELD: dict[bytes, Pools] = {}  # the latest training of this process, with its rows
_OVER: deque[bytes] = deque(maxlen=8)  # trainings that are over: what is still to come for them


def begin_elsewhere(job: bytes) -> Beginning:
    """Begin a training for another process; the rows stay for its trees."""
    with _ONE:
        return _held(job).begin()


def read_elsewhere(job: bytes, pool: int) -> None:
    """Read the rows that trees of another process will need here."""
    with _ONE:
        _held(job).have(pool)


def grow_elsewhere(
    job: bytes, base: int, planned: int, first: int, last: int, alone: bool
) -> Stretch:
    """Some trees of a training that another process has begun; the rows stay for the next ones."""
    with _ONE:
        pools = _held(job)
        pools.base, pools.planned = base, planned
        return pools.stretch(first, last, alone)


def _held(job: bytes) -> Pools:
    pools = _HELD.get(job)
    if job in _OVER:
        raise SourceError("this training is over; train again")
    if pools is None:
        _HELD.clear()
        _, recipe, checksum, schema, limits, given = pickle.loads(job)
        source = open_elsewhere(recipe, checksum)
        pools = _HELD[job] = Pools(source, schema, Budget(*limits), **given)
    return pools


def forget_held(job: bytes) -> None:
    """Free the rows that are held for the trees of a training, and stop those that grow."""
    _OVER.append(job)
    pools = _HELD.pop(job, None)
    if pools is not None:
        pools.cancelled = True


# ---- Small parts


def draw_rows(rng: Rng, count: int, n: int) -> Sequence[int]:
    """The rows that `drawing.draw` gives, with their random numbers from C where it is there.

    >>> list(draw_rows(Rng(1), 3, 1000)) == list(draw(Rng(1), 3, 1000))
    True
    """
    if count >= n or in_c.kernel is None:
        return draw(rng, count, n)
    numbers = array("I", bytes(4 * count))
    state = in_c.kernel.fill(rng.z, rng.w, MASK, numbers)
    if max(numbers) >= MASK - n // count - 1:  # one that `Rng.below` might not take
        return draw(rng, count, n)
    rng.z, rng.w = state
    low = 0
    for i, value in enumerate(numbers):
        high = (i + 1) * n // count
        numbers[i] = low + value % (high - low)
        low = high
    return numbers


def _minus(total: Spent, before: Spent) -> Spent:
    """What was spent since."""
    return Spent(*(getattr(total, name) - getattr(before, name) for name in COUNTS))


def _passes(rows: Sequence[int]) -> Iterator[Sequence[int]]:
    """All rows in several evenly spread passes, each as long as all before it.

    >>> [list(part) for part in _passes(range(2050))][:3]
    [[0, 1024, 2048], [512, 1536], [256, 768, 1280, 1792]]
    """
    yield rows[::FIRST]
    step = FIRST
    while step > 1:
        yield rows[step // 2 :: step]
        step //= 2


def _room(part: Any, n: int) -> Any:
    """A column of n values like those of a part."""
    if isinstance(part, array):
        return array(part.typecode, bytes(n * part.itemsize))
    return [None] * n
