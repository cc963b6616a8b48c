"""One row through an estimator goes a short way: the same answers, and the same errors."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

from edgeforest import RandomForestClassifier, RandomForestRegressor
from edgeforest.engines import present
from edgeforest.estimators import schema

RNG = np.random.default_rng(0)
X = RNG.normal(0, 3, (200, 4))
LABELS = np.array(["dry", "moist", "wet"])[np.digitize(X[:, 0], [-1, 1])]


@cache
def fitted(name: Any = None) -> list[Any]:
    return [
        RandomForestClassifier(9, random_state=0, engine=name).fit(X, LABELS),
        RandomForestClassifier(9, random_state=0, engine=name).fit(X, X[:, 1] > 0),
        RandomForestRegressor(9, random_state=0, engine=name).fit(X, X[:, 0]),
    ]


@pytest.mark.parametrize("name", present())
@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "i4", "u1", "list", "list of int"])
def test_one_row_has_the_answer_that_it_has_among_many(name: Any, kind: str) -> None:
    table: Any = np.abs(X).astype(
        "i8" if kind.startswith("list of") else kind.replace("list", "f8")
    )
    for forest in fitted(name):
        answers = [forest.predict]
        if isinstance(forest, RandomForestClassifier):
            answers.append(forest.predict_proba)
        for answer in answers:
            many = answer(table)
            for i in range(20):
                row = table[i : i + 1].tolist() if kind.startswith("list") else table[i : i + 1]
                assert schema.one_row(forest, row) is not None  # the short way
                one = answer(row)
                assert one.dtype == many.dtype
                assert one.tolist() == many[i : i + 1].tolist()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, 1e20, None, "wet", 1j])
def test_unusual_values_go_the_long_way(value: Any) -> None:
    for forest in fitted():
        row = [[1.0, value, 2.0, 3.0]]
        assert schema.one_row(forest, row) is None
        assert outcome(forest, row) == outcome(forest, row * 2)


@pytest.mark.parametrize(
    "row", [[[1.0, 2.0]], [[1.0] * 5], [[[1.0] * 4]], [[1.0, [2.0], 3.0, 4.0]], [[]], [], [1.0] * 4]
)
def test_other_shapes_have_the_same_errors_as_ever(row: Any) -> None:
    for forest in fitted():
        assert schema.one_row(forest, row) is None
        with pytest.raises(ValueError, match=r"features|2D|table|minimum"):
            forest.predict(row)


def test_names_and_categories_go_the_long_way() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    forest = RandomForestRegressor(3, random_state=0).fit(frame, X[:, 0])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        forest.predict(X[:1])
    forest = RandomForestRegressor(3, random_state=0, categorical_features=[1])
    table = np.column_stack([X[:, 0], np.arange(200) % 3])
    forest.fit(table, table[:, 1])
    assert schema.one_row(forest, table[:1]) is None
    assert forest.predict(table[:1]) == forest.predict(table)[:1]


def test_one_row_asks_for_a_fit_first() -> None:
    with pytest.raises(ValueError, match="not fitted yet"):
        RandomForestClassifier().predict([[1.0]])


def test_arrays_that_are_not_plain_go_the_long_way() -> None:
    forest = fitted()[0]
    for row in (
        X[:1].astype(">f8"),
        X[:1].astype(np.float16),
        np.ma.masked_array(X[:1], X[:1] > 0),
        X[:1].astype(object),
    ):
        assert schema.one_row(forest, row) is None
    turned = np.asfortranarray(X)[3:4]
    assert forest.predict(turned) == forest.predict(X)[3:4]


def outcome(forest: Any, rows: Any) -> Any:
    """The first answer, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return forest.predict(rows)[0]
        except (ValueError, TypeError) as error:
            return type(error), str(error)
