"""Read a model: whatever is not ours, of another version, cut short, altered or damaged is refused.

    load    a forest from a path, an open file or its text, which is in memory as a whole

`reader.read_model` reads a model in small pieces, with the checks that are here. This file runs
unchanged on CPython and MicroPython.
"""

import json
import struct
from array import array
from binascii import a2b_base64

from edgeforest.forest import (
    CRITERIA,
    EQUAL,
    FEATURE,
    HUGE,
    INF,
    KINDS,
    LEAF,
    LEVELS,
    MASK,
    PIECE,
    SPLITTERS,
    SUM,
    VERSION,
    Forest,
    Spent,
    collect,
)

try:
    from binascii import crc32 as crc32
except ImportError:  # some boards
    from edgeforest.crc import crc32 as crc32

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def load(source: "Any") -> "Forest":
    """Read a model from a path, an open stream, or its JSON text (str or bytes starting with `{`).

    A file that is not ours, of a newer version, cut short or altered is refused with a ValueError.
    """
    text: "Any" = text_of(source)
    check_version(text)
    check_seal(text[-20:], crc32(memoryview(text)[:-20], 0))
    collect()
    try:
        model = json.loads(text)
        for key in ("range", "roots", "feature", "threshold", "leaf", "votes"):
            if model[key].encode() not in text:  # a letter is written as an escape
                raise ValueError
        source = text = None  # a small heap has room for one of the two
        collect()
        forest = _from_json(model)
    except MemoryError:
        raise
    except Exception:
        forest = None
    return check_whole(forest)


def text_of(source: "Any") -> "bytes":
    """The text of a model, from a path, an open stream, or itself."""
    if hasattr(source, "read"):
        text = source.read()
    elif isinstance(source, (str, bytes, bytearray)) and source[:1] in ("{", b"{"):
        text = source
    elif isinstance(source, (str, bytes)) or hasattr(source, "__fspath__"):
        with open(source, "rb") as stream:
            text = stream.read()
    else:
        raise TypeError(f"give a path, an open file or the text of a model; got {source!r}")
    if isinstance(text, str):
        text = text.encode()
    return text.strip()  # type: ignore[no-any-return]


def check_version(head: "bytes") -> "None":
    """Refuse what does not begin as a model of this format does."""
    if head[:23] != b'{"format":"edgeforest",':
        raise ValueError("this is not an EdgeForest model; give a file that Forest.save wrote")
    version = head[33 : head.find(b",", 33)]
    if version != b"%d" % VERSION:
        raise ValueError(
            f"model format {str(version[:9])[2:-1]} is not supported, only {VERSION} is; "
            "install a newer edgeforest"
        )


def check_seal(seal: "bytes", crc: "int") -> "None":
    """Refuse a model whose last 20 bytes do not hold the checksum of those before them."""
    if seal[:10] != b',"crc32":"' or seal[18:] != b'"}':
        raise ValueError("the model is cut short; copy the file again")
    if seal[10:18] != b"%04x%04x" % (crc >> 16, crc & 65535):
        raise ValueError("the model was altered: its checksum is wrong; copy the file again")


def check_whole(forest: "Forest | None") -> "Forest":
    """Refuse a model whose parts do not fit together."""
    if forest is None:
        raise ValueError("the model is damaged inside; train or copy it again")
    return forest


def _from_json(model: "dict[str, Any]") -> "Forest | None":
    """A forest from its parsed JSON; None if its parts do not fit together."""
    forest = take_header(Forest(), model)
    forest.low, forest.span = from_base64(model["range"], "f")
    forest.roots = from_base64(model.pop("roots"), "I")
    forest.feature = from_base64(model.pop("feature"), "H")
    forest.votes = array("H", from_base64(model.pop("votes"), "B" if model["bytes"] else "H"))
    n = len(forest.feature)
    wide = n > 65535
    code = "I" if wide else "H"
    cuts = from_base64(model.pop("threshold"), "f")
    places = from_base64(model.pop("leaf"), code) or range(n - len(cuts))
    forest.threshold = array("f", range(n))
    forest.right = array(code, range(n))
    if model["wide"] is not wide or len(cuts) + len(places) != n:
        return None
    if not link(forest, iter(cuts), iter(places)):
        return None
    forest.prepare()
    return forest


def take_header(forest: "Forest", model: "dict[str, Any]") -> "Forest":
    """Give a forest its header; raises anything if that is not what a training can have written."""
    for key in forest.header:
        setattr(forest, forest.attribute(key), model[key])
    spent = insertions, rows, rounds = model["spent"]
    forest.spent = Spent(insertions, rows, rounds)
    _whole(spent, 0, INF)
    _whole([forest.seed], 0, MASK)
    _whole([forest.scale], 1, LEVELS)
    if forest.limit is not None:
        _whole([forest.limit], 1, INF)
    names = forest.names
    m = len(names)
    for part in (names, forest.importances, forest.categories):
        if not isinstance(part, list) or not 0 < len(part) == m <= FEATURE:
            raise ValueError
    _whole(forest.importances, 0, 1000000)
    forest.calibration = numbers = model.get("calibration", ())
    _whole(numbers, 0, MASK)
    for kinds in forest.categories:
        if kinds is not None:
            _refuse_odd(kinds, 254)
    "".join(names).encode()
    classes = forest.classes
    if (forest.criterion == "mse") is not (classes is None) or type(model["bytes"]) is not bool:
        raise ValueError
    if classes is not None:
        classes[0]  # at least one
        _refuse_odd(classes, 4096)
    KINDS.index(forest.kind)
    CRITERIA.index(forest.criterion)
    SPLITTERS.index(forest.splitter)
    forest.prepare()
    return forest


def _whole(values: "list[Any]", low: "int", high: "float") -> "None":
    for value in values:
        if type(value) is not int or not low <= value <= high:
            raise ValueError


def _refuse_odd(labels: "list[Any]", most: "int") -> "None":
    """Labels and categories are all text or all finite numbers, and differ."""
    if not isinstance(labels, list) or not len(set(labels)) == len(labels) <= most:
        raise ValueError
    if labels and isinstance(labels[0], str):
        "".join(labels).encode()  # not half of a surrogate pair
    elif sum([v - v for v in labels]) != 0:
        raise ValueError


def link(forest: "Forest", values: "Iterator[float]", places: "Iterator[int]") -> "bool | None":
    """Give splits their thresholds and right children, and leaves the places of their votes.

    Returns whether all parts of the forest fit together, so that none leads prediction astray.
    """
    feature, right, roots = forest.feature, forest.right, forest.roots
    votes, width = forest.votes, forest.n_votes
    low, span = forest.low, forest.span
    n = len(feature)
    if len(votes) % width or not (0 <= span <= HUGE and -HUGE <= low <= low + span <= 1.001 * HUGE):
        return None
    if not forest.regression and (low or span):
        return None
    # Sums of votes are exact in float32; only merged forests take a second look.
    loud = max(votes or (0,)) * len(roots) > SUM
    total = most = trees = 0
    last = n  # of the splits that wait for their right child; in `right` is the one before
    for i in range(n):
        f = feature[i]
        if not i or feature[i - 1] == LEAF:  # it is not a left child
            if last < n:
                above = right[last]
                right[last] = i
                last = above
            elif trees < len(roots) and roots[trees] == i:
                trees += 1
                total += most
                most = 0
            elif f != LEAF:  # only leaves that Ctrl-C left without a parent belong to no tree
                return None
        if f == LEAF:
            right[i] = place = next(places)
            forest.threshold[i] = 0.0
            place *= width
            if place >= len(votes):
                return None
            if loud:
                most = max(most, max(votes[place : place + width]))
        else:
            forest.threshold[i] = cut = next(values)
            kinds = forest.categories[f & FEATURE]
            if kinds is None:
                if f & EQUAL or cut - cut != 0:
                    return None
            elif not (f & EQUAL and 0 <= cut <= len(kinds) and cut == int(cut)):
                return None
            right[i] = last
            last = i
    return last == n and 0 < trees == len(roots) and total + most <= SUM


def from_base64(text: "str", code: "str") -> "array[Any]":
    """An array from its little-endian bytes in base64; strict where `a2b_base64` is not."""
    data = a2b_base64(text.encode())
    size = struct.calcsize("<" + code)
    over = text.count("=")
    if over > 2 or 4 * (len(data) + over) != 3 * len(text) or len(data) % size:
        raise ValueError  # letters that are not base64, or half a number
    values = array(code)
    for i in range(0, len(data), size * PIECE):
        count = min(PIECE, (len(data) - i) // size)
        values.extend(array(code, struct.unpack_from(f"<{count}{code}", data, i)))
    return values
