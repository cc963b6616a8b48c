"""Train from a source: rows are read when a tree asks for them, and the power may fail.

Each tree gets a random sample of the rows, as large as it can put to use; then memory and time do
not grow with the data. Where all rows are no more than that, they are read once.

>>> from edgeforest.sources import Table
>>> table = Table({"temp": [15 + i % 17 for i in range(900)], "open": [i % 17 > 8 for i in range(900)]})
>>> forest = train_source(table, "open", n_trees=5, budget=50_000)
>>> forest.predict([[16], [30]]), forest.spent.insertions <= 50_000
([0, 1], True)
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeforest import combine, core_pure, engine
from edgeforest.core_pure import LEVELS, Budget, Forest, Rng, Spent
from edgeforest.sources import Source, SourceError, draw
from edgeforest.sources.schema import Schema, look

if TYPE_CHECKING:
    from zlib import crc32
else:
    from binascii import crc32

ROWS = 131072  # rows of a tree whose depth does not say how many it can put to use
READ = 2048  # rows at once: text takes many times the room of its numbers
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
        self.rows = self._rows_of_a_tree(max_samples)
        self._signature = self._sign(target, max_samples)
        self._whole = self._read(range(len(source))) if self.rows >= len(source) else None
        first = self._whole or self._sample(0)
        trial = self._training(first, 0, n_trees, self.budget)
        self.planned: int = trial.planned
        self.grown = self._head(trial)
        self.importance = [0] * len(self.grown.names)
        if resume:
            self._resume()
        self.budget.spent = self.grown.spent

    # ---- Rows

    def _rows_of_a_tree(self, max_samples: int | float | None) -> int:
        n = len(self.source)
        if max_samples is not None:
            rows: int = _checks._part("max_samples", max_samples, n)
        else:
            depth = self.max_depth
            per_leaf = 256 if self.schema.regression else 128
            rows = ROWS if depth is None or depth > 10 else max(16384, per_leaf << depth)
        if self.budget.bytes is not None:
            rows = min(rows, self._fitting())
        return min(rows, n)

    def _fitting(self) -> int:
        """How many rows the budget in bytes has room for: values, codes, labels, text in hand."""
        m = len(self.schema.names)
        room = (self.budget.bytes or 0) - READ * 100 * len(self.source.names) - 4096 * m
        rows = room // (2 * (6 * m + 64))  # half of it is for the trees
        if rows < 256:
            raise ValueError(
                f"a budget of {self.budget.bytes} bytes holds too few rows of {m} features; give "
                f"at least {2 * (READ * 50 * len(self.source.names) + 512 * (6 * m + 64))}"
            )
        return rows

    def _read(self, rows: Any) -> tuple[list[Any], Any]:
        """Features by column and labels of these rows, read some at a time."""
        parts = [
            self.schema.columns(self.source.read(rows[at : at + READ]))
            for at in range(0, len(rows), READ)
        ]
        columns = [_joined(list(some)) for some in zip(*[c for c, _ in parts], strict=True)]
        labels = _joined([y for _, y in parts])
        if not len(labels):
            raise SourceError(
                f"no row of {self.source.name} has a target {self.schema.target!r}; give some that do"
            )
        return columns, labels

    def _sample(self, place: int) -> tuple[list[Any], Any]:
        rng = Rng(self.seed, STREAMS + 1 + place)
        return self._read(draw(rng, self.rows, len(self.source)))

    # ---- Trees

    def _training(self, data: Any, first: int, n_trees: int, budget: Budget) -> Any:
        columns, labels = data
        options = dict(self.options)
        if self._whole is None:
            options |= {"bootstrap": False, "max_samples": len(labels)}
        elif self.rows < len(labels):
            options["max_samples"] = self.rows
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
        head.spent = Spent(rows_read=min(len(self.source), 4096))
        head.engine = trial.engine
        if self.schema.regression and self._whole is None:  # other rows may lie beyond
            head.low = array("f", [head.low - head.span])[0]
            head.span = array("f", [3 * head.span])[0]
        return head

    def __iter__(self) -> Iterator[Streaming]:
        if self._whole is not None:
            yield from self._grow_whole(self._whole)
            return
        for place in range(len(self.grown), self.planned):
            if self.grown and self._late():
                return
            self.source.check()
            data = self._sample(place)
            training = self._training(data, place, 1, self._share(place))
            for _ in training:
                yield self
            tree = training.forest()
            self._add(tree, training.importance, tree.spent)
            yield self

    def _grow_whole(self, data: Any) -> Iterator[Streaming]:
        first = len(self.grown)
        if first >= self.planned:
            return
        budget = self._rest(first)
        training = self._training(data, first, self.planned - first, budget)
        spent = training.budget.spent
        if first:  # what was read to begin with is not counted twice
            spent.rows_read = 0
        cost = Spent()
        for _ in training:
            done = len(self.grown) - first
            if done < len(training.grown.roots):
                total = Spent(spent.insertions, spent.rows_read, spent.rounds, spent.seconds)
                tree = combine.keep(training.grown, [done])
                self._add(tree, training.importance, _less(total, cost))
                training.importance = [0.0] * len(self.importance)  # of each tree alone
                cost = total
            yield self

    def _share(self, place: int) -> Budget:
        """The budget of one tree: equal shares, so that it does not matter where one goes on."""
        limit = self.budget.insertions
        if limit is not None:
            limit = limit * (place + 1) // self.planned - limit * place // self.planned
        seconds = self.budget.seconds
        if seconds is not None:
            seconds = max(0.001, (seconds - self.grown.spent.seconds) / (self.planned - place))
        return Budget(limit, seconds, self.budget.bytes)

    def _rest(self, first: int) -> Budget:
        limit = self.budget.insertions
        if limit is not None:
            limit = limit // self.planned * (self.planned - first)
        seconds = self.budget.seconds
        if seconds is not None:
            seconds = max(0.001, seconds - self.grown.spent.seconds)
        return Budget(limit, seconds, self.budget.bytes)

    def _late(self) -> bool:
        seconds = self.budget.seconds
        return seconds is not None and self.grown.spent.seconds >= seconds

    def _add(self, tree: Forest, importance: list[float], cost: Spent) -> None:
        """Add a tree to the forest, and note it where no power is needed to keep it."""
        spent = self.grown.spent
        for name in ("insertions", "rows_read", "rounds", "seconds"):
            setattr(spent, name, getattr(spent, name) + getattr(cost, name))
        combine.append(self.grown, tree)
        total = sum(importance)
        if total > 0:
            parts = [int(v / total * 1_000_000 + 0.5) for v in importance]
            self.importance = [a + b for a, b in zip(self.importance, parts, strict=True)]
        if self.checkpoint is not None:
            last = len(self.grown) == self.planned
            self._write(self.checkpoint, None if last else self._state())

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
            "trees": self.n_trees,
            "depth": self.max_depth,
            "samples": max_samples,
            "budget": self.budget.insertions,
            "seed": self.seed,
            "options": {k: repr(v) for k, v in sorted(self.options.items()) if k != "engine"},
        }
        return dict(json.loads(json.dumps(given)))

    def _state(self) -> str:
        state = {"signature": self._signature, "importance": self.importance}
        return f',"training":{json.dumps(state)}'

    def _write(self, path: Path, state: str | None) -> None:
        """Write the model so that the file is either the old one or the new one."""
        forest: Any = self._finished()
        part = path.with_name(path.name + ".part")
        crc = 0
        with open(part, "wb") as stream:
            for piece in chain(forest._pieces(), [state or ""]):
                text = piece.encode()
                crc = crc32(text, crc)
                stream.write(text)
            stream.write(f',"crc32":"{crc:08x}"}}\n'.encode())
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, path)
        if hasattr(os, "O_DIRECTORY"):  # the new name, too, has to reach the disk
            folder = os.open(path.parent, os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _resume(self) -> None:
        assert self.checkpoint is not None
        if not self.checkpoint.exists():
            return
        forest = engine.load(self.checkpoint)
        state = json.loads(self.checkpoint.read_bytes()).get("training")
        if state is None:
            self.planned = len(forest)  # it was done
            self.importance = []
        else:
            for key, value in self._signature.items():
                if state["signature"][key] != value:
                    raise ValueError(
                        f"{self.checkpoint} was begun with other {key}: "
                        f"{state['signature'][key]!r}, now {value!r}; use another path"
                    )
            self.importance = state["importance"]
        forest.engine = self.grown.engine
        self.grown = forest


def train_source(source: Source, target: str, **options: Any) -> Forest:
    """Train a forest from a source: see `Streaming` for the options.

    If the source fails on the way, the error has the trees that are done as `forest`.

    >>> from edgeforest.sources import Table
    >>> table = Table({"a": list(range(500)), "b": [i * 0.5 for i in range(500)]})
    >>> round(train_source(table, "b", n_trees=5).predict([100.0]))
    50
    """
    training = Streaming(source, target, **options)
    try:
        for _ in training:
            pass
    except SourceError as error:
        error.forest = training.forest() if len(training.grown) else None
        raise
    return training.forest()


def _less(one: Spent, two: Spent) -> Spent:
    """What was spent between two looks."""
    return Spent(
        one.insertions - two.insertions,
        one.rows_read - two.rows_read,
        one.rounds - two.rounds,
        one.seconds - two.seconds,
    )


def _joined(parts: list[Any]) -> Any:
    """A column from its parts."""
    if hasattr(parts[0], "dtype"):
        import numpy as np

        return np.concatenate(parts)
    whole = parts[0]
    for part in parts[1:]:
        whole.extend(part)
    return whole
