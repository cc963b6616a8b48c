"""Learning row by row beside MOA, in one run: what was predicted right, and rows a second.

    python -m benchmarks.online_moa [--rows 20000] [--seeds 1] [--only NAME ...] [--jar moa.jar]
        [--electricity elec.csv] [--covertype covtype.csv] [--occupancy FOLDER]

It needs Java and `pip install numpy jpype1`; MOA's jar is that of `pip install --no-deps capymoa`
unless `--jar` names another. Each row is predicted and then learned, by all learners: ours with its
defaults (16 trees, 100 rows at once), MOA's AdaptiveRandomForest and StreamingRandomPatches with 10
models, LeveragingBag and HoeffdingTree with their defaults, and for numbers SelfOptimisingKNearest-
Leaves and AdaptiveRandomForestRegressor with 10 and FIMTDD. They take turns on blocks of a thousand
rows. A score is the accuracy of all rows; for rare positives F1, for numbers the mean absolute error.
A rate is the median of the blocks, in processor time: of MOA's learners that of the process, with
the threads in which Java compiles and collects; of ours, which has one thread, that of this thread,
or it would pay for what Java still does. MOA's instances are made before.

    python -m benchmarks.online_moa --alone [--rows 40000]

needs no MOA: after one pass our learners are left alone, and predict 5,000 rows beside `train`: the
trees, and in brackets the learner, which may answer with its linear model.
"""

import argparse
import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import command
from benchmarks.data import find
from benchmarks.online import occupancy
from benchmarks.online_streams import MADE, NOMINAL, table
from edgeforest import Budget, train
from edgeforest.online import OnlineForest

BLOCK, BATCH = 1000, 100
CLASSES = {
    "ARF10": ("meta.AdaptiveRandomForest", "-s 10"),
    "SRP10": ("meta.StreamingRandomPatches", "-s 10"),
    "leveraging bagging": ("meta.LeveragingBag", ""),
    "Hoeffding tree": ("trees.HoeffdingTree", ""),
}
NUMBERS = {
    "SOKNL10": ("meta.SelfOptimisingKNearestLeaves", "-s 10"),
    "ARF10": ("meta.AdaptiveRandomForestRegressor", "-s 10"),
    "FIMTDD": ("trees.FIMTDD", ""),
}
CLOSE = 0.005  # half a point


class Moa:
    """MOA in this process."""

    def __init__(self, jar: str) -> None:
        import jpype

        jpype.startJVM("-Xmx2g", "-XX:+UseSerialGC", classpath=[jar])
        self.doubles = jpype.JArray(jpype.JDouble)
        self.java = jpype.JClass

    def instances(self, X: np.ndarray, y: np.ndarray, nominal: Any, numbers: bool) -> Any:
        """The heading of a stream, and its rows."""
        package = "com.yahoo.labs.samoa.instances."
        Attribute = self.java(package + "Attribute")
        attributes = self.java("java.util.ArrayList")()
        for f in range(X.shape[1] + 1):
            values = y if f == X.shape[1] else X[:, f]
            if f in nominal or (f == X.shape[1] and not numbers):
                names = self.java("java.util.ArrayList")()
                for v in range(int(values.max()) + 1):
                    names.add(str(v))
                attributes.add(Attribute(f"x{f}", names))
            else:
                attributes.add(Attribute(f"x{f}"))
        head = self.java(package + "Instances")("stream", attributes, 0)
        head.setClassIndex(X.shape[1])
        head = self.java(package + "InstancesHeader")(head)
        Instance = self.java(package + "DenseInstance")
        rows = []
        for row in np.column_stack([X, y]).astype(float):
            rows.append(Instance(1.0, self.doubles(row)))
            rows[-1].setDataset(head)
        return head, rows

    def learner(self, name: str, options: str, head: Any, numbers: bool) -> Callable:
        model = self.java("moa.classifiers." + name)()
        if options:
            model.getOptions().setViaCLIString(options)
        if model.isRandomizable():
            model.setRandomSeed(1)
        model.prepareForUse()
        model.setModelContext(head)
        model.resetLearning()

        def turn(rows: list, labels: list) -> list:
            said = []
            for row in rows:
                votes = np.array(model.getVotesForInstance(row)[:])
                if numbers:
                    said.append(float(votes[0]) if len(votes) else 0.0)
                else:
                    said.append(int(votes.argmax()) if len(votes) else 0)
                model.trainOnInstance(row)
            return said

        return turn


def ours(X: np.ndarray, y: np.ndarray, nominal: Any, numbers: bool, seed: int) -> Callable:
    classes = None if numbers else [int(v) for v in np.unique(y)]
    kind = {"criterion": "mse"} if numbers else {"classes": classes}
    learner = OnlineForest(X.shape[1], categorical=nominal, seed=seed, **kind)

    def turn(rows: list, labels: list) -> list:
        said = []
        for at in range(0, len(rows), BATCH):
            said += learner.update_batch(rows[at : at + BATCH], labels[at : at + BATCH])
        return [0 if v is None else v for v in said]

    return turn


def race(models: dict[str, Callable], rows: dict[str, list], labels: list) -> tuple[dict, dict]:
    """What each of them said, and its rows a second in each block."""
    said: dict[str, list] = {name: [] for name in models}
    rates: dict[str, list[float]] = {name: [] for name in models}
    for at in range(0, len(labels), BLOCK):
        for name, turn in models.items():
            part = rows["ours" if name == "ours" else "MOA"][at : at + BLOCK]
            clock = time.thread_time if name == "ours" else time.process_time
            gc.collect()
            began = clock()
            said[name] += turn(part, labels[at : at + BLOCK])
            rates[name].append(len(part) / max(clock() - began, 1e-9))
    return said, rates


def score(name: str, said: list, y: np.ndarray) -> float:
    """Higher is better."""
    guess = np.array(said)
    if name in ("Friedman, drift",):
        return -float(np.abs(guess - y).mean())
    if name == "1 % positives":
        return float(2 * ((guess == 1) & (y == 1)).sum() / max(1, (guess == 1).sum() + y.sum()))
    return float((guess == y).mean())


def streams(args: argparse.Namespace) -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    for k, (name, make) in enumerate(MADE.items()):
        for seed in range(1, args.seeds + 1) if wanted(args, name) else ():
            yield name, seed, *make(np.random.default_rng([seed, k]), args.rows)
    for name, path in (("Electricity", args.electricity), ("Covertype", args.covertype)):
        if not path:
            print(f"{name} is left out: name its file with --{name.lower()}")
        elif wanted(args, name):
            X, y = table(Path(path))
            yield name, 1, X[: args.rows], y[: args.rows]
    folder = Path(args.occupancy) if args.occupancy else find("occupancy")
    if folder and wanted(args, "occupancy"):
        yield "occupancy", 1, *occupancy(folder)


def wanted(args: argparse.Namespace, name: str) -> bool:
    return not args.only or name in args.only


def compete(moa: Moa, args: argparse.Namespace) -> list[tuple[str, float, float]]:
    """The table; returns for each stream how far ours is ahead of the best, and times ARF10."""
    found = []
    print("| stream | ours | " + " | ".join(CLASSES) + " | rows a second: ours | x ARF10 |")
    print("|---" * (len(CLASSES) + 4) + "|")
    for name, seed, X, y in streams(args):
        numbers = y.dtype.kind == "f"
        nominal = list(NOMINAL.get(name, ()))
        head, instances = moa.instances(X, y, nominal, numbers)
        peers = NUMBERS if numbers else CLASSES
        models = {"ours": ours(X, y, nominal, numbers, seed)}
        models |= {who: moa.learner(*peers[who], head, numbers) for who in peers}
        rows = {"ours": X.tolist(), "MOA": instances}
        said, rates = race(models, rows, y.tolist())
        scores = {who: score(name, values, y) for who, values in said.items()}
        best = max(scores[who] for who in peers)
        cells = [f"{abs(v):.4f}" for v in scores.values()] + [""] * (len(CLASSES) - len(peers))
        if numbers:
            cells = [
                f"{c} ({who})" if c else "" for c, who in zip(cells, [*scores, ""], strict=True)
            ]
        rate = statistics.median(rates["ours"])
        times = statistics.median(a / b for a, b in zip(rates["ours"], rates["ARF10"], strict=True))
        label = f"{name} ({len(y):,})" if args.seeds == 1 else f"{name}, seed {seed} ({len(y):,})"
        print("| " + " | ".join([label, *cells, f"{rate:,.0f}", f"{times:.0f}"]) + " |", flush=True)
        margin = scores["ours"] - best
        found.append((name, margin / abs(best) if numbers else margin, times))
    return found


def alone(args: argparse.Namespace) -> None:
    """What forests that learned row by row know when no labels come any more."""
    ways: list[dict[str, int]] = [{}, {"window": 5000, "fade": 50}]
    ways.append({"window": 20_000, "fade": 100, "max_leaf_nodes": 2048})
    ways.append({"window": 40_000, "fade": 100, "max_leaf_nodes": 4096, "bytes": 64_000_000})
    for name in ("random tree", "waveform"):
        X, y = MADE[name](np.random.default_rng([args.seeds, 0]), args.rows + 5000)
        rows, labels = X.tolist(), y.tolist()
        n, nominal = args.rows, list(NOMINAL.get(name, ()))
        forest = train(rows[:n], labels[:n], categorical=nominal, n_trees=16)
        right = np.mean(np.array(forest.predict(rows[n:])) == y[n:])
        print(f"{name} ({n:,}): train {right:.4f}", end="", flush=True)
        for options in ways:
            classes = [int(v) for v in np.unique(y)]
            budget = Budget(bytes=options.get("bytes", 16_000_000))
            given = {k: v for k, v in options.items() if k != "bytes"}
            learner = OnlineForest(
                X.shape[1], categorical=nominal, classes=classes, budget=budget, **given
            )
            learner.update_batch(rows[:n], labels[:n])
            said = [
                np.mean(np.array(who.predict(rows[n:])) == y[n:])
                for who in (learner.forest(), learner)
            ]
            print(f"; {options or 'defaults'} {said[0]:.4f} ({said[1]:.4f})", end="", flush=True)
        print()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000, help="of each stream, at most")
    parser.add_argument(
        "--seeds", type=int, default=1, help="of each stream that is made; with --alone, which"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--jar", help="MOA's jar; by default that of capymoa")
    parser.add_argument("--electricity", help="its CSV file, the class last")
    parser.add_argument("--covertype", help="a CSV file of some of its rows, the class last")
    parser.add_argument("--occupancy", help="folder of the log")
    parser.add_argument("--alone", action="store_true", help="beside `train`, without MOA")
    args = parser.parse_args()
    if args.alone:
        alone(args)
        return
    spec = find_spec("capymoa")
    jar = args.jar or (spec and str(Path(spec.origin or "").parent / "jar" / "moa.jar"))
    if not jar or not find_spec("jpype"):
        sys.exit("it needs MOA: pip install --no-deps capymoa && pip install jpype1")
    print(command())
    print(f"{platform.machine()}, Python {platform.python_version()}\n")
    found = compete(Moa(jar), args)
    ahead = sum(margin > 0 for _, margin, _ in found)
    close = sum(margin >= -CLOSE for _, margin, _ in found)
    print(
        f"\nOf {len(found)} streams ours is ahead of the best on {ahead}, and at most half a point"
    )
    print(f"behind it on {close}. At least {min(t for *_, t in found):.0f} times as fast as ARF10.")
    for name, margin, times in found:
        if margin < 0:
            print(f"- {name}: the best is ahead by {-100 * margin:.1f} points")
        if times < 20:
            print(f"- {name}: only {times:.1f} times as fast as ARF10")


if __name__ == "__main__":
    main()
