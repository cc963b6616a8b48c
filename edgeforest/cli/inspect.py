"""The command `inspect`: what a model is."""

import argparse
from typing import Any

import edgeforest.cli.pages as pages
from edgeforest.cli.models import load_model
from edgeforest.cli.parser import add_command
from edgeforest.cli.saving import kept_file
from edgeforest.cli.screen import bars, facts, predicts, say, shape, spent, tell
from edgeforest.host.names import listed
from edgeforest.host.words import count, rounded

SHOWN = 40  # features at most


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "inspect",
        run,
        "show what a model is and what it was trained with",
        example="edgeforest inspect model.json",
    )
    parser.add_argument("model", help="a model that train wrote")
    pages.add_report(parser)
    pages.add_data(parser)


def run(args: argparse.Namespace) -> int:
    """Say what a model is."""
    pages.refuse_report(args, args.model, *args.log)
    forest = load_model(args.model)
    task = "regression" if forest.regression else "classification"
    args.facts.update(model=args.model, task=task, **facts(forest))
    for name in ("kind", "criterion", "splitter", "seed"):
        args.facts[name] = getattr(forest, name)
    say("model", kept_file(args.model), wrap=False)
    say("kind", f"{forest.kind} for {task}")
    say("trained", f"criterion {forest.criterion}, splitter {forest.splitter}, seed {forest.seed}")
    print_rows(args.model)
    say("spent", spent(forest))
    say("forest", shape(forest))
    say("predicts", predicts(forest))
    lines = bars(forest.names, forest.feature_importances, SHOWN)
    wide = max(len(line) for _, line in lines)
    print(f"\n{count(len(forest.names), 'feature')}, most important first:")
    for f, line in lines:
        kinds = forest.categories[f]
        kind = f"categorical: {listed(kinds, 6)}" if kinds is not None else number_range(forest, f)
        tell(f"  {line:<{wide}}  {kind}")
    if len(forest.names) > SHOWN:
        print(f"  and {len(forest.names) - SHOWN:,} more")
    pages.report_model(forest, args)
    return 0


def number_range(forest: Any, f: int) -> str:
    """What a feature of numbers is, and from where to where it went in the training."""
    if forest.ranges is None or forest.ranges[2 * f] != forest.ranges[2 * f]:
        return "number"
    low, high = forest.ranges[2 * f : 2 * f + 2]
    return f"number, {rounded(low)} to {rounded(high)}"


def print_rows(path: str) -> None:
    """Say which rows a checkpoint was trained on; nothing for other models."""
    from edgeforest.sources.checkpoints import noted

    log, done = noted(path)
    if log is not None:
        more = "" if done else "; not done yet: train --resume goes on"
        say("rows", f"{count(log['rows'], 'row')} of {log['name']}{more}", wrap=False)
