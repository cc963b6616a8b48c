"""Draws the pictures of docs/how-it-works.md, from races that are run and watched here.

    python -m benchmarks.how_it_works [--out docs] [--seeds 20]

The rows are those of the log that `edgeforest demo` makes up (60,000 minutes of a room's sensors, without those
that have gaps), so everybody gets the same pictures. A watcher notes what the engine counts and computes
(`edgeforest/reports/watching.py`); nothing is drawn by hand. Prints the figures of the page: rows counted
by a root split as `z`, `tolerance` and `n_bins` change, and how good the splits are. Half a minute.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ROOT, command
from benchmarks.common import about
from benchmarks.drawings import framed
from edgeforest.cli import demo
from edgeforest.core_pure import Training
from edgeforest.reports import charts
from edgeforest.reports.svg import Drawing, Scale, number, percent, plain
from edgeforest.reports.watching import Race, Visit, WatchedNodes, watch
from edgeforest.second_look import second_look

SEED = 2  # of the race that is drawn
SHOWN = 0  # the feature whose histogram is drawn: temperature
CLASSES = ("empty", "meeting", "working")


@dataclass
class Room:
    """The rows, and their names."""

    X: np.ndarray
    y: list[str]
    names: list[str]


def room(minutes: int = 60_000) -> Room:
    """The log of the demo, without rows that have gaps; the window is a number: closed, open, tilted."""
    lines = [line for line in demo.sample_log(minutes) if "" not in line]
    windows = sorted({line[6] for line in lines})
    X = np.array([[*map(float, line[1:6]), windows.index(line[6])] for line in lines], np.float32)
    return Room(X, [line[7] for line in lines], demo.COLUMNS[1:7])


def with_twin(rows: Room) -> Room:
    """The same room with a second light sensor that shows nearly what the first one does."""
    twin = rows.X[:, 2] * np.random.default_rng(0).normal(1.0, 0.03, len(rows.X))
    X = np.column_stack([rows.X, twin.astype(np.float32)])
    return Room(X, rows.y, [*rows.names, "light 2"])


@dataclass
class Histogram:
    """Rows of each class in the bins of a feature; a bin ends at its bound."""

    counts: np.ndarray  # classes x bins
    ends: list[float]
    rows: int

    def gains(self) -> np.ndarray:
        """The gain of a cut after each bin but the last, as a share of the impurity."""
        left = np.cumsum(self.counts, axis=1)[:, :-1].astype(float)
        total = self.counts.sum(axis=1, keepdims=True).astype(float)
        right = total - left
        n = float(total.sum())

        def purity(cells: np.ndarray) -> np.ndarray:
            return (cells**2).sum(axis=0) / np.maximum(cells.sum(axis=0), 1.0) / n

        whole = float(((total / n) ** 2).sum())
        return np.asarray((purity(left) + purity(right) - whole) / (1.0 - whole))


@dataclass
class Notes:
    """What a recorder keeps of the race at the root."""

    rounds: list[dict[int, Histogram]] = field(default_factory=list)
    coarse: Histogram | None = None  # of the winner, when the race is decided
    fine: Histogram | None = None  # by code, from the second look
    first: int = 0  # the place of its first code among the feature's bounds


class Recorder(WatchedNodes):
    """Also keeps the histograms of the root's race, and what its second look counts."""

    def __init__(self, task: Training) -> None:
        super().__init__(task)
        self.notes = Notes()

    def _histogram(self, c: Any, stride: int) -> Histogram:
        counts = np.array(c.h).reshape(-1, stride)[:, 1 : c.bins + 1]
        ends = [self._end(c.feature, code) for code in c.cuts[1:]]
        return Histogram(counts, ends, int(counts.sum()))

    def _end(self, feature: int, code: int) -> float:
        """The largest value of a code."""
        bounds = self.task.data.bounds[feature]
        return float(bounds[min(code, len(bounds) - 1)])

    def measure(
        self, criterion: Any, racing: list[Any], stride: int, total: list[int], rest: float
    ) -> None:
        """Note the histograms of the root."""
        super().measure(criterion, racing, stride, total, rest)
        if self.visits[-1].depth == 0:
            self.notes.rounds.append({c.feature: self._histogram(c, stride) for c in racing})

    def second_look(self, lead: Any, stride: int, total: Any, rest: float, rows: Any) -> Any:
        """Look once more; at the root, note what is counted."""
        if self.visits[-1].depth:
            return self.inner.second_look(lead, stride, total, rest, rows)
        kept: list[Any] = []

        def count(c: Any, wide: int, start: int, end: int, low: int, high: int) -> int:
            here = self.inner.rows[start:end]
            codes = np.asarray(c.column)[here].astype(np.int64)
            near = (codes > low) & (codes <= high)
            labels = np.asarray(self.inner.labels)[here].astype(np.int64)
            cells = np.zeros((len(total), wide), np.int64)
            drawn = np.asarray(self.inner.drawn)[here]
            np.add.at(cells, (labels[near], codes[near] + 1 - low), drawn[near])
            c.h[:] = cells.ravel().tolist()
            kept.append((c, wide, low))
            return int(near.sum())

        split = second_look(self.task, count, lead, stride, total, rest, rows)
        if kept:
            c, wide, low = kept[0]
            counts = np.array(c.h).reshape(-1, wide)[:, 1:]
            ends = [self._end(c.feature, low + i) for i in range(counts.shape[1] - 1)]
            self.notes.fine = Histogram(counts, [*ends, float("inf")], int(counts.sum()))
            self.notes.coarse = self._histogram(lead, stride)
        return split


def record(rows: Room, **options: Any) -> tuple[Race, list[Visit], Notes]:
    """The race at the root of a tree, all nodes of the tree, and the notes."""
    made: list[Recorder] = []

    def watched(task: Training) -> Recorder:
        made.append(Recorder(task))
        return made[0]

    options = {"max_features": len(rows.names), "max_samples": 1.0, "seed": SEED, **options}
    seen = watch(rows.X, rows.y, watched, **options)
    return seen.race, seen.visits, made[0].notes


# ---- The pictures -----------------------------------------------------------------------------


def draw_histogram(one: Histogram, name: str, rows: int) -> str:
    """Rows of each class by bin, and the best cut."""
    gains = one.gains()
    best = int(np.argmax(gains))
    bins = one.counts.shape[1]
    drawing = Drawing(f"{one.rows} rows in {bins} bins of {name}", high=230, top=26)
    drawing.x = Scale(0, bins)
    drawing.y = Scale(0, float(one.counts.sum(axis=0).max()) * 1.12)
    drawing.y_axis("rows counted")
    for b in range(bins):
        base = 0.0
        for k, cell in enumerate(one.counts[:, b]):
            top = base + float(cell)
            wide = drawing.px(1) - drawing.px(0) - 1.5
            high = drawing.py(base) - drawing.py(top)
            note = f"{int(cell)} rows of {CLASSES[k]}, {name} up to {plain(one.ends[b])}"
            if cell:
                drawing.bar(drawing.px(b) + 0.75, drawing.py(top), wide, high, f"f{k}", note)
            base = top
    step = max(1, round(bins / 5))
    for b in range(step - 1, bins, step):
        drawing.text(drawing.px(b + 1), drawing.bottom + 14, f"{one.ends[b]:.0f}", "middle", "tick")
    drawing.path([(drawing.left, drawing.bottom), (drawing.right, drawing.bottom)], "axis")
    drawing.x_name(f"{name}: where each bin ends")
    at = drawing.px(best + 1)
    drawing.path([(at, drawing.top - 6), (at, drawing.bottom)], "out")
    side, shift = ("start", 5) if best < bins / 2 else ("end", -5)
    drawing.text(at + shift, drawing.top + 4, f"best cut: {percent(gains[best])} gained", side)
    notes = [
        f"The first {rows} rows of the node. The bootstrap drew some of them more than once: {one.rows} in all.",
        "Every gap between two bins is an arm: a way to split.",
    ]
    return framed(drawing, "One feature's histogram", notes, list(enumerate(CLASSES)))


def draw_race(race: Race, names: Sequence[str], title: str, notes: Sequence[str]) -> str:
    """A race with the names of its runners."""
    runners = race.runners()[: charts.MOST_ARMS]
    legend = []
    for k, r in enumerate(runners):
        end = "wins" if r.won else "in to the end" if r.feature in race.finalists() else "out"
        legend.append((k, f"{names[r.feature]}: {end}, {r.rows[-1]:,} rows"))
    return framed(charts.race_drawing(race, names), title, notes, legend)


def draw_depths(visits: Sequence[Visit]) -> str:
    """Where rows are counted: all of a node's, or a few."""
    deepest = max(v.depth for v in visits)
    levels = [[v for v in visits if v.depth == d] for d in range(deepest + 1)]
    drawing = Drawing(
        "rows counted by depth", high=20 * len(levels) + 62, left=30, right=74, top=22
    )
    there = [sum(v.rows for v in level) for level in levels]
    drawing.x = Scale(0, max(there))
    drawing.x_axis("rows of all nodes of that depth", lines=True)
    drawing.text(4, 12, "depth", "start", "name")
    drawing.text(356, 12, "counted", "end", "name")
    for d, level in enumerate(levels):
        y, some = drawing.top + 20 * d, sum(v.counted for v in level)
        drawing.bar(drawing.left, y + 3, drawing.px(there[d]) - drawing.left, 14, "whole")
        drawing.bar(drawing.left, y + 3, drawing.px(some) - drawing.left, 14, "part")
        drawing.text(drawing.left - 8, y + 14, d, "end", "tick")
        text = f"{number(some)}, {percent(some / max(1, there[d]))}"
        drawing.text(356, y + 14, text, "end", "tick")
    notes = [
        "The whole bar: rows in nodes of that depth. Its filled part: rows counted to split them."
    ]
    return framed(drawing, "Where a tree counts its rows", notes)


def draw_second_look(coarse: Histogram, fine: Histogram, name: str) -> str:
    """The gain of each threshold between bins, and of each code near the best."""
    rough = list(zip(coarse.ends[:-1], coarse.gains().tolist(), strict=True))
    close = list(zip(fine.ends[:-1], fine.gains().tolist(), strict=True))
    inner = close[1:-1] or close
    low, high = inner[0][0], inner[-1][0]
    room_around = 1.2 * (high - low)
    shown = [p for p in rough if low - room_around <= p[0] <= high + room_around]
    drawing = Drawing(f"gains of {len(shown)} cuts and {len(inner)} codes", high=230, top=30)
    values = [g for _, g in [*shown, *inner]]
    drawing.x = Scale(min(x for x, _ in [*shown, *inner]), max(x for x, _ in [*shown, *inner]))
    drawing.y = Scale(min(values) - 0.02, max(values) + 0.02)
    drawing.y_axis("gain, as a share of the impurity", percent)
    drawing.x_axis(f"threshold of {name}", plain)
    drawing.line(inner, "s1")
    for x, g in inner:
        drawing.dot(x, g, 2.4, "f1", f"{plain(x)}: {g:.1%}")
    for x, g in shown:
        drawing.dot(x, g, 4.5, "f0", f"{plain(x)}: {g:.1%}")
    best = max(inner, key=lambda p: p[1])
    drawing.path(
        [(drawing.px(best[0]), drawing.top - 4), (drawing.px(best[0]), drawing.bottom)], "out"
    )
    notes = ["Both from the same counted rows. The red line is the threshold that is used."]
    legend = [(0, "between the race's bins"), (1, "second look, by code")]
    return framed(drawing, "A second look near the winner", notes, legend)


# ---- The figures ------------------------------------------------------------------------------


def best_gains(rows: Room) -> np.ndarray:
    """The best gain of each feature over all rows and all thresholds, as a share of the impurity."""
    y = np.unique(rows.y, return_inverse=True)[1]
    found = []
    for column in rows.X.T:
        values, place = np.unique(column, return_inverse=True)
        counts = np.zeros((3, len(values)), np.int64)
        np.add.at(counts, (y, place), 1)
        found.append(float(Histogram(counts, values.tolist(), len(y)).gains().max()))
    return np.array(found)


def gain_at(rows: Room, feature: int, threshold: float) -> float:
    """The gain of one split over all rows."""
    y = np.unique(rows.y, return_inverse=True)[1]
    right = (rows.X[:, feature] > threshold).astype(int)
    counts = np.zeros((3, 2), np.int64)
    np.add.at(counts, (y, right), 1)
    return float(Histogram(counts, [threshold, np.inf], len(y)).gains()[0])


def show_options(plain_rows: Room, twins: Room, seeds: int) -> None:
    """Rows that a root split counts, and how much of the best gain it has, by option."""
    print(
        "\n| option | rows counted | of the best gain | with a twin: rows counted | of the best |"
    )
    print("|---|---|---|---|---|")
    changes: list[dict[str, Any]] = [{}]
    changes += [{"z": z} for z in (1.0, 4.0)]
    changes += [{"tolerance": t} for t in (0.3, 0.03, 0.0)]
    changes += [{"n_bins": n} for n in (4, 64)]
    for options in changes:
        cells = []
        for rows in (plain_rows, twins):
            best = best_gains(rows).max()
            races = [record(rows, max_depth=1, seed=seed, **options)[0] for seed in range(seeds)]
            shares = [gain_at(rows, r.winner or 0, float(r.threshold)) / best for r in races]
            cells += [f"{np.mean([r.counted for r in races]):,.0f}", f"{np.mean(shares):.3f}"]
        said = ", ".join(f"`{k}={v}`" for k, v in options.items()) or "as it is"
        print(f"| {said} | {' | '.join(cells)} |", flush=True)


def draw_all(rows: Room, twins: Room, out: Path) -> None:
    """Write the pictures."""
    race, visits, notes = record(rows, max_depth=8)
    winner = race.winner or 0
    ended = f"The race ends after {race.counted:,} of {race.n:,} rows."
    crosses = "A bar is an interval, a dot the estimate, a red cross: out, never counted again."
    tied, _, _ = record(twins, max_depth=1)
    pictures = {
        "how-histogram": draw_histogram(
            notes.rounds[0][SHOWN], rows.names[SHOWN], race.rounds[0][0]
        ),
        "how-race": draw_race(race, rows.names, "A race at the root of a tree", [crosses, ended]),
        "how-tie": draw_race(
            tied,
            twins.names,
            "Two sensors that say the same",
            [f"The race ends after {tied.counted:,} of {tied.n:,} rows: either is good enough."],
        ),
        "how-depths": draw_depths(visits),
    }
    if notes.coarse and notes.fine:
        pictures["how-second-look"] = draw_second_look(notes.coarse, notes.fine, rows.names[winner])
    for name, text in pictures.items():
        (out / f"{name}.svg").write_text(text, encoding="utf-8")
    print(f"{', '.join(pictures)} written")
    root, all_of_it = visits[0], race.n * len(rows.names)
    print(
        f"root: {rows.names[winner]} at {race.threshold:.1f}, {race.counted:,} of {race.n:,} rows, ",
        end="",
    )
    print(f"{root.insertions:,} insertions, exact {all_of_it:,}; with a twin {tied.counted:,} rows")
    small = [v for v in visits if v.rows <= 1000]
    print(
        f"the tree: {len(visits)} nodes, {sum(v.insertions for v in visits):,} insertions; ", end=""
    )
    print(f"{len(small)} nodes of 1,000 rows or fewer")
    print("best gain over all rows, by feature: ", end="")
    print(", ".join(f"{n} {g:.3f}" for n, g in zip(rows.names, best_gains(rows), strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="the folder (docs)")
    parser.add_argument("--seeds", type=int, default=20, help="of the table; 0: pictures alone")
    parser.add_argument("--minutes", type=int, default=60_000, help="rows of the log (60,000)")
    args = parser.parse_args()
    print(f"`{command()}`; {about()}")
    rows = room(args.minutes)
    twins = with_twin(rows)
    draw_all(rows, twins, args.out)
    if args.seeds:
        show_options(rows, twins, args.seeds)


if __name__ == "__main__":
    main()
