"""Train from a source: rows are read when a tree asks for them, and the power may fail.

A tree can put only so many rows to use. So a pool of rows, drawn at random from the whole source,
is read into the memory that there is; when as many trees have drawn from it as it has rows for, it
is read anew. Memory and time do not grow with the data. Where all rows fit, they are read once, and
the forest is the one that training in memory gives.

>>> from edgeforest.sources import Table
>>> table = Table({"temp": [15 + i % 17 for i in range(900)], "open": [i % 17 > 8 for i in range(900)]})
>>> forest = train_source(table, "open", n_trees=5, budget=50_000)
>>> forest.predict([[16], [30]]), forest.spent.insertions <= 50_000
([0, 1], True)
"""

from __future__ import annotations

import json
import os
import time
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from edgeforest import combine, core_pure, engine, storage
from edgeforest.core_pure import LEVELS, Budget, Forest, Rng, Spent
from edgeforest.sources import Source, SourceError, draw, open_source
from edgeforest.sources.schema import Schema, look

ROWS = 131072  # rows of a tree whose depth does not say how many it can put to use
BYTES = 100_000_000  # for the pool, where the budget does not say
POOLS = 4  # times that rows are read, at most: reading is slow
READ = 2048  # rows at once: text takes many times the room of its numbers
SLICES = 8  # passes over the source, if reading may have to stop: each one is a fair sample
STREAMS = 1 << 20  # random streams of the rows: beyond those of the trees
_checks: Any = core_pure  # whose stub has only what is public


class Streaming:
    """Training from a source in steps: iterate to advance; `forest()` has the trees that are done.

    `target` is the name of the column to learn; `categorical`, `drop` and `task` say what is not to
    be found by looking. `max_samples` is the number of rows of a tree, or their share. With
    `checkpoint`, the forest is written to that path after every tree: it is a model that can be
    loaded at any time. `resume=True` goes on from there to the forest that an uninterrupted
    training gives. All other options are those of `train`.

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
        schema: Schema | None = None,
        **options: Any,
    ) -> None:
        if resume and checkpoint is None:
            raise ValueError("resume goes on from a checkpoint: give its path")
        for name in ("sample_weight", "names", "n_features", "by_column", "first"):
            if options.pop(name, None) is not None:
                raise ValueError(f"{name} is for rows in memory; a source has none")
        self._began = time.monotonic()
        self._before = 0.0  # seconds that were spent before it was resumed
        self.source = source
        self.seed = seed
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.options = options
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.budget = budget.copy() if isinstance(budget, Budget) else Budget(budget)
        if criterion == "mse":
            task = "regression"
        self.schema = schema or look(
            source, target, Rng(seed, STREAMS), categorical=categorical, drop=drop, task=task
        )
        self.criterion = criterion or ("mse" if self.schema.regression else "gini")
        self._signature = self._sign(target, max_samples)
        self.read = max(16, min(READ, 250_000 // len(source.names)))  # rows at once
        self.pool = min(len(source), self._fitting())  # rows in memory at a time
        self.rows = min(self.pool, self._rows_of_a_tree(max_samples))
        if self.pool < len(source):
            self.pool = min(self.pool, self.rows * n_trees)
        self._pool: tuple[int, Any] = 0, self._read(0)
        trial = self._training(0, n_trees, self.budget)
        self.planned: int = trial.planned
        self.grown = self._head(trial)
        self.importance = [0] * len(self.grown.names)
        trial._steps = None  # which holds it, and so its rows
        if resume:
            self._resume()
        self.budget.spent = self.grown.spent

    # ---- Rows

    def _rows_of_a_tree(self, max_samples: int | float | None) -> int:
        if max_samples is not None:
            rows: int = _checks._part("max_samples", max_samples, len(self.source))
            return rows
        if self.max_depth is None or self.max_depth > 10:
            return max(ROWS, self.pool if self.pool == len(self.source) else 0)
        per_leaf = 256 if self.schema.regression else 128
        return max(16384, per_leaf << self.max_depth)

    def _bytes(self, rows: int) -> int:
        """The memory that so many rows take, and the text in hand while they are read."""
        columns = 4 * len(self.schema.names) + 8 * len(self.schema.categorical) + 16
        of_a_value = 100 if self.source.texts else 32
        return rows * columns + min(rows, self.read) * of_a_value * len(self.source.names)

    def _fitting(self) -> int:
        """How many rows the memory has room for: their values, and their codes in training."""
        given = BYTES if self.budget.bytes is None else self.budget.bytes
        m, some = len(self.schema.names), self.read
        of_a_row = self._bytes(some + 1) - self._bytes(some) + m + 60
        fixed = self._bytes(some) + 4096 * m
        rows = (given * 7 // 8 - fixed) // of_a_row  # the rest is for the trees
        if rows < 256:
            raise ValueError(
                f"{given} bytes hold too few rows of {m} features; give a budget of at least "
                f"{(fixed + 256 * of_a_row) * 8 // 7 + 1} bytes"
            )
        return rows

    def _of_a_pool(self) -> int:
        """How many trees draw from one pool: as many as it has rows for, but few pools are enough."""
        if self.pool == len(self.source):
            return self.planned
        return max(self.pool // self.rows, -(-self.planned // POOLS))

    def _read(self, pool: int) -> tuple[list[Any], Any]:
        """Features by column and labels of a pool, read some rows at a time."""
        n = len(self.source)
        chosen = draw(Rng(self.seed, STREAMS + 1 + pool), self.pool, n)
        slices = 1 if self.budget.seconds is None else SLICES
        columns: list[Any] = []
        done = 0
        for first in range(slices):
            rows = chosen[first::slices]
            for at in range(0, len(rows), self.read):
                some, labels = self.schema.columns(self.source.read(rows[at : at + self.read]))
                some.append(labels)
                if not columns:  # as large as they will be: growing would take twice the room
                    columns = [_room(column, len(chosen)) for column in some]
                for column, part in zip(columns, some, strict=True):
                    column[done : done + len(labels)] = part
                done += len(labels)
            if self._hurried():
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

    def _training(self, first: int, n_trees: int, budget: Budget) -> Any:
        columns, labels = self._pool[1]
        options = dict(self.options)
        options["max_samples"] = min(self.rows, len(labels))
        if budget.bytes is not None:  # what the rows themselves take is gone already
            budget = Budget(
                budget.insertions, budget.seconds, max(1, budget.bytes - self._bytes(len(labels)))
            )
        training = engine.train_steps(
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
        training.grown.scale = min(LEVELS, 16777215 // self.n_trees)
        training.grown.prepare()  # its trees are looked at one by one
        return training

    def _head(self, trial: Any) -> Forest:
        """A forest without trees, that has what all of them share."""
        head = combine.like(trial.grown)
        head.prepare()
        head.limit = self.budget.insertions
        head.spent = Spent(rows_read=self.schema.looked)
        head.engine = trial.engine
        if self.schema.regression and self.pool < len(self.source):  # other rows may lie beyond
            head.low = array("f", [head.low - head.span])[0]
            head.span = array("f", [3 * head.span])[0]
        return head

    def __iter__(self) -> Iterator[Streaming]:
        of_a_pool = self._of_a_pool()
        while len(self.grown) < self.planned:
            first = len(self.grown)
            pool = first // of_a_pool
            last = min(self.planned, (pool + 1) * of_a_pool)
            if first and self._late():
                return
            self.source.check()
            if self._pool[0] != pool and not self._hurried():
                self._pool = pool, None  # before the next one is read
                self._pool = pool, self._read(pool)
            yield from self._grow(first, last)
            if len(self.grown) < last:
                return  # the budget was used up

    def _grow(self, first: int, last: int) -> Iterator[Streaming]:
        """Grow some trees of the pool in hand."""
        training = self._training(first, last - first, self._share(first, last))
        spent = training.budget.spent
        if first % self._of_a_pool():  # what was read to begin with is not counted twice
            spent.rows_read = 0
        cost = Spent()
        for _ in training:
            done = len(self.grown) - first
            if done < len(training.grown.roots):
                total = Spent(spent.insertions, spent.rows_read, spent.rounds)
                tree = combine.keep(training.grown, [done])
                self._add(tree, training.importance, total, cost)
                training.importance = [0.0] * len(self.importance)  # of each tree alone
                cost = total
            yield self
        training._steps = None

    def _share(self, first: int, last: int) -> Budget:
        """The budget of some trees: equal shares, so that it does not matter where one goes on."""
        insertions, seconds = self.budget.insertions, self.budget.seconds
        if insertions is not None:
            insertions = max(1, insertions // self.planned) * (last - first)
        if seconds is not None:
            rest = (last - first) / (self.planned - first)
            seconds = max(0.001, (seconds - self._elapsed()) * rest)
        return Budget(insertions, seconds, self.budget.bytes)

    def _elapsed(self) -> float:
        return self._before + time.monotonic() - self._began

    def _hurried(self) -> bool:
        """Whether the time that is left is better spent on trees than on reading."""
        return self.budget.seconds is not None and 2 * self._elapsed() > self.budget.seconds

    def _late(self) -> bool:
        return self.budget.seconds is not None and self._elapsed() >= self.budget.seconds

    def _add(self, tree: Forest, importance: list[float], total: Spent, before: Spent) -> None:
        """Add a tree to the forest, and note it where no power is needed to keep it."""
        spent = self.grown.spent
        for name in ("insertions", "rows_read", "rounds"):
            cost = getattr(total, name) - getattr(before, name)
            setattr(spent, name, getattr(spent, name) + cost)
        spent.seconds = self._elapsed()
        combine.append(self.grown, tree)
        part = sum(importance)
        if part > 0:
            parts = [int(v / part * 1_000_000 + 0.5) for v in importance]
            self.importance = [a + b for a, b in zip(self.importance, parts, strict=True)]
        if self.checkpoint is not None:
            last = len(self.grown) == self.planned
            storage.write(self._finished(), self.checkpoint, None if last else self._state())

    def forest(self) -> Forest:
        """The trees that are done."""
        if not self.grown:
            raise SourceError("no tree is done yet; let the training go on")
        return self._finished()

    def _finished(self) -> Forest:
        if self.importance:
            total = sum(self.importance) or 1
            self.grown.importances = [int(v / total * 1_000_000 + 0.5) for v in self.importance]
        self.grown.prepare()
        return self.grown

    # ---- Power loss

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
                if name not in ("engine", "n_jobs")  # which change the speed alone
            },
        }
        return dict(json.loads(json.dumps(given)))

    def _state(self) -> dict[str, Any]:
        return {
            "signature": self._signature,
            "importance": self.importance,
            "seconds": self._elapsed(),
        }

    def _resume(self) -> None:
        assert self.checkpoint is not None
        forest, state = storage.read(self.checkpoint, type(self.grown))
        if forest is None:
            return
        if state is None:
            self.planned = len(forest)  # it was done
            self.importance = []
        else:
            storage.refuse_other(self.checkpoint, state["signature"], self._signature)
            self.importance = state["importance"]
            self._before = state["seconds"]
        forest.engine = self.grown.engine
        self.grown = forest


def train_source(source: Any, target: str, **options: Any) -> Forest:
    """Train a forest from a source without holding its rows: see docs/streaming.md.

    `source` is a path, or what else `open_source` takes; `target` names the column to learn.
    `categorical`, `drop` and `task` overrule what is found by looking. `checkpoint` is a file that
    has the model after every tree, and `resume=True` goes on from it. All other options are those
    of `train`. If the source fails on the way, or the checkpoint cannot be written, the error has
    the trees that are done as `forest`.

    >>> from edgeforest.sources import Table
    >>> table = Table({"a": list(range(500)), "b": [i * 0.5 for i in range(500)]})
    >>> round(train_source(table, "b", n_trees=5).predict([100.0]))
    50
    """
    training = Streaming(open_source(source), target, **options)
    try:
        for _ in training:
            pass
    except (SourceError, OSError) as error:
        error.forest = training.forest() if len(training.grown) else None  # type: ignore[union-attr]
        raise
    return training.forest()


def _room(part: Any, n: int) -> Any:
    """A column of n values like those of a part."""
    if isinstance(part, array):
        return array(part.typecode, bytes(n * part.itemsize))
    return [None] * n
