"""Verification: everything in a run is counted and compared, folded from its frames; the index is not trusted.

Frames against their digests, segments against their footers, footers and pins against what is there, the ends of
sessions against the trials, trials against the plan, and blobs, inputs and artifacts against the records that cite
them; deep, also what the records say of one another (cross_check_records.py). Every difference is named. A torn tail
that a crash left is reported, and is not damage.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from holdfast.digests import file_digest
from holdfast.journal import Damage, DamageKind
from holdfast.journal.damage import attach_to_causes
from holdfast.run.core.config_file import header_differences
from holdfast.run.core.display_text import list_text
from holdfast.run.fold.inconsistencies import describe_inconsistencies
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.states import StateCounts
from holdfast.run.verify.cross_check_records import RecordCrossCheck
from holdfast.run.verify.finished_by_session import FinishedBySession
from holdfast.run.verify.fold_comparison import covers_the_same, fold_differences
from holdfast.run.verify.verifying_fold import VerifyingFold

_DIGEST_DIGITS = 32


class Verification(msgspec.Struct):
    """What was counted, and what does not agree."""

    run: str
    ok: bool
    segments: int
    frames: int
    records: int
    by_type: dict[str, int]
    counts: StateCounts
    sessions: int
    blobs: int
    inputs: int
    artifacts: int
    results: int
    """Result files, where they were looked at."""
    grid: int
    """Trials of the planned grid, where it was made again."""
    torn_bytes: int
    transcripts_lost: int
    damage: list[Damage]
    notes: list[str]


def verify_run(reader: RunReader, deep: RecordCrossCheck | None = None) -> Verification:
    """Counts everything in the run; with `deep`, also what the records say of one another."""
    fold = VerifyingFold(deep)
    with contextlib.closing(RunReader(reader.layout.root, reader.fs, fold=fold)) as frames:
        damage = reader.index.name_missed(frames.damage())
        if not any(item.is_loss for item in damage):
            damage += _check_counts(frames) + _check_index(frames, reader)
        damage += _check_files(frames, fold)
        notes: list[str] = []
        if deep is not None:
            noted = frames.noted_damage()
            found = attach_to_causes([*noted, *damage], deep.check(frames))
            damage, notes = found[len(noted) :], [text for item in found[: len(noted)] for text in item.consequences]
        return _verification(reader, frames, fold, damage, notes)


def _verification(
    reader: RunReader, frames: RunReader, fold: VerifyingFold, damage: list[Damage], notes: list[str]
) -> Verification:
    states, deep = frames.index.states(), fold.deep
    by_type = frames.fold.record_counts() | ({"unknown": fold.unknown} if fold.unknown else {})
    return Verification(
        run=reader.place,
        ok=not any(item.is_loss for item in damage),
        segments=len(states),
        frames=sum(state.frames for state in states),
        records=sum(by_type.values()),
        by_type=dict(sorted(by_type.items())),
        counts=frames.fold.counts,
        sessions=len(frames.sessions),
        blobs=len(fold.blobs),
        inputs=len({item.digest for session in frames.sessions for item in session.inputs.values() if item.copied}),
        artifacts=sum(1 for _ in fold.artifacts.counting(frames.fold.deciding_end)),
        results=deep.results if deep else 0,
        grid=len(deep.grid) if deep and deep.grid is not None else 0,
        torn_bytes=sum(item.length for item in damage if item.kind is DamageKind.TORN),
        transcripts_lost=frames.transcripts_lost(),
        damage=damage,
        notes=[*describe_inconsistencies(reader, with_damage=False), *notes, *_header_notes(frames)],
    )


def _header_notes(frames: RunReader) -> list[str]:
    """What the header of config.yaml says and the journal does not: the file is derived, so nothing is lost by it."""
    if not frames.sessions:
        return []
    found = header_differences(frames.layout.config, frames.sessions)
    return [f"The header of config.yaml differs from the journal: {list_text(found)}."] if found else []


def _check_files(frames: RunReader, fold: VerifyingFold) -> list[Damage]:
    found = [_check_blob(frames, digest, fold) for digest in fold.blobs]
    inputs = {item.digest: item.size for session in frames.sessions for item in session.inputs.values() if item.copied}
    found += [frames.inputs.check(digest, size) for digest, size in inputs.items()]
    return [damage for damage in found if damage is not None] + _check_artifacts(frames, fold)


def _check_blob(frames: RunReader, digest: str, fold: VerifyingFold) -> Damage | None:
    damage = frames.blobs.check(digest, fold.blobs[digest])
    trials = sorted(fold.citing[digest] - {""})
    return msgspec.structs.replace(damage, keys=tuple(trials)) if damage else None


def _check_artifacts(frames: RunReader, fold: VerifyingFold) -> list[Damage]:
    directory, damage = frames.layout.artifacts, artifact_damage(frames, fold)
    trials = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    # Artifacts are uploaded before the records of their trials.
    unknown = [name for name in trials if frames.fold.find(name) is None and not frames.not_uploaded_yet]
    return damage + [
        Damage(DamageKind.COUNT, f"artifacts/{name}", "the journal has no record of this trial") for name in unknown
    ]


def artifact_damage(frames: RunReader, fold: VerifyingFold) -> list[Damage]:
    """The files of trials that are not what the records of their ends say."""
    directory, cited = frames.layout.artifacts, fold.artifacts.counting(frames.fold.deciding_end)
    # What is no digest, as tools could record it in format 1, says nothing of the content; only a deep check names it.
    known = ((name, digest if fold.deep or len(digest) == _DIGEST_DIGITS else "") for name, digest in cited)
    found = (_check_artifact(directory, name, digest) for name, digest in known)
    return [damage for damage in found if damage is not None]


def _check_artifact(directory: Path, name: str, digest: str) -> Damage | None:
    path, where, keys = directory / name, f"artifacts/{name}", (name.partition("/")[0],)
    if not path.is_file():
        return Damage(DamageKind.MISSING, where, "a trial's record names it, and it does not exist", keys=keys)
    try:
        is_same = not digest or file_digest(path) == digest
    except OSError as error:
        return Damage(DamageKind.UNREADABLE, where, f"it cannot be read: {error.strerror}", keys=keys)
    problem = "its content differs from the digest in the trial's record"
    return None if is_same else Damage(DamageKind.CHANGED, where, problem, keys=keys)


def _check_counts(frames: RunReader) -> list[Damage]:
    """Counts that must agree in a journal from which nothing is lost."""
    damage: list[Damage] = []
    finished = FinishedBySession(frames)
    # A session that ended before a loss was noted counted what has been lost since.
    noting = max((session.number for session in frames.sessions if session.lost or session.damaged), default=0)
    for end in frames.ends:
        if end.number < noting:
            continue
        if end.finished >= 0 and (count := finished.by(end.number)) != end.finished:
            detail = f"session {end.number} ended with {end.finished} finished trials, the journal has {count}"
            damage.append(Damage(DamageKind.COUNT, "journal", detail))
    kept, planned = frames.fold.kept, frames.fold.planned
    if planned and kept > planned:
        damage.append(Damage(DamageKind.COUNT, "journal", f"{kept} trials are finished, {planned} are planned"))
    return damage


def _check_index(frames: RunReader, reader: RunReader) -> list[Damage]:
    """The index against the frames, where both have read the same bytes: a session may be writing meanwhile."""
    reader.refresh()
    if not covers_the_same(reader, frames):
        return []
    return [
        Damage(DamageKind.CONFLICT, "index", item.detail, keys=item.keys) for item in fold_differences(reader, frames)
    ]
