"""Train on as many rows as a budget in seconds leaves time to read.

Half of the time is for reading: values become codes, and trees draw their rows. The other half is
for growing. A few random rows are read first; the time that they took says how many more there is
time for, and so on, with 32 times as many at most. Where all rows fit, all of them are read, and
the budget has changed nothing. Otherwise the forest is trained on the last sample that fitted.

>>> from edgeforest import Budget
>>> from edgeforest import engines as engine
>>> rows = [[i % 7, i % 3] for i in range(60)]
>>> steps = engine.train_steps(rows, [row[0] > 2 for row in rows], budget=Budget(seconds=60))
>>> steps.data.n, steps.budget.seconds
(60, 60.0)
"""

from __future__ import annotations

import math
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from edgeforest.budget import Budget, Rng
from edgeforest.checks import LATE
from edgeforest.drawing import draw

FIRST = 4  # rows that are read to see how long it takes
STEP = 32  # times as many are read at once, at most, as were timed
FIXED = 0.75  # of the time is spent by columns, whatever their rows, if nothing else is known
READING = 0.5  # of the time is for reading ...
LATEST = 0.75  # ... and is over here, whatever was expected
TREES = 20  # that should at least have time to draw their rows ...
PASSES = 3  # ... and to look at them some times more
now = time.perf_counter


def within(
    n: int, budget: Budget, seed: int, make: Callable[[Any, Budget], tuple[Any, ...]]
) -> tuple[Any, ...]:
    """What `make(rows, budget)` makes of as many of n rows as the budget has seconds to read.

    Its first item is a `Training`. `rows` are numbers of rows in ascending order, None for all.
    """
    assert budget.seconds is not None
    began = now()
    timed = 0, 0.0  # rows, and how long they took, the time before
    count = min(n, FIRST)
    while True:
        start = now() - began
        # No limit for the first few: a forest needs some rows.
        limit = max(0.001, LATEST * budget.seconds - start) if timed[0] else None
        try:
            made = _made(make, n, count, seed, Budget(budget.insertions, limit, budget.bytes))
        except ValueError as error:
            if error.args != (LATE,):
                raise
            count = timed[0]
            made = _made(make, n, count, seed, Budget(budget.insertions, None, budget.bytes))
            break
        if count == n or made[0].data.n == n:
            break
        took = now() - began - start
        took += PASSES * min(TREES, made[0].planned) * _time_to_draw(made[0])
        fitting = min(n, _fitting(count, took, timed, READING * budget.seconds - (now() - began)))
        if fitting < 2 * count and fitting < n:
            break
        timed = count, took
        steps = math.ceil(math.log(fitting / count, STEP))  # to get there, all of them as long
        count = fitting if steps < 2 else int(count * (fitting / count) ** (1 / steps))
        del made  # before the next one is made: memory may be short
    clock = made[0].budget
    clock.seconds = clock.until = budget.seconds
    clock.tick()
    clock.spent.seconds = now() - began
    return made


def rest_of(budget: Budget) -> Budget:
    """A budget of the seconds that are left, for a training that begins now."""
    seconds = budget.seconds
    if seconds is not None:
        seconds = max(0.001, seconds - budget.tick())
    return Budget(budget.insertions, seconds, budget.bytes)


def _fitting(count: int, took: float, timed: tuple[int, float], left: float) -> int:
    """How many rows can be read in what is left of the time, if `count` rows took so long.

    Rows take as long as rows before them did, at most. A fixed part is computed from
    the rows that were timed before; without such rows, it is taken for most of the time.

    >>> _fitting(80, 2.0, (10, 1.3), 3.0)
    180
    """
    rows = count * max(0.0, left) / max(took, 1e-6)
    if timed[0] == 0 or took <= timed[1]:
        timed = 0, FIXED * took
    per_row = (took - timed[1]) / (count - timed[0])
    if per_row > 0:
        rows = max(rows, count + (left - took) / per_row)
    return int(rows)


def _made(
    make: Callable[[Any, Budget], tuple[Any, ...]], n: int, count: int, seed: int, budget: Budget
) -> tuple[Any, ...]:
    """A training with `count` random rows of n."""
    if count == n:
        return make(None, budget)
    try:
        return make(_drawn(seed, count, n), budget)
    except (TypeError, ValueError) as error:
        if error.args == (LATE,):
            raise
        # Something is wrong with the rows: say which it is among all of them.
        return make(None, Budget(budget.insertions, None, budget.bytes))


def _time_to_draw(training: Any) -> float:
    """Seconds that a tree needs to draw its rows, and to make one leaf of them."""
    read = training.budget.spent.rows_read
    times = []
    for _ in range(3):  # another process may have come in between
        began = now()
        trees = training.trees
        if hasattr(trees, "trial"):  # the native engine
            trees.trial()
        else:
            size = trees.draw(Rng())
            trees.nodes.cells(0, size)
        times.append(now() - began)
    training.budget.spent.rows_read = read
    return min(times)


def _drawn(seed: int, count: int, n: int) -> Sequence[int]:
    """`count` of n rows, as `draw` has them: with NumPy, if that is loaded."""
    np: Any = sys.modules.get("numpy")
    if np is None:
        return draw(Rng(seed), count, n)
    marks = np.arange(count + 1) * n // count
    within = np.random.default_rng(seed).random(count) * np.diff(marks)
    rows: Sequence[int] = marks[:-1] + within.astype(np.int64)
    return rows


def train_steps(
    X: Any, y: Any, read: Callable[..., Any], options: dict[str, Any], budget: Budget
) -> Any:
    """`engine.train_steps` for a budget that has seconds; `read` is `engine.read`."""
    shape = options.get("n_features"), bool(options.get("by_column"))
    weights = options.get("sample_weight")
    n = rows_in(X, *shape)
    if not n or rows_in(y) != n or (weights is not None and rows_in(weights) != n):
        return read(X, y, **options)  # which says what is wrong

    def make(rows: Any, budget: Budget) -> tuple[Any]:
        if rows is None:
            return (read(X, y, **{**options, "budget": budget}),)
        some = take_rows(X, rows, *shape)
        labels = take(y, rows)
        given = {**options, "budget": rest_of(budget)}
        if weights is not None:
            given["sample_weight"] = take(weights, rows)
        if isinstance(options.get("class_weight"), dict):  # some may name classes that were missed
            seen = set(labels)
            given["class_weight"] = {k: v for k, v in options["class_weight"].items() if k in seen}
        if budget.bytes is not None:
            copied = [*some, labels] if shape[1] else [some, labels]
            room = max(1, budget.bytes - sum(map(bytes_of, copied)))
            given["budget"].bytes = room
        return (read(some, labels, **given),)

    return within(n, budget, options.get("seed", 0), make)[0]


# ---- Rows of what users hold


def rows_in(X: Any, n_features: Any = None, by_column: bool = False) -> int:
    """How many rows X seems to have; 0 if that takes more than a look."""
    try:
        if n_features is not None:
            return int(len(X) // n_features)
        if not by_column:
            return len(X)
        lengths = {len(column) for column in X}
        return lengths.pop() if len(lengths) == 1 else 0
    except (TypeError, AttributeError, ZeroDivisionError):
        return 0


def take(values: Any, rows: Sequence[int]) -> Any:
    """These rows of a table, or of labels.

    >>> take(["a", "b", "c"], [0, 2]), take(array("d", [1, 2, 3]), [1])
    (['a', 'c'], array('d', [2.0]))
    """
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if hasattr(values, "take") and hasattr(values, "schema"):  # Arrow's
        return values.take(rows)
    if hasattr(values, "dtype") or hasattr(values, "columns"):
        return values[rows]
    picked = [values[i] for i in rows]
    if isinstance(values, (bytes, bytearray)):
        return bytearray(picked)
    return array(values.typecode, picked) if isinstance(values, array) else picked


def take_rows(X: Any, rows: Sequence[int], n_features: Any = None, by_column: bool = False) -> Any:
    """These rows of X in the shape that X has."""
    if by_column:
        return X[:, rows] if hasattr(X, "ndim") else [take(column, rows) for column in X]
    if n_features is None:
        return take(X, rows)
    if hasattr(X, "reshape"):
        return X.reshape(-1, n_features)[rows].reshape(-1)
    return take(X, [i * n_features + f for i in rows for f in range(n_features)])


def bytes_of(values: Any) -> int:
    """About how many bytes a copy of rows takes: those of numbers, or of references to objects."""
    if hasattr(values, "nbytes"):
        return int(values.nbytes)
    if hasattr(values, "memory_usage"):
        return int(values.memory_usage().sum())
    if isinstance(values, array):
        return len(values) * values.itemsize
    return 8 * len(values) if hasattr(values, "__len__") else 0
