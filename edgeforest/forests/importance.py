"""Which features a forest needs: importance by permutation out of bag, and how stable it is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from edgeforest.forests import oob, walking
from edgeforest.forests.merging import keep
from edgeforest.host import arrays
from edgeforest.host.cluster import each
from edgeforest.host.fitted import check_features, check_fitted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgeforest.forest import Forest
    from edgeforest.host.arrays import Rows
    from edgeforest.host.values import Array


class Drawn(Protocol):
    """Which rows each tree of an estimator drew."""

    def left_out(self, rows: Rows, target: Array) -> list[NDArray[np.bool_]] | None:
        """For each tree, which of these rows it did not draw; None if no tree drew from them."""


class FittedForest(Protocol):
    """An estimator, as far as `permutation_importance` needs it."""

    categorical_features: Any
    classes_: Any  # of a classifier

    @property
    def forest_(self) -> Forest: ...
    @property
    def draws_(self) -> Drawn: ...
    @property
    def regression(self) -> bool: ...


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
    estimator: FittedForest,
    X: Any,
    y: Any,
    *,
    n_repeats: int = 5,
    max_rows: int | None = None,
    random_state: int = 0,
) -> Importances:
    """How much the out-of-bag score falls when the values of a feature are shuffled.

    Give the X and y that the estimator was trained on: a row counts only the trees that did not
    draw it, so no rows have to be held out. The score is accuracy, or R squared. `max_rows` limits
    the work to a random sample of the rows. Inside of `joblib.parallel_config`, its backend does
    several features at once; the rows are sent to its processes.

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
        raise ValueError("X and y must be the rows and labels that the estimator was trained on")
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
    work = _Permuting(forest, X, target, outside, bag.totals, bag.trees, n_repeats)
    rng = np.random.default_rng(random_state)
    found = np.zeros((rows.m, n_repeats))
    askers = _askers(forest)  # a feature that no tree asks for stays at 0
    calls = _calls(askers, X, rng, n_repeats)
    before = bag.score(forest)
    for f, after in zip(askers, each(_Permuting.scores, work, calls), strict=True):
        found[f] = before - after
    return Importances(found.mean(axis=1), found.std(axis=1), found)


def _calls(
    askers: dict[int, list[int]], X: Array, rng: np.random.Generator, n_repeats: int
) -> Iterator[tuple[int, list[int], Any]]:
    """A feature, the trees that ask about it, and the state of the random numbers, for each."""
    for f, trees in askers.items():
        yield f, trees, rng.bit_generator.state
        for _ in range(n_repeats):  # whoever shuffles the feature does so in a copy of the stream
            rng.permutation(X[:, f])


class _Permuting(NamedTuple):
    """What shuffling any feature needs."""

    forest: Forest
    X: Any
    target: Any
    outside: list[NDArray[np.bool_]]
    totals: Any  # the votes of all trees, out of bag ...
    trees: Any  # ... and how many trees voted
    n_repeats: int

    def scores(self, f: int, trees: list[int], state: Any) -> NDArray[np.float64]:
        """The scores with the values of a feature shuffled, one for each repetition."""
        forest, target = self.forest, self.target
        rng = np.random.default_rng()
        rng.bit_generator.state = state
        part, left_out = keep(forest, trees), [self.outside[t] for t in trees]
        X = self.X
        usual = oob.OutOfBag(X, target, forest.n_votes)
        usual.add(part, left_out)
        column = X[:, f].copy()
        found = np.zeros(self.n_repeats)
        for r in range(self.n_repeats):
            X[:, f] = rng.permutation(column)
            changed = oob.OutOfBag(X, target, forest.n_votes)
            changed.add(part, left_out)
            changed.totals += self.totals - usual.totals
            changed.trees = self.trees
            found[r] = changed.score(forest)
        X[:, f] = column
        return found


def _askers(forest: Forest) -> dict[int, list[int]]:
    """The trees that ask about each feature, for the features that some tree asks about."""
    askers: dict[int, list[int]] = {}
    nodes = walking.arrays(forest)
    for tree, (start, end) in enumerate(walking.stretches(forest)):
        asked = nodes.feature[start:end][~nodes.is_leaf[start:end]]
        for f in np.unique(asked).tolist():
            askers.setdefault(f, []).append(tree)
    return dict(sorted(askers.items()))


def stability(importances: Any, k: int | None = None) -> float:
    """How much forests agree on which features matter (Nogueira, Sechidis and Brown, 2018).

    `importances` has a row for each forest: its importances, of which the `k` largest above zero
    count as selected; or without `k`, whether it selected each feature (0 or 1). The result is 1
    for full agreement, and about 0 for forests that select features at random.

    >>> stability([[0.5, 0.3, 0.2, 0.0], [0.4, 0.5, 0.0, 0.1]], k=2)
    1.0
    >>> round(stability([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0]]), 3)
    0.333
    """
    given = np.asarray(importances, np.float64)
    if given.ndim != 2 or len(given) < 2:
        raise ValueError(
            "importances must have a row for each of two forests or more, got an array of shape "
            f"{given.shape}"
        )
    if np.isnan(given).any():
        raise ValueError("importances must be numbers, got NaN")
    count, d = given.shape
    if k is None:
        if not np.isin(given, (0, 1)).all():
            raise ValueError("importances must be 0 or 1 without k: whether a feature was selected")
        selected = given
    else:
        if isinstance(k, bool) or not 1 <= k <= d:
            raise ValueError(f"k must be from 1 to {d}, the number of features; got {k!r}")
        top = np.argsort(-given, axis=1, kind="stable")[:, :k]  # the first ones of equals
        selected = np.zeros_like(given)
        np.put_along_axis(selected, top, 1.0, axis=1)
        selected[given <= 0] = 0  # a feature that was not used is never selected
    often = selected.mean(axis=0)
    share = float(often.mean())
    if share in (0.0, 1.0):
        raise ValueError("importances select all features or none, so there is nothing to agree on")
    varies = count / (count - 1) * float((often * (1 - often)).mean())
    agreed: float = 1.0 - varies / (share * (1 - share))
    return agreed
