"""Stages: each outcome is durable before the next stage starts, and none is run twice."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from engine.rig import Actor, Rig, said, simple_task
from holdfast import Answer
from holdfast.run.core.records import AnswerRecord, NoteRecord, StepRecord
from holdfast.tasks.stages import Stage

SECONDS = 10.0


class Staged:
    """A solver with three stages, each of which takes ten seconds and asks or does something durable."""

    def __init__(self, **fails) -> None:
        self.runs: Counter[str] = Counter()
        self.cleaned: list[tuple[str, str]] = []
        self.fails = fails
        self.stages = tuple(Stage(name, getattr(self, f"_{name}")) for name in ("prepare", "solve", "capture"))

    async def _prepare(self, trial, outcomes):
        await self._work("prepare", outcomes, [])
        return {"workspace": f"w-{trial.key}", "draw": await trial.random()}

    async def _solve(self, trial, outcomes):
        reply = await trial.generate(trial.sample.input)
        await self._work("solve", outcomes, ["prepare"])
        return {"text": reply.text, "draw": outcomes["prepare"]["draw"]}

    async def _capture(self, trial, outcomes):
        await self._work("capture", outcomes, ["prepare", "solve"])
        files = await trial.step("list files", lambda: ["a", "b"])
        return {"diff": outcomes["solve"]["text"], "files": files}

    async def _work(self, name, outcomes, before):
        assert list(outcomes) == before
        self.runs[name] += 1
        await asyncio.sleep(SECONDS)
        if self.fails.get(name, 0) >= self.runs[name]:
            raise ValueError(f"{name} is broken")

    def answer(self, _trial, outcomes):
        return Answer(outcomes["capture"]["diff"], value=outcomes["prepare"]["draw"])

    async def clean_up(self, trial, status):
        await asyncio.sleep(SECONDS)
        if self.fails.get("clean_up"):
            raise ValueError("it cannot be removed")
        self.cleaned.append((trial.sample.id, status))


class Judging:
    """A scorer that asks a judge, and fails to be asked twice the same."""

    name = "judge"

    async def __call__(self, answer, sample, scope):  # noqa: ARG002 - the interface of a scorer
        reply = await scope.generate(f"Grade {answer.text} {answer.value}", model="j")
        await asyncio.sleep(SECONDS)
        return float(reply.text == "GOOD")


async def good(_request, _times):
    return said("GOOD")


def staged_rig(tmp_path, solver, **options) -> Rig:
    actors = {"m": Actor(), "j": Actor(good)}
    settings = {"tasks": {"t": {"models": ["m"], "fail_fast": False}}, **options.pop("settings", {})}
    return Rig(tmp_path / "r", simple_task(2, solver, score=Judging()), actors, settings=settings, **options)


def stage_steps(rig: Rig) -> list[str]:
    return [step.name for step in rig.records(StepRecord) if step.step.startswith("stage/")]


@pytest.mark.parametrize("moment", [5.0, 10.5, 15.0, 20.5, 25.0, 30.5, 35.0])
def test_experiments_5_killed_in_or_between_stages_the_agent_is_paid_once(tmp_path, moment):
    solver = Staged()
    rig = staged_rig(tmp_path, solver)
    rig.killed_session(moment)
    before = Counter(solver.runs)
    ended = rig.session().ended
    assert ended.exit_code == 0, ended
    assert rig.actors["m"].calls == 2
    # A stage whose outcome was durable is not run again.
    for number, name in enumerate(("prepare", "solve", "capture")):
        assert solver.runs[name] == 2 + (before[name] if moment < SECONDS * (number + 1) else 0)
    assert [(end.status.value, end.unused) for end in rig.ends() if end.status.value != "unfinished"] == [
        ("valid", 0)
    ] * 2
    assert rig.ledger() == []
    assert rig.is_sound()


def test_experiments_4_stages_are_on_record_one_by_one_with_digests_of_their_inputs(tmp_path):
    rig = staged_rig(tmp_path, Staged())
    assert rig.session().ended.exit_code == 0
    steps = [step for step in rig.records(StepRecord) if step.step.startswith("stage/")]
    assert Counter(step.name for step in steps) == {"prepare": 2, "solve": 2, "capture": 2, "clean_up": 2}
    assert len({step.step for step in steps if step.name != "clean_up"}) == 6
    assert all(step.seconds == SECONDS for step in steps if step.name != "clean_up")


def test_experiments_4_a_resumed_judge_sees_the_same_prompt(tmp_path):
    rig = staged_rig(tmp_path, Staged())
    rig.killed_session(35.0)
    first = sorted(request.messages[-1].content for request in rig.actors["j"].requests)
    # Nothing of the judges' replies was lost: they are not asked again.
    rig.session()
    assert sorted(request.messages[-1].content for request in rig.actors["j"].requests) == first


def test_clean_up_comes_once_after_the_end_and_again_after_a_kill(tmp_path):
    solver = Staged()
    rig = staged_rig(tmp_path, solver)
    rig.session()
    assert sorted(solver.cleaned) == [("s0", "valid"), ("s1", "valid")]
    rig.session()
    assert len(solver.cleaned) == 2


def test_clean_up_is_left_to_the_next_session_by_a_kill_and_by_a_failure(tmp_path):
    solver = Staged(clean_up=1)
    rig = staged_rig(tmp_path, solver)
    # The ends are durable, and clean-up has started.
    rig.killed_session(45.0)
    assert [end.status.value for end in rig.ends()] == ["valid", "valid"]
    assert rig.session().ended.exit_code == 0
    assert solver.cleaned == []
    assert [note.kind for note in rig.records(NoteRecord) if note.trial] == ["clean_up", "clean_up"]
    solver.fails.clear()
    rig.session()
    assert sorted(solver.cleaned) == [("s0", "valid"), ("s1", "valid")]
    assert solver.runs == {"prepare": 2, "solve": 2, "capture": 2}
    rig.session()
    assert len(solver.cleaned) == 2
    assert rig.is_sound()


def test_a_retry_after_capture_failed_keeps_what_solving_came_to(tmp_path):
    solver = Staged(capture=2)
    rig = staged_rig(tmp_path, solver)
    assert rig.session().ended.exit_code == 0
    assert rig.actors["m"].calls == 2
    assert solver.runs == {"prepare": 2, "solve": 2, "capture": 4}
    assert [answer.attempt for answer in rig.records(AnswerRecord)] == [2, 2]
    assert rig.ledger() == []
    assert rig.is_sound()


def test_a_retry_after_solving_failed_starts_from_nothing(tmp_path):
    solver = Staged(solve=2)
    rig = staged_rig(tmp_path, solver)
    assert rig.session().ended.exit_code == 0
    assert solver.runs == {"prepare": 4, "solve": 4, "capture": 2}
    assert [entry[2:4] for entry in rig.ledger()] == [("retried", 2)]
    assert rig.is_sound()
