"""The estimators that predict numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import edgeforest.estimators.prediction as prediction
from edgeforest.estimators.base import BaseForest
from edgeforest.estimators.schema import encoded, one_row
from edgeforest.forests import oob
from edgeforest.host import arrays

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from edgeforest.budget import Budget
    from edgeforest.engines import Name
    from edgeforest.estimators.parameters import Features, Score, Seed
    from edgeforest.host.progress import Progress

Self = TypeVar("Self", bound="ForestRegressor")


class ForestRegressor(BaseForest):
    """What the regressors share."""

    _estimator_type = "regressor"  # for scikit-learn before 1.6
    regression = True

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "squared_error",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        max_features: Features = 1.0,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool | None = None,
        oob_score: Score = False,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
        warm_start: bool = False,
        max_samples: int | float | None = None,
        budget: int | Budget | None = None,
        tol: float | None = None,
        n_iter_no_change: int = 20,
        splitter: str = "mab",
        n_bins: int | None = None,
        engine: Name | None = None,
        categorical_features: Any = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self._set(locals())

    def partial_fit(self: Self, X: Any, y: Any) -> Self:
        """Learn rows in their order, and go on later: see `OnlineForest`, which this uses.

        >>> from edgeforest import RandomForestRegressor
        >>> forest = RandomForestRegressor(5, random_state=0)
        >>> for day in range(7):
        ...     forest = forest.partial_fit([[i] for i in range(100)], [2.0 * i for i in range(100)])
        >>> round(forest.predict([[50]])[0] / 10)
        10
        """
        return self._partial_fit(X, y)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The value of each row.

        >>> from edgeforest import ExtraTreesRegressor
        >>> forest = ExtraTreesRegressor(3, random_state=0).fit([[0.0], [1.0]] * 9, [5.0, 7.0] * 9)
        >>> forest.predict([[1.0]]).tolist()
        [7.0]
        """
        row = one_row(self, X)
        if row is not None:
            return np.array(self.forest_.predict(row))
        table = encoded(self, X)
        return prediction.values(self.forest_, table)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> NDArray[np.float64]:
        """The lower and upper bound of each row, (rows, 2).

        The true value lies between them with this chance, from 0.5 to 0.99. `calibrate` comes
        first. An interval ends where the targets of the training did.

        >>> from edgeforest import RandomForestRegressor
        >>> X, y = [[i % 50] for i in range(600)], [2.0 * (i % 50) + i % 7 for i in range(600)]
        >>> forest = RandomForestRegressor(20, random_state=0).fit(X, y).calibrate(X, y)
        >>> ((lower, upper),) = forest.predict_interval([[25]], coverage=0.8).tolist()
        >>> 48 < lower < 52 < 54 < upper < 58
        True
        """
        table = encoded(self, X)
        return prediction.intervals(self.forest_, table, coverage)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R squared: the share of the targets' variance that the predictions explain.

        >>> from edgeforest import RandomForestRegressor
        >>> X, y = [[0.0], [1.0]] * 9, [5.0, 7.0] * 9
        >>> RandomForestRegressor(3, random_state=0).fit(X, y).score(X, y)
        1.0
        """
        answer = self.predict(X)
        y = arrays.read_values(y, len(answer))
        return oob.r_squared(y, answer, arrays.read_weights(sample_weight, len(answer)))


class RandomForestRegressor(ForestRegressor):
    """A random forest that predicts numbers, trained under a budget.

    Parameters are those of `RandomForestClassifier`, except those about classes.

    >>> from edgeforest import RandomForestRegressor
    >>> X, y = [[i % 7, i % 3] for i in range(90)], [10.0 * (i % 7) for i in range(90)]
    >>> forest = RandomForestRegressor(20, budget=20_000, random_state=0).fit(X, y)
    >>> round(forest.score(X, y), 2)
    1.0
    """


class ExtraTreesRegressor(ForestRegressor):
    """Extremely randomised trees that predict numbers: see `ExtraTreesClassifier`.

    >>> from edgeforest import ExtraTreesRegressor
    >>> X, y = [[i % 7, i % 3] for i in range(90)], [10.0 * (i % 7) for i in range(90)]
    >>> round(ExtraTreesRegressor(20, random_state=0).fit(X, y).score(X, y), 2)
    1.0
    """

    kind = "extra-trees"


class RandomPatchesRegressor(ForestRegressor):
    """Random patches that predict numbers: see `RandomPatchesClassifier`.

    >>> from edgeforest import RandomPatchesRegressor
    >>> X, y = [[i % 7, i % 7, i % 3] for i in range(90)], [10.0 * (i % 7) for i in range(90)]
    >>> forest = RandomPatchesRegressor(20, alpha_f=0.7, random_state=0).fit(X, y)
    >>> round(forest.score(X, y), 2)
    1.0
    """

    kind = "random-patches"

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "squared_error",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        max_features: Features = 1.0,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool | None = None,
        oob_score: Score = False,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
        warm_start: bool = False,
        max_samples: int | float | None = None,
        budget: int | Budget | None = None,
        tol: float | None = None,
        n_iter_no_change: int = 20,
        splitter: str = "mab",
        n_bins: int | None = None,
        engine: Name | None = None,
        categorical_features: Any = None,
        callback: Callable[[Progress], object] | None = None,
        alpha_n: float = 0.7,
        alpha_f: float = 0.85,
    ) -> None:
        self._set(locals())
