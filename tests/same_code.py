"""For tests in which a solver has switches: its code is the same to every session."""

from __future__ import annotations

import pytest

from holdfast.engine.opening import resume_plan


@pytest.fixture(autouse=True)
def same_code(monkeypatch):
    """Solvers here have switches with which a test changes the world around them; the gate has tests of its own."""
    compared = resume_plan.comparable_code
    monkeypatch.setattr(resume_plan, "comparable_code", lambda task, saved: saved or compared(task, saved))
