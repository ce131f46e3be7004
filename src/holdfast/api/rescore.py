"""`rescore`: score the answers of a run with new or changed scorers, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.api.evaluation.request import TasksGiven, checked_changes, tasks_by_name
from holdfast.api.evaluation.session_call import SessionCall
from holdfast.api.offered_eval import offer_eval
from holdfast.api.run import Run
from holdfast.api.start import rescore_session
from holdfast.errors import HoldfastError


def rescore(
    run: str | Path | Run,
    *,
    config: str | Path | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - as `--set` of the command line
    where: str = "",
    tasks: TasksGiven | None = None,
    progress: bool | None = None,
) -> Run:
    """Scores the recorded answers of a run with new or changed scorers and judges; the model under test is not called.

    The scorers are those of the eval file `config`, or else the run's own with their code as it is now; `set` changes
    single keys, as for `evaluate`. `tasks` are those that exist only in this process, with their new scorers. `where`
    selects scores, as `--where` of `holdfast rescore` does: `"judge=b and status=valid"`. Earlier scores are kept:
    those of a changed scorer are called `NAME@VERSION`.

    Raises:
        NotARun: there is no such run.
        UsageError: an argument is wrong, or `where` matches nothing.
        ConfigurationError: the eval is wrong.
        ResumeAborted: more has changed than how answers are judged.
        RunHeld: another session is executing it.
        StorageFailure: the disk or the store failed; what was acknowledged is intact.
        KeyboardInterrupt: Ctrl-C; scores that are finished are kept.
    """
    call = _session_call(run, config, set, where, tasks, progress)
    try:
        return call.run()
    except HoldfastError as error:
        # Its way through the engine and two event loops says nothing about the mistake.
        raise error.with_traceback(None) from error.__cause__


async def rescore_async(
    run: str | Path | Run,
    *,
    config: str | Path | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - as above
    where: str = "",
    tasks: TasksGiven | None = None,
    progress: bool | None = None,
) -> Run:
    """As `rescore`, for a coroutine.

    Raises:
        NotARun: there is no such run.
        UsageError: an argument is wrong, or `where` matches nothing.
        ConfigurationError: the eval is wrong.
        ResumeAborted: more has changed than how answers are judged.
        RunHeld: another session is executing it.
        StorageFailure: the disk or the store failed; what was acknowledged is intact.
    """
    return await _session_call(run, config, set, where, tasks, progress).run_async()


def _session_call(
    run: str | Path | Run,
    config: str | Path | None,
    changes: Mapping[str, Any] | None,
    where: str,
    tasks: TasksGiven | None,
    progress: bool | None,  # noqa: FBT001 - as it is given
) -> SessionCall:
    offer = offer_eval(checked_changes(changes or {}), Path(config) if config is not None else None, "rescore()")
    given = tasks_by_name(tasks) if tasks is not None else {}
    place = run.place if isinstance(run, Run) else str(run)
    start = partial(rescore_session, place, offer, where or None, tasks=given, option_prefix="")
    return SessionCall(start, progress=progress, has_files=all(task.use for task in given.values()))
