"""Labels, categories and arrays as the values and tensors of ONNX."""

from __future__ import annotations

import base64
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

Array: TypeAlias = NDArray[Any]


def label_array(classes: list[Any]) -> Array:
    """Labels as a tensor holds them: text, booleans, whole numbers or floats."""
    if isinstance(classes[0], str):
        return np.array(classes, object)
    if all(isinstance(v, bool) for v in classes):
        return np.array(classes, np.bool_)
    return _exact(classes, (np.int64, np.float32, np.float64), "labels")


def category_array(kinds: list[Any], name: str) -> Array:
    """The categories of a feature as its input holds them: text, float32 or whole numbers."""
    if isinstance(kinds[0], str):
        return np.array(kinds, object)
    try:
        return _exact(kinds, (np.float32, np.int64), f"categories of {name!r}")
    except ValueError:
        near = np.array(kinds, np.float32)  # such as 0.1: its float32 stands for it
        if len(set(near.tolist())) < len(kinds):
            raise
        return near


def _exact(values: list[Any], types: tuple[Any, ...], what: str) -> Array:
    """The values in the first of these types that holds them all."""
    for kind in types:
        try:
            with np.errstate(over="ignore"):
                found = np.array([int(v) if kind is np.int64 else v for v in values], kind)
        except OverflowError:
            continue
        if found.tolist() == values:
            return found
    raise ValueError(f"{what} must be numbers that ONNX has a type for, got {values[:3]!r}")


def tensor_type(values: Array) -> int:
    """The type of a tensor that holds these values."""
    return TensorProto.STRING if values.dtype == object else _type_of(values)


def _type_of(values: Array) -> int:
    return int(helper.np_dtype_to_tensor_dtype(values.dtype))


def little_endian(values: Array) -> Array:
    """The values with their low bytes first, as ONNX stores them."""
    return values.astype(values.dtype.newbyteorder("<"))


def attribute_tensor(values: Array) -> onnx.TensorProto:
    """An array as the tensor of an attribute."""
    data = little_endian(values).tobytes()
    return helper.make_tensor("", _type_of(values), values.shape, data, raw=True)


def base64_of(values: Array, code: str) -> str:
    """An array of this type in base64; a ValueError if a value does not fit."""
    found = values.astype(code)
    if not np.array_equal(found, values, equal_nan=found.dtype.kind == "f"):
        raise ValueError
    return base64.b64encode(found.tobytes()).decode()
