"""The operations on a node with ulab, the NumPy of boards: counting and moving rows is quicker.

    from edgeforest.core_pure import Training
    from edgeforest.core_ulab import ENGINE

    training = Training(columns, labels, by_column=True, engine=ENGINE)

The integers of ulab end at 65535. So does every count where there are no more rows than that; with
more rows, and for sums of targets, the loops of `nodes` stay in charge. Forests are the same, bit
for bit.
"""

from array import array

try:
    from ulab import numpy as np  # type: ignore[import-not-found]
except ImportError:  # where these operations are tested against those in plain Python
    import numpy as np

from edgeforest.codes import Reader
from edgeforest.core_pure import Engine, Grower
from edgeforest.nodes import Nodes, sides

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.core_pure import Training
    from edgeforest.criteria import Contender
    from edgeforest.host.types import *

PIECE = 1024  # rows at once: the memory of a board is short


def _view(values: "Any") -> "Any":
    """A buffer of 8-bit or 16-bit whole numbers as an array that shares its memory."""
    return np.frombuffer(values, dtype=np.uint16 if isinstance(values, array) else np.uint8)


class UlabNodes:
    """The operations on the rows of a tree's nodes: `Nodes`, three of them with ulab."""

    def __init__(self, task: "Training") -> "None":
        self.task = task
        self.data = task.data
        nodes = self.nodes = Nodes(task)
        self.draw = nodes.draw
        self.contenders = nodes.contenders
        self.race_small = nodes.race_small
        self.total = nodes.total
        self.rank = nodes.rank
        self.measure = nodes.measure
        self.better_threshold = nodes.better_threshold
        self.second_look = nodes.second_look
        self.is_mixed = nodes.is_mixed
        self.draws = nodes.draws

    def count(
        self, racing: "list[Contender]", stride: "int", start: "int", end: "int"
    ) -> "tuple[int, int]":
        """Count rows start..end into every racing feature's histogram, or as many as time allows."""
        data, budget = self.data, self.task.budget
        if data.regression or max(data.n, stride * data.width) > 65535:
            return self.nodes.count(racing, stride, start, end)
        squares = 0
        for at in range(start, end, PIECE):
            if at > start and budget.late():
                budget.give_back(end - at, len(racing))
                end = at
                break
            piece = _view(self.nodes.rows)[at : min(end, at + PIECE)]
            labels = np.array(np.take(_view(data.y), piece), dtype=np.uint16) * stride
            drawn = np.take(_view(self.nodes.times), piece)
            squares += int(np.dot(drawn, drawn))
            for c in racing:
                cells = np.take(_view(c.column), piece)
                if not c.equal:  # else a code is its bin
                    cells = np.take(_view(c.table), cells)
                h = np.bincount(cells + labels, weights=drawn, minlength=len(c.h))
                c.h = (np.array(c.h, dtype=np.uint16) + np.array(h, dtype=np.uint16)).tolist()
        return end, squares

    def partition(self, start: "int", end: "int", word: "int", code: "int") -> "int":
        """Bring the rows that go left to the front, in place; returns where the others begin."""
        if self.data.n > 65535:
            return self.nodes.partition(start, end, word, code)
        feature, goes_left = sides(word, code)
        rows = _view(self.nodes.rows)[start:end]
        left = np.take(_view(goes_left), np.take(_view(self.data.columns[feature]), rows)) > 0
        middle = int(np.sum(left))
        front, back = rows[:middle], rows[middle:]
        wrong, right = left[:middle] == 0, left[middle:]
        moved = front[wrong]
        front[wrong] = back[right][::-1]
        back[right] = moved[::-1]
        return start + middle

    def cells(self, start: "int", end: "int") -> "Any":
        """The classes of rows start..end; of a regression, how many rows and the sum of targets."""
        if self.data.n > 65535 or self.data.regression:
            return self.nodes.cells(start, end)
        rows = _view(self.nodes.rows)[start:end]
        drawn = np.take(_view(self.nodes.times), rows)
        labels = np.take(_view(self.data.y), rows)
        found = np.bincount(labels, weights=drawn, minlength=self.data.width)
        return [int(n) for n in found]


def grower(task: "Training") -> "Grower":
    """Grows trees with `UlabNodes`."""
    return Grower(task, UlabNodes)


ENGINE = Engine("numpy", Reader, grower)
