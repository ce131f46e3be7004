"""The one fenced block of an answer: models put code and JSON between two lines of backticks, with words around."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import islice

_FENCE = re.compile(r"^[ \t]{0,3}(`{3,})[ \t]*([^`\s]*)[^`\n]*$", re.MULTILINE)
_MOST_FENCES = 200


def fenced_block(text: str, languages: Collection[str]) -> str | None:
    """What the only block of such a language holds, or the only block of no language; None where there is no such one.

    The line that ends a block has at least as many backticks as the one that begins it, and nothing else.
    """
    if "```" not in text:
        return None
    blocks = _blocks(text)
    for accepted in (languages, {""}):
        found = [body for language, body in blocks if language in accepted]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _blocks(text: str) -> list[tuple[str, str]]:
    """The language and the content of every block that is closed."""
    blocks: list[tuple[str, str]] = []
    opening: re.Match[str] | None = None
    for fence in islice(_FENCE.finditer(text), _MOST_FENCES):
        if opening is None:
            opening = fence
        elif len(fence[1]) >= len(opening[1]) and fence[0].strip(" \t\r`") == "":
            blocks.append((opening[2].lower(), text[opening.end() + 1 : fence.start()]))
            opening = None
    return blocks
