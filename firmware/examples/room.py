"""The sensors of a room, for `log_sd_train.py` and `predict_only.py`: put your own here.

A BH1750 (light) and an AHT20 (temperature, humidity) share the I2C pins below. A switch between
its pin and ground says whether somebody is in the room; only the log needs it. Without the sensors
a room is simulated, in which somebody comes and goes.
"""

import time

NAMES = ("light", "temperature", "humidity")
SDA, SCL, SWITCH = 4, 5, 15  # pins of a Pico; an ESP32 has its I2C at 21, 22


class Sensors:
    """The real ones."""

    simulated = False

    def __init__(self):
        from machine import I2C, Pin

        self.bus = I2C(0, sda=Pin(SDA), scl=Pin(SCL))
        self.bus.writeto(0x23, b"\x10")  # BH1750: measure again and again
        self.bus.writeto(0x38, b"\xbe\x08\x00")  # AHT20: get ready
        self.switch = Pin(SWITCH, Pin.IN, Pin.PULL_UP)

    def read(self, row):
        """Put light, temperature and humidity into the first three places of `row`, as bytes."""
        self.bus.writeto(0x38, b"\xac\x33\x00")
        time.sleep_ms(200)
        raw = self.bus.readfrom(0x23, 2)
        row[0] = min(255, raw[0] << 5 | raw[1] >> 3)  # a step is 7 lux
        raw = self.bus.readfrom(0x38, 6)
        celsius = (raw[3] & 15) << 16 | raw[4] << 8 | raw[5]  # 0 is -50, 2^20 would be 150
        row[1] = min(255, max(0, (celsius * 1000 >> 20) - 200))  # a step is 0.2 degrees, 0 is -10
        row[2] = raw[1]  # a step is 0.4 percent

    def somebody(self):
        """1 while the switch is closed: somebody is there."""
        return 1 - self.switch.value()


class Simulated:
    """A room at 10 minutes a reading: sun, weather, a lamp, and somebody who warms the air."""

    simulated = True

    def __init__(self, seed=1):
        self.state = seed
        self.time = self.here = self.warm = self.weather = 0

    def below(self, n):
        """A random whole number from 0 to n - 1."""
        self.state = self.state * 1021 + 1013 & 0xFFFFF
        return self.state * n >> 20

    def read(self, row):
        self.time = (self.time + 1) % 144  # a day
        if self.below(24) == 0:
            self.here = 1 - self.here
        self.warm += (96 * self.here - self.warm) // 4
        self.weather = min(40, max(0, self.weather + self.below(5) - 2))
        sun = max(0, 60 - abs(self.time - 72)) * (50 - self.weather) // 40
        lamp = 40 if self.here and self.below(8) else 0
        row[0] = sun + lamp + self.below(10)
        row[1] = 140 + sun // 8 + self.warm // 8 + self.below(7)
        row[2] = 90 + self.weather + self.warm // 5 + self.below(9)

    def somebody(self):
        return self.here


def find_sensors(seed=1):
    """The sensors if they answer, else simulated ones."""
    try:
        return Sensors()
    except (ImportError, OSError, ValueError):  # no board, no answer, no such pins
        print("No sensors found: simulating a room")
        return Simulated(seed)
