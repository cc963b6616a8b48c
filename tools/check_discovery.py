"""Check what the MQTT node announces against Home Assistant's own schema.

    python3.11 -m venv scratch && scratch/bin/pip install homeassistant==2024.3.3 paho-mqtt==1.6.1
    PYTHONPATH=. scratch/bin/python tools/check_discovery.py

Home Assistant removes keys that it does not know without a word; here they are mistakes, too. Each
template is filled in with a state of the node as Home Assistant does it. No test needs this: Home
Assistant brings over a hundred packages. Exit codes: 0 all is well, 1 something is refused.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "raspberrypi"))

FEATURES = {"temperature": "zigbee2mqtt/kitchen:temperature"}
CASES: dict[str, dict[str, Any]] = {
    "classes": {"label": "home/label"},
    "on and off": {"label": "home/label", "classes": ["on", "off"]},
    "numbers": {"label": "home/label", "task": "regression"},
    "numbers with a unit": {"label": "home/label", "task": "regression", "unit": "°C"},
}


def states(node: Any, settings: Any, case: str) -> list[dict[str, Any]]:
    """What the node publishes before anything is learned, and after some labels."""
    learner = node.Learner(settings)
    before = learner.state()
    for i in range(60):
        learner.hear("zigbee2mqtt/kitchen", json.dumps({"temperature": i % 20}).encode())
        label: Any = i % 20 if case.startswith("numbers") else ("on" if i % 20 > 9 else "off")
        learner.hear("home/label", json.dumps(label).encode())
    return [before, learner.state()]


def problems(topic: str, config: dict[str, Any]) -> list[str]:
    """What Home Assistant does not like about an announcement."""
    discovery = importlib.import_module("homeassistant.components.mqtt.discovery")
    sensor = importlib.import_module("homeassistant.components.mqtt.sensor")
    found = []
    if not re.fullmatch(discovery.TOPIC_MATCHER, topic.removeprefix("homeassistant/")):
        found.append(f"{topic} is not a topic of discovery")
    try:
        kept = sensor.DISCOVERY_SCHEMA(dict(config))
    except Exception as error:  # of voluptuous, which is not imported here
        return [*found, f"{topic}: {error}"]
    return found + [f"{topic}: {key} is not known" for key in config if key not in kept]


def filled_in(config: dict[str, Any], state: dict[str, Any]) -> str:
    """The state that Home Assistant shows: its template, filled in with what is published."""
    core = importlib.import_module("homeassistant.core")
    template = importlib.import_module("homeassistant.helpers.template").Template

    async def fill() -> str:
        made = template(config["value_template"], core.HomeAssistant("."))
        return str(made.async_render_with_possible_json_value(json.dumps(state), "an error"))

    return asyncio.run(fill())


def main() -> int:
    """Check the announcements of all kinds of nodes."""
    version = importlib.import_module("homeassistant.const").__version__
    node = importlib.import_module("mqtt_node")
    code = 0
    for case, given in CASES.items():
        settings = node.Settings(
            {"name": "kitchen-1", "features": FEATURES, "model": os.devnull + "/none", **given}
        )
        shown = states(node, settings, case)
        for topic, config in node.announcements(settings).items():
            wrong = problems(topic, config)
            texts = [filled_in(config, state) for state in shown]
            wrong += [f"{topic}: its template fails" for text in texts if text == "an error"]
            code = 1 if wrong else code
            name = topic.split("/")[-2]
            print(f"{case}: {name}: {'; '.join(wrong) or 'accepted'}; shows {' then '.join(texts)}")
    print(f"Home Assistant {version}: {'something is refused' if code else 'all accepted'}")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
