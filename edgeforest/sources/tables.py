"""Make tables of text ready for training: what is a number, a category, a class, missing.

Everything a table can get wrong becomes a `TableError`: one sentence that says what, where, and
what to do about it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from edgeforest.host.names import listed, problem, quoted, short

MISSING = frozenset(("", "NA", "N/A", "nan", "NaN", "NAN", "-nan", "null", "NULL", "None", "?"))
MAX_CATEGORIES = 254  # a code is one byte, and two of its values are taken
MAX_AUTO_CLASSES = 20  # more whole numbers than this are a quantity, not classes
MAX_NUMBER = 3.4028234663852886e38  # the forest compares float32

Value = float | int | str | None
Row = tuple[Value, ...]


class TableError(ValueError):
    """What is wrong with a table, in one sentence for its owner."""


def number(text: str, decimal_comma: bool = False) -> float | None:
    """The number that a cell holds, or None if it holds text."""
    if "_" in text:  # Python's own notation, nobody else's
        return None
    if decimal_comma:
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


@dataclass
class Table:
    """Rows in memory: text by column, None where a value is missing."""

    source: str
    names: list[str]  # "" of a column that has none
    columns: list[list[str | None]]
    place: Callable[[int], str]  # where a row is, for sentences about it: "line 7 of log.csv"
    decimal_comma: bool = False


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
    categorical: Collection[str] = (),
    drop: Collection[str] = (),
    task: str = "auto",
) -> Dataset:
    """Choose the features and the kind of task, and turn the text into values."""
    known = {name for name in table.names if name}
    for name in (target, *categorical, *drop):
        if name not in known:
            raise TableError(
                f"{table.source} has no column {quoted(name)}; it has {listed(filter(None, table.names))}"
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
            lambda i, place=table.place: place(kept[i]),  # type: ignore[misc]
            table.decimal_comma,
        )
    y, regression = _targets(table, target, task)

    data = Dataset(table.source, [], {}, [], target, y, regression, {}, [], len(labels) - len(kept))
    columns: list[list[Value]] = []
    categorical, drop = frozenset(categorical), frozenset(drop)
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
    numbers, words = _sort_out(texts, table.decimal_comma)
    many = f"{count(len(texts), 'distinct value')}"
    if not texts:
        return {}, "no values"
    if not words:
        _refuse_infinite(table, name, column, numbers)
        if not asked:
            return _with_missing(numbers, float("nan")), ""
    elif not asked:
        if all(map(is_date, texts)):
            return {}, f"text, {count(len(texts), 'distinct date')}"
        if len(texts) == present > MAX_CATEGORIES:
            return {}, f"text, {many}"
        if 2 * sum(counts[text] for text in words) < present:
            raise TableError(
                f"column {name!r} holds numbers, but {table.place(column.index(words[0]))} has "
                f"{quoted(words[0])}; mend it, or use categorical={short(name)} or drop={short(name)}"
            )
    if len(texts) > MAX_CATEGORIES:
        raise TableError(
            f"column {name!r} of {table.source} has {many}, at most {MAX_CATEGORIES} categories "
            f"can be told apart; leave it out with drop={short(name)}"
        )
    if words:
        _refuse_text(table, name, column, texts, f"leave it out with drop={short(name)}")
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
    numbers, words = _sort_out(list(counts), table.decimal_comma)
    if task == "auto":
        whole = all(value.is_integer() for value in numbers.values())
        few = len(set(numbers.values())) <= MAX_AUTO_CLASSES
        task = "classification" if words or (whole and few) else "regression"
        if words and 2 * sum(counts[text] for text in words) < len(column):
            raise TableError(
                f"the target {target!r} holds numbers, but "
                f"{table.place(column.index(words[0]))} has {quoted(words[0])}; mend it, or use "
                "task=classification"
            )
    if task == "regression" and words:
        raise TableError(
            f"the target {target!r} of a regression must be numbers, but "
            f"{table.place(column.index(words[0]))} has {quoted(words[0])}; use "
            "task=classification, and not the criterion mse"
        )
    if not words:
        _refuse_infinite(table, target, column, numbers)
    if len(set(numbers.values()) | set(words)) < 2:
        raise TableError(
            f"the target {target!r} of {table.source} is {quoted(column[0])} in every row; there is "
            "nothing to learn, give rows that differ"
        )
    if task == "regression":
        return [numbers[text] for text in column], True
    _refuse_ids(table, target, len(column), len(counts), bool(words))
    if words:
        _refuse_text(table, target, column, words, "shorten it, or learn another column")
        return column, False
    labels = _whole_if_all(numbers)
    return [labels[text] for text in column], False


def _refuse_ids(table: Table, target: str, rows: int, values: int, words: bool) -> None:
    """A class needs rows to be learned from: another one in each row is a name or a number."""
    if values == rows > MAX_AUTO_CLASSES:
        raise TableError(
            f"the target {target!r} of {table.source} has another value in each of "
            f"{count(rows, 'row')}, as an id has; name a column whose values come again"
            + ("" if words else ", or use task=regression if it is a quantity")
        )


def _refuse_text(
    table: Table, name: str, column: Sequence[str | None], texts: Sequence[str], remedy: str
) -> None:
    """A category or a label that is far too long, or no text, is not one."""
    for text in texts:
        if wrong := problem(text):
            raise TableError(
                f"{table.place(column.index(text))} has {quoted(text)} in column {name!r}, which "
                f"{wrong}; {remedy}"
            )


def _sort_out(texts: list[str], decimal_comma: bool) -> tuple[dict[str, float], list[str]]:
    """The texts that are numbers, with their values, and those that are not."""
    numbers: dict[str, float] = {}
    words = []
    for text in texts:
        value = number(text, decimal_comma)
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
                f"{table.place(column.index(text))} has {short(text)} in column {name!r}, numbers must "
                "be within 3.4e38; leave a missing value empty"
            )


def is_date(text: str) -> bool:
    """Whether a text is a date as ISO 8601 writes it."""
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
