"""The C header: compiled by gcc, it votes as the forest does, on rows that sit on the thresholds."""

from __future__ import annotations

import math
import random
import re
import shutil
import struct
import subprocess
from array import array
from pathlib import Path

import forests
import pytest
from runtimes import GET_RUNTIMES, find_compiler, needs, run

from edgeforest import train
from edgeforest.export.c_header import to_c
from edgeforest.export.layout import lay_out
from edgeforest.forest import EQUAL, HUGE, LEAF, MISSING_LEFT, Forest

GCC = shutil.which("gcc")
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
NAN = float("nan")

needs_gcc = needs(GCC is not None, "there is no gcc here: apt install gcc")


# ---- Forests and rows of all kinds


def made(seed: int, *, classes: int = 3, trees: int = 5, splits: int = 15, **options) -> Forest:
    """A forest drawn at random, that no training would come to; `classes=0` is a regression.

    Options: features=, categories= (how many of the features), missing=True (to either side),
    whole="B" or "h" (thresholds of whole numbers of that type), scale=, deep=True (one long chain), pure=True
    (a leaf votes for one class), sums=False (leaves whose votes add up to different sums).
    """
    rng = random.Random(seed)
    features, kinds = options.get("features", 6), options.get("categories", 0)
    forest = Forest()
    forest.kind, forest.splitter, forest.seed = "random-forest", "exact", seed
    forest.criterion = "gini" if classes else "mse"
    forest.classes = [f"class {k}" for k in range(classes)] if classes else None
    forest.names = [f"x{f}" for f in range(features)]
    forest.categories = [["a", "b", "c", "d"] if f < kinds else None for f in range(features)]
    forest.importances = [0] * features
    forest.scale = options.get("scale", 65535)
    if not classes:
        forest.low, forest.span = array("f", [rng.gauss(0, 50), rng.random() * 1000])
    forest.right = array("I")
    for _ in range(trees):
        _grow(forest, rng, rng.randint(0, 2 * splits), features, kinds, options)
    forest.prepare()
    return forest


def _grow(forest, rng, splits, features, kinds, options):
    """Append a tree, in preorder; what waits on the stack: splits left, and who points there."""
    width = len(forest.classes) if forest.classes else 1
    forest.roots.append(len(forest.feature))
    stack = [(splits, None)]
    while stack:
        n, parent = stack.pop()
        at = len(forest.feature)
        if parent is not None:
            forest.right[parent] = at
        if n:
            f = rng.randrange(features)
            flags = EQUAL if f < kinds else 0
            if options.get("missing") and rng.random() < 0.5:
                flags |= MISSING_LEFT
            forest.feature.append(f | flags)
            forest.threshold.append(_threshold(rng, f < kinds, options))
            forest.right.append(0)
            left = rng.choice([0, n - 1]) if options.get("deep") else rng.randrange(n)
            stack.append((n - 1 - left, at))
            stack.append((left, None))
        else:
            forest.feature.append(LEAF)
            forest.threshold.append(0.0)
            forest.right.append(len(forest.votes) // width)
            forest.votes.extend(array("H", _votes(rng, width, forest.scale, options)))


def _threshold(rng, category, options):
    if category:
        return rng.randint(1, 4)
    if options.get("whole"):
        low, high = (0, 254) if options["whole"] == "B" else rng.choice([(0, 254), (-9000, 32766)])
        return rng.randint(low, high) + rng.choice([0, 0.5])
    return rng.choice([rng.gauss(0, 1), rng.gauss(0, 1e30), rng.randint(-9, 9), 1e-42, HUGE, 0.0])


def _votes(rng, width, scale, options):
    if width == 1:
        return [rng.randint(0, scale)]
    if options.get("pure"):
        votes = [0] * width
        votes[rng.randrange(width)] = scale
        return votes
    if not options.get("sums", True):
        return [rng.randint(0, scale) for _ in range(width)]
    some = rng.sample(range(width), min(width, rng.randint(1, 4)))
    votes, rest = [0] * width, scale
    for k in some[1:]:
        votes[k] = rng.randint(0, rest)
        rest -= votes[k]
    votes[some[0]] += rest
    return votes


def float32(x: float) -> float:
    return struct.unpack("<f", struct.pack("<f", x))[0]


def beside(t: float, way: int) -> float:
    """The next float32 above (way = 1) or below a number."""
    (bits,) = struct.unpack("<i", struct.pack("<f", t))
    key = bits if bits >= 0 else -(bits & 0x7FFFFFFF)
    key = max(-0x7F800000, min(0x7F800000, key + way))
    bits = key if key >= 0 else -key | -0x80000000
    return struct.unpack("<f", struct.pack("<i", bits))[0]


def hard_rows(forest: Forest, count: int, seed: int = 0) -> list[array]:
    """Rows of float32 that sit on the thresholds, and one float beside."""
    rng = random.Random(seed)
    cuts: dict[int, list[float]] = {f: [0.0] for f in range(forest.n_features)}
    for word, t in zip(forest.feature, forest.threshold, strict=True):
        if word != LEAF:
            cuts[word & 0x3FFF].append(t)
    rows = []
    for _ in range(count):
        row = array("f")
        for f, some in cuts.items():
            if forest.categories[f] is not None:
                x = rng.choice([0.0, -0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.5, NAN])
            else:
                t = rng.choice(some)
                x = rng.choice([t, t, beside(t, 1), beside(t, -1), rng.gauss(0, 1), -0.0, NAN])
            row.append(x)
        rows.append(row)
    return rows


def whole_rows(forest: Forest, count: int, kind: str, seed: int = 0) -> list[array]:
    """Rows of whole numbers at the thresholds and beside, of the type code B or h."""
    low, high = (0, 255) if kind == "B" else (-32768, 32767)
    rows = []
    for row in hard_rows(forest, count, seed):
        values = [0 if math.isnan(x) else max(low, min(high, math.floor(x))) for x in row]
        rows.append(array(kind, values))
    return rows


# ---- Compile and ask

READ = """
static void run_@(const char *path)
{
    TYPE row[@@_FEATURES ? @@_FEATURES : 1];
    @_sum out[@@_VOTES];
    FILE *file = fopen(path, "rb");
    int k;
    if (!file) exit(2);
    while (fread(row, sizeof row, 1, file) == 1) {
        RESULT
        @_votes(row, out);
        for (k = 0; k < @@_VOTES; k++) printf(" %lu", (unsigned long)out[k]);
        printf("\\n");
    }
    fclose(file);
    LABELS
}
"""
PLACE = 'printf("%d", @_predict(row));'
VALUE = 'float v = @_predict(row); uint32_t b; memcpy(&b, &v, 4); printf("%lu", (unsigned long)b);'
LABELS = 'for (k = 0; k < @@_VOTES; k++) printf("%s\\n", @_label(k));'
TYPES = {"f": ("float", "float32"), "h": ("int16_t", "int16"), "B": ("uint8_t", "uint8")}


def answers(folder: Path, cases: list, prefer: str, flags: list[str]) -> list[list[str]]:
    """What C answers for each case (forest, rows): for each row the prediction and votes; labels."""
    source = ["#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>"]
    calls = []
    for i, (forest, rows) in enumerate(cases):
        kind, name = TYPES[rows[0].typecode]
        header = to_c(forest, f"m{i}", rows=name, prefer=prefer)
        (folder / f"m{i}.h").write_text(header, encoding="utf-8")
        (folder / f"m{i}.rows").write_bytes(b"".join(row.tobytes() for row in rows))
        result, labels = (VALUE, "") if forest.regression else (PLACE, LABELS)
        if isinstance((forest.classes or [""])[0], int):
            labels = labels.replace("%s", "%ld").replace("@_label", "(long)@_label")
        read = READ.replace("TYPE", kind).replace("RESULT", result).replace("LABELS", labels)
        source += [f'#include "m{i}.h"', read.replace("@@", f"M{i}").replace("@", f"m{i}")]
        calls.append(f'    run_m{i}("m{i}.rows"); puts("end");')
    source.append("\n".join(["int main(void)", "{", *calls, "    return 0;", "}"]))
    (folder / "main.c").write_text("\n".join(source), encoding="utf-8")
    compile_c(folder, *STRICT, *flags, "main.c", "-o", "main")
    done = run(["./main"], folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return [part.splitlines() for part in done.stdout.split("end\n")[:-1]]


def compile_c(folder: Path, *arguments: str, compiler: str = "gcc") -> None:
    done = run([compiler, *arguments], folder)
    assert done.returncode == 0, done.stderr[-3000:]


def expected(forest: Forest, rows: list[array]) -> list[str]:
    """What the forest itself answers, in the same form."""
    lines = []
    for row in rows:
        out = [0] * forest.n_votes
        said = Forest.predict_into(forest, row, out)
        if forest.regression:
            (said,) = struct.unpack("<I", struct.pack("<f", forest.value(out[0])))
        lines.append(" ".join(map(str, [said, *out])))
    return lines


def check(folder: Path, cases: list, prefer: str, flags: list[str]) -> None:
    found = answers(folder, cases, prefer, flags)
    assert len(found) == len(cases)
    for i, (forest, rows) in enumerate(cases):
        labels = [str(int(c) if isinstance(c, bool) else c) for c in forest.classes or []]
        assert found[i] == expected(forest, rows) + labels, (i, prefer)


def all_kinds() -> list[Forest]:
    """Forests of every kind for which a header is written differently."""
    forests = [made(k, classes=k, missing=k % 2, categories=k % 3) for k in (2, 3, 9, 17, 30)]
    for seed in range(1):
        forests += [
            made(seed, classes=0, missing=True, categories=2, scale=3000),
            made(seed, classes=2, scale=255),
            made(seed, classes=10, scale=15, trees=12, missing=True),
            made(seed, classes=4, pure=True, categories=1),
            made(seed, classes=5, sums=False, missing=True),
            made(seed, classes=3, features=200, missing=True),
            made(seed, classes=3, features=300, missing=True, categories=3),
            made(seed, classes=2, splits=0),
            made(seed, classes=0, splits=0, trees=1),
            made(seed, classes=3, splits=1, trees=40),
            made(seed, classes=1, splits=4),
        ]
    return forests


@needs_gcc
@pytest.mark.parametrize("prefer", ["size", "speed"])
def test_c_votes_as_the_forest_does_for_float_rows(prefer: str, tmp_path: Path) -> None:
    cases = [(forest, hard_rows(forest, 60)) for forest in all_kinds()]
    check(tmp_path, cases, prefer, ["-O0", *SANITIZE])


@needs_gcc
@pytest.mark.parametrize("prefer", ["size", "speed"])
def test_c_votes_as_the_forest_does_for_whole_rows(prefer: str, tmp_path: Path) -> None:
    cases = []
    for seed in range(3):
        for options in ({"classes": 3}, {"classes": 0}, {"classes": 12, "scale": 7}):
            for kind in "Bh":
                forest = made(seed, whole=kind, missing=True, categories=seed % 3, **options)
                cases.append((forest, whole_rows(forest, 60, kind)))
    check(tmp_path, cases, prefer, ["-O0", *SANITIZE])


@needs_gcc
@pytest.mark.parametrize("prefer", ["size", "speed"])
def test_c_votes_as_trained_forests_do(prefer: str, tmp_path: Path) -> None:
    rng = random.Random(5)
    X = [[rng.gauss(0, 1), rng.randrange(256), rng.choice("abc"), NAN] for _ in range(900)]
    for row in X[::9]:
        row[rng.randrange(2)] = NAN
    y = [(row[0] > 0) + (row[2] == "b") + (row[1] != row[1]) for row in X]
    cases = []
    for kind in ("random-forest", "extra-trees", "random-patches"):
        for criterion in ("gini", "mse"):
            options = {"criterion": criterion, "kind": kind, "categorical": [2], "n_trees": 8}
            forest = train(X, [float(v) for v in y] if criterion == "mse" else y, **options)
            rows = [forest.encode(row) for row in X[:100]]
            cases.append((forest, rows + hard_rows(forest, 100)))
    # Every leaf is as deep as every other one, nearly: such trees are filled up.
    bytes_ = [[rng.randrange(256) for _ in range(8)] for _ in range(4000)]
    labels = [sum(v > 128 for v in row) % 5 for row in bytes_]
    for trees in (2, 12):  # few enough for a loop, and enough to write it out
        forest = train(bytes_, labels, n_trees=trees, max_depth=6)
        assert lay_out(forest, "uint8").filled
        cases.append((forest, [array("B", row) for row in bytes_[:200]]))
    check(tmp_path, cases, prefer, ["-O2"])


@needs_gcc
@pytest.mark.parametrize("prefer", ["size", "speed"])
def test_c_votes_as_the_forests_of_all_exports_do(prefer: str, tmp_path: Path, figure) -> None:
    asked = [*forests.cases()[:100], *forests.cases()[200:220]]  # of each kind: gcc takes its time
    check(tmp_path, forests.encoded_cases(asked), prefer, ["-O0"])
    figure(forests.all_equal(asked))


@needs_gcc
@pytest.mark.parametrize("prefer", ["size", "speed"])
def test_deep_and_wide_forests(prefer: str, tmp_path: Path) -> None:
    deep = made(1, splits=700, trees=3, deep=True, missing=True)
    cases = [(deep, hard_rows(deep, 30))]
    if prefer == "size":
        wide = made(2, splits=12000, trees=5, classes=3)
        assert len(wide.feature) > 65535
        cases.append((wide, hard_rows(wide, 30)))
    check(tmp_path, cases, prefer, ["-O1"])


@needs_gcc
def test_a_tie_goes_to_the_first_class_and_the_header_names_what_it_was_given(
    tmp_path: Path,
) -> None:
    X = [[i % 9, "op*/en\n" if i % 3 else "shut"] for i in range(90)]
    y = ['say "hi"', "back\\slash", "??/", "ä"]
    forest = train(
        X, [y[i % 3 + (i % 9 > 4)] for i in range(90)], names=["a /* b", "win"], categorical=[1]
    )
    header = to_c(forest, rows="int16")
    assert "row[1]: win: 1 op* /en, 2 shut (0: missing or unknown)" in header
    (tmp_path / "model.h").write_text(header, encoding="utf-8")
    (tmp_path / "main.c").write_text(
        '#include "model.h"\n#include <stdio.h>\nint main(void) {\nint k;\n'
        "for (k = 0; k < MODEL_VOTES; k++) puts(model_label(k));\nreturn 0;\n}\n"
    )
    compile_c(tmp_path, *STRICT, "main.c", "-o", "main")
    said = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, check=True).stdout
    assert said.decode().splitlines() == forest.classes


def test_whole_rows_leave_no_float_in_the_header() -> None:
    forest = train([[i % 200, i % 7] for i in range(500)], [i % 200 > 90 for i in range(500)])
    for prefer in ("size", "speed"):
        for rows in ("uint8", "int16"):
            assert not re.search(r"float|double|\d\.\d", to_c(forest, rows=rows, prefer=prefer))


def test_splits_that_whole_numbers_decide_beforehand_are_left_out() -> None:
    forest = Forest()
    forest.classes, forest.names, forest.categories = ["a", "b"], ["x"], [None]
    forest.scale, forest.criterion, forest.right = 1, "gini", array("I")
    forest.roots = array("I", [0])
    forest.feature = array("H", [0, LEAF, 0, LEAF, LEAF])
    forest.threshold = array("f", [-0.5, 0, 300.0, 0, 0])
    forest.right = array("H", [2, 0, 4, 1, 0])
    forest.votes = array("H", [1, 0, 0, 1])
    forest.prepare()
    assert lay_out(forest, "uint8").trees.tests == []
    assert len(lay_out(forest, "int16").trees.tests) == 2


def test_a_category_that_none_equals_decides_a_split_and_leaves_alone_are_not_filled_up() -> None:
    X, y = [[i % 2] for i in range(40)], [i % 2 > 0 for i in range(40)]
    forest = train(X, y, categorical=[0], n_trees=10, max_depth=1)
    splits = [i for i, word in enumerate(forest.feature) if word != LEAF]
    forest.threshold = array("f", [0.0] * len(forest.feature))
    for flag, tests in ((0, 0), (MISSING_LEFT, 10)):
        for i in splits:
            forest.feature[i] = EQUAL | flag
        for rows in ("float32", "uint8"):
            packed = lay_out(forest, rows)
            assert len(packed.trees.tests) == tests * (2 if packed.filled else 1)
            assert packed.filled <= bool(tests)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"name": "2fast"}, "name must be a name in C, such as 'model', got '2fast'"),
        ({"name": "a-b"}, "name must be a name in C, such as 'model', got 'a-b'"),
        ({"rows": "int8"}, "rows must be 'float32', 'int16' or 'uint8', got 'int8'"),
        ({"prefer": "both"}, "prefer must be 'size' or 'speed', got 'both'"),
    ],
)
def test_wrong_options_are_refused(options: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        to_c(made(0), **options)


def test_what_is_not_a_forest_or_cannot_be_exact_is_refused() -> None:
    with pytest.raises(TypeError, match="model must be a Forest or a fitted estimator, got int"):
        to_c(3)
    forest = made(0, classes=0, scale=65535, trees=700, splits=3)
    with pytest.raises(ValueError, match="float32 cannot sum exactly; train fewer trees"):
        to_c(forest)


# ---- For boards

BOARDS = {
    "Cortex-M0": ["arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb"],
    "Cortex-M4": ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb"],
    "ATmega328P": ["avr-gcc", "-mmcu=atmega328p"],
    "C++": ["g++", "-x", "c++"],
}


@pytest.mark.parametrize(
    "board",
    [
        pytest.param(board, marks=needs(find_compiler(name) is not None, f"no {name}: {how}"))
        for board, (name, *_) in BOARDS.items()
        for how in ["apt install g++" if name == "g++" else GET_RUNTIMES]
    ],
)
def test_the_header_compiles_for_boards(board: str, tmp_path: Path, figure) -> None:
    called, *flags = BOARDS[board]
    compiler = find_compiler(called)
    size = find_compiler(called.replace("gcc", "size").replace("g++", "size"))
    assert compiler, called
    assert size, called
    sizes = []
    forests = {
        "whole": (made(3, whole="h", classes=4, scale=255), "int16"),
        "missing": (made(4, missing=True, categories=1), "float32"),
        "regression": (made(5, classes=0, missing=True), "float32"),
    }
    flags = [*flags, *(["-std=c++11"] if board == "C++" else ["-std=c99"]), *STRICT[1:], "-Os"]
    for name, (forest, rows) in forests.items():
        for prefer in ("size", "speed"):
            (tmp_path / "model.h").write_text(to_c(forest, rows=rows, prefer=prefer))
            kind = {"int16": "int16_t", "float32": "float"}[rows]
            said = "float" if forest.regression else "int"
            (tmp_path / "main.c").write_text(
                f'#include "model.h"\n{said} ask(const {kind} *row);\n'
                f"{said} ask(const {kind} *row) {{ return model_predict(row); }}\n"
            )
            compile_c(tmp_path, *flags, "-c", "main.c", "-o", "main.o", compiler=compiler)
            parts = subprocess.check_output([size, "-A", "main.o"], cwd=tmp_path, text=True)
            held = {
                part: sum(int(n) for n in re.findall(rf"^\.{part}\S*\s+(\d+)", parts, re.MULTILINE))
                for part in ("text", "rodata", "progmem", "data", "bss")
            }
            assert held["data"] + held["bss"] == 0  # nothing in RAM
            if board == "ATmega328P":  # where .rodata is copied into RAM too
                assert held["rodata"] == 0
            sizes.append(f"{name} {prefer} {sum(held.values())}")
    figure(f"bytes of flash: {', '.join(sizes)}")
