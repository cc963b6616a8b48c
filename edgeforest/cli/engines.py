"""The command `engines`: which engines are present, which one is used."""

import argparse
from typing import Any

from edgeforest import engines
from edgeforest.cli.models import check_engine, engine_asked
from edgeforest.cli.parser import add_command
from edgeforest.cli.screen import say

WHAT = {
    "native": "trees grow in C; --jobs grows several at once",
    "numpy": "whole arrays at once",
    "pure": "plain Python",
}


def add(commands: Any) -> None:
    """Add the command to the command line."""
    add_command(
        commands,
        "engines",
        run,
        "show which engines are present, which one is used, and how to get the others",
        "All of them grow the same forest; they differ in speed.",
        "edgeforest engines",
    )


def run(args: argparse.Namespace) -> int:
    """Say which engines are present, which one is used, and how to get the others."""
    absent = engines.absent()
    for name in engines.NAMES:
        problem = absent.get(name)
        if problem is None:
            say(name, f"present: {WHAT[name]}")
        else:
            say(name, f"absent: {problem.reason}; to get it, {problem.remedy}")
    args.facts["present"] = [name for name in engines.NAMES if name not in absent]
    args.facts["absent"] = {name: problem.reason for name, problem in absent.items()}
    print(flush=True)  # a problem with the engine goes to stderr, below this
    check_engine(None)
    args.facts["used"] = engines.name
    wish = engine_asked(None)
    if wish:
        say("used", f"{wish}, because EDGEFOREST_ENGINE={wish}; train --engine overrides it")
    else:
        say(
            "used",
            f"{engines.name}, the fastest that is present; train --engine or the environment "
            "variable EDGEFOREST_ENGINE asks for another, and the forest is the same with any",
        )
    return 0
