"""Types of `buffers`, which holds none itself: MicroPython does not read annotations."""

from array import array
from collections.abc import MutableSequence
from typing import Any, Final, Literal, Protocol, TypeAlias

_Typecode: TypeAlias = Literal["b", "B", "h", "H", "i", "I", "f", "d"]
_Label: TypeAlias = str | float

class _Row(Protocol):
    """What has a length and places: list, tuple, bytes, array, ndarray."""

    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> Any: ...

MOST: Final[int]
NAN: Final[float]
CODES: Final[dict[str, tuple[int, int | None, int | None]]]

def buffer_bytes(
    capacity: int,
    n_features: int,
    typecode: _Typecode = ...,
    labels: _Typecode | list[Any] = ...,
) -> int: ...

class _Buffer:
    capacity: int
    n_features: int
    typecode: str
    bytes: int
    def __init__(
        self,
        capacity: int,
        n_features: int,
        typecode: _Typecode = ...,
        labels: _Typecode | list[Any] = ...,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def full(self) -> bool: ...
    def push(self, row: _Row, label: _Label) -> None: ...
    def row(self, i: int) -> list[Any]: ...
    def label(self, i: int) -> Any: ...
    def columns(self) -> list[array[Any] | bytearray]: ...
    def labels(self) -> MutableSequence[Any]: ...
    def snapshot(self) -> tuple[list[array[Any] | bytearray], MutableSequence[Any]]: ...
    def clear(self) -> None: ...

class RingBuffer(_Buffer):
    dropped: int

class Reservoir(_Buffer):
    seen: int
    def __init__(
        self,
        capacity: int,
        n_features: int,
        typecode: _Typecode = ...,
        seed: int = ...,
        labels: _Typecode | list[Any] = ...,
    ) -> None: ...
