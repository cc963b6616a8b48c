"""A forest that learns row by row: engines agree, drift is followed, memory is bounded."""

import json
import math
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import compared
import pytest
from boards import ONLINE, promised
from hypothesis import given, settings
from hypothesis import strategies as st
from mutants import sealed
from runtimes import (
    install,
    needs_board_heap,
    needs_micropython,
    needs_mpy_cross,
    output,
    run_micropython,
)

import edgeforest
from edgeforest import Budget, OnlineForest, Rng, core_pure, grove, linear, sapling, train
from edgeforest.forests import merging as combine
from edgeforest.writer import to_base64

ENGINES = [name for name in compared.ENGINES if name != "numpy"]
KINDS = ("random-forest", "extra-trees", "random-patches")
CRITERIA = ("gini", "entropy", "mse")


def stream(n, seed=0, missing=0.0, classes=3, drift=False):
    """Rows of four numbers and a category; the label depends on three of them."""
    rng = Rng(seed, 77)
    rows, labels = [], []
    for i in range(n):
        row = [rng.unit() * 10 for _ in range(4)] + [("red", "green", "blue")[rng.below(3)]]
        turned = drift and i >= n // 2
        place = int(row[0] + (3 if row[4] == "red" else 0) + (row[1] > 5) * 2) // 3
        label = (place + turned) % classes
        for f in range(5):
            if rng.unit() < missing:
                row[f] = None
        rows.append(row)
        labels.append(label if rng.unit() > 0.05 else rng.below(classes))
    return rows, labels


def learned(engine, rows, labels, **options):
    options.setdefault("n_trees", 4)
    learner = OnlineForest(5, categorical=[4], engine=engine, **options)
    return learner, learner.update_batch(rows, labels)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("kind", KINDS)
def test_engines_agree_bit_for_bit(kind, criterion):
    rows, labels = stream(700, 3, missing=0.1)
    if criterion == "mse":
        labels = [(row[0] or 0) * 2.5 + label for row, label in zip(rows, labels, strict=True)]
    results = []
    for engine in ENGINES:
        learner, guesses = learned(engine, rows, labels, kind=kind, criterion=criterion, seed=5)
        results.append((learner.forest().to_json(), guesses, learner.error, learner.recent_error))
    assert results[0] == results[-1]


@settings(max_examples=int(os.environ.get("EDGEFOREST_EXAMPLES", "15")), deadline=None)
@given(st.data())
def test_engines_agree_on_any_options(data):
    draw = data.draw
    seed = draw(st.integers(0, 2**30 - 1))
    rows, labels = stream(
        draw(st.integers(1, 450)), seed % 97, draw(st.sampled_from([0.0, 0.5])), classes=9
    )
    criterion = draw(st.sampled_from(CRITERIA))
    if criterion == "mse":
        labels = [float(label * draw(st.sampled_from([1.0, 1e6, -3e-5]))) for label in labels]
    options = {
        "seed": seed,
        "criterion": criterion,
        "kind": draw(st.sampled_from(KINDS)),
        "n_trees": draw(st.integers(1, 5)),
        "max_depth": draw(st.sampled_from([None, 1, 3])),
        "max_features": draw(st.sampled_from([None, 1, 5])),
        "min_samples_leaf": draw(st.sampled_from([1, 4])),
        "max_leaf_nodes": draw(st.sampled_from([2, 9, 256])),
        "n_bins": draw(st.sampled_from([None, 2, 40])),
        "fade": draw(st.sampled_from([None, 1, 10, 100])),
        "window": draw(st.sampled_from([16, 33, 500])),
        "budget": draw(st.sampled_from([None, Budget(bytes=120_000)])),
        "linear": draw(st.sampled_from([None, True, False])),
    }
    answers = []
    for engine in ENGINES:
        learner, guesses = learned(engine, rows, labels, **options)
        answers.append((learner.forest().to_json(), guesses, learner.bytes))
    assert answers[0] == answers[-1]


@pytest.mark.parametrize("criterion", ["gini", "mse"])
def test_engines_agree_on_many_features_with_zeros_of_both_signs(criterion):
    """Which of two equal bounds was drawn first must not show in a model."""
    rng = Rng(8)
    rows = [[(rng.below(9) - 4) * (-0.0 if f % 3 else 0.5) for f in range(11)] for _ in range(450)]
    rows = [[v or rng.below(5) * 0.25 - 0.25 or -0.0 for v in row] for row in rows]
    labels = [float(row[0] + row[4] > 0.5) + row[1] * (criterion == "mse") for row in rows]
    models = []
    for engine in ENGINES:
        learner = OnlineForest(11, engine=engine, n_trees=3, criterion=criterion)
        guesses = learner.update_batch(rows, labels)
        models.append((learner.forest().to_json(), guesses))
        assert not any(str(v) == "-0.0" for v in learner.forest().threshold)
    assert len(learner.forest().feature) > 20
    assert models[0] == models[-1]


@pytest.mark.parametrize("classes", [2, 4])
def test_engines_agree_where_leaves_are_sure(classes, monkeypatch):
    """A leaf that only ever saw one class learns nothing more of it, until another class comes."""
    rng = Rng(3)
    rows = [[rng.below(60), rng.below(4)] for _ in range(700 * classes)]
    labels = [row[0] * classes // 60 for row in rows[:-150]]
    labels += [(row[0] * classes // 60 + row[1] // 2) % classes for row in rows[-150:]]

    def model(engine):
        learner = OnlineForest(2, engine=engine, n_trees=3, classes=list(range(classes)))
        guesses = learner.update_batch(rows, labels)
        return learner.forest().to_json(), guesses

    models = [model(engine) for engine in ENGINES]
    assert models[0] == models[-1]
    monkeypatch.setattr(grove.Grove, "_is_sure", lambda *_: False)
    assert model("pure") != models[-1]  # so the rule was used


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_gives_the_same_as_row_by_row(engine):
    rows, labels = stream(300)
    whole, guesses = learned(engine, rows, labels, classes=[0, 1, 2])
    single = OnlineForest(5, categorical=[4], engine=engine, n_trees=4, classes=[0, 1, 2])
    assert [single.update(row, label) for row, label in zip(rows, labels, strict=True)] == guesses
    assert single.forest().to_json() == whole.forest().to_json()
    assert guesses[0] is None
    assert single.rows == whole.rows == 300
    assert single.error == whole.error


def test_updates_return_what_the_model_predicts():
    rows, labels = stream(900)
    learner, _ = learned(None, rows[:600], labels[:600])
    for row, label in zip(rows[600:], labels[600:], strict=True):
        said = learner.predict(row)
        assert learner.predict_proba(row)[learner.classes.index(said)] == max(
            learner.predict_proba(row)
        )
        assert learner.update(row, label) == said


def test_updates_return_the_numbers_that_the_model_predicts():
    rows, labels = stream(500)
    targets = [row[0] * 3 - label for row, label in zip(rows, labels, strict=True)]
    learner, _ = learned(None, rows[:400], targets[:400], criterion="mse")
    for row, target in zip(rows[400:], targets[400:], strict=True):
        said = learner.predict(row)
        assert learner.update(row, target) == said
    assert learner.error < 4
    with pytest.raises(AttributeError, match="a regression has no accuracy; see its error"):
        _ = learner.accuracy


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("engine", ENGINES)
def test_trees_answer_while_they_learn_as_their_forest_does(engine, criterion):
    rows, labels = stream(900, 4, missing=0.1)
    if criterion == "mse":
        labels = [(row[0] or 0) * 2.5 + label for row, label in zip(rows, labels, strict=True)]
    learner = OnlineForest(
        5, categorical=[4], n_trees=5, criterion=criterion, engine=engine, linear=False
    )
    new = [9.5, float("inf"), -1e30, None, "a new colour"]
    for at in range(0, 900, 75):
        learner.update_batch(rows[at : at + 75], labels[at : at + 75])
        asked = rows[at + 75 : at + 98] + rows[:10] + [new]
        ways = [learner.predict] if criterion == "mse" else [learner.predict, learner.predict_proba]
        live = [(way(asked), way(asked[-1]), way(tuple(map(tuple, asked)))) for way in ways]
        assert learner._model is None  # no forest was built for these answers
        forest = learner.forest()
        ways = [getattr(forest, way.__name__) for way in ways]
        assert live == [(way(asked), way(asked[-1]), way(asked)) for way in ways]


@pytest.mark.parametrize("engine", ENGINES)
def test_many_rows_and_a_row_of_many_values_are_answered_alike(engine):
    rng = Rng(8)
    rows = [[rng.unit() for _ in range(1200)] for _ in range(60)]
    learner = OnlineForest(n_trees=2, engine=engine, max_features=1.0)
    learner.update_batch(rows, [row[7] > 0.5 for row in rows])
    single = [learner.predict(row) for row in rows]
    assert learner._model is None
    assert learner.predict(iter(rows * 20)) == single * 20 == learner.predict(rows * 20)
    for wrong in ([], [[]], rows[0][1:], [rows[0], rows[1][1:]], "text", 5, {"x0": 1}):
        learner.update(rows[0], True)  # nothing is copied yet
        said = []
        for model in (learner, learner.forest()):
            try:
                said.append(model.predict(wrong))
            except (TypeError, ValueError) as error:
                said.append(str(error))
        assert said[0] == said[1]


def test_it_learns_and_follows_a_change(figure):
    rows, labels = stream(6000, drift=True)
    learner = OnlineForest(5, categorical=[4])
    learner.update_batch(rows[:3000], labels[:3000])
    before = learner.recent_accuracy
    learner.update_batch(rows[3000:3100], labels[3000:3100])
    learner.update_batch(rows[3100:], labels[3100:])
    assert before > 0.85
    assert learner.recent_accuracy > 0.85
    # Everything it knew has turned wrong: who does not forget is right in one of twenty.
    frozen = OnlineForest(5, categorical=[4])
    frozen.update_batch(rows[:3000], labels[:3000])
    stale = frozen.predict(rows[5000:])
    right = sum(a == b for a, b in zip(stale, labels[5000:], strict=True)) / 1000
    assert right < 0.2
    figure(
        f"before {before:.3f}, at the end {learner.recent_accuracy:.3f}, not learning {right:.3f}"
    )


def rare_stream(n, seed):
    """Ten numbers; about one row of a hundred is positive: a box in two of the features."""
    rng = Rng(seed, 5)
    rows = [[rng.unit() for _ in range(10)] for _ in range(n)]
    return rows, [int(0.3 < row[2] < 0.4 and 0.6 < row[7] < 0.7) for row in rows]


@pytest.mark.skipif("native" not in ENGINES, reason="in plain Python it takes a minute")
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_a_class_of_one_percent_is_found(criterion, figure):
    rows, labels = rare_stream(20_000, 3)
    learner = OnlineForest(10, criterion=criterion)
    said = learner.update_batch(rows, labels)
    hits = sum(a == b == 1 for a, b in zip(said, labels, strict=True))
    score = 2 * hits / (sum(labels) + said.count(1))
    figure(f"F1 {score:.3f}, {sum(labels)} positives of {len(labels)}")
    assert score > 0.75


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_a_rare_class_outlive_the_window(engine, tmp_path):
    """They are saved, too, and survive a new class."""
    rows, labels = rare_stream(2500, 1)
    learner = OnlineForest(10, n_trees=2, window=80, engine=engine)
    learner.update_batch(rows, labels)
    values, kept = learner._grove.latest()
    kept = list(kept)
    assert kept[-80:] == labels[-80:]
    assert len(kept) == 80 + 10  # the store is full
    assert set(kept[:10]) == {1}
    which = [i for i, label in enumerate(labels[:-80]) if label][-10:]
    assert values[: 10 * 10].tolist() == pytest.approx([v for i in which for v in rows[i]])
    learner.save(tmp_path / "model.json")
    again = OnlineForest.load(tmp_path / "model.json", engine=engine)
    assert (list(again._grove.latest()[1]), again.rows) == (kept, 2500)
    again.update(rows[0], 2)
    assert again.rows == 2501
    assert list(again._grove.latest()[1]) == [*kept[:10], *kept[11:], 2]


def test_the_memory_of_the_leaves_follows_the_stream():
    """A rule that turns around every 40 rows needs a short memory, noise a long one."""
    rng = Rng(9)
    rows = [[rng.unit()] for _ in range(6000)]
    turning = [int(row[0] > 0.5) ^ (i // 40 & 1) for i, row in enumerate(rows)]
    noisy = [int(row[0] > 0.5) ^ (rng.unit() < 0.3) for row in rows]
    for labels, best in ((turning, 0), (noisy, 2)):
        right = []
        for fade in (*sapling.FADES, None):
            learner = OnlineForest(1, n_trees=4, fade=fade, linear=False)
            learner.update_batch(rows, labels)
            right.append(learner.accuracy)
        assert right[best] == max(right[:3])
        assert right[3] > right[best] - 0.02  # it takes some rows to find out
        assert right[3] > min(right) + 0.02


def test_it_beats_the_majority_by_far_with_any_kind():
    rows, labels = stream(2500)
    most = max(labels.count(k) for k in range(3)) / len(labels)
    for kind in KINDS:
        learner, _ = learned(None, rows, labels, kind=kind, n_trees=10)
        assert learner.recent_accuracy > most + 0.25, kind


def test_the_budget_in_bytes_holds_and_races_sleep():
    rows, labels = stream(3000, classes=9)
    results = {}
    for limit in (60_000, 200_000, 1_000_000):
        learner, _ = learned(None, rows, labels, budget=Budget(bytes=limit), n_trees=5)
        assert learner.bytes <= limit
        results[limit] = learner.accuracy
    assert results[60_000] > 0.4
    assert results[200_000] > results[60_000]
    with pytest.raises(ValueError, match=r"needs at least [0-9]+ bytes, the budget is 9000; use"):
        learned(None, rows, labels, budget=Budget(bytes=9000), n_trees=5)


@pytest.mark.skipif("native" not in ENGINES, reason="needs the native engine")
def test_the_process_does_not_grow():
    """In its own process: the peak memory after 20,000 rows and after 200,000."""
    script = """
import resource, sys
from edgeforest import Budget, OnlineForest, Rng
rng = Rng(1)
learner = OnlineForest(8, budget=Budget(bytes=3_000_000))
for part in range(50):
    rows = [[rng.unit() for _ in range(8)] for _ in range(4000)]
    learner.update_batch(rows, [int(r[0] + r[part % 8] > 1) for r in rows])
    if part in (4, 49):
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    early, late = (int(line) for line in run.stdout.split())
    assert late - early < 1500  # kB


def test_new_classes_may_appear_at_any_time():
    rows, labels = stream(1200, classes=3)
    names = ["low", "middle", "high"]
    learner = OnlineForest(5, categorical=[4], n_trees=6)
    first = [(r, names[k]) for r, k in zip(rows, labels, strict=True) if k < 2]
    learner.update_batch([r for r, _ in first], [k for _, k in first])
    assert sorted(learner.classes) == ["low", "middle"]
    before = learner.accuracy
    learner.update_batch(rows, [names[k] for k in labels])
    assert sorted(learner.classes) == ["high", "low", "middle"]
    assert learner.rows == len(first) + 1200
    assert before > 0.7
    assert learner.recent_accuracy > 0.75
    assert len(learner.predict_proba(rows[0])) == 3


def test_targets_may_leave_the_known_range():
    learner = OnlineForest(1, criterion="mse", n_trees=8)
    for scale in (1.0, 100.0, -1000.0):
        rows = [[i % 40] for i in range(1500)]
        learner.update_batch(rows, [row[0] * scale for row in rows])
        for x in (5, 30):
            assert learner.predict([x]) == pytest.approx(x * scale, abs=abs(scale) * 4)
    assert learner.recent_error < 4000


def test_a_trained_forest_continues_to_learn():
    rows, labels = stream(3000, drift=True)
    options = {"names": list("abcde"), "categorical": [4], "n_trees": 7}
    forest = train(rows[:1500], labels[:1500], **options)
    learner = OnlineForest.from_forest(forest)
    assert learner.predict(rows[:300]) == forest.predict(rows[:300])
    assert learner.forest().names == list("abcde")
    learner.update_batch(rows[1500:], labels[1500:])
    assert learner.recent_accuracy > 0.75
    stale = forest.predict(rows[2000:])
    assert sum(a == b for a, b in zip(stale, labels[2000:], strict=True)) < 300


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_saved_learner_continues_after_loading(engine, criterion, tmp_path):
    rows, labels = stream(1500)
    if criterion == "mse":
        labels = [row[0] + label for row, label in zip(rows, labels, strict=True)]
    learner, _ = learned(engine, rows[:1000], labels[:1000], criterion=criterion, window=100)
    path = tmp_path / "model.json"
    learner.save(path)
    again = OnlineForest.load(path, engine=engine)
    assert again.forest().to_json() == learner.forest().to_json()
    assert (again.rows, again.error, again.bytes) == (1000, learner.error, learner.bytes)
    latest, kept = learner._grove.latest(), again._grove.latest()
    assert list(latest[1]) == list(kept[1])
    assert latest[0].tobytes() == kept[0].tobytes()
    # It is a model as any other.
    assert edgeforest.load(path).predict(rows[:50]) == learner.predict(rows[:50])
    other = pickle.loads(pickle.dumps(learner))
    for one in (again, other):
        one.update_batch(rows[1000:], labels[1000:])
        assert one.rows == 1500
    learner.update_batch(rows[1000:], labels[1000:])
    assert again.forest().to_json() == other.forest().to_json()
    assert again.error == pytest.approx(learner.error, rel=0.2)


def test_a_plain_model_can_be_loaded_too(tmp_path):
    rows, labels = stream(300)
    forest = train(rows, labels, categorical=[4], n_trees=3)
    forest.save(tmp_path / "model.json")
    learner = OnlineForest.load(tmp_path / "model.json")
    assert learner.rows == 0
    assert learner.predict(rows) == forest.predict(rows)
    with pytest.raises(OSError, match=r"there is no model in .*none.json yet"):
        OnlineForest.load(tmp_path / "none.json")


def test_threads_may_share_a_learner():
    rows, labels = stream(2000)
    learner = OnlineForest(5, categorical=[4], n_trees=3)
    learner.update_batch(rows[:100], labels[:100])
    stop = threading.Event()
    errors = []

    def read():
        while not stop.is_set():
            try:
                learner.predict(rows[:5])
            except Exception as error:
                errors.append(error)

    def write(part):
        for i in range(part, 2000, 2):
            learner.update(rows[i], labels[i])

    readers = [threading.Thread(target=read)]
    writers = [threading.Thread(target=write, args=(part,)) for part in range(2)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    readers[0].join()
    assert not errors
    assert learner.rows == 2100


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: OnlineForest(0), "features must be from 1 to"),
        (lambda: OnlineForest(["a", "a"]), "features must be names that differ, at least one"),
        (lambda: OnlineForest([]), "features must be names that differ, at least one"),
        (lambda: OnlineForest(["a"], categorical=["b"]), "'b', which is not among the features"),
        (lambda: OnlineForest(2, criterion="mae"), "criterion must be one of"),
        (lambda: OnlineForest(2, window=3), "window must be from 16 to 65534"),
        (lambda: OnlineForest(2, criterion="mse", classes=[1]), "a regression has no classes"),
        (
            lambda: OnlineForest(2, budget=Budget(insertions=9)),
            "its budget has bytes, nothing else",
        ),
        (lambda: OnlineForest(2, budget=9000), r"give the memory .* as budget=Budget\(bytes=...\)"),
        (lambda: OnlineForest(2).forest(), "nothing was learned yet; call update first"),
        (lambda: OnlineForest(2).predict([1, 2]), "nothing was learned yet; call update first"),
        (lambda: pickle.dumps(OnlineForest(2)), "has learned nothing cannot be pickled yet"),
        (lambda: OnlineForest(2).update([1], 0), "a row must have 2 values, got 1"),
        (lambda: OnlineForest(2).update(["a", 1], 0), "feature 'x0' must be a number, got 'a'"),
        (lambda: OnlineForest(2).update([1, float("inf")], 0), "'x1' of row 0 is infinite"),
        (lambda: OnlineForest(2).update([1, 2], None), "the label of row 0 is missing"),
        (lambda: OnlineForest(2).update([1, 2], float("nan")), "the label of row 0 is missing"),
        (lambda: OnlineForest(2).update_batch([[1, 2]], [1, 2]), "there are 1 rows and 2 labels"),
        (
            lambda: OnlineForest(2, criterion="mse").update([1, 2], float("inf")),
            "target of row 0 must be",
        ),
        (
            lambda: OnlineForest(2, criterion="mse").update([1, 2], "x"),
            "row 0 of the targets must be",
        ),
    ],
)
def test_errors_are_one_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_with_a_bad_row_changes_nothing(engine):
    rows, labels = stream(200)
    learner, _ = learned(engine, rows, labels)
    before = learner.forest().to_json(), learner.rows, list(learner.classes), learner.error
    bad_rows = [rows[0], [1, 2, 3]]
    bad_number = [rows[0], [float("inf"), 1, 1, 1, "red"]]
    for given_rows, given_labels in (
        (bad_rows, [0, 0]),
        (bad_number, [0, 0]),
        (rows[:3], [0, 9, float("nan")]),
        (rows[:3], [0, "text", 1]),  # beside classes that are numbers
    ):
        with pytest.raises((ValueError, TypeError)):
            learner.update_batch(given_rows, given_labels)
        now = learner.forest().to_json(), learner.rows, list(learner.classes), learner.error
        assert now == before
    learner.update(rows[0], 9)
    assert learner.classes[-1] == 9


def test_numpy_rows_are_the_same_as_lists():
    np = pytest.importorskip("numpy")
    rows = np.random.default_rng(1).normal(size=(400, 3))
    rows[::7, 1] = np.nan
    labels = (rows[:, 0] > 0.2).astype(int)
    models = []
    for given_rows, given_labels in (
        (rows, labels),
        (rows.tolist(), labels.tolist()),
        (rows.astype("float32"), labels.astype("uint8")),
    ):
        learner = OnlineForest(3, n_trees=3)
        learner.update_batch(given_rows, given_labels)
        models.append(learner.forest().to_json())
    assert models[0] == models[1] == models[2]
    pandas = pytest.importorskip("pandas")
    for given_rows, given_labels in (
        (pandas.DataFrame(rows), pandas.Series(labels, index=range(5, 405))),
        (iter(rows.tolist()), iter(labels.tolist())),
    ):
        learner = OnlineForest(3, n_trees=3)
        learner.update_batch(given_rows, given_labels)
        assert learner.forest().to_json() == models[0]
    with pytest.raises(ValueError, match="feature 'x2' of row 1 is infinite"):
        learner.update_batch(np.array([[1, 2, 3], [1, 2, np.inf]]), [0, 1])
    with pytest.raises(ValueError, match="a row must have 3 values, got 2"):
        learner.update_batch(rows[:, :2], labels)


def test_rows_of_any_kind_of_number_are_learned_alike():
    """The native engine reads lists of plain numbers by itself; what else there is, Python reads."""
    rng = Rng(8)
    plain = [[rng.unit(), rng.below(9), -rng.unit()] for _ in range(300)]
    labels = [row[0] > 0.4 for row in plain]
    mixed = [[row[0], row[1] > 4, None if row[1] == 3 else row[2]] for row in plain]
    exact = [[row[0], int(row[1] > 4), math.nan if row[1] == 3 else row[2]] for row in plain]
    for same in ((plain, [tuple(row) for row in plain]), (mixed, exact)):
        said = []
        for engine in ENGINES:
            for rows in same:
                learner = OnlineForest(3, n_trees=3, engine=engine)
                said.append((learner.update_batch(rows, labels), learner.forest().to_json()))
        assert said == said[:1] * len(said)
    for wrong in (
        [[0.5, 1]],
        [[0.5, 1, 10**400]],
        [[0.5, 1, math.inf]],
        [[0.5, 1, 1e39]],
        [[1, 2, "3"]],
    ):
        for engine in ENGINES:
            learner = OnlineForest(3, n_trees=3, engine=engine)
            learner.update_batch(plain[:30], labels[:30])
            with pytest.raises((ValueError, TypeError)):
                learner.update_batch(wrong, [True])
            assert learner.rows == 30


def test_the_kernel_has_the_same_constants():
    text = Path(core_pure.__file__).parents[1].joinpath("firmware/kernel/online.h").read_text()
    lines = [line.split() for line in text.splitlines() if line.startswith("#define ")]
    defined = {words[1]: words[2] for words in lines if len(words) > 2}
    for name in [
        "START",
        "STEP",
        "PATIENCE",
        "PRIOR",
        "EVERY",
        "AGAIN",
        "MANY",
        "CLEARLY",
        "FIRST",
        "TRIES",
        "UNIT",
        "LONG",
        "LATELY",
    ]:
        assert int(defined[name]) == getattr(grove, name), name
    assert int(defined["SPARES"]) == sapling.SPARES
    assert defined["FADES"] == "{" + ",".join(map(str, sapling.FADES)) + "}"
    assert int(defined["LATELY"]) == linear.LATELY
    assert int(defined["MEMORY"]) == linear.MEMORY
    assert float(defined["FAR"]) == linear.FAR
    assert defined["RATES"] == "{" + ",".join(map(str, sapling.RATES)) + "}"
    assert float(defined["SURE"]) == grove.SURE


def test_importances_find_the_features_that_matter():
    rows, labels = stream(2500)
    learner, _ = learned(None, rows, labels, n_trees=15)
    shares = learner.forest().feature_importances
    assert shares[0] == max(shares)
    assert shares[2] + shares[3] < 0.35
    assert sum(shares) == pytest.approx(1, abs=1e-4)


# ---- In real MicroPython


@needs_mpy_cross
@needs_micropython
@needs_board_heap
@pytest.mark.parametrize("criterion", ["gini", "mse"])
def test_a_board_learns_what_cpython_learns(criterion, tmp_path):
    install(tmp_path)
    pattern = r"of a regression (\d+) kB" if criterion == "mse" else r"loaded in a heap of (\d+) kB"
    heap = promised(pattern, "docs/online.md")
    text = output(run_micropython(ONLINE, tmp_path, f"{heap}k", [criterion, "4", "0"]))
    model, again = text.splitlines()
    assert again == model
    rng = Rng(4)
    learner = OnlineForest(
        ["a", "b", "c"],
        criterion=criterion,
        n_trees=3,
        window=60,
        max_leaf_nodes=16,
        max_features=2,
        budget=Budget(bytes=20000),
    )
    for _ in range(500):
        row = [rng.below(100), rng.below(100), rng.below(100)]
        label = int(row[0] > 50) + int(row[1] > 30)
        learner.update(row, label * 1.5 if criterion == "mse" else label)
    assert learner.forest().to_json() == model
    assert learner.recent_error < 0.45


# ---- Altered files


def altered(text, **changes):
    """A saved learner with changed values in its state, and a valid checksum."""
    model = json.loads(text)
    for key, value in changes.items():
        (model["training"] if key in model["training"] else model["training"]["online"])[key] = (
            value
        )
    return sealed(model)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("criterion", ["gini", "mse"])
def test_a_hostile_state_is_refused(engine, criterion, tmp_path):
    """Each of these once made the native engine read outside its memory, or go wrong."""
    path = tmp_path / "learner.json"
    rows, labels = stream(120)
    learner, _ = learned(engine, rows, labels, window=40, criterion=criterion)
    learner.save(path)
    good = path.read_bytes()
    values, places = learner._grove.latest()

    def with_value(i, v):
        return to_base64([*values[:i], v, *values[i + 1 :]], "f")

    changes = [{"window": with_value(4, v)} for v in (-1.0, -1e9, 4.0, 1e9, 1.5, 0.0)]
    changes += [{"window": with_value(0, v)} for v in (float("inf"), float("-inf"))]
    changes += [{"window": to_base64(values[:n], "f")} for n in (0, 5, 199)]
    changes += [{"labels": to_base64(places[:n], "H")} for n in (0, 1, 39)]
    changes += [{"labels": to_base64([65535] * 40, "H"), "window": 5}, {"labels": None}]
    if criterion == "gini":
        changes += [{"labels": to_base64([v] * 40, "H")} for v in (3, 4096, 65535)]
        changes += [{"wrong": 120}]
    changes += [{"rows": v} for v in (-1, 0, 1.0, True, "9", None, 10**30, float("nan"))]
    changes += [{"judged": v} for v in (-1, 121, 1.0, True, None, 10**30)]
    changes += [{"wrong": v} for v in (-1, -0.5, True, "1", None, float("nan"), float("inf"))]
    changes += [{"window": v} for v in (None, [], 7, "AAA", "****")]
    changes += [{"online": v} for v in (None, [], 7, "x", {})]
    for name in (
        "max_depth",
        "min_samples_leaf",
        "max_leaf_nodes",
        "n_bins",
        "fade",
        "bytes",
        "seed",
    ):
        changes += [{name: v} for v in (-1, 10**10 if name != "bytes" else 0, 1.5, True, "1", [])]
    changes += [{"n_trees": v} for v in (0, 3, 5, None)]
    changes += [{"max_features": v} for v in (-1, 0, True, "all", 1.5, float("nan"))]
    changes += [{"kind": "extra-trees"}, {"criterion": "entropy"}, {"criterion": None}]
    for change in changes:
        path.write_bytes(altered(good, **change))
        with pytest.raises(
            ValueError, match=r"^the model is damaged inside; train or copy it again$"
        ):
            OnlineForest.load(path, engine)
    for extra in ("classes", "categorical", "engine", "latest", "odd"):
        model = json.loads(good)
        model["training"]["online"][extra] = ["a"]
        path.write_bytes(sealed(model))
        with pytest.raises(ValueError, match="damaged inside"):
            OnlineForest.load(path, engine)
    path.write_bytes(altered(good))
    assert OnlineForest.load(path, engine).update_batch(rows, labels)


@pytest.mark.parametrize("engine", ENGINES)
def test_latest_rows_that_do_not_fit_are_refused(engine):
    rows, labels = stream(60)
    learner, _ = learned(engine, rows, labels)
    forest, (values, places) = learner.forest(), learner._grove.latest()
    for latest in ((values[:-1], places), (values, places[:-1]), (values, [9] * len(places))):
        with pytest.raises(ValueError, match="do not fit the forest"):
            OnlineForest.from_forest(forest, latest, engine=engine)
    values[4] = 7.0
    with pytest.raises(ValueError, match=r"hold 7\.0 as 'x4'"):
        OnlineForest.from_forest(forest, (values, places), engine=engine)


def test_a_merged_regression_with_large_votes_continues_to_learn():
    """Merging with weights raises votes far above the scale."""
    rows = [[float(i % 9)] for i in range(90)]
    parts = [
        train(rows, [r[0] + k for r in rows], criterion="mse", n_trees=40, seed=k) for k in (0, 3)
    ]
    parts[1] = combine.keep(parts[1], [0])
    both = edgeforest.merge(parts, weights=[1, 60])
    assert max(both.votes) > 16 * both.scale
    answers = []
    for engine in ENGINES:
        learner = OnlineForest.from_forest(both, engine=engine)
        guesses = learner.update_batch(rows, [r[0] for r in rows])
        answers.append((guesses, learner.forest().to_json()))
    assert answers[0] == answers[-1]


def test_targets_that_are_equal_in_float32_are_learned():
    """In seconds since 1970, float32 distinguishes only minutes."""
    learner = OnlineForest(1, criterion="mse", n_trees=3)
    start = 1_700_000_030.0
    learner.update_batch([[i % 5] for i in range(100)], [start + i % 5 for i in range(100)])
    assert abs(learner.predict([2]) - start) < 300
    wide = train([[0.0], [1.0]], [-3e38, 0.0], criterion="mse", n_trees=1)
    learner = OnlineForest.from_forest(wide)
    with pytest.raises(ValueError, match="targets must span less"):
        learner.update([0.0], 1e37)
