"""Names in the words of an error: the valid one that is nearest to a mistyped one, or a list of them.

Sentences differ by where they are said; which name is near is decided here alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

LISTED = 20
_SHORTEST_STEM = 3


def nearest_name(name: str, valid: Iterable[str], *, cutoff: float = 0.5) -> str | None:
    """The valid name nearest to a mistyped one, whatever its case; None where none is near."""
    candidates = {candidate.casefold(): candidate for candidate in valid}
    found = _nearest(name.casefold()[:100], candidates, cutoff=cutoff)
    return None if found is None else candidates[found]


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """A question that names the nearest, whatever its case; the empty string where none is near."""
    found = nearest_name(name, valid)
    return f"Did you mean {found!r}?" if found is not None else ""


def suggest_or_list(name: str, valid: Iterable[str]) -> str:
    """A sentence that leads from a wrong name to the right one: the nearest, or all that there are."""
    names = sorted(valid)
    found = _nearest(name, names)
    if found is not None:
        return f"Did you mean {found!r}?"
    return f"There are: {', '.join(names)}." if names else "It takes none."


def nearest_or_known(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown key: the nearest known one, or all of them in their order."""
    names = list(known)
    found = _nearest(name, names)
    if found is not None:
        return f"did you mean {found}?"
    return f"known here: {', '.join(names)}" if names else "nothing is defined here yet"


def listing(names: Iterable[str]) -> str:
    """The names, sorted, in one line of bounded length."""
    return first_of(sorted(names)) or "none"


def first_of(names: Sequence[str]) -> str:
    """The first names, in their order, and how many more there are."""
    shown = ", ".join(names[:LISTED])
    return f"{shown} and {len(names) - LISTED} more" if len(names) > LISTED else shown


def _nearest(name: str, names: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The name that is most like another; None where none is near."""
    import difflib  # noqa: PLC0415 - slow to load, and needed for mistakes only

    names = list(names)
    # A name that was cut short at an underscore (concurrency for concurrency_limit) is nearer than one spelled alike.
    whole = [candidate for candidate in names if len(name) >= _SHORTEST_STEM and candidate.startswith(f"{name}_")]
    return whole[0] if whole else next(iter(difflib.get_close_matches(name, names, n=1, cutoff=cutoff)), None)
