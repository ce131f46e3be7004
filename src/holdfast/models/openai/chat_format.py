"""The chat format of OpenAI-compatible servers: requests to bytes, bytes to a Reply.

What stays the same from request to request is encoded once. A finish reason or an error behind a successful status
that says that there is no answer becomes the ModelError that it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.errors import ModelError
from holdfast.models.finish_reasons import USUAL_REASONS, finish_error, usual_spelling
from holdfast.models.http.error_responses import from_error_field, is_complaint, unreadable, without_reply
from holdfast.models.http.json_body import is_nested_too_deeply
from holdfast.models.message import Reply, Request, encodable
from holdfast.models.openai.chat_messages import chat_messages, read_chat_message
from holdfast.models.openai.chat_usage import as_usage
from holdfast.models.openai.endpoint import Dialect
from holdfast.models.openai.reply_body import ChatChoice, ChatCompletion, ReadBody, read_body
from holdfast.models.redaction import redact, redact_json
from holdfast.spec import Generation

RESERVED = ("messages", "model", "n", "stream")
_FORMAT, _SCHEMA_NAME = "response_format", "reply"
_ENCODER = msgspec.json.Encoder()


class RequestEncoder:
    """Encodes requests to one model; the part before the messages is fixed, the part after them is kept."""

    def __init__(self, model: str, dialect: Dialect) -> None:
        self._head = b'{"model":' + _ENCODER.encode(model) + b',"messages":'
        self._dialect = dialect
        self._generation: Generation | None = None
        self._tail = b""

    def encode(self, request: Request) -> bytes:
        """The body of the one HTTP request for this question."""
        if request.generation is not self._generation:
            self._tail = self._encode_tail(request.generation)
            self._generation = request.generation
        format_ = self._encode_format(request)
        messages = chat_messages(request.messages, self._dialect.reasoning_field)
        try:
            encoded = _ENCODER.encode(messages)
        except UnicodeEncodeError:
            encoded = _ENCODER.encode(encodable(msgspec.to_builtins(messages)))
        return b"".join((self._head, encoded, self._tail, format_, b"}"))

    def _encode_format(self, request: Request) -> bytes:
        """The member of the body that holds the reply to a schema; empty where none is asked for."""
        schema = request.response_schema
        if schema is None or not self._dialect.takes_response_schema:
            return b""
        if _FORMAT in request.generation.extra_body:
            raise ConfigurationError(
                f"generation.extra_body sets {_FORMAT!r}, and the call has a response_schema.",
                hint="Remove one of them.",
            )
        value = {"type": "json_schema", "json_schema": {"name": _SCHEMA_NAME, "schema": schema, "strict": True}}
        return b',"%b":%b' % (_FORMAT.encode(), _ENCODER.encode(encodable(value)))

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
            fields[self._dialect.max_tokens_field] = fields.pop("max_tokens")
        members = {name: value for name, value in fields.items() if value is not None} | extra
        encoded = _ENCODER.encode(encodable(members))
        return b"," + encoded[1:-1] if members else b""


def decode_reply(name: str, status: int, body: bytes, charset: str = "") -> Reply:
    """The reply in the body of a successful answer; a ModelError if the body has no reply.

    `charset` is the encoding that the answer's header names, for a body that is not UTF-8.
    """
    read = read_body(name, status, body, charset)
    answer = read.answer
    choice = answer.choices[0] if answer.choices else None
    for error in _errors_in(answer, choice):
        if error and is_complaint(error):
            raise _with_usage(from_error_field(name, error), answer)
    if choice is None:
        raise without_reply(name, status, body, charset, "choices")
    message = _checked_message(name, status, body, choice)
    reply = _as_reply(read, choice, message)
    if reply.finish not in USUAL_REASONS and (failure := finish_error(name, reply, status)) is not None:
        raise failure
    return reply


def _errors_in(answer: ChatCompletion, choice: ChatChoice | None) -> Iterable[Any]:
    """What is where servers put an error: beside the choices, in the choice, or in its message."""
    yield answer.error
    yield answer.errors
    if choice is not None:
        yield choice.error
        if choice.message is not None:
            yield choice.message.get("error")


def _with_usage(failure: ModelError, answer: ChatCompletion) -> ModelError:
    failure.usage = as_usage(answer.usage)
    return failure


def _checked_message(name: str, status: int, body: bytes, choice: ChatChoice) -> dict[str, Any]:
    """The message of a reply. Refuses what could not be kept; anything else is, whatever it is."""
    message = choice.message
    if message is None:
        raise unreadable(name, status, body, "JSON of an unexpected shape (a choice without a message)")
    content = message.get("content")
    if content is not None and not isinstance(content, str | list):
        reason = f"JSON of an unexpected shape (content is {type(content).__name__})"
        raise unreadable(name, status, body, reason)
    message = _with_calls(message, choice)
    if is_nested_too_deeply(message) or is_nested_too_deeply(choice.logprobs):
        raise unreadable(name, status, body, "JSON that is nested too deeply")
    return message


def _with_calls(message: dict[str, Any], choice: ChatChoice) -> dict[str, Any]:
    """The message with the calls that some servers put beside it, unless it has its own."""
    beside = choice.tool_calls or choice.function_call
    if not beside or message.get("tool_calls") or message.get("function_call"):
        return message
    return {**message, "tool_calls": beside}


def _tokens_without_secrets(choice: ChatChoice, received: Any, said: Any) -> Any:
    """The log probabilities, or None: the tokens of a redacted text would still spell the secret, and so may others."""
    if said != received or redact_json(choice.logprobs) != choice.logprobs:
        return None
    return choice.logprobs


def _as_reply(read: ReadBody, choice: ChatChoice, received: dict[str, Any]) -> Reply:
    answer, said = read.answer, redact_json(received)
    message = read_chat_message(said)
    return Reply(
        message.content,
        redact(usual_spelling(choice.finish_reason or "")),
        as_usage(answer.usage),
        redact(answer.model or ""),
        redact(str(answer.id or "")),
        _tokens_without_secrets(choice, received, said),
        message.reasoning,
        message.refusal,
        message.tool_calls,
        message.other,
        read.undecoded,
        read.warnings,
    )
