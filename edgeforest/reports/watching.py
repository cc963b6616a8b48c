"""Watch a tree grow: which rows each race counts, and which features leave it when.

A training asks its engine for the operations on nodes. Here it gets those of NumPy inside of a
wrapper that notes what is asked and passes it on. So the forest is the same, and a training that
nobody watches has nothing to pay for it.

>>> rows = [[i % 100, i % 7] for i in range(4000)]
>>> watched = watch(rows, [a > 60 for a, b in rows], max_features=2)
>>> [(visit.depth, visit.rows > 2000, visit.counted < 700) for visit in watched.visits]
[(0, True, True)]
>>> [(c.feature, c.won) for c in watched.race.runners()]
[(0, True), (1, False)]
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from edgeforest.core_pure import Engine, Grower, Training
from edgeforest.engines.numpy_nodes import NumpyNodes
from edgeforest.engines.numpy_predictor import NumpyPredictor
from edgeforest.engines.numpy_reader import NumpyReader
from edgeforest.forest import Forest, split_of


@dataclass
class Visit:
    """A node whose split was looked for."""

    depth: int
    rows: int
    counted: int = 0  # of these rows
    insertions: int = 0


@dataclass
class Arm:
    """The best arm of a feature after a round: its gain as a share of the node's impurity."""

    low: float
    gain: float
    high: float


@dataclass
class Runner:
    """A feature in a race."""

    feature: int
    rows: list[int]  # that were counted, after each of its rounds
    arms: list[Arm]
    won: bool


@dataclass
class Race:
    """The race at the root of a tree, round by round."""

    n: int  # rows of the node
    z: float  # half-widths of an interval, in standard errors
    rounds: list[tuple[int, dict[int, Arm]]] = field(default_factory=list)
    counted: int = 0
    winner: int | None = None
    threshold: float | str = 0.0  # of the split; a category if that is what it asks for

    def finalists(self) -> set[int | None]:
        """The features that were still in when the race ended: more than one if no row was left."""
        return set(self.rounds[-1][1]) if self.counted > self.rounds[-1][0] else {self.winner}

    def runners(self) -> list[Runner]:
        """The features, those that stayed longest and gain most first."""
        found = []
        for f in self.rounds[0][1] if self.rounds else ():
            rounds = [(rows, arms[f]) for rows, arms in self.rounds if f in arms]
            rows, arms = [rows for rows, _ in rounds], [arm for _, arm in rounds]
            found.append(Runner(f, rows, arms, f == self.winner))
        return sorted(found, key=lambda r: (not r.won, -len(r.rows), -r.arms[-1].gain))


@dataclass
class Watched:
    """What was seen while one tree grew."""

    forest: Forest
    visits: list[Visit]
    race: Race


class WatchedNodes:
    """The operations on nodes, as `NodeOperations` lists them; notes the calls and passes them on."""

    def __init__(self, task: Training) -> None:
        self.task = task
        self.inner = NumpyNodes(task)
        self.visits: list[Visit] = []
        self.race = Race(0, task.z)
        self._depths: dict[tuple[int, int], int] = {}
        self._start = 0  # of the node in hand
        self._before = 0  # insertions when it was begun

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)  # what is not watched

    def draw(self, rng: Any) -> int:
        """Draw the rows of a tree."""
        n = self.inner.draw(rng)
        self._depths = {(0, n): 0}
        self.race.n = n
        return n

    def _visit(self, start: int, end: int) -> None:
        self.settle()
        self._start = start
        self.visits.append(Visit(self._depths[start, end], end - start))

    def settle(self) -> None:
        """Note what the node in hand has cost."""
        spent = self.task.budget.spent.insertions
        if self.visits:
            self.visits[-1].insertions = spent - self._before
        self._before = spent

    def contenders(self, start: int, end: int, rng: Any) -> tuple[list[Any], int]:
        """All features of a race."""
        self._visit(start, end)
        return self.inner.contenders(start, end, rng)

    def race_small(self, start: int, end: int, rng: Any) -> Generator[Any, None, Any]:
        """Find the split of a small node, all of whose rows are counted."""
        self._visit(start, end)
        split = yield from self.inner.race_small(start, end, rng)
        spent = self.task.budget.spent.insertions > self._before
        self.visits[-1].counted = end - start if spent else 0
        return split

    def count(self, racing: list[Any], stride: int, start: int, end: int) -> tuple[int, int]:
        """Count rows into the histograms."""
        at, squares = self.inner.count(racing, stride, start, end)
        self.visits[-1].counted = at - self._start
        return at, squares

    def measure(
        self, criterion: Any, racing: list[Any], stride: int, total: list[int], rest: float
    ) -> None:
        """Note the gain of every racing feature's best arm, and its interval."""
        self.inner.measure(criterion, racing, stride, total, rest)
        visit, impurity = self.visits[-1], criterion.impurity(total)
        if visit.depth == 0 and impurity > 0:
            arms = {c.feature: _arm(c.interval, self.task.z, impurity) for c in racing}
            self.race.rounds.append((visit.counted, arms))

    def partition(self, start: int, end: int, word: int, code: int) -> int:
        """Part the rows of a node."""
        middle = self.inner.partition(start, end, word, code)
        depth = self._depths[start, end] + 1
        self._depths[start, middle] = self._depths[middle, end] = depth
        return middle


def _arm(interval: Any, z: float, impurity: float) -> Arm:
    """The interval of a gain, which is kept as one of its root."""
    around = z * interval.error**0.5

    def gain(root: float) -> float:
        return float(min(1.0, max(0.0, max(0.0, root) ** 2 - interval.shift) / impurity))

    return Arm(gain(interval.root - around), gain(interval.root), gain(interval.root + around))


def watch(
    X: Any, y: Any, watched: Callable[[Training], WatchedNodes] = WatchedNodes, **options: Any
) -> Watched:
    """Grow the first tree of a forest once more, and watch; options as for `Training`.

    `watched` makes what notes the calls: a class of yours may note more.
    """
    made: list[WatchedNodes] = []

    def make_nodes(task: Training) -> Any:
        made.append(watched(task))
        return made[0]

    engine = Engine("numpy", NumpyReader, lambda task: Grower(task, make_nodes), NumpyPredictor)
    training = Training(X, y, engine=engine, **options)
    for step in training:
        if len(step.grown):
            break
    forest = training.forest()
    nodes = made[0]
    nodes.settle()
    race = nodes.race
    race.counted = nodes.visits[0].counted if nodes.visits else 0
    split = split_of(forest.feature[0])
    if split is not None:
        race.winner, categorical, _ = split
        race.threshold = forest.threshold[0]
        if categorical:
            race.threshold = str((forest.categories[race.winner] or [])[int(race.threshold) - 1])
    return Watched(forest, nodes.visits, race)
