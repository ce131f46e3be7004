"""Messages in the chat format: what a request holds, and what is read from a reply.

A server's message is read whole. What has no field of its own is kept as the JSON it came as, and a call or part that
is not of the usual shape goes back to the server exactly as the server sent it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.models.content import Content, ImagePart, Part, RawPart, TextPart, ToolCall, refusal_in, thought_in
from holdfast.models.http.json_body import text_of
from holdfast.models.message import Message

_READ = frozenset({"role", "content", "tool_calls", "function_call", "audio", "images"})
_TEXTS = frozenset({"reasoning_content", "reasoning", "refusal"})


class ChatMessage(msgspec.Struct, frozen=True):
    """The message of a reply, as far as it was understood; all of the rest is in `other`."""

    content: Content
    reasoning: str
    refusal: str
    tool_calls: tuple[ToolCall, ...]
    other: dict[str, Any]


def chat_messages(messages: tuple[Message, ...], reasoning_field: str | None = None) -> Iterable[Any]:
    """The messages as they are to be encoded; plain ones are encoded as they are."""
    if all(map(_is_sent_as_it_is, messages)):
        return messages
    return [item if _is_sent_as_it_is(item) else _chat_message(item, reasoning_field) for item in messages]


def _is_sent_as_it_is(message: Message) -> bool:
    return type(message.content) is str and not (message.tool_calls or message.reasoning or message.refusal)


def _chat_message(message: Message, reasoning_field: str | None) -> dict[str, Any]:
    content = message.content
    sent: dict[str, Any] = {"role": message.role, "content": content}
    if not isinstance(content, str):
        sent["content"] = [_chat_part(part) for part in content]
    elif not content and (message.tool_calls or message.refusal):
        sent["content"] = None
    named = {"name": message.name, "tool_call_id": message.tool_call_id, "refusal": message.refusal}
    sent |= {name: value for name, value in named.items() if value}
    if message.tool_calls:
        sent["tool_calls"] = [_chat_call(call) for call in message.tool_calls]
    if message.reasoning and reasoning_field:
        sent[reasoning_field] = message.reasoning
    return sent


def _chat_part(part: Part) -> Any:
    if isinstance(part, ImagePart):
        image = {"url": part.url, "detail": part.detail} if part.detail else {"url": part.url}
        return {"type": "image_url", "image_url": image}
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return part.value if isinstance(part, RawPart) else part


def _chat_call(call: ToolCall) -> Any:
    if call.raw is not None:
        return call.raw
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def read_chat_message(message: dict[str, Any]) -> ChatMessage:
    """All that a server's message holds; its content is text, a list of parts or null."""
    content, tools = _read_content(message), _read_calls(message)
    parts = () if isinstance(content, str) else content
    thought = _first_text(message, "reasoning_content", "reasoning")
    refusal = _first_text(message, "refusal")
    other = {
        name: value
        for name, value in message.items()
        if value and name not in _READ and not (name in _TEXTS and value in (thought, refusal))
    }
    thought += "".join(map(thought_in, parts))
    return ChatMessage(content, thought, refusal or "".join(map(refusal_in, parts)), tools, other)


def _first_text(message: dict[str, Any], *names: str) -> str:
    found = (message.get(name) for name in names)
    return next((text for text in found if text and isinstance(text, str)), "")


def _read_content(message: dict[str, Any]) -> Content:
    content, images, audio = message.get("content") or "", message.get("images"), message.get("audio")
    if isinstance(content, str) and not images and not audio:
        return content
    found = [{"type": "text", "text": content}] if isinstance(content, str) and content else [*content]
    found += images if isinstance(images, list) else [{"type": "images", "images": images}] if images else []
    found += [{"type": "audio", "audio": audio}] if audio else []
    return tuple(map(_read_part, found)) or ""


def _read_part(value: Any) -> Part:
    members = value if isinstance(value, dict) else {}
    image = members.get("image_url")
    part: Part = RawPart(value)
    if isinstance(members.get("text"), str):
        part = TextPart(members["text"])
    elif isinstance(image, dict) and isinstance(image.get("url"), str):
        part = ImagePart(image["url"], image["detail"] if isinstance(image.get("detail"), str) else "")
    return part if _chat_part(part) == value else RawPart(value)


def _read_calls(message: dict[str, Any]) -> tuple[ToolCall, ...]:
    calls = message.get("tool_calls") or message.get("function_call")
    if not calls:
        return ()
    return tuple(map(_read_call, calls if isinstance(calls, list) else [calls]))


def _read_call(value: Any) -> ToolCall:
    members = value if isinstance(value, dict) else {}
    inner = members.get("function") or members.get("custom") or members
    function = inner if isinstance(inner, dict) else {}
    arguments = function.get("arguments", function.get("input"))
    call = ToolCall(text_of(members.get("id")), text_of(function.get("name")), text_of(arguments))
    return call if _chat_call(call) == value else msgspec.structs.replace(call, raw=value)
