"""The native engine learns row by row: the Grove of grove.py, in C."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from edgeforest.engines import _kernel
from edgeforest.forest import CRITERIA
from edgeforest.grove import in_order


class NativeGrove:
    """Trees that learn row by row, in C: the same as `Grove` in plain Python."""

    def __init__(self, plan: Any) -> None:
        self.plan = plan
        numbers = (
            *(plan.m, plan.width, plan.n_trees, plan.max_features, plan.n_bins, plan.max_depth),
            *(plan.nodes, plan.races, plan.window, plan.patch, plan.stride, plan.inputs),
            *(plan.seed, plan.stream, plan.scale, plan.fade),
            *(CRITERIA.index(plan.criterion), int(plan.extra)),
        )
        self.seen = 0
        self._grove = _kernel.grove(numbers, plan.rows, plan.least, plan.kinds)

    def learn(self, values: Any, labels: Any, n: int, guesses: Any) -> None:
        _kernel.learn(self._grove, values, labels, 0, n, guesses)
        self.seen += n

    def listed(self, rows: Any, m: int) -> array[float] | None:
        """The numbers of rows in lists, all at once; None if each has to be looked at."""
        found = _kernel.listed(rows, m)
        return None if found is None else array("f", found)

    def places(self, labels: Any, known: dict[Any, int]) -> array[int] | None:
        """The places of labels in a list; None if each has to be looked at."""
        found = _kernel.places(labels, known)
        return None if found is None else array("H", found)

    def named(
        self, guesses: array[int], labels: array[int], classes: list[Any]
    ) -> tuple[list[Any], Sequence[int]]:
        """The classes of guesses, and which are wrong."""
        return _kernel.named(guesses, labels, classes)

    def levels(self, numbers: Any, low: float, per: float, scale: int) -> array[int] | None:
        """The levels of numbers in a list; None if each has to be looked at."""
        found = _kernel.levels(numbers, low, per, scale)
        return None if found is None else array("H", found)

    def valued(
        self, guesses: array[int], labels: array[int], low: float, step: float, level: float
    ) -> tuple[list[float], Sequence[float]]:
        """The numbers of guesses, and how far each is above its label."""
        values, off = _kernel.valued(guesses, labels, low, step, level)
        return values, array("d", off)

    def recall(self, values: Any, labels: Any, n: int) -> None:
        _kernel.learn(self._grove, values, labels, 0, n, None)
        self.seen += min(n, self.plan.window)

    def vote(self, row: Any, out: Any) -> int:
        sums = array("I", bytes(4 * len(out)))
        best = _kernel.vote(self._grove, row, sums)
        out[:] = sums
        return best

    def choice(self) -> int:
        return _kernel.choice(self._grove)

    def tree(self, t: int) -> list[Any]:
        parts = zip("HfHHId", _kernel.sapling(self._grove, t), strict=True)
        return [array(code, part) for code, part in parts]

    def plant(
        self,
        t: int,
        feature: array[int],
        threshold: array[float],
        left: array[int],
        right: array[int],
        votes: array[int],
        gains: Sequence[float],
    ) -> None:
        """Replace a tree by these nodes; two children lie together, after their parent."""
        nodes = feature, threshold, left, right, votes
        _kernel.plant(self._grove, t, *nodes, array("d", gains))

    def renew(self, t: int) -> None:
        _kernel.renew(self._grove, t)

    def latest(self) -> tuple[Any, Any]:
        seen, stored, values, labels = _kernel.latest(self._grove)
        return in_order(self.plan, seen, stored, array("f", values), array("H", labels))
