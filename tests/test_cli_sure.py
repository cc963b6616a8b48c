"""edgeforest train --calibrate, then predict and export --coverage."""

import csv
import random

import numpy as np
import onnxruntime
import pytest
from command_line import refused, table

import edgeforest
from edgeforest import cli


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    rng = random.Random(0)
    lines = ["a,b,value,kind"]
    for _ in range(900):
        a, b = rng.randrange(100) / 10, rng.randrange(50) / 10
        kind = "hot" if a + rng.gauss(0, 1) > 5 else "cold"
        lines.append(f"{a},{b},{a * a + b + rng.gauss(0, a):.3f},{kind}")
    return table(tmp_path_factory.mktemp("log"), "\n".join(lines) + "\n")


def trained(log, tmp_path, target, *more):
    other = {"value": "kind", "kind": "value"}[target]
    path = str(tmp_path / "model.json")
    assert cli.main(["train", log, "--target", target, "--drop", other, "--out", path, *more]) == 0
    return path


@pytest.mark.parametrize("target", ["value", "kind"])
def test_rows_left_out_calibrate_so_that_new_rows_are_covered(log, tmp_path, target, capsys):
    forest = edgeforest.load(trained(log, tmp_path, target, "--calibrate"))
    assert "calibrated by 900 left-out rows" in capsys.readouterr().out
    rng = random.Random(1)
    inside = 0
    for _ in range(2000):
        a, b = rng.randrange(100) / 10, rng.randrange(50) / 10
        if target == "value":
            low, high = forest.predict_interval([a, b], 0.9)
            inside += low <= a * a + b + rng.gauss(0, a) <= high
        else:
            kind = "hot" if a + rng.gauss(0, 1) > 5 else "cold"
            inside += kind in forest.predict_set([a, b], 0.9)
    assert 0.87 < inside / 2000 < 0.97
    assert not edgeforest.load(trained(log, tmp_path, target)).calibration


@pytest.mark.parametrize("target", ["value", "kind"])
def test_predict_writes_bounds_or_classes(log, tmp_path, target, capsys):
    path = trained(log, tmp_path, target, "--calibrate")
    capsys.readouterr()
    assert cli.main(["predict", path, log, "--coverage", "0.95"]) == 0
    found = list(csv.reader(capsys.readouterr().out.splitlines()))
    forest = edgeforest.load(path)
    with open(log, newline="") as stream:
        rows = [[float(row["a"]), float(row["b"])] for row in csv.DictReader(stream)]
    if target == "value":
        assert found[0] == ["prediction", "lower", "upper"]
        ends = [[float(v) for v in row[1:]] for row in found[1:]]
        assert np.float32(ends).tolist() == np.float32(forest.predict_interval(rows, 0.95)).tolist()
        assert all(
            low <= float(row[0]) <= high for row, (low, high) in zip(found[1:], ends, strict=True)
        )
    else:
        assert found[0] == ["prediction", "in_cold", "in_hot"]
        sets = [
            {k for k, v in zip(forest.classes, row[1:], strict=True) if v == "1"}
            for row in found[1:]
        ]
        assert sets == [set(one) for one in forest.predict_set(rows, 0.95)]
        assert {len(one) for one in sets} == {1, 2}


def test_exports_have_it(log, tmp_path):
    path = trained(log, tmp_path, "value", "--calibrate")
    for ending, sign in ((".h", "model_interval("), (".py", "def predict_interval(")):
        out = tmp_path / f"model{ending}"
        assert cli.main(["export", path, str(out), "--coverage", "0.8"]) == 0
        assert sign in out.read_text()
    out = str(tmp_path / "model.onnx")
    assert cli.main(["export", path, out, "--coverage", "0.8"]) == 0
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    _, low, high = session.run(None, {"X": np.array([[3, 1]], np.float32)})
    assert (low[0, 0], high[0, 0]) == edgeforest.load(path).predict_interval([3, 1], 0.8)


def test_what_cannot_be_is_refused(log, tmp_path, capsys):
    path = trained(log, tmp_path, "value")
    said = refused(capsys, "predict", path, log, "--coverage", "0.9")
    assert "is not calibrated; train it again with --calibrate" in said
    assert "not calibrated" in refused(
        capsys, "export", path, tmp_path / "m.h", "--coverage", "0.9"
    )
    assert "must be from 0.5 to 0.99" in refused(capsys, "predict", path, log, "--coverage", "1")
    said = refused(capsys, "export", path, tmp_path / "m.json", "--coverage", "0.9")
    assert "--coverage is for .onnx and .h and .py" in said
    said = refused(capsys, "train", log, "--target", "value", "--calibrate")
    assert "--calibrate needs rows that are left out and a model to write" in said
