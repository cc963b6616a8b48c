"""Open a source from a path, several paths, rows in memory, a frame or an iterable.

Each format is imported when a file needs it: `import edgeforest` stays quick.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from glob import glob
from inspect import signature
from typing import Any

from edgeforest.host.frames import is_frame
from edgeforest.host.names import visible
from edgeforest.sources.base import Source, SourceError, check_columns
from edgeforest.sources.file import cannot_read
from edgeforest.sources.memory import Table

CAPACITY = 100_000  # rows that are kept of an iterable


def open_source(
    given: Any, *, dates: Iterable[str] | Mapping[str, str | None] = (), **options: Any
) -> Source:
    """A source from a path or several, rows in memory, a frame, or an iterable of rows.

    The first bytes of a file say what it is, and for text its name: `.jsonl`, `.ndjson` and `.json`
    are JSON lines, `.lp` and `.influx` InfluxDB's line protocol, all other text is CSV. A path may
    have wildcards. Options are those of the source: see `edgeforest.sources`; an SQLite file takes
    `table_or_query`, that of Home Assistant's recorder `columns` and `every` instead, an iterable
    the `capacity` of the sample that is kept of it.

    `dates` names columns of dates that become numbers, in a dict with their formats: see
    `edgeforest.sources.views.Dated`.

    >>> with open("log.csv", "w") as file:
    ...     _ = file.write("temp,window\\n20.5,shut\\n24,open\\n")
    >>> log = open_source("log.csv")
    >>> len(log), log.names
    (2, ['temp', 'window'])
    """
    if dates:
        from edgeforest.sources.views import Dated

        source = open_source(given, **options)
        dated = Dated(source, dates)
        if source.recipe is not None:
            paths, others = source.recipe
            dated.recipe = paths, {**others, "dates": dates}
        return dated
    if isinstance(given, Source):
        return given
    if isinstance(given, (str, os.PathLike)):
        path = os.fspath(given)
        several = sorted(glob(path)) if not os.path.exists(path) else []
        given = several or path
        source = _open_several(several, options) if several else _open_path(path, options)
        return _with_recipe(source, given, options)
    if isinstance(given, (list, tuple)) and given and isinstance(given[0], (str, os.PathLike)):
        return _with_recipe(_open_several(given, options), _each_once(given), options)
    if isinstance(given, (list, tuple, dict)) or is_frame(given) or hasattr(given, "shape"):
        return Table(given, **options)
    if not hasattr(given, "__iter__"):
        raise TypeError(f"a source is a path, a table or an iterable of rows, got {given!r}")
    from edgeforest.sources.stream import Stream

    return Stream(given, **{"capacity": CAPACITY, **options})


def open_elsewhere(recipe: Any, checksum: str) -> Source:
    """The source of a `Source.recipe` in another process; refused if its rows are others."""
    paths, options = recipe
    source = open_source(paths, **options)
    if source.checksum(len(source)) != checksum:
        raise SourceError(
            f"{source.name} is another file on a worker than where training was begun; "
            "give a path that every worker finds the same rows at"
        )
    return source


def _with_recipe(source: Source, paths: str | list[str], options: dict[str, Any]) -> Source:
    """The source, which knows how another process opens it: in its own folder, without a screen."""
    several = [os.path.abspath(path) for path in ([paths] if isinstance(paths, str) else paths)]
    others = {name: value for name, value in options.items() if name != "progress"}
    source.recipe = several, others
    return source


def _open_several(paths: Sequence[str | os.PathLike[str]], options: dict[str, Any]) -> Source:
    from edgeforest.sources.joined import Joined

    sources = [open_source(one, **options) for one in _each_once(paths)]
    return sources[0] if len(sources) == 1 else Joined(sources)


def _each_once(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Paths without wildcards; a SourceError if two of them are the same file."""
    found: list[str] = []
    for path in [os.fspath(path) for path in paths]:
        found += (sorted(glob(path)) if not os.path.exists(path) else []) or [path]
    seen: dict[tuple[int, int], str] = {}
    for path in found:
        try:
            status = os.stat(path)
        except (OSError, ValueError):  # reported when it is read
            continue
        file = status.st_dev, status.st_ino
        if file in seen and status.st_ino:
            again = "" if seen[file] == path else f", also as {visible(seen[file])}"
            raise SourceError(
                f"{visible(path)} is given twice{again}: its rows would count double; give it once"
            )
        seen[file] = path
    return found


def _open_path(path: str, options: dict[str, Any]) -> Source:
    kind = _kind_of_file(path, "table_or_query" in options)
    known = signature(kind).parameters
    asked = {option: value for option, value in options.items() if option in known}
    for option in options:
        if option not in (*known, "progress", "max_bad", "target"):
            raise SourceError(
                f"{option} is not an option of {kind.__name__}, which reads {visible(path)}; "
                "leave it out"
            )
    source = kind(path, **asked)
    source.max_bad = options.get("max_bad", source.max_bad)
    try:
        check_columns(source)
    except SourceError:
        source.close()
        raise
    return source


def _kind_of_file(path: str, table: bool) -> Callable[..., Source]:
    """The class that reads a file, from its first bytes and its name; a `table` may be asked for."""
    start = _start(path)
    name = path.lower().removesuffix(".gz")
    if start.startswith(b"\x93NUMPY"):
        if os.path.exists(path + ".json"):  # with the text of its codes
            from edgeforest.sources.packing import Packed

            return Packed
        from edgeforest.sources.npy import NpyFile

        return NpyFile
    if start.startswith(b"SQLite format 3\0"):
        from edgeforest.sources.home_assistant import HomeAssistant
        from edgeforest.sources.sqlite import SQLite

        return HomeAssistant if not table and HomeAssistant.is_recorder(path) else SQLite
    if start.startswith(b"PAR1"):
        from edgeforest.sources.parquet import Parquet

        return Parquet
    if name.endswith((".lp", ".influx")):
        from edgeforest.sources.line_protocol import LineProtocol

        return LineProtocol
    if name.endswith((".jsonl", ".ndjson", ".json")) or start.startswith(b'{"'):
        from edgeforest.sources.json_lines import JSONLines

        return JSONLines
    from edgeforest.sources.delimited import CSV

    return CSV


def _start(path: str) -> bytes:
    """The first bytes of a file, or of what is gzipped in it."""
    try:
        with open(path, "rb") as stream:
            start = stream.read(16)
            if start.startswith(b"\x1f\x8b"):
                stream.seek(0)
                with suppress(gzip.BadGzipFile, EOFError, zlib.error):  # reported when it is read
                    start = gzip.GzipFile(fileobj=stream).read(16)
    except (OSError, ValueError) as error:
        raise cannot_read(visible(path), error) from None
    return start.lstrip()
