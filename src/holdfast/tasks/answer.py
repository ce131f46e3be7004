"""What a solver came to: the text that is scored, and a value beside it where there is one.

An answer is recorded before it is scored, so what cannot be recorded is refused where it is made; and scorers see the
value as it is recorded, so that they judge the same answer in every session.
"""

import inspect
from typing import Any, Protocol, runtime_checkable

import msgspec

from holdfast.errors import HoldfastError
from holdfast.models.message import Reply
from holdfast.models.reasoning_text import without_reasoning
from holdfast.tasks.json_values import RECORDABLE, Unrecordable, recorded


class InvalidAnswer(HoldfastError, TypeError):  # noqa: N818 - reads as a sentence where it is raised
    """A solver returned what is no answer."""

    kind = "task"


class Answer(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The final answer of a solver."""

    text: str
    value: Any = None
    unscored: str = ""
    """Why there is nothing to judge, if there is nothing: no scorer is asked then, and metrics leave the trial out."""

    @property
    def final_text(self) -> str:
        """The text without reasoning between `<think>` and `</think>`: what the built-in scorers and judges read."""
        return without_reasoning(self.text)


@runtime_checkable
class AnswerSource(Protocol):
    """What can say which answer it comes to, as the result of a sampling can."""

    def as_answer(self) -> Answer: ...


def as_answer(result: object) -> Answer:
    """The answer in what a solver returned: an answer, a reply of a model, or plain text.

    Raises:
        InvalidAnswer: it is of another type, or holds what cannot be recorded.
    """
    if isinstance(result, Reply):
        return _checked_answer(Answer(result.text))
    if isinstance(result, str):
        return _checked_answer(Answer(str(result)))
    if isinstance(result, Answer):
        return _checked_answer(result)
    if isinstance(result, AnswerSource):
        return _checked_answer(result.as_answer())
    if inspect.iscoroutine(result):
        result.close()  # Python would warn, somewhere else, that nobody has awaited it.
        raise InvalidAnswer(
            f"The solver returned a coroutine of {result.__name__}().", hint="Write `await` before the call."
        )
    raise InvalidAnswer(
        f"The solver returned {type(result).__name__}.",
        hint="It must return an Answer, a Reply or a text.",
    )


def _checked_answer(answer: Answer) -> Answer:
    if not isinstance(answer.text, str):
        raise InvalidAnswer(
            f"The solver returned an answer whose text is {type(answer.text).__name__}.",
            hint="Give text as a str, and anything else as value.",
        )
    try:
        if not answer.text.isascii():
            recorded(answer.text)
        return answer if answer.value is None else msgspec.structs.replace(answer, value=recorded(answer.value))
    except Unrecordable as error:
        raise InvalidAnswer(f"The solver returned an answer that {error}.", hint=RECORDABLE) from None
