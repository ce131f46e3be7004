"""Repair: what lies outside the journal is made again from it, and what the journal lost from the result files.

- `config.yaml` and the index are written again from the journal where they are missing, damaged or contradict it.
- A sound result file whose trial has no such end on record is recorded, marked `source: artifact`, in a session of its
  own. A file that is not sound is listed, and never becomes a verdict; where file and journal differ, the journal wins.
- Where no journal is left, or no session record in it, the session is made again from `config.yaml`.

Before anything is replaced, its bytes are in a new directory `backup-<n>`. A second repair finds nothing to do.
"""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError, NotARun, StorageFailure
from holdfast.run.core.codec import classify, decode
from holdfast.run.core.layout import Layout
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import Input, PlanEntry, TrialRecord
from holdfast.run.core.result_file import ResultFileFault
from holdfast.run.core.run_id import find_run_id
from holdfast.run.fold.attempt_ends import Ends
from holdfast.run.repair.backup import Backup
from holdfast.run.repair.derived_files import Counted, Mender
from holdfast.run.repair.planner import UNKNOWN, Planner
from holdfast.run.repair.rebuild_journal import rebuild_journal
from holdfast.run.repair.result_findings import (
    Conflict,
    Findings,
    Group,
    ResultTally,
    has_results,
    not_planned,
    places,
    planned_scorers,
)
from holdfast.run.repair.session_basis import Basis, fields_of
from holdfast.run.session.open import open_session
from holdfast.run.session.session import RunSession
from holdfast.storage import RealFileSystem, take_lease
from holdfast.storage.filesystem import FileSystem
from holdfast.storage.leases.local import find_holder, run_held

_TOGETHER = 1000
_TRIAL = b'"type":"trial"'


class Repair(msgspec.Struct, frozen=True):
    """What a repair found and did."""

    run: str
    ok: bool
    """Whether nothing is left that a person has to look at."""
    session: int
    """The session that it recorded results in; 0 if there was none."""
    files: int
    sound: int
    before: int
    after: int
    difference: int
    groups: list[Group]
    changes: list[str]
    backup: str
    faults: list[ResultFileFault]
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


class _Work:
    def __init__(self, root: Path, planner: Planner, fs: FileSystem) -> None:
        self.layout, self.planner, self.fs = Layout(root), planner, fs
        self.ends, self.tally, self.backup = Ends(), ResultTally(), Backup(fs, root)
        self.changes: list[str] = []
        self.missing: list[str] = []
        self.notes: list[str] = []
        self.scorers: dict[tuple[str, str], set[str]] = {}
        """Who has scored, by task and model, as far as the journal tells."""
        self.session = 0

    def carry_out(self) -> Repair:
        try:
            find_run_id(self.fs, self.layout)
        except NotARun as error:
            return self._without_journal(error)
        if holder := find_holder(self.fs, self.layout.root):
            raise run_held(self.layout.root, holder)
        return self._with_journal()

    # A run whose journal is there.

    def _with_journal(self) -> Repair:
        mender = Mender(self.layout, self.fs, self.backup, self.planner.same)
        with tempfile.TemporaryDirectory(prefix="holdfast-") as directory:
            reader = mender.open_copy(Path(directory))
            try:
                reader = mender.look(reader, self._read(reader), Path(directory))
                pins = [state.pin() for state in reader.index.states()]
                base = self._base(reader)
                self._tell_damage(reader)
            finally:
                reader.close()
        findings = self._look(base)
        self.changes.extend(mender.mend())
        if base is not None and (findings.new or base.is_new):
            if base.is_new:
                self.changes.append("A session record was written, made from the configuration.")
            self._record(open_session(self.layout.root, base.unless_changed(pins), self.fs), findings)
        return self._told(findings)

    def _read(self, reader: RunReader) -> Counted:
        """Takes in the ends of all trials."""
        counted = Counted(self.ends)
        for ident, line in reader.journal.stream([]):
            if entry := classify(line):
                counted.kinds[entry.kind] += 1
            if (
                line.startswith(_TRIAL, 1)
                and isinstance(trial := decode(line), TrialRecord)
                and self.ends.take(trial, ident)
            ):
                self.tally.before.update(places(trial))
                self.scorers.setdefault((trial.task, trial.model), set()).update(trial.scores)
        return counted

    def _tell_damage(self, reader: RunReader) -> None:
        losses = sum(1 for damage in reader.damage() if damage.is_loss)
        if losses:
            self.notes.append(f"The journal is damaged in {losses} places, and stays so; `holdfast verify` names them.")

    def _base(self, reader: RunReader) -> Basis | None:
        last = reader.sessions[-1] if reader.sessions else None
        if last is None or any(item.digest == UNKNOWN for item in last.inputs.values()):
            return self._remade(last.config if last else self._config(), known=last is not None)
        grid, reason = self.planner.grid(reader)
        if reason:
            told = "The planned grid could not be made again, so results are held against the plan's tasks only"
            self.notes.append(f"{told}: {reason}")
        planned = planned_scorers(reader.sessions)
        return Basis(fields_of(last), {}, lambda trial: not_planned(planned, trial) or grid(trial), new=False)

    # A run of which only other files are left.

    def _without_journal(self, error: NotARun) -> Repair:
        if not self.layout.root.is_dir() or not has_results(self.layout):
            raise error
        base = self._remade(self._config())
        findings = self._look(base)
        if base is not None and findings.new:
            self._rebuild(base, findings)
        return self._told(findings)

    def _rebuild(self, base: Basis, findings: Findings) -> None:
        lease = take_lease(self.fs, self.layout.root)
        session = rebuild_journal(self.fs, self.layout, lease, self.backup, base.fields, base.inputs)
        self.changes.append(
            f"No journal was left: a new one was begun from config.yaml. The run has a new id, {session.run.hex()}."
        )
        self._record(session, findings)

    # What both have in common.

    def _config(self) -> dict[str, Any] | None:
        """The configuration by its file; None, and told, if that is of no use either."""
        from holdfast.spec.loading.yaml_document import read_document  # noqa: PLC0415 - PyYAML is needed here only

        state = "is no mapping"
        try:
            data = read_document(self.layout.config.read_text(encoding="utf-8"), "config.yaml")
        except FileNotFoundError:
            state, data = "is missing", None
        except (OSError, UnicodeDecodeError, ConfigurationError) as error:
            state, data = f"cannot be read: {error}", None
        if isinstance(data, dict) and data:
            return data
        self.missing.append(f"The configuration: no session record survives, and config.yaml {state}.")
        return None

    def _remade(self, config: dict[str, Any] | None, *, known: bool = False) -> Basis | None:
        """The session made again; a plan that is still not known has been told of before."""
        if config is None:
            return None
        remade = self.planner.remake(config, self.layout)
        self.missing += remade.missing
        if remade.missing:
            remade.fields.setdefault("inputs", {})["plan"] = Input(UNKNOWN, 0, copied=False)
        return Basis(remade.fields, remade.inputs, remade.why_not, new=not (known and remade.missing))

    def _look(self, base: Basis | None) -> Findings:
        why_not = base.why_not if base else lambda trial: not_planned({}, trial)
        findings = Findings(self.layout, self.ends, why_not, self.tally)
        findings.look()
        if base is not None and "plan" not in base.fields:
            # The report goes by the plan; that no number is known keeps the run from being complete.
            pairs = sorted({*self.scorers, *findings.scorers})
            names = {pair: self.scorers.get(pair, set()) | findings.scorers.get(pair, set()) for pair in pairs}
            base.fields["plan"] = [PlanEntry(*pair, 0, sorted(names[pair])) for pair in pairs]
        return findings

    def _record(self, session: RunSession, findings: Findings) -> None:
        """Records the results that the journal lacks, and ends the session."""
        try:
            # Handed in many at a time, so that few frames have to be synced.
            records = findings.records()
            while batch := list(islice(records, _TOGETHER)):
                for record in batch:
                    session.append(record)
            finished = self.ends.kept + findings.new_kept
            code = 0 if self._is_ok(findings) else 1
            session.close("repaired", code, finished=finished, planned=session.session.planned)
        finally:
            session.abandon()
        self.session = session.number
        if findings.new:
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
