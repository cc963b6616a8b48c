"""Names, labels and categories: which are accepted, and how they look on a terminal.

They come from the headers and files of others. A terminal obeys some characters instead of showing
them (it may clear the screen, ring, or turn the direction of writing), so whatever is printed goes
through `visible` first.

>>> visible("temp\\x1b[2J")
'temp\\\\x1b[2J'
>>> short("x" * 80, most=10)
'xxxxxxx...'
>>> problem("temp"), problem("half \\ud800")
('', 'has half of a surrogate pair, which is not a character')
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MAX_TEXT = 1000  # characters of a name, a label or a category
MAX_LOADED = 1 << 16  # the same in a model, which may be of an older release
SHOWN = 60  # characters of one that are shown


def visible(text: str, keep: str = "") -> str:
    """The text with whatever is not printable as an escape such as \\x1b, but for those to keep."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text])


def cut(text: str, most: int = SHOWN) -> str:
    """The text, or its beginning and three dots if it is long."""
    return text if len(text) <= most else text[: most - 3] + "..."


def short(value: object, most: int = SHOWN) -> str:
    """A name, label or category as it is shown: cut if it is long, and visible."""
    return visible(cut(str(value), most))


def quoted(value: object, most: int = SHOWN) -> str:
    """The same in quotes, if it is text."""
    return repr(cut(value, most)) if isinstance(value, str) else short(value, most)


def listed(items: Iterable[object], most: int = 12) -> str:
    """Items as they are shown, with commas between them; cut where it gets long.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    return joined([short(item) for item in items], most)


def joined(texts: Sequence[str], most: int) -> str:
    """Texts with commas between them; cut where it gets long."""
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more:,} more" if more > 0 else "")


def problem(text: str, most: int = MAX_TEXT) -> str:
    """What is wrong with a name, a label or a category; nothing if it is accepted."""
    if len(text) > most:
        return f"has {len(text):,} characters, at most {most:,} are accepted"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "has half of a surrogate pair, which is not a character"
    return ""


def refuse(what: str, texts: Iterable[object], most: int = MAX_TEXT) -> None:
    """A ValueError about the first of these names, labels or categories that is not accepted."""
    for text in texts:
        if isinstance(text, str) and (wrong := problem(text, most)):
            remedy = "shorten it" if len(text) > most else "replace it"
            raise ValueError(f"{what} {quoted(text)} {wrong}; {remedy}")
