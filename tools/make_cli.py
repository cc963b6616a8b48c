"""Write docs/cli.md from the parser of the command line.

python tools/make_cli.py           # write it
python tools/make_cli.py --check   # say whether it is as it would be written
"""

import argparse
import re
import sys
from pathlib import Path

from edgeforest.cli.commands import build_parser

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """\
# The command line

Made from the parser by `python tools/make_cli.py`. `edgeforest COMMAND --help` prints the same.

Whatever a command computes is a function of the library: `train` is `train_source` (or `train`, for a log that fits
in memory) with `edgeforest.scores.estimating`; `evaluate` is `edgeforest.scores.evaluate`; `predict` is
`Forest.predict`; `merge`, `export`, `verify` and `pack` are the functions of the same names.

## Exit codes

| code | what happened |
|---|---|
| 0 | done |
| 2 | something is wrong with what was given; one sentence on stderr says what, and what to do |
| 129, 130, 143 | stopped by SIGHUP, Ctrl-C or SIGTERM; what `train` had done was kept |
| 141 | whoever read the output closed the pipe |

They are stable: a later release may add codes, but not change these. Results go to the standard output; progress, notes
and problems to stderr. On a terminal, progress is a line that is overwritten, elsewhere a line in ten seconds at most.
`--json` prints one object instead of words, `--quiet` nothing but problems. `-` is the standard input as a log or a
model, and the standard output as `--out`.

Shells complete commands and options: `source <(edgeforest completion bash)` in `~/.bashrc`, the same with zsh, or
`edgeforest completion fish | source`.
"""


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("%%", "%").replace("|", "\\|")


def spelled(action: argparse.Action) -> str:
    """An argument as it is written."""
    value = action.metavar or ""
    if not value and action.nargs != 0 and action.choices:
        value = "|".join(map(str, action.choices))
    if not action.option_strings:
        name = str(action.metavar or action.dest)
        return (
            name + (" ..." if action.nargs == "+" else "") + (f" {value}" if action.choices else "")
        )
    return f"{', '.join(action.option_strings)} {value}".strip()


def section(name: str, parser: argparse.ArgumentParser) -> str:
    """One command of the page."""
    about, _, example = (parser.description or ""), None, (parser.epilog or "").partition("\n")[2]
    lines = [f"## {name}", "", about.strip(), "", "```", example.strip(), "```", ""]
    lines += ["| argument or option | |", "|---|---|"]
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.dest != "help"]
        if actions and group.title not in ("positional arguments", "options"):
            more = f": {group.description}" if group.description else ""
            lines.append(f"| **{group.title}** | {cell((more or '')[2:])} |")
        for action in actions:
            lines.append(f"| `{cell(spelled(action))}` | {cell(action.help or '')} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page."""
    parser = build_parser()
    sub = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    parts = [HEAD, *(section(name, command) for name, command in sub.choices.items())]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).strip() + "\n"


def main() -> None:
    text = page()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit("docs/cli.md is not what the parser says; run: python tools/make_cli.py")
    else:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
