"""The one door to a model: a provider answers one `send` with one reply or one ModelError.

A provider is made by an opener, a function of the model's entry in the eval. The entry's `args` are the provider's own
options; they are checked whole, and an unknown or ill-typed one is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.message import Reply, Request
from holdfast.spec import ModelSpec
from holdfast.spec.whole_numbers import convert_arguments
from holdfast.suggestions import suggest_or_list

OptionsT = TypeVar("OptionsT", bound=msgspec.Struct)


class Provider(Protocol):
    """A model that can be asked."""

    async def send(self, request: Request) -> Reply:
        """Try exactly once; raise a ModelError where no whole reply came back."""
        ...

    async def close(self) -> None:
        """Let go of connections and processes. Closing twice is harmless."""
        ...


Opener = Callable[[ModelSpec], Provider]
"""Makes the provider of a model; raises a ConfigurationError where something is missing."""


def read_options(where: str, args: dict[str, Any], kind: type[OptionsT]) -> OptionsT:
    """The options as a struct of the given kind; `where` begins the message of a refusal."""
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    for name in args:
        if name not in names:
            known = suggest_or_list(name, names)
            # A map of options is often what another provider took.
            hint = known if known.startswith("Did") else f"Delete args.{name}. {known}"
            raise ConfigurationError(f"{where} has no option {name!r}.", hint=hint)
    try:
        return convert_arguments(args, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: its args are not valid: {error}.") from error
