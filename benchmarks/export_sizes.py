"""Sizes of one forest in each format, raw and gzipped, beside scikit-learn's own.

    python benchmarks/export_sizes.py [--data FOLDER]

Two forests: MNIST (20 trees of depth 8) and the sample log of `edgeforest demo`. scikit-learn grows
its own forest from the same rows with the same settings. For ONNX the same forest is compared too:
"skl2onnx, per node" is what its file would weigh with as many nodes as ours has.

Other formats get a row each in `FORMATS`: a name, and a function from a forest to bytes.
"""

import argparse
import gzip
import pickle
from collections.abc import Callable
from typing import Any

import data
import numpy as np

import edgeforest
from edgeforest.export.onnx_model import to_onnx

FORMATS: list[tuple[str, Callable[[Any], bytes]]] = [
    ("edgeforest, JSON", lambda forest: forest.to_json().encode()),
    ("edgeforest, ONNX classic", lambda forest: to_onnx(forest).SerializeToString()),
    ("edgeforest, ONNX v5", lambda forest: to_onnx(forest, operator="v5").SerializeToString()),
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data")
    args = parser.parse_args()
    table = data.mnist(args.data)
    compare(f"{table.about}, 20 trees of depth 8", table.X, table.y, table.X_test, table.y_test)
    X, y = log()
    held = np.random.default_rng(0).random(len(y)) < 0.2
    compare("the sample log, 20 trees of depth 8", X[~held], y[~held], X[held], y[held])


def log() -> tuple[np.ndarray, np.ndarray]:
    """The sample log as numbers that scikit-learn takes as well: windows are told by their place."""
    from edgeforest.demo import COLUMNS, sample_log

    windows = ["closed", "tilted", "open"]
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in sample_log(20_000)]
    X = [
        [np.nan if row[name] == "" else float(row[name]) for name in COLUMNS[1:6]]
        + [np.nan if row["window"] == "" else windows.index(row["window"])]
        for row in rows
    ]
    return np.array(X, np.float32), np.array([row["activity"] for row in rows])


def compare(about: str, X: Any, y: Any, X_test: Any, y_test: Any) -> None:
    """Print the table of one data set."""
    from skl2onnx import to_onnx as skl2onnx
    from sklearn.ensemble import RandomForestClassifier as Theirs

    ours = edgeforest.RandomForestClassifier(20, max_depth=8, random_state=0).fit(X, y)
    theirs = Theirs(20, max_depth=8, random_state=0).fit(X, y)
    forest = ours.forest_
    counts = len(forest.feature), sum(tree.tree_.node_count for tree in theirs.estimators_)
    scores = ours.score(X_test, y_test), theirs.score(X_test, y_test)
    print(f"\n{about}: edgeforest {counts[0]} nodes, accuracy {scores[0]:.3f};", end=" ")
    print(f"scikit-learn {counts[1]} nodes, accuracy {scores[1]:.3f}\n")
    print("| format | nodes | bytes | gzip | bytes a node |\n|---|---|---|---|---|")
    row("scikit-learn, pickle", counts[1], pickle.dumps(theirs))
    sample = np.asarray(X[:1], np.float32)
    other = skl2onnx(theirs, sample, options={"zipmap": False}).SerializeToString()
    row("scikit-learn, skl2onnx", counts[1], other)
    print(f"| skl2onnx, per node | {counts[0]} | {len(other) * counts[0] // counts[1]} | | |")
    for name, convert in FORMATS:
        row(name, counts[0], convert(forest))


def row(name: str, nodes: int, content: bytes) -> None:
    packed = len(gzip.compress(content, 9))
    print(
        f"| {name} | {nodes} | {len(content)} | {packed} | {len(content) / nodes:.1f} |", flush=True
    )


if __name__ == "__main__":
    main()
