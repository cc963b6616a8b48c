"""Logs and models for the tests of the command line."""

import csv
import gzip
import json
import os
import sqlite3

import pytest
from _pytest.doctest import DoctestModule
from command_line import write
from hypothesis import settings

from edgeforest import cli, engine
from edgeforest.cli import demo, train

# A program that needs Flower on the path: tests/test_flower.py runs it, pytest does not look into it.
collect_ignore = ["flower_rounds.py"]

# What somebody has calibrated on this computer must not change what trainings print and plan.
os.environ["EDGEFOREST_SPEED"] = os.path.join(os.path.dirname(__file__), "no", "speed.json")

# The same examples in every run: what fails, fails again for whoever looks into it.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Docstrings of tests hold no examples; a test of the house looks for them."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A sensor log of 1,500 rows."""
    path = tmp_path_factory.mktemp("log") / "log.csv"
    write(path, [demo.COLUMNS, *demo.sample_log(1500, seed=3)])
    return path


@pytest.fixture(scope="module")
def model(log):
    """A forest that tells the activity, trained through the command line."""
    path = log.parent / "model.json"
    code = cli.main(
        [
            "train",
            str(log),
            "--target",
            "activity",
            "--budget",
            "60k",
            "--trees",
            "5",
            "--out",
            str(path),
        ]
    )
    assert code == 0
    return path


@pytest.fixture
def given(monkeypatch):
    """What is given to every training: rows, targets and options."""
    calls, inside = [], []  # train_steps reads, sources read by themselves

    def watch(name):
        function = getattr(engine, name)

        def spy(X, y, **options):
            if not inside:
                calls.append((X, y, options))
            inside.append(name)
            try:
                return function(X, y, **options)
            finally:
                inside.pop()

        monkeypatch.setattr(engine, name, spy)

    watch("train_steps")
    watch("read")
    return calls


@pytest.fixture
def key(tmp_path):
    path = tmp_path / "key.bin"
    path.write_bytes(bytes(range(32)))
    return path


@pytest.fixture(scope="module")
def logs(log):
    """The same log in other kinds of files, by name."""
    folder = log.parent
    with open(log, newline="") as stream:
        rows = [{k: v or None for k, v in row.items()} for row in csv.DictReader(stream)]
    (folder / "log.csv.gz").write_bytes(gzip.compress(log.read_bytes()))
    write(folder / "log.tsv", [rows[0], *(row.values() for row in rows)], "\t")
    head, *lines = log.read_text().splitlines(keepends=True)
    (folder / "part1.csv").write_text(head + "".join(lines[:700]))
    (folder / "part2.csv").write_text(head + "".join(lines[700:]))
    text = ("time", "window", "activity")
    objects = [
        {k: v if k in text or v is None else float(v) for k, v in row.items()} for row in rows
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in objects))
    database = sqlite3.connect(folder / "log.db")
    database.execute("CREATE TABLE room (time, temperature, humidity, light, co2, vibration, "
                     "window, activity)")  # fmt: skip
    database.executemany(f"INSERT INTO room VALUES ({','.join('?' * 8)})",
                         [list(row.values()) for row in objects])  # fmt: skip
    database.commit()
    database.close()
    return folder


@pytest.fixture
def little_memory(monkeypatch):
    """Every log is too large to be read whole."""
    monkeypatch.setattr(train, "IN_MEMORY", 0)
    monkeypatch.setattr(train, "SMALL", 0)
