"""Numbers and system errors in words, for sentences that people read.

>>> count(1200, "row"), rounded(1234.5), file_size(64_000), duration(0.25)
('1,200 rows', '1,234', '64.0 kB', '250 ms')
"""

from array import array


def count(n: int, noun: str, nouns: str = "") -> str:
    """A number and its noun, singular or plural: 1 row, 1,200 rows."""
    return f"{n:,} {noun if n == 1 else nouns or noun + 's'}"


def rounded(value: float) -> str:
    """A number with four digits, or with all digits before the point if it is large."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def shortest(value: float) -> str:
    """The shortest text that names this float32.

    >>> shortest(array("f", [23.45])[0])
    '23.45'
    """
    for digits in range(6, 9):
        text = f"{value:.{digits}g}"
        if array("f", [float(text)])[0] == value:
            return text
    return f"{value:.9g}"


def file_size(n: int) -> str:
    """A number of bytes as bytes, kB or MB."""
    if n < 1000:
        return f"{n} bytes"
    return f"{n / 1000:,.1f} kB" if n < 1_000_000 else f"{n / 1_000_000:,.1f} MB"


def duration(seconds: float) -> str:
    """A time in seconds, or in milliseconds if it is short."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def about(n: float) -> str:
    """A large number with two digits, as the command line takes it.

    >>> about(41_700_000), about(980), about(1_960_000)
    ('42M', '980', '2M')
    """
    n = float(f"{n:.2g}")
    for letter, unit in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= unit:
            return f"{n / unit:g}{letter}"
    return f"{n:g}"


def reason(error: OSError) -> str:
    """Why the system refused a file, without the error's number and the path."""
    return (error.strerror or str(error)).lower()
