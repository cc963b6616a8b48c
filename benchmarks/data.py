"""Tables for the benchmarks: the real ones where present, generated ones of the same shape otherwise.

`mnist.npz` holds Xtr, ytr, Xte, yte with pixels as uint8 (from `sklearn.datasets.fetch_openml`),
`beijing_air_quality.csv.gz` is the Beijing Multi-Site Air-Quality table of UCI in one file.
They are looked for in the folder given, or else in $EDGEFOREST_DATA and ../shared/data. The paper's
other sets are in paper_data.py.
"""

import csv
import gzip
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

MISSING = ("NA", "na", "")


@dataclass
class Table:
    about: str
    regression: bool
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def find(name: str, given: str | None = None) -> Path | None:
    """The file of that name in the first data folder that has it."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    for folder in [given] if given else [os.environ.get("EDGEFOREST_DATA"), beside]:
        if folder and (Path(folder) / name).exists():
            return Path(folder) / name
    return None


def mnist(given: str | None = None) -> Table:
    """Handwritten digits: 60,000 x 784 bytes, 10 classes; 10,000 for the test."""
    path = find("mnist.npz", given)
    if path:
        with np.load(path) as d:
            y, y_test = d["ytr"].astype(np.int64), d["yte"].astype(np.int64)
            return Table("MNIST", False, d["Xtr"], y, d["Xte"], y_test)
    # Blurred blobs, ten kinds, moved and dimmed at random: bytes, many of them 0, as in digits.
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=70_000)
    patterns = rng.random((10, 4, 28, 28)) > 0.75  # each class comes in four ways
    for axis in (2, 3):
        patterns = patterns + np.roll(patterns, 1, axis) + np.roll(patterns, -1, axis)
    patterns = np.maximum(0.0, patterns / patterns.max() - 0.3)
    X = np.empty((70_000, 784), np.uint8)
    for i, k in enumerate(y):
        image = np.roll(patterns[k, rng.integers(4)], rng.integers(-3, 4, 2), (0, 1))
        image = image * rng.uniform(150, 350) + rng.normal(0, 25, (28, 28)) * (image > 0)
        X[i] = np.clip(image, 0, 255).ravel()
    return Table("generated, for MNIST", False, X[:60_000], y[:60_000], X[60_000:], y[60_000:])


def air(given: str | None = None, target: str = "PM2.5", share: float = 0.8) -> Table:
    """Hourly air in Beijing: PM2.5 from 16 columns, text as numbers, some values missing."""
    path = find("beijing_air_quality.csv.gz", given)
    if path:
        with gzip.open(path, "rt", newline="") as stream:
            names, *lines = csv.reader(stream)
        place = names.index(target)
        lines = [line for line in lines if line[place] not in MISSING]
        y = np.array([line[place] for line in lines], np.float64)
        X = features(names, lines, {"No", target})  # No only numbers the rows
        about = "Beijing air" if target == "PM2.5" else f"Beijing air, {target}"
    else:
        from sklearn.datasets import make_friedman1

        X, y = make_friedman1(420_768, 16, noise=3.0, random_state=0)
        X = X.astype(np.float32)
        X[np.random.default_rng(0).random(X.shape) < 0.02] = np.nan
        about = "generated, for Beijing air"
    return parted(about, True, X, y, share)


def parted(about: str, regression: bool, X: np.ndarray, y: np.ndarray, share: float) -> Table:
    """A table whose rows are in random order, that share of them for training."""
    order = np.random.default_rng(0).permutation(len(y))
    X, y, cut = X[order], y[order], int(len(y) * share)
    return Table(about, regression, X[:cut], y[:cut], X[cut:], y[cut:])


def features(names: list[str], lines: list[list[str]], leave: set[str]) -> np.ndarray:
    """The columns of a CSV as numbers, without those of these names."""
    kept = [f for f, name in enumerate(names) if name not in leave]
    return np.column_stack([numbers([line[f] for line in lines]) for f in kept])


def numbers(values: list[str]) -> np.ndarray:
    """A column as float32, NaN where missing; the places of its sorted words if it is text."""
    present = sorted({v for v in values if v not in MISSING})
    try:
        place = {v: float(v) for v in present}
    except ValueError:
        place = {v: float(i) for i, v in enumerate(present)}
    return np.array([place.get(v, np.nan) for v in values], np.float32)


def made(given: str | None = None) -> Table:
    """Generated: 581,012 x 54 float32, 7 classes (the shape of Covertype), 10 % for the test."""
    from sklearn.datasets import make_classification

    X, y = make_classification(
        581_012, 54, n_informative=12, n_redundant=8, n_classes=7, flip_y=0.05, random_state=0
    )
    X, cut = X.astype(np.float32), len(y) * 9 // 10
    return Table("generated", False, X[:cut], y[:cut], X[cut:], y[cut:])


def read(stream: TextIO, target: str) -> tuple[list[str], list[list[str]]]:
    """The header that names the target, and the lines after it: what stands before is no table."""
    lines = list(csv.reader(stream))
    first = next((i for i, line in enumerate(lines) if target in line), None)
    if first is None:
        sys.exit(f"a table must have a header that names {target}, got none; fetch it again")
    return lines[first], [line for line in lines[first + 1 :] if line]


TABLES = {"mnist": mnist, "air": air, "made": made}
