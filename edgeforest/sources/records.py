"""Where the records of a text begin and end: lines, unless quotes hold the line end.

>>> records = Records(quote=b'"', opens=b",", comment=b"#")
>>> records.split(b'1,2\\n\\n# a comment\\n3,"four\\nfive"\\n')
[b'1,2', b'3,"four\\nfive"']
"""

from __future__ import annotations

import re
from itertools import accumulate, compress

import edgeforest.sources.in_c as in_c

# Python before 3.11.5 (Debian 12 has 3.11.2) goes on in a wrong place when a possessive group fails
# half way.
RESTORES = re.fullmatch(rb"(?:ax*b)*+aa", b"aa") is not None


OPEN, BROKEN = 1, 2  # of `in_c.text.quotes`: a quote is open at the end, or where a line ends


class Records:
    """Splits text into records. Blank lines are not records, nor are lines of comment.

    `blank` are the bytes that a blank line may hold. A `quote` opens a text at the start of a line
    or after `opens`, with `spaced` also after spaces. A quote inside the text is written with
    `escape` before it, or twice if there is no `escape`. Without `quote` each line is a record.
    """

    def __init__(
        self,
        *,
        blank: bytes = b" \t",
        quote: bytes = b"",
        opens: bytes = b"",
        escape: bytes = b"",
        comment: bytes = b"",
        spaced: bool = False,
    ) -> None:
        self.blank, self.comment = blank, comment
        self.quote, self.opens, self.escape = quote, opens, escape
        self.spaced = spaced
        note, gap = re.escape(comment), re.escape(blank)
        self.suspect = re.compile(rb"\n(?:[\n\r%s]%s)" % (gap, note and b"|" + note))
        self.first_sign = re.compile(rb"\n[%s]*+(?!%s)[^%s\n\r]" % (gap, note or b"\n", gap))
        if quote:
            self._make_patterns(gap, note)

    def options(self) -> tuple[bytes | bool, ...]:
        """All that the split depends on."""
        return self.blank, self.quote, self.opens, self.escape, self.comment, self.spaced

    def _make_patterns(self, gap: bytes, note: bytes) -> None:
        """Make the patterns that find quoted texts of more than one line."""
        parts = {
            b"Q": re.escape(self.quote),
            b"SEP": re.escape(self.opens),
            b"OPEN": rb"[%s\n\r]" % re.escape(self.opens),
            b"BODY": re.escape(self.quote + self.escape),  # [^BODY] is a part of any text
            b"INNER": re.escape(self.quote) * 2,  # so is this
            b"WIDE": re.escape(self.quote) * 2,  # or this, with line ends
            b"NOTE": rb"[%s]*+%s[^\n\r]*+" % (gap, note) if note else rb"(?!)",
            b"MANY": b"*+" if RESTORES else b"*",  # the same here, where nothing after it can fail
            b"MAYBE": b"?+" if RESTORES else b"?",
        }
        if self.escape:
            parts[b"OPEN"] = rb"[^%s]%s" % (re.escape(self.escape), re.escape(self.opens))
            parts[b"INNER"] = re.escape(self.escape) + rb"[^\n\r]"
            parts[b"WIDE"] = re.escape(self.escape) + rb"(?:.|\Z)"

        def pattern(text: bytes) -> re.Pattern[bytes]:
            whole = re.sub(rb"[A-Z]{2,}|_?Q", lambda name: parts[name.group().lstrip(b"_")], text)
            return re.compile(whole, re.DOTALL)

        # Text without a quoted line end, then a quoted text that has one, or none at the end.
        line = rb"[^BODY\n\r]*+(?:INNER[^BODY\n\r]*+)*+Q"
        wide = rb"(Q[^BODY]*+(?:WIDE[^BODY]*+)*+(?:(Q)|\Z))"
        self.fast = pattern(
            rb"[^Q]*+(?:Q(?:(?<=OPEN_Q)%s|(?<!OPEN_Q))[^Q]*+)MANY(?:%s)MAYBE" % (line, wide)
        )
        # The same where comments may hold quotes, or spaces may stand before one.
        if self.spaced:
            self.full = pattern(
                rb"[^SEP\n\r]*+(?:[\n\r]NOTE|OPEN *+(?:Q%s|(?!Q))[^SEP\n\r]*+)MANY(?:OPEN *+%s)MAYBE"
                % (line, wide)
            )
        else:
            self.full = pattern(
                rb"(?:[^Q\n\r]++|[\n\r](?:NOTE)MAYBE|Q(?:(?<=OPEN_Q)%s|(?<!OPEN_Q)))MANY(?:%s)MAYBE"
                % (line, wide)
            )

    def mask(self, block: bytes) -> tuple[bytes, bool]:
        """The block with line ends in quotes hidden, and whether a quote is open at its end.

        The block must begin with a record. It keeps its length.
        """
        if not self.quote or self.quote not in block:
            return block, False
        if (
            in_c.text is not None
            and not self.escape
            and not (self.comment and self.comment in block)
        ):
            state = in_c.text.quotes(block, self.quote[0], self.opens[0], self.spaced)
            if state < BROKEN:
                return block, state == OPEN
        full = (self.spaced and b" " + self.quote in block) or (
            self.comment and self.comment in block
        )
        text = b"\n" + block
        masked: bytearray | None = None
        closed = True
        for found in (self.full if full else self.fast).finditer(text):
            start, end = found.span(1)
            if end < 0:
                break
            if masked is None:
                masked = bytearray(text)
            masked[start:end] = b"x" * (end - start)
            closed = found.group(2) is not None
        return (block, False) if masked is None else (bytes(masked[1:]), not closed)

    def content(self, lines: list[bytes]) -> list[bytes]:
        """What makes each line a record; empty for a blank line or a comment."""
        blank, comment = self.blank, self.comment
        found = [line.strip(blank) for line in lines]
        if comment:
            return [b"" if line.startswith(comment) else line for line in found]
        return found

    def split(self, chunk: bytes) -> list[bytes]:
        """The records of a chunk that begins with one."""
        masked, _ = self.mask(chunk)
        lines = masked.splitlines()
        content = self.content(lines)
        if masked is chunk:
            return list(compress(lines, content))
        starts = accumulate(map(len, masked.splitlines(keepends=True)), initial=0)
        found = zip(starts, lines, content, strict=False)
        return [chunk[start : start + len(line)] for start, line, inside in found if inside]

    def line_numbers(self, chunk: bytes, first: int) -> list[int]:
        """The line at which each record of a chunk begins, if the chunk begins at line `first`."""
        masked, _ = self.mask(chunk)
        whole = masked.splitlines(keepends=True)
        starts = accumulate(map(len, whole), initial=0)
        ends = [
            line_ends(chunk[at : at + len(line)]) for at, line in zip(starts, whole, strict=False)
        ]
        lines = accumulate(ends, initial=first)
        return list(compress(lines, self.content(masked.splitlines())))


def line_ends(text: bytes) -> int:
    """How many lines end in a text: by \\n, \\r\\n or \\r."""
    ends = text.count(b"\n")
    if b"\r" in text:
        ends += text.count(b"\r") - text.count(b"\r\n")
    return ends
