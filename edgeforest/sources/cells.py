"""What one cell of a table holds: a number, a date, other text, or nothing."""

from datetime import datetime

MISSING = frozenset(("", "NA", "N/A", "nan", "NaN", "NAN", "-nan", "null", "NULL", "None", "?"))
MAX_NUMBER = 3.4028234663852886e38  # the forest compares float32

Value = float | int | str | None


def cell(text: str) -> str | None:
    """A cell's text without the space around it, None where the value is missing."""
    text = text.strip()
    return None if text in MISSING else text


def parse_number(text: str, decimal_comma: bool = False) -> float | None:
    """The number that a cell holds, or None if it holds text.

    >>> parse_number("1.5"), parse_number("1,5", decimal_comma=True), parse_number("mild")
    (1.5, 1.5, None)
    """
    if "_" in text:  # 1_000 is a number only to Python
        return None
    if decimal_comma:
        text = text.replace(",", ".")
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == value else None


def is_date(text: str) -> bool:
    """Whether a text is a date in the format of ISO 8601."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return not text.isdigit()
