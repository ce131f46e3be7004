"""What every test needs: a reader's cache of its own, and runs to read."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory, monkeypatch):
    """The readers' index goes to a directory of this test's own."""
    directory = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(directory))
    return directory


@pytest.fixture
def no_cache(monkeypatch):
    """Readers keep their index in a temporary file of their process: nothing is left between two openings."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/no-such-place")
