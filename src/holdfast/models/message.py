"""What goes to a model and what comes back: plain values, equal when their content is equal.

A `Request` carries its whole generation: a provider sends what is in it and merges nothing into it.
"""

from typing import Any

import msgspec

from holdfast.errors import ReplyWithoutText, ToolCallReply, UndecodableReply
from holdfast.models.content import Content, ToolCall, joined_text, kinds_without_text
from holdfast.models.errors import excerpt
from holdfast.spec import Generation

_NAMED = 5
_NAME_CHARACTERS = 60
_RUN_THE_TOOLS = (
    "reply.tool_calls has the calls: results = await trial.call_tools(reply, tools) carries them out, and "
    "trial.generate([*trial.messages, *results], tools=tools) continues; or offer the model no tools."
)
_LOST_CALL = "Check how the server reads the tool calls of this model; or offer the model no tools."
_READ_THE_PARTS = "reply.content has the parts, and reply.other what else the server said."
_READ_THE_BYTES = "reply.undecoded has its bytes in base64; reply.content has U+FFFD in place of those."
_CALLS_TOOLS = frozenset({"tool_calls", "tool_call", "tool_use", "function_call"})
_SAID_OTHERWISE = ("refusal",)
"""Fields of a server's message that stand in for a text, if they are not of the usual type."""


MOST_TOKENS = 10**12
"""More than any reply takes: a larger count is an error of whoever counted."""
UNKNOWN_USAGE, USAGE_PARTS, ENCODING = "usage", "usage_parts", "encoding"
"""The kinds of warnings about a reply: no usage that can be read, none of its parts, or bytes that are not text."""
ROLES = ("system", "developer", "user", "assistant", "tool")


class UnknownRoleError(ValueError):
    """A message was made with a role that no model knows."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, gc=False):
    """One message of a conversation; values equal to their defaults are neither in a fingerprint nor in a record."""

    role: str
    content: Content
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    """What the assistant wants called."""
    tool_call_id: str | None = None
    """Of a message with the role `tool`: the call that this is the result of."""
    reasoning: str = ""
    refusal: str = ""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise UnknownRoleError(f"A message has the role {self.role[:40]!r}. Use one of: {', '.join(ROLES)}.")

    @property
    def text(self) -> str:
        """The text in it; that of several parts is joined."""
        content = self.content
        return content if type(content) is str else joined_text(content)

    @property
    def characters(self) -> int:
        """How much text it brings along, for an estimate of its tokens."""
        spoken = len(self.text)
        if not self.tool_calls:
            return spoken
        return spoken + sum(len(call.name) + len(call.arguments) for call in self.tool_calls)


class EarlierMessage(Message, frozen=True, omit_defaults=True, gc=False):
    """A message of an earlier run, which may have any role: what is on record is read as it is."""

    def __post_init__(self) -> None:
        """Anything passes."""


LATER_FIELDS = frozenset({"tool_calls", "tool_call_id", "reasoning", "refusal"})
"""What messages have gained: whoever spells out every field leaves these out while they are empty."""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, gc=False):
    """Tokens of one reply, or of several added up; cached and reasoning tokens are parts of the other two."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


class Request(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """One question to a model, complete with its generation parameters."""

    messages: tuple[Message, ...]
    generation: Generation = Generation()
    response_schema: dict[str, Any] | None = None
    """A JSON Schema that the reply has to fit; a provider that takes none leaves it out, and the reply is any text."""


class Reply(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """One whole reply of a model; `usage` is None if the server did not report it."""

    content: Content
    finish: str
    usage: Usage | None = None
    model: str = ""
    id: str = ""
    logprobs: Any = None
    reasoning: str = ""
    refusal: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    other: dict[str, Any] = {}
    """What else the server said in its message, by the server's names."""
    undecoded: str = ""
    """The bytes of the text in base64 where they are not valid UTF-8; `content` has U+FFFD in place of those."""
    warnings: dict[str, str] = {}
    """What is wrong with a reply that is kept all the same, by kind: `usage`, `usage_parts`, `encoding`."""

    @property
    def is_plain(self) -> bool:
        """Whether it is a text, a finish and perhaps reasoning, and nothing else."""
        return type(self.content) is str and not (
            self.tool_calls or self.refusal or self.other or self.warnings or self.undecoded
        )

    @property
    def is_refusal(self) -> bool:
        """Whether the model or its service refused, whatever text stands beside it; some give no words for it."""
        return bool(self.refusal) or self.finish == "refusal"

    @property
    def text(self) -> str:
        """What the model said: its text, or else its refusal.

        Raises:
            ToolCallReply: it has no text and calls tools.
            UndecodableReply: the bytes of its text are not valid UTF-8.
            ReplyWithoutText: it has no text, but something else.
        """
        content = self.content
        if type(content) is str and content and not content.isspace() and not self.tool_calls and not self.undecoded:
            return content
        return _spoken_text(self)

    @property
    def message(self) -> Message:
        """The assistant's message that continues the conversation, with its tool calls."""
        if self.is_plain:
            return Message("assistant", self.content)
        # Servers that reason between calls want that back; after a reply in words none does.
        thought = self.reasoning if self.tool_calls else ""
        return Message("assistant", self.content, None, self.tool_calls, None, thought, self.refusal)


def _spoken_text(reply: Reply) -> str:
    if reply.undecoded:
        raise UndecodableReply("The reply has bytes that are not valid UTF-8.", hint=_READ_THE_BYTES)
    text = joined_text(reply.content)
    ends_to_call = reply.finish.lower() in _CALLS_TOOLS
    # Next to a call, blanks are what a server's parser has left over.
    if text.strip() or (text and not reply.tool_calls and not ends_to_call):
        return text
    if reply.refusal:
        return reply.refusal
    if reply.tool_calls or ends_to_call:
        raise _called_instead(reply)
    kinds = kinds_without_text(reply.content) + [name for name in _SAID_OTHERWISE if name in reply.other]
    if kinds:
        raise ReplyWithoutText(f"The reply holds {_quoted_names(kinds)} and no text.", hint=_READ_THE_PARTS)
    return text


def _called_instead(reply: Reply) -> ToolCallReply:
    if reply.tool_calls:
        called = _quoted_names([call.name for call in reply.tool_calls])
        return ToolCallReply(f"The reply calls {called} and holds no text.", hint=_RUN_THE_TOOLS)
    # A server's parser may lose the call that the model made.
    return ToolCallReply(
        f"The reply ended to call tools (finish_reason {reply.finish}), and holds neither a call nor a text.",
        hint=_LOST_CALL,
    )


def _quoted_names(names: list[str]) -> str:
    shown = ", ".join(repr(excerpt(name, _NAME_CHARACTERS)) for name in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def encodable(value: Any) -> Any:
    """The same JSON-like value with every lone surrogate, which UTF-8 cannot carry, replaced by U+FFFD."""
    if isinstance(value, str):
        return _encodable_text(value)
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(item) for item in value]
    return value


def _encodable_text(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16 the two halves of a pair that were escaped apart become one character again.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
