"""Examples in documents run in a folder of their own, so that the files they write go away."""

import pytest
from _pytest.doctest import DoctestItem


@pytest.fixture(autouse=True)
def examples_in_their_own_folder(request, tmp_path, monkeypatch):
    if isinstance(request.node, DoctestItem):
        monkeypatch.chdir(tmp_path)
