"""The one writer of files: cuts, kills, full disks, interrupts, links and two writers of one path."""

from __future__ import annotations

import ast
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from runtimes import (
    ROOT,
    install,
    needs_micropython,
    needs_mpy_cross,
    output,
    run_micropython,
)

import edgeforest
from edgeforest import OnlineForest, files, storage
from edgeforest.host import disk

OLD, NEW = "old " * 5000, "new " * 6000
on_posix = pytest.mark.skipif(os.name != "posix", reason="no such thing on this system")
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may mount a filesystem"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in its own folder."""
    file = tmp_path / "folder" / "model.json"
    file.parent.mkdir()
    file.write_text(OLD)
    return file


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def forest(seed: int = 0, trees: int = 5) -> edgeforest.Forest:
    rows = [[i % 13, i % 7, i * 31 % 101] for i in range(200)]
    labels = [(row[0] > 5) + (row[2] > 40) for row in rows]
    return edgeforest.train(rows, labels, n_trees=trees, seed=seed)


# ---- What is written, and where


def test_a_file_contains_what_was_written(path: Path) -> None:
    files.write(path, ["é", b"\0\n", bytearray(b"x"), memoryview(b"y")])
    assert path.read_bytes() == b"\xc3\xa9\0\nxy"
    with files.replacing(str(path)) as stream:
        stream.write(b"one")
        assert path.read_bytes() != b"one", "not before the end"
        stream.seek(0)
        stream.write(b"two")
    assert path.read_bytes() == b"two"
    files.write(os.fsencode(path), [])
    assert path.read_bytes() == b""
    assert names(path.parent) == ["model.json"]


@pytest.mark.parametrize("name", ["a" * 255, "é" * 127, "𝄞" * 63, ".", " x ", "a.part", "-"])
def test_names_of_any_length(path: Path, name: str) -> None:
    if name == ".":
        name = ".hidden"
    files.write(path.with_name(name), [NEW])
    assert path.with_name(name).read_text() == NEW
    assert names(path.parent) == sorted(["model.json", name])


def test_errors_name_the_file_that_cannot_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = path.parent
    for place, kind in (
        (folder, IsADirectoryError),
        (folder / "none" / "model.json", FileNotFoundError),
        (path / "model.json", NotADirectoryError),
    ):
        with pytest.raises(kind) as caught:
            files.write(place, [NEW])
        assert caught.value.filename == str(place), "the path that was given, not one of ours"
    with pytest.raises(TypeError):
        files.write(None, [NEW])  # type: ignore[arg-type]
    monkeypatch.chdir(folder)
    files.write("model.json", [NEW])
    assert names(folder) == ["model.json"]
    assert path.read_text() == NEW


@on_posix
def test_permissions_are_those_of_the_old_file_or_of_any_new_one(path: Path) -> None:
    def mode_of(file: Path) -> int:
        return stat.S_IMODE(file.stat().st_mode)

    before = os.umask(0o027)
    try:
        fresh = path.with_name("fresh")
        files.write(fresh, [NEW])
        assert mode_of(fresh) == 0o640
        for mode in (0o600, 0o666, 0o444, 0o755):
            path.chmod(mode)
            with files.replacing(path) as stream:
                (part,) = set(path.parent.iterdir()) - {path, fresh}
                assert mode_of(part) == mode, "nobody else can open it while it is written"
                stream.write(b"new")
            assert mode_of(path) == mode
        with files.replacing(path, 0o604) as stream:
            stream.write(b"newer")
        assert mode_of(path) == 0o604
    finally:
        os.umask(before)


@as_root
def test_the_owner_stays_the_owner(path: Path) -> None:
    os.chown(path, 1234, 2345)
    files.write(path, [NEW])
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


@on_posix
def test_a_link_stays_a_link_and_its_file_is_replaced(path: Path, tmp_path: Path) -> None:
    (tmp_path / "second").symlink_to(path)
    link = tmp_path / "first"
    link.symlink_to("second")  # relative, and through another link
    files.write(link, [NEW])
    assert link.is_symlink()
    assert path.read_text() == NEW
    path.unlink()
    files.write(link, [OLD])  # an ordinary open makes the file, too
    assert path.read_text() == OLD
    assert names(path.parent) == ["model.json"]
    assert names(tmp_path) == ["first", "folder", "second"]
    for name, leads in (("a", "b"), ("b", "a")):
        (tmp_path / name).symlink_to(leads)
    with pytest.raises(OSError, match="symbolic links"):
        files.write(tmp_path / "a", [NEW])


@on_posix
def test_pipes_and_devices_are_written_directly(path: Path) -> None:
    pipe = path.with_name("pipe")
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    files.write(pipe, [NEW])
    reader.join()
    assert found == [NEW]
    files.write(os.devnull, [NEW])
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    if os.path.exists("/dev/full"):
        with pytest.raises(OSError, match="No space left"):
            files.write("/dev/full", [NEW])
    assert names(path.parent) == ["model.json", "pipe"]


@on_posix
@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="there is no /dev/stdout")
def test_the_standard_output_is_written_directly(path: Path) -> None:
    command = [sys.executable, "-c", "from edgeforest import files\n"]
    command[-1] += "files.write('/dev/stdout', ['one'])\nprint('two')"
    assert subprocess.run(command, capture_output=True, check=True, cwd=ROOT).stdout == b"onetwo\n"
    with open(path, "ab") as stream:
        subprocess.run(command, stdout=stream, check=True, cwd=ROOT)
    assert path.read_bytes() == b"onetwo\n"[: path.stat().st_size], "the file that was open"


def test_systems_that_lack_locks_and_flags(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = ("O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK", "fchmod", "fchown")
    there = {name: value for name, value in vars(os).items() if name not in lacks}
    monkeypatch.setattr(disk, "os", SimpleNamespace(**there))
    monkeypatch.setattr(disk, "fcntl", None)
    files.write(path, [NEW])
    assert path.read_text() == NEW
    assert names(path.parent) == ["model.json"]


# ---- Links that somebody planted


@on_posix
def test_links_at_the_names_of_unfinished_files_are_not_followed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    guessed = bytes(range(disk.RANDOM))
    planted = [f"{path.name}.part", f".{path.name}.{guessed.hex()}.part"]
    for name in planted:
        path.with_name(name).symlink_to(victim)
    numbers = iter([guessed, bytes(disk.RANDOM)])
    monkeypatch.setattr(
        disk, "os", SimpleNamespace(**{**vars(os), "urandom": lambda _: next(numbers)})
    )
    forest().save(path)
    assert edgeforest.load(path).to_json() == forest().to_json()
    assert victim.read_text() == "precious"
    assert all(path.with_name(name).is_symlink() for name in planted)
    assert names(path.parent) == sorted(["model.json", *planted])


def test_names_that_are_never_free_do_not_loop_for_ever(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_create", lambda *_: None)
    with pytest.raises(FileExistsError, match="no name") as caught:
        files.write(path, [NEW])
    assert caught.value.filename == str(path)


# ---- Interrupts and errors at every place


class Watched:
    """`os`, in which one system call, number `at`, fails or is interrupted."""

    def __init__(self, at: int, happen: Callable[[], None], after: bool = False) -> None:
        self.at, self.happen, self.after = at, happen, after
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if isinstance(real, (int, str)) or name in ("path", "fsdecode", "strerror", "stat_result"):
            return real

        def call(*given: Any) -> Any:
            self.calls.append(name)
            now = len(self.calls) - 1 == self.at
            if now and not self.after:
                self.happen()
            answer = real(*given)
            if now and self.after:
                self.happen()
            return answer

        return call


@on_posix
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError, OSError])
def test_an_error_at_any_call_leaves_the_old_file_or_the_new_one_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException], after: bool
) -> None:
    def happen() -> None:
        raise OSError(28, "No space left on device") if kind is OSError else kind()

    met = set()
    monkeypatch.setattr(os, "fsync", lambda number: None)  # the disk has enough to do
    for at in range(100):
        path.write_text(OLD)
        watched = Watched(at, happen, after)
        monkeypatch.setattr(disk, "os", watched)
        failed = False
        try:
            files.write(path, [NEW, NEW])
        except kind:
            failed = True
        assert names(path.parent) == ["model.json"], watched.calls
        is_new = path.read_text() == NEW + NEW
        assert is_new or path.read_text() == OLD
        assert is_new or failed, "no word of it"
        met.add((is_new, failed))
        if at >= len(watched.calls):
            break
    order = [name for name in watched.calls if name in ("fsync", "replace")]
    assert order == ["fsync", "replace", "fsync"], "content, name, folder"
    assert {(False, True), (True, False)} <= met


def test_ctrl_c_at_any_line_leaves_the_old_file_or_the_new_one_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda number: None)
    ours = {files.__file__, disk.__file__}
    left = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in ours:
            return None
        if event in ("call", "line"):
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    for at in range(1000):
        path.write_text(OLD)
        left = at
        sys.settrace(trace)
        try:
            files.write(path, [NEW])
            break
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert names(path.parent) == ["model.json"], at
        assert path.read_text() in (OLD, NEW), at
    assert 40 < at < 999
    assert path.read_text() == NEW


def test_an_error_of_the_caller_leaves_the_old_file(path: Path) -> None:
    def pieces(error: type[BaseException]) -> Iterator[str]:
        yield NEW
        raise error

    for error in (KeyboardInterrupt, SystemExit, GeneratorExit, ValueError, OSError):
        with pytest.raises(error):
            files.write(path, pieces(error))
        assert path.read_text() == OLD
        assert names(path.parent) == ["model.json"]


LIMITED = """
import resource, sys
import edgeforest
from edgeforest import files
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    files.write(sys.argv[1], ["new " * 1000] * 9)
except OSError as error:
    print(error.strerror)
"""


@on_posix
def test_a_file_that_may_not_grow_is_removed(path: Path) -> None:
    command = [sys.executable, "-c", LIMITED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "File too large\n"
    assert path.read_text() == OLD
    assert names(path.parent) == ["model.json"]


# ---- Several writers

WRITER = """
import sys
from edgeforest import load
path, count, *models = sys.argv[1:]
forests = [load(model) for model in models]
for i in range(int(count)):
    forests[i % len(forests)].save(path)
"""


def test_every_read_is_a_whole_model_while_several_programs_write_it(
    path: Path, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    made = [forest(seed, 2 + 6 * seed) for seed in range(4)]  # of different lengths
    known = {one.to_json() for one in made}
    models = [tmp_path / f"{i}.json" for i in range(len(made))]
    for one, model in zip(made, models, strict=True):
        one.save(model)
    made[0].save(path)
    command = [sys.executable, "-c", WRITER, str(path), "60"]
    running = [
        subprocess.Popen([*command, *map(str, models[i:]), *map(str, models[:i])], cwd=ROOT)
        for i in range(3)
    ]
    reads, met = 0, set()
    while any(one.poll() is None for one in running):
        met.add(edgeforest.load(path).to_json())
        reads += 1
    assert [one.wait() for one in running] == [0, 0, 0]
    met.add(edgeforest.load(path).to_json())
    assert met <= known
    assert names(path.parent) == ["model.json"]
    figure(f"{reads} reads of 180 saves, {len(met)} models met")


def test_saves_of_an_online_forest_keep_their_order_and_do_not_stop_learning(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = OnlineForest(2)
    for i in range(100):
        learner.update([i % 10, i], i % 10 > 4)
    really = storage.write
    begun: list[threading.Thread] = []

    def slowly(one: Any, place: Any, state: Any) -> None:
        if (
            not begun
        ):  # in the midst of the first save, a row is learned and saved by another thread
            begun.append(threading.Thread(target=learner.save, args=(path,)))
            learner.update([1, 2], False)
            begun[0].start()
            begun[0].join(0.3)  # it has to wait
        assert state["rows"] == one.spent.rows_read
        really(one, place, state)

    monkeypatch.setattr(storage, "write", slowly)
    learner.save(path)
    begun[0].join()
    assert OnlineForest.load(path).rows == 101, "the later one"


def test_an_online_forest_is_saved_whole_while_it_learns(path: Path) -> None:
    learner = OnlineForest(2)
    learner.update([0, 1], False)
    learner.save(path)
    done = threading.Event()
    problems: list[BaseException] = []

    def learn() -> None:
        i = 0
        while not done.is_set():
            i += 1
            learner.update_batch([[i % 10, i % 7]] * 5, [i % 10 > 4] * 5)

    def save() -> None:
        try:
            for _ in range(15):
                learner.save(path)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=learn), *(threading.Thread(target=save) for _ in range(2))]
    for thread in threads:
        thread.start()
    rows = [0]
    while threads[1].is_alive() or threads[2].is_alive():
        one, state = storage.read(path)
        assert one is not None
        assert state is not None
        assert one.spent.rows_read == state["rows"]
        rows.append(state["rows"])
    done.set()
    threads[0].join()
    assert not problems
    assert rows == sorted(rows), "never back to an older one"
    assert names(path.parent) == ["model.json"]


# ---- What a killed program leaves

KILLED = """
import sys
from edgeforest import files
with files.replacing(sys.argv[1]) as stream:
    stream.write(b"x" * 100_000)
    stream.flush()
    print("ready", flush=True)
    sys.stdin.read()
"""


@on_posix
def test_the_next_write_removes_what_a_killed_program_left(path: Path) -> None:
    for _ in range(2):
        running = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert running.stdin is not None
        assert running.stdout is not None
        with running.stdin, running.stdout:
            assert running.stdout.readline() == b"ready\n"
            assert len(names(path.parent)) == 2, "of the one before, nothing is left"
            files.write(path, [NEW])
            assert len(names(path.parent)) == 2, "it is being written: hands off"
            running.send_signal(signal.SIGKILL)
            running.wait()
    (stray,) = set(names(path.parent)) - {"model.json"}
    files.write(path.with_name("other.json"), [NEW])
    assert stray in names(path.parent), "of another file"
    files.write(path, [NEW])
    assert names(path.parent) == ["model.json", "other.json"]
    assert path.read_text() == NEW


@on_posix
def test_files_of_other_programs_are_not_removed(path: Path) -> None:
    foreign = [".model.json.part", ".model.json.notes.part", ".model.json.0123456789AB.part"]
    foreign += [".model.json.0123456789ab.part.bak", "model.json.part"]
    for name in foreign:
        path.with_name(name).write_text("precious")
    path.with_name(".model.json.aaaaaaaaaaaa.part").symlink_to("/dev/null")
    path.with_name(".model.json.bbbbbbbbbbbb.part").mkdir()
    os.mkfifo(path.with_name(".model.json.cccccccccccc.part"))
    before = names(path.parent)
    files.write(path, [NEW])
    assert names(path.parent) == before


def test_without_locks_the_age_of_a_file_decides(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_lock", lambda _: None)
    monkeypatch.setattr(disk, "time", SimpleNamespace(time=lambda: 1_000_000.0))
    ages = {"0" * 12: 0, "1" * 12: 3599, "2" * 12: 3601, "3" * 12: -3599, "4" * 12: -3601}
    for name, age in ages.items():
        file = path.with_name(f".model.json.{name}.part")
        file.write_text("x")
        os.utime(file, (0, 1_000_000 - age))
    files.write(path, [NEW])
    left = [name.split(".")[3] for name in names(path.parent) if name != "model.json"]
    assert left == ["0" * 12, "1" * 12, "3" * 12]


@on_posix
def test_a_new_file_that_another_program_removed_is_made_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program looks for strays just between making the file and locking it."""
    really = disk._lock
    meddling = ["removes", "holds", ""]
    held = []

    def lock(number: int) -> bool | None:
        what = meddling.pop(0) if meddling else ""
        for name in set(names(path.parent)) - {"model.json"}:
            if what == "removes":
                disk._remove_stray(str(path.with_name(name)))
            elif what == "holds":
                held.append(os.open(path.with_name(name), os.O_RDWR))
                really(held[0])
        return really(number)

    monkeypatch.setattr(disk, "_remove_strays", lambda *_: None)
    monkeypatch.setattr(disk, "_lock", lock)
    files.write(path, [NEW])
    assert path.read_text() == NEW
    assert not meddling
    os.close(held[0])
    monkeypatch.undo()
    files.write(path, [NEW])
    assert names(path.parent) == ["model.json"]


# ---- On a board

BOARD = """
import os
from edgeforest import files
from edgeforest.core_pure import train
from edgeforest.loading import load
def listed():
    return sorted([name for name in os.listdir() if "model" in name])
train([[1], [2]] * 9, [0, 1] * 9, n_trees=2).save("model.json")
print(listed(), load("model.json").predict([[1], [2]]))
def broken():
    yield "half"
    raise KeyboardInterrupt
try:
    files.write("model.json", broken())
except KeyboardInterrupt:
    print(listed(), load("model.json").predict([[1], [2]]))
files.write("model.json", ["one ", b"two"])
with open("model.json") as stream:
    print(listed(), stream.read())
"""


@needs_mpy_cross
@needs_micropython
def test_a_board_writes_files_the_same_way(tmp_path: Path, figure: Callable[[str], None]) -> None:
    size = (install(tmp_path) / "edgeforest" / "files.mpy").stat().st_size
    figure(f"files.mpy {size} bytes")
    assert output(run_micropython(BOARD, tmp_path, "128k")) == (
        "['model.json'] [0, 1]\n['model.json'] [0, 1]\n['model.json'] one two\n"
    )


# ---- No other module writes files

# What may open a file for writing, by file and function, and why.
OTHERS = {
    ("logs.py", "spooled"): "the standard input, in a temporary folder of its own",
}
WRITES = {
    *("write_text", "write_bytes", "touch", "tofile", "savez", "savetxt", "savefig", "to_csv"),
    *("rename", "renames", "symlink_to", "hardlink_to", "mkstemp", "NamedTemporaryFile"),
    *("fsync", "truncate", "ftruncate", "fdopen", "copyfile", "copy2", "copytree"),
}


def writes(call: ast.Call) -> bool:
    """Whether a call opens a file for writing, or renames one."""
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    if name in ("files.rename", "files.write", "files.replacing"):
        return False
    if name in ("os.replace", "os.link", "os.symlink", "shutil.copy", "shutil.move"):
        return True
    if name == "os.open":
        text = ast.unparse(call)
        return any(flag in text for flag in ("WRONLY", "RDWR", "CREAT")) and "devnull" not in text
    if name in ("open", "io.open", "gzip.open", "codecs.open") or last == "open":
        given = [word.value for word in call.keywords if word.arg == "mode"] + call.args[1:2]
        if name not in ("open", "io.open", "gzip.open", "codecs.open"):
            given += call.args[:1]
        modes = [str(mode.value) for mode in given if isinstance(mode, ast.Constant)]
        return any(set("wax+") & set(mode) and len(mode) < 4 for mode in modes)
    return last in WRITES


def writers(node: ast.AST, function: str = "") -> Iterator[str]:
    """The functions below a node that write files; an empty name for the module itself."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.Call) and writes(part):
            yield function
        yield from writers(part, part.name if isinstance(part, ast.FunctionDef) else function)


def test_no_other_module_opens_files_for_writing_or_renames_them() -> None:
    found = {
        (source.name, function)
        for folder in ("edgeforest", "export")
        for source in (ROOT / folder).rglob("*.py")
        if source.name not in ("files.py", "disk.py")
        for function in writers(ast.parse(source.read_text(encoding="utf-8")))
    }
    assert found == set(OTHERS), "use edgeforest.files"


@pytest.mark.parametrize(
    "text",
    [
        "open(path, 'w')",
        "open(path, mode='ab')",
        "Path(x).open('w')",
        "gzip.open(path, 'wb')",
        "os.open(path, os.O_WRONLY)",
        "os.replace(a, b)",
        "path.rename(b)",
        "path.write_text('x')",
        "tempfile.mkstemp()",
    ],
)
def test_the_search_for_writing_finds_it(text: str) -> None:
    (call,) = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)][:1]
    assert writes(call)
    for harmless in ("open(path)", "open(path, 'rb')", "text.replace('a', 'b')", "archive.open(x)"):
        assert not any(writes(n) for n in ast.walk(ast.parse(harmless)) if isinstance(n, ast.Call))
