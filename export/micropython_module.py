"""Write a forest as a MicroPython module of `bytes` constants that predicts without allocation.

    text = to_micropython(forest, rows="int16")       # float32 if left out
    open("model.py", "w").write(text)                 # then: mpy-cross model.py, or freeze it

The module imports nothing of EdgeForest. Frozen into the firmware, its constants stay in flash; as
`.mpy` they are loaded into the heap. It runs on CPython too.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from edgeforest.forest import Forest
from edgeforest.forests.walking import forest_of

from . import micropython_sure
from .layout import (
    Layout,
    Leaves,
    Question,
    Splits,
    Trees,
    describe_row,
    lay_out_trees,
    most_votes,
    read_trees,
    windows_of,
)
from .micropython_windows import in_python
from .scaling import RANGES, RowType, Scale, scales_of

MISSING = 65535  # the bin of a missing number
UNKNOWN = 65534  # the code of what is not a category


def to_micropython(
    model: Any, *, rows: RowType = "float32", scale: Scale = None, coverage: float | None = None
) -> str:
    """A forest, or fitted estimator, as the text of a MicroPython module.

    Its `predict_into(row, out)` is that of the forest: the same votes, bit for bit. `predict(row)`
    returns the label (or value). With `rows="float32"` a row holds numbers, NaN where one is
    missing; with "int16" or "uint8", for features that are whole numbers, it holds whole numbers in
    that range, such as `bytes`. Other features need a `scale`: a row then holds each value times
    the scale, which `scaled(feature, x)` in the module computes; "auto" takes a power of ten for
    each feature. Categories are 1, 2, ..., and 0 if missing. If the features are those of `Windows`,
    and rows are float32 or int16 without a scale, `windows()` in the module makes the windows whose
    rows it takes. With `coverage`, the module of a calibrated forest also has `predict_interval(row)`,
    or `predict_set(row)` for classes: see `Forest.predict_interval` and `predict_set`.

    >>> from edgeforest import train
    >>> X = [[i % 50, i % 7] for i in range(300)]
    >>> forest = train(X, [i % 50 > 20 for i in range(300)], n_trees=3)
    >>> module = {}
    >>> exec(to_micropython(forest, rows="uint8"), module)
    >>> module["predict"](bytes([30, 2])), module["predict_into"](bytes([3, 2]), out := [0, 0])
    (True, 0)
    >>> sum(out) == forest.scale * 3
    True
    """
    return _Module(forest_of(model), rows, scale, coverage).text()


class _Module:
    """One module while it is being written."""

    def __init__(self, forest: Forest, rows: RowType, scale: Scale, coverage: float | None) -> None:
        self.forest = forest
        self.sure = [] if coverage is None else micropython_sure.in_python(forest, coverage)
        self.squares = bool(self.sure) and forest.regression  # are summed up, too
        self.rows = rows
        self.scales = scales_of(forest, rows, scale)
        self.scaled = scale is not None
        self.constants: list[str] = []
        self.locals: list[str] = []  # globals that predict_into reads: a local is faster
        most_votes(forest)  # refuses what cannot be exact
        trees = read_trees(forest, rows, self.scales)
        self.float_rows = rows == "float32" and bool(trees.tests)
        self.row = "row"
        before: list[str] = []
        if self.float_rows:
            bins = _Bins(trees)
            before, self.row = self._bin_row(bins), "bins"
            trees = bins.apply(trees)
        layout = lay_out_trees(trees)
        walk = ["leaf = t"]
        if trees.tests:
            walk = self._filled(layout) if layout.filled else self._preorder(layout)
        add, after = self._add(layout.leaves)
        self.predict_into = [
            "def predict_into(row, out):",
            '    """Sum the votes of the trees for a row into `out`; returns the place of the most."""',
            *_indent([f"{_local(name)} = {name}" for name in self.locals]),
            f"    for k in range({forest.n_votes}):",
            "        out[k] = 0",
            *_indent(before),
            *_indent(micropython_sure.BEFORE if self.squares else []),
            *([] if layout.filled or not trees.tests else ["    root = 0"]),
            f"    for t in range({len(forest)}):",
            *_indent(_indent([*walk, *add])),
            *_indent(after),
            *_indent(micropython_sure.AFTER if self.squares else []),
            "    best = 0",
            f"    for k in range(1, {forest.n_votes}):",
            "        if out[k] > out[best]:",
            "            best = k",
            "    return best",
        ]

    def text(self) -> str:
        """The whole module."""
        forest = self.forest
        what = "a regression" if forest.regression else f"{forest.n_votes} classes"
        about = f"A forest of {len(forest)} trees, {what}; written by EdgeForest."
        imports = ["import struct"] if self.float_rows or forest.regression else []
        windows = windows_of(forest, self.rows, self.scaled)
        if imports or self.scaled:
            imports += ["from array import array", ""]
        parts = [
            f'"""{about}"""\n',
            *imports,
            *(f"# {line}" for line in describe_row(forest, self.rows, self.scales)),
            *self.constants,
            f"_out = [0] * {forest.n_votes}",
            *(micropython_sure.CONSTANTS if self.squares else []),
            *(self._bin_functions() if self.float_rows else []),
            "\n",
            *self.predict_into,
            "\n",
            *(self._value() if forest.regression else self._label()),
            *self.sure,
            *(self._scaled() if self.scaled else []),
            *(["\n", *in_python(windows)] if windows else []),
        ]
        return "\n".join(parts) + "\n"

    def _read(self, name: str, values: Sequence[float], index: str, local: bool = True) -> str:
        """Add whole numbers as `bytes` constants, a constant a byte; returns how to read them."""
        whole = [int(v) for v in values]
        parts = []
        for shift in range(0, max(8, max(whole, default=0).bit_length()), 8):
            constant = f"_{name}{shift // 8}" if shift else f"_{name}"
            self.constants.append(f"{constant} = {bytes(v >> shift & 255 for v in whole)!r}")
            if local:
                self.locals.append(constant)
                constant = _local(constant)
            read = f"{constant}[{index}]"
            parts.append(f"({read} << {shift})" if shift else read)
        return parts[0] if len(parts) == 1 else f"({' | '.join(parts)})"

    # ---- Numbers become bins, once for each row: then trees compare only small whole numbers

    def _bin_row(self, bins: _Bins) -> list[str]:
        keys = [key for cuts in bins.cuts.values() for key in cuts]
        self.high = self._read("HIGH", [key >> 16 for key in keys], "m", local=False)
        self.low = self._read("LOW", [key & 65535 for key in keys], "m", local=False)
        self.constants += [f'_BINS = array("H", bytes({2 * self.forest.n_features}))']
        self.constants += ["_four = bytearray(4)"]
        self.locals.append("_BINS")
        lines, start = [], 0
        if bins.cuts:
            feature = self._read("USED", list(bins.cuts), "k")
            end = self._read("ENDS", _running(len(cuts) for cuts in bins.cuts.values()), "k")
            lines += [
                f"start = {start}",
                f"for k in range({len(bins.cuts)}):",
                f"    f = {feature}",
                f"    end = {end}",
                "    bins[f] = _bin(row[f], start, end)",
                "    start = end",
            ]
        if bins.codes:
            feature = self._read("KINDS", sorted(bins.codes), "k")
            lines += [
                f"for k in range({len(bins.codes)}):",
                f"    f = {feature}",
                "    bins[f] = _code(row[f])",
            ]
        self.has_codes = bool(bins.codes)
        self.has_cuts = bool(bins.cuts)
        return lines

    def _bin_functions(self) -> list[str]:
        """The functions that turn a number into its bin, without making another number."""
        lines = []
        if self.has_cuts:
            lines += [
                *("\n", "def _bin(x, low, end):"),
                '    """How many of the cuts from `low` to `end` are below x, by the bits of float32."""',
                "    if x != x:",
                f"        return {MISSING}",
                '    struct.pack_into(">f", _four, 0, x)',
                "    h = _four[0] << 8 | _four[1]",
                "    l = _four[2] << 8 | _four[3]",
                "    if h < 32768:",
                "        h += 32768",
                "    elif h > 32768 or l:  # minus zero is zero",
                "        h ^= 65535",
                "        l ^= 65535",
                "    start = low",
                "    while low < end:",
                "        m = (low + end) >> 1",
                f"        k = {self.high}",
                f"        if h > k or h == k and l > {self.low}:",
                "            low = m + 1",
                "        else:",
                "            end = m",
                "    return low - start",
            ]
        if self.has_codes:
            lines += [
                *("\n", "def _code(x):"),
                '    """The code of a category; 0 if it is missing."""',
                "    if x != x or x == 0:",
                "        return 0",
                f"    if 0 < x < {UNKNOWN} and int(x) == x:",
                "        return int(x)",
                f"    return {UNKNOWN}",
            ]
        return lines

    # ---- Down the trees

    def _ask(self, splits: Splits, at: str) -> tuple[list[str], str]:
        """The lines that read the value for the split `at`, and whether it goes right."""
        lines = []
        if splits.asks is not None:
            lines.append(f"a = {self._read('ASKS', splits.asks, at)}")
            at = "a"
        word = self._read("FEATURES", splits.words, at)
        bias = -min(0, int(min(splits.cuts)))
        cut = self._read("CUTS", [int(v) + bias for v in splits.cuts], at)
        if splits.feature:
            lines += [f"f = {word}", f"x = {self.row}[f & {splits.feature}]"]
            value = "x"
        else:
            value = f"{self.row}[{word}]"
        value = f"{value} + {bias}" if bias else value
        right = f"{value} > {cut}"
        if not splits.feature:
            return lines, right
        # Missing numbers are in a bin above all others: they go right by themselves.
        if splits.missing_left and self.float_rows:
            right = f"{right} and not (f & {splits.missing_left} and x == {MISSING})"
        if splits.equal:
            there = f"not f & {splits.missing_left}" if splits.missing_left else "True"
            same = f"{value} != {cut}"
            right = f"(({same}) if x else {there}) if f & {splits.equal} else ({right})"
        return lines, right

    def _filled(self, layout: Layout) -> list[str]:
        half = 1 << layout.trees.levels
        lines, right = self._ask(layout.splits, "j")
        return [
            "i = 1",
            f"while i < {half}:",
            f"    j = t * {half} + i",
            *_indent(lines),
            "    i += i",
            f"    if {right}:",
            "        i += 1",
            f"leaf = t * {half} + i - {half}",
        ]

    def _preorder(self, layout: Layout) -> list[str]:
        lines, right = self._ask(layout.splits, "i")
        return [
            f"n = {self._read('SIZES', layout.trees.sizes, 't')}",
            "i = root",
            "leaf = root + t",
            "root += n",
            "while n:",
            f"    s = {self._read('SKIPS', layout.trees.skips, 'i')}",
            *_indent(lines),
            f"    if {right}:",
            "        s += 1",
            "        i += s",
            "        leaf += s",
            "        n -= s",
            "    else:",
            "        i += 1",
            "        n = s",
        ]

    def _add(self, leaves: Leaves) -> tuple[list[str], list[str]]:
        """The lines that add the votes of a leaf, and those that follow all trees."""
        at = f"leaf * {leaves.columns}" if leaves.columns > 1 else "leaf"
        if leaves.places is not None:
            at = self._read("LEAVES", leaves.places, "leaf")
        if leaves.kind == "class":
            return [f"out[{at}] += {leaves.weight}"], []
        if leaves.kind == "pairs":
            return [
                f"at = {at}",
                f"left = {leaves.weight}",
                "while left:",
                f"    p = {self._read('PAIRS', leaves.votes, 'at')}",
                "    at += 1",
                f"    out[p & {(1 << leaves.bits) - 1}] += p >> {leaves.bits}",
                f"    left -= p >> {leaves.bits}",
            ], []
        columns = leaves.columns
        vote = self._read("VOTES", leaves.votes, "at + k" if columns > 1 else "at")
        if columns == 1:
            add = [f"at = {at}", f"out[0] += {vote}"]
            if self.squares:
                add = [f"at = {at}", f"v = {vote}", "out[0] += v", *micropython_sure.ADD]
        else:
            add = [f"at = {at}", f"for k in range({columns}):", f"    out[k] += {vote}"]
        if columns == self.forest.n_votes:
            return add, []
        rest = [f"k = {leaves.weight * len(self.forest)}", f"for t in range({columns}):"]
        return add, [*rest, "    k -= out[t]", f"out[{columns}] = k"]

    # ---- What the votes mean

    def _label(self) -> list[str]:
        return [
            f"CLASSES = {tuple(self.forest.classes or ())!r}",
            "\n",
            "def predict(row):",
            '    """The class of a row."""',
            "    return CLASSES[predict_into(row, _out)]",
        ]

    def _scaled(self) -> list[str]:
        low, high = RANGES[self.rows]
        return [
            *("\n", f"SCALES = {tuple(self.scales)!r}", "\n"),
            "def scaled(feature, x):",
            '    """A number as a row holds it: times the scale of its feature, rounded."""',
            '    v = array("f", [array("f", [x])[0] * array("f", [SCALES[feature]])[0]])[0]',
            f"    if not v < {high}:",
            f"        return {high}",
            f"    if v < {low}:",
            f"        return {low}",
            '    return int(array("f", [v + (-0.5 if v < 0 else 0.5)])[0])',
        ]

    def _value(self) -> list[str]:
        forest = self.forest
        return [
            f'_STEP, _BASE = struct.unpack("<2f", {struct.pack("<2f", forest.step(), forest.low)!r})',
            "\n",
            "def value(total):",
            '    """The value that summed votes stand for, computed as float32 machines do."""',
            '    part = array("f", [total * _STEP])[0]',
            '    return array("f", [part + _BASE])[0]',
            "\n",
            "def predict(row):",
            '    """The value of a row."""',
            "    predict_into(row, _out)",
            "    return value(_out[0])",
        ]


class _Bins:
    """The cuts of each feature that is a number, as whole numbers in the same order, ascending."""

    def __init__(self, trees: Trees) -> None:
        self.codes = {t.feature for t in trees.tests if t.equal}
        found: dict[int, set[int]] = {}
        for test in trees.tests:
            if test.equal and not (0 <= test.cut < UNKNOWN and test.cut == int(test.cut)):
                raise ValueError(f"feature {test.feature} has a category that is not a code")
            if not test.equal:
                if test.feature in self.codes:
                    raise ValueError(f"feature {test.feature} is both a number and a category")
                found.setdefault(test.feature, set()).add(_key(test.cut))
        self.cuts = {f: sorted(found[f]) for f in sorted(found)}
        for f, cuts in self.cuts.items():
            if len(cuts) >= UNKNOWN:
                raise ValueError(
                    f"feature {f} has {len(cuts)} thresholds, a module can have {UNKNOWN - 1}; "
                    "train with fewer trees"
                )

    def apply(self, trees: Trees) -> Trees:
        """The same trees, comparing bins."""
        places = {(f, key): i for f, keys in self.cuts.items() for i, key in enumerate(keys)}
        known: dict[Question, Question] = {}
        for test in trees.tests:
            if test not in known:
                cut = test.cut if test.equal else places[test.feature, _key(test.cut)]
                known[test] = test._replace(cut=int(cut))
        return replace(trees, tests=[known[test] for test in trees.tests])


def _key(x: float) -> int:
    """A whole number of 32 bits, in the same order as float32."""
    bits: int = struct.unpack("<I", struct.pack("<f", x))[0]
    return bits ^ 0xFFFFFFFF if bits >> 31 else bits | 0x80000000


def _running(counts: Iterable[int]) -> array[int]:
    """The sums of all counts up to each."""
    sums, total = array("I"), 0
    for count in counts:
        total += count
        sums.append(total)
    return sums


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _local(constant: str) -> str:
    return constant.lstrip("_").lower()
