"""The command `verify`: whether a model is the one that was signed."""

import argparse
from pathlib import Path
from typing import Any

from edgeforest.cli.models import exporter, load_model, read_key
from edgeforest.cli.parser import Problem, add_command
from edgeforest.cli.saving import kept_file
from edgeforest.cli.screen import say, shape
from edgeforest.host.words import reason


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "verify",
        run,
        "check whether a model is the one that was signed",
        "Only then does it end with code 0.",
        "edgeforest verify model.json --key key.bin",
    )
    parser.add_argument("model", help="a model that export --sign wrote")
    parser.add_argument(
        "--key",
        metavar="FILE",
        help="the key that it must be signed with; without one, only accidents are found",
    )


def run(args: argparse.Namespace) -> int:
    """Say whether a model is what was signed."""
    key = read_key(args.key)
    forest = load_model(args.model)  # says what is wrong with a file that is not a model
    try:
        exporter("signing").verify(Path(args.model), key)
    except OSError as error:
        raise Problem(f"cannot read {args.model}: {reason(error)}") from None
    except ValueError as error:
        raise Problem(f"{args.model}: {error}") from None
    args.facts.update(model=args.model, signed=key is not None)
    say("model", f"{kept_file(args.model)}: {shape(forest)}", wrap=False)
    if key is None:
        say("verified", "its SHA-256 fits; who wrote it is not known, give --key to check that")
    else:
        say("verified", f"it was signed with the key in {args.key}", wrap=False)
    return 0
