"""Ending what Mellea has started: a generation is a task of its own there, which outlives whoever waits for it."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from mellea.core import ModelOutputThunk


async def finish(thunk: ModelOutputThunk) -> None:
    """Waits for a generation; one that is not wanted any more, or broke, is not running when this returns."""
    if thunk.is_computed():
        return
    try:
        await thunk.avalue()
    finally:
        is_cancelled = isinstance(sys.exception(), asyncio.CancelledError)
        if not thunk.is_computed() and (is_cancelled or _is_running(thunk)):
            await close([thunk])


async def close(thunks: Iterable[ModelOutputThunk]) -> None:
    """Stops the generations that are not complete, and returns when they have stopped."""
    # Each in a task of its own: Mellea leaves off in the middle where the task that closes is itself being cancelled.
    await outlast([asyncio.ensure_future(thunk.cancel_generation()) for thunk in thunks if not thunk.is_computed()])


async def together(coroutines: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """The results of all; at the first error, or when it is cancelled, the others are ended before that is raised."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await end(tasks)


async def end(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancels those that are running, and returns when they have ended."""
    for task in tasks:
        task.cancel()
    await outlast(tasks)


async def outlast(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Waits until all have ended, whatever comes meanwhile; a cancellation is raised after that."""
    cancelled: asyncio.CancelledError | None = None
    while left := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cancelled = error
    for task in tasks:
        if not task.cancelled():
            task.exception()  # looked at, so that the loop does not report it: something else ended the task
    if cancelled is not None:
        raise cancelled


def tracked(backend: Any, started: list[ModelOutputThunk]) -> Any:
    """The same backend under another identity, which notes what it generates.

    A requirement that is judged starts a generation and keeps it to itself until it has its verdict.
    """
    kind: Any = type(backend)
    twin = object.__new__(_tracked_type(kind))
    twin.__dict__ = backend.__dict__
    twin._started = started
    return twin


@functools.lru_cache(maxsize=64)
def _tracked_type(kind: Any) -> Any:
    async def generate(self: Any, *args: Any, **settings: Any) -> Any:
        thunk, context = await kind._generate_from_context(self, *args, **settings)  # noqa: SLF001 - its subclass
        self._started.append(thunk)
        return thunk, context

    members = {
        "__module__": kind.__module__,
        "__slots__": ("_started",),  # not in the dictionary, which is the backend's own
        "__del__": lambda _twin: None,  # a backend that closes its clients when it goes is still needed
        "_generate_from_context": generate,
    }
    return type(kind.__name__, (kind,), members)


def _is_running(thunk: ModelOutputThunk) -> bool:
    task = thunk._gen.generate  # noqa: SLF001 - Mellea has no other way to tell
    return task is not None and not task.done()
