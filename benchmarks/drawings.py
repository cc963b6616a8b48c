"""Drawings of the reports as files for docs/: with a title, a legend and notes, readable in light and dark.

A page shows such a file as a picture, so it brings its own style and a ground of its own. It is 376 units
wide, the width of a phone.

>>> from edgeforest.reports.svg import Drawing
>>> text = framed(Drawing("an empty one", high=100), "A title", ["a note"], [(0, "blue")])
>>> text.startswith("<svg xmlns") and "prefers-color-scheme:dark" in text
True
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from edgeforest.reports.svg import STYLE, WIDE, Drawing, safe, width_of

PAD = 8
LINE = 15  # units from one line of text to the next


def style() -> str:
    """What the style of a report says about drawings, for one that stands alone."""
    colours = STYLE[: STYLE.index(".edgeforest svg{")].replace("\n", "")
    rules = re.findall(r"\.edgeforest svg (\S[^{}]*\{[^{}]*\})", STYLE)
    return colours + "".join(f".edgeforest {rule}" for rule in rules)


def wrapped(text: str, room: float) -> list[str]:
    """A text in lines that are at most so many units wide.

    >>> wrapped("one two three", 60)
    ['one two', 'three']
    """
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width_of(longer) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def framed(
    drawing: Drawing,
    title: str,
    notes: Sequence[str] = (),
    legend: Sequence[tuple[int, str]] = (),
) -> str:
    """The text of an SVG file: a card with a title, the drawing, what its colours mean, and notes."""
    wide = WIDE + 2 * PAD
    parts = []
    y = 22.0
    for line in wrapped(title, 0.86 * WIDE):
        parts.append(f'<text x="{PAD + 4}" y="{y:.0f}" class="title">{safe(line, 90)}</text>')
        y += 18
    y -= 6
    parts.append(f'<g transform="translate({PAD},{y:.0f})">{"".join(drawing.parts)}</g>')
    y += drawing.high + 14
    x: float = PAD + 4
    for k, name in legend:
        room = 24 + width_of(name)
        if x + room > wide - PAD and x > PAD + 4:
            x, y = PAD + 4, y + LINE + 2
        parts.append(f'<circle class="f{k}" cx="{x + 5:.0f}" cy="{y - 4:.0f}" r="4.5"/>')
        parts.append(f'<text x="{x + 14:.0f}" y="{y:.0f}">{safe(name)}</text>')
        x += room
    y += 4 if legend else -LINE
    for note in notes:
        for line in wrapped(note, 1.04 * WIDE):
            y += LINE
            parts.append(f'<text x="{PAD + 4}" y="{y:.0f}" class="small">{safe(line, 90)}</text>')
    high = y + 12
    size = f'viewBox="0 0 {wide} {high:.0f}" width="{1.3 * wide:.0f}"'
    told = f"{title}: {drawing.title}"
    card = f'<rect x=".5" y=".5" width="{wide - 1}" height="{high - 1:.0f}" rx="6" class="card"/>'
    own = ".edgeforest .title{font-size:14px;font-weight:600}"
    own += ".edgeforest .card{fill:var(--card);stroke:var(--line)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="edgeforest" {size} role="img">\n'
        f"<title>{safe(told, 300)}</title><style>{style()}{own}</style>\n"
        + "\n".join([card, *parts])
        + "\n</svg>\n"
    )
