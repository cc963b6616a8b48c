"""Partial dependence: the mean answer of a forest as one feature changes and all others stay.

>>> from edgeforest import train
>>> rows = [[i % 10, i % 3] for i in range(300)]
>>> forest = train(rows, [a + 10 * b for a, b in rows], criterion="mse", n_trees=5, max_features=2)
>>> found = partial_dependence(forest, rows, "x1")
>>> found.values, found.mean.round(1).tolist()
([0.0, 1.0, 2.0], [4.5, 14.5, 24.5])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from edgeforest.budget import between
from edgeforest.forests import oob
from edgeforest.forests.walking import Model, forest_of
from edgeforest.host.arrays import encoded_as
from edgeforest.host.names import listed, quoted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgeforest.forest import Forest
    from edgeforest.host.values import Array

MOST_CATEGORIES = 30  # that are asked about, the most frequent ones


class Dependence(NamedTuple):
    """The answers of a forest as one feature changes, over some rows.

    `mean`, `low` and `high` have an answer for each of `values`, (values,), of a classification one
    for each class too, (values, classes). A tenth of the rows is below `low`, a tenth above `high`.

    >>> from edgeforest import partial_dependence, train
    >>> rows = [[i % 4, i % 3] for i in range(120)]
    >>> found = partial_dependence(train(rows, [a > 1 for a, b in rows]), rows, feature=0)
    >>> found.name, found.mean.shape
    ('x0', (4, 2))
    """

    name: str  # of the feature
    feature: int  # its place in a row
    values: list[Any]  # numbers in ascending order, or categories
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def partial_dependence(
    model: Model,
    X: Any,
    feature: int | str,
    *,
    n_points: int = 40,
    max_rows: int = 1000,
    random_state: int = 0,
) -> Dependence:
    """How the answer depends on one feature, by its place or name, over the rows of X.

    Each row is asked with each value in place of its own. The values are those of X if they are
    few, else `n_points` quantiles of them; of a categorical feature, its categories. `max_rows`
    limits the work to a random sample. The answer is the value of a regression, or the class shares.

    >>> from edgeforest import train
    >>> rows = [[i % 4, "ab"[i % 2]] for i in range(120)]
    >>> forest = train(rows, [b == "a" for a, b in rows], categorical=[1], max_features=2)
    >>> found = partial_dependence(forest, rows, feature=1)
    >>> found.values, found.mean[:, 1].tolist()        # the share of True
    (['a', 'b'], [1.0, 0.0])
    """
    forest = forest_of(model)
    f = place_of(forest, feature)
    n_points = int(between("n_points", n_points, 2, 10_000))
    rows = encoded_as(forest, X)
    some = rows[oob.some(len(rows), int(between("max_rows", max_rows, 1, 1 << 30)), random_state)]
    codes, values = _grid(forest, rows[:, f], f, n_points)
    many = np.tile(some, (len(codes), 1))
    many[:, f] = np.repeat(codes, len(some))
    found = answers(forest, many).reshape(len(codes), len(some), -1)
    mean = found.mean(axis=1)
    low, high = np.quantile(found, (0.1, 0.9), axis=1)
    if forest.regression:
        mean, low, high = mean[:, 0], low[:, 0], high[:, 0]
    return Dependence(forest.names[f], f, values, mean, low, high)


def answers(forest: Forest, X: Array) -> NDArray[np.float64]:
    """Class shares (rows, classes) or values (rows, 1) of rows as `encoded_as` gives them."""
    found = oob.sums(forest, X)
    if forest.regression:
        return oob.values(forest, found, len(forest))
    whole = np.maximum(found.sum(axis=1, keepdims=True), 1)
    shares: NDArray[np.float64] = found / whole
    return shares


def place_of(forest: Forest, feature: int | str) -> int:
    """The place of a feature that is given by its place or its name."""
    if not isinstance(feature, str):
        return int(between("feature", feature, 0, forest.n_features - 1))
    if feature not in forest.names:
        has = listed(forest.names)
        raise ValueError(
            f"feature must be one of the forest's, got {quoted(feature)}; it has {has}"
        )
    return forest.names.index(feature)


def _grid(forest: Forest, column: Array, f: int, most: int) -> tuple[Array, list[Any]]:
    """The values to ask about, as the trees compare them, and as a user knows them."""
    known = column[~np.isnan(column)]
    kinds = forest.categories[f]
    if kinds is not None:
        times = np.bincount(known.astype(np.int64), minlength=len(kinds) + 1)[1:]
        often = np.sort(np.argsort(-times, kind="stable")[:MOST_CATEGORIES])
        return (often + 1).astype(np.float32), [kinds[c] for c in often]
    values = np.unique(known)
    if not len(values):
        raise ValueError(f"X has no value of {quoted(forest.names[f])}: all are missing")
    if len(values) > most:
        at = np.linspace(0.01, 0.99, most)
        values = np.unique(np.quantile(known, at, method="nearest"))
    return values, [float(v) for v in values]
