"""`model_graded`: one or several models of the eval grade an answer.

It is a panel, also with one judge: a task has a slot for each judge, which is asked, recorded and retried by itself.
Their combined score is computed when scores are read, so a judge can be added to a run later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.run.core.records import MEAN_OF_JUDGES, PanelEntry
from holdfast.run.core.slots.slot_names import judge_slot
from holdfast.tasks.judges.grades import (
    DEFAULT_CHOICES,
    PARTIAL_CHOICES,
    ChoiceGrades,
    PairGrades,
    ScaleGrades,
    checked_grades,
    checked_scale,
)
from holdfast.tasks.judges.judge_prompt import judge_template
from holdfast.tasks.judges.other_run import OtherRun
from holdfast.tasks.judges.rubric import Criterion, checked_rubric
from holdfast.tasks.judges.verdict import Grading
from holdfast.tasks.sample import Sample
from holdfast.tasks.scorers.base import BuiltIn, Scorer
from holdfast.tasks.scorers.comparable_text import target_texts
from holdfast.tasks.scorers.regex import compiled_pattern

_OF_THE_PANEL = ("name", "model", "models", "combine", "pass_at")
"""What a sample cannot change for itself: it concerns the judges together."""
_WITH_PAIRWISE = ("choices", "scale", "rubric")


class ModelGraded(BuiltIn, frozen=True, kw_only=True):
    """One or several models of the eval grade the answer, with JSON as their verdict.

    See [judges.md](judges.md).
    """

    kind: ClassVar[str] = "model_graded"

    name: str = "model_graded"
    model: str | None = None
    """The judge: the name of a model of the eval. Example: `judge`"""

    models: list[str] | None = None
    """Several judges instead of one: each grades every answer by itself. Example: `[judge, other]`"""

    combine: Literal["mean", "majority"] = "mean"
    """How several judges are combined: the mean of their valid scores, or 1 or 0 by strict majority of all judges.
    Example: `majority`
    """

    pass_at: float | None = None
    """The lowest score of a judge that counts as a pass in a majority. Default: the middle between the lowest and the
    highest score that a judge can give.
    Example: `0.5`
    """

    criterion: str | None = None
    """What the answer must meet, in words. Default: the answer is correct, by the target where the sample has one.
    Example: `The answer is polite.`
    """

    choices: dict[str, float] | None = None
    """The grades that a judge can give, with their values. Default: `{C: 1, I: 0}`. Example: `{C: 1, P: 0.5, I: 0}`"""

    partial: bool = False
    """Whether the default grades have a third one: `P`, worth 0.5. Example: `true`"""

    scale: tuple[float, float] | None = None
    """A number instead of a grade: the worst and the best. Example: `[1, 5]`"""

    rubric: dict[str, str | Criterion] | None = None
    """Several criteria by name, each graded by itself; the score is their mean. A criterion is a text, or a map with
    `text`, `weight` (default 1) and `may_be_na`: it may be graded as not applicable, and does not count then.
    Example: `{tone: The answer is polite., facts: {text: Its facts are right., weight: 2}}`
    """

    pairwise: bool | OtherRun = False
    """Whether the judge compares the answer with the sample's target, twice with the order swapped: 1 for a win, 0.5
    for a tie, 0 for a loss, and the mean of the two. A map with `run`, and `model` if that run has several, compares
    with the answers of another run instead.
    Example: `{run: runs/baseline}`
    """

    template: str | None = None
    """What the judge is asked, with `{question}`, `{answer}`, `{criterion}` and `{target}`; for `pairwise`, with
    `{first}` and `{second}` instead of answer and target. How to reply is added to it. Default: a built-in template.
    Example: `'Does {answer} answer {question}?'`
    """

    instructions: str | None = None
    """Further instructions, added behind the template. Example: `Be strict about units.`"""

    grade_pattern: str | None = None
    """A regular expression whose first group finds the grade in the judge's text, instead of JSON; the template or the
    instructions must say how the grade is written then.
    Example: `'GRADE: ([CPI])'`
    """

    @classmethod
    def build(cls, arguments: Mapping[str, Any], where: str) -> Self:
        try:
            return super().build(arguments, where)
        except ConfigurationError as error:
            if error.message.startswith(where):
                raise
            raise ConfigurationError(f"{where}: {error.message}", hint=error.hint) from None

    def __post_init__(self) -> None:
        self._check_judges()
        self._check_grading()
        self._check_texts()

    @property
    def judges(self) -> tuple[str, ...]:
        """The names of the models that grade."""
        return tuple(self.models or ()) if self.model is None else (self.model,)

    @property
    def grading(self) -> Grading:
        """How the judges grade."""
        each = self._each()
        if self.pairwise:
            return PairGrades()
        return each if self.rubric is None else checked_rubric(self.rubric, each)

    @property
    def is_binary(self) -> bool:  # type: ignore[override]
        """Whether a judge can give nothing but 0 and 1."""
        grading = self.grading
        return isinstance(grading, ChoiceGrades) and set(grading.values) <= {0.0, 1.0}

    @property
    def needs_target(self) -> bool:
        return self.pairwise is True or (self.template is not None and "target" in self._own_template_paths())

    def panel(self, judges: Sequence[str] | None = None) -> PanelEntry:
        """How the scores of the judges are combined."""
        slots = [judge_slot(self.name, judge) for judge in (self.judges if judges is None else judges)]
        return PanelEntry(slots, self.combine, self.effective_pass_at, bool(self.pairwise))

    @property
    def effective_pass_at(self) -> float:
        values = self.grading.values
        return (values[0] + values[-1]) / 2 if self.pass_at is None else float(self.pass_at)

    def slots(self) -> tuple[Scorer, ...]:
        """One scorer for each judge."""
        from holdfast.tasks.judges.judge_slot import JudgeSlot  # noqa: PLC0415 - it knows this module

        return tuple(JudgeSlot(name=judge_slot(self.name, judge), of=self, model=judge) for judge in self.judges)

    def effect(self) -> Any:
        return sorted(self.judges), self.combine, self.effective_pass_at, self.name, self.verdict_arguments()

    def verdict_arguments(self) -> dict[str, Any]:
        """Every argument that the verdict of one judge depends on, with defaults filled in."""
        named = {
            "criterion": self.criterion,
            "template": self.template,
            "instructions": self.instructions,
            "grade_pattern": self.grade_pattern,
        }
        graded = msgspec.to_builtins({"pairwise": self.pairwise} if self.pairwise else self.grading)
        return {"grading": graded, **{name: value for name, value in named.items() if value is not None}}

    def for_sample(self, sample: Sample, place: str) -> Self:
        """This scorer with the arguments that the sample carries for it.

        Raises:
            ConfigurationError: they are wrong, or concern the judges together.
        """
        own = sample.scoring.get(self.name)
        if not own:
            return self
        for name, value in own.items():
            if name in _OF_THE_PANEL or (name == "pairwise" and isinstance(value, Mapping)):
                raise ConfigurationError(
                    f"{place}: a sample cannot change the argument {name!r} of the scorer {self.name!r}."
                )
        kept = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return self.build({**kept, **own}, place)

    def check(self, sample: Sample, place: str) -> None:
        adjusted = self.for_sample(sample, place)
        if adjusted.needs_target:
            target_texts(sample, self.name, place)

    def _each(self) -> ChoiceGrades | ScaleGrades:
        if self.scale is not None:
            return checked_scale(self.scale)
        default = PARTIAL_CHOICES if self.partial else DEFAULT_CHOICES
        return ChoiceGrades(default if self.choices is None else checked_grades(self.choices))

    def _own_template_paths(self) -> tuple[str, ...]:
        return judge_template(self.template or "", is_pairwise=bool(self.pairwise)).paths

    def _check_judges(self) -> None:
        if (self.model is None) == (not self.models):
            given = "both a model and models" if self.models else "no judge"
            raise ConfigurationError(
                f"The scorer model_graded has {given}.",
                hint="Give the judge as model, or several as models: {model_graded: {model: judge}}.",
            )
        for index, judge in enumerate(self.judges):
            if not judge.strip():
                raise ConfigurationError("A judge of the scorer model_graded has an empty name.")
            if judge in self.judges[:index]:
                raise ConfigurationError(f"The scorer model_graded names the judge {judge!r} twice.")
        if not self.name.strip():
            raise ConfigurationError("A scorer model_graded has an empty name.", hint="Leave the argument name out.")

    def _check_grading(self) -> None:
        for name in _WITH_PAIRWISE if self.pairwise else ():
            if getattr(self, name) is not None:
                raise ConfigurationError(f"The scorer model_graded has pairwise and also {name}.", hint="Keep one.")
        if self.choices is not None and self.scale is not None:
            raise ConfigurationError("The scorer model_graded has choices and also scale.", hint="Keep one.")
        if isinstance(self.pairwise, OtherRun) and ("://" in self.pairwise.run or not self.pairwise.run.strip()):
            raise ConfigurationError(
                f"pairwise of the scorer model_graded has the run {self.pairwise.run!r}.",
                hint="Give the directory of a run on this machine.",
            )
        if self.partial and (self.choices is not None or self.scale is not None or self.pairwise):
            raise ConfigurationError(
                "partial of the scorer model_graded is for the default grades.", hint="Leave it out."
            )
        grading = self.grading
        if self.pass_at is not None and not math.isfinite(self.pass_at):
            raise ConfigurationError(f"pass_at of the scorer model_graded is {self.pass_at}.")
        low, high = grading.values[0], grading.values[-1]
        if self.pass_at is not None and not low < self.pass_at <= high:
            raise ConfigurationError(
                f"pass_at of the scorer model_graded is {self.pass_at:g}, and a judge gives from {low:g} to {high:g}.",
                hint="Give a value above the lowest one.",
            )

    def _check_texts(self) -> None:
        for name in ("criterion", "template", "instructions", "grade_pattern"):
            given = getattr(self, name)
            if given is not None and not given.strip():
                raise ConfigurationError(f"{name} of the scorer model_graded is empty.", hint="Leave it out.")
        if self.criterion is not None and self.rubric is not None:
            raise ConfigurationError("The scorer model_graded has a criterion and also a rubric.", hint="Keep one.")
        if self.template is not None:
            self._own_template_paths()
        if self.grade_pattern is not None:
            self._check_pattern(self.grade_pattern)

    def _check_pattern(self, pattern: str) -> None:
        if not compiled_pattern(pattern, ignore_case=False).groups:
            raise ConfigurationError(
                f"grade_pattern of the scorer model_graded, {pattern[:200]!r}, has no group.",
                hint="Its first group finds the grade: 'GRADE: ([CPI])'.",
            )
        if self.rubric is not None:
            raise ConfigurationError("The scorer model_graded has a rubric and also grade_pattern.", hint="Keep one.")
        if self.template is None and self.instructions is None:
            raise ConfigurationError(
                "grade_pattern of the scorer model_graded needs instructions or a template that say how a judge writes"
                " its grade.",
                hint="As in instructions: 'End with GRADE: C or GRADE: I.'",
            )


def model_graded(  # noqa: PLR0913 - the arguments of the scorer, each by its name
    *,
    model: str | None = None,
    models: Sequence[str] | None = None,
    name: str = "model_graded",
    combine: Literal["mean", "majority"] = MEAN_OF_JUDGES,  # type: ignore[assignment]
    pass_at: float | None = None,
    criterion: str | None = None,
    choices: Mapping[str, float] | None = None,
    partial: bool = False,
    scale: Sequence[float] | None = None,
    rubric: Mapping[str, str | Criterion | Mapping[str, Any]] | None = None,
    pairwise: bool | OtherRun | Mapping[str, str] = False,
    template: str | None = None,
    instructions: str | None = None,
    grade_pattern: str | None = None,
) -> ModelGraded:
    """Have one or several models of the eval grade the answer.

    Raises:
        ConfigurationError: an argument is wrong, or two exclude one another.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    return ModelGraded.build(msgspec.to_builtins(given), "model_graded()")
