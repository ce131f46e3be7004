"""The deep part of verification: the records of a run are cross-checked, trial by trial.

Every step's parent is recorded; every valid trial has its answer, and every score that was planned when it ended;
every score is that of a planned scorer; every trial belongs to the planned grid, where that can be computed; every
file of a trial has the content that its record refers to, and every result file agrees with the journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

import msgspec

from holdfast.journal import Damage, DamageKind, RecordId
from holdfast.run.core.codec import Envelope
from holdfast.run.core.records import UNKNOWN_DIGEST, AnyRecord, SessionRecord, Status
from holdfast.run.core.result_file import ResultFileFault, read_results, result_location
from holdfast.run.fold.ends_on_record import EndMatch, compare_end, run_ids
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.record_database import RecordDatabase
from holdfast.run.fold.run_fold import FoldedTrial


class PlannedKeys(Protocol):
    """The keys of all planned trials."""

    def __len__(self) -> int: ...
    def __contains__(self, key: str) -> bool: ...


class RecordCrossCheck:
    """Gets every record, then names every difference."""

    def __init__(self, reader: RunReader, grid: PlannedKeys | None = None) -> None:
        self._layout, self._records, self.grid = reader.layout, RecordDatabase(reader), grid
        self.results = 0

    def close(self) -> None:
        self._records.close()

    def add(self, record: AnyRecord | Envelope | None, ident: RecordId) -> None:
        """Adds a record, or what is in the journal of one that is stored as a blob."""
        self._records.add(record, ident)

    def begin(self) -> None:
        """Forgets what was added: the journal is read from its beginning."""
        self._records.clear()

    def check(self, frames: RunReader) -> list[Damage]:
        """Every difference; `frames` is the run folded from its frames."""
        return [
            *self._check_steps(),
            *self._check_answers(frames),
            *self._check_scores(frames),
            *self._check_scorers(frames),
            *self._check_plan(frames),
            *self._check_grid(frames),
            *self._check_results(frames),
        ]

    def _keys(self, query: str, *values: object) -> list[str]:
        return [key for (key,) in self._records.select(query, *values)]

    def _check_steps(self) -> Iterator[Damage]:
        query = (
            "SELECT DISTINCT p.trial FROM parents p WHERE NOT EXISTS (SELECT 1 FROM steps s"
            " WHERE (s.trial, s.attempt, s.step) = (p.trial, p.attempt, p.parent)) ORDER BY p.trial"
        )
        yield from _trials_damage(DamageKind.MISSING, self._keys(query), "have a step whose parent is not recorded")

    def _check_answers(self, frames: RunReader) -> Iterator[Damage]:
        keys = [trial.key for trial in _valid_trials(frames) if trial.has_transcript and trial.row.is_without_answer]
        yield from _trials_damage(DamageKind.MISSING, keys, "are valid but have no recorded answer")

    def _check_scores(self, frames: RunReader) -> Iterator[Damage]:
        """Every valid trial has the scores that were planned when it ended, and its record says the same of them."""
        plans = {session.number: _scorers_by_plan(session) for session in frames.sessions}
        missing: list[str] = []
        differing: list[str] = []
        for trial in _valid_trials(frames):
            (recorded, is_kept), given = self._recorded_scores(trial), self._given_scores(trial.key)
            end, group = trial.row.end, trial.standing.group
            planned = plans.get(end.session if end else 0, {}).get((group.task, group.model), set())
            # A trial that was kept from another run may have got a score there after it had ended.
            if (planned | recorded.keys()) - given.keys() or (planned - recorded.keys() and not is_kept):
                missing.append(trial.key)
            if any(not _agrees(value, given.get(name)) for name, value in recorded.items()):
                differing.append(trial.key)
        yield from _trials_damage(DamageKind.MISSING, missing, "are valid but a planned score is missing")
        yield from _trials_damage(DamageKind.CONFLICT, differing, "have a different score than the scorer gave")

    def _recorded_scores(self, trial: FoldedTrial) -> tuple[dict[str, float], bool]:
        """The scores that the end of the trial holds, and whether it was kept from another run."""
        query = "SELECT scores, source FROM ends WHERE (trial, session, writer, seq, place) = (?,?,?,?,?)"
        found = next(self._records.select(query, trial.key, *(trial.end_id or ())), None)
        return (msgspec.json.decode(found[0]), bool(found[1])) if found is not None else ({}, False)

    def _given_scores(self, key: str) -> dict[str, set[float | None]]:
        given: dict[str, set[float | None]] = {}
        for scorer, value in self._records.select("SELECT scorer, value FROM scores WHERE trial = ?", key):
            given.setdefault(scorer, set()).add(value)
        return given

    def _check_scorers(self, frames: RunReader) -> Iterator[Damage]:
        planned: dict[str, set[str]] = {}
        for entry in (entry for session in frames.sessions for entry in session.plan):
            planned.setdefault(entry.task, set()).update(entry.scorers)
        every = set().union(*planned.values())
        strangers: dict[tuple[str, str], list[str]] = {}
        query = "SELECT DISTINCT trial, scorer FROM scores ORDER BY trial, scorer"
        for key, scorer in self._records.select(query) if planned else ():
            trial = frames.fold.find(key)
            task = trial.standing.group.task if trial is not None else ""
            if scorer not in (planned.get(task, set()) if task else every):
                strangers.setdefault((scorer, task), []).append(key)
        for (scorer, task), keys in strangers.items():
            where = f" of the task {task!r}" if task else ""
            detail = f"have a score of {scorer!r}, which is not a planned scorer{where}"
            yield from _trials_damage(DamageKind.COUNT, keys, detail)

    def _check_plan(self, frames: RunReader) -> Iterator[Damage]:
        """The plan against itself, and the finished trials of every task and model against it."""
        for session in frames.sessions:
            total = sum(entry.planned for entry in session.plan)
            if session.plan and total != session.planned:
                detail = f"session {session.number} planned {session.planned} trials, its tasks and models {total}"
                yield Damage(DamageKind.COUNT, "journal", detail)
        last = frames.fold.session
        if last is None or not last.plan or any(item.digest == UNKNOWN_DIGEST for item in last.inputs.values()):
            return
        planned = {(entry.task, entry.model): entry.planned for entry in last.plan}
        for (task, model), count in sorted(_kept_by_pair(frames).items()):
            if count > planned.get((task, model), 0):
                detail = f"{count} trials of {task!r} with {model!r} are finished, "
                yield Damage(DamageKind.COUNT, "journal", f"{detail}{planned.get((task, model), 0)} are planned")

    def _check_grid(self, frames: RunReader) -> Iterator[Damage]:
        grid = self.grid
        if grid is None:
            return
        if frames.sessions and len(grid) != frames.fold.planned:
            detail = f"the inputs make a grid of {len(grid)} trials, {frames.fold.planned} are planned"
            yield Damage(DamageKind.COUNT, "inputs", detail)
        strangers = [trial.key for trial in frames.fold.trials() if trial.key not in grid]
        yield from _trials_damage(DamageKind.COUNT, strangers, "are recorded but not part of the planned grid")

    def _check_results(self, frames: RunReader) -> Iterator[Damage]:
        own = run_ids(frames)
        for found in read_results(self._layout):
            self.results += 1
            if isinstance(found, ResultFileFault):
                yield Damage(DamageKind.UNREADABLE, found.where, found.reason)
                continue
            match, detail = compare_end(frames, found.trial)
            where, keys = result_location(found.path), (found.trial.trial,)
            if match is not EndMatch.KNOWN and found.run not in {"", *own}:
                yield Damage(DamageKind.CONFLICT, where, f"it is a result of another run ({found.run})", keys=keys)
            elif match is EndMatch.CONFLICT:
                yield Damage(DamageKind.CONFLICT, where, detail, keys=keys)
            elif match is EndMatch.NEW:
                yield Damage(
                    DamageKind.COUNT,
                    where,
                    "this result is missing in the journal; `holdfast repair` records it",
                    keys=keys,
                )


def _valid_trials(frames: RunReader) -> Iterator[FoldedTrial]:
    """Trials whose end is valid, also where a scorer was added since."""
    return (trial for trial in frames.fold.trials() if trial.row.end and trial.row.end.status is Status.VALID)


def _kept_by_pair(frames: RunReader) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for standing in frames.fold.standings.values():
        if standing.is_kept:
            found[standing.group[:2]] += standing.trials
    return found


def _agrees(value: float, given: set[float | None] | None) -> bool:
    """Whether a score is one that was given; of one that is stored as a blob only that it was given is known."""
    return given is None or None in given or value in given


def _scorers_by_plan(session: SessionRecord) -> dict[tuple[str, str], set[str]]:
    return {(entry.task, entry.model): set(entry.scorers) for entry in session.plan}


def _trials_damage(kind: DamageKind, keys: list[str], detail: str) -> Iterator[Damage]:
    if keys:
        yield Damage(kind, "journal", f"{len(keys)} trials {detail}", keys=tuple(keys))
