"""Durable steps: what a trial has done is never done again.

The key of a step is its scope and name, the fingerprint of what was asked, and how many times that had been asked
before in the scope. So branches that run side by side find their own replies again in whatever order they arrive, and
a request that is not on record runs live without disturbing the others.
"""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.errors import UsageError
from holdfast.models.message import Reply, Usage
from holdfast.run.records import Step

_encoder = msgspec.json.Encoder(order="deterministic")


def digest(data: bytes) -> str:
    """A short name for content."""
    return blake2b(data, digest_size=12).hexdigest()


def encode_arguments(name: str, arguments: tuple[Any, ...]) -> bytes:
    """The arguments of a step as they are fingerprinted.

    Raises:
        UsageError: an argument cannot be written as JSON.
    """
    try:
        return _encoder.encode(arguments)
    except (TypeError, UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"The arguments of the step {name!r} cannot be recorded: {error}.",
            hint="Give texts, numbers, lists, maps or msgspec structs.",
        ) from error


class Steps:
    """The steps of one attempt: those on record, and how often each was asked for."""

    def __init__(self, recorded: list[Step]) -> None:
        self._recorded = {step.step: step for step in recorded if step.error is None}
        self._asked: Counter[str] = Counter()

    def key(self, scope: str, name: str, fingerprint: str) -> str:
        """The identity of the step that is asked for now."""
        base = f"{scope}{name}:{fingerprint}"
        self._asked[base] += 1
        return f"{base}#{self._asked[base]}"

    def recorded(self, key: str) -> Step | None:
        return self._recorded.get(key)

    @property
    def is_empty(self) -> bool:
        return not self._recorded

    def latest(self) -> list[Step]:
        return list(self._recorded.values())


class RecordedReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reply as it stands in a step's record; usage stands beside it."""

    text: str
    finish: str = "stop"
    model: str = ""
    id: str = ""
    logprobs: Any = None
    reasoning: str = ""


def record_reply(reply: Reply) -> RecordedReply:
    return RecordedReply(reply.text, reply.finish, reply.model, reply.id, reply.logprobs, reply.reasoning)


def replay_reply(step: Step) -> Reply:
    """The reply that a recorded step holds."""
    kept = msgspec.convert(step.result, RecordedReply)
    return Reply(kept.text, kept.finish, step.usage, kept.model, kept.id, kept.logprobs, kept.reasoning)


def returned(value: Any, function: Callable[..., Any]) -> Any:
    """A step's recorded result, as the type that its function says it returns."""
    try:
        hint = typing.get_type_hints(function).get("return", Any)
    except (NameError, TypeError, AttributeError):
        hint = Any
    if hint is Any or hint is None:
        return value
    try:
        return msgspec.convert(value, hint)
    except (msgspec.ValidationError, TypeError):
        return value


def total(steps: list[Usage | None]) -> Usage | None:
    """The usage of several steps; None if nobody counted."""
    known = [usage for usage in steps if usage is not None]
    return sum(known[1:], known[0]) if known else None
