"""The optional C kernel; all else is in pyproject.toml.

Without a compiler the install goes on without it, and says so. EDGEFOREST_PURE=1 leaves it out,
for the wheel that runs everywhere.
"""

import os
import sys

from setuptools import Extension, setup

KERNEL = "firmware/kernel/"
OPTIONS = ["/O2"] if sys.platform == "win32" else ["-std=c99", "-O3", "-ffp-contract=off"]

kernel = Extension(
    "edgeforest._kernel",
    ["edgeforest/_kernel.c", *(f"{KERNEL}{part}.c" for part in ("data", "race", "grow", "predict"))],
    depends=[KERNEL + "edgeforest.h", KERNEL + "internal.h"],
    define_macros=[("Py_LIMITED_API", "0x030B0000"), ("_POSIX_C_SOURCE", "200809L")],
    extra_compile_args=OPTIONS,
    py_limited_api=True,
    optional=True,
)

pure = os.environ.get("EDGEFOREST_PURE") == "1"
setup(
    ext_modules=[] if pure else [kernel],
    options={} if pure else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
