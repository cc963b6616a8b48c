"""Drawings in SVG: scales, axes and marks, in colours that a page sets for light and dark.

A drawing is 360 units wide, the width of a phone, so that its text is readable there and everywhere.
Every text goes through `safe`: names come from models and logs of others.

>>> drawing = Drawing("a line", high=100)
>>> drawing.x, drawing.y = Scale(0, 10), Scale(0, 1)
>>> drawing.line([(0, 0), (10, 1)])
>>> drawing.svg().startswith('<svg viewBox="0 0 360 100" role="img" aria-label="a line"')
True
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import east_asian_width

from edgeforest.host.names import cut, short

WIDE = 360
LABEL = 108  # units of a name beside a chart, at most
COLOURS = 8  # that a page knows as c0, c1 and so on


def safe(text: object, most: int = 60) -> str:
    """A text for a page: nothing in it is markup or moves other text, and it is not long.

    >>> safe("<b>&'"), safe("x" * 99, most=8)
    ('&lt;b&gt;&amp;&#x27;', 'xxxxx...')
    """
    return html.escape(cut(short(text, 8 * most), most))


def width_of(text: str) -> float:
    """The units that a text takes on a drawing, rather too many than too few.

    >>> width_of("ill") < width_of("abc") < width_of("MWM") < width_of("温度計")
    True
    """
    return sum(map(_width, text))


def _width(letter: str) -> float:
    if east_asian_width(letter) in "WF":
        return 12.5
    if letter in "mwMW@%":
        return 11.0
    return 4.3 if letter in "iljtfrI.,:;|!'()[] -" else 8.6 if letter.isupper() else 7.2


def fitted(text: object, room: float = LABEL) -> str:
    """A text as it is shown, cut so that it takes at most so many units.

    >>> fitted("a long name of a feature", 60), fitted("hour", 60)
    ('a long...', 'hour')
    """
    shown = short(text, 200)
    if width_of(shown) <= room:
        return shown
    while shown and width_of(shown) > room - width_of("..."):
        shown = shown[:-1]
    return f"{shown.rstrip()}..."


def number(value: float, digits: int = 3) -> str:
    """A number for an axis or a table: few digits, and k, M or G for thousands and more.

    >>> number(0.25), number(1500), number(2_000_000), number(-0.0), number(1e-7)
    ('0.25', '1.5k', '2M', '0', '1e-07')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size <= abs(value) < 1e12:
            return f"{value / size:.{digits}g}{unit}"
    return f"{value:.{digits}g}" if value else "0"


def plain(value: float) -> str:
    """A number for the axis of a feature: years and the like stay what they are.

    >>> plain(2016.0), plain(101325.0), plain(0.25), plain(1e9)
    ('2016', '101325', '0.25', '1e+09')
    """
    return f"{value:.6g}" if value else "0"


@dataclass
class Scale:
    """From low to high; `at` says where a value lies, from 0 to 1."""

    low: float
    high: float
    whole: bool = False  # whole numbers only

    def at(self, value: float) -> float:
        """Where a value lies: 0 is low, 1 is high."""
        return (value - self.low) / ((self.high - self.low) or 1.0)

    def ticks(self, most: int = 5) -> list[float]:
        """Round numbers from low to high.

        >>> Scale(0, 1).ticks(), Scale(-3, 40).ticks()
        ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 10.0, 20.0, 30.0, 40.0])
        """
        span = self.high - self.low
        if not span > 0 or not math.isfinite(span):
            return [self.low]
        rough = 10.0 ** math.floor(math.log10(span / most))
        steps = [rough * k for k in (1, 2, 2.5, 5, 10, 20)]
        if self.whole:
            steps = [max(1.0, s) for s in steps if s == int(s) or s < 1]
        step = next(s for s in steps if math.floor(span / s * (1 + 1e-9)) <= most - 1)
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def around(values: Iterable[float], zero: bool = False) -> Scale:
    """A scale with room around some values; with zero in it, if asked for."""
    some = [float(v) for v in values if math.isfinite(v)]
    low, high = min(some, default=0.0), max(some, default=1.0)
    if zero:
        low, high = min(0.0, low), max(0.0, high)
    room = 0.06 * (high - low) or abs(high) * 0.1 or 1.0
    return Scale(low if zero and low == 0 else low - room, high + room)


class Drawing:
    """An SVG that is drawn mark by mark; marks take values, which the scales x and y place."""

    def __init__(
        self,
        title: str,
        high: float = 220,
        left: float = 46,
        right: float = 12,
        top: float = 10,
        bottom: float = 38,
    ) -> None:
        self.title = title
        self.high = high
        self.left, self.right, self.top, self.bottom = left, WIDE - right, top, high - bottom
        self.x = self.y = Scale(0.0, 1.0)
        self.parts: list[str] = []

    # ---- Places

    def px(self, value: float) -> float:
        """The place of a value on the x axis."""
        return self.left + self.x.at(value) * (self.right - self.left)

    def py(self, value: float) -> float:
        """The place of a value on the y axis."""
        return self.bottom - self.y.at(value) * (self.bottom - self.top)

    # ---- Marks, at values

    def line(self, points: Iterable[tuple[float, float]], style: str = "line") -> None:
        """A line through points."""
        self.path([(self.px(x), self.py(y)) for x, y in points], style)

    def area(
        self, low: Sequence[tuple[float, float]], high: Sequence[tuple[float, float]], style: str
    ) -> None:
        """What lies between two lines."""
        there = [(self.px(x), self.py(y)) for x, y in [*low, *reversed(high)]]
        self.path(there, style, closed=True)

    def dot(self, x: float, y: float, size: float, style: str, note: str = "") -> None:
        """A dot at a point; the note shows up under the mouse."""
        self.disc(self.px(x), self.py(y), size, style, note)

    # ---- Marks, at places

    def path(self, places: Sequence[tuple[float, float]], style: str, closed: bool = False) -> None:
        """A line from place to place."""
        steps = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        self.parts.append(f'<path class="{style}" d="M{steps}{"Z" if closed else ""}"/>')

    def disc(self, x: float, y: float, size: float, style: str, note: str = "") -> None:
        """A disc around a place."""
        self._mark(f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}"', note)

    def bar(self, x: float, y: float, wide: float, high: float, style: str, note: str = "") -> None:
        """A rectangle."""
        size = f'x="{x:.1f}" y="{y:.1f}" width="{max(0, wide):.1f}" height="{high:.1f}"'
        self._mark(f'<rect class="{style}" {size} rx="1.5"', note)

    def text(
        self, x: float, y: float, text: object, side: str = "start", style: str = "", most: int = 60
    ) -> None:
        """A text at a place, which is its start, middle or end."""
        extra = f' class="{style}"' if style else ""
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{side}"'
        self.parts.append(f"<text{extra} {place}>{safe(text, most)}</text>")

    def _mark(self, start: str, note: str) -> None:
        inside = f"><title>{safe(note, 200)}</title>" if note else ">"
        self.parts.append(f"{start}{inside}</{start[1:].partition(' ')[0]}>")

    # ---- Axes

    def x_axis(self, name: str, show: Callable[[float], str] = number, lines: bool = False) -> None:
        """The axis at the bottom, with its name; lines through the ticks if asked for."""
        for value in self.x.ticks():
            x = self.px(value)
            if lines:
                self.path([(x, self.top), (x, self.bottom)], "grid")
            self.text(x, self.bottom + 14, show(value), "middle", "tick")
        if not lines:
            self.path([(self.left, self.bottom), (self.right, self.bottom)], "axis")
        self.x_name(name)

    def x_name(self, name: str) -> None:
        """The name of the x axis."""
        name = fitted(name, self.right - self.left)
        self.text((self.left + self.right) / 2, self.high - 6, name, "middle", "name")

    def y_axis(self, name: str, show: Callable[[float], str] = number) -> None:
        """The axis at the left: lines through the ticks; its name is above them."""
        for value in self.y.ticks():
            y = self.py(value)
            self.path([(self.left, y), (self.right, y)], "grid")
            self.text(self.left - 6, y + 3.5, show(value), "end", "tick")
        self.text(4, self.top - 12, fitted(name, WIDE - 8), "start", "name")

    def svg(self) -> str:
        """The drawing."""
        box = f'viewBox="0 0 {WIDE} {self.high:.0f}"'
        about = f'role="img" aria-label="{safe(self.title, 300)}"'
        return f"<svg {box} {about}>{''.join(self.parts)}</svg>"


def percent(value: float) -> str:
    """A share as a whole number of per cent.

    >>> percent(0.256)
    '26%'
    """
    return f"{100 * value:.0f}%"


STYLE = """
.edgeforest{--ink:#1f2428;--soft:#626b74;--grid:#e4e5e0;--card:#fff;--paper:#f6f6f2;--line:#dcddd7;
--blue:#2d6fb5;--pale:#c9dcf0;--red:#c23b32;--c0:#2d6fb5;--c1:#d9722b;--c2:#2e9468;--c3:#a94f98;
--c4:#b8931c;--c5:#3f9fb5;--c6:#7a62bd;--c7:#80803a;color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
@media(prefers-color-scheme:dark){.edgeforest{--ink:#e7e9eb;--soft:#9ea8b2;--grid:#30363d;
--card:#1d2227;--paper:#14171a;--line:#323940;--blue:#69a8ee;--pale:#2b4a6b;--red:#f0766c;
--c0:#69a8ee;--c1:#f09a5a;--c2:#58c294;--c3:#d583c5;--c4:#dcb84a;--c5:#6cc7db;--c6:#a892e8;
--c7:#b5b566}}
.edgeforest svg{display:block;width:100%;height:auto;max-width:440px;overflow:visible}
.edgeforest svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--ink)}
.edgeforest svg .tick{fill:var(--soft);font-size:11px}
.edgeforest svg .name{fill:var(--soft);font-size:12px}
.edgeforest svg .small{fill:var(--soft);font-size:11px}
.edgeforest svg path{fill:none;stroke:var(--soft)}
.edgeforest svg .grid{stroke:var(--grid)}
.edgeforest svg .axis{stroke:var(--soft);stroke-width:.8}
.edgeforest svg .line{stroke:var(--blue);stroke-width:2;stroke-linejoin:round}
.edgeforest svg .dash{stroke:var(--soft);stroke-dasharray:4 3}
.edgeforest svg .band{fill:var(--blue);stroke:none;opacity:.16}
.edgeforest svg .whole{fill:var(--pale)}
.edgeforest svg .part{fill:var(--blue)}
.edgeforest svg .point{fill:var(--blue)}
.edgeforest svg .faint{fill:var(--blue);opacity:.3}
.edgeforest svg .whisker{stroke:var(--ink);stroke-width:1.2}
.edgeforest svg .out{stroke:var(--red);stroke-width:1.6}
.edgeforest svg .thread{opacity:.35}
.edgeforest p{color:var(--soft);font-size:14px;margin:6px 0;overflow-wrap:anywhere}
.edgeforest code{font-size:12px;overflow-wrap:anywhere}
.edgeforest .beside{display:flex;flex-wrap:wrap;gap:4px 24px}
.edgeforest .beside>*{flex:1 1 300px;min-width:0}
.edgeforest .scroll{overflow-x:auto}
.edgeforest table{border-collapse:collapse;font-size:13px;margin:8px 0;border:0;color:var(--ink)}
.edgeforest tr{background:none}
.edgeforest td,.edgeforest th{padding:4px 10px 4px 0;vertical-align:top;text-align:left}
.edgeforest th{font-weight:600;color:var(--soft)}
.edgeforest .facts th{white-space:nowrap;padding-right:18px}
.edgeforest .facts td{overflow-wrap:anywhere}
.edgeforest .list{width:100%}.edgeforest .list td{border-top:1px solid var(--line)}
.edgeforest .lines td,.edgeforest .list td:first-child{white-space:nowrap}
.edgeforest .matrix td{text-align:right;padding:6px 10px;border:1px solid var(--line);min-width:34px;
font-variant-numeric:tabular-nums}
.edgeforest .matrix th{padding:6px 10px 6px 4px;white-space:nowrap}
.edgeforest .swatch{display:inline-block;width:10px;height:10px;border-radius:50%;margin-right:7px}
.edgeforest .legend span{margin-right:12px;white-space:nowrap}
.edgeforest .tree{overflow-wrap:anywhere}
.edgeforest .tree details,.edgeforest .tree p{margin:2px 0 2px 4px;padding-left:12px;
border-left:2px solid var(--line);color:var(--ink);font-size:14px}
.edgeforest .tree summary{cursor:pointer;padding:3px 0}.edgeforest .tree small{color:var(--soft)}
.edgeforest .shares{display:inline-flex;width:54px;height:9px;border-radius:3px;overflow:hidden;
background:var(--line)}
.edgeforest .up{color:var(--c1)}.edgeforest .down{color:var(--c0)}
""" + "".join(
    f".edgeforest svg .s{i}{{stroke:var(--c{i});stroke-width:1.8}}"
    f".edgeforest svg .f{i}{{fill:var(--c{i})}}.edgeforest .b{i}{{background:var(--c{i})}}\n"
    for i in range(COLOURS)
)


class Picture:
    """A picture for a notebook or a page: `html` has it, `save` writes a page with it alone."""

    def __init__(self, body: str) -> None:
        self.html = body  # without the style

    def _repr_html_(self) -> str:
        # With a ground of its own: a notebook may be light where the system is dark.
        ground = "background:var(--card);padding:10px 12px;max-width:820px;border-radius:8px"
        return f'<style>{STYLE}</style><div class="edgeforest" style="{ground}">{self.html}</div>'

    def __str__(self) -> str:
        return self._repr_html_()

    def save(self, path: Any) -> None:
        """Write a page that shows this picture."""
        from edgeforest.files import write

        write(path, iter([page_of("a picture", self._repr_html_())]), b"")


def page_of(title: str, body: str) -> str:
    """A page that loads nothing and runs nothing, whatever is in it."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{safe(title)}</title></head>\n<body>{body}</body></html>\n"
    )
