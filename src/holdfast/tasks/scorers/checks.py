"""The checks of a workspace: whether the commands that were run after the agent have succeeded."""

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.tasks.answer import Answer
from holdfast.tasks.sample import Sample
from holdfast.tasks.score import Score
from holdfast.tasks.scorers.base import BuiltIn


class WorkspaceChecks(BuiltIn, frozen=True, kw_only=True):
    """1 if every check of the workspace has ended with exit code 0; a share of them with `partial`."""

    kind: ClassVar[str] = "checks"
    checks_types_only: ClassVar[bool] = True
    is_binary: ClassVar[bool] = False

    name: str = "checks"
    partial: bool = False
    """Whether the score is the share of checks that have passed. Example: `true`"""

    def __call__(self, answer: Answer, sample: Sample) -> Score:
        adjusted = self.adjusted(sample, "the sample")
        results = answer.value.get("checks") if isinstance(answer.value, dict) else None
        return adjusted.judge_results(results if isinstance(results, list) else [])

    def judge_results(self, results: list[Any]) -> Score:
        """The score of the results of the checks."""
        if not results:
            return Score(None, explanation="the workspace has no checks")
        failed = [result for result in results if result.get("exit_code") != 0]
        passed = len(results) - len(failed)
        told = "; ".join(f"{result.get('command')} {result.get('ended', '')}" for result in failed)
        return Score(passed / len(results) if self.partial else float(not failed), explanation=told)

    def check_target(self, sample: Sample, place: str) -> None:
        """It needs no target."""


def checks(*, partial: bool = False, name: str = "checks") -> WorkspaceChecks:
    """Score the checks of the workspace."""
    return WorkspaceChecks.build({"partial": partial, "name": name}, "checks()")
