"""Forests of 10, 100 and 1,000 devices joined by a tree of aggregators; and what noise on votes costs.

    python -m benchmarks.fleet [--quick] [--devices 10 100 1000] [--seeds 2]

A device has 300 rows of three or four of eight classes, one of them in most of its rows. 20 % of the
devices are silent. 5 % are hostile: they send garbage, a forest of shuffled labels, or one that
always says the same, and claim a billion rows. An aggregator takes the models of at most 32 devices
or aggregators, and passes on one of at most 64,000 bytes. `server rows` says whether each aggregator
has 240 rows of its own. `a device` is the mean of the honest devices by themselves. CPU seconds and
peak memory are those of the largest single join; bytes are what one device sends, and what arrives
at the top. The last lines are arithmetic, not measured: the same tree for a million devices.

The second table joins 20 honest devices: votes with fewer levels, leaves of more rows, and Laplace
noise on the votes of each leaf, with its price in accuracy. The third asks whether a second round is
worth it, on the four machines of examples/fleet.
"""

import argparse
import importlib
import math
import random
import sys
import time
import tracemalloc
from collections.abc import Sequence

import numpy as np

from benchmarks import ROOT, command
from benchmarks.common import about, mean_and_error
from edgeforest import Forest, train
from edgeforest.export import shrink
from edgeforest.fleet import Joint, Sent, join

CLASSES, FEATURES, ROWS = 8, 10, 300
FAN_IN, MAX_BYTES = 32, 64_000
TREES, DEPTH = 5, 6
Rows = tuple[np.ndarray, np.ndarray]


class World:
    """Classes that each come in three ways, and devices that see few of them."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.centres = self.rng.normal(0, 1, (CLASSES, 3, FEATURES))

    def rows(self, labels: np.ndarray) -> Rows:
        """Rows of these classes."""
        ways = self.rng.integers(3, size=len(labels))
        noise = self.rng.normal(0, 0.6, (len(labels), FEATURES))
        return (self.centres[labels, ways] + noise).astype(np.float32), labels

    def device(self) -> Rows:
        """The rows of one device."""
        known = self.rng.choice(CLASSES, self.rng.integers(3, 5), replace=False)
        share = np.array([0.6, *[0.4 / (len(known) - 1)] * (len(known) - 1)])
        return self.rows(self.rng.choice(known, ROWS, p=share))

    def even(self, n: int) -> Rows:
        """Rows of all classes alike."""
        return self.rows(np.arange(n) % CLASSES)


def model_of(X: np.ndarray, y: np.ndarray, seed: int, **options: int) -> Forest:
    return train(X, y, n_trees=TREES, max_depth=DEPTH, seed=seed, **options)


def accuracy(forest: Forest | None, rows: Rows) -> float:
    return 0.0 if forest is None else float(np.mean(np.array(forest.predict(rows[0])) == rows[1]))


def hostile(world: World, k: int) -> bytes:
    """What a device sends that means harm."""
    X, y = world.even(ROWS)
    if k % 3 == 0:
        return random.Random(k).randbytes(6000)
    if k % 3 == 1:
        return model_of(X, world.rng.permutation(y), k).to_json().encode()
    forest = model_of(X, y, k)
    for place in range(0, len(forest.votes), CLASSES):
        forest.votes[place : place + CLASSES] = type(forest.votes)(
            "H", [forest.scale if c == k % CLASSES else 0 for c in range(CLASSES)]
        )
    return forest.to_json().encode()


class Tree:
    """Aggregators above aggregators, each of which trusts nobody below it."""

    def __init__(self, server: Rows | None) -> None:
        self.server = server
        self.seconds = 0.0
        self.peak = self.joins = self.rejected = self.arrived = 0

    def one(self, sent: Sequence[Sent], measure: bool) -> Joint:
        rows = self.server or (None, None)
        if measure:
            tracemalloc.start()
        before = time.process_time()
        joint = join(sent, *rows, classes=range(CLASSES), max_bytes=MAX_BYTES)
        if measure:
            self.peak = max(self.peak, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        else:
            self.seconds = max(self.seconds, time.process_time() - before)
        self.joins += 1
        self.rejected += len(joint.rejected)
        return joint

    def join(self, sent: list[Sent]) -> Forest | None:
        """The forest at the top."""
        level = 0
        while True:
            groups = [sent[k : k + FAN_IN] for k in range(0, len(sent), FAN_IN)]
            joints = []
            for k, group in enumerate(groups):
                joints.append(self.one(group, False))
                if k == 0:  # once more, since watching memory takes time
                    self.one(group, True)
                    self.joins -= 1
                    self.rejected -= len(joints[0].rejected)
            self.arrived = sum(len(one.model) for one in groups[0])
            if len(joints) == 1:
                return joints[0].forest
            level += 1
            sent = [
                Sent(f"level {level}, {k}", j.forest.to_json().encode(), ROWS * len(j.accepted))
                for k, j in enumerate(joints)
                if j.forest is not None
            ]


def fleet(n: int, seed: int, with_rows: bool) -> dict[str, float]:
    """One fleet of n devices: what it cost, and how good the joint forest is."""
    world = World(seed)
    test = world.even(4000)
    sent, alone, everything = [], [], []
    for k in range(n):
        X, y = world.device()
        luck = world.rng.random()
        if luck < 0.05 or (n <= 10 and k == 0):
            sent.append(Sent(f"d{k}", hostile(world, k), 10**9))
        elif luck < 0.25:
            continue
        else:
            forest = model_of(X, y, k)
            sent.append(Sent(f"d{k}", forest.to_json().encode(), ROWS))
            if len(alone) < 100:
                alone.append(accuracy(forest, test))
            everything.append((X, y))
    tree = Tree(world.even(240) if with_rows else None)
    joint = tree.join(sent)
    X, y = (np.concatenate(parts) for parts in zip(*everything, strict=True))
    together = train(X, y, n_trees=100, max_depth=DEPTH + 2, seed=seed)
    return {
        "joint": accuracy(joint, test),
        "a device": float(np.mean(alone)),
        "all rows": accuracy(together, test),
        "rejected": tree.rejected,
        "of": len(sent),
        "kB sent": float(np.mean([len(one.model) for one in sent])) / 1000,
        "kB of data": ROWS * (FEATURES * 4 + 1) / 1000,
        "kB at the top": tree.arrived / 1000,
        "CPU s": tree.seconds,
        "MB": tree.peak / 1e6,
        "joins": tree.joins,
    }


def noisy(forest: Forest, scale: float, rng: np.random.Generator) -> Forest:
    """The forest with Laplace noise on each vote, as a share of a leaf's votes."""
    votes = np.array(forest.votes, float) + rng.laplace(0, scale * forest.scale, len(forest.votes))
    votes = np.maximum(votes, 0).reshape(-1, forest.n_votes)
    total = np.maximum(votes.sum(axis=1, keepdims=True), 1e-9)
    shares = np.floor(votes / total * forest.scale).astype(int)
    forest.votes[:] = type(forest.votes)("H", shares.ravel().tolist())
    return forest


def privacy(seeds: range) -> None:
    """Print what fewer levels, larger leaves and noise cost."""
    print(f"\n| 20 devices, {TREES} trees each | accuracy | kB sent |\n|---|---|---|")
    cases: list[tuple[str, dict[str, int], int | None, float]] = [
        ("as they are", {}, None, 0.0),
        ("levels=15", {}, 15, 0.0),
        ("levels=3", {}, 3, 0.0),
        ("levels=1: the winner alone", {}, 1, 0.0),
        ("min_samples_leaf=5", {"min_samples_leaf": 5}, None, 0.0),
        ("min_samples_leaf=20", {"min_samples_leaf": 20}, None, 0.0),
        ("noise 0.1 of a leaf's votes", {}, None, 0.1),
        ("noise 0.3", {}, None, 0.3),
        ("noise 1.0", {}, None, 1.0),
        ("min_samples_leaf=20, noise 0.3", {"min_samples_leaf": 20}, None, 0.3),
    ]
    for name, options, levels, noise in cases:
        scores, sizes = [], []
        for seed in seeds:
            world = World(seed)
            test, sent = world.even(4000), []
            for k in range(20):
                forest = model_of(*world.device(), k, **options)
                if levels is not None:
                    forest, _ = shrink(forest, levels=levels)
                if noise:
                    forest = noisy(forest, noise, world.rng)
                sent.append(Sent(f"d{k}", forest.to_json().encode(), ROWS))
            sizes.append(np.mean([len(one.model) for one in sent]) / 1000)
            scores.append(accuracy(join(sent, classes=range(CLASSES)).forest, test))
        mean, error = mean_and_error(scores)
        print(f"| {name} | {mean:.3f} ± {error:.3f} | {np.mean(sizes):.1f} |", flush=True)


def second_round(seeds: range) -> None:
    """Print whether trees for rows that the joint forest gets wrong are worth a second round."""
    sys.path.insert(0, str(ROOT / "examples" / "fleet"))
    devices = importlib.import_module("devices")
    names = ("pump", "fan", "saw", "press")
    parts = {n: ([r[:-1] for r in rows], [r[-1] for r in rows])
             for n in (*names, "test") for rows in [devices.rows_of(n)]}  # fmt: skip

    def sent(name: str, seed: int, weights: list[int] | None = None) -> Sent:
        X, y = parts[name]
        grown = train(X, y, n_trees=20, max_depth=8, seed=seed, sample_weight=weights)
        return Sent(f"{name} {seed}", grown.to_json().encode(), len(X))

    def right(forest: Forest | None) -> float:
        X, y = parts["test"]
        found = forest.predict(X) if forest else [None] * len(y)
        return float(np.mean([a == b for a, b in zip(found, y, strict=True)]))

    weights = (1, 2, 4, 8)
    titles = [f"wrong rows count {w} times" for w in weights]
    print(f"\n| one round | two, {' | two, '.join(titles)} |\n|{'---|' * (len(weights) + 1)}")
    scores: list[list[float]] = []
    for seed in seeds:
        first = [sent(name, seed) for name in names]
        joint = join(first).forest
        assert joint is not None
        scores.append([right(joint)])
        for weight in weights:
            more = []
            for name in names:
                X, y = parts[name]
                wrong = [weight if a != b else 1 for a, b in zip(joint.predict(X), y, strict=True)]
                more.append(sent(name, seed + 100, wrong))
            scores[-1].append(right(join([*first, *more]).forest))
    cells = [f"{m:.3f} ± {e:.3f}" for m, e in map(mean_and_error, zip(*scores, strict=True))]
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="10 and 100 devices, one seed")
    parser.add_argument("--devices", type=int, nargs="+", help="fleets of these sizes alone")
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    seeds = range(1 if args.quick else args.seeds)
    print(f"{command()}\n{about()}\n")
    columns: list[str] = []
    for n in args.devices or ((10, 100) if args.quick else (10, 100, 1000)):
        for with_rows in (True, False):
            found = [fleet(n, seed, with_rows) for seed in seeds]
            if not columns:
                columns = list(found[0])
                print(f"| devices | server rows | {' | '.join(columns)} |")
                print(f"|{'---|' * (len(columns) + 2)}")
            means = {name: float(np.mean([one[name] for one in found])) for name in columns}
            cells = [f"{v:.3f}" if v < 10 else f"{v:,.0f}" for v in means.values()]
            print(f"| {n:,} | {'yes' if with_rows else 'no'} | {' | '.join(cells)} |", flush=True)
    million = 750_000  # models that arrive of a million devices
    levels = math.ceil(math.log(million, FAN_IN))
    joins = sum(math.ceil(million / FAN_IN**k) for k in range(1, levels + 1))
    per, size = means["CPU s"], means["kB sent"]
    print(
        f"\nOn paper, not measured: a million devices, 20 % silent, are {levels} levels and {joins:,} "
        f"joins; at {per:.1f} CPU s each that is {joins * per / 3600:,.1f} CPU hours, all but "
        f"{levels * per:.0f} s of it in parallel. Devices send {million * size / 1e6:,.1f} GB; no "
        f"aggregator sees more than {FAN_IN * max(size, MAX_BYTES / 1000) / 1000:.1f} MB."
    )
    if not args.devices:
        privacy(seeds)
        second_round(range(len(seeds) + 1))


if __name__ == "__main__":
    main()
