"""The drift alarm: false alarms in worlds that stay, and rows until it is raised after a change.

    python -m benchmarks.drift [--seeds 30] [--rows 100000] [--only NAME ...]

It needs `pip install numpy`. The streams are those of benchmarks/online.py, and two more: random
trees, and labels that nothing depends on. For each there are `--seeds` streams of `--rows` rows
whose rule stays, and as many of 20,000 rows whose rule changes (at once: the hyperplane is left out).
An alarm is late if it comes more than 500 rows after the change, or not at all; any other alarm that
does not belong to a change is false, also if it is a second one about the same change.
"""

import argparse
import platform
import statistics

import numpy as np

from benchmarks import command
from benchmarks.online import MADE, Stream
from edgeforest import OnlineForest

SOON = 500  # rows
CHANGING = 20_000  # rows of a stream that changes
PARTS = {"SEA": 4, "Agrawal": 3}  # in which the rule is another one; 2 unless said


def random_tree(rng: np.random.Generator, n: int, drift: bool) -> Stream:
    """Ten numbers, labelled by a tree of five levels; by another one from the middle on."""
    X, y = rng.random((n, 10)), np.zeros(n, int)
    for part in np.array_split(np.arange(n), 2 if drift else 1):
        node = np.zeros(len(part), int)
        for level in range(5):
            features, cuts = rng.integers(10, size=2**level), rng.uniform(0.2, 0.8, 2**level)
            node = 2 * node + (X[part, features[node]] > cuts[node])
        y[part] = rng.integers(2, size=2**5)[node]
    return X, y


def noise(rng: np.random.Generator, n: int, drift: bool) -> Stream:
    """Five numbers and one of three labels, all drawn at random."""
    return rng.random((n, 5)), rng.integers(3, size=n)


STREAMS = MADE | {"random tree": random_tree, "noise": noise}


def alarms(name: str, seed: int, n: int, drift: bool) -> list:
    """The alarms of a learner."""
    rng = np.random.default_rng([seed, list(STREAMS).index(name), drift])
    X, y = STREAMS[name](rng, n, drift)
    found: list = []
    OnlineForest(
        X.shape[1], classes=np.unique(y).tolist(), seed=seed, on_drift=found.append
    ).update_batch(X, y)
    return found


def changes(name: str, seeds: int) -> tuple[list[list[int]], int]:
    """For each change the delays of the alarms that came soon, and the number of other alarms."""
    starts = [int(p[0]) for p in np.array_split(np.arange(CHANGING), PARTS.get(name, 2))]
    delays: list[list[int]] = [[] for _ in starts[1:]]
    others = 0
    for seed in range(seeds):
        rows = [alarm.row for alarm in alarms(name, seed, CHANGING, True)]
        others += len(rows)
        for k, (start, end) in enumerate(zip(starts[1:], [*starts[2:], CHANGING], strict=True)):
            here = [row - start for row in rows if start < row <= end]
            if here and here[0] <= SOON:
                delays[k].append(here[0])
                others -= 1
    return delays, others


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--rows", type=int, default=100_000, help="of a stream that stays")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[*STREAMS])
    args = parser.parse_args()
    print(command())
    print(f"{platform.machine()}, Python {platform.python_version()}\n")
    print(
        f"| | false alarms in {args.seeds} x {args.rows:,} rows that stay, most in one "
        "| changes noticed in time: rows, median and longest | other alarms |\n|---|---|---|---|"
    )
    for name in args.only or STREAMS:
        counts = [len(alarms(name, seed, args.rows, False)) for seed in range(args.seeds)]
        cells = [name, f"{sum(counts)}, {max(counts)}", "-", "-"]
        if name not in ("hyperplane", "noise"):
            delays, others = changes(name, args.seeds)
            parts = [
                f"{len(part)} of {args.seeds}: {statistics.median(part):.0f}, {max(part)}"
                for part in delays
                if part
            ]
            cells[2:] = ["; ".join(parts), str(others)]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
