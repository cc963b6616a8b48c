"""Read what users hold: arrays, lists, array.array, and frames of pandas, polars or Arrow.

Errors that scikit-learn words in a way its tools look for are worded that way.
"""

from __future__ import annotations

import sys
import warnings
from datetime import UTC, date, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from edgeforest import core_pure
from edgeforest.engines import is_frame
from edgeforest.host import arrow
from edgeforest.host.names import listed, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


def read(
    X: Any,
    categorical: Any = None,
    check: Callable[[list[str] | None, int], object] | None = None,
) -> Rows:
    """Look at X: numbers become one array, categories lists of plain values.

    `categorical` names or numbers the categorical columns, or marks them by a list of booleans.
    None takes those that a DataFrame says are categories, or that hold text. `check` is called
    with the names of the columns and their number before the values of a DataFrame are read.
    """
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError(
            "Sparse data was passed, but dense data is required; use X.toarray() to convert it"
        )
    if is_frame(X):
        frame = Frame(X)
        if check is not None:
            check(frame.names, len(frame.columns))
        return frame.rows(categorical)
    array = _as_array(X)
    n, m = array.shape
    if check is not None:
        check(None, m)
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


def _marked(
    categorical: Any, m: int, names: Sequence[Any] | None, what: str = "categorical_features"
) -> list[int]:
    """The numbers of the columns that were said to be categorical."""
    if categorical is None:
        return []
    if isinstance(categorical, (str, int)):
        raise TypeError(
            f"{what} must be a list of columns, got {categorical!r}; write [{categorical!r}]"
        )
    given = list(categorical)
    if given and all(isinstance(v, (bool, np.bool_)) for v in given):
        if len(given) != m:
            raise ValueError(f"{what} has {len(given)} marks, but X has {m} features")
        return [f for f, mark in enumerate(given) if mark]
    found = set()
    for item in given:
        if names is not None and item in names:
            found.add(list(names).index(item))
        elif isinstance(item, (int, np.integer)) and 0 <= item < m:
            found.add(int(item))
        else:
            raise ValueError(f"{what} names {item!r}, which is no column of X (it has {m})")
    return sorted(found)


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
    array: Array = np.asarray(values)
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
    if not array.size:
        return array
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


# ---- Frames: what has columns by name ----------------------------------------------------------
# Truths become 0 and 1, points in time seconds since 1970 in UTC, durations and times of day
# seconds, decimals floats: as from Parquet files.


class Column:
    """A column of a frame: whether it is categorical, its plain values (None: missing), its numbers."""

    def __init__(
        self,
        kind: Any,
        category: bool,
        usable: bool,
        plain: Callable[[], list[Any]],
        numbers: Callable[[], Array],
    ) -> None:
        self.kind = str(kind)
        self.category = category
        self.usable = usable  # numbers, text, truths or times
        self.plain = plain
        self.numbers = numbers


class Frame:
    """The columns of a frame: of pandas, polars, Arrow, or what speaks one of their protocols."""

    def __init__(self, X: Any) -> None:
        X = collected(X)
        labels, self.n, self.columns = _opened(X)
        texts = [isinstance(label, str) for label in labels]
        if any(texts) and not all(texts):
            raise TypeError(
                "Feature names are only supported if all input features have string names; convert "
                "them with X.columns = X.columns.astype(str)"
            )
        self.labels = labels
        self._whole = None  # of pandas, if all of it is numbers of NumPy's
        if hasattr(type(X), "iloc") and all(
            isinstance(dtype, np.dtype) and dtype.kind in "fiu" for dtype in X.dtypes
        ):
            self._whole = X
        self.names: list[str] | None = labels if all(texts) else None  # pandas counts from 0

    def categorical(self) -> list[int]:
        """The places of the columns that are categories by their type, or text."""
        return [f for f, column in enumerate(self.columns) if column.category]

    def by_name(self) -> dict[str, Column]:
        """The columns that hold what can be learned from."""
        self._refuse_twice()
        found = zip(map(str, self.labels), self.columns, strict=True)
        return {name: column for name, column in found if column.usable}

    def values(self, categorical: Sequence[int]) -> list[Any]:
        """All columns: categories as lists of plain values, the others as arrays of numbers."""
        found: list[Any] = []
        for f, (label, column) in enumerate(zip(self.labels, self.columns, strict=True)):
            if not column.usable:
                raise TypeError(
                    f"column {quoted(label)} holds {column.kind}, which is neither numbers, text, truths "
                    "nor times; leave it out, or convert it"
                )
            if f in categorical:
                found.append(_categories(column.plain(), label))
            else:
                found.append(_numbers(column.numbers(), label))
        return found

    def rows(self, categorical: Any = None) -> Rows:
        """All rows, with the categories that are named, or that are some by their type."""
        m = len(self.columns)
        _not_empty((self.n, m))
        marked = self.categorical()
        if categorical is not None:
            marked = _marked(categorical, m, self.labels)
        if not marked and self._whole is not None:  # of one block, without a copy
            return Rows(_numbers(self._whole.to_numpy(), None), self.n, m, self.names)
        columns = self.values(marked)
        if marked:
            return Rows(columns, self.n, m, self.names, marked)
        return Rows(np.column_stack(columns), self.n, m, self.names)

    def like(self, names: Sequence[str]) -> Frame:
        """The same frame with its columns in the order of a forest's features.

        A forest without names, or a frame without, goes by the order.
        """
        self._refuse_twice()
        own = self.names
        unnamed = own is None or list(names) == [f"x{f}" for f in range(len(names))]
        if own is None or (unnamed and set(own) != set(names)):
            if len(self.columns) != len(names):
                raise ValueError(
                    f"the frame has {len(self.columns)} columns, the forest was trained on "
                    f"{len(names)}; give these"
                )
            return self
        places = {name: place for place, name in enumerate(own)}
        absent = [name for name in names if name not in places]
        if absent:
            raise ValueError(
                f"the frame has no column {quoted(absent[0])}, which the forest was trained on; it has "
                f"{listed(own)}"
            )
        extra = sorted(places.keys() - set(names), key=own.index)
        if extra:
            raise ValueError(
                f"the frame has columns that the forest was not trained on: {listed(extra)}; "
                "leave them out"
            )
        self.columns = [self.columns[places[name]] for name in names]
        self.names = self.labels = list(names)
        self._whole = None
        return self

    def _refuse_twice(self) -> None:
        if len(set(self.labels)) < len(self.labels):
            twice = [label for label in self.labels if self.labels.count(label) > 1]
            raise ValueError(f"the frame has more than one column {quoted(twice[0])}; rename one")


def read_as(forest: Forest, X: Any) -> Rows:
    """Rows for a forest: those of a frame by the names of its columns."""
    categories = [f for f, kinds in enumerate(forest.categories) if kinds is not None]
    return Frame(X).like(forest.names).rows(categories) if is_frame(X) else read(X, categories)


def rows_of(forest: Forest, X: Any) -> Any:
    """The rows of a frame as `Forest.predict` takes them."""
    frame = (X if isinstance(X, Frame) else Frame(X)).like(forest.names)
    categories = [f for f, kinds in enumerate(forest.categories) if kinds is not None]
    if frame.n == 0:
        return []
    columns = frame.values(categories)
    if not categories:
        return np.column_stack([np.asarray(column, np.float32) for column in columns])
    return list(zip(*(list(column) for column in columns), strict=True))


def row_of(forest: Forest, row: Any) -> list[Any]:
    """The values of a row of a frame of pandas, by name if they have the names of the features."""
    values = _pandas_column(row).plain()
    found = dict(zip(row.index, values, strict=True))
    return [found[name] for name in forest.names] if {*found} == {*forest.names} else values


def parted(X: Any, y: Any) -> tuple[Any, Any]:
    """A frame and its labels, which may be named by y: the others are the features."""
    X = collected(X)
    if not isinstance(y, str):
        return X, y
    names = list(X.column_names if hasattr(type(X), "column_names") else X.columns)
    if names.count(y) != 1:
        found = "more than one" if y in names else "no"
        raise ValueError(f"the frame has {found} column {quoted(y)}; it has {listed(names)}")
    rest = [name for name in names if name != y]
    if hasattr(type(X), "column_names"):
        return X.select(rest), X.column(y)
    return X[rest], X[y]


def for_training(X: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """X and the options of a training, of a frame: its columns, their names, and which are categories."""
    for name in ("by_column", "n_features"):
        if options.get(name):
            raise ValueError(f"{name} is for lists and buffers; a frame has columns: leave it out")
    frame = Frame(X)
    frame._refuse_twice()
    names = frame.names if options.get("names") is None else options["names"]
    asked = _marked(options.get("categorical"), len(frame.columns), names, "categorical")
    categorical = sorted({*frame.categorical(), *asked})
    more = {"names": names, "categorical": categorical, "by_column": True}
    return frame.values(categorical), {**options, **more}


def labels(y: Any) -> Any:
    """Labels, targets or weights as the engines take them: an array of numbers, or a list."""
    if is_frame(y):
        frame = Frame(y)
        if len(frame.columns) != 1:
            raise ValueError(
                f"y must be one column, got {len(frame.columns)}: {listed(frame.labels)}"
            )
        return _labels_of(frame.columns[0])
    column = _series(y)
    return y if column is None else _labels_of(column)


def _labels_of(column: Column) -> Any:
    values = column.plain()
    kinds = set(map(type, values))
    if kinds == {int} and max(map(abs, values)) < 1 << 62:
        return np.array(values, np.int64)  # which is quicker to look through
    if kinds == {float} or "Decimal" in {kind.__name__ for kind in kinds}:
        return column.numbers()
    return values


def _series(values: Any) -> Column | None:
    """A column that stands alone: a Series of pandas or polars, an array of Arrow."""
    kind = type(values)
    if hasattr(kind, "iloc"):
        return _pandas_column(values)
    if hasattr(kind, "to_physical"):
        return _polars_column(values)
    if hasattr(kind, "to_pylist"):
        return _arrow_column(values)
    return None


def collected(X: Any) -> Any:
    """A frame that lies in memory, of pandas, polars or pyarrow; what is lazy is worked out."""
    kind = type(X)
    if hasattr(kind, "collect_schema") and hasattr(kind, "collect"):
        return X.collect()  # of polars
    if hasattr(kind, "compute"):  # of Dask
        raise TypeError(f"a {kind.__name__} is not computed yet; give X.compute()")
    if hasattr(kind, "iloc") or (hasattr(kind, "get_columns") and hasattr(kind, "columns")):
        return X
    return _as_arrow(X)


def _opened(X: Any) -> tuple[list[Any], int, list[Column]]:
    """The labels of a frame's columns, how many rows it has, and the columns."""
    if hasattr(type(X), "iloc"):
        found = list(X.columns)
        return found, len(X), [_pandas_column(X.iloc[:, f]) for f in range(len(found))]
    if hasattr(type(X), "get_columns"):
        return list(X.columns), X.height, list(map(_polars_column, X.get_columns()))
    return list(X.column_names), X.num_rows, list(map(_arrow_column, X.columns))


def _as_arrow(X: Any) -> Any:
    """A table of pyarrow's."""
    try:
        pyarrow = import_module("pyarrow")
    except ImportError:
        raise ImportError(
            f"a {type(X).__name__} is read by way of pyarrow, which is not installed; install it "
            "(pip install pyarrow), or convert it to a DataFrame of pandas or polars"
        ) from None
    if isinstance(X, pyarrow.Table):
        return X
    if isinstance(X, pyarrow.RecordBatch):
        return pyarrow.Table.from_batches([X])
    if hasattr(X, "read_all"):
        return X.read_all()
    if hasattr(X, "__arrow_c_stream__"):
        return pyarrow.table(X)
    if hasattr(X, "__dataframe__"):
        return import_module("pyarrow.interchange").from_dataframe(X)
    raise TypeError(f"a {type(X).__name__} cannot be read; convert it to a DataFrame of pandas")


def _pandas_column(series: Any) -> Column:
    dtype = series.dtype
    kind, name = getattr(dtype, "kind", "O"), str(dtype).lower()
    text = name.startswith(("cat", "str", "large_str", "dict"))
    usable = not name.startswith(("period", "interval", "list", "struct", "binary", "map"))
    times = name.startswith(("date32", "date64", "time32", "time64"))  # of Arrow
    if name == "object":
        present = [v for v in series.tolist() if v is not None and not _is_na(v)]
        text = any(isinstance(v, str) for v in present)
        times = bool(present) and all(hasattr(v, "isoformat") for v in present)
        odd = [v for v in present if not (text or times or hasattr(v, "__float__"))]
        usable, dtype = not odd, f"a {type(odd[0]).__name__}" if odd else dtype

    def numbers() -> Array:
        if times:
            return np.array([_time(v) for v in series.tolist()])
        if kind in "mM":
            unit = "datetime64[us]" if kind == "M" else "timedelta64[us]"
            moments = series.to_numpy(dtype=unit)  # in UTC
            seconds: Array = moments.view(np.int64) / 1e6
            seconds[np.isnat(moments)] = np.nan
            return seconds
        if hasattr(dtype, "na_value") and (kind in "biuf" or name.startswith("decimal")):
            found: Array = series.to_numpy(dtype=np.float64, na_value=np.nan)  # nullable
            return found
        return _signed(np.asarray(series))

    return Column(
        dtype, text, usable, lambda: [None if _is_na(v) else v for v in series.tolist()], numbers
    )


def _time(v: Any) -> float:
    """A point in time in seconds since 1970 in UTC, or a time of day in seconds; NaN if missing."""
    if v is None or _is_na(v):
        return np.nan
    if isinstance(v, datetime):
        return (v if v.tzinfo else v.replace(tzinfo=UTC)).timestamp()
    if isinstance(v, date):
        return float((v.toordinal() - date(1970, 1, 1).toordinal()) * 86400)
    return float(v.hour * 3600 + v.minute * 60 + v.second + v.microsecond / 1e6)


def _signed(array: Array) -> Array:
    """Truths as numbers that the engines do not take for codes."""
    return array.astype(np.int8) if array.dtype.kind == "b" else array


def _polars_column(series: Any) -> Column:
    dtype = series.dtype
    kind = dtype.base_type().__name__
    text = kind in ("String", "Categorical", "Enum")
    per = {"Date": 1 / 86400, "Time": 1e9, "Datetime": 1.0, "Duration": 1.0}.get(kind)
    if kind in ("Datetime", "Duration"):
        per = {"ms": 1e3, "us": 1e6, "ns": 1e9}[dtype.time_unit]
    plain = kind in ("Boolean", "Decimal", "Null")

    def numbers() -> Array:
        if per is not None:
            return np.asarray(series.to_physical().to_numpy(), np.float64) / per
        if plain:
            return np.array(series.to_list(), np.float64)
        return np.asarray(series.to_numpy())

    usable = text or plain or per is not None or dtype.is_numeric()
    return Column(dtype, text, usable, series.to_list, numbers)


def _arrow_column(column: Any) -> Column:
    pyarrow = import_module("pyarrow")
    if not hasattr(column, "chunks"):
        column = pyarrow.chunked_array([column])
    kind = column.type
    text = str(kind).startswith(("dictionary", "string", "large_string"))

    def numbers() -> Array:
        values = arrow.values(pyarrow, column)
        if isinstance(values, list):
            return np.array(values, object if text else np.float64)
        return np.asarray(values, np.int8 if pyarrow.types.is_boolean(kind) else None)

    return Column(kind, text, arrow.usable(pyarrow, kind), column.to_pylist, numbers)


# ---- Targets and weights ------------------------------------------------------------------------


def _one_column(y: Any, what: str) -> Array:
    """A target or weights as an array of one dimension."""
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
