"""A run without the transcripts of its finished trials: smaller, and with the same scores and the same report.

It is a new run that begins with the records of the old one: everything of trials that are not finished, so that they
go on where they were, and of the others all but their steps. A note says where it comes from.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from holdfast.errors import HoldfastError, NotARun
from holdfast.journal import Journal
from holdfast.run.core.codec import decode, head_of
from holdfast.run.core.inputs import SourceFile
from holdfast.run.core.layout import Layout
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import (
    AnswerRecord,
    NoteRecord,
    Record,
    ScoreRecord,
    SessionRecord,
    StepRecord,
    TrialRecord,
)
from holdfast.run.fold.survey import Survey
from holdfast.run.session.create import create_run

KIND = "recover"


def copy_without_steps(survey: Survey, root: Path) -> list[str]:
    """Makes the run `root` from the one that was surveyed; what could not be taken over, in words.

    Raises:
        NotARun: no session record is left in it.
        UsageError: there is something at `root` already.
        StorageFailure: the run cannot be written.
    """
    if not survey.sessions:
        hint = "Recover it with its steps, then verify it."
        raise NotARun(f"No session record is left in {survey.layout.root}.", hint=hint)
    last = survey.sessions[-1]
    fields = {name: getattr(last, name) for name in ("plan", "code", "serving", "source")}
    inputs, warnings = _inputs(survey.layout, last)
    taken = _taken_over(survey)
    session = create_run(
        root, name=last.name, config=last.config, inputs=inputs, planned=last.planned, fields=fields, preload=taken
    )
    _copy_files(survey.layout, Layout(root))
    session.close("recovered", finished=session.reader.finished_count, planned=last.planned)
    return warnings


def _taken_over(survey: Survey) -> Iterator[Record]:
    """The note of the origin, then every record that is taken over, in the order of the run."""
    run = survey.run.hex()
    yield NoteRecord(
        kind=KIND, text=f"recovered from run {run} without the steps of finished trials", data={"run": run}
    )
    is_finished = lru_cache(maxsize=10_000)(survey.is_finished)
    for _, line in Journal(survey.fs, survey.layout.journal, survey.run).stream([]):
        kind, key = head_of(line)
        if kind == "call" or (kind == "step" and is_finished(key)):
            continue
        record = decode(survey.whole(line))
        if isinstance(record, StepRecord | TrialRecord):
            yield msgspec.structs.replace(record, source=record.source or run)
        elif isinstance(record, AnswerRecord | ScoreRecord | NoteRecord):
            yield record


def _inputs(layout: Layout, session: SessionRecord) -> tuple[dict[str, SourceFile], list[str]]:
    found, warnings = {}, []
    for name, item in session.inputs.items():
        path = layout.inputs / item.digest
        if item.copied and path.is_file():
            found[name] = SourceFile(path, item.raw)
        else:
            warnings.append(f"The input {name} is not in the run; resuming needs it where it was.")
    return found, warnings


def _copy_files(source: Layout, target: Layout) -> None:
    if source.artifacts.is_dir():
        shutil.copytree(source.artifacts, target.artifacts, dirs_exist_ok=True)
    serving = source.root / "serving.yaml"
    if serving.is_file():
        shutil.copyfile(serving, target.root / "serving.yaml")


def origin_of(root: Path) -> str:
    """The id of the run that the one at `root` was slimmed from; empty if it was not."""
    try:
        reader = RunReader(root)
    except HoldfastError:
        return ""
    try:
        notes = (reader.read(row) for row in reader.index.rows("note", ""))
        found = [note.data["run"] for note in notes if isinstance(note, NoteRecord) and note.kind == KIND]
        return str(found[0]) if found else ""
    finally:
        reader.close()
