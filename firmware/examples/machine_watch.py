"""Watch a machine by its vibration: learn its states on the board, and publish them by MQTT.

Fix an MPU6050 accelerometer to a fan (SDA to pin 4, SCL to pin 5 of a Pico), put EdgeForest onto the
board (`firmware/README.md`) and run this file. Without a sensor it simulates a fan, on a computer too:

    python firmware/examples/machine_watch.py

It asks for one state after the other and learns them. From the next start on it loads what it has
learned; delete `machine.json` to teach it again. With a BROKER below it publishes every new state.
Nothing waits for the network: if it is away, the board goes on and tries again later.
"""

import gc
import os
import sys
import time
from array import array

sys.path.append(".")  # a checkout, run from its root folder
from edgeforest.windows import Windows

gc.collect()

STATES = ("off", "running", "unbalanced", "worn")  # a coin on a blade; a rattling bearing
EACH = 60  # windows to learn from, of each state
FRESH = 200  # simulated windows to try the forest on
SAME = 3  # windows in a row that must agree before a new state is published
SDA, SCL = 4, 5  # pins of the sensor
WIFI, PASSWORD = "", ""  # of your network, if the board has a radio
BROKER, PORT = "", 1883  # address of an MQTT broker; its client: mpremote mip install umqtt.simple
TOPIC = b"workshop/fan"
PATIENCE = 2  # seconds that a broker may take to answer
PAUSE = 60  # seconds until the next try when it is away


class MPU6050:
    """The accelerometer, read 200 times a second along one axis: 16384 is 1 g."""

    simulated = False
    model = "machine.json"

    def __init__(self):
        from machine import I2C, Pin

        self.bus = I2C(0, sda=Pin(SDA), scl=Pin(SCL))
        self.bus.writeto_mem(0x68, 0x6B, b"\0")  # wake it up
        self.raw = bytearray(2)

    def begin(self, state):
        print("Next:", STATES[state], "- recording begins in 10 seconds")
        time.sleep(10)

    def read(self):
        time.sleep_ms(5)
        self.bus.readfrom_mem_into(0x68, 0x3B, self.raw)
        return ((self.raw[0] << 8 | self.raw[1]) ^ 0x8000) - 0x8000  # two bytes with a sign


class Simulated:
    """A fan: its speed and its weight change a little all the time."""

    simulated = True
    model = "simulated.json"
    SINE = array("h", (0, 38, 71, 92, 100, 92, 71, 38, 0, -38, -71, -92, -100, -92, -71, -38))

    def __init__(self, seed=1):
        self.random = seed
        self.turn = self.knock = self.reads = 0
        self.begin(0)

    def below(self, n):
        """A random whole number from 0 to n - 1."""
        self.random = self.random * 1021 + 1013 & 0xFFFFF
        return self.random * n >> 20

    def begin(self, state):
        self.state = state
        self.speed = 90 + self.below(40)  # a full turn is 1024
        self.weight = (0, 12, 24, 12)[state] + self.below((1, 16, 40, 16)[state])
        self.rattle = 12 + self.below(40) if state == 3 else 0

    def read(self):
        self.reads += 1
        if self.reads % 256 == 0:
            self.begin(self.state)
        self.turn = self.turn + self.speed & 1023
        self.knock = self.rattle if self.turn * 3 % 1024 < 3 * self.speed else -self.knock // 2
        swing = self.weight * self.SINE[self.turn >> 6] // 100
        return 64 * (swing + self.knock + self.below(12) + self.below(12) - 11)


class Publisher:
    """Prints, and publishes while there is a broker; what is lost meanwhile is lost."""

    def __init__(self):
        self.client = self.radio = None
        self.connected = False
        self.next = 0  # when to try again
        try:
            if WIFI:
                import network

                self.radio = network.WLAN(network.STA_IF)
                self.radio.active(True)
                self.radio.connect(WIFI, PASSWORD)  # happens in the background
            if BROKER:
                from umqtt.simple import MQTTClient

                self.client = MQTTClient(b"edgeforest", BROKER, PORT)
        except (ImportError, OSError) as error:
            print("Nothing will be published:", error)

    def say(self, text):
        print(text)
        if not self.client or (self.radio and not self.radio.isconnected()):
            return
        if not self.connected and time.time() < self.next:
            return
        try:
            if not self.connected:
                self.client.connect(timeout=PATIENCE)
                self.connected = True
            self.client.publish(TOPIC, text.encode(), True)  # kept for those who ask later
        except Exception as error:  # whatever happens to the network, the machine is watched
            print("The broker is away:", repr(error))
            self.connected = False
            self.next = time.time() + PAUSE


sample = array("h", (0,))


def read_window(sensor, windows):
    """Read until a window is full; its features are in `windows.row`."""
    full = False
    while not full:
        sample[0] = sensor.read()
        full = windows.push(sample)


def learn(sensor, publisher):
    """Record each state, and train a forest: one round between two windows."""
    from edgeforest.core_pure import Training

    # A window of 64 readings, another one every 32: eight features, a byte each.
    windows = Windows(1, 64, 32, ("deviation", "crossings", "change", "bands"), bits=8)
    columns = [bytearray(EACH * len(STATES)) for _ in range(windows.n_features)]
    labels = bytearray(EACH * len(STATES))
    for i in range(len(labels)):
        if i % EACH == 0:
            sensor.begin(i // EACH)
            windows.clear()
        read_window(sensor, windows)
        for f in range(len(columns)):
            columns[f][i] = windows.row[f]
        labels[i] = i // EACH
    gc.collect()
    options = {"names": windows.names, "n_trees": 5, "max_depth": 5}
    training = Training(columns, labels, by_column=True, seed=1, **options)
    trees = 0
    for _ in training:
        read_window(sensor, windows)  # and whatever else may not wait: feed the watchdog here
        if len(training.grown) > trees:
            trees = len(training.grown)
            publisher.say(f"learned tree {trees} of {training.planned}")
    return training.forest()


def watch(sensor, forest, publisher):
    """Publish each new state, for ever; returns the accuracy if the machine is simulated."""
    windows = Windows.of(forest)  # the model knows what it has learned from
    votes = [0] * forest.n_votes
    published = before = -1
    same = right = turn = 0
    while turn < FRESH or not sensor.simulated:
        if sensor.simulated and turn % 10 == 0:
            sensor.begin(sensor.below(len(STATES)))
            windows.clear()
        read_window(sensor, windows)
        seen = forest.predict_into(windows.row, votes)
        right += seen == sensor.state if sensor.simulated else 0
        same = same + 1 if seen == before else 1
        if same >= SAME and seen != published:
            publisher.say(STATES[seen])
            published = seen
        before = seen
        turn += 1
    return right / turn


def main():
    try:
        sensor = MPU6050()
    except (ImportError, OSError, ValueError):  # no board, no answer, no such pins
        print("No MPU6050 found: simulating a fan")
        sensor = Simulated()
    publisher = Publisher()
    try:
        os.stat(sensor.model)
    except OSError:  # nothing learned yet
        forest = learn(sensor, publisher)
        forest.save(sensor.model)
    else:
        from edgeforest.loading import load

        forest = load(sensor.model)
    print("Watching with", len(forest), "trees")
    print("Accuracy: %.3f" % watch(sensor, forest, publisher))


if __name__ == "__main__":
    main()
