"""Checking a candidate: every requirement in its order, and one verdict for each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.sampling.requirements.requirement import Checking, Draft, Requirement
from holdfast.sampling.requirements.verdict import Verdict, VerdictKind


class Checks:
    """The requirements of one sampling."""

    def __init__(self, requirements: Sequence[Requirement], *, short_circuit: bool) -> None:
        self._requirements, self._short_circuit = requirements, short_circuit
        self.are_quick = all(requirement.is_quick for requirement in requirements)
        """Whether `run_quick` will do."""

    def run_quick(self, draft: Draft, verdicts: list[Verdict]) -> bool:
        """As `run`, where nothing has to be waited for."""
        is_valid = True
        for requirement in self._requirements:
            verdict = _complete(requirement.check(draft), requirement)
            verdicts.append(verdict)
            if verdict.kind is not VerdictKind.PASSED:
                is_valid = False
                if self._short_circuit:
                    break
        return is_valid

    async def run(self, draft: Draft, checking: Checking, verdicts: list[Verdict]) -> bool:
        """Puts one verdict after another into the list; whether all are passed.

        Raises:
            TypeError: a check has returned something else.
        """
        is_valid = True
        for requirement in self._requirements:
            is_quick = requirement.is_quick
            found = requirement.check(draft) if is_quick else await requirement.check_later(draft, checking)
            verdicts.append(_complete(found, requirement))
            is_valid = is_valid and verdicts[-1].is_passed
            if not is_valid and self._short_circuit:
                break
        return is_valid

    def after(self, verdicts: Sequence[Verdict]) -> Requirement | None:
        """The requirement that comes after these verdicts: the one that was being checked when something failed."""
        return self._requirements[len(verdicts)] if len(verdicts) < len(self._requirements) else None


def _complete(verdict: object, requirement: Requirement) -> Verdict:
    """The verdict with the id of its requirement, and a reason where it is not passed."""
    if not isinstance(verdict, Verdict):
        raise TypeError(f"The requirement {requirement.id!r} returned {type(verdict).__name__}, not a verdict.")
    if verdict.kind is VerdictKind.PASSED and verdict.requirement == requirement.id:
        return verdict
    reason = verdict.reason or requirement.description or requirement.id
    return msgspec.structs.replace(verdict, requirement=requirement.id, reason=reason, hidden=requirement.check_only)
