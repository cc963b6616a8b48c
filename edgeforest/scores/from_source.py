"""The estimate for a log: its rows are read, and the blocks that fit it are found.

>>> from edgeforest.sources import Table
>>> from edgeforest.sources.schema import look
>>> log = Table({"time": [f"2024-05-{1 + i // 24:02} {i % 24:02}:00" for i in range(96)],
...              "hour": [i % 24 for i in range(96)], "y": [i % 24 > 8 for i in range(96)]})
>>> work = estimating(log, look(log, "y", None), n_trees=3)
>>> for training in work:
...     pass
>>> work.found.kind, work.found.worst.name
('days', 'Wednesday 2024-05-01')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from edgeforest.budget import Budget, Rng
from edgeforest.drawing import draw
from edgeforest.engines import sampling
from edgeforest.host.cluster import jobs
from edgeforest.scores.estimation import Estimating
from edgeforest.scores.evaluation import group_names
from edgeforest.sources.base import Source
from edgeforest.sources.cells import parse_number
from edgeforest.sources.columns import extended
from edgeforest.sources.schema import Schema
from edgeforest.splits import choose, moment

ROWS = 50_000  # that an estimate is made from, at most ...
CELLS = 2_000_000  # ... and their values
LEAST = 256  # rows, however short time and room are
BYTES_OF_A_CELL = 40
SECONDS_OF_A_CELL = 2e-5  # that ten blocks take, if half of their time is for trees
READ = 4096  # rows at once
STREAM = 1 << 21  # the random stream that draws them; trees have streams from 1 on
FOREST = 0.5  # of the insertions are for the forest, the others for its score ...
FOREST_TIME = 0.7  # ... and of the time, which includes reading


def forest_part(budget: Budget, holdout: str) -> Budget:
    """The part of a budget that is for the forest; the rest is for the estimate of its score.

    >>> forest_part(Budget(1001, seconds=10), "auto"), forest_part(Budget(1000), "none")
    (Budget(insertions=501, seconds=7.0, bytes=None), Budget(insertions=1000, seconds=None, bytes=None))
    """
    rest = sampling.rest_of(budget)
    if holdout == "none":
        return rest
    insertions, seconds = rest.insertions, rest.seconds
    if insertions is not None:
        insertions -= int((1 - FOREST) * insertions)
    if seconds is not None:
        seconds = max(0.001, FOREST_TIME * seconds)
    return Budget(insertions, seconds, rest.bytes)


def estimating(
    source: Source,
    schema: Schema,
    *,
    holdout: str = "auto",
    time: str | None = None,
    group: str | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    **options: Any,
) -> Estimating:
    """An estimate in steps for a log, from all of its rows or from a sample.

    `time` names a column of dates or of seconds since 1970; by default it is the first column of
    dates that the schema has found, and where there is none the order of the log. `group` names the
    column whose values are left out in turn instead.

    >>> from edgeforest.sources import Table
    >>> from edgeforest.sources.schema import look
    >>> log = Table({"room": ["hall", "attic"] * 50, "t": list(range(100)), "y": [0, 1, 1, 0] * 25})
    >>> estimating(log, look(log, "y", None, drop=["room"]), group="room").found.kind
    'groups'
    """
    if time is None and schema.found.dates:
        time = schema.found.dates[0]
    extra = time if group is None else group
    rows = _some_rows(len(source), len(schema.names), budget or Budget(), seed)
    columns, labels, marks = _read(source, rows, schema, extra)
    times = groups = None
    if group is not None:
        groups = group_names(marks)
    elif time is not None:
        times = [_moment(value, source.decimal_comma) for value in marks]
        times = times if any(times) else None
    classes = None if schema.regression else labels
    splitter, why = choose(len(labels), times, groups, classes, seed, holdout)
    if options.get("criterion") is None:
        options["criterion"] = "mse" if schema.regression else "gini"
    work = Estimating(
        columns,
        labels,
        splitter,
        why=why,
        budget=budget,
        seed=seed,
        names=schema.names,
        categorical=schema.categorical,
        **options,
    )
    work.found.sampled = 0 if len(rows) == len(source) else len(labels)
    if source.recipe is not None and jobs() > 1:  # others read the rows themselves
        checksum = source.checksum(len(source))
        work.rows_again = partial(_rows_again, source.recipe, checksum, rows, schema)
    return work


def _rows_again(recipe: Any, checksum: str, rows: Sequence[int], schema: Schema) -> tuple[Any, Any]:
    """The columns and labels of some rows of a log, in another process."""
    from edgeforest.sources.opening import open_elsewhere

    with open_elsewhere(recipe, checksum) as source:
        return _read(source, rows, schema, None)[:2]


def _some_rows(n: int, m: int, budget: Budget, seed: int) -> Sequence[int]:
    """All of n rows of m features, or as many as there is time and room for, at random."""
    most = min(ROWS, CELLS // m)
    if budget.bytes is not None:
        most = min(most, budget.bytes // (BYTES_OF_A_CELL * m))
    if budget.seconds is not None:
        most = min(most, int((budget.seconds - budget.tick()) / (SECONDS_OF_A_CELL * m)))
    most = max(LEAST, most)
    return range(n) if n <= most else draw(Rng(seed, STREAM), most, n)


def _read(
    source: Source, rows: Sequence[int], schema: Schema, extra: str | None
) -> tuple[list[Any], Any, list[Any]]:
    """Features by column, labels, and the values of a further column, of rows that have a label."""
    schema = replace(schema, odd={}, unlabelled=0)  # the training counts what it meets
    columns: list[Any] = []
    labels: Any = None
    marks: list[Any] = []
    for at in range(0, len(rows), READ):
        block = source.read(rows[at : at + READ])
        some, found, kept = schema.labelled(block)
        columns = [extended(a, b) for a, b in zip(columns, some, strict=True)] if columns else some
        labels = found if labels is None else extended(labels, found)
        if extra is not None:
            values = block[source.names.index(extra)]
            marks += values if kept is None else [values[i] for i in kept]
    return columns, labels, marks


def _moment(value: Any, decimal_comma: bool) -> Any:
    """A point in time, None if the value is not one."""
    try:
        number = parse_number(value, decimal_comma) if isinstance(value, str) else None
        return moment(value if number is None else number)
    except (ValueError, OverflowError):
        return None
