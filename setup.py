"""The optional C kernel; all else is in pyproject.toml.

Without a compiler the install goes on without it and says so, and a wheel is named for what is in
it. EDGEFOREST_PURE=1 leaves the kernel out, for the wheel that runs everywhere.
"""

import os
import shutil
import sys
import sysconfig
from glob import glob

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

BINDING, KERNEL = "edgeforest/engines/", "firmware/kernel/"
LEFT_OUT = (
    "edgeforest: the native engine was left out ({}), and everything else works, more slowly; "
    "for it, install a C compiler and Python's headers (on Debian: apt install gcc python3-dev) "
    "and install edgeforest again from its source."
)

# Only these know the stable ABI. Where it is missing, the kernel is compiled for one version.
stable = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")

kernel = Extension(
    "edgeforest.engines._kernel",
    [*sorted(glob(BINDING + "*.c")), *sorted(glob(KERNEL + "*.c"))],
    depends=[*sorted(glob(BINDING + "*.h")), *sorted(glob(KERNEL + "*.h"))],
    define_macros=[("_POSIX_C_SOURCE", "200809L")],
    py_limited_api=stable,
    optional=True,
)
if stable:  # 3.11 is the first stable ABI that has buffers
    kernel.define_macros.append(("Py_LIMITED_API", "0x030B0000"))


class BuildKernel(build_ext):
    """Compile the kernel, or say in one sentence why it was left out."""

    def run(self):
        self.places = [".", self.build_lib] if self.inplace else [self.build_lib]
        super().run()

    def build_extension(self, ext):
        # Results agree bit for bit only if the compiler does not join or reorder operations.
        if self.compiler.compiler_type == "msvc":
            ext.extra_compile_args = ["/O2", "/fp:precise"]
        else:
            ext.extra_compile_args = ["-std=c99", "-ffp-contract=off"]
            if "-O" not in os.environ.get("CFLAGS", ""):  # who packages it may have asked for less
                ext.extra_compile_args.append("-O3")
        if os.name == "posix":
            ext.libraries = ["m"]
        try:
            super().build_extension(ext)
        except (BaseError, CCompilerError) as error:
            print(LEFT_OUT.format(self.reason(error)), file=sys.stderr, flush=True)
            for place in self.places:  # what an earlier build left there is of other sources
                path = os.path.join(place, self.get_ext_filename(ext.name))
                if os.path.exists(path):
                    os.remove(path)

    def reason(self, error):
        """What is missing, in a few words."""
        if self.compiler.compiler_type != "unix":
            return " ".join(str(error).split())
        compiler = self.compiler.compiler[0]
        if shutil.which(compiler) is None:
            return f"there is no C compiler {compiler!r}"
        header = os.path.join(sysconfig.get_path("include"), "Python.h")
        if not os.path.exists(header):
            return f"{header} is missing"
        return f"the C compiler {compiler!r} failed, see above"


class NameWheel(bdist_wheel):
    """Name the wheel for what is in it: without the kernel it runs everywhere."""

    def run(self):
        if self.distribution.has_ext_modules():
            self.run_command("build_ext")
            build = self.get_finalized_command("build_ext")
            if not os.path.exists(build.get_ext_fullpath(kernel.name)):
                self.distribution.ext_modules = []
                self.root_is_pure = True
        super().run()


pure = os.environ.get("EDGEFOREST_PURE", "") not in ("", "0")
setup(
    ext_modules=[] if pure else [kernel],
    cmdclass={"build_ext": BuildKernel, "bdist_wheel": NameWheel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if stable and not pure else {},
)
