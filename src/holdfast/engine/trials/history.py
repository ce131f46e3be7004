"""The recorded history of a trial: where the next attempt starts, and what counts.

An attempt that was interrupted continues: its steps are replayed, its answer and scores are kept. An attempt whose
solver failed has ended, and the next one starts from nothing. One that has its answer is never restarted because of a
scorer: what is left of it are score slots, and each of them continues by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from holdfast.engine.planning.trial_keys import KeySet
from holdfast.engine.trials.scopes import first_slot_path, is_in_slot, scope_in_key, slot_in_path, slot_path
from holdfast.engine.trials.stages.stage_outcomes import (
    KeptFrom,
    is_beyond,
    is_clean_up,
    kept_from,
    kept_step,
    outcomes_in,
)
from holdfast.models.role import ModelRole
from holdfast.run.core.records import (
    DIVERGED,
    SCORE_STAGE,
    SOLVE,
    STAGES,
    AnswerRecord,
    AnyRecord,
    CallRecord,
    Failure,
    RefusedRecord,
    SamplingSummary,
    ScoreRecord,
    Status,
    StepRecord,
    TrialRecord,
)
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import FoldedTrial
from holdfast.tasks.stages import WorkLost


@dataclass(frozen=True)
class SlotState:
    """A score slot that was attempted and is not filled."""

    attempt: int = 1
    """The one that comes next, or continues."""
    first: int = 1
    """The first of those that the task's retries count: a redo counts anew."""
    failure: Failure | None = None
    """Why its last attempt failed, if none is left."""


NEW_SLOT = SlotState()
T = TypeVar("T", CallRecord, RefusedRecord, StepRecord, AnswerRecord, ScoreRecord, TrialRecord)


@dataclass
class AttemptState:
    """An attempt as far as it is recorded."""

    attempt: int = 1
    first: int = 1
    """The first attempt of those that the task's retries count: each time that a trial is run once more, anew."""
    lost: int = 0
    """How many attempts since the first one have lost their work: they are nobody's failure."""
    steps: list[StepRecord] = field(default_factory=list)
    answer: AnswerRecord | None = None
    scores: dict[str, ScoreRecord] = field(default_factory=dict)
    end: TrialRecord | None = None
    kept: tuple[StepRecord | AnswerRecord, ...] = ()
    """What it keeps of an earlier attempt, which is to be recorded before anything else; its steps are in `steps`."""
    kept_samplings: tuple[SamplingSummary, ...] = ()
    """How the samplings went that it keeps."""
    in_flight: frozenset[str] = frozenset()
    """The keys of calls that were sent, and of which nothing more is recorded."""
    diverged: frozenset[str] = frozenset()
    """The keys of calls that stood in the place of others."""
    slots: dict[str, SlotState] = field(default_factory=dict)
    """By scorer, the slots that have failed."""
    slot_steps: dict[str, list[StepRecord]] = field(default_factory=dict)
    """By the path of their scope, the steps of score slots."""
    bought_before: int = 0
    """The most replies that an earlier attempt got."""
    judged_before: dict[str, int] = field(default_factory=dict)
    """By the path of a slot's first attempt, the most replies that the slot got in an earlier attempt of the trial."""

    @property
    def is_first(self) -> bool:
        """Whether no attempt before it has failed by itself."""
        return self.attempt - self.first == self.lost

    def slot_bought_before(self, scorer: str, slot_attempt: int) -> int:
        """The most replies that an attempt of a slot before this one got, as far as they are recorded."""
        earlier = (self.slot_steps.get(slot_path(scorer, number), []) for number in range(1, slot_attempt))
        counts = (sum(map(_is_reply, steps)) for steps in earlier)
        return max(self.judged_before.get(slot_path(scorer, 1), 0), *counts, 0)


class TrialHistory:
    """The records of trials that were started, by the fold of the run."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self.started = KeySet(reader.fold.keys())

    def next_attempt(self, key: str, *, slots_again: bool = False) -> AttemptState:
        """Where the next attempt at this trial begins; with `slots_again`, failed slots are attempted anew."""
        if bytes.fromhex(key) not in self.started or (trial := self._reader.fold.find(key)) is None:
            return AttemptState()
        records, attempt = self._records_of(trial), max(trial.row.attempt, 1)
        begun = _begun(records, attempt, again=slots_again)
        if begun.answer is None and Status.FAILED in _statuses(records, attempt):
            return _retried(records, begun) or _anew(records, attempt + 1)
        return begun

    def attempt_again(self, key: str) -> AttemptState:
        """Another attempt at a trial that is finished: from the beginning, or from the end of an interrupted one."""
        if (trial := self._reader.fold.find(key)) is None:
            return AttemptState()
        records, attempt = self._records_of(trial), trial.row.attempt
        if _statuses(records, attempt) - {Status.UNFINISHED}:
            return _anew(records, attempt + 1)
        return _begun(records, attempt)

    def from_stage(self, key: str, stage: str, stages: Sequence[str]) -> AttemptState | None:
        """An attempt that begins at a stage and keeps what came before; None if that is not on record.

        `stages` are those of the solver. One that was interrupted continues.
        """
        trial = self._reader.fold.find(key)
        if trial is None:
            return None
        records, newest = self._records_of(trial), max(trial.row.attempt, 1)
        begun = _begun(records, newest)
        entered = kept_from(begun.steps)
        if entered is not None and entered.before == stage and not _statuses(records, newest) - {Status.UNFINISHED}:
            return begun
        needed = stages[: stages.index(stage)] if stage in stages else stages
        for attempt in (trial.row.counted, *range(newest, 0, -1)):
            earlier = _begun(records, attempt)
            outcomes = {name: one for name, one in outcomes_in(earlier.steps).items() if name in needed}
            is_there = earlier.answer is not None if stage == SCORE_STAGE else len(outcomes) == len(needed)
            if attempt and is_there:
                kept = kept_step(key, newest + 1, KeptFrom(_answered_in(earlier), stage), outcomes)
                return replace(_begun([*records, kept], newest + 1), kept=(kept,))
        return None

    def answer_and_scores(self, key: str, *, slots_again: bool = False) -> AttemptState:
        """The attempt whose end counts, with its answer and its scores; with `slots_again`, as `next_attempt`."""
        trial = self._reader.fold.find(key)
        if trial is None:
            return AttemptState()
        # What the solver has asked is in the end that counts.
        return replace(_begun(self._records_of(trial), trial.row.counted or 1, again=slots_again), steps=[])

    def kept_attempt(self, key: str) -> AttemptState:
        """What a fork keeps of a trial: the attempt whose end counts, or else the newest.

        In format 1 an attempt after a failed scorer used the answer of the one before it. Both are one here,
        with the number of the one that gave the answer; the records keep their own.
        """
        trial = self._reader.fold.find(key)
        if trial is None or not (trial.row.counted or trial.row.answered):
            return self.next_attempt(key)
        records, row = self._records_of(trial), trial.row
        begun = _begun(records, row.answer_of)
        scores = _filled(records, row.answer_of, row.counted or row.attempt)
        return replace(begun, scores=scores, end=self._counting_end(trial) if row.counted else None)

    def recorded_attempt(self, key: str) -> AttemptState:
        """The attempt that counts, or else the newest, with its end; for whoever looks at it without continuing it."""
        trial = self._reader.fold.find(key)
        if trial is None:
            return AttemptState()
        records, attempt = self._records_of(trial), trial.row.answer_of or max(trial.row.attempt, 1)
        ends = [end for end in _only(TrialRecord, records) if end.attempt == attempt]
        return replace(_begun(records, attempt), end=ends[-1] if ends else None)

    def last_end(self, key: str) -> TrialRecord | None:
        """The end that decides about a trial so far, if there is one."""
        trial = self._reader.fold.find(key)
        return self._counting_end(trial) if trial is not None else None

    def _counting_end(self, trial: FoldedTrial) -> TrialRecord | None:
        for placed in self._reader.lines_of(trial, "trial"):
            if placed.ident == trial.end_id and isinstance(record := self._reader.read(placed.line), TrialRecord):
                return record
        return None

    def _records_of(self, trial: FoldedTrial) -> list[AnyRecord]:
        found = (self._reader.read(placed.line) for placed in self._reader.lines_of(trial))
        return [record for record in found if record is not None]


def _answered_in(state: AttemptState) -> int:
    """The attempt whose answer an attempt has: its own, unless that is kept."""
    return state.answer.attempt if state.answer is not None else state.attempt


def _statuses(records: list[AnyRecord], attempt: int) -> set[Status]:
    """How an attempt has ended so far; it may have been continued since."""
    return {end.status for end in _only(TrialRecord, records) if end.attempt == attempt}


def _retried(records: list[AnyRecord], failed: AttemptState) -> AttemptState | None:
    """The retry after an attempt that failed in a stage after solving: what came before is not paid for again."""
    ends = [end for end in _only(TrialRecord, records) if end.attempt == failed.attempt]
    if not ends or not ends[-1].will_retry or (stage := ends[-1].stage) not in STAGES or has_lost_work(ends[-1]):
        return None
    outcomes = {name: one for name, one in outcomes_in(failed.steps).items() if is_beyond(stage, name)}
    if SOLVE not in outcomes:
        return None
    attempt = failed.attempt + 1
    kept = kept_step(ends[-1].trial, attempt, KeptFrom(failed.attempt, stage), outcomes)
    return replace(_begun([*records, kept], attempt), kept=(kept,))


def _anew(records: list[AnyRecord], attempt: int) -> AttemptState:
    """An attempt without any records."""
    before = [step for step in _only(StepRecord, records) if step.attempt < attempt and _is_reply(step)]
    bought = Counter(step.attempt for step in before if not is_in_slot(scope_in_key(step.step)))
    first, most = _first_of_series(records, attempt), max(bought.values(), default=0)
    lost = sum(first <= end.attempt < attempt and has_lost_work(end) for end in _only(TrialRecord, records))
    return AttemptState(attempt, first, lost=lost, bought_before=most, judged_before=_judged(before))


def has_lost_work(end: TrialRecord) -> bool:
    """Whether an attempt has failed because what one of its stages had left is gone."""
    return end.error is not None and end.error.kind == WorkLost.__name__


def _judged(replies: list[StepRecord]) -> dict[str, int]:
    """By the path of a slot's first attempt, the most replies that one of its attempts got."""
    by_slot: Counter[tuple[int, str]] = Counter()
    for step in replies:
        if is_in_slot(path := scope_in_key(step.step)):
            by_slot[step.attempt, slot_in_path(path)] += 1
    found: dict[str, int] = {}
    for (_, path), count in by_slot.items():
        first = first_slot_path(path)
        found[first] = max(found.get(first, 0), count)
    return found


def _is_reply(step: StepRecord) -> bool:
    return bool(step.model) and step.error is None and not step.lender


def _first_of_series(records: list[AnyRecord], attempt: int) -> int:
    """The attempt that followed the last one after which the trial was left as it was."""
    ends = _only(TrialRecord, records)
    over = (end.attempt for end in ends if end.status is not Status.UNFINISHED and not end.will_retry)
    return max((number for number in over if number < attempt), default=0) + 1


def _begun(records: list[AnyRecord], attempt: int, *, again: bool = False) -> AttemptState:
    """An attempt as far as it came: its steps, the calls that were in flight, its answer, and its slots."""
    steps = [step for step in _only(StepRecord, records) if step.attempt == attempt and not is_clean_up(step)]
    calls = [call for call in _only(CallRecord, records) if call.attempt == attempt]
    state = _anew(records, attempt)
    state.in_flight = frozenset(_sent(records, attempt).difference(step.step for step in steps))
    state.diverged = frozenset(call.step for call in calls if call.repeats == DIVERGED)
    for step in steps:
        # A judge that a solver's sampling asks is no slot's.
        if step.role is ModelRole.JUDGE and is_in_slot(path := scope_in_key(step.step)):
            state.slot_steps.setdefault(slot_in_path(path), []).append(step)
        else:
            state.steps.append(step)
    # Of several, that of the newest session.
    state.answer = next((one for one in reversed(_only(AnswerRecord, records)) if one.attempt == attempt), None)
    if (kept := kept_from(state.steps)) is not None:
        _add_kept(state, records, kept)
    if state.answer is not None:
        state.scores = _filled(records, attempt, attempt)
    state.slots.update(_failed_slots([one for one in _only(ScoreRecord, records) if one.attempt == attempt], again))
    return state


def _add_kept(state: AttemptState, records: list[AnyRecord], kept: KeptFrom) -> None:
    """Adds what an attempt keeps of an earlier one, beside the outcomes of stages."""
    if kept.before == SCORE_STAGE:
        state.answer = _begun(records, kept.attempt).answer
    state.kept_samplings = _samplings_of(records, kept)
    bought = Counter(step.attempt for step in _only(StepRecord, records) if _is_bought_again(step, state, kept))
    state.bought_before = max(bought.values(), default=0)


def _is_bought_again(step: StepRecord, state: AttemptState, kept: KeptFrom) -> bool:
    """Whether an earlier attempt got a reply that is not kept: another one in its place repeats it."""
    path = scope_in_key(step.step)
    is_kept = kept.before == SCORE_STAGE or path.partition("/")[0] in outcomes_in(state.steps)
    return step.attempt < state.attempt and _is_reply(step) and not is_kept and not is_in_slot(path)


def _samplings_of(records: list[AnyRecord], kept: KeptFrom) -> tuple[SamplingSummary, ...]:
    """How the samplings went that an earlier attempt has ended with, if what solved is kept."""
    ends = [end for end in _only(TrialRecord, records) if end.attempt == kept.attempt and end.status.is_kept]
    return ends[-1].samplings if ends and is_beyond(kept.before, SOLVE) else ()


def _sent(records: list[AnyRecord], attempt: int) -> set[str]:
    """The keys of calls that were sent; of one that another model answered only if it was sent again since."""
    found: set[str] = set()
    for record in records:
        if isinstance(record, CallRecord) and record.attempt == attempt:
            found.add(record.step)
        elif isinstance(record, RefusedRecord) and record.attempt == attempt:
            found.discard(record.step)
    return found


def _filled(records: list[AnyRecord], first: int, last: int) -> dict[str, ScoreRecord]:
    """The slots that were filled in the attempts from the first to the last."""
    found = [one for one in _only(ScoreRecord, records) if one.error is None and first <= one.attempt <= last]
    return {one.scorer: one for one in found if one.value is not None or one.unscored}


def _failed_slots(scores: list[ScoreRecord], again: bool) -> Iterator[tuple[str, SlotState]]:  # noqa: FBT001
    """The slots that have failed, by their scorers; where they are attempted again, with attempts of their own."""
    failures: dict[str, list[ScoreRecord]] = {}
    for score in scores:
        if score.error is not None:
            failures.setdefault(score.scorer, []).append(score)
    for scorer, failed in failures.items():
        last = max(failed, key=lambda one: (one.slot_attempt, not one.will_retry))
        over = max((one.slot_attempt for one in failed if not one.will_retry), default=0)
        is_left = last.will_retry or again
        yield scorer, SlotState(last.slot_attempt + 1, over + 1, None if is_left else last.error)


def _only(type_: type[T], records: list[AnyRecord]) -> list[T]:
    return [record for record in records if isinstance(record, type_)]
