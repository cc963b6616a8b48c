"""Types of `core_pure`, which holds none itself: MicroPython does not read annotations."""

from array import array
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from os import PathLike
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, overload

_Kind: TypeAlias = Literal["random-forest", "extra-trees", "random-patches"]
_Criterion: TypeAlias = Literal["gini", "entropy", "mse"]
_Splitter: TypeAlias = Literal["mab", "mab-paper", "exact"]
_Label: TypeAlias = str | int | float  # and bool, which is an int
_ClassWeight: TypeAlias = Literal["balanced"] | dict[Any, float] | dict[Any, int]
_Value: TypeAlias = str | float | None  # a category, a number, or missing

class _Values(Protocol):
    """What has a length and places: list, tuple, bytes, array, ndarray."""

    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...

class _Frame(Protocol):
    """What has columns by name: a frame of pandas or polars, a table of Arrow."""

    @property
    def columns(self) -> Any: ...

class _Readable(Protocol):
    def read(self) -> str | bytes: ...

class _Writable(Protocol):
    def write(self, text: str, /) -> object: ...

VERSION: Final[int]
Z: Final[float]
TOLERANCE: Final[float]
TOLERANCE_IMPURITY: Final[float]
BATCH: Final[int]
EXACT_BELOW: Final[int]
GROUP_ROWS: Final[int]
LOOK_ROWS: Final[int]
EDGE_ROWS: Final[int]
LATE: Final[str]
PAPER_BATCH: Final[int]
RACE_ROWS: Final[int]
LEAST_ROWS: Final[int]
LEAF: Final[int]
MISSING_LEFT: Final[int]
EQUAL: Final[int]
FEATURE: Final[int]
LEVELS: Final[int]
NAN: Final[float]
INF: Final[float]
HUGE: Final[float]
MASK: Final[int]
LOG2E: Final[float]
PIECE: Final[int]

class Rng:
    z: int
    w: int
    def __init__(self, seed: int = ..., stream: int = ...) -> None: ...
    def next(self) -> int: ...
    def below(self, n: int) -> int: ...
    def unit(self) -> float: ...
    def fill(self, values: MutableSequence[int], n: int) -> None: ...
    def shuffle(self, values: MutableSequence[Any], count: int) -> None: ...

class Budget:
    insertions: int | None
    seconds: float | None
    ceiling: int | None
    until: float | None
    spent: Spent
    def __init__(
        self,
        insertions: int | None = ...,
        seconds: float | None = ...,
        bytes: int | None = ...,
    ) -> None: ...
    bytes: int | None
    def __repr__(self) -> str: ...
    def copy(self) -> Budget: ...
    def left(self) -> int | None: ...
    def late(self) -> bool: ...
    def tick(self) -> float: ...
    def take(self, rows: int, width: int) -> int: ...

class Spent:
    insertions: int
    rows_read: int
    rounds: int
    seconds: float
    def __init__(
        self,
        insertions: int = ...,
        rows_read: int = ...,
        rounds: int = ...,
        seconds: float = ...,
    ) -> None: ...
    def __repr__(self) -> str: ...

def make_bounds(values: Iterable[float]) -> array[float]: ...
def code_of(x: float, bounds: Sequence[float]) -> int: ...

class Data:
    n: int
    m: int
    raw: bool
    in_place: bool
    regression: bool
    low: float
    span: float
    classes: list[_Label] | None
    width: int
    names: list[str]
    categories: list[list[_Label] | None]
    def read_labels(
        self, X: _Values, y: _Values, regression: bool, n_features: int | None, by_column: bool
    ) -> None: ...
    def name_features(self, names: _Values | None, categorical: Iterable[str | int]) -> None: ...
    def read_weights(
        self, sample_weight: _Values | None, class_weight: _ClassWeight | None
    ) -> array[int] | None: ...
    def in_time(self) -> None: ...
    def read_rows(self, rng: Rng) -> None: ...

class Gini:
    name: str
    limit: float
    def size(self, cells: Sequence[int]) -> int: ...
    def impurity(self, total: Sequence[int]) -> float: ...
    def score(
        self, left: Sequence[int], total: Sequence[int], n_left: int, n_right: int
    ) -> float: ...
    def per_score(self, n: int) -> float: ...
    def describe(
        self, left: Sequence[int], total: Sequence[int]
    ) -> tuple[float, float, list[float], list[float]]: ...
    def scatter(
        self,
        cells: Sequence[int],
        node: Sequence[int],
        one: Sequence[float],
        two: Sequence[float] | None,
    ) -> float: ...
    def paper(
        self, left: Sequence[int], total: Sequence[int], n_left: int, n_right: int
    ) -> tuple[float, float]: ...

class Entropy(Gini):
    def impurity(self, total: Sequence[int]) -> float: ...
    def score(
        self, left: Sequence[int], total: Sequence[int], n_left: int, n_right: int
    ) -> float: ...
    def per_score(self, n: int) -> float: ...
    def describe(
        self, left: Sequence[int], total: Sequence[int]
    ) -> tuple[float, float, list[float], list[float]]: ...
    def paper(
        self, left: Sequence[int], total: Sequence[int], n_left: int, n_right: int
    ) -> tuple[float, float]: ...

class MSE:
    name: str
    limit: float
    def size(self, cells: Sequence[int]) -> int: ...
    def impurity(self, total: Sequence[int]) -> float: ...
    def score(
        self, left: Sequence[int], total: Sequence[int], n_left: int, n_right: int
    ) -> float: ...
    def per_score(self, n: int) -> float: ...
    def describe(
        self, left: Sequence[int], total: Sequence[int]
    ) -> tuple[float, float, float, float]: ...
    def scatter(
        self, cells: Sequence[int], node: Sequence[int], one: float, two: float | None
    ) -> float: ...
    def paper(
        self, left: Sequence[int], total: Sequence[int], n_left: int, n_right: int
    ) -> tuple[float, float]: ...

CRITERIA: Final[dict[str, type[Gini] | type[MSE]]]

def arms(
    h: list[int], bins: int, stride: int, equal: bool
) -> Iterator[tuple[int, bool, list[int]]]: ...

class Loops:
    engine: str
    def encode(self, values: Sequence[float], bounds: Sequence[float]) -> bytearray: ...
    def insert(
        self,
        h: list[int],
        table: Sequence[int],
        column: Sequence[int],
        rows: Sequence[int],
        labels: Sequence[int],
        times: Sequence[int],
    ) -> None: ...
    def insert_moments(
        self,
        h: list[int],
        table: Sequence[int],
        column: Sequence[int],
        rows: Sequence[int],
        moments: Sequence[Sequence[int]],
        stride: int,
    ) -> None: ...
    def best_arm(
        self,
        criterion: Gini | MSE,
        h: list[int],
        bins: int,
        stride: int,
        equal: bool,
        total: Sequence[int],
        least: int,
    ) -> tuple[float, int, bool] | None: ...
    def partition(
        self,
        rows: MutableSequence[int],
        start: int,
        end: int,
        column: Sequence[int],
        goes_left: Sequence[int],
    ) -> int: ...
    def tally(
        self,
        rows: Sequence[int],
        start: int,
        end: int,
        labels: Sequence[int],
        times: Sequence[int],
        counts: MutableSequence[int],
    ) -> None: ...
    def add_up(
        self,
        rows: Sequence[int],
        start: int,
        end: int,
        targets: Sequence[int],
        times: Sequence[int],
    ) -> tuple[int, int]: ...

class Contender:
    feature: int
    column: Sequence[int]
    table: Sequence[int]
    cuts: Sequence[int]
    bins: int
    equal: bool
    h: list[int] | None
    best: tuple[float, int, bool] | None
    gain: float
    variance: float
    alive: list[int] | None
    def __init__(
        self,
        feature: int,
        column: Sequence[int],
        table: Sequence[int],
        cuts: Sequence[int],
        equal: bool,
    ) -> None: ...
    def left(self, t: int, missing_left: bool, stride: int) -> list[int]: ...

class Split:
    feature: int
    code: int
    equal: bool
    missing_left: bool
    gain: float
    def __init__(
        self, feature: int, code: int, equal: bool, missing_left: bool, gain: float
    ) -> None: ...

def goes_left(feature: int, code: int) -> bytearray: ...

_Grown: TypeAlias = "Forest"  # the name is taken inside Training

class Training(Data, Loops):
    Forest: type[_Grown] | None
    budget: Budget
    kind: str
    criterion: Gini | MSE
    splitter: str
    n_trees: int
    max_depth: int
    max_features: int
    min_samples_leaf: int
    min_samples_split: int
    min_impurity_decrease: float
    max_leaf_nodes: int
    n_bins: int
    bootstrap: bool
    alpha_n: float
    alpha_f: float
    confidence: float | None
    z: float
    tolerance: float
    batch: int
    seed: int
    first: int
    sample_size: int
    planned: int
    grown: _Grown
    def __init__(
        self,
        X: _Values,
        y: _Values,
        *,
        kind: _Kind = ...,
        criterion: _Criterion = ...,
        splitter: _Splitter = ...,
        n_trees: int = ...,
        max_depth: int | None = ...,
        max_features: int | float | None = ...,
        min_samples_leaf: int = ...,
        min_samples_split: int = ...,
        min_impurity_decrease: float = ...,
        max_leaf_nodes: int | None = ...,
        n_bins: int | None = ...,
        bootstrap: bool | None = ...,
        max_samples: int | float | None = ...,
        alpha_n: float = ...,
        alpha_f: float = ...,
        class_weight: _ClassWeight | None = ...,
        sample_weight: _Values | None = ...,
        names: _Values | None = ...,
        categorical: Iterable[str | int] = ...,
        n_features: int | None = ...,
        by_column: bool = ...,
        budget: int | Budget | None = ...,
        confidence: float | None = ...,
        z: float = ...,
        tolerance: float = ...,
        batch: int = ...,
        seed: int = ...,
        first: int = ...,
    ) -> None: ...
    def __iter__(self) -> Iterator[Training]: ...
    def working_bytes(self, nodes: int = ..., growing: int = ...) -> int: ...
    def read(self, rows: Sequence[int], stride: int) -> tuple[list[int], list[int], list[Any]]: ...
    def add(
        self, c: Contender, values: tuple[list[int], list[int], list[Any]], stride: int
    ) -> None: ...
    def score(
        self, racing: list[Contender], stride: int, total: Sequence[int], least: int
    ) -> None: ...
    def describe(
        self, racing: list[Contender], stride: int, total: Sequence[int], rest: float
    ) -> None: ...
    def cells(self, start: int, end: int) -> list[int] | tuple[int, int, int]: ...
    def forest(self) -> _Grown: ...

def train(
    X: _Values,
    y: _Values,
    *,
    kind: _Kind = ...,
    criterion: _Criterion = ...,
    splitter: _Splitter = ...,
    n_trees: int = ...,
    max_depth: int | None = ...,
    max_features: int | float | None = ...,
    min_samples_leaf: int = ...,
    min_samples_split: int = ...,
    min_impurity_decrease: float = ...,
    max_leaf_nodes: int | None = ...,
    n_bins: int | None = ...,
    bootstrap: bool | None = ...,
    max_samples: int | float | None = ...,
    alpha_n: float = ...,
    alpha_f: float = ...,
    class_weight: _ClassWeight | None = ...,
    sample_weight: _Values | None = ...,
    names: _Values | None = ...,
    categorical: Iterable[str | int] = ...,
    n_features: int | None = ...,
    by_column: bool = ...,
    budget: int | Budget | None = ...,
    confidence: float | None = ...,
    z: float = ...,
    tolerance: float = ...,
    batch: int = ...,
    seed: int = ...,
    first: int = ...,
) -> Forest: ...
def train_steps(
    X: _Values,
    y: _Values,
    *,
    kind: _Kind = ...,
    criterion: _Criterion = ...,
    splitter: _Splitter = ...,
    n_trees: int = ...,
    max_depth: int | None = ...,
    max_features: int | float | None = ...,
    min_samples_leaf: int = ...,
    min_samples_split: int = ...,
    min_impurity_decrease: float = ...,
    max_leaf_nodes: int | None = ...,
    n_bins: int | None = ...,
    bootstrap: bool | None = ...,
    max_samples: int | float | None = ...,
    alpha_n: float = ...,
    alpha_f: float = ...,
    class_weight: _ClassWeight | None = ...,
    sample_weight: _Values | None = ...,
    names: _Values | None = ...,
    categorical: Iterable[str | int] = ...,
    n_features: int | None = ...,
    by_column: bool = ...,
    budget: int | Budget | None = ...,
    confidence: float | None = ...,
    z: float = ...,
    tolerance: float = ...,
    batch: int = ...,
    seed: int = ...,
    first: int = ...,
) -> Training: ...

class Tree:
    start: array[int]
    end: array[int]
    depth: array[int]
    feature: array[int]
    code: array[int]
    threshold: array[float]
    gain: array[float]
    left: array[int]
    right: array[int]
    votes: array[int]
    def __init__(self) -> None: ...
    def add(self, start: int, end: int, depth: int) -> int: ...
    def waits(self, node: int) -> bool: ...

HEADER: Final[tuple[tuple[str, str], ...]]

class Forest:
    kind: str
    criterion: str
    splitter: str
    engine: str | None
    seed: int
    names: list[str]
    categories: list[list[_Label] | None]
    classes: list[_Label] | None
    importances: list[int]
    limit: int | None
    scale: int
    spent: Spent
    low: float
    span: float
    roots: array[int]
    feature: array[int]
    threshold: array[float]
    right: array[int]
    votes: array[int]
    cut: array[int]
    regression: bool
    n_votes: int
    n_features: int
    all_numbers: bool
    places: list[dict[_Label, int] | None]
    def __init__(self) -> None: ...
    def prepare(self) -> None: ...
    def __len__(self) -> int: ...
    def add_tree(self, tree: Tree) -> None: ...
    def encode(self, row: _Values) -> array[float]: ...
    def predict_into(self, row: _Values, out: MutableSequence[int]) -> int: ...
    def value(self, total: int) -> float: ...
    # One row gives a label (of a regression a float); several give a list. What an ndarray gives
    # depends on its shape.
    @overload
    def predict(self, rows: Sequence[_Value]) -> Any: ...
    @overload
    def predict(self, rows: Sequence[_Values] | Iterator[_Values]) -> list[Any]: ...
    @overload
    def predict(self, rows: _Values | Iterator[Any] | _Frame) -> Any: ...
    @overload
    def predict_proba(self, rows: Sequence[_Value]) -> list[float]: ...
    @overload
    def predict_proba(self, rows: Sequence[_Values] | Iterator[_Values]) -> list[list[float]]: ...
    @overload
    def predict_proba(self, rows: _Values | Iterator[Any] | _Frame) -> Any: ...
    @property
    def feature_importances(self) -> list[float]: ...
    def text(self) -> Iterator[str]: ...
    def to_json(self) -> str: ...
    def write(self, stream: _Writable) -> None: ...
    def save(self, path: str | PathLike[str]) -> None: ...

_F = TypeVar("_F", bound=Forest)

@overload
def load(source: str | bytes | bytearray | PathLike[str] | _Readable) -> Forest: ...
@overload
def load(
    source: str | bytes | bytearray | PathLike[str] | _Readable, kind: type[_F] = ...
) -> _F: ...
