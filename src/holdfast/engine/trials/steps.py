"""Durable steps: what a trial has done is never done again.

The key of a step is its name, the fingerprint of what was asked, and how many times that had been asked before. So
branches that run side by side find their own replies again in whatever order they arrive, and a request that is not on
record is made live without affecting the others.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.errors import UsageError
from holdfast.models.message import Message, Reply, Request, Usage, encodable, fingerprint
from holdfast.run.core.records import StepRecord
from holdfast.spec import Generation
from holdfast.tasks.json_values import RECORDABLE, Unrecordable, recorded

_encoder = msgspec.json.Encoder(order="deterministic")
_DEFAULT_GENERATION = Generation()


def request_fingerprint(request: Request) -> str:
    """The fingerprint of a request, in the key of its step."""
    return blake2b(fingerprint(request), digest_size=12).hexdigest()


def arguments_fingerprint(arguments: list[Any]) -> str:
    """The fingerprint of a step's arguments, in its key."""
    return blake2b(_encoder.encode(arguments), digest_size=12).hexdigest()


def fingerprint_in_key(key: str) -> str:
    """The fingerprint of the request in a step's key."""
    return key.rpartition(":")[2].partition("#")[0]


def request_in_key(key: str) -> str:
    """The name and the fingerprint in a step's key, without how many times that was asked."""
    return key.rpartition("#")[0]


def as_recorded(name: str, part: str, value: object) -> Any:
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

    def __init__(self, records: list[StepRecord]) -> None:
        self._waiting = {step.step: step for step in records if step.error is None}
        self._failed = [step for step in records if step.error is not None]
        self._asked: dict[str, int] = {}

    def key(self, name: str, fingerprint: str) -> str:
        """The identity of the step that is asked for now."""
        base = f"{name}:{fingerprint}"
        count = self._asked[base] = self._asked.get(base, 0) + 1
        return f"{base}#{count}"

    def replay(self, key: str) -> StepRecord | None:
        """The step on record, if it is; it is given once."""
        return self._waiting.pop(key, None)

    def unused(self) -> list[StepRecord]:
        """Steps on record that nobody has asked for in this session; each is given once."""
        unused, self._waiting, self._failed = [*self._waiting.values(), *self._failed], {}, []
        return unused


def recorded_request(request: Request, added: Sequence[Message]) -> dict[str, Any]:
    """What is new in a request, and how the reply was to be drawn."""
    if request.generation == _DEFAULT_GENERATION:
        return {"messages": added}
    chosen = {name: value for name, value in msgspec.to_builtins(request.generation).items() if value not in (None, {})}
    return {"messages": added, "generation": chosen}


class RecordedReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reply as it is in a step's record; its usage is beside it."""

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
    """A reply that was paid for, with what JSON cannot hold replaced: lone surrogates, infinities, NaN."""
    plain = encodable(_finite(msgspec.to_builtins(reply)))
    return msgspec.convert(plain, Reply)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def typed_result(value: Any, function: Callable[..., Any]) -> Any:
    """A step's recorded result, as the type that its function says it returns; as it is where that does not fit."""
    try:
        hint = typing.get_type_hints(function).get("return", Any)
    except (NameError, TypeError, AttributeError):
        return value
    try:
        return value if hint is Any else msgspec.json.decode(msgspec.json.encode(value), type=hint)
    except (msgspec.MsgspecError, TypeError):
        return value


def total_usage(usages: list[Usage | None]) -> Usage | None:
    """The usage of several steps; None if nobody counted."""
    known = [usage for usage in usages if usage is not None]
    return sum(known[1:], known[0]) if known else None
