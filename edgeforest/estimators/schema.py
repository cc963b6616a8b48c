"""Read new X for an estimator, if it has the features that the estimator was fitted with."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeforest.host import arrays
from edgeforest.host.fitted import check_features, check_fitted

if TYPE_CHECKING:
    from edgeforest.estimators.parameters import Parameters
    from edgeforest.host.values import Array

FLOATS, WHOLE = "fd", "bBhHiIlLqQ"  # codes of types of NumPy
LARGE = 1e38  # squares that add up to less are those of numbers that float32 holds


def one_row(estimator: Parameters, X: Any) -> Array | None:
    """X itself if it is one row of plain numbers that needs no further look; else None.

    A device asks for one row at a time, and all that `encoded` checks takes longer than the trees.
    Whatever is unusual goes that way: other types, names, categories, missing and huge values.
    """
    known = estimator.__dict__
    forest = known.get("forest_")
    if forest is None or not forest.all_numbers or "feature_names_in_" in known:
        return None
    if type(X) is list and len(X) == 1 and type(X[0]) is list:
        try:
            X = np.array(X)
        except ValueError:  # not a table
            return None
    if type(X) is not np.ndarray or X.shape != (1, forest.n_features) or not X.dtype.isnative:
        return None
    code = X.dtype.char
    if code in FLOATS:
        if not np.vdot(X, X) < LARGE:  # nor is it if one is missing
            return None
    elif code not in WHOLE:
        return None
    found: Array = X
    return found


def read_like_fit(estimator: Parameters, X: Any) -> arrays.Rows:
    """Read X for a fitted estimator: with its features, and its categories."""
    categorical = [f for f, kinds in enumerate(estimator.forest_.categories) if kinds is not None]
    return arrays.read(X, categorical, partial(check_features, estimator))


def encoded(estimator: Parameters, X: Any) -> Array:
    """The numbers that the trees of an estimator compare."""
    check_fitted(estimator)
    return read_like_fit(estimator, X).encoded(estimator.forest_)
