"""Teach a board three gestures, on the board itself: still, shake, circle.

Wire an MPU6050 accelerometer (SDA to GP4, SCL to GP5) and a button (GP15 to ground) to a Pico, put
EdgeForest onto it (`firmware/README.md`) and run this file. Without a sensor it simulates one, so that
it also runs on a computer:

    python firmware/examples/gesture.py

The button says what is recorded: press it when you begin the gesture that is asked for. A window is the
last 32 readings; 16 readings later there is another. `Windows` turns each into a row of features, a
forest learns the rows while the sensor is still read, and then says what it sees. Everything is whole
numbers in buffers that are made once: recording and recognising a window allocate nothing.
"""

import sys
import time
from array import array

sys.path.append(".")  # a checkout, run from its root folder
from edgeforest import core_pure as ef
from edgeforest.windows import Windows

GESTURES = ("still", "shake", "circle")
WINDOW, STEP = 32, 16  # readings of a window, and between two of them
FEATURES = ("mean", "deviation", "crossings")  # of x, y, z and their magnitude
EACH = 60  # windows to record of each gesture
FRESH = 100  # windows to try the forest on afterwards, of each gesture
SDA, SCL, BUTTON = 4, 5, 15  # pins of the sensor and of the button


class MPU6050:
    """The accelerometer: 16384 is 1 g. The button reads 0 while it is pressed."""

    simulated = False

    def __init__(self, bus, button, address=0x68):
        self.bus = bus
        self.button = button
        self.address = address
        self.raw = bytearray(6)
        bus.writeto_mem(address, 0x6B, b"\0")  # wake it up

    def begin(self, gesture):
        """Ask the person who holds the board for a gesture, and wait for the button."""
        print("Next:", GESTURES[gesture], "- press the button when you begin")
        while self.button.value():
            time.sleep_ms(20)
        print("Go! About", EACH * STEP // 50, "seconds")

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
        self.readings = (self.readings + 1) % 64
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

        button = Pin(BUTTON, Pin.IN, Pin.PULL_UP)
        return MPU6050(I2C(0, sda=Pin(SDA), scl=Pin(SCL)), button)
    except (ImportError, OSError, ValueError):  # no board, no answer, no such pins
        print("No MPU6050 found: simulating one")
        return Simulated()


reading = array("h", (0, 0, 0))


def read_window(sensor, windows):
    """Read until a window is full; its features are in `windows.row`."""
    sensor.read(reading)
    while not windows.push(reading):
        sensor.read(reading)


def record(sensor, gesture, windows, columns, labels):
    """Fill this gesture's part of the buffers."""
    windows.clear()  # nothing of the gesture before
    row = windows.row
    for place in range(gesture * EACH, (gesture + 1) * EACH):
        read_window(sensor, windows)
        for f in range(windows.n_features):
            columns[f][place] = row[f]
        labels[place] = gesture


def learn(sensor, windows, columns, labels):
    """Train a forest: one round between two windows, so that nothing is missed meanwhile."""
    training = ef.Training(
        columns,  # bytearrays, used as they are
        labels,
        by_column=True,
        names=windows.names,  # so that the model knows its windows: Windows.of(forest)
        n_trees=5,
        max_depth=5,
        budget=40000,
        seed=1,
    )
    rounds = 0
    for _ in training:
        read_window(sensor, windows)  # and whatever else may not wait: feed the watchdog here
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


def accuracy(sensor, windows, forest, votes):
    """The share of fresh simulated windows that the forest recognises."""
    right = 0
    for turn in range(len(GESTURES) * FRESH):
        truth = turn % len(GESTURES)
        sensor.begin(truth)
        windows.clear()
        read_window(sensor, windows)
        seen = forest.predict_into(windows.row, votes)
        right += seen == truth
        if turn < 6:
            print("  it was", GESTURES[truth], "- I see", GESTURES[seen])
    return right / (len(GESTURES) * FRESH)


def watch(sensor, windows, forest, votes):
    """Say what is seen whenever it changes, for ever."""
    before = -1
    while True:
        read_window(sensor, windows)
        seen = forest.predict_into(windows.row, votes)
        if seen != before:
            print("I see", GESTURES[seen])
            before = seen


def main():
    sensor = find_sensor()
    windows = Windows(3, WINDOW, STEP, FEATURES, bits=8)
    rows = len(GESTURES) * EACH
    columns = [bytearray(rows) for _ in range(windows.n_features)]
    labels = bytearray(rows)
    votes = array("i", [0] * len(GESTURES))
    for gesture in range(len(GESTURES)):
        sensor.begin(gesture)
        record(sensor, gesture, windows, columns, labels)
        print("Recorded", EACH, "windows of", GESTURES[gesture])
    forest = learn(sensor, windows, columns, labels)
    save(forest)
    if sensor.simulated:
        print(f"Accuracy on fresh windows: {accuracy(sensor, windows, forest, votes):.3f}")
    else:
        watch(sensor, windows, forest, votes)


if __name__ == "__main__":
    main()
