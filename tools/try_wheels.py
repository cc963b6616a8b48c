"""Try the wheels of dist/ as on the computers they are for: do they load, and grow the same forests?

    python tools/try_wheels.py [--get] [--cases 40] [dist/*.whl]

Each wheel is unpacked beside a Python for its processor and C library, which QEMU runs: Debian's for
glibc; for musl one that is compiled here, because no registry has it (`tools/musl_runtimes.py`). There
`edgeforest engines` has to say native, and `tools/model_checksums.py` has to print what plain Python
prints here. `--get` fetches the Pythons that are missing, or else the table says which wheels were not
tried. Exit codes: 0 all is well (with `--get`: and all were tried), 1 something is not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from fetching import RUNTIMES

ROOT = Path(__file__).resolve().parent.parent
CASES = 40
HEAD = "| wheel | kB | tried with | engine | equal checksums |\n|---|---|---|---|---|"
# What runs a wheel: the Python for its tag. ARMv6 code runs in a Python for ARMv7, whose processor knows
# it; that it is nothing newer, `check_wheel.py` finds out.
PYTHONS = {
    "manylinux_2_28_aarch64": "python-arm64",
    "manylinux_2_28_armv7l": "python-armhf",
    "linux_armv6l": "python-armhf",
    "musllinux_1_2_x86_64": "python-musl-x86_64",
    "musllinux_1_2_aarch64": "python-musl-aarch64",
    "musllinux_1_2_armv7l": "python-musl-armv7l",
    "musllinux_1_2_armv6l": "python-musl-armv7l",
}
HERE = "manylinux_2_28_x86_64"


def run(python: list[str], folder: Path, *arguments: str) -> list[str]:
    """The lines that a Python prints with the package in a folder; errors are lines, too."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [*python, *arguments],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def python_for(tag: str) -> tuple[list[str], str]:
    """The command of the Python that tries a wheel, and its name; an empty command if there is none."""
    if tag == HERE:
        return [sys.executable], "this computer"
    name = PYTHONS.get(tag, "")
    program = RUNTIMES / name / "python"
    if not name or not program.is_file():
        advice = (
            f"python tools/get_runtimes.py {name}" if name else "there is no Python for it here"
        )
        return [], f"not tried: {advice}"
    return [str(program)], name


def get_pythons(wheels: list[Path]) -> None:
    """Fetch or compile the Pythons for these wheels; each says what it does."""
    wanted = {PYTHONS.get(wheel.stem.split("-")[-1], "") for wheel in wheels} - {""}
    musl = any("musl" in name for name in wanted)
    for name in [*(["zig"] if musl else []), "qemu-user", *sorted(wanted)]:
        script = str(ROOT / "tools" / "get_runtimes.py")
        subprocess.run([sys.executable, script, name], check=False, stdout=sys.stderr)


def try_wheel(wheel: Path, expected: list[str]) -> tuple[str, str, int, int]:
    """What a wheel was tried with, its engine, and how many checksums are equal, of how many.

    A Python without NumPy, as those for musl are, cannot prune forests: these cases are left out.
    """
    python, words = python_for(wheel.stem.split("-")[-1])
    if not python:
        return words, "", 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with zipfile.ZipFile(wheel) as files:
            files.extractall(folder)
        lines = run(python, folder, "-m", "edgeforest", "engines")
        used = next((line.split()[1].strip(",") for line in lines if line.startswith("used")), "")
        if not used:
            print("\n".join(lines), file=sys.stderr)
        script = [str(ROOT / "tools" / "model_checksums.py"), "--engine", "native"]
        found = run(python, folder, *script, "--cases", str(len(expected)))
        tried = len(expected) - sum(line.endswith("needs NumPy") for line in found)
        if len(found) != len(expected):
            print("\n".join(found[-3:]), file=sys.stderr)
        return words, used, sum(a == b for a, b in zip(found, expected, strict=False)), tried


def main(argv: list[str] | None = None) -> int:
    """Try all wheels, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheels", nargs="*", type=Path, help="default: all of dist/")
    parser.add_argument("--cases", type=int, default=CASES, help=f"trainings (default {CASES})")
    parser.add_argument("--get", action="store_true", help="fetch Pythons; a wheel not tried fails")
    args = parser.parse_args(argv)
    wheels = args.wheels or sorted((ROOT / "dist").glob("*-abi3-*linux*.whl"))
    if args.get:
        get_pythons(wheels)
    script = [str(ROOT / "tools" / "model_checksums.py"), "--engine", "pure"]
    expected = run([sys.executable], ROOT, *script, "--cases", str(args.cases))
    if len(expected) != args.cases:
        print("\n".join(expected), file=sys.stderr)
        return 1
    print(HEAD, flush=True)
    code = 0 if wheels else 1
    for wheel in wheels:
        words, used, equal, of = try_wheel(wheel, expected)
        size = f"{wheel.stat().st_size / 1000:.0f}"
        tag = wheel.stem.split("-")[-1]
        tried = not words.startswith("not tried")
        result = f"{equal} of {of}" if tried else ""
        print(f"| {tag} | {size} | {words} | {used} | {result} |", flush=True)
        if args.get if not tried else (used != "native" or equal != of):
            code = 1
    return code


if __name__ == "__main__":
    raise SystemExit(main())
