"""The parameters of an estimator, and the options of a training that follow from them."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np

from edgeforest.forest import MASK
from edgeforest.host.cores import usable_cores
from edgeforest.budget import between

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from edgeforest.budget import Budget
    from edgeforest.forest import Forest
    from edgeforest.engines import Name
    from edgeforest.host.progress import Progress
    from edgeforest.host.types import Kind
    from edgeforest.host.values import Array

    Seed = int | np.random.RandomState | np.random.Generator | None
    Score = bool | Callable[[Array, Array], float]
    ClassWeight = dict[Any, float] | Literal["balanced", "balanced_subsample"] | None
    Features = int | float | Literal["sqrt", "log2"] | None

Self = TypeVar("Self", bound="Parameters")
_CRITERIA = {"log_loss": "entropy", "squared_error": "mse"}  # scikit-learn's names, and ours


class Parameters:
    """The parameters of an estimator, and what `fit` finds; the code of both is elsewhere."""

    kind: ClassVar[Kind] = "random-forest"
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

    def _set(self, given: dict[str, Any]) -> None:
        for name in self._parameters():
            setattr(self, name, given[name])

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
        """Change parameters; `fit` checks their values.

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


# ---- The options of a training


def training_options(estimator: Parameters, n: int, m: int) -> dict[str, Any]:
    """The options of `train` that follow from the parameters, for n rows of m features."""
    options: dict[str, Any] = {
        name: getattr(estimator, name)
        for name in ("splitter", "max_depth", "max_leaf_nodes", "min_impurity_decrease")
    }
    options |= {"n_bins": estimator.n_bins, "bootstrap": estimator.bootstrap}
    options["criterion"] = _criterion(estimator)
    options["min_samples_leaf"] = _rows("min_samples_leaf", estimator.min_samples_leaf, n, 1)
    options["min_samples_split"] = _rows("min_samples_split", estimator.min_samples_split, n, 2)
    usable = m
    if estimator.kind == "random-patches":
        options |= {"alpha_n": estimator.alpha_n, "alpha_f": estimator.alpha_f}
        if isinstance(estimator.alpha_f, (int, float)) and 0 < estimator.alpha_f <= 1:
            usable = max(1, int(estimator.alpha_f * m + 0.5))
    options["max_features"] = _features(estimator.max_features, usable)
    options["max_samples"] = estimator.max_samples
    if estimator.max_samples is not None and not isinstance(estimator.max_samples, float):
        options["max_samples"] = int(between("max_samples", estimator.max_samples, 1, n))
    return options


def _criterion(estimator: Parameters) -> str:
    """Our name of the criterion."""
    criterion = _CRITERIA.get(estimator.criterion, estimator.criterion)
    allowed = ("mse",) if estimator.regression else ("gini", "entropy")
    if criterion not in allowed:
        names = [k for k in (*allowed, *_CRITERIA) if _CRITERIA.get(k, k) in allowed]
        raise ValueError(
            f"The 'criterion' parameter of {type(estimator).__name__} must be one of "
            f"{', '.join(names)}. Got {estimator.criterion!r} instead."
        )
    return criterion


def class_weight_of(estimator: Parameters) -> ClassWeight:
    """The weights of the classes; weighted draws are balanced in every tree anyway."""
    given = estimator.class_weight
    return "balanced" if given == "balanced_subsample" else given


def coded_class_weight(estimator: Parameters, labels: Array, sampled: bool) -> Any:
    """The same for classes that are numbered by `labels`; a sample may lack some labels."""
    given = class_weight_of(estimator)
    if not isinstance(given, dict):
        return given
    places = {label: k for k, label in enumerate(labels.tolist())}
    for label in given:
        if label not in places and not sampled:
            raise ValueError(f"class_weight names {label!r}, which is not among the labels")
    return {places[label]: weight for label, weight in given.items() if label in places}


def n_trees_of(estimator: Parameters) -> int:
    """`n_estimators`, checked."""
    return int(between("n_estimators", estimator.n_estimators, 1, 4096))


def seed_of(random_state: Seed) -> int:
    """The seed of a training; a generator of NumPy gives a new one each time.

    >>> seed_of(7)
    7
    """
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(MASK))
    if random_state is None:
        return int(np.random.randint(MASK))  # NumPy's own stream, as scikit-learn does
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(MASK))
    return int(between("random_state", random_state, 0, (1 << 62))) & MASK


def jobs_of(n_jobs: int | None) -> int | None:
    """`n_jobs` as engines take it: scikit-learn counts backwards from all cores.

    >>> jobs_of(None), jobs_of(3), jobs_of(-1), jobs_of(-1000)
    (None, 3, -1, 1)
    """
    if n_jobs is None or isinstance(n_jobs, bool) or n_jobs >= -1:
        return n_jobs
    return max(1, usable_cores() + 1 + n_jobs)


def _rows(name: str, value: int | float, n: int, least: int) -> int:
    """A number of rows, which may be given as a share of n."""
    if isinstance(value, float):
        share: float = between(name, value, 0.0, 1.0)
        return max(least, math.ceil(share * n))
    return int(between(name, value, least, MASK))


def _features(value: Features, usable: int) -> int | float:
    """The number of features that a race draws."""
    if value is None:
        return usable
    if value == "sqrt":
        return max(1, int(math.sqrt(usable)))
    if value == "log2":
        return max(1, int(math.log2(usable)))
    if isinstance(value, str):
        raise ValueError(f"max_features must be 'sqrt', 'log2', a number or None, got {value!r}")
    return value
