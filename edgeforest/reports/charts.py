"""The pictures of a report, each from numbers that were measured before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeforest.host.words import count, file_size, rounded
from edgeforest.reports.svg import (
    COLOURS,
    Drawing,
    Picture,
    Scale,
    around,
    fitted,
    number,
    percent,
    plain,
    safe,
    width_of,
)

if TYPE_CHECKING:
    from edgeforest.forests.dependence import Dependence
    from edgeforest.host.values import Array
    from edgeforest.reports.measures import Bin, Scored
    from edgeforest.reports.watching import Race, Visit

LETTERS = 16  # of a class in a confusion matrix
MOST_CLASSES = 10  # of a confusion matrix
MOST_ARMS = COLOURS  # features of a race that are drawn
MOST_DEPTHS = 16
MOST_POINTS = 400  # of a cloud


def growth(scores: Sequence[float], spent: Sequence[int] | None, name: str) -> Picture:
    """The score as the forest grew, against insertions, or against trees where those are unknown."""
    x = list(spent) if spent else list(range(1, len(scores) + 1))
    points = [(at, s) for at, s in zip(x, scores, strict=True) if s == s]
    unit = "insertions" if spent else "trees"
    last = points[-1] if points else (0, 0.0)
    drawing = Drawing(
        f"{name} against {unit}: from {rounded(points[0][1])} with the first tree to "
        f"{rounded(last[1])} at {last[0]:,} {unit}",
        top=30,
    )
    drawing.x = Scale(0 if spent else 1, max(x[-1], 2), whole=True)
    drawing.y = around([s for _, s in points])
    drawing.y_axis(name, plain)
    drawing.x_axis(unit)
    drawing.line(points)
    for tree, (at, score) in enumerate(points, 1):
        if len(points) <= 60 or tree in (1, len(points)):
            drawing.dot(at, score, 2.6, "point", f"{count(tree, 'tree')}: {rounded(score)}")
    free = drawing.bottom - 8 if last[1] >= points[0][1] else drawing.top + 14  # above or below it
    drawing.text(drawing.right, free, f"at the end {rounded(last[1])}", "end")
    return Picture(drawing.svg())


def calibration(bins: Sequence[Bin], regression: bool, target: str = "target") -> Picture:
    """What the forest says against what is true; on the diagonal both are the same."""
    names = ("share of the votes", "share that is right")
    if regression:
        names = (f"mean prediction of {target}", f"mean true {target}")
    told = "; ".join(f"{rounded(b.said)} said, {rounded(b.true)} true" for b in bins)
    drawing = Drawing(f"calibration: {told}", high=250, top=30)
    scale = around([v for b in bins for v in (b.said, b.true)])
    if not regression:
        low = min([0.5, *(min(b.said, b.true) for b in bins)])
        scale = Scale(max(0.0, low - 0.05), 1.0)
    drawing.x = drawing.y = scale
    show: Callable[[float], str] = number if regression else percent
    drawing.y_axis(names[1], show)
    drawing.x_axis(names[0], show)
    drawing.line([(scale.low, scale.low), (scale.high, scale.high)], "dash")
    drawing.line([(b.said, b.true) for b in bins])
    most = max(b.rows for b in bins)
    for b in bins:
        note = f"{count(b.rows, 'row')}: {show(b.said)} said, {show(b.true)} true"
        drawing.dot(b.said, b.true, 2.5 + 4.5 * (b.rows / most) ** 0.5, "point", note)
    return Picture(drawing.svg())


def confusion(counts: Array, names: Sequence[Any]) -> Picture:
    """A table: rows of each class, and for which class the forest takes them."""
    wrong = counts.sum(axis=0) + counts.sum(axis=1) - 2 * counts.diagonal()
    order = np.argsort(-(wrong * (counts.sum() + 1) + counts.sum(axis=1)), kind="stable")
    shown = sorted(order[:MOST_CLASSES].tolist())
    rest = len(names) - len(shown)
    head = "".join(f"<th>{safe(names[k], LETTERS)}</th>" for k in shown)
    lines = []
    for k in shown:
        cells = []
        for j in shown:
            share = counts[k, j] / max(1, counts[k].sum())
            colour = "var(--blue)" if j == k else "var(--red)"
            fill = f"color-mix(in srgb,{colour} {100 * share**0.5 * 0.75:.0f}%,transparent)"
            strong = ' class="on"' if share > 0.5 else ""
            cells.append(f'<td{strong} style="background:{fill}">{counts[k, j]:,}</td>')
        lines.append(f"<tr><th>{safe(names[k], LETTERS)}</th>{''.join(cells)}</tr>")
    more = f"<p>{count(rest, 'class', 'classes')} with fewer errors left out.</p>" if rest else ""
    return Picture(
        "<p>A row for each true class, a column for each prediction.</p>"
        f'<div class="scroll"><table class="matrix"><tr><th></th>{head}</tr>{"".join(lines)}</table></div>{more}'
    )


def cloud(rows: Scored, target: str = "target") -> Picture:
    """Predictions of a regression against the truth, of some rows."""
    step = max(1, len(rows.truth) // MOST_POINTS)
    truth, said = rows.truth[::step], rows.answer[::step]
    drawing = Drawing(f"prediction against truth of {count(len(truth), 'row')}", high=250, top=30)
    drawing.x = drawing.y = around([*truth, *said])
    drawing.y_axis("prediction")
    drawing.x_axis(f"true {target}")
    ends = drawing.x.low, drawing.x.high
    drawing.line([(end, end) for end in ends], "dash")
    for x, y in zip(truth.tolist(), said.tolist(), strict=True):
        drawing.dot(x, y, 2.2, "faint")
    return Picture(drawing.svg())


def depths(visits: Sequence[Visit]) -> Picture:
    """Rows at each depth of a tree, and how many of them were counted to find its splits."""
    deepest = min(max((v.depth for v in visits), default=0), MOST_DEPTHS - 1)
    levels = [[v for v in visits if min(v.depth, deepest) == d] for d in range(deepest + 1)]
    names = [str(d) for d in range(deepest)] + [
        f"{deepest}+" if any(v.depth > deepest for v in visits) else str(deepest)
    ]
    there = [sum(v.rows for v in level) for level in levels]
    counted = [sum(v.counted for v in level) for level in levels]
    share = sum(counted) / max(1, sum(there))
    drawing = Drawing(
        f"rows counted by depth: {sum(counted):,} of {sum(there):,} in all, {percent(share)}",
        high=16 * len(levels) + 62,
        left=30,
        right=70,
        top=22,
    )
    drawing.x = Scale(0, max([*there, 1]))
    drawing.x_axis("rows", lines=True)
    drawing.text(4, 12, "depth", "start", "name")
    drawing.text(356, 12, "counted", "end", "name")
    for d, (all_rows, some) in enumerate(zip(there, counted, strict=True)):
        y = drawing.top + 16 * d
        spent = sum(v.insertions for v in levels[d])
        note = (
            f"depth {names[d]}: {count(len(levels[d]), 'node')}, {some:,} of {count(all_rows, 'row')} "
            f"counted, {count(spent, 'insertion')}"
        )
        wide = drawing.px(all_rows) - drawing.left
        drawing.bar(drawing.left, y + 2.5, wide, 11, "whole", note)
        drawing.bar(drawing.left, y + 2.5, drawing.px(some) - drawing.left, 11, "part", note)
        drawing.text(drawing.left - 8, y + 12, names[d], "end", "tick")
        text = f"{number(some)}, {percent(some / max(1, all_rows))}"
        drawing.text(356, y + 12, text, "end", "tick")
    return Picture(drawing.svg())


def race(watched: Race, names: Sequence[str]) -> Picture:
    """The intervals of the features in a race, round by round, and a table of who left when."""
    drawing, table = race_drawing(watched, names), _runners(watched.runners(), names, watched)
    return Picture(f'<div class="beside"><div>{drawing.svg()}</div><div>{table}</div></div>')


def race_drawing(watched: Race, names: Sequence[str]) -> Drawing:
    """The intervals of a race alone; runners have the colours 0, 1 and so on, in their order."""
    runners = watched.runners()
    shown = runners[:MOST_ARMS]
    colour = {runner.feature: k for k, runner in enumerate(shown)}
    rounds = [
        (rows, [(r.feature, arms[r.feature]) for r in shown if r.feature in arms])
        for rows, arms in watched.rounds
    ]
    leader = names[runners[0].feature]
    drawing = Drawing(
        f"the race of {count(len(runners), 'feature')} over {count(len(rounds), 'round')}: "
        f"{leader} wins after {watched.counted:,} of {watched.n:,} rows",
        high=270,
        top=30,
    )
    highs = [arm.high for _, arms in rounds for _, arm in arms]
    drawing.y = Scale(0.0, min(1.0, 1.06 * max(highs)) or 1.0)
    drawing.y_axis("gain, as a share of the impurity", percent)
    unit = (drawing.right - drawing.left) / sum(len(arms) + 1.5 for _, arms in rounds)
    at = drawing.left
    seen: dict[int, list[tuple[float, float]]] = {f: [] for f in colour}
    marks = []
    for k, (rows, arms) in enumerate(rounds):
        wide = (len(arms) + 1.5) * unit
        if k:
            drawing.path([(at, drawing.top), (at, drawing.bottom)], "grid")
        if len(rounds) < 9 or k % 2 == 0:
            drawing.text(at + wide / 2, drawing.bottom + 14, number(rows), "middle", "tick")
        after = {f for f, _ in rounds[k + 1][1]} if k + 1 < len(rounds) else watched.finalists()
        for place, (f, arm) in enumerate(arms):
            x = at + (place + 1.25) * unit
            seen[f].append((x, drawing.py(arm.gain)))
            marks.append((x, f, arm, f not in after, rows))
        at += wide
    drawing.path([(drawing.left, drawing.bottom), (drawing.right, drawing.bottom)], "axis")
    drawing.x_name("rows counted, round by round")
    for f, places in seen.items():
        if len(places) > 1:
            drawing.path(places, f"thread s{colour[f]}")
    for x, f, arm, leaves, rows in marks:
        low, high = drawing.py(arm.low), drawing.py(arm.high)
        drawing.path([(x, low), (x, high)], f"s{colour[f]}")
        note = (
            f"{names[f]} after {rows:,} rows: {arm.gain:.1%}, from {arm.low:.1%} to {arm.high:.1%}"
        )
        drawing.disc(x, drawing.py(arm.gain), 3, f"f{colour[f]}", note)
        if leaves:
            for turn in (-3, 3):
                drawing.path([(x - 3, high - 7 - turn), (x + 3, high - 7 + turn)], "out")
    return drawing


def _runners(runners: Sequence[Any], names: Sequence[str], watched: Race) -> str:
    """The table beside a race."""
    lines = []
    for k, r in enumerate(runners[:MOST_ARMS]):
        when = f"out after {r.rows[-1]:,} rows"
        if r.won:
            when = f"wins after {watched.counted:,} rows"
        elif r.feature in watched.finalists():
            when = "in to the end"
        arm = r.arms[-1]
        cells = [
            f'<i class="swatch b{k}"></i>{safe(names[r.feature], 22)}',
            f"{arm.gain:.1%} <small>{100 * arm.low:.0f}–{100 * arm.high:.0f}%</small>",
            when,
        ]
        lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    more = ""
    rest = runners[MOST_ARMS:]
    if rest:
        last = max(r.rows[-1] for r in rest)
        more = f"<p>{count(len(rest), 'more feature')} out after {last:,} rows at the latest.</p>"
    return (
        '<div class="scroll"><table class="list lines"><tr><th>feature</th><th>gain</th>'
        f"<th></th></tr>{''.join(lines)}</table></div>{more}"
    )


def importances(
    names: Sequence[str], values: Sequence[float], by_tree: Array | None, top: int = 12
) -> Picture:
    """The most important features as bars; each dot is what one tree alone says."""
    order = sorted(range(len(names)), key=lambda f: (-values[f], f))[:top]
    told = ", ".join(f"{names[f]} {percent(values[f])}" for f in order[:5])
    shown = {f: fitted(names[f]) for f in order}
    drawing = Drawing(
        f"importances: {told}",
        high=20 * len(order) + 44,
        left=12 + max(map(width_of, shown.values())),
        right=40,
        top=8,
    )
    most = max([values[f] for f in order])
    if by_tree is not None:
        most = max(most, float(by_tree[:, order].max()))
    drawing.x = Scale(0.0, most or 1.0)
    drawing.x_axis("share of all importance", percent, lines=True)
    for place, f in enumerate(order):
        y = drawing.top + 20 * place
        note = f"{names[f]}: {values[f]:.1%}"
        drawing.bar(drawing.left, y + 4, drawing.px(values[f]) - drawing.left, 12, "whole", note)
        if by_tree is not None:
            some = by_tree[:, f]
            for share in some[:100].tolist():
                drawing.disc(drawing.px(share), y + 10, 2, "faint")
            spread = f"{note}, over the trees {some.mean():.1%} ± {some.std():.1%}"
            drawing.bar(drawing.px(values[f]) - 1, y + 2, 2, 16, "part", spread)
        drawing.text(drawing.left - 6, y + 13.5, shown[f], "end")
        drawing.text(356, y + 13.5, f"{values[f]:.1%}", "end", "tick")
    return Picture(drawing.svg())


def dependence(found: Dependence, classes: Sequence[Any] | None, target: str = "target") -> Picture:
    """How the answer changes with one feature; of a classification, for the classes that move most."""
    mean, low, high = found.mean, found.low, found.high
    shown: list[int] = [0]
    if classes is None:
        mean, low, high = mean[:, None], low[:, None], high[:, None]
    else:
        moves = np.argsort(-np.ptp(mean, axis=0), kind="stable")
        # Of two classes, one is the mirror image of the other.
        shown = [1] if len(classes) == 2 else moves[:4].tolist()
    band = len(shown) == 1
    what = f"prediction of {target}"
    if classes is not None:
        what = f"votes for {fitted(classes[shown[0]], 160)}" if band else "share of the votes"
    ends = [mean[:, k] for k in shown] + ([low[:, shown[0]], high[:, shown[0]]] if band else [])
    span = f"{rounded(float(mean[:, shown].min()))} to {rounded(float(mean[:, shown].max()))}"
    title = f"{what} as {found.name} changes: {span}"
    show: Callable[[float], str] = number if classes is None else percent
    scale = around(np.concatenate(ends))
    if classes is not None:
        scale = Scale(0.0, min(1.0, scale.high))
    legend = "" if band else _legend([(c, (classes or ())[c]) for c in sorted(shown)])
    if isinstance(found.values[0], float) and len(found.values) > 1:
        drawing = Drawing(title, high=200, top=30)
        drawing.x, drawing.y = Scale(found.values[0], found.values[-1]), scale
        drawing.y_axis(what, show)
        drawing.x_axis(found.name, plain)
        if band:
            lower, upper = (
                list(zip(found.values, side[:, shown[0]], strict=True)) for side in (low, high)
            )
            drawing.area(lower, upper, "band")
        for c in shown:
            style = "line" if band else f"s{c % COLOURS}"
            drawing.line(zip(found.values, mean[:, c], strict=True), style)
        return Picture(drawing.svg() + legend)
    return Picture(_by_category(found, mean, low, high, shown, scale, (title, what), show) + legend)


def _by_category(
    found: Dependence,
    mean: Array,
    low: Array,
    high: Array,
    shown: list[int],
    scale: Scale,
    words: tuple[str, str],
    show: Callable[[float], str],
) -> str:
    """The dependence on a feature that is a category: a line of dots for each."""
    order = np.argsort(-mean[:, shown[0]], kind="stable")[:12]
    names = {i: fitted(found.values[i]) for i in order.tolist()}
    drawing = Drawing(
        words[0],
        high=18 * len(order) + 58,
        left=12 + max(map(width_of, names.values())),
        top=22,
    )
    drawing.x = scale
    drawing.x_axis(words[1], show, lines=True)
    drawing.text(4, 12, fitted(found.name, 340), "start", "name")
    for place, i in enumerate(names):
        y = drawing.top + 18 * place + 9
        drawing.text(drawing.left - 6, y + 4, names[i], "end")
        for c in shown:
            style = 0 if len(shown) == 1 else c % COLOURS
            if len(shown) == 1:
                ends = [(drawing.px(side[i, c]), y) for side in (low, high)]
                drawing.path(ends, "s0")
            note = f"{found.values[i]}: {show(mean[i, c])}"
            drawing.disc(drawing.px(mean[i, c]), y, 3.5, f"f{style}", note)
    return drawing.svg()


def _legend(items: Sequence[tuple[int, Any]]) -> str:
    """What the colours mean."""
    marks = [
        f'<span><i class="swatch b{k % COLOURS}"></i>{safe(name, 30)}</span>' for k, name in items
    ]
    return f'<p class="legend">{" ".join(marks)}</p>'


def sizes(items: Sequence[tuple[str, int | str]]) -> Picture:
    """Bytes of each format as bars; a text says why a size is not known."""
    known = [size for _, size in items if isinstance(size, int)]
    told = ", ".join(f"{name} {file_size(size)}" for name, size in items if isinstance(size, int))
    drawing = Drawing(f"sizes: {told}", high=22 * len(items) + 12, left=122, right=64, top=4)
    drawing.x = Scale(0.0, float(max(known, default=1)))
    for place, (name, size) in enumerate(items):
        y = drawing.top + 22 * place
        drawing.text(drawing.left - 6, y + 14, name, "end")
        if isinstance(size, int):
            drawing.bar(drawing.left, y + 4, max(1.0, drawing.px(size) - drawing.left), 13, "part")
            drawing.text(drawing.px(size) + 5, y + 14, file_size(size), "start", "tick")
        else:
            drawing.text(drawing.left + 2, y + 14, fitted(size, 230), "start", "small")
    return Picture(drawing.svg())
