"""The slots of the next session: those of scorers that are as they were keep their names, others get new ones.

Where a rescoring changes a scorer, its judge or the targets, the scores that are on record stay in their slots, and
the changed scorer fills others beside them. A scorer that is changed back finds its own slots again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.engine.planning.plan import PlannedTask
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.run.core.recorded_code import recorded_code
from holdfast.run.core.records import SessionRecord, TaskCode
from holdfast.run.core.slots.slot_names import VERSION_MARK, judge_of, scorer_of, versioned
from holdfast.run.core.slots.slot_versions import recorded_version, scorer_version, slots_by_name
from holdfast.run.drift.gate import Decision
from holdfast.spec import Drift, plain_data
from holdfast.spec.compare import DriftVerdict
from holdfast.spec.loading.error_messages import key_path


def name_slots(
    prepared: PreparedEval,
    sessions: Sequence[SessionRecord],
    code: Mapping[str, TaskCode],
    weights: Mapping[str, str],
    decision: Decision,
) -> None:
    """Gives the tasks of a plan the names of their slots.

    `code` is that of the next session, with its trees, and `weights` are the digests of models that are files.
    """
    if not decision.changes and not _has_versions(sessions[-1]):
        return
    models = plain_data(prepared.spec, explicit=True)["models"]
    for place, task in enumerate(prepared.tasks):
        names = _SlotNames(task, sessions, code[task.name], models, weights, decision)
        prepared.tasks[place] = task._replace(versions=dict(names.versions()))


def _has_versions(session: SessionRecord) -> bool:
    return any(VERSION_MARK in slot for entry in session.plan for slot in entry.scorers)


def has_changed_targets(task: PlannedTask, decision: Decision) -> bool:
    """Whether the targets of a task are others than in the session before."""
    place = key_path("tasks", task.name)
    paths = {f"{place}.{name}" for name in ("target", "dataset", "use", "solver")}
    return any(item.path in paths and item.drift is Drift.SCORING for item in decision.differences)


class _SlotNames:
    """The slots of one task."""

    def __init__(
        self,
        task: PlannedTask,
        sessions: Sequence[SessionRecord],
        code: TaskCode,
        models: Mapping[str, Any],
        weights: Mapping[str, str],
        decision: Decision,
    ) -> None:
        self._task, self._sessions, self._code = task, sessions, code
        self._models, self._weights = models, weights
        self._changed = {item.path for item in decision.differences if item.verdict is DriftVerdict.APPLIED}

    def versions(self) -> Iterator[tuple[str, str]]:
        """By scorer, the slots that are not called as the scorer is."""
        for scorer in self._task.task.scorers:
            if (slot := self._slot(scorer.name)) != scorer.name:
                yield scorer.name, slot

    def _slot(self, name: str) -> str:
        task, sessions = self._task.name, self._sessions
        last = slots_by_name(sessions[-1], task).get(name)
        if last is not None and not self._may_differ(name):
            return last
        version = scorer_version(name, self._code, self._models, self._weights)
        for number in range(len(sessions), 0, -1):
            slot = slots_by_name(sessions[number - 1], task).get(name)
            if (
                slot is not None
                and recorded_version(name, task, sessions[number - 1], recorded_code(sessions[:number])) == version
            ):
                return slot
        is_known = any(name in slots_by_name(session, task) for session in sessions)
        return versioned(name, version) if is_known else name

    def _may_differ(self, name: str) -> bool:
        """Whether a change may concern a scorer: its own settings or code, those of its judge, or the targets."""
        place = key_path("tasks", self._task.name)
        own = {f"{place}.scorers.{name}", f"{place}.scorers.{scorer_of(name)}"}
        targets = {f"{place}.{field}" for field in ("target", "dataset", "use", "solver")}
        judge = key_path("models", judge_of(name)) if judge_of(name) else None
        is_judge_changed = judge is not None and any(path.startswith(f"{judge}.") for path in self._changed)
        return bool(self._changed & (own | targets)) or is_judge_changed
