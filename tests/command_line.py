"""Tables and calls that the tests of the command line share."""

import argparse
import csv
from pathlib import Path
from types import SimpleNamespace

from edgeforest import cli
from edgeforest.cli.commands import build_parser
from edgeforest.sources import open_source
from edgeforest.sources.schema import look
from edgeforest.sources.whole import Whole

ROOT = Path(__file__).resolve().parent.parent


def write(path, rows, separator=","):
    """Write rows as CSV."""
    with open(path, "w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter=separator, lineterminator="\n").writerows(rows)


def table(tmp_path, text, name="log.csv"):
    """The path of a file with this content."""
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def prepared(path, target, **options):
    """A small file as the command line reads it: its schema, its rows and their targets."""
    with open_source(path) as source:
        log = Whole(source, target)
        schema = look(log, target, None, **options)
    columns, labels = schema.columns(log.read(range(len(log))))
    return SimpleNamespace(
        schema=schema,
        names=schema.names,
        regression=schema.regression,
        rows=list(zip(*columns, strict=True)),
        y=list(labels),
        unlabelled=log.unlabelled,
        missing=schema.found.missing,
        left_out=schema.left_out,
        categories={name: len(kinds) for name, kinds in schema.found.categories.items()},
    )


def numbers(n, bad=None, column="x"):
    """A small table whose target is learned from x; `bad` maps a row to what x holds there."""
    lines = [f"{column},y"]
    for i in range(n):
        lines.append(f"{(bad or {}).get(i, i)},{'high' if i >= n // 2 else 'low'}")
    return "\n".join(lines) + "\n"


def refused(capsys, *arguments):
    """The sentence with which a command is refused."""
    capsys.readouterr()
    assert cli.main([str(a) for a in arguments]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("edgeforest: ")
    assert err.count("\n") == 1, "an error is one line"
    assert "Traceback" not in out + err
    return err.removeprefix("edgeforest: ").rstrip()


def commands():
    """The parser of the command line, and the action that has those of all commands."""
    parser = build_parser()
    sub = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return parser, sub


def options_of(command):
    """The arguments and options of a command."""
    return commands()[1].choices[command]._actions


def exported(capsys, *arguments):
    """What the export of a model says."""
    capsys.readouterr()
    assert cli.main(["export", *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


COMMON = ["--target", "activity", "--budget", "60k", "--trees", "5"]
