"""Which features a forest needs: importance by permutation out of bag, and how stable it is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from edgeforest.forest import FEATURE, LEAF
from edgeforest.estimators.schema import check_features, check_fitted
from edgeforest.forests import oob
from edgeforest.forests.merging import keep
from edgeforest.host import arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgeforest.forest import Forest
    from edgeforest.estimators.base import BaseForest


class Importances(NamedTuple):
    """Importance by feature: the mean over repetitions, its deviation, and each repetition.

    >>> from edgeforest import RandomForestRegressor, permutation_importance
    >>> X, y = [[i % 7, i % 5] for i in range(300)], [i % 7 for i in range(300)]
    >>> found = permutation_importance(RandomForestRegressor(5).fit(X, y), X, y, n_repeats=3)
    >>> found.importances_mean.shape, found.importances.shape
    ((2,), (2, 3))
    """

    importances_mean: NDArray[np.float64]
    importances_std: NDArray[np.float64]
    importances: NDArray[np.float64]  # (features, repetitions)


def permutation_importance(
    estimator: BaseForest,
    X: Any,
    y: Any,
    *,
    n_repeats: int = 5,
    max_rows: int | None = None,
    random_state: int = 0,
) -> Importances:
    """How much the out-of-bag score falls when a feature's values change places among the rows.

    X and y are those that the estimator was trained with: a row counts only the trees that did not
    draw it, so nothing is held out. The score is accuracy, or R squared. `max_rows` limits the
    work to a random sample of the rows.

    >>> from edgeforest import RandomForestClassifier, permutation_importance
    >>> X, y = [[i % 7, i % 5] for i in range(300)], [i % 7 > 3 for i in range(300)]
    >>> forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> found = permutation_importance(forest, X, y)
    >>> used, unused = found.importances_mean.tolist()
    >>> used > 0.3, abs(unused) < 0.05
    (True, True)
    """
    check_fitted(estimator)
    if isinstance(n_repeats, bool) or not n_repeats >= 1:
        raise ValueError(f"n_repeats must be at least 1, got {n_repeats!r}")
    rows = arrays.read(X, estimator.categorical_features, partial(check_features, estimator))
    target, labels = arrays.read_target(y, rows.n, estimator.regression)
    outside = estimator.draws_.left_out(rows, target)
    if outside is None:
        raise ValueError("give the rows and labels that the estimator was trained with")
    if not all(free.any() for free in outside):
        raise ValueError("every tree drew every row, so none is out of bag: set bootstrap=True")
    if labels is not None:
        target = np.searchsorted(estimator.classes_, labels)[target]
    forest = estimator.forest_
    some = oob.some(rows.n, rows.n if max_rows is None else max_rows, random_state)
    X = np.array(rows.encoded(forest)[some])
    target = target[some]
    outside = [free[some] for free in outside]
    bag = oob.OutOfBag(X, target, forest.n_votes)
    bag.add(forest, outside)
    before = bag.score(forest)
    rng = np.random.default_rng(random_state)
    found = np.zeros((rows.m, n_repeats))
    for f, trees in _askers(forest).items():  # a feature that no tree asks for stays at 0
        part, left_out = keep(forest, trees), [outside[t] for t in trees]
        usual = oob.OutOfBag(X, target, forest.n_votes)
        usual.add(part, left_out)
        column = X[:, f].copy()
        for r in range(n_repeats):
            X[:, f] = rng.permutation(column)
            changed = oob.OutOfBag(X, target, forest.n_votes)
            changed.add(part, left_out)
            changed.totals += bag.totals - usual.totals
            changed.trees = bag.trees
            found[f, r] = before - changed.score(forest)
        X[:, f] = column
    return Importances(found.mean(axis=1), found.std(axis=1), found)


def _askers(forest: Forest) -> dict[int, list[int]]:
    """Of each feature that is asked for, the trees that do."""
    askers: dict[int, list[int]] = {}
    ends = [*forest.roots[1:], len(forest.feature)]
    for tree, (start, end) in enumerate(zip(forest.roots, ends, strict=True)):
        for f in sorted({f & FEATURE for f in forest.feature[start:end] if f != LEAF}):
            askers.setdefault(f, []).append(tree)
    return dict(sorted(askers.items()))


def stability(importances: Any, k: int | None = None) -> float:
    """How much forests agree on which features matter (Nogueira, Sechidis and Brown, 2018).

    `importances` has a row for each forest: its importances, of which the `k` largest above zero
    count as selected; or without `k`, whether it selected each feature (0 or 1). One is full
    agreement, and zero what forests reach that select at random.

    >>> stability([[0.5, 0.3, 0.2, 0.0], [0.4, 0.5, 0.0, 0.1]], k=2)
    1.0
    >>> round(stability([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0]]), 3)
    0.333
    """
    given = np.asarray(importances, np.float64)
    if given.ndim != 2 or len(given) < 2:
        raise ValueError(
            f"stability takes two forests or more, a row each; got an array of shape {given.shape}"
        )
    if np.isnan(given).any():
        raise ValueError("importances must be numbers, got NaN")
    count, d = given.shape
    if k is None:
        if not np.isin(given, (0, 1)).all():
            raise ValueError("without k each item says whether a feature was selected: 0 or 1")
        selected = given
    else:
        if isinstance(k, bool) or not 1 <= k <= d:
            raise ValueError(f"k must be from 1 to {d}, the number of features; got {k!r}")
        top = np.argsort(-given, axis=1, kind="stable")[:, :k]  # of equals the first
        selected = np.zeros_like(given)
        np.put_along_axis(selected, top, 1.0, axis=1)
        selected[given <= 0] = 0  # features that were not used are not told apart by their place
    often = selected.mean(axis=0)
    share = float(often.mean())
    if share in (0.0, 1.0):
        raise ValueError("all features or none were selected: there is nothing to agree on")
    varies = count / (count - 1) * float((often * (1 - often)).mean())
    agreed: float = 1.0 - varies / (share * (1 - share))
    return agreed
