"""The parser of the command line: one sentence for each problem, options by their own names."""

import argparse
import re
from collections.abc import Callable
from typing import Any, NoReturn


class Problem(Exception):
    """What is wrong with what the user gave, in one sentence."""


class Stopped(Exception):
    """A signal came before there was anything to keep."""

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = signal


class Parser(argparse.ArgumentParser):
    """An argument parser that reports problems the way all commands do."""

    def error(self, message: str) -> NoReturn:
        """Raise a `Problem`, which is reported like any other."""
        message = re.sub(r"^argument (\S+): must", r"\1 must", message)
        message = re.sub(r"^argument ", "", message)
        raise Problem(f"{message}; see {self.prog} --help")

    def arguments(self) -> list[argparse.Action]:
        """All arguments and options, in the order in which they were added."""
        return self._actions

    def spelled(self, sentence: str) -> str:
        """A sentence of the library with its arguments as options: `n_trees` becomes `--trees`.

        An argument is the first word of a sentence, or has a value, as in `drop=co2`. An option has
        the name of its argument as `dest`.

        >>> parser = Parser()
        >>> _ = parser.add_argument("--trees", dest="n_trees")
        >>> parser.spelled("n_trees must be from 1 to 4096, got 0; try n_trees=20")
        '--trees must be from 1 to 4096, got 0; try --trees 20'
        """
        options = {action.dest: action for action in self._actions if action.option_strings}

        def spell(found: re.Match[str]) -> str:
            action = options.get(found[1] or found[2])
            if action is None:
                return found[0]
            value = "" if found[2] is None or action.nargs == 0 else f" {found[3]}"
            return action.option_strings[0] + value

        return re.sub(r"^(\w+)(?= )|(?<=[ (])(\w+)=(\w*)", spell, sentence)


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    text: str,
    more: str = "",
    example: str = "",
    quiet: bool = True,
) -> Parser:
    """Add a command with its help; what it is given has the parser and the function to run.

    With `quiet`, it can be silent, or say all that it says as JSON: `run` puts that into `facts`.
    """
    parser: Parser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}. {more}",
        epilog=f"example:\n  {example}",
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, parser=parser, json=False, quiet=False, facts={})
    if quiet:
        said = parser.add_mutually_exclusive_group()
        said.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
        said.add_argument("--quiet", action="store_true", help="print nothing but problems")
    return parser


class Formatter(argparse.HelpFormatter):
    """Help that keeps the lines of the examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("example"):
            return "".join(indent + line for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)
