"""SHAP values beside those of the package `shap`, on imported forests of scikit-learn: equal, and how fast.

    pip install shap scikit-learn
    python -m benchmarks.shap_values [--rows 200]

Twenty forests: classifiers and regressors, random forests and extra trees, deep and shallow, with and
without missing values. Each is grown without a bootstrap, so that the rows of the training are what
its nodes have counted, and comes to us by `from_sklearn`. Our leaves hold whole votes: `shap` gets the
same ones, written back into scikit-learn's trees. Prints the largest difference of any value, relative
to the range of the answers, how far the values of a row are from summing to the prediction, and
processor time, the median of three runs.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import ensemble
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

from edgeforest import shap_values
from edgeforest.export import from_sklearn
from edgeforest.forests import walking
from edgeforest.forests.shap import leaf_answers

RUNS = 3
LIMIT = 1e-6


def write_back(model: Any, forest: Any) -> None:
    """Give scikit-learn's leaves the values that ours have after rounding to whole votes."""
    answers = leaf_answers(forest)
    for tree, one in enumerate(model.estimators_):
        start, end = walking.extent(forest, tree)
        values = one.tree_.value  # a view of its memory
        values[:, 0, :] = answers[start:end]


def seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and its processor time."""
    times = []
    for _ in range(RUNS):
        begun = time.process_time()
        found = work()
        times.append(time.process_time() - begun)
    return found, statistics.median(times)


def compare(name: str, X: Any, y: Any, regression: bool, extra: bool, **options: Any) -> bool:
    """Print a line about one forest; whether both agree."""
    kind = (
        f"{'ExtraTrees' if extra else 'RandomForest'}{'Regressor' if regression else 'Classifier'}"
    )
    model = getattr(ensemble, kind)(bootstrap=False, random_state=0, **options).fit(X, y)
    forest = from_sklearn(model)
    write_back(model, forest)
    rows = X[: ARGS.rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap

        tool = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent")
        theirs, slow = seconds(lambda: tool.shap_values(rows, check_additivity=False))
    ours, quick = seconds(lambda: shap_values(forest, rows, X))
    span = forest.span if regression else 1.0
    off = float(np.abs(ours.values - np.asarray(theirs)).max()) / span
    answer = forest.predict(rows) if regression else forest.predict_proba(rows)
    summed = float(np.abs(ours.values.sum(axis=1) + ours.base - np.array(answer)).max()) / span
    print(
        f"| {name} | {kind} | {len(forest)} | {walking.depth(forest)} | {len(forest.feature):,} "
        f"| {off:.0e} | {summed:.0e} | {1000 * quick / len(rows):.2f} | {1000 * slow / len(rows):.2f} |",
        flush=True,
    )
    return off <= LIMIT and summed <= LIMIT


def main() -> None:
    print(
        "| data | kind | trees | depth | nodes | difference | sum | ours, ms a row | shap, ms a row |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    agreed = []
    rng = np.random.default_rng(0)
    for name, load, regression in (
        ("breast cancer", load_breast_cancer, False),
        ("wine", load_wine, False),
        ("digits", load_digits, False),
        ("diabetes", load_diabetes, True),
        ("diabetes, gaps", load_diabetes, True),
    ):
        X, y = load(return_X_y=True)
        X = X.astype(np.float32)
        if "gaps" in name:
            X[rng.random(X.shape) < 0.1] = np.nan
        for extra, trees, depth in (
            (False, 20, None),
            (False, 50, 4),
            (True, 20, 8),
            (True, 5, None),
        ):
            options = {"n_estimators": trees, "max_depth": depth}
            agreed.append(compare(name, X, y, regression, extra, **options))
    print(f"\n{sum(agreed)} of {len(agreed)} forests agree within {LIMIT:g} of the range")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200, help="rows that are explained, at most")
    ARGS = parser.parse_args()
    main()
