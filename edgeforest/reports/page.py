"""The report of a forest: one page of HTML that needs no network, no script and no other file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeforest.forests import oob, shap, walking
from edgeforest.forests.dependence import partial_dependence
from edgeforest.forests.importance import stability
from edgeforest.host.names import listed
from edgeforest.host.version import __version__
from edgeforest.host.words import count, duration, rounded
from edgeforest.nodes import EXACT_BELOW
from edgeforest.reports import charts, measures, trees
from edgeforest.reports.svg import STYLE, number, page_of, percent, safe

if TYPE_CHECKING:
    from edgeforest.forest import Forest
    from edgeforest.reports.measures import Scored
    from edgeforest.reports.study import Study
    from edgeforest.reports.watching import Race

TOP = 5  # features whose dependence is drawn
AGREED = 3  # features on which trees agree or not
WRONG = 8  # rows that are shown
LARGE = 300_000  # nodes, above which no SHAP values and no exports are made
BACKGROUND = 2000  # rows that say how often a branch is taken
PAGE = """
body{margin:0}
.page{background:var(--paper);min-height:100vh;padding:20px 16px 48px;box-sizing:border-box}
.page>*{max-width:1180px;margin-left:auto;margin-right:auto}
.page h1{font-size:26px;line-height:1.25;margin:8px auto 4px;overflow-wrap:anywhere}
.page h2{font-size:20px;margin:36px auto 10px}
.page h3{font-size:15px;margin:0 0 8px;overflow-wrap:anywhere}
.page p{margin:6px auto}
.tiles,.grid{display:grid;gap:14px}
.tiles{grid-template-columns:repeat(auto-fit,minmax(150px,1fr));margin-top:14px}
.grid{grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr))}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:10px;min-width:0;
box-sizing:border-box}
.tile{padding:10px 14px}.tile b{display:block;font-size:22px;line-height:1.3}
.tile span{color:var(--soft);font-size:13px}
.card{padding:14px 16px}
@media(max-width:480px){.page{padding:12px 10px 40px}.card{padding:12px 10px}
.tiles{grid-template-columns:1fr 1fr;gap:10px}}
@media(min-width:780px){.wide{grid-column:span 2}}
footer{margin-top:40px}
"""


def html_of(study: Study) -> str:
    """The page."""
    forest = study.forest
    parts = [
        _head(study),
        _section("How good it is", _quality(study)),
        _section("Where the budget went", _budget(study)),
        _section("What matters", _matters(study)),
        _section("One tree", _tree(forest)),
        _section("What it gets wrong", _wrong(study)),
        _section("Taking it elsewhere", _sizes(forest)),
        f"<footer><p>Made by EdgeForest {__version__}. This page loads nothing and runs no script."
        "</p></footer>",
    ]
    body = f'<style>{STYLE}{PAGE}</style><main class="edgeforest page">{"".join(parts)}</main>'
    return page_of(study.title, body)


def _section(title: str, cards: Iterator[tuple[str, str, str]]) -> str:
    """Cards under a title: each has a title, what is in it, and a sentence."""
    found = []
    for name, inside, note in cards:
        text = f"<p>{note}</p>" if note else ""
        wide = " wide" if 'class="beside"' in inside else ""
        found.append(f'<section class="card{wide}"><h3>{name}</h3>{inside}{text}</section>')
    return f'<h2>{title}</h2><div class="grid">{"".join(found)}</div>'


# ---- The parts


def _head(study: Study) -> str:
    """The title, the numbers that matter most, and what was trained."""
    forest = study.forest
    tiles = [
        (f"{len(forest):,}", "tree" if len(forest) == 1 else "trees"),
        (f"{len(forest.feature):,}", f"nodes, at most {walking.depth(forest)} deep"),
        (number(forest.spent.insertions), _limit(forest)),
    ]
    if study.rows is not None and len(study.rows.truth):
        score = study.rows.by_trees[-1]
        what = "root mean squared error" if forest.regression else "accuracy"
        shown = rounded(score) if forest.regression else f"{score:.3f}"
        tiles.insert(0, (shown, f"{what} on {study.about}"))
    if forest.spent.seconds:
        tiles.append((duration(forest.spent.seconds), "of training"))
    cells = "".join(
        f'<div class="tile"><b>{safe(b)}</b><span>{safe(t)}</span></div>' for b, t in tiles
    )
    return (
        f"<header><h1>{safe(study.title, 120)}</h1></header>"
        f'<div class="tiles">{cells}</div><div class="card" style="margin-top:14px">'
        f"{facts_table([*facts_of(forest), *study.facts])}</div>"
    )


def facts_table(facts: list[tuple[str, str]]) -> str:
    """A table of headings and texts."""
    lines = "".join(f"<tr><th>{safe(h)}</th><td>{safe(t, 400)}</td></tr>" for h, t in facts)
    return f'<table class="facts">{lines}</table>'


def facts_of(forest: Forest) -> list[tuple[str, str]]:
    """What a forest is, in words: headings and texts."""
    task = "regression" if forest.regression else "classification"
    return [
        ("kind", f"{forest.kind} for {task}"),
        (
            "trained",
            f"criterion {forest.criterion}, splitter {forest.splitter}, seed {forest.seed}",
        ),
        ("predicts", _predicts(forest)),
        ("features", f"{len(forest.names):,}: {listed(forest.names, 20)}"),
    ]


def _limit(forest: Forest) -> str:
    return "insertions, no limit" if forest.limit is None else f"insertions of {forest.limit:,}"


def _predicts(forest: Forest) -> str:
    if forest.classes is None:
        return f"numbers from {rounded(forest.low)} to {rounded(forest.low + forest.span)}"
    return f"{count(len(forest.classes), 'class', 'classes')}: {listed(forest.classes)}"


def _absent(what: str) -> Iterator[tuple[str, str, str]]:
    yield (
        "Not known from the model alone",
        "",
        f"With rows and their answers this shows {what}: <code>edgeforest inspect model.json --report "
        "report.html --data log.csv --target NAME</code>",
    )


def _quality(study: Study) -> Iterator[tuple[str, str, str]]:
    forest, rows = study.forest, study.rows
    if rows is None or not len(rows.truth):
        what = "predictions beside the truth" if forest.regression else "a confusion matrix"
        yield from _absent(f"the score, {what}, a calibration, and the score as the forest grew")
        return
    on = f"On {safe(study.about, 200)}."
    if forest.classes is None:
        yield (
            "Predictions and the truth",
            charts.cloud(rows, study.target).html,
            f"{on} {safe(study.naive, 200)}",
        )
    else:
        counts = measures.confusion(rows, forest.n_votes)
        yield (
            "Confusion matrix",
            charts.confusion(counts, forest.classes).html,
            f"{on} {safe(study.naive, 200)}",
        )
    bins = measures.calibration(rows, forest.regression)
    note = "Ten bins of equally many rows, by what the forest predicts."
    if not forest.regression:
        note = "Above the dashed line the forest is right more often than its votes say."
    drawn = charts.calibration(bins, forest.regression, study.target).html
    yield "Calibration", drawn, f"{note} A larger dot stands for more rows."
    what = f"root mean squared error of {study.target}" if forest.regression else "accuracy"
    note = "Each dot is one more tree."
    if study.spent is None:
        note += " A model knows its insertions in all, not those of each tree."
    yield "As the forest grew", charts.growth(rows.by_trees, study.spent, what).html, f"{on} {note}"


def _budget(study: Study) -> Iterator[tuple[str, str, str]]:
    watched = study.watched
    if watched is None:
        yield from _absent("the rows that were counted at each depth, and a race round by round")
        return
    counted = sum(v.counted for v in watched.visits)
    there = sum(v.rows for v in watched.visits)
    which = "The first tree of this forest, grown again and watched"
    if not study.same:
        which = "A tree like those of this forest, grown and watched"
    note = (
        f"{which}, from {safe(study.of_log, 200)}: its races counted {counted:,} of {there:,} rows at "
        f"{count(len(watched.visits), 'node')} "
        f"({count(sum(v.insertions for v in watched.visits), 'insertion')}). Nodes of up to "
        f"{EXACT_BELOW} rows are counted whole."
    )
    yield "Rows there, and rows counted", charts.depths(watched.visits).html, note
    race = study.race
    if race is None:
        yield "One race, arm by arm", "", f"Not shown: {safe(study.why_no_race, 300)}."
        return
    note = (
        f"The root of a tree, {race.n:,} rows; the winner splits {split_words(race)}. Each line is what "
        "the rows counted so far say about the best threshold of a feature. A cross marks where one is "
        "sure to be beaten and leaves. Here all features race; a node of the forest draws some of them."
    )
    yield "One race, arm by arm", charts.race(race, study.forest.names).html, note


def split_words(race: Race) -> str:
    """Where the winner of a race splits."""
    at = race.threshold
    return f"off {safe(at, 30)}" if isinstance(at, str) else f"at {at:.6g}"


def _matters(study: Study) -> Iterator[tuple[str, str, str]]:
    forest = study.forest
    if not any(forest.importances):
        yield "Importances", "", "No feature matters: nothing was split, or the model does not say."
        return
    by_tree, note = None, "The mean decrease in impurity."
    if study.X is not None:
        by_tree = measures.tree_importances(forest, study.X)
        if by_tree is not None:
            note += f" Each dot is one tree alone, over {count(len(study.X), 'row')}."
            note += agreement(by_tree)
    else:
        note += " With rows (<code>--data</code>) this shows the spread over the trees, too."
    drawn = charts.importances(forest.names, forest.feature_importances, by_tree).html
    yield "Importances", drawn, note
    if study.X is None:
        yield from _absent("how the prediction depends on the most important features")
        return
    order = np.argsort([-v for v in forest.importances], kind="stable")[:TOP]
    rows = decoded(forest, study.X)
    for f in order.tolist():
        if not forest.importances[f] or np.isnan(study.X[:, f]).all():
            continue
        found = partial_dependence(forest, rows, f)
        note = "The mean over rows; eight tenths of them lie in the band."
        if f != order[0] or forest.n_votes > 2:
            note = ""
        drawn = charts.dependence(found, forest.classes, study.target).html
        yield f"Depending on {safe(forest.names[f], 40)}", drawn, note


def agreement(by_tree: Any) -> str:
    """How much the trees agree on the most important features, as a sentence; "" for few of them."""
    trees, features = by_tree.shape
    if trees < 2 or features <= AGREED or not by_tree.any():
        return ""
    agreed = stability(by_tree, AGREED)
    return (
        f" Stability of the {AGREED} most important over the trees: {agreed:.2f}; 1 is agreement."
    )


def _tree(forest: Forest) -> Iterator[tuple[str, str, str]]:
    yield (
        f"Tree 1 of {len(forest):,}",
        trees.unfolding(forest).html,
        "Click a question to unfold it.",
    )


def _wrong(study: Study) -> Iterator[tuple[str, str, str]]:
    forest, rows = study.forest, study.rows
    if rows is None or not len(rows.truth):
        yield from _absent("the rows that it is most wrong about, and which features misled it")
        return
    places = measures.worst(rows, forest.regression, WRONG)
    if not places:
        yield "Nothing", "", f"Every one of {safe(study.about, 200)} is predicted right."
        return
    moved, why = contributions(forest, rows, places)
    lines = []
    for i, k in enumerate(places):
        said, truth = _said(forest, rows, k)
        cells = [safe(study.place(int(rows.places[k])), 24), truth, said]
        if moved is not None:
            cells.append(_pushes(forest, rows.X[k], moved[i]))
        lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    heads = ["row", "truth", "prediction", *(["moved most by"] if moved is not None else [])]
    head = "".join(f"<th>{name}</th>" for name in heads)
    table = f'<div class="scroll"><table class="list"><tr>{head}</tr>{"".join(lines)}</table></div>'
    if forest.regression:
        title = "The largest errors"
    else:
        wrong = int((rows.answer.argmax(axis=1) != rows.truth).sum())
        title = f"{wrong:,} of {len(rows.truth):,} rows are wrong; the surest of them"
    yield title, table, why


def _said(forest: Forest, rows: Scored, k: int) -> tuple[str, str]:
    """What the forest says of a row, and the truth."""
    if forest.classes is None:
        return rounded(float(rows.answer[k])), rounded(float(rows.truth[k]))
    best = int(rows.answer[k].argmax())
    share = f" <small>{percent(rows.answer[k, best])}</small>"
    return safe(forest.classes[best], 30) + share, safe(forest.classes[rows.truth[k]], 30)


def contributions(forest: Forest, rows: Scored, places: list[int]) -> tuple[Any, str]:
    """How each feature moves the answers for some rows, (rows, features), and a sentence."""
    if len(forest.feature) > LARGE:
        return None, f"Forests of more than {LARGE:,} nodes are shown without SHAP values."
    X = decoded(forest, rows.X[oob.some(len(rows.X), BACKGROUND, 0)])
    found = shap.shap_values(forest, decoded(forest, rows.X[places]), X).values
    what = "the prediction"
    if not forest.regression:
        best = rows.answer[places].argmax(axis=1)
        found = found[np.arange(len(places)), :, best]
        what = "the votes for the predicted class"
    return found, f"SHAP values: how far each feature moves {what} away from the mean."


def _pushes(forest: Forest, row: Any, moved: Any) -> str:
    """The three features that move an answer most."""
    texts = []
    for f in np.argsort(-np.abs(moved), kind="stable")[:3].tolist():
        if moved[f]:
            style = "up" if moved[f] > 0 else "down"
            value = safe(_value(forest, f, row[f]), 16)
            by = f'<span class="{style}">{moved[f]:+.3g}</span>'
            texts.append(f"{safe(forest.names[f], 24)} = {value} {by}")
    return "<br>".join(texts)


def _value(forest: Forest, f: int, code: float) -> str:
    """A value of a row as a user knows it."""
    kinds = forest.categories[f]
    if code != code or (kinds is not None and not code):
        return "missing"
    return f"{code:.5g}" if kinds is None else str(kinds[int(code) - 1])


def decoded(forest: Forest, X: Any) -> Any:
    """Rows as a user has them, from the numbers that trees compare."""
    if forest.all_numbers:
        return X
    columns: list[list[Any]] = []
    for f, kinds in enumerate(forest.categories):
        column = X[:, f].tolist()
        if kinds is not None:
            column = [kinds[int(c) - 1] if c == c and c else None for c in column]
        columns.append(column)
    return [list(row) for row in zip(*columns, strict=True)]


def _sizes(forest: Forest) -> Iterator[tuple[str, str, str]]:
    note = "All of them give the same answers. <code>edgeforest export model.json model.h</code>"
    if len(forest.feature) > LARGE:
        note = f"Forests of more than {LARGE:,} nodes are not exported for this page."
    yield "Size in each format", charts.sizes(sizes_of(forest)).html, note


def sizes_of(forest: Forest) -> list[tuple[str, int | str]]:
    """The bytes of a forest in each format, or why they are not known."""
    model = ("JSON model", sum(len(piece) for piece in forest.text()))
    return [model, *(_exports(forest) if len(forest.feature) <= LARGE else ())]


def _exports(forest: Forest) -> Iterator[tuple[str, int | str]]:
    export = import_module("edgeforest.export")
    writers: dict[str, Callable[[], Any]] = {
        "JSON, shrunk": lambda: export.shrink(forest)[0].to_json(),
        "ONNX": lambda: export.to_onnx(forest).SerializeToString(),
        "C header, text": lambda: export.to_c(forest),
        "MicroPython, text": lambda: export.to_micropython(forest),
    }
    for name, write in writers.items():
        try:
            yield name, len(write())
        except ImportError as error:
            yield name, f"needs the package {error.name}"
        except (ValueError, TypeError) as error:  # such as too many features for a format
            yield name, str(error)
