"""Read columns of pyarrow: which types can be learned from, and their values as numbers.

Booleans become 0 and 1, points in time seconds since 1970 in UTC, durations and times of day
seconds, decimals floats.
"""

from __future__ import annotations

from array import array
from typing import Any

_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
# Typecodes of the array module by the names that Arrow gives to its types.
_TYPECODES = {
    **{"int8": "b", "int16": "h", "int32": "i", "int64": "q"},
    **{"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q"},
    **{"float": "f", "double": "d"},
}


def arrow_usable(arrow: Any, kind: Any) -> bool:
    """Whether a type of pyarrow holds numbers, text, booleans or times."""
    types = arrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return not (
        types.is_nested(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_interval(kind)
        or str(kind) in ("binary_view",)
        or isinstance(kind, arrow.BaseExtensionType)
    )


def arrow_values(arrow: Any, column: Any) -> Any:
    """A column of pyarrow as an array, or as a list if it has text or nulls."""
    types = arrow.types
    kind = column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    divisor = 0
    if types.is_boolean(kind):
        column = column.cast(arrow.uint8())
    elif types.is_date(kind):
        divisor = 1000
        column = column.cast(arrow.timestamp("ms")).cast(arrow.int64())
    elif types.is_time32(kind):
        divisor = _PER_SECOND[kind.unit]
        column = column.cast(arrow.int32())
    elif types.is_timestamp(kind) or types.is_duration(kind) or types.is_time64(kind):
        divisor = _PER_SECOND[kind.unit]
        column = column.cast(arrow.int64())
    elif types.is_decimal(kind):
        column = column.cast(arrow.float64())
    elif types.is_float16(kind):
        column = column.cast(arrow.float32())
    values = _numbers(column)
    if divisor:
        if isinstance(values, array):
            return array("d", [v / divisor for v in values])
        return [None if v is None else v / divisor for v in values]
    return values


def _numbers(column: Any) -> Any:
    """The numbers of a column without nulls in an array, copied from its buffers; else a list."""
    code = _TYPECODES.get(str(column.type))
    if code is None or column.null_count:
        return column.to_pylist()
    values = array(code)
    size = values.itemsize
    for chunk in column.chunks:
        if len(chunk):
            data = memoryview(chunk.buffers()[1])
            values.frombytes(data[chunk.offset * size : (chunk.offset + len(chunk)) * size])
    return values
