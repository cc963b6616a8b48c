"""What a shared library of Linux needs: its processor, libraries, symbols and their versions.

    Library(bytes).machine, .needed, .wanted, .glibc, .arm

Enough of ELF (little-endian, 32 and 64 bits) for `check_wheel.py`, so that it runs everywhere.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

MACHINES = {3: "i686", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
DYNAMIC, NEEDED, NEEDED_VERSIONS, SYMBOLS, ARM_ATTRIBUTES = 6, 1, 0x6FFFFFFE, 11, 0x70000003
# Attributes of Arm's ABI, by their numbers: the oldest processor, floating point, and how it is passed on.
ARM = {6: "processor", 10: "floats", 12: "neon", 28: "hard"}
ARM_TEXTS = (4, 5, 32, 65, 67)  # whose value is a text
V6, V7, VFP2, VFP3_D16 = 6, 10, 2, 4


class Library:
    """One shared library, given as its bytes; ValueError if it is none.

    `machine` is its processor, `needed` the libraries that it loads, `wanted` the names of what it takes
    from them, `glibc` the newest version of glibc among these (None without glibc), `arm` its attributes.
    """

    def __init__(self, data: bytes) -> None:
        if data[:4] != b"\x7fELF" or len(data) < 64 or data[5] != 1:
            raise ValueError("it is not a library of Linux")
        self.data = data
        self.wide = data[4] == 2
        try:
            self.machine = MACHINES.get(struct.unpack_from("<H", data, 18)[0], "unknown")
            self.sections = list(self._sections())
            self.needed = self._needed()
            self.wanted = self._wanted()
            self.glibc = max(self._versions(), default=None)
            self.arm = self._attributes()
        except (struct.error, IndexError):
            raise ValueError("it is cut short") from None

    def _sections(self) -> Iterator[tuple[int, int, int, int]]:
        """The type of each section, its place, its size, and the section that it refers to."""
        data = self.data
        table = struct.unpack_from("<Q" if self.wide else "<I", data, 40 if self.wide else 32)[0]
        size, count = struct.unpack_from("<HH", data, 58 if self.wide else 46)
        for place in range(table, table + size * count, size):
            kind = struct.unpack_from("<I", data, place + 4)[0]
            if self.wide:
                yield kind, *struct.unpack_from("<QQI", data, place + 24)
            else:
                yield kind, *struct.unpack_from("<III", data, place + 16)

    def _of(self, wanted: int) -> Iterator[tuple[int, int, int]]:
        """The place, the size and the place of the texts of each section of one type."""
        for kind, place, size, link in self.sections:
            if kind == wanted:
                yield place, size, self.sections[link][1]

    def _text(self, place: int) -> str:
        return self.data[place : self.data.index(b"\0", place)].decode("latin-1")

    def _needed(self) -> list[str]:
        pair = struct.Struct("<QQ" if self.wide else "<II")
        return [
            self._text(texts + value)
            for place, size, texts in self._of(DYNAMIC)
            for tag, value in pair.iter_unpack(self.data[place : place + size])
            if tag == NEEDED
        ]

    def _wanted(self) -> set[str]:
        """Names that are undefined here: they are found in other libraries."""
        form = struct.Struct("<IBBHQQ" if self.wide else "<IIIBBH")
        section = 3 if self.wide else 5
        return {
            self._text(texts + symbol[0])
            for place, size, texts in self._of(SYMBOLS)
            for symbol in form.iter_unpack(self.data[place : place + size])
            if symbol[section] == 0 and symbol[0]
        }

    def _versions(self) -> Iterator[tuple[int, ...]]:
        """Versions of glibc that symbols are taken from."""
        for place, _, texts in self._of(NEEDED_VERSIONS):
            more = True
            while more:
                _, count, _, first, step = struct.unpack_from("<HHIII", self.data, place)
                at = place + first
                for _ in range(count):
                    name, after = struct.unpack_from("<II", self.data, at + 8)
                    version = self._text(texts + name)
                    if version.startswith("GLIBC_2"):
                        yield tuple(map(int, version.removeprefix("GLIBC_").split(".")))
                    at += after
                place += step
                more = step > 0

    def _attributes(self) -> dict[str, int]:
        """What the linker found in all objects, as numbers: see ARM."""
        found: dict[str, int] = dict.fromkeys(ARM.values(), 0)
        for place, size, _ in self._of(ARM_ATTRIBUTES):
            end = place + size
            at = self.data.index(b"\0", place + 5) + 1 + 5  # after the vendor and the first size
            while at < end:
                tag, at = self._number(at)
                if tag in ARM_TEXTS:
                    if tag == 32:
                        _, at = self._number(at)
                    at = self.data.index(b"\0", at) + 1
                else:
                    value, at = self._number(at)
                    if tag in ARM:
                        found[ARM[tag]] = value
        return found

    def _number(self, at: int) -> tuple[int, int]:
        """A number of seven bits a byte, and what follows it."""
        value = shift = 0
        while True:
            byte = self.data[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at
