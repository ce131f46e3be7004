"""How names and values are written down in a digest of code.

A spelling says nothing about places: neither which module of Holdfast a class is in, so that Holdfast may be
rearranged, nor where a person's file lies, so that a project may be moved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from types import FunctionType
from typing import Any

from holdfast.models.message import LATER_FIELDS, Message
from holdfast.tasks.answer import Answer
from holdfast.tasks.source.importing import unnumbered
from holdfast.tasks.source.origin import object_state, versioned_name

_OWN = "holdfast"

_LATER: dict[type, Collection[str]] = {Message: LATER_FIELDS, Answer: {"unscored"}}
_EVALUATE = frozenset({"epochs", "limit", "set", "reuse", "redo", "until", "observers", "progress"})
_LATER_KEYWORDS = {"evaluate": _EVALUATE, "evaluate_async": _EVALUATE}
"""Keywords that functions of ours have gained since digests are taken, by the name of the function."""


class Spelling:
    """The spelling of today. `Directories` are those of the files that the code was found in."""

    rule = 2
    """Recorded beside every digest, so that a later version knows how to compare it."""

    def foreign(self, module: str | None, qualified: str) -> str:
        """Code that is not a person's own: by its name, and where it is installed by the version of its package."""
        is_ours = (module or "").partition(".")[0] == _OWN
        return f"{_OWN}.{qualified}".rstrip(".") if is_ours else versioned_name(unnumbered(module or ""), qualified)

    def value(self, value: Any, directories: Directories) -> str:
        """A plain value. A text or path below a directory of the code is written relative to that directory."""
        if isinstance(value, re.Pattern):
            # Its own spelling is cut off where the pattern is long.
            return f"pattern {value.pattern!r} {value.flags}"
        if isinstance(value, str):
            return repr(directories.relative(unnumbered(value)))
        if isinstance(value, Path):
            return f"{type(value).__name__}({directories.relative(str(value))!r})"
        return repr(value)

    def state(self, value: object) -> Any:
        """What an object holds, where that determines what it does."""
        state, later = object_state(value), _LATER.get(type(value), _declared_later(type(value)))
        if later is None:
            return state
        # Fields that a class of ours has gained since digests are taken count only where they are used.
        return {name: held for name, held in state.items() if held or name not in later}

    def keywords(self, function: FunctionType) -> dict[str, Any]:
        """The keywords of a function that have defaults; those that ours have gained change no digest."""
        is_ours = (function.__module__ or "").partition(".")[0] == _OWN
        later = _LATER_KEYWORDS.get(function.__qualname__, ()) if is_ours else ()
        return {name: value for name, value in (function.__kwdefaults__ or {}).items() if name not in later}

    def order(self, value: Any) -> str:
        """What the members of a set, and the keys of a map, are sorted by."""
        if isinstance(value, type | FunctionType):
            return value.__qualname__
        if isinstance(value, tuple):
            return f"({' '.join(map(self.order, value))})"
        if isinstance(value, frozenset):
            return f"({' '.join(sorted(map(self.order, value)))})"
        return repr(value)


def _declared_later(found: type) -> Collection[str] | None:
    """The later fields of a class of ours that lies above this package."""
    return getattr(found, "later_fields", None) if found.__module__.partition(".")[0] == _OWN else None


class Directories:
    """The directories that a person's code comes from, numbered as they are met."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def add(self, filename: str) -> None:
        """Takes in the directory of a file; one that has no directory of its own, as in a notebook, is left out."""
        directory = Path(filename).parent
        if not directory.is_absolute() or directory == Path(directory.anchor):
            return
        number = len(set(self._numbers.values())) + 1
        for form in (directory, directory.resolve()):
            self._numbers.setdefault(str(form), number)

    def relative(self, text: str) -> str:
        """The text with a leading directory replaced by that directory's number."""
        found = [name for name in self._numbers if text == name or text.startswith(name + os.sep)]
        if not found:
            return text
        longest = max(found, key=len)
        return f"<directory {self._numbers[longest]}>{text[len(longest) :]}"


PRESENT = Spelling()
