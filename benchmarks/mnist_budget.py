"""The paper's MNIST budget: 10,192,000 insertions, depth 5, at most 100 trees.

    python -m benchmarks.mnist_budget [--data FOLDER] [--seeds 6] [--engine pure]

The folder holds mnist.npz with Xtr, ytr, Xte, yte and pixels as uint8 (data.py says where it is
looked for). The paper's own figure is 0.830. Every engine grows the same forests.
"""

import argparse
import sys
import time

import numpy as np

from benchmarks import data
from edgeforest import train

BUDGET = 10_192_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--engine")
    args = parser.parse_args()
    if not data.find("mnist.npz", args.data):
        sys.exit("mnist.npz not found; give --data or set EDGEFOREST_DATA (see --help)")
    table = data.mnist(args.data)
    print(
        "| splitter | trees | nodes | insertions | accuracy | seconds |\n|---|---|---|---|---|---|"
    )
    for splitter in ("mab", "mab-paper", "exact"):
        for seed in range(args.seeds):
            began = time.perf_counter()
            forest = train(
                table.X,
                table.y,
                engine=args.engine,
                splitter=splitter,
                n_trees=100,
                max_depth=5,
                budget=BUDGET,
                seed=seed,
            )
            seconds = time.perf_counter() - began
            score = np.mean(np.array(forest.predict(table.X_test)) == table.y_test)
            assert forest.spent.insertions <= BUDGET
            print(
                f"| {splitter} | {len(forest)} | {len(forest.feature):,} "
                f"| {forest.spent.insertions:,} | {score:.4f} | {seconds:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
