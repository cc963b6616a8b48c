"""Is an estimator fitted, and does new X have the features that it was fitted with?"""

from __future__ import annotations

import warnings
from typing import Any

from edgeforest.host import arrays
from edgeforest.host.names import short


class NotFittedError(ValueError, AttributeError):
    """`fit` was not called yet. If scikit-learn is loaded, its error of that name is used."""


def check_fitted(estimator: Any) -> None:
    """Raise an error if the estimator has no forest yet."""
    if not hasattr(estimator, "forest_"):
        kind = arrays.scikit_learn("exceptions", "NotFittedError", NotFittedError)
        raise kind(f"This {type(estimator).__name__} instance is not fitted yet; call fit first")


def check_features(estimator: Any, given: list[str] | None, m: int) -> None:
    """Raise a ValueError if these names, or this number, are not the features of `fit`."""
    names = getattr(estimator, "feature_names_in_", None)
    me = type(estimator).__name__
    if given is not None and names is None:
        warnings.warn(
            f"X has feature names, but {me} was fitted without feature names", stacklevel=6
        )
    elif given is None and names is not None:
        warnings.warn(
            f"X does not have valid feature names, but {me} was fitted with feature names",
            stacklevel=6,
        )
    elif given is not None and names is not None and given != list(names):
        raise ValueError(_mismatch(list(names), given))
    if m != estimator.n_features_in_:
        raise ValueError(
            f"X has {m} features, but {me} is expecting {estimator.n_features_in_} features as "
            "input"
        )


def _mismatch(expected: list[str], got: list[str]) -> str:
    """The error about feature names that do not match, in scikit-learn's words."""
    said = "The feature names should match those that were passed during fit.\n"
    for what, names in (
        ("Feature names unseen at fit time", sorted(set(got) - set(expected))),
        ("Feature names seen at fit time, yet now missing", sorted(set(expected) - set(got))),
    ):
        if names:
            said += f"{what}:\n" + "".join(f"- {short(name, 200)}\n" for name in names[:5])
            said += "- ...\n" if len(names) > 5 else ""
    if set(got) == set(expected):
        said += "Feature names must be in the same order as they were in fit.\n"
    return said
