"""The chat format of OpenAI-compatible servers: requests to bytes, bytes to a Reply.

What stays the same from request to request is encoded once. A reply that JSON forbids but a reader can still
make out (lone surrogates, raw control characters, NaN) is read all the same: it has been paid for.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.errors import Blocked, ModelError, Unavailable
from holdfast.models.message import Reply, Request, Usage, encodable
from holdfast.models.openai.error_responses import from_error_field, unreadable
from holdfast.models.redaction import redact
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


class ChatMessage(msgspec.Struct, gc=False):
    """The message of a choice; content may be text, a list of parts, or null."""

    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None


class ChatChoice(msgspec.Struct, gc=False):
    """One of the answers; there is never more than one asked for."""

    message: ChatMessage
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

    def __init__(self, model: str, max_tokens_field: str) -> None:
        self._head = b'{"model":' + _ENCODER.encode(model) + b',"messages":'
        self._max_tokens_field = max_tokens_field
        self._generation: Generation | None = None
        self._tail = b""

    def encode(self, request: Request) -> bytes:
        """The body of the one HTTP request for this question."""
        if request.generation is not self._generation:
            self._tail = self._encode_tail(request.generation)
            self._generation = request.generation
        try:
            messages = _ENCODER.encode(request.messages)
        except UnicodeEncodeError:
            messages = _ENCODER.encode(encodable(msgspec.to_builtins(request.messages)))
        return b"".join((self._head, messages, self._tail))

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
    finish = _FINISH.get(choice.finish_reason or "", choice.finish_reason or "")
    reply = _as_reply(answer, choice, finish)
    if finish in _NO_REPLY:
        raise _cut_off(name, status, reply)
    return reply


def _cut_off(name: str, status: int, reply: Reply) -> ModelError:
    if reply.finish == "error":
        return Unavailable(f"{name} broke the reply off (finish_reason error).", status=status, detail=reply.text)
    blocked = Blocked(f"{name} blocked the reply (finish_reason content_filter).", status=status, detail=reply.text)
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


def _as_reply(answer: ChatCompletion, choice: ChatChoice, finish: str) -> Reply:
    message = choice.message
    content = message.content
    thought = message.reasoning_content or message.reasoning or ""
    if isinstance(content, list):
        content, thought = _join_parts(content, thought)
    said = content or message.refusal or ""
    text = redact(said)
    # The tokens of a redacted text would still spell the secret.
    logprobs = choice.logprobs if text is said else None
    return Reply(
        text,
        finish,
        _as_usage(answer.usage),
        redact(answer.model or ""),
        redact(str(answer.id or "")),
        logprobs,
        redact(thought) if thought else "",
    )


def _join_parts(parts: list[dict[str, Any]], thought: str) -> tuple[str, str]:
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    for part in parts:
        inner = part.get("thinking")
        if isinstance(inner, str):
            thought += inner
        elif isinstance(inner, list):
            thought += _join_parts([item for item in inner if isinstance(item, dict)], "")[0]
    return "".join(texts), thought


def _as_usage(usage: ChatUsage | None) -> Usage | None:
    if usage is None:
        return None
    cached = usage.prompt_cache_hit_tokens or 0
    if usage.prompt_tokens_details is not None:
        cached = usage.prompt_tokens_details.cached_tokens or cached
    details = usage.completion_tokens_details
    thinking = (details.reasoning_tokens or 0) if details is not None else 0
    return Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0, cached, thinking)
