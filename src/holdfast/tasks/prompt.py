"""From whatever a solver asks with to the messages that are sent."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import HoldfastError
from holdfast.models.message import Message


class InvalidPrompt(HoldfastError, TypeError):  # noqa: N818 - reads as a sentence where it is raised
    """A solver asked with what is no prompt."""

    kind = "task"


def as_messages(prompt: str | Message | Sequence[Message], system: str | None = None) -> tuple[Message, ...]:
    """The messages of a prompt; the system text goes before them unless they begin with one of their own."""
    messages = _messages(prompt)
    if not messages:
        raise InvalidPrompt("A model was asked with no message at all.", hint="Give a text or at least one message.")
    if system is None or messages[0].role == "system":
        return messages
    return (Message("system", system), *messages)


def _messages(prompt: object) -> tuple[Message, ...]:
    if isinstance(prompt, tuple) and set(map(type, prompt)) == {Message}:
        return prompt
    if isinstance(prompt, str):
        return (Message("user", prompt),)
    if isinstance(prompt, Message):
        return (prompt,)
    if isinstance(prompt, Sequence) and all(isinstance(item, Message) for item in prompt):
        return tuple(prompt)
    raise InvalidPrompt(
        f"A model cannot be asked with {type(prompt).__name__}.", hint="Give a text, a Message or a list of them."
    )
