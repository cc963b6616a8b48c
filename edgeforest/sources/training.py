"""Train from a source: rows are read when trees need them, and the power may fail.

A tree can use only so many rows. So a pool of random rows from the whole source is read into the
memory that there is. The trees that it has rows for are grown from it; then another pool is read.
Memory and time do not grow with the data. If all rows fit, they are read once, and the forest is
the one that training in memory gives.

>>> from edgeforest.sources import Table
>>> table = Table({"temp": [15 + i % 17 for i in range(900)], "open": [i % 17 > 8 for i in range(900)]})
>>> forest = train_source(table, "open", n_trees=5, budget=50_000)
>>> forest.predict([[16], [30]]), forest.spent.insertions <= 50_000
([0, 1], True)
"""

from __future__ import annotations

import json
import os
import pickle
import threading
import time
import warnings
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from edgeforest import storage
from edgeforest import engines as engine
from edgeforest.budget import Budget, Rng, millionths
from edgeforest.checks import part_of
from edgeforest.codes import vote_scale
from edgeforest.core_pure import useful_rows
from edgeforest.engines import ranges, sampling, speed
from edgeforest.forest import HUGE, Forest, Spent
from edgeforest.forests import merging as combine
from edgeforest.host.cluster import PARTS, Cluster, active
from edgeforest.sources.base import Source, SourceError
from edgeforest.sources.checkpoints import Begun, begun
from edgeforest.sources.opening import open_source
from edgeforest.sources.schema import LOOK, Schema, look
from edgeforest.drawing import draw

ROWS = 131072  # of a tree, if its depth does not limit how many it can use
BYTES = 100_000_000  # for the pool, if the budget does not limit them
READING = 0.4  # of the time at most is for reading the source; some more is for its codes
PER_SECOND = 200_000  # rows at most that can be read in a second
POOLS = 4  # at most: reading is slow
READ = 2048  # rows at once: text takes many times the room of its numbers
FIRST = 1024  # if time is short, every 1024th row is read first, so that each pass is a fair sample
STREAMS = 1 << 20  # random streams of the rows: beyond those of the trees
COUNTS = ("insertions", "rows_read", "rounds")
SAME = ("kind", "criterion", "splitter", "names")  # of all trees of a forest


class GrownTree(NamedTuple):
    """A tree, and what it adds to the forest beside its nodes."""

    forest: Forest  # of this tree alone
    importance: list[float]
    cost: Spent


class Streaming:
    """Training from a source in steps: iterate to advance.

    `forest()` has the trees that are done. `target` is the name of the column to learn; `categorical`, `drop` and `task` overrule what is
    found by looking. `max_samples` is the number of rows of a tree, or their share. With
    `checkpoint`, the forest is written to that path after every tree: it is a model that can be
    loaded at any time. `resume=True` goes on from there to the forest that an uninterrupted
    training gives. If the log has grown since, it goes on with the old rows, and `later` is the
    number of rows that it does not see. A training that is done begins anew if there are more rows;
    with `refresh=True` it keeps its trees, and as many are added, grown on all rows. `note` is a
    sentence about this. All other options are those of `train`.

    >>> from edgeforest.sources import Table
    >>> table = Table({"a": list(range(500)), "b": [i > 300 for i in range(500)]})
    >>> training = Streaming(table, "b", n_trees=3, checkpoint="model.json")
    >>> for step in training:
    ...     if len(step.grown) == 2:      # the power fails
    ...         break
    >>> again = Streaming(table, "b", n_trees=3, checkpoint="model.json", resume=True)
    >>> len(again.grown)
    2
    """

    def __init__(
        self,
        source: Source,
        target: str,
        *,
        n_trees: int = 20,
        max_depth: int | None = None,
        max_samples: int | float | None = None,
        budget: int | Budget | None = None,
        seed: int = 0,
        criterion: str | None = None,
        categorical: Iterable[str] = (),
        drop: Iterable[str] = (),
        task: str = "auto",
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        refresh: bool = False,
        schema: Schema | None = None,
        **options: Any,
    ) -> None:
        _refuse(resume, refresh, checkpoint, options)
        self._began = time.monotonic()
        self._before = 0.0  # seconds that were spent before it was resumed
        before = Begun(source)
        if resume and checkpoint is not None:
            before = begun(source, checkpoint, refresh)
        self.source = source = before.source
        self.note, self.later = before.note, before.later
        self.seed = seed
        self.n_trees = n_trees
        self._samples = max_samples
        self.max_depth = max_depth
        self.options = options
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self._log = source.extent() if checkpoint is not None else {}
        self._over = False  # and the checkpoint says so
        self.budget = budget.copy() if isinstance(budget, Budget) else Budget(budget)
        self._refuse_room()
        self.schema = schema or look(
            source,
            target,
            Rng(seed, STREAMS),
            categorical=categorical,
            drop=drop,
            task="regression" if criterion == "mse" else task,
            most=512 if self.budget.seconds is not None and self.budget.seconds < 9 else LOOK,
        )
        self.schema.refuse_class_weight(options.get("class_weight"))
        self.criterion = criterion or ("mse" if self.schema.regression else "gini")
        self._signature = self._sign(target, max_samples)
        self._size(max_samples)
        self._pool: tuple[int, Any] = 0, self._read(0)
        self._ranges = ranges.of_columns(self._pool[1][0], self.schema.categorical)
        self._begin(before)

    def _refuse_room(self) -> None:
        room, needed = self.budget.bytes, self.source.room
        if room is not None and needed > room:
            raise ValueError(
                f"bytes must be at least {2 * needed} to read {self.source.name}, got {room}; or "
                "write it in smaller row groups"
            )

    def _begin(self, before: Begun) -> None:
        """Begin a forest, with the trees that are there."""
        training = self._first_training(before.trees())
        self._ready: Any = training  # for the next trees, if they are from this pool
        self.base = 0  # trees of an earlier training that stay
        self._new: int = training.planned  # those after them
        self.planned = self._new
        self.grown = self._head(training)
        self.importance = [0] * len(self.grown.names)
        if before.kept is not None:
            self._keep(before.kept)
        if before.state is not None:
            self._resume(before.state)
        if self._over:
            self._forget_ready()
        self.grown.ranges = self._ranges
        self.budget.spent = self.grown.spent

    def plan(self, first: float) -> None:
        """Grow fewer trees if the time is not enough for all: `first` as in `speed.plan`.

        Trees that are done stay. Where insertions are limited, too, their shares are the plan: a
        checkpoint is checked by them.
        """
        seconds, training = self.budget.seconds, self._ready
        if seconds is not None and training is not None and self.budget.insertions is None:
            trees = speed.whole_trees(training, first * max(0.0, seconds - self._elapsed()))
            done = len(self.grown) - self.base
            self._new = min(self._new, max(done + trees, training.n_jobs))
            self.planned = self.base + self._new

    # ---- Rows

    def _size(self, max_samples: int | float | None) -> None:
        """Find out how many rows to read at once, to hold in memory, and to give to a tree."""
        n = len(self.source)
        self.read = max(16, min(READ, 250_000 // len(self.source.names)))
        self.pool = min(n, self._fitting())
        self.rows = min(self.pool, self._rows_of_a_tree(max_samples))
        if self.pool < n:
            self.pool = min(self.pool, self.rows * self.n_trees)
            if self.budget.seconds is not None:  # drawing more would take too long
                self.pool = min(self.pool, max(256, int(PER_SECOND * self.budget.seconds)))
                self.rows = min(self.rows, self.pool)

    def _rows_of_a_tree(self, max_samples: int | float | None) -> int:
        if max_samples is not None:
            rows: int = part_of("max_samples", max_samples, len(self.source))
            return rows
        if self.max_depth is None or self.max_depth > 10:
            return max(ROWS, self.pool if self.pool == len(self.source) else 0)
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

    def _of_a_pool(self) -> int:
        """How many trees draw from one pool: those that it has rows for, or more if pools are few."""
        if self.pool == len(self.source):
            return self._new
        return max(self.pool // self.rows, -(-self._new // POOLS))

    def _read(self, pool: int) -> tuple[list[Any], Any]:
        """Features by column and labels of a pool, read some rows at a time."""
        n = len(self.source)
        chosen = draw(Rng(self.seed, STREAMS + 1 + pool), self.pool, n)
        columns: list[Any] = []
        kinds = self.schema.kinds(len(self.source.names))
        done = 0
        for rows in [chosen] if self.budget.seconds is None else _passes(chosen):
            before = self._elapsed()
            for at in range(0, len(rows), self.read):
                block = self.source.read_as(rows[at : at + self.read], kinds)
                some, labels = self.schema.columns(block)
                some.append(labels)
                if not columns:  # as large as they will be: growing would take twice the room
                    columns = [_room(column, len(chosen)) for column in some]
                for column, part in zip(columns, some, strict=True):
                    column[done : done + len(labels)] = part
                done += len(labels)
            # The next pass has as many rows as all before it, and may take twice as long as this one.
            if self._hurried(2 * (self._elapsed() - before)):
                break  # train with what was read
        for column in columns:
            del column[done:]
        labels = columns.pop()
        if not len(labels):
            raise SourceError(
                f"no row of {self.source.name} has a target {self.schema.target!r}; give some"
            )
        return columns, labels

    # ---- Trees

    def _first_training(self, first: int) -> Any:
        """A training of the first pool, from that tree on; it also has the head of the forest.

        If there is no time for the codes of all its rows, the pool keeps fewer of them.
        """
        seconds = self.budget.seconds
        if seconds is None:
            return self._training(first, self.n_trees, self.budget)
        columns, labels = self._pool[1]

        def make(rows: Any, budget: Budget) -> tuple[Any]:
            pool = columns, labels
            if rows is not None:
                pool = (
                    [sampling.take(column, rows) for column in columns],
                    sampling.take(labels, rows),
                )
            self._pool = 0, pool
            return (self._training(first, self.n_trees, sampling.rest_of(budget)),)

        rest = Budget(
            self.budget.insertions, max(0.001, seconds - self._elapsed()), self.budget.bytes
        )
        (training,) = sampling.within(len(labels), rest, self.seed, make)
        self.rows = min(self.rows, training.data.n)
        return training

    def _next_training(self, first: int, last: int) -> Any:
        """The training of these trees: the one that is ready, if it begins with them."""
        share = self._share(first, last)
        training = self._ready
        if training is None or training.first != self.base + first:
            self._forget_ready()
            return self._training(self.base + first, last - first, share)
        self._ready = None
        _limit(training, last - first, share)
        return training

    def _forget_ready(self) -> None:
        """Free the training that is ready: the next trees are not its own."""
        if self._ready is not None:
            _free(self._ready)
            self._ready = None

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
        training.grown.scale = self._scale(0)
        training.grown.prepare()  # its trees are looked at one by one
        return training

    def _head(self, training: Any) -> Forest:
        """A forest without trees, that has what all of them share."""
        head = combine.like(training.grown)
        head.prepare()
        head.limit = self.budget.insertions
        head.spent = Spent(rows_read=self.schema.looked)
        head.engine = training.engine.name
        if self.schema.regression and self.pool < len(self.source):  # other rows may lie beyond
            low, span = head.low - head.span, 3 * head.span
            if low < -HUGE or span > HUGE or low + span > HUGE:
                raise SourceError("targets of a source must span less than 1e38; scale them down")
            head.low, head.span = array("f", [low, span])
        return head

    def __iter__(self) -> Iterator[Streaming]:
        yield from self._run()
        if self.grown and not self._over:  # the budget was used up
            self._write(True)

    def _run(self) -> Iterator[Streaming]:
        cluster = active(self.options.get("n_jobs")) if self.source.recipe is not None else None
        if cluster is not None:
            yield from self._run_elsewhere(cluster)
            return
        of_a_pool = self._of_a_pool()
        while len(self.grown) < self.planned:
            first = len(self.grown) - self.base
            pool = first // of_a_pool
            last = min(self._new, (pool + 1) * of_a_pool)
            if first and self._late():
                return
            self.source.check()
            if self._hurried():
                last = self._new  # no time for other rows
            else:
                self._have(pool)
            for tree in self._grow(first, last):
                if tree is not None:
                    self._add(tree)
                yield self
            if len(self.grown) - self.base < last:
                return  # the budget was used up

    def _have(self, pool: int) -> None:
        """Read a pool, unless it is the one that was read last."""
        if self._pool[0] != pool:
            self._forget_ready()  # before the next pool is read
            self._pool = pool, None
            self._pool = pool, self._read(pool)

    def _grow(self, first: int, last: int) -> Iterator[GrownTree | None]:
        """Grow some trees from the pool that was read; None between steps."""
        training = self._next_training(first, last)
        spent = training.budget.spent
        if first % self._of_a_pool():  # what was read to begin with is not counted twice
            spent.rows_read = 0
        cost = Spent()
        done = 0
        for _ in training:
            if done < len(training.grown.roots):
                total = Spent(spent.insertions, spent.rows_read, spent.rounds)
                tree = combine.keep(training.grown, [done])
                yield GrownTree(tree, list(training.importance), _minus(total, cost))
                training.importance = [0.0] * len(tree.names)  # of each tree alone
                cost = total
                done += 1
            yield None
        _free(training)

    # ---- Trees that grow on a cluster

    def _run_elsewhere(self, cluster: Cluster) -> Iterator[Streaming]:
        """Have the trees grown by the workers of a cluster; they are added in order.

        A worker gets the path of the source, never rows. Each tree has its own random stream and
        its share of the insertions, so it does not matter where it grows.
        """
        if self.budget.seconds is not None:
            raise ValueError("budget in seconds is for one machine; limit insertions on a cluster")
        job = self.job()
        self._forget_ready()
        self._pool = -1, None  # others read the rows
        spans = self._stretches(PARTS * cluster.cores)
        results = cluster.run(grow_elsewhere, [(job, *span) for span in spans], forget_held)
        try:
            for first, last in spans:
                while (trees := next(results)) is None:
                    self.grown.spent.seconds = self._elapsed()
                    yield self
                for tree in trees:
                    self._add(tree)
                    yield self
                if len(trees) < last - first:
                    return  # the budget was used up
        finally:
            results.close()

    def job(self) -> bytes:
        """What a worker needs to know; bytes, so that no worker that dies is the only one to have it."""
        options = {**self.options, "n_jobs": 1, "n_trees": self.n_trees, "schema": self.schema}
        options |= {"max_depth": self.max_depth, "max_samples": self._samples, "seed": self.seed}
        options |= {"budget": (self.budget.insertions, None, self.budget.bytes)}
        options |= {"criterion": self.criterion}
        paths, reading = self.source.recipe
        source = self.source
        return pickle.dumps((paths, reading, len(source), source.checksum(len(source)), options))

    def _stretches(self, parts: int) -> list[tuple[int, int]]:
        """The trees that are not grown yet, in about so many stretches of one pool each.

        With a budget in bytes a stretch is a whole pool: its trees share the room.
        """
        of_a_pool, found = self._of_a_pool(), []
        size = of_a_pool if self.budget.bytes is not None else max(1, self._new // parts)
        first = len(self.grown) - self.base
        while first < self._new:
            end = (first // of_a_pool + 1) * of_a_pool
            found.append((first, min(self._new, end, first + size)))
            first = found[-1][1]
        return found

    def stretch(self, first: int, last: int) -> list[GrownTree]:
        """Some trees of the forest, from one pool, for another process."""
        self.source.check()
        self._have(first // self._of_a_pool())
        trees = [tree for tree in self._grow(first, last) if tree is not None]
        for tree in trees:
            tree.forest.importances = millionths(tree.importance)  # a model travels only whole
        return trees

    def _share(self, first: int, last: int) -> Budget:
        """The budget of some trees: equal shares, so that it does not matter where training resumes."""
        insertions, seconds = self.budget.insertions, self.budget.seconds
        if insertions is not None:
            insertions = max(1, insertions // self._new) * (last - first)
        if seconds is not None:
            rest = (last - first) / (self._new - first)
            seconds = max(0.001, (seconds - self._elapsed()) * rest)
        return Budget(insertions, seconds, self.budget.bytes)

    def _elapsed(self) -> float:
        return self._before + time.monotonic() - self._began

    def _hurried(self, more: float = 0.0) -> bool:
        """Whether reading for some more seconds takes time that trees need."""
        seconds = self.budget.seconds
        return seconds is not None and self._elapsed() + more > READING * seconds

    def _late(self) -> bool:
        return self.budget.seconds is not None and self._elapsed() >= self.budget.seconds

    def _add(self, tree: GrownTree) -> None:
        """Add a tree to the forest, and write the checkpoint."""
        spent = self.grown.spent
        for name in COUNTS:
            setattr(spent, name, getattr(spent, name) + getattr(tree.cost, name))
        spent.seconds = self._elapsed()
        combine.append(self.grown, tree.forest)
        part = sum(tree.importance)
        if part > 0:
            parts = [int(v / part * 1_000_000 + 0.5) for v in tree.importance]
            self.importance = [a + b for a, b in zip(self.importance, parts, strict=True)]
        self._write(len(self.grown) == self.planned)

    def _write(self, over: bool) -> None:
        self._over = over
        if self.checkpoint is not None:
            state = {"signature": self._signature, "log": self._log, "done": over}
            if self.base:
                state["base"] = self.base
            if not over:
                state.update(importance=self.importance, seconds=self._elapsed())
            storage.write(self._finished(), self.checkpoint, state)

    def forest(self) -> Forest:
        """The trees that are done."""
        if not self.grown:
            raise SourceError("no tree is done yet; let the training go on")
        return self._finished()

    def _finished(self) -> Forest:
        if self.importance:
            self.grown.importances = millionths(self.importance)
        self.grown.prepare()
        return self.grown

    # ---- Going on from a checkpoint

    def _sign(self, target: str, max_samples: int | float | None) -> dict[str, Any]:
        """What must be the same for a training to go on."""
        given = {
            "rows": len(self.source),
            "columns": self.source.names,
            "target": target,
            "features": [self.schema.names, self.schema.categorical],
            "criterion": self.criterion,
            "trees": self.n_trees,
            "depth": self.max_depth,
            "samples": max_samples,
            "budget": self.budget.insertions,
            "seed": self.seed,
            "options": {
                name: repr(value)
                for name, value in sorted(self.options.items())
                if name not in ("engine", "n_jobs")  # which change only the speed
            },
        }
        return dict(json.loads(json.dumps(given)))

    def _keep(self, old: Forest) -> None:
        """Begin with the trees of a forest: with the classes and the range of both."""
        head = self.grown
        assert self.checkpoint is not None
        storage.refuse_other(
            self.checkpoint, *({n: getattr(f, n) for n in SAME} for f in (old, head))
        )
        if head.classes is None:
            top = max(old.low + old.span, head.low + head.span)
            head.low = min(old.low, head.low)
            head.span = array("f", [top - head.low])[0]
        head.scale = self._scale(len(old))
        combine.append(head, old)
        for name in COUNTS:
            setattr(head.spent, name, getattr(head.spent, name) + getattr(old.spent, name))
        if head.limit is not None:
            head.limit = None if old.limit is None else head.limit + old.limit
        self.base = len(old)
        self.planned += self.base
        self.importance = [v * self.base for v in old.importances]

    def _scale(self, base: int) -> int:
        return vote_scale(base + self.n_trees)

    def _like(self, forest: Forest, base: Any) -> None:
        """Expect what a forest has that began with `base` trees of another."""
        valid = type(base) is int and 0 < base < len(forest) and forest.scale == self._scale(base)
        if not valid or (forest.limit is not None and self.budget.insertions is None):
            assert self.checkpoint is not None
            storage.refuse_damaged(self.checkpoint)
        for name in ("scale", "low", "span", "limit"):
            setattr(self.grown, name, getattr(forest, name))
        self.base = base
        self.planned += base

    def _resume(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint; refuse one that no such training can have left."""
        assert self.checkpoint is not None
        forest, _ = storage.read(self.checkpoint)
        signature, importance = state.get("signature"), state.get("importance")
        seconds: Any = state.get("seconds")
        if not forest or not isinstance(signature, dict):
            storage.refuse_damaged(self.checkpoint)
        storage.refuse_other(self.checkpoint, signature, self._signature)
        self._over = state["done"]
        if self._over:
            importance, seconds = None, 0
        elif not isinstance(importance, list) or not all(type(v) is int for v in importance):
            storage.refuse_damaged(self.checkpoint)
        if "base" in state:
            self._like(forest, state["base"])
        storage.check_state(self.checkpoint, forest, self.grown, self.planned, importance, seconds)
        most = self._share(0, len(forest)).insertions  # of these trees
        if most is not None and not self.base and forest.spent.insertions > most:
            storage.refuse_damaged(self.checkpoint)
        if importance and millionths(importance) != forest.importances:
            storage.refuse_damaged(self.checkpoint)
        if self._over:
            limits = self.budget.insertions, self.budget.seconds, self.budget.bytes
            if limits == (None, None, None):
                trees = {"trees": len(forest)}, {"trees": self.planned}
                storage.refuse_other(self.checkpoint, *trees)
            self.planned = len(forest)
        self.importance = importance or []
        self._before = float(seconds)
        forest.engine = self.grown.engine
        self.grown = forest


def train_source(source: Any, target: str, **options: Any) -> Forest:
    """Train a forest from a source without holding its rows: see docs/streaming.md.

    `source` is a path, or whatever else `open_source` takes; `target` names the column to learn.
    `categorical`, `drop` and `task` overrule what is found by looking. `checkpoint` is a file that
    has the model after every tree, and `resume=True` goes on from it. If the log has grown since,
    training is finished with the old rows first, and then done anew with all rows: a warning says
    so. With `refresh=True` the trees that are done stay, and as many are added. All other options
    are those of `train`. If the source fails on the way, or the checkpoint cannot be written, the
    error has the trees that are done as `forest`.

    >>> from edgeforest.sources import Table
    >>> table = Table({"a": list(range(500)), "b": [i * 0.5 for i in range(500)]})
    >>> round(train_source(table, "b", n_trees=5).predict([100.0]))
    50
    """
    budget = options.get("budget")
    if isinstance(budget, Budget):
        budget = budget.copy()  # its clock begins here
    source = open_source(source)
    if isinstance(budget, Budget):
        options["budget"] = sampling.rest_of(budget)
    while True:
        training = Streaming(source, target, **options)
        if training.note:
            warnings.warn(training.note, stacklevel=2)
        try:
            for _ in training:
                pass
        except (SourceError, OSError) as error:
            done = training.forest() if len(training.grown) else None
            error.forest = done  # type: ignore[union-attr]
            raise
        if not training.later:
            return training.forest()


# ---- In a worker of a cluster

_ONE = threading.Lock()  # one training at a time in a process: each may fill the budget in bytes
_HELD: dict[bytes, Streaming] = {}  # the latest training of this process, with its rows


def grow_elsewhere(job: bytes, first: int, last: int) -> list[GrownTree]:
    """Some trees of a training that another process has begun; the rows stay for the next ones."""
    with _ONE:
        training = _HELD.get(job)
        if training is None:
            _HELD.clear()
            paths, reading, rows, crc, options = pickle.loads(job)
            source = open_source(paths, **reading)
            if len(source) != rows or source.checksum(rows) != crc:
                raise SourceError(
                    f"{source.name} is another file on a worker than where training was begun; "
                    "give a path that every worker finds the same rows at"
                )
            options["budget"] = Budget(*options["budget"])
            target = options["schema"].target
            training = _HELD[job] = Streaming(source, target, **options)
        return training.stretch(first, last)


def forget_held() -> None:
    """Free the rows that are held for the next trees; trees that still grow keep theirs."""
    _HELD.clear()


def _refuse(resume: bool, refresh: bool, checkpoint: Any, options: dict[str, Any]) -> None:
    """Raise a ValueError about options that do not go together, or are not for sources."""
    if resume and checkpoint is None:
        raise ValueError("resume goes on from a checkpoint: give its path as checkpoint")
    if refresh and not resume:
        raise ValueError("refresh adds trees to a checkpoint: give resume=True, too")
    for name in ("sample_weight", "names", "n_features", "by_column", "first"):
        if options.pop(name, None) is not None:
            raise ValueError(f"{name} is for rows in memory; a source has none")


def _free(training: Any) -> None:
    """Free the rows and codes of a training at once: memory may be short."""
    training.stop()
    training.trees.free()
    training.data.forget()


def _limit(training: Any, n_trees: int, share: Budget) -> None:
    """Let a training that has not begun to grow trees grow so many, with this budget."""
    training.planned = training.in_all = n_trees
    budget = training.budget
    budget.insertions = budget.ceiling = share.insertions
    if share.seconds is not None:
        budget.seconds = budget.until = budget.tick() + share.seconds


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
