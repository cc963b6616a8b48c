"""The paper's MNIST budget: 10,192,000 insertions, depth 5, at most 100 trees, in pure Python.

    python benchmarks/mnist_budget.py [--data mnist.npz] [--seeds 3]

`mnist.npz` holds Xtr, ytr, Xte, yte with pixels as uint8 (from `sklearn.datasets.fetch_openml`);
it is looked for in $EDGEFOREST_DATA and in ../shared/data. The paper's own figure is 0.830.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

from edgeforest import train

BUDGET = 10_192_000


def find(given: str | None) -> Path:
    folders = [os.environ.get("EDGEFOREST_DATA", ""), "../shared/data"]
    for path in [Path(given)] if given else [Path(f) / "mnist.npz" for f in folders if f]:
        if path.exists():
            return path
    sys.exit("mnist.npz not found; give --data or set EDGEFOREST_DATA (see --help for its content)")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    with np.load(find(args.data)) as data:
        columns = [column.tobytes() for column in data["Xtr"].T]
        labels = data["ytr"].astype(np.uint8).tobytes()
        rows = [row.tobytes() for row in data["Xte"]]
        truth = data["yte"].tolist()
    print(
        "| splitter | trees | nodes | insertions | accuracy | seconds |\n|---|---|---|---|---|---|"
    )
    for splitter in ("mab", "mab-paper", "exact"):
        for seed in range(args.seeds):
            began = time.perf_counter()
            forest = train(
                columns,
                labels,
                by_column=True,
                splitter=splitter,
                n_trees=100,
                max_depth=5,
                budget=BUDGET,
                seed=seed,
            )
            seconds = time.perf_counter() - began
            votes = [0] * 10
            right = sum(
                forest.classes[forest.predict_into(row, votes)] == label
                for row, label in zip(rows, truth, strict=True)
            )
            assert forest.spent.insertions <= BUDGET
            print(
                f"| {splitter} | {len(forest)} | {len(forest.feature):,} "
                f"| {forest.spent.insertions:,} | {right / len(truth):.4f} | {seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
