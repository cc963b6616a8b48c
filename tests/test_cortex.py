"""On the emulated board: a Cortex-M3 with 32-bit floats, a hard heap, and instructions that are counted."""

from __future__ import annotations

from pathlib import Path

import cortex
import pytest
from cortex import make_romfs, needs_cortex, run_cortex
from runtimes import install, needs_mpy_cross, output

pytestmark = [needs_cortex, needs_mpy_cross]

# ---- The board itself


def test_the_board_is_one(tmp_path: Path) -> None:
    script = """
import gc, struct, sys
print(sys.argv, struct.calcsize("P"), 16777216.0 + 1 == 16777216.0)
print(gc.mem_free() + gc.mem_alloc())
with open("note", "w") as file:
    file.write("it can write")
print(open("note").read(), open("folder/given").read())
sys.exit(7)
"""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "given").write_text("and read")
    done = run_cortex(script, tmp_path, "40k", ["one", "and two"])
    assert done.returncode == 7, done
    first, heap, files = done.stdout.splitlines()
    assert first == "['script.py', 'one', 'and two'] 4 True"
    assert 38 * 1024 < int(heap) < 40 * 1024  # what counts the blocks is in the heap too
    assert files == "it can write and read"


def test_an_exception_ends_the_run(tmp_path: Path) -> None:
    done = run_cortex("print(1)\nkept = bytearray(60000)", tmp_path, "48k")
    assert done.returncode == 1
    assert done.stdout == "1\n"
    assert done.stderr.splitlines()[-1].startswith("MemoryError: ")


def test_a_script_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cortex, "TIMEOUT", 2)
    with pytest.raises(pytest.fail.Exception, match="did not end within 2 seconds\n1"):
        run_cortex("print(1)\nwhile True: pass", tmp_path)


def test_the_clock_is_made_of_instructions(tmp_path: Path) -> None:
    script = """
import time
start = time.ticks_us()
for _ in range(10000):
    pass
print(time.ticks_us() - start)
"""
    said = [output(run_cortex(script, tmp_path)) for _ in range(2)]
    assert said[0] == said[1]
    assert 10 < int(said[0]) * cortex.PER_MICROSECOND / 10000 < 1000  # a turn of the loop


def test_code_in_a_romfs_takes_less_heap(tmp_path: Path) -> None:
    script = """
import gc
gc.collect()
before = gc.mem_free()
from edgeforest import core_pure
gc.collect()
print(core_pure.__file__, before - gc.mem_free())
"""
    on_disk, in_rom = tmp_path / "on disk", tmp_path / "in rom"
    install(on_disk)
    in_rom.mkdir()
    rom = make_romfs(install(tmp_path / "rom"))
    one = output(run_cortex(script, on_disk)).split()
    other = output(run_cortex(script, in_rom, rom=rom)).split()
    assert one[0] == "edgeforest/core_pure.mpy"
    assert other[0] == "/rom/edgeforest/core_pure.mpy"
    assert int(other[1]) < 0.55 * int(one[1])
