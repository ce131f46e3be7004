"""The plan of a resume: the comparison of the run with what is offered now, and the inputs to use.

Datasets are looked up where the eval says they are; a file whose bytes have not changed is not read further. Where the
file has changed, its samples are compared by key with those that the run has asked about. Where it is missing, the
run's own copy is used. Nothing in the run is written here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.digests import file_digest
from holdfast.engine.opening.resumed_inputs import ResumedInputs, SampleSelection, select_samples
from holdfast.engine.opening.second_load import unsteady_values
from holdfast.engine.planning.earlier_runs import comparable_code, with_present_names
from holdfast.engine.planning.inputs import FreshInputs, SavedInputs, input_name
from holdfast.engine.planning.prepared_eval import other_models, task_of_entry
from holdfast.engine.planning.saved_eval import last_session, saved_eval
from holdfast.engine.planning.source_copies import copy_of
from holdfast.errors import ConfigurationError, ResumeAborted
from holdfast.run.core.config_file import check_config
from holdfast.run.core.records import TaskCode
from holdfast.run.drift.code_changes import recorded_code
from holdfast.run.drift.code_notes import CodeNotes
from holdfast.run.drift.gate import (
    Decision,
    Samples,
    Snapshot,
    UnsteadyNames,
    decide,
    refused_difference,
    resume_refused,
)
from holdfast.run.drift.rerun_command import rerun_command
from holdfast.run.drift.task_size import merge_task_sizes
from holdfast.run.fold.reader import RunReader
from holdfast.spec import DatasetSpec, Drift, EvalSpec
from holdfast.spec.compare import Difference, DriftVerdict, merge_evals
from holdfast.spec.edited_values import edited_values
from holdfast.spec.loading.error_messages import key_path
from holdfast.storage.leases.local import refuse_held
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.solver import Generate
from holdfast.tasks.source.origin import is_local
from holdfast.tasks.task import Task


def raw_digest(path: Path) -> str:
    """The digest of a file as it is; empty if it cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""


def _is_cost_limited(task: Task) -> bool:
    """Whether a price decides how a trial of the task ends."""
    in_trial = task.limits is not None and task.limits.cost is not None
    return in_trial or (isinstance(task.solver, Generate) and task.solver.has_cost_cap)


class ResumePlan:
    """What the gate has accepted: the eval, the inputs and the tasks of the next session."""

    def __init__(
        self,
        decision: Decision,
        tasks: Mapping[str, Task],
        inputs: ResumedInputs,
        note: str,
        unsteady: UnsteadyNames | None = None,
    ) -> None:
        self.decision, self.tasks, self.inputs, self.note = decision, tasks, inputs, note
        self.unsteady = unsteady or {}


class ResumeComparison:
    """Compares a run with what is offered."""

    def __init__(self, reader: RunReader, offered: EvalSpec | None, given: Mapping[str, Task] | None) -> None:
        self._reader, self._given = reader, given or {}
        self._session = reader.sessions[-1]
        self._saved = saved_eval(self._session)
        self._offered = offered or self._saved
        saved = SavedInputs(reader.layout, self._session.inputs, loads_code=True)
        self._inputs = ResumedInputs(saved, FreshInputs())
        self._tasks: dict[str, Task] = {}
        self._code = recorded_code(reader.sessions)
        self._unsteady: UnsteadyNames = {}

    def plan(self) -> ResumePlan:
        """What the next session would use.

        Raises:
            ResumeAborted: the run cannot be resumed with what is offered; nothing was written.
        """
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            note = check_config(self._reader.layout.config, self._reader.sessions, same_values, edited_places)
            self._check_serving()
            decision = self.compare()
            if decision.refused:
                rerun = rerun_command(self._reader.sessions[0], self._reader.place)
                raise resume_refused(decision, str(self._reader.layout.root), rerun)
            undo.pop_all()
        return ResumePlan(decision, self._tasks, self._inputs, note, self._unsteady)

    def close(self) -> None:
        """Frees what was read for the comparison."""
        self._inputs.close()

    def compare(self) -> Decision:
        """Every difference, with its verdict.

        Raises:
            ConfigurationError: a task or a dataset of the eval cannot be loaded here.
        """
        joined = merge_evals(self._saved, self._offered)
        try:
            return self._decide(joined.spec)
        except ConfigurationError:
            if not any(item.verdict is DriftVerdict.REFUSED for item in joined.differences):
                raise
            # A refused change may refer to things that do not exist here.
            return Decision(joined.spec, joined.differences)

    def _check_serving(self) -> None:
        path = self._reader.layout.root / "serving.yaml"
        found = raw_digest(path) if path.exists() else ""
        if found != self._session.serving:
            state = (
                "is missing" if not found else "did not exist before" if not self._session.serving else "has changed"
            )
            raise ResumeAborted(
                f"Resume aborted: {path} {state}; it is compared byte for byte.", hint="Restore the file."
            )

    def _decide(self, spec: EvalSpec) -> Decision:
        made = {
            name: task_of_entry(name, spec.tasks[name], spec, self._inputs, self._given.get(name))
            for name in spec.tasks
        }
        offered = {name: comparable_code(task, self._code.get(name)) for name, task in made.items()}
        self._tasks = {name: self._widened(name, task, offered[name]) for name, task in made.items()}
        spec = self._without_reductions(spec)
        before, after, kept = self._compare_rows(spec)
        saved = Snapshot(self._saved, self._code, before)
        files = {name: self._changed_files(name, task, spec) for name, task in made.items() if name in self._code}
        self._unsteady = unsteady_values(self._reader, self._code, offered, spec, self._given)
        now = Snapshot(
            self._offered,
            offered,
            after,
            files,
            {name: dict(task.taken.places) for name, task in made.items()},
            {name: task.taken.mutated for name, task in made.items()},
            self._unsteady,
        )
        decision = decide(saved, now)
        kept += list(_code_kept(spec, self._inputs.saved.copies_used))
        notes = CodeNotes(self._session, self._code, now).lines()
        decision = Decision(spec, self._with_cost_limits(spec, decision.differences) + kept, notes)
        if not decision.refused:
            self._check_growth(decision)
        return decision

    def _with_cost_limits(self, spec: EvalSpec, differences: list[Difference]) -> list[Difference]:
        """The differences, where a price that decides how a trial ends is part of what is asked."""
        limited = {name: task for name, task in self._tasks.items() if _is_cost_limited(task)}
        under_test = {model for name in limited for model in spec.tasks[name].models or spec.models}
        models = under_test.union(*map(other_models, limited.values()))
        prices = tuple(key_path(key_path("models", model), "price") for model in models)
        return [
            refused_difference(item.path, Drift.IDENTITY, item.old, item.new) if item.path.startswith(prices) else item
            for item in differences
        ]

    def _changed_files(self, name: str, task: Task, spec: EvalSpec) -> list[str]:
        """The files behind a task that differ from the copies in the run."""
        paths = {path for path in task.taken.files if is_local(str(path))}
        copies = {path: copy_of(self._session.inputs, name, path, spec) for path in paths}
        changed = {path.name for path, copy in copies.items() if copy is None or copy.digest != file_digest(path)}
        return sorted(changed)

    def _widened(self, name: str, task: Task, code: TaskCode) -> Task:
        """A task in Python with everything that the run asked of it before."""
        if name not in self._code or not self._saved.tasks[name].use:
            return task
        wide = merge_task_sizes(self._code[name], code)
        return dataclasses.replace(task, epochs=wide.epochs, limit=wide.limit, axes=wide.axes)

    def _without_reductions(self, spec: EvalSpec) -> EvalSpec:
        """The eval without the numbers that would make a task in Python ask for less than before."""
        tasks = dict(spec.tasks)
        for name, entry in self._saved.tasks.items():
            task, now = self._tasks[name], spec.tasks[name]
            if entry.use and now.epochs is not None and now.epochs != task.epochs:
                now = msgspec.structs.replace(now, epochs=entry.epochs)
            if entry.use and now.limit is not None and now.limit != task.limit:
                now = msgspec.structs.replace(now, limit=entry.limit)
            tasks[name] = now
        return msgspec.structs.replace(spec, tasks=tasks)

    def _compare_rows(self, spec: EvalSpec) -> tuple[dict[str, Samples], dict[str, Samples], list[Difference]]:
        """The samples of the tasks whose datasets have changed, and the differences of datasets that are gone."""
        before: dict[str, Samples] = {}
        after: dict[str, Samples] = {}
        kept: list[Difference] = []
        for source, names in self._tasks_by_input(spec).items():
            state = self._input_state(source, self._tasks[names[0]])
            if state == "gone":
                path = self._tasks[names[0]].dataset
                there = Path(path.path).name if isinstance(path, DatasetSpec) else "given"
                kept += [_dataset_kept(name, there, "no longer exists") for name in names]
            elif state == "changed":
                selections = {name: self._selection(name, spec) for name in names}
                offered = self._inputs.fresh.rows(source, self._tasks[names[0]])
                self._inputs.choose(source, list(selections.values()))
                for name, selection in selections.items():
                    saved = self._inputs.saved.rows(source, selection.task)
                    before[name] = selection.samples_before(saved)
                    after[name] = selection.samples_offered(self._inputs.rows(source, selection.task), offered)
                    kept += _displaced(name, selection, before[name], offered)
        return before, after, kept

    def _tasks_by_input(self, spec: EvalSpec) -> dict[str, list[str]]:
        """The tasks that the run has, by the input that their rows come from."""
        found: dict[str, list[str]] = {}
        for name in self._saved.tasks:
            found.setdefault(input_name(name, spec.tasks[name]), []).append(name)
        return found

    def _selection(self, name: str, spec: EvalSpec) -> SampleSelection:
        entry, code = self._saved.tasks[name], self._code.get(name)
        own = code.limit if code and entry.use else None
        limit = own if entry.limit is None else entry.limit
        return SampleSelection(self._tasks[name], entry, limit, spec.tasks[name])

    def _input_state(self, source: str, task: Task) -> str:
        """How the rows of an input compare with those in the run: "same", "changed" or "gone"."""
        saved = self._session.inputs[source]
        if isinstance(task.dataset, DatasetSpec):
            raw = raw_digest(Path(task.dataset.path))
            if not raw or raw == saved.raw:
                return "same" if raw else "gone"
        rows = self._inputs.fresh.rows(source, task)
        return "same" if rows.digest == saved.digest else "changed"

    def _check_growth(self, decision: Decision) -> None:
        """Checks that the samples can be asked and scored by whatever has been added."""
        grown = [item.path for item in decision.differences if item.verdict is DriftVerdict.GROWN]
        for name, task in self._tasks.items():
            place = key_path("tasks", name)
            if any(path == place or path.startswith(f"{place}.") for path in grown):
                entry = decision.spec.tasks[name]
                rows = self._inputs.rows(input_name(name, entry), task)
                task.check(select_samples(task, rows, entry.limit, entry.sample_ids))


def _code_kept(spec: EvalSpec, copies_used: Mapping[str, set[str]]) -> Iterator[Difference]:
    """The differences of files that are gone, whose copies in the run are used."""
    for task, names in copies_used.items():
        field = "use" if spec.tasks[task].use else "solver" if spec.tasks[task].solver else "scorers"
        for name in sorted(names):
            yield Difference(f"tasks.{task}.{field}", Drift.LOCATION, name, "no longer exists", DriftVerdict.KEPT)


def _dataset_kept(task: str, old: str, new: str) -> Difference:
    return Difference(f"tasks.{task}.dataset", Drift.ADDITIVE, old, new, DriftVerdict.KEPT)


def _displaced(task: str, selection: SampleSelection, before: Samples, offered: Rows) -> list[Difference]:
    """The difference where other samples would be chosen now, though those that were asked about still exist."""
    chosen = selection.keys_now(offered)
    others = [key for key in before.asked if key not in chosen]
    if not chosen or not others or len(chosen) < len(before.asked):
        return []
    return [_dataset_kept(task, f"{len(before.asked)} samples", "other samples would be chosen")]


def same_values(data: Any, config: dict[str, Any]) -> bool:
    """Whether a configuration file, however it is written, says the same as a session's configuration."""
    return not edited_places(data, config)


def edited_places(data: Any, config: dict[str, Any]) -> list[str]:
    """Where a configuration file says something else than a session's configuration."""
    return edited_values(with_present_names(data), with_present_names(config))


def plan_resume(
    reader: RunReader, offered: EvalSpec | None = None, tasks: Mapping[str, Task] | None = None
) -> ResumePlan:
    """The plan of a resume, while another session may be working on the run; writes nothing into the run.

    Between two reads the other session may have recorded a change and rewritten `config.yaml`. What looks like
    tampering is then only news: the run is compared again, or reported as held.

    Raises:
        NotARun: no session record is left.
        ResumeAborted: the run cannot be resumed with what is offered.
        RunHeld: another session is using it, and its work cannot be distinguished from a change.
    """
    last_session(reader)
    while True:
        count = len(reader.sessions)
        try:
            return ResumeComparison(reader, offered, tasks).plan()
        except ResumeAborted:
            refuse_held(reader.fs, reader.layout.root)
            reader.refresh()
            if len(reader.sessions) == count:
                raise
