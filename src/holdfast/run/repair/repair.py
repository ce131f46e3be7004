"""Repair: rebuilds derived files from the journal, and recovers lost results from result files.

- `config.yaml` and the index are rewritten from the journal where they are missing, damaged or contradict it.
- A copy of an input that is damaged or missing is made again, if its original is still the same.
- An intact result file whose trial has no such recorded end is recorded, marked `source: artifact`, in a separate
  session. A damaged file is listed, and never becomes a verdict; where file and journal differ, the journal wins.
- A choice between axis values that only result files know is recorded as they have it.
- Where no journal is left, or no session record in it, the session is rebuilt from `config.yaml`.

Before anything is replaced, its bytes are in a new directory `backup-<n>`. A second repair finds nothing to do.
A loss in the journal that later work has made good is noted in the record of a session, and is a note from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError, NotARun, StorageFailure
from holdfast.journal import SegmentId, SegmentPin
from holdfast.models.message import UNKNOWN_USAGE
from holdfast.run.core.axes.choices import AxisChoice
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import REPLY_NOTE, UNKNOWN_DIGEST, Input, NoteRecord, PlanEntry, SessionRecord
from holdfast.run.core.result_file import ResultFileFault
from holdfast.run.core.run_id import find_run_id
from holdfast.run.core.session_contents import SessionContents
from holdfast.run.core.slots.slot_names import base_name
from holdfast.run.fold.acknowledged_frames import NOTABLE, damaged_segment
from holdfast.run.fold.reader import RunReader
from holdfast.run.repair.backup import Backup
from holdfast.run.repair.cited_files import CitedFiles
from holdfast.run.repair.derived_files import DerivedFiles
from holdfast.run.repair.found_choices import FoundChoices
from holdfast.run.repair.rebuild_journal import rebuild_journal
from holdfast.run.repair.recording_session import Planner, RepairSession
from holdfast.run.repair.result_file_comparison import (
    ResultComparison,
    ResultConflict,
    ResultTally,
    TrialGroup,
    has_results,
    not_planned,
    planned_scorers,
    rebuilt_note,
    tally_groups,
)
from holdfast.run.session.open import open_session
from holdfast.run.session.session import RunSession
from holdfast.run.verify.verifying_fold import VerifyingFold
from holdfast.storage import RealFileSystem, take_lease
from holdfast.storage.filesystem import FileSystem
from holdfast.storage.leases.local import find_holder, run_held

_RECORDS_AT_A_TIME = 1000


class RepairReport(msgspec.Struct, frozen=True):
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
    groups: list[TrialGroup]
    changes: list[str]
    backup: str
    faults: list[ResultFileFault]
    conflicts: list[ResultConflict]
    missing: list[str]
    """What is needed and was not found, and files that are damaged or missing and cannot be made again."""
    unrepaired: list[str]
    """Losses in the journal that no repair can mend; their trials are run again by a resume."""
    notes: list[str]


def repair_run(root: Path, planner: Planner, fs: FileSystem | None = None, *, at_least: int = 1) -> RepairReport:
    """Repairs the run in `root`; a session that it needs has the number `at_least` or a higher one.

    Raises:
        NotARun: there is no run, and nothing to make one from; nothing was written.
        RunHeld: a session is using it.
        StorageFailure: the disk failed.
    """
    work = _RepairWork(root, planner, fs or RealFileSystem(), at_least)
    try:
        return work.run()
    except OSError as error:
        raise StorageFailure(
            f"{root} could not be repaired: {error.filename or ''} {error.strerror or error}.",
            hint="Replaced files are in the backup; fix the storage, then repair again.",
        ) from error
    finally:
        work.close()
        planner.close()


class _RepairWork:
    """One repair of a run."""

    def __init__(self, root: Path, planner: Planner, fs: FileSystem, at_least: int) -> None:
        self.layout, self.planner, self.fs, self.at_least = Layout(root), planner, fs, at_least
        self.tally, self.backup = ResultTally(), Backup(fs, root)
        self.before = 0
        """Trials that have an end which is kept, by the journal."""
        self.changes: list[str] = []
        self.missing: list[str] = []
        self.notes: list[str] = []
        self.scorers: dict[tuple[str, str], set[str]] = {}
        """Who has scored, by task and model, as far as the journal knows."""
        self.losses: list[str] = []
        """What is lost in the journal and was made good: to be noted."""
        self.lost: list[SegmentId] = []
        self.damaged: list[SegmentPin] = []
        self.unrepaired: list[str] = []
        """What is lost in the journal, and what a repair cannot mend."""
        self.session = 0
        self.choices: list[AxisChoice] = []
        """Choices between axis values that only result files know."""
        self._undo = ExitStack()

    def close(self) -> None:
        self._undo.close()

    def run(self) -> RepairReport:
        try:
            find_run_id(self.fs, self.layout)
        except NotARun as error:
            return self._without_journal(error)
        if holder := find_holder(self.fs, self.layout.root):
            raise run_held(self.layout.root, holder)
        return self._with_journal()

    # A run whose journal is there.

    def _with_journal(self) -> RepairReport:
        derived = DerivedFiles(self.layout, self.fs, self.backup, self.planner.same)
        cited, fold = CitedFiles(self.layout, self.fs, self.backup), VerifyingFold()
        with closing(RunReader(self.layout.root, self.fs, fold=fold)) as reader:
            derived.check(reader)
            cited.check(reader, fold, self.planner)
            self._count_before(reader)
            pins = [state.pin() for state in reader.index.states()]
            session = self._next_session(reader)
            results = self._compare_results(session, reader)
            self._find_losses(reader, session, results.new_kept)
        self.missing += cited.lost
        self.changes.extend(cited.repair())
        self.changes.extend(derived.repair())
        if session is not None and (results.new or session.is_new or self.losses or self.choices):
            if session.is_new:
                self.changes.append("A session record was rebuilt from the configuration.")
            make = self._note_losses(self._with_plan(session, results)).unless_changed(pins)
            self._record(open_session(self.layout.root, make, self.fs, at_least=self.at_least), results)
        return self._report(results)

    def _count_before(self, reader: RunReader) -> None:
        """Counts what the journal has, and notes who has scored."""
        self.before, self.tally.before = reader.fold.kept, tally_groups(reader.fold)
        for standing in reader.fold.standings.values():
            if standing.is_kept:
                self.scorers.setdefault(standing.group[:2], set()).update(standing.scorers)

    def _find_losses(self, reader: RunReader, session: RepairSession | None, added: int) -> None:
        """What is lost in the journal: noted where all of it was made good, named where something remains.

        `added` is how many trials are finished by results that are recorded now.
        """
        counts = reader.fold.counts
        planned, finished = counts.planned, counts.finished
        if session is not None and session.is_new:
            planned, finished = session.contents.planned if session.is_plan_known else 0, self.before
        is_made_good = session is not None and (counts.is_complete or 0 < planned <= finished + added)
        losses = [damage for damage in reader.damage() if damage.is_loss]
        states = {state.ident: state.pin() for state in reader.index.states()}
        found = [(damage, damaged_segment(damage)) for damage in losses]
        is_notable = all(ident and (damage.kind in NOTABLE or ident not in states) for damage, ident in found)
        if losses and is_notable and is_made_good:
            idents = dict.fromkeys(ident for _, ident in found if ident)
            self.lost = [ident for ident in idents if ident not in states]
            self.damaged = [states[ident] for ident in idents if ident in states]
            self.losses = [str(damage) for damage in losses]
        elif losses:
            self.unrepaired = [str(damage) for damage in losses]

    def _note_losses(self, session: RepairSession) -> RepairSession:
        """The session with the losses in its record: from then on they are notes."""
        if not self.losses:
            return session
        self.changes += [f"Noted in the journal, because nothing remains to do: {text}" for text in self.losses]
        return replace(session, contents=replace(session.contents, lost=self.lost, damaged=self.damaged))

    def _next_session(self, reader: RunReader) -> RepairSession | None:
        """The session to record results in: as the last one, or, where its plan is unknown, a rebuilt one."""
        last = reader.sessions[-1] if reader.sessions else None
        if last is None or any(item.digest == UNKNOWN_DIGEST for item in last.inputs.values()):
            return self._rebuilt(last.config if last else self._read_config(), known=last is not None)
        grid, reason = self.planner.grid(reader)
        if reason:
            note = "The planned trials could not be listed, so results were only compared with the planned tasks"
            self.notes.append(f"{note}: {reason}")
        planned = planned_scorers(reader.sessions)
        contents = SessionContents.carried_over(last)
        return RepairSession(contents, {}, lambda trial: not_planned(planned, trial) or grid(trial), is_new=False)

    # A run of which only other files are left.

    def _without_journal(self, error: NotARun) -> RepairReport:
        if not self.layout.root.is_dir() or not has_results(self.layout):
            raise error
        repair = self._rebuilt(self._read_config())
        results = self._compare_results(repair, None)
        if repair is not None and results.new:
            self._rebuild(self._with_plan(repair, results), results)
        return self._report(results)

    def _rebuild(self, repair: RepairSession, results: ResultComparison) -> None:
        lease = take_lease(self.fs, self.layout.root)
        session = rebuild_journal(self.fs, self.layout, lease, self.backup, repair)
        if results.named_run:
            session.sink.append(rebuilt_note(results.named_run, results.earlier_runs))
        self.changes.append(
            f"There was no journal: a new one was started from config.yaml. The run has a new id, {session.run.hex()}."
        )
        self._record(session, results)

    # What both have in common.

    def _read_config(self) -> dict[str, Any] | None:
        """The configuration by its file; None, and listed as missing, if that is unusable too."""
        from holdfast.spec.loading.yaml_document import read_document  # noqa: PLC0415 - PyYAML is needed here only

        state = "is not a mapping"
        try:
            data = read_document(self.layout.config.read_text(encoding="utf-8"), "config.yaml")
        except FileNotFoundError:
            state, data = "is missing", None
        except (OSError, UnicodeDecodeError, ConfigurationError) as error:
            state, data = f"cannot be read: {error}", None
        if isinstance(data, dict) and data:
            return data
        self.missing.append(f"The configuration: there is no session record, and config.yaml {state}.")
        return None

    def _rebuilt(self, config: dict[str, Any] | None, *, known: bool = False) -> RepairSession | None:
        """The session rebuilt from a configuration; a plan that is still unknown was recorded as such before."""
        if config is None:
            return None
        rebuilt = self.planner.rebuild(config, self.layout)
        self.missing += rebuilt.missing
        is_plan_known, contents = not rebuilt.missing, rebuilt.contents
        if not is_plan_known:
            contents = contents.with_inputs({"plan": Input(UNKNOWN_DIGEST, 0, copied=False)})
        is_new = is_plan_known or not known
        return RepairSession(contents, rebuilt.inputs, rebuilt.rejection, is_new, is_plan_known)

    def _compare_results(self, session: RepairSession | None, reader: RunReader | None) -> ResultComparison:
        rejection = session.rejection if session else lambda trial: not_planned({}, trial)
        known = reader.axis_choices() if reader is not None else {}
        choices = FoundChoices(session.contents.plan if session else (), known, self.layout)
        rejection, self.choices = choices.rejecting(rejection), choices.new
        results = self._undo.enter_context(closing(ResultComparison(self.layout, reader, rejection, self.tally)))
        results.run()
        self.notes += choices.notes()
        return results

    def _with_plan(self, session: RepairSession, results: ResultComparison) -> RepairSession:
        """The session with a plan of what was found, where the real one is unknown."""
        if session.is_plan_known:
            return session
        # The report needs a plan; the unknown number of trials keeps the run from counting as complete.
        pairs = sorted({*self.scorers, *results.scorers})
        names = {pair: self.scorers.get(pair, set()) | results.scorers.get(pair, set()) for pair in pairs}
        plan = [PlanEntry(*pair, 0, sorted(names[pair])) for pair in pairs]
        return replace(session, contents=replace(session.contents, plan=plan))

    def _record(self, session: RunSession, results: ResultComparison) -> None:
        """Records the results that the journal has not, and ends the session."""
        try:
            # Before the trials that were made with them.
            for choice in self.choices:
                session.sink.append(choice.as_note())
                self.changes.append(f"A choice was recorded as result files have it: {choice.text()}.")
            # Queued many at a time, so that few frames have to be synced.
            records = results.records()
            while batch := list(islice(records, _RECORDS_AT_A_TIME)):
                for record in batch:
                    session.sink.append(record)
            for note in self._usage_notes(session, results):
                session.sink.append(note)
            session.close("repaired", 0 if self._is_ok(results) else 1)
        finally:
            session.abandon()
        self.session = session.number
        if results.new:
            self.changes.append(f"{results.new} results were recorded, in session {session.number}.")

    def _usage_notes(self, session: RunSession, results: ResultComparison) -> Iterator[NoteRecord]:
        """Of which models not all tokens are known: files do not say what judges took, nor what nobody knew."""
        judges = _judges(session.record, results.scorers)
        for model in sorted((results.unmetered | judges) - session.reader.unmetered_models()):
            text = f"{model}: the result files do not say how many tokens it took."
            yield NoteRecord(kind=REPLY_NOTE, text=text, data={"model": model, "about": UNKNOWN_USAGE})

    def _is_ok(self, results: ResultComparison) -> bool:
        return not (results.faults or results.conflicts or self.missing or self.unrepaired)

    def _report(self, results: ResultComparison) -> RepairReport:
        added = results.new_kept if self.session else 0
        if not self.session:
            self.tally.added.clear()
        return RepairReport(
            run=str(self.layout.root),
            ok=self._is_ok(results),
            session=self.session,
            files=results.files,
            sound=results.sound,
            before=self.before,
            after=self.before + added,
            difference=added,
            groups=self.tally.groups(),
            changes=self.changes,
            backup=self.backup.name,
            faults=results.faults,
            conflicts=results.conflicts,
            missing=self.missing,
            unrepaired=self.unrepaired,
            notes=self.notes,
        )


def _judges(session: SessionRecord, scorers: Mapping[tuple[str, str], set[str]]) -> set[str]:
    """The models that may have scored results: by their scorers in the configuration or, of code, all that are left."""
    models, tasks = session.config.get("models"), session.config.get("tasks")
    known = {str(name) for name in models} if isinstance(models, dict) else set[str]()
    found: set[str] = set()
    # The slot of a judge names it.
    found |= {base_name(slot).partition("/")[2] for slots in scorers.values() for slot in slots} & known
    for task in {task for task, _ in scorers}:
        entry = tasks.get(task) if isinstance(tasks, dict) else None
        given = entry.get("scorers") if isinstance(entry, dict) else None
        found |= _texts(given) & known if given else known - {one.model for one in session.plan}
    return found


def _texts(value: object) -> set[str]:
    """Every text in a configuration."""
    if isinstance(value, dict):
        return {text for one in value.values() for text in _texts(one)}
    if isinstance(value, list | tuple):
        return {text for one in value for text in _texts(one)}
    return {value} if isinstance(value, str) else set()
