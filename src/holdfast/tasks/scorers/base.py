"""What every scorer is, and what the built-in ones share: named arguments, checked, and an identity.

A scorer's identity holds everything that its judgement depends on. It is compared when a run is resumed, so it
changes when, and only when, an answer might be judged differently.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.spec.whole_numbers import convert_arguments
from holdfast.suggestions import did_you_mean, listing
from holdfast.tasks.answer import Answer
from holdfast.tasks.sample import Sample
from holdfast.tasks.score import Score

LONGEST_TEXT = 100_000
"""Scorers that search an answer look at this many of its last characters: what is asked for is at the end."""


@runtime_checkable
class Scorer(Protocol):
    """Judges one answer; `check` says before the run whether a sample can be judged at all.

    One whose call takes a third parameter of the name `scope` gets its `ScoreScope`.
    """

    @property
    def name(self) -> str: ...
    def __call__(self, answer: Answer, sample: Sample) -> Score | Awaitable[Score]: ...
    def identity(self) -> dict[str, Any]: ...
    def check(self, sample: Sample, place: str) -> None: ...


def is_binary(scorer: Scorer) -> bool:
    """Whether a scorer says of itself that every score is 0 or 1: its metric is then called accuracy."""
    return getattr(scorer, "is_binary", False) is True


class BuiltIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scorer whose arguments are its fields; a sample may override them for itself."""

    kind: ClassVar[str]
    revision: ClassVar[int] = 1
    """Raised whenever the same arguments judge differently than before."""

    checks_types_only: ClassVar[bool] = False
    """Whether `check` gives one result for all samples whose fields have the same types."""

    is_binary: ClassVar[bool] = True
    """Whether every score is 0 or 1."""

    longest_text: ClassVar[int | None] = LONGEST_TEXT
    """How much of an answer's end it looks at; None where its time does not depend on more than the length."""

    name: str
    """The name of the score in reports; needed if a task uses one scorer twice. Default: the name of the scorer.
    Example: `strict`
    """

    @classmethod
    def build(cls, arguments: Mapping[str, Any], where: str) -> Self:
        """A scorer from arguments as written in an eval file or a row."""
        valid = cls.__struct_fields__
        for argument in arguments:
            if argument not in valid:
                raise ConfigurationError(
                    f"{where}: the scorer {cls.kind} takes no argument {argument!r}; it takes {listing(valid)}.",
                    hint=did_you_mean(argument, valid),
                )
        try:
            return convert_arguments(dict(arguments), cls)
        except msgspec.ValidationError as error:
            from holdfast.tasks.scorers.argument_fault import argument_fault  # noqa: PLC0415 - for mistakes only

            raise ConfigurationError(f"{where}: {argument_fault(cls, cls.kind, str(error))}.") from None

    def __call__(self, answer: Answer, sample: Sample) -> Score:
        adjusted = self.adjusted(sample, "the sample")
        text = answer.final_text
        return adjusted.judge(text if self.longest_text is None else text[-self.longest_text :], sample)

    def adjusted(self, sample: Sample, place: str) -> Self:
        """This scorer with the arguments that the sample carries for it."""
        own = sample.scoring.get(self.name)
        return self.build({**msgspec.structs.asdict(self), **own}, place) if own else self

    def slots(self) -> tuple[Scorer, ...]:
        """What a task has in its place: itself, or a scorer for each judge."""
        return (self,)

    def effect(self) -> Any:
        """What two spellings of the same scorer have in common."""
        return self

    def identity(self) -> dict[str, Any]:
        return {"scorer": self.kind, "revision": self.revision, "arguments": msgspec.structs.asdict(self)}

    def check(self, sample: Sample, place: str) -> None:
        """Raise if the sample does not have what this scorer needs."""
        self.adjusted(sample, place).check_target(sample, place)

    def judge(self, text: str, sample: Sample) -> Score:
        raise NotImplementedError

    def check_target(self, sample: Sample, place: str) -> None:
        raise NotImplementedError
