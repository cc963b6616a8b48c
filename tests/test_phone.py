"""The phone page runs in a real browser: from a server and as files, with sliders and with motion."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from phone_pages import PHONE, complaints, load_module, phone, take_pictures, text
from runtimes import Browser, needs_browser, needs_onnx_web, serve

pytestmark = [needs_browser, needs_onnx_web]


@pytest.fixture(scope="module")
def make() -> ModuleType:
    return load_module(PHONE / "make.py", "phone_make")


@pytest.fixture(scope="module")
def folder(make: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("phone")
    make.make(out)
    return out


@pytest.fixture(scope="module")
def trained(make: ModuleType) -> tuple[Any, dict[str, Any]]:
    """The forest of the page in Python, and a typical motion of each kind."""
    forest, typical = make.train_forest()
    return forest, typical


@pytest.fixture
def browser() -> Iterator[Browser]:
    with phone() as browser:
        yield browser


def ready(browser: Browser, address: str) -> None:
    browser.open(address)
    browser.wait("document.getElementById('sure').textContent.includes('votes')")


def test_sliders_change_the_prediction(folder, browser, trained):
    """Each of the typical motions is told for what it is, as the forest in Python tells it."""
    forest, typical = trained
    with serve(folder) as address:
        ready(browser, address)
        assert text(browser, "source") == "sliders"
        for name, row in typical.items():
            browser.evaluate(f"tryOut({json.dumps(name)})")
            browser.wait(f"document.getElementById('label').textContent === {json.dumps(name)}")
            share = max(forest.predict_proba(row))
            # Python rounds halves to even, JavaScript up.
            assert text(browser, "sure") == f"{int(100 * share + 0.5)} % of the votes"
        browser.evaluate(
            "sliders.forEach(({input}, i) => { input.value = [22, 60, 5, 0][i]; "
            "input.dispatchEvent(new Event('input')); })"
        )
        browser.wait("document.getElementById('label').textContent === 'shaking'")
    assert complaints(browser) == []


def test_motion_is_described_and_told_as_in_python(folder, browser, make, trained):
    """Two seconds of each activity, sample by sample, through the page's own way."""
    forest, _ = trained
    r = random.Random(11)
    with serve(folder) as address:
        ready(browser, address)
        browser.evaluate(
            "window.dispatchEvent(new DeviceMotionEvent('devicemotion', "
            "{accelerationIncludingGravity: {x: 0, y: 0, z: 9.81}, interval: 20}))"
        )
        assert text(browser, "source") == "motion sensor"
        assert browser.evaluate("sliders.every(({input}) => input.disabled)")
        for start, kind in enumerate(make.MOTIONS, 1):
            motion = make.motion(kind, r)
            row = browser.evaluate(
                f"{json.dumps(motion)}.map(([x, y, z], i) => "
                f"addSample(x, y, z, {start * 1000} + i / {make.HERTZ})).at(-1)"
            )
            expected = make.features(motion, make.SECONDS)
            assert row == pytest.approx(expected, rel=1e-9, abs=1e-9)
            assert forest.predict(expected) == kind
            browser.wait(f"document.getElementById('label').textContent === {json.dumps(kind)}")
    assert complaints(browser) == []


def test_the_folder_works_as_files_without_a_network(folder, browser):
    browser.call(
        "Network.emulateNetworkConditions",
        offline=True,
        latency=0,
        downloadThroughput=0,
        uploadThroughput=0,
    )
    ready(browser, (folder / "index.html").as_uri())
    assert text(browser, "label") == "walking"
    assert complaints(browser) == []


def test_the_page_fits_a_phone(folder, browser, tmp_path):
    with serve(folder) as address:
        take_pictures(browser, "phone", tmp_path, 36, lambda: ready(browser, address))


def test_a_missing_runtime_is_said(make, tmp_path):
    with pytest.raises(SystemExit, match="run `make runtimes` first"):
        make.make(tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()
