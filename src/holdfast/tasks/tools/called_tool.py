"""One call of a tool by a model: what it asks for, checked before anything runs, and the text that the model gets back.

Whatever a model sends, it gets a result: arguments that do not fit, an unknown name and broken JSON become an error
that tells it what is wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import UsageError
from holdfast.models.content import Content, Part, RawPart, ToolCall
from holdfast.models.errors import excerpt
from holdfast.models.message import Message, encodable
from holdfast.models.redaction import redact
from holdfast.tasks.json_values import RECORDABLE, Unrecordable, recorded
from holdfast.tasks.tools.tool import NAME, Tool

MOST_CALLS = 128
"""How many calls of one reply are carried out."""
MOST_ARGUMENTS = 1_000_000
"""The most characters that the arguments of a call may have."""
_SHOWN = 80
_INVALID_NAME = "invalid_tool_name"


class CalledTool(NamedTuple):
    """A call that can be carried out, or the reason why not."""

    id: str
    tool: Tool | None = None
    arguments: Mapping[str, Any] = MappingProxyType({})
    problem: str = ""
    """The result that the model gets where nothing runs."""

    def message(self, text: str) -> Message:
        """The result as the model gets it."""
        return Message("tool", text, tool_call_id=self.id)

    def function(self) -> Callable[[Any], Any]:
        """The function of the step: it gets the arguments as they were sent, and returns the text of the result."""
        tool = self.tool
        if tool is None:
            raise UsageError(self.problem)
        if inspect.iscoroutinefunction(tool.function):
            return _async_call(tool)
        return _plain_call(tool)


def _async_call(tool: Tool) -> Callable[[Any], Awaitable[str]]:
    async def call(arguments: dict[str, Any]) -> str:
        args, kwargs = tool.signature.convert(arguments)
        return result_text(tool, await tool.function(*args, **kwargs))

    return call


def _plain_call(tool: Tool) -> Callable[[Any], Any]:
    def call(arguments: dict[str, Any]) -> Any:
        args, kwargs = tool.signature.convert(arguments)
        found = tool.function(*args, **kwargs)
        # An object whose call is a coroutine, or a function that passes one on.
        return _awaited(tool, found) if inspect.isawaitable(found) else result_text(tool, found)

    return call


async def _awaited(tool: Tool, found: Awaitable[Any]) -> str:
    return result_text(tool, await found)


def result_text(tool: Tool, found: object) -> str:
    """What a tool returned as the model reads it: a text as it is, anything else as JSON; cut where it is too long.

    Raises:
        UsageError: it can be neither.
    """
    try:
        value = recorded(found)
    except Unrecordable as error:
        raise UsageError(f"The result of the tool {tool.name!r} {error}.", hint=RECORDABLE) from None
    text = redact(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    if len(text) <= tool.max_characters:
        return text
    return f"{text[: tool.max_characters]}\n[cut: {tool.max_characters:,} of {len(text):,} characters are shown]"


def error_result(kind: str, message: str) -> str:
    """What the model reads of an exception that a tool raised."""
    return f"Error: {kind}: {message}" if message and message != kind else f"Error: {kind}"


def read_calls(calls: Sequence[ToolCall], tools: Sequence[Tool]) -> list[CalledTool]:
    """The calls of a reply, in its order; what cannot be carried out says why."""
    by_name = {tool.name: tool for tool in tools}
    answerable = answerable_calls(calls)
    return [
        _checked_call(sent, kept.id, place, by_name)
        for place, (sent, kept) in enumerate(zip(calls, answerable, strict=True))
    ]


def _checked_call(call: ToolCall, id_: str, place: int, by_name: dict[str, Tool]) -> CalledTool:
    if place >= MOST_CALLS:
        return _problem(id_, f"this reply calls more than {MOST_CALLS} tools, and only the first {MOST_CALLS} are run")
    tool = by_name.get(call.name)
    if tool is None:
        known = ", ".join(by_name) or "none"
        return _problem(id_, f"there is no tool {excerpt(call.name, _SHOWN)!r}; the tools are: {known}")
    if len(call.arguments) > MOST_ARGUMENTS:
        long = f"{len(call.arguments):,} characters, more than {MOST_ARGUMENTS:,}"
        return _problem(id_, f"the arguments of {tool.name} have {long}")
    arguments = _json_object(call.arguments)
    if arguments is None:
        shown = excerpt(call.arguments, _SHOWN)
        return _problem(id_, f"the arguments of {tool.name} are not a JSON object: {shown}")
    try:
        tool.signature.convert(arguments)
    except (msgspec.ValidationError, RecursionError) as error:
        return _problem(id_, f"the arguments of {tool.name} do not fit: {excerpt(str(error), 500)}")
    return CalledTool(id_, tool, arguments)


def _problem(id_: str, why: str) -> CalledTool:
    return CalledTool(id_, problem=f"Error: {why}.")


def _json_object(text: str) -> dict[str, Any] | None:
    """The arguments of a call, where they are an object; a call without any may send no text at all."""
    if not text.strip():
        return {}
    try:
        found = msgspec.json.decode(text)
        # As they are recorded: numbers beyond what JSON can hold, and lone surrogates, are not.
        return encodable(recorded(found)) if isinstance(found, dict) else None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError, Unrecordable):
        return None


# The calls as they go back to the server.


def answerable_message(message: Message) -> Message:
    """The message of a reply with calls that every server takes back; the same object where they are so already."""
    calls = answerable_calls(message.tool_calls)
    if calls is message.tool_calls:
        return message
    return msgspec.structs.replace(message, tool_calls=calls, content=_without_calls(message.content))


def answerable_calls(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The same calls, each with an id of its own, a name that APIs take, and arguments that are a JSON object.

    Servers refuse a conversation that holds anything else, also where a model has said it; and without ids of their own
    the results could not be told apart. The reply is recorded as it was.
    """
    seen: set[str] = set()
    made = tuple([_answerable(call, number, seen) for number, call in enumerate(calls, 1)])
    is_same = isinstance(calls, tuple) and all(one is other for one, other in zip(made, calls, strict=True))
    return calls if is_same else made  # type: ignore[return-value]


def _answerable(call: ToolCall, number: int, seen: set[str]) -> ToolCall:
    id_ = call.id
    while not id_.strip() or id_ in seen:
        id_ = f"call_{number}" if f"call_{number}" not in seen else f"{id_ or 'call'}_{number}"
    seen.add(id_)
    name = call.name if NAME.fullmatch(call.name) else _INVALID_NAME
    is_object = len(call.arguments) <= MOST_ARGUMENTS and _json_object(call.arguments) is not None
    arguments = call.arguments if is_object else "{}"
    if (id_, name, arguments) == (call.id, call.name, call.arguments):
        return call
    return ToolCall(id_, name, arguments)


def _without_calls(content: Content) -> Content:
    """The content without the calls that a server has put between its other parts."""
    if isinstance(content, str):
        return content
    return tuple(part for part in content if not _is_call(part)) or ""


def _is_call(part: Part) -> bool:
    return isinstance(part, RawPart) and isinstance(part.value, dict) and part.value.get("type") == "tool_use"
