"""Work that is waited for until it has ended, however often whoever waits is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def completed(work: Awaitable[T]) -> T:
    """What the work came to; a cancellation meanwhile is raised once the work has ended."""
    task, cancellation = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is None:
        return task.result()
    if not task.cancelled():
        # Looked at: the cancellation is what counts.
        task.exception()
    raise cancellation


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Calls a function in a thread; a cancellation waits for its end, so that nothing works on after the trial."""
    return await completed(asyncio.get_running_loop().run_in_executor(None, lambda: function(*args)))
