"""What a forest, or one tree of it, answers for many rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
    """The value of each row: `Forest.value` of many rows, in float32 like exported models."""
    totals = oob.sums(forest, encoded)[:, 0]
    part = (totals * forest.step()).astype(np.float32)
    value = (part.astype(np.float64) + forest.low).astype(np.float32)
    return value.astype(np.float64)
