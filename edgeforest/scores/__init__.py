"""How good a forest is: on another log, on days that are left out in turn, and beside guesses.

    evaluate     every measure of a forest on a log that it has not seen
    estimate     what to expect of tomorrow, from the rows of the training alone
    metrics      the measures themselves
    Familiarity  counts values that look like nothing that a forest was trained on

This is the door. Nothing inside imports it.

>>> from edgeforest.scores import estimate
>>> rows = [[i % 24, (i * 7) % 11] for i in range(24 * 20)]
>>> found = estimate(rows, [row[0] > 8 for row in rows], n_trees=5)
>>> found.kind, found.mean
('stretches of the log', 1.0)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgeforest.engines.ranges import note_ranges
    from edgeforest.scores.estimation import BlockScore, Estimate, Estimating, estimate
    from edgeforest.scores.evaluation import Evaluation, evaluate
    from edgeforest.scores.familiarity import Familiarity, Odd
    from edgeforest.scores.from_source import estimating

__all__ = [
    "BlockScore",
    "Estimate",
    "Estimating",
    "Evaluation",
    "Familiarity",
    "Odd",
    "estimate",
    "estimating",
    "evaluate",
    "note_ranges",
]

# Imported when they are asked for: they read logs, and a command that does not has no need of it.
_MODULES = {
    "BlockScore": "scores.estimation",
    "Estimate": "scores.estimation",
    "Estimating": "scores.estimation",
    "Evaluation": "scores.evaluation",
    "Familiarity": "scores.familiarity",
    "Odd": "scores.familiarity",
    "estimate": "scores.estimation",
    "estimating": "scores.from_source",
    "evaluate": "scores.evaluation",
    "note_ranges": "engines.ranges",
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"edgeforest.{_MODULES[name]}"), name)
