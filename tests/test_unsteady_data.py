"""Data with a wrong length, or that change while they are read: a clear error, no crash.

Every engine reads them alike. test_kernel_c.py runs this file again under the sanitizers.
"""

import threading
from array import array

import pytest
from compared import ENGINES

from edgeforest import OnlineForest, engine, train, train_steps

SENTENCE = "as its length says"
ROWS = 400

VALUES = [[(7 * i + 3 * f * i) % 23 / 4 for f in range(3)] for i in range(ROWS)]
LABELS = [int(row[0] > 2) + int(row[1] > 3) for row in VALUES]


class Liar:
    """A sequence whose length is not the number of its values."""

    def __init__(self, values, length):
        self.values = values
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        return self.values[i]


class Columns(Liar):
    """A table like those of Arrow: its length is the number of rows, its items are columns."""

    def __init__(self, rows):
        columns = list(map(list, zip(*rows, strict=True)))
        super().__init__(columns, len(rows))


class Once(Liar):
    """Indexing and iterating give different values."""

    def __iter__(self):
        return iter(self.values[:5])


class Hook:
    """A number that does something when it is read."""

    def __init__(self, act):
        self.act = act

    def __float__(self):
        self.act()
        return 1.0

    def __index__(self):
        self.act()
        return 1


def sound(forest, rows=VALUES):
    """Whether a forest is whole: it predicts known classes and can be written."""
    assert set(forest.predict(rows)) <= set(forest.classes)
    assert engine.load(forest.to_json()).to_json() == forest.to_json()


# ---- Lengths that are not true


FLAT = [v for row in VALUES for v in row]
LIES = {
    "items are columns": (Columns(VALUES), LABELS, {}),
    "fewer rows": (Liar(VALUES, ROWS + 50), [*LABELS, *LABELS[:50]], {}),
    "more rows": (Liar(VALUES, ROWS - 50), LABELS[:-50], {}),
    "goes through others": (Once(VALUES, ROWS), LABELS, {}),
    "no rows": (Liar([], 3), [0, 1, 0], {}),
    "short rows": ([Liar(row, 5) for row in VALUES], LABELS, {}),
    "one short row": ([*VALUES[:-1], Liar([1.0], 3)], LABELS, {}),
    "fewer labels": (VALUES, Liar(LABELS[:300], ROWS), {}),
    "more labels": (VALUES, Liar([*LABELS, 1], ROWS), {}),
    "no labels": (VALUES, Liar([], ROWS), {}),
    "fewer targets": (VALUES, Liar(LABELS[:300], ROWS), {"criterion": "mse"}),
    "more targets": (VALUES, Liar([*LABELS, 1], ROWS), {"criterion": "mse"}),
    "weights": (VALUES, LABELS, {"sample_weight": Liar([1.0], ROWS)}),
    "columns": ([Liar(FLAT[:300], ROWS), FLAT[:ROWS]], LABELS, {"by_column": True}),
    "categories": (
        [Liar(["a", "b"] * 100, ROWS)],
        LABELS,
        {"by_column": True, "categorical": [0]},
    ),
    "flat": (Liar(FLAT[:100], 3 * ROWS), LABELS, {"n_features": 3}),
    "flat and long": (Once(FLAT, 3 * ROWS), Liar(LABELS[:-1], ROWS), {"n_features": 3}),
}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("lie", LIES)
def test_a_wrong_length_gives_a_clear_error(lie, name):
    X, y, options = LIES[lie]
    with pytest.raises(ValueError, match=SENTENCE):
        train(X, y, engine=name, n_trees=2, **options)


@pytest.mark.parametrize("name", ENGINES)
def test_names_are_counted_too(name):
    with pytest.raises(ValueError, match="names must be a list of 3 names"):
        train(VALUES, LABELS, engine=name, names=Liar(["a"], 3))


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(
    "row",
    [Liar([1.0], 3), Liar([1.0] * 4, 3), Once([1.0] * 6, 3)],
    ids=["fewer", "more", "others"],
)
def test_a_row_to_predict_or_learn_is_counted(row, name):
    forest = train(VALUES, LABELS, engine=name, n_trees=2)
    learner = OnlineForest(3, engine=name)
    learner.update_batch(VALUES, LABELS)
    for call in (
        lambda: forest.predict([VALUES[0], row]),
        lambda: forest.predict(row),
        lambda: forest.predict_proba([row] * 20),
        lambda: learner.update_batch([VALUES[0], row], [0, 1]),
        lambda: learner.update(row, 0),
    ):
        with pytest.raises(ValueError, match=f"{SENTENCE}|a row must have 3 values, got [145]$"):
            call()


@pytest.mark.parametrize("name", ENGINES)
def test_the_rows_that_are_yielded_are_predicted(name):
    forest = train(VALUES, LABELS, engine=name, n_trees=2)
    assert forest.predict(Liar(VALUES, 3)) == forest.predict(VALUES)
    assert forest.predict(Liar(VALUES[:9], ROWS)) == forest.predict(VALUES[:9])


# ---- Data that change


def shrinking(X, place):
    """The table, which loses its rows (or their values) when one value of it is read."""
    rows = [list(row) for row in X]

    def act():
        if place == "rows":
            del rows[10:]
        else:
            for row in rows:
                del row[1:]

    rows[5][1] = Hook(act)
    return rows


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("place", ["rows", "values"])
def test_a_table_that_shrinks_while_it_is_read_gives_a_clear_error(place, name):
    with pytest.raises(ValueError, match=SENTENCE):
        train(shrinking(VALUES, place), LABELS, engine=name, n_trees=2)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("by_column", [False, True])
def test_an_array_that_is_shortened_before_it_is_read_gives_a_clear_error(by_column, name):
    flat = array("f", FLAT)
    targets = [Hook(lambda: flat.__delitem__(slice(100, None))), *LABELS[1:]]
    options = {"by_column": True} if by_column else {"n_features": 3}
    X = [array("f", range(ROWS)), flat] if by_column else flat
    if by_column:
        del flat[ROWS:]
    with pytest.raises(ValueError, match=SENTENCE):
        train(X, targets, engine=name, n_trees=2, criterion="mse", **options)


@pytest.mark.skipif("native" not in ENGINES, reason="the C kernel is not there")
def test_an_array_cannot_be_shortened_while_trees_grow():
    flat, labels = array("f", FLAT), array("i", LABELS)
    steps = train_steps(flat, labels, engine="native", n_features=3, budget=200)  # coded when drawn
    next(iter(steps))
    with pytest.raises(BufferError):
        del flat[10:]
    del labels[10:]  # these were read
    for _ in steps:
        pass
    sound(steps.forest())
    del flat[10:]  # nobody needs it any more


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("budget", [None, 2000])
def test_bytes_that_change_while_trees_grow_give_a_whole_forest(name, budget):
    raw = bytearray(10 * int(v) for v in FLAT)
    state = 1
    steps = train_steps(raw, LABELS, engine=name, n_features=3, n_trees=4, budget=budget)
    for _ in steps:
        for i in range(0, len(raw), 7):
            state = state * 69069 % 2**32
            raw[i] = state >> 24
    sound(steps.forest(), [list(raw[i : i + 3]) for i in range(0, 300, 3)])


class Altered:
    """A thread that writes to some place over and over, until the block ends."""

    def __init__(self, *writes):
        self.writes = writes
        self.done = False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.done:
            for write in self.writes:
                write()

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *error):
        self.done = True
        self.thread.join()


MANY = 30_000


@pytest.mark.parametrize("name", [name for name in ENGINES if name != "pure"])
def test_labels_that_another_thread_changes_give_a_forest_or_a_clear_error(name):
    """Whether they collide is chance; the outcome is a forest or an error in any case."""
    np = pytest.importorskip("numpy")
    X = np.arange(MANY, dtype=np.float32)[:, None] % 97
    y = (np.arange(MANY) % 3).astype(np.int64)
    last = y[-50:]

    def wrong(value):
        return lambda: last.__setitem__(slice(None), value)

    said = []
    with Altered(wrong(60_000), wrong(2), wrong(-5), wrong(2**62), wrong(1)):
        for _ in range(20):
            try:
                forest = train(X, y, engine=name, n_trees=1, max_depth=3)
            except ValueError as error:
                said.append(str(error))
            else:
                sound(forest, X[:20])
    assert all("change" in sentence for sentence in said)


@pytest.mark.parametrize("name", [name for name in ENGINES if name != "pure"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_rows_that_another_thread_changes_give_a_forest(name, dtype):
    np = pytest.importorskip("numpy")
    X = (np.arange(MANY * 4).reshape(MANY, 4) % 251).astype(dtype)
    y = np.arange(MANY) % 3
    part = X[:2000]
    noise = [part.copy() for _ in range(2)]
    noise[0][:] = 255
    noise[1][:] = 0
    with Altered(*[lambda some=some: part.__setitem__(slice(None), some) for some in noise]):
        for budget in (None, None, 20_000, 20_000):
            sound(train(X, y, engine=name, n_trees=3, max_depth=6, budget=budget), X[-20:])


# ---- Tables in one memoryview


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("code", "fdbHiq")
def test_a_table_in_one_memoryview_is_a_table(code, name):
    rows = [[int(4 * v) for v in row] for row in VALUES]
    flat = array(code, [v for row in rows for v in row])
    table = memoryview(flat).cast("B").cast(code, (ROWS, 3))
    options = {"engine": name, "n_trees": 3, "max_depth": 4}
    forest = train(table, memoryview(array("b", LABELS)), **options)
    assert forest.to_json() == train(rows, LABELS, **options).to_json()
    assert forest.predict(table) == forest.predict(rows)
    assert forest.predict_proba(table) == forest.predict_proba(rows)
    columns = memoryview(array(code, [v for c in zip(*rows, strict=True) for v in c]))
    columns = columns.cast("B").cast(code, (3, ROWS))
    again = train(columns, LABELS, by_column=True, **options)
    assert again.to_json() == forest.to_json()
    one, two = OnlineForest(3, engine=name), OnlineForest(3, engine=name)
    some = memoryview(flat[:300]).cast("B").cast(code, (100, 3))
    assert one.update_batch(some, LABELS[:100]) == two.update_batch(rows[:100], LABELS[:100])


@pytest.mark.parametrize("name", ENGINES)
def test_a_memoryview_with_categories_or_another_shape(name):
    rows = [[i % 3, i % 5] for i in range(60)]
    labels = [row[0] == 1 for row in rows]
    table = memoryview(bytes(v for row in rows for v in row)).cast("B", (60, 2))
    forest = train(table, labels, engine=name, categorical=[0], n_trees=3)
    assert forest.predict(table) == labels == forest.predict(rows)
    with pytest.raises(TypeError, match="row 0"):
        train(table, memoryview(bytes(60)).cast("B", (60, 1)), engine=name)
    with pytest.raises((TypeError, ValueError), match="must be a number"):
        train(memoryview(bytes(120)).cast("B", (60, 2, 1)), labels, engine=name)
    with pytest.raises(ValueError, match="a row must have 2 values"):
        forest.predict(memoryview(bytes(60)).cast("B", (20, 3)))
