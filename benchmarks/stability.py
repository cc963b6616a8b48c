"""The paper's stability experiment: which features matter, under the same budget of insertions.

Several forests are trained on samples of the same data; how much they agree on the five most
important features is Nogueira's stability. Table 4 of the paper stands beside ours.

    python benchmarks/stability.py
"""

import argparse
import platform
import time

import numpy as np
from sklearn.datasets import make_classification, make_regression

import edgeforest
from edgeforest import (
    RandomForestClassifier,
    RandomForestRegressor,
    permutation_importance,
    stability,
)

PAPER = {  # (exact, mab) of the paper
    ("MDI", "classification"): ("0.536 +- 0.039", "0.863 +- 0.016"),
    ("MDI", "regression"): ("0.134 +- 0.021", "0.674 +- 0.043"),
    ("permutation", "classification"): ("0.579 +- 0.023", "0.690 +- 0.023"),
    ("permutation", "regression"): ("0.116 +- 0.017", "0.437 +- 0.044"),
}
SELECTED = 5  # features, as many as are informative


def data(regression: bool, seed: int):
    if regression:
        return make_regression(10_000, 100, n_informative=5, random_state=seed)
    return make_classification(10_000, 60, n_informative=5, random_state=seed)


def importances(regression, splitter, X, y, budget, depth, seed):
    """MDI and permutation importances of one forest, and how many trees it has."""
    kind = RandomForestRegressor if regression else RandomForestClassifier
    forest = kind(
        100,
        splitter=splitter,
        max_depth=depth,
        max_features="sqrt",
        budget=budget,
        random_state=seed,
    ).fit(X, y)
    assert forest.spent_.insertions <= budget
    permuted = permutation_importance(forest, X, y, n_repeats=1, random_state=seed)
    return forest.feature_importances_, permuted.importances_mean, len(forest.estimators_)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=int, default=150_000, help="insertions of one forest")
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--forests", type=int, default=10, help="that are compared")
    parser.add_argument("--repeats", type=int, default=5, help="of the whole, on new data")
    args = parser.parse_args()
    print(f"python benchmarks/stability.py --budget {args.budget} --depth {args.depth}")
    print(f"edgeforest {edgeforest.__version__} ({edgeforest.engine.name}), {platform.machine()}")
    began = time.monotonic()
    found: dict = {}
    trees: dict = {}
    for repeat in range(args.repeats):
        for regression in (False, True):
            X, y = data(regression, repeat)
            task = "regression" if regression else "classification"
            for splitter in ("exact", "mab", "mab-paper"):
                each = [
                    importances(
                        regression, splitter, X, y, args.budget, args.depth, 1000 * repeat + seed
                    )
                    for seed in range(args.forests)
                ]
                for place, measure in enumerate(("MDI", "permutation")):
                    agreed = stability([one[place] for one in each], k=SELECTED)
                    found.setdefault((measure, task, splitter), []).append(agreed)
                trees.setdefault((task, splitter), []).extend(one[2] for one in each)
    print(f"{args.repeats} x {args.forests} forests each; {time.monotonic() - began:.0f} s\n")
    print(f"{'importance':12} {'data':15} {'exact':15} {'mab':15} {'mab-paper':15} ", end="")
    print("the paper: exact, mab")
    for (measure, task), said in PAPER.items():
        line = f"{measure:12} {task:15} "
        for splitter in ("exact", "mab", "mab-paper"):
            values = np.array(found[measure, task, splitter])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
            line += f"{values.mean():.3f} +- {error:.3f}  "
        print(line + ", ".join(said))
    print("\ntrees of a forest: ", end="")
    print("; ".join(f"{task} {s} {np.mean(t):.1f}" for (task, s), t in trees.items()))


if __name__ == "__main__":
    main()
