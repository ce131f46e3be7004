"""The fold of a run, worked out twice: as the reader says it, and by definition from the list of its records."""

from __future__ import annotations

from collections import Counter
from operator import add
from typing import NamedTuple

from holdfast.journal import RecordId
from holdfast.models.message import Usage
from holdfast.run import RunReader
from holdfast.run.core.codec import decode
from holdfast.run.core.records import (
    ARTIFACT,
    AnswerRecord,
    CallRecord,
    MarkRecord,
    NoteRecord,
    PlanEntry,
    ScoreRecord,
    Status,
    StepRecord,
    TrialRecord,
)
from holdfast.run.core.sampling_figures import SamplingSums

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
    samplings: dict
    written: dict


def as_told(reader: RunReader) -> Told:
    """What the reader's fold says."""
    fold = reader.fold
    trials = {
        trial.key: (
            trial.state.value,
            trial.standing.reason,
            trial.row.counted,
            fold.recorded_scores(trial.key),
            trial.end_id,
        )
        for trial in fold.trials()
    }
    groups = {pair: counts.states() for pair, counts in fold.counts_by_group().items()}
    spent = {pair: (one.attempts, one.microseconds, used(one.shares)) for pair, one in fold.spent().items() if any(one)}
    counts = fold.counts
    totals = {"planned": counts.planned, "finished": counts.finished, "remaining": counts.remaining, **counts.states()}
    samplings = {pair: _as_figures(sums) for pair, sums in fold.samplings().items()}
    told = {**totals, "reasons": counts.remaining_by_reason}
    return Told(trials, told, groups, spent, samplings, fold.record_counts())


def _as_figures(sums: SamplingSums) -> dict:
    found: Counter = Counter({name: getattr(sums, name) for name in ("samplings", "successes", "turns", "calls")})
    for name in ("strategies", "successes_by_turn", "candidates", "capped"):
        found.update({(name, of): count for of, count in getattr(sums, name).items()})
    wasted = {("wasted", *share): as_tuple(usage) for share, usage in used(sums.wasted).items()}
    return {**{name: count for name, count in found.items() if count}, **wasted}


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
    stopped = _stopped(records, by_key, trials)
    of_stopped = {key for key, found in by_key.items() if _pair(found)[0] in stopped}
    trials = {key: _stopped_trial(told) if key in of_stopped else told for key, told in trials.items()}
    if session and reader.holder and all(end.number != session.number for end in reader.ends):
        trials = {key: _while_held(told, by_key[key], session.number) for key, told in trials.items()}
    coordinates = {key: _pair(found) for key, found in by_key.items()}
    written = Counter(str(record.__struct_config__.tag) for _, record in records if record is not None)
    counts = _counts(trials, coordinates, plan, planned)
    _move_stopped(counts["reasons"], trials, coordinates, plan, stopped)
    spent, samplings = _spent(records, coordinates, plan), _samplings(by_key, trials, coordinates, plan)
    return Told(trials, counts, _groups(trials, coordinates, plan), spent, samplings, dict(written))


def _stopped(records: list, by_key: dict, trials: dict) -> set[str]:
    """The tasks whose newest note of `fail_fast` says so, and that have no valid trial."""
    notes = [record.data for _, record in records if isinstance(record, NoteRecord) and record.kind == "fail fast"]
    newest = {note["task"]: note["step"] for note in notes}
    ends = [record for found in by_key.values() for _, record in found if isinstance(record, TrialRecord)]
    return {task for task, step in newest.items() if step == "stopped"} - {
        end.task for end in ends if end.status is Status.VALID
    }


def _stopped_trial(told: tuple) -> tuple:
    """Of a stopped task, whatever is unfinished remains for that reason."""
    return (told[0], "same error", *told[2:]) if told[0] == "unfinished" else told


def _move_stopped(reasons: dict, trials: dict, coordinates: dict, plan: list[PlanEntry], stopped: set[str]) -> None:
    """Trials of stopped tasks that have no record remain for that reason too."""
    for entry in plan:
        if entry.task in stopped:
            recorded = sum(_place_of(key, coordinates, plan) == (entry.task, entry.model) for key in trials)
            waiting = entry.planned - recorded
            reasons["same error"] = reasons.get("same error", 0) + waiting
            reasons["not started"] = reasons.get("not started", 0) - waiting
    for name in [name for name, count in reasons.items() if not count]:
        del reasons[name]


def _samplings(by_key: dict, trials: dict, coordinates: dict, plan: list[PlanEntry]) -> dict:
    """Those of the ends that count, added up by task and model."""
    found: dict = {}
    for key, told in trials.items():
        end = dict(by_key[key]).get(told[4])
        if end is None or end.status not in KEPT:
            continue
        for one in end.samplings:
            figures = found.setdefault(_place_of(key, coordinates, plan), Counter())
            figures.update({"samplings": 1, "turns": one.turns, "calls": one.calls, ("strategies", one.strategy): 1})
            figures.update({("candidates", status): count for status, count in one.candidates.items()})
            figures.update({"successes": 1, ("successes_by_turn", one.turn): 1} if one.success else {})
            figures.update({("capped", one.capped): 1} if one.capped else {})
            is_kept = bool(end.source) and end.source != ARTIFACT
            for share in one.wasted:
                where = "wasted", share.model or end.model, share.reused or is_kept
                figures[where] = tuple(map(add, figures.get(where, (0,) * 4), as_tuple(share.usage)))
    return {pair: {name: n for name, n in figures.items() if n and n != (0,) * 4} for pair, figures in found.items()}


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
        if end.status is Status.VALID and (by_slots := _by_slots(found, plan, end, scores)):
            return *by_slots, end.attempt, scores, ident
        reason = {Status.LIMITED: end.limit, Status.BLOCKED: "content policy"}.get(end.status, "")
        return end.status.value, reason, end.attempt, scores, ident
    attempt = max(record.attempt for _, record in found)
    of_newest = [(ident, record) for ident, record in ends if record.attempt == attempt]
    decisive = max(ends, key=lambda item: (item[1].attempt, item[0]), default=(None, None))[0]
    if of_newest:
        ident, end = max(of_newest)
        scores = _scores(found, end) if _has_answer(found, end.attempt) else {}
        if end.status is Status.FAILED and not end.will_retry:
            if not end.stage.startswith("score"):
                return "failed", "task error", 0, {}, decisive
            return *(_by_slots(found, plan, end, scores) or ("unfinished", "not scored")), 0, scores, decisive
        last = max((one.session, one.seq) for one, _ in found)
        if end.status is Status.UNFINISHED and last <= (ident.session, ident.seq):
            kind = end.error.kind if end.error is not None else ""
            why = {"closed": "model disabled", "rejected": "refused"}.get(kind, "no reply")
            slot = f" ({end.stage})" if end.stage.startswith("score") else ""
            return "unfinished", why + slot, 0, scores, decisive
    reason = "not scored" if _has_answer(found, attempt) else "interrupted"
    ended = max(ends, key=lambda item: (item[1].attempt, item[0]), default=(None, None))[1]
    if _has_answer(found, attempt):
        ended = TrialRecord(trial="", attempt=attempt, status=Status.UNFINISHED)
    scores = _scores(found, ended) if ended is not None and _has_answer(found, ended.attempt) else {}
    return "unfinished", reason, 0, scores, decisive


def _has_answer(found: list[tuple[RecordId, OF_TRIALS]], attempt: int) -> bool:
    return any(isinstance(record, AnswerRecord) and record.attempt == attempt for _, record in found)


def _by_slots(found: list, plan: list[PlanEntry], end: TrialRecord, scores: dict) -> tuple[str, str] | None:
    """How a trial stands that has its answer and lacks scores of the plan; None if it lacks none."""
    planned = list(dict.fromkeys(name for entry in plan if entry.task == end.task for name in entry.scorers))
    missing = [name for name in planned if name not in scores]
    failed = [name for name in missing if _has_failed(found, name, end.attempt)]
    if failed and failed == missing:
        return "failed", f"score: {failed[0]}"
    return ("unfinished", "not scored") if missing else None


def _has_failed(found: list, scorer: str, attempt: int) -> bool:
    """Whether no attempt of a slot is left: its last one has failed, and none was to follow."""
    failures = [
        (record.slot_attempt, ident, record)
        for ident, record in found
        if isinstance(record, ScoreRecord)
        and record.scorer == scorer
        and record.attempt == attempt
        and record.error is not None
    ]
    return bool(failures) and not max(failures, key=lambda item: item[:2])[2].will_retry


def _scores(found: list[tuple[RecordId, OF_TRIALS]], end: TrialRecord) -> dict[str, float | None]:
    """Of the attempt that counts, or of one before it that it has the answer of; the newest session's first."""
    given: dict[str, dict[int, list]] = {}
    for ident, record in found:
        if isinstance(record, ScoreRecord) and (record.value is not None or record.unscored) and record.error is None:
            given.setdefault(record.scorer, {}).setdefault(record.attempt, []).append((ident, record.value))
    for _, record in found:
        if isinstance(record, TrialRecord) and record.status in KEPT:
            for name in record.scores:
                given.setdefault(name, {}).setdefault(record.attempt, [])
    answers = [
        record.attempt for _, record in found if isinstance(record, AnswerRecord) and record.attempt <= end.attempt
    ]
    # An attempt that asked anew has no scores but its own; one that had only to be scored again has those before it.
    has_all = end.status in {Status.VALID, Status.FAILED, Status.UNFINISHED}
    first = max(answers) if answers and has_all else end.attempt
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
    """Every attempt once: the larger of what its end (the first of the newest session) and its replies say.

    What its score slots took is added: the larger of what their records and the replies to judges' calls say.
    """
    ends, ended_slots = {}, {}
    solvers, slots, judges = {}, {}, {}
    for ident, record in sorted(records, key=lambda item: item[0]):
        key = getattr(record, "trial", ""), getattr(record, "attempt", 1)
        own = coordinates.get(key[0], ("", ""))[1]
        if isinstance(record, TrialRecord):
            known = ends.get(key)
            if known is None or known[0].session < ident.session:
                ends[key] = (ident, record)
        elif isinstance(record, StepRecord) and record.usage is not None and not record.lender:
            is_slot = record.role == "judge" and record.step.startswith(("/score/", "/score~"))
            taken = (judges if is_slot else solvers).setdefault(key, {})
            _add(taken, {(record.model or own, bool(record.source)): record.usage})
        elif isinstance(record, ScoreRecord) and record.usage is not None:
            known = ended_slots.get((*key, record.scorer, record.slot_attempt))
            if known is None or known[0].session < ident.session:
                ended_slots[*key, record.scorer, record.slot_attempt] = (ident, record, own)
    for (trial, attempt, _, _), (_, record, own) in ended_slots.items():
        _add(slots.setdefault((trial, attempt), {}), _named_shares(record, own))
    found: dict = {}
    for key in ends.keys() | solvers.keys() | slots.keys() | judges.keys():
        pair = _place_of(key[0], coordinates, plan)
        attempts, micros, total = found.get(pair, (0, 0, {}))
        solved = solvers.get(key, {})
        if key in ends:
            end = ends[key][1]
            attempts, micros = attempts + 1, micros + round(end.seconds * 10**6)
            solved = _larger(solved, _named_shares(end, end.model))
        total = dict(total)
        _add(total, solved)
        _add(total, _larger(slots.get(key, {}), judges.get(key, {})))
        found[pair] = (attempts, micros, used(total))
    return {pair: figures for pair, figures in found.items() if any(figures)}


def _place_of(trial: str, coordinates: dict, plan: list[PlanEntry]) -> tuple[str, str]:
    pair = coordinates.get(trial, ("", ""))
    return (plan[0].task, plan[0].model) if pair == ("", "") and len(plan) == 1 else pair


def _add(total: dict, shares: dict) -> None:
    for share, usage in shares.items():
        total[share] = total.get(share, Usage()) + usage


def _larger(one: dict, other: dict) -> dict:
    return {
        share: Usage(*map(max, as_tuple(one.get(share, Usage())), as_tuple(other.get(share, Usage()))))
        for share in {*one, *other}
    }


def _named_shares(record: TrialRecord | ScoreRecord, own: str) -> dict:
    """The shares of an end or a slot: those that it names, and the rest, which is the own model's."""
    is_kept = bool(record.source) and record.source != ARTIFACT
    shares = {(share.model, share.reused or is_kept): share.usage for share in record.shares}
    named = sum(shares.values(), Usage())
    whole = as_tuple(record.usage or Usage())
    rest = Usage(*(every - part for every, part in zip(whole, as_tuple(named), strict=True)))
    return {**shares, (own, is_kept): shares.get((own, is_kept), Usage()) + rest}


def as_tuple(usage: Usage) -> tuple[int, ...]:
    return usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.reasoning_tokens


def _marks(reader: RunReader) -> dict[int, int]:
    """By session, the highest marks of its writers, added up."""
    highest: Counter[tuple[int, int]] = Counter()
    for ident, line in reader.stream([], "session", "mark"):
        record = decode(line)
        calls = record.calls if isinstance(record, MarkRecord) else record.mark
        highest[ident[:2]] = max(highest[ident[:2]], calls)
    sessions = {session for session, _ in highest}
    found = {session: sum(calls for writer, calls in highest.items() if writer[0] == session) for session in sessions}
    return {session: calls for session, calls in found.items() if calls}


def check_fold(reader: RunReader) -> None:
    """The fold in the index, one from the frames, and the definition say the same."""
    told, defined = as_told(reader), by_definition(reader)
    again = reader.folded_again()
    try:
        assert as_told(again) == told
    finally:
        again.close()
    assert told == defined
    assert reader.marks() == _marks(reader)
    counts = told.counts
    if counts["planned"] >= len(told.trials):
        assert sum(counts[name] for name in STATES) == counts["planned"]
