"""What sensors of a house say, as values: text, JSON, switches, times; and what was true when.

Home Assistant's states and MQTT messages (Zigbee2MQTT, Tasmota, plain values) are read alike.

>>> message = parsed(b'{"Time": "2024-05-01T12:00:00Z", "AM2301": {"Temperature": 21.3}}')
>>> found(message, "AM2301.Temperature"), moment(message), found(message, "POWER") is ABSENT
(21.3, 1714564800.0, True)
>>> number("ON"), number(True), number("21.5"), number("unavailable"), word(False), word("heat")
(1.0, 1.0, 21.5, None, 'off', 'heat')
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from datetime import UTC, datetime
from typing import Any

from edgeforest.sources.cells import parse_number

MAX_PAYLOAD = 1 << 16  # bytes of a message; a sensor sends a few hundred
MAX_WORD = 255  # characters, as in Home Assistant
MISSING = frozenset({"", "unknown", "unavailable", "none", "null", "nan", "inf", "infinity"})
SWITCHES = {"on": 1.0, "off": 0.0, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0,
            "online": 1.0, "offline": 0.0}  # fmt: skip
TIMES = ("last_seen", "Time", "timestamp", "time")  # where Zigbee2MQTT, Tasmota, others have it
ABSENT = object()  # a message does not speak of it


def parsed(payload: bytes) -> Any:
    """The JSON of a message, or its text if it is not JSON; a ValueError says why it is neither."""
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"it has {len(payload):,} bytes, at most {MAX_PAYLOAD:,} are read")
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    text = text.strip()
    try:
        return json.loads(text, parse_constant=lambda _: None)  # NaN and Infinity say nothing
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    except ValueError:
        if text[:1] in ("{", "["):
            raise ValueError("its JSON is damaged") from None
        return text


def found(message: Any, path: str) -> Any:
    """What a message has at a path such as `AM2301.Temperature`; ABSENT if it has nothing there.

    The path "" is the message itself. A name with dots in it is found, too.
    """
    if not path:
        return message
    names = path.split(".")
    for k in range(len(names), 0, -1):
        name = ".".join(names[:k])
        if isinstance(message, dict) and name in message:
            return found(message[name], ".".join(names[k:]))
    return ABSENT


def number(value: Any) -> float | None:
    """A value as a number: on is 1, off is 0, None if it is missing or another text.

    >>> number("0.5"), number("off"), number("open"), number(float("nan"))
    (0.5, 0.0, None, None)
    """
    if isinstance(value, str):
        text = value.strip().lower()
        value = SWITCHES[text] if text in SWITCHES else parse_number(text)
    if not isinstance(value, int | float):
        return None
    try:
        x = float(value)
    except OverflowError:
        return None
    return x if math.isfinite(x) else None


def word(value: Any) -> str | None:
    """A value as a category: True and ON are on, None if it is missing, or too long."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int | float):
        x = number(value)
        return None if x is None else str(int(x)) if x.is_integer() else repr(x)
    if not isinstance(value, str) or len(value) > MAX_WORD or not value.isprintable():
        return None
    lower = value.strip().lower()
    return None if lower in MISSING else lower if lower in ("on", "off") else value


def state(value: Any) -> float | str | None:
    """A value as a number if it is one, else as a category; None if it is missing.

    >>> state("21.50"), state("on"), state("unknown"), state(True), state([255, 0, 0])
    (21.5, 'on', None, 1.0, None)
    """
    if isinstance(value, str) and (value[:1].isalpha() or parse_number(value) is None):
        return word(value)
    return number(value)


def moment(message: Any) -> float | None:
    """When a message says that it was made, in seconds since 1970; None if it does not say.

    A time without a zone, such as Tasmota's, is in that of this computer.

    >>> moment({"last_seen": 1714564800000}), moment({"temperature": 21.3}), moment("on")
    (1714564800.0, None, None)
    """
    if not isinstance(message, dict):
        return None
    for name in TIMES:
        value = message.get(name)
        try:
            if isinstance(value, str):
                return datetime.fromisoformat(value).timestamp()
            if isinstance(value, int | float) and not isinstance(value, bool):
                seconds = float(value)
                seconds /= 1000 if seconds > 1e11 else 1  # such as JavaScript's milliseconds
                datetime.fromtimestamp(seconds, UTC)
                return seconds
        except (ValueError, OverflowError, OSError):
            continue
    return None


def hour_and_weekday(seconds: float) -> tuple[float, float]:
    """The hour of the day, and 0 for Monday to 6, where this computer is."""
    date = datetime.fromtimestamp(seconds)
    return date.hour + date.minute / 60 + date.second / 3600, float(date.weekday())


class LastKnown:
    """The last known value of each of some sensors, at any moment of the latest past.

    Values may come in any order. Of each sensor the latest `keep` are kept, so memory does not grow.

    >>> known = LastKnown(2, keep=100)
    >>> known.put(0, 20.5, at=10), known.put(1, "open", at=12), known.put(0, 20.0, at=8)
    (True, True, False)
    >>> known.row(9), known.row(11), known.row(12)
    ([20.0, None], [20.5, None], [20.5, 'open'])
    """

    def __init__(self, n: int, keep: int) -> None:
        self._keep = keep
        self._times: list[list[float]] = [[] for _ in range(n)]
        self._values: list[list[Any]] = [[] for _ in range(n)]
        self.begin = -math.inf  # before this moment, values may be forgotten

    def put(self, sensor: int, value: Any, at: float) -> bool:
        """Note what a sensor said at a moment; False if something later is known already."""
        times, values = self._times[sensor], self._values[sensor]
        k = bisect_right(times, at)
        times.insert(k, at)
        values.insert(k, value)
        latest = k == len(times) - 1
        if len(times) > 2 * self._keep:  # many at once: to delete the first is slow
            del times[: self._keep], values[: self._keep]
            self.begin = max(self.begin, times[0])
        return latest

    def row(self, at: float) -> list[Any]:
        """What was known at a moment: a value of each sensor, None if it had said nothing yet."""
        row: list[Any] = []
        for times, values in zip(self._times, self._values, strict=True):
            k = bisect_right(times, at)
            row.append(values[k - 1] if k else None)
        return row
