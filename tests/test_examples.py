"""The examples run as a user runs them."""

import gzip
import importlib.util
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from runtimes import TIMEOUT

import edgeforest
from edgeforest.online import OnlineForest

ROOT = Path(__file__).parents[1]
FROM_LOG = ROOT / "examples" / "raspberrypi" / "train_from_log.py"
LIVE = ROOT / "examples" / "raspberrypi" / "live_occupancy.py"


@pytest.fixture
def log(tmp_path):
    """A log of a room: time, temperature, light, a window, and whether somebody is there."""
    lines = ["time,temp,light,window,occupied"]
    for i in range(4000):
        here = i % 240 > 150
        light = "" if i % 50 == 0 else str(400 + i % 30 if here else i % 40)
        window = "open" if i % 3 else "shut"
        lines.append(
            f"2026-01-{1 + i // 200:02} 10:00,{19 + here + i % 5 * 0.3},{light},{window},{int(here)}"
        )
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*arguments, cwd, script=FROM_LOG):
    return subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
    )


def test_train_from_log_makes_a_model_and_goes_on_from_it(log, tmp_path):
    first = run(log, "--target", "occupied", "--trees", 3, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "4,000 rows, 5 columns" in first.stdout
    assert "left out: time (text" in first.stdout
    assert re.search(r"^ +[\d.]+%  light$", first.stdout, re.MULTILINE)
    forest = edgeforest.load(tmp_path / "model.json")
    assert len(forest) == 3
    assert forest.names == ["temp", "light", "window"]
    assert forest.predict([[20.0, 410, "open"], [19.0, 5, "shut"]]) == [1, 0]
    assert "\r" not in first.stdout
    again = run(log, "--target", "occupied", "--trees", 3, cwd=tmp_path)
    assert "going on from 3 trees in model.training.json" in again.stdout


def test_train_from_log_takes_several_gzipped_files(log, tmp_path):
    for part in range(2):
        lines = log.read_text().splitlines()
        (tmp_path / f"part{part}.csv.gz").write_bytes(
            gzip.compress(
                "\n".join([lines[0], *lines[1 + 2000 * part : 2001 + 2000 * part]]).encode()
            )
        )
    done = run("part0.csv.gz", "part1.csv.gz", "--target", "occupied", "--trees", 2, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4,000 rows" in done.stdout


def test_train_from_log_says_what_is_wrong_in_a_sentence(log, tmp_path):
    for arguments, said in (
        (("gone.csv", "--target", "x"), "cannot read gone.csv: no such file or directory"),
        ((log, "--target", "x"), "no column 'x'; it has time, temp"),
        ((log, "--target", "occupied", "--megabytes", "0.1"), "bytes must be at least"),
    ):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 1
        assert said in done.stderr
        assert "Traceback" not in done.stderr


# ---- live_occupancy.py ------------------------------------------------------------------------

QUICK = ("--sensor", "simulated", "--speed", "inf")


def live(*arguments, cwd):
    return run(*arguments, cwd=cwd, script=LIVE)


def start(*arguments, cwd):
    """The same, without waiting for its end."""
    return subprocess.Popen(
        [sys.executable, str(LIVE), *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def office():
    """The module of the example."""
    spec = importlib.util.spec_from_file_location("live_occupancy", LIVE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fake_bme280(tmp_path, monkeypatch):
    """The libraries of a BME280 that answers at the second address; returns the folder."""
    (tmp_path / "smbus2.py").write_text(
        "class SMBus:\n    def __init__(self, bus): self.bus = bus\n"
    )
    (tmp_path / "bme280.py").write_text(
        textwrap.dedent("""
        import types
        count = 0
        def load_calibration_params(bus, address):
            if (bus.bus, address) != (1, 0x77):
                raise OSError(121, "Remote I/O error")
            return "calibration"
        def sample(bus, address, calibration):
            global count
            count += 1
            if count % 5 == 0:
                raise OSError(121, "Remote I/O error")
            return types.SimpleNamespace(temperature=20.0 + count, humidity=40.0, pressure=1013.0)
        """)
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def right(forest, office, skipped, seed=0):
    """The share of a simulated week that a forest tells right, and the share without anybody."""
    sensor = office.Simulated(seed, 60)
    rows, truth = [], []
    for i in range(skipped + 7 * 1440):
        row = sensor.read()
        if i >= skipped:
            rows.append(row)
            truth.append(int(sensor.people > 0))
    said = forest.predict(rows)
    hits = sum(a == b for a, b in zip(said, truth, strict=True))
    return hits / len(truth), 1 - sum(truth) / len(truth)


def test_live_occupancy_learns_what_the_next_week_is_like(tmp_path, office):
    week = 7 * 1440
    done = live(*QUICK, "--readings", week, "--status", 1440, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 8
    assert lines[0].startswith("720 rows, ")
    assert lines[-1] == "stopped after 10,080 readings; 5,040 rows learned in all"
    predicted = re.search(r"(\d+)% of the last 100 labels predicted", lines[4])
    assert int(predicted[1]) >= 85
    forest = edgeforest.load(tmp_path / "live.json")
    share, empty = right(forest, office, week)
    assert share > 0.93
    assert share > empty + 0.15


def test_live_occupancy_is_the_same_for_the_same_seed(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        live(*QUICK, "--readings", 600, "--seed", seed, "--out", f"{name}.json", cwd=tmp_path)
    a, b, c = ((tmp_path / f"{name}.json").read_bytes() for name in "abc")
    assert a == b != c


def test_live_occupancy_goes_on_after_kill_9(tmp_path):
    rng = random.Random(1)
    model = tmp_path / "live.json"
    rows = kills = 0
    while kills < 5 or not rows:
        running = start(*QUICK, "--save-rows", "10", cwd=tmp_path)
        running.stdout.readline()  # it has begun
        kills += 1
        time.sleep(rng.uniform(0, 0.06 * kills))  # longer and longer, on a busy machine
        running.kill()
        running.communicate()
        if model.exists():
            edgeforest.load(model)
            now = OnlineForest.load(model).rows
            assert now >= rows
            rows = now
    assert rows
    done = live(*QUICK, "--readings", 4000, "--status", 2000, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"going on from {rows:,} rows in live.json\n")
    learner = OnlineForest.load(model)
    assert learner.rows == rows + 2000
    assert learner.accuracy > 0.9


@pytest.mark.skipif(os.name == "nt", reason="no signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_live_occupancy_saves_when_it_is_told_to_stop(tmp_path, name):
    running = start(*QUICK, "--save-rows", "1000000", "--status", "100", cwd=tmp_path)
    for _ in range(3):
        running.stdout.readline()
    assert not (tmp_path / "live.json").exists()
    running.send_signal(getattr(signal, name))
    said, complaint = running.communicate(timeout=TIMEOUT)
    assert (running.returncode, complaint) == (0, "")
    rows = OnlineForest.load(tmp_path / "live.json").rows
    assert rows >= 150
    assert said.splitlines()[-1].endswith(f"; {rows:,} rows learned in all")


def test_live_occupancy_learns_the_latest_readings_when_a_label_is_written(
    tmp_path, office, capsys
):
    presence = tmp_path / "presence.txt"
    presence.write_text("0\n")
    program = started(office, tmp_path, "--labels", str(presence), "--reach", "3")
    learned = []
    learn = program.learner.update_batch
    program.learner.update_batch = lambda *given: learned.append(given) or learn(*given)
    for _ in range(5):
        program.step()
    assert program.learner.rows == 0  # what stood there before says nothing about now
    assert len(program.waiting) == 3
    presence.write_text("0\n1\n")
    before = [program.waiting.row(i) for i in (1, 2)]
    last = program.step()
    assert program.learner.rows == 3
    assert len(program.waiting) == 0
    [(rows, labels)] = learned
    assert labels == [1, 1, 1]
    assert [list(row) for row in rows[:2]] == before
    assert rows[2] == pytest.approx(last, abs=1e-3)
    program.step()
    assert program.learner.rows == 3  # a label is learned once
    presence.write_text("")
    program.step()
    presence.write_text("yes")
    program.step()
    presence.unlink()
    program.step()
    assert program.learner.rows == 3
    assert "presence.txt must end with 0 or 1, got b'yes'; ignored" in capsys.readouterr().err


def started(office, folder, *arguments):
    """The program of the example, in this process."""
    given = [*QUICK, "--out", str(folder / "live.json"), *arguments]
    return office.Program(office.arguments(given))


def test_live_occupancy_reads_a_bme280_and_bears_a_loose_wire(fake_bme280):
    presence = fake_bme280 / "presence.txt"
    options = ("--every", "0.02", "--labels", "presence.txt", "--status", "1")
    running = start(*options, cwd=fake_bme280)
    assert running.stdout.readline().startswith(
        "waiting for the first label; temperature 21, humidity 40, pressure 1013, hour "
    )
    presence.write_text("1")
    for line in running.stdout:
        if "rows" in line:
            break
    running.terminate()
    complaint = running.communicate(timeout=TIMEOUT)[1]
    assert running.returncode == 0, complaint
    assert "somebody (100%): temperature " in line
    assert OnlineForest.load(fake_bme280 / "live.json").rows in range(1, 6)
    assert set(complaint.splitlines()) <= {"no reading: [Errno 121] Remote I/O error"}


def test_live_occupancy_gives_up_a_sensor_that_fails_all_the_time(tmp_path, office, monkeypatch):
    program = started(office, tmp_path)

    def fail():
        raise OSError("no answer")

    monkeypatch.setattr(program.sensor, "read", fail)
    for _ in range(office.PATIENCE - 1):
        assert program.step() is None
    with pytest.raises(OSError, match="failed 10 times in a row: no answer"):
        program.step()


def test_live_occupancy_needs_no_numpy(tmp_path):
    code = (
        "import runpy, sys; sys.modules['numpy'] = None; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(LIVE), *QUICK, "--readings", "300"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert OnlineForest.load(tmp_path / "live.json").rows == 150


def test_live_occupancy_says_what_is_wrong_in_a_sentence(tmp_path, fake_bme280):
    edgeforest.train([[i, 1] for i in range(20)], [i > 9 for i in range(20)]).save(
        tmp_path / "other.json"
    )
    (tmp_path / "damaged.json").write_text('{"format":"edgeforest"')
    (tmp_path / "sense_hat.py").write_text(
        "class SenseHat:\n    def __init__(self): raise OSError('Cannot detect RPi-Sense FB device')\n"
    )
    for arguments, said in (
        (("--sensor", "nose"), "no sensor 'nose'; use auto, sense-hat, bme280, simulated"),
        (("--sensor", "sense-hat"), "the sense-hat does not answer (Cannot detect RPi-Sense FB"),
        (("--sensor", "bme280"), "nothing to learn from; give --labels FILE"),
        (("--sensor", "bme280", "--speed", 2), "--speed is for the simulated sensor"),
        ((*QUICK, "--out", "other.json"), "other.json was learned from x0, x1, the sensor gives"),
        ((*QUICK, "--out", "damaged.json"), "damaged.json: this is not an EdgeForest model"),
        ((*QUICK, "--out", "gone/live.json", "--readings", 50), "No such file or directory"),
        ((*QUICK, "--reach", 0), "argument --reach: must be 1 or more, got 0"),
    ):
        done = live(*arguments, cwd=tmp_path)
        assert done.returncode in (1, 2), arguments
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    (tmp_path / "bme280.py").write_text("import bme_gone")
    done = live("--sensor", "bme280", cwd=tmp_path)
    assert "bme280 needs the library bme_gone: pip install smbus2 RPi.bme280" in done.stderr
