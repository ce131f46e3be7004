"""A model that an agent's command calls by itself: a call is one run of the command, and the reply its final message.

The task that has the agent sets `CURRENT_AGENT_CALL` around the call. So an agent is paid for, recorded, retried,
limited and counted like every other call of a model.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from holdfast.models.errors import Rejected
from holdfast.models.message import Reply, Request
from holdfast.models.provider import read_options
from holdfast.spec import ModelSpec
from holdfast.spec.schema.drift import Block


class AgentCall(Protocol):
    """One run of an agent, to be made by the provider."""

    async def __call__(self, request: Request) -> Reply:
        """Runs the agent; raises a ModelError where it could not work."""

    @property
    def wait_until(self) -> float:
        """The time, in seconds since 1970, before which the agent's account may not be used again; 0 if at once."""


CURRENT_AGENT_CALL: ContextVar[AgentCall | None] = ContextVar("agent_call", default=None)


class CommandOptions(Block, frozen=True):
    """It has none: the command is part of the task."""


class CommandProvider:
    """Runs the command of the task that asks."""

    has_effects = True
    """A call also changes a workspace, so no reply is taken from another run."""

    def __init__(self, model: str) -> None:
        self._model = model

    @property
    def wait_until(self) -> float:
        """As that of the call that is about to be made."""
        call = CURRENT_AGENT_CALL.get()
        return 0.0 if call is None else call.wait_until

    async def send(self, request: Request) -> Reply:
        """The agent's final message, once it has ended."""
        call = CURRENT_AGENT_CALL.get()
        if call is None:
            raise Rejected(
                f"command/{self._model} can only be used by the agent of a task.",
                hint="Give the task an agent, or the model another provider.",
            )
        return await call(request)

    async def close(self) -> None:
        """Nothing is held: every agent ends with its call."""


def open_command(spec: ModelSpec) -> CommandProvider:
    """A model that the command of a task's agent calls by itself; its name is for the command."""
    read_options(f"Model command/{spec.model}", spec.args, CommandOptions)
    return CommandProvider(spec.model)
