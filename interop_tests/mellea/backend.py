"""A Mellea backend in this process: each generation is a task of its own, as with the real ones, and is counted."""

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mellea.core import Backend, CBlock, Component, Context, GenerateLog, ModelOutputThunk, Requirement
from mellea.core.base import GenerateType
from mellea.stdlib.components import Instruction, Message
from mellea.telemetry.context import get_sampling_iteration


@dataclass
class Call:
    """One generation, as the model saw it."""

    number: int
    """From 1, in the order of the calls."""
    iteration: int
    """What Mellea's telemetry says of the place it was made in; 0 if nothing."""
    action: Any
    context: Context
    options: dict | None
    format: type | None
    tool_calls: bool

    @property
    def is_judging(self) -> bool:
        return isinstance(self.action, Requirement)

    @property
    def text(self) -> str:
        """What was asked, in short."""
        return text_of(self.action)

    @property
    def history(self) -> list[str]:
        """What had been said before."""
        return [text_of(entry) for entry in self.context.as_list()]


def text_of(entry: Any) -> str:
    """A node of a context as one word or two."""
    if isinstance(entry, Instruction):
        return str(entry._description)
    return entry.content if isinstance(entry, Message) else str(entry)


Replies = Callable[[Call], Any]
"""Gives the text of a reply, or raises; may be async, to wait for something."""


@dataclass
class FakeBackend(Backend):
    """Counts what is asked, what is running, and what was told to stop."""

    replies: Replies
    logs: bool = True
    helped: bool = False
    """Whether each generation has a second task beside it, as with models that run in this process."""
    calls: list[Call] = field(default_factory=list)
    running: int = 0
    most_running: int = 0
    stopped: int = 0
    _model_id = "fake"
    _provider = "fake"

    async def _generate_from_context(
        self,
        action: Component | CBlock | ModelOutputThunk,
        ctx: Context,
        *,
        format: type | None = None,
        model_options: dict | None = None,
        tool_calls: bool = False,
    ) -> tuple[ModelOutputThunk, Context]:
        iteration = get_sampling_iteration() or 0
        call = Call(len(self.calls) + 1, iteration, action, ctx, model_options, format, tool_calls)
        self.calls.append(call)
        thunk = ModelOutputThunk(None)
        thunk._call.action = action
        thunk._gen.generate_type = GenerateType.ASYNC
        thunk._gen.process, thunk._gen.post_process = _take, self._log
        thunk._gen.generate = asyncio.create_task(self._generate(call, thunk))
        if self.helped:
            thunk._gen.generate_extra = asyncio.create_task(self._help())
        return thunk, ctx.add(action).add(thunk)

    async def _generate(self, call: Call, thunk: ModelOutputThunk) -> None:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            reply = self.replies(call)
            text = await reply if inspect.isawaitable(reply) else reply
            await thunk._gen.queue.put(text)
            await thunk._gen.queue.put(None)
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        except Exception as error:  # noqa: BLE001 - a real backend hands every error to the reader of its queue
            await thunk._gen.queue.put(error)
        finally:
            self.running -= 1

    async def _help(self) -> None:
        self.running += 1
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            self.running -= 1

    async def _log(self, thunk: ModelOutputThunk) -> None:
        if self.logs:
            thunk._generate_log = GenerateLog(prompt="", is_final_result=False)

    async def _generate_from_raw(self, actions, ctx, **_settings):
        raise NotImplementedError

    @property
    def texts(self) -> list[str]:
        return [call.text for call in self.calls]


async def _take(thunk: ModelOutputThunk, chunk: str) -> None:
    thunk._underlying_value = (thunk._underlying_value or "") + chunk
