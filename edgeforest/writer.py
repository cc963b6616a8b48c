"""Write a forest as compact JSON: the same bytes on every machine, one small piece after another.

A board loads this file when it saves its first model. `docs/model-format.md` describes what is
written; `loading.load` and `reader.read_model` read it.
"""

import struct
from binascii import b2a_base64

try:
    from binascii import crc32
except ImportError:  # some boards
    from edgeforest.crc import crc32

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def sealed(forest: "Any", tail: "Iterable[str]" = ()) -> "Iterator[str]":
    """The pieces of a model, then those of `tail`, and a checksum of all of them."""
    crc = 0
    for parts in (pieces(forest), tail):
        for piece in parts:
            crc = crc32(piece.encode(), crc)
            yield piece
    yield f',"crc32":"{hex_crc(crc)}"}}'


def pieces(forest: "Any") -> "Iterator[str]":
    """The model without its end."""
    yield '{"format":"edgeforest"'
    spent, n = forest.spent, len(forest.feature)
    wide = n > 65535
    small = max(forest.votes or (0,)) < 256
    yield f',"version":{forest.version}'
    for key in forest.header:
        yield f',"{key}":{_text(getattr(forest, forest.attribute(key)))}'
    numbers = getattr(forest, "calibration", None)
    if numbers:
        yield f',"calibration":{_text(numbers)}'
    for key, value in (
        ("spent", [spent.insertions, spent.rows_read, spent.rounds]),
        ("wide", wide),
        ("bytes", small),
    ):
        yield f',"{key}":{_text(value)}'
    places: "Any" = ()  # written only if they are not 0, 1, 2, ...
    leaves = 0
    feature, leaf = forest.feature, forest.leaf
    for i in range(n):
        if feature[i] == leaf:
            if forest.right[i] != leaves:
                places = forest.right
            leaves += 1
    arrays: "tuple[tuple[str, Any, str, bool | None], ...]" = (
        ("range", (forest.low, forest.span), "f", None),
        ("roots", forest.roots, "I", None),
        ("feature", feature, "H", None),
        ("threshold", forest.threshold, "f", False),
        ("leaf", places, "I" if wide else "H", True),
        ("votes", forest.votes, "B" if small else "H", None),
    )
    for name, values, code, of_leaves in arrays:
        yield f',"{name}":"'
        part = []
        for i in range(len(values)):
            if of_leaves is None or (feature[i] == leaf) is of_leaves:
                part.append(values[i])
                if len(part) == forest.piece:
                    yield to_base64(part, code)
                    part = []
        yield to_base64(part, code) + '"'
    ranges = getattr(forest, "ranges", None)
    if ranges:
        yield f',"ranges":"{to_base64(ranges, "f")}"'


def hex_crc(crc: "int") -> "str":
    """A checksum in eight digits."""
    return f"{crc >> 16:04x}{crc & 65535:04x}"


def to_base64(values: "Sequence[Any]", code: "str") -> "str":
    """An array as its little-endian bytes in base64."""
    return b2a_base64(struct.pack(f"<{len(values)}{code}", *values)).decode().strip()


def _text(value: "Any") -> "str":
    """A value of the header as JSON, the same on every platform."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ",".join([_text(v) for v in value]) + "]"
    if not isinstance(value, str):
        return repr(value)
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    if min(text.encode() or b" ") < 32:  # MicroPython keeps each c for good: only if need be
        text = "".join([c if ord(c) > 31 else "\\u%04x" % ord(c) for c in text])
    return '"' + text + '"'
