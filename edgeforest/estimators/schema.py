"""Read new X for an estimator, if it has the features that the estimator was fitted with."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from edgeforest.host import arrays
from edgeforest.host.fitted import check_features, check_fitted

if TYPE_CHECKING:
    from edgeforest.estimators.parameters import Parameters
    from edgeforest.host.values import Array


def read_like_fit(estimator: Parameters, X: Any) -> arrays.Rows:
    """Read X for a fitted estimator: with its features, and its categories."""
    categorical = [f for f, kinds in enumerate(estimator.forest_.categories) if kinds is not None]
    return arrays.read(X, categorical, partial(check_features, estimator))


def encoded(estimator: Parameters, X: Any) -> Array:
    """The numbers that the trees of an estimator compare."""
    check_fitted(estimator)
    return read_like_fit(estimator, X).encoded(estimator.forest_)
