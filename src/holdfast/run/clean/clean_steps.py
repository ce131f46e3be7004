"""Deleting the transcripts of finished trials: their steps and calls, and the blobs that only those refer to.

Answers, scores and ends are kept, and so are the transcripts of the few trials whose usage only the steps record:
every report stays the same. The new journal is written beside the old one, compared with it record by record, and
exchanged with it in one step; only then is the old one deleted. A kill at any moment leaves either the old run or the
new one; the next cleaning removes leftovers.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import msgspec

from holdfast.errors import HoldfastError, RunDamaged, StorageFailure, UsageError
from holdfast.journal import Journal
from holdfast.journal.index.database import remove_index
from holdfast.run.clean.rewrite_journal import JournalRewriter, verify_rewrite
from holdfast.run.core.codec import citation
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import OF_STAGE
from holdfast.run.core.run_id import check_openable, identify_run
from holdfast.run.drift.served_names import has_several_names
from holdfast.run.fold.reader import RunReader, write_index
from holdfast.run.fold.states import FINISHED
from holdfast.run.transcripts.final_conversation import HEADS as FINAL_HEADS
from holdfast.run.transcripts.final_conversation import FinalConversations
from holdfast.run.verify.verify import verify_run
from holdfast.storage import RealFileSystem, crashpoints, take_lease
from holdfast.storage.filesystem import FileSystem
from holdfast.storage.leases.local import find_holder, run_held
from holdfast.storage.operating_system import EXCHANGE_UNSUPPORTED, exchange_directories

_CLEANING_PREFIX = ".journal.cleaning-"
_BLOB = re.compile(r"[0-9a-f]{32}|\..*\.tmp")
_MARKS = (b'{"type":"step"', b'{"type":"call"', b'{"type":"refused"')


class CleanedSteps(msgspec.Struct):
    """What was deleted, or would be."""

    run: str
    dry_run: bool
    trials: int = 0
    """Finished trials that lose steps which do not lead to their answers."""
    steps: int = 0
    calls: int = 0
    record_bytes: int = 0
    """Of those steps and calls, before compression, without blobs."""
    blobs: int = 0
    blob_bytes: int = 0
    journal_bytes_before: int = 0
    journal_bytes_after: int = 0
    """As before, where nothing was deleted."""


class _Key(msgspec.Struct):
    trial: str = ""
    step: str = ""


_key_decoder = msgspec.json.Decoder(_Key)


class _Transcripts:
    """Which records are the transcript of a finished trial that does not need it any more: all but its final
    conversation.
    """

    def __init__(self, reader: RunReader) -> None:
        # The report counts the replies of a model by name, if there are several: then none can be spared.
        finished = reader.fold.trials(*FINISHED) if not has_several_names(reader) else ()
        self._trials = {trial.key: trial.row.answer_of for trial in finished if trial.has_spare_transcript}
        self.noted = {item.where for item in reader.noted_damage()}
        """Files that have lost something which was made good since."""
        self._final = FinalConversations(reader.fs, reader.blobs, lambda key: self._trials.get(key, 0))
        for _, line in reader.journal.stream([], FINAL_HEADS) if self._trials else ():
            self._final.add(line)

    def __call__(self, line: bytes) -> bool:
        if not line.startswith(_MARKS):
            return False
        key = self._key(line)
        # The outcomes of stages are few, and another attempt may begin from them.
        return key.trial in self._trials and not key.step.startswith(OF_STAGE) and line not in self._final

    def close(self) -> None:
        self._final.close()

    def trial(self, line: bytes) -> str:
        return self._key(line).trial

    @staticmethod
    def _key(line: bytes) -> _Key:
        try:
            return _key_decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return _Key()


def clean_steps(root: Path, *, dry_run: bool = False, fs: FileSystem | None = None) -> CleanedSteps:
    """Removes the transcripts of the finished trials of a run.

    Raises:
        NotARun: there is no run.
        RunHeld: a session is using it.
        RunDamaged: it is damaged, so nobody can say what is needed.
        UsageError: the filesystem cannot do it safely.
        StorageFailure: the disk failed.
    """
    fs = fs or RealFileSystem()
    check_openable(root, fs)
    if dry_run:
        if holder := find_holder(fs, root):
            raise run_held(root, holder)
        result, drop, _ = _find_removable(root, fs)
        drop.close()
        return result
    lease = take_lease(fs, root)
    try:
        _remove_unfinished_cleanings(fs, root)
        return _clean(root, fs)
    except OSError as error:
        raise StorageFailure(
            f"{root} could not be cleaned: {error.filename or ''} {error.strerror or error}.",
            hint="The run is either unchanged or cleaned; `holdfast verify` checks it.",
        ) from error
    finally:
        lease.release()


def _find_removable(root: Path, fs: FileSystem) -> tuple[CleanedSteps, _Transcripts, list[Path]]:
    """What there is to delete: the counts, which records, and the blobs."""
    reader = RunReader(root, fs)
    try:
        _refuse_damage(reader)
        drop = _Transcripts(reader)
        result, blobs = _count_removable(reader, drop)
    finally:
        reader.close()
    return result, drop, blobs


def _refuse_damage(reader: RunReader) -> None:
    losses = [damage for damage in verify_run(reader).damage if damage.is_loss]
    if losses:
        raise RunDamaged(
            f"{reader.layout.root} is damaged, so nothing was deleted: {losses[0]}.",
            hint="`holdfast verify` lists what is lost; `holdfast repair` repairs what can be repaired.",
        )


def _count_removable(reader: RunReader, drop: _Transcripts) -> tuple[CleanedSteps, list[Path]]:
    result = CleanedSteps(str(reader.layout.root), dry_run=True)
    trials: set[str] = set()
    needed: set[str] = set()
    for _, line in reader.journal.stream([]):
        if drop(line):
            trials.add(drop.trial(line))
            result.steps += line.startswith(_MARKS[0])
            result.calls += line.startswith(_MARKS[1])
            result.record_bytes += len(line)
        elif cited := citation(line):
            needed.add(cited.blob)
    blobs = [path for path in _blobs(reader.layout) if path.name not in needed]
    result.trials, result.blobs = len(trials), len(blobs)
    result.blob_bytes = sum(path.stat().st_size for path in blobs)
    result.journal_bytes_before = result.journal_bytes_after = _journal_bytes(reader.journal)
    return result, blobs


def _blobs(layout: Layout) -> list[Path]:
    """Every blob, and what an interrupted writer left of one; nothing else that may lie there."""
    if not layout.blobs.is_dir():
        return []
    return sorted(path for path in layout.blobs.iterdir() if _BLOB.fullmatch(path.name) and path.is_file())


def _journal_bytes(journal: Journal) -> int:
    return sum(segment.path.stat().st_size for segment in journal.segments())


def _clean(root: Path, fs: FileSystem) -> CleanedSteps:
    result, drop, blobs = _find_removable(root, fs)
    with contextlib.closing(drop):
        result.dry_run = False
        if result.steps or result.calls:
            result.journal_bytes_after = _replace_journal(root, fs, drop)
    for path in blobs:
        fs.remove(path)
        crashpoints.reach("clean.blob-removed")
    return result


def _replace_journal(root: Path, fs: FileSystem, drop: _Transcripts) -> int:
    """Puts a journal without these records in the place of the old one; its size."""
    layout = Layout(root)
    run, format_ = identify_run(fs, layout)
    old = Journal(fs, layout.journal, run)
    new = Journal(fs, root / f"{_CLEANING_PREFIX}{os.urandom(6).hex()}", old.run)
    try:
        size = _build_journal(old, new, drop, format_)
        _exchange_journals(new.directory, layout.journal)
    except (OSError, HoldfastError):
        with contextlib.suppress(OSError):
            fs.remove_tree(new.directory)
        raise
    fs.sync_directory(root)
    crashpoints.reach("clean.exchanged")
    # Every record has moved: the old index would report them all as lost.
    remove_index(layout.index)
    remove_index(layout.index_in_use)
    fs.remove_tree(new.directory)
    crashpoints.reach("clean.journal-removed")
    write_index(layout, fs)
    return size


def _build_journal(old: Journal, new: Journal, drop: _Transcripts, format_: int) -> int:
    """Writes the new journal beside the old one, and verifies it; its size."""
    new.fs.make_directory(new.directory)
    JournalRewriter(old, new.directory, drop, format_).write()
    verify_rewrite(old, new, drop, drop.noted)
    new.fs.sync_directory(new.directory)
    crashpoints.reach("clean.proven")
    return _journal_bytes(new)


def _exchange_journals(building: Path, journal: Path) -> None:
    try:
        exchange_directories(building, journal)
    except OSError as error:
        if error.errno not in EXCHANGE_UNSUPPORTED:
            raise
        raise UsageError(
            f"The filesystem of {journal} cannot exchange two directories in one step; nothing was deleted.",
            hint="Copy the run to a local disk and clean it there.",
        ) from error


def _remove_unfinished_cleanings(fs: FileSystem, root: Path) -> None:
    """Removes what an earlier cleaning left when it was killed: an unfinished journal, or the old one."""
    left = [name for name in fs.list(root) if name.startswith(_CLEANING_PREFIX)]
    if left:
        # Before the old one is removed, it must be certain that the new one is in its place.
        fs.sync_directory(root)
    for name in left:
        fs.remove_tree(root / name)
