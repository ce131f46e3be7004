"""A score that another tool has given: it is on record in an imported run, and nothing here can give it again."""

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.errors import UsageError
from holdfast.run.core.records import PanelEntry
from holdfast.run.core.slots.slot_names import judge_slot
from holdfast.tasks.answer import Answer
from holdfast.tasks.sample import Sample
from holdfast.tasks.score import Score
from holdfast.tasks.scorers.base import BuiltIn, Scorer


class Recorded(BuiltIn, frozen=True, kw_only=True):
    """The scores of one scorer of another tool, or of its judges."""

    kind: ClassVar[str] = "recorded"
    longest_text: ClassVar[int | None] = None
    can_score: ClassVar[bool] = False

    name: str = "recorded"
    judges: tuple[str, ...] = ()
    """Whose scores they are, if judges gave them: each has a slot of its own."""
    binary: bool = False
    """Whether every score is 0 or 1."""

    @property
    def is_binary(self) -> bool:  # type: ignore[override]
        return self.binary

    def slots(self) -> tuple[Scorer, ...]:
        if not self.judges:
            return (self,)
        return tuple(RecordedSlot(name=judge_slot(self.name, judge), of=self) for judge in self.judges)

    def panel(self) -> PanelEntry:
        """How the scores of its judges are combined: there is nothing to say how the other tool did it."""
        return PanelEntry([judge_slot(self.name, judge) for judge in self.judges])

    def __call__(self, answer: Answer, sample: Sample) -> Score:  # noqa: ARG002 - as every scorer
        raise _not_ours(self.name)

    def check(self, sample: Sample, place: str) -> None:
        """Any sample has been scored, or not, elsewhere."""


class RecordedSlot(BuiltIn, frozen=True, kw_only=True):
    """One judge of a scorer of another tool."""

    kind: ClassVar[str] = "recorded"
    can_score: ClassVar[bool] = False

    of: Recorded

    @property
    def is_binary(self) -> bool:  # type: ignore[override]
        return self.of.binary

    def identity(self) -> dict[str, Any]:
        return {"scorer": self.kind, "revision": self.revision, "slot": self.name, "binary": self.of.binary}

    def __call__(self, answer: Answer, sample: Sample) -> Score:  # noqa: ARG002 - as every scorer
        raise _not_ours(self.name)

    def check(self, sample: Sample, place: str) -> None:
        """As above."""


def _not_ours(name: str) -> UsageError:
    return UsageError(f"{name} was scored by another tool and cannot be scored here.", hint="Give another scorer.")


def can_score(scorer: Scorer) -> bool:
    """Whether a scorer can judge an answer, and is not only the name of scores on record."""
    return getattr(scorer, "can_score", True) is True
