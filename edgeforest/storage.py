"""Read rows from `.npy` files, and train so that a power cut costs one tree at most.

    Npy         a table of numbers in a file, of which only some rows are read
    draw        which rows: a random choice, in the order of the file
    train       writes the model to a file after every tree; resumes after a power cut
    Resumable   the same in steps
    load        the model in such a file

This file runs unchanged on CPython and MicroPython. It takes memory for the rows that are asked for,
and half a kilobyte.

>>> from edgeforest.sources import Table, binary
>>> rows = [[i % 50, i % 7, i % 50 > 20] for i in range(5000)]
>>> binary.pack(Table(rows), "log.npy").close()
>>> log = Npy("log.npy")
>>> log.shape
(5000, 3)
>>> columns = log.columns(draw(Rng(1), 300, 5000))
>>> labels = [int(v) for v in columns.pop()]
>>> forest = train(columns, labels, checkpoint="model.json", by_column=True, n_trees=5)
>>> forest.predict([[40, 3], [10, 3]]), len(load("model.json"))
([1, 0], 5)
"""

import json
import os
import struct
from array import array

from edgeforest import files
from edgeforest.budget import Rng as Rng  # for `draw`
from edgeforest.budget import millionths
from edgeforest.drawing import draw as draw  # for those who read rows from a file
from edgeforest.forest import INF, PIECE, collect
from edgeforest.loading import crc32, from_base64
from edgeforest.reader import STATE, read_checkpoint
from edgeforest.writer import hex_crc, sealed, to_base64

try:
    from edgeforest.engines import read as train_steps  # all rows: resuming has to find the same
except ImportError:  # a board
    from edgeforest.core_pure import Training as train_steps  # type: ignore[assignment]

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.core_pure import Training
    from edgeforest.forest import Forest
    from edgeforest.host.types import *

ROWS = ("rows", "X", "y")  # what a signature has about the rows

BLOCK = 512  # bytes of one read, if a row is not longer: flash and cards read no less
# By the type of numbers in the file: its typecode, and the typecode that they are kept with.
TYPES = {
    b"|b1": ("B", "B"),
    b"|u1": ("B", "B"),
    b"|i1": ("b", "b"),
    b"<u2": ("H", "H"),
    b"<i2": ("h", "h"),
    b"<u4": ("I", "I"),
    b"<i4": ("i", "i"),
    b"<u8": ("Q", "i"),
    b"<i8": ("q", "i"),
    b"<f4": ("f", "f"),
    b"<f8": ("d", "f"),
}


# ---- Rows from a file -------------------------------------------------------------------------


class Npy:
    """A table of numbers in a `.npy` file, as NumPy saves it, in one or two dimensions.

    `shape` has its rows and columns. Rows are read from their places when `columns` asks for them.
    Nothing in the file is ever executed: files of Python objects are refused.
    """

    def __init__(self, path: "AnyPath") -> "None":
        self.path = str(path)
        with open(self.path, "rb") as stream:
            head = stream.read(12) + bytes(12)
            if head[:6] != b"\x93NUMPY" or not 1 <= head[6] <= 3:
                raise ValueError(f"{path} is not a .npy file; save it with numpy.save")
            self._start = 10 if head[6] == 1 else 12
            size = struct.unpack_from("<H" if head[6] == 1 else "<I", head, 8)[0]
            stream.seek(self._start)
            text = stream.read(min(size, 4096))  # enough for any table of plain numbers
            self._start += size
            stream.seek(0, 2)
            length = stream.tell()
        kind = _after(text, b"'descr':", b"'", b"'")
        if kind not in TYPES:
            raise ValueError(
                f"{path} must hold whole numbers, float32 or float64 in little-endian order, got "
                f"{str(kind)[2:-1] or 'something else'}; convert it with astype and save it again"
            )
        self._code, self.typecode = TYPES[kind]
        self._size = struct.calcsize("<" + self._code)
        self._by_column = _after(text, b"'fortran_order':", b"", b",").strip() == b"True"
        try:
            shape = [int(v) for v in _after(text, b"'shape':", b"(", b")").split(b",") if v.strip()]
        except ValueError:
            shape = []
        if len(shape) == 1:
            shape.append(1)
        if len(shape) != 2 or min(shape) < 1:
            raise ValueError(
                f"{path} must be a table of at least one row and one column, got the shape {shape}"
            )
        self.shape: "tuple[int, int]" = tuple(shape)  # type: ignore[assignment]
        if length < self._start + shape[0] * shape[1] * self._size:
            raise ValueError(f"{path} is cut short: copy the file again")

    def columns(
        self, rows: "Sequence[int] | None" = None, only: "Sequence[int] | None" = None
    ) -> "list[Any]":
        """The values of some rows, by column: for `train(..., by_column=True)`.

        `rows` are numbers of rows, by default all; in ascending order they are read fastest.
        `only` are the columns that are wanted. Bytes and booleans come as a bytearray, which a board
        trains on without a copy, other numbers as an array, floats as float32.
        """
        n, m = self.shape
        rows = self._within("row", rows, n)
        only = self._within("column", only, m)
        columns = [_room(self.typecode, len(rows)) for _ in only]
        with open(self.path, "rb") as stream:
            if self._by_column:
                for f, column in zip(only, columns):  # noqa: B905
                    start = self._start + f * n * self._size
                    self._fill(stream, start, 1, rows, [0], [column])
            else:
                self._fill(stream, self._start, m, rows, only, columns)
        return columns

    def _within(self, what: "str", wanted: "Sequence[int] | None", most: "int") -> "Sequence[int]":
        """Numbers of rows or columns, all by default; refused if there is no such row or column."""
        if wanted is None:
            return range(most)
        for i in wanted:
            if not 0 <= i < most:
                raise IndexError(f"there is no {what} {i} in {self.path}, which has {most}")
        return wanted

    def _fill(
        self,
        stream: "Any",
        start: "int",
        width: "int",
        rows: "Sequence[int]",
        only: "Sequence[int]",
        columns: "list[Any]",
    ) -> "None":
        """Fill columns with the rows of `width` values that begin at `start` in the file."""
        size = self._size
        code = "<" + self._code
        stride = width * size
        held = max(1, BLOCK // stride)  # rows at once
        block = bytearray(held * stride)
        first, last = 0, 0  # rows that are in the block
        raw, wide = self._code == "B", self._code in "qQ"
        pairs = list(enumerate(only))
        for i, row in enumerate(rows):
            if not first <= row < last:
                stream.seek(start + row * stride)
                first, last = row, row + stream.readinto(block) // stride
                if row >= last:
                    raise ValueError(f"{self.path} became shorter while it was read; try again")
            at = (row - first) * stride
            for k, f in pairs:
                if raw:
                    columns[k][i] = block[at + f]
                    continue
                value = struct.unpack_from(code, block, at + f * size)[0]
                if (
                    wide and not -0x80000000 <= value < 0x80000000
                ):  # a board would drop its high bits
                    raise ValueError(
                        f"row {row} of {self.path} has {value}, more than 32 bits hold; save the "
                        "table as floats"
                    )
                columns[k][i] = value


def _after(text: "bytes", key: "bytes", start: "bytes", end: "bytes") -> "bytes":
    """The text from `start` to `end` after a key; nothing if `start` does not follow at once."""
    at = text.find(key)
    rest = text[at + len(key) :].strip() if at >= 0 else b""
    upto = rest.find(end, len(start))
    return rest[len(start) : upto] if rest[: len(start)] == start and upto >= 0 else b""


def _room(typecode: "str", n: "int") -> "Any":
    """Zeros to be filled."""
    if typecode == "B":
        return bytearray(n)
    return array(typecode, bytes(struct.calcsize(typecode) * n))


# ---- A file that outlives a power cut ---------------------------------------------------------


def write(forest: "Forest", path: "AnyPath", state: "dict[str, Any] | None" = None) -> "None":
    """Write a model so that, whenever the power fails, the old or the new one is there.

    `state` is what an unfinished training has to remember; `read` returns it. An array in it comes
    with the code of its numbers, and is read as their base64.
    """
    files.write(path, sealed(forest, () if state is None else _tail(state)), b"\n")


def _tail(state: "dict[str, Any]") -> "Iterator[str]":
    """A state as JSON, in pieces that fit into the gaps of a small heap."""
    before = ',"' + STATE + '":{'
    for key, value in state.items():
        yield f'{before}"{key}": '
        before = ", "
        if isinstance(value, tuple):
            values, code = value
            yield '"'
            for i in range(0, len(values), PIECE):
                yield to_base64(values[i : i + PIECE], code)
            yield '"'
        else:
            yield json.dumps(value)
    yield "}"


def _exists(path: "str") -> "bool":
    try:
        os.stat(path)
        return True
    except OSError:
        return False


def read(path: "AnyPath") -> "tuple[Forest | None, dict[str, Any] | None]":
    """The model in a file and the state of its training, None if that is over.

    Both are None if there is no model yet. If the power failed on a board after a model was complete
    and before it was renamed, it is renamed now.
    """
    path = str(path)
    if _exists(path):
        return read_checkpoint(path)
    part = path + ".part"
    if not _exists(part):
        return None, None
    try:
        found = read_checkpoint(part)
    except ValueError:  # the very first one, cut short
        return None, None
    files.rename(part, path)
    return found


def load(path: "AnyPath") -> "Forest":
    """The model that a training has left in a file, whenever the power failed."""
    forest = read(path)[0]
    if forest is None:
        raise OSError(f"there is no model in {path} yet; train one")
    return forest


def refuse_other(path: "AnyPath", before: "dict[str, Any]", now: "dict[str, Any]") -> "None":
    """Refuse to resume a training that was started with other options or data."""
    for name in list(now) + list(before):
        was, given = before.get(name), now.get(name)
        if was != given:
            raise ValueError(
                f"{path} was begun with other {_short(name)[1:-1]}: {_short(was)}, "
                f"now {_short(given)}; use another path"
            )


def _short(value: "Any") -> "str":
    """A value as text for an error, not too long."""
    text = repr(value)
    return text if len(text) < 99 else text[:95] + " ..."


def refuse_damaged(path: "AnyPath") -> "NoReturn":
    """Refuse a file that no training can have written."""
    raise ValueError(f"{path} holds no checkpoint of such a training; use another path")


def check_state(
    path: "AnyPath",
    found: "Forest",
    head: "Forest",
    most: "int",
    importance: "Any" = None,
    seconds: "float" = 0,
) -> "None":
    """Refuse to resume from a file that no training of the forest `head` can have written.

    `found` is the forest in the file, of at most `most` trees. `importance` (a number for each
    feature) and `seconds` come from the state of an unfinished training.
    """
    refuse_other(path, _head(found, True), _head(head, True))
    # A source may have more of them by now, never fewer.
    for i in range(-1, len(head.names)):
        old, new = (f.classes if i < 0 else f.categories[i] for f in (found, head))
        if (old is None) != (new is None) or not set(new or ()) <= set(old or ()):
            refuse_other(path, {"classes or categories": old}, {"classes or categories": new})
    sound = importance is None or (
        isinstance(importance, (list, array))
        and len(importance) == len(head.names)
        and all(_is_amount(v) for v in importance)
    )
    spent = found.spent.insertions
    if not sound or not _is_amount(seconds) or len(found) > most or spent > (found.limit or INF):
        refuse_damaged(path)


def _is_amount(v: "Any") -> "bool":
    """Whether it is a number that something can amount to."""
    return type(v) in (int, float) and 0 <= v < 1e30


# ---- Training that can be resumed -------------------------------------------------------------


def train(
    X: "Values", y: "Values", checkpoint: "AnyPath", resume: "bool" = False, **options: "Any"
) -> "Forest":
    """Train a forest whose trees are in the file `checkpoint` as soon as they are grown.

    The file is a model at any time. `resume=True` continues from it, if it exists, and gives the
    forest of an uninterrupted training: that of `core_pure.train` with the same options. A complete
    forest is returned as it is. If the file was trained on other rows, training starts again from
    the beginning, and a printed line says so.
    """
    training = Resumable(X, y, checkpoint, resume, **options)
    if training.note:
        print(training.note)
    for _ in training:
        pass
    return training.forest()


class Resumable:
    """Training in steps, like `core_pure.Training`, that writes every tree to a file.

    Trees grow one after the other. Iterate to advance by one round; each step yields the `Training`.
    `forest()` ends it; the file then still has the complete trees. If training starts again from the
    beginning because the file was trained on other rows, `note` is a sentence about it.

    >>> rows = [[i % 7, i % 3] for i in range(60)]
    >>> labels = [row[0] > 2 for row in rows]
    >>> for step in Resumable(rows, labels, "model.json", n_trees=5):
    ...     if len(step.grown) == 2:      # the power fails
    ...         break
    >>> again = Resumable(rows, labels, "model.json", resume=True, n_trees=5)
    >>> len(again.training.grown)
    2
    """

    def __init__(
        self,
        X: "Values",
        y: "Values",
        checkpoint: "AnyPath",
        resume: "bool" = False,
        **options: "Any",
    ) -> "None":
        self.path = str(checkpoint)
        # First what needs most memory to read, then what needs most memory to keep.
        found, state = read(self.path) if resume else (None, None)
        collect()
        if "n_jobs" in options:
            options["n_jobs"] = 1
        training = self.training = train_steps(X, y, **options)
        self._done: "Forest | None" = None  # the forest, when training is over
        self.note = ""
        self._same = _signature(training, y, options)
        if found is not None:
            self._resume(found, state)
        self._steps = self._run()

    def __iter__(self) -> "Iterator[Training]":
        return self._steps

    @property
    def planned(self) -> "int":
        """How many trees there will be, if the budget is enough for all."""
        return self.training.planned

    def forest(self) -> "Forest":
        """The forest so far. The tree that is growing is closed as it is, and training is over."""
        if self._done is None:
            self._done = self.training.forest()
        return self._done

    def _run(self) -> "Iterator[Training]":
        training = self.training
        before = len(training.grown)
        for _ in training if self._done is None else ():
            if len(training.grown) > before and training.following < training.planned:
                before = len(training.grown)
                self._write()
            yield training
        if self._done is None:
            # Sorted: a dict of MicroPython has no order.
            write(self.forest(), self.path, {"done": sorted(self._same.items())})

    def _write(self) -> "None":
        """Write the complete trees, and what is needed to resume."""
        training = self.training
        state = {
            "signature": self._same,
            "next": training.following,
            "importance": to_base64(training.importance, "d"),
            "milliseconds": int(training.budget.tick() * 1000),
        }
        grown = training.grown
        grown.importances = millionths(training.importance)
        write(grown, self.path, state)

    def _resume(self, found: "Forest", state: "dict[str, Any] | None") -> "None":
        """Continue from the forest and the state in the file, or refuse them."""
        training = self.training
        grown = training.grown
        refuse_other(self.path, _head(found), _head(grown))
        before = self._same if state is None else _before(state)
        if "X" in before and any(before.get(k) != self._same.get(k) for k in ROWS):
            # The earlier rows are gone, so nothing can be resumed.
            self.note = f"{self.path} was trained on other rows: training anew on these"
            return
        refuse_other(self.path, before, self._same)
        if state is None or "done" in state:  # it was over
            budget = training.budget
            if budget.insertions is budget.seconds is budget.bytes is None:
                refuse_other(self.path, {"n_trees": len(found)}, {"n_trees": self.planned})
            check_state(self.path, found, grown, self.planned)
            self._done = found
            return
        importance, seconds = self._noted(found, state)
        # Trees that an earlier run of the same training has grown are those of this one.
        training.read = training.budget.tick()
        for name in ("roots", "feature", "threshold", "right", "votes"):
            setattr(grown, name, getattr(found, name))
        training.importance = list(importance)
        training.budget.spent = grown.spent = found.spent
        found.spent.seconds = seconds
        training.following = state["next"]

    def _noted(self, found: "Forest", state: "dict[str, Any]") -> "tuple[Any, float]":
        """The importance and the seconds in a state; refused if no training can have noted them."""
        path, grown, insertions = self.path, self.training.grown, self.training.budget.insertions
        following: "Any" = state.get("next")
        ms: "Any" = state.get("milliseconds")
        for v in (following, ms):
            if type(v) is not int or not _is_amount(v):
                refuse_damaged(path)
        if not 0 < following <= self.planned:
            refuse_damaged(path)
        importance: "Any"
        try:
            importance = from_base64(state["importance"], "d")
        except (TypeError, ValueError, KeyError, AttributeError):
            importance = ()
        check_state(path, found, grown, following, importance, ms / 1000)
        labels = {"classes": grown.classes, "categories": grown.categories}
        refuse_other(path, {name: getattr(found, name) for name in labels}, labels)
        # Each tree has a share of the budget, and none has spent more than its share.
        if (
            insertions is not None
            and found.spent.insertions > insertions * following // self.planned
        ):
            refuse_damaged(path)
        return importance, ms / 1000


def _before(state: "Any") -> "dict[str, Any]":
    """The signature in the state of a training; empty if there is none."""
    try:
        return dict(state.get("signature") or state["done"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


def _head(forest: "Forest", votes: "bool" = False) -> "dict[str, Any]":
    """What every model has and must be the same; with `votes`, also what its votes mean."""
    names = ("kind", "criterion", "splitter", "seed", "names", "scale", "low", "span")
    head = {name: getattr(forest, name) for name in (names if votes else names[:5])}
    head["budget"] = forest.limit
    return head


def _signature(training: "Training", y: "Any", options: "dict[str, Any]") -> "dict[str, str]":
    """What else must be the same, as text: a board may not read a float exactly."""
    same = {
        "rows": str(training.data.n),
        "bytes": str(training.budget.bytes),
        "y": hex_crc(_sum(y, 0)),
    }
    for name in options:
        if name == "sample_weight":
            same[name] = hex_crc(_sum(training.data.weights or b"", 0))
        elif name not in ("names", "budget", "engine", "n_jobs"):  # in the head, or without effect
            same[name] = repr(options[name])
    crc = 0
    for f in range(training.data.m):
        collect()
        crc = _sum(training.data.column(f), crc)
    same["X"] = hex_crc(crc)
    return same


def _sum(values: "Any", crc: "int") -> "int":
    """The checksum of some values, continued from `crc`."""
    if repr(getattr(values, "dtype", 0)) == "dtype('O')":
        values = list(values)
    elif hasattr(values, "tobytes"):
        values = values.tobytes()
    try:
        return crc32(values, crc)
    except TypeError:  # a list
        for v in values:
            crc = crc32(repr(v).encode(), crc)
    return crc
