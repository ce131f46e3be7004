"""`evaluate` and `evaluate_async`: run tasks on models in this process, and get the run."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.api.execute import ending_commands, execute_session
from holdfast.api.run import Run
from holdfast.api.start import RunRequest, start_session
from holdfast.engine.execution import SessionOutcome
from holdfast.engine.opening.complete_run import CompleteRun
from holdfast.engine.opening.new_run import StartedSession
from holdfast.engine.planning.prepared_eval import IN_MEMORY
from holdfast.errors import ResumeAborted, RunHeld, StorageFailure, UsageError
from holdfast.models.env_file import read_env_file
from holdfast.spec import EvalSpec, resolve, typed_eval
from holdfast.tasks import Task, TaskFactory


def evaluate(
    tasks: Task | TaskFactory | Iterable[Task | TaskFactory],
    models: Iterable[str] | Mapping[str, Any],
    *,
    run: str | Path | None = None,
    name: str = "",
    **settings: Any,
) -> Run:
    """Runs tasks on models and returns the run.

    `run` is its directory, or its URL in an object store: a new run is created there, and one that exists is resumed,
    through the gate. Variables in a file `.env` of the current directory are used where the environment does not have
    them. `settings` are further keys of an eval file, such as `seed` or `concurrency_limit`; beside them,
    `reuse` names runs whose replies to identical requests are used again, and `observers` are functions that get the
    events of the session (`holdfast.events`). Works inside a running event loop too, as in
    a notebook. Failed and remaining trials are not raised: see `Run.ended` and the report.

    Raises:
        UsageError: `run` holds something else, or is a URL of an unknown kind.
        ConfigurationError: a task, model or setting is wrong, or a run to reuse does not exist.
        ResumeAborted: the run at `run` cannot resume with this.
        RunHeld: another session is executing it.
        StorageFailure: the disk or the store failed; what was acknowledged is intact.
        KeyboardInterrupt: Ctrl-C; what is finished is kept, the same call resumes.
    """
    coroutine = _interruptible(evaluate_async(tasks, models, run=run, name=name, **settings))
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    # In a notebook the loop of this thread is taken; the run gets a thread and a loop of its own.
    return _EvaluationThread(coroutine).wait()


async def evaluate_async(
    tasks: Task | TaskFactory | Iterable[Task | TaskFactory],
    models: Iterable[str] | Mapping[str, Any],
    *,
    run: str | Path | None = None,
    name: str = "",
    **settings: Any,
) -> Run:
    """As `evaluate`, for a coroutine.

    Raises:
        UsageError: `run` holds something else, or is a URL of an unknown kind.
        ConfigurationError: a task, model or setting is wrong, or a run to reuse does not exist.
        ResumeAborted: the run at `run` cannot resume with this.
        RunHeld: another session is executing it.
        StorageFailure: the disk or the store failed; what was acknowledged is intact.
    """
    warnings = read_env_file(Path.cwd())
    made = _tasks_by_name(tasks)
    # No parameters of their own: code that was compared before they came would count as changed.
    reuse = settings.pop("reuse", ())
    observers = settings.pop("observers", ())
    observers = [observers] if callable(observers) else list(observers)
    reused = [str(other) for other in ([reuse] if isinstance(reuse, str | Path) else reuse)]
    spec = _eval_from_arguments(made, models, name, settings)
    place = str(run) if run is not None else None
    request = RunRequest(
        spec,
        place,
        tasks=made,
        reuse=reused,
        source="Python",
        observers=observers,
        or_resume=True,
        warnings=warnings,
    )
    started = start_session(request)
    ended = _no_session(started) if isinstance(started, CompleteRun) else await _session_outcome(started)
    return Run.open(started.place, ended=ended)


def _no_session(complete: CompleteRun) -> SessionOutcome:
    return SessionOutcome("completed", complete.exit_code, complete.counts)


async def _session_outcome(started: StartedSession) -> SessionOutcome:
    """Executes the session; what ended it early is raised, and what is amiss with the store is its warning."""
    for warning in started.warnings:
        # Before the first call: money may be saved by it.
        sys.stderr.write(f"holdfast: warning: {warning}\n")
    ended = await execute_session(started)
    for error in (StorageFailure, ResumeAborted, RunHeld):
        if ended.exit_code == error.exit_code:
            raise error(ended.warning)
    warnings = (ended.warning, *started.warnings, started.not_uploaded_text())
    return replace(ended, warning=" ".join(filter(None, warnings)))


async def _interruptible(coroutine: Coroutine[Any, Any, Run]) -> Run:
    """Ctrl-C, which cancels it, also ends the commands of its tasks."""
    with ending_commands():
        return await coroutine


class _EvaluationThread:
    """Runs a coroutine in a thread with an event loop of its own; waiting for it can be interrupted."""

    def __init__(self, coroutine: Coroutine[Any, Any, Run]) -> None:
        self._coroutine = coroutine
        self._is_running = threading.Event()

    def wait(self) -> Run:
        with ThreadPoolExecutor(1, thread_name_prefix="holdfast-evaluate") as thread:
            running = thread.submit(asyncio.run, self._evaluate())
            try:
                return running.result()
            except KeyboardInterrupt:
                # Leaving the block waits for the thread, which would otherwise run to the end of the run.
                self._is_running.wait()
                self._loop.call_soon_threadsafe(self._task.cancel)
                raise

    async def _evaluate(self) -> Run:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._coroutine)
        self._is_running.set()
        return await self._task


def _tasks_by_name(tasks: Task | TaskFactory | Iterable[Task | TaskFactory]) -> dict[str, Task]:
    if not isinstance(tasks, Iterable):
        tasks = [tasks]
    given = list(tasks)
    made: dict[str, Task] = {}
    for item in given:
        task = item() if isinstance(item, TaskFactory) else item
        if not isinstance(task, Task):
            raise UsageError(
                f"{type(task).__name__} is not a task.", hint="Give a Task, or what a function with @task returns."
            )
        name = task.name or "task"
        if name in made:
            raise UsageError(f"Two tasks are called {name!r}.", hint="Give one of them another name.")
        made[name] = task
    if not made:
        raise UsageError("evaluate() needs at least one task.", hint="Give a Task, or a list of them.")
    return made


def _eval_from_arguments(
    tasks: Mapping[str, Task], models: Iterable[str] | Mapping[str, Any], name: str, settings: Mapping[str, Any]
) -> EvalSpec:
    given = [models] if isinstance(models, str) else models
    entries = dict(given) if isinstance(given, Mapping) else {model: model for model in given}
    data = {
        "name": name or "-".join(tasks)[:100],
        "directory": str(Path.cwd()),
        "models": entries,
        "tasks": {title: {"use": task.use or IN_MEMORY + title, "args": task.args} for title, task in tasks.items()},
        **settings,
    }
    return resolve(typed_eval(data, "evaluate()"), "evaluate()")
