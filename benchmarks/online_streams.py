"""Streams of rows whose labels are to be predicted before they are learned: see online_moa.py.

Those that are made here depend on nothing but their seed. Electricity and Covertype are read from
files that whoever measures brings along; the log of an office from UCI's three files.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.online import agrawal, friedman, hyperplane, noisy, sea

Stream = tuple[np.ndarray, np.ndarray]

SEGMENTS = ("1110111", "0010010", "1011101", "1011011", "0111010")
SEGMENTS += ("1101011", "1101111", "1010010", "1111111", "1111011")
NOMINAL = {"random tree": range(5, 10)}  # features that are categories, by stream


def rare(rng: np.random.Generator, n: int) -> Stream:
    """One row of a hundred is positive: a box in two of ten features."""
    X = rng.random((n, 10))
    f = rng.choice(10, 2, replace=False)
    low = rng.random(2) * 0.9
    return X, ((X[:, f] >= low) & (X[:, f] < low + 0.1)).all(1).astype(int)


def wide(rng: np.random.Generator, n: int) -> Stream:
    """Four clouds, two of each class, in 10 of 150 features; the others are noise."""
    X = rng.normal(size=(n, 150))
    f = rng.choice(150, 10, replace=False)
    centres = rng.choice([-1.0, 1.0], (4, 10))
    cloud = rng.integers(4, size=n)
    X[:, f] += centres[cloud]
    return X, noisy(rng, cloud % 2 == 1, 0.01)


def random_tree(rng: np.random.Generator, n: int) -> Stream:
    """The classes of the leaves of a random tree over five numbers and five categories."""
    X = np.column_stack([rng.random((n, 5)), rng.integers(5, size=(n, 5))])
    y = np.zeros(n, int)
    stack = [(np.arange(n), 0, [(0.0, 1.0)] * 5 + [(0.0, 5.0)] * 5)]
    while stack:
        rows, level, spans = stack.pop()
        f = int(rng.integers(10))
        low, high = spans[f]
        if level >= 8 or (level >= 3 and rng.random() < 0.15):
            y[rows] = rng.integers(2)
        elif f < 5:
            cut = low + (high - low) * rng.random()
            left = X[rows, f] <= cut
            for side, span in ((left, (low, cut)), (~left, (cut, high))):
                stack.append((rows[side], level + 1, [*spans[:f], span, *spans[f + 1 :]]))
        elif high - low == 1:
            stack.append((rows, level, spans))  # one category is left: draw another feature
        else:
            for v in range(5):
                part = [*spans[:f], (v, v + 1), *spans[f + 1 :]]
                stack.append((rows[X[rows, f] == v], level + 1, part))
    return X, y


def waveform(rng: np.random.Generator, n: int) -> Stream:
    """Breiman's waves: sums of two of three in 21 features, and 19 features of noise."""
    waves = np.array([np.maximum(0, 6 - np.abs(np.arange(21) - c)) for c in (6, 14, 10)])
    y = rng.integers(3, size=n)
    u = rng.random(n)[:, None]
    X = u * waves[np.array([0, 0, 1])[y]] + (1 - u) * waves[np.array([1, 2, 2])[y]]
    return np.hstack([X + rng.normal(size=(n, 21)), rng.normal(size=(n, 19))]), y


def led(rng: np.random.Generator, n: int) -> Stream:
    """Digits of seven segments, one of ten inverted, among 17 others; three times they move."""
    digits = np.array([[int(c) for c in text] for text in SEGMENTS])
    y = rng.integers(10, size=n)
    X = rng.integers(2, size=(n, 24))
    X[:, :7] = digits[y] ^ (rng.random((n, 7)) < 0.1)
    for part in np.array_split(np.arange(n), 4)[1:]:
        order = np.arange(24)
        a, b = rng.choice(7, 4, replace=False), 7 + rng.choice(17, 4, replace=False)
        order[a], order[b] = b, a
        X[part] = X[part][:, order]
    return X.astype(float), y


def moving_balls(rng: np.random.Generator, n: int) -> Stream:
    """Fifty balls of five classes in ten dimensions; each moves its own way all the time."""
    centres, classes = rng.random((50, 10)), rng.integers(5, size=50)
    sizes, shares = rng.uniform(0.06, 0.36, 50), rng.random(50)
    ball = rng.choice(50, n, p=shares / shares.sum())
    ways = rng.normal(size=(50, 10))
    ways /= np.linalg.norm(ways, axis=1)[:, None]
    off = rng.normal(size=(n, 10))
    off *= (sizes[ball] * np.abs(rng.normal(size=n)) / np.linalg.norm(off, axis=1))[:, None]
    at = centres[ball] + ways[ball] * (0.0002 * np.arange(n))[:, None]
    return 1 - np.abs(1 - at % 2) + off, classes[ball]  # they bounce off the walls


def recurring(rng: np.random.Generator, n: int) -> Stream:
    """Three rules of Agrawal, each twice."""
    parts = [agrawal(rng, n // 2, True), agrawal(rng, n - n // 2, True)]
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def table(path: Path) -> Stream:
    """A CSV file with a heading, whose last column is the class, a whole number."""
    values = np.loadtxt(path, delimiter=",", skiprows=1)
    y = values[:, -1].astype(int)
    return values[:, :-1], y - y.min()


MADE: dict[str, Callable[[np.random.Generator, int], Stream]] = {
    "1 % positives": rare,
    "150 features": wide,
    "random tree": random_tree,
    "waveform": waveform,
    "LED, drift": led,
    "hyperplane, drift": lambda rng, n: hyperplane(rng, n, True),
    "Agrawal, recurring": recurring,
    "SEA, drift": lambda rng, n: sea(rng, n, True),
    "RBF, moving": moving_balls,
    "Friedman, drift": friedman,
}
