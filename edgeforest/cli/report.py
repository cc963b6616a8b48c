"""What a training prints: what the log holds, what was spent, and how good the forest is."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from edgeforest.cli.outcome import Outcome
from edgeforest.cli.screen import bars, say, shape, shares, spent, tell
from edgeforest.host.names import joined, listed, quoted, short
from edgeforest.host.words import count, duration, rounded
from edgeforest.sources import Source
from edgeforest.sources.column_kinds import MAX_AUTO_CLASSES
from edgeforest.sources.schema import Schema

MANY_CLASSES = 100  # more than these are more likely an id


def print_schema(source: Source, schema: Schema, whole: bool) -> None:
    """Say what a log has, found from all of its rows or from a sample."""
    found = schema.found
    kinds = {
        schema.names[f]: f" ({count(len(found.categories[schema.names[f]]), 'value')})" * whole
        for f in schema.categorical
    }
    print_columns(source, schema.names, kinds)
    if whole:
        print_missing(found.missing, len(source) * len(schema.names))
    else:
        say("", f"found from {count(schema.looked, 'row')} drawn at random")
    print_left_out(schema.left_out, getattr(source, "unlabelled", 0))
    if not whole:
        say("target", f"{short(schema.target)}: {'numbers' if schema.regression else 'classes'}")
    elif schema.regression:
        print_numbers(schema)
    else:
        print_classes(schema)
    if not schema.regression:
        print_doubt(schema.target, len(set(found.target.values)), schema.looked)
    for note in source.notes:
        say("note", note)


def print_columns(source: Source, names: list[str], kinds: dict[str, str]) -> None:
    """Say how many rows there are, and which columns are numbers and which categories."""
    size = f"{count(len(source), 'row')}, {count(len(names), 'feature')}"
    say("read", f"{source.name}: {size}", wrap=False)
    numbers = [name for name in names if name not in kinds]
    if numbers:
        say("", f"{count(len(numbers), 'number')}: {listed(numbers, 30)}")
    if kinds:
        texts = [f"{short(name)}{text}" for name, text in kinds.items()]
        say("", f"{len(kinds)} categorical: {joined(texts, 20)}")


def print_missing(missing: dict[str, int], cells: int) -> None:
    """Say how many values are missing, and where most of them."""
    if not missing:
        say("", "missing: none")
        return
    total = sum(missing.values())
    worst = max(missing, key=missing.__getitem__)
    most = f"most in {short(worst)} ({missing[worst]:,})"
    say("", f"missing: {total:,} values ({total / cells:.1%}), {most}")


def print_left_out(columns: Iterable[tuple[str, str]], unlabelled: int) -> None:
    """Say which columns are not used and why, and how many rows have no target."""
    for name, why in columns:
        hint = f"; --dates {short(name)} makes numbers of them" if "distinct date" in why else ""
        say("", f"left out: {short(name)} ({why}{hint})")
    if unlabelled:
        say("", f"left out: {count(unlabelled, 'row')} without a target")


def print_numbers(schema: Schema) -> None:
    """Say which numbers a target holds."""
    y = [float(v) for v in schema.found.target.values]  # type: ignore[arg-type]
    span = f"numbers from {rounded(min(y))} to {rounded(max(y))}, mean {rounded(sum(y) / len(y))}"
    say("target", f"{short(schema.target)}: {span}")
    if len(y) > MAX_AUTO_CLASSES and len(set(y)) == len(y) == max(y) - min(y) + 1:
        say("", f"it numbers the rows: is {quoted(schema.target)} the column you meant?")


def print_classes(schema: Schema) -> None:
    """Say which classes a target has, and the share of each."""
    values = schema.found.target.values
    labels = Counter[Any](values)
    parts = shares([(label, n / len(values)) for label, n in labels.most_common()])
    say("target", f"{short(schema.target)}: {len(labels)} classes, {parts}")


def print_doubt(target: str, classes: int, rows: int) -> None:
    """Ask whether a target is the right one: it has many classes, or few rows for each."""
    if classes > MANY_CLASSES or MAX_AUTO_CLASSES < classes > rows // 5:
        each = f"{classes:,} classes, about {rounded(rows / classes)} rows for each"
        say("", f"{each}: is {quoted(target)} the column you meant?")


def print_begun(before: Any, training: Any, checkpoint: str | None) -> None:
    """Say which trees a training goes on from, and with which rows."""
    if before.note:
        say("rows", before.note, wrap=False)
    if before.forest is not None:
        done = f"{len(training.grown)} of {count(training.planned, 'tree')} were done"
        more = "" if len(training.grown) < training.planned else "; remove it to train anew"
        say("resumed", f"{checkpoint}: {done}{more}", wrap=False)


def print_outcome(outcome: Outcome) -> None:
    """Say what a training has cost, what it gave, and how good that is."""
    forest, asked = outcome.forest, outcome.ready.asked_trees
    print()
    if outcome.interrupted:
        say("stopped", "by Ctrl-C; the forest so far is complete and is kept")
    if outcome.problem:
        say("stopped", "by the problem below; the trees that are done are kept")
    say("engine", outcome.engine)
    say("spent", f"{spent(forest)}, {duration(forest.spent.seconds)}")
    print_met(outcome.ready.schema)
    trees = shape(forest)
    if len(forest) < asked and not outcome.interrupted and not outcome.problem:
        trees += f" ({asked} trees asked for, the budget did not reach further)"
    say("forest", trees)
    print_score(outcome)
    print_importances(forest)
    print_bad_rows(outcome.ready.source)


def print_met(schema: Schema) -> None:
    """Say what was met among the rows that a sample had not shown."""
    if schema.unlabelled:
        say("met", f"{count(schema.unlabelled, 'row')} without a target left out")
    for name, n in schema.odd.items():
        say("met", f"{count(n, 'value')} of {name} taken as missing: not a number")


def print_score(outcome: Outcome) -> None:
    """Say how well held-out rows were predicted."""
    tally = outcome.tally
    if not tally.rows:
        say("score", "none, since no held-out rows were predicted")
        return
    ours, naive = tally.words(count(tally.rows, "held-out row"), outcome.ready.guess)
    say("score", ours)
    say("", naive)
    if not tally.regression:
        say("", f"found of each class: {tally.by_class()}")


def print_importances(forest: Any) -> None:
    """Show the most important features."""
    heading = "important"
    if not any(forest.importances):
        say(heading, "no feature: nothing was split")
        return
    for _, line in bars(forest.names, forest.feature_importances, 5):
        tell(f"{heading:<11}{line}".rstrip())
        heading = ""


def print_bad_rows(source: Source) -> None:
    """Say which rows could not be read, or were half-written."""
    heading = "skipped"
    if source.bad:
        say(heading, f"{count(source.bad, 'row')} that cannot be read:", wrap=False)
        heading = ""
    for place, why in source.complaints[:5]:
        say(heading, f"{place} {why}", wrap=False)
        heading = ""
