"""A named scope as a solver uses it: `with trial.scope("draft"):`, or `await trial.scope("draft").generate(…)`.

Its steps are recorded under its own path. Its conversation begins with a copy of the one where it was made; what is
said in it stays there.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.engine.trials.conversation import CURRENT_CONVERSATION, Conversation
from holdfast.engine.trials.scopes import Scope, holding
from holdfast.tasks.trial_interface import Prompt

if TYPE_CHECKING:
    from uuid import UUID


class _Asking(Protocol):
    """A trial, or the slot of a scorer."""

    async def generate(self, prompt: Prompt, **generation: Any) -> Any: ...
    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **options: Any) -> Any: ...
    async def call_tools(self, *args: Any, **options: Any) -> Any: ...
    async def now(self) -> dt.datetime: ...
    async def random(self) -> float: ...
    async def uuid(self) -> UUID: ...


class NamedScope:
    """A named scope inside a trial; one branch of the solver may use it at a time, any number of times in turn."""

    def __init__(self, trial: _Asking, scope: Scope) -> None:
        self._trial, self._scope = trial, scope
        self._entered: list[tuple[AbstractContextManager[None], Token[Conversation]]] = []

    def __enter__(self) -> None:
        """Raises UsageError if another branch is using it."""
        held = holding(self._scope)
        held.__enter__()
        self._entered.append((held, CURRENT_CONVERSATION.set(CURRENT_CONVERSATION.get())))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held, conversation = self._entered.pop()
        CURRENT_CONVERSATION.reset(conversation)
        held.__exit__(kind, error, trace)

    async def generate(self, *args: Any, **options: Any) -> Any:
        """As `Trial.generate`, in this scope."""
        with self:
            return await self._trial.generate(*args, **options)

    async def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, on_interrupted: str = "again", **kwargs: Any
    ) -> Any:
        """As `Trial.step`, in this scope."""
        with self:
            return await self._trial.step(name, function, *args, on_interrupted=on_interrupted, **kwargs)

    async def call_tools(self, *args: Any, **options: Any) -> Any:
        """As `Trial.call_tools`, in this scope."""
        with self:
            return await self._trial.call_tools(*args, **options)

    async def now(self) -> dt.datetime:
        """As `Trial.now`, in this scope."""
        with self:
            return await self._trial.now()

    async def random(self) -> float:
        """As `Trial.random`, in this scope."""
        with self:
            return await self._trial.random()

    async def uuid(self) -> UUID:
        """As `Trial.uuid`, in this scope."""
        with self:
            return await self._trial.uuid()
