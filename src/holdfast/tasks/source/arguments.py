"""Arguments of a task or a scorer, from an eval file or a command line, fitted to the annotations of its function."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.suggestions import did_you_mean, listing
from holdfast.tasks.json_values import decoded_json

_GUESSED = (bool, int, float, str)


def fit_arguments(
    function: Callable[..., Any], given: Mapping[str, Any], where: str, supplied: Collection[str] = ()
) -> dict[str, Any]:
    """Every argument of the function: those given, converted and checked, and the defaults of the others.

    Those that the caller supplies when it calls the function are left out.
    """
    parameters = inspect.signature(function).parameters
    free = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    named = {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind not in _COLLECTING and name not in supplied
    }
    _refuse_unknown([] if free else [name for name in given if name not in named], named, where)
    missing = [name for name, parameter in named.items() if parameter.default is parameter.empty and name not in given]
    if missing:
        raise ConfigurationError(
            f"{where} needs the argument {missing[0]!r}.",
            hint=f"Give it with -T {missing[0]}=VALUE or, in an eval file, as args: {{{missing[0]}: VALUE}}.",
        )
    hints = _type_hints(function)
    fitted = {name: parameter.default for name, parameter in named.items() if name not in given}
    for name, value in given.items():
        fitted[name] = _fit_value(
            value, hints.get(name, _type_of_default(parameters.get(name))), f"{where}: the argument {name!r}"
        )
    return fitted


_COLLECTING = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def _refuse_unknown(unknown: list[str], named: Mapping[str, Any], where: str) -> None:
    if unknown:
        raise ConfigurationError(
            f"{where} takes no argument {unknown[0]!r}; it takes {listing(named)}.",
            hint=did_you_mean(unknown[0], named),
        )


def _type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, AttributeError, TypeError):
        # Names that exist for type checkers only; the arguments are then taken as they are.
        return {}


def _type_of_default(parameter: inspect.Parameter | None) -> Any:
    """The type of a plain default, where there is no annotation."""
    default = parameter.default if parameter is not None else None
    return type(default) if isinstance(default, _GUESSED) else Any


def _fit_value(value: Any, hint: Any, where: str) -> Any:
    if not isinstance(value, str):
        return _convert(value, hint, where)
    try:
        return _convert(value, hint, where, strict=False)
    except ConfigurationError as refused:
        # A list or a map comes from a command line as JSON.
        decoded = decoded_json(value)
        if not isinstance(decoded, list | dict):
            raise refused from None
        return _convert(decoded, hint, where)


def _convert(value: Any, hint: Any, where: str, *, strict: bool = True) -> Any:
    try:
        return msgspec.convert(value, hint, strict=strict)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where} cannot be {str(value)[:60]!r}: {error}.") from None
    except TypeError:
        # An annotation of a kind that JSON knows nothing of; the function has to make do.
        return value
