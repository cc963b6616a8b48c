"""All that a report needs to know of a forest, from whatever rows there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgeforest.forests import walking
from edgeforest.nodes import EXACT_BELOW
from edgeforest.reports import measures
from edgeforest.reports.watching import Race, Watched, watch

if TYPE_CHECKING:
    from edgeforest.forest import Forest
    from edgeforest.host.values import Array

WATCHED = 20_000  # rows of a tree that is watched down to its leaves
WATCHED_DEPTH = 11  # else so far: from 11 on, a tree draws as many rows as there are


@dataclass
class Study:
    """A forest, and what is known of it; None where there are no rows to know it from."""

    forest: Forest
    title: str = "A forest"
    target: str = "the target"
    facts: list[tuple[str, str]] = field(default_factory=list)  # what to say of the training
    X: Array | None = None  # rows, as the trees compare them
    rows: measures.Scored | None = None  # those with true answers
    about: str = "rows"  # which they are, such as held-out rows
    place: Callable[[int], str] = str  # where a row comes from
    naive: str = ""  # how good a guess without features is, in words
    spent: Sequence[int] | None = None  # insertions when each tree was done
    watched: Watched | None = None
    same: bool = False  # the watched tree is the first one of the forest
    race: Race | None = None
    why_no_race: str = ""
    of_log: str = ""  # how many rows of which log were watched


def observe(study: Study, X: Any, y: Any, options: dict[str, Any]) -> None:
    """Watch the first tree grow again from these rows, and the race at a root over all features.

    Options are those of `Training`.
    """
    forest = study.forest
    deep = options.get("max_depth")
    given = dict(options)
    if len(y) > WATCHED and (deep is None or deep > WATCHED_DEPTH):
        given["max_depth"] = WATCHED_DEPTH
    try:
        study.watched = watch(X, y, **given)
        end = walking.extent(forest, 0)[1]
        study.same = all(
            getattr(forest, name)[:end] == getattr(study.watched.forest, name)[:end]
            for name in ("feature", "threshold", "right")
        )
        if forest.splitter != "mab":
            study.why_no_race = f"the splitter {forest.splitter} has no race to show"
            return
        wide = {**options, "max_depth": 1, "max_features": 1.0, "max_samples": 1.0, "budget": None}
        race = watch(X, y, **wide).race
    except ValueError as error:  # of rows that do not suit the training, such as one class only
        study.why_no_race = str(error)
        return
    if race.rounds and race.winner is not None:
        study.race = race
    else:
        study.why_no_race = f"nodes of up to {EXACT_BELOW} rows are counted whole, without a race"


def options_of(forest: Forest) -> dict[str, Any]:
    """The options of a training like the forest's, as far as the model knows them."""
    return {
        "kind": forest.kind,
        "criterion": forest.criterion,
        "splitter": forest.splitter,
        "seed": forest.seed,
        "n_trees": len(forest),
        "max_depth": walking.depth(forest),
        "budget": forest.limit,
    }
