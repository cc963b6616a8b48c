"""Our C beside emlearn's and m2cgen's, for the same forest of scikit-learn: flash and instructions.

    pip install emlearn m2cgen scikit-learn
    python -m benchmarks.export_c [--data FOLDER] [--rows 300] [--only mnist|log]

Bytes are .text + .rodata + .data of one file compiled with -Os, by gcc and by arm-none-eabi-gcc and
avr-gcc where they are ("no": it does not compile, or not in a minute). Instructions per row are
counted by valgrind's callgrind, for -O2 and -Os. It takes about ten minutes.

Two forests of 20 trees: MNIST, depth 8, pixels as bytes; and the sample log of `edgeforest demo`,
depth 8, without the rows that have gaps (the others know no missing values), as float32 and as
whole numbers (tenths of a degree, ...).

emlearn cuts thresholds off (0.5 becomes 0) and asks x < 0: on whole numbers its int16 code goes
wrong (MNIST: 52 % instead of 90 %). Here it gets rows and thresholds that are doubled, with which
it is right. "votes" are shares of a leaf: in full (65,535 levels), 8 bits, or 1 (the winner only,
emlearn's default).
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks import data
from edgeforest.cli import demo
from edgeforest.export.c_header import to_c
from edgeforest.export.shrinking import shrink
from edgeforest.export.sklearn_import import from_sklearn

BOARDS = {
    "x86-64": ["gcc"],
    "M0": ["arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb"],
    "M4F": [
        "arm-none-eabi-gcc",
        "-mcpu=cortex-m4",
        "-mthumb",
        "-mfloat-abi=hard",
        "-mfpu=fpv4-sp-d16",
    ],
    "AVR": ["avr-gcc", "-mmcu=atmega2560"],
}
MAIN = """
#include <stdint.h>
#include <stdio.h>
#include "code.h"
static TYPE rows[N * M];
static int said[N];
__attribute__((noinline)) void ask(const TYPE *row, int *out) { CALL }
__attribute__((noinline)) void run(void) { for (int i = 0; i < N; i++) ask(rows + i * M, said + i); }
int main(void)
{
    FILE *file = fopen("rows.bin", "rb");
    if (!file || fread(rows, sizeof rows, 1, file) != 1) return 1;
    run();
    for (int i = 0; i < N; i++) printf("%d\\n", said[i]);
    return 0;
}
"""
ALONE = """
#include <stdint.h>
#include "code.h"
void ask(const TYPE *row, int *out);
void ask(const TYPE *row, int *out) { CALL }
"""
OURS = "*out = model_predict(row);"
EMLEARN = "*out = model_predict(row, M);"
M2CGEN = (
    "double o[K]; int b = 0; score((double *)row, o);"
    "for (int k = 1; k < K; k++) if (o[k] > o[b]) b = k; *out = b;"
)
PATIENCE = 60  # seconds for one compilation
C_TYPES = {"u1": "uint8_t", "i2": "int16_t", "f4": "float", "f8": "double"}


@dataclass
class Code:
    """C from someone, and the rows that it wants."""

    who: str
    votes: str
    text: str
    call: str
    X: np.ndarray


def mnist(given: str | None) -> tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray, str]:
    table = data.mnist(given)
    return table.about, table.X, table.y, table.X_test, table.y_test, "u1"


def sample_log(whole: bool) -> tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray, str]:
    """The demo's log: five sensors and the window, what the people do; every fifth row for the test."""
    lines = [line for line in demo.sample_log(20_000) if "" not in line]
    windows = sorted({line[6] for line in lines})
    X = np.array([[*map(float, line[1:6]), windows.index(line[6])] for line in lines])
    y = np.unique([line[7] for line in lines], return_inverse=True)[1]
    X = np.round(X * [10, 10, 1, 1, 1000, 1]).astype(np.int16) if whole else X.astype(np.float32)
    test = np.arange(len(y)) % 5 == 0
    about = "sample log, " + ("whole numbers" if whole else "float32")
    return about, X[~test], y[~test], X[test], y[test], "i2" if whole else "f4"


def grow(X: np.ndarray, y: np.ndarray) -> tuple[RandomForestClassifier, RandomForestClassifier]:
    """scikit-learn's forest, and the same for rows that are doubled."""
    options = {"n_estimators": 20, "max_depth": 8, "random_state": 0, "n_jobs": -1}
    model = RandomForestClassifier(**options).fit(X, y)
    doubled = RandomForestClassifier(**options).fit(2 * X.astype(np.float32), y)
    for one, two in zip(model.estimators_, doubled.estimators_, strict=True):
        assert (one.tree_.feature == two.tree_.feature).all()  # the same trees
    return model, doubled


def winners_only(forest):
    """The same trees whose leaves vote for their winner alone."""
    hard = copy(forest)
    votes = np.array(forest.votes).reshape(-1, forest.n_votes)
    one = np.zeros_like(votes)
    one[np.arange(len(votes)), votes.argmax(1)] = 1
    hard.votes, hard.scale = type(forest.votes)("H", one.ravel().tolist()), 1
    hard.prepare()
    return hard


def contenders(model, doubled, X: np.ndarray, kind: str) -> list[Code]:
    """The same forest from everyone."""
    import emlearn
    import m2cgen

    full = from_sklearn(model)
    forests = {"full": full, "8 bit": shrink(full, levels=255)[0], "1": winners_only(full)}
    rows = {"u1": "uint8", "i2": "int16", "f4": "float32"}[kind]
    codes = []
    for votes, forest in forests.items():
        for prefer in ("size", "speed"):
            text = to_c(forest, rows=rows, prefer=prefer)
            codes.append(Code(f"ours, {prefer}", votes, text, OURS, X.astype(kind)))
    whole = kind != "f4"
    for votes, bits in (("8 bit", 8), ("1", 0)):
        for method in ("inline", "loadable") if whole else ("inline",):
            if method == "loadable" and X.shape[1] > 127:
                continue  # it does not take more features
            one = emlearn.convert(
                doubled if whole else model,
                method=method,
                dtype="int16_t" if whole else "float",
                leaf_bits=bits,
            )
            given = (2 * X.astype(np.int32)).astype(np.int16) if whole else X.astype("f4")
            codes.append(Code(f"emlearn, {method}", votes, one.save(name="model"), EMLEARN, given))
    sys.setrecursionlimit(100_000)
    codes.append(Code("m2cgen", "full", m2cgen.export_to_c(model), M2CGEN, X.astype("f8")))
    return codes


@contextmanager
def workshop(code: Code) -> Iterator[tuple[Path, list[str]]]:
    """A folder with someone's C in it, and what the compiler must be told."""
    include = []
    if code.who.startswith("emlearn"):
        import emlearn

        include = [f"-I{Path(emlearn.__file__).parent}"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "code.h").write_text(code.text, encoding="utf-8")
        yield folder, include


def fill(template: str, code: Code, classes: int) -> str:
    """The program around someone's C."""
    kind = C_TYPES[code.X.dtype.str[1:]]
    sizes = {"K": classes, "M": code.X.shape[1], "N": len(code.X)}
    text = template.replace("CALL", code.call).replace("TYPE", kind)
    return "".join(f"#define {k} {v}\n" for k, v in sizes.items()) + text


def compiles(command: list[str], folder: Path) -> bool:
    """Whether a compiler succeeds in time; its helpers end with it."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=folder, start_new_session=True, **quiet) as process:
        try:
            return process.wait(PATIENCE) == 0
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return False
            raise


def present() -> list[str]:
    """The boards that there is a compiler for."""
    return [board for board, command in BOARDS.items() if shutil.which(command[0])]


def flash(
    code: Code, classes: int, folder: Path, include: list[str], boards: list[str]
) -> dict[str, str]:
    """Bytes on each board."""
    found = {}
    (folder / "alone.c").write_text(fill(ALONE, code, classes))
    for board in boards:
        compiler, *flags = BOARDS[board]
        command = [compiler, *flags, "-Os", *include, "-c", "alone.c", "-o", "alone.o"]
        if not compiles(command, folder):
            found[board] = "no"
            continue
        size = compiler.removesuffix("gcc") + "size"
        text = subprocess.check_output([size, "-A", "alone.o"], cwd=folder, text=True)
        parts = re.findall(r"^\.(?:text|rodata|data|progmem)\S*\s+(\d+)", text, re.MULTILINE)
        found[board] = f"{sum(map(int, parts)):,}"
    return found


def run(
    code: Code, classes: int, folder: Path, include: list[str], level: str, *under: str
) -> tuple[np.ndarray, str]:
    """The classes that it says of each row, and what the tool says that it runs under."""
    (folder / "main.c").write_text(fill(MAIN, code, classes))
    (folder / "rows.bin").write_bytes(np.ascontiguousarray(code.X).tobytes())
    compiled = ["gcc", level, "-g", *include, "main.c", "-lm", "-o", "main"]
    subprocess.run(compiled, cwd=folder, check=True, capture_output=True)
    done = subprocess.run(
        [*under, "./main"], cwd=folder, check=True, capture_output=True, text=True
    )
    return np.array(done.stdout.split(), int), done.stderr


def instructions(
    code: Code, classes: int, folder: Path, include: list[str], level: str
) -> tuple[float, np.ndarray]:
    """Instructions per row, and the classes that it said."""
    counted = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=counted",
        "--toggle-collect=ask",
    ]
    said, told = run(code, classes, folder, include, level, *counted)
    return int(re.search(r"Collected : (\d+)", told)[1]) / len(code.X), said


def race(table, rows: int) -> None:
    about, X, y, X_test, y_test, kind = table
    X_test, y_test = X_test[:rows], y_test[:rows]
    model, doubled = grow(X, y)
    truth = model.predict(X_test)
    splits = sum(int((e.tree_.children_left >= 0).sum()) for e in model.estimators_)
    print(f"\n{about}: {splits:,} splits, {len(X_test)} rows\n")
    boards = present()
    heads = [
        "",
        "votes",
        *(f"bytes {b}" for b in boards),
        "instr. -O2",
        "-Os",
        "accuracy",
        "unlike sklearn",
    ]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    classes = len(model.classes_)
    results = []
    for code in contenders(model, doubled, X_test, kind):
        with workshop(code) as (folder, include):
            sizes = flash(code, classes, folder, include, boards)
            counts = [instructions(code, classes, folder, include, o) for o in ("-O2", "-Os")]
        said = counts[0][1]
        assert (said == counts[1][1]).all()
        cells = [code.who, code.votes, *(sizes[b] for b in boards)]
        cells += [f"{count:,.0f}" for count, _ in counts]
        cells += [f"{np.mean(said == y_test):.3f}", str(int(np.sum(said != truth)))]
        print(f"| {' | '.join(cells)} |", flush=True)
        results.append((code, sizes, [count for count, _ in counts]))
    judge(results, boards)


def judge(results, boards: list[str]) -> None:
    """Say where we win and where we lose, against each of the others with votes of as many bits."""
    print()
    for theirs, their_sizes, their_counts in results:
        if theirs.who.startswith("ours"):
            continue
        for ours, our_sizes, our_counts in results:
            if not ours.who.startswith("ours") or ours.votes != theirs.votes:
                continue
            lost = [
                f"bytes {b}"
                for b in boards
                if "no" not in (our_sizes[b], their_sizes[b])
                and int(our_sizes[b].replace(",", "")) >= int(their_sizes[b].replace(",", ""))
            ]
            levels = zip(("-O2", "-Os"), our_counts, their_counts, strict=True)
            lost += [f"instructions {level}" for level, mine, their in levels if mine >= their]
            verdict = f"loses at {', '.join(lost)}" if lost else "wins everywhere"
            print(f"{ours.who}, against {theirs.who} ({theirs.votes} votes): {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data")
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--only", choices=["mnist", "log"])
    args = parser.parse_args()
    for tool in ("gcc", "valgrind"):
        if not shutil.which(tool):
            sys.exit(f"there is no {tool} here: apt install {tool}")
    if args.only != "mnist":
        race(sample_log(whole=False), args.rows)
        race(sample_log(whole=True), args.rows)
    if args.only != "log":
        race(mnist(args.data), args.rows)


if __name__ == "__main__":
    main()
