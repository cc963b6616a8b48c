"""Converters of argument texts: 10M, 64MB, 1,2.5, a share, names of columns.

>>> amount("1.5M"), bytes_of("64MB"), seconds("0.5"), column_names("time, co2")
(1500000, 64000000, 0.5, ['time', 'co2'])
"""

import argparse
import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

UNITS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}
SUFFIXES = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3}


def quantity(text: str) -> Decimal:
    """A number that may end in k, M or G."""
    match = re.fullmatch(r"(\d+\.?\d*(?:e\d{1,2})?|\.\d+)([kMG]?)", text, re.ASCII)
    if not match:
        raise ArgumentTypeError(f"must be a number such as 500k, 2M or 1.5M, got {text!r}")
    return Decimal(match[1]) * SUFFIXES[match[2]]


def amount(text: str) -> int:
    """A whole number of at least 1 that may end in k, M or G."""
    value = quantity(text)
    if value != int(value) or value < 1:
        raise ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(value)


def amount_or_zero(text: str) -> int:
    """A whole number of at least 0 that may end in k, M or G."""
    return 0 if text == "0" else amount(text)


def bytes_of(text: str) -> int:
    """A number of bytes: 64M and 64MB are 64,000,000, 64MiB is 64 * 1024 * 1024."""
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+) ?([kmg]?)(i?b)?", text, re.ASCII | re.IGNORECASE)
    if not match or (match[3] in ("ib", "iB", "Ib", "IB") and not match[2]):
        try:
            return amount(text)
        except ArgumentTypeError:
            raise ArgumentTypeError(
                f"must be a size such as 64MB, 1.5GB or 512kB, got {text!r}"
            ) from None
    letter, unit = match[2].lower(), (match[3] or "").lower()
    each = Decimal(1024 if unit == "ib" else 1000) ** ("kmg".index(letter) + 1 if letter else 0)
    value = Decimal(match[1]) * each
    if value != int(value) or value < 1:
        raise ArgumentTypeError(f"must be whole bytes, at least 1, got {text!r}")
    return int(value)


def seconds(text: str) -> float:
    """A number of at least 0.001 that may end in k, M or G, or in s, min, h or d.

    >>> seconds("30s"), seconds("1.5h")
    (30.0, 5400.0)
    """
    match = re.fullmatch(r"([\d.]+) ?(ms|s|min|h|d)", text)
    try:
        value = float(quantity(match[1] if match else text))
    except ArgumentTypeError:
        raise ArgumentTypeError(f"must be a time such as 30s, 10min or 2h, got {text!r}") from None
    value *= UNITS[match[2]] if match else 1
    if value < 0.001:
        raise ArgumentTypeError(f"must be at least 0.001, got {text!r}")
    return value


def deadline(text: str) -> float:
    """A point in time, in seconds since 1970: what the clock shows next, a date, or such as 30s."""
    now = datetime.now()
    try:
        if re.fullmatch(r"[\d.]+ ?(ms|s|min|h|d)", text):
            when = now + timedelta(seconds=seconds(text))
        elif re.fullmatch(r"\d\d?:\d\d(:\d\d)?", text):
            when = datetime.combine(now, datetime.strptime(text[:5].zfill(5), "%H:%M").time())
            if len(text) > 5:
                when = datetime.combine(now, datetime.strptime(text.zfill(8), "%H:%M:%S").time())
            if when <= now:
                when += timedelta(days=1)
        else:
            when = datetime.fromisoformat(text)
        return when.timestamp()
    except (ValueError, OverflowError):
        raise ArgumentTypeError(
            f"must be a time such as 07:00, 2024-05-01T07:00 or 30min, got {text!r}"
        ) from None


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """A converter of whole numbers from low to high."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise ArgumentTypeError(
                f"must be a whole number from {low:,} to {high:,}, got {text!r}"
            )
        return value

    return convert


def row_scale(text: str) -> float | str:
    """A factor for rows of whole numbers, or auto."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise ArgumentTypeError(f"must be a number such as 10, or auto, got {text!r}") from None


def jobs(text: str) -> int:
    """A number of threads, -1 for every core."""
    if text == "-1":
        return -1
    try:
        return whole_number(1, 1024)(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error} (-1 stands for every core)") from None


def part(text: str) -> int | float:
    """A whole number of at least 1, or a share above 0 and at most 1, with a point."""
    try:
        value = float(text) if "." in text else int(text)
    except ValueError:
        value = 0
    if not 0 < value or (isinstance(value, float) and value > 1):
        raise ArgumentTypeError(f"must be a whole number, or a share such as 0.5, got {text!r}")
    return value


def coverage(text: str) -> float:
    """A share from 0.5 to 0.99."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.5 <= value <= 0.99:
        raise ArgumentTypeError(f"must be from 0.5 to 0.99, got {text!r}")
    return value


def weights(text: str) -> list[float]:
    """Numbers of at least 0 with commas between them."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = [-1.0]
    if not all(0 <= value < float("inf") for value in values):
        raise ArgumentTypeError(f"must be numbers such as 1,2.5 or 0,1, got {text!r}")
    return values


def column_names(text: str) -> list[str]:
    """Names of columns with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def date_columns(text: str) -> dict[str, str | None]:
    """Names of columns with commas between them, and the format of their dates after an =."""
    columns, sign, form = text.partition("=")
    found: dict[str, str | None] = dict.fromkeys(column_names(columns), form if sign else None)
    if not found or (sign and not form):
        raise ArgumentTypeError(f"must be columns such as time,seen or time=%d.%m.%Y, got {text!r}")
    return found


class Update(argparse.Action):
    """Add a dict to those that the option was given before."""

    def __call__(self, parser: Any, args: Any, values: Any, option: Any = None) -> None:
        setattr(args, self.dest, {**getattr(args, self.dest), **values})
