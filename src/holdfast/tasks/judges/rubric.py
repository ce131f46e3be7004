"""A rubric: several criteria, each graded by itself; the score is their weighted mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.suggestions import listing
from holdfast.tasks.judges.grades import LARGEST_SCORE, ChoiceGrades, ScaleGrades, part_of, shown
from holdfast.tasks.judges.verdict import WHY, Graded, NoVerdict, explanation_in, object_schema

NOT_APPLICABLE = "N/A"
NONE_APPLIES = "no criterion applies"
"""Why an answer is unscored that no criterion of the rubric applies to."""


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One criterion of a rubric."""

    text: str
    """What is looked at, in words. Example: `The answer is polite.`"""

    weight: float = 1.0
    """How much it counts in the mean, relative to the others. Example: `2`"""

    may_be_na: bool = False
    """Whether the judge may say that it does not apply: it is then left out of the mean. Example: `true`"""


class RubricGrades(msgspec.Struct, frozen=True):
    """Grades by criterion, each as one answer would be graded as a whole."""

    criteria: Mapping[str, Criterion]
    each: ChoiceGrades | ScaleGrades

    @property
    def values(self) -> tuple[float, ...]:
        return self.each.values

    @property
    def form(self) -> str:
        first = next(iter(self.criteria))
        part, name = (f"{{{self.each.example}}}", self._part)
        without = f" {self._absent_text} if the criterion does not apply." if self._any_optional else ""
        return (
            f'Reply with one JSON object and nothing else: {{{WHY}, "criteria": {{"{first}": {part}, …}}}}, with every'
            f" criterion by its name, where {name} is {self.each.meaning}.{without}"
        )

    @property
    def text(self) -> str:
        """The criteria as a list."""
        return "\n".join(
            f"- {name}: {one.text.strip()}{' (may be not applicable)' * one.may_be_na}"
            for name, one in self.criteria.items()
        )

    def schema(self) -> dict[str, Any]:
        parts = {
            name: object_schema(**self.each.part_schema(NOT_APPLICABLE if one.may_be_na else ""))
            for name, one in self.criteria.items()
        }
        return object_schema(explanation={"type": "string"}, criteria=object_schema(**parts))

    def read(self, given: dict[str, Any]) -> Graded:
        found = part_of(given, "criteria")
        if not isinstance(found, dict):
            raise NoVerdict("criteria is not an object")
        for name in found:
            if name not in self.criteria:
                raise NoVerdict(f"criteria has {shown(name)}; there are {listing(self.criteria)}")
        graded = {name: self._graded(name, one, found) for name, one in self.criteria.items()}
        return self._total(graded, explanation_in(given))

    def of_text(self, grade: str) -> Graded:
        raise NoVerdict(f"{shown(grade)} does not grade every criterion")

    @property
    def _part(self) -> str:
        return "grade" if isinstance(self.each, ChoiceGrades) else "score"

    @property
    def _absent_text(self) -> str:
        return f'grade is "{NOT_APPLICABLE}"' if isinstance(self.each, ChoiceGrades) else "score is null"

    @property
    def _any_optional(self) -> bool:
        return any(one.may_be_na for one in self.criteria.values())

    def _graded(self, name: str, criterion: Criterion, found: dict[str, Any]) -> Graded | None:
        """The verdict on one criterion; None if it does not apply."""
        part = found.get(name)
        if not isinstance(part, dict):
            raise NoVerdict(f"the criterion {name} is missing" if name not in found else f"{name} is not an object")
        absent = NOT_APPLICABLE if isinstance(self.each, ChoiceGrades) else None
        if self._part in part and part[self._part] == absent and criterion.may_be_na:
            return None
        try:
            return self.each.read(part)
        except NoVerdict as error:
            raise NoVerdict(f"of the criterion {name}, {error}") from None

    def _total(self, graded: Mapping[str, Graded | None], explanation: str) -> Graded:
        criteria = {name: _criterion_data(one) for name, one in graded.items()}
        applied = [
            (self.criteria[name].weight, one.value) for name, one in graded.items() if one and one.value is not None
        ]
        weight = math.fsum(weight for weight, _ in applied)
        value = math.fsum(weight * value for weight, value in applied) / weight if weight else None
        return Graded(value, "", explanation, {"criteria": criteria})


def _criterion_data(verdict: Graded | None) -> dict[str, Any]:
    if verdict is None:
        return {"grade": NOT_APPLICABLE, "value": None}
    why = {"explanation": verdict.explanation} if verdict.explanation else {}
    return {"grade": verdict.grade, "value": verdict.value, **why}


def checked_rubric(given: Mapping[str, str | Criterion], each: ChoiceGrades | ScaleGrades) -> RubricGrades:
    """The rubric of an eval file.

    Raises:
        ConfigurationError: it has no criterion, or one has no text or no weight.
    """
    criteria = {name: Criterion(one) if isinstance(one, str) else one for name, one in given.items()}
    if not criteria:
        raise ConfigurationError("rubric of the scorer model_graded has no criterion.")
    for name, one in criteria.items():
        if not name.strip() or not one.text.strip():
            raise ConfigurationError(f"The criterion {name!r} of the scorer model_graded needs a name and a text.")
        if not 1 / LARGEST_SCORE <= one.weight <= LARGEST_SCORE:
            raise ConfigurationError(
                f"The criterion {name!r} of the scorer model_graded has the weight {one.weight:g}.",
                hint=f"A weight is a number above 0, up to {LARGEST_SCORE:g}.",
            )
    if isinstance(each, ChoiceGrades) and NOT_APPLICABLE in each.choices:
        raise ConfigurationError(f"A grade of a rubric cannot be called {NOT_APPLICABLE}.", hint="Use may_be_na.")
    return RubricGrades(criteria, each)
