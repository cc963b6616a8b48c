"""Rows in memory as a source: lists, arrays, columns by name, frames.

>>> table = Table({"temp": [20.5, 24.0, None], "window": ["shut", "open", "open"]})
>>> len(table), table.names, table.read([0, 2])
(3, ['temp', 'window'], [[20.5, None], ['shut', 'open']])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgeforest.host.frames import is_frame, read_frame
from edgeforest.sources.base import Source, SourceError


class Table(Source):
    """Rows in memory: an array, or lists. Or columns: a dict of them by name, or a frame."""

    def __init__(self, data: Any, names: Sequence[str] | None = None) -> None:
        super().__init__()
        self._columns: list[Any] | None = None
        self._rows: Any = None
        if is_frame(data):
            data, self.categorical = _frame_columns(data)
        if isinstance(data, dict):
            self._columns = list(data.values())
            names = list(data) if names is None else names
            self._n = len(self._columns[0]) if self._columns else 0
            if any(len(column) != self._n for column in self._columns):
                raise SourceError("all columns of a table must have the same number of values")
            n_columns = len(self._columns)
        else:
            self._rows = data
            self._n = len(data)
            n_columns = len(data[0]) if self._n else 0
        if self._n == 0 or n_columns == 0:
            raise SourceError("the table is empty; give at least one row with one value")
        if names is None:
            names = [f"x{f}" for f in range(n_columns)]
        self.names = [str(name) for name in names]
        if len(self.names) != n_columns:
            raise SourceError(f"the table has {n_columns} columns, but {len(self.names)} names")

    def __len__(self) -> int:
        return self._n

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        if self._columns is not None:
            return [
                column.take(list(rows)).tolist()  # a NumPy array
                if hasattr(column, "take")
                else [column[i] for i in rows]
                for column in self._columns
            ]
        picked = [self._rows[i] for i in rows]
        n_columns = len(self.names)
        for i, row in zip(rows, picked, strict=True):
            if len(row) != n_columns:
                raise SourceError(
                    f"row {i} has {len(row)} values, the table has {n_columns} columns"
                )
        return [[row[f] for row in picked] for f in range(n_columns)]


def _frame_columns(data: Any) -> tuple[dict[str, Any], list[str]]:
    """The columns of a frame, and which of them are categories that are not text."""
    columns: dict[str, Any] = {}
    categorical = []
    for name, column in read_frame(data).items():
        if not column.category:
            columns[name] = column.numbers()
            continue
        values = columns[name] = column.plain()
        if not any(isinstance(v, str) for v in values):
            categorical.append(name)
    return columns, categorical
