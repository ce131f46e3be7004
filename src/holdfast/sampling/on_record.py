"""The samplings of a trial as they are recorded: for display, also where a kill has interrupted them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from holdfast.models.message import Usage
from holdfast.models.role import ModelRole
from holdfast.run.core.records import CANDIDATE, CHOICE, Failure, StepRecord
from holdfast.sampling.candidate import CandidateRecord, CandidateStatus
from holdfast.sampling.host import SamplingChoice
from holdfast.sampling.requirements.verdict import Verdict

_PATH = re.compile(r"/((?:[^ ]*/)?sampling~(\d{1,9}))(?:/lane-(\d{1,9})/turn-(\d{1,9}))? ")
"""Where a step belongs, at the beginning of its key: a sampling, and a turn of a lane."""
_GENERATE = "generate"
_OF_SLOT = re.compile(r"score[~/]")
_STRATEGY = "strategy"
_KEPT_CHARACTERS = 2000
_UNREADABLE = (msgspec.ValidationError, TypeError)


class StepPlace(NamedTuple):
    """Where in the samplings of a trial a step was done."""

    attempt: int
    scope: str
    """The path of the sampling."""
    number: int
    lane: int = -1
    """-1, as the turn, of the choice."""
    turn: int = -1

    @property
    def of_sampling(self) -> StepPlace:
        """The place of the sampling as a whole."""
        return self._replace(lane=-1, turn=-1)


class ShownCandidate(msgspec.Struct, frozen=True):
    """One recorded candidate, with the beginning of its text."""

    lane: int
    turn: int
    iteration: int | None
    status: CandidateStatus | None
    """None if its reply is recorded, and what became of it is not."""
    chosen: bool
    text: str | None
    """Its beginning, as much as a person would look at; None if no reply is recorded."""
    verdicts: tuple[Verdict, ...] = ()
    score: float | None = None
    model: str = ""
    seed: int | None = None
    usage: Usage | None = None
    judging: Usage | None = None
    error: Failure | None = None

    @property
    def unmet(self) -> list[Verdict]:
        """The verdicts on requirements that it does not meet, or that could not be checked."""
        return [verdict for verdict in self.verdicts if not verdict.is_passed]


class ShownSampling(msgspec.Struct, frozen=True):
    """One recorded sampling; without a choice where it has not ended."""

    attempt: int
    scope: str
    number: int
    strategy: str | None
    """None where no record says it."""
    candidates: list[ShownCandidate]
    """By turn, then by lane."""
    choice: SamplingChoice | None


def sampling_place(step: StepRecord) -> StepPlace | None:
    """Where in a sampling a step was done; None for a step outside of samplings."""
    found = _PATH.match(step.step)
    if found is None:
        return None
    scope, number, lane, turn = found.groups()
    place = StepPlace(step.attempt, scope, int(number))
    return place if lane is None else place._replace(lane=int(lane), turn=int(turn))


def candidate_in(step: StepRecord) -> CandidateRecord | None:
    """The candidate that a step is the record of; None if it is damaged, or of another form."""
    found: CandidateRecord | None = _converted(step.result, CandidateRecord)
    place = sampling_place(step)
    if found is None or place is None or (found.lane, found.turn) != (place.lane, place.turn):
        return None
    return found


def choice_in(step: StepRecord) -> SamplingChoice | None:
    """The choice that a step is the record of, on the same terms."""
    found: SamplingChoice | None = _converted(step.result, SamplingChoice)
    return found


class RecordedSamplings:
    """Collects what records say of samplings; of the texts it keeps only how they begin."""

    def __init__(self) -> None:
        self._records: dict[StepPlace, CandidateRecord] = {}
        self._texts: dict[StepPlace, str] = {}
        self._choices: dict[StepPlace, SamplingChoice] = {}
        self._strategies: dict[StepPlace, str] = {}

    def add(self, record: object) -> None:
        """Takes in a record of the trial, in the order of the run: of several about one place the last counts."""
        if isinstance(record, StepRecord) and (place := sampling_place(record)) is not None:
            self._add_step(place, record)

    def _add_step(self, place: StepPlace, step: StepRecord) -> None:
        if step.name in {CANDIDATE, CHOICE}:
            known, type_ = (self._choices, SamplingChoice) if step.name == CHOICE else (self._records, CandidateRecord)
            if (result := _converted(step.result, type_)) is not None:
                known[place] = result
            if isinstance(step.request, dict) and isinstance(name := step.request.get(_STRATEGY), str):
                self._strategies[place.of_sampling] = name
        elif _is_reply(step, place):
            self._texts.setdefault(place, _reply_text(step.result)[:_KEPT_CHARACTERS])

    def samplings(self) -> list[ShownSampling]:
        """All of them, by attempt and scope."""
        places = {*self._records, *self._texts, *self._choices}
        found = {of: list[StepPlace]() for of in sorted({one.of_sampling for one in places}, key=_sampling_order)}
        for place in sorted({*self._records, *self._texts}, key=lambda one: (one.turn, one.lane)):
            found[place.of_sampling].append(place)
        return [self._sampling(of, drawn) for of, drawn in found.items()]

    def _sampling(self, of: StepPlace, drawn: Iterable[StepPlace]) -> ShownSampling:
        choice = self._choices.get(of)
        candidates = [self._candidate(place, choice) for place in drawn]
        return ShownSampling(of.attempt, of.scope, of.number, self._strategies.get(of), candidates, choice)

    def _candidate(self, place: StepPlace, choice: SamplingChoice | None) -> ShownCandidate:
        record, text = self._records.get(place), self._texts.get(place)
        lane, turn = place.lane, place.turn
        is_chosen = choice is not None and (choice.lane, choice.turn) == (lane, turn)
        if record is None:
            return ShownCandidate(lane, turn, None, None, is_chosen, text)
        return ShownCandidate(
            lane,
            turn,
            record.iteration,
            record.status,
            is_chosen,
            text,
            record.verdicts,
            record.score,
            record.model,
            record.seed,
            record.usage,
            record.judging,
            record.error,
        )


def _sampling_order(place: StepPlace) -> tuple[int, str, int]:
    return place.attempt, place.scope.rpartition("~")[0], place.number


def _is_reply(step: StepRecord, place: StepPlace) -> bool:
    """Whether it may be a candidate's own reply; in a score slot everybody is asked as a judge, and it comes first."""
    if step.error is not None or place.lane < 0 or step.name.partition("@")[0] != _GENERATE:
        return False
    return step.role is not ModelRole.JUDGE or _OF_SLOT.match(place.scope) is not None


def _converted(value: Any, type_: type[Any]) -> Any:
    """A result of a step as this version knows it; None if another one wrote it in another form."""
    try:
        return msgspec.convert(value, type_)
    except _UNREADABLE:
        return None


def _reply_text(result: Any) -> str:
    text = result.get("text", "") if isinstance(result, dict) else result
    return text if isinstance(text, str) else ""
