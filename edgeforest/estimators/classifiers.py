"""The estimators that predict classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import edgeforest.estimators.prediction as prediction
from edgeforest.estimators.base import BaseForest
from edgeforest.estimators.schema import encoded, one_row
from edgeforest.host import arrays

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from edgeforest.budget import Budget
    from edgeforest.engines import Name
    from edgeforest.estimators.parameters import ClassWeight, Features, Score, Seed
    from edgeforest.host.progress import Progress
    from edgeforest.host.values import Array

Self = TypeVar("Self", bound="ForestClassifier")


class ForestClassifier(BaseForest):
    """What the classifiers share."""

    _estimator_type = "classifier"  # for scikit-learn before 1.6

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "gini",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        max_features: Features = "sqrt",
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool | None = None,
        oob_score: Score = False,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
        warm_start: bool = False,
        class_weight: ClassWeight = None,
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

    def partial_fit(self: Self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn rows in their order, and go on later: see `OnlineForest`, which this uses.

        A fitted forest continues to learn. `classes` are all classes that may come, as in
        scikit-learn; here new ones may also appear later. For single rows `OnlineForest.update`
        is faster.

        >>> from edgeforest import RandomForestClassifier
        >>> forest = RandomForestClassifier(5, random_state=0)
        >>> for day in range(7):
        ...     forest = forest.partial_fit([[i] for i in range(100)], [i > 40 for i in range(100)])
        >>> forest.predict([[10], [90]]).tolist()
        [False, True]
        """
        return self._partial_fit(X, y, classes)

    def predict(self, X: Any) -> Array:
        """The class of each row.

        >>> from edgeforest import RandomForestClassifier
        >>> forest = RandomForestClassifier(3, random_state=0).fit([[0], [1]] * 9, ["a", "b"] * 9)
        >>> forest.predict([[1], [0]]).tolist()
        ['b', 'a']
        """
        row = one_row(self, X)
        if row is not None:
            return np.array(self.forest_.predict(row), self.classes_.dtype)
        table = encoded(self, X)
        return prediction.labels(self.forest_, table, self.classes_)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The share of each class for each row, in the order of `classes_`.

        >>> from edgeforest import RandomForestClassifier
        >>> forest = RandomForestClassifier(3, random_state=0).fit([[0], [1]] * 9, ["a", "b"] * 9)
        >>> forest.predict_proba([[1], [0]]).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
        """
        row = one_row(self, X)
        if row is not None:
            return np.array(self.forest_.predict_proba(row))
        table = encoded(self, X)
        return prediction.shares(self.forest_, table)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """The logarithm of `predict_proba`.

        >>> from edgeforest import RandomForestClassifier
        >>> forest = RandomForestClassifier(3, random_state=0).fit([[0], [1]] * 9, ["a", "b"] * 9)
        >>> forest.predict_log_proba([[1]]).tolist()
        [[-inf, 0.0]]
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict_set(self, X: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Whether each class may be that of a row, (rows, classes), in the order of `classes_`.

        The true class is among them with this chance, from 0.5 to 0.99. `calibrate` comes first.

        >>> from edgeforest import RandomForestClassifier
        >>> X, y = [[i % 50] for i in range(600)], ["ab"[i % 50 + i % 7 > 30] for i in range(600)]
        >>> forest = RandomForestClassifier(20, random_state=0).fit(X, y).calibrate(X, y)
        >>> [forest.classes_[places].tolist() for places in forest.predict_set([[10], [27]], 0.99)]
        [['a'], ['a', 'b']]
        """
        table = encoded(self, X)
        return prediction.sets(self.forest_, table, coverage)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy: the share of rows whose class is predicted correctly.

        >>> from edgeforest import RandomForestClassifier
        >>> X, y = [[0], [1]] * 9, ["a", "b"] * 9
        >>> RandomForestClassifier(3, random_state=0).fit(X, y).score(X, y)
        1.0
        """
        right = self.predict(X) == np.asarray(y).ravel()
        return float(np.average(right, weights=arrays.read_weights(sample_weight, len(right))))


class RandomForestClassifier(ForestClassifier):
    """A random forest that predicts classes, trained under a budget.

    Parameters have scikit-learn's names and meanings. The following are ours:

    - `budget`: the maximum number of insertions, or `Budget(insertions=, seconds=, bytes=)`. If
      it is short, trees get smaller, and then fewer.
    - `splitter`: "mab" (the default), "mab-paper" (Algorithm 1 of the paper) or "exact".
    - `n_bins`: the least number of bins into which a race groups the values of a feature (16); a
      large node has up to four times as many.
    - `engine`: "native", "numpy" or "pure"; by default the fastest one present.
    - `categorical_features`: the categorical columns by name, by number, or as a list of booleans;
      by default the columns of a DataFrame that are categories or text.
    - `tol`, `n_iter_no_change`: stop when the out-of-bag score has not grown by more than `tol`
      over `n_iter_no_change` trees.
    - `callback`: called with a `Progress` during training; returning True ends it.

    `bootstrap` is True by default. A tree draws no more rows than its depth can use; it draws all
    of them only if `max_samples=1.0`, or if it may grow deeper than 10.

    After `fit`: `forest_` (the model: save it, merge it), `classes_`, `n_classes_`,
    `n_features_in_`, `feature_names_in_` (of a DataFrame), and with `oob_score` also `oob_score_`
    and `oob_decision_function_` (of regressors `oob_prediction_`).

    >>> from edgeforest import Budget, RandomForestClassifier
    >>> X, y = [[i % 7, i % 3] for i in range(90)], ["low" if i % 7 < 4 else "high" for i in range(90)]
    >>> forest = RandomForestClassifier(20, budget=Budget(insertions=20_000), random_state=0)
    >>> forest.fit(X, y).predict([[6, 0], [1, 2]]).tolist()
    ['high', 'low']
    """


class ExtraTreesClassifier(ForestClassifier):
    """Extremely randomised trees: one random threshold for each feature, all rows for each tree.

    Parameters are those of `RandomForestClassifier`; `bootstrap` is False by default.

    >>> from edgeforest import ExtraTreesClassifier
    >>> X, y = [[i % 7, i % 3] for i in range(90)], [i % 7 > 3 for i in range(90)]
    >>> ExtraTreesClassifier(20, random_state=0).fit(X, y).predict([[6, 0], [1, 2]]).tolist()
    [True, False]
    """

    kind = "extra-trees"


class RandomPatchesClassifier(ForestClassifier):
    """Random patches: a forest trained on a random part of the rows and of the features.

    `alpha_n` is the share of the rows, `alpha_f` the share of the features. The other parameters
    are those of `RandomForestClassifier`.

    >>> from edgeforest import RandomPatchesClassifier
    >>> X, y = [[i % 7, i % 7, i % 3] for i in range(90)], [i % 7 > 3 for i in range(90)]
    >>> forest = RandomPatchesClassifier(20, alpha_f=0.7, random_state=0).fit(X, y)
    >>> forest.predict([[6, 6, 0], [1, 1, 2]]).tolist()
    [True, False]
    """

    kind = "random-patches"

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: str = "gini",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        max_features: Features = "sqrt",
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool | None = None,
        oob_score: Score = False,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
        warm_start: bool = False,
        class_weight: ClassWeight = None,
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
