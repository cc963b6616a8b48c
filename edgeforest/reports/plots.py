"""The pictures of a report one by one, for notebooks and pages: `edgeforest.plots`.

Each function returns a `Picture`, which a notebook shows and `save` writes as a page. They are SVG,
follow the light or dark mode of the page, and need NumPy but not matplotlib. X and y are rows that
the forest has not seen; of an estimator they may also be those of its `fit`, which are then asked
out of bag.

>>> from edgeforest import plots, RandomForestClassifier
>>> X, y = [[i % 7, i % 5] for i in range(300)], [i % 7 > 3 for i in range(300)]
>>> model = RandomForestClassifier(10, random_state=0).fit(X, y)
>>> plots.confusion(model, X, y).save("confusion.html")
>>> "<svg" in plots.growth(model, X, y).html
True
"""

from __future__ import annotations

from typing import Any

from edgeforest.forests.dependence import partial_dependence
from edgeforest.forests.explanation import place
from edgeforest.forests.walking import Model, forest_of
from edgeforest.host.arrays import encoded_as
from edgeforest.nodes import EXACT_BELOW
from edgeforest.reports import charts, measures, trees
from edgeforest.reports.page import sizes_of
from edgeforest.reports.svg import Picture
from edgeforest.reports.watching import watch
from edgeforest.reports.writing import scored_by

__all__ = [
    "Picture",
    "calibration",
    "confusion",
    "dependence",
    "depths",
    "growth",
    "importances",
    "predictions",
    "race",
    "sizes",
    "tree",
]


def _asked(model: Model, X: Any, y: Any) -> measures.Scored:
    found = scored_by(model, X, y)
    if not len(found.truth):
        raise ValueError("every tree drew every row, so none is out of bag: give other rows")
    return found


def growth(model: Model, X: Any, y: Any) -> Picture:
    """The accuracy, or the root mean squared error, with one tree, with two, and so on.

    >>> from edgeforest import train
    >>> X = [[i % 7] for i in range(90)]
    >>> "accuracy against trees" in growth(train(X, [x > 3 for x, in X]), X, [x > 3 for x, in X]).html
    True
    """
    name = "root mean squared error" if forest_of(model).regression else "accuracy"
    return charts.growth(_asked(model, X, y).by_trees, None, name)


def confusion(model: Model, X: Any, y: Any) -> Picture:
    """A table of the true classes and the predicted ones.

    >>> from edgeforest import train
    >>> X = [[i % 7] for i in range(90)]
    >>> "<table" in confusion(train(X, [x > 3 for x, in X]), X, [x > 3 for x, in X]).html
    True
    """
    forest = forest_of(model)
    if forest.classes is None:
        raise ValueError("a regression has no classes to confuse; use predictions")
    counts = measures.confusion(_asked(model, X, y), forest.n_votes)
    return charts.confusion(counts, forest.classes)


def predictions(model: Model, X: Any, y: Any, target: str = "target") -> Picture:
    """The predictions of a regression against the truth.

    >>> from edgeforest import train
    >>> X = [[i % 7] for i in range(90)]
    >>> forest = train(X, [x * 2.0 for x, in X], criterion="mse")
    >>> "<circle" in predictions(forest, X, [x * 2.0 for x, in X]).html
    True
    """
    if not forest_of(model).regression:
        raise ValueError("a classification predicts classes; use confusion")
    return charts.cloud(_asked(model, X, y), target)


def calibration(model: Model, X: Any, y: Any, target: str = "target") -> Picture:
    """Whether the forest is right as often as its votes say; of a regression, as high as it says.

    >>> from edgeforest import train
    >>> X = [[i % 7] for i in range(90)]
    >>> "votes" in calibration(train(X, [x > 3 for x, in X]), X, [x > 3 for x, in X]).html
    True
    """
    regression = forest_of(model).regression
    bins = measures.calibration(_asked(model, X, y), regression)
    return charts.calibration(bins, regression, target)


def importances(model: Model, X: Any = None, top: int = 12) -> Picture:
    """The most important features; with rows, a dot for what each tree alone says.

    >>> from edgeforest import train
    >>> X = [[i % 7, 1] for i in range(90)]
    >>> "x0" in importances(train(X, [x > 3 for x, _ in X]), X).html
    True
    """
    forest = forest_of(model)
    by_tree = None if X is None else measures.tree_importances(forest, encoded_as(forest, X))
    return charts.importances(forest.names, forest.feature_importances, by_tree, top)


def dependence(model: Model, X: Any, feature: int | str, target: str = "target") -> Picture:
    """How the answer depends on one feature: see `partial_dependence`.

    >>> from edgeforest import train
    >>> X = [[i % 7, 1] for i in range(90)]
    >>> "votes for True" in dependence(train(X, [x > 3 for x, _ in X]), X, "x0").html
    True
    """
    return charts.dependence(
        partial_dependence(model, X, feature), forest_of(model).classes, target
    )


def race(X: Any, y: Any, **options: Any) -> Picture:
    """The race of all features at the root of a tree, round by round; options as for `train`.

    >>> X = [[i % 100, i % 7] for i in range(4000)]
    >>> "x0 wins after" in race(X, [a > 60 for a, b in X]).html
    True
    """
    given = {"max_features": 1.0, "max_samples": 1.0, **options, "max_depth": 1}
    watched = watch(X, y, **given)
    if not watched.race.rounds or watched.race.winner is None:
        raise ValueError(
            f"nodes of up to {EXACT_BELOW} rows are counted whole, got {len(y)} rows; give more"
        )
    return charts.race(watched.race, watched.forest.names)


def depths(X: Any, y: Any, **options: Any) -> Picture:
    """Rows at each depth of a tree, and how many of them its races counted; options as for `train`.

    >>> X = [[i % 100, i % 7] for i in range(4000)]
    >>> "rows counted by depth" in depths(X, [a > 60 for a, b in X]).html
    True
    """
    return charts.depths(watch(X, y, **options).visits)


def tree(model: Model, number: int = 0) -> Picture:
    """A tree that unfolds, question by question.

    >>> from edgeforest import train
    >>> X = [[i % 7] for i in range(90)]
    >>> "<summary>" in tree(train(X, [x > 3 for x, in X])).html
    True
    """
    forest = forest_of(model)
    return trees.unfolding(forest, place("number", number, len(forest)))


def sizes(model: Model) -> Picture:
    """The bytes that the forest takes in each format.

    >>> from edgeforest import train
    >>> "C header" in sizes(train([[1], [2]], [0, 1])).html
    True
    """
    return charts.sizes(sizes_of(forest_of(model)))
