"""Look inside wheels before they are released: is in them what their names say?

A wheel for a platform holds the native engine and is tagged cp311-abi3; a wheel for everywhere is
tagged py3-none-any and holds none. Both hold the whole package with its types, and neither tests
nor C sources. On Linux the native engine is looked into, too: its processor, the libraries that it loads
and the version of glibc must be those of the tag. `--native` refuses wheels without the native engine too, since a build without a
compiler makes one of these.

    python tools/check_wheel.py [--native] dist/*.whl

Exit codes: 0 all is well, 1 something is not (a sentence on stderr says what).
"""

import argparse
import re
import sys
import zipfile
from fnmatch import fnmatch
from pathlib import Path

from elf import V6, V7, VFP2, VFP3_D16, Library

ENGINE = ("edgeforest/engines/_kernel*.so", "edgeforest/engines/_kernel*.pyd")
UNWANTED = ("*.c", "*.h", "*.o", "*.pyc", "*test*.py", "firmware/*", "tools/*", "setup.py")
# What every Linux with glibc has, and what is found in musl's one library by any name of it.
GLIBC = ("libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux*.so.*")
MUSL = ("libc.so", "libc.musl-*.so.1")
PLAIN_GLIBC = (2, 28)  # the newest that a wheel without manylinux in its tag may ask for
# Names of the logarithm in the system's library. One that is linked in may differ in the last bit.
LOGARITHMS = {"log", "logf64", "clog"}


class Refused(Exception):
    """What is wrong with a wheel, in one sentence."""


def needed() -> list[str]:
    """What every wheel must hold: all modules of this checkout, and their types."""
    root = Path(__file__).resolve().parent.parent
    files = [
        file.relative_to(root).as_posix()
        for pattern in ("edgeforest/**/*.py", "edgeforest/**/*.pyi", "edgeforest/py.typed")
        for file in root.glob(pattern)
    ]
    return sorted(
        [*files, *(f"edgeforest/export/{file.name}" for file in root.glob("export/*.py"))]
    )


def check_library(data: bytes, platform: str) -> str:
    """What the native engine of a Linux needs, in words; `Refused` if that is more than its tag says."""
    try:
        found = Library(data)
    except ValueError as error:
        raise Refused(f"its native engine cannot be read: {error}") from None
    architecture = re.sub(r"^(many|musl)?linux(_\d+_\d+|\d+)?_", "", platform)
    machine = "arm" if architecture.startswith("armv") else architecture
    if found.machine != machine:
        raise Refused(f"its native engine is for {found.machine}, but its tag says {architecture}")
    if not LOGARITHMS & found.wanted:
        raise Refused("its native engine has a logarithm of its own; it must use the system's")
    if machine == "arm":
        arm = found.arm
        most = (V6, VFP2) if architecture == "armv6l" else (V7, VFP3_D16)
        if (arm["processor"], arm["floats"]) > most or arm["floats"] > most[1] or arm["neon"]:
            raise Refused(f"its native engine has instructions that not every {architecture} has")
        if not arm["hard"]:
            raise Refused("its native engine does not pass floats in registers; use gnueabihf")
    musl = platform.startswith("musl")
    strange = [n for n in found.needed if not any(fnmatch(n, p) for p in (MUSL if musl else GLIBC))]
    if strange:
        raise Refused(
            f"its native engine needs {', '.join(strange)}, which not every {platform} has"
        )
    if musl:
        return "musl"
    version = re.match(r"manylinux_(\d+)_(\d+)", platform)
    limit = (int(version[1]), int(version[2])) if version else PLAIN_GLIBC
    if found.glibc is None or found.glibc > limit:
        needs = "no glibc" if found.glibc is None else f"glibc {dotted(found.glibc)}"
        raise Refused(f"its native engine needs {needs}, but its tag says {dotted(limit)}")
    return f"glibc {dotted(found.glibc)}"


def dotted(version: tuple[int, ...]) -> str:
    """A version as text."""
    return ".".join(map(str, version))


def check(path: Path, native: bool) -> str:
    """What a wheel is, in words; `Refused` if it is not what its name says."""
    if not path.exists():
        raise Refused("there is no such file")
    try:
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            metadata = next((n for n in names if n.endswith(".dist-info/WHEEL")), None)
            said = wheel.read(metadata).decode() if metadata else ""
            engines = [name for name in names if any(fnmatch(name, form) for form in ENGINE)]
            library = wheel.read(engines[0]) if engines else b""
    except zipfile.BadZipFile:
        raise Refused("it is not a wheel, or it is cut short") from None
    tag = "-".join(path.stem.split("-")[-3:])
    inside = {line.removeprefix("Tag: ") for line in said.splitlines() if line.startswith("Tag: ")}
    if tag not in inside:
        raise Refused(f"its name says {tag}, but inside it says {', '.join(inside) or 'nothing'}")
    if tag == "py3-none-any":
        if engines:
            raise Refused(f"it is tagged {tag}, but holds {engines[0]}, which runs on one platform")
        if native:
            raise Refused(
                "it has no native engine: it was built without a working C compiler, or with "
                "EDGEFOREST_PURE=1"
            )
    else:
        if not engines:
            raise Refused(
                f"it is tagged {tag}, but holds no edgeforest/engines/_kernel: nothing was built"
            )
        if len(engines) > 1:
            raise Refused(f"it holds more than one native engine: {', '.join(engines)}")
        if not tag.startswith("cp311-abi3-"):
            raise Refused(f"it must be tagged cp311-abi3, to run on 3.11 and later; got {tag}")
    for name in needed():
        if name not in names:
            raise Refused(f"{name} is missing in it")
    for name in names:
        if any(fnmatch(name, pattern) for pattern in UNWANTED):
            raise Refused(f"{name} does not belong in it")
    found = [tag, f"{len(names)} files", engines[0] if engines else "no native engine"]
    for platform in tag.split("-")[-1].split("."):
        # A wheel that was built without a compiler for others is for this computer alone.
        if platform.startswith(("manylinux", "musllinux", "linux_armv")):
            found.append(check_library(library, platform))
    return ", ".join(found)


def main(argv: list[str] | None = None) -> int:
    """Check every wheel, and say what was found."""
    parser = argparse.ArgumentParser(description="Look inside wheels: is in them what they say?")
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL")
    parser.add_argument("--native", action="store_true", help="each must hold the native engine")
    args = parser.parse_args(argv)
    code = 0
    for path in args.wheels:
        try:
            print(f"{path.name}: {check(path, args.native)}", flush=True)
        except Refused as problem:
            print(f"{path.name}: {problem}", file=sys.stderr, flush=True)
            code = 1
    return code


if __name__ == "__main__":
    raise SystemExit(main())
