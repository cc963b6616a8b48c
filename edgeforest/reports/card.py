"""How a notebook shows a forest: what it is, and what matters to it."""

from __future__ import annotations

from edgeforest.forest import Forest
from edgeforest.reports import charts
from edgeforest.reports.page import facts_of, facts_table
from edgeforest.reports.svg import Picture


def card(forest: Forest) -> str:
    """A table and the importances.

    >>> from edgeforest import train
    >>> forest = train([[i % 4, 0] for i in range(80)], [i % 4 > 1 for i in range(80)], n_trees=3)
    >>> "random-forest for classification" in card(forest)
    True
    """
    if not len(forest):
        return "<p>A forest without trees</p>"
    table = facts_table(facts_of(forest))
    drawn = ""
    if any(forest.importances):
        drawn = charts.importances(forest.names, forest.feature_importances, None, top=8).html
    return str(Picture(table + drawn))
