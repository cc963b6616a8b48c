"""A training that is ready to run, and its outcome: what `fitting` hands to `report`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgeforest.cli.scoring import Tally
from edgeforest.sources import Source
from edgeforest.sources.schema import Schema


@dataclass
class Ready:
    """A training that is ready to run, and what its score needs."""

    training: Any  # iterate to advance
    source: Source  # of all rows, with those that are held out
    schema: Schema
    held_out: Sequence[int]
    asked_trees: int
    guess: Any = None  # from the targets of the training rows alone, where all of them are known
    later: int = 0  # rows of the log that it does not train from


@dataclass
class Outcome:
    """A forest, and what a report of its training says."""

    forest: Any
    ready: Ready
    tally: Tally
    engine: str  # and its threads, in words
    interrupted: bool
    problem: str = ""  # that ended the training early
    unwritten: bool = False  # the problem: the checkpoint could not be written
    grown: Sequence[int] | None = None  # insertions when each tree was done; None if resumed
