"""The NumPy engine: the operations of `nodes.Nodes` on whole arrays.

The race, the growth of trees and the budget stay in core_pure, whose forests these are, bit for
bit.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import numpy as np

from edgeforest.budget import Rng
from edgeforest.core_pure import Engine, Grower, Training
from edgeforest.criteria import Split, decide
from edgeforest.engines.numpy_criteria import MSE, Entropy, Gini
from edgeforest.engines.numpy_predictor import NumpyPredictor
from edgeforest.engines.numpy_reader import NumpyReader, draw_rows, shuffle
from edgeforest.forest import HUGE, MASK
from edgeforest.intervals import WEAK, axis, better_threshold, to_beat
from edgeforest.nodes import GROUP_ROWS, LOOK_ROWS, Nodes, bins_for, most_bins, sides, spaced_of
from edgeforest.second_look import second_look

FEW = 6  # rows of a node, below which lists are quicker than arrays
PART = 262144  # cells of a round that are counted at once
TRIANGLE = np.triu(np.ones((64, 64)))


class Arrays:
    """The arrays of one race: features, tables from code to bin, histograms, scores of all arms."""

    def __init__(
        self,
        features: list[int],
        codes: Any,
        tables: Any,
        bins: list[int],
        equal: list[bool],
        width: int,
        dtype: Any,
    ) -> None:
        self.features = np.array(features)
        self.codes = codes  # of its first rows, until they are counted
        self.tables = tables
        self.equal = np.array(equal) if any(equal) else None
        self.stride = 1 + max(bins)
        self.h = np.zeros((width, len(features), self.stride), dtype)
        self.flat = self.h.ravel()
        self.places = np.arange(len(features))
        self.cells = (tables + self.places[:, None] * self.stride).ravel()  # code -> cell
        self.total: Any = None  # cells of all rows that were counted
        self.left: Any = None  # cells of all arms' left sides ...
        self.score: Any = None  # ... their scores ...
        self.smaller: Any = None  # ... and the rows of their smaller sides
        self.sides = 1  # arms of a threshold: missing values go right, or either way

    def of(self, racing: list[Any]) -> Any:
        """Places of those who still race."""
        if len(racing) == len(self.places):
            return self.places
        return np.array([c.place for c in racing])


class ArrayContender:
    """One feature in a race, as `criteria.Contender`: its place in the arrays of the race."""

    def __init__(
        self, race: Arrays, place: int, feature: int, bins: int, equal: bool, turn: int
    ) -> None:
        self.race = race
        self.place = place
        self.feature = feature
        self.bins = bins
        self.equal = equal
        self.turn = turn  # when it was drawn
        self.best: tuple[float, int, bool] | None = None
        self.row = self.arm = 0  # of its best arm in the arrays of the last round
        self.gain = self.variance = 0.0
        self.interval: Any = None

    @property
    def h(self) -> list[int]:
        """Its histogram."""
        cells: list[int] = self.race.h[:, self.place].astype(np.int64).ravel().tolist()
        return cells

    @property
    def cuts(self) -> Any:
        """The highest code of each bin (the code itself for categories)."""
        if self.equal:
            return range(self.bins + 1)
        table = self.race.tables[self.place].tobytes()
        return [table.rfind(bin) for bin in range(self.bins + 1)]

    def left_cells(self, t: int, missing_left: bool, stride: int) -> list[int]:
        """Cells of an arm's left side."""
        h = self.race.h[:, self.place].astype(np.int64)
        first = t if self.equal and t else 1
        left = h[:, first : t + 1].sum(axis=1)
        if missing_left:
            left += h[:, 0]
        cells: list[int] = left.tolist()
        return cells


class Intervals:
    """What a sample says about the gains of many arms: `intervals.Interval` on arrays."""

    def __init__(self, rules: Any, left: Any, total: Any, rest: float, along: float) -> None:
        gain, bias, self.on_left, self.on_right = rules.describe(left, total)
        scatter = rules.scatter(left, total, self.on_left)
        scatter = scatter + rules.scatter(total[:, None] - left, total, self.on_right)
        bias = bias * rest
        self.plain = gain
        self.gain = gain - bias
        self.variance = np.maximum(0.0, scatter / rules.size(total) - gain * gain) * rest
        self.shift = 0.5 * (bias - bias * along)
        self.root = np.sqrt(np.maximum(0.0, gain - self.shift))
        most = np.maximum(gain, bias)
        error = np.where(most > 0, self.variance / (4.0 * np.where(most > 0, most, 1.0)), 0.0)
        self.error = np.where(gain < WEAK * bias, np.maximum(error, bias * along), error)

    def only(self, k: int) -> SimpleNamespace:
        """The interval of one arm."""
        names = "plain", "gain", "variance", "shift", "root", "error"
        return SimpleNamespace(**{name: float(getattr(self, name)[k]) for name in names})


class NumpyNodes:
    """The operations on the rows of a tree's nodes, on arrays: see `nodes.Nodes`."""

    def __init__(self, task: Training) -> None:
        self.task = task
        data = self.data = task.data
        self.codes = data.given
        self.per_row, self.per_feature = self.codes.strides
        size = 1 + (data.n - 1) * self.per_row + (data.m - 1) * self.per_feature
        self.flat = np.lib.stride_tricks.as_strided(self.codes, (size,), (1,), writeable=False)
        narrow = not data.regression and data.width < 257
        self.labels = np.frombuffer(data.y, np.uint8 if narrow else np.uint16)
        self.rows = np.arange(task.row_places, dtype=np.intp)
        self.plain = Nodes(task, self.rows)  # for what is quicker in lists
        self._set_times(np.ones(data.n, np.uint8))
        self.rules: Any = MSE() if data.regression else Gini()
        if task.criterion.name == "entropy":
            self.rules = Entropy(task.sample_size)
        # Float64 is quicker to count in. Sums of squared targets outgrow its whole numbers beyond
        # 2^21 rows, those of fourth powers much sooner (and int64 beyond 2^23).
        vast = data.regression and (data.width == 5 or task.sample_size >> 21)
        self.dtype: Any = np.int64 if vast else np.float64

    def _set_times(self, times: Any) -> None:
        self.drawn = times
        self.plain.times = memoryview(times)

    # ---- The rows of a tree

    def draw(self, rng: Rng) -> int:
        """Fill the front of `rows` with a tree's rows, in random order; returns how many."""
        task, rows, size = self.task, self.rows, self.task.sample_size
        draw_rows(rng, rows, size, self.data.drawable(), task.bootstrap, self.data)
        task.budget.spent.rows_read += size
        if self.data.weights is None and not task.bootstrap:
            return size
        n = self.data.n
        times = np.bincount(rows, minlength=n)
        if self.data.weights is None:
            self._set_times(np.minimum(times, 255).astype(np.uint8))
        else:
            self._set_times(np.minimum(times, 65535).astype(np.uint16))
        first = np.empty(n, np.intp)
        first[rows[::-1]] = np.arange(size)[::-1]  # what is set last stays
        front = rows[first[rows] == np.arange(size)]
        rows[: len(front)] = front
        return len(front)

    def partition(self, start: int, end: int, word: int, code: int) -> int:
        """Bring the rows that go left to the front, in place; returns where the others begin."""
        feature, goes_left = sides(word, code)
        rows = self.rows[start:end]
        column = np.asarray(self.data.columns[feature])
        left = np.frombuffer(goes_left, np.bool_).take(column[rows])
        middle = int(np.count_nonzero(left))
        low = np.flatnonzero(~left[:middle])
        high = np.flatnonzero(left[middle:])[::-1] + middle
        rows[low], rows[high] = rows[high], rows[low]
        return start + middle

    def is_mixed(self, start: int, end: int) -> bool:
        """Whether the rows have more than one label."""
        labels = self.labels.take(self.rows[start:end])
        return not (labels == labels[0]).all()

    def draws(self, start: int, end: int) -> int:
        """How many draws rows start..end stand for, as far as `min_samples_leaf` has to know."""
        if end - start >= self.task.min_samples_leaf:
            return end - start
        return int(self.drawn[self.rows[start:end]].sum(dtype=np.int64))

    def cells(self, start: int, end: int) -> Any:
        """The classes of rows start..end; of a regression, how many rows and the sum of targets."""
        rows = self.rows[start:end]
        if self.data.regression:
            drawn = self.drawn[rows].astype(np.int64)
            return int(drawn.sum()), int(drawn.dot(self.labels[rows].astype(np.int64))), 0
        found = np.bincount(self.labels[rows], self.drawn[rows], self.data.width)
        return found.astype(np.int64).tolist()

    # ---- The race

    def _gather(self, features: Any, rows: Any) -> Any:
        """Codes of features in rows, (features, rows)."""
        places = np.multiply(features, self.per_feature, dtype=np.intp)[:, None]
        return self.flat.take(places + rows * self.per_row)

    def contenders(
        self, start: int, end: int, rng: Rng, small: bool = False
    ) -> tuple[list[ArrayContender], int]:
        """All features of a race, in their order, and how many cells apart their classes lie."""
        task, data = self.task, self.data
        rows = self.rows[start : min(end, start + LOOK_ROWS)]
        # Thresholds that are random are drawn as soon as their feature is.
        one_by_one = task.kind == "extra-trees" or task.splitter == "mab-paper"
        made: dict[int, Any] = {}
        if one_by_one:
            chosen, made = self._drawn_one_by_one(rows, rng, small)
        else:
            chosen = self._drawn(rows, rng, small)
        if not chosen:
            return [], 1
        names = sorted(chosen)
        codes = np.array([chosen[f] for f in names])
        if one_by_one:
            tables = np.empty((len(names), 256), np.uint8)
            for k, f in enumerate(names):
                if not made[f].equal:
                    tables[k] = np.frombuffer(made[f].table, np.uint8)
        else:
            tables = self._tables(names, codes, end - start)
        bins = tables[:, 255].tolist()
        equal = [data.categories[f] is not None for f in names]
        for k, f in enumerate(names):
            if equal[k]:
                tables[k] = np.arange(256)
                bins[k] = len(data.categories[f] or ())
        race = Arrays(names, codes, tables, bins, equal, data.width, self.dtype)
        turn = {f: k for k, f in enumerate(chosen)}
        racing = [
            ArrayContender(race, k, f, bins[k], equal[k], turn[f]) for k, f in enumerate(names)
        ]
        return racing, race.stride

    def _drawn(self, rows: Any, rng: Rng, small: bool) -> dict[int, Any]:
        """Features that vary in these rows, with their codes there.

        Some more than are wanted are read at once: a node's random stream is its own, and ends
        with it.
        """
        features = self.task.features[:]
        chosen: dict[int, Any] = {}
        i = 0
        most = self.task.max_features
        while len(chosen) < most and i < len(features) and not (small and chosen and i >= most):
            left = most - len(chosen)
            upto = min(len(features), i + left + (0 if small else (left >> 1) + 4))
            shuffle(rng, features, i, upto)
            codes = self._gather(features[i:upto], rows)
            varies = (codes != codes[:, :1]).any(axis=1).tolist()
            for k in range(upto - i):
                if small and chosen and i + k >= most:
                    break
                if varies[k] and len(chosen) < most:
                    chosen[features[i + k]] = codes[k]
            i = upto
        return chosen

    def _drawn_one_by_one(
        self, rows: Any, rng: Rng, small: bool
    ) -> tuple[dict[int, Any], dict[int, Any]]:
        """The same with the bins of each feature, which take random numbers too."""
        features = self.task.features[:]
        whole = self.codes[rows].T.copy()
        chosen: dict[int, Any] = {}
        made: dict[int, Any] = {}
        i = 0
        most = self.task.max_features
        while len(chosen) < most and i < len(features) and not (small and chosen and i >= most):
            j = i + rng.below(len(features) - i)
            features[i], features[j] = features[j], features[i]
            f = features[i]
            codes = whole[f]
            if (codes != codes[0]).any():
                chosen[f] = codes
                made[f] = self.plain.contender(f, _placing(codes), MASK, rng, len(made))
            i += 1
        return chosen, made

    def race_small(self, start: int, end: int, rng: Rng) -> Generator[Any, None, Split | None]:
        """Find the split of a small node: all features at once, though the first may be enough."""
        task = self.task
        n = end - start
        if n < FEW:
            return (yield from self.plain.race_small(start, end, rng))
        racing, stride = self.contenders(start, end, rng, True)
        best = total = None
        if racing:
            self.count(racing, stride, start, end)
            total = self.total(racing[0], stride)
            self.rank(task.criterion, racing, stride, total, task.min_samples_leaf)
            racing.sort(key=lambda c: c.turn)
        for c in racing:
            if not task.budget.take(n, 1):
                break
            yield task
            if c.best and (best is None or c.best[0] > best.best[0]):  # type: ignore[index]
                best = c
                if n == 2 or c.best[0] >= task.criterion.perfect * task.criterion.size(total):
                    break
        if best is None:
            return None
        assert total is not None
        return decide(task, best, stride, total, 0.0)

    def _tables(self, features: list[int], codes: Any, n: int) -> Any:
        """Tables from code to bin for features with these codes in the first of n rows."""
        before = -1 if self.data.raw else 0
        heads = codes[:, :GROUP_ROWS].astype(np.int16)
        heads.sort(axis=1)
        for k in np.flatnonzero(heads[:, 0] == heads[:, -1]).tolist():
            heads[k, 0], heads[k, -1] = _placing(codes[k])  # it varies further on only
            heads[k, 1:-1] = heads[k, 0]
        bins = bins_for(self.task, n)
        spaced = spaced_of(bins, n)
        wanted = self._cuts_between(heads, bins - spaced, before)
        if spaced:
            spans = np.array([[len(self.data.bounds[f]) - 2 - before] for f in features])
            more = before + 1 + spans * np.arange(1, spaced + 1) // (spaced + 1)
            wanted = np.concatenate((wanted, more.astype(np.int16)), axis=1)
            wanted.sort(axis=1)
        count, bins = len(wanted), wanted.shape[1] + 1
        edges = np.empty((count, bins + 1), np.int16)  # the highest codes of the bins
        edges[:, 0] = before
        edges[:, 1:bins] = wanted
        edges[:, bins] = 255
        lengths = edges[:, 1:] - edges[:, :-1]
        ids = (lengths > 0).cumsum(axis=1, dtype=np.uint8)
        tables = np.zeros((count, 256), np.uint8)
        tables[:, before + 1 :] = ids.repeat(lengths.ravel()).reshape(count, -1)
        return tables

    def _cuts_between(self, heads: Any, bins: int, before: int) -> Any:
        """`nodes.between` of sorted codes, in ascending order; `before` stands for nowhere."""
        differ = heads[:, 1:] > heads[:, :-1]
        if not self.data.raw:
            differ &= heads[:, :-1] > 0
        place = differ.cumsum(axis=1)  # of a cut among those of its feature
        many = place[:, -1:] + 1
        turn = -(place * -bins // many)  # the first bin that ends here or further on
        differ &= (turn * many // bins == place) | (many <= bins)
        cuts = np.where(differ, (heads[:, 1:] + heads[:, :-1]) >> 1, before)
        return np.maximum.accumulate(cuts, axis=1)

    def count(
        self, racing: list[ArrayContender], stride: int, start: int, end: int
    ) -> tuple[int, int]:
        """Count rows start..end into every racing feature's histogram, or as many as time allows.

        In parts: their arrays stay in the cache, and the clock is asked in between.
        """
        race, budget = racing[0].race, self.task.budget
        some = max(LOOK_ROWS, counted_at_once(self.task, race.h.size) // len(racing))
        squares = 0
        for at in range(start, end, some):
            if at > start and budget.late():
                budget.give_back(end - at, len(racing))
                end = at
                break
            squares += self._count_some(racing, self.rows[at : min(end, at + some)])
        return end, squares

    def _count_some(self, racing: list[ArrayContender], rows: Any) -> int:
        race = racing[0].race
        places = race.of(racing)
        if race.codes is None:
            codes = self._gather(race.features[places], rows)
        else:
            codes, race.codes = race.codes[:, : len(rows)], None
            if codes.shape[1] < len(rows):
                more = self._gather(race.features, rows[codes.shape[1] :])
                codes = np.concatenate((codes, more), axis=1)
        shift = (places * 256)[:, None]
        cells = race.cells.take(codes + (shift.astype(np.uint16) if len(places) < 256 else shift))
        drawn = self.drawn.take(rows).astype(self.dtype)
        squares = int(drawn.dot(drawn))
        labels = self.labels.take(rows)
        if not self.data.regression:
            cells += np.multiply(labels, race.h[0].size, dtype=np.intp)
            drawn = drawn[None].repeat(len(racing), axis=0).ravel()
            race.flat += np.bincount(cells.ravel(), drawn, race.h.size)
            return squares
        labels = labels.astype(self.dtype)
        if self.data.width == 5:
            labels = labels // 32 - 1024
        cells = cells.ravel()
        for h in race.h:
            moments = drawn[None].repeat(len(racing), axis=0).ravel()
            if self.dtype is np.float64:
                h += np.bincount(cells, moments, h.size).reshape(h.shape)
            else:
                np.add.at(h.reshape(-1), cells, moments)
            drawn = drawn * labels
        return squares

    def second_look(self, *given: Any) -> Split:
        """Look for a better threshold near the winner's: see `second_look`."""
        return second_look(self.task, self._count_within, *given)

    def _count_within(self, c: Any, stride: int, start: int, end: int, low: int, high: int) -> int:
        """`second_look.count_within` on arrays."""
        width, made = self.data.width, 0
        h = np.zeros((width, stride), np.int64)
        for at in range(start, end, PART):
            if at > start and self.task.budget.late():
                return -made
            rows = self.rows[at : min(end, at + PART)]
            codes = self._gather([c.feature], rows)[0]
            kept = (codes > low) & (codes <= high)
            rows, bins = rows[kept], codes[kept].astype(np.intp) + (1 - low)
            made += len(rows)
            labels = self.labels.take(rows).astype(np.int64)
            drawn = self.drawn.take(rows).astype(np.int64)
            if not self.data.regression:
                np.add.at(h, (labels, bins), drawn)
                continue
            if width == 5:
                labels = labels // 32 - 1024
            for moment in h:
                np.add.at(moment, bins, drawn)
                drawn = drawn * labels
        c.h[:] = h.ravel().tolist()
        return made

    def total(self, contender: ArrayContender, stride: int) -> list[int]:
        """The cells of all rows that a race has counted."""
        race = contender.race
        race.total = race.h[:, contender.place].sum(axis=1)
        cells: list[int] = race.total.astype(np.int64).tolist()
        return cells

    def rank(
        self, criterion: Any, racing: list[ArrayContender], stride: int, total: Any, least: int
    ) -> None:
        """Note the best arm of every racing feature."""
        race, rules = racing[0].race, self.rules
        h = race.h
        if len(racing) < len(race.places):
            h = h[:, race.of(racing)]
        if stride > len(TRIANGLE) or self.dtype is not np.float64:
            left = h[:, :, 1:].cumsum(axis=2)
        else:  # quicker than cumsum for rows that are short
            left = h[:, :, 1:] @ TRIANGLE[: stride - 1, : stride - 1]
        if race.equal is not None:
            equal = race.equal[race.of(racing)]
            left[:, equal] = h[:, equal, 1:]
        missing = h[:, :, :1]
        race.sides = 1
        if missing.any():  # even arms send missing values right, odd ones left
            race.sides = 2
            left = np.stack((left, left + missing), axis=3).reshape(len(h), len(racing), -1)
        n_left = rules.size(left)
        n_right = rules.size(race.total) - n_left
        race.smaller = np.minimum(n_left, n_right)
        if race.sides == 2:  # an empty bin is the same arm as the one before it, or missing only
            race.smaller[(rules.size(h)[:, 1:] == 0).repeat(2, axis=1)] = 0
        score = rules.score(left, race.total, np.maximum(n_left, 1), np.maximum(n_right, 1))
        race.left, race.score = left, score
        score = np.where(race.smaller >= least, score, -np.inf)
        arms = score.argmax(axis=1)
        tops = score[np.arange(len(arms)), arms].tolist()
        arms = arms.tolist()
        for k, c in enumerate(racing):
            c.row, c.arm, c.best = k, arms[k], None
            if tops[k] > -np.inf:
                c.best = (tops[k], c.arm // race.sides + 1, race.sides == 2 and c.arm % 2 == 1)

    def measure(
        self, criterion: Any, racing: list[ArrayContender], stride: int, total: Any, rest: float
    ) -> None:
        """Note the gain of every racing feature's best arm, and how sure it is."""
        race, rules = racing[0].race, self.rules
        total = race.total
        left = race.left[:, [c.row for c in racing], [c.arm for c in racing]]
        every = Intervals(rules, left, total, rest, axis(criterion, total.tolist()))
        for k, c in enumerate(racing):
            c.interval = every.only(k)
            c.gain, c.variance = c.interval.gain, c.interval.variance

    def better_threshold(
        self,
        criterion: Any,
        c: ArrayContender,
        stride: int,
        total: Any,
        rest: float,
        slack: float,
        z: float,
    ) -> bool:
        """Whether another arm of the leading feature may still beat its best by more than slack."""
        if c.equal:
            plain: Any = c
            return better_threshold(criterion, plain, stride, total, rest, slack, z)
        assert c.best is not None
        race, rules = c.race, self.rules
        total = race.total
        size = float(rules.size(total))
        lead = c.interval
        limit = to_beat(lead, slack, lead.shift) - 2.0 * z * math.sqrt(lead.error)
        limit = limit * limit + lead.shift - lead.plain if limit > 0 else -HUGE
        gap = (race.score[c.row] - c.best[0]) * criterion.per_score(size)
        near = (race.smaller[c.row] > 0) & (gap > limit)
        near[c.arm] = False
        near = np.flatnonzero(near)
        if not len(near):
            return False
        both = np.minimum(near, c.arm)
        if race.sides == 2:
            both = np.minimum(near >> 1, c.arm >> 1) * 2 + (near & c.arm & 1)
        cells = race.left[:, c.row]
        both, best, left = cells[:, both], cells[:, c.arm : c.arm + 1], cells[:, near]
        lead_left, lead_right = rules.describe(best, total)[2:]
        one = Intervals(rules, left, total, rest, axis(criterion, total.tolist()))
        only, only_best = left - both, best - both
        neither = total[:, None] - left - only_best
        scatter = rules.scatter(both, total, one.on_left, lead_left)
        scatter = scatter + rules.scatter(only, total, one.on_left, lead_right)
        scatter = scatter + rules.scatter(only_best, total, one.on_right, lead_left)
        scatter = scatter + rules.scatter(neither, total, one.on_right, lead_right)
        gap = one.plain - lead.plain
        apart = np.maximum(0.0, scatter / size - gap * gap) * rest
        scale = np.sqrt(one.variance * lead.variance)
        shared = (one.variance + lead.variance - apart) / np.where(scale > 0, scale, 1.0)
        shared = np.where(scale > 0, shared * np.sqrt(one.error * lead.error), 0.0)
        error = np.maximum(0.0, one.error + lead.error - shared)
        needed = np.maximum(0.0, lead.root * lead.root - lead.shift + one.shift)
        better = one.root + z * np.sqrt(error) > np.sqrt(needed + slack)
        needed = np.sqrt(np.maximum(0.0, one.shift) + slack)
        return bool((better & (one.root + z * np.sqrt(one.error) > needed)).any())


def _placing(codes: Any) -> list[int]:
    """The codes that place a feature's bins: those of the first rows, or two if these are alike."""
    head: list[int] = sorted(set(codes[:GROUP_ROWS].tolist()))
    if len(head) == 1:
        head = sorted([head[0], int(codes[(codes != head[0]).argmax()])])
    return head


def counted_at_once(task: Training, cells: int) -> int:
    """Values that are counted at once into so many cells: few, if memory is short."""
    return max(PART, 4 * cells) if task.budget.bytes is None else max(PART >> 5, cells)


def more_bytes(task: Training) -> int:
    """Memory that these operations take beyond that of plain Python."""
    data = task.data
    bins = most_bins(task) + 1 if data.categories == [None] * data.m else 256
    cells = task.max_features * bins * data.width
    part = min(counted_at_once(task, cells), task.sample_size * task.max_features)
    return 30 * max(part, LOOK_ROWS * task.max_features) + 80 * cells


def grower(task: Training) -> Grower:
    """Grows trees with `NumpyNodes`."""
    return Grower(task, NumpyNodes, more_bytes)


ENGINE = Engine("numpy", NumpyReader, grower, NumpyPredictor)
