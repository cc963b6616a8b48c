"""Learning row by row beside river, in one run: rows a second and what was predicted right.

    python -m benchmarks.online [--rows 20000] [--seed 11] [--occupancy FOLDER] [--only NAME ...] [--late]

It needs `pip install numpy river`. Each row is predicted and then learned, by all learners, on
generated streams whose rule stays or changes, and on the occupancy log of UCI (its three .txt files
in FOLDER, put in the order of time). All learners have their defaults; river's ARF has 10 models,
an OnlineForest 16 trees. Ours is measured twice: given 100 rows at once, as a buffer gives them,
and given row by row; the rows are lists, river's are dicts, made before.

The learners take turns on blocks of a thousand rows of the same stream, so that what else the
machine does hits all of them. A rate is the median of the blocks, in process time; a ratio is the
median of what it was in each block. Accuracy is of all rows as they were predicted before they were
learned. `no change` says what was last seen, again.

Minutes of a day are like the minutes before, which flatters such a figure. The last table is of
forests that are left alone: they learn a week of a simulated office (three of them, see
examples/raspberrypi/live_occupancy.py), and then predict the next one without any label.

With `--late` labels come late: each row is predicted as it comes, and learned when its label
comes, 500 rows later. A column shows the rate if each row is predicted by `forest().predict`.
"""

import argparse
import csv
import gc
import math
import platform
import runpy
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import command
from benchmarks.data import find
from edgeforest import engine, train
from edgeforest.online import OnlineForest

BLOCK = 1000  # rows of a turn
LATE = 500  # rows that a label may come late
WEEK = 7 * 24 * 60  # minutes
BATCH = 100  # rows that ours is given at once
FILES = ("datatest.txt", "datatraining.txt", "datatest2.txt")
OURS = ("100 rows", "1 row")  # given at once
TARGETS = {"Hoeffding tree": 10, "ARF": 50}  # how many times as fast ours should be

Stream = tuple[np.ndarray, np.ndarray]


# ---- Streams ----------------------------------------------------------------------------------


def sea(rng: np.random.Generator, n: int, drift: bool) -> Stream:
    """Three numbers; whether the first two add up to little. One label of ten is wrong."""
    X = rng.uniform(0, 10, (n, 3))
    limit = np.full(n, 8.0)
    if drift:
        for part, value in zip(np.array_split(np.arange(n), 4), (8, 9, 7, 9.5), strict=True):
            limit[part] = value
    return X, noisy(rng, X[:, 0] + X[:, 1] <= limit, 0.1)


def rbf(rng: np.random.Generator, n: int, drift: bool) -> Stream:
    """Fifty balls in ten dimensions, of five classes; other balls from the middle on."""
    parts = [balls(rng, n)] if not drift else [balls(rng, n // 2), balls(rng, n - n // 2)]
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def balls(rng: np.random.Generator, n: int, count: int = 50, m: int = 10) -> Stream:
    centres, classes = rng.random((count, m)), rng.integers(5, size=count)
    sizes, shares = rng.uniform(0.06, 0.36, count), rng.random(count)
    ball = rng.choice(count, n, p=shares / shares.sum())
    way = rng.normal(size=(n, m))
    way /= np.linalg.norm(way, axis=1)[:, None]
    far = sizes[ball] * np.abs(rng.normal(size=n))
    return centres[ball] + way * far[:, None], classes[ball]


def agrawal(rng: np.random.Generator, n: int, drift: bool) -> Stream:
    """People who ask for a loan; the rule for who gets it is another after each third."""
    salary = rng.uniform(20_000, 150_000, n)
    commission = np.where(salary >= 75_000, 0, rng.uniform(10_000, 75_000, n))
    age, level = rng.integers(20, 81, n), rng.integers(5, size=n)
    car, place = rng.integers(1, 21, n), rng.integers(9, size=n)
    house = (9 - place) * 100_000 * rng.uniform(0.5, 1.5, n)
    years, loan = rng.integers(1, 31, n), rng.uniform(0, 500_000, n)

    others = np.where(level < 2, 25_000, 50_000)
    middle = np.where((level > 0) & (level < 4), 50_000, 75_000)
    low = np.where((age < 40) | (age >= 60), others, middle)
    rules = [
        (age < 40) | (age >= 60),
        (low <= salary) & (salary <= low + 50_000),
        (salary + commission) * 2 / 3 - loan / 5 - 20_000 > 0,
    ]
    y = rules[0].astype(int)
    if drift:
        for part, rule in zip(np.array_split(np.arange(n), 3), rules, strict=True):
            y[part] = rule[part]
    for values in (salary, commission, house, loan):  # what is told is not quite what is true
        values += rng.uniform(-0.05, 0.05, n) * np.ptp(values)
    return np.column_stack([salary, commission, age, level, car, place, house, years, loan]), y


def hyperplane(rng: np.random.Generator, n: int, drift: bool) -> Stream:
    """Which side of a plane through ten dimensions a point is on; the plane turns all the time."""
    X, weights = rng.random((n, 10)), rng.uniform(-1, 1, 10)
    turn = np.where(rng.random(10) < 0.5, 1, -1) * (np.arange(10) < 5) * 0.0002
    weights = weights + np.arange(n)[:, None] * turn * drift
    return X, noisy(rng, (X * weights).sum(1) > weights.sum(1) / 2, 0.05)


def noisy(rng: np.random.Generator, y: np.ndarray, share: float) -> np.ndarray:
    return (y ^ (rng.random(len(y)) < share)).astype(int)


def friedman(rng: np.random.Generator, n: int) -> Stream:
    """A number that hangs on five of ten; the features change their parts in the middle."""
    X = rng.random((n, 10))
    Z = X.copy()
    Z[n // 2 :] = X[n // 2 :, ::-1]
    y = 10 * np.sin(math.pi * Z[:, 0] * Z[:, 1]) + 20 * (Z[:, 2] - 0.5) ** 2
    return X, y + 10 * Z[:, 3] + 5 * Z[:, 4] + rng.normal(size=n)


def occupancy(folder: Path) -> Stream:
    """The log of an office, a row a minute: temperature, humidity, light, CO2; is somebody there?"""
    rows = []
    for name in FILES:
        with open(folder / name, newline="") as stream:
            lines = csv.reader(stream)
            next(lines)  # in the published files a row has a number that the header has no name for
            rows.extend(line[-7:] for line in lines)
    rows.sort(key=lambda row: row[0])
    return np.array([row[1:-1] for row in rows], float), np.array([int(row[-1]) for row in rows])


MADE = {"SEA": sea, "RBF": rbf, "Agrawal": agrawal, "hyperplane": hyperplane}


def streams(args: argparse.Namespace) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The streams of classes that were asked for."""
    for k, (name, make) in enumerate(MADE.items()):
        for drift in (False, True):
            if wanted(args, name):
                rng = np.random.default_rng([args.seed, k, drift])
                yield f"{name}, drift" if drift else name, *make(rng, args.rows, drift)
    if wanted(args, "occupancy"):
        folder = Path(args.occupancy) if args.occupancy else find("occupancy")
        if folder and all((folder / name).exists() for name in FILES):
            yield "occupancy", *occupancy(folder)
        else:
            where = folder or "../shared/data/occupancy"
            print(f"occupancy is left out: {where} does not have {', '.join(FILES)}")


def wanted(args: argparse.Namespace, name: str) -> bool:
    return not args.only or name in args.only


# ---- Learners ---------------------------------------------------------------------------------


def ours(size: int, args: argparse.Namespace, **options: Any) -> Callable:
    """An OnlineForest that is given so many rows at once."""
    learner = OnlineForest(engine=args.engine, seed=args.seed, **options)

    def turn(rows: list, labels: list) -> list:
        if size == 1:
            return [learner.update(row, label) for row, label in zip(rows, labels, strict=True)]
        said = []
        for at in range(0, len(rows), size):
            said += learner.update_batch(rows[at : at + size], labels[at : at + size])
        return said

    return turn


def theirs(model: Any) -> Callable:
    """A model of river."""

    def turn(rows: list, labels: list) -> list:
        said = []
        for row, label in zip(rows, labels, strict=True):
            said.append(model.predict_one(row))
            model.learn_one(row, label)
        return said

    return turn


def learners(args: argparse.Namespace, regression: bool) -> dict[str, Callable]:
    from river import forest, tree

    if regression:
        peers = {
            "Hoeffding tree": tree.HoeffdingTreeRegressor(),
            "ARF": forest.ARFRegressor(n_models=10, seed=args.seed),
        }
    else:
        peers = {
            "Hoeffding tree": tree.HoeffdingTreeClassifier(),
            "ARF": forest.ARFClassifier(n_models=10, seed=args.seed),
        }
    options = {"criterion": "mse"} if regression else {}
    found = {way: ours(size, args, **options) for way, size in zip(OURS, (BATCH, 1), strict=True)}
    return found | {name: theirs(model) for name, model in peers.items()}


# ---- Measuring --------------------------------------------------------------------------------


def race(models: dict[str, Callable], X: np.ndarray, y: np.ndarray) -> tuple[dict, dict]:
    """What each of them said, and its rows a second in each block."""
    rows, labels = X.tolist(), y.tolist()
    named = [dict(enumerate(row)) for row in rows]
    said: dict[str, list] = {name: [] for name in models}
    rates: dict[str, list[float]] = {name: [] for name in models}
    for at in range(0, len(rows), BLOCK):
        for name, turn in models.items():
            part = (named if name in TARGETS else rows)[at : at + BLOCK]
            truth = labels[at : at + BLOCK]
            gc.collect()
            gc.disable()  # one learner's garbage must not be another's time
            began = time.process_time()
            said[name] += turn(part, truth)
            spent = time.process_time() - began
            gc.enable()
            if len(part) == BLOCK or not rates[name]:
                rates[name].append(len(part) / max(spent, 1e-9))
    return said, rates


def ratio(rates: dict, way: str, peer: str) -> float:
    return statistics.median(a / b for a, b in zip(rates[way], rates[peer], strict=True))


def show(name: str, rates: dict, scores: list[str]) -> None:
    cells = [f"{statistics.median(values):,.0f}" for values in rates.values()]
    cells += [" / ".join(f"{ratio(rates, way, peer):.0f}" for way in OURS) for peer in TARGETS]
    print("| " + " | ".join([name, *cells, *scores]) + " |", flush=True)


def heading(score: str) -> None:
    titles = ["", "100 rows", "1 row", "Hoeffding tree", "ARF", "x Hoeffding tree", "x ARF"]
    titles += [f"{score}: 100 rows", "1 row", "Hoeffding tree", "ARF", "no change"]
    print("\n| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))


def slower(name: str, rates: dict) -> Iterator[str]:
    """Where ours is not as many times as fast as it should be."""
    for peer, least in TARGETS.items():
        times = [ratio(rates, way, peer) for way in OURS]
        if min(times) < least:
            yield (
                f"{name}: {times[0]:.1f} times as fast as {peer} given 100 rows, {times[1]:.1f} "
                f"row by row; the goal is {least}"
            )


def worse(name: str, wrong: dict[str, np.ndarray], unit: str, scale: float) -> Iterator[str]:
    """Where a peer was less wrong than ours; `wrong` has a number for every row."""
    for peer in (*TARGETS, "no change"):
        more = [scale * (wrong[way] - wrong[peer]) for way in OURS]
        means = [values.mean() for values in more]
        errors = [values.std() / math.sqrt(len(values)) for values in more]
        if max(means) > 0:
            chance = all(mean < 2 * error for mean, error in zip(means, errors, strict=True))
            yield (
                f"{name}: {peer} is better by {means[0]:.2f} (± {errors[0]:.2f}) {unit} than ours "
                f"given 100 rows, {means[1]:.2f} (± {errors[1]:.2f}) row by row"
                + (", which may be chance" if chance else "")
            )


def classify(args: argparse.Namespace) -> list[str]:
    """The table of the streams of classes; returns where ours falls short."""
    lost: list[str] = []
    for number, (name, X, y) in enumerate(streams(args)):
        if not number:
            heading("accuracy")
        said, rates = race(learners(args, False), X, y)
        said["no change"] = [None, *y[:-1].tolist()]
        wrong = {who: (np.array(values) != y).astype(float) for who, values in said.items()}
        scores = [f"{1 - values.mean():.4f}" for values in wrong.values()]
        show(f"{name} ({len(y):,})", rates, scores)
        lost += [*slower(name, rates), *worse(name, wrong, "points", 100)]
    return lost


def regress(args: argparse.Namespace) -> list[str]:
    """The same for numbers."""
    X, y = friedman(np.random.default_rng([args.seed, 99]), args.rows)
    heading("mean absolute error")
    said, rates = race(learners(args, True), X, y)
    said["no change"] = [0.0, *y[:-1].tolist()]
    wrong = {}
    for who, values in said.items():
        wrong[who] = np.abs(np.array([0.0 if v is None else v for v in values]) - y)
    scores = [f"{values.mean():.3f}" for values in wrong.values()]
    show(f"Friedman, drift ({len(y):,})", rates, scores)
    return [*slower("Friedman", rates), *worse("Friedman", wrong, "of error", 1)]


def office() -> None:
    """What is remembered of a week, by the rows that are kept."""
    path = Path(__file__).resolve().parents[1] / "examples" / "raspberrypi" / "live_occupancy.py"
    Simulated = runpy.run_path(str(path))["Simulated"]
    days = []
    for seed in range(3):
        sensor = Simulated(seed, 60)
        rows, labels = [], []
        for _ in range(2 * WEEK):
            rows.append(sensor.read())
            labels.append(int(sensor.people > 0))
        days.append((rows, labels))
    empty = ", ".join(f"{1 - statistics.mean(labels[WEEK:]):.3f}" for _, labels in days)
    print(f"\nNext week of the office, without labels (nobody is there for {empty} of the time)\n")
    print("| rows kept | learned every minute | every other five minutes |\n|---|---|---|")
    for window in (500, 2000, 5000, 10_000):
        cells = [remembered(days, window, gap) for gap in (0, 5)]
        print("| " + " | ".join([f"{window:,}", *cells]) + " |", flush=True)
    print(f"| all, by `train` | {remembered(days, None, 0)} | {remembered(days, None, 5)} |")


def remembered(days: list, window: int | None, gap: int) -> str:
    """How right a forest is in the next week: after five rows, so many are not learned."""
    shares = []
    for rows, labels in days:
        X, y = [], []
        for at in range(0, WEEK, 5 + gap):
            X += rows[at : at + 5]
            y += labels[at : at + 5]
        if window:
            learner = OnlineForest(classes=[0, 1], window=window)
            learner.update_batch(X, y)
            forest = learner.forest()
        else:
            forest = train(X, y)
        said = forest.predict(rows[WEEK:])
        shares.append(np.mean(np.array(said) == labels[WEEK:]))
    return ", ".join(f"{share:.3f}" for share in shares)


# ---- Labels that come late --------------------------------------------------------------------


def predictors(args: argparse.Namespace) -> dict[str, tuple[Callable, Callable]]:
    """How each learner predicts a row, and how it learns one."""
    classes = range(5)  # known beforehand: a learner is asked before it has seen them
    live, copied = (OnlineForest(engine=args.engine, seed=args.seed, classes=classes) for _ in "ab")
    found = {
        "ours": (live.predict, live.update),
        "by forest()": (lambda row: copied.forest().predict(row), copied.update),
    }
    from river import forest, tree

    arf = forest.ARFClassifier(n_models=10, seed=args.seed)
    for name, model in zip(TARGETS, (tree.HoeffdingTreeClassifier(), arf), strict=True):
        found[name] = model.predict_one, model.learn_one
    return found


def wait_for_labels(args: argparse.Namespace, X: np.ndarray, y: np.ndarray, gap: int) -> tuple:
    """What each learner said and its rate, if the label comes `gap` rows after its row."""
    rows, labels = X.tolist(), y.tolist()
    named = [dict(enumerate(row)) for row in rows]
    models = predictors(args)
    said: dict[str, list] = {name: [] for name in models}
    rates: dict[str, list[float]] = {name: [] for name in models}
    for at in range(0, len(rows), BLOCK):
        for name, (predict, learn) in models.items():
            given = named if name in TARGETS else rows
            if name == "by forest()" and (at % (5 * BLOCK) > BLOCK or not gap):
                continue  # it would take hours; the first block has no rate, as labels do not come yet
            gc.collect()
            gc.disable()
            began = time.process_time()
            for i in range(at, min(at + BLOCK, len(rows))):
                said[name].append(predict(given[i]) if i > gap else None)
                if i >= gap:
                    learn(given[i - gap], labels[i - gap])
            spent = time.process_time() - began
            gc.enable()
            if at >= gap:
                rates[name].append(min(BLOCK, len(rows) - at) / max(spent, 1e-9))
    return said, rates


def late(args: argparse.Namespace) -> None:
    """What it costs to predict rows one by one, and that labels come late."""
    peers = ["ours", *TARGETS]
    titles = ["labels come late", "rows a second: ours", "by forest()", *TARGETS]
    titles += [f"accuracy, at once / {LATE} rows late: {peers[0]}", *peers[1:]]
    print("\n| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
    for name, X, y in streams(args):
        at_once, _ = wait_for_labels(args, X, y, 0)
        said, rates = wait_for_labels(args, X, y, LATE)
        cells = [f"{statistics.median(values):,.0f}" for values in rates.values()]
        for who in peers:
            right = [np.array(found[who])[2 * LATE :] == y[2 * LATE :] for found in (at_once, said)]
            cells.append(" / ".join(f"{part.mean():.4f}" for part in right))
        print("| " + " | ".join([f"{name} ({len(y):,})", *cells]) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000, help="of each generated stream")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--engine", choices=["native", "numpy", "pure"])
    parser.add_argument("--occupancy", help="folder with " + ", ".join(FILES))
    names = [*MADE, "occupancy", "Friedman", "office"]
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help=", ".join(names))
    parser.add_argument("--late", action="store_true", help="labels come 500 rows late")
    args = parser.parse_args()
    if args.late and args.rows < 2 * BLOCK:
        parser.error(f"--late needs at least {2 * BLOCK} rows, got --rows {args.rows}")
    try:
        river = version("river")
    except ImportError:
        sys.exit("online.py needs river to compare with: pip install river")
    print(command())
    print(
        f"{platform.machine()}, Python {platform.python_version()}, river {river}, "
        f"engine {args.engine or engine.name}; rows a second, ratios, "
        "and predictions before learning"
    )
    if args.late:
        late(args)
        return
    lost = classify(args)
    if wanted(args, "Friedman"):
        lost += regress(args)
    if lost:
        print("\nWhere ours falls short:")
    for sentence in lost:
        print(f"- {sentence}")
    if wanted(args, "office"):
        office()


if __name__ == "__main__":
    main()
