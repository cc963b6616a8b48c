"""Every bad input gets one clear sentence: what is wrong, what was got, what to do about it.

A sentence is raised on purpose, by a `raise` of ours; what the interpreter says when it stumbles
(`object of type 'int' has no len()`) is not one, even if its type is right. Every engine says the
same: `fit` compares it with the pure one.
"""

import linecache
import math
import os
import random
from array import array
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeforest import Budget, Forest, Training, core_pure, load, loading, train, train_steps
from edgeforest.forest import EQUAL, FEATURE, LEAF, MISSING_LEFT

pytestmark = pytest.mark.usefixtures("engine")
NAN = float("nan")
INF = float("inf")
VAST = pytest.param(10**400, id="10**400")  # a whole number beyond every float
FUZZ = settings(
    max_examples=int(60 * float(os.environ.get("EDGEFOREST_FUZZ", "1"))),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

ROWS = [[float(i), float(i * 5 % 12)] for i in range(12)]
LABELS = ["low" if i < 6 else "high" for i in range(12)]
NUMBERS = [float(i) for i in range(12)]


def fit(X=ROWS, y=LABELS, **options):
    """Train on a small table that is fine but for what the test changes."""
    options = {"n_trees": 2, **options}
    found = outcome(X, y, **options)
    assert found == outcome(X, y, **{**options, "engine": "pure"})
    return train(X, y, **options)


def outcome(X, y, **options):
    """What comes of a training: a model file, or a sentence."""
    try:
        return train(X, y, **options).to_json()
    except (TypeError, ValueError) as error:
        return type(error), str(error)


def changed(values, place, value):
    """A copy with one value replaced."""
    return [*values[:place], value, *values[place + 1 :]]


def one_line(error):
    """The message of an error, which has to be one line."""
    message = str(error)
    assert len(message.splitlines()) == 1
    assert message == message.strip()
    return message


def attempt(function, *arguments, **options):
    """What the function returns, or None if it refuses its input in one line."""
    try:
        return function(*arguments, **options)
    except (TypeError, ValueError) as error:
        one_line(error)


@contextmanager
def refused(*words):
    """What is done inside has to be refused on purpose, in one line that has these words."""
    with pytest.raises((TypeError, ValueError)) as caught:
        yield caught
    message = one_line(caught.value)
    for word in words:
        assert word in message
    deepest = caught.tb
    while deepest.tb_next:
        deepest = deepest.tb_next
    file = deepest.tb_frame.f_code.co_filename
    ours = Path(core_pure.__file__).parent
    assert ours in Path(file).parents, f"from elsewhere: {message}"
    line = linecache.getline(file, deepest.tb_lineno)
    assert line.strip().startswith("raise "), f"from the depths: {message}"


# ---- The table --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "options"),
    [
        ([], {}),
        ((), {}),
        (b"", {"n_features": 2}),
        (array("f"), {"n_features": 2}),
        ([], {"by_column": True}),
        ([[], []], {"by_column": True}),
        (np.zeros((0, 3)), {}),
    ],
)
def test_a_table_without_rows_is_refused(X, options):
    with refused("rows"):
        fit(X, [], **options)


def test_rows_without_values_are_refused():
    with refused("values", "0"):
        fit([[], [], []], ["a", "b", "a"])


@pytest.mark.parametrize("wrong", [[1.0], [1.0, 2.0, 3.0], []])
@pytest.mark.parametrize("place", [1, 7, 11])
def test_a_row_of_another_length_is_named(place, wrong):
    with refused(f"row {place} ", f"{len(wrong)} values", "2"):
        fit(changed(ROWS, place, wrong))


def test_a_column_of_another_length_is_named():
    with refused("column 1 ", "11 values", "12"):
        fit([NUMBERS, NUMBERS[:-1]], by_column=True)


@pytest.mark.parametrize("wrong", [7, None, 1.5])
def test_a_row_that_is_no_row_is_named(wrong):
    with refused("row 3"):
        fit(changed(ROWS, 3, wrong))


def test_rows_with_keys_are_refused():
    with refused():
        fit([{"a": 1.0, "b": 2.0}] * 12)


@pytest.mark.parametrize(
    "wrong", [None, 5, 1.5, {"a": NUMBERS, "b": NUMBERS}, np.float64(3.0), Budget]
)
def test_what_is_no_table_is_refused(wrong):
    with refused("X"):
        fit(wrong)


@pytest.mark.parametrize("wrong", [[1.0, 2.0], b"ab", array("f", NUMBERS)])
def test_columns_that_are_no_columns_are_refused(wrong):
    with refused("column"):
        fit(wrong, by_column=True)


@pytest.mark.parametrize("flat", [NUMBERS[:7], array("f", NUMBERS[:7]), bytes(7), bytearray(7)])
def test_a_flat_buffer_of_the_wrong_length_is_refused(flat):
    with refused("7 values", "2"):
        fit(flat, LABELS[:3], n_features=2)


@pytest.mark.parametrize("flat", [NUMBERS, array("f", NUMBERS), bytes(12)])
def test_a_flat_buffer_needs_n_features(flat):
    with refused("n_features"):
        fit(flat)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2", 20000])
def test_n_features_out_of_range_is_refused(wrong):
    with refused("n_features", str(wrong)):
        fit(bytes(24), n_features=wrong)


def test_columns_of_bytes_beside_columns_of_numbers_work_as_numbers():
    """The first column says nothing about the others."""
    whole = list(range(0, 24, 2))
    for columns in ([bytes(whole), NUMBERS], [NUMBERS, bytes(whole)], [bytearray(whole), NUMBERS]):
        forest = fit(columns, by_column=True, max_features=2)
        plain = fit([list(column) for column in columns], by_column=True, max_features=2)
        assert forest.to_json() == plain.to_json()


# ---- Values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [INF, -INF, 1e39, -1e39, 10**39, VAST, np.float64(1e300), np.float32("inf")]
)
@pytest.mark.parametrize("with_missing", [False, True])
def test_a_value_beyond_float32_is_named(wrong, with_missing):
    rows = changed(ROWS, 4, [1.0, wrong])
    if with_missing:
        rows[9] = [None, 1.0]
    with refused("row 4", "'x1'", repr(wrong)):
        fit(rows)


@pytest.mark.parametrize("wrong", ["7", "cold", "", b"7", [1.0], (), {}, 1j, object])
def test_what_is_no_number_is_named(wrong):
    with refused("row 4", "'depth'", repr(wrong), "categorical"):
        fit(changed(ROWS, 4, [1.0, wrong]), names=["width", "depth"])


def test_text_in_a_numpy_table_is_named():
    with refused("row 0", "'x0'", "cold"):
        fit(np.array([["cold", "1"]] * 12))


@pytest.mark.parametrize("missing", [None, NAN, np.nan, np.float32("nan")])
def test_none_and_nan_are_missing(missing):
    rows = changed(changed(ROWS, 3, [3.0, missing]), 8, [8.0, missing])
    forest = fit(rows, max_features=2)
    assert (
        forest.to_json()
        == fit(
            [[NAN if v is None or v != v else v for v in row] for row in rows], max_features=2
        ).to_json()
    )
    assert forest.predict([3.0, missing]) == "low"
    assert forest.predict([8.0, missing]) == "high"


# ---- Labels and targets -----------------------------------------------------------------------


@pytest.mark.parametrize("missing", [None, NAN, np.nan, np.float32("nan")])
def test_a_missing_label_is_named(missing):
    labels = changed([i % 2 for i in range(12)], 5, missing)
    with refused("row 5", "label", "drop"):
        fit(y=labels)


@pytest.mark.parametrize("wrong", [[1], (1, 2), {}, 1j, object(), b"a"])
def test_labels_of_mixed_types_are_refused(wrong):
    with refused("label"):
        fit(y=changed(LABELS, 5, wrong))
    with refused("label"):
        fit(y=changed([1, 2] * 6, 5, wrong))


def test_labels_of_text_and_numbers_are_refused():
    with refused("labels", "text", "numbers"):
        fit(y=["a", 1] * 6)


def test_a_table_of_labels_is_refused():
    with refused("label"):
        fit(y=np.zeros((12, 2)))
    with refused("label"):
        fit(y=[[0.0, 1.0]] * 12)


@pytest.mark.parametrize("n", [0, 1, 11, 13, 24])
@pytest.mark.parametrize("criterion", ["gini", "entropy", "mse"])
def test_fewer_or_more_labels_than_rows_are_counted(n, criterion):
    with refused("y ", str(n), "12"):
        fit(y=[i % 2 for i in range(n)], criterion=criterion)


@pytest.mark.parametrize("wrong", [None, 3, dict.fromkeys(range(12), 1.0)])
@pytest.mark.parametrize("criterion", ["gini", "mse"])
def test_labels_that_are_no_sequence_are_refused(wrong, criterion):
    with refused("y "):
        fit(y=wrong, criterion=criterion)


def test_more_classes_than_fit_are_refused():
    with refused("4096", "4097", "mse"):
        fit([[float(i)] for i in range(4097)], list(range(4097)))


@pytest.mark.parametrize("wrong", [INF, -INF, NAN, 1e39, VAST, np.float64(-1e300)])
def test_a_target_that_is_not_finite_is_named(wrong):
    with refused("target", "row 4"):
        fit(y=changed(NUMBERS, 4, wrong), criterion="mse")


@pytest.mark.parametrize("wrong", ["cold", "7", [1.0], 1j])
def test_a_target_that_is_no_number_is_named(wrong):
    with refused("target", "number", repr(wrong)):
        fit(y=changed(NUMBERS, 4, wrong), criterion="mse")


def test_text_as_targets_is_refused():
    for y in (LABELS, np.array(LABELS)):
        with refused("target", "number"):
            fit(y=y, criterion="mse")


def test_targets_too_far_apart_are_refused():
    with refused("targets", "scale"):
        fit(y=[-3e38, 3e38] * 6, criterion="mse")


@pytest.mark.parametrize("kind", [bytes, bytearray, lambda y: array("B", y), np.array, tuple])
def test_whole_targets_train_in_any_container(kind):
    """Bytes are numbers here, not the memory of other numbers."""
    y = [0, 0, 0, 0, 0, 0, 200, 200, 200, 200, 200, 200]
    forest = fit(y=kind(y), criterion="mse", max_features=2)
    assert forest.to_json() == fit(y=y, criterion="mse", max_features=2).to_json()


# ---- Features ---------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["color", -1, 2, 99, 1.5, None, [0], "X0"])
def test_a_categorical_feature_that_is_not_there_is_named(wrong):
    with refused("categorical", repr(wrong)):
        fit(categorical=[wrong])


def test_a_mask_is_not_taken_for_places():
    """[False, True] would mean the features 0 and 1, which nobody wants to say with it."""
    with refused("categorical", "False"):
        fit(categorical=[False, True])


@pytest.mark.parametrize("wrong", [5, None])
def test_categorical_that_is_no_list_is_refused(wrong):
    with refused("categorical", "got"):
        fit(categorical=wrong)


def test_a_categorical_feature_goes_by_name_or_place():
    rows = [["red" if i < 6 else "blue", 1.0] for i in range(12)]
    for item in (0, "hue", np.int64(0)):
        forest = fit(rows, names=["hue", "size"], categorical=[item])
        assert forest.categories == [["blue", "red"], None]


@pytest.mark.parametrize("names", [[], ["a"], ["a", "b", "c"]])
def test_the_wrong_number_of_names_is_counted(names):
    with refused("names", "2", str(len(names))):
        fit(names=names)


def test_names_that_are_no_list_are_refused():
    with refused("names", "got"):
        fit(names=5)


def test_254_categories_train_and_255_are_counted():
    rows = [[f"k{i:03d}"] for i in range(255)]
    labels = [i % 2 for i in range(255)]
    forest = fit(rows[:254], labels[:254], categorical=[0], max_depth=3)
    assert len(forest.categories[0]) == 254
    with refused("'x0'", "255", "254", "group"):
        fit(rows, labels, categorical=[0])


@pytest.mark.parametrize("wrong", [7, 1.5, [1], b"red"])
def test_categories_of_mixed_types_name_the_feature(wrong):
    rows = [["red", float(i)] for i in range(12)]
    with refused("'hue'", "text", "number"):
        fit(changed(rows, 4, [wrong, 1.0]), names=["hue", "size"], categorical=["hue"])


# ---- Budget -----------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["insertions", "seconds", "bytes"])
@pytest.mark.parametrize("wrong", [0, -1, -(10**12), NAN, -0.5, True, False, "100", [100], b"9"])
def test_a_budget_that_is_none_names_its_unit(unit, wrong):
    with refused(f"budget in {unit}", str(wrong), "leave it out"):
        Budget(**{unit: wrong})


@pytest.mark.parametrize("unit", ["insertions", "bytes"])
@pytest.mark.parametrize("wrong", [0.5, 1.0, 1e6, 99.9])
def test_half_an_insertion_is_refused(unit, wrong):
    with refused(f"budget in {unit}", "whole", str(wrong)):
        Budget(**{unit: wrong})


def test_seconds_need_not_be_whole():
    assert Budget(seconds=0.25).seconds == 0.25
    with pytest.raises(TypeError, match="seconds") as caught:
        Budget(seconds="long")
    assert "whole" not in str(caught.value)


@pytest.mark.parametrize("wrong", [0, -5, 1.5, True, "1000", [1000], (1, 2)])
def test_a_budget_given_as_a_number_means_insertions(wrong):
    with refused("budget in insertions", str(wrong)):
        fit(budget=wrong)
    with refused("budget in insertions", str(wrong)):
        train_steps(ROWS, LABELS, budget=wrong)


def test_too_few_bytes_say_how_many_it_takes():
    with refused("bytes", "64", "fewer rows"):
        train(ROWS, LABELS, budget=Budget(bytes=64))  # every engine has its own memory


# ---- Options ----------------------------------------------------------------------------------

NOT_WHOLE = [1.5, 3.0, "3", True, False, NAN, [3], (3,), b"3", 1j]
NOT_A_NUMBER = ["0.5", True, False, [0.5], b"0.5", 1j]
WRONG_OPTIONS = {
    "n_trees": [0, -1, 4097, 10**30, None, *NOT_WHOLE],
    "max_depth": [-1, -(10**30), *NOT_WHOLE],
    "min_samples_leaf": [0, -1, 2**30, None, *NOT_WHOLE],
    "min_samples_split": [0, 1, -1, 2**30, None, *NOT_WHOLE],
    "max_leaf_nodes": [0, 1, -1, 2**30, *NOT_WHOLE],
    "n_bins": [0, 1, -1, 256, 10**30, *NOT_WHOLE],
    "seed": [-1, 2**30, None, *NOT_WHOLE],
    "max_features": [0, -1, 0.0, -0.5, 1.01, 2.0, NAN, INF, "sqrt", True, False, [1], b"1", 1j],
    "max_samples": [0, -1, 0.0, -0.5, 1.01, 2.0, NAN, INF, "all", True, False, [1], b"1", 1j],
    "min_impurity_decrease": [-0.1, -1, NAN, INF, 1e39, None, *NOT_A_NUMBER],
    "alpha_n": [0, 0.0, -0.5, 1.01, 2, NAN, INF, None, *NOT_A_NUMBER],
    "alpha_f": [0, 0.0, -0.5, 1.01, 2, NAN, INF, None, *NOT_A_NUMBER],
    "z": [-0.1, -1, 101, NAN, INF, None, *NOT_A_NUMBER],
    "tolerance": [-0.1, -1, 1.01, 2, NAN, INF, None, *NOT_A_NUMBER],
    "confidence": [0, 0.49, 1, 1.0, -1.0, NAN, INF, *NOT_A_NUMBER],
    "kind": ["forest", "", None, 1, ["random-forest"], "Random-Forest"],
    "criterion": ["mae", "", None, 1, ["gini"], "GINI"],
    "splitter": ["best", "", None, 1, ["mab"], "MAB"],
}


@pytest.mark.parametrize(
    ("name", "wrong"), [(name, wrong) for name, many in WRONG_OPTIONS.items() for wrong in many]
)
def test_an_option_out_of_range_or_of_the_wrong_type_is_named(name, wrong):
    with refused(f"{name} must be", str(wrong)):
        fit(**{name: wrong})


@pytest.mark.parametrize("name", ["kind", "criterion", "splitter"])
def test_the_choices_are_listed(name):
    for choice in {
        "kind": ["random-forest", "extra-trees", "random-patches"],
        "criterion": ["gini", "entropy", "mse"],
        "splitter": ["mab", "mab-paper", "exact"],
    }[name]:
        with refused(choice):
            fit(**{name: "other"})


def test_an_option_that_does_not_exist_is_named():
    for function in (train, train_steps, Training):
        with pytest.raises(TypeError, match="n_estimators"):
            function(ROWS, LABELS, n_estimators=10)


@pytest.mark.parametrize(
    "name",
    [
        "max_depth", "max_leaf_nodes", "n_bins", "max_features", "max_samples", "bootstrap",
        "class_weight", "sample_weight", "names", "n_features", "budget", "confidence", "engine",
    ],
)  # fmt: skip
def test_none_stands_for_the_default(name):
    assert fit(**{name: None}).to_json() == fit().to_json()


@pytest.mark.parametrize(
    "options",
    [
        {"max_depth": 0},
        {"max_depth": 2**30 - 1, "min_samples_leaf": 2**30 - 1},
        {"min_samples_split": 2**30 - 1},
        {"max_features": 2**30 - 1, "max_samples": 2**30 - 1, "max_leaf_nodes": 2**30 - 1},
        {"max_features": 1e-9, "max_samples": 1e-9},
        {"alpha_n": 1e-9, "alpha_f": 1e-9, "kind": "random-patches"},
        {"alpha_n": 1, "alpha_f": 1, "kind": "random-patches"},
        {"z": 0, "tolerance": 1, "confidence": 0.999999, "splitter": "mab-paper"},
        {"z": 100, "tolerance": 0, "n_bins": 255, "seed": 2**30 - 1},
        {"min_impurity_decrease": 3e38, "n_bins": 2},
        {"n_trees": np.int32(3), "max_depth": np.uint8(2), "z": np.float32(2.0)},
    ],
)
@pytest.mark.parametrize("criterion", ["gini", "mse"])
def test_the_ends_of_every_range_train(options, criterion):
    forest = fit(y=NUMBERS, criterion=criterion, **options)
    assert len(forest.predict(ROWS)) == 12


# ---- Weights ----------------------------------------------------------------------------------


def test_class_weight_is_refused_for_a_regression():
    for wrong in ("balanced", {1.0: 2.0}, {}):
        with refused("class_weight", "sample_weight"):
            fit(y=NUMBERS, criterion="mse", class_weight=wrong)


@pytest.mark.parametrize("wrong", ["balance", 3, 1.5, [1.0, 2.0], True, b"balanced"])
def test_class_weight_of_another_type_is_refused(wrong):
    with refused("class_weight", "balanced", repr(wrong)):
        fit(class_weight=wrong)


def test_class_weight_names_an_unknown_class():
    with refused("class_weight", "'middle'"):
        fit(class_weight={"low": 1.0, "middle": 2.0})
    with refused("class_weight", "'1'"):
        fit(y=[0, 1] * 6, class_weight={"1": 2.0})


@pytest.mark.parametrize("wrong", ["much", None, [1.0], -1.0, NAN, INF, VAST])
def test_class_weight_that_is_no_weight_is_refused(wrong):
    with refused("weight"):
        fit(class_weight={"low": wrong})


@pytest.mark.parametrize("n", [0, 1, 11, 13])
def test_sample_weight_of_the_wrong_length_is_counted(n):
    with refused("sample_weight", "12", str(n)):
        fit(sample_weight=[1.0] * n)


@pytest.mark.parametrize("place", [0, 5, 11])
@pytest.mark.parametrize("wrong", [-1.0, -1e-300, NAN, INF, -INF, 1e39])
def test_a_weight_that_is_negative_or_not_finite_is_refused(place, wrong):
    with refused("weight"):
        fit(sample_weight=changed([1.0] * 12, place, wrong))


@pytest.mark.parametrize("wrong", ["heavy", "1", [1.0], 1j])
def test_a_weight_that_is_no_number_is_refused(wrong):
    with refused("weight", repr(wrong)):
        fit(sample_weight=changed([1.0] * 12, 5, wrong))


@pytest.mark.parametrize("kind", ["random-forest", "extra-trees", "random-patches"])
def test_weights_that_are_all_zero_are_refused(kind):
    with refused("weights", "zero"):
        fit(sample_weight=[0.0] * 12, kind=kind)
    with refused("weights", "zero"):
        fit(class_weight={"low": 0, "high": 0}, kind=kind)


@pytest.mark.parametrize("wrong", [5, 1.5, True])
def test_weights_that_are_no_sequence_are_refused(wrong):
    with refused("sample_weight", "got"):
        fit(sample_weight=wrong)


# ---- Data that hold little --------------------------------------------------------------------

KINDS = ("random-forest", "extra-trees", "random-patches")
SPLITTERS = ("mab", "mab-paper", "exact")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_one_class_makes_a_constant_forest(kind, splitter, criterion):
    for label in ("only", 7, True):
        forest = fit(y=[label] * 12, kind=kind, splitter=splitter, criterion=criterion, n_trees=7)
        assert forest.classes == [label]
        assert forest.predict([[1.0, 2.0], [NAN, 99.0]]) == [label, label]
        assert forest.predict_proba([1.0, 2.0]) == [1.0]
        assert forest.spent.insertions == 0
        assert forest.feature_importances == [0.0, 0.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splitter", SPLITTERS)
def test_one_row_trains(kind, splitter):
    forest = fit([[1.0, 2.0]], ["a"], kind=kind, splitter=splitter)
    assert forest.predict([5.0, NAN]) == "a"
    assert forest.predict_proba([5.0, NAN]) == [1.0]
    forest = fit([[1.0, 2.0]], [2.5], kind=kind, splitter=splitter, criterion="mse")
    assert forest.predict([5.0, NAN]) == 2.5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("value", [1.0, NAN, None, "text"])
def test_features_that_never_vary_make_leaves_only(kind, splitter, value):
    rows = [[value, value]] * 12
    categorical = [0, 1] if value == "text" else []
    options = {"kind": kind, "splitter": splitter, "categorical": categorical, "n_trees": 9}
    forest = fit(rows, ["a"] * 9 + ["b"] * 3, **options)
    assert all(f == LEAF for f in forest.feature)
    assert forest.predict(rows) == ["a"] * 12
    assert math.isclose(sum(forest.predict_proba([value, value])), 1.0)
    forest = fit(rows, NUMBERS, criterion="mse", **options)
    assert all(f == LEAF for f in forest.feature)
    assert 2.0 < forest.predict([value, value]) < 9.0


def test_a_target_that_never_varies_is_predicted_exactly():
    forest = fit(y=[-2.5] * 12, criterion="mse")
    assert forest.predict(ROWS) == [-2.5] * 12


def test_two_rows_that_contradict_each_other_make_a_leaf():
    forest = fit([[1.0], [1.0]], ["a", "b"], n_trees=50)
    assert all(f == LEAF for f in forest.feature)
    assert 0.2 < forest.predict_proba([1.0])[0] < 0.8


# ---- Prediction -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def forest(engine):
    return fit(max_features=2)


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
@pytest.mark.parametrize("wrong", [[1.0], [1.0, 2.0, 3.0], (1.0,), array("f", [1.0]), b"abc"])
def test_a_row_with_the_wrong_number_of_values_is_counted(forest, method, wrong):
    with refused("2 values", str(len(wrong))):
        getattr(forest, method)(wrong)
    with refused("2 values", str(len(wrong))):
        getattr(forest, method)([[1.0, 2.0], wrong])


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
@pytest.mark.parametrize("wrong", ["cold", "7", [1.0], 1j, b"7"])
def test_a_value_to_predict_that_is_no_number_is_named(forest, method, wrong):
    for rows in ([1.0, wrong], [[1.0, 2.0], [1.0, wrong]]):
        with refused("'x1'", repr(wrong)) as caught:
            getattr(forest, method)(rows)
        assert "x0" not in str(caught.value), "the other one is fine"


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
@pytest.mark.parametrize("wrong", [None, 5, 1.5, {"x0": 1.0, "x1": 2.0}, [[1.0, 2.0], None]])
def test_what_is_no_row_is_refused(forest, method, wrong):
    with refused("row"):
        getattr(forest, method)(wrong)


def test_a_row_may_come_from_an_iterator(forest):
    assert forest.predict(iter([9.0, 9.0])) == forest.predict([9.0, 9.0])
    assert forest.predict(iter(ROWS)) == forest.predict(ROWS)
    assert forest.predict(row for row in ROWS) == forest.predict(ROWS)


def test_no_rows_give_no_predictions(forest):
    assert forest.predict([]) == []
    assert forest.predict_proba([]) == []
    assert forest.predict(np.zeros((0, 2))) == []


def test_a_value_beyond_float32_is_the_largest_of_all_in_prediction(forest):
    for huge in (INF, 1e39, np.float64(1e300)):
        assert forest.predict([huge, 0.0]) == "high"
        assert forest.predict([-huge, 0.0]) == "low"


def test_a_whole_number_beyond_every_float_is_refused_or_infinite_in_prediction(forest):
    assert forest.predict([INF, 0.0]) != forest.predict([-INF, 0.0])
    for vast, infinite in ((10**400, INF), (-(10**400), -INF)):
        answer = attempt(forest.predict, [vast, 0.0])
        assert answer in (None, forest.predict([infinite, 0.0]))


@pytest.mark.parametrize("m", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_a_row_of_bytes_predicts_as_its_numbers(m, kind):
    """Not as the memory of m / 4 other numbers."""
    rng = random.Random(m)
    rows = [[rng.randrange(256) for _ in range(m)] for _ in range(40)]
    forest = fit(rows, [row[-1] > 120 for row in rows], max_features=m)
    assert [forest.predict(kind(row)) for row in rows] == forest.predict(rows)
    assert forest.predict_proba([kind(row) for row in rows]) == forest.predict_proba(rows)


def test_class_shares_of_a_regression_are_refused():
    forest = fit(y=NUMBERS, criterion="mse")
    for rows in ([1.0, 2.0], ROWS, []):
        with refused("regression", "predict"):
            forest.predict_proba(rows)


# ---- Where missing values go ------------------------------------------------------------------


def by_hand(nodes, names, categories, classes):
    """A forest of one tree from a list of nodes: (feature, threshold, right) or votes."""
    forest = Forest()
    forest.kind, forest.criterion, forest.splitter = "random-forest", "gini", "exact"
    forest.seed, forest.scale = 0, 10
    forest.names, forest.categories, forest.classes = names, categories, classes
    forest.importances = [0] * len(names)
    forest.roots.append(0)
    for node in nodes:
        if isinstance(node, list):
            forest.right.append(len(forest.votes) // len(classes))
            forest.votes.extend(node)
        else:
            forest.right.append(node[2])
        forest.feature.append(LEAF if isinstance(node, list) else node[0])
        forest.threshold.append(0.0 if isinstance(node, list) else node[1])
    forest.prepare()
    return forest


@pytest.mark.parametrize("flag", [0, MISSING_LEFT])
def test_unknown_and_missing_go_where_the_node_says(flag):
    hand = by_hand(
        [
            (0 | EQUAL | flag, 2.0, 4),  # hue: is it green?
            (1 | (MISSING_LEFT - flag), 5.0, 3),  # size: at most 5?
            [10, 0, 0],
            [0, 10, 0],
            [0, 0, 10],
        ],
        ["hue", "size"],
        [["blue", "green", "red"], None],
        ["a", "b", "c"],
    )
    forest = load(hand.to_json())
    for known, size, wanted in (
        ("green", 5, "a"),
        ("green", 6, "b"),
        ("red", 5, "c"),
        ("blue", 6, "c"),
    ):
        assert forest.predict([known, size]) == wanted
    for unknown in ("violet", "", "GREEN", None, NAN, INF, 2, 2.0, np.str_("grue")):
        assert forest.predict([unknown, 5]) == ("a" if flag else "c")
        assert forest.predict([[unknown, 6]]) == ["b" if flag else "c"]
    for missing in (None, NAN, np.float32("nan")):
        assert forest.predict(["green", missing]) == ("b" if flag else "a")


def walk(forest, row):
    """The summed votes for a row, by the words of `Forest` and nothing of its code."""
    sums = [0] * (1 if forest.classes is None else len(forest.classes))
    for node in forest.roots:
        while forest.feature[node] != LEAF:
            flags, place = forest.feature[node], forest.feature[node] & FEATURE
            value = row[place]
            if forest.categories[place] is not None:
                known = value in forest.categories[place]
                value = forest.categories[place].index(value) + 1 if known else None
            elif value is not None:
                value = None if math.isnan(value) else np.float32(value)
            if value is None:
                left = bool(flags & MISSING_LEFT)
            elif flags & EQUAL:
                left = value == forest.threshold[node]
            else:
                left = value <= np.float32(forest.threshold[node])
            node = node + 1 if left else forest.right[node]
        for k in range(len(sums)):
            sums[k] += forest.votes[forest.right[node] * len(sums) + k]
    return sums


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splitter", SPLITTERS)
def test_trained_forests_send_unknown_and_missing_where_a_walk_by_hand_goes(kind, splitter):
    rng = random.Random(5)
    hues = ["blue", "green", "red", "white"]
    rows = [[rng.choice(hues), rng.random(), float(rng.randrange(9))] for _ in range(300)]
    labels = ["a" if hue in ("red", "white") or x > 0.8 else "b" for hue, x, _ in rows]
    for row in rows[::7]:
        row[rng.randrange(3)] = rng.choice([None, NAN])
    forest = fit(
        rows, labels, kind=kind, splitter=splitter, categorical=[0], max_features=3, n_trees=5
    )
    both = {bool(f & MISSING_LEFT) for f in forest.feature if f != LEAF}
    assert both == {False, True}
    values = [[*hues, "violet", None], [0.0, 0.5, 0.9, None, NAN], [0.0, 4.0, 8.0, None, NAN]]
    for hue in values[0]:
        for x in values[1]:
            for count in values[2]:
                row = [hue, x, count]
                votes = walk(forest, row)
                total = forest.scale * len(forest)
                assert forest.predict_proba(row) == [v / total for v in votes]
                assert forest.predict(row) == forest.classes[votes.index(max(votes))]


# ---- Garbage ----------------------------------------------------------------------------------

VALUES = st.one_of(
    st.floats(),
    st.integers(-5, 5),
    st.integers(),
    st.sampled_from([10**39, 10**400, 1e39, -0.0, 1e-320, NAN, INF, -INF]),
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.complex_numbers(),
    st.lists(st.integers(), max_size=2),
    st.tuples(st.integers()),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.dates(),
    st.just({}),
    st.builds(object),
    st.sampled_from([np.float32(1.5), np.int64(3), np.str_("x"), np.bool_(True), np.nan]),
)


def mostly(sound):
    """Values of one sort, now and then among others: what all garbage would hide behind."""
    return st.one_of(sound, sound, sound, sound, sound, sound, VALUES)


SORTS = st.sampled_from(
    [
        VALUES,
        st.floats(-9, 9),
        mostly(st.floats(-9, 9)),
        st.one_of(st.none(), st.floats(-9, 9)),
        st.integers(0, 3),
        mostly(st.integers(0, 3)),
        st.text(max_size=2),
        mostly(st.text(max_size=2)),
        st.booleans(),
    ]
)


@st.composite
def tables(draw):
    """Rows of mixed garbage, some of them ragged, and labels of the like."""
    n, m = draw(st.integers(0, 8)), draw(st.integers(0, 4))
    columns = [draw(st.lists(draw(SORTS), min_size=n, max_size=n)) for _ in range(m)]
    rows = [list(row) for row in zip(*columns, strict=True)] if m else [[] for _ in range(n)]
    if rows and draw(st.integers(0, 9)) == 0:
        place = draw(st.integers(0, n - 1))
        rows[place] = draw(st.one_of(VALUES, st.lists(VALUES, max_size=5)))
    labels = draw(st.lists(draw(SORTS), min_size=n, max_size=n))
    if draw(st.integers(0, 9)) == 0:
        labels = labels[:-1]
    categorical = draw(st.lists(st.integers(0, max(0, m - 1)), max_size=3))
    return rows, labels, categorical


@FUZZ
@given(
    tables(),
    st.sampled_from(["gini", "entropy", "mse"]),
    st.sampled_from(SPLITTERS),
    st.sampled_from(KINDS),
)
def test_a_table_of_garbage_trains_and_predicts_or_is_refused_in_one_line(
    table, criterion, splitter, kind
):
    rows, labels, categorical = table
    options = {"criterion": criterion, "splitter": splitter, "kind": kind, "n_trees": 2}
    forest = attempt(fit, rows, labels, categorical=categorical, **options)
    if forest is None:
        return
    answers = forest.predict(rows)
    assert len(answers) == len(rows)
    again = loading.load(forest.to_json())  # the pure one
    assert again.predict(rows) == answers
    if criterion == "mse":
        assert all(math.isfinite(v) for v in answers)
    else:
        assert all(v in forest.classes for v in answers)


OTHERS = ["budget", "categorical", "names", "class_weight", "sample_weight", "n_features"]
OPTIONS = sorted([*WRONG_OPTIONS, *OTHERS])


@FUZZ
@given(st.dictionaries(st.sampled_from(OPTIONS), VALUES, min_size=1, max_size=2))
def test_an_option_of_garbage_trains_or_is_refused_in_one_line(options):
    training = attempt(train_steps, ROWS, LABELS, **{"n_trees": 2, **options})
    if training is not None and training.n_trees <= 20:
        forest = loading.load(training.forest().to_json())
        assert len(forest.predict(ROWS)) == 12


@FUZZ
@given(st.lists(mostly(st.floats()), max_size=4), st.booleans())
def test_a_row_of_garbage_is_predicted_or_refused_in_one_line(row, many):
    forest = fit([[1.0, "a"], [2.0, "b"], [3.0, "b"]], [0, 1, 1], categorical=[1])
    answers = attempt(forest.predict, [row] if many else row)
    if answers is None:
        return
    assert all(v in (0, 1) for v in (answers if isinstance(answers, list) else [answers]))
