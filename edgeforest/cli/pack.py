"""The command `pack`: a log as a .npy file, from which rows are read much faster."""

import argparse
from typing import Any

import edgeforest.cli.logs as logs
from edgeforest.cli.parser import Problem, add_command
from edgeforest.cli.saving import kept_file, refuse_output
from edgeforest.cli.screen import StatusLine, say
from edgeforest.host.words import count


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "pack",
        run,
        "pack a log once into a .npy file, from which training reads much faster",
        "A second file, FILE.json, keeps the names of the columns and the text in them.",
        "edgeforest pack 'logs/*.csv.gz' --out logs.npy",
    )
    parser.add_argument("log", nargs="+", help=logs.HELP)
    parser.add_argument("--out", required=True, metavar="FILE", help="the .npy file to write")
    logs.add_reading(parser)


def run(args: argparse.Namespace) -> int:
    """Pack a log."""
    from edgeforest.sources.packing import pack

    if not args.out.endswith(".npy"):
        raise Problem(f"--out must end in .npy, got {args.out}")
    refuse_output(args.out, *args.log)
    status = StatusLine(args.quiet)
    with logs.opened(args, status) as source:
        packed = pack(source, args.out, status.watch_rows("packing", source.name))
        status.clear()
        bad = source.bad
        name = source.name
    with packed:
        say("read", f"{name}: {count(len(packed), 'row')}, {count(len(packed.names), 'column')}")
        args.facts.update(log=name, out=args.out, rows=len(packed), columns=packed.names, bad=bad)
    if bad:
        say("skipped", f"{count(bad, 'row')} that cannot be read")
    say("saved", kept_file(args.out), wrap=False)
    return 0
