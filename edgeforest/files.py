"""Write files so that, whatever happens, the old or the new one is there, and it is whole.

    replacing   a stream whose content becomes the file when all of it is written
    write       the same for pieces of text or bytes
    rename      give a file a name that another file may have

Everything in the package writes its files here. The content goes to a new file beside the one that it
will replace, is flushed, and renamed. Any error, Ctrl-C included, removes the unfinished file.

On a computer `host/disk.py` does the work. On a board the new file ends in `.part`. FAT cannot rename
over an existing file: there the old file is removed first, and `storage.read` finds the new one if the
power fails in between. This file runs unchanged on CPython and MicroPython.

>>> import os
>>> write("notes.txt", ["one ", b"two"])
>>> with replacing("notes.txt") as stream:
...     _ = stream.write(b"three")
...     raise ValueError
Traceback (most recent call last):
    ...
ValueError
>>> open("notes.txt").read(), os.listdir()
('one two', ['notes.txt'])
"""

import os

try:
    from edgeforest.host import disk
except ImportError:  # a board, which does not need it
    disk = None  # type: ignore[assignment]

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def replacing(
    path: "AnyPath | bytes", mode: "int | None" = None
) -> "AbstractContextManager[BinaryIO]":
    """A binary stream for a `with`; at its end the file becomes what was written.

    `mode` sets the permissions of the file; by default they are those of the old file, or of any new
    file. A board has no permissions.
    """
    return _OnABoard(str(path)) if disk is None else disk.replacing(path, mode)


def write(path: "AnyPath | bytes", pieces: "Iterable[Any]", end: "bytes" = b"") -> "None":
    """Write pieces of text or bytes to a file; the old one stays until the new one is complete."""
    with replacing(path) as stream:
        for piece in pieces:
            stream.write(piece.encode() if isinstance(piece, str) else piece)
        stream.write(end)


def rename(old: "str", new: "str") -> "None":
    """Give a file a name that another file may have."""
    if disk is not None:
        disk.rename(old, new)
        return
    try:
        os.rename(old, new)
    except OSError:  # FAT cannot rename over an existing file
        os.remove(new)  # if the power fails here, `storage.read` finds the other one
        os.rename(old, new)


class _OnABoard:
    """The stream of `replacing` on a board."""

    def __init__(self, path: "str") -> "None":
        self._path = path

    def __enter__(self) -> "BinaryIO":
        self._stream = open(self._path + ".part", "wb")
        return self._stream

    def __exit__(self, kind: "Any", error: "Any", trace: "Any") -> "None":
        part = self._path + ".part"
        stream = self._stream
        done = False
        try:
            if kind is None:
                stream.flush()
                if hasattr(os, "fsync"):  # CPython, if somebody copied this file alone
                    os.fsync(stream.fileno())
                elif hasattr(os, "sync"):
                    os.sync()
                stream.close()
                done = True
        finally:
            if not done:
                stream.close()
                os.remove(part)
        if done:
            rename(part, self._path)
