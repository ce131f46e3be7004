"""Text in the columns of a terminal: how wide it is, cut to a width, wrapped at words.

Foreign text passes through `one_line` first: whatever it holds, it is then harmless and has one line.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Collection, Mapping

from holdfast.terminal.text import printable

_FLAT = {"Mn", "Me", "Cf"}
"""The categories of characters that take no column."""
_NARROWEST = 20
_TOO_NARROW = 5
_JOINER = "\u200d"


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes: wide characters take two, marks on others none."""
    return len(text) if text.isascii() else sum(map(_width_of, text))


def _width_of(character: str) -> int:
    if unicodedata.category(character) in _FLAT:
        return 0
    return 1 + (unicodedata.east_asian_width(character) in "WF")


def cut(text: str, width: int) -> str:
    """The text, or as much of it as fits beside the "…" that ends it then."""
    if columns_of(text) <= width:
        return text
    room, end = width - 1, 0
    for character in text:
        room -= _width_of(character)
        if room < 0:
            break
        end += 1
    # Joined to nothing, the sign would be drawn as part of the last character.
    return f"{text[:end].rstrip().rstrip(_JOINER)}…"


def cut_middle(text: str, width: int) -> str:
    """The text, or its beginning and its end with "…" between them: names often differ at their ends."""
    if columns_of(text) <= width or width < 3:
        return cut(text, width)
    tail, room = "", (width - 1) // 2
    for character in reversed(text):
        if columns_of(character + tail) > room:
            break
        tail = character + tail
    return f"{cut(text, width - columns_of(tail))}{tail}"


def distinct_cuts(texts: Collection[str], width: int) -> dict[str, str]:
    """Each text as it is shown in a column: cut where it must be, and so that different ones look different.

    Where cutting the middle would make some alike, the beginning that all of them share gives way to "…" first.
    """
    found = {text: cut_middle(text, width) for text in texts}
    if len(set(found.values())) == len(found):
        return found
    # Characters and not parts of a path are compared, as is meant here.
    shared = os.path.commonprefix([text for text, shown in found.items() if shown != text])  # noqa: RUF071
    return {
        text: shown if shown == text else cut_middle(f"…{text.removeprefix(shared)}", width)
        for text, shown in found.items()
    }


def distinct_endings(texts: Collection[str], width: int) -> dict[str, str]:
    """Each text as it is shown in a column: cut at its end, and so that different ones look different.

    Where several would look alike, the words that they all begin with give way to "…". Of those that still look alike
    the middle is left out: the word that they begin with then sets them apart from the others.
    """
    found = {text: cut(text, width) for text in texts}
    for group in _looking_alike(found) if width > _TOO_NARROW else ():
        shared = _shared_words(group)
        endings = {text: cut(text[shared:], width - 1) for text in group}
        for others in _looking_alike(endings):
            middles = {text: cut_middle(text[shared:], width - 1) for text in others}
            if _looking_alike(middles):
                nested = distinct_endings({text[shared:] for text in others}, width - 1)
                middles = {text: nested[text[shared:]] for text in others}
            endings |= middles
        found |= {text: f"…{ending}" for text, ending in endings.items()}
    return found


def _looking_alike(shown: Mapping[str, str]) -> list[list[str]]:
    """The texts that are shown as others are."""
    alike: dict[str, list[str]] = {}
    for text, cell in shown.items():
        alike.setdefault(cell, []).append(text)
    return [group for group in alike.values() if len(group) > 1]


def _shared_words(texts: Collection[str]) -> int:
    """How many characters all of them begin with, up to the end of a word; inside of one where they share no more."""
    # Characters and not parts of a path are compared, as is meant here.
    shared = os.path.commonprefix(list(texts))  # noqa: RUF071
    return shared.rfind(" ") + 1 or len(shared)


def padded(text: str, width: int, *, right: bool = False) -> str:
    """The text, cut or filled up to the width; with `right`, aligned to the right."""
    shown = cut(text, width)
    space = " " * (width - columns_of(shown))
    return space + shown if right else shown + space


def wrapped(text: str, width: int, most: int | None = None) -> list[str]:
    """The text in lines of whole words; a word wider than a line, and text after the last line, is cut with "…"."""
    lines: list[str] = []
    for word in text.split():
        if lines and columns_of(joined := f"{lines[-1]} {word}") <= width:
            lines[-1] = joined
        elif len(lines) == most:
            lines[-1] = cut(f"{lines[-1]} …", width)
            break
        else:
            lines.append(cut(word, width))
    return lines or [""]


def hanging(lead: str, text: str, width: int) -> list[str]:
    """The text in lines of whole words after a lead; further lines are indented as far."""
    indent = columns_of(lead)
    first, *others = wrapped(text, max(width - indent, _NARROWEST))
    return [(lead + first).rstrip(), *(" " * indent + line for line in others)]


def one_line(text: str, most: int) -> str:
    """Foreign text, harmless and in one line of at most `most` characters."""
    # Cut before anything is searched in it: a text may have many megabytes.
    line = " ".join(printable(text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
