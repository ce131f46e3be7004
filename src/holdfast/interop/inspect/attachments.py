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
    root = [value]
    # Without recursion: a value may be nested as deeply as JSON can be read.
    pending: list[Any] = [root]
    while pending:
        place = pending.pop()
        for name, item in place.items() if isinstance(place, dict) else enumerate(place):
            if isinstance(item, dict | list):
                place[name] = item.copy()
                pending.append(place[name])
            elif isinstance(item, str) and is_attachment(item):
                place[name] = attachments.get(item.removeprefix(PREFIX), item)
    return root[0]
