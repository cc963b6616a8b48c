"""Learn gestures from recordings of a motion sensor. It runs in MicroPython, in the worker of the page.

    Recording    samples with a label; they become rows once
    Learner      recordings become a forest, with a score from recordings that were left out
    Watcher      is given samples as they come, and says what the forest sees

A sample is x, y, z in hundredths of m/s², gravity included; there are 50 of them a second. This file runs
unchanged on CPython:

>>> wave = lambda force: array("h", [force * (i % 7) for i in range(300)])
>>> recordings = [Recording(wave(0), "still"), Recording(wave(90), "shake")] * 5
>>> learner = Learner(recordings)
>>> while learner.step(1000) < 1:
...     pass
>>> learner.right, learner.tested, learner.wrong
(10, 10, [])
>>> watcher = Watcher(learner.forest)
>>> said = [watcher.push(*wave(80)[3 * i : 3 * i + 3]) for i in range(60)]
>>> said.count(None), learner.forest.classes[said[-1]]
(58, 'shake')
"""

from array import array

from edgeforest.budget import Budget, Rng
from edgeforest.core_pure import Training
from edgeforest.windows import Windows

try:
    from time import ticks_diff, ticks_ms
except ImportError:  # a computer
    from edgeforest.clock import ticks_diff, ticks_ms

SIZE, STEP = 50, 10  # samples: a row is made of the last second, five times a second
FEATURES = ("mean", "deviation", "range", "crossings", "change")  # of x, y, z and their magnitude
TREES = 20
FOLDS = 5  # each recording is left out once, a fifth of them at a time
READING = 0.3  # of the whole work, about: recordings become rows
LATE = "There is too little time for so many recordings; allow more, or learn again: some are read now."


def windows():
    """How samples become rows."""
    return Windows(3, SIZE, STEP, FEATURES)


class Recording:
    """The samples of one gesture, flat: x, y, z, x, y, z, ..., and its label."""

    def __init__(self, samples, label=""):
        if len(samples) < 3 * SIZE:
            raise ValueError("This recording is too short: hold the button for more than a second.")
        self.samples = samples
        self.label = label
        self.rows = None

    def read(self):
        """Compute the rows, once."""
        if self.rows is None:
            made = windows()
            rows = []
            for at in range(0, len(self.samples) - 2, 3):
                if made.push(self.samples[at : at + 3]):
                    rows.append(made.row[:])
            self.rows = rows
        return self.rows


class Learner:
    """Learns recordings in at most that many seconds, `step` by `step`.

    The recordings become rows and a forest learns all of them. Then others are trained, each without a
    fifth of the recordings, and asked about these. Whole recordings are left out: the windows of one
    recording overlap, so a forest that has learned one of them has nearly learned the next.
    """

    def __init__(self, recordings, seconds=10.0, seed=0):
        self.labels = sorted({recording.label for recording in recordings})
        if len(self.labels) < 2:
            raise ValueError("Record at least two gestures: there must be something to tell apart.")
        counts = [sum(r.label == name for r in recordings) for name in self.labels]
        if min(counts) < 2:
            name = self.labels[counts.index(min(counts))]
            raise ValueError(f"Record “{name}” at least twice, better ten times.")
        self.recordings = recordings
        self.seconds = seconds
        self.seed = seed
        self.spent = 0.0  # seconds so far
        self.doing = ""
        self.forest = None
        self.right = self.tested = 0
        self.wrong = []  # (place of the recording, label that was said) for each mistake
        self._latest = None  # forest
        self._done = 0.0
        self._steps = self._run()

    def step(self, milliseconds):
        """Work for about that long; returns the part of the work that is done, 1.0 at the end."""
        began = now = ticks_ms()
        while self._steps is not None and ticks_diff(now, began) < milliseconds:
            before = now
            try:
                self._done = next(self._steps)
            except StopIteration:
                self._steps = None
            now = ticks_ms()
            self.spent += ticks_diff(now, before) / 1000
        # When the last tree is grown, its recordings are still to be asked.
        return 1.0 if self._steps is None else min(self._done, 0.99)

    def _run(self):
        """Do all the work; yields the part that is done."""
        self.doing = "Reading the recordings"
        n = len(self.recordings)
        for i, recording in enumerate(self.recordings):
            if self.spent > self.seconds / 2:
                raise ValueError(LATE)
            recording.read()
            yield READING * (i + 1) / n
        self.doing = "Growing the forest"
        folds = min(FOLDS, n)
        each = (1 - READING) / (folds + 1)
        for part in self._train(self.recordings, (self.seconds - self.spent) / 2):
            yield READING + part * each
        self.forest = self._latest
        self.doing = "Testing it on recordings that were left out"
        fold_of = self._folds(folds)
        for fold in range(folds):
            inside = [r for i, r in enumerate(self.recordings) if fold_of[i] != fold]
            try:
                for part in self._train(inside, (self.seconds - self.spent) / (folds - fold)):
                    yield READING + (fold + 1 + part) * each
            except ValueError:
                break  # the score is of the recordings so far
            for i in range(n):
                if fold_of[i] == fold:
                    self._ask(i)

    def _train(self, recordings, seconds):
        """Train on these recordings; yields the part that is done."""
        if seconds < 0.01:
            raise ValueError(LATE)
        names = windows().names  # so that the model knows its windows: Windows.of(forest)
        rows, labels = [], []
        for recording in recordings:
            rows += recording.rows
            labels += [recording.label] * len(recording.rows)
        columns = [array("h", [row[f] for row in rows]) for f in range(len(names))]
        try:
            training = Training(
                columns,  # which are read faster than rows
                labels,
                by_column=True,
                names=names,
                n_trees=TREES,
                budget=Budget(seconds=seconds),
                seed=self.seed,
            )
        except ValueError:  # the time was up while they were read
            raise ValueError(LATE) from None
        for task in training:
            yield len(task.grown) / TREES
        self._latest = training.forest()

    def _folds(self, folds):
        """When each recording is left out, by lot; every gesture is spread over all folds."""
        rng = Rng(self.seed)
        fold_of = bytearray(len(self.recordings))
        place = 0
        for name in self.labels:
            own = [i for i, r in enumerate(self.recordings) if r.label == name]
            rng.shuffle(own, len(own))
            for i in own:
                fold_of[i] = place % folds
                place += 1
        return fold_of

    def _ask(self, i):
        """Let the windows of a recording vote, and note whether they are right."""
        recording, forest = self.recordings[i], self._latest
        votes = [0] * len(forest.classes)
        total = [0] * len(forest.classes)
        for row in recording.rows:
            forest.predict_into(row, votes)
            for k, vote in enumerate(votes):
                total[k] += vote
        said = forest.classes[total.index(max(total))]
        self.tested += 1
        if said == recording.label:
            self.right += 1
        else:
            self.wrong.append((i, said))


class Watcher:
    """Is given one sample after another, and has an answer five times a second."""

    def __init__(self, forest):
        self.forest = forest
        self.windows = Windows.of(forest)
        self.votes = [0] * len(forest.classes)
        self._sample = array("h", (0, 0, 0))

    def push(self, x, y, z):
        """Take a sample; returns the place of the class, None between two windows.

        `votes` has the votes for each class.
        """
        sample = self._sample
        sample[0], sample[1], sample[2] = x, y, z
        if self.windows.push(sample):
            return self.forest.predict_into(self.windows.row, self.votes)
        return None
