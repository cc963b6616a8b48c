"""Notice that the world has changed: the drift alarm of an `OnlineForest`.

    Drift     an alarm: when, which features, how sure
    Watch     counts the errors of a learner, and raises the alarm

Every row is predicted before it is learned. How often a forest is wrong is counted: for each class
that it predicts, and apart for predictions that few, many or most of the votes are for. Then every
prediction changes a sum, by the logarithm of how much likelier its outcome is if errors come several
times as often. An error adds to the sum, a right prediction takes a little away, and after every 25
rows the sum is at least zero (Page's CUSUM test). While errors come as usual, it stays low. Where it
began to rise, the world has changed.

A change shows first where votes are divided: there some leaves have learned the new rule already.

This file runs unchanged on CPython and MicroPython.
"""

import math
from array import array

from edgeforest.forest import INF

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.forest import Forest
    from edgeforest.host.types import *

# Measured choices: benchmarks/drift.py.
ALARM = 10.0  # the sum that raises the alarm
TIMES = (
    4.0,
    2.5,
    1.3,
)  # how many times the odds of an error rise, where few, many, most trees agree
OVERALL = 2.0  # the same for all predictions together
WARM = 1000  # rows that show what is usual
CHUNK = 25  # rows that are counted at once
BLOCK = 250  # rows after which what is usual is computed again
LONG = 4000  # rows that it is computed from, at most; older ones count half
PRIOR = 10  # rows that the errors of all predictions count as in those of one class
WAIT = 200  # rows of the changed world that are seen before it is told, to find the features
LARGE = 2.0  # a number is wrong if its error is more than this many mean errors
SURE = 2.0  # standard errors that must lie between the shares of errors before and after
FEW = 20  # predictions of a class in which features are looked for
CLEAR = 5.0  # squared standard errors by which errors must depend on a feature to name it


class Drift:
    """A change of the world: since when, which features, and how sure that is.

    `row` is the row that raised the alarm, `since` the one from which on errors came more often,
    both counted from 1. `features` are those that the new errors depend on, most of all first; there
    may be none. `guess` is the class whose predictions went wrong, of a regression "too high" or
    "too low", and None if all did. `before` and `after` are the shares of errors among these
    predictions, and `sure` is how many standard errors lie between the two. (A number counts as an
    error if it is off by twice the usual.)

    >>> from edgeforest import OnlineForest, Rng
    >>> found, rng = [], Rng(5)
    >>> learner = OnlineForest(["a", "b", "c"], on_drift=found.append)
    >>> for i in range(3000):  # from row 2001 on another feature decides
    ...     row = [rng.below(100), rng.below(100), rng.below(100)]
    ...     guess = learner.update(row, row[0 if i < 2000 else 2] > 50)
    >>> found[0].row <= 2500, abs(found[0].since - 2001) < 10, found[0].features[0]
    (True, True, 'c')
    """

    def __init__(
        self,
        row: "int",
        since: "int",
        features: "list[str]",
        guess: "Any",
        before: "float",
        after: "float",
        sure: "float",
    ) -> "None":
        self.row = row
        self.since = since
        self.features = features
        self.guess = guess
        self.before = before
        self.after = after
        self.sure = sure

    def parts(self) -> "list[Any]":
        """What `restored` takes."""
        parts = [self.row, self.since, self.features, self.guess]
        return parts + [self.before, self.after, self.sure]

    def __repr__(self) -> "str":
        return (
            f"Drift(row={self.row}, since={self.since}, features={self.features!r}, "
            f"guess={self.guess!r}, before={self.before:.2f}, after={self.after:.2f}, "
            f"sure={self.sure:.1f})"
        )


def restored(parts: "Any", rows: "int", forest: "Forest") -> "Drift":
    """A drift from its parts; raises anything if no learner of so many rows can have saved it."""
    row, since, features, guess, before, after, sure = parts
    if type(row) is not int or type(since) is not int or not 0 < since <= row <= rows:
        raise ValueError
    known = forest.classes or ["too high", "too low"]
    if guess is not None and guess not in known or set(features) - set(forest.names):
        raise ValueError
    for v in (before, after, sure):
        if type(v) not in (int, float) or not 0 <= v < INF:
            raise ValueError
    return Drift(row, since, list(features), guess, before, after, sure)


class Watch:
    """Counts the errors of a learner, row after row, and raises the alarm.

    The code of a prediction has the place of the class, two bits for how many trees share it (see
    `Grove.learn`), and one bit that says that it was wrong. A regression has two places: too high,
    too low.
    """

    def __init__(self, m: "int", row: "int", keep: "int", regression: "bool") -> "None":
        self.m = m
        self.row = row  # rows counted
        self.keep = keep  # rows that are kept, to find the features
        self.regression = regression
        self.values = array("f")  # of the latest rows
        self.codes = array("I")
        self.room = CHUNK  # rows to wait for before they are counted
        self._begin()

    def _begin(self) -> "None":
        """Forget what was usual."""
        self.first = self.row
        self.due = self.row + BLOCK
        self.rose: "int | None" = None  # the place that has raised the alarm; -1: all together
        self.limit = INF  # an error of a regression above it is large
        self.total = self.counted = 0.0  # errors of a regression, and their number
        self.all_n = self.all_e = 0.0  # predictions, and errors
        self.usual = 0.0  # share of errors
        self.n: "dict[int, float]" = {}  # predictions, by code
        self.steps: "dict[int, float]" = {}  # what one adds to its sum, by code
        self.sums: "dict[int, float]" = {}  # by place
        self.since: "dict[int, int]" = {}  # row after which a sum began to rise

    def see(self, values: "array[float]", codes: "Any") -> "Any":
        """Count predictions; returns alarms, as `_alarm` does.

        Instead of codes, a regression gives what its predictions were too high by.
        """
        n, m, done = len(codes), self.m, 0
        if n < self.room and not self.regression:
            self.room -= n
            self.values.extend(values)
            self.codes.extend(array("I", codes))
            return ()
        found: "list[Any]" = []
        while done < n:
            end = min(n, done + self.room)
            part = codes[done:end]
            if self.regression:
                part = self._coded(part)
            self.values.extend(values[done * m : end * m])
            self.codes.extend(array("I", part))
            self.room -= end - done
            done = end
            if not self.room:
                self.room = CHUNK
                found.extend(self._count())
        return found

    def _coded(self, errors: "list[float]") -> "list[int]":
        """The codes of numbers that are too high by so much."""
        codes = []
        for v in errors:
            self.total += abs(v)
            codes.append((2 if v > 0 else 10) + (abs(v) > self.limit))
        self.counted += len(errors)
        return codes

    def _count(self) -> "list[tuple[Any, ...]]":
        """Count the latest rows; returns the alarm if there is one."""
        seen: "dict[int, int]" = {}
        for code in self.codes[-CHUNK:]:
            seen[code] = seen.get(code, 0) + 1
        if self.rose is None and self.row >= self.first + WARM:
            self._test(seen)
        for code in seen:
            self.n[code] = self.n.get(code, 0.0) + seen[code]
            self.all_e += seen[code] * (code & 1)
        self.all_n += CHUNK
        self.row += CHUNK
        found: "list[tuple[Any, ...]]" = []
        if self.row >= self.due:
            if self.rose is None:
                self._refresh()
            else:
                found = self._alarm(self.rose)
        if len(self.codes) > 2 * self.keep + CHUNK:
            self.values = self.values[-self.keep * self.m :]
            self.codes = self.codes[-self.keep :]
        return found

    def _test(self, seen: "dict[int, int]") -> "None":
        """Let the sums rise and fall."""
        wrong = 0
        rises: "dict[int, float]" = {}
        for code in seen:
            step = self.steps.get(code)
            if step is None:
                step = self._step(code)
            rises[code >> 3] = rises.get(code >> 3, 0.0) + seen[code] * step
            wrong += seen[code] * (code & 1)
        rises[-1] = wrong * math.log(OVERALL) - CHUNK * math.log(1 + (OVERALL - 1) * self.usual)
        for place in rises:
            s = self.sums.get(place, 0.0)
            if s <= 0:
                s = 0.0
                self.since[place] = self.row
            self.sums[place] = s = s + rises[place]
            if s > ALARM and (self.rose is None or s > self.sums[self.rose]):
                self.rose = place
                self.due = max(self.row + CHUNK, self.since[place] + min(WAIT, self.keep))

    def _step(self, code: "int") -> "float":
        """What a prediction adds to a sum: the logarithm of how much likelier it would be."""
        times = TIMES[code >> 1 & 3]
        wrong, right = self.n.get(code | 1, 0.0), self.n.get(code & ~1, 0.0)
        share = (wrong + PRIOR * self.usual) / (wrong + right + PRIOR)
        step = math.log((times if code & 1 else 1) / (1 + (times - 1) * share))
        self.steps[code] = step
        return step

    def _refresh(self) -> "None":
        """Compute anew what is usual."""
        self.due = self.row + BLOCK
        if self.regression:
            if self.limit == INF:  # so far no error was large
                self.n = {}
                self.all_n = 0.0
            self.limit = LARGE * self.total / self.counted
            if self.counted > LONG:
                self.total /= 2
                self.counted /= 2
        for code in list(self.n):
            other = self.n.get(code ^ 1, 0.0)
            if self.n[code] + other > LONG:
                self.n[code] /= 2
                self.n[code ^ 1] = other / 2
        if self.all_n > LONG:
            self.all_n /= 2
            self.all_e /= 2
        self.usual = (self.all_e + 0.5) / (self.all_n + 2)
        self.steps = {}

    # ---- What has changed

    def _alarm(self, place: "int") -> "list[tuple[Any, ...]]":
        """The row, since when, the features, the place, shares of errors, how sure.

        An empty list if the errors of these predictions are not more than usual when they are seen
        together; then only the sum begins again.
        """
        codes, count = self.codes, len(self.codes)
        first = count - min(count, self.keep, self.row - self.since[place])
        at = [i for i in range(first, count) if place < 0 or codes[i] >> 3 == place]
        n, e = self.all_n, self.all_e
        if place >= 0:
            here = [code for code in self.n if code >> 3 == place]
            n = sum([self.n[code] for code in here])
            e = sum([self.n[code] for code in here if code & 1])
        before = max(0.5, e - sum([codes[i] & 1 for i in at])) / max(1.0, n - len(at))
        at = self._changed(at, before)
        after = sum([codes[i] & 1 for i in at]) / len(at)
        sure = (after - before) / math.sqrt(before * (1 - before) / len(at))
        if sure < SURE:
            self.sums[place] = 0.0
            self.rose = None
            self._refresh()
            return []
        since = self.row + 1 - (count - at[0])
        features = self._features(at)
        self._begin()
        return [(self.row, since, features, place, before, after, sure)]

    def _changed(self, at: "list[int]", before: "float") -> "list[int]":
        """Those of the rows, up to the last, that are most unlike the share of errors before."""
        best = 0.0
        first = n = wrong = 0
        for k in range(len(at) - 1, -1, -1):
            n += 1
            wrong += self.codes[at[k]] & 1
            more = wrong - n * before
            if more > 0 and more * more / n > best:
                best = more * more / n
                first = k
        return at[first:]

    def _features(self, at: "list[int]") -> "list[int]":
        """The features that the errors among these rows depend on, most of all first.

        Each predicted class is looked at apart: what is wrong for one may be right for another.
        """
        parts: "dict[int, list[int]]" = {}
        for i in at:
            parts.setdefault(self.codes[i] >> 3, []).append(i)
        parts = {place: rows for place, rows in parts.items() if len(rows) >= FEW}
        clear = CLEAR + 2 * math.log(self.m * max(1, len(parts)))
        scores = []
        for f in range(self.m):
            score = 0.0
            for rows in parts.values():
                column = [self.values[i * self.m + f] for i in rows]
                score = max(score, _dependence(column, [self.codes[i] & 1 for i in rows]))
            if score > clear:
                scores.append((-score, f))
        scores.sort()
        return [f for score, f in scores if 2 * score < scores[0][0]]


def _dependence(column: "list[float]", wrong: "list[int]") -> "float":
    """Squared standard errors by which the two sides of a column's best cut differ in errors."""
    n = len(column)
    share = sum(wrong) / n
    spread = share * (1 - share)
    if not spread:
        return 0.0
    pairs = sorted([(x if x == x else INF, v) for x, v in zip(column, wrong)])
    best = total = 0.0
    least = max(3, n // 20)  # rows on each side
    for k in range(n - least):
        total += pairs[k][1] - share
        if k + 1 >= least and pairs[k][0] < pairs[k + 1][0]:
            best = max(best, total * total * n / ((k + 1) * (n - k - 1)))
    return best / spread
