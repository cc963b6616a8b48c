"""Columns of any kind become columns of codes.

A board whose features are one buffer of bytes each does not load this file.

This file runs unchanged on CPython and MicroPython.
"""

from array import array

from edgeforest.budget import EDGE_ROWS
from edgeforest.checks import check_in_time, check_steady

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.budget import Budget, Rng
    from edgeforest.host.types import *


def read_columns(data: "Any", rng: "Rng", budget: "Budget", encode: "Any" = None) -> "None":
    """Quantise once: bounds from a random sample of rows, then every value becomes a code.

    An engine may have a faster function than `bounds.encode` for the last step.
    """
    n = data.n
    data.columns = []
    data.bounds = []
    sample = None
    if n > EDGE_ROWS and not data.raw:
        sample = array("I", bytes(4 * EDGE_ROWS))
        rng.fill(sample, n)
    budget.spent.rows_read += min(n, EDGE_ROWS)
    for f in range(data.m):
        check_in_time(budget)
        codes: "Any" = ()
        bounds: "Any" = ()
        try:
            values = data.column(f)
            if data.categories[f] is not None:
                from edgeforest.categories import read_categories

                codes = read_categories(data, f, values)
                bounds = array("f", range(len(data.categories[f] or ()) + 1))
            elif data.raw:
                bounds = range(256)  # the threshold of code c is c
                codes = values if data.in_place else bytearray(values)
            else:
                from edgeforest import bounds as places
                from edgeforest.careful import floats

                values = floats(values, f"feature {data.names[f]!r} (not in categorical)")
                bounds = places.make_bounds([values[i] for i in sample] if sample else values)
                codes = (encode or places.encode)(values, bounds)
        except LookupError:
            pass
        check_steady(len(codes) == n, f"feature {data.names[f]!r}", n)
        data.columns.append(codes)
        data.bounds.append(bounds)
