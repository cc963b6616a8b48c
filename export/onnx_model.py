"""A forest as an ONNX model, and our own ONNX models back as forests.

>>> from edgeforest import train
>>> from edgeforest.export.onnx_model import from_onnx, to_onnx
>>> forest = train([[i % 7] for i in range(60)], [i % 7 > 2 for i in range(60)], n_trees=4)
>>> model = to_onnx(forest)
>>> [output.name for output in model.graph.output]
['label', 'probabilities']
>>> from_onnx(model).to_json() == forest.to_json()
True

A runtime says what `Forest.predict` and `predict_proba` say, to the last bit of float32: thresholds
are float32, votes are whole numbers whose sums float32 holds, and each step after them is one
rounding. The trees stand in `TreeEnsembleRegressor`, which every runtime gets right; the classifier
operator of ONNX does not have that distinction with two classes.
"""

from __future__ import annotations

import base64
import json
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

import edgeforest
from edgeforest import engines as engine
from edgeforest.checks import one_of
from edgeforest.forest import EQUAL, FEATURE, LEAF, MISSING_LEFT, SUM, Forest
from edgeforest.forests.merging import keep
from edgeforest.loading import load

from .packing import as_forest

Operator: TypeAlias = Literal["classic", "v5"]
Inputs: TypeAlias = Literal["tensor", "columns"]
Array: TypeAlias = NDArray[Any]

ML = "ai.onnx.ml"
OPSET = 9  # of ONNX itself: what follows the trees needs no more
IR = {"classic": 4, "v5": 10}  # versions that runtimes of their time read
KEY = "edgeforest"  # in the metadata: the model's JSON without its big arrays
PLACES = "edgeforest_places"  # ... and where leaves share votes, who has which
CLASSES = 4096  # as many as training takes
# Comparisons, by their numbers in TreeEnsemble.
MODES = {0: b"BRANCH_LEQ", 1: b"BRANCH_LT", 4: b"BRANCH_EQ", 5: b"BRANCH_NEQ"}
LEQ, LT, EQ, NEQ = MODES


def to_onnx(
    forest: Any,
    *,
    operator: Operator = "classic",
    inputs: Inputs = "tensor",
    name: str = "edgeforest",
    doc: str | None = None,
) -> onnx.ModelProto:
    """An ONNX model that predicts what the forest (or a fitted estimator) predicts, bit for bit.

    `operator="classic"` runs on every onnxruntime, in browsers too. `operator="v5"` uses the newer
    `TreeEnsemble`: a smaller file for onnxruntime 1.21 and up.

    `inputs="tensor"` takes one float tensor `X` of shape [rows, features]: NaN is missing, and a
    category is its code, the place in the feature's list of categories counted from 1 (NaN for one
    that is not in it). `inputs="columns"` takes one input of shape [rows, 1] for each feature,
    under its name: floats, or text where categories are text; unknown categories go as missing.

    Outputs are `label` [rows] and `probabilities` [rows, classes], of a regression `value`
    [rows, 1]. The metadata entry `edgeforest` is JSON with the features' names, their categories,
    the classes and what training spent.

    >>> from edgeforest import train
    >>> forest = train([["wet"], ["dry"]] * 9, ["stay", "go"] * 9, categorical=[0], names=["sky"])
    >>> [i.name for i in to_onnx(forest, inputs="columns").graph.input]
    ['sky']
    """
    one_of("operator", operator, ("classic", "v5"))
    one_of("inputs", inputs, ("tensor", "columns"))
    forest = tidy(forest)
    graph = _Graph()
    rows = _columns(graph, forest) if inputs == "columns" else _tensor(graph, forest)
    sums = votes(graph, forest, rows, operator)
    outputs = []
    if forest.classes is None:
        out = graph.fresh("value")
        value(graph, forest, sums, out)
        outputs.append(helper.make_tensor_value_info(out, TensorProto.FLOAT, [None, 1]))
    else:
        labels = label_array(forest.classes)
        first, second = graph.fresh("label"), graph.fresh("probabilities")
        label(graph, sums, labels, first)
        shares(graph, sums, second)
        kind = tensor_type(labels)
        outputs.append(helper.make_tensor_value_info(first, kind, [None]))
        shape = [None, forest.n_votes]
        outputs.append(helper.make_tensor_value_info(second, TensorProto.FLOAT, shape))
    made = helper.make_graph(graph.nodes, name, graph.inputs, outputs, graph.constants)
    opsets = {"": OPSET, ML: _ml_version(graph, operator)}
    model = helper.make_model(
        made,
        ir_version=IR[operator],
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets.items()],
        producer_name="edgeforest",
        producer_version=edgeforest.__version__,
        doc_string=_about(forest) if doc is None else doc,
    )
    helper.set_model_props(model, _metadata(forest))
    onnx.checker.check_model(model)
    return model


def from_onnx(model: onnx.ModelProto | str | bytes | PathLike[str]) -> Forest:
    """The forest of an ONNX model that `to_onnx` wrote: a ModelProto, its bytes, or a path.

    Its JSON is that of the forest that was exported. Any other model is refused with a ValueError,
    and so is one whose trees were changed. Nothing in the model is executed, and no file that it
    names is read.

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
        text = _rebuild(proto, _attributes(trees[0]), meta)
    except MemoryError:
        raise
    except Exception:
        raise ValueError("the model is damaged inside; export it again") from None
    forest = engine.with_predictor(load(text))
    if not _is_tidy(forest) or not _same(_tree_attributes(forest, operator), trees[0]):
        raise ValueError("the model was altered: its trees are not those of its metadata")
    return forest


OPERATORS: dict[str, Operator] = {"TreeEnsembleRegressor": "classic", "TreeEnsemble": "v5"}


# ---- The graph ---------------------------------------------------------------------------------


class Builder(Protocol):
    """What nodes are added to: a graph of our own, or that of another exporter."""

    def add(
        self, op: str, inputs: list[str], output: str = "", domain: str = "", **attributes: Any
    ) -> str:
        """Add a node; the name of its output, which is a new one unless it is given."""

    def constant(self, name: str, values: Array) -> str:
        """Add a constant; its name."""


class _Graph:
    """Nodes, constants and inputs of a model in the making."""

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

    def input(self, name: str, kind: int, width: int) -> str:
        self.inputs.append(helper.make_tensor_value_info(self.fresh(name), kind, [None, width]))
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
        content: Any = [v.encode() for v in values] if text else _little(values).tobytes()
        name = self.fresh(name)
        self.constants.append(helper.make_tensor(name, kind, values.shape, content, raw=not text))
        return name


def votes(graph: Builder, forest: Forest, rows: str, operator: Operator = "classic") -> str:
    """The summed votes of all trees: [rows, classes], or [rows, 1] of a regression."""
    attributes = _tree_attributes(forest, operator)
    if operator == "classic":
        return graph.add("TreeEnsembleRegressor", [rows], domain=ML, **attributes)
    found = graph.add("TreeEnsemble", [rows], domain=ML, **attributes)
    if forest.classes is None:
        return found
    # A leaf of TreeEnsemble has one number: here its place in a table of votes. Each tree has a
    # target of its own, so that places are not summed up.
    table = np.array(forest.votes, np.uint16).reshape(-1, forest.n_votes)
    wide = graph.add("Cast", [graph.constant("votes", table)], to=TensorProto.FLOAT)
    places = graph.add("Cast", [found], to=TensorProto.INT64)
    leaves = graph.add("Gather", [wide, places], axis=0)
    return graph.add("ReduceSum", [leaves], axes=[1], keepdims=0)


def label(graph: Builder, sums: str, labels: Array, out: str) -> None:
    """The class with the most votes; of equals the first."""
    best = graph.add("ArgMax", [sums], axis=1, keepdims=0)
    graph.add("Gather", [graph.constant("classes", labels), best], out, axis=0)


def shares(graph: Builder, sums: str, out: str) -> None:
    """The share of each class in the votes; zeros where there are none."""
    total = graph.add("ReduceSum", [sums], axes=[1], keepdims=1)
    one = graph.constant("one", np.array([1], np.float32))
    graph.add("Div", [sums, graph.add("Max", [total, one])], out)


def value(graph: Builder, forest: Forest, total: str, out: str) -> None:
    """The prediction of a regression, in the very steps of `Forest.value`."""
    step = np.array([forest.span / (forest.scale * len(forest))], np.float32)
    part = graph.add("Mul", [total, graph.constant("step", step)])
    graph.add("Add", [part, graph.constant("low", np.array([forest.low], np.float32))], out)


def zero_is_missing(graph: Builder, forest: Forest, rows: str) -> str:
    """Rows in which a category's code 0 has become NaN; the same rows where it makes no odds."""
    both = EQUAL | MISSING_LEFT
    if not any(f != LEAF and f & both == both for f in forest.feature):
        return rows
    categorical = np.array([[kinds is not None for kinds in forest.categories]])
    zero = graph.add("Not", [graph.add("Cast", [rows], to=TensorProto.BOOL)])
    missing = graph.add("And", [zero, graph.constant("categorical", categorical)])
    nan = graph.constant("missing", np.array([np.nan], np.float32))
    return graph.add("Where", [missing, nan, rows])


def category_codes(graph: Builder, kinds: list[Any], name: str, column: str) -> str:
    """The codes of a column of categories, from 1; NaN for a value that is none of them."""
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
    """One input for each feature, put together as rows."""
    names = forest.names
    if len(set(names)) < len(names) or "" in names:
        raise ValueError("features need names of their own for inputs='columns'; use 'tensor'")
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


# ---- Trees as attributes, and back -------------------------------------------------------------


def tidy(forest: Any) -> Forest:
    """The forest of an estimator, or a forest; without what no row can reach."""
    found = as_forest(forest)
    if not _is_tidy(found):  # Ctrl-C may have left nodes without a parent
        if None in _ends(found):
            raise ValueError("the trees of this forest share nodes; load one that train made")
        found = keep(found, list(range(len(found))))
        for i, f in enumerate(found.feature):
            if f == LEAF:
                found.threshold[i] = 0.0
    most = sum(int(tree.max()) for tree in np.split(*_sums(found)))
    if most > SUM:
        raise ValueError(
            f"votes of this forest can add up to {most}, and float32 holds {SUM} exactly; make "
            "them smaller first"
        )
    return found


def _sums(forest: Forest) -> tuple[Array, Array]:
    """The votes of each leaf in all, and where the leaves of the next trees begin."""
    leaf = np.array(forest.feature) == LEAF
    table = np.array(forest.votes, np.int64).reshape(-1, forest.n_votes).sum(axis=1)
    starts = np.add.accumulate(leaf)[np.array(forest.roots[1:], np.int64) - 1]
    return table[np.array(forest.right)[leaf]], starts


def _ends(forest: Forest) -> list[int | None]:
    """The node after the last of each tree; None if that tree is not in preorder by itself."""
    limits = [*forest.roots[1:], len(forest.feature)]
    return [_end(forest, root, limit) for root, limit in zip(forest.roots, limits, strict=True)]


def _end(forest: Forest, node: int, limit: int) -> int | None:
    waiting = []  # right children that are yet to come
    while node < limit:
        if forest.feature[node] != LEAF:
            waiting.append(forest.right[node])
        elif not waiting:
            return node + 1
        elif waiting.pop() != node + 1:
            return None
        node += 1
    return None


def _is_tidy(forest: Forest) -> bool:
    """Whether every node and every vote is used, and the arrays tell nothing else."""
    leaves = [i for i, f in enumerate(forest.feature) if f == LEAF]
    used = {forest.right[i] for i in leaves}
    return (
        [0, *_ends(forest)] == [*forest.roots, len(forest.feature)]
        and len(used) * forest.n_votes == len(forest.votes)
        and not np.array(forest.threshold).view(np.uint32)[leaves].any()
    )


class _Nodes:
    """The nodes of a tidy forest as whole arrays: what each compares, and where rows go then.

    Of two ways to say "equals", one is safe: onnxruntime folds chains of BRANCH_EQ that lead to
    leaves which it takes for equal although they vote for other classes, unless NaN tracks true.
    So where missing values go right, the question is BRANCH_NEQ, whose true child is the right one.
    A category of code 0 equals nothing, since codes begin at 1: then nothing is below 0 either.
    """

    def __init__(self, forest: Forest) -> None:
        n = len(forest.feature)
        roots = np.array(forest.roots, np.int64)
        feature = np.array(forest.feature, np.int64)
        self.leaf = feature == LEAF
        self.inner = ~self.leaf
        self.tree = np.repeat(np.arange(len(roots)), np.diff(roots, append=n))
        self.root = roots[self.tree]
        self.feature = np.where(self.leaf, 0, feature & FEATURE)
        self.threshold = np.array(forest.threshold, np.float32)
        self.place = np.array(forest.right, np.int64)  # of a leaf: of its votes
        missing_left = self.inner & (feature & MISSING_LEFT > 0)
        equal = self.inner & (feature & EQUAL > 0)
        mode = np.where(missing_left, EQ, NEQ)
        mode = np.where(self.threshold == 0, LT, mode)
        self.mode = np.where(equal, mode, LEQ)
        self.swapped = self.mode == NEQ
        self.tracks = (missing_left | self.swapped).astype(np.int64)
        left, right = np.arange(1, n + 1), self.place
        self.true = np.where(self.swapped, right, left)
        self.false = np.where(self.swapped, left, right)
        # Leaves in the order of their votes, so that the order tells which are whose.
        leaves = np.flatnonzero(self.leaf)
        self.leaves = leaves[np.argsort(self.place[leaves], kind="stable")]


def _tree_attributes(forest: Forest, operator: Operator) -> dict[str, Any]:
    nodes = _Nodes(forest)
    return _classic(forest, nodes) if operator == "classic" else _v5(forest, nodes)


def _classic(forest: Forest, nodes: _Nodes) -> dict[str, Any]:
    """Attributes of TreeEnsembleRegressor; those that may be left out are."""
    table = np.array(forest.votes, np.int64).reshape(-1, forest.n_votes)
    table = table[nodes.place[nodes.leaves]]
    told = table > 0
    told[~told.any(axis=1), 0] = True  # a leaf needs one weight at least
    at, target = np.nonzero(told)
    at = nodes.leaves[at]
    number = np.arange(len(nodes.root)) - nodes.root
    attributes: dict[str, Any] = {
        "n_targets": forest.n_votes,
        "nodes_treeids": nodes.tree.tolist(),
        "nodes_nodeids": number.tolist(),
        "nodes_featureids": nodes.feature.tolist(),
        "nodes_values": nodes.threshold.tolist(),
        "nodes_modes": [
            b"LEAF" if leaf else MODES[mode]
            for leaf, mode in zip(nodes.leaf.tolist(), nodes.mode.tolist(), strict=True)
        ],
        "nodes_truenodeids": np.where(nodes.leaf, 0, nodes.true - nodes.root).tolist(),
        "nodes_falsenodeids": np.where(nodes.leaf, 0, nodes.false - nodes.root).tolist(),
        "target_treeids": nodes.tree[at].tolist(),
        "target_nodeids": number[at].tolist(),
        "target_ids": target.tolist(),
        "target_weights": table[told].astype(np.float64).tolist(),
    }
    if nodes.tracks.any():
        attributes["nodes_missing_value_tracks_true"] = nodes.tracks.tolist()
    return attributes


def _v5(forest: Forest, nodes: _Nodes) -> dict[str, Any]:
    """Attributes of TreeEnsemble, which numbers inner nodes and leaves apart."""
    n = len(nodes.root)
    # A tree of one leaf is written as a question whose answers both lead to that leaf.
    lone = nodes.leaf & (nodes.root == np.arange(n))
    true, false = (np.where(lone, np.arange(n), side) for side in (nodes.true, nodes.false))
    order = np.flatnonzero(nodes.inner | lone)
    name = np.zeros(n, np.int64)
    name[order] = np.arange(len(order))
    asked = name.copy()  # the name as a question, which a lone leaf has too
    name[nodes.leaves] = np.arange(len(nodes.leaves))
    for root in forest.roots:
        # onnxruntime takes a root for a lone leaf if its children, a leaf and a question, have the
        # same number: the root changes places with the question.
        children = true[root], false[root]
        if not lone[root] and name[children[0]] == name[children[1]]:
            child = next(c for c in children if nodes.inner[c])
            asked[root], asked[child] = name[root], name[child] = name[child], name[root]
            order[asked[[root, child]]] = root, child
    weights = np.array(forest.votes, np.float32) if forest.classes is None else np.arange(n)
    targets = np.zeros(n, np.int64) if forest.classes is None else nodes.tree
    attributes: dict[str, Any] = {
        "n_targets": 1 if forest.classes is None else len(forest.roots),
        "tree_roots": asked[np.array(forest.roots, np.int64)].tolist(),
        "nodes_featureids": nodes.feature[order].tolist(),
        "nodes_modes": _attribute_tensor(nodes.mode[order].astype(np.uint8)),
        "nodes_splits": _attribute_tensor(nodes.threshold[order]),
        "nodes_truenodeids": name[true[order]].tolist(),
        "nodes_trueleafs": nodes.leaf[true[order]].astype(int).tolist(),
        "nodes_falsenodeids": name[false[order]].tolist(),
        "nodes_falseleafs": nodes.leaf[false[order]].astype(int).tolist(),
        "leaf_targetids": targets[nodes.leaves].tolist(),
        "leaf_weights": _attribute_tensor(weights[nodes.place[nodes.leaves]].astype(np.float32)),
    }
    if nodes.tracks.any():
        attributes["nodes_missing_value_tracks_true"] = nodes.tracks[order].tolist()
    return attributes


def _metadata(forest: Forest) -> dict[str, str]:
    text = forest.to_json()
    for name in BIG:
        begin, end = _span(text, name)
        text = text[:begin] + text[end:]
    entries = {KEY: text, "edgeforest_version": edgeforest.__version__}
    places = sorted(r for f, r in zip(forest.feature, forest.right, strict=True) if f == LEAF)
    if len(set(places)) < len(places):
        entries[PLACES] = _packed(np.array(places), "<u4")
    return entries


BIG = ("feature", "threshold", "leaf", "votes")  # what the trees in the graph tell


def _span(text: str, name: str) -> tuple[int, int]:
    """Where the value of that name stands in a model's JSON; no text in it can look like this."""
    begin = text.index(f',"{name}":"') + len(name) + 5
    return begin, text.index('"', begin)


def _rebuild(model: onnx.ModelProto, a: dict[str, Any], meta: dict[str, str]) -> str:
    """The JSON of the model: that of the metadata, with the arrays that the trees tell."""
    text = meta[KEY]
    head = json.loads(text)
    width = len(head["classes"] or [0])
    if width > CLASSES:
        raise ValueError
    feature, threshold, right = _read_classic(a) if "nodes_values" in a else _read_v5(a)
    table = _votes_of(model, a, width)
    leaf = feature == LEAF
    if PLACES in meta:
        given = np.frombuffer(base64.b64decode(meta[PLACES], validate=True), "<u4")
        used, first = np.unique(given, return_index=True)
        if len(given) != len(table) or used[-1] != len(used) - 1:
            raise ValueError
        right[leaf] = given[right[leaf]]
        table = table[first]
    ordered = np.array_equal(right[leaf], np.arange(leaf.sum()))
    arrays = {
        "feature": _packed(feature, "<u2"),
        "threshold": _packed(threshold[~leaf], "<f4"),
        "leaf": "" if ordered else _packed(right[leaf], "<u4" if head["wide"] else "<u2"),
        "votes": _packed(table, "|u1" if head["bytes"] else "<u2"),
    }
    for name in BIG:
        begin, end = _span(text, name)
        text = text[:begin] + arrays[name] + text[end:]
    return text


def _features(a: dict[str, Any], mode: Array) -> Array:
    """Features with their flags; those of leaves mean nothing."""
    tracks = np.array(a.get("nodes_missing_value_tracks_true", [0] * len(mode)))
    missing_left = tracks * (mode != NEQ)
    feature = np.array(a["nodes_featureids"])
    found: Array = feature | missing_left * MISSING_LEFT | (mode != LEQ) * EQUAL
    return found


def _read_classic(a: dict[str, Any]) -> tuple[Array, Array, Array]:
    """Nodes as they stand; leaves are numbered in the order in which their weights come."""
    tree = np.array(a["nodes_treeids"])
    numbers = {name: number for number, name in MODES.items()}
    mode = np.array([numbers.get(name, LEQ) for name in a["nodes_modes"]])
    feature = _features(a, mode)
    feature[[name == b"LEAF" for name in a["nodes_modes"]]] = LEAF
    roots = np.flatnonzero(np.array(a["nodes_nodeids"]) == 0)
    sides = np.array(a["nodes_truenodeids"]), np.array(a["nodes_falsenodeids"])
    right = roots[tree] + np.where(mode == NEQ, *sides)
    at = roots[np.array(a["target_treeids"])] + np.array(a["target_nodeids"])
    new = np.diff(at, prepend=-1) != 0  # weights of one leaf stand together
    right[at[new]] = np.arange(new.sum())
    return feature, np.array(a["nodes_values"], np.float32), right


def _read_v5(a: dict[str, Any]) -> tuple[Array, Array, Array]:
    """Nodes in preorder from questions and leaves that are numbered apart."""
    mode = np.frombuffer(a["nodes_modes"].raw_data, np.uint8)
    flags = _features(a, mode)
    splits = np.frombuffer(a["nodes_splits"].raw_data, "<f4")
    true, false = (
        list(zip(a[f"nodes_{side}leafs"], a[f"nodes_{side}nodeids"], strict=True))
        for side in ("true", "false")
    )
    feature: list[int] = []
    threshold: list[float] = []
    right: list[int] = []
    for root in a["tree_roots"]:
        lone = true[root][0] and true[root] == false[root]
        ahead = [(true[root] if lone else (0, root), -1)]
        while ahead:
            (leaf, name), parent = ahead.pop()
            if parent >= 0:
                right[parent] = len(right)
            if len(right) > len(mode) + len(a["leaf_targetids"]):
                raise ValueError  # it runs in a circle
            feature.append(LEAF if leaf else flags[name])
            threshold.append(0.0 if leaf else splits[name])
            right.append(name)
            if not leaf:
                sides = true[name], false[name]
                here, there = sides[::-1] if mode[name] == NEQ else sides
                ahead += [(there, len(right) - 1), (here, -1)]
    return np.array(feature), np.array(threshold, np.float32), np.array(right)


def _votes_of(model: onnx.ModelProto, a: dict[str, Any], width: int) -> Array:
    """The votes of each leaf."""
    if "target_weights" in a:
        weights = np.array(a["target_weights"])
        new = np.diff([a["target_treeids"], a["target_nodeids"]], prepend=-1).any(axis=0)
        table = np.zeros((int(new.sum()), width), np.uint16)
        table[np.cumsum(new) - 1, np.array(a["target_ids"])] = _whole(weights)
        return table
    weights = _whole(np.frombuffer(a["leaf_weights"].raw_data, "<f4"))
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.UINT16:
            table = np.frombuffer(tensor.raw_data, "<u2").reshape(-1, width)
            found: Array = table[weights]
            return found
    return weights.reshape(-1, 1)


def _whole(weights: Array) -> Array:
    if not ((weights >= 0) & (weights < 1 << 31)).all():
        raise ValueError
    return weights.astype(np.int64)


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _same(attributes: dict[str, Any], node: onnx.NodeProto) -> bool:
    """Whether a node has just these attributes."""
    made = helper.make_node(node.op_type, [], [], **attributes)
    return {a.name: a for a in made.attribute} == {a.name: a for a in node.attribute}


# ---- Values ------------------------------------------------------------------------------------


def label_array(classes: list[Any]) -> Array:
    """Labels as a tensor holds them: text, booleans, whole numbers, or floats."""
    if isinstance(classes[0], str):
        return np.array(classes, object)
    if all(isinstance(v, bool) for v in classes):
        return np.array(classes, np.bool_)
    return _exact(classes, (np.int64, np.float32, np.float64), "labels")


def category_array(kinds: list[Any], name: str) -> Array:
    """The categories of a feature as its input holds them: text, float32 or whole numbers."""
    if isinstance(kinds[0], str):
        return np.array(kinds, object)
    try:
        return _exact(kinds, (np.float32, np.int64), f"categories of {name!r}")
    except ValueError:
        near = np.array(kinds, np.float32)  # such as 0.1: its float32 stands for it
        if len(set(near.tolist())) < len(kinds):
            raise
        return near


def _exact(values: list[Any], types: tuple[Any, ...], what: str) -> Array:
    """The values in the first of these types that holds them all."""
    for kind in types:
        try:
            with np.errstate(over="ignore"):
                found = np.array([int(v) if kind is np.int64 else v for v in values], kind)
        except OverflowError:
            continue
        if found.tolist() == values:
            return found
    raise ValueError(f"{what} must be numbers that ONNX has a type for, got {values[:3]!r}")


def tensor_type(values: Array) -> int:
    """The type of a tensor that holds these values."""
    return TensorProto.STRING if values.dtype == object else _type_of(values)


def _type_of(values: Array) -> int:
    return int(helper.np_dtype_to_tensor_dtype(values.dtype))


def _little(values: Array) -> Array:
    return values.astype(values.dtype.newbyteorder("<"))


def _attribute_tensor(values: Array) -> onnx.TensorProto:
    data = _little(values).tobytes()
    return helper.make_tensor("", _type_of(values), values.shape, data, raw=True)


def _packed(values: Array, code: str) -> str:
    """Base64 of an array; refused if a value does not fit."""
    found = values.astype(code)
    if not np.array_equal(found, values, equal_nan=found.dtype.kind == "f"):
        raise ValueError
    return base64.b64encode(found.tobytes()).decode()


def _parse(model: Any) -> onnx.ModelProto:
    """A model from whatever it was given as, without the files that it may name."""
    if isinstance(model, onnx.ModelProto):
        return model
    if isinstance(model, (str, PathLike)):
        with open(model, "rb") as stream:
            model = stream.read()
    if not isinstance(model, (bytes, bytearray)):
        raise TypeError(f"give an ONNX model, its bytes or a path; got {model!r}")
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
