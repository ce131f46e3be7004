"""Exporting a run as logs of Inspect's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

from holdfast.analysis.report import Report
from holdfast.api.run import Run
from holdfast.api.trial_results import TrialResult
from holdfast.errors import ResumeAborted, UsageError
from holdfast.interop.inspect.eval_archive import SUFFIX
from holdfast.interop.inspect.exporting.exported_trial import ExportedGroup, ExportedRun, ExportedTrial, GroupPlan
from holdfast.interop.inspect.exporting.run_logs import ExportedLog, RunLogs
from holdfast.models.message import Usage
from holdfast.run.core.records import PlanEntry, SessionRecord, StepRecord
from holdfast.run.fold.run_fold import FoldedTrial
from holdfast.spec import EvalSpec, plain_data


def export_inspect(run: Run, output: Path | None = None, *, overwrite: bool = False) -> list[ExportedLog]:
    """Writes a log for each task, model and combination of axes of a run, finished or not.

    `output` is a directory or, for a run that is one log, the file.

    Raises:
        UsageError: a log exists already, or the run has several and `output` is a file.
    """
    session = run.sessions[0]
    plans = GroupPlans(run)
    place = _place_of(run, output or Path(f"{run.path.name}-inspect"))
    about = ExportedRun(session.run, session.name, session.at, session.version, session.packages)
    with RunLogs(about, place, plans.find, overwrite=overwrite) as logs:
        for trial in run.select(None):
            found = trial.standing.group
            if not found.task:
                # Its first record is lost: nothing says what it is a trial of.
                continue
            group = ExportedGroup(found.task, found.model, tuple(sorted(found.axes.items())))
            logs.add(group, _exported(run, trial))
        return logs.finish()


def _place_of(run: Run, output: Path) -> Callable[[str], Path]:
    """Where the log of a name is written."""
    if output.suffix != SUFFIX:
        output.mkdir(parents=True, exist_ok=True)
        return lambda name: output / name
    taken: list[str] = []

    def only(name: str) -> Path:
        taken.append(name)
        if len(taken) > 1:
            raise UsageError(
                f"The run {run.place} is several logs: a log has one task and one model.",
                hint="Give a directory with --output.",
            )
        return output

    return only


def _exported(run: Run, trial: FoldedTrial) -> ExportedTrial:
    row = run.result(trial)
    usage = _usage_by_model(trial)
    return ExportedTrial(
        key=row.trial,
        sample=row.sample,
        epoch=row.epoch,
        state=str(row.state),
        reason=row.reason,
        input=row.input,
        target=row.target,
        metadata=row.metadata,
        answer=row.answer,
        scores=row.scores,
        judged={record.scorer: record for record in run.scores_of(row.trial)},
        usage=usage.pop(row.model, Usage()),
        other_usage=usage,
        seconds=row.seconds,
        error=row.error,
        steps=_steps(run, row),
    )


def _usage_by_model(trial: FoldedTrial) -> dict[str, Usage]:
    found: dict[str, Usage] = {}
    for (model, _), usage in trial.spent.shares.items():
        found[model] = found.get(model, Usage()) + usage
    return found


def _steps(run: Run, row: TrialResult) -> Iterator[StepRecord]:
    return (step for step in run.steps(row.trial) if step.attempt == row.attempt)


class GroupPlans:
    """What is known of the tasks and models of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._session: SessionRecord = run.sessions[-1]
        self._spec = _spec_of(self._session)

    def find(self, group: ExportedGroup) -> GroupPlan:
        """What is known of the task and the model of a group."""
        entry = next((entry for entry in self._session.plan if (entry.task, entry.model) == group[:2]), None)
        task = self._spec.tasks.get(group.task) if self._spec else None
        model = self._spec.models.get(group.model) if self._spec else None
        code = self._session.code.get(group.task)
        epochs = code.epochs if code is not None else 1
        return GroupPlan(
            dataset=task.dataset if task is not None and isinstance(task.dataset, str) else "",
            samples=self._samples(entry, code.axes if code else {}, epochs),
            epochs=epochs,
            served=f"{model.provider}/{model.model}" if model is not None else group.model,
            generation=plain_data(model.generation) if model is not None else {},
            scorers=tuple(entry.shown_scorers) if entry else (),
            binary=frozenset(entry.binary or ()) if entry else frozenset(),
            is_complete=self._is_complete(group),
            solver="generate" if task is not None and task.prompt else group.task,
        )

    def _samples(self, entry: PlanEntry | None, axes: dict[str, list[str]], epochs: int) -> int:
        """How many samples a log of the task has when it is complete."""
        combinations = 1
        for values in axes.values():
            combinations *= len(values) or 1
        return entry.planned // (epochs * combinations) if entry else 0

    def _is_complete(self, group: ExportedGroup) -> bool:
        found = self._report.tasks.get(group.task, {}).get(group.model)
        return found is not None and found.coverage.is_complete

    @cached_property
    def _report(self) -> Report:
        return self._run.report()


def _spec_of(session: SessionRecord) -> EvalSpec | None:
    from holdfast.engine.planning.saved_eval import saved_eval  # noqa: PLC0415 - for exports only

    try:
        return saved_eval(session)
    except ResumeAborted:
        return None
