"""Printing: lines under headings, a status line on a terminal, bars; all of it safe to show."""

import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from edgeforest.forests.walking import depth
from edgeforest.host.names import joined, listed, short, visible
from edgeforest.host.words import count, rounded

WIDTH = 92  # of printed lines
BAR = 24  # characters of the longest bar
NO_BREAK = "\xa0"  # a space at which no line is broken


class StatusLine:
    """One line on stderr that is overwritten again and again, if stderr is a terminal."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self._last = 0.0

    def show(self, text: str) -> None:
        """Replace the line."""
        if self.live:
            sys.stderr.write(f"\r\x1b[K{visible(text)}")
            sys.stderr.flush()

    def step(self, training: Any) -> None:
        """Show how far a training is, ten times a second at most."""
        if self.live and time.monotonic() - self._last > 0.1:
            self._last = time.monotonic()
            spent = f"{training.budget.spent.insertions:,}"
            limit = training.budget.insertions
            of = "" if limit is None else f" of {limit:,}"
            trees = f"{len(training.grown)} of {training.planned}"
            self.show(f"training: {spent}{of} insertions, {trees} trees done (Ctrl-C keeps them)")

    def watch_file(self, name: str) -> Callable[[int, int], None]:
        """A function that shows how much of a file has been read."""

        def show(done: int, of: int) -> None:
            if self.live and time.monotonic() - self._last > 0.1:
                self._last = time.monotonic()
                self.show(f"looking through {name}: {done / max(1, of):.0%}")

        return show

    def clear(self) -> None:
        """Remove the line."""
        self.show("")


class Screen:
    """The standard output for data: a terminal shows every character, and obeys none."""

    def write(self, text: str) -> int:
        """Write text with its control characters as escapes."""
        return sys.stdout.write(visible(text, keep="\n"))

    def flush(self) -> None:
        """Write out what is buffered."""
        sys.stdout.flush()


def screen_or_pipe() -> Any:
    """The standard output for data: exact and UTF-8, except on a terminal."""
    if sys.stdout.isatty():
        return Screen()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")
    return sys.stdout


def tell(line: str, stream: TextIO | None = None) -> None:
    """Print a line that may have names in it which others chose. Data does not go through here."""
    print(visible(line), file=stream)


def say(heading: str, text: str, wrap: bool = True) -> None:
    """Print text under a heading, wrapped if it is long; paths are not wrapped."""
    text = visible(text, keep=NO_BREAK)
    lines = [text]
    if wrap:
        lines = textwrap.wrap(text, WIDTH - 11, break_on_hyphens=False, break_long_words=False)
    for line in lines:
        tell(f"{heading:<11}{line}".replace(NO_BREAK, " "))
        heading = ""


def shares(parts: Iterable[tuple[Any, float]]) -> str:
    """Labels and their shares; no line breaks between the two."""
    return joined([f"{short(label)}{NO_BREAK}({part:.0%})" for label, part in parts], 10)


def bars(names: Sequence[str], importances: Sequence[float], most: int) -> list[tuple[int, str]]:
    """The most important features: the place of each, and a line of text with a bar."""
    order = sorted(range(len(names)), key=lambda f: (-importances[f], f))[:most]
    shown = [short(names[f]) for f in order]
    wide = max(map(len, shown), default=0)
    top = max([importances[f] for f in order], default=0.0) or 1.0
    return [
        (f, f"{name:<{wide}}  {importances[f]:.3f}  {'#' * round(BAR * importances[f] / top)}")
        for f, name in zip(order, shown, strict=True)
    ]


# ---- A forest in words


def spent(forest: Any) -> str:
    """What the training of a forest has cost, and of which budget."""
    insertions = f"{forest.spent.insertions:,}"
    if forest.limit is None:
        insertions += " insertions (no limit)"
    else:
        insertions += f" of {forest.limit:,} insertions"
    return (
        f"{insertions}, {count(forest.spent.rows_read, 'row')} drawn, "
        f"{count(forest.spent.rounds, 'round')}"
    )


def shape(forest: Any) -> str:
    """How large a forest is."""
    nodes = len(forest.feature)
    deep = depth(forest)
    return f"{count(len(forest), 'tree')}, {count(nodes, 'node')}, at most {deep} deep"


def predicts(forest: Any) -> str:
    """What a forest predicts: classes, or numbers in a range."""
    if forest.regression:
        return f"numbers from {rounded(forest.low)} to {rounded(forest.low + forest.span)}"
    return f"{count(len(forest.classes), 'class', 'classes')}: {listed(forest.classes, 20)}"
