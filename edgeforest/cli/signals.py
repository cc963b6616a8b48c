"""Signals that end a training early: Ctrl-C, SIGTERM, and SIGHUP of a terminal that is closed."""

import signal
from types import FrameType
from typing import Any

NAMES = {2: "Ctrl-C", 15: "SIGTERM", 1: "SIGHUP"}


def words(number: int) -> str:
    """What a signal is called."""
    return NAMES.get(number, f"signal {number}")


class Patience:
    """Notes a signal for a look between rounds; a second one is not waited for.

    An exception in the middle of a round could leave a node half made. A signal that is ignored, as
    that of a job in the background or under nohup is, stays ignored.
    """

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Patience":
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is None or signal.getsignal(number) in (signal.SIG_IGN, None):
                continue
            try:
                self._before[number] = signal.signal(number, self._stop)
            except ValueError:  # not the main thread, which alone gets signals
                return self
        return self

    def __exit__(self, *error: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.signal = int(number)
        for other, before in self._before.items():
            signal.signal(other, before)
