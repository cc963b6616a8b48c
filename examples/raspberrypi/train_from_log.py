"""Train on a log that lies on the SD card, before a deadline.

    python train_from_log.py log.csv --target occupied --minutes 5 --out model.json

The log may be larger than the memory, and of any kind that `edgeforest.sources` reads: CSV (also
gzipped), JSON lines, InfluxDB's line protocol, SQLite, .npy, Parquet. The model is written after
every tree, so there is one even if the power fails; started again, the training goes on from there.
"""

import argparse
import signal
import sys
import time

from edgeforest import Budget
from edgeforest.sources import open_source
from edgeforest.streaming import Streaming


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", nargs="+", help="one file, or several that belong together")
    parser.add_argument("--target", required=True, help="the column to learn")
    parser.add_argument(
        "--drop", nargs="*", default=[], help="columns to leave out, such as the time"
    )
    parser.add_argument("--out", default="model.json")
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--depth", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=10.0, help="the deadline")
    parser.add_argument("--megabytes", type=float, default=64.0, help="of memory for the training")
    parser.add_argument("--max-bad", type=int, default=100, help="rows that may be unreadable")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    began = time.monotonic()
    log = open_source(args.log if len(args.log) > 1 else args.log[0])
    log.max_bad = args.max_bad
    print(f"{len(log):,} rows, {len(log.names)} columns, read in {time.monotonic() - began:.1f} s")
    training = Streaming(
        log,
        args.target,
        drop=args.drop,
        n_trees=args.trees,
        max_depth=args.depth,
        budget=Budget(
            seconds=max(1.0, 60 * args.minutes - (time.monotonic() - began)),
            bytes=int(args.megabytes * 1_000_000),
        ),
        checkpoint=args.out,
        resume=True,
    )
    for name, why in training.schema.left_out:
        print(f"left out: {name} ({why})")
    if len(training.grown):
        print(f"going on from {len(training.grown)} trees in {args.out}")

    def stop(*_: object) -> None:  # systemd asks politely before it pulls the plug
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    shown = len(training.grown)
    try:
        for step in training:
            if len(step.grown) > shown:
                shown = len(step.grown)
                spent = step.budget.spent
                print(
                    f"\r{shown} of {step.planned} trees, {spent.insertions:,} insertions, "
                    f"{time.monotonic() - began:.0f} s",
                    end="",
                    flush=True,
                )
    except KeyboardInterrupt:
        pass
    print()
    for place, why in log.complaints:
        print(f"skipped: {place} {why}")
    if not len(training.grown):
        sys.exit("no tree was done before the end; give it more time")
    forest = training.forest()
    print(f"{args.out}: {len(forest)} trees; start again to go on, or predict with it:")
    print(f"    edgeforest predict {args.out} new.csv")
    best = sorted(zip(forest.feature_importances, forest.names, strict=True), reverse=True)
    for share, name in best[:5]:
        print(f"    {share:6.1%}  {name}")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"train_from_log: {error}")
