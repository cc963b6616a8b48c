"""Forests with scikit-learn's manners: six estimators that need NumPy, never scikit-learn.

Swap the import, add a budget:

>>> from edgeforest import RandomForestClassifier
>>> X, y = [[0, 0], [1, 1], [0, 1], [1, 0]] * 25, ["no", "yes", "no", "yes"] * 25
>>> forest = RandomForestClassifier(n_estimators=10, budget=50_000, random_state=0).fit(X, y)
>>> forest.predict([[1, 1], [0, 0]]).tolist(), forest.spent_.insertions <= 50_000
(['yes', 'no'], True)
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, overload

import numpy as np

from edgeforest import core_pure, engines
from edgeforest.core_pure import LEAF, MASK, Budget, Forest, Rng, Spent
from edgeforest.engines import sampling
from edgeforest.forests import oob
from edgeforest.forests.merging import keep, merge
from edgeforest.host import inputs
from edgeforest.host.inputs import Array
from edgeforest.host.names import short
from edgeforest.host.progress import Progress, Watch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgeforest.core_pure import _Kind
    from edgeforest.engines import Name
    from edgeforest.forests.explanation import Explanation
    from edgeforest.online import OnlineForest

    Seed = int | np.random.RandomState | np.random.Generator | None
    Score = bool | Callable[[Array, Array], float]
    ClassWeight = dict[Any, float] | Literal["balanced", "balanced_subsample"] | None
    Features = int | float | Literal["sqrt", "log2"] | None

Self = TypeVar("Self", bound="BaseForest")
_checks: Any = core_pure  # whose stub has only what is public
SAMPLE = 4096  # rows whose out-of-bag score tells when to stop
_CRITERIA = {"log_loss": "entropy", "squared_error": "mse"}  # scikit-learn's names, and ours


class BaseForest:
    """What the six estimators share."""

    kind: ClassVar[_Kind] = "random-forest"
    regression: ClassVar[bool] = False

    # Parameters.
    n_estimators: int
    criterion: str
    max_depth: int | None
    min_samples_split: int | float
    min_samples_leaf: int | float
    max_features: Features
    max_leaf_nodes: int | None
    min_impurity_decrease: float
    bootstrap: bool | None
    oob_score: Score
    n_jobs: int | None
    random_state: Seed
    verbose: int
    warm_start: bool
    max_samples: int | float | None
    budget: int | Budget | None
    tol: float | None
    n_iter_no_change: int
    splitter: str
    n_bins: int | None
    engine: Name | None
    categorical_features: Any
    callback: Callable[[Progress], object] | None
    class_weight: ClassWeight = None
    alpha_n: float = 0.7
    alpha_f: float = 0.85

    # What fit finds.
    forest_: Forest
    n_features_in_: int
    n_outputs_: int
    feature_names_in_: NDArray[Any]
    oob_score_: float
    classes_: Array  # of a classifier
    _seed: int
    _draws: list[tuple[oob.Draws, int]]  # of each tree: what its training drew, and its number

    def _set(self, parameters: dict[str, Any]) -> None:
        for name in self._parameters():
            setattr(self, name, parameters[name])

    @classmethod
    def _parameters(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters and their values.

        >>> from edgeforest import RandomForestClassifier
        >>> RandomForestClassifier(budget=1000).get_params()["budget"]
        1000
        """
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self: Self, **params: Any) -> Self:
        """Change parameters; `fit` looks at their values.

        >>> from edgeforest import RandomForestClassifier
        >>> RandomForestClassifier().set_params(n_estimators=5)
        RandomForestClassifier(n_estimators=5)
        """
        known = self._parameters()
        for name in params:
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {type(self).__name__}; it has "
                    f"{', '.join(known)}"
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

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

    def _check_fitted(self) -> None:
        if not hasattr(self, "forest_"):
            kind = inputs.scikit_learn("exceptions", "NotFittedError", NotFittedError)
            raise kind(f"This {type(self).__name__} instance is not fitted yet; call fit first")

    # ---- Training

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on the rows of X and their labels or targets y.

        X is an array, a list of rows or a DataFrame, whose categories are recognised; NaN and None
        are missing values. A row's weight is its chance to be drawn for a tree. Ctrl-C ends the
        training and keeps the trees that are done.

        >>> from edgeforest import RandomForestRegressor
        >>> RandomForestRegressor(n_estimators=3).fit([[0.0], [1.0]] * 9, [5.0, 7.0] * 9)
        RandomForestRegressor(n_estimators=3)
        """
        warm = bool(self.warm_start) and hasattr(self, "forest_")
        seed = self._seed if warm else _seed(self.random_state)
        X = inputs.collected(X) if engines.is_frame(X) else X
        y = inputs.labels(y) if hasattr(type(y), "to_pylist") else y  # Arrow's
        given = X, y, sample_weight
        limited = isinstance(self.budget, Budget) and self.budget.seconds is not None
        read = self._read_in_time if limited else self._read
        begun = read(given, warm, seed)
        if begun is None:
            warnings.warn(
                "Warm-start fitting without increasing n_estimators does not fit new trees.",
                stacklevel=2,
            )
            return self
        training, rows, target, labels = begun
        draws = oob.Draws(training, oob.fingerprint(rows.values, target))
        if (self.oob_score or self.tol is not None) and not draws.leaves_out():
            raise ValueError(
                "an out-of-bag score needs rows that trees leave out: set bootstrap=True, or "
                "max_samples below 1.0"
            )
        forest = self._grow(training, rows, target, draws)
        done = [(draws, training.first + i) for i in range(len(forest))]
        if labels is not None:
            forest.classes = labels.tolist()
        forest.prepare()
        if warm:
            forest = merge([self.forest_, forest])
            done = self._draws + done
        self._seed = seed
        self._take(forest, rows.names)
        if labels is not None and len(labels) == len(self.classes_):
            self.classes_ = labels  # of the type that they came in
        self._draws = done
        if self.oob_score:
            bag = self._out_of_bag(rows, target, labels)
            if not bag.trees.all():
                warnings.warn(
                    "Some inputs do not have OOB scores. This probably means too few trees were "
                    "used to compute any reliable OOB estimates.",
                    stacklevel=2,
                )
            self._judge_out_of_bag(bag)
        return self

    def _read_in_time(self, given: Sequence[Any], warm: bool, seed: int) -> Any:
        """`_read`, of as many rows as the budget has seconds for."""
        n = sampling.rows_in(given[0])
        lengths = [sampling.rows_in(v) for v in given if hasattr(v, "__len__")]
        if n == 0 or lengths != [n] * len(lengths) or hasattr(given[0], "nnz"):
            return self._read(given, warm, seed)  # which says what is wrong

        def make(rows: Any, budget: Budget) -> Any:
            some = given
            if rows is not None:
                some = [sampling.take(v, rows) if hasattr(v, "__len__") else v for v in given]
            return self._read(some, warm, seed, budget, sampled=rows is not None)

        if warm and self.n_estimators == len(self.forest_):
            return None
        budget = self._budget_left() if warm else self.budget
        assert isinstance(budget, Budget)
        return sampling.within(n, budget, seed, make)

    def _read(
        self,
        given: Sequence[Any],
        warm: bool,
        seed: int,
        budget: Budget | None = None,
        sampled: bool = False,
    ) -> tuple[Any, inputs.Rows, Array, Array | None] | None:
        """A training with its rows, target and labels; None if there is no tree to add."""
        X, y, sample_weight = given
        rows = inputs.read(X, self.categorical_features)
        target, labels = self._read_target(y, rows.n)  # codes of labels
        weights = inputs.read_weights(sample_weight, rows.n)
        if warm:
            self._check_schema(rows.names, rows.m)
        before = len(self.forest_) if warm else 0
        _checks._between("n_estimators", self.n_estimators, 1, 4096)
        if self.n_estimators < before:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be at least the {before} trees that there "
                "are when warm_start=True"
            )
        if before and self.n_estimators == before:
            return None
        if budget is None:
            limit = self._budget_left() if warm else self.budget
        else:
            limit = sampling.rest_of(budget)
        training = engines.read(
            rows.values,
            target,
            engine=self.engine,
            n_jobs=_jobs(self.n_jobs),
            kind=self.kind,
            seed=seed,
            first=self._next_number() if warm else 0,
            n_trees=self.n_estimators - before,
            budget=limit,
            sample_weight=weights,
            **self._options(rows, labels, sampled),
            **rows.options(),
        )
        return training, rows, target, labels

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

        `source` is a path, or what `open_source` takes; `target` the name of the column to learn.
        With `checkpoint`, the forest is written there after every tree, and `resume=True` goes on
        from it as `train_source` does. A tree draws as many rows as its depth can put to use, or
        as `max_samples` says.

        >>> from edgeforest import RandomForestClassifier
        >>> temps = [15 + i % 17 for i in range(900)]
        >>> table = {"temp": temps, "warm": ["yes" if t > 22 else "no" for t in temps]}
        >>> forest = RandomForestClassifier(5, random_state=0).fit_source(table, "warm")
        >>> forest.feature_names_in_.tolist(), forest.forest_.predict([[16], [30]])
        (['temp'], ['no', 'yes'])
        """
        from edgeforest.sources import open_source
        from edgeforest.sources.checkpoints import Begun, begun
        from edgeforest.sources.schema import look
        from edgeforest.sources.training import STREAMS, Streaming

        if self.oob_score or self.tol is not None or self.warm_start:
            raise ValueError("oob_score, tol and warm_start need all rows in memory: use fit")
        budget = self.budget if isinstance(self.budget, Budget) else Budget(self.budget)
        budget = budget.copy()  # its clock begins here
        given = open_source(source)
        before = begun(given, checkpoint) if resume and checkpoint is not None else Begun(given)
        source = before.source
        if before.note:
            warnings.warn(before.note, stacklevel=2)
        seed = _seed(self.random_state)
        schema = look(
            source,
            target,
            Rng(seed, STREAMS),
            categorical=self.categorical_features or (),
            drop=drop,
            task="regression" if self.regression else "classification",
        )
        rows = inputs.Rows(None, len(source), len(schema.names), schema.names)
        options = BaseForest._options(self, rows, None)
        if not self.regression:
            options["class_weight"] = self._balance()
        training = Streaming(
            source,
            target,
            schema=schema,
            n_trees=self.n_estimators,
            budget=sampling.rest_of(budget),
            seed=seed,
            engine=self.engine,
            n_jobs=_jobs(self.n_jobs),
            kind=self.kind,
            checkpoint=checkpoint,
            resume=before.forest is not None if checkpoint is not None else resume,
            **options,
        )
        stopped = False
        watch = Watch(training, self.verbose, self.callback)
        try:
            for _ in training:
                stopped = watch.step()
                if stopped:
                    break
        except KeyboardInterrupt:
            if not len(training.grown):
                raise
            stopped = True
            warnings.warn(
                f"training was interrupted: {len(training.grown)} of {training.planned} trees are "
                "kept",
                stacklevel=2,
            )
        finally:
            watch.close()
        if before.later and not stopped:  # what was begun before is done; now all rows
            return self.fit_source(given, target, drop=drop, checkpoint=checkpoint, resume=True)
        self._seed = seed
        self._take(training.forest(), schema.names)
        self._draws = []
        return self

    def _partial_fit(self: Self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn rows, one after the other, as they come."""
        learner: OnlineForest | None = getattr(self, "_online", None)
        names = None
        if hasattr(self, "forest_"):
            rows = inputs.read(X, self._categories(), self._check_schema)
            names = getattr(self, "feature_names_in_", None)
        else:
            rows = inputs.read(X, self.categorical_features)
            names = rows.names
        target, labels = self._read_target(y, rows.n)
        if learner is None:
            learner = self._learner(rows, labels if classes is None else np.unique(classes))
        values = list(zip(*rows.values, strict=True)) if rows.categorical else rows.values
        learner.update_batch(values, target if labels is None else labels[target])
        self._take(learner.forest(), None if names is None else list(names))
        self._online = learner
        self._draws = []
        return self

    def _learner(self, rows: inputs.Rows, classes: Array | None) -> OnlineForest:
        """A learner by the parameters, that goes on from what was fitted."""
        from edgeforest.online import OnlineForest

        wrong = {
            "splitter": self.splitter != "mab",
            "oob_score": self.oob_score,
            "tol": self.tol is not None,
            "class_weight": getattr(self, "class_weight", None) is not None,
        }
        for name, is_wrong in wrong.items():
            if is_wrong:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} needs all rows at once: use fit, or leave it "
                    "at its default for partial_fit"
                )
        asked = BaseForest._options(self, rows, None)
        options = {
            name: asked[name]
            for name in ("max_depth", "max_features", "min_samples_leaf", "n_bins")
        }
        if self.max_leaf_nodes is not None:
            options["max_leaf_nodes"] = self.max_leaf_nodes
        limit = self.budget if isinstance(self.budget, Budget) else Budget(self.budget)
        if limit.insertions is not None or limit.seconds is not None:
            raise ValueError(
                f"partial_fit goes on for ever, so that its budget has bytes and nothing else, got "
                f"{self.budget!r}; give budget=Budget(bytes=...), or use fit"
            )
        options["budget"] = limit
        if self.kind == "random-patches":
            options |= {"alpha_n": self.alpha_n, "alpha_f": self.alpha_f}
        options["engine"] = self.engine
        options["fade"] = 50  # it is asked about rows that come without a label
        if hasattr(self, "forest_"):
            return OnlineForest.from_forest(self.forest_, **options)
        self._seed = _seed(self.random_state)
        return OnlineForest(
            rows.names or rows.m,
            classes=None if classes is None else classes.tolist(),
            categorical=rows.categorical,
            kind=self.kind,
            criterion=asked["criterion"],
            n_trees=self.n_estimators,
            seed=self._seed,
            **options,
        )

    def _balance(self) -> ClassWeight:
        """The weights of classes; draws by weight are balanced in every tree anyway."""
        return "balanced" if self.class_weight == "balanced_subsample" else self.class_weight

    def _read_target(self, y: Any, n: int) -> tuple[Array, Array | None]:
        """What to train with, and the classes."""
        raise NotImplementedError

    def _options(
        self, rows: inputs.Rows, labels: Array | None, sampled: bool = False
    ) -> dict[str, Any]:
        """The options of `train` that the parameters ask for; a sample may lack some labels."""
        criterion = _CRITERIA.get(self.criterion, self.criterion)
        allowed = ("mse",) if self.regression else ("gini", "entropy")
        if criterion not in allowed:
            raise ValueError(
                f"The 'criterion' parameter of {type(self).__name__} must be one of "
                f"{', '.join(k for k in (*allowed, *_CRITERIA) if _CRITERIA.get(k, k) in allowed)}. "
                f"Got {self.criterion!r} instead."
            )
        options: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("splitter", "max_depth", "max_leaf_nodes", "min_impurity_decrease")
        }
        options |= {"n_bins": self.n_bins, "bootstrap": self.bootstrap, "criterion": criterion}
        options["min_samples_leaf"] = _rows("min_samples_leaf", self.min_samples_leaf, rows.n, 1)
        options["min_samples_split"] = _rows("min_samples_split", self.min_samples_split, rows.n, 2)
        usable = rows.m
        if self.kind == "random-patches":
            options |= {"alpha_n": self.alpha_n, "alpha_f": self.alpha_f}
            if isinstance(self.alpha_f, (int, float)) and 0 < self.alpha_f <= 1:
                usable = max(1, int(self.alpha_f * rows.m + 0.5))
        options["max_features"] = _features(self.max_features, usable)
        options["max_samples"] = self.max_samples
        if self.max_samples is not None and not isinstance(self.max_samples, float):
            options["max_samples"] = _at_most("max_samples", self.max_samples, rows.n)
        return options

    def _budget_left(self) -> Budget:
        """What the budget leaves to trees that are added: it is a limit of all of them."""
        budget = self.budget if isinstance(self.budget, Budget) else Budget(self.budget)
        spent = self.forest_.spent
        left: list[Any] = []
        for limit, used, least in (
            (budget.insertions, spent.insertions, 1),
            (budget.seconds, spent.seconds, 0.001),
        ):
            if limit is not None and limit - used < least:
                raise ValueError(f"the budget is spent ({used} of {limit}); raise it to go on")
            left.append(None if limit is None else limit - used)
        return Budget(left[0], left[1], budget.bytes)

    def _grow(self, training: Any, rows: inputs.Rows, target: Array, draws: oob.Draws) -> Forest:
        """Run the training to its end; to Ctrl-C, to the callback's word, or to the best score."""
        judge = None
        if self.tol is not None:
            judge = _Judge(self, training, rows, target, draws)
        watch = Watch(training, self.verbose, self.callback)
        grown = training.grown
        whole = 0, 0, 0  # trees, nodes and votes of the trees that are done
        try:
            for _ in training:
                if len(grown.roots) > whole[0]:
                    whole = len(grown.roots), len(grown.feature), len(grown.votes)
                    if judge is not None and judge.has_seen_enough():
                        break
                if watch.step(None if judge is None else judge.score):
                    break
        except KeyboardInterrupt:
            if not whole[0]:
                raise
            training.tree = None  # the tree in hand is not done; half of it may have been added
            for values in (grown.feature, grown.threshold, grown.right):
                del values[whole[1] :]
            del grown.roots[whole[0] :], grown.votes[whole[2] :]
            warnings.warn(
                f"training was interrupted: {whole[0]} of {training.planned} trees are kept",
                stacklevel=3,
            )
        finally:
            watch.close()
        forest: Forest = training.forest()
        return forest

    def _take(self, forest: Forest, names: Sequence[str] | None) -> None:
        """Make a forest one's own."""
        self.__dict__.pop("_online", None)  # which has learned another one
        self.forest_ = forest
        self.n_features_in_ = forest.n_features
        self.n_outputs_ = 1
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    @classmethod
    def from_forest(cls: type[Self], forest: Forest) -> Self:
        """An estimator around a forest that was trained, loaded or merged elsewhere.

        >>> import edgeforest
        >>> model = edgeforest.train([[1], [2]] * 9, ["a", "b"] * 9, n_trees=3)
        >>> edgeforest.RandomForestClassifier.from_forest(model).predict([[2]]).tolist()
        ['b']
        """
        if not isinstance(forest, Forest):
            raise TypeError(f"give a Forest, got {forest!r}")
        if forest.regression != cls.regression:
            task = "regression" if forest.regression else "classification"
            raise ValueError(f"{cls.__name__} cannot hold a forest of {task}")
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
        estimator._draws = []
        return estimator

    # ---- Prediction

    def _check_schema(self, given: list[str] | None, m: int) -> None:
        """Refuse rows of other features."""
        names = getattr(self, "feature_names_in_", None)
        me = type(self).__name__
        if given is not None and names is None:
            warnings.warn(
                f"X has feature names, but {me} was fitted without feature names", stacklevel=5
            )
        elif given is None and names is not None:
            warnings.warn(
                f"X does not have valid feature names, but {me} was fitted with feature names",
                stacklevel=5,
            )
        elif given is not None and names is not None and given != list(names):
            raise ValueError(_other_names(list(names), given))
        if m != self.n_features_in_:
            raise ValueError(
                f"X has {m} features, but {me} is expecting {self.n_features_in_} features as input"
            )

    def _categories(self) -> list[int]:
        return [f for f, kinds in enumerate(self.forest_.categories) if kinds is not None]

    def _encoded(self, X: Any) -> Array:
        self._check_fitted()
        rows = inputs.read(X, self._categories(), self._check_schema)
        return rows.encoded(self.forest_)

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The leaf of each tree that each row reaches, (rows, trees), counted within the tree.

        >>> from edgeforest import RandomForestClassifier
        >>> forest = RandomForestClassifier(2, random_state=1).fit([[0], [1]] * 9, [0, 1] * 9)
        >>> forest.apply([[0], [1]]).tolist()
        [[1, 1], [2, 2]]
        """
        leaves = oob.leaves(self.forest_, self._encoded(X))
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
        try:
            from scipy.sparse import csr_matrix  # type: ignore[import-untyped]
        except ImportError:
            raise ImportError("decision_path needs SciPy: install it (pip install scipy)") from None
        forest = self.forest_
        leaves = oob.leaves(forest, self._encoded(X))
        feature, right = np.asarray(forest.feature), np.asarray(forest.right, np.int64)
        inner = np.flatnonzero(feature != LEAF)
        parent = np.full(len(feature), -1)
        parent[inner + 1] = inner
        parent[right[inner]] = inner
        levels = []  # from the leaves upwards; -1 above the root
        node = leaves
        while (node >= 0).any():
            levels.append(node)
            node = np.where(node >= 0, parent[node], -1)
        trees = np.stack(levels)[::-1].transpose(2, 1, 0)  # row, tree, level
        passed = trees >= 0
        begin = np.concatenate([[0], np.cumsum(passed.sum(axis=(1, 2)))])
        path = csr_matrix(
            (np.ones(begin[-1], np.int64), trees[passed], begin),
            shape=(leaves.shape[1], len(feature)),
        )
        return path, np.append(np.asarray(forest.roots, np.int64), len(feature))

    def predict(self, X: Any) -> Array:
        """The class or value of each row.

        >>> from edgeforest import ExtraTreesRegressor
        >>> forest = ExtraTreesRegressor(3, random_state=0).fit([[0.0], [1.0]] * 9, [5.0, 7.0] * 9)
        >>> forest.predict([[1.0]]).tolist()
        [7.0]
        """
        raise NotImplementedError

    def explain(self, row: Any) -> Explanation:
        """Why the forest answers what it answers for one row: see `edgeforest.explain`.

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

        self._check_fitted()
        return explain(self, row)

    # ---- What is known of the forest

    @property
    def spent_(self) -> Spent:
        """What training has cost: insertions, rows read, rounds, seconds."""
        self._check_fitted()
        return self.forest_.spent

    @property
    def engine_(self) -> str | None:
        """The engine that trained: native, numpy or pure."""
        self._check_fitted()
        return self.forest_.engine

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Mean decrease in impurity by feature, summing to one."""
        self._check_fitted()
        given = np.array(self.forest_.feature_importances)
        total = given.sum()
        return given / total if total else given

    @property
    def estimators_(self) -> Trees:
        """The trees, one by one: `forest.estimators_[0].predict(X)`."""
        self._check_fitted()
        return Trees(self)

    # ---- Out of bag

    def _next_number(self) -> int:
        """The number of the next tree: those before it keep their random streams."""
        return max([number for _, number in self._draws], default=len(self.forest_) - 1) + 1

    def _left_out(self, rows: inputs.Rows, target: Array) -> list[NDArray[np.bool_]] | None:
        """Of each tree, which of these rows it did not draw; None if no tree drew from them."""
        data = oob.fingerprint(rows.values, target)
        if not any(draws.data == data for draws, _ in self._draws):
            return None
        everything = np.ones(rows.n, np.bool_)  # of trees that were trained with other rows
        return [
            draws.outside(number) if draws.data == data else everything
            for draws, number in self._draws
        ]

    def _out_of_bag(self, rows: inputs.Rows, target: Array, labels: Array | None) -> oob.OutOfBag:
        """The votes that the rows get from trees that did not draw them."""
        outside = self._left_out(rows, target)
        assert outside is not None
        if labels is not None:  # the forest may know more classes than y
            target = np.searchsorted(self.classes_, labels)[target]
        bag = oob.OutOfBag(rows.encoded(self.forest_), target, self.forest_.n_votes)
        bag.add(self.forest_, outside)
        return bag

    def _judge_out_of_bag(self, bag: oob.OutOfBag) -> None:
        """Note the out-of-bag score and what it was found from."""
        raise NotImplementedError

    def prune(
        self: Self, X: Any, y: Any, *, max_bytes: int | None = None, max_trees: int | None = None
    ) -> Self:
        """Drop the trees that cost least, until the model's JSON fits in `max_bytes`.

        What a tree costs is told by the rows out of bag if X and y are those of `fit`, by all rows
        otherwise: see `edgeforest.prune`.

        >>> from edgeforest import RandomForestClassifier
        >>> X, y = [[i % 9, i % 7] for i in range(200)], [i % 9 > 4 for i in range(200)]
        >>> forest = RandomForestClassifier(20, random_state=0).fit(X, y)
        >>> len(forest.prune(X, y, max_trees=5).estimators_)
        5
        """
        from edgeforest.forests.pruning import choose

        trees = choose(self, X, y, max_bytes, max_trees)
        draws = [self._draws[i] for i in trees] if self._draws else []
        self._take(keep(self.forest_, trees), getattr(self, "feature_names_in_", None))
        self._draws = draws
        return self


class ForestClassifier(BaseForest):
    """What the classifiers share."""

    _estimator_type = "classifier"  # for scikit-learn before 1.6

    n_classes_: int
    oob_decision_function_: NDArray[np.float64]

    def _read_target(self, y: Any, n: int) -> tuple[Array, Array | None]:
        classes, codes = inputs.read_classes(y, n)
        return codes, classes

    def _options(
        self, rows: inputs.Rows, labels: Array | None, sampled: bool = False
    ) -> dict[str, Any]:
        assert labels is not None
        options = super()._options(rows, labels)
        given = self._balance()
        if isinstance(given, dict):
            places = {label: k for k, label in enumerate(labels.tolist())}
            for label in given:
                if label not in places and not sampled:
                    raise ValueError(f"class_weight names {label!r}, which is not among the labels")
            given = {places[label]: weight for label, weight in given.items() if label in places}
        options["class_weight"] = given
        return options

    def _take(self, forest: Forest, names: Sequence[str] | None) -> None:
        super()._take(forest, names)
        assert forest.classes is not None
        self.classes_ = np.array(forest.classes)
        self.n_classes_ = len(self.classes_)

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

        A forest that was fitted before goes on from there. `classes` are those that may come, as
        scikit-learn wants them told; here new ones may also turn up on the way. For single rows
        `OnlineForest.update` is faster.

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
        return self._predict(self._encoded(X))

    def _predict(self, encoded: Array, forest: Forest | None = None) -> Array:
        votes = oob.sums(forest or self.forest_, encoded)
        labels: Array = self.classes_.take(votes.argmax(axis=1))
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The share of each class, in the order of `classes_`, for each row.

        >>> from edgeforest import RandomForestClassifier
        >>> forest = RandomForestClassifier(3, random_state=0).fit([[0], [1]] * 9, ["a", "b"] * 9)
        >>> forest.predict_proba([[1], [0]]).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
        """
        return self._predict_proba(self._encoded(X))

    def _predict_proba(self, encoded: Array, forest: Forest | None = None) -> NDArray[np.float64]:
        votes = oob.sums(forest or self.forest_, encoded)
        shares: NDArray[np.float64] = votes / np.maximum(1, votes.sum(axis=1, keepdims=True))
        return shares

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """The logarithm of `predict_proba`.

        >>> from edgeforest import RandomForestClassifier
        >>> forest = RandomForestClassifier(3, random_state=0).fit([[0], [1]] * 9, ["a", "b"] * 9)
        >>> forest.predict_log_proba([[1]]).tolist()
        [[-inf, 0.0]]
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is right.

        >>> from edgeforest import RandomForestClassifier
        >>> X, y = [[0], [1]] * 9, ["a", "b"] * 9
        >>> RandomForestClassifier(3, random_state=0).fit(X, y).score(X, y)
        1.0
        """
        right = self.predict(X) == np.asarray(y).ravel()
        return float(np.average(right, weights=inputs.read_weights(sample_weight, len(right))))

    def _judge_out_of_bag(self, bag: oob.OutOfBag) -> None:
        self.oob_decision_function_ = bag.answer(self.forest_)
        if callable(self.oob_score):
            known = bag.trees > 0
            guess = self.classes_.take(self.oob_decision_function_[known].argmax(axis=1))
            self.oob_score_ = float(self.oob_score(self.classes_.take(bag.y[known]), guess))
        else:
            self.oob_score_ = bag.score(self.forest_)


class ForestRegressor(BaseForest):
    """What the regressors share."""

    _estimator_type = "regressor"  # for scikit-learn before 1.6
    regression = True

    oob_prediction_: NDArray[np.float64]

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

    def _read_target(self, y: Any, n: int) -> tuple[Array, Array | None]:
        return inputs.read_values(y, n), None

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
        return self._predict(self._encoded(X))

    def _predict(self, encoded: Array, forest: Forest | None = None) -> NDArray[np.float64]:
        # As `Forest.value` computes it, in float32, so that an exported model says the same.
        forest = forest or self.forest_
        totals = oob.sums(forest, encoded)[:, 0]
        step = np.float32(forest.span / (forest.scale * len(forest)))
        part = (totals * np.float64(step)).astype(np.float32)
        value = (part.astype(np.float64) + forest.low).astype(np.float32)
        return value.astype(np.float64)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R squared: the share of the targets' variance that the predictions explain.

        >>> from edgeforest import RandomForestRegressor
        >>> X, y = [[0.0], [1.0]] * 9, [5.0, 7.0] * 9
        >>> RandomForestRegressor(3, random_state=0).fit(X, y).score(X, y)
        1.0
        """
        answer = self.predict(X)
        y = inputs.read_values(y, len(answer))
        return oob.r_squared(y, answer, inputs.read_weights(sample_weight, len(answer)))

    def _judge_out_of_bag(self, bag: oob.OutOfBag) -> None:
        self.oob_prediction_ = bag.answer(self.forest_)
        if callable(self.oob_score):
            known = bag.trees > 0
            self.oob_score_ = float(self.oob_score(bag.y[known], self.oob_prediction_[known]))
        else:
            self.oob_score_ = bag.score(self.forest_)


class RandomForestClassifier(ForestClassifier):
    """A random forest that says classes, trained under a budget.

    Parameters have scikit-learn's names and meanings. Those that are ours:

    - `budget`: the most insertions that training may make, or `Budget(insertions=, seconds=,
      bytes=)`. Where it is short, trees get smaller, and then fewer.
    - `splitter`: "mab" (the default), "mab-paper" (Algorithm 1 of the paper) or "exact".
    - `n_bins`: how many bins of a feature a race tells apart.
    - `engine`: "native", "numpy" or "pure"; left out, the fastest that is there.
    - `categorical_features`: names, numbers or marks of columns; left out, those of a DataFrame
      that are categories or text.
    - `tol`, `n_iter_no_change`: stop when the out-of-bag score has not grown by more than `tol` in
      so many trees.
    - `callback`: called with a `Progress` while training goes on; returning True ends it.

    `bootstrap` is True unless said. A tree draws no more rows than its depth can put to use: all
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


class RandomForestRegressor(ForestRegressor):
    """A random forest that says numbers, trained under a budget.

    Parameters are those of `RandomForestClassifier`, less what is for classes.

    >>> from edgeforest import RandomForestRegressor
    >>> X, y = [[i % 7, i % 3] for i in range(90)], [10.0 * (i % 7) for i in range(90)]
    >>> forest = RandomForestRegressor(20, budget=20_000, random_state=0).fit(X, y)
    >>> round(forest.score(X, y), 2)
    1.0
    """


class ExtraTreesClassifier(ForestClassifier):
    """Extremely randomised trees: one random threshold of each feature, all rows for each tree.

    Parameters are those of `RandomForestClassifier`; `bootstrap` is False unless said.

    >>> from edgeforest import ExtraTreesClassifier
    >>> X, y = [[i % 7, i % 3] for i in range(90)], [i % 7 > 3 for i in range(90)]
    >>> ExtraTreesClassifier(20, random_state=0).fit(X, y).predict([[6, 0], [1, 2]]).tolist()
    [True, False]
    """

    kind = "extra-trees"


class ExtraTreesRegressor(ForestRegressor):
    """Extremely randomised trees that say numbers: see `ExtraTreesClassifier`.

    >>> from edgeforest import ExtraTreesRegressor
    >>> X, y = [[i % 7, i % 3] for i in range(90)], [10.0 * (i % 7) for i in range(90)]
    >>> round(ExtraTreesRegressor(20, random_state=0).fit(X, y).score(X, y), 2)
    1.0
    """

    kind = "extra-trees"


class RandomPatchesClassifier(ForestClassifier):
    """Random patches: a forest of a random part of the rows and a random part of the features.

    `alpha_n` is the share of the rows, `alpha_f` that of the features; the other parameters are
    those of `RandomForestClassifier`.

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


class RandomPatchesRegressor(ForestRegressor):
    """Random patches that say numbers: see `RandomPatchesClassifier`.

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


# ---- Parts -------------------------------------------------------------------------------------


class NotFittedError(ValueError, AttributeError):
    """`fit` was not called yet. Where scikit-learn is loaded, its own error of that name is used."""


class Tree:
    """One tree of an estimator: predicts in the manner of the whole.

    >>> from edgeforest import RandomForestRegressor
    >>> forest = RandomForestRegressor(3, random_state=0).fit([[0.0], [1.0]] * 9, [5.0, 7.0] * 9)
    >>> [tree.predict([[1.0]]).item() for tree in forest.estimators_]
    [7.0, 7.0, 7.0]
    """

    def __init__(self, owner: BaseForest, place: int) -> None:
        self._owner = owner
        self.forest_ = keep(owner.forest_, [place])

    def predict(self, X: Any) -> Array:
        """The class or value of each row, by this tree alone."""
        owner: Any = self._owner
        found: Array = owner._predict(owner._encoded(X), self.forest_)
        return found

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The share of each class for each row, by this tree alone."""
        owner: Any = self._owner
        found: NDArray[np.float64] = owner._predict_proba(owner._encoded(X), self.forest_)
        return found

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The leaf that each row reaches."""
        found: NDArray[np.int64] = oob.leaves(self.forest_, self._owner._encoded(X))[0]
        return found

    @property
    def node_count(self) -> int:
        """How many nodes it has, leaves and all."""
        return len(self.forest_.feature)

    def get_n_leaves(self) -> int:
        """How many leaves it has."""
        return sum(f == LEAF for f in self.forest_.feature)

    def get_depth(self) -> int:
        """How many questions a row is asked, at most."""
        depth = [0] * self.node_count
        for node, f in enumerate(self.forest_.feature):
            if f != LEAF:
                depth[node + 1] = depth[self.forest_.right[node]] = depth[node] + 1
        return max(depth)


class Trees(Sequence[Tree]):
    """The trees of an estimator, made when they are asked for."""

    def __init__(self, owner: BaseForest) -> None:
        self._owner = owner

    def __len__(self) -> int:
        return len(self._owner.forest_)

    @overload
    def __getitem__(self, place: int) -> Tree: ...
    @overload
    def __getitem__(self, place: slice) -> list[Tree]: ...
    def __getitem__(self, place: int | slice) -> Tree | list[Tree]:
        places = range(len(self))[place]
        if isinstance(places, int):
            return Tree(self._owner, places)
        return [Tree(self._owner, i) for i in places]


class _Judge:
    """Tells when the out-of-bag score of a sample of rows has stopped to grow."""

    def __init__(
        self, owner: BaseForest, training: Any, rows: inputs.Rows, target: Array, draws: oob.Draws
    ) -> None:
        assert owner.tol is not None
        self.tol = float(owner.tol)
        self.patience = owner.n_iter_no_change
        if type(self.patience) is bool or self.patience < 1 or not self.tol >= 0:
            raise ValueError(
                "tol must be at least 0 and n_iter_no_change a whole number from 1, got "
                f"{owner.tol!r} and {self.patience!r}"
            )
        self.training = training
        self.draws = draws
        self.rows = oob.some(rows.n, SAMPLE, training.seed)
        training.grown.prepare()
        encoded = rows.encoded(training.grown)[self.rows]
        self.bag = oob.OutOfBag(encoded, target[self.rows], training.grown.n_votes)
        self.scores: list[float] = []

    @property
    def score(self) -> float | None:
        return self.scores[-1] if self.scores else None

    def has_seen_enough(self) -> bool:
        """Look at the trees that are new; whether more would be in vain."""
        grown = self.training.grown
        for place in range(len(self.scores), len(grown.roots)):
            tree = keep(grown, [place])
            self.bag.add(tree, [self.draws.outside(self.training.first + place)[self.rows]])
            self.scores.append(self.bag.score(tree))
        before, late = self.scores[: -self.patience], self.scores[-self.patience :]
        return bool(before) and max(late) <= max(before) + self.tol


def _seed(random_state: Seed) -> int:
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(MASK))
    if random_state is None:
        return int(np.random.randint(MASK))  # NumPy's own stream, as scikit-learn does
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(MASK))
    return int(_checks._between("random_state", random_state, 0, (1 << 62))) & MASK


def _jobs(n_jobs: int | None) -> int | None:
    """scikit-learn counts backwards from all cores."""
    if n_jobs is None or isinstance(n_jobs, bool) or n_jobs >= -1:
        return n_jobs
    every: Any = engines
    return max(1, int(every._jobs(-1)) + 1 + n_jobs)


def _rows(name: str, value: int | float, n: int, least: int) -> int:
    """A number of rows, or a share of them."""
    if isinstance(value, float):
        share: float = _checks._between(name, value, 0.0, 1.0)
        return max(least, math.ceil(share * n))
    return int(_checks._between(name, value, least, MASK))


def _at_most(name: str, value: Any, n: int) -> int:
    return int(_checks._between(name, value, 1, n))


def _features(value: Features, usable: int) -> int | float:
    """How many features a race draws."""
    if value is None:
        return usable
    if value == "sqrt":
        return max(1, int(math.sqrt(usable)))
    if value == "log2":
        return max(1, int(math.log2(usable)))
    if isinstance(value, str):
        raise ValueError(f"max_features must be 'sqrt', 'log2', a number or None, got {value!r}")
    return value


def _other_names(expected: list[str], got: list[str]) -> str:
    """What to say of feature names that do not match."""
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
