"""The functions of the C kernel: see `_kernel.c`, which checks every argument.

`Buffer` is what has the buffer protocol: bytes, array, memoryview, an array of NumPy's. A buffer
that a function writes into must be writable. A layout has six numbers of each column: see
`native_reader.Columns`.
"""

from array import array
from typing import Any, NewType, TypeAlias

Buffer: TypeAlias = Any
Layout: TypeAlias = array[int]
Task = NewType("Task", object)  # what is the same for every tree of a forest
Room = NewType("Room", object)  # memory to grow trees in, one after the other
Packed = NewType("Packed", object)  # a forest in the form that prediction uses
Grove = NewType("Grove", object)  # trees that learn row by row
Walk: TypeAlias = tuple[Packed, Buffer, Buffer, tuple[int, int, int, int]]

# Columns of numbers

def bounds(
    buffers: list[Any],
    layout: Layout,
    rows: Buffer | None,
    n: int,
    out: Buffer,
    last: Buffer,
    /,
) -> None:
    """The bounds of every column, from a sample of the n rows or from all."""

def encode(
    buffers: list[Any], layout: Layout, bounds: Any, first: int, n: int, codes: Buffer, /
) -> int | None:
    """Codes of rows first .. first + n; returns the column that holds an infinite number."""

def classes(buffers: list[Any], layout: Layout, n: int, codes: Buffer, /) -> list[int] | None:
    """The distinct whole numbers of a column; None if they spread too far or are too many."""

def targets(
    buffers: list[Any], layout: Layout, n: int, levels: Buffer, /
) -> tuple[float, float] | None:
    """The smallest number of a column, and the span; None if one is not finite."""

def fill(z: int, w: int, n: int, out: Buffer, /) -> tuple[int, int]:
    """Random integers below n, as `Rng.fill` gives them; returns the state after them."""

# Training

def task(
    columns: tuple[list[Any], Layout, Any],
    usable: Buffer,
    y: Buffer,
    weights: Buffer | None,
    patch: Buffer | None,
    whole: tuple[int, ...],
    real: tuple[float, float, float, float],
    /,
) -> tuple[Task, int]:
    """What is the same for every tree of a forest, and the bytes that a tree works in."""

def tree(task: Task, /) -> Room:
    """Memory to grow trees in."""

def begin(tree: Room, index: int, insertions: int, nodes: int, /) -> None:
    """Begin a tree, with limits of insertions and nodes; -1 for none."""

def grow(tree: Room, insertions: int, seconds: float, stop: Buffer, /) -> bool:
    """Go on for about that many insertions; returns whether there is more to do."""

def spent(tree: Room, /) -> tuple[int, int, int]:
    """What a tree has cost: insertions, rows read, rounds."""

def close(
    tree: Room, importance: Buffer, here: int, votes_here: int, /
) -> tuple[bytes, bytes, bytes, bytes]:
    """Finish a tree; returns its feature, threshold, right (uint32) and votes, in preorder."""

# Prediction

def pack(feature: Buffer, threshold: Buffer, right: Buffer, roots: Buffer, wide: int, /) -> Packed:
    """A forest in the form that prediction uses."""

def predict(walk: Walk, width: int, n: int, out: Buffer, best: Buffer, /) -> None:
    """The summed votes of n rows into `out`, the place of the largest into `best`."""

def apply(walk: Walk, n: int, out: Buffer, /) -> None:
    """The leaf of each tree that each of n rows reaches, all rows of one tree after another."""

def values(sums: Buffer, step: float, low: float, out: Buffer, /) -> None:
    """The predictions of a regression from summed votes."""

# Trees that learn row by row

def grove(numbers: tuple[int, ...], rows: float, least: int, kinds: Buffer, /) -> Grove:
    """Trees that learn row by row, for a plan."""

def listed(rows: Any, m: int, /) -> bytes | None:
    """The float32 of rows that are lists of m plain, finite numbers; None of others."""

def places(labels: Any, known: Any, /) -> bytes | None:
    """The uint16 that a dict has for each label of a list; None if it lacks one."""

def named(guesses: Buffer, labels: Buffer, classes: list[Any], /) -> tuple[list[Any], bytes]:
    """The class of each guess of `learn`, and which are wrong."""

def levels(numbers: Any, low: float, per: float, scale: int, /) -> bytes | None:
    """The uint16 levels of a list of floats; None of other lists."""

def valued(
    guesses: Buffer, labels: Buffer, low: float, step: float, level: float, /
) -> tuple[list[float], bytes]:
    """The numbers that guesses stand for, and the float64 of how far each is above its label."""

def learn(
    grove: Grove, values: Buffer, labels: Buffer, first: int, n: int, guesses: Buffer | None, /
) -> None:
    """Predict and learn rows; with None for guesses, only put them into the window."""

def vote(grove: Grove, row: Buffer, out: Buffer, /) -> int:
    """The summed votes for a row into `out`; returns the place of the largest."""

def sapling(grove: Grove, t: int, /) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes]:
    """The feature, threshold, left, right, votes and gains of a tree."""

def plant(
    grove: Grove,
    t: int,
    feature: Buffer,
    threshold: Buffer,
    left: Buffer,
    right: Buffer,
    votes: Buffer,
    gains: Buffer,
    /,
) -> None:
    """Take over a tree."""

def renew(grove: Grove, t: int, /) -> None:
    """Grow a tree anew from the latest rows."""

def choice(grove: Grove, /) -> int:
    """Who answers: 0 the trees; odd a rate of the linear model; even both."""

def latest(grove: Grove, /) -> tuple[int, int, bytes, bytes]:
    """Rows seen, rows stored beside the window, and the values and labels of both."""

# Text

def cells(
    text: Buffer,
    rows: int,
    signs: tuple[int, int, int, int],
    kinds: Buffer,
    missing: Buffer,
    /,
) -> list[Any] | None:
    """Columns of UTF-8 text of so many lines: bytes of numbers, lists of texts, or None; see the C.

    `signs` are the separator, the quote (0 for none), whether 1,5 is a number, and the most bytes
    of a line. The result is None if Python has to read the lines.
    """

def quotes(text: Buffer, quote: int, opens: int, spaced: int, /) -> int:
    """0 if quotes are closed, 1 if one is open at the end, 2 if a line ends within one."""

def marks(text: Buffer, spacing: int, blank: Buffer, /) -> bytes | None:
    """Pairs of uint64: where the part after a mark ends, and its lines; None for unusual lines."""

# The module

def constants() -> dict[str, Any]:
    """The kernel's constants."""
