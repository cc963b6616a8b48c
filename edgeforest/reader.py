"""Read a model file piece by piece, for boards that could not hold its text beside the forest.

`loading.load` needs memory for the text and for its content at the same time, about four times the
size of the forest. `read_model` goes through the file three times: for its checksum, for the places
of its parts, and to decode the arrays. Each array is made once, in its final size. A file that is not
a model is refused with the same sentences, before anything large is made. `read_checkpoint` also
returns the state of an unfinished training; `storage` resumes from it.

This file runs unchanged on CPython and MicroPython.

>>> from edgeforest import train
>>> forest = train([[i % 7] for i in range(60)], [i % 7 > 2 for i in range(60)], n_trees=4)
>>> forest.save("model.json")
>>> read_model("model.json").predict([[1], [5]])
[False, True]
"""

import json
import math
import struct
from array import array
from binascii import a2b_base64

from edgeforest.forest import BOARD, HEADER, MASK, PIECE, Forest, collect
from edgeforest.loading import check_seal, check_version, check_whole, crc32, link, take_header

try:
    from edgeforest.engines import with_predictor
except ImportError:  # a board

    def with_predictor(forest: "Any") -> "Any":  # type: ignore[misc]
        return forest


if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *

ARRAYS = ("votes", "feature", "roots", "threshold", "leaf", "range")
CHUNK = 16 * PIECE  # bytes of one read
SEAL = 20  # bytes of the checksum at the end
STATE = "training"  # the key of the state of an unfinished training
SMALL = HEADER + ["calibration", "spent", "wide", "bytes", STATE]  # keys of what is not an array


def read_model(source: "AnyPath | bytes | Seekable") -> "Forest":
    """Read a model from a path, or from an open file that can `seek` and reads bytes.

    The fastest engine present predicts. A file that is not a model, has a newer version, is cut short
    or was altered is refused with a ValueError.

    >>> read_model("nothing.json")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nothing.json'
    """
    return _open(source, False)[0]


def read_checkpoint(
    source: "AnyPath | bytes | Seekable",
) -> "tuple[Forest, dict[str, Any] | None]":
    """A model as `read_model` reads it, and the state of its training, None if that is over.

    >>> from edgeforest import storage, train
    >>> forest = train([[i % 7] for i in range(60)], [i % 7 > 2 for i in range(60)], n_trees=4)
    >>> storage.write(forest, "model.json", {"next": 4})
    >>> forest, state = read_checkpoint("model.json")
    >>> len(forest), state
    (4, {'next': 4})
    """
    return _open(source, True)


def _open(source: "Any", with_state: "bool") -> "tuple[Forest, Any]":
    if hasattr(source, "seek"):
        return _read(source, with_state)
    if not isinstance(source, (str, bytes)) and not hasattr(source, "__fspath__"):
        raise TypeError(f"give a path or an open file, got {source!r}")
    with open(source, "rb") as stream:
        return _read(stream, with_state)


def _read(stream: "Seekable", with_state: "bool") -> "tuple[Forest, Any]":
    start, end = _extent(stream)
    stream.seek(start)
    head = stream.read(min(64, end - start))
    check_version(head)
    stream.seek(max(start, end - SEAL))
    seal = stream.read(SEAL)
    crc = 0
    if end - start > SEAL:
        stream.seek(start)
        for at in range(start, end - SEAL, CHUNK):
            crc = crc32(stream.read(min(CHUNK, end - SEAL - at)), crc)
    check_seal(seal, crc)
    head = seal = None  # type: ignore[assignment]
    forest = None
    try:
        values = _parts(_Scan(stream, start, end), with_state)
        state = values.pop(STATE, None)
        forest = _forest(stream, values, Forest())
    except MemoryError:
        raise
    except Exception:
        forest = None
    return with_predictor(check_whole(forest)), state


def _extent(stream: "Seekable") -> "tuple[int, int]":
    """Where the text starts and ends, without the white space around it."""
    end = stream.seek(0, 2)
    start = 0
    stream.seek(0)
    while start < end:
        piece = stream.read(CHUNK)
        start += len(piece) - len(piece.lstrip())
        if piece.strip():
            break
    while start < end:
        at = max(start, end - CHUNK)
        stream.seek(at)
        piece = stream.read(end - at).rstrip()
        end = at + len(piece)
        if piece:
            break
    return start, end


class _Scan:
    """Reads the parts of a JSON object, with a few bytes in memory at a time."""

    def __init__(self, stream: "Seekable", start: "int", end: "int") -> "None":
        self.stream = stream
        self.end = end
        self.move(start)

    def move(self, at: "int") -> "None":
        """Continue from that byte of the file."""
        self.stream.seek(at)
        self.at = at  # of the first byte in `bytes`
        self.bytes = b""
        self.i = 0

    def place(self) -> "int":
        """The place in the file."""
        return self.at + self.i

    def byte(self) -> "int":
        """The byte at this place; a ValueError at the end, or if text cannot contain it."""
        if self.i == len(self.bytes):
            self.at += self.i
            self.i = 0
            self.bytes = self.stream.read(min(CHUNK, self.end - self.at))
            if not self.bytes:
                raise ValueError
        if not self.bytes[self.i]:
            raise ValueError
        return self.bytes[self.i]

    def token(self) -> "int":
        """The next byte that is not white space; moves past it."""
        while self.byte() in b" \t\n\r":
            self.i += 1
        self.i += 1
        return self.bytes[self.i - 1]

    def value(self) -> "Any":
        """The next value, of any kind, parsed."""
        start = self.place()
        self.pass_value()
        end = self.place()
        collect()
        self.stream.seek(start)
        text = self.stream.read(end - start).strip()
        self.move(end)
        if text[0] > 127:  # a byte order mark
            raise ValueError
        return json.loads(text)

    def pass_value(self) -> "None":
        """Move past a value."""
        depth = 0
        begun = False
        while True:
            c = self.byte()
            if c == 34:  # "
                self.i += 1
                self.pass_string()
            elif c == 91 or c == 123:  # [ {
                depth += 1
                self.i += 1
            elif depth == 0 and begun and (c == 44 or c == 58 or c == 93 or c == 125):  # , : ] }
                return
            else:
                if c == 93 or c == 125:
                    depth -= 1
                self.i += 1
            begun = True
            if depth == 0 and (c == 34 or c == 93 or c == 125):
                return

    def pass_string(self) -> "None":
        """Move past the rest of a string."""
        while True:
            c = self.byte()
            self.i += 1
            if c == 34:
                return
            if c == 92:  # an escaped quote does not end the string
                self.byte()
                self.i += 1

    def base64(self) -> "tuple[int, int, int]":
        """The place of a string of base64, its length, and how many letters of it are padding."""
        if self.token() != 34:
            raise ValueError
        start = self.place()
        over = 0
        at = -1
        while at < 0:
            self.byte()
            at = self.bytes.find(b'"', self.i)
            end = at if at >= 0 else len(self.bytes)
            over += self.bytes[self.i : end].count(b"=")
            self.i = end
        length = self.place() - start
        self.i += 1
        if length % 4 or over > 2:
            raise ValueError
        collect()  # on a board, what stays then lies below what goes
        return start, length, over


def _parts(scan: "_Scan", with_state: "bool") -> "dict[str, Any]":
    """The parts of a model by their keys; for an array, the place of its base64."""
    values: "dict[str, Any]" = {}
    after = scan.token()  # {
    while after != 125:  # }
        key = scan.value()
        if not isinstance(key, str) or scan.token() != 58:  # :
            raise ValueError
        if key in ARRAYS:
            values[key] = scan.base64()
        elif key == STATE and not with_state and BOARD:
            scan.pass_value()  # a board does not have the memory for it
        else:
            value = scan.value()
            if key in SMALL:
                values[key] = value
        after = scan.token()
        if after != 44 and after != 125:  # , }
            raise ValueError
    if scan.place() != scan.end:
        raise ValueError
    return values


def _forest(stream: "Seekable", values: "dict[str, Any]", forest: "Forest") -> "Forest | None":
    """The forest that the parts of a model make, None if they do not fit together."""
    # Everything small is made before the first array, and all arrays before their first number is
    # read. So no garbage fragments the memory that is left.
    take_header(forest, values)
    if values["range"][1:] != (12, 1):  # letters of two numbers
        raise ValueError
    forest.low, forest.span = next(_numbers(stream, values["range"], "f"))
    code = _code_of_cuts(stream, values["threshold"]) if BOARD else "h"
    codes = ("B" if values["bytes"] else "H", "H", "I")
    arrays = tuple(zip(ARRAYS, codes))  # noqa: B905  those that are kept as they are
    n = _count(values["feature"], "H")
    wide = "I" if n > 65535 else "H"
    forest.right = _zeros(wide, n)
    for name, kind in arrays:
        setattr(forest, name, _zeros("I" if kind == "I" else "H", _count(values[name], kind)))
    forest.threshold = _zeros("f", n)
    cut = _zeros(code, n) if BOARD else None
    for name, kind in arrays:
        into = getattr(forest, name)
        at = 0
        for part in _numbers(stream, values[name], kind):
            into[at : at + len(part)] = array("I" if kind == "I" else "H", part)
            at += len(part)
    splits = _count(values["threshold"], "f")
    leaves = _count(values["leaf"], wide) or n - splits
    if values["wide"] is not (wide == "I") or splits + leaves != n:
        return None
    thresholds = _each(stream, values["threshold"], "f")
    places = _each(stream, values["leaf"], wide) if values["leaf"][1] else iter(range(leaves))
    if not link(forest, thresholds, places):
        return None
    forest.cut = cut
    if cut is not None:
        for i, t in enumerate(forest.threshold):  # as `round_down` does, without a second copy
            cut[i] = math.floor(max(-MASK, min(MASK, t)))
    return forest


def _code_of_cuts(stream: "Seekable", where: "tuple[int, int, int]") -> "str":
    """The typecode that `prepare` uses for the thresholds, rounded down."""
    for part in _numbers(stream, where, "f"):
        collect()  # or garbage would lie where the arrays should
        for t in part:
            if not -32768 <= t < 32768:
                return "i"
    return "h"


def _count(where: "tuple[int, int, int]", code: "str") -> "int":
    """How many numbers a string of base64 holds."""
    n = where[1] // 4 * 3 - where[2]
    size = struct.calcsize("<" + code)
    if n % size:
        raise ValueError
    return n // size


def _numbers(
    stream: "Seekable", where: "tuple[int, int, int]", code: "str"
) -> "Iterator[tuple[Any, ...]]":
    """The numbers of a string of base64, some at a time; stricter than `a2b_base64`."""
    at, length, over = where
    size = struct.calcsize("<" + code)
    while length:
        some = min(length, PIECE // 3 * 4 * size)
        stream.seek(at)  # another array may be read at the same time
        at += some
        length -= some
        data = a2b_base64(stream.read(some))
        if len(data) != some // 4 * 3 - (0 if length else over):  # letters that are not base64
            raise ValueError
        yield struct.unpack(f"<{len(data) // size}{code}", data)


def _each(stream: "Seekable", where: "tuple[int, int, int]", code: "str") -> "Iterator[Any]":
    """The numbers of a string of base64, one by one."""
    for part in _numbers(stream, where, code):
        yield from part


def _zeros(code: "str", n: "int") -> "array[Any]":
    """An array of n numbers; on MicroPython they are not zeros."""
    collect()
    try:
        return array(code, [0]) * n
    except TypeError:  # MicroPython cannot multiply arrays; a range has a known length
        return array(code, range(n))
