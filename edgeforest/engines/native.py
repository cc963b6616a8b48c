"""The native engine: data lie where they are, and whole trees grow in C.

The C kernel in firmware/kernel grows the same trees as core_pure, which holds what is here only
inherited: options and their checks, names, weights, categories, the sharing of the budget.
"""

from array import array
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from itertools import islice, pairwise
from sys import byteorder
from time import monotonic
from typing import Any

from edgeforest import core_pure
from edgeforest.core_pure import EDGE_ROWS, MASK, Rng, Tree
from edgeforest.engines import _kernel
from edgeforest.host.frames import takes_frames
from edgeforest.online import in_order

# Formats of buffers (struct's letters), as the kernel's types.
_TYPES = {"b": 1, "?": 2, "B": 2, "h": 3, "H": 4, "f": 9, "d": 10}
_TYPES |= {c: {2: 3, 4: 5, 8: 7}[array(c).itemsize] for c in "ilq"}
_TYPES |= {c: {2: 4, 4: 6, 8: 8}[array(c).itemsize] for c in "ILQ"}
if _kernel.constants().get("KERNEL") != 4:
    raise ImportError("its C part was built from other sources; install edgeforest again")
_CRITERIA = ("gini", "entropy", "mse")  # by their numbers in the kernel
_CODES = 0
_BOUNDS = 256  # places for the bounds of a column
_STEP = 4_000_000  # insertions between two steps: some milliseconds
_PART = 16_000_000  # values that are coded between two looks at the clock
_ON_DEMAND = 0.25  # code rows when drawn if less than this share of all values will be looked at


def _view(values: Any) -> memoryview | None:
    """The buffer of an array that the kernel can read where it lies, or None."""
    if hasattr(values, "mask"):  # of a masked array the buffer tells half
        return None
    try:
        view = memoryview(values)
    except (TypeError, ValueError):  # no buffer; or one of dates
        return None
    if view.format is None or view.format.lstrip("@=<") not in _TYPES or view.ndim not in (1, 2):
        return None
    if view.suboffsets:  # rows that lie in places of their own
        return None
    if view.format[0] == "<" and array("H", [1]).tobytes() != b"\1\0":
        return None
    return view


def _type(view: memoryview) -> int:
    return _TYPES[(view.format or "").lstrip("@=<")]


class _Columns:
    """Where the columns of numbers lie: buffers, and for each column six numbers.

    Those of the user are held as views from the first look on: nobody can shorten them then.
    """

    def __init__(self, m: int, bounds: array | None) -> None:
        self.buffers: list[Any] = []
        # Of each column: buffer, offset, step from row to row, type, highest code, categories.
        self.layout = array("q", bytes(48 * m))
        self.bounds = bounds

    def place(self, f: int, buffer: int, offset: int, step: int, kind: int) -> None:
        """Say where column f lies."""
        self.layout[6 * f : 6 * f + 4] = array("q", [buffer, offset, step, kind])

    def last(self, f: int, code: int, categories: int = 0) -> None:
        """Say what its highest code is."""
        self.layout[6 * f + 4 : 6 * f + 6] = array("q", [code, categories])

    def parts(self) -> tuple[list[Any], array, array | None]:
        """What the kernel asks for."""
        return self.buffers, self.layout, self.bounds


class Training(core_pure.Training):
    """Training by the C kernel; with `n_jobs` threads. See `core_pure.Training`."""

    engine = "native"

    def __init__(self, X: Any, y: Any, *, n_jobs: int = 1, **options: Any) -> None:
        self.n_jobs = n_jobs
        self._task: Any = None
        self._free: list[Any] = []  # rooms to grow trees in
        self._room: Any = None  # of the tree in hand
        self._stop = bytearray(1)
        self._kept = 0, 0, 0  # trees, nodes and votes of the forest that are whole
        super().__init__(X, y, **options)

    # ---- Reading

    def read_labels(
        self, X: Any, y: Any, regression: bool, n_features: int | None, by_column: bool
    ) -> None:
        super().read_labels(X, y, regression, n_features, by_column)
        self._given = X, by_column

    def _read_classes(self, y: Any) -> None:
        view = _view(y)
        if view is None or view.ndim != 1 or _type(view) > 7 or view.format == "?":
            return super()._read_classes(y)
        codes = array("H", bytes(2 * self.n))
        classes = _kernel.classes(*_column(view), self.n, codes)
        if classes is None:  # too many, or too far apart
            return super()._read_classes(y)
        self.classes = classes
        self.width = len(classes)
        self.y = codes
        if self.width < 257:  # the lower byte of each
            self.y = bytearray(memoryview(codes).cast("B")[byteorder == "big" :: 2])

    def _read_targets(self, y: Any) -> None:
        view = _view(y)
        if view is None or view.ndim != 1:
            y = core_pure._floats(y, "target")
            core_pure._steady(len(y) == self.n, "y", self.n)
            view = memoryview(y)
        levels = array("H", bytes(2 * self.n))
        found = _kernel.targets(*_column(view), self.n, levels)
        if found is None:
            return super()._read_targets(y)  # which says what is wrong
        self.low, span = found
        self.span = array("f", [span])[0]
        self.y = levels

    def read_rows(self, rng: Rng) -> None:
        """Place the bounds; then code every value, or leave that until a row is drawn."""
        try:
            self._read_rows(rng)
        except (TypeError, ValueError) as error:
            if error.args != (core_pure.LATE,):
                self._refuse()
            raise
        except LookupError:
            self._refuse()
            core_pure._steady(False, "X", self.n)

    def _refuse(self) -> None:
        """Let the core find what is wrong with the data, and say it."""
        super().read_rows(Rng())

    def _read_rows(self, rng: Rng) -> None:
        n, m = self.n, self.m
        self.bounds = None if self.raw else array("f", bytes(4 * _BOUNDS * m))
        columns = self._columns = _Columns(m, self.bounds)
        self.budget.spent.rows_read += min(n, EDGE_ROWS)
        numbers = [f for f in range(m) if self.categories[f] is None]
        in_place = self._find_columns(columns, numbers)
        if self.raw and in_place:
            for f in numbers:
                columns.last(f, 255)
        elif self.raw:
            self._code_by_column(columns, numbers, None)
        else:
            sample = None
            if n > EDGE_ROWS:
                sample = array("I", bytes(4 * EDGE_ROWS))
                rng.z, rng.w = _kernel.fill(rng.z, rng.w, n, sample)
            if in_place:
                self._bound_and_code(columns, numbers, sample)
            else:
                self._code_by_column(columns, numbers, sample)
        for f in range(m):
            kinds = self.categories[f]
            if kinds is None:
                continue
            self.in_time()
            codes, _ = self._read_categories(f, self._values(f))
            core_pure._steady(len(codes) == n, f"feature {self.names[f]!r}", n)
            columns.place(f, len(columns.buffers), 0, 1, _CODES)
            columns.last(f, len(self.categories[f]), len(self.categories[f]))
            columns.buffers.append(codes)

    def _read_categories(self, f: int, values: Any) -> Any:
        values = list(values)  # the same objects each time: NaN is not found by its value
        try:  # each value once
            distinct = list(set(values))
            codes, bounds = super()._read_categories(f, distinct)
        except (TypeError, ValueError):  # one by one, to say where
            return super()._read_categories(f, values)
        code = dict(zip(distinct, codes, strict=True))
        return bytearray([code[v] for v in values]), bounds

    def _values(self, f: int) -> Any:
        """The values of a column; none if a row has no such place, whatever its length says."""
        try:
            return self.column(f)
        except LookupError:
            return ()

    def _find_columns(self, columns: _Columns, numbers: list[int]) -> bool:
        """Look whether the kernel can read X where it lies; its shape must be what was found."""
        X, by_column = self._given
        n, m = self.n, self.m
        view = _view(X)
        if by_column and (view is None or view.ndim != 2):
            views = {f: _view(self._values(f)) for f in numbers}
            if not all(v is not None and v.shape == (n,) for v in views.values()):
                return False
            for f, view in views.items():
                assert view is not None
                assert view.strides is not None
                columns.place(f, len(columns.buffers), 0, view.strides[0], self._kind(view))
                columns.buffers.append(view)
            return True
        if view is None or view.strides is None:
            return False
        if view.shape == ((m, n) if by_column else (n, m)):
            row, column = view.strides[::-1] if by_column else view.strides
        elif view.shape == (n * m,):
            row, column = view.strides[0] * m, view.strides[0]
        else:
            return False
        for f in numbers:
            columns.place(f, 0, f * column, row, self._kind(view))
        columns.buffers.append(view)
        return True

    def _kind(self, view: memoryview) -> int:
        return _CODES if self.raw else _type(view)

    def _bound_and_code(self, columns: _Columns, numbers: list[int], sample: array | None) -> None:
        """Bounds of columns that lie in place, and their codes if many will be looked at."""
        last = array("i", bytes(4 * self.m))
        kinds = [columns.layout[6 * f + 3] for f in range(self.m)]
        _kernel.bounds(columns.buffers, columns.layout, sample, self.n, self.bounds, last)
        for f in numbers:
            columns.last(f, last[f])
            low, high = self.bounds[_BOUNDS * f], self.bounds[_BOUNDS * f + last[f]]
            if low - low != 0 or high - high != 0:
                raise ValueError("infinite")
        self.on_demand = self._looks() < _ON_DEMAND * self.n * self.m
        if self.on_demand:
            return
        codes = bytearray(self.n * self.m)
        jobs = pieces = max(1, min(self.n_jobs, self.n // 65536))
        if self.budget.seconds is not None:  # the clock is asked in between
            pieces = max(jobs, self.n * self.m // _PART)
        marks = [self.n * i // pieces for i in range(pieces + 1)]

        def encode(part: tuple[int, int]) -> None:
            self.in_time()
            if _kernel.encode(*columns.parts(), part[0], part[1] - part[0], codes) is not None:
                raise ValueError("infinite")

        if jobs == 1:
            for part in pairwise(marks):
                encode(part)
        else:
            with ThreadPoolExecutor(jobs) as pool:
                list(pool.map(encode, pairwise(marks)))
        columns.buffers = [codes]
        for f in numbers:
            if kinds[f] != _CODES:
                columns.place(f, 0, f, self.m, _CODES)

    def _looks(self) -> float:
        """About how many values training will look at: what its races want, or its budget."""
        wanted = self.n_trees * self.max_features * self._demand(self.sample_size, 0)
        limit = self.budget.insertions
        return wanted if limit is None else min(wanted, limit)

    def _code_by_column(self, columns: _Columns, numbers: list[int], sample: array | None) -> None:
        """Code lists of Python numbers, one column after the other."""
        m = self.m
        codes = bytearray(self.n * m)
        for f in numbers:
            self.in_time()
            columns.place(f, 0, f, m, _CODES)
            if self.raw:
                values = bytearray(self._values(f))
            else:
                what = f"feature {self.names[f]!r} (not in categorical)"
                values = core_pure._floats(self._values(f), what)
            core_pure._steady(len(values) == self.n, f"feature {self.names[f]!r}", self.n)
            if self.raw:
                codes[f::m] = values
                columns.last(f, 255)
                continue
            one = _Columns(1, array("f", bytes(4 * _BOUNDS)))
            one.buffers.append(values)
            one.place(0, 0, 0, 4, _TYPES["f"])
            last = array("i", [0])
            _kernel.bounds(one.buffers, one.layout, sample, self.n, one.bounds, last)
            one.last(0, last[0])
            column = bytearray(self.n)
            _kernel.encode(*one.parts(), 0, self.n, column)
            codes[f::m] = column
            columns.last(f, last[0])
            self.bounds[_BOUNDS * f : _BOUNDS * (f + 1)] = one.bounds
        columns.buffers.append(codes)

    # ---- Memory

    def working_bytes(self, nodes: int = 0, growing: int = 0) -> int:
        n, width, racing = self.n, self.width, max(2, self.max_features)
        rows = self.sample_size if self.bootstrap or self.weights else n
        bins = self.n_bins + 1
        if any(kinds is not None for kinds in self.categories):
            bins = 256
        cell = 8 if self.regression else 4
        work = 4096 + 16384 * (self.criterion.name == "entropy")  # as ef_workspace_bytes has it
        work += racing * (1024 + bins * width * cell) + 64 * max(4, min(width, 64)) + 96 * width
        work += 5 * rows + 2 * self.m + (2 * n if self.weights else n)
        held = 4 * n + 300 * self.m  # labels, where columns lie
        if self.weights or self.patch:
            held += 8 * n
        X, by_column = self._given
        in_place = _view(X) is not None or (by_column and all(_view(x) is not None for x in X))
        if not (self.raw and in_place):
            held += n * self.m + 3200 * self.m  # codes, bounds
        reading = 0 if in_place else 40 * n  # a column of Python's numbers
        node = 12 + (1 if self.regression else width)
        growing = max(growing, self._largest_tree())  # whose room is kept
        return held + max(work, reading) + nodes * node * 17 // 16 + growing * (node + 72)

    def _plan_trees(self) -> None:
        super()._plan_trees()
        self._trees = self.planned  # in all, also where somebody asks for them one by one

    def _largest_tree(self) -> int:
        """Nodes of the largest tree so far, of those too that an earlier run has grown."""
        if not hasattr(self, "grown"):  # nothing is read yet
            return 0
        ends = [*self.grown.roots, len(self.grown.feature)]
        return max((end - start for start, end in pairwise(ends)), default=0)

    def _most_nodes(self) -> int:
        """Nodes that the budget in bytes leaves to the next tree, -1 for any number."""
        room = self.budget.bytes
        if room is None:
            return -1
        nodes, some = len(self.grown.feature), self._largest_tree() + 1000
        before = self.working_bytes(nodes, some)
        one = self.working_bytes(nodes, some + 1000) - before
        done = self.working_bytes(nodes + 1000, some) - before
        # The room of a tree is kept for those after it: so all of them may be equally large.
        each = one + done * max(0, self._trees - len(self.grown) - 1)
        return max(1, min(MASK, (1000 * (room - before) + some * one) // each))

    # ---- Growing

    def _begin(self, place: int, insertions: int | None) -> Any:
        """A room with the tree of that place in the forest begun in it."""
        if self._task is None:
            confidence = -1.0 if self.confidence is None else self.confidence
            self._task, self.workspace = _kernel.task(
                self._columns.parts(),
                self.features,
                self.y,
                self.weights,
                self.patch,
                (
                    self.n,
                    len(self.patch) if self.patch else self.n,
                    self.sample_size,
                    self.batch,
                    self.max_depth,
                    self.min_samples_leaf,
                    self.min_samples_split,
                    self.max_leaf_nodes,
                    self.max_features,
                    self.n_bins,
                    self.width,
                    self.seed,
                    self.grown.scale,
                    MASK,
                    _CRITERIA.index(self.criterion.name),
                    ("mab", "mab-paper", "exact").index(self.splitter),
                    self.kind == "extra-trees",
                    bool(self.bootstrap),
                    self.raw,
                    isinstance(self.y, array),
                ),
                (self.min_impurity_decrease, self.z, self.tolerance, confidence),
            )
        try:
            room = self._free.pop()
        except IndexError:
            room = _kernel.tree(self._task)
        limit = -1 if insertions is None else min(insertions, 1 << 62)
        _kernel.begin(room, self.first + place, limit, self._most_nodes())
        return room

    def _advance(self, room: Any, seconds: float) -> bool:
        try:
            return _kernel.grow(room, _STEP, seconds, self._stop)
        except OverflowError:  # an infinite number, found when its row was drawn
            self._refuse()
            raise

    def trial(self) -> None:
        """Draw the rows of a tree, and throw it away: to see how long that takes."""
        room = self._begin(0, 0)
        _kernel.grow(room, 1, 0.0, self._stop)
        self._free.append(room)

    def _grow(self, tree: Tree, place: int) -> Any:
        budget = self.budget
        room = self._room = self._begin(place, budget.left())
        before = budget.spent.insertions, budget.spent.rows_read, budget.spent.rounds
        more = True
        while more:
            seconds = -1.0 if budget.until is None else max(0.0, budget.until - budget.tick())
            more = self._advance(room, seconds)
            self._add_up(room, before)
            yield self

    def _add_up(self, room: Any, before: tuple[int, int, int]) -> None:
        spent = self.budget.spent
        cost = _kernel.spent(room)
        spent.insertions, spent.rows_read, spent.rounds = map(sum, zip(before, cost, strict=True))

    def _run(self) -> Any:
        jobs = min(self.n_jobs, self.planned)
        if jobs > 1 and self.budget.bytes is None:
            yield from self._run_threads(jobs)
        else:
            yield from super()._run()

    def _run_threads(self, jobs: int) -> Any:
        """Grow trees at once: each with its share of the budget, added to the forest in order."""
        budget, planned = self.budget, self.planned
        read = budget.tick()  # until the rows were read
        begun = monotonic() - read
        shares: list[int | None] = [None] * planned
        if budget.insertions is not None:
            marks = [budget.insertions * i // planned for i in range(planned + 1)]
            shares = [b - a for a, b in pairwise(marks)]

        def grow(place: int, index: int) -> Any:
            room = self._begin(place, shares[index])
            until = None
            if budget.seconds is not None:
                part = min(planned, index + jobs) / planned
                until = begun + read + (budget.seconds - read) * part
            more = not self._stop[0]
            while more:
                more = self._advance(room, -1.0 if until is None else max(0.0, until - monotonic()))
            return room

        self._free.append(self._begin(0, None))  # makes the task, before the threads ask for it
        pool = ThreadPoolExecutor(jobs)
        try:
            coming = enumerate([i for i in range(planned) if i == 0 or shares[i] != 0])
            ahead = deque(pool.submit(grow, *i) for i in islice(coming, 2 * jobs))
            while ahead:  # a tree that is done keeps its room until those before it are done, too
                tree = ahead.popleft()
                while True:
                    try:
                        room = tree.result(timeout=0.05)
                        break
                    except NotYet:
                        budget.tick()
                        yield self
                if self.grown and budget.late():
                    break
                ahead.extend(pool.submit(grow, *i) for i in islice(coming, 1))
                spent = budget.spent
                self._add_up(room, (spent.insertions, spent.rows_read, spent.rounds))
                self.tree = Tree()
                self._room = room
                self._close()
                budget.tick()
                yield self
        finally:
            self._stop[0] = 1
            pool.shutdown(wait=True, cancel_futures=True)

    def _close(self) -> None:
        if self.tree is None:
            return
        forest, room = self.grown, self._room
        spent = self.budget.spent
        before = spent.insertions, spent.rows_read, spent.rounds
        begun = room is not None
        if not begun:  # stopped before it began
            room = self._begin(len(forest), None)
        self.tree = self._room = None
        importance = array("d", self.importance)
        here, width = len(forest.feature), 1 if self.regression else self.width
        feature, threshold, right, votes = _kernel.close(
            room, importance, here, len(forest.votes) // width
        )
        forest.roots.append(here)
        forest.feature.frombytes(feature)
        forest.threshold.frombytes(threshold)
        forest.votes.frombytes(votes)
        if len(forest.feature) > 65535 and forest.right.typecode == "H":
            forest.right = array("I", forest.right)
        forest.right.extend(array(forest.right.typecode, array("I", right)))
        if not begun:
            self._add_up(room, before)
        self._free.append(room)
        self.importance = importance.tolist()
        self._kept = len(forest.roots), len(forest.feature), len(forest.votes)

    def forest(self) -> core_pure.Forest:
        trees, nodes, votes = self._kept  # a tree that Ctrl-C met while it was added is not
        grown = self.grown
        for values in (grown.feature, grown.threshold, grown.right):
            del values[nodes:]
        del grown.roots[trees:], grown.votes[votes:]
        try:
            return super().forest()
        finally:
            self._task = self._room = self._given = self._columns = None
            self._free = []


def _column(view: memoryview) -> tuple[list[Any], array]:
    """A column that lies in one buffer."""
    one = _Columns(1, None)
    assert view.strides is not None
    one.place(0, 0, 0, view.strides[0], _type(view))
    return [view], one.layout


class Forest(core_pure.Forest):
    """A forest that predicts in C. See `core_pure.Forest`."""

    def prepare(self) -> None:
        # All of it but `cut`, which takes long and is asked for by `predict_into` alone.
        parts = self.right, self.threshold
        self.right, self.threshold = array("H"), array("f")
        super().prepare()
        self.right, self.threshold = parts
        del self.cut
        self._packed: Any = None

    def __reduce__(self) -> Any:
        from edgeforest.engines import pack

        return pack(self)

    def __getattr__(self, name: str) -> Any:
        if name != "cut":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        super().prepare()
        return self.cut

    def _walk(self, rows: Any, encoded: bool = False) -> tuple[bool, int, tuple[Any, ...]]:
        """Whether it is one row, how many there are, and what the kernel needs to go down trees.

        Rows that are `encoded` have the codes of their categories.
        """
        view = _view(rows) if self.all_numbers or encoded else None
        if view is not None and view.shape is not None and view.strides is not None:
            one = view.ndim == 1
            n, step, column = 1, 0, view.strides[-1]
            if not one:
                n, step = view.shape[0], view.strides[0]
            if view.shape[-1] != self.n_features or n == 0:
                view = None
        if view is None or view.nbytes == 0:
            one, rows = self._encoded(rows)
            n, step, column = len(rows) // self.n_features, 4 * self.n_features, 4
            view = memoryview(rows)
        if self._packed is None:
            wide = self.right.typecode != "H"
            self._packed = _kernel.pack(self.feature, self.threshold, self.right, self.roots, wide)
        layout = 0, step, column, _type(view)
        return one, n, (self._packed, self.votes, view, layout)

    def sums(self, rows: Any, encoded: bool = False) -> "tuple[bool, array[int], array[int]]":
        """Whether it is one row; the summed votes of all rows, and the winner of each."""
        one, n, walk = self._walk(rows, encoded)
        sums = array("I", bytes(4 * n * self.n_votes))
        best = array("H", bytes(2 * n))
        _kernel.predict(walk, self.n_votes, n, sums, best)
        return one, sums, best

    def leaves(self, rows: Any, encoded: bool = False) -> "array[int]":
        """The leaf of each tree that each row reaches: all rows of one tree, then of the next."""
        _, n, walk = self._walk(rows, encoded)
        leaves = array("I", bytes(4 * n * len(self.roots)))
        _kernel.apply(walk, n, leaves)
        return leaves

    def _encoded(self, rows: Any) -> "tuple[bool, array[float]]":
        """Whether it is one row; the numbers of all rows."""
        rows = core_pure._rows(rows)
        if len(rows) > 0 and not core_pure._is_sequence(rows[0]):
            return True, self.encode(rows)
        values = array("f")
        for row in rows:
            values.extend(self.encode(row))
        return False, values

    @takes_frames
    def predict(self, rows: Any) -> Any:
        one, sums, best = self.sums(rows)
        answers: list[Any]
        if self.regression:
            values = array("d", bytes(8 * len(sums)))
            step = array("f", [self.span / (self.scale * len(self.roots))])[0]
            _kernel.values(sums, step, self.low, values)
            answers = values.tolist()
        else:
            classes = self.classes
            answers = [classes[k] for k in best]
        return answers[0] if one else answers

    def _votes(self, rows: Any) -> Any:
        one, sums, best = self.sums(rows)
        width = self.n_votes
        return one, [(k, sums[width * i : width * i + width].tolist()) for i, k in enumerate(best)]


Training.Forest = Forest


class Grove:
    """Trees that learn row by row: the Grove of online.py, in C."""

    def __init__(self, plan: Any) -> None:
        self.plan = plan
        numbers = (
            *(plan.m, plan.width, plan.n_trees, plan.max_features, plan.n_bins, plan.max_depth),
            *(plan.nodes, plan.races, plan.window, plan.patch, plan.stride),
            *(plan.seed, plan.stream, plan.scale, plan.fade),
            *(_CRITERIA.index(plan.criterion), int(plan.extra)),
        )
        self.seen = 0
        self._grove = _kernel.grove(numbers, plan.rows, plan.least, plan.kinds)

    def learn(self, values: Any, labels: Any, n: int, guesses: Any) -> None:
        _kernel.learn(self._grove, values, labels, 0, n, guesses)
        self.seen += n

    def recall(self, values: Any, labels: Any, n: int) -> None:
        _kernel.learn(self._grove, values, labels, 0, n, None)
        self.seen += n

    def tree(self, t: int) -> list[Any]:
        parts = zip("HfHHId", _kernel.sapling(self._grove, t), strict=True)
        return [array(code, part) for code, part in parts]

    def plant(self, t: int, *parts: Any) -> None:
        *nodes, gains = parts
        _kernel.plant(self._grove, t, *nodes, array("d", gains))

    def renew(self, t: int) -> None:
        _kernel.renew(self._grove, t)

    def latest(self) -> tuple[Any, Any]:
        seen, values, labels = _kernel.latest(self._grove)
        return in_order(self.plan, seen, array("f", values), array("H", labels))
