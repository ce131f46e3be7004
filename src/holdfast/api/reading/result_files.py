"""`write_result`: the result file of one trial, for programs that carry trials out by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.engine.planning.trial_keys import trial_key
from holdfast.errors import StorageFailure, UsageError
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import KEPT_STATUSES, AnswerRecord, Status, TrialRecord
from holdfast.run.core.result_file import write_result_file
from holdfast.run.core.run_id import first_run_id
from holdfast.storage import RealFileSystem


def write_result(  # noqa: PLR0913 - each is a keyword, most with a default
    run: str | Path,
    *,
    task: str,
    model: str,
    sample: str,
    scores: Mapping[str, float | None],
    epoch: int = 1,
    axes: Mapping[str, str] | None = None,
    status: str = "valid",
    answer: str | None = None,
    value: Any = None,
    attempt: int = 1,
) -> Path:
    """Writes `artifacts/TRIAL/result.json` in the directory of a run, durably; `holdfast repair` records it.

    `sample` is the id of the sample, or the digest that stands for it. `scores` has one entry for each scorer of the
    task, None for one that gave no number. `status` is `valid`, `limited` or `blocked`. A file that exists is replaced.

    Raises:
        UsageError: there is no such directory, or the trial cannot be written as a file.
        StorageFailure: the disk failed.
    """
    layout = Layout(Path(run))
    if not layout.root.is_dir():
        raise UsageError(f"{run} is not a directory.", hint="Name the directory of a run.")
    if status not in KEPT_STATUSES:
        raise UsageError(f"status is {status!r}.", hint="A result is valid, limited or blocked.")
    key = trial_key(task, model, axes or {}, sample, epoch)
    trial = TrialRecord(
        trial=key,
        attempt=attempt,
        status=Status(status),
        task=task,
        model=model,
        sample=sample,
        epoch=epoch,
        axes=dict(axes or {}),
        scores=dict(scores),
    )
    text = None if answer is None else AnswerRecord(trial=key, attempt=attempt, text=answer, value=value)
    fs = RealFileSystem()
    try:
        if not layout.artifacts.is_dir():
            fs.make_directory(layout.artifacts)
            fs.sync_directory(layout.root)
        return write_result_file(fs, layout, trial, text, first_run_id(fs, layout))
    except OSError as error:
        raise StorageFailure(f"A result file of {run} could not be written: {error.strerror}.") from error
