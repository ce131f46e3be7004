"""Resuming a run: the next session, through the gate.

A run is compared twice: before its lease is taken, by the caller, so that a refusal leaves no trace; and under it,
here, because another session may have changed the run meanwhile. No record is written before that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from holdfast.digests import file_digest
from holdfast.engine.dependencies.waves import count_undecided, recall_choices
from holdfast.engine.opening.comparing.growth import Growth, measure_growth
from holdfast.engine.opening.comparing.offer import Offer
from holdfast.engine.opening.earlier_targets import find_scores_that_hold
from holdfast.engine.opening.held_addresses import HeldAddresses
from holdfast.engine.opening.new_run import StartedSession, mark_of_plan, plan_entries, planned_contents, raw_digests
from holdfast.engine.opening.next_code import next_code, with_trees
from holdfast.engine.opening.restored_inputs import InputRestorer
from holdfast.engine.opening.resume_plan import ResumeComparison, ResumePlan
from holdfast.engine.planning.model_families import family_warning, new_family_note
from holdfast.engine.planning.prepared_eval import PreparedEval, copied_source_files, prepare_eval
from holdfast.engine.planning.saved_eval import last_session, saved_eval
from holdfast.engine.planning.selection import (
    EVERYTHING,
    SelectionRequest,
    TrialSelection,
    all_trials,
    select_trials,
)
from holdfast.engine.planning.versioned_slots import name_slots
from holdfast.engine.trials.stages.agent_starts import tasks_starting_agents
from holdfast.engine.trials.stages.stage_selection import select_from, stop_after
from holdfast.errors import ResumeAborted
from holdfast.journal import SegmentPin
from holdfast.run import open_session, session_record
from holdfast.run.core.config_file import write_config
from holdfast.run.core.inputs import SourceFile, copy_inputs
from holdfast.run.core.keys.key_refusals import refuse_keys, refuse_keys_in_rows
from holdfast.run.core.records import REDO_NOTE, Input, NoteRecord, SessionRecord
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.states import StateCounts
from holdfast.run.session.session import RunSession
from holdfast.run.session.writer_options import DEFAULT_WRITER, WriterOptions
from holdfast.spec import plain_data
from holdfast.tasks.task import Task

ALL_TRIALS = SelectionRequest()


def resume_run(
    root: Path,
    *,
    offer: Offer | None = None,
    tasks: Mapping[str, Task] | None = None,
    selection: SelectionRequest = ALL_TRIALS,
    at_least: int = 1,
    writer: WriterOptions = DEFAULT_WRITER,
) -> StartedSession:
    """Opens a run for its next session, through the gate; without an offer everything comes from the run.

    The caller has made sure that the gate accepts the offer (`plan_unless_complete`): only what has changed in the run
    since then is refused here.

    Raises:
        NotARun: there is no run at `root`.
        RunHeld: another session is using it.
        ResumeAborted: it cannot be resumed with what is offered; no record was written.
        ConfigurationError: something that a task or a model needs is missing here; no record was written.
        UsageError: the selection is not valid, or matches no trial; no record was written.
        SelectionFinished: all that is selected is finished; no record was written.
    """
    with contextlib.closing(_Resumption(offer, tasks, selection)) as resumption:
        session = open_session(root, resumption.make_record, at_least=at_least, writer=writer)
        started = resumption.started(session)
    session.held.recovered.unlink(missing_ok=True)
    if started.note or session.record.changes or _has_new_config(session.reader):
        try:
            write_config(session.reader.fs, session.held.config, session.reader.sessions)
        except OSError as error:
            # The file is derived: a failure to write it costs nothing, and the next session writes it.
            session.derived.note(session.layout.config.name, error)
    return started


def _has_new_config(reader: RunReader) -> bool:
    """Whether the newest session wrote its configuration in another way, as with fields of other names."""
    configs = [session.config for session in reader.sessions[-2:]]
    return configs[0] != configs[-1]


def _check_weights(plan: ResumePlan, prepared: PreparedEval) -> None:
    """Raises ResumeAborted where weights were replaced since they were compared; the providers are open by now."""
    for name, digest in plan.weights.items():
        if prepared.weights.get(name) != digest:
            raise ResumeAborted(f"Resume aborted: the weights of {name} were replaced while the run was being opened.")


def _selected(request: SelectionRequest, reader: RunReader, prepared: PreparedEval) -> TrialSelection:
    """The trials of the next session."""
    plan = plan_entries(prepared)
    selection = (select_from if request.start_from else select_trials)(request, reader, prepared, plan)
    if not request.until:
        return selection
    return stop_after(request.until, selection, reader.fold.with_plan(plan), prepared, f"{request.option_prefix}until")


class SelectionFinished(Exception):  # noqa: N818 - no error: there is nothing to be done
    """Nothing of what was selected is left to be done."""

    def __init__(self, counts: StateCounts, selection: TrialSelection) -> None:
        super().__init__("all selected trials are finished")
        self.counts, self.selection = counts, selection


class _Resumption:
    """The next session of a run: its record, made under the lease, and what it will do."""

    def __init__(self, offer: Offer | None, tasks: Mapping[str, Task] | None, selection: SelectionRequest) -> None:
        self._offer, self._tasks, self._request = offer, tasks, selection
        self._selection = EVERYTHING
        self._plan: ResumePlan | None = None
        self._prepared: PreparedEval | None = None
        self._growth: Growth | None = None
        self._known: Mapping[str, Input] = {}
        self._held: HeldAddresses | None = None

    def make_record(self, reader: RunReader, number: int, pins: list[SegmentPin]) -> SessionRecord:
        last = last_session(reader)
        # Once more under the lease: another session may have changed the run since it was compared.
        plan = ResumeComparison(reader, self._offer, self._tasks).plan()
        self._plan = plan
        prepared = self._prepared = prepare_eval(plan.decision.spec, plan.inputs, plan.tasks)
        recall_choices(prepared, reader)
        code = next_code(reader, plan, prepared)
        whole = with_trees(code, reader.sessions)
        name_slots(prepared, reader.sessions, whole, plan.weights, plan.decision)
        find_scores_that_hold(prepared, reader, whole, plan.weights)
        request = replace(self._request, offered=plan.offered)
        self._selection = _selected(request, reader, prepared)
        if self._has_nothing_to_do(reader, prepared) and not plan.decision.changes:
            raise SelectionFinished(reader.fold.counts, self._selection)
        prepared.open_providers()
        if not request.rescoring:
            prepared.check_programs(tasks_starting_agents(self._selection, reader, prepared, plan_entries(prepared)))
        self._growth = measure_growth(last.plan, prepared, reader)
        self._known = last.inputs
        _check_weights(plan, prepared)
        refuse_keys(plain_data(plan.decision.spec), last.config)
        held = self._held = HeldAddresses(plan.decision, saved_eval(last), reader)
        contents = replace(
            planned_contents(plan.decision.spec.name or last.name, held.config(), prepared, code),
            inputs={**last.inputs, **self._copy_inputs(reader, plan, prepared)},
            source=last.source,
            serving=last.serving,
            lost=[*reader.never_uploaded(), *reader.lost_by_kill()],
            changes=held.changes(),
            mark=mark_of_plan(prepared, self._to_run(reader, prepared)),
            unsaved=held.unsaved(),
        )
        return session_record(reader.run.hex(), number, pins, contents)

    def _to_run(self, reader: RunReader, prepared: PreparedEval) -> int:
        """How many trials the session runs, at the least; the mark is raised where more calls are made at once."""
        selection = self._selection
        if selection.remaining is not None:
            return len(selection.remaining) + len(selection.redo)
        return reader.fold.with_plan(plan_entries(prepared)).counts.to_run + len(selection.redo)

    def _has_nothing_to_do(self, reader: RunReader, prepared: PreparedEval) -> bool:
        """Whether all that is selected is finished, or has passed the stage after which it is to be left."""
        selection = self._selection
        if selection.is_finished or not selection.until or selection.start_from:
            return selection.is_finished
        if selection.remaining is not None:
            return not any(selection.takes(planned) for planned in all_trials(prepared))
        fold = reader.fold.with_plan(plan_entries(prepared))
        left = fold.counts.to_run - count_undecided(prepared, fold)
        return not len(selection.redo) and not selection.skipped_tasks and left == len(selection.passed)

    def _copy_inputs(self, reader: RunReader, plan: ResumePlan, prepared: PreparedEval) -> dict[str, Input]:
        """Copies the rows that are new, and the files of tasks that are new or not as they were."""
        raw, known = raw_digests(prepared), last_session(reader).inputs
        sources = {
            name: path
            for name, path in copied_source_files(prepared).items()
            if name not in known or known[name].digest != file_digest(path)
        }
        for name, path in plan.inputs.files.items():
            saved = reader.inputs.path(known[name].digest) if name in known else None
            refuse_keys_in_rows(name.partition("/")[2], path, saved)
        files = {**plan.inputs.files, **sources}
        return copy_inputs(reader.inputs, {name: SourceFile(path, raw.get(name, "")) for name, path in files.items()})

    def _redo_text(self) -> str:
        """The option by which finished trials were selected to be attempted once more."""
        request = self._request
        return (
            f"--from {request.start_from} --where {request.where}" if request.start_from else f"--redo {request.redo}"
        )

    def close(self) -> None:
        """Frees what was read to make the record."""
        if self._plan is not None:
            self._plan.inputs.close()

    def started(self, session: RunSession) -> StartedSession:
        if self._plan is None or self._prepared is None:
            raise RuntimeError("the session was opened without its record being made")
        self._plan.inputs.keep_cache(session.layout)
        plan = self._plan
        restorer = InputRestorer(session.reader, plan.inputs, plan.decision.spec, plan.tasks)
        notes = list(restorer.restore(self._known, session.lease.check))
        related = new_family_note(session.reader, family_warning(self._prepared.tasks, self._prepared.spec.models))
        if related is not None:
            session.sink.put(related)
        if redone_by := self._selection.redone_by:
            session.sink.put(NoteRecord(kind=REDO_NOTE, text=self._redo_text(), data={"by": redone_by}))
        return StartedSession(
            session,
            self._prepared,
            self._plan.decision,
            self._plan.note,
            warnings=[*session.lease.notes, *self._prepared.warnings, *([related.text] if related else [])],
            selection=self._selection,
            growth=self._growth,
            notes=notes,
            held=self._held,
        )
