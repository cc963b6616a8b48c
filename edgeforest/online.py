"""Learn from rows as they come: a forest that grows with every row, in bounded memory.

A row is predicted first, which shows how good the forest is, and then learned. It goes down every
tree to a leaf. Most leaves hold a race: a few features, each with a histogram of the rows that came
there. When one feature is sure to gain, and no other can do much better, the leaf is split. The
latest rows are kept; they start the races of its children.

The world changes. So there is one more tree, which does not vote. Every hundred rows (of numbers: two
hundred) it is grown again, from the latest rows or from the newer half of them. If it was clearly less
often wrong on the rows after that than the worst of the trees that vote, it replaces that one.

The trees themselves are in `grove`. This file runs unchanged on CPython and MicroPython.

>>> learner = OnlineForest(["temperature", "light"])
>>> for i in range(1000):
...     guess = learner.update([15 + i % 10, i * 7 % 100], "shut" if i * 7 % 100 < 40 else "open")
>>> learner.predict([20, 10]), learner.accuracy > 0.95, len(learner.forest())
('shut', True, 16)
"""

from array import array

from edgeforest.batch import encoded, levels, sliceable
from edgeforest.budget import Budget, between, millionths
from edgeforest.checks import check_steady, refuse_unknown
from edgeforest.codes import vote_scale
from edgeforest.core_pure import ENGINE
from edgeforest.forest import (
    FEATURE,
    HEADER,
    HUGE,
    INF,
    LEVELS,
    MASK,
    NAN,
    Forest,
    Spent,
    attribute,
    collect,
    is_sequence,
)
from edgeforest.grove import SCALE, Grove, largest
from edgeforest.labels import plain, sorted_set
from edgeforest.loading import from_base64
from edgeforest.lock import Lock
from edgeforest.rows import as_float
from edgeforest.sapling import CATEGORIES, START, Plan, bytes_of
from edgeforest.transplant import checked, for_forest, for_grove, widened
from edgeforest.writer import to_base64

try:
    from edgeforest.host.names import refuse
except ImportError:  # a board, where all text is UTF-8

    def refuse(what: "str", texts: "Any") -> "None":  # type: ignore[misc]
        pass


if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.core_pure import Engine
    from edgeforest.drift import Drift
    from edgeforest.host.types import *


class OnlineForest:
    """A forest that learns row by row, forever, in memory that does not grow.

    `features` are the names of a row's values, or their number; by default the first row shows it.
    `categorical` names the features that are not numbers. Classes become known row by row;
    `classes` announces them. `criterion="mse"` learns numbers. `window` is how many of the latest
    rows are kept, `max_leaf_nodes` how many leaves a tree may have. `fade` is how many rows the
    votes of a leaf stand for: with few the forest follows a change at once; with many it averages
    noise. By default each leaf counts with 3, 12 and 50, and what was best lately votes. With
    `budget=Budget(bytes=...)` everything fits into that many bytes: if there is not enough memory
    for all races, those of the leaves that are wrong least often sleep. The other options are those
    of `train`.

    A linear model learns classes beside the trees, if the budget has a megabyte; `linear` may say
    otherwise. What was best lately answers: see `answered_by`. `forest()` has the trees alone.

    `accuracy` and `recent_accuracy` (of the last thousand rows) are prequential: each row is
    predicted before it is learned. `error` and `recent_error` are the share of wrong predictions,
    or for numbers the mean absolute error. `on_drift` is a function that is called when errors come
    clearly more often than before: with a `Drift`, which says since when, and which features they
    depend on. `drift` is the last one. Without `on_drift` nobody watches, which is a little faster.

    >>> learner = OnlineForest(1, criterion="mse", n_trees=5)
    >>> guesses = learner.update_batch([[i % 50] for i in range(600)], [i % 50 * 2.0 for i in range(600)])
    >>> abs(learner.predict([10]) - 20) < 4, learner.rows
    (True, 600)
    """

    bytes: "int"  # what the plan of the grove takes, at most; known from the first row on

    def __init__(
        self,
        features: "int | Iterable[str] | None" = None,
        *,
        classes: "Iterable[Any] | None" = None,
        categorical: "Iterable[str | int]" = (),
        kind: "Kind" = "random-forest",
        criterion: "Criterion" = "gini",
        n_trees: "int" = 16,
        max_depth: "int | None" = None,
        max_features: "int | float | None" = None,
        min_samples_leaf: "int" = 1,
        max_leaf_nodes: "int" = 256,
        n_bins: "int | None" = None,
        alpha_n: "float" = 0.7,
        alpha_f: "float" = 0.85,
        window: "int" = 500,
        fade: "int | None" = None,
        linear: "bool | None" = None,
        budget: "Budget | None" = None,
        seed: "int" = 0,
        engine: "str | None" = None,
        on_drift: "Callable[[Drift], object] | None" = None,
    ) -> "None":
        refuse_unknown(kind, criterion, "mab")
        if n_bins is None:
            n_bins = 2 if kind == "extra-trees" else 16
        options: "dict[str, Any]" = {"kind": kind, "criterion": criterion}
        for name, value, low, high in (
            ("n_trees", n_trees, 1, 4096),
            ("max_depth", 40 if max_depth is None else max_depth, 1, 255),
            ("min_samples_leaf", min_samples_leaf, 1, MASK),
            ("max_leaf_nodes", max_leaf_nodes, 2, 32767),
            ("n_bins", n_bins, 2, 255),
            ("alpha_n", alpha_n, 1e-9, 1.0),
            ("alpha_f", alpha_f, 1e-9, 1.0),
            ("window", window, START, 65534),
            ("fade", 1 if fade is None else fade, 1, 100),
            ("seed", seed, 0, MASK),
        ):
            options[name] = between(name, value, low, high)
        if fade is None:
            options["fade"] = None
        options["max_features"] = max_features
        if linear is not None:
            options["linear"] = bool(linear)
        options["bytes"] = bytes_of(budget)
        self.options = options
        self.engine = engine
        self.on_drift = on_drift
        self.drift: "Drift | None" = None  # the last one
        self._categorical = list(categorical)
        self._begin(classes)
        if features is not None:
            self._name(features)

    def _begin(self, classes: "Iterable[Any] | None") -> "None":
        """Set up a learner that has not learned anything."""
        self._before = 0  # rows that were learned before those that the grove counts
        self._blind = True  # nothing was learned yet
        self._judged = 0  # rows whose predictions were compared with their labels
        self._sum: "float" = 0  # of their errors
        self._told = 0  # rows that were judged before this learner was loaded
        self._lock = Lock()
        self._saving = Lock()  # one save at a time: an earlier one must not overwrite a later one
        self._grove: "Any" = None
        self._watch: "Any" = None
        self._news: "list[Drift]" = []  # drifts that `on_drift` was not told yet
        self._model: "Forest | None" = None
        self._built = 0
        options = self.options
        head = self.head = Forest()  # what all forests of this learner share
        for name in map(attribute, HEADER):
            setattr(head, name, options.get(name))
        head.splitter = "mab"
        head.scale = vote_scale(options["n_trees"])
        if head.criterion == "mse":
            if classes is not None:
                raise ValueError("a regression has no classes; leave them out")
            self._recent: "Any" = array("f", bytes(4 * RECENT))
            return
        self._recent = bytearray(RECENT)
        head.scale = min(head.scale, SCALE)
        known = head.classes = []
        self._places: "dict[Any, int]" = {}
        for v in classes or ():
            v = plain(v, 0, "a class")
            if v is not None and v not in self._places:
                self._places[v] = len(known)
                known.append(v)
        sorted_set(known, "classes")
        refuse("the label", known)

    def _name(self, features: "Any") -> "None":
        """Set the names and kinds of the features."""
        head = self.head
        if isinstance(features, int):
            features = [f"x{i}" for i in range(between("features", features, 1, FEATURE))]
        names = [str(v) for v in features]
        refuse("the name", names)
        head.names = names
        if len(set(names)) < len(names) or not names:
            raise ValueError("features must be names that differ, at least one")
        head.importances = [0] * len(names)
        head.categories = [None] * len(names)
        for v in self._categorical:
            if isinstance(v, int) and 0 <= v < len(names):
                head.categories[v] = []
            elif v in names:
                head.categories[names.index(v)] = []
            else:
                raise ValueError(f"categorical names {v!r}, which is not among the features")
        head.n_features = len(names)
        head.places = [None if kinds is None else {} for kinds in head.categories]
        head.all_numbers = all([p is None for p in head.places])

    # ---- The grove

    def _build(self, trees: "Any" = (), latest: "Any" = None) -> "None":
        """Make the grove; with the trees and rows of the one before, if there was one."""
        head = self.head
        head.roots = array("I", bytes(4 * self.options["n_trees"]))
        head.prepare()
        plan = self._plan()
        self.bytes = plan.bytes
        rows = self.rows
        grove = self._grove = (_engine(self.engine).grove or Grove)(plan)
        self._built += 1
        head.predict_into = grove.vote  # type: ignore[method-assign]  # trees answer as they are now
        for t, tree in enumerate(trees):
            if len(tree[0]) <= plan.nodes:
                grove.plant(t, *tree)
        if latest:
            values, labels = latest
            grove.recall(values, labels, len(labels))
            rows -= grove.seen
            for t, tree in enumerate(trees):
                if len(tree[0]) > plan.nodes:  # more classes leave less memory for nodes
                    grove.renew(t)
        self._before = rows

    def _plan(self) -> "Plan":
        return Plan(self.options, self.head, self._built)

    def _trees(self) -> "list[list[Any]]":
        """All trees of the grove, as `Grove.plant` takes them."""
        return [self._grove.tree(t) for t in range(self.options["n_trees"] + 1)]

    # ---- Learning

    def update(self, row: "Values", label: "Label") -> "Any":
        """Learn one row; returns the prediction made for it before (None for the first)."""
        with self._lock:
            answer = self._update((row,), (label,))[0]
        if self._news:
            self._tell()
        return answer

    def update_batch(self, rows: "Any", labels: "Any") -> "list[Any]":
        """Learn rows in their order; returns the prediction made for each before it was learned."""
        if hasattr(type(rows), "columns") or hasattr(type(rows), "read_all"):
            rows = self._framed(rows)
        rows, labels = sliceable(rows), sliceable(labels)
        n = len(labels)
        if len(rows) != n:
            raise ValueError(
                f"there are {len(rows)} rows and {n} labels; give one label to each row"
            )
        answers: "list[Any]" = []
        for at in range(0, n, PART):
            with self._lock:
                answers.extend(self._update(rows[at : at + PART], labels[at : at + PART]))
            if self._news:
                self._tell()
        return answers

    def _tell(self) -> "None":
        """Call `on_drift`, which may use this learner: so not while it is locked."""
        with self._lock:
            news, self._news = self._news, []
        for drift in news:
            if self.on_drift:
                self.on_drift(drift)

    def _framed(self, frame: "Any") -> "Any":
        """The rows of a frame, by name; the first frame names the features. On CPython."""
        from edgeforest.host.columns import Frame

        frame = Frame(frame)
        if self.head.names is None:
            self._categorical += frame.categorical()
            self._name(frame.names or len(frame.columns))
        return frame.rows_for(self.head)

    def _update(self, rows: "Any", labels: "Any") -> "list[Any]":
        if self.head.names is None:
            self._name(len(rows[0]))
        values = self._encode(rows)  # before anything is changed: a row may be refused
        labels = self._targets(labels) if self.head.classes is None else self._classes(labels)
        n = len(labels)
        check_steady(len(values) == n * self.head.n_features, "what is learned", n)
        guesses = array("I", bytes(4 * n))
        self._model = None
        self._grove.learn(values, labels, n, guesses)
        return self._judge(values, guesses, labels)

    @property
    def rows(self) -> "int":
        """How many rows were learned."""
        return self._before + (self._grove.seen if self._grove else 0)

    def _classes(self, labels: "Any") -> "array[int]":
        """Labels as places of classes; a new class gets the next place."""
        places = self._places
        if hasattr(labels, "tolist"):
            labels = labels.tolist()
        if self._grove is not None:
            if hasattr(self._grove, "places"):
                found: "array[int] | None" = self._grove.places(labels, places)
                if found is not None:
                    return found
            try:
                return array("H", [places[v] for v in labels])
            except (KeyError, TypeError):
                pass  # a new class, or labels of another type: look at each
        known = len(self.head.classes or ())
        new: "dict[Any, int]" = {}
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

    def _widen(self, new: "dict[Any, int]") -> "None":
        """Build the grove again with more classes."""
        classes: "Any" = self.head.classes
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
                    tree[4] = widened(tree[4], known, len(classes))
                self._build(trees, self._grove.latest())
        except ValueError:  # they do not fit
            while len(classes) > known:
                classes.pop()
            raise
        self._places.update(new)

    def _targets(self, targets: "Any") -> "array[int]":
        """Targets as levels; the range is stretched if one of them lies outside."""
        head = self.head
        numbers = targets.tolist() if hasattr(targets, "tolist") else targets
        if set(map(type, numbers)) != {float}:
            numbers = [as_float(v, i, "the targets") for i, v in enumerate(numbers)]
        low, high, total = min(numbers), max(numbers), sum(numbers)
        if not (-HUGE / 8 < low and high < HUGE / 8) or total != total:
            for i, v in enumerate(numbers):
                if not -HUGE / 8 < v < HUGE / 8:
                    raise ValueError(f"the target of row {i} must be a finite number, got {v!r}")
        if not head.span or low < head.low or high > head.low + head.span:
            self._stretch(low, high)
        per = head.scale / head.span
        if hasattr(self._grove, "levels"):
            found: "array[int] | None" = self._grove.levels(numbers, head.low, per, head.scale)
            if found is not None:
                return found
        return levels(numbers, head.low, per, 0.0, head.scale)

    def _stretch(self, low: "float", high: "float") -> "None":
        """Make the range of targets three times as wide as the targets seen so far."""
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
        self._build(trees, (values, levels(labels, 0.0, per, at, head.scale)))

    def _encode(self, rows: "Any") -> "array[float]":
        """Rows as float32 numbers, one row after the other."""
        head = self.head
        found = encoded(head, rows, getattr(self._grove, "listed", None))
        if found is not None:
            return found
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

    def _meet(self, row: "Any") -> "None":
        """Note new categories."""
        head = self.head
        if len(row) == len(head.names):
            for f, kinds in enumerate(head.categories):
                places = head.places[f]
                if kinds is not None and places is not None and len(kinds) < CATEGORIES:
                    what = f"categories of {head.names[f]!r}"
                    v = plain(row[f], 0, what)
                    if v is not None and v not in places:
                        sorted_set(kinds[:1] + [v], what)
                        refuse("the category", [v])
                        kinds.append(v)
                        places[v] = len(kinds)

    def _answers(
        self, guesses: "array[int]", labels: "array[int]"
    ) -> "tuple[list[Any], Any, list[float]]":
        """The guesses as labels, how wrong each is, and of numbers how far above its label."""
        head, grove = self.head, self._grove
        if head.classes is not None:
            if hasattr(grove, "named"):
                names, wrong = grove.named(guesses, labels, head.classes)
                return names, wrong, []
            classes = head.classes
            names = [classes[word >> 2] for word in guesses]
            return names, [0 if a >> 2 == b else 1 for a, b in zip(guesses, labels)], []
        low, step, level = head.low, head.step(), head.span / head.scale
        if hasattr(grove, "valued"):
            values, off = grove.valued(guesses, labels, low, step, level)
        else:
            parts = array("f", [total * step for total in guesses])  # as `Forest.value` does
            values = list(array("f", [part + low for part in parts]))
            off = [a - low - v * level for a, v in zip(values, labels)]
        return values, list(map(abs, off)), off

    def _judge(
        self, values: "array[float]", guesses: "array[int]", labels: "array[int]"
    ) -> "list[Any]":
        """Count the errors; returns the guesses as labels."""
        head = self.head
        answers, wrong, off = self._answers(guesses, labels)
        if self.on_drift:
            codes = off or [2 * word + v for word, v in zip(guesses, wrong)]
            first = 1 if self._blind else 0
            self._look_out(values[first * head.n_features :], codes[first:])
        if self._blind:
            answers[0] = None
            wrong = wrong[1:]
            self._blind = False
        self._sum += sum(wrong)
        if len(wrong) > RECENT:
            self._judged += len(wrong) - RECENT
            wrong = wrong[-RECENT:]
        errors: "Any" = wrong
        latest: "Any" = array("f", errors) if head.classes is None else bytearray(errors)
        at = self._judged % RECENT
        upto = RECENT - at  # of the latest errors; the others come first in the ring
        self._recent[at : at + len(latest)] = latest[:upto]
        self._recent[: len(latest[upto:])] = latest[upto:]
        self._judged += len(wrong)
        return answers

    def _look_out(self, values: "array[float]", codes: "list[Any]") -> "None":
        """Watch for a drift in rows that were predicted: see `Watch.see`."""
        head = self.head
        if self._watch is None:
            from edgeforest.drift import Watch  # only then does a board load it

            n, keep = self.rows - len(codes), self._grove.plan.window
            self._watch = Watch(head.n_features, n, keep, head.regression)
        for alarm in self._watch.see(values, codes):
            self._note(alarm)

    def _note(self, alarm: "tuple[Any, ...]") -> "None":
        """Keep a drift, and tell it later."""
        from edgeforest.drift import Drift

        row, since, features, place, before, after, sure = alarm
        names = [self.head.names[f] for f in features]
        guesses = self.head.classes or ("too high", "too low")
        guess = None if place < 0 else guesses[place]
        self.drift = Drift(row, since, names, guess, before, after, sure)
        self._news.append(self.drift)

    # ---- Predicting

    @property
    def error(self) -> "float":
        """The share of wrong predictions, or for numbers the mean absolute error."""
        return self._sum / self._judged if self._judged else NAN

    @property
    def recent_error(self) -> "float":
        """The same for the last thousand rows."""
        n = min(self._judged - self._told, RECENT)
        return sum(self._recent) / n if n else NAN

    @property
    def accuracy(self) -> "float":
        """The share of rows that were predicted right before they were learned."""
        self._must_classify()
        return 1.0 - self.error

    @property
    def recent_accuracy(self) -> "float":
        """The same for the last thousand rows."""
        self._must_classify()
        return 1.0 - self.recent_error

    def _must_classify(self) -> "None":
        if self.head.classes is None:
            raise AttributeError("a regression has no accuracy; see its error")

    def forest(self) -> "Forest":
        """The trees as they are now. They predict, explain, save and export like any forest."""
        with self._lock:
            return self._now()

    def _now(self) -> "Forest":
        if self._model is None:
            if self._blind:
                raise ValueError("nothing was learned yet; call update first")
            self._model = self._snapshot()
        return self._model

    def _snapshot(self) -> "Forest":
        """A forest of copies, which later rows do not change."""
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
            for_forest(nodes, len(head.classes or ()), head.scale).move_to(forest)
            whole = 0.0
            for v in gains:
                whole += v
            for f, v in enumerate(gains):
                parts[f] += v / (whole or 1)
        shares = forest.importances = millionths(parts)
        if any(shares):  # they must add up, or a loaded learner would have others
            shares[largest(shares)] += 1000000 - sum(shares)
        forest.prepare()
        return forest

    def predict(self, rows: "Any") -> "Any":
        """The class or value of one row, or a list of them for a sequence of rows."""
        return self._ask(rows, Forest.predict)

    def predict_proba(self, rows: "Any") -> "Any":
        """The share of each class, in the order of `classes`, of one row or a sequence of rows."""
        return self._ask(rows, Forest.predict_proba)

    def _ask(self, rows: "Any", how: "Callable[[Forest, Any], Any]") -> "Any":
        """Let the learner answer as it is now; if the trees do, for many rows a forest of copies does.

        Both say the same. A copy takes the time of some thousand answers; the linear model has none.
        """
        with self._lock:
            if not self._blind:
                few = self._model is None and is_sequence(rows) and len(rows)
                if 0 < few <= max(FEW, self.head.n_features) or self._grove.choice():
                    return how(self.head, rows)
            model = self._now()
        return how(model, rows)

    @property
    def answered_by(self) -> "str":
        """Who answers now: "trees", "linear" for the linear model, or "both".

        >>> learner = OnlineForest(1)
        >>> learner.update([7], "warm"), learner.answered_by
        (None, 'trees')
        """
        choice = self._grove.choice() if self._grove else 0
        return "trees" if not choice else "linear" if choice & 1 else "both"

    @property
    def classes(self) -> "list[Any] | None":
        """The classes that were seen or announced, in the order of `predict_proba`."""
        return self.head.classes

    # ---- Continuing later

    @classmethod
    def from_forest(cls, forest: "Forest", latest: "Any" = None, **options: "Any") -> "Self":
        """A learner that continues with a forest that was trained before.

        Its trees keep voting, and are replaced when they are wrong too often. `latest` are rows to
        start with, as `Grove.latest` returns them. Options as for a new learner; features, classes
        and the number of trees are those of the forest.
        """
        leaves = 2
        bounds = list(forest.roots) + [len(forest.feature)]
        for t in range(len(forest)):
            leaves = max(leaves, (bounds[t + 1] - bounds[t]) // 2 + 1)
        given: "dict[str, Any]" = {
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
            latest = checked(head, latest)
        room = learner._plan().nodes
        if 2 * leaves - 1 > room:
            raise ValueError(
                f"a tree of {2 * leaves - 1} nodes does not fit into {room}: use a max_leaf_nodes "
                f"of at least {leaves}, and a budget that has the bytes for it"
            )
        trees = []
        for t in range(len(forest)):
            trees.append(for_grove(forest, bounds[t], bounds[t + 1], head.scale))
        learner._build(trees, latest)
        learner._blind = False  # it can predict the first row
        return learner

    def save(self, path: "AnyPath") -> "None":
        """Write the forest with the latest rows, so that learning can continue: see `load`.

        The file is a model like any other. Whenever the power fails, the old or the new one is
        there.
        """
        with self._saving:  # not `_lock`: rows are learned while a slow card is written
            forest, state = self._whole()
            collect()
            from edgeforest.storage import write

            write(forest, path, state)

    def _whole(self) -> "tuple[Forest, dict[str, Any]]":
        """The forest, and the state that is saved with it: arrays with the codes of their numbers."""
        with self._lock:
            forest = self._now()
            values, labels = self._grove.latest()
            state = {
                "online": self.options,
                "rows": self.rows,
                "judged": self._judged,
                "wrong": self._sum,
                "window": (values, "f"),
                "labels": (labels, "H"),
            }
            if self.drift:
                state["drift"] = self.drift.parts()
            return forest, state

    @classmethod
    def load(
        cls,
        path: "AnyPath",
        engine: "str | None" = None,
        on_drift: "Callable[[Drift], object] | None" = None,
    ) -> "Self":
        """A learner that continues from a file that `save` wrote, or from any other model.

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
            return cls.from_forest(forest, engine=engine, on_drift=on_drift)
        found: "Self" = _revive(cls, forest, state, engine)
        found.on_drift = on_drift
        return found

    def __reduce__(self) -> "tuple[Any, ...]":
        if self._blind:
            raise ValueError("an online forest that has learned nothing cannot be pickled yet")
        forest, state = self._whole()
        state.update({key: to_base64(*state[key]) for key in ("window", "labels")})
        return _revive, (self.__class__, forest, state, self.engine)


PART = 4096  # rows of one call of the kernel: Ctrl-C works in between
RECENT = 1000  # rows of the recent error
FEW = 1000  # rows that are predicted without a copy of the trees
ROWS = 1 << 53  # more than any learner has learned


def _engine(name: "Any") -> "Engine":
    """The engine of that name; a board has only one."""
    try:
        from edgeforest.engines import pick
    except ImportError:
        return ENGINE
    return pick(name)


def _revive(kind: "Any", forest: "Forest", state: "Any", engine: "str | None") -> "Any":
    """A learner as it was when it was saved; only its races start again."""
    _engine(engine)  # raises if it is not installed
    try:
        learner = _recalled(kind, forest, state, engine)
    except (TypeError, ValueError, KeyError, AttributeError):
        learner = None
    if learner is None:
        raise ValueError("the model is damaged inside; train or copy it again")
    return learner


def _recalled(kind: "Any", forest: "Forest", state: "Any", engine: "str | None") -> "Any":
    """A learner from its saved state; raises anything if no learner can have saved that."""
    options = dict(state["online"])
    for name in ("kind", "criterion", "seed"):
        if options[name] != getattr(forest, name):
            raise ValueError
    rows, judged, wrong = state["rows"], state["judged"], state["wrong"]
    if type(rows) is not int or type(judged) is not int or type(wrong) not in (int, float):
        raise ValueError
    known = set(kind(1, linear=False).options)
    if not 0 <= judged <= rows < ROWS or not 0 <= wrong < INF or set(options) - known:
        raise ValueError
    if forest.classes is not None and wrong > judged:
        raise ValueError
    options["budget"] = Budget(bytes=options.pop("bytes"))
    if options.pop("n_trees") != len(forest):
        raise ValueError
    latest = from_base64(state["window"], "f"), from_base64(state["labels"], "H")
    learner = kind.from_forest(forest, latest, engine=engine, **options)
    learner._before = rows - learner._grove.seen
    learner._judged = learner._told = judged
    learner._sum = wrong
    if "drift" in state:
        from edgeforest.drift import restored

        learner.drift = restored(state["drift"], rows, forest)
    return learner
