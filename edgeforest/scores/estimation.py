"""How good a forest will be on rows of another day: blocks are left out in turn, and predicted.

Each block is predicted by a forest that was trained on all others. These forests have ten trees at
most: docs/tuning.md shows that more of them change the score by less than another seed does.

>>> rows = [[i % 24, (i * 7) % 11] for i in range(24 * 20)]
>>> found = estimate(rows, [row[0] > 8 for row in rows], n_trees=5)
>>> len(found.blocks), found.mean > 0.9
(5, True)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from edgeforest import engines
from edgeforest.budget import Budget
from edgeforest.engines import sampling
from edgeforest.forest import Forest
from edgeforest.host.cluster import each, jobs
import edgeforest.scores.metrics as metrics
from edgeforest.scores.evaluation import Evaluation, answered, commonest
from edgeforest.splits import Block, choose

TREES = 10  # of a forest that predicts a block, at most
PREDICTED = 1024  # rows at once, between two looks at the clock
PREDICTING = 0.8  # of the time of a block is for training at most; the rest is for predicting


@dataclass
class BlockScore:
    """The score of one block, and of always giving the answer that is best for the other rows.

    >>> BlockScore("Saturday 2015-02-07", rows=1440, score=0.894, naive=1.0).score
    0.894
    """

    name: str
    rows: int
    score: float
    naive: float


@dataclass
class Estimate:
    """What blocks that were left out in turn say: the score of each, and all answers together.

    >>> found = Estimate("days", regression=False, planned=2)
    >>> found.blocks = [BlockScore("Friday", 300, 0.9, 0.5), BlockScore("Saturday", 100, 0.7, 0.5)]
    >>> round(found.mean, 3), found.worst.name
    (0.85, 'Saturday')
    """

    kind: str  # what the blocks are: "days", "groups", ...
    regression: bool
    planned: int  # blocks; fewer are scored if there was no time, or no budget, for all
    trees: int = 0  # of the smallest forest that predicted a block
    sampled: int = 0  # rows of a larger log that it was made from; 0 for all of them
    why: str = ""  # why rows were left out at random, if nobody asked for it
    blocks: list[BlockScore] = field(default_factory=list)
    pooled: Evaluation = field(default_factory=lambda: Evaluation(None))
    insertions: int = 0
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        """The score of all rows that were left out: the accuracy, or the mean squared error."""
        return self._mean("score")

    @property
    def naive(self) -> float:
        """The same without a forest: always the commonest class, or the mean, of the other rows."""
        return self._mean("naive")

    def _mean(self, what: str) -> float:
        """The mean over the blocks, in which each row counts the same: a day may be half a day."""
        rows = sum(block.rows for block in self.blocks)
        return sum(block.rows * float(getattr(block, what)) for block in self.blocks) / rows

    @property
    def worst(self) -> BlockScore:
        """The block with the worst score."""
        return (max if self.regression else min)(self.blocks, key=lambda block: block.score)

    def facts(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        found = {"by": self.kind, "planned": self.planned, "trees": self.trees}
        found.update(insertions=self.insertions, seconds=self.seconds, sampled=self.sampled)
        if not self.blocks:
            return found
        return {
            **found,
            "measure": "mse" if self.regression else "accuracy",
            "mean": self.mean,
            "naive": self.naive,
            "worst": vars(self.worst),
            "blocks": [vars(block) for block in self.blocks],
            "pooled": self.pooled.facts(),
        }


class Estimating:
    """An estimate in steps: iterate to advance, and stop at any time; `found` is what there is.

    `columns` are the features by column; `splits` is a splitter of `edgeforest.splits`. The budget is for all blocks together; `options` are those of a
    training.

    >>> from edgeforest.splits import TimeBlocks
    >>> work = Estimating([list(range(100))], [i % 2 for i in range(100)], TimeBlocks(), n_trees=2)
    >>> for training in work:
    ...     pass
    >>> [block.name for block in work.found.blocks][:2]
    ['rows 1 to 20', 'rows 21 to 40']
    """

    def __init__(
        self,
        columns: Sequence[Any],
        labels: Sequence[Any],
        splits: Any,
        /,
        *,
        budget: Budget | None = None,
        n_trees: int = 20,
        why: str = "",
        **options: Any,
    ) -> None:
        self.columns, self.labels, self.splits = columns, labels, splits
        self.blocks: list[Block] = splits.blocks(len(labels))
        self.budget = budget or Budget()
        self.trees = min(TREES, n_trees)
        self.options = options
        # Reads columns and labels in another process; without it they are sent.
        self.rows_again: Callable[[], tuple[Any, Any]] | None = None
        self.at = 0  # the block in hand
        self.parts: list[tuple[Forest, list[Any], list[Any]]] | None = (
            None  # to keep, for calibration
        )
        regression = options.get("criterion") == "mse"
        self.found = Estimate(splits.kind, regression, len(self.blocks), why=why)
        classes = None if regression else sorted(set(labels))
        self.found.pooled = Evaluation(classes)

    def __iter__(self) -> Iterator[Any]:
        began = time.monotonic()
        if self.budget.seconds is None and jobs() > 1:
            steps = self._run_elsewhere()
        else:
            steps = self._run()
        for step in steps:
            self.found.seconds = time.monotonic() - began
            yield step
        self.found.seconds = time.monotonic() - began

    def _run(self) -> Iterator[Any]:
        """Score one block after the other."""
        for self.at, block in enumerate(self.blocks):
            limit = self._share(self.at)
            if limit is None:
                return
            training = self._training(block, limit)
            if training is not None:
                for _ in training:
                    yield training
                forest = training.forest()
                for _ in self._count(block, forest, self._answers(block, forest)):
                    yield training

    def _share(self, at: int) -> Budget | None:
        """The budget of a block; None if that is nothing.

        Insertions are shared up front, so that it does not matter where a block is scored.
        """
        insertions, seconds = self.budget.insertions, self.budget.seconds
        if insertions is not None:
            insertions //= len(self.blocks)
        if seconds is not None:
            seconds = PREDICTING * (seconds - self.budget.tick()) / (len(self.blocks) - at)
        if (insertions is not None and insertions < 1) or (seconds is not None and seconds < 0.001):
            return None
        return Budget(insertions, seconds, self.budget.bytes)

    def _training(self, block: Block, limit: Budget) -> Any:
        """A training on all rows beside a block; None if there are none."""
        rest = self.splits.training_rows(len(self.labels), block)
        if not rest:
            return None
        return engines.train_steps(
            [sampling.take(column, rest) for column in self.columns],
            sampling.take(self.labels, rest),
            by_column=True,
            n_trees=self.trees,
            budget=limit,
            **self.options,
        )

    def _answers(self, block: Block, forest: Forest) -> Iterator[tuple[list[Any], Any]]:
        """What a forest says to the rows of a block, some of them at a time."""
        rows = self._rows(block)
        for at in range(0, len(rows), PREDICTED):
            if self.budget.seconds is not None and self.budget.tick() > self.budget.seconds:
                break
            yield answered(forest, rows[at : at + PREDICTED])

    def _rows(self, block: Block) -> list[Any]:
        columns = [sampling.take(column, block.rows) for column in self.columns]
        return list(zip(*columns, strict=True))

    def _count(self, block: Block, forest: Forest, answers: Iterable[Any]) -> Iterator[None]:
        """Count what a forest says to the rows of a block that it has not seen."""
        self.found.insertions += forest.spent.insertions
        self.found.trees = min(self.found.trees or len(forest), len(forest))
        one = Evaluation(forest.classes)
        right = sampling.take(self.labels, block.rows)
        for some, shares in answers:
            truths = right[one.rows : one.rows + len(some)]
            one.add(truths, some, shares)
            self._pool(forest, truths, some, shares)
            yield
        if one.rows:
            rest = self.splits.training_rows(len(self.labels), block)
            truths = sampling.take(self.labels, rest)
            guess = metrics.mean(truths) if self.found.regression else commonest(truths)
            naive = one.score_of([guess] * one.rows)
            self.found.blocks.append(BlockScore(block.name, one.rows, one.score, naive))
        if self.parts is not None:
            self.parts.append((forest, self._rows(block)[: one.rows], list(right[: one.rows])))

    # ---- Blocks that are scored elsewhere

    def _run_elsewhere(self) -> Iterator[Any]:
        """Have the blocks scored by joblib's chosen backend; they are counted in order."""
        shares = [self._share(k) for k in range(len(self.blocks))]
        limits = [None if given is None else given.insertions for given in shares]
        asked = [k for k, given in enumerate(shares) if given is not None]
        rows = self.rows_again or (self.columns, self.labels)
        common = rows, self.splits, self.trees, self.budget.bytes, self.options
        scored = each(_scored, common, [(self.blocks[k], limits[k]) for k in asked])
        for self.at, found in zip(asked, scored, strict=True):
            if found is not None:
                forest, answers = found
                for _ in self._count(self.blocks[self.at], forest, answers):
                    yield SimpleNamespace(grown=forest, budget=self.budget, planned=len(forest))

    def _pool(self, forest: Forest, truths: Any, answers: Any, shares: Any) -> None:
        """Count answers among those of all blocks, whose forests may know fewer classes."""
        pooled = self.found.pooled
        if shares is not None and forest.classes != pooled.labels:
            places = [pooled.labels.index(label) for label in forest.classes or ()]
            wide = []
            for parts in shares:
                row = [0.0] * len(pooled.labels)
                for k, part in zip(places, parts, strict=True):
                    row[k] = part
                wide.append(row)
            shares = wide
        pooled.add(truths, answers, shares)


def _scored(common: Any, block: Block, insertions: int | None) -> tuple[Forest, list[Any]] | None:
    """A forest that was trained without a block, and what it says to its rows."""
    rows, splits, n_trees, room, options = common
    columns, labels = rows() if callable(rows) else rows
    work = Estimating(columns, labels, splits, n_trees=n_trees, **options)
    training = work._training(block, Budget(insertions, None, room))
    if training is None:
        return None
    for _ in training:
        pass
    forest = training.forest()
    return forest, list(work._answers(block, forest))


def estimate(
    X: Sequence[Sequence[Any]],
    y: Sequence[Any],
    *,
    times: Any = None,
    groups: Any = None,
    holdout: str = "auto",
    budget: int | Budget | None = None,
    seed: int = 0,
    **options: Any,
) -> Estimate:
    """How good a forest trained on these rows will be on others: see `edgeforest.splits`.

    Rows are in time order, or `times` has the time of each. Whole days are left out in turn, or
    stretches; with `groups`, whole groups; rows at random only if neither fits, or with
    `holdout="random"`. All other options are those of `train`. Inside of `joblib.parallel_config`,
    its backend scores several blocks at once; the rows are sent to its processes.

    >>> rows = [[i % 24] for i in range(24 * 20)]
    >>> days = [f"2024-05-{1 + i // 24:02}" for i in range(24 * 20)]
    >>> found = estimate(rows, [row[0] > 8 for row in rows], times=days, n_trees=3)
    >>> found.kind, found.worst.name, found.worst.score
    ('blocks of days', '2024-05-01 to 2024-05-02', 1.0)
    """
    columns: Any = X if options.pop("by_column", False) else list(zip(*X, strict=True))
    classes = None if options.get("criterion") == "mse" else y
    splitter, why = choose(len(y), times, groups, classes, seed, holdout)
    if not isinstance(budget, Budget):
        budget = Budget(budget)
    work = Estimating(columns, y, splitter, budget=budget.copy(), why=why, seed=seed, **options)
    for _ in work:
        pass
    return work.found
