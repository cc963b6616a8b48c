"""Ctrl-C ends a long training at once, and what was grown by then can be used."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgeforest import core_pure, load
from edgeforest.engines import present

ROOT = Path(__file__).resolve().parent.parent
# Seconds of work from the signal to the handler of the exception: of the processor, not of the clock,
# which also counts what other programs do meanwhile.
WITHIN = 0.5

# Trains for minutes; prints when it begins to grow, when the interrupt arrives, and how it ends.
CHILD = """
import signal
import sys
import time

import numpy as np

from edgeforest import train, train_steps

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
name, n_jobs, n, n_trees, options = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), 2000, {}
for option in sys.argv[4:]:
    key, value = option.split("=")
    options[key] = int(value) if value.isdigit() else value
rng = np.random.default_rng(0)
X = rng.random((n, 12), dtype=np.float32)
y = (X[:, 0] + X[:, 1] + rng.random(n, dtype=np.float32) > 1.5).astype(int)
if name != "native":
    X, y = X.tolist(), y.tolist()
training = train_steps(X, y, engine=name, n_jobs=n_jobs, n_trees=n_trees, **options)
try:
    print("growing", flush=True)
    for step in training:
        pass
    print("done", flush=True)
except KeyboardInterrupt:
    print("interrupted", time.process_time(), flush=True)
forest = training.forest()
assert 1 <= len(forest) < n_trees
assert len(forest.predict(X[:50])) == 50
assert training.forest().to_json() == forest.to_json()
assert list(training) == []
small = X[:300], y[:300]
again = train(*small, engine=name, n_jobs=n_jobs, n_trees=4)
assert again.to_json() == train(*small, engine="pure", n_trees=4).to_json()
print("fine", flush=True)
"""


def worked(child):
    """Seconds that all threads of a child have worked so far, as its `time.process_time()` says."""
    return time.clock_gettime(~child.pid << 3 | 2)  # the number of its clock, on Linux


def interrupt(after, *arguments):
    """Seconds of work from the signal to the handler in a child that trains and then works on."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline() == "growing\n", child.communicate()[1]
        began = worked(child)
        while worked(child) < began + after:
            time.sleep(0.01)
        sent = worked(child)
        child.send_signal(signal.SIGINT)
        out, error = child.communicate(timeout=300)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 0, error
    word, when = out.splitlines()[0].split()
    assert (word, out.splitlines()[1:]) == ("interrupted", ["fine"])
    return float(when) - sent


linux = pytest.mark.skipif(sys.platform != "linux", reason="reads the clock of another process")
posix = pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to one child alone")
SORTS = [
    ("exact", "gini"),
    ("exact", "mse"),
    ("mab", "entropy"),
    ("mab-paper", "gini"),
]


@linux
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(("splitter", "criterion"), SORTS)
@pytest.mark.skipif("native" not in present(), reason="the C kernel was not built")
def test_a_native_fit_ends_soon_after_ctrl_c(splitter, criterion, n_jobs, figure):
    size = 400_000
    options = [f"splitter={splitter}", f"criterion={criterion}", "max_features=12"]
    took = interrupt(0.3, "native", n_jobs, size, *options)
    figure(f"{took * 1000:.0f} ms")
    assert took <= WITHIN


@linux
@pytest.mark.skipif("native" not in present(), reason="the C kernel was not built")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_is_heard_while_rows_are_drawn_and_nodes_partitioned(n_jobs, figure):
    # One split of four million rows: next to nothing is counted, all is drawing and moving rows.
    took = interrupt(0.3, "native", n_jobs, 4_000_000, "splitter=mab", "max_depth=1")
    figure(f"{took * 1000:.0f} ms")
    assert took <= WITHIN


@linux
@pytest.mark.parametrize("engine", [name for name in present() if name != "native"])
def test_an_interpreted_fit_ends_soon_after_ctrl_c(engine, figure):
    took = interrupt(0.3, engine, 1, 20_000, "splitter=exact")
    figure(f"{took * 1000:.0f} ms")
    assert took <= WITHIN


@posix
def test_ctrl_c_between_any_two_lines_leaves_a_whole_forest():
    """The specification itself: before whatever line it comes, the trees are sound."""
    rows = [[i % 17, i % 5, i * 7 % 23] for i in range(400)]
    labels = [(row[0] > 8) + (row[2] > 11) for row in rows]
    chance = random.Random(1)
    for _ in range(40):
        training = core_pure.Training(rows, labels, n_trees=3, max_depth=5)
        left = chance.randrange(1, 9000)

        def trace(frame, event, _):
            nonlocal left
            if frame.f_code.co_filename != core_pure.__file__:
                return None
            if event == "line":
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            with pytest.raises(KeyboardInterrupt):
                for _ in training:
                    pass
        finally:
            sys.settrace(before)
        signal.alarm(300)  # a cycle in a tree would never end
        forest = training.forest()
        assert load(forest.to_json()).predict(rows[:9]) == forest.predict(rows[:9])
        signal.alarm(0)
