"""The MicroPython module: the votes of the forest, in real MicroPython, and nothing allocated."""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from forests import all_equal, encoded_cases
from runtimes import (
    compile_mpy,
    needs_board_heap,
    needs_micropython,
    needs_mpy_cross,
    output,
    run_micropython,
)
from test_export_c import all_kinds, expected, hard_rows, made, whole_rows

from edgeforest import train
from edgeforest.export.micropython_module import to_micropython
from edgeforest.forest import EQUAL, Forest

ROWS = {"f": "float32", "h": "int16", "B": "uint8"}


def cases(every: int = 1) -> list[tuple[Forest, list[array]]]:
    """Forests of all kinds, with rows that sit on their thresholds."""
    found = [(forest, hard_rows(forest, 40)) for forest in all_kinds()]
    for seed in range(3):
        for options in ({"classes": 3}, {"classes": 0}, {"classes": 12, "scale": 7}):
            for kind in "Bh":
                forest = made(seed, whole=kind, missing=True, categories=seed % 3, **options)
                found.append((forest, whole_rows(forest, 40, kind)))
    return found[::every]


def trained(n_trees: int, max_depth: int) -> Forest:
    """A forest on six sensors that give bytes."""
    X = [[(i * (f + 3) * 7 + i // 5) % 256 for f in range(6)] for i in range(1500)]
    y = ["up" if x[0] > 99 and x[1] > 50 else "down" if x[2] < 128 else "still" for x in X]
    return train(X, y, n_trees=n_trees, max_depth=max_depth)


def write(folder: Path, name: str, forest: Forest, kind: str) -> None:
    """Compile the module as for a board, and only that: a .py would win over it."""
    source = folder / f"{name}.txt"
    source.write_text(to_micropython(forest, rows=ROWS[kind]), encoding="utf-8")
    compile_mpy(source, folder / f"{name}.mpy", "-O3")


def test_the_module_votes_as_the_forest_does_in_cpython() -> None:
    for forest, rows in cases():
        module: dict = {}
        exec(to_micropython(forest, rows=ROWS[rows[0].typecode]), module)
        lines = []
        for row in rows:
            out = [0] * forest.n_votes
            said = module["predict_into"](row, out)
            if forest.regression:
                (said,) = struct.unpack("<I", struct.pack("<f", module["predict"](row)))
            else:
                assert module["predict"](row) == forest.classes[said]
            lines.append(" ".join(map(str, [said, *out])))
        assert lines == expected(forest, rows)


ASK = """
import gc, json, struct, sys
from array import array

sizes = {"f": 4, "h": 2, "B": 1}
for word in sys.argv[1:]:
    name, kind, width, votes = word.split(",")
    module = __import__(name)
    out = [0] * int(votes)
    with open(name + ".rows", "rb") as stream:
        while True:
            data = stream.read(int(width) * sizes[kind])
            if not data:
                break
            row = array(kind, struct.unpack("<" + width + kind, data))
            said = module.predict_into(row, out)
            if hasattr(module, "value"):
                said = struct.unpack("<I", struct.pack("<f", module.value(out[0])))[0]
            else:
                assert module.predict(row) == module.CLASSES[said]
            print(said, *out)
    print(json.dumps(getattr(module, "CLASSES", None)))
    print("end")
    del sys.modules[name], module
    gc.collect()
"""


def check_in_micropython(folder: Path, asked: list[tuple[Forest, list[array]]], heap: str) -> None:
    """Whether the modules m0, m1, ... of a folder vote as these forests do, one after the other."""
    words = []
    for i, (forest, rows) in enumerate(asked):
        (folder / f"m{i}.rows").write_bytes(b"".join(row.tobytes() for row in rows))
        words.append(f"m{i},{rows[0].typecode},{forest.n_features},{forest.n_votes}")
    parts = output(run_micropython(ASK, folder, heap, words)).split("end\n")[:-1]
    assert len(parts) == len(asked)
    for i, ((forest, rows), part) in enumerate(zip(asked, parts, strict=True)):
        *lines, classes = part.splitlines()
        assert lines == expected(forest, rows), i
        assert json.loads(classes) == forest.classes, i


@needs_mpy_cross
@needs_micropython
def test_the_module_votes_as_the_forest_does_in_micropython(tmp_path: Path) -> None:
    asked = cases(every=2)
    for i, (forest, rows) in enumerate(asked):
        write(tmp_path, f"m{i}", forest, rows[0].typecode)
    check_in_micropython(tmp_path, asked, "512k")


@needs_micropython
def test_the_module_votes_as_the_forests_of_all_exports_do(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    """As text, which MicroPython compiles itself."""
    asked = encoded_cases()
    for i, (forest, _) in enumerate(asked):
        (tmp_path / f"m{i}.py").write_text(to_micropython(forest), encoding="utf-8")
    check_in_micropython(tmp_path, asked, "128k")
    figure(all_equal())


COUNT = """
import gc
from array import array
gc.collect()
before = gc.mem_alloc()
import model
gc.collect()
print(gc.mem_alloc() - before)

def used(row, out, times):
    for i in range(2):  # the first time warms up
        gc.collect()
        gc.disable()
        before = gc.mem_alloc()
        for k in range(times):
            model.predict_into(row, out)
            model.predict(row)
        after = gc.mem_alloc()
        gc.enable()
    return after - before

for row in ROWS:
    print(used(row, [0, 0, 0], 50))
"""


@needs_mpy_cross
@needs_board_heap
@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("B", 'bytes(6), bytearray(b"abcdef"), array("h", [1, 2, 200, 3, 90, 255])'),
        ("h", 'bytes(6), array("h", [1, 2, 200, 3, 90, 255]), [5, 6, 7, 8, 9, 255]'),
        ("f", '[0.5, 1e9, -3.25, -1e-40, 77.5, 200.5], [float("nan")] * 6, [1, 2, 3, 4, 5, 6]'),
    ],
)
def test_predicting_allocates_nothing(
    kind: str, rows: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    forest = trained(10, 6)
    write(tmp_path, "model", forest, kind)
    script = COUNT.replace("ROWS", f"({rows})")
    loaded, *used = output(run_micropython(script, tmp_path, "24k")).split()
    size = (tmp_path / "model.mpy").stat().st_size
    figure(f"{len(forest.feature)} nodes: .mpy of {size} bytes, {loaded} of heap when not frozen")
    assert used == ["0", "0", "0"]


@needs_mpy_cross
@needs_board_heap
def test_an_array_of_floats_costs_one_float_a_feature_not_one_a_split(tmp_path: Path) -> None:
    write(tmp_path, "model", trained(10, 6), "f")
    script = COUNT.replace("ROWS", '(array("f", [0.5, 1e9, -3.25, 0.0, 77.5, 200.5]),)')
    _, used = output(run_micropython(script, tmp_path, "48k")).split()
    assert 0 < int(used) <= 50 * 2 * 6 * 16


def test_labels_and_notes_survive_whatever_they_are() -> None:
    X = [[i % 9, "a\n#\x00b" if i % 3 else "c"] for i in range(90)]
    y = ['"""', "it's \\", "ä\n"]
    names = ["first\nimport os", "\u2028"]
    forest = train(X, [y[i % 3] for i in range(90)], names=names, categorical=[1])
    module: dict = {}
    exec(to_micropython(forest), module)
    assert list(module["CLASSES"]) == forest.classes
    assert "os" not in module


def test_what_a_module_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="rows must be 'float32', 'int16' or 'uint8', got 'int8'"):
        to_micropython(made(0), rows="int8")
    mixed = made(0)
    mixed.feature[mixed.roots[0]] = EQUAL | (mixed.feature[mixed.roots[0]] & 7)
    mixed.threshold[mixed.roots[0]] = 2.5
    with pytest.raises(ValueError, match="has a category that is not a code"):
        to_micropython(mixed)
