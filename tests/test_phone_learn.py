"""A phone learns gestures in a real browser: its page, its worker, and MicroPython in WebAssembly.

No phone is here: its sensor is simulated, with other speed, force, trembling and way of holding it in
each recording. What the page learns and says is compared with CPython, bit for bit.
"""

from __future__ import annotations

import csv
import doctest
import hashlib
import json
import random
import shutil
import ssl
import subprocess
import sys
import time
import urllib.request
from array import array
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from phone_pages import (
    GESTURES,
    PHONE,
    Reading,
    complaints,
    learn_here,
    load_module,
    motion,
    on_grid,
    phone,
    take_pictures,
    text,
)
from runtimes import (
    ROOT,
    TIMEOUT,
    Browser,
    needs,
    needs_browser,
    needs_wasm,
    serve,
)

from edgeforest import cli, load
from edgeforest.export import to_onnx

LEARN = PHONE / "learn"
EACH = 30


@pytest.fixture(scope="module")
def make() -> ModuleType:
    return load_module(LEARN / "make.py", "phone_learn_make")


@pytest.fixture(scope="module")
def gestures() -> ModuleType:
    return load_module(LEARN / "gestures.py", "gestures")


@pytest.fixture(scope="module")
def folder(make: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("learn")
    make.make(out)
    return out


@pytest.fixture(scope="module")
def one_browser() -> Iterator[Browser]:
    with phone() as browser:
        yield browser


@pytest.fixture
def page(one_browser: Browser, folder: Path, tmp_path: Path) -> Iterator[Page]:
    """The page, from a server of its own: so it begins with nothing kept."""
    with serve(folder) as address:
        yield Page(one_browser, address, tmp_path)
        one_browser.open("about:blank#left")  # ends the page and its worker


class Page:
    """The page as a user meets it."""

    # The time of an event is when it happened; here a minute goes by at once.
    FIRE = """
window.fire = (readings) => {
  for (const [x, y, z, time] of readings) {
    const event = new DeviceMotionEvent("devicemotion", {accelerationIncludingGravity: {x, y, z}});
    Object.defineProperty(event, "timeStamp", {value: time});
    window.dispatchEvent(event);
  }
};
window.hold = (place, readings) => {
  const button = document.querySelectorAll(".hold")[place];
  button.focus();
  button.dispatchEvent(new KeyboardEvent("keydown", {key: " ", bubbles: true}));
  window.fire(readings);
  button.dispatchEvent(new KeyboardEvent("keyup", {key: " ", bubbles: true}));
};
window.heard = [];
for (const kind of ["answer", "learned"]) {
  document.addEventListener(`forest:${kind}`, ({detail}) => window.heard.push(detail));
}
"""

    def __init__(self, browser: Browser, address: str, folder: Path) -> None:
        self.browser, self.address, self.folder = browser, address, folder
        browser.events.clear()
        browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        self.open()

    def open(self) -> None:
        self.browser.open(f"{self.address}/")
        self.browser.evaluate(self.FIRE)
        self.wait("document.querySelector('.hold')")

    def wait(self, condition: str) -> None:
        self.browser.wait(f"Boolean({condition})")

    def click(self, element: str) -> None:
        self.browser.evaluate(f"document.getElementById('{element}').click()")

    def text(self, element: str) -> str:
        return str(text(self.browser, element))

    def fire(self, readings: list[Reading]) -> None:
        self.browser.evaluate(f"fire({json.dumps(readings)})")

    def record(self, place: int, readings: list[Reading]) -> None:
        """Hold the button of a gesture while the phone moves."""
        self.browser.evaluate(f"hold({place}, {json.dumps(readings)})")

    def rename(self, place: int, label: str) -> None:
        self.browser.evaluate(
            f"((input) => {{ input.value = {json.dumps(label)}; "
            "input.dispatchEvent(new Event('change')); })"
            f"(document.querySelectorAll('#gestures input')[{place}])"
        )

    def problem(self) -> str:
        """The sentence that the page complains with."""
        self.wait("!document.getElementById('problem').hidden")
        return self.text("problem")

    def learn(self, seconds: int = 100_000) -> dict[str, Any]:
        """Learn to the end; what the worker reports. The time is never the limit here."""
        self.browser.evaluate(
            "document.getElementById('seconds').replaceChildren("
            f"new Option('', '{seconds}', true, true))"  # on a busy computer two minutes are short
        )
        self.click("learn")
        self.wait("heard.some(({kind}) => kind === 'learned')")
        found: dict[str, Any] = self.browser.evaluate(
            "heard.splice(0).findLast(({kind}) => kind === 'learned')"
        )
        return found

    def download(self, element: str, name: str) -> Path:
        self.click(element)
        path = self.folder / name
        until = time.monotonic() + TIMEOUT
        while not path.is_file():  # it has another name until it is complete
            assert time.monotonic() < until, f"{name} never came"
            time.sleep(0.02)
        return path

    def open_file(self, path: Path) -> None:
        """Choose a file, as a user does."""
        root = self.browser.call("DOM.getDocument")["root"]["nodeId"]
        node = self.browser.call("DOM.querySelector", nodeId=root, selector="#open-file")["nodeId"]
        self.browser.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)


# ---- Motion -----------------------------------------------------------------------------------


def motions(seed: int, each: int) -> list[tuple[int, list[Reading]]]:
    """Recordings in the order of their time, with a pause before each: (gesture, readings)."""
    r = random.Random(seed)
    return [
        (i % len(GESTURES), motion(GESTURES[i % len(GESTURES)], r, 10_000.0 * (i + 1)))
        for i in range(each * len(GESTURES))
    ]


def flat(recordings: list[dict[str, Any]]) -> list[tuple[str, array[int]]]:
    """The recordings of a file of the page."""
    return [
        (found["gesture"], array("h", [v for sample in found["samples"] for v in sample]))
        for found in recordings
    ]


# ---- The page ---------------------------------------------------------------------------------


@needs_browser
@needs_wasm
def test_a_phone_learns_three_gestures(page, gestures, figure):
    """From the sensor to the model: samples, score, model and answers are those of CPython."""
    given = motions(5, EACH)
    for place in (2, 1, 0):  # the last is free, then
        page.rename(place, GESTURES[place])
    for place, readings in given:
        page.record(place, readings)
    assert page.text("source") == "motion sensor"
    learned = page.learn()

    path = page.download("save-json", "recordings.json")
    recordings = flat(json.loads(path.read_text(encoding="utf-8"))["recordings"])
    assert recordings == [(GESTURES[place], on_grid(readings)) for place, readings in given]
    here = learn_here(gestures, recordings)
    assert learned["tested"] == here.tested == EACH * len(GESTURES)
    assert learned["right"] == here.right >= 0.95 * here.tested
    assert [tuple(found) for found in learned["wrong"]] == here.wrong
    assert page.text("outof").startswith(f"{here.right} of {here.tested} recordings")

    model = page.download("download", "gestures.json")
    assert model.read_text(encoding="utf-8").strip() == here.forest.to_json()
    forest = load(model)
    assert [*forest.classes] == sorted(GESTURES)

    said, rows, expected = live(page, gestures, forest, motions(6, 8))
    assert said == expected
    assert len({label for label, _ in said}) == len(GESTURES)
    assert forest.predict(rows) == [forest.classes[best] for best, _ in said]
    check_onnx(forest, rows)
    assert complaints(page.browser) == []
    figure(
        f"{here.right} of {here.tested} left-out recordings right; {learned['total']:.1f} s of "
        f"WebAssembly to read the recordings, train and test, {learned['seconds']:.1f} s of them after "
        f"the tap; {len(said)} live answers and a model of {model.stat().st_size} bytes as in CPython"
    )


def live(
    page: Page, gestures: ModuleType, forest: Any, given: list[tuple[int, list[Reading]]]
) -> tuple[list[Any], list[Any], list[Any]]:
    """What the page says of new motion; the rows of its windows, and what a Watcher says here."""
    rows, expected = [], []
    for _, readings in given:
        watcher = gestures.Watcher(forest)
        samples = on_grid(readings)
        for at in range(0, len(samples), 3):
            best = watcher.push(*samples[at : at + 3])
            if best is not None:
                rows.append(list(watcher.windows.row))
                expected.append((best, list(watcher.votes)))
    later = 10_000_000  # a second after a second: the sensor's clock goes on
    for _, readings in given:
        page.fire([(x, y, z, t + later) for x, y, z, t in readings])
    page.wait(f"heard.length >= {len(expected)}")
    said = [(answer["best"], answer["votes"]) for answer in page.browser.evaluate("heard")]
    shown = forest.classes[said[-1][0]]
    page.wait(f"document.getElementById('label').textContent === {json.dumps(shown)}")
    return said, rows, expected


def check_onnx(forest: Any, rows: list[Any]) -> None:
    """The names and shapes that examples/phone/README.md gives, and the same answers."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(to_onnx(forest).SerializeToString())
    assert [(given.name, given.shape[1]) for given in session.get_inputs()] == [
        ("X", len(forest.names))
    ]
    assert [found.name for found in session.get_outputs()] == ["label", "probabilities"]
    X = np.array(rows, np.float32)
    label, probabilities = session.run(None, {"X": X})
    assert label.tolist() == forest.predict(rows)
    assert probabilities.tobytes() == np.float32(forest.predict_proba(rows)).tobytes()


@needs_browser
@needs_wasm
def test_the_page_opens_without_its_server_and_remembers(
    one_browser, folder, gestures, tmp_path, capsys
):
    """Offline: recordings, model and all; the rows are a log that `edgeforest train` takes."""
    with serve(folder) as address:
        page = Page(one_browser, address, tmp_path)
        for place, readings in motions(7, 4):
            page.record(place, readings)
        first = page.learn()
        page.wait("document.getElementById('offline').textContent.includes('without a network')")
    page.open()  # the server is gone
    page.wait("document.getElementById('learn').textContent.includes('12 recordings')")
    assert page.text("outof").startswith(f"{first['right']} of 12")
    page.fire(motion("shake", random.Random(1), 1e6))
    page.wait("heard.length")
    assert page.learn()["model"] == first["model"]

    log = page.download("save-csv", "gestures.csv")
    with open(log, newline="", encoding="utf-8") as stream:
        head, *lines = csv.reader(stream)
    assert head == [*gestures.windows().names, "recording", "gesture"]
    assert len(lines) == first["rows"]
    out = str(tmp_path / "model.json")
    options = ["--target", "gesture", "--group", "recording", "--json", "--out", out]
    assert cli.main(["train", str(log), *options]) == 0
    assert load(out).classes == ["circle", "hold still", "shake"]
    assert json.loads(capsys.readouterr().out)
    one_browser.open("about:blank#left")
    assert complaints(one_browser) == []


@needs_browser
@needs_wasm
def test_labels_and_files_are_hostile(page, tmp_path):
    """Labels are text wherever they appear, and a file is refused unless it is one of ours."""
    nasty = ['<img src=x onerror="1">', "a,\"b'=1 \\u2028&amp;", "\ud83d\ude00 日本 \\n\x07x"]
    for place, label in enumerate(nasty):
        page.rename(place, label)
    kept = page.browser.evaluate(
        "[...document.querySelectorAll('#gestures input')].map(({value}) => value)"
    )
    assert kept == [nasty[0], nasty[1], "\U0001f600 日本 \\n x"]
    for place, readings in motions(8, 3):
        page.record(place, readings)
    page.browser.evaluate("document.getElementById('all').open = true")
    learned = page.learn()
    forest = load(learned["model"])
    assert forest.classes == sorted(kept)
    page.wait("document.querySelectorAll('#recordings li').length === 9")
    assert page.browser.evaluate("document.querySelectorAll('img, script:not([src])').length") == 0
    assert page.browser.evaluate(
        "[...document.querySelectorAll('#shares li span:first-child')].map((e) => e.textContent)"
    ) == sorted(kept)

    page.rename(1, kept[0])
    assert page.problem() == f"There is a gesture “{kept[0]}” already."
    saved = page.download("save-json", "recordings.json")
    good = json.loads(saved.read_text(encoding="utf-8"))
    one = {"gesture": "jump", "samples": [[i, 2, 3] for i in range(50)]}
    for change in (
        {"recordings": [{**one, "gesture": 5}]},
        {"recordings": [{**one, "samples": one["samples"][:49]}]},
        {"recordings": [{**one, "samples": [[1.5, 2, 3]] * 60}]},
        {"recordings": [{**one, "samples": [[40000, 2, 3]] * 60}]},
        {"recordings": [one, None]},
        {"hertz": 100},
        {"recordings": {"length": 1}},
    ):
        bad = tmp_path / "bad.json"
        bad.write_text(json.dumps({**good, **change}), encoding="utf-8")
        page.browser.evaluate("document.getElementById('problem').hidden = true")
        page.open_file(bad)
        assert page.problem().startswith("This file has no recordings of this page")
    more = tmp_path / "more.json"
    more.write_text(json.dumps({**good, "recordings": [one, one]}), encoding="utf-8")
    page.open_file(more)
    page.wait("document.getElementById('learn').textContent.includes('11 recordings')")
    assert page.browser.evaluate("document.querySelectorAll('#gestures li').length") == 4
    assert complaints(page.browser) == []


@needs_browser
@needs_wasm
def test_what_goes_wrong_is_said_in_a_sentence(page):
    page.record(0, motion("shake", random.Random(1), 1e4)[:30])
    assert page.problem() == "That was too short (0.5 s): hold the button for more than a second."
    page.record(0, [])
    assert page.problem() == "The sensor gave no readings while you held the button."
    page.record(0, motion("shake", random.Random(1), 2e4))
    assert page.browser.evaluate("document.getElementById('problem').hidden")
    page.click("learn")
    assert page.problem().startswith("Record at least two gestures")
    page.record(1, motion("circle", random.Random(1), 4e4))
    page.click("learn")
    assert page.problem() == "Record “circle” at least twice, better ten times."
    for i in range(4):
        page.record(i % 2, motion(GESTURES[i % 2], random.Random(i), 1e5 + 1e4 * i))
    page.browser.evaluate(  # before the worker has done a slice of the work
        "document.getElementById('learn').click(); document.getElementById('cancel').click()"
    )
    page.wait("document.getElementById('noted').textContent.startsWith('Cancelled')")
    assert page.browser.evaluate("document.getElementById('score').hidden")
    assert page.learn()["tested"] == 6
    page.browser.evaluate("DeviceMotionEvent.requestPermission = async () => 'denied'")
    page.browser.evaluate("document.getElementById('sensor').onclick()")
    assert page.problem().startswith("The motion sensor was refused")
    assert complaints(page.browser) == []


@needs_browser
@needs_wasm
def test_without_a_sensor_motion_is_simulated_and_held_buttons_record_it(page, tmp_path):
    """A mouse on a computer; the example; pictures, light and dark."""
    page.wait("document.getElementById('source').textContent === 'simulated'")
    x, y = page.browser.evaluate(
        "((box) => [box.x + box.width / 2, box.y + box.height / 2])"
        "(document.querySelector('.hold').getBoundingClientRect())"
    )
    mouse = {"x": x, "y": y, "button": "left", "clickCount": 1}
    page.browser.call("Input.dispatchMouseEvent", type="mousePressed", **mouse)
    page.wait("parseFloat(document.querySelector('.hold.recording')?.textContent) > 1")
    page.browser.call("Input.dispatchMouseEvent", type="mouseReleased", **mouse)
    page.wait("document.getElementById('noted').textContent.startsWith('Kept 1')")
    page.click("example")
    page.wait("document.getElementById('learn').textContent.includes('91 recordings')")
    labels = page.browser.evaluate(
        "[...document.querySelectorAll('#gestures input')].map(({value}) => value)"
    )
    assert labels == ["shake", "circle", "nod"]
    take_pictures(
        page.browser, "learn", tmp_path, 40, lambda: page.browser.evaluate("scrollTo(0, 0)")
    )
    named = page.browser.evaluate(
        "[...document.querySelectorAll('button, input, select, progress')].every((e) => "
        "e.textContent.trim() || e.ariaLabel || e.labels?.length || e.ariaLabelledByElements)"
    )
    assert named
    assert complaints(page.browser) == []


# ---- Without a browser ------------------------------------------------------------------------


def test_the_files_of_the_page_run_in_cpython(gestures):
    assert doctest.testmod(gestures).failed == 0


def test_it_is_done_when_all_recordings_were_asked(gestures, monkeypatch):
    """Also if a slice of time is over when the last tree was grown: here each has one piece of work."""
    r = random.Random(3)
    made = [(k, on_grid(motion(k, r))) for k in GESTURES * 3]
    monkeypatch.setattr(f"{gestures.__name__}.ticks_ms", partial(next, iter(range(0, 10**9, 10))))
    learner = gestures.Learner([gestures.Recording(s, k) for k, s in made], 1e6)
    while learner.step(1) < 1:
        pass
    assert learner.tested == len(made)


def test_the_seconds_are_a_limit(gestures, monkeypatch):
    """With a clock that only goes on when it is looked at, by steps from short to long."""
    r = random.Random(3)
    made = [(k, on_grid(motion(k, r))) for k in GESTURES * 3]
    tested = []
    for tick in (10, 20, 24, 28, 32, 36, 40, 60, 2000):
        clock = iter(range(0, 10**9, tick))
        for place in (f"{gestures.__name__}.ticks_ms", "edgeforest.budget._ticks"):
            monkeypatch.setattr(place, partial(next, clock))
        learner = gestures.Learner([gestures.Recording(s, k) for k, s in made], 10.0)
        try:
            assert learner.step(10**9) == 1
            tested.append(learner.tested)
            assert len(learner.forest) >= 1
        except ValueError:
            tested.append(-1)
        looks = 60  # at most, from the time that is up to the end of what is in hand
        assert learner.spent <= 10.0 + looks * tick / 1000
    assert tested == sorted(tested, reverse=True)
    assert tested[0] == len(made)
    assert 0 < tested[4] < len(made)
    with pytest.raises(ValueError, match="too little time"):
        gestures.Learner([gestures.Recording(s, k) for k, s in made], 10.0).step(10**9)


@needs_wasm
def test_the_folder_has_our_files_unchanged(folder, make):
    listed = json.loads((folder / "files.json").read_text(encoding="utf-8"))
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there == {*listed["all"], "sw.js"}
    ours = [name for name in listed["python"] if name.startswith("edgeforest/")]
    assert {"edgeforest/core_pure.py", "edgeforest/windows.py"} <= set(ours)
    for name in ours:
        assert (folder / name).read_bytes() == (ROOT / name).read_bytes()
    manifest = json.loads((folder / "manifest.webmanifest").read_text(encoding="utf-8"))
    assert {icon["src"] for icon in manifest["icons"]} <= there
    assert '"VERSION"' not in (folder / "sw.js").read_text(encoding="utf-8")


@needs(shutil.which("openssl") is not None, "there is no openssl here: install it")
def test_the_server_at_home_speaks_https(tmp_path):
    (tmp_path / "index.html").write_text("the page", encoding="utf-8")
    command = [sys.executable, str(LEARN / "serve.py"), "--folder", str(tmp_path)]
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        fingerprint, address = (server.stdout.readline().split()[-1] for _ in range(2))
        assert address.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        with urllib.request.urlopen(address, context=trusting, timeout=TIMEOUT) as answer:
            assert answer.read() == b"the page"
        given = ssl.get_server_certificate(("127.0.0.1", int(address[:-1].rpartition(":")[2])))
        assert hashlib.sha256(ssl.PEM_cert_to_DER_cert(given)).hexdigest() == fingerprint
    finally:
        server.terminate()
        server.wait()
        if server.stdout:
            server.stdout.close()


def test_a_missing_runtime_is_said(make, tmp_path):
    with pytest.raises(SystemExit, match="run `make runtimes` first"):
        make.make(tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()
