"""A message or a reply as a person reads it in a transcript: what was said, and what came beside it.

It is read from a record, which an earlier or a later version may have written: whatever is there is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_SHOWN_CHARACTERS = 20_000
_SHOWN_OF_A_PART = 200


def message_text(speaker: str, message: Any) -> str:
    """The speaker and the text in a line, then a line each for its parts, its refusal and its calls of tools."""
    if not isinstance(message, dict):
        return f"[{speaker}] {first_characters(message)}"
    content = message.get("parts") or message.get("content", message.get("text", ""))
    lines = [f"[{speaker}] {first_characters(content)}"] if isinstance(content, str) else [f"[{speaker}]"]
    if isinstance(content, list):
        lines += [_part_line(part) for part in content]
    if refusal := message.get("refusal"):
        lines.append(f"  refusal: {first_characters(refusal)}")
    elif message.get("finish") == "refusal":
        lines.append("  refusal, without a reason")
    if calls := message.get("tool_calls"):
        lines += [_call_line(call) for call in (calls if isinstance(calls, list) else [calls])]
    if others := message.get("other"):
        lines.append(f"  other: {_short_json(others)}")
    return "\n".join(lines)


def _part_line(part: Any) -> str:
    members = part if isinstance(part, dict) else {}
    kind = members.get("type", "part")
    if kind == "text":
        return f"  {first_characters(members.get('text'))}"
    shown = members.get("url", members.get("value", part))
    if isinstance(shown, dict):
        kind = shown.get("type", kind)
    return f"  {kind}: {shown[:_SHOWN_OF_A_PART] if isinstance(shown, str) else _short_json(shown)}"


def _call_line(call: Any) -> str:
    members = call if isinstance(call, dict) else {}
    if not members.get("name"):
        return f"  calls: {_short_json(members.get('raw', call))}"
    return f"  calls {members['name']}({first_characters(members.get('arguments', ''))}) as {members.get('id')}"


def _short_json(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_OF_A_PART else f"{text[:_SHOWN_OF_A_PART]}… ({len(text):,} characters)"


def first_characters(text: object) -> str:
    """The beginning of a text, as much as a person may want to read."""
    whole = str(text)
    if len(whole) <= _SHOWN_CHARACTERS:
        return whole
    return (
        f"{whole[:_SHOWN_CHARACTERS]}… and {len(whole) - _SHOWN_CHARACTERS:,} characters more; --json has all of them"
    )


def first_of_pieces(pieces: Iterator[str], size: int) -> str:
    """The beginning of a text of `size` bytes that is never held as a whole."""
    found = ""
    while len(found) <= _SHOWN_CHARACTERS:
        if (piece := next(pieces, None)) is None:
            return found
        found += piece
    left = size - len(found[:_SHOWN_CHARACTERS].encode())
    return f"{found[:_SHOWN_CHARACTERS]}… and about {max(left, 1):,} bytes more; --json has all of them"
