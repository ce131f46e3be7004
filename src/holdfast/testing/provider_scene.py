"""What a model does in one check of a provider, and what is sent to it: texts that are found again on the wire."""

from __future__ import annotations

import base64
from typing import Any, NoReturn

import msgspec

from holdfast.models.content import ImagePart, TextPart, ToolCall
from holdfast.models.message import Message, Request, Usage
from holdfast.spec import Generation

IMAGE_DATA = base64.b64encode(b"holdfast contract image").decode()
SCHEMA_MARK = "holdfast_contract_verdict"
RESPONSE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {SCHEMA_MARK: {"type": "string"}},
    "required": [SCHEMA_MARK],
    "additionalProperties": False,
}
TOOL_CALL = ToolCall("call_contract_1", "contract_search", '{"query":"Paris"}')
TOOL_RESULT = "the result of the contract's tool"
QUESTION = Request((Message("user", "Capital of France?"),), Generation(max_tokens=64))


class ContractBroken(AssertionError):  # noqa: N818 - reads as a sentence where it is raised
    """A provider does not do what every provider does."""


class Scene(msgspec.Struct, frozen=True):
    """What the model does: it replies, or with a status of 400 or more it fails."""

    text: str = "Paris"
    finish: str = "stop"
    """`stop`, `length` or `tool_calls`."""
    usage: Usage = Usage(7, 2)
    model: str = "served-model-1"
    """The name that the server reports."""
    tool_calls: tuple[ToolCall, ...] = ()
    status: int = 200
    message: str = "contract error"
    """What the server says about an error."""
    retry_after: float | None = None


def check(is_met: object, problem: str) -> None:
    """Raises ContractBroken with a sentence that says what is wrong, unless the condition is met."""
    if not is_met:
        raise ContractBroken(problem)


def broken(problem: str) -> NoReturn:
    """Raises ContractBroken."""
    raise ContractBroken(problem)


def picture_question() -> Request:
    """A request with an image in it."""
    content = (TextPart("What is this?"), ImagePart(f"data:image/png;base64,{IMAGE_DATA}"))
    return Request((Message("user", content),), QUESTION.generation)
