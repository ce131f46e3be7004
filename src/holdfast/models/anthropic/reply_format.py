"""Bytes to a Reply: the body of a successful answer, read as far as it can be.

A stop reason or an error behind a successful status that says that there is no answer becomes the ModelError that it
stands for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast.models.anthropic.reply_blocks import read_blocks
from holdfast.models.anthropic.reply_usage import CACHE_WRITTEN, ReadUsage, read_usage
from holdfast.models.content import joined_text
from holdfast.models.errors import ModelError
from holdfast.models.finish_reasons import USUAL_REASONS, finish_error, usual_spelling
from holdfast.models.http.connection import HttpAnswer
from holdfast.models.http.error_responses import from_error_field, is_complaint, unreadable, without_reply
from holdfast.models.http.json_body import is_nested_too_deeply, read_loosely, text_of
from holdfast.models.message import Reply
from holdfast.models.redaction import redact, redact_json

_READ = frozenset({"id", "type", "role", "model", "content", "stop_reason", "usage", "error"})


class MessagesBody(NamedTuple):
    """A body, and what is wrong with it although it could be read."""

    data: dict[str, Any]
    undecoded: str
    warnings: dict[str, str]


def decode_message(name: str, answer: HttpAnswer) -> Reply:
    """The reply in the body of a successful answer; a ModelError where there is none in it."""
    read = _read_body(name, answer)
    usage = read_usage(read.data.get("usage"))
    if is_complaint(error := read.data.get("error")):
        raise _with_usage(from_error_field(name, error), usage)
    reply = _as_reply(read, _checked_blocks(name, answer, read.data), usage)
    if reply.finish not in USUAL_REASONS and (failure := finish_error(name, reply, answer.status)) is not None:
        raise failure
    return reply


def _read_body(name: str, answer: HttpAnswer) -> MessagesBody:
    try:
        data, undecoded, warnings = msgspec.json.decode(answer.body), "", dict[str, str]()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        loose = read_loosely(name, answer.status, answer.body, answer.charset)
        undecoded = loose.undecoded(_said_in)
        data, warnings = loose.value, loose.encoding_warning(undecoded)
    if not isinstance(data, dict):
        reason = f"JSON of an unexpected shape ({type(data).__name__})"
        raise unreadable(name, answer.status, answer.body, reason)
    return MessagesBody(data, undecoded, warnings)


def _said_in(data: Any) -> str:
    blocks = data.get("content") if isinstance(data, dict) else None
    return joined_text(read_blocks(blocks).content) if isinstance(blocks, list) else ""


def _checked_blocks(name: str, answer: HttpAnswer, data: dict[str, Any]) -> list[Any]:
    """The blocks of a reply. Refuses what could not be kept; anything else is, whatever it is."""
    blocks = data.get("content")
    if blocks is None:
        raise without_reply(name, answer.status, answer.body, answer.charset, "content")
    if not isinstance(blocks, list):
        reason = f"JSON of an unexpected shape (content is {type(blocks).__name__})"
        raise unreadable(name, answer.status, answer.body, reason)
    if is_nested_too_deeply(data):
        raise unreadable(name, answer.status, answer.body, "JSON that is nested too deeply")
    return blocks


def _with_usage(failure: ModelError, usage: ReadUsage) -> ModelError:
    failure.usage = usage.usage
    return failure


def _as_reply(read: MessagesBody, blocks: list[Any], usage: ReadUsage) -> Reply:
    data = read.data
    said = read_blocks(redact_json(blocks))
    return Reply(
        said.content,
        redact(usual_spelling(text_of(data.get("stop_reason")))),
        usage.usage,
        redact(_text_in(data, "model")),
        redact(_text_in(data, "id")),
        reasoning=said.reasoning,
        refusal=_refusal(data),
        tool_calls=said.tool_calls,
        other=_others(data, usage),
        undecoded=read.undecoded,
        warnings={**read.warnings, **usage.warnings},
    )


def _text_in(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _refusal(data: dict[str, Any]) -> str:
    """Why the service refused, in its words; it may give none."""
    details = data.get("stop_details")
    explanation = details.get("explanation") if isinstance(details, dict) else None
    is_refused = data.get("stop_reason") == "refusal" and isinstance(explanation, str)
    return redact(explanation) if is_refused and isinstance(explanation, str) else ""


def _others(data: dict[str, Any], usage: ReadUsage) -> dict[str, Any]:
    others = {name: value for name, value in data.items() if value and name not in _READ}
    if usage.cache_written:
        others[CACHE_WRITTEN] = usage.cache_written
    found: dict[str, Any] = redact_json(others)
    return found
