"""Build the wheels for small computers into dist/, all of them on this machine.

    python tools/get_runtimes.py zig        # once: the C compiler
    python tools/make_wheels.py             # all targets; or the tags of those that are wanted

`setup.py` builds each, with Zig's C compiler in place of the system's. The kernel keeps to Python's
stable ABI, so the headers of the Python that runs this fit every processor, but for the sizes in
pyconfig.h: HEADER corrects them. Exit codes: 0 all is well, 1 something is not (stderr says what).
"""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from check_wheel import Refused, check

ROOT = Path(__file__).resolve().parent.parent
ZIG = ROOT / ".runtimes" / "zig"


@dataclass(frozen=True)
class Target:
    """One platform: the tag of its wheel, and what Zig calls it."""

    tag: str
    triple: str
    processor: str = ""  # by default the oldest one of the architecture

    @property
    def flags(self) -> list[str]:
        """What Zig's compiler is told."""
        return ["-target", self.triple, *([f"-mcpu={self.processor}"] if self.processor else [])]


# No manylinux is defined for ARMv6: Raspberry Pi OS on a Pi Zero takes wheels with its plain name.
PI_ZERO, PI_2 = "arm1176jzf_s", "generic+v7a+vfp3d16-neon"
TARGETS = (
    Target("manylinux_2_28_x86_64", "x86_64-linux-gnu.2.28"),
    Target("manylinux_2_28_aarch64", "aarch64-linux-gnu.2.28"),
    Target("manylinux_2_28_armv7l", "arm-linux-gnueabihf.2.28", PI_2),
    Target("linux_armv6l", "arm-linux-gnueabihf.2.28", PI_ZERO),
    Target("musllinux_1_2_x86_64", "x86_64-linux-musl"),
    Target("musllinux_1_2_aarch64", "aarch64-linux-musl"),
    Target("musllinux_1_2_armv7l", "arm-linux-musleabihf", PI_2),
    Target("musllinux_1_2_armv6l", "arm-linux-musleabihf", PI_ZERO),
)

# On 32-bit Arm, Zig links helpers for 64-bit numbers that come with a logarithm of their own. It differs
# from the system's in the last bit, and so would a forest from that of another engine. These names
# are not in Zig's, and give the system's: an alias in glibc, the complex logarithm in musl.
HEADER = """\
#include <pyconfig.h>
#undef SIZEOF_LONG
#undef SIZEOF_SIZE_T
#undef SIZEOF_VOID_P
#undef SIZEOF_WCHAR_T
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_SIZE_T __SIZEOF_SIZE_T__
#define SIZEOF_VOID_P __SIZEOF_POINTER__
#define SIZEOF_WCHAR_T __SIZEOF_WCHAR_T__
#ifdef __arm__
#include <math.h>
#ifdef __GLIBC__
#define log(x) logf64(x)
#else
#include <complex.h>
#define log(x) creal(clog(x))
#endif
#endif
"""
# Flags of the Python that runs this may be those of a compiler that is not Zig's.
COMPILER = """\
#!{python}
import os, sys
given = [a for a in sys.argv[1:] if not a.startswith(("-specs", "-flto", "-fcf-", "-march", "-mtune"))]
os.execv({zig!r}, [{zig!r}, "cc", *{flags!r}, *given])
"""
BUILD = "import sys; from setuptools import build_meta as b; b.build_wheel(sys.argv[1], {'--build-option': ['--plat-name', sys.argv[2]]})"


def copy_sources(folder: Path) -> Path:
    """A copy of what a wheel is made of: nothing of an earlier build, and none of this one left here."""
    skip = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "*.egg-info")
    for name in ("edgeforest", "export", "firmware/kernel"):
        shutil.copytree(ROOT / name, folder / name, ignore=skip)
    for name in ("LICENSE", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy2(ROOT / name, folder)
    return folder


def build(target: Target, out: Path, optimise: str = "-O3") -> Path:
    """Build one wheel into a folder, look inside, and return its path."""
    zig = ZIG / "ziglang" / "zig"
    if not zig.is_file():
        raise Refused("there is no Zig here; get it: python tools/get_runtimes.py zig")
    with tempfile.TemporaryDirectory() as scratch:
        tree = copy_sources(Path(scratch, "tree"))
        (tree / "cross.h").write_text(HEADER, encoding="utf-8")
        compiler = tree / "cc"
        flags = [*target.flags, "-g0", "-Wno-unused-command-line-argument"]
        compiler.write_text(
            COMPILER.format(python=sys.executable, zig=str(zig), flags=flags), encoding="utf-8"
        )
        compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
        made = Path(scratch, "made")
        include = sysconfig.get_path("include")
        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(made), target.tag],
            cwd=tree,
            env={
                **os.environ,
                "CC": str(compiler),
                "LDSHARED": f"{compiler} -shared -s",
                "CFLAGS": f"{optimise} -fPIC -fwrapv -DNDEBUG -I{include} -include {tree / 'cross.h'}",
                "LDFLAGS": "",
                "EDGEFOREST_PURE": "",
                "_PYTHON_HOST_PLATFORM": target.tag,
                "ZIG_GLOBAL_CACHE_DIR": str(ZIG / "cache"),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        wheels = list(made.glob("*.whl")) if made.is_dir() else []
        if done.returncode or not wheels:
            raise Refused(f"{target.tag} was not built:\n{done.stdout[:6000]}")
        try:
            check(wheels[0], native=True)
        except Refused as problem:
            raise Refused(f"{wheels[0].name}: {problem}\n{done.stdout[:6000]}") from None
        out.mkdir(exist_ok=True)
        return Path(shutil.move(wheels[0], out / wheels[0].name))


def main(argv: list[str] | None = None) -> int:
    """Build the wheels that are asked for."""
    tags = [target.tag for target in TARGETS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tags", nargs="*", metavar="TAG", help=f"any of {', '.join(tags)}")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder (default dist)")
    args = parser.parse_args(argv)
    if unknown := [tag for tag in args.tags if tag not in tags]:
        parser.error(f"unknown tag {unknown[0]}; give any of {', '.join(tags)}")
    for target in TARGETS:
        if not args.tags or target.tag in args.tags:
            try:
                wheel = build(target, args.out)
            except Refused as problem:
                print(problem, file=sys.stderr)
                return 1
            print(
                f"{wheel.stat().st_size / 1000:6,.0f} kB  {wheel.name}: {check(wheel, True)}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
