"""Text as data inside a prompt: between two marks that do not occur in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.digests import content_digest
from holdfast.models.message import Message, encodable


def marked_text(name: str, text: str) -> str:
    """The text between two marks that do not occur in it; the same text always gets the same marks."""
    plain: str = encodable(text)
    mark = f"{name}-{content_digest(plain.encode())[:12]}"
    while mark in plain:
        mark += "-"
    return f"<{mark}>\n{plain}\n</{mark}>"


def spoken_text(messages: Sequence[Message]) -> str:
    """What was asked: the text of the only message or, of a conversation, all of them with who said them."""
    spoken = [message for message in messages if message.role != "system"]
    if len(spoken) == 1:
        return spoken[0].text
    return "\n\n".join(f"[{message.role}]\n{message.text}" for message in spoken)


def question_text(asked: Any) -> str:
    """What was asked, given as a text or as messages."""
    return asked if isinstance(asked, str) else spoken_text(asked)
