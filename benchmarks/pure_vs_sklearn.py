"""Pure Python beside scikit-learn's RandomForest in one run: time ratio, accuracy, insertions.

    python -m benchmarks.pure_vs_sklearn

20,000 rows x 20 features, 10 trees of depth 8, one thread. Each repetition times both, one after
the other, on the same rows and the same seed; the ratio printed is the median of the pairs.
"""

import argparse
import platform
import statistics
import time

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from edgeforest.core_pure import train

CASES = {  # name: options of make_classification
    "2 classes": {"n_informative": 8, "flip_y": 0.05},
    "scikit-learn's defaults": {},
    "3 classes": {"n_informative": 8, "n_classes": 3, "flip_y": 0.05},
    "10 classes": {"n_informative": 12, "n_classes": 10},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5, help="pairs of runs (default 5)")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--depth", type=int, default=8)
    args = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, one thread")
    print(f"{args.rows} rows x 20, {args.trees} trees of depth {args.depth}, {args.repeat} pairs\n")
    print("| data | splitter | time / scikit-learn's | accuracy | scikit-learn's | insertions |")
    print("|---|---|---|---|---|---|")
    for name, options in CASES.items():
        X, y = make_classification(args.rows + 5000, 20, random_state=0, **options)
        X = X.astype(np.float32)
        rows, labels = X[: args.rows].tolist(), y[: args.rows].tolist()
        held = X[args.rows :]
        held_rows = held.tolist()
        for splitter in ("mab", "exact"):
            ratios, ours, theirs, insertions = [], [], [], []
            for seed in range(args.repeat):
                began = time.perf_counter()
                forest = RandomForestClassifier(
                    args.trees, max_depth=args.depth, n_jobs=1, random_state=seed
                ).fit(X[: args.rows], y[: args.rows])
                middle = time.perf_counter()
                model = train(
                    rows,
                    labels,
                    n_trees=args.trees,
                    max_depth=args.depth,
                    splitter=splitter,
                    seed=seed,
                )
                ended = time.perf_counter()
                ratios.append((ended - middle) / (middle - began))
                theirs.append(forest.score(held, y[args.rows :]))
                ours.append(float(np.mean(np.array(model.predict(held_rows)) == y[args.rows :])))
                insertions.append(model.spent.insertions)
            print(
                f"| {name} | {splitter} | {statistics.median(ratios):.2f} "
                f"| {statistics.mean(ours):.4f} | {statistics.mean(theirs):.4f} "
                f"| {statistics.mean(insertions):,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
