"""What training and predicting cost on a Cortex-M3: in bytecode, in viper, and in C.

    python -m benchmarks.cortex             # 800 rows of 6 bytes, 5 trees of depth 5
    python -m benchmarks.cortex 5000 2      # so many rows and trees
    python -m benchmarks.cortex --single    # how often single precision grows the same forest

QEMU counts the instructions of an emulated board (`make runtimes` builds it), so the figures are the
same in every run. One prediction is a call of `predict_into` with a bytearray, loop not counted. How
much heap training takes in all: `python -m benchmarks.heap --cortex native`, or `viper`.

`--single` trains 200 forests in 32-bit MicroPython, once with the kernel compiled for double and once
for float, and counts how many differ, by criterion.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "firmware"))
import build
from cortex import FIRMWARE, PER_MICROSECOND, QEMU, run_cortex
from runtimes import install, output, run_micropython

DATA = """
def task(n, data):
    rng = Rng(data)
    X = [bytearray(n) for f in range(6)]
    y = bytearray(n)
    for i in range(n):
        for f in range(6):
            X[f][i] = rng.below(256)
        y[i] = (X[0][i] > 100) + (X[1][i] + X[2][i] > 250)
    return X, y
"""
PROGRAM = f"""
import gc, sys, time
from edgeforest.core_pure import ENGINE, Rng, Training
{DATA}
if sys.argv[1] == "viper":
    from edgeforest_viper import ENGINE
gc.collect()
loaded = gc.mem_alloc()
X, y = task(int(sys.argv[2]), int(sys.argv[4]))
gc.collect()
start = time.ticks_us()
training = Training(X, y, by_column=True, n_trees=int(sys.argv[3]), max_depth=5, engine=ENGINE)
for _ in training:
    pass
f = training.forest()
trained = time.ticks_us() - start
row, out = bytearray([x[7] for x in X]), [0] * 3
def predict(times):
    start = time.ticks_us()
    for _ in range(times):
        f.predict_into(row, out)
    return time.ticks_us() - start
right = 0
for i in range(len(y)):
    for j in range(6):
        row[j] = X[j][i]
    right += y[i] == f.predict_into(row, out)
print(loaded, trained, (predict(100) - predict(0)) / 100, right / len(y))
f.write(sys.stdout)
"""
SINGLE = f"""
import edgeforest_kernel
from edgeforest.core_pure import Rng, Training
{DATA}
for data in range(200):
    rng = Rng(1000 + data)
    X, y = task(200 + rng.below(1800), data)
    for i in range(len(y)):  # labels that cannot be learned: splits that are almost equally good
        if rng.below(10) < data % 4:
            y[i] = rng.below(3)
    options = {{"criterion": "mse"}} if data % 2 else {{}}
    if data % 3 == 0:
        options["kind"] = "extra-trees"
    t = Training(X, y, by_column=True, n_trees=5, max_depth=6, seed=data, **options)
    for _ in t:
        pass
    f = t.forest()
    print(t.engine.name, f.to_json())
"""


@dataclass
class Counted:
    """What a training and a prediction cost."""

    trained: float  # instructions
    predicted: float
    size: int  # bytes of the code that was added
    loaded: float  # bytes of heap after the import
    right: float
    model: str


def present() -> bool:
    """Whether the emulated board is here."""
    return FIRMWARE.is_file() and QEMU.is_file()


def count(kind: str, rows: int, trees: int) -> Counted:
    """Train and predict on the board."""
    with tempfile.TemporaryDirectory(prefix="cortex-") as scratch:
        folder = install(Path(scratch, "board"))
        size = 0
        if kind == "viper":
            path = folder / "edgeforest_viper.mpy"
            build.compile_file(build.VIPER, path, "armv7m")
            size = path.stat().st_size
        elif kind == "C":
            build.build_kernel("armv7m", folder / build.KERNEL)
            size = (folder / build.KERNEL).stat().st_size

        done = run_cortex(PROGRAM, folder, "1m", [kind, str(rows), str(trees), "1"])
        if done.returncode:
            raise SystemExit(done.stderr)
        said, model = done.stdout.splitlines()
        loaded, trained, predicted, right = map(float, said.split())
    each = PER_MICROSECOND
    return Counted(trained * each, predicted * each, size, loaded, right, model)


def measure(kind: str, rows: int, trees: int) -> tuple[str, str]:
    """The line of a table, and the forest."""
    one = count(kind, rows, trees)
    line = (
        f"| {kind} | {one.trained / 1e6:.1f} M | {one.predicted:,.0f} | "
        f"{one.size:,} | {one.loaded / 1024:.0f} kB | {one.right:.3f} |"
    )
    return line, one.model


def compare_precisions() -> None:
    """Count the forests of 200 that differ between single and double precision."""
    found = {}
    for real in ("double", "float"):
        with tempfile.TemporaryDirectory(prefix="single-") as scratch:
            folder = install(Path(scratch, "board"))
            build.build_kernel("x86", folder / build.KERNEL, real=real)
            found[real] = output(run_micropython(SINGLE, folder, "2m")).splitlines()
    same = {"gini": [0, 0], "mse": [0, 0]}
    for double, single in zip(found["double"], found["float"], strict=True):
        engine, text = double.split(" ", 1)
        assert engine == "natmod"
        count = same[json.loads(text)["criterion"]]
        count[1] += 1
        parts = [json.loads(line.split(" ", 1)[1]) for line in (double, single)]
        keys = ("roots", "feature", "threshold", "leaf", "votes")
        count[0] += all(parts[0][key] == parts[1][key] for key in keys)
    for criterion, (equal, all_of_them) in same.items():
        print(f"{criterion}: {equal} of {all_of_them} forests are the same in single precision")


def main() -> None:
    """Print the table, or the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=int, nargs="?", default=800)
    parser.add_argument("trees", type=int, nargs="?", default=5)
    parser.add_argument("--single", action="store_true", help="compare precisions instead")
    args = parser.parse_args()
    if args.single:
        compare_precisions()
        return
    rows, trees = args.rows, args.trees
    print(f"{rows:,} rows of 6 bytes, {trees} trees of depth 5, on a Cortex-M3:\n")
    print("| | training | one prediction | bytes | heap after import | accuracy |")
    print("|---|---|---|---|---|---|")
    models = []
    for kind in ("bytecode", "viper", "C"):
        line, model = measure(kind, rows, trees)
        print(line, flush=True)
        models.append(model)
    print("\nthe same forest:", models == models[:1] * 3)


if __name__ == "__main__":
    main()
