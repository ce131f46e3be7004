"""What is set for a whole process in a package that code uses: the precision of `decimal`, the locale, numpy's output.

A line of a module that sets it counts where it is written (`import_effects.py`). In a living process it may be set
anywhere, so what it is when the code is taken counts as well. What use changes, as the state of `random`, is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

_CONTEXT_PARTS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
_LOCALE_PARTS = ("LC_COLLATE", "LC_MONETARY", "LC_NUMERIC", "LC_TIME")
"""Not `LC_CTYPE`, which Python sets from the environment of every process."""


def package_states(packages: Collection[str]) -> Iterator[tuple[str, Any]]:
    """The state of those of the packages that are known here and loaded, by how code reads it."""
    for name, read in _STATES.items():
        module = sys.modules.get(name) if name in packages else None
        if module is not None:
            yield from read(module)


def _decimal(module: Any) -> Iterator[tuple[str, Any]]:
    now = module.getcontext()
    for part in _CONTEXT_PARTS:
        yield f"decimal.getcontext().{part}", getattr(now, part)
    yield "decimal.getcontext().traps", sorted(trap.__name__ for trap, is_set in now.traps.items() if is_set)


def _locale(module: Any) -> Iterator[tuple[str, Any]]:
    for part in _LOCALE_PARTS:
        yield f"locale.setlocale({part})", module.setlocale(getattr(module, part))


def _numpy(module: Any) -> Iterator[tuple[str, Any]]:
    for name, given in {**module.get_printoptions(), **module.geterr()}.items():
        if given is None or isinstance(given, str | int | float):
            yield f"numpy.{name}", given


_STATES: Mapping[str, Callable[[Any], Iterator[tuple[str, Any]]]] = {
    "decimal": _decimal,
    "locale": _locale,
    "numpy": _numpy,
}
