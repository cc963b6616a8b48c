"""All commands: they are put together into one command line here, and run."""

import argparse
import io
import json
import re
import sys
from contextlib import redirect_stdout

from edgeforest.host.version import __version__
import edgeforest.cli.calibrate as calibrate
import edgeforest.cli.completion as completion
import edgeforest.cli.demo as demo
import edgeforest.cli.engines as engines
import edgeforest.cli.evaluate as evaluate
import edgeforest.cli.export as export
import edgeforest.cli.inspect as inspect
import edgeforest.cli.merge as merge
import edgeforest.cli.pack as pack
import edgeforest.cli.predict as predict
import edgeforest.cli.signals as signals
import edgeforest.cli.train as train
import edgeforest.cli.verify as verify
from edgeforest.cli.parser import Formatter, Parser, Problem, Stopped
from edgeforest.cli.screen import StatusLine
from edgeforest.host.names import visible
from edgeforest.sources import SourceError

COMMANDS = (
    train, evaluate, predict, inspect, merge, export, verify, pack, engines, calibrate, demo,
    completion,
)  # fmt: skip
STOPPED = 128  # and the number of the signal: the exit code of a command that was stopped

EXAMPLES = """\
examples:
  edgeforest demo
  edgeforest train log.csv --target activity --budget 2M --out model.json
  edgeforest train 'logs/*.csv.gz' --target activity --checkpoint model.json --resume
  edgeforest evaluate model.json next_week.csv
  edgeforest predict model.json new.csv --out predictions.csv
"""


def build_parser() -> Parser:
    """The whole command line: commands, options, and their help."""
    parser = Parser(
        prog="edgeforest",
        description="Random forests that train on the device, under a hard budget.",
        epilog=EXAMPLES,
        formatter_class=Formatter,
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
        return outcome(args)
    except SystemExit as done:  # --help and --version
        return int(done.code or 0)
    except (Problem, SourceError) as problem:
        StatusLine().clear()
        print(f"edgeforest: {one_line(parser.spelled(str(problem)))}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, Stopped) as stop:
        number = getattr(stop, "signal", 2)
        StatusLine().clear()
        print(f"edgeforest: stopped by {signals.words(number)}", file=sys.stderr)
        return STOPPED + number


def outcome(args: argparse.Namespace) -> int:
    """Run the command, and print as much of what it says as was asked for; its exit code."""
    args.stream = sys.stdout  # for data
    if args.json or args.quiet:
        with redirect_stdout(io.StringIO()):
            code: int = args.run(args)
        if args.json:
            print(json.dumps(args.facts))
        return code
    if getattr(args, "out", None) == "-":  # the standard output is for what is written
        with redirect_stdout(sys.stderr):
            return int(args.run(args))
    return int(args.run(args))


def one_line(sentence: str) -> str:
    """A sentence on one line: line ends become visible, and overlong words are cut."""
    text = visible(sentence)
    return re.sub(r"(\S{40})\S{200,}", r"\1...", text) if len(text) > 600 else text
