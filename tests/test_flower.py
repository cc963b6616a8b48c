"""Forests of a fleet by Flower: its messages in one process, and its programs on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from runtimes import GET_RUNTIMES, ROOT, TIMEOUT, needs

FLOWER = ROOT / ".runtimes" / "flower"
EXAMPLE = ROOT / "examples" / "fleet" / "run_flower.py"
needs_flower = needs((FLOWER / "flwr").is_dir(), f"there is no Flower here: {GET_RUNTIMES}")
MARK = "EDGEFOREST_MARK"  # in the environment of all that a test starts, and what that starts


def environment(mark: str) -> dict[str, str]:
    """Flower's folder before the tests' own packages: it wants another protobuf than they have."""
    return {
        **os.environ,
        MARK: mark,
        "EDGEFOREST_PYTHON": sys.executable,
        "PATH": os.pathsep.join([str(FLOWER / "bin"), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": str(FLOWER),
    }


def alive(mark: str) -> list[str]:
    """The processes with this mark that still run; only Linux tells."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append((path / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it has ended, or is another user's
            continue
    return found


@pytest.fixture
def mark() -> Any:
    """A mark for processes; whatever still has it in the end is named."""
    name = uuid.uuid4().hex
    yield name
    assert alive(name) == []


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What rounds in one process say: see flower_rounds.py."""
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "tests" / "flower_rounds.py"),
            tmp_path_factory.mktemp("fleet"),
        ],
        capture_output=True,
        text=True,
        env=environment("rounds"),
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_flower
@pytest.mark.parametrize("server", ["with rows", "without"])
def test_garbage_silence_and_a_lie_do_not_stop_a_round(told: dict[str, Any], server: str) -> None:
    honest, hostile = told[server]["scores"][:2]
    assert honest > 0.85
    assert hostile > honest - 0.01
    assert [not verdict["reason"] for verdict in told[server]["verdicts"][0]] == [True] * 4
    said = "\n".join(told[server]["lines"])
    assert "not an EdgeForest model" in said
    assert "it is silent, so its model of round 1 is used" in said
    liar = next(v for v in told[server]["verdicts"][1] if v["rows"] == 10**9)
    assert liar["weight"] < 0.34
    assert told[server]["bytes"] <= 90_000


@needs_flower
def test_whatever_a_device_replies_is_a_line_and_never_an_error(told: dict[str, Any]) -> None:
    said = "\n".join(told["with rows"]["lines"])
    assert "its app failed (out of memory), so its model of round 2 is used" in said
    assert "it sent numpy.ndarray instead of a model, so its model of round 1 is used" in said
    assert "it sent no model, so its model of round 1 is used" in said
    assert told["with rows"]["scores"][2] > told["with rows"]["scores"][0] - 0.01


@needs_flower
def test_more_rounds_are_better(told: dict[str, Any]) -> None:
    assert told["again"][1] > told["again"][0] + 0.01


@needs_flower
def test_the_joint_model_comes_back_to_the_devices(told: dict[str, Any]) -> None:
    assert told["without"]["delivered"] == [True, True, True, False]  # press was silent


def test_without_flower_the_extra_is_named() -> None:
    if importlib.util.find_spec("flwr") is not None:
        pytest.skip("Flower is installed beside the tests: there is nothing to miss")
    from edgeforest.fleet.flower import client_app, strategy

    for make in (lambda: client_app("state"), strategy):
        with pytest.raises(ImportError, match=r"Flower 1.41 or newer: pip install 'edgeforest\[fl"):
            make()


@needs_flower
def test_the_example_runs_as_processes_and_all_of_them_end(mark: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--devices", "2"],
        capture_output=True,
        text=True,
        env=environment(mark),
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines()[1:] if line]
    scores = {line[:16].strip(): float(line[16:24]) for line in lines}
    assert list(scores) == ["pump alone", "fan alone", "joint", "all rows at once"]
    assert scores["joint"] > max(scores["pump alone"], scores["fan alone"]) + 0.2
    assert scores["joint"] > scores["all rows at once"] - 0.02
    sent, data = (int(part.replace(",", "")) for part in lines[0][24:].split())
    assert 0 < sent < data / 3


STARTER = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from run_flower import Processes
folder = Path(sys.argv[2])
with Processes(folder, dict(os.environ)) as processes:
    processes.start("deaf", "sh", "-c", "trap '' TERM; sleep 600 & echo; wait; sleep 600")
    processes.start("child", "sh", "-c", "(sleep 600) & echo; sleep 600")
    while not all((folder / f"{name}.log").read_bytes() for name in ("deaf", "child")):
        time.sleep(0.01)
    print("started", flush=True)
    if sys.argv[3] == "fails":
        raise RuntimeError("on purpose")
    time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux tells who runs")
@pytest.mark.parametrize("ending", ["fails", "stopped"])
def test_what_the_example_started_ends_also_when_it_fails(
    mark: str, ending: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", STARTER, str(EXAMPLE.parent), str(tmp_path), ending]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, MARK: mark},
        text=True,
    ) as process:
        assert process.stdout is not None
        said, before = process.stdout.readline(), len(alive(mark))
        if ending == "stopped":
            process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) != 0
    assert said == "started\n"
    assert before >= 5 or ending == "fails"
    end = time.monotonic() + TIMEOUT
    while alive(mark) and time.monotonic() < end:  # the last ones are being buried
        time.sleep(0.02)
    assert alive(mark) == []
