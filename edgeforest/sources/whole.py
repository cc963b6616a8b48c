"""Training from a source that fits in memory: its rows are read once, for all trees.

>>> from edgeforest.sources import Table
>>> log = Whole(Table({"t": list(range(90)), "hot": [i > 50 for i in range(89)] + [None]}), "hot")
>>> len(log), log.unlabelled
(89, 1)
>>> from edgeforest.sources.schema import look
>>> training = train_steps(log, look(log, "hot", None), n_trees=5)
>>> for step in training:
...     pass
>>> training.forest().predict([[20], [70]])
[0, 1]
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from edgeforest import engines
from edgeforest.engines import ranges
from edgeforest.sources.base import Source, SourceError
from edgeforest.sources.file import OnProgress
from edgeforest.sources.schema import LOOK, Schema, as_texts, refuse_unknown


class Whole(Source):
    """The rows of a source that have a target, as text; each distinct text is kept once."""

    texts = True

    def __init__(self, source: Source, target: str, progress: OnProgress | None = None) -> None:
        super().__init__()
        refuse_unknown(source, [target])
        self._source = source
        self.name, self.names = source.name, source.names
        self.decimal_comma = source.decimal_comma
        self.unnamed, self.categorical = source.unnamed, source.categorical
        self.unlabelled = 0  # rows left out because their target is missing
        self._rows = array("Q")  # which rows of the source they are
        self._columns: list[list[str | None]] = [[] for _ in source.names]
        self._read_all(source.names.index(target), progress)
        self.notes, self.complaints, self.bad = source.notes, source.complaints, source.bad

    def _read_all(self, target: int, progress: OnProgress | None) -> None:
        source = self._source
        seen: list[dict[Any, Any]] = [{} for _ in source.names]
        for at in range(0, len(source), LOOK):
            rows, block = source.read_kept(range(at, min(len(source), at + LOOK)))
            texts = [as_texts(values, source.texts) for values in block]
            if None in texts[target]:
                kept = [i for i, label in enumerate(texts[target]) if label is not None]
                self.unlabelled += len(rows) - len(kept)
                rows = [rows[i] for i in kept]
                texts = [[values[i] for i in kept] for values in texts]
            self._rows.extend(rows)
            for column, known, values in zip(self._columns, seen, texts, strict=True):
                column += map(known.setdefault, values, values)
            if progress is not None:
                progress(at + LOOK, len(source))
        if self._rows:
            return
        if self.unlabelled:
            name = source.names[target]
            raise SourceError(
                f"column {name!r} of {source.name} is empty; give a target with values"
            )
        raise SourceError(f"no row of {source.name} can be used; look at its first lines")

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        if isinstance(rows, range) and rows.step == 1:
            return [column[rows.start : rows.stop] for column in self._columns]
        return [list(map(column.__getitem__, rows)) for column in self._columns]

    def line(self, row: int) -> int | None:
        """The line of a text file at which a row begins, None if there are no lines."""
        return self._source.line(self._rows[row])

    def where(self, row: int) -> str:
        """Where a row is in its source, for a sentence about it."""
        return self._source.where(self._rows[row])


def train_steps(source: Source, schema: Schema, **options: Any) -> Any:
    """Training from all rows of a source in steps, with the options of `edgeforest.train_steps`."""
    schema.refuse_class_weight(options.get("class_weight"))
    columns, labels = schema.columns(source.read(range(len(source))))
    if options.get("criterion") is None:
        options["criterion"] = "mse" if schema.regression else "gini"
    training = engines.train_steps(
        columns,
        labels,
        by_column=True,
        names=schema.names,
        categorical=schema.categorical,
        **options,
    )
    training.grown.ranges = ranges.of_columns(columns, schema.categorical)
    return training
