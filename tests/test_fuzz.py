"""Altered models and checkpoints: refused with one sentence, or the same answers on all engines.

Every part of every kind of file is altered, thousands of times, and its checksum made right. What
then reads it says in one sentence that it refuses it, or goes on; what goes on says the same on
every engine, in every export. EDGEFOREST_FUZZ multiplies the number of cases.
"""

from __future__ import annotations

import io
import os
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from compared import ENGINES
from mutants import mutants, scrambled
from runtimes import install, needs_micropython, needs_mpy_cross, output, run_micropython

import edgeforest
from edgeforest import OnlineForest, load, loading, merge, train
from edgeforest.engines import pick, with_predictor
from edgeforest.reader import read_model
from edgeforest.sources import open_source
from edgeforest.sources.training import Streaming
from edgeforest.storage import Resumable

TIMES = 0.25 * float(os.environ.get("EDGEFOREST_FUZZ", "1"))
ONLINE = [name for name in ENGINES if name != "numpy"]  # which learns as pure does
WORDS = ["blue", "grün", "red"]


def make_rows(n: int, seed: int) -> list[list[Any]]:
    """A category of text, two numbers, a category of numbers; some of them missing."""
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        row = [rng.choice(WORDS), rng.gauss(0, 1), rng.random(), rng.choice([3, 5])]
        if rng.random() < 0.2:
            row[rng.randrange(4)] = None
        rows.append(row)
    return rows


ROWS = make_rows(90, 1)
VALUES = [(r[0] == "blue") + 2.0 * ((r[1] or 0) > 0.3) + ((r[3] or 0) == 5) for r in ROWS]
LABELS = [["calm", "windy", "storm"][min(2, int(v))] for v in VALUES]
FRESH = [*make_rows(8, 2), ["violet", 0.1, 0.2, 4], [None] * 4]


def fit(y: list[Any], **options: Any) -> Any:
    return train(ROWS, y, **{"n_trees": 3, "max_depth": 3, "categorical": [0, 3], **options})


@cache
def models() -> dict[str, bytes]:
    """A model of each sort."""
    from edgeforest.export import shrink

    numbers = fit([int(v) for v in VALUES], n_trees=2, kind="extra-trees")
    weighted = merge(
        [fit(VALUES, criterion="mse"), fit([v + 3 for v in VALUES], criterion="mse")], [5, 1]
    )
    forests = {
        "classes": fit(LABELS, budget=9000),
        "regression": fit(VALUES, criterion="mse", n_trees=2),
        "flags": fit([v > 1 for v in VALUES], criterion="entropy", kind="random-patches"),
        "merged": merge([numbers, fit([int(v) + 1 for v in VALUES], n_trees=2)]),
        "weighted": weighted,
        "shared": shrink(fit(LABELS, n_trees=6))[0],
        "one leaf": fit(["only"] * len(VALUES), n_trees=1),
        "numbers": train(
            [[i % 7, i % 5 / 4] for i in range(90)], [i % 7 > 2 for i in range(90)], n_trees=2
        ),
    }
    return {name: forest.to_json().encode() for name, forest in forests.items()}


def outcome(call: Callable[[], Any]) -> tuple[str, Any]:
    """What a call gives, or the sentence with which it refuses; any other error is a failure."""
    try:
        return "answered", call()
    except (ValueError, TypeError) as error:
        caught = error
    sentence = str(caught)
    assert type(caught) in (ValueError, TypeError), repr(caught)
    assert 10 < len(sentence) < 500, sentence
    assert "\n" not in sentence
    return "refused", sentence


def agreed(calls: dict[str, Callable[[], Any]]) -> tuple[str, Any]:
    """The outcome of calls, which all have the same."""
    found = {name: outcome(call) for name, call in calls.items()}
    first = next(iter(found.values()))
    for name, (how, answer) in found.items():
        assert (how, repr(answer)) == (first[0], repr(first[1])), (*found, name)
    return first


def loaded(text: bytes) -> dict[str, Any] | None:
    """A model as every engine loads it, None if all refuse it with the same sentence."""
    forests: dict[str, Any] = {}

    def read(name: str, way: Callable[..., Any]) -> str:
        source = io.BytesIO(text) if way is read_model else text
        forests[name] = with_predictor(way(source), pick(name))
        return str(forests[name].to_json())

    calls = {
        f"{name} {way.__name__}": lambda name=name, way=way: read(name, way)
        for name in ENGINES
        for way in (loading.load, read_model)
    }
    how, answer = agreed(calls)
    if how == "refused":
        return None
    assert load(answer).to_json() == answer  # and so does what it is saved as
    return forests


def rows_of(forest: Any) -> list[Any]:
    """Rows for a model, whatever its features are."""
    values: list[list[Any]] = []
    for f, kinds in enumerate(forest.categories):
        some = [row[f % 4] for row in FRESH]
        values.append(
            some
            if kinds is not None
            else [v if isinstance(v, float) else i - 4.5 for i, v in enumerate(some)]
        )
    return [list(row) for row in zip(*values, strict=True)]


def ask(forests: dict[str, Any]) -> str:
    """Predict on all engines."""
    rows = rows_of(next(iter(forests.values())))
    for method in ("predict", "predict_proba"):
        agreed({n: lambda f=f, m=method: getattr(f, m)(rows) for n, f in forests.items()})
    return agreed({n: lambda f=f: f.predict(rows[0]) for n, f in forests.items()})[0]


# ---- What can be done with a model


def explained(forest: Any) -> Any:
    rows = rows_of(forest)
    return [str(edgeforest.explain(forest, row)) for row in rows[:3]]


def told(forest: Any) -> str:
    return edgeforest.export_text(forest)


def as_c(forest: Any) -> list[str]:
    from edgeforest.export import to_c

    return [to_c(forest, prefer=prefer) for prefer in ("size", "speed")]


def as_micropython(forest: Any) -> None:
    from edgeforest.export import to_micropython

    names: dict[str, Any] = {}
    exec(compile(to_micropython(forest), "model.py", "exec"), names)
    pure = loading.load(forest.to_json())
    for row in rows_of(forest):
        encoded = pure.encode(row)
        sums, out = [0] * pure.n_votes, [0] * pure.n_votes
        best = pure.predict_into(encoded, sums)
        assert (names["predict_into"](encoded, out), out) == (best, sums)


def as_onnx(forest: Any) -> None:
    from edgeforest.export import from_onnx, to_onnx

    again, rows = from_onnx(to_onnx(forest)), rows_of(forest)
    assert again.predict(rows) == forest.predict(rows)


def shrunk(forest: Any) -> None:
    from edgeforest.export import shrink

    rows = rows_of(forest)
    small, report = shrink(forest, rows)
    assert load(small.to_json()).predict(rows) == forest.predict(rows)
    assert report.changed == 0
    load(shrink(forest, rows, levels=7)[0].to_json())


def signed(forest: Any) -> None:
    from edgeforest.export import load_signed, sign

    key = "a key that nobody knows"
    assert load_signed(sign(forest.to_json(), key), key).to_json() == forest.to_json()


def joined(forest: Any) -> None:
    rows = rows_of(forest)
    both = merge([forest, forest])
    again = load(both.to_json())
    assert repr(again.predict(rows)) == repr(both.predict(rows))
    load(merge([forest, forest], [1, 3]).to_json())


def pruned(forest: Any) -> None:
    rows = rows_of(forest)
    small = edgeforest.prune(forest, rows, forest.predict(rows), max_trees=1)
    load(small.to_json())


def learned(forest: Any) -> str:
    """Learn on from a model, on every engine that does so on its own."""
    rows = [row for _ in range(30) for row in rows_of(forest)]
    truth = forest.predict(rows)
    truth = truth[7:] + truth[:7]

    def go_on(engine: Any) -> Any:
        learner = OnlineForest.from_forest(forest, engine=engine, window=64)
        guesses = learner.update_batch(rows, truth)
        guesses.append(learner.update(rows[0], truth[0]))
        return guesses, load(learner.forest().to_json()).to_json()

    return agreed({name: lambda name=name: go_on(name) for name in ONLINE})[0]


USES = (explained, told, as_c, as_micropython, as_onnx, shrunk, signed, joined, pruned, learned)


def count(tally: Counter[str], name: str, how: str) -> None:
    tally[f"{name} {how}"] += 1


def summed(tally: Counter[str]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in sorted(tally.items()))


def cases(n: int, texts: dict[str, bytes], mild: bool = False) -> Iterator[tuple[str, bytes]]:
    """So many mutants of each text, and what each of them is."""
    for number, (kind, text) in enumerate(texts.items()):
        for i, mutant in enumerate(mutants(text, number, int(n * TIMES), mild)):
            yield f"{'mild ' * mild}mutant {i} of {kind!r}", mutant


def test_altered_models_are_refused_or_every_engine_says_the_same(
    figure: Callable[[str], None],
) -> None:
    tally: Counter[str] = Counter()
    for case, mutant in chain(cases(250, models()), cases(50, models(), mild=True)):
        try:
            forests = loaded(mutant)
            if forests is not None:
                count(tally, "predict", ask(forests))
        except Exception as error:
            error.add_note(f"{case}: {mutant!r}")
            raise
        count(tally, "load", "refused" if forests is None else "answered")
    assert min(tally.values()) > 100 * min(1, TIMES)
    figure(summed(tally))


def test_scrambled_texts_are_read_alike(figure: Callable[[str], None]) -> None:
    tally: Counter[str] = Counter()
    for number, text in enumerate(models().values()):
        for mutant in scrambled(text, number, int(200 * TIMES)):
            calls: dict[str, Callable[[], Any]] = {
                "load": lambda mutant=mutant: loading.load(mutant).to_json(),
                "read": lambda mutant=mutant: read_model(io.BytesIO(mutant)).to_json(),
            }
            try:
                count(tally, "load and read_model", agreed(calls)[0])
            except Exception as error:
                error.add_note(repr(mutant))
                raise
    figure(summed(tally))


def test_altered_models_are_used_like_others_or_refused(figure: Callable[[str], None]) -> None:
    tally: Counter[str] = Counter()
    done = 0
    for case, mutant in cases(60, models(), mild=True):
        how, forest = outcome(lambda text=mutant: load(text))
        if how == "refused":
            continue
        for use in (USES[done % len(USES)], USES[(done + 1) % len(USES)]):
            try:
                how, answer = outcome(lambda use=use, forest=forest: use(forest))
            except Exception as error:
                error.add_note(f"{case}, {use.__name__}: {mutant!r}")
                raise
            count(tally, use.__name__, answer if use is learned and how == "answered" else how)
        done += 1
    figure(summed(tally))


# ---- What a training has noted


@cache
def learners(folder: Path) -> dict[str, bytes]:
    """Online forests with their latest rows."""
    texts = {}
    for name, y in (("classes", LABELS), ("numbers", VALUES)):
        path = folder / f"{name}.json"
        learner = OnlineForest(
            4, categorical=[0, 3], n_trees=2, window=40, criterion="gini" if y is LABELS else "mse"
        )
        learner.update_batch(ROWS, y)
        learner.save(path)
        texts[name] = path.read_bytes()
    return texts


def test_altered_online_forests_learn_on_or_are_refused(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    path = tmp_path / "learner.json"
    tally: Counter[str] = Counter()

    def go_on(engine: Any) -> Any:
        learner = OnlineForest.load(path, engine=engine)
        before = learner.rows, learner.error
        rows = rows_of(learner.forest())
        truth = learner.predict(rows)
        guesses = learner.update_batch(rows * 9, [*truth[3:], *truth[:3]] * 9)
        guesses.append(learner.update(rows[0], truth[0]))
        learner.save(path.with_name("again.json"))
        OnlineForest.load(path.with_name("again.json"), engine=engine)
        return before, guesses, learner.error, learner.recent_error, learner.forest().to_json()

    for case, mutant in cases(450, learners(tmp_path)):
        path.write_bytes(mutant)
        try:
            how, _ = agreed({name: lambda name=name: go_on(name) for name in ONLINE})
        except Exception as error:
            error.add_note(f"{case}: {mutant!r}")
            raise
        count(tally, "update", how)
    assert min(tally.values()) > 100 * min(1, TIMES)
    figure(summed(tally))


def test_altered_checkpoints_go_on_or_are_refused(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    """To the same forest on all engines, and never beyond the budget."""
    path = tmp_path / "model.json"
    options: dict[str, Any] = {"n_trees": 4, "max_depth": 3, "categorical": [0, 3], "budget": 9000}
    tally: Counter[str] = Counter()
    texts = {}
    for name, y in (("classes", LABELS), ("numbers", VALUES)):
        more = {"criterion": "mse"} if y is VALUES else {}
        for step in Resumable(ROWS, y, path, **options, **more):
            if len(step.grown) == 2:
                break
        texts[name] = path.read_bytes()

    def go_on(engine: Any, y: Any) -> Any:
        path.write_bytes(mutant)
        more = {"criterion": "mse"} if y is VALUES else {}
        training = Resumable(ROWS, y, path, resume=True, engine=engine, **options, **more)
        begun = training.training.budget.spent.insertions if training._done is None else 9000
        for _ in training:
            pass
        forest = training.forest()
        assert forest.spent.insertions <= 9000
        assert forest.spent.insertions >= min(begun, 9000) or training._done is not None
        return load(forest.to_json()).to_json(), forest.predict(FRESH)

    for case, mutant in cases(350, texts):
        y = LABELS if "'classes'" in case else VALUES
        try:
            how, _ = agreed({name: lambda name=name, y=y: go_on(name, y) for name in ENGINES})
        except Exception as error:
            error.add_note(f"{case}: {mutant!r}")
            raise
        count(tally, "resume", how)
    figure(summed(tally))


def test_altered_checkpoints_of_sources_go_on_or_are_refused(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    """To the same forest on all engines, and never beyond the budget."""
    path, log = tmp_path / "model.json", tmp_path / "log.csv"
    lines = [
        ",".join("" if v is None else str(v) for v in (*row, label))
        for row, label in zip(ROWS, LABELS, strict=True)
    ]
    log.write_text("\n".join(["a,b,c,d,y", *lines, ""]), encoding="utf-8")
    options: dict[str, Any] = {"n_trees": 4, "max_depth": 3, "categorical": ["a"], "budget": 9000}
    texts = {}
    for trees in (2, 4):
        for step in Streaming(open_source(log), "y", checkpoint=path, **options):
            if len(step.grown) == trees < 4:
                break
        texts[f"{trees} trees"] = path.read_bytes()
        path.unlink()
    tally: Counter[str] = Counter()

    def go_on(engine: Any) -> Any:
        path.write_bytes(mutant)
        training = Streaming(
            open_source(log), "y", checkpoint=path, resume=True, engine=engine, **options
        )
        for _ in training:
            pass
        forest = training.forest()
        assert forest.spent.insertions <= 9000
        return (
            load(forest.to_json()).to_json(),
            [forest.predict(row) for row in FRESH],
            training.note,
        )

    for case, mutant in cases(150, texts):
        try:
            how, _ = agreed({name: lambda name=name: go_on(name) for name in ENGINES})
        except Exception as error:
            error.add_note(f"{case}: {mutant!r}")
            raise
        count(tally, "resume", how)
    figure(summed(tally))


# ---- On a board

ON_BOARD = """
import struct
from edgeforest import loading, reader

def bits(v):  # a board prints fewer digits
    return struct.pack("<f", v) if isinstance(v, float) else v

for number in range({n}):
    name = "m%d.json" % number
    answers = []
    for way in (loading.load, reader.read_model):
        try:
            forest = way(name)
            answers.append([bits(forest.predict(row)) for row in {rows}])
        except ValueError as error:
            answers.append(str(error))
    if answers[0] != answers[1]:
        raise ValueError(name, answers)
    print(answers[0])
"""


@needs_mpy_cross
@needs_micropython
def test_altered_models_are_refused_by_a_board_too(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    """Those that the computer refuses, and no others; and what is read predicts the same."""
    install(tmp_path)
    rows = [["blue", 0.5, 0.25, 3], ["red", -0.5, 0.75, 5], ["violet", 0.0, 0.5, 4], [None] * 4]
    expected = []
    for name in ("classes", "regression", "merged", "shared"):
        half = int(50 * TIMES)
        texts = [*mutants(models()[name], 5, half), *mutants(models()[name], 6, half, mild=True)]
        for text in texts:
            if b"\\ud" in text:  # MicroPython reads half a surrogate pair as some other text
                continue
            (tmp_path / f"m{len(expected)}.json").write_bytes(text)
            how, forest = outcome(lambda text=text: loading.load(text))
            if how == "answered":
                answers = [forest.predict(row) for row in rows]
                forest = [struct.pack("<f", v) if isinstance(v, float) else v for v in answers]
            expected.append(str(forest))
    script = ON_BOARD.format(n=len(expected), rows=rows)
    found = output(run_micropython(script, tmp_path, "4m")).splitlines()
    assert len(found) == len(expected)
    differ = [i for i, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1]]
    assert [(found[i], expected[i]) for i in differ] == []
    refused = sum(text.startswith("the model") for text in found)
    figure(f"{refused} of {len(found)} refused, the others predict as here")
