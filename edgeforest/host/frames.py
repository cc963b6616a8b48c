"""Recognise frames of pandas, polars and Arrow, and give engines and forests their rows.

Importing this module loads no NumPy; the columns themselves are read by `edgeforest.host.columns`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from edgeforest.host.names import listed, quoted

if TYPE_CHECKING:
    from edgeforest.forest import Forest
    from edgeforest.host.columns import Column

_SERIES = ("iloc", "to_physical", "to_pylist")  # what a column of pandas, polars or Arrow has


def is_frame(X: Any) -> bool:
    """Whether X has columns by name: a frame of pandas or polars, a table of Arrow, or alike.

    >>> is_frame([[1, 2]]), is_frame({"a": [1]})
    (False, False)
    """
    kind: Any = type(X)
    return _sort(kind) == "frame"


@lru_cache(maxsize=256)  # looking at a type takes as long as predicting a row
def _sort(kind: type) -> str:
    """Whether values of a type are a "frame", a "row" of one, or neither: ""."""
    if hasattr(kind, "iloc") and hasattr(kind, "to_frame"):
        return "row"  # of pandas
    if any(hasattr(kind, name) for name in ("columns", "column_names", "read_all")):
        shown = ("dtypes", "schema", "__arrow_c_stream__", "__dataframe__")
        return "frame" if any(hasattr(kind, name) for name in shown) else ""
    return ""


def _columns() -> Any:
    """The module that reads columns, which needs NumPy."""
    try:
        from edgeforest.host import columns
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        raise ImportError(
            "frames are read by way of NumPy, which is not installed; install it (pip install "
            "numpy), or give a list of rows"
        ) from None
    return columns


def read_frame(X: Any) -> dict[str, Column]:
    """The columns of a frame that can be learned from, by name."""
    found: dict[str, Column] = _columns().Frame(X).by_name()
    return found


def labels(y: Any) -> Any:
    """Labels, targets or weights as the engines take them; those of a frame may be a column.

    >>> labels(["yes", "no"])
    ['yes', 'no']
    """
    if is_frame(y):
        frame = _columns().Frame(y)
        if len(frame.columns) != 1:
            raise ValueError(
                f"y must be one column, got {len(frame.columns)}: {listed(frame.labels)}"
            )
        return frame.columns[0].labels()
    if any(hasattr(type(y), name) for name in _SERIES):
        return _columns().column_of(y).labels()
    return y


def rows_of(forest: Forest, rows: Any) -> Any:
    """Rows as a forest predicts them: the columns of a frame are found by name."""
    kind: Any = type(rows)
    sort = _sort(kind)
    if not sort:
        if kind is memoryview and rows.ndim > 1:  # Python cannot index a row of it
            return rows.tolist()
        return rows
    return _row_of(forest, rows) if sort == "row" else _columns().Frame(rows).rows_for(forest)


def _row_of(forest: Forest, row: Any) -> list[Any]:
    """The values of a row of pandas, by name if it has the names of the features."""
    values: list[Any] = _columns().column_of(row).plain()
    found = dict(zip(row.index, values, strict=True))
    return [found[name] for name in forest.names] if {*found} == {*forest.names} else values


def parted(X: Any, y: Any) -> tuple[Any, Any]:
    """A frame and its labels; if y names a column, it is taken out of the frame."""
    X = _columns().collected(X)
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
    """A frame as a training reads it, and the options with its names and categorical columns."""
    for name in ("by_column", "n_features"):
        if options.get(name):
            raise ValueError(f"{name} is for lists and buffers; a frame has columns: leave it out")
    frame = _columns().Frame(X)
    frame.refuse_duplicates()
    names = frame.names if options.get("names") is None else options["names"]
    categorical = frame.all_categorical(options.get("categorical"), names)
    more = {"names": names, "categorical": categorical, "by_column": True}
    return frame.values(categorical), {**options, **more}
