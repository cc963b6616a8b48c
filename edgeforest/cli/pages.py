"""The report as a page: what `train --report` and `inspect --report` know, handed to `reports`."""

import argparse
import os
from typing import TYPE_CHECKING, Any

import edgeforest.cli.logs as logs
from edgeforest.budget import Rng
from edgeforest.cli.outcome import Outcome
from edgeforest.cli.parser import Problem
from edgeforest.cli.report import score_words
from edgeforest.cli.saving import kept_file, refuse_output, replaced
from edgeforest.cli.screen import StatusLine, say, spent
from edgeforest.core_pure import Training
from edgeforest.host.names import listed, quoted
from edgeforest.host.words import count
from edgeforest.sources import Source, SourceError, draw

if TYPE_CHECKING:
    from edgeforest.reports.study import Study

SAMPLE = (1 << 21) + 1  # the random stream that draws rows for a report; the one before holds out
LOOKED_AT = 20_000  # rows of a log that the report of a model is made from, at most
WATCHED = 100_000  # rows that a tree is grown from again, at most


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add the option of the report."""
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="write a page about the forest, as HTML: how good it is, where the budget went, what "
        "matters, what it gets wrong; it needs NumPy",
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the options of rows that a report is made from."""
    parser.add_argument(
        "--data",
        dest="log",
        nargs="+",
        default=[],
        metavar="LOG",
        help="for --report: rows that the model has not seen; " + logs.HELP,
    )
    parser.add_argument(
        "--target", metavar="NAME", help="for --report: the column of LOG with the truth"
    )
    logs.add_reading(parser)


def refuse_report(args: argparse.Namespace, *inputs: str) -> None:
    """Refuse, before any work, a report that cannot be made or written."""
    if args.report is None:
        if getattr(args, "model", None) is not None and (args.log or args.target):
            raise Problem("--data and --target are for a report; give --report, too")
        return
    refuse_output(args.report, *inputs, option="--report")
    if args.target is not None and not args.log:
        raise Problem("--target names a column of a log; give the log with --data")
    try:
        import numpy  # noqa: F401
    except ImportError:
        raise Problem(
            "--report needs NumPy, which is not installed; pip install 'edgeforest[numpy]'"
        ) from None


def report_training(outcome: Outcome, args: argparse.Namespace) -> None:
    """Write the report of a training, if it is asked for."""
    if args.report is None:
        return
    from edgeforest.reports.study import Study

    forest, ready = outcome.forest, outcome.ready
    name = os.path.basename(ready.source.name)
    study = Study(forest, f"{args.target} from {name}", args.target)
    if outcome.grown is not None:  # the last tree may have been closed where it stood
        rest = len(forest) - len(outcome.grown)
        study.spent = [*outcome.grown, *[forest.spent.insertions] * rest]
    study.facts += [
        ("rows", f"{count(len(ready.source), 'row')} of {name}"),
        ("spent", spent(forest)),
        ("engine", outcome.engine.partition(";")[0]),
    ]
    if ready.schema.left_out:
        columns = listed([f"{column} ({why})" for column, why in ready.schema.left_out])
        study.facts.append(("left out", columns))
    status = StatusLine(args.quiet)
    status.show("writing the report: rows ...")
    try:
        if not add_out_of_bag(study, outcome):
            add_training_rows(study, outcome, args.seed)
        found = outcome.estimate
        if found is not None and found.blocks:
            study.facts.append(("score", f"{score_words(found)}, left out in turn"))
            study.naive += f" Left out in turn: {score_words(found)}."
        status.show("writing the report: watching a tree grow ...")
        observe_training(study, outcome, args)
    except SourceError as error:
        say("report", f"without rows: {error}")
    write_page(study, args.report, status)


def add_out_of_bag(study: "Study", outcome: Outcome) -> bool:
    """Add the rows of the training, each for the trees that did not draw it; whether these are known."""
    from edgeforest.forests.oob import Draws

    ready, training = outcome.ready, outcome.ready.training
    if not isinstance(training, Training):
        return False
    draws = Draws(training, 0, training.data.n)
    if draws.n != len(ready.source) or not draws.leaves_out():
        return False
    columns, labels = ready.schema.columns(ready.source.read(range(len(ready.source))))
    outside = [draws.outside(tree) for tree in range(len(outcome.forest))]
    add_rows(study, list(zip(*columns, strict=True)), labels, outside)
    study.about = count(len(labels), "out-of-bag row")
    study.naive = "Each row is asked of the trees that did not draw it."
    study.place = lambda k: place_of(ready.source, k)
    return True


def add_training_rows(study: "Study", outcome: Outcome, seed: int) -> None:
    """Add rows of the training, some if there are many: what trees drew is not known."""
    source, schema, known = outcome.ready.source, outcome.ready.schema, outcome.forest.classes
    rows: Any = range(len(source))
    if len(source) > LOOKED_AT:
        rows = draw(Rng(seed, SAMPLE), LOOKED_AT, len(source))
    taken, block = source.read_kept(rows)
    columns, labels, kept = schema.labelled(block)
    places: Any = range(len(labels))
    if known is not None:  # a class may be among rows that no tree drew
        places = [i for i in places if labels[i] in known]
    features = list(zip(*columns, strict=True))
    add_rows(study, [features[i] for i in places], [labels[i] for i in places], None)
    study.about = count(len(places), "row") + " of the training"
    study.naive = "The forest was trained on rows of this log: it knows some of these."
    labelled = taken if kept is None else [taken[i] for i in kept]
    study.place = lambda k: place_of(source, labelled[places[k]])


def add_rows(study: "Study", rows: Any, truths: Any, outside: Any) -> None:
    """Add rows with their true answers."""
    from edgeforest.reports.measures import scored

    if rows:
        study.rows = scored(study.forest, rows, truths, outside)
        study.X = study.rows.X


def place_of(source: Source, row: int) -> str:
    """Where a row is, in few words: its line in a file, or its number."""
    line = source.line(row)
    return f"{row + 1:,}" if line is None else f"line {line:,}"


def observe_training(study: "Study", outcome: Outcome, args: argparse.Namespace) -> None:
    """Let a tree grow again from the rows of the training, and watch it."""
    from edgeforest.reports.study import observe

    source, schema, forest = outcome.ready.source, outcome.ready.schema, outcome.forest
    rows: Any = range(len(source))
    if len(source) > WATCHED:
        rows = draw(Rng(args.seed, SAMPLE), WATCHED, len(source))
    columns, labels = schema.columns(source.read(rows))
    options = {
        "kind": forest.kind,
        "criterion": forest.criterion,
        "splitter": forest.splitter,
        "n_trees": args.n_trees,
        "max_depth": args.max_depth,
        "min_samples_leaf": args.min_samples_leaf,
        "max_features": args.max_features,
        "n_bins": args.n_bins,
        "class_weight": args.class_weight,
        "seed": args.seed,
        "budget": forest.limit,
        "names": schema.names,
        "categorical": schema.categorical,
        "by_column": True,
    }
    study.of_log = count(len(labels), "row")
    observe(study, columns, labels, options)


def report_model(forest: Any, args: argparse.Namespace) -> None:
    """Write the report of a model, if it is asked for, with the rows of a log if there is one."""
    if args.report is None:
        return
    from edgeforest.reports.study import Study

    study = Study(forest, os.path.basename(args.model), args.target or "the target")
    study.facts.append(("spent", spent(forest)))
    status = StatusLine(args.quiet)
    if args.log:
        with logs.opened(args, status) as source:
            status.show("writing the report: rows ...")
            try:
                add_log(study, source, args.target)
            except ValueError as error:
                raise Problem(str(error)) from None
    write_page(study, args.report, status)


def add_log(study: "Study", source: Source, target: str | None) -> None:
    """Add rows of a log, with the truth if its column is named."""
    from edgeforest.host.arrays import encoded_as
    from edgeforest.reports.study import observe, options_of
    from edgeforest.sources.features import Features, category_of, number_of
    from edgeforest.sources.schema import refuse_unknown
    from edgeforest.sources.views import Only

    forest = study.forest
    if len(source) > LOOKED_AT:
        source = Only(source, draw(Rng(0, SAMPLE), LOOKED_AT, len(source)))
    rows: list[Any] = []
    truths: list[Any] = []
    places: list[int] = []
    if target is not None:
        refuse_unknown(source, [target])
        convert = number_of(source, target)
        if forest.classes is not None:
            convert = category_of(source, target, forest.classes, {})
    for block in Features(forest, source):
        values = block.values[source.names.index(target)] if target is not None else block.rows
        for row, value, place in zip(block.features, values, block.rows, strict=True):
            truth = None
            if target is not None:
                truth = None if value is None or value != value else convert(value, place)
                if truth is None or (forest.classes is not None and truth not in forest.classes):
                    continue
            rows.append(row)
            truths.append(truth)
            places.append(place)
    if not rows:
        raise Problem(
            f"no row of {source.name} has a {quoted(target)} that the model knows; name the column "
            "that it predicts"
        )
    study.facts.append(("rows", f"{count(len(rows), 'row')} of {os.path.basename(source.name)}"))
    study.about = study.of_log = count(len(rows), "row")
    if target is None:
        study.X = encoded_as(forest, rows)
        return
    add_rows(study, rows, truths, None)
    study.place = lambda k: place_of(source, places[k])
    kinds = [f for f, known in enumerate(forest.categories) if known is not None]
    options = {**options_of(forest), "names": forest.names, "categorical": kinds}
    observe(study, rows, truths, options)


def write_page(study: "Study", path: str, status: StatusLine) -> None:
    """Write the page, and say so."""
    from edgeforest.reports.page import html_of

    status.show("writing the report ...")
    text = html_of(study)
    status.clear()
    with replaced(path) as stream:
        stream.write(text)
    say("report", kept_file(path), wrap=False)
