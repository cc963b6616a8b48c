"""The command `calibrate`: how fast this device trains, measured and kept for plans."""

import argparse
import time
from dataclasses import asdict
from typing import Any

from edgeforest import engines
from edgeforest.cli.parser import Problem, add_command
from edgeforest.cli.screen import StatusLine, say
from edgeforest.engines import speed
from edgeforest.host.words import about, duration, reason

EXAMPLE = 10_000_000  # insertions whose time is said
BUSY = 1.3  # times as long as the processor worked


def add(commands: Any) -> None:
    """Add the command to the command line."""
    add_command(
        commands,
        "calibrate",
        run,
        "measure how fast this device trains, and keep that for the plans of train",
        "It takes a few seconds. From then on train says what a budget means here, and a limit in "
        "time grows as many trees as there is time for, instead of cutting all of them short. "
        f"{speed.VARIABLE} names the file; without it the file is where this system keeps "
        "the state of programs.",
        "edgeforest calibrate",
    )


def run(args: argparse.Namespace) -> int:
    """Measure all engines that are present, and keep what was found."""
    status = StatusLine(args.quiet)
    found: dict[str, speed.Speed] = {}
    for name in engines.present():
        status.show(f"measuring {name} ...")
        clock, worked = time.monotonic(), time.process_time()
        one = found[name] = speed.measure(name)
        busy = (time.monotonic() - clock) / max(0.001, time.process_time() - worked)
        status.clear()
        say(
            name,
            f"{about(one.typical)} insertions a second ({about(one.low)} in deep trees to "
            f"{about(one.high)} in the first levels); {about(EXAMPLE)} take about {duration(EXAMPLE / one.typical)}",
        )
        if busy > BUSY:
            say("", f"this device is busy: what it does now takes {busy:.1f} times as long")
    try:
        path = speed.keep(found)
    except OSError as error:
        raise Problem(
            f"cannot write {error.filename or speed.place()}: {reason(error)}; name another file in "
            f"{speed.VARIABLE}"
        ) from None
    args.facts["speeds"] = {name: asdict(one) for name, one in found.items()}
    args.facts["file"] = str(path)
    say("kept", f"{path}; train uses it from now on, remove it to undo that", wrap=False)
    return 0
