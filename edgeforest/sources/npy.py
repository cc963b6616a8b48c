"""NumPy's `.npy` files as sources: rows are read from their places, without NumPy.

>>> from edgeforest.sources import Table, pack
>>> pack(Table([[1, 2.5], [3, 4.5]]), "small.npy").close()
>>> numbers = NpyFile("small.npy", names=["a", "b"])
>>> len(numbers), numbers.names, numbers.read([1])
(2, ['a', 'b'], [array('f', [3.0]), array('f', [4.5])])
"""

from __future__ import annotations

import ast
import re
import struct
import sys
import warnings
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from edgeforest.sources.base import SourceError
from edgeforest.sources.columns import checked_rows, extended, picked
from edgeforest.sources.file import FileSource, PathType, cannot_read, read_at
from edgeforest.sources.snapshot import Snapshot
from edgeforest.host.words import count

BLOCK = 1 << 20  # bytes that are read at a time
GAP = 4096  # bytes between two rows that are read too rather than jumped over
MAX_HEADER = 1 << 20  # bytes of the header
MAX_TEXT_BYTES = 1 << 20  # of one text
MAGIC = b"\x93NUMPY"

# Typecodes of the array module by kind and bytes; a float of two bytes has none.
_TYPECODES = {
    **{("b", 1): "B", ("f", 2): "", ("f", 4): "f", ("f", 8): "d"},
    **{("i", 1): "b", ("i", 2): "h", ("i", 4): "i", ("i", 8): "q"},
    **{("u", 1): "B", ("u", 2): "H", ("u", 4): "I", ("u", 8): "Q"},
}
_TRUTHS = bytes([0]) + bytes([1]) * 255


@dataclass(frozen=True)
class Field:
    """One value of a row: its kind, and where it is."""

    kind: str  # as NumPy writes it: b f i u U S
    size: int  # in bytes
    at: int  # from the start of the row
    big: bool  # the most significant byte comes first

    @property
    def text(self) -> bool:
        return self.kind in "US"

    def empty(self) -> Any:
        return [] if self.text else array(_TYPECODES[self.kind, self.size] or "f")

    def decode(self, raw: bytes | bytearray, count: int, bad: dict[int, str]) -> Any:
        """Values from their bytes; `bad` gets the places of those that cannot be read, and why."""
        if self.text:
            return self._texts(raw, count, bad)
        if self.kind == "b":
            raw = raw.translate(_TRUTHS)
        code = _TYPECODES[self.kind, self.size]
        if not code:
            return array("f", struct.unpack(f"{'>' if self.big else '<'}{count}e", raw))
        values = array(code)
        values.frombytes(raw)
        if self.size > 1 and self.big != (sys.byteorder == "big"):
            values.byteswap()
        return values

    def _texts(self, raw: bytes | bytearray, count: int, bad: dict[int, str]) -> list[str]:
        coding = "utf-8"
        if self.kind == "U":
            coding = "utf-32-be" if self.big else "utf-32-le"
        texts = []
        for i in range(count):
            value = raw[i * self.size : (i + 1) * self.size]
            if self.kind == "S":
                value = value.rstrip(b"\0")
            try:
                texts.append(value.decode(coding).rstrip("\0"))
            except UnicodeDecodeError:
                texts.append("")
                bad[i] = "holds bytes that are not text"
        return texts


class NpyFile(FileSource):
    """The rows of a `.npy` file: a table of numbers, or records with named fields.

    Rows are read from their places in the file, neighbours in one go. NumPy is not needed, the
    file is not mapped into memory, and nothing in it is ever executed: files of Python objects
    are refused. Numbers come as `array.array` (float16 as float32, truth values as 0 and 1), text
    of records as str.
    """

    def __init__(self, path: PathType, names: Sequence[str] | None = None) -> None:
        super().__init__(path)
        self._file: IO[bytes] | None = None
        self._by_column = False
        self.fields: list[Field] = []
        self._n = self._stride = self._start = 0
        own = self._read_header()
        # Rows may be appended, and the header then says so.
        end = self._start + self._n * self._stride
        assert self._file is not None
        self.snapshot = Snapshot(self.path, self._file, start=self._start, end=end)
        self.names = own if names is None else [str(name) for name in names]
        if len(self.names) != len(own):
            raise SourceError(
                f"{self.name} has {count(len(own), 'column')}, but {len(self.names)} names are given"
            )

    def __len__(self) -> int:
        return self._n

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:  # it may never have been opened
            self.close()

    def close(self) -> None:
        """Close the file; reading opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def read(self, rows: Sequence[int]) -> list[Sequence[Any]]:
        """The values of these rows, by column."""
        rows = checked_rows(rows, self._n, self.name)
        self.check()
        columns = [field.empty() for field in self.fields]
        step = max(1, BLOCK // self._stride)
        for k in range(0, len(rows), step):
            some = rows[k : k + step]
            bad: dict[int, str] = {}
            pieces = self._pieces(some, bad)
            if bad:
                kept = [i for i in range(len(some)) if i not in bad]
                for i, why in bad.items():
                    self.skip(some[i], None, why)
                pieces = [picked(values, kept) for values in pieces]
            columns = list(map(extended, columns, pieces))
        self.check()  # else what was read may be of two files
        return columns

    def _pieces(self, rows: Sequence[int], bad: dict[int, str]) -> list[Any]:
        """The columns of some rows, decoded from their bytes."""
        count, fields = len(rows), self.fields
        if self._by_column:
            size = fields[0].size
            places = [self._start + f * self._n * size for f in range(len(fields))]
            return [
                field.decode(self._gather(at, size, rows), count, bad)
                for field, at in zip(fields, places, strict=True)
            ]
        block = self._gather(self._start, self._stride, rows)
        first = fields[0]
        alike = {(field.kind, field.size, field.big) for field in fields}
        if len(alike) == 1 and not first.text and first.size * len(fields) == self._stride:
            whole = first.decode(block, count * len(fields), bad)
            return [whole[f :: len(fields)] for f in range(len(fields))]
        return [field.decode(self._cut(block, field, count), count, bad) for field in fields]

    def _cut(self, block: bytes, field: Field, count: int) -> bytearray:
        """The bytes of one field of all rows, one after the other."""
        raw = bytearray(field.size * count)
        for j in range(field.size):
            raw[j :: field.size] = block[field.at + j :: self._stride]
        return raw

    def _gather(self, start: int, stride: int, rows: Sequence[int]) -> bytes:
        """The bytes of some rows, one after the other."""
        first, count = rows[0], len(rows)
        if rows[-1] - first + 1 == count:
            return self._bytes(start + first * stride, count * stride)
        reach = 1 + GAP // stride
        parts = []
        i = 0
        while i < count:
            first = last = rows[i]
            most = first + BLOCK // stride
            j = i + 1
            while j < count and rows[j] - last <= reach and rows[j] <= most:
                last = rows[j]
                j += 1
            span = self._bytes(start + first * stride, (last - first + 1) * stride)
            if last - first + 1 == j - i:
                parts.append(span)
            else:
                for row in rows[i:j]:
                    at = (row - first) * stride
                    parts.append(span[at : at + stride])
            i = j
        return b"".join(parts)

    def _bytes(self, at: int, size: int) -> bytes:
        """That many bytes from a place on."""
        try:
            if self._file is None:
                self._file = open(self.path, "rb", buffering=0)  # noqa: SIM115
            found = read_at(self._file, at, size)
            while len(found) < size:  # the system may give less at a time
                more = read_at(self._file, at + len(found), size - len(found))
                if not more:
                    raise self._short()
                found += more
        except OSError as error:
            raise cannot_read(self.name, error) from None
        return found

    # ---- The header

    def _short(self) -> SourceError:
        return SourceError(f"{self.name} is cut short; copy it again")

    def _not_npy(self, why: str) -> SourceError:
        return SourceError(f"{self.name} is not a .npy file that can be read: {why}")

    def _read_header(self) -> list[str]:
        """Find out where the values are; the names of the columns."""
        if self.size < 10:
            raise self._not_npy("it is too short")
        start = self._bytes(0, 10)
        if start[:6] != MAGIC:
            raise self._not_npy("it does not begin as one")
        if start[6] not in (1, 2, 3):
            raise self._not_npy(f"its version is {start[6]}, supported versions: 1 to 3")
        long = start[6] > 1  # the length of the header has four bytes, not two
        if long and self.size < 12:
            raise self._short()
        length = int.from_bytes(self._bytes(8, 4) if long else start[8:10], "little")
        if length > MAX_HEADER:
            raise self._not_npy(f"its header has {length} bytes, at most {MAX_HEADER} are allowed")
        self._start = (12 if long else 10) + length
        if self._start > self.size:
            raise self._short()
        header = self._bytes(self._start - length, length)
        try:
            text = header.decode("utf-8" if start[6] == 3 else "latin-1")
            with warnings.catch_warnings():  # about backslashes
                warnings.simplefilter("ignore")
                found = ast.literal_eval(text.strip())
            descr, by_column, shape = found["descr"], found["fortran_order"], found["shape"]
        except Exception:  # whatever Python's parser raises
            raise self._not_npy("its header is damaged") from None
        return self._understand(descr, by_column, shape)

    def _understand(self, descr: Any, by_column: Any, shape: Any) -> list[str]:
        if not isinstance(shape, tuple) or not all(type(v) is int and v >= 0 for v in shape):
            raise self._not_npy("its header has no valid shape")
        if type(by_column) is not bool:
            raise self._not_npy("its header does not say in which order the values are stored")
        if isinstance(descr, list):
            if len(shape) != 1:
                raise self._not_npy(f"records must be in one dimension, it has {len(shape)}")
            names = self._read_records(descr)
        else:
            if len(shape) != 2:
                dimensions = count(len(shape), "dimension")
                raise self._not_npy(f"it has {dimensions}, expected 2: rows and columns")
            if shape[1] > MAX_HEADER:
                raise self._not_npy(f"it has {shape[1]} columns, at most {MAX_HEADER} are allowed")
            kind, size, big = self._kind(descr, "")
            self.fields = [Field(kind, size, f * size, big) for f in range(shape[1])]
            self._stride = size * shape[1]
            self._by_column = by_column
            names = [f"x{f}" for f in range(shape[1])]
        self._n = shape[0]
        if self._n == 0 or self._stride == 0 or not names:
            raise SourceError(f"{self.name} is empty; it needs at least one row with one value")
        if self.size < self._start + self._n * self._stride:
            raise self._short()
        return names

    def _read_records(self, descr: list[Any]) -> list[str]:
        names: list[str] = []
        for item in descr:
            if not isinstance(item, tuple) or len(item) not in (2, 3):
                raise self._not_npy("its header has no valid list of fields")
            name, what = item[:2]
            if isinstance(name, tuple) and len(name) == 2:  # a title and a name
                name = name[1]
            if not isinstance(name, str):
                raise self._not_npy("a field of its header has no name")
            padding = re.fullmatch(r"\|V([0-9]{1,9})", what) if isinstance(what, str) else None
            if padding and not name and len(item) == 2:
                self._stride += int(padding[1])
                continue
            if len(item) == 3 or isinstance(what, list):
                raise self._not_npy(
                    f"field {name!r} holds more than one value; make it several fields"
                )
            if name in names:
                raise self._not_npy(f"it has more than one field {name!r}")
            kind, size, big = self._kind(what, f"field {name!r} ")
            self.fields.append(Field(kind, size, self._stride, big))
            self._stride += size
            names.append(name)
        return names

    def _kind(self, what: Any, where: str) -> tuple[str, int, bool]:
        """The kind of a value, its bytes, and whether the most significant byte comes first."""
        match = re.fullmatch(r"([<>|=]?)([A-Za-z])([0-9]{0,9})(?:\[.*\])?", str(what))
        if not isinstance(what, str) or not match:
            raise self._not_npy(f"{where or 'it '}holds values of an unknown kind")
        order, kind, digits = match.groups()
        if kind == "O":
            raise self._not_npy(f"{where or 'it '}holds Python objects; save numbers or text")
        number = int(digits or "0")  # of bytes, or of characters
        if (kind, number) not in _TYPECODES and (kind not in "US" or not digits):
            raise self._not_npy(
                f"{where or 'it '}holds values of kind {what[:20]!r}; save numbers or text"
            )
        big = order == ">" or (order in "=|" and sys.byteorder == "big")
        size = number * (4 if kind == "U" else 1)
        if size > MAX_TEXT_BYTES:
            raise self._not_npy(
                f"{where or 'it '}holds texts of more than {MAX_TEXT_BYTES >> 20} MB"
            )
        return kind, size, big
