"""The programs of `firmware/examples/`: on a computer, in a board's heap, and on the emulated board.

What else `gesture.py` does is tested in `test_micropython.py`.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from boards import EXAMPLES, FIRMWARE, PREDICTING, example, promised
from cortex import needs_cortex, run_cortex
from mqtt import CLIENT, Broker
from runtimes import (
    ROOT,
    board_files,
    install,
    needs_board_heap,
    needs_micropython,
    needs_mpy_cross,
    output,
    run,
    run_cpython,
    run_micropython,
    serve,
)

import edgeforest
from edgeforest import storage

# What each program needs beside it.
BESIDE = {
    "machine_watch": (),
    "log_sd_train": ("room.py",),
    "predict_only": ("room.py", "room.json"),
}


def text_of(name: str) -> str:
    return (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")


def put(name: str, folder: Path, *only: str, compiled: bool = True) -> Path:
    """A board, or a folder for CPython, with our files and what a program needs beside it."""
    install(folder, compiled, only)
    for file in BESIDE.get(name, ()):
        shutil.copy(EXAMPLES / file, folder)
    return folder


def promised_heap(name: str) -> int:
    """The heap in kB of an example, from the table in firmware/README.md."""
    return promised(rf"\[`{name}\.py`\][^\n]*\| (\d+) kB \|")


def claimed(name: str) -> float:
    """The accuracy that an example reaches at least, in percent, from the same table."""
    return promised(rf"\[`{name}\.py`\][^\n]*\| (\d+) % \|")


def accuracy(text: str) -> float:
    """The accuracy that a program printed, in percent."""
    found = re.search(r"^Accuracy\D*(\d\.\d+)", text, re.MULTILINE)
    assert found, text
    return 100 * float(found[1])


def without_seconds(text: str) -> str:
    return re.sub(r"seconds=[\d.]+", "seconds", text)


# ---- All of them


@pytest.mark.parametrize("name", BESIDE)
def test_an_example_runs_in_a_checkout(name: str, tmp_path: Path) -> None:
    put(name, tmp_path, compiled=False)  # as from the root folder, without writing into it
    command = [sys.executable, "-B", str(EXAMPLES / f"{name}.py")]
    assert accuracy(output(run(command, tmp_path))) >= claimed(name)


@needs_mpy_cross
@needs_board_heap
@pytest.mark.parametrize("name", BESIDE)
def test_an_example_runs_in_the_heap_that_is_promised(name: str, tmp_path: Path) -> None:
    board = put(name, tmp_path / "board")
    host = put(name, tmp_path / "host", compiled=False)
    text = output(run_micropython(text_of(name), board, f"{promised_heap(name)}k"))
    assert accuracy(text) >= claimed(name)
    expected = output(run_cpython(text_of(name), host))
    assert without_seconds(text) == without_seconds(expected)


@needs_mpy_cross
@needs_cortex
@pytest.mark.parametrize("name", [*BESIDE, "gesture"])
def test_an_example_runs_on_the_emulated_board(name: str, tmp_path: Path) -> None:
    put(name, tmp_path)
    program = text_of(name).replace("FRESH = 100 ", "FRESH = 20 ")  # 60 gestures take long enough
    text = output(run_cortex(program, tmp_path, f"{promised_heap(name)}k"))
    assert accuracy(text) >= claimed(name)


def test_documents_promise_the_same_heap_everywhere() -> None:
    assert promised_heap("gesture") == promised(r"gesture example runs in (\d+) kB of heap")
    documents = ("README.md", "CHANGELOG.md", "firmware/examples/predict_only.py")
    said = promised(r"[Pp]redicts? in (\d+) kB of heap", *documents)
    assert promised_heap("predict_only") == said


# ---- From an empty board to a trained model


def install_by_mip(package: Path, board: Path, root: Path = ROOT) -> None:
    """Let MicroPython's own mip install a package from a web server into `lib/` of a board.

    `root` is the folder that the server has. Sources relative to the package came with mip 0.4: for
    an older one their whole addresses are put into the package.
    """
    found = run_micropython("import mip\nprint(mip.__version__)\n", board, "1M")
    if found.returncode != 0:
        pytest.skip("this MicroPython was built without mip")
    with serve(root) as files, serve(board) as rewritten:
        address = f"{files}/{package.relative_to(root).as_posix()}"
        if tuple(map(int, found.stdout.split("."))) < (0, 4):
            content = json.loads(package.read_text(encoding="utf-8"))
            for pair in content["urls"]:
                pair[1] = f"{address.rpartition('/')[0]}/{pair[1]}"
            (board / "package.json").write_text(json.dumps(content), encoding="utf-8")
            address = f"{rewritten}/package.json"
        script = f"import mip\nmip.install({address!r}, target='lib')\n"
        assert output(run_micropython(script, board, "1M")).splitlines()[-1] == "Done"


@needs_micropython
def test_mip_brings_the_files_and_the_examples_run(tmp_path: Path) -> None:
    package = FIRMWARE / "package.json"
    install_by_mip(package, tmp_path)
    for destination, source in json.loads(package.read_text(encoding="utf-8"))["urls"]:
        assert (tmp_path / "lib" / destination).read_bytes() == (FIRMWARE / source).read_bytes()
    for name, files in BESIDE.items():
        for file in files:
            shutil.copy(EXAMPLES / file, tmp_path)
        script = f"import sys\nsys.path.append('lib')\n{text_of(name)}"
        # From the sources, in the heap of a Pico.
        assert accuracy(output(run_micropython(script, tmp_path, "192k"))) >= claimed(name)


@needs_mpy_cross
@needs_board_heap
@pytest.mark.parametrize(("part", "name"), [("", "log_sd_train"), ("predict/", "predict_only")])
def test_mip_brings_what_was_built_for_boards(part: str, name: str, tmp_path: Path) -> None:
    out, board = tmp_path / "dist", tmp_path / "board"
    board.mkdir()
    for file in BESIDE[name]:
        shutil.copy(EXAMPLES / file, board)
    command = [sys.executable, str(FIRMWARE / "build.py"), "--arch", "bytecode", "--out", str(out)]
    output(run(command))
    (package,) = out.glob(f"*/bytecode/{part}package.json")
    install_by_mip(package, board, out)
    files = {path.stem for path in (board / "lib" / "edgeforest").iterdir()}
    assert files == (set(PREDICTING) if part else {path.stem for path in board_files()})
    script = f"import sys\nsys.path.append('lib')\n{text_of(name)}"
    assert accuracy(output(run_micropython(script, board, "128k"))) >= claimed(name)


def readme_blocks(language: str) -> list[str]:
    """The indented blocks of code under "Five minutes" in firmware/README.md."""
    readme = (FIRMWARE / "README.md").read_text(encoding="utf-8")
    steps = readme.partition("## Five minutes")[2].partition("\n## ")[0]
    found = re.findall(rf"^   ```{language}\n(.*?)^   ```$", steps, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for block in found]


def test_the_readme_shows_what_one_sees(tmp_path: Path) -> None:
    put("machine_watch", tmp_path, compiled=False)
    lines = output(run_cpython(text_of("machine_watch"), tmp_path)).splitlines()
    (shown,) = readme_blocks("text")
    begin, dots, end = shown.partition("...\n")
    assert dots
    assert lines[: begin.count("\n")] == begin.splitlines()
    assert lines[-1:] == end.splitlines()


def test_the_sensor_in_the_readme_is_one(tmp_path: Path) -> None:
    put("machine_watch", tmp_path, compiled=False)
    (piezo,) = readme_blocks("python")
    fake = """
import machine_watch as program
import sys
import time

class machine:
    class ADC:
        def __init__(self, pin):
            self.values = iter([0, 32768, 65535, 16384])

        def read_u16(self):
            return next(self.values)

sys.modules["machine"] = machine
time.sleep = time.sleep_ms = lambda n: None
STATES = program.STATES
"""
    use = """
sensor = Piezo()
sensor.begin(1)
print(sensor.simulated, [sensor.read() for _ in range(4)])
"""
    shutil.copy(EXAMPLES / "machine_watch.py", tmp_path)
    assert output(run_cpython(fake + piezo + use, tmp_path)).splitlines() == [
        "Next: running - recording begins in 10 seconds",
        "False [-32768, 0, 32767, -16384]",
    ]


# ---- log_sd_train.py

# The power fails as soon as the program prints this.
CUT = """
import sys
import log_sd_train as program

def cut(*words):
    text = " ".join([str(word) for word in words])
    print(text)
    if text.startswith(sys.argv[1]):
        sys.exit()

program.print = cut
program.main()
"""


@pytest.fixture
def logging(tmp_path: Path) -> Path:
    """A folder for CPython with the program as a module."""
    shutil.copy(EXAMPLES / "log_sd_train.py", tmp_path)
    return put("log_sd_train", tmp_path, compiled=False)


def is_the_model_of_the_examples(path: Path) -> bool:
    """Whether a model is `room.json`, but for what a training notes at its end."""
    return storage.load(path).to_json() == (EXAMPLES / "room.json").read_text().strip()


def test_the_model_that_comes_with_the_examples_is_the_one_of_the_log(logging: Path) -> None:
    output(run_cpython(CUT, logging, ["never"]))
    assert is_the_model_of_the_examples(logging / "model.json")


def test_the_log_is_a_file_of_numpy(logging: Path) -> None:
    output(run_cpython(CUT, logging, ["The log has"]))
    table = np.load(logging / "simulated.npy")
    assert table.shape == (4000, 4)
    sensors = example("room").Simulated()
    row = bytearray(3)
    for expected in table[:500]:
        sensors.read(row)
        assert expected.tolist() == [*row, sensors.somebody()]


def test_a_log_that_was_cut_short_is_continued(logging: Path) -> None:
    output(run_cpython(CUT, logging, ["Recorded 2000"]))
    assert not (logging / "simulated.npy").exists()
    part = logging / "simulated.npy.part"
    before = part.read_bytes()
    assert len(before) == 128 + 4 * 2000
    part.write_bytes(before[:-1])  # half a row
    text = output(run_cpython(CUT, logging, ["The log has"]))
    assert "Recorded 0 " not in text
    after = (logging / "simulated.npy").read_bytes()
    assert after[: len(before) - 4] == before[:-4]
    assert len(after) == 128 + 4 * 4000


@pytest.mark.parametrize("size", [0, 127, 130])
def test_a_log_that_was_cut_short_at_its_head_is_begun_again(logging: Path, size: int) -> None:
    output(run_cpython(CUT, logging, ["Recorded 1000"]))
    part = logging / "simulated.npy.part"
    part.write_bytes(part.read_bytes()[:size])
    program = text_of("log_sd_train").replace("ROWS = 4000", "ROWS = 300")
    output(run_cpython(program, logging))
    assert np.load(logging / "simulated.npy").shape == (300, 4)


def test_a_log_of_somebody_else_is_not_touched(logging: Path) -> None:
    log = logging / "log.npy"
    log.write_bytes(b"not a table of numbers")
    done = run_cpython(CUT, logging, ["never"])
    assert "ValueError: log.npy is not a .npy file" in done.stderr
    assert log.read_bytes() == b"not a table of numbers"


def test_a_log_from_elsewhere_takes_the_place_of_a_simulated_one(logging: Path) -> None:
    assert "The log has 4000 rows" in output(run_cpython(CUT, logging, ["never"]))
    table = np.arange(600, dtype=np.uint8)[:, None] // [1, 2, 3, 128]
    np.save(logging / "log.npy", table.astype(np.uint8))
    text = output(run_cpython(CUT, logging, ["never"]))
    assert "The log has 600 rows\nmodel.json was trained on other rows: training anew" in text
    assert accuracy(text) == 100
    assert "Recorded" not in text


@needs_mpy_cross
@needs_micropython
def test_training_goes_on_after_power_cuts_with_the_same_model(tmp_path: Path) -> None:
    board = put("log_sd_train", tmp_path)
    shutil.copy(EXAMPLES / "log_sd_train.py", board)
    for stop, since in (("Tree 1", ""), ("Tree 3", "Going on after tree 1"), ("never", "tree 3")):
        text = output(run_micropython(CUT, board, "128k", [stop]))
        assert since in text
        assert storage.load(board / "model.json").predict([100, 160, 120]) in (0, 1)
    assert "Tree 3" not in text
    assert "Tree 4" in text
    assert is_the_model_of_the_examples(board / "model.json")
    again = output(run_micropython(CUT, board, "128k", ["never"]))
    assert "Tree" not in again
    assert accuracy(again) == accuracy(text)


# A card with a FAT, that loses what was not written to it when the power fails.
FAT = """
import os, sys, vfs
import log_sd_train as program

class Card:
    def __init__(self, data):
        self.data = bytearray(data)

    def readblocks(self, block, buffer):
        buffer[:] = self.data[block * 512 : block * 512 + len(buffer)]

    def writeblocks(self, block, buffer):
        self.data[block * 512 : block * 512 + len(buffer)] = buffer

    def ioctl(self, command, argument):
        return {4: len(self.data) // 512, 5: 512}.get(command, 0)

class machine:
    SPI = Pin = None

sys.modules["machine"] = machine
card = Card(bytes(200 * 512))
vfs.VfsFat.mkfs(card)
for stop in sys.argv[1:]:
    def cut(*words):
        text = " ".join([str(word) for word in words])
        print(text)
        if text.startswith(stop):
            left.append(bytes(card.data))
            raise SystemExit
    left = []
    machine.SDCard = lambda: card
    program.print = cut
    try:
        program.main()
    except SystemExit:
        print("cut")
    if not left:
        print(os.stat("/sd/simulated.npy")[6], sorted(os.listdir("/sd")))
    vfs.umount("/sd")
    if left:
        card = Card(left[0])
"""


@needs_mpy_cross
@needs_micropython
def test_a_card_with_a_fat_keeps_the_log_and_the_trees(tmp_path: Path) -> None:
    board = put("log_sd_train", tmp_path)
    shutil.copy(EXAMPLES / "log_sd_train.py", board)
    stops = ["Recorded 3000", "Recorded 3000", "The log has", "Tree 2", "Tree 4", "never"]
    text = output(run_micropython(FAT, board, "1M", stops))
    runs = text.split("cut\n")
    assert len(runs) == len(stops)
    assert "Recorded 0 " in runs[0]
    assert "Recorded" not in runs[1].partition("Recorded 3000")[0]  # it had 2,951 rows or more
    assert "Recorded" not in "".join(runs[3:])
    assert "Going on after tree 2" in runs[4]
    assert "Going on after tree 4" in runs[5]
    assert runs[5].endswith("16128 ['model.json', 'simulated.npy']\n")
    assert accuracy(runs[5]) >= claimed("log_sd_train")


CARDS = {
    "a slot": ("machine.SDCard = lambda: 'slot'", "slot"),
    "a module on SPI": (
        "sys.modules['sdcard'] = sdcard = Module()\nsdcard.SDCard = lambda spi, pin: (spi, pin)",
        "((0, 18, 19, 16), 17)",
    ),
}


@pytest.mark.parametrize(("fake", "card"), CARDS.values(), ids=CARDS)
def test_a_card_is_mounted_where_there_is_one(logging: Path, fake: str, card: str) -> None:
    script = f"""
import sys
class Module:
    pass
sys.modules["machine"] = machine = Module()
sys.modules["vfs"] = vfs = Module()
machine.SPI = lambda number, sck, mosi, miso: (number, sck, mosi, miso)
machine.Pin = lambda number: number
mounted = []
vfs.mount = lambda card, folder: mounted.append((folder, str(card)))
{fake}
import log_sd_train as program
program.os.listdir = lambda folder: [folder[1:] for folder, _ in mounted]
print(program.find_card(), mounted)
print(program.find_card(), len(mounted))
def broken(*_):
    raise OSError(5)
mounted.clear()
vfs.mount = broken
print(repr(program.find_card()))
"""
    first, second, *last = output(run_cpython(script, logging)).splitlines()
    assert first == f"/sd/ [('/sd', {card!r})]"
    assert second == "/sd/ 1"
    assert last == ["No card found: the files are here", "''"]


# ---- room.py and predict_only.py

MACHINE = """
class Pin:
    IN = PULL_UP = 1

    def __init__(self, number, *_):
        self.number = number

    def value(self):
        return 0 if self.number == 15 else 1

class I2C:
    light, air = bytes(2), bytes(6)

    def __init__(self, number, sda, scl):
        if (number, sda.number, scl.number) != (0, 4, 5):
            raise ValueError("no such pins")
        self.sent = []

    def writeto(self, address, data):
        self.sent.append((address, bytes(data)))

    def readfrom(self, address, count):
        if (0x23, b"\\x10") not in self.sent or self.sent[-1] != (0x38, b"\\xac\\x33\\x00"):
            raise OSError(5)
        return {0x23: self.light, 0x38: self.air}[address][:count]
"""


def test_the_room_is_read_from_real_sensors_where_there_are_some(tmp_path: Path) -> None:
    put("predict_only", tmp_path, compiled=False)
    (tmp_path / "machine.py").write_text(MACHINE, encoding="utf-8")
    script = """
import time
time.sleep_ms = lambda ms: None
import machine
import room
sensors = room.find_sensors()
row = bytearray(3)
for lux, celsius, percent in ((0, -50, 0), (700, 20.5, 40), (1690, 40.9, 99.9), (54612, 149, 100)):
    count = int(lux * 1.2)
    machine.I2C.light = bytes([count >> 8, count & 255])
    t = int((celsius + 50) / 200 * (1 << 20))
    h = min((1 << 20) - 1, int(percent / 100 * (1 << 20)))
    machine.I2C.air = bytes([0x1C, h >> 12, h >> 4 & 255, (h & 15) << 4 | t >> 16, t >> 8 & 255, t & 255])
    sensors.read(row)
    print(list(row), sensors.somebody())
"""
    lines = output(run_cpython(script, tmp_path)).splitlines()
    assert lines == ["[0, 0, 0] 1", "[105, 152, 102] 1", "[253, 254, 255] 1", "[255, 255, 255] 1"]


def test_a_model_and_readings_that_are_real_are_watched_for_ever(tmp_path: Path) -> None:
    put("predict_only", tmp_path, compiled=False)
    shutil.copy(EXAMPLES / "predict_only.py", tmp_path)
    rows = [[i, 140, 90] for i in range(200)]
    edgeforest.train(rows, [int(i > 99) for i in range(200)]).save(tmp_path / "model.json")
    script = """
import predict_only as program

class Real:
    simulated = False
    turn = 0

    def read(self, row):
        self.turn += 1
        if self.turn > 3000:
            raise SystemExit
        row[0], row[1], row[2] = 40 + self.turn // 1000 % 2 * 100, 140, 90

    def somebody(self):
        return 0

program.find_sensors = lambda seed: Real()
program.main()
"""
    assert output(run_cpython(script, tmp_path)).splitlines() == [
        "Loaded model.json with 20 trees",
        "light 140 temperature 140 humidity 90: somebody",
        "light 40 temperature 140 humidity 90: nobody",
        "light 140 temperature 140 humidity 90: somebody",
    ]


def test_without_a_model_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    put("predict_only", tmp_path, compiled=False)
    (tmp_path / "room.json").unlink()
    done = run_cpython(text_of("predict_only"), tmp_path)
    assert done.returncode == 1
    assert "OSError: there is no model here; copy one: mpremote cp firmware/" in done.stderr


@needs_mpy_cross
@needs_micropython
def test_predict_only_needs_two_of_our_files(tmp_path: Path) -> None:
    board = put("predict_only", tmp_path, *PREDICTING)
    assert accuracy(output(run_micropython(text_of("predict_only"), board))) >= claimed(
        "predict_only"
    )


@needs_mpy_cross
@needs_micropython
def test_predict_only_reads_and_predicts_without_allocation(tmp_path: Path) -> None:
    board = put("predict_only", tmp_path)
    shutil.copy(EXAMPLES / "predict_only.py", board)
    script = """
import micropython
import predict_only as program
program.print = lambda *words, end="": None
forest = program.find_model()

class Locked(program.find_sensors(seed=3).__class__):
    turns = 0

    def somebody(self):
        self.turns += 1
        if self.turns == 200:  # nothing is printed any more
            micropython.heap_lock()
        return self.here

sensors = Locked(3)
right = 0  # a new name would need room
right = program.watch(sensors, forest)
micropython.heap_unlock()
print(sensors.turns, right > 800)
"""
    assert output(run_micropython(script, board)).endswith("1000 True\n")


# ---- machine_watch.py

WATCH = """
import sys
import machine_watch as program
program.BROKER, program.PORT = "127.0.0.1", int(sys.argv[1])
program.PATIENCE, program.PAUSE = 0.05, float(sys.argv[2])
program.main()
"""
STATES = ("off", "running", "unbalanced", "worn")


@pytest.fixture
def watching(tmp_path: Path) -> Path:
    """A board with the program as a module, and a client for MQTT."""
    put("machine_watch", tmp_path)
    shutil.copy(EXAMPLES / "machine_watch.py", tmp_path)
    (tmp_path / "umqtt").mkdir()
    (tmp_path / "umqtt" / "simple.py").write_text(CLIENT, encoding="utf-8")
    return tmp_path


def said(text: str) -> list[str]:
    """The lines that are to be published."""
    return [line for line in text.splitlines() if line in STATES or line.startswith("learned tree")]


def watched(board: Path, port: int, pause: str = "0") -> str:
    """What the program prints with a broker at a port; it has learned and watched to the end."""
    text = output(run_micropython(WATCH, board, "128k", [str(port), pause]))
    assert accuracy(text) >= claimed("machine_watch")
    assert edgeforest.load(board / "simulated.json").names[0] == "x deviation 64/32/8"
    return text


@needs_mpy_cross
@needs_micropython
def test_every_new_state_of_a_machine_is_published(watching: Path) -> None:
    with Broker() as broker:
        text = watched(watching, broker.port)
    assert broker.clients == ["edgeforest"]
    assert [line for _, line, _ in broker.published] == said(text)
    assert {(topic, retained) for topic, _, retained in broker.published} == {
        ("workshop/fan", True)
    }
    assert said(text)[:5] == [f"learned tree {i} of 5" for i in range(1, 6)]
    assert set(said(text)[5:]) == set(STATES)
    assert "away" not in text


@needs_mpy_cross
@needs_micropython
@pytest.mark.parametrize("manner", ["silent", "strict", "fickle"])
def test_a_broker_that_behaves_badly_stops_neither_learning_nor_watching(
    watching: Path, manner: str
) -> None:
    with Broker(manner) as broker:
        text = watched(watching, broker.port)
    lines = [line for _, line, _ in broker.published]
    assert len(broker.clients) > 1  # it was tried again
    assert "The broker is away" in text
    if manner == "fickle":
        assert len(lines) > 2
        assert set(lines) <= set(said(text))
    else:
        assert not lines


@needs_mpy_cross
@needs_micropython
def test_a_broker_that_is_away_is_not_asked_again_at_once(watching: Path) -> None:
    with Broker() as broker:
        port = broker.port
    text = watched(watching, port, "3600")
    assert text.count("The broker is away") == 1
    assert len(said(text)) > 10


@needs_mpy_cross
@needs_micropython
def test_a_board_without_a_client_for_mqtt_says_so_and_watches(watching: Path) -> None:
    shutil.rmtree(watching / "umqtt")
    text = watched(watching, 1)
    assert "Nothing will be published: no module named 'umqtt" in text


@needs_mpy_cross
@needs_micropython
def test_what_was_learned_is_there_after_a_restart(watching: Path) -> None:
    assert "learned tree 5 of 5" in watched(watching, 1, "3600")
    model = (watching / "simulated.json").read_bytes()
    for name in ("core_pure", "nodes", "writer"):  # it needs none of them any more
        (watching / "edgeforest" / f"{name}.mpy").unlink()
    text = watched(watching, 1, "3600")
    assert "learned" not in text
    assert (watching / "simulated.json").read_bytes() == model


def test_a_radio_is_asked_to_join_and_not_waited_for(tmp_path: Path) -> None:
    put("machine_watch", tmp_path, compiled=False)
    shutil.copy(EXAMPLES / "machine_watch.py", tmp_path)
    script = """
import sys
import machine_watch as program

class network:
    STA_IF = 7

    class WLAN:
        calls = []
        joined = False

        def __init__(self, kind):
            self.calls.append(kind)

        def active(self, on):
            self.calls.append(on)

        def connect(self, *given):
            self.calls.append(given)

        def isconnected(self):
            return self.joined

class simple:
    class MQTTClient:
        sent = []

        def __init__(self, *given):
            self.sent.append(given)

        def connect(self, timeout):
            self.sent.append(timeout)

        def publish(self, *given):
            self.sent.append(given)

sys.modules["network"] = network
sys.modules["umqtt"] = sys.modules["umqtt.simple"] = simple
program.WIFI, program.PASSWORD, program.BROKER = "home", "secret", "10.0.0.9"
publisher = program.Publisher()
publisher.say("off")
network.WLAN.joined = True
publisher.say("running")
publisher.say("worn")
print(network.WLAN.calls, simple.MQTTClient.sent)
"""
    assert output(run_cpython(script, tmp_path)).splitlines() == [
        "off",
        "running",
        "worn",
        "[7, True, ('home', 'secret')] [(b'edgeforest', '10.0.0.9', 1883), 2, "
        "(b'workshop/fan', b'running', True), (b'workshop/fan', b'worn', True)]",
    ]


# A bus with an MPU6050 that is fixed to a fan: who is asked for a state sets the fan to it.
BUS = """
import sys
import time
import machine_watch as program

fan = program.Simulated()
reads = 0

class machine:
    Pin = int

    class I2C:
        def __init__(self, number, sda, scl):
            if (number, sda, scl) != (0, 4, 5):
                raise ValueError("no such pins")
            self.awake = False

        def writeto_mem(self, *given):
            self.awake = given == (0x68, 0x6B, bytes(1))

        def readfrom_mem_into(self, address, register, data):
            global reads
            if not self.awake or (address, register) != (0x68, 0x3B):
                raise OSError(5)
            reads += 1
            if reads == 20000:
                raise SystemExit
            data[:] = (fan.read() & 0xFFFF).to_bytes(2, "big")

def say(*words):
    print(*words)
    if words[0] == "Next:":
        fan.begin(program.STATES.index(words[1]))

sys.modules["machine"] = machine
time.sleep = time.sleep_ms = lambda n: None
program.print = say
program.main()
"""


def test_a_machine_is_watched_with_a_real_sensor_where_there_is_one(tmp_path: Path) -> None:
    put("machine_watch", tmp_path, compiled=False)
    shutil.copy(EXAMPLES / "machine_watch.py", tmp_path)
    assert output(run_cpython(BUS, tmp_path)).splitlines() == [
        *(f"Next: {state} - recording begins in 10 seconds" for state in STATES),
        *(f"learned tree {i} of 5" for i in range(1, 6)),
        "Watching with 5 trees",
        "worn",  # as it was left
    ]
    assert (tmp_path / "machine.json").exists()
    script = BUS.replace("program.main()", "fan.begin(0)\nprogram.main()")
    text = output(run_cpython(script, tmp_path))
    assert text == "Watching with 5 trees\noff\n"


@needs_mpy_cross
@needs_micropython
def test_vibration_is_read_and_judged_without_allocation(watching: Path) -> None:
    script = """
import micropython
import machine_watch as program
sensor = program.Simulated()
forest = program.learn(sensor, program.Publisher())
windows = program.Windows.of(forest)
votes = [0] * forest.n_votes
def judge():
    sensor.begin(0)
    windows.clear()
    program.read_window(sensor, windows)
    return forest.predict_into(windows.row, votes)
seen = -1
micropython.heap_lock()
seen = judge()
micropython.heap_unlock()
print(program.STATES[seen])
"""
    assert output(run_micropython(script, watching, "128k")).endswith("\noff\n")
