"""Durable steps: what a trial has done is never done again.

The key of a step is its name, the fingerprint of what was asked, and how many times that had been asked before. So
branches that run side by side find their own replies again in whatever order they arrive, and a request that is not on
record runs live without disturbing the others.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.errors import UsageError
from holdfast.models.message import Reply, Usage, encodable
from holdfast.run.core.records import StepRecord
from holdfast.tasks.recordable import RECORDABLE, Unrecordable, recorded

_encoder = msgspec.json.Encoder(order="deterministic")


def digest(data: bytes) -> str:
    """A short name for content."""
    return blake2b(data, digest_size=12).hexdigest()


def fingerprint_of(arguments: list[Any]) -> str:
    """A short name for the arguments of a step, as they are recorded."""
    return digest(_encoder.encode(arguments))


def recorded_part(name: str, part: str, value: object) -> Any:
    """A step's arguments or result as they are read back.

    Raises:
        UsageError: they cannot be recorded.
    """
    try:
        return recorded(value)
    except Unrecordable as error:
        raise UsageError(f"The {part} of the step {name!r} {error}.", hint=RECORDABLE) from None


class Steps:
    """The steps of one attempt: those on record, and how often each was asked for."""

    def __init__(self, recorded: list[StepRecord]) -> None:
        self._waiting = {step.step: step for step in recorded if step.error is None}
        self._failed = [step for step in recorded if step.error is not None]
        self._asked: dict[str, int] = {}

    def key(self, name: str, fingerprint: str) -> str:
        """The identity of the step that is asked for now."""
        base = f"{name}:{fingerprint}"
        count = self._asked[base] = self._asked.get(base, 0) + 1
        return f"{base}#{count}"

    def replay(self, key: str) -> StepRecord | None:
        """The step on record, if it is; it is given once."""
        return self._waiting.pop(key, None)

    def rest(self) -> list[StepRecord]:
        """Steps on record that nobody has asked for in this session; each is given once."""
        rest, self._waiting, self._failed = [*self._waiting.values(), *self._failed], {}, []
        return rest


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


def replay_reply(step: StepRecord) -> Reply:
    """The reply that a recorded step holds."""
    kept = msgspec.convert(step.result, RecordedReply)
    return Reply(kept.text, kept.finish, step.usage, kept.model, kept.id, kept.logprobs, kept.reasoning)


def recordable_reply(reply: Reply) -> Reply:
    """A reply that was paid for, with what JSON cannot hold replaced: lone surrogates, and numbers that are none."""
    plain = encodable(_finite(msgspec.to_builtins(reply)))
    return msgspec.convert(plain, Reply)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def returned(value: Any, function: Callable[..., Any]) -> Any:
    """A step's recorded result, as the type that its function says it returns; as it is where that does not fit."""
    try:
        hint = typing.get_type_hints(function).get("return", Any)
    except (NameError, TypeError, AttributeError):
        return value
    try:
        return value if hint is Any else msgspec.json.decode(msgspec.json.encode(value), type=hint)
    except (msgspec.MsgspecError, TypeError):
        return value


def total(steps: list[Usage | None]) -> Usage | None:
    """The usage of several steps; None if nobody counted."""
    known = [usage for usage in steps if usage is not None]
    return sum(known[1:], known[0]) if known else None
