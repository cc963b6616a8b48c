"""Names of types for the files that run on boards, which cannot import `typing` themselves.

They take all of them with one line that only type checkers read, which costs a board 30 bytes.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, MutableSequence, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, BinaryIO, ClassVar, Literal, NoReturn, Protocol, Self, TypeAlias

__all__ = [
    "AbstractContextManager",
    "Any",
    "AnyPath",
    "BinaryIO",
    "Callable",
    "ClassVar",
    "ClassWeight",
    "Criterion",
    "Frame",
    "Generator",
    "Iterable",
    "Iterator",
    "Kind",
    "Label",
    "MutableSequence",
    "NoReturn",
    "Predictor",
    "Readable",
    "Seekable",
    "Self",
    "Sequence",
    "Splitter",
    "Typecode",
    "Value",
    "Values",
    "Writable",
]

Kind: TypeAlias = Literal["random-forest", "extra-trees", "random-patches"]
Criterion: TypeAlias = Literal["gini", "entropy", "mse"]
Splitter: TypeAlias = Literal["mab", "mab-paper", "exact"]
Label: TypeAlias = str | int | float  # and bool, which is an int
ClassWeight: TypeAlias = Literal["balanced"] | dict[Any, float] | dict[Any, int]
Value: TypeAlias = str | float | None  # a category, a number, or missing
AnyPath: TypeAlias = str | PathLike[str]
Typecode: TypeAlias = Literal["b", "B", "h", "H", "i", "I", "f", "d"]


class Values(Protocol):
    """What has a length and places: list, tuple, bytes, array, ndarray."""

    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


class Frame(Protocol):
    """What has columns by name: a frame of pandas or polars, a table of Arrow."""

    @property
    def columns(self) -> Any: ...


class Readable(Protocol):
    """An open file to read from."""

    def read(self) -> str | bytes: ...


class Seekable(Protocol):
    """An open file of bytes that can be read from any place."""

    def seek(self, at: int, whence: int = ..., /) -> int: ...
    def read(self, n: int = ..., /) -> bytes: ...


class Writable(Protocol):
    """An open file of text to write to."""

    def write(self, text: str, /) -> object: ...


class Predictor(Protocol):
    """An engine's own way to predict: see `Forest.predictor`."""

    def predict(self, rows: Any) -> Any: ...
    def vote(self, rows: Any) -> tuple[bool, list[tuple[int, list[int]]]]: ...
