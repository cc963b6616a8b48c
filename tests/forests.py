"""The forests that every export is asked about, and rows that are hard for them.

A case is a small forest that was trained on made-up data, rows that are hard for it (on thresholds,
one float32 beside, missing, infinite, unknown categories), and how its ONNX model is written.
"""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from edgeforest import merge, train
from edgeforest.forest import EQUAL, FEATURE, LEAF
from edgeforest.loading import load

FORESTS = 240
INF = float("inf")
KINDS = ("random-forest", "extra-trees", "random-patches")
WORDS = ["ant", "bee", "cat", "Dächse", "", "fox\n", "gnu"]
LABELS: dict[str, Any] = {
    "text": lambda k: f"klass {k} ä",
    "whole": lambda k: 7 * k - 3,
    "float": lambda k: k + 0.1,
    "bool": lambda k: k > 0,
}
COLUMNS: dict[str, Any] = {
    "normal": lambda r: r.gauss(0, 1),
    "few": lambda r: float(r.randrange(-3, 4)),
    "zeros": lambda r: r.choice([0.0, -0.0, 1.0, -1.0]),
    "neighbours": lambda r: 1.0 + r.randrange(4) * 2.0**-23,
    "tiny": lambda r: r.randrange(-2, 5) * 2.0**-149,
    "huge": lambda r: r.uniform(-3.4e38, 3.4e38),
    "word": lambda r: r.choice(WORDS[:-1]),
    "number": lambda r: r.choice([3, 5, 40, 1000]),
    "part": lambda r: r.choice([0.5, 0.1, -7.25]),
    "long": lambda r: r.choice([16777217, -5, 10**15]),
    "flag": lambda r: r.choice([True, False]),
    "many": lambda r: f"c{r.randrange(60):02d}",
}
UNKNOWN = {"word": "gnu", "number": 4, "part": 0.25, "long": 0, "flag": 2, "many": "d"}


@dataclass
class Case:
    forest: Any
    rows: list[list[Any]]
    operator: Any
    inputs: Any


@cache
def cases() -> list[Case]:
    """All cases; those of the new operator are a third of them, those with columns another."""
    return [make_case(n) for n in range(FORESTS)]


def make_case(n: int) -> Case:
    r = random.Random(n)
    forest, columns = make_forest(n, r)
    if n % 7 == 1:  # a code that equals nothing, as joining may leave it
        equal = [i for i, f in enumerate(forest.feature) if f != LEAF and f & EQUAL]
        for i in equal[:1]:
            forest.threshold[i] = 0.0
        forest.prepare()
    rows = [hard_row(forest, columns, r) for _ in range(32)]
    return Case(forest, rows, "v5" if n % 3 == 2 else "classic", ("tensor", "columns")[n // 3 % 2])


def make_forest(n: int, r: random.Random) -> tuple[Any, list[str]]:
    """A forest of its own kind for each number, and the kinds of its features."""
    numbers, categories = list(COLUMNS)[:6], list(COLUMNS)[6:]
    only = n >= 200  # chains of questions about one category, which runtimes like to fold
    columns = [r.choice(numbers) for _ in range(0 if only else r.randrange(1, 5))]
    columns += [r.choice(categories) for _ in range(r.randrange(1, 3) if only else n % 4)]
    r.shuffle(columns)
    rows = make_rows(columns, 120, r, missing=0.15 if n % 2 else 0.0)
    options: dict[str, Any] = {
        "kind": KINDS[n % 3],
        "n_trees": r.randrange(1, 7),
        "max_depth": 8 if only else (0, 1, 2, 4, 8)[n % 5],
        "min_samples_leaf": 1,
        "categorical": [f for f, kind in enumerate(columns) if kind in categories],
        "names": [f"{kind} {f}" for f, kind in enumerate(columns)],
        "seed": n,
    }
    if n % 5 == 3:
        y = [r.gauss(0, 100) if n % 10 < 5 else r.uniform(1e-30, 1e30) for _ in rows]
        return train(rows, y, criterion="mse", **options), columns
    classes = r.choice([1, 2, 2, 2, 3, 4, 10, 30])
    label = LABELS[list(LABELS)[n % 4]]
    y = [label(k) for k in noisy_places(rows, classes, r)]
    if n % 9 == 0:  # joined of forests that know other classes and categories
        parts = [(rows[i::2], [f"{v} {i}" if n % 2 else v for v in y[i::2]]) for i in (0, 1)]
        return merge([train(X, t, **options) for X, t in parts], weights=[1, 3]), columns
    return train(rows, y, **options), columns


def make_rows(columns: list[str], count: int, r: random.Random, missing: float) -> list[Any]:
    def value(kind: str) -> Any:
        return None if r.random() < missing else COLUMNS[kind](r)

    return [[value(kind) for kind in columns] for _ in range(count)]


def noisy_places(rows: list[Any], classes: int, r: random.Random) -> list[int]:
    """Classes that depend on the rows, so that there is something to learn, and maybe on chance."""
    share = r.choice([0.7, 1.0])
    ordered = sorted(range(len(rows)), key=lambda i: repr(rows[i]))
    places = [0] * len(rows)
    for rank, i in enumerate(ordered):
        places[i] = rank * classes // len(rows) if r.random() < share else r.randrange(classes)
    return places


def hard_row(forest: Any, columns: list[str], r: random.Random) -> list[Any]:
    """A row that sits where trees decide."""
    cuts: dict[int, list[float]] = {}
    for f, t in zip(forest.feature, forest.threshold, strict=True):
        if f != LEAF and not f & EQUAL:
            cuts.setdefault(f & FEATURE, []).append(t)
    row = []
    for f, kind in enumerate(columns):
        if r.random() < 0.1:
            row.append(None)
        elif kind in UNKNOWN:
            row.append(UNKNOWN[kind] if r.random() < 0.2 else COLUMNS[kind](r))
        elif r.random() < 0.1:
            row.append(r.choice([INF, -INF, 0.0, -0.0, 3.4028234663852886e38]))
        else:
            cut = np.float32(r.choice(cuts.get(f, [0.0])))
            with np.errstate(over="ignore"):
                beside = [
                    cut,
                    np.nextafter(cut, np.float32(INF)),
                    np.nextafter(cut, -np.float32(INF)),
                ]
            row.append(float(r.choice(beside)))
    return row


def answers_of(forest: Any, rows: list[Any]) -> dict[str, Any]:
    """What the pure forest says, as the model's outputs should be."""
    forest = load(forest.to_json())
    if forest.regression:
        return {"value": np.array(forest.predict(rows), np.float32).reshape(-1, 1)}
    shares = np.array(forest.predict_proba(rows), np.float32)
    return {"label": forest.predict(rows), "probabilities": shares}


def encoded_cases(asked: list[Case] | None = None) -> list[tuple[Any, list[array]]]:
    """Every forest, or these, with their rows as the float32 numbers that trees compare."""
    asked = cases() if asked is None else asked
    return [(case.forest, [case.forest.encode(row) for row in case.rows]) for case in asked]


def all_equal(asked: list[Case] | None = None) -> str:
    """The figure to print once every case, or these, have been found the same."""
    asked = cases() if asked is None else asked
    rows = sum(len(case.rows) for case in asked)
    return f"{len(asked)} forests, {rows} rows: all equal, to the last bit"
