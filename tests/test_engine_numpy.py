"""The NumPy engine's parts alone: each does on arrays what core_pure does in a loop."""

import math
import random
from array import array

import numpy as np
import pytest

from edgeforest import budget, core_pure
from edgeforest.bounds import encode, make_bounds
from edgeforest.budget import Rng
from edgeforest.core_pure import Training
from edgeforest.criteria import node_word
from edgeforest.engines import numpy_criteria, numpy_nodes, numpy_reader
from edgeforest.engines.numpy_nodes import NumpyNodes
from edgeforest.forest import HUGE, MASK
from edgeforest.nodes import Nodes

NAN = float("nan")
INF = float("inf")
PURE, NUMPY = core_pure.ENGINE, numpy_nodes.ENGINE
TINY = 1.401298464324817e-45  # the smallest float32 above zero


def grow(engine, X, y, **options):
    training = Training(X, y, engine=engine, **{"n_trees": 3, "seed": 5, **options})
    for _ in training:
        pass
    return training.forest()


def both(X, y, **options):
    """The same forest by both engines, as (pure, numpy)."""
    forests = [grow(engine, X, y, **options) for engine in (PURE, NUMPY)]
    assert forests[0].to_json() == forests[1].to_json()
    return forests


def table(n=400, m=5, seed=0):
    """Numbers, and labels that follow them with some noise."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, m)) * 40 + 100
    y = (X[:, 0] > 100).astype(int) + (X[:, 1] + random.normal(size=n) * 9 > 110)
    return X, y


# ---- Random numbers


@pytest.mark.parametrize("n", [1, 2, 60_000, 2**29 + 12345, 2**30 - 1])
@pytest.mark.parametrize("count", [1, 4096, 9000])
def test_fill_jumps_to_where_rng_fill_walks(n, count):
    one, many = Rng(3, count), Rng(3, count)
    walked, jumped = [0] * count, np.zeros(count, np.intp)
    one.fill(walked, n)
    numpy_reader.fill(many, jumped, n)
    assert walked == jumped.tolist()
    assert (one.z, one.w) == (many.z, many.w)


@pytest.mark.parametrize(
    ("size", "count"), [(1, 1), (2, 2), (50, 7), (5000, 5000), (9000, 8999), (9000, 0)]
)
def test_shuffle_jumps_to_where_rng_shuffle_walks(size, count):
    one, many = Rng(9, size), Rng(9, size)
    walked, jumped = list(range(size)), list(range(size))
    one.shuffle(walked, count)
    numpy_reader.shuffle(many, jumped, 0, min(count, size - 1))
    assert walked == jumped
    assert (one.z, one.w) == (many.z, many.w)


def test_shuffle_passes_over_what_rng_refuses(monkeypatch):
    # With a smaller range of values many are refused, which a real one makes rare.
    size = 3000
    for module in (budget, numpy_reader):
        monkeypatch.setattr(module, "MASK", 2**30 - 1 - 2**29)
    one, many = Rng(4), Rng(4)
    walked, jumped = list(range(size)), list(range(size))
    one.shuffle(walked, size)
    numpy_reader.shuffle(many, jumped, 0, size - 1)
    assert walked == jumped
    assert (one.z, one.w) == (many.z, many.w)


# ---- Numbers become codes

COLUMNS = {
    "none": [],
    "only missing": [NAN, NAN],
    "one value": [3.5, 3.5, NAN],
    "zeros of both signs": [0.0, -0.0, 1.0, -1.0, NAN],
    "denormal": [0.0, TINY, 2 * TINY, 3 * TINY, -TINY],
    "neighbours": [1.0, 1.0000001192092896, 1.000000238418579],
    "huge": [-HUGE, HUGE, 0.0, 1.0],
    "hugest span but one": [-HUGE / 2, HUGE / 2, 0.0, 1.0],
    "255 values": [float(v) for v in range(255)],
    "256 values": [float(v) for v in range(256)],
    "many": [random.Random(1).gauss(0, 1) for _ in range(3000)],
    "skewed": [random.Random(2).gauss(0, 1) ** 21 for _ in range(3000)],
    "mostly one": [0.0] * 900 + [random.Random(3).random() for _ in range(600)] + [NAN] * 50,
}


def float32(values):
    return np.array(array("f", values), np.float32)


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_bounds_are_those_of_core_pure(values):
    pure = make_bounds(array("f", values))
    ours = numpy_reader.make_bounds(float32(values))
    assert ours.dtype == np.float32
    assert ours.tolist() == pure.tolist()


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_codes_are_those_of_core_pure(values, grid):
    bounds = make_bounds(array("f", values))
    more = [NAN, 0.0, -0.0, TINY, -TINY, HUGE, -HUGE, 1.0, 100.0]
    for bound in bounds.tolist():  # on a bound, and beside it
        beside = [np.nextafter(np.float32(bound), np.float32(to)) for to in (-HUGE, HUGE)]
        more += [bound, *[float(v) for v in beside]]
    values = array("f", values + more)
    pure = encode(values, bounds)
    count = numpy_reader.CELLS + 1 if grid else 0
    encoder = numpy_reader.Encoder(np.array(bounds, np.float32), count)
    assert encoder(np.array(values, np.float32)).tolist() == list(pure)


def test_float64_is_rounded_to_float32_before_it_meets_a_bound():
    # Midway between 1 and 2 lies a bound; the float64 numbers around it round onto it.
    near = [1.5 - 1e-9, 1.5, 1.5 + 1e-9, 1.5 + 1e-7]
    X = np.array([[v] for v in [1.0] * 30 + [2.0] * 30 + near])
    y = [0] * 30 + [1] * 34
    pure, ours = both(X, y, kind="random-forest", bootstrap=False)
    assert ours.predict(X) == pure.predict(X)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_large_integers_are_rounded_by_way_of_float64(dtype):
    # Rounded at once to float32, this one would go up; by way of float64 it goes down.
    tie = 2**60 + 2**36 + 1
    assert np.array([tie], dtype).astype(np.float32)[0] != np.float32(float(tie))
    X = np.array([[tie], [2**60], [2**61]] * 20, dtype)
    pure, ours = both(X, [0, 0, 1] * 20)
    assert ours.predict(X) == pure.predict(X)


# ---- Rows change places


@pytest.mark.parametrize("n", [1, 2, 3, 10, 500])
def test_partition_leaves_rows_where_core_pure_does(n):
    X, y = table(500)
    X = np.clip(X, 0, 255).astype(np.uint8)
    plain = Nodes(Training(X, y, engine=PURE))
    nodes = NumpyNodes(Training(X, y, engine=NUMPY))
    for threshold in (0, 60, 100, 140, 255):
        rows = np.random.default_rng(n + threshold).permutation(500)
        nodes.rows = rows
        plain.rows = walked = array("I", rows.tolist())
        word = node_word(2, False, False)
        middle = plain.partition(0, n, word, threshold)
        assert nodes.partition(0, n, word, threshold) == middle
        assert rows.tolist() == list(walked)


# ---- What X and y may be


def shapes_of(X):
    """The same table in every form that is taken, with the options that go with it."""
    wide = np.zeros((2 * len(X), 3 * X.shape[1]), X.dtype)
    wide[::2, 1::3] = X
    yield X, {}
    yield np.asfortranarray(X), {}
    yield wide[::2, 1::3], {}
    yield X[::-1].copy()[::-1], {}
    yield X.tolist(), {}
    yield list(X), {}
    yield X.T, {"by_column": True}
    yield [column.tolist() for column in X.T], {"by_column": True}
    yield X.ravel(), {"n_features": X.shape[1]}
    yield array(X.dtype.char if X.dtype != bool else "B", X.tobytes()), {"n_features": X.shape[1]}
    if X.dtype == np.uint8:
        yield X.tobytes(), {"n_features": X.shape[1]}
        yield [column.tobytes() for column in X.T], {"by_column": True}


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "bool", "int64", ">f4"])
def test_every_form_of_a_table_grows_the_forest_of_core_pure(dtype):
    X, y = table(150, 4)
    X = X > 100 if dtype == "bool" else np.clip(X, 0, 255).astype(dtype)
    if dtype == ">f4":  # no array.array of the other byte order
        both(X, y)
        return
    for given, options in shapes_of(X):
        both(given, y, **options)


def test_a_memory_map_is_read_where_it_lies(tmp_path):
    X, y = table()
    np.save(tmp_path / "x.npy", np.clip(X, 0, 255).astype(np.uint8))
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    both(X, y)
    assert np.shares_memory(NumpyNodes(Training(X, y, engine=NUMPY)).codes, X)


@pytest.mark.parametrize("order", ["C", "F"])
def test_uint8_arrays_are_not_copied(order):
    X, y = table(5000, 20)
    X = np.array(np.clip(X, 0, 255), np.uint8, order=order)
    nodes = NumpyNodes(Training(X, y, engine=NUMPY))
    assert np.shares_memory(nodes.flat, X)
    gathered = nodes._gather(array("H", [19, 1]), np.array([7, 4999]))
    assert gathered.tolist() == X[[7, 4999]][:, [19, 1]].T.tolist()


LABELS = {
    "int64": lambda y: y,
    "int8": lambda y: y.astype(np.int8) - 1,
    "uint64": lambda y: y.astype(np.uint64) + 2**63,
    "bool": lambda y: y > 0,
    "float": lambda y: y / 2,
    "text": lambda y: y.astype(str),
    "object": lambda y: y.astype(object),
    "list": lambda y: y.tolist(),
    "many": lambda y: np.arange(len(y)) % 300,
}


@pytest.mark.parametrize("form", LABELS.values(), ids=LABELS)
def test_every_form_of_labels_gives_the_same_classes(form):
    X, y = table()
    pure, ours = both(X, form(y))
    assert [type(v) for v in ours.classes] == [type(v) for v in pure.classes]
    assert [type(v) for v in ours.predict(X)] == [type(v) for v in pure.predict(X)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_targets_have_the_same_levels(dtype):
    X, _ = table()
    both(X, (X[:, 0] * 3 - 200).astype(dtype), criterion="mse")


def test_counts_beyond_the_table_of_logarithms(monkeypatch):
    monkeypatch.setattr(numpy_criteria, "LOGS", 8)
    both(*table(), criterion="entropy")


@pytest.mark.parametrize("splitter", ["exact", "mab-paper"])
def test_moments_stay_exact_where_float64_ends(splitter):
    # One row is drawn thousands of times, and its target is the highest level.
    X, y = table(12000)
    weights = [1e8 if i == 7 else 1.0 for i in range(len(y))]
    target = [1e6 if i == 7 else float(i % 10) for i in range(len(y))]
    both(X, target, criterion="mse", splitter=splitter, sample_weight=weights, max_depth=4)


def test_whole_numbers_that_outgrow_float64_are_counted_as_integers(monkeypatch):
    X, y = table()

    class Vast(NumpyNodes):
        def __init__(self, task):
            super().__init__(task)
            self.dtype = np.int64
            made.append(self)

    made = []
    monkeypatch.setattr(numpy_nodes, "NumpyNodes", Vast)
    both(X, y * 1.5, criterion="mse")
    assert made


# ---- Bad input

BAD = {
    "infinite": lambda X, y: (np.where(X[3, 2] == X, INF, X), y),
    "beyond float32": lambda X, y: (np.where(X[3, 2] == X, 1e39, X), y),
    "infinite, late": lambda X, y: (np.vstack([X] * 50 + [X * INF]), np.tile(y, 51)),
    "infinite float32": lambda X, y: (np.float32(np.where(X[3, 2] == X, -INF, X)), y),
    "text": lambda X, y: (X.astype(str), y),
    "dates": lambda X, y: (X.astype("datetime64[s]"), y),
    "three axes": lambda X, y: (X[:, :, None], y),
    "no rows": lambda X, y: (X[:0], y[:0]),
    "no columns": lambda X, y: (X[:, :0], y),
    "fewer labels": lambda X, y: (X, y[:-1]),
    "labels in a table": lambda X, y: (X, y[:, None]),
    "missing label": lambda X, y: (X, np.where(y == 0, NAN, y)),
    "too many labels": lambda X, y: (np.tile(X, (50, 1)), np.arange(50 * len(y))),
    "complex labels": lambda X, y: (X, y + 1j),
}
BAD_TARGETS = {
    "missing": lambda y: np.where(y == 1, NAN, y),
    "infinite": lambda y: np.where(y == 1, INF, y),
    "beyond float32": lambda y: np.where(y == 1, 1e39, y),
    "too far apart": lambda y: np.where(y == 1, 3e38, -3e38),
    "a table": lambda y: y[:, None] * 1.0,
    "text": lambda y: y.astype(str),
}


def test_a_flat_buffer_of_text_gets_the_sentence_of_core_pure():
    given = array("u", "abcdef"), [0, 1]
    said = complaint(PURE, *given, n_features=3)
    assert complaint(NUMPY, *given, n_features=3) == said


def complaint(engine, *given, **options):
    with pytest.raises((TypeError, ValueError)) as caught:
        Training(*given, engine=engine, **options)
    return type(caught.value), str(caught.value)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("spoil", BAD.values(), ids=BAD)
def test_bad_input_gets_the_sentence_of_core_pure(spoil):
    given = spoil(*table(100, 4))
    assert complaint(NUMPY, *given) == complaint(PURE, *given)


@pytest.mark.parametrize("spoil", BAD_TARGETS.values(), ids=BAD_TARGETS)
def test_bad_targets_get_the_sentence_of_core_pure(spoil):
    X, y = table(100, 4)
    given = X, spoil(y)
    assert complaint(NUMPY, *given, criterion="mse") == complaint(PURE, *given, criterion="mse")


@pytest.mark.parametrize("weights", [np.zeros(100), -np.ones(100), np.ones((100, 2)), np.ones(9)])
def test_bad_weights_get_the_sentence_of_core_pure(weights):
    given = table(100, 4)
    options = {"sample_weight": weights}
    assert complaint(NUMPY, *given, **options) == complaint(PURE, *given, **options)


@pytest.mark.filterwarnings("ignore:Warning. converting a masked element:UserWarning")
def test_a_masked_value_is_missing():
    X, y = table()
    both(np.ma.masked_greater(X, 120), y)


# ---- Prediction


def with_gaps(X):
    X = X.copy()
    X[np.random.default_rng(8).random(X.shape) < 0.2] = NAN
    return X


@pytest.mark.parametrize("options", [{}, {"criterion": "mse"}, {"categorical": [1, 3]}], ids=str)
def test_many_rows_are_predicted_as_one_by_one(options):
    X, y = table(300)
    X[:, [1, 3]] = X[:, [1, 3]] // 30
    X[np.random.default_rng(8).random(X.shape) < 0.2] = NAN
    pure, ours = both(X, y, **options)
    fresh = np.vstack([X, with_gaps(X * 1.1), X * 1e30, [[INF] * 5, [-INF] * 5]])
    for rows in (
        fresh,
        np.asfortranarray(fresh),
        fresh.tolist(),
        list(fresh),
        fresh[:3],
        fresh[:0],
    ):
        answers = pure.predict(rows)
        assert ours.predict(rows) == answers
        assert [type(v) for v in ours.predict(rows)] == [type(v) for v in answers]
        if not ours.regression:
            assert ours.predict_proba(rows) == pure.predict_proba(rows)
    for row in (fresh[0], fresh[0].tolist(), tuple(fresh[1])):
        assert ours.predict(row) == pure.predict(row)


@pytest.mark.parametrize("dtype", ["uint8", "int64", "uint64", "float32", "float16", "bool"])
def test_rows_of_every_dtype_are_predicted_alike(dtype):
    X, y = table(300)
    pure, ours = both(X, y)
    rows = np.clip(X, 0, 255).astype(dtype)
    assert ours.predict(rows) == pure.predict(rows)


def test_rows_larger_than_a_block_keep_their_order():
    X, y = table(50)
    pure, ours = both(X, y)
    rows = np.tile(X, (numpy_reader.BLOCK // 40, 1))
    assert ours.predict(rows) == pure.predict(X) * (numpy_reader.BLOCK // 40)


def test_cuts_are_thresholds_rounded_down():
    pure, ours = both(*table())
    assert ours.round_down() == pure.round_down()
    for forest in (pure, ours):
        forest.threshold[:6] = array("f", [-0.5, 2.0, -HUGE, HUGE, math.pi, NAN])
        forest.prepare()
    assert ours.round_down() == pure.round_down()
    assert ours.cut[:5].tolist() == [-1, 2, -MASK, MASK, 3]
    assert ours.threshold[:5] == pure.threshold[:5]


@pytest.mark.parametrize(
    "rows", [np.ones((3, 4)), [[1.0] * 4], [[1.0] * 5, [1.0] * 4] * 9, [["a"] * 5] * 20, 7, "text"]
)
def test_bad_rows_get_the_sentence_of_core_pure(rows):
    said = []
    for forest in both(*table()):
        with pytest.raises((TypeError, ValueError)) as caught:
            forest.predict(rows)
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]
