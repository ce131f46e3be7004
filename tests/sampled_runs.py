"""Runs with samplings, written record by record: as a session leaves them, or a kill in the middle of one."""

from __future__ import annotations

from pathlib import Path

from durable import commit
from holdfast.models.message import Usage
from holdfast.models.role import ModelRole
from holdfast.run import RunSession, SessionContents, create_run, open_session, session_record
from holdfast.run.core.records import (
    AnswerRecord,
    Coordinates,
    Failure,
    PlanEntry,
    SamplingSummary,
    ScoreRecord,
    Status,
    StepRecord,
    TrialRecord,
    UsageShare,
)
from holdfast.sampling.candidate import CandidateRecord, CandidateStatus
from holdfast.sampling.host import SamplingChoice
from holdfast.sampling.requirements.verdict import Verdict, VerdictKind

PASSED, FAILED, UNCHECKED = VerdictKind.PASSED, VerdictKind.FAILED, VerdictKind.ERROR
PRICED = {"models": {"m": {"price": {"input": 1e6, "output": 1e6}}}}
"""A token costs 1."""


def sampled_contents(planned: int, config: dict | None = None) -> SessionContents:
    plan = [PlanEntry("t", "m", planned, ["exact"])]
    return SessionContents(name="sampled", config=config or PRICED, planned=planned, plan=plan)


def begin_sampled_run(root: Path, planned: int = 1, config: dict | None = None) -> RunSession:
    """A run of one task and model in which everything is still to be done."""
    return create_run(root, sampled_contents(planned, config))


def resume_sampled_run(root: Path, planned: int = 1) -> RunSession:
    """A further session with the same plan."""

    def make(reader, number, pins):
        return session_record(reader.run.hex(), number, pins, sampled_contents(planned))

    return open_session(root, make)


def verdicts(*ids: str, kind: VerdictKind = FAILED, **fields) -> tuple[Verdict, ...]:
    return tuple(Verdict(name, kind, f"{name} is not met", **fields) for name in ids)


def reply(key: str, lane: int, turn: int, text: str, *, scope: str = "sampling~1", **fields) -> StepRecord:
    """A candidate's reply."""
    path = f"{scope}/lane-{lane}/turn-{turn}"
    fields = {"name": "generate", "model": "m", "usage": Usage(10, 5), **fields}
    return StepRecord(
        trial=key,
        attempt=1,
        step=f"/{path} {fields['name']}:ab#1",
        request={"messages": [{"role": "user", "content": "Where?"}]},
        result={"text": text},
        about=Coordinates("t", "m", f"s-{key}", 1, {}),
        **fields,
    )


def candidate(
    key: str, lane: int, turn: int, status: CandidateStatus, *given: Verdict, scope: str = "sampling~1", **fields
) -> StepRecord:
    """What became of it."""
    record = CandidateRecord(lane, turn, lane * 4 + turn, status, given, Usage(10, 5), seed=7, model="m", **fields)
    is_final = status in {CandidateStatus.VALID, CandidateStatus.INVALID}
    return StepRecord(
        trial=key,
        attempt=1,
        step=f"/{scope}/lane-{lane}/turn-{turn} candidate:cd#1",
        name="candidate",
        request={"strategy": "repair"},
        result=record,
        error=None if is_final else Failure(status.value, "x"),
    )


def choice(key: str, made: SamplingChoice, *, scope: str = "sampling~1") -> StepRecord:
    return StepRecord(
        trial=key,
        attempt=1,
        step=f"/{scope} choice:cd#1",
        name="choice",
        request={"strategy": "repair"},
        result=made,
    )


def summary(turn: int, *, lost: int = 0, **fields) -> SamplingSummary:
    """A sampling of two lanes that found a valid candidate at a turn, or (-1) none in three."""
    success, turns = turn >= 0, turn + 1 if turn >= 0 else 3
    given = {
        "strategy": "repair",
        "success": success,
        "lane": 0,
        "turn": turn if success else 2,
        "turns": turns,
        "calls": 2 * turns,
        "candidates": {"valid": int(success), "invalid": 2 * turns - int(success)},
        "wasted": (UsageShare("m", Usage(10 * lost, 5 * lost)),) if lost else (),
    }
    return SamplingSummary(**{**given, **fields})


def finish(session: RunSession, key: str, *samplings: SamplingSummary, tokens: int = 0, **fields) -> None:
    """The end of a trial that has sampled."""
    about = {"trial": key, "attempt": fields.pop("attempt", 1)}
    given = {"status": Status.VALID, "task": "t", "model": "m", "sample": f"s-{key}", **fields}
    if given["status"] is Status.VALID:
        commit(session, AnswerRecord(**about, text="Paris"))
        commit(session, ScoreRecord(**about, scorer="exact", value=1.0))
        given["scores"] = {"exact": 1.0}
    usage = Usage(10 * tokens, 5 * tokens) if tokens else None
    commit(session, TrialRecord(**about, usage=usage, samplings=samplings, **given))


def two_by_two(session: RunSession, key: str, **texts: str) -> None:
    """A sampling of two lanes: both fail at first, then lane 1 is valid and lane 0 is given up."""
    text = {"first": "Pariss", "second": "Londn", "won": "Paris is the capital", **texts}
    valid, invalid, cancelled = CandidateStatus.VALID, CandidateStatus.INVALID, CandidateStatus.CANCELLED
    made = SamplingChoice(
        success=True,
        stop_reason="a candidate is valid",
        reason="the first valid candidate to arrive",
        lane=1,
        turn=1,
        notes=("lane 2 failed at turn 0: Unavailable: overloaded",),
    )
    records = [
        reply(key, 0, 0, text["first"]),
        candidate(key, 0, 0, invalid, *verdicts("spelling", "length")),
        reply(key, 1, 0, text["second"]),
        candidate(key, 1, 0, invalid, *verdicts("spelling"), *verdicts("tidy", kind=PASSED)),
        candidate(key, 2, 0, CandidateStatus.ERROR, error=Failure("Unavailable", "overloaded", "Traceback …")),
        reply(key, 1, 1, text["won"]),
        reply(key, 1, 1, '{"met": true}', name="generate@judge", role=ModelRole.JUDGE, usage=None),
        candidate(key, 1, 1, valid, *verdicts("spelling", kind=PASSED), score=0.5),
        candidate(key, 0, 1, cancelled),
        choice(key, made),
    ]
    for record in records:
        commit(session, record)
