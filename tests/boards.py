"""The programs whose heap on a board is promised: tests run them, `benchmarks/heap.py` measures them.

Each takes the seeds of its data and of its forest as its last two arguments, so that one run can be
repeated exactly and many runs can differ.
"""

from __future__ import annotations

import importlib.util
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
from runtimes import ROOT

import edgeforest

FIRMWARE = ROOT / "firmware"
EXAMPLES = FIRMWARE / "examples"
GESTURE = EXAMPLES / "gesture.py"

# Rows of 6 bytes, by column: the buffers of a sensor, used where they are.
TRAIN = """
import gc
import sys
from edgeforest import core_pure as ef

def free(when):
    gc.collect()
    if hasattr(gc, "mem_free"):
        print("free", when, gc.mem_free())

free("after import")
n, criterion, data, seed = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rng = ef.Rng(data)
X = [bytearray(n) for f in range(6)]
y = bytearray(n)
for i in range(n):
    for f in range(6):
        X[f][i] = rng.below(256)
    y[i] = (X[0][i] > 100) + (X[1][i] + X[2][i] > 250)
free("with data")
t = ef.Training(X, y, by_column=True, criterion=criterion, n_trees=5, max_depth=5, seed=seed)
for _ in t:
    pass
f = t.forest()
free("with forest")
out = [0] * f.n_votes
row = bytearray(6)
right = 0
for i in range(n):
    for j in range(6):
        row[j] = X[j][i]
    best = f.predict_into(row, out)
    right += y[i] == (f.classes[best] if f.classes else int(f.value(out[0]) + 0.5))
print(right)
f.write(sys.stdout)
"""

# A model that was trained elsewhere, and rows as a sensor gives them.
PREDICT = """
from edgeforest.loading import load
f = load("model.json")
out = [0] * f.n_votes
row = bytearray(6)
for i in range(20):
    for j in range(6):
        row[j] = (i * 37 + j * 101) % 256
    print(f.predict_into(row, out), f.predict(row))
"""

# A forest that learns row by row, is saved, and goes on after a power cut.
ONLINE = """
import gc
import sys
from edgeforest.budget import Budget, Rng
gc.collect()
from edgeforest import storage  # which `save` needs: before the heap fills up
gc.collect()
from edgeforest.online import OnlineForest
gc.collect()
criterion, data, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = Rng(data)
learner = OnlineForest(["a", "b", "c"], criterion=criterion, n_trees=3, window=60, seed=seed,
                       max_leaf_nodes=16, max_features=2, budget=Budget(bytes=20000))
for i in range(500):
    row = [rng.below(100), rng.below(100), rng.below(100)]
    label = int(row[0] > 50) + int(row[1] > 30)
    learner.update(row, label * 1.5 if criterion == "mse" else label)
    gc.collect()  # so that what lives on lies close together
learner.forest().write(sys.stdout)
print()
gc.collect()
learner.save("live.json")
learner = None  # the power fails
gc.collect()
OnlineForest.load("live.json").forest().write(sys.stdout)
"""

# Rows from a file that is larger than the heap, a checkpoint after every tree, a stop on the way.
STORAGE = """
import gc
from edgeforest import core_pure
gc.collect()
import sys
from edgeforest import storage
kind, stop, data, seed = sys.argv[1:]
log = storage.Npy(kind + ".npy")
rows = storage.draw(storage.Rng(int(data)), 800, log.shape[0])
X = log.columns(rows)
y = X.pop()
if kind != "bytes":
    y = [int(v) for v in y]
rows = None
training = storage.Resumable(X, y, "model.json", resume=True, by_column=True, n_trees=5,
                             max_depth=5, seed=int(seed))
for step in training:
    if len(step.grown) == int(stop):
        break
else:
    with open("model.json") as stream:
        while sys.stdout.write(stream.read(100)):
            pass
"""


def promised(pattern: str, *documents: str) -> int:
    """The heap in kB that documents promise: all of them the same."""
    found = set()
    for name in documents or ("firmware/README.md",):
        said = re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"))
        assert said, (name, pattern)
        found |= {int(number) for number in said}
    (heap,) = found
    return heap


def write_model(folder: Path, seed: int) -> None:
    """`model.json`: 5 trees of depth 5 on rows of 6 bytes, some 3 kB."""
    chance = random.Random(seed)
    rows = [[chance.randrange(256) for _ in range(6)] for _ in range(800)]
    labels = [int(a > 100) + int(b + c > 250) for a, b, c, *_ in rows]
    edgeforest.train(rows, labels, n_trees=5, max_depth=5, seed=seed).save(folder / "model.json")


def write_log(folder: Path, seed: int) -> None:
    """`bytes.npy`: 20,000 rows of 6 bytes and a label."""
    table = np.random.default_rng(seed).integers(0, 256, (20_000, 7))
    table[:, 6] = (table[:, 0] > 100) * 1 + (table[:, 1] + table[:, 2] > 250)
    np.save(folder / "bytes.npy", table.astype("u1"))


def example(name: str) -> ModuleType:
    """A program of `firmware/examples/` as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_room(folder: Path, seed: int) -> None:
    """`room.py` of the examples, that simulates another room for each seed."""
    text = (EXAMPLES / "room.py").read_text(encoding="utf-8")
    (folder / "room.py").write_text(text.replace("seed=1", f"seed={seed}"), encoding="utf-8")


def write_room_model(folder: Path, seed: int) -> None:
    """`room.py`, and a model of it like `room.json`, from 500 readings."""
    shutil.copy(EXAMPLES / "room.py", folder)
    sensors = example("room").Simulated(seed)
    rows, labels = [], []
    for _ in range(500):
        row = bytearray(3)
        sensors.read(row)
        rows.append(row)
        labels.append(sensors.somebody())
    options = {"names": ["light", "temperature", "humidity"], "n_trees": 5, "max_depth": 3}
    edgeforest.train(rows, labels, seed=seed, **options).save(folder / "room.json")


@dataclass(frozen=True)
class Task:
    """What is copied to a board, what runs there, with which arguments.

    With `stops` the program runs once for each of them, its second argument, as after power cuts.
    """

    program: str
    modules: tuple[str, ...] = ()  # of ours, if not all of them
    arguments: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    prepare: Callable[[Path, int], None] | None = None

    def runs(self, data: int, seed: int) -> list[list[str]]:
        """The arguments of each run, one after the other."""
        seeds = [str(data), str(seed)]
        if not self.stops:
            return [[*self.arguments, *seeds]]
        return [[*self.arguments, stop, *seeds] for stop in self.stops]


def training(
    rows: int, criterion: str = "gini", features: int = 6, trees: int = 5, depth: int = 5
) -> Task:
    """By default 5 trees of depth 5 on so many rows of 6 bytes."""
    program = TRAIN.replace("range(6)", f"range({features})")
    program = program.replace("bytearray(6)", f"bytearray({features})")
    program = program.replace("n_trees=5, max_depth=5", f"n_trees={trees}, max_depth={depth}")
    return Task(program, arguments=(str(rows), criterion))


# Before a program, where our files are in a ROMFS: its image lies outside of the heap, as in flash.
BOOT = """
import ffi, os, sys, uctypes, vfs
n = os.stat("rom.img")[6]
rom = uctypes.bytearray_at(ffi.open("libc.so.6").func("p", "malloc", "I")(n), n)
with open("rom.img", "rb") as file:
    file.readinto(rom)
vfs.mount(vfs.VfsRom(rom), "/rom")
sys.path.append("/rom")
"""
BOOTING = "exec(open('boot.py').read(), {})\n"

PREDICTING = ("forest", "loading")
PREDICTS = Task(PREDICT, PREDICTING, prepare=write_model)
TASKS = {
    "predict with a model of 3 kB": PREDICTS,
    "gesture example": Task(GESTURE.read_text(encoding="utf-8")),
    "predict_only example": Task(
        (EXAMPLES / "predict_only.py").read_text(encoding="utf-8"),
        PREDICTING,
        prepare=write_room_model,
    ),
    "log_sd_train example": Task(
        (EXAMPLES / "log_sd_train.py").read_text(encoding="utf-8"), prepare=write_room
    ),
    "machine_watch example": Task((EXAMPLES / "machine_watch.py").read_text(encoding="utf-8")),
    "train on 800 rows": training(800),
    "regression on 800 rows": training(800, "mse"),
    "2,000 rows of 8, depth 6": training(2000, features=8, depth=6),
    "8,000 rows of 10, 10 trees of depth 8": training(8000, features=10, trees=10, depth=8),
    "train from a file, stop, go on": Task(
        STORAGE, (), ("bytes",), ("1", "4", "9", "9"), write_log
    ),
    "learn row by row": Task(ONLINE, (), ("gini",)),
    "learn row by row, regression": Task(ONLINE, (), ("mse",)),
}


def fits() -> list[tuple[int, bool, str, Task]]:
    """What fits, as firmware/README.md says: heap in kB, whether from a ROMFS, words and task."""
    text = (FIRMWARE / "README.md").read_text(encoding="utf-8")
    found = []
    for number, unit, *cells in re.findall(
        r"^\| (\d+) ([kM]B) \| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE
    ):
        for rom, cell in enumerate(cells):
            shape = re.fullmatch(r"([\d,]+) x (\d+), (\d+) x (\d+)", cell)
            if shape:
                rows, features, trees, depth = (int(v.replace(",", "")) for v in shape.groups())
                task = training(rows, features=features, trees=trees, depth=depth)
            elif cell.startswith("predict"):
                task = PREDICTS
            else:
                continue
            found.append((int(number) * (1024 if unit == "MB" else 1), bool(rom), cell, task))
    return found
