"""The native engine predicts: rows go down packed trees in C."""

from __future__ import annotations

from array import array
from typing import Any

from edgeforest.engines import _kernel
from edgeforest.engines.native_reader import buffer_of, type_of
from edgeforest.forest import Forest, is_sequence
from edgeforest.rows import as_rows


class NativePredictor:
    """Predicts in C: see `Forest.predictor`."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest

    def _walk(self, rows: Any, encoded: bool = False) -> tuple[bool, int, tuple[Any, ...]]:
        """Whether it is one row, how many there are, and what the kernel needs to go down trees.

        Rows that are `encoded` have the codes of their categories.
        """
        forest = self.forest
        view = buffer_of(rows) if forest.all_numbers or encoded else None
        if view is not None and view.shape is not None and view.strides is not None:
            one = view.ndim == 1
            n, step, column = 1, 0, view.strides[-1]
            if not one:
                n, step = view.shape[0], view.strides[0]
            if view.shape[-1] != forest.n_features or n == 0:
                view = None
        if view is None or view.nbytes == 0:
            one, rows = self._encoded(rows)
            n, step, column = len(rows) // forest.n_features, 4 * forest.n_features, 4
            view = memoryview(rows)
        if forest.packed is None:
            wide = forest.right.typecode != "H"
            parts = forest.feature, forest.threshold, forest.right, forest.roots
            forest.packed = _kernel.pack(*parts, wide)
        layout = 0, step, column, type_of(view)
        return one, n, (forest.packed, forest.votes, view, layout)

    def sums(self, rows: Any, encoded: bool = False) -> tuple[bool, array[int], array[int]]:
        """Whether it is one row; the summed votes of all rows, and the winner of each."""
        one, n, walk = self._walk(rows, encoded)
        width = self.forest.n_votes
        sums = array("I", bytes(4 * n * width))
        best = array("H", bytes(2 * n))
        _kernel.predict(walk, width, n, sums, best)
        return one, sums, best

    def leaves(self, rows: Any, encoded: bool = False) -> array[int]:
        """The leaf of each tree that each row reaches: all rows of one tree, then of the next."""
        _, n, walk = self._walk(rows, encoded)
        leaves = array("I", bytes(4 * n * len(self.forest.roots)))
        _kernel.apply(walk, n, leaves)
        return leaves

    def _encoded(self, rows: Any) -> tuple[bool, array[float]]:
        """Whether it is one row; the numbers of all rows."""
        if self.forest.adapt:
            rows = self.forest.adapt(rows)
        if not is_sequence(rows):
            rows = as_rows(rows)
        if len(rows) > 0 and not is_sequence(rows[0]):
            return True, self.forest.encode(rows)
        values = array("f")
        for row in rows:
            values.extend(self.forest.encode(row))
        return False, values

    def predict(self, rows: Any) -> Any:
        """The class or value of one row, or a list of them for a sequence of rows."""
        one, sums, best = self.sums(rows)
        forest = self.forest
        answers: list[Any]
        if forest.classes is None:
            values = array("d", bytes(8 * len(sums)))
            _kernel.values(sums, forest.step(), forest.low, values)
            answers = values.tolist()
        else:
            classes = forest.classes
            answers = [classes[k] for k in best]
        return answers[0] if one else answers

    def vote(self, rows: Any) -> tuple[bool, list[tuple[int, list[int]]]]:
        """Predict one row or many: whether it is one, and the (winner, votes) of each."""
        one, sums, best = self.sums(rows)
        width = self.forest.n_votes
        return one, [(k, sums[width * i : width * i + width].tolist()) for i, k in enumerate(best)]
