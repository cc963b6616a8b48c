"""Training from a file larger than memory: time, rows read and peak memory as the file grows.

    python -m benchmarks.streaming [--rows 1000000,20000000] [--folder FOLDER] [--bytes 32000000]

A generated `.npy` of float32 (20 features and the label; 84 bytes a row) is written first, 1.7 GB
for 20 million rows. Each training runs in a process of its own; its peak memory is what the system
says, above that of a process which imported the same and trained nothing. Training in memory, on
the first million rows, is the control.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks import command

FEATURES = 20


def made(n: int, seed: int) -> np.ndarray:
    """Rows, and a label that hangs on some of them."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((n, FEATURES + 1), dtype=np.float32)
    score = table[:, 0] + table[:, 1] * table[:, 2] + np.abs(table[:, 3])
    table[:, -1] = np.digitize(score + 0.5 * table[:, -1], (-0.5, 0.8, 2.0))
    return table


def write(path: str, n: int) -> None:
    """A .npy file of n rows, written in pieces."""
    with open(path, "wb") as stream:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n, FEATURES + 1)}
        np.lib.format.write_array_header_1_0(stream, header)
        for seed, at in enumerate(range(0, n, 500_000)):
            stream.write(made(min(500_000, n - at), seed).tobytes())


def run(path: str, how: str, limit: int | None) -> dict:
    """Train once, in this process."""
    import edgeforest
    from edgeforest.sources import open_source

    began = time.perf_counter()
    forest = None
    if how == "stream":
        source = open_source(path, names=[*[f"f{k}" for k in range(FEATURES)], "y"])
        budget = edgeforest.Budget(bytes=limit)
        forest = edgeforest.train(source, "y", n_trees=20, max_depth=8, budget=budget)
    elif how == "memory":
        table = np.load(path)
        forest = edgeforest.train(
            np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(int), n_trees=20, max_depth=8
        )
    seconds = time.perf_counter() - began
    with open("/proc/self/status") as status:  # getrusage tells the peak of the parent, too
        peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    found = {"seconds": seconds, "peak": peak}
    if forest is not None:
        test = made(20_000, 987654)
        said = np.array(forest.predict(np.ascontiguousarray(test[:, :-1])))
        found["accuracy"] = float(np.mean(said == test[:, -1]))
        found["rows"] = forest.spent.rows_read
        found["insertions"] = forest.spent.insertions
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="1000000,20000000")
    parser.add_argument("--folder")
    parser.add_argument("--bytes", type=int, default=32_000_000)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        path, how, limit = args.one
        print(json.dumps(run(path, how, int(limit) or None)))
        return

    def once(path: str, how: str, limit: int = 0) -> dict:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.streaming", "--one", path, how, str(limit)],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(done.stderr)
        return json.loads(done.stdout)

    print(f"{command()}; {platform.machine()}, {os.cpu_count()} cores")
    print("| rows | how | seconds | rows drawn | insertions | accuracy | peak MB above nothing |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for n in map(int, args.rows.split(",")):
            path = os.path.join(folder, f"{n}.npy")
            write(path, n)
            idle = once(path, "idle")["peak"]
            ways = [("stream", 0), ("stream", args.bytes)] + [("memory", 0)] * (n <= 1_000_000)
            for how, limit in ways:
                tries = sorted(
                    (once(path, how, limit) for _ in range(3)), key=lambda d: d["seconds"]
                )
                found = tries[1]
                name = f"{how}, {limit / 1e6:.0f} MB" if limit else how
                print(
                    f"| {n:,} | {name} | {found['seconds']:.2f} | {found['rows']:,} "
                    f"| {found['insertions']:,} | {found['accuracy']:.4f} "
                    f"| {(max(t['peak'] for t in tries) - idle) / 1e6:.1f} |",
                    flush=True,
                )
            os.remove(path)


if __name__ == "__main__":
    main()
