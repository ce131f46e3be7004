"""PyYAML, loaded without the one expression that only its reader in Python needs.

Compiling that expression takes a tenth of a small command, and every document here is read by the parser in C. It is
compiled when something else in the process first uses it.
"""

from __future__ import annotations

import re
import sys
from typing import Any

_READER = "yaml.reader"
_compile = re.compile


class _PatternInWaiting:
    """A pattern that is compiled when one of its methods is first asked for."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def __getattr__(self, name: str) -> Any:
        return getattr(_compile(self._pattern), name)  # `re` keeps what it has compiled


def _compile_later(pattern: Any, flags: Any = 0) -> Any:
    """`re.compile`, but for the module of that reader: other threads may compile patterns at the same time."""
    caller = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 - documented for this use
    return _PatternInWaiting(pattern) if caller == _READER and not flags else _compile(pattern, flags)


setattr(re, "compile", _compile_later)  # noqa: B010 - an assignment would be an error of types
try:
    import yaml
finally:
    setattr(re, "compile", _compile)  # noqa: B010

__all__ = ["yaml"]
