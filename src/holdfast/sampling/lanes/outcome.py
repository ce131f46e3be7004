"""The outcome of a sampling once its lanes have ended: a success, a failure with the best candidate, or an error."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from holdfast.sampling.candidate import Candidate, CandidateRecord, CandidateStatus
from holdfast.sampling.host import SamplingChoice, SamplingHost
from holdfast.sampling.lanes.lane import Lane
from holdfast.sampling.place import Place
from holdfast.sampling.result import SamplingResult
from holdfast.sampling.selection import Chosen, SelectionRule, position
from holdfast.sampling.strategies.strategy import Strategy

_ERROR_CHARACTERS = 200
"""How much of an error's text goes into a reason."""


def conclude(
    strategy: Strategy, selection: SelectionRule, lanes: Sequence[Lane], candidates: Sequence[Candidate], capped: str
) -> SamplingResult:
    """The result, or the error that every lane has ended with.

    Raises:
        BaseException: the error of the first lane, if all have ended with one and no candidate is valid.
        ValueError: the strategy chose a candidate that does not exist.
    """
    ordered = sorted(candidates, key=position)
    failed = [lane for lane in lanes if lane.error is not None]
    chosen = selection.choose()
    is_success = chosen is not None and chosen.candidate is not None and chosen.success
    if not is_success and len(failed) == len(lanes):
        raise _with_others(failed, ordered)
    reason = _stop_reason(is_success, ordered, failed, capped)
    if chosen is None:
        chosen = _best_of_failed(strategy, [one for one in ordered if one.status is CandidateStatus.INVALID])
    notes = [_lane_error_text(lane) for lane in failed]
    return SamplingResult(
        is_success, chosen.candidate, ordered, reason, chosen.reason, capped, chosen.votes or {}, notes
    )


def result_on_record(
    choice: SamplingChoice, candidates: Sequence[Candidate], host: SamplingHost
) -> SamplingResult | None:
    """The result that is recorded; None if the chosen candidate is not recorded any more."""
    others = [_unchecked(record, host.number) for record in host.others]
    ordered = sorted([*candidates, *others], key=position)
    chosen = next((one for one in ordered if position(one) == (choice.turn, choice.lane)), None)
    if chosen is None and choice.lane >= 0:
        return None
    notes = list(choice.notes)
    return SamplingResult(
        choice.success, chosen, ordered, choice.stop_reason, choice.reason, choice.capped, dict(choice.votes), notes
    )


def _unchecked(record: CandidateRecord, sampling: int) -> Candidate:
    """A candidate of which nothing but its record is left."""
    place = Place(sampling, record.lane, record.turn, record.iteration, record.seed)
    return Candidate(
        place,
        record.model,
        record.at,
        status=record.status,
        verdicts=record.verdicts,
        judging=record.judging,
        failure=record.error,
        seconds=record.seconds,
    )


def _best_of_failed(strategy: Strategy, invalid: list[Candidate]) -> Chosen:
    if not invalid:
        return Chosen(None, "there is no candidate to choose", success=False)
    index: object = strategy.select_from_failure(tuple(invalid))
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(invalid):
        name = type(strategy).__name__
        raise ValueError(f"{name}.select_from_failure chose {index!r}; there are candidates 0 to {len(invalid) - 1}.")
    best = invalid[index]
    share = f"{sum(verdict.is_passed for verdict in best.verdicts)} of {len(best.verdicts)} requirements"
    return Chosen(best, f"no candidate is valid; this one meets {share}", success=False)


def _stop_reason(is_success: bool, candidates: Sequence[Candidate], failed: Sequence[Lane], capped: str) -> str:  # noqa: FBT001 - one of three
    if is_success and not capped:
        return "a candidate is valid"
    checked = sum(one.status.is_checked for one in candidates)
    parts = [f"capped: the budget of {capped} was reached" if capped else ""]
    if not is_success:
        parts.append(f"none of {checked} candidates is valid" if checked else "there is no candidate")
        parts += [_lane_error_text(lane) for lane in failed]
    return "; ".join(part for part in parts if part)


def _lane_error_text(lane: Lane) -> str:
    text = "" if lane.failure is None else lane.failure.message
    shown = text if len(text) <= _ERROR_CHARACTERS else f"{text[:_ERROR_CHARACTERS]}…"
    return f"lane {lane.number} failed at turn {lane.depth}: {type(lane.error).__name__}: {shown}"


def _with_others(failed: Sequence[Lane], candidates: list[Candidate]) -> BaseException:
    """The error of the first lane, with the other lanes' and the candidates so far attached."""
    first, *others = failed
    error = first.error or RuntimeError("a lane has failed without an error")
    for lane in others:
        add_note(error, _lane_error_text(lane))
    return with_result(error, candidates, "; ".join(map(_lane_error_text, failed)))


def with_result(error: BaseException, candidates: Sequence[Candidate], stop_reason: str = "an error") -> BaseException:
    """The error, with the candidates so far attached."""
    result = SamplingResult(
        success=False, chosen=None, candidates=sorted(candidates, key=position), stop_reason=stop_reason
    )
    if getattr(error, "sampling_result", None) is not None:
        return error
    with contextlib.suppress(AttributeError, TypeError):  # an exception that takes no attribute
        error.sampling_result = result  # type: ignore[attr-defined]
    return error


def add_note(error: BaseException, text: str) -> None:
    """Says something more with an error."""
    with contextlib.suppress(AttributeError, TypeError):  # an exception that takes no note
        error.add_note(text)
