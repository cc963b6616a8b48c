"""Columns of Arrow, which Parquet files and some frames are made of, as arrays or lists.

pyarrow is passed in, so that nothing here imports it.
"""

from __future__ import annotations

from array import array
from typing import Any

_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_TYPECODES = {"f": "fd", "i": "bhiq", "u": "BHIQ"}  # of the array module, by kind of number


def usable(pyarrow: Any, kind: Any) -> bool:
    """Whether a type of Arrow holds numbers, text, truth values or times."""
    types = pyarrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return not (
        types.is_nested(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_interval(kind)
        or str(kind) in ("binary_view",)
        or isinstance(kind, pyarrow.BaseExtensionType)
    )


def values(pyarrow: Any, column: Any) -> Any:
    """A column of Arrow as an array, or as a list if it has text or nulls.

    Truth values become 0 and 1, points in time and durations seconds, decimals floats, categories
    their text.
    """
    types = pyarrow.types
    kind = column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    divisor = 0
    if types.is_boolean(kind):
        column = column.cast(pyarrow.uint8())
    elif types.is_date(kind):
        divisor = 1000
        column = column.cast(pyarrow.timestamp("ms")).cast(pyarrow.int64())
    elif types.is_time32(kind):
        divisor = _PER_SECOND[kind.unit]
        column = column.cast(pyarrow.int32())
    elif types.is_timestamp(kind) or types.is_duration(kind) or types.is_time64(kind):
        divisor = _PER_SECOND[kind.unit]
        column = column.cast(pyarrow.int64())
    elif types.is_decimal(kind):
        column = column.cast(pyarrow.float64())
    elif types.is_float16(kind):
        column = column.cast(pyarrow.float32())
    found = _numbers(pyarrow, column)
    if divisor:
        if isinstance(found, array):
            return array("d", [v / divisor for v in found])
        return [None if v is None else v / divisor for v in found]
    return found


def _numbers(pyarrow: Any, column: Any) -> Any:
    kind, types = column.type, pyarrow.types
    if column.null_count or not (types.is_integer(kind) or types.is_floating(kind)):
        return column.to_pylist()
    letter = "f" if types.is_floating(kind) else "i" if types.is_signed_integer(kind) else "u"
    size = kind.bit_width // 8
    found = array(next(c for c in _TYPECODES[letter] if array(c).itemsize == size))
    for chunk in column.chunks:
        if len(chunk):
            data = memoryview(chunk.buffers()[1])
            found.frombytes(data[chunk.offset * size : (chunk.offset + len(chunk)) * size])
    return found
