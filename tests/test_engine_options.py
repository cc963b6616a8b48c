"""How an engine is picked, and that a type checker knows what may be asked of it."""

import ast
import inspect
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from edgeforest import core_pure, engine

ROOT = Path(__file__).resolve().parent.parent
ROWS = [[i % 7, i % 3] for i in range(60)]
LABELS = [i % 7 > 2 for i in range(60)]


@pytest.fixture(autouse=True)
def no_wish(monkeypatch):
    monkeypatch.delenv("EDGEFOREST_ENGINE", raising=False)


def without(monkeypatch, *engines):
    """Take engines away, as if what they need had never been installed."""
    for name in engines:
        monkeypatch.setitem(sys.modules, engine._NEEDS[name][0], None)
        monkeypatch.delitem(sys.modules, engine._MODULES[name], raising=False)
        monkeypatch.delattr("edgeforest.engines._kernel", raising=False)


# ---- Picking


def test_the_fastest_that_is_present_is_picked():
    assert engine.name == engine.present()[0]
    assert engine.pick().name == engine.name
    assert engine.pick() is import_module(engine._MODULES[engine.name]).ENGINE
    assert engine.train(ROWS, LABELS, n_trees=2).engine == engine.name


@pytest.mark.parametrize("name", engine.present())
def test_each_is_picked_by_name_and_by_environment(name, monkeypatch):
    assert engine.train(ROWS, LABELS, n_trees=2, engine=name).engine == name
    monkeypatch.setenv("EDGEFOREST_ENGINE", name)
    assert engine.name == name
    assert engine.train(ROWS, LABELS, n_trees=2).engine == name
    assert engine.train(ROWS, LABELS, n_trees=2, engine="pure").engine == "pure"


def test_an_empty_wish_is_none(monkeypatch):
    automatic = engine.name
    monkeypatch.setenv("EDGEFOREST_ENGINE", "")
    assert engine.name == automatic


def test_unknown_names_are_refused(monkeypatch):
    for name in ("fast", "", "Pure"):
        with pytest.raises(ValueError, match=rf"^engine must be .*pure, got '{name}'$"):
            engine.train(ROWS, LABELS, engine=name)
    monkeypatch.setenv("EDGEFOREST_ENGINE", "fast")
    for ask in (engine.pick, lambda: engine.train(ROWS, LABELS), lambda: engine.name):
        with pytest.raises(ValueError, match=r"^EDGEFOREST_ENGINE must be .*pure, got 'fast'$"):
            ask()


def test_without_compiler_and_numpy_pure_python_is_left(monkeypatch, recwarn):
    without(monkeypatch, "native", "numpy")
    assert engine.present() == ["pure"]
    assert list(engine.absent()) == ["native", "numpy"]
    assert engine.name == "pure"
    assert engine.train(ROWS, LABELS, n_trees=2).engine == "pure"
    assert not recwarn.list, "nothing is wrong with that"


@pytest.mark.parametrize(
    ("name", "reason", "remedy"),
    [
        ("native", "it was not compiled", "install a C compiler"),
        ("numpy", "NumPy is not installed", "pip install numpy"),
    ],
)
def test_an_absent_engine_says_why_and_how_to_get_it(name, reason, remedy, monkeypatch):
    without(monkeypatch, name)
    said = f"^the {name} engine cannot be used: {reason}.*; .*{remedy}.*, or leave engine out$"
    with pytest.raises(RuntimeError, match=said):
        engine.train(ROWS, LABELS, engine=name)
    monkeypatch.setenv("EDGEFOREST_ENGINE", name)
    with pytest.raises(RuntimeError, match=f"{remedy}.*, or unset EDGEFOREST_ENGINE$"):
        engine.train(ROWS, LABELS)


def test_a_damaged_numpy_is_told_from_one_that_is_not_there(monkeypatch, tmp_path):
    without(monkeypatch, "native", "numpy")
    (tmp_path / "numpy.py").write_text("raise RuntimeError('of another\\n machine')")
    monkeypatch.delitem(sys.modules, "numpy")
    monkeypatch.syspath_prepend(tmp_path)
    reason = "it is there but does not load: RuntimeError: of another machine"
    assert engine.absent()["numpy"].reason == reason
    with pytest.raises(RuntimeError, match=reason):
        engine.pick("numpy")
    with pytest.warns(RuntimeWarning, match=reason):
        assert engine.name == "pure"


def test_numpy_is_not_imported_where_the_native_engine_is_used():
    if "native" not in engine.present():
        pytest.skip("the C kernel was not built: install edgeforest with gcc")
    code = (
        "import sys; from edgeforest import engine; assert engine.name == 'native'; "
        "print('numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize("name", engine.present())
def test_threads_are_counted_by_whoever_asks(name):
    for wrong in (0, -2, 1025):
        said = rf"^n_jobs must be from 1 to 1024, got {wrong} \(-1 stands for every core\)$"
        with pytest.raises(ValueError, match=said):
            engine.train(ROWS, LABELS, engine=name, n_jobs=wrong)
    for wrong in (1.5, True, "2"):
        with pytest.raises(TypeError, match=r"^n_jobs must be a whole number, got"):
            engine.train(ROWS, LABELS, engine=name, n_jobs=wrong)
    assert 1 <= engine._jobs(-1) <= (os.cpu_count() or 1)


def test_other_attributes_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'nane'"):
        _ = engine.nane


# ---- Types


def keywords(function):
    return {
        p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY
    }


def test_the_options_are_those_of_training_and_of_their_types():
    given = {"engine", "n_jobs"}  # by train_steps, which has them itself
    assert set(engine.Options.__annotations__) == keywords(core_pure.Training.__init__) - given
    assert given <= keywords(core_pure.Training.__init__)
    assert not engine.Options.__required_keys__
    parameters = inspect.signature(core_pure.Training.__init__).parameters
    own = ast.parse(Path(engine.__file__).read_text(encoding="utf-8"))
    options = next(n for n in own.body if isinstance(n, ast.ClassDef) and n.name == "Options")
    said = {
        n.target.id: ast.unparse(n.annotation) for n in options.body if isinstance(n, ast.AnnAssign)
    }
    assert said == {name: parameters[name].annotation for name in said}


def test_training_in_steps_and_at_once_take_the_same():
    for function in (engine.train, engine.train_steps):
        assert keywords(function) == {"engine", "n_jobs"}
