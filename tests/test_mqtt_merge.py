"""The example that joins forests by MQTT: with a real broker, and with messages of anybody."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mqtt import PATIENCE, Mosquitto, Observer, find_mosquitto
from runtimes import GET_RUNTIMES, ROOT, needs

import edgeforest
from edgeforest.fleet import Limits, Sent

sys.path.insert(0, str(ROOT / "examples" / "fleet"))
import devices
import mqtt_merge

needs_broker = needs(find_mosquitto() is not None, f"there is no mosquitto here: {GET_RUNTIMES}")
needs_paho = needs(
    importlib.util.find_spec("paho") is not None, "paho-mqtt is missing: run `pip install .[test]`"
)


def model_of(name: str) -> bytes:
    rows = devices.rows_of(name)
    names = list(devices.FEATURES)
    X, y = [row[:-1] for row in rows], [row[-1] for row in rows]
    return edgeforest.train(X, y, n_trees=5, max_depth=6, names=names).to_json().encode()


@needs_broker
@needs_paho
def test_models_go_there_in_pieces_and_the_joint_one_comes_back(tmp_path: Path) -> None:
    devices.write(tmp_path)
    with Mosquitto(tmp_path) as broker:
        command = [sys.executable, str(ROOT / "examples" / "fleet" / "mqtt_merge.py")]
        options = f"--port {broker.port} --host 127.0.0.1 --wait 999 --devices 4 --rounds 1 --rows server.csv"
        observer = Observer(broker.port, "fleet/joint/+", "fleet/state")
        merging = subprocess.Popen(
            [*command, *options.split()], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        try:
            observer.wait("fleet/state", bool)  # somebody listens
            sent = {name: model_of(name) for name in ("pump", "fan", "saw")}
            for name, model in {**sent, "press": random.Random(2).randbytes(3000)}.items():
                mqtt_merge.publish(observer.say, f"fleet/{name}", model, sum(devices.LOGS[name]))
            state = json.loads(observer.wait("fleet/state", lambda text: '"round": 1' in text))
            said = merging.communicate(timeout=PATIENCE)[0]
        finally:
            merging.kill()
            merging.communicate()
            observer.close()
    assert merging.returncode == 0, said
    reasons = {device["name"]: device["rejected"] for device in state["devices"]}
    assert "not an EdgeForest model" in reasons.pop("press")
    assert reasons == {"pump": "", "fan": "", "saw": ""}
    assert "press      rejected: this is not" in said
    head = json.loads(observer.seen["fleet/joint/begin"][-1])
    parts = [observer.seen[f"fleet/joint/{k}"][-1] for k in range(head["pieces"])]
    joint = edgeforest.load("".join(parts))
    assert len("".join(parts)) == head["bytes"]
    rows = devices.rows_of("test")
    found = joint.predict([row[:-1] for row in rows])
    assert sum(a == row[-1] for a, row in zip(found, rows, strict=True)) > 0.8 * len(rows)


def heard(inbox: Any, *messages: tuple[str, str, bytes]) -> list[Sent]:
    for message in messages:
        inbox.hear(*message)
    taken: list[Sent] = inbox.take()
    return taken


def begin(**head: Any) -> bytes:
    return json.dumps(head).encode()


def test_pieces_come_in_any_order_and_twice() -> None:
    inbox = mqtt_merge.Inbox(Limits(bytes=100))
    start = ("a", "begin", begin(pieces=3, bytes=5, rows=7))
    sent = heard(
        inbox, start, ("a", "2", b"e"), ("a", "0", b"ab"), ("a", "0", b"ab"), ("a", "1", b"cd")
    )
    assert sent == [Sent("a", b"abcde", 7)]
    assert heard(inbox) == []
    (cut,) = heard(inbox, start, ("a", "1", b"cd"))
    assert cut.problem == "1 of 3 pieces came"


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([("begin", b"\xff")], "what it began with makes no sense"),
        ([("begin", b"[1]")], "what it began with makes no sense"),
        ([("begin", begin(pieces=1, bytes=1e400, rows=1))], "what it began with makes no sense"),
        (
            [("begin", begin(pieces=1, bytes=101, rows=1))],
            "it has 101 bytes, at most 100 are accepted",
        ),
        ([("begin", begin(pieces=9, bytes=5, rows=1))], "it has 5 bytes in 9 pieces"),
        (
            [("begin", begin(pieces=2, bytes=5, rows=1)), ("0", b"x" * 6)],
            "its pieces are longer than",
        ),
        (
            [("begin", begin(pieces=2, bytes=5, rows=1)), ("7", b"x"), ("-1", b"")],
            "0 of 2 pieces came",
        ),
        ([("0", b"without a beginning")], ""),
    ],
)
def test_nonsense_is_a_sentence(messages: list[tuple[str, bytes]], problem: str) -> None:
    inbox = mqtt_merge.Inbox(Limits(bytes=100))
    sent = heard(inbox, *[("evil", part, payload) for part, payload in messages])
    assert [one.problem[: len(problem)] for one in sent] == [problem] * bool(problem)
    assert not any(inbox.pieces.values())


def test_strangers_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mqtt_merge, "MOST_NAMES", 3)
    inbox = mqtt_merge.Inbox(Limits(bytes=100))
    for k in range(9):
        inbox.hear(f"n{k}", "begin", begin(pieces=2, bytes=5, rows=1))
        inbox.hear(f"w{k}", "begin", b"")
    assert len(inbox.heads) == len(inbox.whole) == 3


def test_without_a_broker_it_is_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, mqtt_merge.__file__, "--host", "127.0.0.1", "--port", "1"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("mqtt_merge: ")
    assert done.stderr.count("\n") == 1
