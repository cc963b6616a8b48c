"""Four machines that each saw some states only: their logs, and rows for a test, made up here.

    python devices.py [FOLDER]       # writes pump.csv, fan.csv, saw.csv, press.csv, server.csv, test.csv

A row is what a sensor of vibration tells about one second. There are six states. Each machine lacks
two of them, and of the others it has seen some often and some rarely. The server has 300
rows of its own; the rows for the test are nobody's.
"""

import csv
import random
import sys
from pathlib import Path

STATES = ("idle", "slow", "fast", "unbalanced", "worn", "loose")
FEATURES = ("rms", "peak", "crest", "low", "middle", "high", "tilt", "temperature")
# How many rows of each state a machine has: the states that it lacks have none.
LOGS = {
    "pump": (2400, 900, 300, 1500, 0, 0),
    "fan": (600, 0, 0, 300, 1500, 900),
    "saw": (0, 300, 2400, 0, 600, 1500),
    "press": (900, 600, 0, 0, 300, 900),
    "server": (50, 50, 50, 50, 50, 50),
    "test": (500, 500, 500, 500, 500, 500),
}
CENTRES = random.Random(7)
STATE_CENTRES = {
    state: [[CENTRES.gauss(0, 1) for _ in FEATURES] for _ in range(3)] for state in STATES
}


def row(state: str, rng: random.Random) -> list[float]:
    """One second of a machine in this state: each state comes in three ways."""
    return [round(value + rng.gauss(0, 0.5), 3) for value in rng.choice(STATE_CENTRES[state])]


def rows_of(name: str) -> list[list[object]]:
    """The log of a machine, in random order; the last value of each row is the state."""
    rng = random.Random(name)
    rows: list[list[object]] = [
        [*row(state, rng), state]
        for state, times in zip(STATES, LOGS[name], strict=True)
        for _ in range(times)
    ]
    rng.shuffle(rows)
    return rows


def write(folder: Path) -> None:
    """Write all logs as CSV files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in LOGS:
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([[*FEATURES, "state"], *rows_of(name)])


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "logs"))
