"""A tool: a function that a model may call, its name, its description, and the schema of its parameters."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, overload

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.tasks.tools.signature import Signature, read_signature
from holdfast.tasks.trial_interface import OnInterrupted

MOST_CHARACTERS = 100_000
"""How much of a result the model gets, unless the tool says otherwise."""
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names of tools that every API takes."""


class Tool(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """A function that a model may call; calling the tool calls the function."""

    function: Callable[..., Any]
    name: str
    description: str = ""
    on_interrupted: OnInterrupted = "again"
    max_characters: int = MOST_CHARACTERS

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns."""
        return self.function(*args, **kwargs)

    @functools.cached_property
    def signature(self) -> Signature:
        """Its parameters, read once."""
        return read_signature(self.function, self.name)

    @functools.cached_property
    def offer(self) -> dict[str, Any]:
        """The tool as a request offers it, in the form of the chat protocol."""
        described = {"description": self.description} if self.description else {}
        return {
            "type": "function",
            "function": {"name": self.name, **described, "parameters": self.signature.schema},
        }


Given = Callable[..., Any] | Tool
"""A tool as a person gives it."""


@overload
def tool(
    function: Callable[..., Any],
    /,
    *,
    name: str = "",
    description: str | None = None,
    on_interrupted: OnInterrupted = "again",
    max_characters: int = MOST_CHARACTERS,
) -> Tool: ...
@overload
def tool(
    *,
    name: str = "",
    description: str | None = None,
    on_interrupted: OnInterrupted = "again",
    max_characters: int = MOST_CHARACTERS,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str | None = None,
    on_interrupted: OnInterrupted = "again",
    max_characters: int = MOST_CHARACTERS,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Makes a function a tool that a model may call: `@tool`, or `@tool(name="look_up", on_interrupted="fail")`.

    The schema of its parameters comes from their types, and the description from the docstring. What is cut beyond
    `max_characters` of a result is noted in it. `on_interrupted` as for `Trial.step`.

    Raises:
        ConfigurationError: its name, or the type of a parameter, is not one that models can be given.
    """
    if function is None:
        return functools.partial(
            tool, name=name, description=description, on_interrupted=on_interrupted, max_characters=max_characters
        )
    made = Tool(
        function=_plain_function(function),
        name=name or _name_of(function),
        description=_description_of(function) if description is None else description,
        on_interrupted=on_interrupted,
        max_characters=max_characters,
    )
    _check_tool(made)
    return made


def as_tools(given: Sequence[Given]) -> tuple[Tool, ...]:
    """The tools that a person gives: tools, or functions.

    Raises:
        ConfigurationError: one cannot be offered to a model, or two have the same name.
    """
    if not isinstance(given, list | tuple):
        raise ConfigurationError(
            f"tools is a {type(given).__name__}, not a list.", hint="Give functions, as in tools=[search, fetch]."
        )
    tools = tuple(_as_tool(one) for one in given)
    seen: set[str] = set()
    for one in tools:
        if one.name in seen:
            raise ConfigurationError(
                f"Two tools are called {one.name!r}.", hint='Name one of them otherwise: tool(function, name="…").'
            )
        seen.add(one.name)
    return tools


def _as_tool(given: Any) -> Tool:
    if isinstance(given, Tool):
        return given
    if not callable(given) or isinstance(given, type):
        raise ConfigurationError(
            f"{_name_of(given)} cannot be a tool.", hint="Give a function with typed parameters, or what @tool returns."
        )
    try:
        return _made_before(given)
    except TypeError:  # it cannot be hashed
        return tool(given)


@functools.lru_cache(maxsize=256)
def _made_before(function: Callable[..., Any]) -> Tool:
    """The tool of a function, which a solver may give with every call."""
    return tool(function)


def _plain_function(function: Any) -> Callable[..., Any]:
    if isinstance(function, Tool):
        return function.function
    if not callable(function) or isinstance(function, type):
        raise ConfigurationError(f"{_name_of(function)} cannot be a tool.", hint="Decorate a function with @tool.")
    return function  # type: ignore[no-any-return]


def _name_of(function: Any) -> str:
    if isinstance(function, Tool):
        return function.name
    plain = function.func if isinstance(function, functools.partial) else function
    return str(getattr(plain, "__name__", type(plain).__name__))


def _description_of(function: Any) -> str:
    if isinstance(function, Tool):
        return function.description
    plain = function.func if isinstance(function, functools.partial) else function
    own = inspect.getdoc(plain) if inspect.isroutine(plain) else inspect.getdoc(type(plain).__call__)
    return own or ""


def _check_tool(made: Tool) -> None:
    if not NAME.fullmatch(made.name):
        raise ConfigurationError(
            f"A tool cannot be called {made.name[:80]!r}.",
            hint='APIs take up to 64 ASCII letters, digits, _ and -. Name it: @tool(name="look_up").',
        )
    if made.on_interrupted not in {"again", "fail"}:
        raise ConfigurationError(
            f"The tool {made.name!r} has on_interrupted={made.on_interrupted!r}.", hint='Give "again" or "fail".'
        )
    is_count = isinstance(made.max_characters, int) and not isinstance(made.max_characters, bool)
    if not is_count or made.max_characters < 1:
        raise ConfigurationError(
            f"The tool {made.name!r} has max_characters={made.max_characters!r}.", hint="Give 1 or more."
        )
    if not isinstance(made.description, str):
        raise ConfigurationError(f"The description of the tool {made.name!r} is not a text.", hint="Give a text.")
    _ = made.offer
