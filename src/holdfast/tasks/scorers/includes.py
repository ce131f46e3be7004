"""A target occurs somewhere in the answer."""

from __future__ import annotations

from typing import ClassVar

from holdfast.errors import ConfigurationError
from holdfast.tasks.sample import Sample
from holdfast.tasks.score import Score
from holdfast.tasks.scorers.base import BuiltIn
from holdfast.tasks.scorers.comparable_text import folded_text, target_texts


class Includes(BuiltIn, frozen=True, kw_only=True):
    """True if the answer contains one of the sample's targets."""

    kind: ClassVar[str] = "includes"
    revision: ClassVar[int] = 2
    longest_text: ClassVar[int | None] = None

    name: str = "includes"
    ignore_case: bool = False
    """Whether upper and lower case are equal. Example: `true`"""

    def judge(self, text: str, sample: Sample) -> Score:
        whole = self._folded(text)
        found = next((target for target in target_texts(sample, self.name) if self._folded(target) in whole), None)
        return Score(found is not None, answer=found)

    def check_target(self, sample: Sample, place: str) -> None:
        if "" in map(self._folded, target_texts(sample, self.name, place)):
            raise ConfigurationError(
                f"The target of {place} is empty, and every answer includes that.",
                hint="Give a text, or use the scorer 'exact'.",
            )

    def _folded(self, text: str) -> str:
        return folded_text(text, ignore_case=self.ignore_case)


def includes(*, ignore_case: bool = False, name: str = "includes") -> Includes:
    """Look for the target anywhere in the answer."""
    return Includes.build({"ignore_case": ignore_case, "name": name}, "includes()")
