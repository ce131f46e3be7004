"""PyYAML, loaded without its own patterns: its reader and resolver in Python use them, and the parser in C does not.

Compiling them takes an eighth of a small command, one of them most of that, and every document here is read by the
parser in C, with patterns of ours. Each is compiled when something else in the process first uses it.
"""

from __future__ import annotations

import re
import sys
from typing import Any

_PACKAGE = "yaml."
_compile = re.compile


class _PatternInWaiting:
    """A pattern that is compiled when one of its methods is first asked for."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    def __getattr__(self, name: str) -> Any:
        found = getattr(_compile(*self._arguments), name)
        setattr(self, name, found)
        return found


def _compile_later(pattern: Any, flags: Any = 0) -> Any:
    """`re.compile`, but for the modules of PyYAML: other threads may compile patterns at the same time."""
    caller = str(sys._getframe(1).f_globals.get("__name__"))  # noqa: SLF001 - documented for this use
    return (_PatternInWaiting if caller.startswith(_PACKAGE) else _compile)(pattern, flags)


setattr(re, "compile", _compile_later)  # noqa: B010 - an assignment would be an error of types
try:
    import yaml
finally:
    setattr(re, "compile", _compile)  # noqa: B010

__all__ = ["yaml"]
