"""The paper's stability experiment: which features matter, under the same budget of insertions.

Several forests are trained on samples of the same data; how much they agree on the five most
important features is Nogueira's stability. Table 5 of the paper stands beside ours.

    python -m benchmarks.stability
"""

import argparse
from typing import Any

import numpy as np
from sklearn.datasets import make_classification, make_regression

from benchmarks.common import about, with_error
from edgeforest import (
    RandomForestClassifier,
    RandomForestRegressor,
    permutation_importance,
    stability,
)

PAPER = {  # (exact, mab) of the paper
    ("MDI", "classification"): ("0.536 ± 0.039", "0.863 ± 0.016"),
    ("MDI", "regression"): ("0.134 ± 0.021", "0.674 ± 0.043"),
    ("permutation", "classification"): ("0.579 ± 0.023", "0.690 ± 0.023"),
    ("permutation", "regression"): ("0.116 ± 0.017", "0.437 ± 0.044"),
}
SPLITTERS = ("exact", "mab-paper", "mab")
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


def measure(
    budget: int = 150_000, depth: int = 5, forests: int = 10, repeats: int = 5
) -> tuple[dict[Any, list[float]], dict[Any, list[int]]]:
    """The stability by (measure, data, splitter), and the trees by (data, splitter)."""
    found: dict[Any, list[float]] = {}
    trees: dict[Any, list[int]] = {}
    for repeat in range(repeats):
        for regression in (False, True):
            X, y = data(regression, repeat)
            task = "regression" if regression else "classification"
            for splitter in SPLITTERS:
                each = [
                    importances(regression, splitter, X, y, budget, depth, 1000 * repeat + seed)
                    for seed in range(forests)
                ]
                for place, name in enumerate(("MDI", "permutation")):
                    agreed = stability([one[place] for one in each], k=SELECTED)
                    found.setdefault((name, task, splitter), []).append(agreed)
                trees.setdefault((task, splitter), []).extend(one[2] for one in each)
    return found, trees


def show(found: dict[Any, list[float]], trees: dict[Any, list[int]]) -> None:
    """Print the table, the paper's beside it."""
    names = " | ".join(f"`{s}`" for s in SPLITTERS)
    print(f"| importance | data | {names} | the paper: exact | MABSplit |\n{'|---' * 7}|")
    for (name, task), said in PAPER.items():
        ours = " | ".join(with_error(found[name, task, s]) for s in SPLITTERS)
        print(f"| {name} | {task} | {ours} | {' | '.join(said)} |")
    each = "; ".join(f"{task} {s} {np.mean(t):.1f}" for (task, s), t in trees.items())
    print(f"\nTrees of a forest: {each}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=int, default=150_000, help="insertions of one forest")
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--forests", type=int, default=10, help="that are compared")
    parser.add_argument("--repeats", type=int, default=5, help="of the whole, on new data")
    args = parser.parse_args()
    print(f"python -m benchmarks.stability --budget {args.budget} --depth {args.depth}")
    print(f"{about('scikit-learn')}; {args.repeats} x {args.forests} forests each\n")
    show(*measure(args.budget, args.depth, args.forests, args.repeats))


if __name__ == "__main__":
    main()
