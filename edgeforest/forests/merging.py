"""Join forests into one, and keep some trees of a forest.

Devices that each saw some of the rows train a forest of their own; the joined forest predicts as
all of them together. It needs nothing but the models: no rows, no NumPy.

>>> from edgeforest import train
>>> rows = [[i % 7, i % 3] for i in range(60)]
>>> low = train(rows[:30], ["low" if a < 3 else "mid" for a, _ in rows[:30]], n_trees=3)
>>> high = train(rows[30:], ["mid" if a < 5 else "high" for a, _ in rows[30:]], n_trees=3)
>>> both = merge([low, high])
>>> both.classes, len(both), both.predict([[0, 0], [3, 0], [6, 0]])
(['high', 'low', 'mid'], 6, ['low', 'mid', 'high'])
>>> keep(both, [0, 1, 2]).predict([0, 0])
'low'
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

from edgeforest import engines as engine
from edgeforest.budget import between
from edgeforest.engines import ranges
from edgeforest.forest import HEADER, HUGE, LEVELS, MASK, SUM, Forest, Spent, attribute
from edgeforest.forests import walking
from edgeforest.labels import sorted_set

CLASSES, CODES = 4096, 254  # the most classes, and categories of a feature
HALF = Fraction(1, 2)

_Codes: TypeAlias = dict[int, dict[float, float]]  # by feature, from an old code to the new one
_Change: TypeAlias = "Callable[[array[int]], array[int]]"  # from votes of a leaf to the new ones
_Turns: TypeAlias = list[tuple[int, int]]  # trees in the order in which they are taken: tree, part


def keep(forest: Forest, trees: Iterable[int]) -> Forest:
    """A forest of some of the trees, named by their places, in the order given.

    Everything else stays as it is, the importances too. The trees of a regression that was merged
    with weights, or from unlike forests, are right only together.

    >>> from edgeforest import train
    >>> forest = train([[i % 7] for i in range(60)], [i % 7 > 2 for i in range(60)], n_trees=5)
    >>> one = keep(forest, [3])
    >>> len(one), one.predict([5])
    (1, True)
    >>> keep(forest, [5])
    Traceback (most recent call last):
    ValueError: a tree's place must be from 0 to 4, got 5
    """
    forest = walking.forest_of(forest, "forest")
    kept = like(forest)
    last = len(forest) - 1
    places = [between("a tree's place", t, 0, last) for t in _list(trees, "places")]
    if not places or len(set(places)) < len(places):
        raise ValueError(f"trees must name at least one place, and none twice, got {places}")
    for t in places:
        _add(kept, forest, t, {}, None)
    kept.prepare()
    return kept


def merge(
    forests: Iterable[Any],
    weights: Iterable[float] | None = None,
    max_trees: int | None = None,
    max_bytes: int | None = None,
) -> Forest:
    """One forest with the trees of several forests or estimators: it predicts their mean.

    `weights` are the weights of the forests; by default every tree counts the same. `max_trees` and
    `max_bytes` (of the model as JSON) limit the result: trees are taken from the forests in turn,
    as many as fit. Features must be the same; classes and categories may differ. A class is decided
    mostly by the forests that know it. A category that a forest has not met was missing to its
    trees; now it is one that equals none of theirs.

    >>> from edgeforest import train
    >>> rows, labels = [[i % 7] for i in range(60)], [i % 7 > 2 for i in range(60)]
    >>> parts = [train(rows, labels, n_trees=4, seed=seed) for seed in (1, 2)]
    >>> len(merge(parts)), len(merge(parts, weights=[2, 1], max_trees=5))
    (8, 5)
    >>> merge([parts[0], train([[1, 2]], [True])])
    Traceback (most recent call last):
    ValueError: forest 1 has 2 features, forest 0 has 1
    """
    given = enumerate(_list(forests, "forests"))
    parts = [_Part(walking.forest_of(model, f"forest {n}")) for n, model in given]
    if not parts:
        raise ValueError("there are no forests to merge; give at least one")
    _read_weights(parts, weights)
    head = _head(parts)
    turns = sorted(
        (t, n) for n, p in enumerate(parts) if p.weight != 0 for t in range(len(p.forest))
    )
    if max_trees is not None:
        turns = turns[: between("max_trees", max_trees, 1, MASK)]
    if max_bytes is not None:
        turns = turns[: _fitting(head, parts, turns, between("max_bytes", max_bytes, 1, MASK))]
    _share(head, parts, turns)
    before = upto = Fraction(0)
    for part in parts:
        codes = _codes(part.forest, head)
        for t in range(part.count):
            upto += part.share * head.scale
            scale = round(upto) - round(before)  # of this tree: all of them add up
            before = upto
            _add(head, part.forest, t, codes, _change(part, head, scale))
    head.prepare()
    return head


class _Part:
    """One of the forests, and what becomes of it."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.weight: Fraction | None = None
        self.count = 0  # of its trees that are taken
        self.share = Fraction(0)  # the weight of each of them: on average 1
        self.lifts: list[float] = []  # its votes for each class are multiplied by these
        # The largest vote is a multiple of the scale if unlike forests were merged into this one.
        self.peak = max(Fraction(1), Fraction(max(forest.votes), forest.scale))

    def like(self, head: Forest) -> bool:
        """Whether a vote means the same there."""
        return (self.forest.low, self.forest.span) == (head.low, head.span)


def _head(parts: list[_Part]) -> Forest:
    """A forest without trees, with what the parts have in common."""
    given = [part.forest for part in parts]
    first = given[0]
    head = like(first)
    _refuse_other_features(given)
    if head.classes is not None:
        head.classes = _union(
            [forest.classes for forest in given], "classes of the forests", CLASSES
        )
    for f, kinds in enumerate(head.categories):
        if kinds is not None:
            what = f"categories of feature {first.names[f]!r}"
            head.categories[f] = _union([forest.categories[f] for forest in given], what, CODES)
    if not all(part.like(head) for part in parts):
        head.low = min(forest.low for forest in given)
        span = max(forest.low + forest.span for forest in given) - head.low
        if span > HUGE:
            raise ValueError("targets of the forests must span less than 3.4e38; scale them down")
        head.span = array("f", [span])[0]  # as a model file holds it
    fields = ("insertions", "rows_read", "rounds", "seconds")
    head.spent = Spent(*[sum(getattr(f.spent, name) for f in given) for name in fields])
    limits = [forest.limit for forest in given if forest.limit is not None]
    head.limit = sum(limits) if len(limits) == len(given) else None
    head.ranges = ranges.union([forest.ranges for forest in given])
    return head


def _share(head: Forest, parts: list[_Part], turns: _Turns) -> None:
    """Distribute the weight among the trees that are taken; set what depends on it."""
    for part in parts:
        part.count = 0
    for _, n in turns:
        parts[n].count += 1
    parts = [part for part in parts if part.count]
    weights = [Fraction(part.count) if part.weight is None else part.weight for part in parts]
    for part, weight in zip(parts, weights, strict=True):
        part.share = weight / part.count * len(turns) / sum(weights)
    _lift(parts)
    head.scale = _scale(head, parts)
    # Forests without a split know nothing about features.
    split = [part for part in parts if any(part.forest.importances)]
    whole = sum(part.share * part.count for part in split) or Fraction(1)
    head.importances = [
        int(sum(p.share * p.count * p.forest.importances[f] for p in split) / whole + HALF)
        for f in range(len(head.names))
    ]


def _lift(parts: list[_Part]) -> None:
    """Multiply votes for a class that some forests do not know, so that these do not drown it.

    The votes for a class are averaged over the forests that know it, and a quarter of one more
    that gives it nothing: otherwise the mistakes of a forest about a class that it alone knows
    would count too much. A forest that knows few classes divides its votes among few, and so seems
    surer of each: the fourth root makes up for it. Both were chosen by trial on digits, MNIST and
    weather; benchmarks/merge_quarters.py compares them with simpler means.
    """

    def doubt(forests: int) -> Fraction:
        return 1 + Fraction(1, 4 * forests)

    whole = sum(part.share * part.count for part in parts)
    known: dict[Any, list[Fraction]] = {}
    for part in parts:
        for label in part.forest.classes or ():
            known.setdefault(label, []).append(part.share * part.count)
    lift = {
        label: float(min(HUGE, whole / sum(theirs) * doubt(len(parts)) / doubt(len(theirs))))
        for label, theirs in known.items()
    }
    most = max(part.forest.n_votes for part in parts)
    for part in parts:
        unsure = math.sqrt(math.sqrt(part.forest.n_votes / most))
        part.lifts = [unsure * lift[label] for label in part.forest.classes or ()] or [1.0]


def _scale(head: Forest, parts: list[_Part]) -> int:
    """The votes of an average tree: as many as numbers of 16 bits and exact sums hold."""
    trees = sum(part.count for part in parts)
    peaks = [part.share * part.peak * Fraction(max(part.lifts)) for part in parts]
    total = sum(peak * part.count for peak, part in zip(peaks, parts, strict=True))
    scale = parts[0].forest.scale
    lifted = any(set(part.lifts) != {1.0} for part in parts)
    alike = all(p.like(head) and p.forest.scale == scale and p.share == 1 for p in parts)
    if alike and not lifted and scale * total <= SUM:
        return scale  # votes are copied as they are
    slack = 1 if lifted or any(part.peak > 1 for part in parts) else 0  # for rounding up
    scale = int(min(LEVELS, (LEVELS - slack) / max(peaks), (SUM - slack * trees) / total))
    if scale < 1:
        raise ValueError(
            f"weights of {trees} trees differ too much for votes of 16 bits; give max_trees, or "
            "weights that are more alike"
        )
    return scale


def _fitting(head: Forest, parts: list[_Part], turns: _Turns, max_bytes: int) -> int:
    """How many of these trees make a model of at most so many bytes."""
    n_votes = 1 if head.classes is None else len(head.classes)
    sizes = [(0, 0, 0, True)]  # splits, leaves and votes of the first trees; whether in order
    for t, n in turns:
        forest = parts[n].forest
        start, end = walking.extent(forest, t)
        leaves = [forest.right[i] for i in walking.leaves(forest, start, end)]
        places = sorted(set(leaves))
        before = sizes[-1]
        sizes.append(
            (
                before[0] + end - start - len(leaves),
                before[1] + len(leaves),
                before[2] + n_votes * len(places),
                before[3] and leaves == places,
            )
        )

    def size(trees: int) -> int:
        model = like(head)
        _share(model, parts, turns[:trees])
        splits, leaves, votes, ordered = sizes[trees]
        used = [part for part in parts if part.count]
        kept = all(_change(p, model, float(p.share * model.scale)) is None for p in used)
        most = max(max(part.forest.votes) for part in used) if kept else LEVELS
        # The size does not depend on what else the arrays hold.
        model.roots = array("I", [0]) * trees
        walking.fill(model, splits, range(leaves) if ordered else [1] * leaves)
        model.votes = array("H", [most]) * votes
        return len(model.to_json().encode())

    if size(1) > max_bytes:
        raise ValueError(f"max_bytes must be at least {size(1)} for one tree, got {max_bytes}")
    fits, over = 1, len(turns) + 1
    while over - fits > 1:
        middle = (fits + over) // 2
        fits, over = (middle, over) if size(middle) <= max_bytes else (fits, middle)
    return fits


def _codes(forest: Forest, head: Forest) -> _Codes:
    """The joint codes of a forest's categories, where they differ."""
    codes: _Codes = {}
    for f, (old, new) in enumerate(zip(forest.categories, head.categories, strict=True)):
        if old is not None and new is not None and old != new:
            codes[f] = _new_codes(old, new)
    return codes


def _new_codes(old: list[Any], new: list[Any]) -> dict[float, float]:
    """The code of each old category among the new ones."""
    return {c + 1.0: new.index(kind) + 1.0 for c, kind in enumerate(old)}


def _change(part: _Part, head: Forest, scale: float) -> _Change | None:
    """What turns votes of a part into those of the joint forest; None if they stay as they are."""
    forest = part.forest
    if set(part.lifts) != {1.0}:  # nothing has to add up then: round only once
        scale = float(part.share * head.scale)
    per = [scale * lift / forest.scale for lift in part.lifts]
    if forest.classes == head.classes and part.like(head) and set(per) == {1.0}:
        return None
    if forest.classes is None or head.classes is None:
        span = head.span or 1.0
        low = 0.5 if part.like(head) else (forest.low - head.low) / span * scale + 0.5
        factor = per[0] if part.like(head) else forest.span / span * per[0]
        # A tree that is appended may predict a value beyond the range.
        return lambda votes: array("H", [max(0, min(LEVELS, int(factor * votes[0] + low)))])
    place = {label: k for k, label in enumerate(head.classes)}
    places = [place[label] for label in forest.classes]

    def change(votes: array[int]) -> array[int]:
        out = array("H", bytes(2 * len(place)))
        upto = 0.0
        before = 0
        for k, factor, vote in zip(places, per, votes, strict=True):
            upto += factor * vote
            out[k] = int(upto + 0.5) - before  # so that they add up
            before += out[k]
        return out

    return change


def like(forest: Forest) -> Forest:
    """A forest of the engine in use, without trees, with the same header."""
    like = engine.with_predictor(Forest())
    for name in map(attribute, HEADER):
        value = getattr(forest, name)
        setattr(like, name, list(value) if isinstance(value, list) else value)
    for name in ("low", "span", "engine", "spent", "ranges"):
        setattr(like, name, getattr(forest, name))
    return like


def _add(forest: Forest, source: Forest, t: int, codes: _Codes, change: _Change | None) -> None:
    """Append tree t of `source`; categories get these codes, votes are changed."""
    start, end = walking.extent(source, t)
    shift = len(forest.feature) - start
    n_votes = 1 if forest.classes is None else len(forest.classes)
    if end + shift > walking.NARROW and forest.right.typecode == "H":
        forest.right = array("I", forest.right)
    leaves = walking.leaves(source, start, end)
    places = sorted({source.right[leaf] for leaf in leaves})
    here = len(forest.votes) // n_votes
    forest.roots.append(start + shift)
    forest.feature.extend(source.feature[start:end])
    forest.threshold.extend(source.threshold[start:end])
    right = [place + shift for place in source.right[start:end]]
    if change is None and places[-1] - places[0] == len(places) - 1:  # one piece, copied as it is
        for leaf in leaves:
            right[leaf - start] = source.right[leaf] - places[0] + here
        forest.votes.extend(source.votes[places[0] * n_votes : (places[-1] + 1) * n_votes])
    else:
        new = {place: i for i, place in enumerate(places, here)}
        for leaf in leaves:
            right[leaf - start] = new[source.right[leaf]]
        for place in places:
            votes = walking.votes_at(source, place)
            forest.votes.extend(change(votes) if change else votes)
    forest.right.extend(right)
    if codes:
        _recode(forest, codes, start + shift)


def _recode(forest: Forest, codes: _Codes, start: int = 0) -> None:
    """Write new codes of categories into all splits from this node on."""
    for node in walking.nodes(forest, start):
        if node.categorical and node.feature in codes:  # code 0 equals nothing
            forest.threshold[node.place] = codes[node.feature].get(node.threshold, 0.0)


def append(forest: Forest, tree: Forest) -> None:
    """Add the trees of a forest to another one, in place: that one's range and scale stay.

    Classes and categories that are new to it are added. No votes are lifted: these are trees of one
    training, and those that did not meet a class did not meet it by chance.

    >>> from edgeforest import train
    >>> forest = train([[1], [2]] * 9, ["a", "b"] * 9, n_trees=2)
    >>> append(forest, train([[2], [3]] * 9, ["b", "c"] * 9, n_trees=2))
    >>> len(forest), forest.classes
    (4, ['a', 'b', 'c'])
    """
    _refuse_other_features([forest, tree])
    forest.calibration = None  # it was that of other trees
    if forest.classes is not None:
        known = forest.classes
        forest.classes = _union([known, tree.classes], "classes", CLASSES)
        if forest.classes != known:
            places = [forest.classes.index(label) for label in known]
            forest.votes = _wider(forest.votes, places, len(forest.classes))
    changed: _Codes = {}
    for f, kinds in enumerate(forest.categories):
        if kinds is not None and kinds != tree.categories[f]:
            new = forest.categories[f] = _union([kinds, tree.categories[f]], "categories", CODES)
            changed[f] = _new_codes(kinds, new)
    if changed:
        _recode(forest, changed)
    part = _Part(tree)
    part.lifts = [1.0] * tree.n_votes
    codes, change = _codes(tree, forest), _change(part, forest, forest.scale)
    for t in range(len(tree)):
        _add(forest, tree, t, codes, change)
    forest.prepare()


def _wider(votes: array[int], places: list[int], n_votes: int) -> array[int]:
    """Votes with room for more classes, which get none."""
    out = array("H", bytes(2 * n_votes * (len(votes) // len(places))))
    for k, place in enumerate(places):
        out[place::n_votes] = votes[k :: len(places)]
    return out


# ---- Reading what the user gave ---------------------------------------------------------------


def _list(given: Any, what: str) -> list[Any]:
    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise TypeError(f"give a list of {what}, got {type(given).__name__}")
    return list(given)


def _read_weights(parts: list[_Part], weights: Iterable[float] | None) -> None:
    if weights is None:
        return
    values = [between("a weight", v, 0.0, HUGE) for v in _list(weights, "weights")]
    if len(values) != len(parts):
        raise ValueError(
            f"weights must have one for each of {len(parts)} forests, got {len(values)}"
        )
    if not any(values):
        raise ValueError("weights must not all be 0; leave them out to count every tree the same")
    for part, value in zip(parts, values, strict=True):
        part.weight = Fraction(value)


def _refuse_other_features(given: list[Forest]) -> None:
    first = given[0]
    for n, forest in enumerate(given):
        both = forest, first
        if forest.regression != first.regression:
            this, other = ("regression" if f.regression else "classification" for f in both)
            raise ValueError(f"forest {n} is for {this}, forest 0 for {other}")
        if len(forest.names) != len(first.names):
            this, other = (str(len(f.names)) for f in both)
            raise ValueError(f"forest {n} has {this} features, forest 0 has {other}")
        for f, name in enumerate(first.names):
            if forest.names[f] != name:
                this = repr(forest.names[f])
                raise ValueError(f"feature {f} is {this} in forest {n}, {name!r} in forest 0")
            this, other = ("number" if b.categories[f] is None else "category" for b in both)
            if this != other:
                raise ValueError(
                    f"feature {name!r} is a {this} in forest {n}, a {other} in forest 0"
                )


def _union(lists: list[list[Any] | None], what: str, most: int) -> list[Any]:
    """All labels, sorted; if they are the same everywhere, as they are."""
    if all(one == other for one, other in pairwise(lists)):
        return list(lists[0] or ())
    found: list[Any] = sorted_set([v for labels in lists for v in labels or ()], what)
    if len(found) > most:
        raise ValueError(f"{what} are {len(found)} together, a model holds {most}; merge fewer")
    return found
