"""Types of `reader`, which holds none itself: MicroPython does not read annotations."""

from os import PathLike
from typing import Any, Final, Protocol, TypeAlias, TypeVar, overload

from edgeforest.core_pure import Forest

class _Seekable(Protocol):
    def seek(self, at: int, whence: int = ..., /) -> int: ...
    def read(self, n: int = ..., /) -> bytes: ...

_F = TypeVar("_F", bound=Forest)

ARRAYS: Final[tuple[str, ...]]
CHUNK: Final[int]
SEAL: Final[int]
STATE: Final[str]
SMALL: Final[list[str]]

_Source: TypeAlias = str | bytes | PathLike[str] | _Seekable
_State: TypeAlias = dict[str, Any] | None

@overload
def read_model(source: _Source, kind: None = ...) -> Forest: ...
@overload
def read_model(source: _Source, kind: type[_F]) -> _F: ...
@overload
def read_checkpoint(source: _Source, kind: None = ...) -> tuple[Forest, _State]: ...
@overload
def read_checkpoint(source: _Source, kind: type[_F]) -> tuple[_F, _State]: ...
