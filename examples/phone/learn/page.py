"""What the worker calls: numbers and text go in, text comes out (JSON, or nothing).

Samples come as the bytes of int16 numbers in a file. A ValueError is a sentence for the user.
"""

import json
from array import array

from gestures import Learner, Recording, Watcher, windows

from edgeforest.loading import load

SAMPLES = "/samples"
recordings = {}  # by their numbers
learner = None
watcher = None


def keep(number):
    """Keep the recording that is in the file."""
    with open(SAMPLES, "rb") as file:
        recordings[number] = Recording(array("h", file.read()))


def forget(number):
    """Forget a recording."""
    recordings.pop(number, None)


def read():
    """Read one of the recordings that are not read yet; returns whether there was one."""
    for recording in recordings.values():
        if recording.rows is None:
            recording.read()
            return True
    return False


def begin(asked, seconds):
    """Begin to learn: `asked` is the JSON of [[number, label], ...]."""
    global learner
    learner = None
    found = []
    for number, label in json.loads(asked):
        recordings[number].label = label
        found.append(recordings[number])
    learner = Learner(found, seconds)


def step(milliseconds):
    """Go on learning for so long: what is done, as JSON."""
    return json.dumps({"done": learner.step(milliseconds), "doing": learner.doing})


def cancel():
    """Let go of what is being learned."""
    global learner
    learner = None


def finish():
    """What was learned, as JSON; from now on the new forest is watched."""
    global learner, watcher
    found = learner
    learner = None
    watcher = Watcher(found.forest)
    spent = found.forest.spent
    return json.dumps(
        {
            "model": found.forest.to_json(),
            "classes": found.forest.classes,
            "trees": len(found.forest),
            "insertions": spent.insertions,
            "rows": sum(len(recording.rows) for recording in found.recordings),
            "right": found.right,
            "tested": found.tested,
            "wrong": found.wrong,
        }
    )


def watch(model):
    """Watch with a model that was kept."""
    global watcher
    watcher = Watcher(load(model))
    return json.dumps(watcher.forest.classes)


def push(x, y, z):
    """Take a sample; the JSON of [place of the class, votes] if a window is full, else nothing."""
    if watcher is None:
        return ""
    best = watcher.push(x, y, z)
    return "" if best is None else json.dumps([best, watcher.votes])


def clear():
    """Forget the samples so far: there was a gap."""
    if watcher is not None:
        watcher.windows.clear()


def table(asked):
    """All rows as the text of a CSV file; `asked` as for `begin`."""
    lines = [",".join(windows().names) + ",recording,gesture"]
    for place, (number, label) in enumerate(json.loads(asked), 1):
        label = '"' + label.replace('"', '""') + '"'
        for row in recordings[number].read():
            lines.append(",".join(str(value) for value in row) + f",{place},{label}")
    return "\n".join(lines) + "\n"
