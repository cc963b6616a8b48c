"""From a gzipped CSV to a model: Beijing's air, with missing values and two columns of text.

    python -m benchmarks.log_to_model [--data FOLDER] [--repeats 3]

Each way leads from the file to a forest of 20 trees of depth 8: `train_source` straight from the
gzip; pandas, polars or pyarrow, then our forest; pandas, dummy columns and scikit-learn. A fifth of
the rows is held out; their mean squared error stands beside the time. Then the file alone, not
gzipped: what it takes to read all of its values, and, for us, to index the lines of a larger one.

Seconds are those of the processor, of all threads: another load of the machine changes them less.
The ways take turns; the least of each counts, since other work of the machine only adds to it.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict

import numpy as np

from benchmarks import data

TARGET = "PM2.5"
DROP = "No"
TEXT = ("wd", "station")


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
    import polars as pl
    import pyarrow.csv as pa_csv
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

    def framed(frame, seed: int):
        forest = edgeforest.train(
            frame, TARGET, criterion="mse", n_trees=20, max_depth=8, max_features=1 / 3, seed=seed
        )
        rows = test[forest.names].astype(object).where(test[forest.names].notna(), None)
        return lambda: np.array(forest.predict(rows.to_numpy().tolist()))

    def by_polars(path: str, seed: int):
        return framed(pl.read_csv(path, infer_schema_length=None).drop(DROP), seed)

    def by_arrow(path: str, seed: int):
        return framed(pa_csv.read_csv(path).drop_columns(DROP), seed)

    def theirs(path: str, seed: int):
        frame = pd.read_csv(path).drop(columns=DROP)
        y = frame.pop(TARGET)
        frame = pd.get_dummies(frame)
        model = Theirs(20, max_depth=8, max_features=1 / 3, random_state=seed).fit(frame, y)
        return lambda: model.predict(pd.get_dummies(test).reindex(columns=frame.columns))

    ways = {
        "`train_source`": straight,
        "pandas, edgeforest": in_memory,
        "polars, edgeforest": by_polars,
        "pyarrow, edgeforest": by_arrow,
        "pandas, scikit-learn": theirs,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "air.csv.gz")
        whole[~held].to_csv(path, index=False, compression={"method": "gzip", "compresslevel": 1})
        times, errors = defaultdict(list), defaultdict(list)
        for seed in range(args.repeats):
            for name, way in ways.items():
                began = time.process_time()
                predict = way(path, seed)
                times[name].append(time.process_time() - began)
                errors[name].append(float(((predict() - y_test) ** 2).mean()))
        print("| how | CPU seconds | mean squared error |\n|---|---|---|")
        for name in ways:
            low, high = min(errors[name]), max(errors[name])
            mean = f"{np.mean(errors[name]):.1f} ({low:.1f} to {high:.1f})"
            print(f"| {name} | {min(times[name]):.2f} | {mean} |")
        plain = os.path.join(folder, "air.csv")
        whole[~held].to_csv(plain, index=False)
        read_alone(plain, args.repeats)


def read_alone(path: str, repeats: int) -> None:
    """Print what it takes to read all values of a file, and to index its lines."""
    import pandas as pd
    import polars as pl
    import pyarrow.csv as pa_csv

    from edgeforest.sources import CSV, in_c

    def ours() -> None:
        with CSV(path) as log:
            kinds = "".join("t" if name in TEXT else "f" for name in log.names)
            for at in range(0, len(log), 2048):
                log.read_as(range(at, min(len(log), at + 2048)), kinds)

    large = f"{path}.large"
    with open(path, "rb") as file, open(large, "wb") as several:
        several.write(file.readline())
        several.write(file.read() * 5)

    def index() -> None:
        if os.path.exists(f"{large}.efidx"):
            os.remove(f"{large}.efidx")
        CSV(large).close()

    def in_python() -> None:
        text, in_c.text = in_c.text, None
        try:
            ours()
        finally:
            in_c.text = text

    CSV(path).close()  # makes the index
    ways = {
        "the index of lines, of 5 times the rows": index,
        "`CSV`, all values, by its index": ours,
        "the same without C": in_python,
        "pandas": lambda: pd.read_csv(path),
        "polars": lambda: pl.read_csv(path, infer_schema_length=None),
        "pyarrow": lambda: pa_csv.read_csv(path),
    }
    times = defaultdict(list)
    for _ in range(repeats):
        for name, way in ways.items():
            began = time.process_time()
            way()
            times[name].append(time.process_time() - began)
    print("\n| reading | CPU seconds | MB/s |\n|---|---|---|")
    for name in ways:
        seconds = min(times[name])
        size = os.path.getsize(large if ways[name] is index else path)
        print(f"| {name} | {seconds:.2f} | {size / seconds / 1e6:.0f} |")


if __name__ == "__main__":
    main()
