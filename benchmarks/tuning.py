"""What each option of a training changes: the score on other logs, the score that `train` promised, cost.

    python -m benchmarks.tuning TRAINING.csv TARGET OTHER.csv [OTHER.csv ...] [--seeds 5]

Every line is the mean over the seeds of `edgeforest train` with these options, and of `edgeforest
evaluate` on the other logs: the measure (accuracy, or R2), that of the rows left out in turn, insertions
of the forest, kB of the model. Without another log, only what was promised is there.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import tempfile
from statistics import mean, stdev
from typing import Any

from edgeforest import cli

VARIANTS = (
    "",
    "--trees 5", "--trees 50", "--trees 200",
    "--max-depth 4", "--max-depth 8", "--max-depth 12",
    "--min-samples-leaf 5", "--min-samples-leaf 20", "--min-samples-leaf 100",
    "--max-features 1", "--max-features 0.5", "--max-features 1.0",
    "--bins 4", "--bins 64", "--bins 255",
    "--budget 20k", "--budget 100k", "--budget 500k", "--budget 5M",
)  # fmt: skip


def said(*arguments: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        assert cli.main([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(stream.getvalue())
    return found


def run(args: argparse.Namespace, options: list[str], model: str) -> tuple[list[float], ...]:
    """Scores, promised scores, insertions and sizes, one for each seed."""
    rows = []
    for seed in range(args.seeds):
        common = [args.log, "--target", args.target, "--seed", str(seed), "--out", model]
        found = said("train", *common, *args.options, *options)
        measure = "r2" if found["task"] == "regression" else "accuracy"
        scores = [
            said("evaluate", model, log, "--target", args.target)[measure] for log in args.others
        ]
        promised = found["score"]["pooled"][measure]
        size = os.path.getsize(model) / 1000
        rows.append((mean(scores or [promised]), promised, found["spent"]["insertions"], size))
    return tuple(map(list, zip(*rows, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("log")
    parser.add_argument("target")
    parser.add_argument("others", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--options", type=str.split, default=[], help="of every training, in quotes"
    )
    parser.add_argument(
        "--only", default="", help="variants with this in their name, such as depth"
    )
    args = parser.parse_args()
    print("| options | other logs | promised | insertions | kB |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for variant in [v for v in VARIANTS if not v or re.search(args.only, v)]:
            given = run(args, variant.split(), os.path.join(folder, "model.json"))
            scores, promised, insertions, sizes = given
            name = f"`{variant}`" if variant else "(none)"
            off = f" ± {stdev(scores):.3f}" if len(scores) > 1 else ""
            numbers = f"{mean(promised):.3f} | {mean(insertions):,.0f} | {mean(sizes):.1f}"
            print(f"| {name} | {mean(scores):.3f}{off} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
