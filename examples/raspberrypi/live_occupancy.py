"""Learn from a sensor whether somebody is in the room, while it runs.

    python live_occupancy.py --sensor simulated --speed inf --readings 20000
    python live_occupancy.py --labels presence.txt

It takes a reading every minute from a Sense HAT or a BME280, or from a simulated office if there is
neither. Now and then a person or a program says whether the room is in use, by writing 1 (somebody is
here) or 0 (nobody) to the file of --labels; the last word in it counts:

    echo 1 > presence.txt

The label is learned together with the latest readings, which have been waiting for it. The model is
saved now and then, so a power cut costs at most what was learned since; when the program is started
again, it goes on from there. Ctrl-C and SIGTERM save the model and stop the program.
"""

import argparse
import importlib
import math
import os
import random
import signal
import sys
import time
from collections import deque
from typing import Protocol

from edgeforest.buffers import RingBuffer
from edgeforest.online import OnlineForest

SENSORS = ("auto", "sense-hat", "bme280", "simulated")
WORDS = {0: "nobody", 1: "somebody"}
PRESS = 10  # readings between two presses of the button in the simulated office
PATIENCE = 10  # readings in a row that may fail


class Sensor(Protocol):
    """Where readings come from."""

    names: tuple[str, ...]

    def read(self) -> list[float]:
        """The numbers of a reading; an OSError if the sensor gives none this time."""


class Labels(Protocol):
    """Where labels come from."""

    def read(self) -> int | None:
        """1, 0, or None if there is no new label."""


# ---- Sensors ----------------------------------------------------------------------------------


class SenseHat:
    """The Sense HAT, through its library sense_hat."""

    names: tuple[str, ...] = ("temperature", "humidity", "pressure", "hour")

    def __init__(self) -> None:
        self.hat = importlib.import_module("sense_hat").SenseHat()

    def read(self) -> list[float]:
        hat = self.hat
        return [hat.get_temperature(), hat.get_humidity(), hat.get_pressure(), hour()]


class Bme280:
    """A BME280 on the I2C bus, through the libraries smbus2 and bme280."""

    names = SenseHat.names

    def __init__(self) -> None:
        self.bme280 = importlib.import_module("bme280")
        self.bus = importlib.import_module("smbus2").SMBus(1)
        self.address = 0x76
        try:
            self.calibration = self.bme280.load_calibration_params(self.bus, self.address)
        except OSError:  # it may have this other address
            self.address = 0x77
            self.calibration = self.bme280.load_calibration_params(self.bus, self.address)

    def read(self) -> list[float]:
        found = self.bme280.sample(self.bus, self.address, self.calibration)
        return [found.temperature, found.humidity, found.pressure, hour()]


class Simulated:
    """An office for up to three people, day after day; the same one for the same seed."""

    names: tuple[str, ...] = ("temperature", "humidity", "light", "co2", "hour")

    def __init__(self, seed: int, every: float) -> None:
        self.rng = random.Random(seed)
        self.hours = every / 3600  # between two readings
        self.now = 0.0  # hours since a Monday at midnight
        self.count = 0
        self.people = 0
        self.temperature, self.co2 = 18.0, 420.0
        self.visits: list[tuple[float, float]] = []
        self.meetings: list[tuple[float, float]] = []
        self.sky = 1.0
        self.lamp = False

    def plan_day(self, day: int) -> None:
        """Decide who comes when, and how bright the day is."""
        rng = self.rng
        self.sky = rng.uniform(0.3, 1.0)
        self.visits = []
        for _ in range(3 if day % 7 < 5 else 1):
            if rng.random() < (0.8 if day % 7 < 5 else 0.2):
                lunch = rng.gauss(12.3, 0.3)
                self.visits.append((rng.gauss(8.5, 0.6), lunch))
                self.visits.append((lunch + rng.uniform(0.5, 1.0), rng.gauss(17.5, 1.0)))
        starts = [rng.uniform(9, 16) for _ in range(rng.randrange(4))]
        self.meetings = [(start, start + rng.uniform(0.2, 0.9)) for start in starts]

    def read(self) -> list[float]:
        rng, hours = self.rng, self.hours
        if self.count == 0 or int(self.now / 24) != int((self.now - hours) / 24):
            self.plan_day(int(self.now / 24))
        clock = self.now % 24
        before = self.people
        self.people = sum(come <= clock < go for come, go in self.visits)
        if any(begin <= clock < end for begin, end in self.meetings):  # in another room
            self.people = 0
        daylight = 300 * self.sky * max(0.0, math.sin((clock - 7) / 11 * math.pi))
        if self.people:
            self.lamp = daylight < 200
        elif before:
            self.lamp = self.lamp and rng.random() < 0.3  # sometimes nobody turns it off
        elif clock > 20:
            self.lamp = False
        heating = 21.0 if 6 <= clock < 18 else 18.0
        # Air and warmth change slowly: by half in an hour or so.
        self.co2 += (420 + 220 * self.people - self.co2) * min(1.0, 0.9 * hours)
        aim = heating + 0.6 * self.people
        self.temperature += (aim - self.temperature) * min(1.0, 0.7 * hours)
        humidity = 42 - 1.2 * (self.temperature - 20) + self.people
        reading = [
            round(self.temperature + rng.gauss(0, 0.1), 2),
            round(humidity + rng.gauss(0, 0.5), 2),
            round(max(0.0, daylight + 320 * self.lamp + rng.gauss(0, 8)), 1),
            round(self.co2 + rng.gauss(0, 12)),
            round(clock, 2),
        ]
        self.now += hours
        self.count += 1
        return reading


class Button:
    """The labels of the simulated office: now and then somebody presses a button."""

    def __init__(self, office: Simulated) -> None:
        self.office = office

    def read(self) -> int | None:
        return None if self.office.count % PRESS else int(self.office.people > 0)


class LabelFile:
    """Labels from the last word of a file, each time that the file is written."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.last = self.stamp()  # an old label says nothing about now

    def stamp(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_size

    def read(self) -> int | None:
        stamp = self.stamp()
        if stamp is None or stamp == self.last:
            return None
        self.last = stamp
        with open(self.path, "rb") as stream:
            words = stream.read().split()
        if not words:  # somebody is just writing it
            return None
        if words[-1] in (b"0", b"1"):
            return int(words[-1])
        print(f"{self.path} must end with 0 or 1, got {words[-1]!r}; ignored", file=sys.stderr)
        return None


def hour() -> float:
    """The time of day."""
    now = time.localtime()
    return now.tm_hour + now.tm_min / 60


def find_sensor(name: str, seed: int, every: float) -> Sensor:
    """The sensor with this name; "auto" takes the first whose library is installed."""
    if name not in SENSORS:
        raise ValueError(f"there is no sensor {name!r}; use {', '.join(SENSORS)}")
    kinds: dict[str, tuple[type[SenseHat] | type[Bme280], str]] = {
        "sense-hat": (SenseHat, "sudo apt install sense-hat"),
        "bme280": (Bme280, "pip install smbus2 RPi.bme280"),
    }
    for kind, (make, how) in kinds.items():
        if name in ("auto", kind):
            try:
                return make()
            except ImportError as error:
                if name == kind:
                    raise ValueError(
                        f"{kind} needs the library {error.name}: {how}; or use --sensor simulated"
                    ) from None
            except OSError as error:
                raise OSError(
                    f"the {kind} does not answer ({error}); is it connected, and I2C turned on?"
                ) from None
    if name == "auto":
        print("no sensor library is installed: using a simulated office")
    return Simulated(seed, every)


# ---- Learning ---------------------------------------------------------------------------------


class Program:
    """Takes readings and labels, learns from them, and saves the model."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.sensor = find_sensor(args.sensor, args.seed, args.every)
        self.learner = self.begin()
        self.labels: Labels | None = LabelFile(args.labels) if args.labels else None
        if isinstance(self.sensor, Simulated):
            self.labels = self.labels or Button(self.sensor)
            presses = self.learner.rows // min(PRESS, args.reach)
            for _ in range(presses * PRESS):  # skip what was learned before the power cut
                self.sensor.read()
        elif args.speed != 1:
            raise ValueError("--speed is for the simulated sensor; leave it out")
        if self.labels is None and not self.learner.rows:
            raise ValueError(
                "there is nothing to learn from; give --labels FILE, to which you write 0 or 1"
            )
        # The readings that wait for a label. The oldest drops out: it never got one.
        self.waiting = RingBuffer(args.reach, len(self.sensor.names))
        self.predicted: deque[bool] = deque(maxlen=100)  # whether each label was predicted
        self.saved = self.learner.rows
        self.saved_at = time.monotonic()
        self.failed = 0
        self.stopping = False

    def begin(self) -> OnlineForest:
        """The learner from the model file, or a new one."""
        path, names = self.args.out, self.sensor.names
        try:
            learner = OnlineForest.load(path)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        except OSError:
            if os.path.exists(path):
                raise
            # Most minutes are like the one before. The window must hold days, or at night the
            # forest forgets what a day with people looks like.
            return OnlineForest(names, classes=[0, 1], window=self.args.window, seed=self.args.seed)
        before = learner.forest().names
        if tuple(before) != names:
            raise ValueError(
                f"{path} was learned from {', '.join(before)}, the sensor gives "
                f"{', '.join(names)}; use another --out"
            )
        if learner.classes is None or not set(learner.classes) <= {0, 1}:
            raise ValueError(f"{path} does not predict 0 or 1; use another --out")
        print(f"going on from {learner.rows:,} rows in {path}", flush=True)
        return learner

    def run(self) -> None:
        """Take readings until a signal stops it, or until --readings are done."""
        signal.signal(signal.SIGINT, self.stop)
        signal.signal(signal.SIGTERM, self.stop)  # systemd asks politely before it pulls the plug
        wait = self.args.every / self.args.speed
        due = time.monotonic()
        count = 0
        try:
            while not self.stopping and count != self.args.readings:
                reading = self.step()
                count += 1
                if reading is not None and count % self.args.status == 0:
                    self.show(reading)
                due = max(due + wait, time.monotonic())
                while not self.stopping and (left := due - time.monotonic()) > 0:
                    time.sleep(min(left, 0.2))
        finally:
            self.save()
        print(f"stopped after {count:,} readings; {self.learner.rows:,} rows learned in all")

    def stop(self, *_: object) -> None:
        self.stopping = True  # after this reading, not in the middle of it

    def step(self) -> list[float] | None:
        """Take one reading, learn if there is a label, save the model if it is time."""
        try:
            reading = self.sensor.read()
        except OSError as error:  # such as a loose wire
            self.failed += 1
            print(f"no reading: {error}", file=sys.stderr, flush=True)
            if self.failed == PATIENCE:
                raise OSError(f"the sensor failed {PATIENCE} times in a row: {error}") from None
            return None
        self.failed = 0
        self.waiting.push(reading, 0)
        label = self.labels.read() if self.labels else None
        if label is not None:
            self.learn(label)
        new = self.learner.rows - self.saved
        seconds = time.monotonic() - self.saved_at
        if new >= self.args.save_rows or (new and seconds >= 60 * self.args.save_minutes):
            self.save()
        return reading

    def learn(self, label: int) -> None:
        """Learn the readings that waited for this label."""
        columns, _ = self.waiting.snapshot()
        self.waiting.clear()
        rows = list(zip(*columns, strict=True))
        guesses = self.learner.update_batch(rows, [label] * len(rows))
        # Only the first guess was made without this label; the others are too easy.
        self.predicted.append(guesses[0] == label)

    def save(self) -> None:
        if self.learner.rows > self.saved:
            self.learner.save(self.args.out)
            self.saved = self.learner.rows
        self.saved_at = time.monotonic()

    def show(self, reading: list[float]) -> None:
        """Print how the learning goes."""
        learner = self.learner
        values = ", ".join(f"{n} {v:g}" for n, v in zip(self.sensor.names, reading, strict=True))
        if not learner.rows:
            print(f"waiting for the first label; {values}", flush=True)
            return
        line = f"{learner.rows:,} rows"
        if self.predicted:
            right = sum(self.predicted) / len(self.predicted)
            line += f", {right:.0%} of the last {len(self.predicted)} labels predicted"
        guess = learner.predict(reading)
        share = max(learner.predict_proba(reading))
        print(f"{line}; {WORDS[guess]} ({share:.0%}): {values}", flush=True)


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--sensor", default="auto", metavar="NAME", help=f"{', '.join(SENSORS)} (default: auto)")
    add(
        "--labels",
        metavar="FILE",
        help="a file whose last word is 0 or 1: a label each time it is written",
    )
    add(
        "--reach",
        type=whole,
        default=5,
        metavar="N",
        help="learn a label with the latest N readings that have none yet (default: 5)",
    )
    add(
        "--window",
        type=whole,
        default=5000,
        metavar="N",
        help="rows that a new model keeps to grow trees from (default: 5000)",
    )
    add("--out", default="live.json", metavar="FILE", help="the model (default: live.json)")
    add(
        "--every",
        type=positive,
        default=60.0,
        metavar="SECONDS",
        help="time between two readings (default: 60)",
    )
    add(
        "--status",
        type=whole,
        default=60,
        metavar="N",
        help="print a line after every N readings (default: 60)",
    )
    add(
        "--save-rows",
        type=whole,
        default=500,
        metavar="N",
        help="save the model after N more rows (default: 500)",
    )
    add(
        "--save-minutes",
        type=positive,
        default=10.0,
        metavar="M",
        help="or after M minutes, if something was learned (default: 10)",
    )
    add("--readings", type=whole, metavar="N", help="stop after N readings (default: never)")
    add("--seed", type=int, default=0, help="seed of the simulated office and of the forest")
    add(
        "--speed",
        type=positive,
        default=1.0,
        metavar="X",
        help="run simulated time X times as fast; inf for no waiting at all",
    )
    return parser.parse_args(given)


def positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be more than 0, got {text}")
    return value


def whole(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {text}")
    return value


if __name__ == "__main__":
    try:
        Program(arguments()).run()
    except (ValueError, OSError) as error:
        sys.exit(f"live_occupancy: {error}")
    except KeyboardInterrupt:
        sys.exit("live_occupancy: stopped before it began")
