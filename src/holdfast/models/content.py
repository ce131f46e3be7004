"""What a message holds beside plain text: parts, and calls of tools.

Most messages are one text, and then no part is made. A part that this version has no type for is kept as the JSON it
came as, and goes back to the server as that.
"""

from typing import Any

import msgspec


class TextPart(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="text"):
    """A piece of text."""

    text: str


class ImagePart(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="type", tag="image"):
    """An image: `url` is where it is, or the image itself as a `data:` URL."""

    url: str
    detail: str = ""
    """How closely the model should look, where the server lets one choose."""


class RawPart(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="raw"):
    """Any other part (audio, a file, what is unknown yet), as the JSON of the server."""

    value: Any


Part = TextPart | ImagePart | RawPart
Content = str | tuple[Part, ...]
_SPOKEN_APART = frozenset({"thinking", "reasoning", "refusal"})


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A tool call that the model asks for; `arguments` is the text that the server sent, JSON or not."""

    id: str
    name: str
    arguments: str
    raw: Any = None
    """The call as the server sent it, where that says more than the three fields; it goes back as this."""


def joined_text(content: Content) -> str:
    """The text in a message's content; that of several parts is joined."""
    if isinstance(content, str):
        return content
    return "".join(text for part in content if (text := _part_text(part)) is not None)


def thought_in(part: Part) -> str:
    """The reasoning that a part holds; empty for any other part."""
    value = _members(part)
    thought = value.get("thinking", value.get("text") if value.get("type") == "reasoning" else None)
    if isinstance(thought, list):
        return "".join(item["text"] for item in thought if isinstance(item, dict) and isinstance(item.get("text"), str))
    return thought if isinstance(thought, str) else ""


def refusal_in(part: Part) -> str:
    """The refusal that a part holds; empty for any other part."""
    refusal = _members(part).get("refusal")
    return refusal if isinstance(refusal, str) else ""


def kinds_without_text(content: Content) -> list[str]:
    """What the parts are that hold no text, each kind once; reasoning and refusals only where no part is a text."""
    if isinstance(content, str):
        return []
    kinds = [part_kind(part) for part in content if _part_text(part) is None]
    is_silent = len(kinds) == len(content)
    return [kind for kind in dict.fromkeys(kinds) if is_silent or kind not in _SPOKEN_APART]


def part_kind(part: Part) -> str:
    """What a part is, in the server's word for it where this version has none."""
    if isinstance(part, RawPart):
        kind = _members(part).get("type")
        return kind if isinstance(kind, str) and kind else "unknown"
    return "text" if isinstance(part, TextPart) else "image"


def _part_text(part: Part) -> str | None:
    if isinstance(part, TextPart):
        return part.text
    value = _members(part)
    text = value.get("text")
    is_spoken = part_kind(part) not in _SPOKEN_APART and "thinking" not in value
    return text if isinstance(text, str) and is_spoken else None


def _members(part: Part) -> dict[str, Any]:
    return part.value if isinstance(part, RawPart) and isinstance(part.value, dict) else {}
