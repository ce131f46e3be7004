"""Verification: everything in a run is counted and compared, from the bytes, without the index.

Frames against their digests, segments against their footers, footers and pins against what is there, the ends of
sessions against the trials, trials against the plan, and blobs, inputs and artifacts against the records that cite
them; deep, also what the records say of one another (cross_check_records.py). Every difference is named. A torn tail
that a crash left is reported, and is no damage.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from holdfast.journal import Damage, DamageKind, SegmentId, SegmentPin, SegmentState, cross_check, scanned_state
from holdfast.journal.reader import SeenFrames, SegmentWalk
from holdfast.run.core.codec import Envelope, citation, decode
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import AnyRecord, SessionEndRecord, SessionRecord, TrialRecord
from holdfast.run.fold.inconsistencies import describe_inconsistencies
from holdfast.run.verify.cross_check_records import RecordCrossCheck


class Verification(msgspec.Struct):
    """What was counted, and what does not agree."""

    run: str
    ok: bool
    segments: int
    frames: int
    records: int
    by_type: dict[str, int]
    trials: int
    planned: int
    sessions: int
    blobs: int
    inputs: int
    artifacts: int
    results: int
    """Result files, where they were looked at."""
    grid: int
    """Trials of the planned grid, where it was made again."""
    torn_bytes: int
    damage: list[Damage]
    notes: list[str]


class _RunCounts:
    """What one pass over the journal adds up."""

    def __init__(self) -> None:
        self.types: Counter[str] = Counter()
        self.kept: dict[str, int] = {}
        """By trial, the first session that knew of a final record of it."""
        self._unseen: dict[int, set[str]] = {}
        """By session, trials of its own that the session after it had not seen: it was late."""
        self._first_seen = 0
        self._pinned: dict[int, set[SegmentId]] = {}
        self.started: set[str] = set()
        self.sessions: list[SessionRecord] = []
        self.ends: list[SessionEndRecord] = []
        self.blobs: dict[str, int] = {}
        self.citing: dict[str, set[str]] = {}
        self.artifacts: dict[str, str] = {}

    def enter(self, ident: SegmentId) -> None:
        """A segment begins, after all those of later sessions: finds the first session that knew of it."""
        later = sorted((number, ident in pins) for number, pins in self._pinned.items() if number > ident.session)
        seen = [number for number, is_pinned in later if is_pinned]
        if not later or later[0][1]:
            self._first_seen = ident.session
        else:
            self._first_seen = seen[0] if seen else later[-1][0] + 1

    def finished_by(self, session: int) -> int:
        """How many trials were finished as far as a session could know at its end."""
        known = sum(1 for first in self.kept.values() if first <= session)
        return known + sum(1 for trial in self._unseen.get(session, ()) if self.kept[trial] > session)

    def add(self, line: bytes, session: int) -> AnyRecord | Envelope | None:
        """Counts a line; the record in it."""
        if cited := citation(line):
            self._add_citation(cited)
            return cited
        record = decode(line)
        self.types[str(record.__struct_config__.tag) if record else "unknown"] += 1
        if isinstance(record, SessionRecord):
            self.sessions.append(record)
            self._pinned[record.number] = {SegmentId(*pin[:3]) for pin in record.pins}
        elif isinstance(record, SessionEndRecord):
            self.ends.append(record)
        elif trial := getattr(record, "trial", ""):
            self.started.add(trial)
            if isinstance(record, TrialRecord):
                self._add_trial(record, session)
        return record

    def _add_citation(self, record: Envelope) -> None:
        self.types[record.type] += 1
        self.started.add(record.trial)
        self.blobs[record.blob] = record.size
        self.citing.setdefault(record.blob, set()).add(record.trial)

    def _add_trial(self, record: TrialRecord, session: int) -> None:
        if record.status.is_kept:
            first = max(self._first_seen, session)
            self.kept[record.trial] = min(first, self.kept.get(record.trial, first))
            if first > session:
                self._unseen.setdefault(session, set()).add(record.trial)
        for name, digest in record.artifacts.items():
            self.artifacts[f"{record.trial}/{name}"] = digest

    def sort(self) -> None:
        """Puts the sessions in their order, whichever order they were read in."""
        self.sessions.sort(key=lambda record: record.number)
        self.ends.sort(key=lambda record: record.number)

    def lost(self) -> list[SegmentId]:
        return [ident for record in self.sessions for ident in record.lost]

    def pins(self) -> list[SegmentPin]:
        return [pin for record in self.sessions for pin in record.pins] + [
            pin for record in self.ends for pin in record.pins
        ]


def verify_run(reader: RunReader, deep: RecordCrossCheck | None = None) -> Verification:
    """Counts everything in the run; with `deep`, also what the records say of one another."""
    count, indexed = _RunCounts(), set(reader.finished())
    states, damage = _read_all(reader, count, deep)
    pins = [*count.pins(), *reader.index.gone()]
    damage = reader.index.name_missed(damage + cross_check(states, pins, count.lost()))
    if not any(item.is_loss for item in damage):
        damage += _check_counts(count) + _check_index(count, reader, indexed)
    damage += _check_files(reader, count)
    if deep is not None:
        damage += deep.check(count.sessions, count.artifacts)
    return _verification(reader, count, states, damage, deep)


def _read_all(
    reader: RunReader, count: _RunCounts, deep: RecordCrossCheck | None
) -> tuple[list[SegmentState], list[Damage]]:
    """Counts every record once; what the segments were found to hold, and what is wrong within them, in order."""
    seen, walk = SeenFrames(), SegmentWalk(reader.journal)
    states: list[SegmentState] = []
    found: dict[SegmentId, list[Damage]] = {}
    for segment in walk:
        count.enter(segment.ident)
        with reader.journal.scan(segment, settle=True) as scan:
            for frame in scan.frames():
                for place, line in enumerate(scan.lines(frame)) if seen.add(frame.origin) else ():
                    record = count.add(line, frame.origin.session)
                    if deep is not None:
                        deep.add(record, frame.record_id(place))
        walk.follow(segment, scan)
        found[segment.ident] = scan.damage
        states.append(scanned_state(segment, scan))
    count.sort()
    return states, [item for ident in sorted(found) for item in found[ident]]


def _verification(
    reader: RunReader,
    count: _RunCounts,
    states: list[SegmentState],
    damage: list[Damage],
    deep: RecordCrossCheck | None,
) -> Verification:
    return Verification(
        run=reader.place,
        ok=not any(item.is_loss for item in damage),
        segments=len(states),
        frames=sum(state.frames for state in states),
        records=sum(count.types.values()),
        by_type=dict(sorted(count.types.items())),
        trials=len(count.kept),
        planned=count.sessions[-1].planned if count.sessions else 0,
        sessions=len(count.sessions),
        blobs=len(count.blobs),
        inputs=len({item.digest for session in count.sessions for item in session.inputs.values() if item.copied}),
        artifacts=len(count.artifacts),
        results=deep.results if deep else 0,
        grid=len(deep.grid) if deep and deep.grid is not None else 0,
        torn_bytes=sum(item.length for item in damage if item.kind is DamageKind.TORN),
        damage=damage,
        notes=describe_inconsistencies(reader),
    )


def _check_files(reader: RunReader, count: _RunCounts) -> list[Damage]:
    found = [_check_blob(reader, digest, count) for digest in count.blobs]
    inputs = {item.digest: item.size for session in count.sessions for item in session.inputs.values() if item.copied}
    found += [reader.inputs.check(digest, size) for digest, size in inputs.items()]
    return [damage for damage in found if damage is not None] + _check_artifacts(reader.layout.artifacts, count)


def _check_blob(reader: RunReader, digest: str, count: _RunCounts) -> Damage | None:
    damage = reader.blobs.check(digest, count.blobs[digest])
    trials = sorted(count.citing[digest] - {""})
    return msgspec.structs.replace(damage, keys=tuple(trials)) if damage else None


def _check_artifacts(directory: Path, count: _RunCounts) -> list[Damage]:
    missing = [name for name in count.artifacts if not (directory / name).is_file()]
    damage = [
        Damage(DamageKind.MISSING, f"artifacts/{name}", "a trial's record names it, and it is not there")
        for name in missing
    ]
    trials = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    unknown = [name for name in trials if name not in count.started]
    return damage + [
        Damage(DamageKind.COUNT, f"artifacts/{name}", "no record of this trial is in the journal") for name in unknown
    ]


def _check_counts(count: _RunCounts) -> list[Damage]:
    """Counts that must agree in a journal from which nothing is lost."""
    damage: list[Damage] = []
    for end in count.ends:
        finished = count.finished_by(end.number)
        if finished != end.finished:
            detail = f"session {end.number} ended with {end.finished} finished trials, the journal has {finished}"
            damage.append(Damage(DamageKind.COUNT, "journal", detail))
    planned = count.sessions[-1].planned if count.sessions else 0
    if planned and len(count.kept) > planned:
        damage.append(
            Damage(DamageKind.COUNT, "journal", f"{len(count.kept)} trials are finished, {planned} are planned")
        )
    return damage


def _check_index(count: _RunCounts, reader: RunReader, before: set[str]) -> list[Damage]:
    """The index against the journal, while a writer may be working: what was indexed before the journal was read is
    in it, and what was read is in the index now.
    """
    reader.refresh()
    invented = sorted(before - count.kept.keys())
    absent = sorted(count.kept.keys() - set(reader.finished()))
    return [
        Damage(DamageKind.CONFLICT, "index", f"{len(keys)} finished trials {detail}", keys=tuple(keys))
        for keys, detail in (
            (invented, "are in the index and not in the journal"),
            (absent, "are in the journal and not in the index"),
        )
        if keys
    ]
