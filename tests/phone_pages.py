"""A phone in a browser: what the tests of the phone's pages share."""

from __future__ import annotations

import importlib.util
import math
import os
import random
import struct
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

from runtimes import ROOT, Browser

PHONE = ROOT / "examples" / "phone"
WIDTH, HEIGHT = 390, 844  # of a phone, in the browser's pixels
GESTURES = ("shake", "circle", "nod")
Reading = tuple[float, float, float, float]  # of a motion sensor: x, y, z, milliseconds


def load_module(path: Path, name: str) -> ModuleType:
    """A Python file of an example, as a module of this name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def phone() -> Iterator[Browser]:
    """A browser with the screen of a phone."""
    browser = Browser()
    try:
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            width=WIDTH,
            height=HEIGHT,
            deviceScaleFactor=2,
            mobile=True,
        )
        yield browser
    finally:
        browser.close()


def text(browser: Browser, element: str) -> Any:
    return browser.evaluate(f"document.getElementById('{element}').textContent")


def complaints(browser: Browser) -> list[Any]:
    """What the page complained about, and what it asked of places other than its own folder."""
    found = []
    for event in browser.events:
        method, said = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown" or (
            method == "Log.entryAdded" and said["entry"]["level"] == "error"
        ):
            found.append(said)
        if method == "Network.requestWillBeSent":
            url = said["request"]["url"]
            if not url.startswith(("http://127.0.0.1", "file:", "data:", "blob:", "about:")):
                found.append(url)
    return found


def take_pictures(
    browser: Browser, name: str, folder: Path, least: int, show: Callable[[], None]
) -> None:
    """Pictures, light and dark: nothing sticks out at the side, what is touched is large enough.

    `show` brings up the page. Set EDGEFOREST_SCREENSHOTS to a folder to keep the pictures.
    """
    kept = Path(os.environ.get("EDGEFOREST_SCREENSHOTS", folder))
    for scheme in ("light", "dark"):
        browser.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        show()
        assert browser.evaluate("document.documentElement.scrollWidth") <= WIDTH
        low = browser.evaluate(
            "Math.min(...[...document.querySelectorAll('button, label, select, summary')]"
            ".map((element) => element.getBoundingClientRect().height).filter((h) => h))"
        )
        assert low >= least
        picture = kept / f"{name}-{scheme}.png"
        browser.wait("document.getAnimations().length === 0")
        browser.screenshot(picture)
        assert struct.unpack(">II", picture.read_bytes()[16:24]) == (2 * WIDTH, 2 * HEIGHT)


def turned(force: tuple[float, float, float], angles: list[float]) -> list[float]:
    """A force as a phone feels it that is held at these angles."""
    x, y, z = force
    a, b, c = angles
    y, z = y * math.cos(a) - z * math.sin(a), y * math.sin(a) + z * math.cos(a)
    x, z = x * math.cos(b) + z * math.sin(b), z * math.cos(b) - x * math.sin(b)
    x, y = x * math.cos(c) - y * math.sin(c), x * math.sin(c) + y * math.cos(c)
    return [x, y, z]


def motion(kind: str, r: random.Random, start: float = 0.0) -> list[Reading]:
    """A gesture as a browser tells it: about 60 readings a second, never quite on time."""
    speed, force = 2 * math.pi * r.uniform(1.1, 2.8), r.uniform(3, 13)
    phase, faster = r.uniform(0, 2 * math.pi), r.uniform(-0.3, 0.3)
    held = [r.gauss(0, 0.3) for _ in range(3)]
    trembling, seconds = r.uniform(0.1, 0.8), r.uniform(1.4, 2.6)
    beats = accumulate(1000 / 60 + r.gauss(0, 1.5) for _ in range(round(60 * seconds)))
    readings = []
    for beat in beats:
        s = beat / 1000
        angle = phase + speed * s * (1 + faster * s / seconds)
        push = (0.0, 0.0, 0.0)
        tilt = list(held)
        if kind == "shake":
            push = (force * math.sin(angle), force / 5 * math.sin(angle + 1), 0)
        elif kind == "circle":
            push = (force * math.sin(angle), force * math.cos(angle), 0)
        else:
            tilt[0] += 0.9 * min(1, force / 8) * math.sin(angle / 2)
        gravity = turned((0, 0, 9.81), [*tilt[:2], 0])
        x, y, z = (
            a + b + r.gauss(0, trembling) for a, b in zip(gravity, turned(push, held), strict=True)
        )
        readings.append((x, y, z, start + beat))
    return readings


def on_grid(readings: list[Reading]) -> array[int]:
    """50 samples a second in whole numbers, as motion.js should make them."""
    samples: array[int] = array("h")
    due, before = readings[0][3], readings[0]
    for now in readings:
        while due <= now[3]:
            part = (due - before[3]) / (now[3] - before[3]) if now[3] > before[3] else 1.0
            samples.extend(
                math.floor(100 * (a + part * (b - a)) + 0.5)
                for a, b in zip(before[:3], now[:3], strict=True)
            )
            due += 20
        before = now
    return samples


def learn_here(gestures: ModuleType, recordings: list[tuple[str, array[int]]]) -> Any:
    """The same in CPython: the same file, the same recordings."""
    learner = gestures.Learner(
        [gestures.Recording(samples, label) for label, samples in recordings], 1e6
    )
    while learner.step(1000) < 1:
        pass
    return learner
