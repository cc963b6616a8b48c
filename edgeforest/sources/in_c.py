"""What sources do in C, if the kernel is there.

    text    `engines.native_text`, else None
    kernel  random numbers of `engines._kernel`, else None

Sources ask these first. They do what is left to them, or all if it is None, in Python: the result
is the same.
"""

from typing import Any

text: Any
kernel: Any
try:
    from edgeforest.engines import _kernel as kernel
    from edgeforest.engines import native_text as text
except Exception:  # not compiled, or damaged: `edgeforest engines` says why
    text = kernel = None
