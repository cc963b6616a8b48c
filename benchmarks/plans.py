"""Limits in seconds with and without the plan that `edgeforest calibrate` makes possible.

    python -m benchmarks.plans [--engine native] [--seconds 0.1,0.3,1] [--seeds 3]

Each training is done with the clock alone, which cuts 20 trees short, and with the plan, which grows
fewer if there is no time for all. Rows are in memory, and tables are read before the clock starts.
Beside each: the trees, the seconds, and the score of rows that were not trained on (accuracy, or the
share of the variance that is explained). Last, how far the speed of whole trees of each table is from
what `calibrate` says. The tables are those of `benchmarks/data.py`, and a generated one.
"""

import argparse

import numpy as np

from benchmarks import data
from benchmarks.common import about, mean_and_error
from edgeforest import Budget, engines
from edgeforest.engines import speed


def generated() -> data.Table:
    """25,000 x 12 numbers, four classes that two pairs of features make."""
    X = np.random.default_rng(0).normal(size=(30_000, 12)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] > 0) + 2 * (X[:, 2] + X[:, 3] > 0.5)
    return data.Table("generated", False, X[:25_000], y[:25_000], X[25_000:], y[25_000:])


def trained(
    table: data.Table,
    engine: engines.Name,
    seconds: float | None,
    first: float | None = None,
    seed: int = 0,
    n_trees: int = 20,
) -> tuple[int, float, float, float]:
    """Trees, seconds, score, and insertions a second of one training."""
    criterion = "mse" if table.regression else "gini"
    training = engines.read(
        table.X, table.y, engine=engine, criterion=criterion, budget=Budget(seconds=seconds),
        seed=seed, n_trees=n_trees,
    )  # fmt: skip
    budget = training.budget
    read = budget.tick()
    if first is not None:
        speed.plan(training, first)
    for _ in training:
        pass
    forest = training.forest()
    used = forest.spent.seconds
    found = np.array(forest.predict(table.X_test[:3000]))
    truth = table.y_test[:3000]
    score = float(np.mean(found == truth))
    if table.regression:
        score = 1 - float(np.mean((found - truth) ** 2) / np.var(truth))
    return len(forest), used, score, forest.spent.insertions / max(1e-3, used - read)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", choices=engines.present(), default=engines.present()[0])
    parser.add_argument("--seconds", default="0.1,0.3,1")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    print(f"python -m benchmarks.plans --engine {args.engine} --seconds {args.seconds}")
    print(about())
    here = speed.measure(args.engine)
    print(f"calibrated: {here}\n")
    print(
        "| table | seconds | by the clock: trees, seconds, score | planned: trees, seconds, score |"
    )
    print("|---|---|---|---|")
    rates = []
    for table in (generated(), data.mnist(), data.air()):
        for seconds in map(float, args.seconds.split(",")):
            cells = []
            for first in (None, here.first):
                runs = [trained(table, args.engine, seconds, first, s) for s in range(args.seeds)]
                trees, used, score, _ = (mean_and_error(v)[0] for v in zip(*runs, strict=True))
                cells.append(f"{trees:.0f}, {used:.2f}, {score:.3f}")
            print(f"| {table.about} | {seconds:g} | {' | '.join(cells)} |", flush=True)
        rates.append((table.about, trained(table, args.engine, None, n_trees=2)[3] / here.typical))
    print("\nwhole trees, their speed in times the typical one:")
    print(", ".join(f"{name} {rate:.2f}" for name, rate in rates))


if __name__ == "__main__":
    main()
