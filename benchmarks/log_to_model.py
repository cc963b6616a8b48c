"""From a gzipped CSV to a model: Beijing's air, with missing values and two columns of text.

    python benchmarks/log_to_model.py [--data FOLDER] [--repeats 3]

Three ways, each from the file to a forest of 20 trees of depth 8: `train_source` straight from the
gzip; pandas and our estimator; pandas, dummy columns and scikit-learn. A fifth of the rows is held
out; their mean squared error stands beside the time.
"""

import argparse
import os
import sys
import tempfile
import time

import data
import numpy as np

TARGET = "PM2.5"
DROP = "No"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    found = data.find("beijing_air_quality.csv.gz", args.data)
    if not found:
        sys.exit("beijing_air_quality.csv.gz not found; give --data or set EDGEFOREST_DATA")
    import pandas as pd
    from sklearn.ensemble import RandomForestRegressor as Theirs

    import edgeforest

    whole = pd.read_csv(found)
    whole = whole[whole[TARGET].notna()]
    held = np.random.default_rng(0).random(len(whole)) < 0.2
    test = whole[held].drop(columns=DROP)
    y_test = test.pop(TARGET)

    def straight(path: str, seed: int):
        forest = edgeforest.train_source(
            path, TARGET, drop=[DROP], n_trees=20, max_depth=8, max_features=1 / 3, seed=seed
        )
        rows = test[forest.names].astype(object).where(test[forest.names].notna(), None)
        return lambda: np.array(forest.predict(rows.to_numpy().tolist()))

    def in_memory(path: str, seed: int):
        frame = pd.read_csv(path).drop(columns=DROP)
        model = edgeforest.RandomForestRegressor(
            20, max_depth=8, max_features=1 / 3, random_state=seed
        ).fit(frame, frame.pop(TARGET))
        return lambda: model.predict(test)

    def theirs(path: str, seed: int):
        frame = pd.read_csv(path).drop(columns=DROP)
        y = frame.pop(TARGET)
        frame = pd.get_dummies(frame)
        model = Theirs(20, max_depth=8, max_features=1 / 3, random_state=seed).fit(frame, y)
        return lambda: model.predict(pd.get_dummies(test).reindex(columns=frame.columns))

    print("| how | seconds | mean squared error |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "air.csv.gz")
        whole[~held].to_csv(path, index=False, compression={"method": "gzip", "compresslevel": 1})
        for name, way in (
            ("train_source", straight),
            ("pandas, edgeforest", in_memory),
            ("pandas, scikit-learn", theirs),
        ):
            times, errors = [], []
            for seed in range(args.repeats):
                began = time.perf_counter()
                predict = way(path, seed)
                times.append(time.perf_counter() - began)
                errors.append(float(((predict() - y_test) ** 2).mean()))
            print(
                f"| {name} | {np.median(times):.2f} | {np.mean(errors):.1f} "
                f"({min(errors):.1f} to {max(errors):.1f}) |",
                flush=True,
            )


if __name__ == "__main__":
    main()
