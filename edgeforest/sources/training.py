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
import time
import warnings
from array import array
from collections.abc import Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from edgeforest import storage
from edgeforest.budget import Budget, Rng, millionths
from edgeforest.codes import vote_scale
from edgeforest.engines import sampling
from edgeforest.forest import HUGE, Forest, Spent
from edgeforest.forests import merging as combine
from edgeforest.host.cluster import PARTS, Work, active
from edgeforest.sources.base import Source, SourceError
from edgeforest.sources.checkpoints import Begun, begun
from edgeforest.sources.opening import open_source
from edgeforest.sources.pools import (
    COUNTS,
    STREAMS,
    Beginning,
    GrownTree,
    Met,
    Pools,
    begin_elsewhere,
    forest_like,
    forget_held,
    grow_elsewhere,
    read_elsewhere,
)
from edgeforest.sources.schema import LOOK, Schema, look

SAME = ("kind", "criterion", "splitter", "names")  # of all trees of a forest


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
        began = time.monotonic()
        before = Begun(source)
        if resume and checkpoint is not None:
            before = begun(source, checkpoint, refresh)
        self.source = source = before.source
        self.note, self.later = before.note, before.later
        self.seed = seed
        self.n_trees = n_trees
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
        self.pools = Pools(
            source,
            self.schema,
            self.budget,
            n_trees=n_trees,
            max_depth=max_depth,
            max_samples=max_samples,
            seed=seed,
            criterion=self.criterion,
            options=options,
        )
        self.pools.began = began
        self._begin(before)

    def _refuse_room(self) -> None:
        room, needed = self.budget.bytes, self.source.room
        if room is not None and needed > room:
            raise ValueError(
                f"bytes must be at least {2 * needed} to read {self.source.name}, got {room}; or "
                "write it in smaller row groups"
            )

    def _refuse_seconds(self) -> None:
        if self.budget.seconds is not None:
            raise ValueError(
                "budget in seconds cannot be kept on a cluster; limit insertions instead, or train "
                "on this machine"
            )

    def _begin(self, before: Begun) -> None:
        """Begin a forest, with the trees that are there."""
        cluster = active(self.options.get("n_jobs")) if self.source.recipe is not None else None
        self._work: Work | None = None
        if cluster is None:
            found = self.pools.begin()
        else:
            self._refuse_seconds()
            self._job = self.pools.job()
            self._work = cluster.work(partial(forget_held, self._job))
            found = self._begin_elsewhere(self._work)
        self.base = 0  # trees of an earlier training that stay
        self.planned = self.pools.planned = found.planned
        self.grown = self._head(found.header)
        self.importance = [0] * len(self.grown.names)
        if before.kept is not None:
            self._keep(before.kept)
        if before.state is not None:
            self._resume(before.state)
        self.pools.base = self.base
        if self._over:
            self.pools.forget()
        self.grown.ranges = found.ranges
        self.budget.spent = self.grown.spent

    def _head(self, header: dict[str, Any]) -> Forest:
        """A forest without trees, that has what all of them share."""
        head = forest_like(header)
        head.prepare()
        head.limit = self.budget.insertions
        head.spent = Spent(rows_read=self.schema.looked)
        if self.schema.regression and self.pools.size < len(
            self.source
        ):  # other rows may lie beyond
            low, span = head.low - head.span, 3 * head.span
            if low < -HUGE or span > HUGE or low + span > HUGE:
                raise SourceError("targets of a source must span less than 1e38; scale them down")
            head.low, head.span = array("f", [low, span])
        return head

    def plan(self, first: float) -> None:
        """Grow fewer trees if the time is not enough for all: `first` as in `speed.plan`.

        Trees that are done stay. Where insertions are limited, too, their shares are the plan: a
        checkpoint is checked by them.
        """
        if self.budget.insertions is None:
            self.pools.plan(len(self.grown) - self.base, first)
            self.planned = self.base + self.pools.planned

    def __iter__(self) -> Iterator[Streaming]:
        yield from self._run()
        if self.grown and not self._over:  # the budget was used up
            self._write(True)

    def _run(self) -> Iterator[Streaming]:
        if self._work is not None:
            yield from self._run_elsewhere(self._work)
            return
        pools = self.pools
        while len(self.grown) < self.planned:
            first = len(self.grown) - self.base
            last = pools.pool_of(first)[1]
            if first and pools.late():
                return
            self.source.check()
            if pools.hurried():
                last = pools.planned  # no time for other rows
            else:
                pools.have(first // pools.of_a_pool())
            for tree in pools.grow(first, last):
                if tree is not None:
                    self._add(tree)
                yield self
            pools.forget()
            if len(self.grown) - self.base < last:
                return  # the budget was used up

    # ---- Trees that grow on a cluster

    def _begin_elsewhere(self, work: Work) -> Beginning:
        """Have the first pool read by a worker, and the next ones by others at the same time."""
        try:
            pools = -(-self.n_trees // self.pools.of_a_pool())
            beginning = work.submit(begin_elsewhere, self._job, near=(0, pools))
            for pool in range(1, min(pools, work.workers)):
                work.submit(read_elsewhere, self._job, pool, near=(pool, pools))
            return work.result(beginning)  # type: ignore[no-any-return]
        except BaseException:
            work.close()
            raise

    def _run_elsewhere(self, work: Work) -> Iterator[Streaming]:
        """Have the trees grown by the workers of a cluster; they are added in order.

        A worker gets the path of the source, never rows. If the budget in bytes limits a tree, all
        trees of a pool must grow in one place: they leave less room to those after them.
        """
        pools, begun = self.pools, len(self.grown) - self.base
        try:
            parts, first = PARTS * work.cores, begun
            while len(self.grown) < self.planned:
                if not (
                    yield from self._grow_elsewhere(work, pools.stretches(parts, first), parts)
                ):
                    return
                # What did not fit is grown again, a whole pool in one place.
                done = len(self.grown) - self.base
                parts, first = 1, max(begun, done - done % pools.of_a_pool())
        finally:
            work.close()

    def _grow_elsewhere(
        self, work: Work, spans: list[tuple[int, int]], parts: int
    ) -> Generator[Streaming, None, bool]:
        """Have stretches of trees grown; whether those that are missing need another try."""
        of_a_pool = self.pools.of_a_pool()
        near = -(-self.pools.planned // of_a_pool)
        common = self._job, self.base, self.pools.planned
        tickets = [
            work.submit(
                grow_elsewhere, *common, *span, parts == 1, near=(span[0] // of_a_pool, near)
            )
            for span in spans
        ]
        for (first, last), ticket in zip(spans, tickets, strict=True):
            while not work.is_done(ticket):
                self.grown.spent.seconds = self.pools.elapsed()
                yield self
            found = work.result(ticket)
            if not found.fits:
                work.cancel()
                return True
            done = len(self.grown) - self.base
            if found.met is not None and done == first:
                self._note_met(found.met)
            for tree in found.trees[done - first :]:
                self._add(tree.tree())
                yield self
            if len(found.trees) < last - first:
                return False  # the budget was used up
        return False

    def _note_met(self, met: Met) -> None:
        """Count what a worker has met in its rows."""
        schema, source = self.schema, self.source
        schema.unlabelled += met.unlabelled
        for name, n in met.odd.items():
            schema.odd[name] = schema.odd.get(name, 0) + n
        source.bad += met.bad
        source.complaints += [one for one in met.complaints if one not in source.complaints]

    def _add(self, tree: GrownTree) -> None:
        """Add a tree to the forest, and write the checkpoint."""
        spent = self.grown.spent
        for name in COUNTS:
            setattr(spent, name, getattr(spent, name) + getattr(tree.cost, name))
        spent.seconds = self.pools.elapsed()
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
                state.update(importance=self.importance, seconds=self.pools.elapsed())
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
        most = self.pools.share(0, len(forest)).insertions  # of these trees
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
        self.pools.before = float(seconds)
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


def _refuse(resume: bool, refresh: bool, checkpoint: Any, options: dict[str, Any]) -> None:
    """Raise a ValueError about options that do not go together, or are not for sources."""
    if resume and checkpoint is None:
        raise ValueError("resume goes on from a checkpoint: give its path as checkpoint")
    if refresh and not resume:
        raise ValueError("refresh adds trees to a checkpoint: give resume=True, too")
    for name in ("sample_weight", "names", "n_features", "by_column", "first"):
        if options.pop(name, None) is not None:
            raise ValueError(f"{name} is for rows in memory; a source has none")
