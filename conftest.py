"""Figures that tests measure are printed at the end; examples in documents run in their own folder."""

from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem

FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Note a figure for the end of the run: `figure("31 of 32 nodes")`."""
    figures = request.config.stash.setdefault(FIGURES, [])
    return lambda text: figures.append(f"{request.node.name}: {text}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    figures = terminalreporter.config.stash.get(FIGURES, [])
    if figures:
        terminalreporter.section("figures")
        for line in figures:
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def examples_in_their_own_folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(request.node, DoctestItem):
        monkeypatch.chdir(tmp_path)  # the files that they write go away
