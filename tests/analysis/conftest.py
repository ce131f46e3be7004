"""What is on record is the matter here, not the disk: syncs return at once."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True, scope="module")
def quick_disk():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, lambda _: None)
        yield
