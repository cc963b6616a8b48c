"""The benchmarks that draw races, count instructions and measure scaling: what they say is true.

`benchmarks/how_it_works.py`, `devices.py` and `scaling.py`, on small sizes.
"""

import platform
import shutil
import struct
import subprocess
import sys
import time
from xml.etree import ElementTree

import numpy as np
import pytest
from runtimes import ROOT

from benchmarks import devices, drawings, how_it_works, scaling
from edgeforest import train
from edgeforest.reports.svg import Drawing
from edgeforest.reports.watching import watch

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def room():
    return how_it_works.room(6_000)


# ---- Pictures


def test_a_framed_drawing_shows_all_that_it_is_given_and_markup_of_nobody():
    drawing = Drawing("about <this>", high=100)
    text = drawings.framed(drawing, "A title " * 9, ["a note & more"], [(0, "<b>"), (3, "d")])
    root = ElementTree.fromstring(text)
    words = " ".join(part.text for part in root.iter(f"{SVG}text"))
    assert words.count("A title") == 9
    assert "a note & more" in words
    assert "<b>" in words
    high = float(root.get("viewBox").split()[3])
    assert all(0 < float(part.get("y")) < high for part in root.iter(f"{SVG}text"))
    assert [c.get("class") for c in root.iter(f"{SVG}circle")] == ["f0", "f3"]
    used = {part.get("class") for part in root.iter() if part.get("class")} - {"edgeforest"}
    assert all(f".{name}{{" in text for name in used), "a class without a style"


def test_gains_of_a_histogram_are_those_of_its_cuts(room):
    y = np.array(room.y)
    values = np.unique(room.X[:, 3])[::200]

    def impurity(labels):
        shares = np.unique(labels, return_counts=True)[1] / len(labels)
        return 1 - (shares**2).sum()

    for cut in values[1:-1]:
        left, right = y[room.X[:, 3] <= cut], y[room.X[:, 3] > cut]
        rest = (len(left) * impurity(left) + len(right) * impurity(right)) / len(y)
        share = 1 - rest / impurity(y)
        assert how_it_works.gain_at(room, 3, cut) == pytest.approx(share)


def test_a_recorded_race_is_the_race_of_the_engine(room):
    """The recorder counts the second look by itself: the tree is the same as without it."""
    options = {"n_trees": 1, "max_depth": 3, "max_features": 6, "seed": how_it_works.SEED}
    made = []

    def watched(task):
        made.append(how_it_works.Recorder(task))
        return made[0]

    seen = watch(room.X, room.y, watched, max_samples=1.0, **options)
    plain = train(room.X, room.y, engine="pure", max_samples=1.0, **options)
    assert seen.forest.to_json() == plain.to_json()
    notes = made[0].notes
    assert notes.fine is not None
    assert notes.fine.rows == notes.coarse.rows
    assert set(notes.rounds[0]) == set(range(6))
    low, high = plain.threshold[0] - 1e-6, plain.threshold[0] + 1e-6
    assert any(low <= end <= high for end in notes.fine.ends), "the threshold is one of the codes"


def test_all_pictures_of_the_page_are_drawn(room, tmp_path, capsys):
    how_it_works.draw_all(room, how_it_works.with_twin(room), tmp_path)
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert len(drawn) == 5
    for name in drawn:
        ElementTree.fromstring((tmp_path / name).read_text(encoding="utf-8"))
        assert f"]({name})" in page
    assert "light" in capsys.readouterr().out


# ---- Scaling


def test_scaling_measures_in_a_process_of_its_own_and_draws(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(scaling, "AXES", {"rows": [400, 3_000]})
    monkeypatch.setattr(scaling, "TEST_ROWS", 500)
    scaling.main(["--repeat", "1", "--only", "rows", "--out", str(tmp_path)])
    lines = [x for x in capsys.readouterr().out.splitlines() if x.startswith("| 3,000")]
    assert len(lines) == 1
    assert lines[0].count(" s, ") == 5
    assert {path.name for path in tmp_path.iterdir()} >= {
        "scaling-rows-insertions.svg",
        "scaling-rows-seconds.svg",
    }
    for path in tmp_path.iterdir():
        ElementTree.fromstring(path.read_text(encoding="utf-8"))


def test_what_takes_too_long_is_stopped_and_not_tried_with_more(monkeypatch):
    def spin(line, size, X, y, test):
        if line == "sklearn":
            while True:
                time.process_time()
        return {"seconds": 0.1, "insertions": 7, "peak": 1.0, "score": 0.5}

    monkeypatch.setattr(scaling, "measure", spin)
    found = scaling.measure_axis("rows", [100, 200], ["mab", "sklearn"], 2, 1)
    assert found[100]["sklearn"] == {"error": "over 1 s"}
    assert found[200]["sklearn"] == {"error": "not tried"}
    assert found[200]["mab"]["insertions"] == 7
    assert scaling.apart(lambda: 1 / 0, 5) == {"error": "failed"}


def test_generated_classes_are_of_equal_size_and_can_be_learned():
    size = scaling.Size(features=6, classes=3)
    X, y = scaling.generate(size, 6_000, 0)
    assert (np.bincount(y) / len(y)).min() > 0.25
    forest = train(X, y, n_trees=5, max_depth=6)
    X_test, y_test = scaling.generate(size, 2_000, 1)
    assert np.mean(np.array(forest.predict(X_test)) == y_test) > 0.6


# ---- Devices


def checksum(*parts):
    found = 2166136261
    for byte in b"".join(parts):
        found = (found ^ byte) * 16777619 & 0xFFFFFFFF
    return found


needs_here = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="the program asks Linux to read and write, in its own way for each processor",
)


@needs_here
def test_the_counted_program_grows_our_forest(tmp_path):
    sources = [ROOT / "benchmarks" / "device_task.c", *(ROOT / "firmware/kernel").glob("*.c")]
    flags = ["-O0", "-DHOSTED", "-std=gnu99", "-ffp-contract=off", "-Wall", "-Werror"]
    compiler = shutil.which("gcc") or "cc"
    include = f"-I{ROOT / 'firmware' / 'kernel'}"
    program = tmp_path / "program"
    subprocess.run([compiler, *flags, include, *sources, "-lm", "-o", program], check=True)
    task = devices.bytes_task(1_500)
    done = subprocess.run([program], input=task.file(), capture_output=True, check=True)
    insertions, nodes, _, right, checked, forest = map(int, done.stdout.split())
    ours = train(task.X, task.y, n_trees=task.trees, max_depth=task.depth)
    assert (insertions, nodes) == (ours.spent.insertions, len(ours.feature))
    threshold = struct.pack(f"={nodes}f", *ours.threshold)
    assert forest == checksum(bytes(ours.feature), threshold, bytes(ours.votes))
    told = ours.predict(task.X[:checked])
    assert right == sum(int(a) == int(b) for a, b in zip(told, task.y, strict=False))

    numbers = subprocess.run(
        [program], input=devices.log_task(300).file(), capture_output=True, check=True
    )
    right, checked = map(int, numbers.stdout.split()[3:5])
    assert right > 0.9 * checked
    short = subprocess.run([program], input=task.file()[:-1], capture_output=True)
    assert (short.returncode, short.stderr) == (1, b"the task is too short\n")


LOG = """\
----------------
IN: first
0x00010000:  e3a00000  mov r0, #0
0x00010004:  ea000000  b #0x10010

Trace 0: 0x7f00 [00000000/0000000000010000/00000040/ff000000] first
----------------
IN: mark
0x00010010:  e12fff1e  bx lr
Trace 0: 0x7f10 [00000000/0000000000010010/00000040/ff000000] mark
Trace 0: 0x7f00 [00000000/0000000000010000/00000040/ff000000] first
Trace 0: 0x7f10 [00000000/0000000000010010/00000040/ff000000] mark
"""


def test_executed_blocks_are_added_up(tmp_path):
    counter = tmp_path / "count"
    source = ROOT / "benchmarks" / "count_blocks.c"
    subprocess.run(
        [shutil.which("gcc") or "cc", "-Wall", "-Werror", source, "-o", counter], check=True
    )
    done = subprocess.run([counter], input=LOG, capture_output=True, text=True)
    assert done.stdout.split() == ["2", "5", "6"]  # at the two marks, and in all
    unknown = LOG + LOG.splitlines()[5].replace("10000/", "99999/") + "\n"
    done = subprocess.run([counter], input=unknown, capture_output=True, text=True)
    assert done.returncode == 1
    assert "never translated" in done.stderr


def test_estimates_follow_from_the_clock_and_say_what_is_assumed(capsys):
    task = devices.bytes_task(50)
    devices.show_estimates(task, {"armv6": devices.Count(0, 50e6, 5_000, insertions=1000)})
    table = capsys.readouterr().out
    assert "Estimates" in table
    assert "assumed" in table
    (line,) = [x for x in table.splitlines() if x.startswith("| Raspberry Pi Zero")]
    # 50 million instructions at 1 GHz and 0.5 a cycle are 0.1 s, at 0.5 W 0.05 J; 600 in a minute.
    assert "| 100 ms | 50 mJ | 600 | 1 M | 10 µs | 5.0 µJ |" in line
    assert "Pi 5" not in table, "a board without counts is left out"


def test_what_is_absent_is_named_with_the_way_to_get_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(devices, "ZIG", tmp_path)
    monkeypatch.setattr(sys, "argv", ["devices", "--quick", "--only", "aarch64"])
    devices.main()
    said = capsys.readouterr().err
    assert said.startswith("aarch64 is left out: there is no Zig here")
    assert "python tools/get_runtimes.py zig" in said
