"""What `tools/check_wheel.py` sees in a compiled engine, compared with what the system's own tools say."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from runtimes import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from check_wheel import Refused, check_library
from elf import Library

CODE = "double log(double); double f(double x) { return log(x); }"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared library of this machine that takes one function from another."""
    if shutil.which("gcc") is None or sys.platform != "linux":
        pytest.skip("there is no gcc for Linux: apt install gcc")
    folder = tmp_path_factory.mktemp("library")
    (folder / "code.c").write_text(CODE, encoding="utf-8")
    command = ["gcc", "-shared", "-fPIC", "-o", "library.so", "code.c", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "library.so"


def test_it_finds_processor_libraries_and_names_as_objdump_does(library: Path) -> None:
    found = Library(library.read_bytes())
    shown = subprocess.run(
        ["objdump", "-p", "-T", str(library)], capture_output=True, text=True, check=True
    ).stdout
    lines = [line.split() for line in shown.splitlines()]
    assert found.needed == [words[1] for words in lines if words[:1] == ["NEEDED"]]
    assert found.wanted == {words[-1] for words in lines if "*UND*" in words}
    said = [word.strip("()") for words in lines for word in words if "GLIBC_2" in word]
    versions = [tuple(map(int, word.removeprefix("GLIBC_").split("."))) for word in said]
    assert found.glibc == max(versions)
    assert found.machine == platform.machine()


def test_a_library_that_is_not_what_its_tag_says_is_refused(library: Path) -> None:
    data, here = library.read_bytes(), platform.machine()
    assert check_library(data, f"manylinux_9_99_{here}").startswith("glibc ")
    with pytest.raises(Refused, match=r"needs glibc .*, but its tag says 2\.1"):
        check_library(data, f"manylinux_2_1_{here}")
    with pytest.raises(Refused, match="but its tag says armv7l"):
        check_library(data, "manylinux_2_28_armv7l")
    with pytest.raises(Refused, match="which not every musllinux"):
        check_library(data, f"musllinux_1_2_{here}")


def test_a_library_that_is_cut_short_is_refused_in_a_sentence(library: Path) -> None:
    data = library.read_bytes()
    for size in range(0, len(data), 499):
        with pytest.raises(Refused, match="cannot be read: it is "):
            check_library(data[:size], "manylinux_2_28_x86_64")
