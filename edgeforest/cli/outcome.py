"""A training that is ready to run, and its outcome: what `fitting` hands to `report`."""

from dataclasses import dataclass, field
from typing import Any

from edgeforest.sources import Source
from edgeforest.sources.schema import Schema


@dataclass
class Ready:
    """A training that is ready to run."""

    training: Any  # iterate to advance
    source: Source
    schema: Schema
    asked_trees: int
    later: int = 0  # rows of the log that it does not train from
    pace: float | None = None  # insertions a second on this device, if `calibrate` was run


@dataclass
class Outcome:
    """A forest, and what a report of its training says."""

    forest: Any
    ready: Ready
    engine: str  # and its threads, in words
    stopped: int = 0  # the signal that ended it early
    estimate: Any = None  # of the score: an `Estimate`, if there is one
    unscored: str = ""  # why there is none
    parts: list[Any] = field(default_factory=list)  # what a calibration is made from
    problem: str = ""  # that ended the training early
    unwritten: bool = False  # the problem: the checkpoint could not be written
    grown: list[int] | None = None  # insertions when each tree was done; None if resumed
