"""A linear model beside the trees of an `OnlineForest`, for what trees need many cuts for.

Where a class depends on a sum of many features, a tree needs many cuts, and each of them many rows.
So a linear model (softmax regression) learns the same rows, at slow and fast rates. The answer
is that of the trees, of the linear model, or of both together: of what was right most often lately.
The trees do not depend on it.

A number is scaled by its mean and spread over the last thousand rows or so; each category has weights
of its own. There is no `exp` here: the same steps in the same order give the same answers in C.

This file runs unchanged on CPython and MicroPython.
"""

import math
from array import array

from edgeforest.sapling import RATES

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *
    from edgeforest.sapling import Plan

# Measured choices: benchmarks/online_moa.py.
MEMORY = 1000  # rows that means and spreads are taken over
FAR = 3.0  # spreads from the mean; what lies farther away counts as that
LATELY = 9  # the logarithm of the rows over which answers are compared


class Linear:
    """Weights of the inputs of a row, for each class and rate; and whose answer was best lately."""

    def __init__(self, plan: "Plan") -> "None":
        self.kinds = plan.kinds
        self.width = plan.width
        self.whole = plan.n_trees * plan.scale  # what the votes of all trees add up to
        self.weights = [array("d", bytes(8 * plan.inputs * plan.width)) for _ in RATES]
        self.means = array("d", bytes(8 * plan.m))
        self.squares = array("d", bytes(8 * plan.m))  # of the spreads
        self.counts = array("H", bytes(2 * plan.m))
        self.losses = [0] * (1 + 2 * len(RATES))
        self.choice = 0  # 0: the trees; odd: a rate alone; even: with the trees

    def learn(self, values: "Sequence[float]", at: "int", label: "int") -> "list[list[int]]":
        """Learn the row that begins at `at`; returns the votes for it before, of each rate."""
        inputs = self._read(values, at)
        answers = []
        for r, rate in enumerate(RATES):
            shares = self._shares(inputs, r)
            answers.append(self._votes(shares))
            shares[label] -= 1.0
            self._move(inputs, r, rate, shares)
        self._scale(values, at)
        return answers

    def judge(self, votes: "list[int]", others: "list[list[int]]", label: "int") -> "list[int]":
        """Given the votes of the trees and of each rate, the votes that are the answer."""
        answers = [votes]
        for other in others:
            answers += [other, [v + w for v, w in zip(votes, other)]]
        chosen = answers[self.choice]
        for k, answer in enumerate(answers):
            wrong = 0 if answer.index(max(answer)) == label else 1
            self.losses[k] += (wrong << 2 * LATELY) - (self.losses[k] >> LATELY)
            if self.losses[k] < self.losses[self.choice]:
                self.choice = k
        return chosen

    def vote(self, row: "Sequence[float]", out: "MutableSequence[int]") -> "None":
        """Turn the votes of the trees for a row into those of whoever answers now."""
        if self.choice:
            shares = self._shares(self._read(row, 0), (self.choice - 1) >> 1)
            for k, v in enumerate(self._votes(shares)):
                out[k] = v if self.choice & 1 else v + out[k]

    def _read(self, values: "Sequence[float]", at: "int") -> "list[tuple[int, float]]":
        """The inputs of a row: places of weights, and what they are multiplied by."""
        inputs = [(0, 1.0)]
        place = 1
        for f, kinds in enumerate(self.kinds):
            x = values[at + f]
            if kinds:
                inputs.append((place + (int(x) if 0 <= x <= kinds else 0), 1.0))
                place += kinds + 1
                continue
            if x - x == 0 and self.squares[f] > 0:  # neither missing nor infinite
                z = (x - self.means[f]) / math.sqrt(self.squares[f])
                inputs.append((place, FAR if z > FAR else -FAR if z < -FAR else z))
            else:
                inputs.append((place, 0.0))
            place += 1
        return inputs

    def _shares(self, inputs: "list[tuple[int, float]]", r: "int") -> "list[float]":
        """How likely each class is, at a rate."""
        weights, width = self.weights[r], self.width
        sums = [0.0] * width
        for place, z in inputs:
            for k in range(width):
                sums[k] += weights[place * width + k] * z
        most, total = max(sums), 0.0
        for k in range(width):
            part = 1.0 - (most - sums[k]) / 16.0  # to the power of 16 that is nearly an exp
            part = part * part if part > 0.0 else 0.0
            part *= part
            part *= part
            part *= part
            sums[k] = part
            total += part
        return [v / total for v in sums]

    def _votes(self, shares: "list[float]") -> "list[int]":
        return [int(v * self.whole + 0.5) for v in shares]

    def _move(
        self, inputs: "list[tuple[int, float]]", r: "int", rate: "float", errors: "list[float]"
    ) -> "None":
        """Move the weights of a row's inputs against its errors."""
        weights, width = self.weights[r], self.width
        for place, z in inputs:
            for k in range(width):
                weights[place * width + k] -= rate * errors[k] * z

    def _scale(self, values: "Sequence[float]", at: "int") -> "None":
        """Count a row in means and spreads; old rows fade."""
        for f, kinds in enumerate(self.kinds):
            x = values[at + f]
            if kinds or x - x != 0:
                continue
            if self.counts[f] < MEMORY:
                self.counts[f] += 1
            off = x - self.means[f]
            self.means[f] += off / self.counts[f]
            self.squares[f] += (off * (x - self.means[f]) - self.squares[f]) / self.counts[f]
