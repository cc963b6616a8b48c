"""The command `merge`: one model from several."""

import argparse
import os
import re
from typing import Any

from edgeforest.cli.arguments import amount, bytes_of, weights
from edgeforest.cli.models import load_model
from edgeforest.cli.parser import Problem, add_command
from edgeforest.cli.saving import refuse_output, save
from edgeforest.cli.screen import facts, predicts, say, shape
from edgeforest.host.words import count


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "merge",
        run,
        "join models that were trained apart into one",
        "It predicts as all of them together. Their features must be the same; classes and "
        "categories may differ.",
        "edgeforest merge kitchen.json cellar.json --out house.json",
    )
    parser.add_argument("models", nargs="+", metavar="model", help="a model that train wrote")
    parser.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="where to write the model, as JSON; - for the standard output",
    )
    parser.add_argument(
        "--weights",
        type=weights,
        metavar="A,B",
        help="the weight of each model, such as 1,2 (default: every tree has the same)",
    )
    limits = parser.add_argument_group(
        "limits", "trees are taken from the models in turn, as many as fit"
    )
    limits.add_argument("--max-trees", type=amount, metavar="N", help="at most N trees")
    limits.add_argument(
        "--max-bytes", type=bytes_of, metavar="N", help="a file of at most N bytes, such as 64kB"
    )


def run(args: argparse.Namespace) -> int:
    """Join models into one."""
    refuse_output(args.out, *args.models)
    forests = [load_model(path) for path in args.models]
    for path, forest in zip(args.models, forests, strict=True):
        say("read", f"{path}: {shape(forest)}", wrap=False)
    for k, path in enumerate(args.models):
        if any(os.path.samefile(path, other) for other in args.models[:k]):
            say("note", f"{path} is given twice, so its trees count double; meant?", wrap=False)
    try:
        joined = merged(forests, args)
    except ValueError as error:
        text = re.sub(r"\bforest (\d+)", lambda at: args.models[int(at[1])], str(error))
        raise Problem(text) from None
    left_out = sum(len(forest) for forest in forests) - len(joined)
    say("forest", shape(joined) + (f" ({count(left_out, 'tree')} left out)" if left_out else ""))
    say("predicts", predicts(joined))
    args.facts.update(models=args.models, out=args.out, left_out=left_out, **facts(joined))
    save(joined, args.out, args.stream)
    return 0


def merged(forests: list[Any], args: argparse.Namespace) -> Any:
    """The forests as one, within the limits that were given."""
    from edgeforest.forests.merging import merge

    limits = {"max_trees": args.max_trees}
    if args.max_bytes is not None:
        limits["max_bytes"] = args.max_bytes - 1  # a file ends with a newline
        need = len(merge(forests, args.weights, max_trees=1).to_json().encode()) + 1
        if need > args.max_bytes:
            raise Problem(f"one tree needs --max-bytes {need}, got {args.max_bytes}; give more")
    return merge(forests, args.weights, **limits)
