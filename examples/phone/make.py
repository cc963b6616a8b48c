"""Make the folder of the phone page: train on made-up motion, export, put onnxruntime-web beside it.

    python examples/phone/make.py [--out FOLDER]

The folder then holds all that the page needs, and no network is asked for anything.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import random
import shutil
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

from edgeforest import files, train
from edgeforest.export.onnx_model import to_onnx

HERE = Path(__file__).resolve().parent
RUNTIME = HERE.parents[1] / ".runtimes/onnxruntime-web/node_modules/onnxruntime-web/dist"
ORT_FILES = ("ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
GRAVITY = 9.81
SECONDS = 2.0  # of motion that one prediction looks at
HERTZ = 50
NAMES = ["strength", "swing", "rate", "tilt"]
# Of each activity: steps or shakes a second, their force, the trembling on top, how it is held.
MOTIONS: dict[str, dict[str, tuple[float, float]]] = {
    "on the table": {"rate": (1, 1), "force": (0, 0), "noise": (0.01, 0.05), "tilt": (0.97, 1)},
    "in the hand": {"rate": (0.2, 1), "force": (0.1, 0.6), "noise": (0.08, 0.3), "tilt": (0, 0.9)},
    "walking": {"rate": (1.4, 2.2), "force": (1.5, 4), "noise": (0.3, 0.9), "tilt": (-0.3, 0.9)},
    "running": {"rate": (2.4, 3.2), "force": (7, 14), "noise": (0.8, 2.0), "tilt": (-0.6, 0.6)},
    "shaking": {"rate": (3.6, 6), "force": (16, 32), "noise": (0.8, 2.5), "tilt": (-0.9, 0.9)},
}


def motion(kind: str, r: random.Random) -> list[tuple[float, float, float]]:
    """What the sensor tells in `SECONDS` of an activity: x, y, z with gravity, in m/s²."""
    draw = {name: r.uniform(*limits) for name, limits in MOTIONS[kind].items()}
    turn = r.uniform(0, 2 * math.pi)
    side = math.sqrt(1 - draw["tilt"] ** 2)
    down = (side * math.cos(turn), side * math.sin(turn), draw["tilt"])
    start = r.random()
    samples = []
    for i in range(int(SECONDS * HERTZ)):
        wave = math.sin(2 * math.pi * (start + draw["rate"] * i / HERTZ))
        pull = GRAVITY + draw["force"] * wave
        samples.append(tuple(part * pull + r.gauss(0, draw["noise"]) for part in down))
    return samples


def features(samples: Sequence[Sequence[float]], seconds: float) -> list[float]:
    """What the forest is told of a stretch of motion; app.js computes the same."""
    force = [math.sqrt(x * x + y * y + z * z) for x, y, z in samples]
    mean = sum(force) / len(force)
    strength = math.sqrt(sum((f - mean) * (f - mean) for f in force) / len(force))
    rises = sum(a < mean <= b for a, b in pairwise(force))
    tilt = sum(z for _, _, z in samples) / len(samples) / GRAVITY
    return [strength, max(force) - min(force), rises / seconds, tilt]


def train_forest(count: int = 300, seed: int = 0) -> tuple[Any, dict[str, list[float]]]:
    """A forest that knows the activities, and typical features of each."""
    r = random.Random(seed)
    rows, labels = [], []
    for kind in MOTIONS:
        for _ in range(count):
            rows.append(features(motion(kind, r), SECONDS))
            labels.append(kind)
    forest = train(rows, labels, names=NAMES, n_trees=20, max_depth=6, budget=300_000)
    typical = {}
    for kind in MOTIONS:
        own = [row for row, label in zip(rows, labels, strict=True) if label == kind]
        typical[kind] = [median(column) for column in zip(*own, strict=True)]
    return forest, typical


def make(out: Path, runtime: Path = RUNTIME) -> None:
    """Write the folder."""
    if not (runtime / ORT_FILES[0]).is_file():
        sys.exit(
            "onnxruntime-web is not here: run `make runtimes` first (it needs Node.js with npm)"
        )
    out.mkdir(parents=True, exist_ok=True)
    for file in ("index.html", "app.js", "style.css"):
        shutil.copy(HERE / file, out)
    for name in ORT_FILES:
        shutil.copy(runtime / name, out)
    forest, typical = train_forest()
    model = to_onnx(forest, doc="What a phone is doing, from its motion sensor").SerializeToString()
    files.write(out / "model.onnx", [model])
    schema = {
        "features": forest.names,
        "classes": forest.classes,
        "typical": typical,
        "seconds": SECONDS,
        "gravity": GRAVITY,
    }
    files.write(out / "schema.js", [f"window.schema = {json.dumps(schema)};\n"])
    # A page that is opened as a file may run scripts of its folder, but not read its other files.
    packed = {name: encoded(out / name) for name in ("model.onnx", *ORT_FILES[1:])}
    files.write(out / "offline.js", [f"window.files = {json.dumps(packed)};\n"])
    held = [
        features(motion(kind, random.Random(n)), SECONDS) for n in range(40) for kind in MOTIONS
    ]
    right = fmean(a == b for a, b in zip(forest.predict(held), [*MOTIONS] * 40, strict=True))
    print(f"{out}: {len(forest)} trees, {len(model)} bytes, {right:.0%} of new motion told right")


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE / "build")
    make(parser.parse_args().out)
