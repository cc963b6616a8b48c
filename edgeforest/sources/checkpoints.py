"""What a checkpoint remembers of its rows, and how training goes on from it.

>>> from edgeforest import train_source
>>> _ = train_source({"a": [1, 2] * 50, "y": [0, 1] * 50}, "y", n_trees=3, checkpoint="model.json")
>>> log, done = noted("model.json")
>>> log["rows"], log["name"], done
(100, 'the source', True)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from edgeforest import storage
from edgeforest.forest import Forest
from edgeforest.sources.base import Source
from edgeforest.host.words import count


@dataclass
class Begun:
    """What training goes on from: see `begun`."""

    source: Source  # the rows to train on
    forest: Forest | None = None  # the trees that are there; None if training begins anew
    state: dict[str, Any] | None = None  # what is noted beside them
    note: str = ""  # a sentence about the rows, if they are not those of the checkpoint
    later: int = 0  # rows that were added since, and are not among those to train on
    kept: Forest | None = None  # a forest that is done, to which trees are added

    def trees(self) -> int:
        """How many trees are there already."""
        there = self.forest if self.kept is None else self.kept
        return 0 if there is None else len(there)


def begun(source: Source, checkpoint: str | os.PathLike[str], refresh: bool = False) -> Begun:
    """The rows to go on with from a checkpoint, and its trees: a log may have grown since.

    A training that is not done goes on with the rows that it began with, which must still be the
    first ones. A training that is done begins anew if there are more rows now. Training also begins
    anew if a log is not what it was, such as one that was rotated; but the checkpoint of another
    log is refused. With `refresh`, the trees that are done stay when it begins anew.
    """
    path = os.fspath(checkpoint)
    forest, state = storage.read(path)
    if forest is None:
        return Begun(source)
    before, done = _noted(state)
    if state is None or before is None:
        raise ValueError(
            f"{path} does not say which rows it was trained on: it is not a checkpoint of a source; "
            "use another path, or remove it to train anew"
        )
    found = source.first(before)
    rows = count(before["rows"], "row")
    kept = forest if refresh and done else None
    how = "training anew" if kept is None else f"adding trees to its {len(forest)}, trained"
    if found is None:
        if not _is_same_place(before, source.origin()):
            raise ValueError(
                f"{path} was trained on {rows} of {before['name']}, and {source.name} does not "
                "begin with these; use another path, or remove it to train anew"
            )
        note = (
            f"{source.name} no longer begins with the {rows} that {path} was trained on: {how} on "
            f"its {count(len(source), 'row')}"
        )
        return Begun(source, note=note, kept=kept)
    later = len(source) - len(found)
    if not later:
        return Begun(found, forest, state)
    if done:
        note = (
            f"{source.name} has {count(later, 'row')} more than the {before['rows']:,} that "
            f"{path} was trained on: {how} on all {len(source):,}"
        )
        return Begun(source, note=note, kept=kept)
    note = (
        f"{path} was begun with the first {before['rows']:,} of the {len(source):,} rows of "
        f"{source.name}: finishing it with these"
    )
    return Begun(found, forest, state, note, later)


def noted(checkpoint: str | os.PathLike[str]) -> tuple[dict[str, Any] | None, bool]:
    """The rows that a model was trained on, and whether it is done.

    The rows are None if the model is not a checkpoint of a source.
    """
    return _noted(storage.read(checkpoint)[1])


def _noted(state: Any) -> tuple[dict[str, Any] | None, bool]:
    if not isinstance(state, dict) or type(state.get("done")) is not bool:
        return None, False
    log = state.get("log")
    return (log, state["done"]) if _is_extent(log) else (None, False)


def _is_same_place(before: dict[str, str], now: dict[str, str]) -> bool:
    """Whether rows are from the same file or, if there are several files, from the same folder."""
    of = "place" if before["place"] and now["place"] else "folder"
    return bool(before[of]) and before[of] == now[of]


def _is_extent(value: Any) -> bool:
    """Whether a value can be what `Source.extent` gives."""
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(name), str) for name in ("name", "place", "folder", "crc32"))
        and all(type(value.get(name, 1)) is int for name in ("rows", "bytes"))
        and value.get("rows", 0) > 0
        and isinstance(value.get("parts", []), list)
        and all(map(_is_extent, value.get("parts", [])))
    )
