"""Windows: the same rows in CPython, NumPy, MicroPython and C, to the bit; and no allocation."""

from __future__ import annotations

import binascii
import random
import shutil
import struct
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cortex import needs_cortex, run_cortex
from runtimes import (
    GET_RUNTIMES,
    find_compiler,
    find_micropython,
    install,
    needs,
    needs_board_heap,
    needs_micropython,
    needs_mpy_cross,
    needs_wasm,
    output,
    run,
    run_cpython,
    run_micropython,
    run_wasm,
)

import edgeforest
from edgeforest import Windows, train
from edgeforest.buffers import RingBuffer
from edgeforest.export import from_onnx, shrink, to_c, to_micropython, to_onnx
from edgeforest.host import recordings
from edgeforest.windows import FEATURES, MOST, sines, square_root

needs_gcc = needs(shutil.which("gcc") is not None, "there is no gcc here: apt install gcc")

# The arguments of Windows: sizes that are powers of two and others, few samples and many.
SETTINGS: list[tuple[Any, ...]] = [
    (3, 64, 32),
    (1, 50, 25),
    (2, 16, 16, ("mean", "deviation", "bands")),
    (4, 30, 7, ("min", "max", "range", "rms", "crossings", "change"), None, False),
    (1, 4, 1),
    (3, 100, 130, ("bands",)),
    (6, 20, 10, ("deviation", "rms", "change"), tuple("abcdef")),
    (2, 300, 150),
    (2, 40, 20, FEATURES, None, True, 8),
]
KINDS = 8
RECORDINGS = 1000
ON_CORTEX = 8  # of each setting: an emulated board is slow


def recording(number: int, n_channels: int, size: int, step: int) -> np.ndarray:
    """A recording of int16: constant, extreme, noise, sines, steps, faint, peaks or drift."""
    rng = np.random.default_rng(number)
    n = size + int(rng.integers(0, 2)) * step + int(rng.integers(0, 3))
    t, shape = np.arange(n)[:, None], (n, n_channels)
    any_level = rng.integers(-32768, 32768, (2, n_channels))
    kind = number % KINDS
    if kind == 0:
        found = np.broadcast_to(any_level[0], shape)
    elif kind == 1:
        found = rng.choice([-32768, -32767, 32767], shape)
    elif kind == 2:
        found = rng.integers(-32768, 32768, shape)
    elif kind == 3:
        found = any_level[0] / 2 + any_level[1] / 2 * np.sin(t * rng.random(n_channels) * 3)
    elif kind == 4:
        found = np.where(t < rng.integers(0, n), any_level[0], any_level[1])
    elif kind == 5:
        found = rng.integers(-3, 4, shape)
    elif kind == 6:
        found = np.where(rng.random(shape) < 0.05, any_level[0], any_level[1] // 100)
    else:
        found = any_level[0] * t // n + rng.normal(0, 50, shape)
    return np.rint(found).astype("<i2")


def numbered(setting: int) -> range:
    """The numbers of the recordings for one of the settings."""
    return range(setting, RECORDINGS, len(SETTINGS))


@pytest.fixture(scope="module")
def recorded() -> tuple[list[list[np.ndarray]], list[list[int]]]:
    """Recordings by setting, and the checksums of their rows as plain Python computes them."""
    tables, sums = [], []
    for setting, options in enumerate(SETTINGS):
        windows = Windows(*options)
        some = [recording(i, *options[:3]) for i in numbered(setting)]
        tables.append(some)
        sums.append([])
        for table in some:
            windows.clear()
            crc = 0
            for sample in table.tolist():
                if windows.push(sample):
                    crc = binascii.crc32(struct.pack(f"<{len(windows.row)}h", *windows.row), crc)
            sums[-1].append(crc)
    return tables, sums


# ---- Against other ways to compute it


def test_features_are_what_their_names_say() -> None:
    rng = np.random.default_rng(0)
    for size in (16, 50, 64, 200):
        windows = Windows(1, size)
        scale = 2.0 ** rng.integers(6, 14)
        x = np.rint(rng.normal(0, scale / 3, size).clip(-scale, scale) + scale / 4)
        assert windows.push([int(x[0])]) is False
        row = windows.rows(x[:, None])[0].tolist()
        got = dict(zip([name.split()[1] for name in windows.names], row, strict=True))
        near = pytest.approx
        assert got["mean"] == near(x.mean(), abs=0.51)
        assert got["deviation"] == near(x.std(), rel=0.002, abs=1)
        assert (got["min"], got["max"], got["range"]) == (x.min(), x.max(), np.ptp(x))
        assert got["rms"] == near(np.sqrt((x**2).mean()), rel=0.002, abs=2)
        sides = x < got["mean"]
        assert got["crossings"] == (sides[1:] != sides[:-1]).sum()
        assert got["change"] == int(np.abs(np.diff(x)).mean())
        n = windows.spectrum
        power = np.abs(np.fft.rfft(x[size - n :] - got["mean"]) / n) ** 2
        for name, value in got.items():
            if name.startswith("band"):
                low, _, high = name[4:].partition("-")
                band = power[int(low) : int(high or low) + 1]
                assert value == near(np.sqrt(2 * band.sum()), rel=0.01, abs=2 + scale / 2000)


def test_a_sine_is_in_the_band_of_its_frequency() -> None:
    windows = Windows(1, 64, 64, ["bands"])
    for cycles, band in ((1, 0), (3, 1), (5, 2), (15, 3), (20, 4), (31, 4)):
        x = np.rint(10000 * np.sin(2 * np.pi * cycles * np.arange(64) / 64)).astype(int)
        row = windows.rows(x[:, None])[0].tolist()
        assert row[band] == pytest.approx(7071, abs=8)
        assert sorted(row)[-2] < 20, (cycles, row)


def test_roots_and_sines_are_right() -> None:
    some = np.arange(1, 32768, dtype=np.int64) ** 2
    values = [0, *range(1000), *(some - 1).tolist(), *some.tolist(), (1 << 30) - 1]
    assert [square_root(v) for v in values] == np.sqrt(values).astype(int).tolist()
    for n in (4, 16, 256):
        exact = 16384 * np.sin(2 * np.pi * np.arange(3 * n // 4) / n)
        assert np.abs(np.asarray(sines(n)) - exact).max() < 2


def test_numpy_gives_the_same_rows(
    recorded: tuple[list[list[np.ndarray]], list[list[int]]],
) -> None:
    for options, tables, sums in zip(SETTINGS, *recorded, strict=True):
        windows = Windows(*options)
        assert [binascii.crc32(windows.rows(t).astype("<i2").tobytes()) for t in tables] == sums


def test_a_long_recording_is_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = Windows(2, 32, 5)
    table = np.random.default_rng(1).integers(-3000, 3000, (600, 2))
    whole = windows.rows(table)
    assert len(whole) == len(windows.ends(600)) == 114
    monkeypatch.setattr(recordings, "VALUES", 7 * 32)
    assert (windows.rows(table) == whole).all()


# ---- MicroPython

# Reads recordings of int16 from a file and prints the checksum of the rows of each. The heap is locked
# while a sample is pushed: on 32 bits, no number may reach 2^30.
BOARD = """
import micropython
import struct
full = False
from binascii import crc32
from edgeforest.windows import Windows
for k, options in enumerate({settings}):
    windows = Windows(*options)
    with open("recordings%d.bin" % k, "rb") as stream:
        while True:
            head = stream.read(4)
            if not head:
                break
            windows.clear()
            crc = 0
            for _ in range(struct.unpack("<I", head)[0]):
                sample = struct.unpack("<%dh" % options[0], stream.read(2 * options[0]))
                micropython.heap_lock()
                full = windows.push(sample)
                micropython.heap_unlock()
                if full:
                    crc = crc32(struct.pack("<%dh" % len(windows.row), *windows.row), crc)
            print(crc)
"""


def write_recordings(folder: Path, tables: list[list[np.ndarray]]) -> None:
    for k, some in enumerate(tables):
        with open(folder / f"recordings{k}.bin", "wb") as stream:
            for table in some:
                stream.write(struct.pack("<I", len(table)) + table.tobytes())


def check_board(text: str, sums: list[list[int]], count: int = RECORDINGS) -> None:
    expected = [crc for some in sums for crc in some]
    assert len(expected) == count
    assert [int(line) for line in text.split()] == expected


@needs_mpy_cross
@needs_micropython
def test_micropython_gives_the_same_rows(
    tmp_path: Path, recorded: tuple[list[list[np.ndarray]], list[list[int]]]
) -> None:
    tables, sums = recorded
    folder = install(tmp_path, only=["windows"])
    write_recordings(folder, tables)
    check_board(output(run_micropython(BOARD.format(settings=SETTINGS), folder, "64k")), sums)


@needs_mpy_cross
@needs_cortex
def test_a_board_with_32_bit_floats_gives_the_same_rows(
    tmp_path: Path, recorded: tuple[list[list[np.ndarray]], list[list[int]]]
) -> None:
    tables, sums = ([some[:ON_CORTEX] for some in part] for part in recorded)
    folder = install(tmp_path, only=["windows"])
    write_recordings(folder, tables)
    count = sum(map(len, sums))
    assert count >= ON_CORTEX
    check_board(output(run_cortex(BOARD.format(settings=SETTINGS), folder, "64k")), sums, count)


@needs_wasm
def test_webassembly_gives_the_same_rows(
    tmp_path: Path, recorded: tuple[list[list[np.ndarray]], list[list[int]]]
) -> None:
    tables, sums = ([some[:20] for some in part] for part in recorded)  # it is slow to start
    folder = install(tmp_path, compiled=False, only=["windows"])
    write_recordings(folder, tables)
    check_board(output(run_wasm(BOARD.format(settings=SETTINGS), folder)), sums, 180)


ALLOCATES_NOTHING = """
import micropython
from array import array
from edgeforest.windows import Windows, square_root
every = Windows(3, 64, 32), Windows(1, 300, 10), Windows.of(Windows(2, 20, 5).names[::4])
sample = [array("h", (0, 0, 0)), [0], (0, 0)]
mine = array("i", bytes(4 * every[2].n_features))
some = (-32768, 32767, 0, -1, 30001)
def push():
    ready = 0
    for i in range(700):
        for c in range(3):
            sample[0][c] = some[(i * i + c) % 5]
        sample[1][0] = some[i // 9 % 5]
        ready += every[0].push(None if i % 50 == 49 else sample[0])
        ready += every[1].push(sample[1])
        ready += every[2].add(sample[2]) and every[2].compute(mine)
        if i == 650:
            every[0].clear()
    return ready
ready = 0
micropython.heap_lock()
ready = push()
micropython.heap_unlock()
print(ready)
micropython.heap_lock()
try:
    square_root(1 << 30)
    micropython.heap_unlock()
except MemoryError:
    micropython.heap_unlock()
    print("the lock is on")
"""


@needs_mpy_cross
@needs_board_heap
def test_push_allocates_nothing(tmp_path: Path) -> None:
    folder = install(tmp_path, only=["windows"])
    rows = 19 + 41 + 137  # the first one begins anew after 651 samples
    assert output(run_micropython(ALLOCATES_NOTHING, folder)) == f"{rows}\nthe lock is on\n"


@needs_mpy_cross
@needs_board_heap
def test_three_channels_take_less_than_8_kB_with_their_code(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    script = """
import gc
def used():
    gc.collect()
    return gc.mem_alloc()
before = used()
from edgeforest.windows import Windows
code = used()
windows = Windows(3, 64, 32)
print(code - before, used() - before)
"""
    folder = install(tmp_path, only=["windows"])
    code, everything = map(int, output(run_micropython(script, folder)).split())
    figure(f"{code:,} bytes of code, {everything:,} with 3 x 64 samples and all features")
    assert 4_000 < code < everything <= 8_192


# ---- C


def model(windows: Windows, names: list[str] | None = None) -> Any:
    """A forest with the features of windows, trained on anything."""
    names = names or windows.names
    rng = np.random.default_rng(3)
    rows = rng.integers(-1000, 1000, (60, len(names))) if windows.bits > 8 else None
    rows = rng.integers(0, 256, (60, len(names))) if rows is None else rows
    return train(rows.tolist(), [int(row[0] > 0) for row in rows], names=names, n_trees=2)


# Reads recordings as the boards do and prints the checksum of the rows of each.
MAIN = """
#include <stdio.h>
#include <string.h>
#include "model.h"
static uint32_t crc;
static void add(int byte)
{
    int k;
    crc ^= (uint32_t)byte;
    for (k = 0; k < 8; k++) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
}
int main(void)
{
    static model_windows w;
    uint32_t n;
    int16_t sample[MODEL_CHANNELS];
    int i;
    while (fread(&n, 4, 1, stdin) == 1) {
        memset(&w, 0, sizeof w);
        crc = 0xFFFFFFFFu;
        while (n--) {
            if (fread(sample, 2, MODEL_CHANNELS, stdin) != MODEL_CHANNELS) return 1;
            if (!model_push(&w, sample)) continue;
            if (model_predict(w.row) < 0) return 1;
            for (i = 0; i < MODEL_FEATURES; i++) {
                int v = (int)w.row[i];
                add(v & 255);
                add(v >> 8 & 255);
            }
        }
        printf("%lu\\n", (unsigned long)(crc ^ 0xFFFFFFFFu));
    }
    return 0;
}
"""
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def compiled(folder: Path, header: str, main: str = MAIN) -> str:
    (folder / "model.h").write_text(header, encoding="utf-8")
    (folder / "main.c").write_text(main, encoding="utf-8")
    done = run(["gcc", "-O1", *STRICT, *SANITIZE, "main.c", "-o", "main"], folder)
    assert done.returncode == 0, done.stderr
    return str(folder / "main")


def sums_of(program: str, path: Path) -> list[int]:
    return [int(line) for line in output(run(["sh", "-c", f"'{program}' < '{path}'"])).split()]


@needs_gcc
@pytest.mark.parametrize("setting", range(len(SETTINGS)))
def test_c_gives_the_same_rows(
    tmp_path: Path, setting: int, recorded: tuple[list[list[np.ndarray]], list[list[int]]]
) -> None:
    tables, sums = recorded
    write_recordings(tmp_path, tables)
    rows = "uint8" if SETTINGS[setting][-1] == 8 else ("int16", "float32")[setting % 2]
    header = to_c(model(Windows(*SETTINGS[setting])), rows=rows)  # type: ignore[arg-type]
    program = compiled(tmp_path, header)
    assert sums_of(program, tmp_path / f"recordings{setting}.bin") == sums[setting]


@needs_gcc
@pytest.mark.parametrize("bits", [8, 16])
def test_c_gives_the_rows_of_some_features_and_repeats_missing_samples(
    tmp_path: Path, bits: int
) -> None:
    names = Windows(2, 20, 5, bits=bits).names[1::4]
    windows = Windows.of(names)
    main = """
#include <stdio.h>
#include "model.h"
int main(void)
{
    static model_windows w;
    int16_t sample[MODEL_CHANNELS];
    int i, k;
    for (i = 0; i < 60; i++) {
        sample[0] = (int16_t)(i * 901 - 30000);
        sample[1] = (int16_t)(i * i);
        if (model_push(&w, i % 7 ? sample : 0))
            for (k = 0; k < MODEL_FEATURES; k++) printf("%d ", (int)w.row[k]);
    }
    return 0;
}
"""
    program = compiled(tmp_path, to_c(model(windows, names), rows="int16"), main)
    samples = [[i * 901 - 30000, i * i] if i % 7 else None for i in range(60)]
    expected = windows.rows(samples)
    assert expected.shape == (9, len(names))
    assert [int(v) for v in output(run([program])).split()] == expected.ravel().tolist()


@needs_gcc
@pytest.mark.parametrize("spare", [0, 3])
def test_c_stores_and_computes_apart_as_python_does(tmp_path: Path, spare: int) -> None:
    """`a` adds a sample, `c` computes: at once, some samples later, too late, twice."""
    steps = (
        ("a" * 20 + "c" * 2) + ("a" * 5 + "c") * 3 + "".join("a" * n + "c" for n in range(1, 14))
    )
    windows = Windows(2, 20, 5, bits=8, spare=spare)
    main = f"""
#include <stdio.h>
#define MODEL_SPARE {spare}
#include "model.h"
int main(void)
{{
    static model_windows w;
    static const char steps[] = "{steps}";
    int16_t sample[MODEL_CHANNELS];
    int i, k, done;
    for (i = 0; steps[i]; i++) {{
        sample[0] = (int16_t)(i * 901 % 30000);
        sample[1] = (int16_t)(i * i % 7000 - 3000);
        done = steps[i] == 'a' ? model_add(&w, sample) : model_compute(&w);
        printf("%d ", done);
        for (k = 0; done && steps[i] == 'c' && k < MODEL_FEATURES; k++) printf("%d ", (int)w.row[k]);
    }}
    return 0;
}}
"""
    expected: list[int] = []
    computed = []
    for i, step in enumerate(steps):
        sample = [i * 901 % 30000, i * i % 7000 - 3000]
        done = windows.add(sample) if step == "a" else windows.compute()
        expected.append(done)
        if step == "c":
            computed.append(done)
            expected += windows.row if done else []
    assert True in computed
    assert False in computed[2:]
    program = compiled(tmp_path, to_c(model(windows), rows="uint8"), main)
    assert [int(v) for v in output(run([program])).split()] == expected


BOARDS = {
    "Cortex-M0": ["arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb", *STRICT],
    "ATmega328P": ["avr-gcc", "-mmcu=atmega328p", *STRICT],
    "C++": ["g++", "-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Werror"],
}


@pytest.mark.parametrize(
    "board",
    [
        pytest.param(board, marks=needs(find_compiler(name) is not None, f"no {name}: {how}"))
        for board, (name, *_) in BOARDS.items()
        for how in ["apt install g++" if name == "g++" else GET_RUNTIMES]
    ],
)
def test_the_header_compiles_for_boards(
    board: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    called, *flags = BOARDS[board]
    compiler, size = (
        find_compiler(called),
        find_compiler(called.replace("g++", "gcc")[:-3] + "size"),
    )
    assert compiler
    (tmp_path / "main.c").write_text(
        """#include "model.h"
int push(model_windows *w, const int16_t *sample);
int push(model_windows *w, const int16_t *sample) { return model_push(w, sample); }
""",
        encoding="utf-8",
    )
    sizes = []
    for bits, rows in ((16, "int16"), (16, "float32"), (8, "uint8")):
        windows = Windows(3, 64, 32, bits=bits)
        for names in (windows.names, windows.names[::3]):
            header = to_c(model(windows, names), rows=rows)  # type: ignore[arg-type]
            (tmp_path / "model.h").write_text(header, encoding="utf-8")
            command = [compiler, *flags, "-Os", "-c", "main.c", "-o", "main.o"]
            done = run(command, tmp_path)
            assert done.returncode == 0, done.stderr
            if size:
                sizes.append(output(run([size, "main.o"], tmp_path)).split()[6])
    figure(f"bytes of code and tables: {', '.join(sizes)}")


def test_only_rows_that_can_hold_features_get_a_push() -> None:
    forest = model(Windows(1, 8, 4))
    assert "_push" in to_c(forest)
    assert "_push" in to_c(forest, rows="int16")
    assert "_push" not in to_c(forest, rows="int16", scale=1)
    assert "def windows" in to_micropython(forest, rows="int16")
    assert "def windows" not in to_micropython(forest, rows="int16", scale=1)
    assert "_push" not in to_c(train([[1], [2]] * 9, [0, 1] * 9, names=["x mean"]))


# ---- A module for MicroPython


@pytest.mark.parametrize("some", [False, True])
def test_a_module_makes_its_windows(tmp_path: Path, some: bool) -> None:
    windows = Windows(3, 16, 8, channels=["ax", "ay", "az"])
    names = windows.names[2::3] if some else windows.names
    forest = model(windows, names)
    (tmp_path / "model.py").write_text(to_micropython(forest, rows="int16"), encoding="utf-8")
    script = """
import model
windows = model.windows()
for i in range(60):
    if windows.push([i * 901 % 3001, -i * i, None]):
        print(list(windows.row), model.predict(windows.row))
"""
    text = output(run_cpython(script, tmp_path))
    samples = [[i * 901 % 3001, -i * i, None] for i in range(60)]
    rows = Windows.of(forest).rows(samples).tolist()
    assert text.splitlines() == [f"{row} {forest.predict(row)}" for row in rows]
    if find_micropython():
        assert output(run_micropython(script, tmp_path, "128k")) == text


# ---- What a model knows


@pytest.mark.parametrize("options", SETTINGS)
def test_a_model_knows_its_windows(options: tuple[Any, ...]) -> None:
    windows = Windows(*options)
    again = Windows.of(edgeforest.load(model(windows).to_json()))
    for name in (
        "n_channels",
        "size",
        "step",
        "features",
        "channels",
        "magnitude",
        "bits",
        "names",
    ):
        assert getattr(again, name) == getattr(windows, name), name
    assert again.picks is None
    assert Windows.of(model(windows), step=3).step == 3


@pytest.mark.parametrize("bits", [8, 16])
def test_a_model_of_some_features_gets_their_rows(bits: int) -> None:
    windows = Windows(3, 32, 16, bits=bits)
    table = np.random.default_rng(2).integers(-9000, 9000, (100, 3))
    places = [40, 3, 12, 30]
    some = Windows.of([windows.names[i] for i in places])
    assert some.channels == ("x", "y", "z")
    expected = windows.rows(table)[:, places]
    assert (some.rows(table) == expected).all()
    assert [list(some.row) for row in table if some.push(row)] == expected.tolist()


def test_windows_survive_whatever_is_done_with_a_forest() -> None:
    windows = Windows(2, 16, 8)
    forest = model(windows)
    rows, labels = np.zeros((4, windows.n_features)), [0, 1, 0, 1]
    others = [
        edgeforest.merge([forest, model(windows)]),
        edgeforest.prune(forest, rows, labels, max_trees=1),
        shrink(forest)[0],
        from_onnx(to_onnx(forest)),
    ]
    for other in others:
        assert Windows.of(other).names == windows.names
    with pytest.raises(ValueError, match=r"feature 0 is .* in forest 1"):
        edgeforest.merge([forest, model(Windows(2, 16, 4))])


def test_names_survive_a_csv_and_the_command_line(tmp_path: Path) -> None:
    from edgeforest.cli import main

    windows = Windows(2, 20, 10, channels=["ax", "ay"])
    rng = np.random.default_rng(4)
    lines = [",".join([*windows.names, "gesture"])]
    for kind in range(2):
        rows = windows.rows(rng.integers(-1000, 1000, (400, 2)) * (1 + 3 * kind))
        lines += [",".join(map(str, [*row, "abc"[kind]])) for row in rows.tolist()]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    out = str(tmp_path / "model.json")
    assert main(["train", str(tmp_path / "rows.csv"), "--target", "gesture", "--out", out]) == 0
    assert Windows.of(edgeforest.load(out)).channels == ("ax", "ay")
    header = str(tmp_path / "model.h")
    assert main(["export", out, header, "--rows", "int16"]) == 0
    assert "model_push(" in Path(header).read_text()


@pytest.mark.parametrize(
    "names",
    [
        ["a"],
        [],
        ["x mean 64"],
        ["x mean 64/32", "x max 32/32"],
        ["x median 64/32"],
        ["x mean 64/32/1"],
        ["x mean 64/32/16"],
        ["x mean 64/32/8/8"],
        ["x mean 999999999999/1"],
        ["x mean 64/0"],
        ["x mean -64/1"],
        ["|x y| mean 8/4", "z mean 8/4"],
        ["|| mean 8/4"],
        [" mean 8/4"],
        ["x band 8/4"],
        ["x bands 8/4"],
        ["| mean 8/4"],
        [3],
        None,
        7,
    ],
)
def test_other_names_are_refused_with_a_sentence(names: Any) -> None:
    with pytest.raises(ValueError, match="is not a feature of windows; train with names="):
        Windows.of(names)


# ---- What is pushed


def test_numbers_beyond_the_range_count_as_its_ends() -> None:
    windows = Windows(1, 4, 1, ["min", "max", "range"])
    samples = [[-32768], [10**12], [0], [-40000]]
    for sample in samples:
        ready = windows.push(sample)
    assert ready
    assert list(windows.row) == [-MOST, MOST, MOST]
    assert windows.rows(samples).tolist() == [[-MOST, MOST, MOST]]
    assert windows.rows(np.array(samples, np.float64)).tolist() == [[-MOST, MOST, MOST]]
    assert windows.rows(np.array([[200]] * 4, np.uint8)).tolist() == [[200, 200, 0]]


def test_missing_readings_repeat_the_one_before() -> None:
    windows = Windows(2, 4, 1, ["mean", "max"])
    samples = [[None, 3], None, [7, None], [1, 1], [None, None], [2, 5]]
    filled = [[0, 3], [0, 3], [7, 3], [1, 1], [1, 1], [2, 5]]
    expected = windows.rows(filled).tolist()
    assert windows.rows(samples).tolist() == expected
    as_floats = np.array([[None] * 2 if s is None else s for s in samples], float)
    assert windows.rows(as_floats).tolist() == expected
    windows.clear()
    assert [list(windows.row) for s in samples if windows.push(s)] == expected


def test_rows_go_into_the_callers_buffer_and_a_ring() -> None:
    windows = Windows(1, 4, 2, ["mean", "max"])
    ring = RingBuffer(5, windows.n_features, "h")
    mine = [0, 0]
    for x in range(8):
        if windows.push([x], mine):
            ring.push(mine, 1)
    assert [ring.row(i) for i in range(len(ring))] == [[2, 3], [4, 5], [6, 7]]
    assert list(windows.row) == [0, 0]
    for x in range(8, 10):
        if windows.push([x]):
            ring.push(windows.row, 1)
    assert ring.row(-1) == [8, 9]


def rows_of(windows: Windows, samples: list[list[int]], delay: int) -> list[list[int]]:
    """The rows of windows that are computed some samples after they were full."""
    found, waiting = [], -1
    for sample in samples:
        if windows.add(sample):
            waiting = delay
        if waiting == 0 and windows.compute():
            found.append(list(windows.row))
        waiting -= 1
    return found


@pytest.mark.parametrize(("size", "step", "spare"), [(8, 5, 4), (8, 8, 3), (4, 11, 2), (33, 7, 6)])
def test_rows_are_the_same_if_they_are_computed_later(size: int, step: int, spare: int) -> None:
    chance = random.Random(size)
    samples = [[chance.randrange(-32767, 32768) for _ in range(2)] for _ in range(200)]
    pushed = Windows(2, size, step)
    expected = [list(pushed.row) for sample in samples if pushed.push(sample)]
    for delay in range(spare + 1):
        found = rows_of(Windows(2, size, step, spare=spare), samples, delay)
        assert found == expected[: len(found)], delay
        assert len(found) >= len(expected) - 1, delay
    for delay in range(spare + 1, step):  # too late: its first samples are gone
        assert rows_of(Windows(2, size, step, spare=spare), samples, delay) == []


class Interrupted(list[int]):
    """A row that a timer interrupts while its first values are written."""

    def __init__(self, windows: Windows, samples: int) -> None:
        super().__init__([0] * windows.n_features)
        self.windows, self.samples = windows, samples

    def __setitem__(self, place: Any, value: Any) -> None:
        super().__setitem__(place, value)
        while self.samples:
            self.samples -= 1
            self.windows.add([-9] * 4)


@pytest.mark.parametrize("step", [1, 2, 3, 6, 9])
def test_a_timer_may_add_samples_while_a_row_is_computed(step: int) -> None:
    for samples in range(13):
        windows = Windows(4, 4, step, ["min", "max"], magnitude=False, spare=2)
        for x in range(1, 5):
            full = windows.add([x, 20 - x, 30 + x, 40])
        assert full
        row = Interrupted(windows, samples)
        good = windows.compute(row)
        assert good == (samples <= 2 and samples < step)
        if good:
            assert row == [1, 4, 16, 19, 31, 34, 40, 40]
        assert windows.compute() == (samples >= step and samples % step <= 2)


def test_clear_begins_anew() -> None:
    windows = Windows(1, 4, 2, ["max"])
    for x in (9, 9, 9):
        windows.push([x])
    windows.clear()
    assert [windows.push([x]) for x in (1, 2, 3, 4)] == [False, False, False, True]
    assert list(windows.row) == [4]


def test_without_numpy_rows_are_a_list(tmp_path: Path) -> None:
    script = """
import sys
sys.modules["numpy"] = None
from edgeforest.windows import Windows
print([list(row) for row in Windows(1, 4, 2, ["mean"]).rows([[i * i] for i in range(8)])])
"""
    expected = Windows(1, 4, 2, ["mean"]).rows([[i * i] for i in range(8)]).tolist()
    assert output(run_cpython(script, tmp_path)) == f"{expected}\n"


def push_four() -> None:
    """Push until a row is ready, into a buffer that is too short."""
    windows = Windows(1, 4)
    for _ in range(4):
        windows.push([1], [0])


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: Windows(0, 8), ValueError, "n_channels must be a whole number from 1 to 64, got"),
        (lambda: Windows(3, 3), ValueError, "size must be a whole number from 4 to 4096, got 3"),
        (lambda: Windows(3, 8.0), ValueError, "size must be a whole number"),  # type: ignore[arg-type]
        (lambda: Windows(3, 8, 0), ValueError, "step must be a whole number from 1 to 4096"),
        (lambda: Windows(3, 8, True), ValueError, "step must be a whole number"),
        (lambda: Windows(3, 8, features=[]), ValueError, "features must be some of mean, min"),
        (lambda: Windows(3, 8, features="mode"), ValueError, "got 'mode'"),
        (lambda: Windows(2, 8, bits=12), ValueError, "bits must be 8 or 16, got 12"),
        (lambda: Windows(2, 8, channels="aa"), ValueError, "channels must be 2 different names"),
        (lambda: Windows(2, 8, channels=["a b", "c"]), ValueError, "without spaces and bars"),
        (lambda: Windows(2, 8).push([1]), ValueError, "a sample must have 2 values, got 1"),
        (lambda: Windows(1, 8).push([1.5]), TypeError, "must be whole numbers, got 1.5"),
        (lambda: Windows(1, 8).push(["a"]), TypeError, "must be whole numbers, got 'a'"),
        (push_four, ValueError, "row must have 9 places, got 1"),
        (lambda: Windows(2, 4).rows([[1], [2]]), ValueError, "2 values each, got 2 x 1 values"),
        (lambda: Windows(1, 4).rows([[0.5]] * 4), ValueError, "whole numbers, got 0.5; multiply"),
        (lambda: Windows(1, 4).rows([["a"]] * 4), TypeError, "must be samples of 1 whole numbers"),
    ],
)
def test_mistakes_are_refused_with_a_sentence(
    call: Callable[[], Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        call()


def test_a_sample_that_is_refused_does_not_count() -> None:
    windows = Windows(1, 4, 1, ["max"])
    for x in (1, 2, 3):
        windows.push([x])
    with pytest.raises(TypeError):
        windows.push(["9"])
    assert windows.push([4])
    assert list(windows.row) == [4]


def test_short_and_empty_recordings_have_no_rows() -> None:
    for table in ([], [[1, 2]] * 3, np.empty((0, 2))):
        assert Windows(2, 4).rows(table).shape == (0, Windows(2, 4).n_features)


def test_arrays_of_numpy_can_be_pushed() -> None:
    windows = Windows(3, 8, 8)
    table = np.full((8, 3), 30000, np.int16)  # whose squares int16 cannot hold
    ready = [windows.push(sample) for sample in table]
    assert ready[-1]
    assert windows.row == array("h", windows.rows(table)[0].tolist())
    assert len(FEATURES) == 9
