"""A file as it was when it was opened: what is appended later does no harm.

A log is read while it is written. Its rows are those that were there when it was opened. So their
bytes must stay, and what comes after them does not matter. A file that was cut short, rewritten or
replaced by another one is recognised by its size and by a checksum of a few places.

>>> with open("log.csv", "w") as file:
...     _ = file.write("temp,window\\n20.5,shut\\n")
>>> with open("log.csv", "rb") as file:
...     before = Snapshot("log.csv", file)
>>> with open("log.csv", "a") as file:
...     _ = file.write("24,open\\n")
>>> before.check()
>>> with open("log.csv", "w") as file:
...     _ = file.write("temp,window\\n17.5,open\\n18,open\\n")
>>> before.check()
Traceback (most recent call last):
edgeforest.sources.base.SourceError: log.csv was rewritten since it was opened; open it again
"""

from __future__ import annotations

import os
import zlib
from typing import IO

from edgeforest.sources.base import SourceError
from edgeforest.host.words import reason

BLOCK = 4096  # bytes that are summed up in one place
PLACES = 16


class Snapshot:
    """The bytes of an open file from `start` to `end`, or to where it ends now.

    `path` is where it is looked for again, `name` is what sentences call it. `grows=False` is for
    files that nothing can be appended to.
    """

    def __init__(
        self,
        path: str,
        file: IO[bytes],
        name: str = "",
        *,
        start: int = 0,
        end: int | None = None,
        grows: bool = True,
    ) -> None:
        self.path, self.name = path, name or path
        self.grows = grows
        self.status = os.fstat(file.fileno())
        self.start = start
        self.end = self.status.st_size if end is None else end
        self._known = _facts(self.status)
        self._glimpse = glimpse(file, self.start, self.end)

    def check(self) -> None:
        """Raise a SourceError if the bytes are no longer there, or have changed."""
        try:
            now = os.stat(self.path)
            if _facts(now) == self._known:
                return
            if now.st_size < self.end:
                raise SourceError(
                    f"{self.name} shrank from {self.end:,} to {now.st_size:,} bytes since it was "
                    "opened; open it again"
                )
            with open(self.path, "rb", buffering=0) as file:
                same = glimpse(file, self.start, self.end) == self._glimpse
        except FileNotFoundError:
            raise SourceError(f"{self.name} is gone since it was opened; put it back") from None
        except OSError as error:
            raise SourceError(f"cannot read {self.name}: {reason(error)}") from None
        if not same or (now.st_size > self.end and not self.grows):
            other = (now.st_dev, now.st_ino) != (self.status.st_dev, self.status.st_ino)
            what = "replaced by another file" if other else "rewritten"
            raise SourceError(f"{self.name} was {what} since it was opened; open it again")
        self._known = _facts(now)


def glimpse(file: IO[bytes], start: int, end: int) -> int:
    """A checksum of some places in a file, among them its first and its last bytes."""
    size = end - start
    crc, was = 0, file.tell()
    places = min(PLACES, -(-size // BLOCK))
    for k in range(places):
        at = start + max(0, size - BLOCK) * k // max(1, places - 1)
        file.seek(at)
        crc = zlib.crc32(file.read(min(BLOCK, end - at)), crc)
    file.seek(was)
    return crc


def _facts(status: os.stat_result) -> tuple[int, ...]:
    return status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino
