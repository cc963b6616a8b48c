"""Files that commands write: checked before the work, written completely or not at all."""

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from edgeforest import files
from edgeforest.cli.parser import Problem
from edgeforest.cli.screen import say
from edgeforest.host.words import file_size, reason


def refuse_output(out: str | None, *inputs: str, option: str = "--out") -> None:
    """Refuse, before any work, an output that cannot be written or that would destroy an input."""
    if out is None or out == "-":
        return
    folder = os.path.dirname(out) or "."
    if not os.path.isdir(folder):
        raise Problem(f"cannot write {out}: there is no folder {folder}; make it first")
    if os.path.isdir(out):
        raise Problem(f"cannot write {out}: it is a folder; name a file")
    folder = os.path.dirname(os.path.realpath(out))
    if (os.path.isfile(out) or not os.path.exists(out)) and not os.access(folder, os.W_OK):
        raise Problem(f"cannot write {out}: {folder} is write-protected; choose another folder")
    for path in inputs:
        if os.path.exists(out) and os.path.exists(path) and os.path.samefile(out, path):
            raise Problem(f"{option} {out} would overwrite what is read; give another name")


@contextmanager
def replaced(path: str) -> Iterator[TextIO]:
    """A stream; what is written to it becomes the file only when it is complete."""
    try:
        with files.replacing(path) as raw:
            stream = io.TextIOWrapper(raw, encoding="utf-8", newline="")
            yield stream
            stream.detach()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Problem(f"cannot write {path}: {reason(error)}") from None


def save(forest: Any, path: str, stdout: TextIO | None = None) -> None:
    """Write a model and say so; one that cannot be written there is kept elsewhere.

    To the path - it goes to the standard output.
    """
    if path == "-" and stdout is not None:
        forest.write(stdout)
        stdout.write("\n")
        return
    try:
        forest.save(path)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = kept_elsewhere(forest, path)
        raise Problem(f"cannot write {path}: {reason(error)}; {where}") from None
    say("saved", kept_file(path), wrap=False)


def kept_elsewhere(forest: Any, path: str) -> str:
    """Keep a model that cannot be written to its path; returns where it is, in words."""
    start, ending = os.path.splitext(os.path.basename(path))
    # A random name: it overwrites nothing, and nobody can have put a link there.
    name = f"{start[:40]}-{os.urandom(4).hex()}{ending[:20] or '.json'}"
    for folder in shelters(path):
        with suppress(OSError):
            other = os.path.abspath(os.path.join(folder, name))
            forest.save(other)
            return f"the model is in {other} instead"
    return "it cannot be kept in this folder, at home or among temporary files either"


def shelters(path: str) -> Iterator[str]:
    """Folders for a model that cannot be written to its path, the best one first."""
    if os.path.isfile(path) or not os.path.exists(path):  # not beside a device
        yield os.path.dirname(path) or os.curdir
    yield os.curdir
    yield os.path.expanduser("~")
    with suppress(OSError):  # there is none
        yield tempfile.gettempdir()


def kept_file(path: str, more: str = "") -> str:
    """The path of a file that was written, and its size."""
    return f"{path}, {file_size(os.path.getsize(path))}{more}"
