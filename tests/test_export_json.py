"""The model file: its document, schema and signature; read in pieces; with any content."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import random
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from runtimes import (
    ROOT,
    install,
    needs_board_heap,
    needs_micropython,
    needs_mpy_cross,
    output,
    run_micropython,
)
from test_model_file import (
    ARRAYS,
    FRESH,
    KEYS,
    VALUES,
    WICKED,
    fit,
    is_preorder,
    nodes_of,
    pack,
    parts_of,
    refused_or_harmless,
    reseal,
    same,
    seal,
    spelled,
    unpack,
)

from edgeforest import Forest, engine, load, loading, reader, train
from edgeforest.engines import with_predictor
from edgeforest.export.shrinking import shrink
from edgeforest.export.signing import load_signed, sign, verify
from edgeforest.reader import CHUNK, read_checkpoint, read_model

SCHEMA = json.loads((ROOT / "docs" / "model-format.schema.json").read_text(encoding="utf-8"))
KEY = b"0123456789abcdef"
OTHER = b"fedcba9876543210"


def models() -> dict[str, Forest]:
    """Forests of every kind."""
    rng = random.Random(3)
    wide = [[rng.random(), rng.random()] for _ in range(4200)]
    return {
        "classes": fit(n_trees=2, max_depth=3, max_features=4),
        "regression": fit(VALUES, criterion="mse", n_trees=2, max_depth=3),
        "numbers": fit([int(v) for v in VALUES], splitter="exact", budget=3000),
        "booleans": fit([v > 1 for v in VALUES], kind="extra-trees", criterion="entropy"),
        "fractions": fit([v / 2 for v in VALUES], kind="random-patches"),
        "one leaf": fit(["only"] * len(VALUES), n_trees=1),
        "signs": fit([['","votes":"', "\\", "ü\n\U0001f332\x00"][min(2, int(v))] for v in VALUES]),
        "shared": shrink(fit(n_trees=9))[0],
        "wide": train(wide, [a * b for a, b in wide], criterion="mse", n_trees=13),
    }


@pytest.fixture(scope="module")
def forests() -> dict[str, Forest]:
    return models()


@pytest.fixture(scope="module")
def text(forests: dict[str, Forest]) -> bytes:
    return forests["classes"].to_json().encode()


# ---- The document and the schema


def accepts(model: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(SCHEMA).is_valid(model))


def test_the_schema_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_accepts_real_models(forests: dict[str, Forest]) -> None:
    for name, forest in forests.items():
        model = json.loads(forest.to_json())
        assert accepts(model), name
        assert set(SCHEMA["required"]) == set(model)
        for key in (None, KEY):
            assert accepts(json.loads(sign(forest.to_json(), key)))


def test_the_schema_refuses_broken_models(text: bytes) -> None:
    model = json.loads(text)
    refused = 0
    for key in model:
        assert not accepts({k: v for k, v in model.items() if k != key}), key
        refused += sum(not accepts({**model, key: value}) for value in WICKED)
    assert refused > 0.8 * len(model) * len(WICKED)
    for wrong in (
        {"version": 1},
        {"format": "forest"},
        {"classes": None},
        {"criterion": "mse"},
        {"kind": "boosting"},
        {"scale": 65536},
        {"votes": model["votes"][:-1]},
        {"votes": model["votes"][:-4] + "*AAA"},
        {"range": "AAAA"},
        {"crc32": "0"},
        {"hmac": "0" * 64},
        {"sha256": "0" * 63},
    ):
        assert not accepts({**model, **wrong}), wrong


def test_what_the_schema_accepts_of_a_header_loads(text: bytes) -> None:
    model = parts_of(text)
    for key in ("kind", "criterion", "splitter", "seed", "scale", "spent", "budget"):
        for value in WICKED:  # a schema takes 1.0 for a whole number, loading does not
            if not isinstance(value, float) and accepts({**json.loads(text), key: value}):
                assert not refused_or_harmless(seal({**model, key: value})), (key, value)


def test_the_document_names_every_key_and_its_pseudo_code_predicts(
    forests: dict[str, Forest],
) -> None:
    page = (ROOT / "docs" / "model-format.md").read_text(encoding="utf-8")
    for key in [*SCHEMA["properties"]]:
        assert f"`{key}`" in page, key
    code = page.split("```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 24
    names: dict[str, Any] = {}
    exec(compile(code, "model-format.md", "exec"), names)
    for forest in forests.values():
        model = json.loads(forest.to_json())
        rows = FRESH if len(forest.names) == 4 else [[0.1, 0.9], [0.5, 0.5], [None, 1.0]]
        found = [names["predict"](model, list(forest.encode(row))) for row in rows]
        assert found == loading.load(forest.to_json()).predict(rows)


# ---- Signing


def test_a_signed_model_is_a_model(forests: dict[str, Forest]) -> None:
    for name, forest in forests.items():
        if name == "wide":
            continue
        plain = forest.to_json()
        for key in (None, KEY, "a key of text, and ümlauts"):
            signed = sign(plain, key)
            verify(signed, key)
            assert load(signed).to_json() == plain, name
            assert loading.load(signed.encode()).to_json() == plain
            assert load_signed(signed, key).to_json() == plain
            assert read_model(io.BytesIO(signed.encode())).to_json() == plain
            assert sign(signed, key) == signed
            assert sign(sign(plain, OTHER), key) == signed
            assert json.loads(signed)["crc32"] != json.loads(plain)["crc32"]


def test_the_digests_are_those_of_other_programs(text: bytes) -> None:
    body = text[: text.rindex(b',"crc32"')]
    model = json.loads(sign(text, KEY))
    assert model["sha256"] == hashlib.sha256(body).hexdigest()
    assert model["hmac"] == hmac.digest(KEY, body, "sha256").hex()
    assert list(model)[-3:] == ["sha256", "hmac", "crc32"]


def test_files_are_signed_in_place(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(text + b"\n")
    for source in (path, str(path), os.fsencode(path)):
        signed = sign(source, KEY)
        assert path.read_bytes() == signed.encode() + b"\n"
        verify(source, KEY)
        same(load_signed(source, KEY), load(text))
    assert list(tmp_path.iterdir()) == [path]


def test_a_wrong_or_missing_signature_is_refused(text: bytes) -> None:
    signed = sign(text, KEY)
    for function in (verify, load_signed):
        with pytest.raises(ValueError, match="does not fit the key; do not use it"):
            function(signed, OTHER)
        for other in (text, sign(text)):
            with pytest.raises(ValueError, match="has no signature; sign it"):
                function(other, KEY)
        with pytest.raises(ValueError, match="has no SHA-256; sign it first"):
            function(text)


def test_without_the_key_no_change_is_accepted(text: bytes) -> None:
    """Bits flipped, parts inserted, signatures moved: all with valid checksums."""
    signed = sign(text, KEY).encode()
    other = sign(fit(seed=5).to_json(), KEY).encode()
    body = signed[: signed.index(b',"sha256":"')]
    rng = random.Random(1)
    forged = []
    for _ in range(500):
        place = rng.randrange(1, len(body))
        changed = bytearray(body)
        changed[place] ^= 1 << rng.randrange(8)
        digest = b',"sha256":"%s"' % hashlib.sha256(changed).hexdigest().encode()
        mark = signed[signed.index(b',"hmac"') : -20]
        forged.append(reseal(bytes(changed) + digest + mark + signed[-20:]))
    votes = b',"votes":"%s"' % json.loads(other)["votes"].encode()
    for cut in (b',"sha256"', b',"hmac"', b',"crc32"'):  # the last of two keys would count
        forged.append(reseal(signed.replace(cut, votes + cut)))
    mark = signed[-94:-20]
    forged.append(reseal(signed.replace(mark, b"")))
    forged.append(reseal(signed.replace(mark, mark + mark)))
    forged.append(reseal(signed.replace(mark, mark.upper())))
    forged.append(reseal(other[: other.index(b',"sha256"')] + signed[-170:]))
    forged.append(signed.replace(mark, other[-94:-20]))
    for forgery in forged:
        assert forgery != signed
        with pytest.raises(ValueError, match="model") as caught:
            load_signed(forgery, KEY)
        assert len(str(caught.value).splitlines()) == 1


def test_damage_is_detected_without_a_key(text: bytes) -> None:
    signed = sign(text).encode()
    changed = reseal(signed.replace(b'"seed":0', b'"seed":1'))
    load(changed)
    with pytest.raises(ValueError, match="its SHA-256 does not fit; copy the file again"):
        verify(changed)
    with pytest.raises(ValueError, match="checksum is wrong"):
        verify(signed.replace(b'"seed":0', b'"seed":1'))
    for cut in (b"{", signed[:-1], signed[:100], signed[:-40]):
        with pytest.raises(ValueError, match=r"not an EdgeForest model|cut short"):
            verify(cut)


@pytest.mark.parametrize(
    ("source", "key", "error", "sentence"),
    [
        ("{", "short", ValueError, "key must have at least 16 bytes, got 5"),
        ("{", "", ValueError, "key must have at least 16 bytes, got 0"),
        ("{", 5, TypeError, "key must be text or bytes, got int"),
        (5, None, TypeError, "source must be a path or the text of a model, got int"),
        ("{}", KEY, ValueError, "not an EdgeForest model"),
        ("none.json", KEY, FileNotFoundError, r"none\.json"),
    ],
)
def test_what_cannot_be_signed_is_refused(
    source: Any, key: Any, error: type[Exception], sentence: str
) -> None:
    for function in (sign, verify, load_signed):
        with pytest.raises(error, match=sentence):
            function(source, key)


# ---- Read in pieces


def test_the_reader_gives_the_same_forest(forests: dict[str, Forest], tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    for name, forest in forests.items():
        forest.save(path)
        expected = loading.load(path)
        for found in (read_model(path), read_model(str(path))):
            assert found.to_json() == expected.to_json(), name
            for part in ("places", "n_votes", "n_features", "regression", "all_numbers"):
                assert getattr(found, part) == getattr(expected, part), (name, part)
            assert found.round_down() == expected.round_down()
            assert found.round_down().typecode == expected.round_down().typecode
            assert repr(found.spent) == repr(expected.spent)
            assert type(found.predictor) is (engine.pick().predictor or type(None))
        for engine_name in engine.present() if len(forest.names) == 4 else ():
            kind = engine.pick(engine_name)
            same(with_predictor(read_model(path), kind), with_predictor(expected, kind))


def test_white_space_and_unknown_keys_are_ignored(text: bytes) -> None:
    spaced = json.dumps(parts_of(text), indent=1).encode()[len('{\n "format"') :]
    head = b'{"format":"edgeforest","version":2' + spaced[spaced.index(b",", 20) :]
    more = b',"note":{"a":[1,{"b":"}]\\""}],"c":-1.5e3},"x":null'
    for body in (head[:-2], head[:-2] + more):
        for blank in (b"", b" \n" * CHUNK):
            model = blank + reseal(body + b',"crc32":"00000000"}') + blank
            found = read_model(io.BytesIO(model))
            assert found.to_json() == load(io.BytesIO(model)).to_json() == text.decode()


def with_training(text: bytes, state: bytes) -> bytes:
    """A model as an unfinished training leaves it."""
    return reseal(text.replace(b',"crc32":"', b',"training":' + state + b',"crc32":"'))


@pytest.mark.parametrize(
    "state", [{"next": 3, "signature": {"X": '"}],\\'}}, {}, [[1.5, None]], 0, "}", None]
)
def test_the_state_of_a_training_is_read_on_request(
    text: bytes, state: Any, tmp_path: Path
) -> None:
    model = with_training(text, json.dumps(state, indent=1).encode())
    path = tmp_path / "model.json"
    path.write_bytes(model)
    for source in (path, str(path), io.BytesIO(model), io.BytesIO(sign(model, KEY).encode())):
        forest, found = read_checkpoint(source)
        assert (forest.to_json(), found) == (text.decode(), state)
    assert read_model(path).to_json() == text.decode()
    assert read_checkpoint(io.BytesIO(text))[1] is None


def test_a_board_parses_the_state_only_on_request(
    text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "BOARD", True)
    state = b"[" + b"[]," * 20_000 + b"0]"
    model = with_training(text, state)
    tracemalloc.start()
    try:
        read_model(io.BytesIO(model))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        assert len(read_checkpoint(io.BytesIO(model))[1] or ()) == 20_001
        assert tracemalloc.get_traced_memory()[1] > 10 * len(state)
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(state)


@pytest.mark.parametrize("state", [b"", b"{", b'{"a":1]', b'"', b"nothing", b"1 2", b"{}{}"])
def test_a_broken_state_is_refused(text: bytes, state: bytes) -> None:
    model = with_training(text, state)
    for read in (loading.load, read_checkpoint, read_model):
        with pytest.raises(ValueError, match="damaged inside; train or copy it again"):
            read(io.BytesIO(model))


def outcome(read: Callable[[], Forest]) -> tuple[str, str]:
    """Whether a model was accepted, and its text, or why it was refused."""
    try:
        told = "taken", read().to_json()
    except ValueError as error:
        told = "refused", str(error)
    assert len(told[1].splitlines()) == 1
    return told


def compare(model: bytes) -> bool:
    """Whether both ways of loading refuse a model. The reader may be stricter, with one sentence."""
    whole = outcome(lambda: loading.load(io.BytesIO(model)))
    pieces = outcome(lambda: read_model(io.BytesIO(model)))
    if whole != pieces:
        assert whole[0] == "taken"
        assert pieces == ("refused", "the model is damaged inside; train or copy it again")
    return pieces[0] == "refused"


def both(model: bytes) -> bool:
    """Whether a model is refused; an accepted one predicts on every engine."""
    refused = refused_or_harmless(model)
    assert compare(model) >= refused
    return refused


def test_cut_files_are_refused_with_the_same_sentence(text: bytes) -> None:
    for n in range(len(text)):
        assert compare(text[:n])
    sealed = [text[:n] + b',"crc32":"00000000"}' for n in range(23, len(text) - 20, 3)]
    assert all(compare(reseal(model)) for model in sealed)


@pytest.mark.parametrize("name", ["classes", "regression", "signs", "shared"])
def test_flipped_bits_with_a_valid_checksum(
    forests: dict[str, Forest], name: str, figure: Callable[[str], None]
) -> None:
    text = forests[name].to_json().encode()
    rng = random.Random(name)
    refused = 0
    for _ in range(400):
        model = bytearray(text)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            model[rng.randrange(24, len(text) - 20)] ^= 1 << rng.randrange(8)
        refused += both(reseal(bytes(model)))
    assert 30 < refused < 400
    figure(f"{refused} of 400 refused, the others answer")


@pytest.mark.parametrize("name", ["classes", "regression"])
def test_parts_of_wrong_types(forests: dict[str, Forest], name: str) -> None:
    model = parts_of(forests[name].to_json())
    for key in KEYS:
        for value in WICKED:
            both(seal({**model, key: value}))
        assert both(seal({k: v for k, v in model.items() if k != key}))


def test_text_inserted_and_removed(text: bytes) -> None:
    rng = random.Random(2)
    alphabet = b'0123456789-+.eE[]{}",:/=ABCabc\\\x00\xff\xc3\xef\xbb\xbf nulltruefalse'
    refused = 0
    for _ in range(800):
        model = bytearray(text)
        place = rng.randrange(24, len(text) - 20)
        letters = bytes(rng.choices(alphabet, k=rng.choice([0, 1, 1, 2, 6])))
        model[place : place + rng.choice([0, 1, 1, 3, 10])] = letters
        if model.count(b',"crc32":"'):
            refused += both(reseal(bytes(model)))
    assert 300 < refused < 800


def test_counts_and_places_beyond_all_bounds(text: bytes) -> None:
    model = spelled(parts_of(text))
    most = {"roots": 2**32 - 1, "feature": 2**14 - 2, "leaf": 2**16 - 1}
    for key, top in most.items():
        code = "I" if key == "roots" else "H"
        values = unpack(model[key], code)
        for place in range(len(values)):
            wrong = [*values[:place], top, *values[place + 1 :]]
            assert both(seal({**model, key: pack(wrong, code)})), (key, place)
    for key in ("seed", "budget", "scale", "spent", "importances"):
        for digits in (20, 4000, 50_000):
            value: Any = "HERE" if key in ("seed", "budget", "scale") else ["HERE"] * 4
            huge = seal({**model, key: value}).replace(b'"HERE"', b"9" * digits)
            assert both(reseal(huge)) or (key != "scale" and digits < 50_000)


@pytest.mark.parametrize("pair", ["[]", '{"a":}'])
def test_nesting_without_end(text: bytes, pair: str) -> None:
    for depth in (50, 5_000, 100_000):
        nested = (pair[:-1] * depth + "0" + pair[-1] * depth).encode()
        for key in ("features", "seed", "categories"):
            model = seal({**parts_of(text), key: "HERE"})
            both(reseal(model.replace(b'"HERE"', nested)))
        unknown = text.replace(b',"kind"', b',"more":' + nested + b',"kind"')
        compare(reseal(unknown))
        compare(reseal(unknown.replace(pair[-1].encode() * depth, b"")))


def test_nodes_in_impossible_order_are_refused_by_the_reader(text: bytes) -> None:
    """Splits and leaves in every order: trees one after another, or refused as `load` does."""
    model = parts_of(text)
    rng = random.Random(4)
    refused = 0
    for _ in range(1500):
        splits = [rng.random() < 0.45 for _ in range(rng.randint(1, 9))]
        roots = sorted(rng.sample(range(len(splits) + 1), rng.randint(1, min(3, len(splits)))))
        wrong = seal({**model, **nodes_of(splits, roots)})
        assert compare(wrong) != is_preorder(splits, roots), (splits, roots)
        refused += not is_preorder(splits, roots)
    assert 500 < refused < 1450


def test_thresholds_and_places_of_other_lengths_are_refused(text: bytes) -> None:
    model = spelled(parts_of(text))
    assert not both(seal(model))
    for key, code in (("threshold", "f"), ("leaf", "H")):
        values = unpack(model[key], code)
        for wrong in (values[:-1], values + values[:1], values[:1], 2 * values):
            assert both(seal({**model, key: pack(wrong, code)})), key
    cuts, leaves = unpack(model["threshold"], "f"), unpack(model["leaf"], "H")
    for more in (1, -1):  # as many numbers as nodes, but not as many as there are splits
        wrong = [0.0] * (len(cuts) + more), [0] * (len(leaves) - more)
        shifted = {"threshold": pack(wrong[0], "f"), "leaf": pack(wrong[1], "H")}
        assert both(seal({**model, **shifted}))
    assert both(seal({**model, "threshold": "", "leaf": ""}))


def test_letters_that_are_not_base64_are_refused_by_the_reader(text: bytes) -> None:
    """Other decoders skip them; in pieces, all later numbers would be different."""
    model = spelled(parts_of(text))
    for key in ARRAYS:
        packed = model[key]
        for wrong in (
            "*" + packed[1:],
            packed[:4] + "----" + packed[4:],
            packed[:3] + "=" + packed,
        ):
            with pytest.raises(ValueError, match="damaged inside"):
                read_model(io.BytesIO(seal({**model, key: wrong})))


def test_malformed_models_take_no_more_memory_than_their_size(text: bytes) -> None:
    """Large ones, read both ways: at most a few times the size of the file."""
    big = b"A" * 150_000
    model = text.replace(b'"votes":"', b'"votes":"' + big)
    cases = [model, reseal(model), text[:400] + big, big, b'{"format":"edgeforest",' + big]
    cases.append(reseal(text.replace(b',"kind"', b',"more":"' + big + b'","kind"')))
    for case in cases:
        for read in (loading.load, read_model):
            tracemalloc.start()
            try:
                outcome(lambda read=read, case=case: read(io.BytesIO(case)))
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert peak < 8 * len(case)


# ---- Nothing is executed

EVENTS: list[str] | None = None


def note(event: str, arguments: tuple[Any, ...]) -> None:
    if EVENTS is not None and event.split(".")[0] in (
        *("exec", "compile", "import", "os", "subprocess", "pickle", "marshal", "ctypes", "code"),
        *("socket", "shutil", "open"),
    ):
        EVENTS.append(f"{event} {arguments}")


@pytest.fixture
def events() -> Iterator[list[str]]:
    """Python's audit events of imports, code, files and processes while a test runs."""
    global EVENTS
    if not hasattr(sys, "edgeforest_hook"):
        sys.addaudithook(note)  # it stays for good, but listens only here
        sys.edgeforest_hook = True  # type: ignore[attr-defined]
    EVENTS = []
    yield EVENTS
    EVENTS = None


def test_nothing_in_a_model_is_executed(text: bytes, events: list[str]) -> None:
    wicked = [
        "__import__('os').system('touch executed')",
        "{0.__class__.__init__.__globals__}",
        "%(x)s%n",
        "cos\nsystem\n(S'touch executed'\ntR.",
        "${jndi:x}",
        "../../executed",
    ]
    model = parts_of(text)
    known = load(seal(model))
    known.predict(FRESH)
    events.clear()
    for code in wicked:
        changed = {**model, "classes": [code, code + "1", code + "2"]}
        changed["features"] = [code] * 4
        changed["categories"] = [[code, code + "1", code + "2"], None, None, [3, 5]]
        changed["__class__"] = changed["__reduce__"] = changed["predict"] = code
        for read in (load, lambda text: read_model(io.BytesIO(text))):
            forest = read(seal(changed))
            forest.predict([[code, 1.0, 1.0, 3]])
            repr(forest.to_json())
            assert type(forest.predict) is type(known.predict)
            for key in ("kind", "seed"):
                with pytest.raises(ValueError, match="damaged inside"):
                    read(seal({**changed, key: code}))
    assert events == []
    eval("1")
    assert events  # it does listen


# ---- On a board

ON_BOARD = """
import gc
import sys
from edgeforest import reader
from edgeforest.loading import crc32, load

def outcome(read, path):
    gc.collect()
    try:
        forest = read(path)
    except ValueError as error:
        return str(error)
    crc = 0
    for piece in forest.text():
        crc = crc32(piece.encode(), crc)
    return "taken %08x" % crc

for number in range(int(sys.argv[1])):
    path = "%d.json" % number
    print(outcome(load, path), "|", outcome(reader.read_model, path))
"""

PEAK = """
import gc
import sys
from edgeforest import reader
from edgeforest.loading import load

gc.collect()
before = gc.mem_alloc()
read = load if sys.argv[1] == "load" else reader.read_model
forest = read("model.json")
gc.collect()
print(before, gc.mem_alloc() - before, gc.mem_alloc() + gc.mem_free())
"""


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A folder as on a board, with our compiled files."""
    return install(tmp_path / "board")


@needs_mpy_cross
@needs_micropython
def test_the_reader_in_micropython(
    forests: dict[str, Forest], text: bytes, board: Path, figure: Callable[[str], None]
) -> None:
    """Valid models are read as on CPython; malformed ones give only an error sentence."""
    whole = [f.to_json().encode() for name, f in forests.items() if name != "wide"]
    whole.append(sign(text, KEY).encode())
    rng = random.Random(4)
    broken = [text[:n] for n in range(0, len(text), 97)]
    for _ in range(250):
        model = bytearray(text)
        model[rng.randrange(24, len(text) - 20)] ^= 1 << rng.randrange(8)
        broken.append(reseal(bytes(model)))
    model = parts_of(text)
    for key in KEYS:
        values = [None, 0, "", "AAAA", [], [None] * 4, {}]
        broken += [seal({**model, key: value}) for value in values]
    for number, one in enumerate(whole + broken):
        (board / f"{number}.json").write_bytes(one)
    count = len(whole + broken)
    lines = output(run_micropython(ON_BOARD, board, "300k", [str(count)])).splitlines()
    assert len(lines) == count
    pairs = [line.split(" | ") for line in lines]
    for (one, two), model in zip(pairs, whole, strict=False):
        crc = zlib.crc32(load(model).to_json().encode())
        assert one == two == f"taken {crc:08x}"
    refused = 0
    for one, two in pairs[len(whole) :]:
        assert one == two or (one.startswith("taken") and "damaged inside" in two)
        assert two.startswith("taken ") or "model" in two
        refused += not two.startswith("taken ")
    figure(f"{refused} of {len(broken)} refused, the others read")
    assert refused > len(broken) / 2


@needs_mpy_cross
@needs_board_heap
@pytest.mark.parametrize("name", ["3 classes", "12 classes", "regression", "large numbers"])
def test_the_peak_of_reading_is_at_most_one_and_a_half_times_the_model(
    name: str, board: Path, figure: Callable[[str], None]
) -> None:
    """The smallest heap that is enough to read it, minus what was in use before."""
    rng = random.Random(1)
    by = 1e6 if name == "large numbers" else 100
    rows = [[rng.random() * by for _ in range(6)] for _ in range(2000)]
    total = [(2 * a + b + c) / by / 4 for a, b, c, *_ in rows]
    options: dict[str, Any] = {"n_trees": 12, "max_depth": 7}
    if "classes" in name:
        y: list[Any] = [f"class {int(v * int(name.split()[0]))}" for v in total]
    else:
        y, options["criterion"] = total, "mse"
    forest = loading.load(train(rows, y, **options).to_json())
    arrays = (forest.roots, forest.feature, forest.threshold, forest.right, forest.votes)
    size = sum(len(part) * part.itemsize for part in (*arrays, forest.round_down()))
    file = board / "model.json"
    forest.save(file)
    told = []
    for way in ("load", "read") if name == "3 classes" else ("read",):
        low, high = 40_000, 800_000
        while high - low > 400:
            middle = (low + high) // 2
            done = run_micropython(PEAK, board, str(middle), [way])
            low, high = (low, middle) if done.returncode == 0 else (middle, high)
        numbers = output(run_micropython(PEAK, board, str(high), [way])).split()
        before, held, whole = map(int, numbers)
        peak = whole - before
        told.append(
            f"{way} {peak} ({peak / size:.2f} of the arrays, {peak / held:.2f} of what stays, "
            f"{peak / file.stat().st_size:.2f} of the file)"
        )
    figure(f"arrays {size}, file {file.stat().st_size} bytes; " + "; ".join(told))
    assert peak <= 1.5 * size


@needs_mpy_cross
@needs_micropython
@pytest.mark.parametrize("compiled", [False, True])
def test_the_reader_needs_few_of_our_files(text: bytes, compiled: bool, tmp_path: Path) -> None:
    """Compiled, and as mip installs them."""
    needed = ("forest", "loading", "checks", "budget", "reader", "writer")
    install(tmp_path, compiled, needed)
    (tmp_path / "model.json").write_bytes(text)
    script = """
import sys
from edgeforest.reader import read_model
read_model("model.json").write(sys.stdout)
"""
    assert output(run_micropython(script, tmp_path, "200k")) == text.decode()


@needs_mpy_cross
def test_the_compiled_reader_is_small(board: Path, figure: Callable[[str], None]) -> None:
    size = (board / "edgeforest" / "reader.mpy").stat().st_size
    figure(f"{size} bytes")
    assert size <= 4000
