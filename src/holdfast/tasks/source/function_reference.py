"""A function by reference: `checks.py:is_short`, or `package.module:is_short`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.errors import ConfigurationError
from holdfast.suggestions import did_you_mean, listing
from holdfast.tasks.source.importing import import_file, import_module


def load_function(reference: str, base_dir: Path) -> Callable[..., Any]:
    """The function that a reference names; file paths start at base_dir.

    Raises:
        ConfigurationError: there is no such file, or no such function in it.
    """
    home, _, name = reference.rpartition(":")
    if not home or not name:
        raise ConfigurationError(
            f"{reference!r} names no function.", hint="A function in a file is named as file.py:name."
        )
    is_file = home.endswith(".py")
    module = import_file((base_dir / home).absolute(), home) if is_file else import_module(home, base_dir)
    return _named_function(module, name, home)


def _named_function(module: ModuleType, name: str, home: str) -> Callable[..., Any]:
    found = vars(module).get(name)
    if callable(found):
        return found  # type: ignore[no-any-return]
    if name in vars(module):
        raise ConfigurationError(f"{home}:{name} is {type(found).__name__}, not a function.")
    functions = [own for own, value in vars(module).items() if callable(value) and not own.startswith("_")]
    raise ConfigurationError(
        f"{home} has no function {name!r}; it has {listing(functions)}.", hint=did_you_mean(name, functions)
    )
