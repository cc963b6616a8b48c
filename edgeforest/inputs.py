"""Read what scikit-learn's users hold: arrays, lists, array.array, DataFrames.

Errors that scikit-learn words in a way its tools look for are worded that way.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from edgeforest import core_pure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgeforest.core_pure import Forest

Array: TypeAlias = "NDArray[Any]"


def scikit_learn(module: str, name: str, otherwise: type) -> Any:
    """A class of scikit-learn where that is loaded, so that its tools know our errors."""
    return getattr(sys.modules.get(f"sklearn.{module}"), name, otherwise)


class Rows:
    """X as the engines take it: one array of numbers, or columns where some are categories."""

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
        self.names = names  # of a DataFrame's columns
        self.categorical = categorical

    def options(self) -> dict[str, Any]:
        """Options of `train` that go with `values`."""
        options: dict[str, Any] = {"names": self.names}
        if self.categorical:
            options.update(by_column=True, categorical=list(self.categorical))
        return options

    def encoded(self, forest: Forest) -> Array:
        """The numbers that trees compare: categories become their codes, unknown ones missing."""
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


def read(X: Any, categorical: Any = None) -> Rows:
    """Look at X: numbers become one array, categories lists of plain values.

    `categorical` names or numbers the categorical columns, or marks them by a list of booleans.
    None takes those that a DataFrame says are categories, or that hold text.
    """
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError(
            "Sparse data was passed, but dense data is required; use X.toarray() to convert it"
        )
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        return _read_frame(X, categorical)
    array = _as_array(X)
    n, m = array.shape
    marked = _marked(categorical, m, None)
    if marked:
        columns: list[Any] = []
        for f in range(m):
            column = array[:, f]
            columns.append(_categories(column, f) if f in marked else _numbers(column, f))
        return Rows(columns, n, m, categorical=marked)
    return Rows(_numbers(array, None), n, m)


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
    _not_empty(array.shape)
    return array


def _not_empty(shape: tuple[int, ...]) -> None:
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required."
            )


def _marked(categorical: Any, m: int, names: Sequence[Any] | None) -> list[int]:
    """The numbers of the columns that were said to be categorical."""
    if categorical is None:
        return []
    if isinstance(categorical, (str, int)):
        raise TypeError(
            f"categorical_features must be a list of columns, got {categorical!r}; write "
            f"[{categorical!r}]"
        )
    given = list(categorical)
    if given and all(isinstance(v, (bool, np.bool_)) for v in given):
        if len(given) != m:
            raise ValueError(f"categorical_features has {len(given)} marks, but X has {m} features")
        return [f for f, mark in enumerate(given) if mark]
    found = set()
    for item in given:
        if names is not None and item in names:
            found.add(list(names).index(item))
        elif isinstance(item, (int, np.integer)) and 0 <= item < m:
            found.add(int(item))
        else:
            raise ValueError(
                f"categorical_features names {item!r}, which is no column of X (it has {m})"
            )
    return sorted(found)


def _read_frame(X: Any, categorical: Any) -> Rows:
    n, m = X.shape
    _not_empty((n, m))
    labels = list(X.columns)
    strings = [isinstance(label, str) for label in labels]
    if any(strings) and not all(strings):
        raise TypeError(
            "Feature names are only supported if all input features have string names; convert "
            "them with X.columns = X.columns.astype(str)"
        )
    names = labels if all(strings) else None
    columns = [X.iloc[:, f] if hasattr(X, "iloc") else X[labels[f]] for f in range(m)]
    if categorical is None:
        marked = [f for f in range(m) if _is_category(columns[f])]
    else:
        marked = _marked(categorical, m, labels)
    if marked:
        values = [
            _categories(c, labels[f]) if f in marked else _numbers(c, labels[f])
            for f, c in enumerate(columns)
        ]
        return Rows(values, n, m, names, marked)
    if all(getattr(c.dtype, "kind", "O") in "fiu" and hasattr(c.dtype, "str") for c in columns):
        return Rows(_numbers(X.to_numpy(), None), n, m, names)
    table = np.empty((n, m), np.float64)
    for f, column in enumerate(columns):
        table[:, f] = _numbers(column, labels[f])
    return Rows(table, n, m, names)


def _is_category(column: Any) -> bool:
    """Whether a column of a DataFrame is categorical by its type, or holds text."""
    kind = str(column.dtype).lower()
    if kind.startswith(("cat", "enum")):
        return True
    if kind.startswith(("str", "utf8")):
        return True
    return kind == "object" and any(isinstance(v, str) for v in column)


def _categories(column: Any, f: Any) -> list[Any]:
    """Plain values, None where one is missing."""
    checks: Any = core_pure  # whose stub has only what is public
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    what = f"categories of {f!r}"
    try:  # each value once
        plain = {v: None if _is_na(v) else checks._plain(v, 0, what) for v in set(values)}
        return [plain[v] for v in values]
    except TypeError:  # one by one, to say where
        return [None if _is_na(v) else checks._plain(v, i, what) for i, v in enumerate(values)]


def _is_na(v: Any) -> bool:
    """Whether that is what pandas has for missing: its NA cannot be compared."""
    return type(v).__name__ in ("NAType", "NaTType")


def _numbers(values: Any, f: Any) -> Array:
    """Numbers in a type that the engines read, NaN where one is missing; none is infinite."""
    dtype: Any = getattr(values, "dtype", None)
    array: Array
    if hasattr(dtype, "na_value") and hasattr(values, "to_numpy") and dtype.kind in "biuf":
        array = values.to_numpy(dtype=np.float64, na_value=np.nan)  # pandas' nullable numbers
    else:
        array = np.asarray(values)
    where = "X" if f is None else f"feature {f!r}"
    kind = array.dtype.kind
    if kind == "c":
        raise ValueError(f"Complex data not supported: {where} has it")
    if kind == "b":
        return array.view(np.uint8)
    if kind in "OUS":
        array = _parsed(array, where)
    elif kind not in "fiu":
        raise TypeError(f"{where} must hold numbers, got {array.dtype}; convert it first")
    elif kind != "f":
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    wide = np.float32 if array.dtype.itemsize < 5 else np.float64
    array = array.astype(wide, copy=False)
    low, high = array.min(), array.max()  # no copy, as NumPy's tests for infinity would make
    if low != low:  # some are missing
        low, high = np.fmin.reduce(array, axis=None), np.fmax.reduce(array, axis=None)
    if low < -core_pure.HUGE or high > core_pure.HUGE:
        raise ValueError(
            f"Input {where} contains infinity or a value too large for dtype('float32'); NaN "
            "means missing"
        )
    return array


def _parsed(array: Array, where: str) -> Array:
    """Numbers that stand in an array of objects; None and pandas' NA are missing."""
    flat = array.ravel()
    for i, v in enumerate(flat):
        if isinstance(v, (str, bytes)):
            raise ValueError(
                f"{where} holds {v!r}, which is no number; name the column in "
                "categorical_features if it has categories"
            )
        if v is None or _is_na(v):
            flat = flat.copy() if flat.base is not None else flat
            flat[i] = np.nan
    return flat.astype(np.float64).reshape(array.shape)


def _one_column(y: Any, what: str) -> Array:
    """A target or weights as an array of one dimension."""
    array = np.asarray(y)
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


def _target(y: Any, n: int) -> Array:
    if y is None:
        raise ValueError(
            "fit requires y to be passed, but the target y is None: give a label or number a row"
        )
    return _fits(_one_column(y, "y"), n, "y")


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
        array = np.array(list(y), object)  # NumPy has made text of numbers, if there were some
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
