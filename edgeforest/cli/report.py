"""What a training prints: what the log holds, what was spent, and how good the forest is."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from edgeforest.budget import Budget
import edgeforest.cli.signals as signals
from edgeforest.cli.outcome import Outcome
import edgeforest.cli.screen as screen
from edgeforest.cli.screen import bars, say, shape, shares, spent, tell
from edgeforest.engines.speed import Speed
from edgeforest.host.names import joined, listed, quoted, short
from edgeforest.host.words import about, count, duration, rounded
from edgeforest.scores import metrics
from edgeforest.sources import Source
from edgeforest.sources.column_kinds import MAX_AUTO_CLASSES
from edgeforest.sources.schema import Schema
from edgeforest.splits import RandomRows

RARE = 0.05  # of the rows: a class with fewer is easily overlooked
MANY_CLASSES = 100  # more than these are more likely an id


def print_schema(source: Source, schema: Schema, whole: bool, weights: Any = None) -> None:
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
    print_left_out(schema, getattr(source, "unlabelled", 0))
    if not whole:
        say("target", f"{short(schema.target)}: {'numbers' if schema.regression else 'classes'}")
    elif schema.regression:
        print_numbers(schema)
    else:
        print_classes(schema)
    if not schema.regression:
        print_doubt(schema.target, len(set(found.target.values)), schema.looked)
        if weights is None:
            print_imbalance(found.target.values)
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


def print_left_out(schema: Schema, unlabelled: int) -> None:
    """Say which columns are not used and why, and how many rows have no target."""
    for name, why in schema.left_out:
        dates = name in schema.found.dates
        hint = f"; --dates {short(name)} makes numbers of them" if dates else ""
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


def print_imbalance(values: Sequence[Any]) -> None:
    """Say that a class is rare: its rows hardly count in the accuracy."""
    labels = Counter(values)
    rare, times = labels.most_common()[-1]
    if times < RARE * len(values):
        share = f"{quoted(rare)} is {times / len(values):.1%} of the rows"
        say("", f"imbalanced: {share}; --class-weight balanced finds more of them")


def print_plan(budget: Budget, forest: Budget) -> None:
    """Say how a budget is divided between the forest and its score."""
    parts = []
    if budget.insertions is not None and forest.insertions != budget.insertions:
        parts.append(f"{forest.insertions:,} of {budget.insertions:,} insertions")
    if (
        budget.seconds is not None
        and forest.seconds is not None
        and forest.seconds < 0.99 * budget.seconds
    ):
        parts.append(f"{duration(forest.seconds)} of {duration(budget.seconds)}")
    if parts:
        say("plan", f"{', '.join(parts)} at most for the forest, the rest for its score")


def print_pace(budget: Budget, speed: Speed, trees: int, asked: int) -> None:
    """Say what a budget means on this device, and how many trees are planned for it."""
    if budget.insertions is not None:
        n = budget.insertions
        range_ = f"{duration(n / speed.high)} to {duration(n / speed.low)} by the data"
        time = f"about {duration(n / speed.typical)} on this device ({range_})"
        say("plan", f"{n:,} insertions: {time}, and the time to read")
    if budget.seconds is not None:
        work = f"about {about(budget.seconds * speed.typical)} insertions on this device"
        fewer = f"; {count(trees, 'tree')} of {asked}, so that each has time to grow" * (
            trees < asked
        )
        say("plan", f"{duration(budget.seconds)}: {work}, less the time to read{fewer}")


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
    if outcome.stopped:
        say(
            "stopped",
            f"by {signals.words(outcome.stopped)}; the forest so far is complete and is kept",
        )
    if outcome.problem:
        say("stopped", "by the problem below; the trees that are done are kept")
    say("engine", outcome.engine)
    say("spent", f"{spent(forest)}, {duration(forest.spent.seconds)}")
    if outcome.estimate is not None and outcome.estimate.insertions:
        further = f"{outcome.estimate.insertions:,} insertions"
        say("", f"{further} for its score, {duration(outcome.estimate.seconds)}")
    print_met(outcome.ready.schema)
    trees = shape(forest)
    if len(forest) < asked and not outcome.stopped and not outcome.problem:
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
    """Say how well rows were predicted that a forest had not seen."""
    found = outcome.estimate
    if found is None or not found.blocks:
        why = outcome.unscored
        if not why:
            early = outcome.stopped or outcome.problem
            why = (
                "there was no time or budget left"
                if found and not early
                else "nothing was left out for it"
            )
        say("score", f"none, since {why}")
        return
    say("score", score_words(found))
    guess = "the mean" if found.regression else "the commonest class"
    say("", f"{_digits(found, found.naive)} by always guessing {guess} of the other rows")
    if not found.regression:
        table = found.pooled.table()
        parts = zip(found.pooled.labels, metrics.recalls(table), map(sum, table), strict=True)
        common = sorted((p for p in parts if p[2]), key=lambda p: -p[2])
        say("", f"found of each class: {shares([(label, part) for label, part, _ in common])}")
    print_doubts(outcome)


def score_words(found: Any) -> str:
    """The score of an estimate, and the worst block of it."""
    measure = "mean squared error" if found.regression else "accuracy"
    over = f"{len(found.blocks)} of {found.planned}" * (len(found.blocks) < found.planned)
    words = f"{measure} {_digits(found, found.mean)} over {over or found.planned} {found.kind}"
    if found.kind == RandomRows.kind:
        return words
    return f"{words}; worst {_digits(found, found.worst.score)} on {found.worst.name}"


def print_doubts(outcome: Outcome) -> None:
    """Say what makes a score less true."""
    found = outcome.estimate
    if found.kind == RandomRows.kind:
        why = f"{found.why}, so rows" if found.why else "rows"
        say("", f"{why} were left out at random; if neighbours are alike, as in most logs, the next "
                "day will be worse: --group, or evaluate with another log")  # fmt: skip
    if found.trees < min(5, outcome.ready.asked_trees):
        say("", f"a rough score, by forests of {count(found.trees, 'tree')}: the budget is small")
    if found.sampled:
        say("", f"measured on {count(found.sampled, 'row')} drawn at random")
    if len(found.blocks) < found.planned and not outcome.stopped:
        say("", "there was no time or budget for the others")


def _digits(found: Any, score: float) -> str:
    return rounded(score) if found.regression else f"{score:.3f}"


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


def facts(outcome: Outcome) -> dict[str, Any]:
    """What a training gave, as plain values for JSON."""
    forest, schema = outcome.forest, outcome.ready.schema
    found = outcome.estimate
    return {
        "log": outcome.ready.source.name,
        "rows": len(outcome.ready.source),
        "target": schema.target,
        "task": "regression" if schema.regression else "classification",
        "left_out": dict(schema.left_out),
        "stopped": signals.words(outcome.stopped) if outcome.stopped else None,
        "engine": forest.engine,
        "score": None if found is None else found.facts(),
        **screen.facts(forest),
    }
