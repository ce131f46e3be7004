"""Running user code inside a trial: coroutines in the loop, and plain functions in threads."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.trials.error_boundary import Outcome, guard
from holdfast.engine.trials.scopes import Masking
from holdfast.engine.trials.trial_environment import TrialEnvironment


async def run_user_code(
    environment: TrialEnvironment, activity: TrialActivity, function: Callable[..., Any], args: tuple[Any, ...]
) -> Outcome:
    """How a function of the user's ended; it does not return if a signal came meanwhile, for then that does not count.

    Nothing in it takes the number of a scope. A plain function sees the context variables of its caller.
    """
    if inspect.iscoroutinefunction(function):
        await environment.admission.wait_until_open(activity)
        with activity.running_code(), Masking():
            outcome = await guard(function(*args))
    else:
        outcome = await _call_in_thread(environment, activity, function, args)
    await environment.admission.block_if_interrupted(activity)
    return outcome


async def _call_in_thread(
    environment: TrialEnvironment, activity: TrialActivity, function: Callable[..., Any], args: tuple[Any, ...]
) -> Outcome:
    threads = environment.step_threads
    async with threads.place(activity):
        # In this order, so that a function that waited for a thread does not start after an interrupt.
        await environment.admission.wait_until_open(activity)
        with activity.running_code(), Masking():
            outcome = await threads.call(function, *args)
            return await guard(outcome.value) if inspect.isawaitable(outcome.value) else outcome
