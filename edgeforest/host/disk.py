"""Replace a file on a disk: whatever happens, the old one or the new one is there, whole.

    replacing   a stream whose content becomes the file when all of it is written
    rename      give a file a name that may be another's, and flush that name to the disk

The rest of the package writes through `files`, which uses this wherever it is not a board's file.

- The content goes to a new file in the same folder. Its name is random and must not exist yet, so that
  two programs that write one path do not meet, and a link that somebody left there is not followed.
- The file is flushed to the disk, renamed, and its folder is flushed: otherwise a file that was renamed
  before its content reached the disk is empty after a power cut.
- Any exception, Ctrl-C included, removes it. What a killed program left is removed by the next one that
  writes the same path: a file is locked as long as it is written, and that one is locked by nobody.
- The new file has the permissions of the old one and, if it may be given away, its owner.
- A path that is a symbolic link stays one; the file that it leads to is replaced. To a pipe or a device,
  such as /dev/stdout, is written directly.
"""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EEXIST, EINVAL, EISDIR, ENOTSUP
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

RANDOM = 6  # bytes of a random name
TRIES = 100  # names that are tried; the first one is free, unless somebody guesses or meddles
OLD = 3600.0  # seconds after which an unfinished file is a stray where files cannot be locked


@contextmanager
def replacing(path: Path, mode: int | None = None) -> Iterator[BinaryIO]:
    """A binary stream to write to; at the end of the `with` the file becomes what was written.

    `mode` has the permissions of the file; by default they are those of the old one, or of any new
    file.
    """
    name = os.fsdecode(path)
    target, there = _target(name)
    if target is None:
        with open(name, "wb") as stream:
            yield stream
        return
    if mode is None and there is not None:
        mode = stat.S_IMODE(there.st_mode) & 0o777
    folder, last = os.path.split(target)
    folder = folder or os.curdir
    begin = f".{last[:48]}."  # with the rest, less than the 255 bytes that a name may have
    _remove_strays(folder, begin)
    part = ""
    made: BinaryIO | None = None
    try:
        for _ in range(TRIES):
            part = os.path.join(folder, f"{begin}{os.urandom(RANDOM).hex()}.part")
            made = _create(part, mode, there)
            if made is not None:
                break
        else:
            raise FileExistsError(EEXIST, "no name for a new file beside it was free", name)
        yield made
        made.flush()
        _sync(made.fileno())
        if fcntl is None:  # Windows does not rename an open file
            made.close()
        os.replace(part, target)
        _sync_folder(folder)
        made.close()
    except BaseException as error:
        if made is not None:
            with suppress(OSError):  # on a full disk the rest cannot be written either
                made.close()
        with suppress(OSError):
            os.remove(part)
        if isinstance(error, OSError) and error.filename in (part, folder):
            error.filename, error.filename2 = name, None  # the one that was asked for
        raise


def rename(old: str, new: str) -> None:
    """Give a file a name, which may be another's, so that a power cut does not undo it."""
    os.replace(old, new)
    _sync_folder(os.path.dirname(new) or os.curdir)


def _target(path: str) -> tuple[str | None, os.stat_result | None]:
    """The file that a path leads to, and its status; no file if it has to be written directly."""
    there = None
    with suppress(FileNotFoundError):
        there = os.stat(path)
    if there is not None and stat.S_ISDIR(there.st_mode):
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), path)
    if there is not None and not stat.S_ISREG(there.st_mode):
        return None, there
    while os.path.islink(path):  # links in circles end here: `os.stat` refuses them
        folder = os.path.realpath(os.path.dirname(path))
        if folder.startswith("/proc/"):  # /dev/stdout leads there: a file that is open already
            return None, there
        path = os.path.join(folder, os.readlink(path))
    return path, there


def _flags(*names: str) -> int:
    """Flags of `os.open`, of which a system may lack some."""
    flags = 0
    for name in names:
        flags |= getattr(os, name, 0)
    return flags


def _create(part: str, mode: int | None, there: os.stat_result | None) -> BinaryIO | None:
    """A stream to a new file that is ours alone; None if the name was not free."""
    flags = _flags("O_RDWR", "O_CREAT", "O_EXCL", "O_NOFOLLOW", "O_CLOEXEC", "O_BINARY")
    try:
        number = os.open(part, flags, 0o666 if mode is None else mode)
    except FileExistsError:
        return None
    try:
        if _lock(number) is False or (
            os.fstat(number).st_nlink == 0 and not os.path.exists(part)
        ):  # it was taken for a stray
            os.close(number)
            return None
        # Where that is not allowed, or not on this filesystem, it is open to no more people.
        if hasattr(os, "fchown") and there is not None:
            with suppress(OSError):
                os.fchown(number, there.st_uid, there.st_gid)
        if hasattr(os, "fchmod") and mode is not None:
            with suppress(OSError):
                os.fchmod(number, mode)
        return open(number, "wb")
    except BaseException:
        os.close(number)
        raise


def _lock(number: int) -> bool | None:
    """Lock an open file: whether nobody else has, None where files cannot be locked."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a filesystem without locks
        return None
    return True


def _remove_strays(folder: str, begin: str) -> None:
    """Remove what killed programs have left unfinished; first of all, since the disk may be full."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.startswith(begin) and name.endswith(".part"):
            middle = name[len(begin) : -len(".part")]
            if len(middle) == 2 * RANDOM and not middle.strip("0123456789abcdef"):
                _remove_stray(os.path.join(folder, name))


def _remove_stray(path: str) -> None:
    try:
        number = os.open(path, _flags("O_RDWR", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))
    except OSError:  # a link, somebody else's, or gone already
        return
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            return
        locked = _lock(number)
        if locked:
            with suppress(OSError):
                os.remove(path)
    finally:
        os.close(number)
    # The age of a file that the clock puts into the future counts too: a Pi wakes up in the past.
    if locked is None and abs(time.time() - status.st_mtime) > OLD:
        with suppress(OSError):
            os.remove(path)


def _sync(number: int) -> None:
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in (EINVAL, ENOTSUP):  # these: a filesystem that cannot
            raise


def _sync_folder(folder: str) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return
    try:
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # a folder that one may write into, but not read
        return
    try:
        _sync(number)
    finally:
        os.close(number)
