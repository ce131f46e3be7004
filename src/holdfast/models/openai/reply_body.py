"""The body of a successful answer, read as far as it can be.

What JSON forbids but a reader can still make out (lone surrogates, raw control characters, NaN) is read anyway, and a
field beside the message that has an unexpected type costs that field and not the reply: the reply has been paid for.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from holdfast.models.content import joined_text
from holdfast.models.http.error_responses import unreadable
from holdfast.models.http.json_body import read_loosely
from holdfast.models.message import UNKNOWN_USAGE, USAGE_PARTS
from holdfast.models.openai.chat_messages import read_chat_message
from holdfast.models.openai.chat_usage import ChatUsage, as_usage, readable_usage


class ChatChoice(msgspec.Struct):
    """One of the answers; there is never more than one asked for."""

    message: dict[str, Any] | None = None
    finish_reason: str | None = None
    logprobs: Any = None
    error: Any = None
    tool_calls: Any = None
    function_call: Any = None


class ChatCompletion(msgspec.Struct):
    """The whole body of an answer."""

    choices: list[ChatChoice] | None = None
    usage: ChatUsage | None = None
    model: str | None = None
    id: str | int | None = None
    error: Any = None
    errors: Any = None


class ReadBody(msgspec.Struct, frozen=True):
    """A body, and what is wrong with it although it could be read."""

    answer: ChatCompletion
    undecoded: str = ""
    """The bytes of the reply's text in base64, if they are not all text."""
    warnings: dict[str, str] = {}


_DECODER = msgspec.json.Decoder(ChatCompletion)


def read_body(name: str, status: int, body: bytes, charset: str = "") -> ReadBody:
    """The body of an answer; an Unavailable where it is not one."""
    answer = _read_strictly(body)
    return ReadBody(answer) if answer is not None else _read_leniently(name, status, body, charset)


def _read_strictly(body: bytes) -> ChatCompletion | None:
    """The body if it is as the format has it, as nearly every one is."""
    try:
        answer = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # A usage without its sums is unknown, and the warning that says so quotes it.
    return answer if answer.usage is None or as_usage(answer.usage) is not None else None


def _read_leniently(name: str, status: int, body: bytes, charset: str) -> ReadBody:
    loose = read_loosely(name, status, body, charset)
    try:
        undecoded = loose.undecoded(_said_in)
        warnings = loose.encoding_warning(undecoded)
        return ReadBody(msgspec.convert(_mended(loose.value, warnings), ChatCompletion), undecoded, warnings)
    except msgspec.ValidationError as error:
        reason = f"JSON of an unexpected shape ({error})"
    except RecursionError:
        reason = "JSON that is nested too deeply"
    raise unreadable(name, status, body, reason)


def _said_in(data: Any) -> str:
    """What the reply in a body says, as far as that can be found."""
    choices = data.get("choices") if isinstance(data, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict) or not isinstance(message.get("content"), str | list | None):
        return ""
    read = read_chat_message(message)
    return joined_text(read.content) or read.refusal


def _mended(data: Any, warnings: dict[str, str]) -> Any:
    """The same, with everything beside the message brought to a type that can be read."""
    if not isinstance(data, dict):
        return data
    usage, problem = readable_usage(data.get("usage"))
    data["usage"] = None if usage is None else msgspec.to_builtins(usage)
    if problem:
        warnings[UNKNOWN_USAGE if data["usage"] is None else USAGE_PARTS] = problem
    for field, types in (("model", str), ("id", str | int)):
        if not isinstance(data.get(field), types) or isinstance(data.get(field), bool):
            data[field] = None
    for choice in data["choices"] if isinstance(data.get("choices"), list) else ():
        if isinstance(choice, dict) and not isinstance(choice.get("finish_reason"), str | None):
            choice["finish_reason"] = json.dumps(choice["finish_reason"])
    return data
