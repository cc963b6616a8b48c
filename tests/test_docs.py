"""The API page says what the docstrings say, and every docstring has an example that runs."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import edgeforest

ROOT = Path(__file__).parents[1]


def test_the_api_page_is_what_the_docstrings_say():
    done = subprocess.run(
        [sys.executable, "tools/make_api.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in edgeforest.__all__:
        assert f"\n### {name}\n" in page


def test_the_page_of_the_command_line_is_what_the_parser_says():
    done = subprocess.run(
        [sys.executable, "tools/make_cli.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", edgeforest.__all__)
def test_every_public_name_has_an_example(name):
    """They run with the tests, as all of the package is searched for them."""
    assert ">>> " in (inspect.getdoc(getattr(edgeforest, name)) or "")


@pytest.mark.parametrize(
    "name", [name for name in edgeforest.__all__ if name.endswith(("Classifier", "Regressor"))]
)
def test_every_method_of_an_estimator_has_an_example(name):
    kind = getattr(edgeforest, name)
    for method, value in inspect.getmembers(kind, inspect.isroutine):
        if not method.startswith("_"):
            assert ">>> " in (inspect.getdoc(value) or ""), method
