"""The model file: the same on every run, whole or refused, never able to lead prediction astray."""

import base64
import builtins
import io
import itertools
import json
import os
import random
import struct
import zlib
from array import array
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutants import sealed

from edgeforest import engine, load, loading, train, train_steps
from edgeforest.engines import with_predictor
from edgeforest.forest import EQUAL, LEAF, MISSING_LEFT, VERSION
from edgeforest.reader import read_model

on_every_engine = pytest.mark.usefixtures("engine")

NAN = float("nan")
KINDS = ("random-forest", "extra-trees", "random-patches")
SPLITTERS = ("mab", "mab-paper", "exact")
CRITERIA = ("gini", "entropy", "mse")
FUZZ = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def make_rows(n, seed=1):
    """A category of text, two numbers, a category of numbers; some of them missing."""
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        row = [
            rng.choice(["blue", "grün", 'r"e\\d']),
            rng.gauss(0, 1),
            rng.random(),
            rng.choice([3, 5]),
        ]
        if rng.random() < 0.2:
            row[rng.randrange(4)] = rng.choice([None, NAN])
        rows.append(row)
    return rows


def answer(row):
    """A number that depends on the row."""
    return (row[0] == "blue") + 2.0 * ((row[1] or 0.0) > 0.3) + ((row[3] or 0) == 5)


ROWS = make_rows(120)
VALUES = [answer(row) for row in ROWS]
LABELS = [["calm", "windy", "storm"][min(2, int(v))] for v in VALUES]
FRESH = [*make_rows(60, 2), ["violet", 0.1, 0.2, 4], [None, None, None, None]]


def fit(y=LABELS, **options):
    options = {"n_trees": 3, "max_depth": 4, "categorical": [0, 3], **options}
    return train(ROWS, y, **options)


@pytest.fixture(scope="module")
def forest():
    return fit()


@pytest.fixture(scope="module")
def small():
    """The text of a small model with every sort of node."""
    forest = fit(n_trees=2, max_depth=3, max_features=4)
    flags = [f for f in forest.feature if f != LEAF]
    assert (
        {bool(f & EQUAL) for f in flags} == {bool(f & MISSING_LEFT) for f in flags} == {True, False}
    )
    return forest.to_json().encode()


def same(one, two, rows=FRESH):
    """Two forests that predict the same, to the last bit."""
    assert one.predict(rows) == two.predict(rows)
    assert [type(v) for v in one.predict(rows)] == [type(v) for v in two.predict(rows)]
    if one.classes is not None:
        assert one.predict_proba(rows) == two.predict_proba(rows)


# ---- The same on every run --------------------------------------------------------------------


@on_every_engine
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_same_seed_same_bytes_and_the_file_predicts_the_same(kind, splitter, criterion, tmp_path):
    options = {"kind": kind, "splitter": splitter, "criterion": criterion}
    y = VALUES if criterion == "mse" else LABELS
    forest = fit(y, seed=7, **options)
    text = forest.to_json()
    assert text == fit(y, seed=7, **options).to_json()
    other = fit(y, seed=8, **options)
    assert (other.threshold, other.votes) != (forest.threshold, forest.votes)
    path = str(tmp_path / "model.json")
    forest.save(path)
    again = load(path)
    same(forest, again)
    assert again.to_json() == text
    assert json.loads(text)["kind"] == again.kind == kind
    assert (again.criterion, again.splitter, again.seed) == (criterion, splitter, 7)
    assert again.spent.insertions == forest.spent.insertions > 0
    assert again.feature_importances == forest.feature_importances


@on_every_engine
@pytest.mark.parametrize(
    "classes",
    [
        ["a", "b", "c"],
        [0, 1, 2],
        [-(2**70), 0, 2**70],
        [0.1, 1e-300, 1e300],
        [1, 2.5, 3],
        [False, True],
        ["", " ", "ä\n\"\\\t\x00\x1f\x7f\u2028\U0001f332'"],
        ['","crc32":"00000000"}', "}", "]"],
        [np.int64(1), np.int64(2)],
        [np.float32(0.1), np.float32(0.2)],
        [np.str_("a"), np.str_("b")],
        [np.bool_(False), np.bool_(True)],
        ["only"],
    ],
)
def test_labels_come_back_as_they_were(classes):
    y = [classes[int(v) % len(classes)] for v in VALUES]
    forest = fit(y)
    again = load(forest.to_json())
    assert again.classes == sorted(set(classes))
    assert [type(v) for v in again.classes] == [type(v) for v in forest.classes]
    assert type(again.classes[0]) in (str, int, float, bool)
    same(forest, again)


@on_every_engine
@pytest.mark.parametrize(
    "odd",
    [
        b"a",
        (1, 2),
        float("inf"),
        float("-inf"),
        np.datetime64("2020-01-01"),
        pytest.param(Decimal("1.5"), id="decimal"),
        pytest.param(Fraction(1, 2), id="fraction"),
        pytest.param(date(2020, 1, 1), id="date"),
    ],
)
def test_what_json_cannot_hold_is_refused_before_training(odd):
    """A forest that is trained for hours has to be one that can be saved."""
    other = 1.0 if isinstance(odd, float) else odd
    with pytest.raises((TypeError, ValueError), match="label"):
        train([[0.0], [1.0]], [other, odd], n_trees=1)
    with pytest.raises((TypeError, ValueError), match="categor"):
        train([[other], [odd]], [0, 1], n_trees=1, categorical=[0])


NAMES = [
    "grün",
    'quo"te',
    "back\\slash",
    "new\nline",
    "tab\t\x00",
    "\U0001f332",
    "",
    "{}",
    "\u2028",
]


@on_every_engine
@pytest.mark.parametrize("name", NAMES)
def test_names_and_categories_come_back_as_they_were(name, tmp_path):
    rows = [[name if i % 3 else name + "x", float(i % 7)] for i in range(40)]
    names = [name, name + "2"]
    forest = train(rows, [i % 3 > 0 for i in range(40)], names=names, categorical=[0], n_trees=2)
    path = str(tmp_path / "model.json")
    forest.save(path)
    again = load(path)
    assert again.names == names
    assert again.categories == [sorted([name, name + "x"]), None]
    same(forest, again, rows)
    parsed = json.loads(Path(path).read_bytes())
    assert parsed["features"] == names


@on_every_engine
def test_options_from_numpy_leave_valid_json():
    options = {"seed": np.int64(3), "n_trees": np.int32(300), "max_depth": np.uint8(2)}
    forest = train(ROWS, LABELS, categorical=[0, 3], budget=np.int64(50_000), **options)
    same(forest, load(forest.to_json()))
    plain = {name: int(value) for name, value in options.items()}
    assert (
        forest.to_json()
        == train(ROWS, LABELS, categorical=[0, 3], budget=50_000, **plain).to_json()
    )


@on_every_engine
@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_json_is_valid_and_its_arrays_are_those_of_the_forest(criterion):
    forest = fit(VALUES if criterion == "mse" else LABELS, criterion=criterion, budget=3000)
    model = json.loads(forest.to_json())
    assert model["format"] == "edgeforest"
    assert model["version"] == VERSION
    assert model["features"] == forest.names
    assert model["classes"] == forest.classes
    assert model["budget"] == 3000
    assert model["spent"][0] == forest.spent.insertions <= 3000
    for name, code in (("roots", "I"), ("feature", "H"), ("votes", "H")):
        assert unpack(model[name], code) == list(getattr(forest, name))
    splits = [i for i, f in enumerate(forest.feature) if f != LEAF]
    assert unpack(model["threshold"], "f") == [forest.threshold[i] for i in splits]
    leaves = [i for i, f in enumerate(forest.feature) if f == LEAF]
    assert [forest.right[i] for i in leaves] == list(range(len(leaves)))
    assert model["leaf"] == ""
    assert (model["wide"], model["bytes"]) == (False, False)
    again = load(forest.to_json())
    for name in ("roots", "feature", "right", "votes"):
        assert getattr(again, name) == getattr(forest, name)
    assert [again.threshold[i] for i in splits] == [forest.threshold[i] for i in splits]
    assert not any(again.threshold[i] for i in leaves)
    body, _, seal = forest.to_json().rpartition(',"crc32":"')
    assert seal == f'{zlib.crc32(body.encode()):08x}"}}'


@on_every_engine
@pytest.mark.parametrize("most", [255, 256])
def test_votes_are_bytes_if_all_of_them_fit(most):
    """Whatever the scale is: merging may lift votes above it."""
    forest = fit()
    for scale in (most, 100, 65535):
        forest.scale = scale
        forest.votes = array("H", [most - i % 7 for i in range(len(forest.votes))])
        model = json.loads(forest.to_json())
        assert model["bytes"] == (most < 256)
        assert unpack(model["votes"], "B" if most < 256 else "H") == list(forest.votes)
        forest.prepare()
        again = load(forest.to_json())
        assert again.votes == forest.votes
        assert again.votes.typecode == "H"
        same(forest, again)


@on_every_engine
def test_places_of_votes_are_written_if_they_are_not_in_order():
    forest = fit()
    leaves = [i for i, f in enumerate(forest.feature) if f == LEAF]
    plain = forest.to_json()
    for places in ([0] * len(leaves), [*range(len(leaves))][::-1], [*range(len(leaves) - 1), 0]):
        for i, place in zip(leaves, places, strict=True):
            forest.right[i] = place
        forest.prepare()
        text = forest.to_json()
        assert unpack(json.loads(text)["leaf"], "H") == places
        again = load(text)
        assert again.right == forest.right
        same(forest, again)
    for i, place in zip(leaves, range(len(leaves)), strict=True):
        forest.right[i] = place
    assert forest.to_json() == plain


@on_every_engine
def test_leaves_without_a_parent_are_kept():
    """As Ctrl-C may leave them, after any tree."""
    forest = fit(n_trees=1)
    for tree in range(3):
        for _ in range(tree):
            forest.feature.append(LEAF)
            forest.threshold.append(0.0)
            forest.right.append(0)
        forest.roots.append(len(forest.feature))
        forest.feature.append(LEAF)
        forest.threshold.append(0.0)
        forest.right.append(tree)
    forest.prepare()
    again = load(forest.to_json())
    assert (again.feature, again.right, again.roots) == (forest.feature, forest.right, forest.roots)
    same(forest, again)


def test_a_model_is_read_from_path_stream_and_text(forest, tmp_path):
    text = forest.to_json()
    path = tmp_path / "model.json"
    forest.save(str(path))
    with path.open("rb") as stream:
        same(forest, load(stream))
    with path.open(encoding="utf-8") as stream:
        same(forest, load(stream))
    written = io.StringIO()
    forest.write(written)
    assert written.getvalue() == text
    for source in (text, text.encode(), bytearray(text.encode()), text + "\r\n", str(path)):
        same(forest, load(source))


def test_paths_may_be_objects(forest, tmp_path):
    path = tmp_path / "model.json"
    forest.save(path)
    same(forest, load(path))


@on_every_engine
def test_a_wide_forest_comes_back_as_it_was():
    """More than 65,535 nodes need wider links, and must not need them sooner."""
    rng = random.Random(9)
    rows = [[rng.random(), rng.random()] for _ in range(2000)]
    labels = [rng.randrange(2) for _ in rows]
    options = {"n_trees": 120, "max_features": 2, "splitter": "exact", "n_bins": 4}
    training = train_steps(rows, labels, engine=engine.present()[0], **options)  # all grow the same
    for step in training:
        if len(step.grown.feature) > 66_000:
            break
    forest = training.forest()
    assert forest.right.itemsize == 4
    assert max(forest.right) > 65535
    again = load(forest.to_json())
    assert json.loads(forest.to_json())["wide"]
    assert list(again.right) == list(forest.right)
    same(forest, again, rows[::50])


# ---- Saving -----------------------------------------------------------------------------------


def test_save_replaces_the_old_file_and_leaves_nothing_else(forest, tmp_path):
    path = tmp_path / "model.json"
    path.write_text("old")
    forest.save(str(path))
    same(forest, load(str(path)))
    fit(seed=5).save(str(path))
    assert load(str(path)).seed == 5
    assert os.listdir(tmp_path) == ["model.json"]


class Broken(io.BytesIO):
    """A stream on a medium that is full after a number of writes."""

    def __init__(self, stream, writes):
        super().__init__()
        self.stream, self.writes = stream, writes

    def write(self, data):
        self.writes -= 1
        if self.writes < 0:
            raise OSError(28, "No space left on device")
        return self.stream.write(data)

    def close(self):
        self.stream.close()
        super().close()


@pytest.mark.parametrize("writes", [0, 1, 2, 7, 20])
def test_an_interrupted_save_leaves_the_old_file_whole(forest, tmp_path, monkeypatch, writes):
    path = tmp_path / "model.json"
    other = fit(seed=5)
    other.save(str(path))
    before = path.read_bytes()
    real = builtins.open
    monkeypatch.setattr(builtins, "open", lambda *a, **k: Broken(real(*a, **k), writes))
    with pytest.raises(OSError, match="No space left"):
        forest.save(str(path))
    monkeypatch.undo()
    assert path.read_bytes() == before
    same(other, load(str(path)))
    forest.save(str(path))  # and what is left of it is not in the way
    same(forest, load(str(path)))
    assert os.listdir(tmp_path) == ["model.json"]


def test_a_file_that_cannot_be_made_says_so(forest, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError):
        forest.save(str(tmp_path / "missing" / "model.json"))

    def denied(path, *_):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(builtins, "open", denied)
    with pytest.raises(PermissionError):
        forest.save(str(tmp_path / "model.json"))


def test_a_directory_is_not_replaced(forest, tmp_path):
    (tmp_path / "model.json").mkdir()
    with pytest.raises(OSError, match=r"model\.json"):
        forest.save(str(tmp_path / "model.json"))
    assert (tmp_path / "model.json").is_dir()


# ---- Files that are not ours ------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\x00" * 100,
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        bytes(range(256)),
        b"{}",
        b"[]",
        b"null",
        b'{"a": 1}',
        b'{"format":"other","version":1}',
        b'{"format":"edgeforest"}',
        b'{"format":"edgeforester","version":1}',
        b'{"version":1,"format":"edgeforest"}',
        b"a,b,c\n1,2,3\n",
        "grün".encode("utf-16"),
    ],
)
def test_a_file_that_is_not_ours_is_said_to_be_none(content, tmp_path):
    path = tmp_path / "model.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not an EdgeForest model"):
        load(str(path))
    with pytest.raises(ValueError, match="not an EdgeForest model"):
        load(io.BytesIO(content))


def test_random_bytes_are_said_to_be_no_model():
    rng = random.Random(3)
    for n in range(300):
        with pytest.raises(ValueError, match="not an EdgeForest model"):
            load(io.BytesIO(rng.randbytes(n)))


@pytest.mark.parametrize(
    "version", [0, VERSION + 1, 10, 99, 12345678901234567890, '"1"', "1.5", "null"]
)
def test_another_version_is_named(small, version):
    text = small.replace(b'"version":%d,' % VERSION, f'"version":{version},'.encode(), 1)
    for source in (text, reseal(text)):
        with pytest.raises(ValueError, match=r"format.*not supported.*newer") as caught:
            load(source)
        assert str(version)[:8] in str(caught.value)


def test_what_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(str(tmp_path / "none.json"))
    with pytest.raises(OSError, match=r"directory|denied"):
        load(str(tmp_path))


@pytest.mark.parametrize("wrong", [None, 1.5, [], {}, ["{"]])
def test_what_is_no_source_is_refused(wrong):
    with pytest.raises(TypeError, match=r"path|Path|str|source"):
        load(wrong)


# ---- Damage -----------------------------------------------------------------------------------


class Bounded:
    """An array that counts how often it is read, and gives up when that is too often."""

    def __init__(self, values, most):
        self.values, self.left = values, most

    def __getitem__(self, place):
        self.left -= 1
        assert self.left >= 0, "the walk does not end"
        assert place >= 0, "the walk left the tree"
        return self.values[place]


def harmless(text):
    """The forest answers every probe, in no more steps than it has nodes; the same on any engine.

    Steps are counted in a pure forest. What it shows to be safe, others walk without a look.
    """
    forest = loading.load(text)
    rng = random.Random(8)
    probes = [
        [
            rng.choice([None, NAN, -2.0, 0.5, 7, 1e300] if kinds is None else ["blue", 5, 0, None])
            for kinds in forest.categories
        ]
        for _ in range(12)
    ]
    nodes = forest.feature
    forest.feature = Bounded(nodes, len(probes) * len(forest.roots) * (len(nodes) + 1))
    answers = forest.predict(probes)
    assert len(answers) == len(probes)
    forest.feature = nodes
    for name in engine.present():
        other = with_predictor(loading.load(text), engine.pick(name))
        assert repr(other.predict(probes)) == repr(answers), name  # NaN too
    if not forest.regression:
        for shares in forest.predict_proba(probes):
            assert len(shares) == forest.n_votes


def refused_or_harmless(source):
    """Whether it was refused; then with one line that is a ValueError."""
    text = source.read() if hasattr(source, "read") else source
    try:
        loading.load(text)
    except ValueError as error:
        message = str(error)
    else:
        harmless(text)
        return False
    assert len(message.splitlines()) == 1
    return True


def test_every_cut_is_refused(small):
    for n in range(1, len(small)):
        with pytest.raises(
            ValueError, match=r"not an EdgeForest model|not supported|cut short|checksum"
        ):
            load(small[:n])


def test_every_cut_of_a_larger_file_is_refused(tmp_path):
    path = str(tmp_path / "model.json")
    fit(n_trees=30, max_depth=None).save(path)
    text = Path(path).read_bytes()
    assert len(text) > 7_000
    for n in [
        *range(1, 600),
        *range(600, len(text) - 100, 97),
        *range(len(text) - 100, len(text) - 1),
    ]:
        with pytest.raises(
            ValueError, match=r"not an EdgeForest model|not supported|cut short|checksum"
        ):
            load(io.BytesIO(text[:n]))
    load(io.BytesIO(text[:-1]))  # only the line end is missing


def test_a_byte_too_many_or_too_few_is_refused(small):
    for place in range(len(small)):
        for text in (small[:place] + b"0" + small[place:], small[:place] + small[place + 1 :]):
            with pytest.raises(ValueError, match="model"):
                load(io.BytesIO(text))
    for text in (small + b"0", small + b"}", small + small, b"0" + small):
        with pytest.raises(ValueError, match="model"):
            load(io.BytesIO(text))


def test_every_altered_byte_is_refused(small):
    """All 255 ways to alter each byte: no checksum of 32 bits misses one of them."""
    text = bytearray(small)
    for place, right in enumerate(small):
        for pattern in range(1, 256):
            text[place] = right ^ pattern
            try:
                load(io.BytesIO(text))
            except ValueError:
                continue
            raise AssertionError(f"byte {place} altered by {pattern:#x} went unnoticed")
        text[place] = right


def test_altered_bits_of_a_larger_file_are_refused_or_harmless(tmp_path):
    path = str(tmp_path / "model.json")
    fit(n_trees=30, max_depth=None).save(path)
    text = bytearray(Path(path).read_bytes())
    rng = random.Random(4)
    refused = 0
    for _ in range(3000):
        places = [rng.randrange(1, len(text)) for _ in range(rng.choice([1, 1, 2, 5]))]
        for place in places:
            text[place] ^= 1 << (place % 8)
        refused += refused_or_harmless(io.BytesIO(bytes(text)))
        for place in places:
            text[place] ^= 1 << (place % 8)
    assert refused > 2900
    assert not refused_or_harmless(io.BytesIO(bytes(text)))


# ---- Damage under a seal that fits ------------------------------------------------------------


def reseal(text):
    """The text with the checksum that fits it."""
    body = text[: text.rindex(b',"crc32":"')]
    return body + b',"crc32":"%08x"}' % zlib.crc32(body)


def seal(model):
    """A model file from its parts, with the checksum that fits."""
    parts = {"format": "edgeforest", "version": VERSION, **model, "crc32": "00000000"}
    return reseal(json.dumps(parts, separators=(",", ":"), ensure_ascii=False).encode())


def parts_of(text):
    model = json.loads(text)
    del model["crc32"]
    return model


def spelled(model):
    """The parts of a model with the places of all leaves, where they are left out."""
    leaves = unpack(model["feature"], "H").count(LEAF)
    return {**model, "leaf": model["leaf"] or pack(range(leaves), "H")}


def unpack(text, code):
    data = base64.b64decode(text)
    return [value for (value,) in struct.iter_unpack("<" + code, data)]


def pack(values, code):
    return base64.b64encode(b"".join(struct.pack("<" + code, v) for v in values)).decode()


# fmt: off
KEYS = [
    "kind", "criterion", "splitter", "seed", "features", "categories", "classes", "importances",
    "budget", "scale", "spent", "wide", "bytes", "range", "roots", "feature", "threshold", "leaf",
    "votes",
]
WICKED = [
    None, True, False, 0, 1, -1, 2, 255, 65536, 2**31, 2**32, 2**63, 2**64, 10**400, -(10**400),
    0.5, -0.5, 1e300, 1e-320, NAN, float("inf"), float("-inf"), "", "x", "AA", "AAA=", "AAAA",
    "AAAAAA==", "AAAAAAAAAAA=", "/////w==", "//////////8=", "////", "ü", "=", "\x00", "null",
    "x" * 1000, [], [None], [[]], [[], [], [], []], [None] * 4, [1, 2, 3], [1, 2, 3, 4],
    [1, 2, 3, "x"], ["a"] * 4, [["a"], None, None, ["b"]], [[1, 1], None, None, [None]],
    [[[]], None, None, [{}]], [list(range(300)), None, None, []], {}, {"a": 1}, {"0": "a"},
    {"a": None, "b": [], "c": 1, "d": {}},
]
# fmt: on


def test_the_seal_of_the_tests_is_the_seal_of_the_code(small):
    assert seal(parts_of(small)) == small
    assert sorted(KEYS) == sorted(set(parts_of(small)) - {"format", "version"})


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("criterion", ["gini", "mse"])
def test_a_part_that_is_missing_or_of_another_type_is_refused_or_harmless(key, criterion):
    model = parts_of(fit(VALUES if criterion == "mse" else LABELS, criterion=criterion).to_json())
    for value in WICKED:
        refused_or_harmless(seal({**model, key: value}))
    del model[key]
    assert refused_or_harmless(seal(model))


@pytest.mark.parametrize("value", WICKED, ids=lambda value: repr(value)[:30])
def test_two_wrong_parts_do_not_make_a_right_one(small, value):
    model = parts_of(small)
    for one in KEYS:
        for two in KEYS:
            refused_or_harmless(seal({**model, one: value, two: value}))
    refused_or_harmless(seal(dict.fromkeys(KEYS, value)))


def test_no_features_no_classes_no_trees_no_nodes_are_refused(small):
    model = parts_of(small)
    leaf = {"feature": pack([LEAF], "H"), "threshold": "", "leaf": ""}
    one = {**model, **leaf, "roots": pack([0], "I"), "votes": pack([1, 2, 3], "H")}
    for right in ({}, {"leaf": pack([0], "H")}, {"votes": pack([1, 2, 3], "B"), "bytes": True}):
        assert not refused_or_harmless(seal({**one, **right})), right
    for wrong in (
        {"features": [], "categories": [], "importances": []},
        {"classes": []},
        {"classes": {}},
        {"classes": {"0": "a", "1": "b", "2": "c"}},
        {"classes": ["a", "b", "c", "d"]},
        {"roots": ""},
        {"roots": pack([1], "I")},
        {"feature": ""},
        {"feature": pack([LEAF] * 2, "H")},
        {"feature": pack([0], "H")},
        {"feature": pack([0], "H"), "threshold": pack([0.0], "f")},
        {"threshold": pack([0.0], "f")},
        {"wide": True},
        {"wide": True, "leaf": pack([0], "I")},
        {"votes": ""},
        {"votes": pack([1, 2], "H")},
        {"votes": pack([1, 2], "B"), "bytes": True},
        {"votes": pack([1, 2], "H"), "bytes": True},
        {"leaf": pack([1], "H")},
        {"leaf": pack([0, 0], "H")},
        {"leaf": pack([0], "I")},
        {"scale": 0},
        {"scale": -1},
        {"scale": 10**400},
        {"range": ""},
        {"range": pack([0.0], "f")},
        {"range": pack([0.0, 0.0, 0.0], "f")},
    ):
        assert refused_or_harmless(seal({**one, **wrong})), wrong


def test_half_a_number_is_refused(small):
    """Packed arrays whose bytes do not divide into numbers."""
    model = spelled(parts_of(small))
    for key in ARRAYS:
        data = base64.b64decode(model[key])
        for change in (data[:-1], data + b"\0", data[:1], data[1:]):
            text = base64.b64encode(change).decode()
            assert refused_or_harmless(seal({**model, key: text})), key
        refused_or_harmless(seal({**model, key: model[key][:-1]}))
        refused_or_harmless(seal({**model, key: "=" + model[key]}))


def test_features_and_places_that_are_not_there_are_refused(small):
    model = spelled(parts_of(small))
    feature, places = unpack(model["feature"], "H"), unpack(model["leaf"], "H")
    assert not refused_or_harmless(seal(model))
    for leaf in range(len(places)):
        for place in (len(places), 65535):
            changed = [*places[:leaf], place, *places[leaf + 1 :]]
            assert refused_or_harmless(seal({**model, "leaf": pack(changed, "H")}))
    for node, f in enumerate(feature):
        changed = [*feature[:node], (f & ~0x3FFF) | 4, *feature[node + 1 :]]
        if f != LEAF:
            assert refused_or_harmless(seal({**model, "feature": pack(changed, "H")}))


OTHERS = (None, NAN, [], {}, float("-inf"))
BROKEN = {
    "features": [["a", v, "c", "d"] for v in (1, None, "\ud800", [], True)] + ["abcd", None],
    "classes": [[v, "b", "c"] for v in (*OTHERS, 1, "b", "\udfff")]
    + [[v, 1, 2] for v in (*OTHERS, "a", True, 1.0)]
    + ["abc", {"a": 1, "b": 2, "c": 3}, None, True],
    "categories": [[v, None, None, [3, 5]] for v in ("abc", 3, True, {}, ["c"] * 3, range(255))]
    + [[[v, "b", "c"], None, None, [3, 5]] for v in (*OTHERS, 1, "b")],
    "kind": ["forest", None, ["random-forest"]],
    "criterion": ["mae", "mse", None],
    "splitter": ["best", 0],
    "seed": [-1, 2**30, 1.0, True, None, "1"],
    "scale": [0, 65536, True, 1.0, "1", None],
    "importances": [[v, 0, 0, 0] for v in (-1, 1_000_001, 0.5, True, None, "0", NAN)],
    "budget": [0, -1, 1.0, True, "9", NAN],
    "spent": [
        [1, 2],
        [1, 2, 3, 4],
        [-1, 0, 0],
        [0.5, 0, 0],
        [True, 0, 0],
        ["1", 0, 0],
        [0, 0, NAN],
    ],
    "wide": [True, 0, None],
    "bytes": [0, None, 1],
    "range": [pack(pair, "f") for pair in ((NAN, 0), (0, NAN), (0, -1), (1, 1), (float("inf"), 0))],
}


@on_every_engine
@pytest.mark.parametrize("key", BROKEN)
def test_what_would_break_later_is_refused(small, key):
    for value in BROKEN[key]:
        value = (
            [[*v] if isinstance(v, range) else v for v in value] if key == "categories" else value
        )
        refuse(sealed({**parts_of(small), key: value}))


def refuse(text):
    """All that read models refuse this, with the same sentence."""
    for read in (load, lambda text: read_model(io.BytesIO(text))):
        with pytest.raises(
            ValueError, match=r"^the model is damaged inside; train or copy it again$"
        ):
            read(text)


@on_every_engine
def test_splits_that_do_not_suit_their_feature_are_refused(small):
    """Numbers compare with finite thresholds, categories with the code of one, or with none."""
    model = parts_of(small)
    feature = unpack(model["feature"], "H")
    cuts = unpack(model["threshold"], "f")
    at = -1
    for i, f in enumerate(feature):
        if f == LEAF:
            continue
        at += 1
        changed = [*feature[:i], f ^ EQUAL, *feature[i + 1 :]]
        refuse(seal({**model, "feature": pack(changed, "H")}))
        wrong = [NAN, float("inf"), float("-inf")]
        if f & EQUAL:
            wrong += [0.5, -1.0, 4.0, 1e30]
        for cut in wrong:
            refuse(seal({**model, "threshold": pack([*cuts[:at], cut, *cuts[at + 1 :]], "f")}))
        none = [*cuts[:at], 0.0, *cuts[at + 1 :]]
        load(seal({**model, "threshold": pack(none, "f")}))


@on_every_engine
def test_a_regression_whose_range_is_none_is_refused():
    model = parts_of(fit(VALUES, criterion="mse").to_json())
    for pair in ((NAN, 1), (0, NAN), (0, -1), (float("inf"), 0), (0, float("inf")), (3e38, 3e38)):
        refuse(seal({**model, "range": pack(pair, "f")}))
    refuse(seal({**model, "classes": []}))
    for pair in ((-3e38, 3.4e38), (3.4e38, 0), (0, 0)):
        load(seal({**model, "range": pack(pair, "f")}))


@on_every_engine
def test_votes_that_add_up_to_2_24_are_refused():
    """Their sums would not be exact in float32; those of merged forests, just below it, are."""
    forest = fit(["only"] * len(ROWS), n_trees=1)
    forest.classes = ["a", "b"]
    forest.roots = array("I", range(257))
    forest.feature = array("H", [LEAF] * 257)
    forest.threshold = array("f", [0.0] * 257)
    forest.right = array("H", [0] * 256 + [1])
    for last, fits in ((255, True), (256, False), (65535, False)):
        forest.votes = array("H", [65535, 0, last, 1])
        forest.prepare()
        if fits:
            same(load(forest.to_json()), forest)
            assert read_model(io.BytesIO(forest.to_json().encode())).votes == forest.votes
        else:
            refuse(forest.to_json().encode())


@on_every_engine
def test_at_most_4096_classes_are_read(small):
    model = parts_of(fit(["only"] * len(ROWS), n_trees=1).to_json())
    for n in (4096, 4097):
        text = seal({**model, "classes": [*range(n)], "votes": pack([1] * n, "B"), "bytes": True})
        if n > 4096:
            refuse(text)
        else:
            assert load(text).predict(FRESH[0]) == 0


@on_every_engine
def test_letters_that_are_no_base64_are_refused(small):
    model = parts_of(small)
    for key in ("range", "roots", "feature", "threshold", "votes"):
        text = model[key]
        for wrong in (
            text + "=",
            "=" + text,
            text[:4] + "*" + text[4:],
            text[:4] + "\n" + text[4:],
        ):
            refuse(seal({**model, key: wrong}))
        refuse(seal({**model, key: text[:2] + "=" + text[3:]}))


def nodes_of(splits, roots):
    """Arrays of as many numbers as such nodes need: True is a split. All leaves vote alike."""
    return {
        "roots": pack(roots, "I"),
        "feature": pack([1 if split else LEAF for split in splits], "H"),
        "threshold": pack([0.5] * sum(splits), "f"),
        "leaf": pack([0] * (len(splits) - sum(splits)), "H"),
    }


def end_of(splits, node):
    """The node after a tree that begins here; beyond all nodes if it has no end."""
    if node >= len(splits):
        return len(splits) + 1
    return end_of(splits, end_of(splits, node + 1)) if splits[node] else node + 1


def is_preorder(splits, roots):
    """Whether these are trees one after another, with nothing but leaves between them."""
    upto = 0
    for root in roots:
        if root < upto or root >= len(splits) or any(splits[upto:root]):
            return False
        upto = end_of(splits, root)
    return bool(roots) and upto <= len(splits) and not any(splits[upto:])


def test_nodes_in_every_other_order_are_refused(small):
    """All forests of up to five nodes, and all roots that they could have."""
    model = parts_of(small)
    accepted = 0
    for n in range(1, 6):
        for splits in itertools.product([False, True], repeat=n):
            for count in range(n + 1):
                for roots in itertools.combinations(range(n + 1), count):
                    text = seal({**model, **nodes_of(splits, roots)})
                    fine = is_preorder(splits, roots)
                    assert refused_or_harmless(text) != fine, (splits, roots)
                    accepted += fine
    assert accepted > 50
    for roots in ([0, 0], [1, 0], [0, 1, 1]):
        assert refused_or_harmless(seal({**model, **nodes_of([False, False], roots)}))


@pytest.mark.parametrize("change", ["leaf", "split", "swap", "left out", "twice"])
def test_trees_in_impossible_order_are_refused(small, change):
    """Each node in turn is another one, with arrays of lengths that fit."""
    model = parts_of(small)
    roots = unpack(model["roots"], "I")
    splits = [f != LEAF for f in unpack(model["feature"], "H")]
    refused = 0
    for i, kind in enumerate(splits):
        changed = splits[:]
        if change == "swap":
            changed[i : i + 2] = changed[i : i + 2][::-1]
        elif change == "left out":
            del changed[i]
        elif change == "twice":
            changed.insert(i, kind)
        else:
            changed[i] = change == "split"
        text = seal({**model, **nodes_of(changed, roots)})
        assert refused_or_harmless(text) != is_preorder(changed, roots), i
        refused += not is_preorder(changed, roots)
    assert refused


@pytest.mark.parametrize("n", [1, 61, 65535, 65537])
def test_the_deepest_tree_is_read_and_one_without_an_end_is_refused(small, n):
    model = {**parts_of(small), "wide": n > 65535}
    assert refused_or_harmless(seal({**model, **nodes_of([True] * n, [0])}))
    half = n // 2
    nodes = nodes_of([True] * half + [False] * (half + 1), [0])
    nodes["leaf"] = pack([0] * (half + 1), "I" if n > 65535 else "H")
    forest = loading.load(seal({**model, **nodes}))
    assert list(forest.right[:half]) == list(range(n - 1, half, -1))
    assert refused_or_harmless(seal({**model, **nodes, "wide": n < 65536}))


@pytest.mark.parametrize("depth", [100, 5_000, 200_000])
@pytest.mark.parametrize("pair", ["[]", '{"a":}'])
def test_nesting_without_end_is_refused(small, depth, pair):
    opening, closing = pair[:-1], pair[-1]
    nested = (opening * depth + "0" + closing * depth).encode()
    for key in ("features", "importances", "seed"):
        model = {**parts_of(small), key: "HERE"}
        refused_or_harmless(reseal(seal(model).replace(b'"HERE"', nested)))


ARRAYS = {"range": "f", "roots": "I", "feature": "H", "threshold": "f", "leaf": "H", "votes": "H"}


@FUZZ
@given(st.data())
def test_random_numbers_in_the_arrays_are_refused_or_harmless(small, data):
    model = spelled(parts_of(small))
    nodes = len(unpack(model["feature"], "H"))
    for key in data.draw(st.lists(st.sampled_from(sorted(ARRAYS)), min_size=1, max_size=3)):
        code = ARRAYS[key]
        number = st.floats(width=32)
        if code != "f":
            top = 2 ** (8 * array(code).itemsize) - 1
            number = st.one_of(
                st.integers(0, 5), st.integers(0, nodes + 1), st.integers(0, top), st.just(LEAF)
            )
        values = unpack(model[key], code)
        if data.draw(st.booleans()):
            values = data.draw(st.lists(number, max_size=2 * nodes))
        else:
            for _ in range(data.draw(st.integers(1, 4)) if values else 0):
                values[data.draw(st.integers(0, len(values) - 1))] = data.draw(number)
        model[key] = pack(values, code)
    refused_or_harmless(seal(model))


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@FUZZ
@given(st.dictionaries(st.sampled_from(KEYS), JSON, min_size=1, max_size=4))
def test_random_parts_are_refused_or_harmless(small, parts):
    refused_or_harmless(seal({**parts_of(small), **parts}))


def test_random_text_under_a_seal_that_fits_is_refused_or_harmless(small):
    rng = random.Random(6)
    alphabet = b'0123456789-+.eE[]{}",:/=ABCabc\\\x00\xff\xc3 nulltruefalse'
    refused = 0
    for _ in range(4000):
        text = bytearray(small)
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            place = rng.randrange(24, len(text) - 20)
            width = rng.choice([0, 1, 1, 1, 3, 10])
            text[place : place + width] = bytes(
                rng.choices(alphabet, k=rng.choice([0, 1, 1, 2, 6]))
            )
        try:
            text = reseal(bytes(text))
        except ValueError:
            continue
        refused += refused_or_harmless(text)
    assert 1000 < refused < 4000


# ---- Cut short --------------------------------------------------------------------------------


@on_every_engine
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kind": "extra-trees", "criterion": "entropy"},
        {"kind": "random-patches", "splitter": "exact"},
        {"splitter": "mab-paper", "criterion": "mse"},
        {"criterion": "mse", "max_leaf_nodes": 6},
        {"budget": 2000},
    ],
)
def test_a_forest_cut_short_after_any_step_is_a_valid_forest(options, engine):
    options = {"n_trees": 3, "max_depth": 4, "max_features": 3, "categorical": [0, 3], **options}
    y = VALUES if options.get("criterion") == "mse" else LABELS
    whole = sum(1 for _ in train_steps(ROWS, y, **options))
    assert whole >= (3 if engine == "native" else 9)  # a step is a piece of a tree, or a round
    texts = set()
    stops = [n for n in range(whole + 1) if n < 6 or n % 7 == 0 or n == whole]
    for stop in stops:
        training = train_steps(ROWS, y, **options)
        if stop:
            for number, step in enumerate(training, 1):
                if number == stop:
                    forest = step.forest()
                    break
        else:
            forest = training.forest()
        assert 1 <= len(forest) <= 3
        text = forest.to_json()
        texts.add(text)
        again = load(text)
        same(forest, again)
        harmless(text)
        if forest.classes is not None:
            assert all(abs(sum(shares) - 1.0) < 1e-9 for shares in forest.predict_proba(FRESH))
    assert text == train(ROWS, y, **options).to_json()
    assert len(texts) > len(stops) // 2


@on_every_engine
def test_training_is_over_once_the_forest_was_asked_for():
    training = train_steps(ROWS, LABELS, categorical=[0, 3], n_trees=3, max_depth=4)
    steps = 0
    for step in training:
        steps += 1
        if steps == 5:
            text = step.forest().to_json()  # while the loop is still running: this ends it
    assert steps == 5
    assert list(training) == []
    assert training.forest().to_json() == text
