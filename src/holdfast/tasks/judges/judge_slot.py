"""The slot of one judge: an ordinary scorer that asks a model, through its scope."""

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.errors import UsageError
from holdfast.models.reasoning_text import without_reasoning
from holdfast.run.core.slots.slot_names import NO_OTHER_ANSWER, OTHER_QUESTION, WINNERS, judge_slot
from holdfast.tasks.answer import Answer
from holdfast.tasks.json_values import json_text
from holdfast.tasks.judges.grades import FIRST, TIE, PairGrades
from holdfast.tasks.judges.judge_prompt import (
    AGREES,
    ANSWER,
    COMPARED,
    FIRST_ANSWER,
    IS_BETTER,
    IS_CORRECT,
    QUESTION,
    SECOND_ANSWER,
    TARGET,
    WITH_TARGET,
    WITHOUT_TARGET,
    judge_request,
    judge_template,
)
from holdfast.tasks.judges.judge_reply import CALLS, InvalidVerdict, Judge
from holdfast.tasks.judges.model_graded import ModelGraded
from holdfast.tasks.judges.other_run import OtherAnswers
from holdfast.tasks.judges.rubric import NONE_APPLIES, RubricGrades
from holdfast.tasks.judges.verdict import Graded
from holdfast.tasks.sample import Sample
from holdfast.tasks.score import Score
from holdfast.tasks.scorers.base import BuiltIn
from holdfast.tasks.trial_interface import ScoreScope

INVALID_VERDICT = "invalid verdict"
"""Why a slot has no score whose judge gave none, as its explanation begins."""


_OTHER_QUESTION = f"{OTHER_QUESTION}: the other run has a sample of this id with another input"
_NO_OTHER_ANSWER = f"{NO_OTHER_ANSWER}: the other run has none to this sample"


class JudgeSlot(BuiltIn, frozen=True, kw_only=True):
    """One judge of a `model_graded`."""

    kind: ClassVar[str] = "model_graded"
    revision: ClassVar[int] = 2

    of: ModelGraded
    model: str
    """The judge."""
    other: OtherAnswers | None = None
    """The answers that it compares with, if they are those of another run and have been read."""

    @property
    def is_binary(self) -> bool:  # type: ignore[override]
        return self.of.is_binary

    @property
    def models(self) -> tuple[str, ...]:
        """The models that it asks."""
        return (self.model,)

    @property
    def calls(self) -> int:
        """How many calls it makes at most."""
        return CALLS * (2 if self.of.pairwise else 1)

    def with_judge(self, judge: str) -> JudgeSlot:
        """The slot of another judge of the same panel."""
        return JudgeSlot(name=judge_slot(self.of.name, judge), of=self.of, model=judge, other=self.other)

    def identity(self) -> dict[str, Any]:
        return {
            "scorer": self.kind,
            "revision": self.revision,
            "judge": self.model,
            "arguments": self.of.verdict_arguments() | self._compared_with(),
        }

    def _compared_with(self) -> dict[str, Any]:
        """The content of another run's answers counts, and not where they were."""
        return {} if self.other is None else {"grading": {"pairwise": {"answers": self.other.digest}}}

    def check(self, sample: Sample, place: str) -> None:
        self.of.check(sample, place)

    async def __call__(self, answer: Answer, sample: Sample, scope: ScoreScope | None = None) -> Score:  # type: ignore[override]
        if scope is None:
            raise UsageError(f"The judge {self.name!r} has no scope to ask its model in.", hint="Judges score in runs.")
        judged = _Judged(self.of.for_sample(sample, "the sample"), self.model, answer, sample, scope)
        if not self.of.pairwise:
            return await judged.graded()
        if self.other is None:
            return await judged.compared(judged.target or "", "the target")
        if self.other.is_asked_otherwise(scope.sample_key):
            return Score(None, explanation=_OTHER_QUESTION)
        other = self.other.find(scope.sample_key, scope.epoch, scope.axes)
        return Score(None, explanation=_NO_OTHER_ANSWER) if other is None else await judged.compared(other, "the other")


class _Judged:
    """An answer that is being judged."""

    def __init__(self, how: ModelGraded, judge: str, answer: Answer, sample: Sample, scope: ScoreScope) -> None:
        self._how, self._judge, self._answer, self._sample, self._scope = how, judge, answer, sample, scope
        self.target = None if sample.target is None else _target_text(sample)

    async def graded(self) -> Score:
        """The score of the answer by itself."""
        grading = self._how.grading
        data = {ANSWER: self._answer.final_text, **({} if self.target is None else {TARGET: self.target})}
        found = await self._asked(Judge(self._judge, grading, self._how.grade_pattern), data)
        return _invalid(found) if isinstance(found, InvalidVerdict) else _score(found)

    async def compared(self, other: str, name: str) -> Score:
        """The mean of two comparisons with another answer, once in each order; explanations call it by its name."""
        texts, verdicts = [self._answer.final_text, without_reasoning(other)], []
        for answer_is_first in (True, False):
            first, second = texts if answer_is_first else reversed(texts)
            judge = Judge(self._judge, PairGrades(answer_is_first), self._how.grade_pattern)
            found = await self._asked(judge, {FIRST_ANSWER: first, SECOND_ANSWER: second})
            if isinstance(found, InvalidVerdict):
                return _invalid(found)
            verdicts.append(found)
        return _mean_of_both(verdicts, name)

    async def _asked(self, judge: Judge, data: dict[str, str]) -> Graded | InvalidVerdict:
        how, grading = self._how, judge.grading
        criterion = grading.text if isinstance(grading, RubricGrades) else how.criterion or self._default_criterion()
        form = "" if how.grade_pattern is not None else grading.form
        data = {QUESTION: self._scope.question, **data}
        template = judge_template(how.template or self._default_template(), is_pairwise=bool(how.pairwise))
        return await judge.verdict(judge_request(template, criterion, data, how.instructions or "", form), self._scope)

    def _default_template(self) -> str:
        if self._how.pairwise:
            return COMPARED
        return WITHOUT_TARGET if self.target is None else WITH_TARGET

    def _default_criterion(self) -> str:
        if self._how.pairwise:
            return IS_BETTER
        return IS_CORRECT if self.target is None else AGREES


def _score(verdict: Graded) -> Score:
    if verdict.value is None:
        why = f"{NONE_APPLIES}: {verdict.explanation}" if verdict.explanation else NONE_APPLIES
        return Score(None, explanation=why, metadata=verdict.metadata)
    return Score(verdict.value, verdict.grade or None, verdict.explanation, verdict.metadata)


def _invalid(found: InvalidVerdict) -> Score:
    """No score, for that reason; what the judge said is kept."""
    return Score(None, explanation=f"{INVALID_VERDICT}: {found.why}", metadata={"said": found.said})


def _mean_of_both(verdicts: list[Graded], other: str) -> Score:
    values = [verdict.value or 0.0 for verdict in verdicts]
    winners = [verdict.grade for verdict in verdicts]
    said = [
        f"{_winner(winner, answer, other)}: {verdict.explanation}".removesuffix(": ")
        for winner, answer, verdict in zip(winners, (FIRST, "B"), verdicts, strict=True)
    ]
    return Score(sum(values) / 2, "/".join(winners), "; ".join(said), {WINNERS: winners})


def _winner(winner: str, answer: str, other: str) -> str:
    return TIE if winner == TIE else "the answer wins" if winner == answer else f"{other} wins"


def _target_text(sample: Sample) -> str:
    """The target as a text; several accepted ones a line each."""
    accepted = sample.target if isinstance(sample.target, list) else [sample.target]
    return "\n".join(json_text(one) for one in accepted)
