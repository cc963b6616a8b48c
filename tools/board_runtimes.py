"""The emulated board and what builds it: cross compilers, QEMU, MicroPython's source, a firmware.

The compilers and QEMU come from this machine's own release, since they run here; the source from
Debian trixie. All are unpacked, not installed. `tools/cortex_m3/` is what the firmware has of ours.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from pathlib import Path

from fetching import (
    RUNTIMES,
    Runtime,
    StepError,
    apt_elsewhere,
    apt_here,
    download,
    find_tool,
    keep_program,
    run,
    run_online,
    say,
    unpack,
    with_missing,
    wrap_program,
)

SOURCE_SUITE = "trixie"
SOURCE_VERSION = "1.25"
# All that the port for QEMU and native modules are built from; the rest is five times as large.
SOURCE_FOLDERS = (
    "drivers",
    "examples/natmod",
    "extmod",
    "lib",
    "mpy-cross",
    "ports/qemu",
    "py",
    "shared",
    "tools",
)
BOARD = Path(__file__).resolve().parent / "cortex_m3"
BUILD_TIMEOUT = 400
# Headers that are made of all sources, and sources of ours that have something for them.
GENERATED = ("compressed.data.h", "moduledefs.h", "qstrdefs.generated.h", "root_pointers.h")
WITH_NAMES = ("module.c", "predictor.c", "trees.c")

COMPILERS = ("arm-none-eabi-gcc", "avr-gcc", "riscv64-unknown-elf-gcc")
COMPILER_PACKAGES = (
    "gcc-arm-none-eabi",
    "binutils-arm-none-eabi",
    "libnewlib-arm-none-eabi",
    "libnewlib-dev",
    "gcc-avr",
    "binutils-avr",
    "avr-libc",
    "gcc-riscv64-unknown-elf",
    "binutils-riscv64-unknown-elf",
)
# Libraries for processors that no board of ours has, C++, and what only people read: nine tenths.
COMPILER_LEAVE_OUT = (
    "./usr/share",
    "*-lto-dump",
    "*/cc1plus",
    "*/lto1",
    "*/install-tools",
    "*/12*/plugin",
    "*/14*/plugin",
    "*/arm-none-eabi/*/arm/*",
    "*/thumb/v7",
    "*/thumb/v7+*",
    "*/thumb/v7-[ar]*",
    "*/thumb/v7e-m+dp",
    "*/thumb/v7ve*",
    "*/thumb/v8*",
    "*/riscv64-unknown-elf/*/rv64*",
    "*/riscv64-unknown-elf/*/rv32e*",
)
# The compilers look for headers and libraries beside themselves, but Debian has newlib's elsewhere.
COMPILER_LINKS = {
    "arm-none-eabi/include": "../../include/newlib",
    "arm-none-eabi/lib": "newlib",
    # There is no small C library for it, but newlib's headers fit all processors.
    "riscv64-unknown-elf/include": "../../include/newlib",
}

QEMU_PACKAGE = "qemu-system-arm"
# What the firmware ends with when no image is loaded for it (tools/cortex_m3/board.c).
NO_IMAGE = 4


def build_compilers(target: Path, scratch: Path) -> None:
    """Make the folder of the cross compilers."""
    apt_get = apt_here(scratch)
    debs = download(apt_get, with_missing(apt_get, COMPILER_PACKAGES), scratch)
    say("unpacking")
    unpack(debs, target, COMPILER_LEAVE_OUT)
    for name, place in COMPILER_LINKS.items():
        (target / "usr/lib" / name).symlink_to(place)


def compilers_version(folder: Path) -> str:
    """Return the versions of the compilers, or raise StepError when one does not work."""
    versions = []
    for name in COMPILERS:
        version = run([str(folder / "usr/bin" / name), "-dumpversion"]).strip()
        versions.append(f"{name} {version}")
    return ", ".join(versions)


def build_qemu(target: Path, scratch: Path) -> None:
    """Make the folder of QEMU for Arm, with the libraries that this machine lacks."""
    apt_get = apt_here(scratch)
    needed = with_missing(apt_get, [QEMU_PACKAGE])
    # Its other packages are firmware of other machines, and windows to look at them.
    wanted = [name for name in needed if not name.startswith("qemu-") or name == QEMU_PACKAGE]
    keep_program(download(apt_get, wanted, scratch), scratch, target, "usr/bin/qemu-system-arm")


def qemu_version(folder: Path) -> str:
    """Return the version that QEMU prints, or raise StepError."""
    return run([str(wrap_program(folder, "qemu-system-arm")), "--version"]).splitlines()[0]


def build_source(target: Path, scratch: Path) -> None:
    """Make the folder of MicroPython's source, with only what is built here."""
    apt_get = apt_elsewhere(scratch, SOURCE_SUITE, "amd64", "deb-src")
    say("downloading the source of MicroPython")
    run_online([*apt_get, "source", "--download-only", "micropython"], scratch)
    packed = next(scratch.glob("micropython_*.orig.tar.*"), None)
    if packed is None:
        raise StepError("the source package has no .orig.tar")
    wanted = tuple(f"{name}/" for name in SOURCE_FOLDERS)
    with tarfile.open(packed) as archive:
        members = []
        for member in archive.getmembers():
            # Debian's changes are for its own build of another port: left out.
            member.name = member.name.partition("/")[2]
            if member.name.startswith(wanted):
                members.append(member)
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(target, members, **safe)
    # The rules ask for this file before they freeze modules, ours too, which need none of it.
    (target / "lib/micropython-lib").mkdir(exist_ok=True)
    (target / "lib/micropython-lib/README.md").touch()
    (target / "VERSION").write_text(packed.name.split("_")[1].partition("+")[0], encoding="utf-8")


def source_version(folder: Path) -> str:
    """Return the version of MicroPython's source, or raise StepError."""
    if not (folder / "py/dynruntime.mk").is_file():
        raise StepError("files are missing")
    version = (folder / "VERSION").read_text(encoding="utf-8").strip()
    if not version.startswith(SOURCE_VERSION):
        raise StepError(f"it is {version!r}, not {SOURCE_VERSION}")
    return f"MicroPython {version}"


def board_mark() -> str:
    """A checksum of what the firmware is built from: when that changes, it is built again."""
    digest = hashlib.sha256(source_version(RUNTIMES / "micropython-source").encode())
    named = [BOARD.parent.parent / "firmware" / "natmod" / name for name in WITH_NAMES]
    for path in [*sorted(BOARD.iterdir()), *named]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def code_of(header: Path) -> list[bytes]:
    """The lines of a header without its comments, which tell sizes that differ from build to build."""
    lines = header.read_bytes().splitlines() if header.is_file() else []
    return [line for line in lines if not line.startswith(b"//")]


def build_firmware(build: Path, manifest: Path, mpy_cross: str, modules: str = "") -> Path:
    """Build the firmware in a folder, with the modules of a manifest frozen; returns it.

    `modules` is a folder of user C modules that become a part of it. In a copy of the folder of an
    earlier build only what differs is built again.
    """
    source, compilers = RUNTIMES / "micropython-source", RUNTIMES / "compilers"
    for folder in (source, compilers):
        if not folder.is_dir():
            raise StepError(f"it is built from {folder.name}, which is not there")
    if " " in f"{BOARD}{build}{source.resolve()}{compilers.resolve()}":
        raise StepError("make cannot build in a folder with a space in its path")
    prefix = compilers.resolve() / "usr/bin/arm-none-eabi-"
    port = source.resolve() / "ports/qemu"
    given = {
        "BOARD": "cortex_m3",
        "BOARD_DIR": str(BOARD),
        "BUILD": str(build),
        "CROSS_COMPILE": str(prefix),
        "FROZEN_MANIFEST": str(manifest),
        "MICROPY_MPYCROSS": mpy_cross,
        "MICROPY_MPYCROSS_DEPENDENCY": "",  # it is there, and not to be built
        **({"USER_C_MODULES": modules} if modules else {}),
    }
    make = [find_tool("make"), "-s", f"-j{os.cpu_count() or 1}", "-C", str(port)]
    # Its version is that of the source, not of the repository that git finds around it.
    variables = {"GIT_DIR": str(build / "nowhere"), "MICROPY_MPYCROSS": mpy_cross}
    pairs = [f"{name}={value}" for name, value in given.items()]
    # What the modules add to them is read again: in a copy make does not see that they have come.
    again = (
        [option for name in WITH_NAMES for option in ("-W", f"{modules}/natmod/{name}")]
        if modules
        else []
    )
    headers = {path: code_of(path) for path in (build / "genhdr" / name for name in GENERATED)}
    run([*make, *again, *pairs, *map(str, headers)], BUILD_TIMEOUT, variables=variables)
    changed = [path.name for path, before in headers.items() if code_of(path) != before]
    for noted in build.rglob("*.P"):  # what an object was made of, by its place before the copy
        if any(name in noted.read_text(encoding="utf-8") for name in changed):
            noted.with_suffix(".o").unlink(missing_ok=True)
    run([*make, *pairs], BUILD_TIMEOUT, variables=variables)
    return build / "firmware.elf"


def build_cortex(target: Path, _scratch: Path) -> None:
    """Build MicroPython for the emulated board."""
    say("building it: half a minute")
    # Nothing is frozen yet, so that any program will do for mpy-cross.
    build_firmware(target / "build", BOARD / "manifest.py", find_tool("true"))
    (target / "board.sha256").write_text(board_mark(), encoding="utf-8")


def cortex_version(folder: Path) -> str:
    """Return the version of the firmware that starts in QEMU, or raise StepError."""
    if (folder / "board.sha256").read_text(encoding="utf-8") != board_mark():
        raise StepError("it was built from something else")
    qemu = RUNTIMES / "qemu-arm/qemu-system-arm"
    options = ["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-semihosting"]
    command = [str(qemu), *options, "-kernel", str(folder / "build/firmware.elf")]
    try:
        run(command)
    except StepError as error:
        if f"failed with code {NO_IMAGE}:" not in str(error):
            raise
    else:
        raise StepError("it runs without an image")
    return f"{source_version(RUNTIMES / 'micropython-source')} for a Cortex-M3"


DEBIAN_ADVICE = "it needs a Debian or Ubuntu that reaches its archive"
BOARD_RUNTIMES = (
    Runtime(
        "compilers",
        compilers_version,
        build_compilers,
        f"{DEBIAN_ADVICE}; elsewhere install {', '.join(COMPILERS)}, which tests of C find",
    ),
    Runtime("qemu-arm", qemu_version, build_qemu, DEBIAN_ADVICE),
    Runtime("micropython-source", source_version, build_source, DEBIAN_ADVICE),
    Runtime(
        "cortex-m3",
        cortex_version,
        build_cortex,
        "it needs the three before it, and make",
        needs=("compilers", "qemu-arm", "micropython-source"),
    ),
)
