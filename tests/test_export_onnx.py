"""ONNX models say what the forest says, bit for bit, in every runtime; and they can be read back.

The forests and their rows are those of tests/forests.py, which C and MicroPython are asked about too.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
import zlib
from array import array
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from forests import FORESTS, KINDS, Case, all_equal, answers_of, cases
from onnx.reference import ReferenceEvaluator
from runtimes import (
    ROOT,
    Browser,
    find_onnx_node,
    find_onnx_web,
    needs_browser,
    needs_onnx_node,
    needs_onnx_web,
    run_onnx,
    serve,
)

import edgeforest
from edgeforest import engine, loading, train
from edgeforest.export import onnx_model, onnx_trees
from edgeforest.export.onnx_model import from_onnx, to_onnx
from edgeforest.forest import EQUAL, FEATURE, LEAF

NAN = float("nan")


def feeds_of(case: Case) -> dict[str, Any]:
    """The rows as inputs of the model."""
    forest = case.forest
    if case.inputs == "tensor":
        return {"X": np.array([forest.encode(row) for row in case.rows], np.float32)}
    feeds: dict[str, Any] = {}
    for f, (name, kinds) in enumerate(zip(forest.names, forest.categories, strict=True)):
        column = [row[f] for row in case.rows]
        if kinds is not None and isinstance(kinds[0], str):
            feeds[name] = np.array([["?" if v is None else v] for v in column], object)
        elif kinds is not None and 10**15 in kinds:
            feeds[name] = np.array([[77 if v is None else v] for v in column], np.int64)
        else:
            feeds[name] = np.array([[NAN if v is None else v] for v in column], np.float32)
    return feeds


@cache
def models() -> list[onnx.ModelProto]:
    return [to_onnx(c.forest, operator=c.operator, inputs=c.inputs) for c in cases()]


def check(case: Case, found: dict[str, Any]) -> None:
    """Whether outputs are the forest's answers: the same labels, the same bits."""
    expected = answers_of(case.forest, case.rows)
    assert sorted(found) == sorted(expected)
    for name, values in expected.items():
        if name == "label":
            assert np.asarray(found[name]).tolist() == values
        else:
            assert found[name].dtype == np.float32
            assert found[name].shape == values.shape
            assert found[name].tobytes() == values.tobytes()


def check_all(found: list[dict[str, Any]]) -> None:
    assert len(found) == FORESTS
    for n, (case, outputs) in enumerate(zip(cases(), found, strict=True)):
        try:
            check(case, outputs)
        except AssertionError as error:
            raise AssertionError(f"forest {n}, {case.operator}, {case.inputs}") from error


def in_onnxruntime(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


# ---- The same answers everywhere ---------------------------------------------------------------


def test_cases_are_as_hard_as_they_claim():
    """Otherwise the parity below would mean little."""
    forests = [case.forest for case in cases()]
    assert {f.kind for f in forests} == set(KINDS)
    assert {f.n_votes for f in forests} >= {1, 2, 3, 4, 10, 30}
    assert sum(f.regression for f in forests) > 30
    assert {type(f.classes[0]) for f in forests if f.classes} == {str, int, float, bool}
    assert sum(len(f.feature) == len(f) for f in forests) > 10  # nothing but leaves
    marks = [{f & 0xC000 for f in forest.feature if f != LEAF} for forest in forests]
    assert sum(len(m) > 2 for m in marks) > 30
    joined = [f for f in forests if f.classes and len(set(summed_votes(f))) > 1]
    assert len(joined) > 5
    nodes = [(f, t) for x in forests for f, t in zip(x.feature, x.threshold, strict=True)]
    assert sum(f != LEAF and bool(f & EQUAL) and t == 0 for f, t in nodes) > 3  # equals nothing


def summed_votes(forest: Any) -> list[int]:
    found = []
    for _ in range(3):
        out = [0] * forest.n_votes
        row = array("f", [random.Random(7).gauss(0, 9) for _ in forest.names])
        forest.predict_into(row, out)
        found.append(sum(out))
    return [*found, forest.scale * len(forest)]


@pytest.mark.parametrize("name", engine.present())
def test_engines_say_the_same(name, figure):
    """The oracle of this file is the pure forest; the others agree with it."""
    predictor = engine.pick(name).predictor
    for case in cases():
        forest = engine.with_predictor(loading.load(case.forest.to_json()), engine.pick(name))
        assert (forest.predictor is None) == (predictor is None)
        oracle = loading.load(case.forest.to_json())
        assert forest.predict(case.rows) == oracle.predict(case.rows)
        if not forest.regression:
            assert forest.predict_proba(case.rows) == oracle.predict_proba(case.rows)
        check(case, votes_as_answers(forest, case.rows))
    figure(all_equal())


def votes_as_answers(forest: Any, rows: list[Any]) -> dict[str, Any]:
    """The answers that the votes of `predict_into` stand for; C and MicroPython give such votes."""
    votes = [[0] * forest.n_votes for _ in rows]
    encoded = map(forest.encode, rows)
    best = [forest.predict_into(row, out) for row, out in zip(encoded, votes, strict=True)]
    if forest.regression:
        return {"value": np.array([[forest.value(out[0])] for out in votes], np.float32)}
    sums = np.maximum(1, np.sum(votes, 1, keepdims=True)).astype(np.float32)
    shares = np.array(votes, np.float32) / sums
    return {"label": [forest.classes[k] for k in best], "probabilities": shares}


def test_onnxruntime_says_the_same(figure):
    check_all([in_onnxruntime(m, feeds_of(c)) for m, c in zip(models(), cases(), strict=True)])
    figure(all_equal())


def test_one_row_at_a_time_says_the_same():
    """Runtimes use other code for one row than for many."""
    for model, case in list(zip(models(), cases(), strict=True))[::5]:
        for i in range(0, len(case.rows), 6):
            feeds = {name: values[i : i + 1] for name, values in feeds_of(case).items()}
            check(Case(case.forest, case.rows[i : i + 1], "", ""), in_onnxruntime(model, feeds))


def test_many_trees_and_many_rows_say_the_same():
    """Enough for runtimes to divide the work among threads."""
    r = random.Random(0)
    rows = [[r.gauss(0, 1), r.gauss(0, 1)] for _ in range(900)]
    for criterion, y in (("gini", [a > b for a, b in rows]), ("mse", [a * b for a, b in rows])):
        forest = train(rows, y, criterion=criterion, n_trees=150, max_depth=5)
        for operator in ("classic", "v5"):
            case = Case(forest, rows, operator, "tensor")
            check(case, in_onnxruntime(to_onnx(forest, operator=operator), feeds_of(case)))


def test_onnx_reference_says_the_same(figure):
    asked = []
    for model, case in zip(models(), cases(), strict=True):
        if "missing_value_tracks" not in str(model.graph.node):
            # Left out, it means that NaN goes right; the reference stops with an error there.
            rows = [row for row in case.rows if not np.isnan(case.forest.encode(row)).any()]
            case = Case(case.forest, rows, case.operator, case.inputs)
        session = ReferenceEvaluator(model)
        outputs = session.run(None, feeds_of(case)) if case.rows else None
        if outputs is not None:
            check(case, dict(zip(session.output_names, outputs, strict=True)))
            asked.append(case)
    assert sum(len(case.rows) for case in asked) > 10 * FORESTS
    figure(all_equal(asked))


def packed_cases() -> list[Any]:
    packed = []
    for model, case in zip(models(), cases(), strict=True):
        feeds = {name: packed_tensor(values) for name, values in feeds_of(case).items()}
        packed.append({"model": encode(model.SerializeToString()), "feeds": feeds})
    return packed


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def packed_tensor(values: Any) -> dict[str, Any]:
    text = values.dtype == object
    data = values.ravel().tolist() if text else encode(values.tobytes())
    return {"type": "string" if text else str(values.dtype), "dims": values.shape, "data": data}


def unpacked(outputs: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, tensor in outputs.items():
        data = tensor["data"]
        if tensor["type"] != "string":
            data = np.frombuffer(base64.b64decode(data), tensor["type"]).reshape(tensor["dims"])
        found[name] = data
    return found


@needs_onnx_web
def test_onnxruntime_web_in_node_says_the_same(tmp_path, figure):
    check_all([unpacked(o) for o in run_onnx(find_onnx_web(), packed_cases(), tmp_path)])
    figure(all_equal())


@needs_onnx_node
def test_onnxruntime_node_says_the_same(tmp_path, figure):
    check_all([unpacked(o) for o in run_onnx(find_onnx_node(), packed_cases(), tmp_path)])
    figure(all_equal())


@needs_browser
@needs_onnx_web
def test_onnxruntime_web_in_a_browser_says_the_same(tmp_path, figure):
    web = ROOT / ".runtimes" / "onnxruntime-web"
    for file in [
        *(web / "node_modules" / "onnxruntime-web" / "dist").iterdir(),
        web / "predict.mjs",
    ]:
        shutil.copy(file, tmp_path)
    (tmp_path / "cases.json").write_text(json.dumps(packed_cases()), encoding="utf-8")
    (tmp_path / "index.html").write_text("<!doctype html><title>parity</title>", encoding="utf-8")
    browser = Browser()
    try:
        with serve(tmp_path) as address:
            browser.open(address)
            found = browser.evaluate(
                """(async () => {
                  const ort = await import("./ort.wasm.min.mjs");
                  const { predict } = await import("./predict.mjs");
                  const cases = await (await fetch("cases.json")).json();
                  return JSON.stringify(await predict(ort, cases));
                })()"""
            )
    finally:
        browser.close()
    check_all([unpacked(o) for o in json.loads(found)])
    figure(all_equal())


def test_codes_in_a_tensor_are_taken_as_predict_into_takes_them():
    """Also 0, which is missing, and numbers that are not codes."""
    r = random.Random(3)
    asked = 0
    for case, operator in zip(cases()[::2], ["classic", "v5"] * FORESTS, strict=False):
        forest = loading.load(case.forest.to_json())
        if forest.all_numbers or forest.regression:
            continue
        rows = []
        for row in case.rows:
            codes = forest.encode(row)
            for f, kinds in enumerate(forest.categories):
                if kinds is not None and r.random() < 0.6:
                    codes[f] = r.choice([0.0, -0.0, 0.5, 1.5, 33.0, 300.0])
            rows.append(codes)
        votes = [[0] * forest.n_votes for _ in rows]
        best = [forest.predict_into(row, out) for row, out in zip(rows, votes, strict=True)]
        found = in_onnxruntime(to_onnx(forest, operator=operator), {"X": np.array(rows)})
        assert found["label"].tolist() == [forest.classes[k] for k in best]
        shares = np.array(votes, np.float32) / np.sum(votes, 1, keepdims=True, dtype=np.float32)
        assert found["probabilities"].tobytes() == shares.tobytes()
        asked += 1
    assert asked > 40


def test_leaves_without_votes_share_nothing():
    forest = train([[0.0], [1.0]] * 9, ["a", "b"] * 9, n_trees=2)
    forest.votes = array("H", bytes(2 * len(forest.votes)))
    for operator in ("classic", "v5"):
        case = Case(forest, [[0.0], [1.0], [None]], operator, "tensor")
        check(case, in_onnxruntime(to_onnx(forest, operator=operator), feeds_of(case)))


def test_ties_go_to_the_first_class():
    forest = train([[0.0]] * 4, ["d", "c", "b", "a"], n_trees=2)
    forest.votes = array("H", [5, 9, 9, 5, 9, 5, 5, 9])  # 14 of each
    for operator in ("classic", "v5"):
        found = in_onnxruntime(to_onnx(forest, operator=operator), {"X": np.zeros((1, 1), "f")})
        assert found["label"].tolist() == forest.predict([[0.0]]) == ["a"]


# ---- What is in a model ------------------------------------------------------------------------


def small_forest(**options: Any) -> Any:
    rows = [[i % 7, "ab c"[i % 4], i % 3] for i in range(80)]
    names = ["temp", "window", "label"]
    y = ["warm" if r[0] > 3 else "cool" for r in rows]
    return train(rows, y, n_trees=3, names=names, categorical=["window"], **options)


def entries(model: onnx.ModelProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in model.metadata_props}


@pytest.mark.parametrize("operator", ["classic", "v5"])
def test_a_model_holds_its_versions_names_and_metadata(operator):
    forest = small_forest(budget=5000)
    model = to_onnx(forest, operator=operator, name="room", doc="Who opened the window?")
    onnx.checker.check_model(model, full_check=operator == "classic")
    opsets = {o.domain: o.version for o in model.opset_import}
    expected = (
        (4, {"": 9, "ai.onnx.ml": 1}) if operator == "classic" else (10, {"": 9, "ai.onnx.ml": 5})
    )
    assert (model.ir_version, opsets) == expected
    assert (model.graph.name, model.doc_string) == ("room", "Who opened the window?")
    assert (model.producer_name, model.producer_version) == ("edgeforest", edgeforest.__version__)
    told = json.loads(entries(model)["edgeforest"])
    assert told["features"] == ["temp", "window", "label"]
    assert told["categories"] == [None, [" ", "a", "b", "c"], None]
    assert told["classes"] == ["cool", "warm"]
    assert told["budget"] == 5000
    assert told["spent"][0] == forest.spent.insertions <= 5000
    assert entries(model)["edgeforest_version"] == edgeforest.__version__
    assert "3 trees" in to_onnx(forest).doc_string


def test_columns_keep_their_names_even_those_of_outputs():
    model = to_onnx(small_forest(), inputs="columns")
    kinds = [(i.name, i.type.tensor_type.elem_type) for i in model.graph.input]
    text, number = onnx.TensorProto.STRING, onnx.TensorProto.FLOAT
    assert kinds == [("temp", number), ("window", text), ("label", number)]
    assert [o.name for o in model.graph.output] == ["label_1", "probabilities"]
    assert {o.domain: o.version for o in model.opset_import}["ai.onnx.ml"] == 2


def test_nothing_is_written_that_is_not_needed():
    """No attribute that may be left out, no vote of zero."""
    forest = train([[0.0], [1.0]] * 20, ["a", "b"] * 20, n_trees=5)
    forest.feature = array("H", [f if f == LEAF else f & FEATURE for f in forest.feature])
    (trees,) = [n for n in to_onnx(forest).graph.node if n.op_type == "TreeEnsembleRegressor"]
    found = {a.name: a for a in trees.attribute}
    assert "nodes_hitrates" not in found
    assert "nodes_missing_value_tracks_true" not in found
    assert min(found["target_weights"].floats) > 0
    assert len(found["target_weights"].floats) == forest.feature.tolist().count(LEAF)


def test_an_estimator_is_exported_as_its_forest():
    model = edgeforest.RandomForestRegressor(3, random_state=0).fit([[0.0], [1.0]] * 9, [1, 2] * 9)
    assert to_onnx(model) == to_onnx(model.forest_)


def shares_nodes(forest: Any) -> None:
    forest.right[0] += 1


def votes_too_much(forest: Any) -> None:
    forest.votes = array("H", [65535] * len(forest.votes))
    for _ in range(7):
        edgeforest.forests.merging.append(forest, forest)


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (lambda f: None, {"operator": "v6"}, "operator must be one of classic, v5, got 'v6'"),
        (lambda f: None, {"inputs": "rows"}, "inputs must be one of tensor, columns, got"),
        (lambda f: f.names.__setitem__(2, "temp"), {"inputs": "columns"}, "names of their own"),
        (
            lambda f: setattr(f, "classes", [1, 2**64 + 1]),
            {},
            "labels must be numbers that ONNX has",
        ),
        (votes_too_much, {}, "votes of this forest can add up to"),
        (shares_nodes, {}, "the trees of this forest share nodes"),
    ],
)
def test_what_cannot_be_exported_is_refused(change, options, said):
    forest = small_forest()
    change(forest)
    with pytest.raises(ValueError, match=said):
        to_onnx(forest, **options)


def test_what_is_not_a_forest_is_refused():
    with pytest.raises(TypeError, match=r"^model must be a Forest or a fitted estimator, got str"):
        to_onnx("model.json")


# ---- Back again --------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", ["classic", "v5"])
@pytest.mark.parametrize("inputs", ["tensor", "columns"])
def test_a_model_is_read_back_to_the_last_byte(operator, inputs):
    for case in cases()[::2]:
        model = to_onnx(case.forest, operator=operator, inputs=inputs)
        assert from_onnx(model.SerializeToString()).to_json() == case.forest.to_json()


def sharing_forest() -> Any:
    """A forest whose leaves share a place in the votes if they vote the same."""
    forest = small_forest()
    leaves = [i for i, f in enumerate(forest.feature) if f == LEAF]
    width = forest.n_votes
    shared = {}  # from votes to their place
    for i in leaves:
        place = forest.right[i] * width
        key = tuple(forest.votes[place : place + width])
        forest.right[i] = shared.setdefault(key, len(shared))
    forest.votes = array("H", [v for votes in shared for v in votes])
    assert len(shared) < len(leaves)
    return forest


@pytest.mark.parametrize("operator", ["classic", "v5"])
def test_leaves_that_share_votes_are_read_back(operator, tmp_path):
    forest = sharing_forest()
    path = tmp_path / "model.onnx"
    onnx.save(to_onnx(forest, operator=operator), path)
    assert from_onnx(path).to_json() == from_onnx(str(path)).to_json() == forest.to_json()


def test_what_no_row_can_reach_is_left_out():
    """Such as nodes that Ctrl-C left without a parent."""
    forest = small_forest()
    expected = from_onnx(to_onnx(forest)).to_json()
    forest.feature.append(LEAF)
    forest.threshold.append(7.0)
    forest.right.append(0)
    assert from_onnx(to_onnx(forest)).to_json() == expected


@pytest.mark.parametrize("operator", ["classic", "v5"])
def test_a_change_anywhere_in_the_trees_is_noticed(operator):
    """Every attribute in turn, one number of it."""
    model = to_onnx(small_forest(), operator=operator)
    place = next(i for i, n in enumerate(model.graph.node) if n.op_type.startswith("TreeEns"))
    for a in range(len(model.graph.node[place].attribute)):
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        attribute = changed.graph.node[place].attribute[a]
        if attribute.ints:
            attribute.ints[-1] += 1
        elif attribute.floats:
            attribute.floats[-1] += 1
        elif attribute.strings:
            attribute.strings[0] = b"BRANCH_GT"
        elif attribute.HasField("t"):
            data = attribute.t.raw_data
            attribute.t.raw_data = bytes([data[0] ^ 1]) + data[1:]
        else:
            attribute.i += 1
        with pytest.raises(ValueError, match=r"altered|damaged"):
            from_onnx(changed)


def test_other_models_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not an ONNX model"):
        from_onnx(b"{}")
    with pytest.raises(ValueError, match="was not made by to_onnx"):
        from_onnx(onnx.ModelProto())
    with pytest.raises(TypeError, match=r"^model must be an ONNX model"):
        from_onnx(7)
    with pytest.raises(FileNotFoundError):
        from_onnx(tmp_path / "absent.onnx")
    model = to_onnx(small_forest())
    del model.metadata_props[:]
    with pytest.raises(ValueError, match="was not made by to_onnx"):
        from_onnx(model)


def test_no_file_that_a_model_names_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = to_onnx(small_forest(), operator="v5")
    (table,) = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.UINT16]
    (tmp_path / "votes.bin").write_bytes(table.raw_data)
    table.ClearField("raw_data")
    table.data_location = onnx.TensorProto.EXTERNAL
    table.external_data.add(key="location", value="votes.bin")
    with pytest.raises(ValueError, match=r"altered|damaged"):
        from_onnx(model.SerializeToString())


@pytest.mark.parametrize("operator", ["classic", "v5"])
def test_broken_models_are_refused_with_a_sentence(operator):
    """Bytes that were changed, cut and doubled; hundreds of them."""
    r = random.Random(5)
    forest = train([[0.0, 3], [1.0, None]] * 9, ["a", "b"] * 9, n_trees=2, max_depth=2)
    whole = to_onnx(forest, operator=operator).SerializeToString()
    refused = 0
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(r.choice([1, 1, 2, 8])):
            i = r.randrange(len(data))
            how = r.randrange(4)
            if how == 0:
                data[i] = r.randrange(256)
            elif how == 1:
                del data[i : i + r.randrange(1, 40)]
            elif how == 2:
                data[i:i] = data[r.randrange(len(data)) :][: r.randrange(1, 40)]
            else:
                data[i] ^= 1 << r.randrange(8)
            data = data or bytearray(b"\0")
        try:
            found = from_onnx(bytes(data))
        except ValueError:
            refused += 1
        else:  # where nothing of the forest was hit
            assert found.to_json() == forest.to_json()
    assert refused > 150


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head.update(classes=["c"] * 100_000),
        lambda head: head.update(classes=None),
        lambda head: head.update(classes=7),
        lambda head: head.update(wide=True),
        lambda head: head.update(roots="AAAA"),
        lambda head: head.update(scale=0),
        lambda head: head.pop("features"),
        lambda head: head.update(version=99),
    ],
)
def test_broken_metadata_is_refused(change):
    model = to_onnx(small_forest())
    head = json.loads(entries(model)["edgeforest"])
    change(head)
    set_entry(model, "edgeforest", json.dumps(head, separators=(",", ":")))
    with pytest.raises(ValueError, match=r"model|edgeforest"):
        from_onnx(model)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "null", "[]", '{"format":"edgeforest"}'])
def test_metadata_that_is_not_a_header_is_refused(text):
    model = to_onnx(small_forest())
    set_entry(model, "edgeforest", text)
    with pytest.raises(ValueError, match="the model is damaged inside"):
        from_onnx(model)


def set_entry(model: onnx.ModelProto, key: str, value: str) -> None:
    for entry in model.metadata_props:
        if entry.key == key:
            entry.value = value


STRANGE: list[Any] = [
    *(
        None,
        True,
        False,
        -1,
        0,
        2,
        255,
        65536,
        2**31,
        2**64,
        1e308,
        -0.0,
        "",
        "AAAA",
        "gini",
        "mse",
    ),
    *([], {}, [None], [[]], [0] * 9, ["a"] * 300, {"a": [1]}, "A" * 5000, [["a", "a"]] * 3),
]
LETTERS = '0123456789-+.eE[]{}",:/=ABCabc\\ nulltruefalseä\0'


def spoiled(text: str, r: random.Random) -> str:
    """Metadata with a few letters of it changed, or, if it is an object, a few of its values."""
    if text.startswith("{") and r.random() < 0.5:
        head = json.loads(text)
        for key in r.sample(sorted(head), r.choice([1, 1, 2])):
            values = head[key]
            if isinstance(values, list) and values and r.random() < 0.5:
                values[r.randrange(len(values))] = r.choice(STRANGE)
            else:
                head[key] = r.choice(STRANGE)
        return json.dumps(head, separators=(",", ":"), ensure_ascii=False)
    for _ in range(r.choice([1, 1, 2, 5])):
        i = r.randrange(len(text) + 1)
        other = "".join(r.choices(LETTERS, k=r.choice([0, 1, 1, 6])))
        text = text[:i] + other + text[i + r.choice([0, 1, 1, 9]) :]
    return text


def reseal(model: onnx.ModelProto) -> None:
    """Give the model the checksum that fits its metadata, if it can still be computed."""
    (trees,) = (n for n in model.graph.node if n.op_type in onnx_model.OPERATORS)
    try:
        attributes = onnx_trees.attributes_of(trees)
        body, _, _ = onnx_trees.rebuild(model, attributes, entries(model)).rpartition(',"crc32":"')
    except Exception:
        return
    text = entries(model)["edgeforest"].rpartition(',"crc32":"')[0]
    set_entry(model, "edgeforest", f'{text},"crc32":"{zlib.crc32(body.encode()):08x}"}}')


@pytest.mark.parametrize("operator", ["classic", "v5"])
def test_metadata_of_all_sorts_is_refused_with_a_sentence_or_harmless(operator, figure):
    """Under a checksum that fits: otherwise that alone would refuse it; hundreds of them."""
    r = random.Random(6)
    whole = to_onnx(sharing_forest(), operator=operator)
    assert len(entries(whole)) == 3
    refused: dict[str, int] = {}
    for _ in range(500):
        model = onnx.ModelProto()
        model.CopyFrom(whole)
        entry = model.metadata_props[r.choice([0, 0, 0, 1, 2])]
        entry.value = spoiled(entry.value, r)
        reseal(model)
        try:
            forest = from_onnx(model)
        except ValueError as error:
            refused[str(error)] = refused.get(str(error), 0) + 1
        else:  # what the trees say is the same
            row = array("f", [0.0] * forest.n_features)
            assert 0 <= forest.predict_into(row, [0] * forest.n_votes) < forest.n_votes
            assert forest.feature == sharing_forest().feature
    figure(f"{sum(refused.values())} of 500 refused, in {len(refused)} different sentences")
    assert all(len(sentence) > 15 for sentence in refused)
    assert 150 < sum(refused.values()) < 500
    assert not any("checksum" in sentence for sentence in refused)  # it was not that alone


# ---- skl2onnx ----------------------------------------------------------------------------------

skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is missing: pip install .[test]")
ESTIMATORS = [
    edgeforest.RandomForestClassifier,
    edgeforest.ExtraTreesClassifier,
    edgeforest.RandomPatchesClassifier,
    edgeforest.RandomForestRegressor,
    edgeforest.ExtraTreesRegressor,
    edgeforest.RandomPatchesRegressor,
]


def scaled(model: Any, classes: int = 3, dtype: Any = np.float32) -> tuple[Any, Any]:
    """A pipeline that was fitted, and rows for it, some of them with missing values."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import edgeforest.export.skl2onnx_converter  # noqa: F401

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0] * 2).astype(int) % classes
    return make_pipeline(StandardScaler(), model).fit(X, y), X


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_skl2onnx_converts_a_pipeline(kind):
    check_converted(*scaled(kind(8, random_state=0)))


def check_converted(model: Any, X: Any) -> None:
    """Whether the model that skl2onnx makes predicts what the estimator or pipeline predicts."""
    options = {"zipmap": False} if hasattr(model, "predict_proba") else None
    found = in_onnxruntime(skl2onnx.to_onnx(model, X[:1], options=options), {"X": X})
    if options:
        assert found["label"].tolist() == model.predict(X).tolist()
        shares = model.predict_proba(X).astype(np.float32)
        assert found["probabilities"].tobytes() == shares.tobytes()
    else:
        assert found["variable"].ravel().tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_skl2onnx_converts_what_learned_row_by_row(kind, fitted):
    """The forest of `partial_fit`, from nothing and after `fit`, as it is after every batch."""
    import edgeforest.export.skl2onnx_converter  # noqa: F401

    rng = np.random.default_rng(1)
    X = rng.normal(size=(900, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = (np.nan_to_num(X[:, 0]) > 0) + 2 * (np.nan_to_num(X[:, 1]) > 0.5)
    model = kind(4, random_state=0)
    if fitted:
        model.fit(X[:300], y[:300])
    forests = []
    for batch in np.split(np.arange(900), 3):
        model.partial_fit(X[batch], y[batch])
        forests.append(model.forest_.to_json())
        check_converted(model, X)
        assert from_onnx(to_onnx(model)).to_json() == onnx_trees.trimmed(model).to_json()
    assert len(set(forests)) == 3  # it did learn


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [3, 70], [2.0, 5.0]])
@pytest.mark.parametrize("zipmap", [True, False, "columns"])
def test_skl2onnx_zips_shares_with_their_labels(labels, zipmap):
    import edgeforest.export.skl2onnx_converter

    X = np.array([[i % 7, i % 3] for i in range(90)], np.float32)
    y = np.array(labels)[(X[:, 0] > 3).astype(int)]
    model = edgeforest.RandomForestClassifier(5, random_state=0).fit(X, y)
    made = skl2onnx.to_onnx(model, X[:1], options={"zipmap": zipmap})
    session = onnxruntime.InferenceSession(made.SerializeToString())
    first, *rest = session.run(None, {"X": X})
    assert first.tolist() == model.predict(X).tolist()
    shares = model.predict_proba(X).astype(np.float32)
    if zipmap is True:
        assert list(rest[0][0]) == labels
        rest = [[list(row.values()) for row in rest[0]]]
    elif zipmap == "columns":
        rest = [np.column_stack(rest)]
    assert np.array(rest[0], np.float32).tobytes() == shares.tobytes()


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
@pytest.mark.parametrize("opset", [None, 11, {"": 15, "ai.onnx.ml": 1}])
def test_skl2onnx_casts_other_numbers(dtype, opset):
    import edgeforest.export.skl2onnx_converter

    X = np.array([[i % 7, i % 3 + 16777216] for i in range(90)], dtype)
    model = edgeforest.RandomForestRegressor(5, random_state=0).fit(X, X[:, 0])
    made = skl2onnx.to_onnx(model, X[:1], target_opset=opset)
    found = in_onnxruntime(made, {"X": X})["variable"]
    assert found.ravel().tolist() == model.predict(X).tolist()


def test_skl2onnx_encodes_categories():
    import pandas as pd
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    import edgeforest.export.skl2onnx_converter

    frame = pd.DataFrame(
        {
            "temp": np.array([19.5, 24.0, np.nan, 22.5] * 50, np.float32),
            "window": ["shut", "open", "open", "gone"] * 50,
            "floor": np.array([3, 7, 1, 3, 7] * 40, np.float32),
        }
    )
    model = edgeforest.RandomForestClassifier(
        10, categorical_features=["window", "floor"], random_state=0
    ).fit(frame, frame.window == "open")
    column, text = FloatTensorType([None, 1]), StringTensorType([None, 1])
    made = skl2onnx.convert_sklearn(
        model,
        initial_types=[("temp", column), ("window", text), ("floor", column)],
        options={"zipmap": False},
    )
    frame.loc[:9, "window"] = "new"
    frame.loc[20:29, "floor"] = 5
    feeds = {name: frame[[name]].to_numpy() for name in frame}
    feeds["window"] = feeds["window"].astype(object)
    found = in_onnxruntime(made, feeds)
    shares = model.predict_proba(frame).astype(np.float32)
    assert found["probabilities"].tobytes() == shares.tobytes()
    with pytest.raises(ValueError, match="feature 'window' has text"):
        skl2onnx.convert_sklearn(model, initial_types=[("X", FloatTensorType([None, 3]))])
    # Numbers in one tensor: each category's own number, not its code.
    model = edgeforest.RandomForestClassifier(5, categorical_features=[1], random_state=0)
    X = frame[["temp", "floor"]].to_numpy()
    model.fit(X, frame.window)
    made = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False})
    assert in_onnxruntime(made, {"X": X})["label"].tolist() == model.predict(X).tolist()
