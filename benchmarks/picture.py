"""Draws docs/accuracy.svg: accuracy on MNIST against insertions, for each splitter.

    python benchmarks/picture.py [--data FOLDER] [--seeds 5] [--out docs/accuracy.svg]

Trees of depth 5, at most 100 of them. Each splitter is tried in two ways: under budgets from 100,000
insertions on, and without a budget but with 1 to 100 trees. A line joins the runs that no other run
of that splitter beats with fewer insertions, so each splitter is shown at its best. Accuracy is on the
10,000 test rows; points are means over the seeds, bands reach from the lowest to the highest.
data.py says where mnist.npz is looked for. About two minutes on one core.
"""

import argparse
import math
import platform
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import data
import numpy as np

from edgeforest import Forest, engine, train

DEPTH, TREES = 5, 100
STEPS = (1, 2, 5, 10, 20, 50, 100)  # trees without a budget
BUDGETS = [m * 10**e for e in (5, 6, 7, 8) for m in (1, 2, 5)]
ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Line:
    """How one splitter is named, drawn and labelled."""

    splitter: str
    about: str
    colour: str
    dash: str
    label: tuple[float, float]  # where its name is written: insertions, accuracy


LINES = [
    Line("mab", "the race (default)", "#0b5cd5", "", (0.33e6, 0.835)),
    Line("mab-paper", "the paper's algorithm", "#b3470b", "7 4", (4.6e6, 0.708)),
    Line("exact", "exact", "#3f4650", "2 4", (13.5e6, 0.765)),
]


@dataclass
class Run:
    """The same training with several seeds."""

    budget: int | None
    trees: float
    insertions: float
    scores: list[float]
    seconds: float

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))


def measure(table: data.Table, splitter: str, seeds: int) -> list[Run]:
    """Train with every number of trees and under every budget that is short; sorted by insertions."""

    def run(n_trees: int, budget: int | None) -> Run:
        forests: list[Forest] = []
        began = time.perf_counter()
        for seed in range(seeds):
            forests.append(
                train(
                    table.X,
                    table.y,
                    splitter=splitter,
                    n_trees=n_trees,
                    max_depth=DEPTH,
                    budget=budget,
                    seed=seed,
                )
            )
        seconds = (time.perf_counter() - began) / seeds
        scores = [
            float(np.mean(np.array(f.predict(table.X_test)) == table.y_test)) for f in forests
        ]
        spent = float(np.mean([f.spent.insertions for f in forests]))
        return Run(budget, float(np.mean([len(f) for f in forests])), spent, scores, seconds)

    runs = [run(n_trees, None) for n_trees in STEPS]
    enough = runs[-1].insertions
    runs += [run(TREES, budget) for budget in BUDGETS if budget < enough]
    return sorted(runs, key=lambda one: one.insertions)


def best(runs: list[Run]) -> list[Run]:
    """The runs that score higher than all runs with fewer insertions."""
    kept: list[Run] = []
    for one in runs:
        if one.insertions and (not kept or one.mean > kept[-1].mean):
            kept.append(one)
    return kept


def needed(line: list[Run], score: float) -> float | None:
    """The insertions at which a line reaches a score, between two runs on the logarithmic axis."""
    for a, b in pairwise(line):
        if a.mean <= score <= b.mean:
            part = (score - a.mean) / (b.mean - a.mean)
            return float(a.insertions ** (1 - part) * b.insertions**part)
    return None


def figures(value: float) -> str:
    """A number with two significant digits, with commas."""
    digits = max(0, int(math.log10(value)) - 1)
    return f"{round(value, -digits):,.0f}"


def draw(lines: dict[str, list[Run]], caption: list[str]) -> str:
    """The picture as SVG text."""
    width, height = 720, 420
    x0, x1, y0, y1 = 58, 700, 62, 326  # the axes' box; y0 is its top
    low, high, bottom, top = 1e5, 3e8, 0.3, 0.9

    def px(insertions: float) -> float:
        return x0 + (x1 - x0) * math.log(insertions / low) / math.log(high / low)

    def py(score: float) -> float:
        return y1 - (y1 - y0) * (max(score, bottom) - bottom) / (top - bottom)

    def text(x: float, y: float, words: str, extra: str = "") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{words}</text>'

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" '
        'font-size="13" fill="#3f4650">',
        "<title>Accuracy on MNIST against insertions, for three splitters</title>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6" fill="#ffffff" '
        'stroke="#d0d5dc"/>',
        text(16, 27, caption[0], 'font-size="17" font-weight="600" fill="#14181f"'),
        text(16, 47, caption[1]),
    ]
    for tenth in range(3, 10):
        y = py(tenth / 10)
        out.append(f'<path d="M{x0} {y:.1f}H{x1}" stroke="#e4e7eb"/>')
        out.append(text(x0 - 8, y + 4.5, f"{tenth / 10:.1f}", 'text-anchor="end"'))
    for exponent, words in (
        (5, "100,000"),
        (6, "1 million"),
        (7, "10 million"),
        (8, "100 million"),
    ):
        x = px(10**exponent)
        out.append(f'<path d="M{x:.1f} {y0}V{y1 + 5}" stroke="#e4e7eb"/>')
        anchor = "start" if exponent == 5 else "middle"
        out.append(text(x, y1 + 20, words, f'text-anchor="{anchor}"'))
    out.append(f'<path d="M{x0} {y1}H{x1}" stroke="#8a929c"/>')
    out.append(
        text((x0 + x1) / 2, y1 + 41, "histogram insertions (logarithmic)", 'text-anchor="middle"')
    )
    for line in LINES:
        runs = [one for one in lines[line.splitter] if one.insertions >= low * 0.98]
        xs = [max(px(one.insertions), x0) for one in runs]
        over = [f"{x:.1f} {py(max(one.scores)):.1f}" for x, one in zip(xs, runs, strict=True)]
        under = [f"{x:.1f} {py(min(one.scores)):.1f}" for x, one in zip(xs, runs, strict=True)]
        out.append(
            f'<path d="M{"L".join(over + under[::-1])}Z" fill="{line.colour}" fill-opacity="0.13"/>'
        )
    for line in LINES:
        runs = [one for one in lines[line.splitter] if one.insertions >= low * 0.98]
        points = [(max(px(one.insertions), x0), py(one.mean)) for one in runs]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
        wide = "2.6" if not line.dash else "2.2"
        out.append(
            f'<path d="M{path}" fill="none" stroke="{line.colour}" stroke-width="{wide}"{dash}/>'
        )
        out += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{line.colour}"/>' for x, y in points
        ]
        x, y = px(line.label[0]), py(line.label[1])
        weight = "600"
        out.append(text(x, y, line.about, f'fill="{line.colour}" font-weight="{weight}"'))
    for i, words in enumerate(caption[2:]):
        out.append(text(16, height - 28 + 16 * i, words, 'font-size="11.5" fill="#5a626d"'))
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "accuracy.svg")
    args = parser.parse_args()
    if not data.find("mnist.npz", args.data):
        sys.exit("mnist.npz not found; give --data or set EDGEFOREST_DATA (see --help)")
    table = data.mnist(args.data)
    began = time.perf_counter()
    print(
        f"{platform.machine()}, Python {platform.python_version()}, engine {engine.name}, one thread; "
        f"{table.about}, depth {DEPTH}, seeds 0 to {args.seeds - 1}\n"
    )
    print("| splitter | budget | trees | insertions | accuracy (range) | seconds | drawn |")
    print("|---|---|---|---|---|---|---|")
    lines = {}
    for line in LINES:
        runs = measure(table, line.splitter, args.seeds)
        lines[line.splitter] = best(runs)
        for one in runs:
            budget = f"{one.budget:,}" if one.budget else "none"
            drawn = "yes" if one in lines[line.splitter] else ""
            print(
                f"| {line.splitter} | {budget} | {one.trees:.0f} | {one.insertions:,.0f} "
                f"| {one.mean:.3f} ({min(one.scores):.3f} to {max(one.scores):.3f}) "
                f"| {one.seconds:.2f} | {drawn} |",
                flush=True,
            )
    print("\n| accuracy | " + " | ".join(f"`{line.splitter}`" for line in LINES) + " |")
    print("|---|" + "---|" * len(LINES))
    for score in (0.6, 0.7, 0.8, 0.83, 0.86):
        cells = [needed(lines[line.splitter], score) for line in LINES]
        print(f"| {score} | " + " | ".join(figures(c) if c else "-" for c in cells) + " |")
    fewer = [
        float(needed(lines[other], 0.8) or 0) / float(needed(lines["mab"], 0.8) or 1)
        for other in ("mab-paper", "exact")
    ]
    caption = [
        "The same accuracy for far fewer insertions",
        f"MNIST, trees of depth {DEPTH}: to reach 0.80 the race needs {fewer[1]:.0f} times fewer than "
        f"exact, {fewer[0]:.0f} times fewer than the paper's",
        f"60,000 training rows, 10,000 test rows. At most {TREES} trees, seeds 0 to {args.seeds - 1}: means, and "
        "bands from the lowest to the highest.",
        "Each splitter at its best: under a budget, or with fewer trees.   python benchmarks/picture.py",
    ]
    args.out.write_text(draw(lines, caption), encoding="utf-8")
    print(f"\n{args.out.name} written, {time.perf_counter() - began:.0f} seconds")


if __name__ == "__main__":
    main()
