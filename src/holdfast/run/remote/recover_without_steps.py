"""A run with the final conversations of its finished trials only: smaller, with the same scores and the same report.

It is a new run that starts with the records of the old one: all records of trials that are not finished, so that they
resume where they were, and of the others all but the steps that do not lead to their answers and are no outcomes of
stages. All steps are kept where only they record the usage of a trial. A note names the original run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import msgspec

from holdfast.errors import HoldfastError, NotARun
from holdfast.journal import BlobStore, Journal
from holdfast.run.core.codec import decode, head_of
from holdfast.run.core.inputs import SourceFile
from holdfast.run.core.layout import Layout
from holdfast.run.core.recorded_code import recorded_code
from holdfast.run.core.records import (
    OF_STAGE,
    OWN_SOURCES,
    AnswerRecord,
    CallRecord,
    NoteRecord,
    Record,
    RefusedRecord,
    ScoreRecord,
    SessionRecord,
    StepRecord,
    TaskCode,
    TrialRecord,
)
from holdfast.run.core.session_contents import SessionContents
from holdfast.run.fold.ends_on_record import RECOVERY_NOTE
from holdfast.run.fold.entries import StepEntry, TrialEntry, entry_of_line
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_scan import RunScan
from holdfast.run.session.create import create_run
from holdfast.run.session.writer_options import WriterOptions
from holdfast.run.transcripts.final_conversation import HEADS as FINAL_HEADS
from holdfast.run.transcripts.final_conversation import FinalConversations

_KEPT = CallRecord | RefusedRecord | StepRecord | AnswerRecord | ScoreRecord | TrialRecord | NoteRecord
_OUTCOME, _HEAD_BYTES = f'"step":"{OF_STAGE}'.encode(), 512
"""How a step names itself, near its beginning, that has the outcomes of stages: another attempt may begin from them."""
_SMALL_QUEUE = WriterOptions(queue_bytes=2 << 20)
"""Records are read faster than they are written: what waits is memory, and nobody is quicker for it."""


def copy_without_steps(scan: RunScan, root: Path) -> list[str]:
    """Makes the run `root` from the one that was scanned; what could not be copied, in words.

    Raises:
        NotARun: no session record is left in it.
        UsageError: there is something at `root` already.
        StorageFailure: the run cannot be written.
    """
    if not scan.sessions:
        hint = "Recover it with its steps, then verify it."
        raise NotARun(f"No session record is left in {scan.layout.root}.", hint=hint)
    last = scan.sessions[-1]
    inputs, warnings = _input_copies(scan.layout, last)
    # Only inputs that are really copied may be in the new record.
    contents = replace(SessionContents.carried_over(last), inputs={}, code=_whole_code(scan.sessions))
    session = create_run(root, contents, inputs=inputs, preload=_kept_records(scan), writer=_SMALL_QUEUE)
    _copy_files(scan.layout, Layout(root))
    session.close("recovered")
    return warnings


def _whole_code(sessions: Sequence[SessionRecord]) -> dict[str, TaskCode]:
    """The code of the last session with its trees: the session that holds one is not in the new run."""
    found = recorded_code(sessions)
    # Where a tree is lost, that it was on record stays known.
    return {
        name: msgspec.structs.replace(code, tree_session=0) if code.tree is not None else code
        for name, code in found.items()
    }


def _kept_records(scan: RunScan) -> Iterator[Record]:
    """The note of the origin, then every record that is kept, in the order of the run."""
    run = scan.run.hex()
    text = f"recovered from run {run}; of finished trials, with their final conversation only"
    yield NoteRecord(kind=RECOVERY_NOTE, text=text, data={"run": run})
    counted = lru_cache(maxsize=1000)(scan.spare_attempt)
    journal, blobs = Journal(scan.fs, scan.layout.journal, scan.run), BlobStore(scan.fs, scan.layout.blobs)
    with closing(FinalConversations(scan.fs, blobs, counted)) as final:
        for _, line in journal.stream([], FINAL_HEADS):
            final.add(line)
        for _, line in journal.stream([]):
            kind, key = head_of(line)
            is_spare = kind in {"call", "refused", "step"} and _OUTCOME not in line[:_HEAD_BYTES]
            if is_spare and counted(key) and line not in final:
                continue
            record = decode(scan.resolve_blob(line))
            # As they are: it is the same work, and was paid for by this run under its other id.
            if isinstance(record, _KEPT):
                yield _as_paid(record, line)


def _as_paid(record: Record, line: bytes) -> Record:
    """A record of format 1 that names a source and was paid for anyway, as one of this format says it."""
    if isinstance(record, StepRecord | TrialRecord) and record.source not in OWN_SOURCES:
        entry = entry_of_line(line)
        if isinstance(entry, StepEntry | TrialEntry) and entry.cost:
            return msgspec.structs.replace(record, source="")
    return record


def _input_copies(layout: Layout, session: SessionRecord) -> tuple[dict[str, SourceFile], list[str]]:
    found, warnings = {}, []
    for name, item in session.inputs.items():
        path = layout.inputs / item.digest
        if item.copied and path.is_file():
            found[name] = SourceFile(path, item.raw)
        else:
            warnings.append(f"The input {name} is not in the run; to resume, it must exist at its original path.")
    return found, warnings


def _copy_files(source: Layout, target: Layout) -> None:
    if source.artifacts.is_dir():
        shutil.copytree(source.artifacts, target.artifacts, dirs_exist_ok=True)
    serving = source.root / "serving.yaml"
    if serving.is_file():
        shutil.copyfile(serving, target.root / "serving.yaml")


def origin_run_id(root: Path) -> str:
    """The id of the run that the one at `root` is a copy of, without steps; empty if it is not a copy."""
    try:
        reader = RunReader(root)
    except HoldfastError:
        return ""
    try:
        return next(recovered_from(reader), "")
    finally:
        reader.close()


def recovered_from(reader: RunReader) -> Iterator[str]:
    """The ids of the runs that a run without steps is a copy of: the nearest first."""
    return (str(note.data["run"]) for _, note in reader.notes() if note.kind == RECOVERY_NOTE)
