"""A requirement: something that a candidate must meet, with a name, a description and a check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

import msgspec

from holdfast.models.message import Message, Reply
from holdfast.sampling.place import Place
from holdfast.sampling.requirements.verdict import Verdict


class Draft(msgspec.Struct, frozen=True):
    """What is checked: a candidate's text, with where it comes from."""

    text: str
    reply: Reply
    messages: tuple[Message, ...]
    """What was asked."""
    place: Place
    context: Any = None
    """The validation context that the caller gave, exactly as it is; in a trial, its sample if none was given."""


class Checking(Protocol):
    """What a check may use that is not done at once."""

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls code of the user's: a plain function in a thread, and what can be awaited is awaited."""

    async def ask(self, model: str, messages: tuple[Message, ...], generation: Mapping[str, Any]) -> Reply:
        """Asks a model as a judge; durable, limited, and counted in the sampling's budget."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate must meet. A subclass has one of the two checks."""

    is_quick: ClassVar[bool] = False
    """Whether `check` answers at once, without waiting and without code of the user's."""
    calls: ClassVar[int] = 0
    """How many calls of models one check may take, at the most: those that take some are checked last."""

    id: str
    description: str = ""
    """What it asks for, in words that a model can follow."""
    check_only: bool = False
    """Whether the model is never told of it, nor why it was not met."""

    def check(self, draft: Draft) -> Verdict:
        """The verdict, at once."""
        raise NotImplementedError

    async def check_later(self, draft: Draft, checking: Checking) -> Verdict:  # noqa: ARG002 - for those who need it
        """The verdict of one that is not quick."""
        return self.check(draft)

    def identity(self) -> dict[str, Any]:
        """What its verdicts depend on, for the identity of a trial."""
        raise NotImplementedError


def in_order(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """As they are checked: in the order given, those that ask models after all others.

    Raises:
        ValueError: two of them have the same id.
    """
    ordered = sorted(requirements, key=lambda requirement: requirement.calls > 0)
    seen: set[str] = set()
    for requirement in ordered:
        if requirement.id in seen:
            raise ValueError(f"Two requirements have the id {requirement.id!r}: give each an id of its own.")
        seen.add(requirement.id)
    return tuple(ordered)
