"""The CRC-32 of a model, for boards whose `binascii` has none."""

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def crc32(data: "Any", crc: "int" = 0) -> "int":
    """The usual CRC-32, in two 16-bit halves: no integer outgrows a small one on a board."""
    high, low = (crc >> 16) ^ 0xFFFF, (crc & 0xFFFF) ^ 0xFFFF
    for byte in data:
        low ^= byte
        for _ in range(8):
            odd = low & 1
            low = (low >> 1) | ((high & 1) << 15)
            high >>= 1
            if odd:
                high ^= 0xEDB8
                low ^= 0x8320
    return ((high ^ 0xFFFF) << 16) | (low ^ 0xFFFF)
