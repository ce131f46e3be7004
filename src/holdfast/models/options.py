"""A provider's own options (`args` of a model) are checked whole: an unknown or ill-typed one is refused."""

from __future__ import annotations

import difflib
from typing import Any, TypeVar

import msgspec

from holdfast.errors import ConfigurationError

OptionsT = TypeVar("OptionsT", bound=msgspec.Struct)


def read_options(where: str, args: dict[str, Any], kind: type[OptionsT]) -> OptionsT:
    """The options as a struct of the given kind; `where` begins the message of a refusal."""
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    for name in args:
        if name not in names:
            raise ConfigurationError(f"{where} has no option {name!r}.", hint=nearest(name, names))
    try:
        return msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: its args are not valid: {error}.") from error


def nearest(name: str, names: list[str]) -> str:
    """A sentence that leads from a wrong name to the right one."""
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"There are: {', '.join(sorted(names))}." if names else "It takes none."
