"""Frames of pandas, polars and Arrow: the same forest as from lists, and columns found by name."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import edgeforest
from edgeforest import (
    Budget,
    OnlineForest,
    RandomForestClassifier,
    engine,
    open_source,
    train,
    train_source,
)
from edgeforest.engines import present, sampling
from edgeforest.export import rounded_rows, shrink
from edgeforest.host.frames import is_frame

pl = pytest.importorskip("polars", reason="polars is missing: pip install polars")

N = 240
NAMES = ["temp", "people", "open", "room", "price"]
COLUMNS: dict[str, list] = {
    "temp": [None if i % 11 == 0 else 15 + i * 7 % 100 / 10 for i in range(N)],
    "people": [None if i % 13 == 0 else i % 5 for i in range(N)],
    "open": [i % 3 == 0 for i in range(N)],
    "room": [None if i % 17 == 0 else ["lab", "hall", "attic"][i % 7 % 3] for i in range(N)],
    "price": [Decimal(i % 29) / 4 for i in range(N)],
}
LABELS = ["warm" if (t or 18) + 2 * (p or 0) > 22 else "cold" for t, p in zip(COLUMNS["temp"], COLUMNS["people"], strict=True)]  # fmt: skip
ROWS = [list(row) for row in zip(*COLUMNS.values(), strict=True)]
OPTIONS: dict[str, Any] = {"n_trees": 4, "seed": 3, "max_features": 3}


class Speaks:
    """An object with one protocol that belongs to no library."""

    def __init__(self, table: pa.Table, protocol: str) -> None:
        self.columns = table.column_names
        self._table = table
        type(self).columns = None
        setattr(type(self), protocol, lambda self, *a, **k: getattr(self._table, protocol)(*a, **k))


def of_arrow() -> pa.Table:
    columns = {**COLUMNS, "room": pa.array(COLUMNS["room"]).dictionary_encode()}
    return pa.table(columns)


def of_pandas() -> pd.DataFrame:
    frame = pd.DataFrame(COLUMNS)
    return frame.assign(room=frame.room.astype("category"))


def speaks(protocol: str) -> Any:
    table = of_arrow() if "arrow" in protocol else of_arrow().drop_columns("price")
    if "arrow" not in protocol:
        table = table.append_column("price", pa.array([float(v) for v in COLUMNS["price"]]))
    return type("Table", (Speaks,), {})(table, protocol)


FRAMES = {
    "pandas": of_pandas,
    "pandas text": lambda: pd.DataFrame(COLUMNS),
    "pandas object": lambda: pd.DataFrame(COLUMNS, dtype=object),
    "pandas nullable": lambda: pd.DataFrame(COLUMNS).convert_dtypes(),
    "pandas arrow": lambda: pd.DataFrame(COLUMNS).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars categorical": lambda: pl.DataFrame(COLUMNS).cast({"room": pl.Categorical}),
    "polars enum": lambda: pl.DataFrame(COLUMNS).cast({"room": pl.Enum(["hall", "lab", "attic"])}),
    "polars lazy": lambda: pl.DataFrame(COLUMNS).lazy(),
    "arrow": of_arrow,
    "arrow chunks": lambda: pa.concat_tables([of_arrow().slice(0, 90), of_arrow().slice(90)]),
    "arrow batch": lambda: of_arrow().to_batches()[0],
    "arrow reader": lambda: of_arrow().to_reader(),
    "arrow protocol": lambda: speaks("__arrow_c_stream__"),
    "interchange protocol": lambda: speaks("__dataframe__"),
}
every_frame = pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)


def from_lists(**more: Any) -> Any:
    rows = [[*row[:4], float(row[4])] for row in ROWS]
    return train(rows, LABELS, names=NAMES, categorical=["room"], **OPTIONS, **more)


# ---- Training


@every_frame
def test_a_frame_trains_the_forest_that_lists_train(make: Any) -> None:
    for name in present():
        expected = from_lists(engine=name).to_json()
        assert train(make(), LABELS, engine=name, **OPTIONS).to_json() == expected


@every_frame
def test_a_column_may_be_the_target(make: Any) -> None:
    rows = [[*row[:3], float(row[4])] for row in ROWS]
    names = [name for name in NAMES if name != "room"]
    keep = [i for i, row in enumerate(ROWS) if row[3] is not None]
    with pytest.raises(ValueError, match="the label of row 0 is missing; drop rows"):
        train(make(), "room", **OPTIONS)
    if not hasattr(frame := make(), "iloc"):
        return
    expected = train([rows[i] for i in keep], [ROWS[i][3] for i in keep], names=names, **OPTIONS)
    assert train(frame.iloc[keep], "room", **OPTIONS).to_json() == expected.to_json()


@pytest.mark.parametrize("values", [[1, 2, 3], [1.5, 2.5, 9.0], ["a", "b", "c"], [True, False]])
@pytest.mark.parametrize(
    "make",
    [pd.Series, pl.Series, pa.array, lambda v: pa.chunked_array([v[:7], v[7:]]), np.array,
     lambda v: pd.DataFrame({"y": v}), lambda v: pl.DataFrame({"y": v}), lambda v: pa.table({"y": v}),
     lambda v: pd.Series(v).convert_dtypes(), lambda v: pd.Series(v, dtype="category")],
)  # fmt: skip
def test_labels_of_every_kind(make: Any, values: list) -> None:
    X = [[i % 7, i % 3] for i in range(60)]
    y = [values[i % len(values)] for i in range(60)]
    numbers = isinstance(values[0], (int, float))
    for criterion in ("gini", "mse") if numbers else ("gini",):
        expected = train(X, y, criterion=criterion, n_trees=3).to_json()
        if isinstance(y[0], bool) and make is np.array and criterion == "gini":
            expected = expected.replace("[0,1]", "[false,true]")
        made = make(y)
        found = [train(X, made, criterion=criterion, n_trees=3)]
        names = {"names": ["x0", "x1"]}
        found.append(train(pd.DataFrame(X), made, criterion=criterion, n_trees=3, **names))
        weight = make([1.0] * 60)
        plain = train(X, y, criterion=criterion, n_trees=3, sample_weight=[1.0] * 60).to_json()
        if not is_frame(weight) and not hasattr(weight, "cat"):
            found_weighted = train(X, y, criterion=criterion, n_trees=3, sample_weight=weight)
            assert found_weighted.to_json() == plain
        assert [forest.to_json() for forest in found] == [expected, expected]


@every_frame
def test_a_budget_in_seconds_takes_frames_and_samples_of_them(make: Any, monkeypatch) -> None:
    for y in (LABELS, pa.array(LABELS), pl.Series(LABELS)):
        forest = train(make(), y, budget=Budget(seconds=600), **OPTIONS)
        assert forest.to_json() == from_lists().to_json()
        model = RandomForestClassifier(4, random_state=3, max_features=3)
        model.set_params(budget=Budget(seconds=600)).fit(make(), y)
        assert model.forest_.names == NAMES
    monkeypatch.setattr(sampling, "_fitting", lambda count, *_: 32 if count < 32 else 0)  # in time
    forest = train(make(), pa.array(LABELS), budget=Budget(seconds=600), **OPTIONS)
    assert forest.names == NAMES
    assert forest.predict(make()) != from_lists().predict(make())


def test_options_of_training_work_with_a_frame() -> None:
    frame = of_pandas()
    named = train(frame, LABELS, names=list("abcde"), categorical=["b"], **OPTIONS)
    assert named.names == list("abcde")
    assert named.categories[1] == [0.0, 1.0, 2.0, 3.0, 4.0]  # with NaN, pandas makes them floats
    assert named.categories[3] == ["attic", "hall", "lab"]
    steps = engine.train_steps(frame, LABELS, **OPTIONS)
    for _ in steps:
        pass
    assert steps.forest().to_json() == from_lists().to_json()
    for wrong, sentence in (
        ({"by_column": True}, "by_column is for lists and buffers; a frame has columns"),
        ({"n_features": 5}, "n_features is for lists and buffers; a frame has columns"),
        ({"categorical": "room"}, r"categorical must be a list of columns, got 'room'; write"),
        ({"categorical": ["door"]}, "categorical names 'door', which is not a column of X"),
    ):
        with pytest.raises((ValueError, TypeError), match=sentence):
            train(frame, LABELS, **wrong)
    with pytest.raises(
        ValueError, match="the frame has no column 'door'; it has temp, people, open"
    ):
        train(frame, "door")
    with pytest.raises(ValueError, match="y must be one column, got 5: temp, people, open"):
        train(ROWS, frame)


def test_columns_without_names_or_with_the_same_name() -> None:
    X = [[i % 7, i % 3] for i in range(60)]
    y = [i % 7 > 3 for i in range(60)]
    assert train(pd.DataFrame(X), y).to_json() == train(X, y).to_json()
    assert train(X, y).predict(pd.DataFrame(X)) == train(X, y).predict(X)
    for frame in (pd.DataFrame(X)[:0], pl.DataFrame({"a": []}), pd.DataFrame(X)[[]]):
        with pytest.raises(ValueError, match="rows"):
            train(frame, [])
    twice = pd.DataFrame(X, columns=["a", "a"])
    with pytest.raises(ValueError, match="the frame has more than one column 'a'; rename one"):
        train(twice, y)
    with pytest.raises(TypeError, match="all input features have string names"):
        train(pd.DataFrame(X, columns=["a", 1]), y)
    source = pd.DataFrame({"names": [1, 2] * 9, "read": [0, 1] * 9})  # as a source has them
    assert train(source, ["a", "b"] * 9).predict(source) == ["a", "b"] * 9


# ---- Times, and what cannot be learned from


MOMENTS = [None if i % 7 == 0 else dt.datetime(2024, 3, 30, i % 24, 30) + dt.timedelta(i) for i in range(60)]  # fmt: skip
BERLIN = pd.Series(MOMENTS).dt.tz_localize("Europe/Berlin", nonexistent="shift_forward")
TIMES = {
    "naive": (pd.Series(MOMENTS), [None if v is None else v.replace(tzinfo=dt.UTC).timestamp() for v in MOMENTS]),
    "zone": (BERLIN, [None if pd.isna(v) else v.timestamp() for v in BERLIN]),
    "duration": (pd.Series([dt.timedelta(hours=i, milliseconds=5) for i in range(60)]), [i * 3600 + 0.005 for i in range(60)]),
    "date": (pd.Series(MOMENTS).astype("date32[pyarrow]"), [None if v is None else v.replace(hour=0, minute=0, tzinfo=dt.UTC).timestamp() for v in MOMENTS]),
    "time of day": (pd.Series([dt.time(i % 24, i) for i in range(60)], dtype=pd.ArrowDtype(pa.time64("us"))), [i % 24 * 3600 + i * 60 for i in range(60)]),
}  # fmt: skip


@pytest.mark.parametrize("name", TIMES)
def test_times_are_seconds(name: str) -> None:
    series, seconds = TIMES[name]
    y = [i % 4 > 1 for i in range(60)]
    expected = train([[v] for v in seconds], y, names=["t"], n_trees=3)
    table = pa.table({"t": pa.array(series)})
    frames = [pd.DataFrame({"t": series}), table, pl.from_arrow(table), table.to_pandas()]
    for frame in frames:
        assert train(frame, y, n_trees=3).to_json() == expected.to_json()
        assert expected.predict(frame) == expected.predict([[v] for v in seconds])


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (
            pl.DataFrame({"a": [[1], [2]]}),
            "column 'a' holds List.*, which is neither numbers, text, booleans",
        ),
        (pa.table({"a": [b"1", b"2"]}), "column 'a' holds binary, which is neither numbers"),
        (pa.table({"a": [{"b": 1}] * 2}), "column 'a' holds struct.*, which is neither"),
        (pd.DataFrame({"a": pd.period_range("2024", periods=2)}), "column 'a' holds period"),
        (
            pd.DataFrame({"a": [{"b": 1}] * 2}),
            "column 'a' holds a dict, which is neither",
        ),
        (pd.DataFrame({"a": [[1], [2]]}), "column 'a' holds a list, which is neither"),
        (pd.DataFrame({"a": [1j, 2j]}), "Complex data not supported: feature 'a' has it"),
        (pd.DataFrame({"a": ["x", 1]}), "categories of 'a' must be all text or all numbers"),
        (pd.DataFrame({"a": [np.inf, 1]}), "feature 'a' contains infinity"),
    ],
)
def test_what_cannot_be_learned_from_is_refused_by_name(frame: Any, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence) as error:
        train(frame, [0, 1])
    assert "\n" not in str(error.value)


def test_what_is_not_computed_yet_is_refused() -> None:
    class Lazy:
        columns = dtypes = compute = iloc = None

    with pytest.raises(TypeError, match=r"a Lazy is not computed yet; give X.compute"):
        train(Lazy(), [1])


def test_without_numpy_or_pyarrow_the_error_names_what_is_missing(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="read by way of pyarrow, which is not installed"):
        train(speaks("__arrow_c_stream__"), LABELS)
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "import edgeforest\n"
        "class Frame: columns = dtypes = None\n"
        "for call in (lambda: edgeforest.train(Frame(), []), lambda: edgeforest.open_source(Frame())):\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n"
        "print(edgeforest.train([[1], [2]], ['a', 'b']).predict([[2]]))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.count("frames are read by way of NumPy, which is not installed") == 2


def test_no_library_of_frames_is_imported() -> None:
    code = (
        "import sys, edgeforest, edgeforest.host.arrays, edgeforest.sources, edgeforest.estimators\n"
        "print([name for name in ('pandas', 'polars', 'pyarrow') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


# ---- Prediction


def in_another_order(frame: Any) -> Any:
    order = NAMES[::-1]
    if isinstance(frame, (pd.DataFrame, pl.DataFrame)):
        return frame[order]
    return frame.select(order)


@every_frame
def test_a_forest_finds_the_columns_of_a_frame_by_name(make: Any) -> None:
    rows = [[*row[:4], float(row[4])] for row in ROWS]
    for name in present():
        forest = from_lists(engine=name)
        assert forest.predict(make()) == forest.predict(rows)
        assert forest.predict_proba(make()) == forest.predict_proba(rows)
    frame = make()
    if not hasattr(frame, "select") and not hasattr(frame, "iloc"):
        return
    assert forest.predict(in_another_order(frame)) == forest.predict(rows)


def test_frames_of_numbers_alone_and_empty_ones_are_predicted() -> None:
    frame = pd.DataFrame({"a": [i % 7 for i in range(60)], "b": [i / 9 for i in range(60)]})
    y = [i * 2.0 for i in range(60)]
    for name in present():
        forest = train(frame, y, criterion="mse", engine=name, n_trees=3)
        assert forest.predict(frame) == forest.predict(frame.to_numpy().tolist())
        assert forest.predict(pl.DataFrame(frame)[["b", "a"]]) == forest.predict(frame)
        assert forest.predict(frame[:0]) == []
        assert forest.predict(frame[:1]) == forest.predict(frame)[:1]


def test_one_row_of_a_frame_of_pandas_is_predicted() -> None:
    forest = from_lists()
    frame = in_another_order(of_pandas())
    expected = forest.predict(frame)
    for i in range(20):
        assert forest.predict(frame.iloc[i]) == expected[i]
        assert forest.predict(pd.Series(ROWS[i])) == expected[i]


def test_columns_that_are_missing_or_too_many_are_named() -> None:
    forest = from_lists()
    frame = of_pandas()
    for other, sentence in (
        (
            frame.drop(columns="room"),
            "the frame has no column 'room', which the forest was trained on",
        ),
        (
            frame.drop(columns="temp"),
            "the frame has no column 'temp', which the forest was trained",
        ),
        (
            frame.assign(y=1, z=2),
            "columns that the forest was not trained on: y, z; leave them out",
        ),
        (frame.rename(columns={"room": "Room"}), "the frame has no column 'room'"),
        (pd.DataFrame(ROWS)[[0, 1]], "the frame has 2 columns, the forest was trained on 5"),
    ):
        for call in (forest.predict, forest.predict_proba, lambda X: shrink(forest, X)):
            with pytest.raises(ValueError, match=sentence):
                call(other)
        with pytest.raises(ValueError, match=sentence):
            edgeforest.prune(forest, other, LABELS, max_trees=2)


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X.drop(columns="room"),
        lambda X: X[NAMES[::-1]],
        lambda X: X[["room", *[name for name in NAMES if name != "room"]]],
        lambda X: X.rename(columns={"room": "Room"}),
        lambda X: X.assign(extra="text"),
    ],
    ids=["missing", "reversed", "first", "renamed", "extra"],
)
def test_estimators_refuse_names_that_do_not_match(change: Any) -> None:
    X = of_pandas()
    model = RandomForestClassifier(3, random_state=0).fit(X, LABELS)
    online = RandomForestClassifier(3, random_state=0).partial_fit(X, LABELS)
    said = "The feature names should match those that were passed during fit"
    for call in (
        lambda: model.predict(change(X)),
        lambda: model.predict(pl.from_pandas(change(X).drop(columns="price"))),
        lambda: model.predict_proba(change(X)),
        lambda: model.apply(change(X)),
        lambda: model.score(change(X), LABELS),
        lambda: edgeforest.permutation_importance(model, change(X), LABELS),
        lambda: online.partial_fit(change(X), LABELS),
    ):
        with pytest.raises(ValueError, match=said):
            call()


@every_frame
def test_estimators_take_every_frame(make: Any) -> None:
    X, y = make(), np.array(LABELS)
    model = RandomForestClassifier(4, random_state=3, max_features=3).fit(X, pl.Series(LABELS))
    assert model.feature_names_in_.tolist() == NAMES
    plain = RandomForestClassifier(4, random_state=3, max_features=3).fit(of_pandas(), y)
    assert model.forest_.to_json() == plain.forest_.to_json()
    assert (model.predict_proba(make()) == plain.predict_proba(of_pandas())).all()
    assert model.forest_.predict(make()) == model.predict(make()).tolist()


def test_estimators_refuse_missing_labels_of_a_frame() -> None:
    X = [[i] for i in range(6)]
    for y in (
        pd.Series([0, 1, None, 0, 1, 0], dtype="Int64"),
        pd.Series(["a", "b", None, "a", "b", "a"], dtype="string"),
        pl.Series(["a", "b", None, "a", "b", "a"]),
        pa.array(["a", "b", None, "a", "b", "a"]),
    ):
        with pytest.raises(ValueError, match=r"none may be missing|contains NaN; drop the rows"):
            RandomForestClassifier(2).fit(X, y)


# ---- Elsewhere


@every_frame
def test_an_online_forest_takes_frames_and_their_names(make: Any) -> None:
    rows = [[*row[:4], float(row[4])] for row in ROWS]
    first = OnlineForest(NAMES, categorical=["room"], n_trees=3)
    guesses = first.update_batch(rows, LABELS)
    learner = OnlineForest(n_trees=3)
    assert learner.update_batch(make(), pd.Series(LABELS)) == guesses
    assert learner.forest().names == NAMES
    assert learner.forest().to_json() == first.forest().to_json()
    assert learner.predict(make()) == first.predict(rows)
    frame = make()
    if hasattr(frame, "iloc"):
        assert learner.update_batch(in_another_order(frame), LABELS) == first.update_batch(
            rows, LABELS
        )
        with pytest.raises(ValueError, match="the frame has no column 'room'"):
            learner.update_batch(frame.drop(columns="room"), LABELS)


@every_frame
def test_a_frame_is_a_source(make: Any) -> None:
    columns = {**COLUMNS, "price": [float(v) for v in COLUMNS["price"]]}
    columns["open"] = [int(v) for v in columns["open"]]
    expected = train_source(columns, "room", n_trees=3, seed=1)
    assert train_source(make(), "room", n_trees=3, seed=1).to_json() == expected.to_json()
    source = open_source(make())
    assert (len(source), source.names) == (N, NAMES)
    assert source.read([1, 2])[3] == ["hall", "attic"]


def test_categories_that_are_numbers_stay_categories_in_a_source() -> None:
    kinds = [i % 5 * 10 for i in range(N)]
    frame = pd.DataFrame(
        {"kind": pd.Categorical(kinds), "n": range(N), "y": LABELS, "l": [[1]] * N}
    )
    for X in (frame, pa.Table.from_pandas(frame)):
        forest = train_source(X, "y", n_trees=3)
        assert forest.categories[0] == [0, 10, 20, 30, 40]
        assert forest.names == ["kind", "n"]


def test_explain_takes_one_row_of_a_frame() -> None:
    forest = from_lists()
    row = [*ROWS[5][:4], float(ROWS[5][4])]
    expected = edgeforest.explain(forest, row)
    for one in (
        of_pandas().iloc[[5]],
        pl.DataFrame(COLUMNS)[5],
        of_arrow().slice(5, 1),
        in_another_order(of_pandas()).iloc[[5]],
    ):
        assert str(edgeforest.explain(forest, one)) == str(expected)
    assert str(edgeforest.explain(forest, of_pandas().iloc[5])) == str(expected)
    with pytest.raises(ValueError, match="explain takes one row, got a frame of 240"):
        edgeforest.explain(forest, of_pandas())


def test_pruning_shrinking_and_rounding_take_frames_in_any_order() -> None:
    forest = from_lists()
    rows = [[*row[:4], float(row[4])] for row in ROWS]
    frame = in_another_order(of_pandas())
    expected = edgeforest.prune(forest, of_pandas(), LABELS, max_trees=2).to_json()
    assert edgeforest.prune(forest, frame, LABELS, max_trees=2).to_json() == expected
    assert shrink(forest, frame)[1] == shrink(forest, rows)[1]
    assert shrink(forest, pl.DataFrame(COLUMNS).lazy())[1].rows == N
    assert rounded_rows(forest, frame, scale=10) == rounded_rows(forest, rows, scale=10)
