"""Write the report of a forest or an estimator, from whatever rows there are."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from edgeforest.files import write
from edgeforest.forests.walking import Model, forest_of
from edgeforest.host import arrays
from edgeforest.host.arrays import encoded_as, read_as
from edgeforest.host.fitted import check_features
from edgeforest.host.frames import labels
from edgeforest.host.words import count
from edgeforest.reports import measures
from edgeforest.reports.page import html_of
from edgeforest.reports.study import Study, observe, options_of

if TYPE_CHECKING:
    from edgeforest.host.types import AnyPath


def write_report(
    path: AnyPath,
    model: Model,
    X: Any = None,
    y: Any = None,
    *,
    target: str = "the target",
    title: str = "",
) -> None:
    """Write a page about a forest or an estimator: one file of HTML that needs no network.

    It shows how good the forest is, where its budget went, what matters, one tree, which rows it
    gets wrong, and its size in each format. X and y are rows that the forest has not seen. Of an
    estimator they may also be those of its `fit`: each row is then asked of the trees that did not
    draw it. Without y, or without X too, the page says what is missing. `target` is the name of y.

    >>> from edgeforest import RandomForestClassifier, write_report
    >>> X, y = [[i % 7, i % 5] for i in range(300)], [i % 7 > 3 for i in range(300)]
    >>> write_report("report.html", RandomForestClassifier(10).fit(X, y), X, y, target="late")
    >>> "<title>A forest for late</title>" in open("report.html").read()
    True
    """
    forest = forest_of(model)
    if y is not None and X is None:
        raise ValueError("y must come with the rows that it belongs to; give X")
    study = Study(forest, title or f"A forest for {target}", target)
    if X is not None:
        study.X = encoded_as(forest, X)
    if y is not None:
        study.rows = scored_by(model, X, y)
        out = study.rows.out_of_bag
        study.about = count(len(study.rows.truth), "out-of-bag row" if out else "row")
        rows = read_as(forest, X)
        study.of_log = count(rows.n, "row")
        more = {**rows.options(), "names": forest.names}
        observe(study, rows.values, list(labels(y)), {**options_of(forest), **more})
    write(path, [html_of(study)])


def scored_by(model: Model, X: Any, y: Any) -> measures.Scored:
    """Ask a forest about rows; those of the training of an estimator are asked out of bag."""
    forest = forest_of(model)
    found: Any = model
    outside = None
    if hasattr(model, "draws_"):
        check = partial(check_features, found)
        rows = arrays.read(X, found.categorical_features, check)
        codes, _ = arrays.read_target(y, rows.n, found.regression)
        outside = found.draws_.left_out(rows, codes)
    return measures.scored(forest, X, y, outside)
