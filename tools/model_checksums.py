"""Print the checksum of every model of 300 generated trainings: did a change alter a forest?

    python tools/model_checksums.py > before.txt        # at the old commit
    python tools/model_checksums.py > after.txt         # at the new one
    diff before.txt after.txt                           # nothing: the same seed, the same forest

Kinds, splitters, criteria and options are drawn at random with fixed seeds, and every engine that is
present trains all of them; streaming, online, merged, pruned and shrunk forests follow. A line has the
case, and the checksum of each engine's model (or its error). `--cases N` takes fewer, `--engine NAME` one
engine alone.
"""

from __future__ import annotations

import argparse
import binascii
import random
from collections.abc import Callable, Iterator
from typing import Any

import edgeforest
from edgeforest import engine
from edgeforest.export import shrink
from edgeforest.sources import Table

CASES = 300
NEEDS_NUMPY = "needs NumPy"
WORDS = ["ant", "bee", "cat", "dog", "eel"]


def table(r: random.Random) -> tuple[list[list[Any]], list[int]]:
    """Rows of numbers, whole numbers and words, some of them missing; and which are words."""
    n = r.choice([40, 300, 1500, 3000])
    columns = [r.choice(["normal", "few", "word"]) for _ in range(r.randrange(1, 8))]
    share = r.choice([0.0, 0.0, 0.1])

    def value(kind: str) -> Any:
        if r.random() < share:
            return None
        if kind == "word":
            return r.choice(WORDS)
        return r.gauss(0, 10) if kind == "normal" else r.randrange(-3, 9)

    rows = [[value(kind) for kind in columns] for _ in range(n)]
    return rows, [f for f, kind in enumerate(columns) if kind == "word"]


def labels(r: random.Random, rows: list[list[Any]], regression: bool) -> list[Any]:
    """A label or number for each row that depends on its first value, and on chance."""
    classes = r.choice([2, 2, 3, 5, 40])

    def label(row: list[Any]) -> Any:
        first = row[0]
        x = len(first) + ord(first[0]) if isinstance(first, str) else (first or 0.0)
        x += r.gauss(0, 2)
        return x if regression else f"class {int(abs(x)) % classes}"

    return [label(row) for row in rows]


def options(r: random.Random, regression: bool) -> dict[str, Any]:
    given: dict[str, Any] = {
        "kind": r.choice(["random-forest", "extra-trees", "random-patches"]),
        "splitter": r.choice(["mab", "mab", "mab", "mab-paper", "exact"]),
        "criterion": "mse" if regression else r.choice(["gini", "entropy"]),
        "n_trees": r.randrange(1, 6),
        "max_depth": r.choice([None, 1, 3, 5, 8]),
        "seed": r.randrange(1000),
    }
    for name, values in (
        ("budget", [2000, 20_000]),
        ("max_features", [1, 2, 0.5]),
        ("min_samples_leaf", [3, 10]),
        ("min_impurity_decrease", [0.001]),
        ("max_leaf_nodes", [4, 20]),
        ("n_bins", [4, 40]),
        ("bootstrap", [True, False]),
        ("max_samples", [0.5, 100]),
        ("class_weight", [None if regression else "balanced"]),
        ("confidence", [0.9]),
    ):
        if r.random() < 0.2:
            given[name] = r.choice(values)
    return given


def batch_case(r: random.Random) -> Callable[[Any], Any]:
    regression = r.random() < 0.35
    rows, categorical = table(r)
    y = labels(r, rows, regression)
    given = options(r, regression)
    if r.random() < 0.15:
        given["sample_weight"] = [1 + i % 3 for i in range(len(rows))]
    return lambda name: edgeforest.train(rows, y, categorical=categorical, engine=name, **given)


def streaming_case(r: random.Random) -> Callable[[Any], Any]:
    regression = r.random() < 0.5
    rows, categorical = table(r)
    y = labels(r, rows, regression)
    columns: dict[str, Any] = {f"x{f}": [row[f] for row in rows] for f in range(len(rows[0]))}
    columns["y"] = y
    names = [f"x{f}" for f in categorical]
    trees, seed = r.randrange(1, 5), r.randrange(1000)

    def run(name: Any) -> Any:
        source = Table(columns)
        return edgeforest.train_source(
            source, "y", categorical=names, n_trees=trees, max_depth=5, seed=seed, engine=name
        )

    return run


def online_case(r: random.Random) -> Callable[[Any], Any]:
    regression = r.random() < 0.35
    rows, categorical = table(r)
    y = labels(r, rows, regression)
    criterion = "mse" if regression else "gini"
    seed = r.randrange(1000)

    def run(name: Any) -> Any:
        learner = edgeforest.OnlineForest(
            len(rows[0]),
            categorical=categorical,
            classes=None if regression else sorted(set(y)),
            criterion=criterion,
            n_trees=4,
            seed=seed,
            engine=name,
        )
        learner.update_batch(rows[:600], y[:600])
        return learner.forest()

    return run


def merged_case(r: random.Random) -> Callable[[Any], Any]:
    rows, categorical = table(r)
    y = labels(r, rows, False)
    seed = r.randrange(1000)

    def run(name: Any) -> Any:
        parts = [
            edgeforest.train(
                rows[i::3], y[i::3], categorical=categorical, n_trees=3, seed=seed, engine=name
            )
            for i in range(3)
        ]
        return edgeforest.prune(edgeforest.merge(parts), rows, y, max_trees=5)

    return run


def shrunk_case(r: random.Random) -> Callable[[Any], Any]:
    train = batch_case(r)
    return lambda name: shrink(train(name), levels=255)[0]


KINDS = (batch_case,) * 6 + (streaming_case, online_case, merged_case, shrunk_case)


def checksums(cases: int, names: list[str]) -> Iterator[str]:
    for n in range(cases):
        make = KINDS[n % len(KINDS)]
        run = make(random.Random(n))
        found = []
        for name in names:
            try:
                found.append(f"{binascii.crc32(run(name).to_json().encode()):08x}")
            except ValueError as error:
                found.append(str(error))
            except ImportError:  # `prune`, in a Python without NumPy
                found.append(NEEDS_NUMPY)
        yield f"{n:4} {make.__name__:15} " + " ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=CASES, help=f"how many (default {CASES})")
    parser.add_argument("--engine", choices=engine.present(), help="this one alone (default: all)")
    args = parser.parse_args()
    for line in checksums(args.cases, [args.engine] if args.engine else engine.present()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
