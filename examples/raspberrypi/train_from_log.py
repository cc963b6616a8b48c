"""Train on a log on the SD card before a deadline.

    python train_from_log.py log.csv --target occupied --minutes 5 --out model.json

The log may be larger than the memory, and in any format that `edgeforest.sources` reads: CSV (also
gzipped), JSON lines, InfluxDB's line protocol, SQLite, .npy, Parquet. It may grow during the training,
which uses the rows that were there at the start. Every tree is kept in a checkpoint beside the model,
so a power cut costs one tree; when it is started again, the training goes on from there. The model
itself is replaced once all trees are done. Run every night, it learns all rows of the log so far.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator

from edgeforest import Budget, Forest
from edgeforest.sources import Source, open_source
from edgeforest.sources.training import Streaming


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", nargs="+", help="one file, or several that belong together")
    parser.add_argument("--target", required=True, help="the column to learn")
    parser.add_argument(
        "--drop", nargs="*", default=[], help="columns to leave out, such as the time"
    )
    parser.add_argument("--out", default="model.json", help="the model (default: model.json)")
    parser.add_argument(
        "--checkpoint",
        help="where trees are kept during the training (default: model.training.json)",
    )
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--depth", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=10.0, help="the deadline")
    parser.add_argument("--megabytes", type=float, default=64.0, help="of memory for the training")
    parser.add_argument(
        "--max-bad", type=int, default=100, help="skip up to this many unreadable rows"
    )
    args = parser.parse_args(given)
    args.checkpoint = args.checkpoint or os.path.splitext(args.out)[0] + ".training.json"
    return args


def main(given: list[str] | None = None) -> None:
    args = arguments(given)
    began = time.monotonic()
    log = open_source(args.log if len(args.log) > 1 else args.log[0])
    log.max_bad = args.max_bad
    print(f"{len(log):,} rows, {len(log.names)} columns, read in {time.monotonic() - began:.1f} s")

    def stop(*_: object) -> None:  # systemd asks politely before it pulls the plug
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    seconds = max(1.0, 60 * args.minutes - (time.monotonic() - began))
    later = 1
    while later:  # a training that was cut short is finished first, with its own rows
        training = begin(log, args, seconds)
        for _ in watched(training):
            pass
        forest = training.forest()
        forest.save(args.out)
        later = training.later
        print(f"{args.out}: {len(forest)} trees from {len(training.source):,} rows")
    for place, why in training.source.complaints:
        print(f"skipped: {place} {why}")
    print(f"predict with it: edgeforest predict {args.out} new.csv")
    show(forest)


def begin(log: Source, args: argparse.Namespace, seconds: float) -> Streaming:
    """The training of this log, or an unfinished one of its first rows."""
    training = Streaming(
        log,
        args.target,
        drop=args.drop,
        n_trees=args.trees,
        max_depth=args.depth,
        budget=Budget(seconds=seconds, bytes=int(args.megabytes * 1_000_000)),
        checkpoint=args.checkpoint,
        resume=True,
    )
    for name, why in training.schema.left_out:
        print(f"left out: {name} ({why})")
    if training.note:
        print(training.note)
    if len(training.grown):
        print(f"going on from {len(training.grown)} trees in {args.checkpoint}")
    return training


def watched(training: Streaming) -> Iterator[Streaming]:
    """The steps of a training; on a terminal, a line shows how far it is."""
    shown = len(training.grown)
    for step in training:
        yield step
        if len(step.grown) > shown and sys.stdout.isatty():
            shown = len(step.grown)
            spent = step.budget.spent
            print(
                f"\r{shown} of {step.planned} trees, {spent.insertions:,} insertions, "
                f"{spent.seconds:.0f} s",
                end="\n" if shown == step.planned else "",
                flush=True,
            )


def show(forest: Forest) -> None:
    """Print the most important features."""
    best = sorted(zip(forest.feature_importances, forest.names, strict=True), reverse=True)
    for share, name in best[:5]:
        print(f"    {share:6.1%}  {name}")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"train_from_log: {error}")
    except KeyboardInterrupt:
        sys.exit("train_from_log: stopped; start it again to go on")
