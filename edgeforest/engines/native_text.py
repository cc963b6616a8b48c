"""Text of tables in C: `cells`, `quotes` and `marks` of the kernel, for `edgeforest.sources`.

What is not plain is left to Python: see `_text.h` and, for the functions, `_kernel.pyi`.
"""

from edgeforest.engines import _kernel
from edgeforest.engines import native_reader as native_reader  # refuses a kernel of other sources

cells = _kernel.cells
quotes = _kernel.quotes
marks = _kernel.marks
