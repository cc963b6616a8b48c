"""What the six estimators share: `fit` and its relatives, and what is known of the forest."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from edgeforest.forest import Forest
import edgeforest.estimators.fitting as fitting
import edgeforest.estimators.out_of_bag as out_of_bag
import edgeforest.estimators.trees as trees
from edgeforest.estimators.out_of_bag import Drawn
from edgeforest.estimators.parameters import Parameters
from edgeforest.estimators.schema import encoded, read_like_fit
from edgeforest.forests import oob
from edgeforest.forests.merging import keep
from edgeforest.host.fitted import check_fitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgeforest.forest import Spent
    from edgeforest.forests.explanation import Explanation
    from edgeforest.host.values import Array
    from edgeforest.online import OnlineForest

Self = TypeVar("Self", bound="BaseForest")


class BaseForest(Parameters):
    """What the six estimators share."""

    n_classes_: int  # of a classifier
    oob_decision_function_: NDArray[np.float64]  # of a classifier
    oob_prediction_: NDArray[np.float64]  # of a regressor
    draws_: Drawn  # which rows each tree drew
    _seed: int
    _online: OnlineForest  # which `partial_fit` uses

    # ---- What scikit-learn asks

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "forest_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import (  # type: ignore[import-untyped]
            ClassifierTags,
            InputTags,
            RegressorTags,
            Tags,
            TargetTags,
        )

        return Tags(
            estimator_type="regressor" if self.regression else "classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=None if self.regression else ClassifierTags(),
            regressor_tags=RegressorTags() if self.regression else None,
            input_tags=InputTags(allow_nan=True),
        )

    # ---- Training

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on the rows of X and their labels or targets y.

        X is an array, a list of rows or a DataFrame, whose categories are recognised. NaN and None
        are missing values. A row's weight is its chance to be drawn for a tree. Ctrl-C ends the
        training and keeps the trees that are complete.

        >>> from edgeforest import RandomForestRegressor
        >>> RandomForestRegressor(n_estimators=3).fit([[0.0], [1.0]] * 9, [5.0, 7.0] * 9)
        RandomForestRegressor(n_estimators=3)
        """
        before = None
        if self.warm_start and hasattr(self, "forest_"):
            before = fitting.Before(self.forest_, self._seed, self.draws_)
        found = fitting.fit(self, X, y, sample_weight, before)
        if found is None:
            warnings.warn(
                "Warm-start fitting without increasing n_estimators does not fit new trees.",
                stacklevel=2,
            )
            return self
        self._take(found.forest, found.rows.names, found.drawn)
        self._seed = found.seed
        if found.classes is not None and len(found.classes) == len(self.classes_):
            self.classes_ = found.classes  # of the type that they came in
        if self.oob_score:
            self._score_out_of_bag(found)
        return self

    def _score_out_of_bag(self, found: fitting.Result) -> None:
        """Set the out-of-bag score and the answers it was computed from."""
        classes = places = None
        if found.classes is not None:  # the forest may know more classes than y has
            classes = self.classes_
            places = np.searchsorted(classes, found.classes)
        bag = out_of_bag.bag_of(self.forest_, self.draws_, found.rows, found.target, places)
        if not bag.trees.all():
            warnings.warn(
                "Some inputs do not have OOB scores. This probably means too few trees were used "
                "to compute any reliable OOB estimates.",
                stacklevel=3,
            )
        self.oob_score_, answers = out_of_bag.scored(bag, self.forest_, self.oob_score, classes)
        if self.regression:
            self.oob_prediction_ = answers
        else:
            self.oob_decision_function_ = answers

    def fit_source(
        self: Self,
        source: Any,
        target: str,
        *,
        drop: Sequence[str] = (),
        checkpoint: str | None = None,
        resume: bool = False,
    ) -> Self:
        """Train from a source, whose rows are read when a tree asks for them.

        `source` is a path, or anything else that `open_source` takes; `target` is the name of the
        column to learn. With `checkpoint`, the forest is written there after every tree, and
        `resume=True` continues from it like `train_source`. A tree draws as many rows as its depth
        can use, or as `max_samples` asks for.

        >>> from edgeforest import RandomForestClassifier
        >>> temps = [15 + i % 17 for i in range(900)]
        >>> table = {"temp": temps, "warm": ["yes" if t > 22 else "no" for t in temps]}
        >>> forest = RandomForestClassifier(5, random_state=0).fit_source(table, "warm")
        >>> forest.feature_names_in_.tolist(), forest.forest_.predict([[16], [30]])
        (['temp'], ['no', 'yes'])
        """
        import edgeforest.estimators.from_sources as from_sources

        found = from_sources.fit_source(self, source, target, drop, checkpoint, resume)
        self._take(found.forest, found.names)
        self._seed = found.seed
        return self

    def _partial_fit(self: Self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn rows in their order, and go on from the rows of earlier calls."""
        import edgeforest.estimators.online as online

        found = online.partial_fit(self, getattr(self, "_online", None), X, y, classes)
        self._take(found.learner.forest(), found.names)
        self._online = found.learner
        if found.seed is not None:
            self._seed = found.seed
        return self

    def _take(
        self, forest: Forest, names: Sequence[str] | None, drawn: Drawn | None = None
    ) -> None:
        """Set the forest and what is known of it."""
        self.__dict__.pop("_online", None)  # which has learned another forest
        self.forest_ = forest
        self.draws_ = Drawn() if drawn is None else drawn
        self.n_features_in_ = forest.n_features
        self.n_outputs_ = 1
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if not self.regression:
            assert forest.classes is not None
            self.classes_ = np.array(forest.classes)
            self.n_classes_ = len(self.classes_)

    @classmethod
    def from_forest(cls: type[Self], forest: Forest) -> Self:
        """An estimator around a forest that was trained, loaded or merged elsewhere.

        >>> import edgeforest
        >>> model = edgeforest.train([[1], [2]] * 9, ["a", "b"] * 9, n_trees=3)
        >>> edgeforest.RandomForestClassifier.from_forest(model).predict([[2]]).tolist()
        ['b']
        """
        if not isinstance(forest, Forest):
            raise TypeError(f"forest must be a Forest, got {forest!r}; train or load one")
        if forest.regression != cls.regression:
            task = "regression" if cls.regression else "classification"
            other = "classification" if cls.regression else "regression"
            raise ValueError(f"forest must be of {task} for {cls.__name__}, got one of {other}")
        names = [None if name == f"x{f}" else name for f, name in enumerate(forest.names)]
        estimator = cls()
        estimator.set_params(
            n_estimators=len(forest),
            criterion=forest.criterion,
            splitter=forest.splitter,
            random_state=forest.seed,
        )
        estimator._seed = forest.seed
        estimator._take(forest, None if None in names else list(forest.names))
        return estimator

    # ---- Prediction

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The leaf of each tree that each row reaches, (rows, trees), counted within the tree.

        >>> from edgeforest import RandomForestClassifier
        >>> forest = RandomForestClassifier(2, random_state=1).fit([[0], [1]] * 9, [0, 1] * 9)
        >>> forest.apply([[0], [1]]).tolist()
        [[1, 1], [2, 2]]
        """
        table = encoded(self, X)
        leaves = oob.leaves(self.forest_, table)
        return (leaves - np.asarray(self.forest_.roots, np.int64)[:, None]).T.copy()

    def decision_path(self, X: Any) -> tuple[Any, NDArray[np.int64]]:
        """The nodes that each row passes: a sparse matrix (rows, nodes), and where trees begin.

        Needs SciPy, which scikit-learn brings along.

        >>> from edgeforest import RandomForestClassifier
        >>> forest = RandomForestClassifier(2, random_state=1).fit([[0], [1]] * 9, [0, 1] * 9)
        >>> nodes, begin = forest.decision_path([[0], [1]])
        >>> nodes.toarray().tolist(), begin.tolist()
        ([[1, 1, 0, 1, 1, 0], [1, 0, 1, 1, 0, 1]], [0, 3, 6])
        """
        table = encoded(self, X)
        return trees.paths(self.forest_, table)

    def predict(self, X: Any) -> Array:
        """The class or value of each row.

        >>> from edgeforest import ExtraTreesRegressor
        >>> forest = ExtraTreesRegressor(3, random_state=0).fit([[0.0], [1.0]] * 9, [5.0, 7.0] * 9)
        >>> forest.predict([[1.0]]).tolist()
        [7.0]
        """
        raise NotImplementedError

    def explain(self, row: Any) -> Explanation:
        """Why the forest answers as it does for one row: see `edgeforest.explain`.

        >>> from edgeforest import RandomForestClassifier
        >>> forest = RandomForestClassifier(3, random_state=0).fit([[0], [1]] * 9, ["a", "b"] * 9)
        >>> print(forest.explain([1]))
        prediction b
        votes      b 100%
        trees      3 of 3 say b
        <BLANKLINE>
        The answer stays exactly the same as long as
          x0 > 0.5  (is 1; asked 3 times in 3 of 3 trees)
        """
        from edgeforest.forests.explanation import explain

        check_fitted(self)
        return explain(self, row)

    def calibrate(self: Self, X: Any, y: Any) -> Self:
        """Make `predict_interval` or `predict_set` possible: see `edgeforest.calibrate`.

        If X and y are those of `fit`, each row counts only the trees that did not draw it.
        Otherwise they must be rows that `fit` was not given.

        >>> from edgeforest import RandomForestClassifier
        >>> X, y = [[i % 50] for i in range(600)], [i % 50 + i % 7 > 30 for i in range(600)]
        >>> forest = RandomForestClassifier(20, random_state=0).fit(X, y).calibrate(X, y)
        >>> forest.predict_set([[10], [27]], coverage=0.99).tolist()
        [[True, False], [True, True]]
        """
        check_fitted(self)
        out_of_bag.calibrate(self.forest_, self.draws_, read_like_fit(self, X), y)
        return self

    # ---- What is known of the forest

    @property
    def spent_(self) -> Spent:
        """What training has cost: insertions, rows read, rounds, seconds."""
        check_fitted(self)
        return self.forest_.spent

    @property
    def engine_(self) -> str | None:
        """The engine that trained: native, numpy or pure."""
        check_fitted(self)
        return self.forest_.engine

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Mean decrease in impurity by feature, summing to one."""
        check_fitted(self)
        given = np.array(self.forest_.feature_importances)
        total = given.sum()
        return given / total if total else given

    @property
    def estimators_(self) -> trees.Trees:
        """The trees, one by one: `forest.estimators_[0].predict(X)`."""
        check_fitted(self)
        return trees.Trees(self)

    def prune(
        self: Self, X: Any, y: Any, *, max_bytes: int | None = None, max_trees: int | None = None
    ) -> Self:
        """Drop the trees that cost least, until the model's JSON fits in `max_bytes`.

        If X and y are those of `fit`, each tree is judged by the rows that it did not draw,
        otherwise by all rows: see `edgeforest.prune`.

        >>> from edgeforest import RandomForestClassifier
        >>> X, y = [[i % 9, i % 7] for i in range(200)], [i % 9 > 4 for i in range(200)]
        >>> forest = RandomForestClassifier(20, random_state=0).fit(X, y)
        >>> len(forest.prune(X, y, max_trees=5).estimators_)
        5
        """
        from edgeforest.forests.pruning import choose

        places = choose(self, X, y, max_bytes, max_trees)
        names = getattr(self, "feature_names_in_", None)
        self._take(keep(self.forest_, places), names, self.draws_.keep(places))
        return self
