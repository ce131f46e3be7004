"""The nearest valid name to one that was mistyped, as a sentence; nothing where nothing is near."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LISTED = 20


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """A question that names the nearest, or the empty string."""
    candidates = {candidate.casefold(): candidate for candidate in valid}
    found = difflib.get_close_matches(name.casefold()[:100], candidates, n=1, cutoff=0.5)
    return f"Did you mean {candidates[found[0]]!r}?" if found else ""


def listing(names: Iterable[str]) -> str:
    """The names, sorted, in one line of bounded length."""
    ordered = sorted(names)
    shown = ", ".join(ordered[:LISTED])
    return f"{shown} and {len(ordered) - LISTED} more" if len(ordered) > LISTED else shown or "none"
