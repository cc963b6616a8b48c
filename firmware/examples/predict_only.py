"""Predict in 26 kB of heap, with a model that was trained elsewhere.

Copy a model and `room.py` (the sensors; without them it simulates a room) to the board, then run this
file, on a computer too:

    python firmware/examples/predict_only.py

The model is the one that `log_sd_train.py` has left on the card, or `room.json`, which is what that
program learns from a simulated room. Of EdgeForest it needs `forest` and `loading` alone.
"""

import gc
import sys

sys.path.append(".")  # a checkout, run from its root folder
from room import NAMES, find_sensors  # compiled on the board: first, while the heap is empty

gc.collect()
from edgeforest.loading import load

PLACES = ("model.json", "/sd/model.json", "room.json", "firmware/examples/room.json")
ANSWERS = ("nobody", "somebody")
FRESH = 1000  # simulated readings to try the model on


def find_model():
    """The first model that there is."""
    for path in PLACES:
        try:
            forest = load(path)
        except OSError:  # not there
            continue
        print("Loaded", path, "with", len(forest), "trees")
        return forest
    raise OSError("there is no model here; copy one: mpremote cp firmware/examples/room.json :")


def watch(sensors, forest):
    """Say what is seen whenever it changes; returns how often it was right in a simulated room."""
    row = bytearray(len(NAMES))
    votes = [0] * forest.n_votes
    before = right = turn = 0
    while turn < FRESH or not sensors.simulated:
        sensors.read(row)
        seen = forest.classes[forest.predict_into(row, votes)]  # allocates nothing
        right += seen == sensors.somebody()
        if seen != before and (turn < 100 or not sensors.simulated):
            print(" ".join([f"{name} {value}" for name, value in zip(NAMES, row)]), end=": ")
            print(ANSWERS[seen])
        before = seen
        turn += 1
    return right


def main():
    forest = find_model()
    sensors = find_sensors(seed=7)  # another room than the one of the log
    print("Accuracy: %.3f" % (watch(sensors, forest) / FRESH))


if __name__ == "__main__":
    main()
