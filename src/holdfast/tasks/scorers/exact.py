"""The whole answer equals a target, apart from surrounding white space and what it is set to ignore."""

from __future__ import annotations

from typing import ClassVar

from holdfast.tasks.sample import Sample
from holdfast.tasks.score import Score
from holdfast.tasks.scorers.base import LONGEST_TEXT, BuiltIn
from holdfast.tasks.scorers.comparable_text import folded_text, target_texts


class Exact(BuiltIn, frozen=True, kw_only=True):
    """True if the whole answer equals one of the sample's targets, apart from white space around it."""

    kind: ClassVar[str] = "exact"
    revision: ClassVar[int] = 2
    checks_types_only: ClassVar[bool] = True
    longest_text: ClassVar[int | None] = None

    name: str = "exact"
    ignore_case: bool = False
    """Whether upper and lower case are equal. Example: `true`"""

    ignore_punctuation: bool = False
    """Whether punctuation is ignored. Example: `true`"""

    def judge(self, text: str, sample: Sample) -> Score:
        accepted = {self._folded(target) for target in target_texts(sample, self.name)}
        # The answer itself is on record; what the score repeats of it is for people.
        return Score(self._folded(text) in accepted, answer=text.strip()[-LONGEST_TEXT:])

    def check_target(self, sample: Sample, place: str) -> None:
        target_texts(sample, self.name, place)

    def _folded(self, text: str) -> str:
        return folded_text(text, ignore_case=self.ignore_case, ignore_punctuation=self.ignore_punctuation)


def exact(*, ignore_case: bool = False, ignore_punctuation: bool = False, name: str = "exact") -> Exact:
    """Compare the whole answer with the target."""
    return Exact.build({"ignore_case": ignore_case, "ignore_punctuation": ignore_punctuation, "name": name}, "exact()")
