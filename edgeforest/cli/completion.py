"""The command `completion`: what a shell needs to complete commands and options, from the parser."""

import argparse
from collections.abc import Iterator
from typing import Any

from edgeforest.cli.parser import add_command

HOW = {
    "bash": "source <(edgeforest completion bash)",
    "zsh": "source <(edgeforest completion zsh)",
    "fish": "edgeforest completion fish | source",
}


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "completion",
        run,
        "print a script that completes commands and options in a shell",
        "Put the example's line into ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish.",
        "source <(edgeforest completion bash)",
        quiet=False,
    )
    parser.add_argument("shell", choices=tuple(HOW), help="the shell")
    parser.set_defaults(commands=commands)


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    print(f"# {HOW[args.shell]}")
    print("\n".join(WRITERS[args.shell](args.commands)))
    return 0


def options(parser: Any) -> Iterator[tuple[str, Any]]:
    """Each spelling of each option of a command, and its action."""
    for action in parser.arguments():
        for spelling in action.option_strings:
            yield spelling, action


def bash(commands: Any) -> Iterator[str]:
    """The script for bash: words of a command, choices of an option, else files."""
    yield "_edgeforest() {"
    yield '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""'
    yield '  case "${COMP_WORDS[1]} $before" in'
    for name, parser in commands.choices.items():
        for spelling, action in options(parser):
            if action.choices:
                yield f'    "{name} {spelling}") words="{" ".join(map(str, action.choices))}";;'
    yield "    *)"
    yield '      if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f'        words="{" ".join(commands.choices)} --help --version"'
    yield "      else"
    yield '        case "${COMP_WORDS[1]}" in'
    for name, parser in commands.choices.items():
        places = [c for a in parser.arguments() if not a.option_strings for c in a.choices or ()]
        words = [*(spelling for spelling, _ in options(parser)), *places]
        yield f'          {name}) words="{" ".join(words)}";;'
    yield "        esac"
    yield "      fi;;"
    yield "  esac"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "complete -o default -o bashdefault -F _edgeforest edgeforest"


def zsh(commands: Any) -> Iterator[str]:
    """The script for zsh, which runs the one for bash."""
    yield "autoload -U +X compinit && compinit -u"
    yield "autoload -U +X bashcompinit && bashcompinit"
    yield from bash(commands)


def fish(commands: Any) -> Iterator[str]:
    """The script for fish."""
    for name, parser in commands.choices.items():
        about = _quoted(parser.description.partition(". ")[0])
        yield f"complete -c edgeforest -n __fish_use_subcommand -a {name} -d {about}"
        start = f"complete -c edgeforest -n '__fish_seen_subcommand_from {name}'"
        for action in parser.arguments():
            choices = (
                f" -x -a {_quoted(' '.join(map(str, action.choices)))}" if action.choices else ""
            )
            if not action.option_strings:
                if choices:
                    yield f"{start}{choices}"
                continue
            names = "".join(
                f" -l {s[2:]}" if s.startswith("--") else f" -s {s[1:]}"
                for s in action.option_strings
            )
            value = " -r" if not choices and action.nargs != 0 else ""
            yield f"{start}{names}{choices}{value} -d {_quoted(_first(action.help))}"


def _first(text: str) -> str:
    """The beginning of a help text."""
    return text.replace("%%", "%").partition(";")[0].partition(" (default")[0]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


WRITERS = {"bash": bash, "zsh": zsh, "fish": fish}
