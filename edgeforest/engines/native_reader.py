"""The native engine reads: values stay where they are, or become codes in C.

Arrays of bytes, integers, float32 and float64, by row, by column or memory-mapped, are read in
place. What else there is becomes columns of plain numbers first. What comes out is what
`codes.Reader` gives, to the last bit; where something is wrong, that one says what.
"""

from __future__ import annotations

from array import array
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from sys import byteorder
from typing import Any

from edgeforest.budget import EDGE_ROWS, Rng
from edgeforest.careful import floats
from edgeforest.categories import read_categories
from edgeforest.checks import LATE, check_in_time, check_steady
from edgeforest.codes import Data, Reader
from edgeforest.engines import _kernel
from edgeforest.reading import read_columns

# Formats of buffers (struct's letters), as the kernel's types.
TYPES = {"b": 1, "?": 2, "B": 2, "h": 3, "H": 4, "f": 9, "d": 10}
TYPES |= {c: {2: 3, 4: 5, 8: 7}[array(c).itemsize] for c in "ilq"}
TYPES |= {c: {2: 4, 4: 6, 8: 8}[array(c).itemsize] for c in "ILQ"}
if _kernel.constants().get("KERNEL") != 6:
    raise ImportError("its C part was built from other sources; install edgeforest again")
CODES = 0  # the kernel's type of columns that hold codes already
BOUNDS = 256  # places for the bounds of a column
PART = 16_000_000  # values that are coded between two looks at the clock
ON_DEMAND = 0.25  # code rows when drawn if less than this share of all values will be looked at


def buffer_of(values: Any) -> memoryview | None:
    """The buffer of an array that the kernel can read where it lies, or None."""
    if hasattr(values, "mask"):  # a masked array's buffer ignores the mask
        return None
    try:
        view = memoryview(values)
    except (TypeError, ValueError):  # no buffer; or one of dates
        return None
    if view.format is None or view.format.lstrip("@=<") not in TYPES or view.ndim not in (1, 2):
        return None
    if view.suboffsets:  # rows that lie in places of their own
        return None
    if view.format[0] == "<" and array("H", [1]).tobytes() != b"\1\0":
        return None
    return view


def type_of(view: memoryview) -> int:
    return TYPES[(view.format or "").lstrip("@=<")]


class Columns:
    """Where the columns of numbers lie: buffers, and for each column six numbers.

    Those of the user are held as views from the first look on: nobody can shorten them then.
    """

    def __init__(self, m: int, bounds: array[float] | None) -> None:
        self.buffers: list[Any] = []
        # Of each column: buffer, offset, step from row to row, type, highest code, categories.
        self.layout = array("q", bytes(48 * m))
        self.bounds = bounds

    def place(self, f: int, buffer: int, offset: int, step: int, kind: int) -> None:
        """Say where column f lies."""
        self.layout[6 * f : 6 * f + 4] = array("q", [buffer, offset, step, kind])

    def last(self, f: int, code: int, categories: int = 0) -> None:
        """Say what its highest code is."""
        self.layout[6 * f + 4 : 6 * f + 6] = array("q", [code, categories])

    def parts(self) -> tuple[list[Any], array[int], array[float] | None]:
        """What the kernel asks for."""
        return self.buffers, self.layout, self.bounds


def _column(view: memoryview) -> tuple[list[Any], array[int]]:
    """A column that lies in one buffer."""
    one = Columns(1, None)
    assert view.strides is not None
    one.place(0, 0, 0, view.strides[0], type_of(view))
    return [view], one.layout


class NativeReader:
    """`codes.Reader` in C; see there."""

    def __init__(self) -> None:
        self.plain = Reader()

    def classes(self, y: Any, n: int) -> tuple[list[Any], Any]:
        """The classes in their order, and the place of each row's class among them."""
        view = buffer_of(y)
        if view is None or view.ndim != 1 or type_of(view) > 7 or view.format == "?":
            return self.plain.classes(y, n)
        codes: Any = array("H", bytes(2 * n))
        classes = _kernel.classes(*_column(view), n, codes)
        if classes is None:  # too many, or too far apart
            return self.plain.classes(y, n)
        if len(classes) < 257:  # the lower byte of each
            codes = bytearray(memoryview(codes).cast("B")[byteorder == "big" :: 2])
        return classes, codes

    def targets(self, y: Any, n: int) -> tuple[float, float, Any]:
        """The smallest target, the span of all, and each as a level from 0 to 65535 in it."""
        view = buffer_of(y)
        if view is None or view.ndim != 1:
            y = floats(y, "target")
            check_steady(len(y) == n, "y", n)
            view = memoryview(y)
        levels = array("H", bytes(2 * n))
        found = _kernel.targets(*_column(view), n, levels)
        if found is None:
            return self.plain.targets(y, n)  # which says what is wrong
        low, span = found
        return low, array("f", [span])[0], levels

    def columns(self, task: Any, rng: Rng) -> None:
        """Place the bounds; then code every value, or leave that until a row is drawn."""
        try:
            _read(task, rng)
        except (TypeError, ValueError) as error:
            if error.args != (LATE,):
                refuse(task)
            raise
        except LookupError:
            refuse(task)
            check_steady(False, "X", task.data.n)


def refuse(task: Any) -> None:
    """Let the plain reader find what is wrong with the data, and say it."""
    read_columns(task.data, Rng(), task.budget)


def _read(task: Any, rng: Rng) -> None:
    data, budget = task.data, task.budget
    n, m = data.n, data.m
    columns = data.columns = Columns(m, None if data.raw else array("f", bytes(4 * BOUNDS * m)))
    budget.spent.rows_read += min(n, EDGE_ROWS)
    numbers = [f for f in range(m) if data.categories[f] is None]
    in_place = _find_columns(data, columns, numbers)
    if data.raw and in_place:
        for f in numbers:
            columns.last(f, 255)
    elif data.raw:
        _code_by_column(task, columns, numbers, None)
    else:
        sample = None
        if n > EDGE_ROWS:
            sample = array("I", bytes(4 * EDGE_ROWS))
            rng.z, rng.w = _kernel.fill(rng.z, rng.w, n, sample)
        if in_place:
            _bound_and_code(task, columns, numbers, sample)
        else:
            _code_by_column(task, columns, numbers, sample)
    for f in range(m):
        if data.categories[f] is None:
            continue
        check_in_time(budget)
        codes = _read_categories(data, f, _values(data, f))
        check_steady(len(codes) == n, f"feature {data.names[f]!r}", n)
        columns.place(f, len(columns.buffers), 0, 1, CODES)
        count = len(data.categories[f] or ())
        columns.last(f, count, count)
        columns.buffers.append(codes)


def _read_categories(data: Data, f: int, values: Any) -> bytearray:
    values = list(values)  # the same objects each time: NaN is not found by its value
    try:  # each value once
        distinct = list(set(values))
        codes = read_categories(data, f, distinct)
    except (TypeError, ValueError):  # one by one, to say where
        return read_categories(data, f, values)
    code = dict(zip(distinct, codes, strict=True))
    return bytearray([code[v] for v in values])


def _values(data: Data, f: int) -> Any:
    """The values of a column; none if a row has no such place, whatever its length says."""
    try:
        return data.column(f)
    except LookupError:
        return ()


def _find_columns(data: Data, columns: Columns, numbers: list[int]) -> bool:
    """Look whether the kernel can read X where it lies; its shape must be what was found."""
    n, m = data.n, data.m
    view = buffer_of(data.given)
    if data.by_column and (view is None or view.ndim != 2):
        views = {f: buffer_of(_values(data, f)) for f in numbers}
        if not all(v is not None and v.shape == (n,) for v in views.values()):
            return False
        for f, view in views.items():
            assert view is not None
            assert view.strides is not None
            columns.place(f, len(columns.buffers), 0, view.strides[0], _kind(data, view))
            columns.buffers.append(view)
        return True
    if view is None or view.strides is None:
        return False
    if view.shape == ((m, n) if data.by_column else (n, m)):
        row, column = view.strides[::-1] if data.by_column else view.strides
    elif view.shape == (n * m,):
        row, column = view.strides[0] * m, view.strides[0]
    else:
        return False
    for f in numbers:
        columns.place(f, 0, f * column, row, _kind(data, view))
    columns.buffers.append(view)
    return True


def _kind(data: Data, view: memoryview) -> int:
    return CODES if data.raw else type_of(view)


def _bound_and_code(
    task: Any, columns: Columns, numbers: list[int], sample: "array[int] | None"
) -> None:
    """Bounds of columns that lie in place, and their codes if many will be looked at."""
    data, budget = task.data, task.budget
    n, m = data.n, data.m
    last = array("i", bytes(4 * m))
    kinds = [columns.layout[6 * f + 3] for f in range(m)]
    bounds = columns.bounds
    assert bounds is not None
    _kernel.bounds(columns.buffers, columns.layout, sample, n, bounds, last)
    for f in numbers:
        columns.last(f, last[f])
        low, high = bounds[BOUNDS * f], bounds[BOUNDS * f + last[f]]
        if low - low != 0 or high - high != 0:
            raise ValueError("infinite")
    if _looks(task) < ON_DEMAND * n * m:
        return
    codes = bytearray(n * m)
    jobs = pieces = max(1, min(task.n_jobs, n // 65536))
    if budget.seconds is not None:  # the clock is asked in between
        pieces = max(jobs, n * m // PART)
    marks = [n * i // pieces for i in range(pieces + 1)]

    def encode_part(part: tuple[int, int]) -> None:
        check_in_time(budget)
        if _kernel.encode(*columns.parts(), part[0], part[1] - part[0], codes) is not None:
            raise ValueError("infinite")

    if jobs == 1:
        for part in pairwise(marks):
            encode_part(part)
    else:
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(encode_part, pairwise(marks)))
    columns.buffers = [codes]
    for f in numbers:
        if kinds[f] != CODES:
            columns.place(f, 0, f, m, CODES)


def _looks(task: Any) -> float:
    """About how many values training will look at: what its races want, or its budget."""
    wanted: float = task.n_trees * task.max_features * task.demand(task.sample_size, 0)
    insertions = task.budget.insertions
    return wanted if insertions is None else min(wanted, insertions)


def _code_by_column(
    task: Any, columns: Columns, numbers: list[int], sample: "array[int] | None"
) -> None:
    """Code lists of Python numbers, one column after the other."""
    data = task.data
    n, m = data.n, data.m
    codes = bytearray(n * m)
    for f in numbers:
        check_in_time(task.budget)
        columns.place(f, 0, f, m, CODES)
        values: Any
        if data.raw:
            values = bytearray(_values(data, f))
        else:
            what = f"feature {data.names[f]!r} (not in categorical)"
            values = floats(_values(data, f), what)
        check_steady(len(values) == n, f"feature {data.names[f]!r}", n)
        if data.raw:
            codes[f::m] = values
            columns.last(f, 255)
            continue
        one = Columns(1, array("f", bytes(4 * BOUNDS)))
        one.buffers.append(values)
        one.place(0, 0, 0, 4, TYPES["f"])
        last = array("i", [0])
        _kernel.bounds(one.buffers, one.layout, sample, n, one.bounds, last)
        one.last(0, last[0])
        column = bytearray(n)
        _kernel.encode(*one.parts(), 0, n, column)
        codes[f::m] = column
        columns.last(f, last[0])
        assert columns.bounds is not None
        assert one.bounds is not None
        columns.bounds[BOUNDS * f : BOUNDS * (f + 1)] = one.bounds
    columns.buffers.append(codes)
