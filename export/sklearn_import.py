"""Bring forests of scikit-learn into our format, and from there to boards, C, ONNX and JSON.

>>> from sklearn.ensemble import RandomForestClassifier
>>> rows = [[i % 7, i % 3] for i in range(60)]
>>> labels = ["high" if a > 2 else "low" for a, _ in rows]
>>> model = RandomForestClassifier(n_estimators=5, random_state=0).fit(rows, labels)
>>> forest = from_sklearn(model)
>>> len(forest), forest.classes, forest.predict([[5, 0], [1, 2]])
(5, ['high', 'low'], ['high', 'low'])
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from edgeforest import engines as engine
from edgeforest.budget import millionths
from edgeforest.codes import vote_scale
from edgeforest.forest import HUGE, MASK, Forest
from edgeforest.forests import walking
from edgeforest.labels import plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Floats: TypeAlias = "NDArray[np.float64]"
_Counts: TypeAlias = "NDArray[np.int64]"

KINDS = {
    "RandomForestClassifier": "random-forest",
    "RandomForestRegressor": "random-forest",
    "DecisionTreeClassifier": "random-forest",
    "DecisionTreeRegressor": "random-forest",
    "ExtraTreesClassifier": "extra-trees",
    "ExtraTreesRegressor": "extra-trees",
    "ExtraTreeClassifier": "extra-trees",
    "ExtraTreeRegressor": "extra-trees",
}


def from_sklearn(model: Any) -> Forest:
    """A fitted forest or tree of scikit-learn as a `Forest`, with one output.

    It takes RandomForest, ExtraTrees, DecisionTree and ExtraTree, classifiers and regressors.
    Thresholds are rounded down to float32, and missing values go where scikit-learn sends them: a
    row of float32 numbers reaches the same leaves.

    The shares of a leaf become whole votes. They are exact if one `scale` of at most 65535 (and of
    2^24 divided by the number of trees) suits all leaves. Otherwise a share is off by at most
    1 / scale, so another class can win where two are that close. A regression is off by at most
    half of span / scale, and by the rounding to float32.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor().fit([[1], [2], [3]], [10.0, 20.0, 40.0])
    >>> from_sklearn(model).predict([[1], [3]])
    [10.0, 40.0]
    >>> from_sklearn(DecisionTreeRegressor())
    Traceback (most recent call last):
    ValueError: this DecisionTreeRegressor is not fitted; call fit first
    """
    kind = _kind(model)
    trees = [one.tree_ for one in getattr(model, "estimators_", [model])]
    forest = engine.with_predictor(Forest())
    _read_header(forest, model, kind)
    nodes = [_Nodes(tree) for tree in trees]
    most = vote_scale(len(trees))
    if forest.classes is None:
        votes = _values_to_votes(forest, [n.said for n in nodes], most)
    else:
        votes = _shares_to_votes(forest, [n.said for n in nodes], [n.size for n in nodes], most)
    if sum(len(n.words) for n in nodes) > walking.NARROW:
        forest.right = array("I")
    for one, said in zip(nodes, votes, strict=True):
        one.add_to(forest, said)
    forest.prepare()
    return forest


def _kind(model: Any) -> str:
    """The kind of forest; an error if it is another model, not fitted, or has several outputs."""
    bases = [c.__name__ for c in type(model).__mro__ if c.__module__.startswith("sklearn.")]
    found = [KINDS[name] for name in bases if name in KINDS]
    name = type(model).__name__
    if not found:
        raise TypeError(
            "model must be a fitted RandomForest, ExtraTrees, DecisionTree or ExtraTree of "
            f"scikit-learn, got {name}"
        )
    if not hasattr(model, "n_outputs_"):
        raise ValueError(f"this {name} is not fitted; call fit first")
    if model.n_outputs_ != 1:
        raise ValueError(
            f"this {name} has {model.n_outputs_} outputs, a forest has one; fit a model for each"
        )
    return found[0]


def _read_header(forest: Forest, model: Any, kind: str) -> None:
    m = int(model.n_features_in_)
    if m > walking.MOST_FEATURES:
        raise ValueError(f"model must have at most {walking.MOST_FEATURES} features, got {m}")
    classes = getattr(model, "classes_", None)
    forest.kind = kind
    forest.splitter = "exact"
    forest.criterion = "mse"
    forest.classes = None
    if classes is not None:
        forest.criterion = "gini" if model.criterion == "gini" else "entropy"
        forest.classes = [plain(v, k, "classes_") for k, v in enumerate(classes)]
        if None in forest.classes:
            raise ValueError("one of the classes is missing; drop rows without a label, fit again")
    seed = model.random_state
    forest.seed = int(seed) if isinstance(seed, (int, np.integer)) and 0 <= seed <= MASK else 0
    names = getattr(model, "feature_names_in_", None)
    forest.names = [f"x{f}" for f in range(m)] if names is None else [str(name) for name in names]
    forest.categories = [None] * m
    forest.importances = millionths(model.feature_importances_.tolist())


class _Nodes:
    """The nodes of one tree in preorder, and what its leaves say."""

    def __init__(self, tree: Any) -> None:
        left, right = tree.children_left, tree.children_right
        order: list[int] = []
        stack = [0]
        while stack:
            node = stack.pop()
            order.append(node)
            if left[node] >= 0:
                stack.append(right[node])
                stack.append(left[node])
        leaf = left[order] < 0
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        goes_left = getattr(tree, "missing_go_to_left", np.zeros(len(order), np.uint8))
        self.words = walking.words(leaf, tree.feature[order], False, goes_left[order] > 0)
        self.threshold = np.where(leaf, np.float32(0), round_down(tree.threshold[order]))
        # For a leaf, the place of its votes among those of the tree.
        self.right = np.where(leaf, np.cumsum(leaf) - 1, place[right[order]])
        self.leaf = leaf
        leaves = np.asarray(order)[leaf]
        self.said: _Floats = tree.value[leaves, 0, :]
        self.size: _Floats = tree.weighted_n_node_samples[leaves]

    def add_to(self, forest: Forest, votes: _Counts) -> None:
        """Append the tree, with the votes of its leaves."""
        here, n_votes = len(forest.feature), votes.shape[1]
        places = len(forest.votes) // n_votes
        forest.roots.append(here)
        forest.feature.extend(self.words.tolist())
        forest.threshold.extend(self.threshold.tolist())
        forest.right.extend((self.right + np.where(self.leaf, places, here)).tolist())
        forest.votes.extend(votes.ravel().tolist())


def round_down(thresholds: Any) -> NDArray[np.float32]:
    """The largest float32 not above each threshold: `x <= t` stays the same for a float32 x.

    A threshold beyond float32 becomes its largest number.

    >>> x = round_down([0.1, 0.5, float("inf")])
    >>> [float(v) for v in x]
    [0.09999999403953552, 0.5, 3.4028234663852886e+38]
    """
    exact = np.minimum(np.asarray(thresholds, np.float64), HUGE)
    near = exact.astype(np.float32)
    return np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)


# ---- What leaves say --------------------------------------------------------------------------


def _shares_to_votes(
    forest: Forest, shares: list[_Floats], sizes: list[_Floats], most: int
) -> list[_Counts]:
    """Votes that add up to `scale` in each leaf; sets the scale."""
    counts = [_whole(part, size) for part, size in zip(shares, sizes, strict=True)]
    forest.scale = _suiting(counts, most)
    return [_votes(part, forest.scale) for part in counts]


def _whole(shares: _Floats, size: _Floats) -> _Floats:
    """The rows of each class in a leaf if these are whole numbers, otherwise the shares."""
    shares = shares / shares.sum(axis=1, keepdims=True)
    counts = np.round(shares * size[:, None])
    fits = (np.abs(counts - shares * size[:, None]).max(axis=1) < 1e-6) & (size < 2**30)
    fits &= counts.sum(axis=1) > 0
    return np.where(fits[:, None], counts, shares)


def _suiting(counts: list[_Floats], most: int) -> int:
    """The largest scale up to `most` for which all votes are exact; `most` if there is none."""
    common = 1
    for part in counts:
        whole = part.astype(np.int64)
        if (whole != part).any():
            return most
        size = whole.sum(axis=1) // np.gcd.reduce(whole, axis=1)
        for one in np.unique(size).tolist():
            common = math.lcm(common, one)
            if common > most:
                return most
    return most // common * common


def _votes(counts: _Floats, scale: int) -> _Counts:
    """Shares of `scale`, rounded so that they add up."""
    upto = np.cumsum(counts, axis=1)
    upto = np.floor(upto / upto[:, -1:] * scale + 0.5)
    votes: _Counts = np.diff(upto, axis=1, prepend=0).astype(np.int64)
    return votes


def _values_to_votes(forest: Forest, values: list[_Floats], scale: int) -> list[_Counts]:
    """Levels from 0 to `scale` between the smallest and the largest value; sets the range."""
    low = min(float(part.min()) for part in values)
    high = max(float(part.max()) for part in values)
    if not (abs(low) <= HUGE and abs(high) <= HUGE and high - low <= HUGE):
        raise ValueError("values of leaves must lie and span within 3.4e38; scale the target down")
    forest.scale = scale
    forest.low = float(round_down(low))
    forest.span = -float(round_down(forest.low - high))  # rounded up
    per = scale / forest.span if forest.span else 0.0
    return [np.floor((part - forest.low) * per + 0.5).astype(np.int64) for part in values]
