"""All commands: they are put together into one command line here, and run."""

import argparse
import re
import sys

from edgeforest.host.version import __version__
import edgeforest.cli.demo as demo
import edgeforest.cli.engines as engines
import edgeforest.cli.export as export
import edgeforest.cli.inspect as inspect
import edgeforest.cli.merge as merge
import edgeforest.cli.predict as predict
import edgeforest.cli.train as train
import edgeforest.cli.verify as verify
from edgeforest.cli.parser import Parser, Problem
from edgeforest.cli.screen import StatusLine
from edgeforest.host.names import visible
from edgeforest.sources import SourceError

COMMANDS = (train, predict, inspect, merge, export, verify, demo, engines)

EXAMPLES = """\
examples:
  edgeforest demo
  edgeforest train log.csv --target activity --budget 2M --out model.json
  edgeforest train 'logs/*.csv.gz' --target activity --checkpoint model.json --resume
  edgeforest predict model.json new.csv --out predictions.csv
  edgeforest inspect model.json
  edgeforest merge kitchen.json cellar.json --out house.json
  edgeforest export model.json model.onnx
  edgeforest engines
"""


def build_parser() -> Parser:
    """The whole command line: commands, options, and their help."""
    parser = Parser(
        prog="edgeforest",
        description="Random forests that train on the device, under a hard budget.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"edgeforest {__version__}",
        help="print the version and exit",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for module in COMMANDS:
        module.add(commands)
    return parser


def run(argv: list[str] | None) -> int:
    """Run one command; whatever goes wrong becomes a sentence and an exit code."""
    parser = build_parser()
    try:
        args, unknown = parser.parse_known_args(argv)
        if args.command is not None:
            parser = args.parser
        if unknown:
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        if args.command is None:
            parser.print_help(sys.stderr)
            return 2
        code: int = args.run(args)
        return code
    except SystemExit as done:  # --help and --version
        return int(done.code or 0)
    except (Problem, SourceError) as problem:
        StatusLine().clear()
        print(f"edgeforest: {one_line(parser.spelled(str(problem)))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        StatusLine().clear()
        print("edgeforest: stopped by Ctrl-C", file=sys.stderr)
        return 130


def one_line(sentence: str) -> str:
    """A sentence on one line: line ends become visible, and overlong words are cut."""
    text = visible(sentence)
    return re.sub(r"(\S{40})\S{200,}", r"\1...", text) if len(text) > 600 else text
