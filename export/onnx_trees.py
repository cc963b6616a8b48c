"""The trees of a forest as attributes of an ONNX operator, and back.

`TreeEnsembleRegressor` ("classic") and the newer `TreeEnsemble` ("v5") hold the nodes; the metadata
of the model holds the rest of the forest's JSON.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Literal, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgeforest.forest import SUM, Forest
from edgeforest.forests import walking
from edgeforest.forests.merging import keep
from edgeforest.host.version import __version__

from .onnx_values import Array, attribute_tensor, base64_of

Operator: TypeAlias = Literal["classic", "v5"]

KEY = "edgeforest"  # in the metadata: the model's JSON without its big arrays
PLACES = "edgeforest_places"  # ... and where leaves share votes, which leaf has which
COVERAGE = "edgeforest_coverage"  # ... and of intervals or sets, if the graph computes some
BIG = ("feature", "threshold", "leaf", "votes")  # the arrays that the trees in the graph hold
CLASSES = 4096  # as many as training takes
# Comparisons, by their numbers in TreeEnsemble.
MODES = {0: b"BRANCH_LEQ", 1: b"BRANCH_LT", 4: b"BRANCH_EQ", 5: b"BRANCH_NEQ"}
LEQ, LT, EQ, NEQ = MODES


def trimmed(model: Any) -> Forest:
    """The forest of a model without what no row can reach; an error if sums are not exact."""
    found = walking.forest_of(model)
    if not is_trimmed(found):  # Ctrl-C may have left nodes without a parent
        if None in _ends(found):
            raise ValueError("the trees of this forest share nodes; train or load it again")
        whole = found
        found = keep(whole, list(range(len(whole))))
        found.calibration = whole.calibration
        for leaf in walking.leaves(found):
            found.threshold[leaf] = 0.0
    most = sum(int(tree.max()) for tree in np.split(*_sums(found)))
    if most > SUM:
        raise ValueError(
            f"votes of this forest can add up to {most}, and float32 holds {SUM} exactly; make "
            "them smaller first"
        )
    return found


def _sums(forest: Forest) -> tuple[Array, Array]:
    """The sum of the votes of each leaf, and where the leaves of the second and later trees begin."""
    nodes = walking.arrays(forest)
    sums = walking.vote_table(forest).sum(axis=1)
    starts = np.add.accumulate(nodes.is_leaf)[np.array(forest.roots[1:], np.int64) - 1]
    return sums[nodes.votes[nodes.is_leaf]], starts


def _ends(forest: Forest) -> list[int | None]:
    """The node after the last of each tree; None if that tree is not in preorder by itself."""
    return [walking.end_of(forest, *stretch) for stretch in walking.stretches(forest)]


def is_trimmed(forest: Forest) -> bool:
    """Whether every node and every vote is used, and the arrays hold nothing else."""
    leaves = walking.leaves(forest)
    used = {forest.right[i] for i in leaves}
    return (
        [0, *_ends(forest)] == [*forest.roots, len(forest.feature)]
        and len(used) * forest.n_votes == len(forest.votes)
        and not np.array(forest.threshold).view(np.uint32)[leaves].any()
    )


class _Nodes:
    """The nodes of a trimmed forest as arrays: what each compares, and where rows go then.

    There are two ways to say "equals", and one is safe. Onnxruntime folds chains of BRANCH_EQ whose
    leaves it takes for equal, although they vote for other classes, unless NaN tracks true. So where
    missing values go right, the question is BRANCH_NEQ, whose true child is the right one. Nothing
    equals a category of code 0, since codes begin at 1: it becomes "below 0", which nothing is.
    """

    def __init__(self, forest: Forest) -> None:
        nodes = walking.arrays(forest)
        roots = np.array(forest.roots, np.int64)
        self.leaf = nodes.is_leaf
        self.tree = np.repeat(np.arange(len(roots)), np.diff(roots, append=len(self.leaf)))
        self.root = roots[self.tree]
        self.feature = nodes.feature
        self.threshold = nodes.threshold
        self.votes = nodes.votes
        mode = np.where(nodes.missing_left, EQ, NEQ)
        mode = np.where(self.threshold == 0, LT, mode)
        self.mode = np.where(nodes.categorical, mode, LEQ)
        swapped = self.mode == NEQ
        self.tracks = (nodes.missing_left | swapped).astype(np.int64)
        self.true = np.where(swapped, nodes.right, nodes.left)
        self.false = np.where(swapped, nodes.left, nodes.right)
        # Leaves in the order of their votes: their order then says which votes are whose.
        leaves = np.flatnonzero(self.leaf)
        self.leaves = leaves[np.argsort(self.votes[leaves], kind="stable")]


def tree_attributes(forest: Forest, operator: Operator) -> dict[str, Any]:
    """The attributes of the operator that holds the trees of a trimmed forest."""
    nodes = _Nodes(forest)
    return _classic(forest, nodes) if operator == "classic" else _v5(forest, nodes)


def _classic(forest: Forest, nodes: _Nodes) -> dict[str, Any]:
    """Attributes of TreeEnsembleRegressor, without those that may be left out."""
    table = walking.vote_table(forest)[nodes.votes[nodes.leaves]]
    written = table > 0
    written[~written.any(axis=1), 0] = True  # a leaf needs one weight at least
    at, target = np.nonzero(written)
    at = nodes.leaves[at]
    in_tree = np.arange(len(nodes.root)) - nodes.root
    attributes: dict[str, Any] = {
        "n_targets": forest.n_votes,
        "nodes_treeids": nodes.tree.tolist(),
        "nodes_nodeids": in_tree.tolist(),
        "nodes_featureids": nodes.feature.tolist(),
        "nodes_values": nodes.threshold.tolist(),
        "nodes_modes": [
            b"LEAF" if leaf else MODES[mode]
            for leaf, mode in zip(nodes.leaf.tolist(), nodes.mode.tolist(), strict=True)
        ],
        "nodes_truenodeids": np.where(nodes.leaf, 0, nodes.true - nodes.root).tolist(),
        "nodes_falsenodeids": np.where(nodes.leaf, 0, nodes.false - nodes.root).tolist(),
        "target_treeids": nodes.tree[at].tolist(),
        "target_nodeids": in_tree[at].tolist(),
        "target_ids": target.tolist(),
        "target_weights": table[written].astype(np.float64).tolist(),
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
    order = np.flatnonzero(~nodes.leaf | lone)
    name = np.zeros(n, np.int64)
    name[order] = np.arange(len(order))
    asked = name.copy()  # the name as a question, which a lone leaf has too
    name[nodes.leaves] = np.arange(len(nodes.leaves))
    for root in forest.roots:
        # onnxruntime takes a root for a lone leaf if its children, a leaf and a question, have the
        # same number: the root changes places with the question.
        children = true[root], false[root]
        if not lone[root] and name[children[0]] == name[children[1]]:
            child = next(c for c in children if not nodes.leaf[c])
            asked[root], asked[child] = name[root], name[child] = name[child], name[root]
            order[asked[[root, child]]] = root, child
    weights = np.array(forest.votes, np.float32) if forest.classes is None else np.arange(n)
    targets = np.zeros(n, np.int64) if forest.classes is None else nodes.tree
    attributes: dict[str, Any] = {
        "n_targets": 1 if forest.classes is None else len(forest.roots),
        "tree_roots": asked[np.array(forest.roots, np.int64)].tolist(),
        "nodes_featureids": nodes.feature[order].tolist(),
        "nodes_modes": attribute_tensor(nodes.mode[order].astype(np.uint8)),
        "nodes_splits": attribute_tensor(nodes.threshold[order]),
        "nodes_truenodeids": name[true[order]].tolist(),
        "nodes_trueleafs": nodes.leaf[true[order]].astype(int).tolist(),
        "nodes_falsenodeids": name[false[order]].tolist(),
        "nodes_falseleafs": nodes.leaf[false[order]].astype(int).tolist(),
        "leaf_targetids": targets[nodes.leaves].tolist(),
        "leaf_weights": attribute_tensor(weights[nodes.votes[nodes.leaves]].astype(np.float32)),
    }
    if nodes.tracks.any():
        attributes["nodes_missing_value_tracks_true"] = nodes.tracks[order].tolist()
    return attributes


def metadata(forest: Forest, coverage: float | None = None) -> dict[str, str]:
    """The entries of the metadata: what the trees in the graph do not hold."""
    text = forest.to_json()
    for name in BIG:
        begin, end = _span(text, name)
        text = text[:begin] + text[end:]
    entries = {KEY: text, "edgeforest_version": __version__}
    if coverage is not None:
        entries[COVERAGE] = repr(float(coverage))
    places = sorted(forest.right[leaf] for leaf in walking.leaves(forest))
    if len(set(places)) < len(places):
        entries[PLACES] = base64_of(np.array(places), "<u4")
    return entries


def _span(text: str, name: str) -> tuple[int, int]:
    """Where the value of that name is in a model's JSON; no text in it can look like this."""
    begin = text.index(f',"{name}":"') + len(name) + 5
    return begin, text.index('"', begin)


def rebuild(model: onnx.ModelProto, a: dict[str, Any], meta: dict[str, str]) -> str:
    """The JSON of the model: that of the metadata, with the arrays that the trees hold.

    `a` are the attributes of the operator. Whatever does not fit is some exception.
    """
    text = meta[KEY]
    head = json.loads(text)
    n_votes = len(head["classes"] or (range(3) if COVERAGE in meta else [0]))
    if n_votes > CLASSES:
        raise ValueError
    leaf, words, threshold, right = _read_classic(a) if "nodes_values" in a else _read_v5(a)
    table = _votes_of(model, a, n_votes)
    if PLACES in meta:
        given = np.frombuffer(base64.b64decode(meta[PLACES], validate=True), "<u4")
        used, first = np.unique(given, return_index=True)
        if len(given) != len(table) or used[-1] != len(used) - 1:
            raise ValueError
        right[leaf] = given[right[leaf]]
        table = table[first]
    if head["classes"] is None:
        table = table[:, :1]  # without the squares
    ordered = np.array_equal(right[leaf], np.arange(leaf.sum()))
    arrays = {
        "feature": base64_of(words, "<u2"),
        "threshold": base64_of(threshold[~leaf], "<f4"),
        "leaf": "" if ordered else base64_of(right[leaf], "<u4" if head["wide"] else "<u2"),
        "votes": base64_of(table, "|u1" if head["bytes"] else "<u2"),
    }
    for name in BIG:
        begin, end = _span(text, name)
        text = text[:begin] + arrays[name] + text[end:]
    return text


def _words(a: dict[str, Any], mode: Array, leaf: Array, at: Any = slice(None)) -> Array:
    """Items of `Forest.feature`, for the nodes of the operator in this order."""
    tracks = np.array(a.get("nodes_missing_value_tracks_true", [0] * len(mode)))
    missing_left = (tracks > 0) & (mode != NEQ)
    feature = np.array(a["nodes_featureids"])
    return walking.words(leaf, feature[at], (mode != LEQ)[at], missing_left[at])


def _read_classic(a: dict[str, Any]) -> tuple[Array, Array, Array, Array]:
    """Nodes in their order: leaves are numbered in the order of their weights."""
    tree = np.array(a["nodes_treeids"])
    codes = {name: code for code, name in MODES.items()}
    mode = np.array([codes.get(name, LEQ) for name in a["nodes_modes"]])
    leaf = np.array([name == b"LEAF" for name in a["nodes_modes"]])
    roots = np.flatnonzero(np.array(a["nodes_nodeids"]) == 0)
    sides = np.array(a["nodes_truenodeids"]), np.array(a["nodes_falsenodeids"])
    right = roots[tree] + np.where(mode == NEQ, *sides)
    at = roots[np.array(a["target_treeids"])] + np.array(a["target_nodeids"])
    new = np.diff(at, prepend=-1) != 0  # the weights of one leaf follow each other
    right[at[new]] = np.arange(new.sum())
    return leaf, _words(a, mode, leaf), np.array(a["nodes_values"], np.float32), right


def _read_v5(a: dict[str, Any]) -> tuple[Array, Array, Array, Array]:
    """Nodes in preorder, from questions and leaves that are numbered separately."""
    mode = np.frombuffer(a["nodes_modes"].raw_data, np.uint8)
    splits = np.frombuffer(a["nodes_splits"].raw_data, "<f4")
    true, false = (
        list(zip(a[f"nodes_{side}leafs"], a[f"nodes_{side}nodeids"], strict=True))
        for side in ("true", "false")
    )
    leaves: list[bool] = []
    threshold: list[float] = []
    right: list[int] = []
    asked: list[int] = []  # the questions, of leaves the first one
    for root in a["tree_roots"]:
        lone = true[root][0] and true[root] == false[root]
        ahead = [(true[root] if lone else (0, root), -1)]
        while ahead:
            (leaf, name), parent = ahead.pop()
            if parent >= 0:
                right[parent] = len(right)
            if len(right) > len(mode) + len(a["leaf_targetids"]):
                raise ValueError  # it runs in a circle
            leaves.append(bool(leaf))
            asked.append(0 if leaf else name)
            threshold.append(0.0 if leaf else splits[name])
            right.append(name)
            if not leaf:
                sides = true[name], false[name]
                here, there = sides[::-1] if mode[name] == NEQ else sides
                ahead += [(there, len(right) - 1), (here, -1)]
    is_leaf = np.array(leaves)
    words = _words(a, mode, is_leaf, asked)
    return is_leaf, words, np.array(threshold, np.float32), np.array(right)


def _votes_of(model: onnx.ModelProto, a: dict[str, Any], n_votes: int) -> Array:
    """The votes of each leaf."""
    if "target_weights" in a:
        weights = np.array(a["target_weights"])
        new = np.diff([a["target_treeids"], a["target_nodeids"]], prepend=-1).any(axis=0)
        table = np.zeros((int(new.sum()), n_votes), np.uint16)
        table[np.cumsum(new) - 1, np.array(a["target_ids"])] = _whole(weights)
        return table
    weights = _whole(np.frombuffer(a["leaf_weights"].raw_data, "<f4"))
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.UINT16:
            table = np.frombuffer(tensor.raw_data, "<u2").reshape(-1, n_votes)
            found: Array = table[weights]
            return found
    return weights.reshape(-1, 1)


def _whole(weights: Array) -> Array:
    if not ((weights >= 0) & (weights < 1 << 31)).all():
        raise ValueError
    return weights.astype(np.int64)


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node, by name."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def has_just(attributes: dict[str, Any], node: onnx.NodeProto) -> bool:
    """Whether a node has exactly these attributes."""
    made = helper.make_node(node.op_type, [], [], **attributes)
    return {a.name: a for a in made.attribute} == {a.name: a for a in node.attribute}
