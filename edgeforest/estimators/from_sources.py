"""Fit an estimator from a source, whose rows are read when a tree asks for them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from edgeforest.budget import Budget, Rng
from edgeforest.engines import sampling
import edgeforest.estimators.parameters as parameters
from edgeforest.estimators.fitting import interrupted
from edgeforest.host.progress import Watch
from edgeforest.sources import open_source
from edgeforest.sources.schema import look
from edgeforest.sources.checkpoints import Begun, begun
from edgeforest.sources.pools import STREAMS
from edgeforest.sources.training import Streaming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgeforest.forest import Forest
    from edgeforest.estimators.parameters import Parameters


class FromSource(NamedTuple):
    """What a fit from a source has found."""

    forest: Forest
    seed: int
    names: list[str]


def fit_source(
    estimator: Parameters,
    source: Any,
    target: str,
    drop: Sequence[str],
    checkpoint: str | None,
    resume: bool,
) -> FromSource:
    """Train by the parameters of an estimator on the rows of a source."""
    if estimator.oob_score or estimator.tol is not None or estimator.warm_start:
        raise ValueError("oob_score, tol and warm_start need all rows in memory: use fit")
    budget = estimator.budget if isinstance(estimator.budget, Budget) else Budget(estimator.budget)
    budget = budget.copy()  # its clock begins here
    given = open_source(source)
    before = begun(given, checkpoint) if resume and checkpoint is not None else Begun(given)
    if before.note:
        warnings.warn(before.note, stacklevel=3)
    seed = parameters.seed_of(estimator.random_state)
    schema = look(
        before.source,
        target,
        Rng(seed, STREAMS),
        categorical=estimator.categorical_features or (),
        drop=drop,
        task="regression" if estimator.regression else "classification",
    )
    options = parameters.training_options(estimator, len(before.source), len(schema.names))
    if not estimator.regression:
        options["class_weight"] = parameters.class_weight_of(estimator)
    training = Streaming(
        before.source,
        target,
        schema=schema,
        n_trees=estimator.n_estimators,
        budget=sampling.rest_of(budget),
        seed=seed,
        engine=estimator.engine,
        n_jobs=parameters.jobs_of(estimator.n_jobs),
        kind=estimator.kind,
        checkpoint=checkpoint,
        resume=before.forest is not None if checkpoint is not None else resume,
        **options,
    )
    stopped = _grow(estimator, training)
    if before.later and not stopped:  # what was begun is complete; now train on all rows
        return fit_source(estimator, given, target, drop, checkpoint, resume=True)
    return FromSource(training.forest(), seed, schema.names)


def _grow(estimator: Parameters, training: Streaming) -> bool:
    """Run the training; whether the callback or Ctrl-C has stopped it."""
    watch = Watch(training, estimator.verbose, estimator.callback)
    try:
        for _ in training:
            if watch.step():
                return True
    except KeyboardInterrupt:
        if not len(training.grown):
            raise
        warnings.warn(interrupted(len(training.grown), training.planned), stacklevel=4)
        return True
    finally:
        watch.close()
    return False
