"""Forests of many devices become one, without their rows, and without trusting any device.

`join` takes models as bytes, however they came: as files, by MQTT, by Flower; a `Fleet` does it in
rounds. `flower` has an app
for devices and a strategy for the server that do it with Flower.
"""

from edgeforest.fleet.joining import Fleet, Joint, Limits, Sent, Verdict, join

__all__ = ["Fleet", "Joint", "Limits", "Sent", "Verdict", "join"]
