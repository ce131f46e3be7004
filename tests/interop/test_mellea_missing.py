"""Without Mellea, everything else works, and whoever asks for its strategies is told what to install."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from holdfast.interop import mellea

needs_absence = pytest.mark.skipif(importlib.util.find_spec("mellea") is not None, reason="Mellea is installed here")


@needs_absence
@pytest.mark.parametrize("name", mellea.__all__)
def test_a_strategy_says_what_to_install(name):
    """Every name that there would be gives the command that brings it."""
    with pytest.raises(ImportError, match=r"pip install 'mellea>="):
        getattr(mellea, name)


def test_a_name_that_there_is_not():
    """A mistyped name is an AttributeError, as in any module."""
    with pytest.raises(AttributeError, match="RejectionStrategy"):
        mellea.RejectionStrategy  # noqa: B018


def test_it_loads_nothing_until_it_is_asked():
    """Importing Holdfast, or the package for Mellea, loads neither Mellea nor the engine."""
    code = "import sys, holdfast.interop.mellea; print(sorted(set(sys.modules) & {'mellea', 'holdfast.sampling'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
