"""The command `demo`: the whole way on made-up data, from a sensor log to predictions."""

import argparse
import csv
import os
import shlex
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from edgeforest.cli.arguments import amount, whole_number
from edgeforest.cli.fitting import Request, fit
from edgeforest.cli.outcome import Outcome
from edgeforest.cli.models import check_engine, load_model
from edgeforest.cli.parser import Problem, add_command
from edgeforest.cli.report import facts, print_outcome
from edgeforest.cli.saving import replaced, save
from edgeforest.cli.screen import StatusLine, tell
from edgeforest.budget import Budget, Rng
from edgeforest.host.words import reason, shortest
from edgeforest.sources import open_source
from edgeforest.sources.cells import Value

DAY = 1440  # rows, one a minute
COLUMNS = ["time", "temperature", "humidity", "light", "co2", "vibration", "window", "activity"]

# For each activity, by night and by day: the chance per minute to change to another one.
CHANGES = {
    "empty": {"night": {"working": 0.0005}, "day": {"working": 0.03, "meeting": 0.012}},
    "working": {"night": {"empty": 0.03}, "day": {"empty": 0.012, "meeting": 0.008}},
    "meeting": {"night": {"empty": 0.05}, "day": {"empty": 0.015, "working": 0.012}},
}
# Share of the room's air that is exchanged in a minute.
AIRING = {"closed": 0.008, "tilted": 0.03, "open": 0.09}


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "demo",
        run,
        "make up a sensor log, train on it, predict",
        "It takes a few seconds and writes sample_log.csv, next_day.csv and model.json.",
        "edgeforest demo --out try",
    )
    parser.add_argument(
        "--out",
        default="edgeforest-demo",
        metavar="DIR",
        help="folder for its files, created if it does not exist (default edgeforest-demo)",
    )
    parser.add_argument(
        "--rows",
        type=whole_number(100, 1_000_000),
        default=6000,
        metavar="N",
        help="rows (default 6000)",
    )
    parser.add_argument(
        "--budget",
        type=amount,
        default=200_000,
        metavar="N",
        help="at most N histogram insertions (default 200k)",
    )


def run(args: argparse.Namespace) -> int:
    """Make up a log, train on it under the budget, and show the result."""
    check_engine(None)
    log, later = written_logs(args.out, args.rows)
    print("A room's sensors, one row a minute. What are the people in it doing?\n")
    with open_source(log) as source:
        request = Request(source, "activity", whole=True, budget=Budget(args.budget))
        outcome = fit(request, StatusLine(args.quiet))
    print_outcome(outcome)
    model = os.path.join(args.out, "model.json")
    save(outcome.forest, model)
    args.facts.update(facts(outcome), out=model)
    args.facts["next_day"] = print_next_day(outcome, model, later)
    print("\nNext:")
    model, log, later = shlex.quote(model), shlex.quote(log), shlex.quote(later)
    tell(f"  edgeforest inspect {model}")
    tell(f"  edgeforest evaluate {model} {later} --baseline")
    tell(f"  edgeforest train {log} --target activity --budget 1M")
    return 128 + outcome.stopped if outcome.stopped else 0


def written_logs(folder: str, rows: int) -> tuple[str, str]:
    """Write a made-up log into a folder, and that of the day after it; returns their paths."""
    made = sample_log(rows + DAY)
    paths = []
    try:
        os.makedirs(folder, exist_ok=True)
        for name, part in (("sample_log.csv", made[:rows]), ("next_day.csv", made[rows:])):
            paths.append(os.path.join(folder, name))
            with replaced(paths[-1]) as stream:
                writer = csv.writer(stream, lineterminator="\n")
                writer.writerow(COLUMNS)
                writer.writerows(part)
    except OSError as error:
        raise Problem(f"cannot write to {folder}: {reason(error)}") from None
    return paths[0], paths[1]


def print_next_day(outcome: Outcome, model: str, later: str) -> float:
    """Score the saved model, loaded again, on the day after its log; show some rows of it."""
    from edgeforest.scores.evaluation import evaluate
    from edgeforest.sources.features import Features

    forest = load_model(model)
    with open_source(later) as source:
        found = evaluate(forest, source, "activity")
        rows = [row for block in Features(forest, source) for row in block.features]
    if found.answers != outcome.forest.predict(rows):
        raise RuntimeError(f"{model} does not predict what the forest did that was saved")
    print("\nThe saved model, loaded again, on the day after, which it has not seen: "
          f"accuracy {found.accuracy:.3f}\n")  # fmt: skip
    heads = [*forest.names, "predicted", "truth"]
    widths = [2 + max(7, len(head)) for head in heads]
    print(line(heads, widths))
    for place in range(DAY // 16, DAY, DAY // 8):
        mark = "" if found.truths[place] == found.answers[place] else "  <- wrong"
        print(line([*rows[place], found.answers[place], found.truths[place]], widths) + mark)
    return found.accuracy


def line(values: Sequence[Value], widths: Sequence[int]) -> str:
    """Values in columns; a missing one is a dash."""
    texts = []
    for value, width in zip(values, widths, strict=True):
        if value is None or value != value:
            text = "-"
        else:
            text = shortest(value) if isinstance(value, float) else str(value)
        texts.append(f"{text:>{width}}")
    return "".join(texts)


# ---- The room


def sample_log(rows: int, seed: int = 0) -> list[list[str]]:
    """Make up a log of a room's sensors, one row a minute: text for a CSV file, `COLUMNS` wide.

    Nothing but + - * / is computed from our own random stream, so the log is the same on every
    machine.

    >>> sample_log(2)[0]
    ['2025-03-03T06:00', '19.6', '42.7', '0', '495', '0.027', 'closed', 'empty']
    """
    room = Room(Rng(seed, 1 << 20))  # a stream of its own: those of trees have small numbers
    return [room.minute() for _ in range(rows)]


class Room:
    """A room whose people come and go with the hour of the day.

    They breathe out CO2 and moisture, warm the room, switch lamps on (and forget to switch them
    off), shake the floor, open windows. Sensors are noisy, and now and then one drops out.
    """

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.time = datetime(2025, 3, 3, 6)  # a Monday
        self.activity, self.people = "empty", 0
        self.window, self.lamp = "closed", False
        self.temperature, self.moisture, self.co2, self.clouds = 19.5, 43.0, 480.0, 0.5
        self.silent = [0] * 6  # minutes for which each sensor still drops out

    def minute(self) -> list[str]:
        """A row of the log; the room goes on by a minute."""
        hour = self.time.hour + self.time.minute / 60
        day = 8 <= hour < 18
        self._come_and_go(day)
        self._use_window()
        sun = max(0.0, 1.0 - (hour - 12.5) * (hour - 12.5) / 36.0)
        self.clouds = min(1.0, max(0.0, self.clouds + self._normal(0.03)))
        daylight = 550.0 * sun * (1.0 - 0.8 * self.clouds)
        self._use_lamp(daylight)
        self._change_air(sun, day)
        values = self._measure(daylight)
        row = [self.time.isoformat(timespec="minutes"), *self._drop_out(values), self.activity]
        self.time += timedelta(minutes=1)
        return row

    def _normal(self, sigma: float) -> float:
        rng = self.rng
        total = rng.unit() + rng.unit() + rng.unit() + rng.unit()
        return float((total - 2.0) * 1.7320508 * sigma)  # four uniforms have variance 1/3

    def _come_and_go(self, day: bool) -> None:
        draw = self.rng.unit()
        for other, chance in CHANGES[self.activity]["day" if day else "night"].items():
            if draw < chance:
                below = self.rng.below
                self.activity = other
                self.people = {"empty": 0, "working": 1 + below(2), "meeting": 3 + below(4)}[other]
                break
            draw -= chance

    def _use_window(self) -> None:
        unit = self.rng.unit
        if self.people and unit() < (0.015 + 0.00003 * max(0.0, self.co2 - 800)):
            self.window = ("closed", "tilted", "open")[self.rng.below(3)]
        elif not self.people and self.window != "closed" and unit() < 0.04:
            self.window = "closed"

    def _use_lamp(self, daylight: float) -> None:
        if self.people and not self.lamp:
            self.lamp = self.rng.unit() < (0.3 if daylight < 250 else 0.02)
        elif not self.people and self.lamp:
            self.lamp = self.rng.unit() > 0.05

    def _change_air(self, sun: float, day: bool) -> None:
        outside = 6.0 + 7.0 * sun - 2.0 * self.clouds
        air = AIRING[self.window]
        self.co2 += 5.0 * self.people - air * (self.co2 - 420.0)
        heating = 0.012 * (21.0 - self.temperature) if day else 0.008 * (18.0 - self.temperature)
        self.temperature += (
            heating + 0.006 * self.people - 0.06 * air * (self.temperature - outside)
        )
        self.moisture += (
            0.05 * self.people
            - 0.35 * air * (self.moisture - 36.0)
            - 0.004 * (self.moisture - 42.0)
        )

    def _measure(self, daylight: float) -> list[str]:
        unit, normal = self.rng.unit, self._normal
        stir = 0.02 + 0.012 * self.people * unit() * (1.6 if self.activity == "meeting" else 1.0)
        if unit() < 0.02:  # a lorry passes
            stir += 0.08 * unit()
        light = daylight + (320.0 if self.lamp else 0.0)
        return [
            f"{self.temperature + normal(0.15):.1f}",
            f"{self.moisture + normal(0.6):.1f}",
            f"{max(0.0, light * (1.0 + normal(0.06))):.0f}",
            f"{max(380.0, self.co2 + normal(20.0)):.0f}",
            f"{max(0.0, stir * (1.0 + normal(0.35))):.3f}",
            self.window,
        ]

    def _drop_out(self, values: list[str]) -> list[str]:
        for sensor in range(len(values)):
            if self.silent[sensor]:
                self.silent[sensor] -= 1
                values[sensor] = ""
            elif self.rng.unit() < 0.0005:
                self.silent[sensor] = 10 + self.rng.below(50)
            elif self.rng.unit() < 0.01:
                values[sensor] = ""
        return values
