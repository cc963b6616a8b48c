"""Keep a log on a card, train a forest from it on the board, and go on after a power cut.

Copy `room.py` (the sensors; without them it simulates a room) to the board and run this file, on a
computer too:

    python firmware/examples/log_sd_train.py

It records a log, learns from the first four fifths of it whether somebody is in the room, and tries
the forest on the last fifth. The card may hold far more rows than the heap: only LEARN of them are
read, at random. Every tree is on the card as soon as it is grown. Pull the plug at any time and run
the program again: it goes on where it was. The card is as in `find_card`; without one the files are
in the flash of the board.
"""

import gc
import os
import sys
import time

sys.path.append(".")  # a checkout, run from its root folder
from edgeforest import core_pure  # noqa: F401  the largest first, while the heap is empty

gc.collect()
from edgeforest import storage

gc.collect()
from room import NAMES, find_sensors

ROWS = 4000  # readings of the log
SECONDS = 10  # between two of them; a simulated room does not wait
LEARN = 500  # rows to learn from
START = 128  # bytes before the first row of a .npy file as `record` writes it


def find_card():
    """The folder of a card, or of the board's flash if there is none."""
    try:
        import vfs
        from machine import SPI, Pin

        if "sd" in os.listdir("/"):  # mounted already
            return "/sd/"
        try:
            from machine import SDCard  # ESP32, with a slot that is wired as SD

            card = SDCard()
        except ImportError:  # a Pico; its driver: mpremote mip install sdcard
            from sdcard import SDCard

            spi = SPI(0, sck=Pin(18), mosi=Pin(19), miso=Pin(16))
            card = SDCard(spi, Pin(17))
        vfs.mount(card, "/sd")
        return "/sd/"
    except (ImportError, OSError, ValueError):
        print("No card found: the files are here")
        return ""


def record(path, sensors):
    """Write a log: the sensors, and whether somebody is there. Go on with one that was cut short."""
    part = path + ".part"
    row = bytearray(len(NAMES) + 1)
    text = "{'descr': '|u1', 'fortran_order': False, 'shape': (%d, %d), }" % (ROWS, len(row))
    try:
        stream = open(part, "r+b")
    except OSError:
        stream = open(part, "w+b")
    with stream:
        done = max(0, stream.seek(0, 2) - START) // len(row)
        stream.seek(0)
        stream.write(b"\x93NUMPY\x01\x00v\x00" + (text + " " * (117 - len(text)) + "\n").encode())
        stream.seek(START + done * len(row))
        for i in range(done, ROWS):
            if i % 1000 == 0:
                print("Recorded", i, "of", ROWS, "readings")
            sensors.read(row)
            row[-1] = sensors.somebody()
            stream.write(row)
            if i % 50 == 0:
                stream.flush()  # what is lost if the power fails now: 50 readings at most
            if not sensors.simulated:
                time.sleep(SECONDS)
    os.rename(part, path)


def learn(log, path):
    """Train on some rows of the log, or go on with a training that was cut short."""
    columns = log.columns(storage.draw(storage.Rng(1), LEARN, log.shape[0] * 4 // 5))
    labels = columns.pop()
    gc.collect()
    training = storage.Resumable(
        columns,  # three bytearrays, used as they are
        labels,
        checkpoint=path,
        resume=True,
        by_column=True,
        names=NAMES,
        n_trees=5,
        max_depth=3,
        seed=1,
    )
    trees = len(training.training.grown)
    print(training.note or f"Learning from {len(labels)} rows")
    if trees:
        print("Going on after tree", trees)
    for step in training:  # feed a watchdog here
        if len(step.grown) > trees:
            trees = len(step.grown)
            print("Tree", trees, "of", training.planned)
    return training.forest()


def accuracy(log, forest):
    """The share of the last fifth of the log that the forest predicts, and that a fixed answer has."""
    n = log.shape[0]
    columns = log.columns(range(n * 4 // 5, n, 2))
    labels = columns.pop()
    row = bytearray(len(columns))
    votes = [0] * forest.n_votes
    right = ones = 0
    for i in range(len(labels)):
        for f in range(len(row)):
            row[f] = columns[f][i]
        right += forest.classes[forest.predict_into(row, votes)] == labels[i]
        ones += labels[i]
    share = ones / len(labels)
    return right / len(labels), max(share, 1 - share)


def find_log(folder):
    """The log on the card; without one, what the sensors say is recorded."""
    try:
        return storage.Npy(folder + "log.npy")
    except OSError:  # none yet
        sensors = find_sensors()
    path = folder + ("simulated.npy" if sensors.simulated else "log.npy")
    try:
        return storage.Npy(path)
    except OSError:
        record(path, sensors)
        return storage.Npy(path)


def main():
    folder = find_card()
    log = find_log(folder)
    print("The log has", log.shape[0], "rows")
    forest = learn(log, folder + "model.json")
    print("The model is in", folder + "model.json:", len(forest), "trees,", forest.spent)
    print(
        "Accuracy on the last fifth of the log: %.3f; a fixed answer: %.3f" % accuracy(log, forest)
    )


if __name__ == "__main__":
    main()
