"""How often a race breaks its promise, over thousands of generated nodes, beside the nominal rate.

    python -m benchmarks.guarantee [--nodes 1000] [--rows 6000] [--only rare]

The promise: no arm that raced (a feature and a cut between two bins) is better than the chosen split
by more than 10 % of its gain, or by 0.001 of the node's impurity if that is more. A race drops an arm at
2.25 standard errors, so one decision about one arm at the edge of the tolerance is wrong with a chance of
0.0122. A race has many arms and several rounds, and no correction is made for that: most arms are far
from the edge. Each case is one node, drawn anew each time, in which all 8 features race.

The columns: how often the promise was broken, with its standard error; by how much of the best gain the
chosen split fell short, on average over all nodes; the same beside the best of all thresholds, which
the bins hide in part; and the insertions, of those of exact counting. coverage.py has the intervals
behind it, regret.py the same question on real data.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.common import about
from benchmarks.regret import probe
from edgeforest import train
from edgeforest.core_pure import TOLERANCE, TOLERANCE_IMPURITY, Z

FEATURES = 8
Draw = Callable[[np.random.Generator, np.ndarray], Any]  # from the features to labels


def signal(X: np.ndarray) -> np.ndarray:
    return X[:, 0] + 0.7 * X[:, 1] * (X[:, 2] > 0) + 0.5 * X[:, 3]


def noise(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    return rng.normal(size=len(X))


def many(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    score = signal(X) + noise(rng, X)
    return np.digitize(score, np.quantile(score, np.arange(1, 20) / 20))


def rare(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    score = signal(X) + 0.5 * noise(rng, X)
    return (score > np.quantile(score, 0.99)).astype(int)


CLASSES: dict[str, Draw] = {
    "strong, 3 classes": lambda r, X: np.digitize(signal(X) + noise(r, X), [-0.8, 0.8]),
    "weak, 2 classes": lambda r, X: (0.3 * signal(X) + noise(r, X) > 0).astype(int),
    "nothing to gain": lambda r, X: (noise(r, X) > 0).astype(int),
    "20 classes": many,
    "a class of 1 %": rare,
    "the same, balanced by weights": rare,
    "ties": lambda r, X: (X[:, 0] + noise(r, X) > 0).astype(int),
}
TARGETS: dict[str, Draw] = {
    "strong": lambda r, X: signal(X) + noise(r, X),
    "weak": lambda r, X: 0.3 * signal(X) + noise(r, X),
    "nothing to gain": noise,
    "lognormal": lambda r, X: np.exp(0.5 * signal(X) + noise(r, X)),
    "rows of weight 1 to 9": lambda r, X: signal(X) + noise(r, X),
    "ties": lambda r, X: X[:, 0] + noise(r, X),
}


def cases() -> Iterator[tuple[str, str, Draw]]:
    """Every case: the criterion, its name, and how labels follow from features."""
    for criterion, draws in (("gini", CLASSES), ("entropy", CLASSES), ("mse", TARGETS)):
        for name, draw in draws.items():
            yield criterion, name, draw


def one_node(criterion: str, name: str, draw: Draw, rows: int, seed: int) -> tuple[float, ...]:
    """Race one node; (broken, short of the bins, short of all, its insertions, those of exact)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    if name == "ties":
        X = np.round(X * 3)  # few values, and two features that are the same
        X[:, 1] = X[:, 0]
    options: dict[str, Any] = {}
    if "balanced" in name:
        options["class_weight"] = "balanced"
    if "weight 1" in name:
        options["sample_weight"] = rng.integers(1, 10, size=rows)
    with probe() as notes:
        forest = train(
            X,
            draw(rng, X),
            engine="numpy",
            criterion=criterion,  # type: ignore[arg-type]
            n_trees=1,
            max_depth=1,
            max_features=FEATURES,
            max_samples=1.0,
            seed=seed,
            **options,
        )
    if not notes:  # no arm gains anything: nothing was promised
        return 0.0, 0.0, 0.0, forest.spent.insertions, FEATURES * rows
    (q,) = notes
    slack = max(TOLERANCE * q.chosen, TOLERANCE_IMPURITY * q.impurity)
    short = [max(0.0, 1.0 - q.chosen / best) if best > 0 else 0.0 for best in (q.raced, q.best)]
    return q.raced > q.chosen + slack, *short, forest.spent.insertions, FEATURES * q.rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1000, help="of each case (1000)")
    parser.add_argument("--rows", type=int, default=6000, help="of a node (6000)")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    args = parser.parse_args()
    nominal = 0.5 * math.erfc(Z / math.sqrt(2.0))
    print(
        f"{about()}; {args.nodes:,} nodes of {args.rows:,} rows each; nominal: {nominal:.4f}\n\n### Promise\n"
    )
    print(
        "| criterion | nodes | broken | short of the best raced | of any threshold | insertions |"
    )
    print("|---" * 6 + "|")
    for criterion, name, draw in cases():
        if args.only not in name:
            continue
        found = [one_node(criterion, name, draw, args.rows, seed) for seed in range(args.nodes)]
        broken, raced, best, ours, exact = np.array(found, float).T
        rate = broken.mean()
        error = math.sqrt(rate * (1 - rate) / len(broken))
        print(
            f"| {criterion} | {name} | {rate:.4f} ± {error:.4f} | {raced.mean():.1%} "
            f"| {best.mean():.1%} | {ours.sum() / exact.sum():.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
