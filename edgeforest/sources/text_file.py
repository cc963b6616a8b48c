"""The bytes of a text file, whatever it is packed in: gzip and UTF-16 are unpacked once.

Sources of text look for commas, quotes and line ends as bytes. That works as long as each of them
is one byte and that byte is nothing else, as in UTF-8 and Latin-1. Other encodings, and gzip, are
unpacked into a temporary file of UTF-8.

>>> import gzip
>>> with open("log.csv.gz", "wb") as stream:
...     _ = stream.write(gzip.compress(b"temp,window"))
>>> log = TextFile("log.csv.gz")
>>> _ = log.open()
>>> log.size, log.read(5, 6)
(11, b'window')
>>> log.close()
"""

from __future__ import annotations

import codecs
import gzip
import os
import stat
import sys
import tempfile
import zlib
from typing import IO, Any

from edgeforest.host.names import visible
from edgeforest.sources.base import SourceError
from edgeforest.sources.file import OnProgress, cannot_read, read_at
from edgeforest.sources.snapshot import Snapshot
from edgeforest.host.words import reason

BLOCK = 1 << 20  # bytes that are unpacked or summed up at a time

_WIDE = (  # the first bytes of text with more than one byte a character
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class TextFile:
    """The text in a file as bytes that are read from any place.

    It is the text that was there when it was first opened, or its first `upto` bytes. `size` and
    `start`, where the text begins behind a byte order mark, are known once it was opened.
    `progress` is called with the bytes done and the bytes of all while it is unpacked.
    """

    def __init__(
        self,
        path: str,
        encoding: str = "utf-8",
        *,
        upto: int = sys.maxsize,
        progress: OnProgress | None = None,
    ) -> None:
        self.path, self.name = path, visible(path)
        self.encoding = encoding
        self.upto = upto
        self.progress = progress
        self.narrow = _is_narrow(encoding)  # the file is read as it is
        if self.narrow and codecs.lookup(encoding).name == "utf-8-sig":
            self.encoding = "utf-8"
        self.size = self.start = 0
        self._file: IO[bytes] | None = None
        self._snapshot: Snapshot | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None, "progress": None}

    def __del__(self) -> None:
        self.close()

    @property
    def bytewise(self) -> str:
        """The encoding of the bytes that `read` gives."""
        return self.encoding if self.narrow else "utf-8"

    @property
    def status(self) -> os.stat_result:
        """What the system knew of the file when it was first opened."""
        assert self._snapshot is not None
        return self._snapshot.status

    def check(self) -> None:
        """Raise a SourceError if what was in the file when it was opened is no longer there."""
        assert self._snapshot is not None
        self._snapshot.check()

    def close(self) -> None:
        """Close the file, and remove what it was unpacked to; reading opens it again."""
        file, self._file = getattr(self, "_file", None), None
        if file is not None:
            file.close()

    def open(self) -> IO[bytes]:
        """The file, or the one that it was unpacked to."""
        if self._file is not None:
            return self._file
        raw: IO[bytes] | None = None
        try:
            # A pipe would wait for a writer, perhaps for ever.
            if not stat.S_ISREG(os.stat(self.path).st_mode):
                kind = "a folder" if os.path.isdir(self.path) else "not an ordinary file"
                raise SourceError(f"{self.name} is {kind}; give the path of a text file")
            raw = open(self.path, "rb", buffering=0)  # noqa: SIM115
            self._file = self._opened(raw)
            if self._file is not raw:
                raw.close()
            self.start = 3 if self.read(0, 3) == codecs.BOM_UTF8 else 0
        except (OSError, ValueError) as error:
            if raw is not None:
                raw.close()
            if isinstance(error, SourceError):
                raise
            raise cannot_read(self.name, error) from None  # ValueError: a NUL in the path
        return self._file

    def _opened(self, raw: IO[bytes]) -> IO[bytes]:
        """The same file or what it was unpacked to; its size, the first time."""
        fresh = self._snapshot is None
        self._snapshot = self._snapshot or Snapshot(self.path, raw, self.name)
        self._snapshot.check()
        file = self._unpacked(raw, self._snapshot.end)
        if fresh:
            end = self._snapshot.end if file is raw else os.fstat(file.fileno()).st_size
            self.size = min(self.upto, end)
        return file

    def _unpacked(self, raw: IO[bytes], end: int) -> IO[bytes]:
        """The file itself if it is plain, else a temporary file of the text that is in it."""
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream: Any = _Start(raw, end)
        if zipped:
            stream = gzip.GzipFile(fileobj=stream)
        try:
            first = stream.read(4)
            encoding = "" if self.narrow else self.encoding
            for mark, wide in _WIDE:
                if first.startswith(mark):
                    encoding = wide
                    break
            if not zipped and not encoding:
                raw.seek(0)
                return raw
            stream.seek(0)
            return self._unpack(raw, end, stream, encoding)
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise SourceError(f"{self.name} is cut short or damaged; copy it again") from None
        except UnicodeError:
            raise SourceError(
                f"{self.name} is not {encoding} text; use encoding=NAME, or save it as UTF-8"
            ) from None
        finally:
            if zipped:
                stream.close()

    def _unpack(self, raw: IO[bytes], end: int, stream: Any, encoding: str) -> IO[bytes]:
        """A temporary file, beside the file if possible, with the text of a stream as UTF-8."""
        decoder = codecs.getincrementaldecoder(encoding)() if encoding else None
        folder = os.path.dirname(os.path.abspath(self.path))
        target: IO[bytes]
        try:
            target = tempfile.TemporaryFile(dir=folder, prefix=".edgeforest-")  # noqa: SIM115
        except OSError:
            folder = tempfile.gettempdir()
            target = tempfile.TemporaryFile(prefix="edgeforest-")  # noqa: SIM115
        try:
            while block := stream.read(BLOCK):
                text = decoder.decode(block).encode("utf-8", "replace") if decoder else block
                self._write(target, text, folder)
                if self.progress is not None:
                    self.progress(min(raw.tell(), end), end)
            if decoder:
                decoder.decode(b"", True)
            self._write(target, b"", folder)
        except BaseException:
            target.close()
            raise
        if encoding:
            self.narrow, self.encoding = False, encoding
        return target

    def _write(self, target: IO[bytes], text: bytes, folder: str) -> None:
        try:
            target.write(text)
            if not text:
                target.flush()
        except OSError as error:
            raise SourceError(
                f"cannot unpack {self.name} into {folder}: {reason(error)}; make room there"
            ) from None

    def read(self, at: int, size: int) -> bytes:
        """Bytes of the text from a place on; fewer where it ends."""
        file = self._file or self.open()
        size = max(0, min(size, self.size - at))
        try:
            block = read_at(file, at, size)
            while 0 < len(block) < size:
                more = read_at(file, at + len(block), size - len(block))
                if not more:
                    break
                block += more
        except OSError as error:
            raise cannot_read(self.name, error) from None
        return block

    def checksum(self, size: int) -> int:
        """The CRC-32 of the first bytes."""
        crc = 0
        for at in range(0, size, BLOCK):
            crc = zlib.crc32(self.read(at, min(BLOCK, size - at)), crc)
        return crc


class _Start:
    """The first bytes of a file, for readers that read to the end."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._size = file, size
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        rest = max(0, self._size - self._file.tell())
        return self._file.read(rest if size < 0 else min(size, rest))


def _is_narrow(encoding: str) -> bool:
    """Whether commas, quotes and line ends are one byte each, and that byte is nothing else."""
    try:
        name = codecs.lookup(encoding).name
        every = bytes(range(256)).decode(encoding, "replace")
    except (LookupError, TypeError, UnicodeError, ValueError):
        raise SourceError(f"there is no encoding {encoding!r}; 'utf-8' is the usual one") from None
    if name in ("utf-8", "utf-8-sig"):
        return True
    return len(every) == 256 and every[:128] == bytes(range(128)).decode("ascii")
