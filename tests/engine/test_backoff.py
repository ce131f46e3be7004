"""Asking again: pauses, deadlines, and what no pause can cure; an hour of it in no time."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from engine.rig import Actor, Rig, said, simple_task
from holdfast.models.errors import Blocked, RateLimited, Rejected, Unavailable
from holdfast.run.core.records import CallRecord, Status, StepRecord


def failing(times: int, make):
    """A model that fails so many times for each prompt, then answers."""

    async def behave(request, number):
        if number <= times:
            raise make()
        return said(request.messages[-1].content.upper())

    return behave


def pauses(actor: Actor, prompt: str = "q0") -> list[float]:
    times = actor.times[prompt]
    return [later - earlier for earlier, later in pairwise(times)]


def test_pauses_double_up_to_a_minute_and_are_jittered(tmp_path):
    """Each pause is drawn from the upper half of twice the one before, and none is longer than a minute."""
    actor = Actor(failing(12, lambda: Unavailable("down", status=503)))
    rig = Rig(tmp_path / "r", simple_task(), {"m": actor})
    assert rig.session().ended.exit_code == 0
    nominal = [min(0.5 * 2**number, 60.0) for number in range(12)]
    assert all(half <= 1.0 for half in [pause / top for pause, top in zip(pauses(actor), nominal, strict=True)])
    assert all(pause >= top / 2 for pause, top in zip(pauses(actor), nominal, strict=True))
    assert len({round(pause / top, 6) for pause, top in zip(pauses(actor), nominal, strict=True)}) == 12


def test_many_trials_do_not_come_back_at_once(tmp_path):
    """A hundred trials that met one outage spread over half the pause."""
    actor = Actor(failing(1, lambda: Unavailable("down", status=503)))
    Rig(tmp_path / "r", simple_task(100), {"m": actor}).session()
    firsts = [pauses(actor, f"q{number}")[0] for number in range(100)]
    assert max(firsts) - min(firsts) > 0.2
    assert len(set(firsts)) == 100


@pytest.mark.parametrize("error", [RateLimited, Unavailable])
def test_the_servers_wish_is_respected(tmp_path, error):
    """With Retry-After nobody comes back earlier, and not much later."""
    actor = Actor(failing(3, lambda: error("wait", retry_after=90.0)))
    Rig(tmp_path / "r", simple_task(), {"m": actor}).session()
    assert all(90.0 <= pause <= 99.0 for pause in pauses(actor))


@pytest.mark.parametrize("wish", [0.0, -5.0])
def test_a_wish_to_be_asked_again_at_once_is_met_with_growing_pauses(tmp_path, wish):
    """A server that says 429 and Retry-After: 0 is not hammered."""
    actor = Actor(failing(6, lambda: RateLimited("now", retry_after=wish)))
    Rig(tmp_path / "r", simple_task(), {"m": actor}).session()
    assert all(pause >= 0.25 * 2**number for number, pause in enumerate(pauses(actor)))


def test_rate_limits_count_neither_against_the_deadline_nor_as_attempts(tmp_path):
    """Hours of 429 end in a valid first attempt, however short the deadline."""
    actor = Actor(failing(200, lambda: RateLimited("slow down")))
    rig = Rig(tmp_path / "r", simple_task(), {"m": actor}, settings={"retry_deadline": 5.0, "max_retries": 0})
    session = rig.session()
    assert session.seconds > 3600
    (end,) = rig.ends()
    assert (end.status, end.attempt, end.tries) == (Status.VALID, 1, 201)
    assert session.execution.progress.counts.rate_limited == 200


def test_rate_limits_between_failures_do_not_use_up_the_deadline_nor_renew_it(tmp_path):
    """The deadline is so many seconds of failing: what 429 takes is not counted, and does not begin the count anew."""

    async def behave(request, number):
        raise RateLimited("slow", retry_after=100.0) if number % 2 else Unavailable("down", retry_after=10.0)

    actor = Actor(behave)
    rig = Rig(tmp_path / "r", simple_task(), {"m": actor}, settings={"retry_deadline": 105.0})
    rig.session()
    failures = sum(1 for number in range(1, actor.calls + 1) if number % 2 == 0)
    assert 10 <= failures <= 11
    assert rig.statuses() == {"s0": "unfinished"}


def test_an_outage_longer_than_the_deadline_leaves_the_trial_unfinished(tmp_path):
    """After the deadline the trial is unfinished: not scored, not failed, and the next session asks again."""
    down = [True]

    async def behave(request, number):
        if down[0]:
            raise Unavailable("down", status=503)
        return said("Q0")

    actor = Actor(behave)
    rig = Rig(tmp_path / "r", simple_task(), {"m": actor}, settings={"retry_deadline": 600.0})
    session = rig.session()
    assert 540 <= session.seconds <= 600
    assert (session.ended.exit_code, session.ended.counts.finished, session.ended.counts.remaining) == (1, 0, 1)
    (end,) = rig.ends()
    assert (end.status, end.scores, end.error.kind) == (Status.UNFINISHED, {}, "unavailable")
    assert rig.report().tasks["t"]["m"].metrics == {}
    down[0] = False
    assert rig.session().ended.exit_code == 0
    assert [end.attempt for end in rig.ends()] == [1, 1]
    assert rig.is_sound()


def test_an_unfinished_trial_goes_on_with_the_replies_it_has(tmp_path):
    """Of three calls the two that were answered are replayed in the next session, and only the third is made again."""
    down = [True]

    async def behave(request, number):
        if down[0] and request.messages[-1].content == "three":
            raise Unavailable("down")
        return said(request.messages[-1].content.upper(), (10, 5))

    async def three(trial):
        await trial.generate("one")
        await trial.generate("two")
        return await trial.generate("three")

    actor = Actor(behave)
    prices = {"m": {"price": {"input": 1e6, "output": 1e6}}}
    rig = Rig(tmp_path / "r", simple_task(1, three), {"m": actor}, prices, settings={"retry_deadline": 30.0})
    rig.session()
    down[0] = False
    actor.by_prompt.clear()
    rig.session()
    assert dict(actor.by_prompt) == {"three": 1}
    last = rig.ends()[-1]
    assert (last.status, last.attempt, last.replayed, last.calls) == (Status.VALID, 1, 2, 1)
    assert last.usage.input_tokens == 30
    assert rig.report().cost == 45.0


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_key_closes_the_model_for_the_session_with_one_message(tmp_path, status):
    """A thousand trials need not all be told: those begun end unfinished, the others are not begun."""

    async def behave(request, number):
        raise Rejected("no such key", status=status)

    actor = Actor(behave, seconds=1.0)
    rig = Rig(tmp_path / "r", simple_task(1000), {"m": actor}, settings={"concurrency_limit": 20})
    session = rig.session()
    assert actor.calls == 20
    assert [message for message in session.messages if "no such key" in message] == session.messages
    assert len(session.messages) == 1
    assert (session.ended.exit_code, session.ended.counts.remaining) == (1, 1000)
    assert len(rig.ends()) <= 40
    assert {end.status for end in rig.ends()} == {Status.UNFINISHED}


@pytest.mark.parametrize(("status", "asked"), [(401, 2), (403, 6), (404, 6)])
def test_one_refused_request_does_not_condemn_a_model_that_replies(tmp_path, status, asked):
    """Only a refused key does, once others have got replies."""

    async def behave(request, number):
        if request.messages[-1].content == "q1":
            raise Rejected("not that one", status=status)
        return said("Q")

    actor = Actor(behave, seconds=1.0)
    rig = Rig(tmp_path / "r", simple_task(6), {"m": actor}, settings={"concurrency_limit": 1})
    rig.session()
    assert actor.calls == asked
    assert list(rig.statuses().values()).count("valid") == asked - 1


def test_a_model_that_has_failed_everybody_for_the_deadline_is_not_waited_for_by_each(tmp_path):
    """A dead endpoint costs one deadline, not one for every trial."""

    async def behave(request, number):
        raise Unavailable("dead")

    rig = Rig(
        tmp_path / "r",
        simple_task(40),
        {"m": Actor(behave)},
        settings={"retry_deadline": 600.0, "concurrency_limit": 2},
    )
    session = rig.session()
    assert 500.0 < session.seconds < 1300.0
    assert set(rig.statuses().values()) == {"unfinished"}


def test_a_model_that_answers_now_and_then_is_waited_for(tmp_path):
    """One reply to anybody begins the count anew."""

    async def behave(request, number):
        if request.messages[-1].content in {"q0", "q25"} and number == 1:
            raise Unavailable("not now", retry_after=10.0)
        return said("Q")

    async def slowly(trial):
        reply = await trial.generate(trial.sample.input)
        await asyncio.sleep(100.0)
        return reply

    settings = {"retry_deadline": 500.0, "concurrency_limit": 2}
    rig = Rig(tmp_path / "r", simple_task(30, slowly), {"m": Actor(behave)}, settings=settings)
    rig.session()
    assert set(rig.statuses().values()) == {"valid"}


def test_a_closed_model_does_not_hold_up_another(tmp_path):
    """The trials of the model that answers are all finished."""

    async def behave(request, number):
        raise Rejected("gone", status=404)

    actors = {"bad": Actor(behave), "good": Actor(seconds=1.0)}
    rig = Rig(tmp_path / "r", simple_task(50), actors, settings={"concurrency_limit": 4})
    session = rig.session()
    assert session.ended.counts.finished == 50
    assert session.ended.exit_code == 1
    assert {end.model for end in rig.ends() if end.status is Status.VALID} == {"good"}


def test_a_refused_request_leaves_only_its_own_trial_unfinished(tmp_path):
    """A 400 is not tried again, and says nothing about other requests."""

    async def behave(request, number):
        if request.messages[-1].content == "q1":
            raise Rejected("too long", status=400)
        return said(request.messages[-1].content.upper())

    actor = Actor(behave)
    rig = Rig(tmp_path / "r", simple_task(3), {"m": actor})
    session = rig.session()
    assert rig.statuses() == {"s0": "valid", "s1": "unfinished", "s2": "valid"}
    assert actor.by_prompt["q1"] == 1
    assert any("s1" in message and "too long" in message for message in session.messages)


def test_a_blocked_trial_is_kept_unscored_and_the_run_says_so(tmp_path):
    """Content policy is an outcome: final, counted apart, never asked again, exit 1; what it cost is counted."""

    async def behave(request, number):
        if request.messages[-1].content == "q0":
            error = Blocked("policy", status=400)
            error.usage = said("", (7, 0)).usage
            raise error
        return said("Q1")

    actor = Actor(behave)
    rig = Rig(tmp_path / "r", simple_task(2), {"m": actor})
    session = rig.session()
    assert session.ended.exit_code == 1
    assert rig.statuses() == {"s0": "blocked", "s1": "valid"}
    report = rig.report()
    assert (report.coverage.blocked, report.coverage.valid, report.coverage.remaining) == (1, 1, 0)
    assert report.tasks["t"]["m"].metrics["exact"]["accuracy"].n_trials == 1
    assert report.usage.input_tokens == 8
    assert rig.session().ended.counts.finished == 2
    assert actor.calls == 2


def test_a_call_is_noted_once_however_often_it_is_tried(tmp_path):
    """The ledger counts calls; tries stand beside the reply."""
    actor = Actor(failing(3, lambda: Unavailable("down")))
    rig = Rig(tmp_path / "r", simple_task(), {"m": actor})
    rig.session()
    assert len(rig.records(CallRecord)) == 1
    assert [step.tries for step in rig.records(StepRecord)] == [4]
    assert rig.status().calls.made == 1


@pytest.mark.parametrize("given", ["text", None, 5])
def test_a_provider_that_returns_no_reply_is_named(tmp_path, given):
    """A plug-in's mistake leaves the trial unfinished, with the provider's model in the message."""

    async def behave(request, number):
        return given

    rig = Rig(tmp_path / "r", simple_task(), {"m": Actor(behave)})
    rig.session()
    (end,) = rig.ends()
    assert end.status is Status.UNFINISHED
    assert "The provider of m returned" in end.error.message
