"""The model: a forest of flat arrays that predicts.

With `loading` beside it, this file is all that a board needs to predict. It imports nothing of ours and runs unchanged on
CPython and MicroPython. How a node is stored is known here,
and to `criteria.node_word`, which makes one; everybody else asks `split`.

    Forest    flat arrays, nodes in preorder, integer votes: `predict`, `predict_into`, `save`
    Spent     what its training has cost

`loading` reads a model, `writer` writes it; a board loads those when it needs them.
"""

import gc
import math
from array import array

try:
    import edgeforest_kernel as kernel  # type: ignore[import-not-found]  # what a board has in C
except ImportError:
    kernel = None

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *

VERSION = 2  # of the model format

LEAF = 0xFFFF  # in `feature`: no split here
MISSING_LEFT = 0x8000  # in `feature`: a missing value goes left
EQUAL = 0x4000  # in `feature`: categorical, a row goes left if it equals the threshold
FEATURE = 0x3FFF
LEVELS = 65535  # fixed-point levels of a regression target, and the most votes of one leaf
SUM = 16777215  # the largest sum of votes: 2^24 - 1, exact in float32
NAN = float("nan")
INF = float("inf")
HUGE = 3.4028234663852886e38  # the largest float32: every present value is below it
MASK = 0x3FFFFFFF  # 2^30 - 1, the largest int that costs a 32-bit board no memory

KINDS = ("random-forest", "extra-trees", "random-patches")
CRITERIA = ("gini", "entropy", "mse")
SPLITTERS = ("mab", "mab-paper", "exact")

BOARD = hasattr(gc, "mem_free")  # a small heap: memory is short, and time less so
# Collect garbage where memory is short, so that what lives on stays close together.
collect: "Any" = gc.collect if BOARD else int
PIECE = 12 if BOARD else 12288  # values that are coded at once: multiples of 3, base64 joins them


class Spent:
    """What a training has cost so far: insertions, rows read, rounds, seconds.

    >>> from edgeforest import train
    >>> forest = train([[i % 7] for i in range(60)], [i % 7 > 2 for i in range(60)], budget=500)
    >>> forest.spent.insertions <= 500
    True
    """

    def __init__(
        self,
        insertions: "int" = 0,
        rows_read: "int" = 0,
        rounds: "int" = 0,
        seconds: "float" = 0.0,
    ) -> "None":
        self.insertions = insertions
        self.rows_read = rows_read
        self.rounds = rounds
        self.seconds = seconds

    def __repr__(self) -> "str":
        return (
            f"Spent(insertions={self.insertions}, rows_read={self.rows_read}, "
            f"rounds={self.rounds}, seconds={self.seconds:.3f})"
        )


# Keys of the model file that are attributes of the forest, two of them by other names.
HEADER = "kind criterion splitter seed features categories classes importances budget scale".split()


def attribute(key: "str") -> "str":
    """The attribute of a forest that the model file calls by this key."""
    return {"features": "names", "budget": "limit"}.get(key, key)


class Forest:
    """A trained forest: flat arrays, nodes in preorder, integer votes.

    Node i of `feature` is LEAF, or a feature with its flags; its left child is i + 1, its right
    child right[i]; of a leaf, right[i] is the place of its votes. Numbers go left if they are at
    most the threshold, both as float32.

    >>> from edgeforest import train
    >>> forest = train([[i % 7] for i in range(60)], [i % 7 > 2 for i in range(60)], n_trees=4)
    >>> len(forest), forest.classes, forest.predict([[1], [5]]), forest.feature_importances
    (4, [False, True], [False, True], [1.0])
    """

    kind: "str"
    criterion: "str"
    splitter: "str"
    seed: "int"
    names: "list[str]"
    categories: "list[list[Label] | None]"
    classes: "list[Label] | None"
    importances: "list[int]"
    limit: "int | None" = None
    engine: "str | None" = None
    predictor: "Predictor | None" = None  # what predicts faster than this file, if anything
    scale: "int"
    regression: "bool"
    n_votes: "int"
    n_features: "int"
    places: "list[dict[Label, int] | None]"
    all_numbers: "bool"
    cut: "array[int] | None"
    packed: "Any"  # what an engine makes of the arrays when it first predicts
    calibration: "Sequence[int] | None"  # the numbers that `sure` needs, if there are any
    ranges: "array[float] | None"  # least and largest value of each feature, if they are known
    twin: "Forest | None"  # what `sure` makes of the arrays when it is first asked
    if 0:  # for type checkers: on a computer `engines` adds them; a board calls those of `sure`

        def predict_interval(self, rows: "Any", coverage: "float" = 0.9) -> "Any": ...
        def predict_set(self, rows: "Any", coverage: "float" = 0.9) -> "Any": ...

    leaf = LEAF  # what `feature` holds for one
    # For `writer`: what the model file says first, and values at once.
    version = VERSION
    header = HEADER
    piece = PIECE
    attribute = staticmethod(attribute)
    # How a computer takes rows of other kinds, such as frames; a board knows lists and arrays.
    adapt: "ClassVar[Callable[[Forest, Any], Any] | None]" = None

    def __init__(self) -> "None":
        self.roots = array("I")
        self.feature = array("H")
        self.threshold = array("f")
        self.right = array("H")
        self.votes = array("H")
        self.low = self.span = 0.0
        self.spent = Spent()

    def prepare(self) -> "None":
        """Derive what prediction needs from what is stored."""
        self.regression = self.classes is None
        self.n_votes = len(self.classes or (0,))
        self.n_features = len(self.names)
        self.places = [
            None if kinds is None else {v: c + 1 for c, v in enumerate(kinds)}
            for kinds in self.categories
        ]
        self.all_numbers = self.categories == [None] * self.n_features
        self.cut = self.packed = None
        if kernel:
            kernel.predictor(self)  # takes the place of predict_into
        elif BOARD:  # where predicting must not allocate
            self.round_down()

    def round_down(self) -> "array[int]":
        """Thresholds rounded down: the same for a row of whole numbers, and no float to allocate."""
        whole: "Any" = self.threshold
        if whole and isinstance(whole[0], int):  # as a board keeps them that trained on bytes
            self.cut = whole
            return whole  # type: ignore[no-any-return]
        code, size = "h", 2
        for t in self.threshold:
            if not -32768 <= t < 32768:
                code, size = "i", 4
        self.cut = cut = array(code, bytes(size * len(self.threshold)))
        for i, t in enumerate(self.threshold):
            cut[i] = math.floor(max(-MASK, min(MASK, t)))
        return cut

    def __len__(self) -> "int":
        return len(self.roots)

    def split(self, node: "int") -> "tuple[int, bool, bool] | None":
        """Of a split: its feature, whether that is categorical, whether missing goes left.

        None of a leaf, whose votes are at place right[node].
        """
        return split_of(self.feature[node])

    def encode(self, row: "Any") -> "array[float]":
        """A row as the float32 numbers that trees compare: categories become their codes."""
        is_list = is_sequence(row)
        if is_list:
            row = list(row)  # an array made of bytes would take their bits
            if self.all_numbers and len(row) == self.n_features:
                try:
                    return array("f", row)
                except (TypeError, ValueError, OverflowError):
                    pass
        from edgeforest.rows import encode_row

        return encode_row(self, row, is_list)

    def predict_into(self, row: "Any", out: "MutableSequence[int]") -> "int":
        """Sum the trees' votes for `row` into `out`, without allocation; returns the winner's place.

        `row` holds what `encode` gives, or whole numbers (bytes, array of int); `out` has a place
        for each class, or one for a regression (`value` turns its sum into the prediction).
        """
        feature = self.feature  # one by one: a tuple would be an allocation
        right = self.right
        votes = self.votes
        width = self.n_votes
        threshold: "Any" = self.threshold
        if isinstance(row[0], int):
            threshold = self.cut or self.round_down()
        for k in range(width):
            out[k] = 0
        for node in self.roots:
            f = feature[node]
            while f != LEAF:
                x = row[f & FEATURE]
                if f & EQUAL:
                    if x != x or x == 0:
                        left = f & MISSING_LEFT
                    else:
                        left = x == threshold[node]
                elif x != x:
                    left = f & MISSING_LEFT
                else:
                    left = x <= threshold[node]
                node = node + 1 if left else right[node]
                f = feature[node]
            place = right[node] * width
            for k in range(width):
                out[k] += votes[place + k]
        best = 0
        for k in range(1, width):
            if out[k] > out[best]:
                best = k
        return best

    def step(self) -> "float":
        """What one vote adds to the prediction of a regression, as a float32."""
        return array("f", [self.span / (self.scale * len(self.roots))])[0]

    def value(self, total: "int") -> "float":
        """The prediction of a regression from its summed votes, computed as float32 machines do."""
        part = array("f", [total * self.step()])[0]
        return array("f", [part + self.low])[0]

    def vote(self, rows: "Any") -> "tuple[bool, list[tuple[int, list[int]]]]":
        """Predict one row or many: whether it is one, and the (winner, votes) of each."""
        if self.adapt:
            rows = self.adapt(rows)
        if not is_sequence(rows):
            from edgeforest.rows import as_rows

            rows = as_rows(rows)
        one = len(rows) > 0 and not is_sequence(rows[0])
        answers = []
        for row in [rows] if one else rows:
            out = [0] * self.n_votes
            answers.append((self.predict_into(self.encode(row), out), out))
        return one, answers

    def predict(self, rows: "Any") -> "Any":
        """The class or value of one row, or a list of them for a sequence of rows."""
        if self.predictor:
            return self.predictor.predict(rows)
        return self.name(self.vote(rows))

    def name(self, voted: "tuple[bool, list[tuple[int, list[int]]]]") -> "Any":
        """The classes or values that the votes of rows stand for."""
        one, answers = voted
        found: "list[Any]"
        if self.classes is None:
            found = [self.value(out[0]) for _, out in answers]
        else:
            found = [self.classes[best] for best, _ in answers]
        return found[0] if one else found

    def predict_proba(self, rows: "Any") -> "Any":
        """The share of each class, in the order of `classes`, of one row or a sequence of rows."""
        if self.regression:
            raise ValueError("a regression has no class shares; use predict")
        one, answers = (self.predictor or self).vote(rows)
        shares = []
        for _, out in answers:
            # Votes add up to scale * trees, unless forests were joined that know different classes.
            whole = sum(out) or 1
            shares.append([v / whole for v in out])
        return shares[0] if one else shares

    @property
    def feature_importances(self) -> "list[float]":
        """Mean decrease in impurity by feature, summing to one."""
        return [v / 1000000 for v in self.importances]

    def text(self) -> "Iterator[str]":
        """The model as compact JSON, piece by piece; the last one holds the checksum."""
        from edgeforest.writer import sealed  # a board that only predicts does without

        return sealed(self)

    def to_json(self) -> "str":
        """The model as compact JSON."""
        return "".join(self.text())

    def write(self, stream: "Writable") -> "None":
        """Write the model to an open text stream."""
        for piece in self.text():
            stream.write(piece)

    def save(self, path: "Any") -> "None":
        """Write the model to a file; the old file stays whole until the new one is complete."""
        from edgeforest.files import write

        write(path, self.text(), b"\n")


def split_of(word: "int") -> "tuple[int, bool, bool] | None":
    """What an item of `Forest.feature` says: see `Forest.split`."""
    if word == LEAF:
        return None
    return word & FEATURE, word & EQUAL > 0, word & MISSING_LEFT > 0


# ---- Checks of what the user gave -------------------------------------------------------------


def is_sequence(value: "Any") -> "bool":
    """Whether it has a length and places, and is not text."""
    try:
        return not isinstance(value, (str, dict, set)) and len(value) >= 0
    except TypeError:
        return False
