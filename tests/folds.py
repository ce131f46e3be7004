"""The fold of a run, worked out twice: as the reader says it, and by definition from the list of its records."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from holdfast.journal import RecordId
from holdfast.models.message import Usage
from holdfast.run import RunReader
from holdfast.run.core.codec import decode
from holdfast.run.core.records import (
    ARTIFACT,
    AnswerRecord,
    CallRecord,
    PlanEntry,
    ScoreRecord,
    Status,
    StepRecord,
    TrialRecord,
)

STATES = ("valid", "limited", "blocked", "failed", "unfinished", "not_started")
KEPT = {Status.VALID, Status.LIMITED, Status.BLOCKED}
OF_TRIALS = CallRecord | StepRecord | AnswerRecord | ScoreRecord | TrialRecord


class Told(NamedTuple):
    """What is said of a run."""

    trials: dict
    """By key: state, reason, the attempt that counts, the scores, the id of the record that decides."""
    counts: dict
    groups: dict
    spent: dict
    written: dict


def as_told(reader: RunReader) -> Told:
    """What the reader's fold says."""
    fold = reader.fold
    trials = {
        trial.key: (
            trial.state.value,
            trial.standing.reason,
            trial.row.counted,
            fold.scores_of(trial.key),
            trial.end_id,
        )
        for trial in fold.trials()
    }
    groups = {pair: counts.states() for pair, counts in fold.counts_by_group().items()}
    spent = {pair: (one.attempts, one.microseconds, used(one.shares)) for pair, one in fold.spent().items() if any(one)}
    counts = fold.counts
    totals = {"planned": counts.planned, "finished": counts.finished, "remaining": counts.remaining, **counts.states()}
    return Told(trials, {**totals, "reasons": counts.remaining_by_reason}, groups, spent, fold.record_counts())


def used(shares: dict) -> dict:
    """The shares in which there is something."""
    return {key: usage for key, usage in shares.items() if usage != Usage()}


def by_definition(reader: RunReader) -> Told:
    """The same from all records that can be read, by what the words mean."""
    records = [(ident, decode(line)) for ident, line in reader.stream([])]
    session = reader.sessions[-1] if reader.sessions else None
    plan, planned = (session.plan, session.planned) if session else ([], 0)
    by_key: dict[str, list] = {}
    for ident, record in records:
        if isinstance(record, OF_TRIALS) and record.trial:
            by_key.setdefault(record.trial, []).append((ident, record))
    trials = {key: _trial(found, plan) for key, found in by_key.items()}
    if session and reader.holder and all(end.number != session.number for end in reader.ends):
        trials = {key: _while_held(told, by_key[key], session.number) for key, told in trials.items()}
    coordinates = {key: _pair(found) for key, found in by_key.items()}
    written = Counter(str(record.__struct_config__.tag) for _, record in records if record is not None)
    counts = _counts(trials, coordinates, plan, planned)
    return Told(trials, counts, _groups(trials, coordinates, plan), _spent(records, coordinates, plan), dict(written))


def _while_held(told: tuple, found: list, session: int) -> tuple:
    """What the session that is at work has written about last, and not ended, is running."""
    state, reason, counted, *rest = told
    newest = max(ident for ident, _ in found)
    is_open = state == "unfinished" and reason in {"interrupted", "not scored"} and not counted
    return (state, "running" if is_open and newest.session == session else reason, counted, *rest)


def _trial(found: list[tuple[RecordId, OF_TRIALS]], plan: list[PlanEntry]) -> tuple:
    ends = [(ident, record) for ident, record in found if isinstance(record, TrialRecord)]
    kept = [(ident, record) for ident, record in ends if record.status in KEPT]
    if kept:
        newest = max(ident.session for ident, _ in kept)
        ident, end = min((ident, record) for ident, record in kept if ident.session == newest)[:2]
        scores = _scores(found, end)
        missing = {name for entry in plan if entry.task == end.task for name in entry.scorers} - scores.keys()
        if end.status is Status.VALID and missing:
            return "unfinished", "not scored", end.attempt, scores, ident
        reason = {Status.LIMITED: end.limit, Status.BLOCKED: "content policy"}.get(end.status, "")
        return end.status.value, reason, end.attempt, scores, ident
    attempt = max(record.attempt for _, record in found)
    of_newest = [(ident, record) for ident, record in ends if record.attempt == attempt]
    decisive = max(ends, key=lambda item: (item[1].attempt, item[0]), default=(None, None))[0]
    if of_newest:
        ident, end = max(of_newest)
        if end.status is Status.FAILED and not end.will_retry:
            return "failed", "scorer error" if end.stage == "score" else "task error", 0, {}, decisive
        last = max((one.session, one.seq) for one, _ in found)
        if end.status is Status.UNFINISHED and last <= (ident.session, ident.seq):
            closed = end.error is not None and end.error.kind == "closed"
            return "unfinished", "model disabled" if closed else "no reply", 0, {}, decisive
    has_answer = any(isinstance(record, AnswerRecord) and record.attempt == attempt for _, record in found)
    retries = not of_newest or max(of_newest)[1].will_retry
    return "unfinished", "not scored" if has_answer and retries else "interrupted", 0, {}, decisive


def _scores(found: list[tuple[RecordId, OF_TRIALS]], end: TrialRecord) -> dict[str, float]:
    """Of the attempt that counts, or of one before it that it has the answer of; the newest session's first."""
    given: dict[str, dict[int, list]] = {}
    for ident, record in found:
        if isinstance(record, ScoreRecord) and record.value is not None and record.error is None:
            given.setdefault(record.scorer, {}).setdefault(record.attempt, []).append((ident, record.value))
    for _, record in found:
        if isinstance(record, TrialRecord) and record.status in KEPT:
            for name in record.scores:
                given.setdefault(name, {}).setdefault(record.attempt, [])
    answers = [
        record.attempt for _, record in found if isinstance(record, AnswerRecord) and record.attempt <= end.attempt
    ]
    # An attempt that asked anew has no scores but its own; one that had only to be scored again has those before it.
    first = max(answers) if answers and end.status is Status.VALID else end.attempt
    scores = {}
    for name, attempts in given.items():
        of = max((attempt for attempt in attempts if first <= attempt <= end.attempt), default=None)
        if of is None:
            continue
        if attempts[of]:
            newest = max(ident.session for ident, _ in attempts[of])
            scores[name] = min(item for item in attempts[of] if item[0].session == newest)[1]
        else:
            ends = [
                (ident, record.scores[name])
                for ident, record in found
                if isinstance(record, TrialRecord)
                and record.status in KEPT
                and record.attempt == of
                and name in record.scores
            ]
            newest = max(ident.session for ident, _ in ends)
            scores[name] = min(item for item in ends if item[0].session == newest)[1]
    return scores


def _pair(found: list) -> tuple[str, str]:
    ends = [(record.task, record.model) for _, record in found if isinstance(record, TrialRecord)]
    abouts = [record.about for _, record in found if getattr(record, "about", None) is not None]
    return ends[0] if ends else (abouts[0].task, abouts[0].model) if abouts else ("", "")


def _counts(trials: dict, coordinates: dict, plan: list[PlanEntry], planned: int) -> dict:
    pairs = {(entry.task, entry.model) for entry in plan}
    mine = [
        told for key, told in trials.items() if not pairs or coordinates[key] in pairs or coordinates[key] == ("", "")
    ]
    states = Counter(told[0] for told in mine)
    names = STATES
    states["not_started"] = max(planned - sum(states.values()), 0)
    reasons = Counter(told[1] for told in mine if told[0] in {"failed", "unfinished"})
    reasons["not started"] = states["not_started"]
    finished = sum(states[name] for name in names[:3])
    totals = {"planned": planned, "finished": finished, "remaining": sum(states[name] for name in names[3:])}
    return {**totals, **{name: states[name] for name in names}, "reasons": {k: n for k, n in reasons.items() if n}}


def _groups(trials: dict, coordinates: dict, plan: list[PlanEntry]) -> dict:
    found = {}
    for entry in plan:
        # A trial whose records do not say where it belongs can only be of the one task and model that there is.
        pairs = {(entry.task, entry.model)} | ({("", "")} if len(plan) == 1 else set())
        mine = {key: told for key, told in trials.items() if coordinates[key] in pairs}
        counts = _counts(mine, dict.fromkeys(mine, ("", "")), [], entry.planned)
        found[entry.task, entry.model] = {name: counts[name] for name in STATES}
    return found


def _spent(records: list, coordinates: dict, plan: list[PlanEntry]) -> dict:
    """Every attempt once: the larger of what its end (the first of the newest session) and its replies say."""
    ends: dict = {}
    replies: dict = {}
    for ident, record in sorted(records, key=lambda item: item[0]):
        if isinstance(record, TrialRecord):
            known = ends.get((record.trial, record.attempt))
            if known is None or known[0].session < ident.session:
                ends[record.trial, record.attempt] = (ident, record)
        elif isinstance(record, StepRecord) and record.usage is not None and not record.lender:
            shares = replies.setdefault((record.trial, record.attempt), {})
            key = record.model, bool(record.source)
            shares[key] = shares.get(key, Usage()) + record.usage
    found: dict = {}
    for key in ends.keys() | replies.keys():
        pair = coordinates[key[0]]
        if pair == ("", "") and len(plan) == 1:
            pair = (plan[0].task, plan[0].model)
        attempts, micros, total = found.get(pair, (0, 0, {}))
        shares = dict(replies.get(key, {}))
        if key in ends:
            end = ends[key][1]
            attempts, micros = attempts + 1, micros + round(end.seconds * 10**6)
            for share, usage in _ended(end).items():
                shares[share] = Usage(*map(max, as_tuple(usage), as_tuple(shares.get(share, Usage()))))
        found[pair] = (
            attempts,
            micros,
            used({one: total.get(one, Usage()) + shares.get(one, Usage()) for one in {*total, *shares}}),
        )
    return {pair: figures for pair, figures in found.items() if any(figures)}


def _ended(end: TrialRecord) -> dict:
    """The shares of an end: those that it names, and the rest, which is its own model's."""
    is_kept = bool(end.source) and end.source != ARTIFACT
    shares = {(share.model, share.reused or is_kept): share.usage for share in end.shares}
    named = sum(shares.values(), Usage())
    rest = Usage(*(whole - part for whole, part in zip(as_tuple(end.usage or Usage()), as_tuple(named), strict=True)))
    return {**shares, (end.model, is_kept): shares.get((end.model, is_kept), Usage()) + rest}


def as_tuple(usage: Usage) -> tuple[int, ...]:
    return usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.reasoning_tokens


def check_fold(reader: RunReader) -> None:
    """The fold in the index, one from the frames, and the definition say the same."""
    told, defined = as_told(reader), by_definition(reader)
    again = reader.folded_again()
    try:
        assert as_told(again) == told
    finally:
        again.close()
    assert told == defined
    counts = told.counts
    if counts["planned"] >= len(told.trials):
        assert sum(counts[name] for name in STATES) == counts["planned"]
