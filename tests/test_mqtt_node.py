"""The example that learns by MQTT: with a real broker, whatever comes by it."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mqtt
import pytest
from mqtt import PATIENCE, Mosquitto, find_mosquitto
from runtimes import GET_RUNTIMES, ROOT, needs

import edgeforest
from edgeforest.online import OnlineForest

FILE = ROOT / "examples" / "raspberrypi" / "mqtt_node.py"
spec = importlib.util.spec_from_file_location("mqtt_node", FILE)
assert spec is not None
assert spec.loader is not None
mqtt_node: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mqtt_node)

needs_broker = needs(find_mosquitto() is not None, f"there is no mosquitto here: {GET_RUNTIMES}")
needs_paho = needs(
    importlib.util.find_spec("paho") is not None, "paho-mqtt is missing: run `pip install .[test]`"
)
needs_systemd = needs(
    shutil.which("systemd-analyze") is not None,
    "there is no systemd-analyze here: install systemd (apt install systemd)",
)
SETTINGS = """
name = "kitchen"
label = "house/label:value"
save_rows = 1
publish_seconds = 0.0
[features]
temperature = "zigbee2mqtt/kitchen:temperature"
humidity = "tele/tas/SENSOR:AM2301.Humidity"
lamp = "stat/tas/POWER"
"""
NOON = 1714392000.0


class Observer(mqtt.Observer):
    """A client that publishes with QoS 1, and notes what the node says."""

    def __init__(self, port: int) -> None:
        super().__init__(port, "edgeforest/#", "homeassistant/#")

    def state(self, **counts: int) -> dict[str, Any]:
        """Wait until the node says that it counted this."""

        def fits(text: str) -> bool:
            state = json.loads(text)
            return all(state[name] == n for name, n in counts.items())

        found: dict[str, Any] = json.loads(self.wait("edgeforest/kitchen/state", fits))
        return found


@pytest.fixture
def house(tmp_path: Path) -> Iterator[tuple[Mosquitto, Observer, Callable[[], Any]]]:
    """A broker, an observer, and a function that starts the node; all of them end."""
    started: list[subprocess.Popen[str]] = []

    def start(more: str = "") -> subprocess.Popen[str]:
        text = f'host = "127.0.0.1"\nport = {broker.port}\n{more}{SETTINGS}'
        (tmp_path / "node.toml").write_text(text, encoding="utf-8")
        started.append(
            subprocess.Popen(
                [sys.executable, str(FILE), "node.toml"],
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return started[-1]

    with Mosquitto(tmp_path) as broker:
        observer = Observer(broker.port)
        try:
            yield broker, observer, start
        finally:
            observer.close()
            for process in started:
                process.kill()
                process.communicate()


def lesson(k: int) -> tuple[float, str]:
    warm = k * 7 % 20
    return warm, "on" if warm >= 10 else "off"


def teach(observer: Observer, lessons: range) -> None:
    for k in lessons:
        warm, label = lesson(k)
        observer.say("zigbee2mqtt/kitchen", {"temperature": warm, "linkquality": 90})
        observer.say("house/label", {"value": label, "id": k})


@needs_broker
@needs_paho
def test_it_learns_survives_everything_and_tells_home_assistant(
    house: tuple[Mosquitto, Observer, Callable[..., Any]], tmp_path: Path
) -> None:
    broker, observer, start = house
    observer.say("house/label", {"value": "old", "id": "r"}, retain=True)  # says nothing about now
    node = start()
    observer.wait("edgeforest/kitchen/availability", "online".__eq__)
    for name in ("prediction", "accuracy", "probability"):
        topic = f"homeassistant/sensor/edgeforest_kitchen/{name}/config"
        config = json.loads(observer.wait(topic, bool))
        assert config["unique_id"] == f"edgeforest_kitchen_{name}"
        assert config["state_topic"] == "edgeforest/kitchen/state"
        assert config["availability_topic"] == "edgeforest/kitchen/availability"
        assert f"value_json.{name} " in config["value_template"]
    teach(observer, range(100))
    observer.state(learned=100, repeated=0)
    teach(observer, range(90, 100))  # a publisher that lost its PUBACKs
    observer.state(learned=100, repeated=10)
    # Garbage of all kinds, which also arrives where labels do.
    for payload in (
        b"\xff\xfe\x00",
        b'{"temperature":',
        b"x" * 70_000,
        b"[" * 9000,
        b'{"temperature": [1]}',
    ):
        observer.say("zigbee2mqtt/kitchen", payload)
    observer.say("house/label", b'{"value": {"a": 1}, "id": "g"}')
    state = observer.state(learned=100, garbage=6)
    assert state["prediction"] in ("on", "off")
    assert state["recent_accuracy"] > 60
    assert sum(state["probabilities"].values()) == pytest.approx(1, abs=1e-3)
    # The broker restarts; what is published meanwhile waits for it, and for the node.
    broker.stop()
    teach(observer, range(100, 150))
    assert broker.start()
    state = observer.state(learned=150)
    assert OnlineForest.load(tmp_path / "node.json").rows == 150
    # The power fails. The broker says so, keeps what is published, and the node goes on.
    node.kill()
    node.wait()
    observer.wait("edgeforest/kitchen/availability", "offline".__eq__)
    teach(observer, range(150, 200))
    teach(observer, range(140, 150))  # of before the power failed
    node = start()
    state = observer.state(learned=50, repeated=10, rows=200)
    observer.say("homeassistant/status", "online")  # Home Assistant starts again
    topic = "homeassistant/sensor/edgeforest_kitchen/prediction/config"
    with observer.changed:
        before = len(observer.seen[topic])
    observer.say("homeassistant/status", "online")
    with observer.changed:
        assert observer.changed.wait_for(lambda: len(observer.seen[topic]) > before, PATIENCE)
    for warm, label in ((2, "off"), (18, "on")):
        observer.say("zigbee2mqtt/kitchen", {"temperature": warm})
        wanted = f'"prediction": "{label}"'
        observer.wait("edgeforest/kitchen/state", lambda text, w=wanted: w in text)  # type: ignore[misc]
    node.send_signal(signal.SIGTERM)
    said, _ = node.communicate(timeout=PATIENCE)
    assert node.returncode == 0, said
    assert said.splitlines()[0] == "going on from 150 rows in node.json"
    assert said.splitlines()[-1] == "stopped; 200 rows learned in all"
    assert OnlineForest.load(tmp_path / "node.json").rows == 200
    assert edgeforest.load(tmp_path / "node.json").predict([18, None, None, 12, 0]) == "on"


@needs_broker
@needs_paho
def test_it_waits_for_a_broker_and_says_why(tmp_path: Path) -> None:
    with Mosquitto(tmp_path) as broker:
        port = broker.port
        broker.stop()
        text = f'host = "127.0.0.1"\nport = {port}\n{SETTINGS}'
        (tmp_path / "node.toml").write_text(text, encoding="utf-8")
        node = subprocess.Popen(
            [sys.executable, str(FILE), "node.toml"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert node.stdout is not None
            assert "Connection refused; next try in 0.5 s" in node.stdout.readline()
            assert broker.start()
            while f"connected to 127.0.0.1:{port}" not in (line := node.stdout.readline()):
                assert line.startswith("no broker: ")
        finally:
            node.kill()
            node.communicate()


# ---- Without a network: the learner, on a clock of ours


def learner(folder: Path, text: str = SETTINGS, **more: Any) -> tuple[Any, list[float]]:
    """A learner, and its clock."""
    import tomllib

    clock = [NOON]
    given = {**tomllib.loads(text), "model": str(folder / "node.json"), **more}
    return mqtt_node.Learner(mqtt_node.Settings(given), lambda: clock[0]), clock


def test_values_of_zigbee2mqtt_and_tasmota_are_found_and_go_when_they_go_offline(
    tmp_path: Path,
) -> None:
    one, _ = learner(tmp_path)
    assert one.topics() == [
        *("house/label", "stat/tas/POWER", "stat/tas/POWER/availability", "tele/tas/LWT"),
        *("tele/tas/SENSOR", "zigbee2mqtt/kitchen", "zigbee2mqtt/kitchen/availability"),
    ]
    one.hear("zigbee2mqtt/kitchen", b'{"temperature":21.3,"battery":100}')
    one.hear("tele/tas/SENSOR", b'{"Time":"2024-04-29T12:00:00Z","AM2301":{"Humidity":45.5}}')
    one.hear("stat/tas/POWER", b"ON")
    assert one.known.row(NOON + 1) == [21.3, 45.5, 1.0]
    one.hear("zigbee2mqtt/kitchen", b'{"battery":99}')  # says nothing of the temperature
    assert one.known.row(NOON + 1) == [21.3, 45.5, 1.0]
    one.hear("zigbee2mqtt/kitchen/availability", b'{"state":"offline"}')
    one.hear("tele/tas/LWT", b"Offline")
    assert one.known.row(NOON + 1) == [None, None, 1.0]
    one.hear("tele/tas/LWT", b"Online")
    one.hear("stat/tas/POWER", b"unavailable")
    assert one.known.row(NOON + 1) == [None, None, None]
    assert one.counts["garbage"] == 0


def test_a_label_is_learned_with_what_was_known_at_its_moment(tmp_path: Path) -> None:
    one, clock = learner(tmp_path)
    rows: list[Any] = []
    one.forest.update = lambda row, label: rows.append((row[0], label))

    def at(seconds: float) -> str:
        return f'"timestamp": {NOON + seconds}'

    one.hear("house/label", b'{"value": "on"}')  # nothing is known yet
    assert one.counts["unknown"] == 1
    clock[0] += 100
    for seconds, value in ((10, 20), (40, 22), (30, 21)):  # the last one is late
        one.hear("zigbee2mqtt/kitchen", f'{{"temperature": {value}, {at(seconds)}}}'.encode())
    assert one.counts["late"] == 1
    for seconds in (35, 45, 29, 35):
        one.hear("house/label", f'{{"value": "on", {at(seconds)}}}'.encode())
    assert rows == [(21.0, "on"), (22.0, "on"), (20.0, "on")]
    assert one.counts["repeated"] == 1
    one.hear("house/label", f'{{"value": "on", {at(9e6)}}}'.encode())  # a wrong clock: it is now
    assert rows[-1] == (22.0, "on")
    one.hear("house/label", b'{"value": "off"}', retained=True)
    assert len(rows) == 4
    # Labels without a time: the same one again is a repetition, for two seconds.
    for seconds, label, learned in (
        (0, "off", 5),
        (1, "off", 5),
        (0.5, "on", 6),
        (0, "off", 7),
        (3, "off", 8),
    ):
        clock[0] += seconds
        one.hear("house/label", json.dumps({"value": label}).encode())
        assert len(rows) == learned
    one.hear("house/label", b'{"value": "unavailable"}')
    assert (len(rows), one.counts["garbage"]) == (8, 0)


def test_no_message_brings_it_down_and_memory_stays(tmp_path: Path, capsys: Any) -> None:
    one, clock = learner(tmp_path)
    rng = random.Random(5)
    seeds = [b'{"temperature": 21.3}', b'{"value": "on", "id": 5}', b'{"Time":"x","AM2301":{"Humidity":1e999}}',
             b"ON", b"-1e400", b'{"value": null}', b'"\\ud800"', b"[1]", b""]  # fmt: skip
    topics = one.topics()
    for k in range(3000):
        payload = bytearray(rng.choice(seeds))
        for _ in range(rng.randrange(4)):
            payload.insert(rng.randrange(len(payload) + 1), rng.randrange(256))
        clock[0] += 0.01
        one.hear(rng.choice(topics), bytes(payload), rng.random() < 0.1)
        if k % 500 == 0:
            json.dumps(one.state())
    for k in range(200):
        one.hear("house/label", json.dumps({"value": f"class {k}", "id": f"c{k}"}).encode())
    assert len(one.forest.classes) <= mqtt_node.MAX_CLASSES
    assert one.counts["garbage"] > 1000
    assert len(capsys.readouterr().err.splitlines()) == 1  # in 30 seconds
    for k in range(5000):
        one.hear("zigbee2mqtt/kitchen", b'{"temperature": 21.3}')
        one.hear("house/label", json.dumps({"value": "on", "id": k + 10_000}).encode())
    assert len(one.labels) == mqtt_node.LABELS
    assert max(map(len, one.known._times)) <= 2 * mqtt_node.HISTORY


def test_it_goes_on_from_a_model_of_train_with_the_topics_of_a_statestream(tmp_path: Path) -> None:
    rows = [[k % 24, 20 + k % 5, "on" if k % 3 else "off"] for k in range(300)]
    labels = ["on" if row[1] > 22 else "off" for row in rows]
    forest = edgeforest.train(
        rows, labels, names=["time.hour", "climate.bath.temperature", "light.bath"], categorical=[2]
    )
    forest.save(tmp_path / "model.json")
    text = 'name = "bath"\nstatestream = "states"\nlabel = "states/binary_sensor/bath/state"'
    one, _ = learner(tmp_path, text, start_from=str(tmp_path / "model.json"))
    assert set(one.topics()) > {"states/climate/bath/temperature", "states/light/bath/state"}
    one.hear("states/climate/bath/temperature", b"24")
    one.hear("states/light/bath/state", b"on")
    assert one.state()["prediction"] == "on"
    one.hear("states/binary_sensor/bath/state", b"on")
    assert (one.state()["rows"], one.state()["accuracy"]) == (1, 100.0)
    one.save()
    again, _ = learner(tmp_path, text, start_from=str(tmp_path / "model.json"))
    assert again.forest.rows == 1
    with pytest.raises(ValueError, match=r"the model wants 'climate.bath.temperature'; say in"):
        learner(tmp_path, 'name = "bath"')


def test_numbers_are_learned_too(tmp_path: Path) -> None:
    one, clock = learner(tmp_path, SETTINGS, task="regression", unit="W")
    for k in range(300):
        clock[0] += 5
        one.hear("zigbee2mqtt/kitchen", json.dumps({"temperature": k % 10}).encode())
        one.hear("house/label", json.dumps({"value": 100.0 * (k % 10 > 4)}).encode())
    state = one.state()
    assert state["prediction"] > 70
    assert "accuracy" not in state
    assert state["recent_error"] < 50
    sensors = mqtt_node.announcements(one.settings)
    assert {topic.split("/")[3] for topic in sensors} == {"prediction", "error"}


# What Home Assistant 2024.3.3 knows of a sensor, by its schema; it removes all else without a word.
# `python tools/check_discovery.py` asks Home Assistant itself.
SENSOR = {
    "name", "state_topic", "availability_topic", "json_attributes_topic", "value_template", "unique_id",
    "icon", "entity_category", "state_class", "unit_of_measurement", "qos", "device", "origin",
}  # fmt: skip
DEVICE = {"identifiers", "name", "manufacturer", "model", "sw_version"}


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_home_assistant_knows_all_that_it_is_told(task: str, tmp_path: Path) -> None:
    one, _ = learner(tmp_path, SETTINGS, task=task)
    before = one.state()
    for topic, config in mqtt_node.announcements(one.settings).items():
        assert re.fullmatch(r"homeassistant/sensor/[a-zA-Z0-9_-]+/[a-zA-Z0-9_-]+/config", topic)
        assert set(config) <= SENSOR
        assert set(config["device"]) <= DEVICE
        assert set(config["origin"]) <= {"name", "sw_version"}
        assert config["qos"] in (0, 1, 2)
        assert config.get("entity_category", "diagnostic") == "diagnostic"
        assert config.get("state_class", "measurement") == "measurement"
        # A number may be null, a text must say by itself that it is not known.
        key = topic.split("/")[3]
        assert before[key] is None
        assert ("'unknown'" in config["value_template"]) == ("state_class" not in config)


def test_settings_that_are_wrong_are_named(tmp_path: Path) -> None:
    for text, said in (
        ("", "name must be letters, digits, _ and -, got ''"),
        ('name = "a/b"', "name must be"),
        ('name = "a"\nlable = "x"', "lable is not a setting; there are name, host"),
        ('name = "a"\nport = "x"', "port must be like 1883, got 'x'"),
        ('name = "a"', "there are no features; give"),
        ('name = "a"\ntask = "guess"', "task must be classification or regression"),
        ('name = "a"\n[features]\nx = "house/#"', "'house/#' must be a topic such as"),
        ('name = "a"\nstart_from = "gone.json"', "start_from is 'gone.json', which is not there"),
        ("name = ", "Invalid value"),
    ):
        (tmp_path / "node.toml").write_text(text, encoding="utf-8")
        with pytest.raises(SystemExit, match=said) as error:
            mqtt_node.main([str(tmp_path / "node.toml")])
        assert "\n" not in str(error.value)


def test_without_paho_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text(SETTINGS, encoding="utf-8")
    code = (
        "import runpy, sys; sys.modules['paho'] = None; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(FILE), "node.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ},
    )
    assert done.returncode == 1
    assert done.stderr == "node.toml: this needs paho-mqtt 2 or newer: pip install paho-mqtt\n"


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    program = sys.executable  # in place of those of /opt/edgeforest, which is not here
    for unit in FILE.parent.glob("edgeforest-*.*"):
        text = re.sub(
            r"(?m)^(ExecStart\w*=-?)/\S+", rf"\1{program}", unit.read_text(encoding="utf-8")
        )
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
    units = sorted(path.name for path in tmp_path.iterdir())
    assert units == [
        "edgeforest-mqtt.service",
        "edgeforest-train.service",
        "edgeforest-train.timer",
    ]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    calendar = re.search(r"OnCalendar=(.+)", (tmp_path / "edgeforest-train.timer").read_text())
    assert calendar
    subprocess.run(
        ["systemd-analyze", "calendar", calendar[1]], check=True, capture_output=True, timeout=600
    )
