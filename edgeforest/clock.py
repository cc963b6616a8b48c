"""Milliseconds for a computer, by the names that MicroPython's `time` has for them."""

from time import monotonic


def ticks_ms() -> "int":
    """Milliseconds since some moment."""
    return int(monotonic() * 1000)


def ticks_diff(now: "int", then: "int") -> "int":
    """Milliseconds from then to now; a board's clock wraps around."""
    return now - then
