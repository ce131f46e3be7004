"""What a solver came to: the text that is scored, and a value beside it where there is one."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.errors import HoldfastError
from holdfast.models.message import Reply


class InvalidAnswer(HoldfastError, TypeError):  # noqa: N818 - reads as a sentence where it is raised
    """A solver returned what is no answer."""

    kind = "task"


class Answer(msgspec.Struct, frozen=True):
    """The outcome of the solve stage."""

    text: str
    value: Any = None


def as_answer(result: object, solver: str = "The solver") -> Answer:
    """The answer in what a solver returned: an answer, a reply of a model, or plain text."""
    if isinstance(result, Answer):
        return result
    if isinstance(result, Reply):
        return Answer(result.text)
    if isinstance(result, str):
        return Answer(result)
    raise InvalidAnswer(
        f"{solver} returned {type(result).__name__}.",
        hint="It has to return an Answer, a Reply or a text.",
    )
