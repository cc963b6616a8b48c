"""MNIST in quarters that each lack some classes: four forests merged, beside one of all rows.

    python -m benchmarks.merge_quarters [--data FOLDER] [--trees 100] [--seeds 3] [--parts 4]

Every class is in as many quarters as the first column says (1, 2, 3: a third of the classes each),
with its rows shared out among them. All have as many trees together as the forest of all rows.
`plain mean` averages the class shares of all forests, `who know` those of the forests that know the
class; `best alone` is the best of the forests. Accuracy on the 10,000 test images in percent, the
mean over the seeds.
"""

import argparse
import sys

import numpy as np

from benchmarks import command, data
from edgeforest import train
from edgeforest.forests.merging import merge

COLUMNS = ("one forest", "merged", "plain mean", "who know", "best alone")


def split(y: np.ndarray, n: int, homes: list[int], rng: np.random.Generator) -> list[np.ndarray]:
    """The rows of each part; a class lives in as many of them as one of `homes` says."""
    parts: list[list[int]] = [[] for _ in range(n)]
    classes = rng.permutation(np.unique(y))
    known = np.zeros((n, len(classes)), bool)
    while known.sum(axis=1).min() < 2:
        known[:] = False
        for i in range(len(classes)):
            known[rng.choice(n, homes[i % len(homes)], replace=False), i] = True
    for i, k in enumerate(classes):
        where = np.flatnonzero(known[:, i])
        rows = rng.permutation(np.flatnonzero(y == k))
        for q, some in zip(where, np.array_split(rows, len(where)), strict=True):
            parts[q].extend(some)
    return [np.sort(part) for part in parts]


def scores(table: data.Table, homes: list[int], args: argparse.Namespace, seed: int) -> list[float]:
    """The accuracies of the columns."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(table.y))[: args.rows])
    X, y = table.X[rows], table.y[rows]
    options = {"engine": args.engine, "n_jobs": -1}
    given = [
        train(
            X[part],
            y[part],
            n_trees=args.trees // args.parts,
            seed=args.parts * seed + q,
            **options,
        )
        for q, part in enumerate(split(y, args.parts, homes, rng))
    ]
    whole = train(X, y, n_trees=args.trees, seed=seed, **options)
    shares = np.zeros((args.parts, len(table.y_test), 10))
    know = np.zeros(10)
    for q, forest in enumerate(given):
        shares[q][:, forest.classes] = forest.predict_proba(table.X_test)
        know[forest.classes] += 1
    answers = [
        np.array(whole.predict(table.X_test)),
        np.array(merge(given).predict(table.X_test)),
        shares.sum(axis=0).argmax(axis=1),
        (shares.sum(axis=0) / know).argmax(axis=1),
        *shares.argmax(axis=2),
    ]
    right = [100 * float(np.mean(answer == table.y_test)) for answer in answers]
    return [*right[:4], max(right[4:])]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data")
    parser.add_argument("--trees", type=int, default=100, help="of all forests together")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--parts", type=int, default=4, help="4 are quarters")
    parser.add_argument("--rows", type=int, default=60_000, help="of all forests together")
    parser.add_argument("--engine")
    args = parser.parse_args()
    if not data.find("mnist.npz", args.data):
        sys.exit("mnist.npz not found; give --data or set EDGEFOREST_DATA (see --help)")
    table = data.mnist(args.data)
    print(f"{command()}\n")
    print(f"| parts that have a class | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
    n = args.parts
    for homes in ([n], [n - 1], [n // 2, n - 1], [1, n // 2, n - 1], [1, n], [1]):
        if sum(homes) / len(homes) * 10 < 2 * n:
            continue  # a forest needs two classes to choose from
        found = [scores(table, homes, args, seed) for seed in range(args.seeds)]
        means = np.mean(found, axis=0)
        print(
            f"| {' or '.join(map(str, homes))} | {' | '.join(f'{mean:.1f}' for mean in means)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
