"""Write files so that, whatever happens, there is the old one or the new one, and it is whole.

    replacing   a stream whose content becomes the file when all of it is written
    write       the same for pieces of text or bytes
    rename      give a file a name that may be another's

Every file that the package writes is written here. The content goes to a file beside the one that it
will replace, is flushed, and renamed. Any error, Ctrl-C included, removes what was begun.

On a computer `disk` does that, and says how. On a board the file beside it is called `.part`. FAT does
not rename over a file: the old one is removed first, and `storage.read` finds the new one if the power
fails just then. This file runs unchanged on CPython and MicroPython.

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
except ImportError:  # a board, which has no need of it
    disk = None


def replacing(path, mode=None):
    """A binary stream to write to, in a `with`; at its end the file becomes what was written.

    `mode` has the permissions of the file; by default they are those of the old one, or of any new
    file. A board has no permissions.
    """
    return _OnABoard(str(path)) if disk is None else disk.replacing(path, mode)


def write(path, pieces, end=b""):
    """Write pieces of text or bytes to a file; the old one stays until the new one is complete."""
    with replacing(path) as stream:
        for piece in pieces:
            stream.write(piece.encode() if isinstance(piece, str) else piece)
        stream.write(end)


def rename(old, new):
    """Give a file a name, which may be another's."""
    if disk is not None:
        disk.rename(old, new)
        return
    try:
        os.rename(old, new)
    except OSError:  # FAT does not rename over a file
        os.remove(new)  # if the power fails here, `storage.read` finds the other one
        os.rename(old, new)


class _OnABoard:
    def __init__(self, path):
        self._path = path

    def __enter__(self):
        self._stream = open(self._path + ".part", "wb")
        return self._stream

    def __exit__(self, kind, error, trace):
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
