"""Rows of whole numbers: exact where they are accepted, and refused where they would be wrong."""

from __future__ import annotations

import json
import math
import random
import re
import subprocess
from array import array
from pathlib import Path

import pytest
from runtimes import needs_micropython, output, run_micropython
from test_export_c import STRICT, compile_c, expected, hard_rows, made, needs_gcc

from edgeforest import Forest, cli, train
from edgeforest.export import rounded_rows, to_c, to_micropython
from edgeforest.export.scaling import RANGES, float32, scaled, scales_of, whole_cut
from edgeforest.forest import HUGE
from edgeforest.online import OnlineForest
from edgeforest.sources.training import train_source

CODES = {"int16": "h", "uint8": "B"}
NAN = math.nan


def sensors(n: int, steps: tuple[float, ...], seed: int = 0) -> tuple[list, list]:
    """Rows whose features are whole numbers times a step, and a label that needs all of them."""
    rng = random.Random(seed)
    X = [[float32(rng.randrange(2000) * step) for step in steps] for _ in range(n)]
    y = [sum(x > 1000 * s for x, s in zip(row, steps, strict=True)) % 3 for row in X]
    return X, y


# ---- What is accepted as it is


@pytest.mark.parametrize("kind", ["random-forest", "extra-trees", "random-patches"])
@pytest.mark.parametrize("values", [9, 255, 256, 1024, 32000])
def test_forests_of_whole_numbers_need_no_scale(kind: str, values: int) -> None:
    rng = random.Random(values)
    X = [[rng.randrange(values), -rng.randrange(values)] for _ in range(700)]
    for y, criterion in (([(a + 3 * b) % 7 for a, b in X], "gini"), ([a - b for a, b in X], "mse")):
        forest = train(X, y, kind=kind, criterion=criterion, n_trees=3)
        assert scales_of(forest, "int16", None) == [1, 1]
        for X2 in (X[:60], [[a + 0.0, b + 0.0] for a, b in X[:60]]):
            assert rounded_rows(forest, X2) == X2
        assert to_c(forest, rows="int16")
        assert to_micropython(forest, rows="int16")


def test_forests_from_pools_and_from_streams_of_whole_numbers_need_no_scale() -> None:
    rng = random.Random(1)
    rows = [{"a": rng.randrange(5000), "y": rng.random() < 0.5} for _ in range(6000)]
    columns = {name: [row[name] for row in rows] for name in ("a", "y")}
    pools = train_source(columns, "y", n_trees=6, max_samples=400, budget=None)
    online = OnlineForest(1, classes=[0, 1], seed=1)
    for row in rows[:2000]:
        online.update([row["a"]], int(row["a"] > 2500))
    for forest in (pools, online.forest()):
        assert scales_of(forest, "int16", None) == [1]


def test_a_split_that_asks_only_whether_a_value_is_missing_is_not_out_of_range() -> None:
    forest = made(1, whole="B", trees=3)
    forest.threshold = array("f", [HUGE] * len(forest.threshold))
    assert to_c(forest, rows="uint8") == to_c(forest, rows="uint8", scale=None)


# ---- What is refused


REFUSED = [
    ([21.1, 21.2, 21.35], "int16", None, "was trained on fractions (it has a threshold of 21."),
    ([20.0, 20.25, 20.5, 20.75], "int16", None, "was trained on fractions"),
    ([100, 40000, 50000], "int16", None, "but int16 goes from -32768 to 32767; give a smaller"),
    ([-7, -4, 3], "uint8", None, "but uint8 goes from 0 to 255; take int16, or take float32"),
    ([100, 400, 900], "uint8", 1, "has values on both sides of 650, but uint8 goes from 0 to 255"),
    ([100, 400, 9000], "int16", 10, "has values on both sides of 4700 times 10, but int16"),
]


@pytest.mark.parametrize(("values", "rows", "scale", "sentence"), REFUSED)
def test_what_rows_of_whole_numbers_cannot_hold_is_refused(values, rows, scale, sentence) -> None:
    X = [[values[i % len(values)], i % 2] for i in range(200)]
    forest = train(X, [i % len(values) for i in range(200)], names=["temp", "on"], n_trees=9)
    for export in (to_c, to_micropython):
        with pytest.raises(ValueError, match=re.escape(sentence)) as error:
            export(forest, rows=rows, scale=scale)
        assert str(error.value).startswith("feature 'temp' ")
        assert export(forest)


def test_wrong_scales_are_refused() -> None:
    forest = made(0)
    for scale, kind, sentence in (
        ("ten", TypeError, "scale must be a number such as 10, or 'auto', got 'ten'"),
        (True, TypeError, "scale must be a number such as 10, or 'auto', got True"),
        (0, ValueError, "scale must be above zero and below 1e30, got 0"),
        (-1, ValueError, "scale must be above zero and below 1e30, got -1"),
        (NAN, ValueError, "scale must be above zero and below 1e30, got nan"),
    ):
        with pytest.raises(kind, match=f"^{re.escape(sentence)}$"):
            to_c(forest, rows="int16", scale=scale)
    with pytest.raises(ValueError, match="leave it out for float32"):
        to_micropython(forest, scale=10)


# ---- Scaled rows


@pytest.mark.parametrize("scale", [1, 3, 10, 1000, 0.1, 7.7, 1e6])
def test_the_cut_of_whole_numbers_is_exact_beside_every_threshold(scale: float) -> None:
    rng = random.Random(scale)
    for _ in range(300):
        q = rng.randrange(-32768, 32768)
        for t in (float32(q / scale), float32((q + 0.5) / scale), float32(rng.gauss(0, 1))):
            cut = whole_cut(t, scale)
            for whole in range(cut - 2, cut + 3):
                assert (float32(whole / scale) <= t) == (whole <= cut)


@pytest.mark.parametrize("rows", ["int16", "uint8"])
def test_scaling_gives_back_every_whole_number(rows: str) -> None:
    low, high = RANGES[rows]
    for scale in (1.0, 10.0, 1000.0, 1e-3, 7.7):
        for q in range(low, high + 1, 1 if rows == "uint8" else 37):
            assert scaled(float32(q / scale), scale, rows) == q
    assert scaled(HUGE, 1e30, rows) == scaled(NAN, 1, rows) == high
    assert scaled(-HUGE, 1e30, rows) == low


MAIN = """
#include "model.h"
#include <stdio.h>

int main(void)
{
    float x[MODEL_FEATURES];
    TYPE row[MODEL_FEATURES];
    model_sum out[MODEL_VOTES];
    int f, k;
    while (fread(x, sizeof x, 1, stdin) == 1) {
        for (f = 0; f < MODEL_FEATURES; f++) row[f] = model_scaled(f, x[f]);
        printf("%d", model_predict(row));
        model_votes(row, out);
        for (k = 0; k < MODEL_VOTES; k++) printf(" %lu", (unsigned long)out[k]);
        for (f = 0; f < MODEL_FEATURES; f++) printf(" %d", row[f]);
        puts("");
    }
    return 0;
}
"""


def asked_in_c(folder: Path, forest: Forest, X: list, rows: str, prefer: str, scale) -> list[str]:
    """A line for each row that C scales and predicts: place, votes, what the row holds."""
    (folder / "model.h").write_text(to_c(forest, rows=rows, scale=scale, prefer=prefer))
    kind = {"int16": "int16_t", "uint8": "uint8_t"}[rows]
    (folder / "main.c").write_text(MAIN.replace("TYPE", kind))
    compile_c(folder, *STRICT, "-O1", "-fsanitize=undefined", "main.c", "-o", "main")
    given = b"".join(array("f", row).tobytes() for row in X)
    done = subprocess.run(["./main"], input=given, cwd=folder, capture_output=True, check=True)
    return done.stdout.decode().splitlines()


@needs_gcc
@pytest.mark.parametrize("prefer", ["size", "speed"])
@pytest.mark.parametrize(
    ("rows", "steps", "scale"),
    [
        ("int16", (0.1, 0.1, 0.1), 10),
        ("int16", (0.01, 1, 1e-5), "auto"),
        ("uint8", (0.1, 1), "auto"),
    ],
)
def test_scaled_rows_in_c_and_python_answer_as_the_forest(
    rows: str, steps: tuple, scale, prefer: str, tmp_path: Path
) -> None:
    X, y = sensors(1200, steps)
    forest = train(X, y, n_trees=6, max_depth=9)
    asked = [list(row) for row in X[:150]] + [list(row) for row in hard_rows(forest, 150)]
    asked += [[1e30] * len(steps), [-1e30] * len(steps), [0.0] * len(steps)]
    scales = scales_of(forest, rows, scale)
    whole = [[scaled(x, s, rows) for x, s in zip(row, scales, strict=True)] for row in asked]
    seen = rounded_rows(forest, asked, rows=rows, scale=scale)
    if rows == "int16":  # fine enough for these sensors: no answer changes
        assert seen[:150] == X[:150]
    lines = expected(forest, [array("f", row) for row in seen])
    said = [f"{line} {' '.join(map(str, row))}" for line, row in zip(lines, whole, strict=True)]
    assert asked_in_c(tmp_path, forest, asked, rows, prefer, scale) == said
    module: dict = {}
    exec(to_micropython(forest, rows=rows, scale=scale), module)
    found = []
    for row in asked:
        out = [0] * forest.n_votes
        given = array(CODES[rows], [module["scaled"](f, x) for f, x in enumerate(row)])
        found.append(" ".join(map(str, [module["predict_into"](given, out), *out, *given])))
    assert found == said


def test_the_header_says_the_scales_and_keeps_codes_of_categories() -> None:
    X = [[i % 50 / 10, "ab"[i % 2], i % 9] for i in range(300)]
    y = [i % 50 > 20 or i % 9 > 5 for i in range(300)]
    forest = train(X, y, names=["temp", "kind", "day"], categorical=[1], n_trees=4)
    header = to_c(forest, rows="int16", scale="auto")
    assert "row[0]: temp, times 1000" in header
    assert "row[1]: kind: 1 a, 2 b (0: missing or unknown)" in header
    assert "Numbers cannot be missing: int16 has no NaN." in header
    assert scales_of(forest, "int16", "auto")[1] == 1
    assert rounded_rows(forest, [[1.234, "a", None]], scale=1) == [[1.0, "a", 32767.0]]
    assert rounded_rows(forest, [[1.25, "a", 3]], rows="float32") == [[1.25, "a", 3]]


def test_thresholds_of_int16_rows_stay_signed_where_int_has_16_bits() -> None:
    X, y = sensors(400, (1, 1))
    header = to_c(train(X, y, n_trees=3), rows="int16")
    assert "const uint16_t model_cuts" in header
    assert "x > (int16_t)MODEL_16(" in header


# ---- On the command line


def test_export_says_how_many_predictions_change(tmp_path, capsys) -> None:
    X, y = sensors(600, (0.001, 0.01))
    forest = train(X, y, names=["temp", "lux"], n_trees=6)
    forest.save(tmp_path / "model.json")
    rows = [",".join(map(repr, row)) for row in X]
    (tmp_path / "log.csv").write_text("\n".join(["temp,lux", *rows]) + "\n")
    said = {}
    for scale in ("1", "1000", "auto"):
        options = ["--rows", "int16", "--scale", scale, "--check", str(tmp_path / "log.csv")]
        out = tmp_path / "model.py"
        assert cli.main(["export", str(tmp_path / "model.json"), str(out), *options]) == 0
        said[scale] = capsys.readouterr().out
        module: dict = {}
        exec(out.read_text(), module)
        given = [[module["scaled"](f, x) for f, x in enumerate(row)] for row in X]
        changed = sum(
            module["predict"](row) != label
            for row, label in zip(given, forest.predict(X), strict=True)
        )
        assert f"{changed} of 600 predictions for {tmp_path / 'log.csv'} change" in said[scale]
        assert (changed > 0) == (scale == "1")
    out = tmp_path / "model.h"
    assert cli.main(["export", str(tmp_path / "model.json"), str(out), "--rows", "int16"]) == 2
    assert "feature 'temp' was trained on fractions" in capsys.readouterr().err
    assert not out.exists()


# ---- Names that are no C


HOSTILE = [
    "??/", "a ??/", "????/", "??' ??( ??!", "*/ int x; /*", "/*/", "/", "*", "\\", "a\\", "a??/\\",
    "two\nlines", "cr\rlf\r\n", "\x00nul", "\x1b[31m", "ä€\U0001f600", "\u202eright to left",
    "\u2028", '"""', "'''", "#", "%s %n", "", " ", "//", "\\u0041 \\N{DIGIT ONE}", "{x}",
]  # fmt: skip


@needs_micropython
def test_modules_with_hostile_names_run_in_micropython(tmp_path: Path) -> None:
    labels = [f"{i}{name}" for i, name in enumerate(HOSTILE)]
    X = [[i % 5, labels[i % len(labels)]] for i in range(200)]
    y = [labels[i % len(labels)] for i in range(200)]
    for k, name in enumerate(HOSTILE):
        forest = train(X, y, n_trees=1, max_depth=2, names=[name, "b" + name], categorical=[1])
        (tmp_path / f"m{k}.py").write_text(to_micropython(forest), encoding="utf-8")
    code = f"""
import json
for k in range({len(HOSTILE)}):
    module = __import__("m%d" % k)
    assert module.predict([1, 2]) in module.CLASSES
print(json.dumps(module.CLASSES))
"""
    said = json.loads(output(run_micropython(code, tmp_path, "1m", [])))
    assert sorted(said) == sorted(labels)


@needs_gcc
@pytest.mark.parametrize("prefer", ["size", "speed"])
def test_hostile_names_compile_with_trigraphs_and_all_warnings(prefer: str, tmp_path: Path) -> None:
    kinds = [f"{i}{name}" for i, name in enumerate(HOSTILE)]
    ends = [f"{name}{i}" for i, name in enumerate(HOSTILE)] + HOSTILE
    X = [[i % 5, kinds[i % len(kinds)], ends[i % len(ends)]] for i in range(400)]
    headers = []
    for k, name in enumerate(HOSTILE):
        forest = train(X, [kinds[i % len(kinds)] for i in range(400)], n_trees=1, max_depth=2,
                       names=[name, "b" + name, name + "b"], categorical=[1, 2])  # fmt: skip
        header = to_c(forest, f"m{k}", rows="int16", prefer=prefer)
        assert header.isascii()
        (tmp_path / f"m{k}.h").write_text(header)
        headers.append(f'#include "m{k}.h"')
        module: dict = {}
        exec(compile(to_micropython(forest).encode("utf-8", "strict"), "model.py", "exec"), module)
        assert module["CLASSES"] == tuple(sorted(kinds))
    (tmp_path / "main.c").write_text("\n".join([*headers, "int main(void) { return 0; }", ""]))
    for flags in (["-std=c99", "-trigraphs"], ["-std=gnu11", "-Wtrigraphs"], ["-x", "c++"]):
        strict = [*flags, "-Wall", "-Wextra", "-Werror", "-Wcomment", "-pedantic"]
        compile_c(tmp_path, *strict, "-c", "main.c", "-o", "main.o")
