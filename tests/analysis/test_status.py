"""The status of a run: its state, and what every session sent, got and died with."""

from __future__ import annotations

import pytest

from durable import begin_run, begin_session, commit
from engine.rig import Actor, Rig, interrupt, simple_task
from holdfast.analysis.status import run_status
from holdfast.api.run import Run
from holdfast.models.message import Usage
from holdfast.run.core.records import CallRecord, Status, StepRecord, TrialRecord
from holdfast.run.fold.reader import RunReader


def key(number: int) -> str:
    return f"{number:020x}"


def call(number: int) -> CallRecord:
    return CallRecord(trial=key(number), attempt=1, step="generate:x#1", model="m")


def reply(number: int) -> StepRecord:
    return StepRecord(trial=key(number), attempt=1, step="generate:x#1", model="m", usage=Usage(1, 1))


def end(number: int, status: Status = Status.VALID) -> TrialRecord:
    return TrialRecord(trial=key(number), attempt=1, status=status, task="t", model="m")


def test_the_ledger_counts_the_calls_whose_reply_was_not_recorded(tmp_path):
    """What a session died with is what it sent and did not get; failed attempts and other steps hide none of it."""
    session = begin_run(tmp_path / "r", planned=8)
    for number in range(5):
        session.sink.append(call(number))
        if number < 3:
            commit(session, reply(number))
            commit(session, end(number, Status.FAILED))
    commit(session, StepRecord(trial=key(9), attempt=1, step="step/tests:y#1", result=1))
    session.abandon()
    status = run_status(RunReader(tmp_path / "r"))
    assert (status.calls.made, status.calls.in_flight_at_kill) == (5, 2)
    (first,) = status.sessions
    assert (first.ended_as, first.calls, first.replies) == ("killed", 5, 3)
    assert (status.state, status.counts.failed, status.counts.remaining) == ("incomplete", 3, 8)


def test_the_ledger_and_the_model_agree_over_kills_and_interrupts(tmp_path):
    """Repeated calls are exactly those that the ledger says were in flight."""
    actor = Actor(seconds=1.0)
    rig = Rig(tmp_path / "r", simple_task(40), {"m": actor}, settings={"concurrency_limit": 4, "grace_period": 0.0})
    rig.killed_session(2.5)
    rig.at = {3.5: interrupt}
    rig.session()
    rig.session()
    status = rig.status()
    assert [session.ended_as for session in status.sessions] == ["killed", "interrupted", "completed"]
    assert [session.in_flight_at_kill for session in status.sessions] == [4, 4, 0]
    assert actor.calls == status.calls.made == 40 + status.calls.in_flight_at_kill
    assert [session.finished for session in status.sessions] == [8, 12, 20]
    assert (status.state, status.counts.finished, status.counts.remaining) == ("complete", 40, 0)


def test_replays_are_in_the_ledger(tmp_path):
    """What was taken from the record instead of being asked again is counted."""

    async def two(trial):
        await trial.generate("one")
        return await trial.generate("two")

    rig = Rig(tmp_path / "r", simple_task(3, two), {"m": Actor(seconds=1.0)})
    rig.killed_session(1.5)
    rig.session()
    calls = rig.status().calls
    assert (calls.made, calls.replayed, calls.in_flight_at_kill) == (9, 3, 3)


def test_a_run_that_is_held_is_running_and_loses_no_call_of_the_living(tmp_path):
    """Calls of a session that is still at work are not counted as lost."""
    session = begin_run(tmp_path / "r", planned=2)
    session.sink.append(call(1))
    commit(session, end(2))
    status = run_status(RunReader(tmp_path / "r"))
    assert (status.state, status.counts.finished, status.calls.in_flight_at_kill) == ("running", 1, 0)
    assert status.sessions[0].ended_as == "running"
    assert status.held_by
    session.abandon()
    status = run_status(RunReader(tmp_path / "r"))
    assert (status.state, status.sessions[0].ended_as, status.calls.in_flight_at_kill) == ("incomplete", "killed", 1)


def test_a_run_is_complete_when_every_planned_trial_is_kept(tmp_path):
    """Limited and blocked trials are outcomes; failed and unfinished ones remain."""
    session = begin_run(tmp_path / "r", planned=4)
    for number, status in enumerate([Status.VALID, Status.LIMITED, Status.BLOCKED, Status.FAILED]):
        commit(session, end(number, status))
    session.abandon()
    assert run_status(RunReader(tmp_path / "r")).state == "incomplete"
    session = begin_session(tmp_path / "r", planned=4)
    commit(session, end(3))
    session.close("completed")
    status = run_status(RunReader(tmp_path / "r"))
    counts = status.counts
    assert (status.state, counts.finished, counts.failed, counts.remaining) == ("complete", 4, 0, 0)


def test_every_trial_that_is_on_record_is_listed_once(tmp_path):
    """However many records of however many kinds a trial has."""
    session = begin_run(tmp_path / "r", planned=4)
    for number in (3, 1, 2):
        session.sink.append(call(number))
        session.sink.append(reply(number))
        commit(session, end(number, Status.FAILED))
        commit(session, end(number))
    commit(session, call(0))
    session.abandon()
    with Run.open(tmp_path / "r") as run:
        assert list(run.trial_keys()) == [key(number) for number in range(4)]
        kinds = [type(record).__name__ for record in run.records_of(key(1))]
    assert kinds == ["StepRecord", "TrialRecord", "TrialRecord"]


@pytest.mark.parametrize("kind", ["steps", "attempts", "trials"])
def test_records_are_streamed_in_the_order_of_the_run(tmp_path, kind):
    """One at a time, first session first."""
    session = begin_run(tmp_path / "r")
    session.sink.append(reply(2))
    commit(session, end(2))
    session.abandon()
    session = begin_session(tmp_path / "r")
    session.sink.append(reply(1))
    commit(session, end(1))
    session.close("completed")
    with Run.open(tmp_path / "r") as run:
        assert [record.trial for record in getattr(run, kind)()] == [key(2), key(1)]
        assert [step.trial for step in run.steps(key(1))] == [key(1)]
