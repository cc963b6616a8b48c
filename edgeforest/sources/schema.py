"""What the columns of a source are, and their values as a training takes them.

>>> from edgeforest.budget import Rng
>>> from edgeforest.sources import Table
>>> log = Table({"temp": [20.5, 24.0, None], "window": ["shut", "open", "open"], "y": [1, 0, 0]})
>>> schema = look(log, "y", Rng(0))
>>> schema.names, schema.categorical, schema.regression
(['temp', 'window'], [1], False)
>>> schema.columns(log.read([0, 2]))
([array('f', [20.5, nan]), ['shut', 'open']], [1, 0])
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from dataclasses import dataclass, field
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Any

from edgeforest.host.names import listed, problem, quoted, short
import edgeforest.sources.in_c as in_c
from edgeforest.sources.base import SourceError, check_columns
from edgeforest.sources.cells import MAX_NUMBER, parse_number
from edgeforest.sources.columns import without
from edgeforest.sources.column_kinds import Cells, Found, find
from edgeforest.drawing import draw

if TYPE_CHECKING:
    from edgeforest.budget import Rng
    from edgeforest.sources.base import Source

LOOK = 4096  # rows that show what the columns are ...
CELLS = 40_000  # ... or fewer, if there are many columns
MAX_FEATURES = 16_383  # of a forest
TARGETS = ("target", "label", "class", "y", "outcome")  # what a column to learn is called
MAX_DISTINCT = 1 << 16  # texts of a column that are kept in memory
_STRIPPED = (b"\x1c", b"\x1d", b"\x1e", b"\x1f")  # str.strip takes them off, but float does not


@dataclass
class Schema:
    """The columns that a forest learns from, and the one that it learns to predict."""

    target: str
    regression: bool
    names: list[str]  # of the features
    categorical: list[int]  # the places of those among them that are categories
    found: Found  # what was seen in the rows that were looked at
    looked: int  # how many rows that were
    _columns: list[int] = field(repr=False)  # where the features are in the source
    _label: int = field(repr=False)  # where the target is
    _kind: Callable[[Any], Any] = field(repr=False)  # from a value of the target to a label
    _kinds: dict[int, Callable[[Any], Any]] = field(repr=False)  # from a value to its category
    _comma: bool = False  # 1,5 is a number
    odd: dict[str, int] = field(default_factory=dict)  # values that are not numbers, by column
    unlabelled: int = 0  # rows that were left out because their target is missing
    # Labels of the values that were met (at -1), and categories by feature.
    _known: dict[int, dict[Any, Any]] = field(default_factory=dict, repr=False)

    @property
    def left_out(self) -> list[tuple[str, str]]:
        """The columns that are not used, each with the reason."""
        return self.found.left_out

    def kinds(self, n_columns: int) -> str:
        """What the columns of the source are wanted as: see `Source.read_as`."""
        kinds = ["-"] * n_columns
        for f, place in enumerate(self._columns):
            kinds[place] = "t" if f in self._kinds else "f"
        kinds[self._label] = "d" if self.regression else "t"
        return "".join(kinds)

    def columns(self, block: Sequence[Sequence[Any]]) -> tuple[list[Any], Any]:
        """Features by column, and labels, of rows from a source; rows without a label are left out."""
        return self.labelled(block)[:2]

    def labelled(self, block: Sequence[Sequence[Any]]) -> tuple[list[Any], Any, list[int] | None]:
        """The same, and the places of the rows that have a label, None for all."""
        labels, unlabelled = self._labels(block[self._label])
        self.unlabelled += len(unlabelled)
        columns: list[Any] = []
        for f, place in enumerate(self._columns):
            values: Any = block[place]
            if f in self._kinds:  # categorical
                values = self._mapped(values, self._kinds[f], f)
            else:
                values = self._numbers(values, self.names[f])
            columns.append(without(values, unlabelled) if unlabelled else values)
        if not unlabelled:
            return columns, labels, None
        apart = set(unlabelled)
        places = range(len(labels) + len(unlabelled))
        return columns, labels, [i for i in places if i not in apart]

    def _labels(self, values: Any) -> tuple[Any, list[int]]:
        """The labels of rows that have one, and which rows have none."""
        labels: Any
        unlabelled: list[int] = []
        if self.regression and not isinstance(values, array) and _has_text(values):
            values = _parsed(values, self._comma, "d") or values
        if self.regression and isinstance(values, array) and values.typecode == "d":
            labels = values
            usable = map(MAX_NUMBER.__ge__, map(abs, values))  # NaN is not
            unlabelled = list(compress(range(len(values)), map(not_, usable)))
        else:
            if self.regression:
                labels = [None if is_missing(v) else self._kind(v) for v in _plain_list(values)]
            else:
                labels = self._mapped(values, self._kind, -1)
            if None in labels:
                unlabelled = [i for i, label in enumerate(labels) if label is None]
        if unlabelled:
            labels = without(labels, unlabelled)
        return array("d", labels) if self.regression else labels, unlabelled

    def _mapped(self, values: Any, kind: Callable[[Any], Any], f: int) -> list[Any]:
        """Labels (-1) or categories of values, None where one is missing; each is read once."""
        values = _plain_list(values)
        known = self._known.setdefault(f, {})
        for v in set(values).difference(known):
            if not is_missing(v):
                if isinstance(v, str) and (wrong := problem(v)):
                    name = quoted(self.target if f < 0 else self.names[f])
                    raise SourceError(f"the value {quoted(v)} of column {name} {wrong}; replace it")
                known[v] = kind(v)
        if len(known) > MAX_DISTINCT:  # they stay in memory, and no forest has that many
            name = quoted(self.target if f < 0 else self.names[f])
            raise SourceError(
                f"column {name} has more than {MAX_DISTINCT:,} distinct values, far more than "
                f"a forest has {'classes' if f < 0 else 'categories'}; "
                + (
                    "learn another column"
                    if f < 0
                    else f"leave it out with drop={short(self.names[f])}"
                )
            )
        return list(map(known.get, values))

    def _numbers(self, values: Any, name: str) -> Any:
        """Numbers, NaN where one is missing or is not a number."""
        if isinstance(values, array):
            return values
        if hasattr(values, "dtype") and values.dtype.kind in "fiub":
            return array("f", values.astype("f4").tobytes())
        found = _fast(values, self._comma)
        if found is not None:
            return found
        found, number = array("f"), _reader(self._comma)
        for v in values:
            if v is None:
                x = math.nan
            else:
                x = number(v)
                if x != x and not is_missing(v):
                    self.odd[name] = self.odd.get(name, 0) + 1
            found.append(x)
        return found

    def refuse_class_weight(self, given: Any) -> None:
        """A ValueError if weights of classes are given for a target that has none."""
        if given is not None and self.regression:
            raise ValueError(
                f"class_weight is for classes, but the target {quoted(self.target)} is a number; "
                "leave it out, or use task=classification"
            )


def look(
    source: Source,
    target: str,
    rng: Rng | None,
    *,
    categorical: Iterable[str] = (),
    drop: Iterable[str] = (),
    task: str = "auto",
    most: int = LOOK,
) -> Schema:
    """Find out what the columns of a source are, from a random sample of at most `most` rows.

    Without a random stream it looks at all rows.
    """
    categorical, drop = list(categorical), list(drop)
    categorical += [v for v in source.categorical if v not in (target, *categorical, *drop)]
    asked = {target, *categorical, *drop}
    refuse_unknown(source, (target, *categorical, *drop))
    refuse_wide(source, drop)
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f"task must be auto, classification or regression, got {task!r}")
    rows: Sequence[int] = range(len(source))
    if rng is not None:
        rows = draw(rng, max(256, min(most, CELLS // len(source.names))), len(source))
    rows, block = source.read_kept(rows)
    if not len(rows):
        raise SourceError(f"no row of {source.name} can be used; look at its first lines")
    # Columns that are arrays hold numbers; one of them is looked at if there is nothing else.
    looked = [f for f, name in enumerate(source.names) if not _is_array(block[f]) or name in asked]
    numbers = sorted(set(range(len(source.names))).difference(looked))
    looked = sorted([*looked, *numbers[:1]])
    unnamed = set(source.unnamed).difference(asked)
    cells = Cells(
        source.name,
        ["" if source.names[f] in unnamed else source.names[f] for f in looked],
        [as_texts(block[f], source.texts) for f in looked],
        lambda i: source.where(rows[i]),
        source.decimal_comma,
    )
    found = find(cells, target, frozenset(categorical), frozenset(drop), task)
    wanted = {*found.names, *(source.names[f] for f in numbers[1:])}
    names = [name for name in source.names if name in wanted]
    return _schema(source, found, names, len(rows))


def _schema(source: Source, found: Found, names: list[str], looked: int) -> Schema:
    """The schema of a source from what was found in some of its rows."""
    number = _reader(source.decimal_comma)
    places = [f for f, name in enumerate(names) if name in found.categories]
    columns = {name: f for f, name in reversed(list(enumerate(source.names)))}
    target = found.target
    return Schema(
        target.name,
        target.regression,
        names,
        places,
        found,
        looked,
        [columns[name] for name in names],
        columns[target.name],
        _label_reader(number, [0.5] if target.regression else target.values),
        {f: _label_reader(number, found.categories[names[f]]) for f in places},
        source.decimal_comma,
    )


def refuse_unknown(source: Source, names: Iterable[str], why: str = "", remedy: str = "") -> None:
    """A SourceError about the first of these columns that a source does not have."""
    known = set(source.names)
    for name in names:
        if name not in known:
            there = [name for name in source.names if name not in source.unnamed]
            numbered = there == [f"column {i + 1}" for i in range(len(there))]
            if numbered and not remedy:
                remedy = "; use header=True if its first line names them"
            raise SourceError(
                f"{source.name} has no column {quoted(name)}{why}; it has {listed(there)}{remedy}"
            )


def obvious_target(source: Source) -> str:
    """The column to learn by its name, such as `label`; a SourceError if there is not exactly one.

    >>> from edgeforest.sources import Table
    >>> obvious_target(Table({"temp": [20], "Label": ["warm"]}))
    'Label'
    """
    found = [name for name in source.names if name.strip().lower() in TARGETS]
    if len(found) == 1:
        return found[0]
    there = [name for name in source.names if name not in source.unnamed]
    more = " which of them" if found else " which column"
    raise SourceError(f"target must say{more} to learn; {source.name} has {listed(found or there)}")


def refuse_wide(source: Source, drop: Iterable[str] = ()) -> None:
    """A SourceError, before rows are read, if there are too many columns to learn from."""
    check_columns(source)
    n = len(source.names) - len(set(drop)) - 1
    if n > MAX_FEATURES:
        raise SourceError(
            f"{source.name} has {n:,} columns to learn from, but a forest has at most "
            f"{MAX_FEATURES:,} features; keep fewer columns"
        )


def _is_array(column: Any) -> bool:
    return (
        isinstance(column, array) or getattr(getattr(column, "dtype", None), "kind", "O") in "fiub"
    )


def _plain_list(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values


def _has_text(values: Sequence[Any]) -> bool:
    return any(isinstance(v, str) for v in values[:8])


def _parsed(values: Sequence[Any], comma: bool, kind: str) -> array[float] | None:
    """A column of text as an array of numbers by C; None if some of it may not be numbers."""
    if in_c.text is None:
        return None
    try:
        text = "\n".join(["nan" if v is None else v for v in values]).encode()
    except (TypeError, ValueError):  # other values than text, or half of a surrogate pair
        return None
    if any(sign in text for sign in _STRIPPED):
        return None
    signs = 1, 0, comma, min(len(text), 1 << 30)  # a separator that no number has, and no quotes
    found = in_c.text.cells(text, len(values), signs, kind.encode(), b"nan\0")
    return array(kind, found[0]) if found and isinstance(found[0], bytes) else None


def _fast(values: Sequence[Any], comma: bool) -> array[float] | None:
    """A column of numbers, None if some of it may not be."""
    try:
        if _has_text(values):
            if (read := _parsed(values, comma, "f")) is not None:
                return read
            text = "\n".join(["nan" if v is None else v for v in values])
            if comma:
                text = text.replace(",", ".")
            if "_" in text:
                return None
            found = array("f", map(float, text.split("\n")))
        else:
            found = array("f", [math.nan if v is None else v for v in values])
    except (TypeError, ValueError, OverflowError):
        return None
    if len(found) != len(values) or math.inf in found or -math.inf in found:
        return None
    return found


# Partial functions, not closures: the workers of a cluster get them.


def _reader(decimal_comma: bool) -> Callable[[Any], float]:
    """A number from text or from a number; NaN if it is neither, or infinite."""
    return partial(_number, decimal_comma)


def _number(decimal_comma: bool, v: Any) -> float:
    if isinstance(v, str):
        x = parse_number(v, decimal_comma)
        v = math.nan if x is None else x
    try:
        x = float(v)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return x if abs(x) <= MAX_NUMBER else math.nan


def _label_reader(number: Callable[[Any], float], seen: Sequence[Any]) -> Callable[[Any], Any]:
    """A function from a value to a label like those seen; it returns None for other values."""
    if any(isinstance(v, str) for v in seen):
        return _word
    return partial(_value, number, all(isinstance(v, int) for v in seen if v is not None))


def _word(v: Any) -> str:
    return v if isinstance(v, str) else plain(v)


def _value(number: Callable[[Any], float], whole: bool, v: Any) -> Any:
    x = number(v)
    if x != x:
        return None
    return int(x) if whole and x.is_integer() else x


def as_texts(column: Sequence[Any], texts: bool) -> list[str | None]:
    """A column as text, None where a value is missing."""
    if texts and not _is_array(column):  # dates are arrays
        return list(column)
    return [None if is_missing(v) else v if isinstance(v, str) else plain(v) for v in column]


def plain(v: Any) -> str:
    """A number as text, a whole one without a point."""
    x = float(v)
    return str(int(x)) if x.is_integer() else repr(x)


def is_missing(v: Any) -> bool:
    """Whether a value of a source stands for a missing one."""
    return v is None or (not isinstance(v, str) and v != v)
