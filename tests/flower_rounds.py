"""Rounds of Flower in one process: its own messages, apps and strategy, without its network.

`tests/test_flower.py` runs this with Flower on the path, and reads what it prints as JSON.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flwr.app import Array, ArrayRecord, Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from edgeforest.fleet.flower import client_app, packed, strategy

folder = Path(sys.argv[1])
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "fleet"))
import devices  # noqa: E402

NAMES = ("pump", "fan", "saw", "press")
APP = client_app("state", n_trees=10, max_depth=7, levels=255, key="a key of the whole fleet")


class Nodes(Grid):  # type: ignore[misc]
    """Devices that answer at once, each in its manner."""

    def __init__(self, manners: dict[str, str]) -> None:
        self.manners = manners
        self.states: dict[int, RecordDict] = {}

    @property
    def run(self) -> Any:
        return None

    def set_run(self, run_id: int) -> None:
        pass

    def create_message(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError

    def push_messages(self, messages: Any) -> Any:
        raise NotImplementedError

    def pull_messages(self, message_ids: Any) -> Any:
        raise NotImplementedError

    def get_node_ids(self) -> list[int]:
        return [10 + i for i in range(len(NAMES))]

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Any]:
        answers = [self.answer(NAMES[m.metadata.dst_node_id - 10], m) for m in messages]
        return [answer for answer in answers if answer is not None]

    def answer(self, name: str, message: Any) -> Any:
        manner = self.manners.get(name, "")
        if manner == "silent":
            return None
        if manner == "broken":
            return Message(Error(0, "out of memory"), reply_to=message)
        message.metadata.__dict__["_message_id"] = "1"
        config = {
            "name": name,
            "log": str(folder / f"{name}.csv"),
            "joint": f"{folder}/{name}.json",
        }
        node = message.metadata.dst_node_id
        state = self.states.setdefault(node, RecordDict())
        context = Context(run_id=1, node_id=node, node_config=config, state=state, run_config={})
        reply = APP(message, context)
        if manner == "liar":
            reply.content["counts"]["rows"] = 10**9
        elif manner == "empty":
            reply.content = RecordDict({})
        elif manner == "garbage":
            reply.content["forest"] = packed(b"\0" * 5000)
        elif manner == "array":  # a header of NumPy that asks for a terabyte
            array = Array("uint8", (10**12,), "numpy.ndarray", b"\x93NUMPY")
            reply.content["forest"] = ArrayRecord({"model": array})
        return reply


def rounds(server: bool, *manners: dict[str, str]) -> dict[str, Any]:
    """The accuracy after each round, and what was said of each device."""
    test, own = devices.rows_of("test"), devices.rows_of("server")
    rows = ([row[:-1] for row in own], [row[-1] for row in own]) if server else ()
    lines: list[str] = []
    joint = strategy(*rows, nodes=4, deliver=True, say=lines.append, max_bytes=90_000,
                     key="a key of the whole fleet")  # fmt: skip
    scores, verdicts = [], []
    for manner in manners:
        for name in NAMES:
            (folder / f"{name}.json").unlink(missing_ok=True)
        joint.start(Nodes(manner), joint.nothing(), num_rounds=1)
        forest = joint.joint.forest
        found = forest.predict([row[:-1] for row in test])
        scores.append(sum(a == row[-1] for a, row in zip(found, test, strict=True)) / len(test))
        verdicts.append([asdict(verdict) for verdict in joint.joint.verdicts])
    got = [folder / f"{name}.json" for name in NAMES]
    return {
        "scores": scores,
        "verdicts": verdicts,
        "lines": lines,
        "bytes": len(forest.to_json()),
        "delivered": [
            path.exists() and path.read_text().strip() == forest.to_json() for path in got
        ],
    }


TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1  # of this "server"


def again() -> list[float]:
    """The accuracy after one round, and after three."""
    test = devices.rows_of("test")
    scores = []
    for number in (1, 3):
        joint = strategy(nodes=4, say=lambda line: None, key="a key of the whole fleet")
        joint.start(Nodes({}), joint.nothing(), num_rounds=number)
        found = joint.joint.forest.predict([row[:-1] for row in test])
        scores.append(sum(a == row[-1] for a, row in zip(found, test, strict=True)) / len(test))
    return scores


devices.write(folder)
first: dict[str, str] = {}
kinds: list[dict[str, str]] = [
    first,
    {"pump": "liar", "saw": "garbage", "press": "silent"},
    {"pump": "broken", "saw": "array", "press": "empty"},
]
print(
    json.dumps(
        {"with rows": rounds(True, *kinds), "without": rounds(False, *kinds[:2]), "again": again()}
    )
)
