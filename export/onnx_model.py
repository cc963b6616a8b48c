"""A forest as an ONNX model, and our own ONNX models back as forests.

>>> from edgeforest import train
>>> from edgeforest.export.onnx_model import from_onnx, to_onnx
>>> forest = train([[i % 7] for i in range(60)], [i % 7 > 2 for i in range(60)], n_trees=4)
>>> model = to_onnx(forest)
>>> [output.name for output in model.graph.output]
['label', 'probabilities']
>>> from_onnx(model).to_json() == forest.to_json()
True

A runtime predicts what `Forest.predict` and `predict_proba` predict, to the last bit of float32:
thresholds are float32, votes are whole numbers whose sums are exact in float32, and each step after
them rounds once. The trees are in a `TreeEnsembleRegressor`, which every runtime computes correctly;
with two classes, runtimes differ about the classifier operator of ONNX.
"""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgeforest import engines, sure
from edgeforest.checks import one_of
from edgeforest.forest import SUM, Forest
from edgeforest.forests import walking
from edgeforest.host.version import __version__
from edgeforest.loading import load

from .onnx_trees import (
    COVERAGE,
    KEY,
    Operator,
    attributes_of,
    has_just,
    is_trimmed,
    metadata,
    rebuild,
    tree_attributes,
    trimmed,
)
from .onnx_values import Array, category_array, label_array, little_endian, tensor_type

Inputs: TypeAlias = Literal["tensor", "columns"]

ML = "ai.onnx.ml"
OPSET = 9  # of ONNX itself: what follows the trees needs no more
IR = {"classic": 4, "v5": 10}  # versions that runtimes of their time read
OPERATORS: dict[str, Operator] = {"TreeEnsembleRegressor": "classic", "TreeEnsemble": "v5"}


def to_onnx(
    forest: Any,
    *,
    operator: Operator = "classic",
    inputs: Inputs = "tensor",
    coverage: float | None = None,
    name: str = "edgeforest",
    doc: str | None = None,
) -> onnx.ModelProto:
    """An ONNX model that predicts what the forest (or a fitted estimator) predicts, bit for bit.

    `operator="classic"` runs on every onnxruntime, in browsers too. `operator="v5"` uses the newer
    `TreeEnsemble`: a smaller file for onnxruntime 1.21 and up.

    `inputs="tensor"` takes one float tensor `X` of shape [rows, features]: NaN is missing, and a
    category is its code, the place in the feature's list of categories counted from 1 (NaN for one
    that is not in it). `inputs="columns"` takes one input of shape [rows, 1] for each feature,
    under its name: floats, or text where categories are text; unknown categories count as missing.

    Outputs are `label` [rows] and `probabilities` [rows, classes], or `value` [rows, 1] for a
    regression. With `coverage`, a calibrated forest also gives `lower` and `upper` [rows, 1] of a
    regression (see `Forest.predict_interval`), or `set` [rows, classes], true for each class that is
    in the set (see `predict_set`); the same to the last bit. The metadata entry `edgeforest` is JSON with the features' names, their categories,
    the classes and what training spent.

    >>> from edgeforest import train
    >>> forest = train([["wet"], ["dry"]] * 9, ["stay", "go"] * 9, categorical=[0], names=["sky"])
    >>> [i.name for i in to_onnx(forest, inputs="columns").graph.input]
    ['sky']
    """
    one_of("operator", operator, ("classic", "v5"))
    one_of("inputs", inputs, ("tensor", "columns"))
    forest = trimmed(forest)
    graph = _Graph()
    rows = _columns(graph, forest) if inputs == "columns" else _tensor(graph, forest)
    number = None if coverage is None else sure.number_for(forest, coverage)
    sums = votes(graph, summed(forest, number is not None), rows, operator)
    outputs = _outputs(graph, forest, sums, number)
    made = helper.make_graph(graph.nodes, name, graph.inputs, outputs, graph.constants)
    opsets = {"": OPSET, ML: _ml_version(graph, operator)}
    model = helper.make_model(
        made,
        ir_version=IR[operator],
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets.items()],
        producer_name="edgeforest",
        producer_version=__version__,
        doc_string=_about(forest) if doc is None else doc,
    )
    helper.set_model_props(model, metadata(forest, coverage))
    onnx.checker.check_model(model)
    return model


def _outputs(
    graph: _Graph, forest: Forest, sums: str, number: int | None
) -> list[onnx.ValueInfoProto]:
    """Add what follows the summed votes; the outputs of the model."""
    if forest.classes is None:
        totals = {graph.fresh("value"): sums}
        if number is not None:
            names = graph.fresh("lower"), graph.fresh("upper")
            total, ends = bounds(graph, forest, sums, number)
            totals = {**dict.fromkeys(totals, total), **dict(zip(names, ends, strict=True))}
        for out, total in totals.items():
            value(graph, forest, total, out)
        return [helper.make_tensor_value_info(out, TensorProto.FLOAT, [None, 1]) for out in totals]
    labels = label_array(forest.classes)
    first, second = graph.fresh("label"), graph.fresh("probabilities")
    label(graph, sums, labels, first)
    shares(graph, sums, second)
    shape = [None, forest.n_votes]
    found = [
        helper.make_tensor_value_info(first, tensor_type(labels), [None]),
        helper.make_tensor_value_info(second, TensorProto.FLOAT, shape),
    ]
    if number is not None:
        third = graph.fresh("set")
        inside(graph, forest, sums, number, third)
        found.append(helper.make_tensor_value_info(third, TensorProto.BOOL, shape))
    return found


def from_onnx(model: onnx.ModelProto | str | bytes | PathLike[str]) -> Forest:
    """The forest of an ONNX model that `to_onnx` wrote: a ModelProto, its bytes, or a path.

    Its JSON is that of the exported forest. Any other model is refused with a ValueError, and so is
    one whose trees were changed. Nothing in the model is executed, and no file that it names is
    read.

    >>> from_onnx(b"something else")
    Traceback (most recent call last):
    ValueError: this is not an ONNX model; give a file that to_onnx's model was saved to
    """
    proto = _parse(model)
    meta = {entry.key: entry.value for entry in proto.metadata_props}
    trees = [node for node in proto.graph.node if node.domain == ML and node.op_type in OPERATORS]
    if KEY not in meta or len(trees) != 1:
        raise ValueError(
            "this ONNX model was not made by to_onnx, and only such a model holds a whole forest"
        )
    try:
        operator = OPERATORS[trees[0].op_type]
        text = rebuild(proto, attributes_of(trees[0]), meta)
    except MemoryError:
        raise
    except Exception:
        raise ValueError("the model is damaged inside; export it again") from None
    forest = engines.with_predictor(load(text))
    made = summed(forest, COVERAGE in meta)
    if not is_trimmed(forest) or not has_just(tree_attributes(made, operator), trees[0]):
        raise ValueError("the model was altered: its trees are not those of its metadata")
    return forest


# ---- The graph ---------------------------------------------------------------------------------


class Builder(Protocol):
    """A graph that nodes are added to: our own, or that of another exporter."""

    def add(
        self, op: str, inputs: list[str], output: str = "", domain: str = "", **attributes: Any
    ) -> str:
        """Add a node; returns the name of its output, a new one by default."""

    def constant(self, name: str, values: Array) -> str:
        """Add a constant; returns its name."""


class _Graph:
    """Nodes, constants and inputs of a model that is being made."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self._names: set[str] = set()

    def fresh(self, name: str) -> str:
        """This name, or one like it that is not taken."""
        found, n = name, 1
        while found in self._names:
            found, n = f"{name}_{n}", n + 1
        self._names.add(found)
        return found

    def input(self, name: str, kind: int, columns: int) -> str:
        """Add an input; returns its name."""
        self.inputs.append(helper.make_tensor_value_info(self.fresh(name), kind, [None, columns]))
        return name

    def add(
        self, op: str, inputs: list[str], output: str = "", domain: str = "", **attributes: Any
    ) -> str:
        output = output or self.fresh(op.lower())
        self.nodes.append(helper.make_node(op, inputs, [output], domain=domain, **attributes))
        return output

    def constant(self, name: str, values: Array) -> str:
        kind = tensor_type(values)
        text = kind == TensorProto.STRING
        content: Any = [v.encode() for v in values] if text else little_endian(values).tobytes()
        name = self.fresh(name)
        self.constants.append(helper.make_tensor(name, kind, values.shape, content, raw=not text))
        return name


def votes(graph: Builder, forest: Forest, rows: str, operator: Operator = "classic") -> str:
    """The summed votes of all trees: [rows, classes], or [rows, 1] for a regression."""
    attributes = tree_attributes(forest, operator)
    if operator == "classic":
        return graph.add("TreeEnsembleRegressor", [rows], domain=ML, **attributes)
    found = graph.add("TreeEnsemble", [rows], domain=ML, **attributes)
    if forest.classes is None:
        return found
    # A leaf of TreeEnsemble has one number: here its place in a table of votes. Each tree has a
    # target of its own, so that places are not summed up.
    table = walking.vote_table(forest).astype(np.uint16)
    wide = graph.add("Cast", [graph.constant("votes", table)], to=TensorProto.FLOAT)
    places = graph.add("Cast", [found], to=TensorProto.INT64)
    leaves = graph.add("Gather", [wide, places], axis=0)
    return graph.add("ReduceSum", [leaves], axes=[1], keepdims=0)


def label(graph: Builder, sums: str, labels: Array, out: str) -> None:
    """The class with the most votes; the first one of equals."""
    best = graph.add("ArgMax", [sums], axis=1, keepdims=0)
    graph.add("Gather", [graph.constant("classes", labels), best], out, axis=0)


def shares(graph: Builder, sums: str, out: str) -> None:
    """The share of each class in the votes; zeros where there are none."""
    total = graph.add("ReduceSum", [sums], axes=[1], keepdims=1)
    one = graph.constant("one", np.array([1], np.float32))
    graph.add("Div", [sums, graph.add("Max", [total, one])], out)


def value(graph: Builder, forest: Forest, total: str, out: str) -> None:
    """The prediction of a regression, in the same steps as `Forest.value`."""
    step = np.array([forest.step()], np.float32)
    part = graph.add("Mul", [total, graph.constant("step", step)])
    graph.add("Add", [part, graph.constant("low", np.array([forest.low], np.float32))], out)


def summed(forest: Forest, with_squares: bool) -> Forest:
    """The forest whose votes a graph sums up: a regression's twin, if squares are asked for."""
    if not with_squares or not forest.regression:
        return forest
    twin = sure.twin_of(forest)
    if (twin.scale - 1) * len(forest) > SUM:
        raise ValueError(
            "squares of these votes add up to more than float32 sums exactly, since some trees weigh "
            "much more than others; leave out coverage"
        )
    return twin


def bounds(graph: Builder, forest: Forest, sums: str, number: int) -> tuple[str, list[str]]:
    """The summed votes, and both ends of the interval around them: `sure.bounds`."""

    def constant(what: str, value: float, kind: Any) -> str:
        return graph.constant(what, np.array([value], kind))

    columns = [graph.add("Slice", [sums], axes=[1], starts=[k], ends=[k + 1]) for k in range(3)]
    # Sums of squares are whole numbers below 2^48, which float64 holds exactly.
    total, high, low = (graph.add("Cast", [one], to=TensorProto.DOUBLE) for one in columns)
    base = constant("base", sure.twin_of(forest).scale, np.float64)
    squares = graph.add("Add", [graph.add("Mul", [high, base]), low])
    trees = constant("trees", len(forest), np.float64)
    squares = graph.add("Mul", [squares, trees])
    squares = graph.add("Sub", [squares, graph.add("Mul", [total, total])])
    spread = graph.add("Cast", [graph.add("Sqrt", [squares])], to=TensorProto.INT64)
    assert forest.calibration
    floor = constant("floor", forest.calibration[0], np.int64)
    reach = graph.add("Mul", [graph.add("Add", [spread, floor]), constant("n", number, np.int64)])
    reach = graph.add("Div", [reach, constant("width", sure.WIDTH, np.int64)])
    middle = graph.add("Cast", [total], to=TensorProto.INT64)
    ends = [graph.add(op, [middle, reach]) for op in ("Sub", "Add")]
    # Beyond the ends of the range float32 may round, but not back into it.
    lower, upper = (graph.add("Cast", [end], to=TensorProto.FLOAT) for end in ends)
    least = constant("least", 0, np.float32)
    most = constant("most", forest.scale * len(forest), np.float32)
    return columns[0], [graph.add("Max", [lower, least]), graph.add("Min", [upper, most])]


def inside(graph: Builder, forest: Forest, sums: str, number: int, out: str) -> None:
    """Whether each class is in the set, as `sure.predict_set` has it."""
    whole = graph.add("Cast", [sums], to=TensorProto.INT64)
    share = graph.constant("share", np.array([sure.SHARE], np.int64))
    total = graph.add("ReduceSum", [sums], axes=[1], keepdims=1)
    total = graph.add("Cast", [total], to=TensorProto.INT64)
    least = graph.add("Mul", [total, graph.constant("number", np.array([number], np.int64))])
    short = graph.add("Less", [graph.add("Mul", [whole, share]), least])
    places = graph.constant("places", np.arange(forest.n_votes, dtype=np.int64).reshape(1, -1))
    best = graph.add("ArgMax", [sums], axis=1, keepdims=1)
    first = graph.add("Equal", [best, places])
    graph.add("Or", [graph.add("Not", [short]), first], out)


def zero_is_missing(graph: Builder, forest: Forest, rows: str) -> str:
    """Rows with NaN for a category's code 0; the same rows where that makes no difference."""
    nodes = walking.arrays(forest)
    if not (nodes.categorical & nodes.missing_left).any():
        return rows
    categorical = np.array([[kinds is not None for kinds in forest.categories]])
    zero = graph.add("Not", [graph.add("Cast", [rows], to=TensorProto.BOOL)])
    missing = graph.add("And", [zero, graph.constant("categorical", categorical)])
    nan = graph.constant("missing", np.array([np.nan], np.float32))
    return graph.add("Where", [missing, nan, rows])


def category_codes(graph: Builder, kinds: list[Any], name: str, column: str) -> str:
    """The codes of a column of categories, from 1; NaN for any other value."""
    keys = category_array(kinds, name)
    attributes: dict[str, Any] = {
        "values_floats": [float(c + 1) for c in range(len(kinds))],
        "default_float": np.nan,
    }
    if keys.dtype == object:
        attributes["keys_strings"] = [v.encode() for v in keys]
    else:
        attributes["keys_floats" if keys.dtype == np.float32 else "keys_int64s"] = keys.tolist()
    return graph.add("LabelEncoder", [column], domain=ML, **attributes)


def _tensor(graph: _Graph, forest: Forest) -> str:
    rows = graph.input("X", TensorProto.FLOAT, forest.n_features)
    return zero_is_missing(graph, forest, rows)


def _columns(graph: _Graph, forest: Forest) -> str:
    """One input for each feature, joined into rows."""
    names = forest.names
    if len(set(names)) < len(names) or "" in names:
        raise ValueError("inputs='columns' needs features with names of their own; use 'tensor'")
    columns = []
    for name, kinds in zip(names, forest.categories, strict=True):
        kind = TensorProto.FLOAT if kinds is None else tensor_type(category_array(kinds, name))
        columns.append(graph.input(name, kind, 1))
    for f, kinds in enumerate(forest.categories):  # now that all names of inputs are taken
        if kinds is not None:
            columns[f] = category_codes(graph, kinds, names[f], columns[f])
    return columns[0] if len(columns) == 1 else graph.add("Concat", columns, axis=1)


def _ml_version(graph: _Graph, operator: Operator) -> int:
    """The lowest opset that has the operators in use."""
    if operator == "v5":
        return 5
    return 2 if any(node.op_type == "LabelEncoder" for node in graph.nodes) else 1


def _parse(model: Any) -> onnx.ModelProto:
    """The model in whatever form it was given; files that it may name are not read."""
    if isinstance(model, onnx.ModelProto):
        return model
    if isinstance(model, (str, PathLike)):
        with open(model, "rb") as stream:
            model = stream.read()
    if not isinstance(model, (bytes, bytearray)):
        raise TypeError(
            f"model must be an ONNX model, its bytes or a path, got {type(model).__name__}"
        )
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(bytes(model))
    except Exception:
        raise ValueError(
            "this is not an ONNX model; give a file that to_onnx's model was saved to"
        ) from None
    return proto


def _about(forest: Forest) -> str:
    what = "a number" if forest.classes is None else f"one of {len(forest.classes)} classes"
    return f"{forest.kind} of {len(forest)} trees by EdgeForest: {what} from {forest.n_features} features"
