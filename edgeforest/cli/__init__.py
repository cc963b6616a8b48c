"""The command line: train a forest from a log, predict with it, look into it, export it.

Exit codes: 0 done; 2 something is wrong with what was given (one sentence on stderr says what);
130 stopped by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP (a forest in training is kept all the same);
141 the reader closed the pipe. docs/cli.md promises them.
"""

import os
import sys

from edgeforest.cli.commands import run


def main(argv: list[str] | None = None) -> int:
    """The entry point: run a command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a column named °C must not end a run
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(argv)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # | head has seen enough
        # Python flushes the standard output once more when it ends; that must not fail, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
