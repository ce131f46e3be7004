"""`evaluate` and `evaluate_async`: run tasks on models in this process, and get the run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.api.evaluation.request import (
    EvaluationArguments,
    ModelsGiven,
    ObserversGiven,
    RunsGiven,
    TasksGiven,
)
from holdfast.api.evaluation.session_call import SessionCall
from holdfast.api.run import Run
from holdfast.api.start import RunRequest, start_session
from holdfast.errors import HoldfastError


def evaluate(  # noqa: PLR0913 - each is a keyword with a default
    tasks: TasksGiven,
    models: ModelsGiven,
    *,
    run: str | Path | None = None,
    name: str = "",
    epochs: int | None = None,
    limit: int | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - as `--set` of the command line
    reuse: RunsGiven = (),
    redo: str | None = None,
    until: str | None = None,
    observers: ObserversGiven = (),
    progress: bool | None = None,
    **settings: Any,
) -> Run:
    """Runs tasks on models and returns the run.

    `run` is its directory, or its URL in an object store: a new run is created there, and one that exists is resumed,
    through the gate. `epochs` and `limit` apply to every task. `set` changes single keys by their paths, as `--set`
    does: `{"models.small.generation.temperature": 0}`. `reuse` names runs whose replies to identical requests are used
    again. `redo` runs trials of a run that exists once more, as `--redo` does: `redo="status=failed"` is the only thing
    that runs failed trials again. `until` stops every trial after a stage, as `--until` does: `until="solve"`.
    `observers` are functions that get the events of the session (`holdfast.events`).
    `settings` are further keys of an eval file, such as `seed` or `concurrency_limit`. Variables in a file `.env` of
    the current directory are used where the environment does not have them.

    Progress is shown in a terminal and in a notebook; `progress` is False for none, and True to print it elsewhere
    too. Works inside a running event loop. Failed and remaining trials are not raised: see `Run.ended` and the report.

    Raises:
        UsageError: an argument is wrong, `run` holds something else, or is a URL of an unknown kind.
        ConfigurationError: a task, model or setting is wrong, or a run to reuse does not exist.
        ResumeAborted: the run at `run` cannot resume with this.
        RunHeld: another session is executing it.
        StorageFailure: the disk or the store failed; what was acknowledged is intact.
        KeyboardInterrupt: Ctrl-C; calls in flight were waited for, what is finished is kept, and the message says how
            to resume. A second Ctrl-C stops at once.
    """
    given = EvaluationArguments(
        tasks=tasks,
        models=models,
        run=run,
        name=name,
        epochs=epochs,
        limit=limit,
        changes=set,
        reuse=reuse,
        redo=redo,
        until=until or "",
        observers=observers,
        settings=settings,
    )
    call = _session_call(given.request(), progress)
    try:
        return call.run()
    except HoldfastError as error:
        # Its way through the engine and two event loops says nothing about the mistake.
        raise error.with_traceback(None) from error.__cause__


async def evaluate_async(  # noqa: PLR0913 - as above
    tasks: TasksGiven,
    models: ModelsGiven,
    *,
    run: str | Path | None = None,
    name: str = "",
    epochs: int | None = None,
    limit: int | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - as `--set` of the command line
    reuse: RunsGiven = (),
    redo: str | None = None,
    until: str | None = None,
    observers: ObserversGiven = (),
    progress: bool | None = None,
    **settings: Any,
) -> Run:
    """As `evaluate`, for a coroutine.

    Raises:
        UsageError: an argument is wrong, `run` holds something else, or is a URL of an unknown kind.
        ConfigurationError: a task, model or setting is wrong, or a run to reuse does not exist.
        ResumeAborted: the run at `run` cannot resume with this.
        RunHeld: another session is executing it.
        StorageFailure: the disk or the store failed; what was acknowledged is intact.
    """
    given = EvaluationArguments(
        tasks=tasks,
        models=models,
        run=run,
        name=name,
        epochs=epochs,
        limit=limit,
        changes=set,
        reuse=reuse,
        redo=redo,
        until=until or "",
        observers=observers,
        settings=settings,
    )
    return await _session_call(given.request(), progress).run_async()


def _session_call(request: RunRequest, progress: bool | None) -> SessionCall:  # noqa: FBT001 - as it is given
    has_files = all(task.use for task in (request.tasks or {}).values())
    return SessionCall(partial(start_session, request), progress=progress, has_files=has_files)
