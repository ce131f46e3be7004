"""A scorer's judgement of one answer: a finite number, or none for a reason, and beside it what can be recorded."""

import math
from typing import Any

import msgspec

from holdfast.errors import HoldfastError
from holdfast.tasks.json_values import RECORDABLE, Unrecordable, recorded

# Beyond it neighbouring integers are no longer told apart by the readers of a report.
LARGEST_INTEGER = 2**53


class InvalidScore(HoldfastError, TypeError):  # noqa: N818 - reads as a sentence where it is raised
    """A scorer returned what is no score."""

    kind = "task"


class Score(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The result of a scorer: a value, the part of the answer that was compared, and an explanation.

    `Score(None, explanation=...)` leaves the answer unscored, for the reason given: the trial is valid, and metrics
    leave it out.
    """

    value: bool | int | float | None
    answer: str | None = None
    explanation: str = ""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.value is None:
            self._check_reason()
            return
        fault = _describe_invalid(self.value)
        if fault:
            raise InvalidScore(f"A score cannot be {fault}.", hint="It must be a boolean or a finite number.")

    def _check_reason(self) -> None:
        if not self.explanation:
            raise InvalidScore(
                "A score without a value needs a reason.", hint='As in Score(None, explanation="no majority").'
            )


def as_score(result: object, scorer: str) -> Score:
    """The score in what a scorer returned: a score, a boolean or a finite number.

    Raises:
        InvalidScore: it is of another type, or holds what cannot be recorded.
    """
    if isinstance(result, Score):
        return _checked_score(result, scorer)
    if not isinstance(result, bool | int | float):
        raise InvalidScore(
            f"The scorer {scorer!r} returned {type(result).__name__}.",
            hint="It must return a boolean, a finite number or a Score.",
        )
    # A subclass, such as a number of NumPy's, becomes the plain number that every reader knows.
    plain = result if isinstance(result, bool) else float(result) if isinstance(result, float) else int(result)
    try:
        return Score(plain)
    except InvalidScore as error:
        raise InvalidScore(
            f"The scorer {scorer!r} returned an invalid score. {error.message}", hint=error.hint
        ) from None


def _checked_score(score: Score, scorer: str) -> Score:
    try:
        _check_text_part("answer", "" if score.answer is None else score.answer)
        _check_text_part("explanation", score.explanation)
        return msgspec.structs.replace(score, metadata=_recorded_map(score.metadata)) if score.metadata else score
    except Unrecordable as error:
        raise InvalidScore(f"The scorer {scorer!r} returned a score that {error}.", hint=RECORDABLE) from None


def _recorded_map(metadata: object) -> dict[str, Any]:
    found = recorded(metadata)
    if not isinstance(found, dict):
        raise Unrecordable(f"has metadata of the type {type(metadata).__name__}")
    return found


def _check_text_part(part: str, text: object) -> None:
    if not isinstance(text, str):
        raise Unrecordable(f"has an {part} of the type {type(text).__name__}")
    if not text.isascii():
        recorded(text)


def _describe_invalid(value: object) -> str:
    if not isinstance(value, (bool, int, float)):
        return type(value).__name__
    if isinstance(value, int):
        return "an integer beyond 2**53" if abs(value) > LARGEST_INTEGER else ""
    return "" if math.isfinite(value) else repr(value)
