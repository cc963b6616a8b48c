"""Read the columns of a frame of pandas, polars, Arrow, or any object with their protocols.

Booleans become 0 and 1, points in time seconds since 1970 in UTC, durations and times of day
seconds, decimals floats: the same as from Parquet files. None of these libraries is imported
unless a frame needs it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeforest.host.arrow import arrow_usable, arrow_values
from edgeforest.host.names import listed, quoted
from edgeforest.host.values import Array, categories, is_na, marked, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgeforest.forest import Forest


class Column:
    """A column of a frame: its type, and functions that read its values."""

    def __init__(
        self,
        kind: Any,
        category: bool,
        usable: bool,
        plain: Callable[[], list[Any]],
        numbers: Callable[[], Array],
    ) -> None:
        self.kind = str(kind)  # the name of its type
        self.category = category  # a category by its type, or text
        self.usable = usable  # numbers, text, booleans or times
        self.plain = plain  # a list of plain values, None where one is missing
        self.numbers = numbers  # an array of numbers, NaN where one is missing

    def labels(self) -> Any:
        """Labels, targets or weights as the engines take them: an array of numbers, or a list."""
        values = self.plain()
        kinds = set(map(type, values))
        if kinds == {int} and max(map(abs, values)) < 1 << 62:
            return np.array(values, np.int64)  # which the engines read faster than a list
        if kinds == {float} or "Decimal" in {kind.__name__ for kind in kinds}:
            return self.numbers()
        return values


class Frame:
    """The columns of a frame."""

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
        self.names: list[str] | None = labels if all(texts) else None  # pandas counts from 0
        self.block = None  # the frame itself if it is pandas' and all of it is NumPy's numbers
        if hasattr(type(X), "iloc") and all(
            isinstance(dtype, np.dtype) and dtype.kind in "fiu" for dtype in X.dtypes
        ):
            self.block = X

    def categorical(self) -> list[int]:
        """The places of the columns that are categories by their type, or text."""
        return [f for f, column in enumerate(self.columns) if column.category]

    def all_categorical(self, asked: Any, names: Sequence[Any] | None) -> list[int]:
        """The same, and those that the option `categorical` asks for by number or by these names."""
        more = marked(asked, len(self.columns), names, "categorical")
        return sorted({*self.categorical(), *more})

    def by_name(self) -> dict[str, Column]:
        """The columns that can be learned from, by name."""
        self.refuse_duplicates()
        found = zip(map(str, self.labels), self.columns, strict=True)
        return {name: column for name, column in found if column.usable}

    def values(self, categorical: Sequence[int]) -> list[Any]:
        """All columns: categories as lists of plain values, the others as arrays of numbers."""
        found: list[Any] = []
        for f, (label, column) in enumerate(zip(self.labels, self.columns, strict=True)):
            if not column.usable:
                raise TypeError(
                    f"column {quoted(label)} holds {column.kind}, which is neither numbers, text, "
                    "booleans nor times; leave it out, or convert it"
                )
            if f in categorical:
                found.append(categories(column.plain(), label))
            else:
                found.append(numbers(column.numbers(), label))
        return found

    def rows_for(self, forest: Forest) -> Any:
        """The rows as `Forest.predict` takes them."""
        self.arrange(forest.names)
        categorical = [f for f, kinds in enumerate(forest.categories) if kinds is not None]
        if self.n == 0:
            return []
        columns = self.values(categorical)
        if not categorical:
            return np.column_stack([np.asarray(column, np.float32) for column in columns])
        return list(zip(*(list(column) for column in columns), strict=True))

    def arrange(self, names: Sequence[str]) -> None:
        """Put the columns into the order of a forest's features, which have these names.

        If the forest or the frame has no names, the order stays as it is.
        """
        self.refuse_duplicates()
        own = self.names
        unnamed = own is None or list(names) == [f"x{f}" for f in range(len(names))]
        if own is None or (unnamed and set(own) != set(names)):
            if len(self.columns) != len(names):
                raise ValueError(
                    f"the frame has {len(self.columns)} columns, the forest was trained on "
                    f"{len(names)}; give these"
                )
            return
        places = {name: place for place, name in enumerate(own)}
        absent = [name for name in names if name not in places]
        if absent:
            raise ValueError(
                f"the frame has no column {quoted(absent[0])}, which the forest was trained on; it "
                f"has {listed(own)}"
            )
        extra = sorted(places.keys() - set(names), key=own.index)
        if extra:
            raise ValueError(
                f"the frame has columns that the forest was not trained on: {listed(extra)}; "
                "leave them out"
            )
        self.columns = [self.columns[places[name]] for name in names]
        self.names = self.labels = list(names)
        self.block = None

    def refuse_duplicates(self) -> None:
        """Raise a ValueError if two columns have the same name."""
        if len(set(self.labels)) < len(self.labels):
            twice = [label for label in self.labels if self.labels.count(label) > 1]
            raise ValueError(f"the frame has more than one column {quoted(twice[0])}; rename one")


def collected(X: Any) -> Any:
    """The frame in memory, of pandas, polars or pyarrow; a lazy one is computed."""
    kind = type(X)
    if hasattr(kind, "collect_schema") and hasattr(kind, "collect"):
        return X.collect()  # of polars
    if hasattr(kind, "compute"):  # of Dask
        raise TypeError(f"a {kind.__name__} is not computed yet; give X.compute()")
    if hasattr(kind, "iloc") or (hasattr(kind, "get_columns") and hasattr(kind, "columns")):
        return X
    return _as_arrow(X)


def _opened(X: Any) -> tuple[list[Any], int, list[Column]]:
    """The labels of a frame's columns, its number of rows, and the columns."""
    if hasattr(type(X), "iloc"):
        found = list(X.columns)
        return found, len(X), [_pandas_column(X.iloc[:, f]) for f in range(len(found))]
    if hasattr(type(X), "get_columns"):
        return list(X.columns), X.height, list(map(_polars_column, X.get_columns()))
    return list(X.column_names), X.num_rows, list(map(_arrow_column, X.columns))


def _as_arrow(X: Any) -> Any:
    """The frame as a table of pyarrow."""
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


# ---- The columns of each library


def column_of(series: Any) -> Column:
    """A column on its own: a Series of pandas or polars, an array of Arrow."""
    kind = type(series)
    if hasattr(kind, "iloc"):
        return _pandas_column(series)
    if hasattr(kind, "to_physical"):
        return _polars_column(series)
    return _arrow_column(series)


def _pandas_column(series: Any) -> Column:
    dtype = series.dtype
    kind, name = getattr(dtype, "kind", "O"), str(dtype).lower()
    text = name.startswith(("cat", "str", "large_str", "dict"))
    usable = not name.startswith(("period", "interval", "list", "struct", "binary", "map"))
    times = name.startswith(("date32", "date64", "time32", "time64"))  # of Arrow
    if name == "object":
        present = [v for v in series.tolist() if v is not None and not is_na(v)]
        text = any(isinstance(v, str) for v in present)
        times = bool(present) and all(hasattr(v, "isoformat") for v in present)
        odd = [v for v in present if not (text or times or hasattr(v, "__float__"))]
        usable, dtype = not odd, f"a {type(odd[0]).__name__}" if odd else dtype

    def numbers() -> Array:
        if times:
            return np.array([_seconds(v) for v in series.tolist()])
        if kind in "mM":
            unit = "datetime64[us]" if kind == "M" else "timedelta64[us]"
            moments = series.to_numpy(dtype=unit)  # in UTC
            seconds: Array = moments.view(np.int64) / 1e6
            seconds[np.isnat(moments)] = np.nan
            return seconds
        if hasattr(dtype, "na_value") and (kind in "biuf" or name.startswith("decimal")):
            found: Array = series.to_numpy(dtype=np.float64, na_value=np.nan)  # nullable
            return found
        array = np.asarray(series)
        # The engines would take uint8, which booleans become elsewhere, for codes.
        return array.astype(np.int8) if array.dtype.kind == "b" else array

    return Column(
        dtype, text, usable, lambda: [None if is_na(v) else v for v in series.tolist()], numbers
    )


def _seconds(v: Any) -> float:
    """Seconds since 1970 in UTC of a point in time, seconds of a time of day; NaN if missing."""
    if v is None or is_na(v):
        return np.nan
    if isinstance(v, datetime):
        return (v if v.tzinfo else v.replace(tzinfo=UTC)).timestamp()
    if isinstance(v, date):
        return float((v.toordinal() - date(1970, 1, 1).toordinal()) * 86400)
    return float(v.hour * 3600 + v.minute * 60 + v.second + v.microsecond / 1e6)


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
        values = arrow_values(pyarrow, column)
        if isinstance(values, list):
            return np.array(values, object if text else np.float64)
        return np.asarray(values, np.int8 if pyarrow.types.is_boolean(kind) else None)

    return Column(kind, text, arrow_usable(pyarrow, kind), column.to_pylist, numbers)
