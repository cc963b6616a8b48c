"""How long `predict` of one row takes through an estimator, ours beside scikit-learn's.

    python -m benchmarks.one_row

It needs `pip install numpy scikit-learn`. Both take turns. Times are medians of processor time, in
microseconds: on a busy machine those of the clock say nothing.
"""

import argparse
import platform
import statistics
import time

import numpy as np
import sklearn.ensemble

import edgeforest

KINDS = ("RandomForestClassifier", "RandomForestRegressor")
ROUNDS, CALLS = 100, 20  # of ours there are that many calls in a round, of scikit-learn's one


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5_000, 20))
    value = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(0, 0.1, len(X))
    print(f"Python {platform.python_version()}, scikit-learn {sklearn.__version__}; ", end="")
    print(f"100 trees of depth 8, {X.shape[1]} features, engine {edgeforest.engine.name}\n")
    print("| estimator | row | ours us | scikit-learn us | times |")
    print("|---|---|---|---|---|")
    for kind in KINDS:
        y = value > 0 if kind.endswith("Classifier") else value
        ours, theirs = (
            getattr(library, kind)(100, max_depth=8, random_state=0, n_jobs=1).fit(X, y)
            for library in (edgeforest, sklearn.ensemble)
        )
        rows = {"float64 array": X[:1], "list": X[:1].tolist()}
        for about, row in rows.items():
            times: tuple[list[float], list[float]] = [], []
            for _ in range(ROUNDS):
                for model, calls, found in ((ours, CALLS, times[0]), (theirs, 1, times[1])):
                    began = time.process_time()
                    for _ in range(calls):
                        model.predict(row)
                    found.append((time.process_time() - began) / calls)
            mine, other = (1e6 * statistics.median(found) for found in times)
            print(f"| {kind} | {about} | {mine:.1f} | {other:,.0f} | {other / mine:.0f} |")


if __name__ == "__main__":
    main()
