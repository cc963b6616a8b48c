"""Look inside wheels before they are released: is in them what their names say?

A wheel for a platform holds the native engine and is tagged cp311-abi3; a wheel for everywhere is
tagged py3-none-any and holds none. Both hold the whole package with its types, and neither tests
nor C sources. `--native` refuses wheels without the native engine too, since a build without a
compiler makes one of these.

    python tools/check_wheel.py [--native] dist/*.whl

Exit codes: 0 all is well, 1 something is not (a sentence on stderr says what).
"""

import argparse
import sys
import zipfile
from fnmatch import fnmatch
from pathlib import Path

ENGINE = ("edgeforest/engines/_kernel*.so", "edgeforest/engines/_kernel*.pyd")
UNWANTED = ("*.c", "*.h", "*.o", "*.pyc", "*test*.py", "firmware/*", "tools/*", "setup.py")


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


def check(path: Path, native: bool) -> str:
    """What a wheel is, in words; `Refused` if it is not what its name says."""
    if not path.exists():
        raise Refused("there is no such file")
    try:
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            metadata = next((n for n in names if n.endswith(".dist-info/WHEEL")), None)
            said = wheel.read(metadata).decode() if metadata else ""
    except zipfile.BadZipFile:
        raise Refused("it is not a wheel, or it is cut short") from None
    tag = "-".join(path.stem.split("-")[-3:])
    inside = {line.removeprefix("Tag: ") for line in said.splitlines() if line.startswith("Tag: ")}
    if tag not in inside:
        raise Refused(f"its name says {tag}, but inside it says {', '.join(inside) or 'nothing'}")
    engines = [name for name in names if any(fnmatch(name, pattern) for pattern in ENGINE)]
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
    return f"{tag}, {len(names)} files, {engines[0] if engines else 'no native engine'}"


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
