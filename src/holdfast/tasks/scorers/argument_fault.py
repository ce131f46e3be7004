"""What is wrong with the arguments of a scorer, in the words of an eval file instead of those of the validator."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.suggestions import listing

_PLACE = re.compile(r" - at `(key` in `)?\$(?:\.(\w+)(.*?))?`$")
_TYPES = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
    "array": "a list",
    "object": "a map",
}


def argument_fault(scorer: type[Any], kind: str, error: str) -> str:
    """The sentence, without its end; `error` is what the validator says."""
    found = _PLACE.search(error)
    at_key, field, deeper = found.groups() if found else (None, None, None)
    said = error[: found.start()] if found else error
    for pattern, sentence in _SENTENCES:
        if wrong := pattern.fullmatch(said):
            return sentence(wrong, _Argument(scorer, kind, field or "", bool(deeper), bool(at_key)))
    return f"an argument of the scorer {kind} is wrong: {error}"


class _Argument:
    """Where the fault is: an argument, or something inside its value."""

    def __init__(self, scorer: type[Any], kind: str, name: str, is_inside: bool, is_key: bool) -> None:  # noqa: FBT001 - as it was found
        self.scorer, self.kind, self.name, self.is_inside, self.is_key = scorer, kind, name, is_inside, is_key

    def __str__(self) -> str:
        return f"{self.name} of the scorer {self.kind}"

    def allowed_values(self) -> str:
        info: Any = msgspec.inspect.type_info(self.scorer)
        types = [field.type for field in info.fields if field.name == self.name]
        return listing(str(value) for one in types for value in getattr(one, "values", ()))


def _wrong_type(wrong: re.Match[str], argument: _Argument) -> str:
    allowed = " or ".join(_TYPES.get(name, name) for name in wrong[1].split(" | "))
    given = _TYPES.get(wrong[2], wrong[2])
    if argument.is_key:
        return f"{argument} has {given} as a key; put the key in quotes"
    if argument.is_inside:
        return f"{argument} has {given} in it where {allowed} is needed"
    # In YAML 1.1, `yes` was one of the spellings of true.
    instead = "; write `true` for `yes`" if (wrong[1], wrong[2]) == ("bool", "str") else ""
    return f"{argument} is {given}; allowed: {allowed}{instead}"


def _missing(wrong: re.Match[str], argument: _Argument) -> str:
    if argument.name:
        return f"{argument} has an entry without {wrong[1]}: {{{wrong[1]}: '…'}}"
    return f"the scorer {argument.kind} needs a {wrong[1]}: {{{argument.kind}: {{{wrong[1]}: '…'}}}}"


def _unknown(wrong: re.Match[str], argument: _Argument) -> str:
    return f"{argument} has an entry with the unknown key {wrong[1]!r}"


def _wrong_value(wrong: re.Match[str], argument: _Argument) -> str:
    return f"{argument} is {wrong[1]}; allowed: {argument.allowed_values()}"


def _wrong_length(wrong: re.Match[str], argument: _Argument) -> str:
    return f"{argument} has {wrong[2]} in its list; it needs {wrong[1]}"


_SENTENCES: list[tuple[re.Pattern[str], Callable[[re.Match[str], _Argument], str]]] = [
    (re.compile(r"Expected `([^`]+)`, got `([^`]+)`"), _wrong_type),
    (re.compile(r"Object missing required field `(\w+)`"), _missing),
    (re.compile(r"Object contains unknown field `(.+)`"), _unknown),
    (re.compile(r"Invalid enum value (.+)"), _wrong_value),
    (re.compile(r"Expected `array` of length (\d+), got (\d+)"), _wrong_length),
]
