"""A sampling as earlier sessions have left it: where it continues, and which recorded calls belong to it.

A turn of a lane asks one thing after the other, and the record of its candidate ends it: so the calls before that
record are those of the sampling whose fingerprint it has.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.engine.trials.scopes import scope_in_key
from holdfast.engine.trials.steps import Steps, fingerprint_in_key
from holdfast.run.core.records import CANDIDATE, CHOICE, StepRecord
from holdfast.sampling.candidate import CandidateRecord
from holdfast.sampling.host import SamplingChoice
from holdfast.sampling.on_record import candidate_in, choice_in, sampling_place

_Turn = tuple[int, int]


class _Call(NamedTuple):
    """A recorded call, where it was made, and the fingerprint of its sampling; empty if no candidate came of it."""

    step: StepRecord
    turn: _Turn
    owner: str


class RecordedSampling:
    """What is recorded at the scope of a sampling, of which only records with its fingerprint are used."""

    def __init__(self, steps: Steps, path: str, fingerprint: str) -> None:
        self._steps, self._path, self._fingerprint = steps, path, fingerprint
        self.candidates: list[tuple[CandidateRecord, bool]] = []
        """In the order of their records, and whether each is final."""
        self.choice: SamplingChoice | None = None
        for step in steps.of_sampling(path):
            if fingerprint_in_key(step.step) == fingerprint:
                self._read(step)

    def _read(self, step: StepRecord) -> None:
        if step.name == CHOICE:
            self.choice = choice_in(step) or self.choice
        elif step.name == CANDIDATE and (candidate := candidate_in(step)) is not None:
            self.candidates.append((candidate, step.error is None))

    def take_settled(self, ended: set[_Turn]) -> list[StepRecord]:
        """The steps that a faithful replay leaves out, each once; replies to something else stay.

        They are the calls of lanes that were abandoned, and of judges whose verdicts were taken over; failed
        calls; candidates and choices. `ended` are the lanes and turns of its candidates that were checked,
        now or before.
        """
        if not (own := self._steps.of_sampling(self._path)):
            return []
        waiting = [call for call in _calls(own) if self._steps.is_waiting(call.step)]
        diverged = {call.turn for call in waiting if self._has_missed(call.step)}
        kept = {id(call.step) for call in waiting if not self._is_settled(call, diverged, ended)}
        return self._steps.take([step for step in own if id(step) not in kept])

    def _has_missed(self, step: StepRecord) -> bool:
        """Whether something else was asked in the turn of a call that nobody has asked for."""
        scope = self._steps.scopes.find(scope_in_key(step.step))
        return scope is not None and scope.has_missed

    def _is_settled(self, call: _Call, diverged: set[_Turn], ended: set[_Turn]) -> bool:
        lane, turn = call.turn
        if call.owner == self._fingerprint:
            return not any(other == lane and since <= turn for other, since in diverged)
        # No candidate came of it, since its session was killed: it is this sampling's unless something speaks against.
        return not call.owner and not diverged and call.turn not in ended


def _calls(steps: list[StepRecord]) -> list[_Call]:
    """The calls of samplings at one scope, each with whose it is."""
    found, owners = list[_Call](), dict[_Turn, str]()
    for step in reversed(steps):
        if step.name == CHOICE or (place := sampling_place(step)) is None:
            continue
        turn = place.lane, place.turn
        if step.name == CANDIDATE:
            owners[turn] = fingerprint_in_key(step.step)
        else:
            found.append(_Call(step, turn, owners.get(turn, "")))
    return found
