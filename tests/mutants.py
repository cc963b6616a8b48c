"""Altered models: any part of a model file changed, and the checksum made right again.

A mutant is what a broken disk, a careless program or somebody with bad intentions may leave: its
checksum fits, so that only a look at every part can tell that it is none of ours.
"""

from __future__ import annotations

import base64
import json
import random
import struct
import zlib
from collections.abc import Iterator
from typing import Any

NAN, INF = float("nan"), float("inf")
CODES = {  # of the packed arrays
    **{"range": "f", "roots": "I", "feature": "H", "threshold": "f", "leaf": "H", "votes": "H"},
    **{"importance": "d", "window": "f", "labels": "H"},
}
WICKED: list[Any] = [
    *(None, True, False, 0, 1, 2, -1, -100, 3, 7, 100, 254, 255, 256, 4096, 4097, 32767, 65534),
    *(65535, 65536, 16777215, 16777216, 2**30, 2**31, 2**32, 2**53, 2**63, 2**64, -(2**63)),
    *(10**30, 10**400, 0.5, 1.0, -0.0, 1.5, -1.0, 1e-45, 1e-300, 3.4e38, 3.5e38, 1e308),
    *(NAN, INF, -INF, "", "x", "0", "1", "mse", "gini", "extra-trees", "AAAA", "AAA=", "\ud800"),
    *('","crc32":"', "a\x00b", "\\", "\u202e", "=" * 8, [], [0], [None], [[]], [""], ["a", "a"]),
    *([NAN], [1, "a"], [True, 1], ["\udfff"], {}, {"a": 1}, [0, 1, 2], [-1, 0, 1], [0.5]),
]
NUMBERS = {
    "H": [
        0,
        1,
        2,
        3,
        0x3FFF,
        0x4000,
        0x4001,
        0x7FFF,
        0x8000,
        0x8001,
        0xBFFF,
        0xC000,
        0xFFFE,
        0xFFFF,
    ],
    "I": [0, 1, 2, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1],
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 254.0, 255.0, 1e9, -1e9, 3.4e38, -3.4e38, 1e-45],
    "d": [0.0, -0.0, 1.0, -1.0, 1e300, -1e-300, 5e-324],
}
NUMBERS["f"] += [NAN, INF, -INF]
NUMBERS["d"] += [NAN, INF, -INF]


def sealed(model: dict[str, Any]) -> bytes:
    """The text of a model with a checksum that fits, whatever it holds."""
    parts = {key: value for key, value in model.items() if key != "crc32"}
    text = json.dumps(parts, separators=(",", ":"))[:-1]
    return f'{text},"crc32":"{zlib.crc32(text.encode()):08x}"}}'.encode()


def mutants(text: bytes, seed: int, count: int, mild: bool = False) -> Iterator[bytes]:
    """So many altered copies of a model; `mild` ones keep what makes most of them refused."""
    for i in range(count):
        rng = random.Random(f"{seed} {i}")
        model = json.loads(text)
        if mild:
            for _ in range(rng.randrange(1, 9)):
                _alter_mildly(rng, model)
        else:
            for _ in range(rng.choice([1, 1, 1, 1, 2, 3])):
                _alter(rng, model, _key(rng, model))
        yield sealed(model)


SIGNS = [
    *(b",", b":", b"{", b"}", b"[", b"]", b'"', b"\\", b"'", b"//", b" ", b"\n", b"\0", b"\xff"),
    *(b"1", b"-", b"e", b".", b"01", b"null", b"NaN", b"Infinity", b"true", b"=", b"\\u0041"),
    *(b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\ud800", b"5:6,", b'"a":1,', b'"training":x,'),
]


def scrambled(text: bytes, seed: int, count: int) -> Iterator[bytes]:
    """So many copies of a model with other bytes somewhere, mostly where a part begins or ends."""
    body = text[: text.rindex(b',"crc32"')]
    marks = [i for i, c in enumerate(body) if c in b',:[]{}"' and i > 33]
    for i in range(count):
        rng = random.Random(f"{seed} {i}")
        copy = bytearray(body)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            at = min(len(copy) - 1, rng.choice([rng.choice(marks), rng.randrange(34, len(body))]))
            way = rng.randrange(5)
            if way == 0:
                del copy[at : at + rng.choice([1, 1, 2, 5])]
            elif way == 1:
                copy[at:at] = rng.choice(SIGNS)
            elif way == 2:
                copy[at : at + 1] = rng.choice(SIGNS)
            elif way == 3:
                copy[at] ^= 1 << rng.randrange(8)
            else:
                copied = rng.randrange(34, len(copy))
                copy[at:at] = copy[copied : copied + rng.randrange(1, 20)]
        yield bytes(copy) + b',"crc32":"%08x"}' % zlib.crc32(copy)


def _alter_mildly(rng: random.Random, model: dict[str, Any]) -> None:
    """Other numbers and other texts, as many as before."""
    key = rng.choice(["threshold", "threshold", "votes", "votes", "feature", "leaf", "range", ""])
    if key:
        code = "B" if key == "votes" and model["bytes"] else CODES[key]
        values = _unpacked(code, model[key])
        if values and key == "leaf":
            values[rng.randrange(len(values))] = rng.choice(values)
        elif values and key == "feature" and rng.random() < 0.5:
            i = rng.randrange(len(values))
            values[i] ^= 0x8000 * (values[i] != 0xFFFF)
        elif values:
            size = {"B": 255, "H": 65535}.get(code, 0)
            numbers = [0, 1, size, rng.randrange(size + 1)] if size else NUMBERS[code]
            values[rng.randrange(len(values))] = rng.choice([*numbers, rng.choice(values)])
        model[key] = _packed(code, values)
        return
    odd = [v for v in WICKED if isinstance(v, (str, int, float)) and v == v]
    key = rng.choice(
        ["features", "classes", "categories", "importances", "scale", "seed", "budget"]
    )
    if key in ("scale", "seed", "budget"):
        model[key] = rng.choice([1, 2, 255, 65535, model[key]])
    elif key == "importances":
        model[key] = [rng.choice([0, 1, 1000000, v]) for v in model[key]]
    else:
        labels = rng.choice(model[key]) if key == "categories" else model[key]
        for i, v in enumerate(labels or ()):
            if rng.random() < 0.4:
                labels[i] = rng.choice([w for w in odd if isinstance(w, str) == isinstance(v, str)])


def _key(rng: random.Random, model: dict[str, Any]) -> str:
    """Which part to alter: what is in the training is as likely as all the rest."""
    keys = [key for key in model if key not in ("format", "version", "crc32")]
    return "training" if "training" in keys and rng.random() < 0.5 else rng.choice(keys)


def _alter(rng: random.Random, model: dict[str, Any], key: str) -> None:
    if key not in model:
        return
    way = rng.random()
    if way < 0.03:
        del model[key]
    elif way < 0.06:
        other = rng.choice(list(model))
        if other not in ("format", "version"):
            model[key], model[other] = model[other], model[key]
    else:
        model[key] = _altered(rng, key, model[key])


def _altered(rng: random.Random, key: str, value: Any) -> Any:
    """Another value for a key: anything at all, or nearly the old one."""
    if rng.random() < 0.2:
        return rng.choice(WICKED)
    if isinstance(value, dict) and value:
        inner = rng.choice(list(value))
        if rng.random() < 0.1:
            return {k: v for k, v in value.items() if k != inner}
        if rng.random() < 0.05:
            return {**value, rng.choice(["classes", "engine", "odd", "latest"]): rng.choice(WICKED)}
        return {**value, inner: _altered(rng, inner, value[inner])}
    if isinstance(value, list):
        return _altered_list(rng, key, list(value))
    if isinstance(value, str):
        packed = key in CODES and rng.random() < 0.9
        return _altered_pack(rng, CODES[key], value) if packed else _altered_text(rng, value)
    if isinstance(value, bool) or value is None:
        return rng.choice([True, False, None, 0, 1, *WICKED])
    if isinstance(value, dict) or abs(value) > 1e30 or value != value:
        return rng.choice(WICKED)
    near = [value + 1, value - 1, -value, 2 * value, value // 2, float(value), str(value)]
    return rng.choice([*near, *WICKED])


def _altered_list(rng: random.Random, key: str, values: list[Any]) -> Any:
    way = rng.randrange(8)
    i = rng.randrange(len(values)) if values else 0
    if way == 0:
        return values[:i] + values[i + 1 :]
    if way == 1:
        return [*values, rng.choice([*values, *WICKED])]
    if way == 2:
        return values[::-1]
    if way == 3:
        return values * rng.choice([0, 2, 300])
    if values and way == 4:
        values[i] = rng.choice(values)
        return values
    if values:
        values[i] = _altered(rng, "", values[i])
        return values
    return [rng.choice(WICKED)]


def _altered_text(rng: random.Random, text: str) -> str:
    way = rng.randrange(5)
    i = rng.randrange(len(text) + 1)
    if way == 0:
        return text[:i]
    if way == 1:
        return text[:i] + rng.choice('\0\n"\\=+/Aé\u2028') + text[i:]
    if way == 2:
        return text + rng.choice(["=", "AAAA", "A", " ", "AA=="])
    if way == 3:
        return text[:i] + text[i + 1 :]
    return text.swapcase()


def _altered_pack(rng: random.Random, code: str, text: str) -> str:
    """Other numbers in a packed array."""
    try:
        data = base64.b64decode(text)
    except ValueError:  # altered before
        return _altered_text(rng, text)
    if rng.random() < 0.05:  # half a number
        return base64.b64encode(data[: rng.randrange(len(data) + 1)]).decode()
    size = struct.calcsize(code)
    values = _unpacked(code, base64.b64encode(data[: len(data) // size * size]).decode())
    for _ in range(rng.choice([1, 1, 2, 5])):
        i = rng.randrange(len(values)) if values else 0
        way = rng.randrange(8)
        if way == 0:
            del values[i:]
        elif way == 1:
            values[i:i] = values[: rng.choice([1, 2, 5])]
        elif way == 2:
            values.extend([rng.choice(NUMBERS[code])] * rng.choice([1, 2, len(values)]))
        elif values and way == 3:
            j = rng.randrange(len(values))
            values[i], values[j] = values[j], values[i]
        elif values and way == 4:
            flipped = bytearray(struct.pack("<" + code, values[i]))
            flipped[rng.randrange(size)] ^= 1 << rng.randrange(8)
            values[i] = struct.unpack("<" + code, flipped)[0]
        elif values and way == 5:
            del values[i]
        elif values:
            values[i] = rng.choice(NUMBERS[code])
    return _packed(code, values)


def _unpacked(code: str, text: str) -> list[Any]:
    return [value for (value,) in struct.iter_unpack("<" + code, base64.b64decode(text))]


def _packed(code: str, values: list[Any]) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}{code}", *values)).decode()
