"""A lock for threads, which a board does without.

On a board a lock would be wrong: an interrupt that waits for the program that it interrupted waits
for ever. There it is an empty one. This file runs unchanged on CPython and MicroPython.
"""

try:
    from threading import Lock as Lock
except ImportError:  # a board

    class Lock:  # type: ignore[no-redef]
        """Does nothing."""

        def __enter__(self) -> "None":
            pass

        def __exit__(self, kind: "object", error: "object", trace: "object") -> "None":
            pass
