"""Grades for an answer as a whole: one of a few choices, a number on a scale, or the better of two answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.suggestions import listing
from holdfast.tasks.judges.verdict import WHY, Graded, NoVerdict, explanation_in, object_schema

CORRECT, PARTIAL, INCORRECT = "C", "P", "I"
DEFAULT_CHOICES = {CORRECT: 1.0, INCORRECT: 0.0}
PARTIAL_CHOICES = {CORRECT: 1.0, PARTIAL: 0.5, INCORRECT: 0.0}
_MEANINGS = {CORRECT: "meets the criterion", PARTIAL: "meets it in part", INCORRECT: "does not meet it"}
FIRST, SECOND, TIE = "A", "B", "tie"
_TEXT = {"type": "string"}
_SHOWN = 60
LARGEST_SCORE = 1e100
_BOUNDS_IN_WORDS = f"from {-LARGEST_SCORE:g} to {LARGEST_SCORE:g}"


class ChoiceGrades(msgspec.Struct, frozen=True):
    """One of several grades, each with its value."""

    choices: Mapping[str, float]

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(sorted(self.choices.values()))

    @property
    def meaning(self) -> str:
        """What grades there are, as the end of a sentence."""
        if all(name in _MEANINGS for name in self.choices):
            return ", ".join(f'"{name}" if the answer {_MEANINGS[name]}' for name in self.choices)
        return "one of: " + ", ".join(f'"{name}" (worth {value:g})' for name, value in self.choices.items())

    @property
    def example(self) -> str:
        return f'"grade": "{next(iter(self.choices))}"'

    @property
    def form(self) -> str:
        return f"Reply with one JSON object and nothing else: {{{WHY}, {self.example}}}, where grade is {self.meaning}."

    def schema(self) -> dict[str, Any]:
        return object_schema(explanation=_TEXT, **self.part_schema())

    def part_schema(self, also: str = "") -> dict[str, Any]:
        """What holds the grade; `also` is another one that may be given."""
        return {"grade": {"type": "string", "enum": [*self.choices, *filter(None, [also])]}}

    def read(self, given: dict[str, Any]) -> Graded:
        grade = part_of(given, "grade")
        return msgspec.structs.replace(self.of_text(grade), explanation=explanation_in(given))

    def of_text(self, grade: str) -> Graded:
        if not isinstance(grade, str) or grade not in self.choices:
            raise NoVerdict(f"grade is {shown(grade)}, and not one of {listing(self.choices)}")
        return Graded(self.choices[grade], grade)


class ScaleGrades(msgspec.Struct, frozen=True):
    """A number between two others."""

    low: float
    high: float

    @property
    def values(self) -> tuple[float, ...]:
        return self.low, self.high

    @property
    def meaning(self) -> str:
        return f"a number from {self.low:g} (worst) to {self.high:g} (best)"

    @property
    def example(self) -> str:
        return f'"score": {self.low + (self.high - self.low) * 0.75:g}'

    @property
    def form(self) -> str:
        return f"Reply with one JSON object and nothing else: {{{WHY}, {self.example}}}, where score is {self.meaning}."

    def schema(self) -> dict[str, Any]:
        return object_schema(explanation=_TEXT, **self.part_schema())

    def part_schema(self, also: str = "") -> dict[str, Any]:
        """What holds the number; null beside it where `also` is given."""
        return {"score": {"type": ["number", "null"] if also else "number"}}

    def read(self, given: dict[str, Any]) -> Graded:
        score = part_of(given, "score")
        return msgspec.structs.replace(self._checked(score), explanation=explanation_in(given))

    def of_text(self, grade: str) -> Graded:
        try:
            return self._checked(float(grade))
        except ValueError:
            raise NoVerdict(f"{shown(grade)} is not a number") from None

    def _checked(self, score: object) -> Graded:
        is_number = isinstance(score, int | float) and not isinstance(score, bool)
        # Compared before anything else: a whole number may be larger than any float.
        if not is_number or not self.low <= score <= self.high:  # type: ignore[operator]
            raise NoVerdict(f"score is {shown(score)}, and not {self.meaning}")
        return Graded(float(score), f"{score:g}")  # type: ignore[arg-type]


class PairGrades(msgspec.Struct, frozen=True):
    """Which of two answers is better: the one that stands first, the other one, or neither."""

    answer_is_first: bool = True

    @property
    def values(self) -> tuple[float, ...]:
        return 0.0, 0.5, 1.0

    @property
    def form(self) -> str:
        return (
            f'Reply with one JSON object and nothing else: {{{WHY}, "winner": "{FIRST}"}}, where winner is "{FIRST}" if'
            f' the first answer is better, "{SECOND}" if the second is, and "{TIE}" if they are equally good. The order'
            " of the two says nothing about them."
        )

    def schema(self) -> dict[str, Any]:
        return object_schema(explanation=_TEXT, winner={"type": "string", "enum": [FIRST, SECOND, TIE]})

    def read(self, given: dict[str, Any]) -> Graded:
        winner = part_of(given, "winner")
        return msgspec.structs.replace(self.of_text(winner), explanation=explanation_in(given))

    def of_text(self, grade: str) -> Graded:
        if grade == TIE:
            return Graded(0.5, TIE)
        if grade not in (FIRST, SECOND):
            raise NoVerdict(f"winner is {shown(grade)}, and not one of {FIRST}, {SECOND}, {TIE}")
        return Graded(float((grade == FIRST) is self.answer_is_first), grade)


def checked_grades(given: Mapping[str, Any]) -> dict[str, float]:
    """The choices of an eval file.

    Raises:
        ConfigurationError: there are fewer than two, or one has no name or a value out of bounds.
    """
    if len(given) < 2:
        raise ConfigurationError("choices of the scorer model_graded needs two or more grades.")
    for name, value in given.items():
        if not name.strip() or not is_in_bounds(value):
            raise ConfigurationError(
                f"choices of the scorer model_graded has {name!r} with the value {value!r}.",
                hint=f"A grade has a name and a value, {_BOUNDS_IN_WORDS}: {{C: 1, P: 0.5, I: 0}}.",
            )
    return {name: float(value) for name, value in given.items()}


def checked_scale(given: tuple[float, float]) -> ScaleGrades:
    """The scale of an eval file.

    Raises:
        ConfigurationError: it does not go from a number to a larger one, or to one that is too large.
    """
    low, high = given
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigurationError(
            f"scale of the scorer model_graded is [{low:g}, {high:g}].", hint="Give the worst and the best: [1, 5]."
        )
    if not (is_in_bounds(low) and is_in_bounds(high)):
        raise ConfigurationError(
            f"scale of the scorer model_graded is [{low:g}, {high:g}].", hint=f"Give bounds {_BOUNDS_IN_WORDS}."
        )
    return ScaleGrades(float(low), float(high))


def is_in_bounds(value: float) -> bool:
    """Whether a score of this size can be computed with: beyond, squares of scores are no floats any more."""
    return abs(value) <= LARGEST_SCORE


def part_of(given: dict[str, Any], name: str) -> Any:
    """A part of a verdict.

    Raises:
        NoVerdict: it is missing.
    """
    if name not in given:
        raise NoVerdict(f'it has no "{name}"')
    return given[name]


def shown(value: object) -> str:
    """A value in a message: its first characters."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
