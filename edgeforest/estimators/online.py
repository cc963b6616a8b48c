"""Let an estimator learn rows in their order, as they come: `partial_fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from edgeforest.budget import Budget
from edgeforest.estimators.parameters import seed_of, training_options
from edgeforest.estimators.schema import read_like_fit
from edgeforest.host import arrays
from edgeforest.online import OnlineForest

if TYPE_CHECKING:
    from edgeforest.estimators.parameters import Parameters
    from edgeforest.host.values import Array


class Learned(NamedTuple):
    """A learner that has learned rows, and the names of its features."""

    learner: OnlineForest
    names: list[str] | None
    seed: int | None  # of a new learner


def partial_fit(
    estimator: Parameters, learner: OnlineForest | None, X: Any, y: Any, classes: Any
) -> Learned:
    """Learn rows with the learner of earlier calls; None makes one by the parameters."""
    if hasattr(estimator, "forest_"):
        rows = read_like_fit(estimator, X)
        given = getattr(estimator, "feature_names_in_", None)
        names = None if given is None else list(given)
    else:
        rows = arrays.read(X, estimator.categorical_features)
        names = rows.names
    target, labels = arrays.read_target(y, rows.n, estimator.regression)
    seed = None
    if learner is None:
        if not hasattr(estimator, "forest_"):
            seed = seed_of(estimator.random_state)
        learner = _learner(estimator, rows, labels if classes is None else np.unique(classes), seed)
    values = list(zip(*rows.values, strict=True)) if rows.categorical else rows.values
    learner.update_batch(values, target if labels is None else labels[target])
    return Learned(learner, names, seed)


def _learner(
    estimator: Parameters, rows: arrays.Rows, classes: Array | None, seed: int | None
) -> OnlineForest:
    """A learner by the parameters; without a seed it continues the estimator's forest."""
    _refuse_options(estimator)
    asked = training_options(estimator, rows.n, rows.m)
    options = {
        name: asked[name] for name in ("max_depth", "max_features", "min_samples_leaf", "n_bins")
    }
    if estimator.max_leaf_nodes is not None:
        options["max_leaf_nodes"] = estimator.max_leaf_nodes
    options["budget"] = _budget(estimator)
    if estimator.kind == "random-patches":
        options |= {"alpha_n": estimator.alpha_n, "alpha_f": estimator.alpha_f}
    options["engine"] = estimator.engine
    options["fade"] = 50  # it is asked about rows that come without a label
    options["linear"] = False  # an estimator predicts with its trees
    if seed is None:
        return OnlineForest.from_forest(estimator.forest_, **options)
    return OnlineForest(
        rows.names or rows.m,
        classes=None if classes is None else classes.tolist(),
        categorical=rows.categorical,
        kind=estimator.kind,
        criterion=asked["criterion"],
        n_trees=estimator.n_estimators,
        seed=seed,
        **options,
    )


def _refuse_options(estimator: Parameters) -> None:
    """Raise a ValueError about a parameter that needs all rows at once."""
    wrong = {
        "splitter": estimator.splitter != "mab",
        "oob_score": estimator.oob_score,
        "tol": estimator.tol is not None,
        "class_weight": estimator.class_weight is not None,
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise ValueError(
                f"{name}={getattr(estimator, name)!r} needs all rows at once: use fit, or leave it "
                "at its default for partial_fit"
            )


def _budget(estimator: Parameters) -> Budget:
    """The budget, which may have bytes only: insertions and seconds would run out."""
    budget = estimator.budget if isinstance(estimator.budget, Budget) else Budget(estimator.budget)
    if budget.insertions is not None or budget.seconds is not None:
        raise ValueError(
            "budget must have bytes only for partial_fit, which never ends, got "
            f"{estimator.budget!r}; give budget=Budget(bytes=...), or use fit"
        )
    return budget
