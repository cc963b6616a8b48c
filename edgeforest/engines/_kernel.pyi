"""The functions of the C kernel: see `_kernel.c`, which checks every argument."""

from typing import Any

def __getattr__(name: str) -> Any: ...
