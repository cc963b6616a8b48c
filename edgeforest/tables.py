"""Read tables of rows from CSV files and make them ready for training.

Everything a file can get wrong becomes a `TableError`: one sentence that says what, where, and
what to do about it.
"""

import csv
import gzip
import io
import re
import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from types import TracebackType
from typing import Any, Self, TypeVar

MISSING = frozenset(("", "NA", "N/A", "nan", "NaN", "NAN", "-nan", "null", "NULL", "None", "?"))
MAX_CATEGORIES = 254  # a code is one byte, and two of its values are taken
MAX_AUTO_CLASSES = 20  # more whole numbers than this are a quantity, not classes
MAX_NUMBER = 3.4028234663852886e38  # the forest compares float32

T = TypeVar("T")
Value = float | int | str | None
Row = tuple[Value, ...]


class TableError(ValueError):
    """What is wrong with a table, in one sentence for its owner."""


class Reader:
    """Read a CSV file row by row: iterate for lists of text, as many as there are `names`.

    The header tells the separator: a tab if it has one, else the more frequent of ; and comma. A
    first column that the header does not name, as R writes its row names, gets the name "".
    Gzipped files are unpacked on the way, and "-" is the standard input.
    """

    def __init__(self, path: str) -> None:
        self.source = "the standard input" if path == "-" else path
        self.line = 0  # of the row that was given last
        self._stream = self._open(path)
        try:
            self._read_header()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the standard input stays open, it is not ours."""
        if self._ours:
            self._stream.close()
            self._raw.close()
        else:
            self._stream.detach()

    def _open(self, path: str) -> io.TextIOWrapper:
        if path == "-" and sys.stdin is None:
            raise TableError("the standard input is closed; pipe a CSV file into it")
        try:
            raw: Any = sys.stdin.buffer if path == "-" else open(path, "rb")  # noqa: SIM115
        except OSError as error:
            raise TableError(f"cannot read {path}: {reason(error)}") from None
        self._raw = raw
        self._ours = path != "-"
        zipped = raw.peek(2)[:2] == b"\x1f\x8b"
        stream = gzip.open(raw) if zipped else raw  # noqa: SIM115
        return io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")

    def _read_header(self) -> None:
        first = self._pull(self._stream)
        blank = 0  # lines above the header
        while first is not None and not first.strip():
            blank += 1
            first = self._pull(self._stream)
        if first is None:
            raise TableError(f"{self.source} is empty; its first line must name the columns")
        self._blank = blank
        self.separator = _separator(first)
        self._parser = csv.reader(
            chain([first], self._stream), delimiter=self.separator, skipinitialspace=True
        )
        self.line = blank + 1
        self.names = [name.strip() for name in self._pull(self._parser) or []]
        twice = [name for name, times in Counter(self.names).items() if times > 1 and name]
        if twice:
            raise TableError(
                f"{self.source} has more than one column {twice[0]!r}; give each its own name"
            )
        self._first = self._next_row()
        # As R writes it. A last value that is empty is a separator too many, not an index.
        if self._first and len(self._first) == len(self.names) + 1 and self._first[-1]:
            self.names.insert(0, "")

    def _pull(self, items: Iterator[T]) -> T | None:
        """The next item or None, with what the file has wrong said in our way."""
        try:
            return next(items, None)
        except UnicodeDecodeError:
            raise TableError(f"{self.source} is not UTF-8 text; save it as UTF-8") from None
        except csv.Error as error:
            raise TableError(
                f"line {self.line} of {self.source} is not CSV ({error}); look for a lone quote"
            ) from None
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise TableError(f"{self.source} is cut short or damaged; copy it again") from None
        except OSError as error:
            raise TableError(f"cannot read {self.source}: {reason(error)}") from None

    def _next_row(self) -> list[str] | None:
        while True:
            self.line = self._blank + self._parser.line_num + 1  # a row may have many lines
            row = self._pull(self._parser)
            if row != []:  # a blank line
                return row

    def __iter__(self) -> Iterator[list[str]]:
        row = self._first
        width = len(self.names)
        while row is not None:
            if len(row) != width:
                raise TableError(
                    f"line {self.line} of {self.source} has {count(len(row), 'value')}, the "
                    f"header names {count(width, 'column')}; mend or remove the line"
                )
            yield row
            row = self._next_row()

    def number(self, text: str) -> float | None:
        """The number that a cell holds, or None if it holds text."""
        return _number(text, self.separator)

    def place(self, name: str) -> int:
        """Where the column of that name is."""
        if name not in self.names or not name:
            raise TableError(
                f"{self.source} has no column {name!r}; it has {_names(n for n in self.names if n)}"
            )
        return self.names.index(name)


def _separator(header: str) -> str:
    bare = re.sub('"[^"]*"', "", header)  # a separator inside quotes separates nothing
    if "\t" in bare:  # nobody has a tab in a name
        return "\t"
    return ";" if bare.count(";") > bare.count(",") else ","


def _number(text: str, separator: str) -> float | None:
    if "_" in text:  # Python's own notation, nobody else's
        return None
    if separator != ",":  # then a comma in a number is a decimal comma
        text = text.replace(",", ".")
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == value else None


def cell(text: str) -> str | None:
    """A cell's text without the space around it, None where the value is missing."""
    text = text.strip()
    return None if text in MISSING else text


class _Cells(dict[str, "str | None"]):
    """Cells by their raw text: each distinct one is cleaned and kept in memory once."""

    def __missing__(self, raw: str) -> str | None:
        self[raw] = text = cell(raw)
        return text


@dataclass
class Table:
    """A whole file in memory: text by column, None where a value is missing."""

    source: str
    names: list[str]
    columns: list[list[str | None]]
    lines: Sequence[int]  # of the file, by row
    separator: str


def read_table(path: str) -> Table:
    """Read a CSV file into memory."""
    with Reader(path) as reader:
        seen = [_Cells() for _ in reader.names]
        columns: list[list[str | None]] = [[] for _ in reader.names]
        lines = array("I")
        for row in reader:
            lines.append(reader.line)
            for column, cells, raw in zip(columns, seen, row, strict=True):
                column.append(cells[raw])
        if not lines:
            raise TableError(f"{reader.source} names columns but has no rows; add some")
        return Table(reader.source, reader.names, columns, lines, reader.separator)


@dataclass
class Dataset:
    """A table made ready: rows of features and their targets, and what became of each column."""

    source: str
    names: list[str]
    categories: dict[str, int]  # distinct values of each categorical feature
    rows: list[Row]
    target: str
    y: list[float] | list[int] | list[str]
    regression: bool
    missing: dict[str, int]  # missing values of each feature that has some
    left_out: list[tuple[str, str]]  # name of a column, and why it is not used
    unlabelled: int  # rows left out because their target is missing


def prepare(
    table: Table,
    target: str,
    *,
    categorical: Sequence[str] = (),
    drop: Sequence[str] = (),
    task: str = "auto",
) -> Dataset:
    """Choose the features and the kind of task, and turn the text into values."""
    for name in (target, *categorical, *drop):
        if not name or name not in table.names:
            raise TableError(
                f"{table.source} has no column {name!r}; it has {_names(n for n in table.names if n)}"
            )
    for name in drop:
        if name == target:
            raise TableError(f"the target {target!r} cannot be dropped; drop or predict another")
        if name in categorical:
            raise TableError(f"column {name!r} is both categorical and dropped; choose one")
    if target in categorical:
        raise TableError(
            f"the target {target!r} is no feature; for classes use the task 'classification'"
        )

    labels = table.columns[table.names.index(target)]
    kept = [i for i, label in enumerate(labels) if label is not None]
    if not kept:
        raise TableError(f"column {target!r} of {table.source} is empty; give a target with values")
    if len(kept) < len(labels):
        table = Table(
            table.source,
            table.names,
            [[column[i] for i in kept] for column in table.columns],
            array("I", [table.lines[i] for i in kept]),
            table.separator,
        )
    y, regression = _targets(table, target, task)

    data = Dataset(table.source, [], {}, [], target, y, regression, {}, [], len(labels) - len(kept))
    columns: list[list[Value]] = []
    for place, (name, column) in enumerate(zip(table.names, table.columns, strict=True)):
        if name == target or name in drop:
            continue
        if not name:
            data.left_out.append((f"column {place + 1}", "the header does not name it"))
            continue
        values, reason = _feature(table, name, column, name in categorical)
        if reason:
            data.left_out.append((name, reason))
            continue
        data.names.append(name)
        if values[None] is None:
            data.categories[name] = len(values) - 1
        if None in column:
            data.missing[name] = column.count(None)
        columns.append([values[text] for text in column])
    if not data.names:
        raise TableError(f"{table.source} has no column to learn {target!r} from; add features")
    data.rows = list(zip(*columns, strict=True))
    return data


def _feature(
    table: Table, name: str, column: list[str | None], asked: bool
) -> tuple[dict[str | None, Value], str]:
    """The value of each distinct text of a column, or the reason to leave it out.

    Missing values of numbers become NaN, those of categories None.
    """
    counts = Counter(column)
    present = len(column) - counts.pop(None, 0)
    texts = [text for text in counts if text is not None]
    numbers, words = _sort_out(texts, table.separator)
    many = f"{count(len(texts), 'distinct value')}"
    if not texts:
        return {}, "no values"
    if not words:
        _refuse_infinite(table, name, column, numbers)
        if not asked:
            return _with_missing(numbers, float("nan")), ""
    elif not asked:
        if all(map(_is_date, texts)) or len(texts) == present > MAX_CATEGORIES:
            return {}, f"text, {many}"
        if 2 * sum(counts[text] for text in words) < present:
            raise TableError(
                f"column {name!r} of {table.source} holds numbers, but line "
                f"{table.lines[column.index(words[0])]} has {words[0]!r}; mend it, or use "
                f"--categorical {name} or --drop {name}"
            )
    if len(texts) > MAX_CATEGORIES:
        raise TableError(
            f"column {name!r} of {table.source} has {many}, at most {MAX_CATEGORIES} categories "
            f"can be told apart; leave it out with --drop {name}"
        )
    if words:
        return _with_missing({text: text for text in texts}, None), ""
    return _with_missing(_whole_if_all(numbers), None), ""


def _with_missing(values: Mapping[str, Value], missing: float | None) -> dict[str | None, Value]:
    complete: dict[str | None, Value] = {None: missing}
    complete.update(values.items())
    return complete


def _targets(
    table: Table, target: str, task: str
) -> tuple[list[float] | list[int] | list[str], bool]:
    """The targets as numbers or text, and whether they ask for a regression."""
    column = [text for text in table.columns[table.names.index(target)] if text is not None]
    counts = Counter(column)
    numbers, words = _sort_out(list(counts), table.separator)
    if task == "auto":
        whole = all(value.is_integer() for value in numbers.values())
        few = len(set(numbers.values())) <= MAX_AUTO_CLASSES
        task = "classification" if words or (whole and few) else "regression"
        if words and 2 * sum(counts[text] for text in words) < len(column):
            raise TableError(
                f"the target {target!r} holds numbers, but line "
                f"{table.lines[column.index(words[0])]} of {table.source} has {words[0]!r}; mend "
                "it, or use --task classification"
            )
    if task == "regression" and words:
        raise TableError(
            f"the target {target!r} of a regression must be numbers, but line "
            f"{table.lines[column.index(words[0])]} of {table.source} has {words[0]!r}; use "
            "--task classification"
        )
    if not words:
        _refuse_infinite(table, target, column, numbers)
    if len(set(numbers.values()) | set(words)) < 2:
        raise TableError(
            f"the target {target!r} of {table.source} is {column[0]!r} in every row; there is "
            "nothing to learn, give rows that differ"
        )
    if task == "regression":
        return [numbers[text] for text in column], True
    if words:
        return column, False
    labels = _whole_if_all(numbers)
    return [labels[text] for text in column], False


def _sort_out(texts: list[str], separator: str) -> tuple[dict[str, float], list[str]]:
    """The texts that are numbers, with their values, and those that are not."""
    numbers: dict[str, float] = {}
    words = []
    for text in texts:
        value = _number(text, separator)
        if value is None:
            words.append(text)
        else:
            numbers[text] = value
    return numbers, words


def _whole_if_all(numbers: dict[str, float]) -> dict[str, float] | dict[str, int]:
    """Whole numbers as int, so that labels read 0 and 1 and not 0.0 and 1.0."""
    if all(value.is_integer() for value in numbers.values()):
        return {text: int(value) for text, value in numbers.items()}
    return numbers


def _refuse_infinite(
    table: Table, name: str, column: Sequence[str | None], numbers: dict[str, float]
) -> None:
    for text, value in numbers.items():
        if not -MAX_NUMBER <= value <= MAX_NUMBER:
            raise TableError(
                f"line {table.lines[column.index(text)]} of {table.source} has {text} in column "
                f"{name!r}, numbers must be within 3.4e38; leave a missing value empty"
            )


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return not text.isdigit()


def reason(error: OSError) -> str:
    """What the system has against a file, without its number and the path."""
    return (error.strerror or str(error)).lower()


def count(n: int, noun: str, nouns: str = "") -> str:
    """A number and its noun, both as a reader expects them: 1 row, 1,200 rows."""
    return f"{n:,} {noun if n == 1 else nouns or noun + 's'}"


def _names(names: Iterable[str]) -> str:
    """A list of names for a sentence, cut where it gets long."""
    listed = list(names)
    return ", ".join(listed[:12]) + (f" and {len(listed) - 12} more" if len(listed) > 12 else "")
