"""Logs that commands read: the options that say how, and opening them."""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from edgeforest.cli.arguments import Update, amount_or_zero, column_names, date_columns, seconds
from edgeforest.cli.parser import Problem
from edgeforest.cli.screen import StatusLine
from edgeforest.host.words import reason
from edgeforest.sources import Source, SourceError, open_source

STDIN = "the standard input"
HELP = (
    "CSV, TSV, JSON lines, line protocol (.lp), .npy, Parquet, SQLite or Home Assistant's database; text may be gzipped; "
    "several files are joined; - for the standard input"
)
OPTIONS = ("separator", "header", "decimal_comma", "comment", "encoding", "table_or_query",
           "max_bad", "quote", "columns", "every", "target")  # fmt: skip


def add_house(reading: Any) -> None:
    """Add the options of Home Assistant's database."""
    reading.add_argument(
        "--columns",
        type=column_names,
        metavar="A,B",
        help="entities of Home Assistant's database, such as 'sensor.*,climate.bath' (default: all)",
    )
    reading.add_argument(
        "--every",
        type=seconds,
        metavar="S",
        help="make a row of Home Assistant's database every S seconds, or such as 5min (default "
        "1min)",
    )


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a log is read; each has the name of its argument as `dest`."""
    reading = parser.add_argument_group(
        "reading", "what is not given is found by looking at the file"
    )
    reading.add_argument(
        "--dates",
        type=date_columns,
        action=Update,
        default={},
        metavar="A,B[=FORMAT]",
        help="columns of dates that become numbers, seconds since 1970 (UTC); A.hour and "
        "A.weekday are further columns with the hour of the day, and 0 for Monday to 6; dates are "
        "written as 2024-05-01 18:30, or in FORMAT, such as %%d.%%m.%%Y",
    )
    reading.add_argument(
        "--table", dest="table_or_query", metavar="NAME", help="table or query of an SQLite file"
    )
    add_house(reading)
    reading.add_argument(
        "--separator", metavar="C", help="the character between cells, such as ';'"
    )
    reading.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="the first line names the columns, or is a row: then they are 'column 1', 'column 2'",
    )
    reading.add_argument(
        "--no-quotes",
        dest="quote",
        action="store_const",
        const=None,
        default=argparse.SUPPRESS,
        help="quotes are part of a cell",
    )
    reading.add_argument(
        "--decimal-comma",
        action="store_true",
        default=None,
        help="1,5 is a number between 1 and 2",
    )
    reading.add_argument("--comment", metavar="C", help="lines that start with C are left out")
    reading.add_argument("--encoding", metavar="NAME", help="of text (default utf-8)")
    reading.add_argument(
        "--max-bad",
        type=amount_or_zero,
        default=0,
        metavar="N",
        help="skip up to N rows that cannot be read (default 0: the first one is an error)",
    )


@contextmanager
def opened(args: argparse.Namespace, status: StatusLine) -> Iterator[Source]:
    """The log that was given, with its options; the standard input is copied to a file first."""
    paths = args.log
    given = vars(args)
    options: dict[str, Any] = {
        name: given[name]
        for name in OPTIONS
        if name in given and (given[name] is not None or name == "quote")
    }
    if "-" in paths:
        if len(paths) > 1:
            raise Problem("- is the standard input, which cannot be joined with files; give one")
        with spooled(status) as path:
            try:
                source = open_source(path, **options)
            except SourceError as error:
                raise Problem(str(error).replace(path, STDIN)) from None
            source.name = STDIN
            with open_source(source, dates=args.dates) as dated:
                yield dated
        return
    options["progress"] = status.watch_file(paths[0])
    with open_source(paths if len(paths) > 1 else paths[0], dates=args.dates, **options) as source:
        status.clear()
        yield source


@contextmanager
def spooled(status: StatusLine) -> Iterator[str]:
    """The path of a file with the content of the standard input."""
    if sys.stdin is None:
        raise Problem("the standard input is closed; pipe a file into it")
    status.show(f"reading {STDIN} ...")
    with tempfile.TemporaryDirectory(prefix="edgeforest-") as folder:
        path = os.path.join(folder, "input")
        try:
            with open(path, "wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        except OSError as error:
            why = f"{reason(error)}; save it as a file first"
            raise Problem(f"cannot copy {STDIN} to {folder}: {why}") from None
        yield path
