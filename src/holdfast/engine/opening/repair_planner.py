"""A session rebuilt from a configuration alone, when the journal's records of it are lost.

The datasets come from the run's own copies: the one with the content that is at the dataset's path now or, if that
has changed or is gone, one that holds every sample the run has results of. Only where the run has no such copy is the
dataset read from its path. What cannot be found is named, and the plan is then unknown.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.engine.opening.new_run import input_files, planned_contents
from holdfast.engine.opening.planned_grid import PlannedGrid, grid_of_run, tasks_without_code, wrong_key
from holdfast.engine.opening.restored_inputs import InputRestorer
from holdfast.engine.opening.resume_plan import same_values
from holdfast.engine.opening.resumed_inputs import ResumedInputs
from holdfast.engine.planning.earlier_runs import with_present_names
from holdfast.engine.planning.inputs import FreshInputs, SavedInputs, WriteRows, input_name
from holdfast.engine.planning.prepared_eval import PreparedEval, prepare_eval
from holdfast.engine.planning.saved_eval import saved_eval
from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.run.core.inputs import SourceFile
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import UNKNOWN_DIGEST, Input, PlanEntry, TrialRecord
from holdfast.run.core.session_contents import SessionContents
from holdfast.run.fold.reader import RunReader
from holdfast.run.repair.recording_session import DamagedCopy, RebuiltSession
from holdfast.run.repair.result_file_comparison import RejectionReason, not_planned, samples_of
from holdfast.spec import EvalSpec, resolve, typed_eval
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.task import Task

if TYPE_CHECKING:
    from holdfast.tasks.workspaces.workspace_template import PackedTemplate, WorkspaceTemplate

_NOT_FOUND = Input(UNKNOWN_DIGEST, 0, copied=False)


class MatchedInputs:
    """Rows from the run's copies, matched to tasks by their content, without a record of which is which."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._fresh = FreshInputs()
        self._rows: dict[str, Rows] = {}
        self.files: dict[str, Path] = {}
        self.proven: set[str] = set()
        """The inputs whose copies have the content that is where the eval says they are now."""

    def is_new(self, name: str) -> bool:  # noqa: ARG002 - whatever is found was asked about before
        return False

    def code_copy(self, task: str, name: str) -> None:
        """Without a record of the inputs, no copy is known to be that of a file."""

    def other_rows(self, name: str, task: str, write: WriteRows) -> Rows:
        rows = self._fresh.other_rows(name, task, write)
        self.files[name] = self._fresh.files[name]
        return rows

    def template(self, name: str, template: WorkspaceTemplate) -> PackedTemplate:
        problem, packed = None, None
        try:
            packed = self._fresh.template(name, template)
        except HoldfastError as error:
            problem = error
        if (copy := self._template_copy(template, packed)) is not None:
            self.proven.add(name)
            self.files[name] = self._layout.inputs / copy.digest
            return copy
        if packed is None:
            raise ConfigurationError(f"The files of {name!r} are not in the run, and {problem}")
        self.files[name] = self._fresh.files[name]
        return packed

    def _template_copy(self, template: WorkspaceTemplate, packed: PackedTemplate | None) -> PackedTemplate | None:
        """The copy with the present content or, if that has changed or is gone, the only one of its kind."""
        from holdfast.tasks.workspaces.workspace_template import packed_copies  # noqa: PLC0415 - few tasks

        copies = packed_copies(self._layout.inputs)
        same = [copy for copy in copies if packed is not None and copy.identity == packed.identity]
        alike = [copy for copy, has_base in copies.items() if has_base is bool(template.path or template.repo)]
        return same[0] if same else alike[0] if len(alike) == 1 else None

    def list_of_trials(self) -> None:
        """Without a record of the inputs, it is not known which of the copies it was."""

    def rows(self, name: str, task: Task) -> Rows:
        if name not in self._rows:
            path = self._matching_file(name, task)
            self.files[name] = path
            self._rows[name] = Rows.open(path, source=task.name)
        return self._rows[name]

    def _matching_file(self, name: str, task: Task) -> Path:
        problem: HoldfastError | None = None
        fresh = ""
        try:
            fresh = self._fresh.rows(name, task).digest
        except HoldfastError as error:
            problem = error
        if fresh and (self._layout.inputs / fresh).is_file():
            self.proven.add(name)
            return self._layout.inputs / fresh
        if copy := self._copy_with_samples(task):
            return copy
        if problem is not None:
            raise ConfigurationError(f"The rows of the task {task.name!r} are not in the run, and {problem}")
        self.proven.add(name)
        return self._fresh.files[name]

    def _copy_with_samples(self, task: Task) -> Path | None:
        """The largest copy that holds every sample that the task has results of."""
        if not self._layout.inputs.is_dir() or not (samples := self._samples.get(task.name)):
            return None
        fitting = [path for path in self._layout.inputs.iterdir() if _has_samples(path, task, samples)]
        return max(fitting, key=lambda path: path.stat().st_size, default=None)

    @cached_property
    def _samples(self) -> dict[str, set[str]]:
        return samples_of(self._layout)

    def close(self) -> None:
        self._fresh.close()


def _has_samples(path: Path, task: Task, samples: set[str]) -> bool:
    try:
        with Rows.open(path, digest=path.name) as rows:
            return samples <= set(task.bind(rows).keys())
    except (HoldfastError, OSError):
        return False


class RepairPlanner:
    """Answers what a repair asks about evals."""

    def __init__(self) -> None:
        self._matched: list[MatchedInputs] = []
        self._resumed: list[ResumedInputs] = []

    def same(self, data: Any, config: dict[str, Any]) -> bool:
        return same_values(data, config)

    def grid(self, reader: RunReader) -> tuple[RejectionReason, str]:
        try:
            return grid_of_run(reader).why_not, ""
        except HoldfastError as error:
            return wrong_key, str(error)

    def damaged_copies(self, reader: RunReader) -> list[DamagedCopy]:
        session = reader.sessions[-1]
        inputs = ResumedInputs(SavedInputs(reader.layout, session.inputs), FreshInputs())
        self._resumed.append(inputs)
        try:
            spec = saved_eval(session)
        except HoldfastError:
            # What the copies are of is unknown; that they are damaged is not.
            spec = EvalSpec()
        restorer = InputRestorer(reader, inputs, spec, tasks_without_code(spec, inputs))
        return [
            DamagedCopy(name, damage, restorer.source(name, session.inputs[name]), restorer.knows_origin(name))
            for name, damage in restorer.damaged(session.inputs).items()
        ]

    def rebuild(self, config: dict[str, Any], layout: Layout) -> RebuiltSession:
        found = MatchedInputs(layout)
        self._matched.append(found)
        contents = SessionContents(name=str(config.get("name", layout.root.name)), config=config)
        try:
            spec = resolve(typed_eval(with_present_names(config), "config.yaml"), "config.yaml")
            not_found = {input_name(name, entry): _NOT_FOUND for name, entry in spec.tasks.items()}
            contents = replace(contents, inputs=not_found)
            prepared = prepare_eval(spec, found)
        except HoldfastError as error:
            return RebuiltSession(contents, {}, _mismatch([]), [f"The plan: {error}"])
        contents = planned_contents(contents.name, config, prepared)
        grid, mismatch = PlannedGrid(prepared), _mismatch(contents.plan)
        inputs = _input_files(prepared, found)
        return RebuiltSession(contents, inputs, lambda trial: grid.why_not(trial) or mismatch(trial), [])

    def close(self) -> None:
        for matched in self._matched:
            matched.close()
        for resumed in self._resumed:
            resumed.close()


def _mismatch(plan: list[PlanEntry]) -> RejectionReason:
    planned = {(entry.task, entry.model): set(entry.scorers) for entry in plan}

    def why_not(trial: TrialRecord) -> str:
        return wrong_key(trial) or not_planned(planned, trial)

    return why_not


def _input_files(prepared: PreparedEval, found: MatchedInputs) -> dict[str, SourceFile]:
    files = input_files(prepared, found.files)
    # A copy whose content is not at the dataset's path now gets no digest of that file: the next resume must compare.
    return {
        name: SourceFile(file.path) if name in found.files and name not in found.proven else file
        for name, file in files.items()
    }
