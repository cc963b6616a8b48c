"""Whether budgets are kept: seconds and bytes, by engine and kind of table.

    python -m benchmarks.budgets seconds [--engine native] [--table lists] [--seconds 0.5,2]
    python -m benchmarks.budgets bytes [--engine native] [--table lists]

`seconds` trains on tables that take long to read, and prints the time that a call took beside its
budget. `bytes` trains in a process of its own, and prints its peak memory (VmHWM, so Linux alone)
above that of the same process before it trained, beside the budget.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import edgeforest
from benchmarks import command
from edgeforest import Budget

ENGINES = ("native", "numpy", "pure")
WORDS = [f"kind {i}" for i in range(40)]


def _numbers(n: int, m: int, dtype: Any = np.float32) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.random((n, m), dtype=np.float32)
    y = (X[:, 0] + X[:, m // 2] > 1) + 0
    return (X * 255 if dtype == np.uint8 else X).astype(dtype, copy=False), y


def _words(n: int, m: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    columns = [[WORDS[i] for i in rng.integers(40, size=n).tolist()] for _ in range(m)]
    return columns, [column < "kind 2" for column in columns[0]]


def wide() -> tuple[Any, Any, dict]:
    """float64 in an array"""
    return *_numbers(3_000, 10_000, np.float64), {}


def tall() -> tuple[Any, Any, dict]:
    """float32 in an array"""
    return *_numbers(4_000_000, 10), {}


def codes() -> tuple[Any, Any, dict]:
    """uint8 in an array"""
    return *_numbers(4_000_000, 10, np.uint8), {}


def lists() -> tuple[Any, Any, dict]:
    """a list of lists"""
    X, y = _numbers(200_000, 30)
    return X.tolist(), y.tolist(), {}


def objects() -> tuple[Any, Any, dict]:
    """an array of objects"""
    X, y = _numbers(200_000, 30)
    return X.astype(object), y, {}


def words() -> tuple[Any, Any, dict]:
    """columns of text"""
    return *_words(200_000, 30), {"by_column": True, "categorical": range(30)}


def frame() -> tuple[Any, Any, dict]:
    """DataFrame of text, RandomForestClassifier"""
    import pandas as pd

    columns, y = _words(200_000, 30)
    frame = pd.DataFrame({f"c{f}": column for f, column in enumerate(columns)})
    return frame, np.array(y), {"estimator": True}


def rows() -> tuple[Any, Any, dict]:
    """a list of lists, RandomForestClassifier"""
    X, y, _ = lists()
    return X, y, {"estimator": True}


def classes() -> tuple[Any, Any, dict]:
    """2,000 classes"""
    X, _ = _numbers(200_000, 30)
    return X, np.random.default_rng(1).integers(2000, size=len(X)), {}


def targets() -> tuple[Any, Any, dict]:
    """targets in a list"""
    X, y = _numbers(1_000_000, 5)
    return X, (X[:, 1] + y).tolist(), {"criterion": "mse"}


def weights() -> tuple[Any, Any, dict]:
    """weights in a list"""
    X, y = _numbers(1_000_000, 5)
    return X, y, {"sample_weight": X[:, 2].tolist()}


def _choices(**options: Any) -> Callable[[], tuple[Any, Any, dict]]:
    def choice() -> tuple[Any, Any, dict]:
        return *_numbers(1_000_000, 20), options

    choice.__doc__ = ", ".join(f"{name}={value}" for name, value in options.items())
    return choice


SECONDS: dict[str, Callable[[], tuple[Any, Any, dict]]] = {
    "wide": wide,
    "tall": tall,
    "codes": codes,
    "lists": lists,
    "objects": objects,
    "words": words,
    "frame": frame,
    "rows": rows,
    "classes": classes,
    "targets": targets,
    "weights": weights,
    "entropy": _choices(criterion="entropy"),
    "paper": _choices(splitter="mab-paper"),
    "exact": _choices(splitter="exact", max_features=20),
    "extra": _choices(kind="extra-trees"),
    "two jobs": _choices(n_jobs=2),
}


def train_within(X: Any, y: Any, options: dict, budget: Budget, engine: Any) -> Any:
    """A forest of the engine; of an estimator where the table asks for one."""
    options = dict(options)
    if options.pop("estimator", False):
        model = edgeforest.RandomForestClassifier(20, engine=engine, budget=budget, **options)
        return model.fit(X, y).forest_
    return edgeforest.train(X, y, engine=engine, budget=budget, **options)


def shape(X: Any, options: dict) -> str:
    if hasattr(X, "shape"):
        n, m = X.shape
    else:
        n, m = len(X), len(X[0])
    if options.get("by_column"):
        n, m = m, n
    return f"{n:,} x {m:,}"


def measure_seconds(args: argparse.Namespace) -> None:
    """Print a line a table: seconds taken by each engine, of each budget."""
    limits = [float(s) for s in args.seconds.split(",")]
    head = [f"{engine}, {s:g} s" for s in limits for engine in args.engines]
    print("| table | | rows x features |", " | ".join(head), "|", flush=True)
    print("|---|---|---|" + "---|" * len(head))
    for name in args.tables or SECONDS:
        X, y, options = SECONDS[name]()
        cells = []
        for limit in limits:
            for engine in args.engines:
                began = time.perf_counter()
                try:
                    forest = train_within(X, y, options, Budget(seconds=limit), engine)
                    said = f" ({len(forest)} trees, {len(forest.feature)} nodes)"
                except ValueError as error:
                    said = f" ({error})"
                took = time.perf_counter() - began
                over = "" if took <= max(1.2 * limit, limit + 0.2) else " **over**"
                cells.append(f"{took:.2f}{over}{said if args.verbose else ''}")
        about = SECONDS[name].__doc__
        print(f"| {name} | {about} | {shape(X, options)} |", " | ".join(cells), "|", flush=True)


# ---- Bytes


def floats() -> tuple[Any, Any, dict]:
    """float32 in an array"""
    return *_numbers(300_000, 20), {}


def narrow() -> tuple[Any, Any, dict]:
    """float64 in an array"""
    return *_numbers(1_000_000, 3, np.float64), {}


def text() -> tuple[Any, Any, dict]:
    """columns of text"""
    return *_words(100_000, 10), {"by_column": True, "categorical": range(10)}


def short() -> tuple[Any, Any, dict]:
    """a list of lists"""
    X, y = _numbers(100_000, 10)
    return X.tolist(), y.tolist(), {}


def small_codes() -> tuple[Any, Any, dict]:
    """uint8 in an array"""
    return *_numbers(1_000_000, 20, np.uint8), {}


def weighted() -> tuple[Any, Any, dict]:
    """float32 in an array, weights and labels in lists"""
    X, y = _numbers(300_000, 10)
    return X, y.tolist(), {"sample_weight": X[:, 2].tolist()}


def many() -> tuple[Any, Any, dict]:
    """float32 in an array, 1,000 classes"""
    X, _ = _numbers(100_000, 10)
    return X, np.random.default_rng(1).integers(1000, size=len(X)), {}


BYTES = {
    "floats": floats,
    "narrow": narrow,
    "text": text,
    "short": short,
    "codes": small_codes,
    "weighted": weighted,
    "many": many,
}
FILES = ("csv", "jsonl", "npy", "sqlite", "parquet")
FILE_ROWS, FILE_FEATURES = 300_000, 20


def write_file(folder: str, kind: str) -> str:
    """A file of that kind, with numbers, a text and a target; returns its path."""
    path = os.path.join(folder, f"log.{kind}")
    X, y = _numbers(FILE_ROWS, FILE_FEATURES)
    names = [*[f"f{k}" for k in range(FILE_FEATURES)], "y"]
    table = np.column_stack([X, y]).astype(np.float32)
    if kind == "npy":
        np.save(path, table)
    elif kind == "parquet":
        from pyarrow import parquet
        from pyarrow import table as arrow

        columns = {name: table[:, f] for f, name in enumerate(names)}
        parquet.write_table(arrow(columns), path)  # one row group of all rows
    elif kind == "sqlite":
        import sqlite3

        with sqlite3.connect(path) as database:
            database.execute(f"create table log ({', '.join(names)})")
            marks = ", ".join("?" * len(names))
            database.executemany(f"insert into log values ({marks})", table.tolist())
        database.close()
    else:
        with open(path, "w") as stream:
            if kind == "csv":
                stream.write(",".join(names) + "\n")
            for row in table.tolist():
                if kind == "csv":
                    stream.write(",".join([f"{v:.6g}" for v in row]) + "\n")
                else:
                    stream.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")
    return path


def memory(key: str) -> int:
    """Bytes that the system says this process has (VmRSS), or had at most (VmHWM)."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(key):
                return 1024 * int(line.split()[1])
    raise RuntimeError(f"no {key} in /proc/self/status")


def child(task: dict) -> None:
    """Train once in this process, and print the peak."""
    engine, budget = task["engine"], Budget(2_000_000, bytes=task["bytes"])  # so that it ends soon
    options: dict[str, Any] = {"criterion": task["criterion"], "n_trees": task.get("trees", 10)}
    warm = [[i % 7, i % 5] for i in range(300)]  # whatever is imported late is imported
    edgeforest.train(warm, [i % 7 for i in range(300)], engine=engine, **options)
    path = task.get("path")
    if path:
        from edgeforest.sources import open_source

        if path.endswith("parquet"):  # whatever pyarrow imports late, too, which is a lot
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.table({"a": [1.0], "b": ["c"]}), path + ".small")
            open_source(path + ".small").read([0])

        given = {"names": [*[f"f{k}" for k in range(FILE_FEATURES)], "y"]}
        train_source: Any = edgeforest.train_source
        source = open_source(path, **(given if path.endswith("npy") else {}))
        edgeforest.train_source({"a": [1, 2] * 50, "b": [0, 1] * 50}, "b", engine=engine)
    else:
        X, y, more = BYTES[task["table"]]()
        options |= more
        if task["criterion"] == "mse":  # each row its own: trees have many nodes
            values = np.random.default_rng(2).random(len(y)) + np.asarray(y, float)
            y = values.tolist() if isinstance(y, list) else values
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # the peak begins here
    before = memory("VmRSS")
    try:
        if path:
            target = {"task": "regression" if task["criterion"] == "mse" else "classification"}
            forest = train_source(source, "y", engine=engine, budget=budget, **options, **target)
        else:
            forest = edgeforest.train(X, y, engine=engine, budget=budget, **options)
        result: dict[str, Any] = {"nodes": len(forest.feature)}
    except ValueError as error:
        result = {"refused": str(error)}
    print(json.dumps({"peak": memory("VmHWM") - before, **result}))


def peak(task: dict) -> dict:
    """What `child` found, in a process of its own."""
    call = [sys.executable, "-m", "benchmarks.budgets", "child", json.dumps(task)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict = json.loads(done.stdout)
    return found


def fitted(task: dict) -> int:
    """A budget that is just enough: what a refusal asks for, and a tenth more."""
    refused = peak({**task, "bytes": 1000})["refused"]
    found = re.search(r"\d+(?= bytes)", refused)
    assert found, refused
    return int(found[0]) * 11 // 10


def measure_bytes(args: argparse.Namespace) -> None:
    """Print a line a table and criterion: megabytes at the peak of each engine, of its budget."""
    print("| table | | criterion |", " | ".join(args.engines), "|", flush=True)
    print("|---|---|---|" + "---|" * len(args.engines))
    with tempfile.TemporaryDirectory() as folder:
        for name in args.tables or [*BYTES, *FILES]:
            path = write_file(folder, name) if name in FILES else None
            about = BYTES[name].__doc__ if name in BYTES else f"{FILE_ROWS:,} x {FILE_FEATURES}"
            for criterion in ("gini", "entropy", "mse"):
                cells = []
                for engine in args.engines:
                    task: dict[str, Any] = {"table": name, "engine": engine, "criterion": criterion}
                    task["path"] = path
                    task["bytes"] = (
                        100_000_000 if name == "parquet" else 64_000_000 if path else fitted(task)
                    )
                    found = peak(task)
                    ratio = found["peak"] / task["bytes"]
                    cells.append(
                        found.get("refused")
                        or f"{found['peak'] / 1e6:.1f} of {task['bytes'] / 1e6:.1f} ({ratio:.2f})"
                    )
                print(f"| {name} | {about} | {criterion} |", " | ".join(cells), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("seconds", "bytes", "child"))
    parser.add_argument("task", nargs="?")
    parser.add_argument("--engine", action="append", dest="engines", choices=ENGINES)
    parser.add_argument("--table", action="append", dest="tables")
    parser.add_argument("--seconds", default="0.5")
    parser.add_argument("--verbose", action="store_true", help="also trees and nodes")
    args = parser.parse_args()
    if args.what == "child":
        child(json.loads(args.task))
        return
    args.engines = args.engines or list(ENGINES)
    print(f"$ {command()}")
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}\n")
    (measure_seconds if args.what == "seconds" else measure_bytes)(args)


if __name__ == "__main__":
    main()
