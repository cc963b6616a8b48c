"""The command `predict`: a prediction for each row of a log."""

import argparse
import csv
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, TextIO

import edgeforest.cli.logs as logs
from edgeforest.cli.arguments import coverage
from edgeforest.cli.models import load_model
from edgeforest.cli.parser import Problem, add_command
from edgeforest.cli.saving import refuse_output, replaced
from edgeforest.cli.screen import StatusLine, say, screen_or_pipe, tell
from edgeforest.host.names import quoted, short
from edgeforest.host.words import count, rounded, shortest
from edgeforest.sure import number_for

if TYPE_CHECKING:
    from edgeforest.scores import Evaluation, Familiarity
    from edgeforest.sources.features import Features

STRANGE = 0.05  # of a feature's values: more are worth a note


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "predict",
        run,
        "predict each row of a log",
        "Columns are found by their names, others are ignored. With --max-bad, a row that cannot "
        "be read gets an empty prediction.",
        "edgeforest predict model.json new.csv --proba --out predictions.csv",
        quiet=False,
    )
    parser.add_argument("model", help="a model that train wrote; - for the standard input")
    parser.add_argument("log", nargs="+", help=logs.HELP)
    parser.add_argument(
        "--out", metavar="FILE", help="CSV file to write (default -: the standard output)"
    )
    parser.add_argument(
        "--proba", action="store_true", help="also write the share of each class, as p_<class>"
    )
    parser.add_argument(
        "--coverage",
        type=coverage,
        metavar="P",
        help="also write between which bounds the value lies with this chance, as lower and upper, "
        "or which classes it may be, as in_<class>; for a model of train --calibrate",
    )
    parser.add_argument(
        "--target", metavar="NAME", help="the column with the truth: print the score to stderr"
    )
    parser.add_argument("--quiet", action="store_true", help="no notes on stderr")
    logs.add_reading(parser)


def run(args: argparse.Namespace) -> int:
    """Predict each row of a log."""
    from edgeforest.sources.features import Features
    from edgeforest.sources.schema import refuse_unknown

    if args.model == "-" and "-" in args.log:
        raise Problem("- is the standard input, which holds a model or a log; give one as a file")
    refuse_output(args.out, args.model, *args.log)
    forest = load_model(args.model)
    if args.proba and forest.regression:
        raise Problem(
            f"{args.model} predicts numbers, which have no class shares; leave out --proba"
        )
    if args.coverage is not None:
        if not forest.calibration:
            raise Problem(f"{args.model} is not calibrated; train it again with --calibrate")
        try:
            number_for(forest, args.coverage)
        except ValueError as error:
            raise Problem(f"{args.model}: {error}") from None
    with logs.opened(args, StatusLine()) as source:
        features = Features(forest, source)
        if args.target is not None:
            refuse_unknown(source, [args.target])
        if args.out in (None, "-"):
            with redirect_stdout(args.stream):
                predict(forest, features, screen_or_pipe(), args)
            return 0
        with replaced(args.out) as stream:
            rows = predict(forest, features, stream, args)
        say("saved", f"{args.out}, {count(rows, 'prediction')}", wrap=False)
    return 0


def predict(forest: Any, features: "Features", stream: TextIO, args: argparse.Namespace) -> int:
    """Write a prediction for each row, an empty one for a bad row; returns how many."""
    from edgeforest.scores.evaluation import Evaluation, truth_reader
    from edgeforest.scores.familiarity import Familiarity

    source, proba, target = features.source, args.proba, args.target
    tally, odd = Evaluation(forest.classes), Familiarity(forest)
    truths_of = None if target is None else truth_reader(forest, source, target)
    writer = csv.writer(stream, lineterminator="\n")
    classes = forest.classes or ()
    names = ["prediction", *(f"p_{label}" for label in classes if proba)]
    if args.coverage is not None:
        names += [f"in_{label}" for label in classes] or ["lower", "upper"]
    writer.writerow(names)
    blank = [""] * len(names)
    for block in features:
        written = dict.fromkeys(block.asked, blank)
        answers: Sequence[Any] = []
        odd.add(block.features)
        if block.features and proba:
            parts_of = forest.predict_proba(block.features)
            answers = [classes[parts.index(max(parts))] for parts in parts_of]
            for row, answer, parts in zip(block.rows, answers, parts_of, strict=True):
                written[row] = [answer, *(f"{part:.6g}" for part in parts)]
        elif block.features:
            answers = forest.predict(block.features)
            for row, answer in zip(block.rows, answers, strict=True):
                written[row] = [shortest(answer) if forest.regression else answer]
        if block.features and args.coverage is not None:
            more = how_sure(forest, block.features, args.coverage)
            for row, cells in zip(block.rows, more, strict=True):
                written[row] = [*written[row], *cells]
        writer.writerows(written.values())
        if truths_of is not None and block.features:
            known = [
                pair for pair in zip(truths_of(block), answers, strict=True) if pair[0] is not None
            ]
            tally.add([truth for truth, _ in known], [answer for _, answer in known])
    stream.flush()
    if not args.quiet:
        print_notes(features, tally, odd, target)
    return len(source)


def how_sure(forest: Any, rows: Any, coverage: float) -> list[list[Any]]:
    """The bounds of each row, or whether each class is in its set: 1 or 0."""
    if forest.regression:
        found = forest.predict_interval(rows, coverage)
        return [[shortest(end) for end in ends] for ends in found]
    found = forest.predict_set(rows, coverage)
    return [[int(label in one) for label in forest.classes] for one in found]


def print_notes(
    features: "Features", tally: "Evaluation", odd: "Familiarity", target: str | None
) -> None:
    """Say on stderr what was odd about the rows, and how good the predictions are."""
    for name, text in features.unknown.items():
        note = f"note: {short(name)} has values that the model has not met, such as {quoted(text)}"
        tell(f"{note}; they count as missing", sys.stderr)
    for one in odd.odd():
        if one.low is not None and one.high is not None and one.share > STRANGE:
            ends = f"{rounded(one.low)} to {rounded(one.high)}"
            what = f"{one.share:.0%} of the values of {short(one.name)}"
            tell(f"note: {what} are outside of {ends}, where the model was trained", sys.stderr)
    for place, why in features.source.complaints:
        tell(f"no prediction: {place} {why}", sys.stderr)
    if tally.rows:
        tell(score_words(tally), sys.stderr)
    elif target is not None:
        tell(f"no score: column {quoted(target)} holds no values", sys.stderr)


def score_words(tally: "Evaluation") -> str:
    """The score, and that of always giving the same answer."""
    rows, naive = count(tally.rows, "row"), tally.score_of([tally.guess()] * tally.rows)
    if tally.regression:
        guess = f"the mean, {rounded(tally.guess())}"
        ours = f"mean squared error {rounded(tally.score)} on {rows}"
        return f"{ours}; {rounded(naive)} by always guessing {guess}"
    ours = f"accuracy {tally.score:.3f} on {rows}"
    return f"{ours}; {naive:.3f} by always guessing {quoted(tally.guess())}"
