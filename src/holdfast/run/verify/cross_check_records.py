"""The deep part of verification: the records of a run are cross-checked, trial by trial.

Every step's parent is on record; every valid trial has its answer, and every score that was planned when it ended;
every score is that of a planned scorer; every trial belongs to the planned grid, where that can be made again; every
file of a trial has the content that its record cites, and every result file says what the journal says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from holdfast.digests import file_digest
from holdfast.journal import Damage, DamageKind, RecordId
from holdfast.run.core.codec import Envelope
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import ARTIFACT, UNKNOWN_DIGEST, AnyRecord, SessionRecord, Status
from holdfast.run.core.result_file import ResultFileFault, read_results, result_location
from holdfast.run.fold.attempt_ends import EndMatch
from holdfast.run.fold.record_database import RecordDatabase

_VALID = Status.VALID.value


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

    def check(self, sessions: list[SessionRecord], artifacts: Mapping[str, str]) -> list[Damage]:
        """Every difference; `artifacts` are the files that records cite, with their digests."""
        return [
            *self._check_steps(),
            *self._check_answers(),
            *self._check_scores(sessions),
            *self._check_scorers(sessions),
            *self._check_plan(sessions),
            *self._check_grid(sessions),
            *self._check_files(artifacts),
            *self._check_results(),
        ]

    def _keys(self, query: str, *values: object) -> list[str]:
        return [key for (key,) in self._records.select(query, *values)]

    def _check_steps(self) -> Iterator[Damage]:
        query = (
            "SELECT DISTINCT p.trial FROM parents p WHERE NOT EXISTS (SELECT 1 FROM steps s"
            " WHERE (s.trial, s.attempt, s.step) = (p.trial, p.attempt, p.parent)) ORDER BY p.trial"
        )
        yield from _trials_damage(DamageKind.MISSING, self._keys(query), "have a step whose parent is not on record")

    def _check_answers(self) -> Iterator[Damage]:
        query = (
            "SELECT trial FROM kept WHERE status = ? AND source != ?"
            " AND NOT EXISTS (SELECT 1 FROM answers a WHERE a.trial = kept.trial)"
        )
        yield from _trials_damage(
            DamageKind.MISSING, self._keys(query, _VALID, ARTIFACT), "are valid and have no answer on record"
        )

    def _check_scores(self, sessions: list[SessionRecord]) -> Iterator[Damage]:
        """Every valid trial has the scores that were planned when it ended, and its record says the same of them."""
        plans = {session.number: _scorers_by_plan(session) for session in sessions}
        missing: list[str] = []
        differing: list[str] = []
        query = "SELECT trial, session, task, model, scores FROM kept WHERE status = ? ORDER BY trial"
        for key, session, task, model, encoded in self._records.select(query, _VALID):
            recorded: dict[str, float] = msgspec.json.decode(encoded)
            given = self._given_scores(key)
            planned = plans.get(session, {}).get((task, model), set())
            if (planned | recorded.keys()) - given.keys() or planned - recorded.keys():
                missing.append(key)
            if any(not _agrees(value, given.get(name)) for name, value in recorded.items()):
                differing.append(key)
        yield from _trials_damage(DamageKind.MISSING, missing, "are valid and lack a score that was planned")
        yield from _trials_damage(DamageKind.CONFLICT, differing, "have another score than the scorer gave")

    def _given_scores(self, key: str) -> dict[str, set[float | None]]:
        given: dict[str, set[float | None]] = {}
        for scorer, value in self._records.select("SELECT scorer, value FROM scores WHERE trial = ?", key):
            given.setdefault(scorer, set()).add(value)
        return given

    def _check_scorers(self, sessions: list[SessionRecord]) -> Iterator[Damage]:
        planned: dict[str, set[str]] = {}
        for entry in (entry for session in sessions for entry in session.plan):
            planned.setdefault(entry.task, set()).update(entry.scorers)
        every = set().union(*planned.values())
        query = "SELECT DISTINCT s.scorer, e.task FROM scores s LEFT JOIN ended e ON e.trial = s.trial"
        for scorer, task in list(self._records.select(query)) if planned else ():
            if scorer not in (every if task is None else planned.get(task, set())):
                keys = self._keys("SELECT DISTINCT trial FROM scores WHERE scorer = ? ORDER BY trial", scorer)
                where = f" of the task {task!r}" if task is not None else ""
                yield from _trials_damage(
                    DamageKind.COUNT, keys, f"have a score of {scorer!r}, which is no planned scorer{where}"
                )

    def _check_plan(self, sessions: list[SessionRecord]) -> Iterator[Damage]:
        """The plan against itself, and the finished trials of every task and model against it."""
        for session in sessions:
            total = sum(entry.planned for entry in session.plan)
            if session.plan and total != session.planned:
                detail = f"session {session.number} planned {session.planned} trials, its tasks and models {total}"
                yield Damage(DamageKind.COUNT, "journal", detail)
        last = sessions[-1] if sessions else None
        if last is None or not last.plan or any(item.digest == UNKNOWN_DIGEST for item in last.inputs.values()):
            return
        planned = {(entry.task, entry.model): entry.planned for entry in last.plan}
        for task, model, count in self._records.select("SELECT task, model, count(*) FROM kept GROUP BY task, model"):
            if count > planned.get((task, model), 0):
                detail = f"{count} trials of {task!r} with {model!r} are finished, "
                yield Damage(DamageKind.COUNT, "journal", f"{detail}{planned.get((task, model), 0)} are planned")

    def _check_grid(self, sessions: list[SessionRecord]) -> Iterator[Damage]:
        grid = self.grid
        if grid is None:
            return
        if sessions and len(grid) != sessions[-1].planned:
            detail = f"the inputs make a grid of {len(grid)} trials, {sessions[-1].planned} are planned"
            yield Damage(DamageKind.COUNT, "inputs", detail)
        query = (
            "SELECT trial FROM ended UNION SELECT trial FROM steps UNION SELECT trial FROM answers"
            " UNION SELECT trial FROM scores ORDER BY trial"
        )
        strangers = [key for (key,) in self._records.select(query) if key not in grid]
        yield from _trials_damage(DamageKind.COUNT, strangers, "are on record and not part of the planned grid")

    def _check_files(self, artifacts: Mapping[str, str]) -> Iterator[Damage]:
        for name, digest in artifacts.items():
            path = self._layout.artifacts / name
            if path.is_file() and (problem := _file_problem(path, digest)):
                yield Damage(DamageKind.CHANGED, f"artifacts/{name}", problem, keys=(name.partition("/")[0],))

    def _check_results(self) -> Iterator[Damage]:
        for found in read_results(self._layout):
            self.results += 1
            if isinstance(found, ResultFileFault):
                yield Damage(DamageKind.UNREADABLE, found.where, found.reason)
                continue
            match, detail = self._records.ends.compare(found.trial)
            where, keys = result_location(found.path), (found.trial.trial,)
            if match is EndMatch.CONFLICT:
                yield Damage(DamageKind.CONFLICT, where, detail, keys=keys)
            elif match is EndMatch.NEW:
                yield Damage(
                    DamageKind.COUNT, where, "the journal lacks this result; `holdfast repair` records it", keys=keys
                )


def _agrees(value: float, given: set[float | None] | None) -> bool:
    """Whether a score is one that was given; of one that is stored as a blob only that it was given is known."""
    return given is None or None in given or value in given


def _scorers_by_plan(session: SessionRecord) -> dict[tuple[str, str], set[str]]:
    return {(entry.task, entry.model): set(entry.scorers) for entry in session.plan}


def _file_problem(path: Path, digest: str) -> str:
    try:
        return "" if file_digest(path) == digest else "its content is not what the trial's record cites"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def _trials_damage(kind: DamageKind, keys: list[str], detail: str) -> Iterator[Damage]:
    if keys:
        yield Damage(kind, "journal", f"{len(keys)} trials {detail}", keys=tuple(keys))
