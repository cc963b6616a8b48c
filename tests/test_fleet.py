"""Forests of devices that need not be trusted: the good ones are joined, the others do no harm."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from runtimes import ROOT

from edgeforest import load, train
from edgeforest.export import sign
from edgeforest.fleet import Fleet, Joint, Limits, Sent, join
from edgeforest.forest import Forest

sys.path.insert(0, str(ROOT / "examples" / "fleet"))
import devices

NAMES = ("pump", "fan", "saw", "press")
Rows = tuple[list[list[Any]], list[Any]]


def parted(name: str) -> Rows:
    rows = devices.rows_of(name)
    return [row[:-1] for row in rows], [row[-1] for row in rows]


@pytest.fixture(scope="module")
def server() -> Rows:
    return parted("server")


@pytest.fixture(scope="module")
def held_out() -> Rows:
    return parted("test")


@pytest.fixture(scope="module")
def forests() -> dict[str, Forest]:
    return {
        name: train(*parted(name), n_trees=20, max_depth=8, seed=k, names=list(devices.FEATURES))
        for k, name in enumerate(NAMES)
    }


@pytest.fixture(scope="module")
def sent(forests: dict[str, Forest]) -> dict[str, Sent]:
    return {
        name: Sent(name, text_of(forest), sum(devices.LOGS[name]))
        for name, forest in forests.items()
    }


def text_of(forest: Forest) -> bytes:
    return forest.to_json().encode()


def accuracy(forest: Forest | None, rows: Rows) -> float:
    assert forest is not None
    found = forest.predict(rows[0])
    return sum(a == b for a, b in zip(found, rows[1], strict=True)) / len(rows[1])


def altered(model: bytes, **changes: Any) -> bytes:
    """A model with other entries and a checksum that fits, as somebody who knows the format writes it."""
    parts = json.loads(model)
    parts.pop("crc32")
    parts.update(changes)
    text = json.dumps(parts, separators=(",", ":")).encode()[:-1]
    return text + b',"crc32":"%08x"}' % crc32(text)


def constant(answer: str, classes: list[str]) -> bytes:
    """A well-formed model that says the same of every row, and knows these classes."""
    rows = [[float(i % 7)] * len(devices.FEATURES) for i in range(70)]
    labels = [classes[i % len(classes)] for i in range(70)]
    forest = train(rows, labels, n_trees=5, max_depth=1, names=list(devices.FEATURES))
    place = (forest.classes or []).index(answer)
    for i in range(len(forest.votes)):
        forest.votes[i] = forest.scale if i % len(classes) == place else 0
    return text_of(forest)


def test_four_devices_with_different_classes_are_as_good_as_all_their_rows_together(
    forests: dict[str, Forest], sent: dict[str, Sent], server: Rows, held_out: Rows
) -> None:
    rows = [row for name in NAMES for row in devices.rows_of(name)]
    together = train(
        [row[:-1] for row in rows], [row[-1] for row in rows], n_trees=80, max_depth=8, seed=1
    )
    whole = accuracy(together, held_out)
    alone = max(accuracy(forest, held_out) for forest in forests.values())
    for joint in (join(sent.values()), join(sent.values(), *server)):
        assert joint.accepted == list(NAMES)
        assert accuracy(joint.forest, held_out) > alone + 0.2
        assert accuracy(joint.forest, held_out) > whole - 0.02
        assert sum(verdict.weight for verdict in joint.verdicts) == pytest.approx(1)


def test_garbage_silence_and_a_lie_cost_less_than_a_point(
    sent: dict[str, Sent], server: Rows, held_out: Rows
) -> None:
    for rows in (server, (None, None)):
        fleet = Fleet(*rows)
        before = accuracy(fleet.round(sent.values()).forest, held_out)
        joint = fleet.round(
            [
                Sent("pump", sent["pump"].model, 10**9),
                sent["fan"],
                Sent("saw", random.Random(1).randbytes(5000), 4800),
            ]
        )
        assert accuracy(joint.forest, held_out) > before - 0.01
        said = {verdict.name: str(verdict) for verdict in joint.verdicts}
        assert "not an EdgeForest model" in said["saw"]
        assert "so its model of round 1 is used" in said["saw"]
        assert "it is silent, so its model of round 1 is used" in said["press"]
        assert max(verdict.weight for verdict in joint.verdicts) < 0.5


def test_a_model_is_not_kept_for_ever(sent: dict[str, Sent]) -> None:
    fleet = Fleet(rounds=1, classes=devices.STATES)
    fleet.round(sent.values())
    assert fleet.round([sent["pump"]]).accepted == list(NAMES)
    assert fleet.round([sent["pump"]]).accepted == ["pump"]
    assert fleet.round([Sent("pump", b"")]).accepted == ["pump"]
    assert fleet.round([Sent("pump", b"")]).forest is None


def test_a_lie_about_rows_is_bounded(sent: dict[str, Sent]) -> None:
    for lie in (10**9, 2**200, -5, True, None, 2.5, "many"):
        liar = Sent("pump", sent["pump"].model, lie)  # type: ignore[arg-type]
        joint = join([liar, sent["fan"], sent["saw"], sent["press"]])
        weights = {verdict.name: verdict.weight for verdict in joint.verdicts}
        assert weights["pump"] <= sorted(weights.values())[1] + 1e-9
    two = join([Sent("a", sent["pump"].model, 1), Sent("b", sent["pump"].model, 10**9)])
    assert [verdict.weight for verdict in two.verdicts] == [0.5, 0.5]


def refused(joint: Joint, name: str) -> str:
    """Why that one was left out; all others were not."""
    assert joint.rejected == [name], str(joint)
    assert joint.forest is not None
    return next(verdict.reason for verdict in joint.verdicts if verdict.name == name)


def test_whoever_cheats_is_left_out_with_a_reason(sent: dict[str, Sent], server: Rows) -> None:
    fan = sent["fan"].model
    states = list(devices.STATES)
    small = Limits(bytes=200_000, trees=40, nodes=9_000, depth=20)
    features = [f"f{i}" for i in range(8)]
    line = [[float(i)] * 8 for i in range(100)]
    names = list(devices.FEATURES)
    cases: list[tuple[bytes, str]] = [
        (b"", "not an EdgeForest model"),
        (fan[:-40], "cut short"),
        (fan.replace(b"A", b"B", 1), "altered"),
        (fan + b" " * 200_000, "bytes, at most 200,000 are accepted"),
        (text_of(train([[1.0, 2.0]], ["idle"])), "it knows one class only"),
        (text_of(train(*parted("fan"), n_trees=50, max_depth=3)), "it has 50 trees, at most 40"),
        (text_of(train(*parted("fan"), n_trees=30, max_depth=12)), "nodes, at most 9,000"),
        (altered(fan, features=features), "feature 0 is 'f0', that of the others 'rms'"),
        (text_of(train([[1.0], [2.0]], ["a", "b"])), "it has 1 feature, the others 8"),
        (
            text_of(train(line, range(100), criterion="mse", max_depth=4, names=names)),
            "it is for regression",
        ),
        (
            text_of(train(line, [i % 3 for i in range(100)], max_depth=4, names=names)),
            "of another kind",
        ),
        (altered(fan, spent=[10**4000, 0, 0]), "too much to be true"),
    ]
    for k, (model, reason) in enumerate(cases):
        few = [Sent("evil", model, 10**9), sent["fan"], sent["pump"]]
        rows = server if k % 2 else ()
        assert reason in refused(join(few, *rows, limits=small, classes=states), "evil")
    made_up = [Sent("evil", constant("gone", ["gone", "idle"]), 9), *sent.values()]
    for rows in ((), server):
        reason = refused(join(made_up, *rows), "evil")
        assert reason == "class 'gone' no other device has; name it in classes to accept it"
    guesses = {
        "no better than guessing": constant("idle", states),
        "rows of fewer than two of its classes": constant("gone", ["gone", "idle"]),
    }
    for reason, model in guesses.items():
        joint = join([Sent("evil", model, 9), *sent.values()], *server, classes=[*states, "gone"])
        assert reason in refused(joint, "evil")
    for label in (*states, "idle"):
        more = join(sent.values(), classes=[s for s in states if s != label])
        knows = [n for n in NAMES if devices.LOGS[n][states.index(label)]]
        assert more.rejected == knows


def test_votes_far_above_the_scale_do_not_outvote(sent: dict[str, Sent], held_out: Rows) -> None:
    before = accuracy(join(sent.values()).forest, held_out)
    quiet = constant("idle", list(devices.STATES))
    loud = altered(quiet, scale=1)
    scores: list[float] = []
    assert max(load(loud).votes) == 65535
    for name in ("quiet", "loud"):
        joint = join([Sent(name, quiet if name == "quiet" else loud, 10**9), *sent.values()])
        assert joint.rejected == []
        scores.append(accuracy(joint.forest, held_out))
    assert before > scores[0]  # without rows of its own the server cannot know better
    assert scores[1] == pytest.approx(scores[0], abs=0.05)


def test_a_regression_cannot_be_drawn_away(held_out: Rows) -> None:
    rng = random.Random(5)
    rows = [[rng.random(), rng.random()] for _ in range(300)]
    values = [20 + a + b for a, b in rows]
    honest = [Sent(f"d{k}", text_of(train(rows, values, criterion="mse", seed=k, n_trees=5)), 300)
              for k in range(3)]  # fmt: skip
    far = text_of(train(rows, [v * 1e30 for v in values], criterion="mse", n_trees=5))
    loud = altered(honest[0].model, scale=1)
    for evil in (far, loud):
        for server in ((rows, values), (None, None)):
            joint = join([Sent("evil", evil, 10**9), *honest], *server)
            assert "far from 2" in refused(joint, "evil")
            assert joint.forest is not None
            assert joint.forest.predict([0.5, 0.5]) == pytest.approx(21, abs=0.2)
    wrong = text_of(train(rows, values[::-1], criterion="mse", n_trees=5))
    assert "guessing" in refused(join([*honest, Sent("evil", wrong)], rows, values), "evil")


def test_too_many_categories_of_one_do_not_stop_the_others() -> None:
    def model(kinds: list[str]) -> bytes:
        rows = [[kinds[i % len(kinds)]] for i in range(600)]
        return text_of(train(rows, [i % 2 for i in range(600)], categorical=[0], n_trees=2))

    evil = Sent("evil", model([f"x{i}" for i in range(254)]), 9)
    good = [Sent(f"d{k}", model(["a", "b", f"c{k}"]), 600) for k in range(3)]
    assert "too many for one model" in refused(
        join([evil, *good], limits=Limits(depth=200)), "evil"
    )


def test_models_in_pieces_or_with_wrong_bytes_never_raise(sent: dict[str, Sent]) -> None:
    rng = random.Random(3)
    small = train(*parted("fan"), n_trees=2, max_depth=3, names=list(devices.FEATURES))
    good = text_of(small)
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(bad))
            bad[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        if rng.random() < 0.7:  # with a checksum that fits
            body = bytes(bad[:-20])
            bad[:] = body + b',"crc32":"%08x"}' % crc32(body)
        joint = join(
            [Sent("evil", bytes(bad), 10**6), Sent("good", good, 100)], features=small.names
        )
        assert "good" in joint.accepted
        assert joint.forest is not None
        assert joint.forest.names == small.names
        joint.forest.predict([0.0] * 8)
        load(text_of(joint.forest))


def test_only_what_was_signed_with_the_key_is_used(sent: dict[str, Sent], tmp_path: Path) -> None:
    key = b"0123456789abcdef"
    signed = Sent("pump", sign(sent["pump"].model, key).encode(), 100)
    other = Sent("saw", sign(sent["saw"].model, b"another key, of some other").encode(), 100)
    path = tmp_path / "model.json"
    path.write_bytes(signed.model)
    joint = join([signed, sent["fan"], other, Sent("path", str(path).encode())], key=key)
    assert joint.accepted == ["pump"]
    assert [verdict.reason for verdict in joint.verdicts[1:]] == [
        "the model has no signature; sign it first, or do not use it",
        "the signature of the model does not fit the key; do not use it",
        "this is not an EdgeForest model; give a file that Forest.save wrote",
    ]


def test_the_joint_model_is_not_larger_than_it_may_be(
    sent: dict[str, Sent], server: Rows, held_out: Rows
) -> None:
    whole = join(sent.values())
    assert whole.forest is not None
    for rows in (server, (None, None)):
        joint = join(sent.values(), *rows, max_bytes=60_000)
        assert joint.forest is not None
        assert 40_000 < len(text_of(joint.forest)) <= 60_000
        assert accuracy(joint.forest, held_out) > accuracy(whole.forest, held_out) - 0.04


def test_who_sends_twice_and_who_comes_too_late(sent: dict[str, Sent]) -> None:
    joint = join([sent["pump"], sent["pump"], sent["fan"]], classes=devices.STATES)
    assert joint.verdicts[1].reason == "a device of this name has sent a model already"
    joint = join(sent.values(), classes=devices.STATES, limits=Limits(devices=2))
    assert joint.accepted == ["pump", "fan"]
    assert joint.verdicts[2].reason == "there are 2 models already"


def test_wrong_calls_are_one_sentence(sent: dict[str, Sent], server: Rows) -> None:
    assert join([]).forest is None
    with pytest.raises(ValueError, match="X and y belong together; give both, or none"):
        join(sent.values(), server[0])
    with pytest.raises(ValueError, match="X has 300 rows, y has 2"):
        join(sent.values(), server[0], ["a", "b"])
    text = Sent("a", "text")  # type: ignore[arg-type]
    assert join([text]).verdicts[0].reason == "a model must be bytes, got str"
    shown = str(join([Sent("e\x1b[2J", b"")]).verdicts[0])
    assert shown.startswith("e\\x1b[2J ")
