"""Do intervals and sets of classes hold the truth as often as they say?

    python -m benchmarks.intervals                       # four regressions, four classifications
    python -m benchmarks.intervals --seeds 20 --trees 50

It needs `pip install numpy scikit-learn`. Each seed draws training and test rows anew. A forest is
fitted and calibrated with its own training rows, out of bag; the test rows count how often the truth
lies inside. The top third are the test rows with the largest predictions: where intervals that are
equally wide everywhere fail, since large values miss by more.

Beside ours: plain residuals (the same width for all rows, from the same rows out of bag), and the
quantiles of what the single trees predict, as a quantile regression forest with one row a leaf has.
"""

import argparse
import platform
from collections.abc import Callable

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    make_classification,
    make_friedman1,
)

from benchmarks import command
from benchmarks.data import air, mnist
from edgeforest import RandomForestClassifier, RandomForestRegressor
from edgeforest.forests import oob

Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
ROWS = 10_000  # for training, of the larger tables; half as many for the test


def beijing_air(seed: int) -> Parts:
    """PM2.5 from 16 columns."""
    table = _kept("air", air)
    return _drawn(table.X, table.y, ROWS, seed)


def bike(seed: int) -> Parts:
    """Rented bikes by hour, weather and weekday: counts that spread as they grow."""
    rng = np.random.default_rng(seed)
    n = ROWS * 3 // 2
    hour, day, season = (rng.integers(k, size=n) for k in (24, 7, 4))
    degrees, damp, wind = rng.normal(15, 9, n), rng.uniform(20, 100, n), rng.gamma(2, 5, n)
    rush = 1.5 * np.exp(-(((hour - 8) / 2) ** 2)) * (day < 5)
    rush += 1.7 * np.exp(-(((hour - 17.5) / 2.5) ** 2)) - 0.8 * (hour < 6)
    mean = np.exp(2.5 + rush + 0.04 * degrees - 0.008 * damp - 0.01 * wind + 0.1 * season)
    y = rng.poisson(mean * rng.gamma(8, 1 / 8, n)).astype(float)
    return _drawn(np.column_stack([hour, day, season, degrees, damp, wind]), y, ROWS, seed)


def diabetes(seed: int) -> Parts:
    """442 patients."""
    return _drawn(*load_diabetes(return_X_y=True), 300, seed)


def friedman(seed: int) -> Parts:
    """Friedman's first function, with noise that grows in proportion to the value."""
    X, mean = make_friedman1(ROWS * 3 // 2, 10, noise=0.0, random_state=seed)
    y = mean * (1 + np.random.default_rng(seed).normal(0, 0.125, len(mean)))
    return _drawn(X, y, ROWS, seed)


def digits(seed: int) -> Parts:
    """1,797 digits of 8 x 8 pixels."""
    return _drawn(*load_digits(return_X_y=True), 1_200, seed)


def cancer(seed: int) -> Parts:
    """569 samples, two classes."""
    return _drawn(*load_breast_cancer(return_X_y=True), 380, seed)


def mnist_sample(seed: int) -> Parts:
    """Handwritten digits."""
    table = _kept("mnist", mnist)
    return _drawn(table.X, table.y, ROWS, seed)


def seven(seed: int) -> Parts:
    """Generated: 20 columns, 7 classes, one label in ten is wrong."""
    X, y = make_classification(
        ROWS * 3 // 2, 20, n_informative=8, n_classes=7, flip_y=0.1, random_state=seed
    )
    return _drawn(X, y, ROWS, seed)


REGRESSIONS = {
    "Beijing air": beijing_air,
    "bike-like": bike,
    "diabetes": diabetes,
    "friedman1, growing noise": friedman,
}
CLASSES = {
    "digits": digits,
    "breast cancer": cancer,
    "MNIST sample": mnist_sample,
    "7 classes, 10 % wrong": seven,
}
_tables: dict[str, object] = {}


def _kept(name: str, read: Callable) -> object:
    """A table that is read once."""
    if name not in _tables:
        _tables[name] = read()
    return _tables[name]


def _drawn(X: np.ndarray, y: np.ndarray, n: int, seed: int) -> Parts:
    """n random rows for training, and at most half as many others for the test."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:n], order[n : n + n // 2]
    return X[train], y[train], X[test], y[test]


def intervals(parts: Parts, trees: int, coverage: float, seed: int) -> dict[str, list[float]]:
    """For each way: coverage, coverage of the top third, mean width."""
    X, y, X_test, y_test = parts
    forest = RandomForestRegressor(trees, oob_score=True, random_state=seed).fit(X, y)
    forest.calibrate(X, y)
    value = forest.predict(X_test)
    missed = np.sort(np.abs(y - forest.oob_prediction_))
    miss = missed[min(len(y) - 1, int(np.ceil((len(y) + 1) * coverage)) - 1)]
    model = forest.forest_
    each = oob.values(model, oob.votes(model)[oob.leaves(model, X_test), 0], 1)
    tails = (1 - coverage) / 2, (1 + coverage) / 2
    ways = {
        "ours": forest.predict_interval(X_test, coverage).T,
        "plain residuals": (value - miss, value + miss),
        "quantiles of trees": np.quantile(each, tails, axis=0),
    }
    top = value >= np.quantile(value, 2 / 3)
    found = {}
    for way, (lower, upper) in ways.items():
        inside = (lower <= y_test) & (y_test <= upper)
        found[way] = [inside.mean(), inside[top].mean(), (upper - lower).mean()]
    return found


def sets(parts: Parts, trees: int, asked: list[float], seed: int) -> list[list[float]]:
    """For each coverage asked for: coverage, mean size, share of sets of one class; accuracy."""
    X, y, X_test, y_test = parts
    forest = RandomForestClassifier(trees, random_state=seed).fit(X, y).calibrate(X, y)
    place = np.searchsorted(forest.classes_, y_test)
    right = forest.score(X_test, y_test)
    found = []
    for coverage in asked:
        inside = forest.predict_set(X_test, coverage)
        hit, size = inside[np.arange(len(place)), place], inside.sum(axis=1)
        found.append([hit.mean(), size.mean(), (size == 1).mean(), right])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="(default: %(default)s)")
    parser.add_argument("--trees", type=int, default=100, help="(default: %(default)s)")
    parser.add_argument("--coverage", type=float, default=0.9, help="(default: %(default)s)")
    args = parser.parse_args()
    how = args.trees, args.coverage
    print(f"$ {command()}    # Python {platform.python_version()}, ", end="")
    print(f"{args.trees} trees, {args.seeds} seeds, coverage asked for: {args.coverage}\n")
    print("| regression | way | coverage (least, most) | top third (least) | width |")
    print("|---|---|---|---|---|")
    for name, make in REGRESSIONS.items():
        runs = [intervals(make(seed), *how, seed) for seed in range(args.seeds)]
        for way in runs[0]:
            all_, top, width = np.array([run[way] for run in runs]).T
            print(
                f"| {name} | {way} | {all_.mean():.3f} ({all_.min():.3f}, {all_.max():.3f}) | "
                f"{top.mean():.3f} ({top.min():.3f}) | {width.mean():.4g} |",
                flush=True,
            )
    print("\n| classes | accuracy | asked | coverage (least, most) | mean size | one class |")
    print("|---|---|---|---|---|---|")
    asked = sorted({args.coverage, 0.99})  # forests are often right more often than asked
    for name, make in CLASSES.items():
        seeds = range(args.seeds)
        runs = np.array([sets(make(seed), args.trees, asked, seed) for seed in seeds])
        for coverage, found in zip(asked, runs.swapaxes(0, 1), strict=True):
            hit, size, single, right = found.mean(axis=0)
            least, most = found[:, 0].min(), found[:, 0].max()
            print(
                f"| {name} | {right:.3f} | {coverage} | {hit:.3f} ({least:.3f}, {most:.3f}) | "
                f"{size:.2f} | {single:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
