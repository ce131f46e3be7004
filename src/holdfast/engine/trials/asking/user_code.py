"""Running user code inside a trial: coroutines in the loop, and plain functions in threads."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.trials.error_boundary import Outcome, guard
from holdfast.engine.trials.scopes import IN_SAMPLING, Masked, Masking
from holdfast.engine.trials.trial_environment import TrialEnvironment

OnStart = Callable[[], Awaitable[None]]


async def run_user_code(
    environment: TrialEnvironment,
    activity: TrialActivity,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    masked: Masked = IN_SAMPLING,
    on_start: OnStart | None = None,
) -> Outcome:
    """How a function of the user's ended; it does not return if a signal came meanwhile, for then that does not count.

    Nothing in it takes the number of a scope. A plain function sees the context variables of its caller. `on_start` is
    awaited when nothing else keeps the function from running.
    """
    if inspect.iscoroutinefunction(function):
        await environment.admission.wait_until_open(activity)
        if on_start is not None:
            await on_start()
        with activity.running_code(), Masking(masked):
            outcome = await guard(function(*args))
    else:
        outcome = await _call_in_thread(environment, activity, function, args, masked, on_start)
    await environment.admission.block_if_interrupted(activity)
    return outcome


async def _call_in_thread(
    environment: TrialEnvironment,
    activity: TrialActivity,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    masked: Masked,
    on_start: OnStart | None,
) -> Outcome:
    threads = environment.step_threads
    async with threads.place(activity):
        # In this order, so that a function that waited for a thread does not start after an interrupt.
        await environment.admission.wait_until_open(activity)
        if on_start is not None:
            await on_start()
        with activity.running_code(), Masking(masked):
            outcome = await threads.call(function, *args)
            return await guard(outcome.value) if inspect.isawaitable(outcome.value) else outcome
