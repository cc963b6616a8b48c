"""Text in C, if the kernel is there: `text` is `engines.native_text`, else None.

Sources ask it first. They read what it leaves to them, or all if it is None, in Python: the result
is the same.
"""

from typing import Any

text: Any
try:
    from edgeforest.engines import native_text as text
except Exception:  # not compiled, or damaged: `edgeforest engines` says why
    text = None
