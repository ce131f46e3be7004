"""A solver that lets the model call tools: `agent(tools=[search, fetch])`.

Each turn is one call of the model with the tools offered; the calls of its reply are carried out side by side, each as
a durable step, and their results go into the next turn. A reply without calls is the answer. A model that still calls
tools after the last turn has not answered: the trial ends as limited.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.message import Reply
from holdfast.spec import Shot
from holdfast.tasks.solver import Generate, Prompts, generate
from holdfast.tasks.tools.tool import Given, Tool, as_tools
from holdfast.tasks.trial_interface import OnToolError, Trial

MAX_TURNS = 10
REVISION = 1
"""Raised whenever the same replies would lead to other requests than before."""


class Agent(Generate, frozen=True, kw_only=True, dict=True):
    """Asks as `generate` does, with tools, until the model answers without calling one."""

    tools: tuple[Tool, ...]
    max_turns: int | None = MAX_TURNS
    on_tool_error: OnToolError = "report"
    parallel: bool = True

    async def __call__(self, trial: Trial) -> Reply:
        messages, turn = self.messages(trial.sample, trial.axes), 1
        while True:
            reply: Reply = await trial.generate(messages, tools=self.tools, **self.generation)
            if not reply.tool_calls:
                return reply
            if turn == self.max_turns:
                trial.reach_limit("turns")
            results = await trial.call_tools(reply, self.tools, parallel=self.parallel, on_error=self.on_tool_error)
            messages, turn = (*trial.messages, *results), turn + 1

    @property
    def own_parts(self) -> tuple[object, ...]:
        return tuple(tool.function for tool in self.tools)

    def tool_identity(self) -> dict[str, Any]:
        """What the loop depends on beside the code of the tools; descriptions count, for the model reads them."""
        return self._tool_identity

    @functools.cached_property
    def _tool_identity(self) -> dict[str, Any]:
        return {
            "revision": REVISION,
            "tools": [tool.offer["function"] for tool in self.tools],
            "max_characters": [tool.max_characters for tool in self.tools],
            "max_turns": self.max_turns,
            "on_tool_error": self.on_tool_error,
            "parallel": self.parallel,
        }


def agent(
    prompt: Prompts = "{input}",
    *,
    tools: Sequence[Given],
    max_turns: int | None = MAX_TURNS,
    on_tool_error: OnToolError = "report",
    parallel: bool = True,
    system: str | None = None,
    few_shot: Sequence[Shot | tuple[str, str]] = (),
    few_shot_template: str | None = None,
    **generation: Any,
) -> Agent:
    """A solver that lets the model call tools, functions with typed parameters, until it answers without calling one.

    Of a model that has not answered after `max_turns` calls, the trial ends as limited; with None, only the task's
    `max_iterations` and `limits` bound it. An exception of a tool is reported to the model, or fails the attempt.

    Raises:
        ConfigurationError: a tool cannot be offered, or a template or a parameter is wrong.
    """
    asking = generate(prompt, system=system, few_shot=few_shot, few_shot_template=few_shot_template, **generation)
    return make_agent(asking, tools, max_turns=max_turns, on_tool_error=on_tool_error, parallel=parallel)


def make_agent(
    asking: Generate,
    tools: Sequence[Given],
    *,
    max_turns: int | None = MAX_TURNS,
    on_tool_error: OnToolError = "report",
    parallel: bool = True,
) -> Agent:
    """The agent that starts by asking what a solver asks.

    Raises:
        ConfigurationError: a tool cannot be offered, or a parameter is wrong.
    """
    made = as_tools(tools)
    if not made:
        raise ConfigurationError("An agent needs at least one tool.", hint="Without tools, use generate(...).")
    if max_turns is not None and (not isinstance(max_turns, int) or isinstance(max_turns, bool) or max_turns < 1):
        raise ConfigurationError(f"max_turns is {max_turns!r}.", hint="Give 1 or more, or None.")
    if on_tool_error not in {"report", "fail"}:
        raise ConfigurationError(f"on_tool_error is {on_tool_error!r}.", hint='Give "report" or "fail".')
    return Agent(
        **msgspec.structs.asdict(asking),
        tools=made,
        max_turns=max_turns,
        on_tool_error=on_tool_error,
        parallel=bool(parallel),
    )


def declared_max_turns(max_iterations: int | None) -> int | None:
    """The turns of an agent in an eval file: where `max_iterations` bounds them, nothing else does."""
    return MAX_TURNS if max_iterations is None else None
