"""Learn from rows as they come: a forest that grows with every one of them, in bounded memory.

A row is predicted first, which shows how good the forest is, and then learned. It goes down every
tree to a leaf. Most leaves hold a race: a few features, each with a histogram of the rows that came
there. When one of them is sure to gain, and no other can do much better, the leaf is split, and the
latest rows, which are kept, start the races of its children.

The world changes. One tree more than vote is grown all the time, anew every two hundred rows, from the
latest rows or from the latter half of them. If it was clearly less often wrong on the next two
hundred rows than the worst of those that vote, it takes its place.

The trees themselves are in `grove`. This file runs unchanged on CPython and MicroPython.

>>> learner = OnlineForest(["temperature", "light"])
>>> for i in range(1000):
...     guess = learner.update([15 + i % 10, i * 7 % 100], "shut" if i * 7 % 100 < 40 else "open")
>>> learner.predict([20, 10]), learner.accuracy > 0.95, len(learner.forest())
('shut', True, 16)
"""

import math
from array import array

from edgeforest.budget import Budget, millionths, tidy
from edgeforest.checks import between, refuse_unknown
from edgeforest.codes import part_of, vote_scale, vote_shares
from edgeforest.checks import plain, sorted_set
from edgeforest.core_pure import ENGINE, GrowingTree
from edgeforest.forest import (
    FEATURE,
    HEADER,
    HUGE,
    LEAF,
    LEVELS,
    MASK,
    NAN,
    Forest,
    Spent,
    as_float,
    as_rows,
    attribute,
    check_steady,
)
from edgeforest.grove import CATEGORIES, LONG, SCALE, START, UNIT, Grove, Plan
from edgeforest.loading import from_base64
from edgeforest.writer import to_base64

try:
    from edgeforest.host.names import refuse
except ImportError:  # a board, whose text is UTF-8 whatever it is

    def refuse(what, texts):
        pass


try:
    from threading import Lock
except ImportError:  # a board

    class Lock:
        def __enter__(self):
            pass

        def __exit__(self, kind, error, trace):
            pass


class OnlineForest:
    """A forest that learns row by row, forever, in memory that does not grow.

    `features` are the names of a row's values, or how many there are; the first row tells, if
    nothing is said. `categorical` names those that are not numbers. Classes are found on the way,
    unless `classes` says what to expect. `criterion="mse"` learns numbers. `window` is how many of
    the latest rows are kept, `max_leaf_nodes` how many leaves a tree may have. `fade` is how many
    rows the votes of a leaf stand for: with few it follows a change at once; with many, such as
    100, the forest is the better one if it is left alone, and labels come no more. With
    `budget=Budget(bytes=...)` all of it fits into that: the races of the leaves that are wrong the
    least often sleep if there is no room for them. The other options are those of `train`.

    `accuracy` and `recent_accuracy` (of the last thousand rows) are prequential: of every row as it
    was predicted before it was learned. `error` and `recent_error` are the share that was wrong, or
    of numbers the mean absolute error.

    >>> learner = OnlineForest(1, criterion="mse", n_trees=5)
    >>> guesses = learner.update_batch([[i % 50] for i in range(600)], [i % 50 * 2.0 for i in range(600)])
    >>> abs(learner.predict([10]) - 20) < 4, learner.rows
    (True, 600)
    """

    def __init__(
        self,
        features=None,
        *,
        classes=None,
        categorical=(),
        kind="random-forest",
        criterion="gini",
        n_trees=16,
        max_depth=None,
        max_features=None,
        min_samples_leaf=1,
        max_leaf_nodes=256,
        n_bins=None,
        alpha_n=0.7,
        alpha_f=0.85,
        window=500,
        fade=10,
        budget=None,
        seed=0,
        engine=None,
    ):
        refuse_unknown(kind, criterion, "mab")
        extra = kind == "extra-trees"
        options = {"kind": kind, "criterion": criterion}
        for name, value, low, high in (
            ("n_trees", n_trees, 1, 4096),
            ("max_depth", 40 if max_depth is None else max_depth, 1, 255),
            ("min_samples_leaf", min_samples_leaf, 1, MASK),
            ("max_leaf_nodes", max_leaf_nodes, 2, 32767),
            ("n_bins", (2 if extra else 16) if n_bins is None else n_bins, 2, 255),
            ("alpha_n", alpha_n, 1e-9, 1.0),
            ("alpha_f", alpha_f, 1e-9, 1.0),
            ("window", window, START, 65534),
            ("fade", fade, 1, 100),
            ("seed", seed, 0, MASK),
        ):
            options[name] = between(name, value, low, high)
        options["max_features"] = max_features
        if budget is not None and not isinstance(budget, Budget):
            raise TypeError("give the memory of an online forest as budget=Budget(bytes=...)")
        if budget is not None and (budget.insertions or budget.seconds):
            raise ValueError("an online forest runs for ever: its budget has bytes, nothing else")
        options["bytes"] = BYTES if budget is None or budget.bytes is None else budget.bytes
        self.options = options
        self.engine = engine
        self._before = 0  # rows that were learned before those that the grove counts
        self._blind = True  # nothing was learned yet
        self._judged = 0  # rows of which it is known whether the guess was right
        self._sum = 0  # of what was wrong
        self._told = 0  # rows that were judged before this was loaded
        self._lock = Lock()
        self._saving = Lock()  # one save at a time: a later one must not be overtaken
        self._recent = array("f", bytes(4 * RECENT)) if criterion == "mse" else bytearray(RECENT)
        self._grove = self._model = None
        self._built = 0
        self._categorical = list(categorical)
        head = self.head = Forest()  # what all forests of this learner share
        for name in map(attribute, HEADER):
            setattr(head, name, None)
        head.kind = kind
        head.criterion = criterion
        head.splitter = "mab"
        head.seed = options["seed"]
        head.scale = vote_scale(n_trees)
        if criterion != "mse":
            head.scale = min(head.scale, SCALE)
            head.classes = []
            self._places = {}
            for v in classes or ():
                v = plain(v, 0, "a class")
                if v is not None and v not in self._places:
                    self._places[v] = len(head.classes)
                    head.classes.append(v)
            sorted_set(head.classes, "classes")
            refuse("the label", head.classes)
        elif classes is not None:
            raise ValueError("a regression has no classes; leave them out")
        head.names = None
        if features is not None:
            self._name(features)

    def _name(self, features):
        """Settle what the features are."""
        head = self.head
        if isinstance(features, int):
            features = [f"x{i}" for i in range(between("features", features, 1, FEATURE))]
        features = [str(v) for v in features]
        refuse("the name", features)
        head.names = features
        if len(set(head.names)) < len(head.names) or not head.names:
            raise ValueError("features must be names that differ, at least one")
        head.importances = [0] * len(head.names)
        head.categories = [None] * len(head.names)
        for v in self._categorical:
            if isinstance(v, int) and 0 <= v < len(head.names):
                head.categories[v] = []
            elif v in head.names:
                head.categories[head.names.index(v)] = []
            else:
                raise ValueError(f"categorical names {v!r}, which is not among the features")
        head.n_features = len(head.names)
        head.places = [None if kinds is None else {} for kinds in head.categories]
        head.all_numbers = all([p is None for p in head.places])

    # ---- Memory

    def _plan(self):
        """Share out the memory: rows and nodes first, and the rest for races."""
        o, head = self.options, self.head
        plan = Plan()
        plan.m = m = len(head.names)
        plan.width = 0 if head.classes is None else len(head.classes)
        plan.criterion = o["criterion"]
        plan.n_trees = o["n_trees"]
        plan.n_bins = o["n_bins"]
        plan.max_depth = o["max_depth"]
        plan.least = o["min_samples_leaf"]
        plan.extra = o["kind"] == "extra-trees"
        plan.rows = 0.0
        plan.patch = m
        if plan.extra:
            plan.rows = 1.0
        elif o["kind"] == "random-patches":
            plan.rows = o["alpha_n"]
            plan.patch = max(1, int(o["alpha_f"] * m + 0.5))
        some = min(plan.patch, int(math.sqrt(plan.patch) + 0.5) + 1)
        if o["max_features"] is not None:
            some = part_of("max_features", o["max_features"], plan.patch)
        plan.max_features = some
        plan.scale = head.scale
        plan.seed = o["seed"]
        plan.stream = self._built
        plan.kinds = array(
            "H", [0 if k is None else max(CATEGORIES, len(k)) for k in head.categories]
        )
        plan.stride = 1 + max(plan.n_bins, max(plan.kinds))
        plan.window = o["window"]
        plan.fade = o["fade"]
        plan.nodes = 2 * o["max_leaf_nodes"] - 1
        cells = plan.width or 3
        # A cell is a word of a list in plain Python; the native engine needs less.
        race = 64 + some * (8 * plan.stride * cells + 4 * plan.n_bins + 64)
        while True:
            fixed = self._fixed(plan)
            if fixed + race * plan.n_trees <= o["bytes"]:
                break
            if plan.window <= START and plan.nodes <= 15:
                raise ValueError(
                    f"an online forest of {plan.n_trees} trees and {m} features needs at least "
                    f"{fixed + race * plan.n_trees} bytes, the budget is {o['bytes']}; use fewer "
                    "trees or features"
                )
            if plan.window > START:
                plan.window = max(START, plan.window * 3 // 4)
            if plan.nodes > 15:
                plan.nodes = max(15, plan.nodes * 3 // 4) | 1
        plan.races = min(
            (o["bytes"] - fixed) // race, (plan.n_trees + 1) * (plan.nodes + 1) // 2, 65534
        )
        self.bytes = fixed + race * plan.races
        return plan

    def _fixed(self, plan):
        """The bytes of all but the races."""
        node = 23 + 4 * (plan.width or 2)
        tree = plan.nodes * node + 4 * plan.window + 10 * plan.m
        return (plan.n_trees + 1) * tree + plan.window * (4 * plan.m + 2) + LONG

    def _build(self, trees=None, latest=None):
        """Make the grove; with trees and rows to take over, if there was one before."""
        head = self.head
        head.roots = array("I", bytes(4 * self.options["n_trees"]))
        head.prepare()
        plan = self._plan()
        rows = self.rows
        self._grove = (_engine(self.engine).grove or Grove)(plan)
        self._built += 1
        for t, tree in enumerate(trees or ()):
            if len(tree[0]) <= plan.nodes:
                self._grove.plant(t, *tree)
        if latest:
            values, labels = latest
            n = min(len(labels), plan.window)
            skipped = len(labels) - n
            self._grove.recall(values[skipped * plan.m :], labels[skipped:], n)
            rows -= n
            for t, tree in enumerate(trees or ()):
                if len(tree[0]) > plan.nodes:  # more classes leave less room for nodes
                    self._grove.renew(t)
        self._before = rows

    def _trees(self):
        """All trees of the grove, as it takes them over."""
        return [self._grove.tree(t) for t in range(self.options["n_trees"] + 1)]

    # ---- Learning

    def update(self, row, label):
        """Learn one row; returns what was predicted for it before (None for the first)."""
        with self._lock:
            return self._update((row,), (label,))[0]

    def update_batch(self, rows, labels):
        """Learn rows in their order; returns what was predicted for each before it was learned."""
        if hasattr(type(rows), "columns") or hasattr(type(rows), "read_all"):
            rows = self._framed(rows)
        rows, labels = _seq(rows), _seq(labels)
        n = len(labels)
        if len(rows) != n:
            raise ValueError(
                f"there are {len(rows)} rows and {n} labels; give one label to each row"
            )
        answers = []
        for at in range(0, n, PART):
            with self._lock:
                answers.extend(self._update(rows[at : at + PART], labels[at : at + PART]))
        return answers

    def _framed(self, frame):
        """The rows of a frame, by name; the first one names the features. On CPython."""
        from edgeforest.host.columns import Frame

        frame = Frame(frame)
        if self.head.names is None:
            self._categorical += frame.categorical()
            self._name(frame.names or len(frame.columns))
        return frame.rows_for(self.head)

    def _update(self, rows, labels):
        if self.head.names is None:
            self._name(len(rows[0]))
        values = self._encode(rows)  # before anything is changed: a row may be wrong
        labels = self._targets(labels) if self.head.classes is None else self._classes(labels)
        n = len(labels)
        check_steady(len(values) == n * self.head.n_features, "what is learned", n)
        guesses = array("I", bytes(4 * n))
        self._model = None
        self._grove.learn(values, labels, n, guesses)
        return self._judge(guesses, labels)

    @property
    def rows(self):
        """How many rows were learned."""
        return self._before + (self._grove.seen if self._grove else 0)

    def _classes(self, labels):
        """Labels as places of classes; a class that is new gets the next place."""
        places = self._places
        if hasattr(labels, "tolist"):
            labels = labels.tolist()
        if self._grove is not None:
            try:
                return array("H", [places[v] for v in labels])
            except (KeyError, TypeError):
                pass  # look at each
        known = len(self.head.classes)
        new = {}
        codes = array("H")
        for i, v in enumerate(labels):
            v = plain(v, i, "the labels")
            if v is None:
                raise ValueError(f"the label of row {i} is missing; drop rows without a label")
            place = places.get(v)
            if place is None:
                place = new.get(v)
            if place is None:
                place = new[v] = known + len(new)
                if place >= 4096:
                    raise ValueError("at most 4096 classes; for numbers use criterion='mse'")
            codes.append(place)
        if new or self._grove is None:
            self._widen(new)
        return codes

    def _widen(self, new):
        """Make room for more classes."""
        classes = self.head.classes
        known = len(classes)
        sorted_set(classes[:1] + list(new), "labels")
        refuse("the label", new)
        classes.extend(sorted(new, key=lambda v: new[v]))
        try:
            if self._grove is None:
                self._build()
            else:
                trees = self._trees()
                for tree in trees:
                    tree[4] = _widened(tree[4], known, len(classes))
                self._build(trees, self._grove.latest())
        except ValueError:  # they do not fit
            while len(classes) > known:
                classes.pop()
            raise
        self._places.update(new)

    def _targets(self, targets):
        """Targets as levels; the range is stretched if one of them lies beyond it."""
        head = self.head
        numbers = [as_float(v, i, "the targets") for i, v in enumerate(targets)]
        for i, v in enumerate(numbers):
            if not -HUGE / 8 < v < HUGE / 8:
                raise ValueError(f"the target of row {i} must be a finite number, got {v!r}")
        low, high = min(numbers), max(numbers)
        if not head.span or low < head.low or high > head.low + head.span:
            self._stretch(low, high)
        return self._levels([v - head.low for v in numbers], head.scale / head.span, 0.0)

    def _stretch(self, low, high):
        """Widen the range of the targets, three times as wide as what was seen."""
        head = self.head
        before = head.low, head.span
        if self._grove is not None:
            low, high = min(low, before[0]), max(high, before[0] + before[1])
        span = (high - low) or max(1.0, abs(low) / 8)
        if not (-HUGE <= low - span and 3 * span <= HUGE):
            raise ValueError("targets must span less than 1e38; scale them down")
        head.low = array("f", [low - span])[0]
        head.span = array("f", [3 * span])[0]
        if self._grove is None:
            self._build()
            return
        at = (before[0] - head.low) / head.span * head.scale
        per = before[1] / head.span
        trees = self._trees()
        for tree in trees:
            votes = tree[4]
            for i in range(0, len(votes), 2):
                total = int(votes[i + 1] * per + votes[i] * at + 0.5)
                votes[i + 1] = max(0, min(LEVELS * votes[i], total))
        values, labels = self._grove.latest()
        self._build(trees, (values, self._levels(labels, per, at)))

    def _levels(self, numbers, per, at):
        """Numbers as levels; those at the ends may lie beyond them by a rounding of float32."""
        scale = self.head.scale
        return array("H", [max(0, min(scale, int(v * per + at + 0.5))) for v in numbers])

    def _encode(self, rows):
        """Rows as float32 numbers, one after the other."""
        head = self.head
        if head.all_numbers:
            values = _flat(rows, head.n_features)
            if values is None:
                values = _listed(rows, head.n_features)
            if values is not None:
                return values
        values = array("f")
        for row in rows:
            if not head.all_numbers:
                self._meet(row)
            values.extend(head.encode(row))
        for i, v in enumerate(values):
            if v - v != 0 and v == v:
                name = head.names[i % head.n_features]
                raise ValueError(f"feature {name!r} of row {i // head.n_features} is infinite")
        return values

    def _meet(self, row):
        """Note categories that are new."""
        head = self.head
        if len(row) == len(head.names):
            for f, kinds in enumerate(head.categories):
                if kinds is not None and len(kinds) < max(CATEGORIES, len(kinds)):
                    what = f"categories of {head.names[f]!r}"
                    v = plain(row[f], 0, what)
                    if v is not None and v not in head.places[f]:
                        sorted_set(kinds[:1] + [v], what)
                        refuse("the category", [v])
                        kinds.append(v)
                        head.places[f][v] = len(kinds)

    def _judge(self, guesses, labels):
        """Count what was wrong; returns the guesses as labels."""
        head = self.head
        if head.classes is None:
            answers = [head.value(total) for total in guesses]
            step = head.span / head.scale
            wrong = [abs(a - head.low - v * step) for a, v in zip(answers, labels)]
        else:
            classes = head.classes
            answers = [classes[place] for place in guesses]
            wrong = [0 if a == b else 1 for a, b in zip(guesses, labels)]
        if self._blind:
            answers[0] = None
            wrong = wrong[1:]
            self._blind = False
        self._sum += sum(wrong)
        if len(wrong) > RECENT:
            self._judged += len(wrong) - RECENT
            wrong = wrong[-RECENT:]
        recent = self._recent
        at = self._judged % RECENT
        for v in wrong:
            recent[at] = v
            at = at + 1 if at + 1 < RECENT else 0
        self._judged += len(wrong)
        return answers

    # ---- Predicting

    @property
    def error(self):
        """The share of rows that was predicted wrong, or the mean absolute error of numbers."""
        return self._sum / self._judged if self._judged else NAN

    @property
    def recent_error(self):
        """The same of the last thousand rows."""
        n = min(self._judged - self._told, RECENT)
        return sum(self._recent) / n if n else NAN

    @property
    def accuracy(self):
        """The share of rows that was predicted right before they were learned."""
        self._must_classify()
        return 1.0 - self.error

    @property
    def recent_accuracy(self):
        """The same of the last thousand rows."""
        self._must_classify()
        return 1.0 - self.recent_error

    def _must_classify(self):
        if self.head.classes is None:
            raise AttributeError("a regression has no accuracy; see its error")

    def forest(self):
        """The forest as it is now: it predicts, explains, and is saved and exported like any other."""
        with self._lock:
            return self._now()

    def _now(self):
        if self._model is None:
            if self._blind:
                raise ValueError("nothing was learned yet; call update first")
            self._model = self._snapshot()
        return self._model

    def _snapshot(self):
        head, grove = self.head, self._grove
        forest = Forest()
        predictor = _engine(self.engine).predictor
        if predictor:
            forest.predictor = predictor(forest)
        for key in HEADER:
            setattr(forest, attribute(key), getattr(head, attribute(key)))
        forest.names = list(head.names)
        forest.categories = [None if k is None else list(k) for k in head.categories]
        forest.classes = None if head.classes is None else list(head.classes)
        forest.low, forest.span = head.low, head.span
        forest.spent = Spent(rows_read=self.rows)
        parts = [0.0] * len(head.names)
        for t in range(self.options["n_trees"]):
            nodes = grove.tree(t)
            gains = nodes.pop()
            _closed(nodes, len(head.classes or ()), head.scale).move_to(forest)
            whole = 0.0
            for v in gains:
                whole += v
            for f, v in enumerate(gains):
                parts[f] += v / (whole or 1)
        forest.importances = millionths(parts)
        forest.prepare()
        return forest

    def predict(self, rows):
        """The class or value of one row, or a list of them for a sequence of rows."""
        return self.forest().predict(rows)

    def predict_proba(self, rows):
        """The share of each class, in the order of `classes`, of one row or a sequence of rows."""
        return self.forest().predict_proba(rows)

    @property
    def classes(self):
        """The classes that were seen or announced, in the order of `predict_proba`."""
        return self.head.classes

    # ---- Going on later

    @classmethod
    def from_forest(cls, forest, latest=None, **options):
        """Go on learning with a forest that was trained before.

        Its trees vote on, and are replaced when they are wrong too often. `latest` are rows to
        begin with, as `Grove.latest` has them. Options as for a new one; features, classes and the
        number of trees are those of the forest.
        """
        leaves = 2
        bounds = list(forest.roots) + [len(forest.feature)]
        for t in range(len(forest)):
            leaves = max(leaves, (bounds[t + 1] - bounds[t]) // 2 + 1)
        given = {
            "classes": forest.classes,
            "kind": forest.kind,
            "criterion": forest.criterion,
            "max_leaf_nodes": max(256, min(2 * leaves, 32767)),
            "seed": forest.seed,
        }
        given.update(options)
        given["n_trees"] = len(forest)
        learner = cls(forest.names, **given)
        head = learner.head
        head.categories = [None if k is None else list(k) for k in forest.categories]
        head.low, head.span = forest.low, forest.span
        if latest is not None:
            latest = _checked(head, latest)
        room = learner._plan().nodes
        if 2 * leaves - 1 > room:
            raise ValueError(
                f"a tree of {2 * leaves - 1} nodes does not fit into {room}: use a max_leaf_nodes "
                f"of at least {leaves}, and a budget that has the bytes for it"
            )
        trees = []
        for t in range(len(forest)):
            trees.append(_opened(forest, bounds[t], bounds[t + 1], head.scale))
        learner._build(trees, latest)
        learner._blind = False  # a guess can be made for the first row
        return learner

    def save(self, path):
        """Write the forest with the latest rows, so that learning can go on: see `load`.

        The file is a model like any other. Whenever the power fails, there is the old one or the
        new one.
        """
        with self._saving:  # apart from `_lock`: rows are learned while a slow card is written
            forest, state = self._whole()
            tidy()
            from edgeforest.storage import write

            write(forest, path, state)

    def _whole(self):
        """The forest, and what is to be remembered beside it."""
        with self._lock:
            forest = self._now()
            values, labels = self._grove.latest()
            return forest, {
                "online": self.options,
                "rows": self.rows,
                "judged": self._judged,
                "wrong": self._sum,
                "window": to_base64(values, "f"),
                "labels": to_base64(labels, "H"),
            }

    @classmethod
    def load(cls, path, engine=None):
        """Go on from a file that `save` wrote, or from any other model.

        >>> learner = OnlineForest(2)
        >>> guesses = learner.update_batch([[i % 5, i] for i in range(200)], [i % 5 > 2 for i in range(200)])
        >>> learner.save("model.json")
        >>> again = OnlineForest.load("model.json")
        >>> again.rows, again.predict([4, 1]), again.error == learner.error
        (200, True, True)
        """
        from edgeforest.storage import read

        forest, state = read(path)
        if forest is None:
            raise OSError(f"there is no model in {path} yet")
        if state is None or "online" not in state:
            return cls.from_forest(forest, engine=engine)
        return _revive(cls, forest, state, engine)

    def __reduce__(self):
        if self._blind:
            raise ValueError("an online forest that has learned nothing cannot be pickled yet")
        return (_revive, (self.__class__,) + self._whole() + (self.engine,))


PART = 4096  # rows at once: Ctrl-C is looked at in between
BYTES = 16_000_000  # of an online forest, where the budget does not say
RECENT = 1000  # rows of the recent error
ROWS = 1 << 53  # more than any learner has learned


def _engine(name):
    """The engine of that name; a board has one alone."""
    try:
        from edgeforest.engines import pick
    except ImportError:
        return ENGINE
    return pick(name)


def _revive(kind, forest, state, engine):
    """A learner as it was when it was saved; its races begin anew."""
    _engine(engine)  # which may not be there
    try:
        learner = _recalled(kind, forest, state, engine)
    except (TypeError, ValueError, KeyError, AttributeError):
        learner = None
    if learner is None:
        raise ValueError("the model is damaged inside; train or copy it again")
    return learner


def _recalled(kind, forest, state, engine):
    """A learner from what was noted of it; raises anything if no learner can have noted that."""
    options = dict(state["online"])
    for name in ("kind", "criterion", "seed"):
        if options[name] != getattr(forest, name):
            raise ValueError
    rows, judged, wrong = state["rows"], state["judged"], state["wrong"]
    if type(rows) is not int or type(judged) is not int or type(wrong) not in (int, float):
        raise ValueError
    most = judged if forest.classes is not None else 1e300
    known = set(kind(1).options)
    if not 0 <= judged <= rows < ROWS or not 0 <= wrong <= most or set(options) - known:
        raise ValueError
    options["budget"] = Budget(bytes=options.pop("bytes"))
    if options.pop("n_trees") != len(forest):
        raise ValueError
    latest = from_base64(state["window"], "f"), from_base64(state["labels"], "H")
    learner = kind.from_forest(forest, latest, engine=engine, **options)
    learner._before = rows - learner._grove.seen
    learner._judged = learner._told = judged
    learner._sum = wrong
    return learner


def _checked(head, latest):
    """The latest rows as a grove takes them; refused if no learner of such rows can hold them."""
    values, labels = array("f", latest[0]), array("H", latest[1])
    m, categories = len(head.names), head.categories
    most = head.scale if head.classes is None else len(head.classes) - 1
    if len(values) != m * len(labels) or max(labels or (0,)) > most:
        raise ValueError("the latest rows do not fit the forest: give those of Grove.latest")
    for i, x in enumerate(values):
        kinds = categories[i % m]
        if kinds is None:
            fits = x - x == 0
        else:
            fits = 0 < x <= len(kinds) and x == int(x)
        if not fits and x == x:
            raise ValueError(f"the latest rows hold {x} as {head.names[i % m]!r}; drop that row")
    return values, labels


def _seq(values):
    """Something that has a length and can be sliced."""
    if hasattr(values, "to_numpy"):  # a DataFrame or a Series
        return values.to_numpy()
    return as_rows(values)


def _flat(rows, m):
    """The numbers of rows in a NumPy array, if they are there, without a look at each."""
    if hasattr(rows, "dtype") and getattr(rows, "ndim", 0) == 2 and rows.dtype.kind in "fiub":
        if rows.shape[1] != m:
            raise ValueError(f"a row must have {m} values, got {rows.shape[1]}")
        values = rows.astype("float32")
        if (abs(values) > HUGE).any():
            return None  # one of them is infinite: look at each
        return array("f", values.tobytes())
    return None


def _listed(rows, m):
    """The numbers of rows in lists, if all are finite, without a look at each."""
    try:
        for row in rows:
            if len(row) != m:
                return None
        values = array("f", [v for row in rows for v in row])
    except (TypeError, ValueError, OverflowError):
        return None
    total = sum(values)
    return values if total - total == 0 and len(values) == m * len(rows) else None


def _widened(votes, before, now):
    """Votes with room for more classes."""
    wide = array("I", bytes(4 * now * (len(votes) // before)))
    for at in range(0, len(votes), before):
        here = at // before * now
        wide[here : here + before] = votes[at : at + before]
    return wide


def _closed(nodes, width, scale):
    """A tree as `Forest.add_tree` takes it."""
    feature, threshold, left, right, votes = nodes
    tree = GrowingTree()
    tree.feature = feature
    tree.threshold = threshold
    tree.left = array("I", left)
    tree.right = array("I", right)
    leaves = 0
    stack = [0]
    while stack:  # in preorder
        node = stack.pop()
        if feature[node] != LEAF:
            stack.append(right[node])
            stack.append(left[node])
            continue
        leaves += 1
        tree.right[node] = leaves
        threshold[node] = 0.0  # what was asked here before means nothing
        if width:
            some = votes[node * width : node * width + width]
            tree.votes.extend(array("H", vote_shares(some, sum(some) or 1, scale)))
        else:
            n, total = votes[2 * node], votes[2 * node + 1]
            # Halved totals may lie a little above what their rows said.
            tree.votes.append(min(scale, (2 * total + n) // (2 * n)) if n else 0)
    return tree


def _opened(forest, start, end, scale):
    """The nodes from start to end of a forest as a grove takes them."""
    n = end - start
    width = forest.n_votes
    feature = forest.feature[start:end]
    left = array("H", bytes(2 * n))
    right = array("H", bytes(2 * n))
    votes = array("I", bytes(4 * n * (2 if forest.regression else width)))
    for i in range(n):
        here = forest.right[start + i]
        if feature[i] != LEAF:
            left[i] = i + 1
            right[i] = here - start
        elif forest.regression:
            votes[2 * i] = 8 * UNIT
            total = 8 * UNIT * forest.votes[here] * scale // forest.scale
            votes[2 * i + 1] = min(8 * UNIT * LEVELS, total)  # merging may lift it above that
        else:
            some = forest.votes[here * width : here * width + width]
            some = vote_shares(some, sum(some) or 1, scale)
            votes[i * width : i * width + width] = array("I", some)
    gains = [v / 10000 for v in forest.importances]
    return [feature, forest.threshold[start:end], left, right, votes, gains]
