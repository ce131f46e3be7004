"""Admission in a session: limits that are set while it works, holds with a reason, the tally and the mark."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from engine.rig import Actor, Rig, ask, interrupt, said, samples, simple_task
from holdfast import Task, TrialLimits, exact
from holdfast.engine.scheduling.admission_mark import first_mark
from holdfast.errors import RunHeld, UsageError
from holdfast.models.errors import RateLimited, Unavailable
from holdfast.models.message import Usage
from holdfast.run.core.records import MarkRecord, SessionRecord
from holdfast.spec import RateLimit

RUN, MODEL = "runner.concurrency_limit", "models.m.concurrency_limit"


def set_limit(name, maximum):
    return lambda execution: execution.admission.set_limit(name, maximum)


def hold(reason, model=""):
    return lambda execution: execution.admission.hold(reason, model)


def release(reason, model=""):
    return lambda execution: execution.admission.release(reason, model)


def sent_at(actor: Actor, second: float) -> int:
    return sum(1 for moment, _ in actor.tries if moment == 1000.0 + second)


# Limits.


@pytest.mark.parametrize("name", [RUN, MODEL, "runner.concurrency_limits.solve", "tasks.t.runner.concurrency_limit"])
def test_a_limit_that_had_no_maximum_or_another_is_raised_and_lowered_while_in_use(tmp_path, name):
    """Raising lets in who waits at once; lowering revokes nothing and lets nobody in until fewer are in use."""
    actor = Actor(seconds=10.0)
    rig = Rig(tmp_path / "r", simple_task(40), {"m": actor}, settings={"concurrency_limit": 64})
    rig.at = {0.0: set_limit(name, 4), 5.0: set_limit(name, 2), 25.0: set_limit(name, 8), 26.0: set_limit(name, None)}
    lows: list[int] = []
    rig.looks.append(lambda execution: lows.append(min(limit.in_use for limit in execution._limits._by_name.values())))
    session = rig.session()
    assert min(lows) >= 0
    assert session.ended.exit_code == 0
    assert len(rig.ends()) == 40


def test_raising_the_runs_limit_starts_trials_at_once_and_lowering_it_waits_for_room(tmp_path):
    """Four at a time, then two, then six, measured at the model."""
    actor = Actor(seconds=10.0)
    rig = Rig(tmp_path / "r", simple_task(30), {"m": actor}, settings={"concurrency_limit": 4})
    rig.at = {5.0: set_limit(RUN, 2), 25.0: set_limit(RUN, 6)}
    rig.session()
    assert [sent_at(actor, second) for second in (0.0, 10.0, 20.0, 25.0, 30.0, 35.0)] == [4, 2, 2, 4, 2, 4]


def test_a_models_limit_is_set_while_its_calls_run(tmp_path):
    """Also that of a model which had none: what runs was counted all the time."""
    actor = Actor(seconds=10.0)
    rig = Rig(tmp_path / "r", simple_task(12), {"m": actor}, settings={"concurrency_limit": 6})
    rig.at = {1.0: set_limit(MODEL, 2), 11.0: set_limit(MODEL, 3)}
    session = rig.session()
    assert [sent_at(actor, second) for second in (0.0, 10.0, 11.0, 20.0, 21.0)] == [6, 2, 1, 2, 1]
    assert session.execution._models["m"].limit.in_use == 0


def test_a_limit_that_is_not_there_is_named(tmp_path):
    """So is a maximum that nothing could pass."""
    rig = Rig(tmp_path / "r", simple_task(1), {"m": Actor(seconds=1.0)})
    errors = []

    def wrong(execution):
        for name, maximum in [("models.n.concurrency_limit", 1), (MODEL, 0)]:
            with pytest.raises(UsageError) as error:
                execution.admission.set_limit(name, maximum)
            errors.append(f"{error.value} {error.value.hint}")

    rig.at = {0.5: wrong}
    rig.session()
    assert "models.n.concurrency_limit" in errors[0] and "Did you mean" in errors[0]
    assert "cannot be 0" in errors[1]


# Holds.


def test_while_held_nothing_new_starts_and_what_runs_goes_on(tmp_path):
    """Two reasons at once: work starts again when the last is released, at that very moment."""
    actor = Actor(seconds=10.0)
    rig = Rig(tmp_path / "r", simple_task(8), {"m": actor}, settings={"concurrency_limit": 4})
    seen = {}
    rig.at = {
        5.0: hold("pause"),
        6.0: hold("budget"),
        7.0: lambda execution: seen.update(holds=execution.progress.holds()),
        30.0: release("pause"),
        40.0: release("budget"),
    }
    session = rig.session()
    assert [sent_at(actor, second) for second in (0.0, 10.0, 30.0, 40.0)] == [4, 0, 0, 4]
    assert [(held.reason, held.model, held.since) for held in seen["holds"]] == [
        ("pause", "", 1_700_001_005.0),
        ("budget", "", 1_700_001_006.0),
    ]
    assert session.execution.progress.holds() == []
    assert session.ended.exit_code == 0


def test_a_hold_on_one_model_leaves_the_others_alone(tmp_path):
    """Its trials do not start, and take no slot from those of another."""
    actors = {"m": Actor(seconds=1.0), "n": Actor(seconds=1.0)}
    rig = Rig(tmp_path / "r", simple_task(10), actors, settings={"concurrency_limit": 2})
    rig.at = {0.5: hold("breaker", "m"), 50.0: release("breaker", "m")}
    rig.session()
    assert actors["n"].tries[-1][0] - 1000.0 <= 10.0
    assert [moment for moment, _ in actors["m"].tries if 1000.5 < moment < 1050.0] == []
    assert len(rig.ends()) == 20


def test_a_trial_that_is_held_is_idle_and_its_time_limit_does_not_run(tmp_path):
    """Held for an hour between two calls, it has used the time of its two calls."""

    async def twice(trial):
        await trial.generate("one")
        return await trial.generate("two")

    task = Task(name="t", samples=samples(1), solver=twice, scorers=exact(), limits=TrialLimits(time=10.0))
    rig = Rig(tmp_path / "r", task, {"m": Actor(seconds=4.0)})
    idle = []
    rig.at = {
        1.0: hold("pause"),
        100.0: lambda execution: idle.extend(trial.activity.is_idle for trial in execution._runner.running),
        3600.0: release("pause"),
    }
    rig.session()
    assert idle == [True]
    assert rig.statuses() == {"s0": "valid"}


def test_an_interrupt_ends_a_session_that_is_held(tmp_path):
    """Whoever waits for the hold to end is let go; the hold of the interrupt itself is not lifted by anybody."""
    actor = Actor(seconds=1.0)
    rig = Rig(tmp_path / "r", simple_task(5, twice_asked), {"m": actor})
    rig.at = {0.5: hold("pause"), 20.0: interrupt, 20.5: release("drain"), 21.0: release("pause")}
    session = rig.session()
    assert session.seconds == pytest.approx(20.0)
    assert (session.ended.how, actor.calls) == ("interrupted", 5)
    assert [held.reason for held in session.execution.admission.holds()][-1] == "drain"


async def twice_asked(trial):
    await trial.generate("one")
    return await trial.generate("two " + trial.sample.input)


def test_a_lease_in_doubt_holds_everything_until_it_is_renewed(tmp_path, monkeypatch):
    """It is a hold with its own reason; one timer asks for the lease, however many wait."""
    actor = Actor(seconds=10.0)
    rig = Rig(tmp_path / "r", simple_task(20, twice_asked), {"m": actor})
    state, asked, begin = {"held": True}, [], rig.begin

    def begin_watched():
        started = begin()
        monkeypatch.setattr(started.session, "is_held", lambda: asked.append(1) or state["held"])
        return started

    rig.begin = begin_watched
    rig.at = {
        5.0: lambda _: state.update(held=False),
        30.0: lambda execution: state.update(held=True, holds=execution.admission.holds()),
    }
    session = rig.session()
    assert [held.reason for held in state["holds"]] == ["lease"]
    assert session.ended.exit_code == 0
    assert not [moment for moment, _ in actor.tries if 1010.0 <= moment < 1030.0]
    # Twenty trials waited for twenty seconds; the lease was asked for five times a second, by one of them.
    assert len(asked) < 250


def test_a_lease_that_is_lost_while_everything_waits_ends_the_session(tmp_path, monkeypatch):
    """Nobody waits for a lease that will never be held again."""
    rig = Rig(tmp_path / "r", simple_task(4, twice_asked), {"m": Actor(seconds=10.0)})
    state, begin = {"held": True}, rig.begin

    def is_held():
        if state["held"] is None:
            raise RunHeld("lost")
        return state["held"]

    def begin_watched():
        started = begin()
        monkeypatch.setattr(started.session, "is_held", is_held)
        return started

    rig.begin = begin_watched
    rig.at = {5.0: lambda _: state.update(held=False), 30.0: lambda _: state.update(held=None)}
    session = rig.session()
    assert (session.ended.how, session.ended.exit_code) == ("lease lost", 4)
    assert session.seconds < 31.0


def test_after_a_hold_the_rate_limit_is_kept(tmp_path):
    """Those whose turn came before the hold do not all go out when it ends."""
    actor = Actor()
    rig = Rig(tmp_path / "r", simple_task(60), {"m": actor}, {"m": {"rate_limit": {"requests_per_minute": 30}}})
    rig.at = {10.0: hold("pause"), 200.0: release("pause")}
    rig.session()
    after = [moment for moment, _ in actor.tries if 1200.0 <= moment < 1260.0]
    assert 25 <= len(after) <= 30


# Settings.


def changed(**runner):
    def change(execution):
        spec = execution.settings.spec
        execution.settings.change(msgspec.structs.replace(spec, runner=msgspec.structs.replace(spec.runner, **runner)))

    return change


def test_the_grace_period_is_read_when_the_signal_comes(tmp_path):
    """A change before that counts."""
    rig = Rig(tmp_path / "r", simple_task(2), {"m": Actor(seconds=1000.0)}, settings={"grace_period": 500.0})
    rig.at = {5.0: changed(grace_period=3.0), 10.0: interrupt}
    assert rig.session().seconds == pytest.approx(13.0)


def test_the_runs_limit_follows_the_settings(tmp_path):
    """Whoever changes the eval that is in force changes the limits with it."""
    actor = Actor(seconds=10.0)
    rig = Rig(tmp_path / "r", simple_task(20), {"m": actor}, settings={"concurrency_limit": 2})
    rig.at = {5.0: changed(concurrency_limit=8)}
    rig.session()
    assert [sent_at(actor, second) for second in (0.0, 5.0)] == [2, 6]


def test_the_retry_deadline_is_read_when_a_call_is_made(tmp_path):
    """A call that starts after the change has the new deadline."""

    async def behave(request, number):
        raise Unavailable("down")

    async def solve(trial):
        await asyncio.sleep(10.0)
        return await trial.generate("x")

    def change(execution):
        spec = execution.settings.spec
        runner = msgspec.structs.replace(spec.tasks["t"].runner, retry_deadline=50.0)
        task = msgspec.structs.replace(spec.tasks["t"], runner=runner)
        execution.settings.change(msgspec.structs.replace(spec, tasks={"t": task}))

    rig = Rig(tmp_path / "r", simple_task(1, solve), {"m": Actor(behave)}, settings={"retry_deadline": 3600.0})
    rig.at = {5.0: change}
    assert rig.session().seconds < 100.0


def test_a_rate_limit_is_changed_while_calls_wait_for_it(tmp_path):
    """Who waits for the slow rate goes out at the quick one from then on."""
    actor = Actor()
    rig = Rig(tmp_path / "r", simple_task(30), {"m": actor}, {"m": {"rate_limit": {"requests_per_minute": 1}}})

    def change(execution):
        spec = execution.settings.spec
        model = msgspec.structs.replace(spec.models["m"], rate_limit=RateLimit(600, None))
        execution.settings.change(msgspec.structs.replace(spec, models={"m": model}))

    rig.at = {100.0: change}
    session = rig.session()
    assert sum(1 for moment, _ in actor.tries if moment < 1100.0) == 2
    assert session.seconds < 110.0


# The tally.


def test_the_tally_has_what_is_in_flight_reserved_and_spent(tmp_path):
    """Reserved while it is in flight, spent once its reply is durable, by model and in all."""
    actors = {
        "m": Actor(lambda *_: reply(5.0, (7, 3))),
        "n": Actor(lambda *_: reply(9.0, (1, 1))),
    }
    rig = Rig(tmp_path / "r", simple_task(3), actors)
    seen = []

    def look(execution):
        tally = execution.progress.tally
        seen.append((tally.in_flight, tally.of("m").in_flight, tally.reserved > 0, tally.spent, tally.of("n").spent))

    rig.at = {1.0: look, 6.0: look, 8.0: look}
    session = rig.session()
    assert seen[0] == (6, 3, True, Usage(), Usage())
    assert seen[1] == (3, 0, True, Usage(21, 9), Usage())
    tally = session.execution.progress.tally
    assert (tally.in_flight, tally.spent, tally.of("n").spent) == (0, Usage(24, 12), Usage(3, 3))
    assert tally.reserved == pytest.approx(0.0)
    assert session.execution.progress.usage == Usage(24, 12)


async def reply(seconds, tokens):
    await asyncio.sleep(seconds)
    return said("Q", tokens)


# The mark.


@pytest.mark.parametrize(("limit", "planned", "expected"), [(256, 1000, 16), (4, 1000, 4), (256, 3, 3), (1, 0, 1)])
def test_the_first_mark_is_at_most_sixteen_and_no_more_than_plain_trials_need(limit, planned, expected):
    """One call at a time in each trial never needs a higher one."""
    assert first_mark(limit, planned) == expected


def marks(rig: Rig) -> list[int]:
    return [record.calls for record in rig.records(MarkRecord)]


@pytest.mark.parametrize(("limit", "expected"), [(8, []), (16, []), (64, [32, 64]), (100, [32, 100]), (256, [32, 256])])
def test_the_mark_is_raised_a_few_times_at_most(tmp_path, limit, expected):
    """It doubles, or is raised to what those who wait need, and stays within what plain trials can have in flight."""
    actor = Actor(seconds=10.0)
    rig = Rig(tmp_path / "r", simple_task(300), {"m": actor}, settings={"concurrency_limit": limit})
    rig.session()
    assert actor.most_active == limit
    assert [record.mark for record in rig.records(SessionRecord)] == [min(16, limit)]
    assert marks(rig) == expected


def test_trials_with_several_calls_at_once_raise_it_too(tmp_path):
    """Ten calls of one trial, where a plain one would have had one."""

    async def many(trial):
        replies = await asyncio.gather(*(trial.generate(f"{number}") for number in range(10)))
        return replies[0]

    rig = Rig(tmp_path / "r", simple_task(1, many), {"m": Actor(seconds=1.0)})
    rig.session()
    assert marks(rig)[-1] >= 10
    assert rig.status().calls.in_flight_at_kill == 0


def test_a_killed_session_has_its_mark_as_the_bound(tmp_path):
    """Its last mark, whatever of its calls is on record; an ended one has what it gave up."""
    rig = Rig(tmp_path / "r", simple_task(100), {"m": Actor(seconds=10.0)}, settings={"concurrency_limit": 40})
    rig.killed_session(15.0)
    assert rig.status().sessions[0].in_flight_at_kill == 40
    rig.at = {15.0: interrupt}
    rig.session()
    assert [session.in_flight_at_kill for session in rig.status().sessions] == [40, 0]


def test_a_call_that_waits_for_a_retry_is_counted(tmp_path):
    """It was sent and has no end on record; so are calls that failed until that is durable."""

    async def behave(request, number):
        raise RateLimited("later", retry_after=100.0)

    rig = Rig(tmp_path / "r", simple_task(30, ask), {"m": Actor(behave)}, settings={"concurrency_limit": 20})
    seen = []
    rig.at = {50.0: lambda execution: seen.append(execution.admission.tally.in_flight), 60.0: interrupt}
    rig.session()
    assert seen == [20]
    assert marks(rig) == [20]
