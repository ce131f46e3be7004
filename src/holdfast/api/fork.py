"""Forking a run: the one place where it is put together, for the command line and for `holdfast.fork`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.api.evaluation.request import TasksGiven, checked_changes, tasks_by_name
from holdfast.api.offered_eval import offer_eval
from holdfast.api.run import Run
from holdfast.api.start import OfferEval, naming_run_at
from holdfast.engine.opening.fork import ForkSummary, fork_run
from holdfast.engine.opening.new_run import default_root
from holdfast.engine.planning.saved_eval import eval_directory, last_session, saved_eval
from holdfast.errors import UsageError
from holdfast.models.env_file import read_env_file
from holdfast.run.core.prices import USD
from holdfast.run.fold.reader import RunReader
from holdfast.run.import_origin import import_origin, what_is_possible
from holdfast.run.locate import find_run, refuse_blank
from holdfast.spec import EvalSpec
from holdfast.storage.store_url import is_url
from holdfast.suggestions import suggest_or_list
from holdfast.tasks.task import Task
from holdfast.terminal.stderr import print_warning


def fork(
    source: str | Path | Run,
    *,
    run: str | Path | None = None,
    config: str | Path | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - as `--set` of the command line
    tasks: TasksGiven | None = None,
) -> Run:
    """Makes a new run with another eval, and keeps every trial of `source` whose answer would be the same.

    `run` is the new run's directory. Its eval is the one in the file `config`, or else the source's own; `set` changes
    single keys of it, as for `evaluate`. `tasks` are those that exist only in this process. No model is called: resume
    the new run to run what remains. `Run.forked` of the result says what was kept.

    Raises:
        NotARun: there is no run `source`.
        UsageError: an argument is wrong, or `run` exists already.
        ConfigurationError: the eval is wrong.
        StorageFailure: the new run cannot be written.
    """
    offer = offer_eval(checked_changes(set or {}), Path(config) if config is not None else None, "fork()")
    place = source.place if isinstance(source, Run) else str(source)
    given = tasks_by_name(tasks) if tasks is not None else {}
    forked = make_fork(place, offer, run, tasks=given, origin=str(config or place))
    for warning in forked.warnings:
        print_warning(warning)
    return Run.open(forked.run, forked=forked)


def make_fork(
    source: str,
    offer: OfferEval | None,
    place: str | Path | None,
    *,
    tasks: Mapping[str, Task] | None = None,
    origin: str = "",
) -> ForkSummary:
    """Makes the new run at a place, or below `runs`, with the eval that is offered or else the source's own.

    Raises:
        NotARun: there is no run `source`.
        UsageError: the place is a URL, or something is there; a task is given that the eval does not have.
        ConfigurationError: the eval is wrong.
        StorageFailure: the new run cannot be written.
        StartInterrupted: Ctrl-C.
    """
    if place is not None and is_url(str(place)):
        raise UsageError(f"{place} is a URL; a fork is made in a directory.", hint="Name a directory for it.")
    if place is not None:
        refuse_blank(str(place), "the new run's directory")
    root = find_run(source)
    spec, warnings = _forked_eval(root, offer)
    _refuse_unknown_tasks(spec, tasks or {})
    new = Path(place) if place is not None else default_root(spec)
    with naming_run_at(str(new)):
        started, forked = fork_run(root, spec, new, origin=origin or str(root), tasks=tasks)
        started.session.close("forked")
    forked.currency = spec.currency or USD
    forked.warnings = [*warnings, *started.warnings]
    return forked


def _forked_eval(root: Path, offer: OfferEval | None) -> tuple[EvalSpec, list[str]]:
    """The eval of the new run, and what was noticed in the `.env` beside the old one."""
    with contextlib.closing(RunReader(root)) as reader:
        last = last_session(reader)
        if (origin := import_origin(reader)) is not None:
            raise UsageError(
                f"{root} was imported from {origin.tool}: a fork of it could run no trial.",
                hint=what_is_possible(reader, str(root)),
            )
    warnings = read_env_file(eval_directory(last))
    saved = saved_eval(last)
    return (saved if offer is None else offer(saved).spec), warnings


def _refuse_unknown_tasks(spec: EvalSpec, tasks: Mapping[str, Task]) -> None:
    for name in tasks:
        if name not in spec.tasks:
            raise UsageError(f"The eval has no task {name!r}.", hint=suggest_or_list(name, list(spec.tasks)))
