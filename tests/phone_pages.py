"""A phone in a browser: what the tests of the phone's pages share."""

from __future__ import annotations

import importlib.util
import os
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from runtimes import ROOT, Browser

PHONE = ROOT / "examples" / "phone"
WIDTH, HEIGHT = 390, 844  # of a phone, in the browser's pixels


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
