"""Is the score that `train` prints true, and do ten trees tell it? Beside the scores on other logs.

    python -m benchmarks.estimate TRAINING.csv TARGET OTHER.csv [OTHER.csv ...] [--seeds 10]

The first line has the score of forests of 20 trees on the other logs (the mean of these logs). Then, for
forests of so many trees and so wide a gap: the mean of the days that are left out in turn, how much it
differs from seed to seed, and its worst day; at last rows left out at random.
"""

from __future__ import annotations

import argparse
from statistics import mean, stdev

from edgeforest.scores import estimation, evaluate
from edgeforest.scores.from_source import estimating
from edgeforest.sources import open_source
from edgeforest.sources.schema import look
from edgeforest.sources.whole import Whole, train_steps


def finished(work):
    for _ in work:
        pass
    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("log")
    parser.add_argument("target")
    parser.add_argument("others", nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    source = Whole(open_source(args.log), args.target)
    schema = look(source, args.target, None)

    def show(name, scores, worst=""):
        print(f"{name:32} {mean(scores):.3f} ± {stdev(scores):.3f}  {worst}", flush=True)

    def other_logs(seed):
        forest = finished(train_steps(source, schema, seed=seed)).forest()
        return mean(evaluate(forest, log, args.target).score for log in args.others)

    show("other logs", [other_logs(seed) for seed in range(args.seeds)])
    for holdout, trees, gap in (
        *(("auto", trees, 0.05) for trees in (3, 5, 10, 20)),
        *(("auto", 10, gap) for gap in (0.0, 0.2)),
        ("random", 10, 0.05),
    ):
        estimation.TREES = trees
        found = []
        for seed in range(args.seeds):
            work = estimating(source, schema, holdout=holdout, seed=seed)
            work.splits.gap = gap
            found.append(finished(work).found)
        worst = mean(one.worst.score for one in found)
        show(
            f"{found[0].kind}, {trees} trees, gap {gap}",
            [one.mean for one in found],
            f"worst {worst:.3f}",
        )


if __name__ == "__main__":
    main()
