"""Messages as the Messages API wants them: a system text apart, content in blocks, results of tools from the user.

What cannot be sent is refused with its reason, and never left out.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from holdfast.models.content import ImagePart, Part, RawPart, TextPart, ToolCall
from holdfast.models.errors import Rejected, excerpt
from holdfast.models.message import Message

_SYSTEM = ("system", "developer")
_NO_INPUT: dict[str, Any] = {}


class SentConversation(NamedTuple):
    """A conversation in the terms of the API."""

    system: str | list[Any] | None
    messages: list[dict[str, Any]]


def as_conversation(messages: tuple[Message, ...]) -> SentConversation:
    """The messages as they are sent: system texts that come first apart, results of tools together in one message.

    Raises:
        Rejected: the API has no place for something in them.
    """
    first = next((place for place, message in enumerate(messages) if message.role not in _SYSTEM), len(messages))
    sent: list[dict[str, Any]] = []
    for place, message in enumerate(messages[first:], first):
        turn = _turn(message)
        if message.role == "tool" and place > first and messages[place - 1].role == "tool":
            sent[-1]["content"] += turn["content"]
        else:
            sent.append(turn)
    return SentConversation(_system(messages[:first]), sent)


def _system(messages: tuple[Message, ...]) -> str | list[Any] | None:
    if len(messages) == 1 and isinstance(messages[0].content, str):
        return messages[0].content
    return [block for message in messages for block in _blocks(message)] or None


def _turn(message: Message) -> dict[str, Any]:
    if message.name:
        raise Rejected(
            f"A message has the name {excerpt(message.name, 60)!r}, and the Messages API takes no names of messages.",
            hint="Write the name into the text.",
        )
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.tool_call_id or "", "content": _content(message)}
        return {"role": "user", "content": [result]}
    role = "system" if message.role in _SYSTEM else message.role
    if not message.tool_calls:
        return {"role": role, "content": _content(message)}
    return {"role": role, "content": [*_blocks(message), *_calls_apart(message)]}


def _content(message: Message) -> str | list[Any]:
    if isinstance(message.content, str):
        return message.content or message.refusal
    return _blocks(message)


def _blocks(message: Message) -> list[Any]:
    """The content as blocks; the API refuses an empty text in one."""
    content = message.content
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [_block(part) for part in content]


def _calls_apart(message: Message) -> Iterable[Any]:
    """The calls of tools that do not stand in the content, between its other parts."""
    parts = () if isinstance(message.content, str) else message.content
    placed = {part.value.get("id") for part in parts if isinstance(part, RawPart) and isinstance(part.value, dict)}
    return (_tool_use(call) for call in message.tool_calls if call.id not in placed)


def _block(part: Part) -> Any:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image", "source": _image_source(part.url)} if isinstance(part, ImagePart) else part.value


def _image_source(url: str) -> dict[str, str]:
    head, comma, data = url.partition(",")
    if not head.lower().startswith("data:"):
        return {"type": "url", "url": url}
    media_type, _, encoding = head[len("data:") :].partition(";")
    if not comma or encoding.lower() != "base64" or not media_type:
        raise Rejected(
            f"An image is a data: URL that begins with {excerpt(head, 60)!r}; the Messages API takes base64 only.",
            hint="Write it as data:image/png;base64,... .",
        )
    try:
        binascii.a2b_base64(data)
    except ValueError as error:
        raise Rejected(f"An image is a data: URL that is not valid base64: {error}.") from None
    return {"type": "base64", "media_type": media_type, "data": data}


def _tool_use(call: ToolCall) -> Any:
    if isinstance(call.raw, dict) and call.raw.get("type") == "tool_use":
        return call.raw
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": read_input(call)}


def read_input(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call as the object that the API takes.

    Raises:
        Rejected: they are not one.
    """
    try:
        found = msgspec.json.decode(call.arguments) if call.arguments.strip() else _NO_INPUT
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Rejected(
            f"The call of the tool {excerpt(call.name, 60)!r} has arguments that are not a JSON object, which the"
            " Messages API needs.",
            detail=call.arguments,
        )
    return found
