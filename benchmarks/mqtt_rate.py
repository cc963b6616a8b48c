"""A thousand messages a second to `mqtt_node.py`, over a restart of the broker: is any label lost?

    python -m benchmarks.mqtt_rate [--rate 1000] [--seconds 60] [--away 1]

A real mosquitto with persistence, the example as it is in a process of its own, a publisher that
waits for each PUBACK (at most 100 are under way). Every second message is a label with an id; each
must be learned exactly once. In the middle the broker is stopped, and started again after --away
seconds; the publisher goes on at its rate, and what it cannot send waits in its memory. Exits with 1 if
a label was lost or learned twice, or if the node's memory grew by more than a tenth after a quarter of the time.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.common import about

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from mqtt import Mosquitto

NODE = Path(__file__).resolve().parent.parent / "examples/raspberrypi/mqtt_node.py"

SETTINGS = """
name = "bench"
host = "127.0.0.1"
port = PORT
label = "house/label:value"
classes = ["on", "off"]
save_rows = 5000
[features]
temperature = "zigbee2mqtt/kitchen:temperature"
humidity = "zigbee2mqtt/kitchen:humidity"
co2 = "zigbee2mqtt/kitchen:co2"
lamp = "zigbee2mqtt/kitchen:state"
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=int, default=1000, help="messages a second")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--away", type=float, default=1.0, help="seconds without a broker")
    args = parser.parse_args()
    print(about("paho-mqtt"))
    with tempfile.TemporaryDirectory() as folder, Mosquitto(Path(folder)) as broker:
        text = SETTINGS.replace("PORT", str(broker.port))
        Path(folder, "node.toml").write_text(text, encoding="utf-8")
        command = [sys.executable, str(NODE), "node.toml"]
        node = subprocess.Popen(command, cwd=folder)
        client = Client(CallbackAPIVersion.VERSION2, client_id="bench")
        try:
            problems = run(broker, client, node, args)
        finally:
            client.disconnect()
            client.loop_stop()
            node.terminate()
            node.wait()
    if problems:
        sys.exit("; ".join(problems))


def run(broker: Mosquitto, client: Client, node: Any, args: argparse.Namespace) -> list[str]:
    state: dict[str, Any] = {}
    acknowledged = 0
    online = threading.Event()

    def confirmed(*_: object) -> None:
        nonlocal acknowledged
        acknowledged += 1

    def heard(_client: Any, _data: Any, message: Any) -> None:
        if message.topic.endswith("availability"):
            online.set()
        else:
            state.update(json.loads(message.payload))

    client.on_publish, client.on_message = confirmed, heard
    client.on_connect = lambda *_: client.subscribe("edgeforest/bench/#", 1)
    client.max_inflight_messages_set(100)
    client.reconnect_delay_set(1, 1)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    if not online.wait(60):
        return ["the node does not come"]
    total, memory = args.rate * args.seconds, []
    begin, restart = time.monotonic(), None
    for k in range(total):
        if k % 2:
            client.publish("house/label", json.dumps({"value": label(k), "id": k}), qos=1)
        else:
            client.publish("zigbee2mqtt/kitchen", json.dumps(reading(k)), qos=1)
        if k == total // 2:
            restart = threading.Thread(target=restarted, args=(broker, args.away))
            restart.start()
        if k % args.rate == 0:
            memory.append(resident(node.pid))
        time.sleep(max(0.0, begin + (k + 1) / args.rate - time.monotonic()))
    sent = time.monotonic() - begin
    if restart is not None:
        restart.join()
    end = time.monotonic() + 120
    while time.monotonic() < end and (acknowledged < total or state.get("learned", 0) < total // 2):
        time.sleep(0.1)
    memory.append(resident(node.pid))
    return judge(state, memory, acknowledged, total, sent, time.monotonic() - begin)


def judge(
    state: dict[str, Any],
    memory: list[int],
    acknowledged: int,
    total: int,
    sent: float,
    done: float,
) -> list[str]:
    early = memory[len(memory) // 4]
    print(f"sent          {total:,} messages in {sent:.1f} s: {total / sent:,.0f} a second")
    print(f"acknowledged  {acknowledged:,} by the broker, which was restarted once")
    print(f"learned       {state.get('learned', 0):,} of {total // 2:,} labels, {state.get('repeated', 0):,} came twice, "
          f"{state.get('garbage', 0):,} made no sense; all done after {done:.1f} s")  # fmt: skip
    print(f"accuracy      {state.get('recent_accuracy')} % of the last thousand")
    print(
        f"memory        {early:,} kB after a quarter, {max(memory):,} at most, {memory[-1]:,} at the end"
    )
    problems = []
    if state.get("learned") != total // 2:
        problems.append(f"{total // 2 - state.get('learned', 0):,} labels are missing")
    if max(memory[len(memory) // 4 :]) > 1.1 * early:
        problems.append("memory grows")
    return problems


def reading(k: int) -> dict[str, Any]:
    here = k // 40 % 3 == 0
    return {"temperature": 20 + here + k * 7 % 10 / 10, "humidity": 40 + k * 13 % 20,
            "co2": 450 + 300 * here + k * 17 % 100, "state": "ON" if here else "OFF",
            "linkquality": 80}  # fmt: skip


def label(k: int) -> str:
    return "on" if (k - 1) // 40 % 3 == 0 else "off"


def restarted(broker: Mosquitto, away: float) -> None:
    broker.stop()
    time.sleep(away)
    if not broker.start():
        print("mosquitto does not start again", file=sys.stderr)


def resident(pid: int) -> int:
    """Memory of a process in kB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


if __name__ == "__main__":
    main()
