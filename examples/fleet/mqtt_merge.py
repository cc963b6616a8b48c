"""Join the forests of boards by MQTT: they publish models, and get the joint one back.

    pip install paho-mqtt
    python mqtt_merge.py --host broker.local [--rows server.csv --target state]

A board needs no Flower. It publishes what `forest.save` wrote, in pieces that its memory can hold:

    fleet/NAME/begin    {"pieces": 12, "bytes": 5400, "rows": 800}
    fleet/NAME/0 ...    the pieces, one after the other; QoS 1
    fleet/joint/begin   the same of the joint model, which is kept for whoever comes later (retained)
    fleet/joint/0 ...
    fleet/state         what became of each device's model, as JSON (retained); it is there as soon
                        as somebody listens

Models are checked before they are used: see docs/fleet.md. When `--devices` have come, or after
`--wait` seconds without a new model, those that are there are joined; who is silent keeps its last good model. `publish` below has
no more than a board has: `umqtt.simple` can do it.
"""

import argparse
import csv
import importlib
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgeforest.fleet import Fleet, Limits, Sent

PIECE = 1024  # bytes of a message: a board holds one at a time
MOST_NAMES = 1000


def publish(send: Callable[[str, bytes], Any], topic: str, model: bytes, rows: int) -> None:
    """Publish a model in pieces: `send` takes a topic and bytes."""
    pieces = -(-len(model) // PIECE)
    head = {"pieces": pieces, "bytes": len(model), "rows": rows}
    send(f"{topic}/begin", json.dumps(head).encode())
    for k in range(pieces):
        send(f"{topic}/{k}", model[PIECE * k : PIECE * (k + 1)])


class Inbox:
    """Models that come in pieces, in any order, from anybody: it never holds more than it may."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.heads: dict[str, dict[str, int]] = {}
        self.pieces: dict[str, dict[int, bytes]] = {}
        self.whole: dict[str, Sent] = {}

    def hear(self, name: str, part: str, payload: bytes) -> bool:
        """Take a message; whether a model has become whole, or is known to be no good."""
        if name not in self.heads and part != "begin":
            return False
        if part == "begin":
            return self._begin(name, payload)
        head, pieces = self.heads[name], self.pieces[name]
        if not part.isdecimal() or len(part) > 6 or int(part) >= head["pieces"]:
            return False
        pieces[int(part)] = payload
        if sum(map(len, pieces.values())) > head["bytes"]:
            return self._end(name, Sent(name, b"", problem="its pieces are longer than it said"))
        if len(pieces) < head["pieces"]:
            return False
        model = b"".join(pieces[k] for k in range(head["pieces"]))
        return self._end(name, Sent(name, model, head["rows"]))

    def _begin(self, name: str, payload: bytes) -> bool:
        try:
            given = json.loads(payload[:1000])
            head = {key: int(given[key]) for key in ("pieces", "bytes", "rows")}
        except (ValueError, TypeError, KeyError, OverflowError):
            return self._end(name, Sent(name, b"", problem="what it began with makes no sense"))
        if not 0 < head["pieces"] <= head["bytes"]:
            why = f"it has {head['bytes']:,} bytes in {head['pieces']:,} pieces"
            return self._end(name, Sent(name, b"", problem=why))
        if head["bytes"] > self.limits.bytes:
            most = f"at most {self.limits.bytes:,} are accepted"
            return self._end(
                name, Sent(name, b"", problem=f"it has {head['bytes']:,} bytes, {most}")
            )
        if len(self.heads) >= MOST_NAMES and name not in self.heads:
            return False
        self.heads[name], self.pieces[name] = head, {}
        return False

    def _end(self, name: str, sent: Sent) -> bool:
        self.heads.pop(name, None)
        self.pieces.pop(name, None)
        if len(self.whole) < MOST_NAMES or name in self.whole:
            self.whole[name] = sent
        return True

    def take(self) -> list[Sent]:
        """All models that came since the last time; those that never became whole say so."""
        cut = [
            Sent(name, b"", problem=f"{len(self.pieces[name])} of {head['pieces']} pieces came")
            for name, head in self.heads.items()
            if name not in self.whole
        ]
        sent = [*self.whole.values(), *cut]
        self.heads, self.pieces, self.whole = {}, {}, {}
        return sent


def read_rows(path: str, target: str) -> tuple[list[list[float]], list[str]]:
    """Rows of the server's own, from a CSV file of numbers."""
    with open(path, newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    if target not in names:
        raise ValueError(f"--target {target!r} is not a column of {path}")
    k = names.index(target)
    return [[float(v) for v in row[:k] + row[k + 1 :]] for row in rows], [row[k] for row in rows]


class Aggregator:
    """The inbox on the network."""

    def __init__(self, args: argparse.Namespace) -> None:
        try:
            mqtt = importlib.import_module("paho.mqtt.client")
            versions = importlib.import_module("paho.mqtt.enums").CallbackAPIVersion
        except ImportError:
            raise ValueError("this needs paho-mqtt 2 or newer: pip install paho-mqtt") from None
        limits = Limits(bytes=args.max_model)
        rows = read_rows(args.rows, args.target) if args.rows else (None, None)
        self.args, self.inbox = args, Inbox(limits)
        self.fleet = Fleet(*rows, limits=limits, max_bytes=args.max_bytes, classes=args.classes,
                           key=Path(args.key).read_bytes() if args.key else None)  # fmt: skip
        self.client = mqtt.Client(versions.VERSION2, client_id="edgeforest_fleet")
        self.client.on_connect = lambda *_: self.client.subscribe(f"{args.topic}/+/+", qos=1)
        self.client.on_subscribe = lambda *_: self.tell([])
        self.client.on_message = self.message
        self.latest = 0.0  # when the last model became whole; 0 if there is none
        self.unsent: list[Any] = []  # what the broker has not confirmed yet
        self.stopping = False

    def message(self, _client: Any, _data: Any, message: Any) -> None:
        """Take a piece; it never raises an error."""
        name, part = message.topic.split("/")[-2:]
        if name != "joint" and self.inbox.hear(name, part, message.payload):
            self.latest = time.monotonic()

    def join(self) -> None:
        """Join what came, and publish the joint model and what became of each."""
        self.latest = 0.0
        joint = self.fleet.round(self.inbox.take())
        print(f"round {self.fleet.done}\n{joint}", flush=True)
        if joint.forest is not None:
            model = joint.forest.to_json().encode()
            rows = sum(verdict.rows or 0 for verdict in joint.verdicts if not verdict.reason)

            publish(self.send, f"{self.args.topic}/joint", model, rows)
        self.tell(
            [
                {"name": v.name, "weight": v.weight, "rejected": v.reason, "note": v.note}
                for v in joint.verdicts
            ]
        )

    def tell(self, state: list[dict[str, Any]]) -> None:
        """Publish what became of each device's model; before the first round: that we listen."""
        text = json.dumps({"round": self.fleet.done, "devices": state})
        self.send(f"{self.args.topic}/state", text.encode())

    def send(self, topic: str, payload: bytes) -> None:
        """Publish something that the broker keeps for whoever comes later."""
        self.unsent = [sent for sent in self.unsent if not sent.is_published()]
        self.unsent.append(self.client.publish(topic, payload, qos=1, retain=True))

    def run(self) -> None:
        """Listen until stopped, or for as many rounds as were asked for."""
        self.client.connect(self.args.host, self.args.port)
        while not self.stopping and self.fleet.done != self.args.rounds:
            self.client.loop(0.1)
            if not self.client.is_connected():
                time.sleep(0.5)
                self.client.reconnect()
            waited = self.latest and time.monotonic() - self.latest > self.args.wait
            if waited or len(self.inbox.whole) >= self.args.devices:
                self.join()
        while self.client.is_connected() and not all(s.is_published() for s in self.unsent):
            self.client.loop(0.1)
        self.client.disconnect()

    def stop(self, *_: Any) -> None:
        self.stopping = True


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--topic", default="fleet")
    parser.add_argument(
        "--devices", type=int, default=MOST_NAMES, help="join as soon as so many came"
    )
    parser.add_argument("--wait", type=float, default=10.0, help="seconds without a new model")
    parser.add_argument("--rounds", type=int, default=-1, help="end after so many")
    parser.add_argument("--rows", help="a CSV with rows of the server's own")
    parser.add_argument("--target", default="state", help="its column with the labels")
    parser.add_argument("--classes", nargs="+", help="the classes that devices may know")
    parser.add_argument("--key", help="a file with the key that models are signed with")
    parser.add_argument(
        "--max-model", type=int, default=200_000, help="bytes of one device's model"
    )
    parser.add_argument("--max-bytes", type=int, default=200_000, help="of the joint model")
    try:
        aggregator = Aggregator(parser.parse_args())
        signal.signal(signal.SIGTERM, aggregator.stop)
        signal.signal(signal.SIGINT, aggregator.stop)
        aggregator.run()
    except (OSError, ValueError) as error:
        print(f"mqtt_merge: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
