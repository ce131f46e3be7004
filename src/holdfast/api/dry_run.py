"""A dry run: all that a start checks, by the same functions, and nothing is started.

Nothing is called, and nothing is written into a run or a store. One thing is left out: whether a store honours
conditional writes, which cannot be found out without writing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.api.start import RunRequest, check_surroundings, local_root
from holdfast.engine.opening.comparing.growth import (
    Growth,
    RemainingCost,
    measure_growth,
    measure_remaining,
    trials_to_ask,
)
from holdfast.engine.opening.earlier_targets import find_scores_that_hold
from holdfast.engine.opening.new_run import plan_entries, plan_new_run
from holdfast.engine.opening.next_code import next_code, with_trees
from holdfast.engine.opening.remote_run import open_readable_copy, refuse_existing_remote
from holdfast.engine.opening.resume_plan import plan_resume
from holdfast.engine.planning.inputs import FreshInputs
from holdfast.engine.planning.prepared_eval import PreparedEval, copied_source_files, prepare_eval
from holdfast.engine.planning.saved_eval import last_session
from holdfast.engine.planning.selection import EVERYTHING
from holdfast.engine.planning.versioned_slots import name_slots
from holdfast.engine.trials.stages.agent_starts import tasks_starting_agents
from holdfast.errors import ConfigurationError
from holdfast.run.core.run_id import refuse_older
from holdfast.run.drift.gate import Decision
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.states import StateCounts
from holdfast.spec.loading.error_messages import naming_source
from holdfast.storage.leases.local import refuse_held
from holdfast.storage.store_url import is_url


@dataclass(frozen=True)
class CheckedRun:
    """What a start would do, once all that it checks was checked."""

    prepared: PreparedEval
    warnings: Sequence[str] = ()
    decision: Decision | None = None
    """Of a run that exists: what the gate has accepted."""
    counts: StateCounts | None = None
    """Of a run that exists: how many of the trials that it would have are finished."""
    growth: Growth | None = None
    """Of a run that exists: what would be added to it."""
    remaining: RemainingCost | None = None
    """Of a run that exists: what a resume would run beside that."""
    to_ask: Mapping[tuple[str, str], int] | None = None
    """Of a run that exists: by task and model, for how many trials models would be called."""
    refusal: ConfigurationError | None = None
    """Why a model cannot be opened, as without its key; what all would cost is known all the same."""


def check_session(request: RunRequest) -> CheckedRun:
    """Checks all that `start_session` checks, and starts nothing.

    Raises:
        UsageError: the place holds a run or something else, or is a URL of an unknown kind.
        ConfigurationError: a task, dataset or observer is wrong, or a run to reuse does not exist.
        ResumeAborted: the run that is there cannot be resumed with this eval.
        RunHeld: another session executes it.
        StorageFailure: the disk or the store failed, or no run can be written there.
    """
    check_surroundings(request)
    if request.or_resume and request.run_exists():
        return _check_resume(request)
    if request.place is not None and is_url(request.place):
        refuse_existing_remote(request.place)
    with contextlib.closing(FreshInputs()) as inputs:
        root = local_root(request.spec, request.place)
        prepared = plan_new_run(request.spec, root, inputs, request.tasks, request.check_plan)
    # Which files would be copied is of no interest, only the warnings about those that would not.
    copied_source_files(prepared)
    return CheckedRun(prepared, [*request.warnings, *prepared.warnings], refusal=_refusal(prepared, request.source))


def _refusal(prepared: PreparedEval, source: str, agents: Collection[str] | None = None) -> ConfigurationError | None:
    """Why the provider of a model cannot be opened, or an agent of a task, of these or any, cannot be started."""
    try:
        with naming_source(source):
            prepared.open_providers()
            prepared.check_programs(agents)
    except ConfigurationError as error:
        return error
    return None


def _check_resume(request: RunRequest) -> CheckedRun:
    place = str(request.place)
    root = open_readable_copy(place) if is_url(place) else Path(place)
    with contextlib.closing(RunReader(root)) as reader:
        refuse_older(reader.format, place)
        plan = plan_resume(reader, request.offer, request.tasks)
        with contextlib.closing(plan.inputs):
            prepared = prepare_eval(plan.decision.spec, plan.inputs, plan.tasks)
            whole = with_trees(next_code(reader, plan, prepared), reader.sessions)
            name_slots(prepared, reader.sessions, whole, plan.weights, plan.decision)
            find_scores_that_hold(prepared, reader, whole, plan.weights)
        request.check_plan(plan_entries(prepared))
        refusal = None
        if not reader.fold.counts.is_complete or plan.decision.changes:
            refuse_held(reader.fs, root)
            starting = tasks_starting_agents(EVERYTHING, reader, prepared, plan_entries(prepared))
            refusal = _refusal(prepared, request.source, starting)
        before, fold = last_session(reader).plan, reader.fold.with_plan(plan_entries(prepared))
        return CheckedRun(
            prepared,
            [*request.warnings, *prepared.warnings],
            plan.decision,
            fold.counts,
            measure_growth(before, prepared, reader),
            measure_remaining(before, prepared, reader, fold),
            trials_to_ask(fold),
            refusal,
        )
