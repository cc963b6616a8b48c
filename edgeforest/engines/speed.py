"""How fast this device trains: measured by `edgeforest calibrate`, kept in a file, used for plans.

    measure   insertions a second of an engine, on generated tables
    keep      write the speeds where `kept` finds them
    kept      the speeds of this device, or a sentence that says why there are none
    plan      let a training grow only as many trees as its time is enough for

A limit in seconds is divided between all trees that were asked for. If it is short, each of them is cut
after a few splits, and the forest is far worse than one of fewer trees that grow further. How many
trees there is time for is known beforehand from the speed. The clock still has the last word.
"""

from __future__ import annotations

import json
import math
import os
import platform
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from edgeforest import engines, files
from edgeforest.host.cores import usable_cores

VARIABLE = "EDGEFOREST_SPEED"  # names the file
FORMAT = "edgeforest speed 1"
MANY, LEVELS = 16000, 6  # rows and levels of the tables that show the speed of large nodes
FEW = 1000  # rows of those whose trees grow to the end
SECONDS = 0.25  # of processor time for each of the six trainings, at least
MOST = 65536  # bytes of a file that is read: ours has some hundred


@dataclass(frozen=True)
class Speed:
    """Insertions a second: the middle, the lowest and the highest of six trainings."""

    typical: float
    low: float  # trees down to single rows
    high: float  # the first levels of a tree
    first: float  # the lowest of those: how fast trees get their first levels


def measure(
    engine: engines.Name, seconds: float = SECONDS, now: Callable[[], float] = time.process_time
) -> Speed:
    """The speed of an engine, from six trainings of whole trees of at least so many seconds each.

    Classes, many classes and numbers; few levels of many rows, and all levels of few rows.

    >>> speed = measure("pure", seconds=0.001)
    >>> 0 < speed.low <= speed.typical <= speed.high
    True
    """
    first = [_pace(engine, n, MANY, LEVELS, seconds, now) for n in range(3)]
    whole = [_pace(engine, n, FEW, None, seconds, now) for n in range(3)]
    found = sorted(first + whole)
    return Speed((found[2] + found[3]) / 2, found[0], found[-1], min(first))


def _pace(
    engine: engines.Name,
    kind: int,
    rows: int,
    depth: int | None,
    seconds: float,
    now: Callable[[], float],
) -> float:
    """Insertions a second in one training."""
    rng = random.Random(0)
    columns = [bytearray(rng.randbytes(rows)) for _ in range(12)]
    table = zip(*columns[:3], rng.randbytes(rows), strict=True)
    labels: list[Any]
    if kind == 0:
        labels = [(a > 99) ^ (b > 128) ^ (noise < 20) for a, b, _, noise in table]
    elif kind == 1:
        labels = [(a + b + c + noise // 8) // 90 for a, b, c, noise in table]
    else:
        labels = [a + 0.5 * b + 0.2 * noise for a, b, _, noise in table]
    training = engines.read(
        columns,
        labels,
        by_column=True,
        engine=engine,
        criterion="mse" if kind == 2 else "gini",
        n_trees=4096,
        max_depth=depth,
    )
    began = now()
    trees = 0
    for _ in training:
        if len(training.grown) > trees:  # a part of a tree has another speed
            trees = len(training.grown)
            if now() - began >= seconds:
                break
    found = training.budget.spent.insertions / max(now() - began, 1e-6)
    training.stop()
    return found


# ---- Keeping it


def place() -> Path:
    """Where the speeds are kept: what EDGEFOREST_SPEED names, or where state of users belongs."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    if sys.platform == "win32":
        folder = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        folder = "~/Library/Application Support"
    else:
        folder = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(os.path.expanduser(folder)) / "edgeforest" / "speed.json"


def device() -> str:
    """What this device is: a card may be put into another one, a home may be shared."""
    model = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            named = dict(line.split(":", 1) for line in lines if ":" in line)
        known = {name.strip(): value.strip() for name, value in named.items()}
        model = known.get("Model") or known.get("model name", "")
    except OSError:  # not Linux
        model = platform.processor()
    return ", ".join([platform.machine(), f"{os.cpu_count()} cores", model[:100]])


def keep(speeds: dict[str, Speed]) -> Path:
    """Write the speeds of this device's engines; the path of the file."""
    path = place()
    path.parent.mkdir(parents=True, exist_ok=True)
    held = {name: asdict(speed) for name, speed in speeds.items()}
    text = json.dumps({"format": FORMAT, "device": device(), "engines": held}, indent=1)
    files.write(path, [text, "\n"])
    return path


def kept() -> tuple[dict[str, Speed], str]:
    """The speeds that were kept, and a sentence if a file is there that is of no use."""
    path = place()
    again = "`edgeforest calibrate` writes it anew"
    try:
        with open(path, "rb") as stream:
            data = stream.read(MOST + 1)
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        return {}, f"the speeds in {path} cannot be read: {error.strerror}; {again}"
    try:
        held = json.loads(data) if len(data) <= MOST else None
        if not isinstance(held, dict) or held.get("format") != FORMAT:
            raise ValueError
        speeds = {name: _speed(held["engines"][name]) for name in held["engines"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}, f"{path} is not a file of speeds, or damaged: it is ignored; {again}"
    if held.get("device") != device():
        return {}, f"the speeds in {path} are those of another device: they are ignored; {again}"
    return speeds, ""


def _speed(held: Any) -> Speed:
    """The speed that a file has, checked."""
    values = [held[name] for name in ("typical", "low", "high", "first")]
    typical, low, high, first = (float(v) for v in values if type(v) in (int, float))
    if not 0 < low <= typical <= high < math.inf or not low <= first <= high:
        raise ValueError
    return Speed(typical, low, high, first)


# ---- Planning


def pace(speeds: dict[str, Speed], engine: str, n_jobs: int | None) -> Speed | None:
    """The speed of an engine with so many threads, None if it was not measured.

    >>> pace({"pure": Speed(2e5, 1e5, 4e5, 3e5)}, "pure", 4)
    Speed(typical=200000.0, low=100000.0, high=400000.0, first=300000.0)
    """
    speed = speeds.get(engine)
    if speed is None or engine != "native":
        return speed
    cores = usable_cores()
    threads = cores if n_jobs == -1 else min(cores, n_jobs or 1)
    return Speed(*(threads * value for value in astuple(speed)))


def whole_trees(training: Any, insertions: float) -> int:
    """How many trees so many insertions are about enough for, if none is cut short; at least 1."""
    rows = training.sample_size
    if training.splitter == "exact":
        wanted = rows * max(1, min(training.max_depth, rows.bit_length()))
    else:
        wanted = training.demand(rows, 0)
    return max(1, int(insertions / max(1, wanted * training.max_features)))


def plan(training: Any, first: float) -> None:
    """Let a training that was not begun grow as many trees as its seconds are enough for.

    `first` is the speed of first levels: those are what `Training.demand` counts, and what counts
    most for predictions. More trees that are cut short are worse, fewer that grow further, too.
    """
    budget = training.budget
    if budget.seconds is not None:
        trees = whole_trees(training, first * max(0.0, budget.seconds - budget.tick()))
        trees = max(trees, training.n_jobs)  # which grow at the same time
        training.planned = training.in_all = min(training.planned, trees)
