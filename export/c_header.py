"""Write a forest as one C99 header: const arrays that stay in flash, no malloc, the same votes.

    text = to_c(forest, rows="int16")       # float32 if left out
    open("model.h", "w").write(text)

The header has `model_predict(row)` and `model_votes(row, out)`. Rows hold what `Forest.encode`
returns: numbers, NaN where a value is missing, and 1, 2, ... for categories (0 is missing too).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from edgeforest.forest import Forest
from edgeforest.forests.walking import forest_of

from . import c_sure, c_windows
from .layout import (
    Layout,
    Leaves,
    Question,
    Splits,
    Trees,
    describe_row,
    item_code,
    lay_out,
    most_votes,
    read_leaves,
    read_trees,
    windows_of,
)
from .scaling import RANGES, RowType, Scale, scales_of

ROW_TYPES = {"float32": "float", "int16": "int16_t", "uint8": "uint8_t"}
# Type code: the type in C, and how it is read from flash.
TYPES = {
    "B": ("uint8_t", "8"),
    "H": ("uint16_t", "16"),
    "h": ("int16_t", "S16"),
    "I": ("uint32_t", "32"),
    "f": ("float", "F"),
}
READS = {  # on an AVR
    "8": "pgm_read_byte(&(x))",
    "16": "pgm_read_word(&(x))",
    "S16": "(int16_t)pgm_read_word(&(x))",
    "32": "pgm_read_dword(&(x))",
    "F": "pgm_read_float(&(x))",
}
# Trees that the compiler inlines into one function take more flash: a return is shorter than a jump.
APART = """#if defined(__GNUC__)
#define @_APART __attribute__((noinline))
#else
#define @_APART
#endif"""
LINE = 100  # characters of a line
UNROLL = 2048  # with so many bytes of tables, unrolled loops (a few hundred bytes) are worth it
MOST_BLOCKS = 60  # nested: some compilers end at 127
MOST_COLUMNS = 16  # of votes whose loop is unrolled


def to_c(
    model: Any,
    name: str = "model",
    *,
    rows: RowType = "float32",
    scale: Scale = None,
    prefer: Literal["size", "speed"] = "size",
    coverage: float | None = None,
) -> str:
    """A forest, or fitted estimator, as a C99 header that needs nothing else.

    `rows` is the type of a row's values. With "int16" or "uint8", for features that are whole
    numbers, a classification uses no float at all. Other features need a `scale`: a row then holds
    each value times the scale, which `model_scaled(feature, x)` in the header computes; "auto"
    takes a power of ten for each feature. `prefer="size"` writes tables that a loop of a few lines
    walks through, `prefer="speed"` writes every split as a branch: fewer instructions, more flash.
    Votes and labels are those of `Forest.predict_into`, and a regression's value is that of
    `Forest.predict`, to the last bit. If the features are those of `Windows`, and rows are float32 or
    int16 without a scale, the header also turns samples into rows: `model_push(&windows, sample)`.
    With `coverage`, the header of a calibrated forest also has `model_interval(row, &lower, &upper)`,
    or `model_set(row, in)` for classes: see `Forest.predict_interval` and `predict_set`.

    >>> from edgeforest import train
    >>> X = [[i % 50, i % 7] for i in range(300)]
    >>> forest = train(X, [i % 50 > 20 for i in range(300)], names=["lux", "day"], n_trees=3)
    >>> header = to_c(forest, "lamp", rows="uint8")
    >>> "static inline int lamp_predict(const uint8_t *row)" in header, "float" in header
    (True, False)
    """
    forest = forest_of(model)
    if prefer not in ("size", "speed"):
        raise ValueError(f"prefer must be 'size' or 'speed', got {prefer!r}")
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name must be a name in C, such as 'model', got {name!r}")
    return _Header(forest, name, rows, scale, prefer == "speed", coverage).text()


class _Header:
    """One header while it is being written."""

    def __init__(
        self,
        forest: Forest,
        name: str,
        rows: RowType,
        scale: Scale,
        speed: bool,
        coverage: float | None,
    ) -> None:
        self.forest = forest
        self.name = name
        self.rows = rows
        self.scales = scales_of(forest, rows, scale)
        self.row_type = ROW_TYPES[rows]
        self.arrays: list[str] = []
        self.reads: set[str] = set()
        self.pointers: list[str] = []  # declared in the function that sums the votes
        self.set: list[str] = []  # statements that set pointers
        self.most = most_votes(forest)
        self.scaled = "" if scale is None else self._scaled()
        self.windows = windows_of(forest, rows, scale is not None)
        self.sure = ""
        if coverage is not None:
            self.sure = c_sure.in_c(forest, name, self.row_type, coverage, _float)
        self.squares = bool(self.sure) and forest.regression  # are summed up, too
        self.body = self._branches() if speed else self._tables()
        self.push = ""
        if self.windows:
            self.push = c_windows.in_c(self.windows, name, self.row_type, self._array)

    def text(self) -> str:
        """The whole header."""
        guard = self.name.upper() + "_H"
        defines = {
            "FEATURES": self.forest.n_features,
            "TREES": len(self.forest),
            "VOTES": self.forest.n_votes,
            "SCALE": self.forest.scale,
        }
        parts = [
            self._comment(),
            f"#ifndef {guard}\n#define {guard}",
            "#include <stdint.h>"
            + ("\n#include <math.h>" if "INFINITY" in "".join([*self.arrays, self.body]) else ""),
            self._flash(),
            "\n".join(f"#define {self.name.upper()}_{k} {v}" for k, v in defines.items()),
            f"typedef uint{16 if self.most < 65536 else 32}_t {self.name}_sum;",
            *self.arrays,
            self.body,
            self._predict(),
            self._label(),
            self.sure,
            self.scaled,
            self.push,
            "#endif",
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _comment(self) -> str:
        forest, name, row = self.forest, self.name, f"const {self.row_type} *row"
        what = "a regression" if forest.regression else f"{forest.n_votes} classes"
        lines = [f"A forest of {len(forest)} trees, {what}; written by EdgeForest.", ""]
        if forest.regression:
            lines += [f"float {name}_predict({row})  the value"]
        else:
            lines += [f"int {name}_predict({row})  the place of the class; see {name}_label"]
        lines += [f"void {name}_votes({row}, {name}_sum *out)  the sums of the trees' votes", ""]
        if self.sure:
            lines += [*c_sure.about(forest, name, self.row_type), ""]
        if self.scaled:
            lines += [
                f"{self.row_type} {name}_scaled(int feature, float x)  a number for a row",
                "",
            ]
        if self.windows:
            lines += c_windows.about(self.windows, name)
        lines += describe_row(forest, self.rows, self.scales)
        if self.rows == "float32":
            lines += ["NaN is a missing value: do not compile with -ffast-math if there are any."]
        return "\n".join(["/*", *(f" * {_comment(line)}".rstrip() for line in lines), " */"])

    def _flash(self) -> str:
        """How arrays are kept in flash and read from it, on machines where that differs."""
        macro = self.name.upper()
        there = [f"#define {macro}_{k}(x) {READS[k]}" for k in READS if k in self.reads]
        elsewhere = [f"#define {macro}_{k}(x) (x)" for k in READS if k in self.reads]
        if not there:
            return ""
        return "\n".join(
            [
                "#if defined(__AVR__)",
                "#include <avr/pgmspace.h>",
                f"#define {macro}_FLASH PROGMEM",
                *there,
                "#else",
                f"#define {macro}_FLASH",
                *elsewhere,
                "#endif",
            ]
        )

    def _array(self, what: str, values: Sequence[float], index: str) -> str:
        """Add an array to the header; returns the expression that reads it."""
        code = item_code(values)
        kind, read = TYPES[code]
        self.reads.add(read)
        name = f"{self.name}_{what}"
        numbers = _numbers(_float(v) if code == "f" else str(v) for v in values)
        macro = self.name.upper()
        self.arrays.append(
            f"static const {kind} {name}[{len(values)}] {macro}_FLASH = {{\n{numbers}\n}};"
        )
        return f"{macro}_{read}({name}[{index}])"

    def _part(self, what: str, values: Sequence[float], start: str, index: str) -> str:
        """Add an array that is read from some place on, through a pointer that `set` sets."""
        expression = self._array(what, values, index)
        self.pointers.append(f"const {TYPES[item_code(values)][0]} *{what};")
        self.set.append(f"{what} = {self.name}_{what} + {start};")
        return expression.replace(f"{self.name}_{what}[", f"{what}[")

    # ---- Tables

    def _tables(self) -> str:
        layout = lay_out(self.forest, self.rows, self.scales)
        trees, leaves = layout.trees, layout.leaves
        kind = "uint_fast16_t" if len(trees.leaves) + len(trees.sizes) < 65536 else "uint_fast32_t"
        names, walk = ["t", "leaf"], ["(void)row;", "leaf = t;"]
        if trees.tests:
            names.append("i")
            walk = self._filled(layout) if layout.filled else self._preorder(layout, names)
        if leaves.places is not None:
            at = self._array("leaves", leaves.places, "leaf")
        else:
            at = "leaf" + (f" * {leaves.columns}" if leaves.columns > 1 else "")
        add, after = self._add(leaves, at)
        lines = [f"{kind} {', '.join(names)};", *self.pointers, self._clear()]
        lines += ["for (t = 0; t < @_TREES; t++) {", *_indent([*walk, *add]), "}", *after]
        return self._votes(lines)

    def _ask(self, splits: Splits, start: str) -> tuple[list[str], str]:
        """The statements that read a row's value for split i, and whether it goes right.

        Splits are counted from `start` on, if it is given.
        """

        def array(what: str, values: Sequence[float], index: str) -> str:
            if index == "i" and start:
                return self._part(what, values, start, index)
            return self._array(what, values, index)

        at, read = "i", []
        if splits.asks is not None:
            read.append(f"a = {array('asks', splits.asks, 'i')};")
            wide = 32 if len(splits.words) > 65535 else 16
            self.pointers.append(f"uint_fast{wide}_t a;")
            at = "a"
        word = array("features", splits.words, at)
        cut = array("cuts", splits.cuts, at)
        if self.rows == "int16" and item_code(splits.cuts) == "H":
            cut = f"(int16_t){cut}"  # where int has 16 bits, x would become unsigned, too
        self.pointers.append(f"{self.row_type} x;")
        if splits.feature:
            self.pointers.append("uint_fast16_t f;")
            read += [f"f = {word};", f"x = row[f & {splits.feature}];"]
        else:
            read.append(f"x = row[{word}];")
        missing = "x != x" if self.rows == "float32" else ""
        right = f"!(x <= {cut})" if missing else f"x > {cut}"
        if splits.missing_left and missing:
            right = f"({right} && !((f & {splits.missing_left}) && {missing}))"
        if splits.equal:
            gone = f"{missing} || x == 0" if missing else "x == 0"
            there = f"!(f & {splits.missing_left})" if splits.missing_left else "1"
            right = f"((f & {splits.equal}) ? (({gone}) ? {there} : x != {cut}) : {right})"
        return read, right

    def _filled(self, layout: Layout) -> list[str]:
        """Walk down a tree whose leaves are all equally deep: split i has children 2i, 2i + 1."""
        half = 1 << layout.trees.levels
        read, right = self._ask(layout.splits, f"t * {half}")
        step = [*read, f"i = {right} ? 2 * i + 1 : 2 * i;"]
        if layout.bytes < UNROLL:
            walk = ["do {", *_indent(step), f"}} while (i < {half});"]
        else:
            walk = [" ".join(step)] * layout.trees.levels
        return [*self.set, "i = 1;", *walk, f"leaf = t * {half} + i - {half};"]

    def _preorder(self, layout: Layout, names: list[str]) -> list[str]:
        """Walk down a tree of n splits: on its left are s splits and s + 1 leaves."""
        names += ["n", "s", "root = 0"]
        read, right = self._ask(layout.splits, "")
        return [
            f"n = {self._array('sizes', layout.trees.sizes, 't')};",
            "i = root;",
            "leaf = root + t;",
            "root += n;",
            "while (n) {",
            f"    s = {self._array('skips', layout.trees.skips, 'i')};",
            *_indent(read),
            f"    if ({right}) {{",
            "        s++;",
            "        i += s;",
            "        leaf += s;",
            "        n -= s;",
            "    } else {",
            "        i++;",
            "        n = s;",
            "    }",
            "}",
        ]

    def _add(self, leaves: Leaves, at: str) -> tuple[list[str], list[str]]:
        """The statements that add the votes of a leaf, and those that follow all trees."""
        self.set = []
        if leaves.kind == "class":
            return [f"out[{at}] += {leaves.weight};"], []
        if leaves.kind == "pairs":
            pair = self._part("pairs", leaves.votes, at, "0")
            self.pointers.append("uint_fast32_t p, left;")
            votes = f"p >> {leaves.bits}"
            return [
                *self.set,
                f"left = {leaves.weight};",
                "do {",
                f"    p = {pair};",
                "    pairs++;",
                f"    out[p & {(1 << leaves.bits) - 1}] += ({self.name}_sum)({votes});",
                f"    left -= {votes};",
                "} while (left);",
            ], []
        columns = leaves.columns
        if self.squares:
            self.pointers.append("uint32_t v;")
            vote = self._array("leaf_votes", leaves.votes, at)
            add = [f"v = {vote};", f"out[0] += ({self.name}_sum)v;", "*squares += v * v;"]
        elif columns == 1:
            add = [f"out[0] += {self._array('leaf_votes', leaves.votes, at)};"]
        else:
            vote = self._part("leaf_votes", leaves.votes, at, "k")
            add = list(self.set)
            if columns <= MOST_COLUMNS and leaves.bytes >= UNROLL:
                add += [f"out[{k}] += {vote.replace('[k]', f'[{k}]')};" for k in range(columns)]
            else:
                self.pointers.append("uint_fast16_t k;")
                add.append(f"for (k = 0; k < {columns}; k++) out[k] += {vote};")
        if columns == self.forest.n_votes:
            return add, []
        return add, [
            f"out[{columns}] = ({self.name}_sum)({leaves.weight}UL * @_TREES);",
            f"for (t = 0; t < {columns}; t++) out[{columns}] -= out[t];",
        ]

    def _clear(self) -> str:
        first = "*squares = 0; " if self.squares else ""
        return first + "for (t = 0; t < @_VOTES; t++) out[t] = 0;"

    def _votes(self, lines: list[str]) -> str:
        """The function that sums up votes; with squares, what both kinds of answers ask."""
        out = f"{self.name}_sum *out"
        if not self.squares:
            return self._function("void", "votes", out, lines)
        both = self._function("void", "moments", f"{out}, uint64_t *squares", lines)
        call = ["uint64_t squares;", f"{self.name}_moments(row, out, &squares);"]
        return both + "\n\n" + self._function("void", "votes", out, call)

    # ---- Branches

    def _branches(self) -> str:
        trees = read_trees(self.forest, self.rows, self.scales)
        leaves = read_leaves(trees.leaves, True)
        assert leaves.places is not None
        functions, calls, start = [], [], 0
        kind = "uint32_t" if item_code(leaves.places) == "I" else "unsigned"
        for t, size in enumerate(trees.sizes):
            functions.append(self._tree(t, trees, start, size, leaves.places, kind))
            leaf = "out[{}] += {};" if leaves.kind == "class" else f"leaves[{t}] = {{}};"
            calls.append(leaf.format(f"{self.name}_tree{t}(row)", leaves.weight))
            start += size
        add, after = self._add(leaves, "leaves[t]")
        lines = ["uint_fast16_t t;", *self.pointers, self._clear(), *calls]
        if leaves.kind != "class":
            lines.insert(0, f"{kind} leaves[@_TREES];")
            lines += ["for (t = 0; t < @_TREES; t++) {", *_indent(add), "}", *after]
        return "\n\n".join(
            [
                APART.replace("@", self.name.upper()),
                *functions,
                self._votes(lines),
            ]
        )

    def _tree(
        self, t: int, trees: Trees, start: int, size: int, places: list[int], kind: str
    ) -> str:
        """The function of one tree: a block for what is on the left, then what is on the right."""
        lines: list[str] = []
        stack = [(start, size, start + t, 0, "")]
        while stack:
            split, n, leaf, level, before = stack.pop()
            if before:
                lines.append(before)
            if not n:
                lines.append(f"return {places[leaf]};")
                continue
            s = trees.skips[split]
            left, right = self._left(trees.tests[split]), leaf + s + 1
            if level < MOST_BLOCKS:
                lines.append(f"if ({left}) {{")
                before, level = "}", level + 1
            else:  # the first leaf of the right side names it
                lines.append(f"if (!({left})) goto n{right};")
                before = f"n{right}:"
            stack.append((split + s + 1, n - s - 1, right, level - (before == "}"), before))
            stack.append((split + 1, s, leaf, level, ""))
        if not size:
            lines.insert(0, "(void)row;")
        return self._function(kind, f"tree{t}", "", lines, f"{self.name.upper()}_APART")

    def _left(self, test: Question) -> str:
        """Whether a row goes left, as an expression."""
        x = f"row[{test.feature}]"
        whole = self.rows != "float32"
        cut = str(test.cut) if whole else _float(test.cut)
        if test.equal:
            ways = [f"{x} == {cut}"] if test.cut else []
            if test.missing_left:
                ways += [f"{x} == 0"] if whole else [f"{x} == 0", f"{x} != {x}"]
            return " || ".join(ways) or "0"
        return f"{x} <= {cut}" if whole or not test.missing_left else f"!({x} > {cut})"

    # ---- What both have

    def _function(
        self, kind: str, what: str, more: str, lines: Iterable[str], how: str = "inline"
    ) -> str:
        body = "\n".join(_indent(lines)).replace("@", self.name.upper())
        row = f"const {self.row_type} *row" + (f", {more}" if more else "")
        return f"static {how} {kind} {self.name}_{what}({row})\n{{\n{body}\n}}"

    def _predict(self) -> str:
        macro, lines = self.name.upper(), [f"{self.name}_sum out[{self.name.upper()}_VOTES];"]
        if self.forest.regression:
            lines += [
                "volatile float value; /* rounded to float32 after each step, on any machine */",
                f"{self.name}_votes(row, out);",
                f"value = (float)out[0] * {_float(self.forest.step())};",
                f"value = value + {_float(self.forest.low)};",
                "return value;",
            ]
            return self._function("float", "predict", "", lines)
        lines += [
            "int k, best = 0;",
            f"{self.name}_votes(row, out);",
            f"for (k = 1; k < {macro}_VOTES; k++)",
            "    if (out[k] > out[best]) best = k;",
            "return best;",
        ]
        return self._function("int", "predict", "", lines)

    def _label(self) -> str:
        classes = self.forest.classes
        if classes is None:
            return ""
        kind, values = "int32_t ", [str(int(c)) for c in classes if isinstance(c, int)]
        if len(values) < len(classes) or any(abs(int(v)) >= 1 << 31 for v in values):
            kind, values = "char *", [_string(str(c)) for c in classes]
        const = "const " if kind == "char *" else ""
        return (
            f"/* The class at a place. */\n"
            f"static inline {const}{kind}{self.name}_label(int place)\n{{\n"
            f"    static const {kind}{'const ' if const else ''}labels[] = {{\n"
            f"{_numbers(values, 8)}\n    }};\n    return labels[place];\n}}"
        )

    def _scaled(self) -> str:
        """The function that turns a number into what a row holds: `scaling.scaled`, in C."""
        low, high = RANGES[self.rows]
        scale = self._array("scales", self.scales, "feature")
        return (
            "/* A number as a row holds it: times the scale of its feature, rounded. */\n"
            f"static inline {self.row_type} {self.name}_scaled(int feature, float x)\n{{\n"
            f"    volatile float v = x * {scale};\n"
            f"    if (!(v < {high}.0f)) return {high};\n"
            f"    if (v < {low}.0f) return {low};\n"
            "    v = v + (v < 0.0f ? -0.5f : 0.5f);\n"
            f"    return ({self.row_type})v;\n}}"
        )


def _indent(lines: Iterable[str]) -> list[str]:
    return [line if re.match(r"n\d+:", line) else f"    {line}" for line in lines]


def _numbers(values: Iterable[str], indent: int = 4) -> str:
    """Values with commas, in lines of a moderate width."""
    lines, line = [], " " * indent
    for value in values:
        if len(line) + len(value) > LINE and line.strip():
            lines.append(line.rstrip())
            line = " " * indent
        line += value + ", "
    return "\n".join([*lines, line.rstrip().rstrip(",")])


def _float(value: float) -> str:
    """A float32 as a constant in C that has the same bits when it is read."""
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    text = f"{struct.unpack('<f', struct.pack('<f', value))[0]:.9g}"
    return text + ("f" if "." in text or "e" in text else ".0f")


def _comment(line: str) -> str:
    """A line that cannot end a comment, in ASCII and without trigraphs."""
    line = re.sub(r"\?(?=\?)", "? ", line).replace("*/", "* /").replace("/*", "/ *")
    return line.encode("ascii", "backslashreplace").decode().rstrip("\\ ")


def _string(text: str) -> str:
    """A text as a constant in C."""
    safe = [
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}"
        for b in text.encode(errors="replace")
    ]
    return '"' + "".join(safe) + '"'
