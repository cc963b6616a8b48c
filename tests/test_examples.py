"""The examples run as a user runs them."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

import edgeforest

ROOT = Path(__file__).parents[1]
FROM_LOG = ROOT / "examples" / "raspberrypi" / "train_from_log.py"


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


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, str(FROM_LOG), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
    )


def test_train_from_log_makes_a_model_and_goes_on_from_it(log, tmp_path):
    first = run(log, "--target", "occupied", "--trees", 3, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "4,000 rows, 5 columns" in first.stdout
    assert "left out: time (text" in first.stdout
    assert "light" in first.stdout.splitlines()[-3]
    forest = edgeforest.load(tmp_path / "model.json")
    assert len(forest) == 3
    assert forest.names == ["temp", "light", "window"]
    assert forest.predict([[20.0, 410, "open"], [19.0, 5, "shut"]]) == [1, 0]
    again = run(log, "--target", "occupied", "--trees", 3, cwd=tmp_path)
    assert "going on from 3 trees" in again.stdout


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
        ((log, "--target", "occupied", "--megabytes", "0.1"), "too few rows"),
    ):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 1
        assert said in done.stderr
        assert "Traceback" not in done.stderr
