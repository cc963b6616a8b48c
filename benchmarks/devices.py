"""Instructions for training and for one prediction on the processors of small computers and boards.

    python tools/get_runtimes.py zig                # once: a C compiler for all of them
    python tools/get_runtimes.py qemu-user          # and an emulator
    python -m benchmarks.devices [--quick] [--only aarch64] [--task bytes]

The kernel in C is compiled for each processor, as in the wheels, and run with the same task. Valgrind's
callgrind counts its instructions on x86-64, QEMU's log of executed blocks those on Arm
(count_blocks.c), and QEMU's own clock those of a Cortex-M3 (`python -m benchmarks.cortex`). Counts are the same
in every run, and all processors have to grow the same forest.

What follows from them is an **estimate**: seconds are instructions / (clock x instructions per cycle), and
joules are seconds x watts. Clock and watts are published for each board (BOARDS says where); how many
instructions a core finishes per cycle is an assumption. Nothing here was measured on a board.

`--quick` counts the small task alone, in under a minute. What is not here is named, with the way to get it.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks import ROOT, command
from benchmarks.common import about
from edgeforest import train_steps
from edgeforest.budget import Rng
from edgeforest.cli import demo
from edgeforest.codes import vote_scale

sys.path.insert(0, str(ROOT / "tools"))
from make_wheels import PI_2, PI_ZERO, ZIG

QEMU = ROOT / ".runtimes" / "qemu-user"
KERNEL = ROOT / "firmware" / "kernel"


@dataclass(frozen=True)
class Task:
    """Rows to train on, and the forest that is wanted."""

    about: str
    X: np.ndarray  # uint8 or float32
    y: np.ndarray  # uint8
    trees: int
    depth: int

    def file(self) -> bytes:
        """What device_task.c reads; how many rows and features a tree draws is what the engines do."""
        training = train_steps(self.X, self.y, n_trees=self.trees, max_depth=self.depth)
        numbers = [*self.X.shape, int(self.y.max()) + 1, self.trees, self.depth]
        numbers += [training.max_features, training.sample_size, vote_scale(self.trees)]
        head = struct.pack("<9I", *numbers, self.X.dtype.kind == "f")
        return head + self.X.tobytes() + self.y.tobytes()


def bytes_task(rows: int = 800) -> Task:
    """The task of benchmarks/cortex.py: six random bytes a row, of which three decide."""
    rng = Rng(1)
    X, y = np.zeros((rows, 6), np.uint8), np.zeros(rows, np.uint8)
    for i in range(rows):
        X[i] = [rng.below(256) for _ in range(6)]
        y[i] = int(X[i, 0] > 100) + int(int(X[i, 1]) + int(X[i, 2]) > 250)
    return Task(f"{rows:,} x 6 bytes, 5 trees of depth 5", X, y, 5, 5)


def log_task(rows: int = 10_000) -> Task:
    """The log of `edgeforest demo`, without rows that have gaps: six sensors, what the people do."""
    lines = [line for line in demo.sample_log(rows * 5 // 4) if "" not in line][:rows]
    windows = sorted({line[6] for line in lines})
    X = np.array([[*map(float, line[1:6]), windows.index(line[6])] for line in lines], np.float32)
    y = np.unique([line[7] for line in lines], return_inverse=True)[1].astype(np.uint8)
    return Task(f"a log of {len(X):,} x 6 numbers, 20 trees of depth 8", X, y, 20, 8)


TASKS = {"bytes": bytes_task, "log": log_task}


@dataclass(frozen=True)
class Processor:
    """What the kernel is compiled for, and what runs it."""

    name: str
    triple: str
    headers: str  # of the C library whose declarations are read
    compiled_for: str = ""  # by default the oldest one of the architecture
    emulator: str = ""  # of QEMU; without one, callgrind
    model: str = ""


PROCESSORS = {
    "x86-64": Processor("x86-64", "x86_64-freestanding-none", "x86_64-linux-musl"),
    "aarch64": Processor(
        "aarch64",
        "aarch64-freestanding-none",
        "aarch64-linux-musl",
        "",
        "qemu-aarch64",
        "cortex-a53",
    ),
    "armv7": Processor(
        "ARMv7", "arm-freestanding-eabihf", "arm-linux-musl", PI_2, "qemu-arm", "cortex-a7"
    ),
    "armv6": Processor(
        "ARMv6", "arm-freestanding-eabihf", "arm-linux-musl", PI_ZERO, "qemu-arm", "arm1176"
    ),
}
CORTEX = "cortex-m3"


@dataclass(frozen=True)
class Board:
    """A board with what is published about it, and an assumption: its instructions per cycle."""

    name: str
    core: str
    clock: float  # Hz
    per_cycle: float  # instructions, of one core; see `assumption`
    issues: int  # instructions per cycle at most
    watts: float
    counts: str  # which processor's


# Clocks: the product pages. Watts of the Pis: 5 V times the "typical bare-board active current
# consumption" of the Raspberry Pi documentation (power supply): 100, 400, 600 and 800 mA. The STM32L100:
# its data sheet (DocID024295, table 15), running from flash at 32 MHz: 9.6 mA typical, at 3 V.
BOARDS = (
    Board("Raspberry Pi Zero", "ARM1176, 1 GHz", 1.0e9, 0.5, 1, 0.5, "armv6"),
    Board("Raspberry Pi 3 B", "Cortex-A53, 1.2 GHz", 1.2e9, 0.8, 2, 2.0, "aarch64"),
    Board("Raspberry Pi 4 B", "Cortex-A72, 1.5 GHz", 1.5e9, 1.2, 3, 3.0, "aarch64"),
    Board("Raspberry Pi 5", "Cortex-A76, 2.4 GHz", 2.4e9, 1.6, 4, 4.0, "aarch64"),
    Board("STM32L100", "Cortex-M3, 32 MHz", 32e6, 0.7, 1, 0.0288, CORTEX),
)


@dataclass
class Count:
    """Instructions of each stage, and the forest."""

    coding: float
    training: float
    prediction: float  # of one row
    insertions: int = 0
    right: float = 0.0
    forest: int = 0  # a checksum


class AbsentError(Exception):
    """Something that counting needs is not here; the text says how to get it."""


def program(name: str) -> str:
    """The path of an installed program."""
    found = shutil.which(name)
    if not found:
        raise AbsentError(f"{name} is not here: apt install {name}")
    return found


def compile_task(processor: Processor, folder: Path) -> Path:
    """The kernel and device_task.c for a processor, without a C library."""
    zig = ZIG / "ziglang" / "zig"
    if not zig.is_file():
        raise AbsentError("there is no Zig here: python tools/get_runtimes.py zig")
    out = folder / f"task-{processor.name}"
    include = ZIG / "ziglang" / "lib" / "libc" / "include"
    chosen = [f"-mcpu={processor.compiled_for}"] if processor.compiled_for else []
    flags = ["-O3", "-std=gnu99", "-ffp-contract=off", "-nostdlib", "-rtlib=compiler-rt"]
    places = [f"-isystem{include / name}" for name in (processor.headers, "generic-musl")]
    compiler = [zig, "cc", "-target", processor.triple]
    sources = [ROOT / "benchmarks" / "device_task.c", *sorted(KERNEL.glob("*.c"))]
    done = subprocess.run(
        [*compiler, *chosen, *flags, *places, f"-I{KERNEL}", *sources, "-o", out],
        env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(ZIG / "cache")},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{processor.name} does not compile:\n{done.stderr[:4000]}")
    return out


def by_callgrind(binary: Path, task: Path) -> tuple[list[int], str]:
    """Instructions between the marks, and what the program printed."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise AbsentError(
            f"callgrind counts this computer's instructions, and it is {platform.machine()}"
        )
    folder = Path(tempfile.mkdtemp(dir=task.parent))
    tool = [program("valgrind"), "--tool=callgrind", "--dump-before=mark"]
    with task.open("rb") as stream:
        done = subprocess.run(
            [*tool, f"--callgrind-out-file={folder / 'out'}", binary],
            stdin=stream,
            capture_output=True,
            text=True,
            check=True,
        )
    parts = [
        int(re.findall(r"^totals: (\d+)", file.read_text(), re.M)[0]) for file in dumps(folder)
    ]
    return parts[1:4], done.stdout


def dumps(folder: Path) -> list[Path]:
    """The files that callgrind has written, first to last: out.1, out.2 and so on."""
    return sorted(folder.glob("out.*"), key=lambda path: int(path.suffix[1:]))


def by_qemu(processor: Processor, binary: Path, task: Path) -> tuple[list[int], str]:
    """The same with QEMU: its log of executed blocks goes to a program that adds up their lengths."""
    emulator = QEMU / processor.emulator
    if not emulator.is_file():
        raise AbsentError("there is no QEMU here: python tools/get_runtimes.py qemu-user")
    counter = task.parent / "count_blocks"
    source = ROOT / "benchmarks" / "count_blocks.c"
    subprocess.run([program("gcc"), "-O2", source, "-o", counter], check=True)
    log = ["-d", "in_asm,exec,nochain"]
    with task.open("rb") as stream:
        run = subprocess.Popen(
            [emulator, "-cpu", processor.model, *log, binary],
            stdin=stream,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            sums = subprocess.run(
                [counter], stdin=run.stderr, capture_output=True, text=True, check=True
            )
            said = run.communicate()[0].decode()
        finally:
            run.kill()
            run.wait()
    if run.returncode:
        raise RuntimeError(f"{processor.name} ended with exit code {run.returncode}")
    marks = [int(line) for line in sums.stdout.split()]
    return [b - a for a, b in pairwise(marks[:4])], said


def count(processor: Processor, task: Task, folder: Path) -> Count:
    """The instructions of a task on a processor."""
    binary = compile_task(processor, folder)
    file = folder / "task"
    file.write_bytes(task.file())
    run = partial(by_qemu, processor) if processor.emulator else by_callgrind
    (coding, training, predicting), said = run(binary, file)
    insertions, _, some, right, checked, forest = map(int, said.split())
    return Count(coding, training, predicting / some, insertions, right / checked, forest)


def count_cortex() -> Count:
    """The small task on a Cortex-M3: the kernel as a native module of MicroPython."""
    try:
        from benchmarks import cortex
    except ImportError as problem:  # tests/runtimes.py needs pytest
        raise AbsentError(f"{problem}: pip install '.[test]'") from None
    if not cortex.present():
        raise AbsentError("there is no emulated board here: make runtimes")
    found = cortex.count("C", 800, 5)
    return Count(0, found.trained, found.predicted, right=found.right)


# ---- What it prints ---------------------------------------------------------------------------


def show_counts(task: Task, counts: dict[str, Count]) -> None:
    """The table of one task."""
    print(f"\n### {task.about}\n")
    print(
        "| processor | coding | training | a prediction | an insertion | right, of training rows |"
    )
    print("|---|---|---|---|---|---|")
    for name, one in counts.items():
        each = f"{one.training / one.insertions:.0f}" if one.insertions else ""
        print(
            f"| {name} | {one.coding / 1e6:.2f} M | {one.training / 1e6:.2f} M "
            f"| {one.prediction:,.0f} | {each} | {one.right:.3f} |"
        )
    forests = {one.forest for one in counts.values() if one.forest}
    insertions = next((f"{c.insertions:,}" for c in counts.values() if c.insertions), "?")
    print(f"\n{insertions} insertions; the same forest everywhere: {len(forests) == 1}")


def seconds(board: Board, instructions: float) -> float:
    """The time that a board takes, by its clock and the assumption."""
    return instructions / (board.clock * board.per_cycle)


def short(value: float, unit: str) -> str:
    """A value with its unit, in thousandths or millionths where that is shorter.

    >>> short(0.0123, "s"), short(4.2e-6, "J"), short(3.0, "s")
    ('12 ms', '4.2 µJ', '3.0 s')
    """
    units = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"))
    size, name = next((pair for pair in units if value >= pair[0]), units[-1])
    scaled = value / size
    return f"{scaled:.0f} {name}{unit}" if scaled >= 10 else f"{scaled:.1f} {name}{unit}"


def show_estimates(task: Task, counts: dict[str, Count]) -> None:
    """Seconds, joules and what a minute is enough for, by board."""
    print(f"\n### Estimates for {task.about}\n")
    print(
        "| board | core | instructions per cycle, assumed | a forest | energy | forests a minute "
        "| insertions a minute | a prediction | energy |"
    )
    print("|---" * 9 + "|")
    for board in BOARDS:
        one = counts.get(board.counts)
        if one is None:
            continue
        took = seconds(board, one.coding + one.training)
        asked = seconds(board, one.prediction)
        each = 60 / took
        made = f"{one.insertions * each / 1e6:,.0f} M" if one.insertions else ""
        print(
            f"| {board.name} | {board.core} | {board.per_cycle} of {board.issues} "
            f"| {short(took, 's')} | {short(took * board.watts, 'J')} | {each:,.0f} | {made} "
            f"| {short(asked, 's')} | {short(asked * board.watts, 'J')} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the small task alone")
    names = [*PROCESSORS, CORTEX]
    parser.add_argument("--only", action="append", choices=names, help="this processor alone")
    parser.add_argument("--task", choices=list(TASKS), help="this task alone")
    args = parser.parse_args()
    print(f"`{command()}`; {about()}")
    for name in [args.task] if args.task else ["bytes"] if args.quick else list(TASKS):
        task, counts = TASKS[name](), {}
        for processor in args.only or names:
            if processor == CORTEX and name != "bytes":
                continue
            try:
                if processor == CORTEX:
                    counts[processor] = count_cortex()
                    continue
                with tempfile.TemporaryDirectory(prefix="devices-") as scratch:
                    counts[processor] = count(PROCESSORS[processor], task, Path(scratch))
            except AbsentError as problem:
                print(f"{processor} is left out: {problem}", file=sys.stderr)
        if counts:
            show_counts(task, counts)
            show_estimates(task, counts)


if __name__ == "__main__":
    main()
