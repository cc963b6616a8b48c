"""The operations of core_ulab in real MicroPython: the forests of core_pure, in less time."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from textwrap import indent

import pytest
from runtimes import (
    CORE,
    NO_WASM,
    compile_mpy,
    find_wasm,
    install,
    needs_mpy_cross,
    needs_wasm,
    output,
    run,
)

SOURCE = CORE.with_name("core_ulab.py")

# Sensor readings by column, three classes; as bytes, or as numbers with gaps.
DATA = """
from edgeforest.budget import Rng
from edgeforest.core_pure import Training
from edgeforest.{module} import ENGINE

def readings(n, gaps=False, m=6):
    rng = Rng(1)
    X = [bytearray([rng.below(256) for _ in range(n)]) for _ in range(m)]
    y = [(X[0][i] > 100) + (X[1][i] + X[2][i] > 250) for i in range(n)]
    if gaps:
        X = [[None if v < 30 else v / 8 for v in column] for column in X]
    return X, y

def grow(X, y, **options):
    training = Training(X, y, by_column=True, seed=3, engine=ENGINE, **options)
    for _ in training:
        pass
    return training.forest()
"""

CASES = {
    "random forest": "X, y = readings(700); options = {}",
    "extra trees": "X, y = readings(700); options = {'kind': 'extra-trees'}",
    "random patches": "X, y = readings(700); options = {'kind': 'random-patches'}",
    "entropy": "X, y = readings(700); options = {'criterion': 'entropy'}",
    "regression": "X, y = readings(700); options = {'criterion': 'mse'}",
    "exact": "X, y = readings(700); options = {'splitter': 'exact'}",
    "paper": "X, y = readings(700); options = {'splitter': 'mab-paper'}",
    "paper, regression": """
X, y = readings(400)
options = {'splitter': 'mab-paper', 'criterion': 'mse'}
""",
    "missing values": "X, y = readings(700, gaps=True); options = {}",
    "categories": """
X, y = readings(700)
X[0] = [v // 40 for v in X[0]]
options = {'categorical': [0]}
""",
    "weights": "X, y = readings(700); options = {'class_weight': 'balanced'}",
    "many classes": """
X, y = readings(400)
y = [i % 300 for i in range(400)]
options = {}
""",
    "budget": "X, y = readings(700); options = {'budget': 2500}",
    "labels that are text": """
X, y = readings(700)
y = [["low", "middle", "high"][v] for v in y]
options = {}
""",
}


def run_ulab(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in MicroPython with ulab, which is given the files for boards."""
    command = find_wasm()
    if command is None:
        pytest.fail(NO_WASM)
    path = folder / "script.py"
    path.write_text(script.replace("{module}", "core_ulab"), encoding="utf-8")
    sources = sorted((install(folder / "board", compiled=False) / "edgeforest").iterdir())
    files = [f"--file={source}:/edgeforest/{source.name}" for source in sources]
    return run([*command, "--ulab", *files, str(path)], folder)


def on_cpython(script: str) -> str:
    """The model that a script leaves in `model`, by core_pure in this Python."""
    names: dict = {}
    exec(script.replace("{module}", "core_pure"), names)
    return names["model"]


def on_ulab(script: str, folder: Path) -> str:
    """The same by core_ulab in MicroPython."""
    return output(run_ulab(script + "print(model)\n", folder)).strip()


def grown(case: str) -> str:
    """Lines that leave the model of a case in `model`."""
    return f"{case.strip()}\nmodel = grow(X, y, n_trees=2, max_depth=6, **options).to_json()\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The model of each case, or its error: all in one MicroPython, which takes long to start."""
    script = DATA
    for case in CASES.values():
        script += f"try:\n{indent(grown(case), '    ')}except Exception as error:\n"
        script += "    model = repr(error)\nprint(model)\n"
    lines = output(run_ulab(script, tmp_path_factory.mktemp("cases"))).splitlines()
    return dict(zip(CASES, lines, strict=True))


@needs_wasm
@pytest.mark.parametrize("name", CASES)
def test_ulab_grows_the_forest_of_core_pure(name: str, models: dict[str, str]) -> None:
    assert models[name] == on_cpython(DATA + grown(CASES[name]))


@needs_wasm
def test_ulab_is_there_and_takes_over(tmp_path: Path) -> None:
    script = """
import ulab
from edgeforest import core_ulab
X, y = readings(100)
training = Training(X, y, by_column=True, engine=ENGINE)
training.trees.draw(training.stream(0))
print(core_ulab.np is ulab.numpy, type(training.trees.nodes) is core_ulab.UlabNodes)
"""
    assert output(run_ulab(DATA + script, tmp_path)) == "True True\n"


@needs_wasm
def test_more_rows_than_ulab_can_number(tmp_path: Path) -> None:
    script = (
        DATA
        + """
X = [bytes(i * k % 251 for i in range(250)) * 264 for k in (1, 7, 11)]  # 66,000 rows
y = [(a > 100) + (b > 120) for a, b in zip(X[0], X[1])]
model = grow(X, y, n_trees=1, max_depth=2, max_samples=2000).to_json()
"""
    )
    assert on_ulab(script, tmp_path) == on_cpython(script)


@needs_wasm
def test_ulab_beside_core_pure(tmp_path: Path, figure: Callable[[str], None]) -> None:
    script = """
import time
from edgeforest import core_pure, core_ulab
X, y = readings(3000)
for options in ({"splitter": "mab"}, {"splitter": "exact"}):
    took = []
    models = []
    for module in (core_pure, core_ulab):
        ENGINE = module.ENGINE
        start = time.time()
        models.append(grow(X, y, n_trees=2, max_depth=5, **options).to_json())
        took.append(time.time() - start)
    print(options["splitter"], models[0] == models[1], took[0], took[1])
"""
    for line in output(run_ulab(DATA + script, tmp_path)).splitlines():
        splitter, same, pure, ulab = line.split()
        assert same == "True"
        figure(
            f"{splitter}, 3,000 rows, 2 trees: {float(pure) / float(ulab):.1f} times the speed "
            f"of core_pure in the same runtime ({float(ulab):.2f} s)"
        )


@needs_mpy_cross
def test_the_operations_compile_for_boards(tmp_path: Path, figure: Callable[[str], None]) -> None:
    path = tmp_path / "core_ulab.mpy"
    compile_mpy(SOURCE, path, "-O3", "-march=armv7emsp")
    figure(f"core_ulab.mpy {path.stat().st_size:,} bytes")
    assert path.read_bytes()[:2] == b"M\x06"
