"""The C kernel under the sanitizers of gcc: nothing is read or written beside what it was given.

Once by a driver in C that hands it memory of exactly the size that it asks for, once by Python with
the cases of test_engines.py and test_online.py, with the altered models of test_fuzz.py, with the
text of test_text_c.py, with wrong arguments, and with data that change.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from runtimes import ROOT, needs

BINDING, KERNEL = ROOT / "edgeforest" / "engines", ROOT / "firmware" / "kernel"
GCC = shutil.which("gcc")
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror"]
COMMON = ["-Og", "-g1", "-ffp-contract=off", *STRICT, *SANITIZE]
# As it is compiled for a board, but with all criteria.
BOARD = ["-O0", "-DEF_BOARD", "-DEF_REAL=float", "-fsingle-precision-constant"]
# Without what no board has; then no expression may be computed in double by accident.
SINGLE = ["-DEF_BOARD", "-DEF_REAL=float", "-DEF_WITHOUT_PAPER", "-Wdouble-promotion"]
# All that warnings need: of -O3 they use where values go and what they may be, not faster loops.
ANALYSED = ["-O1", "-ftree-vrp", "-fstrict-aliasing"]
ON_A_COMPUTER = (
    "encode.c",
    "race_paper.c",
    "online.c",
    "online_few.c",
    "online_linear.c",
    "online_race.c",
)
CASES = 120  # of the driver
EXAMPLES = 4  # of the grid
FUZZ = 0.2  # of the altered models and checkpoints
WRONG = 40  # calls of each function with wrong arguments
FILES = (
    *("test_engines.py", "test_online.py", "test_fuzz.py"),
    *("test_kernel_arguments.py", "test_unsteady_data.py", "test_text_c.py"),
)
# Names of tests in the words of `-k`, where "used" would be found in "refused" too.
GRID = " or ".join(
    (
        "engines_agree_on_any",
        "same_forest and not either_side and not step and not fortran and not threads",
        "threads and same_forest and random-forest",
        "stopped",
        "predicted and slices",
        "altered and not like_others and not board",
        "arguments",
        "unsteady and native",
        "test_text_c and not any_file",
    )
)

# In CI the test runs, and fails if there is no gcc.
needs_gcc = needs(
    GCC is not None and sys.platform == "linux", "there is no gcc for Linux here: apt install gcc"
)


def compile_c(*arguments, cwd=None):
    """Run gcc; the test fails with what it says."""
    assert GCC, "there is no gcc: apt install gcc"
    done = subprocess.run(
        [GCC, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd
    )
    assert done.returncode == 0, done.stderr


def library(name):
    """The path of one of gcc's own libraries."""
    return subprocess.check_output([GCC, f"-print-file-name={name}"], text=True).strip()


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    """The kernel compiled with the sanitizers, as on a computer: for the driver and for Python."""
    folder = tmp_path_factory.mktemp("sanitized")
    compile_c(*COMMON, "-fPIC", "-c", *sorted(KERNEL.glob("*.c")), cwd=folder)
    return sorted(folder.glob("*.o"))


@needs_gcc
@pytest.mark.parametrize(("options", "cases"), [([], CASES), (BOARD, CASES // 4)], ids=str)
def test_the_kernel_keeps_to_its_memory_and_its_trees_are_sound(
    tmp_path, options, cases, sanitized
):
    program = tmp_path / "kernel_check"
    kernel = sorted(KERNEL.glob("*.c")) if options else sanitized
    compile_c(*COMMON, *options, ROOT / "tests" / "kernel_check.c", *kernel, "-lm", "-o", program)
    done = subprocess.run([program, str(cases)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{cases} cases\n"), done.stderr[-4000:]


@needs_gcc
@pytest.mark.parametrize(
    "options",
    [["-std=c99", *ANALYSED], ["-std=gnu17", "-fsyntax-only"], ["-std=c99", "-Os", *SINGLE]],
    ids=str,
)
def test_the_kernel_compiles_without_a_warning(options, tmp_path):
    for source in sorted(KERNEL.glob("*.c")):
        if options[-1:] == SINGLE[-1:] and source.name in ON_A_COMPUTER:
            continue
        out = tmp_path / f"{source.stem}.o"
        compile_c(*STRICT, *options, "-ffp-contract=off", "-c", source, "-o", out)


@needs_gcc
def test_the_grid_of_engines_runs_under_the_sanitizers(tmp_path, sanitized):
    package = tmp_path / "edgeforest"
    # Without the numpy engine: the kernel beside the specification is enough.
    unwanted = shutil.ignore_patterns("numpy_nodes.py", "*.so", "__pycache__")
    shutil.copytree(ROOT / "edgeforest", package, ignore=unwanted)
    shutil.copytree(ROOT / "export", package / "export", ignore=unwanted)
    shutil.copy(ROOT / "conftest.py", tmp_path)
    tests = tmp_path / "tests"
    tests.mkdir()
    for source in (ROOT / "tests").glob("*.py"):
        if source.name in FILES or not source.name.startswith("test_"):
            shutil.copy(source, tests)
    (tmp_path / "firmware").symlink_to(ROOT / "firmware")  # which the helpers read
    compile_c(
        *[option for option in COMMON if option != "-Wpedantic"],  # Python's headers
        *("-DPy_LIMITED_API=0x030B0000", "-D_POSIX_C_SOURCE=200809L", "-fPIC", "-shared"),
        f"-I{sysconfig.get_path('include')}",
        *sorted(BINDING.glob("*.c")),
        *sanitized,
        *("-lm", "-o", package / "engines" / "_kernel.abi3.so"),
    )
    environment = {
        **os.environ,
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONMALLOC": "malloc",  # so that the sanitizer knows Python's blocks one by one
        "PYTHONDONTWRITEBYTECODE": "1",
        "EDGEFOREST_COMPARED": "native",  # whose results the same tests compare without sanitizers
        "EDGEFOREST_EXAMPLES": str(EXAMPLES),
        "EDGEFOREST_FUZZ": str(FUZZ),
        "EDGEFOREST_CASES": str(WRONG),
    }
    environment.pop("PYTHONPATH", None)
    # Which one is imported is said first: not the one that is installed.
    start = "import sys, edgeforest, pytest; print(edgeforest.__file__); sys.exit(pytest.main())"
    # What fails is told in full where the same tests run without the sanitizers.
    plain = ["--assert=plain", "-p", "no:cacheprovider"]
    command = [sys.executable, "-c", start, "-v", "-x", *plain]
    done = subprocess.run(
        [*command, "--rootdir", tmp_path, "-k", GRID, *[tests / name for name in FILES]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert Path(done.stdout.splitlines()[0]).parent == package
    ran = set(re.findall(r"^tests/(\w+\.py)::.* PASSED", done.stdout, re.MULTILINE))
    assert ran == set(FILES)
