"""Pictures of forests: a tree, and which features matter. They need matplotlib.

>>> from edgeforest import train
>>> rows = [[i % 10, i % 3] for i in range(90)]
>>> forest = train(rows, [a > 5 for a, b in rows], names=["hour", "room"])
>>> plot_tree(forest, tree=2).figure.savefig("tree.png")
>>> plot_importances(forest).figure.savefig("importances.png")
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgeforest.forest import Forest
from edgeforest.forests.explanation import Branch, branches, leaf_answer, line, percent, place
from edgeforest.forests.walking import Model, branch_size, forest_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, NOTE, GREY, LINE = "#2b2b2b", "#505050", "#767676", "#b5b5b5"
PAPER, CUT = "#f6f6f4", "#ffffff"  # boxes of questions, and of what is left out
BLUE = "#4477aa"
COLOURS = (BLUE, "#ee8866", "#44aa77", "#aa4499", "#ddaa33", "#66bbdd", "#882255", "#999933")
PAD, GAP, DROP, BAR = 0.09, 0.16, 0.40, 0.06  # inches: inside boxes, between them, levels, shares
LONG = 24  # characters of a name
LEADING = 1.3  # height of a line, in font sizes


def plot_tree(
    model: Model,
    tree: int = 0,
    max_depth: int | None = 3,
    ax: Axes | None = None,
    *,
    digits: int = 4,
    fontsize: float = 9.0,
    show_missing: bool = True,
) -> Axes:
    """Draw one tree; returns the Axes.

    Rows go left where the answer is yes. A missing value answers no, unless the question says `or
    missing`; `show_missing=False` leaves this out. A leaf has the colour of its class, stronger if
    it is purer, and a bar with the shares of the classes. In a regression, a stronger colour is a
    higher value.

    Questions go on for `max_depth` levels after the first, or to the end for None. A branch that is
    left out shows as `…` with the number of its leaves. Numbers have `digits` digits. The figure is
    as large as the tree needs; in `ax`, the tree fills the room there is.

    >>> from edgeforest import train
    >>> forest = train([[i % 10] for i in range(50)], [i % 10 > 5 for i in range(50)])
    >>> [text.get_text() for text in plot_tree(forest).texts]
    ['x0 ≤ 5.5', 'or missing', 'yes', 'no', 'False', '100%', 'True', '100%']
    """
    plt = _part("pyplot")
    forest, digits = forest_of(model), place("digits", digits, 100)
    root = forest.roots[place("tree", tree, len(forest))]

    def show(value: float) -> str:
        whole = 10**digits <= abs(value) < 1e9
        return f"{value:.0f}" if whole else f"{value:.{digits}g}"

    boxes = _boxes(forest, list(branches(forest, root, max_depth, show, show_missing)), show)
    for box in boxes:
        _measure(box, fontsize)
    _arrange(boxes)
    edge = min(b.x - b.wide / 2 for b in boxes) - GAP
    wide = max(b.x + b.wide / 2 for b in boxes) + GAP - edge
    high = max(b.high - b.top for b in boxes) + 2 * GAP
    if ax is None:
        ax = plt.figure(figsize=(wide, high)).add_axes((0, 0, 1, 1))
    figure: Any = ax.figure
    room = ax.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
    scale = min(room.width / wide, room.height / high, 1.5)
    x, y = edge + wide / 2, GAP - high / 2
    ax.set_xlim(x - room.width / scale / 2, x + room.width / scale / 2)
    ax.set_ylim(y - room.height / scale / 2, y + room.height / scale / 2)
    ax.set_axis_off()
    for box in boxes:
        _draw(ax, box, fontsize, scale)
    return ax


def plot_importances(
    model: Model,
    top: int | None = 20,
    ax: Axes | None = None,
    *,
    importances: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Axes:
    """Draw the most important features as bars, the largest on top; returns the Axes.

    `importances` has one number for each feature; by default they are the forest's own, the mean
    decrease in impurity. `std` adds a line of one standard deviation to both sides. None for `top`
    shows all features.

    >>> from edgeforest import train
    >>> forest = train([[i % 10, 1] for i in range(50)], [i % 10 > 5 for i in range(50)])
    >>> [label.get_text() for label in plot_importances(forest).get_yticklabels()]
    ['x0', 'x1']
    """
    plt = _part("pyplot")
    forest = forest_of(model)
    what = "importance"
    if importances is None:
        importances, what = forest.feature_importances, "mean decrease in impurity, as a share"
    for name, given in (("importances", importances), ("std", std)):
        if given is not None and len(given) != forest.n_features:
            raise ValueError(
                f"{name} must have a number for each of the {forest.n_features} features, "
                f"got {len(given)}"
            )
    if top is not None and top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    values = [float(v) for v in importances]
    order = sorted(range(len(values)), key=lambda f: (-values[f], f))[:top]
    if len(order) < len(values):
        what += f" ({len(order)} of {len(values)} features)"
    if ax is None:
        size = (6.4, 0.9 + 0.26 * len(order))
        ax = plt.subplots(figsize=size, layout="constrained")[1]
    places = range(len(order))
    ax.barh(places, [values[f] for f in order], height=0.62, color=BLUE, zorder=2)
    if std is not None:
        spread = [float(std[f]) for f in order]
        style: dict[str, Any] = {"fmt": "none", "ecolor": INK, "elinewidth": 1.0, "zorder": 3}
        ax.errorbar([values[f] for f in order], places, xerr=spread, **style)
    names = [_short(forest.names[f], 2 * LONG) for f in order]
    ax.set_yticks(places, names, color=INK, parse_math=False)
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.tick_params(length=0, labelsize=9)
    ax.tick_params(axis="x", labelcolor=GREY)
    ax.set_xlabel(what, color=GREY, fontsize=9)
    ax.grid(axis="x", color="#e4e4e4", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[:].set_visible(False)
    ax.axvline(0, color=GREY, linewidth=0.8, zorder=3)
    return ax


# ---- The parts of a tree ----------------------------------------------------------------------


@dataclass
class _Box:
    """A node as it is drawn: sizes and places are inches, y goes up."""

    lines: list[tuple[str, float, str]]  # text, size (a factor of the font's), colour
    fill: str = PAPER
    shares: list[tuple[float, str]] = field(default_factory=list)  # of a bar, with colours
    children: list[_Box] = field(default_factory=list)
    wide: float = 0.0
    high: float = 0.0
    x: float = 0.0  # of its middle; relative to the parent's until that is placed
    top: float = 0.0


def _boxes(forest: Forest, shown: Sequence[Branch], show: Callable[[float], str]) -> list[_Box]:
    """The boxes of the branches of a tree, parents before their children."""
    words = {branch.node.place: branch.words for branch in shown}
    leaves = [leaf_answer(forest, b.node) for b in shown if b.node.is_leaf]
    said = [says for _, _, says in leaves]
    colours = _colours(forest)
    found: dict[int, _Box] = {}
    ahead = iter(leaves)
    for node, _, _, goes_on in shown:
        if node.is_leaf:
            _, shares, says = next(ahead)
            if shares is None:
                low, high = min(said), max(said)
                strength = (says - low) / (high - low) if high > low else 0.0
                box = _Box([(show(says), 1.0, INK)], _tint(BLUE, 0.08 + 0.5 * strength))
            else:
                part, colour = shares[says], colours[says]
                lines = [(_short(str(says)), 1.0, INK), (percent(part), 0.85, NOTE)]
                bar = [(p, colours[label]) for label, p in shares.items() if p]
                box = _Box(lines, _tint(colour, 0.08 + 0.4 * part * part), bar)
        elif goes_on:
            box = _question_box(line(forest.names[node.feature]), words[node.left])
        else:
            _, leaf_count = branch_size(forest, node.place)
            box = _Box([("…", 1.0, GREY), (f"{leaf_count:,} leaves", 0.75, GREY)], CUT)
        found[node.place] = box
    for node, _, _, goes_on in shown:
        if goes_on:
            found[node.place].children = [found[node.left], found[node.right]]
    return list(found.values())


def _question_box(name: str, yes: str) -> _Box:
    """The box of a question about a feature: `yes` are the words of its left branch."""
    rest = yes[len(name) + 1 :].replace("<=", "≤", 1)
    note = " or missing" if rest.endswith(" or missing") else ""
    name, rest = _short(name), _short(rest.removesuffix(note))
    texts = [f"{name} {rest}"] if len(name + rest) < 15 else [name, rest]
    box = _Box([(text, 1.0, INK) for text in texts])
    box.lines += [(note.strip(), 0.75, GREY)] if note else []
    return box


def _measure(box: _Box, fontsize: float) -> None:
    """Set how large a box must be for its texts."""
    font = _part("font_manager").FontProperties(size=fontsize)
    measure = _part("textpath").text_to_path.get_text_width_height_descent
    lengths = [measure(text, font, False)[0] * size / 72 for text, size, _ in box.lines]
    box.wide = max([*lengths, 0.3]) + 2 * PAD
    box.high = sum(LEADING * fontsize * size / 72 for _, size, _ in box.lines) + 1.2 * PAD
    box.high += BAR + 0.5 * PAD if box.shares else 0


def _arrange(boxes: list[_Box]) -> None:
    """Place the boxes: children beside each other, as close as their branches allow."""
    outlines: dict[int, list[tuple[float, float]]] = {}  # both ends, level by level
    for box in reversed(boxes):
        outline = [(-box.wide / 2, box.wide / 2)]
        if box.children:
            a, b = (outlines.pop(id(child)) for child in box.children)
            near = max(ra - lb for (_, ra), (lb, _) in zip(a, b, strict=False)) + GAP
            for child, x in zip(box.children, (-near / 2, near / 2), strict=True):
                child.x = x
            for i in range(max(len(a), len(b))):
                begin = a[i][0] - near / 2 if i < len(a) else b[i][0] + near / 2
                end = b[i][1] + near / 2 if i < len(b) else a[i][1] - near / 2
                outline.append((begin, end))
        outlines[id(box)] = outline
    level = boxes[:1]
    top = 0.0
    while level:
        below = top - max(box.high for box in level) - DROP
        for box in level:
            box.top = top
            for child in box.children:
                child.x += box.x
        level = [child for box in level for child in box.children]
        top = below


def _draw(ax: Axes, box: _Box, fontsize: float, scale: float) -> None:
    patches = _part("patches")
    begin, bottom = box.x - box.wide / 2, box.top - box.high
    style = {"facecolor": box.fill, "edgecolor": LINE, "linewidth": 0.8 * scale}
    style["linestyle"] = (0, (3, 2)) if box.fill == CUT else "solid"
    shape = "round,pad=0,rounding_size=0.05"
    ax.add_patch(patches.FancyBboxPatch((begin, bottom), box.wide, box.high, shape, **style))
    y = box.top - 0.6 * PAD
    for text, size, colour in box.lines:
        step = LEADING * fontsize * size / 72
        _write(ax, box.x, y - step / 2, text, colour, fontsize * size * scale, "center")
        y -= step
    x, full = begin + PAD, box.wide - 2 * PAD
    for part, colour in box.shares:
        at = (x, bottom + 0.6 * PAD)
        ax.add_patch(patches.Rectangle(at, full * part, BAR, color=colour, linewidth=0))
        x += full * part
    if box.children:
        yes, no = box.children
        turn = yes.top + 0.45 * DROP
        for way in (
            [(box.x, bottom), (box.x, turn)],
            [(yes.x, yes.top), (yes.x, turn), (no.x, turn), (no.x, no.top)],
        ):
            ax.plot(*zip(*way, strict=True), color=LINE, linewidth=0.9 * scale, zorder=0)
        size = 0.8 * fontsize * scale
        _write(ax, box.x - 0.05, turn + 0.085, "yes", GREY, size, "right")
        _write(ax, box.x + 0.05, turn + 0.085, "no", GREY, size, "left")


def _write(ax: Axes, x: float, y: float, text: str, colour: str, size: float, side: str) -> None:
    style: dict[str, Any] = {"ha": side, "va": "center_baseline", "parse_math": False}
    ax.text(x, y, text, color=colour, fontsize=size, **style)


def _colours(forest: Forest) -> dict[Any, str]:
    """A colour for each class."""
    labels = forest.classes or []
    colours: Sequence[str] = COLOURS
    if len(labels) > len(COLOURS):
        hues = [colorsys.hls_to_rgb(i / len(labels), 0.55, 0.5) for i in range(len(labels))]
        colours = ["#" + "".join(f"{round(255 * part):02x}" for part in hue) for hue in hues]
    return dict(zip(labels, colours, strict=False))


def _tint(colour: str, strength: float) -> str:
    """A colour mixed with white.

    >>> _tint("#4477aa", 0.5), _tint("#4477aa", 0.0)
    ('#a2bbd4', '#ffffff')
    """
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(255 + (part - 255) * strength):02x}" for part in parts)


def _short(text: str, most: int = LONG) -> str:
    """A text on one line, without its middle if it is long.

    >>> _short("temperature of the second room on the left")
    'temperature…on the left'
    """
    text = line(text)
    half = most // 2
    return text if len(text) <= most else f"{text[:half].rstrip()}…{text[1 - half :].lstrip()}"


def _part(name: str) -> Any:
    """A module of matplotlib."""
    try:
        import_module("matplotlib")
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise ImportError(
            "plots need matplotlib, which is not installed; install it "
            "(pip install 'edgeforest[viz]')"
        ) from None
    return import_module(f"matplotlib.{name}")
