"""Models and keys that commands read, and the modules and engines that handle them."""

import os
import sys
from importlib import import_module
from typing import Any

from edgeforest import engines
from edgeforest.cli.parser import Problem
from edgeforest.host.words import reason


def load_model(path: str) -> Any:
    """Read a model, or say what is wrong with it."""
    check_engine(None)
    try:
        if path == "-":
            if sys.stdin is None:
                raise Problem("the standard input is closed; pipe a model into it")
            return engines.load(sys.stdin.buffer)
        with open(path, "rb") as stream:
            return engines.load(stream)
    except OSError as error:
        raise Problem(f"cannot read {path}: {reason(error)}") from None
    except ValueError as error:
        raise Problem(f"{path}: {error}") from None


def check_engine(name: Any) -> None:
    """Refuse, before any work, an engine that is not there; None is the one that is picked."""
    try:
        engines.pick(name)
    except (ValueError, engines.Absent) as error:
        raise Problem(str(error)) from None


def engine_asked(name: str | None) -> str | None:
    """The engine that was asked for by name, by an option or in the environment."""
    return name or os.environ.get("EDGEFOREST_ENGINE")


def read_key(path: str | None) -> bytes | None:
    """All bytes of a file with a key."""
    if path is None:
        return None
    try:
        with open(path, "rb") as stream:
            key = stream.read()
    except OSError as error:
        raise Problem(f"cannot read {path}: {reason(error)}") from None
    if len(key) < 16:
        raise Problem(f"a key has at least 16 bytes, {path} has {len(key)}; make a longer one")
    return key


def exporter(module: str) -> Any:
    """A module of `edgeforest.export`, loaded when it is needed."""
    return import_module(f"edgeforest.export.{module}")
