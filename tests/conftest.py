"""What every test needs: a reader's cache of its own, and runs to read."""

from __future__ import annotations

import os
import random
import signal

import pytest

ORDER_SEED = "HOLDFAST_TEST_SEED"
"""The order of the tests that run in a random one; give it again to get the same order."""


def pytest_configure():
    """Chosen before workers are started, which inherit it: all of them must collect in the same order."""
    # A shell, or `nohup`, starts what runs in the background so, and tests that send these would wait for ever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ.setdefault(ORDER_SEED, str(random.SystemRandom().randrange(10**6)))


def pytest_report_header():
    return f"random order of tests/sampling: {ORDER_SEED}={os.environ[ORDER_SEED]}"


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
