"""What a forest, or one tree of it, answers for many rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgeforest import sure
from edgeforest.forests import oob

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgeforest.forest import Forest
    from edgeforest.host.values import Array


def labels(forest: Forest, encoded: Array, classes: Array) -> Array:
    """The class of each row, out of these classes."""
    votes = oob.sums(forest, encoded)
    found: Array = classes.take(votes.argmax(axis=1))
    return found


def shares(forest: Forest, encoded: Array) -> NDArray[np.float64]:
    """The share of each class for each row, (rows, classes)."""
    votes = oob.sums(forest, encoded)
    found: NDArray[np.float64] = votes / np.maximum(1, votes.sum(axis=1, keepdims=True))
    return found


def values(forest: Forest, encoded: Array) -> NDArray[np.float64]:
    """The value of each row."""
    return _values(forest, oob.sums(forest, encoded)[:, 0])


def intervals(forest: Forest, encoded: Array, coverage: float) -> NDArray[np.float64]:
    """The bounds of each row, (rows, 2): `sure.predict_interval` of many rows."""
    number = sure.number_for(forest, coverage)
    assert forest.calibration
    twin = sure.twin_of(forest)
    total, high, low = oob.sums(twin, encoded).T
    squares = len(forest) * (high * twin.scale + low) - total * total  # below 2^48
    spread = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    reach = (spread + forest.calibration[0]) * number // sure.WIDTH
    most = forest.scale * len(forest)
    ends = np.maximum(0, total - reach), np.minimum(most, total + reach)
    return np.column_stack([_values(forest, end) for end in ends])


def sets(forest: Forest, encoded: Array, coverage: float) -> NDArray[np.bool_]:
    """Whether each class is in the set of each row, (rows, classes): `sure.predict_set`."""
    number = sure.number_for(forest, coverage)
    votes = oob.sums(forest, encoded)
    found: NDArray[np.bool_] = votes * sure.SHARE >= number * votes.sum(axis=1, keepdims=True)
    found[np.arange(len(votes)), votes.argmax(axis=1)] = True
    return found


def _values(forest: Forest, totals: Array) -> NDArray[np.float64]:
    """`Forest.value` of many rows, in float32 like exported models."""
    part = (totals * forest.step()).astype(np.float32)
    value = (part.astype(np.float64) + forest.low).astype(np.float32)
    return value.astype(np.float64)
