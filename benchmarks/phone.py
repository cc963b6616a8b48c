"""How well the phone's page learns: a watch's recordings, and simulated gestures.

    python -m benchmarks.phone

It runs examples/phone/learn/gestures.py, the file that the page runs, in CPython; a test shows that the
browser gives the same. Of each set, whole recordings are left out, a fifth at a time, and recognised
by the vote of their windows.

BasicMotions is what `python -m benchmarks.windows` is run with: four people with a watch, 80 recordings of ten
seconds, 10 readings a second. Only the accelerometer is used. The page makes 50 samples a second of it.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from benchmarks.windows import PARTS, SCALE, fetch, read

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from phone_pages import GESTURES, PHONE, learn_here, load_module, motion, on_grid

EACH = 30
SEEDS = 10


def main() -> None:
    """Print a line for each set."""
    gestures = load_module(PHONE / "learn" / "gestures.py", "gestures")
    print("python", *sys.argv)
    with tempfile.TemporaryDirectory() as scratch:
        folder = fetch(Path(scratch))
        watch = [found for part in PARTS for found in read(folder / f"BasicMotions_{part}.arff")]
    recordings = [
        (label, on_grid([(*sample, 100.0 * i) for i, sample in enumerate(table[:, :3] / SCALE)]))
        for table, label in watch
    ]
    learner = learn_here(gestures, recordings)
    print(f"a watch, 4 activities: {learner.right} of {learner.tested} recordings recognised")
    right = []
    for seed in range(SEEDS):
        r = random.Random(seed)
        made = [(kind, on_grid(motion(kind, r))) for kind in GESTURES for _ in range(EACH)]
        right.append(learn_here(gestures, made).right)
    print(
        f"simulated, 3 gestures, {EACH} recordings each, {SEEDS} seeds: {sum(right)} of "
        f"{SEEDS * EACH * len(GESTURES)} recognised; {min(right)} to {max(right)} of "
        f"{EACH * len(GESTURES)}"
    )


if __name__ == "__main__":
    main()
