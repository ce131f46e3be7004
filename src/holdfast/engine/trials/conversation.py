"""The conversation of a trial, as each branch of its solver sees it.

A conversation belongs to the asyncio task that holds it: branches started with gather() or a TaskGroup begin with what
was said so far and then go their own ways, so what each asks does not depend on which is faster.
"""

from __future__ import annotations

from contextvars import ContextVar

import msgspec

from holdfast.models.message import Message


class Conversation(msgspec.Struct, frozen=True):
    """A conversation so far, and the step whose reply ended it."""

    messages: tuple[Message, ...] = ()
    parent: str = ""

    def added_by(self, messages: tuple[Message, ...]) -> tuple[str, tuple[Message, ...]]:
        """The step that a request continues, and its new messages; no step and all of them, where it continues none."""
        known = len(self.messages)
        if known and messages[:known] == self.messages:
            return self.parent, messages[known:]
        return "", messages


EMPTY_CONVERSATION = Conversation()
CURRENT_CONVERSATION: ContextVar[Conversation] = ContextVar("conversation", default=EMPTY_CONVERSATION)
