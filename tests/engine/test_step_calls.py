"""Steps with keyword arguments, steps that may not run twice, and recorded time and chance."""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from functools import partial

import pytest

from engine.rig import Rig, Solver, State, interrupt, simple_task
from holdfast import scorer
from holdfast.run.core.records import CallRecord, Status, StepRecord

KILL = 50.0


class Waiter(State):
    """A solver that works, and waits for a kill in its first session."""

    def __init__(self, work) -> None:
        super().__init__(work)
        self.is_stopped = True
        self.results: list = []

    async def __call__(self, trial):
        self.results.append(await self.value(trial))
        if self.is_stopped:
            await asyncio.sleep(10_000.0)
        return "done"


def killed_and_resumed(tmp_path, work, **options) -> tuple[Waiter, Rig]:
    solver = Waiter(work)
    rig = Rig(tmp_path / "r", simple_task(1, solver), **options)
    rig.killed_session(KILL)
    solver.is_stopped = False
    rig.session()
    assert rig.is_sound()
    return solver, rig


# Keyword arguments.


def test_steps_6_keyword_arguments_are_part_of_the_fingerprint(tmp_path):
    """Other values are another step; their order is not; without any the key is what it always was."""
    ran = []

    def work_on(*args, **kwargs):
        ran.append((args, kwargs))
        return [list(args), kwargs]

    async def work(trial):
        step = partial(trial.step, "s", work_on)
        return [
            await step(1),
            await step(1, depth=2, mode="x"),
            await step(1, mode="x", depth=2),
            await step(1, depth=3),
            await step([1], {"depth": 3}),
        ]

    solver, rig = killed_and_resumed(tmp_path, work)
    assert len(ran) == 5 and solver.results[0] == solver.results[1]
    keys = [step.step for step in rig.records(StepRecord)]
    # The key that a step without keyword arguments has had since the first version.
    assert keys[0] == "step/s:f39d3dd891df96222a27b76b#1"
    assert [key.rpartition("#")[2] for key in keys] == ["1", "1", "2", "1", "1"]
    assert len({key.partition("#")[0] for key in keys}) == 4


def test_steps_6_the_names_of_a_steps_own_parameters_are_free_for_the_function(tmp_path):
    """`name` and `function` given by name go to the function, in scopes too."""

    def work_on(name, function="f"):
        return [name, function]

    async def work(trial):
        return [
            await trial.step("s", work_on, name="n", function="g"),
            await trial.scope("part").step("s", work_on, name="n"),
        ]

    solver, _ = killed_and_resumed(tmp_path, work)
    assert solver.results[0] == solver.results[1] == [["n", "g"], ["n", "f"]]


def with_option(on_interrupted="mine"):
    return on_interrupted


@pytest.mark.parametrize(
    ("function", "chosen"), [(print, "never"), (print, None), (print, ["fail"]), (with_option, "fail")]
)
def test_steps_6_an_option_that_is_meant_for_the_function_is_refused(tmp_path, function, chosen):
    """`on_interrupted` belongs to the step; the error names it and the way out."""

    async def work(trial):
        return await trial.step("deploy", function, on_interrupted=chosen)

    rig = Rig(tmp_path / "r", simple_task(1, Solver(work)), settings={"max_retries": 0})
    rig.session()
    (end,) = rig.ends()
    assert end.status is Status.FAILED and "on_interrupted of the step 'deploy'" in end.error.message
    assert "functools.partial" in end.error.message and rig.records(StepRecord) == []


def test_steps_6_what_cannot_be_recorded_among_keyword_arguments_is_named(tmp_path):
    """As for any other argument."""

    async def work(trial):
        return await trial.step("s", print, sep=object())

    rig = Rig(tmp_path / "r", simple_task(1, Solver(work)), settings={"max_retries": 0})
    rig.session()
    assert rig.ends()[0].error.message.startswith("The arguments of the step 's' ")


# Steps that may not run twice.


class Deploy(State):
    """A solver with one step that takes long, and must not run twice."""

    def __init__(self, *, catches: bool = False, in_scope: bool = False, seconds: float = 1_000.0) -> None:
        super().__init__(None)
        self.ran: list[str] = []
        self.catches, self.in_scope, self.seconds = catches, in_scope, seconds

    async def deploy(self, target):
        self.ran.append(target)
        if len(self.ran) == 1:
            await asyncio.sleep(self.seconds)
        return target

    async def __call__(self, trial):
        handle = trial.scope("part") if self.in_scope else trial
        try:
            await handle.step("deploy", self.deploy, "prod", on_interrupted="fail")
        except Exception:
            if not self.catches:
                raise
        return "done"


@pytest.mark.parametrize("catches", [False, True])
@pytest.mark.parametrize("in_scope", [False, True])
def test_steps_7_a_step_killed_half_way_fails_the_attempt(tmp_path, catches, in_scope):
    """It is not run again, neither in this attempt nor by a retry, also where the solver catches the error."""
    solver = Deploy(catches=catches, in_scope=in_scope)
    rig = Rig(tmp_path / "r", simple_task(1, solver), settings={"max_retries": 2})
    rig.killed_session(KILL)
    (started,) = rig.records(StepRecord)
    assert started.has_only_started and started.about is not None
    rig.session()
    (end,) = rig.ends()
    assert solver.ran == ["prod"] and end.status is Status.FAILED
    assert "The step 'deploy' was interrupted half-way" in end.error.message
    assert rig.is_sound()
    rig.redo = "status=failed"
    rig.session()
    assert solver.ran == ["prod", "prod"] and rig.ends()[-1].status is Status.VALID


def test_steps_7_whatever_the_solver_makes_of_the_error_the_step_decides(tmp_path):
    """An error of the solver's own does not lead to a retry, which would run the function again."""
    ran = []

    async def deploy():
        ran.append(1)
        await asyncio.sleep(1_000.0)

    async def work(trial):
        try:
            await trial.step("deploy", deploy, on_interrupted="fail")
        except Exception:  # noqa: BLE001 - as people do
            raise ValueError("could not deploy") from None

    rig = Rig(tmp_path / "r", simple_task(1, Solver(work)), settings={"max_retries": 2})
    rig.killed_session(KILL)
    rig.session()
    (end,) = rig.ends()
    assert ran == [1] and end.error.kind == "StepInterrupted" and "'deploy'" in end.error.message


def test_steps_7_a_scorer_may_ask_for_it_too(tmp_path):
    """The slot fails, is not retried, and can be attempted again by a person."""
    ran = State([])

    async def grade():
        ran.value.append(1)
        if len(ran.value) == 1:
            await asyncio.sleep(1_000.0)
        return 1.0

    async def judge(answer, sample, scope):
        try:
            return await scope.step("grade", grade, on_interrupted="fail")
        except Exception:  # noqa: BLE001 - as people do
            return 0.0

    task = simple_task(1, score=scorer(judge))
    rig = Rig(tmp_path / "r", task, settings={"max_retries": 2})
    rig.killed_session(KILL)
    rig.session()
    assert ran.value == [1] and "'grade'" in rig.ends()[-1].error.message
    rig.redo = "status=failed"
    rig.session()
    assert ran.value == [1, 1] and rig.ends()[-1].status is Status.VALID and rig.is_sound()


def test_steps_6_an_option_of_the_functions_own_can_be_bound_before(tmp_path):
    """As the error says."""

    async def work(trial):
        mine = partial(with_option, on_interrupted="theirs")
        return await trial.step("deploy", mine, on_interrupted="fail")

    solver, _ = killed_and_resumed(tmp_path, work)
    assert solver.results == ["theirs", "theirs"]


def test_steps_7_a_step_that_has_ended_is_replayed(tmp_path):
    """Its start is on record beside its result, and only the result counts."""

    async def work(trial):
        return await trial.step("deploy", str.upper, "prod", on_interrupted="fail")

    solver, rig = killed_and_resumed(tmp_path, work)
    assert solver.results == ["PROD", "PROD"]
    assert [step.has_only_started for step in rig.records(StepRecord)] == [True, False]
    assert rig.records(CallRecord) == [] and rig.ends()[-1].replayed == 1


def test_steps_7_a_step_that_raised_is_replayed(tmp_path):
    """An exception is an outcome."""
    ran = []

    def deploy():
        ran.append(1)
        raise ValueError("no")

    async def work(trial):
        try:
            await trial.step("deploy", deploy, on_interrupted="fail")
        except ValueError as error:
            return str(error)

    solver, _ = killed_and_resumed(tmp_path, work)
    assert solver.results == ["no", "no"] and len(ran) == 1


def test_steps_7_a_signal_in_the_middle_counts_as_an_interrupt(tmp_path):
    """After Ctrl-C nobody knows how far the function got."""
    solver = Deploy(seconds=10.0)
    rig = Rig(tmp_path / "r", simple_task(1, solver), at={5.0: interrupt})
    rig.session()
    rig.session()
    assert solver.ran == ["prod"] and rig.ends()[-1].status is Status.FAILED


def test_steps_7_the_other_kind_writes_nothing_before_it_runs(tmp_path):
    """A step that may run again leaves no record until it has an outcome."""
    ran = []

    async def slow():
        ran.append(1)
        if len(ran) == 1:
            await asyncio.sleep(1_000.0)
        return "x"

    async def work(trial):
        return await trial.step("slow", slow, on_interrupted="again")

    rig = Rig(tmp_path / "r", simple_task(1, Solver(work)))
    rig.killed_session(KILL)
    assert rig.records(StepRecord) == []
    rig.session()
    assert len(ran) == 2


def test_steps_7_a_branch_that_is_numbered_otherwise_does_not_run_it_again(tmp_path):
    """Another Python may start the tasks of a solver in another order."""
    ran, times = [], [0]

    async def deploy():
        ran.append(1)
        await asyncio.sleep(1_000.0)

    async def branch(trial):
        return await trial.step("deploy", deploy, on_interrupted="fail")

    async def nothing():
        return None

    async def work(trial):
        times[0] += 1
        first = [asyncio.create_task(nothing())] if times[0] == 2 else []
        await asyncio.gather(*first, asyncio.create_task(branch(trial)))

    rig = Rig(tmp_path / "r", simple_task(1, Solver(work)), settings={"max_retries": 0})
    rig.killed_session(KILL)
    rig.session()
    assert ran == [1] and "'deploy'" in rig.ends()[-1].error.message


def test_steps_7_another_step_of_that_name_runs(tmp_path):
    """Only what was asked with the same arguments is taken for the one that was interrupted."""
    ran, times = [], [0]

    async def deploy(target):
        ran.append(target)
        if target == "b" and len(ran) == 2:
            await asyncio.sleep(1_000.0)
        return target

    async def work(trial):
        times[0] += 1
        for target in ("a", "b") if times[0] == 1 else ("a", "c"):
            await trial.step("deploy", deploy, target, on_interrupted="fail")

    rig = Rig(tmp_path / "r", simple_task(1, Solver(work)), settings={"max_retries": 0})
    rig.killed_session(KILL)
    rig.session()
    assert ran == ["a", "b", "c"]


# Time and chance.


async def draws(trial):
    scope = trial.scope("part")
    first = [await trial.now(), await trial.random(), await trial.uuid()]
    await asyncio.sleep(1.0)
    return [
        *first,
        await trial.now(),
        await trial.random(),
        await trial.uuid(),
        await scope.random(),
        await scope.uuid(),
    ]


def test_steps_8_time_and_chance_are_the_same_after_a_resume(tmp_path):
    """Each draw is another one, and each comes back as itself, with its type."""
    solver, rig = killed_and_resumed(tmp_path, draws)
    assert solver.results[0] == solver.results[1]
    now, number, name, later, other_number, other_name, *_ = solver.results[1]
    assert isinstance(now, dt.datetime) and now.utcoffset() == dt.timedelta(0) and now < later
    assert isinstance(name, uuid.UUID) and name.version == 4
    assert 0.0 <= number < 1.0 and number != other_number and name != other_name
    assert len(rig.records(StepRecord)) == 8


def test_steps_8_a_step_of_the_persons_own_may_be_called_so(tmp_path):
    """`trial.step("now", …)` and `trial.now()` do not get each other's results."""

    async def work(trial):
        return [await trial.step("random", str, 3), await trial.random()]

    solver, _ = killed_and_resumed(tmp_path, work)
    assert solver.results[0] == solver.results[1] and solver.results[0][0] == "3"


def test_steps_8_chance_of_a_deterministic_eval_follows_its_seed(tmp_path):
    """Two runs of it draw the same, and two places in a trial do not."""
    drawn = []

    async def work(trial):
        drawn.append([await trial.random(), await trial.random(), await trial.uuid(), await trial.scope("a").random()])
        return "done"

    for name in ("a", "b"):
        Rig(tmp_path / name / "r", simple_task(1, Solver(work)), settings={"deterministic": True, "seed": 3}).session()
    assert drawn[0] == drawn[1] and len(set(drawn[0])) == 4


# Inside a step.


@pytest.mark.parametrize("what", ["generate", "step", "scope", "now", "random", "uuid", "held"])
@pytest.mark.parametrize("is_async", [True, False])
def test_steps_9_nothing_of_the_trial_may_be_used_inside_a_step(tmp_path, what, is_async):
    """The error names the call and the step that it was made in."""
    calls = {
        "generate": lambda trial, _: trial.generate("x"),
        "step": lambda trial, _: trial.step("inner", str),
        "scope": lambda trial, _: trial.scope("inner").generate("x"),
        "now": lambda trial, _: trial.now(),
        "random": lambda trial, _: trial.random(),
        "uuid": lambda trial, _: trial.uuid(),
        # A named scope that was made before does not lead out of the step.
        "held": lambda _, held: held.generate("x"),
    }

    async def work(trial):
        held = trial.scope("held")

        async def outer():
            return await calls[what](trial, held)

        return await trial.step("outer", outer if is_async else lambda: calls[what](trial, held))

    rig = Rig(tmp_path / "r", simple_task(1, Solver(work)), settings={"max_retries": 0})
    rig.session()
    (end,) = rig.ends()
    called = "scope" if what == "held" else what
    assert end.error.kind == "UsageError"
    assert end.error.message.startswith(f"trial.{called} was called inside the step 'outer'")
    assert rig.actors["m"].calls == 0
