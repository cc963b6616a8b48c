"""Python for musl, to try the wheels for Alpine and Home Assistant: no registry has one, so it is compiled.

CPython's source comes from Debian bookworm, the compiler is Zig's, the C library Debian's musl. The
interpreter has the modules that the package needs built in, and no others: no NumPy, zlib, SQLite or ctypes.
It takes some minutes of processor time for each architecture.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fetching import (
    RUNTIMES,
    Runtime,
    StepError,
    apt_elsewhere,
    download,
    find_tool,
    run,
    run_online,
    say,
    unpack,
    write_wrapper,
)

SOURCE_SUITE, MUSL_SUITE = "bookworm", "trixie"
VERSION = "3.11"  # the oldest that the wheels are for; one is needed here as well, to compile it
BUILD_TIMEOUT = 7200
MODULES = """\
*static*
array arraymodule.c
_bisect _bisectmodule.c
_blake2 _blake2/blake2module.c _blake2/blake2b_impl.c _blake2/blake2s_impl.c
_contextvars _contextvarsmodule.c
_csv _csv.c
_datetime _datetimemodule.c
_heapq _heapqmodule.c
_json _json.c
_md5 md5module.c
_opcode _opcode.c
_pickle _pickle.c
_posixsubprocess _posixsubprocess.c
_queue _queuemodule.c
_random _randommodule.c
_sha1 sha1module.c
_sha256 sha256module.c
_sha512 sha512module.c
_socket socketmodule.c
_struct _struct.c
_typing _typingmodule.c
binascii binascii.c
fcntl fcntlmodule.c
math mathmodule.c
mmap mmapmodule.c
select selectmodule.c
unicodedata unicodedata.c
"""
# The library zlib is not compiled: logs that are gzipped are not among what is tried.
ZLIB = '''\
"""Checksums alone: this Python, which tries wheels, was compiled without the library zlib."""

from binascii import crc32

DEFLATED, MAX_WBITS, DEF_MEM_LEVEL, Z_DEFAULT_STRATEGY, Z_SYNC_FLUSH = 8, 15, 8, 0, 2


class error(Exception):
    pass


def _absent(*args, **options):
    raise error("there is no zlib in this Python")


compress = decompress = compressobj = decompressobj = _absent
'''
LEFT_OUT = (
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "lib2to3",
    "ensurepip",
    "turtledemo",
    "__pycache__",
)


@dataclass(frozen=True)
class Machine:
    """One architecture: what Zig, Debian, musl and QEMU call it."""

    triple: str
    debian: str
    loader: str
    qemu: tuple[str, ...] = ()  # and its processor; none for this computer's own
    flags: tuple[str, ...] = ()


MACHINES = {
    "x86_64": Machine("x86_64-linux-musl", "amd64", "ld-musl-x86_64.so.1"),
    "aarch64": Machine(
        "aarch64-linux-musl", "arm64", "ld-musl-aarch64.so.1", ("qemu-aarch64", "cortex-a72")
    ),
    "armv7l": Machine(
        "arm-linux-musleabihf",
        "armhf",
        "ld-musl-armhf.so.1",
        ("qemu-arm", "cortex-a7"),
        ("-mcpu=generic+v7a+vfp3d16-neon",),
    ),
}
# The folder is found from the wrapper's own place, so that it can be moved or linked to.
WRAPPER = """\
#!/bin/sh
here=$(dirname -- "$(readlink -f -- "$0")")
{start} "$here/bin/python" "$@"
"""


def start_of(machine: Machine, here: str, runtimes: str) -> list[str]:
    """What starts a program of this machine: musl's loader, or QEMU, which finds the loader."""
    if not machine.qemu:
        return [f"{here}/lib/{machine.loader}"]
    program, processor = machine.qemu
    return [f"{runtimes}/qemu-user/{program}", "-cpu", processor, "-L", here]


def build_python(name: str, target: Path, scratch: Path) -> None:
    """Compile Python for an architecture, and put it together with its library and musl."""
    machine = MACHINES[name]
    source = fetch_source(scratch)
    musl = scratch / "musl"
    musl.mkdir()
    debs = download(apt_elsewhere(musl, MUSL_SUITE, machine.debian), ["musl"], musl)
    unpack(debs, musl / "unpacked")
    say("compiling: this takes minutes")
    program = compile_python(machine, source, scratch / "build")
    (target / "bin").mkdir()
    shutil.copy2(program, target / "bin" / "python")
    library = target / "lib" / f"python{VERSION}"
    shutil.copytree(source / "Lib", library, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (library / "zlib.py").write_text(ZLIB, encoding="utf-8")
    (library / "lib-dynload").mkdir()  # nothing is in it, but it is looked for
    shutil.copy2(next((musl / "unpacked").glob(f"**/{machine.loader}")), target / "lib")


def fetch_source(scratch: Path) -> Path:
    """Fetch CPython's source and unpack it; the folder."""
    folder = scratch / "source"
    folder.mkdir()
    apt_get = apt_elsewhere(folder, SOURCE_SUITE, "amd64", "deb-src")
    say("downloading the source: 27 MB")
    package = f"python{VERSION}"
    run_online([*apt_get, "source", "--download-only", "--only-source", package], folder)
    with tarfile.open(next(folder.glob("*.orig.tar.*"))) as files:
        # Python 3.11 has no filter before its fourth release.
        files.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return next(path for path in folder.glob("Python-*") if path.is_dir())


def compile_python(machine: Machine, source: Path, build: Path) -> Path:
    """Compile the interpreter; its path."""
    zig = RUNTIMES / "zig" / "ziglang" / "zig"
    if not zig.is_file():
        raise StepError("there is no Zig here; get it: python tools/get_runtimes.py zig")
    same = sys.version_info[:2] == tuple(map(int, VERSION.split(".")))
    python = sys.executable if same else find_tool(f"python{VERSION}")
    (build / "Modules").mkdir(parents=True)
    (build / "Modules" / "Setup.local").write_text(MODULES, encoding="utf-8")
    variables = {
        "CC": " ".join([str(zig), "cc", "-target", machine.triple, *machine.flags, "-dynamic"]),
        "AR": f"{zig} ar",
        "RANLIB": f"{zig} ranlib",
        "READELF": "true",  # asked for, and not used
        "PKG_CONFIG": "false",
        "CFLAGS": "-O1 -g0 -w",
        "LDFLAGS": "",
        "ZIG_GLOBAL_CACHE_DIR": str(RUNTIMES / "zig" / "cache"),
    }
    options = [
        "--build=x86_64-linux-gnu",
        f"--host={machine.triple}",
        f"--with-build-python={python}",
        "--disable-ipv6",
        "--without-ensurepip",
        "ac_cv_file__dev_ptmx=yes",
        "ac_cv_file__dev_ptc=no",
    ]
    run([str(source / "configure"), *options], BUILD_TIMEOUT, build, variables)
    jobs = os.cpu_count() or 1
    run([find_tool("make"), f"-j{jobs}", "python"], BUILD_TIMEOUT, build, variables)
    return build / "python"


def python_version(name: str, folder: Path) -> str:
    """Return the version that this Python prints, or raise StepError."""
    machine = MACHINES[name]
    start = start_of(machine, "$here", "$here/..")
    quoted = " ".join(f'"{word}"' if "$" in word else word for word in start)
    home = "-E PYTHONHOME=" if machine.qemu else "PYTHONHOME="
    line = f'exec {quoted} {home}"$here"' if machine.qemu else f'{home}"$here" exec {quoted}'
    write_wrapper(folder / "python", WRAPPER.format(start=line))
    # While it is made, it is one folder deeper than QEMU's own.
    command = [*start_of(machine, str(folder), str(RUNTIMES)), str(folder / "bin" / "python")]
    code = "import math, json, random, struct, sys; print(sys.version.split()[0])"
    version = run([*command, "-c", code], variables={"PYTHONHOME": str(folder)}).strip()
    return f"Python {version} for {name}, musl"


MUSL_RUNTIMES = tuple(
    Runtime(
        f"python-musl-{name}",
        partial(python_version, name),
        partial(build_python, name),
        f"it needs a Debian or Ubuntu that reaches its archive, Python {VERSION}, make, and zig",
        needs=("zig", "qemu-user") if machine.qemu else ("zig",),
        for_tests=False,
    )
    for name, machine in MACHINES.items()
)
