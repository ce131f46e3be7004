"""The four limits, measured over virtual time: how many are running, and that nobody starves or leaks."""

from __future__ import annotations

import asyncio

import pytest

from engine.rig import Actor, Rig, ask, interrupt, said, samples, simple_task
from engine.virtual import VirtualLoop, run_virtually, seeded
from holdfast import Task, exact, scorer
from holdfast.engine.scheduling.capacity import CapacityGrant, CapacityPool
from holdfast.engine.scheduling.clock import RealClock
from holdfast.engine.scheduling.concurrency_limits import Limit
from holdfast.engine.scheduling.holds import Holds
from holdfast.engine.scheduling.scheduler import Scheduler, TrialQueue
from holdfast.errors import RunDamaged


class Gauge:
    """How many are in a place at once, over time."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.spans: list[tuple[float, float]] = []

    async def stay(self, seconds: float) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        began = asyncio.get_running_loop().time()
        try:
            await asyncio.sleep(seconds)
        finally:
            self.now -= 1
            self.spans.append((began, asyncio.get_running_loop().time()))

    @property
    def end(self) -> float:
        return max(span[1] for span in self.spans) - 1000.0

    def busy_seconds(self) -> float:
        return sum(after - before for before, after in self.spans)


def slow_scorer(gauge: Gauge, seconds: float):
    async def judged(answer, sample):
        await gauge.stay(seconds)
        return True

    return scorer(judged)


def working(gauge: Gauge, seconds: float):
    """A solver that asks nobody and takes its time."""

    async def solve(trial):
        await gauge.stay(seconds)
        return "done"

    return solve


def test_the_runs_limit_is_reached_and_never_passed(tmp_path):
    """Exactly as many trials as allowed are running until none is left to start."""
    actor = Actor(seconds=10.0)
    session = Rig(tmp_path / "r", simple_task(100), {"m": actor}, settings={"concurrency_limit": 8}).session()
    assert actor.most_active == 8
    assert session.seconds == pytest.approx(130.0)


def test_a_capped_task_never_keeps_another_from_its_slots(tmp_path):
    """A slow task with one slot leaves three of four to the others, all the time."""
    slow, fast = Gauge(), Gauge()
    tasks = [
        simple_task(20, working(slow, 100.0), name="slow"),
        simple_task(300, working(fast, 1.0), name="fast"),
    ]
    settings = {"concurrency_limit": 4, "tasks": {"slow": {"concurrency_limit": 1}}}
    rig = Rig(tmp_path / "r", tasks, settings=settings)
    session = rig.session()
    assert (slow.most, fast.most) == (1, 3)
    assert fast.end == pytest.approx(100.0)
    assert session.seconds == pytest.approx(2000.0)


def test_a_capped_model_never_keeps_another_from_the_runs_slots(tmp_path):
    """A model that takes one call at a time leaves the rest of the run to the other."""
    actors = {"narrow": Actor(seconds=100.0), "wide": Actor(seconds=1.0)}
    models = {"narrow": {"concurrency_limit": 1}}
    rig = Rig(tmp_path / "r", simple_task(60), actors, models, settings={"concurrency_limit": 4})
    rig.session()
    assert actors["narrow"].most_active == 1
    assert actors["wide"].tries[-1][0] - 1000.0 <= 20.0


def test_a_models_slot_is_free_again_when_the_reply_is_complete(tmp_path):
    """While trials do other things than asking, the model goes on with the next ones and never stands idle."""
    actor = Actor(seconds=1.0)

    async def twice(trial):
        await trial.generate(trial.sample.input)
        await asyncio.sleep(5.0)
        return await trial.generate("again " + trial.sample.input)

    rig = Rig(tmp_path / "r", simple_task(40, twice), {"m": actor}, {"m": {"concurrency_limit": 2}})
    session = rig.session()
    assert actor.most_active == 2
    assert actor.calls == 80
    assert session.seconds == pytest.approx(40.0, abs=7.0)


def test_a_provider_knows_how_much_it_can_take(tmp_path):
    """A limit that comes with the provider bounds its trials as one in the eval does."""
    narrow = Actor(seconds=50.0)
    narrow.concurrency_limit = 1
    actors = {"narrow": narrow, "wide": Actor(seconds=1.0)}
    rig = Rig(tmp_path / "r", simple_task(30), actors, settings={"concurrency_limit": 2})
    rig.session()
    assert narrow.most_active == 1
    assert actors["wide"].tries[-1][0] - 1000.0 <= 30.0


def test_stage_limits_hold_and_a_trial_that_waits_to_be_scored_holds_nothing(tmp_path):
    """With one scorer at a time the solvers go on at full width; nobody waits with slots in hand."""
    solving, scoring = Gauge(), Gauge()
    task = Task(name="t", samples=samples(24), solver=working(solving, 1.0), scorers=slow_scorer(scoring, 2.0))
    settings = {"concurrency_limit": 100, "concurrency_limits": {"solve": 6, "score": 1}}
    session = Rig(tmp_path / "r", task, settings=settings).session()
    assert (solving.most, scoring.most) == (6, 1)
    assert solving.end == pytest.approx(4.0)
    assert session.seconds == pytest.approx(1.0 + 24 * 2.0)


def test_a_task_that_waits_to_be_scored_keeps_no_other_task_from_starting(tmp_path):
    """However many of its trials wait, the other task runs as if it were alone."""
    scoring, other = Gauge(), Gauge()
    tasks = [
        Task(name="judged", samples=samples(40), solver=ask, scorers=slow_scorer(scoring, 100.0)),
        simple_task(40, working(other, 1.0), name="other"),
    ]
    settings = {"concurrency_limit": 4, "tasks": {"judged": {"concurrency_limits": {"score": 1}}}}
    Rig(tmp_path / "r", tasks, settings=settings).session()
    assert other.end <= 40.0
    assert scoring.most == 1


def test_running_trials_are_bounded_though_they_hold_no_slot(tmp_path):
    """Trials that wait to be scored are not started without end."""
    scoring, started = Gauge(), []

    async def solve(trial):
        started.append(asyncio.get_running_loop().time())
        return "done"

    task = Task(name="t", samples=samples(200), solver=solve, scorers=slow_scorer(scoring, 10.0))
    settings = {"concurrency_limit": 16, "concurrency_limits": {"score": 1}}
    Rig(tmp_path / "r", task, settings=settings).session()
    assert sum(1 for moment in started if moment == started[0]) == 16


def test_queues_take_turns(tmp_path):
    """Of two tasks and two models all four are running from the beginning."""
    actors = {"a": Actor(seconds=10.0), "b": Actor(seconds=10.0)}
    tasks = [simple_task(50, name="x"), simple_task(50, name="y")]
    rig = Rig(tmp_path / "r", tasks, actors, settings={"concurrency_limit": 8})
    rig.session()
    first = sorted((end.task, end.model) for end in rig.ends()[:8])
    assert first == sorted([("x", "a"), ("x", "b"), ("y", "a"), ("y", "b")] * 2)


def random_limits(rng):
    limits = [Limit(f"limit {number}", rng.choice([1, 2, 3, None])) for number in range(6)]
    kinds = [tuple(rng.sample(limits, rng.randint(1, 4))) for _ in range(4)]
    return limits, kinds


@pytest.mark.parametrize("seed", range(40))
def test_no_schedule_of_waiting_working_and_cancelling_leaks_a_slot(seed):
    """Whenever trials are cancelled, while they wait, work or change their stage, every slot comes back."""
    rng = seeded(seed)
    limits, kinds = random_limits(rng)
    capacity = CapacityPool(lambda: None)
    finished = []

    async def trial(number):
        grant = CapacityGrant(capacity, ())
        try:
            for _ in range(rng.randint(1, 4)):
                await grant.change(rng.choice(kinds))
                assert all(limit.maximum is None or limit.in_use <= limit.maximum for limit in limits)
                await asyncio.sleep(rng.choice([0.0, 0.5, 1.0]))
            finished.append(number)
        finally:
            grant.release()

    async def schedule():
        tasks = [asyncio.ensure_future(trial(number)) for number in range(30)]
        doomed = rng.sample(tasks, 15)
        for task in doomed:
            await asyncio.sleep(rng.choice([0.0, 0.0, 0.5, 1.0]))
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtually(schedule())
    assert len(finished) >= 15
    assert [limit.in_use for limit in limits] == [0] * len(limits)
    assert not capacity._waiting


@pytest.mark.parametrize("seed", range(25))
def test_a_session_that_is_stopped_at_any_moment_gives_every_slot_back(tmp_path, seed):
    """Stage limits, model limits, retries and random interrupts: at the end nothing is taken and nobody is left."""
    rng = seeded(seed)

    async def behave(request, number):
        await asyncio.sleep(rng.choice([0.0, 0.3, 2.0]))
        return said("Q")

    async def judged(answer, sample):
        await asyncio.sleep(rng.choice([0.0, 0.7]))
        return True

    async def branches(trial):
        replies = await asyncio.gather(*(trial.generate(f"{trial.sample.input} {side}") for side in "abc"))
        return replies[0]

    task = Task(name="t", samples=samples(30), solver=branches, scorers=scorer(judged))
    settings = {
        "concurrency_limit": 6,
        "concurrency_limits": {"score": 2},
        "grace_period": rng.choice([0.0, 0.5, 30.0]),
    }
    rig = Rig(tmp_path / "r", task, {"m": Actor(behave)}, {"m": {"concurrency_limit": 4}}, settings)
    moment = rng.uniform(0.0, 12.0)
    rig.at = {moment: interrupt}
    if rng.random() < 0.5:
        rig.at[moment + rng.uniform(0.0, 2.0)] = interrupt
    session = rig.session()
    scheduler, runner = session.execution._scheduler, session.execution._runner
    limits = {limit for group in runner._environment.score_limits.values() for limit in group}
    limits |= {scheduler._run_limit, *(model.limit for model in runner._models.values())}
    assert all(limit.in_use == 0 for limit in limits), [(limit.name, limit.in_use) for limit in limits]
    assert not scheduler.tasks and not runner.running and not scheduler.capacity._waiting
    tally = session.execution.admission.tally
    assert (tally.in_flight, session.execution.admission._mark.in_flight) == (0, 0)
    assert tally.reserved == pytest.approx(0.0)
    assert session.execution.progress.active == 0
    assert rig.is_sound()
    assert rig.session().ended.exit_code == 0
    assert len(rig.ends()) == 30


def test_a_trial_cancelled_between_its_slot_and_its_first_step_gives_it_back():
    """A session that stops in the moment a trial was let in leaves nothing taken."""
    run_limit = Limit("run", 2)

    async def schedule():
        scheduler = Scheduler(run_limit, Holds(RealClock()))
        scheduler.add(TrialQueue(iter(range(10)), (run_limit,), Limit("active", 2)))

        async def run_trial(trial, grant):
            await asyncio.sleep(1.0)

        running = asyncio.ensure_future(scheduler.run(run_trial))
        await asyncio.sleep(0)
        scheduler.cancel()
        await running
        assert not scheduler.tasks

    run_virtually(schedule(), VirtualLoop())
    assert run_limit.in_use == 0


def test_an_error_of_the_plan_itself_ends_the_session_and_leaves_nobody_behind(tmp_path):
    """A dataset that can no longer be read is told, and the run is let go for the next session."""

    async def behave(request, number):
        await asyncio.sleep(50.0 if request.messages[-1].content == "q2" else 1.0)
        return said("Q")

    actor = Actor(behave)
    rig = Rig(tmp_path / "r", Task(name="t", samples=samples(8), solver=ask, scorers=exact()), {"m": actor})
    rig.settings = {"concurrency_limit": 2}
    begin = rig.begin

    def begin_damaged():
        started = begin()
        dataset = started.prepared.tasks[0].dataset

        def keyed_row(position):
            if position == 5:
                raise RunDamaged("Row 6 of the dataset cannot be read any more.")
            return type(dataset).keyed_row(dataset, position)

        dataset.keyed_row = keyed_row
        return started

    rig.begin = begin_damaged
    with pytest.raises(RunDamaged, match="Row 6"):
        rig.session()
    assert (actor.cancelled, actor.closed) == (1, 1)
    rig.begin = begin
    assert rig.session().ended.exit_code == 0
    assert rig.is_sound()
