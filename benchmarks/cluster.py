"""Trees on a Dask cluster of this machine: one worker, two workers, and one process without Dask.

    python -m benchmarks.cluster [--rows 4000000] [--trees 160] [--leaf 5] [--bytes 0] [--csv]
                                 [--workers 0,1,2] [--folder FOLDER]

A generated file (20 features and the label) is written first: 84 bytes a row as `.npy`, some 180 as
CSV. Every way trains the same forest in a cluster of its own, whose workers are processes with one
thread each; 0 workers is `train_source` in one process. Printed are the seconds of the clock; the
processor seconds of the process that asks (with Dask's scheduler) and of each worker; the longest of
these, which is what the clock would show if each had a core; the peak memory of each worker above
that of the idle worker; and, counted by Dask, the bytes that the asking process has written to its
connections (its scheduler passes trees on) and that workers have sent. The checksums of the forests
must be equal. With `--bytes` the budget in bytes of each worker is limited.
"""

import argparse
import os
import sys
import tempfile
import time
import zlib
from contextlib import ExitStack
from typing import Any

from benchmarks import command
from benchmarks.common import about
from benchmarks.streaming import FEATURES, made, write

NAMES = [*[f"f{k}" for k in range(FEATURES)], "y"]


def write_csv(path: str, n: int) -> None:
    """A CSV file of n rows, written in pieces."""
    import pyarrow as pa
    from pyarrow import csv

    for seed, at in enumerate(range(0, n, 250_000)):
        table = made(min(250_000, n - at), seed).round(4)
        columns = {name: table[:, k] for k, name in enumerate(NAMES)}
        columns["y"] = columns["y"].astype(int)
        options = csv.WriteOptions(include_header=at == 0)
        with open(path, "ab") as stream:
            csv.write_csv(pa.table(columns), stream, write_options=options)


def state() -> tuple[float, float]:
    """Processor seconds and peak memory in MB of this process."""
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) / 1000 for line in status if line.startswith("VmHWM"))
    return time.process_time(), peak


def count_bytes(counted: list[int]) -> None:
    """Have what Dask's connections in this process write counted."""
    from distributed.comm.tcp import TCP

    plain = TCP.write

    async def write(self: Any, *given: Any, **options: Any) -> Any:
        n = await plain(self, *given, **options)
        counted[0] += n or 0
        return n

    TCP.write = write  # type: ignore[method-assign]


def checksum(forest: Any) -> int:
    """A number that shows whether two forests are the same: all nodes, votes and what they mean."""
    crc = zlib.crc32(repr((forest.classes, forest.scale, forest.importances)).encode())
    for name in ("roots", "feature", "threshold", "right", "votes"):
        crc = zlib.crc32(getattr(forest, name), crc)
    return crc


def run(path: str, workers: int, args: argparse.Namespace) -> dict[str, Any]:
    """Train once; what it took."""
    import edgeforest
    from edgeforest.sources import open_source

    options = {} if args.csv else {"names": NAMES}
    budget = edgeforest.Budget(bytes=args.bytes) if args.bytes else None
    source = open_source(path, **options)
    found: dict[str, Any] = {"workers": [], "sent": 0, "moved": 0}
    counted = [0]
    with ExitStack() as block:
        client = None
        if workers:
            import distributed
            import joblib

            count_bytes(counted)
            local = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1"
            )
            client = block.enter_context(distributed.Client(block.enter_context(local)))
            block.enter_context(joblib.parallel_config("dask", client=client))
            client.run(__import__, "edgeforest.sources.pools")
            before = client.run(state)
        counted[0] = 0
        began, cpu = time.perf_counter(), time.process_time()
        forest = edgeforest.train_source(
            source, "y", n_trees=args.trees, min_samples_leaf=args.leaf, budget=budget
        )
        found["seconds"] = time.perf_counter() - began
        found["driver"] = time.process_time() - cpu
        found["peak"] = state()[1]
        if client is not None:
            after = client.run(state)
            found["workers"] = [
                (after[name][0] - before[name][0], after[name][1] - before[name][1])
                for name in sorted(after)
            ]
            found["sent"] = counted[0]
            moved = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
            found["moved"] = sum(moved.values())
    found["trees"], found["nodes"] = len(forest), len(forest.feature)
    found["checksum"] = checksum(forest)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--trees", type=int, default=160)
    parser.add_argument("--leaf", type=int, default=5, help="rows of a leaf, at least")
    parser.add_argument("--bytes", type=int, default=0, help="of each worker, for the training")
    parser.add_argument("--csv", action="store_true")
    parser.add_argument("--workers", default="0,1,2")
    parser.add_argument("--folder")
    args = parser.parse_args()
    print(f"{command()}; {about('distributed')}")
    print(
        "| workers | seconds | CPU: asking | CPU: workers | longest | MB: asking, peak | "
        "MB: workers, above idle | MB written by asking | MB sent by workers | trees | nodes | forest |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    sums = set()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = os.path.join(folder, "log.csv" if args.csv else "log.npy")
        (write_csv if args.csv else write)(path, args.rows)
        for workers in map(int, args.workers.split(",")):
            got = run(path, workers, args)
            cpu = [c for c, _ in got["workers"]]
            print(
                f"| {workers} | {got['seconds']:.1f} | {got['driver']:.1f} "
                f"| {', '.join(f'{c:.1f}' for c in cpu)} | {max([got['driver'], *cpu]):.1f} "
                f"| {got['peak']:.0f} | {', '.join(f'{mb:.0f}' for _, mb in got['workers'])} "
                f"| {got['sent'] / 1e6:.1f} | {got['moved'] / 1e6:.1f} | {got['trees']} "
                f"| {got['nodes']:,} | {got['checksum']:08x} |",
                flush=True,
            )
            sums.add(got["checksum"])
        print(f"{os.path.getsize(path) / 1e6:.0f} MB of data")
    if len(sums) > 1:
        sys.exit("the forests differ")


if __name__ == "__main__":
    main()
