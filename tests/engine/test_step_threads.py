"""Plain functions of steps: in a bounded number of threads, which nobody waits for at the end."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
import weakref

import pytest

from engine.rig import Actor, Rig, State, simple_task
from holdfast import TrialLimits
from holdfast.engine import execution
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.trials.step_threads import MOST_THREADS, StepThreads
from holdfast.run.core.records import StepRecord

PATIENCE_SECONDS = 60.0
SETTING = contextvars.ContextVar("setting", default="none")


class Meeting(State):
    """A function that returns once so many of its calls run side by side; it counts how many do."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._barrier, self._lock = threading.Barrier(size), threading.Lock()
        self.running = self.most = 0

    def __call__(self, number: int) -> int:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self._barrier.wait(PATIENCE_SECONDS)
        with self._lock:
            self.running -= 1
        return number


def step_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("holdfast-step")}


def until_no_thread_is_left() -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while step_threads():
        assert time.monotonic() < deadline, "threads of steps were left behind"
        time.sleep(0.001)


def in_branches(function, count):
    async def solve(trial):
        await asyncio.gather(*(trial.step("meet", function, number) for number in range(count)))
        return "done"

    return solve


def test_plain_steps_of_one_trial_run_side_by_side(tmp_path):
    """Fifty steps that wait for each other all return: none of them waits for another's thread."""
    meet = Meeting(50)
    rig = Rig(tmp_path / "r", simple_task(1, in_branches(meet, 50)))
    assert rig.session().ended.counts.finished == 1
    assert meet.most == 50


def test_plain_steps_of_many_trials_run_side_by_side(tmp_path):
    """So do those of fifty trials."""
    meet = Meeting(50)

    async def solve(trial):
        return str(await trial.step("meet", meet, trial.epoch))

    rig = Rig(tmp_path / "r", simple_task(50, solve), settings={"concurrency_limit": 50})
    assert rig.session().ended.counts.finished == 50
    assert meet.most == 50


def test_no_more_plain_steps_run_at_once_than_the_session_has_threads(tmp_path):
    """Of twice as many as there are threads, the first half runs, and then the second."""
    meet = Meeting(MOST_THREADS)
    rig = Rig(tmp_path / "r", simple_task(1, in_branches(meet, 2 * MOST_THREADS)))
    assert rig.session().ended.counts.finished == 1
    assert meet.most == MOST_THREADS


def test_a_thread_is_used_again_and_ends_with_the_session(tmp_path):
    """Steps one after the other take one thread; a session leaves none behind."""
    found: list[int] = []

    async def solve(trial):
        for number in range(5):
            await trial.step("look", lambda _number: found.append(threading.get_ident()), number)
        return "done"

    until_no_thread_is_left()
    Rig(tmp_path / "r", simple_task(1, solve)).session()
    assert len(found) == 5 and len(set(found)) == 1
    until_no_thread_is_left()


def test_a_plain_step_sees_the_context_of_its_solver(tmp_path):
    """Context variables have the values that they have where the step is called, also in a thread used before."""

    async def solve(trial):
        await trial.step("first", SETTING.get)
        SETTING.set("mine")
        await trial.step("second", SETTING.get)
        return "done"

    rig = Rig(tmp_path / "r", simple_task(1, solve))
    rig.session()
    assert [step.result for step in rig.records(StepRecord)] == ["none", "mine"]


def test_a_function_that_never_comes_back_gives_its_place_to_others():
    """Once the trial that waits for it is given up, others are not held up by it."""
    release = threading.Event()

    async def scenario() -> list[object]:
        threads, trial = StepThreads(1), TrialActivity(lambda _activity: None)

        async def step(function) -> object:
            async with threads.place(trial):
                return (await threads.call(function)).result()

        hanging = asyncio.create_task(step(lambda: release.wait(PATIENCE_SECONDS)))
        waiting = asyncio.create_task(step(lambda: "second"))
        await asyncio.sleep(0)
        assert trial.is_idle, "the second one waits for a thread, which is no work"
        hanging.cancel()
        found = [await waiting, await step(lambda: "third")]
        with pytest.raises(asyncio.CancelledError):
            await hanging
        threads.close()
        return found

    try:
        assert asyncio.run(scenario()) == ["second", "third"]
    finally:
        release.set()
    until_no_thread_is_left()


def test_a_thread_ends_whose_result_the_loop_took_and_never_looked_at():
    """The loop is closed between the two: nobody puts the thread back, and it waits for no other job."""
    loop, release, taken = asyncio.new_event_loop(), threading.Event(), threading.Event()
    put = loop.call_soon_threadsafe
    loop.call_soon_threadsafe = lambda *args, **options: (put(*args, **options), taken.set())[0]

    async def give_up(threads: StepThreads) -> None:
        step = asyncio.create_task(threads.call(release.wait, PATIENCE_SECONDS))
        await asyncio.sleep(0)
        step.cancel()
        await asyncio.wait([step])

    until_no_thread_is_left()
    threads = StepThreads(1)
    loop.run_until_complete(give_up(threads))
    release.set()
    assert taken.wait(PATIENCE_SECONDS)
    threads.close()
    loop.close()
    until_no_thread_is_left()


def test_a_step_that_comes_after_the_end_leaves_no_thread_behind():
    """What waited for a place until the session was closed still has its function called."""

    async def scenario() -> object:
        threads = StepThreads(1)
        threads.close()
        return (await threads.call(lambda: "late")).value

    assert asyncio.run(scenario()) == "late"
    until_no_thread_is_left()


@pytest.mark.parametrize(("does_work", "status"), [(False, "valid"), (True, "limited")])
def test_time_does_not_run_while_all_of_a_trial_waits_for_a_thread(tmp_path, monkeypatch, does_work, status):
    """A call that another branch of the trial has in flight meanwhile takes its time, as ever."""
    monkeypatch.setattr(execution, "StepThreads", lambda: StepThreads(1))

    async def hold(trial):
        # The function has returned, and so has its thread; the place is held until what it returned is done.
        await trial.step("hold", lambda: asyncio.sleep(100.0, "held"))
        return "Q0"

    async def wait(trial):
        await asyncio.sleep(1.0)
        asking = [trial.generate("slow")] if does_work else []
        await asyncio.gather(trial.step("look", str, "x"), *asking)
        return "Q0"

    tasks = [simple_task(1, hold, name="first"), simple_task(1, wait, name="second", limits=TrialLimits(time=10.0))]
    rig = Rig(tmp_path / "r", tasks, {"m": Actor(seconds=50.0)})
    session = rig.session()
    assert {end.task: end.status.value for end in rig.ends()} == {"first": "valid", "second": status}
    assert session.seconds == pytest.approx(100.0)


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_a_thread_survives_whatever_its_function_raises(error):
    """The error comes back to the caller, and the next step uses the same thread."""

    def fail() -> None:
        raise error

    async def scenario() -> None:
        threads = StepThreads(1)
        failed = await threads.call(fail)
        assert failed.error is error
        first = await threads.call(threading.get_ident)
        again = await threads.call(threading.get_ident)
        assert first.value == again.value
        threads.close()

    asyncio.run(scenario())
    until_no_thread_is_left()


def test_a_thread_keeps_nothing_of_a_step_alive():
    """Between two steps, what the last one was given and has returned can be freed."""

    class Large:
        pass

    async def scenario() -> None:
        threads, given = StepThreads(1), Large()
        seen = weakref.ref(given)
        await threads.call(lambda value: value, given)
        del given
        await threads.call(time.sleep, 0)
        gc.collect()
        assert seen() is None
        threads.close()

    asyncio.run(scenario())
