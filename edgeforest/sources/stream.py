"""A source from any iterable of rows: a uniform sample of them is kept.

>>> stream = Stream(([i, i % 2] for i in range(10_000)), capacity=100, names=["i", "odd"])
>>> len(stream), stream.seen, stream.names
(100, 10000, ['i', 'odd'])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from edgeforest.budget import Rng
from edgeforest.host.names import short
from edgeforest.sources.base import Source, SourceError
from edgeforest.sources.columns import checked_rows
from edgeforest.host.words import count

_Row: TypeAlias = "Sequence[Any] | Mapping[str, Any]"


class Stream(Source):
    """A uniform sample of rows that come by once: of a socket, a generator, a reader of logs.

    The iterable is read to its end at once. Each row is equally likely to be among the `capacity`
    rows that are kept. Rows are lists, or dicts by name (then `names` may be left out). `seen` is
    the number of rows that came.
    """

    name = "the stream"

    def __init__(
        self,
        rows: Iterable[_Row],
        capacity: int,
        names: Sequence[str] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(capacity, int) or capacity < 1:
            raise SourceError(f"capacity must be a whole number of at least 1, got {capacity!r}")
        self.names = [] if names is None else [str(name) for name in names]
        self.seen = 0
        self._kept: list[tuple[Any, ...]] = []
        rng = Rng(seed)
        for row in rows:
            self._check(row, named=names is not None)
            self.seen += 1
            if len(self._kept) < capacity:
                self._kept.append(self._values(row))
            else:
                at = below(rng, self.seen)
                if at < capacity:
                    self._kept[at] = self._values(row)
        if not self._kept or not self.names:
            raise SourceError("the stream is empty; it needs at least one row with one value")

    def _check(self, row: _Row, named: bool) -> None:
        """Raise a SourceError if a row is not like the others; the first one names the columns."""
        if not hasattr(row, "__len__") or isinstance(row, (str, bytes)):
            raise SourceError(
                f"row {self.seen} of the stream must be a list or a dict, got {short(repr(row), 40)}"
            )
        if self.seen == 0 and not named:
            is_dict = isinstance(row, Mapping)
            self.names = [str(v) for v in row] if is_dict else [f"x{f}" for f in range(len(row))]
        if len(row) != len(self.names):
            raise SourceError(
                f"row {self.seen} of the stream has {count(len(row), 'value')}, expected "
                f"{len(self.names)}"
            )

    def _values(self, row: _Row) -> tuple[Any, ...]:
        if not isinstance(row, Mapping):
            return tuple(row)
        try:
            return tuple(row[name] for name in self.names)
        except KeyError as error:
            raise SourceError(
                f"row {self.seen - 1} of the stream has no column {error.args[0]!r}"
            ) from None

    def __len__(self) -> int:
        return len(self._kept)

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        rows = checked_rows(rows, len(self), self.name)
        return [[self._kept[i][f] for i in rows] for f in range(len(self.names))]


def below(rng: Rng, n: int) -> int:
    """A random integer from 0 to n - 1, where n may be more than the generator gives at once."""
    if n < 1 << 30:
        return rng.below(n)
    top = (1 << 60) - (1 << 60) % n  # a multiple of n, so that no number is more likely
    while True:
        value = rng.next() << 30 | rng.next()
        if value < top:
            return value % n
