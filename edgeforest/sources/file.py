"""What sources that are one file share: it is a plain file, and its content must stay.

>>> with open("log.bin", "wb") as stream:
...     _ = stream.write(b"0123456789")
>>> with plain_file("log.bin") as stream:
...     read_at(stream, 3, 4)
b'3456'
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import IO, Any, TypeAlias

from edgeforest.host.names import visible
from edgeforest.sources.base import Source, SourceError
from edgeforest.sources.snapshot import Snapshot
from edgeforest.host.words import reason

PathType: TypeAlias = "str | os.PathLike[str]"
OnProgress: TypeAlias = "Callable[[int, int], object]"  # called with how much is done, of how much

_pread: Any = getattr(os, "pread", None)  # Windows has none
_NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)


def read_at(file: IO[bytes], at: int, size: int) -> bytes:
    """Bytes of an open file from a place on; the system may give fewer."""
    if _pread is not None:  # processes that share a file do not share a place in it
        block: bytes = _pread(file.fileno(), size, at)
        return block
    file.seek(at)
    return file.read(size)


def plain_file(path: str) -> IO[bytes]:
    """A file to read; an OSError if it is a pipe, which might wait for a writer for ever."""
    file = open(path, "rb", opener=lambda p, flags: os.open(p, flags | _NO_WAIT))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is not a plain file")
    return file


def cannot_read(name: str, error: OSError | ValueError) -> SourceError:
    """The sentence about a file that cannot be read; a ValueError is about its path."""
    why = reason(error) if isinstance(error, OSError) else str(error)
    return SourceError(f"cannot read {name}: {why}")


def check_plain(path: str, name: str) -> os.stat_result:
    """What the system knows of a file; a SourceError if it is not a plain file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        raise cannot_read(name, error) from None
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not an ordinary file"
        raise SourceError(f"cannot read {name}: it is {kind}; give the path of a file")
    return status


class FileSource(Source):
    """A source that is one file. What was in it when it was opened must stay."""

    path: str
    snapshot: Snapshot | None = None

    def __init__(self, path: PathType) -> None:
        super().__init__()
        self.path = os.fspath(path)
        self.name = visible(self.path)
        self.size = check_plain(self.path, self.name).st_size  # in bytes, when it was opened

    def check(self) -> None:
        """Raise a SourceError if what was in the file when it was opened is no longer there."""
        if self.snapshot is not None:
            self.snapshot.check()
