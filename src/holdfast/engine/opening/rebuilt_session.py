"""Making a session again from a configuration alone, when the journal's records of it are lost.

The datasets come from the run's own copies: those that hold what is at the dataset's path now, or, if that is another
thing or gone, those that hold every sample the run has results of. Only where the run has no such copy is the dataset
taken in anew. What cannot be found is named, and the plan is then not known.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.engine.opening.planned_grid import Grid, planned_grid, wrong_key
from holdfast.engine.opening.resume_plan import same_values
from holdfast.engine.opening.start import input_files, planned_contents
from holdfast.engine.planning.earlier_runs import with_present_names
from holdfast.engine.planning.prepared_eval import FreshInputs, Prepared, input_name, prepare
from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.run.core.inputs import SourceFile
from holdfast.run.core.layout import Layout
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import UNKNOWN_DIGEST, Input, PlanEntry, TrialRecord
from holdfast.run.core.session_contents import SessionContents
from holdfast.run.repair.repair_session import RebuiltSession
from holdfast.run.repair.result_comparison import RejectionReason, not_planned, samples_of
from holdfast.spec import resolve, typed_eval
from holdfast.tasks import Rows, Task

_NOT_FOUND = Input(UNKNOWN_DIGEST, 0, copied=False)


class FoundInputs:
    """Rows from the run's copies, found without a record of which is which."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._fresh = FreshInputs()
        self._rows: dict[str, Rows] = {}
        self.files: dict[str, Path] = {}
        self.proven: set[str] = set()
        """The inputs whose copies are what stands at the dataset's path now."""

    def is_new(self, name: str) -> bool:  # noqa: ARG002 - whatever is found was asked about before
        return False

    def rows(self, name: str, task: Task) -> Rows:
        if name not in self._rows:
            path = self._find(name, task)
            self.files[name] = path
            self._rows[name] = Rows.open(path, source=task.name)
        return self._rows[name]

    def _find(self, name: str, task: Task) -> Path:
        problem: HoldfastError | None = None
        fresh = ""
        try:
            fresh = self._fresh.rows(name, task).digest
        except HoldfastError as error:
            problem = error
        if fresh and (self._layout.inputs / fresh).is_file():
            self.proven.add(name)
            return self._layout.inputs / fresh
        if copy := self._fitting(task):
            return copy
        if problem is not None:
            raise ConfigurationError(f"The rows of the task {task.name!r} are not in the run, and {problem}")
        self.proven.add(name)
        return self._fresh.files[name]

    def _fitting(self, task: Task) -> Path | None:
        """The largest copy that holds every sample that the task has results of."""
        if not self._layout.inputs.is_dir() or not (samples := self._samples.get(task.name)):
            return None
        fitting = [path for path in self._layout.inputs.iterdir() if _holds(path, task, samples)]
        return max(fitting, key=lambda path: path.stat().st_size, default=None)

    @cached_property
    def _samples(self) -> dict[str, set[str]]:
        return samples_of(self._layout)

    def close(self) -> None:
        self._fresh.close()


def _holds(path: Path, task: Task, samples: set[str]) -> bool:
    try:
        with Rows.open(path, digest=path.name) as rows:
            return samples <= set(task.bind(rows).keys())
    except (HoldfastError, OSError):
        return False


class EvalPlanner:
    """What a repair asks about evals."""

    def __init__(self) -> None:
        self._found: list[FoundInputs] = []

    def same(self, data: Any, config: dict[str, Any]) -> bool:
        return same_values(data, config)

    def grid(self, reader: RunReader) -> tuple[RejectionReason, str]:
        try:
            return planned_grid(reader).why_not, ""
        except HoldfastError as error:
            return wrong_key, str(error)

    def rebuild(self, config: dict[str, Any], layout: Layout) -> RebuiltSession:
        found = FoundInputs(layout)
        self._found.append(found)
        contents = SessionContents(name=str(config.get("name", layout.root.name)), config=config)
        try:
            spec = resolve(typed_eval(with_present_names(config), "config.yaml"), "config.yaml")
            not_found = {input_name(name, entry): _NOT_FOUND for name, entry in spec.tasks.items()}
            contents = replace(contents, inputs=not_found)
            prepared = prepare(spec, found)
        except HoldfastError as error:
            return RebuiltSession(contents, {}, _key_or_plan([]), [f"The plan: {error}"])
        contents = planned_contents(contents.name, config, prepared)
        grid, by_plan = Grid(prepared), _key_or_plan(contents.plan)
        inputs = _input_files(prepared, found)
        return RebuiltSession(contents, inputs, lambda trial: grid.why_not(trial) or by_plan(trial), [])

    def close(self) -> None:
        for found in self._found:
            found.close()


def _key_or_plan(plan: list[PlanEntry]) -> RejectionReason:
    planned = {(entry.task, entry.model): set(entry.scorers) for entry in plan}

    def why_not(trial: TrialRecord) -> str:
        return wrong_key(trial) or not_planned(planned, trial)

    return why_not


def _input_files(prepared: Prepared, found: FoundInputs) -> dict[str, SourceFile]:
    files = input_files(prepared, found.files)
    # Of a copy that is not what stands at the dataset's path now, the next resume must not believe that it is.
    return {
        name: SourceFile(file.path) if name in found.files and name not in found.proven else file
        for name, file in files.items()
    }
