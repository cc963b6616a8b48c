"""Printing: lines under headings, a status line on a terminal, bars; all of it safe to show."""

import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from edgeforest.forests.walking import depth
from edgeforest.host.names import joined, listed, short, visible
from edgeforest.host.progress import state_of
from edgeforest.host.words import count, duration, rounded

WIDTH = 92  # of printed lines
BAR = 24  # characters of the longest bar
GAUGE = 10  # of one that shows how much is done
NO_BREAK = "\xa0"  # a space at which no line is broken


class StatusLine:
    """One line on stderr that is overwritten again and again, if stderr is a terminal.

    Elsewhere a line follows the other, one in ten seconds at most.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.live = sys.stderr.isatty() and not quiet
        self.quiet = quiet
        self._last = 0.0 if self.live else time.monotonic()

    def show(self, text: str) -> None:
        """Replace the line; nothing where lines stay."""
        if self.live:
            wide = shutil.get_terminal_size().columns - 1  # a second line would stay
            sys.stderr.write(f"\r\x1b[K{visible(text)[:wide]}")
            sys.stderr.flush()

    def step(self, training: Any, work: Any = None) -> None:
        """Show how far a training is, and which part of an estimate it belongs to."""
        if self._due():
            state = state_of(training)
            limit = state.budget.insertions
            of = "" if limit is None else f" of {limit:,}"
            what = "training"
            if hasattr(work, "blocks"):
                what = f"scoring {work.at + 1} of {len(work.blocks)}"
            left = state.seconds_left
            wait = "" if left is None else f", about {duration(left)} left"
            keeps = " (Ctrl-C keeps them)" if self.live else ""
            done = f"{state.trees} of {state.n_trees} trees{wait}{keeps}"
            full = gauge(state.trees / max(1, state.n_trees))
            self._put(f"{full} {what}: {state.spent.insertions:,}{of} insertions, {done}")

    def watch_file(self, name: str) -> Callable[[int, int], None]:
        """A function that shows how much of a file has been read."""
        return self.watch_rows("looking through", name)

    def watch_rows(self, what: str, name: str) -> Callable[[int, int], None]:
        """A function that shows how much of something is done."""

        def show(done: int, of: int) -> None:
            if self._due():
                part = min(1.0, done / max(1, of))
                self._put(f"{gauge(part)} {what} {name}: {part:.0%}")

        return show

    def clear(self) -> None:
        """Remove the line."""
        self.show("")

    def _due(self) -> bool:
        """Whether it is time for another look: ten times a second, or once in ten seconds."""
        if self.quiet or time.monotonic() - self._last <= (0.1 if self.live else 10):
            return False
        self._last = time.monotonic()
        return True

    def _put(self, text: str) -> None:
        if self.live:
            self.show(text)
        else:
            tell(text, sys.stderr)


def gauge(part: float) -> str:
    """A bar that is filled to a part."""
    full = round(GAUGE * part)
    return f"[{'#' * full}{'.' * (GAUGE - full)}]"


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


def joined_parts(texts: Sequence[str]) -> str:
    """Texts with semicolons between them, none of them broken; ten at most."""
    more = f"; and {len(texts) - 10:,} more" if len(texts) > 10 else ""
    return "; ".join(text.replace(" ", NO_BREAK) for text in texts[:10]) + more


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


def facts(forest: Any) -> dict[str, Any]:
    """The same as plain values, for JSON."""
    cost = forest.spent
    return {
        "trees": len(forest),
        "nodes": len(forest.feature),
        "depth": depth(forest),
        "budget": forest.limit,
        "spent": {"insertions": cost.insertions, "rows": cost.rows_read, "rounds": cost.rounds},
        "seconds": cost.seconds,
        "classes": forest.classes,
        "importances": dict(zip(forest.names, forest.feature_importances, strict=True)),
    }
