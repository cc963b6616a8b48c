"""Types of `online`, which holds none itself: MicroPython does not read annotations."""

from array import array
from collections.abc import Iterable
from os import PathLike
from typing import Any, Final, TypeVar

from edgeforest.core_pure import Budget, Forest, _Criterion, _Kind, _Values
from edgeforest.engines import Name

_Learner = TypeVar("_Learner", bound=OnlineForest)

START: Final[int]
STEP: Final[int]
PATIENCE: Final[int]
SURE: Final[float]
PRIOR: Final[int]
EVERY: Final[int]
CLEARLY: Final[int]
MANY: Final[int]
FIRST: Final[int]
TRIES: Final[int]
UNIT: Final[int]
LONG: Final[int]
MOST: Final[int]
NONE: Final[int]
SCALE: Final[int]
CATEGORIES: Final[int]
PART: Final[int]
BYTES: Final[int]
RECENT: Final[int]

class Plan: ...

class Grove:
    plan: Any
    seen: int
    def __init__(self, plan: Any) -> None: ...
    def learn(
        self, values: array[float], labels: array[int], n: int, guesses: array[int]
    ) -> None: ...
    def tree(self, t: int) -> list[Any]: ...
    def plant(
        self,
        t: int,
        feature: array[int],
        threshold: array[float],
        left: array[int],
        right: array[int],
        votes: array[int],
        gains: list[float],
    ) -> None: ...
    def renew(self, t: int) -> None: ...
    def recall(self, values: array[float], labels: array[int], n: int) -> None: ...
    def latest(self) -> tuple[array[float], array[int]]: ...

def in_order(
    plan: Any, seen: int, values: array[float], labels: array[int]
) -> tuple[array[float], array[int]]: ...

class OnlineForest:
    bytes: int
    engine: Name | None
    options: dict[str, Any]
    def __init__(
        self,
        features: int | Iterable[str] | None = ...,
        *,
        classes: Iterable[Any] | None = ...,
        categorical: Iterable[str | int] = ...,
        kind: _Kind = ...,
        criterion: _Criterion = ...,
        n_trees: int = ...,
        max_depth: int | None = ...,
        max_features: int | float | None = ...,
        min_samples_leaf: int = ...,
        max_leaf_nodes: int = ...,
        n_bins: int | None = ...,
        alpha_n: float = ...,
        alpha_f: float = ...,
        window: int = ...,
        fade: int = ...,
        budget: Budget | None = ...,
        seed: int = ...,
        engine: Name | None = ...,
    ) -> None: ...
    def update(self, row: _Values, label: Any) -> Any: ...
    def update_batch(self, rows: _Values, labels: _Values) -> list[Any]: ...
    @property
    def rows(self) -> int: ...
    @property
    def error(self) -> float: ...
    @property
    def recent_error(self) -> float: ...
    @property
    def accuracy(self) -> float: ...
    @property
    def recent_accuracy(self) -> float: ...
    @property
    def classes(self) -> list[Any] | None: ...
    def forest(self) -> Forest: ...
    def predict(self, rows: _Values) -> Any: ...
    def predict_proba(self, rows: _Values) -> Any: ...
    @classmethod
    def from_forest(
        cls: type[_Learner], forest: Forest, latest: Any = ..., **options: Any
    ) -> _Learner: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    @classmethod
    def load(
        cls: type[_Learner], path: str | PathLike[str], engine: Name | None = ...
    ) -> _Learner: ...
