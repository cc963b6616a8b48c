"""Where rows come from: files larger than memory, databases, arrays, buffers of sensors.

A source knows how many rows it has and what its columns are called, and reads the rows that it is
asked for. Training asks for random rows each time: a log is in time order, so its first rows are
not a sample of the rest.

This is the door: `open_source` and the kinds of sources. Nothing inside imports it.

>>> from edgeforest.sources import Table
>>> table = Table([[20.5, "shut"], [24.0, "open"], [None, "open"]], names=["temp", "window"])
>>> len(table), table.names, table.read([0, 2])
(3, ['temp', 'window'], [[20.5, None], ['shut', 'open']])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgeforest.sources.base import MAX_COLUMNS, Source, SourceError, check_columns
from edgeforest.sources.memory import Table
from edgeforest.sources.opening import open_source
from edgeforest.drawing import draw

if TYPE_CHECKING:
    from edgeforest.sources.delimited import CSV
    from edgeforest.sources.home_assistant import HomeAssistant
    from edgeforest.sources.joined import Joined
    from edgeforest.sources.json_lines import JSONLines
    from edgeforest.sources.line_protocol import LineProtocol
    from edgeforest.sources.lines import Lines
    from edgeforest.sources.npy import NpyFile
    from edgeforest.sources.packing import Packed, pack
    from edgeforest.sources.parquet import Parquet
    from edgeforest.sources.sqlite import SQLite
    from edgeforest.sources.stream import Stream
    from edgeforest.sources.views import Dated, Rest

__all__ = [
    "CSV",
    "MAX_COLUMNS",
    "Dated",
    "HomeAssistant",
    "JSONLines",
    "Joined",
    "LineProtocol",
    "Lines",
    "NpyFile",
    "Packed",
    "Parquet",
    "Rest",
    "SQLite",
    "Source",
    "SourceError",
    "Stream",
    "Table",
    "check_columns",
    "draw",
    "open_source",
    "pack",
]

# Formats are imported when they are asked for, so that `import edgeforest` stays quick.
_MODULES = {
    "CSV": "delimited",
    "Dated": "views",
    "HomeAssistant": "home_assistant",
    "JSONLines": "json_lines",
    "Joined": "joined",
    "LineProtocol": "line_protocol",
    "Lines": "lines",
    "NpyFile": "npy",
    "Packed": "packing",
    "Parquet": "parquet",
    "Rest": "views",
    "SQLite": "sqlite",
    "Stream": "stream",
    "pack": "packing",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
