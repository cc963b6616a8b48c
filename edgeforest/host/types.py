"""Names of types for the files that run on boards, which cannot import `typing` themselves.

They take all of them with one line that only type checkers read: a board compiles nothing of it.
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
    "NodeOperations",
    "Predictor",
    "Readable",
    "Seekable",
    "Self",
    "Sequence",
    "Splitter",
    "TreeGrower",
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


class NodeOperations(Protocol):
    """What a race and `core_pure.Grower` ask of an engine about the rows of a tree's nodes.

    A node's rows are those at the places start..end of the rows that its tree drew. `racing` are
    the features that are still in a race, `stride` is how many cells apart the classes of a
    histogram lie, and `total` has the cells of all rows that a race has counted.
    """

    def draw(self, rng: Any, /) -> int:
        """Draw the rows of a tree, in random order; returns how many there are."""

    def contenders(self, start: int, end: int, rng: Any, /) -> tuple[list[Any], int]:
        """All features of a race, in their order, and the stride of their histograms."""

    def count(self, racing: list[Any], stride: int, start: int, end: int, /) -> tuple[int, int]:
        """Count rows into the histograms; returns up to where, and the sum of squared times."""

    def total(self, contender: Any, stride: int, /) -> list[int]:
        """The cells of all rows that a race has counted."""

    def rank(
        self, criterion: Any, racing: list[Any], stride: int, total: list[int], least: int, /
    ) -> None:
        """Note the best arm of every racing feature, with at least `least` rows on either side."""

    def measure(
        self, criterion: Any, racing: list[Any], stride: int, total: list[int], rest: float, /
    ) -> None:
        """Note the gain of every racing feature's best arm, and its variance."""

    def better_threshold(
        self,
        criterion: Any,
        lead: Any,
        stride: int,
        total: list[int],
        rest: float,
        slack: float,
        z: float,
        /,
    ) -> bool:
        """Whether another arm of the leading feature may still beat its best by more than slack."""

    def second_look(
        self,
        lead: Any,
        stride: int,
        total: list[int],
        rest: float,
        rows: tuple[int, int, int],
        /,
    ) -> Any:
        """The Split by the best code near the winner's threshold, in a large node."""

    def race_small(self, start: int, end: int, rng: Any, /) -> Generator[Any, None, Any]:
        """Find the split of a small node: yields as a race does, and returns a Split or None."""

    def partition(self, start: int, end: int, word: int, code: int, /) -> int:
        """Bring the rows that go left to the front, in place; returns where the others begin."""

    def is_mixed(self, start: int, end: int, /) -> bool:
        """Whether the rows have more than one label."""

    def cells(self, start: int, end: int, /) -> Any:
        """The rows of each class; of a regression, how many rows and the sum of their targets."""

    def draws(self, start: int, end: int, /) -> int:
        """How many draws the rows stand for, as far as `min_samples_leaf` has to know."""


class TreeGrower(Protocol):
    """What a training asks of an engine: `core_pure.Grower`, made of races, or trees grown in C."""

    def run(self) -> Iterator[Any]:
        """Grow all trees, each with its share of the budget; yields between steps."""

    def grow(self, place: int, /) -> Iterator[Any]:
        """Grow the tree of that place in the forest; yields between steps."""

    def close(self) -> None:
        """Finish the tree in hand and add it to the forest: what is not split becomes a leaf."""

    def free(self) -> None:
        """Let go of what is needed to grow, the tree in hand included."""

    def working_bytes(self, nodes: int, growing: int, /) -> int:
        """The memory that training takes, with so many nodes in finished trees and in this one."""
