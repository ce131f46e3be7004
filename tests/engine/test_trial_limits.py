"""What one trial may take: seconds of its own, tokens, money; and what repetitions are asked with."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from engine.rig import Actor, Rig, State, ask, said, simple_task
from holdfast.models.errors import RateLimited
from holdfast.run.core.records import ScoreRecord, Status
from holdfast.spec import TrialLimits


def limited_task(solve, count: int = 1, **limits):
    return simple_task(count, solve, limits=TrialLimits(**limits))


def is_limited(rig: Rig, limit: str) -> bool:
    """Whether the only trial is kept as limited, unscored, and not tried again by a further session."""
    (end,) = rig.ends()
    assert (end.status, end.limit, end.scores, end.error) == (Status.LIMITED, limit, {}, None)
    assert rig.records(ScoreRecord) == []
    report = rig.report()
    assert (report.coverage.limited, report.coverage.remaining, report.complete) == (1, 0, True)
    before = sum(actor.calls for actor in rig.actors.values())
    assert rig.session().ended.exit_code == 0
    assert sum(actor.calls for actor in rig.actors.values()) == before
    return True


def test_time_limits_a_trial(tmp_path):
    """A solver that takes longer is stopped; the trial is kept, without a score, and the run can be complete."""
    actor = Actor(seconds=100.0)
    rig = Rig(tmp_path / "r", limited_task(ask, time=30.0), {"m": actor})
    session = rig.session()
    assert session.ended.exit_code == 0
    assert session.seconds == pytest.approx(30.0)
    assert is_limited(rig, "time")


def test_waiting_for_others_takes_nothing_of_a_trials_time(tmp_path):
    """Slots, rates and 429 are none of the trial's doing: ten trials in a row all stay within their limit."""

    async def behave(request, number):
        await asyncio.sleep(8.0)
        if number == 1:
            raise RateLimited("wait", retry_after=500.0)
        return said("Q")

    rate = {"m": {"concurrency_limit": 1, "rate_limit": {"requests_per_minute": 2}}}
    rig = Rig(tmp_path / "r", limited_task(ask, 10, time=20.0), {"m": Actor(behave)}, rate)
    session = rig.session()
    assert session.seconds > 500.0
    assert set(rig.statuses().values()) == {"valid"}


def test_time_counts_while_any_branch_is_at_work(tmp_path):
    """A branch that waits does not stop the clock for one that asks."""

    async def solve(trial):
        await asyncio.gather(trial.generate("a"), trial.generate("b"))
        return "x"

    rig = Rig(
        tmp_path / "r", limited_task(solve, time=15.0), {"m": Actor(seconds=10.0)}, {"m": {"concurrency_limit": 1}}
    )
    assert rig.session().seconds == pytest.approx(15.0)
    assert is_limited(rig, "time")


@pytest.mark.parametrize(
    "swallow", [TimeoutError, asyncio.CancelledError, BaseException], ids=lambda kind: kind.__name__
)
def test_a_time_limit_cannot_be_swallowed(tmp_path, swallow):
    """A solver that hides the end of its time and answers is limited all the same."""

    async def solve(trial):
        with contextlib.suppress(swallow):
            await asyncio.sleep(1_000.0)
        return "an answer all the same"

    rig = Rig(tmp_path / "r", limited_task(solve, time=5.0))
    rig.session()
    assert is_limited(rig, "time")


def test_a_solver_that_fails_while_it_is_stopped_is_limited(tmp_path):
    """What happens in its last moments is not what decided."""

    async def solve(trial):
        try:
            await asyncio.sleep(1_000.0)
        finally:
            raise ValueError("while leaving")

    rig = Rig(tmp_path / "r", limited_task(solve, time=5.0))
    rig.session()
    assert is_limited(rig, "time")


def test_a_timeout_of_the_solvers_own_is_its_own_error(tmp_path):
    """Only the trial's limit limits the trial."""

    async def solve(trial):
        async with asyncio.timeout(1.0):
            await asyncio.sleep(10.0)

    rig = Rig(tmp_path / "r", limited_task(solve, time=100.0), settings={"max_retries": 0})
    rig.session()
    assert rig.ends()[0].status is Status.FAILED


@pytest.mark.parametrize(("limits", "name"), [({"tokens": 100}, "tokens"), ({"cost": 1.0}, "cost")])
def test_tokens_and_cost_limit_a_trial_and_nothing_is_paid_after_that(tmp_path, limits, name):
    """The call that goes beyond the limit is the last, also for a solver that catches the error and asks on."""

    async def solve(trial):
        for number in range(20):
            with contextlib.suppress(Exception):
                await trial.generate(f"ask {number}")
        return "as if nothing had happened"

    async def behave(request, number):
        return said("Q", (20, 10))

    actor = Actor(behave)
    price = {"m": {"price": {"input": 1e4, "output": 1e4}}}
    rig = Rig(tmp_path / "r", limited_task(solve, **limits), {"m": actor}, price)
    rig.session()
    assert actor.calls == 4
    assert is_limited(rig, name)
    assert rig.report().usage.input_tokens == 80


def test_a_limit_is_reached_by_replayed_replies_as_by_live_ones(tmp_path):
    """A resumed trial has used what it used."""
    actor, state = Actor(), State(True)

    async def solve(trial):
        await trial.generate("one")
        await trial.generate("two")
        if state.value:
            await asyncio.sleep(1_000.0)
        await trial.generate("three")
        return "never"

    rig = Rig(tmp_path / "r", limited_task(solve, tokens=5), {"m": actor})
    rig.killed_session(10.0)
    state.value = False
    rig.session()
    assert actor.calls == 3
    assert is_limited(rig, "tokens")


def test_epochs_with_a_seed_are_draws_of_their_own(tmp_path):
    """Epoch e is asked with the seed plus e - 1; without a seed nothing is sent."""
    actors = {"seeded": Actor(), "plain": Actor()}
    models = {"seeded": {"generation": {"seed": 41, "temperature": 0.5}}}
    rig = Rig(tmp_path / "r", simple_task(2, epochs=3), actors, models)
    rig.session()
    seeds = sorted(request.generation.seed for request in actors["seeded"].requests)
    assert seeds == [41, 41, 42, 42, 43, 43]
    assert {request.generation.temperature for request in actors["seeded"].requests} == {0.5}
    assert {request.generation.seed for request in actors["plain"].requests} == {None}


def test_a_solvers_own_seed_stands(tmp_path):
    """What a solver asks for explicitly is what is sent."""

    async def solve(trial):
        return await trial.generate("x", seed=trial.seed % 1000, temperature=0.0)

    actor = Actor()
    rig = Rig(tmp_path / "r", simple_task(1, solve, epochs=2), {"m": actor}, {"m": {"generation": {"seed": 1}}})
    rig.session()
    seeds = [request.generation.seed for request in actor.requests]
    assert len(set(seeds)) == 2 and 1 not in seeds


def test_a_trials_seed_is_its_own_and_the_same_in_every_session(tmp_path):
    """It depends on the eval's seed and the trial, and on nothing else."""
    seen: dict[int, dict] = {}

    async def solve(trial):
        seen.setdefault(number.value, {})[trial.sample.id, trial.epoch] = trial.seed
        return "x"

    number = State(0)
    for number.value, seed in enumerate([1, 1, 2]):
        Rig(tmp_path / str(number.value), simple_task(5, solve, epochs=2), settings={"seed": seed}).session()
    assert seen[0] == seen[1] != seen[2]
    assert len(set(seen[0].values())) == 10


@pytest.mark.parametrize("given", [{"temprature": 1.0}, {"temperature": "hot"}, {"max_tokens": -1}])
def test_a_wrong_generation_parameter_is_told(tmp_path, given):
    """The attempt fails with the name of what is wrong; nothing is sent."""

    async def solve(trial):
        return await trial.generate("x", **given)

    actor = Actor()
    rig = Rig(tmp_path / "r", simple_task(1, solve), {"m": actor}, settings={"max_retries": 0})
    rig.session()
    (end,) = rig.ends()
    assert end.status is Status.FAILED and next(iter(given)) in end.error.message
    if "temprature" in given:
        assert "Did you mean 'temperature'?" in end.error.message
    assert actor.calls == 0
