"""How sure a forest is: intervals and sets of classes that hold the truth as often as asked.

`edgeforest.calibrate` finds a few whole numbers, which the model keeps as `calibration`: a floor, then
one number for each coverage from 50 to 99 percent. With them, and with whole numbers only, every
machine computes the same answers:

    an interval    the summed votes of a regression, plus and minus (spread + floor) * number / 1024,
                   but within the targets of the training; spread is the root of
                   trees * (sum of squared votes) - (sum of votes) ^ 2
    a set          the class with the most votes, and those with at least number / 65536 of them

A board loads this file when it is asked for one. It runs unchanged on CPython and MicroPython.
"""

from array import array

from edgeforest.forest import Forest

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *

LEAST = 50  # percent: the coverage of the first number
MOST = 99
WIDTH = 1024  # numbers of a regression are in parts of it ...
SHARE = 65536  # ... and those of classes are shares of the votes


def predict_interval(forest: "Forest", rows: "Any", coverage: "float" = 0.9) -> "Any":
    """The bounds between which the value of a row lies, with this chance, of one row or many.

    The forest must be calibrated: see `calibrate`.

    >>> from edgeforest import calibrate, train
    >>> X, y = [[i % 50] for i in range(600)], [2.0 * (i % 50) + i % 7 for i in range(600)]
    >>> forest = train(X[:400], y[:400], n_trees=20, criterion="mse")
    >>> forest = calibrate(forest, X[400:], y[400:])
    >>> lower, upper = forest.predict_interval([25])
    >>> 48 < lower < 52 < 54 < upper < 58
    True
    """
    if not forest.regression:
        raise ValueError("a classification has no intervals; use predict_set")
    number = number_for(forest, coverage)
    twin = twin_of(forest)
    one, answers = (twin.predictor or twin).vote(rows)
    found = []
    for _, sums in answers:
        low, high = bounds(forest, sums, number)
        found.append((forest.value(low), forest.value(high)))
    return found[0] if one else found


def predict_set(forest: "Forest", rows: "Any", coverage: "float" = 0.9) -> "Any":
    """The classes of which a row has one, with this chance, of one row or many, the surest first.

    The forest must be calibrated: see `calibrate`.

    >>> from edgeforest import calibrate, train
    >>> X, y = [[i % 50] for i in range(600)], [i % 50 + i % 7 > 30 for i in range(600)]
    >>> forest = calibrate(train(X[:400], y[:400], n_trees=20), X[400:], y[400:])
    >>> [sorted(found) for found in forest.predict_set([[10], [27], [40]], coverage=0.99)]
    [[False], [False, True], [True]]
    """
    classes = forest.classes
    if classes is None:
        raise ValueError("a regression has no classes; use predict_interval")
    number = number_for(forest, coverage)
    one, answers = (forest.predictor or forest).vote(rows)
    found = []
    for best, votes in answers:
        least = number * sum(votes)
        places = [k for k, v in enumerate(votes) if k == best or v * SHARE >= least]
        places.sort(key=lambda k: (-votes[k], k))  # noqa: B023
        found.append([classes[k] for k in places])
    return found[0] if one else found


def number_for(forest: "Forest", coverage: "float") -> "int":
    """The number that goes with a coverage; an error if the forest does not have it."""
    known = getattr(forest, "calibration", None)
    if not known:
        raise ValueError(
            "this forest is not calibrated; call calibrate with rows that it has not seen"
        )
    most = LEAST + len(known) - 2
    percent = 0
    if isinstance(coverage, (int, float)) and 0 < coverage < 1:
        percent = int(coverage * 100 + 0.5)
    if not LEAST <= percent <= MOST or abs(coverage * 100 - percent) > 0.001:
        raise ValueError(f"coverage must be from 0.5 to 0.99 in steps of 0.01, got {coverage!r}")
    if percent > most:
        raise ValueError(
            f"coverage must be at most {most / 100} for this forest, got {coverage!r}; "
            "train and calibrate it with more rows"
        )
    number: "int" = known[1 + percent - LEAST]
    return number


def bounds(forest: "Forest", sums: "Sequence[int]", number: "int") -> "tuple[int, int]":
    """The interval in summed votes; `sums` are those of the twin."""
    total = sums[0]
    assert forest.calibration
    reach = (spread(forest, sums) + forest.calibration[0]) * number // WIDTH
    return max(0, total - reach), min(forest.scale * len(forest), total + reach)


def spread(forest: "Forest", sums: "Sequence[int]") -> "int":
    """The spread of the trees' votes times the trees, rounded down; `sums` are those of the twin."""
    total, high, low = sums
    squares = high * twin_of(forest).scale + low
    return root(len(forest) * squares - total * total)


def root(n: "int") -> "int":
    """The square root of a whole number, rounded down.

    >>> root(99), root(100)
    (9, 10)
    """
    x = 1
    while x * x < n:
        x += x
    while x * x > n:
        x = (x + n // x) // 2
    return x


def twin_of(forest: "Forest") -> "Forest":
    """A forest with the same trees whose leaves have three votes: the vote, and its square.

    The square has two digits, high and low, in a base that no vote reaches: the twin's `scale`. So
    no vote of the twin is larger than one of the forest, and what sums up votes exactly sums up
    squares exactly.
    """
    twin: "Forest | None" = getattr(forest, "twin", None)
    if twin is None or len(twin.votes) != 3 * len(forest.votes):  # trees may have been added
        twin = Forest()
        twin.scale = base = max(forest.votes) + 1
        for name in ("names", "categories", "roots", "feature", "threshold", "right"):
            setattr(twin, name, getattr(forest, name))
        twin.classes = [0, 1, 2]
        twin.votes = votes = array("H", bytes(6 * len(forest.votes)))
        for i, v in enumerate(forest.votes):
            votes[3 * i] = v
            votes[3 * i + 1] = v * v // base
            votes[3 * i + 2] = v * v % base
        twin.prepare()
        if forest.predictor:
            kind: "Any" = type(forest.predictor)
            twin.predictor = kind(twin)
        forest.twin = twin
    return twin
