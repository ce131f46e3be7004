"""These tests are about the order of things, not about the disk: syncs return at once, so that time is quick."""

from __future__ import annotations

import os

import pytest

from same_code import same_code

__all__ = ["same_code"]


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _: None)
