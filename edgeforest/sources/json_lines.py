"""JSON lines as a source: one object a line.

>>> with open("log.jsonl", "w") as stream:
...     _ = stream.write('{"temp": 20.5, "wifi": {"rssi": -60}}\\n{"temp": null, "open": true}\\n')
>>> log = JSONLines("log.jsonl")
>>> log.names, log.read([0, 1])
(['temp', 'wifi.rssi', 'open'], [[20.5, None], [-60, None], [None, 1]])
>>> log.close()
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from edgeforest.host.names import MAX_TEXT
from edgeforest.sources.base import SourceError
from edgeforest.sources.file import OnProgress, PathType
from edgeforest.sources.lines import Lines

_BIG = 1 << 1023


class JSONLines(Lines):
    """One JSON object a line: its keys are columns, `wifi.rssi` that of an object in an object.

    Columns are the keys in a random sample of rows, or the given `names`. Numbers and text stay as
    they are, true and false are 1 and 0, null and keys that a row lacks are None. Lists are left
    out.
    """

    def __init__(
        self,
        path: PathType,
        *,
        names: Sequence[str] | None = None,
        comment: str | None = None,
        encoding: str = "utf-8",
        max_bad: int = 0,
        progress: OnProgress | None = None,
    ) -> None:
        self._names = None if names is None else [str(name) for name in names]
        super().__init__(
            path, comment=comment, encoding=encoding, max_bad=max_bad, progress=progress
        )

    def is_half(self, record: bytes) -> bool:
        try:
            json.loads(str(record, self.file.bytewise))
        except (ValueError, RecursionError):
            return True
        return False

    def begin(self) -> None:
        self.leave_half()
        first = next(self.batches([0]))[1][0].strip()
        if first in (b"{", b"[") or first.startswith((b"[{", b"[ {")):
            raise SourceError(
                f"{self.name} does not have one JSON object a line; save it as JSON lines, such as with "
                "jq -c"
            )
        if self._names is not None:
            self.names = self._names
            return
        keys: dict[str, None] = {}
        for numbers, records in self.batches(self.some_rows()):
            for row in self._objects(numbers, records):
                keys.update(dict.fromkeys(row))
                self.refuse_wide(len(keys))
        if not keys:
            raise SourceError(f"{self.name} has no values; its objects must have keys")
        self.names = list(keys)

    def _objects(self, rows: list[int], records: list[bytes]) -> Iterator[dict[str, Any]]:
        for row, text in self.decoded(rows, records):
            found = None
            why = "is not a JSON object"
            try:
                value = json.loads(text)
                if isinstance(value, dict):
                    found = _flat(value, {}, "")
                    if "\\u" in text:  # the only way to write half of a surrogate pair
                        "".join([*found, *(v for v in found.values() if type(v) is str)]).encode()
            except json.JSONDecodeError as error:
                why += f" ({error.msg} at character {error.colno})"
            except UnicodeEncodeError:
                found, why = None, "has half of a surrogate pair, which is not a character"
            except _LongName as error:
                why = str(error)
            except (ValueError, RecursionError):
                why += " that can be read"
            if found is None:
                self.skip(row, self.line(row), why)
            else:
                yield found

    def parse(self, rows: list[int], records: list[bytes], columns: list[list[Any]]) -> None:
        names = self.names
        for row in self._objects(rows, records):
            get = row.get
            for column, name in zip(columns, names, strict=True):
                column.append(get(name))


class _LongName(ValueError):
    """A name is far too long."""


def _flat(value: dict[str, Any], flat: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The values of an object and of the objects in it, by dotted names."""
    for key, item in value.items():
        kind = type(item)
        if kind is dict:
            if len(prefix) + len(key) > MAX_TEXT:  # each key inside would be as long
                raise _LongName(f"has a name of more than {MAX_TEXT:,} characters")
            _flat(item, flat, f"{prefix}{key}.")
        elif kind is bool:
            flat[prefix + key] = int(item)
        elif kind is int:
            flat[prefix + key] = (
                item if -_BIG < item < _BIG else math.inf if item > 0 else -math.inf
            )
        elif kind is not list:
            flat[prefix + key] = item
    return flat
