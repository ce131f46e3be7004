"""Starting a run: a new one from an eval, with its first session.

Nothing is written before everything that can be checked was checked.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.engine.events import Observer
from holdfast.engine.opening.comparing.growth import Growth
from holdfast.engine.opening.held_addresses import HeldAddresses
from holdfast.engine.planning.earlier_runs import new_salt
from holdfast.engine.planning.inputs import FreshInputs, axis_file_input, raw_digest, template_input
from holdfast.engine.planning.model_families import family_warning, new_family_note
from holdfast.engine.planning.plan import PlannedTask
from holdfast.engine.planning.prepared_eval import (
    PreparedEval,
    agent_warnings,
    check_agent_scorers,
    copied_source_files,
    prepare_eval,
)
from holdfast.engine.planning.selection import EVERYTHING, TrialSelection
from holdfast.engine.scheduling.admission_mark import first_mark
from holdfast.engine.scheduling.concurrency_limits import most_solved_at_once
from holdfast.engine.trials.reuse import ReusableReplies
from holdfast.engine.trials.stages.stage_selection import stop_new_after
from holdfast.errors import ConfigurationError
from holdfast.models.catalogue import IMPORTED
from holdfast.run import create_run
from holdfast.run.core.inputs import SourceFile
from holdfast.run.core.keys.key_refusals import refuse_keys, refuse_keys_in_rows
from holdfast.run.core.layout import RUNS
from holdfast.run.core.provenance import packages
from holdfast.run.core.records import PlanEntry, Record, TaskCode
from holdfast.run.core.session_contents import SessionContents
from holdfast.run.drift.gate import Decision
from holdfast.run.session.create import FillRun, fill_nothing, refuse_existing, refuse_unwritable
from holdfast.run.session.session import RunSession
from holdfast.run.session.writer_options import DEFAULT_WRITER, WriterOptions
from holdfast.spec import DatasetSpec, EvalSpec, plain_data
from holdfast.spec.loading.error_messages import key_path
from holdfast.tasks.judges.panels import binary_scorers, panels_of
from holdfast.tasks.task import Task
from holdfast.tasks.task_code import code_of

CheckPlan = Callable[[Sequence[PlanEntry]], None]
"""Raises UsageError for a plan that cannot give what is asked of the run; nothing is written then."""


def accept_plan(_plan: Sequence[PlanEntry]) -> None:
    """Accepts any plan."""


@dataclass(frozen=True)
class StartedSession:
    """A session that may start its work: what it will do, and why."""

    session: RunSession
    prepared: PreparedEval
    decision: Decision | None = None
    note: str = ""
    reuse: ReusableReplies | None = None
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    """What was put right about the run's files."""
    url: str = ""
    """Where the run is, if it is in an object store."""
    selection: TrialSelection = EVERYTHING
    """Which trials it runs."""
    observers: Sequence[Observer] = ()
    """Who gets the events."""
    growth: Growth | None = None
    """What has been added to the run since its last session."""
    held: HeldAddresses | None = None
    """New addresses of models, which are not saved yet."""

    @property
    def is_resumed(self) -> bool:
        """Whether the run had sessions before, and the gate has decided about this one."""
        return self.decision is not None

    @property
    def root(self) -> Path:
        return self.session.layout.root

    @property
    def place(self) -> str:
        """How a person names the run."""
        return self.url or str(self.root)

    def not_uploaded_text(self) -> str:
        """What is not in the store yet, and how to upload it, after the session; empty if nothing is missing."""
        return self.session.uploader.left_text() if self.session.uploader is not None else ""


def default_root(spec: EvalSpec, runs: Path = RUNS) -> Path:
    """A directory of its own for a new run, also beside others that start in the same second."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", spec.name).strip("-.")[:60] or "eval"
    return runs / f"{stamp}-{name}-{secrets.token_hex(3)}"


def start_run(
    spec: EvalSpec,
    root: Path | None = None,
    *,
    tasks: Mapping[str, Task] | None = None,
    source: str = "",
    writer: WriterOptions = DEFAULT_WRITER,
    check_plan: CheckPlan = accept_plan,
    until: str = "",
) -> StartedSession:
    """Makes a new run of a resolved eval, and opens its first session; `check_plan` may refuse its plan before that.

    `until` is the stage after which its trials are left for a later session.

    Raises:
        ConfigurationError: a task, dataset or model is wrong.
        UsageError: there is something at `root` already, or no task has the stage.
        StorageFailure: the run cannot be written.
    """
    root = root or default_root(spec)
    inputs = FreshInputs()
    try:
        prepared = check_new_run(spec, root, inputs, tasks, check_plan=check_plan)
        selection = stop_new_after(until, prepared) if until else EVERYTHING
        session = create_planned(root, prepared, inputs, source, writer=writer)
    finally:
        inputs.close()
    inputs.keep_cache(session.layout)
    if note := new_family_note(session.reader, family_warning(prepared.tasks, prepared.spec.models)):
        session.sink.put(note)
    return StartedSession(session, prepared, warnings=prepared.warnings, selection=selection)


def check_new_run(
    spec: EvalSpec,
    root: Path,
    inputs: FreshInputs,
    tasks: Mapping[str, Task] | None = None,
    check_plan: CheckPlan = accept_plan,
) -> PreparedEval:
    """Everything that is checked before a run is written at `root`.

    Raises:
        ConfigurationError: a task, dataset or model is wrong.
        UsageError: there is something at `root` already.
        StorageFailure: no run can be written there.
    """
    prepared = plan_new_run(spec, root, inputs, tasks, check_plan)
    prepared.open_providers()
    prepared.check_programs()
    return prepared


def plan_new_run(
    spec: EvalSpec,
    root: Path,
    inputs: FreshInputs,
    tasks: Mapping[str, Task] | None = None,
    check_plan: CheckPlan = accept_plan,
) -> PreparedEval:
    """All of that but for the models: whether their providers can be opened, and have their keys.

    Raises:
        ConfigurationError: a task or dataset is wrong, or holds a key of the environment.
        UsageError: there is something at `root` already.
        StorageFailure: no run can be written there.
    """
    refuse_existing(root.absolute())
    refuse_unwritable(root.absolute())
    prepared = prepare_eval(spec, inputs, tasks)
    refuse_keys(plain_data(prepared.spec))
    for name, path in inputs.files.items():
        refuse_keys_in_rows(name.partition("/")[2], path)
    check_plan(plan_entries(prepared))
    prepared.check_prices()
    _refuse_imported_models(prepared)
    check_agent_scorers(prepared)
    prepared.warnings += agent_warnings(prepared)
    prepared.warnings += filter(None, [family_warning(prepared.tasks, prepared.spec.models)])
    return prepared


def _refuse_imported_models(prepared: PreparedEval) -> None:
    """The configuration of an imported run is no eval file: its models are only names of replies on record."""
    for name in sorted(prepared.asked_models):
        if prepared.spec.models[name].provider == IMPORTED:
            raise ConfigurationError(
                f"{key_path('models', name)} is a model of an imported run, which cannot be asked.",
                hint="Give it a provider, such as openai, and give the task scorers of its own.",
            )


def create_planned(
    root: Path,
    prepared: PreparedEval,
    inputs: FreshInputs,
    source: str,
    *,
    preload: Iterable[Record] = (),
    fill: FillRun = fill_nothing,
    writer: WriterOptions = DEFAULT_WRITER,
) -> RunSession:
    """Makes the run of what was prepared, and opens its first session; `preload` and `writer` as for `create_run`."""
    contents = planned_contents(prepared.spec.name, plain_data(prepared.spec, explicit=True), prepared)
    files = input_files(prepared, inputs.files)
    contents = replace(contents, source=source, mark=mark_of_plan(prepared, prepared.planned))
    return create_run(root, contents, inputs=files, preload=preload, fill=fill, writer=writer)


def mark_of_plan(prepared: PreparedEval, to_run: int) -> int:
    """The admission mark that a session of this plan starts with; `to_run` is how many trials it runs."""
    return first_mark(most_solved_at_once(prepared.spec), to_run)


def planned_contents(
    name: str, config: dict[str, Any], prepared: PreparedEval, code: dict[str, TaskCode] | None = None
) -> SessionContents:
    """What a session record says of the plan, the code, and the packages it runs with; `code` if it is known."""
    salt = new_salt()
    return SessionContents(
        name=name,
        config=config,
        planned=prepared.planned,
        plan=plan_entries(prepared),
        code={task.name: code_of(task.task, salt) for task in prepared.tasks} if code is None else code,
        packages=packages(),
        weights=prepared.weights,
        takes_seed=prepared.takes_seed() if prepared.spec.deterministic else {},
    )


def input_files(prepared: PreparedEval, files: Mapping[str, Path]) -> dict[str, SourceFile]:
    """What is copied into a new run: its datasets, and the Python files that its tasks come from."""
    raw = raw_digests(prepared)
    copied = {name: SourceFile(path, raw.get(name, "")) for name, path in files.items()}
    return copied | {name: SourceFile(path) for name, path in copied_source_files(prepared).items()}


def raw_digests(prepared: PreparedEval) -> dict[str, str]:
    """The digests of the dataset files, as they are where they come from, and the identities of templates."""
    templates = {
        template_input(planned.name): packed.identity
        for planned in prepared.tasks
        if (packed := getattr(planned.task.solver, "packed", None)) is not None
    }
    templates |= {
        axis_file_input(planned.name, key): packed.identity
        for planned in prepared.tasks
        if planned.task.grid is not None
        for key, packed in planned.task.grid.copies.items()
    }
    datasets = {
        planned.source: raw_digest(Path(planned.task.dataset.path))
        for planned in prepared.tasks
        if isinstance(planned.task.dataset, DatasetSpec)
    }
    return datasets | templates


def plan_entries(prepared: PreparedEval) -> list[PlanEntry]:
    """How many trials are planned for each task and model, and who scores them."""
    return [
        PlanEntry(
            task.name,
            model,
            task.planned_of(model),
            task.slots,
            binary_scorers(task.task.scorers),
            panels_of(task.task.scorers),
            task.planned_by_value(model),
            _dependencies(task, model),
        )
        for task in prepared.tasks
        for model in task.models
    ]


def _dependencies(task: PlannedTask, model: str) -> dict[str, dict[str, list[str]]]:
    """By axis and value, the values that it depends on, of those that the model is asked with."""
    if task.task.grid is None:
        return {}
    there = task.planned_by_value(model)
    return {
        axis: {
            value: [one for one in entry.best_of if one in there[axis]]
            for value, entry in values.items()
            if value in there[axis]
        }
        for axis, values in task.task.grid.dependencies.items()
    }
