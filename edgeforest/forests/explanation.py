"""Forests that can be read: why a row gets the answer it gets, and trees as text.

>>> from edgeforest import train
>>> days = ["mon", "sat", "sun"]
>>> rows = [[18 + i % 8, days[i % 3]] for i in range(400)]
>>> labels = ["open" if t > 21 and day != "sun" else "shut" for t, day in rows]
>>> forest = train(
...     rows, labels, names=["t", "day"], categorical=["day"], n_trees=5, max_features=2
... )
>>> print(explain(forest, {"t": 24, "day": "sat"}))
prediction open
votes      open 100%
trees      5 of 5 say open
<BLANKLINE>
The answer stays exactly the same as long as
  t > 21.5          (is 24; asked 5 times in 5 of 5 trees)
  day is not 'sun'  (is 'sat'; asked 5 times in 5 of 5 trees)
>>> print(export_text(forest, tree=0))
|--- t <= 21.5
|   |--- class: shut
|--- t > 21.5 or missing
|   |--- day is 'sun'
|   |   |--- class: shut
|   |--- day is not 'sun'
|   |   |--- class: open
"""

from __future__ import annotations

import textwrap
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from edgeforest.forest import EQUAL, FEATURE, Forest, HUGE, INF, LEAF, MISSING_LEFT
from edgeforest.host.frames import is_frame, rows_of
from edgeforest.host.names import cut as shortened
from edgeforest.host.names import quoted, short
from edgeforest.host.words import count
from edgeforest.checks import between

WIDTH = 92  # of printed lines
MOST = 8  # categories or classes that a line lists
LONGEST = 200  # characters of a name that are shown


class Fitted(Protocol):
    """An estimator that holds a forest."""

    @property
    def forest_(self) -> Any: ...


Model: TypeAlias = Forest | Fitted


@dataclass(frozen=True)
class Condition:
    """What one feature has to be for trees to go on as they do; `str` says it in words.

    A number must be above `low` and at most `high`, all of them float32, where infinities stand for
    no bound; a category must be one of `categories`, and none of `excluded`. If `missing` is true,
    a missing value does as well.
    """

    name: str
    feature: int  # its place in a row
    value: Any  # what the row has: a float32, a category (even an unknown one), None if missing
    low: float
    high: float
    categories: tuple[Any, ...] | None  # None: the feature is a number
    excluded: tuple[Any, ...]
    missing: bool
    trees: int  # how many ask about this feature on their way
    nodes: int  # how often they do
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Path:
    """The way of a row through one tree; `str` says it in words."""

    tree: int
    conditions: tuple[Condition, ...]  # one for each feature, in the order they were first asked
    leaf: int  # its place in the arrays of the forest
    votes: tuple[int, ...]  # of the leaf
    shares: dict[Any, float] | None  # of the classes in the leaf; None for a regression
    says: Any  # its class or value

    def __str__(self) -> str:
        says = number(self.says) if self.shares is None else shares_text(self.shares)
        because = "because" if self.conditions else "whatever the row is"
        return "\n  ".join([f"tree {self.tree} says {says}, {because}", *map(str, self.conditions)])


@dataclass(frozen=True)
class Explanation:
    """Why a forest answers what it answers for one row; `str` is a page to read.

    >>> from edgeforest import explain, train
    >>> forest = train([[i % 4] for i in range(80)], [i % 4 > 1 for i in range(80)], n_trees=2)
    >>> why = explain(forest, [3])
    >>> why.prediction, why.shares, [condition.text for condition in why.conditions]
    (True, {False: 0.0, True: 1.0}, ['x0 > 1.5'])
    """

    prediction: Any
    shares: dict[Any, float] | None  # of the classes; None for a regression
    paths: tuple[Path, ...]  # one for each tree
    conditions: tuple[Condition, ...]  # of all trees together, those asked most often first
    unasked: tuple[str, ...]  # names of the other features, which may be anything

    def path(self, tree: int) -> str:
        """The way through one tree, in words.

        >>> from edgeforest import train
        >>> rows = [[i % 4] for i in range(80)]
        >>> forest = train(rows, [x > 1 for x, in rows], n_trees=2)
        >>> print(explain(forest, [1]).path(1))
        tree 1 says False 100%, because
          0.5 < x0 <= 1.5
        """
        return str(self.paths[place("tree", tree, len(self.paths))])

    def text(self, top: int | None = 20) -> str:
        """The page that `str` gives, with the `top` conditions, or all of them for None."""
        trees = len(self.paths)
        if self.shares is None:
            said = [path.says for path in self.paths]
            span = f"from {number(min(said))} to {number(max(said))}"
            lines = [f"prediction {number(self.prediction)}", f"trees      {trees}, {span}"]
        else:
            agree = sum(path.says == self.prediction for path in self.paths)
            lines = [
                f"prediction {line(self.prediction)}",
                f"votes      {shares_text(self.shares)}",
                f"trees      {agree} of {trees} say {line(self.prediction)}",
            ]
        if not self.conditions:
            return "\n".join([*lines, "", "No tree asks anything: every row gets this answer."])
        lines += ["", "The answer stays exactly the same as long as"]
        shown = self.conditions[:top]
        wide = min(50, max([len(c.text) for c in shown], default=0))
        for c in shown:
            asked = f"asked {_times(c.nodes)} in {c.trees} of {count(trees, 'tree')}"
            lines.append(f"  {c.text:<{wide}}  ({_value_text(c)}{asked})")
        rest = self.conditions[len(shown) :]
        if rest:
            lines.append(f"  and {len(rest)} more, each asked {_times(rest[0].nodes)} at most")
        if self.unasked:
            names = _listed([line(name) for name in self.unasked], most=2 * MOST)
            lines += ["", *textwrap.wrap(f"No tree asks about {names}", WIDTH)]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def explain(model: Model, row: Any) -> Explanation:
    """Why the forest answers what it answers for one row.

    A row is a list, a tuple, an array, or what has values by the names of the features: a dict, a
    pandas Series. The `conditions` are the box around the row within which every tree goes the
    same way, so that all votes are the same; a step across any of its bounds, and some tree goes
    another way. Numbers are compared as float32, as in prediction.

    >>> from edgeforest import train
    >>> rows = [[i % 4] for i in range(80)]
    >>> because = explain(train(rows, [x > 1 for x, in rows], n_trees=9), [2.25])
    >>> because.prediction, because.shares
    (True, {False: 0.0, True: 1.0})
    >>> [(c.name, c.low, c.high, c.value) for c in because.conditions]
    [('x0', 1.5, inf, 2.25)]
    """
    forest = forest_of(model)
    values = _row(forest, row)
    x = forest.encode(values)
    votes = [0] * forest.n_votes
    best = forest.predict_into(x, votes)
    every: list[tuple[int, int, bool]] = []  # tree, node, whether the row goes left
    paths = []
    for tree, node in enumerate(forest.roots):
        steps = []
        while forest.feature[node] != LEAF:
            left = _goes_left(forest, node, x)
            steps.append((tree, node, left))
            node = node + 1 if left else forest.right[node]
        every += steps
        conditions = tuple(_conditions(forest, values, x, steps))
        paths.append(Path(tree, conditions, node, *leaf_of(forest, node)))
    found = sorted(_conditions(forest, values, x, every), key=lambda c: (-c.nodes, c.feature))
    asked = {c.feature for c in found}
    return Explanation(
        forest.value(votes[0]) if forest.classes is None else forest.classes[best],
        _shares(forest, votes),
        tuple(paths),
        tuple(found),
        tuple(name for f, name in enumerate(forest.names) if f not in asked),
    )


def export_text(
    model: Model,
    tree: int | None = None,
    max_depth: int | None = 10,
    decimals: int | None = None,
    show_votes: bool = False,
    show_missing: bool = True,
) -> str:
    """The trees as indented text, like scikit-learn's `export_text`: all of them, or one.

    Branches go on for `max_depth` questions after the first one; None shows them whole. Numbers
    have as many digits as tell them from every other float32, or as many `decimals` as said.
    `show_votes` adds the shares of the classes in each leaf.

    A missing value, or a category that training has not met, goes where it says `or missing`, or
    `is not`. Where nothing is said of it, none gets there: it went another way further up.
    `show_missing=False` leaves this out.

    >>> from edgeforest import train
    >>> rows = [[i % 10, None if i % 3 else i % 4] for i in range(90)]
    >>> y = [a + (10 if b is None else b) for a, b in rows]
    >>> forest = train(rows, y, criterion="mse", n_trees=1, max_features=2)
    >>> print(export_text(forest, max_depth=1, decimals=1))
    tree 0
    |--- x1 is present
    |   |--- x0 <= 5.5 or missing
    |   |   |--- truncated branch of depth 5
    |   |--- x0 > 5.5
    |   |   |--- truncated branch of depth 4
    |--- x1 is missing
    |   |--- x0 <= 4.5 or missing
    |   |   |--- truncated branch of depth 4
    |   |--- x0 > 4.5
    |   |   |--- truncated branch of depth 4
    """
    forest = forest_of(model)
    if decimals is not None:
        decimals = place("decimals", decimals, 100)

    def show(value: float) -> str:
        return number(value) if decimals is None else f"{value:.{decimals}f}"

    def lines(root: int) -> Iterator[str]:
        for node, depth, question, whole in branches(forest, root, max_depth, show, show_missing):
            indent = "|   " * depth
            if question:
                yield f"{indent[4:]}|--- {question}"
            if forest.feature[node] == LEAF:
                _, shares, says = leaf_of(forest, node)
                more = f" ({shares_text(shares)})" if shares and show_votes else ""
                says = f"value: {show(says)}" if shares is None else f"class: {line(says)}{more}"
                yield f"{indent}|--- {says}"
            elif not whole:
                yield f"{indent}|--- truncated branch of depth {size_of(forest, node)[0]}"

    if tree is not None:
        return "\n".join(lines(forest.roots[place("tree", tree, len(forest))]))
    texts = ["\n".join([f"tree {i}", *lines(root)]) for i, root in enumerate(forest.roots)]
    return "\n\n".join(texts)


# ---- Looking into a forest, for the plots too -------------------------------------------------


def forest_of(model: Model) -> Forest:
    """The forest itself, or that of a fitted estimator.

    >>> forest_of([1, 2])
    Traceback (most recent call last):
    TypeError: model must be a Forest or a fitted estimator, got [1, 2]
    """
    forest = model if isinstance(model, Forest) else getattr(model, "forest_", None)
    if not isinstance(forest, Forest):
        raise TypeError(f"model must be a Forest or a fitted estimator, got {model!r}")
    return forest


def place(name: str, value: int, n: int) -> int:
    """A whole number from 0 to n - 1, or an error."""
    return int(between(name, value, 0, n - 1))


def leaf_of(forest: Forest, leaf: int) -> tuple[tuple[int, ...], dict[Any, float] | None, Any]:
    """The votes of a leaf, the shares of its classes (None for a regression), and what it says."""
    at = forest.right[leaf] * forest.n_votes
    votes = tuple(forest.votes[at : at + forest.n_votes])
    if forest.classes is not None:
        return votes, _shares(forest, votes), forest.classes[votes.index(max(votes))]
    step = array("f", [forest.span / forest.scale])[0]  # as `Forest.value`, of one tree
    part = array("f", [votes[0] * step])[0]
    return votes, None, array("f", [part + forest.low])[0]


def size_of(forest: Forest, node: int) -> tuple[int, int]:
    """The levels of the branch that begins with this node, its leaves' included; and its leaves."""
    levels = leaves = 0
    level = [node]
    while level:
        levels += 1
        inner = [n for n in level if forest.feature[n] != LEAF]
        leaves += len(level) - len(inner)
        level = [child for n in inner for child in (n + 1, forest.right[n])]
    return levels, leaves


def branches(
    forest: Forest,
    root: int,
    max_depth: int | None,
    show: Callable[[float], str],
    missing: bool = True,
) -> Iterator[tuple[int, int, str, bool]]:
    """The nodes of a tree from top to bottom, as in the text: place, depth, the words that lead
    there, and whether its own children follow.

    Words say where missing values go, where some can get to; or not at all if `missing` is false.
    """
    most = INF if max_depth is None else place("max_depth", max_depth, 1 << 30)
    todo: list[tuple[int, int, str, frozenset[int]]] = [(root, 0, "", frozenset())]
    while todo:
        node, depth, question, gone = todo.pop()
        flags, cut = forest.feature[node], forest.threshold[node]
        whole = flags != LEAF and depth <= most
        yield node, depth, question, whole
        if not whole:
            continue
        f = flags & FEATURE
        name, left = line(forest.names[f]), bool(flags & MISSING_LEFT)
        told = missing and f not in gone  # a missing value gets here
        if flags & EQUAL:
            kinds = [quoted((forest.categories[f] or [])[int(cut) - 1])]
            kinds += ["missing"] if left and told else []
            yes, no = _is(name, kinds), _is_not(name, kinds)
        else:
            yes = _between(name, -INF, cut, left, told, show)
            no = _between(name, cut, INF, not left, told, show)
        without = gone | {f}
        todo.append((forest.right[node], depth + 1, no, without if left else gone))
        todo.append((node + 1, depth + 1, yes, gone if left else without))


# ---- Words ------------------------------------------------------------------------------------


def number(value: float) -> str:
    """The shortest text that names this float32.

    >>> number(20.149999618530273), number(3.0), number(1e6), number(2.0**-126)
    ('20.15', '3', '1000000', '1.1754944e-38')
    """
    for digits in range(1, 10):
        text = f"{value + 0.0:.{digits}g}"
        if array("f", [float(text)])[0] == value:
            break
    return repr(float(text)).removesuffix(".0")


def share(part: float) -> str:
    """A share as per cent; only all and nothing look like it.

    >>> share(1.0), share(0.25), share(0.1234), share(0.99999), share(0.00001)
    ('100%', '25%', '12.3%', '>99.9%', '<0.1%')
    """
    if 0 < part < 0.0005 or 0.9995 <= part < 1:
        return "<0.1%" if part < 0.5 else ">99.9%"
    return f"{part * 100:.1f}".removesuffix(".0") + "%"


def shares_text(shares: Mapping[Any, float]) -> str:
    """Classes and their shares, the largest first, without those that have none."""
    some = sorted([(label, part) for label, part in shares.items() if part], key=lambda s: -s[1])
    return _listed([f"{line(label)} {share(part)}" for label, part in some])


def line(name: object) -> str:
    """A name or a label on one line, as it is shown."""
    return short(" ".join(shortened(str(name), 4 * LONGEST).split()), LONGEST)


def _listed(texts: Sequence[str], last: str = ", ", most: int = MOST) -> str:
    """Texts with commas between them and a word before the last, cut where it gets long."""
    if len(texts) > most:
        texts = [*texts[:most], f"{len(texts) - most} more"]
        last = " and " if last == ", " else last
    return last.join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _is(name: str, kinds: Sequence[str]) -> str:
    return f"{name} is {_listed(kinds, ' or ')}"


def _is_not(name: str, kinds: Sequence[str]) -> str:
    if len(kinds) < 2:
        return f"{name} is not {kinds[0]}" if kinds else f"{name} is anything"
    return f"{name} is neither {_listed(kinds, ' nor ')}"


def _between(
    name: str,
    low: float,
    high: float,
    missing: bool,
    told: bool,
    show: Callable[[float], str],
) -> str:
    """low < name <= high in words; `told` is whether to say that a missing value is there, too."""
    if not low < min(high, HUGE):  # no number, but for infinity
        return f"{name} is missing" if missing else f"{name} is infinite"
    if low == -INF and high >= HUGE:
        return f"{name} is anything" if missing else f"{name} is present"
    more = " or missing" if missing and told else ""
    if low == -INF:
        return f"{name} <= {show(high)}{more}"
    if high >= HUGE:
        return f"{name} > {show(low)}{more}"
    return f"{show(low)} < {name} <= {show(high)}{more}"


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _value_text(c: Condition) -> str:
    """What the row has, unless the condition says just that."""
    if c.value is None:
        return "" if c.text.endswith(" is missing") else "is missing; "
    says = number(c.value) if c.categories is None else quoted(c.value)
    if c.text.endswith(f" is {says}"):
        return ""
    strange = c.text.endswith(" is missing") or c.value not in (c.categories or [c.value])
    return f"is {says}{', which counts as missing' if strange else ''}; "


# ---- One row ----------------------------------------------------------------------------------


def _row(forest: Forest, row: Any) -> Any:
    """The values of a row in the order of the features."""
    if is_frame(row):
        rows = rows_of(forest, row)
        if len(rows) != 1:
            raise ValueError(f"explain takes one row, got a frame of {len(rows)}; give one of them")
        return rows[0]
    if not isinstance(row, Mapping) and hasattr(row, "to_dict"):
        row = row.to_dict()
    if not isinstance(row, Mapping):
        return row
    given = {str(name): value for name, value in row.items()}
    for name in forest.names:
        if name not in given:
            raise ValueError(
                f"row must have a value for each feature, got none for {name!r}; give None where "
                "it is missing"
            )
    return [given[name] for name in forest.names]


def _shares(forest: Forest, votes: Sequence[int]) -> dict[Any, float] | None:
    if forest.classes is None:
        return None
    total = sum(votes) or 1
    return {label: v / total for label, v in zip(forest.classes, votes, strict=True)}


def _goes_left(forest: Forest, node: int, x: Sequence[float]) -> bool:
    """Where a row goes, as in `Forest.predict_into`."""
    flags, cut = forest.feature[node], forest.threshold[node]
    value = x[flags & FEATURE]
    if value != value or (flags & EQUAL and value == 0):
        return bool(flags & MISSING_LEFT)
    return value == cut if flags & EQUAL else value <= cut


def _conditions(
    forest: Forest, values: Any, x: Sequence[float], steps: Iterable[tuple[int, int, bool]]
) -> Iterator[Condition]:
    """What these steps ask of each feature, joined; in the order they were first asked."""
    asked: dict[int, list[tuple[int, int, bool]]] = {}
    for step in steps:
        asked.setdefault(forest.feature[step[1]] & FEATURE, []).append(step)
    for f, those in asked.items():
        name, kinds = line(forest.names[f]), forest.categories[f]
        low, high, missing = -INF, INF, True
        stay = set(kinds or ())
        for _, node, left in those:
            flags, cut = forest.feature[node], forest.threshold[node]
            missing = missing and left == bool(flags & MISSING_LEFT)
            if flags & EQUAL:
                one = {(kinds or [])[int(cut) - 1]}
                stay = stay & one if left else stay - one
            else:
                low, high = (low, min(high, cut)) if left else (max(low, cut), high)
        absent = x[f] != x[f]  # an unknown category, too: then words speak of missing values
        value, categories = None if absent else x[f], None
        if kinds is not None:
            value = values[f].item() if hasattr(values[f], "item") else values[f]
            value = None if value != value else value
            categories = tuple(v for v in kinds if v in stay)
        excluded = tuple(v for v in kinds or () if v not in stay)
        if categories is None:
            text = _between(name, low, high, missing, absent, number)
        elif len(categories) + absent <= len(excluded) + (not missing):
            text = _is(name, [*map(quoted, categories), *(["missing"] if absent else [])])
        else:
            text = _is_not(name, [*map(quoted, excluded), *([] if missing else ["missing"])])
        trees = len({tree for tree, _, _ in those})
        yield Condition(
            name, f, value, low, high, categories, excluded, missing, trees, len(those), text
        )
