"""Types of `files`, which holds none itself: MicroPython does not read annotations."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from os import PathLike
from typing import BinaryIO, TypeAlias

_Path: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]

def replacing(path: _Path, mode: int | None = ...) -> AbstractContextManager[BinaryIO]: ...
def write(path: _Path, pieces: Iterable[str | bytes | bytearray | memoryview]) -> None: ...
def rename(old: str, new: str) -> None: ...
