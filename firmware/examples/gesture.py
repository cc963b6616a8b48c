"""Teach a board three gestures, on the board itself: still, shake, circle.

Wire an MPU6050 accelerometer to a Pico (SDA to GP4, SCL to GP5), put EdgeForest
onto it (`firmware/README.md`) and run this file. Without a sensor it simulates one, so that it also runs on a computer:

    python firmware/examples/gesture.py

It records windows of 16 readings for each gesture, learns a forest from them while it keeps
reading, and then says what it sees. Everything is whole numbers in buffers that are made once:
recording and recognising a window allocate nothing.
"""

import sys
import time
from array import array

sys.path.append(".")  # a checkout, run from its root folder
from edgeforest import core_pure as ef

GESTURES = ("still", "shake", "circle")
WINDOW = 16  # readings that make one window
EACH = 60  # windows to record of each gesture
FRESH = 100  # windows to try the forest on afterwards, of each gesture
SDA, SCL = 4, 5  # pins of the sensor


class MPU6050:
    """The accelerometer: 16384 is 1 g."""

    simulated = False

    def __init__(self, bus, address=0x68):
        self.bus = bus
        self.address = address
        self.raw = bytearray(6)
        bus.writeto_mem(address, 0x6B, b"\0")  # wake it up

    def begin(self, gesture):
        """Ask the person who holds the board for a gesture."""
        print("Next:", GESTURES[gesture], "- get ready")
        time.sleep(3)
        print("Go! About", EACH * WINDOW // 50, "seconds")

    def read(self, reading):
        """Put the acceleration along x, y and z into `reading`, 50 times a second."""
        time.sleep_ms(20)
        self.bus.readfrom_mem_into(self.address, 0x3B, self.raw)
        for axis in range(3):
            value = self.raw[2 * axis] << 8 | self.raw[2 * axis + 1]
            reading[axis] = value - 65536 if value > 32767 else value


class Simulated:
    """A board in a hand that trembles, and that does not repeat itself for long."""

    simulated = True
    SINE = array("h", (0, 38, 71, 92, 100, 92, 71, 38, 0, -38, -71, -92, -100, -92, -71, -38))

    def __init__(self, seed=1):
        self.rng = ef.Rng(seed)
        self.readings = 0
        self.angle = 0
        self.begin(0)

    def begin(self, gesture):
        """Make this gesture from now on, with new strength, speed and tilt."""
        self.gesture = gesture
        self.strength = 50 + self.rng.below(60)
        self.speed = 1 + self.rng.below(2)
        self.tilt = self.rng.below(8000) - 4000

    def read(self, reading):
        """Put the acceleration along x, y and z into `reading`."""
        self.readings = (self.readings + 1) % (4 * WINDOW)
        if self.readings == 0:
            self.begin(self.gesture)
        self.angle = self.angle + self.speed & 15  # a full turn is 16
        reading[0] = self.tilt + self.noise()
        reading[1] = self.noise() - self.tilt
        reading[2] = 14000 + self.noise()
        if self.gesture == 1:  # to and fro along x
            reading[0] += self.strength * self.SINE[self.angle * 4 + 1 & 15]
        elif self.gesture == 2:  # x and y, a quarter turn apart
            reading[0] += self.strength * self.SINE[self.angle]
            reading[1] += self.strength * self.SINE[self.angle + 4 & 15]

    def noise(self):
        """A trembling hand: small most of the time."""
        return self.rng.below(1500) + self.rng.below(1500) - 1500


def find_sensor():
    """The accelerometer if there is one, else a simulated one."""
    try:
        from machine import I2C, Pin

        return MPU6050(I2C(0, sda=Pin(SDA), scl=Pin(SCL)))
    except (ImportError, OSError, ValueError):  # no board, no answer, no such pins
        print("No MPU6050 found: simulating one")
        return Simulated()


reading = array("h", (0, 0, 0))
lowest = array("h", (0, 0, 0))
highest = array("h", (0, 0, 0))
total = array("i", (0, 0, 0))


def read_window(sensor, features):
    """Read one window and put the mean and the spread of x, y and z into `features`, as bytes."""
    for i in range(WINDOW):
        sensor.read(reading)
        for axis in range(3):
            value = reading[axis]
            total[axis] = value if i == 0 else total[axis] + value
            if i == 0 or value < lowest[axis]:
                lowest[axis] = value
            if i == 0 or value > highest[axis]:
                highest[axis] = value
    for axis in range(3):
        features[axis] = total[axis] // WINDOW + 32768 >> 8
        features[3 + axis] = highest[axis] - lowest[axis] >> 8


def record(sensor, gesture, columns, labels, features):
    """Fill this gesture's part of the buffers."""
    for place in range(gesture * EACH, (gesture + 1) * EACH):
        read_window(sensor, features)
        for f in range(6):
            columns[f][place] = features[f]
        labels[place] = gesture


def learn(sensor, columns, labels, features):
    """Train a forest: one round between two windows, so that nothing is missed meanwhile."""
    training = ef.Training(
        columns,  # six bytearrays, used as they are
        labels,
        by_column=True,
        names=("mean x", "mean y", "mean z", "spread x", "spread y", "spread z"),
        n_trees=5,
        max_depth=5,
        budget=40000,
        seed=1,
    )
    rounds = 0
    for _ in training:
        read_window(sensor, features)  # and whatever else may not wait: feed the watchdog here
        rounds += 1
    forest = training.forest()
    print("Learned", len(forest), "trees in", rounds, "rounds;", forest.spent)
    return forest


def save(forest):
    """Keep the model for the next start, if there is somewhere to keep it."""
    try:
        forest.save("model.json")
        print("Saved model.json")
    except OSError:
        print("No filesystem: the model is gone at power off")


def accuracy(sensor, forest, features, votes):
    """The share of fresh simulated windows that the forest recognises."""
    right = 0
    for turn in range(len(GESTURES) * FRESH):
        truth = turn % len(GESTURES)
        sensor.begin(truth)
        read_window(sensor, features)
        seen = forest.predict_into(features, votes)
        right += seen == truth
        if turn < 6:
            print("  it was", GESTURES[truth], "- I see", GESTURES[seen])
    return right / (len(GESTURES) * FRESH)


def watch(sensor, forest, features, votes):
    """Say what is seen whenever it changes, for ever."""
    before = -1
    while True:
        read_window(sensor, features)
        seen = forest.predict_into(features, votes)
        if seen != before:
            print("I see", GESTURES[seen])
            before = seen


def main():
    sensor = find_sensor()
    columns = [bytearray(len(GESTURES) * EACH) for _ in range(6)]
    labels = bytearray(len(GESTURES) * EACH)
    features = bytearray(6)
    votes = array("i", [0] * len(GESTURES))
    for gesture in range(len(GESTURES)):
        sensor.begin(gesture)
        record(sensor, gesture, columns, labels, features)
        print("Recorded", EACH, "windows of", GESTURES[gesture])
    forest = learn(sensor, columns, labels, features)
    save(forest)
    if sensor.simulated:
        print(f"Accuracy on fresh windows: {accuracy(sensor, forest, features, votes):.3f}")
    else:
        watch(sensor, forest, features, votes)


if __name__ == "__main__":
    main()
