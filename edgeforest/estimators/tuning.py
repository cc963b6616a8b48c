"""Better parameters for an estimator, chosen by the out-of-bag rows of small forests.

>>> from edgeforest import RandomForestClassifier, tune
>>> X = [[i % 10, i * 7 % 11] for i in range(400)]
>>> y = [(i % 10 > 4) ^ (i % 5 == 0) for i in range(400)]
>>> found = tune(RandomForestClassifier(random_state=0), X, y, budget=400_000)
>>> found.insertions <= 400_000, len(found.trials)
(True, 10)
>>> forest = found.model.fit(X, y)
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from edgeforest.budget import Budget, between
from edgeforest.estimators.parameters import seed_of
from edgeforest.host.cluster import each

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgeforest.estimators.base import BaseForest

# One parameter after the other, each with the values that are tried beside the one it has.
STEPS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("min_samples_leaf", (2, 5, 10, 20)),
    ("max_features", (0.33, 0.67, 1.0)),
    ("max_depth", (8, 16)),
)


@dataclass(frozen=True)
class Trial:
    """A small forest with these parameters, beside those that the estimator had."""

    parameters: dict[str, Any]
    score: float  # out of bag: accuracy, or R squared
    insertions: int


@dataclass(frozen=True)
class Tuning:
    """What `tune` found: `model` has the better parameters, and is still to be fitted.

    >>> from edgeforest import RandomForestClassifier
    >>> X, y = [[i % 9] for i in range(90)], [i % 9 > 4 for i in range(90)]
    >>> tune(RandomForestClassifier(5, random_state=0), X, y).trials[0].parameters
    {}
    """

    model: BaseForest
    parameters: dict[str, Any]  # those that changed
    trials: list[Trial]

    @property
    def insertions(self) -> int:
        """What all trials took together."""
        return sum(trial.insertions for trial in self.trials)


def tune(
    model: BaseForest,
    X: Any,
    y: Any,
    *,
    n_trees: int = 50,
    budget: int | Budget | None = None,
    sample_weight: Any = None,
) -> Tuning:
    """Choose leaf size, features and depth by the out-of-bag error of small forests.

    One parameter after the other is tried with a few values, in forests of `n_trees` trees that draw
    the same rows. The best value is taken if it is better than the one that the estimator has by
    more than two standard errors of the difference; so what makes no difference stays as it is.
    `budget` is a hard limit for all trials together, each of which gets an equal share. Inside of
    `joblib.parallel_config`, its backend makes several trials at once; the rows are sent to its
    processes.

    >>> import random
    >>> from edgeforest import RandomForestRegressor
    >>> noise = random.Random(0)
    >>> X = [[i % 50, i * 7 % 31] for i in range(300)]
    >>> y = [x + noise.gauss(0, 20) for x, _ in X]
    >>> found = tune(RandomForestRegressor(random_state=0), X, y, n_trees=10)
    >>> found.model.min_samples_leaf > 1, found.trials[0].score < max(t.score for t in found.trials)
    (True, True)
    """
    n_trees = min(int(between("n_trees", n_trees, 2, 4096)), model.n_estimators)
    values = [[v for v in some if v != getattr(model, name)] for name, some in STEPS]
    share = _share(model, budget, n_trees, 1 + sum(map(len, values)))
    seed = seed_of(model.random_state)
    fixed = _with(model, n_estimators=n_trees, budget=share, bootstrap=True, oob_score=True,
                  warm_start=False, tol=None, verbose=0, callback=None,
                  random_state=seed)  # fmt: skip
    work = _Trying(fixed, X, y, sample_weight)
    trials: list[Trial] = []
    best: dict[str, Any] = {}
    lowest: Any = None
    for (name, _), some in zip(STEPS, values, strict=True):
        asked: list[dict[str, Any]] = [{**best, name: value} for value in some]
        if lowest is None:
            asked.insert(0, best)  # what it has
        with warnings.catch_warnings():  # those of threads, too
            warnings.simplefilter("ignore")
            found = list(each(_Trying.errors, work, [(parameters,) for parameters in asked]))
        trials += [trial for trial, _ in found]
        if lowest is None:
            lowest = found.pop(0)[1]
        trial, better = min(found, key=lambda one: float(np.nanmean(one[1])))
        if _clearly_less(better, lowest):
            lowest, best = better, trial.parameters
    return Tuning(_with(model, **best), best, trials)


class _Trying(NamedTuple):
    """What all trials share."""

    model: BaseForest
    X: Any
    y: Any
    sample_weight: Any

    def errors(self, parameters: dict[str, Any]) -> tuple[Trial, NDArray[np.float64]]:
        """A trial with these parameters, and the out-of-bag error of each row."""
        budget = self.model.budget.copy()  # type: ignore[union-attr]  # its clock begins here
        fitted = _with(self.model, **{**parameters, "budget": budget})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a row that every tree drew has no answer
            fitted.fit(self.X, self.y, self.sample_weight)
        trial = Trial(parameters, fitted.oob_score_, fitted.spent_.insertions)
        return trial, _errors(fitted, self.y)


def _with(model: BaseForest, **parameters: Any) -> BaseForest:
    """A new estimator with other parameters, not fitted."""
    return type(model)(**{**model.get_params(deep=False), **parameters})


def _share(model: BaseForest, budget: int | Budget | None, n_trees: int, parts: int) -> Budget:
    """The budget of one trial: an equal part of the whole, or what its trees have in `fit`."""
    part, whole = 1, parts
    if budget is None:
        budget, part, whole = model.budget, n_trees, model.n_estimators
    if not isinstance(budget, Budget):
        budget = Budget(budget)
    insertions, seconds = budget.insertions, budget.seconds
    if part == 1 and insertions is not None and insertions < whole:
        raise ValueError(
            f"budget must be at least one insertion for each of {whole} trials, got {insertions}"
        )
    return Budget(
        None if insertions is None else max(1, insertions * part // whole),
        None if seconds is None else seconds * part / whole,
        budget.bytes,
    )


def _errors(fitted: BaseForest, y: Any) -> NDArray[np.float64]:
    """The error of each row out of bag; NaN for a row that every tree drew."""
    if fitted.regression:
        errors: NDArray[np.float64] = (fitted.oob_prediction_ - np.asarray(y, np.float64)) ** 2
        return errors
    shares = fitted.oob_decision_function_
    wrong = fitted.classes_[np.nan_to_num(shares).argmax(axis=1)] != np.asarray(y)
    return np.where(np.isnan(shares[:, 0]), np.nan, wrong)


def _clearly_less(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether the mean of one is lower by more than two standard errors of the difference."""
    gaps = other - one
    gaps = gaps[~np.isnan(gaps)]
    if len(gaps) < 2:
        return False
    return bool(gaps.mean() > 2 * gaps.std() / np.sqrt(len(gaps)))
