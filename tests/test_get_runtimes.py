"""Fetching the runtimes: each by itself, and each that cannot be had is one sentence."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from runtimes import ROOT

RUNTIMES = {
    "micropython-i386",
    "micropython-wasm",
    "onnxruntime-web",
    "onnxruntime-node",
    "chromium",
    "mosquitto",
    "flower",
    "compilers",
    "qemu-arm",
    "micropython-source",
    "cortex-m3",
}


def fetched(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    """The exit code and the lines of a fetch where there is neither apt nor npm."""
    tools = Path(shutil.copytree(ROOT / "tools", folder / "tools"))
    done = subprocess.run(
        [sys.executable, str(tools / "get_runtimes.py"), *arguments],
        env={"PATH": str(folder / "empty")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("strict", [False, True])
def test_what_cannot_be_had_is_named_with_the_reason_and_what_to_do(
    strict: bool, tmp_path: Path
) -> None:
    code, lines = fetched(tmp_path, *["--strict"] * strict)
    assert code == strict  # a missing runtime makes tests skip, and is no error by itself
    assert {line.partition(": ")[0] for line in lines} == RUNTIMES
    refused = [line for line in lines if ": not available, because " in line]
    assert len(refused) == len(RUNTIMES)
    assert all(re.fullmatch(r"[\w-]+: not available, because [^;]+; .+\.", s) for s in refused)
    began = lines.index("cortex-m3: fetching")  # when the three that it is built from have ended
    ended = {line.partition(": ")[0] for line in refused if lines.index(line) < began}
    assert ended >= {"compilers", "qemu-arm", "micropython-source"}
    assert list((tmp_path / ".runtimes").iterdir()) == []  # nothing half made is left


def test_one_can_be_asked_for_by_its_name(tmp_path: Path) -> None:
    code, lines = fetched(tmp_path, "--strict", "chromium")
    assert code == 1
    assert [line.partition(": ")[0] for line in lines] == ["chromium", "chromium"]
