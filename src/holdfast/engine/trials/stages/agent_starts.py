"""The tasks of which a session will start an agent: only their programs have to be on this machine.

A trial that is finished, has failed for good, or has the reply of its agent on record starts none; nor does a session
that scores answers again, or leaves its trials before the agent works.
"""

from __future__ import annotations

from holdfast.engine.planning.plan import PlannedTask, PlannedTrial
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.engine.planning.selection import TrialSelection, trials_of_task
from holdfast.engine.trials.history import AttemptState, TrialHistory
from holdfast.engine.trials.stages.stage_outcomes import is_beyond
from holdfast.run.core.records import SOLVE, PlanEntry
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.states import State


def tasks_starting_agents(
    selection: TrialSelection, reader: RunReader, prepared: PreparedEval, plan: list[PlanEntry]
) -> set[str]:
    """The names of the tasks of which the selected trials start an agent; `plan` is that of the next session."""
    tasks = [task for task in prepared.tasks if hasattr(task.task.solver, "check_program")]
    if not tasks or (selection.until and is_beyond(SOLVE, selection.until)):
        return set()
    starts = _AgentStarts(selection, reader, plan)
    return {task.name for task in tasks if starts.any_of(task)}


class _AgentStarts:
    """Looks at trials one by one, until one starts an agent."""

    def __init__(self, selection: TrialSelection, reader: RunReader, plan: list[PlanEntry]) -> None:
        self._selection, self._history = selection, TrialHistory(reader)
        self._fold = reader.fold.with_plan(plan)

    def any_of(self, task: PlannedTask) -> bool:
        if task.name in self._fold.stopped.keys() - self._selection.redone_tasks:
            return False
        return any(self._starts(planned) for planned in trials_of_task(task) if self._selection.takes(planned))

    def _starts(self, planned: PlannedTrial) -> bool:
        digest = bytes.fromhex(planned.key)
        trial = self._fold.find(planned.key) if digest in self._history.started else None
        if trial is None:
            return True
        is_redone = digest in self._selection.redo
        if is_redone and self._selection.start_from:
            return not is_beyond(self._selection.start_from, SOLVE)
        if trial.state.is_finished:
            return is_redone and _is_unanswered(self._history.attempt_again(planned.key))
        if trial.state is State.FAILED and not is_redone:
            return False
        return _is_unanswered(self._history.next_attempt(planned.key))


def _is_unanswered(state: AttemptState) -> bool:
    """Whether the agent has still to work in an attempt."""
    return state.answer is None and not any(step.model and step.error is None for step in state.steps)
