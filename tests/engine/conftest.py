"""These tests are about the order of things, not about the disk: syncs return at once, so that time is quick."""

from __future__ import annotations

import os

import pytest

from holdfast.engine.opening import resume_plan


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _: None)


@pytest.fixture(autouse=True)
def same_code(monkeypatch):
    """Solvers here have switches with which a test changes the world around them; the gate has tests of its own."""
    compared = resume_plan.comparable_code
    monkeypatch.setattr(resume_plan, "comparable_code", lambda task, saved: saved or compared(task, saved))
