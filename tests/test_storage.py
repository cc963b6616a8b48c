"""Files on a board: rows from .npy, and trees that survive power cuts on real filesystems."""

from __future__ import annotations

import ast
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import zlib
from array import array
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from boards import STORAGE as LOG
from boards import promised, write_log
from runtimes import (
    BOARD_ENVIRONMENT,
    ROOT,
    install,
    micropython,
    needs_board_heap,
    needs_micropython,
    needs_mpy_cross,
    output,
    run_cpython,
    run_micropython,
)

import edgeforest
from edgeforest import files, sources, storage
from edgeforest.budget import Budget, Rng
from edgeforest.forest import LEAF
from edgeforest.host import disk
from edgeforest.loading import load
from edgeforest.storage import Npy, Resumable, draw
from edgeforest.writer import to_base64

STORAGE = ROOT / "edgeforest" / "storage.py"
README = ROOT / "firmware" / "README.md"
on_every_engine = pytest.mark.usefixtures("engine")


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A folder as on a board, with our compiled files."""
    return install(tmp_path / "board")


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """An empty folder for CPython, which imports the installed package."""
    folder = tmp_path / "host"
    folder.mkdir()
    return folder


# ---- Rows from .npy

KINDS = ("bool", "u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f4", "<f8")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("shape", [(900,), (1,), (300, 7), (40, 300), (1, 1)])
def test_columns_are_what_numpy_reads(
    kind: str, order: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    if "f" in kind:
        table = rng.standard_normal(shape).astype(kind)
        table.flat[0] = np.nan
    else:
        top = {"b": 2, "1": 128}.get(kind[0] if kind == "bool" else kind[-1], 30000)
        table = (rng.integers(0, top, shape) - (20 if "i" in kind else 0)).astype(kind)
    table = np.asarray(table, order=order)  # type: ignore[call-overload]
    path = tmp_path / "table.npy"
    np.save(path, table)
    wide = table.reshape(len(table), -1)
    n, m = wide.shape
    file = Npy(path)
    assert file.shape == (n, m)
    some = draw(Rng(1), max(1, n // 3), n)
    back = [n - 1, 0, n // 2, 0]  # not in order, one of them twice
    for rows in (None, some, back, np.array(back), []):
        for only in (None, [m - 1], [m // 2, 0]):
            columns = file.columns(rows, only)  # type: ignore[arg-type]
            expected = wide[range(n) if rows is None else rows][
                :, range(m) if only is None else only
            ]
            assert len(columns) == expected.shape[1]
            for f, column in enumerate(columns):
                np.testing.assert_array_equal(
                    np.asarray(column), expected[:, f].astype("f4" if "f" in kind else "i8")
                )
                # Bytes train where they are; nothing takes more than four bytes a value.
                assert isinstance(column, bytearray) == (kind in ("bool", "u1"))
                assert memoryview(column).itemsize == min(4, table.itemsize)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format_is_read(version: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    table = np.arange(12, dtype="<i2").reshape(4, 3)
    with open(path, "wb") as stream:
        np.lib.format.write_array(stream, table, version=version)
    assert [list(column) for column in Npy(path).columns()] == table.T.tolist()


def test_rows_are_drawn_without_replacement_in_the_order_of_the_file() -> None:
    counts = [0] * 100
    for seed in range(600):
        rows = draw(Rng(seed), 15, 100)
        assert list(rows) == sorted(set(rows))
        assert len(rows) == 15
        for row in rows:
            counts[row] += 1
    # 99 degrees of freedom: above 149 in one of a thousand tries.
    assert sum((count - 90) ** 2 for count in counts) / 90 < 149
    assert draw(Rng(0), 7, 5) == range(5)
    big = draw(Rng(1), 50, 2_000_000_000)  # one of each fiftieth
    assert [row // 40_000_000 for row in big] == list(range(50))
    assert sources.draw is draw


def saved(values: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(values))
    return stream.getvalue()


TABLE = saved(np.arange(20, dtype="<i4").reshape(10, 2))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a .npy file"),
        (b"a,b\n1,2\n", "is not a .npy file"),
        (TABLE[:6] + b"\x09" + TABLE[7:], "is not a .npy file"),
        (TABLE[:-1], "is cut short"),
        (TABLE[:70], "is cut short"),
        (TABLE[:20], "must hold whole numbers"),
        (TABLE[:40], "must be a table"),
        (saved(np.zeros((2, 2), ">f4")), "little-endian order, got >f4; convert"),
        (saved(np.zeros((2, 2), "c8")), "got <c8; convert"),
        (saved(np.zeros((2, 2), "f2")), "got <f2; convert"),
        (saved(["a", "b"]), "got <U1; convert"),
        (saved(np.array([1, None])), r"got \|O; convert"),
        (saved(np.zeros(3, [("a", "<f4")])), "got something else; convert"),
        (saved(np.zeros((2, 2, 2))), r"got the shape \[2, 2, 2\]"),
        (saved(np.zeros((0, 2))), r"got the shape \[0, 2\]"),
        (saved(5.0), r"got the shape \[\]"),
        (TABLE.replace(b"(10, 2)", b"(-1, 2)"), "got the shape"),
        (TABLE.replace(b"(10, 2)", b"(1x, 2)"), "got the shape"),
    ],
)
def test_files_that_cannot_be_read_are_refused(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said) as caught:
        Npy(path)
    assert "\n" not in str(caught.value)


def test_garbage_in_a_header_gives_a_table_or_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    rng = random.Random(1)
    refused = 0
    for _ in range(400):
        content = bytearray(TABLE)
        for _ in range(rng.choice([1, 3, 30])):
            content[rng.randrange(6, 128)] = rng.choice(b"'(),: {}<>0129fiu\x00\xff")
        path.write_bytes(content[: rng.choice([len(content), rng.randrange(200)])])
        try:
            Npy(path).columns()
        except ValueError as error:
            refused += str(error).startswith((str(path), "row "))
    assert 100 < refused < 400


def test_rows_and_columns_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    path.write_bytes(TABLE)
    file = Npy(path)
    with pytest.raises(IndexError, match=r"there is no row 10 in .*, which has 10"):
        file.columns([0, 10])
    with pytest.raises(IndexError, match=r"there is no column -1 in .*, which has 2"):
        file.columns(only=[-1])
    path.write_bytes(TABLE[:-30])
    with pytest.raises(ValueError, match="became shorter while it was read"):
        file.columns()
    for value, kind in ((2**31, "<i8"), (-(2**31) - 1, "<i8"), (2**63, "<u8")):
        np.save(path, np.array([1, value], kind))
        with pytest.raises(ValueError, match=f"row 1 of .* has {value}, more than 32 bits hold"):
            Npy(path).columns()
    with pytest.raises(OSError, match=r"none\.npy"):
        Npy(tmp_path / "none.npy")


# ---- Training is resumed


def made(n: int = 900, features: int = 5) -> tuple[list[Any], list[str]]:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((features, n)).astype("f4")
    y = np.where(X[0] + X[1] * X[2] + rng.standard_normal(n) / 3 > 0, "yes", "no")
    return list(X), y.tolist()


X, Y = made()
NUMBERS = [float(v) for v in X[0]]
WAYS: dict[str, dict[str, Any]] = {
    "plain": {"n_trees": 4},
    "budget": {"n_trees": 5, "budget": 40_003},
    "shares to the last": {"n_trees": 5, "budget": 6005, "max_features": 1},
    "shares of nothing": {"n_trees": 9, "budget": 5, "max_depth": 0},
    "few bytes": {"n_trees": 30, "max_depth": 6},
    "extra trees": {"n_trees": 4, "kind": "extra-trees", "max_leaf_nodes": 20},
    "patches": {"n_trees": 4, "kind": "random-patches", "criterion": "entropy", "max_depth": 5},
    "weights": {"n_trees": 4, "sample_weight": [1 + i % 3 for i in range(900)], "max_depth": 4},
    "regression": {"n_trees": 4, "criterion": "mse", "max_depth": 4, "first": 7},
    "threads": {"n_trees": 4, "n_jobs": 2, "budget": 30_000},
}


@on_every_engine
@pytest.mark.parametrize("way", WAYS)
def test_resuming_from_any_tree_gives_the_forest_of_train(way: str, tmp_path: Path) -> None:
    options = {"by_column": True, "seed": 4, "max_depth": 5, **WAYS[way]}
    y = NUMBERS if way == "regression" else Y
    whole = edgeforest.train(X, y, **options)
    if way == "few bytes":
        room = edgeforest.train_steps(X, y, **options).working_bytes(300, 60)
        options["budget"] = Budget(bytes=room)
        without, whole = whole, edgeforest.train(X, y, **options)
        assert len(whole) > 3
        assert len(whole.feature) < len(without.feature)
    path = tmp_path / "model.json"
    for stop in sorted({1, len(whole) // 2, len(whole) - 1} - {0}):
        path.unlink(missing_ok=True)
        for step in Resumable(X, y, path, **options):
            if len(step.grown) == stop:
                break
        half = edgeforest.load(path)  # a model at any time
        assert (len(half), half.names, half.spent.insertions) == (
            stop,
            whole.names,
            step.budget.spent.insertions,
        )
        assert abs(sum(half.feature_importances) - bool(sum(half.importances))) < 1e-4
        again = storage.train(X, y, path, resume=True, **options)
        assert again.to_json() == whole.to_json()
        assert edgeforest.load(path).to_json() == whole.to_json()
        assert type(again) is type(whole)
    assert [file.name for file in tmp_path.iterdir()] == ["model.json"] or len(whole) == 1
    # What is over is not trained again.
    written = path.stat().st_mtime_ns if len(whole) > 1 else 0
    done = storage.train(X, y, path, resume=True, **options)
    assert done.to_json() == whole.to_json()
    assert done.predict([0.5] * 5) == whole.predict([0.5] * 5)
    assert path.stat().st_mtime_ns == written or len(whole) == 1


@on_every_engine
def test_a_stop_within_a_tree_gives_a_forest_and_keeps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    options: dict[str, Any] = {"by_column": True, "n_trees": 4, "splitter": "exact"}
    whole = edgeforest.train(X, Y, **options).to_json()
    training = Resumable(X, Y, path, **options)
    for step in training:
        if len(step.grown) == 2:
            break
    next(iter(training))
    assert 2 <= len(training.forest()) <= 4
    assert len(edgeforest.load(path)) >= 2
    # One that resumes and stops at once has the trees of the file.
    path.unlink()
    for step in Resumable(X, Y, path, **options):
        if len(step.grown) == 2:
            break
    assert len(Resumable(X, Y, path, resume=True, **options).forest()) == 2
    assert storage.train(X, Y, path, resume=True, **options).to_json() == whole
    # Without resume it begins anew, whatever there is.
    assert storage.train(X, Y, path, seed=8, **options).to_json() != whole


def test_time_that_was_spent_before_a_power_cut_counts(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    options: dict[str, Any] = {"by_column": True, "n_trees": 50, "max_depth": 3}
    for step in Resumable(X, Y, path, budget=Budget(seconds=1000), **options):
        if len(step.grown) == 2:
            step.budget.spent.seconds += 50
        if len(step.grown) == 3:
            break
    training = Resumable(X, Y, path, resume=True, budget=Budget(seconds=1000), **options)
    assert training.training.budget.spent.seconds > 49
    training = Resumable(X, Y, path, resume=True, budget=Budget(seconds=40), **options)
    for _ in training:
        pass
    assert len(training.forest()) == 3  # it was late at once
    assert edgeforest.load(path).to_json() == training.forest().to_json()


def started(path: Path, **options: Any) -> None:
    for step in Resumable(X, Y, path, **{"by_column": True, "n_trees": 4, **options}):
        if len(step.grown) == 2:
            return


def test_a_training_with_other_options_is_not_resumed(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    started(path)
    nearly = [column.copy() for column in X]
    nearly[3][700] += 1
    flipped = ["yes" if label == "no" and i == 800 else label for i, label in enumerate(Y)]
    flipped[int(np.flatnonzero(np.array(Y) == "no")[-1])] = "yes"
    for data, labels, changed, said in (
        (X, Y, {"seed": 1}, "seed: 0, now 1"),
        (X, Y, {"n_trees": 5}, "n_trees: '4', now '5'"),
        (X, Y, {"max_depth": 3}, "max_depth: None, now '3'"),
        (X, Y, {"criterion": "entropy"}, "criterion: 'gini', now 'entropy'"),
        (X, Y, {"budget": 9000}, "budget: None, now 9000"),
        (X, Y, {"budget": Budget(bytes=10**9)}, "bytes: 'None', now '1000000000'"),
        (X, Y, {"sample_weight": [1 + i % 2 for i in range(900)]}, "sample_weight: None, now"),
        (X, Y, {"names": list("abcde")}, "names: "),
        (nearly, Y, {"seed": 1}, "seed: 0, now 1"),
    ):
        options: dict[str, Any] = {"by_column": True, "n_trees": 4, **changed}
        before = path.read_bytes()
        with pytest.raises(ValueError, match=f"was begun with other {said}") as caught:
            storage.train(data, labels, path, resume=True, **options)
        assert str(caught.value).endswith("; use another path")
        assert path.read_bytes() == before
    started(path, max_depth=3)
    with pytest.raises(ValueError, match="max_depth: '3', now None"):
        storage.train(X, Y, path, resume=True, by_column=True, n_trees=4)
    storage.train(X, Y, path, by_column=True, n_trees=4)  # and one that is over
    for changed, said in (({"seed": 1}, "seed"), ({"n_trees": 9}, "n_trees: '4', now '9'")):
        with pytest.raises(ValueError, match=f"was begun with other {said}"):
            storage.train(X, Y, path, True, **{"by_column": True, "n_trees": 4, **changed})


@pytest.mark.parametrize("over", [False, True])
def test_with_other_rows_training_starts_again(
    over: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The earlier rows are gone; a board that restarts must not be stuck."""
    path = tmp_path / "model.json"
    nearly = [column.copy() for column in X]
    nearly[3][700] += 1
    flipped = list(Y)
    flipped[int(np.flatnonzero(np.array(Y) == "no")[-1])] = "yes"
    options: dict[str, Any] = {"by_column": True, "n_trees": 4}
    for data, labels in (
        ([X[0], *X[2:], X[1]], Y),
        (nearly, Y),
        (X, flipped),
        ([column[:800] for column in X], Y[:800]),
    ):
        if over:
            storage.train(X, Y, path, **options)
        else:
            started(path)
        training = Resumable(data, labels, path, resume=True, **options)
        assert training.note == f"{path} was trained on other rows: training anew on these"
        forest = storage.train(data, labels, path, resume=True, **options)
        assert capsys.readouterr().out == training.note + "\n"
        expected = edgeforest.train(data, labels, **options).to_json()
        assert forest.to_json() == edgeforest.load(path).to_json() == expected
        assert storage.train(data, labels, path, resume=True, **options).to_json() == expected
        assert capsys.readouterr().out == "", "it is over"


def test_a_checkpoint_of_a_source_is_another_training(tmp_path: Path) -> None:
    from edgeforest.sources.training import Streaming

    path = tmp_path / "model.json"
    table = sources.Table({"x0": NUMBERS, "y": Y})
    for step in Streaming(table, "y", n_trees=4, checkpoint=path):
        if len(step.grown) == 2:
            break
    with pytest.raises(ValueError, match="was begun with other "):
        storage.train([NUMBERS], Y, path, resume=True, by_column=True, n_trees=4)
    path.unlink()
    for trained in Resumable([NUMBERS], Y, path, by_column=True, n_trees=4):
        if len(trained.grown) == 2:
            break
    with pytest.raises(ValueError, match="does not say which rows it was trained on"):
        Streaming(table, "y", n_trees=4, checkpoint=path, resume=True)


def test_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    started(path)
    good = path.read_bytes()
    for content, said in (
        (good[:-40], "cut short"),
        (good[:300], "cut short"),
        (b"", "not an EdgeForest model"),
        (good.replace(b'"yes"', b'"yep"'), "altered"),
        (good.replace(b'"version":2', b'"version":7'), "newer edgeforest"),
        (b"{}", "not an EdgeForest model"),
    ):
        path.write_bytes(content)
        for read in (storage.load, lambda p: storage.train(X, Y, p, True, by_column=True)):
            with pytest.raises(ValueError, match=said):
                read(path)
    path.unlink()
    with pytest.raises(OSError, match=r"no model in .* yet; train one"):
        storage.load(path)


def read_both_ways(path: Path) -> tuple[Any, Any]:
    """Read a checkpoint in pieces; check that reading it at once gives the same."""
    forest, state = storage.read(path)
    assert forest
    assert forest.to_json() == load(path).to_json()
    assert state == json.loads(path.read_bytes()).get("training")
    return forest, state


def altered(content: bytes, **changes: Any) -> bytes:
    """A model with changed values, in its state too, and a valid checksum."""
    model = json.loads(content)
    for key, value in changes.items():
        (model if key in model else model["training"])[key] = value
    body = json.dumps(model, separators=(",", ":")).rpartition(',"crc32"')[0]
    return f'{body},"crc32":"{zlib.crc32(body.encode()):08x}"}}\n'.encode()


@on_every_engine
def test_a_hostile_checkpoint_is_refused(tmp_path: Path) -> None:
    """A valid checksum proves nothing: the state must be one that a training can have."""
    path = tmp_path / "model.json"
    options: dict[str, Any] = {"by_column": True, "n_trees": 4, "budget": 60_000}
    started(path, budget=60_000)
    good = path.read_bytes()
    state = json.loads(good)["training"]
    changes: list[dict[str, Any]] = [
        {"importance": ""},
        {"importance": to_base64([0.0] * 4, "d")},
        {"importance": to_base64([float("nan")] * 5, "d")},
        {"importance": to_base64([-1.0] * 5, "d")},
        {"importance": [0.0] * 5},
        {"importance": None},
        {"classes": ["no"], "votes": to_base64(range(200, 256), "B")},
        {"classes": ["no", "yes", "zzz"]},
        {"scale": 60000},
        {"categories": [None, None, None, None, ["a"]]},
        {"spent": [30_001, 0, 0]},
        {"spent": [10**9, 0, 0]},
    ]
    changes += [{"next": v} for v in (-100, 0, 1, 5, 10**9, 2.0, True, "2", None)]
    changes += [{"milliseconds": v} for v in (-1, 1.5, "1", None, True, 10**40, 10**400)]
    changes += [{"signature": v} for v in (None, [], "x", 5, {})]
    changes += [{"training": v} for v in ([], "x", 5, True, {}, {**state, "signature": {}})]
    for change in changes:
        path.write_bytes(altered(good, **change))
        with pytest.raises(ValueError, match=r"use another path$|damaged inside"):
            storage.train(X, Y, path, resume=True, **options)
    path.write_bytes(altered(good))
    forest = storage.train(X, Y, path, True, **options)
    assert forest.spent.insertions <= 60_000
    assert forest.to_json() == edgeforest.train(X, Y, **options).to_json()
    path.write_bytes(altered(path.read_bytes(), classes=["a", "b"]))  # one that is over
    with pytest.raises(ValueError, match="was begun with other classes"):
        storage.train(X, Y, path, resume=True, **options)


@pytest.mark.parametrize("way", ["plain", "regression", "categories", "odd names"])
def test_a_checkpoint_is_read_as_the_model_it_is(way: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    options: dict[str, Any] = {"by_column": True, "n_trees": 3, "max_depth": 5}
    columns: list[Any] = list(X)
    y: Any = Y
    if way == "regression":
        y, options["criterion"] = NUMBERS, "mse"
    elif way == "categories":
        columns[1] = [("grün", 'a"b', None)[i % 3] for i in range(900)]
        options["categorical"] = [1]
    elif way == "odd names":
        options["names"] = [',"wide":', ',"range', ':"', ',"crc32":"', ',"training":']
    for step in Resumable(columns, y, path, **options):
        if len(step.grown) == 1:
            break
    for _ in range(2):
        state = read_both_ways(path)[1]
        again = storage.train(columns, y, path, resume=True, **options)
    assert list(state) == ["done"]
    assert again.to_json() == edgeforest.train(columns, y, **options).to_json()


def test_a_checkpoint_of_many_nodes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    forest = edgeforest.train(X, Y, by_column=True, n_trees=5)
    nodes = len(forest.feature)
    forest.right = array("I", forest.right)
    forest.votes = array("H", [v >> 6 for v in forest.votes])  # all trees: less than 2^24
    features, rights = forest.feature[:], forest.right[:]
    while len(forest.feature) < 65536:  # the same trees again; their leaves share votes
        here = len(forest.feature)
        forest.roots.extend([root + here for root in forest.roots[:5]])
        forest.feature.extend(features)
        forest.threshold.extend(forest.threshold[:nodes])
        forest.right.extend([v + here * (f != LEAF) for f, v in zip(features, rights, strict=True)])
    for state in (None, {"next": 7}):
        storage.write(forest, path, state)
        found, also = read_both_ways(path)
        assert (found.to_json(), also) == (forest.to_json(), state)
        assert found.right.typecode == "I"
        assert max(found.right) > 65535


# ---- A filesystem that cannot rename over a file


class PowerCut(BaseException):
    """Nothing runs after it."""


class Fat:
    """A board's `os`, on a filesystem that cannot rename over a file."""

    def __init__(self, cut: int) -> None:
        self.cut = cut  # calls until the power fails; no call after that does anything

    def _step(self) -> None:
        self.cut -= 1
        if self.cut < 0:
            raise PowerCut

    def rename(self, old: str, new: str) -> None:
        self._step()
        if os.path.exists(new):
            raise OSError(17, "it exists")
        os.rename(old, new)

    def remove(self, path: str) -> None:
        self._step()
        os.remove(path)

    def sync(self) -> None:
        self._step()

    def stat(self, path: str) -> os.stat_result:
        return os.stat(path)


def test_every_cut_on_a_filesystem_like_fat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"by_column": True, "n_trees": 3, "max_depth": 3}
    whole = edgeforest.train(X, Y, **options).to_json()
    met = set()
    monkeypatch.setattr(files, "disk", None)
    for cut in range(100):
        path = tmp_path / str(cut)
        monkeypatch.setattr(files, "os", Fat(cut))
        try:
            storage.train(X, Y, path, **options)
            break
        except PowerCut:
            pass
        monkeypatch.setattr(files, "os", Fat(100))
        there = path.exists(), path.with_name(f"{cut}.part").exists()
        forest = storage.read(path)[0]
        met.add((*there, forest is not None))
        assert forest or cut < 2  # the first tree was on its way
        assert path.exists() == (forest is not None)
        storage.train(X, Y, path, resume=True, **options)
        assert edgeforest.load(path).to_json() == whole
    # sync, rename; then sync, rename, remove and rename again of each of the others.
    assert cut == 2 + 4 * 2
    assert (False, True, True) in met  # cut between remove and rename
    assert (True, True, True) in met


def test_a_first_model_that_was_cut_short_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    started(path)
    part = tmp_path / "model.json.part"
    part.write_bytes(path.read_bytes()[:-50])
    path.unlink()
    assert storage.read(path) == (None, None)
    options: dict[str, Any] = {"by_column": True, "n_trees": 4}
    forest = storage.train(X, Y, path, resume=True, **options)
    assert forest.to_json() == edgeforest.train(X, Y, **options).to_json()


def test_a_disk_that_is_full_leaves_the_old_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.json"
    started(path)
    before = path.read_bytes()

    def full(number: int) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(disk, "os", SimpleNamespace(**{**vars(os), "fsync": full}))
    with pytest.raises(OSError, match="no space left"):
        storage.train(X, Y, path, resume=True, by_column=True, n_trees=4)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.json"]


# ---- Killed at random moments

# For CPython and for the real MicroPython.
KILLED = """
import sys
from edgeforest import core_pure as ef
from edgeforest import storage
rng = storage.Rng(3)
X = [bytearray([rng.below(256) for i in range(300)]) for f in range(4)]
y = bytearray([(X[0][i] > 99) + (X[1][i] > 150 and X[2][i] > 20) for i in range(300)])
options = {"by_column": True, "n_trees": 25, "max_depth": 6, "seed": 2, "budget": 60000}
print("ready")
if len(sys.argv) == 1:
    ef.train(X, y, **options).save("expected.json")
else:
    if sys.implementation.name == "cpython":
        options["engine"] = "pure"
        sys.stdout.flush()
    storage.train(X, y, "model.json", resume=True, **options)
"""


def kill_and_resume(
    command: list[str],
    folder: Path,
    figure: Callable[[str], None],
    env: dict[str, str] | None = None,
) -> None:
    """kill -9 again and again: the file is always a model, and in the end the right one."""
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=env)
    chance = random.Random(4)
    kills, seen = 0, set()
    patience = 0.0  # in seconds: at first none, so that one kill is certain; then ever more
    path = folder / "model.json"
    while True:
        process = subprocess.Popen(
            [*command, "resume"], cwd=folder, stdout=subprocess.PIPE, env=env
        )
        assert process.stdout
        process.stdout.readline()
        try:
            process.wait(timeout=chance.uniform(0, patience))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        code = process.wait()
        process.stdout.close()
        patience = patience * 1.1 + 0.01
        if path.exists():
            seen.add(len(edgeforest.load(path)))  # refuses what is damaged
        if code != -signal.SIGKILL:
            break
    figure(f"{kills} kills, {len(seen)} different numbers of trees met on the way")
    assert code == 0
    assert kills
    expected = edgeforest.load(folder / "expected.json").to_json()
    assert edgeforest.load(path).to_json() == expected


def test_a_killed_training_is_resumed(host: Path, figure: Callable[[str], None]) -> None:
    (host / "script.py").write_text(KILLED, encoding="utf-8")
    kill_and_resume([sys.executable, "script.py"], host, figure)


@needs_mpy_cross
@needs_micropython
def test_a_killed_training_is_resumed_in_micropython(
    board: Path, host: Path, figure: Callable[[str], None]
) -> None:
    (board / "script.py").write_text(KILLED, encoding="utf-8")
    kill_and_resume(micropython("128k"), board, figure, BOARD_ENVIRONMENT)
    output(run_cpython(KILLED, host))
    expected = edgeforest.load(host / "expected.json").to_json()
    assert edgeforest.load(board / "model.json").to_json() == expected


# ---- Real FAT and littlefs, cut at every block

FLASH = """
import gc
import os
import sys
import vfs
from edgeforest import core_pure as ef
from edgeforest import storage

class Flash:
    # 48 kB of blocks; the power fails after `left` writes.
    def __init__(self):
        self.data = bytearray(96 * 512)
        self.left = -1
        self.writes = 0

    def step(self):
        if self.left == 0:
            raise OSError(5)
        self.left -= 1
        self.writes += 1

    def readblocks(self, n, out, offset=0):
        start = 512 * n + offset
        out[:] = memoryview(self.data)[start : start + len(out)]

    def writeblocks(self, n, given, offset=0):
        start = 512 * n + offset
        for at in range(0, len(given), 512):  # it may fail between two of them
            self.step()
            part = memoryview(given)[at : at + 512]
            memoryview(self.data)[start + at : start + at + len(part)] = part

    def ioctl(self, what, n):
        if what == 4:
            return len(self.data) // 512
        if what == 5:
            return 512
        if what == 6:  # erase
            self.step()
            for i in range(512 * n, 512 * n + 512):
                self.data[i] = 255
        return 0

rng = storage.Rng(2)
X = [bytearray([rng.below(256) for i in range(60)]) for f in range(3)]
y = bytearray([X[0][i] > 99 for i in range(60)])
options = {"by_column": True, "n_trees": 3, "max_depth": 2}
expected = ef.train(X, y, **options).to_json()
filesystem = getattr(vfs, sys.argv[1])
flash = Flash()
filesystem.mkfs(flash)
fresh = bytes(flash.data)

def mounted(work):
    vfs.mount(filesystem(flash), "/flash")
    try:
        return work()
    finally:
        vfs.umount("/flash")

def train():
    try:
        return storage.train(X, y, "/flash/model.json", resume=True, **options)
    except OSError:
        return None  # the power is out

def look():
    names = os.listdir("/flash")
    forest = storage.read("/flash/model.json")[0]
    return "model.json" in names, "model.json.part" in names, len(forest) if forest else 0

def text():
    return storage.load("/flash/model.json").to_json()

flash.writes = 0
mounted(train)
writes = flash.writes
for cut in range(writes):
    flash.data[:] = fresh
    flash.left = cut
    lived = mounted(train)
    gc.collect()  # a file that was open does not outlive the power
    flash.left = -1
    found = mounted(look)
    mounted(train)
    print("cut", int(lived is not None), *found, mounted(text) == expected)
"""


@needs_mpy_cross
@needs_micropython
@pytest.mark.parametrize("filesystem", ["VfsFat", "VfsLfs2"])
def test_a_cut_at_every_block_of_a_real_filesystem(
    board: Path, filesystem: str, figure: Callable[[str], None]
) -> None:
    has = f"import vfs\nprint(hasattr(vfs, {filesystem!r}))\n"
    if run_micropython(has, board).stdout.strip() != "True":
        pytest.skip(f"this MicroPython was built without {filesystem}")
    text = output(run_micropython(FLASH, board, "512k", [filesystem]))
    lines = re.findall("^cut (.*)", text, re.MULTILINE)  # errors of files that were open aside
    assert len(lines) > 20
    trees = []
    for line in lines:
        lived, named, part, grown, same = line.split()
        assert same == "True", line
        trees.append(int(grown))
        # The named file is read; else a complete part; else there was no tree yet.
        assert int(grown) > 0 if named == "True" else part == "True" or grown == "0"
        assert lived == "0" or grown == "3"
    assert trees == sorted(trees)  # a later cut never has fewer
    assert set(trees) >= {0, 1, 2}
    between = [line for line in lines if line.split()[1:3] == ["False", "True"]]
    picked = sum(line.split()[3] != "0" for line in between)
    figure(f"{len(lines)} cuts; after {picked} of them the model had to be renamed")
    assert picked > (1 if filesystem == "VfsFat" else -1)  # FAT removes first


# ---- The same forest on a board

SEEDS = ["1", "3"]  # of the data and of the forest


def write_logs(folder: Path) -> None:
    """One table in four kinds of file."""
    write_log(folder, 1)
    table = np.load(folder / "bytes.npy").astype(int)
    np.save(folder / "floats.npy", np.asarray(table / 2, "<f4", order="F"))
    np.save(folder / "doubles.npy", table / 8)
    np.save(folder / "whole.npy", table)


@needs_mpy_cross
@needs_micropython
@pytest.mark.parametrize("kind", ["bytes", "floats", "doubles", "whole"])
def test_a_board_trains_from_npy_as_cpython_does(board: Path, host: Path, kind: str) -> None:
    write_logs(board)
    write_logs(host)
    heap = 136 if kind == "bytes" else 256  # in kB: less than the file has
    assert (board / f"{kind}.npy").stat().st_size > heap * 1024
    arguments = [kind, "9", *SEEDS]
    model = output(run_micropython(LOG, board, f"{heap}k", arguments))
    assert model == output(run_cpython(LOG, host, arguments))
    assert len(edgeforest.load(model)) == 5


@needs_mpy_cross
@needs_board_heap
def test_the_heap_in_the_readme_is_enough_to_train_and_to_resume(board: Path) -> None:
    heap = promised(r"(\d+) kB of heap, and resuming no more")
    write_log(board, 1)
    model = output(run_micropython(LOG, board, f"{heap}k", ["bytes", "9", *SEEDS]))
    (board / "model.json").unlink()
    for stop in "1499":  # in the end it is over, and only read
        text = output(run_micropython(LOG, board, f"{heap}k", ["bytes", stop, *SEEDS]))
    assert text == model


@needs_mpy_cross
@needs_micropython
def test_the_sources_also_work_as_mip_installs_them(tmp_path: Path) -> None:
    install(tmp_path, compiled=False)
    write_log(tmp_path, 1)
    for stop in "29":  # the second run resumes
        model = output(run_micropython(LOG, tmp_path, "256k", ["bytes", stop, *SEEDS]))
    assert len(edgeforest.load(model)) == 5


@needs_mpy_cross
@needs_board_heap
def test_the_program_in_the_readme_runs(board: Path) -> None:
    (program,) = re.findall(r"```python\n([^`]*import Npy[^`]*)```", README.read_text("utf-8"))
    heap = promised(r"(\d+) kB of heap, and resuming no more")
    write_log(board, 1)
    (board / "bytes.npy").rename(board / "log.npy")
    for _ in range(2):  # the second time there is nothing left to do
        output(run_micropython(program.replace("/sd/", ""), board, f"{heap}k"))
        assert len(edgeforest.load(board / "model.json")) == 5


# ---- The file itself


@needs_mpy_cross
@needs_micropython
def test_errors_on_a_board_are_those_of_cpython(board: Path, host: Path) -> None:
    script = """
from edgeforest import storage
X = [bytearray(range(99))]
y = bytearray([i > 50 for i in range(99)])
def attempt(do):
    try:
        do()
    except (ValueError, IndexError) as error:
        print(error)
for name in ("short", "text", "big", "three"):
    attempt(lambda: storage.Npy(name + ".npy"))
attempt(lambda: storage.Npy("large.npy").columns())
attempt(lambda: storage.Npy("large.npy").columns([5]))
for step in storage.Resumable(X, y, "model.json", by_column=True, n_trees=3):
    if len(step.grown) == 2:
        break
attempt(lambda: storage.train(X, y, "model.json", True, by_column=True, n_trees=4))
attempt(lambda: storage.train(X, y, "model.json", True, by_column=True, n_trees=3, seed=4))
X[0][7] = 0
attempt(lambda: storage.train(X, y, "model.json", True, by_column=True, n_trees=3))
with open("model.json", "rb") as stream:
    text = stream.read()
for broken in (text[:-30], text.replace(b"x0", b"x1"), b""):
    with open("model.json", "wb") as stream:
        stream.write(broken)
    attempt(lambda: storage.load("model.json"))
"""
    for folder in (board, host):
        (folder / "short.npy").write_bytes(TABLE[:-1])
        (folder / "text.npy").write_bytes(saved(["a"]))
        (folder / "big.npy").write_bytes(b"1,2\n")
        (folder / "three.npy").write_bytes(saved(np.zeros((2, 2, 2))))
        (folder / "large.npy").write_bytes(saved(np.array([1, 2**40])))
    text = output(run_micropython(script, board, "256k"))
    assert text == output(run_cpython(script, host))
    assert len(text.splitlines()) == 12
    assert "other n_trees: '3', now '4'" in text
    assert "cut short" in text


def test_it_imports_only_what_a_board_has() -> None:
    found = set()
    for node in ast.walk(ast.parse(STORAGE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    ours = {
        f"edgeforest.{name}"
        for name in ("budget", "core_pure", "forest", "loading", "reader", "writer")
    }
    ours |= {"edgeforest", "edgeforest.engines", "edgeforest.host.types"}
    assert found == {"array", "json", "os", "struct", *ours}
