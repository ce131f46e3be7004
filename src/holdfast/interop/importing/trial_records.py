"""The records of an imported trial, as if it had been run here: its calls, its answer, its scores and its end.

The end says that it came from another tool, and keeps what the records have no place for. A cost that the other tool
reports is kept there too: records hold tokens, and what is computed from prices must not be mixed with what somebody
else has computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from holdfast.engine.planning.trial_keys import trial_key
from holdfast.interop.importing.foreign_eval import ForeignCall, ForeignScore, ForeignState, ForeignTrial
from holdfast.interop.importing.foreign_values import number_of, seconds_of
from holdfast.models.message import Usage
from holdfast.run.core.records import (
    IMPORTED,
    AnswerRecord,
    Coordinates,
    Failure,
    Record,
    ScoreRecord,
    Status,
    StepRecord,
    TrialRecord,
    UsageShare,
)
from holdfast.run.core.slots.slot_names import judge_slot
from holdfast.run.fold.rows.trial_row import INTERRUPTED, SCORE
from holdfast.tasks.datasets.row_identity import key_text

_STATUSES = {
    ForeignState.VALID: Status.VALID,
    ForeignState.LIMITED: Status.LIMITED,
    ForeignState.FAILED: Status.FAILED,
    ForeignState.NO_VERDICT: Status.UNFINISHED,
    ForeignState.INTERRUPTED: Status.UNFINISHED,
}
_NOT_RECORDED = "not recorded"
_MOST_IN_END = 1 << 20
_MOST_IN_ERROR = 20_000
_KEPT_STEP = "imported:fields#1"
_NO_USAGE = Usage()


def sample_key(trial: ForeignTrial) -> str:
    """The key of its sample."""
    return key_text(trial.sample.id, 1)


def foreign_key(trial: ForeignTrial) -> str:
    """The key of a trial, by the rule of every run."""
    return trial_key(trial.task, trial.model, trial.axes, sample_key(trial), trial.epoch)


class TrialRecords:
    """Makes records of the trials of one tool; `slots` are the planned ones of every task."""

    def __init__(self, tool: str, slots: dict[str, Sequence[str]]) -> None:
        self._tool, self._slots = tool, slots

    def of(self, trial: ForeignTrial) -> Iterator[Record]:
        """Every record of a trial; of one that was not started, none."""
        if trial.state is ForeignState.NOT_STARTED:
            return
        key = foreign_key(trial)
        about: Coordinates | None = Coordinates(
            trial.task, trial.model, sample_key(trial), trial.epoch, dict(trial.axes)
        )
        for number, call in enumerate(trial.calls, 1):
            yield _step(key, number, trial.model, call, about)
            about = None
        if trial.answer is not None:
            yield AnswerRecord(trial=key, attempt=1, text=trial.answer, about=about)
        scores = list(self._scores(trial, key))
        yield from scores
        kept = self._kept(trial)
        if len(msgspec.json.encode(kept)) > _MOST_IN_END:
            # The end of a trial has to fit into a frame of the journal; a step may be as large as it likes.
            yield StepRecord(trial=key, attempt=1, step=_KEPT_STEP, name="imported fields", result=kept, about=about)
            kept = {}
        yield self._end(trial, key, scores, kept)

    def _scores(self, trial: ForeignTrial, key: str) -> Iterator[ScoreRecord]:
        """The scores of planned slots; in a valid trial every slot is filled, if only to say that nothing is known."""
        if trial.state is ForeignState.FAILED:
            return
        given = {_slot(score): score for score in trial.scores}
        for slot in self._slots[trial.task]:
            if slot in given:
                yield _score_record(key, slot, given[slot])
            elif trial.state is ForeignState.VALID:
                yield ScoreRecord(
                    trial=key, attempt=1, scorer=slot, unscored=True, explanation=f"{_NOT_RECORDED} by {self._tool}"
                )

    def _end(self, trial: ForeignTrial, key: str, scores: list[ScoreRecord], kept: dict[str, Any]) -> TrialRecord:
        status = _STATUSES[trial.state]
        usage, shares = _trial_usage(trial)
        return TrialRecord(
            trial=key,
            attempt=1,
            status=status,
            task=trial.task,
            model=trial.model,
            sample=sample_key(trial),
            epoch=trial.epoch,
            axes=dict(trial.axes),
            scores={score.scorer: score.value for score in scores if score.is_filled},
            usage=usage,
            shares=shares,
            calls=len(trial.calls),
            at=seconds_of(trial.at) or trial.at,
            seconds=seconds_of(trial.seconds),
            limit=trial.limit if status is Status.LIMITED else "",
            stage=SCORE if trial.state is ForeignState.NO_VERDICT else "",
            source=IMPORTED,
            error=_error(trial),
            imported={"place": trial.place, **({} if trial.cost is None else {"cost": trial.cost}), **kept},
        )

    def _kept(self, trial: ForeignTrial) -> dict[str, Any]:
        """What the records have no place for."""
        kept: dict[str, Any] = {}
        if trial.error is not None and len(trial.error.message) > _MOST_IN_ERROR:
            kept["error"] = trial.error.message
        unplanned = [score for score in trial.scores if _slot(score) not in self._slots[trial.task]]
        if trial.state is ForeignState.FAILED:
            unplanned = list(trial.scores)
        if unplanned:
            kept["scores"] = unplanned
        return {**kept, **({"fields": trial.fields} if trial.fields else {})}


def _slot(score: ForeignScore) -> str:
    return judge_slot(score.scorer, score.judge) if score.judge else score.scorer


def _step(key: str, number: int, model: str, call: ForeignCall, about: Coordinates | None) -> StepRecord:
    return StepRecord(
        trial=key,
        attempt=1,
        # No fingerprint: how the reply was drawn is not known, so no request here is ever taken for the same.
        step=f"generate:imported#{number}",
        name="generate",
        request={"messages": call.messages},
        result={"text": call.text, **call.reply},
        model=call.model or model,
        usage=call.usage,
        tries=1,
        at=call.at,
        seconds=seconds_of(call.seconds),
        about=about,
    )


def _score_record(key: str, slot: str, score: ForeignScore) -> ScoreRecord:
    value = number_of(score.value)
    metadata = score.metadata if value is not None or score.value is None else {**score.metadata, "value": score.value}
    return ScoreRecord(
        trial=key,
        attempt=1,
        scorer=slot,
        value=value,
        unscored=value is None,
        answer=score.answer,
        explanation=score.explanation or ("" if value is not None else _NOT_RECORDED),
        metadata=metadata,
    )


def _trial_usage(trial: ForeignTrial) -> tuple[Usage | None, tuple[UsageShare, ...]]:
    """What the trial took of all models, and the parts of other models."""
    shares: dict[str, Usage] = {name: usage for name, usage in trial.usage_by_model.items() if name != trial.model}
    if trial.usage is not None:
        total: Usage | None = trial.usage
    else:
        total = sum((call.usage for call in trial.calls if call.usage is not None), _NO_USAGE)
        total = sum(trial.usage_by_model.values(), _NO_USAGE) if total == _NO_USAGE else total
    if not trial.usage_by_model:
        for call in trial.calls:
            if call.model and call.model != trial.model and call.usage is not None:
                shares[call.model] = shares.get(call.model, _NO_USAGE) + call.usage
    found = tuple(UsageShare(name, usage) for name, usage in sorted(shares.items()))
    return (total if total != _NO_USAGE else None), found


def _error(trial: ForeignTrial) -> Failure | None:
    error = trial.error
    if error is not None:
        error = Failure(error.kind[:_MOST_IN_ERROR], error.message[:_MOST_IN_ERROR], error.traceback[:_MOST_IN_ERROR])
    if trial.state is ForeignState.INTERRUPTED:
        return Failure(INTERRUPTED, error.message if error else "it was interrupted")
    if trial.state is ForeignState.FAILED:
        return error or Failure("error", "it failed")
    return None if trial.state is ForeignState.NO_VERDICT else error
