"""The chat format of OpenAI-compatible servers: requests to bytes, bytes to a Reply.

What stays the same from request to request is encoded once. A reply that JSON forbids but a reader can still make out
(lone surrogates, raw control characters, NaN) is read anyway: it has been paid for.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.content import joined_text
from holdfast.models.errors import Blocked, ModelError, Unavailable
from holdfast.models.message import Reply, Request, Usage, encodable
from holdfast.models.openai.chat_messages import chat_messages, is_nested_too_deeply, read_chat_message
from holdfast.models.openai.error_responses import from_error_field, unreadable
from holdfast.models.redaction import redact, redact_json
from holdfast.spec import Generation

RESERVED = ("messages", "model", "n", "stream")
_FINISH = {"eos": "stop", "STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter"}
_NO_REPLY = frozenset({"content_filter", "error"})
_ENCODER = msgspec.json.Encoder()


class InputDetails(msgspec.Struct, gc=False):
    """Parts of the input tokens."""

    cached_tokens: int | None = None


class OutputDetails(msgspec.Struct, gc=False):
    """Parts of the output tokens."""

    reasoning_tokens: int | None = None


class ChatUsage(msgspec.Struct, gc=False):
    """Tokens as the server counts them."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: InputDetails | None = None
    completion_tokens_details: OutputDetails | None = None
    prompt_cache_hit_tokens: int | None = None


class ChatChoice(msgspec.Struct):
    """One of the answers; there is never more than one asked for."""

    message: dict[str, Any]
    finish_reason: str | None = None
    logprobs: Any = None


class ChatCompletion(msgspec.Struct):
    """The whole body of an answer."""

    choices: list[ChatChoice] | None = None
    usage: ChatUsage | None = None
    model: str | None = None
    id: str | int | None = None
    error: Any = None


_DECODER = msgspec.json.Decoder(ChatCompletion)


class RequestEncoder:
    """Encodes requests to one model; the part before the messages is fixed, the part after them is kept."""

    def __init__(self, model: str, max_tokens_field: str, reasoning_field: str | None = None) -> None:
        self._head = b'{"model":' + _ENCODER.encode(model) + b',"messages":'
        self._max_tokens_field, self._reasoning_field = max_tokens_field, reasoning_field
        self._generation: Generation | None = None
        self._tail = b""

    def encode(self, request: Request) -> bytes:
        """The body of the one HTTP request for this question."""
        if request.generation is not self._generation:
            self._tail = self._encode_tail(request.generation)
            self._generation = request.generation
        messages = chat_messages(request.messages, self._reasoning_field)
        try:
            encoded = _ENCODER.encode(messages)
        except UnicodeEncodeError:
            encoded = _ENCODER.encode(encodable(msgspec.to_builtins(messages)))
        return b"".join((self._head, encoded, self._tail))

    def _encode_tail(self, generation: Generation) -> bytes:
        fields = msgspec.to_builtins(generation)
        extra = fields.pop("extra_body", None) or {}
        for name in RESERVED:
            if name in extra:
                raise ConfigurationError(
                    f"generation.extra_body sets {name!r}, which holdfast sets itself.",
                    hint="Remove it; one whole reply is asked for per request.",
                )
        if "max_tokens" in fields:
            fields[self._max_tokens_field] = fields.pop("max_tokens")
        members = {name: value for name, value in fields.items() if value is not None} | extra
        encoded = _ENCODER.encode(encodable(members))
        return b"," + encoded[1:] if members else b"}"


def decode_reply(name: str, status: int, body: bytes) -> Reply:
    """The reply in the body of a successful answer; a ModelError where there is none in it."""
    answer = _decode_strictly(name, status, body)
    if not answer.choices:
        if answer.error is not None:
            raise from_error_field(name, answer.error)
        raise unreadable(name, status, body, "JSON that holds no choices")
    choice = answer.choices[0]
    _check_shape(name, status, body, choice)
    finish = _FINISH.get(choice.finish_reason or "", choice.finish_reason or "")
    reply = _as_reply(answer, choice, finish)
    if finish in _NO_REPLY:
        raise _cut_off(name, status, reply)
    return reply


def _check_shape(name: str, status: int, body: bytes, choice: ChatChoice) -> None:
    """Refuses what could not be kept; anything else is, whatever it is."""
    content = choice.message.get("content")
    if content is not None and not isinstance(content, str | list):
        reason = f"JSON of an unexpected shape (content is {type(content).__name__})"
        raise unreadable(name, status, body, reason)
    if is_nested_too_deeply(choice.message) or is_nested_too_deeply(choice.logprobs):
        raise unreadable(name, status, body, "JSON that is nested too deeply")


def _cut_off(name: str, status: int, reply: Reply) -> ModelError:
    said = joined_text(reply.content) or reply.refusal
    if reply.finish == "error":
        return Unavailable(f"{name} broke the reply off (finish_reason error).", status=status, detail=said)
    blocked = Blocked(f"{name} blocked the reply (finish_reason content_filter).", status=status, detail=said)
    blocked.usage = reply.usage
    return blocked


def _decode_strictly(name: str, status: int, body: bytes) -> ChatCompletion:
    try:
        return _DECODER.decode(body)
    except msgspec.ValidationError as error:
        reason = f"JSON of an unexpected shape ({error})"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        reason = ""
    if not reason:
        return _decode_leniently(name, status, body)
    raise unreadable(name, status, body, reason)


def _decode_leniently(name: str, status: int, body: bytes) -> ChatCompletion:
    try:
        data = json.loads(body.decode("utf-8-sig", "replace"), strict=False)
        return msgspec.convert(encodable(data), ChatCompletion)
    except msgspec.ValidationError as error:
        reason = f"JSON of an unexpected shape ({error})"
    except RecursionError:
        reason = "JSON that is nested too deeply"
    except ValueError:
        reason = "something that is not JSON, or not all of it"
    raise unreadable(name, status, body, reason)


def _tokens_without_secrets(choice: ChatChoice, said: Any) -> Any:
    """The log probabilities, or None: the tokens of a redacted text would still spell the secret, and so may others."""
    if said != choice.message or redact_json(choice.logprobs) != choice.logprobs:
        return None
    return choice.logprobs


def _as_reply(answer: ChatCompletion, choice: ChatChoice, finish: str) -> Reply:
    said = redact_json(choice.message)
    message = read_chat_message(said)
    return Reply(
        message.content,
        redact(finish),
        _as_usage(answer.usage),
        redact(answer.model or ""),
        redact(str(answer.id or "")),
        _tokens_without_secrets(choice, said),
        message.reasoning,
        message.refusal,
        message.tool_calls,
        message.other,
    )


def _as_usage(usage: ChatUsage | None) -> Usage | None:
    if usage is None:
        return None
    cached = usage.prompt_cache_hit_tokens or 0
    if usage.prompt_tokens_details is not None:
        cached = usage.prompt_tokens_details.cached_tokens or cached
    details = usage.completion_tokens_details
    thinking = (details.reasoning_tokens or 0) if details is not None else 0
    return Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0, cached, thinking)
