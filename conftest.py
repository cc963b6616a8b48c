"""Tests that train run on every engine; figures that tests measure are printed at the end.

Examples in documents run in their own folder.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem

from edgeforest.engines import present

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # one of scikit-learn's checks asks for it


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Note a figure for the end of the run: `figure("31 of 32 nodes")`."""
    node = request.node
    return lambda text: node.user_properties.append(("figure", f"{node.name}: {text}"))


ENGINE = "EDGEFOREST_ENGINE"
GIVEN = os.environ.get(ENGINE)
ALIVE: list[str] = []  # what the fixture has chosen, until the next choice or the end of its file


@pytest.fixture(scope="module", params=present())
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test once for each engine: `train`, `train_steps` and `load` use it, unless told.

    For a test: `@pytest.mark.usefixtures("engine")`; for all of a file: `pytestmark` of the same.
    An engine that is not there makes a test of tests/test_engines.py fail.
    """
    ALIVE.append(request.param)
    use_engine(request.param)
    yield request.param
    ALIVE.pop()
    use_engine(GIVEN)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests of the same file that do not ask for an engine are not given the last choice."""
    asks = "engine" in getattr(item, "fixturenames", ())
    use_engine(ALIVE[-1] if asks and ALIVE else GIVEN)


def use_engine(name: str | None) -> None:
    if name is None:
        os.environ.pop(ENGINE, None)
    else:
        os.environ[ENGINE] = name


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    figures = [
        text
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, text in report.user_properties
        if name == "figure"
    ]
    if figures:
        terminalreporter.section("figures")
        for line in figures:
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def examples_in_their_own_folder(request: pytest.FixtureRequest) -> None:
    if isinstance(request.node, DoctestItem):  # other tests do not pay for a folder
        folder: Path = request.getfixturevalue("tmp_path")
        request.getfixturevalue("monkeypatch").chdir(folder)  # the files that they write go away
