"""The conversation of a trial, as each branch of its solver sees it.

A conversation belongs to the asyncio task that holds it: branches started with gather() or a TaskGroup start with a
copy and continue independently, so what each asks does not depend on which is faster.
"""

from __future__ import annotations

from contextvars import ContextVar

import msgspec

from holdfast.models.fingerprints import NO_MESSAGES, MessageHash
from holdfast.models.message import Message


class Conversation(msgspec.Struct, frozen=True):
    """A conversation so far, and the step whose reply ended it; no step, where it ends otherwise than the reply did."""

    messages: tuple[Message, ...] = ()
    parent: str = ""
    hash: MessageHash | None = None
    """Over the first messages of it, those that were asked with."""

    def hash_with(self, messages: tuple[Message, ...]) -> MessageHash | None:
        """A hash over messages that may continue this conversation; None where they hold what UTF-8 cannot carry."""
        known = self.hash
        if known is None or messages[: known.count] != self.messages[: known.count]:
            known = NO_MESSAGES
        try:
            return known.plus(messages[known.count :])
        except UnicodeEncodeError:
            return None

    def added_by(self, messages: tuple[Message, ...]) -> tuple[str, tuple[Message, ...]]:
        """The step that a request continues, and its new messages; no step and all of them, where it continues none."""
        known = len(self.messages)
        if known and self.parent and messages[:known] == self.messages:
            return self.parent, messages[known:]
        return "", messages


EMPTY_CONVERSATION = Conversation()
CURRENT_CONVERSATION: ContextVar[Conversation] = ContextVar("conversation", default=EMPTY_CONVERSATION)
