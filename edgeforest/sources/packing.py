"""Pack any source into a `.npy` file once, from which rows are read much faster.

>>> from edgeforest.sources import Table
>>> log = Table([[20.5, "shut"], [24.0, "open"], [None, "open"]], names=["temp", "window"])
>>> packed = pack(log, "log.npy")
>>> len(packed), packed.names, packed.read([0, 1])
(3, ['temp', 'window'], [array('f', [20.5, 24.0]), ['shut', 'open']])
"""

from __future__ import annotations

import json
import math
import os
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from edgeforest import files
from edgeforest.host.names import visible
from edgeforest.sources.base import Source, SourceError
from edgeforest.sources.columns import array_or_list
from edgeforest.sources.file import OnProgress, PathType, cannot_read
from edgeforest.sources.npy import MAGIC, NpyFile
from edgeforest.host.words import reason
from edgeforest.sources.cells import cell, parse_number

BLOCK = 1 << 20  # bytes of values that are in memory at a time, about
MAX_TEXTS = 100_000  # different texts in a column: they are kept in memory
FLOAT32_WHOLE = 1 << 24  # whole numbers up to here are float32 without loss


class Packed(NpyFile):
    """A file that `pack` wrote, with the names and the text of its columns."""

    def __init__(self, path: PathType) -> None:
        super().__init__(path)
        side = f"{self.path}.json"
        try:
            with open(side, encoding="utf-8") as file:
                found = json.load(file)
            if found["format"] != "edgeforest-rows" or found["version"] != 1:
                raise ValueError
            names, categories, size = found["names"], found["categories"], found["size"]
            valid = (
                isinstance(names, list)
                and isinstance(categories, list)
                and all(isinstance(name, str) for name in names)
                and all(texts is None or _are_texts(texts) for texts in categories)
                and len(names) == len(categories) == len(self.fields)
            )
        except OSError as error:
            raise cannot_read(visible(side), error) from None
        except (ValueError, KeyError, TypeError, RecursionError):
            valid, size = False, None
        if not valid or size != self.size or any(field.text for field in self.fields):
            raise SourceError(
                f"{visible(side)} does not belong to {self.name}; pack the source again"
            )
        self.names = names
        self._categories: list[list[Any] | None] = categories

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        columns = super().read(rows)
        for f, texts in enumerate(self._categories):
            if texts is not None:
                try:
                    columns[f] = [None if v != v else texts[int(v)] for v in columns[f]]
                except (IndexError, OverflowError):
                    raise SourceError(
                        f"column {self.names[f]!r} of {self.name} is damaged; pack the source again"
                    ) from None
        return columns


def _are_texts(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(text, str | int | float) for text in given)


def pack(
    source: Source,
    path: PathType,
    progress: OnProgress | None = None,
) -> Packed:
    """Write the rows of a source as a `.npy` file, from which they are read much faster.

    A second file, `<path>.json`, keeps the names of the columns, and the texts of columns that
    hold text: in the `.npy` file a text is a number. Numbers are written as float32. A column with
    numbers beyond 2^24 that float32 would change is written as float64, and the file then holds
    records. Missing numbers come back as NaN, missing text as None. Bad rows that may be skipped
    are not written.

    The source is read twice, a block at a time; `progress(done, of)` is called after each block.
    The file is complete when it appears.

    >>> from edgeforest.sources import Table
    >>> days = pack(Table({"day": ["mon", "tue", "mon"], "unix": [1700000001, 1700086401, None]}),
    ...             "days.npy")
    >>> days.read([0, 1, 2])
    [['mon', 'tue', 'mon'], array('d', [1700000001.0, 1700086401.0, nan])]
    """
    return _Packer(source, os.fspath(path), progress).run()


class _Packer:
    """The work of `pack`: look at all rows, then write them."""

    def __init__(self, source: Source, path: str, progress: OnProgress | None) -> None:
        self.source = source
        self.path = path
        self.progress = progress
        n_columns = len(source.names)
        self.text = [False] * n_columns  # columns that hold text
        self.wide = [False] * n_columns  # columns that need float64
        self.codes: list[dict[Any, int]] = [{} for _ in range(n_columns)]

    def run(self) -> Packed:
        n = sum(len(block[0]) for block in self.blocks(0))
        if n == 0:
            raise SourceError(f"no row of {self.source.name} can be used; look at its first lines")
        try:
            with files.replacing(self.path) as file:
                size = self.write(file, n)
                files.write(f"{self.path}.json", (json.dumps(self.about(size)),))
        except OSError as error:
            raise SourceError(f"cannot write {visible(self.path)}: {reason(error)}") from None
        return Packed(self.path)

    def blocks(self, turn: int) -> Iterator[list[Any]]:
        """All rows by column, a block at a time; turn 0 also looks at them."""
        n, n_columns = len(self.source), len(self.source.names)
        step = max(1, min(1 << 16, BLOCK // (64 * n_columns)))
        for at in range(0, n, step):
            upto = min(n, at + step)
            block = list(map(array_or_list, self.source.read(range(at, upto))))
            for f in range(n_columns):
                if self.source.texts and not self.text[f]:
                    block[f] = list(map(self.value, block[f]))
                if turn == 0:
                    self.look(f, block[f])
            yield block
            if self.progress is not None:
                self.progress(turn * n + upto, 2 * n)

    def value(self, text: Any) -> Any:
        """The number that a text holds, None if it is missing; other text as it is."""
        if not isinstance(text, str):  # a date is a number already
            return text
        bare = cell(text)
        found = bare and parse_number(bare, self.source.decimal_comma)
        return text if bare is not None and found is None else found

    def look(self, f: int, column: Any) -> None:
        """Note whether there is text, or a number that float32 would change."""
        if self.text[f] or (isinstance(column, array) and column.typecode in "bBhHf"):
            return
        if any(issubclass(kind, str) for kind in set(map(type, column))):
            self.text[f] = True
        elif not self.wide[f]:
            try:
                large = [v for v in column if v is not None and abs(v) > FLOAT32_WHOLE]
                self.wide[f] = any(map(float.__ne__, array("f", large), map(float, large)))
            except (TypeError, ValueError, OverflowError):
                raise self.odd(f) from None

    def odd(self, f: int) -> SourceError:
        return SourceError(
            f"column {self.source.names[f]!r} of {self.source.name} holds a value that is neither "
            "a number nor text"
        )

    def write(self, file: BinaryIO, n: int) -> int:
        n_columns = len(self.text)
        names = list(self.source.names)
        if len(set(names)) < n_columns or "" in names:
            names = [f"x{f}" for f in range(n_columns)]
        sizes = [
            8 if wide and not text else 4 for wide, text in zip(self.wide, self.text, strict=True)
        ]
        plain = len(set(sizes)) == 1
        descr: Any = f"<f{sizes[0]}"
        shape: tuple[int, ...] = (n, n_columns)
        if not plain:
            descr = [(name, f"<f{size}") for name, size in zip(names, sizes, strict=True)]
            shape = (n,)
        written = 0
        file.write(_header(descr, shape))
        for block in self.blocks(1):
            columns = [self.encode(f, block[f], "fd"[sizes[f] == 8]) for f in range(n_columns)]
            file.write(_interleaved(columns, sizes))
            written += len(columns[0])
        if written != n:
            raise SourceError(f"{self.source.name} changed while it was packed; try again")
        return file.tell()

    def encode(self, f: int, column: Any, code: str) -> array[float]:
        if self.text[f]:
            column = self.encode_text(f, column)
        elif isinstance(column, array) and column.typecode == code:
            return column
        try:
            return array(code, [math.nan if v is None else v for v in column])
        except (TypeError, ValueError, OverflowError):
            raise self.odd(f) from None

    def encode_text(self, f: int, column: Any) -> list[int | None]:
        codes = self.codes[f]
        found: list[int | None] = []
        for v in column:
            if v is None or v != v:
                found.append(None)
                continue
            code = codes.get(v)
            if code is None:
                if len(codes) == MAX_TEXTS:
                    raise SourceError(
                        f"column {self.source.names[f]!r} of {self.source.name} has more than "
                        f"{MAX_TEXTS} different texts; leave it out"
                    )
                code = len(codes)
                codes[v] = code
            found.append(code)
        return found

    def about(self, size: int) -> dict[str, Any]:
        return {
            "format": "edgeforest-rows",
            "version": 1,
            "names": list(self.source.names),
            "categories": [
                list(codes) if text else None
                for text, codes in zip(self.text, self.codes, strict=True)
            ],
            "size": size,
        }


def _header(descr: Any, shape: tuple[int, ...]) -> bytes:
    """The start of a .npy file, as NumPy writes it."""
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    version = 1
    try:
        body = text.encode("latin-1")
    except UnicodeEncodeError:
        version = 3
        body = text.encode("utf-8")
    if version == 1 and len(body) > 65000:
        version = 2
    start = 10 if version == 1 else 12
    body += b" " * (-(start + len(body) + 1) % 64) + b"\n"
    length = len(body).to_bytes(2 if version == 1 else 4, "little")
    return MAGIC + bytes([version, 0]) + length + body


def _interleaved(columns: list[array[float]], sizes: list[int]) -> bytes | bytearray:
    """Columns as the bytes of rows, the least significant byte of a value first."""
    if sys.byteorder == "big":
        columns = [column[:] for column in columns]
        for column in columns:
            column.byteswap()
    n = len(columns[0])
    if len(set(sizes)) == 1:
        rows: array[float] = array("fd"[sizes[0] == 8], bytes(n * sizes[0] * len(columns)))
        for f, column in enumerate(columns):
            rows[f :: len(columns)] = column
        return rows.tobytes()
    stride = sum(sizes)
    block = bytearray(n * stride)
    at = 0
    for column, size in zip(columns, sizes, strict=True):
        raw = column.tobytes()
        for j in range(size):
            block[at + j :: stride] = raw[j::size]
        at += size
    return block
