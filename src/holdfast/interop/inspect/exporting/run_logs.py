"""The logs of a run: one for each task, model and combination of axes, because a log of Inspect's has one of each.

All are written side by side in one pass over the run, and none is at its place before the run has been read.
"""

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from holdfast.analysis.metrics import Metric, SampleScores
from holdfast.errors import UsageError
from holdfast.interop.inspect.eval_archive import SUFFIX, SampleKey
from holdfast.interop.inspect.exporting.exported_trial import ExportedGroup, ExportedRun, ExportedTrial, GroupPlan
from holdfast.interop.inspect.exporting.trial_sample import sample_summary, trial_sample
from holdfast.interop.inspect.log_writer import LogWriter
from holdfast.storage.filesystem import FileSystem, RealFileSystem

_ACCURACY, _MEAN, _STDERR = "accuracy", "mean", "stderr"
_ID_LENGTH = 22


class ExportedLog(msgspec.Struct, frozen=True):
    """One log that was written."""

    log: str
    task: str
    model: str
    axes: dict[str, str]
    samples: int
    errors: int
    status: str


class RunLogs:
    """The logs that are being written."""

    def __init__(
        self,
        run: ExportedRun,
        place: Callable[[str], Path],
        plan_of: Callable[[ExportedGroup], GroupPlan],
        *,
        overwrite: bool = False,
        fs: FileSystem | None = None,
    ) -> None:
        self._run, self._place, self._plan_of, self._overwrite = run, place, plan_of, overwrite
        self._fs = fs or RealFileSystem()
        self._open: dict[ExportedGroup, _GroupLog] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._stack.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def add(self, group: ExportedGroup, trial: ExportedTrial) -> None:
        """Writes a trial to the log of its group."""
        if group not in self._open:
            self._open[group] = self._stack.enter_context(self._new_log(group))
        self._open[group].add(trial)

    def _new_log(self, group: ExportedGroup) -> "_GroupLog":
        path = self._place(log_name(self._run, group))
        if path.exists() and not self._overwrite:
            raise UsageError(f"{path} exists.", hint="Give --overwrite to replace it, or another --output.")
        return _GroupLog(self._fs, path, self._run, group, self._plan_of(group))

    def finish(self) -> list[ExportedLog]:
        """Writes the end of every log."""
        return [log.finish() for _, log in sorted(self._open.items())]


def log_name(run: ExportedRun, group: ExportedGroup) -> str:
    """The file name of a log, from which Inspect reads time, task and id."""
    created = run.created.replace(":", "-").replace("+", "-")
    return f"{created}_{_file_word(group.task)}_{_id_of(run, group)}{SUFFIX}"


def _file_word(text: str) -> str:
    kept = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-.") else "-" for letter in text)
    return kept.strip(".") or "task"


def _id_of(run: ExportedRun, group: ExportedGroup) -> str:
    """The same for the same part of the same run."""
    return hashlib.sha256(repr((run.id, *group)).encode()).hexdigest()[:_ID_LENGTH]


class _GroupLog:
    """One log."""

    def __init__(self, fs: FileSystem, path: Path, run: ExportedRun, group: ExportedGroup, plan: GroupPlan) -> None:
        self._path, self._group, self._plan = path, group, plan
        self._spec = _spec(run, group, plan)
        self._writer = LogWriter(fs, path, self._spec, _inspect_plan(plan))
        self._scores: dict[str, SampleScores] = {}
        self._unscored: dict[str, int] = {}
        self._samples: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._writer.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._writer.__exit__(kind, *rest)

    def add(self, trial: ExportedTrial) -> None:
        sample = trial_sample(trial, self._plan.served)
        self._writer.add(SampleKey(trial.sample, trial.epoch), sample, sample_summary(sample))
        number = self._samples.setdefault(trial.sample, len(self._samples))
        for name, value in trial.scores.items():
            if value is None:
                self._unscored[name] = self._unscored.get(name, 0) + 1
            else:
                scores = self._scores.setdefault(name, SampleScores())
                scores.add(value, number, is_repeated=self._plan.epochs > 1)

    def finish(self) -> ExportedLog:
        writer, is_complete = self._writer, self._plan.is_complete
        done = writer.samples - writer.errors
        missing = f"The run is not complete: {done} of the trials in this log are."
        error = None if is_complete else {"message": missing, "traceback": missing, "traceback_ansi": missing}
        status = "success" if is_complete else "error"
        results = {
            "total_samples": max(writer.samples, self._plan.samples * self._plan.epochs),
            "completed_samples": done,
            "scores": [self._result(name, scores.metric()) for name, scores in sorted(self._scores.items())],
        }
        # Inspect's readers of single samples want their ids, which are all known only now.
        dataset = {**self._spec["dataset"], "sample_ids": list(self._samples)}
        writer.finish(status=status, error=error, results=results, eval={**self._spec, "dataset": dataset})
        group = self._group
        return ExportedLog(
            str(self._path), group.task, group.model, dict(group.axes), writer.samples, writer.errors, status
        )

    def _result(self, name: str, metric: Metric) -> dict[str, Any]:
        """The metrics of a scorer, as `holdfast report` has them."""
        title = _ACCURACY if name in self._plan.binary else _MEAN
        values = {title: metric.value, _STDERR: metric.stderr}
        return {
            "name": name,
            "scorer": name,
            **({"reducer": "mean"} if self._plan.epochs > 1 else {}),
            "scored_samples": metric.n_trials,
            "unscored_samples": self._unscored.get(name, 0),
            "params": {},
            "metrics": {
                key: {"name": key, "value": value, "params": {}} for key, value in values.items() if value is not None
            },
        }


def _spec(run: ExportedRun, group: ExportedGroup, plan: GroupPlan) -> dict[str, Any]:
    ident = _id_of(run, group)
    metrics = {name: [_ACCURACY if name in plan.binary else _MEAN, _STDERR] for name in plan.scorers}
    return {
        "created": run.created,
        "eval_id": ident,
        "run_id": run.id,
        "task_id": ident,
        "task": group.task,
        "task_version": 0,
        "task_args": dict(group.axes),
        "dataset": {"name": plan.dataset, **({"samples": plan.samples} if plan.samples else {}), "shuffled": False},
        "model": plan.served,
        "model_generate_config": {},
        "config": {"epochs": plan.epochs},
        "scorers": [
            {"name": name, "metrics": [{"name": metric, "options": {}} for metric in chosen]}
            for name, chosen in metrics.items()
        ],
        "packages": {"holdfast": run.version, **run.packages},
        "metadata": {"holdfast": {"run": run.name, "model": group.model, "generation": dict(plan.generation)}},
    }


def _inspect_plan(plan: GroupPlan) -> dict[str, Any]:
    return {"name": "plan", "steps": [{"solver": plan.solver, "params": {}, "params_passed": {}}], "config": {}}
