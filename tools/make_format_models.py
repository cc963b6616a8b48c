"""Write a few small models of today's format, with rows and their answers, as test data.

    python tools/make_format_models.py tests/data/format-2

tests/test_formats.py reads them with every engine, for as long as docs/model-format.md promises. They
are written once for each version of the format and never again: a folder that exists is refused. For
every model NAME.json there is NAME.rows.json with rows and what the model answers for them.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import edgeforest
from edgeforest import storage
from edgeforest.export import shrink

Rows = list[list[Any]]


def table(seed: int, n: int = 200) -> Rows:
    """Two numbers and two categories, of text and of numbers; some values are missing."""
    r = random.Random(seed)
    rows: Rows = [
        [
            round(r.gauss(0, 10), 2),
            r.randrange(40),
            r.choice(["ant", "bee", "cät"]),
            r.choice([3, 5]),
        ]
        for _ in range(n)
    ]
    for row in rows:
        if r.random() < 0.15:
            row[r.randrange(4)] = None
    return rows


def mood(row: list[Any]) -> str:
    """A label that depends on all four columns."""
    return "warm" if (row[0] or 0) > 2 and row[2] != "bee" else "hot" if row[3] == 5 else "cool"


def height(row: list[Any]) -> float:
    """A number that depends on three columns."""
    return (row[0] or 0.0) * 0.5 + (row[1] or 0) + 10.0 * (row[2] == "ant")


def numbers(rows: Rows) -> Rows:
    """The two columns of numbers, without missing values."""
    return [[row[0] or 0.0, row[1] or 0] for row in rows]


def models() -> Iterator[tuple[str, Any, Rows]]:
    """The name of each plain model, the forest, and rows to ask it about."""
    rows, new = table(1), [*table(2, 20), [None, None, None, None], [0.0, 7, "dog", 4]]
    few, plain, bare = {"n_trees": 3, "max_depth": 4}, numbers(rows), numbers(new)
    warm, words = (
        [row[0] > 2 for row in plain],
        {"categorical": [2, 3], "names": ["a", "b", "c", "d"]},
    )
    yield "classes", edgeforest.train(plain, warm, budget=20_000, seed=1, **few), bare
    tall = [height(row) for row in rows]
    yield "regression", edgeforest.train(rows, tall, criterion="mse", seed=2, **few, **words), new
    moods = [mood(row) for row in rows]
    yield "missing", edgeforest.train(rows, moods, criterion="entropy", seed=3, **few, **words), new
    yield "extra-trees", edgeforest.train(plain, warm, kind="extra-trees", seed=4, **few), bare
    many = [f"class {row[1]}" for row in plain]
    yield (
        "many-classes",
        edgeforest.train(plain, many, splitter="exact", seed=5, n_trees=2, max_depth=6),
        bare,
    )
    parts = [
        edgeforest.train(rows[i::2], moods[i::2], seed=i, n_trees=2, max_depth=3, **words)
        for i in range(2)
    ]
    merged = edgeforest.merge(parts)
    yield "merged", merged, new
    yield "shrunk", shrink(merged, levels=15)[0], new


def answers(forest: Any, rows: Rows) -> dict[str, Any]:
    """What a forest says about rows: labels or values, and the shares of classes."""
    found: dict[str, Any] = {"rows": rows, "predictions": forest.predict(rows)}
    if forest.classes is not None:
        found["shares"] = forest.predict_proba(rows)
    return found


def write(path: Path, found: dict[str, Any]) -> None:
    """Rows and answers as JSON: a row a line."""
    parts = []
    for key, values in found.items():
        lines = ",\n".join(json.dumps(value, ensure_ascii=False) for value in values)
        parts.append(f"{json.dumps(key)}: [\n{lines}\n]")
    path.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8", newline="\n")


def main(argv: list[str]) -> int:
    """Write all of them into a folder that is new."""
    if len(argv) != 1 or Path(argv[0]).exists():
        print("give one folder that does not exist: tests/data/format-2", file=sys.stderr)
        return 1
    folder = Path(argv[0])
    folder.mkdir(parents=True)
    for name, forest, rows in models():
        forest.save(folder / f"{name}.json")
        write(folder / f"{name}.rows.json", answers(forest, rows))

    # A training that the power cut after two of four trees, and the forest that it must come to.
    rows, path = numbers(table(6)), folder / "checkpoint.json"
    labels = [int(row[0] > 2) for row in rows]
    for step in storage.Resumable(rows, labels, str(path), n_trees=4, max_depth=3, seed=6):
        if len(step.grown) == 2:
            break
    found = answers(edgeforest.load(path), rows)
    write(folder / "checkpoint.rows.json", {**found, "labels": labels})

    learner = edgeforest.OnlineForest(
        ["a", "b", "c", "d"], categorical=["c", "d"], n_trees=3, window=40, seed=7
    )
    for row in table(7, 300):
        learner.update(row, mood(row))
    learner.save(folder / "online.json")
    write(folder / "online.rows.json", answers(learner.forest(), table(8, 20)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
