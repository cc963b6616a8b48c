"""Turn the values that users have into numbers or categories, with None or NaN for missing.

Errors that scikit-learn's tools look for have scikit-learn's wording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from edgeforest.labels import plain
from edgeforest.forest import HUGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"


def is_na(v: Any) -> bool:
    """Whether v is one of pandas' missing values, which cannot be compared."""
    return type(v).__name__ in ("NAType", "NaTType")


def categories(column: Any, f: Any) -> list[Any]:
    """Categories as plain values, None where one is missing."""
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    what = f"categories of {f!r}"
    try:  # each value once
        found = {v: None if is_na(v) else plain(v, 0, what) for v in set(values)}
        return [found[v] for v in values]
    except TypeError:  # one by one, so that the error names the row
        return [None if is_na(v) else plain(v, i, what) for i, v in enumerate(values)]


def numbers(values: Any, f: Any = None) -> Array:
    """Numbers of a type that the engines read, NaN where one is missing; infinity is refused.

    `f` is the number or name of the feature, None if the values are a whole table.
    """
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
    low, high = array.min(), array.max()  # np.isinf would make a copy
    if low != low:  # some are missing
        low, high = np.fmin.reduce(array, axis=None), np.fmax.reduce(array, axis=None)
    if low < -HUGE or high > HUGE:
        raise ValueError(
            f"Input {where} contains infinity or a value too large for dtype('float32'); NaN "
            "means missing"
        )
    return array


def _parsed(array: Array, where: str) -> Array:
    """The numbers in an array of objects; None and pandas' NA are missing."""
    flat = array.ravel()
    for i, v in enumerate(flat):
        if isinstance(v, (str, bytes)):
            raise ValueError(
                f"{where} holds {v!r}, which is not a number; name the column in "
                "categorical_features if it has categories"
            )
        if v is None or is_na(v):
            flat = flat.copy() if flat.base is not None else flat
            flat[i] = np.nan
    return flat.astype(np.float64).reshape(array.shape)


def marked(
    categorical: Any, m: int, names: Sequence[Any] | None, what: str = "categorical_features"
) -> list[int]:
    """The numbers of the categorical columns, given as names, numbers or a list of booleans.

    `m` is the number of columns, `what` the argument that an error is about.

    >>> marked(["b"], 2, ["a", "b"]), marked([True, False], 2, None), marked(None, 2, None)
    ([1], [0], [])
    """
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
            raise ValueError(f"{what} names {item!r}, which is not a column of X (it has {m})")
    return sorted(found)


def refuse_empty(shape: tuple[int, int]) -> None:
    """Raise a ValueError if a table has no rows or no columns."""
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required."
            )
