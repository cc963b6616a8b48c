"""Learn from the sensors of a house by MQTT, and tell Home Assistant what it predicts.

    pip install paho-mqtt
    python mqtt_node.py node.toml

A file in TOML says what to listen to; `node.toml` beside this file is an example:

    name = "kitchen_presence"
    label = "zigbee2mqtt/kitchen_presence:occupancy"    # topic, and where in its JSON
    [features]
    temperature = "zigbee2mqtt/kitchen:temperature"
    humidity = "tele/tasmota_1/SENSOR:AM2301.Humidity"
    window = "home/window"                              # a plain value

The node keeps the last known value of each feature. Each label is learned together with what was
known at its moment. Predictions, how likely they are, and how often they were right go to the topic
edgeforest/NAME/state; Home Assistant is told about them by MQTT discovery and shows three sensors.

What may go wrong, and what happens then:
- The broker goes away: the node tries again; the broker keeps labels for it meanwhile (QoS 1).
- A label comes twice: it is learned once if it has a time or an `id` in its JSON. Without either, the
  same label within `repeat` seconds counts as one, because messages have no lasting number.
- Messages come out of order: those with a time in their JSON (last_seen, Time, timestamp) are put
  where they belong. A time that is a day old, or in the future, is a wrong clock: it is ignored.
- A message makes no sense: it is counted, and one line a minute at most says what was wrong.
- A sensor is offline (Zigbee2MQTT's TOPIC/availability, Tasmota's LWT): its values are missing.
- The power fails: the model is that of the last save, at most `save_minutes` old.
"""

import argparse
import importlib
import json
import math
import os
import re
import signal
import sys
import time
import tomllib
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import edgeforest
from edgeforest.online import OnlineForest
from edgeforest.sources.payloads import (
    ABSENT,
    MISSING,
    LastKnown,
    found,
    hour_and_weekday,
    moment,
    number,
    parsed,
    word,
)

TIME = ("time.hour", "time.weekday")
MAX_CLASSES = 64  # so that nonsense on the label's topic cannot fill the memory
HISTORY = 256  # values of each feature that are kept for labels that come late
LABELS = 1000  # latest labels that are remembered, to know those that come twice
OLDEST, AHEAD = 86400.0, 60.0  # seconds by which the clock of a sensor may differ from ours
COUNTS = ("messages", "learned", "repeated", "late", "unknown", "garbage")
MAX_PAUSE = 30.0  # seconds between two tries to reach the broker
QUIET = 60.0  # seconds between two lines about messages that make no sense
DEFAULTS: dict[str, Any] = {
    "host": "localhost", "port": 1883, "username": "", "password_file": "", "tls": False,
    "label": "", "classes": [], "categorical": [], "task": "classification", "unit": "",
    "features": {}, "statestream": "", "time_of_day": True, "window": 5000, "seed": 0,
    "model": "node.json", "start_from": "", "save_rows": 500, "save_minutes": 10.0,
    "publish_seconds": 1.0, "repeat": 2.0, "discovery": "homeassistant",
}  # fmt: skip


class Settings:
    """What the file says, checked; what it does not say is as in DEFAULTS."""

    def __init__(self, given: dict[str, Any]) -> None:
        for key in given:
            if key != "name" and key not in DEFAULTS:
                raise ValueError(f"{key} is not a setting; there are name, {', '.join(DEFAULTS)}")
        self.name: str = given.get("name", "")
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", str(self.name)):
            raise ValueError(f"name must be letters, digits, _ and -, got {self.name!r}")
        for key, default in DEFAULTS.items():
            value = given.get(key, default)
            kinds = (int, float) if isinstance(default, float) else (type(default),)
            if not isinstance(value, kinds) or (isinstance(value, bool) and default is not False
                                                and default is not True):  # fmt: skip
                raise ValueError(f"{key} must be like {json.dumps(default)}, got {value!r}")
            setattr(self, key, value)
        if self.task not in ("classification", "regression"):
            raise ValueError(f"task must be classification or regression, got {self.task!r}")

    def __getattr__(self, name: str) -> Any:  # only for what the loop above has not set
        raise AttributeError(name)


class Place:
    """Where a value is: a topic, and a path in its JSON."""

    def __init__(self, text: str) -> None:
        self.topic, _, self.path = str(text).partition(":")
        if not self.topic or "#" in self.topic or "+" in self.topic:
            raise ValueError(f"{text!r} must be a topic such as zigbee2mqtt/kitchen:temperature")

    def availability(self) -> str:
        """Where it is told whether the sensor is there: as Tasmota or as Zigbee2MQTT does it."""
        if self.topic.startswith("tele/"):
            return self.topic.rpartition("/")[0] + "/LWT"
        return f"{self.topic}/availability"


class Learner:
    """Turns messages into rows, and learns them. It knows nothing of the network."""

    def __init__(self, settings: Settings, now: Callable[[], float] = time.time) -> None:
        self.settings, self.now = settings, now
        self.counts: Counter[str] = Counter()
        self.labels: OrderedDict[str, None] = OrderedDict()  # ids and times, saved beside the model
        self.last = b"", -math.inf  # the last label that had neither, and when that was
        self.complained = -QUIET
        self.forest = self._begin()
        self.names = list(self.forest.head.names or ())
        kinds = dict(zip(self.names, self.forest.head.places, strict=True))
        self.sensors = [name for name in self.names if name not in TIME]
        self.known = LastKnown(len(self.sensors), HISTORY)
        self.label = Place(settings.label) if settings.label else None
        # By topic: which sensor it is about, how its values are read, where they are in the JSON.
        self.readers: dict[str, list[tuple[int, Callable[[Any], Any], str]]] = {}
        self.switches: dict[str, list[int]] = {}  # by topic: the sensors that it calls offline
        for k, (name, place) in enumerate(self._places().items()):
            read = number if kinds[name] is None else word
            self.readers.setdefault(place.topic, []).append((k, read, place.path))
            self.switches.setdefault(place.availability(), []).append(k)
        self.saved = self.forest.rows
        self.fresh = False  # something came that was not answered yet

    # ---- The model

    def _begin(self) -> OnlineForest:
        """The learner of the last save, or one that continues a trained model, or a new one."""
        s = self.settings
        for path in (s.model, s.start_from):
            if path and os.path.exists(path):
                try:
                    forest = OnlineForest.load(path)
                except ValueError as error:
                    raise ValueError(f"{path}: {error}") from None
                self._recall()
                print(f"going on from {forest.rows:,} rows in {path}", flush=True)
                return forest
        if s.start_from:
            raise ValueError(f"start_from is {s.start_from!r}, which is not there; train it first")
        names = [*s.features, *(TIME if s.time_of_day else ())]
        if not s.features:
            raise ValueError(
                "there are no features; give [features], or start_from and statestream"
            )
        task: dict[str, Any] = {"criterion": "mse"} if s.task == "regression" else {}
        if s.classes:
            task["classes"] = s.classes
        return OnlineForest(names, categorical=s.categorical, window=s.window, seed=s.seed, **task)

    def _places(self) -> dict[str, Place]:
        """Where each sensor's values come from; a statestream has a topic for each entity."""
        places = {}
        given, stream = self.settings.features, self.settings.statestream
        for name in self.sensors:
            if name not in given and not stream:
                raise ValueError(f"the model wants {name!r}; say in [features] where it comes from")
            domain, entity, attribute = [*name.split(".", 2), "", ""][:3]
            entity_topic = f"{stream}/{domain}/{entity}/{attribute or 'state'}"
            places[name] = Place(given.get(name, entity_topic))
        if extra := set(given) - set(places):
            raise ValueError(f"the model has no feature {min(extra)!r}; use another file for model")
        return places

    def _recall(self) -> None:
        try:
            with open(f"{self.settings.model}.labels", encoding="utf-8") as file:
                self.labels = OrderedDict.fromkeys(str(key) for key in json.load(file)[-LABELS:])
        except (OSError, ValueError, TypeError):
            self.labels = OrderedDict()  # there is none, or it is damaged: it only helps

    def save(self) -> None:
        """Write the model: after a power cut there is the old one or the new one."""
        if self.forest.rows == self.saved:
            return
        self.forest.save(self.settings.model)
        part = f"{self.settings.model}.labels.part"
        with open(part, "w", encoding="utf-8") as file:
            json.dump(list(self.labels), file)
        os.replace(part, f"{self.settings.model}.labels")
        self.saved = self.forest.rows

    # ---- Messages

    def topics(self) -> list[str]:
        """All topics to listen to."""
        label = [self.label.topic] if self.label else []
        return sorted({*self.readers, *self.switches, *label})

    def hear(self, topic: str, payload: bytes, retained: bool = False) -> None:
        """Take a message, whatever it is; it never raises an error."""
        self.counts["messages"] += 1
        self.fresh = True
        try:
            message = parsed(payload)
            at = self._moment(message)
            self._note(topic, message, at)
            if self.label and topic == self.label.topic and not retained:  # an old one says nothing
                self._learn(message, payload, at)
        except ValueError as error:
            self.complain(topic, str(error))

    def complain(self, topic: str, why: str) -> None:
        """Count a message that makes no sense; a line says so, but not all the time."""
        self.counts["garbage"] += 1
        if self.now() - self.complained >= QUIET:
            self.complained = self.now()
            n = self.counts["garbage"]
            print(
                f"ignored a message of {topic[:80]!r}: {why} ({n:,} so far)",
                file=sys.stderr,
                flush=True,
            )

    def _moment(self, message: Any) -> float:
        now, at = self.now(), moment(message)
        return at if at is not None and now - OLDEST < at < now + AHEAD else now

    def _note(self, topic: str, message: Any, at: float) -> None:
        """Note what a message says of the sensors."""
        wrong = ""
        for k, read, path in self.readers.get(topic, ()):
            value = found(message, path)
            if value is ABSENT:  # devices may send only what has changed
                continue
            reading = None if is_missing(value) else read(value)
            if reading is None and not is_missing(value):
                wrong = f"{self.sensors[k]} cannot be {str(value)[:40]!r}"
                continue
            self.counts["late"] += not self.known.put(k, reading, at)
        if topic in self.switches:
            word_of = found(message, "state") if isinstance(message, dict) else message
            if number(word_of) == 0:  # offline
                for k in self.switches[topic]:
                    self.known.put(k, None, at)
        if wrong:
            raise ValueError(wrong)

    def _learn(self, message: Any, payload: bytes, at: float) -> None:
        """Learn a label together with what was known at its moment."""
        value = found(message, self.label.path if self.label else "")
        if value is ABSENT or is_missing(value):
            return
        classes = self.forest.classes
        words = classes is not None and (not classes or isinstance(classes[0], str))
        label = word(value) if words else number(value)
        if label is None or (self.settings.classes and label not in self.settings.classes):
            raise ValueError(f"the label cannot be {str(value)[:40]!r}")
        if classes is not None and label not in classes and len(classes) >= MAX_CLASSES:
            raise ValueError(f"there are {MAX_CLASSES} classes already")
        if self._twice(message, payload, at):
            self.counts["repeated"] += 1
            return
        values = self.known.row(at)
        if at < self.known.begin or all(v is None for v in values):
            self.counts["unknown"] += 1  # nothing is known of that moment
            return
        self.forest.update(self.row(values, at), label)
        self.counts["learned"] += 1

    def _twice(self, message: Any, payload: bytes, at: float) -> bool:
        """Whether a label came before: by its id or its time, or else by the clock."""
        name = message.get("id", moment(message)) if isinstance(message, dict) else None
        if name is None:
            before, self.last = self.last, (payload[:200], at)
            return before[0] == payload[:200] and abs(at - before[1]) <= self.settings.repeat
        key = str(name)[:80]
        if key in self.labels:
            return True
        self.labels[key] = None
        if len(self.labels) > LABELS:
            self.labels.popitem(last=False)
        return False

    # ---- Predictions

    def row(self, values: list[Any], at: float) -> list[Any]:
        """The values of the sensors and of the clock, in the order of the model."""
        named = dict(zip(self.sensors, values, strict=True))
        named.update(zip(TIME, hour_and_weekday(at), strict=True))
        return [named[name] for name in self.names]

    def state(self) -> dict[str, Any]:
        """What is published: the prediction for this moment, and how good it has been."""
        forest = self.forest
        good = "accuracy" if forest.classes is not None else "error"
        state: dict[str, Any] = {"prediction": None, "probability": None, "probabilities": {}}
        state |= {
            good: None,
            f"recent_{good}": None,
        }  # Home Assistant warns of keys that are missing
        row = self.row(self.known.row(math.inf), self.now())
        try:
            state["prediction"] = forest.predict(row)
        except ValueError:  # nothing was learned yet
            return {**state, "rows": 0, **{key: self.counts[key] for key in COUNTS}}
        if forest.classes is not None:
            shares = dict(zip(map(str, forest.classes), forest.predict_proba(row), strict=True))
            state["probability"] = round(100 * max(shares.values()), 1)
            state["probabilities"] = {name: round(share, 4) for name, share in shares.items()}
        for name in (good, f"recent_{good}"):
            value = getattr(forest, name)
            scale = 100 if good == "accuracy" else 1
            state[name] = None if value != value else round(scale * value, 2)
        return {**state, "rows": forest.rows, **{key: self.counts[key] for key in COUNTS}}


def is_missing(value: Any) -> bool:
    """Whether a sensor says that it does not know."""
    return value is None or (isinstance(value, str) and value.strip().lower() in MISSING)


def announcements(settings: Settings) -> dict[str, dict[str, Any]]:
    """What Home Assistant is told, by topic: sensors of one device."""
    base, node = f"edgeforest/{settings.name}", f"edgeforest_{settings.name}"
    good, title = (
        ("accuracy", "Accuracy") if settings.task == "classification" else ("error", "Error")
    )
    sensors: dict[str, dict[str, Any]] = {
        "prediction": {
            "name": "Prediction",
            "json_attributes_topic": f"{base}/state",
            "icon": "mdi:forest",
        },
        good: {"name": title, "entity_category": "diagnostic", "state_class": "measurement"},
    }
    if settings.task == "classification":
        sensors["probability"] = {"name": "Probability", "state_class": "measurement"}
        for name in ("accuracy", "probability"):
            sensors[name]["unit_of_measurement"] = "%"
    else:
        for name in ("prediction", "error"):
            sensors[name]["state_class"] = "measurement"  # then null is shown as unknown
            if settings.unit:
                sensors[name]["unit_of_measurement"] = settings.unit
    shared = {
        "state_topic": f"{base}/state",
        "availability_topic": f"{base}/availability",
        "qos": 1,
        "device": {"identifiers": [node], "name": settings.name.replace("_", " "),
                   "manufacturer": "EdgeForest", "model": "online forest",
                   "sw_version": edgeforest.__version__},
        "origin": {"name": "EdgeForest", "sw_version": edgeforest.__version__},
    }  # fmt: skip
    for name, sensor in sensors.items():
        sensor |= {**shared, "unique_id": f"{node}_{name}"}
        sensor["value_template"] = f"{{{{ value_json.{name} }}}}"
    if settings.task == "classification":  # a text: null would be shown as None
        known = "'unknown' if value_json.prediction is none else value_json.prediction"
        sensors["prediction"]["value_template"] = f"{{{{ {known} }}}}"
    return {
        f"{settings.discovery}/sensor/{node}/{name}/config": sensor
        for name, sensor in sensors.items()
    }


class Node:
    """The learner on the network."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.learner = Learner(settings)
        self.base = f"edgeforest/{settings.name}"
        try:
            self.mqtt = importlib.import_module("paho.mqtt.client")
            versions = importlib.import_module("paho.mqtt.enums").CallbackAPIVersion
        except ImportError:
            raise ValueError("this needs paho-mqtt 2 or newer: pip install paho-mqtt") from None
        # The broker knows the node by this name, and keeps messages for it while it is away.
        self.client = self.mqtt.Client(
            versions.VERSION2, client_id=f"edgeforest_{settings.name}", clean_session=False
        )
        if settings.username:
            password = None
            if settings.password_file:
                with open(settings.password_file, encoding="utf-8") as file:
                    password = file.readline().rstrip("\n")
            self.client.username_pw_set(settings.username, password)
        if settings.tls:
            self.client.tls_set()
        self.client.will_set(f"{self.base}/availability", "offline", qos=1, retain=True)
        self.client.on_connect = self.connected
        self.client.on_message = self.message
        self.stopping = self.online = False
        self.pause, self.retry_at = 0.5, 0.0
        self.published = self.saved_at = time.monotonic()

    def connected(self, _client: Any, _data: Any, _flags: Any, code: Any, _more: Any) -> None:
        if code.is_failure:
            print(
                f"the broker refuses: {code}; look at username and password_file",
                file=sys.stderr,
                flush=True,
            )
            return
        topics = [*self.learner.topics(), f"{self.settings.discovery}/status"]
        self.client.subscribe([(topic, 1) for topic in topics])
        self.announce()
        self.online, self.pause = True, 0.5
        print(f"connected to {self.settings.host}:{self.settings.port}", flush=True)

    def announce(self) -> None:
        """Tell Home Assistant about the sensors, and how they are."""
        for topic, config in announcements(self.settings).items():
            self.client.publish(topic, json.dumps(config), qos=1, retain=True)
        self.client.publish(f"{self.base}/availability", "online", qos=1, retain=True)
        self.publish()

    def publish(self) -> None:
        text = json.dumps(self.learner.state())
        self.client.publish(f"{self.base}/state", text, qos=1, retain=True)
        self.learner.fresh, self.published = False, time.monotonic()

    def message(self, _client: Any, _data: Any, message: Any) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            self.learner.complain("?", "its topic is not UTF-8")
            return
        if topic == f"{self.settings.discovery}/status":
            if message.payload == b"online" and not message.retain:  # Home Assistant has started
                self.announce()
            return
        self.learner.hear(topic, message.payload, message.retain)

    def run(self) -> None:
        """Listen until a signal comes; then save. Work is done between two packets: no threads."""
        signal.signal(signal.SIGINT, self.stop)
        signal.signal(signal.SIGTERM, self.stop)
        linked = False
        try:
            while not self.stopping:
                linked = linked or self.connect()
                if linked and self.client.loop(timeout=0.2) != self.mqtt.MQTT_ERR_SUCCESS:
                    linked = self.lost("the connection broke")
                self.tick()
        finally:
            self.learner.save()
        if self.online:
            self.client.publish(f"{self.base}/availability", "offline", qos=1, retain=True)
            for _ in range(20):  # until it is confirmed
                self.client.loop(timeout=0.05)
        self.client.disconnect()
        print(f"stopped; {self.learner.forest.rows:,} rows learned in all", flush=True)

    def stop(self, *_: object) -> None:
        self.stopping = True

    def connect(self) -> bool:
        """Try to reach the broker, if it is time to; whether there is a connection."""
        if time.monotonic() < self.retry_at:
            time.sleep(0.1)
            return False
        try:
            self.client.connect(self.settings.host, self.settings.port, keepalive=60)
        except (OSError, ValueError) as error:
            return self.lost(str(error))
        return True

    def lost(self, why: str) -> bool:
        """Note that there is no connection, and when to try again."""
        print(f"no broker: {why}; next try in {self.pause:g} s", file=sys.stderr, flush=True)
        self.online, self.retry_at = False, time.monotonic() + self.pause
        self.pause = min(2 * self.pause, MAX_PAUSE)
        return False

    def tick(self) -> None:
        """Save and publish, if it is time to."""
        now, s = time.monotonic(), self.settings
        new = self.learner.forest.rows - self.learner.saved
        if new >= s.save_rows or (new and now - self.saved_at >= 60 * s.save_minutes):
            try:
                self.learner.save()
            except OSError as error:  # such as a full card: what was learned is not lost yet
                print(f"cannot save {s.model}: {error}", file=sys.stderr, flush=True)
            self.saved_at = now
        if self.online and self.learner.fresh and now - self.published >= s.publish_seconds:
            self.publish()


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("settings", metavar="FILE", help="what to listen to, in TOML")
    args = parser.parse_args(given)
    try:
        with open(args.settings, "rb") as file:
            settings = Settings(tomllib.load(file))
        Node(settings).run()
    except (OSError, ValueError) as error:  # tomllib's errors are ValueErrors, too
        sys.exit(f"{args.settings}: {error}")


if __name__ == "__main__":
    main()
