"""Forests that people can read: why a row gets its answer, and trees as text.

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
from functools import lru_cache
from typing import Any, NamedTuple

from edgeforest.budget import between
from edgeforest.forest import HUGE, INF, MASK, Forest
from edgeforest.forests.walking import (
    Model,
    Node,
    branch_size,
    forest_of,
    node_at,
    tree_value,
    votes_of,
)
from edgeforest.host.frames import is_frame, rows_of
from edgeforest.host.names import cut as shortened
from edgeforest.host.names import quoted, short
from edgeforest.host.words import count

LINE = 92  # characters of a printed line
MOST = 8  # categories or classes that a line lists
LONGEST = 200  # characters of a name that are shown


@dataclass(frozen=True)
class Condition:
    """What a feature must be for every tree to go the same way; `str` says it in words.

    A number must be above `low` and at most `high`, both float32; an infinity means no bound. A
    category must be one of `categories`, and none of `excluded`. If `missing` is true, the value
    may also be missing.
    """

    name: str
    feature: int  # its place in a row
    value: Any  # of the row: a float32, a category (even an unknown one), None if missing
    low: float
    high: float
    categories: tuple[Any, ...] | None  # None: the feature is a number
    excluded: tuple[Any, ...]
    missing: bool
    trees: int  # how many ask about this feature
    nodes: int  # how often they ask
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Path:
    """The path of a row through one tree; `str` says it in words."""

    tree: int
    conditions: tuple[Condition, ...]  # one for each feature, in the order of the first questions
    leaf: int  # its place in the arrays of the forest
    votes: tuple[int, ...]  # of the leaf
    shares: dict[Any, float] | None  # of the classes in the leaf; None for a regression
    says: Any  # the class or value of the leaf

    def __str__(self) -> str:
        says = float_text(self.says) if self.shares is None else shares_text(self.shares)
        because = "because" if self.conditions else "whatever the row is"
        return "\n  ".join([f"tree {self.tree} says {says}, {because}", *map(str, self.conditions)])


@dataclass(frozen=True)
class Explanation:
    """Why a forest gives one row its answer; `str` is a page to read.

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
        """The path through one tree, in words.

        >>> from edgeforest import train
        >>> rows = [[i % 4] for i in range(80)]
        >>> forest = train(rows, [x > 1 for x, in rows], n_trees=2)
        >>> print(explain(forest, [1]).path(1))
        tree 1 says False 100%, because
          x0 <= 1.5
        """
        return str(self.paths[place("tree", tree, len(self.paths))])

    def text(self, top: int | None = 20) -> str:
        """The page that `str` returns, with the `top` conditions, or with all of them for None."""
        trees = len(self.paths)
        if self.shares is None:
            said = [path.says for path in self.paths]
            span = f"from {float_text(min(said))} to {float_text(max(said))}"
            lines = [f"prediction {float_text(self.prediction)}", f"trees      {trees}, {span}"]
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
        column = min(50, max([len(c.text) for c in shown], default=0))
        for c in shown:
            asked = f"asked {_times(c.nodes)} in {c.trees} of {count(trees, 'tree')}"
            lines.append(f"  {c.text:<{column}}  ({_value_text(c)}{asked})")
        rest = self.conditions[len(shown) :]
        if rest:
            lines.append(f"  and {len(rest)} more, each asked {_times(rest[0].nodes)} at most")
        if self.unasked:
            names = _listed([line(name) for name in self.unasked], most=2 * MOST)
            lines += ["", *textwrap.wrap(f"No tree asks about {names}", LINE)]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def explain(model: Model, row: Any) -> Explanation:
    """Why the forest gives this row its answer.

    A row is a list, a tuple or an array, or holds values under the names of the features: a dict, a
    pandas Series. The `conditions` are the box around the row within which it takes the same path
    through every tree, so all votes stay the same. Beyond any of these bounds, some tree takes
    another path. Numbers are compared as float32, as in prediction.

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
    every: list[_Step] = []
    paths = []
    for tree, root in enumerate(forest.roots):
        steps: list[_Step] = []
        node = node_at(forest, root)
        while not node.is_leaf:
            to_left = node.goes_left(x)
            steps.append(_Step(tree, node, to_left))
            node = node_at(forest, node.left if to_left else node.right)
        every += steps
        conditions = tuple(_conditions(forest, values, x, steps))
        paths.append(Path(tree, conditions, node.place, *leaf_answer(forest, node)))
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
    have the digits that distinguish them from every other float32, or so many `decimals`.
    `show_votes` adds the shares of the classes in each leaf.

    A missing value, or a category that training has not met, goes where the text says `or missing`
    or `is not`. Where the text says neither, no missing value gets there: it left the path further
    up. `show_missing=False` leaves this out.

    >>> from edgeforest import train
    >>> rows = [[i % 10, None if i % 3 else i % 4] for i in range(90)]
    >>> y = [a + (10 if b is None else b) for a, b in rows]
    >>> forest = train(rows, y, criterion="mse", n_trees=1, max_features=2)
    >>> print(export_text(forest, max_depth=1, decimals=1))
    tree 0
    |--- x1 is present
    |   |--- x0 <= 4.5 or missing
    |   |   |--- truncated branch of depth 4
    |   |--- x0 > 4.5
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
        return float_text(value) if decimals is None else f"{value:.{decimals}f}"

    def lines(root: int) -> Iterator[str]:
        for branch in branches(forest, root, max_depth, show, show_missing):
            indent = "|   " * branch.depth
            if branch.words:
                yield f"{indent[4:]}|--- {branch.words}"
            if branch.node.is_leaf:
                _, shares, says = leaf_answer(forest, branch.node)
                more = f" ({shares_text(shares)})" if shares and show_votes else ""
                says = f"value: {show(says)}" if shares is None else f"class: {line(says)}{more}"
                yield f"{indent}|--- {says}"
            elif not branch.goes_on:
                levels, _ = branch_size(forest, branch.node.place)
                yield f"{indent}|--- truncated branch of depth {levels}"

    if tree is not None:
        return "\n".join(lines(forest.roots[place("tree", tree, len(forest))]))
    texts = ["\n".join([f"tree {i}", *lines(root)]) for i, root in enumerate(forest.roots)]
    return "\n\n".join(texts)


# ---- Looking into a forest, for the plots too -------------------------------------------------


def place(name: str, value: int, n: int) -> int:
    """A whole number from 0 to n - 1, or an error."""
    return int(between(name, value, 0, n - 1))


def leaf_answer(forest: Forest, leaf: Node) -> tuple[tuple[int, ...], dict[Any, float] | None, Any]:
    """The votes of a leaf, the shares of its classes (None for a regression), its class or value."""
    votes = tuple(votes_of(forest, leaf))
    if forest.classes is None:
        return votes, None, tree_value(forest, votes[0])
    return votes, _shares(forest, votes), forest.classes[votes.index(max(votes))]


class Branch(NamedTuple):
    """A node as text shows it."""

    node: Node
    depth: int
    words: str  # the answer that leads there; none for the root
    goes_on: bool  # whether its children follow


def branches(
    forest: Forest,
    root: int,
    max_depth: int | None,
    show: Callable[[float], str],
    missing: bool = True,
) -> Iterator[Branch]:
    """The nodes of a tree from top to bottom, as the text shows them.

    If `missing` is true, words say where missing values go, wherever some can get to.
    """
    most = INF if max_depth is None else between("max_depth", max_depth, 0, MASK)
    todo: list[tuple[int, int, str, frozenset[int]]] = [(root, 0, "", frozenset())]
    while todo:
        place, depth, words, gone = todo.pop()
        node = node_at(forest, place)
        goes_on = not node.is_leaf and depth <= most
        yield Branch(node, depth, words, goes_on)
        if not goes_on:
            continue
        f, cut, missing_left = node.feature, node.threshold, node.missing_left
        name = line(forest.names[f])
        say_missing = missing and f not in gone  # a missing value gets here
        if node.categorical:
            kinds = [quoted((forest.categories[f] or [])[int(cut) - 1])]
            kinds += ["missing"] if missing_left and say_missing else []
            yes, no = _is(name, kinds), _is_not(name, kinds)
        else:
            yes = _between(name, -INF, cut, missing_left, say_missing, show)
            no = _between(name, cut, INF, not missing_left, say_missing, show)
        without = gone | {f}
        todo.append((node.right, depth + 1, no, without if missing_left else gone))
        todo.append((node.left, depth + 1, yes, gone if missing_left else without))


# ---- Words ------------------------------------------------------------------------------------


@lru_cache(4096)  # each threshold is shown twice
def float_text(value: float) -> str:
    """The shortest text that stands for this float32.

    >>> float_text(20.149999618530273), float_text(3.0), float_text(1e6), float_text(2.0**-126)
    ('20.15', '3', '1000000', '1.1754944e-38')
    """
    for digits in range(1, 10):
        text = f"{value + 0.0:.{digits}g}"
        if array("f", [float(text)])[0] == value:
            break
    return repr(float(text)).removesuffix(".0")


def percent(part: float) -> str:
    """A share in per cent; only everything shows as 100%, and only nothing as 0%.

    >>> percent(1.0), percent(0.25), percent(0.1234), percent(0.99999), percent(0.00001)
    ('100%', '25%', '12.3%', '>99.9%', '<0.1%')
    """
    if 0 < part < 0.0005 or 0.9995 <= part < 1:
        return "<0.1%" if part < 0.5 else ">99.9%"
    return f"{part * 100:.1f}".removesuffix(".0") + "%"


def shares_text(shares: Mapping[Any, float]) -> str:
    """Classes and their shares, the largest first, without those that have no share."""
    some = sorted([(label, part) for label, part in shares.items() if part], key=lambda s: -s[1])
    return _listed([f"{line(label)} {percent(part)}" for label, part in some])


def line(name: object) -> str:
    """A name or a label on one line, as it is shown."""
    return short(" ".join(shortened(str(name), 4 * LONGEST).split()), LONGEST)


def _listed(texts: Sequence[str], last: str = ", ", most: int = MOST) -> str:
    """Texts with commas between them and a word before the last; long lists are cut."""
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
    say_missing: bool,
    show: Callable[[float], str],
) -> str:
    """low < name <= high in words; `say_missing`: mention that missing values get there too."""
    if not low < min(high, HUGE):  # no number lies there, except infinity
        return f"{name} is missing" if missing else f"{name} is infinite"
    if low == -INF and high >= HUGE:
        return f"{name} is anything" if missing else f"{name} is present"
    more = " or missing" if missing and say_missing else ""
    if low == -INF:
        return f"{name} <= {show(high)}{more}"
    if high >= HUGE:
        return f"{name} > {show(low)}{more}"
    return f"{show(low)} < {name} <= {show(high)}{more}"


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _value_text(c: Condition) -> str:
    """The value of the row, unless the condition already says it."""
    if c.value is None:
        return "" if c.text.endswith(" is missing") else "is missing; "
    says = float_text(c.value) if c.categories is None else quoted(c.value)
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


class _Step(NamedTuple):
    """A question on the path of a row, and its answer."""

    tree: int
    node: Node
    to_left: bool


def _conditions(
    forest: Forest, values: Any, x: Sequence[float], steps: Iterable[_Step]
) -> Iterator[Condition]:
    """What these steps demand of each feature, in the order of the first questions."""
    asked: dict[int, list[_Step]] = {}
    for step in steps:
        asked.setdefault(step.node.feature, []).append(step)
    for f, those in asked.items():
        name, kinds = line(forest.names[f]), forest.categories[f]
        low, high, missing = -INF, INF, True
        stay = set(kinds or ())
        for _, node, to_left in those:
            cut = node.threshold
            missing = missing and to_left == node.missing_left
            if node.categorical:
                one = {(kinds or [])[int(cut) - 1]}
                stay = stay & one if to_left else stay - one
            else:
                low, high = (low, min(high, cut)) if to_left else (max(low, cut), high)
        absent = x[f] != x[f]  # or an unknown category: then words speak of missing values
        value, categories = None if absent else x[f], None
        if kinds is not None:
            value = values[f].item() if hasattr(values[f], "item") else values[f]
            value = None if value != value else value
            categories = tuple(v for v in kinds if v in stay)
        excluded = tuple(v for v in kinds or () if v not in stay)
        if categories is None:
            text = _between(name, low, high, missing, absent, float_text)
        elif len(categories) + absent <= len(excluded) + (not missing):
            text = _is(name, [*map(quoted, categories), *(["missing"] if absent else [])])
        else:
            text = _is_not(name, [*map(quoted, excluded), *([] if missing else ["missing"])])
        trees = len({tree for tree, _, _ in those})
        yield Condition(
            name, f, value, low, high, categories, excluded, missing, trees, len(those), text
        )
