"""Show the whole way on made-up data: a sensor log, a forest under a budget, its predictions."""

import csv
import os
import shlex
from collections.abc import Sequence
from datetime import datetime, timedelta

import edgeforest
from edgeforest.cli import (
    Problem,
    Progress,
    fit,
    load_model,
    print_data,
    print_fitted,
    replaced,
    save,
    tell,
)
from edgeforest.sources import open_source
from edgeforest.sources.schema import whole
from edgeforest.sources.tables import Value, prepare, reason

COLUMNS = ["time", "temperature", "humidity", "light", "co2", "vibration", "window", "activity"]

# For each activity, by night and by day: the chance per minute to go over to another one.
CHANGES = {
    "empty": {"night": {"working": 0.0005}, "day": {"working": 0.03, "meeting": 0.012}},
    "working": {"night": {"empty": 0.03}, "day": {"empty": 0.012, "meeting": 0.008}},
    "meeting": {"night": {"empty": 0.05}, "day": {"empty": 0.015, "working": 0.012}},
}
# Share of the room's air that is exchanged in a minute.
AIRING = {"closed": 0.008, "tilted": 0.03, "open": 0.09}


def sample_log(rows: int, seed: int = 0) -> list[list[str]]:
    """Make up a log of a room's sensors, one row a minute: text for a CSV file, `COLUMNS` wide.

    People come and go with the hour of the day. They breathe out CO2 and moisture, warm the room,
    switch lamps on (and forget to switch them off), shake the floor, open windows. Sensors are
    noisy, and now and then one drops out. Nothing but + - * / is computed from our own random
    stream, so the log is the same on every machine.

    >>> sample_log(2)[0]
    ['2025-03-03T06:00', '19.6', '42.7', '0', '495', '0.027', 'closed', 'empty']
    """
    # A stream of its own: the trees' streams have small numbers.
    rng = edgeforest.Rng(seed, 1 << 20)

    def normal(sigma: float) -> float:
        total = rng.unit() + rng.unit() + rng.unit() + rng.unit()
        return float((total - 2.0) * 1.7320508 * sigma)  # four uniforms have variance 1/3

    time = datetime(2025, 3, 3, 6)  # a Monday
    activity, people = "empty", 0
    window = "closed"
    lamp = False
    temperature, moisture, co2, clouds = 19.5, 43.0, 480.0, 0.5
    silent = [0] * 6  # minutes that each sensor still drops out for
    log = []
    for _ in range(rows):
        hour = time.hour + time.minute / 60
        day = 8 <= hour < 18
        # Who is there.
        draw = rng.unit()
        for other, chance in CHANGES[activity]["day" if day else "night"].items():
            if draw < chance:
                activity = other
                people = {"empty": 0, "working": 1 + rng.below(2), "meeting": 3 + rng.below(4)}[
                    other
                ]
                break
            draw -= chance
        # What they do with window and lamps.
        if people and rng.unit() < (0.015 + 0.00003 * max(0.0, co2 - 800)):
            window = ("closed", "tilted", "open")[rng.below(3)]
        elif not people and window != "closed" and rng.unit() < 0.04:
            window = "closed"
        sun = max(0.0, 1.0 - (hour - 12.5) * (hour - 12.5) / 36.0)
        clouds = min(1.0, max(0.0, clouds + normal(0.03)))
        daylight = 550.0 * sun * (1.0 - 0.8 * clouds)
        if people and not lamp:
            lamp = rng.unit() < (0.3 if daylight < 250 else 0.02)
        elif not people and lamp:
            lamp = rng.unit() > 0.05
        # What that does to the room.
        outside = 6.0 + 7.0 * sun - 2.0 * clouds
        air = AIRING[window]
        co2 += 5.0 * people - air * (co2 - 420.0)
        heating = 0.012 * (21.0 - temperature) if day else 0.008 * (18.0 - temperature)
        temperature += heating + 0.006 * people - 0.06 * air * (temperature - outside)
        moisture += 0.05 * people - 0.35 * air * (moisture - 36.0) - 0.004 * (moisture - 42.0)
        stir = 0.02 + 0.012 * people * rng.unit() * (1.6 if activity == "meeting" else 1.0)
        if rng.unit() < 0.02:  # a lorry passes
            stir += 0.08 * rng.unit()
        # What the sensors make of it.
        values = [
            f"{temperature + normal(0.15):.1f}",
            f"{moisture + normal(0.6):.1f}",
            f"{max(0.0, (daylight + (320.0 if lamp else 0.0)) * (1.0 + normal(0.06))):.0f}",
            f"{max(380.0, co2 + normal(20.0)):.0f}",
            f"{max(0.0, stir * (1.0 + normal(0.35))):.3f}",
            window,
        ]
        for sensor in range(len(values)):
            if silent[sensor]:
                silent[sensor] -= 1
                values[sensor] = ""
            elif rng.unit() < 0.0005:
                silent[sensor] = 10 + rng.below(50)
            elif rng.unit() < 0.01:
                values[sensor] = ""
        log.append([time.isoformat(timespec="minutes"), *values, activity])
        time += timedelta(minutes=1)
    return log


def run(out_dir: str, rows: int, budget: int) -> int:
    """Make up a log, train on it under the budget, and show what came of it."""
    try:
        os.makedirs(out_dir, exist_ok=True)
        log = os.path.join(out_dir, "sample_log.csv")
        with replaced(log) as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(sample_log(rows))
    except OSError as error:
        raise Problem(f"cannot write to {out_dir}: {reason(error)}") from None
    print("A room's sensors, one row a minute. What are the people in it doing?\n")
    with open_source(log) as source:
        data = prepare(whole(source), "activity")
    print_data(data)
    fitted = fit(data, test_share=0.2, seed=0, progress=Progress(), budget=budget)
    print_fitted(fitted)
    model = os.path.join(out_dir, "model.json")
    save(fitted.forest, model)

    held_out = [data.rows[i] for i in fitted.held_out]
    predictions = load_model(model).predict(held_out)
    if predictions != fitted.forest.predict(held_out):
        raise RuntimeError(f"{model} does not predict what the forest did that was saved")
    print("\nThe saved model, loaded again, predicts the same. A few of the held-out rows:\n")
    heads = [*data.names, "predicted", "truth"]
    widths = [2 + max(7, len(head)) for head in heads]
    print(line(heads, widths))
    for place in range(len(held_out) // 16, len(held_out), len(held_out) // 8 or 1):
        truth = data.y[fitted.held_out[place]]
        mark = "" if truth == predictions[place] else "  <- wrong"
        print(line([*held_out[place], predictions[place], truth], widths) + mark)
    print("\nNext:")
    model, log = shlex.quote(model), shlex.quote(log)
    tell(f"  edgeforest inspect {model}")
    tell(f"  edgeforest train {log} --target activity --budget 1M")
    tell(f"  edgeforest predict {model} {log} --target activity --proba")
    return 130 if fitted.interrupted else 0


def line(values: Sequence[Value], widths: Sequence[int]) -> str:
    """Values in columns; a missing one is a dash."""
    texts = []
    for value, width in zip(values, widths, strict=True):
        text = "-" if value is None or value != value else str(value).removesuffix(".0")
        texts.append(f"{text:>{width}}")
    return "".join(texts)
