"""Make the folder of the page that learns: its own files, EdgeForest's, and MicroPython beside them.

    python examples/phone/learn/make.py [--out FOLDER]

The folder then holds all that the page needs, and no network is asked for anything.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
RUNTIME = (
    ROOT / ".runtimes/micropython-wasm/node_modules/@micropython/micropython-webassembly-pyscript"
)
MICROPYTHON = ("micropython.mjs", "micropython.wasm")
PYTHON = ("gestures.py", "page.py")
PAGE = (
    *("index.html", "learn.css", "app.js", "motion.js", "store.js", "worker.js"),
    *("manifest.webmanifest", "icon.svg", "icon-180.png", "icon-512.png"),
)


def modules() -> list[str]:
    """EdgeForest's files that ours import, and all that these import in turn."""
    found: set[str] = set()
    todo = [HERE / name for name in PYTHON]
    while todo:
        for node in ast.walk(ast.parse(todo.pop().read_text(encoding="utf-8"))):
            package, _, name = (getattr(node, "module", None) or "").partition(".")
            path = ROOT / "edgeforest" / f"{name}.py"
            if package == "edgeforest" and path.name not in found and path.is_file():
                found.add(path.name)
                todo.append(path)
    return sorted(found)


def make(out: Path, runtime: Path = RUNTIME) -> None:
    """Write the folder."""
    if not all((runtime / name).is_file() for name in MICROPYTHON):
        sys.exit(
            "MicroPython for WebAssembly is not here: run `make runtimes` first "
            "(it needs Node.js with npm)"
        )
    python = [*PYTHON, *(f"edgeforest/{name}" for name in modules())]
    (out / "edgeforest").mkdir(parents=True, exist_ok=True)
    for name in (*PAGE, *PYTHON):
        shutil.copy(HERE / name, out)
    shutil.copy(HERE.parent / "style.css", out)
    for name in python[len(PYTHON) :]:
        shutil.copy(ROOT / name, out / name)
    for name in MICROPYTHON:
        shutil.copy(runtime / name, out)
    everything = sorted([*PAGE, *MICROPYTHON, *python, "style.css"])
    version = hashlib.sha256()
    for name in everything:
        version.update(name.encode() + b"\0" + (out / name).read_bytes())
    files = {"all": [*everything, "files.json"], "python": python}
    (out / "files.json").write_text(json.dumps(files, indent=1) + "\n", encoding="utf-8")
    worker = (HERE / "sw.js").read_text(encoding="utf-8")
    worker = worker.replace('"VERSION"', json.dumps(version.hexdigest()[:16]))
    (out / "sw.js").write_text(worker, encoding="utf-8")
    size = sum((out / name).stat().st_size for name in everything)
    print(f"{out}: {len(everything) + 2} files, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE / "build")
    make(parser.parse_args().out)
