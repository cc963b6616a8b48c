"""Decide what the columns of a table are, from their text: numbers or categories.

Whatever is wrong with a table becomes a `SourceError`: one sentence that says what, where, and what
to do about it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from edgeforest.host.names import problem, quoted, short
from edgeforest.host.words import count
from edgeforest.sources.base import SourceError
from edgeforest.sources.cells import MAX_NUMBER, Value, is_date, parse_number

DATES = "distinct date"  # in the reason to leave out a column of dates
ID = re.compile(r"(.*[ _-])?(id|idx|index|no|nr|number|row|rownum|row_names)|.*[a-z]Id", re.ASCII)
MAX_CATEGORIES = 254  # a code is one byte, and two of its values are taken
MAX_AUTO_CLASSES = 20  # more whole numbers than this are a quantity, not classes


@dataclass
class Cells:
    """Some rows of a table as text by column, None where a value is missing."""

    source: str  # its name, for sentences about it
    names: list[str]  # "" for a column without a name
    columns: list[list[str | None]]
    where: Callable[[int], str]  # the place of a row, for sentences about it: "line 7 of log.csv"
    decimal_comma: bool = False


@dataclass
class Target:
    """The column to predict: its kind, and the values that were seen."""

    name: str
    regression: bool
    values: Sequence[Value]  # one a row; numbers, or the labels of classes
    unlabelled: int  # rows left out because their target is missing


@dataclass
class Found:
    """What the columns of a table are."""

    target: Target
    names: list[str] = field(default_factory=list)  # of the features
    categories: dict[str, list[Value]] = field(default_factory=dict)  # those seen, by feature
    missing: dict[str, int] = field(default_factory=dict)  # missing values, by feature
    left_out: list[tuple[str, str]] = field(
        default_factory=list
    )  # a column, and why it is not used
    dates: list[str] = field(default_factory=list)  # those of them that hold dates


def find(
    cells: Cells, target: str, categorical: Collection[str], drop: Collection[str], task: str
) -> Found:
    """Choose the features and the kind of task. All names must be among those of the table."""
    _refuse_contradictions(target, categorical, drop)
    labels = cells.columns[cells.names.index(target)]
    kept = [i for i, label in enumerate(labels) if label is not None]
    if not kept:
        raise SourceError(
            f"column {target!r} of {cells.source} is empty; give a target with values"
        )
    if len(kept) < len(labels):
        cells = Cells(
            cells.source,
            cells.names,
            [[column[i] for i in kept] for column in cells.columns],
            lambda i, where=cells.where: where(kept[i]),  # type: ignore[misc]
            cells.decimal_comma,
        )
    found = Found(_target(cells, target, task, len(labels) - len(kept)))
    for place, (name, column) in enumerate(zip(cells.names, cells.columns, strict=True)):
        if name == target or name in drop:
            continue
        if not name:
            found.left_out.append((f"column {place + 1}", "the header does not name it"))
            continue
        categories, reason = _feature(cells, name, column, name in categorical)
        if reason:
            found.left_out.append((name, reason))
            if DATES in reason:
                found.dates.append(name)
            continue
        found.names.append(name)
        if categories is not None:
            found.categories[name] = categories
        if None in column:
            found.missing[name] = column.count(None)
    if not found.names:
        raise SourceError(f"{cells.source} has no column to learn {target!r} from; add features")
    return found


def _refuse_contradictions(
    target: str, categorical: Collection[str], drop: Collection[str]
) -> None:
    for name in drop:
        if name == target:
            raise SourceError(f"drop names the target {target!r}; drop or predict another column")
        if name in categorical:
            raise SourceError(f"drop names column {name!r}, which is also categorical; choose one")
    if target in categorical:
        raise SourceError(
            f"categorical names the target {target!r}, which is not a feature; to predict classes "
            "use task=classification"
        )


def _feature(
    cells: Cells, name: str, column: list[str | None], asked: bool
) -> tuple[list[Value] | None, str]:
    """The categories of a column, None if it holds numbers; or the reason to leave it out."""
    counts = Counter(column)
    present = len(column) - counts.pop(None, 0)
    texts = [text for text in counts if text is not None]
    numbers, words = _sort_out(texts, cells.decimal_comma)
    if not texts:
        return None, "no values"
    if not words:
        _refuse_infinite(cells, name, column, numbers)
        if not asked:
            return None, _useless(name, numbers, len(column))
    elif not asked:
        if all(map(is_date, texts)):
            return None, f"text, {count(len(texts), DATES)}"
        if len(texts) == present > MAX_CATEGORIES:
            return None, f"text, {count(len(texts), 'distinct value')}"
        if 2 * sum(counts[text] for text in words) < present:
            raise SourceError(
                f"column {name!r} holds numbers, but {cells.where(column.index(words[0]))} has "
                f"{quoted(words[0])}; fix it, or use categorical={short(name)} or drop={short(name)}"
            )
    if len(texts) > MAX_CATEGORIES:
        raise SourceError(
            f"column {name!r} of {cells.source} has {count(len(texts), 'distinct value')}, but a "
            f"feature has at most {MAX_CATEGORIES} categories; leave it out with drop={short(name)}"
        )
    if words:
        _refuse_text(cells, name, column, texts, f"leave it out with drop={short(name)}")
        return list(texts), ""
    return list(_whole_if_all(numbers).values()), ""


def _useless(name: str, numbers: dict[str, float], rows: int) -> str:
    """Why nothing can be learned from a column of numbers: an id, or one value; else nothing."""
    values = set(numbers.values())
    if len(values) == 1 and rows > 1:
        return f"{short(next(iter(numbers)))} in every row"
    whole = len(values) == rows > MAX_AUTO_CLASSES and all(map(float.is_integer, values))
    if whole and (ID.fullmatch(name) or ID.fullmatch(name.lower())):
        return "a different number in each row, as an id has"
    return ""


def _target(cells: Cells, target: str, task: str, unlabelled: int) -> Target:
    """The values of the target as numbers or text, and whether they ask for a regression."""
    column = [text for text in cells.columns[cells.names.index(target)] if text is not None]
    counts = Counter(column)
    numbers, words = _sort_out(list(counts), cells.decimal_comma)
    if task == "auto":
        task = _auto_task(cells, target, column, numbers, words)
    if task == "regression" and words:
        raise SourceError(
            f"the target {target!r} of a regression must be numbers, but "
            f"{cells.where(column.index(words[0]))} has {quoted(words[0])}; use "
            "task=classification, without criterion=mse"
        )
    if not words:
        _refuse_infinite(cells, target, column, numbers)
    if len(set(numbers.values()) | set(words)) < 2:
        raise SourceError(
            f"the target {target!r} of {cells.source} is {quoted(column[0])} in every row, so there "
            "is nothing to learn; give rows that differ"
        )
    if task == "regression":
        return Target(target, True, [numbers[text] for text in column], unlabelled)
    _refuse_ids(cells, target, len(column), len(counts), bool(words))
    if words:
        _refuse_text(cells, target, column, words, "shorten it, or learn another column")
        return Target(target, False, column, unlabelled)
    labels = _whole_if_all(numbers)
    return Target(target, False, [labels[text] for text in column], unlabelled)


def _auto_task(
    cells: Cells, target: str, column: list[str], numbers: dict[str, float], words: list[str]
) -> str:
    """The task that fits the target: classes if it is text, or few whole numbers."""
    odd = set(words)
    if words and 2 * sum(text in odd for text in column) < len(column):
        raise SourceError(
            f"the target {target!r} holds numbers, but {cells.where(column.index(words[0]))} has "
            f"{quoted(words[0])}; fix it, or use task=classification"
        )
    whole = all(value.is_integer() for value in numbers.values())
    few = len(set(numbers.values())) <= MAX_AUTO_CLASSES
    return "classification" if words or (whole and few) else "regression"


def _refuse_ids(cells: Cells, target: str, rows: int, values: int, words: bool) -> None:
    """Refuse a class of its own for every row: a class needs rows to be learned from."""
    if values == rows > MAX_AUTO_CLASSES:
        raise SourceError(
            f"the target {target!r} of {cells.source} has a different value in each of "
            f"{count(rows, 'row')}, as an id has; name a column with values that repeat"
            + ("" if words else ", or use task=regression if it is a quantity")
        )


def _refuse_text(
    cells: Cells, name: str, column: Sequence[str | None], texts: Sequence[str], remedy: str
) -> None:
    """Refuse a category or a label that is far too long, or is not text."""
    for text in texts:
        if wrong := problem(text):
            raise SourceError(
                f"{cells.where(column.index(text))} has {quoted(text)} in column {name!r}, which "
                f"{wrong}; {remedy}"
            )


def _sort_out(texts: list[str], decimal_comma: bool) -> tuple[dict[str, float], list[str]]:
    """The texts that are numbers, with their values, and those that are not."""
    numbers: dict[str, float] = {}
    words = []
    for text in texts:
        value = parse_number(text, decimal_comma)
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
    cells: Cells, name: str, column: Sequence[str | None], numbers: dict[str, float]
) -> None:
    for text, value in numbers.items():
        if not -MAX_NUMBER <= value <= MAX_NUMBER:
            raise SourceError(
                f"{cells.where(column.index(text))} has {short(text)} in column {name!r}, but numbers "
                "must be within 3.4e38; leave a missing value empty"
            )
