"""Rows of a source as a trained forest takes them: its features, found by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edgeforest.host.names import quoted, short
from edgeforest.sources.base import Source, SourceError
from edgeforest.sources.cells import MAX_NUMBER, Value, is_date, parse_number
from edgeforest.sources.schema import plain, refuse_unknown
from edgeforest.sources.views import is_part

BLOCK = 256  # rows at once

Converter = Callable[[Any, int], Value]  # from a value and its row


@dataclass
class Block:
    """Some rows of a source, ready to be predicted."""

    asked: range  # the rows
    rows: Sequence[int]  # those among them that can be read
    features: list[tuple[Any, ...]]  # of these
    values: Sequence[Sequence[Any]]  # of all columns of the source


class Features:
    """Reads the features of a forest from a source, a block at a time.

    >>> from edgeforest import train
    >>> from edgeforest.sources import Table
    >>> forest = train([[i] for i in range(60)], [i > 30 for i in range(60)], names=["t"])
    >>> log = Table({"room": ["a", "b"], "t": [12, 45]})
    >>> [forest.predict(block.features) for block in Features(forest, log)]
    [[False, True]]
    """

    def __init__(self, forest: Any, source: Source) -> None:
        for name in forest.names:
            more = f"; use dates={short(name)}, as for the training" if is_part(name) else ""
            refuse_unknown(source, [name], ", which the model was trained on", more)
        self.source = source
        self.unknown: dict[str, str] = {}  # by feature, a category that the forest has not met
        self._convert = [
            number_of(source, name)
            if kinds is None
            else category_of(source, name, kinds, self.unknown)
            for name, kinds in zip(forest.names, forest.categories, strict=True)
        ]
        columns = {name: f for f, name in reversed(list(enumerate(source.names)))}
        self._places = [columns[name] for name in forest.names]

    def __iter__(self) -> Iterator[Block]:
        n = len(self.source)
        for at in range(0, n, BLOCK):
            asked = range(at, min(n, at + BLOCK))
            rows, values = self.source.read_kept(asked)
            columns = [
                [convert(value, row) for value, row in zip(values[place], rows, strict=True)]
                for convert, place in zip(self._convert, self._places, strict=True)
            ]
            yield Block(asked, rows, list(zip(*columns, strict=True)), values)


def number_of(source: Source, name: str) -> Converter:
    """A function that turns a value of a column of numbers into a number, NaN if it is missing."""

    def convert(value: Any, row: int) -> Value:
        if value is None or value != value:
            return float("nan")
        found = parse_number(value, source.decimal_comma) if isinstance(value, str) else value
        if found is None or not -MAX_NUMBER <= found <= MAX_NUMBER:
            remedy = "fix it, or leave it empty if it is missing"
            if isinstance(value, str) and is_date(value):
                remedy = f"use dates={short(name)}, as for the training"
            raise SourceError(
                f"{source.where(row)} has {quoted(value)} in column {name!r}, which must be a number "
                f"within 3.4e38; {remedy}"
            )
        return float(found)

    return convert


def category_of(
    source: Source, name: str, kinds: Sequence[Value], unknown: dict[str, str]
) -> Converter:
    """A function that turns a value of a column into one of `kinds`; new ones go to `unknown`."""
    known: dict[str, Value] = {str(kind): kind for kind in kinds}
    numbers = {kind: kind for kind in kinds if isinstance(kind, (int, float))}

    def convert(value: Any, row: int) -> Value:
        if value is None or value != value:
            return None
        text = value if isinstance(value, str) else plain(value)
        if text in known:
            return known[text]
        found = parse_number(text, source.decimal_comma)
        if found in numbers:  # 1.0 where the model has 1
            return numbers[found]
        unknown.setdefault(name, text)
        return text

    return convert
