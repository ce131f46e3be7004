"""The figures of a sampling, from its steps: how its candidates ended, and what each of them used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from holdfast.engine.trials.asking.trial_account import as_shares
from holdfast.engine.trials.scopes import sampling_in_path, scope_in_key
from holdfast.models.message import Usage
from holdfast.models.role import ModelRole
from holdfast.run.core.records import CANDIDATE, CHOICE, SamplingSummary, ShareKey, StepRecord
from holdfast.sampling.candidate import CandidateRecord, CandidateStatus
from holdfast.sampling.host import SamplingChoice
from holdfast.sampling.on_record import candidate_in, choice_in

STRATEGY = "strategy"
"""What their `request` says."""
_Position = tuple[int, int]


def turn_path(lane: int, turn: int) -> str:
    """The path of a turn below that of its sampling."""
    return f"lane-{lane}/turn-{turn}"


class SamplingTally:
    """The figures of one sampling, from the steps that count."""

    def __init__(self, path: str, strategy: str = "") -> None:
        """`path` is that of its scope."""
        self._path, self._strategy = path, strategy
        self._taken: dict[str, dict[ShareKey, Usage]] = {}
        """By the path of their turn, what calls took."""
        self._replies: dict[str, Usage] = {}
        """By the path of their turn, what candidates took without their judges."""
        self._judging: dict[str, Usage] = {}
        """By the path of their turn, what the judges of candidates took."""
        self._calls: set[str] = set()
        self._statuses: dict[_Position, CandidateStatus] = {}
        self.choice: SamplingChoice | None = None

    def add(self, step: StepRecord) -> None:
        """Takes in a step, whichever of the sampling's it is."""
        if step.name not in {CANDIDATE, CHOICE}:
            self._add_call(step)
            return
        self._strategy = _strategy_in(step)
        if step.name == CHOICE:
            self.choice = choice_in(step) or self.choice
        elif (candidate := candidate_in(step)) is not None:
            self.note(candidate)

    def _add_call(self, step: StepRecord) -> None:
        self._calls.add(step.step)
        if step.usage is None:
            return
        path, share = scope_in_key(step.step), (step.model, bool(step.source))
        taken = self._taken.setdefault(path, {})
        taken[share] = taken.get(share, Usage()) + step.usage
        taken_for = self._replies if step.role is ModelRole.UNDER_TEST else self._judging
        taken_for[path] = taken_for.get(path, Usage()) + step.usage

    def note(self, candidate: CandidateRecord) -> None:
        """A candidate has ended; of several in one place the last counts."""
        self._statuses[candidate.lane, candidate.turn] = candidate.status

    @property
    def calls(self) -> int:
        """How many calls it has taken so far."""
        return len(self._calls)

    def note_given_up(self, lane: int, turn: int) -> None:
        """A reply is recorded of which nothing was made: its candidate was not needed any more."""
        self._statuses.setdefault((lane, turn), CandidateStatus.CANCELLED)

    def judging_usage(self, lane: int, turn: int) -> Usage | None:
        """What the judges of a candidate took, as far as it is known."""
        return self._judging.get(f"{self._path}/{turn_path(lane, turn)}")

    def reply_usage(self, lane: int, turn: int) -> Usage | None:
        """What the reply of a candidate took, as far as it is known."""
        return self._replies.get(f"{self._path}/{turn_path(lane, turn)}")

    def summary(self) -> SamplingSummary:
        """What the end of the trial says of it."""
        choice = self.choice or SamplingChoice(success=False, stop_reason="")
        return SamplingSummary(
            strategy=self._strategy,
            success=choice.success,
            lane=choice.lane,
            turn=choice.turn,
            turns=max((turn for _, turn in self._statuses), default=-1) + 1,
            calls=len(self._calls),
            candidates=dict(sorted(Counter(map(str, self._statuses.values())).items())),
            wasted=as_shares(self._wasted(choice)),
            capped=choice.capped,
        )

    def _wasted(self, choice: SamplingChoice) -> dict[ShareKey, Usage]:
        chosen, found = f"{self._path}/{turn_path(choice.lane, choice.turn)}", dict[ShareKey, Usage]()
        for path, taken in self._taken.items():
            for share, usage in taken.items() if path != chosen else ():
                found[share] = found.get(share, Usage()) + usage
        return found


def summaries(steps: Iterable[StepRecord]) -> tuple[SamplingSummary, ...]:
    """How the samplings went that have recorded steps, of a solver that is not asked again."""
    found = summaries_by_path(steps)
    return tuple([found[path] for path in sorted(found, key=by_number)])


def summaries_by_path(steps: Iterable[StepRecord]) -> dict[str, SamplingSummary]:
    """The same by the paths of their scopes."""
    found: dict[str, SamplingTally] = {}
    for step in steps:
        if path := sampling_in_path(scope_in_key(step.step)):
            found.setdefault(path, SamplingTally(path)).add(step)
    return {path: tally.summary() for path, tally in found.items()}


def by_number(path: str) -> list[Any]:
    """Sorts paths by the numbers in them: the tenth comes after the ninth."""
    return [int(part) if part.isdecimal() else part for part in re.split("([0-9]+)", path)]


def _strategy_in(step: StepRecord) -> str:
    return str(step.request.get(STRATEGY, "")) if isinstance(step.request, dict) else ""
