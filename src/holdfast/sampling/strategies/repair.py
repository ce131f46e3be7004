"""Strategies that go deeper: the same request again, one that says what was wrong, or a conversation about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from holdfast.models.content import TextPart
from holdfast.models.message import Message
from holdfast.sampling.candidate import Candidate
from holdfast.sampling.requirements.verdict import VerdictKind
from holdfast.sampling.selection import best_failed
from holdfast.sampling.strategies.strategy import Strategy

_UNMET = "An earlier answer did not meet these requirements:"
_ONCE_MORE = "Answer once more, and meet all of them."


class Rejection(Strategy):
    """Asks the same again until a candidate is valid."""

    name: ClassVar[str] = "rejection"


class Repair(Strategy):
    """Asks again with the reasons why the last candidate was not valid added to the request."""

    name: ClassVar[str] = "repair"

    def repair(self, messages: tuple[Message, ...], candidates: Sequence[Candidate]) -> tuple[Message, ...]:
        """The request, with what the lane's last candidate did not meet at its end."""
        reasons = unmet(candidates[-1])
        return with_text(messages, f"{_UNMET}\n{reasons}\n{_ONCE_MORE}") if reasons else messages


class MultiTurn(Strategy):
    """Answers each candidate with a message that says what is wrong with it."""

    name: ClassVar[str] = "multi_turn"

    def repair(self, messages: tuple[Message, ...], candidates: Sequence[Candidate]) -> tuple[Message, ...]:  # noqa: ARG002 - the candidate has them
        """The conversation of the lane so far, and why its last candidate is not valid."""
        last = candidates[-1]
        reasons = unmet(last)
        if not reasons or last.reply is None:
            return last.messages  # no reason that the model may see: the same request again
        text = f"Your answer does not meet these requirements:\n{reasons}\n{_ONCE_MORE}"
        return (*last.messages, last.reply.message, Message("user", text))

    def select_from_failure(self, candidates: Sequence[Candidate]) -> int:
        """The deepest turn, whose request contained the most feedback."""
        return best_failed(candidates, deepest=True)


def unmet(candidate: Candidate) -> str:
    """Why a candidate is not valid, a line for each requirement that the model may see.

    What could not be checked is left out: a better answer would not help.
    """
    shown = [verdict for verdict in candidate.failed if verdict.kind is VerdictKind.FAILED and not verdict.hidden]
    return "\n".join(f"* {verdict.reason or verdict.requirement}" for verdict in shown)


def with_text(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    """A request with something added: to its last message, if that is the user's, or else after it."""
    if not messages or messages[-1].role != "user":
        return (*messages, Message("user", text))
    last = messages[-1]
    content = f"{last.content}\n\n{text}" if isinstance(last.content, str) else (*last.content, TextPart(text))
    return (*messages[:-1], Message("user", content, last.name))
