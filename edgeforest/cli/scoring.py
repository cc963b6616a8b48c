"""How well predictions match the truth, in words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from edgeforest.cli.screen import shares
from edgeforest.host.names import quoted
from edgeforest.host.words import rounded


class Tally:
    """Counts how well predictions match the truth, and how well one guess for all rows would."""

    def __init__(self, regression: bool) -> None:
        self.regression = regression
        self.rows = 0
        self.labels: Counter[Any] = Counter()
        self.found: Counter[Any] = Counter()
        self.mean = 0.0
        self._squares = 0.0
        self._errors = 0.0

    def add(self, truth: Any, prediction: Any) -> None:
        """Count one row."""
        self.rows += 1
        if not self.regression:
            self.labels[truth] += 1
            self.found[truth] += truth == prediction
            return
        step = truth - self.mean
        self.mean += step / self.rows
        self._squares += step * (truth - self.mean)
        self._errors += (truth - prediction) ** 2

    def add_blocks(self, forest: Any, blocks: Iterable[tuple[Any, Sequence[Any]]]) -> bool:
        """Count blocks of rows and targets; whether Ctrl-C came before the last one."""
        try:
            for rows, truths in blocks:
                answers = forest.predict(rows) if len(rows) else []
                for truth, answer in zip(truths, answers, strict=True):
                    self.add(truth, answer)
        except KeyboardInterrupt:  # ends the scoring; the forest must not be lost for it
            return True
        return False

    def words(self, rows: str, guess: Any = None) -> tuple[str, str]:
        """The score on what is named `rows`, and that of a guess: the commonest class or the mean."""
        if self.regression:
            guess = self.mean if guess is None else guess
            naive = self._squares / self.rows + (self.mean - guess) ** 2
            return (
                f"mean squared error {rounded(self._errors / self.rows)} on {rows}",
                f"{rounded(naive)} by always guessing the mean, {rounded(guess)}",
            )
        guess = commonest(self.labels) if guess is None else guess
        return (
            f"accuracy {self.found.total() / self.rows:.3f} on {rows}",
            f"{self.labels[guess] / self.rows:.3f} by always guessing {quoted(guess)}",
        )

    def by_class(self) -> str:
        """The share of each class's rows that were found, in words."""
        return shares([(label, self.found[label] / n) for label, n in self.labels.most_common()])


def commonest(labels: Counter[Any]) -> Any:
    """The most frequent label; the smallest one of several."""
    most = max(labels.values())
    return min(label for label, times in labels.items() if times == most)
