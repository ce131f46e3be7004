"""The targets that a task has had in earlier sessions, and the scores that still hold under those of now.

A rescoring with edited targets gives the slots of a task other names, for a metric is taken over one version of its
scorer. Most samples may have kept their targets: their scores are taken over into the new slots, and no scorer or judge
is asked. Targets that are edited back are recognised as those that they were.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import msgspec

from holdfast.digests import json_digest
from holdfast.engine.opening.resumed_inputs import select_samples
from holdfast.engine.planning.inputs import SavedInputs, input_name
from holdfast.engine.planning.plan import PlannedTask
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.engine.planning.saved_eval import saved_eval
from holdfast.errors import HoldfastError
from holdfast.run.core.layout import Layout
from holdfast.run.core.recorded_code import recorded_code
from holdfast.run.core.records import SessionRecord, TaskCode
from holdfast.run.core.slots.slot_names import base_name
from holdfast.run.core.slots.slot_versions import recorded_version, scorer_version, slots_by_name
from holdfast.run.fold.reader import RunReader
from holdfast.spec import plain_data
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.from_spec import samples_on_record

_TEMPLATE = "target"
"""The setting of a task's code that says how its targets are made of its columns."""


class TaskTargets(NamedTuple):
    """The targets of a task: what its samples have, and the template that makes targets of that."""

    dataset: Dataset
    template: str

    @property
    def digest(self) -> str:
        dataset = self.dataset
        rows = [[dataset.key(at), dataset.target_digest(at).hex()] for at in range(len(dataset))]
        return json_digest([self.template, rows])

    def agrees_at(self, position: int, other: TaskTargets) -> bool | None:
        """Whether the sample at a position has the same target in both; None if the other does not have the sample."""
        place = other.dataset.position(self.dataset.key(position))
        if place is None:
            return None
        same = self.dataset.target_digest(position) == other.dataset.target_digest(place)
        return same and self.template == other.template

    def agrees_with(self, other: TaskTargets) -> bool:
        """Whether no sample that both have has another target."""
        return all(self.agrees_at(position, other) is not False for position in range(len(self.dataset)))


def targets_of(task: PlannedTask, code: TaskCode) -> TaskTargets:
    """The targets of a task of the next session."""
    return TaskTargets(task.dataset, code.settings.get(_TEMPLATE, ""))


class EarlierTargets:
    """The versions of a task's targets, by what stands for them in the records of sessions; read when first needed."""

    def __init__(self, layout: Layout, sessions: Sequence[SessionRecord], task: str) -> None:
        self._layout, self._sessions, self._task = layout, sessions, task

    @cached_property
    def versions(self) -> dict[str, TaskTargets]:
        """Newest first; a version whose copy is gone or damaged is left out."""
        found: dict[str, TaskTargets | None] = {}
        for session in reversed(self._sessions):
            code = session.code.get(self._task)
            if code is not None and code.targets not in found:
                found[code.targets] = self._read(session, code)
        return {value: targets for value, targets in found.items() if targets is not None}

    def value_of(self, targets: TaskTargets) -> str:
        """What stands for these targets: as before if a session has had them, or else their digest."""
        same = (value for value, earlier in self.versions.items() if targets.agrees_with(earlier))
        return next(same, targets.digest)

    def _read(self, session: SessionRecord, code: TaskCode) -> TaskTargets | None:
        try:
            spec = saved_eval(session)
            entry = spec.tasks[self._task]
            if (task := samples_on_record(self._task, spec, code)) is None:
                return None
            rows = SavedInputs(self._layout, session.inputs).copied_rows(input_name(self._task, entry), self._task)
            limit = code.limit if entry.limit is None and entry.use else entry.limit
            return TaskTargets(select_samples(task, rows, limit, entry.sample_ids), code.settings.get(_TEMPLATE, ""))
        except HoldfastError:
            return None


def find_scores_that_hold(
    prepared: PreparedEval, reader: RunReader, code: Mapping[str, TaskCode], weights: Mapping[str, str]
) -> None:
    """Lets the tasks of a plan whose targets have changed take over the scores of samples whose targets are the same.

    `code` is that of the next session, with its trees, and `weights` are the digests of models that are files.
    """
    for place, task in enumerate(prepared.tasks):
        versions = {session.code[task.name].targets for session in reader.sessions if task.name in session.code}
        if len(versions | {code[task.name].targets}) > 1:
            models = plain_data(prepared.spec, explicit=True)["models"]
            held = _ScoresThatHold(task, reader, code[task.name], models, weights)
            prepared.tasks[place] = task._replace(scores_that_hold=held)


class _ScoresThatHold:
    """Finds the slot of an earlier version of the targets whose score holds for a trial."""

    def __init__(
        self,
        task: PlannedTask,
        reader: RunReader,
        code: TaskCode,
        models: Mapping[str, Any],
        weights: Mapping[str, str],
    ) -> None:
        # Under another session the reader may learn of more sessions: those before this one are meant.
        self._sessions = list(reader.sessions)
        self._task, self._code, self._models, self._weights = task.name, code, models, weights
        self._targets = targets_of(task, code)
        self._earlier = EarlierTargets(reader.layout, self._sessions, task.name)
        self._slots_before = cache(lambda name, value: list(self._same_scorers(name, value)))

    def slot_for(self, slot: str, position: int, filled: Container[str]) -> str | None:
        """The name of a slot among those filled; None if the slot has to be scored."""
        for value, earlier in self._earlier.versions.items():
            if value == self._code.targets or not self._targets.agrees_at(position, earlier):
                continue
            for before in self._slots_before(base_name(slot), value):
                if before in filled and before != slot:
                    return str(before)
        return None

    def _same_scorers(self, name: str, value: str) -> Iterator[str]:
        """The slots that a scorer had under other targets and in which everything else about it was the same."""
        code = msgspec.structs.replace(self._code, targets=value)
        version = scorer_version(name, code, self._models, self._weights)
        for number in range(len(self._sessions), 0, -1):
            session = self._sessions[number - 1]
            slot, recorded = slots_by_name(session, self._task).get(name), session.code.get(self._task)
            if slot is None or recorded is None or recorded.targets != value:
                continue
            if recorded_version(name, self._task, session, recorded_code(self._sessions[:number])) == version:
                yield slot
