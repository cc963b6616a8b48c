"""How good the splits are: each beside the best of the drawn features over all thresholds.

    python -m benchmarks.regret [--data FOLDER] [--trees 3] [--depth 8] [--sets adult,mnist]

Trains with the NumPy engine, whose forests are those of all engines. At every node of 1,000 rows or
more it counts all rows by every code of the drawn features. A split is good if its gain is within
10 % of the best, or within 0.001 of the node's impurity. Prints the share of good splits and the
insertions, of the race and of exact counting. adult.csv (the census income table of UCI, with a header)
is looked for where data.py looks; without it that set is left out.
"""

import argparse
import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import data
from edgeforest import Rng, core_pure, train

LEAST = 1000  # rows of the nodes that are looked at
NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")


@dataclass
class Quality:
    """The gains at one node: of its split, of the best arm that raced, of the best of any threshold."""

    chosen: float
    raced: float
    best: float
    impurity: float
    rows: int

    @property
    def good(self) -> bool:
        return self.chosen >= 0.9 * self.best or self.best - self.chosen <= 0.001 * self.impurity


def impurities(cells: Any, criterion: str) -> tuple[Any, Any]:
    """(rows, rows times impurity) of cells; classes, or powers of the target, lie along axis 0."""
    if criterion == "mse":
        n = cells[0]
        return n, cells[2] - cells[1] * cells[1] / np.maximum(n, 1)
    n = cells.sum(axis=0)
    if criterion == "gini":
        return n, n - (cells * cells).sum(axis=0) / np.maximum(n, 1)
    logs = cells * np.log2(np.maximum(cells, 1))
    return n, n * np.log2(np.maximum(n, 1)) - logs.sum(axis=0)


def gains(left: Any, total: Any, criterion: str) -> Any:
    """The gain of splits with these cells on the left; they lie along the last axis."""
    n, whole = impurities(total, criterion)
    n_left, on_left = impurities(left, criterion)
    n_right, on_right = impurities(total[:, None] - left, criterion)
    return np.where((n_left > 0) & (n_right > 0), (whole - on_left - on_right) / n, 0.0)


def quality(task: Any, nodes: Any, start: int, end: int, rng: Rng, split: Any) -> Quality:
    """Count the node by every code of its drawn features, and compare."""
    criterion = task.grown.criterion
    rows = nodes.rows[start:end]
    times, labels = nodes.drawn[rows].astype(float), nodes.labels[rows].astype(float)
    weights = [times * labels**k for k in range(3)]
    if criterion != "mse":
        weights = [times * (labels == k) for k in range(task.data.width)]
    total = np.array([w.sum() for w in weights])
    best = raced = chosen = 0.0
    first = 0 if task.data.raw else 1  # code 0 is for missing values
    for c in nodes.contenders(start, end, rng)[0]:
        codes = nodes.codes[rows, c.feature]
        cells = np.array([np.bincount(codes, w, 256) for w in weights])
        left = cells[:, first:] if c.equal else cells[:, first:].cumsum(axis=1)
        missing = cells[:, :1] if first else np.zeros((len(cells), 1))
        both = [gains(left + side, total, criterion) for side in (0.0 * missing, missing)]
        best = max(best, both[0].max(), both[1].max())
        cuts = [max(0, code - first) for code in c.cuts[: c.bins]]
        raced = max(raced, both[0][cuts].max(), both[1][cuts].max())
        if c.feature == split.feature:
            chosen = both[bool(split.missing_left)][max(0, split.code - first)]
    n, whole = impurities(total, criterion)
    return Quality(float(chosen), float(raced), float(best), float(whole / n), end - start)


@contextmanager
def probe() -> Iterator[list[Quality]]:
    """The quality of every split of 1,000 rows or more that the NumPy engine finds meanwhile."""
    notes: list[Quality] = []
    plain = core_pure.find_split

    def probed(task: Any, nodes: Any, start: int, end: int, rng: Rng, wanted: int) -> Iterator[Any]:
        twin = Rng()
        twin.z, twin.w = rng.z, rng.w  # to draw the same features again
        split = yield from plain(task, nodes, start, end, rng, wanted)
        if split is not None and end - start >= LEAST:
            notes.append(quality(task, nodes, start, end, twin, split))
        return split

    core_pure.find_split = probed  # type: ignore[assignment]
    try:
        yield notes
    finally:
        core_pure.find_split = plain


def measured(X: Any, y: Any, **options: Any) -> tuple[int, float, int]:
    """Train; returns the nodes that were looked at, the share of good splits, and the insertions."""
    with probe() as notes:
        forest = train(X, y, engine="numpy", max_samples=1.0, **options)
    share = float(np.mean([q.good for q in notes])) if notes else 1.0
    return len(notes), share, forest.spent.insertions


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
