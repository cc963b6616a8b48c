"""What training costs as rows, features, classes, bins and depth grow.

    python -m benchmarks.scaling [--quick] [--only rows] [--out FOLDER] [--repeat 3] [--limit 60]

Generated rows of bytes: half of the features add up to a number whose range is cut into the classes, and one
label in ten is drawn at random. Unless the table says otherwise 100,000 rows of 20 features (10 where
rows grow), 4 classes, 5 trees of depth 8. Ours draw as many rows as there are (`max_samples=1.0`), as scikit-learn does; "by default" is the race
as it is without that, with at most 32,768 rows a tree at this depth. Ten million rows are 100 MB as bytes,
and 400 as the float32 that scikit-learn asks for.

Each line is measured in a process of its own, taking turns: CPU seconds on one thread (the median of the
rounds; what takes more than 5 seconds runs once), insertions, peak memory above the data, accuracy on 20,000
other rows. What takes more CPU seconds than --limit is stopped, and not tried with more. --out draws all of it as SVG.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import select
import signal
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import command
from benchmarks.common import about
from benchmarks.drawings import framed
from benchmarks.peer_models import clear_memory, memory
from edgeforest import train
from edgeforest.reports.svg import Drawing, Scale, number

PATIENCE = 120  # seconds of the clock, for what hangs
LONG = 5.0  # CPU seconds from which on a line is not measured again
TEST_ROWS = 20_000


@dataclass(frozen=True)
class Size:
    """How large a training is."""

    rows: int = 100_000
    features: int = 20
    classes: int = 4
    bins: int = 16
    depth: int = 8
    trees: int = 5


AXES: dict[str, list[int]] = {
    "rows": [1_000, 10_000, 100_000, 1_000_000, 10_000_000],
    "features": [5, 10, 20, 50, 100, 200],
    "classes": [2, 4, 10, 30, 100],
    "bins": [4, 8, 16, 32, 64, 128],
    "depth": [2, 4, 8, 12, 16],
}
QUICK = {
    "rows": [1_000, 10_000, 100_000],
    "features": [5, 20],
    "classes": [2, 10],
    "bins": [4, 16],
    "depth": [4, 8],
}
NAMES = {
    "mab": "the race, all rows",
    "default": "the race, by default",
    "exact": "exact, all rows",
    "fixed": "1,024 rows a node",
    "sklearn": "scikit-learn",
}
UNITS = {"insertions": "insertions", "seconds": "CPU seconds", "peak": "MB above the data"}
ALL = {"max_samples": 1.0}
OPTIONS: dict[str, dict[str, Any]] = {
    "mab": ALL,
    "default": {},
    "exact": {"splitter": "exact", **ALL},
    "fixed": {"z": 0.0, "batch": 1024, **ALL},
}


def sized(axis: str, value: int) -> Size:
    """The usual size with one thing changed."""
    size = (
        Size(features=10) if axis == "rows" else Size()
    )  # few: as float32, too, they fit into memory
    return replace(size, **{axis: value})


def generate(size: Size, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of bytes and their classes; in parts, so that nothing but the bytes has that many rows."""
    useful = max(1, size.features // 2)
    weights = np.random.default_rng(1).uniform(0.2, 1.0, useful).astype(np.float32)
    center, spread = 127.5 * weights.sum(), 73.9 * math.sqrt(float((weights**2).sum()))
    rng = np.random.default_rng(seed)
    X, y = np.empty((rows, size.features), np.uint8), np.empty(rows, np.uint8)
    normal = statistics.NormalDist()
    cuts = [center + spread * normal.inv_cdf(k / size.classes) for k in range(1, size.classes)]
    for at in range(0, rows, 100_000):
        here = slice(at, min(rows, at + 100_000))
        n = here.stop - at
        X[here] = rng.integers(0, 256, (n, size.features), np.uint8)
        label = np.searchsorted(cuts, X[here, :useful].astype(np.float32) @ weights)
        noisy = rng.random(n) < 0.1
        y[here] = np.where(noisy, rng.integers(0, size.classes, n), label)
    return X, y


def fit(line: str, X: Any, y: np.ndarray, size: Size) -> tuple[Any, int | None]:
    """Train one model; also its insertions, if it counts them."""
    if line != "sklearn":
        forest = train(
            X,
            y,
            n_trees=size.trees,
            max_depth=size.depth,
            n_bins=size.bins,
            **OPTIONS[line],
        )
        return forest, forest.spent.insertions
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(size.trees, max_depth=size.depth, n_jobs=1, random_state=0)
    return model.fit(X, y), None


def apart(job: Callable[[], dict[str, Any]], limit: float) -> dict[str, Any]:
    """What a function returns, in a process of its own that may use so many CPU seconds."""
    reads, writes = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            os.close(reads)
            most = math.ceil(limit)
            resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
            answer = json.dumps(job()).encode()
            while answer:
                answer = answer[os.write(writes, answer) :]
        finally:
            os._exit(0)
    os.close(writes)
    ready: list[Any] = []
    with os.fdopen(reads, "rb") as stream:
        try:
            ready = select.select([stream], [], [], PATIENCE + 60 * limit)[0]
            answer = stream.read() if ready else b""
        finally:
            if not ready:
                os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if answer:
        found: dict[str, Any] = json.loads(answer)
        return found
    slow = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
    return {"error": f"over {limit:.0f} s" if slow else "failed"}


def measure(line: str, size: Size, X: np.ndarray, y: np.ndarray, test: Any) -> dict[str, Any]:
    """Train once, in this process."""
    given: Any = X.astype(np.float32) if line == "sklearn" else X
    fit(line, given[:500], y[:500], replace(size, trees=1))  # what is loaded late
    before = clear_memory()
    began = time.process_time()
    model, insertions = fit(line, given, y, size)
    seconds = time.process_time() - began
    peak = max(0.0, memory("VmHWM") - before)
    X_test = test[0].astype(np.float32) if line == "sklearn" else test[0]
    score = float(np.mean(np.array(model.predict(X_test)) == test[1]))
    return {"seconds": seconds, "insertions": insertions, "peak": peak, "score": score}


def measure_size(
    size: Size, lines: list[str], repeat: int, limit: float
) -> dict[str, dict[str, Any]]:
    """All lines at one size, taking turns."""
    X, y = generate(size, size.rows, 0)
    test = generate(size, TEST_ROWS, 99)
    runs: dict[str, list[dict[str, Any]]] = {line: [] for line in lines}
    for _ in range(repeat):
        for line, done in runs.items():
            if done and ("error" in done[-1] or done[-1]["seconds"] > LONG):
                continue
            done.append(apart(lambda line=line: measure(line, size, X, y, test), limit))
    found = {}
    for line, done in runs.items():
        failed = [run for run in done if "error" in run]
        found[line] = failed[0] if failed else dict(done[0])
        if not failed:
            found[line]["seconds"] = statistics.median(run["seconds"] for run in done)
    return found


def measure_axis(
    axis: str, values: list[int], lines: list[str], repeat: int, limit: float
) -> dict[int, dict[str, dict[str, Any]]]:
    """All sizes along an axis; a line that was stopped is not tried with more."""
    found: dict[int, dict[str, dict[str, Any]]] = {}
    stopped: set[str] = set()
    for value in values:
        left = [line for line in lines if line not in stopped]
        if axis == "bins":  # which is a thing of ours
            left = [line for line in left if line != "sklearn"]
        found[value] = measure_size(sized(axis, value), left, repeat, limit)
        stopped |= {line for line, got in found[value].items() if "error" in got}
        for line in stopped - set(left):
            found[value][line] = {"error": "not tried"}
        print(as_row(value, found[value], lines), flush=True)
    return found


# ---- What it prints and draws -----------------------------------------------------------------


def cell(got: dict[str, Any] | None) -> str:
    """One training in a table."""
    if got is None:
        return ""
    if "error" in got:
        return str(got["error"])
    parts = [f"{got['seconds']:.3g} s"]
    if got["insertions"] is not None:
        parts.append(number(got["insertions"]))
    parts += [f"{got['peak']:.1f} MB", f"{got['score']:.3f}"]
    return ", ".join(parts)


def as_row(value: int, found: dict[str, dict[str, Any]], lines: list[str]) -> str:
    return f"| {value:,} | {' | '.join(cell(found.get(line)) for line in lines)} |"


def draw(
    axis: str, what: str, found: dict[int, dict[str, dict[str, Any]]], lines: list[str]
) -> str | None:
    """A line for each model against the axis, both logarithmic."""
    unit = UNITS[what]
    points = {
        line: [
            (math.log10(value), math.log10(got[line][what]))
            for value, got in found.items()
            if got.get(line, {}).get(what)
        ]
        for line in lines
    }
    points = {line: some for line, some in points.items() if some}
    heights = [y for some in points.values() for _, y in some]
    if not heights:
        return None
    drawing = Drawing(f"{unit} against {axis}, for {', '.join(points)}", high=250, top=30)
    values = [math.log10(value) for value in found]
    drawing.x = Scale(min(values), max(values))
    drawing.y = Scale(math.floor(min(heights)), math.ceil(max(heights)), whole=True)
    drawing.y_axis(unit, lambda v: number(10**v))
    for value in found:
        x = drawing.px(math.log10(value))
        drawing.text(x, drawing.bottom + 14, number(value), "middle", "tick")
    drawing.path([(drawing.left, drawing.bottom), (drawing.right, drawing.bottom)], "axis")
    drawing.x_name(axis)
    colours = {line: k for k, line in enumerate(NAMES)}
    for line, some in points.items():
        drawing.line(some, f"s{colours[line]}")
        for x, y in some:
            drawing.dot(x, y, 3, f"f{colours[line]}", f"{NAMES[line]}: {number(10**y)} {unit}")
    usual = sized(axis, next(iter(found)))
    notes = []
    missing = [
        NAMES[line] for line in lines if any("error" in g.get(line, {}) for g in found.values())
    ]
    if missing and what == "seconds":
        notes = [f"Stopped at the limit: {'; '.join(missing)}."]
    others = {"rows": f"{usual.rows:,} rows", "features": f"{usual.features} features"}
    others |= {"classes": f"{usual.classes} classes", "depth": f"depth {usual.depth}"}
    notes.append(", ".join([f"{usual.trees} trees", *(v for k, v in others.items() if k != axis)]))
    legend = [(colours[line], NAMES[line]) for line in points]
    return framed(drawing, f"{unit[0].upper()}{unit[1:]} against {axis}", notes, legend)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="fewer and smaller sizes, one round: under a minute")
    add("--only", action="append", choices=list(AXES), help="this alone; may be given again")
    add("--most", type=int, default=10**7, help="rows at most (10,000,000)")
    add("--repeat", type=int, help="rounds (3, with --quick 1)")
    add("--limit", type=float, default=60, help="CPU seconds until a training is stopped (60)")
    add("--out", type=Path, metavar="FOLDER", help="draw here, as scaling-*.svg")
    args = parser.parse_args(argv)
    lines = list(NAMES)
    try:
        import sklearn.ensemble  # noqa: F401  before the processes part
    except ImportError:
        lines.remove("sklearn")
        print("scikit-learn is not here and is left out: pip install scikit-learn", file=sys.stderr)
    print(f"`{command()}`; {about(*(['scikit-learn'] if 'sklearn' in lines else []))}")
    print("CPU seconds, insertions, peak memory above the data, accuracy")
    for axis in args.only or list(AXES):
        values = [
            v for v in (QUICK if args.quick else AXES)[axis] if axis != "rows" or v <= args.most
        ]
        print(f"\n| {axis} | {' | '.join(NAMES[line] for line in lines)} |")
        print("|---" * (len(lines) + 1) + "|")
        repeat = args.repeat or (1 if args.quick else 3)
        found = measure_axis(axis, values, lines, repeat, args.limit)
        for what in UNITS if args.out else ():
            text = draw(axis, what, found, lines)
            if text:
                (args.out / f"scaling-{axis}-{what}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
