"""How the attempts of a run ended, by its journal: what result files are compared with, and why trials have failed."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import msgspec

from holdfast.run.core.records import Failure, ScoreRecord, Status, TrialRecord
from holdfast.run.core.slots.slot_names import base_name
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import FoldedTrial
from holdfast.run.fold.states import failed_slot

_COMPARED = ("status", "scores", "task", "model", "sample", "epoch", "axes", "usage", "shares")
"""What a result file and the journal must agree in."""


REBUILT = "rebuilt"
"""The kind of the note that names the run whose journal was lost."""
RECOVERY_NOTE = "recover"
"""The kind of the note in a copy without steps that names the run which it is a copy of."""


def run_ids(reader: RunReader) -> frozenset[str]:
    """The id of a run, and those of the runs that it was made of: result files may name any of them."""
    made_of = [note.data for _, note in reader.notes() if note.kind in {REBUILT, RECOVERY_NOTE}]
    named = [[data["run"], *data.get("earlier", ())] for data in made_of if isinstance(data, dict)]
    return frozenset({reader.run.hex(), *(str(run) for runs in named for run in runs)})


class EndMatch(enum.Enum):
    """How the end that a result file gives compares with the journal."""

    NEW = "new"
    """The journal knows nothing of this end."""
    KNOWN = "known"
    """It is recorded, or a later attempt is."""
    OPEN = "open"
    """It is not the end of an attempt."""
    CONFLICT = "conflict"
    """The journal says otherwise."""


class EndComparison(NamedTuple):
    """How an end compares with the journal, and in what it contradicts it."""

    match: EndMatch
    detail: str = ""


def compare_end(reader: RunReader | None, trial: TrialRecord) -> EndComparison:
    """Compares the end that a result file gives with those recorded; without a reader none is."""
    if trial.status is Status.UNFINISHED:
        return EndComparison(EndMatch.OPEN)
    final = [end for end in _ends(reader, trial.trial) if end.status is not Status.UNFINISHED]
    if same := [end for end in final if end.attempt == trial.attempt]:
        return _compare_contents(min(same, key=lambda end: not end.status.is_kept), trial)
    if reader is not None and _is_started(reader, trial):
        return EndComparison(EndMatch.OPEN)
    counted = _counted(reader, trial.trial)
    if not counted:
        return EndComparison(EndMatch.NEW)
    if not trial.status.is_kept and trial.attempt < counted:
        return EndComparison(EndMatch.KNOWN)
    detail = f"attempt {trial.attempt} ended {trial.status.value}; in the journal, attempt {counted} was the last"
    return EndComparison(EndMatch.CONFLICT, detail)


def _ends(reader: RunReader | None, key: str) -> list[TrialRecord]:
    """The ends of a trial, that which counts first."""
    trial = reader.fold.find(key) if reader is not None else None
    if reader is None or trial is None:
        return []
    placed = sorted(reader.lines_of(trial, "trial"), key=lambda item: (item.ident != trial.end_id, item.ident))
    records = (reader.read(item.line) for item in placed)
    return [record for record in records if isinstance(record, TrialRecord)]


def _is_started(reader: RunReader, trial: TrialRecord) -> bool:
    """Whether the journal is whole and has started this attempt: its process ended between the file and the journal.

    The journal wins: the attempt continues on resume, and writes the file again.
    """
    found = reader.fold.find(trial.trial)
    return found is not None and found.row.attempt == trial.attempt and not reader.has_losses()


def _counted(reader: RunReader | None, key: str) -> int:
    trial = reader.fold.find(key) if reader is not None else None
    return trial.row.counted if trial is not None else 0


def _compare_contents(journal: TrialRecord, trial: TrialRecord) -> EndComparison:
    recorded, file = _compared(journal), _compared(trial)
    parts = [
        f"{name} is {_short_json(file[name])}, in the journal {_short_json(recorded[name])}"
        for name in _COMPARED
        if recorded[name] != file[name]
    ]
    return EndComparison(EndMatch.CONFLICT, "; ".join(parts)) if parts else EndComparison(EndMatch.KNOWN)


def _compared(trial: TrialRecord) -> dict[str, Any]:
    return {name: msgspec.to_builtins(getattr(trial, name)) for name in _COMPARED}


def _short_json(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:79]}…"


def deciding_end(reader: RunReader, trial: FoldedTrial) -> TrialRecord | None:
    """The end that decides the state of a trial, if it has one."""
    lines = (item.line for item in reader.lines_of(trial, "trial") if trial.end_id and item.ident == trial.end_id)
    return next((record for record in map(reader.read, lines) if isinstance(record, TrialRecord)), None)


def error_on_record(reader: RunReader, trial: FoldedTrial, end: TrialRecord | None) -> Failure | None:
    """Why a trial has failed or remains: by the slot that has failed, or by `end`, the one that decides."""
    if not trial.standing.has_failed_in_slots:
        return end.error if end is not None else None
    records = (reader.read(item.line) for item in reader.lines_of(trial, "score"))
    failed = [one for one in records if isinstance(one, ScoreRecord) and one.error is not None]
    planned = reader.fold.planned_scorers.get(trial.standing.group.task, ())
    of_slot = [
        one for one in failed if failed_slot(base_name(one.scorer)) == trial.standing.reason and one.scorer in planned
    ]
    return max(of_slot, key=lambda one: (one.attempt, one.slot_attempt)).error if of_slot else None
