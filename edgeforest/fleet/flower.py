"""With Flower: an app for devices that sends a forest instead of rows, and a strategy that joins them.

    # client_app.py, on each device                   # server_app.py
    from edgeforest.fleet.flower import client_app    from edgeforest.fleet.flower import strategy
    app = client_app("state", n_trees=20)             joint = strategy(X, y, max_bytes=200_000)
                                                      joint.start(grid, joint.nothing())

`examples/fleet/` has both as files, and a program that starts them. It needs `edgeforest[fleet]`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from edgeforest.fleet.joining import Fleet, Joint, Sent, Verdict, read
from edgeforest.forest import Forest
from edgeforest.forests.merging import merge
from edgeforest.host.names import short
from edgeforest.scores.evaluation import truth_reader
from edgeforest.sources import open_source
from edgeforest.sources.base import Source
from edgeforest.sources.features import Features
from edgeforest.sources.training import train_source
from edgeforest.sources.views import Only

KIND = "edgeforest.model"  # how the bytes of an array are to be read: as a model, by nothing else
TIMES = 4  # how often a row counts that the joint forest gets wrong: see benchmarks/fleet.py
PAUSE = 0.2  # seconds between two looks for devices


def _flower(module: str) -> Any:
    """A module of Flower, which most who use forests do not have."""
    try:
        return import_module(f"flwr.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "flwr":
            raise
        raise ImportError(
            "this needs Flower 1.41 or newer: pip install 'edgeforest[fleet]'"
        ) from None


def packed(model: bytes) -> Any:
    """The record of Flower that holds a model: its bytes as they are, as an array of uint8."""
    app = _flower("app")
    return app.ArrayRecord({"model": app.Array("uint8", (len(model),), KIND, model)})


def unpacked(record: Any) -> bytes:
    """The model in a record of Flower; a ValueError if there is none. NumPy never sees it."""
    try:
        array = record["model"]
        kind, data = array.stype, array.data
    except (AttributeError, KeyError, TypeError):
        raise ValueError("it sent no model") from None
    if kind != KIND or not isinstance(data, bytes):
        raise ValueError(f"it sent {short(kind, 40)} instead of a model")
    return data


def client_app(
    target: str,
    source: Any = None,
    *,
    levels: int | None = None,
    key: str | bytes | None = None,
    **options: Any,
) -> Any:
    """A ClientApp that trains on the device's own rows and sends the forest and its counts alone.

    `source` is whatever `open_source` takes; by default it is the path that the device has as `log`
    in its node config. `options` are those of `train_source`, a budget among them: the server has
    no say in what the device spends. With `levels` leaves have at most so many votes (see `shrink`),
    with a `key` models are signed. From the second round on the device grows more trees, for which
    the rows that the joint forest gets wrong count four times. If the node config has `joint`, each joint model that the
    server sends is written to that path.
    """
    clientapp, flower = _flower("clientapp"), _flower("app")
    app = clientapp.ClientApp()

    def reply(message: Any, **records: Any) -> Any:
        return flower.Message(content=flower.RecordDict(records), reply_to=message)

    @app.train()  # type: ignore[untyped-decorator, unused-ignore]
    def train(message: Any, context: Any) -> Any:
        log = open_source(context.node_config["log"] if source is None else source)
        number = int(message.metadata.group_id or 1)  # of the round
        joint = _joint_in(message)
        rows = log if joint is None else harder(log, target, joint)
        seed = options.get("seed", 0) + number - 1
        forest = train_source(rows, target, **{**options, "seed": seed})
        if joint is not None and "own" in context.state:
            forest = merge([read(unpacked(context.state["own"])), forest])
        context.state["own"] = packed(forest.to_json().encode())
        model = _sealed(forest, levels, key)
        counts = {"rows": len(log), "trees": len(forest), "insertions": forest.spent.insertions}
        about = flower.ConfigRecord({"name": str(context.node_config.get("name", ""))})
        return reply(message, forest=packed(model), counts=flower.MetricRecord(counts), about=about)

    @app.evaluate()  # type: ignore[untyped-decorator, unused-ignore]
    def evaluate(message: Any, context: Any) -> Any:
        joint = read(unpacked(message.content["forest"]))
        path = context.node_config.get("joint")
        if path:
            joint.save(path)
        return reply(message, counts=flower.MetricRecord({"trees": len(joint)}))

    return app


def _joint_in(message: Any) -> Forest | None:
    """The joint forest that a message brings, if it brings one."""
    if "forest" not in message.content or "model" not in message.content["forest"]:
        return None
    return read(unpacked(message.content["forest"]))


def harder(log: Source, target: str, joint: Forest) -> Source:
    """The rows of a log, those that a forest gets wrong so many times as others: `TIMES`.

    >>> from edgeforest import train
    >>> from edgeforest.sources import Table
    >>> table = Table({"a": list(range(40)), "b": ["low", "high"] * 20})
    >>> forest = train([[a] for a in range(40)], ["low"] * 30 + ["high"] * 10, names=["a"])
    >>> len(harder(table, "b", forest))  # it is wrong about 20 of them
    100
    """
    if joint.classes is None:
        return log
    truths_of = truth_reader(joint, log, target)
    wrong: list[int] = []
    for block in Features(joint, log):
        found = joint.predict(block.features) if block.features else []
        told = zip(block.rows, found, truths_of(block), strict=True)
        wrong += [row for row, answer, truth in told if truth is not None and answer != truth]
    return Only(log, sorted([*range(len(log)), *wrong * (TIMES - 1)]))


def _sealed(forest: Forest, levels: int | None, key: str | bytes | None) -> bytes:
    """The text of a model as it is sent."""
    if levels is not None:
        forest = import_module("edgeforest.export.shrinking").shrink(forest, levels=levels)[0]
    text = forest.to_json()
    if key is not None:
        text = import_module("edgeforest.export.signing").sign(text, key)
    return text.encode()


def strategy(
    X: Any = None,
    y: Any = None,
    *,
    nodes: int = 1,
    patience: float = 60.0,
    deliver: bool = False,
    say: Callable[[str], None] | None = None,
    **options: Any,
) -> Any:
    """A Strategy of Flower that joins the forests of devices: see `join` and `Fleet`.

    It waits up to `patience` seconds for that many `nodes`, and then works with those that are
    there. `start(timeout=...)` is how long a device may take. With `deliver` the joint model is sent
    to the devices after each round. `say` gets a line for each device (default: Flower's log).
    """
    base = _flower("serverapp.strategy").Strategy
    made = type("ForestStrategy", (Joining, base), {})
    return made(Fleet(X, y, **options), nodes, patience, deliver, say)


class Joining:
    """What `strategy` adds to Flower's Strategy."""

    def __init__(
        self,
        fleet: Fleet,
        nodes: int,
        patience: float,
        deliver: bool,
        say: Callable[[str], None] | None,
    ) -> None:
        self.fleet, self.nodes, self.patience, self.deliver = fleet, nodes, patience, deliver
        self.say: Callable[[str], None] = say or self._log
        self.joint: Joint | None = None  # that of the last round
        self.names: dict[str, str] = {}  # what devices call themselves: for people alone
        self._asked: list[str] = []

    @staticmethod
    def _log(line: str) -> None:
        logging.getLogger("flwr").info(line)

    def nothing(self) -> Any:
        """What to give `start` as the first arrays: there is no forest yet."""
        return _flower("app").ArrayRecord()

    def summary(self) -> None:
        """Say what will be done."""
        have = "with rows of its own" if self.fleet.y is not None else "without rows of its own"
        self.say(f"joining forests, a server {have}")

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """Ask every device for a forest; from the second round on it gets the joint one."""
        end = time.monotonic() + self.patience
        while len(found := sorted(grid.get_node_ids())) < self.nodes and time.monotonic() < end:
            time.sleep(PAUSE)
        self._asked = [str(node) for node in found]
        return self._messages("train", found, server_round, config=config, forest=arrays)

    def _messages(self, kind: str, nodes: list[int], number: int, **records: Any) -> list[Any]:
        flower = _flower("app")
        return [
            flower.Message(
                content=flower.RecordDict(records),
                message_type=kind,
                dst_node_id=node,
                group_id=str(number),
            )
            for node in nodes
        ]

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        """Join what came; whatever is wrong with a reply is a line, and never an error."""
        sent = [self._read(reply) for reply in replies]
        joint = self.joint = self.fleet.round(sent)
        told = {verdict.name for verdict in joint.verdicts}
        joint.verdicts += [
            Verdict(name, 0, reason="it is silent") for name in self._asked if name not in told
        ]
        for verdict in joint.verdicts:
            name = self.names.get(verdict.name)
            self.say(str(verdict) if not name else f"{name:8} {verdict}")
        if joint.forest is None:
            self.say(f"round {server_round}: there is no forest to join")
            return None, None
        model = joint.forest.to_json().encode()
        counts = {"accepted": len(joint.accepted), "rejected": len(joint.rejected)}
        metrics = _flower("app").MetricRecord(
            {**counts, "trees": len(joint.forest), "bytes": len(model)}
        )
        return packed(model), metrics

    def _read(self, reply: Any) -> Sent:
        """What a reply says, as far as it can be read: the node's number is Flower's, not its own."""
        name = str(reply.metadata.src_node_id)
        if reply.has_error():
            return Sent(name, b"", problem=f"its app failed ({short(reply.error.reason, 80)})")
        try:
            content = reply.content
            self.names[name] = short(content["about"]["name"], 20) if "about" in content else ""
            counts = content["counts"] if "counts" in content else {}
            return Sent(name, unpacked(content["forest"]), counts.get("rows"))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            why = str(error) if type(error) is ValueError else "it sent no model"
            return Sent(name, b"", problem=why)

    def configure_evaluate(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """Send the joint model to the devices, if that is asked for."""
        if not self.deliver or self.joint is None or self.joint.forest is None:
            return []
        return self._messages("evaluate", sorted(grid.get_node_ids()), server_round, forest=arrays)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Any]) -> Any:
        """How many devices have the joint model now."""
        if not self.deliver:
            return None
        got = sum(not reply.has_error() for reply in replies)
        return _flower("app").MetricRecord({"delivered": got})
