"""Samplings inside trials, in virtual time: a model that answers by lane and turn, and what is on record of it."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from engine.rig import Actor, Rig, Solver, prompt_of, said, simple_task
from holdfast.models.message import Reply
from holdfast.run.core.records import StepRecord, TrialRecord
from holdfast.sampling.place import current_place
from sampling.drawing import YES

At = tuple[int, int]


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """These tests are about the order of things, not about the disk."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _: None)


class LaneModel(Actor):
    """Answers by (lane, turn), after so many seconds; it notes which places were asked for, and how often."""

    def __init__(
        self,
        replies: dict[At, Any] | None = None,
        seconds: dict[At, float] | Callable[[int], float] | float = 1.0,
        default: Any = "no",
    ) -> None:
        super().__init__(self._reply)
        self.replies, self.latency, self.default = replies or {}, seconds, default
        self.asked: Counter[At] = Counter()

    async def _reply(self, request, _count) -> Reply:
        place = current_place()
        at = (-1, -1) if place is None else (place.lane, place.turn)
        self.asked[at] += 1
        await asyncio.sleep(self._seconds_at(at))
        found = self.replies.get(at, self.default)
        if callable(found):
            found = found(request)
        if isinstance(found, BaseException):
            raise found
        return said(found, (10, 5))

    def _seconds_at(self, at: At) -> float:
        if callable(self.latency):
            return self.latency(at[0])
        return self.latency.get(at, 1.0) if isinstance(self.latency, dict) else self.latency


class Judge(Actor):
    """A model that says yes to what holds a word."""

    def __init__(self, word: str = "yes") -> None:
        async def judged(request, _count):
            return said("good" if word in prompt_of(request) else "bad", (3, 2))

        super().__init__(judged)


def sampling_rig(root, model: Actor, strategy, *, requirements=(YES,), others=None, solve=None, **fields) -> Rig:
    """A run of one trial, whose solver is one sampling."""

    async def sampled(trial):
        return await trial.generate(trial.sample.input, strategy=strategy, requirements=requirements)

    task = simple_task(1, Solver(solve or sampled), **fields)
    # Whoever else is there judges, or is escalated to.
    return Rig(root, task, {"m": model, **(others or {})}, settings={"tasks": {"t": {"models": ["m"]}}})


def unretried(rig: Rig) -> Rig:
    """The same with a model that is given up at its first failure."""
    rig.settings["runner"] = {"retry_deadline": 0.1}
    return rig


def steps_named(rig: Rig, name: str) -> list[StepRecord]:
    return [step for step in rig.records(StepRecord) if step.name == name]


def candidates(rig: Rig) -> list[tuple[int, int, str, str]]:
    """Lane, turn, status, and the kind of its error, as they are on record."""
    found = [(step.result, step.error) for step in steps_named(rig, "candidate")]
    return [(one["lane"], one["turn"], one["status"], error.kind if error else "") for one, error in found]


def choice(rig: Rig) -> dict[str, Any] | None:
    """The choice on record; there is one at the most."""
    found = [step.result for step in steps_named(rig, "choice")]
    assert len(found) <= 1
    return found[0] if found else None


def end(rig: Rig) -> TrialRecord:
    return rig.ends()[-1]
