"""Fetch the runtimes that the tests use into `.runtimes/`: MicroPython, onnxruntime, Chromium, mosquitto.

Each comes from a package registry that this machine is already set up for:

- `.runtimes/micropython-i386/`: Debian's 32-bit MicroPython with its own libraries. Its objects
  cost as much as on a 32-bit board and its heap is hard (`micropython -X heapsize=32k ...`).
- `.runtimes/micropython-wasm/`: MicroPython for WebAssembly, run by Node.js; it has a build with
  ulab (`node run.mjs [--ulab] [--file host_path:guest_path]... script.py`).
- `.runtimes/onnxruntime-web/` and `.runtimes/onnxruntime-node/`: what runs ONNX models in browsers
  and in Node.js (`node run.mjs cases.json` writes the answers of models as JSON).
- `.runtimes/chromium/`: a headless browser.
- `.runtimes/mosquitto/`: an MQTT broker, from this machine's own release.
- `.runtimes/flower/`: Flower, a folder for PYTHONPATH, since it wants another protobuf than onnx.
- `.runtimes/compilers/`, `.runtimes/qemu-arm/`, `.runtimes/micropython-source/` and
  `.runtimes/cortex-m3/`: an emulated board (`tools/board_runtimes.py`).
- Only if asked for by name: `.runtimes/zig/`, which builds wheels for other processors, and
  `.runtimes/qemu-user/`, `python-armhf/` and `python-arm64/`, which try them (`tools/wheel_runtimes.py`);
  `python-musl-x86_64/`, `-aarch64/` and `-armv7l/`, which are compiled here (`tools/musl_runtimes.py`).

Nothing outside `.runtimes/` is changed (but for npm's own cache) and no root rights are needed. A
runtime that cannot be had here is named with the reason and what to do; only `--strict` makes that
an error, because the tests that need a missing runtime skip themselves.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from board_runtimes import BOARD_RUNTIMES
from fetching import (
    NETWORK_TIMEOUT,
    Runtime,
    StepError,
    apt_elsewhere,
    apt_here,
    download,
    find_tool,
    get_runtime,
    keep_program,
    run,
    run_online,
    say,
    unpack,
    with_missing,
    wrap_program,
    write_if_changed,
    write_wrapper,
)
from musl_runtimes import MUSL_RUNTIMES
from wheel_runtimes import WHEEL_RUNTIMES

DEBIAN_SUITE = "trixie"
DEBIAN_PACKAGES = (
    "micropython",
    "libc6",
    "libffi8",
    "libgcc-s1",
    "libmbedcrypto16",
    "libmbedtls21",
    "libmbedx509-7",
)
DEBIAN_VERSION = "MicroPython v1.25"
X86_MACHINES = ("x86_64", "amd64", "i386", "i486", "i586", "i686")

NPM_PACKAGE = "@micropython/micropython-webassembly-pyscript"
NPM_VERSION = "1.29.0-6"
ONNXRUNTIME_VERSION = "1.30.0"
# All that a page, or Node.js, needs of a package ten times as large.
ONNXRUNTIME_WEB_FILES = (
    "ort-wasm-simd-threaded.mjs",
    "ort-wasm-simd-threaded.wasm",
    "ort.node.min.mjs",
    "ort.wasm.min.js",
    "ort.wasm.min.mjs",
)
CHROMIUM_PACKAGE = "@sparticuz/chromium"
CHROMIUM_VERSION = "153.0.0"

# The folder is found from the wrapper's own place, so that it can be moved or linked to.
I386_WRAPPER = """\
#!/bin/sh
here=$(dirname -- "$(readlink -f -- "$0")")
exec "$here/lib/ld-linux.so.2" --library-path "$here/lib" "$here/bin/micropython" "$@"
"""

WASM_RUNNER = f"""\
// Runs one script in MicroPython for WebAssembly (written by tools/get_runtimes.py).
// node run.mjs [--ulab] [--file host_path:guest_path]... script.py
import {{ readFileSync }} from "node:fs";
import {{ posix }} from "node:path";
import {{ fileURLToPath }} from "node:url";
import {{ parseArgs }} from "node:util";

const PACKAGE = new URL("./node_modules/{NPM_PACKAGE}/", import.meta.url);

function readCommandLine() {{
  const {{ values, positionals }} = parseArgs({{
    allowPositionals: true,
    options: {{
      ulab: {{ type: "boolean", default: false }},
      file: {{ type: "string", multiple: true, default: [] }},
    }},
  }});
  if (positionals.length !== 1) throw new Error("give exactly one script");
  const files = values.file.map((pair) => {{
    // The last colon divides, because a Windows host path has one after its drive letter.
    const colon = pair.lastIndexOf(":");
    if (colon < 1) throw new Error(`--file needs host_path:guest_path, not ${{pair}}`);
    return {{ host: pair.slice(0, colon), guest: pair.slice(colon + 1) }};
  }});
  return {{ script: positionals[0], files, ulab: values.ulab }};
}}

async function load(ulab) {{
  await import(new URL("micropython.mjs", PACKAGE));
  const wasm = ulab ? "micropython-ulab.wasm" : "micropython.wasm";
  return globalThis.loadMicroPython({{
    url: fileURLToPath(new URL(wasm, PACKAGE)),
    // Bytes instead of lines, because line mode loses a last line that has no line end.
    linebuffer: false,
    stdout: gather(process.stdout),
    stderr: gather(process.stderr),
  }});
}}

const pending = [];

// MicroPython hands over single bytes; a system call for each would be slow.
function gather(stream) {{
  const bytes = [];
  const flush = () => stream.write(Uint8Array.from(bytes.splice(0)));
  pending.push(flush);
  return (chunk) => {{
    bytes.push(...chunk);
    if (bytes.at(-1) === 10) flush();
  }};
}}

// As on the command line of any Python: sys.exit() is 0, sys.exit(n) is n, all else is 1.
function exitCode(error, script) {{
  const text = String(error.message ?? error);
  if (error.type === "SystemExit") {{
    const value = text.slice(text.lastIndexOf("SystemExit:") + 11).trim();
    if (value === "" || value === "None") return 0;
    if (/^-?\\d+$/.test(value)) return Number(value) & 255;
    console.error(value);
  }} else if (error.name === "PythonError") {{
    console.error(text.replaceAll('"<stdin>"', JSON.stringify(script)).trimEnd());
  }} else {{
    console.error(error.stack ?? text);
  }}
  return 1;
}}

let script = "";
let failure = null;
try {{
  const options = readCommandLine();
  script = options.script;
  const source = readFileSync(script, "utf8");
  const micropython = await load(options.ulab);
  for (const {{ host, guest }} of options.files) {{
    micropython.FS.mkdirTree(posix.dirname(posix.resolve("/", guest)));
    micropython.FS.writeFile(guest, readFileSync(host));
  }}
  micropython.runPython(source);
}} catch (error) {{
  failure = error;
}}
pending.forEach((flush) => flush());
// Not process.exit(), which would drop output that is still on its way into a pipe.
if (failure) process.exitCode = exitCode(failure, script);
"""


# Runs models in whichever onnxruntime it is given; in Node.js and in pages alike.
ONNX_PREDICT = """\
// Answers of ONNX models (written by tools/get_runtimes.py). A case is {model, feeds}: the bytes of
// a model in base64, and its inputs as {name: {type, dims, data}}. Data is base64, or a list of text.
const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int64: BigInt64Array,
  bool: Uint8Array,
};

const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

function encode(data) {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

function toTensor(ort, { type, dims, data }) {
  return new ort.Tensor(type, type === "string" ? data : new ARRAYS[type](decode(data).buffer), dims);
}

function fromTensor({ type, dims, data }) {
  return { type, dims, data: type === "string" ? data : encode(data) };
}

const each = (object, change) =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]));

export async function predict(ort, cases) {
  const answers = [];
  for (const { model, feeds } of cases) {
    const session = await ort.InferenceSession.create(decode(model));
    const found = await session.run(each(feeds, (given) => toTensor(ort, given)));
    answers.push(each(found, fromTensor));
    await session.release();
  }
  return answers;
}
"""

ONNX_RUNNER = """\
// node run.mjs cases.json (written by tools/get_runtimes.py): the answers as JSON.
// node run.mjs: the version.
import { readFileSync } from "node:fs";
import * as ort from "PACKAGE";
import { predict } from "./predict.mjs";

const [file] = process.argv.slice(2);
if (file) {
  const cases = JSON.parse(readFileSync(file, "utf8"));
  process.stdout.write(JSON.stringify(await predict(ort, cases)));
} else {
  console.log(JSON.stringify(ort.env.versions));
}
"""

UNPACK = """\
const { createReadStream, createWriteStream } = require("node:fs");
const { createBrotliDecompress } = require("node:zlib");
const [from, to] = process.argv.slice(1);
createReadStream(from).pipe(createBrotliDecompress()).pipe(createWriteStream(to));
"""

# The fonts are found from the wrapper's own place, as above.
CHROMIUM_WRAPPER = """\
#!/bin/sh
here=$(dirname -- "$(readlink -f -- "$0")")
export LD_LIBRARY_PATH="$here/lib" FONTCONFIG_FILE="$here/fonts.conf"
exec "$here/bin/chromium" "$@"
"""

CHROMIUM_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">fonts</dir></fontconfig>
"""


def build_i386(target: Path, scratch: Path) -> None:
    """Make the folder of the 32-bit MicroPython, with only what it needs to run."""
    if sys.platform != "linux" or platform.machine().lower() not in X86_MACHINES:
        raise StepError("32-bit x86 programs for Linux do not run on this machine")
    debs = download(apt_elsewhere(scratch, DEBIAN_SUITE, "i386"), DEBIAN_PACKAGES, scratch)
    say("unpacking")
    unpack(debs, scratch / "unpacked")
    # Only the files directly in the library folder are wanted: the folders below it hold
    # character set converters, which are larger than all the rest.
    (target / "bin").mkdir()
    (target / "lib").mkdir()
    shutil.copy2(scratch / "unpacked/usr/bin/micropython", target / "bin")
    for library in (scratch / "unpacked/usr/lib/i386-linux-gnu").iterdir():
        if not library.is_dir():
            shutil.copy2(library, target / "lib", follow_symlinks=False)
    write_i386_wrapper(target)


def write_i386_wrapper(folder: Path) -> None:
    """Write the shell script that starts MicroPython with its own loader and libraries."""
    write_wrapper(folder / "micropython", I386_WRAPPER)


def i386_version(folder: Path) -> str:
    """Return the version that the 32-bit MicroPython prints, or raise StepError."""
    write_i386_wrapper(folder)
    code = "import sys; print(sys.version)"
    version = run([str(folder / "micropython"), "-X", "heapsize=64k", "-c", code]).strip()
    if DEBIAN_VERSION not in version:
        raise StepError(f"it is {version!r}, not {DEBIAN_VERSION}")
    return version


def npm_install(package: str, folder: Path) -> Path:
    """Install a package with npm, without running anything of it, and return its place."""
    find_tool("node")
    npm = find_tool("npm")
    say(f"installing {package} with npm")
    options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    # The prefix keeps npm from climbing to a package.json in a folder above.
    run_online([npm, "install", "--prefix", str(folder), *options, package], folder)
    return folder / "node_modules" / package.rpartition("@")[0]


def build_wasm(target: Path, _scratch: Path) -> None:
    """Make the folder of MicroPython for WebAssembly."""
    npm_install(f"{NPM_PACKAGE}@{NPM_VERSION}", target)
    write_if_changed(target / "run.mjs", WASM_RUNNER)


def wasm_version(folder: Path) -> str:
    """Return the version that MicroPython for WebAssembly prints, or raise StepError."""
    write_if_changed(folder / "run.mjs", WASM_RUNNER)
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch, "version.py")
        script.write_text("import sys\nprint(sys.version)\n", encoding="utf-8")
        version = run([find_tool("node"), str(folder / "run.mjs"), str(script)]).strip()
    if f"MicroPython v{NPM_VERSION}" not in version:
        raise StepError(f"it is {version!r}, not {NPM_VERSION}")
    return version


def build_onnx_web(target: Path, _scratch: Path) -> None:
    """Make the folder of onnxruntime for browsers."""
    package = npm_install(f"onnxruntime-web@{ONNXRUNTIME_VERSION}", target)
    for file in (package / "dist").iterdir():
        if file.name not in ONNXRUNTIME_WEB_FILES:
            file.unlink()
    write_onnx_runner(target)


def build_onnx_node(target: Path, _scratch: Path) -> None:
    """Make the folder of onnxruntime for Node.js, with the library of this platform alone."""
    package = npm_install(f"onnxruntime-node@{ONNXRUNTIME_VERSION}", target)
    report = "console.log(process.platform, process.arch)"
    here = run([find_tool("node"), "-e", report]).split()
    for folder in package.glob("bin/*/*/*"):
        if [folder.parent.name, folder.name] != here:
            shutil.rmtree(folder)
    write_onnx_runner(target)


def write_onnx_runner(folder: Path) -> None:
    """Write the script that runs models in the onnxruntime of that folder."""
    packages = folder / "node_modules"
    name = "onnxruntime-web" if (packages / "onnxruntime-web").is_dir() else "onnxruntime-node"
    write_if_changed(folder / "predict.mjs", ONNX_PREDICT)
    write_if_changed(folder / "run.mjs", ONNX_RUNNER.replace("PACKAGE", name))


def onnx_version(folder: Path) -> str:
    """Return the version that an onnxruntime of Node.js names, or raise StepError."""
    write_onnx_runner(folder)
    version = run([find_tool("node"), str(folder / "run.mjs")]).strip()
    if f'"{ONNXRUNTIME_VERSION}"' not in version:
        raise StepError(f"it is {version!r}, not {ONNXRUNTIME_VERSION}")
    return f"onnxruntime {ONNXRUNTIME_VERSION}"


def build_chromium(target: Path, scratch: Path) -> None:
    """Make the folder of a headless browser with its libraries and a font."""
    if sys.platform != "linux" or platform.machine().lower() not in X86_MACHINES[:2]:
        raise StepError("the browser that is packed for npm runs on 64-bit x86 Linux alone")
    packed = npm_install(f"{CHROMIUM_PACKAGE}@{CHROMIUM_VERSION}", scratch) / "bin"
    say("unpacking")
    (target / "bin").mkdir()
    for name, folder in (("al2023", target), ("swiftshader", target / "bin"), ("fonts", target)):
        archive = unpack_brotli(packed / f"{name}.tar.br", scratch / f"{name}.tar")
        with tarfile.open(archive) as files:
            # Python 3.11 has no filter before its fourth release.
            files.extractall(
                folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
            )
    unpack_brotli(packed / "chromium.br", target / "bin" / "chromium").chmod(0o755)
    write_chromium_wrapper(target)


def unpack_brotli(packed: Path, file: Path) -> Path:
    """Unpack a file by Node.js, since Python does not know Brotli."""
    run([find_tool("node"), "-e", UNPACK, str(packed), str(file)], NETWORK_TIMEOUT)
    return file


def write_chromium_wrapper(folder: Path) -> None:
    """Write the shell script that starts the browser with its own libraries and font."""
    write_if_changed(folder / "fonts.conf", CHROMIUM_FONTS)
    write_wrapper(folder / "chromium", CHROMIUM_WRAPPER)


def chromium_version(folder: Path) -> str:
    """Return the version that the browser prints, or raise StepError."""
    write_chromium_wrapper(folder)
    version = run([str(folder / "chromium"), "--version"]).strip()
    if f" {CHROMIUM_VERSION.partition('.')[0]}." not in version:
        raise StepError(f"it is {version!r}, not {CHROMIUM_VERSION}")
    return version


def build_mosquitto(target: Path, scratch: Path) -> None:
    """Make the folder of the MQTT broker, with the libraries that this machine lacks."""
    apt_get = apt_here(scratch)
    needed = with_missing(apt_get, ["mosquitto"])
    # The others are programs that guard it and start it.
    wanted = [name for name in needed if name == "mosquitto" or name.startswith("lib")]
    keep_program(download(apt_get, wanted, scratch), scratch, target, "usr/sbin/mosquitto")


def mosquitto_version(folder: Path) -> str:
    """Return the version that the broker prints, or raise StepError."""
    wrapper = wrap_program(folder, "mosquitto")
    # Asked for help it prints its version, and ends with the code of a failure.
    done = run(["sh", "-c", f'"{wrapper}" -h || true'])
    if not done.startswith("mosquitto version "):
        raise StepError("it does not start")
    return done.splitlines()[0]


# Flower's programs, each the function that it is: pip's scripts name the Python that ran pip.
FLOWER_PROGRAMS = {
    "flower-superexec": "flwr.supercore.cli:flower_superexec",
    "flower-superlink": "flwr.superlink.cli:flower_superlink",
    "flower-supernode": "flwr.supernode.cli:flower_supernode",
    "flwr": "flwr.cli.app:app",
    "flwr-clientapp": "flwr.supernode.cli:flwr_clientapp",
    "flwr-serverapp": "flwr.superlink.cli:flwr_serverapp",
}
FLOWER_WRAPPER = """\
#!/bin/sh
exec "${EDGEFOREST_PYTHON:-python3}" -c 'from MODULE import NAME as main; main()' "$@"
"""


def build_flower(target: Path, scratch: Path) -> None:
    """Make the folder of Flower, without what the tests' own packages have already."""
    find_tool("pip3")
    needed = Path(__file__).with_name("flower.txt")
    say("installing Flower with pip")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    # Compiled when it is imported, and only that part: it is a tenth of the whole.
    options = ["--no-deps", "--no-compile", "--target", str(target), "--requirement", str(needed)]
    run_online([*pip, *options], scratch)
    write_flower_programs(target)


def write_flower_programs(folder: Path) -> None:
    """Write the shell scripts that start Flower's programs with the Python of the tests."""
    for name, function in FLOWER_PROGRAMS.items():
        module, _, function = function.partition(":")
        text = FLOWER_WRAPPER.replace("MODULE", module).replace("NAME", function)
        write_wrapper(folder / "bin" / name, text)


def flower_version(folder: Path) -> str:
    """Return the version of Flower in that folder, or raise StepError if it is another one."""
    write_flower_programs(folder)
    pins = Path(__file__).with_name("flower.txt").read_text(encoding="utf-8")
    name, version = next(line for line in pins.splitlines() if line.startswith("flwr==")).split(
        "=="
    )
    about = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    kernels = list(
        folder.glob(f"grpc/_cython/cygrpc.*-{sys.version_info[0]}{sys.version_info[1]}-*")
    )
    if not (folder / f"{name}-{version}.dist-info").is_dir() or not kernels:
        raise StepError(f"it is not Flower {version} for {about}")
    return f"Flower {version}"


NODE_ADVICE = "it needs Node.js (18 or newer) with npm: install them, or let npm reach its registry"
RUNTIME_LIST = (
    Runtime(
        "micropython-i386",
        i386_version,
        build_i386,
        "it needs an x86 Debian (12 or newer) that reaches its archive; elsewhere "
        "`apt install micropython` gives one whose memory use is not that of a board",
    ),
    Runtime(
        "micropython-wasm",
        wasm_version,
        build_wasm,
        NODE_ADVICE,
    ),
    Runtime("onnxruntime-web", onnx_version, build_onnx_web, NODE_ADVICE),
    Runtime("onnxruntime-node", onnx_version, build_onnx_node, NODE_ADVICE),
    Runtime(
        "chromium",
        chromium_version,
        build_chromium,
        f"{NODE_ADVICE}; elsewhere install Chromium or Chrome, which the tests find by themselves, "
        "or name one in EDGEFOREST_CHROMIUM",
    ),
    Runtime(
        "mosquitto",
        mosquitto_version,
        build_mosquitto,
        "it needs a Debian (12 or newer) that reaches its archive; elsewhere install mosquitto, "
        "which the tests find by themselves, or name one in EDGEFOREST_MOSQUITTO",
    ),
    Runtime("flower", flower_version, build_flower, "it needs pip, and a package index"),
    *BOARD_RUNTIMES,
    *WHEEL_RUNTIMES,
    *MUSL_RUNTIMES,
)


def get_all() -> bool:
    """Get every runtime, each in a process of its own: most of the time goes into waiting."""
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for runtime in RUNTIME_LIST:
            if not runtime.for_tests:
                continue
            for name in runtime.needs:
                started[name].wait()
            command = [sys.executable, __file__, "--strict", runtime.name]
            started[runtime.name] = subprocess.Popen(command)
        for process in started.values():  # one missing runtime does not end the others
            process.wait()
        return not any(process.returncode for process in started.values())
    finally:
        for process in started.values():
            process.terminate()  # those that have ended do not mind
        for process in started.values():
            process.wait()


def main(arguments: list[str] | None = None) -> int:
    """Get every runtime, or the named one, and return the exit code."""
    runtimes = {runtime.name: runtime for runtime in RUNTIME_LIST}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--strict", action="store_true", help="exit 1 if a runtime is missing")
    parser.add_argument("runtime", nargs="?", choices=runtimes, help="only this one")
    given = parser.parse_args(arguments)
    # A plain stop request unwinds like Ctrl-C does, so that temporary folders are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        ready = get_runtime(runtimes[given.runtime]) if given.runtime else get_all()
    except KeyboardInterrupt:
        return 130
    return 1 if given.strict and not ready else 0


if __name__ == "__main__":
    sys.exit(main())
