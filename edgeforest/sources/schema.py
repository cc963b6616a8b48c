"""What the columns of a source are, found from a sample: numbers, categories, the target."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgeforest.host.names import listed, problem, quoted
from edgeforest.sources import tables
from edgeforest.sources.base import SourceError, check_columns
from edgeforest.storage import draw

if TYPE_CHECKING:
    from edgeforest.budget import Rng
    from edgeforest.sources.base import Source

LOOK = 4096  # rows that tell what the columns are ...
CELLS = 40_000  # ... or fewer, if there are many columns
MAX_FEATURES = 16_383  # of a forest
MAX_DISTINCT = 1 << 16  # texts of a column that are kept in memory


@dataclass
class Schema:
    """The columns that are learned from, and the one that is learned."""

    target: str
    regression: bool
    names: list[str]  # of the features
    categorical: list[int]  # the places of those among them that are categories
    left_out: list[tuple[str, str]]  # name of a column, and why it is not used
    _columns: list[int] = field(repr=False)  # where the features are in the source
    _label: int = field(repr=False)  # where the target is
    _kind: Callable[[Any], Any] = field(repr=False)  # from a value of the target to a label
    _number: Callable[[Any], float] = field(repr=False)
    _kinds: dict[int, Callable[[Any], Any]] = field(repr=False)  # from a value to its category
    odd: dict[str, int] = field(default_factory=dict)  # values that are no numbers, by column
    # Labels of values that were met (at -1), and categories by feature.
    _known: dict[int, dict[Any, Any]] = field(default_factory=dict, repr=False)
    _comma: bool = False  # 1,5 is a number
    looked: int = 0  # rows that told all this
    classes: int = 0  # that were seen among them
    unlabelled: int = 0  # rows that were left out because their target is missing

    def columns(self, block: Sequence[Sequence[Any]]) -> tuple[list[Any], Any]:
        """Features by column and labels, of rows as a source gives them."""
        labels, kept = self._labels(block[self._label])
        columns: list[Any] = []
        for f, place in enumerate(self._columns):
            values: Any = block[place]
            if f in self._kinds:  # categorical
                values = self._mapped(values, self._kinds[f], f)
                columns.append(values if kept is None else [values[i] for i in kept])
            else:
                values = self._numbers(values, self.names[f])
                columns.append(values if kept is None else array("f", [values[i] for i in kept]))
        return columns, labels

    def _labels(self, values: Any) -> tuple[Any, list[int] | None]:
        """The labels of rows that have one, and which rows these are, None for all."""
        labels: list[Any]
        if self.regression:
            labels = [None if _missing(v) else self._kind(v) for v in _plain_list(values)]
        else:
            labels = self._mapped(values, self._kind, -1)
        kept = None
        if None in labels:
            kept = [i for i, label in enumerate(labels) if label is not None]
            self.unlabelled += len(labels) - len(kept)
            labels = [labels[i] for i in kept]
        return array("d", labels) if self.regression else labels, kept

    def _mapped(self, values: Any, kind: Callable[[Any], Any], f: int) -> list[Any]:
        """Labels (-1) or categories of values, None where one is missing; each is read once."""
        values = _plain_list(values)
        known = self._known.setdefault(f, {})
        for v in set(values).difference(known):
            if not _missing(v):
                if isinstance(v, str) and (wrong := problem(v)):
                    name = quoted(self.target if f < 0 else self.names[f])
                    raise SourceError(f"the value {quoted(v)} of column {name} {wrong}; replace it")
                known[v] = kind(v)
        if len(known) > MAX_DISTINCT:  # they stay in memory, and no forest has as many
            name = quoted(self.target if f < 0 else self.names[f])
            raise SourceError(
                f"column {name} has more than {MAX_DISTINCT:,} distinct values, far more than "
                f"{'classes' if f < 0 else 'categories'} of a forest; "
                + ("learn another column" if f < 0 else "leave it out with drop")
            )
        return [known.get(v) for v in values]

    def _numbers(self, values: Any, name: str) -> Any:
        """Numbers, NaN where one is missing or no number."""
        if isinstance(values, array):
            return values
        if hasattr(values, "dtype") and values.dtype.kind in "fiub":
            return array("f", values.astype("f4").tobytes())
        found = _fast(values, self._comma)
        if found is not None:
            return found
        found = array("f")
        for v in values:
            if v is None:
                x = math.nan
            else:
                x = self._number(v)
                if x != x and not _missing(v):
                    self.odd[name] = self.odd.get(name, 0) + 1
            found.append(x)
        return found


def look(
    source: Source,
    target: str,
    rng: Rng,
    *,
    categorical: Iterable[str] = (),
    drop: Iterable[str] = (),
    task: str = "auto",
    most: int = LOOK,
) -> Schema:
    """Find out what the columns of a source are, from a random sample of `most` of its rows."""
    categorical, drop = list(categorical), list(drop)
    more = [v for v in source.categorical if v not in (target, *categorical, *drop)]
    categorical += more
    asked = {target, *categorical, *drop}
    known = set(source.names)
    for name in (target, *categorical, *drop):
        if name not in known:
            raise SourceError(
                f"{source.name} has no column {quoted(name)}; it has {listed(source.names)}"
            )
    refuse_wide(source, drop)
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f"task must be auto, classification or regression, got {task!r}")
    count = max(256, min(most, CELLS // len(source.names)))
    rows, block = source.read_kept(draw(rng, count, len(source)))
    _refuse_nothing(source, rows)
    # Columns that are arrays are numbers without a look; but one of them, if there is nothing else.
    looked = [f for f, name in enumerate(source.names) if not _is_array(block[f]) or name in asked]
    numbers = sorted(set(range(len(source.names))).difference(looked))
    looked = sorted([*looked, *numbers[:1]])
    names = [source.names[f] for f in looked]
    texts = [_texts(block[f], source.texts) for f in looked]
    table = _table(source, rows, names, texts, asked)
    try:
        data = tables.prepare(table, target, categorical=categorical, drop=drop, task=task)
    except tables.TableError as error:
        raise SourceError(str(error)) from None
    kinds = {name: [row[f] for row in data.rows] for f, name in enumerate(data.names)}
    wanted = {*data.names, *(source.names[f] for f in numbers[1:])}
    names = [name for name in source.names if name in wanted]
    number = _reader(source.decimal_comma)
    places = [f for f, name in enumerate(names) if name in data.categories]
    columns = {name: f for f, name in reversed(list(enumerate(source.names)))}
    return Schema(
        target,
        data.regression,
        names,
        places,
        data.left_out,
        [columns[name] for name in names],
        columns[target],
        _label_reader(number, data.y if not data.regression else [0.5]),
        number,
        {f: _label_reader(number, kinds[names[f]]) for f in places},
        _comma=source.decimal_comma,
        looked=len(block[0]),
        classes=0 if data.regression else len(set(data.y)),
    )


def refuse_wide(source: Source, drop: Iterable[str] = ()) -> None:
    """A SourceError, before rows are read, if there are too many columns to learn from."""
    check_columns(source)
    n = len(source.names) - len(set(drop)) - 1
    if n > MAX_FEATURES:
        raise SourceError(
            f"{source.name} has {n:,} columns to learn from, a forest has at most "
            f"{MAX_FEATURES:,} features; keep fewer columns"
        )


def whole(source: Source, asked: Iterable[str] = ()) -> tables.Table:
    """All rows of a source, in memory. Columns without a name stay so, unless they are asked for."""
    seen: list[dict[Any, Any]] = [{} for _ in source.names]  # each text is kept once
    columns: list[list[str | None]] = [[] for _ in source.names]
    rows = array("Q")
    for at in range(0, len(source), LOOK):
        some, block = source.read_kept(range(at, min(len(source), at + LOOK)))
        rows.extend(some)
        for column, known, values in zip(columns, seen, block, strict=True):
            texts = _texts(values, source.texts)
            column += [known.setdefault(text, text) for text in texts]
    _refuse_nothing(source, rows)
    return _table(source, rows, source.names, columns, asked)


def _table(
    source: Source,
    rows: Sequence[int],
    names: Sequence[str],
    columns: list[list[str | None]],
    asked: Iterable[str],
) -> tables.Table:
    unnamed = set(source.unnamed).difference(asked)
    return tables.Table(
        source.name,
        ["" if name in unnamed else name for name in names],
        columns,
        lambda i: source.where(rows[i]),
        source.decimal_comma,
    )


def _refuse_nothing(source: Source, rows: Sequence[int]) -> None:
    if not len(rows):
        raise SourceError(f"no row of {source.name} can be used; look at its first lines")


def _is_array(column: Any) -> bool:
    return (
        isinstance(column, array) or getattr(getattr(column, "dtype", None), "kind", "O") in "fiub"
    )


def _plain_list(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values


def _fast(values: Sequence[Any], comma: bool) -> array[float] | None:
    """A column of numbers, if it is one without a doubt."""
    try:
        if any(isinstance(v, str) for v in values[:8]):
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


def _reader(decimal_comma: bool) -> Callable[[Any], float]:
    """A number from text or from a number; NaN if it is neither, or infinite."""

    def number(v: Any) -> float:
        if isinstance(v, str):
            x = tables.number(v, decimal_comma)
            v = math.nan if x is None else x
        try:
            x = float(v)
        except (TypeError, ValueError, OverflowError):
            return math.nan
        return x if abs(x) <= tables.MAX_NUMBER else math.nan

    return number


def _label_reader(number: Callable[[Any], float], seen: Sequence[Any]) -> Callable[[Any], Any]:
    """From a value to a label like those seen: text, whole numbers or numbers; None if it is not."""
    words = any(isinstance(v, str) for v in seen)
    whole = all(isinstance(v, int) for v in seen if v is not None)

    def label(v: Any) -> Any:
        if words:
            return v if isinstance(v, str) else plain(v)
        x = number(v)
        if x != x:
            return None
        return int(x) if whole and x.is_integer() else x

    return label


def _texts(column: Sequence[Any], texts: bool) -> list[str | None]:
    """A column as text, for those who tell numbers from categories by looking at it."""
    if texts and not _is_array(column):  # which dates are
        return list(column)
    return [None if _missing(v) else v if isinstance(v, str) else plain(v) for v in column]


def plain(v: Any) -> str:
    """A number as text, a whole one without a point."""
    x = float(v)
    return str(int(x)) if x.is_integer() else repr(x)


def _missing(v: Any) -> bool:
    return v is None or (not isinstance(v, str) and v != v)
