"""The command line as a whole: commands, help, version, one-line errors."""

import io
import re
import subprocess
import sys

import pytest
from command_line import ROOT, commands, numbers, table

import edgeforest
from edgeforest import cli

COMMANDS = [
    "train",
    "evaluate",
    "predict",
    "inspect",
    "merge",
    "export",
    "verify",
    "pack",
    "engines",
    "calibrate",
    "demo",
    "completion",
]


def test_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "edgeforest", "--version"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"edgeforest {edgeforest.__version__}\n"


def test_errors_of_the_module_are_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "edgeforest", "inspect", "nowhere.json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "edgeforest: cannot read nowhere.json: no such file or directory\n"


def test_every_command_and_option_has_help():
    parser, sub = commands()
    assert set(sub.choices) == set(COMMANDS)
    assert {a.dest for a in sub._choices_actions if a.help} == set(sub.choices)
    for name, command in (("", parser), *sub.choices.items()):
        assert command.description, f"{name} has no description"
        for action in command._actions:
            if action is not sub:
                assert action.help, f"{name} {action.dest} has no help"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_prints(command, capsys):
    assert cli.main([*command.split(), "--help"]) == 0
    assert f"usage: edgeforest {command}".strip() in capsys.readouterr().out


def test_every_command_is_in_the_readme():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in commands()[1].choices:
        assert re.search(rf"^edgeforest {name}\b", text, re.MULTILINE), f"say what {name} does"


def test_no_command_prints_help(capsys):
    assert cli.main([]) == 2
    assert "edgeforest train log.csv" in capsys.readouterr().err


def test_output_survives_a_terminal_without_unicode(tmp_path, monkeypatch):
    path = table(tmp_path, numbers(40, column="°C"))
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert cli.main(["train", path, "--target", "y", "--trees", "2"]) == 0
    assert b"1 number: \\xb0C" in raw.getvalue()


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_neither_numpy_nor_what_reads_logs(option):
    lazy = ("numpy", "edgeforest.sources.training", "edgeforest.sources.views", "edgeforest.export")
    code = f"""
import sys
from edgeforest.cli import main
assert main(["{option}"]) == 0
print([name for name in {lazy!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == "[]\n"
