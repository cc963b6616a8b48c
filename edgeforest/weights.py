"""Rows and classes that count more than others; a board loads this file when it is given some.

A row's weight is its chance to be drawn for a tree. Histograms then stay plain counts.
"""

from array import array

from edgeforest.budget import between
from edgeforest.checks import check_steady, refuse_length
from edgeforest.forest import HUGE, MASK, is_sequence
from edgeforest.rows import as_float

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.budget import Rng
    from edgeforest.codes import Data
    from edgeforest.host.types import *


def read_weights(data: "Data", sample_weight: "Any", class_weight: "Any") -> "array[int]":
    """Running sums of the weights, by row, in whole steps."""
    n = data.n
    if sample_weight is None:
        sample_weight = [1.0] * n
    if not is_sequence(sample_weight) or len(sample_weight) != n:
        refuse_length("sample_weight", n, "weights", sample_weight)
    weights = [as_float(w, i, "sample_weight") for i, w in enumerate(sample_weight)]
    check_steady(len(weights) == n, "sample_weight", n)
    if class_weight is not None:
        factor = _class_weights(data, class_weight)
        weights = [w * factor[k] for w, k in zip(weights, data.y)]
    if data.patch:
        weights = [weights[i] for i in data.patch]
    top = max(weights)
    if not (all([w >= 0 for w in weights]) and 0 < top <= HUGE):
        raise ValueError(
            "weights must be finite, none negative and some above zero (within the patch, too)"
        )
    steps = MASK // len(weights)
    sums = array("I", [0])
    for w in weights:
        sums.append(sums[-1] + (max(1, int(w / top * steps)) if w > 0 else 0))
    return sums


def _class_weights(data: "Data", given: "Any") -> "list[float]":
    if data.classes is None:
        raise ValueError("class_weight is for classification; use sample_weight")
    if given == "balanced":
        counts = [0] * data.width
        for k in data.y:
            counts[k] += 1
        return [data.n / (data.width * c) for c in counts]
    if not isinstance(given, dict):
        raise TypeError(f"class_weight must be 'balanced' or a dict, got {given!r}")
    for label in given:
        if label not in data.classes:
            raise ValueError(f"class_weight names {label!r}, which is not among the labels")
    return [between("class_weight", given.get(v, 1.0), 0.0, HUGE) for v in data.classes]


def draw(
    weights: "array[int]", rng: "Rng", rows: "MutableSequence[int]", size: "int", bootstrap: "bool"
) -> "None":
    """Fill the front of `rows` with row numbers, each as often as its weight says."""
    pool = len(weights) - 1
    total = weights[pool]
    for i in range(size):
        # Without bootstrap: one mark in each of `size` equal stretches.
        mark = rng.below(total if bootstrap else max(1, total // size))
        if not bootstrap:
            mark += i * total // size
        low, high = 0, pool - 1
        while low < high:
            middle = (low + high) >> 1
            if weights[middle + 1] <= mark:
                low = middle + 1
            else:
                high = middle
        rows[i] = low
    if not bootstrap:
        rng.shuffle(rows, size)
