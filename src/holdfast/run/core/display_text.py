"""Values and lists of names as messages show them: short, in one line, the same wherever a change is reported."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

_VALUE_LETTERS = 120
_SENTENCE_LETTERS = 360
_LISTED_NAMES = 5
_DIGEST_NAME = re.compile(r"([0-9a-f]{32})(~\d+)?")
"""The key of a sample without an id: the digest of its content, and which of several equal ones it is."""
SHORT_DIGITS = 8


def change_text(old: Any, new: Any) -> str:
    """Both values, as the header of config.yaml shows them; without an old value, the new one alone."""
    if old == "":
        # A sentence, which may have both values in it.
        return value_text(new, _SENTENCE_LETTERS)
    before, after = value_text(old), value_text(new)
    if before == after and isinstance(old, str) and isinstance(new, str):
        before, after = _around_difference(old, new)
    return f"{before} → {after}"


def _around_difference(old: str, new: str) -> tuple[str, str]:
    """Two texts that look the same in one line: where they begin to differ, with every space and line break."""
    pairs = enumerate(zip(old, new, strict=False))
    differs = next((place for place, (a, b) in pairs if a != b), min(len(old), len(new)))
    start = max(0, differs - _VALUE_LETTERS // 4)
    shown = [repr(text[start : start + _VALUE_LETTERS // 2]) for text in (old, new)]
    lead = "…" if start else ""
    return f"{lead}{shown[0]}", f"{lead}{shown[1]}"


def value_text(value: Any, letters: int = _VALUE_LETTERS) -> str:
    """A value of the configuration; a long one is cut."""
    if value is None:
        return "unset"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = " ".join(text.split())
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def list_text(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _LISTED_NAMES} more" if len(names) > _LISTED_NAMES else ""
    return ", ".join(names[:_LISTED_NAMES]) + more


def digest_of(sample: str) -> str:
    """The digest that the key of a sample without an id is made of; empty for a sample with an id."""
    match = _DIGEST_NAME.fullmatch(sample)
    return match[1] if match else ""


def short_sample(sample: str, digits: int = SHORT_DIGITS) -> str:
    """How people name a sample: by its id, or by the first digits of its digest."""
    match = _DIGEST_NAME.fullmatch(sample)
    return f"{match[1][:digits]}{match[2] or ''}" if match else sample


def nearby(place: str) -> str:
    """A run as people in this directory name it: by a relative path if it is below it."""
    if not place.startswith("/"):
        return place
    try:
        return str(Path(place).relative_to(Path.cwd()))
    except (ValueError, OSError):  # it is elsewhere, or this directory is gone
        return place


def shell_word(place: str) -> str:
    """A run as it is typed in a shell: quoted, and never taken for an option."""
    return shlex.quote(unlike_option(place))


def no_results_text(place: str) -> str:
    """Of a run in which nothing was ever answered: that, and how to start anew."""
    anew = f"Start a new run with another --run-dir (in Python: run=), or delete {shell_word(nearby(place))} first."
    return f"{nearby(place)} holds no results. {anew}"


def unlike_option(path: str) -> str:
    """A path that cannot be taken for an option."""
    return f"./{path}" if path.startswith("-") else path
