"""Sensor buffers: against plain lists, in threads, and in real MicroPython with a locked heap."""

from __future__ import annotations

import ast
import sys
import threading
from array import array
from collections import Counter, deque
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtimes import (
    ROOT,
    install,
    needs_micropython,
    needs_mpy_cross,
    output,
    run_cpython,
    run_micropython,
)

import edgeforest
from edgeforest.budget import Rng
from edgeforest.buffers import CODES, MOST, Reservoir, RingBuffer, buffer_bytes

BUFFERS = ROOT / "edgeforest" / "buffers.py"


# ---- The ring, against a deque

SMALL = st.integers(0, 100)


@settings(max_examples=100, deadline=None)
@given(
    capacity=st.integers(1, 7),
    typecode=st.sampled_from("bBhHiIfd"),
    steps=st.lists(st.one_of(st.tuples(SMALL, SMALL), st.sampled_from(["clear", "bad"]))),
)
def test_the_ring_behaves_like_a_deque(
    capacity: int, typecode: str, steps: list[tuple[int, int] | str]
) -> None:
    ring = RingBuffer(capacity, 2, typecode)  # type: ignore[arg-type]
    expected: deque[tuple[list[int], int]] = deque(maxlen=capacity)
    dropped = 0
    for step in steps:
        if step == "clear":
            ring.clear()
            expected.clear()
            dropped = 0
        elif step == "bad":  # whatever came before its bad value is no row
            with pytest.raises(ValueError, match="value 1 of the row does not fit"):
                ring.push([1, "x"], 3)
            if len(expected) == capacity:
                expected.popleft()
                dropped += 1
        elif isinstance(step, tuple):
            dropped += len(expected) == capacity
            expected.append(([step[0], step[1]], step[0]))
            ring.push(step, step[0])
    assert (len(ring), ring.dropped) == (len(expected), dropped)
    assert ring.full == (len(expected) == capacity)
    rows = [row for row, _ in expected]
    assert [ring.row(i) for i in range(len(ring))] == rows
    assert [ring.row(i - len(ring)) for i in range(len(ring))] == rows
    assert [ring.label(i) for i in range(len(ring))] == [label for _, label in expected]
    columns, labels = ring.snapshot()
    assert list(map(list, zip(*columns, strict=True))) == rows
    assert list(labels) == [label for _, label in expected]
    stored = sorted(zip(*ring.columns(), ring.labels(), strict=True))
    assert stored == sorted((*row, label) for row, label in expected)


def test_a_snapshot_is_a_copy_and_columns_of_a_full_buffer_are_not() -> None:
    for buffer in (RingBuffer(2, 1, "h"), Reservoir(2, 1, "h")):
        buffer.push([1], 1)
        part = buffer.columns()
        buffer.push([2], 2)
        columns, labels = buffer.snapshot()
        live = buffer.columns()
        for i in range(40):
            buffer.push([3 + i], 3)
        assert list(part[0]) == [1]
        assert (list(columns[0]), list(labels)) == ([1, 2], [1, 2])
        assert sorted(live[0]) == sorted(buffer.row(i)[0] for i in range(2))


def test_missing_values_and_text_labels_are_kept() -> None:
    ring = RingBuffer(3, 2, labels=[None] * 3)
    ring.push([None, 1.5], "shut")
    ring.push([float("nan"), 2], "open")
    assert ring.row(0)[0] != ring.row(0)[0]
    assert (ring.row(1)[1], ring.labels()) == (2.0, ["shut", "open"])


@pytest.mark.parametrize("kind", [RingBuffer, Reservoir])
def test_bytes_are_known_in_advance(kind: type[RingBuffer] | type[Reservoir]) -> None:
    for code in CODES:
        for label in CODES:
            buffer = kind(7, 3, code, labels=label)  # type: ignore[arg-type]
            stored = [*buffer._columns, buffer._labels]  # type: ignore[union-attr]
            assert buffer.bytes == sum(memoryview(values).nbytes for values in stored)
            assert buffer.bytes == buffer_bytes(7, 3, code, label)  # type: ignore[arg-type]


def test_wrong_arguments_are_refused_in_a_sentence() -> None:
    for make, words in (
        (lambda: RingBuffer(0, 1), "capacity must be a whole number from 1 to 1073741823, got 0"),
        (lambda: RingBuffer(3, 1.5), "n_features must be a whole number .*, got 1.5"),  # type: ignore[arg-type]
        (lambda: RingBuffer(3, 1, "q"), "typecode must be one of b B h H i I f d, got 'q'"),  # type: ignore[arg-type]
        (lambda: RingBuffer(3, 1, labels=[0]), "labels must be .* a list of 3 places.*; got list"),
        (lambda: RingBuffer(3, 2).push([1], 0), "a row must have 2 values, got 1"),
        (lambda: RingBuffer(3, 1, "b").push([128], 0), "value 0 of .* typecode 'b', got 128"),
        (lambda: RingBuffer(3, 1, "b").push([None], 0), "value 0 of .* typecode 'b', got None"),
        (lambda: RingBuffer(3, 1, "b").push([0.5], 0), "value 0 of .* typecode 'b', got 0.5"),
        (lambda: RingBuffer(3, 1).push([0], 40000), "the label does not fit .*, got 40000"),
        (lambda: RingBuffer(3, 1).push([0], "on"), "the label does not fit .*, got 'on'"),
    ):
        with pytest.raises(ValueError, match=words):
            make()
    ring = RingBuffer(3, 1)
    ring.push([1], 1)
    for i in (1, -2):
        with pytest.raises(IndexError, match=f"there is no row {i}, the buffer holds 1"):
            ring.row(i)


def test_a_forest_learns_from_a_buffer() -> None:
    rng = Rng(4)
    for buffer in (
        RingBuffer(300, 2),
        Reservoir(300, 2),
        RingBuffer(300, 2, "B", labels=[""] * 300),
    ):
        for _ in range(700):
            row = [rng.below(200), rng.below(200)]
            word = "hot" if row[0] > 120 else "cold"
            buffer.push(row, word if isinstance(buffer.labels(), list) else int(row[0] > 120))
        X, y = buffer.columns(), buffer.labels()
        forest = edgeforest.train(X, y, by_column=True, n_trees=5, seed=1)
        right = sum(forest.predict(buffer.row(i)) == buffer.label(i) for i in range(len(buffer)))
        assert right > 285
        X, y = buffer.snapshot()
        edgeforest.train(X, y, by_column=True, n_trees=1)


# ---- The reservoir is fair


def chi_square(counts: list[int]) -> float:
    mean = sum(counts) / len(counts)
    return sum((count - mean) ** 2 for count in counts) / mean


def test_every_row_is_equally_likely_to_be_kept() -> None:
    kept: Counter[int] = Counter()
    for seed in range(1500):
        sample = Reservoir(5, 1, "h", seed)
        for i in range(50):
            sample.push([i], i)
        rows = list(sample.labels())
        assert len(set(rows)) == 5
        assert rows == list(sample.columns()[0])
        kept.update(rows)
    # 49 degrees of freedom: above 85 in one of a thousand tries.
    assert chi_square([kept[i] for i in range(50)]) < 85


def test_a_sample_is_algorithm_r() -> None:
    sample, rng, expected = Reservoir(4, 1, "h", seed=3), Rng(3), []
    for i in range(300):
        at = i if i < 4 else rng.below(i + 1)
        if i < 4:
            expected.append(i)
        elif at < 4:
            expected[at] = i
        sample.push([i], 0)
    assert list(sample.columns()[0]) == expected
    first = expected[:]
    sample.clear()
    assert (len(sample), sample.seen) == (0, 0)
    for i in range(300):
        sample.push([i], 0)
    assert list(sample.columns()[0]) == first


def test_a_bad_row_costs_at_most_one_kept_row() -> None:
    for seed in range(50):
        sample = Reservoir(3, 2, "h", seed)
        for i in range(30):
            sample.push([i, i], i)
            with pytest.raises(ValueError, match="value 1 of") if i < 2 else _maybe():
                sample.push([99, "x"], 0)
        for i in range(len(sample)):
            assert sample.row(i) == [sample.label(i)] * 2
        assert len(sample) >= 2


class _maybe:
    """An error that may occur: a row is only checked if it will be kept."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is None or kind is ValueError


def test_counts_stay_small_enough_to_need_no_memory_on_a_board() -> None:
    sample, ring = Reservoir(1, 1), RingBuffer(1, 1)
    sample.push([1], 1)
    ring.push([1], 1)
    sample.seen = ring.dropped = MOST - 1
    for _ in range(3):
        sample.push([2], 2)
        ring.push([2], 2)
    assert (sample.seen, ring.dropped, MOST) == (2**30 - 1, 2**30 - 1, 2**30 - 1)


# ---- Threads


@pytest.mark.parametrize("kind", [RingBuffer, Reservoir])
def test_threads_never_see_half_a_row(kind: type[RingBuffer] | type[Reservoir]) -> None:
    buffer = kind(50, 8, "i", labels="i")
    each, pushers = 15000, 3
    wrong: list[object] = []
    done = threading.Event()

    def push(k: int) -> None:
        for i in range(each):
            value = k * each + i
            buffer.push([value] * 8, value)

    def look() -> None:
        while not done.is_set():
            columns, labels = buffer.snapshot()
            for row in zip(*columns, labels, strict=True):
                if len(set(row)) != 1:
                    wrong.append(row)
            if len(buffer) and len(set(buffer.row(0))) != 1:
                wrong.append(buffer.row(0))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # let them get in each other's way
    try:
        threads = [threading.Thread(target=push, args=(k,)) for k in range(pushers)]
        lookers = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads + lookers:
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        for thread in lookers:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    assert len(buffer) == 50
    if isinstance(buffer, RingBuffer):
        assert buffer.dropped == each * pushers - 50
        columns, _ = buffer.snapshot()
        for k in range(pushers):  # of each thread the order is kept
            own = [v for v in columns[0] if v // each == k]
            assert own == sorted(own)
    else:
        assert buffer.seen == each * pushers


# ---- In real MicroPython


@pytest.fixture(params=["compiled", "source"])
def board(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder as on a board, with our files."""
    return install(tmp_path / "board", request.param == "compiled")


LOCKED = """
import micropython
from array import array
from edgeforest.buffers import RingBuffer, Reservoir

def fill(buffer, row, label):
    for i in range(500):
        row[0] = i & 127
        row[2] = (i * 7) & 127
        buffer.push(row, label)

def attempt(buffer, row, label):
    micropython.heap_lock()
    try:
        fill(buffer, row, label)
        micropython.heap_unlock()
        return "nothing allocated"
    except MemoryError:
        micropython.heap_unlock()
        return "allocated"

rows = {
    "bytes": bytearray(4),
    "h": array("h", [0] * 4),
    "whole": [0] * 4,
    "floats": [0, 1.5, 2, -3.25],
    "missing": [0, None, 2, -3.25],
    "f": array("f", [0, 1.5, 2, -3.25]),
}
for code, kinds in (
    ("B", ("bytes", "h", "whole")),
    ("h", ("bytes", "h", "whole")),
    ("i", ("bytes", "h", "whole")),
    ("f", ("bytes", "h", "whole", "floats", "missing", "f")),
):
    for kind in kinds:
        ring = RingBuffer(40, 4, code)
        sample = Reservoir(40, 4, code, 3)
        words = RingBuffer(40, 4, code, labels=[None] * 40)
        print(
            code, kind, attempt(ring, rows[kind], 7), attempt(sample, rows[kind], 1),
            attempt(words, rows[kind], "open"),
        )
        if kind != "f":
            print(ring.dropped, sample.seen, int(ring.row(0)[0]), words.label(39))
"""


@needs_mpy_cross
@needs_micropython
def test_pushing_allocates_nothing(board: Path) -> None:
    lines = output(run_micropython(LOCKED, board, "512k")).splitlines()
    assert len(lines) == 29
    nothing = "nothing allocated nothing allocated nothing allocated"
    assert lines.pop() == "f f allocated allocated allocated"  # the lock was on
    for at in range(0, 28, 2):
        assert lines[at].endswith(nothing), lines[at]
        assert lines[at + 1] == "460 500 76 open"


# What a board prints is what CPython prints. Values that both write alike.
SAME = """
import sys
from array import array
from edgeforest.buffers import RingBuffer, Reservoir, buffer_bytes
from edgeforest.budget import Rng

rng = Rng(5)
for code in "bBhHiIfd":
    for n in (3, 20, 97):
        for buffer in (RingBuffer(20, 3, code), Reservoir(20, 3, code, 9)):
            for i in range(n):
                buffer.push((rng.below(100), i, 3), i - 40)
            columns, labels = buffer.snapshot()
            print(code, n, len(buffer), buffer.full, buffer.bytes)
            print([int(v) for v in columns[0]], list(labels), [int(v) for v in buffer.row(-1)])
            print([int(v) for v in buffer.columns()[1]], list(buffer.labels()), buffer.label(0))
            buffer.clear()
            print(len(buffer), buffer_bytes(10, 2, code))
for code, value in (("B", 300), ("b", -129), ("H", -1), ("i", 1 << 31), ("f", "x"), ("h", None)):
    ring = RingBuffer(2, 2, code)
    ring.push((1, 2), 3)
    ring.push((4, 5), 6)
    try:
        ring.push((7, value), 8)
    except ValueError as error:
        print(error)
    print([int(v) for v in ring.row(0)], len(ring), ring.dropped)
for row, label in (((1,), 2), ((1, 2), 40000), ((1, 2), "x")):
    try:
        RingBuffer(2, 2).push(row, label)
    except ValueError as error:
        print(error)
"""


@needs_mpy_cross
@needs_micropython
def test_a_board_keeps_what_cpython_keeps(board: Path, tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    text = output(run_micropython(SAME, board, "512k"))
    assert text == output(run_cpython(SAME, host))
    assert "value 1 of the row does not fit typecode 'B', got 300" in text


@needs_mpy_cross
@needs_micropython
def test_a_board_copies_again_if_an_interrupt_pushed_meanwhile(board: Path) -> None:
    # The interrupt comes when the snapshot has begun.
    script = """
from edgeforest.buffers import RingBuffer

def run(buffer):
    for i in range(7):
        buffer.push((i, i, i), i)
    first = buffer._first
    times = [0]
    def interrupted():
        times[0] += 1
        at = first()
        if times[0] < 4:
            buffer.push((50 + times[0],) * 3, 50 + times[0])
        return at
    buffer._first = interrupted
    columns, labels = buffer.snapshot()
    print(times[0], [list(c) for c in columns], list(labels))

run(RingBuffer(5, 3, "h"))
"""
    text = output(run_micropython(script, board, "512k"))
    rows = [5, 6, 51, 52, 53]
    assert text == f"4 {[rows] * 3} {rows}\n"


@needs_mpy_cross
@needs_micropython
def test_a_board_trains_on_its_buffer_without_a_copy(board: Path) -> None:
    script = """
from edgeforest.budget import Rng
from edgeforest.buffers import RingBuffer
from edgeforest.core_pure import Training
rng = Rng(1)
ring = RingBuffer(300, 3, "B", labels="B")
while not ring.full:
    row = (rng.below(256), rng.below(256), 7)
    ring.push(row, row[0] > 99)
X, y = ring.columns(), ring.labels()
t = Training(X, y, by_column=True, n_trees=3, max_depth=4)
for _ in t:
    pass
f = t.forest()
print(t.data.in_place, sum(f.predict(ring.row(i)) == ring.label(i) for i in range(300)) > 290)
"""
    assert output(run_micropython(script, board, "512k")) == "True True\n"


# ---- The file itself


def test_it_imports_only_what_a_board_has() -> None:
    tree = ast.parse(BUFFERS.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    ours = {f"edgeforest.{name}" for name in ("budget", "lock", "host.types")}
    assert found == {"array", *ours}


def test_an_array_of_numpy_or_bytes_can_be_a_row() -> None:
    np = pytest.importorskip("numpy")
    ring = RingBuffer(2, 3, "h")
    ring.push(np.array([1, 2, 3]), np.int64(1))
    ring.push(b"\x04\x05\x06", True)
    assert [ring.row(0), ring.row(1), list(ring.labels())] == [[1, 2, 3], [4, 5, 6], [1, 1]]
    ring = RingBuffer(1, 3)
    ring.push(array("d", [0.5, 1, 2]), 0)
    assert ring.row(0) == [0.5, 1, 2]
