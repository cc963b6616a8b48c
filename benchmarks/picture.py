"""Draws docs/accuracy.svg: accuracy on MNIST against insertions, for each splitter.

    python -m benchmarks.picture [--data FOLDER] [--seeds 5] [--out docs/accuracy.svg]

Trees of depth 5, at most 100 of them. Each splitter is tried in two ways: under budgets from 100,000
insertions on, and without a budget but with 1 to 100 trees. A line joins the runs that no other run
of that splitter beats with fewer insertions, so each splitter is shown at its best. Accuracy is on the
10,000 test rows; points are means over the seeds, bands reach from the lowest to the highest.
data.py says where mnist.npz is looked for. Two to four minutes on one core.
"""

import argparse
import math
import platform
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks import data
from edgeforest import Forest, engine, train

DEPTH, TREES = 5, 100
TARGET = 0.8  # the accuracy at which the picture compares the race with exact
STEPS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)  # trees without a budget
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
    anchor: str = "start"


LINES = [
    Line("mab", "the race", "#0b5cd5", "", (0.4e6, 0.8), "end"),
    Line("mab-paper", "the paper's algorithm", "#b3470b", "7 4", (0.92e6, 0.52), "end"),
    Line("exact", "exact", "#3f4650", "2 4", (2.6e6, 0.55)),
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


class Axes:
    """Where a point of the diagram lies in the picture; the horizontal axis is logarithmic."""

    left, right, top, bottom = 50.0, 704.0, 62.0, 330.0
    low, high = 1e5, 3e8  # insertions
    worst, best = 0.1, 0.9  # accuracy; 0.1 is guessing

    def x(self, insertions: float) -> float:
        share = math.log(max(insertions, self.low) / self.low) / math.log(self.high / self.low)
        return self.left + (self.right - self.left) * share

    def y(self, score: float) -> float:
        share = (score - self.worst) / (self.best - self.worst)
        return self.bottom - (self.bottom - self.top) * share


def text(x: float, y: float, words: str, **style: str) -> str:
    """A line of text in SVG; an underscore in the name of a style stands for a hyphen."""
    extra = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in style.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{extra}>{words}</text>'


def grid(axes: Axes) -> list[str]:
    """The axes with their ticks and numbers."""
    out = []
    for tenth in range(1, 10):
        y = axes.y(tenth / 10)
        out.append(f'<path d="M{axes.left} {y:.1f}H{axes.right}" stroke="#e4e7eb"/>')
        out.append(text(axes.left - 8, y + 4.5, f"{tenth / 10:.1f}", text_anchor="end"))
    for exponent, words in (
        (5, "100,000"),
        (6, "1 million"),
        (7, "10 million"),
        (8, "100 million"),
    ):
        x = axes.x(10**exponent)
        out.append(f'<path d="M{x:.1f} {axes.top}V{axes.bottom + 5}" stroke="#e4e7eb"/>')
        anchor = "start" if exponent == 5 else "middle"
        out.append(text(x, axes.bottom + 20, words, text_anchor=anchor))
    out.append(f'<path d="M{axes.left} {axes.bottom}H{axes.right}" stroke="#8a929c"/>')
    middle = (axes.left + axes.right) / 2
    words = "histogram insertions spent on training"
    return [*out, text(middle, axes.bottom + 40, words, text_anchor="middle")]


def curve(axes: Axes, line: Line, runs: list[Run]) -> list[str]:
    """The band, the line, the points and the name of one splitter."""
    xs = [axes.x(one.insertions) for one in runs]
    over = [f"{x:.1f} {axes.y(max(one.scores)):.1f}" for x, one in zip(xs, runs, strict=True)]
    under = [f"{x:.1f} {axes.y(min(one.scores)):.1f}" for x, one in zip(xs, runs, strict=True)]
    points = [(x, axes.y(one.mean)) for x, one in zip(xs, runs, strict=True)]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
    return [
        f'<path d="M{"L".join(over + under[::-1])}Z" fill="{line.colour}" fill-opacity="0.13"/>',
        f'<path d="M{path}" fill="none" stroke="{line.colour}" stroke-width="2.4"{dash}/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.8" fill="{line.colour}"/>' for x, y in points),
        text(
            axes.x(line.label[0]),
            axes.y(line.label[1]),
            line.about,
            fill=line.colour,
            font_weight="600",
            text_anchor=line.anchor,
        ),
    ]


def draw(lines: dict[str, list[Run]], seeds: int) -> str:
    """The picture as SVG text, on a white card: it is readable on a dark page too."""
    width, height, axes = 720, 422, Axes()
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" '
        'font-size="13" fill="#3f4650">',
        "<title>Accuracy on MNIST against insertions, for three splitters</title>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6" fill="#ffffff" '
        'stroke="#d0d5dc"/>',
        text(
            16,
            27,
            "The same accuracy for far fewer insertions",
            font_size="17",
            font_weight="600",
            fill="#14181f",
        ),
        text(16, 47, f"Accuracy on the 10,000 test digits of MNIST; trees of depth {DEPTH}"),
        *grid(axes),
    ]
    for line in LINES:
        out += curve(axes, line, lines[line.splitter])
    race, exact = needed(lines["mab"], TARGET), needed(lines["exact"], TARGET)
    if race and exact:
        x, end, y = axes.x(race), axes.x(exact), axes.y(TARGET)
        out.append(
            f'<path d="M{x + 9:.1f} {y - 4:.1f}l-6 4l6 4M{x + 4:.1f} {y:.1f}H{end - 4:.1f}" '
            'fill="none" stroke="#14181f" stroke-width="1.2"/>'
        )
        words = f"{exact / race:.0f} times fewer than exact"
        out.append(text(x + 14, y + 16, words, fill="#14181f"))
    notes = (
        f"Means of seeds 0 to {seeds - 1}; bands from the lowest to the highest. At most {TREES} trees.",
        "Each splitter at its best: under a budget, or with fewer trees. Made by benchmarks.picture",
    )
    for i, words in enumerate(notes):
        out.append(text(16, height - 27 + 16 * i, words, font_size="11.5", fill="#5a626d"))
    return "\n".join([*out, "</svg>"]) + "\n"


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
    args.out.write_text(draw(lines, args.seeds), encoding="utf-8")
    print(f"\n{args.out.name} written, {time.perf_counter() - began:.0f} seconds")


if __name__ == "__main__":
    main()
