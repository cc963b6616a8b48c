"""The core in real MicroPython: the same forests as in CPython, on a board's heap."""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from boards import (
    BOOT,
    BOOTING,
    FIRMWARE,
    GESTURE,
    PREDICT,
    TRAIN,
    Task,
    fits,
    promised,
    write_model,
)
from cortex import make_romfs
from runtimes import (
    ROOT,
    board_files,
    compile_mpy,
    install,
    needs_board_heap,
    needs_micropython,
    needs_mpy_cross,
    needs_wasm,
    output,
    run,
    run_cpython,
    run_micropython,
    run_wasm,
)

# What files for boards may import: it has to be there on every board.
ALLOWED_IMPORTS = {
    *(
        "array",
        "binascii",
        "gc",
        "json",
        "math",
        "micropython",
        "os",
        "struct",
        "time",
        "edgeforest",
        "edgeforest_kernel",  # guarded: the native module
    ),
}
# Bytes of the compiled files that a board keeps in its heap, by what it does.
PREDICTING_BYTES = 6_600
TRAINING_BYTES = 23_000


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A folder as on a board: our compiled files and nothing else (a .py would win over them)."""
    return install(tmp_path / "board")


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A folder with the sources of the same files, for CPython."""
    return install(tmp_path / "host", compiled=False)


def without_heap(text: str) -> list[str]:
    """The lines of an output that do not tell how much of the heap is free."""
    return [line for line in text.splitlines() if not line.startswith("free ")]


# ---- A board's heap

SEEDS = ["1", "3"]  # of the data and of the forest


def promised_for_training() -> int:
    return promised(r"(\d+) kB of heap (?:are enough )?to train on 800\s+rows", "README.md")


@needs_mpy_cross
@needs_board_heap
@pytest.mark.parametrize("criterion", ["gini", "mse"])
def test_800_rows_train_in_the_heap_that_is_promised(
    board: Path, host: Path, criterion: str, figure: Callable[[str], None]
) -> None:
    heap = promised_for_training()
    if criterion == "mse":
        heap = promised(r"regression on 800 rows takes (\d+) kB of heap")
    arguments = ["800", criterion, *SEEDS]
    text = output(run_micropython(TRAIN, board, f"{heap}k", arguments))
    right, model = without_heap(text)
    figure(f"{right} of 800 rows right; " + ", ".join(re.findall("^free .*", text, re.MULTILINE)))
    assert int(right) > 0.9 * 800
    assert len(json.loads(model)["features"]) == 6
    assert [right, model] == output(run_cpython(TRAIN, host, arguments)).splitlines()


@needs_mpy_cross
@needs_board_heap
def test_a_heap_that_is_too_small_ends_in_a_memory_error(
    board: Path, host: Path, figure: Callable[[str], None]
) -> None:
    arguments = ["800", "gini", *SEEDS]
    expected = output(run_cpython(TRAIN, host, arguments)).splitlines()
    promise = promised_for_training()
    enough = []
    for heap in range(24, promise, 4):
        done = run_micropython(TRAIN, board, f"{heap}k", arguments)
        if done.returncode == 0:
            enough.append(heap)
            assert without_heap(done.stdout) == expected, heap
        else:  # a crash would be a negative code, another exception another last line
            assert done.returncode == 1, (heap, done)
            assert done.stderr.startswith("Traceback"), (heap, done)
            assert done.stderr.splitlines()[-1].startswith("MemoryError"), (heap, done)
    figure(f"clean MemoryError from 24 kB on; of these were enough, by luck: {enough}")
    assert not enough or enough[0] > promise - 40  # well below the promise: never


def capacities() -> list[tuple[int, int]]:
    """The table of the README: rows, and the heap in kB that they need."""
    readme = (FIRMWARE / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([\d,]+) \| (\d+) kB \|", readme, re.MULTILINE)
    return [(int(rows.replace(",", "")), int(heap)) for rows, heap in found]


def test_the_readme_has_capacities() -> None:
    assert len(capacities()) == 5
    assert capacities()[0] == (800, promised_for_training())


def test_the_readme_says_what_fits() -> None:
    assert {heap for heap, *_ in fits()} == {26, 48, 64, 96, 128, 192, 2048}


@needs_mpy_cross
@needs_board_heap
@pytest.mark.parametrize(
    ("heap", "rom", "task"),
    [(heap, rom, task) for heap, rom, _, task in fits() if heap < 2048],  # which takes long
)
def test_what_fits_fits(tmp_path: Path, heap: int, rom: bool, task: Task) -> None:
    board = tmp_path / "board"
    board.mkdir()
    program = task.program
    if rom:
        (board / "rom.img").write_bytes(make_romfs(install(tmp_path / "rom", only=task.modules)))
        (board / "boot.py").write_text(BOOT)
        program = BOOTING + program
    else:
        install(board, only=task.modules)
    if task.prepare:
        task.prepare(board, 4)
    (arguments,) = task.runs(1, 3)
    output(run_micropython(program, board, f"{heap}k", arguments))


@needs_mpy_cross
@needs_board_heap
@pytest.mark.parametrize(("rows", "heap"), capacities())
def test_the_capacities_in_the_readme_are_true(board: Path, rows: int, heap: int) -> None:
    text = output(run_micropython(TRAIN, board, f"{heap}k", [str(rows), "gini", *SEEDS]))
    assert int(without_heap(text)[0]) > 0.85 * rows  # five small trees: 0.92, and one in ten < 0.9


@needs_mpy_cross
@needs_micropython
def test_a_budget_in_bytes_that_is_too_small_is_refused_with_a_sentence(board: Path) -> None:
    script = """
from edgeforest import core_pure as ef
X = [bytearray(range(200)) for f in range(6)]
t = ef.Training(X, bytearray(200), by_column=True)
print(t.working_bytes(0, 3))
try:
    ef.Training(X, bytearray(200), by_column=True, budget=ef.Budget(bytes=t.working_bytes(0, 3) - 1))
except ValueError as error:
    print(error)
ef.Training(X, bytearray(200), by_column=True, budget=ef.Budget(bytes=t.working_bytes(0, 3)))
"""
    need, sentence = output(run_micropython(script, board, "128k")).splitlines()
    assert sentence == (
        f"bytes must be at least {need}, what this training works in, got {int(need) - 1}; "
        "use fewer rows or features"
    )


# ---- The same forest

# Numbers, missing values, a categorical feature and weights; enough rows that a race has rounds.
MIXED = """
import sys
from array import array
from edgeforest import core_pure as ef

def data(n, regression, noise):
    rng = ef.Rng(5)
    X = array("f"), [], [], array("f")
    y = array("f") if regression else []
    for i in range(n):
        a, b, c = rng.below(1000) / 8, rng.below(5000) - 2500, rng.below(4)
        X[0].append(a)
        X[1].append(None if rng.below(10) == 0 else b)
        X[2].append((None, "red", "green", "blue")[c])
        X[3].append(float("nan") if rng.below(7) == 0 else rng.unit())
        if regression:
            y.append(a * 0.25 + (20.5 if c == 1 else 0) + rng.unit())
        elif rng.below(noise):
            y.append("abc"[(a > 60) + (c == 1 and b > 0)])
        else:
            y.append("c")
    return X, y

def train(n, criterion, noise=9, **options):
    X, y = data(n, criterion == "mse", noise)
    t = ef.Training(X, y, by_column=True, criterion=criterion, categorical=[2], names=list("pqrs"),
                    seed=9, **options)
    for _ in t:
        pass
    return t.forest()
"""
ONE = """
criterion, kind, splitter = sys.argv[1:]
options = {"kind": kind, "splitter": splitter, "n_trees": 3, "max_depth": 6, "max_features": 4}
if criterion == "mse":
    options["sample_weight"] = bytearray([1 + i % 3 for i in range(2400)])
else:
    options["class_weight"] = "balanced" if kind == "random-forest" else {"a": 2.5}
train(2400, criterion, noise=2, **options).write(sys.stdout)
"""
CRITERIA = ("gini", "entropy", "mse")
KINDS = ("random-forest", "extra-trees", "random-patches")
SPLITTERS = ("mab", "mab-paper", "exact")
# Every two of them meet once.
PAIRS = [
    (criterion, kind, SPLITTERS[(i + j) % 3])
    for i, criterion in enumerate(CRITERIA)
    for j, kind in enumerate(KINDS)
]
MORE = {
    "plain": "1500, 'gini', n_trees=2",
    "few rows": "300, 'entropy', n_trees=4",
    "short budget": "1500, 'gini', n_trees=4, budget=9000",
    "short budget, entropy": "1500, 'entropy', n_trees=2, budget=7000, max_depth=4",
    "best first": "1500, 'gini', n_trees=2, max_leaf_nodes=9, min_samples_leaf=20",
    "best first, regression": "1500, 'mse', n_trees=2, max_leaf_nodes=9, min_samples_leaf=20",
    "no bootstrap": "1200, 'gini', n_trees=2, bootstrap=False, max_features=3, max_depth=4",
    "weights, no bootstrap": "600, 'gini', class_weight='balanced', bootstrap=False, n_trees=2",
    "careful": "1500, 'entropy', z=3.0, tolerance=0.02, n_bins=32, n_trees=2, max_depth=3",
    "confident": "1500, 'mse', splitter='mab-paper', confidence=0.95, n_trees=2, max_depth=3",
}


@needs_mpy_cross
@needs_micropython
@pytest.mark.parametrize(("criterion", "kind", "splitter"), PAIRS)
def test_the_model_is_cpythons_to_the_byte(
    board: Path, host: Path, criterion: str, kind: str, splitter: str
) -> None:
    arguments = [criterion, kind, splitter]
    model = output(run_micropython(MIXED + ONE, board, "512k", arguments))
    assert json.loads(model)["splitter"] == splitter
    assert model == output(run_cpython(MIXED + ONE, host, arguments))


@needs_mpy_cross
@needs_micropython
@pytest.mark.parametrize("options", MORE.values(), ids=MORE)
def test_the_model_is_cpythons_with_other_options(board: Path, host: Path, options: str) -> None:
    script = f"{MIXED}train({options}).write(sys.stdout)\n"
    model = output(run_micropython(script, board, "256k"))
    assert json.loads(model)["format"] == "edgeforest"
    assert model == output(run_cpython(script, host))


def test_the_bandit_has_work_in_the_tests_above(host: Path) -> None:
    # Else they would compare the exact splitter with itself: its races are close enough that
    # wider intervals would have led to another forest.
    for criterion in ("gini", "entropy", "mse"):
        arguments = [criterion, "random-forest"]
        usual = output(run_cpython(MIXED + ONE, host, [*arguments, "mab"]))
        exact = output(run_cpython(MIXED + ONE, host, [*arguments, "exact"]))
        wider = ONE.replace("noise=2", "noise=2, z=ef.Z + 1.5")
        assert json.loads(usual)["spent"][0] < json.loads(exact)["spent"][0]
        assert usual != output(run_cpython(MIXED + wider, host, [*arguments, "mab"]))


@needs_wasm
@pytest.mark.parametrize("criterion", ["gini", "entropy", "mse"])
def test_webassembly_gives_the_same_model_from_the_source(
    host: Path, tmp_path: Path, criterion: str
) -> None:
    script = f"{MIXED}train(1500, {criterion!r}, n_trees=3, max_depth=6).write(sys.stdout)\n"
    guest = install(tmp_path / "guest", compiled=False)
    model = output(run_wasm(script, guest))
    assert json.loads(model)["criterion"] == criterion
    assert model.strip() == output(run_cpython(script, host))


# ---- One model, two Pythons

# Present, missing and infinite numbers, known, unknown and missing categories.
USE = """
def use(f):
    nan = float("nan")
    out = [0] * f.n_votes
    for a in (0, 7.5, 59.96875, 60, 124.875, nan, None, float("inf")):
        for b, c in ((-100, "red"), (4000, "red"), (None, "blue"), (nan, "mauve"), (17, None)):
            row = [a, b, c, 0.5 if b else nan]
            f.predict_into(f.encode(row), out)
            answer = f.predict(row)
            # A regression's value is a float32: shown as a whole number, since not every Python
            # writes all the digits of a float.
            print(answer if isinstance(answer, str) else int(answer * 65536), out)
"""
LOAD = "from edgeforest.loading import load\n" + USE + 'use(load("model.json"))\n'
SAVE = MIXED + USE + "f = train({}, n_trees=5, max_depth=4)\nuse(f)\nf.save('model.json')\n"


@needs_mpy_cross
@needs_board_heap
@pytest.mark.parametrize("options", ["1500, 'gini'", "300, 'entropy', noise=3", "1500, 'mse'"])
def test_a_model_trained_on_cpython_predicts_alike_on_a_board(
    board: Path, host: Path, options: str
) -> None:
    expected = output(run_cpython(SAVE.format(options), host))
    shutil.copy(host / "model.json", board)
    assert len(set(expected.splitlines())) > 5
    assert output(run_micropython(LOAD, board, "128k")) == expected


@needs_mpy_cross
@needs_board_heap
def test_a_model_of_3_kilobytes_predicts_in_the_heap_that_is_promised(
    board: Path, host: Path
) -> None:
    heap = promised(r"[Pp]redicting with a model of 3 kB takes (\d+) kB of heap")
    for folder in (board, host):
        write_model(folder, 1)
    assert 2500 < (board / "model.json").stat().st_size < 3500
    expected = output(run_cpython(PREDICT, host))
    assert output(run_micropython(PREDICT, board, f"{heap}k")) == expected


@needs_mpy_cross
@needs_micropython
@pytest.mark.parametrize("options", ["1500, 'gini'", "300, 'entropy', noise=3", "1500, 'mse'"])
def test_a_model_trained_on_a_board_predicts_alike_on_cpython(
    board: Path, host: Path, options: str
) -> None:
    expected = output(run_micropython(SAVE.format(options), board, "256k"))
    assert sorted(path.name for path in board.iterdir() if path.suffix != ".py") == [
        "edgeforest",
        "model.json",
    ]
    shutil.copy(board / "model.json", host)
    assert len(set(expected.splitlines())) > 5
    assert output(run_cpython(LOAD, host)) == expected


@needs_mpy_cross
@needs_micropython
def test_a_damaged_model_is_refused_on_a_board(board: Path, host: Path) -> None:
    output(run_cpython(SAVE.format("300, 'gini'"), host))
    model = (host / "model.json").read_text(encoding="utf-8")
    (board / "model.json").write_text(model.replace('"c"', '"d"'), encoding="utf-8")
    done = run_micropython(LOAD, board, "128k")
    assert done.returncode == 1
    assert "ValueError: the model was altered" in done.stderr


# ---- Between readings

TRAINED = """
from edgeforest import core_pure as ef
rng = ef.Rng(2)
X = [bytearray([rng.below(256) for i in range(400)]) for f in range(4)]
y = bytearray([(X[0][i] > 99) + (X[1][i] > 150) for i in range(400)])
t = ef.Training(X, y, by_column=True, n_trees=6, max_depth=6)
"""


@needs_mpy_cross
@needs_micropython
def test_predict_into_allocates_nothing_for_whole_numbers(board: Path) -> None:
    script = """
import micropython
from array import array
for _ in t:
    pass
f = t.forest()
out = array("i", [0, 0, 0])
seen = bytearray(3)
def sweep(row):
    for i in range(256):
        row[0] = i
        row[1] = i
        seen[f.predict_into(row, out)] += 1
whole = bytearray(4), array("H", [0] * 4), array("i", [0] * 4)
floats = array("f", [0] * 4)
for row in whole:
    micropython.heap_lock()
    sweep(row)
    micropython.heap_unlock()
    print(list(seen))
    seen = bytearray(3)
micropython.heap_lock()
try:
    sweep(floats)
    micropython.heap_unlock()
except MemoryError:
    micropython.heap_unlock()
    print("floats allocate")
"""
    *counts, last = output(run_micropython(TRAINED + script, board, "128k")).splitlines()
    assert last == "floats allocate"  # the lock was on
    assert counts == [counts[0]] * 3
    assert min(json.loads(counts[0])) > 0


@needs_mpy_cross
@needs_micropython
def test_a_training_that_is_stopped_half_way_gives_a_forest(board: Path, host: Path) -> None:
    script = """
import sys
from edgeforest.loading import load
for step in t:
    if step is not t:
        raise ValueError(step)
    tree = t.trees.tree
    if len(t.grown) == 2 and tree and len(tree.feature) > 2:
        break
f = t.forest()
for _ in range(2):
    row = [200, 20, 0, 0]
    print(len(f), f.predict(row), f.predict([20, 20, 0, 0]), f.spent.insertions)
    f = load(f.to_json())
f.write(sys.stdout)
"""
    text = output(run_micropython(TRAINED + script, board, "128k"))
    first, second, model = text.splitlines()
    assert first == second
    assert first.startswith("3 1 ")  # two whole trees and a part of one
    assert json.loads(model)["crc32"]
    assert text == output(run_cpython(TRAINED + script, host))


@needs_mpy_cross
@needs_micropython
def test_a_training_that_is_stopped_at_once_gives_a_forest(board: Path) -> None:
    script = "f = t.forest()\nprint(len(f), f.predict([200, 20, 0, 0]), f.spent.insertions)\n"
    assert output(run_micropython(TRAINED + script, board, "128k")) == "1 1 0\n"


# ---- What is given as rows

ROWS = """
from edgeforest import core_pure as ef
rng = ef.Rng(2)
rows = [[rng.below(256) for f in range(4)] for i in range(300)]
"""
AS_ROWS = {
    "rows for training": """
f = ef.train(rows, [r[0] > 99 for r in rows], n_trees=5)
print(f.predict([200, 0, 0, 0]), f.predict([20, 0, 0, 0]))
""",
    "rows for prediction": """
f = ef.train([bytearray([r[f] for r in rows]) for f in range(4)], [r[0] > 99 for r in rows],
             by_column=True, n_trees=5)
print(f.predict([[200, 0, 0, 0], [20, 0, 0, 0]]), len(f.predict_proba(rows[:3])))
""",
    "a flat buffer": """
flat = bytearray()
for r in rows:
    flat.extend(bytes(r))
f = ef.train(flat, [r[0] > 99 for r in rows], n_features=4, n_trees=5)
print(f.predict([200, 0, 0, 0]), f.predict([20, 0, 0, 0]))
""",
    "a row of bytes": """
f = ef.train([bytearray([r[f] for r in rows]) for f in range(4)], [r[0] > 99 for r in rows],
             by_column=True, n_trees=5)
print(f.predict(bytes([200, 0, 0, 0])), f.predict(bytearray(4)))
""",
    "columns of several kinds": """
X = [[r[f] for r in rows] for f in range(4)]
X[1] = bytearray(X[1])
f = ef.train(X, [r[1] > 99 for r in rows], by_column=True, n_trees=5)
print(f.predict([0, 200, 0, 0]), f.predict([0, 20, 0, 0]))
""",
    "columns of several kinds, bytes first": """
X = [[r[f] / 2 for r in rows] for f in range(4)]
X[0] = bytearray([r[0] for r in rows])
f = ef.train(X, [r[1] > 99 for r in rows], by_column=True, n_trees=5)
print(f.predict([0, 100, 0, 0]), f.predict([0, 10, 0, 0]))
""",
    "targets as bytes": """
f = ef.train([bytearray([r[f] for r in rows]) for f in range(4)], bytearray([r[0] for r in rows]),
             criterion="mse", by_column=True, n_trees=5)
print(f.predict([200, 0, 0, 0]) > f.predict([20, 0, 0, 0]))
""",
}


@needs_mpy_cross
@needs_micropython
@pytest.mark.parametrize("use", AS_ROWS.values(), ids=AS_ROWS)
def test_a_board_takes_rows_as_cpython_does(board: Path, host: Path, use: str) -> None:
    expected = output(run_cpython(ROWS + use, host))
    assert expected.startswith(("True", "[True, False] 3"))
    assert output(run_micropython(ROWS + use, board, "192k")) == expected


# ---- The files that go onto a board


def test_constants_fit_the_floats_of_boards() -> None:
    """Else the files cannot be frozen: MicroPython's tool packs constants into 32 bits."""
    for source in board_files():
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, float):
                assert node.value <= 3.4028234663852886e38, (source.name, node.lineno)


@needs_mpy_cross
@pytest.mark.parametrize("option", ["-O3", "-march=armv6m", "-march=armv7emsp"])
def test_all_files_compile_for_boards(tmp_path: Path, option: str) -> None:
    for source in board_files():
        path = tmp_path / f"{source.stem}.mpy"
        compile_mpy(source, path, "-O3", option)
        assert path.read_bytes()[:2] == b"M\x06"


def loaded_files(script: str, folder: Path) -> list[str]:
    """The files of ours that a script has loaded when it ends."""
    script += """
import sys
print(" ".join(sorted(name[11:] for name in sys.modules if name.startswith("edgeforest."))))
"""
    return output(run_micropython(script, folder, "256k")).split("\n")[-2].split()


@needs_mpy_cross
@needs_micropython
@pytest.mark.parametrize("criterion", ["gini", "mse"])
def test_a_board_that_trains_loads_few_bytes(
    board: Path, criterion: str, figure: Callable[[str], None]
) -> None:
    script = f"""
from edgeforest.core_pure import train
X = [bytearray(range(200)) for _ in range(6)]
train(X, bytearray(i // 100 for i in range(200)), by_column=True, criterion={criterion!r})
"""
    names = loaded_files(script, board)
    size = sum((board / "edgeforest" / f"{name}.mpy").stat().st_size for name in names)
    figure(f"{size:,} bytes: {', '.join(names)}")
    assert "core_pure" in names
    assert not {"loading", "weights", "entropy", "race_paper", "online"} & set(names)
    assert size <= TRAINING_BYTES


@needs_mpy_cross
@needs_micropython
def test_a_board_that_predicts_loads_few_bytes(board: Path, figure: Callable[[str], None]) -> None:
    write_model(board, 1)
    script = """
from edgeforest.loading import load
print(load("model.json").predict([1, 2, 3, 4, 5, 6]))
"""
    names = loaded_files(script, board)
    size = sum((board / "edgeforest" / f"{name}.mpy").stat().st_size for name in names)
    figure(f"{size:,} bytes: {', '.join(names)}")
    assert names == ["forest", "loading"]
    assert size <= PREDICTING_BYTES


# ---- Ways onto a board


def package_urls() -> list[tuple[str, str]]:
    package = json.loads((FIRMWARE / "package.json").read_text(encoding="utf-8"))
    return [(destination, source) for destination, source in package["urls"]]


def test_the_mip_package_names_files_that_exist() -> None:
    assert package_urls()
    for destination, source in package_urls():
        assert not destination.startswith(("/", "."))
        assert Path(destination).name == Path(source).name
        assert (FIRMWARE / source).is_file()
        assert ROOT in (FIRMWARE / source).resolve().parents


def test_the_mip_package_has_all_files_for_boards() -> None:
    expected = [f"edgeforest/{path.name}" for path in board_files()]
    assert sorted(destination for destination, _ in package_urls()) == sorted(expected)


def test_the_packages_for_boards_have_the_projects_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    package = json.loads((FIRMWARE / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == project["version"]
    assert read_manifest()["metadata"]["version"] == project["version"]


def read_manifest() -> dict[str, dict]:
    """What the manifest asks MicroPython's build for: the arguments of each call."""
    calls: dict[str, dict] = {}
    known = {
        "metadata": lambda **options: calls.update(metadata=options),
        "package": lambda name, **options: calls.update(package={"name": name, **options}),
    }
    exec((FIRMWARE / "manifest.py").read_text(encoding="utf-8"), known)
    return calls


def test_the_manifest_freezes_the_files_of_the_mip_package() -> None:
    package = read_manifest()["package"]
    frozen = [f"{package['name']}/{name}" for name in package["files"]]
    assert frozen == [destination for destination, _ in package_urls()]
    assert all((FIRMWARE / package["base_path"] / name).is_file() for name in frozen)


# ---- The example


def check_gesture(text: str, folder: Path) -> None:
    accuracy = re.search(r"^Accuracy on fresh windows: (\d\.\d+)$", text, re.MULTILINE)
    assert accuracy, text
    assert float(accuracy[1]) >= 0.85
    assert "Saved model.json" in text
    assert json.loads((folder / "model.json").read_text(encoding="utf-8"))["format"] == "edgeforest"


@needs_mpy_cross
@needs_board_heap
def test_the_gesture_example_runs_in_the_heap_that_is_promised(board: Path) -> None:
    heap = promised(r"gesture example runs in (\d+) kB of heap")
    text = output(run_micropython(GESTURE.read_text(encoding="utf-8"), board, f"{heap}k"))
    check_gesture(text, board)


def test_the_gesture_example_runs_in_a_checkout(tmp_path: Path) -> None:
    install(tmp_path, compiled=False)  # as from the root folder, without writing into it
    text = output(run([sys.executable, str(GESTURE)], tmp_path))
    check_gesture(text, tmp_path)


@needs_mpy_cross
@needs_micropython
def test_the_gesture_example_records_and_recognises_without_allocation(board: Path) -> None:
    shutil.copy(GESTURE, board)
    script = """
import micropython
import gesture as g
sensor = g.Simulated()
windows = g.Windows(3, g.WINDOW, g.STEP, g.FEATURES, bits=8)
columns = [bytearray(3 * g.EACH) for _ in range(windows.n_features)]
labels = bytearray(3 * g.EACH)
votes = g.array("i", [0] * 3)
def record():
    for k in range(3):
        sensor.begin(k)
        g.record(sensor, k, windows, columns, labels)
def recognise():
    for i in range(50):
        g.read_window(sensor, windows)
        seen = f.predict_into(windows.row, votes)
    return seen
micropython.heap_lock()
record()
micropython.heap_unlock()
f = g.learn(sensor, windows, columns, labels)
seen = -1
micropython.heap_lock()
seen = recognise()
micropython.heap_unlock()
print(labels[0], labels[-1], max(columns[3]) > min(columns[3]), seen)
print(g.Windows.of(f).names == windows.names)
"""
    assert output(run_micropython(script, board, "128k")).splitlines()[-2:] == [
        "0 2 True 2",
        "True",
    ]


def test_the_gesture_example_reads_a_real_sensor_where_there_is_one(host: Path) -> None:
    shutil.copy(GESTURE, host)
    (host / "machine.py").write_text(
        """
class Pin:
    IN = PULL_UP = 1

    def __init__(self, number, mode=0, pull=0):
        self.presses = [1, 1, 0] if (number, mode, pull) == (15, 1, 1) else []

    def value(self):
        return self.presses.pop(0)

class I2C:
    def __init__(self, place, sda, scl):
        self.awake = False

    def writeto_mem(self, address, register, data):
        self.awake = (address, register, data) == (0x68, 0x6B, bytes(1))

    def readfrom_mem_into(self, address, register, data):
        if not self.awake or (address, register, len(data)) != (0x68, 0x3B, 6):
            raise OSError(5)
        data[:] = bytes([0x40, 0x00, 0xFF, 0xFE, 0x80, 0x00])  # 1 g, a little below 0, -2 g
""",
        encoding="utf-8",
    )
    script = """
import time
time.sleep_ms = lambda ms: None
import gesture as g
sensor = g.find_sensor()
sensor.begin(1)
windows = g.Windows(3, g.WINDOW, g.STEP, g.FEATURES, bits=8)
g.read_window(sensor, windows)
print(sensor.simulated, list(g.reading), list(windows.row)[::3], sensor.button.presses)
"""
    asked, _, seen = output(run_cpython(script, host)).splitlines()
    assert asked == "Next: shake - press the button when you begin"
    assert seen == "False [16384, -2, -32768] [192, 127, 0, 210] []"  # the means as bytes
