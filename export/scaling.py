"""Rows of whole numbers: which forests they suit, and the scales that make them suit more.

A row of int16 or uint8 holds q where a row of float32 holds q / scale; both get the same answer, to
the last bit. Such a row cannot hold a value between two whole numbers, or outside the range of its
type: the answer would be wrong without a warning. So a forest is refused if its thresholds show
that it was trained on such values.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from edgeforest.forest import HUGE, MASK, Forest
from edgeforest.forests import walking
from edgeforest.host.frames import rows_of
from edgeforest.host.names import quoted

RowType: TypeAlias = Literal["float32", "int16", "uint8"]
Scale: TypeAlias = float | Literal["auto"] | None

RANGES = {"int16": (-32768, 32767), "uint8": (0, 255)}  # of the rows that are whole numbers
# Training puts thresholds at halves; with many values, at 1/192 parts of the range (once 1/128).
GRID = 384
MOST = 30  # the highest power of ten for a scale: float32 ends at 38


def scales_of(forest: Forest, rows: RowType, scale: Scale) -> list[float]:
    """The scale of every feature in rows of this type; none for float32.

    None leaves whole numbers as they are, and refuses a forest that was trained on fractions.
    "auto" takes the largest power of ten for each feature. A number is the scale of all features.
    """
    if rows == "float32":
        if scale is not None:
            raise ValueError("scale is for rows of int16 or uint8; leave it out for float32")
        return []
    if rows not in RANGES:
        raise ValueError(f"rows must be 'float32', 'int16' or 'uint8', got {rows!r}")
    if scale is not None and scale != "auto":
        scale = _checked(scale)
    scales = [1.0] * forest.n_features
    for f, cuts in _cuts(forest).items():
        if scale == "auto":
            scales[f] = _largest(cuts, rows)
        elif scale is not None:
            scales[f] = scale
        _refuse_outside(forest, f, cuts, rows, scales[f])
    if scale is None:
        _refuse_fractions(forest, rows)
    return scales


def _checked(scale: Any) -> float:
    if isinstance(scale, (str, bool)) or not hasattr(scale, "__float__"):
        raise TypeError(f"scale must be a number such as 10, or 'auto', got {scale!r}")
    if not 10.0**-MOST <= (value := float(scale)) <= 10.0**MOST:
        raise ValueError(f"scale must be above zero and below 1e30, got {scale!r}")
    return value


def float32(x: float) -> float:
    """The nearest float32."""
    value: float = struct.unpack("<f", struct.pack("<f", x))[0]
    return value


def whole_cut(cut: float, scale: float) -> int:
    """The largest whole number that goes left: q / scale, as float32, is at most `cut`.

    >>> whole_cut(3.5, 1), whole_cut(-0.5, 1), whole_cut(float32(0.7), 10), whole_cut(21.375, 10)
    (3, -1, 7, 213)
    """
    product = cut * scale
    if abs(product) >= MASK:
        return MASK if product > 0 else -MASK
    q = math.floor(product)
    while float32((q + 1) / scale) <= cut:  # 0.7 is below seven tenths as float32, above as float64
        q += 1
    while float32(q / scale) > cut:
        q -= 1
    return q


def _splits(forest: Forest) -> Iterator[tuple[int, int, float]]:
    """The tree, the feature and the threshold of every split on a number."""
    for t, (start, end) in enumerate(walking.stretches(forest)):
        for node in walking.nodes(forest, start, end):
            # At HUGE a split asks only whether the value is missing.
            if not node.is_leaf and not node.categorical and -HUGE <= node.threshold < HUGE:
                yield t, node.feature, node.threshold


def _cuts(forest: Forest) -> dict[int, set[float]]:
    """The thresholds of every feature that is a number."""
    found: dict[int, set[float]] = {}
    for _, f, cut in _splits(forest):
        found.setdefault(f, set()).add(cut)
    return found


def _largest(cuts: set[float], rows: RowType) -> float:
    """The largest power of ten at which thresholds stay within the type."""
    _, high = RANGES[rows]
    top = max(map(abs, cuts)) or 1.0
    power = max(-MOST, min(MOST, math.floor(math.log10(high) - math.log10(top))))
    if whole_cut(max(cuts), float(f"1e{power}")) >= high:
        power -= 1
    return float(f"1e{power}")


def _refuse_outside(forest: Forest, f: int, cuts: set[float], rows: RowType, scale: float) -> None:
    low, high = RANGES[rows]
    for cut in (min(cuts), max(cuts)):
        if low <= whole_cut(cut, scale) < high:
            continue
        times = f" times {scale:g}" if scale != 1 else ""
        way = "take int16" if rows == "uint8" and cut < 0 else "give a smaller scale, or auto"
        raise ValueError(
            f"feature {quoted(forest.names[f])} has values on both sides of {cut:g}{times}, but {rows} "
            f"goes from {low} to {high}; {way}, or take float32"
        )


def _refuse_fractions(forest: Forest, rows: RowType) -> None:
    """Refuse thresholds that training on whole numbers does not make.

    It makes them at values, midway between two values, and at 1/192 parts of a range of at least
    255. A tree has at most one of the last kind between two neighbouring whole numbers.
    """
    seen: dict[tuple[int, int, int], float] = {}
    for t, f, cut in _splits(forest):
        part = float32(round(cut * GRID) / GRID)
        if cut * 2 % 1 and (part != cut or seen.setdefault((t, f, math.floor(cut)), cut) != cut):
            raise ValueError(
                f"feature {quoted(forest.names[f])} was trained on fractions (it has a threshold of "
                f"{cut:.7g}), which {rows} cannot hold; use scale=10 or scale=auto, scale=1 to "
                "round its values, or rows=float32"
            )


def scaled(x: float, scale: float, rows: RowType) -> int:
    """A number as a row holds it, computed as the exports do; the largest if it is missing.

    >>> scaled(21.37, 10, "int16"), scaled(-0.25, 10, "int16"), scaled(1e9, 10, "uint8")
    (214, -3, 255)
    """
    low, high = RANGES[rows]
    x = float32(max(-HUGE, min(HUGE, x)) if x == x else x)
    v = max(-HUGE, min(HUGE, x * float32(scale))) if x == x else x
    v = float32(v)
    if not v < high:
        return high
    if v < low:
        return low
    return int(float32(v + (-0.5 if v < 0 else 0.5)))


def rounded_rows(
    model: Any, X: Any, *, rows: RowType = "int16", scale: Scale = None
) -> list[list[Any]]:
    """The rows of X as a header or module of `rows` sees them: numbers rounded to their steps.

    For these rows the forest answers what the export answers for X.

    >>> from edgeforest import train
    >>> X = [[i % 50 / 10, i % 7] for i in range(300)]
    >>> forest = train(X, [i % 50 > 20 for i in range(300)], n_trees=3)
    >>> rounded_rows(forest, [[2.04, 3]], scale=10)
    [[2.0, 3.0]]
    """
    forest = walking.forest_of(model)
    return round_rows(forest, X, rows, scales_of(forest, rows, scale))


def round_rows(forest: Forest, X: Any, rows: RowType, scales: list[float]) -> list[list[Any]]:
    """`rounded_rows`, given the scale of every feature."""
    return [
        [
            v
            if kinds is not None or not scales
            else float32(scaled(math.nan if v is None else float(v), s, rows) / s)
            for v, s, kinds in zip(row, scales or row, forest.categories, strict=True)
        ]
        for row in rows_of(forest, X)
    ]
