"""How often the interval of a gain holds, and which cuts heavy tails favour.

    python -m benchmarks.coverage [--samples 2000] [--only arms|ties|tails]

The first table has one fixed arm over 50,000 rows each, and the share of random samples whose
interval (`edgeforest.intervals`, at 1.96 standard errors) holds the true gain. Beside it, how often
the true gain lies above the interval: these are the misses that make a race drop what it should
keep. A sample of one class only has no interval: races go on there, so it is left out and counted in
the column before. "Bootstrap" rows are counted as often as they were drawn; with weights, rows are drawn
in proportion to them.

The second table has two features with the same gain: how often their difference is within its
interval. Where it is not, a race drops one of them, which costs nothing as long as they are tied.

The third table has nodes with lognormal targets, and normal ones for comparison: the best cut among
all values beside the best of 15 cuts at equal mass. It shows how often the former cuts off less than
1 % of the rows, and what either gains on fresh rows, of what the best cut there gains.

guarantee.py has the splits that races choose by these intervals.
"""

import argparse
import math
from collections.abc import Callable, Iterator

import numpy as np

from edgeforest.core_pure import criterion_of
from edgeforest.intervals import Interval, axis

ROWS = 50_000
SIZES = 256, 1000, 4000
Z = 1.96

# From a number of rows to the cells of the left side, those of both, and the sum of squared times.
Draw = Callable[[int], tuple[list[int], list[int], float]]
Arm = tuple[list[list[int]], Draw, int]  # the cells of all rows, samples of them, how many they are


def ends(i: Interval) -> tuple[float, float]:
    """The gains between which the true one lies, if the interval holds."""
    half = Z * math.sqrt(i.error)
    low = max(0.0, i.root - half)
    return max(0.0, low * low - i.shift), max(0.0, (i.root + half) ** 2 - i.shift)


# ---- One arm ----------------------------------------------------------------------------------


def of_classes(rng: np.random.Generator, left: np.ndarray, right: np.ndarray) -> Arm:
    """The cells of a node by the class shares of its sides, 40 % of the rows on the left."""
    shares = np.array([0.4 * left / left.sum(), 0.6 * right / right.sum()])
    cells = np.rint(ROWS * shares).astype(np.int64)

    def draw(n: int) -> tuple[list[int], list[int], float]:
        found = rng.multivariate_hypergeometric(cells.ravel(), n).reshape(cells.shape)
        return found[0].tolist(), found.sum(axis=0).tolist(), n

    return [cells[0].tolist(), cells.sum(axis=0).tolist()], draw, ROWS


def of_targets(rng: np.random.Generator, noise: np.ndarray, gap: float) -> Arm:
    """The cells of a node by its targets; the mean of the left side is larger by `gap`."""
    side = np.arange(ROWS) < 0.4 * ROWS
    y = noise.copy()
    y[side] += noise[~side].mean() - noise[side].mean() + gap
    return of_values(rng, side, y)


def of_values(
    rng: np.random.Generator, side: np.ndarray, y: np.ndarray, times: np.ndarray | None = None
) -> Arm:
    """The cells of a node by its targets, which of them are on the left, and how often each counts."""
    levels = np.rint((y - y.min()) / (y.max() - y.min()) * 65535).astype(np.int64)
    counts = np.ones(len(y), np.int64) if times is None else times

    def cells(rows: np.ndarray) -> list[int]:
        t, v = counts[rows], levels[rows]
        return [int(t.sum()), int((t * v).sum()), int((t * v * v).sum())]

    return of_rows(rng, side, counts, cells)


def of_labels(rng: np.random.Generator, side: np.ndarray, y: np.ndarray, times: np.ndarray) -> Arm:
    """The same by the classes of its rows."""
    k = int(y.max()) + 1

    def cells(rows: np.ndarray) -> list[int]:
        return np.bincount(y[rows], times[rows], k).astype(np.int64).tolist()  # type: ignore[no-any-return]

    return of_rows(rng, side, times, cells)


def of_rows(
    rng: np.random.Generator,
    side: np.ndarray,
    times: np.ndarray,
    cells: Callable[[np.ndarray], list[int]],
) -> Arm:
    """The cells of all rows, and of samples of them; rows that were not drawn are none."""
    present = np.flatnonzero(times)

    def draw(n: int) -> tuple[list[int], list[int], float]:
        rows = present[rng.choice(len(present), n, replace=False, shuffle=False)]
        return cells(rows[side[rows]]), cells(rows), float((times[rows] ** 2).sum())

    return [cells(present[side[present]]), cells(present)], draw, len(present)


def cases(rng: np.random.Generator) -> Iterator[tuple[str, str, *Arm]]:
    """Every case: what it is, the criterion, the cells of the node and how to draw a sample."""
    two = {
        "strong": (0.25, 0.7),
        "weak": (0.46, 0.54),
        "none": (0.5, 0.5),
        "class of 1 %": (0.003, 0.0147),
        "class of 0.1 %": (0.0003, 0.00147),
    }
    for criterion in ("gini", "entropy"):
        for name, (a, b) in two.items():
            yield name, criterion, *of_classes(rng, np.array([1 - a, a]), np.array([1 - b, b]))
        shares = np.random.default_rng(7).dirichlet(np.ones(20))
        other = np.random.default_rng(8).normal(size=20)
        for name, strength in (("20 classes", 0.5), ("20, weak", 0.15), ("20, none", 0.0)):
            right = shares * np.exp(strength * other)
            yield name, criterion, *of_classes(rng, shares, right)
    noise = np.random.default_rng(9).normal(size=ROWS)
    for name, gap in (("strong", 0.8), ("weak", 0.1), ("none", 0.0)):
        yield name, "mse", *of_targets(rng, noise, gap)
    side = np.arange(ROWS) < 0.4 * ROWS
    for name, gap in (("lognormal", 1.0), ("lognormal, weak", 0.2)):
        y = np.exp(1.5 * noise) * np.where(side, 1 + gap, 1)
        yield name, "mse", *of_values(rng, side, y)
    yield from counted_cases(rng)


def counted_cases(rng: np.random.Generator) -> Iterator[tuple[str, str, *Arm]]:
    """Rows that count several times: by the bootstrap, and by weights."""
    fixed = np.random.default_rng(10)
    side = np.arange(ROWS) < 0.4 * ROWS
    score = fixed.normal(size=ROWS) + 0.4 * side
    rare = (score > np.quantile(score, 0.99)).astype(int)
    half = (score > np.median(score)).astype(int)
    weights = fixed.integers(1, 10, size=ROWS)
    balanced = np.where(rare, 50.0, 0.5)
    drawn = fixed.poisson(1.0, size=ROWS)
    weighted = fixed.poisson(weights / weights.mean())
    evened = fixed.poisson(balanced)
    for criterion in ("gini", "entropy"):
        yield "bootstrap", criterion, *of_labels(rng, side, half, drawn)
        yield "weights 1 to 9", criterion, *of_labels(rng, side, half, weighted)
        yield "class of 1 %, balanced", criterion, *of_labels(rng, side, rare, evened)
    yield "bootstrap", "mse", *of_values(rng, side, score, drawn)
    yield "weights 1 to 9", "mse", *of_values(rng, side, score, weighted)


def show_coverage(samples: int) -> None:
    """Print the first table."""
    rng = np.random.default_rng(0)
    print("\n### Intervals\n")
    columns = " | ".join(f"{n:,}: one class | holds | above" for n in SIZES)
    print(f"| arm | criterion | {columns} |")
    print("|---|---|" + "---|---|---|" * len(SIZES))
    for name, criterion, (left, total), draw, rows in cases(rng):
        c = criterion_of(criterion)
        truth = max(0.0, c.describe(left, total)[0])
        if name.endswith("none"):
            truth = 0.0  # but for the rounding of shares to whole rows
        line = f"| {name} | {criterion} "
        for n in SIZES:
            holds = above = alike = 0
            for _ in range(samples):
                part, whole, squares = draw(n)
                size = c.size(whole)
                if c.impurity(whole) <= 0 or not 0 < c.size(part) < size:
                    alike += 1
                    continue
                rest = (rows - n) / (rows - 1) * squares / (size * size)
                low, high = ends(Interval(c, part, whole, rest, axis(c, whole)))
                holds += low <= truth <= high
                above += truth > high
            counted = max(1, samples - alike)
            line += f"| {alike / samples:.2f} | {holds / counted:.3f} | {above / counted:.3f} "
        print(line + "|", flush=True)


# ---- Two features with the same gain ----------------------------------------------------------


def show_ties(samples: int) -> None:
    """Print the second table: both features part the same labels equally well, but otherwise apart."""
    rng = np.random.default_rng(0)
    fixed = np.random.default_rng(11)
    print("\n### Ties\n")
    print("| tied features | criterion | " + " | ".join(f"{n:,}: holds" for n in SIZES) + " |")
    print("|---|---|" + "---|" * len(SIZES))
    for name, strength in (("strong", 0.4), ("weak", 0.05)):
        y = np.arange(ROWS) % 2
        sides = np.empty((2, ROWS), bool)
        for k in (0, 1):  # the same number of rows of each class, others of them
            own = np.flatnonzero(y == k)
            for side in sides:
                side[fixed.permutation(own)] = np.arange(len(own)) < (
                    0.5 + strength * (k - 0.5)
                ) * len(own)
        for criterion in ("gini", "entropy", "mse"):
            c = criterion_of(criterion)
            line = f"| {name} | {criterion} "
            for n in SIZES:
                rest, holds = (ROWS - n) / ((ROWS - 1) * n), 0
                for _ in range(samples):
                    rows = rng.choice(ROWS, n, replace=False, shuffle=False)
                    whole = cells_of(criterion, y[rows])
                    one, two = (
                        Interval(
                            c, cells_of(criterion, y[rows[s[rows]]]), whole, rest, axis(c, whole)
                        )
                        for s in sides
                    )
                    holds += abs(one.root - two.root) <= Z * math.sqrt(one.error + two.error)
                line += f"| {holds / samples:.3f} "
            print(line + "|", flush=True)


def cells_of(criterion: str, labels: np.ndarray) -> list[int]:
    """The cells of labels that are 0 or 1."""
    ones = int(labels.sum())
    if criterion == "mse":
        return [len(labels), 65535 * ones, 65535**2 * ones]
    return [len(labels) - ones, ones]


# ---- Heavy tails ------------------------------------------------------------------------------


def with_tail(rng: np.random.Generator, n: int, lognormal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 12 features, of which three matter, and their targets."""
    X = rng.normal(size=(n, 12))
    signal = 0.5 * X[:, 0] + 0.3 * X[:, 1] * (X[:, 2] > 0)
    noise = rng.normal(size=n)
    return X, np.exp(signal + 1.5 * noise) if lognormal else signal + noise


def best_cuts(X: np.ndarray, y: np.ndarray, features: np.ndarray) -> tuple[tuple, tuple]:
    """(gain, feature, cut, rows on the smaller side) of the best cut, and of the best at mass."""
    n = len(y)
    rows = np.arange(1, n)
    every, some = [], []
    for f in features:
        order = X[:, f].argsort()
        sums = (y[order] - y.mean()).cumsum()[:-1]
        gains = sums * sums / (rows * (n - rows))
        for found, places in ((every, rows - 1), (some, np.arange(1, 16) * n // 16)):
            at = places[gains[places].argmax()]
            found.append((gains[at], f, X[order[at], f], min(at + 1, n - at - 1)))
    return max(every), max(some)


def show_tails(repeats: int = 30, fresh: int = 400_000) -> None:
    """Print the third table."""
    print("\n### Heavy tails\n")
    print("| targets | rows of a node | cuts off < 1 % | fresh gain: any cut | at equal mass |")
    print("|---|---|---|---|---|")
    for lognormal in (False, True):
        X, y = with_tail(np.random.default_rng(99), fresh, lognormal)
        y = np.minimum(y, np.quantile(y, 0.9999))

        def gain(f: int, cut: float, X: np.ndarray = X, y: np.ndarray = y) -> float:
            left = X[:, f] <= cut
            share = left.mean()
            apart = y[left].mean() - y[~left].mean() if 0 < share < 1 else 0.0
            return share * (1 - share) * apart * apart

        for n in (2000, 20_000):
            few = 0
            gains = np.zeros(3)
            for seed in range(repeats):
                rng = np.random.default_rng(seed)
                features = rng.choice(12, 3, replace=False)
                one, two = best_cuts(*with_tail(rng, n, lognormal), features)
                few += one[3] < 0.01 * n
                top = max(gain(f, cut) for f in features for cut in np.linspace(-2, 2, 9))
                gains += gain(*one[1:3]), gain(*two[1:3]), top
            name = "lognormal" if lognormal else "normal"
            shares = f"{gains[0] / gains[2]:.2f} | {gains[1] / gains[2]:.2f}"
            print(f"| {name} | {n:,} | {few / repeats:.2f} | {shares} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--only", choices=["arms", "ties", "tails"])
    args = parser.parse_args()
    if args.only in (None, "arms"):
        show_coverage(args.samples)
    if args.only in (None, "ties"):
        show_ties(args.samples)
    if args.only in (None, "tails"):
        show_tails()


if __name__ == "__main__":
    main()
