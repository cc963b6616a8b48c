"""Join the forests that devices sent, whoever sent them: each is checked, weighed and capped.

A model from outside is bytes. It is used only if its size, its checks, its features and its votes
are in order; otherwise it is left out, with the reason in one sentence. None of them can stop the
others from being joined, make the result larger than it may be, or outvote all others.

>>> from edgeforest import train
>>> rows = [[i % 9, i % 4] for i in range(90)]
>>> low = train(rows, ["low" if a < 5 else "mid" for a, _ in rows], n_trees=3)
>>> high = train(rows, ["mid" if a < 7 else "high" for a, _ in rows], n_trees=3)
>>> joint = join([
...     Sent("kitchen", low.to_json().encode(), rows=90),
...     Sent("cellar", high.to_json().encode(), rows=90),
...     Sent("garage", b"garbage", rows=90),
... ], classes=["low", "mid", "high"])
>>> joint.forest.classes, joint.accepted, joint.rejected
(['high', 'low', 'mid'], ['kitchen', 'cellar'], ['garage'])
>>> print(joint)  # doctest: +ELLIPSIS
kitchen    weight 0.50, 3 trees, ...
cellar     weight 0.50, 3 trees, ...
garage     rejected: this is not an EdgeForest model; give a file that Forest.save wrote
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from statistics import median_low
from typing import Any

from edgeforest.budget import between
from edgeforest.engines import load
from edgeforest.forest import MASK, Forest
from edgeforest.forests import walking
from edgeforest.forests.merging import CLASSES, CODES, merge
from edgeforest.host.frames import rows_of
from edgeforest.host.names import listed, quoted, short
from edgeforest.host.words import count

FAR = 10.0  # a regression may be off the range of the others by so many times their width
COUNTS = 1 << 53  # what a model says it spent: beyond this it is no count


@dataclass(frozen=True)
class Limits:
    """The most that a model of one device may have, and the most devices of one round.

    >>> Limits(trees=20).trees, Limits().bytes
    (20, 1000000)
    """

    bytes: int = 1_000_000
    trees: int = 1000
    nodes: int = 100_000
    depth: int = 64
    features: int = 4096
    classes: int = 256
    devices: int = 1000


@dataclass(frozen=True)
class Sent:
    """What a device sent: its name, its model, and how many rows it says it has.

    >>> Sent("kitchen", b"{}", rows=1200).rows
    1200
    """

    name: str
    model: bytes = field(repr=False)
    rows: int | None = None
    problem: str = ""  # why the model did not arrive, where that is known


@dataclass
class Verdict:
    """What became of one device's model: its weight, or the reason why it is left out.

    >>> print(Verdict("cellar", 512, reason="the model is cut short; copy the file again"))
    cellar     rejected: the model is cut short; copy the file again
    """

    name: str
    bytes: int
    rows: int | None = None
    trees: int = 0
    score: float | None = None  # on the server's rows: 0 is guessing, 1 is perfect
    weight: float = 0.0  # its share of all votes
    reason: str = ""  # why it was left out; nothing if it was not
    note: str = ""  # why its model is one of an earlier round; nothing if it is not

    def __str__(self) -> str:
        if self.reason:
            return f"{short(self.name):10} rejected: {self.reason}"
        note = f"; {self.note}" if self.note else ""
        score = "" if self.score is None else f", score {self.score:.2f}"
        return (
            f"{short(self.name):10} weight {self.weight:.2f}, {count(self.trees, 'tree')}, "
            f"{count(self.bytes, 'byte')}{score}{note}"
        )


@dataclass
class Joint:
    """The joint forest, None if no model could be used, and what became of each model."""

    forest: Forest | None
    verdicts: list[Verdict]

    @property
    def accepted(self) -> list[str]:
        """The names of the devices whose trees are in the forest."""
        return [verdict.name for verdict in self.verdicts if not verdict.reason]

    @property
    def rejected(self) -> list[str]:
        """The names of the devices whose models were left out."""
        return [verdict.name for verdict in self.verdicts if verdict.reason]

    def __str__(self) -> str:
        """A line for each device."""
        return "\n".join(map(str, self.verdicts))


class _Candidate:
    """A model that may become a part of the joint forest."""

    def __init__(self, sent: Sent, verdict: Verdict, forest: Forest) -> None:
        self.sent, self.verdict, self.forest = sent, verdict, forest
        self.loudness, self.low, self.high = _loudness(forest)

    def schema(self) -> Hashable:
        """What must be the same in all models."""
        kinds = [None if kinds is None else _kind(kinds) for kinds in self.forest.categories]
        return tuple(self.forest.names), tuple(kinds), _kind(self.forest.classes)


def join(
    models: Iterable[Sent],
    X: Any = None,
    y: Any = None,
    *,
    classes: Iterable[Any] | None = None,
    features: Iterable[str] | None = None,
    max_bytes: int | None = None,
    limits: Limits | None = None,
    key: str | bytes | None = None,
) -> Joint:
    """One forest from models of devices that need not be trusted, and what became of each.

    X and y are rows of the server's own, if it has some: a model then has the weight that its score
    on them gives it, and one that only guesses is left out. Without them its weight is the number
    of rows that the device says it has. Either way no device has more weight than the median one. A
    class must be known to two devices, be in y, or be named in `classes`: otherwise one device
    could make up a class and win it always. `features` are the names that all models must have, by
    default those that most of them have. `max_bytes` limits the joint model; if it is too large,
    trees are left out, with X and y those that contribute least. With a `key` only models that were
    signed with it are used.

    >>> from edgeforest import train
    >>> rows = [[i % 9, i % 4] for i in range(90)]
    >>> labels = [a > 4 for a, _ in rows]
    >>> good = train(rows, labels, n_trees=5).to_json().encode()
    >>> liar = train(rows, [not label for label in labels], n_trees=5).to_json().encode()
    >>> joint = join([Sent("a", good, 90), Sent("b", liar, 10**9)], rows, labels)
    >>> joint.accepted, joint.verdicts[1].reason
    (['a'], "it is no better than guessing on the server's rows")
    """
    if (X is None) is not (y is None):
        raise ValueError("X and y belong together; give both, or none")
    limits = limits or Limits()
    verdicts: list[Verdict] = []
    candidates: list[_Candidate] = []
    names: set[str] = set()
    for sent in models:
        verdict = Verdict(str(sent.name), len(sent.model), _rows(sent.rows))
        verdicts.append(verdict)
        try:
            if sent.problem:
                raise ValueError(sent.problem)
            if len(names) >= limits.devices:
                raise ValueError(f"there are {limits.devices:,} models already")
            if sent.name in names:
                raise ValueError("a device of this name has sent a model already")
            forest = read(sent.model, limits, key)
            verdict.trees = len(forest)
            candidates.append(_Candidate(sent, verdict, forest))
            names.add(sent.name)
        except ValueError as error:
            verdict.reason = str(error)
    labels = None if y is None else _list(y)
    if labels is not None and len(labels) != len(X):
        raise ValueError(f"X has {count(len(X), 'row')}, y has {len(labels):,}")
    used = _in_range(_within_room(_same_schema(candidates, features)), labels)
    used = _skilled(_of_known_classes(used, labels, classes), X, labels)
    if not used:
        return Joint(None, verdicts)
    weights = _weights(used)
    for one, weight in zip(used, weights, strict=True):
        one.verdict.weight = weight
    return Joint(_merged(used, weights, X, labels, max_bytes), verdicts)


class Fleet:
    """Rounds of `join` that remember: who is silent or sends nonsense keeps the last good model.

    The options are those of `join`. `rounds` is for how many rounds a model is kept.

    >>> from edgeforest import train
    >>> rows = [[i % 9, i % 4] for i in range(90)]
    >>> good = train(rows, [a > 4 for a, _ in rows], n_trees=5).to_json().encode()
    >>> fleet = Fleet()
    >>> fleet.round([Sent("kitchen", good, 90), Sent("cellar", good, 90)]).accepted
    ['kitchen', 'cellar']
    >>> print(fleet.round([Sent("kitchen", good, 95)]))  # doctest: +ELLIPSIS
    kitchen    weight 0.50, 5 trees, ...
    cellar     weight 0.50, 5 trees, ...; it is silent, so its model of round 1 is used
    """

    def __init__(self, X: Any = None, y: Any = None, *, rounds: int = 10, **options: Any) -> None:
        self.X, self.y, self.options = X, y, options
        self.rounds = between("rounds", rounds, 0, MASK)
        self.done = 0
        self._good: dict[str, tuple[int, Sent]] = {}  # the last good model of each, and its round

    def round(self, models: Iterable[Sent]) -> Joint:
        """Join what devices sent in this round, and what those without a good model sent before."""
        self.done += 1
        given = list(models)
        oldest = self.done - self.rounds
        self._good = {name: kept for name, kept in self._good.items() if kept[0] >= oldest}
        needed = dict.fromkeys({*self._good} - {sent.name for sent in given}, "it is silent")
        # What cannot be read is replaced before the others are judged by what all of them know.
        for sent in given:
            if sent.name in self._good and (problem := self._problem(sent)):
                needed[sent.name] = problem
        joint = self._join([sent for sent in given if sent.name not in needed], needed)
        bad = {v.name: v.reason for v in joint.verdicts if v.reason and v.name in self._good}
        if {*bad} - {*needed}:  # they sent something better before
            left_out = [verdict for verdict in joint.verdicts if verdict.reason]
            fine = {*joint.accepted}
            used = [s for s in given if s.name in fine and s.name not in needed]
            joint = self._join(used, {**bad, **needed})
            told = {verdict.name for verdict in joint.verdicts}
            joint.verdicts += [verdict for verdict in left_out if verdict.name not in told]
        new = {v.name for v in joint.verdicts if not v.reason and not v.note}
        self._good.update((sent.name, (self.done, sent)) for sent in given if sent.name in new)
        return joint

    def _problem(self, sent: Sent) -> str:
        """Why a model cannot be read; nothing if it can."""
        try:
            if not sent.problem:
                read(sent.model, self.options.get("limits"), self.options.get("key"))
        except ValueError as error:
            return str(error)
        return sent.problem

    def _join(self, given: list[Sent], why: dict[str, str]) -> Joint:
        """Join these and earlier models of those in `why`, which says why they are needed."""
        kept = [sent for name, (_, sent) in self._good.items() if name in why]
        joint = join([*given, *kept], self.X, self.y, **self.options)
        for verdict in joint.verdicts:
            if verdict.name in why:
                number = self._good[verdict.name][0]
                verdict.note = f"{why[verdict.name]}, so its model of round {number} is used"
        return joint


def read(model: bytes, limits: Limits | None = None, key: str | bytes | None = None) -> Forest:
    """A forest from bytes that a stranger sent; a ValueError says why it is refused.

    >>> read(b"x" * 2000, Limits(bytes=1000))
    Traceback (most recent call last):
    ValueError: it has 2,000 bytes, at most 1,000 are accepted
    """
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise ValueError(f"a model must be bytes, got {type(model).__name__}")
    limits = limits or Limits()
    _most(len(model), limits.bytes, "byte")
    text = bytes(model)
    if key is not None:
        signing = import_module("edgeforest.export.signing")
        if text[:1] != b"{":  # which would be taken for a path
            raise ValueError("this is not an EdgeForest model; give a file that Forest.save wrote")
        forest: Forest = signing.load_signed(text, key)
    else:
        forest = load(io.BytesIO(text))
    _most(len(forest), limits.trees, "tree")
    _most(len(forest.feature), limits.nodes, "node")
    _most(len(forest.names), limits.features, "feature")
    _most(len(forest.classes or ()), limits.classes, "class", "classes")
    _most(walking.depth(forest), limits.depth, "level of splits", "levels of splits")
    spent = forest.spent
    if max(spent.insertions, spent.rows_read, spent.rounds, forest.limit or 0) > COUNTS:
        raise ValueError("what it says it spent is too much to be true")
    if forest.classes is not None and len(forest.classes) < 2:
        raise ValueError("it knows one class only, so it cannot tell anything apart")
    return forest


# ---- Which models are used ----------------------------------------------------------------------


def _most(number: int, most: int, noun: str, nouns: str = "") -> None:
    if number > most:
        raise ValueError(f"it has {count(number, noun, nouns)}, at most {most:,} are accepted")


def _rows(rows: Any) -> int | None:
    """The number of rows that a device says it has; None if that is not a number of rows."""
    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 < rows <= MASK:
        return None
    return rows


def _list(values: Any) -> list[Any]:
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _kind(labels: list[Any] | None) -> str:
    """What labels or categories are."""
    if labels is None:
        return "value"
    return "text" if labels and isinstance(labels[0], str) else "number"


def _loudness(forest: Forest) -> tuple[float, float, float]:
    """The most that its votes can weigh, where 1 is usual; and the range of a regression's values.

    The scale of a model is what its maker wrote, so that votes may be many times as large.
    """
    width = forest.n_votes
    if forest.classes is None:
        part = max(forest.votes) / forest.scale
        return 1.0, forest.low, forest.low + forest.span * max(1.0, part)
    votes, total = forest.votes, 0
    for tree in range(len(forest)):
        leaves = walking.leaves(forest, *walking.extent(forest, tree))
        places = {forest.right[leaf] * width for leaf in leaves}
        total += max(sum(votes[place : place + width]) for place in places)
    return max(total, 1) / (len(forest) * forest.scale), 0.0, 0.0


def _same_schema(given: list[_Candidate], features: Iterable[str] | None) -> list[_Candidate]:
    """Those with the features that are named, of the kinds that most of them have."""
    if features is not None:
        named = list(features)
        for one in given:
            if one.forest.names != named:
                one.verdict.reason = f"its features are not {listed(named, most=3)}"
        given = [one for one in given if not one.verdict.reason]
    if not given:
        return []
    schemas = [one.schema() for one in given]
    usual = Counter(schemas).most_common(1)[0][0]
    first = given[schemas.index(usual)].forest
    used = []
    for one, schema in zip(given, schemas, strict=True):
        if schema == usual:
            used.append(one)
        else:
            one.verdict.reason = _difference(one.forest, first)
    return used


def _difference(forest: Forest, usual: Forest) -> str:
    if forest.regression != usual.regression:
        this, others = ("regression" if f.regression else "classification" for f in (forest, usual))
        return f"it is for {this}, the others for {others}"
    if len(forest.names) != len(usual.names):
        return f"it has {count(len(forest.names), 'feature')}, the others {len(usual.names)}"
    for f, (name, other) in enumerate(zip(forest.names, usual.names, strict=True)):
        if name != other:
            return f"feature {f} is {quoted(name)}, that of the others {quoted(other)}"
    return "its categories or classes are of another kind than those of the others"


def _within_room(given: list[_Candidate]) -> list[_Candidate]:
    """Those whose classes and categories fit into one model, those with few of them first."""

    def labels(forest: Forest) -> list[list[Any]]:
        return [forest.classes or [], *[kinds or [] for kinds in forest.categories]]

    used: list[_Candidate] = []
    union: list[set[Any]] = []
    for one in sorted(given, key=lambda one: sum(map(len, labels(one.forest)))):
        mine = labels(one.forest)
        wider = [set(new) | old for new, old in zip(mine, union or map(set, mine), strict=True)]
        rooms = [CLASSES, *[CODES] * (len(wider) - 1)]
        if any(len(part) > room for part, room in zip(wider, rooms, strict=True)):
            one.verdict.reason = "its categories and those of the others are too many for one model"
        else:
            used.append(one)
            union = wider
    return [one for one in given if one in used]


def _in_range(given: list[_Candidate], labels: list[Any] | None) -> list[_Candidate]:
    """Those of a regression whose values are about as large as those of the others."""
    if not given or given[0].forest.classes is not None:
        return given
    low = min(labels) if labels else median_low([one.low for one in given])
    high = max(labels) if labels else median_low([one.high for one in given])
    width = max(high - low, abs(high) * 1e-6, 1e-30)
    for one in given:
        if one.low < low - FAR * width or one.high > high + FAR * width:
            one.verdict.reason = (
                f"its values are from {one.low:g} to {one.high:g}, far from {low:g} to {high:g}"
            )
    return [one for one in given if not one.verdict.reason]


def _of_known_classes(
    given: list[_Candidate], labels: list[Any] | None, classes: Iterable[Any] | None
) -> list[_Candidate]:
    """Those without a class that only they know; again, when others that knew it were left out."""
    named = {*(labels or ()), *(classes or ())}
    alone = len(given) == 1 and classes is None  # then there is nobody to outvote
    while not alone:
        known = Counter(label for one in given for label in one.forest.classes or ())
        for one in given:
            odd = [
                label
                for label in one.forest.classes or ()
                if label not in named and (known[label] < 2 or classes is not None)
            ]
            if odd:
                only = "is not among those named" if classes is not None else "no other device has"
                one.verdict.reason = (
                    f"class {quoted(odd[0])} {only}; name it in classes to accept it"
                )
        left = [one for one in given if not one.verdict.reason]
        if len(left) == len(given):
            break
        given = left
    return given


def _skilled(given: list[_Candidate], X: Any, labels: list[Any] | None) -> list[_Candidate]:
    """Those that do better than guessing on the server's rows, if it has some."""
    if labels is None:
        return given
    for one in given:
        try:
            skill = one.verdict.score = _skill(one.forest, X, labels)
        except (TypeError, ValueError) as error:
            one.verdict.reason = f"it cannot predict the server's rows ({error})"
            continue
        if skill is None:
            one.verdict.reason = "the server has rows of fewer than two of its classes"
        elif skill <= 0:
            one.verdict.reason = "it is no better than guessing on the server's rows"
    return [one for one in given if not one.verdict.reason]


def _skill(forest: Forest, X: Any, labels: list[Any]) -> float | None:
    """How good a forest is: 0 is guessing, 1 is perfect; None if the rows cannot show it.

    Only rows of classes that it knows count, and each class the same: a device that never met a
    class cannot know it, and one that always says the same has not earned anything.
    """
    found = _list(forest.predict(rows_of(forest, X)))
    if forest.classes is None:
        mean = sum(labels) / len(labels)
        spread = sum((label - mean) ** 2 for label in labels)
        error = sum((a - b) ** 2 for a, b in zip(found, labels, strict=True))
        return 1 - error / spread if spread else None
    right: Counter[Any] = Counter()
    total: Counter[Any] = Counter()
    for answer, label in zip(found, labels, strict=True):
        total[label] += 1
        right[label] += answer == label
    own = [label for label in forest.classes if total[label]]
    if len(own) < 2:
        return None
    mean = sum(right[label] / total[label] for label in own) / len(own)
    return (mean - 1 / len(own)) / (1 - 1 / len(own))


# ---- Their weights ------------------------------------------------------------------------------


def _weights(given: list[_Candidate]) -> list[float]:
    """The share of each in all votes: by score or rows, and none above the median."""
    known = [one.verdict for one in given]
    raw = [float(v.rows or 1) if v.score is None else v.score for v in known]
    capped = [min(weight, median_low(raw)) for weight in raw]
    return [weight / sum(capped) for weight in capped]


def _merged(
    given: list[_Candidate],
    weights: list[float],
    X: Any,
    labels: list[Any] | None,
    max_bytes: int | None,
) -> Forest:
    """The forests as one, not larger than it may be."""
    forests = [one.forest for one in given]
    # A model whose leaves have more votes than its scale would otherwise be louder than the others.
    quiet = [weight / one.loudness for weight, one in zip(weights, given, strict=True)]
    if max_bytes is None:
        return merge(forests, quiet)
    between("max_bytes", max_bytes, 1, MASK)
    if labels is None or given[0].forest.classes is None:  # trees of a regression belong together
        return merge(forests, quiet, max_bytes=max_bytes)
    from edgeforest.forests.pruning import prune  # needs NumPy

    joint = merge(forests, quiet, max_bytes=2 * max_bytes)
    if len(joint.to_json().encode()) <= max_bytes:
        return joint
    return prune(joint, X, labels, max_bytes=max_bytes)
