"""Code by reference: `checks.py:is_short`, or `package.module:is_short`."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from holdfast.errors import ConfigurationError
from holdfast.spec.code_reference import split_reference
from holdfast.suggestions import did_you_mean, listing
from holdfast.tasks.source.code_files import CodeBase, as_code_files
from holdfast.tasks.source.importing import guarded

_MISSING = object()


def load_object(reference: str, base: CodeBase, kind: str) -> Any:
    """What a reference names; file paths start at `base`, and `kind` is the word for what is wanted.

    Raises:
        ConfigurationError: there is no such file, it raises when it is imported, or it has no such name.
    """
    home, name = split_reference(reference)
    if not home or not name:
        raise ConfigurationError(
            f"{reference!r} names no {kind}.", hint=f"A {kind} in a file is named as file.py:name."
        )
    module = as_code_files(base).module(home)
    with guarded(reference):
        # Not only what is in its namespace: a package may load names when they are first asked for.
        found = getattr(module, name, _MISSING)
    if found is not _MISSING:
        return found
    own = _own_names(module)
    has = f"it has {listing(own)}" if own else "it defines none"
    raise ConfigurationError(f"{home} has no {kind} {name!r}; {has}.", hint=did_you_mean(name, own))


def load_function(reference: str, base: CodeBase) -> Callable[..., Any]:
    """The function that a reference names; file paths start at `base`.

    Raises:
        ConfigurationError: there is no such file, or no such function in it.
    """
    found = load_object(reference, base, "function")
    if callable(found):
        return found  # type: ignore[no-any-return]
    raise ConfigurationError(f"{reference} is {type(found).__name__}, not a function.")


def _own_names(module: ModuleType) -> list[str]:
    """The public names of what can be called in a module, without the functions and classes that it imports."""
    return [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and _is_defined_in(module, value)
    ]


def _is_defined_in(module: ModuleType, value: object) -> bool:
    return not isinstance(value, FunctionType | type) or value.__module__ == module.__name__
