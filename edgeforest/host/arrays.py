"""Read X, y and weights for estimators: arrays, lists, array.array, and frames.

Errors that scikit-learn's tools look for have scikit-learn's wording.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeforest.host.columns import Frame
from edgeforest.host.frames import is_frame, labels
from edgeforest.host.values import Array, categories, marked, numbers, refuse_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from edgeforest.forest import Forest


def scikit_learn(module: str, name: str, otherwise: type) -> Any:
    """A class of scikit-learn if that is loaded, so that its tools recognise our errors."""
    return getattr(sys.modules.get(f"sklearn.{module}"), name, otherwise)


class Rows:
    """X as the engines take it: one array of numbers, or columns if some are categories."""

    def __init__(
        self,
        values: Any,
        n: int,
        m: int,
        names: list[str] | None = None,
        categorical: Sequence[int] = (),
    ) -> None:
        self.values = values  # a 2-D array, or a list of columns if some are categorical
        self.n = n
        self.m = m
        self.names = names  # of a frame's columns
        self.categorical = categorical

    def options(self) -> dict[str, Any]:
        """The options of `train` that go with `values`."""
        options: dict[str, Any] = {"names": self.names}
        if self.categorical:
            options.update(by_column=True, categorical=list(self.categorical))
        return options

    def encoded(self, forest: Forest) -> Array:
        """The numbers that trees compare: categories become codes, unknown ones are missing."""
        if not self.categorical:
            array: Array = self.values
            return array
        codes = np.empty((self.n, self.m), np.float32)
        for f, column in enumerate(self.values):
            places = forest.places[f]
            if places is None:
                codes[:, f] = column
            else:
                codes[:, f] = [places.get(v, np.nan) for v in column]
        return codes


def read(
    X: Any,
    categorical: Any = None,
    check: Callable[[list[str] | None, int], object] | None = None,
) -> Rows:
    """Read X: numbers become one array, categories lists of plain values.

    `categorical` gives the categorical columns by name, by number, or as a list of booleans. None
    takes those that are categories by their type in a frame, or that hold text. `check` is called
    with the names and the number of the columns before the values of a frame are read.
    """
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError(
            "Sparse data was passed, but dense data is required; use X.toarray() to convert it"
        )
    if is_frame(X):
        frame = Frame(X)
        if check is not None:
            check(frame.names, len(frame.columns))
        return _rows_of(frame, categorical)
    array = _as_array(X)
    n, m = array.shape
    if check is not None:
        check(None, m)
    places = marked(categorical, m, None)
    if places:
        columns: list[Any] = []
        for f in range(m):
            column = array[:, f]
            columns.append(categories(column, f) if f in places else numbers(column, f))
        return Rows(columns, n, m, categorical=places)
    return Rows(numbers(array), n, m)


def read_as(forest: Forest, X: Any) -> Rows:
    """Read rows for a forest: the columns of a frame are found by name."""
    categorical = [f for f, kinds in enumerate(forest.categories) if kinds is not None]
    if not is_frame(X):
        return read(X, categorical, partial(_check_width, forest))
    frame = Frame(X)
    frame.arrange(forest.names)
    return _rows_of(frame, categorical)


def encoded_as(forest: Forest, X: Any) -> Array:
    """Rows as the float32 numbers that the trees of a forest compare, (rows, features)."""
    found: Array = read_as(forest, X).encoded(forest).astype(np.float32, copy=False)
    return found


def _check_width(forest: Forest, names: list[str] | None, m: int) -> None:
    if m != forest.n_features:
        raise ValueError(f"X must have {forest.n_features} features, got {m}")


def _rows_of(frame: Frame, categorical: Any) -> Rows:
    """The rows of a frame, with the categories that are given, or else those by type."""
    m = len(frame.columns)
    refuse_empty((frame.n, m))
    places = frame.categorical()
    if categorical is not None:
        places = marked(categorical, m, frame.labels)
    if not places and frame.block is not None:  # without a copy
        return Rows(numbers(frame.block.to_numpy()), frame.n, m, frame.names)
    columns = frame.values(places)
    if places:
        return Rows(columns, frame.n, m, frame.names, places)
    return Rows(np.column_stack(columns), frame.n, m, frame.names)


def _as_array(X: Any) -> Array:
    try:
        array = np.asarray(X)
        if array.dtype.kind in "US" and not isinstance(X, np.ndarray):
            array = np.array(X, dtype=object)  # numbers beside text stay numbers
    except ValueError:  # ragged
        raise ValueError("X must be a table: every row needs the same number of values") from None
    if array.ndim != 2:
        advice = (
            "Reshape your data either using array.reshape(-1, 1) if your data has a single feature "
            "or array.reshape(1, -1) if it contains a single sample."
        )
        raise ValueError(
            f"Expected 2D array, got {'scalar' if array.ndim == 0 else f'{array.ndim}D'} array "
            f"instead. {advice}"
        )
    refuse_empty(array.shape)
    return array


# ---- Targets and weights


def read_target(y: Any, n: int, regression: bool) -> tuple[Array, Array | None]:
    """The values or class numbers to train with, and the classes (None for a regression)."""
    if regression:
        return read_values(y, n), None
    classes, codes = read_classes(y, n)
    return codes, classes


def read_values(y: Any, n: int) -> NDArray[np.float64]:
    """The targets of a regression."""
    array = _target(y, n)
    if array.dtype.kind not in "biufO":
        raise ValueError(f"y must hold numbers for a regression, got {array.dtype}")
    try:
        return _finite(array.astype(np.float64), "y")
    except TypeError:
        raise ValueError("y must hold numbers for a regression, and none may be missing") from None


def read_classes(y: Any, n: int) -> tuple[Array, NDArray[np.intp]]:
    """The classes, sorted, and the place of each row's label among them."""
    array = _finite(_target(y, n), "y")
    if array.dtype.kind == "f" and (array != np.floor(array)).any():
        raise ValueError(
            "Unknown label type: continuous. y holds numbers that are not whole: use a regressor, "
            "or make classes of them"
        )
    if array.dtype.kind not in "biufUO":
        raise ValueError(f"Unknown label type: {array.dtype}; labels are text or whole numbers")
    if array.dtype.kind == "U" and not isinstance(y, np.ndarray) and hasattr(y, "__iter__"):
        array = np.array(list(y), object)  # NumPy has turned numbers beside text into text
    if array.dtype.kind == "O":
        plain = (str, bool, int, float, np.generic)
        if len({isinstance(v, str) for v in array}) > 1 or any(
            not isinstance(v, plain) or v != v for v in array
        ):
            raise ValueError(
                "Unknown label type: y must be all text or all numbers, and none may be missing"
            )
        if isinstance(array[0], str):
            array = array.astype(str)
    classes, codes = np.unique(array, return_inverse=True)
    return classes, codes.astype(np.intp, copy=False)


def read_weights(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """The weights of the rows."""
    if sample_weight is None:
        return None
    array = np.asarray(sample_weight)
    if array.ndim == 0:
        array = np.full(n, array)
    if array.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got {array.ndim}D array")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"sample_weight must hold numbers, got {array.dtype}")
    array = _finite(_fits(array, n, "sample_weight").astype(np.float64), "sample_weight")
    if (array < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`")
    if not array.any():
        raise ValueError("Sample weights must contain at least one non-zero number")
    return array


def _target(y: Any, n: int) -> Array:
    if y is None:
        raise ValueError(
            "fit requires y to be passed, but the target y is None: give each row a label or number"
        )
    return _fits(_one_column(y, "y"), n, "y")


def _one_column(y: Any, what: str) -> Array:
    """A target as an array of one dimension."""
    array = np.asarray(y)
    if array.dtype == object and array.ndim == 1 and not isinstance(y, (np.ndarray, list, tuple)):
        array = np.asarray(labels(y))  # whose missing values are None
    if array.ndim == 2 and array.shape[1] == 1:
        warnings.warn(
            f"A column-vector {what} was passed when a 1d array was expected. Please change the "
            "shape to (n_samples,), for example using ravel().",
            scikit_learn("exceptions", "DataConversionWarning", UserWarning),
            stacklevel=5,
        )
        array = array.ravel()
    if array.ndim != 1:
        raise ValueError(f"{what} should be a 1d array, got an array of shape {array.shape}")
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {what} has it")
    return array


def _fits(array: Array, n: int, what: str) -> Array:
    if len(array) != n:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {n}, "
            f"{what} has {len(array)}"
        )
    return array


def _finite(array: Array, what: str) -> Array:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        found = "NaN" if np.isnan(array).any() else "infinity"
        raise ValueError(f"Input {what} contains {found}; drop the rows that have it")
    return array
