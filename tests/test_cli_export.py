"""edgeforest export: every format, and what does not go together."""

import re
import sys

import pytest
from command_line import exported, refused, table

import edgeforest
from edgeforest.cli import demo


def codes_of(forest):
    """Rows of the log as the exported models take them: codes of categories, NaN where missing."""
    rows = [dict(zip(demo.COLUMNS, row, strict=True)) for row in demo.sample_log(50, seed=4)]
    given = [
        [
            (row[name] or None) if kinds else float(row[name] or "nan")
            for name, kinds in zip(forest.names, forest.categories, strict=True)
        ]
        for row in rows
    ]
    return [forest.encode(row) for row in given], forest.predict(given)


def test_export_names_sizes_before_and_after(model, tmp_path, capsys):
    out = tmp_path / "small.json"
    text = exported(capsys, model, out, "--shrink")
    assert re.match(rf"read +{re.escape(str(model))}, \d+\.\d kB: 5 trees, [\d,]+ nodes", text)
    forest, small = edgeforest.load(model), edgeforest.load(out)
    sizes = f"{len(forest.to_json())} to {len(small.to_json())} bytes"
    assert re.search(rf"^shrunk +{sizes}, \d+ to \d+ nodes", text, re.MULTILINE)
    size = f"{out.stat().st_size / 1000:.1f} kB"
    assert text.endswith(f"saved      {out}, {size}\n")
    rows = [row[1:7] for row in demo.sample_log(40, seed=8) if "" not in row]
    rows = [[*map(float, row[:5]), row[5]] for row in rows]
    assert small.predict_proba(rows) == forest.predict_proba(rows)
    assert out.read_text().endswith("}\n")
    exported(capsys, model, tmp_path / "same.json")
    assert (tmp_path / "same.json").read_bytes() == model.read_bytes()


def test_export_with_fewer_levels_is_smaller(model, tmp_path, capsys):
    sizes = []
    for levels in ([], ["--levels", "15"], ["--levels", "1"]):
        out = tmp_path / "small.json"
        exported(capsys, model, out, "--shrink", *levels)
        sizes.append(out.stat().st_size)
    assert edgeforest.load(out).scale == 1
    assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize("options", [[], ["--operator", "v5"], ["--shrink"]])
def test_export_to_onnx(options, model, tmp_path, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    out = tmp_path / "model.onnx"
    assert f"saved      {out}, " in exported(capsys, model, out, *options)
    session = onnxruntime.InferenceSession(out.read_bytes())
    rows, answers = codes_of(edgeforest.load(model))
    table = [[value or float("nan") for value in row[-1:]] for row in rows]
    table = [[*row[:-1], *last] for row, last in zip(rows, table, strict=True)]
    numpy = pytest.importorskip("numpy")
    assert session.run(["label"], {"X": numpy.array(table, "f4")})[0].tolist() == answers
    used = {node.op_type for node in pytest.importorskip("onnx").load(out).graph.node}
    assert ("TreeEnsemble" in used) == ("v5" in options)


def test_export_to_onnx_with_an_input_for_each_feature(model, tmp_path, capsys):
    onnx = pytest.importorskip("onnx")
    exported(capsys, model, tmp_path / "m.ONNX", "--inputs", "columns")
    inputs = onnx.load(tmp_path / "m.ONNX").graph.input
    assert [one.name for one in inputs] == edgeforest.load(model).names


def test_export_to_c(model, tmp_path, capsys):
    texts = {}
    for prefer in ("size", "speed"):
        out = tmp_path / "my-lamp 2.h"
        said = exported(capsys, model, out, "--prefer", prefer)
        assert said.endswith(" of C text; call my_lamp_2_predict(row)\n")
        texts[prefer] = out.read_text()
        assert "int my_lamp_2_predict(const float *row)" in texts[prefer]
    assert texts["size"] != texts["speed"]
    exported(capsys, model, tmp_path / "1.h", "--rows", "int16", "--scale", "auto")
    assert "int model_1_predict(const int16_t *row)" in (tmp_path / "1.h").read_text()


def test_export_to_micropython(model, tmp_path, capsys):
    exported(capsys, model, tmp_path / "room.py", "--shrink")
    module = {}
    exec((tmp_path / "room.py").read_text(), module)
    rows, answers = codes_of(edgeforest.load(model))
    assert [module["predict"](row) for row in rows] == answers


def test_export_without_onnx_says_how_to_get_it(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "edgeforest.export.onnx_model", raising=False)
    out = tmp_path / "model.onnx"
    said = refused(capsys, "export", model, out)
    assert said == (
        "ONNX needs the package onnx, which is not installed; pip install 'edgeforest[onnx]'"
    )
    assert not out.exists()


def test_export_refuses_what_does_not_go_together(model, tmp_path, capsys, key):
    for name in ("model", "model.xyz", "model.json.gz"):
        said = refused(capsys, "export", model, tmp_path / name)
        assert "must name a format; give a name that ends in .json, .onnx, .h" in said
    for name, option, value, endings in (
        ("m.h", "--operator", "v5", ".onnx"),
        ("m.json", "--inputs", "columns", ".onnx"),
        ("m.onnx", "--rows", "uint8", ".h and .py"),
        ("m.py", "--prefer", "speed", ".h"),
        ("m.h", "--sign", key, ".json"),
    ):
        out = tmp_path / name
        said = refused(capsys, "export", model, out, option, value)
        assert said == f"{option} is for {endings}, got {out}; leave it out"
    said = refused(capsys, "export", model, tmp_path / "m.json", "--levels", "9")
    assert said == "--levels is how far --shrink goes; give both"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key.bin"]


def test_export_refuses_files_that_cannot_be_read_or_written(log, model, tmp_path, capsys, key):
    out = tmp_path / "m.json"
    before = model.read_bytes()
    said = refused(capsys, "export", model, model, "--shrink")
    assert said == f"the file {model} would overwrite what is read; give another name"
    secret = tmp_path / "key.json"
    secret.write_bytes(key.read_bytes())
    assert "would overwrite" in refused(capsys, "export", model, secret, "--sign", secret)
    assert (model.read_bytes(), secret.read_bytes()) == (before, key.read_bytes())
    assert "there is no folder" in refused(capsys, "export", model, tmp_path / "none" / "m.h")
    assert "no such file" in refused(capsys, "export", tmp_path / "gone.json", out)
    assert "not an EdgeForest model" in refused(capsys, "export", log, out)
    assert "no such file" in refused(capsys, "export", model, out, "--sign", tmp_path / "gone")
    short = table(tmp_path, "secret", "short")
    said = refused(capsys, "export", model, out, "--sign", short)
    assert said == f"a key has at least 16 bytes, {short} has 6; make a longer one"
    assert not out.exists()
