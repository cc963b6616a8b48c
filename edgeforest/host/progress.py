"""Show how a training goes on: to a callback, in a bar of tqdm's on a terminal, or in lines."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgeforest.core_pure import Budget, Spent


@dataclass(frozen=True)
class Progress:
    """How far a training is: a callback gets one after every step.

    >>> from edgeforest import RandomForestClassifier
    >>> def stop(progress):
    ...     return progress.trees >= 3         # True ends the training
    >>> X, y = [[i % 7] for i in range(60)], [i % 7 > 3 for i in range(60)]
    >>> len(RandomForestClassifier(50, callback=stop).fit(X, y).estimators_)
    3
    """

    trees: int  # that are done
    n_trees: int  # that are planned: the budget may leave room for fewer than were asked for
    spent: Spent
    budget: Budget
    seconds_left: float | None  # at the pace so far; None before the first tree is done
    score: float | None  # out of bag, where `tol` is given


class Watch:
    """Looks at a training after every step."""

    def __init__(
        self, training: Any, verbose: int, callback: Callable[[Progress], object] | None
    ) -> None:
        self._training = training
        self._callback = callback
        self._bar: Any = None
        self._lines = False
        self._said = 0
        if verbose:
            self._lines = True
            if (
                sys.stderr is not None and sys.stderr.isatty()
            ):  # a file would keep every state of a bar
                with suppress(ImportError):
                    from tqdm import tqdm  # type: ignore[import-untyped]

                    self._bar = tqdm(total=training.planned, unit="tree")
                    self._lines = False

    def step(self, score: float | None = None) -> bool:
        """Tell how it goes; whether the callback says to stop."""
        if self._bar is None and self._callback is None and not self._lines:
            return False
        state = self._state(score)
        done = self._bar.n if self._bar is not None else self._said
        if self._bar is not None:
            self._bar.set_postfix_str(insertions(state), refresh=False)
            self._bar.update(state.trees - done)
        elif self._lines and (state.trees - done) * 10 >= state.n_trees:
            self._said = state.trees
            left = state.seconds_left
            wait = "" if left is None else f", about {left:.0f} s left"
            print(
                f"{state.trees} of {state.n_trees} trees, {insertions(state)}{wait}",
                file=sys.stderr,
            )
        return self._callback is not None and self._callback(state) is True

    def _state(self, score: float | None) -> Progress:
        training = self._training
        trees, budget = len(training.grown.roots), training.budget
        left = None
        if trees:
            left = budget.spent.seconds / trees * (training.planned - trees)
        if budget.seconds is not None:
            rest = max(0.0, budget.seconds - budget.spent.seconds)
            left = rest if left is None else min(left, rest)
        return Progress(trees, training.planned, budget.spent, budget, left, score)

    def close(self) -> None:
        """Leave the last state to be seen."""
        if self._bar is not None:
            self.step()
            self._bar.close()


def insertions(state: Progress) -> str:
    """What was spent, in words.

    >>> from edgeforest import Budget, Spent
    >>> insertions(Progress(3, 10, Spent(insertions=1234567), Budget(5_000_000), None, None))
    '1.23M of 5M insertions'
    """
    limit = state.budget.insertions
    of = "" if limit is None else f" of {_short(limit)}"
    return f"{_short(state.spent.insertions)}{of} insertions"


def _short(n: int) -> str:
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if n >= size:
            return f"{n / size:.3g}{letter}"
    return str(n)
