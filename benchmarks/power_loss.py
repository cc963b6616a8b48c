"""Kill -9 at random moments of `edgeforest train --checkpoint --resume`, and look at what is left.

    python -m benchmarks.power_loss [--kills 50] [--nights 30] [--rows 40000] [--trees 60] [--seed 0]

One run is left undisturbed. The others, of the same command, are killed at random moments from
their first instruction on, and begun again, until so many kills have come. After every kill the
checkpoint must load; each time that a run comes to its end, its model must be, byte for byte, the
undisturbed one. Then come nights: each begins with more rows in the log, a few kills and a few more
rows, and must end with a model of all of them. Exits with 1 if anything is not as it must be.
"""

import argparse
import csv
import gzip
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter

import edgeforest
from edgeforest.cli import demo
from edgeforest.sources.checkpoints import noted


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--trees", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        problems = run(folder, args) if args.kills else []
    with tempfile.TemporaryDirectory() as folder:
        problems += nights(folder, args)
    if problems:
        sys.exit("; ".join(problems))


def run(folder: str, args: argparse.Namespace) -> list[str]:
    log = os.path.join(folder, "log.csv.gz")
    with gzip.open(log, "wt", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(demo.COLUMNS)
        writer.writerows(demo.sample_log(args.rows))
    command = [sys.executable, "-m", "edgeforest", "train", log, "--target", "activity"]
    command += ["--trees", str(args.trees), "--max-depth", "8", "--bytes", "4M", "--resume"]
    whole = os.path.join(folder, "whole.json")
    began = time.monotonic()
    subprocess.run([*command, "--checkpoint", whole], check=True, stdout=subprocess.DEVNULL)
    usual = time.monotonic() - began
    with open(whole, "rb") as file:
        expected = file.read()

    path = os.path.join(folder, "model.json")
    chance = random.Random(args.seed)
    trees: Counter[int] = Counter()  # that were there after a kill
    kills = ends = 0
    problems = []
    while kills < args.kills or not ends:
        process = subprocess.Popen([*command, "--checkpoint", path], stdout=subprocess.DEVNULL)
        try:
            code = process.wait(chance.uniform(0, usual / 2))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
            usual *= 1.01  # the machine may have become busier
            try:
                trees[len(edgeforest.load(path))] += 1
            except FileNotFoundError:
                trees[0] += 1
            except ValueError as error:
                problems.append(f"after kill {kills}: {error}")
            continue
        if code:
            problems.append(f"a run ended with {code}")
            break
        ends += 1
        with open(path, "rb") as file:
            if file.read() != expected:
                problems.append(f"run {ends} gave another model")
        os.remove(path)
    known = {"log.csv.gz", "log.csv.gz.efidx", "whole.json"}
    strange = set(os.listdir(folder)) - known  # the last kill may leave one unfinished file
    some = sum(n for found, n in trees.items() if found)
    print(
        f"kills: {kills}, of which {some} left some trees, {len(trees)} different numbers of them"
    )
    print(f"ends: {ends}, each with the undisturbed model of {len(expected):,} bytes")
    print(f"other files that are left: {', '.join(sorted(strange)) or 'none'}")
    print(f"problems: {'; '.join(problems) or 'none'}")
    return problems


def nights(folder: str, args: argparse.Namespace) -> list[str]:
    """A log that grows, a job that is killed: how many nights ended without all rows learned."""
    log, path, out = (
        os.path.join(folder, name) for name in ("log.csv", "night.json", "model.json")
    )
    command = [sys.executable, "-m", "edgeforest", "train", log, "--target", "activity"]
    command += ["--trees", "20", "--max-depth", "6", "--checkpoint", path, "--resume", "--out", out]
    rows = demo.sample_log(args.rows)
    chance = random.Random(args.seed)
    there = kills = 0
    usual = 2.0
    problems = []

    def append(count: int) -> int:
        some = rows[there : there + count]
        with open(log, "a", newline="") as stream:
            csv.writer(stream).writerows(some if there else [demo.COLUMNS, *some])
        return len(some)

    for night in range(args.nights):
        there += append(args.rows // args.nights // 2)
        for _ in range(chance.randrange(4)):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            try:
                process.wait(chance.uniform(0, usual))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
            there += append(args.rows // args.nights // 10)
        began = time.monotonic()
        code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
        usual = time.monotonic() - began
        seen, done = noted(path)
        if code or seen is None or seen["rows"] != there or not done:
            problems.append(f"night {night} ended with {code}, of {there} rows: {seen}")
        elif edgeforest.load(path).to_json() != edgeforest.load(out).to_json():
            problems.append(f"night {night} left another model")
    print(f"nights: {args.nights}, {kills} kills, {there:,} rows in the end, lost: {len(problems)}")
    return problems


if __name__ == "__main__":
    main()
