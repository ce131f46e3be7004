"""The content of a reply: blocks become text, parts and calls of tools, in a form that goes back as it came.

A block of thinking has a signature, which the API checks when it gets the block back: it is kept whole, as is every
block that has no type here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast.models.content import Content, Part, RawPart, TextPart, ToolCall, thought_in
from holdfast.models.http.json_body import text_of


class ReadBlocks(NamedTuple):
    """What the blocks of a reply hold."""

    content: Content
    tool_calls: tuple[ToolCall, ...]
    reasoning: str


def read_blocks(blocks: list[Any]) -> ReadBlocks:
    """All that the blocks hold. Calls of tools are apart from the content, unless something comes after them."""
    calls = tuple(_read_call(block) for block in blocks if _is_call(block))
    last_other = max((place for place, block in enumerate(blocks) if not _is_call(block)), default=-1)
    parts = [_read_part(block) for place, block in enumerate(blocks) if not _is_call(block) or place < last_other]
    return ReadBlocks(_as_content(parts), calls, "".join(map(thought_in, parts)))


def _as_content(parts: list[Part]) -> Content:
    if all(isinstance(part, TextPart) for part in parts) and len(parts) <= 1:
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    return tuple(parts)


def _is_call(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_use"


def _read_part(block: Any) -> Part:
    stated = {name: value for name, value in block.items() if value is not None} if isinstance(block, dict) else {}
    text = stated.get("text")
    if isinstance(text, str) and stated == {"type": "text", "text": text}:
        return TextPart(text)
    return RawPart(block)


def _read_call(block: dict[str, Any]) -> ToolCall:
    arguments = block.get("input")
    call = ToolCall(text_of(block.get("id")), text_of(block.get("name")), text_of(arguments))
    stated = {name: value for name, value in block.items() if value is not None}
    usual = {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}
    return call if stated == usual and isinstance(arguments, dict) else msgspec.structs.replace(call, raw=block)
