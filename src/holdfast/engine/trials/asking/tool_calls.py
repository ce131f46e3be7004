"""The tool calls of a reply: each is a durable step in a scope of its own, which is named by its place in the reply.

So what is found again after a kill depends on neither which tool was faster nor what the others did. Whatever a model
sends, it gets one result for each call. An outage (a full disk, a signal, no memory) is no result: it is raised, and
the tool runs again on resume.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from holdfast.engine.trials.asking.durable_steps import FAIL, StepCall
from holdfast.engine.trials.asking.step_errors import remade_error
from holdfast.errors import UsageError
from holdfast.models.message import Message, Reply
from holdfast.run.core.records import StepRecord
from holdfast.tasks.tools.called_tool import CalledTool, error_result, read_calls
from holdfast.tasks.tools.tool import Given, as_tools

REPORT, RAISE = "report", "fail"
"""What becomes of an exception of a tool: the model reads it, or it is raised."""
_OUR_COMPLAINT = f"{UsageError.__module__}:{UsageError.__qualname__}"

RunStep = Callable[[str, StepCall], Awaitable[StepRecord]]
"""Runs a step in the scope of that name, or replays it."""


async def call_tools(
    run_step: RunStep, reply: Reply, tools: Sequence[Given], *, parallel: bool, on_error: str
) -> list[Message]:
    """A message with the result of every call in a reply, in the reply's order.

    Raises:
        UsageError: the result of a tool cannot be recorded, or a tool has used the trial.
        ConfigurationError: something that is given is not a tool.
    """
    if on_error not in {REPORT, RAISE}:
        raise UsageError(f"on_error is {on_error!r}.", hint=f"Give {REPORT!r} or {RAISE!r}.")
    called = read_calls(reply.tool_calls, as_tools(tools))
    scopes = {f"tool-{place}": one for place, one in enumerate(called, 1)}
    if not parallel:
        return [await _result(run_step, scope, one, on_error) for scope, one in scopes.items()]
    calls = [_result(run_step, scope, one, on_error) for scope, one in scopes.items()]
    # All of them end: what a tool has done is recorded, also where another one has failed.
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if isinstance(result, Message)]


async def _result(run_step: RunStep, scope: str, called: CalledTool, on_error: str) -> Message:
    if called.tool is None:
        return called.message(called.problem)
    tool = called.tool
    runs_once = tool.on_interrupted == FAIL
    step = await run_step(scope, StepCall(tool.name, called.function(), (called.arguments,), {}, runs_once))
    raised = step.raised
    if raised is None:
        return called.message(str(step.result))
    if on_error == RAISE or raised.type == _OUR_COMPLAINT:
        raise remade_error(tool.name, raised)
    return called.message(error_result(raised.type.rpartition(":")[2], raised.message))
