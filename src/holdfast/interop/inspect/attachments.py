"""Long texts and images of a sample: in events and messages, a hash stands for each."""

from typing import Any

PREFIX = "attachment://"
_HASH_LENGTH = 32


def is_attachment(text: str) -> bool:
    """Whether a text stands for an attachment; a person may write one that only begins like it."""
    digits = text.removeprefix(PREFIX)
    return text.startswith(PREFIX) and len(digits) == _HASH_LENGTH and set(digits) <= set("0123456789abcdef")


def resolved(value: Any, attachments: dict[str, Any]) -> Any:
    """The same value with every reference to an attachment replaced by its text."""
    if not attachments:
        return value
    if isinstance(value, dict):
        return {name: resolved(item, attachments) for name, item in value.items()}
    if isinstance(value, list):
        return [resolved(item, attachments) for item in value]
    if isinstance(value, str) and is_attachment(value):
        return attachments.get(value.removeprefix(PREFIX), value)
    return value
