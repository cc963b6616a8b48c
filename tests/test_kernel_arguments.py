"""Every function of `_kernel` refuses wrong arguments with a sentence, and what it takes is safe.

For each function there is a right call. Parts of it are replaced, shortened, or filled with noise,
thousands of times from a fixed seed. If the call is taken all the same, its result is put to use.
test_kernel_c.py runs this file again under the sanitizers.
"""

import inspect
import os
import random
import threading
from array import array
from contextlib import suppress

import pytest
from runtimes import needs

from edgeforest import engine

needs_native = needs("native" in engine.present(), "the C kernel is not there")
pytestmark = needs_native
if "native" in engine.present():
    from edgeforest.engines import _kernel

N, M = 40, 3  # rows and columns of the data
TREES = 2
CASES = int(os.environ.get("EDGEFOREST_CASES", "1500"))  # of each function; raise it at will

WHOLE = [
    *(-(2**64), -(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 39, 40, 41, 300, 4096, 65534, 65535),
    *(65536, 2**30 - 1, 2**30, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64),
]
OTHER = [None, "text", b"", b"abc", bytearray(3), (), [], 1.5, float("nan"), 1e300, object(), {}]


class Right:
    """The right arguments, made anew for each case: some are written to."""

    def __init__(self):
        self.r = random.Random(7)
        self.values = array("f", [self.r.gauss(0, 1) for _ in range(N * M)])
        self.labels = array("l", [self.r.randrange(3) for _ in range(N)])

    def layout(self, kind, last=0):
        """Rows of float32 side by side: where each column lies."""
        return array("q", [v for f in range(M) for v in (0, 4 * f, 4 * M, kind, last, 0)])

    def bounds(self):
        bounds, last = array("f", bytes(1024 * M)), array("i", bytes(4 * M))
        _kernel.bounds([self.values], self.layout(9), None, N, bounds, last)
        layout = self.layout(9)
        for f in range(M):
            layout[6 * f + 4] = last[f]
        return layout, bounds

    def column(self, kind, size, values):
        return [[values], array("q", [0, 0, size, kind, 0, 0]), N, bytearray(2 * N)]

    def task(self, criterion=0, splitter=0):
        layout, bounds = self.bounds()
        width = (5 if splitter == 1 else 3) if criterion == 2 else 3
        wide = criterion == 2
        y = array("H", self.labels) if wide else bytearray(self.labels)
        numbers = [N, N, N, 10, 1000, 1, 2, 2**30 - 1, 2, 5, width, 7, 100, 2**30 - 1]
        whole = (*numbers, criterion, splitter, 0, 1, 0, int(wide))
        weights = array("I", range(N + 1)) if self.r.random() < 0.3 else None
        patch = array("I", range(N)) if self.r.random() < 0.3 else None
        real = (0.0, 2.0, 0.1, -1.0)
        columns = ([self.values], layout, bounds)
        return [columns, array("H", range(M)), y, weights, patch, whole, real]

    def tree(self):
        tree = _kernel.tree(_kernel.task(*self.task(self.r.randrange(3), self.r.randrange(3)))[0])
        if self.r.random() < 0.9:
            _kernel.begin(tree, 1, -1, -1)
            if self.r.random() < 0.7:
                _kernel.grow(tree, 1000, -1.0, bytearray(1))
        return tree

    def forest(self):
        feature = array("H", [0, 0xFFFF, 0x8001, 0xFFFF, 0xFFFF] * TREES)
        right = array("H", [2, 0, 4, 1, 2, 7, 3, 9, 4, 5])
        return [feature, array("f", [0.5] * 5 * TREES), right, array("I", [0, 5]), 0]

    def walk(self):
        votes = array("H", range(6 * 3))
        return (_kernel.pack(*self.forest()), votes, self.values, (0, 4 * M, 4, 9))

    def plan(self, width=3):
        criterion = 0 if width else 2
        inputs = self.r.choice([0, M + 8]) if width else 0
        numbers = (M, width, TREES, 2, 5, 10, 15, 4, 20, M, 8, inputs, 1, 1, 4096, 10, criterion, 0)
        return [numbers, 0.0, 1, array("H", [0, 7, 0])]

    def grove(self):
        grove = _kernel.grove(*self.plan(self.r.choice([0, 3])))
        if self.r.random() < 0.5:
            _kernel.learn(*self.learn(grove))
        return grove

    def learn(self, grove=None):
        grove = grove or self.grove()
        values = array("f", self.values)
        values[1::M] = array("f", [self.r.randrange(8) for _ in range(N)])
        labels = array("H", self.labels)
        return [grove, values, labels, 0, N, self.r.choice([array("I", bytes(4 * N)), None])]

    def sapling(self):
        grove = self.grove()
        t = self.r.randrange(TREES + 1)
        return [grove, t, *_kernel.sapling(grove, t)]


CALLS = {
    "bounds": lambda e: [
        *([e.values], e.layout(9), e.r.choice([None, array("I", [3, 0, 39])]), N),
        *(array("f", bytes(1024 * M)), array("i", bytes(4 * M))),
    ],
    "encode": lambda e: [[e.values], *e.bounds(), 5, 30, bytearray(N * M)],
    "classes": lambda e: e.column(7 if e.labels.itemsize == 8 else 5, e.labels.itemsize, e.labels),
    "targets": lambda e: e.column(9, 4, e.values[:N]),
    "fill": lambda e: [123, 456, 1000, array("I", bytes(80))],
    "task": lambda e: e.task(e.r.randrange(3), e.r.randrange(3)),
    "tree": lambda e: [_kernel.task(*e.task())[0]],
    "begin": lambda e: [e.tree(), 1, -1, -1],
    "grow": lambda e: [e.tree(), 500, -1.0, bytearray(1)],
    "spent": lambda e: [e.tree()],
    "close": lambda e: [e.tree(), array("d", bytes(8 * M)), 0, 0],
    "pack": lambda e: e.forest(),
    "predict": lambda e: [e.walk(), 3, N, array("I", bytes(12 * N)), array("H", bytes(2 * N))],
    "apply": lambda e: [e.walk(), N, array("I", bytes(4 * TREES * N))],
    "values": lambda e: [array("I", range(N)), 0.5, 1.0, array("d", bytes(8 * N))],
    "grove": lambda e: e.plan(e.r.choice([0, 3])),
    "learn": lambda e: e.learn(),
    "vote": lambda e: [e.grove(), e.values[:M], array("I", bytes(12))],
    "sapling": lambda e: [e.grove(), 1],
    "plant": lambda e: e.sapling(),
    "renew": lambda e: [e.grove(), 0],
    "choice": lambda e: [e.grove()],
    "listed": lambda e: [[[0.5, 7, -1.0], [1, 2, 3]], M],
    "places": lambda e: [["a", 7, True, "b"], {"a": 0, 7: 1, True: 2, "b": 3}],
    "named": lambda e: [array("I", [0, 5, 11]), array("H", [0, 1, 1]), ["a", "b", "c"]],
    "levels": lambda e: [[0.5, 7.0, -1.0], -1.0, 100.0, 1000],
    "valued": lambda e: [array("I", [0, 5, 11]), array("H", [0, 1, 1]), -1.0, 0.5, 0.25],
    "latest": lambda e: [e.grove()],
    "cells": lambda e: [
        b'1,"a",x\n2.5,?,"\xc3\xa9"\n' + e.r.choice([b"3", b"NA", b"1e400"]) + b",b,1e30",
        *(3, (ord(","), ord('"'), e.r.randrange(2), 1000), b"dt" + e.r.choice([b"f", b"-"])),
        b"?\0NA\0",
    ],
    "quotes": lambda e: [b'"a","b""c", "d\n"' * e.r.randrange(3), 34, 44, e.r.randrange(2)],
    "marks": lambda e: [b"1,2,3\n4,5,6\r\n" * 9 + b"7", e.r.choice([16, 30, 1000]), b" \t"],
    "constants": lambda e: [],
}


# ---- What is made of them


def noise(r, size):
    """Bytes that mean something wherever they are read: small, large, and not a number."""
    parts = [b"\0" * 4, b"\xff" * 4, b"\1\0\0\0", b"\0\0\xc0\x7f", b"\0\0\x80\x7f", r.randbytes(4)]
    return b"".join(r.choice(parts) for _ in range(size // 4 + 1))[:size]


def spoiled_buffer(r, value):
    """A buffer that is shorter, not aligned, not in one piece, or holds something else."""
    raw = bytearray(memoryview(value).tobytes())
    way = r.randrange(6)
    if way == 0:
        return raw[: r.randrange(len(raw) + 1)]
    if way == 1:
        return memoryview(bytearray(1) + raw)[1:]
    if way == 2:
        return memoryview(raw + raw)[::2]
    if way == 3:
        return bytes(raw)
    place = r.randrange(len(raw) + 1)
    raw[place : place + 8] = noise(r, len(raw[place : place + 8]))
    return raw if way == 4 else bytearray(noise(r, len(raw)))


def spoiled(r, value):
    """Something else in the place of this argument."""
    if r.random() < 0.1:
        return r.choice([*WHOLE, *OTHER])
    if isinstance(value, (tuple, list)) and value:
        parts = list(value)
        at = r.randrange(len(parts))
        parts[at] = spoiled(r, parts[at])
        if r.random() < 0.05:
            del parts[r.randrange(len(parts))]
        return type(value)(parts)
    if isinstance(value, array) and value.typecode == "q":  # a layout
        value = array("q", value)
        value[r.randrange(len(value))] = r.choice([v for v in WHOLE if -(2**63) <= v < 2**63])
        return value
    if isinstance(value, (array, bytes, bytearray, memoryview)):
        return spoiled_buffer(r, value)
    if isinstance(value, (int, float)):
        return r.choice(WHOLE) if r.random() < 0.9 else r.choice(OTHER)
    return r.choice(OTHER)


def use(name, given, result, e):
    """What was taken must be good for all that is done with it."""
    if name == "task":
        tree = _kernel.tree(result[0])
        _kernel.begin(tree, 0, e.r.choice([-1, 50]), e.r.choice([-1, 5]))
        with suppress(OverflowError):  # it met an infinite number; native_reader says which
            while _kernel.grow(tree, 100, e.r.choice([-1.0, 100.0]), bytearray(1)):
                pass
        _kernel.close(tree, array("d", bytes(8 * M)), 0, 0)
    elif name == "pack":
        votes = array("H", bytes(2 * 65536))
        out = array("I", bytes(4 * N * 1000))
        rows = (result, votes, e.values, (0, 4 * M, 4, 9))
        with suppress(ValueError):  # more features or leaves than there are
            _kernel.predict(rows, 1, N, out, bytearray(2 * N))
    elif name in ("grove", "learn", "plant", "renew"):
        grove = result if name == "grove" else given[0]
        parts = e.learn(grove)
        for _ in range(3):
            try:
                _kernel.learn(*parts)
            except ValueError:
                break  # other classes or features than these
        with suppress(ValueError):  # other features than these
            _kernel.vote(grove, e.values[:M], array("I", bytes(4 * 4096)))
        _kernel.renew(grove, 0)
        _kernel.sapling(grove, 0)
        _kernel.latest(grove)
    elif name in ("begin", "grow"):
        _kernel.close(given[0], array("d", bytes(8 * M)), 0, 0)


def test_there_is_a_right_call_of_every_function():
    functions = {name for name, f in inspect.getmembers(_kernel) if inspect.isbuiltin(f)}
    assert functions == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_right_call_is_taken(name):
    e = Right()
    for _ in range(10):
        given = CALLS[name](e)
        if name in ("grow", "close"):
            _kernel.begin(given[0], 1, -1, -1)
        use(name, given, getattr(_kernel, name)(*given), e)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "constants"])
def test_wrong_arguments_are_refused_with_a_sentence_or_harmless(name):
    e = Right()
    refused = []
    for case in range(CASES):
        e.r.seed(f"{name} {case}")
        given = CALLS[name](e)
        for _ in range(e.r.choice([1, 1, 1, 2, 3])):
            at = e.r.randrange(len(given))
            given[at] = spoiled(e.r, given[at])
        if e.r.random() < 0.03:
            del given[-1]
        try:
            result = getattr(_kernel, name)(*given)
        except MemoryError:
            refused.append("there is no memory for so much")
        except (ValueError, TypeError) as error:
            refused.append(str(error))
        else:
            use(name, given, result, e)
    assert len(refused) > CASES // 10
    assert all(refused)  # has a sentence


@pytest.mark.parametrize("kind", ["grove", "tree"])
def test_two_threads_cannot_work_on_the_same_trees(kind):
    """They do, one after the other, or one is told; whether they meet is chance."""
    e = Right()
    grove, tree, said = _kernel.grove(*e.plan()), e.tree(), []
    _, values, labels, *_ = e.learn(grove)
    many = array("f", list(values) * 50), array("H", list(labels) * 50)

    def work():
        for i in range(30):
            try:
                if kind == "grove":
                    _kernel.learn(grove, *many, 0, 50 * N, array("I", bytes(200 * N)))
                    _kernel.plant(grove, 1, *_kernel.sapling(grove, 0))
                else:
                    _kernel.begin(tree, i, -1, -1)
                    _kernel.grow(tree, 10**6, -1.0, bytearray(1))
                    _kernel.close(tree, array("d", bytes(8 * M)), 0, 0)
            except (RuntimeError, ValueError) as error:
                said.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("another thread" in sentence or "begin a tree" in sentence for sentence in said)
    assert _kernel.latest(grove)[0] <= 3 * 30 * 50 * N
