"""What builds wheels for other processors, and what tries them: Zig's C compiler, QEMU, Debian's Python.

Zig comes from PyPI; QEMU, and Python and NumPy for Arm, from Debian trixie. All are unpacked, not installed.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
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

ZIG_VERSION = "0.17.0"
# C++ and other systems: a third of it.
ZIG_LEAVE_OUT = ("docs", "libcxx", "libcxxabi", "libtsan", "libc/mingw", "libc/wasi", "libc/darwin")
ZIG_PROCESSORS = ("aarch64", "any", "arm", "generic", "x86", "x86_64")  # whose headers are kept
ZIG_LIBRARIES = ("any", "glibc", "gnu", "musl")

DEBIAN_SUITE = "trixie"  # the first in which these programs need no libraries of the system
QEMU_PACKAGE = "qemu-user"
QEMU_PROGRAMS = ("qemu-aarch64", "qemu-arm")

PYTHON = "python3.13"
PYTHON_PACKAGES = (
    "python3.13-minimal",
    "libpython3.13-minimal",
    "libpython3.13-stdlib",
    "python3-numpy",
    "libblas3",
    "libbz2-1.0",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "libgfortran5",
    "liblapack3",
    "liblzma5",
    "libsqlite3-0",
    "libstdc++6",
    "zlib1g",
)
PYTHON_LEAVE_OUT = ("./usr/share", "./var", "*/gconv", "*/tests", "*/__pycache__", "*/config-3*")
# For each architecture of Debian: the name of its folder of libraries, QEMU, and a processor.
MACHINES = {
    "armhf": ("arm-linux-gnueabihf", "qemu-arm", "cortex-a7"),
    "arm64": ("aarch64-linux-gnu", "qemu-aarch64", "cortex-a72"),
}
# The folder is found from the wrapper's own place, so that it can be moved or linked to.
PYTHON_WRAPPER = """\
#!/bin/sh
here=$(dirname -- "$(readlink -f -- "$0")")
lib="$here/usr/lib/{libraries}"
exec "$here/../qemu-user/{qemu}" -cpu {processor} -L "$here" \\
  -E LD_LIBRARY_PATH="$lib/blas:$lib/lapack" "$here/usr/bin/{python}" "$@"
"""


def build_zig(target: Path, scratch: Path) -> None:
    """Make the folder of Zig's C compiler, which has the headers of glibc and musl in it."""
    say("downloading the compiler: 100 MB")
    options = ["--no-deps", "--only-binary", ":all:", "--dest", str(scratch)]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download"]
    run_online([*pip, *options, f"ziglang=={ZIG_VERSION}"], scratch)
    say("unpacking")
    with zipfile.ZipFile(next(scratch.glob("ziglang-*.whl"))) as wheel:
        wheel.extractall(target, filter(zig_needs, wheel.namelist()))
    (target / "ziglang" / "zig").chmod(0o755)


def zig_needs(name: str) -> bool:
    """Whether a file of Zig is needed to compile C for Linux on the processors of small computers."""
    path = name.removeprefix("ziglang/lib/")
    if path.startswith(tuple(f"{folder}/" for folder in ZIG_LEAVE_OUT)):
        return False
    if path.startswith("libc/include/"):
        processor, *rest = path.split("/")[2].split("-")
        return processor in ZIG_PROCESSORS and rest[-1] in ZIG_LIBRARIES
    return True


def zig_version(folder: Path) -> str:
    """Return the version that Zig prints, or raise StepError."""
    version = run([str(folder / "ziglang" / "zig"), "version"]).strip()
    if version != ZIG_VERSION:
        raise StepError(f"it is {version!r}, not {ZIG_VERSION}")
    return f"zig {version}"


def build_qemu_user(target: Path, scratch: Path) -> None:
    """Make the folder of QEMU that runs single programs of other processors."""
    if sys.platform != "linux":
        raise StepError("programs of Linux do not run on this machine")
    here = run([find_tool("dpkg"), "--print-architecture"]).strip()
    debs = download(apt_elsewhere(scratch, DEBIAN_SUITE, here), [QEMU_PACKAGE], scratch)
    say("unpacking")
    unpack(debs, scratch / "unpacked", ["./usr/share", "*/qemu-[!a]*"])
    for name in QEMU_PROGRAMS:
        shutil.copy2(scratch / "unpacked/usr/bin" / name, target)


def qemu_user_version(folder: Path) -> str:
    """Return the version that QEMU prints, or raise StepError."""
    for name in QEMU_PROGRAMS:
        version = run([str(folder / name), "--version"]).splitlines()[0]
    return version


def build_python(architecture: str, target: Path, scratch: Path) -> None:
    """Make the folder of a Python of Debian for another processor, with NumPy."""
    apt_get = apt_elsewhere(scratch, DEBIAN_SUITE, architecture)
    debs = download(apt_get, PYTHON_PACKAGES, scratch)
    say("unpacking")
    unpack(debs, target, PYTHON_LEAVE_OUT)
    if not (target / "lib").exists():
        (target / "lib").symlink_to("usr/lib")  # where programs look for their loader


def python_version(architecture: str, folder: Path) -> str:
    """Return the version that the emulated Python prints, or raise StepError."""
    libraries, qemu, processor = MACHINES[architecture]
    text = PYTHON_WRAPPER.format(libraries=libraries, qemu=qemu, processor=processor, python=PYTHON)
    write_wrapper(folder / "python", text)
    # While it is made, it is one folder deeper than QEMU's own.
    emulator = RUNTIMES / "qemu-user" / qemu
    program = [
        str(emulator),
        "-cpu",
        processor,
        "-L",
        str(folder),
        str(folder / "usr/bin" / PYTHON),
    ]
    return f"{run([*program, '--version']).strip()} for {architecture}"


DEBIAN_ADVICE = "it needs a Debian or Ubuntu that reaches its archive"
WHEEL_RUNTIMES = (
    Runtime(
        "zig",
        zig_version,
        build_zig,
        "it needs pip (apt install python3-pip) that reaches its registry, on Linux or macOS",
        for_tests=False,
    ),
    Runtime("qemu-user", qemu_user_version, build_qemu_user, DEBIAN_ADVICE, for_tests=False),
    *(
        Runtime(
            f"python-{architecture}",
            partial(python_version, architecture),
            partial(build_python, architecture),
            f"{DEBIAN_ADVICE}, and qemu-user",
            needs=("qemu-user",),
            for_tests=False,
        )
        for architecture in MACHINES
    ),
)
