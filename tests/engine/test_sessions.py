"""How a session ends: by itself, by one signal or two, by a failing disk; and what it says and leaves then."""

from __future__ import annotations

import asyncio
import errno
import gc
import os

import pytest

from engine.rig import Actor, Rig, State, ask, interrupt, said, samples, simple_task
from engine.virtual import VirtualLoop, run_virtually
from holdfast import Task, TrialLimits, scorer
from holdfast.engine.execution import Execution
from holdfast.models.errors import Blocked, RateLimited, Rejected
from holdfast.run.core.records import AnswerRecord, ScoreRecord, SessionEndRecord, StepRecord


def test_a_session_that_has_nothing_left_to_do_ends_at_once(tmp_path):
    """A complete run is complete; no model is asked."""
    rig = Rig(tmp_path / "r", simple_task(3))
    rig.session()
    session = rig.session()
    assert (session.ended.how, session.ended.exit_code, session.seconds) == ("completed", 0, 0.0)
    assert rig.actors["m"].calls == 3


def test_models_are_closed_whatever_happens(tmp_path):
    """Also one that fails to close, and one whose session was cancelled."""

    class Clumsy(Actor):
        async def close(self):
            await super().close()
            raise OSError("cannot even close")

    rig = Rig(tmp_path / "r", simple_task(2), {"a": Clumsy(), "b": Actor()})
    assert rig.session().ended.exit_code == 0
    assert [actor.closed for actor in rig.actors.values()] == [1, 1]


def test_the_first_signal_lets_calls_in_flight_finish_and_starts_none(tmp_path):
    """Those that were asked are answered, scored and kept; the others remain."""
    actor = Actor(seconds=10.0)
    rig = Rig(tmp_path / "r", simple_task(20), {"m": actor}, settings={"concurrency_limit": 4})
    rig.at = {15.0: interrupt}
    session = rig.session()
    assert session.seconds == pytest.approx(20.0)
    assert (session.ended.how, session.ended.exit_code) == ("interrupted", 130)
    assert (session.ended.counts.finished, session.ended.counts.remaining, actor.calls) == (8, 12, 8)
    assert rig.status().calls.in_flight_at_kill == 0
    assert rig.is_sound()


def test_a_trial_between_two_calls_stops_there_and_keeps_what_it_has(tmp_path):
    """The call in flight is recorded; the next one is not made; a resume goes on from it."""
    actor = Actor(seconds=10.0)

    async def twice(trial):
        await trial.generate("one")
        return await trial.generate("two")

    rig = Rig(tmp_path / "r", simple_task(1, twice), {"m": actor})
    rig.at = {5.0: interrupt}
    session = rig.session()
    assert session.seconds == pytest.approx(10.0)
    assert len(rig.records(StepRecord)) == 1
    rig.session()
    assert dict(actor.by_prompt) == {"one": 1, "two": 1}


def test_pauses_and_queues_are_not_waited_for(tmp_path):
    """A trial in a back-off of an hour, or waiting for a slot, ends with the signal."""

    async def behave(request, number):
        raise RateLimited("later", retry_after=3000.0)

    rig = Rig(tmp_path / "r", simple_task(10), {"m": Actor(behave)}, {"m": {"concurrency_limit": 2}})
    rig.at = {100.0: interrupt}
    assert rig.session().seconds == pytest.approx(100.0)


def test_the_grace_time_bounds_the_wait(tmp_path):
    """Calls that outlast it are given up and counted, and their trials remain."""
    actor = Actor(seconds=1000.0)
    rig = Rig(tmp_path / "r", simple_task(5), {"m": actor}, settings={"grace_period": 30.0})
    rig.at = {10.0: interrupt}
    session = rig.session()
    assert session.seconds == pytest.approx(40.0)
    assert actor.cancelled == 5
    assert rig.status().calls.in_flight_at_kill == 5
    assert rig.ends() == []


def test_the_second_signal_stops_at_once(tmp_path):
    """Whatever is in flight is cancelled and remains to be done; nothing of it is scored."""
    actor = Actor(seconds=1000.0)
    rig = Rig(tmp_path / "r", simple_task(5), {"m": actor}, settings={"grace_period": 500.0})
    rig.at = {10.0: interrupt, 20.0: interrupt}
    session = rig.session()
    assert session.seconds == pytest.approx(20.0)
    assert rig.ends() == [] and rig.records(ScoreRecord) == []
    assert session.execution.progress.active == 0


def test_answers_in_hand_are_scored_though_others_wait_at_the_gate_with_the_slots_they_need(tmp_path):
    """Trials that can only wait give their slots up one by one, so that those that can finish do."""

    async def solve(trial):
        last = 1 if trial.sample.input == "q0" else 100
        replies = [await trial.generate(f"{trial.sample.input} {number}") for number in range(last)]
        return replies[-1]

    def right(answer, sample):
        return True

    actor = Actor(seconds=10.0)
    task = Task(name="t", samples=samples(2), solver=solve, scorers=scorer(right))
    # The answer has to wait for a slot of the run, which the endless trial holds and can only give up.
    settings = {"concurrency_limit": 2, "concurrency_limits": {"score": 1}}
    rig = Rig(tmp_path / "r", task, {"m": actor}, settings=settings)
    rig.at = {5.0: interrupt}
    session = rig.session()
    assert session.seconds == pytest.approx(10.0)
    assert rig.statuses() == {"s0": "valid"}


def test_code_of_the_task_that_a_signal_may_have_interrupted_counts_nothing(tmp_path):
    """A step and a scorer that ran when it came remain to be done, whatever they came to."""
    interrupted = State(True)

    async def work() -> str:
        await asyncio.sleep(10.0)
        return "worked"

    async def by_step(trial):
        return await trial.step("work", work)

    def worked(answer, sample):
        return answer.text == "worked"

    async def judge(answer, sample):
        await asyncio.sleep(10.0)
        return not interrupted.value

    tasks = [
        Task(name="step", samples=samples(1), solver=by_step, scorers=scorer(worked)),
        Task(name="scorer", samples=samples(1), solver=ask, scorers=scorer(judge)),
    ]
    rig = Rig(tmp_path / "r", tasks, settings={"grace_period": 60.0})
    rig.at = {5.0: interrupt}
    rig.session()
    assert rig.ends() == [] and rig.records(ScoreRecord) == []
    assert [step.name for step in rig.records(StepRecord)] == ["generate"]
    assert len(rig.records(AnswerRecord)) == 1
    interrupted.value = False
    assert rig.session().ended.exit_code == 0
    assert sorted(next(iter(end.scores.items())) for end in rig.ends()) == [("judge", 1.0), ("worked", 1.0)]


def test_an_end_that_is_on_its_way_to_the_disk_counts_though_the_session_is_stopped(tmp_path):
    """The number of finished trials in the session's end is that of the journal, in whatever moment the stop comes."""
    execution = State(None)

    def right(answer, sample):
        if sample.id == "s7":
            # In the next turn of the loop, when the end of this trial waits for its record.
            asyncio.get_running_loop().call_soon(execution.value._scheduler.cancel)
        return True

    task = Task(name="t", samples=samples(12), solver=ask, scorers=scorer(right))
    rig = Rig(tmp_path / "r", task, {"m": Actor(seconds=1.0)}, settings={"concurrency_limit": 1})
    rig.at = {0.5: lambda found: setattr(execution, "value", found)}
    session = rig.session()
    (end,) = rig.records(SessionEndRecord)
    assert end.finished == len(rig.ends()) == session.ended.counts.finished == 8
    assert rig.is_sound()


def test_a_cancelled_session_ends_in_an_orderly_way_and_the_cancellation_goes_on(tmp_path):
    """As asyncio.run does it on Ctrl-C: tasks are ended, models closed, the end recorded, the lease released."""
    actor = Actor(seconds=10.0)
    rig = Rig(tmp_path / "r", simple_task(10), {"m": actor}, settings={"concurrency_limit": 2})
    loop = VirtualLoop()

    async def cancelled():
        running = asyncio.ensure_future(rig._session(loop))
        await asyncio.sleep(15.0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_virtually(cancelled(), loop)
    assert actor.closed == 1
    (end,) = rig.records(SessionEndRecord)
    assert (end.how, end.exit_code, end.finished) == ("interrupted", 130, 2)
    assert rig.session().ended.exit_code == 0


def test_a_failing_disk_ends_the_session_with_five_and_loses_nothing_acknowledged(tmp_path, monkeypatch):
    """No new work starts, what was counted is there, and a later session goes on."""
    actor, syncs = Actor(seconds=1.0), State(0)
    rig = Rig(tmp_path / "r", simple_task(40), {"m": actor}, settings={"concurrency_limit": 4})

    def fail(descriptor):
        syncs.value += 1
        if syncs.value > 12:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", fail)
    session = rig.session()
    assert (session.ended.how, session.ended.exit_code) == ("storage", 5)
    assert "No space left" in session.ended.warning
    calls = actor.calls
    assert calls < 40
    monkeypatch.setattr(os, "fdatasync", lambda _: None)
    assert len(rig.ends()) >= session.ended.counts.finished > 0
    assert rig.session().ended.exit_code == 0
    assert len({end.trial for end in rig.ends()}) == 40


def test_an_end_of_the_session_that_cannot_be_written_is_a_warning_after_an_interrupt(tmp_path, monkeypatch):
    """Row 49: still 130, and nothing else is lost."""
    rig = Rig(tmp_path / "r", simple_task(10), {"m": Actor(seconds=10.0)}, settings={"concurrency_limit": 2})

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    def stop(execution: Execution) -> None:
        interrupt(execution)
        interrupt(execution)
        monkeypatch.setattr(os, "fdatasync", full)

    rig.at = {15.0: stop}
    session = rig.session()
    assert session.ended.exit_code == 130
    assert "could not be recorded" in session.ended.warning
    monkeypatch.setattr(os, "fdatasync", lambda _: None)
    assert len(rig.ends()) == 2
    assert rig.session().ended.exit_code == 0


@pytest.mark.parametrize(
    ("solve", "code"), [("good", 0), ("failing", 1), ("blocked", 1), ("limited", 0), ("unanswered", 1)]
)
def test_exit_codes_tell_the_truth(tmp_path, solve, code):
    """Complete and valid or limited: 0; anything failed, blocked or remaining: 1."""

    async def behave(request, number):
        if solve == "blocked":
            raise Blocked("policy")
        if solve == "unanswered":
            raise Rejected("no", status=400)
        return said("Q0", (10, 10))

    async def solver(trial):
        if solve == "failing":
            raise ValueError("no")
        return await trial.generate("x")

    task = simple_task(1, solver, limits=TrialLimits(tokens=5) if solve == "limited" else None)
    rig = Rig(tmp_path / "r", task, {"m": Actor(behave)}, settings={"max_retries": 0})
    session = rig.session()
    assert session.ended.exit_code == code
    assert rig.records(SessionEndRecord)[-1].exit_code == code


def test_progress_counts_each_trial_once_and_ends_with_nothing_under_way(tmp_path):
    """Finished, failed, unfinished and retried add up, over retries and sessions."""

    async def behave(request, number):
        if request.messages[-1].content == "q2":
            raise Rejected("no", status=400)
        return said(request.messages[-1].content.upper(), (3, 2))

    async def solve(trial):
        reply = await trial.generate(trial.sample.input)
        if trial.sample.input == "q1":
            raise ValueError("always")
        return reply

    rig = Rig(tmp_path / "r", simple_task(6, solve), {"m": Actor(behave)}, settings={"max_retries": 2})
    progress = rig.session().execution.progress
    assert (progress.finished, progress.failed, progress.unfinished, progress.retried) == (4, 1, 1, 2)
    assert (progress.active, progress.done, progress.planned) == (0, 4, 6)
    assert progress.usage.input_tokens == 3 * 7
    group = progress.groups["t", "m"]
    assert group.scores() == {"exact": (1.0, 4)} and (group.finished, group.failed, group.unfinished) == (4, 1, 1)
    progress = rig.session().execution.progress
    # The failed one has used up its retries: only the one without a reply is asked again.
    assert (progress.finished_before, progress.finished, progress.failed, progress.unfinished) == (4, 0, 0, 1)


def test_rate_and_time_left_are_those_of_the_last_minute(tmp_path):
    """Ten trials a second leave as many tenths of a second as there are trials."""
    seen = []

    def look(execution: Execution) -> None:
        progress = execution.progress
        progress.rate()
        if 200 <= progress.finished < 210:
            seen.append((progress.rate(), progress.eta_seconds()))

    actor = Actor(seconds=1.0)
    rig = Rig(tmp_path / "r", simple_task(300), {"m": actor}, settings={"concurrency_limit": 10})
    rig.looks = [look]
    rig.session()
    assert seen
    rate, left = seen[0]
    assert rate == pytest.approx(10.0, rel=0.1)
    assert left == pytest.approx(10.0, rel=0.15)


def test_a_long_session_holds_no_more_than_a_short_one(tmp_path):
    """What the engine keeps of a trial is gone with it: tasks, coroutines, futures, records, closures."""
    sizes = []

    def look(execution: Execution) -> None:
        if execution.progress.finished in {50, 1500}:
            gc.collect()
            # Lists by key belong to the open segment of the journal, and go with it.
            sizes.append(sum(1 for item in gc.get_objects() if type(item) not in {list, dict}))

    rig = Rig(tmp_path / "r", simple_task(100, epochs=16), {"m": Quiet()}, settings={"concurrency_limit": 10})
    rig.looks = [look]
    rig.session()
    assert len(sizes) >= 2
    assert sizes[-1] - sizes[0] < 100


class Quiet(Actor):
    """An actor that remembers nothing."""

    async def send(self, request):  # noqa: ARG002 - a provider's signature
        await asyncio.sleep(1.0)
        return said("Q")
