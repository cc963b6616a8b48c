"""Fit an estimator: read the rows, grow the trees, stop early, add trees to those there are."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from edgeforest import engines
from edgeforest.core_pure import sizes
from edgeforest.budget import Budget
from edgeforest.engines import sampling
import edgeforest.estimators.parameters as parameters
from edgeforest.estimators.out_of_bag import Drawn, EarlyStopping
from edgeforest.host.fitted import check_features
from edgeforest.forests import oob
from edgeforest.forests.merging import merge
from edgeforest.host import arrays
from edgeforest.host.columns import collected
from edgeforest.host.frames import is_frame, labels
from edgeforest.host.progress import Watch
from edgeforest.undoing import cut_back

if TYPE_CHECKING:
    from edgeforest.forest import Forest, Spent
    from edgeforest.estimators.parameters import Parameters
    from edgeforest.host.values import Array


class Before(NamedTuple):
    """What a warm start adds trees to."""

    forest: Forest
    seed: int
    drawn: Drawn


class Prepared(NamedTuple):
    """A training with the rows, target and classes that it was made from."""

    training: Any
    rows: arrays.Rows
    target: Array  # values, or numbers of classes
    classes: Array | None


class Result(NamedTuple):
    """What a fit has found."""

    forest: Forest
    seed: int
    drawn: Drawn
    rows: arrays.Rows
    target: Array
    classes: Array | None


def fit(
    estimator: Parameters, X: Any, y: Any, sample_weight: Any, before: Before | None
) -> Result | None:
    """Train by the parameters of an estimator; None if a warm start has no tree to add."""
    X = collected(X) if is_frame(X) else X
    y = labels(y) if hasattr(type(y), "to_pylist") else y  # Arrow's
    limited = isinstance(estimator.budget, Budget) and estimator.budget.seconds is not None
    reading = _Reading(estimator, (X, y, sample_weight), before)
    prepared = reading.prepared_in_time() if limited else reading.prepared()
    if prepared is None:
        return None
    training, rows, target, classes = prepared
    given = sampling.rows_in(X) if limited else rows.n
    draws = oob.Draws(training, oob.fingerprint(rows.values, target), given)
    if (estimator.oob_score or estimator.tol is not None) and not draws.leaves_out():
        name = "oob_score" if estimator.oob_score else "tol"
        raise ValueError(
            f"{name} needs rows that trees leave out: set bootstrap=True, or max_samples below 1.0"
        )
    forest = _grow(estimator, prepared, draws)
    drawn = Drawn((draws, training.first + i) for i in range(len(forest)))
    if classes is not None:
        forest.classes = classes.tolist()
    forest.prepare()
    if before is not None:
        forest = merge([before.forest, forest])
        drawn = before.drawn + drawn
    return Result(forest, reading.seed, drawn, rows, target, classes)


class _Reading:
    """Reads the rows and makes a training of them."""

    def __init__(
        self, estimator: Parameters, given: tuple[Any, Any, Any], before: Before | None
    ) -> None:
        self.estimator = estimator
        self.given = given  # X, y, sample_weight
        self.before = before
        self.seed = parameters.seed_of(estimator.random_state) if before is None else before.seed

    def prepared_in_time(self) -> Prepared | None:
        """`prepared`, with as many rows as the budget has seconds for."""
        given = self.given
        n = sampling.rows_in(given[0])
        lengths = [sampling.rows_in(v) for v in given if hasattr(v, "__len__")]
        if n == 0 or lengths != [n] * len(lengths) or hasattr(given[0], "nnz"):
            return self.prepared()  # whose error says what is wrong
        if self.before is not None and self.estimator.n_estimators == len(self.before.forest):
            return None

        def make(rows: Any, budget: Budget) -> Any:
            some = given
            if rows is not None:
                x, y, w = (sampling.take(v, rows) if hasattr(v, "__len__") else v for v in given)
                some = x, y, w
            return self._made(some, budget, sampled=rows is not None)

        budget = self._budget()
        assert isinstance(budget, Budget)
        return Prepared(*sampling.within(n, budget, self.seed, make))

    def prepared(self) -> Prepared | None:
        """A training with all rows; None if there is no tree to add."""
        return self._made(self.given)

    def _made(
        self, given: tuple[Any, Any, Any], budget: Budget | None = None, sampled: bool = False
    ) -> Prepared | None:
        estimator = self.estimator
        X, y, sample_weight = given
        rows = arrays.read(X, estimator.categorical_features)
        target, classes = arrays.read_target(y, rows.n, estimator.regression)
        weights = arrays.read_weights(sample_weight, rows.n)
        if self.before is not None:
            check_features(estimator, rows.names, rows.m)
        n_trees = self._trees_to_grow()
        if not n_trees:
            return None
        options = parameters.training_options(estimator, rows.n, rows.m)
        if classes is not None:
            options["class_weight"] = parameters.coded_class_weight(estimator, classes, sampled)
        training = engines.read(
            rows.values,
            target,
            engine=estimator.engine,
            n_jobs=parameters.jobs_of(estimator.n_jobs),
            kind=estimator.kind,
            seed=self.seed,
            first=0 if self.before is None else self.before.drawn.next_number(self._grown()),
            n_trees=n_trees,
            budget=self._budget() if budget is None else sampling.rest_of(budget),
            sample_weight=weights,
            **options,
            **rows.options(),
        )
        return Prepared(training, rows, target, classes)

    def _grown(self) -> int:
        """How many trees there are already."""
        return 0 if self.before is None else len(self.before.forest)

    def _trees_to_grow(self) -> int:
        wanted, grown = parameters.n_trees_of(self.estimator), self._grown()
        if wanted < grown:
            raise ValueError(
                f"n_estimators={wanted} must be at least {grown}, the number of trees so far, when "
                "warm_start=True"
            )
        return wanted - grown

    def _budget(self) -> int | Budget | None:
        """The budget; for trees that are added, what the others have left of it."""
        given = self.estimator.budget
        return given if self.before is None else _unspent(given, self.before.forest.spent)


def _unspent(budget: int | Budget | None, spent: Spent) -> Budget:
    """What is left of a budget, which is a maximum for all trees together."""
    budget = budget if isinstance(budget, Budget) else Budget(budget)
    rest: list[Any] = []
    for most, used, least in (
        (budget.insertions, spent.insertions, 1),
        (budget.seconds, spent.seconds, 0.001),
    ):
        if most is not None and most - used < least:
            raise ValueError(f"budget is spent ({used} of {most}); raise it to add trees")
        rest.append(None if most is None else most - used)
    return Budget(rest[0], rest[1], budget.bytes)


def _grow(estimator: Parameters, prepared: Prepared, draws: oob.Draws) -> Forest:
    """Run the training until it ends, or Ctrl-C, the callback or the score stops it."""
    training, rows, target, _ = prepared
    stopping = None
    if estimator.tol is not None:
        patience = estimator.n_iter_no_change
        stopping = EarlyStopping(estimator.tol, patience, training, rows, target, draws)
    watch = Watch(training, estimator.verbose, estimator.callback)
    grown = training.grown
    done = 0, 0, 0  # trees, nodes and votes of the trees that are complete
    try:
        for _ in training:
            if len(grown.roots) > done[0]:
                done = sizes(grown)
                if stopping is not None and stopping.has_seen_enough():
                    break
            if watch.step(None if stopping is None else stopping.score):
                break
    except KeyboardInterrupt:
        if not done[0]:
            raise
        training.trees.free()  # it is not complete, and half of it may have been added
        cut_back(grown, done)
        warnings.warn(interrupted(done[0], training.planned), stacklevel=4)
    finally:
        watch.close()
    forest: Forest = training.forest()
    return forest


def interrupted(trees: int, planned: int) -> str:
    """The warning about a training that Ctrl-C has ended."""
    return f"training was interrupted: {trees} of {planned} trees are kept"
