"""The parameters of a tool: a JSON Schema for the model, and the check of what the model sends.

Both come from one msgspec struct that is made from the function's signature, so what the schema promises is what is
accepted. A parameter that the schema cannot describe is refused when the tool is made, before anything is paid.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.errors import ConfigurationError

_PARAMETER_NAME = re.compile(r"[a-zA-Z0-9_]{1,64}")
_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY
_VARIADIC = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_SUPPORTED = (
    "Use str, int, float, bool, Literal, Enum, list, dict, None, a dataclass, a TypedDict or a msgspec.Struct, or a"
    " union of these."
)


class Signature(NamedTuple):
    """What a tool takes."""

    schema: dict[str, Any]
    """The JSON Schema of its arguments."""
    struct: type[msgspec.Struct]
    """A struct with a field for every parameter; those with a default may be left out."""
    positional: tuple[str, ...] = ()
    """The parameters that cannot be given by name."""

    def convert(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments as the function takes them: by position, and by name.

        Raises:
            msgspec.ValidationError: they do not fit.
        """
        found = _fitted(arguments, self.struct)
        given = {name: value for name in self.struct.__struct_fields__ if (value := getattr(found, name)) is not UNSET}
        return [given.pop(name) for name in self.positional if name in given], given


def _fitted(arguments: Mapping[str, Any], struct: type[msgspec.Struct]) -> msgspec.Struct:
    """Exactly as they are if they fit; else numbers and truth values may be written as text, as models do."""
    try:
        return msgspec.convert(arguments, struct)
    except msgspec.ValidationError as error:
        try:
            return msgspec.convert(arguments, struct, strict=False)
        except msgspec.ValidationError:
            raise error from None


def read_signature(function: Callable[..., Any], name: str) -> Signature:
    """The parameters of a function that is offered as a tool of this name.

    Raises:
        ConfigurationError: one of them has no type, or one that JSON Schema cannot describe.
    """
    parameters = list(_parameters(function, name))
    fields = [(parameter.name, *_struct_field(parameter, hint)) for parameter, hint in parameters]
    for field in fields:
        _check_field(name, field)
    struct = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
    positional = tuple(parameter.name for parameter, _ in parameters if parameter.kind is _POSITIONAL)
    return Signature(_schema(struct, parameters), struct, positional)


def _parameters(function: Callable[..., Any], name: str) -> Iterator[tuple[inspect.Parameter, Any]]:
    """Every parameter with its type."""
    hints = _type_hints(function, name)
    for parameter in _signature(function, name).parameters.values():
        if parameter.kind in _VARIADIC:
            raise _refused(
                name, f"{_VARIADIC[parameter.kind]}{parameter.name}", "takes any arguments", "Name every parameter."
            )
        if parameter.name not in hints:
            raise _refused(name, parameter.name, "has no type", f"As in def {name}({parameter.name}: str).")
        if not _PARAMETER_NAME.fullmatch(parameter.name):
            raise _refused(name, parameter.name, "has a name that APIs refuse", "Use ASCII letters, digits and _.")
        yield parameter, hints[parameter.name]


def _signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"The tool {name!r} has no signature that can be read.", hint="Wrap it in a function with typed parameters."
        ) from None


def _type_hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    plain = inspect.unwrap(getattr(function, "func", function))
    if not inspect.isroutine(plain):
        plain = type(plain).__call__
    try:
        return typing.get_type_hints(plain, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise ConfigurationError(
            f"The types of the tool {name!r} cannot be read: {error}.",
            hint="Import or define its types at the top of the file, not inside a function or under TYPE_CHECKING.",
        ) from None


def _struct_field(parameter: inspect.Parameter, hint: Any) -> tuple[Any, ...]:
    described = _with_description(hint)
    return (described,) if parameter.default is parameter.empty else (typing.Union[described, UnsetType], UNSET)  # noqa: UP007


def _with_description(hint: Any) -> Any:
    """`Annotated[int, "what it is"]` as msgspec writes it."""
    if typing.get_origin(hint) is not Annotated:
        return hint
    type_, *notes = typing.get_args(hint)
    for note in notes:
        if isinstance(note, str):
            type_ = Annotated[type_, Meta(description=note)]
        elif isinstance(note, Meta):
            type_ = Annotated[type_, note]
    return type_


def _check_field(tool: str, field: tuple[Any, ...]) -> None:
    """Raises ConfigurationError if nothing can describe the type of one parameter."""
    try:
        struct = msgspec.defstruct("Arguments", [field])
        msgspec.json.schema(struct)
        msgspec.json.Decoder(struct)
    except (TypeError, ValueError, NameError, RecursionError) as error:
        why = str(error).partition("\n")[0].rstrip(".")
        if "custom types" in why:
            why = "it is, or holds, a class that JSON has no form for"
        raise _refused(tool, field[0], f"has a type that cannot be described: {why}", _SUPPORTED) from None


def _schema(struct: type[msgspec.Struct], parameters: list[tuple[inspect.Parameter, Any]]) -> dict[str, Any]:
    (root,), others = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    whole = others.pop(root["$ref"].rpartition("/")[2])
    schema = {name: value for name, value in whole.items() if name != "title"}
    for parameter, _ in parameters:
        _show_default(schema["properties"][parameter.name], parameter.default)
    return {**schema, "$defs": others} if others else schema


def _show_default(shown: dict[str, Any], default: Any) -> None:
    """What a parameter is if it is left out, where JSON can say it."""
    shown.pop("default", None)
    if default is inspect.Parameter.empty or "$ref" in shown:
        return
    try:
        shown["default"] = msgspec.json.decode(msgspec.json.encode(default))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return


def _refused(tool: str, parameter: str, why: str, hint: str) -> ConfigurationError:
    return ConfigurationError(f"The parameter {parameter!r} of the tool {tool!r} {why}.", hint=hint)
