"""Requirements by name, as an eval file gives them: `python`, `{regex: "^[A-Z]"}`, `{length: {max: 20}}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import ConfigurationError
from holdfast.sampling.requirements.built_in import BuiltInRequirement
from holdfast.sampling.requirements.model_judge import JudgeRequirement, judge
from holdfast.sampling.requirements.number_range import NumericRequirement, numeric
from holdfast.sampling.requirements.pattern import RegexRequirement, regex
from holdfast.sampling.requirements.python_code import PythonRequirement, python
from holdfast.sampling.requirements.requirement import Requirement, in_order
from holdfast.sampling.requirements.schema import JsonSchemaRequirement, json_schema
from holdfast.sampling.requirements.substring import IncludesRequirement, includes
from holdfast.sampling.requirements.text_length import LengthRequirement, length
from holdfast.sampling.requirements.user_function import FunctionRequirement, function
from holdfast.suggestions import did_you_mean, listing
from holdfast.tasks.source.code_files import CodeBase

BUILT_IN: Mapping[str, type[BuiltInRequirement]] = {
    requirement.kind: requirement
    for requirement in (
        RegexRequirement,
        JsonSchemaRequirement,
        LengthRequirement,
        IncludesRequirement,
        NumericRequirement,
        PythonRequirement,
        FunctionRequirement,
        JudgeRequirement,
    )
}

FACTORIES: tuple[Callable[..., Requirement], ...] = (
    regex,
    json_schema,
    length,
    includes,
    numeric,
    python,
    function,
    judge,
)

ShortForm = str | Mapping[str, Any]
Given = Requirement | Callable[..., Any] | ShortForm


def build_requirement(
    given: ShortForm, place: str = "requirements", *, base_dir: CodeBase | None = None
) -> Requirement:
    """The built-in requirement of that name, with the arguments that are given under it; `base_dir` is where files lie.

    Raises:
        ConfigurationError: there is no such requirement, or an argument is unknown, missing or wrong.
    """
    name, arguments = _name_and_arguments(given, place)
    if name not in BUILT_IN:
        raise ConfigurationError(
            f"{place}: there is no requirement {name!r}; there are {listing(BUILT_IN)}.",
            hint=did_you_mean(name, BUILT_IN),
        )
    kind = BUILT_IN[name]
    named = _named_arguments(kind, arguments, place)
    if issubclass(kind, FunctionRequirement):
        return kind.build(named, place, base_dir or Path())
    return kind.build(named, place)


def as_requirements(given: Given | Sequence[Given] | None) -> tuple[Requirement, ...]:
    """One requirement or several, in the order in which they are checked, each with an id of its own.

    Raises:
        ConfigurationError: one of them is neither a requirement, nor a function, nor the form of an eval file.
        ValueError: two of them were given the same id.
    """
    if given is None:
        return ()
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    return in_order([as_requirement(item) for item in several])


def as_requirement(given: object) -> Requirement:
    """A requirement from whatever describes one: itself, a function, or the form of an eval file.

    Raises:
        ConfigurationError: it is something else.
    """
    if isinstance(given, Requirement):
        return given
    if isinstance(given, str | Mapping):
        return build_requirement(given)
    if any(given is factory for factory in FACTORIES):
        name = getattr(given, "__name__", "")
        raise ConfigurationError(f"{name} is a factory, not a requirement.", hint=f"Call it: {name}(...).")
    if callable(given) and not isinstance(given, type):
        return function(given)
    raise ConfigurationError(
        f"A requirement cannot be made of {type(given).__name__}.",
        hint='Give a requirement, such as regex("^[A-Z]"), or a function.',
    )


def _name_and_arguments(given: ShortForm, place: str) -> tuple[str, Any]:
    if isinstance(given, str):
        return given, {}
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            f"{place}: a requirement is a name or a map, not {type(given).__name__}.", hint='Write {regex: "^[A-Z]"}.'
        )
    if len(given) != 1:
        raise ConfigurationError(
            f"{place}: a requirement is one name with its arguments, not {listing(map(str, given))}.",
            hint="Begin each requirement with a dash of its own.",
        )
    ((name, arguments),) = given.items()
    return str(name), {} if arguments is None else arguments


def _named_arguments(kind: type[BuiltInRequirement], arguments: Any, place: str) -> Mapping[str, Any]:
    """The arguments by name; one that is given alone is the one that the requirement is about."""
    if isinstance(arguments, Mapping):
        return arguments
    if kind.short_argument:
        return {kind.short_argument: arguments}
    raise ConfigurationError(
        f"{place}: the arguments of the requirement {kind.kind!r} must be a map.",
        hint=f"It takes {listing(kind.__struct_fields__)}.",
    )
