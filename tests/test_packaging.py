"""Wheels hold what their names say, install with and without a compiler, and say which it was."""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from runtimes import ROOT

from edgeforest import core_pure

sys.path.insert(0, str(ROOT / "tools"))
import check_wheel

LEFT_OUT = "edgeforest: the native engine was left out ({}), and everything else works, more slowly"
TINY = """\
import sys
import edgeforest
from edgeforest import engine

rows = [[i % 7, i * 13 % 50, "open" if i % 3 else "shut"] for i in range(400)]
labels = [f > 3 and w == "shut" for f, _, w in rows]
forest = edgeforest.train(rows, labels, categorical=[2], n_trees=4, max_depth=5, budget=5000, seed=3)
print(edgeforest.__file__, forest.engine, forest.to_json(), sep="\\n")
"""


def lacking(what):
    """End a test that cannot run here; where everything must run, it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


def run(*command, cwd, path=None, **env):
    """Run a command in a clean environment; its output is that of both streams."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("EDGEFOREST_", "PYTHON"))
    }
    kept["CFLAGS"] = "-O0 -g0"  # in a tenth of the time
    kept |= {key: str(value) for key, value in env.items()}
    if path:
        kept["PYTHONPATH"] = str(path)
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=kept,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module", autouse=True)
def setuptools():
    """Without setuptools of its own, an environment would have to fetch it."""
    try:
        found = int(version("setuptools").split(".")[0])
    except PackageNotFoundError:
        found = 0
    if found < 77:
        lacking(f"needs setuptools 77 or newer, got {found}: pip install 'setuptools>=77'")


@pytest.fixture(scope="module")
def compiler():
    """The C compiler that Python's own settings name."""
    name = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if shutil.which(name.split()[0]) is None:
        lacking(f"needs the C compiler {name}: apt install gcc")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        lacking("needs Python's headers: apt install python3-dev")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A function that makes a fresh copy of the source tree."""
    listed = run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT)

    def copy(name):
        place = tmp_path_factory.mktemp(name)
        if listed.returncode:  # an unpacked source archive
            skip = shutil.ignore_patterns(".*", "build", "dist", "*.so", "*.pyc", "*.egg-info")
            return Path(shutil.copytree(ROOT, place, ignore=skip, dirs_exist_ok=True))
        for file in filter(os.path.isfile, (ROOT / line for line in listed.stdout.splitlines())):
            target = place / file.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)
        return place

    return copy


def build_by_pip(source):
    """Build a wheel as users do; returns it and what was printed."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--verbose")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir", "--wheel-dir")
    return built(source, lambda out: run(*pip, *options, out, source, cwd=source.parent))


def build(source, **env):
    """The same by the call that pip makes in the end, in a third of the time."""
    make = "from setuptools import build_meta; import sys; build_meta.build_wheel(sys.argv[1])"
    return built(source, lambda out: run(sys.executable, "-c", make, out, cwd=source, **env))


def built(source, builder):
    out = source.parent / f"{source.name}-wheel"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    done = builder(out)
    assert done.returncode == 0, done.stdout
    (wheel,) = out.iterdir()
    return wheel, done.stdout


def inside(place, what):
    """Where a virtual environment has its "scripts" or "purelib"."""
    return Path(sysconfig.get_path(what, "venv", {"base": str(place), "platbase": str(place)}))


def environment(place):
    """Make a virtual environment without anything in it.

    An editable install in ours would lend the native engine to a wheel that has none.
    """
    venv.create(place, symlinks=os.name != "nt")
    return place


def unpack(wheel, place):
    """Put the files of a wheel where an install puts them, in a virtual environment of its own."""
    with zipfile.ZipFile(wheel) as files:
        files.extractall(inside(environment(place), "purelib"))
    return place


def install(wheel, place):
    """Install a wheel by pip into a virtual environment of its own."""
    target = inside(environment(place), "purelib")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    options = ("--no-deps", "--no-index", "--no-compile", "--target", target)
    done = run(*pip, *options, wheel, cwd=place)
    assert done.returncode == 0, done.stdout
    return place


def check(*arguments):
    """What the check of wheels says, and whether it is content."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = check_wheel.main([str(argument) for argument in arguments])
    return code == 0, said.getvalue()


def cli(place, *arguments, **env):
    """Run the command line of an installed wheel: exit code, and its lines as one."""
    python = inside(place, "scripts") / "python"
    done = run(python, "-m", "edgeforest", *arguments, cwd=place, **env)
    assert "Traceback" not in done.stdout
    return done.returncode, " ".join(done.stdout.split())


def tiny(place, source=None, **env):
    """A little training with an installed wheel, or from `source`: what trained, and the model."""
    python = inside(place, "scripts") / "python"
    done = run(python, "-c", TINY, cwd=place, path=source, **env)
    assert done.returncode == 0, done.stdout
    file, engine, model = done.stdout.splitlines()[-3:]
    assert (source or place) in Path(file).parents
    return engine, model


@pytest.fixture(scope="module")
def archive(sources, tmp_path_factory):
    """The source archive: where it is unpacked, and the names in it."""
    make = "from setuptools import build_meta; import sys; build_meta.build_sdist(sys.argv[1])"
    tree, place = sources("archive"), tmp_path_factory.mktemp("unpacked")
    (tree / "edgeforest" / "engines" / "_kernel.abi3.so").write_bytes(b"of this machine")
    done = run(sys.executable, "-c", make, place, cwd=tree)
    assert done.returncode == 0, done.stdout
    (packed,) = place.iterdir()
    with tarfile.open(packed) as files:
        held = {name.partition("/")[2] for name in files.getnames()}
        files.extractall(place)
    return place / packed.name.removesuffix(".tar.gz"), held


@pytest.fixture(scope="module")
def native(archive, compiler):
    """The wheel of a machine with a compiler, what was printed, and the tree that it is from.

    It is built from the source archive, as for those who find no wheel for their machine.
    """
    tree, _ = archive
    return *build_by_pip(tree), tree


@pytest.fixture(scope="module")
def pure(sources):
    """The wheel for everywhere."""
    return build(sources("pure"), EDGEFOREST_PURE=1)[0]


@pytest.fixture(scope="module")
def installed(pure, tmp_path_factory):
    """A virtual environment with the wheel for everywhere: to be looked at, not to be changed."""
    return install(pure, tmp_path_factory.mktemp("installed") / "pure")


@pytest.fixture(scope="module")
def broken(sources):
    """The wheel of a machine whose compiler does not work, and what was printed."""
    return build(sources("broken"), CC="false")


def test_with_a_compiler_the_wheel_has_the_native_engine(native, installed, tmp_path):
    wheel, output, _ = native
    assert "left out" not in output
    assert "warning: " not in "\n".join(x for x in output.splitlines() if ".c:" in x)
    assert wheel.stem.endswith(sysconfig.get_platform().replace("-", "_").replace(".", "_"))
    content, said = check("--native", wheel)
    assert content, said
    assert f"{wheel.name}: cp311-abi3-" in said
    assert "edgeforest/engines/_kernel" in said
    place = install(wheel, tmp_path / "native")
    code, said = cli(place, "engines")
    assert code == 0
    assert said.startswith("native present: ")
    assert "used native, the fastest that is present" in said
    engine, model = tiny(place)
    assert engine == "native"
    assert tiny(place, EDGEFOREST_ENGINE="pure") == ("pure", model)
    assert tiny(installed, EDGEFOREST_ENGINE="pure") == ("pure", model)


def test_the_wheel_for_everywhere_has_none(pure, installed):
    assert pure.name.endswith("-py3-none-any.whl")
    content, said = check(pure)
    assert content, said
    assert "no native engine" in said
    with zipfile.ZipFile(pure) as wheel:
        held = {name for name in wheel.namelist() if name.startswith("edgeforest/")}
    files = [
        *ROOT.glob("edgeforest/**/*.py"),
        *ROOT.glob("edgeforest/**/*.pyi"),
        ROOT / "edgeforest/py.typed",
    ]
    exported = {f"edgeforest/export/{file.name}" for file in ROOT.glob("export/*.py")}
    assert held == {str(file.relative_to(ROOT)) for file in files} | exported
    code, said = cli(installed, "engines")
    assert code == 0
    assert "native absent: it was not compiled when edgeforest was installed; to get it, " in said
    assert "--no-binary edgeforest edgeforest" in said
    assert "used pure, the fastest that is present" in said
    assert tiny(installed)[0] == "pure"


def test_without_a_compiler_the_install_works_and_says_so(broken, tmp_path):
    wheel, output = broken
    (said,) = [line.strip() for line in output.splitlines() if "left out" in line]
    assert said.startswith(LEFT_OUT.format("the C compiler 'false' failed, see above"))
    assert said.endswith("and install edgeforest again from its source.")
    assert wheel.name.endswith("-py3-none-any.whl"), "a wheel without the kernel runs everywhere"
    assert check(wheel)[0]
    content, said = check("--native", wheel)
    assert not content
    assert "it has no native engine: it was built without a working C compiler" in said
    place = unpack(wheel, tmp_path / "broken")
    said = cli(place, "engines")[1]
    assert "native absent: " in said
    assert "install a C compiler" in said
    assert tiny(place)[0] == "pure"


def test_a_compiler_that_is_not_there_is_named(sources):
    _, output = build(sources("none"), CC="/nowhere/cc")
    assert LEFT_OUT.format("there is no C compiler '/nowhere/cc'") in output


def test_an_absent_engine_that_is_asked_for_is_one_sentence(installed):
    reason = "the native engine cannot be used: it was not compiled when edgeforest was installed; "
    code, said = cli(installed, "train", "log.csv", "--target", "y", "--engine", "native")
    assert code == 2
    assert said.startswith(f"edgeforest: {reason}install a C compiler")
    assert said.endswith(", or leave engine out")
    for command in (("engines",), ("demo",), ("inspect", "model.json")):
        code, said = cli(installed, *command, EDGEFOREST_ENGINE="native")
        assert code == 2
        assert f"edgeforest: {reason}" in said
        assert said.endswith(", or unset EDGEFOREST_ENGINE")


def test_the_demo_says_that_a_faster_engine_can_be_had(installed):
    code, said = cli(installed, "demo", "--rows", "300", "--budget", "2k")
    assert code == 0
    assert "1 thread; edgeforest engines says how to get a faster one" in said
    code, said = cli(installed, "demo", "--rows", "300", "--budget", "2k", EDGEFOREST_ENGINE="pure")
    assert code == 0
    assert "engine pure, 1 thread spent" in said


def test_without_numpy_the_advice_names_it(installed):
    for wish in ("", "numpy"):
        code, said = cli(installed, "engines", EDGEFOREST_ENGINE=wish)
        assert "numpy absent: NumPy is not installed; to get it, install it (pip install " in said
        assert code == (2 if wish else 0)
        assert ("used pure, the fastest that is present" in said) == (not wish)


def test_a_damaged_engine_is_not_passed_over_in_silence(installed, tmp_path):
    place = Path(shutil.copytree(installed, tmp_path / "damaged", symlinks=True))
    suffix = ".pyd" if os.name == "nt" else ".abi3.so"
    (inside(place, "purelib") / "edgeforest" / "engines" / f"_kernel{suffix}").write_bytes(
        b"of another machine"
    )
    damaged = "it is there but does not load: ImportError: "
    code, said = cli(place, "engines")
    assert code == 0
    assert f"native absent: {damaged}" in said
    code, said = cli(place, "engines", EDGEFOREST_ENGINE="native")
    assert code == 2
    assert f"edgeforest: the native engine cannot be used: {damaged}" in said
    done = run(inside(place, "scripts") / "python", "-c", TINY, cwd=place)
    assert done.returncode == 0, "another engine takes over"
    assert f"RuntimeWarning: the native engine cannot be used: {damaged}" in done.stdout


def test_what_an_earlier_build_left_behind_does_not_go_into_the_wheel(native):
    _, _, tree = native
    assert list(tree.glob("build/lib*/edgeforest/engines/_kernel*"))
    first = min(tree.glob("edgeforest/engines/*.c"))  # which is compiled before all others
    first.write_text("#error\n", encoding="utf-8")
    wheel, output = build(tree)
    assert "left out" in output
    assert wheel.name.endswith("-py3-none-any.whl")
    assert check(wheel)[0]


def test_the_source_archive_holds_all_that_a_build_needs(archive):
    """What is built from it, and that it works, is looked at above."""
    _, held = archive
    assert held >= {"firmware/kernel/internal.h", "tests/test_packaging.py", "Makefile"}
    assert held >= {"edgeforest/engines/_kernel.h", "edgeforest/engines/_kernel_check.c"}
    assert not [name for name in held if name.endswith(".so")]


# Compiled in a tenth of a second. How the kernel itself works where it was compiled, all tests show.
STUB = """\
#include <Python.h>
static struct PyModuleDef stub = {PyModuleDef_HEAD_INIT, "_kernel", "a stub", -1};
PyMODINIT_FUNC PyInit__kernel(void) { return PyModule_Create(&stub); }
"""


def test_an_editable_install_compiles_in_place(sources, compiler, tmp_path):
    make = "from setuptools import build_meta; import sys; build_meta.build_editable(sys.argv[1])"
    tree, place = sources("editable"), environment(tmp_path / "empty")
    for file in (*tree.glob("edgeforest/engines/*.c"), *tree.glob("firmware/kernel/*.c")):
        file.unlink()
    (tree / "edgeforest" / "engines" / "_kernel.c").write_text(STUB, encoding="utf-8")
    done = run(sys.executable, "-c", make, tmp_path, cwd=tree)
    assert done.returncode == 0, done.stdout
    (built,) = [
        path
        for path in tree.glob("edgeforest/engines/_kernel*")
        if path.suffix not in (".c", ".h", ".pyi")
    ]
    assert built.suffix in (".so", ".pyd")
    look = "from edgeforest.engines import _kernel; print(_kernel.__doc__, _kernel.__file__)"
    done = run(inside(place, "scripts") / "python", "-c", look, cwd=place, path=tree)
    assert done.stdout == f"a stub {built}\n"
    done = run(sys.executable, "-c", make, tmp_path, cwd=tree, CC="false")
    assert done.returncode == 0, done.stdout
    assert LEFT_OUT.partition("(")[0] in done.stdout
    left = {path.suffix for path in tree.glob("edgeforest/engines/_kernel*")}
    assert left == {".c", ".h", ".pyi"}, "the engine that was built before is removed"
    assert tiny(place, tree)[0] == "pure"


def test_our_own_install_trains_with_what_was_compiled_in_place(compiler, tmp_path):
    if not list(ROOT.glob("edgeforest/engines/_kernel*.so")):
        lacking("needs an editable install: make demo")
    assert tiny(environment(tmp_path / "empty"), ROOT)[0] == "native"


def test_the_kernel_is_a_c_library_as_the_documents_say(compiler, tmp_path):
    text = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
    (tmp_path / "program.c").write_text(text.partition("```c\n")[2].partition("```")[0])
    command = re.search(r"^cc .*$", text, re.MULTILINE)[0]
    command = command.replace("program.c", shlex.quote(str(tmp_path / "program.c")))
    out = shlex.quote(str(tmp_path / "program"))
    done = run("sh", "-c", f"{command} -O0 -Wall -Wextra -Werror -o {out}", cwd=ROOT)
    assert done.returncode == 0, done.stdout
    done = run(tmp_path / "program", cwd=tmp_path)
    columns = [bytearray(i * k % 256 for i in range(300)) for k in (7, 13)]
    y = bytearray(a > 100 and b < 180 for a, b in zip(*columns, strict=True))
    forest = core_pure.train(
        columns, y, by_column=True, n_trees=1, max_depth=5, budget=2000, seed=4
    )
    votes = [0, 0]
    forest.predict_into(bytes([150, 20]), votes)
    nodes, insertions = len(forest.feature), forest.spent.insertions
    assert done.stdout == f"{nodes} nodes, {insertions} insertions, votes {votes[0]} {votes[1]}\n"


# ---- The check itself


def doctored(wheel, place, tag=None, add=(), leave_out=()):
    """A copy of a wheel with another tag, more files or fewer."""
    *name, python, abi, platform = wheel.stem.split("-")
    old = f"{python}-{abi}-{platform}"
    copy = place / f"{'-'.join(name)}-{tag or old}.whl"
    with zipfile.ZipFile(wheel) as given, zipfile.ZipFile(copy, "w") as made:
        for item in given.namelist():
            content = given.read(item)
            if item.endswith("/WHEEL") and tag:
                content = content.replace(old.encode(), tag.encode())
            if item not in leave_out:
                made.writestr(item, content)
        for item in add:
            made.writestr(item, b"")
    return copy


PLATFORM = "cp311-abi3-linux_x86_64"
SO = "edgeforest/engines/_kernel.abi3.so"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"tag": PLATFORM},
            "is tagged cp311-abi3-linux_x86_64, but holds no edgeforest/engines/_kernel",
        ),
        ({"add": [SO]}, f"is tagged py3-none-any, but holds {SO}"),
        (
            {"add": ["edgeforest/engines/_kernel.cp311-win_amd64.pyd"]},
            "but holds edgeforest/engines/_kernel.cp311",
        ),
        ({"tag": PLATFORM, "add": [SO, SO[:-3] + ".pyd"]}, "more than one native engine"),
        ({"tag": "cp312-cp312-linux_x86_64", "add": [SO]}, "must be tagged cp311-abi3"),
        (
            {"add": ["edgeforest/engines/_kernel.c"]},
            "edgeforest/engines/_kernel.c does not belong in it",
        ),
        (
            {"add": ["edgeforest/engines/_kernel.h"]},
            "edgeforest/engines/_kernel.h does not belong in it",
        ),
        ({"add": ["tests/test_race.py"]}, "tests/test_race.py does not belong in it"),
        ({"leave_out": ["edgeforest/py.typed"]}, "edgeforest/py.typed is missing"),
        ({"leave_out": ["edgeforest/core_pure.py"]}, "edgeforest/core_pure.py is missing"),
        (
            {"leave_out": ["edgeforest/engines/_kernel.pyi"]},
            "edgeforest/engines/_kernel.pyi is missing",
        ),
    ],
)
def test_the_check_refuses(change, expected, pure, tmp_path):
    wheel = doctored(pure, tmp_path, **change)
    content, said = check(wheel)
    assert not content
    assert said.startswith(f"{wheel.name}: ")
    assert expected in said
    assert said.count("\n") == 1


def test_the_check_refuses_a_wheel_that_was_renamed_or_cut_or_is_not_there(pure, tmp_path):
    renamed = tmp_path / pure.name.replace("py3-none-any", PLATFORM)
    renamed.write_bytes(pure.read_bytes())
    assert "its name says cp311-abi3-linux_x86_64, but inside it says py3" in check(renamed)[1]
    cut = tmp_path / pure.name
    cut.write_bytes(pure.read_bytes()[:5000])
    assert "it is not a wheel, or it is cut short" in check(cut)[1]
    content, said = check(pure, cut, tmp_path / "none.whl")
    assert not content
    assert "there is no such file" in said
    assert f"{pure.name}: py3-none-any, " in said, "those that are well are named too"
    command = (sys.executable, ROOT / "tools" / "check_wheel.py")
    assert [run(*command, wheel, cwd=tmp_path).returncode for wheel in (pure, cut)] == [0, 1]
