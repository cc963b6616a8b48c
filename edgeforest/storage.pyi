"""Types of `storage`, which holds none itself: MicroPython does not read annotations."""

from array import array
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any, Final, NoReturn, TypeAlias, TypeVar, Unpack

from edgeforest.core_pure import Forest, Rng, Training, _Values
from edgeforest.engines import Name, Options

_Path: TypeAlias = str | PathLike[str]
_F = TypeVar("_F", bound=Forest)

BLOCK: Final[int]
TYPES: Final[dict[bytes, tuple[str, str]]]

def draw(rng: Rng, count: int, n: int) -> Sequence[int]: ...

class Npy:
    path: str
    shape: tuple[int, int]
    typecode: str
    def __init__(self, path: _Path) -> None: ...
    def columns(
        self, rows: Sequence[int] | None = ..., only: Sequence[int] | None = ...
    ) -> list[array[Any] | bytearray]: ...

def write(forest: Forest, path: _Path, state: dict[str, Any] | None = ...) -> None: ...
def read(
    path: _Path, kind: type[_F] = ...
) -> tuple[_F, dict[str, Any] | None] | tuple[None, None]: ...
def load(path: _Path) -> Forest: ...
def refuse_other(path: _Path, before: dict[str, Any], now: dict[str, Any]) -> None: ...
def refuse_damaged(path: _Path) -> NoReturn: ...
def check_state(
    path: _Path,
    found: Forest,
    head: Forest,
    most: int,
    importance: Any = ...,
    seconds: Any = ...,
) -> None: ...
def train(
    X: _Values,
    y: _Values,
    checkpoint: _Path,
    resume: bool = ...,
    *,
    engine: Name | None = ...,
    n_jobs: int | None = ...,
    **options: Unpack[Options],
) -> Forest: ...

class Resumable:
    path: str
    training: Training
    planned: int
    note: str
    def __init__(
        self,
        X: _Values,
        y: _Values,
        checkpoint: _Path,
        resume: bool = ...,
        *,
        engine: Name | None = ...,
        n_jobs: int | None = ...,
        **options: Unpack[Options],
    ) -> None: ...
    def __iter__(self) -> Iterator[Training]: ...
    def forest(self) -> Forest: ...
