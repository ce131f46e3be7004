"""Repair: what lies outside the journal is made again from it, and what the journal lost from the result files.

- `config.yaml` and the index are written again from the journal where they are missing, damaged or contradict it.
- A sound result file whose trial has no such end on record is recorded, marked `source: artifact`, in a session of its
  own. A file that is not sound is listed, and never becomes a verdict; where file and journal differ, the journal wins.
- Where no journal is left, or no session record in it, the session is made again from `config.yaml`.

Before anything is replaced, its bytes are in a new directory `backup-<n>`. A second repair finds nothing to do.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError, NotARun, ResumeAborted, RunHeld, StorageFailure
from holdfast.journal import Damage, SegmentPin
from holdfast.run.backup import Backup
from holdfast.run.config_file import check_config, write_config
from holdfast.run.create import SourceFile
from holdfast.run.ends import Ends
from holdfast.run.findings import (
    Conflict,
    Findings,
    Group,
    Tally,
    WhyNot,
    has_results,
    not_planned,
    places,
    planned_scorers,
)
from holdfast.run.layout import Layout, reader_cache
from holdfast.run.planner import UNKNOWN, Planner, Remade
from holdfast.run.reading import RunReader, find_run_id
from holdfast.run.rebuild import copy_inputs, rebuild_journal, set_index_aside
from holdfast.run.records import Input, PlanEntry, Session, Trial, classify, decode
from holdfast.run.result_file import Fault
from holdfast.run.session import RunSession, open_session, session_record
from holdfast.storage import RealFileSystem, take_lease
from holdfast.storage.filesystem import FileSystem
from holdfast.storage.lease import find_holder, held

_TOGETHER = 1000
_TRIAL = b'"type":"trial"'


class Repair(msgspec.Struct, frozen=True):
    """What a repair found and did."""

    run: str
    ok: bool
    """Whether nothing is left that a person has to look at."""
    session: int
    """The session that it recorded results in; 0 if it recorded none."""
    files: int
    sound: int
    before: int
    after: int
    difference: int
    groups: list[Group]
    changes: list[str]
    backup: str
    faults: list[Fault]
    conflicts: list[Conflict]
    missing: list[str]
    notes: list[str]


def repair_run(root: Path, planner: Planner, fs: FileSystem | None = None) -> Repair:
    """Repairs the run in `root`.

    Raises:
        NotARun: there is no run, and nothing to make one from; nothing was written.
        RunHeld: a session executes it.
        StorageFailure: the disk failed.
    """
    work = _Work(root, planner, fs or RealFileSystem())
    try:
        return work.carry_out()
    except OSError as error:
        raise StorageFailure(
            f"{root} could not be repaired: {error.filename or ''} {error.strerror or error}.",
            hint="What was replaced is in the backup; put the storage right, then repair again.",
        ) from error
    finally:
        work.ends.close()
        planner.close()


class _Base:
    """What the record of the repairing session rests on: the last session, or one that was made again."""

    def __init__(self, fields: dict[str, Any], inputs: Mapping[str, SourceFile], why_not: WhyNot, *, new: bool) -> None:
        self.fields, self.inputs, self.why_not, self.is_new = fields, inputs, why_not, new

    def make(self, reader: RunReader, number: int, pins: list[SegmentPin]) -> Session:
        copied = copy_inputs(reader.inputs, self.inputs)
        fields = {**self.fields, "inputs": {**self.fields.get("inputs", {}), **copied}}
        return session_record(reader.run.hex(), number, pins, **fields)


class _Work:
    def __init__(self, root: Path, planner: Planner, fs: FileSystem) -> None:
        self.layout, self.planner, self.fs = Layout(root), planner, fs
        self.ends, self.tally, self.backup = Ends(), Tally(), Backup(fs, root)
        self.changes: list[str] = []
        self.missing: list[str] = []
        self.notes: list[str] = []
        self.session = 0

    def carry_out(self) -> Repair:
        try:
            find_run_id(self.fs, self.layout)
        except NotARun as error:
            return self._without_journal(error)
        if holder := find_holder(self.fs, self.layout.root):
            raise held(self.layout.root, holder)
        return self._with_journal()

    # A run whose journal is there.

    def _with_journal(self) -> Repair:
        with tempfile.TemporaryDirectory(prefix="holdfast-") as directory:
            reader = self._open(Path(directory))
            try:
                counts = self._read(reader)
                index = self._index_state(reader, counts)
                sessions, pins = reader.sessions, [state.pin() for state in reader.index.states()]
                base = self._base(reader)
                self._tell_damage(reader)
                cache = reader_cache(self.layout.root, reader.run)
            finally:
                reader.close()
        findings = self._look(base)
        self._mend_files(index, sessions)
        self._mend_cache(cache, counts)
        if base is not None and (findings.new or base.is_new):
            self._record(open_session(self.layout.root, _unchanged(base, pins), self.fs), findings)
        return self._told(findings)

    def _open(self, directory: Path) -> RunReader:
        """A reader with a copy of the run's own index: looking changes nothing."""
        copy = directory / self.layout.index.name
        for suffix in ("", "-journal"):
            path = self.layout.index.with_name(self.layout.index.name + suffix)
            if path.is_file():
                shutil.copyfile(path, copy.with_name(copy.name + suffix))
        return RunReader(self.layout.root, self.fs, index=copy)

    def _read(self, reader: RunReader) -> Counter[str]:
        """Takes in the ends of all trials; how many records of each kind there are."""
        counts: Counter[str] = Counter()
        found: list[Damage] = []
        for ident, line in reader.journal.stream(found):
            if entry := classify(line):
                counts[entry.kind] += 1
            if line.startswith(_TRIAL, 1) and isinstance(trial := decode(line), Trial) and self.ends.take(trial, ident):
                self.tally.before.update(places(trial))
        return counts

    def _index_state(self, reader: RunReader, counts: Counter[str]) -> str:
        """What is wrong with the run's own index; empty if nothing is."""
        if not self.layout.index.is_file():
            return "index.sqlite was missing"
        if reader.index.note:
            return f"index.sqlite: {reader.index.note}"
        return "index.sqlite contradicted the journal" if self._contradicts(reader, counts) else ""

    def _contradicts(self, reader: RunReader, counts: Counter[str]) -> bool:
        pairs = zip_longest(reader.finished(), self.ends.kept_keys())
        return reader.index.counts() != counts or any(indexed != kept for indexed, kept in pairs)

    def _tell_damage(self, reader: RunReader) -> None:
        losses = sum(1 for damage in reader.damage() if damage.is_loss)
        if losses:
            self.notes.append(f"The journal is damaged in {losses} places, and stays so; `holdfast verify` names them.")

    def _base(self, reader: RunReader) -> _Base | None:
        last = reader.sessions[-1] if reader.sessions else None
        if last is not None and not any(item.digest == UNKNOWN for item in last.inputs.values()):
            grid, reason = self.planner.grid(reader)
            if reason:
                self.notes.append(
                    f"The planned grid could not be made again, so results are held against the plan's counts: {reason}"
                )
            planned = planned_scorers(reader.sessions)
            return _Base(_fields(last), {}, lambda trial: not_planned(planned, trial) or grid(trial), new=False)
        config = last.config if last is not None else self._config()
        if config is None:
            return None
        remade = self._remade(config)
        # A plan that is still not known has been told of before.
        return _Base(remade.fields, remade.inputs, remade.why_not, new=last is None or not remade.missing)

    # A run of which only other files are left.

    def _without_journal(self, error: NotARun) -> Repair:
        if not self.layout.root.is_dir() or not has_results(self.layout):
            raise error
        config = self._config()
        base = None
        if config is not None:
            remade = self._remade(config)
            base = _Base(remade.fields, remade.inputs, remade.why_not, new=True)
        findings = self._look(base)
        if base is not None and findings.new:
            self._rebuild(base, findings)
        return self._told(findings)

    def _rebuild(self, base: _Base, findings: Findings) -> None:
        lease = take_lease(self.fs, self.layout.root)
        session = rebuild_journal(self.fs, self.layout, lease, self.backup, base.fields, base.inputs)
        self.changes.append(
            f"No journal was left: a new one was begun from config.yaml. The run has a new id, {session.run.hex()}."
        )
        self._record(session, findings)

    # What both have in common.

    def _config(self) -> dict[str, Any] | None:
        """The configuration by its file; None, and told, if that is of no use either."""
        from holdfast.spec.document import read_document  # noqa: PLC0415 - PyYAML is needed here only

        told = "no session record survives, and config.yaml"
        try:
            data = read_document(self.layout.config.read_text(encoding="utf-8"), "config.yaml")
        except (FileNotFoundError, NotADirectoryError):
            self.missing.append(f"The configuration: {told} is missing.")
        except (OSError, UnicodeDecodeError, ConfigurationError) as error:
            self.missing.append(f"The configuration: {told} cannot be read: {error}")
        else:
            if isinstance(data, dict) and data:
                return data
            self.missing.append(f"The configuration: {told} is no mapping.")
        return None

    def _remade(self, config: dict[str, Any]) -> Remade:
        remade = self.planner.remake(config, self.layout)
        self.missing += remade.missing
        if remade.missing:
            remade.fields.setdefault("inputs", {})["plan"] = Input(UNKNOWN, 0, copied=False)
        return remade

    def _look(self, base: _Base | None) -> Findings:
        planned = (
            {(entry.task, entry.model): set(entry.scorers) for entry in base.fields.get("plan", [])} if base else {}
        )
        why_not = base.why_not if base else lambda trial: not_planned(planned, trial)
        findings = Findings(self.layout, self.ends, why_not, self.tally)
        findings.look()
        if base is not None and not base.fields.get("plan"):
            # The report groups by the plan; that nothing is known to be planned keeps the run from being complete.
            entries = sorted(findings.scorers.items())
            base.fields["plan"] = [PlanEntry(task, model, 0, sorted(names)) for (task, model), names in entries]
        return findings

    def _mend_files(self, index: str, sessions: list[Session]) -> None:
        """Writes the index and config.yaml again where they have to be."""
        config = self._config_state(sessions)
        if not index and not config:
            return
        lease = take_lease(self.fs, self.layout.root)
        try:
            if index:
                set_index_aside(self.layout, self.backup)
                RunReader(self.layout.root, self.fs, index=self.layout.index).close()
                self.changes.append(f"{index}; it is built anew from the journal.")
            if config:
                self._write_config(config, sessions)
        finally:
            lease.release()

    def _config_state(self, sessions: list[Session]) -> str:
        if not sessions:
            return ""
        try:
            return check_config(self.layout.config, sessions, self.planner.same)
        except ResumeAborted as error:
            return f"{error.message.removeprefix('Resume aborted: ')} It is written again from the journal."

    def _write_config(self, told: str, sessions: list[Session]) -> None:
        path = self.layout.config
        if path.is_file() and not path.is_symlink():
            self.backup.copy(path)
        elif os.path.lexists(path):
            self.backup.move(path)
        write_config(self.fs, path, sessions)
        self.changes.append(told[0].upper() + told[1:])

    def _mend_cache(self, cache: Path, counts: Counter[str]) -> None:
        """The index that this user's readers keep elsewhere; one that contradicts the journal is removed."""
        if not cache.is_file():
            return
        reader = RunReader(self.layout.root, self.fs)
        wrong = self._contradicts(reader, counts)
        reader.close()
        if wrong:
            cache.unlink(missing_ok=True)
            self.changes.append(f"The readers' index {cache} contradicted the journal; it is removed.")

    def _record(self, session: RunSession, findings: Findings) -> None:
        """Records the results that the journal lacks, and ends the session."""
        try:
            # Handed in many at a time, so that few frames have to be synced.
            records = findings.records()
            while batch := list(islice(records, _TOGETHER)):
                for record in batch:
                    session.append(record)
            ok = self._is_ok(findings)
            finished = self.ends.kept + findings.new_kept
            session.close("repaired", 0 if ok else 1, finished=finished, planned=session.session.planned)
        finally:
            session.abandon()
        self.session = session.number
        self.changes.append(f"{findings.new} results were recorded, in session {session.number}.")

    def _is_ok(self, findings: Findings) -> bool:
        return not (findings.faults or findings.conflicts or self.missing)

    def _told(self, findings: Findings) -> Repair:
        added = findings.new_kept if self.session else 0
        if not self.session:
            self.tally.added.clear()
        return Repair(
            run=str(self.layout.root),
            ok=self._is_ok(findings),
            session=self.session,
            files=findings.files,
            sound=findings.sound,
            before=self.ends.kept,
            after=self.ends.kept + added,
            difference=added,
            groups=self.tally.groups(),
            changes=self.changes,
            backup=self.backup.name,
            faults=findings.faults,
            conflicts=findings.conflicts,
            missing=self.missing,
            notes=self.notes,
        )


def _fields(last: Session) -> dict[str, Any]:
    names = ("name", "config", "inputs", "planned", "plan", "code", "source", "serving")
    return {name: getattr(last, name) for name in names}


def _unchanged(base: _Base, pins: list[SegmentPin]) -> Callable[[RunReader, int, list[SegmentPin]], Session]:
    def make(reader: RunReader, number: int, now: list[SegmentPin]) -> Session:
        if now != pins:
            raise RunHeld(
                f"Another session has worked on {reader.layout.root} while it was looked through.",
                hint="No result was recorded; repair again.",
            )
        return base.make(reader, number, now)

    return make
