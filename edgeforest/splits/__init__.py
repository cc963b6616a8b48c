"""Blocks of rows that are left out in turn: days, stretches of a log, groups, rows at random.

A log is in time order, and rows of neighbouring minutes are twins: a forest that has seen the one
knows the other. A score from rows held out at random is then far too good. Leave out whole blocks
of time, with a gap around each, and the score is what the next day will say.

Each splitter has `split` and `get_n_splits`, so that `cross_val_score(cv=...)` of scikit-learn takes
it; nothing here needs scikit-learn or NumPy.

>>> from edgeforest.splits import TimeBlocks
>>> times = [f"2024-05-{day:02} {hour:02}:00" for day in (1, 2, 3) for hour in range(24)]
>>> days = TimeBlocks(times)
>>> [(block.name, len(block.rows)) for block in days.blocks(len(times))]
[('Wednesday 2024-05-01', 24), ('Thursday 2024-05-02', 24), ('Friday 2024-05-03', 24)]
>>> [len(train) for train, test in days.split(times)]       # an hour and more is left out beside each
[47, 46, 47]
"""

from __future__ import annotations

import math
import operator
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any

from edgeforest.budget import Rng, between
from edgeforest.checks import one_of
from edgeforest.host.names import listed, short
from edgeforest.host.words import count

__all__ = ["Block", "GroupBlocks", "RandomRows", "TimeBlocks", "choose"]

HOLDOUTS = ("auto", "random", "none")  # what a score comes from
STRETCHES = 5  # of a log that has fewer than three days
LEAST_DAYS = 3
MOST = 10  # blocks: each costs a training
GAP = 0.05  # of a block's length is left out on either side of it
SMALL = 0.1  # of the mean: a day with fewer rows is joined to its neighbour
LEAST_ROWS = 20  # for stretches
RANDOM = 1 << 21  # the random stream of `RandomRows`; trees have streams from 1 on
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Block:
    """Rows that are left out together, in ascending order, and what they are called.

    >>> TimeBlocks().blocks(10)[0]
    Block(name='rows 1 to 2', rows=[0, 1])
    """

    name: str
    rows: Sequence[int]


class _Splitter:
    """What all splitters share: `blocks` is what they differ in."""

    kind = "blocks"  # what a block is called, in the plural

    def blocks(self, n: int, groups: Any = None) -> list[Block]:
        """The blocks of n rows."""
        raise NotImplementedError

    def training_rows(self, n: int, block: Block) -> list[int]:
        """The rows to train on when this block is left out."""
        apart = set(block.rows)
        return [i for i in range(n) if i not in apart]

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[list[int], list[int]]]:
        """For each block, the rows to train on and those of the block."""
        n = _rows_in(X)
        for block in self.blocks(n, groups):
            yield self.training_rows(n, block), list(block.rows)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """How many blocks there are."""
        return len(self.blocks(_rows_in(X), groups))


class TimeBlocks(_Splitter):
    """Days that are left out in turn; five stretches if there are fewer than three days.

    `times` has the time of each row: text in ISO 8601, `datetime`, or seconds since 1970. Rows need
    not be sorted. Without times, the order of the rows is their time. If there are more than ten
    days, a block is several days. Rows within `gap` of a block (a share of the length of a block)
    are neither trained on nor predicted with it; rows without a time are left out everywhere.

    >>> [block.name for block in TimeBlocks().blocks(50)][:2]
    ['rows 1 to 10', 'rows 11 to 20']
    """

    def __init__(self, times: Any = None, *, gap: float = GAP) -> None:
        self.gap = between("gap", gap, 0.0, 10.0)
        self._dates: list[datetime | None] | None = None
        if times is not None:
            self._dates = [moment(value) for value in times]
            if not any(self._dates):
                raise ValueError("times must hold at least one date, got none; leave them out")
        self._n = None if self._dates is None else len(self._dates)
        self._places: list[float] = []  # when each row was; NaN if that is not known
        self._made: list[Block] = []
        self._ends: dict[str, tuple[float, float]] = {}
        self._length = 0.0  # of a block, on average
        self.kind = "stretches of the log"

    def blocks(self, n: int, groups: Any = None) -> list[Block]:
        """The blocks of n rows, the earliest first."""
        if self._dates is not None:
            if n and n != self._n:
                raise ValueError(f"times must have one for each of {n} rows, got {self._n}")
            n = len(self._dates)
        elif n < 2:
            raise ValueError(f"rows must be at least 2 to leave some out in turn, got {n}")
        if not self._made or self._n != n:
            self._make(n)
        return self._made

    def training_rows(self, n: int, block: Block) -> list[int]:
        """The rows to train on when this block is left out: none that is close to it in time."""
        self.blocks(n)
        low, high = self._ends[block.name]
        far = self.gap * self._length
        return [i for i, at in enumerate(self._places) if at < low - far or at > high + far]

    def _make(self, n: int) -> None:
        dates = self._dates
        if dates is None:
            places = [float(i) for i in range(n)]
        else:
            places = [math.nan if d is None else (d - _EPOCH).total_seconds() for d in dates]
        order = sorted((i for i in range(n) if places[i] == places[i]), key=lambda i: places[i])
        parts = None if dates is None else self._days(order, dates)
        by_day = parts is not None
        if parts is None:
            parts = _cut([places[i] for i in order], STRETCHES)
        self._n, self._places, self._made = n, places, []
        for start, end in parts:
            first, last = order[start], order[end - 1]
            if dates is None:
                name = f"rows {start + 1:,} to {end:,}"
            else:
                name = _span(dates[first], dates[last], by_day)
            self._made.append(Block(name, sorted(order[start:end])))
            self._ends[name] = places[first], places[last]
        self._length = (places[order[-1]] - places[order[0]]) / len(self._made)
        if dates is not None and by_day:
            days = {_day(dates[i]) for i in order}
            self.kind = "days" if len(parts) == len(days) else "blocks of days"

    def _days(
        self, order: Sequence[int], dates: list[datetime | None]
    ) -> list[tuple[int, int]] | None:
        """The parts of `order` that are days, or runs of them; None if there are too few."""
        keys = [_day(dates[i]) for i in order]
        parts = _joined(_cut(keys, len(set(keys))))
        if len(parts) > MOST:
            parts = _cut(keys, MOST)
        return parts if len(parts) >= LEAST_DAYS else None


class GroupBlocks(_Splitter):
    """Groups of rows that are left out in turn, such as stations, machines or people.

    `groups` has the group of each row; scikit-learn's `groups=` is taken if it is left out. If there
    are more than ten groups, a block has several.

    >>> rooms = GroupBlocks(["hall", "attic", "hall", "attic"])
    >>> [(block.name, block.rows) for block in rooms.blocks(4)]
    [('attic', [1, 3]), ('hall', [0, 2])]
    """

    kind = "groups"

    def __init__(self, groups: Any = None) -> None:
        self._groups = None if groups is None else list(groups)

    def blocks(self, n: int, groups: Any = None) -> list[Block]:
        """The blocks of n rows."""
        given = self._groups if self._groups is not None else groups
        if given is None:
            raise ValueError("groups must be given, one for each row, got None")
        given = list(given)
        if n and len(given) != n:
            raise ValueError(f"groups must have one for each of {n} rows, got {len(given)}")
        rows: dict[Any, list[int]] = {}
        for i, group in enumerate(given):
            rows.setdefault(group, []).append(i)
        if len(rows) < 2:
            raise ValueError(f"groups must be at least 2 different ones, got {len(rows)}")
        folds: list[list[Any]] = [[] for _ in range(min(MOST, len(rows)))]
        sizes = [0] * len(folds)
        for group in sorted(rows, key=lambda group: (-len(rows[group]), str(group))):
            place = sizes.index(min(sizes))
            folds[place].append(group)
            sizes[place] += len(rows[group])
        folds = [sorted(fold, key=str) for fold in folds]
        return [
            Block(listed(fold, 3), sorted(i for group in fold for i in rows[group]))
            for fold in sorted(folds, key=lambda fold: str(fold[0]))
        ]


class RandomRows(_Splitter):
    """Rows at random in five parts: for tables whose rows have nothing to do with each other.

    >>> [len(block.rows) for block in RandomRows().blocks(12)]
    [3, 3, 2, 2, 2]
    """

    kind = "parts at random"

    def __init__(self, parts: int = STRETCHES, seed: int = 0) -> None:
        self.parts = between("parts", parts, 2, 1 << 20)
        self.seed = seed

    def blocks(self, n: int, groups: Any = None) -> list[Block]:
        """The blocks of n rows."""
        if n < 2:
            raise ValueError(f"rows must be at least 2 to leave some out in turn, got {n}")
        order = array("I", range(n))
        Rng(self.seed, RANDOM).shuffle(order, n)
        parts = min(self.parts, n)
        return [Block(f"part {k + 1}", sorted(order[k::parts])) for k in range(parts)]


def choose(
    n: int,
    times: Any = None,
    groups: Any = None,
    labels: Any = None,
    seed: int = 0,
    holdout: str = "auto",
) -> tuple[_Splitter, str]:
    """The splitter that fits n rows, and why it is not one of blocks of time, if nobody asked for it.

    Groups if there are any, else blocks of time. `labels` are classes: where one class
    follows the other, a block is most of what there is of a class, and rows are left out at random.
    So they are with `holdout="random"`.

    >>> choose(100, labels=["a", "b"] * 50)[0].kind
    'stretches of the log'
    >>> splitter, why = choose(100, labels=[i // 20 for i in range(100)])
    >>> splitter.kind, why
    ('parts at random', 'the log is sorted by class')
    """
    one_of("holdout", holdout, HOLDOUTS[:2])
    if holdout == "random":
        return RandomRows(seed=seed), ""
    if groups is not None:
        return GroupBlocks(groups), ""
    if n < LEAST_ROWS:
        return RandomRows(seed=seed), f"there are only {count(n, 'row')}"
    splitter = TimeBlocks(times)
    if labels is not None and _is_sorted(splitter.blocks(n), labels):
        return RandomRows(seed=seed), "the log is sorted by class"
    return splitter, ""


def moment(value: Any) -> datetime | None:
    """A point in time from text in ISO 8601, a `datetime`, or seconds since 1970; None if missing.

    >>> moment("2024-05-01 18:30").isoformat(), moment(0.0).isoformat()
    ('2024-05-01T18:30:00+00:00', '1970-01-01T00:00:00+00:00')
    """
    if value is None or value != value:
        return None
    if hasattr(value, "to_pydatetime"):  # pandas
        value = value.to_pydatetime()
    elif hasattr(value, "astype"):  # NumPy
        value = value.astype("datetime64[us]").item() if value.dtype.kind == "M" else value.item()
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, (str, datetime)):
        return _EPOCH + timedelta(seconds=float(value))
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        what = f"times must be dates as ISO 8601 writes them, got {short(value)!r}"
        raise ValueError(f"{what}; turn them into datetime first") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _rows_in(X: Any) -> int:
    if X is None:
        return 0
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _day(when: Any) -> date:
    """The day of a point in time, as it is written there."""
    day: date = when.date()
    return day


def _cut(keys: Sequence[Any], parts: int) -> list[tuple[int, int]]:
    """Start and end of about equal parts of sorted keys; equal keys are never parted.

    >>> _cut("aaabbbbccd", 3)
    [(0, 3), (3, 7), (7, 10)]
    """
    ends: list[int] = []
    starts = [i for i in range(1, len(keys)) if keys[i] != keys[i - 1]]
    if parts > len(starts):
        ends = starts
    else:
        at = 0
        for k in range(1, parts):
            wanted = k * len(keys) / parts
            # One start is left for each part that follows.
            most = len(starts) - (parts - 1 - k) - 1
            while at < most and abs(starts[at + 1] - wanted) <= abs(starts[at] - wanted):
                at += 1
            ends.append(starts[at])
            at += 1
    return list(zip([0, *ends], [*ends, len(keys)], strict=True))


def _joined(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Parts of which small ones are joined to the one before, or after, them."""
    least = SMALL * parts[-1][1] / len(parts)
    found: list[tuple[int, int]] = []
    for start, end in parts:
        small = found and min(end - start, found[-1][1] - found[-1][0]) < least
        if small:
            start = found.pop()[0]
        found.append((start, end))
    return found


def _span(first: datetime | None, last: datetime | None, by_day: bool) -> str:
    """What a block of time is called."""
    assert first is not None
    assert last is not None
    if by_day and _day(first) == _day(last):
        return f"{first:%A} {_day(first)}"
    form = "%Y-%m-%d" if by_day else "%Y-%m-%d %H:%M:%S"
    return f"{first.strftime(form)} to {last.strftime(form)}"


def _is_sorted(blocks: list[Block], labels: Sequence[Any]) -> bool:
    """Whether a log holds one class after the other: each in one run, or in one block mostly."""
    whole = Counter(labels)
    runs = 1 + sum(map(operator.ne, labels, islice(labels, 1, None)))
    if runs == len(whole) > 2:
        return True
    alone = 0  # rows whose class is seldom met outside of their block
    for block in blocks:
        for label, times in Counter(labels[i] for i in block.rows).items():
            if times > 0.9 * whole[label]:
                alone += times
    return alone > len(labels) / 2
