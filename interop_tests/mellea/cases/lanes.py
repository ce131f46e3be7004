"""Lanes: how many calls there are, and that none is left when a sampling is over."""

import asyncio
import contextlib
import io
import logging

import tqdm
from backend import FakeBackend
from mellea.core import Requirement
from mellea.plugins import block
from mellea.stdlib.components import Instruction
from mellea.stdlib.context import SimpleContext
from rig import error_of, lane_of, need, other_tasks, others_first, sample, shows, unmet, watching
from sides import sampling


def lanes(loop_budget, concurrency_budget):
    return sampling.RejectionSamplingStrategy(loop_budget=loop_budget, concurrency_budget=concurrency_budget)


async def never():
    """Waits until it is cancelled."""
    await asyncio.Event().wait()


@shows([12, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]])
async def all_invalid():
    """Every turn of every lane is drawn once when none is valid."""
    backend = FakeBackend(lambda _call: "no")
    result = await sample(lanes(3, 4), backend, [unmet()])
    return [len(result.sample_generations), sorted(call.iteration for call in backend.calls)]


@shows(["0.0", "1.0", "2.0", "0.1", "1.1", "2.1"])
async def order_of_failed_candidates():
    """Failed candidates of lanes are in one order, whatever the timing: by turn, then by lane."""
    done = [asyncio.Event() for _ in range(3)]
    done[2].set()

    async def reply(call):
        lane, turn = lane_of(call, 2)
        await done[lane].wait()
        await others_first()
        if turn == 1 and lane:
            done[lane - 1].set()
        return f"{lane}.{turn}"

    result = await sample(lanes(2, 3), FakeBackend(reply), [unmet()])
    return [str(generation) for generation in result.sample_generations]


@shows([4, 12])
async def most_in_flight():
    """At most as many calls are in flight as there are lanes, and as many can be."""
    backend = FakeBackend(lambda _call: _after_others())
    await sample(lanes(3, 4), backend, [unmet()])
    return [backend.most_running, len(backend.calls)]


@shows([True, "lane 2"])
async def first_success_wins():
    """The first valid candidate to arrive is chosen."""
    backend = FakeBackend(lambda call: "lane 2" if call.iteration == 3 else never())
    result = await sample(lanes(1, 3), backend, [need("lane")])
    return [result.success, result.value]


@shows({"running": 0, "stopped": 2, "tasks": 0})
async def nothing_runs_on_after_a_success():
    """When a sampling returns, the generations of the other lanes have been stopped, and no task is left."""
    backend = FakeBackend(lambda call: "lane 2" if call.iteration == 3 else never())
    await sample(lanes(1, 3), backend, [need("lane")])
    tasks, running = other_tasks(), backend.running
    return {"running": running, "stopped": backend.stopped, "tasks": tasks}


@shows({"error": "CancelledError", "running": 0, "tasks": 0})
async def nothing_runs_on_after_a_cancellation():
    """So it is when the caller cancels a sampling of one lane."""
    return await _cancelled(lanes(3, 1))


@shows({"error": "CancelledError", "running": 0, "tasks": 0})
async def nothing_runs_on_after_a_cancellation_of_lanes():
    """And one of several lanes."""
    return await _cancelled(lanes(3, 4))


@shows({"error": "TimeoutError", "running": 0, "tasks": 0})
async def nothing_runs_on_after_a_timeout():
    """And when it runs into a time limit of the caller's."""
    backend = FakeBackend(lambda _call: never())
    error = await error_of(asyncio.wait_for(sample(lanes(1, 2), backend, [unmet()]), 0.05))
    return {"error": type(error).__name__, "running": backend.running, "tasks": other_tasks()}


@shows({"success": True, "running": 0, "tasks": 0})
async def nothing_judges_on_after_a_success():
    """A judgement that is running in another lane is stopped as well."""

    def reply(call):
        if call.is_judging:
            return "yes" if call.iteration == 2 else never()
        return "x"

    backend = FakeBackend(reply)
    result = await sample(lanes(1, 2), backend, [Requirement("needs taste")])
    return {"success": result.success, "running": backend.running, "tasks": other_tasks()}


@shows({"error": "PluginViolationError", "running": 0, "tasks": 0})
async def nothing_runs_on_after_an_error_that_ends_all():
    """An error that ends the sampling stops the other lanes before it is raised."""
    backend = FakeBackend(lambda call: "x" if call.iteration == 1 else never())
    with watching(iteration=lambda _payload: block("no")):
        sampled = asyncio.wait_for(sample(lanes(1, 2), backend, [unmet()]), 2.0)
        error = await error_of(sampled)
    return {"error": type(error).__name__, "running": backend.running, "tasks": other_tasks()}


@shows({"error": "CancelledError", "running": 0, "tasks": 0})
async def nothing_runs_on_where_stopping_takes_time():
    """A generation that takes its time to stop is waited for, even if the caller cancels again and again."""

    async def reply(_call):
        try:
            await never()
        finally:
            await others_first()

    backend = FakeBackend(reply)
    task = asyncio.ensure_future(sample(lanes(1, 2), backend, [unmet()]))
    await others_first()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    error = await error_of(task)
    return {"error": type(error).__name__, "running": backend.running, "tasks": other_tasks()}


@shows({"error": "CancelledError", "running": 0, "tasks": 0})
async def nothing_runs_on_beside_a_generation():
    """A second task that a generation has beside it is ended, too."""
    backend = FakeBackend(lambda _call: never(), helped=True)
    task = asyncio.ensure_future(sample(lanes(1, 1), backend, [unmet()]))
    await others_first()
    task.cancel()
    error = await error_of(task)
    return {"error": type(error).__name__, "running": backend.running, "tasks": other_tasks()}


@shows({"error": "KeyError", "tasks": 0})
async def nothing_checks_on_after_an_error():
    """When one requirement has an error, the checks of the others are ended before it is raised."""

    class Broken(Requirement):
        async def validate(self, backend, ctx, **settings):
            await others_first()
            raise KeyError("broken")

    class Endless(Requirement):
        async def validate(self, backend, ctx, **settings):
            await never()

    backend = FakeBackend(lambda _call: "x")
    error = await error_of(sample(lanes(1, 1), backend, [Endless("endless"), Broken("broken")]))
    return {"error": type(error).__name__, "tasks": other_tasks()}


@shows([["a", True], ["b", False]])
async def two_samplings_of_one_strategy():
    """One strategy object can sample twice at the same time."""
    strategy = lanes(2, 2)
    first = sample(strategy, FakeBackend(lambda _call: "a"), [need("a")])
    second = sample(strategy, FakeBackend(lambda _call: "b"), [need("a")])
    return [[result.value, result.success] for result in await asyncio.gather(first, second)]


@shows([3, 3])
async def nothing_is_asked_after_a_success():
    """No call is made once a success is known."""
    backend = FakeBackend(lambda call: "lane 2" if call.iteration == 7 else never())
    await sample(lanes(3, 3), backend, [need("lane")])
    at_return = len(backend.calls)
    await others_first()
    return [at_return, len(backend.calls)]


@shows([["start", "end"], "CancelledError", False])
async def end_hook_of_a_cancellation():
    """The end hook is told of a cancellation."""
    with watching() as seen:
        await _cancelled(lanes(1, 2))
    (end,) = seen.of("end")
    return [seen.kinds, type(end.exception).__name__, end.success]


@shows([0, 0, 0])
async def progress_bars_are_closed():
    """A progress bar is closed after a success, a failure and an error alike."""
    logger = logging.getLogger("mellea")
    level, handlers = logger.level, logger.handlers[:]
    logger.handlers.clear()
    logger.setLevel(logging.INFO)
    left = []
    try:
        for reply, requirement in (("x", need("x")), ("x", unmet()), (None, unmet())):
            backend = FakeBackend(lambda _call, reply=reply: reply or 1 / 0)
            with contextlib.redirect_stderr(io.StringIO()):
                await error_of(lanes(2, 1).sample(Instruction("say"), SimpleContext(), backend, [requirement]))
            left.append(len(tqdm.tqdm._instances))
    finally:
        logger.setLevel(level)
        logger.handlers[:] = handlers
    return left


async def _after_others():
    await others_first()
    return "no"


async def _cancelled(strategy):
    backend = FakeBackend(lambda _call: never())
    task = asyncio.ensure_future(sample(strategy, backend, [unmet()]))
    await others_first()
    task.cancel()
    error = await error_of(task)
    return {"error": type(error).__name__, "running": backend.running, "tasks": other_tasks()}
