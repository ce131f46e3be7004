"""The final answer in a text that a model has also reasoned in.

Servers without a field for reasoning send it in the text, between `<think>` and `</think>`; where the chat template has
already opened the block, only its end is there. Scorers and judges read what is left: a letter or a number that the
model has only considered is not its answer. The recorded text stays whole.
"""

from __future__ import annotations

import re

# A tag behind a quotation mark or a backtick is quoted: the text is about the tag.
_TAG = re.compile(
    r"(?<![\"'`])(?:<(?P<end>/?)(?:think|thinking|thought|reasoning)>|\[(?P<end_of_square>/?)THINK\])", re.IGNORECASE
)


def without_reasoning(text: str) -> str:
    """The text without the reasoning in it; empty where the model never came to an end of it."""
    if "<" not in text and "[" not in text:
        return text
    kept: list[str] = []
    start, is_open = 0, False
    for tag in _TAG.finditer(text):
        if tag["end"] or tag["end_of_square"]:
            if not is_open:
                kept.clear()  # the block was opened before the text begins
            start, is_open = tag.end(), False
        elif not is_open:
            kept.append(text[start : tag.start()])
            start, is_open = tag.start(), True
    before = "".join(kept)
    # Only at the beginning is an open block reasoning that was cut off; elsewhere a text may mention the tag.
    return "" if is_open and not before.strip() else before + text[start:]
