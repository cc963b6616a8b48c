"""How good the splits are: each beside the best of the drawn features over all thresholds.

    python benchmarks/regret.py [--data FOLDER] [--trees 3] [--depth 8] [--sets adult,mnist]

Trains with the NumPy engine, whose forests are those of all engines. At every node of 1,000 rows or
more it counts all rows by every code of the drawn features. A split is good if its gain is within
10 % of the best, or within 0.001 of the node's impurity. Prints the share of good splits and the
insertions, of the race and of exact counting. adult.csv (the census income table of UCI, with a header)
is looked for where data.py looks; without it that set is left out.
"""

import argparse
import csv
from collections.abc import Callable, Iterator
from typing import Any

import data
import numpy as np

from edgeforest import Rng, core_pure, train

LEAST = 1000  # rows of the nodes that are looked at
NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")


def gains(left: Any, total: Any, regression: bool) -> Any:
    """The gain of splits with these sums on the left; they lie along the first axis."""
    n = total[0] if regression else total.sum()
    n_left = left[0] if regression else left.sum(axis=0)
    n_right = n - n_left
    some = (n_left > 0) & (n_right > 0)
    on_left, on_right = np.maximum(n_left, 1), np.maximum(n_right, 1)
    if regression:
        d = left[1] - total[1] * n_left / n
        gain = (d * d / on_left + d * d / on_right) / n
    else:
        right = total[:, None] - left
        sums = (left * left).sum(axis=0) / on_left + (right * right).sum(axis=0) / on_right
        gain = sums / n - (total / n).dot(total / n)
    return np.where(some, gain, 0.0)


def impurity(total: Any, regression: bool) -> float:
    if regression:
        return float(total[2] / total[0] - (total[1] / total[0]) ** 2)
    return float(1.0 - ((total / total.sum()) ** 2).sum())


def is_good(task: Any, nodes: Any, start: int, end: int, rng: Rng, split: Any) -> bool:
    """Count the node by every code of its drawn features, and compare."""
    regression = task.data.regression
    rows = nodes.rows[start:end]
    times, labels = nodes.drawn[rows].astype(float), nodes.labels[rows].astype(float)
    weights = [times * labels**k for k in range(3)]
    if not regression:
        weights = [times * (labels == k) for k in range(task.data.width)]
    total = np.array([w.sum() for w in weights])
    best = chosen = 0.0
    first = 0 if task.data.raw else 1  # code 0 is for missing values
    for c in nodes.contenders(start, end, rng)[0]:
        codes = nodes.codes[rows, c.feature]
        cells = np.array([np.bincount(codes, w, 256) for w in weights])
        left = cells[:, first:] if c.equal else cells[:, first:].cumsum(axis=1)
        missing = cells[:, :1] if first else np.zeros((len(cells), 1))
        both = [gains(left + side, total, regression) for side in (0.0 * missing, missing)]
        best = max(best, both[0].max(), both[1].max())
        if c.feature == split.feature:
            chosen = both[bool(split.missing_left)][max(0, split.code - first)]
    return bool(chosen >= 0.9 * best or best - chosen <= 0.001 * impurity(total, regression))


def measured(X: Any, y: Any, **options: Any) -> tuple[int, float, int]:
    """Train; returns the nodes that were looked at, the share of good splits, and the insertions."""
    notes: list[bool] = []
    plain = core_pure.find_split

    def probed(task: Any, nodes: Any, start: int, end: int, rng: Rng, wanted: int) -> Iterator[Any]:
        twin = Rng()
        twin.z, twin.w = rng.z, rng.w  # to draw the same features again
        split = yield from plain(task, nodes, start, end, rng, wanted)
        if split is not None and end - start >= LEAST:
            notes.append(is_good(task, nodes, start, end, twin, split))
        return split

    core_pure.find_split = probed  # type: ignore[assignment]
    try:
        forest = train(X, y, engine="numpy", max_samples=1.0, **options)
    finally:
        core_pure.find_split = plain
    return len(notes), float(np.mean(notes)) if notes else 1.0, forest.spent.insertions


def adult(given: str | None) -> data.Table | None:
    path = data.find("adult.csv", given)
    if not path:
        return None
    with path.open(newline="") as stream:
        names, *lines = csv.reader(stream)
    X = np.array([[float(line[names.index(f)]) for f in NUMBERS] for line in lines], np.float32)
    y = np.array([line[-1].strip().startswith(">") for line in lines])
    return data.Table("the six numbers of Adult", False, X, y, X, y)


def classes(given: str | None) -> data.Table:
    from sklearn.datasets import make_classification

    X, y = make_classification(
        60_000, 20, n_informative=12, n_classes=20, n_clusters_per_class=1, random_state=3
    )
    X = X.astype(np.float32)
    return data.Table("generated, 20 classes", False, X, y, X, y)


def rare(given: str | None) -> data.Table:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(100_000, 10)).astype(np.float32)
    score = X[:, 0] + 0.7 * X[:, 1] + 0.5 * rng.normal(size=len(X))
    y = score > np.quantile(score, 1 - 0.0013)
    return data.Table("generated, a class of 0.13 %", False, X, y, X, y)


SETS: dict[str, Callable[[str | None], Any]] = {"adult": adult, "classes": classes, "rare": rare}
SETS |= {"made": data.made, "mnist": data.mnist, "air": data.air}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data")
    parser.add_argument("--trees", type=int, default=3)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--rows", type=int, default=100_000, help="at most, of each set")
    parser.add_argument("--sets", default=",".join(SETS))
    args = parser.parse_args()
    print("| set | features a split | nodes | good: mab | good: exact | insertions: mab | exact |")
    print("|---|---|---|---|---|---|---|")
    for name in args.sets.split(","):
        table = SETS[name](args.data)
        if table is None:
            print(f"| {name}: not found | | | | | | |")
            continue
        X, y = table.X[: args.rows], table.y[: args.rows]
        options = {"n_trees": args.trees, "max_depth": args.depth}
        options["criterion"] = "mse" if table.regression else "gini"
        if X.shape[1] < 10:
            options["max_features"] = X.shape[1]
        found = [measured(X, y, splitter=s, **options) for s in ("mab", "exact")]
        (nodes, good, cost), (_, exact, exact_cost) = found
        width = options.get("max_features", int(X.shape[1] ** 0.5))
        print(
            f"| {table.about} | {width} | {nodes} | {good:.2f} | {exact:.2f} "
            f"| {cost:,} | {exact_cost:,} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
