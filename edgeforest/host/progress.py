"""Report the progress of a training: to a callback, in a bar of tqdm, or in lines."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgeforest.budget import Budget
    from edgeforest.forest import Spent


@dataclass(frozen=True)
class Progress:
    """The state of a training: a callback gets one after every step.

    >>> from edgeforest import RandomForestClassifier
    >>> def stop(progress):
    ...     return progress.trees >= 3         # True ends the training
    >>> X, y = [[i % 7] for i in range(60)], [i % 7 > 3 for i in range(60)]
    >>> len(RandomForestClassifier(50, callback=stop).fit(X, y).estimators_)
    3
    """

    trees: int  # that are complete
    n_trees: int  # that are planned: the budget may not be enough for all that were asked for
    spent: Spent
    budget: Budget
    seconds_left: float | None  # at the speed so far; None before the first tree is complete
    score: float | None  # out of bag, if `tol` is given


class Watch:
    """Reports on a training after every step."""

    def __init__(
        self, training: Any, verbose: int, callback: Callable[[Progress], object] | None
    ) -> None:
        self._training = training
        self._callback = callback
        self._bar: Any = None
        self._lines = False
        self._shown = 0  # trees at the last line
        if verbose:
            self._lines = True
            # A file would keep every state of a bar.
            if sys.stderr is not None and sys.stderr.isatty():
                with suppress(ImportError):
                    from tqdm import tqdm  # type: ignore[import-untyped]

                    self._bar = tqdm(total=training.planned, unit="tree")
                    self._lines = False

    def step(self, score: float | None = None) -> bool:
        """Report the state; returns whether the callback asks to stop."""
        if self._bar is None and self._callback is None and not self._lines:
            return False
        state = state_of(self._training, score)
        done = self._bar.n if self._bar is not None else self._shown
        if self._bar is not None:
            self._bar.set_postfix_str(insertions(state), refresh=False)
            self._bar.update(state.trees - done)
        elif self._lines and (state.trees - done) * 10 >= state.n_trees:
            self._shown = state.trees
            seconds = state.seconds_left
            wait = "" if seconds is None else f", about {seconds:.0f} s left"
            print(
                f"{state.trees} of {state.n_trees} trees, {insertions(state)}{wait}",
                file=sys.stderr,
            )
        return self._callback is not None and self._callback(state) is True

    def close(self) -> None:
        """Show the last state and end the bar."""
        if self._bar is not None:
            self.step()
            self._bar.close()


def state_of(training: Any, score: float | None = None) -> Progress:
    """How far a training is: one of rows in memory, or from a source."""
    trees, budget = len(training.grown.roots), training.budget
    seconds = None
    if trees:
        seconds = budget.spent.seconds / trees * (training.planned - trees)
    if budget.seconds is not None:
        rest = max(0.0, budget.seconds - budget.spent.seconds)
        seconds = rest if seconds is None else min(seconds, rest)
    return Progress(trees, training.planned, budget.spent, budget, seconds, score)


def insertions(state: Progress) -> str:
    """The insertions spent, in words.

    >>> from edgeforest import Budget, Spent
    >>> insertions(Progress(3, 10, Spent(insertions=1234567), Budget(5_000_000), None, None))
    '1.23M of 5M insertions'
    """
    most = state.budget.insertions
    of = "" if most is None else f" of {_short(most)}"
    return f"{_short(state.spent.insertions)}{of} insertions"


def _short(n: int) -> str:
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if n >= size:
            return f"{n / size:.3g}{letter}"
    return str(n)
