"""A small MQTT broker for tests, the client that boards install as `umqtt.simple`, and mosquitto.

The client is our own, with the calls of that library that the example uses. Both speak MQTT 3.1.1:
the broker reads every packet to its last byte, and notes what was published.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

CLIENT = """
import socket
import struct


class MQTTClient:
    def __init__(self, client_id, server, port=0):
        self.client_id = client_id
        self.address = server, port or 1883
        self.sock = None

    def connect(self, clean_session=True, timeout=None):
        if self.sock:
            self.sock.close()
        self.sock = socket.socket()
        self.sock.settimeout(timeout)
        self.sock.connect(socket.getaddrinfo(*self.address)[0][-1])
        head = b"\\x00\\x04MQTT\\x04" + bytes([2 if clean_session else 0]) + b"\\x00\\x00"
        self.send(0x10, head + struct.pack("!H", len(self.client_id)) + self.client_id)
        answer = self.sock.recv(4)
        assert answer[:2] == b"\\x20\\x02", answer
        if answer[3]:
            raise Exception(answer[3])

    def publish(self, topic, msg, retain=False, qos=0):
        assert qos == 0 and len(topic) + len(msg) < 126
        self.send(0x31 if retain else 0x30, struct.pack("!H", len(topic)) + topic + msg)

    def send(self, kind, packet):
        self.sock.send(bytes([kind, len(packet)]) + packet)
"""


class Broker:
    """A broker at a port of this machine, for a `with`.

    `manner` is how it behaves: "kind"; "silent", which accepts connections and never answers;
    "strict", which lets nobody in; "fickle", which hangs up after two messages.
    """

    def __init__(self, manner: str = "kind") -> None:
        self.manner = manner
        self.published: list[tuple[str, str, bool]] = []  # topic, text, whether it is retained
        self.clients: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._over = False
        self._wrong: list[AssertionError] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for what clients have sent: they have ended by now."""
        self._over = True
        socket.create_connection(("127.0.0.1", self.port)).close()  # ends `accept`
        for thread in self._threads:
            thread.join()
        self._socket.close()
        assert not self._wrong, self._wrong

    def _accept(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            if self._over:
                connection.close()
                return
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        messages = 0
        try:
            with suppress(OSError), connection, connection.makefile("rb") as stream:
                while (head := stream.read(1)) and (self.manner, messages) != ("fickle", 2):
                    packet = stream.read(_length(stream))
                    if head == b"\x10":
                        self._greet(connection, packet)
                    else:
                        assert head in (b"\x30", b"\x31"), (head, packet)
                        messages += 1
                        (size,) = struct.unpack_from("!H", packet)
                        topic, text = packet[2 : 2 + size].decode(), packet[2 + size :].decode()
                        self.published.append((topic, text, head == b"\x31"))
        except AssertionError as error:
            self._wrong.append(error)

    def _greet(self, connection: socket.socket, packet: bytes) -> None:
        assert packet[:7] == b"\0\4MQTT\4", packet
        (size,) = struct.unpack_from("!H", packet, 10)
        assert len(packet) == 12 + size, packet
        self.clients.append(packet[12:].decode())
        if self.manner != "silent":
            connection.sendall(b"\x20\x02\x00" + (b"\5" if self.manner == "strict" else b"\0"))


def _length(stream: IO[bytes]) -> int:
    """The length of a packet: seven bits a byte, the lowest first."""
    length = shift = 0
    while True:
        (byte,) = stream.read(1)
        length |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return length


ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 120.0  # seconds, only for what hangs


def find_mosquitto() -> str | None:
    """The command of the real broker: the named one, ours, or the system's."""
    named = os.environ.get("EDGEFOREST_MOSQUITTO")
    ours = str(ROOT / ".runtimes" / "mosquitto" / "mosquitto")
    choice = [named] if named else [ours, "mosquitto", "/usr/sbin/mosquitto"]
    return next(filter(None, map(shutil.which, choice)), None)


class Mosquitto:
    """A real broker at a port of this machine, for a `with`; it remembers all over a restart."""

    def __init__(self, folder: Path) -> None:
        command = find_mosquitto()
        assert command is not None, "there is no mosquitto here: run `make runtimes`"
        self._command, self._folder = command, folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Mosquitto:
        for _ in range(5):  # somebody else may take the port first
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.port = free.getsockname()[1]
            (self._folder / "mosquitto.conf").write_text(
                f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
                f"persistence_location {self._folder}/\nmax_queued_messages 0\nlog_dest none\n"
                + ("user root\n" if hasattr(os, "getuid") and os.getuid() == 0 else "")
            )
            if self.start():
                return self
        raise AssertionError("mosquitto does not start")

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> bool:
        """Start it, and wait until it listens; whether it does."""
        self._process = subprocess.Popen(
            [self._command, "-c", str(self._folder / "mosquitto.conf")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return True
            time.sleep(0.02)
        self.stop()
        return False

    def stop(self) -> None:
        """End it politely, so that it writes down what it holds."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


class Observer:
    """A client that publishes with QoS 1, and notes what comes."""

    def __init__(self, port: int, *topics: str) -> None:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        self.seen: dict[str, list[str]] = {}
        self.changed = threading.Condition()
        self.client = Client(CallbackAPIVersion.VERSION2, client_id="observer", clean_session=False)
        self.client.reconnect_delay_set(1, 1)
        self.client.on_message = self._note
        self.client.on_connect = lambda *_: self.client.subscribe([(name, 1) for name in topics])
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def _note(self, _client: Any, _data: Any, message: Any) -> None:
        with self.changed:
            self.seen.setdefault(message.topic, []).append(message.payload.decode())
            self.changed.notify_all()

    def say(self, topic: str, payload: Any, retain: bool = False) -> Any:
        text = payload if isinstance(payload, bytes | str) else json.dumps(payload)
        return self.client.publish(topic, text, qos=1, retain=retain)

    def wait(self, topic: str, wanted: Callable[[str], bool]) -> str:
        """Wait for a message like this, also among those that came before."""
        with self.changed:
            done = self.changed.wait_for(
                lambda: any(map(wanted, self.seen.get(topic, ()))), PATIENCE
            )
            assert done, (topic, self.seen.get(topic, [])[-1:])
            return next(filter(wanted, reversed(self.seen[topic])))

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()
